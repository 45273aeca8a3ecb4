# SPDX-License-Identifier: BSD-3-Clause
"""Every property of a tensor times everything that reads it: tests/properties.tsv, cell by cell.

check_properties.py BIN TABLE [gpu]: in an empty folder. A cell says `right`: what the programs print and write is what arithmetic
over all cells in float64 gives, with the tensor as Python holds it and the factors as they were written; or it names a reason: the
command is refused, by one sentence that holds the text of the reason at the table's end. Without a cell for a pair, or
with more than a tenth of them refused, the table is wrong itself. `gpu`: the consumers that compute on GPUs, with --gpus 1.

Python alone is needed; rows that begin with python take its package, and the numpy that it takes.
"""
import collections
import itertools
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys

BIN, TABLE = sys.argv[1:3]
GPU = sys.argv[3:] == ["gpu"]
LAUNCHER = os.environ.get("PROPERTIES_LAUNCHER", "").split()  # of two processes; empty: there is no MPI
PYTHON = os.environ.get("PROPERTIES_PYTHON", "")  # one that has numpy
SHAPE = (5, 4, 3)
CELLS = list(itertools.product(*map(range, SHAPE)))
failures = []


def run(*command, shell=None):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, timeout=120)
    return p.returncode, p.stdout, p.stderr


class Refused(Exception):
    pass


def program(name, *args):
    """What it prints; one that fails says so in a sentence."""
    rc, out, err = run(os.path.join(BIN, name), *args)
    if rc:
        raise Refused(err.strip() or f"exit status {rc}")
    return out


def events(out):
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


# ---- tensors, as Python holds them ----

class Tensor:
    """known: the listed cells as (cell, value, weight), one for each nonzero; unlisted cells are zeros, or unknown."""

    def __init__(self, name, known, path):
        self.name, self.known, self.path = name, known, path
        self.sums = collections.defaultdict(float)
        for cell, value, _ in known:
            self.sums[cell] += value
        self.labels = None
        self.dense = path.endswith(".npy")

    @property
    def weighted(self):
        return self.name == "weights"

    def value(self, cell):
        return self.sums.get(cell, 0.0)


def write_npy(path, values):
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }" % (SHAPE,)
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}d", *values))


def write_tns(path, known):
    with open(path, "w") as f:
        for cell, value, _ in known:
            f.write(" ".join(str(i + 1) for i in cell) + f" {value!r}\n")


def build(path, *options):
    program("tshard", "build", path, "-q", *options)


DIMS = "x".join(map(str, SHAPE))


def make(name, known, stem):
    """A tensor with the property `name`, in a file or folder called so."""
    path = stem + (".npy" if name in ("dense", "unknown") else ".tsh")
    if path.endswith(".npy"):
        value = {c: x for c, x, _ in known}
        write_npy(path, [value.get(c, math.nan) for c in CELLS])
    elif name in ("weights", "labels"):
        with open(stem + ".csv", "w") as f:
            if name == "weights":
                f.write("a,b,c,v,w\n" + "".join("%d,%d,%d,%g,%g\n" % (*(i + 1 for i in c), x, w) for c, x, w in known))
            else:
                f.write("a,b,c,v\n" + "".join("a%d,b%d,c%d,%g\n" % (*c, x) for c, x, _ in known))
        build(stem + ".csv", "-f", "--zeros", "keep", *(["--modes", "a,b,c", "--value", "v", "--weights", "w", "--dims", DIMS] if name == "weights"
                                                        else ["--names", "sorted"]))
    else:
        write_tns(stem + ".tns", known)
        build(stem + ".tns", "-f", "--dims", DIMS, *{"duplicates": ["--duplicates", "keep"], "float64": ["--values", "float64"]}.get(name, []),
              *(["--zeros", "keep"] if any(x == 0 for _, x, _ in known) else []))
        if name == "part":
            program("tshard", "part", path, "--part", "1/1", "-o", stem + ".1.tsh", "-q", "-f")
            path = stem + ".1.tsh"
    t = Tensor(name, known, path)
    t.labels = "abc" if name == "labels" else None
    return t


