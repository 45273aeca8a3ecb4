# SPDX-License-Identifier: BSD-3-Clause
"""Arguments and failures as users of NumPy, pandas and scikit-learn expect them."""

import dataclasses
import errno
import gc
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import tstream as ts

CPU = dict(cpu=True, progress=False)
RUN = dict(sweeps=3, tol=0, **CPU)


@pytest.fixture(scope="module")
def tensor(tmp_path_factory):
    rng = np.random.default_rng(3)
    coords = np.unique(rng.integers(0, [20, 15, 10], size=(900, 3)), axis=0)
    return ts.from_coo(coords, rng.random(len(coords)) + 0.5, modes=["a", "b", "c d"],
                       out=tmp_path_factory.mktemp("t") / "x.tsh")


def same(m, other):
    return (m.weights == other.weights).all() and all(
        (m.factors[k] == other.factors[k]).all() for k in range(m.order))


# ---- seeds ----

@pytest.mark.parametrize("make", [
    lambda: np.random.default_rng(4), lambda: np.random.RandomState(4),
    lambda: np.random.SeedSequence(4), lambda: np.random.PCG64(4)])
def test_a_generator_is_a_seed(tensor, make):
    once = ts.cp(tensor, 2, seed=make(), **RUN)
    assert same(once, ts.cp(tensor, 2, seed=make(), **RUN))
    assert same(once, ts.cp(tensor, 2, seed=once.history[0].seed, **RUN))


@pytest.mark.parametrize("seed", [np.random.default_rng(4), np.random.RandomState(4), None])
def test_a_generator_goes_on(tensor, seed):
    seeds = {ts.cp(tensor, 2, seed=seed, sweeps=1, **CPU).history[0].seed for _ in range(4)}
    assert len(seeds) == 4


def test_a_seed_of_numpy_is_a_number(tensor):
    assert same(ts.cp(tensor, 2, seed=np.int64(5), **RUN), ts.cp(tensor, 2, seed=5, **RUN))
    folds = [ts.cross_validate(tensor, 2, folds=2, seed=np.random.default_rng(1), **RUN)
             for _ in range(2)]
    assert folds[0] == folds[1] and np.isfinite(folds[0].held_out).all()
    with pytest.raises(ts.ArgumentError, match="give seed"):
        ts.cp(tensor, 2, seed=None, out="x", resume="auto", **RUN)


# ---- names of modes ----

@pytest.mark.parametrize("named, numbered", [
    (dict(nonneg=["a"]), dict(nonneg=[0])), (dict(nonneg="b"), dict(nonneg=1)),
    (dict(nonneg=("a", 2)), dict(nonneg=[0, 2])), (dict(simplex="a"), dict(simplex=0)),
    (dict(l1={"a": 0.1}, nonneg=True), dict(l1={0: 0.1}, nonneg=True)),
    (dict(l2={"b": 0.5, 2: 1}), dict(l2=[0, 0.5, 1])),
    (dict(bounds={"b": (0, 1)}), dict(bounds={1: (0, 1)})),
    (dict(smooth={"a": 2}, l2=0.1), dict(smooth={0: 2}, l2=0.1)),
    (dict(orthogonal=["b"]), dict(orthogonal=[1]))])
def test_a_mode_has_its_name(tensor, named, numbered):
    assert same(ts.cp(tensor, 2, **named, **RUN), ts.cp(tensor, 2, **numbered, **RUN))


def test_a_fixed_mode_has_its_name(tensor):
    m = ts.cp(tensor, 2, **RUN)
    assert same(ts.cp(tensor, 2, init=m, fix="a", **RUN), ts.cp(tensor, 2, init=m, fix=0, **RUN))


@pytest.mark.parametrize("wrong, says", [
    (dict(nonneg=["c"]), "no mode is called 'c', only a, b, c d"), (dict(l1={"c": 1}), "'c'"),
    (dict(bounds={"a": (0, 1), 0: (0, 1)}), "names a mode twice"), (dict(fix="c"), "'c'")])
