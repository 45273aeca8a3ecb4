# SPDX-License-Identifier: BSD-3-Clause
"""Tables of pandas, pyarrow, polars and NumPy: what is missing, what is one index, what order names have."""

import datetime
import decimal
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import tstream as ts

NAN = float("nan")
OPTIONS = dict(memory="64M", dtype="float64")


def library(name):
    return pytest.importorskip(name, reason=f"{name} is not installed")


def cells(t):
    """The cells of a tensor by what their indices are called; an index without a label is its number."""
    found = {}
    for coords, values in t.blocks():
        named = [[str(i) if name is None else name for i, name in zip(column, t.labels(m, column))]
                 for m, column in enumerate(coords.T)]
        for cell in zip(*named, values):
            found[cell[:-1]] = found.get(cell[:-1], 0) + cell[-1]
    return found


def labels(t, mode=0):
    return t.labels(mode, range(t.shape[mode]))


# ---- what is missing ----
# A column of four fields, of which that of row 2 is missing. Each is made when its test runs.

def arrow(values, kind=None):
    pa = library("pyarrow")
    return pa.array(values, kind)


def arrow_dictionary(where):
    pa = library("pyarrow")
    if where == "codes":
        return pa.array(["a", "b", None, "c"]).dictionary_encode()
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array(["a", "b", None]))


def arrow_chunks(of):
    pa = library("pyarrow")
    return pa.chunked_array([of(["a", "b"]), of([None, "c"])])


def in_arrow(column):
    pa = library("pyarrow")
    return pa.table({"x": column, "i": pa.array([0, 1, 2, 3])})


def in_pandas(values, dtype=None):
    pd = library("pandas")
    return pd.DataFrame({"x": values if dtype is None else pd.array(values, dtype=dtype), "i": [0, 1, 2, 3]})


def in_polars(values, dtype=None):
    pl = library("polars")
    return pl.DataFrame({"x": pl.Series(values, dtype=getattr(pl, dtype) if dtype else None), "i": [0, 1, 2, 3]})


def pandas_arrow(kind, values):
    pd, pa = library("pandas"), library("pyarrow")
    return pd.DataFrame({"x": pd.array(values, dtype=pd.ArrowDtype(kind(pa))), "i": [0, 1, 2, 3]})


def categorical(**options):
    pd = library("pandas")
    return pd.DataFrame({"x": pd.Categorical(["a", "b", None, "c"], **options), "i": [0, 1, 2, 3]})


def numpy_table(column):
    return {"x": column, "i": np.arange(4)}


def times(unit):
    return np.array([1, 2, "NaT", 4], dtype=f"datetime64[{unit}]")


