# SPDX-License-Identifier: BSD-3-Clause
"""What type checkers see of the package: mypy and pyright, where they are installed."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

import tstream as ts

RIGHT = '''
import dataclasses
import pathlib
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
import tstream as ts
from typing_extensions import assert_type

Array = np.ndarray[Any, np.dtype[Any]]
t = ts.open("x.tsh")
assert_type(t, ts.Tensor)
assert_type(t.shape, Tuple[int, ...])
assert_type(t.used, Tuple[int, ...])
assert_type(t.nnz, int)
assert_type(t.norm, float)
assert_type(t.path, str)
assert_type(t.order, int)
assert_type(t.mode_names, Tuple[Optional[str], ...])
assert_type(t.used_indices("a"), Array)
assert_type(t.split(0.2, seed=1), Tuple[ts.Tensor, ts.Tensor])
assert_type(ts.from_coo(np.ones((3, 2), int), np.ones(3)), ts.Tensor)
assert_type(ts.from_array(np.ones((3, 2))), ts.Tensor)

m = ts.cp(t, 8)
assert_type(m, ts.Model)
assert_type(ts.cp("x.tsh", np.int64(8)), ts.Model)
assert_type(ts.cp(pathlib.Path("x.tsh"), 8, restarts=None), ts.Model)
assert_type(ts.cp(np.ones((3, 4, 5)), 8, seed=None, precision=np.float64), ts.Model)
assert_type(ts.cp(t, [8, 16]), ts.Collection)
assert_type(ts.cp(t, range(2, 9)), ts.Collection)
assert_type(ts.cp(t, (8, 16), restarts=3), ts.Collection)
assert_type(ts.cp(t, np.array([8, 16])), ts.Collection)
assert_type(ts.cp(t, 8, restarts=3), ts.Collection)
ts.cp(t, 8, seed=np.random.default_rng(1), nonneg=["a"], l1={"a": 0.5}, l2=[0.1, 0.2, 0.3],
      bounds={0: (0, 1)}, smooth={"a": 2}, fix=0, simplex="b", gpus=[0, 1], init=m, on_sweep=print)
penalty = {0: 0.5}
ts.cp(t, 8, l1=penalty, bounds=(0, 1))

assert_type(m.weights, Array)
assert_type(m.factors[0], Array)
assert_type(m.factors["a"], Array)
assert_type(m.factors[:2], List[Array])
assert_type(m.shape, Tuple[int, ...])
assert_type(m.rank, int)
assert_type(m.order, int)
assert_type(m.history, List[ts.Sweep])
assert_type(m.history[0].fit, float)
assert_type(dataclasses.asdict(m.history[0]), Dict[str, Any])
assert_type(m.converged, bool)
assert_type(m.mean, Optional[float])
assert_type(m.best_sweep, Optional[int])
assert_type(m.loss, Optional[str])
assert_type(m.fit(t), float)
assert_type(m.fit(t, details=True), Dict[str, float])
assert_type(m.score(m), float)
assert_type(m.predict([[0, 1, 2]]), Array)
assert_type(m.core_consistency(t), float)
assert_type(m.rows(0), Tuple[Optional[Array], Array])
assert_type(ts.Model.from_factors(None, [np.ones((3, 2))]), ts.Model)
assert_type(m.save("x.cp"), None)

x = m.top(0, mode="a", n=5)
assert_type(x, ts.Table)
assert_type(x["index"], Array)
assert_type(x[0], Dict[str, Any])
assert_type(x[:2], ts.Table)
assert_type(x.columns, List[str])
assert_type([row for row in x], List[Dict[str, Any]])
e = m.evaluate(t, top=3)
assert_type(e, ts.Evaluation)
assert_type(e.rmse, float)
assert_type(e.nnz, int)
assert_type(e.top, Optional[ts.Table])

c = ts.cp(t, [8, 16])
assert_type(c[8, 1], ts.Model)
assert_type(c.best, Dict[int, ts.Model])
assert_type(c.best[8].weights, Array)
assert_type(c.table, ts.Table)
assert_type([each for each in c], List[ts.Model])
assert_type(ts.cross_validate(t, [2, 3], folds=3), ts.Table)
assert_type(ts.load("x.cp"), Union[ts.Model, Any])
ts.load("x.cp").weights.sum()
assert_type(ts.Model.load("x.cp"), ts.Model)
assert_type(ts.Collection.load("x.cp", t).best[8], ts.Model)
assert_type(ts.losses(), Tuple[str, ...])
try:
    ts.open("x")
except ts.FileError as error:
    assert_type(error.code, int)
    raise FileNotFoundError from error
'''

WRONG = [
    'ts.cp(t, "8")', 'ts.cp(t, 8, swees=3)', 'ts.cp(t, 8, loss=3)', 'ts.cp(t, 8, on_sweep=3)',
    'ts.cp(t, 8, seed="x")', 'ts.cp(t)', 'ts.cp(t, 8, restarts="x")', 'ts.cp(t, 8).best',
    'ts.cp(t, [8]).weights', 'ts.cp(t, 8, restarts=2).factors', 'ts.cp(t, 8).top("x")',
    'ts.cp(t, 8).fit(details=3)', 'ts.cp(t, 8).history[0].fits', 'ts.cp(t, 8, gpus=1.5)',
    'ts.cp(t, 8).save(3)', 'ts.cp(t, 8).rows(1.5)', 'ts.cp(t, 8, sweeps="x")', 't.shapes',
    'ts.cp(t, 8).factors[1.5]', 'ts.losses().x', 'ts.cross_validate(t, 8, out="x")']


def run(tmp_path, checker, text):
    file = tmp_path / "user.py"
    file.write_text(text)
    where = os.path.dirname(os.path.dirname(ts.__file__))
    if checker == "mypy":
        command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary",
                   "--cache-dir", str(tmp_path / "cache")]
    else:
        command = [shutil.which("pyright", path=os.path.dirname(sys.executable))
                   or shutil.which("pyright"), "--pythonpath", sys.executable]
    # mypy finds an installed package by itself, and refuses its folder in MYPYPATH
    env = {**os.environ, "PYTHONPATH": where}
    if os.path.basename(where) != "site-packages":
        env["MYPYPATH"] = where
    return subprocess.run([*command, str(file)], env=env, cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def needed(checker):
    if checker == "mypy" and importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    if checker == "pyright":
        path = os.path.dirname(sys.executable)
        found = shutil.which("pyright", path=path) or shutil.which("pyright")
        if found is None or shutil.which("node") is None:
            pytest.skip("pyright and node are not installed")
    pytest.importorskip("typing_extensions")


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_users_see_types(checker, tmp_path):
    needed(checker)
    p = run(tmp_path, checker, RIGHT)
    assert p.returncode == 0, p.stdout


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_wrong_type_is_told(checker, tmp_path):
    """Each of these lines, and no other."""
    needed(checker)
    p = run(tmp_path, checker, "import tstream as ts\n\nt = ts.open('x.tsh')\n"
            + "\n".join(WRONG) + "\n")
    told = {int(line.split("user.py:")[1].split(":")[0]) for line in p.stdout.splitlines()
            if "user.py:" in line and "error" in line}
    missed = [text for i, text in enumerate(WRONG, 4) if i not in told]
    assert not missed and min(told) == 4, p.stdout


def test_the_package_is_typed():
    assert os.path.exists(os.path.join(os.path.dirname(ts.__file__), "py.typed"))
