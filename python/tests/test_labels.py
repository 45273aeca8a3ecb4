# SPDX-License-Identifier: BSD-3-Clause
"""Labels that live with a model: without its tensor, in files, copied and pickled."""

import copy
import datetime
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
    assert x["who"].dtype == object  # an array of fixed width takes rows times the longest name
    assert list(x["who"].values) == sorted(WHO) and "day" not in x.coords
    cells = (x["weights"] * x["factor_who"] * x["factor_day"] * x["factor_what"]).sum("component")
    want = model.predict([[3, 4, 1]])[0]
    assert float(cells.isel(who=3, day=4, what=1)) == pytest.approx(want, rel=1e-5)
    plain = ts.Model.from_factors(None, [np.ones((2, 1))] * 2).to_xarray()
    assert plain["factor_mode1"].dims == ("mode1", "component")


def test_what_people_see(model):
    page = model._repr_html_()
    assert "<th>who</th>" in page and "c\u00e9line" in page and "d&quot;e" in page


# ---- cells by label ----

def table(n=200, seed=5):
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, (6, 9, 3), size=(n, 3)), axis=0)
    return {"what": np.array(["1990", "1991", "1992"])[cells[:, 2]], "day": cells[:, 1],
            "x": rng.random(len(cells)), "who": np.array(sorted(WHO))[cells[:, 0]]}, cells


def named_model():
    """Labels in modes 0 and 2; those of mode 2 are digits."""
    rng = np.random.default_rng(3)
    factors = [rng.standard_normal((n, 2)) for n in (6, 9, 3)]
    return ts.Model.from_factors([2.0, 1.0], factors, modes=["who", "day", "what"],
                                 labels=[sorted(WHO), None, ["1990", "1991", "1992"]])


def at_cells(m, cells):
    return np.einsum("r,nr,nr,nr->n", m.weights,
                     *[np.asarray(f)[cells[:, k]] for k, f in enumerate(m.factors)])


def test_cells_are_predicted_by_label(tmp_path):
    m = named_model()
    m.save(tmp_path / "m.cp")
    given, cells = table()
    rows = list(zip(given["who"].tolist(), given["day"].tolist(), given["what"].tolist()))
    ways = [given, {**given, "what": given["what"].astype(int)}, rows, np.array(rows, dtype=object),
            (given["who"], given["day"], given["what"]), (given["who"], cells[:, 1], cells[:, 2]),
            cells, tuple(cells.T)]
    try:
        import pandas
        frame = pandas.DataFrame(given)
        ways += [frame, frame.astype({"who": "category"}), frame.set_index(["who", "what"]),
                 pandas.DataFrame(cells)]  # no column is called like a mode: indices in order
    except ImportError:
        pass
    try:
        import pyarrow
        ways.append(pyarrow.table(given))
        import polars
        ways.append(polars.DataFrame(given))
    except ImportError:
        pass
    for model in (m, ts.load(tmp_path / "m.cp")):
        for way in ways:
            np.testing.assert_allclose(model.predict(way), at_cells(m, cells), rtol=1e-13)
    assert m.predict(np.empty((0, 3), int)).shape == (0,)


@pytest.mark.parametrize("cells, sentence", [
    ([("zed", 0, "1990")], "mode 'who', row 0: the model has no row called 'zed'"),
    ([("  g ", 0, "1990")], "no row called '  g '"),
    ({"who": ["ann"], "day": [9], "what": ["1990"]}, "mode 'day', row 0: '9' is no index"),
    ({"who": ["ann"], "day": [0], "what": [1]}, "mode 'what', row 0: .* called '1'"),
    ({"who": ["ann"], "day": [0]}, "no column 'what'; the table has 'who', 'day'"),
    ({"who": ["ann"], "day": [0, 1], "what": [1990]}, "1, 2, 1 rows"),
    ({"who": [None], "day": [0], "what": [1990]}, "mode 'who', row 0: there is no value"),
    ([("ann", 0)], "rows of 3 fields"), ([("ann", 0.5, "1990")], "'0.5' is no index")])
def test_a_cell_that_the_model_lacks(cells, sentence):
    with pytest.raises(ValueError, match=sentence):
        named_model().predict(cells)


def test_a_label_of_two_rows_names_none():
    m = ts.Model.from_factors(None, [np.ones((2, 1)), np.ones((1, 1))], labels=[["a", "a"], None])
    with pytest.raises(ValueError, match="several rows of the model are called 'a'"):
        m.predict([("a", 0)])
    assert m.predict([[1, 0]]) == 1


