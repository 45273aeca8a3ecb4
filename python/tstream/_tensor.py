# SPDX-License-Identifier: BSD-3-Clause
"""Tensors on disk."""

import ctypes as c
import operator
import os
import shutil
import threading
import weakref
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from . import _files, _inputs
from ._checks import integer, names_of_columns
from ._html import of_tensor
from ._lib import (ArgumentError, Array, BusyError, Call, FormatError, Mode, Path, Size, check,
                   encoded, lib, strings, ts_array_conf, ts_error, whole)
from ._pickle import opened_as, reduce_tensor


_FACTS = ("_handle", "_opened_as", "_norm", "shape", "used", "nnz", "dense", "has_duplicates",
          "dtype", "mode_names", "value_name")
_loading = threading.RLock()


class _Handle:
    """A tensor that the library has open.

    Each call that has it holds this, so that it is closed when the last one has ended.
    """

    def __init__(self, handle: Any, folder: "Optional[_Folder]") -> None:
        self._as_parameter_ = c.c_void_p(handle)
        weakref.finalize(self, _close, handle, folder)


class _Folder:
    """The temporary directory of a tensor, which is removed with the last handle of it."""

    def __init__(self, path: str) -> None:
        weakref.finalize(self, _remove, path, os.getpid())


class Tensor:
    """A sparse tensor in a ``.tsh`` directory. :meth:`append` makes it longer.

    Any number of threads may use one. :func:`open`, :func:`build` and :func:`from_coo` return it.

    Parameters
    ----------
    path : path
        The directory.

    Attributes
    ----------
    path : str
    shape : tuple of int
    nnz : int
        Number of nonzeros.
    norm : float
        Square root of the sum of their squares.
    dtype : numpy.dtype
        Type of the stored values: float32 or float64.
    mode_names : tuple of (str or None)
        Names of the modes.
    value_name : str or None
    used : tuple of int
        Indices of each mode that have a nonzero.
    dense : bool
        Whether it is a dense tensor.
    skipped : int
        Rows that the build skipped with ``missing="skip"``; 0 for a tensor that was opened.
    merged : int
        Nonzeros that the build added to another one of the same cell; 0 for a tensor that was
        opened.
    has_duplicates : bool
        Whether cells hold several nonzeros (``tshard build --duplicates keep``). Such a cell is
        their sum.
    """

    def __init__(self, path: Path, _temporary: Optional[str] = None, _array: Optional[Array] = None,
                 _modes: "Optional[Sequence[Optional[str]]]" = None,
                 _labels: "Optional[Sequence[Any]]" = None) -> None:
        self.path: str = os.fsdecode(path)
        self.skipped = 0
        self.merged = 0
        self._temporary = _temporary is not None
        self._folder = None if _temporary is None else _Folder(_temporary)
        self._cells = _array  # which the library reads where it is
        self._labels = _labels  # of an array, for what makes it again
        self._load(_modes)

    def _load(self, _modes: "Optional[Sequence[Optional[str]]]" = None) -> None:
        """Opens the tensor, and reads what is known of it."""
        err = ts_error()
        _array, _labels = self._cells, self._labels
        self._opened_as = opened_as(self.path) if _array is None else ("", None)
        if _array is None:
            handle = check(lib.ts_open(encoded(self.path), c.byref(err)), err)
        else:
            names = c.POINTER(c.c_char_p)
            texts = [None if x is None else strings(x) for x in _labels or ()]
            each = (names * len(texts))(
                *[names() if x is None else c.cast(x, names) for x in texts])
            conf = ts_array_conf(name=encoded(self.path), cells=_array.ctypes.data,
                                 order=_array.ndim, type=_array.dtype.name.encode(),
                                 dim=(c.c_uint64 * max(_array.ndim, 1))(*_array.shape),
                                 fortran=not _array.flags.c_contiguous,
                                 swapped=not _array.dtype.isnative,
                                 mode_name=None if _modes is None else strings(_modes),
                                 label=each if texts else None)
            # not in this thread, whose OpenMP no forked process could use then
            handle = Call().run(lib.ts_open_array, c.byref(conf))
            del texts, each
        self._handle: Optional[_Handle] = _Handle(handle, self._folder)
        order = lib.ts_order(self._handle)
        name = [lib.ts_name(self._handle, m) for m in range(order + 1)]
        name = [None if n is None else n.decode(errors="replace") for n in name]
        self.shape: "tuple[int, ...]" = tuple(
            lib.ts_dim(self._handle, m) for m in range(order))
        self.used: "tuple[int, ...]" = tuple(
            lib.ts_used(self._handle, m) for m in range(order))
        self.nnz: int = lib.ts_nnz(self._handle)
        self.dense = bool(lib.ts_is_dense(self._handle))
        self.has_duplicates = bool(lib.ts_has_duplicates(self._handle))
        self._norm = float("nan") if self.has_duplicates else lib.ts_norm(self._handle)
        self.dtype: "np.dtype[Any]" = np.dtype(
            np.float32 if lib.ts_value_bytes(self._handle) == 4 else np.float64)
        self.mode_names: "tuple[Optional[str], ...]" = tuple(name[:-1])
        self.value_name: Optional[str] = name[-1]

    def _forget(self) -> None:
        """Closes the tensor after a change of its directory. The next use opens it again."""
        with _loading:
            for name in _FACTS:
                self.__dict__.pop(name, None)

    if not TYPE_CHECKING:  # type checkers know all attributes from _load

        def __getattr__(self, name: str) -> Any:
            """What was forgotten."""
            if name not in _FACTS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with _loading:
                if name not in self.__dict__:
                    if self.__dict__.get("_handle", self) is None:
                        raise ArgumentError(f"{self.path}: the tensor is closed")
                    self._load()
            return self.__dict__[name]

    @property
    def norm(self) -> float:
        """Square root of the sum of squares of the cells. For an array in a file it is NaN until it
        has been decomposed.

        If cells hold several nonzeros (``has_duplicates``), the first access takes a pass over the
        tensor.
        """
        handle = self._handle
        if handle is not None:
            self._norm = lib.ts_norm(handle)
        return float(self._norm)

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.shape)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"<tstream.Tensor {self.path!r}: {shape}, {self.nnz} nonzeros>"

    def _repr_html_(self) -> str:
        return of_tensor(self)

    def __reduce__(self) -> Any:
        return reduce_tensor(self)

    def __copy__(self) -> "Tensor":
        ret = Tensor.__new__(Tensor)
        ret.__dict__.update(self.__dict__)
        return ret

    def __deepcopy__(self, memo: Any) -> "Tensor":
        return self.__copy__()  # what it holds is read-only

    def close(self) -> None:
        """Closes the tensor. Its models continue to work without labels, and running calls of other
        threads continue with it."""
        self._handle = self._folder = None

    def __enter__(self) -> "Tensor":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open(self) -> Any:
        if self._handle is None:
            raise ArgumentError(f"{self.path}: the tensor is closed")
        return self._handle

    def mode(self, mode: Mode) -> int:
        """The number, from 0, of a mode given by number or name."""
        if isinstance(mode, str):
            if mode not in self.mode_names:
                raise ArgumentError(f"{self.path}: no mode is called {mode!r}")
            return self.mode_names.index(mode)
        number = integer("mode", mode)
        if not 0 <= number < self.order:
            raise ArgumentError(
                f"{self.path}: there is no mode {number}, only 0 to {self.order - 1}")
        return number

    def labels(self, mode: Mode, index: Any = None) -> "list[Optional[str]]":
        """Labels of indices.

        Parameters
        ----------
        mode : int or str
        index : array_like of int, shape (n,), optional
            From 0, in any order; by default all indices.

        Returns
        -------
        list of (str or None)
        """
        index = np.arange(self.shape[self.mode(mode)]) if index is None else np.asarray(index)
        if index.size and index.dtype.kind not in "iu":
            raise ArgumentError(f"indices are {index.dtype}: whole numbers are wanted")
        if index.size and index.min() < 0:
            raise ArgumentError(f"index {index.min()}: indices start at 0")
        index = np.ascontiguousarray(index, dtype=np.uint64)
        n = index.size
        ret = (c.c_char_p * (n + 1))()
        err = ts_error()
        check(lib.ts_labels(self._open(), self.mode(mode), n, index.ctypes.data, ret, c.byref(err)),
              err)
        text = [None if t is None else t.decode(errors="replace") for t in ret[:n]]
        lib.ts_labels_free(n, ret)
        return text

    def used_indices(self, mode: Mode) -> Array:
        """The indices of a mode that have a nonzero, ascending: uint64, shape (used[mode],)."""
        mode = self.mode(mode)
        ret = np.empty(self.used[mode], dtype=np.uint64)
        err = ts_error()
        check(lib.ts_used_indices(self._open(), mode, ret.ctypes.data, c.byref(err)), err)
        return ret

    def split(self, hold_out: float = 0.2, *, seed: int = 1, train: Optional[Path] = None,
              test: Optional[Path] = None, **options: Any) -> "tuple[Tensor, Tensor]":
        """Divides the nonzeros into two tensors, as ``tshard split`` does.

        A hash of the cell and the seed chooses the tensor. ``cp`` with ``hold_out`` and this seed
        holds out the cells of `test`.

        Parameters
        ----------
        hold_out : float
            Share of the second tensor.
        seed : int
        train, test : path, optional
            Directories to write. By default they have the name of this tensor with ``.train.tsh``
            and ``.test.tsh``, in the current directory. Parts of a temporary tensor are temporary
            by default.
        **options
            memory, tmp, threads, shard, replace, progress, space_check: as in :func:`build`.

        Returns
        -------
        train, test : Tensor
            With the sizes, names and labels of this one.
        """
        from ._build import _select, select_temporary
        if not 0 < hold_out < 1:
            raise ArgumentError(f"hold_out={hold_out!r}: a share of the nonzeros, between 0 and 1")
        stem = os.path.basename(self.path.rstrip("/"))
        stem = stem[:-4] if stem.endswith(".tsh") else stem
        paths = [
            f"{stem}.{name}.tsh" if path is None and not self._temporary else path
            for name, path in (("train", train), ("test", test))
        ]
        named = [given for given in paths if given is not None]
        places = [os.path.realpath(path) for path in (*named, self.path)]
        if len(set(places)) <= len(named):
            raise ArgumentError(
                "train and test are two tensors beside this one, which is read for each of them: "
                "name "
                "other places")
        for path in named if not options.get("replace") else ():
            if os.path.exists(path):
                raise BusyError(f"{os.fsdecode(path)} exists; replace=True replaces it")
        made: "list[Tensor]" = []
        new = paths[0] is not None and not os.path.exists(paths[0])
        try:
            for held, out in enumerate(paths):
                chosen: "dict[str, Any]" = dict(keep={}, least={}, sums=(), hold_out=hold_out,
                                                seed=seed, held=bool(held), **options)
                made.append(select_temporary(self, **chosen) if out is None else
                            _select(self, out, **chosen))
        except FormatError:  # one of them would have no values other than 0
            if made and new:
                shutil.rmtree(places[0])
            raise
        return made[0], made[1]

    def select(self, out: Path, keep: "Optional[Mapping[Mode, Any]]" = None,
               at_least: "Union[int, Mapping[Mode, int]]" = 0, sum: "Sequence[Mode]" = (),
               **options: Any) -> "Tensor":
        """Builds a tensor from a part of this one, as ``tshard select`` does.

        Parameters
        ----------
        out : path
            The directory to make.
        keep : dict of mode to array_like, optional
            For a mode, the indices (from 0) or labels to keep.
        at_least : int or dict of mode to int
            Fewest nonzeros of a slice in this tensor, for all modes or for the modes of the dict.
            Other slices are dropped.
        sum : sequence of modes
            Modes to leave out. Nonzeros that then share a cell are added.
        **options
            memory, tmp, threads, shard, replace, progress, space_check: as in :func:`build`.

        Returns
        -------
        Tensor
            With the sizes, names and labels of this one.
        """
        from ._build import _select
        indices = {
            self.mode(m): self._indices(self.mode(m), what)
            for m, what in (keep or {}).items()
        }
        least: "list[tuple[Mode, int]]" = (list(at_least.items()) if isinstance(at_least, Mapping)
                                           else [(m, at_least) for m in range(self.order)])
        return _select(self, out, keep=indices, least={
            self.mode(m): n
            for m, n in least
        }, sums=[self.mode(m) for m in sum], **options)

    def _indices(self, mode: int, what: Any) -> Array:
        """Indices of a mode that are given as such, or by their labels."""
        given = list(what)
        names = {x for x in given if isinstance(x, str)}
        index = [operator.index(x) for x in given if not isinstance(x, str)]
        if any(i < 0 for i in index):
            raise ArgumentError(f"{self.path}: an index of mode {mode} is less than 0")
        index = [whole(f"an index of mode {mode}", i) for i in index]
        used = self.used_indices(mode) if names else np.empty(0, dtype=np.uint64)
        found = set()
        for at in range(0, used.size, 1 << 16):
            some = used[at:at + (1 << 16)]
            for i, label in zip(some, self.labels(mode, some)):
                if label in names:
                    index.append(int(i))
                    found.add(label)
        if names - found:
            raise ArgumentError(
                f"{self.path}: no used index of mode {mode} is called {sorted(names - found)[0]!r}")
        return np.array(index, dtype=np.uint64)

    def append(self, data: Any, values: Any = None, *, modes: "Optional[Sequence[Any]]" = None,
               value: Any = None, weights: Any = None, text: Any = (),
               bin: "Optional[Mapping[Any, str]]" = None,
               time_unit: "Union[None, str, Mapping[Any, str]]" = None, missing: str = "error",
               repeat: bool = False, variable: Optional[str] = None, **options: Any) -> None:
        """Appends nonzeros to the tensor on disk, as ``tshard append`` does.

        They become a segment beside what is there, so this takes the time of a small build. Values
        of a cell that is there are added. New names get the next indices in the order of their
        first appearance, later times the next bins, and modes become longer.

        Nothing is merged by this call, unlike by ``tshard append``, which merges segments when they
        have become a quarter of the tensor: :meth:`compact` does.

        The tensor remembers its build: columns, values, weights, bins, transform, type of values.
        Keywords that are not given are those of the build, and others are refused.

        This object is refreshed: its next use opens the longer tensor, and merges its segments
        once, as long as a build from a tensor takes. Until then nothing is read. Runs, iterators
        and other objects that have the tensor open go on with what they opened.

        Parameters
        ----------
        data : path, list of them, table, tables or object
            What :func:`build`, :func:`from_frame`, :func:`from_batches` and :func:`from_coo` take.
            Columns of tables are found by their names. Indices of arrays are those of the tensor,
            and labels of an xarray.DataArray are looked up.
        values : array_like, shape (n,), optional
            With coordinates as `data`, as in :func:`from_coo`.
        modes : sequence of str, optional
            Columns that are modes, in the order of the modes, if the tensor does not name them.
        value : str, optional
            Column of the values. A tensor of arrays does not know it; 'none' counts each row as 1.
        weights : str or array_like, optional
            Column of the weights, or weights beside `values`.
        text, bin, time_unit, variable : optional
            As in :func:`build`.
        missing : {'error', 'skip'}
            What to do with rows with a missing field. ``skipped`` is their number.
        repeat : bool
            Append nonzeros even if they are those of an earlier segment. Otherwise they are
            refused, whether they come from files or tables.
        **options
            memory, tmp, threads, shard, progress, space_check: as in :func:`build`.

        Raises
        ------
        ValueError
            Something differs from the build of the tensor. The sentence names it. Nothing has
            changed then.

        Examples
        --------
        >>> monday = {"user": ["ann", "bob"], "item": ["tea", "milk"], "n": [1, 2]}
        >>> t = ts.from_frame(monday, ["user", "item"], "n", folder + "/shop.tsh")
        >>> t.append({"user": ["cleo", "ann"], "item": ["tea", "tea"], "n": [3, 1]})
        >>> t.shape, t.nnz
        ((3, 2), 3)
        >>> t.undo()
        >>> t.shape, t.nnz
        ((2, 2), 2)
        """
        from . import _append
        self._check_grows("append to")
        _append.append(self, data, values, modes=modes, value=value, weights=weights, text=text,
                       bin=bin, time_unit=time_unit, missing=missing, repeat=repeat,
                       variable=variable, **options)

    def undo(self) -> None:
        """Takes back what was appended last, as ``tshard undo`` does. The object is refreshed, as
        by :meth:`append`.

        Raises
        ------
        ValueError
            Nothing was appended since the tensor was built or compacted.
        """
        from . import _append
        self._check_grows("undo")
        _append.undo(self)

    def compact(self, **options: Any) -> None:
        """Merges what was appended with the rest, as ``tshard compact`` does. The cells stay, and
        nothing can be undone afterwards.

        Parameters
        ----------
        **options
            memory, tmp, threads, shard, progress, space_check: as in :func:`build`. By default
            shards have the size of those of the tensor.
        """
        from . import _append
        self._check_grows("compact")
        _append.compact(self, **options)

    def _check_grows(self, what: str) -> None:
        if self._cells is not None or not os.path.isdir(self.path) and os.path.exists(self.path):
            raise ArgumentError(f"{self.path}: is a dense array, and there is nothing to {what}")
        if self.__dict__.get("_handle", self) is None:
            raise ArgumentError(f"{self.path}: the tensor is closed")

    def blocks(self, mode: Mode = 0, size: int = 1 << 18) -> "Iterator[tuple[Array, Array]]":
        """Walks over all nonzeros.

        Parameters
        ----------
        mode : int or str
            Read the copy that is sorted by this mode first.
        size : int
            Maximum number of nonzeros of a block, at least 256.

        Yields
        ------
        coords : ndarray of uint64, shape (n, order)
            Indices from 0.
        values : ndarray of float64, shape (n,)
        """
        err = ts_error()
        handle = self._open()
        cursor = check(lib.ts_cursor_open(handle, self.mode(mode), c.byref(err)), err)
        n = c.c_uint64()
        try:
            while True:
                coords = np.empty((size, self.order), dtype=np.uint64)
                values = np.empty(size, dtype=np.float64)
                check(
                    lib.ts_cursor_next(cursor, size, coords.ctypes.data, values.ctypes.data,
                                       c.byref(n), c.byref(err)), err)
                if n.value == 0:
                    return
                yield coords[:n.value], values[:n.value]
                self._open()  # not closed meanwhile
        finally:
            lib.ts_cursor_close(cursor)


