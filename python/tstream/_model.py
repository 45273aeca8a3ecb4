# SPDX-License-Identifier: BSD-3-Clause
"""Decompositions: loaded, made of arrays, compared with tensors."""

import copy
import ctypes as c
import os
import warnings
import weakref
from typing import Any, Dict, Iterator, Literal, Optional, Sequence, Tuple, Union, overload

import numpy as np

from ._align import aligned
from ._checks import integer, not_negative
from ._conf import Gpus, files_of, precision_of, precisions, session_conf
from ._errors import ArgumentError, ArgumentTypeError, BusyError
from ._evaluation import Evaluation, evaluation_of, warn_unseen
from ._html import of_model, sizes
from ._lib import (Array, Call, Mode, Path, Size, check, encoded, lib, reals, ts_core_result,
                   ts_error, ts_fit_result, ts_save_conf)
from ._labels import (give_names, given_names, is_narrow, labels_of, names_of, origin_of, share_names,
                     state_of)
from ._pickle import completed, handle_of, model_state, tensor_of
from ._record import history_of, recall
from ._sweep import Sweep
from ._table import Table
from ._tensor import Tensor


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

    @overload
    def __getitem__(self, mode: Mode) -> Array: ...
    @overload
    def __getitem__(self, mode: slice) -> "list[Array]": ...

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


_ATTRIBUTES = ("history", "converged", "exact", "sweeps_before", "mean", "best_sweep",
               "loss", "observed", "_fit")