MISSING = {
    "list with None": lambda: numpy_table(["a", "b", None, "c"]),
    "list of numbers with None": lambda: numpy_table([1, 2, None, 3]),
    "list with NaN": lambda: numpy_table([1, 2, NAN, 3]),
    "empty field": lambda: numpy_table(["a", "b", "", "c"]),
    "empty bytes": lambda: numpy_table(np.array([b"a", b"b", b"", b"c"])),
    "float NaN": lambda: numpy_table(np.array([1, 2, NAN, 3])),
    "float32 NaN": lambda: numpy_table(np.array([1, 2, NAN, 3], dtype="f4")),
    "float16 NaN": lambda: numpy_table(np.array([1, 2, NAN, 3], dtype="f2")),
    "object NaN": lambda: numpy_table(np.array(["a", "b", NAN, "c"], dtype=object)),
    "decimal NaN": lambda: numpy_table(np.array([decimal.Decimal(1), 2, decimal.Decimal("sNaN"), 3], dtype=object)),
    "object NaT": lambda: numpy_table(np.array(["a", "b", np.datetime64("NaT"), "c"], dtype=object)),
    "masked whole": lambda: numpy_table(np.ma.array([1, 2, 9, 3], mask=[0, 0, 1, 0])),
    "masked float": lambda: numpy_table(np.ma.array([1.0, 2, 9, 3], mask=[0, 0, 1, 0])),
    "masked text": lambda: numpy_table(np.ma.array(["a", "b", "z", "c"], mask=[0, 0, 1, 0])),
    "masked time": lambda: numpy_table(np.ma.array(np.arange(4).astype("M8[D]"), mask=[0, 0, 1, 0])),
    **{f"NaT of {u}": (lambda u=u: numpy_table(times(u))) for u in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")},
    "timedelta NaT": lambda: numpy_table(np.array([1, 2, "NaT", 4], dtype="m8[s]")),
    "arrow whole": lambda: in_arrow(arrow([1, 2, None, 3])),
    "arrow uint8": lambda: in_arrow(arrow([1, 2, None, 3], "uint8")),
    "arrow float": lambda: in_arrow(arrow([1.0, 2.0, None, 3.0])),
    "arrow float NaN": lambda: in_arrow(arrow([1.0, 2.0, NAN, 3.0])),
    "arrow text": lambda: in_arrow(arrow(["a", "b", None, "c"])),
    "arrow large text": lambda: in_arrow(arrow(["a", "b", None, "c"], library("pyarrow").large_string())),
    "arrow text view": lambda: in_arrow(arrow(["a", "b", None, "c"], library("pyarrow").string_view())),
    "arrow binary": lambda: in_arrow(arrow([b"a", b"b", None, b"c"])),
    "arrow bool": lambda: in_arrow(arrow([True, False, None, True])),
    "arrow date": lambda: in_arrow(arrow([1, 2, None, 3], library("pyarrow").date32())),
    "arrow time stamp": lambda: in_arrow(arrow([1, 2, None, 3], library("pyarrow").timestamp("ms", "UTC"))),
    "arrow duration": lambda: in_arrow(arrow([1, 2, None, 3], library("pyarrow").duration("s"))),
    "arrow decimal": lambda: in_arrow(arrow([decimal.Decimal(1), decimal.Decimal(2), None, decimal.Decimal(3)])),
    "arrow dictionary, its codes": lambda: in_arrow(arrow_dictionary("codes")),
    "arrow dictionary, its values": lambda: in_arrow(arrow_dictionary("values")),
    "arrow dictionary in chunks": lambda: in_arrow(arrow_chunks(lambda x: arrow(x).dictionary_encode())),
    "arrow text in chunks": lambda: in_arrow(arrow_chunks(arrow)),
    "pandas text": lambda: in_pandas(["a", "b", None, "c"]),
    "pandas float": lambda: in_pandas([1, 2, NAN, 3]),
    "pandas Int64": lambda: in_pandas([1, 2, None, 3], "Int64"),
    "pandas UInt8": lambda: in_pandas([1, 2, None, 3], "UInt8"),
    "pandas Float64": lambda: in_pandas([1, 2, None, 3], "Float64"),
    "pandas boolean": lambda: in_pandas([True, False, None, True], "boolean"),
    "pandas string": lambda: in_pandas(["a", "b", None, "c"], "string"),
    "pandas time": lambda: in_pandas(["2024-01-01", "2024-01-02", None, "2024-01-03"], "datetime64[ns]"),
    "pandas time with a zone": lambda: in_pandas(["2024-01-01", "2024-01-02", None, "2024-01-03"], "datetime64[s, UTC]"),
    "pandas timedelta": lambda: in_pandas([1, 2, None, 3], "timedelta64[s]"),
    "pandas period": lambda: in_pandas(["2024-01", "2024-02", None, "2024-03"], "period[M]"),
    "pandas sparse": lambda: in_pandas([1, 2, NAN, 3], "Sparse[float]"),
    "pandas categorical": categorical,
    "pandas ordered categorical": lambda: categorical(ordered=True),
    "pandas object with NA": lambda: in_pandas(np.array(["a", "b", library("pandas").NA, "c"], dtype=object)),
    "pandas object of numbers with NA": lambda: in_pandas(np.array([1, 2, library("pandas").NA, 3], dtype=object)),
    "pandas arrow whole": lambda: pandas_arrow(lambda pa: pa.int64(), [1, 2, None, 3]),
    "pandas arrow text": lambda: pandas_arrow(lambda pa: pa.string(), ["a", "b", None, "c"]),
    "pandas arrow dictionary": lambda: pandas_arrow(lambda pa: pa.dictionary(pa.int32(), pa.string()), ["a", "b", None, "c"]),
    "pandas arrow time": lambda: pandas_arrow(lambda pa: pa.timestamp("us"), [1, 2, None, 3]),
    "polars whole": lambda: in_polars([1, 2, None, 3]),
    "polars float NaN": lambda: in_polars([1.0, 2.0, NAN, 3.0]),
    "polars float null": lambda: in_polars([1.0, 2.0, None, 3.0]),
    "polars text": lambda: in_polars(["a", "b", None, "c"]),
    "polars categorical": lambda: in_polars(["a", "b", None, "c"], "Categorical"),
    "polars bool": lambda: in_polars([True, False, None, True]),
    "polars date": lambda: in_polars([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 3)]),
    "polars time": lambda: in_polars([datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2), None,
                                      datetime.datetime(2024, 1, 3)]),
    "polars duration": lambda: in_polars([datetime.timedelta(1), datetime.timedelta(2), None, datetime.timedelta(3)]),
    "polars null": lambda: in_polars(["a", "b", "", "c"]),
}
NO_VALUES = ("text", "time", "date", "NaT", "field", "bytes", "dictionary", "duration", "period", "categorical", "timedelta",
             "list with None", "object NaN", "object with NA", "bool", "null", "binary", "string")


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_refused_or_left_out(name):
    frame = MISSING[name]()
    with pytest.raises(ts.ArgumentError, match="column 'x', row 2: there is no value"):
        ts.from_frame(frame, ["i", "x"], **OPTIONS)
    with pytest.raises(ts.ArgumentError, match="column 'x', row 2 of table 1: there is no value"):
        ts.from_frame(iter([frame[:2] if not isinstance(frame, dict) else {k: v[:2] for k, v in frame.items()}, frame]), ["i", "x"],
                      **OPTIONS)
    with pytest.warns(ts.TstreamWarning, match="1 row left out.*column 'x', row 2"):
        t = ts.from_frame(frame, ["i", "x"], missing="skip", **OPTIONS)
    assert t.skipped == 1 and t.nnz == 3 and set(t.used_indices(0)) == {0, 1, 3}
    with pytest.warns(ts.TstreamWarning, match="2 rows left out.*column 'x', row 2 of table 0"):
        several = ts.from_frame(iter([frame, frame]), ["i", "x"], missing="skip", **OPTIONS)
    assert several.skipped == 2 and cells(several) == {cell: 2 * v for cell, v in cells(t).items()}
    if any(word in name for word in NO_VALUES):
        return
    for options in (dict(value="x"), dict(weights="x")):  # the same column as what it may be besides
        with pytest.raises(ts.ArgumentError, match="column 'x', row 2: there is no value"):
            ts.from_frame(frame, ["i", "i"], **options, memory="64M")
    with pytest.warns(ts.TstreamWarning, match="1 row left out"):
        t = ts.from_frame(frame, ["i", "i"], "x", missing="skip", **OPTIONS)
    assert cells(t) == {("0", "0"): 1, ("1", "1"): 2, ("3", "3"): 3}


def test_rows_of_several_columns():
    frame = {"a": [NAN, 1, 2, 3], "b": ["x", "y", "", "z"], "v": np.ma.array([1.0, 2, 3, 4], mask=[0, 0, 1, 1])}
    with pytest.warns(ts.TstreamWarning, match="3 rows left out.*column 'a', row 0"):
        t = ts.from_frame(frame, ["a", "b"], "v", missing="skip", **OPTIONS)
    assert t.skipped == 3 and cells(t) == {("1", "y"): 2} and t.shape == (2, 1)
    with pytest.raises(ts.ArgumentError, match="each of 1 rows"):
        ts.from_frame([{"a": [None], "b": [1]}], ["a", "b"], missing="skip", **OPTIONS)
    with pytest.raises(ts.ArgumentError, match="missing='no'"):
        ts.from_frame(frame, ["a", "b"], missing="no", **OPTIONS)


