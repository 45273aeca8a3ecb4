# SPDX-License-Identifier: BSD-3-Clause
"""The package against NumPy, and against the programs where they say the same."""

import ctypes
import gc
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import tstream as ts

CPU = dict(cpu=True, progress=False)


@pytest.fixture(scope="module")
def coo():
    rng = np.random.default_rng(7)
    shape = (60, 30, 20)
    coords = np.unique(np.stack([rng.integers(0, n, 4000) for n in shape], axis=1), axis=0)
    coords = coords[coords[:, 0] % 3 != 1]  # empty slices
    return coords, rng.random(len(coords)).astype(np.float32).astype(float) + 0.5, shape


@pytest.fixture(scope="module")
def tensor(coo, tmp_path_factory):
    coords, values, shape = coo
    return ts.from_coo(coords, values, shape, tmp_path_factory.mktemp("t") / "x.tsh", dtype="float64",
                       modes=["user", "item", "week"], memory="64M", shard="64K",
                       labels=[None, [f"item {i}" for i in range(30)], None])


def dense(model):
    letters = "abcdefgh"[: len(model.factors)]
    return np.einsum("r," + ",".join(x + "r" for x in letters) + "->" + letters, model.weights,
                     *[np.asarray(f, dtype=float) for f in model.factors])


def dense_of(coo):
    coords, values, shape = coo
    x = np.zeros(shape)
    x[tuple(coords.T)] = values
    return x


@pytest.mark.parametrize("chosen", [{}, {"GOMP_SPINCOUNT": "77"}, {"OMP_WAIT_POLICY": "PASSIVE"}])
def test_waiting_threads_sleep_early(chosen):
    """OpenMP prints what it was loaded with."""
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
    env = {k: v for k, v in os.environ.items() if k not in names}
    env.update(chosen, OMP_DISPLAY_ENV="VERBOSE")
    code = "import os, tstream as ts; ts._lib.lib.ts_words(1); print([n for n in %r if n in os.environ])" % (names,)
    p = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    assert p.stdout.strip() == str(list(chosen))  # the environment is as it was
    if "GOMP_SPINCOUNT" not in p.stderr:
        pytest.skip("OpenMP is not GNU's")
    spins = [line.split("'")[1] for line in p.stderr.splitlines() if "GOMP_SPINCOUNT" in line][0]
    expected = {"OMP_WAIT_POLICY": "0", "GOMP_SPINCOUNT": "77"}
    assert spins == (expected[next(iter(chosen))] if chosen else "1000")


def test_what_was_built_comes_back(coo, tensor):
    coords, values, shape = coo
    assert tensor.shape == shape and tensor.nnz == len(values) and tensor.dtype == np.float64
    assert tensor.mode_names == ("user", "item", "week") and tensor.value_name is None
    assert tensor.norm == pytest.approx(np.linalg.norm(values), rel=1e-12)
    for mode in range(3):
        parts = list(tensor.blocks(mode, size=700))
        assert all(len(v) <= 700 for _, v in parts) and len(parts) > 1
        got = np.concatenate([p[0] for p in parts])
        assert (np.diff(got[:, mode].astype(int)) >= 0).all()
        back = np.zeros(shape)
        back[tuple(got.T.astype(int))] = np.concatenate([p[1] for p in parts])
        assert (back == dense_of(coo)).all()
    assert (tensor.used_indices("user") == np.unique(coords[:, 0])).all()
    assert tensor.labels("item", [3, 0, 3]) == ["item 3", "item 0", "item 3"]
    assert tensor.labels(0, [1]) == [None]


def test_all_ways_to_build_are_one(coo, tmp_path):
    coords, values, shape = coo
    text = tmp_path / "x.tns"
    text.write_text("".join(f"{i} {j} {k} {v!r}\n" for (i, j, k), v in zip((coords + 1).tolist(), values.tolist())))
    ts.build(text, tmp_path / "text.tsh", shape=shape, memory="64M", shard="64K")
    ts.from_coo(coords, values, shape, tmp_path / "coo.tsh", memory="64M", shard="64K", base=1)
    order = np.random.default_rng(1).permutation(len(values))
    pieces = (((coords[p, 0], coords[p, 1], coords[p, 2]), values[p]) for p in np.array_split(order, 13))
    ts.from_batches(pieces, tmp_path / "batches.tsh", shape=shape, memory="64M", shard="64K", base=1)
    frame = {"a": coords[:, 0], "b": coords[:, 1], "c": coords[:, 2], "v": values}
    ts.from_frame(frame, ["a", "b", "c"], "v", tmp_path / "frame.tsh", shape=shape, labels=None,
                  names=None, memory="64M", shard="64K", base=1)
    for name in ("coo", "batches", "frame"):
        # options say what the source was
        subprocess.check_call(["diff", "-r", "-x", "options", tmp_path / "text.tsh", tmp_path / f"{name}.tsh"])


def test_frames_have_labels():
    frame = {"who": np.array(["bob", "ann", "bob", "cy"]), "year": np.array([3, 1, 0, 3])}
    t = ts.from_frame(frame, ["who", "year"], memory="128M")
    assert t.shape == (3, 4) and t.mode_names == ("who", "year") and t.nnz == 4
    assert t.labels("who", [0, 1, 2]) == ["ann", "bob", "cy"]
    folder = os.path.dirname(t.path)
    assert os.path.exists(folder)
    del t
    gc.collect()
    assert not os.path.exists(folder)  # nobody said where: it was for the object alone


def test_tables_come_one_after_another(tmp_path):
    who = ["bob", "ann", "bob", "cy", "ann", "dee", "bob"]
    year, stars = [3, 1, 0, 3, 2, 2, 1], [1.0, 2, 3, 4, 5, 6, 7]

    def tables():
        for i in range(0, 7, 2):
            yield {"who": np.array(who[i:i + 2]), "year": np.array(year[i:i + 2]), "stars": np.array(stars[i:i + 2])}
    t = ts.from_frame(tables(), ["who", "year"], "stars", memory="128M")
    assert t.shape == (4, 4) and t.mode_names == ("who", "year")
    assert t.labels(0, range(4)) == ["bob", "ann", "cy", "dee"]
    coords, values = next(t.blocks())
    index = {"bob": 0, "ann": 1, "cy": 2, "dee": 3}
    assert {(*c, v) for c, v in zip(coords.tolist(), values)} >= {(index["cy"], 3, 4.0), (index["bob"], 0, 3.0)}
    assert t.norm == pytest.approx(np.linalg.norm(stars)) and t.nnz == 7

    def broken():
        yield {"who": np.array(["a"]), "year": np.array([1])}
        yield {"who": np.array(["a", None], dtype=object), "year": np.array([1, 2])}
    with pytest.raises(ts.ArgumentError, match="column 'who', row 1"):
        ts.from_frame(broken(), ["who", "year"], memory="128M")
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"who": who, "year": year, "stars": stars})
    reader = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3))
    again = ts.from_frame(reader, ["who", "year"], "stars", memory="128M")
    assert again.labels(0, range(4)) == t.labels(0, range(4)) and again.norm == t.norm
    whole = ts.from_frame(table, ["who", "year"], "stars", memory="128M")
    assert whole.labels(0, range(4)) == ["ann", "bob", "cy", "dee"] and whole.norm == t.norm


def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"who": ["bob", "ann", "bob"], "year": [3, 1, 0], "stars": [1.0, 2.0, 3.0]})
    t = ts.from_frame(frame, ["who", "year"], "stars", memory="128M")
    assert t.shape == (2, 4) and t.labels("who", [0, 1]) == ["ann", "bob"]
    assert list(ts.cp(t, 1, sweeps=2, **CPU).top(0, "who", 2).columns) == ["index", "value", "label"]
    frame.loc[1, "who"] = None
    with pytest.raises(ts.ArgumentError, match="column 'who', row 1"):
        ts.from_frame(frame, ["who", "year"], "stars", memory="128M")


LARGE = """
import sys
import numpy as np
import tstream as ts
n, step, budget, out = int(sys.argv[1]), 200_000, sys.argv[2], sys.argv[3]
rng = np.random.default_rng(3)
def batches():
    for at in range(0, n, step):
        k = min(step, n - at)
        yield rng.integers(0, [1_000_000, 300_000, 5_000], size=(k, 3)), rng.random(k)
t = ts.build(batches(), out, memory=budget, threads=2)
with open("/proc/self/status") as f:
    peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))
print(t.nnz, peak)
"""


@pytest.mark.parametrize("n, budget", [(2_000_000, 40)] + [(50_000_000, 256)] * (os.environ.get("TSTREAM_TEST_LARGE") == "1"))
def test_batches_are_not_held(n, budget, tmp_path):
    """Python, NumPy and a batch included: VmHWM is of this program alone, unlike what getrusage has from its parent."""
    out = subprocess.check_output([sys.executable, "-c", LARGE, str(n), f"{budget}M", tmp_path / "x.tsh"], cwd=tmp_path)
    nnz, peak = map(int, out.split())
    print(f"{n} nonzeros within {budget} MiB: peak {peak / 1024:.1f} MiB")
    assert 0.9 * n < nnz <= n and peak < (budget + 64) * 1024


def test_cp_is_that_of_the_program(tensor, tmp_path):
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is None:
        pytest.skip("TSTREAM_PROGRAM does not name tstream")
    for precision in ("float32", "float64"):
        seen = []
        m = ts.cp(tensor, 4, sweeps=6, tol=0, seed=3, precision=precision, on_sweep=seen.append, **CPU)
        assert [s.sweep for s in seen] == list(range(1, 7)) and m.history == seen
        subprocess.check_call([program, "cp", tensor.path, "--cpu", "-r4", "-i6", "--tol", "0", "-s3", "-p", precision,
                               "-f", "npy", "-o", tmp_path / precision], stdout=subprocess.DEVNULL)
        assert (np.load(tmp_path / precision / "weights.npy") == m.weights).all()
        for k in range(3):
            want = np.load(tmp_path / precision / f"mode{k + 1}.npy")
            assert want.dtype == m.factors[k].dtype and (want == m.factors[k]).all()
        assert seen[-1].fit == pytest.approx(m.fit(cpu=True), abs=1e-6)


def test_a_setting_has_its_name_of_the_command_line(tensor, tmp_path):
    m = ts.cp(tensor, 4, iters=3, tol=0, out=tmp_path / "x", format=["npy"], **CPU)
    assert len(m.history) == 3 and (tmp_path / "x" / "weights.npy").exists()
    again = ts.cp(tensor, 4, sweeps=3, iters=3, tol=0, out=tmp_path / "x", force=True, **CPU)
    assert (again.weights == m.weights).all() and (tmp_path / "x" / "model.ktensor").exists()
    for both, match in ((dict(sweeps=4, iters=3), "sweeps=4 and iters=3"), (dict(sweeps=50, iters=3), "sweeps=50 and iters=3"),
                        (dict(formats=("npy",), format="ktensor"), "formats=.* and format='ktensor'")):
        with pytest.raises(ts.ArgumentError, match=match + ": these are two names for one setting"):
            ts.cp(tensor, 4, **both, **CPU)
    ts.cp(tensor, 4, sweeps=1, formats=("npy",), format=["npy"], output=tmp_path / "y", **CPU)
    assert (tmp_path / "y" / "weights.npy").exists()


def test_settings_are_in_the_signature():
    of_cp, of_folds = inspect.signature(ts.cp).parameters, inspect.signature(ts.cross_validate).parameters
    assert list(of_cp)[:2] == ["tensor", "rank"] and of_cp["sweeps"].default == 50 and of_cp["l2"].default is None
    assert all(p.kind is p.KEYWORD_ONLY for p in list(of_cp.values())[2:])
    assert not any(p.kind is p.VAR_KEYWORD for p in (*of_cp.values(), *of_folds.values()))
    missing = {"restarts", "hold_out", "hold_out_from", "save_init", "out", "output", "resume", "trace"}
    assert set(of_folds) == set(of_cp) - missing | {"folds"}
    assert all(of_folds[name].default == p.default for name, p in of_cp.items() if name in of_folds)
    for name in list(of_cp):
        assert re.search(rf"^ *(\w+, )?{name}(, \w+)? : ", ts.cp.__doc__, re.M), name
    with pytest.raises(TypeError, match="swee"):
        ts.cp(None, 4, swees=3)


