# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of models, of ranks and of replicability, with Matplotlib alone.

Nothing is set globally: each picture is drawn in a style of its own, on a light background.
"""

import math
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from ._fold import labels_at, labels_of
from ._lib import ArgumentError, Array, Mode

if TYPE_CHECKING:
    from ._collection import Collection
    from ._model import Model
    from ._replicability import RankChoice

_UP, _DOWN, _INK, _FAINT = "#1f6fb4", "#c8502d", "#222222", "#9a9a9a"
_STYLE: Any = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
}
_TEXT = 22  # characters of a label
_SHORT = 12  # so few rows without labels are bars
_MOST = 20000  # rows of a line, at most


def _shortened(text: str) -> str:
    """Both ends of a long text: names often differ at the end."""
    if len(text) <= _TEXT:
        return text
    return text[: _TEXT - 9] + "…" + text[-8:]


def _numbers(labels: "Sequence[Optional[str]]") -> "Optional[Array]":
    """The labels as numbers, if all are finite ones."""
    try:
        found = np.array([float(str(x)) for x in labels])
    except ValueError:
        return None
    return found if len(found) and np.isfinite(found).all() else None


def _times(labels: "Sequence[Optional[str]]") -> "Optional[Array]":
    """The labels as times, if all begin with a date of ISO 8601 and are long enough to be one."""
    if any(x is None or len(x) < 7 or x[4] != "-" for x in labels):
        return None
    try:
        return np.array(labels, dtype="datetime64[us]")
    except ValueError:
        return None


class _Axis:
    """How a mode is drawn: lines over places, or bars of the strongest labels."""

    def __init__(self, model: "Model", mode: int, kind: Optional[str]) -> None:
        self.mode, self.n = mode, model.shape[mode]
        self.title = model.names[mode] or f"mode {mode}"
        self._model = model
        # of more rows nobody sees a line, and those of bars are asked for one by one
        self.labels = labels_of(model, mode) if self.n <= _MOST else None
        self.places: Any = None
        if self.labels is not None:
            self.places = _numbers(self.labels)
            if self.places is None:
                self.places = _times(self.labels)
        in_order = self.places is not None and bool((self.places[1:] > self.places[:-1]).all())
        if kind is None:
            is_line = in_order if self.labels is not None else _SHORT < self.n <= _MOST
            kind = "line" if is_line else "bar"
        if kind not in ("line", "bar"):
            raise ArgumentError(f"kind={kind!r} of mode {mode}: line or bar")
        if kind == "line" and not in_order:
            self.places = None
        self.kind = kind

    def label(self, i: int) -> str:
        text = labels_at(self._model, self.mode, [i])[0] if self.labels is None else self.labels[i]
        return str(i) if text is None else _shortened(text)


def _draw_line(ax: Any, axis: _Axis, y: Array) -> None:
    x = np.arange(axis.n) if axis.places is None else axis.places
    ax.plot(x, y, color=_INK, linewidth=1.1)
    ax.fill_between(x, 0, y, where=y >= 0, color=_UP, alpha=0.35, linewidth=0, interpolate=True)
    ax.fill_between(x, 0, y, where=y <= 0, color=_DOWN, alpha=0.35, linewidth=0, interpolate=True)
    ax.margins(x=0.01)
    if axis.labels is not None and axis.places is None:
        at = np.unique(np.linspace(0, axis.n - 1, min(axis.n, 4)).round().astype(int))
        ax.set_xticks(at, [axis.label(int(i)) for i in at])
        return
    if axis.places is not None and axis.places.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator: Any = AutoDateLocator(minticks=2, maxticks=5)  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        return
    from matplotlib.ticker import MaxNLocator

    whole = bool(np.all(np.asarray(x) == np.round(x)))
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=whole))


def _draw_bars(ax: Any, axis: _Axis, y: Array, top: int) -> None:
    if axis.labels is None and axis.n <= top:
        order = np.arange(axis.n)  # all of them, as they stand
    else:
        order = np.argsort(-np.abs(y), kind="stable")[: min(top, axis.n)]
        order = order[y[order] != 0] if y.any() else order[:0]
    at = np.arange(len(order))
    ax.barh(at, y[order], color=[_UP if v >= 0 else _DOWN for v in y[order]], height=0.72)
    ax.set_yticks(at, [axis.label(int(i)) for i in order])
    ax.set_ylim(top - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def _sides(columns: "Sequence[Array]") -> "Tuple[float, float]":
    """Limits of values that are the same for all components of a mode."""
    low = min(0.0, *[float(y.min(initial=0)) for y in columns])
    high = max(0.0, *[float(y.max(initial=0)) for y in columns])
    room = 0.06 * (high - low) or 1.0
    return low - (room if low < 0 else 0), high + (room if high > 0 or low == 0 else 0)


def _grid(figure: Any, rows: int, columns: int, ax: Any, figsize: "Tuple[float, float]") -> Any:
    """Axes of a new figure, or those that were given."""
    import matplotlib.pyplot as plt

    if ax is None:
        return plt.subplots(
            rows, columns, squeeze=False, figsize=figure or figsize, layout="constrained"
        )
    axes = np.asarray(ax, dtype=object)
    if axes.size != rows * columns:
        raise ArgumentError(f"ax has {axes.size} axes: {rows} x {columns} are wanted")
    return axes.flat[0].figure, axes.reshape(rows, columns)


def plot_model(
    model: "Model",
    components: "Union[None, int, Sequence[int]]" = None,
    *,
    modes: "Optional[Sequence[Mode]]" = None,
    top: int = 8,
    kind: "Optional[Dict[Mode, str]]" = None,
    ax: Any = None,
    figsize: "Optional[Tuple[float, float]]" = None,
) -> Any:
    """Draws the columns of the factors, a row of pictures for each component.

    A mode whose labels are ascending numbers or times is a line over them. So is a mode without
    labels and with more than twelve indices, up to 20,000. Another mode has bars: of the strongest
    labels, or of all of at most `top` indices. Blue is positive, red is negative.

    Parameters
    ----------
    model : Model
    components : int or sequence of int, optional
        The number of components, by weight, or which. By default at most 6.
    modes : sequence of int or str, optional
        Modes to draw. By default all.
    top : int
        Bars of a mode.
    kind : dict of mode to {'line', 'bar'}, optional
        How a mode is drawn.
    ax : array of Axes, optional
        Where to draw: an axes for each component and mode. By default a new figure.
    figsize : pair of float, optional
        Size of the new figure, in inches.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import matplotlib as mpl

    sizes = np.abs(np.array(model.weights))
    for f in model.factors:
        sizes = sizes * np.linalg.norm(np.asarray(f, dtype=np.float64), axis=0)
    if components is None or isinstance(components, (int, np.integer)):
        n = min(model.rank, 6 if components is None else int(components))
        shown = [int(r) for r in np.argsort(-sizes, kind="stable")[:n]]
    else:
        shown = [int(r) for r in components]
    if not shown or not all(0 <= r < model.rank for r in shown):
        raise ArgumentError(f"components are numbers from 0 to {model.rank - 1}, at least one")
    if top < 1:
        raise ArgumentError(f"top={top}: there is at least one bar")
    kinds = {model._number(m): what for m, what in (kind or {}).items()}
    drawn = range(model.order) if modes is None else [model._number(m) for m in modes]
    axis = [_Axis(model, m, kinds.get(m)) for m in drawn]
    bars = max([min(top, a.n) for a in axis if a.kind == "bar"], default=0)
    width = sum(3.4 if a.kind == "bar" else 3.0 for a in axis) + 0.5
    height = max(1.25, 0.17 * bars + 0.35) * len(shown) + 0.4
    with mpl.rc_context(_STYLE):
        figure, axes = _grid(figsize, len(shown), len(axis), ax, (width, height))
        for j, a in enumerate(axis):
            factor = np.asarray(model.factors[a.mode], dtype=np.float64)
            limits = _sides([factor[:, r] for r in shown])
            for i, r in enumerate(shown):
                here, y = axes[i][j], factor[:, r]
                if a.kind == "line":
                    _draw_line(here, a, y)
                    here.axhline(0, color=_FAINT, linewidth=0.8)
                    here.set_ylim(limits)
                else:
                    _draw_bars(here, a, y, min(top, a.n))
                    here.axvline(0, color=_FAINT, linewidth=0.8)
                    here.set_xlim(limits)
                here.locator_params(axis="y" if a.kind == "line" else "x", nbins=4)
                if i < len(shown) - 1:
                    here.tick_params(labelbottom=False)
                if i == 0:
                    here.set_title(a.title, fontweight="bold")
        for i, r in enumerate(shown):
            axes[i][0].set_ylabel(f"component {r}\n{sizes[r]:.3g}")
    return figure