def test_tables_are_found_by_the_names_of_a_model(tmp_path):
    """Columns in any order, and rows that are not those of the model in theirs."""
    m = named_model()
    m.save(tmp_path / "m.cp")
    given, cells = table(90)
    given["who"], keep = given["who"].copy(), cells[:, 0] > 1  # its labels begin elsewhere
    some = {name: x[keep][::-1] for name, x in given.items()}
    cells = cells[keep][::-1]
    x = np.zeros(m.shape)
    x[tuple(cells.T)] = some["x"]
    dense = np.einsum("r,ir,jr,kr->ijk", m.weights, *m.factors)
    left = some["x"] - at_cells(m, cells)
    for model in (m, ts.load(tmp_path / "m.cp")):
        for new in (some, iter([some])):
            fit = model.fit(new, value="x", cpu=True)
            assert fit == pytest.approx(1 - np.linalg.norm(x - dense) / np.linalg.norm(x), abs=1e-6)
        e = model.evaluate(some, value="x", by_slice="what")
        assert e.rmse == pytest.approx(np.sqrt(np.mean(left ** 2)), rel=1e-6)
        assert set(e.slices.label) <= {"1990", "1991", "1992"}
        late = {**some, "what": np.full(len(left), 2001)}
        late = {name: column[np.unique(cells[:, :2], axis=0, return_index=True)[1]]
                for name, column in late.items()}
        at = cells[np.unique(cells[:, :2], axis=0, return_index=True)[1]]
        y = np.zeros(m.shape[:2])
        y[at[:, 0], at[:, 1]] = late["x"]
        design = np.einsum("r,ir,jr->ijr", m.weights, *m.factors[:2]).reshape(-1, 2)
        made = model.fold_in(late, mode="what", value="x")
        np.testing.assert_allclose(made.factors[2][0], np.linalg.lstsq(design, y.ravel(),
                                                                       rcond=None)[0], atol=1e-6)
        assert made.labels("what") == ["2001"] and made.labels("who") == sorted(WHO)
        for call in (model.fit, model.evaluate, lambda t: model.fold_in(t, mode="what")):
            with pytest.raises(ValueError, match="value= names the column .*'x'"):
                call(some)
        with pytest.raises(ValueError, match="no row called 'zed'"):
            model.evaluate({**some, "who": np.full(len(left), "zed")}, value="x")
        with pytest.raises(ValueError, match="value= is for tables"):
            model.fit(np.zeros(m.shape), value="x")


def test_a_loaded_model_folds_in_by_label(tmp_path):
    """Labels come from its own file, not from a tensor; those of the new model are written too."""
    m = named_model()
    m.save(tmp_path / "m.cp")
    given, _ = table(60)
    given = {name: x[given["who"] > "b"] for name, x in given.items()}
    new = ts.from_frame({**given, "what": given["what"].astype(int) + 20},
                        ["who", "day", "what"], "x", text=["what"])
    made = [each.fold_in(new, mode="what") for each in (m, ts.load(tmp_path / "m.cp"))]
    assert made[0] == made[1]
    made[0].save(tmp_path / "new.cp")
    back = ts.load(tmp_path / "new.cp")
    assert back == made[0] and back.labels("what") == new.labels(2, new.used_indices(2))
    assert back.names == m.names and back.loss == "least-squares"
    names = ts.compare(back, back).columns
    assert names[-3:] == ["cosine_who", "cosine_day", "cosine_what"]


def test_dates_are_labels_and_equal_names_none(tmp_path):
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
    m = ts.Model.from_factors([1.0], [[[1.0], [2.0]], [[3.0], [4.0]]], modes=["who", "day"],
                              labels=[None, [str(x) for x in days]])
    assert m.predict([(1, days[1]), (0, days[0])]).tolist() == [8.0, 3.0]
    twice = ts.Model.from_factors([1.0], [[[1.0], [2.0]], [[3.0], [4.0]]], modes=["x", "x"])
    with pytest.raises(ValueError, match="called the same"):
        twice.predict({"x": [0, 1]})
    with pytest.raises(ValueError, match="a column for each mode"):
        m.predict(("7", 0))
    (tmp_path / "empty").mkdir()
    m.save(tmp_path / "empty")
    assert ts.load(tmp_path / "empty") == m