def test_constraints_are_those_of_the_program(tensor, tmp_path):
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is None:
        pytest.skip("TSTREAM_PROGRAM does not name tstream")
    cases = [({"nonneg": True}, ["--nonneg"]),
             ({"nonneg": [0, -1], "l2": 0.25}, ["--nonneg", "1,3", "--l2", "0.25"]),
             ({"nonneg": True, "l1": {1: 0.5}, "l2": [1, 0, 1]}, ["--nonneg", "--l1", "2=0.5", "--l2", "1=1,3=1"])]
    for i, (arguments, options) in enumerate(cases):
        m = ts.cp(tensor, 4, sweeps=6, tol=0, seed=3, progress=False, **arguments)
        out = tmp_path / str(i)
        subprocess.check_call([program, "cp", tensor.path, "--cpu", "-r4", "-i6", "--tol", "0", "-s3", *options, "-q",
                               "-f", "npy", "-o", out], stdout=subprocess.DEVNULL)
        assert (np.load(out / "weights.npy") == m.weights).all()
        for k in range(3):
            assert (np.load(out / f"mode{k + 1}.npy") == m.factors[k]).all()
        if arguments["nonneg"] is True:
            assert all((m.factors[k] >= 0).all() for k in range(3))
        objective = [s.objective for s in m.history]
        assert np.isnan(objective).all() if i == 0 else all(np.diff(objective) <= 1e-6 * objective[0])
    for wrong in ({"nonneg": [3]}, {"l1": [1, 2]}, {"l2": -1}, {"nonneg": "all"}, {"nonneg": [True, False]},
                  {"nonneg": [True, 1, 2]}, {"nonneg": 1.0}, {"nonneg": [0.0]}, {"l1": {True: 1}},
                  {"l1": {2: 1, -1: 2}}):
        with pytest.raises(ts.ArgumentError):
            ts.cp(tensor, 4, progress=False, **wrong)


def test_an_accelerated_run_is_that_of_the_program(tensor, tmp_path):
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is None:
        pytest.skip("TSTREAM_PROGRAM does not name tstream")
    m = ts.cp(tensor, 4, sweeps=12, tol=0, seed=3, accelerate=True, **CPU)
    plain = ts.cp(tensor, 4, sweeps=12, tol=0, seed=3, **CPU)
    subprocess.check_call([program, "cp", tensor.path, "--cpu", "-r4", "-i12", "--tol", "0", "-s3", "--accelerate", "-q",
                           "-f", "npy", "-o", tmp_path / "x"], stdout=subprocess.DEVNULL)
    for k in range(3):
        assert (np.load(tmp_path / "x" / f"mode{k + 1}.npy") == m.factors[k]).all()
    assert [s.fit for s in m.history[:5]] == [s.fit for s in plain.history[:5]]
    assert m.history[6].fit != plain.history[6].fit
    with pytest.raises(ts.ArgumentError, match="accelerate needs least squares of all cells"):
        ts.cp(tensor, 4, accelerate=True, orthogonal=1, progress=False)


def test_shares_and_bounds_are_those_of_the_program(tensor, tmp_path):
    m = ts.cp(tensor, 4, sweeps=6, tol=0, seed=3, simplex=[0], bounds={1: (-0.25, 0.5), 2: (0, np.inf)}, **CPU)
    assert np.allclose(m.rows(0)[1].sum(axis=1), 1, atol=1e-5) and (m.factors[0] >= 0).all()
    assert (np.abs(m.factors[1] - 0.125) <= 0.375 + 1e-6).all() and (m.factors[2] >= 0).all()
    fit = [s.fit for s in m.history]
    assert all(np.diff(fit[1:]) >= -1e-6) and m.fit(cpu=True) == pytest.approx(fit[-1], abs=1e-6)
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is not None:
        subprocess.check_call([program, "cp", tensor.path, "--cpu", "-r4", "-i6", "--tol", "0", "-s3", "--simplex", "1",
                               "--bounds", "2=-0.25:0.5,3=0:inf", "-q", "-f", "npy", "-o", tmp_path / "x"],
                              stdout=subprocess.DEVNULL)
        assert all((np.load(tmp_path / "x" / f"mode{k + 1}.npy") == m.factors[k]).all() for k in range(3))
    for wrong in ({"simplex": [3]}, {"simplex": 0, "l1": 1}, {"bounds": (1, 0)}, {"bounds": 1}, {"bounds": {0: (0, 1, 2)}},
                  {"simplex": 0, "bounds": (0, 1)}, {"bounds": {0: (0, 1), -3: (0, 1)}}):
        with pytest.raises(ts.ArgumentError):
            ts.cp(tensor, 4, progress=False, **wrong)


def test_singular_vectors_are_those_of_the_program(tensor, tmp_path):
    m = ts.cp(tensor, 4, sweeps=3, tol=0, seed=3, init="nvecs", **CPU)
    assert (m.factors[0] != ts.cp(tensor, 4, sweeps=3, tol=0, seed=3, **CPU).factors[0]).any()
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is not None:
        subprocess.check_call([program, "cp", tensor.path, "--cpu", "-r4", "-i3", "--tol", "0", "-s3", "--init", "nvecs",
                               "-q", "-f", "npy", "-o", tmp_path / "x"], stdout=subprocess.DEVNULL)
        assert all((np.load(tmp_path / "x" / f"mode{k + 1}.npy") == m.factors[k]).all() for k in range(3))
    for wrong in ({"init": "hosvd"}, {"init": "nvecs", "fix": 0}):
        with pytest.raises(ts.ArgumentError):
            ts.cp(tensor, 4, progress=False, **wrong)


def test_orthonormal_columns_are_those_of_the_program(tensor, tmp_path):
    m = ts.cp(tensor, 4, sweeps=6, tol=0, seed=3, orthogonal=[0, -1], **CPU)
    for k in (0, -1):
        a = m.factors[k].astype(float)
        assert np.allclose(a.T @ a, np.eye(4), atol=1e-5)
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is not None:
        last = len(tensor.shape)
        subprocess.check_call([program, "cp", tensor.path, "--cpu", "-r4", "-i6", "--tol", "0", "-s3", "--orthogonal",
                               f"1,{last}", "-q", "-f", "npy", "-o", tmp_path / "x"], stdout=subprocess.DEVNULL)
        assert all((np.load(tmp_path / "x" / f"mode{k + 1}.npy") == m.factors[k]).all() for k in range(last))
    for wrong in ({"orthogonal": 7}, {"orthogonal": 0, "nonneg": True}, {"orthogonal": 0, "accelerate": True}):
        with pytest.raises(ts.ArgumentError):
            ts.cp(tensor, 4, progress=False, **wrong)


def test_smooth_columns_are_those_of_the_program(tensor, tmp_path):
    m = ts.cp(tensor, 4, sweeps=6, tol=0, seed=3, smooth={0: 2.5}, l2={1: 0.1}, **CPU)
    objective = [s.objective for s in m.history]
    assert all(np.diff(objective) <= 1e-6 * objective[0])
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is not None:
        subprocess.check_call([program, "cp", tensor.path, "--cpu", "-r4", "-i6", "--tol", "0", "-s3", "--smooth", "1=2.5",
                               "--l2", "2=0.1", "-q", "-f", "npy", "-o", tmp_path / "x"], stdout=subprocess.DEVNULL)
        assert all((np.load(tmp_path / "x" / f"mode{k + 1}.npy") == m.factors[k]).all()
                   for k in range(len(tensor.shape)))
    m = ts.cp(tensor, 4, sweeps=6, tol=0, seed=3, smooth={0: 2.5}, nonneg=True, l2=0.1, precision="float64", **CPU)
    objective = [s.objective for s in m.history]
    assert all(np.diff(objective) <= 1e-12 * objective[0])
    assert all((f >= 0).all() for f in m.factors)
    for wrong in ({"smooth": 1.0}, {"smooth": {9: 1.0}}, {"smooth": {0: -1.0}}, {"smooth": {0: 1.0}, "simplex": 0}):
        with pytest.raises(ts.ArgumentError):
            ts.cp(tensor, 4, progress=False, **wrong)


def test_observed_cells_are_those_of_the_program(tensor, tmp_path):
    m = ts.cp(tensor, 4, sweeps=5, tol=0, seed=3, observed=True, l2_scale="count", hold_out=0.1, out=tmp_path / "a",
              formats="npy", **CPU)
    objective = [s.objective for s in m.history]
    assert all(np.diff(objective) <= 1e-6 * objective[0])
    assert all(s.held_out_rmse > 0 and s.rmse > 0 for s in m.history)
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is not None:
        subprocess.check_call([program, "cp", tensor.path, "--cpu", "-r4", "-i5", "--tol", "0", "-s3", "--observed",
                               "--l2-scale", "count", "--hold-out", "10%", "-q", "-f", "npy", "-o", tmp_path / "x"],
                              stdout=subprocess.DEVNULL)
        assert all((np.load(tmp_path / "x" / f"mode{k + 1}.npy") == m.factors[k]).all()
                   for k in range(len(tensor.shape)))
        subprocess.check_call([program, "cp", "--resume", tmp_path / "a", "-i7", "-q"], stdout=subprocess.DEVNULL)
        again = ts.cp(tensor, 4, sweeps=7, tol=0, seed=3, observed=True, l2_scale="count", hold_out=0.1, **CPU)
        assert all((np.load(tmp_path / "a" / f"mode{k + 1}.npy") == again.factors[k]).all()
                   for k in range(len(tensor.shape)))
    for wrong in ({"hold_out": -0.1}, {"observed": True, "hold_out": 1.0}, {"observed": True, "patience": 2},
                  {"observed": True, "l1": 0.1}, {"observed": True, "l2_scale": "rows"},
                  {"observed": True, "accelerate": True}):
        with pytest.raises(ts.ArgumentError):
            ts.cp(tensor, 4, progress=False, cpu=True, **wrong)


@pytest.mark.parametrize("precision, most", [("float64", 1e-12), ("float32", 1e-4)])
def test_an_evaluation_is_that_of_the_obvious_sums(tensor, tmp_path, precision, most):
    m = ts.cp(tensor, 4, sweeps=3, tol=0, seed=3, precision="float64", out=tmp_path / "a", **CPU)
    e = m.evaluate(precision=precision, top=9, by_slice=1, threads=2)
    coords, value = (np.concatenate(x) for x in zip(*tensor.blocks(0)))
    model = m.predict(coords)
    left = value - model
    want = {"rmse": np.sqrt(np.mean(left ** 2)), "mae": np.abs(left).mean(), "mean_value": value.mean(),
            "mean_model": model.mean()}
    for name, x in want.items():
        assert getattr(e, name) == pytest.approx(x, rel=most), name
    assert e.nnz == e.weight == tensor.nnz and f"{tensor.nnz} cells" in repr(e)
    rows = list(e.top)
    largest = np.sort(np.abs(left))[::-1][:9]
    assert [abs(row["residual"]) for row in rows] == pytest.approx(largest, rel=10 * most)
    names = [name or f"mode{k}" for k, name in enumerate(tensor.mode_names)]
    at = [[row[name] for name in names] for row in rows]
    assert m.predict(np.array(at)) == pytest.approx([row["model"] for row in rows], rel=10 * most)
    slices = list(e.slices)
    assert [row["index"] for row in slices] == tensor.used_indices(1).tolist()
    for row in slices:
        here = coords[:, 1] == row["index"]
        assert row["nnz"] == row["weight"] == here.sum()
        assert row["value"] == pytest.approx(value[here].sum(), rel=most)
        assert row["model"] == pytest.approx(model[here].sum(), rel=10 * most)
        assert row["rmse"] == pytest.approx(np.sqrt(np.mean(left[here] ** 2)), rel=10 * most)
        assert row["mae"] == pytest.approx(np.abs(left[here]).mean(), rel=10 * most)
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is not None:
        said = subprocess.check_output([program, "score", tmp_path / "a", tensor.path, "--precision", precision,
                                        "--mode", "2", "--json"])
        said = json.loads(said)
        assert (said["rmse"], said["mae"], said["gaussian_log_likelihood"]) == (e.rmse, e.mae, e.gaussian)
    alone = m.evaluate(tensor)
    assert alone.top is None and alone.slices is None
    for wrong in ({"top": -1}, {"by_slice": 9}, {"precision": "float16"}):
        with pytest.raises(ts.ArgumentError):
            m.evaluate(tensor, **wrong)
    with pytest.raises(ts.ArgumentError):
        ts.Model.from_factors(None, [np.ones((2, 1)), np.ones((3, 1))]).evaluate(tensor)


