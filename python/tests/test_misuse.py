# SPDX-License-Identifier: BSD-3-Clause
"""Wrong arguments, by signature: each is an exception of Python with one sentence, in no time."""

import operator

import numpy as np
import pytest

import tstream as ts

CPU = dict(cpu=True, progress=False)
RUN = dict(sweeps=2, **CPU)
T, V = TypeError, ValueError
NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module")
def tensor(tmp_path_factory):
    rng = np.random.default_rng(3)
    coords = np.unique(rng.integers(0, [20, 15, 10], size=(900, 3)), axis=0)
    return ts.from_coo(coords, rng.random(len(coords)) + 0.5, modes=["a", "b", "c"],
                       out=tmp_path_factory.mktemp("t") / "x.tsh")


@pytest.fixture(scope="module")
def model(tensor):
    return ts.cp(tensor, 3, **RUN)


def closed():
    t = ts.from_coo([[0, 1], [1, 0]], [1.0, 2.0])
    t.close()
    return t


def tell(told, case):
    """The exception of a call is of the class, and has one line that says what is wrong."""
    call, kind = case
    with pytest.raises(kind) as e:
        call(told)
    text = str(e.value).strip()
    assert text and "\n" not in text and len(text) < 400, text
    assert "0x" not in text and "<lambda>" not in text, text
    assert type(e.value) not in (AssertionError, SystemError) and "ctypes" not in text, text


# Settings of cp: name, and what it does not take.
SETTINGS = [
    ("rank", [0, -1, 2049, 10**30], V), ("rank", ["8", 2.5, None, b"8", [2.5], ["8"], object()], T),
    ("rank", [[], [2, 2], [2, -1], [0]], V),
    ("restarts", [0, -1], V), ("restarts", ["2", 2.5, [2]], T),
    ("loss", ["lesat-squares", "huber", "huber:x", "huber:-1", "", "poisson\0", "a\ud800"], V),
    ("loss", [None, 3, ["poisson"], b"poisson"], T),
    ("optimizer", ["adam2", "", "lbfgsb"], V), ("optimizer", [None, 3], T),
    ("inner", [0, -1, 2**40], V), ("inner", ["3", None, 2.5, [3]], T),
    ("sweeps", [0, -1, 2**40], V), ("sweeps", ["3", None, 2.5, [3], NAN], T),
    ("tol", [NAN, -1], V), ("tol", ["1e-3", [1], object()], T),
    ("seed", [-1, 2**64], V), ("seed", ["x", 2.5, [1], object()], T),
    ("init", ["nvec", "", np.ones((20, 3))[None][0:0]], (T, V)),
    ("nonneg", ["d", 3, -4, [0, 7]], V), ("nonneg", [1.5, [None], object(), [True, 1.5]], T),
    ("l1", [-1, NAN, INF, [1, 2], {7: 1}, {"d": 1}], V), ("l1", [object(), {1.5: 1}], T),
    ("l2", [-1, NAN, [1, 2], "x", {0: "x"}, [[1, 2, 3]]], V), ("l2", [{None: 1}], T),
    ("hold_out", [-0.1, 1, 2, NAN], V), ("hold_out", ["0.1", None, [0.1]], T),
    ("hold_out_from", [-0.1, 1, NAN], V), ("hold_out_from", ["0", [0]], T),
    ("patience", [-1, 3], V), ("patience", ["3", None, 1.5], T),
    ("simplex", ["d", 5], V), ("simplex", [1.5], T),
    ("bounds", [(1, 0), (0,), 3, (NAN, 1), {0: 1}, {0: "ab"}, {9: (0, 1)}, "ab"], V),
    ("orthogonal", ["d", 5, [0, 1, 2]], V), ("orthogonal", [1.5], T),
    ("smooth", [3, {9: 1}, {0: -1}, {0: NAN}], V), ("smooth", [object()], T),
    ("fix", ["d", 0, 9], V), ("fix", [1.5], T),
    ("threads", [-1, 2**40], V), ("threads", ["2", None, 1.5], T),
    ("host_memory", [-1, "8 apples", "", NAN, 2**70], V),
    ("host_memory", [[8], b"8G", object()], T),
    ("precision", ["float16", "", np.int32], V), ("precision", [None, 3], T),
    ("out", ["", "a\0b", "a\ud800"], (V, OSError)), ("out", [3, [1]], T),
    ("formats", ["csv", [], ["npy", "csv"], ""], V), ("formats", [[3], 3], (T, V)),
    ("rows", ["some", ""], V), ("rows", [None, 3], T),
    ("checkpoint", [NAN], V), ("checkpoint", ["5m", None, [3]], T),
    ("resume", ["yes", 3, True], V), ("max_time", [NAN, -1], V), ("max_time", ["1h", [1]], T),
    ("gpus", [-1, "x", "a\ud800"], (V, RuntimeError)), ("gpus", [1.5, [1.5], [None]], T),
    ("gpu_memory", ["x", -1], V), ("gpu_memory", [[1]], T),
    ("on_sweep", [3, "print"], T), ("l2_scale", ["rows"], V), ("l2_scale", [None], T),
    ("trace", ["a\0b"], V), ("trace", [3], T),
]
CASES = [(name, value, kind) for name, values, kind in SETTINGS for value in values]


