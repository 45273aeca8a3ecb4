# SPDX-License-Identifier: BSD-3-Clause
"""What reads a tensor: each function runs programs on one, and compares what they print and write with property_tensors.py."""
import collections
import json
import math
import os
import random
import shutil
import zlib

from property_tensors import (Model, Refused, Tensor, close, close_fit, events, fit_of, here, held, library, listed_only, losses, make, norm_of,
                              program, read_model, rmse_of, run, write_model, write_npy)


def split_cells(t, share, start=0.0):
    if t.dense:  # rows are indices
        return [k for k in t.known if not held(k[0], share, start)], [k for k in t.known if held(k[0], share, start)]
    return [k for k in t.known if not held(row_of(t, k[0]), share, start)], [k for k in t.known if held(row_of(t, k[0]), share, start)]


def row_of(t, cell):
    """Rows are the indices that are used, counted."""
    return tuple(sorted({k[0][m] for k in t.known}).index(cell[m]) for m in range(len(here.shape)))


def by_ranks(launcher, command, program="tstream-mpi"):
    """What processes of MPI print. Of a word that is a list each has its own."""
    if any(isinstance(word, list) for word in command):
        call = ["mpirun" if not launcher else launcher[0]]
        for k in range(2):
            call += [*([":"] if k else []), "-n", "1", os.path.join(here.bin, program), *(w[k] if isinstance(w, list) else w for w in command)]
    else:
        call = [*launcher, os.path.join(here.bin, program), *command]
    rc, out, err = run(*call)
    if rc:
        raise Refused(" | ".join(err.strip().splitlines()))
    return out


def cp(t, *options, out="m.cp", rank="2", sweeps="4", precision="float64", path=None, launcher=()):
    command = ["cp", path or t.path, "-r", rank, "-i", sweeps, "--tol", "0", "-p", precision, "--json", "--force", "-o", out, *here.device, *options]
    if launcher:
        return events(by_ranks(launcher, command))
    return events(program("tstream", *command))


def done(told):
    return [e for e in told if e["event"] == "done"][-1]


def check_cp(t, *options, observed=False, tol=2e-6, **more):
    """The fit that is told is that of the factors written; the JSON does not say exact where the twin does not. On GPUs, where a program
    takes seconds to start, it computes in one precision, and a process of the library, which lives on, in the other."""
    precisions = ["float64", "float32"]
    if here.on_gpu and library.path:
        like = {"--l2": "l2=1", "--nonneg": "nonneg", "--observed": "observed"}
        other = precisions.pop(zlib.crc32(" ".join([*options, *sorted(t.properties)]).encode()) % 2)
        check_c_cp(t, [other], [like[o] for o in options if o in like])
    for precision in precisions:
        end, m = done(cp(t, *options, precision=precision, **more)), read_model("m.cp")
        want = fit_of(t, m, observed)
        close_fit(f"fit ({precision})", end["fit"], want, t, m, tol if precision == "float64" else max(tol, 5e-6))  # some 50 roundings of float32
        if end["exact"] and not abs(1 - want) < 1e-3:
            raise AssertionError(f"exact at a fit of {want}")
        if listed_only(t, observed):
            close("RMSE", end["rmse"], rmse_of(t, m, t.known), 2e-6 * max(1.0, *(abs(x) for _, x, _ in t.known)))
        norm = json.load(open("m.cp/run.json"))["tensor"]["norm"]
        if not t.weighted:
            close("norm of run.json", norm, norm_of(t))


def cp_default(t):
    check_cp(t)


def cp_method(*options, observed=False):
    return lambda t: check_cp(t, *options, observed=observed)


def cp_held(*options, observed):
    def check(t):
        end, m = done(cp(t, "--hold-out", "30%", *options)), read_model("m.cp")
        kept, out = split_cells(t, 0.3)
        close("held-out RMSE", end["held_out_rmse"], rmse_of(t, m, out))
        close_fit("fit", end["fit"], fit_of(t, m, observed or t.dense, kept), t, m)
    return check