def test_zeros_with_weights_that_are_left_out_are_counted(tmp_path):
    cells = ([[0, 0], [0, 0], [1, 1]], [0.0, 3.0, 1.0], [1.0, 2.0, 1.0])
    with pytest.warns(ts.TstreamWarning, match="1 observation of value 0 was left out, of 3: it counts in no mean"):
        t = ts.from_coo(cells[0], cells[1], weights=cells[2])
    assert [values.tolist() for _, values in t.blocks()] == [[3.0, 1.0]]
    t = ts.from_coo(cells[0], cells[1], weights=cells[2], zeros="keep")
    assert [values.tolist() for _, values in t.blocks()] == [[2.0, 1.0]]


def test_weights_are_those_of_the_program(tmp_path):
    rng = np.random.default_rng(3)
    coords = np.stack([rng.integers(0, n, 900) for n in (12, 10, 6)], axis=1)
    values, weights = rng.integers(1, 9, 900) / 4.0, rng.integers(0, 5, 900).astype(float)
    table = {**{name: coords[:, k] for k, name in enumerate("ijk")}, "x": values, "w": weights}
    whole = ts.from_coo(coords, values, (12, 10, 6), tmp_path / "a.tsh", weights=weights, shard="64K")
    half = {name: column[:400] for name, column in table.items()}, {name: column[400:] for name, column in table.items()}
    others = [ts.from_frame(table, "ijk", "x", tmp_path / "b.tsh", weights="w", shape=(12, 10, 6), shard="64K"),
              ts.from_frame(iter(half), "ijk", "x", tmp_path / "c.tsh", weights="w", shape=(12, 10, 6), shard="64K"),
              ts.build(((coords[i::2], values[i::2], weights[i::2]) for i in range(2)), tmp_path / "d.tsh", shard="64K")]
    cells = {}  # the mean by weights
    for cell, x, w in zip(map(tuple, coords.tolist()), values, weights):
        cells.setdefault(cell, []).append((x, w))
    cells = {cell: (sum(x * w for x, w in all_) / max(sum(w for _, w in all_), 1), sum(w for _, w in all_))
             for cell, all_ in cells.items()}
    m = ts.cp(whole, 3, sweeps=4, tol=0, seed=2, observed=True, precision="float64", **CPU)
    e = m.evaluate(by_slice="i" if "i" in whole.mode_names else 0)
    assert whole.nnz == len(cells) and e.nnz == len(cells)
    assert e.weight == sum(w for _, w in cells.values())
    left = [(x - y) ** 2 * w for (x, w), y in zip(cells.values(), m.predict(np.array(list(cells))))]
    assert e.rmse == pytest.approx(np.sqrt(sum(left) / e.weight), rel=1e-6)  # values are float32
    for t in others:
        again = ts.cp(t, 3, sweeps=4, tol=0, seed=2, observed=True, precision="float64", **CPU)
        assert t.nnz == whole.nnz and all((a == b).all() for a, b in zip(m.factors, again.factors))
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is not None:
        (tmp_path / "x.csv").write_text("i,j,k,x,w\n" + "".join(
            f"{i + 1},{j + 1},{k + 1},{x!r},{w!r}\n" for (i, j, k), x, w in zip(coords.tolist(), values.tolist(), weights.tolist())))
        tshard = os.path.join(os.path.dirname(program), "tshard")
        subprocess.check_call([tshard, "build", tmp_path / "x.csv", "--value", "x", "--weights", "w", "-q", "-o",
                               tmp_path / "e.tsh"], stdout=subprocess.DEVNULL)
        again = ts.cp(ts.open(tmp_path / "e.tsh"), 3, sweeps=4, tol=0, seed=2, observed=True, precision="float64", **CPU)
        assert all((a == b).all() for a, b in zip(m.factors, again.factors))
    for wrong in (dict(weights=-weights), dict(weights=weights[1:]), dict(weights=weights, dtype="float64"),
                  dict(weights=np.full(900, np.nan))):
        with pytest.raises(ts.ArgumentError):
            ts.from_coo(coords, values, out=tmp_path / "f.tsh", **wrong)
    with pytest.raises(ts.ArgumentError):
        ts.from_batches([(coords, values, weights), (coords, values)], tmp_path / "f.tsh")
    assert not (tmp_path / "f.tsh").exists()


def test_a_share_that_holds_out_nothing_or_all_is_refused(tensor):
    for share in (1e-12, 1 - 1e-12):
        with pytest.raises(ts.ArgumentError, match="is held out"):
            ts.cp(tensor, 2, sweeps=2, hold_out=share, **CPU)


def test_the_mean_of_observed_cells_is_a_component(tensor, tmp_path):
    m = ts.cp(tensor, 3, sweeps=4, tol=0, seed=3, observed=True, mean=True, l2=0.1, out=tmp_path / "a", **CPU)
    assert m.rank == 4 and ts.load(tmp_path / "a").rank == 4
    constant = [r for r in range(4) if all(np.ptp(m.rows(k)[1][:, r]) == 0 for k in range(len(tensor.shape)))]
    value = m.weights[constant[0]] * np.prod([float(m.rows(k)[1][0, constant[0]]) for k in range(len(tensor.shape))])
    assert len(constant) == 1 and value == pytest.approx(m.mean, rel=1e-5)
    assert ts.cp(tensor, 3, sweeps=1, observed=True, **CPU).mean is None
    with pytest.raises(ts.ArgumentError):
        ts.cp(tensor, 3, mean=True, **CPU)


@pytest.mark.parametrize("options", [{"observed": True, "l2": 0.3, "patience": 2}, {}, {"loss": "huber:1"}])
def test_folds_are_those_of_the_program(tensor, options):
    rows = ts.cross_validate(tensor, [2, 3], folds=3, sweeps=4, tol=0, seed=2, **options, **CPU)
    assert [row["rank"] for row in rows] == [2, 3] and all(len(set(row["errors"])) == 3 for row in rows)
    first = ts.cp(tensor, 2, sweeps=4, tol=0, seed=2, hold_out=1 / 3, **options, **CPU)
    s = first.history[-1 if first.best_sweep is None else first.best_sweep - 1]
    assert rows[0]["errors"][0] == (s.held_out_loss if "loss" in options else s.held_out_rmse)
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is not None:
        given = [f"--{k}" if v is True else f"--{k}={v}" for k, v in options.items()]
        out = subprocess.check_output([program, "cp", tensor.path, "--cpu", "-r2,3", "-i4", "--tol", "0", "-s2", "--folds", "3",
                                       "-q", "--json", *given], text=True)
        for theirs, mine in zip(json.loads(out.splitlines()[-1])["ranks"], rows):
            assert theirs["held_out"] == pytest.approx(mine["held_out"], rel=1e-12)
            assert theirs["standard_error"] == pytest.approx(mine["standard_error"], rel=1e-9)
    for wrong in ({"folds": 1}, {"hold_out": 0.1}, {"out": "x"}):
        with pytest.raises(ts.ArgumentError):
            ts.cross_validate(tensor, 2, **wrong)


def test_patience_keeps_the_best_model(tensor):
    m = ts.cp(tensor, 12, sweeps=60, tol=0, observed=True, l2=1e-3, hold_out=0.2, patience=2, **CPU)
    errors = [s.held_out_rmse for s in m.history]
    assert m.best_sweep == 1 + np.argmin(errors) and len(errors) == m.best_sweep + 2
    best = ts.cp(tensor, 12, sweeps=m.best_sweep, tol=0, observed=True, l2=1e-3, hold_out=0.2, **CPU)
    assert best.best_sweep is None and all((best.factors[k] == m.factors[k]).all() for k in range(len(tensor.shape)))
    c = ts.cp(tensor, [2, 3], sweeps=2, tol=0, loss="huber:1", hold_out=0.2, **CPU)
    assert all(row["held_out_loss"] > 0 and row["held_out_rmse"] is None and row["best"] for row in c.rows)


def test_the_best_of_observed_cells_is_told_by_those_held_out(tensor, tmp_path):
    c = ts.cp(tensor, [2, 5], restarts=2, sweeps=3, tol=0, observed=True, l2=1e-4, hold_out=0.2, **CPU)
    for rank in (2, 5):
        rows = [row for row in c.rows if row["rank"] == rank]
        assert all(row["held_out_rmse"] > 0 for row in rows)
        assert [row["best"] for row in rows].index(True) == np.argmin([row["held_out_rmse"] for row in rows])
        alone = ts.cp(tensor, rank, seed=2, sweeps=3, tol=0, observed=True, l2=1e-4, hold_out=0.2, **CPU)
        assert rows[1]["held_out_rmse"] == alone.history[-1].held_out_rmse


def test_parts_are_those_of_the_program(coo, tensor, tmp_path, monkeypatch):
    def same(mine, theirs):
        for name in sorted(os.listdir(theirs)):
            assert (tmp_path / mine / name).read_bytes() == (tmp_path / theirs / name).read_bytes(), name
        assert sorted(os.listdir(mine)) == sorted(os.listdir(theirs))

    monkeypatch.chdir(tmp_path)
    train, test = tensor.split(0.3, seed=4, train="a.tsh", test="b.tsh")
    drawn = np.random.default_rng(2).integers(0, 9, (99, 3))
    parts = ts.from_coo(drawn, np.ones(99)).split(0.3)
    assert sum(part.nnz for part in parts) == len(np.unique(drawn, axis=0))
    assert not any(os.path.exists(f"tensor.{name}.tsh") for name in ("train", "test"))
    folders = [os.path.dirname(part.path) for part in parts]
    for part in parts:
        part.close()
    assert not any(map(os.path.exists, folders))
    assert train.nnz + test.nnz == tensor.nnz and train.shape == test.shape == tensor.shape
    some = tensor.select("c.tsh", keep={0: [5, 3, 3, 7], 1: range(tensor.shape[1])}, at_least={2: 2}, memory="64M")
    summed = tensor.select("d.tsh", sum=[1])
    assert set(np.concatenate([coords[:, 0] for coords, _ in some.blocks()])) <= {3, 5, 7}
    assert summed.shape == (tensor.shape[0], *tensor.shape[2:])
    program = os.environ.get("TSTREAM_PROGRAM")
    if program:
        tshard = os.path.join(os.path.dirname(program), "tshard")
        subprocess.check_call([tshard, "split", tensor.path, "--hold-out", "0.3", "-s4", "--train", "e.tsh", "--test", "f.tsh", "-q"])
        same("a.tsh", "e.tsh")
        same("b.tsh", "f.tsh")
    for names in ({"train": train.path}, {"test": "./a.tsh"}, {"train": "x.tsh", "test": "./x.tsh"}):
        with pytest.raises(ts.ArgumentError, match="name other places"):  # the first part took the tensor's place
            train.split(0.3, replace=True, **{"train": "x.tsh", "test": "y.tsh", **names})
    assert ts.open("a.tsh").nnz == train.nnz and not os.path.exists("x.tsh")
    for wrong in (lambda: tensor.split(1.0), lambda: tensor.split(0), lambda: tensor.select("x.tsh", keep={0: [10**9]}),
                  lambda: tensor.select("x.tsh", sum=[0, 1]), lambda: tensor.select("x.tsh", keep={0: ["nobody"]}),
                  lambda: tensor.select("x.tsh", keep={9: [1]}), lambda: tensor.select("x.tsh", keep={0: [-1]})):
        with pytest.raises(ts.ArgumentError):
            wrong()
    with pytest.raises(ts.BusyError):
        tensor.split(train="a.tsh", test="g.tsh")
    with pytest.raises(ts.FormatError):
        tensor.select("x.tsh", at_least=10**9)
    with pytest.raises(ts.FormatError, match="no nonzeros"):
        tensor.split(1e-12, train="x.tsh", test="g.tsh")
    with pytest.raises(TypeError, match="float"):  # 1.5 is no index
        tensor.select("x.tsh", keep={0: [1.5]})
    assert not os.path.exists("x.tsh") and not os.path.exists("g.tsh")
    named = ts.from_frame({"user": ["ann", "ben", "ann"], "item": ["x", "y", "y"], "stars": [4.0, 0.0, 2.0]},
                          ["user", "item"], "stars", out="n.tsh", zeros="keep")
    ann = named.select("ann.tsh", keep={"user": ["ann"]})
    assert named.nnz == 3 and ann.nnz == 2 and ann.labels("user", [0, 1]) == ["ann", "ben"]
    assert named.select("ben.tsh", keep={"user": ["ben", 0]}, replace=True).nnz == 3