def make_tensors():
    rng = random.Random(5)
    picked = sorted(sorted(CELLS, key=lambda c: rng.random())[:40])
    for m, n in enumerate(SHAPE):  # all slices are used: rows are indices
        assert {c[m] for c in picked} == set(range(n))
    plain = [(c, float(rng.randint(1, 6)), 1.0) for c in picked]
    again = [(c, float(rng.randint(1, 6)), 1.0) for c, _, _ in plain[:14]] + [(c, 2.0, 1.0) for c, _, _ in plain[:6]]
    cells = [float(rng.randint(0, 5)) for _ in CELLS]
    unknown = set(rng.sample(range(len(CELLS)), 9))
    return {name: make(name, known, name) for name, known in {
        "plain": plain,
        "duplicates": plain + again,
        "zeros": [(c, 0.0 if i % 3 == 0 else x, 1.0) for i, (c, x, _) in enumerate(plain)],
        "weights": [(c, x, rng.choice([0.5, 1.0, 2.0, 3.0])) for c, x, _ in plain],
        "labels": plain,
        "part": plain,
        "constant": [(c, 3.0, 1.0) for c, _, _ in plain],
        "coded": [(c, rng.choice([0.5, 2.25, 7.75]), 1.0) for c, _, _ in plain],
        "float64": [(c, x + rng.randint(1, 999) / 1024 + 2.0**-40, 1.0) for c, x, _ in plain],
        "one": [((4, 3, 2), 3.0, 1.0)],
        "all": [(c, float(rng.randint(1, 6)), 1.0) for c in CELLS],
        "dense": [(c, x, 1.0) for c, x in zip(CELLS, cells)],
        "unknown": [(c, x + 1, 1.0) for i, (c, x) in enumerate(zip(CELLS, cells)) if i not in unknown],
    }.items()}


# ---- models ----

class Model:
    def __init__(self, weight, factor):
        self.weight, self.factor = weight, factor

    def at(self, cell):
        return sum(w * math.prod(f[i][r] for f, i in zip(self.factor, cell)) for r, w in enumerate(self.weight))


def read_model(path):
    word = open(os.path.join(path, "model.ktensor")).read().split()
    order = int(word[1])
    rank = int(word[2 + order])
    at = 3 + order
    weight = list(map(float, word[at:at + rank]))
    at += rank
    factor = []
    for _ in range(order):
        rows = int(word[at + 2])
        at += 4
        factor.append([list(map(float, word[at + i * rank:at + (i + 1) * rank])) for i in range(rows)])
        at += rows * rank
    return Model(weight, factor)


def write_model(path, model):
    with open(path, "w") as f:
        f.write("ktensor\n%d\n%s\n%d\n%s\n" % (len(SHAPE), " ".join(map(str, SHAPE)), len(model.weight), " ".join(map(repr, model.weight))))
        for rows in model.factor:
            f.write("matrix\n2\n%d %d\n" % (len(rows), len(model.weight)))
            for row in rows:
                f.write(" ".join(map(repr, row)) + "\n")


def given_model():
    """Entries above 0, so that counts have a likelihood; of rank 2."""
    rng = random.Random(9)
    m = Model([2.0, 1.5], [[[rng.uniform(0.2, 1.5) for _ in range(2)] for _ in range(n)] for n in SHAPE])
    write_model("given.ktensor", m)
    return m


# ---- the obvious arithmetic ----

def mix(z):
    z = (z + 0x9E3779B97F4A7C15) % 2**64
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) % 2**64
    return z ^ z >> 31


def held(cell, share, start=0.0, seed=1):
    h = mix(seed)
    for i in cell:
        h = mix(h ^ i)
    return start <= (h >> 11) * 2.0**-53 < start + share


def close(what, got, want, tol=2e-6):
    if got is None or not abs(got - want) <= tol * max(1.0, abs(want)):
        raise AssertionError(f"{what} is {got}, expected {want}")


def listed_only(t, observed):
    return observed or t.weighted or t.name == "unknown"


def fit_of(t, m, observed=False, known=None):
    """1 - |X - M| / |X|: over all cells, each the sum of its nonzeros; or over the nonzeros, each as often as its weight says."""
    known = t.known if known is None else known
    if listed_only(t, observed):
        left = sum(w * (x - m.at(c)) ** 2 for c, x, w in known)
        size = sum(w * x * x for _, x, w in known)
    else:
        sums = collections.defaultdict(float)
        for c, x, _ in known:
            sums[c] += x
        left = sum((sums[c] - m.at(c)) ** 2 for c in CELLS)
        size = sum(x * x for x in sums.values())
    return 1 - math.sqrt(left / size)


def rmse_of(t, m, known):
    return math.sqrt(sum(w * (x - m.at(c)) ** 2 for c, x, w in known) / sum(w for _, _, w in known))