def test_a_name_of_no_mode(tensor, wrong, says):
    with pytest.raises(ts.ArgumentError, match=says):
        ts.cp(tensor, 2, **wrong, **RUN)


# ---- starts ----

def starts():
    def tensorly(w, f):
        return pytest.importorskip("tensorly.cp_tensor").CPTensor((w, f))

    def pyttb(w, f):
        return pytest.importorskip("pyttb.ktensor").ktensor([np.asfortranarray(x) for x in f], w)
    return [tensorly, pyttb, lambda w, f: (w, f), lambda w, f: [w, list(f)], lambda w, f: list(f),
            lambda w, f: (None, f), lambda w, f: [x.tolist() for x in f]]


@pytest.mark.parametrize("number", range(7))
def test_a_start_is_what_people_hold(tensor, number):
    rng = np.random.default_rng(8)
    factors = [rng.random((n, 2)) for n in tensor.shape]
    want = ts.cp(tensor, 2, init=ts.Model.from_factors(None, factors), **RUN)
    assert same(ts.cp(tensor, 2, init=starts()[number](np.ones(2), factors), **RUN), want)


@pytest.mark.parametrize("kind", ["ktensor", "npy", "splatt"])
def test_a_start_is_a_file(tensor, kind, tmp_path):
    m = ts.cp(tensor, 2, precision="float64", **RUN)
    m.save(tmp_path / "m.cp", kind)
    want = ts.cp(tensor, 2, init=m, **RUN)
    assert same(ts.cp(tensor, 2, init=tmp_path / "m.cp", **RUN), want)
    assert same(ts.cp(tensor, 2, init=str(tmp_path / "m.cp"), **RUN), want)
    several = ts.cp(tensor, 2, restarts=2, init=tmp_path / "m.cp", **RUN)
    assert same(several[2, 1], want)


@pytest.mark.parametrize("wrong, kind", [
    (5, TypeError), ({"weights": 1}, TypeError), ([], TypeError), ([[1, 2], [3]], TypeError),
    ([np.ones((20, 2))], ValueError),
    ((np.ones(3), [np.ones((n, 2)) for n in (20, 15, 10)]), ValueError),
    ([np.ones((n, 2)) for n in (20, 15, 11)], ValueError), ("hosvd", ValueError),
    ([np.full((n, 2), np.nan) for n in (20, 15, 10)], ValueError)])
def test_a_start_that_is_none(tensor, wrong, kind):
    with pytest.raises(kind) as e:
        ts.cp(tensor, 2, init=wrong, **RUN)
    assert isinstance(e.value, ts.ArgumentError) and len(str(e.value)) < 300


# ---- failures ----

@pytest.mark.parametrize("kind, make", [
    (FileNotFoundError, lambda p: ts.open(p / "nowhere.tsh")),
    (FileNotFoundError, lambda p: ts.load(p / "nowhere.cp")),
    (NotADirectoryError, lambda p: ts.load(p / "file" / "x.cp"))])
