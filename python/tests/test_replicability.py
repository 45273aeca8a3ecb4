# SPDX-License-Identifier: BSD-3-Clause
"""Models beside each other, halves of the data, and the rank."""

import warnings

import numpy as np
import pytest

import tstream as ts

CPU = dict(cpu=True, threads=1)


def planted(rank, seed, noise=0.5, shape=(40, 20, 15)):
    """A sum of components with noise of `noise` times its norm; of rank 0 noise alone."""
    rng = np.random.default_rng(seed)
    x = np.einsum("ir,jr,kr->ijk", *[rng.standard_normal((n, rank)) for n in shape])
    e = rng.standard_normal(shape)
    return x + e * (noise * np.linalg.norm(x) / np.linalg.norm(e) if rank else 1)


def model(rng, shape, rank=3):
    factors = [rng.standard_normal((n, rank)) for n in shape]
    return ts.Model.from_factors(rng.random(rank) + 0.5, factors)


def twin(a, b, modes, weights):
    """The mean of the best assignment, by trying all of them."""
    from itertools import permutations

    sizes = [np.array(x.weights) for x in (a, b)]
    alike = np.ones((a.rank, b.rank))
    for m in range(a.order):
        columns = [np.asarray(x.factors[m], float) for x in (a, b)]
        norms = [np.sqrt((x**2).sum(axis=0)) for x in columns]
        sizes = [s * n for s, n in zip(sizes, norms)]
        if m in modes:
            alike *= np.abs((columns[0] / norms[0]).T @ (columns[1] / norms[1]))
    for i in range(a.rank):
        for j in range(b.rank):
            p, q = sizes[0][i], sizes[1][j]
            alike[i, j] *= 1 - abs(p - q) / max(p, q) if weights else 1
    return max(
        np.mean([alike[i, p[i]] for i in range(a.rank)])
        for p in permutations(range(b.rank), a.rank)
    )


@pytest.mark.parametrize("skip", [None, 0, [0], (0, 2), {-1}])
@pytest.mark.parametrize("weights", [False, True])
def test_pairs_are_the_best_ones_of_the_modes_that_count(skip, weights):
    rng = np.random.default_rng(1)
    a, b = model(rng, (7, 6, 5)), model(rng, (7, 6, 5), 4)
    left = {0} if skip == 0 else {m % 3 for m in skip or ()}
    modes = [m for m in range(3) if m not in left]
    pairs = ts.compare(a, b, skip=skip, weights=weights)
    assert np.mean(pairs["score"]) == pytest.approx(twin(a, b, modes, weights), rel=1e-12)
    assert [name for name in pairs.columns if name.startswith("cosine")] == [
        f"cosine_{m}" for m in modes
    ]
    if weights:
        assert a.score(b, skip=skip) == pytest.approx(np.mean(pairs["score"]))
    product = np.prod([np.abs(pairs[f"cosine_{m}"]) for m in modes], axis=0)
    np.testing.assert_allclose(product, pairs["congruence"], rtol=1e-12)


def test_a_skipped_mode_may_have_another_size_and_other_rows():
    rng = np.random.default_rng(2)
    a = model(rng, (7, 6, 5))
    order = [2, 0, 1]
    b = ts.Model.from_factors(
        None, [rng.random((9, 3)), a.factors[1][:, order], -a.factors[2][:, order]]
    )
    pairs = ts.compare(a, b, skip=0, weights=False)
    np.testing.assert_allclose(pairs["congruence"], 1)
    assert list(pairs["b"]) == [1, 2, 0]
    with pytest.raises(ts.ArgumentError, match="shapes differ in mode 0"):
        ts.compare(a, b)
    with pytest.raises(ts.ArgumentError, match="all modes are skipped"):
        ts.compare(a, b, skip=[0, 1, 2])


@pytest.mark.parametrize("scale", [1e300, 1e200, 1e-200, 1e-308])
@pytest.mark.parametrize("modes", [[0], [0, 1], [2]])
@pytest.mark.parametrize("weights", [False, True])
def test_models_of_any_size_are_compared(scale, modes, weights):
    rng = np.random.default_rng(4)
    a, b = model(rng, (7, 6, 5)), model(rng, (7, 6, 5))
    want = ts.compare(a, b, weights=weights)
    large = [ts.Model.from_factors(x.weights, [
        np.array(x.factors[m]) * (scale if m in modes else 1) for m in range(3)]) for x in (a, b)]
    pairs = ts.compare(*large, weights=weights)
    for name in ("a", "b", "score", "congruence"):
        np.testing.assert_allclose(pairs[name], want[name], rtol=1e-9)
    if weights:
        assert large[0].score(large[1]) == pytest.approx(a.score(b), rel=1e-9)
        assert large[0].score(a) == pytest.approx(0, abs=1e-9)


