# SPDX-License-Identifier: BSD-3-Clause
"""What a stranger hands in: files in pieces, damaged files, odd objects, wrong names."""

import collections
import importlib
import os
import tracemalloc

import numpy as np
import pytest

import tstream as ts
from tstream import _spool

CP = dict(cpu=True, progress=False, sweeps=2, precision="float64")
TABLE = {"u": ["b", "a", "c", "a"], "d": [0, 1, 2, 1], "v": [1.0, 2.0, 3.0, 4.0]}


def library(name):
    return pytest.importorskip(name)


def table(**columns):
    return library("pandas").DataFrame({**TABLE, **columns})


def cp(x, **options):
    return ts.cp(x, 2, **{**CP, **options})


def cp_table(x, **options):
    return cp(x, **{"modes": ["u", "d"], "value": "v", **options})


# ---- files that are read in pieces ----


def drawn(shape=(13, 6, 5)):
    return np.random.default_rng(5).random(shape)


def hdf5(x, **options):
    def make(path):
        with library("h5py").File(path, "w") as f:
            f.create_dataset("x", data=x, **options)

    return make


def mat(x):
    """As MATLAB 7.3 writes an array, or a sparse matrix."""

    def make(path):
        with library("h5py").File(path, "w", userblock_size=512) as f:
            if isinstance(x, np.ndarray):
                f.create_dataset("x", data=x.T, chunks=True, compression="gzip")
            else:
                f.create_group("x").attrs["MATLAB_sparse"] = np.uint64(x.shape[0])
                f["x"]["data"], f["x"]["ir"], f["x"]["jc"] = x.data, x.indices, x.indptr
            f["x"].attrs["MATLAB_class"] = np.bytes_("double")
        with open(path, "r+b") as f:
            f.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\0\2IM")

    return make


def npz(x, save=np.savez):
    return lambda path: save(path, x=x)


def listed(kind):
    """A matrix with cells that are 0, of scipy.sparse."""
    x = drawn((60, 7))
    return getattr(library("scipy.sparse"), kind)(np.where(x > 0.6, x, 0))


def sparse_npz(kind):
    return lambda path: library("scipy.sparse").save_npz(path, listed(kind))


IN_PIECES = {
    "one chunk a row.h5": hdf5(drawn(), chunks=(1, 6, 5)),
    "small chunks.h5": hdf5(drawn(), chunks=(2, 2, 2), compression="gzip"),
    "large chunks.h5": hdf5(drawn(), chunks=(13, 6, 2)),
    "big endian.h5": hdf5(drawn().astype(">f8"), chunks=(4, 6, 5)),
    "whole numbers.h5": hdf5((9 * drawn()).astype("i2"), chunks=(4, 6, 5)),
    "truth.h5": hdf5(drawn() > 0.5, chunks=(4, 6, 5)),
    "half precision.h5": hdf5(drawn().astype(np.float16), chunks=(4, 6, 5)),
    "two modes.h5": hdf5(drawn((40, 30)), chunks=(7, 9)),
    "dense.mat": mat(drawn()),
    "rows.npz": npz(drawn()),
    "columns.npz": npz(np.asfortranarray(drawn())),
    "packed.npz": npz(drawn(), np.savez_compressed),
    "big endian.npz": npz(drawn().astype(">f4")),
    "sparse.mat": lambda path: mat(listed("csc_array"))(path),
    "rows of cells.npz": sparse_npz("csr_array"),
    "columns of cells.npz": sparse_npz("csc_matrix"),
    "cells.npz": sparse_npz("coo_array"),
}


@pytest.mark.parametrize("name", IN_PIECES)
@pytest.mark.parametrize("step", [1, 32, 1 << 20])
def test_pieces_are_the_whole(name, step, tmp_path, monkeypatch):
    path = tmp_path / name
    IN_PIECES[name](path)
    whole = cp(ts.open(path))
    (tmp_path / "pieces").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "pieces"))
    monkeypatch.setattr(_spool, "HELD", 64)
    monkeypatch.setattr(_spool, "_STEP", step)
    t = ts.open(path)
    assert cp(t) == whole
    left = os.listdir(tmp_path / "pieces")
    assert all(x.endswith(".tstream") for x in left)  # the tensor of cells that are listed