def test_a_failure_of_a_file_is_what_python_raises(kind, make, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(kind) as e:
        make(tmp_path)
    assert isinstance(e.value, ts.FileError) and isinstance(e.value, OSError)
    assert e.value.errno == e.value.sys != 0 and e.value.strerror == os.strerror(e.value.sys)
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is type(e.value) and str(again) == str(e.value) and again.sys == e.value.sys
    assert again.code == e.value.code == -2


@pytest.mark.parametrize("sys, kind", [
    (errno.ENOENT, FileNotFoundError), (errno.EEXIST, FileExistsError),
    (errno.EACCES, PermissionError), (errno.EPERM, PermissionError),
    (errno.EISDIR, IsADirectoryError),
    (errno.ENOTDIR, NotADirectoryError), (errno.EIO, OSError)])
def test_the_cause_chooses_the_class(sys, kind):
    e = ts._errors.error_of(-2, sys, "x: it failed")
    assert isinstance(e, kind) and isinstance(e, ts.FileError) and str(e) == "x: it failed"
    if sys == errno.EIO:
        assert type(e) is ts.FileError


@pytest.mark.parametrize("code, kind", [
    (-1, MemoryError), (-3, ValueError), (-4, RuntimeError), (-5, ValueError), (-7, ValueError)])
def test_codes_are_exceptions_of_python(code, kind):
    e = ts._errors.error_of(code, 0, "it failed")
    assert isinstance(e, kind) and isinstance(e, ts.Error) and str(e) == "it failed"


def test_a_wrong_type_is_a_type_error(tensor):
    with pytest.raises(TypeError) as e:
        ts.cp(tensor, "8", **RUN)
    assert isinstance(e.value, ValueError) and isinstance(e.value, ts.ArgumentTypeError)


# ---- sweeps, precision, log ----

def test_a_sweep_is_a_value(tensor):
    m = ts.cp(tensor, 2, seed=3, **RUN)
    s = m.history[1]
    numbers = dataclasses.asdict(s)
    assert numbers["sweep"] == 2 and numbers["rank"] == 2 and numbers["seed"] == 3
    assert ts.Sweep(**numbers) == s == pickle.loads(pickle.dumps(s)) and s != m.history[0]
    assert np.isnan(numbers["rmse"]) and dataclasses.replace(s, fit=0) != s
    with pytest.raises(TypeError):
        hash(s)


def test_a_precision_is_a_type_of_numpy(tensor):
    want = ts.cp(tensor, 2, precision="float64", **RUN)
    for precision in (np.float64, np.dtype("float64"), float):
        assert same(ts.cp(tensor, 2, precision=precision, **RUN), want)
    m = ts.Model.from_factors(want.weights, want.factors, dtype=np.float32)
    assert m.dtype == np.float32


def test_the_library_is_private():
    with pytest.warns(FutureWarning, match="private"):
        assert ts.lib is ts._lib.lib
    assert "lib" not in ts.__all__ and not hasattr(ts, "libs")


def test_sweeps_are_logged(tensor, caplog):
    with caplog.at_level(logging.INFO, logger="tstream"):
        m = ts.cp(tensor, 2, seed=3, **RUN)
    assert caplog.messages == [f"rank 2, seed 3, {s}" for s in m.history]
    caplog.clear()
    ts.cp(tensor, 2, **RUN)
    assert caplog.messages == []


@pytest.mark.parametrize("options", [
    {}, {"nonneg": True}, {"observed": True}, {"loss": "poisson"}, {"loss": "huber:1"},
    {"precision": "float64", "out": "x.cp"}])
def test_stop_iteration_is_the_last_sweep(tensor, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = {**RUN, "seed": 3, **options}

    def enough(s):
        if s.sweep == 3:
            raise StopIteration
    m = ts.cp(tensor, 2, on_sweep=enough, **{**run, "sweeps": 50})
    assert len(m.history) == 3 and not m.converged
    assert m == ts.cp(tensor, 2, replace=True, **{**run, "sweeps": 3})


def test_stop_iteration_ends_one_of_several(tensor):
    def enough(s):
        if s.rank == 2 and s.sweep == 2:
            raise StopIteration
    c = ts.cp(tensor, [2, 3], restarts=2, on_sweep=enough, **{**RUN, "sweeps": 5})
    assert [len(m.history) for m in c] == [2, 2, 5, 5]
    assert c[2, 1] == ts.cp(tensor, 2, **{**RUN, "sweeps": 2})


def test_ctrl_c_keeps_the_checkpoint(tensor, tmp_path):
    """As from a terminal; what was computed until then is not computed again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    out = tmp_path / "x.cp"

    def interrupt(s):
        if s.sweep == 2:
            threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT)).start()
    run = dict(seed=3, tol=0, **CPU)
    try:
        with pytest.raises(KeyboardInterrupt):
            ts.cp(tensor, 2, sweeps=10**8, out=out, checkpoint=300, on_sweep=interrupt, **run)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not out.exists() and (tmp_path / "x.cp.partial").exists()
    began = []
    with pytest.raises(KeyError):
        ts.cp(tensor, 2, sweeps=10**8, out=out, resume=True,
              on_sweep=lambda s: began.append(s) or {}[0], **run)
    assert began[0].sweep > 2


def test_a_python_without_its_lock_is_refused():
    program = "import sys; sys._is_gil_enabled = lambda: {}; import tstream"
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(ts.__file__))}
    for enabled in (True, False):
        p = subprocess.run([sys.executable, "-c", program.format(enabled)], env=env, text=True,
                           stderr=subprocess.PIPE)
        assert (p.returncode == 0) == enabled, p.stderr
    assert "ImportError" in p.stderr and "PYTHON_GIL=1" in p.stderr


def test_save_names_what_it_has(tmp_path):
    """Its arguments are path and replace; out and resume are those of cp."""
    m = ts.Model.from_factors(None, [np.ones((2, 1)), np.ones((3, 1))])
    m.save(tmp_path / "x.cp")
    os.mkdir(tmp_path / "other")
    (tmp_path / "other" / "note").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name, replace in (("x.cp", False), ("other", False), ("other", True), ("file", True),
                          ("file", False), ("", False)):
        with pytest.raises(ts.Error) as e:
            m.save(tmp_path / name if name else "", replace=replace)
        assert not re.search(r"\b(out|resume|with)\b", str(e.value).replace(str(tmp_path), "")), e
        assert isinstance(e.value, ts.BusyError) == bool(name)
    assert (tmp_path / "other" / "note").read_text() == "mine"


def test_merged_nonzeros_are_counted(caplog, tmp_path):
    coords, values = [[0, 1], [0, 1], [1, 1], [0, 1]], [1.0, 2.0, 3.0, 4.0]
    with caplog.at_level("INFO", logger="tstream"):
        t = ts.from_coo(coords, values)
        assert (t.merged, t.nnz) == (2, 2) and "2 nonzeros merged into another" in caplog.text
        caplog.clear()
        (tmp_path / "x.tns").write_text("1 1 2\n1 1 3\n")
        assert ts.build(tmp_path / "x.tns", tmp_path / "x.tsh").merged == 1
        assert "x.tsh: 1 nonzero merged" in caplog.text
        caplog.clear()
        kept = ts.from_coo(coords, values, duplicates="keep")
        assert (kept.merged, ts.from_coo([[0, 0]], [1.0]).merged, caplog.text) == (0, 0, "")
    assert ts.from_frame({"a": [0, 0, 1], "b": [1, 1, 1]}, ["a", "b"]).merged == 1


def test_no_file_stays_open(tmp_path):
    """Times that are spooled, and half of an archive."""
    tables = [{"day": np.array(["2024-01-01", day], "datetime64[D]"), "who": ["a", "b"]}
              for day in ("2024-01-09", "2024-02-01")]
    np.savez(tmp_path / "x.npz", x=np.ones((20, 30)))
    whole = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(whole[:len(whole) // 2])
    before = set(os.listdir("/proc/self/fd"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        assert ts.from_frame(iter(tables), ["day", "who"], bin={"day": "7d"}).shape == (5, 2)
        broken = iter([tables[0], {**tables[1], "who": [None, "b"]}])
        with pytest.raises(ts.ArgumentError, match="no value"):
            ts.from_frame(broken, ["day", "who"], bin={"day": "7d"})
        with pytest.raises(ts.FormatError):
            ts.open(tmp_path / "x.npz")
        gc.collect()
    assert not [x for x in told if issubclass(x.category, ResourceWarning)]
    assert set(os.listdir("/proc/self/fd")) <= before
