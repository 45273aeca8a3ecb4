# SPDX-License-Identifier: BSD-3-Clause
"""Rows of one mode for new data, with the other factors of a model as they are.

The design of a row has a line for each cell: the product of rows of the fixed factors. Normal
equations would square its condition. So least squares work on triangles. Where all cells count,
that of the Khatri-Rao product comes by orthogonal steps from mode to mode. Where some are unknown,
each row has the triangle of its own cells.
"""

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ._lib import ArgumentError, Array, Call, Mode, lib
from ._tensor import Tensor

_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 1 << 22  # numbers of a block of the design, 32 MiB
_MOST = 1 << 28  # numbers of a design that is held whole, 2 GiB
_LEAST = 1e-10  # in logarithms and quotients of means that may be 0, as in runs
_ROUNDS = 500  # steps of a row with another loss


def labels_at(source: Any, mode: int, index: Any) -> "List[Optional[str]]":
    """Labels of some rows of a mode of a model or a tensor; None for a row that has none."""
    found: "List[Optional[str]]" = source.labels(mode, np.asarray(index, dtype=np.uint64))
    return found


def _used(source: Any, mode: int) -> Any:
    """Rows of a mode that may have labels; None: all may."""
    if not isinstance(source, Tensor):
        return source.rows(mode)[0]
    return None if source.dense else source.used_indices(mode)


def labels_of(source: Any, mode: int) -> "Optional[List[Optional[str]]]":
    """Labels of all rows of a mode of a model or a tensor, or None if it has none."""
    used = _used(source, mode)
    if used is not None:
        if all(x is None for x in labels_at(source, mode, np.r_[used[:64], used[-64:]])):
            return None
    found = labels_at(source, mode, np.arange(source.shape[mode]))
    return found if any(x is not None for x in found) else None


# ---- small least squares ----


def lstsq_rows(b: Array, c: Array) -> Array:
    """For each row of `c`, the shortest a with the least |b a - row|: c (n, k), b (k, rank)."""
    u, s, vt = np.linalg.svd(b, full_matrices=False)
    keep = s > (s[0] if s.size else 0) * _EPS * 16 * max(b.shape)
    scaled = np.divide(1, s, out=np.zeros_like(s), where=keep)
    return np.asarray((c @ u * scaled) @ vt)


def _passive(b: Array, c: Array, free: Array) -> Array:
    """The least squares of the free columns, zeros elsewhere."""
    a = np.zeros(b.shape[1])
    if free.any():
        a[free] = lstsq_rows(b[:, free], c[None, :])[0]
    return a


def nnls(b: Array, c: Array) -> Array:
    """argmin |b a - c| with a >= 0. All wrong signs change at once, as long as that ends soon."""
    norms = np.linalg.norm(b, axis=0)
    least = 10 * _EPS * len(norms) * norms * np.linalg.norm(c)
    free = norms > 0
    for _ in range(10):
        a = _passive(b, c, free)
        wrong = np.where(free, a < 0, (b.T @ (c - b @ a) > least) & (norms > 0))
        if not wrong.any():
            return a
        free ^= wrong
    return _active_sets(b, c, norms, least)


def _active_sets(b: Array, c: Array, norms: Array, least: Array) -> Array:
    """The same, one column at a time (Lawson and Hanson 1974), which always ends."""
    free = np.zeros(len(norms), dtype=bool)
    refused = norms == 0
    a = np.zeros(len(norms))
    for _ in range(30 * len(norms) + 30):
        slope = b.T @ (c - b @ a)
        may = ~free & ~refused & (slope > least)
        if not may.any():
            break
        j = int(np.argmax(np.where(may, slope / np.where(norms > 0, norms, 1), -np.inf)))
        free[j] = True
        z = _passive(b, c, free)
        if z[j] <= 0:  # rounding alone made it look useful
            free[j], refused[j] = False, True
            continue
        refused = norms == 0
        while (z[free] <= 0).any():
            low = np.flatnonzero(free & (z <= 0))
            steps = a[low] / (a[low] - z[low])
            a = a + steps.min() * (z - a)
            free[low[np.argmin(steps)]] = False
            free &= a > 0
            a[~free] = 0
            z = _passive(b, c, free)
        a = z
    return a


