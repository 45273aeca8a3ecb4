# SPDX-License-Identifier: BSD-3-Clause
"""The estimator of scikit-learn, in its own checks and in copies of them for three dimensions."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.linear_model import LinearRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402
from sklearn.utils.estimator_checks import estimator_checks_generator  # noqa: E402

import tstream as ts  # noqa: E402
from tstream.sklearn import CP  # noqa: E402

EXPECTED_FAILURES = {}  # name of a check: its cause


@pytest.mark.parametrize(
    "estimator", [CP(2), CP(3, nonneg=True, n_init=2)], ids=["plain", "nonneg"]
)
def test_the_checks_of_scikit_learn_pass(estimator):
    ran = 0
    assert len(EXPECTED_FAILURES) <= 5
    for tested, check in estimator_checks_generator(
        estimator, expected_failed_checks=EXPECTED_FAILURES
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                check(tested)
            except pytest.skip.Exception:
                raise
            except BaseException as e:
                if type(e).__name__ != "SkipTest":
                    raise
        ran += 1
    assert ran >= 40


def drawn(seed=1, shape=(24, 7, 5), rank=2, noise=0.05):
    rng = np.random.default_rng(seed)
    x = np.einsum("ir,jr,kr->ijk", *[rng.random((n, rank)) + 0.1 for n in shape])
    return x + noise * rng.standard_normal(shape)


@pytest.fixture
def x():
    return drawn()


def fitted(x, **settings):
    return CP(2, random_state=0, **settings).fit(x)


# ---- copies of the checks, for samples that are matrices ----


def test_fit_returns_the_estimator_and_gives_the_same_twice(x):
    one = CP(2, random_state=0)
    assert one.fit(x) is one
    rows = one.transform(x)
    assert np.array_equal(one.fit(x).transform(x), rows)
    assert np.array_equal(clone(one).fit_transform(x), rows)
    assert np.array_equal(CP(2, random_state=0).fit(x, np.arange(24)).transform(x), rows)


def test_samples_are_transformed_alone(x):
    one = fitted(x)
    rows = one.transform(x)
    np.testing.assert_allclose(
        np.vstack([one.transform(x[i : i + 1]) for i in range(24)]), rows, rtol=1e-10
    )
    order = np.random.default_rng(1).permutation(24)
    np.testing.assert_allclose(one.transform(x[order]), rows[order], rtol=1e-10)


def test_nothing_but_fit_changes_the_estimator(x):
    one = CP(2, nonneg=True, random_state=np.random.RandomState(1))
    names = set(vars(one))
    assert names == set(one.get_params())
    one.fit(x)
    before = {k: pickle.dumps(v) for k, v in vars(one).items()}
    (
        one.transform(x),
        one.score(x),
        one.inverse_transform(np.ones((3, 2))),
        one.components_,
        one.model_,
    )
    assert {k: pickle.dumps(v) for k, v in vars(one).items()} == before
    assert all(k.endswith("_") for k in set(before) - names)


def test_it_survives_a_pickle(x):
    one = fitted(x)
    assert np.array_equal(pickle.loads(pickle.dumps(one)).transform(x), one.transform(x))


@pytest.mark.parametrize(
    "change", [lambda x: x.tolist(), np.asfortranarray, lambda x: x[::1], lambda x: x[::-1][::-1]]
)
def test_kinds_of_arrays_give_the_same(x, change):
    np.testing.assert_allclose(
        fitted(change(x)).transform(change(x)), fitted(x).transform(x), rtol=1e-8
    )


def test_read_only_maps_and_other_types(tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_allclose(fitted(mapped).transform(mapped), fitted(x).transform(x), rtol=1e-12)
    whole = np.round(10 * x).astype(np.int32)
    np.testing.assert_allclose(
        fitted(whole).transform(whole), fitted(whole.astype(float)).transform(whole), rtol=1e-8
    )
    assert fitted(x.astype(np.float32)).transform(x.astype(np.float32)).dtype == np.float64


@pytest.mark.parametrize(
    "wrong,error",
    [
        (np.full((5, 3, 3), 1j), ValueError),
        (np.full((5, 3, 3), np.inf), ValueError),
        (np.zeros((0, 3, 3)), ValueError),
        (np.full((5, 3, 3), "a"), ValueError),
        (np.zeros(5), ValueError),
        (np.zeros((1, 3, 3)), ValueError),
        (None, ValueError),
    ],
)
def test_what_is_no_data_is_refused(wrong, error):
    with pytest.raises(error):
        CP(2).fit(wrong)


@pytest.mark.parametrize(
    "settings",
    [dict(n_components=0), dict(n_init=0), dict(max_iter=0), dict(loss="no"), dict(precision="f2")],
)
def test_wrong_settings_are_refused_by_fit_alone(x, settings):
    one = CP(**settings)
    with pytest.raises(ValueError):
        one.fit(x)


@pytest.mark.parametrize("call", ["transform", "score", "inverse_transform"])
def test_what_is_not_fitted_says_so(x, call):
    with pytest.raises(NotFittedError):
        getattr(CP(2), call)(x)
    for name in ("components_", "model_"):
        with pytest.raises(NotFittedError):
            getattr(CP(2), name)


def test_samples_of_another_shape_are_refused(x):
    one = fitted(x)
    for wrong in (x[:, :6], x[:, :, :4], x[:, :, :, None], x[:, :, 0]):
        with pytest.raises(ValueError):
            one.transform(wrong)
    with pytest.raises(ValueError, match=r"\(n, 2\)"):
        one.inverse_transform(np.ones((3, 3)))


# ---- what it computes ----


def test_rows_are_least_squares_and_the_model_is_their_sum(x):
    one = fitted(x)
    k = one.components_.reshape(2, -1).T
    rows = one.transform(x)
    np.testing.assert_allclose(
        rows, np.linalg.lstsq(k, x.reshape(24, -1).T, rcond=None)[0].T, rtol=1e-9
    )
    model = one.inverse_transform(rows)
    np.testing.assert_allclose(model, (rows @ k.T).reshape(x.shape), rtol=1e-12)
    assert one.score(x) == pytest.approx(1 - np.sum((x - model) ** 2) / np.sum(x**2), rel=1e-12)
    assert one.reconstruction_err_ == pytest.approx(np.linalg.norm(x - model))
    assert one.score(x) > 0.97
    np.testing.assert_allclose(one.sizes_, np.linalg.norm(rows, axis=0))
    for f in one.factors_:
        np.testing.assert_allclose(np.linalg.norm(f, axis=0), 1)


@pytest.mark.parametrize("shape", [(30, 12), (24, 7, 5)])
@pytest.mark.parametrize("nonneg", [False, True])
@pytest.mark.parametrize("holes", [False, True])
def test_rows_have_the_penalty_of_fit(shape, nonneg, holes):
    """Those of the samples are the rows of cp, and those of others ridge regressions of NumPy."""
    rng = np.random.default_rng(8)
    x = rng.random(shape) + 0.2 * rng.standard_normal(shape)
    if holes:
        x[rng.random(shape) < 0.1] = np.nan
    l2 = 0.5
    model = CP(2, l2=l2, nonneg=nonneg, max_iter=20_000, tol=1e-14, random_state=3).fit(x)
    seed = int(np.random.RandomState(3).randint(1, 2**31 - 2))
    run = ts.cp(x, 2, l2=l2, nonneg=nonneg, sweeps=20_000, tol=1e-14, seed=seed, threads=1,
                precision="float64", observed=holes, cpu=True, progress=False)
    own = np.asarray(run.factors[0]) * run.weights
    assert np.allclose(model.transform(x), own, rtol=1e-4, atol=1e-6 * np.abs(own).max())
    if nonneg:
        return
    lengths = run.weights ** (1 - 1 / len(shape))
    design = model.components_.reshape(2, -1).T
    new = rng.random((4, *shape[1:]))
    for row, sample in zip(model.transform(new), new):
        ridge = design.T @ design + l2 * np.diag(lengths**-2)
        assert np.allclose(row, np.linalg.solve(ridge, design.T @ sample.ravel()), rtol=1e-8)


def test_a_matrix_is_as_near_as_its_singular_vectors():
    x = np.random.default_rng(1).standard_normal((20, 12))
    one = CP(4, random_state=0, max_iter=2000, tol=1e-12).fit(x)
    s = np.linalg.svd(x, compute_uv=False)
    assert one.reconstruction_err_ == pytest.approx(np.sqrt((s[4:] ** 2).sum()), rel=1e-5)


def test_nonnegative_rows_and_unknown_cells(x):
    one = fitted(np.abs(x), nonneg=True)
    assert one.transform(x).min() >= 0 and min(f.min() for f in one.factors_) >= 0
    holes = x.copy()
    holes[np.random.default_rng(2).random(x.shape) < 0.2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two = fitted(holes, n_init=3)
    assert two.score(x) > 0.95 and np.isfinite(two.transform(holes)).all()


def test_counts(x):
    counts = np.random.default_rng(1).poisson(20 * np.abs(x))
    one = fitted(counts, loss="poisson")
    assert one.transform(counts).min() >= 0 and one.score(counts) > 0.9
    ones = (counts > 10).astype(float)
    ones[0, 0, 0] = np.nan
    assert np.isfinite(
        fitted(ones, loss="bernoulli-logit", max_iter=20, l2=0.1).transform(ones)
    ).all()


def test_zeros_have_no_components():
    one = fitted(np.zeros((4, 3, 2)))
    assert not one.transform(np.ones((2, 3, 2))).any() and one.score(np.zeros((4, 3, 2))) == 1


def test_starts_are_those_of_random_state(x):
    a, b = (CP(2, random_state=s, max_iter=1).fit_transform(x) for s in (1, 2))
    assert not np.allclose(a, b)
    rng = np.random.RandomState(1)
    assert np.array_equal(CP(2, random_state=rng, max_iter=1).fit_transform(x), a)
    assert CP(2, random_state=1, max_iter=3, tol=0).fit(x).n_iter_ == 3


def test_pipeline_grid_search_and_names(x):
    y = x.sum(axis=(1, 2))
    pipe = make_pipeline(FunctionTransformer(np.abs), CP(2, random_state=0), LinearRegression())
    assert cross_val_score(pipe, x, y, cv=3).min() > 0.9
    search = GridSearchCV(
        CP(random_state=0),
        {"n_components": [1, 2], "nonneg": [False, True]},
        cv=3,
        error_score="raise",
    )
    assert search.fit(x).best_params_["n_components"] == 2
    one = fitted(x)
    assert list(one.get_feature_names_out()) == ["cp0", "cp1"]
    pytest.importorskip("pandas")
    frame = one.set_output(transform="pandas").transform(x)
    assert list(frame.columns) == ["cp0", "cp1"]


def test_scikit_learn_is_imported_with_the_module_alone():
    code = (
        "import sys, tstream; assert 'sklearn' not in sys.modules; "
        "import tstream.sklearn; assert 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