def losses(kind, x, m):
    least = 1e-10
    return {"bernoulli": lambda: math.log(1 + m) - x * math.log(m + least),
            "bernoulli-logit": lambda: math.log1p(math.exp(m)) - x * m,
            "gamma": lambda: x / (m + least) + math.log(m + least),
            "poisson-log": lambda: math.exp(m) - x * m,
            "huber:1": lambda: (x - m) ** 2 if abs(x - m) <= 1 else 2 * abs(x - m) - 1}[kind]()


# ---- consumers ----

def split_cells(t, share, start=0.0):
    if t.dense:  # rows are indices
        return [k for k in t.known if not held(k[0], share, start)], [k for k in t.known if held(k[0], share, start)]
    return [k for k in t.known if not held(row_of(t, k[0]), share, start)], [k for k in t.known if held(row_of(t, k[0]), share, start)]


def row_of(t, cell):
    """Rows are the indices that are used, counted."""
    return tuple(sorted({k[0][m] for k in t.known}).index(cell[m]) for m in range(3))


def cp(t, *options, out="m.cp", rank="2", sweeps="4", precision="float64", path=None, launcher=()):
    device = ["--gpus", "1"] if GPU else ["--cpu"]
    command = ["cp", path or t.path, "-r", rank, "-i", sweeps, "--tol", "0", "-p", precision, "--json", "--force", "-o", out, *device, *options]
    if launcher:
        rc, text, err = run(*launcher, os.path.join(BIN, "tstream-mpi"), *command)
        if rc:
            raise Refused(err.strip())
    else:
        text = program("tstream", *command)
    return events(text)


def done(told):
    return [e for e in told if e["event"] == "done"][-1]


def check_cp(t, *options, observed=False, tol=2e-6, **more):
    """The fit that is told is that of the factors written; the JSON does not say exact where the twin does not."""
    for precision in ("float64", "float32"):
        end, m = done(cp(t, *options, precision=precision, **more)), read_model("m.cp")
        want = fit_of(t, m, observed)
        close(f"fit ({precision})", end["fit"], want, tol)
        if end["exact"] and not abs(1 - want) < 1e-3:
            raise AssertionError(f"exact at a fit of {want}")
        if listed_only(t, observed):
            close("RMSE", end["rmse"], rmse_of(t, m, t.known))
        norm = json.load(open("m.cp/run.json"))["tensor"]["norm"]
        if not t.weighted:
            close("norm of run.json", norm, norm_of(t))


def norm_of(t):
    """Of the index, where cells have weights: of the values alone."""
    return math.sqrt(sum(x * x for x in t.sums.values()))


def cp_default(t):
    check_cp(t)


def cp_method(*options, observed=False):
    return lambda t: check_cp(t, *options, observed=observed)


def cp_held(*options, observed):
    def check(t):
        end, m = done(cp(t, "--hold-out", "30%", *options)), read_model("m.cp")
        kept, out = split_cells(t, 0.3)
        close("held-out RMSE", end["held_out_rmse"], rmse_of(t, m, out))
        close("fit", end["fit"], fit_of(t, m, observed or t.dense, kept))
    return check


def cp_poisson(t, *options):
    end, m = done(cp(t, "--loss", "poisson", *options)), read_model("m.cp")
    kept = split_cells(t, 0.3)[0] if options else t.known
    want = sum(x * math.log(max(m.at(c), 1e-10)) for c, x, _ in kept if x > 0) - sum(m.at(c) for c in CELLS)
    close("log-likelihood", end["log_likelihood"], want, 1e-5)
    close("fit", end["fit"], fit_of(t, m, known=kept), 1e-5)


def cp_poisson_held(t):
    cp_poisson(t, "--hold-out", "30%")


def cp_loss(kind, *options):
    observed = "--observed" in options

    def check(t):
        if kind.startswith("bernoulli") and not t.dense:
            t = make(t.name, [(c, float((i + 1) % 2), w) for i, (c, _, w) in enumerate(t.known)], "bits")
        end, m = done(cp(t, "--loss", kind, *options, sweeps="12")), read_model("m.cp")
        used = [{c[k] for c, _, _ in t.known} for k in range(3)]  # cells of empty slices count for nothing
        every = t.known if observed else [(c, t.value(c), 1.0) for c in CELLS if all(i in u for i, u in zip(c, used))]
        close("objective", end["objective"], sum(losses(kind, x, m.at(c)) for c, x, _ in every), 1e-4)
    return check