def test_poisson_models_are_those_of_the_program(tensor, tmp_path):
    m = ts.cp(tensor, 4, sweeps=5, tol=0, seed=3, loss="poisson", inner=3, out=tmp_path / "a", formats="npy", **CPU)
    likelihood = [s.log_likelihood for s in m.history]
    assert all(np.diff(likelihood) >= -1e-5 * abs(likelihood[0])) and all(s.violation > 0 for s in m.history)
    assert m.history[-1].objective == -likelihood[-1]
    coords, values = (np.concatenate(x) for x in zip(*tensor.blocks(0)))
    model = m.predict(coords)
    want = (values * np.log(model)).sum() - (m.weights * np.prod([f.sum(axis=0, dtype=float) for f in m.factors], axis=0)).sum()
    assert likelihood[-1] == pytest.approx(want, rel=1e-4)  # float32 factors
    assert all((f >= 0).all() for f in m.factors)
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is not None:
        subprocess.check_call([program, "cp", tensor.path, "--cpu", "-r4", "-i5", "--tol", "0", "-s3", "--loss", "poisson",
                               "--inner", "3", "-q", "-f", "npy", "-o", tmp_path / "x"], stdout=subprocess.DEVNULL)
        assert all((np.load(tmp_path / "x" / f"mode{k + 1}.npy") == m.factors[k]).all()
                   for k in range(len(tensor.shape)))
        subprocess.check_call([program, "cp", "--resume", tmp_path / "a", "-i7", "-q"], stdout=subprocess.DEVNULL)
        again = ts.cp(tensor, 4, sweeps=7, tol=0, seed=3, loss="poisson", inner=3, **CPU)
        assert all((np.load(tmp_path / "a" / f"mode{k + 1}.npy") == again.factors[k]).all()
                   for k in range(len(tensor.shape)))
    with pytest.raises(ts.ArgumentError, match="inner 3"):
        ts.cp(tensor, 4, sweeps=9, seed=3, loss="poisson", inner=4, out=tmp_path / "a", resume=True, **CPU)
    for wrong in ({"l1": 0.1}, {"accelerate": True}, {"inner": 0}, {"observed": True}):
        with pytest.raises(ts.ArgumentError):
            ts.cp(tensor, 4, progress=False, cpu=True, **{"loss": "poisson", **wrong})
    with pytest.raises(ts.ArgumentError):
        ts.cp(tensor, 4, loss="normal", **CPU)


def test_other_losses_are_those_of_the_program(tensor, tmp_path):
    program = os.environ.get("TSTREAM_PROGRAM")
    for loss, given in (("huber:0.5", {"l2": 0.01}), ("huber:2", {"hold_out": 0.2}), ("gamma", {"observed": True, "hold_out": 0.2})):
        m = ts.cp(tensor, 3, sweeps=8, tol=0, seed=3, loss=loss, out=tmp_path / loss[:7], formats="npy", **given, **CPU)
        fits = [s.fit for s in m.history]
        assert fits[-1] > fits[0] and np.isfinite([s.objective for s in m.history]).all()
        assert np.isnan(m.history[-1].held_out_loss) == ("hold_out" not in given)
        if program is None:
            continue
        subprocess.check_call([program, "cp", "--resume", tmp_path / loss[:7], "-i10", "-q"], stdout=subprocess.DEVNULL)
        again = ts.cp(tensor, 3, sweeps=10, tol=0, seed=3, loss=loss, **given, **CPU)
        assert all((np.load(tmp_path / loss[:7] / f"mode{k + 1}.npy") == again.factors[k]).all()
                   for k in range(len(tensor.shape)))
    adam, steps = ([s.objective for s in ts.cp(tensor, 3, sweeps=30, tol=0, loss="gamma", observed=True, l2=0.1, optimizer=o, **CPU).history]
                   for o in ("adam", "lbfgsb"))
    assert all(np.diff(steps) <= 1e-6 * abs(steps[0])) and steps[-1] < adam[-1]
    assert ts.losses()[:2] == ("least-squares", "poisson") and "huber:D" in ts.losses() and len(set(ts.losses())) == len(ts.losses())
    for name in ts.losses():
        with pytest.raises(ts.ArgumentError, match="there is no loss|takes"):
            ts.cp(tensor, 3, loss=name if ":" in name else name + ":1", **CPU)
    for wrong in ({"optimizer": "lbfgsb"}, {"optimizer": "sgd", "loss": "huber:1"}, {"loss": "huber"}, {"loss": "huber:x"}, {"loss": "huber:-1"}, {"loss": "gamma"}, {"loss": "bernoulli"},
                  {"loss": "poisson-log", "l1": 0.1}):
        with pytest.raises(ts.ArgumentError):
            ts.cp(tensor, 3, **wrong, **CPU)


def test_fixed_factors_stay(tensor, tmp_path):
    start = ts.cp(tensor, 4, sweeps=5, tol=0, seed=3, **CPU)
    for fix, nonneg in (([0, -1], True), (1, None), ([True, False, False], [1])):
        m = ts.cp(tensor, 4, sweeps=4, tol=0, init=start, fix=fix, nonneg=nonneg, l2=0.01, **CPU)
        fixed = {(1,): [1], (0, -1): [0, 2]}.get(tuple(np.atleast_1d(fix)), [0])
        for k in range(3):
            given, got = (np.abs(x.factors[k].astype(float)) for x in (start, m))
            same = np.allclose(got[:, np.lexsort(got)], given[:, np.lexsort(given)], atol=1e-6)
            assert same == (k in fixed), (fix, k)
        objective = [s.objective for s in m.history]
        assert all(np.diff(objective) <= 1e-6 * objective[0])
    run = dict(init=start, fix=[0, 2], tol=0, out=tmp_path / "m.cp", **CPU)
    ts.cp(tensor, 4, sweeps=2, **run)
    went_on = ts.cp(tensor, 4, sweeps=5, resume=True, **run)
    whole = ts.cp(tensor, 4, sweeps=5, init=start, fix=[0, 2], tol=0, **CPU)
    assert all((a == b).all() for a, b in zip(went_on.factors, whole.factors))
    for wrong in ({"fix": 0}, {"fix": [0, 1, 2], "init": start}, {"fix": 3, "init": start},
                  {"fix": 1, "l1": {1: 1}, "init": start}, {"fix": 1, "nonneg": [1], "init": start}):
        with pytest.raises(ts.ArgumentError):
            ts.cp(tensor, 4, progress=False, **wrong)


def test_modes_are_numbers_or_a_bool_for_each(tensor):
    run = dict(sweeps=2, tol=0, seed=3, **CPU)
    want = ts.cp(tensor, 4, nonneg=[0, 2], **run)
    for same in ([True, False, True], np.array([True, False, True]), np.array([0, 2]), (np.int64(0), np.int8(-1)),
                 {0, 2}):
        m = ts.cp(tensor, 4, nonneg=same, **run)
        assert all((a == b).all() for a, b in zip(m.factors, want.factors))
    one = ts.cp(tensor, 4, nonneg=np.int64(1), **run)
    assert (one.factors[1] >= 0).all()
    assert (ts.cp(tensor, 4, nonneg=1, **run).factors[0] == one.factors[0]).all()
    assert (ts.cp(tensor, 4, nonneg=np.bool_(True), **run).factors[0]
            == ts.cp(tensor, 4, nonneg=True, **run).factors[0]).all()


def test_a_session_is_told_which_modes_keep_their_old_rows(tensor, monkeypatch):
    opened = []

    class Enough(Exception):
        pass

    def session_conf(call, **conf):
        opened.append((conf["cpu"], conf["own_rows"]))
        raise Enough

    monkeypatch.setattr(ts._run, "session_conf", session_conf)
    for arguments in ({}, {"l1": 0}, {"l1": [0, 0, 0]}, {"l1": {1: 0}, "l2": 1}, {"nonneg": [False] * 3},
                      {"l1": {1: 0.5}}, {"l1": 0.5}, {"nonneg": [0], "l1": [0, 0, 1]}):
        with pytest.raises(Enough):
            ts.cp(tensor, 4, progress=False, **arguments)
    assert opened == [(False, 0)] * 5 + [(False, 2), (False, 7), (False, 5)]
    opened.clear()
    for arguments in ({"observed": True}, {"observed": True, "mean": True, "hold_out": 0.1}, {"loss": "poisson"},
                      {"loss": "bernoulli", "hold_out": 0.1}, {"simplex": 0}, {"orthogonal": 0}, {"smooth": {0: 1}},
                      {"hold_out": 0.1}, {"loss": "poisson", "hold_out": 0.1},
                      {"observed": True, "hold_out": 0.1, "init": "nvecs"}, {"cpu": True}):
        with pytest.raises(Enough):
            ts.cp(tensor, 4, progress=False, **arguments)
    assert [cpu for cpu, _ in opened] == [False] * 10 + [True]  # GPUs that lack something are the library's to know


def test_a_model_is_what_numpy_says(coo, tensor, tmp_path):
    x = dense_of(coo)
    m = ts.cp(tensor, 3, sweeps=5, seed=2, precision="float64", **CPU)
    y = dense(m)
    assert m.fit(cpu=True) == pytest.approx(1 - np.linalg.norm(x - y) / np.linalg.norm(x), abs=1e-12)
    details = m.fit(tensor, details=True, cpu=True)
    assert details["norm"] == tensor.norm and 0 < details["error"] < 1e-9
    cells = np.stack([np.random.default_rng(3).integers(0, n, 100) for n in x.shape], axis=1)
    assert m.predict(cells) == pytest.approx(y[tuple(cells.T)], rel=1e-12)
    index, rows = m.rows("user")
    assert (index == tensor.used_indices(0)).all() and (m.factors[0][index] == rows).all()
    assert not m.factors[0][1].any()  # an empty slice
    top = m.top(1, mode="item", n=4)
    column = m.factors[1][:, 1]
    want = np.argsort(-np.abs(column), kind="stable")[:4]
    records = list(top)
    assert [r["index"] for r in records] == want.tolist()
    assert [r["label"] for r in records] == [f"item {i}" for i in want]
    m.save(tmp_path / "m.cp", ["npy", "ktensor", "splatt"])
    again = ts.load(tmp_path / "m.cp", tensor)
    for k in range(3):
        assert (again.factors[k] == m.factors[k]).all()
    m.save(tmp_path / "used.cp", "npy", rows="used")
    assert (ts.load(tmp_path / "used.cp").rows(0)[0] == index).all()
    with pytest.raises(ts.BusyError, match="exists"):
        m.save(tmp_path / "m.cp")