def cp_poisson(t, *options):
    end, m = done(cp(t, "--loss", "poisson", *options)), read_model("m.cp")
    kept = split_cells(t, 0.3)[0] if options else t.known
    want = sum(x * math.log(max(m.at(c), 1e-10)) for c, x, _ in kept if x > 0) - sum(m.at(c) for c in here.cells)
    close("log-likelihood", end["log_likelihood"], want, 1e-5)
    close("fit", end["fit"], fit_of(t, m, known=kept), 1e-5)


def cp_poisson_held(t):
    cp_poisson(t, "--hold-out", "30%")


def cp_loss(kind, *options):
    observed = "--observed" in options

    def check(t):
        if kind.startswith("bernoulli") and not t.dense:
            t = make(t.properties, [(c, float((i + 1) % 2), w) for i, (c, _, w) in enumerate(t.known)], "bits")
        end, m = done(cp(t, "--loss", kind, *options, sweeps="12")), read_model("m.cp")
        used = [{c[k] for c, _, _ in t.known} for k in range(len(here.shape))]  # cells of empty slices count for nothing
        every = t.known if observed else [(c, t.value(c), 1.0) for c in here.cells if all(i in u for i, u in zip(c, used))]
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
            close_fit("fit", e["fit"], fit_of(t, m, observed or t.dense, kept), t, m)
        shutil.rmtree("m.cp")
    return check


def cp_resume(t):
    cp(t, sweeps="4", out="whole.cp")
    cp(t, sweeps="2")
    program("tstream", "cp", "--resume", "m.cp", "-i", "4", "--force", "--cpu", "--json")
    if open("m.cp/model.ktensor").read() != open("whole.cp/model.ktensor").read():
        raise AssertionError("a run that went on has other factors")


def fit(t, launcher=()):
    command = ["fit", "given.ktensor", t.path, "--json", *here.device]
    e = events(by_ranks(launcher, command) if launcher else program("tstream", *command))[-1]
    close("fit", e["fit"], fit_of(t, here.given), 1e-12)
    weighted = listed_only(t, False)
    close("norm", e["tensor_norm"], math.sqrt(sum(w * x * x for _, x, w in t.known)) if weighted else norm_of(t), 1e-12)
    close("residual", e["residual_norm"], (1 - fit_of(t, here.given)) * e["tensor_norm"], 1e-12)
    close("model norm", e["model_norm"], math.sqrt(sum(here.given.at(c) ** 2 for c in here.cells)), 1e-12)


def diagnose(t):
    """Of rank 1 the core is a number."""
    rng = random.Random(3)
    m = Model([1.5], [[[rng.uniform(0.5, 1.5)] for _ in range(n)] for n in here.shape])
    write_model("one.ktensor", m)
    e = events(program("tstream", "fit", "one.ktensor", t.path, "--diagnose", "--json", "--cpu"))[-1]
    g = sum(t.value(c) * m.at(c) for c in here.cells) / sum(m.at(c) ** 2 for c in here.cells)
    close("core consistency", e["core_consistency"], 100 * (1 - (g - 1) ** 2), 1e-8)


def score(t, launcher=()):
    device = here.device if "--gpus" in here.device and not t.dense else []  # scores of arrays are computed on CPU cores
    command = ["score", "given.ktensor", t.path, "--json", "-p", "float64"]
    e = events(by_ranks(launcher, command) if launcher else program("tstream", *command, *device))[-1]
    n = sum(w for _, _, w in t.known)
    close("RMSE", e["rmse"], rmse_of(t, here.given, t.known), 1e-12)
    close("MAE", e["mae"], sum(w * abs(x - here.given.at(c)) for c, x, w in t.known) / n, 1e-12)
    close("mean", e["mean_value"], sum(w * x for _, x, w in t.known) / n, 1e-12)
    close("mean of the model", e["mean_model"], sum(w * here.given.at(c) for c, _, w in t.known) / n, 1e-12)
    if not t.weighted and all(x == int(x) and x >= 0 for _, x, _ in t.known):
        want = sum(x * math.log(here.given.at(c)) for c, x, _ in t.known) - sum(here.given.at(c) for c in here.cells)
        close("log-likelihood", e["poisson_log_likelihood"], want, 1e-11)