def cp_several(t):
    shutil.rmtree("m.cp", ignore_errors=True)
    told = cp(t, "--restarts", "2", rank="2,1")
    models = [e for e in told if e["event"] == "models"][-1]["models"]
    for e in models:
        close(f"fit of {e['model']}", e["fit"], fit_of(t, read_model(f"m.cp/{e['model']}")))
    for rank in (1, 2):
        mine = [e for e in models if e["rank"] == rank]
        by = (lambda e: -e["fit"]) if mine[0]["objective"] is None else (lambda e: e["objective"])
        if [e["best"] for e in mine].count(True) != 1 or by([e for e in mine if e["best"]][0]) > min(map(by, mine)):
            raise AssertionError(f"the best of {mine}")
    shutil.rmtree("m.cp")


def cp_folds(*options, observed):
    def check(t):
        shutil.rmtree("m.cp", ignore_errors=True)
        told = [e for e in cp(t, "--folds", "3", *options) if e["event"] == "fold"]
        if len(told) != 3:
            raise AssertionError(f"{len(told)} folds")
        for e in told:
            m = read_model(f"m.cp/r2.f{e['fold']}")
            kept, out = split_cells(t, 1 / 3, (e["fold"] - 1) / 3)
            close("held-out RMSE", e["held_out_rmse"], rmse_of(t, m, out))
            close("fit", e["fit"], fit_of(t, m, observed or t.dense, kept))
        shutil.rmtree("m.cp")
    return check


def cp_resume(t):
    cp(t, sweeps="4", out="whole.cp")
    cp(t, sweeps="2")
    program("tstream", "cp", "--resume", "m.cp", "-i", "4", "--force", "--cpu", "--json")
    if open("m.cp/model.ktensor").read() != open("whole.cp/model.ktensor").read():
        raise AssertionError("a run that went on has other factors")


def fit(t, launcher=()):
    if launcher:
        rc, text, err = run(*launcher, os.path.join(BIN, "tstream-mpi"), "fit", "given.ktensor", t.path, "--json", "--cpu")
        if rc:
            raise Refused(err.strip())
    else:
        text = program("tstream", "fit", "given.ktensor", t.path, "--json", *(["--gpus", "1"] if GPU else ["--cpu"]))
    e = events(text)[-1]
    close("fit", e["fit"], fit_of(t, GIVEN), 1e-12)
    weighted = listed_only(t, False)
    close("norm", e["tensor_norm"], math.sqrt(sum(w * x * x for _, x, w in t.known)) if weighted else norm_of(t), 1e-12)
    close("residual", e["residual_norm"], (1 - fit_of(t, GIVEN)) * e["tensor_norm"], 1e-12)
    close("model norm", e["model_norm"], math.sqrt(sum(GIVEN.at(c) ** 2 for c in CELLS)), 1e-12)


def diagnose(t):
    """Of rank 1 the core is a number."""
    rng = random.Random(3)
    m = Model([1.5], [[[rng.uniform(0.5, 1.5)] for _ in range(n)] for n in SHAPE])
    write_model("one.ktensor", m)
    e = events(program("tstream", "fit", "one.ktensor", t.path, "--diagnose", "--json", "--cpu"))[-1]
    g = sum(t.value(c) * m.at(c) for c in CELLS) / sum(m.at(c) ** 2 for c in CELLS)
    close("core consistency", e["core_consistency"], 100 * (1 - (g - 1) ** 2), 1e-8)


def score(t, launcher=()):
    device = ["--gpus", "1"] if GPU and not t.dense else []  # scores of arrays are computed on CPU cores
    command = ["score", "given.ktensor", t.path, "--json", "-p", "float64"]
    if launcher:
        rc, text, err = run(*launcher, os.path.join(BIN, "tstream-mpi"), *command)
        if rc:
            raise Refused(err.strip())
    else:
        text = program("tstream", *command, *device)
    e = events(text)[-1]
    n = sum(w for _, _, w in t.known)
    close("RMSE", e["rmse"], rmse_of(t, GIVEN, t.known), 1e-12)
    close("MAE", e["mae"], sum(w * abs(x - GIVEN.at(c)) for c, x, w in t.known) / n, 1e-12)
    close("mean", e["mean_value"], sum(w * x for _, x, w in t.known) / n, 1e-12)
    close("mean of the model", e["mean_model"], sum(w * GIVEN.at(c) for c, _, w in t.known) / n, 1e-12)
    if not t.weighted and all(x == int(x) for _, x, _ in t.known):
        want = sum(x * math.log(GIVEN.at(c)) for c, x, _ in t.known) - sum(GIVEN.at(c) for c in CELLS)
        close("log-likelihood", e["poisson_log_likelihood"], want, 1e-11)