def test_starts_and_scores(tensor):
    m = ts.cp(tensor, 3, sweeps=20, seed=2, precision="float64", **CPU)
    more = ts.cp(tensor, 3, sweeps=1, init=m, precision="float64", **CPU)
    assert more.fit(cpu=True) >= m.fit(cpu=True) - 1e-9
    made = ts.Model.from_factors(m.weights[::-1], [f[:, ::-1] for f in m.factors])
    assert m.score(m) == pytest.approx(1) and m.score(made) == pytest.approx(1)
    assert made.fit(tensor, cpu=True) == pytest.approx(m.fit(cpu=True), abs=1e-12)
    rng = np.random.default_rng(5)
    other = ts.Model.from_factors(None, [rng.standard_normal((n, 3)) for n in m.shape], dtype="float32")
    assert m.score(other) < 0.5
    minus = ts.Model.from_factors(m.weights, [-m.factors[0], *m.factors[1:]])
    assert m.score(minus) == pytest.approx(1)  # signs do not matter
    empty = ts.Model.from_factors([0, *m.weights[1:]], m.factors)
    assert empty.score(empty) == pytest.approx(1)
    same = ts.cp(tensor, 3, sweeps=1, init=ts.Model.from_factors(None, m.factors), precision="float64", **CPU)
    assert (same.factors[0] == more.factors[0]).all()


def test_ranks_and_starts(tensor, tmp_path):
    several = dict(sweeps=8, tol=0, seed=3, **CPU)
    models = ts.cp(tensor, rank=[2, 4], restarts=3, **several)
    assert isinstance(models, ts.Collection) and len(models) == 6 and len(models.best) == 2
    for (rank, seed), m in models.models.items():
        alone = ts.cp(tensor, rank, sweeps=8, tol=0, seed=seed, **CPU)
        assert (alone.weights == m.weights).all() and len(m.history) == 8
        assert all((a == b).all() for a, b in zip(alone.factors, m.factors))
    for row in models.rows:
        best = models.best[row["rank"]]
        assert row["fit"] <= best.history[-1].fit and row["best"] == (models[row["rank"], row["seed"]] is best)
        assert row["score"] == 1 if row["best"] else 0 < row["score"] < 1
    one = ts.cp(tensor, rank=[3], **several)
    assert isinstance(one, ts.Collection) and list(one.models) == [(3, 3)]
    assert isinstance(ts.cp(tensor, rank=3, restarts=1, **several), ts.Collection)
    penal = ts.cp(tensor, 3, restarts=3, nonneg=True, l1=0.05, **several)
    low = min(row["objective"] for row in penal.rows)
    assert penal.best[3].history[-1].objective == low
    ranks, passed = [], []
    ts.cp(tensor, [2, 3], restarts=2, on_sweep=lambda s: ranks.append((s.rank, s.seed, s.sweep)), **several)
    assert sorted(ranks) == [(r, s, k + 1) for r in (2, 3) for s in (3, 4) for k in range(8)]
    more = ts.cp(tensor, [2, 4], restarts=2, init=models, sweeps=2, seed=3, tol=0, **CPU)
    alone = ts.cp(tensor, 4, init=models[4, 4], sweeps=2, seed=4, tol=0, **CPU)
    assert (alone.factors[1] == more[4, 4].factors[1]).all()
    partly = ts.cp(tensor, [4, 5], restarts=2, init=models, **several)
    assert (partly[4, 4].weights == ts.cp(tensor, 4, init=models[4, 4], sweeps=8, tol=0, **CPU).weights).all()
    assert (partly[5, 4].weights == ts.cp(tensor, 5, sweeps=8, tol=0, seed=4, **CPU).weights).all()
    first = ts.cp(tensor, [2, 4], restarts=2, init=models[4, 5], **several)
    assert (first[4, 3].weights == ts.cp(tensor, 4, init=models[4, 5], sweeps=8, tol=0, **CPU).weights).all()
    assert (first[4, 4].weights == models[4, 4].weights).all()
    vectors = ts.cp(tensor, 4, restarts=2, init="nvecs", **several)
    assert (vectors[4, 4].weights == ts.cp(tensor, 4, init="nvecs", sweeps=8, tol=0, seed=4, **CPU).weights).all()
    known = ts.cp(tensor, 2, restarts=2, observed=True, l2=0.1, **several)
    assert (known[2, 4].weights == ts.cp(tensor, 2, observed=True, l2=0.1, sweeps=8, tol=0, seed=4, **CPU).weights).all()

    def end(s):
        passed.append(s)
        raise KeyError
    with pytest.raises(KeyError):
        ts.cp(tensor, [2, 3], restarts=2, on_sweep=end, **several)
    assert len(passed) == 1
    with pytest.raises(ts.Stopped):
        ts.cp(tensor, [2, 3], restarts=2, max_time=0.05, **{**several, "sweeps": 1000000000})
    for wrong in (dict(rank=[2, 2]), dict(rank=[]), dict(rank=2, restarts=0), dict(rank=2, restarts=2, trace=tmp_path / "x.json"),
                  dict(rank=[3, 5], init=models), dict(rank=5, restarts=2, init=alone)):
        with pytest.raises(ts.ArgumentError):
            ts.cp(tensor, **wrong, **several)
    kept = dict(out=tmp_path / "k.cp", formats="npy", **several)
    with pytest.raises(KeyError):
        ts.cp(tensor, [2, 4], restarts=3, on_sweep=end, **kept)
    whole = ts.cp(tensor, [2, 4], restarts=3, resume="auto", **kept)
    written = ts.load(tmp_path / "k.cp", tensor)
    assert whole.rows == [dict(row, seconds=a["seconds"]) for row, a in zip(models.rows, whole.rows)]
    assert all((a.factors[1] == b.factors[1]).all() for a, b in zip(whole, models))
    assert all((a.factors[1] == b.factors[1]).all() for a, b in zip(written, models))
    with pytest.raises(ts.ArgumentError):
        ts.cp(tensor, [2, 4], restarts=3, resume=True, **kept)
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is None:
        pytest.skip("TSTREAM_PROGRAM does not name tstream")
    shown = subprocess.check_output([program, "info", tmp_path / "k.cp" / "best.r4"], text=True)
    assert "k.cp" in shown
    subprocess.check_call([program, "cp", tensor.path, "--cpu", "-r2,4", "--restarts", "3", "-i8", "--tol", "0", "-s3",
                           "-f", "npy", "-o", tmp_path / "x.cp"], stdout=subprocess.DEVNULL)
    read = ts.load(tmp_path / "x.cp", tensor)
    assert isinstance(read, ts.Collection) and list(read.models) == list(models.models)
    for a, b in zip(read.rows, models.rows):
        assert {k: a[k] for k in ("rank", "seed", "sweeps", "best")} == {k: b[k] for k in ("rank", "seed", "sweeps", "best")}
        assert a["fit"] == b["fit"] and a["score"] == pytest.approx(b["score"], abs=1e-6)
        assert (read[a["rank"], a["seed"]].factors[1] == models[b["rank"], b["seed"]].factors[1]).all()
    assert [b.name for b in sorted((tmp_path / "x.cp").iterdir())] == [b.name for b in sorted((tmp_path / "k.cp").iterdir())]
    whole = (tmp_path / "x.cp" / "models.json").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ts.load(tmp_path / "x.cp")
    at = whole.index(b'"fit":') + 9
    wrong = {"not a table": b"{}", "a figure": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:],
             "another version": whole.replace(b'"file_version":', b'"file_version":9'), "its end": whole[:-3]}
    for what, text in wrong.items():
        (tmp_path / "x.cp" / "models.json").write_bytes(text)
        with pytest.raises(ts.FormatError, match="models.json"):
            ts.load(tmp_path / "x.cp")
            pytest.fail(what)


def test_a_table_without_checksum_is_read_with_a_warning(tmp_path):
    golden = os.path.join(os.path.dirname(os.environ.get("TSTREAM_EXAMPLES", "")), "tests", "golden", "run-0.2.0", "several")
    if not os.path.isdir(golden):
        pytest.skip("no golden files")
    with pytest.warns(ts.TstreamWarning, match="models.json: has no checksum"):
        assert len(ts.load(golden)) == 2
    with open(os.path.join(golden, "models.json")) as f:
        table = f.read()
    (tmp_path / "models.json").write_text(table.replace('"r2.s1"', '"../x"'))
    with pytest.warns(UserWarning), pytest.raises(ts.FormatError, match="no table of models"):
        ts.load(tmp_path)


def test_arrays_outlive_their_model(tensor):
    a = ts.cp(tensor, 2, sweeps=2, **CPU).factors[1]
    gc.collect()
    assert np.isfinite(a).all() and a.any() and not a.flags.writeable


def test_large_factors_are_mapped(tmp_path):
    def mapped(path):
        with open("/proc/self/maps", encoding="utf-8") as f:
            return any(str(path) in line for line in f)
    rng = np.random.default_rng(1)
    made = ts.Model.from_factors([2, 1], [rng.random((n, 2)) for n in (100_000, 5)])
    made.save(tmp_path / "x.cp", "npy")
    m = ts.load(tmp_path / "x.cp")
    a = m.factors[0]
    assert mapped(tmp_path / "x.cp/mode1.npy") and (a == made.factors[0]).all()
    del m
    gc.collect()
    assert a[99_999, 1] == made.factors[0][99_999, 1]
    del a
    gc.collect()
    assert not mapped(tmp_path / "x.cp/mode1.npy")


def test_failures_are_exceptions(coo, tensor, tmp_path):
    coords, values, shape = coo
    with pytest.raises(ts.FileError, match="nowhere.*No such file"):
        ts.open("/nowhere.tsh")
    with pytest.raises(ValueError, match="rank"):
        ts.cp(tensor, 0, **CPU)
    with pytest.raises(ts.ArgumentError, match="beyond its size of 10"):
        ts.from_coo(coords, values, (10, 30, 20), tmp_path / "no.tsh", memory="128M")
    with pytest.raises(ts.ArgumentError, match="indices start at 0"):
        ts.from_coo(coords - 1, values, None, tmp_path / "no.tsh", memory="128M")
    with pytest.raises(ts.ArgumentError, match="is not a size"):
        ts.cp(tensor, 2, host_memory="8 apples", **CPU)
    with pytest.raises(ts.LimitError, match="more than there is"):
        ts.cp(tensor, 2, host_memory="1000000G", **CPU)

    def broken():
        yield coords, values
        raise RuntimeError("the source broke")
    with pytest.raises(RuntimeError, match="the source broke"):
        ts.from_batches(broken(), tmp_path / "no.tsh", memory="128M")
    assert not any(p.name.startswith("no.tsh") for p in tmp_path.iterdir())


def test_a_callback_ends_a_run(tensor):
    def enough(s):
        if s.sweep == 2:
            raise KeyError("enough")
    with pytest.raises(KeyError, match="enough"):
        ts.cp(tensor, 8, sweeps=100000, tol=0, on_sweep=enough, **CPU)


def test_ctrl_c_ends_a_run(tensor):
    # What a shell starts in the background does not hear of SIGINT, and Python takes over that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            ts.cp(tensor, 8, sweeps=10000000, tol=0, **CPU)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 60


