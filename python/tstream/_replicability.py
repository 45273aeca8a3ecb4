# SPDX-License-Identifier: BSD-3-Clause
"""Whether components come again: models beside each other, halves of the data, and the rank."""

import html
import os
import shutil
import tempfile
import warnings
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from ._fold import dense_cells
from ._lib import ArgumentError, Array, LimitError, Mode, Path, TstreamWarning
from ._table import Table
from ._tensor import Tensor, as_tensor, columns_of, from_array

if TYPE_CHECKING:
    from ._model import Model

# ---- two models ----


def _modes_of(model: "Model", skip: "Union[None, Mode, Sequence[Mode]]") -> "List[int]":
    """The modes that count."""
    if skip is None:
        skip = ()
    elif isinstance(skip, str) or not isinstance(skip, (list, tuple, set, np.ndarray)):
        skip = [skip]  # type: ignore[list-item]
    left = {model._number(m) for m in skip}
    modes = [m for m in range(model.order) if m not in left]
    if not modes:
        raise ArgumentError("all modes are skipped: at least one is compared")
    return modes


def _scaled(x: Array) -> "Tuple[Array, Array]":
    """Columns divided by powers of two, so that their squares neither overflow nor vanish."""
    exponent = np.frexp(np.abs(x).max(axis=0, initial=0))[1]
    return np.ldexp(x, -exponent), exponent


def _likeness(sizes: "Sequence[Tuple[Array, Array]]") -> Array:
    """1 - |p - q| / max(p, q) of all pairs; each size is a number times a power of two."""
    (p, at), (q, by) = sizes
    top = np.where(p[:, None] > 0, at[:, None], by)
    top = np.where((p[:, None] > 0) & (q > 0), np.maximum.outer(at, by), top)
    p = np.ldexp(p[:, None], np.maximum(at[:, None] - top, -4000))
    q = np.ldexp(q, np.maximum(by - top, -4000))
    most, apart = np.maximum(p, q), np.abs(p - q)
    return np.asarray(1 - np.divide(apart, most, out=np.zeros_like(most), where=most > 0))


def _cosines(a: Array, b: Array) -> Array:
    """Cosines of columns, 0 where one is zeros."""
    a, b = _scaled(a)[0], _scaled(b)[0]
    sizes = np.outer(np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0))
    return np.asarray(np.divide(a.T @ b, sizes, out=np.zeros_like(sizes), where=sizes > 0))


class _Match:
    """Similarities of all pairs of components of two models."""

    def __init__(self, a: "Model", b: "Model", skip: Any) -> None:
        if a.order != b.order:
            raise ArgumentError(f"a model has {a.order} modes, the other one {b.order}")
        self.modes = _modes_of(a, skip)
        different = [m for m in self.modes if a.shape[m] != b.shape[m]]
        if different:
            raise ArgumentError(f"shapes differ in mode {different[0]}: {a.shape} and {b.shape}")
        self.cosine = []
        self.congruence = np.ones((a.rank, b.rank))
        sizes = [np.frexp(np.abs(np.array(x.weights, dtype=np.float64))) for x in (a, b)]
        empty = [np.zeros(a.rank, bool), np.zeros(b.rank, bool)]  # zeros in some mode
        for m in range(a.order):
            columns = [np.asarray(x.factors[m], dtype=np.float64) for x in (a, b)]
            for k, x in enumerate(columns):
                x, by = _scaled(x)
                norms = np.linalg.norm(x, axis=0)
                size, up = np.frexp(sizes[k][0] * norms)
                sizes[k] = size, sizes[k][1] + by + up
                empty[k] |= (norms == 0) & (m in self.modes)
            if m in self.modes:
                self.cosine.append(_cosines(*columns))
                self.congruence *= np.abs(self.cosine[-1])
        self.congruence[np.outer(*empty)] = 1
        self.likeness = _likeness(sizes)
        with np.errstate(over="ignore"):
            self.sizes = [np.ldexp(*size) for size in sizes]

    def score(self, weights: bool) -> Array:
        return self.congruence * self.likeness if weights else self.congruence


def _pairs(score: Array) -> "Tuple[Array, Array]":
    """Partners with the largest sum of scores; without SciPy the best pair first."""
    try:
        from scipy.optimize import (  # type: ignore[import-untyped,unused-ignore]
            linear_sum_assignment,
        )

        a, b = linear_sum_assignment(-score)
        return np.asarray(a), np.asarray(b)
    except ImportError:
        left, found = score.copy(), []
        for _ in range(min(score.shape)):
            i, j = np.unravel_index(np.argmax(left), left.shape)
            found.append((int(i), int(j)))
            left[i, :] = left[:, j] = -np.inf
        found.sort()
        return np.array([i for i, _ in found]), np.array([j for _, j in found])