@pytest.mark.parametrize("name", ["one chunk a row.h5", "dense.mat", "packed.npz"])
def test_memory_is_that_of_a_piece(name, tmp_path, monkeypatch):
    x = drawn((256, 64, 64))
    make = {"one chunk a row.h5": hdf5(x, chunks=(4, 64, 64)), "dense.mat": mat(x),
            "packed.npz": npz(x, np.savez_compressed)}[name]
    make(tmp_path / name)
    monkeypatch.setattr(_spool, "HELD", 1 << 16)
    monkeypatch.setattr(_spool, "_STEP", 1 << 16)
    ts.open(tmp_path / name)  # imports what reads it
    tracemalloc.start()
    t = ts.open(tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes / 4 and t.shape == x.shape


@pytest.mark.parametrize("name", ["small chunks.h5", "packed.npz"])
def test_cells_without_room_are_refused_before_they_are_read(name, tmp_path, monkeypatch):
    IN_PIECES[name](tmp_path / name)
    usage = collections.namedtuple("usage", "free")(100)
    monkeypatch.setattr(_spool, "HELD", 64)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    with pytest.raises(ts.LimitError, match="TMPDIR names another place"):
        ts.open(tmp_path / name)


# ---- damaged files ----

DAMAGED = {
    "x.parquet": b"PAR1xxxxPAR1", "x.arrow": b"ARROW1junk", "x.npz": b"PK\3\4junk",
    "x.h5": b"\x89HDF\r\n\x1a\n" + b"junk" * 30, "x.mat": b"MATLAB 5.0 junk" + b" " * 200,
}
NEEDED = {"x.parquet": "pyarrow", "x.arrow": "pyarrow", "x.h5": "h5py", "x.mat": "scipy.io"}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_an_error_of_the_file(name, tmp_path):
    importlib.import_module(NEEDED.get(name, "numpy")) if name == "x.npz" else library(NEEDED[name])
    (tmp_path / name).write_bytes(DAMAGED[name])
    call = cp_table if NEEDED.get(name) == "pyarrow" else cp
    with pytest.raises(ts.FormatError, match=name) as e:
        call(tmp_path / name)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("name", ["x.npz", "x.parquet", "x.h5"])
def test_half_of_a_file_is_an_error_of_the_file(name, tmp_path):
    path = tmp_path / name
    if name == "x.npz":
        np.savez(path, x=drawn((40, 40, 40)))
    elif name == "x.h5":
        hdf5(drawn((40, 40, 40)), chunks=True)(path)
    else:
        pa, parquet = library("pyarrow"), library("pyarrow.parquet")
        parquet.write_table(pa.table(TABLE), path)
    data = path.read_bytes()
    path.write_bytes(data[:len(data) // 2])
    with pytest.raises(ts.FormatError, match=name):
        cp_table(path) if name == "x.parquet" else cp(path)


# ---- odd objects ----


def closed_dataset(tmp_path):
    with library("h5py").File(tmp_path / "c.h5", "w") as f:
        f["x"] = drawn()
        return f["x"]


def dataset(tmp_path, value):
    f = library("h5py").File(tmp_path / "d.h5", "w")
    f["x"] = value
    return f["x"]


def lazy(tmp_path):
    return library("polars").DataFrame(TABLE).lazy().select("u")


WRONG = {
    "a closed dataset": (closed_dataset, cp, ts.ArgumentError, "is closed"),
    "a dataset of text": (lambda p: dataset(p, "text"), cp, ts.ArgumentError, "real numbers"),
    "a dataset of complex numbers": (lambda p: dataset(p, drawn().astype(complex)), cp,
                                     ts.ArgumentError, "complex128"),
    "an array of objects in a file": (
        lambda p: np.savez(p / "o.npz", x=np.array([{}], object)) or p / "o.npz", cp,
        ts.Error, "o.npz"),
    "a frame with levels of columns": (
        lambda p: library("pandas").concat({"k": table()}, axis=1), cp_table, ts.ArgumentError,
        "no column 'u'; the table has \\('k', 'u'\\)"),
    "no columns at all": (lambda p: {}, cp_table, ts.ArgumentError, "no column 'u'.*none"),
    "half a pair of surrogates": (
        lambda p: {**TABLE, "u": np.array(["\ud800", "a", "b", "c"], object)}, cp_table,
        ts.ArgumentError, "surrogates"),
    "a lazy frame without a column": (lazy, cp_table, ts.ArgumentError, "no column 'd'"),
    "a list for a column": (lambda p: TABLE, lambda x: cp_table(x, value=["v"]), TypeError,
                            r"\['v'\] is no name of a column"),
    "a column for its name": (
        lambda p: library("pandas").DataFrame(TABLE), lambda x: cp_table(x, value=x["v"]), TypeError,
        "^value: the name of a column is wanted, such as value='v', and this is of type Series$"),
    "cells for a name": (lambda p: TABLE, lambda x: cp_table(x, value=np.ones(4)), TypeError,
                         "^value: the name of a column is wanted, and this is of type ndarray$"),
    "columns for texts": (
        lambda p: library("pandas").DataFrame(TABLE), lambda x: cp_table(x, text=[x["u"]]), TypeError,
        "such as text=\\['u'\\], and this is of type Series$"),
    "a width without its column": (lambda p: TABLE, lambda x: cp_table(x, bin="7d"), TypeError,
                                   "^bin='7d': widths of columns are wanted, such as {'u': '7d'}$"),
    "a text for the modes": (lambda p: TABLE, lambda x: cp_table(x, modes="user"), ts.ArgumentError,
                             "a list of columns"),
    "a number for the modes": (lambda p: TABLE, lambda x: cp_table(x, modes=3), TypeError,
                               "a list of columns"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_taken_is_named(what, tmp_path):
    make, call, error, says = WRONG[what]
    x = make(tmp_path)
    with pytest.raises(error, match=says) as e:
        call(x)
    assert isinstance(e.value, ts.Error) and "\n" not in str(e.value)


def test_numbers_of_128_bits():
    pl = library("polars")
    if not hasattr(pl, "Int128"):
        pytest.skip("this polars has no numbers of 128 bits")
    frame = pl.DataFrame(TABLE).with_columns(pl.col("d").cast(pl.Int128))
    assert cp_table(frame) == cp_table(TABLE)
    with pytest.raises(ts.ArgumentError, match="64 bits"):
        cp_table(frame.with_columns(pl.lit(2**100, dtype=pl.Int128).alias("d")))


def test_a_view_of_memory_is_an_array():
    assert cp(memoryview(drawn())) == cp(drawn())


@pytest.mark.parametrize("options, says", [
    (dict(progress="bar"), "a function"), (dict(progress=True), "a function"),
    (dict(threads="2"), "threads='2'"), (dict(shape="22"), "shape"), (dict(out=3), "3 is no path"),
])
def test_options_of_a_build_have_types(options, says):
    with pytest.raises(ts.ArgumentTypeError, match=says):
        ts.from_coo([[0, 1], [1, 0]], [1.0, 2.0], **options)


def test_no_progress_is_none():
    assert ts.from_coo([[0, 1], [1, 0]], [1.0, 2.0], progress=False).nnz == 2
