# SPDX-License-Identifier: BSD-3-Clause
"""Models, collections, evaluations and tensors as values: copied, pickled, compared, shown."""

import copy
import gc
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import tstream as ts

CPU = dict(cpu=True, progress=False)
RUN = dict(sweeps=3, tol=0, seed=4, **CPU)
HISTORY = ("history", "converged", "exact", "sweeps_before", "mean", "best_sweep", "loss")


def build(out, seed=3, **options):
    rng = np.random.default_rng(seed)
    coords = np.unique(rng.integers(0, [20, 15, 10], size=(900, 3)), axis=0)
    coords = coords[coords[:, 0] % 3 != 1]  # empty slices
    return ts.from_coo(coords, rng.random(len(coords)) + 0.5, (21, 15, 10), modes=["a", "b", "c"],
                       out=out, **options)


@pytest.fixture(scope="module")
def tensor(tmp_path_factory):
    return build(tmp_path_factory.mktemp("t") / "x.tsh")


def pickled(x, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(x, protocol))


def clouded(x):
    cloudpickle = pytest.importorskip("cloudpickle")
    return pickle.loads(cloudpickle.dumps(x))


def out_of_band(x):
    buffers = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=buffers)


AGAIN = [copy.copy, copy.deepcopy, pickled, clouded, out_of_band, lambda x: pickled(x, 2)]


# ---- models ----

@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("options", [
    {}, {"precision": "float64"}, {"observed": True, "mean": True, "hold_out": 0.2, "patience": 1},
    {"loss": "poisson"}])
def test_a_model_comes_back(tensor, again, options):
    m = ts.cp(tensor, 3, **{**RUN, **options})
    back = again(m)
    assert type(back) is ts.Model and back is not m and back == m and not back != m
    assert back.dtype == m.dtype and back.shape == m.shape and back.rank == m.rank
    for k in range(m.order):
        assert back.factors[k].tobytes() == m.factors[k].tobytes()
        assert (back.rows(k)[0] is None) == (m.rows(k)[0] is None)
    assert all(getattr(back, name) == getattr(m, name) for name in HISTORY)
    assert back.fit(cpu=True) == m.fit(cpu=True) and repr(back) == repr(m)
    assert back.top(0, "a") == m.top(0, "a") and back.rows(0)[0][1] == 2


def test_a_copy_is_its_own(tensor):
    m = ts.cp(tensor, 2, **RUN)
    for again in AGAIN:
        back = again(m)
        back.history.append(None)
        assert len(m.history) == 3
    deep = copy.deepcopy(m)
    deep.factors[1].setflags(write=True)
    deep.factors[1][0, 0] += 1
    assert deep != m


def test_a_model_outlives_what_it_came_from(tensor):
    data = pickle.dumps(ts.cp(tensor, 2, **RUN))
    want = ts.cp(tensor, 2, **RUN)
    model = pickle.loads(data)
    factor = model.factors[0]
    assert model == want
    del model, data
    gc.collect()
    assert (factor == want.factors[0]).all() and not factor.flags.writeable


def test_a_model_without_its_tensor_is_a_model(tmp_path):
    t = build(tmp_path / "x.tsh")
    m = ts.cp(t, 2, **RUN)
    data = pickle.dumps(m)
    assert pickle.loads(data).fit(cpu=True) == m.fit(cpu=True)
    gc.collect()
    shutil.rmtree(tmp_path / "x.tsh")
    build(tmp_path / "x.tsh", seed=5)  # another one of this name is not its tensor
    back = pickle.loads(data)
    assert back == m
    with pytest.raises(ts.ArgumentError, match="needs a tensor"):
        back.fit(cpu=True)


@pytest.mark.parametrize("make", [
    lambda: build(None), lambda: ts.from_array(np.random.default_rng(1).random((4, 5, 6)))])
