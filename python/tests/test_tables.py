# SPDX-License-Identifier: BSD-3-Clause
"""Tables that calls return: rows, columns and data frames of the same numbers."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tstream as ts

CPU = dict(cpu=True, progress=False)
ROWS = [{"rank": 2, "fit": 0.5, "loss": None, "name": "a", "errors": [1.0, 2.0]},
        {"rank": 3, "fit": None, "loss": None, "name": None, "errors": [3.0, 4.0]}]


@pytest.fixture(scope="module")
def tensor(tmp_path_factory):
    rng = np.random.default_rng(3)
    x = {"who": np.array(list("abcde"))[rng.integers(0, 5, 80)], "day": rng.integers(0, 6, 80)}
    return ts.from_frame(x, ["who", "day"], out=tmp_path_factory.mktemp("t") / "x.tsh")


def test_rows_and_columns_are_of_one_table():
    x = ts.Table.from_rows(ROWS)
    assert list(x) == ROWS == [x[0], x[-1]] and x == ROWS and len(x) == 2 and x.shape == (2, 5)
    assert x.columns == ["rank", "fit", "loss", "name", "errors"] and "fit" in x and "it" not in x
    assert x.rank.tolist() == [2, 3] == x["rank"].tolist() and x.rank.dtype.kind == "i"
    assert x.fit.dtype == x.loss.dtype == np.float64
    assert np.isnan(x.fit[1]) and np.isnan(x.loss).all()
    assert x.name.tolist() == ["a", None] and x.errors.tolist() == [[1, 2], [3, 4]]
    assert x[:1] == ts.Table.from_rows(ROWS[:1]) and list(x[1:]) == ROWS[1:]
    assert x[["fit", "rank"]].columns == ["fit", "rank"] and x != x[:1] and x != 3
    assert dir(x).count("errors") == 1


def test_a_row_is_not_the_tables():
    x = ts.Table.from_rows(ROWS)
    x[0]["rank"] = 7
    assert x[0]["rank"] == 2


@pytest.mark.parametrize("wrong, kind", [
    (lambda x: x["fits"], KeyError), (lambda x: x[2], IndexError), (lambda x: x[1.5], TypeError),
    (lambda x: x.fits, AttributeError), (lambda x: x._fits, AttributeError),
    (lambda x: hash(x), TypeError), (lambda x: ts.Table({"a": [1], "b": [1, 2]}), ValueError)])
def test_what_a_table_has_not(wrong, kind):
    with pytest.raises(kind):
        wrong(ts.Table.from_rows(ROWS))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy,
                                   lambda x: pickle.loads(pickle.dumps(x))])
def test_a_table_is_a_value(again):
    x = ts.Table.from_rows(ROWS)
    assert again(x) == x and list(again(x)) == ROWS


def test_a_table_is_what_was_a_data_frame(tensor):
    pandas = pytest.importorskip("pandas")
    m = ts.cp(tensor, 2, sweeps=2, **CPU)
    for x in (m.top(0, "who"), m.evaluate(top=3).top, m.evaluate(by_slice=0).slices):
        frame = x.to_frame()
        assert list(frame) == x.columns and frame.equals(pandas.DataFrame(list(x)))
        assert all((frame[name].to_numpy() == x[name]).all() for name in x.columns)
        with pytest.warns(FutureWarning, match=r"write table.to_frame\(\).to_dict"):
            assert x.to_dict("records") == frame.to_dict("records")
        with pytest.warns(FutureWarning):
            assert x.iloc[0].equals(frame.iloc[0])
    models = ts.cp(tensor, [1, 2], restarts=2, sweeps=2, **CPU)
    assert models.table == models.rows
    assert models.table.to_frame().equals(pandas.DataFrame(models.rows))
    folds = ts.cross_validate(tensor, [1, 2], folds=2, sweeps=2, **CPU)
    assert folds.to_frame().equals(pandas.DataFrame(list(folds)))


WITHOUT = """
import sys
sys.modules["pandas"] = None
import tstream as ts
m = ts.cp(ts.open(sys.argv[1]), 2, sweeps=2, cpu=True, progress=False)
print(m.top(0, "who"))
try:
    m.top(0, "who").iloc
except AttributeError as e:
    print(e)
try:
    m.top(0, "who").to_frame()
except ImportError:
    print("no pandas")
"""


def test_a_table_is_the_same_without_pandas(tensor):
    out = subprocess.check_output([sys.executable, "-c", WITHOUT, tensor.path], text=True)
    top = ts.cp(tensor, 2, sweeps=2, **CPU).top(0, "who")
    assert out == f"{top}\na table has no column and no attribute 'iloc'\nno pandas\n"


def test_a_table_prints_its_ends():
    x = ts.Table({"i": np.arange(100), "name": [f"<{i}>" for i in range(99)] + ["a\x1b[2J"]})
    text, page = repr(x), x._repr_html_()
    assert len(text.splitlines()) == 22 and "(80 more rows)" in text and "\x1b" not in text
    assert "80 more rows" in page and "&lt;9&gt;" in page and "<9>" not in page
    assert page.count("<tr>") == 22 and repr(x[:0]) == "<tstream.Table without rows: i, name>"
    assert repr(ts.Table.from_rows([])) == "<tstream.Table without rows: >"