def _close(handle: Any, folder: "Optional[_Folder]") -> None:
    lib.ts_close(handle)


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # not of a process that was forked
        shutil.rmtree(folder, ignore_errors=True)


def open(path: Any, *, modes: "Optional[Sequence[Any]]" = None, value: Any = None,
         weights: Any = None, text: Any = (), bin: "Optional[Mapping[Any, str]]" = None,
         time_unit: "Union[None, str, Mapping[Any, str]]" = None, missing: str = "error",
         variable: Optional[str] = None, memory: Size = None) -> Tensor:
    """Opens a tensor, or takes an object as one, as :func:`cp` and :meth:`Model.fit` do.

    Parameters
    ----------
    path : path or object
        A ``.tsh`` directory, or a file of a dense array (``.npy``). Arrays of NumPy (masked cells
        are unknown), of HDF5 (h5py) and of others that NumPy reads; sparse arrays of scipy.sparse,
        sparse and pyttb; an xarray.DataArray, whose dimensions are modes and whose coordinates are
        labels; tables of pandas, polars and pyarrow; paths of files of Parquet, Arrow, feather,
        CSV, TSV, MATLAB, HDF5 and ``.npz``.
    modes, value, weights, text, bin, time_unit, missing : optional
        Of tables: as in :func:`from_frame`. `modes` of arrays are names of modes.
    variable : str, optional
        Which array of a file of MATLAB, HDF5 or ``.npz`` is the tensor, if it has several.
    memory : int or str, optional
        Memory of a build. Sparse arrays and tables become a temporary directory, which is removed
        with the tensor.

    Returns
    -------
    Tensor

    Raises
    ------
    TypeError
        The type of the object is no tensor. The sentence names the type and the way.
    """
    return as_tensor(path, modes=modes, value=value, weights=weights, text=text, bin=bin,
                     time_unit=time_unit, missing=missing, variable=variable, memory=memory)


