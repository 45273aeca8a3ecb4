# SPDX-License-Identifier: BSD-3-Clause
"""Sentences of the library count modes, components and rows from 0."""

import re

import numpy as np
import pytest

import tstream as ts

NAN = float("nan")


@pytest.fixture(scope="module")
def tensor():
    rng = np.random.default_rng(5)
    return ts.from_coo(rng.integers(0, 6, (60, 3)), rng.random(60) + 0.5, shape=(6, 6, 6))


def model(t, rank=4):
    return ts.Model.from_factors(np.ones(rank), [np.ones((n, rank)) for n in t.shape])


def cp(t, **options):
    return ts.cp(t, 2, sweeps=2, cpu=True, progress=False, **options)


def batch(index, value=1.0, **options):
    return ts.from_batches([(np.array([[0, 0, 0], index], dtype=np.uint64), np.array([1.0, value]))], **options)


# What is asked, and what the sentence says of its mode, component or row.
SENTENCES = {
    "l1": (lambda t: cp(t, l1={2: NAN}), "mode 2: a penalty must be"),
    "l2": (lambda t: cp(t, l2={1: NAN}), "mode 1: a penalty must be"),
    "l2 of the first": (lambda t: cp(t, l2={0: -1.0}), "mode 0: a penalty must be"),
    "smooth": (lambda t: cp(t, smooth={1: 1}, simplex=1), "mode 1: neighbouring rows"),
    "simplex": (lambda t: cp(t, simplex=2, l1={2: 1}), "mode 2: rows that sum to 1"),
    "bounds": (lambda t: cp(t, bounds={0: (2, 1)}), "bounds of mode 0"),
    "orthogonal": (lambda t: cp(t, orthogonal=[1], nonneg=[1]), "mode 1: its columns"),
    "observed": (lambda t: cp(t, observed=True, l1={1: 1}), "mode 1: of observed cells"),
    "accelerate": (lambda t: cp(t, accelerate=True, orthogonal=[1]), r"mode 1 \(orthogonal\)"),
    "fixed": (lambda t: cp(t, init=model(t, 2), fix=[2], l2={2: 1}), "mode 2: its factor is fixed"),
    "top": (lambda t: model(t).top(4, 0), "no component 4, only 0 to 3"),
    "top below 0": (lambda t: model(t).top(-1, 0), "no component -1, only 0 to 3"),
    "top cut by C": (lambda t: model(t).top(2**64, 0), f"no component {2**64}, only 0 to 3"),
    "top of fewer than none": (lambda t: model(t).top(0, 0, -1), "n=-1: it must not be negative"),
    "factor": (lambda t: ts.Model.from_factors([1.0], [[[1.0]], [[NAN]]]), "mode 1, row 0, column 0"),
    "predict": (lambda t: model(t).predict([[0, 6, 0]]), "mode 1: indices from 0 to 5"),
    "evaluate": (lambda t: ts.Model.from_factors([1.0], [np.ones((n, 1)) for n in (6, 6, 7)]).evaluate(t),
                 "mode 2 of the model has 7 indices, of the tensor 6"),
    "fit": (lambda t: ts.Model.from_factors([1.0], [np.ones((n, 1)) for n in (6, 7, 6)]).fit(t, cpu=True),
            "mode 1 of the model has 7 rows, of the tensor 6"),
    "init": (lambda t: cp(t, init=ts.Model.from_factors([1.0, 1.0], [np.ones((n, 2)) for n in (7, 6, 6)])), "mode 0"),
    "core": (lambda t: ts.Model.from_factors([1.0], [np.ones((n, 1)) for n in (6, 7, 6)]).core_consistency(t),
             "mode 1 of the model has 7 rows"),
    "batch": (lambda t: batch([0, 6, 0], shape=(6, 6, 6)), "nonzero 1: index 6 of mode 1 is beyond its size of 6"),
    "batch's largest": (lambda t: batch([0, 0, 1 << 40]), "nonzero 1: index 1099511627776 of mode 2"),
    "shape": (lambda t: batch([0, 0, 0], shape=(6, 0, 6)), "a size of 0 of mode 1"),
    "name": (lambda t: batch([0, 0, 0], modes=["a", "b", "c\nd"]), "name of mode 2"),
    "labels": (lambda t: batch([0, 0, 0], shape=(6, 6, 6), labels=[None, ["x"] * 7, None]), "indices of mode 1"),
    "duplicates": (lambda t: batch([0, 0, 0], duplicates="error"), r"at \(0, 0, 0\), counted from 0"),
    "sum": (lambda t: batch([0, 0, 0], 3e38, zeros="drop") and
            ts.from_coo([[1, 2, 3], [1, 2, 3]], [3e38, 3e38]), r"at \(1, 2, 3\), counted from 0"),
    "select": (lambda t: t.select("never.tsh", keep={1: [6]}), "index 6 of mode 1 is beyond its size of 6"),
    "nonneg": (lambda t: cp(t, nonneg=[3]), "mode"),
    "mode": (lambda t: t.mode(3), "no mode 3, only 0 to 2"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_sentences_count_from_0(tensor, name):
    ask, said = SENTENCES[name]
    with pytest.raises(ts.Error) as e:
        ask(tensor)
    assert re.search(said, str(e.value)), str(e.value)


LINES = {
    "an index that is negative": ("1 1 1 1\n1 -1 1 1\n", "in mode 1"),
    "an index of 0": ("0 1 1 1\n", "in mode 0"),
    "no whole number": ("1 1 1.5 1\n", "in mode 2"),
    "beyond the largest": ("1 1 9999999999999999 1\n", "in mode 2"),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_of_text(tmp_path, name):
    text, said = LINES[name]
    (tmp_path / "x.tns").write_text(text)
    with pytest.raises(ts.Error, match=said):
        ts.build(tmp_path / "x.tns", tmp_path / "x.tsh")


def test_phases_of_a_build(tmp_path):
    """What a build says of its progress counts modes in the same way."""
    seen = set()
    rng = np.random.default_rng(1)
    ts.from_coo(rng.integers(0, 300, (400_000, 3)), rng.random(400_000), progress=lambda p: seen.add(p["what"]))
    packing = {what for what in seen if what.startswith("packing")}
    assert packing <= {"packing mode 0", "packing mode 1", "packing mode 2"}, packing


@pytest.mark.parametrize("loss", ["poisson", "poisson-log", "bernoulli", "bernoulli-logit", "gamma",
                                  "huber:1"])
@pytest.mark.parametrize("settings", [{}, {"observed": True}, {"hold_out": 0.1}, {"nonneg": True},
                                      {"smooth": {0: 1.0}}, {"simplex": [0]}, {"mean": True}],
                         ids=lambda x: next(iter(x), "alone"))
@pytest.mark.parametrize("holes", [False, True])
def test_another_loss_of_a_dense_array(loss, settings, holes):
    """One cause whatever else is asked for, and a way that can be gone."""
    x = np.random.default_rng(5).integers(0, 2, (4, 5, 6)).astype(float)
    if holes:
        x[1, 2, 3] = np.nan
    with pytest.raises(ts.ArgumentError) as e:
        ts.cp(x, 2, loss=loss, cpu=True, progress=False, **settings)
    text = str(e.value)
    assert text.startswith(f"loss={loss!r}: a dense tensor is decomposed by least squares")
    assert ("NaN" in text) == holes
    assert ("poisson-log" in text) == (loss in ("poisson", "poisson-log")
                                       and (holes or loss == "poisson-log"))


@pytest.mark.parametrize("loss", ["poisson-log", "bernoulli", "bernoulli-logit", "gamma", "huber:1"])
def test_the_way_of_another_loss(tmp_path, loss):
    x = np.random.default_rng(5).integers(0, 2, (4, 5, 6)).astype(float)
    x = x + 1 if loss == "gamma" else x
    x[1, 2, 3] = np.nan
    with pytest.warns(ts.TstreamWarning, match="1 row|skipped|left out"):
        t = ts.build(x, tmp_path / "x.tsh", zeros="keep", missing="skip")
    assert t.nnz == x.size - 1
    m = ts.cp(t, 2, loss=loss, observed=True, sweeps=2, cpu=True, progress=False)
    assert m.loss == loss


def test_counts_have_no_unknown_cells():
    t = ts.from_coo([[0, 1], [1, 0], [2, 2]], [1, 2, 3])
    with pytest.raises(ts.ArgumentError, match="takes cells that are not listed for zeros.*poisson-log"):
        ts.cp(t, 2, loss="poisson", observed=True, cpu=True, progress=False)