def nnls_rows(b: Array, c: Array) -> Array:
    """:func:`nnls` for each row of `c`. Rows with the same free columns are solved together."""
    norms = np.linalg.norm(b, axis=0)
    least = 10 * _EPS * len(norms) * np.outer(np.linalg.norm(c, axis=1), norms)
    a = lstsq_rows(b, c)
    free = (a > 0) & (norms > 0)
    open_ = np.arange(len(c))
    for _ in range(20):
        groups, at = np.unique(free[open_], axis=0, return_inverse=True)
        for g, columns in enumerate(groups):
            rows = open_[at.ravel() == g]
            a[rows] = 0
            if columns.any():
                a[np.ix_(rows, columns)] = lstsq_rows(b[:, columns], c[rows])
        slope = (c[open_] - a[open_] @ b.T) @ b
        wrong = np.where(free[open_], a[open_] < 0, slope > least[open_])
        left = wrong.any(axis=1)
        if not left.any():
            return a
        free[open_[left]] ^= wrong[left]
        open_ = open_[left]
    for i in open_:
        a[i] = nnls(b, c[i])
    return a


# ---- other losses ----


def _curves(loss: str, at: float) -> "Tuple[Any, Any, Any, Any, bool]":
    """Value, slope, curvature and one that is never negative, of x and m; whether m is >= 0."""
    e = _LEAST
    if loss == "poisson":
        return (
            lambda x, m: m - np.where(x > 0, x * np.log(m + e), 0),
            lambda x, m: 1 - x / (m + e),
            lambda x, m: x / (m + e) ** 2,
            lambda x, m: (x + e) / (m + e) ** 2,
            True,
        )
    if loss == "bernoulli":
        return (
            lambda x, m: np.log1p(m) - np.where(x > 0, x * np.log(m + e), 0),
            lambda x, m: 1 / (1 + m) - x / (m + e),
            lambda x, m: x / (m + e) ** 2 - 1 / (1 + m) ** 2,
            lambda x, m: 1 / ((m + e) * (1 + m) ** 2),
            True,
        )
    if loss == "gamma":
        return (
            lambda x, m: x / (m + e) + np.log(m + e),
            lambda x, m: (1 - x / (m + e)) / (m + e),
            lambda x, m: (2 * x / (m + e) - 1) / (m + e) ** 2,
            lambda x, m: 1 / (m + e) ** 2,
            True,
        )

    def share(m: Array) -> Array:
        small = np.exp(-np.abs(m))
        return np.asarray(np.where(m < 0, small, 1) / (1 + small))

    if loss == "bernoulli-logit":
        return (
            lambda x, m: np.maximum(m, 0) + np.log1p(np.exp(-np.abs(m))) - x * m,
            lambda x, m: share(m) - x,
            lambda x, m: share(m) * share(-m),
            lambda x, m: share(m) * share(-m) + _EPS,
            False,
        )
    if loss == "poisson-log":
        return (
            lambda x, m: np.exp(m) - x * m,
            lambda x, m: np.exp(m) - x,
            lambda x, m: np.exp(m),
            lambda x, m: np.exp(m),
            False,
        )
    if loss == "huber":
        return (
            lambda x, m: np.where(
                np.abs(x - m) <= at, (x - m) ** 2, 2 * at * np.abs(x - m) - at * at
            ),
            lambda x, m: np.clip(2 * (m - x), -2 * at, 2 * at),
            lambda x, m: 2.0 * (np.abs(x - m) <= at),
            lambda x, m: 2 / np.maximum(1, np.abs(x - m) / at),
            False,
        )
    raise ArgumentError(f"loss={loss!r}: rows of it cannot be folded in")