def compare(
    a: "Model",
    b: "Model",
    *,
    skip: "Union[None, Mode, Sequence[Mode]]" = None,
    weights: bool = True,
) -> Table:
    """Which components of two models are the same, as ``tstream compare --match best`` finds them.

    Parameters
    ----------
    a, b : Model
        Of one shape, except in the skipped modes.
    skip : int, str or sequence of them, optional
        Modes that do not count, such as samples of which each model has its own.
    weights : bool
        Sizes of components count: a pair's score is its congruence times 1 - |p - q| / max(p, q).

    Returns
    -------
    Table
        A row for each pair, by ascending `a`: a, b, score, congruence (the product of the
        magnitudes of the cosines), weight_a, weight_b (for columns of norm 1), and for each mode
        that counts the cosine of the two columns, ``cosine_`` and the name or number of the mode.
    """
    match = _Match(a, b, skip)
    score = match.score(weights)
    at = _pairs(score)
    names = a.names
    cosines = {f"cosine_{m if names[m] is None else names[m]}": x[at] for m, x in zip(match.modes, match.cosine)}
    columns = {"a": at[0], "b": at[1], "score": score[at], "congruence": match.congruence[at]}
    sizes = {"weight_a": match.sizes[0][at[0]], "weight_b": match.sizes[1][at[1]]}
    return Table({**columns, **sizes, **cosines})


def score(a: "Model", b: "Model", skip: Any = None, weights: bool = True) -> float:
    """The mean score of the pairs of :func:`compare`."""
    found = _Match(a, b, skip).score(weights)
    return float(found[_pairs(found)].mean())


# ---- halves ----


def _used(t: Tensor, mode: int) -> Array:
    """Slices of a mode that hold something."""
    if not t.dense:
        return t.used_indices(mode)
    return np.arange(t.shape[mode], dtype=np.uint64)


class _Halves:
    """Two tensors, each with half of the slices of a mode. They are removed in the end."""

    def __init__(self, t: Tensor, mode: int, rng: np.random.Generator) -> None:
        slices = rng.permutation(_used(t, mode))
        if len(slices) < 4:
            raise ArgumentError(f"mode {mode} has {len(slices)} slices: halves take at least 4")
        middle = len(slices) // 2
        self._t, self._mode = t, mode
        self._index = [np.sort(slices[:middle]), np.sort(slices[middle:])]
        self._folder: Optional[str] = None

    def __enter__(self) -> "List[Tensor]":
        if self._t.dense:
            x = dense_cells(self._t)
            return [
                from_array(np.ascontiguousarray(np.take(x, i.astype(np.int64), axis=self._mode)))
                for i in self._index
            ]
        self._folder = tempfile.mkdtemp(prefix="tstream-")
        try:
            return [
                self._t.select(os.path.join(self._folder, f"{k}.tsh"), keep={self._mode: i})
                for k, i in enumerate(self._index)
            ]
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _models(t: Tensor, ranks: "Sequence[int]", restarts: int, settings: "Dict[str, Any]") -> Any:
    """The Collection of these ranks, quietly about cells that are unknown."""
    from ._settings import cp

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "cells of the tensor are unknown", TstreamWarning)
        return cp(t, list(ranks), restarts=restarts, **settings)


def _congruences(
    t: Tensor,
    ranks: "Sequence[int]",
    mode: int,
    repeats: int,
    restarts: int,
    seed: int,
    settings: "Dict[str, Any]",
) -> "Dict[int, Array]":
    """For each rank the congruences of pairs, (repeats, rank), those of a repeat ascending."""
    rng = np.random.default_rng(seed)
    found: "Dict[int, List[Array]]" = {rank: [] for rank in ranks}
    for _ in range(repeats):
        with _Halves(t, mode, rng) as halves:
            both = [_models(half, ranks, restarts, settings) for half in halves]
        for rank in ranks:
            a, b = (c.best[rank] for c in both)
            alike = _Match(a, b, [mode]).congruence
            found[rank].append(np.sort(alike[_pairs(alike)]))
    return {rank: np.array(rows) for rank, rows in found.items()}