def test_a_run_goes_on(tensor, tmp_path):
    run = dict(sweeps=6, tol=0, seed=3, **CPU)
    whole = ts.cp(tensor, 4, **run)
    out = tmp_path / "x.cp"

    def enough(s):
        if s.sweep == 2:
            raise KeyError("enough")
    with pytest.raises(KeyError):
        ts.cp(tensor, 4, out=out, checkpoint=0, on_sweep=enough, **run)
    assert not out.exists()
    assert json.loads((tmp_path / (out.name + ".partial") / "run.json").read_text())["ended"] == "stopped by the caller"
    with pytest.raises(ts.ArgumentError, match="seed 3"):
        ts.cp(tensor, 4, out=out, resume="auto", **{**run, "seed": 4})
    m = ts.cp(tensor, 4, out=out, resume=True, formats=["npy"], trace=tmp_path / "trace.json", **run)
    assert m.sweeps_before == 2 and [s.sweep for s in m.history] == [3, 4, 5, 6]
    record = json.loads((out / "run.json").read_text())
    assert record["interface"] == "library" and record["sweeps_before"] == 2 and len(record["sweeps"]) == 6
    assert record["options"]["seed"] == 3 and record["options"]["rank"] == 4 and record["ended"] == "iterations"
    assert not (out / "status.json").exists()
    for k in range(3):
        assert (m.factors[k] == whole.factors[k]).all()
        assert (np.load(out / f"mode{k + 1}.npy") == whole.factors[k]).all()
    assert (tmp_path / "trace.json").exists()
    with pytest.raises(ts.BusyError, match="exists"):
        ts.cp(tensor, 4, out=out, **run)
    m = ts.cp(tensor, 4, out=tmp_path / "y.cp", resume="auto", **run)
    assert m.sweeps_before == 0 and (m.factors[0] == whole.factors[0]).all()
    with pytest.raises(ts.Stopped, match="the time is over"):
        ts.cp(tensor, 4, max_time=0.05, **{**run, "sweeps": 10**9})
    with pytest.raises(ts.ArgumentError, match="out is not given"):
        ts.cp(tensor, 4, resume=True, **run)


def test_two_threads_have_a_session_each(tensor):
    models = [None, None]

    def work(i):
        models[i] = ts.cp(tensor, 4, sweeps=5, tol=0, threads=i + 1, **CPU)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((a == b).all() for a, b in zip(models[0].factors, models[1].factors))


def test_import_takes_no_heavy_modules():
    """NumPy alone; what else may be there is imported when it is used, and the library is loaded then."""
    code = ("import sys, numpy; before = set(sys.modules); import tstream; new = set(sys.modules) - before; "
            "print(' '.join(sorted(new))); print(any('libtstream' in line for line in open('/proc/self/maps')))")
    names, loaded = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    heavy = {"pandas", "matplotlib", "scipy", "tqdm", "pyarrow", "pyttb", "tensorly", "IPython", "asyncio", "multiprocessing"}
    assert not heavy & {name.split(".")[0] for name in names.split()} and "tstream._model" in names.split()
    assert loaded == "False"


INTERRUPTED = """
import sys
import tstream as ts
def tell(s):
    if s.sweep == 2:
        print("going", flush=True)
try:
    ts.cp(sys.argv[1], 8, sweeps=10**9, tol=0, cpu=True, progress=False, on_sweep=tell)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_sigint_ends_a_script(tensor):
    """As Ctrl-C does; SIGINT is what a shell's background job ignores, so it is given back first."""
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + INTERRUPTED
    p = subprocess.Popen([sys.executable, "-c", script, tensor.path], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "going\n"
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=120)
    assert out == "interrupted\n" and p.returncode == 0


BROKEN_BAR = """
import sys
import threading
import time
import tstream as ts
from tstream import _run

class Bar:  # which Ctrl-C reaches while nothing happens
    def set_postfix_str(self, *text, **how):
        pass
    def refresh(self):
        if sys._getframe(1).f_code.co_name == "move_bar":
            raise KeyboardInterrupt
    def close(self):
        pass

class Slow(_run.Sweep):  # made in the thread of the call, between two sweeps
    def __init__(self, *args):
        time.sleep(0.5)
        super().__init__(*args)

_run.progress_bar = lambda sweeps: Bar()
_run.Sweep = Slow
try:
    ts.cp(sys.argv[1], 8, sweeps=10**9, tol=0, cpu=True)
except KeyboardInterrupt:
    print("interrupted", [t.name for t in threading.enumerate() if t.name == "tstream"], flush=True)
"""


def test_a_bar_that_raises_ends_a_run(tensor):
    p = subprocess.run([sys.executable, "-c", BROKEN_BAR, tensor.path], stdout=subprocess.PIPE, text=True, timeout=120)
    assert (p.returncode, p.stdout) == (0, "interrupted []\n")


def test_what_idle_raises_waits_for_the_call():
    ended = []
    call = ts._lib.Call()

    def work(err):
        while call.flag.value == 0:
            time.sleep(0.01)
        time.sleep(0.5)
        ended.append(True)
        return 0

    def idle():
        raise KeyError("once")

    call.idle = idle
    with pytest.raises(KeyError):
        call.run(work)
    assert ended == [True]


def test_structs_are_those_of_the_header(tmp_path):
    header = os.environ.get("TSTREAM_HEADER")
    compiler = os.environ.get("CC", "cc")
    if header is None:
        pytest.skip("TSTREAM_HEADER does not name tstream.h")
    from tstream import _lib
    structs = [s for s in vars(_lib).values() if isinstance(s, type) and issubclass(s, _lib._Sized)
               and s is not _lib._Sized]
    lines = []
    for s in structs:
        lines.append(f'printf("%zu\\n", sizeof({s.__name__}));')
        lines += [f'printf("%zu\\n", offsetof({s.__name__}, {name}));' for name, _ in s._fields_]
    (tmp_path / "s.c").write_text(f'#include <stdio.h>\n#include "{header}"\nint main(void) {{ {" ".join(lines)} }}\n')
    subprocess.check_call([*compiler.split(), "-o", tmp_path / "s", tmp_path / "s.c"])
    want = [int(x) for x in subprocess.check_output([tmp_path / "s"]).split()]
    got = [x for s in structs for x in [ctypes.sizeof(s), *(getattr(s, n).offset for n, _ in s._fields_)]]
    assert len(structs) == 21 and got == want


def test_pictures(tensor):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    m = ts.cp(tensor, 3, sweeps=2, **CPU)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = m.plot()
        ranks = ts.cp(tensor, [1, 3], restarts=2, sweeps=2, **CPU).plot_ranks()
    assert len(figure.axes) == 9
    assert len(ranks.axes[0].lines[0].get_xdata()) == 4 and len(ranks.axes[1].lines[0].get_xdata()) == 2


def starts(shape, rank):
    rng = np.random.default_rng(11)
    return [rng.random((n, rank)) for n in shape]


def test_pyttb_agrees(coo, tensor):
    pyttb = pytest.importorskip("pyttb")
    coords, values, shape = coo
    init = starts(shape, 3)
    theirs, _, _ = pyttb.cp_als(pyttb.sptensor(coords, values[:, None], shape), 3, maxiters=5, stoptol=0,
                                init=pyttb.ktensor(init), printitn=0)
    m = ts.cp(tensor, 3, sweeps=5, tol=0, precision="float64", init=ts.Model.from_factors(None, init), **CPU)
    assert m.weights == pytest.approx(theirs.weights, rel=1e-9)
    assert dense(m) == pytest.approx(theirs.full().data, abs=1e-9)
    mine = m.to_pyttb()
    assert mine.shape == shape and mine.full().data == pytest.approx(dense(m), abs=1e-12)


