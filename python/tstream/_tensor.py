# SPDX-License-Identifier: BSD-3-Clause
"""Tensors on disk."""

import ctypes as c
import operator
import os
import shutil
import weakref
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from ._lib import (ArgumentError, Array, BusyError, Call, FormatError, Mode, Path, check, encoded, lib, ts_array_conf,
                   ts_error, whole)


class _Handle:
    """A tensor that the library has open. Each call that has it holds this, so that it is closed when the last one has ended."""

    def __init__(self, handle: Any, temporary: Optional[str]) -> None:
        self._as_parameter_ = c.c_void_p(handle)
        weakref.finalize(self, _close, handle, temporary, os.getpid())


class Tensor:
    """A sparse tensor in a ``.tsh`` directory, read-only.

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
    has_duplicates : bool
        Whether cells hold several nonzeros (``tshard build --duplicates keep``). Such a cell is their sum.
    """

    def __init__(self, path: Path, _temporary: Optional[str] = None, _array: Optional[Array] = None) -> None:
        err = ts_error()
        self.path = os.fsdecode(path)
        self.skipped = 0
        self._cells = _array  # which the library reads where it is
        if _array is None:
            handle = check(lib.ts_open(encoded(self.path), c.byref(err)), err)
        else:
            conf = ts_array_conf(name=encoded(self.path), cells=_array.ctypes.data, order=_array.ndim,
                                 type=_array.dtype.name.encode(), dim=(c.c_uint64 * max(_array.ndim, 1))(*_array.shape),
                                 fortran=not _array.flags.c_contiguous, swapped=not _array.dtype.isnative)
            handle = Call().run(lib.ts_open_array, c.byref(conf))  # not in this thread, whose OpenMP no forked process could use then
        self._handle: Optional[_Handle] = _Handle(handle, _temporary)
        order = lib.ts_order(self._handle)
        name = [lib.ts_name(self._handle, m) for m in range(order + 1)]
        name = [None if n is None else n.decode(errors="replace") for n in name]
        self.shape = tuple(lib.ts_dim(self._handle, m) for m in range(order))
        self.used = tuple(lib.ts_used(self._handle, m) for m in range(order))
        self.nnz = lib.ts_nnz(self._handle)
        self.dense = bool(lib.ts_is_dense(self._handle))
        self.has_duplicates = bool(lib.ts_has_duplicates(self._handle))
        self._norm = float("nan") if self.has_duplicates else lib.ts_norm(self._handle)
        self.dtype = np.dtype(np.float32 if lib.ts_value_bytes(self._handle) == 4 else np.float64)
        self.mode_names = tuple(name[:-1])
        self.value_name = name[-1]

    @property
    def norm(self) -> float:
        """Square root of the sum of squares of the cells. For an array in a file it is NaN until it has been
        decomposed.

        If cells hold several nonzeros (``has_duplicates``), the first access takes a pass over the tensor.
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
        return f"<tstream.Tensor {self.path!r}: {' x '.join(map(str, self.shape))}, {self.nnz} nonzeros>"

    def close(self) -> None:
        """Closes the tensor. Its models continue to work without labels, and running calls of other threads continue
        with it."""
        self._handle = None

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
        if not 0 <= mode < self.order:
            raise ArgumentError(f"{self.path}: there is no mode {mode}, only 0 to {self.order - 1}")
        return int(mode)

    def labels(self, mode: Mode, index: Any) -> "list[Optional[str]]":
        """Labels of indices.

        Parameters
        ----------
        mode : int or str
        index : array_like of int, shape (n,)
            From 0, in any order.

        Returns
        -------
        list of (str or None)
        """
        index = np.asarray(index)
        if index.size and index.dtype.kind not in "iu":
            raise ArgumentError(f"indices are {index.dtype}: whole numbers are wanted")
        if index.size and index.min() < 0:
            raise ArgumentError(f"index {index.min()}: indices start at 0")
        index = np.ascontiguousarray(index, dtype=np.uint64)
        n = index.size
        ret = (c.c_char_p * (n + 1))()
        err = ts_error()
        check(lib.ts_labels(self._open(), self.mode(mode), n, index.ctypes.data, ret, c.byref(err)), err)
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

        A hash of the cell and the seed chooses the tensor. ``cp`` with ``hold_out`` and this seed holds out the cells
        of `test`.

        Parameters
        ----------
        hold_out : float
            Share of the second tensor.
        seed : int
        train, test : path, optional
            Directories to write. By default they have the name of this tensor with ``.train.tsh`` and ``.test.tsh``,
            in the current directory.
        **options
            memory, tmp, threads, shard, replace, progress, space_check: as in :func:`build`.

        Returns
        -------
        train, test : Tensor
            With the sizes, names and labels of this one.
        """
        from ._build import _select
        if not 0 < hold_out < 1:
            raise ArgumentError(f"hold_out={hold_out!r}: a share of the nonzeros, between 0 and 1")
        stem = os.path.basename(self.path.rstrip("/"))
        stem = stem[:-4] if stem.endswith(".tsh") else stem
        paths = [f"{stem}.{name}.tsh" if path is None else path for name, path in (("train", train), ("test", test))]
        places = [os.path.realpath(path) for path in (*paths, self.path)]
        if len(set(places)) < 3:
            raise ArgumentError("train and test are two tensors beside this one, which is read for each of them: name "
                                "other places")
        for path in paths if not options.get("replace") else ():
            if os.path.exists(path):
                raise BusyError(f"{os.fsdecode(path)} exists; replace=True replaces it")
        made: "list[Tensor]" = []
        there = os.path.exists(paths[0])
        try:
            for held, path in enumerate(paths):
                made.append(_select(self, path, keep={}, least={}, sums=(), hold_out=hold_out, seed=seed,
                                    held=bool(held), **options))
        except FormatError:  # one of them would have no values other than 0
            if made and not there:
                shutil.rmtree(places[0])
            raise
        return made[0], made[1]

    def select(self, out: Path, keep: "Optional[Mapping[Mode, Any]]" = None,
               at_least: "Union[int, Mapping[Mode, int]]" = 0, sum: "Sequence[Mode]" = (), **options: Any) -> "Tensor":
        """Builds a tensor from a part of this one, as ``tshard select`` does.

        Parameters
        ----------
        out : path
            The directory to make.
        keep : dict of mode to array_like, optional
            For a mode, the indices (from 0) or labels to keep.
        at_least : int or dict of mode to int
            Fewest nonzeros of a slice in this tensor, for all modes or for the modes of the dict. Other slices are
            dropped.
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
        indices = {self.mode(m): self._indices(self.mode(m), what) for m, what in (keep or {}).items()}
        least: "list[tuple[Mode, int]]" = (list(at_least.items()) if isinstance(at_least, Mapping)
                                           else [(m, at_least) for m in range(self.order)])
        return _select(self, out, keep=indices, least={self.mode(m): n for m, n in least},
                       sums=[self.mode(m) for m in sum], **options)

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
            raise ArgumentError(f"{self.path}: no used index of mode {mode} is called {sorted(names - found)[0]!r}")
        return np.array(index, dtype=np.uint64)

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
                check(lib.ts_cursor_next(cursor, size, coords.ctypes.data, values.ctypes.data,
                                         c.byref(n), c.byref(err)), err)
                if n.value == 0:
                    return
                yield coords[:n.value], values[:n.value]
                self._open()  # not closed meanwhile
        finally:
            lib.ts_cursor_close(cursor)


def _close(handle: Any, temporary: Optional[str], pid: int) -> None:
    lib.ts_close(handle)
    if temporary is not None and os.getpid() == pid:  # not of a process that was forked
        shutil.rmtree(temporary, ignore_errors=True)


def open(path: Path) -> Tensor:
    """Opens a tensor.

    Parameters
    ----------
    path : path
        A ``.tsh`` directory.

    Returns
    -------
    Tensor
    """
    return Tensor(path)


def from_array(array: Any, name: str = "array") -> Tensor:
    """Makes a dense tensor of a NumPy array or a memory map. NaN cells are unknown: ``cp(array, 8, observed=True)``.

    Nothing is copied if the array is contiguous, in C or Fortran order, with float32, float64 or integer cells. The
    cells are read once and must not change while the tensor is used.

    Parameters
    ----------
    array : array_like, of 2 to 8 dimensions
    name : str
        Its name in errors and records.

    Returns
    -------
    Tensor
    """
    array = np.asanyarray(array)
    if np.ma.is_masked(array):
        raise ArgumentError("array: it has masked cells, which would count as what lies below the mask: fill them with "
                            "NaN (array.filled(np.nan)), and observed takes them as unknown")
    if array.dtype in (np.dtype(np.float16), np.dtype(np.bool_)):
        array = array.astype(np.float32)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    return Tensor(name, None, array)


def as_tensor(tensor: "Union[Tensor, Path, Array]") -> Tensor:
    """What stands for a tensor where one is asked for."""
    if isinstance(tensor, np.ndarray):
        return from_array(tensor)
    return tensor if isinstance(tensor, Tensor) else Tensor(tensor)