def _settings_of(given: "Dict[str, Any]", refused: "Sequence[str]") -> "Dict[str, Any]":
    for name in ("restarts", "out", "output", "resume", "trace", "init", *refused):
        if name in given:
            raise ArgumentError(f"{name} is not a setting of models of halves")
    return {"progress": False, **given}


class SplitHalf:
    """How alike the models of two halves are.

    Attributes
    ----------
    rank : int
    mode : int
        The mode whose slices are divided.
    scores : ndarray, shape (repeats,)
        Mean congruence of the pairs, of each division.
    congruences : ndarray, shape (repeats, rank)
        Congruences of the pairs, ascending in each row. Near 1, both halves have this component.
    """

    def __init__(self, rank: int, mode: int, congruences: Array) -> None:
        self.rank, self.mode, self.congruences = rank, mode, congruences
        self.scores = congruences.mean(axis=1)

    @property
    def score(self) -> float:
        """Median of `scores`."""
        return float(np.median(self.scores))

    @property
    def least(self) -> float:
        """Median over divisions of the congruence of the least similar pair."""
        return float(np.median(self.congruences[:, 0]))

    def __repr__(self) -> str:
        return (
            f"<SplitHalf of rank {self.rank}, mode {self.mode}, {len(self.scores)} divisions: "
            f"score {self.score:.3f}, least congruence {self.least:.3f}>"
        )


def split_half(
    t: "Union[Tensor, Path, Array]",
    rank: int,
    mode: Mode = 0,
    repeats: int = 10,
    *,
    restarts: int = 6,
    seed: int = 1,
    **settings: Any,
) -> SplitHalf:
    """Fits halves of the slices of a mode, and compares the models on the other modes.

    Parameters
    ----------
    t : Tensor, path, array or table
        A sparse one is written to temporary tensors, half by half.
    rank : int
    mode : int or str
        The mode of samples, whose slices are divided at random.
    repeats : int
        Number of divisions.
    restarts : int
        Starts for each half, of which the best counts.
    seed : int
        Determines the divisions. The starts have the seeds 1 to `restarts`.
    **settings
        Settings of :func:`cp`, and what it takes for tables (modes, value and others).

    Returns
    -------
    SplitHalf
    """
    t = as_tensor(t, **columns_of(settings))
    number = t.mode(mode)
    if repeats < 1 or restarts < 1:
        raise ArgumentError("there is at least one division and one start")
    found = _congruences(t, [rank], number, repeats, restarts, seed, _settings_of(settings, ()))
    return SplitHalf(rank, number, found[rank])


# ---- the rank ----

_RULE = (
    "the largest rank at which the models of both halves have all components in common: the "
    "least congruence of a pair, as the median over divisions, is {:g} or more"
)


class RankChoice:
    """A table of ranks, and the one that :func:`choose_rank` recommends.

    Attributes
    ----------
    rank : int or None
        None: there is no clear rank.
    reason : str
        Why it is this one, or none.
    rule : str
        How it is chosen.
    table : Table
        A row for each rank: rank, fit (of the best start), starts (mean score of the other starts
        with the best one), replicability (median over divisions of the mean congruence), least
        (the same of the least congruent pair), core_consistency (per cent) and held_out (error at
        cells left out). NaN where one is not computed.
    """

    def __init__(
        self, rank: Optional[int], reason: str, rule: str, table: Table, threshold: float
    ) -> None:
        self.rank, self.reason, self.rule, self.table = rank, reason, rule, table
        self._threshold = threshold

    def plot(self, *, ax: Any = None, figsize: Any = None) -> Any:
        """Draws the table, as :func:`plot_replicability` does."""
        from ._plot import plot_replicability

        return plot_replicability(self, ax=ax, figsize=figsize)

    def __repr__(self) -> str:
        said = "no clear rank" if self.rank is None else f"rank {self.rank}"
        return f"{self.table!r}\n{said}: {self.reason}\nrule: {self.rule}"

    def _repr_html_(self) -> str:
        said = "no clear rank" if self.rank is None else f"rank {self.rank}"
        return (
            f"{self.table._repr_html_()}<p><b>{said}</b>: {html.escape(self.reason)}<br>"
            f"rule: {html.escape(self.rule)}</p>"
        )