def _descend(
    k: Array, x: Array, curves: Any, lower: bool, l2: float, linear: Optional[Array]
) -> Array:
    """The row that minimises a loss: Newton's method on the entries that are not held at 0.

    linear: what cells that are not in `k` add to the slope, whatever the row.
    """
    value, slope, curve, safe, _ = curves
    rank = k.shape[1]
    a = np.full(rank, 0.0)
    sums = k.sum(axis=0) if linear is None else k.sum(axis=0) + linear
    if lower:
        total = float(np.abs(sums).sum())
        a[:] = max(float(x.sum()), _LEAST) / total if total > 0 else 0

    def cost(a: Array) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            f = float(np.sum(value(x, k @ a))) + l2 / 2 * float(a @ a)
        f += 0 if linear is None else float(linear @ a)
        return f if np.isfinite(f) else np.inf

    def gradient(a: Array) -> Array:
        g = k.T @ slope(x, k @ a) + l2 * a
        return np.asarray(g if linear is None else g + linear)

    def projected(a: Array, g: Array) -> float:
        return float(np.linalg.norm(np.where((a <= 0) & (g > 0), 0, g) if lower else g))

    g, f = gradient(a), cost(a)
    first = now = projected(a, g)
    for _ in range(_ROUNDS):
        if now <= 1e-10 * first or now == 0:
            break
        held = (a <= 0) & (g > 0) if lower else np.zeros(rank, dtype=bool)
        m, moved = k @ a, False
        for weights in (curve(x, m), safe(x, m)):
            h = (k[:, ~held] * weights[:, None]).T @ k[:, ~held]
            h[np.diag_indices_from(h)] += l2 + _EPS * np.trace(h) + 1e-300
            try:
                np.linalg.cholesky(h)
            except np.linalg.LinAlgError:
                continue
            d = np.zeros(rank)
            d[~held] = -np.linalg.solve(h, g[~held])
            step = 1.0
            for _ in range(60):
                b = np.maximum(a + step * d, 0) if lower else a + step * d
                f_b = cost(b)
                if f_b <= f + 1e-4 * float(g @ (b - a)):
                    moved = bool((b != a).any())
                    break
                if f_b <= f + 1e-13 * abs(f) and projected(b, gradient(b)) < 0.9 * now:
                    moved = True  # rounding of the cost hides the descent
                    break
                step /= 2
            if moved:
                break
        if not moved:
            break
        a, f = b, f_b
        g = gradient(a)
        now = projected(a, g)
    return a


# ---- the design ----


def _add(triangle: Array, lines: Array) -> Array:
    """The triangle with more lines below it."""
    return np.asarray(np.linalg.qr(np.vstack([triangle, lines]), mode="r"))


def _products(factors: "Sequence[Array]", at: "Sequence[Any]") -> Array:
    """Lines of the design for these indices of the fixed modes; slices give all combinations."""
    if isinstance(at[0], slice):
        p: Array = factors[0][at[0]]
        for f, i in zip(factors[1:], at[1:]):
            p = (p[:, None, :] * f[i][None, :, :]).reshape(-1, f.shape[1])
        return p
    line: Array = factors[0][at[0]].copy()
    for f, i in zip(factors[1:], at[1:]):
        line *= f[i]
    return line