COORDS = np.array([[0, 1], [2, 3], [4, 5]])
BATCHES = {
    "masked coordinates": ((np.ma.array(COORDS, mask=[[0, 0], [0, 1], [0, 0]]), np.ones(3)), "coordinates are masked in mode 1, in row 1"),
    "masked columns": (((COORDS[:, 0], np.ma.array(COORDS[:, 1], mask=[0, 1, 0])), np.ones(3)), "mode 1, in row 1"),
    "masked values": ((COORDS, np.ma.array(np.ones(3), mask=[0, 1, 0])), "values are masked or NaN in row 1"),
    "NaN": ((COORDS, np.array([1, NAN, 1])), "values are masked or NaN in row 1"),
    "None": ((COORDS, [1.0, None, 1.0]), "values are masked or NaN in row 1"),
    "lists with None": ((([0, None, 4], [1, 3, 5]), [1.0, 1.0, 1.0]), "coordinates are missing in mode 0, in row 1"),
    "rows with None": (([[0, 1], [2, None], [4, 5]], [1.0, 1.0, 1.0]), "coordinates are missing in mode 1, in row 1"),
    "objects with None": ((np.array([[0, 1], [None, 3], [4, 5]], dtype=object), np.ones(3)), "coordinates are missing in mode 0, in row 1"),
    "object columns": (((np.array([0, NAN, 4], dtype=object), np.arange(3)), np.ones(3)), "coordinates are missing in mode 0, in row 1"),
    "weights": ((COORDS, np.ones(3), [1.0, NAN, 1.0]), "weights are masked or NaN in row 1"),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_and_arrays(name):
    batch, said = BATCHES[name]
    coords, values, weights = (*batch, None)[:3]
    with pytest.raises(ts.ArgumentError, match=said):
        ts.from_coo(coords, values, weights=weights)
    good = (COORDS, np.ones(3)) if weights is None else (COORDS, np.ones(3), np.ones(3))
    for door in (ts.from_batches, ts.build):
        with pytest.raises(ts.ArgumentError, match=f"{said} of batch 1"):
            door(iter([good, batch]), **({} if door is ts.from_batches else {"out": "never.tsh"}))
    with pytest.warns(ts.TstreamWarning, match="1 row left out"):
        t = ts.from_coo(coords, values, weights=weights, missing="skip")
    assert t.skipped == 1 and t.nnz == 2 and list(t.used_indices(0)) == [0, 4]
    with pytest.warns(ts.TstreamWarning, match="1 row left out"):
        assert ts.from_batches([good, batch], missing="skip").skipped == 1


def test_nothing_but_rows_that_are_left_out():
    for build in (lambda: ts.from_coo(([None], [1]), [1.0], missing="skip"), lambda: ts.from_coo([[0, 1]], [NAN], missing="skip"),
                  lambda: ts.from_batches([([[0, 1]], [NAN])], missing="skip"),
                  lambda: ts.from_frame({"x": [None], "y": [1]}, ["x", "y"], missing="skip")):
        with pytest.raises(ts.ArgumentError, match="each of 1 rows has something missing: the first is .*row 0"):
            build()
    for coords in (([0, "a"], [1, 2]), ([0, 1.5], [1, 2]), ([None, True], [1, 2])):
        with pytest.raises(ts.ArgumentError, match="coordinates are .*: whole numbers are wanted"):
            ts.from_coo(coords, [1.0, 2.0], missing="skip")


def test_blanks_are_a_name_and_no_number(tmp_path):
    """A text of blanks is a name, and missing where numbers or times are, through every door."""
    path = tmp_path / "x.csv"
    path.write_text('u,d,v\n" ",1,1\na,2,2\n')
    frame = {"u": [" ", "a"], "d": [1, 2], "v": [1, 2]}
    assert set(cells(ts.build(path, tmp_path / "x.tsh", value="v", base=0))) == {(" ", "1"), ("a", "2")}
    assert set(cells(ts.from_frame(frame, ["u", "d"], "v"))) == {(" ", "1"), ("a", "2")}
    for nothing in (" ", "\t", "", "NA", "null", "<NA>", " nan"):
        for name, field, options in (("v", "2", {}), ("t", "2024-01-01", dict(bin={"t": "1d"}))):
            path.write_text(f'u,{name}\na,{field}\nb,"{nothing}"\n')
            frame = {"u": ["a", "b"], name: [field, nothing]}
            doors = [lambda **more: ts.from_frame(frame, ["u", name if name == "t" else "u"], "v" if name == "v" else None, **options, **more)]
            if name == "t":
                doors.append(lambda **more: ts.build(path, tmp_path / "y.tsh", value="none", header=True, replace=True, **options, **more))
            for door in doors:
                with pytest.raises(ts.Error, match="missing='skip'"):
                    door()
                with pytest.warns(ts.TstreamWarning, match="1 (row|line) left out"):
                    assert door(missing="skip").nnz == 1, (nothing, name)


# ---- one index, one name ----

SPELLINGS = {
    "whole": np.array([7, 8, 7, 0]),
    "uint8": np.array([7, 8, 7, 0], dtype=np.uint8),
    "float": np.array([7.0, 8, 7, -0.0]),
    "float32": np.array([7.0, 8, 7, 0], dtype=np.float32),
    "float16": np.array([7.0, 8, 7, 0], dtype=np.float16),
    "objects": np.array([7, 8.0, decimal.Decimal("7.00"), 0], dtype=object),
}
TEXTS = {
    "spelled": ["7", "8.0", "7e0", "0"],
    "padded": ["007", "8.", "+7", "0e5"],
    "bare": ["70e-1", "08", ".7e1", "000"],
}


@pytest.mark.parametrize("name", [*SPELLINGS, *TEXTS])
def test_a_number_is_one_index(name):
    """Whatever type a table has, after a first one of numbers."""
    column = {**SPELLINGS, **TEXTS}[name]
    frames = [{"x": np.array([8, 7, 0, 1]), "i": np.arange(4)}, {"x": column, "i": np.arange(4)}]
    t = ts.from_frame(iter(frames), ["x", "i"], **OPTIONS)
    assert cells(t) == {("8", "0"): 1, ("7", "1"): 1, ("0", "2"): 1, ("1", "3"): 1, **{
        cell: 1 for cell in [("7", "0"), ("8", "1"), ("7", "2"), ("0", "3")]}}
    assert labels(t) == [None] * 9
    if name in SPELLINGS:
        assert cells(ts.from_frame({"x": column, "i": np.arange(4)}, ["x", "i"], **OPTIONS)) == {
            ("7", "0"): 1, ("8", "1"): 1, ("7", "2"): 1, ("0", "3"): 1}
        named = [ts.from_frame(f, ["x", "i"], text="x", **OPTIONS) for f in (frames[1], iter(frames))]
        assert labels(named[0]) == ["0", "7", "8"] and labels(named[1]) == ["8", "7", "0", "1"]
        assert {cell[0] for cell in cells(named[0])} == {"0", "7", "8"}


def test_a_gap_in_a_chunk_of_csv():
    """pandas makes numbers of a chunk with a gap floats."""
    pd = library("pandas")
    import io
    text = "user,item\n7,1\n8,2\n7,3\n,4\n7,5\n9,6\n"
    for options, gap in ((dict(text=["user"]), None), ({}, None)):
        with pytest.warns(ts.TstreamWarning, match="1 row left out"):
            t = ts.from_frame(pd.read_csv(io.StringIO(text), chunksize=2), ["user", "item"], missing="skip", **options, **OPTIONS)
        assert t.nnz == 5 and t.skipped == 1
        assert {cell[0] for cell in cells(t)} == {"7", "8", "9"}
    with pytest.raises(ts.ArgumentError, match="column 'user', row 1 of table 1: there is no value"):
        ts.from_frame(pd.read_csv(io.StringIO(text), chunksize=2), ["user", "item"], **OPTIONS)


def test_text_that_comes_late():
    for late, said in ((["x"], "'x'"), ([1.5], "'1.5'"), ([-1], "'-1'"), ([1 << 41], "'2199023255552'"), ([NAN, "b"], "'b'"),
                       (np.array(["2024-01-01"], dtype="M8[D]"), "'2024-01-01'"), (["7.5"], "'7.5'"), (["True"], "'True'")):
        frames = [{"x": [1, 2], "i": [0, 1]}, {"x": [3, *late], "i": np.arange(len(late) + 1)}]
        if isinstance(late, np.ndarray):
            frames[1] = {"x": late, "i": [0]}
        row = len(frames[1]["x"]) - 1
        with pytest.raises(ts.ArgumentError, match=rf"column 'x', row {row} of table 1: {said} is no whole.*text=\['x'\]"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ts.from_frame(iter(frames), ["x", "i"], missing="skip", **OPTIONS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            t = ts.from_frame(iter(frames), ["x", "i"], text=["x"], missing="skip", **OPTIONS)
        assert labels(t)[-1] == said[1:-1]


def test_numbers_in_several_spellings(tmp_path):
    """Each spelling is a name in a column of text, through every door, and a warning says so."""
    path = tmp_path / "x.csv"
    for names, warned in ((["7", "7.0", "a"], True), (["1e3", "1000", "a"], True), (["7", "007", "a"], False), (["1.0", "1.1", "a"], False)):
        path.write_text("x,i\n" + "".join(f"{x},{i + 1}\n" for i, x in enumerate(names)))
        for door in (lambda **more: ts.from_frame({"x": names, "i": np.arange(3)}, ["x", "i"], **more),
                     lambda **more: ts.build(path, tmp_path / "x.tsh", value="none", sorted_names=True, replace=True, **more)):
            for said in (False, True):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    t = door(**(dict(text="x") if said else {}))
                assert labels(t) == sorted(names)
                assert [w for w in caught if "several spellings" in str(w.message)] != [] or not warned or said
                assert warned and not said or not caught, [str(w.message) for w in caught]
    path.write_text("x,i\n1e5,1\n7,2\n")
    with pytest.warns(ts.TstreamWarning, match="1 field of mode 0 .x., such as 1e5, is read as a number; text 0 takes"):
        ts.build(path, tmp_path / "x.tsh", value="none", replace=True)


def test_warnings_name_the_line_of_the_call():
    calls = (lambda: ts.from_frame({"x": ["7", "7.0", "a"], "i": np.arange(3)}, ["x", "i"]),
             lambda: ts.from_frame({"w": [1, 2, 3], "i": np.arange(3)}, ["w", "i"], bin={"w": "1d"}, time_unit="s"))
    for call in calls:
        with pytest.warns(ts.TstreamWarning) as caught:
            call()
        assert {(w.filename, w.lineno) for w in caught} == {(__file__, call.__code__.co_firstlineno)}


def test_columns_that_are_text():
    for column, names in ((["7", "007", "7.0"], ["007", "7", "7.0"]), ([1.5, 10.0, 2.0], ["1.5", "10", "2"]),
                          ([True, False, True], ["False", "True"]), (np.array([0.1, 2, 3], dtype="f4"), ["0.1", "2", "3"]),
                          ([-1.0, 2.0, 3.0], ["-1", "2", "3"]), (np.array([1, "a", 1.0], dtype=object), ["1", "a"]),
                          (np.array([1, True, "a"], dtype=object), ["1", "True", "a"]),
                          (np.array(["2024-01-02", "2024-01-01", "2024-01-01T12:30:00.5"], dtype="M8[ms]"),
                           ["2024-01-01", "2024-01-01T12:30:00.5", "2024-01-02"])):
        t = ts.from_frame({"x": column, "i": np.arange(3)}, ["x", "i"], **OPTIONS)
        assert labels(t) == names, column
    same = [np.array(["2024-01-01T00:00:00", "2024-01-01T01:00"], dtype=f"M8[{u}]") for u in ("h", "s", "ns")]
    t = ts.from_frame(iter([{"x": x, "i": [0, 1]} for x in same]), ["x", "i"], **OPTIONS)
    assert labels(t) == ["2024-01-01", "2024-01-01T01:00:00"]
    with pytest.raises(ts.ArgumentError, match="column 'x', row 1: '-1' is no whole number"):
        ts.from_frame({"x": np.array([1, -1]), "i": [0, 1]}, ["x", "i"], **OPTIONS)
    t = ts.from_frame({"x": np.array([1, 2**40, 7]), "i": [0, 1, 2]}, ["x", "i"], **OPTIONS)  # as in files
    assert sorted(labels(t)) == ["1", "1099511627776", "7"]
    t = ts.from_frame({"x": np.array([1, 2**63], dtype="u8"), "i": [0, 1]}, ["x", "i"], **OPTIONS)
    assert sorted(labels(t)) == ["1", "9223372036854775808"]
    t = ts.from_frame({"x": np.array([2**40 - 1, 1]), "i": [0, 1]}, ["x", "i"], **OPTIONS)
    assert t.shape == (2**40, 2)
    with pytest.raises(ts.FormatError, match="^no nonzeros to build the tensor from: 0 read"):
        ts.from_frame({"x": [], "i": []}, ["x", "i"], **OPTIONS)
    with pytest.raises(ts.FormatError, match="^no nonzeros to build the tensor from: 1 read"):
        ts.from_coo([[0, 0]], [0.0])
    with pytest.raises(ts.ArgumentError, match="text='y': the modes are 'x', 'i'"):
        ts.from_frame({"x": [1], "i": [0]}, ["x", "i"], text="y")


# ---- order ----

def ordered(library_name, fields, categories):
    if library_name == "pandas":
        pd = library("pandas")
        return pd.DataFrame({"x": pd.Categorical(fields, categories=categories, ordered=True), "i": range(len(fields))})
    if library_name == "polars":
        pl = library("polars")
        return pl.DataFrame({"x": pl.Series(fields, dtype=pl.Enum(categories)), "i": list(range(len(fields)))})
    pa = library("pyarrow")
    codes = pa.array([categories.index(x) for x in fields], pa.int8())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(categories), ordered=True)
    return pa.table({"x": column, "i": pa.array(range(len(fields)))})


@pytest.mark.parametrize("name", ["pandas", "pyarrow", "polars"])
def test_ordered_categories_keep_their_order(name):
    sizes = ["small", "medium", "large", "huge"]
    whole = ordered(name, ["large", "small", "large", "medium"], sizes)
    assert labels(ts.from_frame(whole, ["x", "i"], **OPTIONS)) == ["small", "medium", "large"]
    gap = ordered(name, ["huge", "small"], sizes)
    t = ts.from_frame(gap, ["x", "i"], **OPTIONS)
    assert labels(t) == sizes and list(t.used_indices(0)) == [0, 3]
    t = ts.from_frame(iter([whole, gap]), ["x", "i"], **OPTIONS)
    assert labels(t) == sizes and t.nnz == 5
    part = ordered(name, ["large", "small"], ["small", "large"])
    assert labels(ts.from_frame(iter([whole, part]), ["x", "i"], **OPTIONS)) == ["small", "medium", "large"]
    turned = ordered(name, ["large", "small"], ["large", "small"])
    with pytest.raises(ts.ArgumentError, match="column 'x', row 0 of table 1: ordered categories have another order"):
        ts.from_frame(iter([whole, turned]), ["x", "i"], **OPTIONS)
    with pytest.raises(ts.ArgumentError, match="'tiny' is none of the ordered categories"):
        ts.from_frame(iter([whole, {"x": ["small", "tiny"], "i": [0, 1]}]), ["x", "i"], **OPTIONS)


def test_categories_of_numbers():
    pd = library("pandas")
    for categories, names, order in (([1, 3, 7], None, False), ([1, 3, 7], None, True), ([7, 1, 3], ["7", "1", "3"], True)):
        x = pd.Categorical([3, 7, 1], categories=categories, ordered=order)
        t = ts.from_frame(pd.DataFrame({"x": x, "i": range(3)}), ["x", "i"], **OPTIONS)
        if names is None:
            assert list(t.used_indices(0)) == [1, 3, 7]
        else:
            assert labels(t) == names


# ---- against pandas ----

def random_frame(rng, n):
    """Columns of several types with the cells that they stand for, as texts."""
    pd = library("pandas")
    users = rng.integers(0, 40, n)
    names = np.array([f"item {i}" for i in range(25)])[rng.integers(0, 25, n)]
    days = np.datetime64("2024-01-01") + rng.integers(0, 20, n).astype("m8[D]")
    sizes = rng.integers(0, 4, n)
    frame = pd.DataFrame({"user": users, "item": names, "day": days, "size": pd.Categorical.from_codes(sizes, list("dacb"), ordered=True),
                          "v": rng.integers(1, 9, n).astype(float)})
    gaps = rng.random((n, 5)) < rng.choice([0, 0.03])
    frame["user"] = frame["user"].astype(rng.choice(["Int64", "float64", "object"]))
    for at, column in enumerate(frame.columns):
        frame.loc[gaps[:, at], column] = None
    return frame


def as_text(x):
    return str(int(x)) if isinstance(x, (int, float, np.integer)) else str(x)[:10]


def shapes_of(frame, rng, n):
    """The same rows in other hands."""
    cuts = np.sort(rng.integers(0, n, 3))
    yield "whole", frame
    yield "chunks", (frame.iloc[a:b] for a, b in zip([0, *cuts], [*cuts, n]))
    try:
        import pyarrow as pa
        table = pa.Table.from_pandas(frame.assign(user=frame["user"].astype("Int64")), preserve_index=False)
        yield "arrow", pa.concat_tables([table[a:b] for a, b in zip([0, *cuts], [*cuts, n])])
        yield "arrow reader", pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=max(n // 5, 1)))
        import polars as pl
        sizes = pl.col("size").cast(pl.String).cast(pl.Enum(list("dacb")))  # its Categorical has no order
        yield "polars", pl.from_arrow(table).with_columns(sizes)
    except ImportError:
        pass


@pytest.mark.parametrize("seed", range(6))
def test_frames_hold_what_pandas_groups(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 400))
    frame = random_frame(rng, n)
    keys = ["user", "item", "day", "size"]
    kept = frame.dropna()
    wanted = {}
    for row in kept.itertuples(index=False):
        cell = tuple(as_text(getattr(row, k)) for k in keys)
        wanted[cell] = wanted.get(cell, 0) + row.v
    for name, table in shapes_of(frame, rng, n):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            t = ts.from_frame(table, keys, "v", missing="skip", **OPTIONS)
        assert t.skipped == n - len(kept), name
        assert cells(t) == wanted, name
        assert [x for x in "dacb" if x in labels(t, 3)] == labels(t, 3), name
        if "reader" not in name and name != "chunks":
            assert labels(t, 1) == sorted(set(kept["item"])), name


# ---- memory ----

LONG = """
import resource, sys
import numpy as np
import tstream as ts
n = 20000
names = [f"n{i % 500}" for i in range(n)]
if sys.argv[1] == "long":
    names[7] = "x" * 4000
frame = {"x": names if sys.argv[2] == "list" else np.array(names, dtype=object), "i": np.arange(n)}
if sys.argv[2] == "arrow":
    import pyarrow
    frame = pyarrow.table(frame)
ts.from_frame(frame if sys.argv[3] == "whole" else iter([frame]), ["x", "i"], memory="64M", threads=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.parametrize("kind, door", [("list", "whole"), ("object", "whole"), ("arrow", "whole"), ("list", "tables")])
def test_memory_does_not_depend_on_the_longest_name(kind, door):
    if kind == "arrow":
        library("pyarrow")
    short, long = [int(subprocess.check_output([sys.executable, "-c", LONG, length, kind, door])) for length in ("short", "long")]
    assert long < short + 40, (short, long)  # MiB; as many rows as wide as that name are 305 MiB


# ---- times ----

TIMES = os.path.join(os.environ.get("TSTREAM_EXAMPLES", "examples"), "..", "tests", "times.tsv")


def columns_of_times():
    """The table that tests of the library read, too."""
    if not os.path.exists(TIMES):
        pytest.skip("tests/times.tsv is not there")
    with open(TIMES, encoding="utf-8") as f:
        for line in f:
            if not line.startswith("#"):
                fields, unit, bins, readings = line.rstrip("\n").split("\t")
                yield fields.split("|"), None if unit == "auto" else unit, bins, readings.split("|")


def typed(fields):
    """The same column as numbers, where they are such."""
    yield fields
    try:
        yield [int(x) for x in fields]
    except ValueError:
        pass
    if all(re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", x) and decimal.Decimal(float(x)) == decimal.Decimal(x) for x in fields):
        yield np.array([float(x) for x in fields])


def test_columns_of_times():
    n_read = n_refused = 0
    for fields, unit, bins, readings in columns_of_times():
        if any(not x.strip() for x in fields):
            continue  # what is missing is refused before
        for column in typed(fields):
            for tables in (False, True):
                frame = {"when": column, "i": np.arange(len(fields))}
                options = dict(bin={"when": "1d" if bins == "days" else "1h"}, time_unit=unit, **OPTIONS)
                wrong = [i for i, r in enumerate(readings) if r in ("none", "ambiguous")]
                if wrong:
                    with pytest.raises(ts.ArgumentError) as e:
                        ts.from_frame(iter([frame]) if tables else frame, ["when", "i"], **options)
                    assert f"column 'when', row {wrong[0]}" in str(e.value), (column, str(e.value))
                    if readings[wrong[0]] == "ambiguous":
                        assert "; time_unit when=" in str(e.value) and "decides" in str(e.value)
                    n_refused += 1
                    continue
                times = [datetime.datetime.fromisoformat(r) for r in readings]
                if (max(times) - min(times)).days > 40_000:
                    options["bin"] = {"when": "10y" if bins == "days" else "1h"}
                if bins != "days" and (max(times) - min(times)).days > 4_000:
                    continue  # millions of empty slices
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    t = ts.from_frame(iter([frame]) if tables else frame, ["when", "i"], **options)
                got = dict(cells_by_row(t))
                for i, at in enumerate(times):
                    wanted = (f"{(at.year - 1) // 10 * 10 + 1:04}" if options["bin"]["when"] == "10y" else
                              at.date().isoformat() if bins == "days" else at.isoformat()[:13] + ":00")
                    assert got[i] == wanted, (column, readings, got)
                n_read += 1
    assert n_read > 30 and n_refused > 30, (n_read, n_refused)


def cells_by_row(t):
    for coords, _ in t.blocks():
        yield from zip(coords[:, 1].tolist(), t.labels(0, coords[:, 0]))


def test_bins_of_every_type_of_time():
    days = ["2024-01-31", "2024-02-07", "2024-03-01"]
    wanted = {0: "2024-01-29", 1: "2024-02-05", 2: "2024-02-26"}
    columns = {"text": days, "bytes": np.array(days, dtype="S"), "dates": [datetime.date.fromisoformat(d) for d in days],
               "date times with a zone": [datetime.datetime.fromisoformat(d + "T01:00:00+02:00") + datetime.timedelta(hours=1)
                                          for d in days],
               "eight digits": [20240131, 20240207, 20240301], "eight digits, float": np.array([20240131.0, 20240207, 20240301]),
               **{f"datetime64[{u}]": np.array(days, dtype=f"M8[{u}]") for u in ("D", "h", "s", "ms", "us", "ns")},
               **{f"objects of {u}": np.array([np.datetime64(d, u) for d in days], dtype=object) for u in ("D", "s")},
               **{u: np.array(days, dtype=f"M8[{u}]").astype(np.int64) for u in ("s", "ms", "us", "ns")}}
    try:
        import pandas as pd
        columns["pandas"] = pd.Series(pd.to_datetime(days))
        columns["pandas with a zone"] = pd.Series(pd.to_datetime(days, utc=True)).dt.tz_convert("Asia/Tokyo")
        columns["pandas categorical"] = pd.Series(days, dtype="category")
        import pyarrow as pa
        columns["arrow date"] = pa.array(columns["dates"])
        columns["arrow time stamp"] = pa.array(columns["dates"]).cast(pa.timestamp("ns"))
        columns["arrow dictionary"] = pa.array(days).dictionary_encode()
        import polars as pl
        columns["polars"] = pl.Series(days).str.to_datetime()
    except ImportError:
        pass
    for name, column in columns.items():
        for frame in ({"w": column, "i": np.arange(3)}, iter([{"w": column[2:], "i": [2]}, {"w": column[:2], "i": [0, 1]}])):
            t = ts.from_frame(frame, ["w", "i"], bin={"w": "7d"}, **OPTIONS)
            assert dict(cells_by_row(t)) == wanted and t.shape[0] == 5, name
            assert labels(t) == ["2024-01-29", "2024-02-05", "2024-02-12", "2024-02-19", "2024-02-26"], name


def test_times_that_are_years_months_or_weeks():
    for unit, first in (("Y", "2023-01-01"), ("M", "2023-12-01"), ("W", "2023-12-28")):
        column = np.array(["2024-01-01", first], dtype=f"M8[{unit}]")
        columns = [column, np.array(list(column), dtype=object)]
        for c in columns:
            t = ts.from_frame({"w": c, "i": [1, 0]}, ["w", "i"], bin={"w": "1h"}, **OPTIONS)
            assert labels(t)[0] == str(column[1].astype("M8[D]")) + "T00:00", (unit, labels(t)[0])
    pd = library("pandas")
    column = pd.Series(pd.PeriodIndex(["2024Q1", "2024Q2"], freq="Q"))
    t = ts.from_frame(pd.DataFrame({"w": column, "i": [1, 0]}), ["w", "i"], bin={"w": "1mo"}, **OPTIONS)
    assert labels(t) == ["2024-01", "2024-02", "2024-03", "2024-04"]


def test_what_bins_refuse():
    frame = {"w": [20240131, 86400], "i": [0, 1], "v": [NAN, 1.0]}
    with pytest.raises(ts.ArgumentError, match="column 'w', row 1: .*1970-01-02.*in seconds.*time_unit w=s or w=date decides"):
        ts.from_frame(frame, ["w", "i"], bin={"w": "7d"})
    for unit in ("s", {"w": "s"}):
        assert ts.from_frame(frame, ["w", "i"], bin={"w": "7d"}, time_unit=unit).shape[0] > 1
    for options, said in ((dict(bin={"x": "7d"}), "bin: 'x' is not one of 'w', 'i'"), (dict(bin={"w": "7 parsecs"}), "width of a bin"),
                          (dict(bin={"w": "7d"}, time_unit="fortnight"), "fortnight"), (dict(bin={"w": "7d"}, text="w"), "is text, too"),
                          (dict(bin={"w": "7d"}, time_unit={"i": "s"}), "time_unit: 'i' is not one of 'w'")):
        with pytest.raises(ts.ArgumentError, match=said):
            ts.from_frame(frame, ["w", "i"], **options)
    with pytest.warns(ts.TstreamWarning, match="column 'w': all times fall into one bin, that of 1970;"):
        ts.from_frame({"w": [3, 4, 5], "i": [0, 1, 2]}, ["w", "i"], bin={"w": "1y"}, time_unit="s")
    with pytest.warns(ts.TstreamWarning, match="1 row left out"):
        t = ts.from_frame({"w": [20240131, 20240207], "i": [0, 1], "v": [NAN, 1.0]}, ["w", "i"], "v", bin={"w": "7d"}, missing="skip")
    assert labels(t) == ["2024-02-05"]
    with pytest.raises(ts.ArgumentError, match="column 'w', row 1: there is no value"):
        ts.from_frame({"w": np.array(["2024-01-01", "NaT"], dtype="M8[s]"), "i": [0, 1]}, ["w", "i"], bin={"w": "7d"})


# ---- tables in files ----

HEADERS = [("user,item|ann,book|bob,lamp", {}, "doubt"), ("user,item|ann,book|bob,lamp", dict(header=True), "header"),
           ("user,item|ann,book|bob,lamp", dict(header=False), "data"), ("ann,book|bob,lamp|ann,lamp", {}, "data"),
           ("user,item|ann,book|bob,lamp", dict(modes=["who", "what"]), "doubt"), ("user,n|ann,1|bob,2", {}, "header"),
           ("user,when|ann,2024-01-31|bob,2024-02-01", {}, "header"), ("ann,2024-01-31|bob,2024-02-01", {}, "data")]


@pytest.mark.parametrize("lines, options, verdict", HEADERS)
def test_the_first_line_of_a_table(lines, options, verdict, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(lines.replace("|", "\n") + "\n")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        t = ts.build(path, tmp_path / "x.tsh", value="none", **options)
    assert t.nnz == lines.count("|") + (verdict != "header")
    notes = [str(w.message) for w in told if "looks like the names of columns" in str(w.message)]
    assert len(notes) == (verdict == "doubt") and all("header says which it is" in n for n in notes)


def test_files_of_tables(tmp_path):
    lines = ["user,week,item,stars", "ann,20240131,7,3", "ben,20240207,8,4", "ann,20240301,7,5"]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "x.txt").write_text("\n".join(x.replace(",", ";") for x in lines[1:]) + "\n")
    frame = {"user": ["ann", "ben", "ann"], "week": [20240131, 20240207, 20240301], "item": [7, 8, 7], "stars": [3, 4, 5]}
    modes = ["user", "week", "item"]
    wanted = ts.from_frame(frame, modes, "stars", bin={"week": "7d"}, text="item", **OPTIONS)
    options = dict(bin={"week": "7d"}, text=["item"], **OPTIONS)
    tables = [ts.build(tmp_path / "x.csv", tmp_path / "a.tsh", modes=modes, value="stars", **options),
              ts.build(tmp_path / "x.csv", tmp_path / "b.tsh", columns=[0, 1, 2], value=3, bin={1: "7d"}, text=2, time_unit="date",
                       **OPTIONS),
              ts.build(tmp_path / "x.txt", tmp_path / "c.tsh", separator=";", header=False, modes=modes, value=3, **options)]
    for t in tables:
        assert cells(t) == cells(wanted) and labels(t, 1) == labels(wanted, 1) and t.nnz == 3
    weighted = ts.build(tmp_path / "x.csv", tmp_path / "d.tsh", modes=["user", "week"], value="none", weights="stars", text="week")
    assert weighted.shape == (2, 3) and weighted.dtype == np.float32
    (tmp_path / "z.csv").write_text("b,1\na,2\n")
    for names, more in ((["b", "a"], {}), (["a", "b"], dict(sorted_names=True))):
        assert labels(ts.build(tmp_path / "z.csv", tmp_path / "z.tsh", value="none", header=False, replace=True, **more)) == names
    (tmp_path / "y.csv").write_text("\n".join([*lines, "ben,86400,7,1"]) + "\n")
    with pytest.raises(ts.FormatError, match="y.csv:5: column 1 .*1970-01-02.*; time_unit week=s or week=date decides"):
        ts.build(tmp_path / "y.csv", tmp_path / "e.tsh", modes=modes, value="stars", **options)
    (tmp_path / "x.list").write_text((tmp_path / "x.csv").read_text())  # no name of a table
    with pytest.raises(ts.LimitError, match="separator=',' reads such a file"):
        ts.build(tmp_path / "x.list", tmp_path / "e.tsh")
    for given in (dict(bin={"week": "7d"}), dict(sorted_names=True)):
        with pytest.raises(ts.ArgumentError, match="for files; from_frame"):
            ts.build(iter([]), tmp_path / "e.tsh", **given)
    for wrong, said in ((dict(bin={"week": "7"}), "width of a bin"), (dict(bin={"day": "7d"}), "day"), (dict(separator=",,"), "one char"),
                        (dict(time_unit={"week": "x"}, bin={"week": "1d"}), "unit of time")):
        with pytest.raises(ts.ArgumentError, match=said):
            ts.build(tmp_path / "x.csv", tmp_path / "e.tsh", modes=modes, value="stars", **wrong)


def test_names_keep_marks_that_files_of_labels_lose(tmp_path):
    names = ["\ufeffa", "a\r", "a", "\ra"]
    table = {"x": names, "y": [0, 1, 0, 1]}
    for number, frame in enumerate((table, iter([table]))):
        t = ts.from_frame(frame, ["x", "y"], out=tmp_path / f"{number}.tsh")
        assert sorted(t.labels(0, np.arange(4))) == sorted(names)
    t = ts.from_coo((np.arange(4), np.arange(4)), np.ones(4), labels=[names, None])
    assert t.labels(0, np.arange(4)) == names


def test_coordinates_of_signed_and_unsigned_types():
    coords = tuple(np.array([0, 1, 2], dtype=t) for t in ("u8", "i8", "u1"))
    coords, values = next(ts.from_coo(coords, [1.0, 2.0, 3.0]).blocks())
    assert coords.tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2]] and values.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ts.Error):
        ts.from_coo((np.array([1 << 63], dtype="u8"), np.array([1])), [1.0])


def test_files_with_missing_fields(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,v\nx,1,2\ny,NA,3\nz,2,4\n")
    with pytest.raises(ts.Error, match=r"x.csv:3: .*missing='skip'"):
        ts.build(path, tmp_path / "no.tsh", value="v")
    with pytest.warns(ts.TstreamWarning, match="1 line left out"):
        t = ts.build(path, tmp_path / "x.tsh", value="v", missing="skip")
    assert t.skipped == 1 and t.labels(0, [0, 1]) == ["x", "z"]


def test_columns_with_quotes_in_their_names(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('"say ""a""",b,v\n3,1,2\n')
    assert ts.build(path, tmp_path / "x.tsh", columns=['say "a"', "b"], value="v").mode_names == ('say "a"', "b")


@pytest.mark.parametrize("mark, called", [("\n", "line end"), ("\0", "NUL byte")])
def test_names_that_lines_cannot_hold(mark, called):
    with pytest.raises(ts.ArgumentError, match=f"column 'a', row 1: text .* has a {called}"):
        ts.from_frame({"a": ["q", f"r{mark}s"], "b": [0, 1], "v": [1.0, 1.0]}, ["a", "b"], "v", **OPTIONS)
    with pytest.raises(ts.ArgumentError, match=f"label .* of mode 0 has a {called}"):
        ts.from_coo([[0, 0], [1, 1]], [1.0, 1.0], labels=[["q", f"r{mark}s"]], **OPTIONS)


def test_one_rounded_weight_is_called_one():
    frame = {"a": [0, 1], "b": [0, 1], "v": [1.0, 1.0], "w": [1e-60, 1.0]}
    with pytest.warns(ts.TstreamWarning, match="^1 value or weight nearer to 0 than float32 holds"):
        ts.from_frame(frame, ["a", "b"], "v", weights="w", memory="64M")


@pytest.mark.parametrize("dtype", [int, "int8", bool, complex, "float16", "M8[s]"])
def test_types_that_are_not_stored(dtype):
    with pytest.raises(ts.ArgumentError, match="values are float32 or float64"):
        ts.from_coo([[0, 0], [1, 1]], [1.0, 1.0], dtype=dtype)
