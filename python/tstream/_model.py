# SPDX-License-Identifier: BSD-3-Clause
"""Decompositions: computed, loaded, made of arrays."""

import ctypes as c
import numbers
import operator
import os
import warnings
import weakref
from collections.abc import Iterable
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Union

import numpy as np

from ._lib import (ArgumentError, Array, Call, Mode, Path, Size, TstreamWarning, check, encoded, lib, mode_fn, reals, several_sweep_fn, size, sweep_fn,
                   ts_core_result, ts_cp_conf, ts_cp_result, ts_cpd_score_conf, ts_cpd_score_result, ts_error, ts_fit_result, ts_progress,
                   ts_save_conf, ts_session_conf, ts_several_conf, ts_several_result)
from ._tensor import Tensor, as_tensor

_formats = {"ktensor": 1, "npy": 2, "splatt": 4}
_precisions = {"float32": 0, "float64": 1}


def _warn_unseen(unseen: int, n: int) -> None:
    if unseen:
        warnings.warn(f"{unseen} of {n} cells have an index whose row in the model is zeros, as one that was never seen has: the model's 0 "
                      "there is no prediction", TstreamWarning, stacklevel=3)


def _table(columns: "Dict[str, Any]") -> Any:
    """A pandas.DataFrame, or a list of dict where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return [dict(zip(columns, row)) for row in zip(*(list(x) for x in columns.values()))]
    return pandas.DataFrame(columns)


class Evaluation:
    """How well a model tells the values of a tensor: what ``tstream score`` tells.

    A cell with a weight counts so many times in all but `nnz`.

    Attributes
    ----------
    nnz : int
        Nonzeros, or known cells of a dense tensor.
    weight : float
        As many, or the sum of their weights.
    rmse, mae : float
        Root mean square and mean magnitude of value - model.
    mean_value, mean_model : float
        At these cells.
    gaussian, poisson : float
        Log-likelihoods: of Gaussian residuals with the variance that they have; of counts as Poisson numbers whose means are the
        model's values, where the model is above 0, all cells counting. NaN where there is none.
    unseen : int
        Cells of which an index has a row of zeros in the model, as one that was never seen has: the 0 there is no prediction. A
        TstreamWarning tells of them.
    top : pandas.DataFrame, or list of dict where pandas is not installed, or None
        The nonzeros of largest residual, the largest first: an index for each mode (by its name, or ``mode0``), value, model
        and residual.
    slices : the same
        A row for each slice of a mode that has a nonzero: index, label (where the tensor has labels), nnz, weight, sums of
        values and of the model's (value, model), rmse and mae.
    """

    _names = ("nnz", "weight", "rmse", "mae", "mean_value", "mean_model", "gaussian", "poisson", "unseen")
    __slots__ = (*_names, "top", "slices")

    nnz: int
    weight: float
    rmse: float
    mae: float
    mean_value: float
    mean_model: float
    gaussian: float
    poisson: float
    unseen: int
    top: Any
    slices: Any

    def __repr__(self) -> str:
        return f"<Evaluation of {self.nnz} cells: rmse {self.rmse:.6g}, mae {self.mae:.6g}>"


class Sweep:
    """One sweep over all modes.

    Attributes
    ----------
    sweep : int
        From 1.
    fit, change : float
        1 - |X - model| / |X|, and its change.
    seconds, wait_seconds, copy_seconds, product_seconds, solve_seconds : float
    bytes_read : int
    n_singular : int
        Modes that needed the pseudo-inverse.
    n_dead : int
        Components that are zero in some mode.
    objective : float
        1/2 |X - model|^2 with penalties; NaN where there are none.
    rmse, held_out_rmse : float
        With `observed`: root mean square error at the listed cells, and at those that are held out; NaN where there are none.
    log_likelihood, violation : float
        With loss 'poisson': sum of x log m over the nonzeros without the sum of m over all cells; the largest violation
        of the conditions of an optimum that the sweep met. Else NaN.
    held_out_loss : float
        With `hold_out` and a loss other than 'least-squares': its mean at the cells that are held out. Else NaN.
    rank, seed : int
        Of the model, one of several or the only one.
    """

    _names = ("sweep", "fit", "change", "seconds", "wait_seconds", "copy_seconds",
              "product_seconds", "solve_seconds", "bytes_read", "n_singular", "n_dead",
              "objective", "rmse", "held_out_rmse", "log_likelihood", "violation", "held_out_loss")
    __slots__ = (*_names, "rank", "seed")

    sweep: int
    fit: float
    change: float
    seconds: float
    wait_seconds: float
    copy_seconds: float
    product_seconds: float
    solve_seconds: float
    bytes_read: int
    n_singular: int
    n_dead: int
    rmse: float
    held_out_rmse: float
    log_likelihood: float
    violation: float
    held_out_loss: float
    objective: float
    rank: int
    seed: int

    def __init__(self, s: Any, rank: int, seed: int) -> None:
        for name in self._names:
            setattr(self, name, getattr(s, name))
        self.rank, self.seed = rank, seed

    def __repr__(self) -> str:
        return f"sweep {self.sweep}: fit {self.fit:.6f} ({self.change:+.2e}), {self.seconds:.3g} s"


class _Owner:
    """Frees what the library holds when neither a model nor an array that looks into it is left."""

    def __init__(self, handle: Any) -> None:
        weakref.finalize(self, lib.ts_cpd_free, handle)


class _Factors:
    """The factor matrices, made when they are asked for."""

    def __init__(self, model: "Model") -> None:
        self._model = model
        self._made: "dict[int, Array]" = {}

    def __len__(self) -> int:
        return self._model.order

    def __iter__(self) -> "Iterator[Array]":
        return (self[m] for m in range(len(self)))

    def __getitem__(self, mode: Any) -> Any:
        if isinstance(mode, slice):
            return [self[m] for m in range(*mode.indices(len(self)))]
        mode = self._model._number(mode)
        if mode not in self._made:
            index, rows = self._model.rows(mode)
            if index is not None:
                whole = np.zeros((self._model.shape[mode], self._model.rank), dtype=rows.dtype)
                whole[index] = rows
                whole.flags.writeable = False
                rows = whole
            self._made[mode] = rows
        return self._made[mode]


class Model:
    """A decomposition: weights, and for each mode a factor matrix.

    It comes from :func:`cp`, :func:`load` and :meth:`from_factors`. Those of :func:`cp` have columns of norm 1,
    sorted by weight, with signs fixed.

    Attributes
    ----------
    weights : ndarray of float64, shape (rank,)
    factors : sequence of ndarray, shape (shape[mode], rank)
        Read-only, float32 or float64. They lie where the library holds them: nothing is copied. Of a mode
        with empty slices the matrix is made when it is asked for, of pages that are only touched where rows are not
        zero; :meth:`rows` gives what is held.
    shape : tuple of int
    rank : int
    history : list of Sweep
        Of the run, if there was one.
    converged, exact : bool
        How the run ended: the fit changed by less than the tolerance; nothing but rounding was left.
    sweeps_before : int
        Sweeps of an earlier run that this one went on from; they are not in `history`.
    mean : float or None
        What :func:`cp` subtracted, where it was asked to; one of the components has it.
    best_sweep : int or None
        With `patience`: the sweep, from 1, whose model this is.
    """

    def __init__(self, handle: Any, tensor: Optional[Tensor] = None) -> None:
        self._handle = handle
        self._owner = _Owner(handle)
        self._tensor = tensor
        self.rank = lib.ts_cpd_rank(handle)
        self.shape = tuple(lib.ts_cpd_dim(handle, m) for m in range(lib.ts_cpd_order(handle)))
        self.dtype = np.dtype((np.float32, np.float64)[lib.ts_cpd_precision(handle)])
        self.weights = self._view(lib.ts_cpd_weights(handle), np.float64, (self.rank,))
        self.factors = _Factors(self)
        self.history: "list[Sweep]" = []
        self.converged = self.exact = False
        self.sweeps_before = 0
        self.mean: Optional[float] = None
        self.best_sweep: Optional[int] = None

    def _view(self, address: int, dtype: Any, shape: "tuple[int, ...]") -> Array:
        """What the library holds, as an array that keeps it alive."""
        dtype = np.dtype(dtype)
        n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = (c.c_char * n).from_address(address)
        memory._owner = self._owner
        array = np.frombuffer(memory, dtype=dtype).reshape(shape)
        array.flags.writeable = False
        return array

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<tstream.Model: {' x '.join(map(str, self.shape))}, rank {self.rank}, {self.dtype}>"

    def _number(self, mode: Mode) -> int:
        if isinstance(mode, str):
            if self._tensor is None:
                raise ArgumentError(f"no mode is called {mode!r}: the model has no tensor with names")
            return self._tensor.mode(mode)
        if not -self.order <= mode < self.order:
            raise IndexError(f"there is no mode {mode}, only 0 to {self.order - 1}")
        return int(mode) % self.order

    def rows(self, mode: Mode) -> "tuple[Optional[Array], Array]":
        """The rows of a factor that are held: all others are zeros.

        Returns
        -------
        index : ndarray of uint64, shape (n,), or None
            Their indices, ascending; None where row i is index i.
        rows : ndarray, shape (n, rank)
        """
        mode = self._number(mode)
        n = lib.ts_cpd_held(self._handle, mode)
        index = lib.ts_cpd_index(self._handle, mode)
        rows = self._view(lib.ts_cpd_factor(self._handle, mode), self.dtype, (n, self.rank))
        return None if index is None else self._view(index, np.uint64, (n,)), rows

    def top(self, component: int, mode: Mode = 0, n: int = 10) -> Any:
        """The strongest entries of a component.

        Parameters
        ----------
        component : int
            From 0.
        mode : int or str
        n : int

        Returns
        -------
        pandas.DataFrame, or list of dict where pandas is not installed
            Columns index, value and, where the tensor has labels, label; largest magnitude first.
        """
        mode, component, n = self._number(mode), operator.index(component), operator.index(n)
        if not 0 <= component < self.rank:
            raise ArgumentError(f"there is no component {component}, only 0 to {self.rank - 1}")
        if n < 0:
            raise ArgumentError(f"n={n}: it is not negative")
        index, value = np.empty(n, dtype=np.uint64), np.empty(n)
        found, err = c.c_uint32(), ts_error()
        check(lib.ts_cpd_top(self._handle, mode, component, n, index.ctypes.data, value.ctypes.data,
                             c.byref(found), c.byref(err)), err)
        table: "dict[str, Any]" = {"index": index[:found.value], "value": value[:found.value]}
        if self._tensor is not None and self._tensor._handle is not None:
            label = self._tensor.labels(mode, table["index"])
            if any(x is not None for x in label):
                table["label"] = label
        return _table(table)

    def fit(self, tensor: "Union[Tensor, Path, Array, None]" = None, *, details: bool = False, threads: int = 0,
            host_memory: Size = None, cpu: bool = False, gpus: Any = None, gpu_memory: Size = None) -> Any:
        """The exact fit 1 - |X - model| / |X|, computed in float64.

        Parameters
        ----------
        tensor : Tensor, path or array, optional
            As :func:`cp` takes it; by default that of the run.
        details : bool
            Return a dict with fit, error (what rounding may have changed), residual, norm and model_norm.
        threads, host_memory, cpu, gpus, gpu_memory
            As in :func:`cp`.

        Returns
        -------
        float or dict
        """
        tensor = self._tensor if tensor is None else as_tensor(tensor)
        if tensor is None:
            raise ArgumentError("a fit needs a tensor")
        call = Call()
        conf = _session_conf(call, threads=threads, host_memory=host_memory, cpu=cpu, gpus=gpus,
                             gpu_memory=gpu_memory)
        ret = ts_fit_result()
        call.run(lib.ts_fit, tensor._open(), self._handle, c.byref(conf), c.byref(ret))
        if not details:
            return ret.fit
        return {name: getattr(ret, name) for name in ("fit", "error", "residual", "norm", "model_norm")}

    def core_consistency(self, tensor: "Union[Tensor, Path, Array, None]" = None, *, normalised: bool = False,
                         scaling: str = "equal", threads: int = 0) -> float:
        """Core consistency in per cent: near 100 where the components are as many and as separate as the data support.

        Cells that are not listed are zeros. The tensor is sparse, without weights (Bro and Kiers, J. Chemometrics 17, 2003).

        Parameters
        ----------
        tensor : Tensor or path, optional
            By default that of the run.
        normalised : bool
            The deviation over the size of the core, and not over the rank.
        scaling : {'equal', 'given'}
            ``"equal"`` shares the size of each component among the modes alike, so that it does not matter where weights
            lie, as ``corcond`` of the N-way toolbox does. ``"given"`` takes the factors as they are, with the weights in
            mode 0, as TLViz does.
        threads : int
            As in :func:`cp`.
        """
        tensor = self._tensor if tensor is None else as_tensor(tensor)
        if tensor is None:
            raise ArgumentError("a core consistency needs a tensor")
        if scaling not in ("equal", "given"):
            raise ArgumentError(f"scaling={scaling!r}: equal or given")
        call = Call()
        conf = _session_conf(call, threads=threads, cpu=True)
        ret = ts_core_result()
        call.run(lib.ts_cpd_core, self._handle, tensor._open(), c.byref(conf), c.byref(ret))
        if scaling == "given":
            return float(ret.given_normalised if normalised else ret.given)
        return float(ret.normalised if normalised else ret.consistency)

    def evaluate(self, tensor: "Union[Tensor, Path, Array, None]" = None, *, top: int = 0, by_slice: Optional[Mode] = None,
                 precision: str = "float64", threads: int = 0, host_memory: Size = None) -> Evaluation:
        """Compares the model with the nonzeros of a tensor, as ``tstream score`` does, on CPU cores.

        Of cells that are not listed nothing is asked, but for the Poisson likelihood: :meth:`fit` takes them as zeros.

        Parameters
        ----------
        tensor : Tensor, path or array, optional
            As :func:`cp` takes it; by default that of the run. Cells that were held out of it make a tensor of their own: :meth:`Tensor.split`.
        top : int
            So many nonzeros of largest residual, too.
        by_slice : int or str, optional
            Sums of each slice of this mode, too.
        precision : {'float64', 'float32'}
            Of factors and products; float32 takes half the memory and time.
        threads, host_memory
            As in :func:`cp`.
        """
        tensor = self._tensor if tensor is None else as_tensor(tensor)
        if tensor is None:
            raise ArgumentError("an evaluation needs a tensor")
        if precision not in _precisions:
            raise ArgumentError(f"precision={precision!r}: float32 or float64")
        top = operator.index(top)
        if top < 0:
            raise ArgumentError(f"top={top}: so many nonzeros of largest residual, 0 or more")
        mode = 0 if by_slice is None else tensor.mode(by_slice)
        n = min(top, tensor.nnz)
        index, value, model = np.empty((n, tensor.order), dtype=np.uint64), np.empty(n), np.empty(n)
        of_slices: "Dict[str, Array]" = {}
        if by_slice is not None:
            of_slices["nnz"] = np.empty(tensor.used[mode], dtype=np.uint64)
            for name in ("weight", "value", "model", "rmse", "mae"):
                of_slices[name] = np.empty(tensor.used[mode])
        call = Call()
        conf = ts_cpd_score_conf(mode=mode, float32=precision == "float32", n_top=n, top_index=index.ctypes.data,
                                 top_value=value.ctypes.data, top_model=model.ctypes.data,
                                 **{"slice_" + name: x.ctypes.data for name, x in of_slices.items()})
        session = _session_conf(call, threads=threads, host_memory=host_memory)
        result = ts_cpd_score_result()
        call.run(lib.ts_cpd_score, self._handle, tensor._open(), c.byref(conf), c.byref(session), c.byref(result))
        ret = Evaluation()
        for name in Evaluation._names:
            setattr(ret, name, getattr(result, name))
        _warn_unseen(ret.unseen, ret.nnz)
        ret.top = ret.slices = None
        if top > 0:
            n = result.n_top  # fewer than cells, where some of a dense tensor are unknown
            index, value, model = index[:n], value[:n], model[:n]
            numbers = {"value": value, "model": model, "residual": value - model}
            names = [f"mode{m}" if name is None or name in numbers else name for m, name in enumerate(tensor.mode_names)]
            ret.top = _table({**{name: index[:, m] for m, name in enumerate(names)}, **numbers})
        if by_slice is not None:
            columns: "Dict[str, Any]" = {"index": tensor.used_indices(mode)}
            label = tensor.labels(mode, columns["index"])
            if any(x is not None for x in label):
                columns["label"] = label
            ret.slices = _table({**columns, **of_slices})
        return ret

    def predict(self, coords: Any) -> Array:
        """The model's values of cells.

        A TstreamWarning tells how many have an index whose row in the model is zeros, as one that was never seen has: the model's 0
        there is no prediction.

        Parameters
        ----------
        coords : array_like of int, shape (n, order), or tuple of `order` arrays of shape (n,)

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        if isinstance(coords, tuple):
            coords = np.stack([np.asarray(x) for x in coords], axis=1)
        coords = np.asarray(coords)
        if coords.ndim != 2 or coords.shape[1] != self.order:
            raise ArgumentError(f"coordinates of shape {coords.shape}: (n, {self.order}) is wanted")
        if len(coords) and coords.dtype.kind not in "iu":
            raise ArgumentError(f"coordinates are {coords.dtype}: whole numbers are wanted")
        for m, n in enumerate(self.shape):
            if len(coords) and not (0 <= coords[:, m].min() and coords[:, m].max() < n):
                raise ArgumentError(f"mode {m}: indices from 0 to {n - 1} are wanted")
        index = np.ascontiguousarray(coords, dtype=np.uint64)
        ret, err = np.empty(len(coords)), ts_error()
        check(lib.ts_cpd_predict(self._handle, len(coords), index.ctypes.data, ret.ctypes.data, c.byref(err)), err)
        _warn_unseen(lib.ts_cpd_unseen(self._handle, len(coords), index.ctypes.data, ret.ctypes.data), len(coords))
        return ret

    def score(self, other: "Model") -> float:
        """Factor match score: 1 for the same model, near 0 for models without a component in common.

        The score of two components is the product of the magnitudes of their columns' cosines, times
        1 - |a - b| / max(a, b) for their sizes a and b (1 where both are 0), as in ``tstream compare`` and the
        ``score`` of Tensor Toolbox. Two components of zeros are alike. Pairs are those whose scores add up to most
        (taken greedily where SciPy is not installed). The score is the mean over the components of the model that
        has fewer.

        Parameters
        ----------
        other : Model
            Of the same shape.
        """
        if self.shape != other.shape:
            raise ArgumentError(f"shapes differ: {self.shape} and {other.shape}")
        match = np.ones((self.rank, other.rank))
        sizes = [np.abs(self.weights), np.abs(other.weights)]
        empty = [np.zeros(self.rank, bool), np.zeros(other.rank, bool)]  # a column of zeros in some mode
        for m in range(self.order):
            a, b = (np.asarray(x.factors[m], dtype=np.float64) for x in (self, other))
            for k, x in enumerate((a, b)):
                sizes[k] = sizes[k] * np.linalg.norm(x, axis=0)
                empty[k] |= np.linalg.norm(x, axis=0) == 0
            lengths = np.outer(np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0))
            match *= np.abs(np.divide(a.T @ b, lengths, out=np.zeros_like(lengths), where=lengths > 0))
        most = np.maximum.outer(*sizes)
        match *= 1 - np.divide(np.abs(np.subtract.outer(*sizes)), most, out=np.zeros_like(most), where=most > 0)
        match[np.outer(*empty)] = 1
        try:
            from scipy.optimize import linear_sum_assignment
            at = linear_sum_assignment(-match)
            return float(match[at].mean())
        except ImportError:
            total, left = 0.0, match.copy()
            for _ in range(min(match.shape)):
                i, j = np.unravel_index(np.argmax(left), left.shape)
                total += match[i, j]
                left[i, :] = left[:, j] = -np.inf
            return float(total / min(match.shape))

    def plot(self, components: Optional[int] = None, most: int = 500) -> Any:
        """Draws the columns of the factors with Matplotlib: a row of pictures for each component.

        Parameters
        ----------
        components : int, optional
            How many, the heaviest first; 8 at most by default.
        most : int
            Of a mode with more indices the strongest so many are drawn, in the order of their indices.

        Returns
        -------
        matplotlib.figure.Figure
        """
        import matplotlib.pyplot as plt
        n = min(self.rank, 8 if components is None else components)
        heaviest = np.argsort(-np.abs(self.weights), kind="stable")[:n]
        figure, axes = plt.subplots(n, self.order, squeeze=False, figsize=(3 * self.order, 1.4 * n),
                                    layout="constrained")
        names: "Sequence[Optional[str]]" = (self._tensor.mode_names if self._tensor is not None
                                            else [None] * self.order)
        for i, r in enumerate(heaviest):
            for m in range(self.order):
                index, rows = self.rows(m)
                y = rows[:, r]
                x = np.arange(len(y)) if index is None else index
                if len(y) > most:
                    at = np.sort(np.argpartition(-np.abs(y), most)[:most])
                    x, y = x[at], y[at]
                axes[i][m].vlines(x, 0, y, linewidth=0.8)
                if i == 0:
                    axes[i][m].set_title(names[m] or f"mode {m}")
            axes[i][0].set_ylabel(f"{self.weights[r]:.3g}")
        return figure

    def to_pyttb(self) -> Any:
        """As ``pyttb.ktensor``, float64."""
        from pyttb.ktensor import ktensor
        return ktensor([np.asfortranarray(f, dtype=np.float64) for f in self.factors],
                       np.array(self.weights))

    def to_tensorly(self) -> Any:
        """As ``tensorly.cp_tensor.CPTensor``, float64, for its NumPy backend."""
        from tensorly.cp_tensor import CPTensor
        return CPTensor((np.array(self.weights), [np.array(f, dtype=np.float64) for f in self.factors]))

    @classmethod
    def from_factors(cls, weights: Any, factors: Any, dtype: Any = "float64") -> "Model":
        """A model of arrays, which are copied; nothing is sorted or normed.

        Parameters
        ----------
        weights : array_like, shape (rank,), or None for ones
        factors : sequence of array_like, shape (shape[mode], rank)
        dtype : {'float64', 'float32'}
        """
        factors = [reals("factors", f) for f in factors]
        if any(f.ndim != 2 for f in factors) or len({f.shape[1] for f in factors}) != 1:
            raise ArgumentError("factors of shapes "
                                f"{', '.join(str(f.shape) for f in factors)}: matrices of one width are wanted")
        rank = factors[0].shape[1]
        weights = reals("weights", np.ones(rank) if weights is None else weights)
        if weights.shape != (rank,):
            raise ArgumentError(f"weights of shape {weights.shape}, expected ({rank},)")
        dim = (c.c_uint64 * len(factors))(*[len(f) for f in factors])
        rows = (c.c_void_p * len(factors))(*[f.ctypes.data for f in factors])
        err = ts_error()
        return cls(check(lib.ts_cpd_new(len(factors), dim, rank, _precisions[np.dtype(dtype).name],
                                        weights.ctypes.data, rows, c.byref(err)), err))

    def save(self, path: Path, formats: "Union[str, Sequence[str]]" = ("ktensor",), *, rows: str = "all",
             replace: bool = False) -> None:
        """Writes a directory, like ``tstream cp``: whole, or not at all.

        Parameters
        ----------
        path : path
        formats : sequence of {'ktensor', 'npy', 'splatt'}, or one
        rows : {'all', 'used'}
            A row for each index, or those that are held alone with a file of their indices.
        replace : bool
            Replace a decomposition that is there. Files that tstream did not write are never replaced.
        """
        call = Call()
        conf = ts_save_conf(formats=_files(formats, rows), held_rows=rows == "used",
                            replace=bool(replace), stop=call.stop, note=call.note)
        call.run(lib.ts_cpd_save, self._handle, encoded(path), c.byref(conf))