def test_a_model_of_a_temporary_tensor_is_pickled(make):
    m = ts.cp(make(), 2, **RUN)
    assert pickled(m) == m == copy.deepcopy(m)


@pytest.mark.parametrize("change", [
    lambda w, f: (w * 2, f), lambda w, f: (w, [f[0][::-1], *f[1:]]), lambda w, f: (w, f[:-1]),
    lambda w, f: (w[:1], [x[:, :1] for x in f]), lambda w, f: (w, [f[0][:-1], *f[1:]])])
def test_another_model_is_not_equal(tensor, change):
    m = ts.cp(tensor, 2, **RUN)
    other = ts.Model.from_factors(*change(m.weights, [np.asarray(f) for f in m.factors]))
    assert m != other and other != m and m != 3 and m is not None
    with pytest.raises(TypeError):
        hash(m)


def test_rows_of_zeros_may_be_stored_or_not(tensor):
    m = ts.cp(tensor, 2, **RUN)
    whole = ts.Model.from_factors(m.weights, m.factors, dtype="float64", modes=m.names)
    assert m.rows(0)[0] is not None and whole.rows(0)[0] is None and m == whole == m
    rows = np.array(m.factors[0])
    rows[1] = 1
    assert m != ts.Model.from_factors(m.weights, [rows, *m.factors[1:]], modes=m.names)
    assert m != ts.Model.from_factors(m.weights, m.factors)  # without names of modes


@pytest.mark.parametrize("formats", ["ktensor", "npy", "splatt"])
@pytest.mark.parametrize("rows", ["all", "used"])
@pytest.mark.parametrize("options", [
    {}, {"precision": "float64", "l2": 0.1}, {"loss": "huber:1", "hold_out": 0.1},
    {"observed": True, "mean": True, "hold_out": 0.2, "patience": 1, "sweeps": 9}])
def test_a_model_is_what_its_run_wrote(tensor, formats, rows, options, tmp_path):
    m = ts.cp(tensor, 3, out=tmp_path / "x.cp", formats=formats, rows=rows, **{**RUN, **options})
    back = ts.load(tmp_path / "x.cp", tensor)
    assert back == m and all(getattr(back, name) == getattr(m, name) for name in HISTORY)
    assert pickled(back) == m and pickled(back).history == m.history


def test_a_reader_knows_what_it_reads(tensor, tmp_path):
    m = ts.cp(tensor, 2, out=tmp_path / "m.cp", **RUN)
    c = ts.cp(tensor, [2, 3], out=tmp_path / "c.cp", **RUN)
    assert ts.Model.load(tmp_path / "m.cp") == m and ts.Collection.load(tmp_path / "c.cp") == c
    with pytest.raises(ts.ArgumentError, match="Collection.load reads"):
        ts.Model.load(tmp_path / "c.cp")
    with pytest.raises(ts.ArgumentError, match="Model.load reads"):
        ts.Collection.load(tmp_path / "m.cp")


def test_a_resumed_run_is_read(tensor, tmp_path):
    out = tmp_path / "x.cp"
    ts.cp(tensor, 2, out=out, **RUN)
    m = ts.cp(tensor, 2, out=out, resume=True, **{**RUN, "sweeps": 5})
    back = ts.load(out)
    assert back.sweeps_before == m.sweeps_before == 3 and back.history == m.history
    assert [s.sweep for s in back.history] == [4, 5]


@pytest.mark.parametrize("damage", [
    lambda x: x[:40] + "7" + x[41:], lambda x: x[:-9], lambda x: "{}", lambda x: "",
    lambda x: json.dumps({**{k: v for k, v in json.loads(x).items() if k[:5] != "file_"},
                          "sweeps": 3})])
def test_a_damaged_record_is_left_out(tensor, damage, tmp_path):
    m = ts.cp(tensor, 2, out=tmp_path / "x.cp", formats="npy", **RUN)
    file = tmp_path / "x.cp" / "run.json"
    file.write_text(damage(file.read_text()))
    with pytest.warns(ts.TstreamWarning, match="run.json"):
        back = ts.load(tmp_path / "x.cp")
    assert back == m and back.history == []


