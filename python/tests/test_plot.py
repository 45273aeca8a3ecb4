# SPDX-License-Identifier: BSD-3-Clause
"""Pictures: what is drawn, in which colour, and that nothing lies on something else."""

import warnings

import numpy as np
import pytest

import tstream as ts

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
colors = pytest.importorskip("matplotlib.colors")


@pytest.fixture(autouse=True)
def closed():
    before = dict(matplotlib.rcParams)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before  # nothing is set globally


def labelled():
    """Three modes with labels: words, ascending numbers, and months."""
    rng = np.random.default_rng(1)
    rows = {"who": [], "size": [], "when": [], "x": []}
    for who in range(11):
        for size in range(15):
            for when in range(14):
                rows["who"].append(f"a person with a long name {who:02}")
                rows["size"].append(f"{0.5 * size + 0.25:05.2f}")
                rows["when"].append(f"{2020 + when // 12}-{when % 12 + 1:02}-01")
                rows["x"].append(rng.standard_normal())
    return ts.from_frame(rows, ["who", "size", "when"], "x")


def decomposed(t, rank=3):
    return ts.cp(t, rank, cpu=True, progress=False, sweeps=3)


def drawn_labels(ax, axis):
    get = ax.get_xticklabels if axis == "x" else ax.get_yticklabels
    low, high = sorted(ax.get_xlim() if axis == "x" else ax.get_ylim())
    where = 0 if axis == "x" else 1
    return [
        t
        for t in get()
        if t.get_text() and t.get_visible() and low <= t.get_position()[where] <= high
    ]


