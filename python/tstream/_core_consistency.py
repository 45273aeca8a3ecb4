# SPDX-License-Identifier: BSD-3-Clause
"""The core consistency of a dense array, also with cells that are unknown."""

from typing import TYPE_CHECKING, Any, Iterator, List, Tuple

import numpy as np

from ._fold import dense_cells
from ._lib import ArgumentError, Array, LimitError
from ._tensor import Tensor

if TYPE_CHECKING:
    from ._model import Model

_ENTRIES = 1 << 24  # of a core, at most
_BLOCK = 1 << 22  # cells at a time
_ROUNDS = 1000  # steps towards the core of known cells
_CLOSE = 1e-12  # what is left of the residual then


def _times(x: Array, matrices: "List[Array]") -> Array:
    """The array with each mode multiplied by the rows of a matrix."""
    for matrix in matrices:  # the mode that comes first goes last, so that all get their turn
        x = np.tensordot(x, matrix, axes=(0, 1))
    return x


def _slabs(x: Array) -> "Iterator[Tuple[slice, Array]]":
    """Slices of the first mode, in float64."""
    step = max(1, _BLOCK // max(1, int(np.prod(x.shape[1:]))))
    for i in range(0, len(x), step):
        yield slice(i, i + step), np.asarray(x[i : i + step], dtype=np.float64)


def _project(x: Array, q: "List[Array]") -> "Tuple[Array, bool]":
    """The array in orthonormal columns, unknown cells as 0, and whether there are any."""
    ret, holes = np.zeros(tuple(m.shape[1] for m in q)), False
    for at, cells in _slabs(x):
        unknown = np.isnan(cells)
        holes |= bool(unknown.any())
        ret += _times(np.where(unknown, 0, cells), [q[0][at].T, *[m.T for m in q[1:]]])
    return ret, holes


def _known_part(h: Array, x: Array, q: "List[Array]") -> Array:
    """The array of a core h in orthonormal columns, known cells alone, in these columns again."""
    ret = np.zeros_like(h)
    for at, cells in _slabs(x):
        model = _times(h, [q[0][at], *q[1:]])
        ret += _times(np.where(np.isnan(cells), 0, model), [q[0][at].T, *[m.T for m in q[1:]]])
    return ret


def _solve_known(right: Array, x: Array, q: "List[Array]") -> Array:
    """The core with the least squares over known cells, by conjugate gradients."""
    h = np.zeros_like(right)
    left, way = right.copy(), right.copy()
    size = first = float(np.sum(left * left))
    for _ in range(_ROUNDS):
        if size <= _CLOSE**2 * first or size == 0:
            break
        image = _known_part(way, x, q)
        step = size / float(np.sum(way * image))
        h += step * way
        left -= step * image
        size, before = float(np.sum(left * left)), size
        way = left + size / before * way
    return h


def _percent(core: Array, rank: int, normalised: bool) -> float:
    """100 (1 - |core - T|^2 / rank), T with ones where all indices are equal."""
    ideal = np.zeros_like(core)
    ideal[tuple(np.arange(rank) for _ in range(core.ndim))] = 1
    left = float(np.sum((core - ideal) ** 2))
    if not normalised:
        return 100 * (1 - left / rank)
    size = float(np.sum(core**2))
    return 100 * (1 - left / size) if size > 0 else 0.0


def core_of(model: "Model", t: Tensor) -> "Tuple[Array, Array]":
    """The core for columns of norm 1, and the norms of the columns, (order, rank)."""
    if model.shape != t.shape:
        raise ArgumentError(f"shapes differ: {model.shape} of the model and {t.shape} of the array")
    if float(model.rank) ** model.order > _ENTRIES:
        raise LimitError(
            f"core consistency: a core of {model.rank}^{model.order} entries is too "
            f"large, it is computed up to {_ENTRIES}"
        )
    q, back, norms = [], [], []
    for f in model.factors:
        a = np.asarray(f, dtype=np.float64)
        norm = np.linalg.norm(a, axis=0)
        a = a / np.where(norm > 0, norm, 1)
        columns, triangle = np.linalg.qr(a)
        q.append(np.asarray(columns))
        back.append(np.linalg.pinv(triangle, rcond=1e-13))
        norms.append(norm)
    x = dense_cells(t)
    h, holes = _project(x, q)
    if holes:
        h = _solve_known(h, x, q)
    return _times(h, back), np.array(norms)


def dense_core_consistency(model: "Model", t: Tensor, normalised: bool, scaling: str) -> float:
    """What :meth:`Model.core_consistency` gives for a dense tensor."""
    core, norms = core_of(model, t)
    weights: Any = np.array(model.weights)
    if scaling == "given":
        norms[0] = norms[0] * np.abs(weights)
    else:
        norms[:] = (np.prod(norms, axis=0) * np.abs(weights)) ** (1 / model.order)
    inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    inverse[0] *= np.where(weights < 0, -1, 1)
    for m, scale in enumerate(inverse):
        core = np.moveaxis(np.moveaxis(core, m, -1) * scale, -1, m)
    return _percent(core, model.rank, normalised)