@pytest.mark.parametrize("name, value", [
    ("weights", np.ones(3)), ("weights", np.array([1, np.nan])), ("rank", 0), ("dtype", "float64"),
    ("shape", (21, 15)), ("rows", []), ("rows", [(None, np.ones((2, 2)))] * 3),
    ("rows", [(np.array([5, 4]), np.ones((2, 2)))] * 3),
    ("rows", [(np.array([1, 99]), np.ones((2, 2)))] * 3),
    ("rows", [(np.array([1]), np.ones((2, 2)))] * 3),
    ("rows", [(np.array([1, 2]), np.full((2, 2), np.inf))] * 3)])
def test_a_state_of_another_shape_is_refused(tensor, name, value):
    m = ts.cp(tensor, 2, **RUN)
    state = {**m.__getstate__(), name: value}
    back = ts.Model.__new__(ts.Model)
    if name == "dtype":
        back.__setstate__(state)
        assert back == m and back.dtype == np.float64
        return
    with pytest.raises(ts.ArgumentError):
        back.__setstate__(state)


# ---- collections, evaluations ----

@pytest.mark.parametrize("again", AGAIN)
def test_a_collection_comes_back(tensor, again, tmp_path):
    c = ts.cp(tensor, [2, 3], restarts=2, out=tmp_path / "c.cp", **RUN)
    for x in (c, ts.load(tmp_path / "c.cp")):
        back = again(x)
        assert back == c == x and back.table == x.table and list(back.best) == [2, 3]
        assert [m.history for m in back] == [m.history for m in c]
    assert c != ts.cp(tensor, [2, 3], restarts=2, **{**RUN, "seed": 9}) and c != 3
    with pytest.raises(TypeError):
        hash(c)


@pytest.mark.parametrize("again", AGAIN)
def test_an_evaluation_comes_back(tensor, again):
    e = ts.cp(tensor, 2, **RUN).evaluate(top=3, by_slice="b")
    back = again(e)
    assert back == e and back.top == e.top and back.slices == e.slices
    assert back != ts.cp(tensor, 3, **RUN).evaluate(top=3, by_slice="b")


# ---- tensors ----

@pytest.mark.parametrize("again", AGAIN)
def test_a_tensor_comes_back(tensor, again):
    back = again(tensor)
    assert back.shape == tensor.shape and back.mode_names == tensor.mode_names
    assert back.norm == tensor.norm and ts.cp(back, 2, **RUN) == ts.cp(tensor, 2, **RUN)
    back.close()
    assert tensor.labels(0, [0]) == [None]  # which is not closed


def test_a_tensor_is_found_from_elsewhere(tensor, monkeypatch, tmp_path):
    monkeypatch.chdir(os.path.dirname(tensor.path))
    data = pickle.dumps(ts.open("x.tsh"))
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(data).shape == tensor.shape


def test_a_tensor_that_changed_is_refused(tmp_path):
    data = pickle.dumps(build(tmp_path / "x.tsh"))
    build(tmp_path / "x.tsh", seed=5, replace=True)
    with pytest.raises(ts.FormatError, match="is another tensor"):
        pickle.loads(data)
    shutil.rmtree(tmp_path / "x.tsh")
    with pytest.raises(FileNotFoundError):
        pickle.loads(data)


def test_a_tensor_that_was_replaced_while_it_is_open_is_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.ones((4, 3, 2)))
    build(tmp_path / "x.tsh").close()
    monkeypatch.chdir(tmp_path)
    opened = [ts.open("x.tsh"), ts.open("x.npy")]
    model = ts.cp(opened[0], 2, **RUN)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")  # where it is does not depend on where we are later
    assert [pickled(t).shape for t in opened] == [t.shape for t in opened]
    build(tmp_path / "x.tsh", seed=5, replace=True)
    np.save(tmp_path / "x.npy", np.full((4, 3, 2), 2.0))
    for t in opened:
        with pytest.raises(ts.FormatError, match="was replaced since this tensor was opened"):
            pickle.dumps(t)
    assert pickled(model) == model and pickled(model).labels(0) == model.labels(0)


