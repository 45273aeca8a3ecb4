# SPDX-License-Identifier: BSD-3-Clause
"""The page of a model, beside what the model itself says."""

import gzip
import os
import re
import subprocess

import numpy as np
import pytest

import tstream as ts
from tstream import _report

NAMES = ["ann", "bo", "cy", "di <i>"]


def model_of(rank=3):
    rng = np.random.default_rng(1)
    table = {"who": rng.choice(NAMES, 500), "day": rng.integers(0, 30, 500), "v": rng.random(500)}
    with ts.from_frame(table, ["who", "day"], "v") as t:
        m = ts.cp(t, rank, sweeps=10, cpu=True, progress=False)
    return m


def page_of(m, path, **options):
    m.report(path, **options)
    data = path.read_bytes()
    return (gzip.decompress(data) if path.name.endswith(".gz") else data).decode()


def test_a_page_has_the_labels_of_a_closed_tensor(tmp_path):
    m = model_of()
    page = page_of(m, tmp_path / "groups.html", lines=[])
    assert "<script" not in page and "<title>groups" in page
    assert page.count("ann") >= 3 and "di &lt;i&gt;" in page and "di <i>" not in page
    for component in range(3):
        for row in m.top(component, "who", n=4):
            assert f"{abs(row['value']):.2g}"[:3] in page


def test_it_is_the_page_of_the_program(tmp_path):
    m = model_of()
    m.save(tmp_path / "x.cp", "npy")
    subprocess.run([_report._program(), "report", "x.cp", "-q", "-o", "want.html"], cwd=tmp_path,
                   check=True)
    (tmp_path / "own").mkdir()
    own = page_of(m, tmp_path / "own" / "x.html")

    def without_times(text):
        return re.sub(r"<!--.*?-->|[0-9-]{10}[ T][0-9:]{5,8}", "", text, flags=re.S)

    assert without_times(own) == without_times((tmp_path / "want.html").read_text())


@pytest.mark.parametrize("lines, number", [([], 0), ("day", 3), (["who", 1], 6), ([-1], 3)])
def test_modes_that_are_lines(tmp_path, lines, number):
    page = page_of(model_of(), tmp_path / "x.html", lines=lines)
    drawn = page_of(model_of(), tmp_path / "none.html", lines=[]).count("<svg class=")
    assert page.count("<svg class=") - drawn == number


def test_components_and_a_compressed_page(tmp_path):
    m = model_of(4)
    few = page_of(m, tmp_path / "few.html.gz", components=2, top=1)
    assert len(few) < len(page_of(m, tmp_path / "all.html"))


def test_a_tensor_is_named(tmp_path):
    rng = np.random.default_rng(2)
    t = ts.from_coo(rng.integers(0, 9, (60, 2)), rng.random(60), out=tmp_path / "cells.tsh")
    m = ts.cp(t, 2, sweeps=3, cpu=True, progress=False)
    for given in (t, tmp_path / "cells.tsh", str(tmp_path / "cells.tsh")):
        assert "cells.tsh" in page_of(m, tmp_path / "x.html", tensor=given, replace=True)


def test_existing_pages(tmp_path):
    m, path = model_of(), tmp_path / "x.html"
    m.report(path)
    with pytest.raises(ts.BusyError, match="x.html exists: replace=True replaces it"):
        m.report(path)
    m.report(path, replace=True)
    path.write_text("by hand")
    with pytest.raises(ts.Error, match="nothing shows that it is as this program wrote it.* as path"):
        m.report(path, replace=True)
    assert path.read_text() == "by hand"


@pytest.mark.parametrize("settings, kind, text", [
    (dict(path="nowhere/x.html"), FileNotFoundError, "No such file"),
    (dict(path=7), TypeError, "path"),
    (dict(lines="what"), ts.ArgumentError, "no mode is called 'what', only who, day"),
    (dict(lines=[2]), ts.ArgumentError, "there is no mode 2"),
    (dict(components=-1), ts.ArgumentError, "components"),
    (dict(top=1.5), TypeError, "top"),
    (dict(tensor="none.tsh"), FileNotFoundError, "none.tsh"),
    (dict(tensor=7), TypeError, "path"),
])
def test_what_is_refused(tmp_path, monkeypatch, settings, kind, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=text):
        model_of().report(**{"path": "x.html", **settings})
    assert not os.path.exists("x.html")


def test_the_page_of_a_saved_model_has_its_fit(tmp_path):
    """From history.json, which has other names for some numbers of a sweep than run.json."""
    m = model_of()
    page = page_of(m, tmp_path / "x.html")
    assert f"The fit is <b>{m.history[-1].fit:.6f}</b> (1 is exact) after " \
        f"{len(m.history)} sweeps" in page
    assert "Fit by sweep" in page and "computing products" in page
    assert ("not converged</span>" in page) == (not m.converged)
    rng = np.random.default_rng(2)
    dense = np.einsum("ir,jr->ij", rng.random((6, 1)), rng.random((5, 1)))
    exact = ts.cp(dense, 1, sweeps=50, tol=1e-3, cpu=True, progress=False)
    page = page_of(exact, tmp_path / "y.html")
    assert f'<span class="good">{"exact" if exact.exact else "converged"}</span>' in page
    bare = page_of(ts.Model.from_factors(None, [np.eye(3), np.eye(3)]), tmp_path / "z.html")
    assert "The fit is" not in bare and "Fit by sweep" not in bare