def test_columns_of_zeros_pair_with_each_other():
    a = ts.Model.from_factors(None, [np.eye(3)[:, :2] * [1, 0]] * 2)
    assert a.score(a) == 1
    assert list(ts.compare(a, a)["congruence"]) == [1, 1]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("mode", [0, 1])
def test_halves_agree_on_what_is_there_alone(sparse, mode):
    x = planted(3, 1)
    if sparse:
        x = ts.from_coo(np.argwhere(np.isfinite(x)), x.ravel(), x.shape, modes=["a", "b", "c"])
    right = ts.split_half(x, 3, mode="ab"[mode] if sparse else mode, repeats=3, **CPU)
    wrong = ts.split_half(x, 4, mode=mode, repeats=3, **CPU)
    assert right.congruences.shape == (3, 3) and right.least > 0.9
    assert (right.scores > 0.9).all() and "rank 3" in repr(right)
    assert wrong.least < 0.5 < wrong.score


def test_halves_share_no_slice_and_leave_none_out(monkeypatch):
    seen = []

    def fake(t, ranks, restarts, settings):
        seen.append(sorted(set(ts._replicability.dense_cells(t)[:, 0, 0])))
        return ts.cp(t, list(ranks), restarts=1, progress=False, cpu=True)

    monkeypatch.setattr(ts._replicability, "_models", fake)
    x = np.random.default_rng(1).random((9, 4, 4)) + np.arange(9)[:, None, None]
    x[:, 0, 0] = np.arange(9)
    ts.split_half(x, 1, repeats=2)
    for a, b in (seen[:2], seen[2:]):
        assert sorted(a + b) == list(range(9)) and abs(len(a) - len(b)) == 1
    assert seen[0] != seen[2]


def test_the_same_seed_gives_the_same_divisions():
    x = planted(2, 1)
    a, b, c = (ts.split_half(x, 2, repeats=2, seed=s, **CPU).scores for s in (1, 1, 2))
    assert np.array_equal(a, b) and not np.array_equal(a, c)


@pytest.mark.parametrize("rank,seed", [(3, 0), (5, 1), (8, 2), (0, 3)])
def test_a_planted_rank_is_found_and_noise_has_none(rank, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ts.choose_rank(
            planted(rank, seed), range(2, 11), repeats=3, hold_out=0.1 if rank == 3 else 0, **CPU
        )
    assert found.rank == (rank or None)
    assert list(found.table["rank"]) == list(range(2, 11))
    assert found.table["fit"][-1] > found.table["fit"][0]
    assert "0.8" in found.rule
    if rank == 0:
        assert "no clear rank" in repr(found) and "at no rank" in found.reason
    if rank == 3:
        assert np.argmin(found.table["held_out"]) in (1, 2)
        assert "rank 3" in repr(found) and "<table" in found._repr_html_()


def test_missing_cells_of_an_array_stay_missing():
    x = planted(3, 5, noise=0.2)
    x[np.random.default_rng(1).random(x.shape) < 0.3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ts.choose_rank(x, [2, 3, 4], repeats=2, hold_out=0, **CPU).rank == 3


def test_the_last_rank_is_said_to_be_the_last():
    found = ts.choose_rank(planted(3, 1), [1, 2, 3], repeats=2, hold_out=0, **CPU)
    assert found.rank == 3 and "largest rank that was tried" in found.reason


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ts.choose_rank(x, []),
        lambda x: ts.choose_rank(x, [0, 1]),
        lambda x: ts.choose_rank(x, [1], threshold=0),
        lambda x: ts.choose_rank(x, [1], out="x"),
        lambda x: ts.split_half(x, 2, repeats=0),
        lambda x: ts.split_half(x, 2, mode=5),
        lambda x: ts.split_half(x[:3], 2),
        lambda x: ts.split_half(x, 2, restarts=0),
    ],
)
def test_misuse_is_an_argument_error(call):
    with pytest.raises(ts.ArgumentError):
        call(planted(2, 1))


# ---- core consistency of arrays ----