def _files(formats: "Union[str, Sequence[str]]", rows: str) -> int:
    """The library's number for formats of files."""
    formats = [formats] if isinstance(formats, str) else list(formats)
    unknown = [f for f in formats if f not in _formats]
    if unknown or not formats or rows not in ("all", "used"):
        raise ArgumentError("formats are ktensor, npy and splatt; rows are all or used")
    return sum({_formats[f] for f in formats})


def load(path: Path, tensor: Optional[Tensor] = None) -> Any:
    """Reads a decomposition of tstream, Tensor Toolbox, pyttb or SPLATT: a :class:`Model`.

    Of several models that ``tstream cp --restarts`` wrote into one directory a :class:`Collection`, which reads each of them
    when it is asked for.

    Factors of 1 MiB and more in ``.npy`` files are checked and then mapped: they take no memory of their own, and the
    files must not be written to while arrays look into them. (Files that are replaced, as :meth:`Model.save` does it, are
    others.)

    Parameters
    ----------
    path : path
        A ktensor file, or a directory.
    tensor : Tensor, optional
        Where labels and names come from.
    """
    if os.path.isfile(os.path.join(os.fsdecode(path), "models.json")):
        from ._collection import read
        return read(os.fsdecode(path), lambda name: load_one(os.path.join(os.fsdecode(path), name), tensor))
    return load_one(path, tensor)