def score_zeros(t):
    """Where value and model are 0, 0 log 0 is 0: a slice of zeros in the model, and no other value there."""
    factor = [[row[:] for row in rows] for rows in GIVEN.factor]
    zeros = [i for i in range(SHAPE[0]) if all(x == 0 for c, x, _ in t.known if c[0] == i)]
    if not zeros:
        zeros, known = [0], [k for k in t.known if k[0][0] != 0]
        values = dict((c, x) for c, x, _ in known)
        if t.dense:
            write_npy("z.npy", [math.nan if t.name == "unknown" and c not in t.sums else values.get(c, 0.0) for c in CELLS])
            path = "z.npy"
        else:
            return
    else:
        known, path = t.known, t.path
    for i in zeros:
        factor[0][i] = [0.0, 0.0]
    m = Model(GIVEN.weight, factor)
    write_model("zero.ktensor", m)
    e = events(program("tstream", "score", "zero.ktensor", path, "--json", "-p", "float64"))[-1]
    close("log-likelihood", e["poisson_log_likelihood"],
          sum(x * math.log(m.at(c)) for c, x, _ in known if x > 0) - sum(m.at(c) for c in CELLS), 1e-11)


def predict(t):
    with open("cells.tns", "w") as f:
        for c, x, _ in t.known:
            f.write(" ".join(str(i + 1) for i in c) + f" {x!r}\n")
    out = program("tstream", "predict", "given.ktensor", "cells.tns", *([] if t.dense else [t.path]))
    rows = [line.split() for line in out.splitlines()]
    if len(rows) != len(t.known):
        raise AssertionError(f"{len(rows)} lines")
    for row, (c, x, _) in zip(rows, t.known):
        close("value", float(row[3]), x, 1e-15)
        close("model", float(row[4]), GIVEN.at(c), 1e-12)
        close("residual", float(row[5]), x - GIVEN.at(c), 1e-12)


def read_cells(path):
    out = program("tshard", "export", path, "-q")
    return sorted(tuple(map(float, line.split())) for line in out.splitlines())


def lines_of(t, known=None):
    return sorted((*(float(i + (not t.dense)) for i in c), x, *([w] if t.weighted else [])) for c, x, w in (t.known if known is None else known))


def export(t):
    if read_cells(t.path) != lines_of(t):
        raise AssertionError("other cells")


def export_table(t):
    """A table with names, as tshard build reads it."""
    rows = [line.split(",") for line in program("tshard", "export", t.path, "-q", "--format", "csv").splitlines()[1:]]
    first = 0 if t.dense else 1

    def index(text, m):
        return int(text[1:]) if t.labels and text[0] == t.labels[m] else int(text) - first
    have = sorted((tuple(index(f, m) for m, f in enumerate(row[:3])), *map(float, row[3:])) for row in rows)
    if have != sorted((c, x, w) if t.weighted else (c, x) for c, x, w in t.known):
        raise AssertionError("other cells")


def compare(t):
    """A model is like itself."""
    cp(t)
    shutil.rmtree("n.cp", ignore_errors=True)
    cp(t, out="n.cp")
    if events(program("tstream", "compare", "m.cp", "n.cp", "--json"))[-1]["score"] < 1 - 1e-6:
        raise AssertionError("a model is not like itself")


def export_model(t):
    cp(t)
    m = read_model("m.cp")
    out = program("tstream", "export", "m.cp", *([] if t.dense else [t.path]))
    rows = [line.split(",") for line in out.splitlines()[1:]]
    for row in rows:
        if row[0] != "0":
            mode, index = int(row[0]) - 1, int(row[2]) - (0 if t.dense else 1)  # arrays count from 0
            if t.labels and row[3] != f"{t.labels[mode]}{index}":
                raise AssertionError(f"the label of {row}")
            for r in range(2):
                close("entry", float(row[4 + r]), m.factor[mode][index][r], 1e-12)
    if len(rows) != 1 + sum(SHAPE):
        raise AssertionError(f"{len(rows)} rows")