def score_zeros(t):
    """Where value and model are 0, 0 log 0 is 0: a slice of zeros in the model, and no other value there."""
    factor = [[row[:] for row in rows] for rows in here.given.factor]
    if t.weighted or any(x != int(x) or x < 0 for _, x, _ in t.known):
        return  # no likelihood of counts
    zeros = [i for i in range(here.shape[0]) if all(x == 0 for c, x, _ in t.known if c[0] == i)]
    if not zeros:
        zeros, known = [0], [k for k in t.known if k[0][0] != 0]
        values = dict((c, x) for c, x, _ in known)
        if t.dense:
            write_npy("z.npy", [math.nan if t.unknown and c not in t.sums else values.get(c, 0.0) for c in here.cells])
            path = "z.npy"
        else:
            return
    else:
        known, path = t.known, t.path
    for i in zeros:
        factor[0][i] = [0.0, 0.0]
    m = Model(here.given.weight, factor)
    write_model("zero.ktensor", m)
    e = events(program("tstream", "score", "zero.ktensor", path, "--json", "-p", "float64"))[-1]
    close("log-likelihood", e["poisson_log_likelihood"],
          sum(x * math.log(m.at(c)) for c, x, _ in known if x > 0) - sum(m.at(c) for c in here.cells), 1e-11)


def predict(t):
    with open("cells.tns", "w") as f:
        for c, x, _ in t.known:
            f.write(" ".join(str(i + 1) for i in c) + f" {x!r}\n")
    out = program("tstream", "predict", "given.ktensor", "cells.tns", *([] if t.dense else [t.path]))
    rows, order = [line.split() for line in out.splitlines()], len(here.shape)
    if len(rows) != len(t.known):
        raise AssertionError(f"{len(rows)} lines")
    for row, (c, x, _) in zip(rows, t.known):
        close("value", float(row[order]), x, 1e-15)
        close("model", float(row[order + 1]), here.given.at(c), 1e-12)
        close("residual", float(row[order + 2]), x - here.given.at(c), 1e-12)


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
    order = len(here.shape)
    have = sorted((tuple(index(f, m) for m, f in enumerate(row[:order])), *map(float, row[order:])) for row in rows)
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
    if len(rows) != 1 + sum(here.shape):
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
                norm = [math.sqrt(sum(row[r] ** 2 for row in here.given.factor[m])) for r in range(2)]
                if min(abs(abs(x["value"]) - here.given.factor[m][i][r] / norm[r]) for r in range(2)) > 1e-6 and \
                        min(abs(abs(x["value"]) - here.given.factor[m][i][r]) for r in range(2)) > 1e-6:
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
    if e["nnz"] != (len(here.cells) if t.dense else len(t.known)):
        raise AssertionError(f"{e['nnz']} nonzeros")


def mttkrp(t):
    program("tstream", "mttkrp", t.path, "-r", "3", "--check", *here.device)


def verify(t):
    program("tshard", "verify", t.path)


def info(t):
    e = events(program("tshard", "info", t.path, "--json"))[-1]
    if "segmented" in t.properties:  # a list of the segments
        if (len(e["segments"]), e["shape"]) != (3, list(here.shape)):
            raise AssertionError(f"{e}")
    elif not t.dense:
        close("norm", e["norm"], norm_of(t), 1e-12)
        if (e["nnz"], e["has_duplicates"], e["has_weights"]) != (len(t.known), len(t.sums) < len(t.known), t.weighted):
            raise AssertionError(f"{e}")


