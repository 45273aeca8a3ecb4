# SPDX-License-Identifier: BSD-3-Clause
"""Labels that live with a model: without its tensor, in files, copied and pickled."""

import copy
import gc
import pickle
import shutil

import numpy as np
import pytest

import tstream as ts

CPU = dict(cpu=True, progress=False)
RUN = dict(sweeps=3, tol=0, seed=4, **CPU)
WHO = ["ann", "ben", "c\u00e9line", "d\"e", "e,f", " g "]


def frame(seed=3):
    rng = np.random.default_rng(seed)
    return {"who": np.array(WHO)[rng.integers(0, 6, 90)], "day": rng.integers(0, 9, 90),
            "what": np.array(["x", "y", "z"])[rng.integers(0, 3, 90)]}


def build(out=None):
    return ts.from_frame(frame(), ["who", "day", "what"], out=out)


@pytest.fixture
def model():
    t = build()
    m = ts.cp(t, 2, **RUN)
    t.close()
    del t
    gc.collect()
    return m


def is_labelled(m):
    assert m.names == ("who", "day", "what")
    assert m.labels("who") == sorted(WHO) == m.labels(0) and m.labels(2) == ["x", "y", "z"]
    assert m.labels("day") == [None] * 9 and m.labels("who", [3, 0]) == [sorted(WHO)[3], " g "]
    top = m.top(0, "who", 6)
    assert [sorted(WHO).index(x) for x in top.label] == top.index.tolist()
    assert "label" not in m.top(0, "day")


def test_labels_outlive_the_tensor(model):
    is_labelled(model)
    assert (model.factor("what") == model.factors[2]).all()


@pytest.mark.parametrize("again", [
    copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)),
    lambda m: pickle.loads(pickle.dumps([m]))[0]])
def test_a_copy_has_labels(model, again):
    back = again(model)
    assert back == model and back.origin == model.origin
    del model
    gc.collect()
    is_labelled(back)


@pytest.mark.parametrize("formats", ["ktensor", "npy", "splatt"])
@pytest.mark.parametrize("rows", ["all", "used"])
def test_labels_are_saved(model, formats, rows, tmp_path):
    model.save(tmp_path / "m.cp", formats, rows=rows)
    back = ts.load(tmp_path / "m.cp")
    is_labelled(back)
    assert back.origin == model.origin
    if formats == "npy":
        assert back == model
    back.save(tmp_path / "again.cp", formats)
    is_labelled(ts.load(tmp_path / "again.cp"))


def test_a_run_writes_labels(tmp_path):
    t = build(tmp_path / "x.tsh")
    m = ts.cp(t, 2, out=tmp_path / "m.cp", **RUN)
    shutil.rmtree(tmp_path / "x.tsh")
    back = ts.load(tmp_path / "m.cp")
    is_labelled(back)
    assert back == m and back.history == m.history
    assert back.origin["segments"] == 1 and back.origin["nnz"] == t.nnz
    c = ts.cp(build(), [1, 2], restarts=2, out=tmp_path / "c.cp", **RUN)
    for models in (c, ts.load(tmp_path / "c.cp"), pickle.loads(pickle.dumps(c))):
        for each in models:
            is_labelled(each)
    assert ts.load(tmp_path / "c.cp") == c


def test_labels_are_left_out(model, tmp_path):
    model.save(tmp_path / "m.cp", "npy", labels=False)
    back = ts.load(tmp_path / "m.cp")
    assert back.names == model.names and back.labels("who") == [None] * 6 and back != model
    m = ts.cp(build(), 2, out=tmp_path / "n.cp", no_labels=True, **RUN)
    assert m.labels("what") == ["x", "y", "z"]
    assert ts.load(tmp_path / "n.cp").labels("what") == [None] * 3


def test_labels_of_a_given_tensor(tmp_path):
    """A model of another program has none, and takes those of the tensor."""
    t = build(tmp_path / "x.tsh")
    m = ts.cp(t, 2, **RUN)
    with open(tmp_path / "m.ktensor", "w") as f:
        f.write(f"ktensor\n3\n6 9 3\n2\n{' '.join(repr(float(x)) for x in m.weights)}\n")
        for k, factor in enumerate(m.factors):
            f.write(f"matrix\n2\n{len(factor)} 2\n")
            np.savetxt(f, factor)
    assert ts.load(tmp_path / "m.ktensor").names == (None, None, None)
    back = ts.load(tmp_path / "m.ktensor", t)
    is_labelled(back)
    t.close()
    assert back.names == ("who", "day", "what") and back.labels("who") == [None] * 6


