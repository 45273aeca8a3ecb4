# SPDX-License-Identifier: BSD-3-Clause
"""Objects of other packages and files as tensors, each beside the array that it stands for."""

import gzip
import itertools
import os
import pickle
import threading
import warnings

import numpy as np
import pytest

import tstream as ts

CPU = dict(cpu=True, threads=1, progress=False)
VALUES = ["float64", "float32", "int64", "int8", "uint16", "bool"]


def library(name):
    return pytest.importorskip(name, reason=f"{name} is not installed")


def cells_of(shape, dtype, seed=1):
    """An array of which most cells are 0, and its nonzeros."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(shape) < 0.3, rng.integers(1, 100, shape), 0)
    x[tuple(n - 1 for n in shape)] = 1  # the last index of each mode is used
    x = x.astype(dtype)
    return x, np.argwhere(x), x[np.nonzero(x)]


def listed(t):
    """What a tensor lists, as an array."""
    x = np.zeros(t.shape)
    for coords, values in t.blocks():
        np.add.at(x, tuple(coords.T.astype(int)), values)
    return x


def equal(m, other):
    return (m.weights == other.weights).all() and all(
        (a == b).all() for a, b in zip(m.factors, other.factors))


# ---- sparse arrays ----


def scipy_array(kind):

    def make(x):
        sparse = library("scipy.sparse")
        return getattr(sparse, kind)(x)

    return make


def pydata(kind):
    return lambda x: getattr(library("sparse"), kind).from_numpy(x)


def sptensor(x):
    pyttb = library("pyttb")
    if x.dtype == bool:
        pytest.skip("pyttb has no sptensor of bool")
    return pyttb.sptensor(np.argwhere(x), x[np.nonzero(x)][:, None], x.shape)


def xarray_of_sparse(x):
    library("sparse")
    return library("xarray").DataArray(pydata("COO")(x))


SPARSE = {
    **{
        f"scipy {kind}_{what}": (scipy_array(f"{kind}_{what}"), (2, ))
        for kind in ("coo", "csr", "csc", "lil", "dok", "dia", "bsr")
        for what in ("array", "matrix")
    },
    "scipy coo_array": (scipy_array("coo_array"), (2, 3)),
    "sparse COO": (pydata("COO"), (2, 3, 4)),
    "sparse GCXS": (pydata("GCXS"), (2, 3, 4)),
    "sparse DOK": (pydata("DOK"), (2, 3)),
    "pyttb sptensor": (sptensor, (2, 3, 4)),
    "xarray of sparse": (xarray_of_sparse, (3, )),
}
SHAPES = {2: (9, 7), 3: (9, 7, 5), 4: (6, 5, 4, 3)}

OF_ALL_TYPES = ("scipy csr_array", "scipy dok_matrix", "sparse COO", "sparse GCXS",
                "pyttb sptensor")


@pytest.mark.parametrize(
    "name, order, dtype",
    [(name, n, dtype) for name, (_, orders) in SPARSE.items() for n in orders
     for dtype in (VALUES if name in OF_ALL_TYPES and n == orders[-1] else VALUES[:1])])
def test_sparse_arrays_are_their_cells(name, order, dtype):
    x, coords, values = cells_of(SHAPES[order], dtype)
    try:
        array = SPARSE[name][0](x)
    except (ValueError, TypeError) as e:
        pytest.skip(f"{name} of {dtype}: {e}")
    wanted = ts.from_coo(coords, values.astype(float), x.shape)
    fit = ts.cp(wanted, 2, sweeps=3, **CPU)
    assert equal(ts.cp(array, 2, sweeps=3, **CPU), fit)
    for door in (ts.open, ts.build, ts.from_coo):
        t = door(array)
        assert t.shape == x.shape and (listed(t) == x).all(), door
    assert fit.fit(array, cpu=True) == fit.fit(wanted, cpu=True)


def test_sparse_arrays_of_large_sizes_and_cut_batches(monkeypatch):
    sparse = library("scipy.sparse")
    rng = np.random.default_rng(3)
    coords, values = rng.integers(0, 2**31 - 2, (1000, 2)), rng.random(1000)
    x = sparse.coo_array((values, tuple(coords.T)), shape=(2**31 - 1, 2**31 - 1))
    monkeypatch.setattr(ts._inputs, "STEP", 64)
    found = ts.open(x)
    wanted = ts.from_coo(coords, values, x.shape)
    assert found.shape == wanted.shape == x.shape and found.norm == wanted.norm
    assert [len(v) for _, v in found.blocks()] == [1000]


# ---- dense arrays ----

COUNT = itertools.count()


def h5py_dataset(x, **options):
    h5py = library("h5py")
    file = h5py.File(f"{next(COUNT)}", "w", driver="core", backing_store=False)
    return file.create_dataset("x", data=x, **options)


DENSE = {
    "ndarray": lambda x: x,
    "Fortran": np.asfortranarray,
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
    "lists": lambda x: x.tolist(),
    "tuples": lambda x: tuple(map(tuple,
                                  x.reshape(x.shape[0], -1).tolist())),
    "masked, of nothing": np.ma.array,
    "pyttb tensor": lambda x: library("pyttb").tensor(np.asfortranarray(x)),
    "xarray": lambda x: library("xarray").DataArray(x),
    "h5py": h5py_dataset,
    "h5py in chunks": lambda x: h5py_dataset(x, chunks=True, compression="gzip"),
}


@pytest.mark.parametrize("order, dtype", [(2, "float64"), (3, "float64"), (4, "float64"),
                                          (3, "float32"), (3, "int16"), (3, "uint8"), (3, "bool")])
@pytest.mark.parametrize("name", DENSE)
def test_dense_arrays_are_their_cells(name, order, dtype):
    x = (np.random.default_rng(2).random(SHAPES[order]) * 9).astype(dtype)
    if name == "tuples" and order > 2 or name == "pyttb tensor" and dtype == "bool":
        pytest.skip("there is none")
    given = DENSE[name](x)
    want = np.asarray(
        given, dtype=float if name in ("lists", "tuples") else None) if name in ("lists",
                                                                                 "tuples") else x
    wanted = ts.cp(ts.from_array(np.ascontiguousarray(want)), 2, sweeps=3, **CPU)
    for t in (given, ts.open(given), ts.from_array(given)):
        m = ts.cp(t, 2, sweeps=3, **CPU)
        assert m.shape == x.shape
        for a, b in zip(m.factors, wanted.factors):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    assert (listed(ts.build(given, dtype="float64")) == x).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool"])
def test_masked_cells_are_unknown(dtype):
    x = (np.random.default_rng(2).random((6, 5, 4)) * 9).astype(dtype)
    hidden = np.ma.array(x, mask=np.random.default_rng(3).random(x.shape) < 0.2)
    filled = np.where(hidden.mask, np.nan, x.astype("f4" if dtype == "float32" else float))
    m = ts.cp(hidden, 2, sweeps=3, observed=True, **CPU)
    assert equal(m, ts.cp(filled, 2, sweeps=3, observed=True, **CPU))
    with pytest.warns(ts.TstreamWarning, match="rows left out"):
        t = ts.build(hidden, missing="skip", zeros="keep", dtype="float64")
    assert t.nnz == (~hidden.mask).sum() and (listed(t) == hidden.filled(0)).all()


def test_a_dataset_in_a_file_is_mapped(tmp_path):
    h5py = library("h5py")
    x = np.random.default_rng(1).random((5, 4, 3))
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["group/x"] = x
        f["y"] = np.arange(3)
    with h5py.File(tmp_path / "x.h5", "r") as f:
        t = ts.open(f["group/x"])
        assert isinstance(t._cells, np.memmap) and (t._cells == x).all()
        with pytest.raises(TypeError, match=r"h5py\.\w*File is no tensor: name the dataset"):
            ts.open(f)
    assert ts.open(tmp_path / "x.h5").shape == x.shape


# ---- names ----


def test_names_of_xarray():
    xr = library("xarray")
    days = np.array(["2014-04-01", "2014-04-02", "2014-04-03"], dtype="M8[ns]")
    x = xr.DataArray(
        np.random.default_rng(1).random((2, 3, 4, 3)), dims=("who", "day", "i", "nm"), coords={
            "who": ["ann", "ben"],
            "day": days,
            "i": np.arange(4),
            "nm": [250.0, 250.5, 251.0],
            "other": ("day", [1, 2, 3])
        })
    for t in (ts.open(x), ts.from_array(x)):
        assert t.mode_names == ("who", "day", "i", "nm") and t.mode("day") == 1
        assert t.labels("who", [1, 0]) == ["ben", "ann"]
        assert t.labels("day", range(3)) == ["2014-04-01", "2014-04-02", "2014-04-03"]
        assert t.labels("i", [0, 3]) == [None, None] and t.labels("nm", [0, 1]) == ["250", "250.5"]
    m = ts.cp(x, 2, sweeps=2, **CPU)
    assert [row["label"] for row in m.top(0, "who", 2)] in (["ann", "ben"], ["ben", "ann"])
    t = ts.build(x)
    assert t.mode_names == ("who", "day", "i", "nm") and t.labels(0, [0, 1]) == ["ann", "ben"]
    sparse = library("sparse")
    x = x.copy(data=sparse.COO.from_numpy(np.where(x.values < 0.5, x.values, 0)))
    assert ts.cp(x, 2, sweeps=1, **CPU)._tensor.labels("who", [1]) == ["ben"]
    with pytest.raises(TypeError, match="xarray.Dataset is no tensor: .*dataset"):
        ts.cp(x.to_dataset(name="v"), 2)


def test_names_beside_a_file(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(1).random((2, 3)))
    (tmp_path / "x.mode1.map").write_bytes(b"\xef\xbb\xbfann\r\nben")
    t = ts.open(tmp_path / "x.npy")
    assert t.labels(0, [1, 0]) == ["ben", "ann"] and t.labels(1, [0]) == [None]
    assert {row["label"] for row in ts.cp(t, 1, sweeps=1, **CPU).top(0, 0)} == {"ann", "ben"}
    for text, said in (("a\nb\nc\n", "3 names for the 2 indices of mode 0 .is the first line"),
                       ("a\n", "1 name for the 2 indices"), ("a\na\n", "map:2: the name of line 1"),
                       ("a\n\0\n", "map:2: a name with a NUL")):
        (tmp_path / "x.mode1.map").write_bytes(text.encode())
        with pytest.raises(ts.FormatError, match=said):
            ts.open(tmp_path / "x.npy")


def test_names_of_arrays():
    x = np.random.default_rng(1).random((2, 3))
    t = ts.from_array(x, modes=["who", None], labels=[["ann", "ben"], None])
    assert t.mode_names == ("who", None) and t.labels("who", [0, 1, 0]) == ["ann", "ben", "ann"]
    assert t.labels(1, [2]) == [None]
    assert ts.open(x, modes=["a", "b"]).mode_names == ("a", "b")
    again = pickle.loads(pickle.dumps(t))
    assert again.mode_names == t.mode_names and again.labels(0, [0, 1]) == ["ann", "ben"]
    m = ts.cp(t, 1, sweeps=1, **CPU)
    assert {row["label"] for row in m.top(0, "who", 2)} == {"ann", "ben"}
    for name, said in (("a\nb", "line end"), ("a\0b", "NUL"), ("x" * 300, "255 bytes")):
        with pytest.raises(ts.ArgumentError, match=said):
            ts.from_array(x, modes=[name, None])
    with pytest.raises(ts.ArgumentError, match="label 1 of mode 0 has a line end"):
        ts.from_array(x, labels=[["a", "b\n"], None])
    for wrong, said in ((dict(modes=["a"]), "modes of 1 modes"),
                        (dict(modes=["a", "a"]), "two modes"), (dict(labels=[["a"], None]),
                                                                "1 labels of mode 0, which has 2"),
                        (dict(labels=[None]), "labels of 1 modes")):
        with pytest.raises(ts.ArgumentError, match=said):
            ts.from_array(x, **wrong)


# ---- tables ----


def rows(n=2000, seed=1):
    rng = np.random.default_rng(seed)
    names = np.array([f"item {i:02}" for i in range(30)])
    return {
        "user": rng.integers(0, 50, n),
        "item": names[rng.integers(0, 30, n)],
        "stars": rng.integers(1, 6, n).astype(float),
        "votes": rng.integers(1, 4, n)
    }


def arrow(table):
    return library("pyarrow").table(table)


def arrow_reader(table):
    return library("pyarrow").RecordBatchReader.from_batches(
        arrow(table).schema,
        arrow(table).to_batches(max_chunksize=300))


def arrow_dataset(table):
    return library("pyarrow.dataset").dataset(arrow(table))


class Stream:
    """An object that is known by the stream interface of arrow alone."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, schema=None):
        return self.table.__arrow_c_stream__(schema)