def from_array(array: Any, name: str = "array", *,
               modes: "Optional[Sequence[Optional[str]]]" = None,
               labels: "Optional[Sequence[Any]]" = None) -> Tensor:
    """Makes a dense tensor of an array or a memory map. NaN cells are unknown: ``cp(array, 8,
    observed=True)``.

    Nothing is copied if the array is contiguous, in C or Fortran order, with float32, float64 or
    integer cells. The cells are read once and must not change while the tensor is used.

    Parameters
    ----------
    array : array_like, of 2 to 8 dimensions
        Of NumPy, where masked cells are unknown, like NaN; an xarray.DataArray, a dataset of h5py,
        a pyttb.tensor, or what NumPy makes an array of.
    name : str
        Its name in errors and records.
    modes : sequence of (str or None), optional
        Names of the modes; by default the dimensions of an xarray.DataArray.
    labels : sequence of (sequence of str, or None), optional
        For each mode the names of its indices; by default the coordinates of an xarray.DataArray.

    Returns
    -------
    Tensor
    """
    source = _inputs.read(array, None)
    if not isinstance(source, _inputs.Dense):
        raise _inputs.InputTypeError(
            f"{_inputs.described(array)} is no array with a value in each cell: cp and open take "
            "it as it is"
        )
    return _dense(source, name, modes, labels)