def assert_clear(figure):
    """Texts lie within the figure and not on each other."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    whole = figure.bbox
    boxes = []
    for ax in figure.axes:
        texts = [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]
        texts += [*drawn_labels(ax, "x"), *drawn_labels(ax, "y")]
        for text in texts:
            if text.get_text() and text.get_visible():
                box = text.get_window_extent(renderer)
                assert box.width > 0 and whole.x0 - 1 <= box.x0 and box.x1 <= whole.x1 + 1, text
                assert whole.y0 - 1 <= box.y0 and box.y1 <= whole.y1 + 1, text
                boxes.append((text.get_text(), box.shrunk(0.96, 0.8)))
    for i, (a, first) in enumerate(boxes):
        for b, second in boxes[:i]:
            assert not first.overlaps(second), (a, b)


def test_words_are_bars_and_ascending_numbers_and_times_are_lines():
    t = labelled()
    m = decomposed(t)
    figure = m.plot()
    assert_clear(figure)
    assert figure.get_facecolor() == (1, 1, 1, 1)
    axes = np.array(figure.axes).reshape(3, 3)
    assert [ax.get_title() for ax in axes[0]] == ["who", "size", "when"]
    for r in range(3):
        bars, values = axes[r][0].patches, np.asarray(m.factors[0])[:, r]
        strongest = np.argsort(-np.abs(values), kind="stable")[:8]
        np.testing.assert_allclose([b.get_width() for b in bars], values[strongest], rtol=1e-6)
        names = [x.get_text() for x in axes[r][0].get_yticklabels()]
        assert len(set(names)) == 8 and all(len(x) <= 22 for x in names)
        up, down = colors.to_rgba("#1f6fb4"), colors.to_rgba("#c8502d")
        assert [b.get_facecolor() for b in bars] == [
            up if v >= 0 else down for v in values[strongest]
        ]
        line = axes[r][1].lines[0]
        np.testing.assert_allclose(line.get_ydata(), np.asarray(m.factors[1])[:, r], rtol=1e-6)
        np.testing.assert_allclose(line.get_xdata(), 0.5 * np.arange(15) + 0.25)
        assert str(axes[r][2].lines[0].get_xdata()[12])[:10] == "2021-01-01"
        assert f"component {r}" in axes[r][0].get_ylabel()
    assert axes[0][1].get_ylim() == axes[2][1].get_ylim()


@pytest.mark.parametrize("shape", [(5, 60, 9), (3, 4), (30, 30, 3, 2)])
def test_without_labels_short_modes_are_bars(shape):
    rng = np.random.default_rng(1)
    m = ts.Model.from_factors([3, 2], [rng.standard_normal((n, 2)) for n in shape])
    figure = m.plot()
    assert_clear(figure)
    axes = np.array(figure.axes).reshape(2, len(shape))
    for ax, n in zip(axes[0], shape):
        assert bool(ax.patches) == (n <= 12)
    if shape[0] == 5:  # all of a short mode, in its order
        widths = [b.get_width() for b in axes[0][0].patches]
        r = int(axes[0][0].get_ylabel().split()[1])
        np.testing.assert_allclose(widths, m.factors[0][:, r])


def test_components_modes_kinds_axes_and_size_are_chosen():
    m = decomposed(labelled(), 5)
    assert len(m.plot(2).axes) == 6 and len(m.plot([4]).axes) == 3
    one = m.plot([4, 0], modes=["size"], kind={"size": "bar"}, top=4, figsize=(5, 4))
    assert tuple(one.get_size_inches()) == (5, 4) and len(one.axes) == 2
    assert len(one.axes[0].patches) == 4 and "component 4" in one.axes[0].get_ylabel()
    figure, axes = plt.subplots(2, 3)
    assert m.plot(2, ax=axes) is figure and axes[1][0].patches
    for wrong in (
        dict(components=[5]),
        dict(components=[]),
        dict(kind={0: "pie"}),
        dict(top=0),
        dict(components=2, ax=axes[0]),
    ):
        with pytest.raises(ts.ArgumentError):
            m.plot(**wrong)
    with pytest.warns(FutureWarning, match="top"):
        assert len(m.plot(1, most=3).axes[0].patches) == 3


def test_a_large_mode_is_its_strongest_rows():
    rng = np.random.default_rng(1)
    factor = rng.standard_normal((50_000, 1))
    factor[777] = 99
    figure = ts.Model.from_factors(None, [factor, np.ones((3, 1))]).plot()
    assert (
        figure.axes[0].get_yticklabels()[0].get_text() == "777" and not figure.axes[0].patches[8:]
    )


def test_a_component_of_zeros_can_be_drawn():
    figure = ts.Model.from_factors([0, 1], [np.zeros((4, 2)), np.ones((20, 2))]).plot()
    assert_clear(figure)


def test_ranks_have_a_point_for_each_start():
    x = np.random.default_rng(1).random((9, 8, 7))
    c = ts.cp(x, [1, 2, 4], restarts=3, cpu=True, progress=False, sweeps=3)
    figure = c.plot_ranks()
    assert_clear(figure)
    starts, best = figure.axes[0].lines[:2]
    assert len(starts.get_xdata()) == 9 and list(best.get_xdata()) == [1, 2, 4]
    np.testing.assert_allclose(best.get_ydata(), [c.best[r].history[-1].fit for r in (1, 2, 4)])
    assert len(figure.axes[1].lines[0].get_xdata()) == 6
    alone = ts.cp(x, [1, 2], cpu=True, progress=False, sweeps=3).plot_ranks(figsize=(3, 2))
    assert len(alone.axes) == 1 and tuple(alone.get_size_inches()) == (3, 2)


@pytest.mark.parametrize("noise", [False, True])
def test_replicability_has_a_picture_for_each_column(noise):
    rng = np.random.default_rng(1)
    x = np.einsum("ir,jr,kr->ijk", *[rng.standard_normal((n, 2)) for n in (20, 9, 8)])
    x = rng.standard_normal(x.shape) if noise else x + 0.1 * rng.standard_normal(x.shape)
    choice = ts.choose_rank(
        x, [1, 2, 3], repeats=2, restarts=2, hold_out=0 if noise else 0.1, cpu=True
    )
    figure = choice.plot()
    assert_clear(figure)
    assert len(figure.axes) == (3 if noise else 4)
    said = figure.axes[0].get_title(loc="left")
    assert said == ("no clear rank" if noise else "rank 2")
    assert bool(figure.axes[1].patches) == (not noise)  # the band
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
    np.testing.assert_allclose(lines["least similar pair"], choice.table["least"])
    np.testing.assert_allclose(lines["mean of the pairs"], choice.table["replicability"])
    _, axes = plt.subplots(len(figure.axes), 1)
    assert ts.plot_replicability(choice, ax=axes) is axes[0].figure