def structured(table):
    names = list(table)
    x = np.empty(len(table["user"]), dtype=[(name, table[name].dtype) for name in names])
    for name in names:
        x[name] = table[name]
    return x


def in_file(end):

    def make(table, folder):
        path = folder / f"x{end}"
        if end == ".parquet":
            library("pyarrow.parquet").write_table(arrow(table), path, row_group_size=700)
        elif end == ".feather":
            library("pyarrow.feather").write_feather(arrow(table), str(path), chunksize=600)
        elif end == ".arrows":
            pa = library("pyarrow")
            with pa.ipc.new_stream(str(path), arrow(table).schema) as f:
                f.write_table(arrow(table), max_chunksize=500)
        else:
            mark = "," if ".csv" in end else "\t"
            lines = [mark.join(table), *(mark.join(map(str, row)) for row in zip(*table.values()))]
            text = ("\n".join(lines) + "\n").encode()
            if end.endswith(".gz"):
                import gzip
                text = gzip.compress(text)
            path.write_bytes(text)
        return path

    return make


TABLES = {
    "dict":
    lambda table: table,
    "structured array":
    structured,
    "pandas":
    lambda table: library("pandas").DataFrame(table),
    "polars":
    lambda table: library("polars").DataFrame(table),
    "polars lazy":
    lambda table: library("polars").DataFrame(table).lazy(),
    "arrow table":
    arrow,
    "arrow batch":
    lambda table: arrow(table).to_batches()[0],
    "arrow reader":
    arrow_reader,
    "arrow dataset":
    arrow_dataset,
    "arrow scanner":
    lambda table: arrow_dataset(table).scanner(),
    "arrow stream":
    lambda table: Stream(arrow(table)),
    "generator":
    lambda table: ({
        k: v[i:i + 300]
        for k, v in table.items()
    } for i in range(0, 2000, 300)),
    "list of tables":
    lambda table: [table],
}
FILES = [".parquet", ".feather", ".arrows", ".csv", ".tsv", ".csv.gz"]


