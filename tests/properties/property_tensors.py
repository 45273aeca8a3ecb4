# SPDX-License-Identifier: BSD-3-Clause
"""Tensors with properties as Python holds them, models, and arithmetic over all cells in float64: what check_properties.py and
combine_properties.py compare the programs with. Works in the current folder.
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


class Here:
    """What all share: the programs, what they compute on, and the shape of the tensors."""
    bin = ""
    device = ["--cpu"]
    on_gpu = False  # the consumers that compute on GPUs alone, also where `device` says otherwise
    launcher = os.environ.get("PROPERTIES_LAUNCHER", "").split()  # of processes of MPI; empty: there is no MPI
    python = os.environ.get("PROPERTIES_PYTHON", "")  # one that has numpy
    shape = ()
    cells = []
    given = None  # a model of that shape, in given.ktensor


here = Here()


def set_shape(shape):
    here.shape = tuple(shape)
    here.cells = list(itertools.product(*map(range, shape)))


def run(*command, shell=None):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, timeout=120)
    return p.returncode, p.stdout, p.stderr


class Refused(Exception):
    pass


def program(name, *args):
    """What it prints; one that fails says so in a sentence, which may come behind notes, and before where help is."""
    rc, out, err = run(os.path.join(here.bin, name), *args)
    said = [line for line in err.strip().splitlines() if not line.startswith("Try '")]
    if rc in (1, 2) and said:
        raise Refused(said[-1])
    if rc:
        raise Refused(" | ".join([f"exit status {rc}", *err.strip().splitlines()]))
    return out


class Library:
    """tests/library_cells, a program of the library that answers requests as long as it lives."""
    path = os.environ.get("PROPERTIES_LIBRARY_CELLS", "")  # empty: it is not built
    process = None

    def ask(self, *words):
        if self.process is None or self.process.poll() is not None:
            gpus = here.device[1:] if "--gpus" in here.device else []
            self.process = subprocess.Popen([self.path, *gpus[:1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the program of the library ended with {self.process.wait()}: {self.process.stderr.read()[-500:]}")
        answer = json.loads(re.sub(r"-?\bnan\b", "NaN", line))
        if "error" in answer:
            raise Refused(answer["error"])
        return answer


library = Library()


def events(out):
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


# ---- tensors, as Python holds them ----

class Tensor:
    """known: the listed cells as (cell, value, weight), one for each nonzero; unlisted cells are zeros, or unknown."""

    def __init__(self, properties, known, path):
        self.properties, self.known, self.path = frozenset(properties), known, path
        self.sums = collections.defaultdict(float)
        for cell, value, _ in known:
            self.sums[cell] += value
        self.labels = "abcdefgh"[:len(here.shape)] if "labels" in self.properties else None
        self.dense = path.endswith(".npy")
        self.weighted = "weights" in self.properties
        self.unknown = "unknown" in self.properties
        self.listed_squares = sum(x * x for _, x, _ in known)

    def value(self, cell):
        return self.sums.get(cell, 0.0)


def write_npy(path, values):
    shape = "(%s)" % "".join(f"{n}, " for n in here.shape)
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }" % shape
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}d", *values))


def write_table(path, properties, known):
    """A table of CSV: names where there are labels, and a column of weights."""
    modes = "abcdefgh"[:len(here.shape)]
    with open(path, "w") as f:
        f.write(",".join([*modes, "v", *(["w"] if "weights" in properties else [])]) + "\n")
        for c, x, w in known:
            index = [f"{m}{i}" if "labels" in properties else str(i + 1) for m, i in zip(modes, c)]
            f.write(",".join([*index, repr(x), *([repr(w)] if "weights" in properties else [])]) + "\n")
    options = ["--modes", ",".join(modes), "--value", "v"]
    options += ["--weights", "w"] if "weights" in properties else []
    return options + (["--names", "sorted"] if "labels" in properties else ["--dims", "x".join(map(str, here.shape))])


def write_tns(path, known):
    with open(path, "w") as f:
        for cell, value, _ in known:
            f.write(" ".join(str(i + 1) for i in cell) + f" {value!r}\n")


def build(path, *options):
    program("tshard", "build", path, "-q", *options)


def make_segmented(properties, known, stem):
    """Three segments: of every third cell a part of the value is in another one. The folder stem.fresh is a copy."""
    path = stem + ".tsh"
    segments = [[], [], []]
    for i, (cell, value, weight) in enumerate(known):
        if i % 3 == 0:
            segments[0].append((cell, value - 8.0, weight))
            segments[1 + i % 2].append((cell, 8.0, weight))
        else:
            segments[i % 5 % 3].append((cell, value, weight))
    for i, cells in enumerate(segments):
        write_tns(f"{stem}{i}.tns", cells)
    build(f"{stem}0.tns", "-f", "-o", path, "--dims", "x".join(map(str, here.shape)),
          *(["--zeros", "keep"] if any(x == 0 for _, x, _ in known) else []))
    for i in (1, 2):
        program("tshard", "append", path, f"{stem}{i}.tns", "-q", "--compact-at", "never")
    shutil.rmtree(stem + ".fresh", ignore_errors=True)
    shutil.copytree(path, stem + ".fresh")
    return Tensor(properties, known, path)


def make(properties, known, stem):
    """A tensor with these properties, in a file or folder called so. Of `labels` all indices are used."""
    if properties & {"dense", "unknown"}:
        value = {c: x for c, x, _ in known}
        write_npy(stem + ".npy", [value.get(c, math.nan if "unknown" in properties else 0.0) for c in here.cells])
        return Tensor(properties, known, stem + ".npy")
    path = stem + ".tsh"
    if "segmented" in properties:
        return make_segmented(properties, known, stem)
    if properties & {"weights", "labels"}:
        options = write_table(stem + ".csv", properties, known)
        source = stem + ".csv"
    else:
        write_tns(stem + ".tns", known)
        options = ["--dims", "x".join(map(str, here.shape))]
        source = stem + ".tns"
    build(source, "-f", "-o", path, *options, *(["--duplicates", "keep"] if "duplicates" in properties else []),
          *(["--values", "float64"] if "float64" in properties else []),
          *(["--zeros", "keep"] if properties & {"zeros", "weights", "labels"} or any(x == 0 for _, x, _ in known) else []))
    if "part" in properties:
        program("tshard", "part", path, "--part", "1/1", "-o", stem + ".1.tsh", "-q", "-f")
        path = stem + ".1.tsh"
    return Tensor(properties, known, path)


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
        f.write("ktensor\n%d\n%s\n%d\n%s\n" % (len(here.shape), " ".join(map(str, here.shape)), len(model.weight), " ".join(map(repr, model.weight))))
        for rows in model.factor:
            f.write("matrix\n2\n%d %d\n" % (len(rows), len(model.weight)))
            for row in rows:
                f.write(" ".join(map(repr, row)) + "\n")


def given_model():
    """Entries above 0, so that counts have a likelihood; of rank 2."""
    rng = random.Random(9)
    m = Model([2.0, 1.5], [[[rng.uniform(0.2, 1.5) for _ in range(2)] for _ in range(n)] for n in here.shape])
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


def close_fit(what, got, want, t, m, tol=2e-6, rounding=2.0**-52):
    """Where components are larger than the tensor and cancel, roundings of their squares are left in (1 - fit)^2."""
    size = sum(w * w for w in m.weight) / sum(x * x for _, x, _ in t.known)
    if got is None or abs((1 - got) ** 2 - (1 - want) ** 2) > 16 * rounding * size:
        close(what, got, want, tol)


def listed_only(t, observed):
    return observed or t.weighted or t.unknown


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
        left = sum((sums[c] - m.at(c)) ** 2 for c in here.cells)
        size = sum(x * x for x in sums.values())
    return 1 - math.sqrt(left / size)


def norm_of(t):
    """Of the index, where cells have weights: of the values alone."""
    return math.sqrt(sum(x * x for x in t.sums.values()))


def rmse_of(t, m, known):
    return math.sqrt(sum(w * (x - m.at(c)) ** 2 for c, x, w in known) / sum(w for _, _, w in known))


def losses(kind, x, m):
    least = 1e-10
    return {"bernoulli": lambda: math.log(1 + m) - x * math.log(m + least),
            "bernoulli-logit": lambda: math.log1p(math.exp(m)) - x * m,
            "gamma": lambda: x / (m + least) + math.log(m + least),
            "poisson-log": lambda: math.exp(m) - x * m,
            "huber:1": lambda: (x - m) ** 2 if abs(x - m) <= 1 else 2 * abs(x - m) - 1}[kind]()