def sections_of(path):
    """Of a state (docs/checkpoint.md): the bytes of each section by its name."""
    state = path.read_bytes()
    n, at, found = int.from_bytes(state[12:16], "little"), 256, {}
    begin = 256 + 32 * n + 8
    for k in range(n):
        entry = state[at + 32 * k:at + 32 * k + 32]
        size = int.from_bytes(entry[16:24], "little")
        found[entry[:16].rstrip(b"\0").decode()] = state[begin:begin + size]
        begin += -(-size // 8) * 8 + 8
    return found


@pytest.mark.parametrize("loss", ["bernoulli", "bernoulli-logit", "gamma", "poisson-log", "huber:0.4"])
def test_pyttb_gradients_are_ours(loss, tmp_path):
    """The first moment after a step is a tenth of the gradient; of a tensor so small every cell that is not listed counts."""
    pyttb = pytest.importorskip("pyttb")
    handles = pytest.importorskip("pyttb.gcp.handles")
    evaluate = pytest.importorskip("pyttb.gcp.fg").evaluate
    name = {"bernoulli": "bernoulli_odds"}.get(loss, loss.split(":")[0].replace("-", "_"))
    value, slope = getattr(handles, name), getattr(handles, name + "_grad")
    if name == "huber":
        value, slope = (lambda x, m, f=f: f(x, m, 0.4) for f in (value, slope))
    rng, shape, rank = np.random.default_rng(11), (6, 5, 7), 3
    x = np.abs(rng.normal(size=shape)) + 0.1
    if name != "gamma":
        x *= rng.random(shape) < 0.4
        x[np.arange(7) % 6, np.arange(7) % 5, np.arange(7)] = 1  # no slice is empty
    if name.startswith("bernoulli"):
        x = (x != 0).astype(float)
    elif name == "poisson_log":
        x = np.ceil(2 * x)
    coords = np.argwhere(x != 0)
    tensor = ts.from_coo(coords, x[tuple(coords.T)], shape, tmp_path / "x.tsh", dtype="float64")
    factors = [rng.random((n, rank)) - (0 if name in ("bernoulli_odds", "gamma") else 0.5) + 0.1 for n in shape]
    start = ts.Model.from_factors(np.ones(rank), factors)
    m = ts.cp(tensor, rank, sweeps=1, tol=0, loss=loss, observed=name == "gamma", l2=0, init=start, precision="float64",
              out=tmp_path / "x.cp", **CPU)
    state = sections_of(tmp_path / "x.cp" / "state")
    data = pyttb.tensor(x)
    for k, n in enumerate(shape):
        ours, new = (np.frombuffer(state[f"{what}{k + 1}"]).reshape(n, rank) for what in ("first", "factor"))
        theirs = evaluate(pyttb.ktensor(factors), data, None, None, slope)[k]
        assert np.abs(10 * ours - theirs).max() <= 1e-10 * (1 + np.abs(theirs).max())
        factors[k] = new
    theirs = evaluate(pyttb.ktensor(factors), data, None, value, None)
    assert m.history[0].objective == pytest.approx(theirs, rel=1e-10)


@pytest.mark.parametrize("ranks", [(3, 3), (6, 4), (1, 1), (9, 2)])
def test_pyttb_scores_alike(ranks, tmp_path):
    """tstream compare and ktensor.score, of factors of any norm and weights of any sign."""
    pyttb = pytest.importorskip("pyttb")
    program = os.environ.get("TSTREAM_PROGRAM")
    if program is None:
        pytest.skip("TSTREAM_PROGRAM does not name tstream")
    rng = np.random.default_rng(sum(ranks))
    shape, models = (7, 11, 5), []
    for which, rank in enumerate(ranks):
        factors = [rng.normal(size=(n, rank)) * 10.0 ** rng.integers(-3, 4, rank) for n in shape]
        weights = rng.normal(size=rank) * 100
        models.append(pyttb.ktensor(factors, weights))
        ts.Model.from_factors(weights, factors).save(tmp_path / f"{which}.cp", "npy")
    found = json.loads(subprocess.check_output([program, "compare", "--json", tmp_path / "0.cp", tmp_path / "1.cp"]))
    for weights, name in (True, "greedy"), (False, "greedy_no_weights"):
        theirs, _, _, partner = models[0].score(models[1], weight_penalty=weights)
        assert found["scores"][name] == pytest.approx(theirs, abs=1e-12)
        if weights:
            pytest.importorskip("scipy")
            mine = [ts.load(tmp_path / f"{which}.cp") for which in range(2)]
            assert mine[0].score(mine[1]) == pytest.approx(found["scores"]["best"], abs=1e-12)
            mine = {pair["b"] - 1: pair["a"] - 1 for pair in found["pairs"]}
            assert [mine[b] for b in range(ranks[1])] == list(partner[:ranks[1]])


@pytest.mark.parametrize("init, loss", [(None, "least-squares"), ("nvecs", "least-squares"), (None, "huber:0.5")])
def test_a_start_that_was_saved_gives_the_same_bits(init, loss, tmp_path):
    rng = np.random.default_rng(4)
    x = rng.random((9, 8, 7)) * (rng.random((9, 8, 7)) < 0.4)
    t = ts.from_coo(np.argwhere(x), x[x != 0], shape=x.shape)
    run = dict(tol=0, cpu=True, loss=loss)
    m = ts.cp(t, 3, sweeps=4, seed=2, init=init, out=tmp_path / "a.cp", save_init=True, **run)
    again = ts.cp(t, 3, sweeps=4, seed=2, init=ts.load(tmp_path / "a.cp" / "init.ktensor"), **run)
    assert all(np.array_equal(a, b) for a, b in zip(m.factors, again.factors))
    start = (tmp_path / "a.cp" / "init.ktensor").read_bytes()
    ts.cp(t, 3, sweeps=6, seed=2, init=init, out=tmp_path / "a.cp", save_init=True, resume=True, **run)
    assert (tmp_path / "a.cp" / "init.ktensor").read_bytes() == start
    ts.cp(t, 3, sweeps=1, seed=2, init=init, out=tmp_path / "bare.cp", **run)
    bare = dict(sweeps=2, seed=2, init=init, out=tmp_path / "bare.cp", save_init=True, resume=True)
    if init == "nvecs" or loss != "least-squares":
        with pytest.raises(ts.ArgumentError, match="leave save_init out"):
            ts.cp(t, 3, **bare, **run)
    else:
        ts.cp(t, 3, **bare, **run)
        assert (tmp_path / "bare.cp" / "init.ktensor").read_bytes() == start
    several = ts.cp(t, [3], restarts=2, sweeps=4, seed=2, init=init, out=tmp_path / "b.cp", save_init=True, **run)
    for seed in (2, 3):
        again = ts.cp(t, 3, sweeps=4, seed=seed, init=ts.load(tmp_path / "b.cp" / f"r3.s{seed}" / "init.ktensor"), **run)
        assert all(np.array_equal(a, b) for a, b in zip(several[3, seed].factors, again.factors))
    with pytest.raises(ts.ArgumentError, match="give out"):
        ts.cp(t, 3, sweeps=1, save_init=True)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_start_that_was_given_is_saved_as_it_is(precision, tmp_path):
    rng = np.random.default_rng(5)
    index = rng.integers(0, [9, 8, 7], (60, 3)) * [2, 1, 3]  # modes 1 and 3 have empty slices
    t = ts.from_coo(index, rng.random(60), shape=(18, 8, 21), duplicates="sum")
    run = dict(sweeps=4, tol=0, cpu=True, progress=False, precision=precision)
    start = ts.Model.from_factors([2, 1, 0.25], [rng.random((n, 3)) - 0.2 for n in t.shape])
    for given in (start, ts.cp(t, 3, sweeps=2, seed=2, cpu=True, precision=precision)):
        plain = ts.cp(t, 3, init=given, **run)
        m = ts.cp(t, 3, init=given, out=tmp_path / "a.cp", save_init=True, replace=True, **run)
        saved = ts.load(tmp_path / "a.cp" / "init.ktensor")
        again = ts.cp(t, 3, init=saved, **run)
        for k in range(3):
            assert np.array_equal(m.factors[k], plain.factors[k]) and np.array_equal(again.factors[k], plain.factors[k])
            assert np.array_equal(saved.factors[k], given.rows(k)[1].astype(float))
        assert np.array_equal(m.weights, plain.weights) and np.array_equal(saved.weights, given.weights)


def test_core_consistency_is_that_of_the_definition():
    rng = np.random.default_rng(3)
    x = rng.random((5, 6, 4)) * (rng.random((5, 6, 4)) < 0.5)
    t = ts.from_coo(np.argwhere(x), x[x != 0], shape=x.shape, dtype="float64")
    factors = [rng.standard_normal((n, 3)) for n in x.shape]
    m = ts.Model.from_factors([2.0, 1.0, 0.5], factors)
    scale = [(w * np.prod([np.linalg.norm(f[:, r]) for f in factors])) ** (1 / 3) for r, w in enumerate([2.0, 1.0, 0.5])]
    inverse = [np.linalg.pinv(f / np.linalg.norm(f, axis=0) * scale) for f in factors]
    core = np.einsum("ijk,ai,bj,ck->abc", x, *inverse)
    want = np.zeros((3, 3, 3))
    want[range(3), range(3), range(3)] = 1
    off = np.sum((core - want) ** 2)
    assert m.core_consistency(t, threads=2) == pytest.approx(100 * (1 - off / 3), rel=1e-9)
    assert m.core_consistency(t, normalised=True) == pytest.approx(100 * (1 - off / np.sum(core ** 2)), rel=1e-9)
    inverse = [np.linalg.pinv(f * (m.weights if k == 0 else 1)) for k, f in enumerate(factors)]
    core = np.einsum("ijk,ai,bj,ck->abc", x, *inverse)
    off = np.sum((core - want) ** 2)
    assert m.core_consistency(t, scaling="given") == pytest.approx(100 * (1 - off / 3), rel=1e-9)
    assert m.core_consistency(t, scaling="given", normalised=True) == pytest.approx(
        100 * (1 - off / np.sum(core ** 2)), rel=1e-9)
    for scaling in ("equal", "given"):
        of_list, of_array = (m.core_consistency(each, scaling=scaling) for each in (t, x))
        assert of_array == pytest.approx(of_list, rel=1e-9)
    with pytest.raises(ts.ArgumentError, match="needs a tensor"):
        m.core_consistency()


def test_nonnegative_fits_are_those_of_tensorly(tmp_path):
    """From the same start after the same sweeps, at least theirs less 1e-4, where there is one optimum to be found:
    inner rounds differ, and may lead to different ones where there are several."""
    tl = pytest.importorskip("tensorly")
    from tensorly.decomposition import non_negative_parafac_hals
    rng = np.random.default_rng(7)
    for shape, rank, noise in (((30, 20, 25), 4, 0.01), ((12, 15, 9, 10), 3, 0.01), ((20, 15, 30), 3, 0.05)):
        truth = [rng.random((n, rank)) ** 4 for n in shape]
        dense = tl.cp_to_tensor((np.ones(rank), truth)) + noise * rng.random(shape)
        t = ts.from_coo(np.argwhere(dense != 0), dense[dense != 0], shape, dtype="float64")
        init = [rng.random((n, rank)) for n in shape]
        _, errors = non_negative_parafac_hals(dense, rank, n_iter_max=300, tol=1e-300, return_errors=True,
                                              init=tl.cp_tensor.CPTensor((np.ones(rank), [f.copy() for f in init])))
        m = ts.cp(t, rank, sweeps=300, tol=0, nonneg=True, precision="float64", progress=False,
                  init=ts.Model.from_factors(None, init))
        assert m.history[-1].fit >= 1 - errors[-1] - 1e-4


def test_tensorly_agrees(coo, tensor):
    pytest.importorskip("tensorly")
    from tensorly.decomposition import parafac
    from tensorly import cp_to_tensor
    init = starts(coo[2], 3)
    theirs = parafac(dense_of(coo), 3, n_iter_max=5, tol=0, init=(np.ones(3), [f.copy() for f in init]))
    m = ts.cp(tensor, 3, sweeps=5, tol=0, precision="float64", init=ts.Model.from_factors(None, init), **CPU)
    assert dense(m) == pytest.approx(cp_to_tensor(theirs), abs=1e-9)
    assert cp_to_tensor(m.to_tensorly()) == pytest.approx(dense(m), abs=1e-12)


def dense_array(order="C", dtype=np.float64):
    """Of rank 3, with noise."""
    rng = np.random.default_rng(4)
    factors = [rng.random((n, 3)) + 0.1 for n in (9, 11, 7, 13)]
    whole = np.einsum("ar,br,cr,dr->abcd", *factors) + 0.05 * rng.standard_normal((9, 11, 7, 13))
    return np.asarray(whole, dtype=dtype, order=order)


def obvious_als(x, factors, sweeps):
    """Alternating least squares with unfoldings; the fit after each sweep."""
    fits, norm = [], np.linalg.norm(x)
    for _ in range(sweeps):
        for mode in range(x.ndim):
            others = [f for m, f in enumerate(factors) if m != mode]
            letters = "abcdefgh"[: x.ndim]
            terms = ",".join(letter + "r" for m, letter in enumerate(letters) if m != mode)
            product = np.einsum(f"{letters},{terms}->{letters[mode]}r", x, *others, optimize=True)
            gram = np.prod([f.T @ f for f in others], axis=0)
            factors[mode] = product @ np.linalg.pinv(gram)
        model = np.einsum(",".join(letter + "r" for letter in letters) + "->" + letters, *factors)
        fits.append(1 - np.linalg.norm(x - model) / norm)
    return fits


@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_array_as_obvious_als(order):
    x = dense_array(order)
    start = [np.array(f, dtype=np.float64) for f in start_factors(x.shape, 3)]
    want = obvious_als(x, start, 6)
    m = ts.cp(x, 3, sweeps=6, tol=0, precision="float64", progress=False)
    assert np.allclose([s.fit for s in m.history], want, rtol=0, atol=1e-12)


def start_factors(shape, rank):
    """Those of seed 1."""
    def mix(z):
        z = (z + 0x9E3779B97F4A7C15) % 2**64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)
    return [[[(mix((mix((mix(1 + m) + i) % 2**64) + r) % 2**64) >> 11) * 2.0**-53 for r in range(rank)]
             for i in range(n)] for m, n in enumerate(shape)]


def test_dense_arrays_of_all_kinds(tmp_path):
    x = dense_array()
    m = ts.cp(x, 3, sweeps=4, precision="float64", progress=False)
    np.save(tmp_path / "x.npy", x)
    for other in (np.load(tmp_path / "x.npy", mmap_mode="r"), tmp_path / "x.npy", np.asfortranarray(x), x.astype(">f8"),
                  x[::1, :, :, ::1], np.repeat(x, 2, axis=3)[..., ::2]):
        again = ts.cp(other, 3, sweeps=4, precision="float64", progress=False)
        assert np.allclose(again.factors[1], m.factors[1], rtol=0, atol=1e-10)
    t = ts.from_array(x, name="cells")
    assert t.shape == x.shape and t.nnz == x.size and t.dtype == np.float64
    assert np.isclose(t.norm, np.linalg.norm(x), rtol=1e-14)
    assert abs(m.fit(t) - m.history[-1].fit) < 1e-10
    assert m.fit(x) == m.fit(tmp_path / "x.npy") == m.fit(t)  # what cp takes
    with pytest.raises(ts.ArgumentError, match="coordinates are float64: whole numbers are wanted"):
        m.predict(np.array([[0.5, 0, 0, 0]]))
    with pytest.raises(ts.ArgumentError, match="hold_out='10%': a share of the cells"):
        ts.cp(x, 3, hold_out="10%")
    with pytest.raises(ts.ArgumentError, match="a walk over nonzeros is not possible with a dense tensor"):
        next(t.blocks())
    with pytest.raises(ts.ArgumentError, match="complex128 are not possible"):
        ts.cp(x.astype(complex), 3)
    with pytest.raises(ts.FormatError, match="1 dimension; a dense tensor has 2 to 8"):
        ts.cp(x.ravel(), 3)
    hidden = np.ma.masked_greater(x, np.median(x))  # of which NumPy's asarray drops the mask
    m = ts.cp(hidden, 3, sweeps=3, observed=True, **CPU)
    same = ts.cp(hidden.filled(np.nan), 3, sweeps=3, observed=True, **CPU)
    assert all((a == b).all() for a, b in zip(m.factors, same.factors))
    ts.from_array(np.ma.masked_array(x))
    for wrong in ({"rank": -1}, {"seed": -1}, {"threads": -1}, {"patience": -1}):
        with pytest.raises(ts.ArgumentError, match=f"{next(iter(wrong))}=-1: it must not be negative"):
            ts.cp(x, **{"rank": 2, **wrong})
    x[1, 2, 3, 4] = np.nan
    m = ts.cp(x, 2, sweeps=3, observed=True, precision="float64")
    with pytest.warns(ts.TstreamWarning, match="observed"):
        same = ts.cp(x, 2, sweeps=3, precision="float64")  # unknown cells are left out, and that is said
    assert all((a == b).all() for a, b in zip(m.factors, same.factors))
    known = ~np.isnan(x)
    error = np.linalg.norm((x - dense(m))[known])
    assert m.history[-1].fit == pytest.approx(1 - error / np.linalg.norm(x[known]), abs=1e-12)
    top = m.evaluate(x, top=2 * x.size).top
    rows = list(top)  # no more than there are known cells
    assert len(rows) == known.sum() and not any(np.isnan(x[tuple(int(row[f"mode{k}"]) for k in range(4))]) for row in rows)
    x[1, 2, 3, 4] = np.inf
    with pytest.raises(ts.FormatError, match=r"array: cell \[1, 2, 3, 4\] .* is infinite"):
        ts.from_array(x)


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_gamma_of_all_cells_has_no_warning(threads):
    """The warning speaks of weights and unknown cells, which such a tensor does not have. Least squares of cells with weights have it."""
    cells = np.stack(np.unravel_index(np.arange(24), (4, 3, 2)), axis=1)
    t = ts.from_coo(cells, np.arange(24) + 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ts.TstreamWarning)
        m = ts.cp(t, 2, sweeps=3, loss="gamma", threads=threads, **CPU)
    assert (m.factors[0] == ts.cp(t, 2, sweeps=3, loss="gamma", observed=True, **CPU).factors[0]).all()
    with pytest.warns(ts.TstreamWarning, match="observed=True is taken for given"):
        ts.cp(ts.from_coo(cells, np.ones(24), weights=np.arange(24) % 3 + 1.0), 2, sweeps=3, threads=threads, **CPU)


