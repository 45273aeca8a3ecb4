# SPDX-License-Identifier: BSD-3-Clause
"""Decompositions: computed, loaded, made of arrays."""

import ctypes as c
import functools
import numbers
import operator
import os
import warnings
import weakref
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, TypeVar, Union, cast

import numpy as np

from ._lib import (ArgumentError, Array, Call, Mode, Path, Size, TstreamWarning, check, encoded, lib, mode_fn, reals, several_sweep_fn, size, sweep_fn, warn,
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
    """How well a model fits the values of a tensor, as ``tstream score`` computes it.

    The weight of a cell multiplies its terms in all figures except `nnz`.

    Attributes
    ----------
    nnz : int
        Nonzeros, or known cells of a dense tensor.
    weight : float
        Sum of their weights, or `nnz` without weights.
    rmse, mae : float
        Root mean square and mean magnitude of value - model.
    mean_value, mean_model : float
        Means at these cells.
    gaussian, poisson : float
        Log-likelihoods, NaN if there is none. gaussian: residuals with their own variance. poisson: counts where the
        model is positive, with the model as means; all cells count.
    unseen : int
        Cells with an index whose row in the model is all zeros, such as an index that was never seen. There the 0 is
        not a prediction. A TstreamWarning gives their number.
    top : pandas.DataFrame, or list of dict without pandas, or None
        The nonzeros with the largest residuals, the largest first. Columns are an index for each mode (with its name,
        or ``mode0``), value, model and residual.
    slices : the same
        A row for each slice of a mode with a nonzero. Columns are index, label (if the tensor has labels), nnz,
        weight, the sums of values and of values of the model (value, model), rmse and mae.
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
        1/2 |X - model|^2 with penalties; NaN without penalties.
    rmse, held_out_rmse : float
        With `observed`: root mean square error at the listed cells. With `hold_out`: the same at the held-out cells.
        Else NaN.
    log_likelihood, violation : float
        With loss 'poisson': the sum of x log m over the nonzeros, less the sum of m over all cells; and the largest
        violation of the optimality conditions in the sweep. Else NaN.
    held_out_loss : float
        With `hold_out` and a loss other than 'least-squares': the mean loss at the held-out cells. Else NaN.
    rank, seed : int
        Rank and seed of the model.
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

    It comes from :func:`cp`, :func:`load` or :meth:`from_factors`. Models of :func:`cp` have columns of norm 1,
    sorted by weight, with fixed signs.

    Attributes
    ----------
    weights : ndarray of float64, shape (rank,)
    factors : sequence of ndarray, shape (shape[mode], rank)
        Read-only, float32 or float64. They are views of the memory of the library, not copies. For a mode with empty
        slices, the matrix is made on first access; its rows of zeros take no memory. :meth:`rows` gives the stored
        rows.
    shape : tuple of int
    rank : int
    history : list of Sweep
        Sweeps of the run; empty without a run.
    converged, exact : bool
        How the run ended. converged: the fit changed by less than the tolerance. exact: only rounding was left.
    sweeps_before : int
        Sweeps of the earlier run that was resumed. They are not in `history`.
    mean : float or None
        The mean that :func:`cp` subtracted, which is one of the components; None without ``mean=True``.
    best_sweep : int or None
        With `patience`: the sweep of this model, from 1.
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
        """The stored rows of a factor. All other rows are zeros.

        Returns
        -------
        index : ndarray of uint64, shape (n,), or None
            Their indices, ascending; None if row i is index i.
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
            Columns index, value and, if the tensor has labels, label. The largest magnitude comes first.
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
            Return a dict with fit, error (estimated effect of rounding), residual, norm and model_norm.
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
        """Core consistency in per cent. It is near 100 if the data support all components.

        Unlisted cells are zeros. The tensor must be sparse and without weights (Bro and Kiers, J. Chemometrics 17,
        2003).

        Parameters
        ----------
        tensor : Tensor or path, optional
            By default that of the run.
        normalised : bool
            Divide by the size of the core instead of the rank.
        scaling : {'equal', 'given'}
            ``"equal"`` divides the size of each component equally among the modes, as ``corcond`` of the N-way
            toolbox does. ``"given"`` uses the factors as they are, with the weights in mode 0, as TLViz does.
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

        Unlisted cells count only in the Poisson likelihood; :meth:`fit` treats them as zeros.

        Parameters
        ----------
        tensor : Tensor, path or array, optional
            As in :func:`cp`; by default that of the run. :meth:`Tensor.split` makes a tensor of held-out cells.
        top : int
            Also return this number of nonzeros with the largest residuals.
        by_slice : int or str, optional
            Also return the sums of each slice of this mode.
        precision : {'float64', 'float32'}
            Precision of factors and products. float32 takes half the memory and time.
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
        """Values of the model at given cells.

        A TstreamWarning gives the number of cells with an index whose row in the model is all zeros, such as an index
        that was never seen. There the 0 is not a prediction.

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
        """Factor match score: 1 for equal models, near 0 for models without a common component.

        The score of two components is the product of the magnitudes of the cosines of their columns, times 1 - |a -
        b| / max(a, b). Here a and b are the sizes of the components; the factor is 1 if both are 0. ``tstream
        compare`` and ``score`` of Tensor Toolbox use the same score. Two components of zeros have score 1. Pairs
        maximise the sum of scores (without SciPy they are chosen greedily). The result is the mean over the
        components of the model with fewer components.

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
        """Draws the columns of the factors with Matplotlib, with a row of pictures for each component.

        Parameters
        ----------
        components : int, optional
            Number of components, by weight; at most 8 by default.
        most : int
            For a mode with more indices, the strongest ones are drawn, this number of them, in the order of their
            indices.

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
        """Makes a model from arrays, which are copied. Nothing is sorted or normalised.

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
        """Writes a directory, like ``tstream cp``. It appears complete or not at all.

        Parameters
        ----------
        path : path
        formats : sequence of {'ktensor', 'npy', 'splatt'}, or one
        rows : {'all', 'used'}
            'all': a row for each index. 'used': stored rows only, with a file of their indices.
        replace : bool
            Replace an existing decomposition. Files that tstream did not write are never replaced.
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

    A directory of several models, as ``tstream cp --restarts`` writes it, gives a :class:`Collection`. It reads each
    model on first access.

    Factors of 1 MiB or more in ``.npy`` files are checked and then mapped. They take no memory of their own, and the
    files must not be written to while the model exists. (:meth:`Model.save` replaces files, which is allowed.)

    Parameters
    ----------
    path : path
        A ktensor file, or a directory.
    tensor : Tensor, optional
        Source of labels and names.
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
    """Names for `loss` of :func:`cp`. A letter stands for a number, as in 'huber:D'."""
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


def _as_list(value: Any) -> Any:
    """A value of a setting as it is compared with that of its second name."""
    return [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else value


_Function = TypeVar("_Function", bound=Callable[..., Any])


def one_name_each(aliases: "Dict[str, str]", refused: "Sequence[str]" = ()) -> "Callable[[_Function], _Function]":
    """A function with settings takes the second names of settings as well.

    Parameters
    ----------
    aliases : dict
        The name of the setting for each second name.
    refused : sequence of str
        What the function does, and settings of :func:`cp` that it cannot take.
    """
    def wrap(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            for alias, name in aliases.items():
                value = given.pop(alias, None)
                if value is None:
                    continue
                if name in given and _as_list(given[name]) != _as_list(value):
                    raise ArgumentError(f"{name}={given[name]!r} and {alias}={value!r}: these are two names for one setting")
                given[name] = value
            for name in refused[1:]:
                if name in given:
                    raise ArgumentError(f"{refused[0]} does not go with {name}")
            return function(*args, **given)

        return cast(_Function, call)

    return wrap


def compute(**settings: Any) -> Any:
    """What :func:`cp` does, with all of its settings."""
    o = SimpleNamespace(**settings)
    o.tensor = as_tensor(o.tensor)
    if not issubclass(type(o.hold_out), numbers.Real):
        raise ArgumentError(f"hold_out={o.hold_out!r}: a share of the cells, 0 or more and below 1")
    several = o.restarts is not None or isinstance(o.rank, (Iterable, np.ndarray))
    ranks = [operator.index(r) for r in o.rank] if isinstance(o.rank, Iterable) else [operator.index(o.rank)]
    seeds = range(o.seed, o.seed + (1 if o.restarts is None else operator.index(o.restarts)))
    if not ranks or not seeds or len(set(ranks)) < len(ranks):
        raise ArgumentError("ranks differ from each other, and there must be at least one, and one start of it")
    for what, number in [*(("rank", each) for each in ranks), ("seed", o.seed), ("patience", o.patience), ("threads", o.threads)]:
        if number < 0:
            raise ArgumentError(f"{what}={number}: it is not negative")
    keys = [(each, start) for each in ranks for start in seeds]
    starts = None if o.init is None or isinstance(o.init, str) else _starts(o.init, keys, several)
    if several and o.trace is not None:
        raise ArgumentError("a trace is of one model: leave it out where several are computed")
    loss_number, loss_at = _loss(o.loss)
    if o.optimizer not in _OPTIMIZERS or (o.optimizer != "adam" and loss_number <= _POISSON):
        raise ArgumentError(f"optimizer is one of {', '.join(_OPTIMIZERS)}, of losses after 'poisson'")
    if o.inner < 1:
        raise ArgumentError("a row takes at least one round a sweep")
    if o.tol is None:
        o.tol = 1e-5 if o.loss == "least-squares" else 1e-4
    if o.sweeps < 1:
        raise ArgumentError("there must be at least one sweep")
    if isinstance(o.init, str) and o.init != "nvecs":
        raise ArgumentError(f"init is a Model or 'nvecs', not {o.init!r}; tstream.load reads a model")
    if o.resume not in (False, True, "auto"):
        raise ArgumentError("resume is True, False or 'auto'")
    if o.out is None and o.resume:
        raise ArgumentError("a run goes on in the directory that it writes: out is not given")
    if o.tensor.dense and o.hold_out > 0 and o.loss == "least-squares":
        o.observed = True
    if not o.observed and not (o.l1 or o.smooth or o.simplex or o.orthogonal or o.accelerate):
        o.observed = bool(Call().run(lambda err: lib.ts_takes_observed(o.tensor._open(), loss_number)))
        if o.observed and loss_number == 0: # another loss takes it where all cells are listed, which changes nothing
            warn("cells of the tensor are unknown or have weights, so observed=True is taken for given: pass it to say so")
    call = Call()
    histories: "Dict[tuple[int, int], list[Sweep]]" = {key: [] for key in keys}
    session: Any = None
    bar: Any = None
    order = len(o.tensor.shape)
    fixed = _mode_bits(o.fix, order)
    bits, sums, squares = _mode_bits(o.nonneg, order), _penalties(o.l1, order, fixed), _penalties(o.l2, order, fixed)
    if isinstance(o.nonneg, (bool, np.bool_)):
        bits &= ~fixed
    own_rows = bits if sums is None else bits | sum(1 << m for m in range(order) if sums[m] > 0)
    own_rows |= fixed & 1 << (order - 1)
    on_simplex = _mode_bits(o.simplex, order)
    limits = _bounds(o.bounds, order, fixed)
    orthonormal = _mode_bits(o.orthogonal, order)
    if isinstance(o.smooth, (int, float)):
        raise ArgumentError("smooth names its modes: {mode: number}, or a number for each")
    bends = _penalties(o.smooth, order, fixed)
    bent = 0 if bends is None else sum(1 << m for m in range(order) if bends[m] > 0)
    own_rows |= on_simplex
    if limits is not None:
        own_rows |= sum(1 << m for m in range(order) if np.isfinite(limits[:, m]).any())
    if o.l2_scale not in ("none", "count"):
        raise ArgumentError("l2_scale is 'none' or 'count'")
    if o.observed and squares is None and o.loss == "least-squares":
        squares = np.array([0 if fixed >> m & 1 else 0.1 for m in range(order)])
    if o.observed or o.loss != "least-squares":
        own_rows = 0

    def swept(s: Sweep) -> None:
        histories[s.rank, s.seed].append(s)
        if bar is not None:
            bar.set_postfix_str(f"rank {s.rank}, seed {s.seed}" if several else f"fit {s.fit:.6f}", refresh=False)
            bar.n = bar.n + 1 if several else s.sweep
            bar.refresh()
        if o.on_sweep is not None:
            o.on_sweep(s)

    def move_bar() -> None:
        place = ts_progress()
        lib.ts_session_progress(session, c.byref(place))
        if place.sweep > 0:
            part = place.mode + min(place.done / place.total, 1)
            bar.n = round(place.sweep - 1 + part / o.tensor.order, 1)
            bar.refresh()

    def take_of(ctx: Any, number: int, s: Any) -> int:
        sweep = Sweep(s.contents, *keys[number])
        if o.on_sweep is not None:
            return call.ask(swept, sweep)  # what it raises ends the run here, not sweeps later
        call.tell(swept, sweep)
        return 0

    def take(ctx: Any, s: Any) -> int:
        return take_of(ctx, 0, s)

    conf = ts_cp_conf(sweeps=o.sweeps, tol=o.tol, seed=o.seed, sweep=sweep_fn() if several else sweep_fn(take),
                      mode=mode_fn(), start=None if several or starts is None or starts[0] is None else starts[0]._handle,
                      nvecs=o.init == "nvecs" if isinstance(o.init, str) else False, max_seconds=o.max_time or 0,
                      out=None if o.out is None else encoded(o.out), formats=_files(o.formats, o.rows),
                      held_rows=o.rows == "used", replace=bool(o.replace), save_init=bool(o.save_init),
                      resume={False: 0, True: 1, "auto": 2}[o.resume],
                      checkpoint_seconds=o.checkpoint if o.checkpoint > 0 else -1, nonneg=bits, fix=fixed,
                      simplex=on_simplex, orthogonal=orthonormal,
                      smooth=None if bends is None else bends.ctypes.data, lower=None if limits is None else limits[0].ctypes.data,
                      upper=None if limits is None else limits[1].ctypes.data,
                      l1=None if sums is None else sums.ctypes.data,
                      l2=None if squares is None else squares.ctypes.data, accelerate=bool(o.accelerate),
                      observed=bool(o.observed), l2_by_count=o.l2_scale == "count", mean=bool(o.mean), hold_out=o.hold_out, hold_out_from=o.hold_out_from,
                      patience=o.patience,
                      loss=loss_number, inner=o.inner, loss_at=loss_at,
                      optimizer=_OPTIMIZERS.index(o.optimizer))

    session_conf = _session_conf(call, rank=ranks[0], precision=o.precision, threads=o.threads,
                                 host_memory=o.host_memory, cpu=o.cpu, gpus=o.gpus, gpu_memory=o.gpu_memory,
                                 checkpoints=o.out is not None and o.checkpoint > 0, replace=bool(o.replace),
                                 own_rows=own_rows, smooth=bent, accelerate=bool(o.accelerate), observed=bool(o.observed),
                                 loss=loss_number, optimizer=_OPTIMIZERS.index(o.optimizer), patience=o.patience > 0, hold_out=o.hold_out > 0,
                                 trace=None if o.trace is None else encoded(o.trace))
    bar = _progress_bar(o.sweeps * len(keys)) if o.progress else None
    if several:
        several_conf = ts_several_conf(n_ranks=len(ranks), rank=(c.c_uint32 * len(ranks))(*ranks), restarts=len(seeds),
                                       run=c.pointer(conf), sweep=several_sweep_fn(take_of))
        if starts is not None:
            several_conf.start = (c.c_void_p * len(keys))(*[None if m is None else m._handle for m in starts])
        handles, results = (c.c_void_p * len(keys))(), (ts_several_result * len(keys))()
        results[0].size = c.sizeof(ts_several_result)
        try:
            call.run(lib.ts_cp_several, o.tensor._open(), c.byref(session_conf), c.byref(several_conf), handles, results)
        finally:
            if bar is not None:
                bar.close()
        models = {key: Model(handle, o.tensor) for key, handle in zip(keys, handles)}
        for key, result in zip(keys, results):
            models[key].history = histories[key]
            models[key].converged, models[key].exact = bool(result.converged), bool(result.exact)
        from ._collection import Collection, table
        return Collection(models, table(results))
    handle = o.tensor._open()  # for as long as the session
    session = call.run(lib.ts_session_open, handle, c.byref(session_conf))
    ended = ts_cp_result()
    if bar is not None:
        call.idle = move_bar
    try:
        model = Model(call.run(lib.ts_cp, session, c.byref(conf), c.byref(ended)), o.tensor)
    finally:
        call.idle = None  # it asks the session, which is closed
        if bar is not None:
            bar.close()
        lib.ts_session_close(session)
    model.history = histories[keys[0]]
    model.converged, model.exact = bool(ended.converged), bool(ended.exact)
    model.sweeps_before = ended.sweeps_before
    model.mean = ended.mean if o.mean else None
    model.best_sweep = ended.best_sweep or None
    return model


def compute_folds(tensor: Any, rank: Any, folds: int, **options: Any) -> "list[Dict[str, Any]]":
    """What :func:`cross_validate` does, with all of its settings."""
    if folds < 2:
        raise ArgumentError("cross-validation takes at least two folds")
    from ._settings import cp
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