def _recommend(
    ranks: "Sequence[int]", least: "Sequence[float]", threshold: float
) -> "Tuple[Optional[int], str]":
    """The rank, or None, and why."""
    passed = [(rank, x) for rank, x in zip(ranks, least) if x >= threshold]
    if not passed:
        best = max(zip(least, ranks))
        return None, (
            f"at no rank do the halves have all components in common; the least "
            f"congruence is {best[0]:.2f} at best, of rank {best[1]}"
        )
    rank, x = passed[-1]
    if rank == ranks[-1]:
        return rank, (
            f"its least congruence is {x:.2f}; it is the largest rank that was tried, so "
            "a larger one may pass as well"
        )
    after = least[list(ranks).index(rank) + 1]
    return rank, f"its least congruence is {x:.2f}, that of the next larger rank {after:.2f}"


def _core(model: "Model", t: Tensor) -> float:
    try:
        return float(model.core_consistency(t))
    except (ArgumentError, LimitError):  # weights of cells, or a core that is too large
        return float("nan")


def _held_out(
    t: Tensor, ranks: "Sequence[int]", share: float, restarts: int, settings: "Dict[str, Any]"
) -> "List[float]":
    """Errors at cells that are left out; NaN where cells that are left out would be zeros."""
    if share <= 0 or not (t.dense or settings.get("observed")) or "hold_out" in settings:
        return [float("nan")] * len(ranks)
    c = _models(t, ranks, restarts, {**settings, "hold_out": share})
    best = {row["rank"]: row for row in c.rows if row["best"]}
    errors = [
        best[r]["held_out_rmse"]
        if best[r]["held_out_rmse"] is not None
        else best[r]["held_out_loss"]
        for r in ranks
    ]
    return [float("nan") if e is None else float(e) for e in errors]


def choose_rank(
    t: "Union[Tensor, Path, Array]",
    ranks: "Sequence[int]",
    mode: Mode = 0,
    *,
    repeats: int = 5,
    restarts: int = 6,
    hold_out: float = 0.1,
    threshold: float = 0.8,
    seed: int = 1,
    **settings: Any,
) -> RankChoice:
    """A table of what speaks for each rank, and a recommendation that may abstain.

    Halves of the data agree on components that are in the data, and not on those that describe
    chance. So the recommended rank is the largest one at which the models of both halves have all
    components in common. The other columns are for the reader and do not count.

    Parameters
    ----------
    t : Tensor, path, array or table
    ranks : sequence of int
        They go beyond the rank that is expected.
    mode : int or str
        The mode of samples, whose slices are divided at random.
    repeats, restarts
        Divisions, and starts for each model.
    hold_out : float
        Share of the cells for the column held_out; 0: none. It is computed for arrays, and for
        sparse tensors with `observed`.
    threshold : float
        What the least congruence must reach.
    seed : int
        Determines the divisions.
    **settings
        Settings of :func:`cp`, and what it takes for tables (modes, value and others).

    Returns
    -------
    RankChoice

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> factors = [rng.standard_normal((n, 2)) for n in (20, 9, 8)]
    >>> x = np.einsum("ir,jr,kr->ijk", *factors) + 0.3 * rng.standard_normal((20, 9, 8))
    >>> tstream.choose_rank(x, [1, 2, 3], cpu=True).rank
    2
    """
    t = as_tensor(t, **columns_of(settings))
    number = t.mode(mode)
    ranks = sorted({int(r) for r in ranks})
    if not ranks or ranks[0] < 1 or repeats < 1 or restarts < 1:
        raise ArgumentError("there is at least one rank, one division and one start")
    if not 0 < threshold <= 1:
        raise ArgumentError(f"threshold={threshold!r}: a congruence, above 0 and up to 1")
    given = _settings_of(settings, ("hold_out_from",))
    whole = _models(t, ranks, restarts, given)
    rows = {r: [row for row in whole.rows if row["rank"] == r] for r in ranks}
    best = {r: [row for row in rows[r] if row["best"]][0] for r in ranks}
    others = {r: [row["score"] for row in rows[r] if not row["best"]] for r in ranks}
    halves = _congruences(t, ranks, number, repeats, restarts, seed, given)
    least = [float(np.median(halves[r][:, 0])) for r in ranks]
    table = Table(
        {
            "rank": ranks,
            "fit": [best[r]["fit"] for r in ranks],
            "starts": [float(np.mean(others[r])) if others[r] else float("nan") for r in ranks],
            "replicability": [float(np.median(halves[r].mean(axis=1))) for r in ranks],
            "least": least,
            "core_consistency": [_core(whole.best[r], t) for r in ranks],
            "held_out": _held_out(t, ranks, hold_out, restarts, given),
        }
    )
    rank, reason = _recommend(ranks, least, threshold)
    return RankChoice(rank, reason, _RULE.format(threshold), table, threshold)