def test_a_dataset_of_hdf5_comes_back(tmp_path):
    h5py = pytest.importorskip("h5py")
    x = np.random.default_rng(1).random((4, 3, 2))
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["data"], f["more"] = x, x + 1
    for name in ("data", "more"):
        try:
            t = ts.open(f"{tmp_path / 'x.h5'}:/{name}")
        except ts.Error as e:
            pytest.skip(str(e))
        assert ts.cp(pickled(t), 2, **RUN) == ts.cp(t, 2, **RUN)


def test_a_raw_file_comes_back(tmp_path):
    x = np.random.default_rng(1).random((4, 3, 2))
    (tmp_path / "x:1.raw").write_bytes(x.tobytes())
    t = ts.open(f"{tmp_path / 'x:1.raw'}:f8:4x3x2")
    assert ts.cp(pickled(t), 2, **RUN) == ts.cp(t, 2, **RUN)


def test_a_dense_tensor_comes_back(tmp_path):
    x = np.random.default_rng(1).random((40, 50, 60))
    np.save(tmp_path / "x.npy", x)
    want = ts.cp(x, 2, **RUN)
    for t in (ts.from_array(x), ts.open(tmp_path / "x.npy")):
        for again in AGAIN:
            assert ts.cp(again(t), 2, **RUN) == want
    data = pickle.dumps(ts.open(tmp_path / "x.npy"))
    np.save(tmp_path / "x.npy", x + 1)
    with pytest.raises(ts.FormatError, match="is another tensor"):
        pickle.loads(data)


def test_a_temporary_tensor_is_not_pickled():
    t = ts.from_frame({"who": ["a", "b"], "day": [0, 1]}, ["who", "day"])
    for make in (pickle.dumps, lambda x: pickle.dumps([x])):
        with pytest.raises(TypeError, match="out='NAME.tsh', which keeps it"):
            make(t)
    again = copy.copy(t), copy.deepcopy(t)
    t.close()
    assert again[0].labels("who", [0, 1]) == again[1].labels("who", [0, 1]) == ["a", "b"]
    with pytest.raises(ts.ArgumentError, match="closed"):
        pickle.dumps(t)


# ---- other processes ----

def work(x):
    if isinstance(x, ts.Tensor):
        return ts.cp(x, 2, **RUN)
    return x.fit(cpu=True), x


@pytest.mark.parametrize("how", ["spawn", "forkserver", "loky", "threads", "dask"])
def test_other_processes_take_and_give_models(tensor, how):
    m = ts.cp(tensor, 2, **RUN)
    if how in ("loky", "threads"):
        joblib = pytest.importorskip("joblib")
        kind = "loky" if how == "loky" else "threading"
        got = joblib.Parallel(n_jobs=2, backend=kind)(joblib.delayed(work)(x) for x in (tensor, m))
    elif how == "dask":
        dask = pytest.importorskip("dask")
        got = dask.compute(*[dask.delayed(work)(x) for x in (tensor, m)], scheduler="processes")
    else:
        script = MULTIPROCESSING % how
        out = subprocess.check_output([sys.executable, "-c", script, tensor.path], text=True)
        assert out == "True True True\n"
        return
    assert got[0] == m and got[0].history[0].fit == m.history[0].fit
    assert got[1][0] == m.fit(cpu=True) and got[1][1] == m


