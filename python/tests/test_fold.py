# SPDX-License-Identifier: BSD-3-Clause
"""Rows that are folded in, against dense solvers of one row."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import tstream as ts
from tstream import _fold


def conditioned(rng, n, rank, condition):
    q, _ = np.linalg.qr(rng.standard_normal((n, rank)))
    p, _ = np.linalg.qr(rng.standard_normal((rank, rank)))
    return q * np.logspace(0, -np.log10(condition), rank) @ p


def design(model, mode):
    """The products of all cells of a slice, in the order of its array."""
    others = [np.asarray(f, dtype=float) for m, f in enumerate(model.factors) if m != mode]
    k = others[0] * model.weights
    for f in others[1:]:
        k = np.einsum("ir,jr->ijr", k, f).reshape(-1, model.rank)
    return k


def sparse_of(x):
    known = ~np.isnan(x)
    return ts.from_coo(np.argwhere(known), x[known], x.shape, dtype="float64", missing="skip")


def twin(k, x, nonneg):
    if not nonneg:
        return np.linalg.lstsq(k, x, rcond=None)[0]
    return pytest.importorskip("scipy.optimize").nnls(k, x)[0]


def objective(k, x, a):
    """In long double: entries of 10^6 cancel in the model of a cell."""
    left = x - k.astype(np.longdouble) @ a
    return float(left @ left)


def kkt(k, x, a, nonneg):
    slope = (k.T @ (k.astype(np.longdouble) @ a - x)).astype(float)
    if nonneg:
        slope = np.where((a <= 0) & (slope > 0), 0, slope)
    return np.abs(slope).max(initial=0) / max(np.linalg.norm(k, 2) * np.linalg.norm(x), 1e-300)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("nonneg", [False, True])
@pytest.mark.parametrize("missing", [0, 0.4])
@pytest.mark.parametrize(
    "condition,noise", [(1, 1), (1e3, 1), (1e6, 1), (1e6, 1e-3), (1e6, 0), (np.inf, 1)]
)
def test_rows_are_those_of_a_dense_solver(order, nonneg, missing, condition, noise):
    rng = np.random.default_rng([order, nonneg, int(10 * missing), int(min(condition, 1e6))])
    rank, sizes, mode, n = 4, (20, 5, 3, 4)[:order], order - 2, 9
    factors = [rng.standard_normal((s, rank)) for s in sizes]
    factors[-1] = np.ones((sizes[-1], rank)) if order == 2 and mode == 1 else factors[-1]
    steep = order - 1
    factors[steep] = conditioned(rng, 25, rank, 1e6 if condition == np.inf else condition)
    if condition == np.inf:
        factors[steep][:, 3] = factors[steep][:, 2]
        for f in factors:
            f[:, 3] = f[:, 2]
    model = ts.Model.from_factors(rng.random(rank) + 0.5, factors)
    k = design(model, mode)
    shape = [len(f) for m, f in enumerate(factors) if m != mode]
    x = (
        np.abs(rng.standard_normal((n, rank))) @ k.T + noise * rng.standard_normal((n, len(k)))
    ).reshape(n, *shape)
    x[rng.random(x.shape) < missing] = np.nan
    x = np.moveaxis(x, 0, mode)
    for new, observed in ((x, None), (sparse_of(x), missing > 0)):
        made = model.fold_in(new, mode, nonneg=nonneg, observed=observed)
        assert made.shape == x.shape and made.dtype == np.float64
        for i, row in enumerate(np.moveaxis(x, mode, 0).reshape(n, -1)):
            a, known = made.factors[mode][i], ~np.isnan(row)
            best = twin(k[known], row[known], nonneg)
            size = row[known] @ row[known]
            got, least = (objective(k[known], row[known], z) for z in (a, best))
            assert got <= least * (1 + 1e-12) + (1e-24 if new is x else 1e-18) * size
            assert kkt(k[known], row[known], a, nonneg) < 1e-10
            assert not nonneg or a.min() >= 0
            if condition == np.inf and not nonneg:  # the shortest of them
                assert np.linalg.norm(a) <= np.linalg.norm(best) * (1 + 1e-6)


def test_the_fixed_factors_and_the_weights_stay():
    rng = np.random.default_rng(1)
    model = ts.Model.from_factors(
        [3, 2, 1], [rng.random((n, 3)) for n in (6, 5, 4)], dtype="float32"
    )
    x = np.einsum("r,ir,jr,kr->ijk", model.weights, *[np.asarray(f, float) for f in model.factors])
    made = model.fold_in(x, 2)
    assert np.array_equal(made.weights, model.weights)
    for m in (0, 1):
        assert np.array_equal(made.factors[m], model.factors[m])
    np.testing.assert_allclose(made.factors[2], model.factors[2], rtol=1e-10)
    both = model.fold_in(x[:, :, :2], 2, join=True)
    assert both.shape == (6, 5, 6)
    np.testing.assert_allclose(both.factors[2][4:], model.factors[2][:2], rtol=1e-10)


def test_rows_without_cells_are_zeros_and_the_penalty_is_that_of_ridge():
    rng = np.random.default_rng(2)
    model = ts.Model.from_factors(None, [rng.random((n, 2)) for n in (6, 5, 4)])
    x = rng.random((6, 5, 3))
    x[:, :, 1] = np.nan
    k, rows = design(model, 2), model.fold_in(x, 2, l2=0.7).factors[2]
    assert not rows[1].any()
    for i in (0, 2):
        np.testing.assert_allclose(
            rows[i],
            np.linalg.solve(k.T @ k + 0.7 * np.eye(2), k.T @ x[:, :, i].ravel()),
            rtol=1e-10,
        )


LOSSES = ["poisson", "bernoulli", "bernoulli-logit", "gamma", "poisson-log", "huber:0.3"]


def test_each_loss_is_folded_in_or_refused():
    """A loss with formulas is one of LOSSES; any other is refused in words."""
    tested = {loss.split(":")[0] for loss in LOSSES}
    for loss in (name.split(":")[0] for name in ts.losses()[1:]):
        if loss in tested:
            assert len(_fold._curves(loss, 0.3)) == 5
        else:
            with pytest.raises(ValueError, match="cannot be folded in"):
                _fold._curves(loss, 0.3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["dense", "missing", "zeros", "observed"])
def test_rows_of_other_losses_are_stationary(loss, kind):
    rng = np.random.default_rng(LOSSES.index(loss))
    model = ts.Model.from_factors(
        rng.random(3) + 0.5, [rng.random((n, 3)) + 0.05 for n in (12, 6, 9)]
    )
    k = design(model, 0)
    mean = (rng.random((8, 3)) @ k.T).reshape(8, 6, 9)
    x = {
        "p": rng.poisson(mean),
        "b": rng.random(mean.shape) < 0.4,
        "g": mean * rng.gamma(4, 0.25, mean.shape),
        "h": mean + rng.standard_t(2, mean.shape),
    }[loss[0]].astype(float)
    new, observed = x, None
    if kind == "missing":
        x[rng.random(x.shape) < 0.3] = np.nan
    elif kind != "dense":
        if loss == "gamma" and kind == "zeros":
            pytest.skip("no cell of this loss is 0")
        listed = (rng.random(x.shape) < 0.5) & (x != 0)
        listed[3] = False
        listed[-1, -1, -1] |= x[-1, -1, -1] != 0
        new = ts.from_coo(np.argwhere(listed), x[listed], x.shape, dtype="float64")
        observed = kind == "observed"
        x = np.where(listed, x, np.nan if observed else 0)
    l2 = 0 if kind == "dense" else 0.1  # of ones alone the odds would grow without end
    made = model.fold_in(new, 0, loss=loss, observed=observed, l2=l2)
    value, slope, _, _, lower = _fold._curves(loss.split(":")[0], 0.3)
    for i, row in enumerate(x.reshape(8, -1)):
        a, known = made.factors[0][i], ~np.isnan(row)
        if not known.any():
            assert not a.any()
            continue

        def projected(a):
            g = k[known].T @ slope(row[known], k[known] @ a) + l2 * a
            return np.linalg.norm(np.where((a <= 0) & (g > 0), 0, g) if lower else g)

        begin = np.full(3, max(row[known].sum(), 1e-10) / k[known].sum()) if lower else np.zeros(3)
        assert projected(a) <= 1e-8 * projected(begin)
        assert not lower or a.min() >= 0

        def cost(a):
            return np.sum(value(row[known], k[known] @ a)) + l2 / 2 * (a @ a)

        for _ in range(20):  # nothing near is better
            b = a + 1e-3 * rng.standard_normal(3)
            b = np.maximum(b, 0) if lower else b
            assert cost(a) <= cost(b) + 1e-9 * abs(cost(a))


def test_slopes_of_losses_are_the_derivatives_of_values():
    for loss in LOSSES:
        value, slope, curve, _, lower = _fold._curves(loss.split(":")[0], 0.3)
        m, x, h = np.array([0.2, 0.7, 1.9]), np.array([1.0, 0, 1]), 1e-6
        np.testing.assert_allclose(
            slope(x, m), (value(x, m + h) - value(x, m - h)) / (2 * h), rtol=1e-6
        )
        np.testing.assert_allclose(
            curve(x, m), (slope(x, m + h) - slope(x, m - h)) / (2 * h), rtol=1e-6, atol=1e-8
        )


def test_labels_are_joined_and_fixed_modes_go_by_label():
    rows = [(u, w, x) for u, x in zip("dabc", (4.0, 1, 2, 3)) for w in ("w1", "w2")]
    old = ts.from_frame(
        {"user": [r[0] for r in rows], "week": [r[1] for r in rows], "x": [r[2] for r in rows]},
        ["user", "week"],
        "x",
    )
    model = ts.cp(old, 1, cpu=True, precision="float64", progress=False, tol=1e-12)
    new = ts.from_frame(
        {"user": ["c", "b", "d"], "week": ["w3"] * 3, "x": [6.0, 4, 8]}, ["user", "week"], "x"
    )
    made = model.fold_in(new, mode="week", observed=True)
    value = model.weights[0] * made.factors[1][0, 0] * model.factors[0][:, 0]
    np.testing.assert_allclose(sorted(value), [2, 4, 6, 8], rtol=1e-10)
    both = model.fold_in(new, mode="week", observed=True, join=True)
    assert both.shape == (4, 3)
    top = both.top(0, mode="week", n=3)
    labels = list(top["label"]) if hasattr(top, "columns") else [row["label"] for row in top]
    assert labels[0] == "w3" and sorted(labels) == ["w1", "w2", "w3"]
    for again in (pickle.loads(pickle.dumps(both)), copy.deepcopy(both)):
        assert again == both and again.top(0, mode="week", n=3) == top
    for call in (both.fit, both.evaluate, both.core_consistency):
        with pytest.raises(ts.ArgumentError, match="needs a tensor"):
            call()
    with pytest.raises(ts.ArgumentError, match="already"):
        model.fold_in(old, mode="week", join=True)
    unknown = ts.from_frame({"user": ["z"], "week": ["w3"], "x": [6.0]}, ["user", "week"], "x")
    with pytest.raises(ts.ArgumentError, match="no row for 'z'"):
        model.fold_in(unknown, mode="week")


def test_what_cannot_be_folded_in_is_refused():
    rng = np.random.default_rng(1)
    model = ts.Model.from_factors(None, [rng.random((n, 2)) for n in (6, 5, 4)])
    weighted = ts.from_coo([[0, 1, 2], [5, 4, 3]], [1.0, 2], (6, 5, 4), weights=[1, 2])
    for new, options, sentence in [
        (np.ones((7, 5, 4)), dict(mode=1), "mode 0 is fixed"),
        (np.ones((6, 5)), {}, "3 modes"),
        (np.ones((6, 5, 4)), dict(l2=-1), "l2"),
        (np.ones((6, 5, 4)), dict(loss="no"), "loss"),
        (weighted, {}, "weights"),
    ]:
        with pytest.raises(ts.ArgumentError, match=sentence):
            model.fold_in(new, **options)


@pytest.mark.parametrize("nonneg", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "missing"])
def test_a_run_with_fixed_factors_ends_at_the_same_rows(nonneg, kind):
    """As ``tstream cp --init --fix`` does, for slices that the model does not have."""
    rng = np.random.default_rng(3)
    model = ts.Model.from_factors(rng.random(3) + 0.5, [rng.random((n, 3)) for n in (8, 7, 6)])
    x = np.maximum(rng.standard_normal((8, 7, 4)), 0 if kind == "sparse" else -9)
    options = {}
    if kind == "missing":
        x[rng.random(x.shape) < 0.3] = np.nan
        options = dict(observed=True, l2={2: 0})
    new = (
        x
        if kind != "sparse"
        else ts.from_coo(np.argwhere(x > 0), x[x > 0], x.shape, dtype="float64")
    )
    run = ts.cp(
        new,
        3,
        init=model,
        fix=[0, 1],
        nonneg=[2] if nonneg else None,
        sweeps=300,
        tol=0,
        cpu=True,
        progress=False,
        precision="float64",
        **options,
    )
    made = model.fold_in(new, 2, nonneg=nonneg)
    assert run.shape == made.shape == (8, 7, 4)
    error = [
        np.nansum((x - np.einsum("r,ir,jr,kr->ijk", m.weights, *m.factors)) ** 2)
        for m in (run, made)
    ]
    assert error[0] == pytest.approx(error[1], rel=1e-9) and error[1] <= error[0] * (1 + 1e-12)
    with pytest.raises(ts.ArgumentError, match="mode 2"):
        ts.cp(new, 3, init=model, fix=[0, 2], cpu=True, progress=False)
    with pytest.raises(ts.ArgumentError, match="mode 2"):
        ts.cp(new, 3, init=model, cpu=True, progress=False)


def bounds(b, c):
    norms = np.linalg.norm(b, axis=0)
    return norms, 1e-14 * norms * np.linalg.norm(c)


def test_many_rows_of_active_sets():
    """Rows that are solved together are those that are solved alone."""
    scipy = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for condition in (1, 1e6):
            b, c = conditioned(rng, 12, 12, condition), rng.standard_normal((300, 12))
            rows = _fold.nnls_rows(b, c)
            for row, right in zip(rows, c):
                least = objective(b, right, scipy.nnls(b, right)[0])
                for a in (
                    row,
                    _fold.nnls(b, right),
                    _fold._active_sets(b, right, *bounds(b, right)),
                ):
                    assert a.min() >= 0 and objective(b, right, a) <= least * (1 + 1e-12)


@pytest.mark.parametrize("settings", [{}, {"observed": True}, {"loss": "poisson"}])
def test_observed_and_loss_are_those_of_the_run(settings, tmp_path):
    rng = np.random.default_rng(2)
    cells = np.unique(rng.integers(0, (9, 8, 7), (200, 3)), axis=0)
    t = ts.from_coo(cells, rng.integers(1, 6, len(cells)).astype(float), shape=(9, 8, 7))
    penalty = {} if "loss" in settings else {"l2": 0.1}
    m = ts.cp(t, 2, out=tmp_path / "m.cp", progress=False, cpu=True, **penalty, **settings)
    for model in (m, ts.load(tmp_path / "m.cp")):
        assert model.observed is settings.get("observed", False)
        assert model.fold_in(t) == model.fold_in(t, **settings)
    assert m.fold_in(t) != m.fold_in(t, observed="observed" not in settings)