def core_twin(m, x, scaling, normalised):
    """By least squares over the known cells, one unknown for each entry of the core."""
    weights = np.array(m.weights)
    factors = [np.array(f, dtype=float) for f in m.factors]
    if scaling == "equal":
        norms = np.array([np.linalg.norm(f, axis=0) for f in factors])
        each = (np.prod(norms, axis=0) * np.abs(weights)) ** (1 / m.order)
        factors = [f / n * each for f, n in zip(factors, norms)]
        factors[0] = factors[0] * np.sign(weights)
    else:
        factors[0] = factors[0] * weights
    k = factors[0]
    for f in factors[1:]:
        k = np.kron(k, f)
    known = ~np.isnan(x.ravel())
    core = np.linalg.lstsq(k[known], x.ravel()[known], rcond=None)[0]
    ideal = np.zeros((m.rank,) * m.order)
    ideal[tuple(np.arange(m.rank) for _ in range(m.order))] = 1
    left = np.sum((core - ideal.ravel()) ** 2)
    return 100 * (1 - left / (np.sum(core**2) if normalised else m.rank))


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("missing", [0, 0.3])
@pytest.mark.parametrize("scaling", ["equal", "given"])
@pytest.mark.parametrize("normalised", [False, True])
def test_the_core_of_an_array_is_that_of_least_squares(order, missing, scaling, normalised):
    rng = np.random.default_rng(order)
    shape = (9, 8, 7, 6)[:order]
    factors = [rng.standard_normal((n, 2)) for n in shape]
    m = ts.Model.from_factors([2, -1.5], factors)
    letters = "abcd"[:order]
    terms = ",".join(c + "r" for c in letters)
    x = np.einsum(f"r,{terms}->{letters}", m.weights, *factors)
    x += 0.1 * rng.standard_normal(shape)
    x[rng.random(shape) < missing] = np.nan
    want = core_twin(m, x, scaling, normalised)
    how = dict(scaling=scaling, normalised=normalised)
    for array in (x, np.asfortranarray(x)):
        got = m.core_consistency(array, **how)
        assert got == pytest.approx(want, rel=1e-8, abs=1e-6)
    if missing == 0:
        t = ts.from_coo(np.argwhere(np.isfinite(x)), x.ravel(), shape, dtype="float64")
        assert m.core_consistency(t, **how) == pytest.approx(got, rel=1e-9)


def test_the_core_of_an_array_is_that_of_tensorly():
    tl = pytest.importorskip("tensorly")
    rng = np.random.default_rng(2)
    m = model(rng, (9, 8, 7))
    x = rng.standard_normal((9, 8, 7))
    factors = [np.array(f, dtype=float) for f in m.factors]
    factors[0] = factors[0] * m.weights
    core = tl.tenalg.multi_mode_dot(x, [np.linalg.pinv(f) for f in factors])
    want = 100 * (1 - np.sum((core - tl.cp_to_tensor((None, [np.eye(3)] * 3))) ** 2) / 3)
    assert m.core_consistency(x, scaling="given") == pytest.approx(want, rel=1e-10)


def test_a_core_that_fits_is_100_and_one_too_many_is_not():
    x = planted(3, 1, noise=0.01)
    settings = dict(cpu=True, progress=False, precision="float64", sweeps=200)
    models = ts.cp(x, [3, 5], restarts=3, **settings)
    assert models.best[3].core_consistency(x) > 99
    assert models.best[5].core_consistency(x) < 80
    x[np.random.default_rng(1).random(x.shape) < 0.4] = np.nan
    assert models.best[3].core_consistency(x) > 99
    with pytest.raises(ts.ArgumentError, match="shapes differ"):
        models.best[3].core_consistency(x[:5])


def test_a_component_of_zeros_and_equal_components_have_a_core():
    rng = np.random.default_rng(3)
    factors = [rng.standard_normal((n, 3)) for n in (6, 5, 4)]
    for f in factors:
        f[:, 2] = f[:, 1]
    x = rng.standard_normal((6, 5, 4))
    assert np.isfinite(ts.Model.from_factors(None, factors).core_consistency(x))
    factors[0][:, 2] = 0
    t = ts.from_coo(np.argwhere(np.isfinite(x)), x.ravel(), x.shape, dtype="float64")
    zeros = ts.Model.from_factors(None, factors)
    assert zeros.core_consistency(x) == pytest.approx(zeros.core_consistency(t), rel=1e-9)