@pytest.mark.parametrize("name, value, kind", CASES,
                         ids=[f"{name}-{i}" for i, (name, *_) in enumerate(CASES)])
def test_a_setting_is_refused(tensor, name, value, kind, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    given = {**RUN, "rank": 3, name: value}
    if name in ("gpus", "gpu_memory"):
        given.pop("cpu")
    if name == "hold_out_from":
        given["hold_out"] = 0.1
    tell(tensor, (lambda t: ts.cp(t, **given), kind))
    assert os_is_empty(tmp_path)


def os_is_empty(path):
    return [p.name for p in path.iterdir()] == []


COO, ONES = [[0, 1], [1, 0]], [1.0, 2.0]
TENSORS = [
    (lambda t: ts.cp(None, 2), T), (lambda t: ts.cp(3, 2), T), (lambda t: ts.cp(object(), 2), T),
    (lambda t: ts.cp("nowhere.tsh", 2), FileNotFoundError), (lambda t: ts.cp(closed(), 2), V),
    (lambda t: ts.cp(t), T), (lambda t: ts.cp(t, 2, 3), T), (lambda t: ts.cp(t, 2, swees=3), T),
    (lambda t: ts.cp(np.ones(3), 2), V), (lambda t: ts.cp(np.ones((2,) * 9), 2), V),
    (lambda t: ts.cp(np.full((3, 3), NAN), 2, observed=True, **CPU), V),
    (lambda t: ts.cp(np.array([[1, INF]]), 1, **CPU), V),
    (lambda t: ts.cp(np.ones((2, 2), complex), 1), V), (lambda t: ts.cp(np.array([["a"]]), 1),
    (T, V)),
    (lambda t: ts.open(3), T), (lambda t: ts.open(None), T), (lambda t: ts.open(""), (V, OSError)),
    (lambda t: ts.open("a\0b"), V), (lambda t: ts.open(t.path + "/index"), (V, OSError)),
    (lambda t: ts.load(3), T), (lambda t: ts.load(None), T), (lambda t: ts.load(t.path),
    (V, OSError)),
    (lambda t: ts.from_coo(COO, [1.0]), V), (lambda t: ts.from_coo([[0.5, 1]], [1.0]), (T, V)),
    (lambda t: ts.from_coo([[-1, 1]], [1.0]), V), (lambda t: ts.from_coo(COO, [1.0, NAN]), V),
    (lambda t: ts.from_coo(COO, [1.0, INF]), V), (lambda t: ts.from_coo(COO, ["a", "b"]), (T, V)),
    (lambda t: ts.from_coo(COO, ONES, (1, 1)), V), (lambda t: ts.from_coo(COO, ONES, (2, 2, 2)), V),
    (lambda t: ts.from_coo(COO, ONES, (2, 0)), V), (lambda t: ts.from_coo(COO, ONES, ("a", 2)),
    (T, V)),
    (lambda t: ts.from_coo([0, 1], ONES), V), (lambda t: ts.from_coo([[0]], [1.0]), V),
    (lambda t: ts.from_coo(COO, ONES, weights=[1.0]), V),
    (lambda t: ts.from_coo(COO, ONES, weights=[1.0, -1]), V),
    (lambda t: ts.from_coo(COO, ONES, modes=["a"]), V),
    (lambda t: ts.from_coo(COO, ONES, memory="x"), V),
    (lambda t: ts.from_frame({}, ["a"]), (KeyError, V)),
    (lambda t: ts.from_frame({"a": [1]}, ["b"]), (KeyError, V)),
    (lambda t: ts.from_frame({"a": [1], "b": [1, 2]}, ["a", "b"]), V),
    (lambda t: ts.from_array(np.ones(3)), V), (lambda t: ts.from_array("x"), (T, V)),
    (lambda t: t.mode("d"), V), (lambda t: t.mode(3), V), (lambda t: t.mode(1.5), T),
    (lambda t: t.mode(None), T), (lambda t: t.labels("d", [0]), V),
    (lambda t: t.labels(0, [-1]), V),
    (lambda t: t.labels(0, [0.5]), (T, V)), (lambda t: closed().labels(0, [0]), V),
    (lambda t: t.used_indices(9), V), (lambda t: closed().used_indices(0), V),
    (lambda t: next(t.blocks(9)), V), (lambda t: next(closed().blocks()), V),
    (lambda t: next(t.blocks(size=-1)), V), (lambda t: next(t.blocks(size="x")), T),
    (lambda t: t.split(0), V), (lambda t: t.split(1.5), V), (lambda t: t.split("x"), T),
    (lambda t: t.split(NAN), V), (lambda t: t.split(0.5, seed="x"), T),
    (lambda t: t.select("s.tsh", keep={"d": [1]}), V),
    (lambda t: t.select("s.tsh", keep={0: [-1]}), V),
    (lambda t: t.select("s.tsh", keep={0: ["ann"]}), V), (lambda t: t.select("s.tsh", sum=[9]), V),
    (lambda t: t.select("s.tsh", at_least=-1), V), (lambda t: t.select("s.tsh", sum=[0, 1, 2]), V),
    (lambda t: ts.cross_validate(t, 2, folds=1), V),
    (lambda t: ts.cross_validate(t, 2, folds="x"), T),
    (lambda t: ts.cross_validate(t, "2"), T), (lambda t: ts.cross_validate(t, 2, hold_out=0.1), V),
]


@pytest.mark.parametrize("case", TENSORS, ids=[f"tensor-{i}" for i in range(len(TENSORS))])
def test_a_tensor_is_refused(tensor, case, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    tell(tensor, case)
    assert os_is_empty(tmp_path)


SQUARE = np.ones((2, 2))
MODELS = [
    (lambda m: m.top(3), V), (lambda m: m.top(-1), V), (lambda m: m.top("0"), T),
    (lambda m: m.top(0, 3), IndexError), (lambda m: m.top(0, "d"), V), (lambda m: m.top(0, 1.5), T),
    (lambda m: m.top(0, None), T), (lambda m: m.top(0, 0, -1), V), (lambda m: m.top(0, 0, "x"), T),
    (lambda m: m.top(0, True), T), (lambda m: m.rows(3), IndexError), (lambda m: m.rows("d"), V),
    (lambda m: m.rows(1.5), T), (lambda m: m.factors[3], IndexError), (lambda m: m.factors["d"], V),
    (lambda m: m.factors[None], T), (lambda m: m.factors[1.5], T),
    (lambda m: m.predict([[0, 0]]), V), (lambda m: m.predict([[0.5, 0, 0]]), T),
    (lambda m: m.predict([[-1, 0, 0]]), V), (lambda m: m.predict([[99, 0, 0]]), V),
    (lambda m: m.predict("x"), (T, V)), (lambda m: m.predict(None), (T, V)),
    (lambda m: m.predict(([0], [0, 1], [0])), V), (lambda m: m.predict([0, 0, 0]), V),
    (lambda m: m.predict([[0, 0, 0], [0, 0]]), V),
    (lambda m: m.predict({}), V), (lambda m: m.predict({"a": [0], "b": [0]}), V),
    (lambda m: m.predict({"a": 0, "b": 0, "c": 0}), (T, V)),
    (lambda m: m.predict({"a": [[0]], "b": [0], "c": [0]}), V),
    (lambda m: m.predict({"a": [object()], "b": [0], "c": [0]}), V),
    (lambda m: m.predict({"a": [NAN], "b": [0], "c": [0]}), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, SQUARE], labels=[["x", "y"], None]).predict(
        [("x", 0), (object(), 0)]), V),
    (lambda m: m.predict({"a": [None], "b": [0], "c": [0]}), V),
    (lambda m: m.predict({"a": [-1], "b": [0], "c": [0]}), V),
    (lambda m: m.predict({"a": [2**70], "b": [0], "c": [0]}), V),
    (lambda m: m.predict([("x", 0, 0)]), V), (lambda m: m.predict([(b"x", 0, 0)]), V),
    (lambda m: m.predict([("x", 0)]), V), (lambda m: m.predict([("x", [0], 0)]), V),
    (lambda m: m.predict((["x"], [0], [0, 1])), V), (lambda m: m.predict([("x", 0, 0), 3]), V),
    (lambda m: m.predict(iter([{"a": [0], "b": [0], "c": [0]}])), (T, V)),
    (lambda m: m.fit(value="v"), (T, V)), (lambda m: m.fit(SQUARE, value="v"), V),
    (lambda m: m.fit({"a": [0], "b": [0], "c": [0], "v": [1.0]}), V),
    (lambda m: m.fit({"a": [0], "b": [0], "c": [0], "v": [1.0]}, value=["v"]), (T, V)),
    (lambda m: m.fit({"a": [0], "b": [0], "c": [0], "v": [1.0]}, value="w"), V),
    (lambda m: m.fit({"a": [0], "b": [0], "c": [0], "v": ["x"]}, value="v"), V),
    (lambda m: m.evaluate({"a": [0], "b": [99], "c": [0], "v": [1.0]}, value="v"), V),
    (lambda m: m.fold_in({"a": [0], "b": [99], "c": [0], "v": [1.0]}, value="v"), V),
    (lambda m: m.fold_in([{"a": [0], "b": [0], "c": [0], "v": [1.0]}]), V),
    (lambda m: m.predict(np.ma.array([[0, 0, 0]], mask=[[0, 1, 0]])), V),
    (lambda m: m.predict([np.ma.array([0, 0, 0], mask=[0, 1, 0])]), V),
    (lambda m: m.predict(([0], np.ma.array([0], mask=[1]), [0])), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, [np.ma.array([1, 2], mask=[0, 1])] * 2]), V),
    (lambda m: ts.Model.from_factors(np.ma.array([1, 2], mask=[0, 1]), [SQUARE, SQUARE]), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, SQUARE], modes=["a\ud800", "b"]), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, SQUARE], labels=[["a\ud800", "b"], None]), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, SQUARE], labels=[[["a"], ["b"]], None]), V),
    (lambda m: m.save("a\ud800"), V), (lambda m: m.fit("a\ud800"), V),
    (lambda m: m.fit(3), T), (lambda m: m.fit("nowhere.tsh"), FileNotFoundError),
    (lambda m: m.fit(closed()), V), (lambda m: m.fit(np.ones((2, 2))), V),
    (lambda m: m.fit(threads=-1, cpu=True), V), (lambda m: m.fit(threads="x", cpu=True), T),
    (lambda m: m.fit(host_memory="x"), V),
    (lambda m: m.core_consistency(closed()), V), (lambda m: m.core_consistency(scaling="x"), V),
    (lambda m: m.core_consistency(3), T), (lambda m: m.core_consistency(threads="x"), T),
    (lambda m: m.evaluate(top=-1), V), (lambda m: m.evaluate(top="x"), T),
    (lambda m: m.evaluate(by_slice="d"), V), (lambda m: m.evaluate(by_slice=1.5), T),
    (lambda m: m.evaluate(precision="float16"), V), (lambda m: m.evaluate(precision=3), T),
    (lambda m: m.evaluate(closed()), V), (lambda m: m.evaluate(3), T),
    (lambda m: m.score(3), T), (lambda m: m.score(None), T),
    (lambda m: m.score(ts.Model.from_factors(None, [SQUARE, SQUARE])), V),
    (lambda m: m.save(3), T), (lambda m: m.save("a\0b"), V), (lambda m: m.save("x", "csv"), V),
    (lambda m: m.save("x", rows="some"), V), (lambda m: m.save("x", []), V),
    (lambda m: m.save("nowhere/x"), FileNotFoundError), (lambda m: m.save("x", 3), (T, V)),
    (lambda m: ts.Model.from_factors(None, []), V),
    (lambda m: ts.Model.from_factors(None, None), T),
    (lambda m: ts.Model.from_factors(None, [SQUARE]), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, np.ones((2, 3))]), V),
    (lambda m: ts.Model.from_factors([1], [SQUARE, SQUARE]), V),
    (lambda m: ts.Model.from_factors([1, NAN], [SQUARE, SQUARE]), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, SQUARE * NAN]), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, SQUARE * 1e300], dtype="float32"), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, SQUARE], dtype="int"), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, SQUARE], dtype=3), T),
    (lambda m: ts.Model.from_factors(None, [SQUARE, SQUARE.astype(complex)]), T),
    (lambda m: ts.Model.from_factors(None, [SQUARE, np.ones((0, 2))]), V),
    (lambda m: ts.Model.from_factors(None, [SQUARE, np.array([["a", "b"]])]), T),
    (lambda m: ts.Model.from_factors("ab", [SQUARE, SQUARE]), T),
    (lambda m: ts.Model.from_factors(None, [np.ones(2), SQUARE]), V),
    (lambda m: m.weights.__setitem__(0, 1), V), (lambda m: m.factors[1].__setitem__(0, 1), V),
    (lambda m: operator.setitem(m.factors, 0, SQUARE), T), (lambda m: hash(m), T),
    (lambda m: m < m, T),
]


@pytest.mark.parametrize("case", MODELS, ids=[f"model-{i}" for i in range(len(MODELS))])
def test_a_call_of_a_model_is_refused(model, case, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    tell(model, case)
    assert os_is_empty(tmp_path)


def test_a_refusal_changes_nothing(tensor, model):
    assert model == ts.cp(tensor, 3, **RUN)


def test_there_are_enough():
    assert len(CASES) + len(TENSORS) + len(MODELS) >= 90