def split(t):
    program("tshard", "split", t.path, "--hold-out", "30%", "--train", "a.tsh", "--test", "b.tsh", "-f", "-q")
    kept, out = split_cells(t, 0.3)
    for path, part in (("a.tsh", kept), ("b.tsh", out)):
        if read_cells(path) != lines_of(t, part):
            raise AssertionError(f"other cells in {path}")
        program("tshard", "verify", path)
    part = Tensor(t.properties, kept, "a.tsh")
    check_cp(part)


def select(t):
    wanted = sorted({c[0] for c, _, _ in t.known})[-2:]
    program("tshard", "select", t.path, "--keep", "1=" + ",".join(f"a{i}" if t.labels else str(i + 1) for i in wanted), "-o", "s.tsh", "-f", "-q")
    kept = [k for k in t.known if k[0][0] in wanted]
    if read_cells("s.tsh") != lines_of(t, kept):
        raise AssertionError("other cells")
    program("tshard", "verify", "s.tsh")
    check_cp(Tensor(t.properties, kept, "s.tsh"))


def select_sum(t):
    program("tshard", "select", t.path, "--sum", str(len(here.shape)), "-o", "s.tsh", "-f", "-q")
    sums = collections.defaultdict(float)
    for c, x, _ in t.known:
        sums[c[:-1]] += x
    have = {tuple(int(i) - 1 for i in index): x for *index, x in read_cells("s.tsh")}
    for c in sums:
        close("sum", have.pop(c, 0.0), sums[c], 1e-6)
    if have:
        raise AssertionError(f"sums that are of no cell: {have}")


def part(t):
    """Both parts, on one process what is there and on two a run."""
    for k in (1, 2):
        program("tshard", "part", t.path, "--part", f"{k}/2", "-o", f"h{k}.tsh", "-f", "-q")
        program("tshard", "verify", f"h{k}.tsh")


def mpi(check):
    def wrapped(t):
        if not here.launcher:
            return "no MPI"
        return check(t, launcher=here.launcher)
    return wrapped


def mpi_cp(t, launcher):
    check_cp(t, launcher=launcher)


def of_parts(check):
    """Each of two processes has its own part of the tensor."""
    def wrapped(t, launcher):
        part(t)
        halves = Tensor(t.properties, t.known, t.path)
        halves.path = ["h1.tsh", "h2.tsh"]
        check(halves, launcher=launcher)
    return mpi(wrapped)


# ---- the library, from C ----

def in_c(check):
    return lambda t: check(t) if library.path else "no library_cells"


def c_tensor(t):
    e = library.ask("tensor", t.path)
    if e["nnz"] != (len(here.cells) if t.dense else len(t.known)) or (e["duplicates"] == 1) != (len(t.sums) < len(t.known)):
        raise AssertionError(f"{e}")
    if not t.dense:
        close("norm", e["norm"], norm_of(t), 1e-12)
        close("sum", e["sum"], sum(x for _, x, _ in t.known), 1e-12)
        close("squares", e["squares"], t.listed_squares, 1e-12)


def c_cp(*options):
    return in_c(lambda t: check_c_cp(t, ("float64", "float32"), options))