def _dense(source: "_inputs.Dense", name: str, modes: Any, labels: Any) -> Tensor:
    """A tensor of an array, with the names that it has or is given."""
    array = source.cells
    if array.dtype in (np.dtype(np.float16), np.dtype(np.bool_)):
        array = array.astype(np.float32)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    modes = source.modes if modes is None else [None if x is None else str(x) for x in modes]
    labels = source.labels if labels is None else [
        None if x is None else list(map(str, x)) for x in labels
    ]
    for what, given in (("modes", modes), ("labels", labels)):
        if given is not None and len(given) != array.ndim:
            raise ArgumentError(f"{what} of {len(given)} modes, and the array has {array.ndim}")
    named = [x for x in modes or () if x is not None]
    if len(set(named)) < len(named):
        raise ArgumentError(f"modes={modes!r}: two modes have one name")
    for m, texts in enumerate(labels or ()):
        if texts is not None and len(texts) != array.shape[m]:
            raise ArgumentError(
                f"{len(texts)} labels of mode {m}, which has {array.shape[m]} indices")
    return Tensor(name, None, array, modes, labels)


def as_tensor(tensor: Any, *, modes: Any = None, value: Any = None, weights: Any = None,
              text: Any = (), bin: Any = None, time_unit: Any = None, missing: str = "error",
              variable: Optional[str] = None, memory: Size = None) -> Tensor:
    """What stands for a tensor where one is asked for, as :func:`open` describes it."""
    from . import _build
    names_of_columns(value=value, weights=weights, text=text)
    table: "dict[str, Any]" = dict(modes=modes, value=value, weights=weights, bin=bin,
                                   time_unit=time_unit, variable=variable)
    said = [name
            for name, x in table.items() if x is not None] + ["text"] * (text not in ((), None))
    if isinstance(tensor, (str, bytes, os.PathLike)):
        kind = _files.kind_of(tensor)
        if kind is not None:
            source = _files.read_files([tensor], kind, _build.wanted_columns(modes, value, weights),
                                       variable)
        elif _files.bare(tensor).endswith(_files.TEXT_TABLES) and os.path.isfile(tensor):
            if variable is not None:
                raise ArgumentError("variable= is for files of MATLAB, HDF5 and .npz")
            return _build.build_temporary(tensor, modes=modes, value=value, weights=weights,
                                          text=text, bin=bin, time_unit=time_unit, missing=missing,
                                          memory=memory)
        else:
            tensor = Tensor(tensor)
    if isinstance(tensor, Tensor):
        if said:
            raise ArgumentError(
                f"{tensor.path}: {', '.join(said)}: of tables, and this is a tensor")
        return tensor
    if not isinstance(tensor, (str, bytes, os.PathLike)):
        source = _inputs.read(tensor, _build.wanted_columns(modes, value, weights))
    if isinstance(source, _inputs.Dense):
        wrong = [
            name for name in said if name != "modes"
            and not (name == "variable" and isinstance(tensor, (str, bytes, os.PathLike)))
        ]
        if wrong:
            raise ArgumentError(f"{', '.join(wrong)}: of tables, and this is an array")
        return _dense(
            source,
            os.fsdecode(tensor) if isinstance(tensor, (str, bytes, os.PathLike)) else "array",
            modes, None)
    return _build.of_source(source, None, modes=modes, value=value, weights=weights, text=text,
                            bin=bin, time_unit=time_unit, missing=missing, memory=memory)


def columns_of(settings: "dict[str, Any]") -> "dict[str, Any]":
    """Takes the keywords of tables out of the settings of a run."""
    names = ("modes", "value", "weights", "text", "bin", "time_unit", "missing")
    return {name: settings.pop(name) for name in names if name in settings}