def _triangle(factors: "Sequence[Array]") -> Array:
    """The triangle of the Khatri-Rao product of all factors, by orthogonal steps."""
    r: Array = np.asarray(np.linalg.qr(factors[0], mode="r"))
    for f in factors[1:]:
        other: Array = np.asarray(np.linalg.qr(f, mode="r"))
        whole = np.zeros((0, f.shape[1]))
        step = max(1, _BLOCK // max(1, other.size))
        for i in range(0, len(r), step):
            part = (r[i : i + step, None, :] * other[None, :, :]).reshape(-1, f.shape[1])
            whole = np.asarray(np.linalg.qr(np.vstack([whole, part]), mode="r"))
        r = whole
    return np.asarray(r)


class _Fold:
    """What one call folds in: fixed factors, weights in the first one, and how rows are solved."""

    def __init__(
        self, factors: "List[Array]", nonneg: bool, l2: float, loss: str, at: float, observed: bool
    ) -> None:
        self.factors, self.nonneg, self.l2, self.observed = factors, nonneg, l2, observed
        self.rank = factors[0].shape[1]
        self.cells = int(np.prod([len(f) for f in factors], dtype=np.float64))
        self.curves = None if loss == "least-squares" else _curves(loss, at)
        self.loss = loss
        self.lower = nonneg or (self.curves is not None and self.curves[4])

    def solve(self, b: Array, c: Array) -> Array:
        """Rows for one triangle b and the right sides c, a row each."""
        if self.l2 > 0:
            b = np.vstack([b, np.sqrt(self.l2) * np.eye(self.rank)])
            c = np.hstack([c, np.zeros((len(c), self.rank))])
        return nnls_rows(b, c) if self.nonneg else lstsq_rows(b, c)

    def solve_own(self, triangle: Array) -> Array:
        """A row for the triangle of its own cells, values in the last column."""
        b, c = triangle[:, :-1], triangle[:, -1]
        if self.l2 > 0:
            b, c = (
                np.vstack([b, np.sqrt(self.l2) * np.eye(self.rank)]),
                np.concatenate([c, np.zeros(self.rank)]),
            )
        return nnls(b, c) if self.nonneg else lstsq_rows(b, c[None, :])[0]

    def whole(self) -> Array:
        """The design of all cells."""
        if self.cells * self.rank > _MOST:
            raise ArgumentError(
                f"loss {self.loss}: a slice of {self.cells} cells is too large to fold in; "
                "observed=True counts the listed ones alone"
            )
        return _products(self.factors, [slice(None)] * len(self.factors))

    def basis(self) -> "Tuple[Array, Array]":
        """The triangle of the design as sizes s (k,) and directions vt (k, rank)."""
        _, s, vt = np.linalg.svd(_triangle(self.factors), full_matrices=False)
        keep = s > (s[0] if s.size else 0) * _EPS * 16 * max(self.rank, 8)
        return s[keep], vt[keep]

    # -- dense --

    def pieces(self) -> "Iterator[Tuple[slice, Array]]":
        """Blocks of the design: indices of the first fixed mode, and all of the others."""
        inner = int(np.prod([len(f) for f in self.factors[1:]], dtype=np.int64)) * self.rank
        step = max(1, _BLOCK // max(1, inner))
        for i in range(0, len(self.factors[0]), step):
            at = slice(i, min(i + step, len(self.factors[0])))
            yield at, _products(self.factors, [at, *[slice(None)] * (len(self.factors) - 1)])

    def dense(self, x: Array) -> Array:
        """Rows for an array whose first mode is the free one."""
        step = max(1, _BLOCK // max(1, self.cells))
        known = not self.observed or not any(
            np.isnan(x[i : i + step]).any() for i in range(0, len(x), step)
        )
        if self.curves is not None:
            return self.dense_loss(x)
        return self.dense_known(x, step) if known else self.dense_unknown(x)

    def dense_known(self, x: Array, step: int) -> Array:
        s, vt = self.basis()
        c = np.zeros((len(x), len(s)))
        for refine in (False, True):  # the second pass takes back what rounding cost in the first
            more = np.zeros_like(c)
            for at, k in self.pieces():
                q = k @ vt.T / s
                for i in range(0, len(x), step):
                    cells = np.asarray(x[i : i + step, at], dtype=np.float64).reshape(
                        len(x[i : i + step]), -1
                    )
                    more[i : i + step] += (cells - c[i : i + step] @ q.T if refine else cells) @ q
            c += more
        return self.solve(s[:, None] * vt, c)

    def dense_unknown(self, x: Array) -> Array:
        rows = np.zeros((len(x), self.rank))
        kept: "List[Tuple[slice, Array]]" = (
            list(self.pieces()) if self.cells * self.rank <= _BLOCK else []
        )
        for i in range(len(x)):
            triangle = np.zeros((0, self.rank + 1))
            for at, k in kept or self.pieces():
                cells = np.asarray(x[i, at], dtype=np.float64).ravel()
                known = ~np.isnan(cells)
                own = np.hstack([k[known], cells[known, None]])
                triangle = _add(triangle, own)
            rows[i] = self.solve_own(triangle)
        return rows

    def dense_loss(self, x: Array) -> Array:
        k = self.whole()
        rows = np.zeros((len(x), self.rank))
        for i in range(len(x)):
            cells = np.asarray(x[i], dtype=np.float64).ravel()
            known = ~np.isnan(cells)
            rows[i] = _descend(k[known], cells[known], self.curves, self.lower, self.l2, None)
        return rows

    # -- sparse --

    def sparse_known(self, blocks: Any, n: int) -> Array:
        """All cells count, unlisted ones as zeros: one pass of products."""
        s, vt = self.basis()
        sums = np.zeros((n, self.rank))
        for row, at, values in blocks:
            first = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
            sums[row[first]] += np.add.reduceat(
                _products(self.factors, at) * values[:, None], first, axis=0
            )
        rows = np.zeros((n, self.rank))
        step = max(1, _BLOCK // self.rank)
        for i in range(0, n, step):
            rows[i : i + step] = self.solve(s[:, None] * vt, sums[i : i + step] @ vt.T / s)
        return rows

    def sparse_own(self, blocks: Any, n: int) -> Array:
        """Listed cells alone count: a triangle of each row."""
        rows = np.zeros((n, self.rank))
        open_row, triangle = -1, np.zeros((0, self.rank + 1))
        for row, at, values in blocks:
            design = np.hstack([_products(self.factors, at), values[:, None]])
            for i, own in _by_row(row, design):
                if i != open_row:
                    if open_row >= 0:
                        rows[open_row] = self.solve_own(triangle)
                    open_row, triangle = i, np.zeros((0, self.rank + 1))
                triangle = _add(triangle, own)
        if open_row >= 0:
            rows[open_row] = self.solve_own(triangle)
        return rows

    def sparse_loss(self, blocks: Any, n: int) -> Array:
        """Another loss. The cells of a row are held at a time."""
        all_cells = not self.observed
        linear: Optional[Array] = None
        whole: Optional[Array] = None
        if all_cells and self.loss == "poisson":
            linear = np.prod([f.sum(axis=0) for f in self.factors], axis=0)
        elif all_cells:
            whole = self.whole()
        rows = np.zeros((n, self.rank))
        sizes = [len(f) for f in self.factors]
        done = np.zeros(n, dtype=bool)

        def close(i: int, parts: "List[Array]") -> None:
            own = np.vstack(parts)
            done[i] = True
            if whole is not None:
                x = np.zeros(len(whole))
                np.add.at(x, own[:, 0].astype(np.int64), own[:, -1])
                rows[i] = _descend(whole, x, self.curves, self.lower, self.l2, None)
                return
            k, x = own[:, :-1], own[:, -1]
            if linear is None:
                rows[i] = _descend(k, x, self.curves, self.lower, self.l2, None)
            else:  # the mean of each listed cell is in both sums
                rows[i] = _descend(k, x, self.curves, self.lower, self.l2, linear - k.sum(axis=0))

        open_row, parts = -1, []  # type: Tuple[int, List[Array]]
        for row, at, values in blocks:
            left = (
                np.ravel_multi_index([np.asarray(i, dtype=np.int64) for i in at], sizes)[
                    :, None
                ].astype(np.float64)
                if whole is not None
                else _products(self.factors, at)
            )
            for i, own in _by_row(row, np.hstack([left, values[:, None]])):
                if i != open_row and parts:
                    close(open_row, parts)
                    parts = []
                open_row = i
                parts.append(own)
        if parts:
            close(open_row, parts)
        if whole is not None and not done.all():
            rows[~done] = _descend(
                whole, np.zeros(len(whole)), self.curves, self.lower, self.l2, None
            )
        return rows


def _by_row(row: Array, design: Array) -> "Iterator[Tuple[int, Array]]":
    """Parts of a block with one row each."""
    first = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    for a, b in zip(first, [*first[1:], len(row)]):
        yield int(row[a]), design[a:b]


# ---- the call ----


def dense_cells(t: Tensor) -> Array:
    """The cells of a dense tensor, as NumPy has them."""
    if t._cells is not None:
        return t._cells
    if os.path.isfile(t.path) and t.path.endswith(".npy"):
        return np.asarray(np.load(t.path, mmap_mode="r"))
    raise ArgumentError(
        f"{t.path}: rows are folded in from arrays and .npy files: read it into an array"
    )


def _places(model: Any, new: Tensor, mode: int) -> "List[Optional[Array]]":
    """For each fixed mode, the row of the model of each new index; None: the same index."""
    ret: "List[Optional[Array]]" = []
    for m in range(model.order):
        if m == mode:
            continue
        old, given = labels_of(model, m), labels_of(new, m)
        if old is not None and given is not None and old[: len(given)] != given:
            at: "Dict[Optional[str], int]" = {label: i for i, label in enumerate(old)}
            unknown = [label for label in given if label is not None and label not in at]
            if unknown:
                raise ArgumentError(f"mode {m}: the model has no row for {unknown[0]!r}")
            if new.dense:
                raise ArgumentError(
                    f"mode {m}: labels of the array are in another order than those of the model"
                )
            ret.append(np.array([at.get(label, 0) for label in given], dtype=np.int64))
            continue
        if new.shape[m] > model.shape[m] or (new.dense and new.shape[m] != model.shape[m]):
            raise ArgumentError(
                f"mode {m} is fixed: the model has {model.shape[m]} rows of it, the new tensor "
                f"{new.shape[m]}"
            )
        ret.append(None)
    return ret


def _blocks(
    new: Tensor, mode: int, places: "List[Optional[Array]]"
) -> "Iterator[Tuple[Array, List[Array], Array]]":
    """Cells by ascending row: rows, indices of the fixed modes as the model has them, values."""
    others = [m for m in range(new.order) if m != mode]
    for coords, values in new.blocks(mode, size=1 << 16):
        at = [coords[:, m].astype(np.int64) for m in others]
        yield (
            coords[:, mode].astype(np.int64),
            [i if p is None else p[i] for i, p in zip(at, places)],
            values,
        )


def _check(new: Tensor, observed: Optional[bool], l2: float) -> bool:
    """Whether listed or known cells alone count."""
    if not np.isfinite(l2) or l2 < 0:
        raise ArgumentError(f"l2={l2!r}: a number of 0 or more")
    if new.dense:
        return True
    if bool(Call().run(lambda err: lib.ts_takes_observed(new._open(), 0))):
        raise ArgumentError(f"{new.path}: cells have weights, and rows are folded in without them")
    if observed and new.has_duplicates:
        raise ArgumentError(
            f"{new.path}: cells hold several nonzeros, so they are no observations: build the "
            "tensor without duplicates"
        )
    return bool(observed)


def fold_in(
    model: Any,
    new: Any,
    mode: Mode = 0,
    *,
    nonneg: bool = False,
    l2: float = 0,
    observed: Optional[bool] = None,
    loss: str = "least-squares",
    join: bool = False,
    value: Any = None,
) -> Any:
    """Rows of one mode for new data; the other factors and the weights stay as they are.

    Least squares are solved without squaring the condition of the fixed factors. Memory is that of
    the factors, a block of cells and, with another loss, the cells of a row.

    Parameters
    ----------
    model : Model
    new : Tensor, path, array or table
        Of the order of the model. Its `mode` may have any size. The other modes must match: by
        label if both have labels, else by index. A sparse tensor may lack the last indices of a
        mode.
    mode : int or str
        The mode of the new rows.
    nonneg : bool
        The rows are nonnegative. Losses whose models are nonnegative imply it.
    l2 : float
        Half this number times the sum of squares of a row is added to its loss.
    observed : bool, optional
        Unlisted cells of a sparse tensor are unknown, not zeros. NaN cells of an array are always
        unknown.
    loss : str
        As in :func:`cp`.
    join : bool
        Return the rows of the model followed by the new ones.
    value : str, optional
        Of a table: the column of the values.

    Returns
    -------
    Model
        In float64, with the weights and the other factors of `model`. A row without cells that
        count is zeros.

    Raises
    ------
    ArgumentError
        Modes do not match, the cells have weights, or a slice is too large for a loss that needs
        all of its cells.
    """
    from ._cells import tensor_of
    from ._losses import loss_of
    from ._model import Model

    free: int = model._number(mode)
    new = tensor_of(model, new, value, free)
    if new.order != model.order:
        raise ArgumentError(f"the model has {model.order} modes, the new tensor {new.order}")
    kind, number = loss_of(loss)
    only_known = _check(new, observed, l2)
    places = _places(model, new, free)
    factors = [np.asarray(model.factors[m], dtype=np.float64) for m in range(model.order)]
    fixed = [f for m, f in enumerate(factors) if m != free]
    if not fixed:
        raise ArgumentError("a model of one mode has no fixed one")
    names, labels = _named(model, new, free, join)
    fold = _Fold(
        [fixed[0] * model.weights, *fixed[1:]],
        bool(nonneg),
        float(l2),
        loss.split(":")[0] if kind else "least-squares",
        number,
        only_known,
    )
    if new.dense:
        rows = fold.dense(np.moveaxis(dense_cells(new), free, 0))
    else:
        work = fold.sparse_loss if kind else fold.sparse_own if only_known else fold.sparse_known
        rows = work(_blocks(new, free, places), new.shape[free])
    if join:
        rows = np.vstack([factors[free], rows])
    factors[free] = rows
    made = Model.from_factors(model.weights, factors, modes=names, labels=labels)
    made.loss, made.observed = loss, bool(observed)
    return made


def _named(model: Any, new: Tensor, mode: int, join: bool) -> "Tuple[Any, Any]":
    """Names and labels of the model, and those of the new rows."""
    names = [a or b for a, b in zip(model.names, new.mode_names)]
    of: "List[Optional[List[Optional[str]]]]" = []
    for m in range(model.order):
        if m != mode:
            found = labels_of(model, m) or labels_of(new, m)
        else:
            fresh = labels_of(new, m)
            old = labels_of(model, m) if join else None
            if join and old and fresh and set(old) & set(fresh) - {None}:
                twice = sorted(x for x in set(old) & set(fresh) if x is not None)[0]
                raise ArgumentError(
                    f"mode {mode}: the model has a row for {twice!r} already: leave out join"
                )
            found = (
                [*(old or [None] * model.shape[m]), *(fresh or [None] * new.shape[m])]
                if join
                else fresh
            )
        of.append(found)
    return names if any(names) else None, of if any(x is not None for x in of) else None