def top(t):
    out = program("tstream", "top", "given.ktensor", t.path, "--json")
    for e in events(out):
        for m, rows in enumerate(e["modes"]):
            size = [abs(x["value"]) for x in rows]
            if size != sorted(size, reverse=True):
                raise AssertionError("not in order")
            for x in rows:
                i = x["index"] - (0 if t.dense else 1)
                if t.labels and x["label"] != f"{t.labels[m]}{i}":
                    raise AssertionError(f"the label of {x}")
                norm = [math.sqrt(sum(row[r] ** 2 for row in GIVEN.factor[m])) for r in range(2)]
                if min(abs(abs(x["value"]) - GIVEN.factor[m][i][r] / norm[r]) for r in range(2)) > 1e-6 and \
                        min(abs(abs(x["value"]) - GIVEN.factor[m][i][r]) for r in range(2)) > 1e-6:
                    raise AssertionError(f"{x} is no entry of mode {m + 1}")


def report(t):
    end = done(cp(t))
    program("tstream", "report", "m.cp", t.path, "-o", "r.html", "--force")
    page = open("r.html").read()
    if f"{end['fit']:.6f}"[:7] not in page:
        raise AssertionError("the page does not tell the fit")
    if f"{norm_of(t):.9g}" not in page:
        raise AssertionError("the page does not tell the norm")


def plan(t):
    e = events(program("tstream", "plan", t.path, "-r", "2", "--json"))[-1]
    if e["nnz"] != (len(CELLS) if t.dense else len(t.known)):
        raise AssertionError(f"{e['nnz']} nonzeros")


def mttkrp(t):
    program("tstream", "mttkrp", t.path, "-r", "3", "--check", *(["--gpus", "1"] if GPU else ["--cpu"]))


def verify(t):
    program("tshard", "verify", t.path)


def info(t):
    e = events(program("tshard", "info", t.path, "--json"))[-1]
    if not t.dense:
        close("norm", e["norm"], norm_of(t), 1e-12)
        if (e["nnz"], e["has_duplicates"], e["has_weights"]) != (len(t.known), t.name == "duplicates", t.weighted):
            raise AssertionError(f"{e}")


def split(t):
    program("tshard", "split", t.path, "--hold-out", "30%", "--train", "a.tsh", "--test", "b.tsh", "-f", "-q")
    kept, out = split_cells(t, 0.3)
    for path, part in (("a.tsh", kept), ("b.tsh", out)):
        if read_cells(path) != lines_of(t, part):
            raise AssertionError(f"other cells in {path}")
        program("tshard", "verify", path)
    part = Tensor(t.name, kept, "a.tsh")
    check_cp(part)


def select(t):
    first = "4..5" if not t.labels else "a3,a4"
    program("tshard", "select", t.path, "--keep", "1=" + first, "-o", "s.tsh", "-f", "-q")
    kept = [k for k in t.known if k[0][0] in (3, 4)]
    if read_cells("s.tsh") != lines_of(t, kept):
        raise AssertionError("other cells")
    program("tshard", "verify", "s.tsh")
    check_cp(Tensor(t.name, kept, "s.tsh"))


def select_sum(t):
    program("tshard", "select", t.path, "--sum", "3", "-o", "s.tsh", "-f", "-q")
    sums = collections.defaultdict(float)
    for c, x, _ in t.known:
        sums[c[:2]] += x
    have = {(int(i) - 1, int(j) - 1): x for i, j, x in read_cells("s.tsh")}
    for c in sums:
        close("sum", have.get(c, 0.0), sums[c], 1e-6)


def part(t):
    """Both parts, on one process what is there and on two a run."""
    for k in (1, 2):
        program("tshard", "part", t.path, "--part", f"{k}/2", "-o", f"h{k}.tsh", "-f", "-q")
        program("tshard", "verify", f"h{k}.tsh")


def mpi(check):
    def wrapped(t):
        if not LAUNCHER:
            return "no MPI"
        return check(t, launcher=LAUNCHER)
    return wrapped


def mpi_cp(t, launcher):
    check_cp(t, launcher=launcher)


def python(t):
    """cp, norm, fit and score of the package."""
    if not PYTHON:
        return "no numpy"
    code = ("import json, sys, tstream as ts\n"
            "t = ts.open(sys.argv[1]); m = ts.cp(t, 2, sweeps=4, tol=0, precision='float64', progress=False, cpu=True)\n"
            "print(json.dumps(dict(norm=t.norm, fit=m.history[-1].fit, exact=float(m.fit(t)),\n"
            "  weight=list(map(float, m.weights)), factor=[[list(map(float, r)) for r in f] for f in m.factors])))\n")
    rc, out, err = run(PYTHON, "-c", code, t.path)
    if rc:
        raise Refused(err.strip().splitlines()[-1])
    e = json.loads(out)
    m = Model(e["weight"], e["factor"])
    close("fit", e["fit"], fit_of(t, m))
    close("exact fit", e["exact"], fit_of(t, m), 1e-9)
    close("norm", e["norm"], norm_of(t), 1e-12)


