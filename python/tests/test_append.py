# SPDX-License-Identifier: BSD-3-Clause
"""Tensors that grow hold the cells of a tensor that is built at once of all data."""

import os
import pickle
import subprocess
import warnings

import numpy as np
import pytest

import tstream as ts

pd = pytest.importorskip("pandas")


def cells(t):
    """Value and, where labels are, names of each cell."""
    ret = {}
    names = [t.labels(m, np.arange(t.shape[m])) for m in range(t.order)]
    for coords, values in t.blocks():
        for at, x in zip(coords, values):
            ret[tuple(int(i) if names[m][i] is None else names[m][i]
                      for m, i in enumerate(at))] = x
    assert len(ret) == t.nnz
    return ret


def table(n, seed, users, days=40, first="2024-03-01"):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "n": rng.integers(1, 9, n),
        "user": rng.choice(users, n),
        "day": pd.Timestamp(first) + pd.to_timedelta(rng.integers(0, 86400 * days, n), unit="s"),
        "slot": rng.integers(0, 6, n)
    })


SOME, MORE = ["ann", "bob", "cleo", "7"], ["zoe", "ann", "Ärmel", "bob", "7"]
HOW = dict(modes=["user", "slot", "day"], value="n", bin={"day": "7d"})


def test_frames_with_new_names_and_later_times(tmp_path):
    a, b = table(300, 1, SOME), table(100, 2, MORE, 30, "2024-05-01")
    c = table(50, 3, MORE + ["last"], 10, "2024-03-09")
    c["slot"] += 4
    t = ts.from_frame(a, out=tmp_path / "x.tsh", **HOW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t.append(b[["day", "slot", "user", "n"]])  # columns are found by their names
        t.append(c)
    whole = ts.from_frame(pd.concat([a, b, c]), **HOW)
    assert cells(t) == cells(whole) and t.shape == whole.shape
    assert t.labels(2, [0, t.shape[2] - 1]) == whole.labels(2, [0, t.shape[2] - 1])
    t.undo()
    assert cells(t) == cells(ts.from_frame(pd.concat([a, b]), **HOW))
    t.append(c)
    t.compact(memory="64M", threads=1)
    assert cells(t) == cells(whole)
    assert cells(ts.open(tmp_path / "x.tsh")) == cells(whole)
    with pytest.raises(ValueError, match="nothing was appended"):
        t.undo()
    t.append(pd.DataFrame({"user": ["new"], "slot": [0], "day": [a["day"].max()], "n": [5]}))
    assert t.nnz == whole.nnz + 1


@pytest.mark.parametrize("kind", ["pandas", "categories", "polars", "pyarrow", "dict", "tables", "parquet",
                                  "csv"])
def test_kinds_of_tables(kind, tmp_path):
    a, b = table(200, 4, SOME), table(80, 5, MORE)
    how = dict(modes=["user", "slot"], value="n", text="user")
    t = ts.from_frame(a.drop(columns="day"), out=tmp_path / "x.tsh", **how)
    b = b.drop(columns="day")
    whole = cells(ts.from_frame(pd.concat([a, b]), **how))
    data = b
    if kind == "categories":
        data = b.assign(user=pd.Categorical(b["user"], sorted(set(MORE) | {"none"}), ordered=True))
    elif kind == "polars":
        data = pytest.importorskip("polars").from_pandas(b)
    elif kind == "pyarrow":
        data = pytest.importorskip("pyarrow").Table.from_pandas(b)
    elif kind == "dict":
        data = {name: b[name].to_numpy() for name in b}
    elif kind == "tables":
        data = [b[:30], b[30:31], b[31:]]
    elif kind == "parquet":
        pytest.importorskip("pyarrow")
        data = tmp_path / "b.parquet"
        b.to_parquet(data)
    elif kind == "csv":
        data = tmp_path / "b.csv"
        b.to_csv(data, index=False)
    t.append(data)
    assert cells(t) == whole


def test_a_tensor_of_a_csv_takes_frames_and_files(tmp_path):
    a, b, c = (table(n, n, names, 30) for n, names in ((90, SOME), (40, MORE), (30, SOME)))
    for x in (a, b, c):
        x["slot"] += 1  # in files, whole numbers count from 1
    for name, x in (("a", a), ("c", c)):
        x.to_csv(tmp_path / f"{name}.csv", index=False)
    how = dict(columns=["user", "slot", "day"], value="n", bin={"day": "1mo"}, text=["user"])
    t = ts.build(tmp_path / "a.csv", tmp_path / "x.tsh", **how)
    t.append(b)
    t.append(tmp_path / "c.csv")
    pd.concat([a, b, c]).to_csv(tmp_path / "all.csv", index=False)
    assert cells(t) == cells(ts.build(tmp_path / "all.csv", tmp_path / "y.tsh", **how))
    with pytest.raises(ValueError, match="repeat=True"):
        t.append(tmp_path / "c.csv")
    t.append(tmp_path / "c.csv", repeat=True)
    assert sum(cells(t).values()) == a["n"].sum() + b["n"].sum() + 2 * c["n"].sum()
    with pytest.raises(ValueError, match="row 39: index 0, and those of the tensor start at 1"):
        t.append(b.assign(slot=[1] * 39 + [0]))


def test_weights_and_kept_zeros(tmp_path):
    rng = np.random.default_rng(6)
    a, b = (pd.DataFrame({"u": rng.choice(list(names), 60), "i": rng.integers(0, 5, 60),
                          "n": rng.integers(-1, 2, 60), "w": rng.integers(1, 4, 60)})
            for names in ("abc", "cdx"))
    how = dict(modes=["u", "i"], value="n", weights="w", zeros="keep")
    t = ts.from_frame(a, out=tmp_path / "x.tsh", **how)
    t.append(b)
    whole = ts.from_frame(pd.concat([a, b]), **how)
    got, want = cells(t), cells(whole)
    assert got.keys() == want.keys()
    assert all(abs(got[x] - want[x]) < 1e-6 for x in want)
    assert np.isfinite(ts.cp(t, 2, observed=True, sweeps=3, seed=1).weights).all()
    with pytest.raises(ValueError, match="'w'"):
        t.append(b.drop(columns="w"))
    with pytest.raises(ValueError, match="weights"):
        t.append(([0], [0]), [1.0])


def test_coordinates_and_sparse_arrays(tmp_path):
    t = ts.from_coo(([0, 1], [2, 0]), [1.0, 2.0], shape=(4, 3), out=tmp_path / "x.tsh")
    t.append(([5, 1], [0, 0]), [3.0, 0.5])
    assert t.shape == (6, 3) and cells(t) == {(0, 2): 1, (1, 0): 2.5, (5, 0): 3}
    t.append(np.array([[0, 7]]), [4.0])
    assert t.shape == (6, 8)
    sparse = pytest.importorskip("scipy.sparse")
    t.append(sparse.coo_matrix(([9.0], ([2], [2])), shape=(3, 3)))
    t.append(iter([(([0], [0]), [1.0]), (([0], [1]), [1.0])]))
    assert cells(t) == {(0, 2): 1, (1, 0): 2.5, (5, 0): 3, (0, 7): 4, (2, 2): 9, (0, 0): 1,
                        (0, 1): 1}
    with pytest.raises(ValueError, match="modes"):
        t.append(([0], [0], [0]), [1.0])
    with pytest.raises(ValueError, match="these 2 nonzeros are those of segment 2"):
        t.append(([5, 1], [0, 0]), [3.0, 0.5])


def test_labels_of_arrays(tmp_path):
    xarray = pytest.importorskip("xarray")
    a = xarray.DataArray([[1.0, 0], [0, 2]], dims=["u", "i"],
                         coords={"u": ["ann", "bob"], "i": ["tea", "milk"]})
    t = ts.build(a, tmp_path / "x.tsh")
    t.append(xarray.DataArray([[5.0, 1]], dims=["u", "i"],
                              coords={"u": ["zoe"], "i": ["milk", "rice"]}))
    assert cells(t) == {("ann", "tea"): 1, ("bob", "milk"): 2, ("zoe", "milk"): 5, ("zoe", "rice"): 1}
    with pytest.raises(ValueError, match="labels"):
        t.append(([9], [0]), [1.0])


def test_a_missing_field(tmp_path):
    a = pd.DataFrame({"u": ["a", "b"], "i": ["x", "y"], "n": [1.0, 2]})
    t = ts.from_frame(a, ["u", "i"], "n", tmp_path / "x.tsh")
    b = pd.DataFrame({"u": ["c", None, "a"], "i": ["x", "y", "y"], "n": [1.0, 2, np.nan]})
    with pytest.raises(ValueError, match="column 'u', row 1"):
        t.append(b)
    assert t.nnz == 2
    with pytest.warns(ts.TstreamWarning, match="2 rows left out"):
        t.append(b, missing="skip")
    assert t.skipped == 2 and t.nnz == 3


@pytest.mark.parametrize("change, given, sentence", [
    ({}, dict(value="m"), "value was 'n'"),
    ({}, dict(bin={"day": "1d"}), "bin of 'day' was '7d'"),
    ({}, dict(modes=["slot", "user", "day"]), "column of mode 0 was 'user'"),
    ({"n": None}, {}, "there is no column 'n'"),
    ({"slot": "x"}, {}, "'x' is no whole number"),
    ({"day": pd.Timestamp("2020-01-01")}, {}, "begin with 2024-02-26.*2019-12-30"),
    ({"n": np.inf}, {}, "inf"),
    ({}, dict(weights="slot"), "weights"),
    ({}, dict(text="day"), "times|text"),
    ({}, dict(memroy="1G"), "memroy"),
])
def test_what_is_refused_changes_nothing(change, given, sentence, tmp_path):
    t = ts.from_frame(table(50, 7, SOME), out=tmp_path / "x.tsh", **HOW)
    before = cells(t), os.listdir(tmp_path)
    b = table(20, 8, MORE)
    for name, x in change.items():
        if x is None:
            del b[name]
        else:
            b[name] = x
    with pytest.raises((ValueError, TypeError), match=sentence):
        t.append(b, **given)
    assert (cells(ts.open(tmp_path / "x.tsh")), os.listdir(tmp_path)) == before


def test_other_builds_that_cannot_grow(tmp_path):
    coo = ([0, 1], [0, 1]), [1.0, 2.0]
    log = ts.from_coo(*coo, out=tmp_path / "log.tsh", transform="log1p")
    with pytest.raises(ValueError, match="log1p"):
        log.append(*coo)
    once = ts.from_coo(*coo, out=tmp_path / "once.tsh", duplicates="error")
    once.append(([0], [1]), [1.0])
    with pytest.raises(ValueError):
        once.append(([0, 1], [1, 0]), [1.0, 1.0])
    assert once.nnz == 3
    with pytest.raises(ValueError, match="dense"):
        ts.from_array(np.ones((2, 2))).append(*coo)
    unknown = ts.from_coo(*coo, out=tmp_path / "old.tsh")
    os.unlink(tmp_path / "old.tsh" / "options")
    with pytest.raises(ValueError, match="does not say how it was built"):
        unknown.append(*coo)
    with pytest.raises(FileNotFoundError):
        once.append(tmp_path / "none.csv")
    wide = ts.from_coo(*coo, out=tmp_path / "wide.tsh", dtype="float64")
    wide.append(([0], [0]), [1e-17 + 1])
    assert wide.dtype == np.float64 and wide.shape == (2, 2)
    plain = ts.from_frame({"a": ["x"], "b": ["y"]}, ["a", "b"], out=tmp_path / "count.tsh")
    plain.append({"a": ["x"], "b": ["y"]}, repeat=True)
    assert cells(plain) == {("x", "y"): 2}


def test_other_objects_go_on_with_what_they_opened(tmp_path):
    t = ts.from_coo(([0, 1], [0, 1]), [1.0, 2.0], out=tmp_path / "x.tsh")
    other = ts.open(tmp_path / "x.tsh")
    kept = pickle.dumps(t)
    assert pickle.loads(kept).nnz == 2
    t.append(([2], [2]), [3.0])
    assert cells(other) == {(0, 0): 1, (1, 1): 2}
    with pytest.raises(ts.Error, match="another tensor|replaced"):
        pickle.loads(kept)
    with pytest.raises(ts.Error, match="replaced"):
        pickle.dumps(other)
    again = pickle.loads(pickle.dumps(t))
    assert again.nnz == t.nnz == 3
    t.close()
    for use in (lambda: t.append(([0], [0]), [1.0]), t.undo, t.compact, lambda: t.labels(0, [0])):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_temporary_tensor_stays_until_it_is_gone():
    t = ts.from_frame({"a": ["x", "y"], "b": ["u", "v"]}, ["a", "b"], value=None)
    place = t.path
    t.append({"a": ["z"], "b": ["u"]})
    assert os.path.isdir(place) and t.shape == (3, 2)
    t.append({"a": ["q"], "b": ["u"]})
    del t
    assert not os.path.exists(place)


def test_a_model_goes_on(tmp_path):
    t = ts.from_frame(table(400, 9, SOME), out=tmp_path / "x.tsh", **HOW)
    model = ts.cp(t, 2, sweeps=3, seed=1)
    before = repr(model.table()) if hasattr(model, "table") else ""
    rows = model.factors[0].shape
    t.append(table(100, 10, MORE))
    longer = ts.cp(t, 2, sweeps=3, seed=1)
    assert longer.factors[0].shape[0] == t.shape[0] > rows[0] == model.factors[0].shape[0]
    assert before == "" or before == repr(model.table())


@pytest.mark.skipif("TSTREAM_PROGRAM" not in os.environ, reason="no program")
def test_the_program_appends_to_a_tensor_of_a_table(tmp_path):
    tshard = os.path.join(os.path.dirname(os.environ["TSTREAM_PROGRAM"]), "tshard")
    a, b = table(60, 11, SOME), table(30, 12, MORE, 20, "2024-04-01")
    t = ts.from_frame(a, out=tmp_path / "x.tsh", **HOW)
    b.to_csv(tmp_path / "b.csv", index=False)
    subprocess.run([tshard, "append", "-q", t.path, str(tmp_path / "b.csv")], check=True)
    assert cells(ts.open(t.path)) == cells(ts.from_frame(pd.concat([a, b]), **HOW))
    assert t.nnz != ts.open(t.path).nnz
    t.undo()  # what the other process appended
    assert cells(t) == cells(ts.from_frame(a, **HOW))