def test_what_c_would_cut_is_refused(coo, tensor, tmp_path):
    """Numbers that ctypes wraps around, paths that end at a NUL, and what NumPy drops on the way to float64."""
    coords, values = np.array([[0, 1, 2], [3, 1, 0]]), np.array([1.0, 2.0])
    for wrong, says in [(dict(shape=(2**64 + 4, 3, 3)), "shape.0.=18446744073709551620"), (dict(shape=(-1, 3, 3)), "shape.0.=-1"),
                        (dict(memory=-1), "-1 is not a size"), (dict(threads=-1), "threads=-1"), (dict(threads=2**32), "threads=4294967296"),
                        (dict(out=f"{tmp_path}/a\0b"), "has a NUL"), (dict(weights=[1j, 1]), "weights are complex128")]:
        with pytest.raises(ts.ArgumentError, match=says):
            ts.from_coo(coords, values, **wrong)
    for wrong, says in [(values + 1j, "values are complex128"), (values.astype("m8[s]"), "values are timedelta64"),
                        (values.astype(str), "values are <U32"), (np.ma.array(values, mask=[0, 1]), "values are masked")]:
        with pytest.raises(ts.ArgumentError, match=says):
            ts.from_coo(coords, wrong)
    with pytest.raises(ts.ArgumentError, match="coordinates are masked"):
        ts.from_coo(np.ma.masked_equal(coords, 1), values)
    with pytest.raises(ts.ArgumentError, match="seed=18446744073709551616"):
        ts.cp(tensor, 2, seed=2**64, sweeps=1, **CPU)
    with pytest.raises(ts.ArgumentError, match="at_least=1180591620717411303424"):
        tensor.select(tmp_path / "s.tsh", at_least=2**70)
    with pytest.raises(ts.ArgumentError, match="an index of mode 0="):
        tensor.select(tmp_path / "s.tsh", keep={0: [2**70]})
    with pytest.raises(ts.ArgumentError, match="seed=-1"):
        tensor.split(0.5, seed=-1, train=tmp_path / "a.tsh", test=tmp_path / "b.tsh")
    for index, says in [([-1], "index -1"), ([0.5], "indices are float64")]:
        with pytest.raises(ts.ArgumentError, match=says):
            tensor.labels(1, index)
    with pytest.raises(ts.ArgumentError, match="factors are complex128"):
        ts.Model.from_factors(None, [np.ones((2, 1)) * 1j, np.ones((2, 1))])
    with pytest.raises(ts.ArgumentError, match="has a NUL"):
        ts.open(f"{tensor.path}\0x")
    assert not list(tmp_path.iterdir())


WRITE = """
import sys
import numpy as np
import tstream as ts
m = ts.load(sys.argv[1])
for mode, factor in enumerate(m.factors):
    factor.setflags(write=True)
    factor[3, 1] = 17
    assert m.factors[mode][3, 1] == 17 and m.rows(mode)[1][3, 1] == 17
m.weights.setflags(write=True)
m.weights[0] = 2
"""


def test_a_write_to_a_factor_never_reaches_its_file(tmp_path):
    """Factors of 1 MiB are mapped: a write once ended the process."""
    rng = np.random.default_rng(8)
    ts.Model.from_factors([3.0, 2.0], [rng.random((n, 2)) for n in (70_000, 20)]).save(tmp_path / "m", ["npy"])
    before = {p.name: p.read_bytes() for p in (tmp_path / "m").iterdir()}
    assert any(len(x) > 1 << 20 for x in before.values())
    subprocess.run([sys.executable, "-c", WRITE, tmp_path / "m"], check=True)
    assert {p.name: p.read_bytes() for p in (tmp_path / "m").iterdir()} == before
    assert ts.load(tmp_path / "m").factors[0][3, 1] != 17


def test_a_build_that_fails_leaves_no_directory(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(MemoryError, match="no memory for"):
        ts.from_coo([[0, 1], [1, 0]], [1, 2], memory=2**62)
    with pytest.raises(ts.FormatError, match="no nonzeros"):
        ts.from_coo([[0, 1], [1, 0]], [0, 0])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_while_a_call_starts(tensor, monkeypatch, late):
    """It is raised when the call has ended, which goes on with what the caller frees else; or before it began."""
    start = threading.Thread.start

    def interrupted(thread):
        if thread.name != "tstream":
            return start(thread)
        if late:
            start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ts.cp(tensor, 8, sweeps=1000000, tol=0, **CPU)
    assert not any(t.name == "tstream" for t in threading.enumerate())


def test_close_while_another_thread_computes(coo):
    coords, values, shape = coo
    tensor, swept, after = ts.from_coo(coords, values, shape), threading.Event(), []

    def sweep(_):
        swept.set()
        time.sleep(0.01)

    def compute():
        after.append(ts.cp(tensor, 4, sweeps=20, tol=0, on_sweep=sweep, **CPU).history[-1].sweep)

    thread = threading.Thread(target=compute)
    thread.start()
    swept.wait(20)
    tensor.close()
    assert os.path.exists(tensor.path)  # until the call has ended
    thread.join()
    assert after == [20] and not os.path.exists(tensor.path)
    with pytest.raises(ts.ArgumentError, match="the tensor is closed"):
        ts.cp(tensor, 4, **CPU)


def test_a_forked_process_leaves_the_tensor(coo):
    coords, values, shape = coo
    tensor = ts.from_coo(coords, values, shape)
    child = os.fork()
    if child == 0:
        tensor.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert os.path.exists(tensor.path) and ts.open(tensor.path).nnz == tensor.nnz


def test_a_forked_process_computes(tensor):
    x = dense(ts.cp(tensor, 2, sweeps=1, **CPU))
    ts.from_array(x)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if ts.cp(x, 2, sweeps=2, **CPU).fit(x) > 0.9 else 1)
    assert os.waitpid(child, 0)[1] == 0


def held_cells(shape, share, seed, start=0.0):
    """Which cells are held out, by the hash of their indices."""
    def mix(z):
        z = (z + 0x9E3779B97F4A7C15) % 2**64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)
    held = np.zeros(shape, dtype=bool)
    for index in np.ndindex(*shape):
        h = mix(seed)
        for i in index:
            h = mix(h ^ i)
        held[index] = start <= (h >> 11) * 2.0**-53 < start + share
    return held


@pytest.mark.parametrize("order", ["C", "F"])
def test_cells_of_a_dense_array_are_held_out(order, tmp_path):
    x = dense_array(order)
    held = held_cells(x.shape, 0.25, 5)
    assert ts.from_array(x).dense
    m = ts.cp(x, 2, sweeps=4, tol=0, seed=5, hold_out=0.25, precision="float64", progress=False)
    unknown = x.copy(order=order)
    unknown[held] = np.nan
    same = ts.cp(unknown, 2, sweeps=4, tol=0, seed=5, observed=True, precision="float64", progress=False)
    for a, b in zip(m.factors, same.factors):
        assert np.allclose(a, b, rtol=0, atol=1e-10)
    assert m.history[-1].rmse == pytest.approx(np.sqrt(np.mean((x - dense(m))[~held]**2)), rel=1e-10)
    assert m.history[-1].held_out_rmse == pytest.approx(np.sqrt(np.mean((x - dense(m))[held]**2)), rel=1e-10)
    np.save(tmp_path / "x.npy", x)
    less = ts.cp(x, 2, sweeps=4, tol=0, seed=5, hold_out=0.25, mean=True, patience=2, precision="float64", progress=False)
    assert less.mean == pytest.approx(x[~held].mean(), rel=1e-12) and less.best_sweep == 4
    assert less.history[-1].held_out_rmse == pytest.approx(np.sqrt(np.mean((x - dense(less))[held]**2)), rel=1e-10)
    both = ts.cp(tmp_path / "x.npy", [1, 2], sweeps=4, tol=0, seed=5, hold_out=0.25, precision="float64", progress=False)
    for a, b in zip(m.factors, both[2, 5].factors):
        assert np.allclose(a, b, rtol=0, atol=1e-10)
    rows = ts.cross_validate(x, [1, 3], folds=3, sweeps=4, tol=0, precision="float64", progress=False)
    assert rows[1]["held_out"] < rows[0]["held_out"]
    fold = held_cells(x.shape, 1 / 3, 1, 1 / 3)
    unknown = x.copy(order=order)
    unknown[fold] = np.nan
    same = ts.cp(unknown, 3, sweeps=4, tol=0, observed=True, precision="float64", progress=False)
    assert rows[1]["errors"][1] == pytest.approx(np.sqrt(np.mean((x - dense(same))[fold]**2)), rel=1e-9)


def test_exact_low_rank_of_a_dense_array():
    rng = np.random.default_rng(2)
    truth = [np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in (12, 10, 8)]
    x = np.einsum("ar,br,cr->abc", *truth)
    m = ts.cp(x, 3, sweeps=200, tol=0, precision="float64", progress=False)
    model = np.einsum("r,ar,br,cr->abc", m.weights, *m.factors)
    assert np.linalg.norm(model - x) < 1e-12 * np.linalg.norm(x)


def test_cells_with_an_index_that_was_never_seen(tmp_path):
    t = ts.from_coo(np.array([[0, 0, 0], [0, 1, 1], [2, 1, 0]]), np.array([1.0, 2.0, 3.0]), (4, 2, 3), tmp_path / "seen.tsh")
    m = ts.cp(t, 2, sweeps=5, progress=False, cpu=True)
    with pytest.warns(ts.TstreamWarning, match="3 of 4 cells have an index whose row in the model is zeros"):
        assert list(m.predict([[1, 0, 0], [3, 1, 1], [0, 0, 2], [0, 0, 0]]))[:3] == [0, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m.predict([[0, 0, 0], [2, 1, 1]])
        assert m.evaluate(t).unseen == 0
    other = ts.from_coo(np.array([[1, 0, 0], [0, 1, 1]]), np.array([1.0, 2.0]), (4, 2, 3), tmp_path / "other.tsh")
    with pytest.warns(ts.TstreamWarning, match="1 of 2 cells"):
        assert m.evaluate(other).unseen == 1