def load_one(path: Path, tensor: Optional[Tensor]) -> Model:
    """One model."""
    call = Call()
    return Model(call.run(lib.ts_cpd_load, encoded(path), call.stop), tensor)


def _session_conf(call: Call, *, rank: int = 0, precision: str = "float32", threads: int = 0,
                  host_memory: Size = None, cpu: bool = False, gpus: Any = None, gpu_memory: Size = None,
                  **more: Any) -> ts_session_conf:
    if precision not in _precisions:
        raise ArgumentError(f"precision={precision!r}: float32 or float64")
    if gpus is not None and not isinstance(gpus, (int, str)):
        gpus = ",".join(map(str, gpus)) + ("," if len(gpus) == 1 else "")
    return ts_session_conf(rank=rank, precision=_precisions[precision], threads=threads,
                           host_memory=size(host_memory), cpu=bool(cpu),
                           gpus=None if gpus is None else str(gpus).encode(),
                           gpu_memory=size(gpu_memory), stop=call.stop, note=call.note, **more)


def _progress_bar(sweeps: int) -> Any:
    """A bar of tqdm, where there is one and somebody looks: what takes a sweep."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=sweeps, unit="sweep", disable=None)


def _mode(mode: Any, order: int) -> int:
    """The number of a mode, which may be counted from the end."""
    try:
        if isinstance(mode, (bool, np.bool_)):
            raise TypeError
        number = operator.index(mode)
    except TypeError:
        raise ArgumentError(f"{mode!r} is no mode: give numbers from 0 to {order - 1}") from None
    if not -order <= number < order:
        raise ArgumentError(f"there is no mode {number}, only {order} from 0")
    return number % order


def _mode_bits(modes: Any, order: int) -> int:
    """Bit m for each mode m that is named, or has a True among `order` of them; all for True alone."""
    if isinstance(modes, np.ndarray):
        modes = modes.tolist()
    if modes is None:
        return 0
    if isinstance(modes, (bool, np.bool_)):
        return (1 << order) - 1 if modes else 0
    named = list(modes) if isinstance(modes, Iterable) and not isinstance(modes, str) else [modes]
    if len(named) == order and all(isinstance(m, (bool, np.bool_)) for m in named):
        named = [m for m, wanted in enumerate(named) if wanted]
    return sum({1 << _mode(mode, order) for mode in named})


def _penalties(penalty: Any, order: int, fixed: int = 0) -> Optional[Array]:
    """An array of one number for each mode; None for none. One number alone is not for modes that are fixed."""
    if penalty is None:
        return None
    if isinstance(penalty, dict):
        named = {_mode(mode, order): x for mode, x in penalty.items()}
        if len(named) < len(penalty):
            raise ArgumentError(f"{penalty!r} names a mode twice, from the front and from the end")
        penalty = [named.get(mode, 0) for mode in range(order)]
    values = np.asarray(penalty, dtype=np.float64)
    if values.shape not in ((), (order,)):
        raise ArgumentError(f"a penalty is one number, or one for each of {order} modes")
    if values.shape == ():
        return np.array([0 if fixed >> m & 1 else values for m in range(order)], dtype=np.float64)
    return np.ascontiguousarray(values)


def _bounds(bounds: Any, order: int, fixed: int) -> Optional[Array]:
    """Lower and upper bounds of each mode, as rows; None for none. One pair alone is not for modes that are fixed."""
    if bounds is None:
        return None
    if not isinstance(bounds, dict):
        bounds = {mode: bounds for mode in range(order) if not fixed >> mode & 1}
    limits = np.array([[-np.inf] * order, [np.inf] * order])
    named = {_mode(mode, order): pair for mode, pair in bounds.items()}
    if len(named) < len(bounds):
        raise ArgumentError(f"{bounds!r} names a mode twice, from the front and from the end")
    for mode, pair in named.items():
        values = np.asarray(pair, dtype=np.float64)
        if values.shape != (2,) or not values[0] <= values[1]:
            raise ArgumentError(f"bounds of mode {mode} are a lower and an upper number, not {pair!r}")
        limits[:, mode] = values
    return limits


_POISSON = 1  # TS_LOSS_POISSON of tstream.h; those after it descend
_OPTIMIZERS = ("adam", "lbfgsb")


def losses() -> "tuple[str, ...]":
    """What `loss` of :func:`cp` takes: names, with a letter where a number belongs, as in 'huber:D'."""
    found: "list[str]" = []
    while (name := lib.ts_loss_name(len(found))) is not None:
        letter = lib.ts_loss_number(len(found))
        found.append(name.decode() + ("" if letter is None else ":" + letter.decode()))
    return tuple(found)


def _loss(text: str) -> "tuple[int, float]":
    """TS_LOSS_... of tstream.h, and the number behind the colon."""
    loss, at, err = c.c_int(), c.c_double(), ts_error()
    if "\0" in text:
        raise ArgumentError(f"there is no loss {text!r}")
    check(lib.ts_loss_named(text.encode(), c.byref(loss), c.byref(at), c.byref(err)), err)
    return loss.value, at.value


def _one_name(name: str, value: Any, default: Any, other: str, given: Any) -> Any:
    """The value of a setting that has two names: that of `other` where it is given."""
    if given is not None and value != default and value != given:
        raise ArgumentError(f"{name}={value!r} and {other}={given!r}: these are two names for one setting")
    return value if given is None else given


def cp(tensor: "Union[Tensor, Path, Array]", rank: "Union[int, Sequence[int]]", *,
       restarts: Optional[int] = None, sweeps: int = 50, iters: Optional[int] = None, tol: Optional[float] = None, seed: int = 1,
       loss: str = "least-squares", optimizer: str = "adam", inner: int = 10,
       init: Any = None, nonneg: "Union[None, bool, int, Sequence[int], Sequence[bool]]" = None,
       l1: Any = None, l2: Any = None, simplex: "Union[None, int, Sequence[int], Sequence[bool]]" = None,
       bounds: Any = None, orthogonal: "Union[None, int, Sequence[int], Sequence[bool]]" = None,
       smooth: "Union[None, Dict[int, float], Sequence[float]]" = None,
       fix: "Union[None, int, Sequence[int], Sequence[bool]]" = None, accelerate: bool = False,
       observed: bool = False, l2_scale: str = "none", mean: bool = False, hold_out: float = 0,
       hold_out_from: float = 0, patience: int = 0,
       precision: str = "float32", threads: int = 0, host_memory: Size = None,
       cpu: bool = False, gpus: Any = None, gpu_memory: Size = None,
       on_sweep: "Optional[Callable[[Sweep], object]]" = None, progress: bool = True, out: Optional[Path] = None,
       formats: "Union[str, Sequence[str]]" = "ktensor", format: "Union[None, str, Sequence[str]]" = None, rows: str = "all",
       save_init: bool = False, replace: bool = False, force: Optional[bool] = None, resume: "Union[bool, str]" = False, checkpoint: float = 300, max_time: Optional[float] = None,
       trace: Optional[Path] = None) -> Any:
    """Decomposes a tensor by alternating least squares, or by another loss: the bytes that ``tstream cp`` computes.

    Ctrl-C ends it within two seconds. What `on_sweep` raises ends it too. With `out` the run can go on then, and after
    a crash: by `resume`, or by ``tstream cp --resume``.

    Parameters
    ----------
    tensor : Tensor, path or array
        An array of NumPy is a dense tensor, see :func:`from_array`, and so is a file of one, ``data.npy``.
    rank : int or sequence of int
        Columns of each factor, 1 to 2048; several: a :class:`Collection` with models of each.
    restarts : int, optional
        So many starts of each rank, of `seed`, `seed` + 1 and so on: a :class:`Collection`, even of one. They are computed
        side by side, each pass over the tensor serving all, as many as there is memory for. With `out` they are written as
        ``tstream cp --restarts`` does it, and `resume` keeps those that are done. `trace` is for one model.
    sweeps, iters : int
        At most so many; two names for one setting, as `formats` and `format`, `replace` and `force` are.
    tol : float, optional
        Done when the fit changes by less; 0 does all sweeps. With loss 'poisson' when the violation is less, with those after
        it when the loss fell in none of ten sweeps by this share of all that it has fallen since the first one. By default
        1e-5, with these losses 1e-4.
    seed : int
        Of the random initial factors.
    loss : str
        One of :func:`losses`: 'least-squares', 'poisson', 'bernoulli', 'huber:0.5' and others.
        What a model is judged by: the distance to the tensor; or, of counts, their likelihood as Poisson numbers whose means
        are the model's values (CP-APR), with no entries below 0 and no other constraint. The others descend
        (`optimizer`), so give `sweeps` some hundred; the fit is the share of the deviance that is explained, and `l2`, `nonneg`,
        `bounds` and `observed` go with them. On CPU cores or GPUs.
    optimizer : {'adam', 'lbfgsb'}
        Of the losses after 'poisson': a step of each mode a sweep, cells that are not listed being drawn anew; or a step of
        all modes by L-BFGS-B, the same cells standing for them: fewer sweeps on small tensors and with `observed`, and memory
        for twelve more models, not two.
    inner : int
        With loss 'poisson': rounds of each row in a sweep.
    init : Model, 'nvecs' or Collection, optional
        Initial factors instead, of this rank. Their weights count with constraints alone. 'nvecs': leading left singular
        vectors of each unfolding, found with `seed` in about the time of two sweeps. Of several models the first one of its
        rank starts from a Model, and each from the one of its rank and seed in a Collection; the others from random numbers.
    nonneg : bool or int or sequence of int or of bool, optional
        Modes (from 0) whose factors have no entries below 0; True: all; or a bool for each mode.
    l1, l2 : float or dict or sequence of float, optional
        Minimise l1 times the sum of magnitudes, or l2 / 2 times the sum of squares, of each factor too: one
        number for all modes, one for each, or ``{mode: number}``.
    simplex : int or sequence of int or of bool, optional
        Modes whose factors have rows that are not negative and sum to 1. Their columns are not normed, so that
        weights are of the other modes.
    bounds : pair of float or dict, optional
        Entries between a lower and an upper number, one of which may be infinite: ``(0, 1)`` for all modes or
        ``{mode: (lower, upper)}``. Columns of these modes are not normed either.
    orthogonal : int or sequence of int or of bool, optional
        Modes whose factors have orthonormal columns. They have as many used indices as the rank at least, nothing else is
        asked of them, and one mode is left free.
    smooth : dict or sequence of float, optional
        Minimise this number / 2 times the sum of squares of second differences of neighbouring rows too, in the modes of
        ``{mode: number}``, or one number for each mode: for modes in which neighbours are alike, such as time. It goes with `nonneg`, `bounds`,
        `l1` and `l2` of the same mode.
    fix : int or sequence of int or of bool, optional
        Modes whose factors stay as `init` has them, while the others are computed: to fold new slices in. The result has
        columns of norm 1, sorted by weight, so that a fixed factor comes back with other norms, signs and order of
        columns. Rows of empty slices count as 0. ``nonneg=True``, one pair of bounds and penalties of one number leave these modes out.
    accelerate : bool
        Fewer sweeps: from the sixth on each starts where the last two point to, and one that makes the fit fall, or what is
        minimised rise, is given up; where that is the last one, one more follows. It takes memory for second factors, least squares of all cells, and no `orthogonal`.
    observed : bool
        Cells that the tensor does not list are unknown, not zeros, and fits are those at the listed cells. The default, with a warning,
        for least squares of cells with weights and of arrays with NaN; silently for 'gamma' where all cells are listed. With `l2` (0.1 where
        it is not given), `nonneg`, `bounds` and `fix`; on CPU cores or GPUs, there of dense arrays up to
        rank 128 (in float64 64).
    l2_scale : {'none', 'count'}
        With `observed`: whether `l2` counts once for a row, or once for each of its nonzeros.
    mean : bool
        With `observed` and least squares: subtract the mean of the listed cells that are not held out. It is a component of the
        model beside the `rank` others, with columns of equal entries, so that values of the model have it.
    hold_out : float
        Nothing is learnt from this share of the listed cells, and each sweep tells the error there (``held_out_rmse``, with
        another loss than 'least-squares' ``held_out_loss``). Without `observed` they are zeros to the model, like cells that are not
        listed; those of a dense tensor are unknown, and `observed` is taken for given. On GPUs, too.
    hold_out_from : float
        Where that share begins among all cells, 0 to less than 1; see :func:`cross_validate`.
    patience : int
        With `hold_out`: end when that error has not fallen for so many sweeps; 0: never. The model is that of the sweep with the
        least error (``best_sweep``), not of the last one.
    precision : {'float32', 'float64'}
        Of factors and products.
    threads : int
        0 takes all CPUs. The result does not depend on it.
    host_memory : int or str, optional
        Bytes for shards, such as ``"16G"``; what does not fit is streamed from disk. By default what is free,
        less a reserve. Factors come on top.
    cpu : bool
        No GPU, though there is one.
    gpus : int, str or sequence of int, optional
        How many GPUs, or which: ``2``, ``"0,2"``, ``[0, 2]``. By default one when there is one, and CPU cores for what GPUs do
        not compute, which is refused where GPUs are asked for.
    gpu_memory : int or str, optional
        Of each; what is free by default.
    on_sweep : callable, optional
        Gets a :class:`Sweep` after each; the run waits for it.
    progress : bool
        Show a bar, in a terminal or a notebook, where tqdm is installed.
    out : path, optional
        Directory for the result, or for all models. Until it is in place, states of the run lie beside it, in ``OUT.partial``. With the
        format npy the model's large factors are these files, mapped, where they hold the same rows (see `rows`).
    formats, format, rows
        Of the files in `out`, as in :meth:`Model.save`.
    save_init : bool
        Write the start, too, in all digits: ``init.ktensor`` in `out`. A run with it as `init` and the same `seed`, by which losses,
        `hold_out` and `orthogonal` draw, too, has the bits of this one. A run that goes on has the start that it saved, or writes it
        now, where it was drawn or is given again; what was computed, by ``"nvecs"`` or a loss, cannot be written then, and is
        refused. Several models that save theirs may go on without it.
    replace, force : bool
        Replace a result or a trace that tstream wrote, and drop the state of a run that did not end.
    resume : bool or 'auto'
        Go on with the run that was to write `out`; with 'auto' only if there is one. Rank, restarts, precision,
        seed, constraints and accelerate must be the same; sweeps and tol may be others.
    checkpoint : float
        Seconds between two states, which never take more than a hundredth of the time; 0: only when the run ends
        early.
    max_time : float, optional
        Seconds after which the run is stopped: :class:`Stopped`.
    trace : path, optional
        File for what ran when, which ui.perfetto.dev shows. It appears when the run ends well.

    Returns
    -------
    Model, or Collection where several ranks or `restarts` are given
    """
    sweeps = _one_name("sweeps", sweeps, 50, "iters", iters)
    formats = _one_name("formats", formats, "ktensor", "format", format)
    replace = _one_name("replace", replace, False, "force", force)
    tensor = as_tensor(tensor)
    if not isinstance(hold_out, numbers.Real):
        raise ArgumentError(f"hold_out={hold_out!r}: a share of the cells, 0 or more and below 1")
    several = restarts is not None or isinstance(rank, (Iterable, np.ndarray))
    ranks = [operator.index(r) for r in rank] if isinstance(rank, Iterable) else [operator.index(rank)]
    seeds = range(seed, seed + (1 if restarts is None else operator.index(restarts)))
    if not ranks or not seeds or len(set(ranks)) < len(ranks):
        raise ArgumentError("ranks differ from each other, and there must be at least one, and one start of it")
    for what, number in [*(("rank", each) for each in ranks), ("seed", seed), ("patience", patience), ("threads", threads)]:
        if number < 0:
            raise ArgumentError(f"{what}={number}: it is not negative")
    keys = [(each, start) for each in ranks for start in seeds]
    starts = None if init is None or isinstance(init, str) else _starts(init, keys, several)
    if several and trace is not None:
        raise ArgumentError("a trace is of one model: leave it out where several are computed")
    loss_number, loss_at = _loss(loss)
    if optimizer not in _OPTIMIZERS or (optimizer != "adam" and loss_number <= _POISSON):
        raise ArgumentError(f"optimizer is one of {', '.join(_OPTIMIZERS)}, of losses after 'poisson'")
    if inner < 1:
        raise ArgumentError("a row takes at least one round a sweep")
    if tol is None:
        tol = 1e-5 if loss == "least-squares" else 1e-4
    if sweeps < 1:
        raise ArgumentError("there must be at least one sweep")
    if isinstance(init, str) and init != "nvecs":
        raise ArgumentError(f"init is a Model or 'nvecs', not {init!r}; tstream.load reads a model")
    if resume not in (False, True, "auto"):
        raise ArgumentError("resume is True, False or 'auto'")
    if out is None and resume:
        raise ArgumentError("a run goes on in the directory that it writes: out is not given")
    if tensor.dense and hold_out > 0 and loss == "least-squares":
        observed = True
    if not observed and not (l1 or smooth or simplex or orthogonal or accelerate):
        observed = bool(Call().run(lambda err: lib.ts_takes_observed(tensor._open(), loss_number)))
        if observed and loss_number == 0: # another loss takes it where all cells are listed, which changes nothing
            warnings.warn("cells of the tensor are unknown or have weights, so observed=True is taken for given: "
                          "pass it to say so", TstreamWarning, stacklevel=2)
    call = Call()
    histories: "Dict[tuple[int, int], list[Sweep]]" = {key: [] for key in keys}
    session: Any = None
    bar: Any = None
    order = len(tensor.shape)
    fixed = _mode_bits(fix, order)
    bits, sums, squares = _mode_bits(nonneg, order), _penalties(l1, order, fixed), _penalties(l2, order, fixed)
    if isinstance(nonneg, (bool, np.bool_)):
        bits &= ~fixed
    own_rows = bits if sums is None else bits | sum(1 << m for m in range(order) if sums[m] > 0)
    own_rows |= fixed & 1 << (order - 1)
    on_simplex = _mode_bits(simplex, order)
    limits = _bounds(bounds, order, fixed)
    orthonormal = _mode_bits(orthogonal, order)
    if isinstance(smooth, (int, float)):
        raise ArgumentError("smooth names its modes: {mode: number}, or a number for each")
    bends = _penalties(smooth, order, fixed)
    bent = 0 if bends is None else sum(1 << m for m in range(order) if bends[m] > 0)
    own_rows |= on_simplex
    if limits is not None:
        own_rows |= sum(1 << m for m in range(order) if np.isfinite(limits[:, m]).any())
    if l2_scale not in ("none", "count"):
        raise ArgumentError("l2_scale is 'none' or 'count'")
    if observed and squares is None and loss == "least-squares":
        squares = np.array([0 if fixed >> m & 1 else 0.1 for m in range(order)])
    if observed or loss != "least-squares":
        own_rows = 0

    def swept(s: Sweep) -> None:
        histories[s.rank, s.seed].append(s)
        if bar is not None:
            bar.set_postfix_str(f"rank {s.rank}, seed {s.seed}" if several else f"fit {s.fit:.6f}", refresh=False)
            bar.n = bar.n + 1 if several else s.sweep
            bar.refresh()
        if on_sweep is not None:
            on_sweep(s)

    def move_bar() -> None:
        place = ts_progress()
        lib.ts_session_progress(session, c.byref(place))
        if place.sweep > 0:
            part = place.mode + min(place.done / place.total, 1)
            bar.n = round(place.sweep - 1 + part / tensor.order, 1)
            bar.refresh()

    def take_of(ctx: Any, number: int, s: Any) -> int:
        sweep = Sweep(s.contents, *keys[number])
        if on_sweep is not None:
            return call.ask(swept, sweep)  # what it raises ends the run here, not sweeps later
        call.tell(swept, sweep)
        return 0

    def take(ctx: Any, s: Any) -> int:
        return take_of(ctx, 0, s)

    conf = ts_cp_conf(sweeps=sweeps, tol=tol, seed=seed, sweep=sweep_fn() if several else sweep_fn(take),
                      mode=mode_fn(), start=None if several or starts is None or starts[0] is None else starts[0]._handle,
                      nvecs=init == "nvecs" if isinstance(init, str) else False, max_seconds=max_time or 0,
                      out=None if out is None else encoded(out), formats=_files(formats, rows),
                      held_rows=rows == "used", replace=bool(replace), save_init=bool(save_init),
                      resume={False: 0, True: 1, "auto": 2}[resume],
                      checkpoint_seconds=checkpoint if checkpoint > 0 else -1, nonneg=bits, fix=fixed,
                      simplex=on_simplex, orthogonal=orthonormal,
                      smooth=None if bends is None else bends.ctypes.data, lower=None if limits is None else limits[0].ctypes.data,
                      upper=None if limits is None else limits[1].ctypes.data,
                      l1=None if sums is None else sums.ctypes.data,
                      l2=None if squares is None else squares.ctypes.data, accelerate=bool(accelerate),
                      observed=bool(observed), l2_by_count=l2_scale == "count", mean=bool(mean), hold_out=hold_out, hold_out_from=hold_out_from,
                      patience=patience,
                      loss=loss_number, inner=inner, loss_at=loss_at,
                      optimizer=_OPTIMIZERS.index(optimizer))

    session_conf = _session_conf(call, rank=ranks[0], precision=precision, threads=threads,
                                 host_memory=host_memory, cpu=cpu, gpus=gpus, gpu_memory=gpu_memory,
                                 checkpoints=out is not None and checkpoint > 0, replace=bool(replace),
                                 own_rows=own_rows, smooth=bent, accelerate=bool(accelerate), observed=bool(observed),
                                 loss=loss_number, optimizer=_OPTIMIZERS.index(optimizer), patience=patience > 0, hold_out=hold_out > 0,
                                 trace=None if trace is None else encoded(trace))
    bar = _progress_bar(sweeps * len(keys)) if progress else None
    if several:
        several_conf = ts_several_conf(n_ranks=len(ranks), rank=(c.c_uint32 * len(ranks))(*ranks), restarts=len(seeds),
                                       run=c.pointer(conf), sweep=several_sweep_fn(take_of))
        if starts is not None:
            several_conf.start = (c.c_void_p * len(keys))(*[None if m is None else m._handle for m in starts])
        handles, results = (c.c_void_p * len(keys))(), (ts_several_result * len(keys))()
        results[0].size = c.sizeof(ts_several_result)
        try:
            call.run(lib.ts_cp_several, tensor._open(), c.byref(session_conf), c.byref(several_conf), handles, results)
        finally:
            if bar is not None:
                bar.close()
        models = {key: Model(handle, tensor) for key, handle in zip(keys, handles)}
        for key, result in zip(keys, results):
            models[key].history = histories[key]
            models[key].converged, models[key].exact = bool(result.converged), bool(result.exact)
        from ._collection import Collection, table
        return Collection(models, table(results))
    handle = tensor._open()  # for as long as the session
    session = call.run(lib.ts_session_open, handle, c.byref(session_conf))
    ended = ts_cp_result()
    if bar is not None:
        call.idle = move_bar
    try:
        model = Model(call.run(lib.ts_cp, session, c.byref(conf), c.byref(ended)), tensor)
    finally:
        call.idle = None  # it asks the session, which is closed
        if bar is not None:
            bar.close()
        lib.ts_session_close(session)
    model.history = histories[keys[0]]
    model.converged, model.exact = bool(ended.converged), bool(ended.exact)
    model.sweeps_before = ended.sweeps_before
    model.mean = ended.mean if mean else None
    model.best_sweep = ended.best_sweep or None
    return model


def cross_validate(tensor: "Union[Tensor, Path, Array]", rank: "Union[int, Sequence[int]]", *, folds: int = 5,
                   **options: Any) -> "list[Dict[str, Any]]":
    """How well models tell cells that nothing was learnt from, as ``tstream cp --folds`` does.

    Parameters
    ----------
    tensor
        As for :func:`cp`.
    rank : int or sequence of int
    folds : int
        The listed cells are divided into so many, by a hash of each and `seed`; for each rank a model is computed without each.
        The models of all ranks share their passes.
    options
        Of :func:`cp`; with `patience` the best model of each counts.

    Returns
    -------
    list of dict
        Of each rank: ``rank``, ``errors`` (of each fold, root mean square or with another loss its mean), ``held_out``, their
        mean, and ``standard_error`` of that.
    """
    if folds < 2:
        raise ArgumentError("cross-validation takes at least two folds")
    for name in ("hold_out", "hold_out_from", "out", "restarts", "resume", "save_init", "trace"):
        if name in options:
            raise ArgumentError(f"cross-validation does not go with {name}")
    tensor = as_tensor(tensor)
    ranks = [operator.index(r) for r in rank] if isinstance(rank, Iterable) else [operator.index(rank)]
    errors: "Dict[int, list[float]]" = {r: [] for r in ranks}
    for k in range(folds):
        for row in cp(tensor, ranks, hold_out=1 / folds, hold_out_from=k / folds, **options).rows:
            error = row["held_out_loss"] if row["held_out_rmse"] is None else row["held_out_rmse"]
            errors[row["rank"]].append(np.nan if error is None else error)
    return [dict(rank=r, errors=e, held_out=float(np.mean(e)), standard_error=float(np.std(e, ddof=1) / np.sqrt(folds)))
            for r, e in errors.items()]


def _starts(init: Any, keys: "Sequence[tuple[int, int]]", several: bool) -> "list[Optional[Model]]":
    """The initial factors of each model; None: random ones."""
    from ._collection import Collection
    if several and isinstance(init, Collection):
        starts: "list[Optional[Model]]" = [init[key] if key in init.models else None for key in keys]
    elif isinstance(init, Model):
        first = next((i for i, key in enumerate(keys) if key[0] == init.rank), None) if several else 0
        starts = [init if i == first else None for i in range(len(keys))]
    else:
        raise ArgumentError("init of several models is 'nvecs', a Model or a Collection" if several else
                            f"init is a Model or 'nvecs', not {init!r}; tstream.load reads a model")
    if all(start is None for start in starts):
        raise ArgumentError("init has no model of the rank and seed of any that is to be computed")
    return starts