def _same_rows(a: "Tuple[Optional[Array], Array]", b: "Tuple[Optional[Array], Array]") -> bool:
    """Whether these are rows of equal matrices: those that are not stored are zeros."""
    if a[0] is b[0] or a[0] is not None and b[0] is not None and np.array_equal(a[0], b[0]):
        return np.array_equal(a[1], b[1])
    kept = []
    for index, rows in (a, b):
        used = rows.any(axis=1)
        kept.append((np.flatnonzero(used) if index is None else index[used], rows[used]))
    return np.array_equal(kept[0][0], kept[1][0]) and np.array_equal(kept[0][1], kept[1][1])


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
        Sweeps of the run; empty without a run. :func:`load` reads them, and what follows, from
        ``run.json``, which a run with `out` writes, or from ``history.json`` of :meth:`save`.
    converged, exact : bool
        How the run ended. converged: the fit changed by less than the tolerance. exact: only rounding was left.
    sweeps_before : int
        Sweeps of the earlier run that was resumed. They are not in `history`.
    mean : float or None
        The mean that :func:`cp` subtracted, which is one of the components; None without ``mean=True``.
    best_sweep : int or None
        With `patience`: the sweep of this model, from 1.
    loss : str or None
        The loss of the run or of :meth:`fold_in`; None without one.
    observed : bool or None
        Whether unlisted cells were unknown to it, not zeros; None without one.

    Notes
    -----
    A model is a value: ``==`` compares shape, weights, factors and labels, and it can be copied
    and pickled. A pickled model finds its tensor again if that is still in the same directory.

    Examples
    --------
    >>> m = tstream.Model.from_factors([5.0], [[[0.6], [0.8]], [[1.0], [0.0]]])
    >>> m
    <tstream.Model: 2 x 2, rank 1, float64>
    >>> float(m.predict([[1, 0]])[0])
    4.0
    >>> m == m.from_factors(m.weights, m.factors)
    True
    """

    def __init__(self, handle: Any, tensor: Optional[Tensor] = None) -> None:
        self._handle = handle
        self._owner = _Owner(handle)
        self._tensor = tensor
        self.rank: int = lib.ts_cpd_rank(handle)
        self.shape: "Tuple[int, ...]" = tuple(
            lib.ts_cpd_dim(handle, m) for m in range(lib.ts_cpd_order(handle)))
        self.dtype: "np.dtype[Any]" = np.dtype((np.float32, np.float64)[lib.ts_cpd_precision(handle)])
        self.weights = self._view(lib.ts_cpd_weights(handle), np.float64, (self.rank,))
        self.factors = _Factors(self)
        self.history: "list[Sweep]" = []
        self.converged: bool = False
        self.exact: bool = False
        self.sweeps_before: int = 0
        self.mean: Optional[float] = None
        self.best_sweep: Optional[int] = None
        self.loss: Optional[str] = None
        self.observed: Optional[bool] = None
        self._fit: Optional[float] = None  # that of the finished run, where it is known

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
        fit = "" if self._last_fit() is None else f", fit {self._last_fit():.6g}"
        return f"<tstream.Model: {sizes(self.shape)}, rank {self.rank}, {self.dtype}{fit}>"

    def _last_fit(self) -> Optional[float]:
        """The fit of the model at the end of its run; None without a run."""
        return self._fit if self._fit is not None or not self.history else self.history[-1].fit

    def _repr_html_(self) -> str:
        return of_model(self)

    def __eq__(self, other: object) -> Any:
        """Whether shape, weights, factors, names of modes and labels are equal, whatever the
        precision the numbers are held in."""
        if not isinstance(other, Model):
            return NotImplemented
        return self is other or (
            self.shape == other.shape and self.rank == other.rank
            and bool((self.weights == other.weights).all())
            and self.names == other.names
            and all(_same_rows(self.rows(m), other.rows(m)) for m in range(self.order))
            and all(self._row_labels(m) == other._row_labels(m) for m in range(self.order)))

    def _row_labels(self, mode: int) -> "Dict[int, str]":
        """Labels of the rows that are not zeros."""
        if not self._has_tensor() and lib.ts_cpd_labelled(self._handle, mode) == 0:
            return {}
        index, rows = self.rows(mode)
        used = np.flatnonzero(rows.any(axis=1))
        at = used if index is None else index[used]
        return {int(i): x for i, x in zip(at, self.labels(mode, at)) if x is not None}

    __hash__ = None  # type: ignore[assignment]

    def _state(self, tensor: Optional[Tensor] = None) -> "Dict[str, Any]":
        return model_state(self.shape, self.rank, self.dtype.name, self.weights,
                           [self.rows(m) for m in range(self.order)], tensor,
                           {name: getattr(self, name) for name in _ATTRIBUTES})

    def __getstate__(self) -> "Dict[str, Any]":
        index = [np.arange(len(x)) if i is None else i
                 for i, x in (self.rows(m) for m in range(self.order))]
        return {**self._state(self._tensor), "names": state_of(self._handle, self.order, index)}

    def __setstate__(self, state: "Dict[str, Any]") -> None:
        Model.__init__(self, handle_of(state), tensor_of(state))
        give_names(self._handle, self.order, state["names"])
        self.__dict__.update(state["attributes"])

    def __copy__(self) -> "Model":
        ret = type(self).__new__(type(self))
        ret.__dict__.update(self.__dict__)
        ret.factors, ret.history = _Factors(ret), list(self.history)
        return ret

    def __deepcopy__(self, memo: Any) -> "Model":
        ret = type(self).__new__(type(self))
        state = self._state()
        Model.__init__(ret, handle_of(state), self._tensor)
        share_names(ret._handle, self._handle)
        ret.__dict__.update(copy.deepcopy(state["attributes"], memo))
        return ret

    @property
    def names(self) -> "Tuple[Optional[str], ...]":
        """Names of the modes, None where a mode has none."""
        own = names_of(self._handle, self.order)[:-1]
        given = own if self._tensor is None else self._tensor.mode_names
        return own if len(given) != self.order or any(own) else given

    _names = names

    @property
    def origin(self) -> "Optional[Dict[str, Any]]":
        """Which tensor the model is of; None if that is not known.

        The dict has nnz, segments (the number of directories of the tensor), checksum (as in
        ``run.json``) and sum (of its cells, which does not depend on their order, or None).
        """
        return origin_of(self._handle)

    def labels(self, mode: Mode, index: Any = None) -> "list[Optional[str]]":
        """Labels of the rows of a mode. They stay with the model when its tensor is closed.

        Parameters
        ----------
        mode : int or str
        index : array_like of int, shape (n,), optional
            From 0, in any order; by default all indices.

        Returns
        -------
        list of (str or None)

        Examples
        --------
        >>> m = tstream.Model.from_factors(None, [[[1.0], [2.0]], [[1.0]]],
        ...                                modes=["who", "day"], labels=[["ann", "ben"], None])
        >>> m.labels("who")
        ['ann', 'ben']
        """
        mode = self._number(mode)
        if index is None:
            index = np.arange(self.shape[mode], dtype=np.uint64)
        index = np.asarray(index)
        if index.size and index.dtype.kind not in "iu":
            raise ArgumentTypeError(f"indices are {index.dtype}: whole numbers are wanted")
        if index.ndim != 1 or index.size and not 0 <= index.min() <= index.max() < self.shape[mode]:
            raise ArgumentError(f"indices from 0 to {self.shape[mode] - 1} are wanted, in one "
                                "dimension")
        if lib.ts_cpd_labelled(self._handle, mode) == 0 and self._has_tensor():
            assert self._tensor is not None
            return self._tensor.labels(mode, index)
        return labels_of(self._handle, mode, index)

    def _has_tensor(self) -> bool:
        """Whether there is a tensor of this order that can be asked for labels."""
        t = self._tensor
        return t is not None and t._handle is not None and t.order == self.order

    def factor(self, mode: Mode) -> Array:
        """The factor matrix of a mode, by number or name: ``factors[mode]``."""
        return self.factors[mode]

    def to_frame(self, mode: Mode) -> Any:
        """The factor matrix of a mode as a ``pandas.DataFrame``.

        Its index has the labels of the rows, or their numbers if there are none, and the name of
        the mode. Its columns are the components, from 0.
        """
        import pandas
        mode = self._number(mode)
        label = self.labels(mode)
        index: Any = np.arange(self.shape[mode])
        if any(x is not None for x in label):
            index = [i if x is None else x for i, x in enumerate(label)]
        return pandas.DataFrame(np.array(self.factors[mode]),
                                index=pandas.Index(index, name=self.names[mode]),
                                columns=pandas.RangeIndex(self.rank, name="component"))

    def to_xarray(self) -> Any:
        """Weights and factors as an ``xarray.Dataset`` with the dimension ``component``.

        The factor of a mode is the variable ``factor_NAME``, with the mode's labels as the
        coordinate NAME. A mode without a name is called ``mode0``, ``mode1`` and so on.
        """
        import xarray
        data: "Dict[str, Any]" = {"weights": ("component", np.array(self.weights))}
        coords: "Dict[str, Any]" = {"component": np.arange(self.rank)}
        for mode, name in enumerate(self.names):
            dim = f"mode{mode}" if name is None else name
            data[f"factor_{dim}"] = ((dim, "component"), np.array(self.factors[mode]))
            label = self.labels(mode)
            if any(x is not None for x in label):
                names = np.empty(len(label), dtype=object)  # not all as long as the longest
                names[:] = [str(i) if x is None else x for i, x in enumerate(label)]
                coords[dim] = names
        return xarray.Dataset(data, coords)

    def _number(self, mode: Mode) -> int:
        if isinstance(mode, str):
            if mode in self.names:
                return self.names.index(mode)
            if not any(self.names):
                raise ArgumentError(f"no mode is called {mode!r}: the modes have no names")
            raise ArgumentError(f"no mode is called {mode!r}, only "
                                f"{', '.join(x for x in self.names if x is not None)}")
        number = integer("mode", mode)
        if isinstance(mode, (bool, np.bool_)):
            raise ArgumentTypeError(f"mode={mode}: a number or a name is wanted")
        if not -self.order <= number < self.order:
            raise IndexError(f"there is no mode {number}, only 0 to {self.order - 1}")
        return number % self.order

    def rows(self, mode: Mode) -> "tuple[Optional[Array], Array]":
        """The stored rows of the factor of a mode. All other rows are zeros.

        Parameters
        ----------
        mode : int or str

        Returns
        -------
        index : ndarray of uint64, shape (n,), or None
            Their indices, ascending; None if row i is index i.
        rows : ndarray, shape (n, rank)

        Examples
        --------
        >>> t = tstream.from_coo([[0, 0], [2, 1]], [1.0, 2.0], (3, 2))
        >>> index, rows = tstream.cp(t, 1, cpu=True, progress=False).rows(0)
        >>> index.tolist(), rows.shape
        ([0, 2], (2, 1))
        """
        mode = self._number(mode)
        n = lib.ts_cpd_held(self._handle, mode)
        index = lib.ts_cpd_index(self._handle, mode)
        rows = self._view(lib.ts_cpd_factor(self._handle, mode), self.dtype, (n, self.rank))
        return None if index is None else self._view(index, np.uint64, (n,)), rows

    def top(self, component: int, mode: Mode = 0, n: int = 10) -> Table:
        """The strongest entries of a component.

        Parameters
        ----------
        component : int
            From 0.
        mode : int or str
        n : int

        Returns
        -------
        Table
            Columns index, value and, if the tensor has labels, label. The largest magnitude comes first.
        """
        mode, component = self._number(mode), integer("component", component)
        n = not_negative("n", n)
        if not 0 <= component < self.rank:
            raise ArgumentError(f"there is no component {component}, only 0 to {self.rank - 1}")
        index, value = np.empty(n, dtype=np.uint64), np.empty(n)
        found, err = c.c_uint32(), ts_error()
        check(lib.ts_cpd_top(self._handle, mode, component, n, index.ctypes.data, value.ctypes.data,
                             c.byref(found), c.byref(err)), err)
        table: "dict[str, Any]" = {"index": index[:found.value], "value": value[:found.value]}
        label = self.labels(mode, table["index"])
        if any(x is not None for x in label):
            table["label"] = label
        return Table(table)

    def _value_name(self) -> Optional[str]:
        """The name of the values, or None for values without a name."""
        own = names_of(self._handle, self.order)[-1]
        return own if own is not None or self._tensor is None else self._tensor.value_name

    def _tensor_of(self, given: Any, value: Any, what: str) -> Tensor:
        """The tensor that is given, or that of the run."""
        if given is not None or value is not None:
            from ._cells import tensor_of
            return tensor_of(self, given, value)
        if self._tensor is None:
            raise ArgumentError(f"{what} needs a tensor")
        return self._tensor

    @overload
    def fit(self, tensor: Any = None, *, details: Literal[False] = False, value: Any = None,
            by: str = "label", threads: int = 0, host_memory: Size = None, cpu: bool = False, gpus: Gpus = None,
            gpu_memory: Size = None) -> float: ...
    @overload
    def fit(self, tensor: Any = None, *, details: Literal[True], value: Any = None,
            by: str = "label", threads: int = 0, host_memory: Size = None, cpu: bool = False, gpus: Gpus = None,
            gpu_memory: Size = None) -> "Dict[str, float]": ...

    def fit(self, tensor: Any = None, *, details: bool = False, value: Any = None,
            by: str = "label", threads: int = 0, host_memory: Size = None, cpu: bool = False, gpus: Gpus = None,
            gpu_memory: Size = None) -> "Union[float, Dict[str, float]]":
        """The exact fit 1 - |X - model| / |X|, computed in float64.

        Parameters
        ----------
        tensor : Tensor, path, array or table, optional
            As :func:`cp` takes it; by default that of the run. Columns of a table are found by the
            names of the modes, and its rows by the labels of the model.
        details : bool
            Return a dict with fit, error (estimated effect of rounding), residual, norm and model_norm.
        value : str, optional
            Of a table: the column of the values. ``"none"`` counts each row as 1.
        by : {'label', 'index'}
            How rows of the model are found for a tensor. ``"label"``: in modes where both have
            labels, by these; the tensor may have them in another order, and not all of them.
            ``"index"``: by index in all modes.
        threads, host_memory, cpu, gpus, gpu_memory
            As in :func:`cp`.

        Returns
        -------
        float or dict
        """
        tensor = self._tensor_of(tensor, value, "a fit")
        model = aligned(self, tensor, by)
        call = Call()
        conf = session_conf(call, threads=threads, host_memory=host_memory, cpu=cpu, gpus=gpus,
                            gpu_memory=gpu_memory)
        ret = ts_fit_result()
        call.run(lib.ts_fit, tensor._open(), model._handle, c.byref(conf), c.byref(ret))
        if not details:
            return float(ret.fit)
        return {name: float(getattr(ret, name)) for name in ("fit", "error", "residual", "norm", "model_norm")}

    def core_consistency(self, tensor: Any = None, *, normalised: bool = False,
                         scaling: str = "equal", value: Any = None, by: str = "label",
                         threads: int = 0) -> float:
        """Core consistency in per cent. It is near 100 if the data support all components.

        The core is the one of least squares for these factors (Bro and Kiers, J. Chemometrics 17,
        2003). Unlisted cells of a sparse tensor are zeros. NaN cells of an array are unknown: the
        core is then that of least squares over the known cells. Cells have no weights.

        Parameters
        ----------
        tensor : Tensor, path, array or table, optional
            As in :meth:`fit`; by default that of the run.
        normalised : bool
            Divide by the size of the core instead of the rank.
        scaling : {'equal', 'given'}
            ``"equal"`` divides the size of each component equally among the modes, as ``corcond`` of the N-way
            toolbox does. ``"given"`` uses the factors as they are, with the weights in mode 0, as TLViz does.
        value, by : str, optional
            As in :meth:`fit`.
        threads : int
            As in :func:`cp`.
        """
        tensor = self._tensor_of(tensor, value, "a core consistency")
        model = aligned(self, tensor, by)
        if scaling not in ("equal", "given"):
            raise ArgumentError(f"scaling={scaling!r}: equal or given")
        if tensor.dense:
            from ._core_consistency import dense_core_consistency
            return dense_core_consistency(model, tensor, bool(normalised), scaling)
        call = Call()
        conf = session_conf(call, threads=threads, cpu=True)
        ret = ts_core_result()
        call.run(lib.ts_cpd_core, model._handle, tensor._open(), c.byref(conf), c.byref(ret))
        if scaling == "given":
            return float(ret.given_normalised if normalised else ret.given)
        return float(ret.normalised if normalised else ret.consistency)

    def evaluate(self, tensor: Any = None, *, top: int = 0, by_slice: Optional[Mode] = None,
                 value: Any = None, by: str = "label", precision: str = "float64",
                 threads: int = 0, host_memory: Size = None) -> Evaluation:
        """Compares the model with the nonzeros of a tensor, as ``tstream score`` does, on CPU cores.

        Unlisted cells count only in the Poisson likelihood; :meth:`fit` treats them as zeros.

        Parameters
        ----------
        tensor : Tensor, path, array or table, optional
            As in :meth:`fit`; by default that of the run. :meth:`Tensor.split` makes a tensor of held-out cells.
        top : int
            Also return this number of nonzeros with the largest residuals.
        by_slice : int or str, optional
            Also return the sums of each slice of this mode.
        value, by : str, optional
            As in :meth:`fit`.
        precision : {'float64', 'float32'}
            Precision of factors and products. float32 takes half the memory and time.
        threads, host_memory
            As in :func:`cp`.
        """
        tensor = self._tensor_of(tensor, value, "an evaluation")
        model = aligned(self, tensor, by)
        return evaluation_of(model._handle, tensor, top, by_slice, precision, threads, host_memory)

    def predict(self, coords: Any) -> Array:
        """Values of the model at given cells.

        A TstreamWarning gives the number of cells with an index whose row in the model is all zeros, such as an index
        that was never seen. There the 0 is not a prediction.

        Parameters
        ----------
        coords : array_like, shape (n, order), tuple of `order` arrays of shape (n,), or table
            Indices from 0 or, in modes with labels, labels. Columns of a table, which may be a
            dict, are found by the names of the modes. There, all fields of a mode with labels are
            labels, also numbers.

        Returns
        -------
        ndarray of float64, shape (n,)

        Raises
        ------
        ArgumentError
            A label or index is not in the model, or a field is missing.

        Examples
        --------
        >>> m = tstream.Model.from_factors(None, [[[1.0], [2.0]], [[3.0], [4.0]]],
        ...                                modes=["who", "day"], labels=[["ann", "ben"], None])
        >>> m.predict([("ben", 0), ("ann", 1)])
        array([6., 4.])
        >>> m.predict({"day": [1, 1], "who": ["ann", "ben"]})
        array([4., 8.])
        """
        from ._cells import indices
        index = indices(self, coords)
        ret, err = np.empty(len(index)), ts_error()
        check(lib.ts_cpd_predict(self._handle, len(index), index.ctypes.data, ret.ctypes.data,
                                 c.byref(err)), err)
        warn_unseen(lib.ts_cpd_unseen(self._handle, len(index), index.ctypes.data,
                                      ret.ctypes.data), len(index))
        return ret

    def fold_in(self, new: Any, mode: Mode = 0, *, nonneg: bool = False, l2: float = 0,
                observed: Optional[bool] = None, loss: Optional[str] = None,
                join: bool = False, value: Any = None) -> "Model":
        """Rows of one mode for new data; the other factors and the weights stay as they are.

        Least squares are solved without squaring the condition of the fixed factors.

        Parameters
        ----------
        new : Tensor, path, array or table
            Its `mode` may have any size. The other modes must match those of the model: by label
            if both have labels, else by index. Columns of a table are found by the names of the
            modes.
        mode : int or str
            The mode of the new rows.
        nonneg : bool
            The rows are nonnegative. Losses whose models are nonnegative imply it.
        l2 : float
            Half this number times the sum of squares of a row is added to its loss.
        observed : bool, optional
            Unlisted cells of a sparse tensor are unknown, not zeros. NaN cells of an array always
            are. By default as in the run of the model; False without a run.
        loss : str, optional
            As in :func:`cp`. By default that of the run; least squares without a run.
        join : bool
            Return the rows of the model followed by the new ones.
        value : str, optional
            Of a table: the column of the values. ``"none"`` counts each row as 1.

        Returns
        -------
        Model
            In float64. A row without cells that count is zeros.

        Raises
        ------
        ArgumentError
            Modes do not match, the cells have weights, or a slice is too large for a loss that
            needs all of its cells.

        Examples
        --------
        >>> m = tstream.Model.from_factors([2], [[[1], [2]], [[1], [1]]])
        >>> m.fold_in(np.array([[2.0, 2.0], [4.0, 4.0], [8.0, 8.0]]), mode=0).factors[0].ravel()
        array([1., 2., 4.])
        """
        from ._fold import fold_in
        if observed is None:
            observed = self.observed
        if loss is None:
            loss = self.loss or "least-squares"
        made: Model = fold_in(self, new, mode, nonneg=nonneg, l2=l2, observed=observed, loss=loss,
                              join=join, value=value)
        return made

    def score(self, other: "Model", *, skip: "Union[None, Mode, Sequence[Mode]]" = None) -> float:
        """Factor match score: 1 for equal models, near 0 for models without a common component.

        The score of two components is the product of the magnitudes of the cosines of their
        columns, times 1 - |a - b| / max(a, b). Here a and b are the sizes of the components; the
        factor is 1 if both are 0. ``tstream compare`` and ``score`` of Tensor Toolbox use the same
        score. Two components of zeros have score 1. Pairs maximise the sum of scores (without SciPy
        they are chosen greedily). The result is the mean over the components of the model with
        fewer components. :func:`compare` gives the pairs.

        Parameters
        ----------
        other : Model
            Of the same shape, except in the skipped modes.
        skip : int, str or sequence of them, optional
            Modes that do not count. The sizes of components are those of all modes.
        """
        if not isinstance(other, Model):
            raise ArgumentTypeError(f"other is of type {type(other).__name__}: a Model is wanted")
        from ._replicability import score
        return score(self, other, skip)

    def plot(self, components: "Union[None, int, Sequence[int]]" = None,
             most: Optional[int] = None, **settings: Any) -> Any:
        """Draws the columns of the factors with Matplotlib, a row of pictures for each component.

        ``settings`` are `modes`, `top`, `kind`, `ax` and `figsize`, as
        :func:`tstream._plot.plot_model` explains them. `most` is an old name of `top`.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from ._plot import plot_model
        if most is not None:
            warnings.warn("most= is now called top=", FutureWarning, stacklevel=2)
            settings["top"] = most
        return plot_model(self, components, **settings)

    def report(self, path: Path, *, tensor: "Union[Tensor, Path, None]" = None,
               components: int = 64, top: int = 5,
               lines: "Union[None, Mode, Sequence[Mode]]" = None, replace: bool = False) -> None:
        """Writes an HTML page about the model, like ``tstream report``.

        The page loads nothing and runs no script. Components come first, each with its strongest
        labels, then the weights and diagnostics.

        Parameters
        ----------
        path : path
            The page, such as ``"model.html"``. It is compressed if its name ends in ``.gz``.
        tensor : Tensor or path, optional
            The tensor of the model, whose size and checksum the page then tells.
        components : int
            Number of components, by weight. 0 shows all.
        top : int
            Number of strongest indices of each mode that is not drawn as a line.
        lines : mode, or sequence of modes, optional
            Modes that are drawn as lines because their indices are a sequence, such as time. An
            empty sequence draws none. By default modes whose labels are ascending numbers or dates.
        replace : bool
            Replace an existing page. Files that tstream did not write are never replaced.

        Raises
        ------
        BusyError
            `path` exists, and `replace` is False.
        FileNotFoundError
            The folder of `path` does not exist.
        Error
            The page cannot be written.

        Examples
        --------
        >>> m = tstream.Model.from_factors([2.0], [[[0.6], [0.8]], [[1.0]]])
        >>> m.report(folder + "/m.html")
        """
        from ._report import write_report
        write_report(self, path, tensor, components, top, lines, replace)

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
    def from_factors(cls, weights: Any, factors: Any, dtype: Any = "float64", *,
                     modes: "Optional[Sequence[Optional[str]]]" = None,
                     labels: "Optional[Sequence[Any]]" = None) -> "Model":
        """Makes a model from arrays, which are copied. Nothing is sorted or normalised.

        Parameters
        ----------
        weights : array_like, shape (rank,), or None for ones
        factors : sequence of array_like, shape (shape[mode], rank)
        dtype : {'float64', 'float32'}
        modes : sequence of str, optional
            Names of the modes; None for a mode without a name.
        labels : sequence of (sequence of str), optional
            Labels of the rows of each mode; None for a mode without labels.

        Raises
        ------
        ArgumentError
            Shapes differ, or a number is not finite.

        Examples
        --------
        >>> m = tstream.Model.from_factors([2.0, 1.0], [np.eye(2), np.eye(3, 2)], modes=["a", "b"])
        >>> m.names, m.shape, m.rank
        (('a', 'b'), (2, 3), 2)
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
        names = given_names([len(f) for f in factors], modes, labels)
        model = cls(check(lib.ts_cpd_new(len(factors), dim, rank, precisions[precision_of(dtype)],
                                         weights.ctypes.data, rows, c.byref(err)), err))
        if modes is not None or labels is not None:
            give_names(model._handle, model.order, names)
        return model

    @classmethod
    def load(cls, path: Path, tensor: Optional[Tensor] = None) -> "Model":
        """What :func:`load` reads, where that is one model.

        Raises
        ------
        ArgumentError
            The directory has several models.
        """
        model = load(path, tensor)
        if not isinstance(model, Model):
            raise ArgumentError(f"{os.fsdecode(path)}: has several models: Collection.load reads "
                                "them")
        return model

    def save(self, path: Path, formats: "Union[str, Sequence[str]]" = ("ktensor",), *,
             rows: str = "all", labels: bool = True, replace: bool = False) -> None:
        """Writes a directory, like ``tstream cp``. It appears complete or not at all.

        The file ``history.json`` has the sweeps of the run and what else the model says of it.

        Parameters
        ----------
        path : path
        formats : sequence of {'ktensor', 'npy', 'splatt'}, or one
        rows : {'all', 'used'}
            'all': a row for each index. 'used': stored rows only, with a file of their indices.
        labels : bool
            Also write labels of the rows. Names of modes, and which tensor it is, are written
            anyway.
        replace : bool
            Replace an existing decomposition. Files that tstream did not write are never replaced.

        Raises
        ------
        BusyError
            `path` exists, and `replace` is False.
        FileError
            It cannot be written.

        Examples
        --------
        >>> m = tstream.Model.from_factors([2.0], [[[0.6], [0.8]], [[1.0]]])
        >>> m.save(folder + "/m.cp", "npy")
        >>> tstream.load(folder + "/m.cp") == m
        True
        """
        call = Call()
        conf = ts_save_conf(formats=files_of(formats, rows), held_rows=rows == "used",
                            no_labels=not labels, replace=bool(replace), stop=call.stop,
                            note=call.note, history=history_of(self))
        if not encoded(path):
            raise ArgumentError("path is empty: the name of a directory is wanted")
        if os.path.isdir(path) and os.listdir(path) and not replace:
            raise BusyError(f"{os.fsdecode(path)} exists: replace=True replaces it, unless it holds "
                            "files that tstream did not write")
        try:
            call.run(lib.ts_cpd_save, self._handle, encoded(path), c.byref(conf))
        except (ArgumentError, BusyError) as e:  # the sentence is of cp, whose keywords save lacks
            e.args = (str(e).replace(" with out", " as path"), )
            raise


def load(path: Path, tensor: Optional[Tensor] = None) -> "Union[Model, Any]":
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

    Notes
    -----
    :meth:`Model.load` and :meth:`Collection.load` are the same for type checkers, which then know
    what is there.
    """
    if os.path.isfile(os.path.join(os.fsdecode(path), "models.json")):
        from ._collection import read
        return read(os.fsdecode(path), lambda name: load_one(os.path.join(os.fsdecode(path), name), tensor))
    return load_one(path, tensor)


def load_one(path: Path, tensor: Optional[Tensor]) -> Model:
    """One model."""
    call = Call()
    model = Model(call.run(lib.ts_cpd_load, encoded(path), call.stop), tensor)
    record = recall(path, model.rank) or {}
    narrow = "float32" if is_narrow(model._handle) else None
    precision, shape = record.pop("precision", narrow), record.pop("shape", model.shape)
    if precision == "float32" != model.dtype or shape != model.shape:
        state = completed(model._state(), precision, shape)
        if state is not None:
            whole = Model(handle_of(state), tensor)
            share_names(whole._handle, model._handle)
            model = whole
    model.__dict__.update(record)
    return model