def _points(ax: Any, ranks: "Sequence[float]", values: Any, color: str, label: str) -> None:
    ax.plot(
        ranks,
        [math.nan if v is None else v for v in values],
        "o-",
        color=color,
        markersize=4,
        linewidth=1.3,
        label=label,
    )


def plot_ranks(
    collection: "Collection", *, ax: Any = None, figsize: "Optional[Tuple[float, float]]" = None
) -> Any:
    """Draws fits over ranks, with a point for each start and a line through the best ones.

    Below are the scores of the other starts of a rank with its best one.

    Parameters
    ----------
    collection : Collection
    ax : pair of Axes, optional
        Where to draw. By default a new figure.
    figsize : pair of float, optional
        Size of the new figure, in inches.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import matplotlib as mpl

    best = sorted((row["rank"], row["fit"]) for row in collection.rows if row["best"])
    others = [row for row in collection.rows if not row["best"] and row["score"] is not None]
    count = 2 if others else 1
    with mpl.rc_context(_STYLE):
        figure, axes = _grid(figsize, count, 1, ax, (5.2, 2.6 * count + 0.4))
        axes = axes[:, 0]
        axes[0].plot(
            [row["rank"] for row in collection.rows],
            [row["fit"] for row in collection.rows],
            "o",
            alpha=0.45,
            color=_FAINT,
            markersize=5,
            label="each start",
        )
        _points(axes[0], [r for r, _ in best], [f for _, f in best], _UP, "best start")
        axes[0].set_ylabel("fit")
        if others:
            axes[0].legend(loc="lower right")
            axes[1].plot(
                [row["rank"] for row in others],
                [row["score"] for row in others],
                "o",
                alpha=0.6,
                color=_UP,
                markersize=5,
            )
            axes[1].set_ylim(-0.03, 1.05)
            axes[1].set_ylabel("score with the best start")
        _rank_ticks(axes, [r for r, _ in best])
    return figure


def _rank_ticks(axes: "Sequence[Any]", ranks: "Sequence[int]") -> None:
    step = max(1, len(ranks) // 12)
    for ax in axes:
        ax.set_xticks(list(ranks)[::step])
        ax.set_xlim(ranks[0] - 0.5, ranks[-1] + 0.5)
    axes[-1].set_xlabel("rank")


def plot_replicability(
    choice: "RankChoice", *, ax: Any = None, figsize: "Optional[Tuple[float, float]]" = None
) -> Any:
    """Draws the table of :func:`choose_rank`: a picture for each quantity, over ranks.

    The recommended rank is a grey band. The dashed line is what the least congruence must reach.

    Parameters
    ----------
    choice : RankChoice
    ax : sequence of Axes, optional
        Where to draw: one for replicability and one for each other column that has numbers.
    figsize : pair of float, optional
        Size of the new figure, in inches.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import matplotlib as mpl

    t = choice.table
    ranks = [int(r) for r in t["rank"]]
    names = {"fit": "fit", "core_consistency": "core consistency (%)", "held_out": "error held out"}
    shown = [c for c in names if np.isfinite(np.asarray(t[c], dtype=np.float64)).any()]
    columns = 2 if len(shown) > 0 else 1
    rows = math.ceil((1 + len(shown)) / columns)
    with mpl.rc_context(_STYLE):
        count = 1 + len(shown)
        if ax is None:
            figure, grid = _grid(figsize, rows, columns, None, (4.1 * columns, 2.7 * rows + 0.4))
            axes = list(grid.flat)
            for spare in axes[count:]:
                spare.remove()
        else:
            figure, grid = _grid(None, count, 1, ax, (1, 1))
            axes = list(grid.flat)
        axes = axes[:count]
        _points(axes[0], ranks, t["replicability"], _UP, "mean of the pairs")
        _points(axes[0], ranks, t["least"], _DOWN, "least similar pair")
        if np.isfinite(t["starts"]).any():
            _points(axes[0], ranks, t["starts"], _FAINT, "other starts")
        axes[0].axhline(choice._threshold, color=_INK, linewidth=0.8, linestyle="--")
        axes[0].set_ylim(-0.03, 1.05)
        axes[0].set_ylabel("congruence of halves")
        axes[0].legend(loc="best")
        for here, name in zip(axes[1:], shown):
            _points(here, ranks, t[name], _UP, name)
            here.set_ylabel(names[name])
            if name == "core_consistency":
                here.set_ylim(max(-105, min(-5, np.nanmin(t[name]) - 5)), 105)
        for here in axes:
            if choice.rank is not None:
                here.axvspan(choice.rank - 0.3, choice.rank + 0.3, color="#e4e4e4", zorder=0)
            _rank_ticks([here], ranks)
        said = "no clear rank" if choice.rank is None else f"rank {choice.rank}"
        axes[0].set_title(said, fontweight="bold", loc="left")
    return figure
