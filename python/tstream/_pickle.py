# SPDX-License-Identifier: BSD-3-Clause
"""Tensors and models as bytes, for pickle, copy, joblib, multiprocessing and dask."""

import ctypes as c
import os
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from ._errors import ArgumentError, ArgumentTypeError, Error, FormatError
from ._lib import Array, check, lib, ts_error

if TYPE_CHECKING:
    from ._tensor import Tensor

_END = 1 << 16  # bytes at either end of a dense file that are compared
_PRECISIONS = {"float32": 0, "float64": 1}
_opened: "weakref.WeakValueDictionary[Any, Tensor]" = weakref.WeakValueDictionary()


# ---- tensors ----

def _file_of(path: str) -> str:
    """The file of an array that a name such as ``x.h5:/data`` says more about."""
    end = len(path)
    while end > 0 and not os.path.exists(path[:end]):
        end = path.rfind(":", 0, end)
    return path[:end] if end > 0 else path


def opened_as(path: str) -> "Tuple[str, Any]":
    """Where a tensor is that is being opened, and what tells whether another one is there later."""
    whole = os.path.abspath(path)
    file = _file_of(whole)
    try:
        st = os.stat(os.path.join(file, "index") if os.path.isdir(file) else file)
    except (OSError, ValueError):  # a NUL is one, and the library's door names it
        return whole, None
    return whole, (st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns)


def _fingerprint(path: str) -> str:
    """What a tensor in files is known by: its index and its sums, or the ends of a dense file."""
    import hashlib
    ret = hashlib.blake2b(digest_size=16)
    path = _file_of(path)
    if os.path.isdir(path):
        for name in ("index", "sums"):
            try:
                with open(os.path.join(path, name), "rb") as f:
                    ret.update(f.read())
            except FileNotFoundError:
                ret.update(b"none")
    else:
        with open(path, "rb") as f:
            ret.update(f.read(_END))
            size = os.fstat(f.fileno()).st_size
            f.seek(max(size - _END, 0))
            ret.update(f.read())
            ret.update(b"%d" % size)
    return ret.hexdigest()


def _open_same(path: str, fingerprint: str) -> "Tensor":
    """The tensor that was pickled."""
    from ._tensor import Tensor
    t = Tensor(path)
    if _fingerprint(path) != fingerprint:
        raise FormatError(f"{path}: is another tensor than the one that was pickled")
    return t


def _array_again(cells: Array, name: str, modes: Any, labels: Any) -> "Tensor":
    from ._tensor import from_array
    return from_array(cells, name, modes=modes, labels=labels)


def reduce_tensor(t: "Tensor") -> "Tuple[Callable[..., Any], Tuple[Any, ...]]":
    """How :mod:`pickle` makes the tensor again: by its path, or of its array."""
    t._open()
    if t._cells is not None:
        return _array_again, (t._cells, t.path, t.mode_names, t._labels)
    if t._temporary:
        raise ArgumentTypeError(
            "a temporary tensor cannot be pickled, because it is removed with this process: "
            "build it with out='NAME.tsh', which keeps it")
    path, was = t._opened_as
    mark = _fingerprint(path)
    if opened_as(path)[1] != was:
        raise FormatError(f"{path}: was replaced since this tensor was opened, so it cannot be "
                          "pickled: open it again")
    return _open_same, (path, mark)


# ---- models ----

def model_state(shape: "Tuple[int, ...]", rank: int, dtype: str, weights: Array,
                rows: "List[Tuple[Optional[Array], Array]]", tensor: "Optional[Tensor]",
                attributes: "Dict[str, Any]") -> "Dict[str, Any]":
    """What a model is made of again. A tensor that cannot be opened elsewhere is left out."""
    reference: Any = None
    if tensor is not None and tensor._handle is not None and tensor._cells is None:
        try:
            reference = reduce_tensor(tensor)[1]
        except (Error, OSError):
            pass
    return dict(shape=shape, rank=rank, dtype=dtype, weights=np.asarray(weights),
                rows=[(i, np.asarray(x)) for i, x in rows], tensor=reference,
                attributes=attributes)


def handle_of(state: "Dict[str, Any]") -> Any:
    """A model of the library, of its state."""
    shape, rank, dtype = state["shape"], state["rank"], state["dtype"]
    order = len(shape)
    index = [None if i is None else np.ascontiguousarray(i, dtype=np.uint64)
             for i, _ in state["rows"]]
    rows = [np.ascontiguousarray(x, dtype=dtype) for _, x in state["rows"]]
    weights = np.ascontiguousarray(state["weights"], dtype=np.float64)
    if (len(rows) != order or weights.shape != (rank,)
            or any(x.ndim != 2 or x.shape[1] != rank for x in rows)
            or any(i is not None and i.shape != x.shape[:1] for i, x in zip(index, rows))):
        raise ArgumentError("the pickled model has rows of another shape than its own")
    err = ts_error()
    return check(lib.ts_cpd_new_rows(
        order, (c.c_uint64 * order)(*shape), (c.c_uint64 * order)(*[len(x) for x in rows]),
        (c.c_void_p * order)(*[None if i is None else i.ctypes.data for i in index]),
        rank, _PRECISIONS[dtype], weights.ctypes.data,
        (c.c_void_p * order)(*[x.ctypes.data for x in rows]), c.byref(err)), err)


def completed(state: "Dict[str, Any]", dtype: Any, shape: Any) -> "Optional[Dict[str, Any]]":
    """The state of a model of files with what the record of its run adds; None if that is nothing.

    The digits of float32 in a text are those that bring its bits back, and files of used rows end
    with the last one.
    """
    narrow = dtype == "float32" != state["dtype"]
    longer = (len(shape) == len(state["shape"]) and shape != state["shape"]
              and all(n >= m for n, m in zip(shape, state["shape"])))
    if not narrow and not longer:
        return None
    rows = [(np.arange(len(x)) if i is None and n > len(x) else i, x)
            for n, (i, x) in zip(shape if longer else state["shape"], state["rows"])]
    return {**state, "rows": rows, "dtype": "float32" if narrow else state["dtype"],
            "shape": shape if longer else state["shape"]}


def tensor_of(state: "Dict[str, Any]") -> "Optional[Tensor]":
    """The tensor of a pickled model, where it is still there. Models of one tensor share it."""
    reference = state["tensor"]
    if reference is None:
        return None
    t = _opened.get(reference)
    if t is None:
        try:
            t = _opened[reference] = _open_same(*reference)
        except (Error, OSError):
            return None
    return t