def beside():
    """What is of no cell of the table."""
    every = make("all", [(c, 1.0 + i % 4, 1.0) for i, c in enumerate(CELLS)], "full")
    try:  # a tensor that lists every cell has none that is unlisted
        end, m = done(cp(every, "--loss", "gamma", sweeps="12")), read_model("m.cp")
        close("objective of gamma", end["objective"], sum(losses("gamma", x, m.at(c)) for c, x, _ in every.known), 1e-4)
        cp(make("plain", every.known[1:], "fewer"), "--loss", "gamma")
        failures.append("gamma of unlisted cells is not refused")
    except Refused as e:
        if "cells that are not listed" not in str(e):
            failures.append(f"gamma: {e}")
    zero = make("zeros", [((0, 0, 0), 0.0, 1.0), ((1, 1, 1), 0.0, 1.0)], "zero")
    if read_cells(zero.path) != lines_of(zero):
        failures.append("kept zeros that are all the tensor has are not there")
    program("tshard", "verify", zero.path)
    try:
        cp(zero)
        failures.append("a tensor of zeros is decomposed")
    except Refused as e:
        if "all values are 0, so there is nothing to decompose" not in str(e):
            failures.append(f"a tensor of zeros: {e}")
    gone = make("duplicates", [((0, 0, 0), 2.0, 1.0), ((0, 0, 0), -2.0, 1.0), ((1, 1, 1), -1.0, 1.0), ((1, 1, 1), 1.0, 1.0)], "gone")
    try:
        cp(gone)
        failures.append("nonzeros that cancel are decomposed")
    except Refused as e:
        if "the nonzeros of each cell add up to 0" not in str(e):
            failures.append(f"nonzeros that cancel: {e}")
    few = make("duplicates", [((0, 0, 0), 1.0, 1.0), ((0, 0, 0), 2.0, 1.0), ((1, 1, 1), 5.0, 1.0), ((1, 1, 1), 5.0, 1.0), ((0, 1, 0), 3.0, 1.0)], "few")
    end, m = done(cp(few, rank="1", sweeps="20")), read_model("m.cp")
    close("fit of the few", end["fit"], fit_of(few, m))
    if end["exact"]:
        failures.append("the few are told to be exact")


CONSUMERS = {
    "cp": cp_default,
    "cp --l2 1": cp_method("--l2", "1"),
    "cp --nonneg": cp_method("--nonneg"),
    "cp --l1 0.1": cp_method("--l1", "0.1"),
    "cp --simplex 1": cp_method("--simplex", "1"),
    "cp --bounds 0:2": cp_method("--bounds", "0:2"),
    "cp --orthogonal 1": cp_method("--orthogonal", "1"),
    "cp --smooth 1": cp_method("--smooth", "1"),
    "cp --accelerate": cp_method("--accelerate"),
    "cp --init nvecs": cp_method("--init", "nvecs"),
    "cp --fix 1": cp_method("--fix", "1", "--init", "given.ktensor"),
    "cp --observed": cp_method("--observed", observed=True),
    "cp --observed --mean": cp_method("--observed", "--mean", observed=True),
    "cp --observed --nonneg": cp_method("--observed", "--nonneg", observed=True),
    "cp --hold-out": cp_held(observed=False),
    "cp --observed --hold-out": cp_held("--observed", observed=True),
    "cp --folds": cp_folds(observed=False),
    "cp --observed --folds": cp_folds("--observed", observed=True),
    "cp --rank 2,1 --restarts 2": cp_several,
    "cp --resume": cp_resume,
    "cp --observed --init nvecs": cp_method("--observed", "--init", "nvecs", observed=True),
    "cp --observed --bounds 0:2": cp_method("--observed", "--bounds", "0:2", observed=True),
    "cp --observed --l2-scale count": cp_method("--observed", "--l2-scale", "count", observed=True),
    "cp --observed --fix 1": cp_method("--observed", "--fix", "1", "--init", "given.ktensor", observed=True),
    "cp --loss poisson": cp_poisson,
    "cp --loss poisson --hold-out": cp_poisson_held,
    "cp --loss poisson-log": cp_loss("poisson-log"),
    "cp --loss huber": cp_loss("huber:1"),
    "cp --loss huber --observed": cp_loss("huber:1", "--observed"),
    "cp --loss huber --optimizer lbfgsb": cp_loss("huber:1", "--optimizer", "lbfgsb"),
    "cp --loss gamma --observed": cp_loss("gamma", "--observed"),
    "cp --loss bernoulli": cp_loss("bernoulli"),
    "cp --loss bernoulli-logit --observed": cp_loss("bernoulli-logit", "--observed"),
    "fit": fit,
    "fit --diagnose": diagnose,
    "score": score,
    "score, 0 log 0": score_zeros,
    "predict": predict,
    "tshard export": export,
    "tshard export --format csv": export_table,
    "compare": compare,
    "export": export_model,
    "top": top,
    "report": report,
    "plan": plan,
    "mttkrp": mttkrp,
    "verify": verify,
    "info": info,
    "split": split,
    "select": select,
    "select --sum": select_sum,
    "part": part,
    "mpi cp": mpi(mpi_cp),
    "mpi fit": mpi(fit),
    "mpi score": mpi(score),
    "python": python,
}
ON_GPU = ("cp", "cp --l2 1", "cp --nonneg", "cp --observed", "cp --hold-out", "cp --observed --hold-out", "cp --rank 2,1 --restarts 2",
          "cp --loss poisson-log", "cp --loss huber --observed", "fit", "score", "mttkrp")