MULTIPROCESSING = """
import multiprocessing, operator, sys
import tstream as ts
if __name__ == "__main__":
    t = ts.open(sys.argv[1])
    m = ts.cp(t, 2, sweeps=3, tol=0, seed=4, cpu=True, progress=False)
    with multiprocessing.get_context("%s").Pool(1) as pool:
        fit = pool.apply(operator.methodcaller("fit", cpu=True), (m,))
        back = pool.apply(operator.itemgetter(0), ([m],))
        t_back = pool.apply(operator.itemgetter(0), ([t],))
    print(fit == m.fit(cpu=True), back == m, t_back.norm == t.norm)
"""


def test_a_forked_process_gives_a_model_back(tensor):
    m = ts.cp(tensor, 2, **RUN)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(pickled, (m,)) == m


# ---- what people see ----

def test_what_notebooks_show(tensor, tmp_path):
    t = ts.from_frame({"w<o": ["a<b", "c", "a<b", "\x1b[2J"], "day": [0, 1, 1, 0]}, ["w<o", "day"])
    m = ts.cp(t, 2, **RUN)
    page = m._repr_html_()
    assert "a&lt;b" in page and "<b" not in page.replace("<body", "").replace("<tbody", "")
    assert "\x1b" not in page and "w&lt;o" in page and "3 x 2, rank 2" in page
    assert f"fit {m.history[-1].fit:.6g}" in page and f"{m.weights[0]:.4g}" in page
    assert repr(m) == f"<tstream.Model: 3 x 2, rank 2, float32, fit {m.history[-1].fit:.6g}>"
    near = np.einsum("i,j,k->ijk", [1, 2, 4], [1, 3], [2, 1, 5]).astype(float)
    sparse = ts.from_coo(np.argwhere(near > 0), near[near > 0], near.shape, out=tmp_path / "n.tsh")
    for out, options in ((None, dict(loss="poisson")), (tmp_path / "m.cp", dict(smooth={2: 1e-9}))):
        m = ts.cp(sparse, 2, sweeps=40, tol=0, out=out, **options, **CPU)  # float32 sums are off
        for same in [m, copy.copy(m), pickled(m)] + ([] if out is None else [ts.load(out)]):
            assert f"fit {m.fit():.6g}" in repr(same)
    m = ts.cp(tensor, 3, sweeps=40, tol=0, hold_out=0.2, patience=2, **CPU)
    assert m.best_sweep < len(m.history) and f"fit {m.history[m.best_sweep - 1].fit:.6g}" in repr(m)
    m.save(tmp_path / "p.cp")
    assert repr(ts.load(tmp_path / "p.cp")) == repr(m)
    made = ts.Model.from_factors(np.ones(12), [np.ones((3, 12))] * 2)
    assert repr(made) == "<tstream.Model: 3 x 3, rank 12, float64>"
    assert "2 more components" in made._repr_html_() and "mode 1" in made._repr_html_()
    assert "<td>day</td><td>2</td><td>2</td>" in t._repr_html_() and "4 nonzeros" in t._repr_html_()
    dense = ts.from_array(np.ones((2, 3)))._repr_html_()
    assert "Dense tensor" in dense and "6 cells" in dense
    c = ts.cp(tensor, [1, 2], **RUN)
    assert "2 models, rank 1, 2" in c._repr_html_() and c._repr_html_().count("<tr>") == 3


# ---- threads, import ----