def test_names_are_given_to_arrays():
    rng = np.random.default_rng(1)
    factors = [rng.random((n, 2)) for n in (3, 4)]
    plain = ts.Model.from_factors(None, factors)
    m = ts.Model.from_factors(None, factors, modes=["who", None], labels=[["a", None, 7], None])
    assert m.names == ("who", None) and m.labels(0) == ["a", None, "7"]
    assert m.labels(1) == [None] * 4
    assert m != plain and plain.names == (None, None) and plain.origin is None
    for first, same in (("a", True), ("b", False)):
        other = ts.Model.from_factors(None, factors, modes=("who", None),
                                      labels=([first, None, 7], None))
        assert (m == other) is same
    assert pickle.loads(pickle.dumps(m)) == m == copy.deepcopy(m)
    for wrong in (dict(modes=["a"]), dict(modes="ab"), dict(labels=[["a"], None]),
                  dict(labels=[None]), dict(labels="ab"), dict(labels=[["a\nb", "c", "d"], None])):
        with pytest.raises(ts.ArgumentError):
            ts.Model.from_factors(None, factors, **wrong)


def of_pandas(kind):
    pandas = pytest.importorskip("pandas")
    times = ["2024-01-01", None, "2024-01-02 01:00"]
    return {"NA": lambda: [7, pandas.NA, "b"],
            "categories": lambda: pandas.Categorical(["7", None, "b"]),
            "times": lambda: pandas.to_datetime(times, format="mixed"),
            "Int64": lambda: pandas.array([7, None, 8], dtype="Int64")}[kind]()


def of_arrow(texts):
    return pytest.importorskip("pyarrow").array(texts)


@pytest.mark.parametrize("given, want", [
    (lambda: ["7", None, "b"], ["7", None, "b"]),
    (lambda: ["7", float("nan"), "b"], ["7", None, "b"]),
    (lambda: np.array([7.0, np.nan, 8.5]), ["7", None, "8.5"]),
    (lambda: [7.0, 8, 9], ["7", "8", "9"]),
    (lambda: np.array(["2024-01-01", "NaT", "2024-01-02"], "M8[D]"),
     ["2024-01-01", None, "2024-01-02"]),
    (lambda: np.ma.array(["a", "b", "c"], mask=[0, 1, 0]), ["a", None, "c"]),
    (lambda: np.ma.array([7, 8, 9], mask=[0, 1, 0]), ["7", None, "9"]),
    (lambda: (x for x in ("a", None, "c")), ["a", None, "c"]),
    (lambda: "abc", ["a", "b", "c"]),
    (lambda: of_pandas("NA"), ["7", None, "b"]),
    (lambda: of_pandas("categories"), ["7", None, "b"]),
    (lambda: of_pandas("times"), ["2024-01-01", None, "2024-01-02T01:00:00"]),
    (lambda: of_pandas("Int64"), ["7", None, "8"]),
    (lambda: of_arrow(["a", None, "c"]), ["a", None, "c"]),
    (lambda: of_arrow(["a", None, "c"]).dictionary_encode(), ["a", None, "c"])])
def test_labels_that_are_given_are_called_as_those_of_tables(given, want):
    m = ts.Model.from_factors(None, [np.ones((3, 1)), np.ones((2, 1))], labels=[given(), None])
    assert m.labels(0) == want


@pytest.mark.parametrize("index, kind", [
    ([9], ValueError), ([-1], ValueError), ([0.5], TypeError), ([[0]], ValueError),
    ("x", TypeError)])
def test_indices_that_are_none(model, index, kind):
    with pytest.raises(kind):
        model.labels("who", index)
    with pytest.raises(ts.ArgumentError, match="only who, day, what"):
        model.labels("whom")


def test_a_factor_is_a_frame(model):
    pandas = pytest.importorskip("pandas")
    x = model.to_frame("who")
    assert list(x.index) == sorted(WHO) and x.index.name == "who" and list(x.columns) == [0, 1]
    assert (x.to_numpy() == model.factor("who")).all() and x.columns.name == "component"
    day = model.to_frame(1)
    assert list(day.index) == list(range(9)) and day.index.name == "day"
    assert model.top(0, "who", 1).label[0] == x[0].abs().idxmax()
    assert isinstance(model.top(0, "who").to_frame(), pandas.DataFrame)


def test_a_model_is_a_dataset(model):
    pytest.importorskip("xarray")
    x = model.to_xarray()
    assert dict(x.sizes) == {"component": 2, "who": 6, "day": 9, "what": 3}
    assert list(x["who"].values) == sorted(WHO) and "day" not in x.coords
    cells = (x["weights"] * x["factor_who"] * x["factor_day"] * x["factor_what"]).sum("component")
    want = model.predict([[3, 4, 1]])[0]
    assert float(cells.isel(who=3, day=4, what=1)) == pytest.approx(want, rel=1e-5)
    plain = ts.Model.from_factors(None, [np.ones((2, 1))] * 2).to_xarray()
    assert plain["factor_mode1"].dims == ("mode1", "component")


def test_what_people_see(model):
    page = model._repr_html_()
    assert "<th>who</th>" in page and "c\u00e9line" in page and "d&quot;e" in page