def check_c_cp(t, precisions, options):
    observed = "observed" in options
    for precision in precisions:
        e, m = library.ask("cp", t.path, "c.cp", "2", "4", precision, *options), None
        m = read_model("c.cp")
        kept, out = t.known, []
        if "hold_out=0.3" in options:
            kept, out = split_cells(t, 0.3)
            close("held-out RMSE", e["held_out_rmse"], rmse_of(t, m, out), 5e-6 * largest(t))
        if "huber" in options:
            used = [{c[k] for c, _, _ in t.known} for k in range(len(here.shape))]
            every = kept if observed else [(c, t.value(c), 1.0) for c in here.cells if all(i in u for i, u in zip(c, used))]
            close("objective", e["objective"], sum(losses("huber:1", x, m.at(c)) for c, x, _ in every), 1e-4)
        elif "poisson" in options:
            want = sum(x * math.log(max(m.at(c), 1e-10)) for c, x, _ in kept if x > 0) - sum(m.at(c) for c in here.cells)
            close("log-likelihood", e["log_likelihood"], want, 1e-5)
        else:
            close_fit(f"fit ({precision})", e["fit"], fit_of(t, m, observed or (t.dense and out != []), kept), t, m,
                      *((2e-6, 2.0**-52) if precision == "float64" else (5e-6, 2.0**-24)))
            if e["exact"] and not abs(1 - fit_of(t, m, observed, kept)) < 1e-3:
                raise AssertionError("exact")
        if e["same"] != 1:
            raise AssertionError("a second run of the session has other factors")
        want = fit_of(t, m)
        close("exact fit", e["exact_fit"], want, 1e-9 if want < 0.999 and precision == "float64" else 1e-7)  # text of float32 has 9 digits


def largest(t):
    return max(1.0, *(abs(x) for _, x, _ in t.known))


def c_several(t):
    e = library.ask("several", t.path, "c", "4")
    for i, row in enumerate(e["models"]):
        close(f"fit of model {i}", row["fit"], fit_of(t, read_model(f"c.{i}")))
    for rank in (1, 2):
        mine = [row for row in e["models"] if row["rank"] == rank]
        if [row["best"] for row in mine].count(1) != 1 or max(row["fit"] for row in mine) > [row["fit"] for row in mine if row["best"]][0]:
            raise AssertionError(f"the best of {mine}")


def c_fit(t):
    e = library.ask("fit", "given.ktensor", t.path)
    close("fit", e["exact_fit"], fit_of(t, here.given), 1e-12)
    norm = math.sqrt(sum(w * x * x for _, x, w in t.known)) if listed_only(t, False) else norm_of(t)
    close("norm", e["norm"], norm, 1e-12)
    close("residual", e["residual"], (1 - fit_of(t, here.given)) * norm, 1e-12)
    close("model norm", e["model_norm"], math.sqrt(sum(here.given.at(c) ** 2 for c in here.cells)), 1e-12)


def c_score(t):
    e = library.ask("score", "given.ktensor", t.path)
    n = sum(w for _, _, w in t.known)
    close("weight", e["weight"], n, 1e-12)
    close("RMSE", e["rmse"], rmse_of(t, here.given, t.known), 1e-12)
    close("MAE", e["mae"], sum(w * abs(x - here.given.at(c)) for c, x, w in t.known) / n, 1e-12)
    close("mean", e["mean_value"], sum(w * x for _, x, w in t.known) / n, 1e-12)
    close("mean of the model", e["mean_model"], sum(w * here.given.at(c) for c, _, w in t.known) / n, 1e-12)
    used = range(here.shape[0]) if t.dense else sorted({c[0] for c, _, _ in t.known})
    for at, i in enumerate(used):
        mine = [k for k in t.known if k[0][0] == i]
        close("weight of a slice", e["slice_weight"][at], sum(w for _, _, w in mine), 1e-12)
        close("sum of a slice", e["slice_value"][at], sum(w * x for _, x, w in mine), 1e-12)
        close("the model's sum of a slice", e["slice_model"][at], sum(w * here.given.at(c) for c, _, w in mine), 1e-12)
        if sum(w for _, _, w in mine):
            close("RMSE of a slice", e["slice_rmse"][at], rmse_of(t, here.given, mine), 1e-12)
        elif not math.isnan(e["slice_rmse"][at]):
            raise AssertionError("a slice of weight 0 has an RMSE")
    close("largest residual", abs(e["top"][0] - e["top"][1]), max(abs(x - here.given.at(c)) for c, x, _ in t.known), 1e-12)