def named(t):
    """The cells of a tensor by what their indices are called."""
    found = {}
    for coords, values in t.blocks():
        texts = [[str(i) if name is None else name for i, name in zip(column, t.labels(m, column))]
                 for m, column in enumerate(coords.T)]
        for *cell, value in zip(*texts, values):
            found[tuple(cell)] = found.get(tuple(cell), 0) + value
    return found


def wanted_of(table, value="stars"):
    found = {}
    for user, item, v in zip(table["user"], table["item"],
                             table[value] if value else np.ones(2000)):
        found[str(user), item] = found.get((str(user), item), 0) + v
    return found


@pytest.mark.parametrize("name", [*TABLES, *FILES])
def test_tables_are_their_rows(name, tmp_path):
    table = rows()
    if name in FILES:
        table["user"] += 1  # lists of text count from 1
        wanted = {(str(int(u) - name.count("sv")), i): v for (u, i), v in wanted_of(table).items()}
        path = in_file(name)(table, tmp_path)

        def make():
            return path
    else:
        wanted = wanted_of(table)

        def make():
            return TABLES[name](table)

    options = dict(modes=["user", "item"], value="stars")
    fits = [ts.cp(make(), 2, sweeps=2, **options, **CPU) for _ in range(2)]
    assert equal(*fits) and named(fits[0]._tensor) == wanted
    assert fits[0]._tensor.mode_names == ("user", "item")
    assert named(ts.open(make(), **options)) == wanted
    more = dict(base=1) if "sv" in name else {}
    built = ts.build(make(), tmp_path / "x.tsh", memory="64M", **more, **options)
    assert named(built) == wanted and built.path == str(tmp_path / "x.tsh")
    counts = wanted_of(table, None)
    if "sv" not in name:
        assert named(ts.from_frame(make(), ["user", "item"])) == counts
        t = ts.cp(make(), 1, sweeps=1, modes=["user", "item"], value="stars", weights="votes",
                  observed=True, **CPU)._tensor
        assert t.nnz == len(wanted) and t.shape == fits[0].shape
        assert ts.cross_validate(make(), 1, folds=2, sweeps=1, observed=True, **options,
                                 **CPU)[0]["rank"] == 1
    else:
        assert sum(named(ts.open(path, modes=["user", "item"], value="none")).values()) == 2000


