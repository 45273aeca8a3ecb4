# SPDX-License-Identifier: BSD-3-Clause
"""Names that a model carries: of its modes, of its rows, and of its tensor."""

import ctypes as c
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from . import _column
from ._errors import ArgumentError, ArgumentTypeError
from ._lib import Array, check, encoded, lib, ts_cpd_names, ts_cpd_origin, ts_error

_CHUNK = 1 << 16
Names = Tuple[Optional[str], ...]


def names_of(handle: Any, order: int) -> "Names":
    """Names of the modes, and that of the values last."""
    names = [lib.ts_cpd_name(handle, mode) for mode in range(order + 1)]
    return tuple(None if name is None else name.decode(errors="replace") for name in names)


def raw_labels(handle: Any, mode: int, index: Array) -> "List[Optional[bytes]]":
    index = np.ascontiguousarray(index, dtype=np.uint64)
    n, err = index.size, ts_error()
    ret = (c.c_char_p * (n + 1))()
    check(lib.ts_cpd_labels(handle, mode, n, index.ctypes.data, ret, c.byref(err)), err)
    labels = list(ret[:n])
    lib.ts_labels_free(n, ret)
    return labels


def labels_of(handle: Any, mode: int, index: Array) -> "List[Optional[str]]":
    if lib.ts_cpd_labelled(handle, mode) == 0:
        return [None] * len(index)
    return [None if x is None else x.decode(errors="replace")
            for at in range(0, len(index), _CHUNK)
            for x in raw_labels(handle, mode, index[at:at + _CHUNK])]


def origin_of(handle: Any) -> "Optional[Dict[str, Any]]":
    """Which tensor a model is of; None if that is not known."""
    origin = ts_cpd_origin()
    lib.ts_cpd_tensor(handle, c.byref(origin))
    if not origin.known:
        return None
    return dict(nnz=origin.nnz, segments=origin.segments, checksum=f"{origin.checksum:016x}",
                sum=f"{origin.sum[1]:016x}{origin.sum[0]:016x}" if origin.has_sum else None)


def is_narrow(handle: Any) -> bool:
    """Whether the files of a model were written with factors of float32."""
    origin = ts_cpd_origin()
    lib.ts_cpd_tensor(handle, c.byref(origin))
    return bool(origin.float32)


def state_of(handle: Any, order: int, index: "Sequence[Array]") -> "Dict[str, Any]":
    """Names as they are pickled, with the labels of these indices of each mode."""
    origin = origin_of(handle)
    labels: "List[Any]" = []
    for mode in range(order):
        raw: "List[Optional[bytes]]" = []
        if lib.ts_cpd_labelled(handle, mode):
            for at in range(0, len(index[mode]), _CHUNK):
                raw += raw_labels(handle, mode, index[mode][at:at + _CHUNK])
        labels.append((np.array(index[mode], dtype=np.uint64), raw) if raw else None)
    return dict(names=[lib.ts_cpd_name(handle, mode) for mode in range(order + 1)], labels=labels,
                first_index=lib.ts_cpd_first_index(handle), origin=origin)


def share_names(handle: Any, source: Any) -> None:
    """Gives a model the names of another one, which share their memory."""
    err = ts_error()
    names = ts_cpd_names(**{"from": source})
    check(lib.ts_cpd_set_names(handle, c.byref(names), c.byref(err)), err)


def give_names(handle: Any, order: int, state: "Dict[str, Any]") -> None:
    """Gives a model names as they are pickled."""
    label, n_labels = (c.POINTER(c.c_char_p) * order)(), (c.c_uint64 * order)()
    index, kept = (c.c_void_p * order)(), []
    for mode, given in enumerate(state["labels"]):
        if given is None:
            continue
        at, raw = np.ascontiguousarray(given[0], dtype=np.uint64), given[1]
        strings = (c.c_char_p * max(len(raw), 1))(*raw)
        kept.append((at, strings))
        label[mode] = c.cast(strings, c.POINTER(c.c_char_p))
        n_labels[mode], index[mode] = len(raw), at.ctypes.data
    names = ts_cpd_names(name=(c.c_char_p * (order + 1))(*state["names"]), label=label,
                         n_labels=n_labels, index=index, first_index=state["first_index"])
    origin = state["origin"]
    if origin is not None:
        total = int(origin["sum"] or "0", 16)
        of = ts_cpd_origin(known=1, segments=origin["segments"], nnz=origin["nnz"],
                           checksum=int(origin["checksum"], 16), has_sum=origin["sum"] is not None,
                           sum=(c.c_uint64 * 2)(total & (1 << 64) - 1, total >> 64))
        names.tensor = c.pointer(of)
    err = ts_error()
    check(lib.ts_cpd_set_names(handle, c.byref(names), c.byref(err)), err)


def _raw_of(labels: "Iterable[Any]", mode: int) -> "List[Optional[bytes]]":
    """Labels of rows, called as those of a table are; None for one that is missing."""
    if isinstance(labels, (str, bytes)) or not hasattr(labels, "__len__"):
        labels = list(labels)
    try:
        column = _column.coded(_column.join(_column.read(labels)))
    except ArgumentError as e:
        raise ArgumentError(f"labels of mode {mode}: {e}") from None
    except ValueError:  # of NumPy, for a list of lists
        raise ArgumentError(
            f"labels of mode {mode}: numbers, texts or times are wanted") from None
    names = [encoded(_column.name_of(x)) for x in column.fields]
    return [None if code < 0 else names[code] for code in column.codes]


def given_names(shape: "Sequence[int]", modes: "Optional[Sequence[Optional[str]]]",
                labels: "Optional[Sequence[Optional[Iterable[Any]]]]") -> "Dict[str, Any]":
    """Names that a user gives, as they are pickled."""
    order = len(shape)
    for what, given in (("modes", modes), ("labels", labels)):
        if isinstance(given, (str, bytes)):
            raise ArgumentTypeError(f"{what}={given!r}: one for each mode is wanted")
        if given is not None and len(given) != order:
            raise ArgumentError(f"{len(given)} {what} are given, and there are {order} modes")
    names = [None if x is None else encoded(x) for x in modes or [None] * order]
    ret: "List[Any]" = []
    for mode, each in enumerate(labels or [None] * order):
        raw = None if each is None else _raw_of(each, mode)
        if raw is not None and len(raw) != shape[mode]:
            raise ArgumentError(f"mode {mode} has {shape[mode]} rows and {len(raw)} labels")
        ret.append(None if raw is None else (np.arange(len(raw), dtype=np.uint64), raw))
    return dict(names=[*names, None], labels=ret, first_index=0, origin=None)