def read_table():
    """properties, {consumer: {property: cell}}, {reason: text}"""
    rows, reasons, names = {}, {}, None
    for line in open(TABLE):
        line = line.rstrip("\n")
        if line.startswith("#") or not line:
            continue
        field = line.split("\t")
        if names is None:
            names = field[1:]
        elif field[0].startswith("!"):
            reasons[field[0][1:]] = field[1]
        else:
            rows[field[0]] = dict(zip(names, field[1:]))
    return names, rows, reasons


def check_cell(consumer, t, cell, reasons):
    try:
        skipped = CONSUMERS[consumer](t)
        if cell != "right" and not skipped:
            return "is not refused"
        return None
    except Refused as e:
        if cell == "right":
            return f"is refused: {e}"
        if reasons[cell] not in str(e):
            return f"is refused by another sentence than the one of '{cell}': {e}"
        return None
    except Exception as e:  # the twin's
        return f"{type(e).__name__}: {e}" if cell == "right" else f"is not refused, and {e}"


def main():
    global GIVEN
    names, rows, reasons = read_table()
    tensors = make_tensors()
    GIVEN = given_model()
    if set(rows) != set(CONSUMERS) or set(names) != set(tensors):
        sys.exit(f"the table has not all pairs: {set(rows) ^ set(CONSUMERS)} {set(names) ^ set(tensors)}")
    every = [(c, n, rows[c][n]) for c in CONSUMERS for n in names]
    refused = sum(cell != "right" for _, _, cell in every)
    if 10 * refused > len(every):
        failures.append(f"{refused} of {len(every)} cells are refused: more than a tenth")
    for c, n, cell in every:
        if cell != "right" and c in ("cp", "fit", "score", "export", "tshard export"):
            failures.append(f"{c} of {n}: the default use is refused")
    seed = os.environ.get("PROPERTIES_SEED", "1")
    if os.environ.get("TSTREAM_TEST_LARGE") or GPU:
        chosen = every
    else:  # all of duplicates, and a tenth of the rest: of what is slow to start, nothing
        rng = random.Random(int(seed))
        chosen = [e for e in every if e[1] == "duplicates" or (rng.random() < 0.1 and e[0].split()[0] not in ("mpi", "python"))]
    chosen = [e for e in chosen if re.search(os.environ.get("PROPERTIES_ONLY", ""), f"{e[0]} of {e[1]}")]
    chosen = [e for e in chosen if not GPU or e[0] in ON_GPU]
    if not GPU:
        beside()
    show = "--show" in os.environ.get("PROPERTIES", "")
    for c, n, cell in chosen:
        wrong = check_cell(c, tensors[n], cell, reasons)
        if wrong:
            failures.append(f"{c} of {n} ({cell}): {wrong}")
            if show:
                print(failures[-1][:300], flush=True)
    for f in failures:
        print("FAILED:", f)
    print(f"{len(chosen)} of {len(every)} cells looked at, {refused} of all refused")
    sys.exit(bool(failures))


main()