def test_tables_need_their_modes():
    table = rows()
    with pytest.raises(TypeError, match=r"modes=\[...\] names the columns"):
        ts.cp(table, 2)
    for door in (ts.from_frame, ts.open, ts.build):
        with pytest.raises(ts.ArgumentError,
                           match=r"modes='user': a list of columns is wanted, such as \['user'"):
            door(table, modes="user")
        with pytest.raises(ts.ArgumentError,
                           match="there is no column 'use'; the table has 'user', 'item'"):
            door(table, modes=["use", "item"])
    for make in (TABLES["pandas"], TABLES["polars"], arrow, structured):
        with pytest.raises(ts.ArgumentError,
                           match="there is no column 'use'; the table has 'user', 'item'"):
            ts.from_frame(make(table), ["use", "item"])


def test_columns_of_pandas_that_are_numbers():
    pd = library("pandas")
    frame = pd.DataFrame(np.array([[0, 1, 2.5], [3, 0, 1.5]]))
    t = ts.cp(frame, 1, modes=[0, 1], value=2, sweeps=1, **CPU)._tensor
    assert named(t) == {("0", "1"): 2.5, ("3", "0"): 1.5} and t.mode_names == ("0", "1")


def test_parquet_in_several_files_and_folders(tmp_path):
    parquet = library("pyarrow.parquet")
    table = arrow(rows())
    parquet.write_table(table[:900], tmp_path / "a.parquet")
    parquet.write_table(table[900:], tmp_path / "b.parquet")
    options = dict(modes=["user", "item"], value="stars")
    t = ts.build([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "x.tsh", **options)
    assert named(t) == wanted_of(rows())
    parquet.write_to_dataset(table, tmp_path / "all.parquet", partition_cols=["votes"])
    assert named(ts.open(tmp_path / "all.parquet", **options)) == wanted_of(rows())
    with pytest.raises(ts.ArgumentError, match="a.parquet: there is no column 'x'; it has 'user'"):
        ts.open(tmp_path / "a.parquet", modes=["x", "item"])
    os.rename(tmp_path / "a.parquet", tmp_path / "data")  # known by its first bytes
    assert ts.open(tmp_path / "data", **options).nnz > 0
    with pytest.raises(ts.ArgumentError, match="of several kinds"):
        (tmp_path / "x.csv").write_text("a,b\n1,2\n")
        ts.build([tmp_path / "data", tmp_path / "x.csv"], tmp_path / "y.tsh", **options)


def test_a_series_with_several_levels():
    pd = library("pandas")
    frame = pd.DataFrame(rows())
    sums = frame.groupby(["user", "item"]).stars.sum()
    counts = frame.groupby(["user", "item"]).size()
    for series, wanted in ((sums, wanted_of(rows())), (counts, wanted_of(rows(), None))):
        t = ts.cp(series, 1, sweeps=1, **CPU)._tensor
        assert named(t) == wanted and t.mode_names == ("user", "item")
    t = ts.from_frame(frame.set_index(["user", "item"]), ["user", "item"], "stars")
    assert named(t) == wanted_of(rows())
    with pytest.raises(TypeError, match="pandas.Series is no tensor: its index has one level"):
        ts.cp(frame.stars, 1)


def test_frames_of_coordinates():
    coords = {"a": np.array([3, 1], dtype="u8"), "b": np.array([0, 2], dtype="i8")}
    for make in (library("pandas").DataFrame, library("polars").DataFrame, arrow, dict, structured):
        if make is structured:
            table = np.rec.fromarrays(list(coords.values()), names="a,b")
        else:
            table = make(coords)
        if make is not structured:
            found, values = next(ts.from_coo(table, [1.0, 2.0]).blocks())
            assert dict(zip(map(tuple, found.tolist()), values)) == {(3, 0): 1, (1, 2): 2}
        assert named(ts.from_frame(table, ["a", "b"])) == {("3", "0"): 1, ("1", "2"): 1}


# ---- categories ----

def categories(kind, names, codes):
    """A column of names by codes, -1 where it is missing, with categories that no row has."""
    if kind == "pandas":
        return library("pandas").DataFrame(
            {"x": library("pandas").Categorical.from_codes(codes, names), "i": range(len(codes))})
    if kind == "arrow":
        pa = library("pyarrow")
        column = pa.DictionaryArray.from_arrays(
            pa.array([None if c < 0 else c for c in codes], "int32"), pa.array(names))
        return pa.table({"x": column, "i": range(len(codes))})
    pl = library("polars")
    texts = [None if c < 0 else names[c] for c in codes]
    if kind == "polars text":
        column = pl.Series(texts)
    elif kind == "polars Enum":
        column = pl.Series(texts, dtype=pl.Enum(names))
    else:
        column = pl.Series([*names, *texts], dtype=pl.Categorical)[len(names):]
    return pl.DataFrame({"x": column, "i": range(len(codes))})


KINDS_OF_CATEGORIES = ["pandas", "arrow", "polars", "polars Enum", "polars text"]


@pytest.mark.parametrize("kind", KINDS_OF_CATEGORIES)
def test_categories_go_by_their_codes(kind, monkeypatch):
    """As many names are made as there are categories, not as there are rows."""
    names = [f"n{i:03}" for i in range(40)]
    codes = np.random.default_rng(1).integers(-1, 30, 3000)
    frame = categories(kind, names, codes)
    made = []
    name_of = ts._column.name_of
    monkeypatch.setattr(ts._column, "name_of", lambda x: made.append(x) or name_of(x))
    with pytest.warns(ts.TstreamWarning, match=f"{(codes < 0).sum()} rows left out"):
        t = ts.from_frame(frame, ["x", "i"], missing="skip")
    assert len(made) <= 2 * len(names)
    assert named(t) == {(names[c], str(i)): 1 for i, c in enumerate(codes) if c >= 0}
    assert t.labels(0, range(t.shape[0])) == names[:30]
    again = ts.from_frame(iter([frame[:1500], frame[1500:]] if kind != "arrow" else
                               [frame.slice(0, 1500), frame.slice(1500)]), ["x", "i"],
                          missing="skip")
    assert {cell[0] for cell in named(again)} == set(names[:30]) and again.nnz == t.nnz


def test_years_that_make_empty_rows(tmp_path):
    year, item = [2014, 2013, 2014], [0, 1, 2]
    (tmp_path / "x.csv").write_text("year,item\n2014,1\n2013,2\n2014,3\n")
    frame = {"year": year, "item": item}
    doors = [lambda **o: ts.from_frame(frame, ["year", "item"], **o),
             lambda **o: ts.from_frame(iter([frame]), ["year", "item"], **o),
             lambda **o: ts.open(tmp_path / "x.csv", modes=["year", "item"], value="none", **o)]
    for door in doors:
        with pytest.warns(ts.TstreamWarning, match=r"mode 'year': 201[23] of 201[45] rows are empty"
                          r".*text=\['year'\].*bin=\{'year': '1y'\}") as caught:
            door()
        assert [w.filename for w in caught] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for options in (dict(text=["year"]), dict(bin={"year": "1y"}, time_unit="year")):
                assert door(**options).shape == (2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ts.from_frame({"a": np.arange(0, 3000, 3), "b": np.zeros(1000, int)}, ["a", "b"])


# ---- files of arrays ----


@pytest.mark.parametrize("order, dtype", [(2, "float64"), (3, "float32"), (4, "uint8")])
def test_files_of_matlab(order, dtype, tmp_path):
    io, x = library("scipy.io"), (np.random.default_rng(1).random(SHAPES[order]) * 9).astype(dtype)
    wanted = ts.cp(x, 2, sweeps=2, **CPU)
    io.savemat(tmp_path / "x.mat", {"X": x, "name": "text", "n": 3})
    seven(tmp_path / "y.mat", {"X": x})
    for path in (tmp_path / "x.mat", tmp_path / "y.mat"):
        t = ts.open(path)
        assert t.dense and t.shape == x.shape
        for a, b in zip(ts.cp(path, 2, sweeps=2, **CPU).factors, wanted.factors):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    io.savemat(tmp_path / "two.mat", {"X": x, "Y": x})
    with pytest.raises(ts.ArgumentError, match="several variables, 'X', 'Y': variable= names one"):
        ts.open(tmp_path / "two.mat")
    with pytest.raises(ts.ArgumentError, match="no variable 'Z'; it has 'X', 'Y'"):
        ts.open(tmp_path / "two.mat", variable="Z")
    assert ts.open(tmp_path / "two.mat", variable="Y").shape == x.shape


def seven(path, arrays):
    """A file as MATLAB 7.3 writes it: HDF5 behind 512 bytes, the first index changing fastest."""
    h5py = library("h5py")
    with h5py.File(path, "w", userblock_size=512) as f:
        for name, x in arrays.items():
            if isinstance(x, np.ndarray):
                f[name] = x.T
                f[name].attrs["MATLAB_class"] = np.bytes_("double")
                continue
            group = f.create_group(name)
            group.attrs["MATLAB_class"] = np.bytes_("double")
            if hasattr(x, "indptr"):
                group.attrs["MATLAB_sparse"] = np.uint64(x.shape[0])
                group["data"], group["ir"], group["jc"] = x.data, x.indices.astype(
                    "u8"), x.indptr.astype("u8")
            else:
                for field, value in x.items():
                    group[field] = np.asarray(value).T
    with open(path, "r+b") as f:
        f.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM")


def test_sparse_files_of_matlab(tmp_path):
    io, sparse = library("scipy.io"), library("scipy.sparse")
    x, coords, values = cells_of((9, 7), "float64")
    io.savemat(tmp_path / "x.mat", {"X": sparse.csc_array(x)})
    seven(tmp_path / "y.mat", {"X": sparse.csc_array(x)})
    for path in (tmp_path / "x.mat", tmp_path / "y.mat"):
        assert (listed(ts.open(path)) == x).all()
    x, coords, values = cells_of((9, 7, 5), "float64")
    tensor = {"subs": coords + 1, "vals": values[:, None], "size": np.array([x.shape])}
    io.savemat(tmp_path / "x.mat", {"X": tensor})
    seven(tmp_path / "y.mat", {"X": tensor})
    for path in (tmp_path / "x.mat", tmp_path / "y.mat"):
        assert (listed(ts.open(path)) == x).all()


def test_files_of_numpy_and_scipy(tmp_path):
    sparse = library("scipy.sparse")
    x, _, _ = cells_of((9, 7), "float64")
    for kind in ("csr_array", "csc_matrix", "coo_array"):
        sparse.save_npz(tmp_path / "x.npz", getattr(sparse, kind)(x))
        assert (listed(ts.open(tmp_path / "x.npz")) == x).all()
    np.savez(tmp_path / "y.npz", X=x, b=x)
    with pytest.raises(ts.ArgumentError, match="variable= names one"):
        ts.open(tmp_path / "y.npz")
    assert ts.open(tmp_path / "y.npz", variable="b").shape == x.shape
    pydata_sparse = library("sparse")
    y, _, _ = cells_of((9, 7, 5), "float64")
    pydata_sparse.save_npz(tmp_path / "z.npz", pydata_sparse.COO.from_numpy(y))
    assert (listed(ts.open(tmp_path / "z.npz")) == y).all()


# ---- options of tshard build ----

def test_options_of_tables_of_text(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('who;i;v\n"abc"@en;1;1,5\n5" disk;2;2\n5" disk;2;2\n')
    options = dict(modes=["who", "i"], value="v", separator=";", decimal=",", quote="none")

    def build(**more):
        return ts.build(path, tmp_path / "x.tsh", replace=True, dtype="float64", base=0, **options,
                        **more)
    wanted = {('"abc"@en', "1"): 1.5, ('5" disk', "2"): 4.0}
    assert named(build()) == wanted
    for transform, of in (("log1p", np.log1p), ("binary", lambda x: 1.0), (0.5, lambda x: x / 2),
                          (-2, lambda x: -2 * x)):
        found = named(build(transform=transform))
        assert found == pytest.approx({cell: of(v) for cell, v in wanted.items()}, rel=1e-15)
        t = ts.from_coo([[0, 1], [0, 1], [1, 0]], [1.5, 1.0, 3.0], transform=transform,
                        dtype="float64")
        assert sorted(next(t.blocks())[1]) == pytest.approx(sorted([of(2.5), of(3.0)]))
    for wrong, said in ((dict(transform="log"), "transform='log'"), (dict(transform=True), "True"),
                        (dict(transform=0.0), "finite number other than 0"),
                        (dict(transform=float("inf")), "finite number")):
        with pytest.raises(ts.ArgumentError, match=said):
            build(**wrong)
    for name in ("decimal", "quote"):
        with pytest.raises(ts.ArgumentError, match=f"{name}='no': one of"):
            ts.build(path, tmp_path / "y.tsh", **{name: "no"})
        with pytest.raises(ts.ArgumentError, match="for files; from_frame"):
            ts.build({"a": [1]}, **{name: {"decimal": ",", "quote": "none"}[name]})


def test_maps_with_another_number_of_names(tmp_path):
    (tmp_path / "x.tns").write_text("1 2 1\n2 1 1\n")
    (tmp_path / "few.map").write_text("ann\n")
    with pytest.raises(ts.FormatError, match="partial_map=True takes them as they are"):
        ts.build(tmp_path / "x.tns", tmp_path / "x.tsh", labels={0: tmp_path / "few.map"})
    t = ts.build(tmp_path / "x.tns", tmp_path / "x.tsh", labels={0: tmp_path / "few.map"},
                 partial_map=True)
    assert t.labels(0, [0, 1]) == ["ann", None]


# ---- what is refused ----


def made(text):

    def make():
        package, _, rest = text.partition(" ")
        module = library(package)
        return eval(rest, {package.split(".")[-1]: module, "np": np})  # of this file's table alone

    return make


REFUSED = {
    "None": (lambda: None, TypeError, "NoneType is no tensor: a Tensor, a path"),
    "number": (lambda: 7, TypeError, "int is no tensor"),
    "number of NumPy": (lambda: np.float64(7), TypeError, "numpy.float64 is no tensor"),
    "object": (object, TypeError, "object is no tensor"),
    "set": (lambda: {1, 2}, TypeError, "set is no tensor"),
    "list of texts":
    (lambda: ["a", "b"], TypeError, "list is no tensor: a list is nested lists of numbers"),
    "ragged lists": (lambda: [[1, 2], [3]], TypeError, "list is no tensor"),
    "empty list": (lambda: [], TypeError, "list is no tensor"),
    "flat list": (lambda: [1.0, 2.0], TypeError, "list is no tensor"),
    "dict of numbers": (lambda: {
        "a": 1
    }, TypeError, "dict is no tensor: a table maps names to arrays"),
    "text in an array": (lambda: np.array([["a", "b"]]), ts.Error, ""),
    "complex": (lambda: np.ones((2, 2), complex), ts.ArgumentError, "complex128"),
    "vector": (lambda: np.ones(3), ts.FormatError, "1 dimension"),
    "Dataset":
    (made("xarray xarray.Dataset()"), TypeError, "xarray.Dataset is no tensor: it holds several"),
    "Series": (made("pandas pandas.Series([1.0])"), TypeError,
               "pandas.Series is no tensor: its index"),
    "Series of polars":
    (made("polars polars.Series([1.0])"), TypeError, "polars.Series is no tensor"),
    "Array":
    (made("pyarrow pyarrow.array([1])"), TypeError, "pyarrow.Int64Array is no tensor: a table"),
    "ktensor": (made("pyttb pyttb.ktensor([np.ones((2, 1)), np.ones((2, 1))])"), TypeError,
                "ktensor.full"),
    "fill value": (made("sparse sparse.COO.from_numpy(np.ones((2, 2)), fill_value=1)"),
                   ts.ArgumentError, "sparse.COO has the fill value 1.0: "),
    "complex of scipy": (made("scipy.sparse sparse.coo_array(np.ones((2, 2), complex))"),
                         ts.ArgumentError, "complex128"),
    "model": (lambda: ts.Model.from_factors(None, [np.ones(
        (2, 1)), np.ones((2, 1))]), TypeError, "tstream.Model is no tensor"),
    "missing file": (lambda: "/nowhere/x.parquet", ts.FileError, "No such file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_the_type(name):
    make, kind, said = REFUSED[name]
    with pytest.raises(kind, match=said) as e:
        ts.cp(make(), 2, **CPU)
    assert isinstance(e.value, ts.Error)


WAYS = [
    (lambda: ts.from_array(library("scipy.sparse").eye_array(3)),
     "is no array with a value in each cell: cp and open"),
    (lambda: ts.from_array({
        "a": [1],
        "b": [2]
    }), "dict is no array"),
    (lambda: ts.from_coo(np.ones((3, 3))), "numpy.ndarray has no values"),
    (lambda: ts.from_coo({"a": [1]}), "dict has no values"),
    (lambda: ts.from_frame(np.ones((2, 2)), ["a"]), "numpy.ndarray is no table: cp and open"),
    (lambda: ts.from_frame(7, ["a"]), "int is no tensor"),
    (lambda: ts.from_frame("x.csv", ["a"]), r"x.csv: is no file of Parquet or Arrow; build\("),
    (lambda: ts.open(np.ones((2, 2)), value="v"), "value: of tables, and this is an array"),
    (lambda: ts.open(ts.from_coo([[0, 0]], [1.0]), modes=["a", "b"]),
     "modes: of tables, and this is a tensor"),
    (lambda: ts.build(np.ones((2, 2)), value="v"), "are for tables, and this is an array"),
    (lambda: ts.build({"a": [1]}, separator=","), "are for files; from_frame"),
]


@pytest.mark.parametrize("at", range(len(WAYS)))
def test_a_refusal_says_the_way(at):
    call, said = WAYS[at]
    with pytest.raises(ts.ArgumentError, match=said):
        call()


def test_packed_and_broken_files(tmp_path):
    for name, data, said in (("x.parquet", b"PAR1 and no more",
                              ""), ("x.mat", b"MATLAB 5.0 MAT-file" + bytes(200), ""),
                             ("x.feather", b"FEA1" + bytes(60), "feather of version 1")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(Exception, match=said):
            ts.open(tmp_path / name, **({} if name == "x.mat" else {"modes": ["a", "b"]}))


# ---- names of keywords ----


def test_old_names_of_modes_warn(tmp_path):
    table = {"a": [0, 1], "b": [1, 0]}
    (tmp_path / "x.tns").write_text("1 2 1\n2 1 1\n")
    for call in (
            lambda **more: ts.from_coo([[0, 1], [1, 0]], [1, 1], **more),
            lambda **more: ts.from_batches([([[0, 1], [1, 0]], [1, 1])], **more),
            lambda **more: ts.build(tmp_path / "x.tns", tmp_path / "x.tsh", replace=True, **more)):
        with pytest.warns(FutureWarning, match="names= is called modes=") as caught:
            t = call(names=["a", "b"])
        assert t.mode_names == ("a", "b") and caught[0].filename == __file__
        with pytest.raises(ts.ArgumentError,
                           match="modes= and names=: these are two names for one keyword"):
            call(names=["a", "b"], modes=["a", "b"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert call(modes=["a", "b"]).mode_names == ("a", "b")
    with pytest.warns(FutureWarning, match="columns= is called modes="):
        assert ts.from_frame(table, columns=["b", "a"]).mode_names == ("b", "a")


# ---- drawn ----


def test_any_type_order_and_missing_value():
    hypothesis = library("hypothesis")
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as arrays
    sparse, pd = library("sparse"), library("pandas")
    kinds = st.sampled_from(["f4", "f8", "i1", "i4", "i8", "u2", "u8", ">f8", "<i2"])

    @hypothesis.settings(max_examples=40, deadline=None)
    @hypothesis.given(st.data())
    def check(data):
        dtype = np.dtype(data.draw(kinds))
        shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
        numbers = (st.integers(0, 100).map(float) if dtype.kind == "f" else st.integers(0, 100))
        x = data.draw(arrays.arrays(dtype, shape, elements=numbers))
        mask = data.draw(arrays.arrays(bool, shape))
        hypothesis.assume((x[~mask] != 0).any() and not mask.all())
        hidden = np.ma.array(x, mask=mask)
        seen = hidden.filled(0).astype(float)
        assert (listed(ts.open(sparse.COO.from_numpy(seen))) == seen).all()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert (listed(ts.build(hidden, missing="skip")) == seen).all()
            cells = np.argwhere(np.ones(shape))
            frame = pd.DataFrame({str(m): cells[:, m] for m in range(len(shape))})
            frame["v"] = pd.array(x.ravel().tolist(), dtype="Float64")
            frame.loc[mask.ravel(), "v"] = pd.NA
            t = ts.open(frame, modes=[str(m) for m in range(len(shape))], value="v", missing="skip")
        found = listed(t)
        whole = np.zeros(shape)
        whole[tuple(slice(n) for n in found.shape)] = found
        assert (whole == seen).all() and t.skipped == mask.sum()

    check()


@pytest.mark.parametrize("end", [".csv", ".tsv", ".tab", ".csv.gz"])
def test_a_table_of_text_by_its_name(tmp_path, end):
    """ts.build knows a table by its name, as ts.open, ts.cp and `tshard build` do."""
    path = tmp_path / f"sales{end}"
    between = "," if ".csv" in end else "\t"
    lines = [["who", "what", "amount"], ["ann", "lamp", "3"], ["bob", "rug", "4"],
             ["ann", "rug", "5"]]
    data = "".join(between.join(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if end.endswith(".gz") else data)
    built, opened = ts.build(path, tmp_path / "x.tsh"), ts.open(path)
    for t in (built, opened):
        assert t.shape == (2, 2) and t.mode_names == ("who", "what")
        assert t.labels("what", [0, 1]) == ["lamp", "rug"]
    assert built.norm == opened.norm == pytest.approx(50**0.5)


def _in_files(tmp_path, frame, n):
    """The table in files of Parquet and Arrow, in batches of n rows."""
    pa, parquet = library("pyarrow"), library("pyarrow.parquet")
    table = pa.table(frame)
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=n)
    with pa.ipc.new_file(tmp_path / "x.arrow", table.schema) as file:
        for batch in table.to_batches(n):
            file.write_batch(batch)
    return [tmp_path / "x.parquet", tmp_path / "x.arrow"]


def test_files_are_read_ahead(tmp_path, monkeypatch):
    """In a thread of their own, in the order of the rows, and the thread ends with the build."""
    from tstream import _files
    monkeypatch.setattr(_files, "_ROWS", 1000)
    rng = np.random.default_rng(8)
    n = 5500
    frame = {"a": rng.integers(0, 70, n), "b": rng.integers(0, 40, n).astype(np.int32),
             "c": rng.choice(["x", "y", "zz"], n), "v": rng.random(n)}
    want = {}
    for a, b, c, v in zip(*frame.values()):
        want[a, b, c] = want.get((a, b, c), 0) + v
    for path in _in_files(tmp_path, frame, 1000):
        with ts.from_frame(path, ["a", "b", "c"], "v", dtype="float64") as t:
            names = t.labels("c", range(3))
            assert names == list(dict.fromkeys(frame["c"]))
            got = {}
            for coords, values in t.blocks(0):
                for (a, b, c), v in zip(coords.tolist(), values):
                    got[a, b, names[c]] = v
        assert got.keys() == want.keys()
        assert all(abs(got[k] - want[k]) < 1e-12 for k in got)
    assert not [x for x in threading.enumerate() if x.name.startswith("tstream reader")]


@pytest.mark.parametrize("row", [0, 999, 1000, 3210, 5499])
def test_a_bad_row_in_a_file_that_is_read_ahead(tmp_path, monkeypatch, row):
    from tstream import _files
    monkeypatch.setattr(_files, "_ROWS", 1000)
    frame = {"a": np.arange(5500) % 7, "b": np.arange(5500) % 5, "v": np.ones(5500)}
    frame["a"][row] = -3
    for path in _in_files(tmp_path, frame, 1000):
        with pytest.raises(ts.ArgumentError, match=rf"row {row % 1000} of table {row // 1000}: '-3'"
                           if row >= 1000 else r"column 'a', row"):
            ts.from_frame(path, ["a", "b"], "v", out=tmp_path / "o.tsh")
        assert not (tmp_path / "o.tsh").exists()
    assert not [x for x in threading.enumerate() if x.name.startswith("tstream reader")]


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int32, np.uint8, ">i4", ">i8"])
def test_columns_of_indices_are_rows_of_them(kind):
    rng = np.random.default_rng(3)
    coords, values = rng.integers(0, 50, (800, 3)), rng.random(800)
    weights = rng.integers(1, 5, 800).astype(float)
    columns = [x.astype(kind) for x in coords.T]
    strided = [np.repeat(x, 2)[::2] for x in columns]
    for given in ({}, {"weights": weights}):
        hashes = set()
        for x in (coords, coords.astype(kind), tuple(columns), tuple(strided)):
            with ts.from_coo(x, values, shape=(50, 50, 50), **given) as t:
                hashes.add((t.nnz, t.norm))
        assert len(hashes) == 1


@pytest.mark.parametrize("columns, text", [
    (([0, 1, 2], [1, -2, -3]), "index -2 in row 1 of mode 1"),
    (([0, 1, -2], [1, 2, -3]), "index -2 in row 2 of mode 0"),
    (([0, 1, 2], [0.0, 1.0, 2.0]), "coordinates are float64"),
    (([0, 1, 2], [0, 1]), "of 3, 2 rows"),
    (([0, 1, 2], [[0, 1], [1, 1], [2, 1]]), "coordinates of mode 1 have 2 dimensions"),
    (([0, 1, 2], [0, 1, 1 << 40]), "beyond 2\\^40 - 1"),
])
def test_columns_that_are_no_indices(columns, text):
    with pytest.raises(ts.Error, match=text):
        ts.from_coo(tuple(np.array(x) for x in columns), np.ones(3))
