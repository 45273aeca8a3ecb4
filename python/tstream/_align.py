# SPDX-License-Identifier: BSD-3-Clause
"""A model whose rows are in the order of the labels of a tensor, to compare the two by label."""

import ctypes as c
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from ._errors import ArgumentError
from ._labels import raw_labels
from ._lib import Array, check, lib, ts_error
from ._pickle import handle_of, model_state

if TYPE_CHECKING:
    from ._model import Model
    from ._tensor import Tensor

_CHUNK = 1 << 16
_Raw = List[Optional[bytes]]


def _pieces(n: int) -> "Iterator[Array]":
    for at in range(0, n, _CHUNK):
        yield np.arange(at, min(at + _CHUNK, n), dtype=np.uint64)


def _of_tensor(t: "Tensor", mode: int, index: Array) -> _Raw:
    n, err = index.size, ts_error()
    ret = (c.c_char_p * (n + 1))()
    check(lib.ts_labels(t._open(), mode, n, index.ctypes.data, ret, c.byref(err)), err)
    labels: _Raw = list(ret[:n])
    lib.ts_labels_free(n, ret)
    return labels


def _of_model(model: "Model", mode: int, index: Array) -> _Raw:
    if lib.ts_cpd_labelled(model._handle, mode) or not model._has_tensor():
        return raw_labels(model._handle, mode, index)
    assert model._tensor is not None
    return _of_tensor(model._tensor, mode, index)


def _is_labelled(t: "Tensor", mode: int) -> bool:
    """Whether the first indices of a tensor have labels."""
    some = np.arange(min(t.shape[mode], _CHUNK), dtype=np.uint64)
    used = some if t.dense else t.used_indices(mode)[:_CHUNK]
    return any(x is not None for x in _of_tensor(t, mode, used))


def _are_alike(model: "Model", t: "Tensor", mode: int) -> bool:
    """Whether the same index has the same label in both."""
    if model.shape[mode] != t.shape[mode]:
        return False
    for index in _pieces(t.shape[mode]):
        pair = _of_model(model, mode, index), _of_tensor(t, mode, index)
        if pair[0] != pair[1] and any(
                x is not None and y is not None and x != y for x, y in zip(*pair)):
            return False
    return True


def _rows_of_labels(model: "Model", mode: int) -> "Tuple[Dict[bytes, int], set[bytes]]":
    """The place of the row of each label among the rows that are held, and labels of several."""
    index, rows = model.rows(mode)
    place: "Dict[bytes, int]" = {}
    several: "set[bytes]" = set()
    for at in _pieces(len(rows)):
        for i, label in zip(at.tolist(), _of_model(model, mode, at if index is None else index[at])):
            if label is not None and place.setdefault(label, i) != i:
                several.add(label)
    return place, several


def _reordered(model: "Model", t: "Tensor", mode: int) -> "Tuple[Array, Array]":
    """The rows of the model whose labels the tensor has: indices of the tensor, and these rows."""
    place, several = _rows_of_labels(model, mode)
    used = None if t.dense else set(t.used_indices(mode).tolist())
    found: "List[Array]" = []
    for index in _pieces(t.shape[mode]):
        labels = _of_tensor(t, mode, index)
        for i, label in zip(index.tolist(), labels):
            if label in several:
                _refuse(model, mode, label, "several rows of the model are called")
            if label is not None and label not in place and (used is None or i in used):
                _refuse(model, mode, label, "the model has no row called")
        found.append(np.array([-1 if x is None else place.get(x, -1) for x in labels],
                              dtype=np.int64))
    at = np.concatenate(found)
    return np.flatnonzero(at >= 0).astype(np.uint64), model.rows(mode)[1][at[at >= 0]]


def _refuse(model: "Model", mode: int, label: Optional[bytes], text: str) -> None:
    name = model.names[mode]
    raise ArgumentError(f"mode {mode if name is None else repr(name)}: {text} "
                        f"{(label or b'').decode(errors='replace')!r}; by='index' takes rows by index")


def aligned(model: "Model", t: "Tensor", by: str) -> "Model":
    """The model with the rows of the labels of the tensor, in their order, or the model itself."""
    from ._cells import is_labelled
    from ._model import Model
    if by not in ("label", "index"):
        raise ArgumentError(f"by={by!r}: label or index")
    if by == "index" or model._tensor is t or model.order != t.order:
        return model
    modes = [m for m in range(model.order) if is_labelled(model, m) and _is_labelled(t, m)
             and not _are_alike(model, t, m)]
    if not modes:
        return model
    rows: "List[Any]" = [_reordered(model, t, m) if m in modes else model.rows(m)
                         for m in range(model.order)]
    shape = tuple(t.shape[m] if m in modes else model.shape[m] for m in range(model.order))
    state = model_state(shape, model.rank, model.dtype.name, model.weights, rows, None, {})
    return Model(handle_of(state))