def test_tensors_are_found_by_label(tmp_path):
    """Labels in another order, and not all of them; by='index' as before."""
    m = named_model()
    m.save(tmp_path / "m.cp")
    given, cells = table(90)
    keep = cells[:, 0] > 1
    some = {name: x[keep] for name, x in given.items()}
    t = ts.from_frame([{name: x[::-1] for name, x in some.items()}], ["who", "day", "what"], "x",
                      text=["what"], out=tmp_path / "t.tsh")
    assert t.labels("who", [0]) != m.labels("who", [0])
    rows = [[m.labels(k).index(x) for x in t.labels(k, range(t.shape[k]))] for k in (0, 2)]
    dense = np.einsum("r,ir,jr,kr->ijk", m.weights, m.factors[0][rows[0]],
                      m.factors[1][:t.shape[1]], m.factors[2][rows[1]])
    x = np.zeros(m.shape)
    x[tuple(cells[keep].T)] = some["x"]
    x = x[np.ix_(rows[0], range(t.shape[1]), rows[1])]
    m = ts.Model.from_factors(m.weights, [m.factors[0], m.factors[1][:t.shape[1]], m.factors[2]],
                              modes=m.names, labels=[m.labels(0), None, m.labels(2)])
    m.save(tmp_path / "m.cp", replace=True)
    want = 1 - np.linalg.norm(x - dense) / np.linalg.norm(x)
    left = x[x != 0] - dense[x != 0]
    for model in (m, ts.load(tmp_path / "m.cp")):
        for new in (t, tmp_path / "t.tsh"):
            assert model.fit(new, cpu=True) == pytest.approx(want, abs=1e-6)
            e = model.evaluate(new, by_slice="who")
            assert e.rmse == pytest.approx(np.sqrt(np.mean(left ** 2)), rel=1e-5)
            assert list(e.slices.label) == t.labels("who", e.slices.index)
    other = ts.from_array(x, modes=m.names, labels=[t.labels(0, range(t.shape[0])), None,
                                                    t.labels(2, range(t.shape[2]))])
    assert m.fit(other, cpu=True) == pytest.approx(want, abs=1e-6)
    part = ts.Model.from_factors(m.weights, [m.factors[0][rows[0]], m.factors[1],
                                             m.factors[2][rows[1]]])
    assert m.core_consistency(other) == pytest.approx(part.core_consistency(x))
    assert m.core_consistency(t) == pytest.approx(part.core_consistency(t))
    assert part.fit(t, cpu=True, by="index") == part.fit(t, cpu=True)
    with pytest.raises(ValueError, match="of the model has .* of the tensor"):
        m.fit(t, cpu=True, by="index")
    with pytest.raises(ValueError, match="by='name': label or index"):
        m.fit(t, by="name")
    zed = ts.from_array(x, modes=m.names, labels=[["zed"] + t.labels(0, range(1, t.shape[0])), None, None])
    with pytest.raises(ValueError, match="mode 'who': the model has no row called 'zed'; by='index'"):
        m.fit(zed)


def test_methods_name_no_keywords_of_builds():
    m = named_model()
    given, _ = table(9)
    given["x"] = np.where(np.arange(9) == 3, np.nan, given["x"])
    for call in (m.fit, m.evaluate, m.core_consistency, lambda x, value: m.fold_in(x, "day", value=value)):
        with pytest.raises(ValueError, match="column 'x', row 3: there is no value; leave out such rows$"):
            call(given, value="x")


def test_a_model_is_not_saved_in_a_tensor(model, tmp_path):
    build(tmp_path / "t.tsh")
    kept = {x.name for x in (tmp_path / "t.tsh").iterdir()}
    for name in ("m.cp", "labels", "mode1.labels"):
        with pytest.raises(ValueError, match="lies in the tensor .*; name another place as path"):
            model.save(tmp_path / "t.tsh" / name, replace=True)
    assert {x.name for x in (tmp_path / "t.tsh").iterdir()} == kept


def test_times_that_are_no_bins_of_a_model(tmp_path):
    """A table has times, and a model of bins has their starts: by a tensor they are found."""
    days = np.datetime64("2024-01-01") + np.arange(40)
    some = {"day": days, "who": np.array(WHO)[np.arange(40) % 6], "n": np.arange(40.0) + 1}
    bins = dict(modes=["day", "who"], value="n", bin={"day": "7d"})
    m = ts.cp(some, 2, **bins, **RUN)
    for call in (lambda: m.predict({"day": days[1:2], "who": ["ann"]}), lambda: m.fit(some, value="n")):
        with pytest.raises(ValueError, match=r"no row called '2024-01-0\d', only such as '2024-01-01'.*bin=\.\.\.\) makes"):
            call()
    late = ts.from_frame({name: x[15:] for name, x in some.items()}, **bins)
    assert late.labels("day")[0] != m.labels("day")[0] and np.isfinite(m.fit(late, cpu=True))
    (tmp_path / "x.csv").write_text("day,who,n\n2024-01-04,ann,\n")
    with pytest.raises(ValueError, match="the value is empty; leave such lines out$"):
        m.fit(tmp_path / "x.csv")


def test_a_collection_names_its_models():
    c = ts.cp(build(), [1, 2], **RUN)
    with pytest.raises(KeyError, match=r"2: c\[rank, seed\] is a model of a collection c.*\(1, 4\), \(2, 4\)"):
        c[2]