def c_core(t):
    m = Model([1.5], [[[random.Random(3).uniform(0.5, 1.5)] for _ in range(n)] for n in here.shape])
    write_model("one.ktensor", m)
    g = sum(t.value(c) * m.at(c) for c in here.cells) / sum(m.at(c) ** 2 for c in here.cells)
    close("core consistency", library.ask("core", "one.ktensor", t.path)["consistency"], 100 * (1 - (g - 1) ** 2), 1e-8)


def c_predict(t):
    have = library.ask("predict", "given.ktensor", *(str(i) for c, _, _ in t.known for i in c))["value"]
    for value, (c, _, _) in zip(have, t.known):
        close("value", value, here.given.at(c), 1e-12)


def c_select(t):
    library.ask("part", t.path, "c.tsh")
    kept = split_cells(t, 0.3)[0]
    if read_cells("c.tsh") != lines_of(t, kept):
        raise AssertionError("other cells")
    program("tshard", "verify", "c.tsh")


def python(t):
    """cp, norm, fit and score of the package."""
    if not here.python:
        return "no numpy"
    code = ("import json, sys, tstream as ts\n"
            "t = ts.open(sys.argv[1]); m = ts.cp(t, 2, sweeps=4, tol=0, precision='float64', progress=False, cpu=True)\n"
            "print(json.dumps(dict(norm=t.norm, fit=m.history[-1].fit, exact=float(m.fit(t)),\n"
            "  weight=list(map(float, m.weights)), factor=[[list(map(float, r)) for r in f] for f in m.factors])))\n")
    rc, out, err = run(here.python, "-c", code, t.path)
    if rc:
        raise Refused(err.strip().splitlines()[-1])
    e = json.loads(out)
    m = Model(e["weight"], e["factor"])
    close("fit", e["fit"], fit_of(t, m))
    close("exact fit", e["exact"], fit_of(t, m), 1e-9 if fit_of(t, m) < 0.999 else 1e-7)  # as far as the norm of a residual near 0 is told
    close("norm", e["norm"], norm_of(t), 1e-12)


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
    "mpi cp, two parts": of_parts(mpi_cp),
    "mpi fit, two parts": of_parts(fit),
    "mpi score, two parts": of_parts(score),
    "C tensor": in_c(c_tensor),
    "C cp": c_cp(),
    "C cp nonneg": c_cp("nonneg", "l2=0.01"),
    "C cp observed": c_cp("observed", "l2=0.01"),
    "C cp hold_out": c_cp("hold_out=0.3"),
    "C cp poisson": c_cp("poisson"),
    "C cp huber observed": c_cp("huber", "observed"),
    "C several": in_c(c_several),
    "C fit": in_c(c_fit),
    "C score": in_c(c_score),
    "C core": in_c(c_core),
    "C predict": in_c(c_predict),
    "C select": in_c(c_select),
    "python": python,
}
ON_GPU = ("cp", "cp --l2 1", "cp --nonneg", "cp --observed", "cp --hold-out", "cp --observed --hold-out", "cp --rank 2,1 --restarts 2",
          "cp --loss poisson-log", "cp --loss huber --observed", "fit", "score", "mttkrp", "C cp", "C cp nonneg", "C cp observed", "C cp hold_out",
          "C cp huber observed", "C several", "C fit")


def read_table(path):
    """properties, {consumer: {property: cell}}, {reason: text}"""
    rows, reasons, names = {}, {}, None
    for line in open(path):
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


def check_cell(consumer, t, reasons):
    """What is wrong, or None. reasons: texts, one of which a refusal holds; none where it is not to be refused."""
    try:
        skipped = CONSUMERS[consumer](t)
        return "is not refused" if reasons and not skipped else None
    except Refused as e:
        if not reasons:
            return f"is refused: {e}"
        if not any(text in str(e) for text in reasons):
            return f"is refused by another sentence than one with {reasons}: {e}"
        return None
    except Exception as e:  # the twin's
        return f"is not refused, and {e}" if reasons else f"{type(e).__name__}: {e}"