def test_threads_share_models_and_tensors(tensor):
    """The interpreter changes threads as often as it can."""
    m = ts.cp(tensor, 3, **RUN)
    want = m.top(0, "a"), m.predict([[0, 1, 2]])[0], pickle.dumps(m.weights), m.fit(cpu=True)
    wrong, before = [], sys.getswitchinterval()

    def use(number):
        for _ in range(20):
            back = pickled(m) if number % 2 else copy.copy(m)
            got = back.top(0, "a"), back.predict([[0, 1, 2]])[0], pickle.dumps(back.weights)
            if got != want[:3] or back != m or (back.factors[0] != m.factors[0]).any():
                wrong.append(number)
        if back.fit(cpu=True, threads=1) != want[3]:
            wrong.append(number)
    threads = [threading.Thread(target=use, args=(i,)) for i in range(8)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


FIRST_USE = """
import sys, threading
import tstream as ts
sys.setswitchinterval(1e-6)
start, got = threading.Barrier(16), []
def use():
    start.wait()
    got.append(ts.losses())
threads = [threading.Thread(target=use) for _ in range(16)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(len(got), len(set(got)))
"""


def test_threads_load_the_library_at_once():
    out = subprocess.check_output([sys.executable, "-c", FIRST_USE], text=True)
    assert out == "16 1\n"


def test_an_import_is_quick(tmp_path):
    """Beyond NumPy, in seconds of this process; code is compiled once."""
    code = ("import numpy, time; start = time.process_time(); import tstream; "
            "print(time.process_time() - start)")
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    times = [float(subprocess.check_output([sys.executable, "-c", code], env=env))
             for _ in range(5)]
    assert min(times) <= 0.15


@pytest.mark.parametrize("formats", ["ktensor", "npy", "splatt"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("dense", [False, True])
def test_a_saved_model_is_the_model(formats, precision, dense, tmp_path):
    x = np.random.default_rng(4).random((5, 6, 7))
    t = ts.from_array(x) if dense else ts.from_coo(np.argwhere(x > 0.5), x[x > 0.5], shape=x.shape)
    m = ts.cp(t, 2, precision=precision, progress=False, cpu=True)
    m.save(tmp_path / "m.cp", formats)
    again = ts.load(tmp_path / "m.cp")
    assert again == m and again.dtype == np.dtype(precision) and again.shape == m.shape
    assert len(m.history) > 1 and all(getattr(again, x) == getattr(m, x) for x in HISTORY)


SAVED = {
    "least squares": {}, "penalties": {"l2": 0.1}, "poisson": {"loss": "poisson"},
    "huber": {"loss": "huber:1", "hold_out": 0.1},
    "mean and patience": {"observed": True, "mean": True, "hold_out": 0.2, "patience": 1,
                          "sweeps": 9}}


@pytest.mark.parametrize("what", SAVED)
def test_a_saved_model_keeps_its_history(tensor, what, tmp_path):
    """Each attribute, through files, again and again, and from the files of a run."""
    m = ts.cp(tensor, 3, out=tmp_path / "x.cp", **{**RUN, **SAVED[what]})
    again = m
    for turn in range(2):
        again.save(tmp_path / "m.cp", replace=turn > 0)
        again = ts.load(tmp_path / "m.cp", tensor)
        assert {x: getattr(again, x) for x in HISTORY} == {x: getattr(m, x) for x in HISTORY}
        assert again.observed == m.observed and again == m
        assert all(type(a.fit) is float and type(a.sweep) is int for a in again.history)
    ts.load(tmp_path / "x.cp").save(tmp_path / "x.cp", replace=True)
    assert sorted(os.listdir(tmp_path / "x.cp")) == ["history.json", "labels", "model.ktensor"]
    assert ts.load(tmp_path / "x.cp").history == m.history


@pytest.mark.parametrize("resume", [False, True])
def test_each_of_several_models_says_what_one_says(tensor, resume, tmp_path):
    options = {**RUN, "observed": True, "mean": True, "hold_out": 0.2, "patience": 1, "sweeps": 9}
    out = tmp_path / "x.cp"
    if resume:  # one of the models is done when the run is stopped
        def stop(sweep):
            if sweep.rank == 2 and sweep.sweep >= 2:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            ts.cp(tensor, [1, 2], out=out, on_sweep=stop, checkpoint=1e-9, **options)
    several = ts.cp(tensor, [1, 2], out=out, resume="auto" if resume else False, **options)
    for key, m in several.models.items():
        alone = ts.cp(tensor, key[0], **{**options, "seed": key[1]})
        assert m == alone and m.mean == alone.mean is not None
        assert m.best_sweep == alone.best_sweep is not None
        assert m.sweeps_before + len(m.history) == len(alone.history)
        if not resume:
            assert all(getattr(m, x) == getattr(alone, x) for x in HISTORY if x != "history")
            assert [s.fit for s in m.history] == [s.fit for s in alone.history]
    plain = ts.cp(tensor, [1, 2], **RUN)
    assert all(m.mean is None and m.best_sweep is None for m in plain)


def test_a_model_without_a_run_has_no_history(tmp_path):
    m = ts.Model.from_factors([2.0], [[[1.0], [0.0]], [[1.0]]])
    m.history = []
    m.save(tmp_path / "m.cp")
    assert not (tmp_path / "m.cp" / "history.json").exists()
    assert ts.load(tmp_path / "m.cp").history == []


def test_numbers_that_are_not_finite_are_saved(tensor, tmp_path):
    m = ts.cp(tensor, 2, **RUN)
    m.history[0].log_likelihood, m.history[1].objective = float("-inf"), np.float64("inf")
    m.history[1].n_dead = np.int64(3)
    m.save(tmp_path / "m.cp")
    assert ts.load(tmp_path / "m.cp").history == m.history


@pytest.mark.parametrize("damage", [
    lambda x: x[:60] + "7" + x[61:], lambda x: x[:-9], lambda x: "{}", lambda x: "",
    lambda x: json.dumps({k: v for k, v in json.loads(x).items() if k[:5] != "file_"} | {
        "sweeps": [{"fit": 1}]})])
def test_a_damaged_history_is_left_out(tensor, damage, tmp_path):
    m = ts.cp(tensor, 2, **RUN)
    m.save(tmp_path / "m.cp", "npy")
    file = tmp_path / "m.cp" / "history.json"
    file.write_text(damage(file.read_text()))
    with pytest.warns(ts.TstreamWarning, match="history.json"):
        back = ts.load(tmp_path / "m.cp")
    assert back == m and back.history == []


def spoiled(what, folder):
    """Makes a record of the run in the folder that `what` names."""
    if what == "a pipe":
        os.remove(folder / "history.json")
        os.mkfifo(folder / "history.json")
    elif what == "another rank":
        other = ts.cp(np.random.default_rng(1).random((6, 5, 4)), 3, sweeps=3)
        other.save(folder.parent / "other.cp")
        shutil.copy(folder.parent / "other.cp" / "history.json", folder / "history.json")


@pytest.mark.parametrize("what, says", [
    ("a pipe", None), ("another rank", "is no record of a run")])
def test_a_record_that_is_not_of_the_model(tmp_path, what, says):
    m = ts.cp(np.random.default_rng(0).random((6, 5, 4)), 2, sweeps=3)
    m.save(tmp_path / "m.cp")
    spoiled(what, tmp_path / "m.cp")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        got = ts.load(tmp_path / "m.cp")
    assert got.history == [] and all(np.array_equal(a, b) for a, b in zip(got.factors, m.factors))
    assert says is None or any(says in str(w.message) for w in told)


@pytest.mark.parametrize("shape", [
    "null", "2.5", '"999"', '["a", 2, 2]', "[0, 1, 2]", f"[{2**70}, 1, 2]"])
def test_a_run_json_with_another_shape(tmp_path, shape):
    ts.cp(np.random.default_rng(0).random((6, 5, 4)), 2, sweeps=3, out=tmp_path / "x.cp")
    file = tmp_path / "x.cp" / "run.json"
    record = json.loads(file.read_text())
    record["tensor"]["shape"] = json.loads(shape)
    record.pop("checksum", None)
    record.pop("file_checksum", None)
    file.write_text(json.dumps(record))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        m = ts.load(tmp_path / "x.cp")
    assert m.rank == 2 and any("without its history" in str(w.message) for w in told)
