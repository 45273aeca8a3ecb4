# SPDX-License-Identifier: BSD-3-Clause
"""Every property of a tensor times everything that reads it: tests/properties/properties.tsv, cell by cell.

check_properties.py BIN TABLE [gpu]: in an empty folder. A cell says `right`: what the programs print and write is what arithmetic
over all cells in float64 gives, with the tensor as Python holds it and the factors as they were written; or it names a reason: the
command is refused, by one sentence that holds the text of the reason at the table's end. Without a cell for a pair, or
with more than a tenth of them refused, the table is wrong itself. `gpu`: the consumers that compute on GPUs, with --gpus 1, by several
processes at once (PROPERTIES_WORKERS), or, with PROPERTIES_GPUS=no, the same on CPU cores. PROPERTIES_ONLY is a pattern of the cells
that are looked at.

Python alone is needed; rows that begin with python take its package, and the numpy that it takes.
"""
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import threading
import time

from property_consumers import CONSUMERS, ON_GPU, by_ranks, check_cell, cp, done, lines_of, read_cells, read_table
from property_tensors import Refused, close, fit_of, given_model, here, losses, make, program, read_model, set_shape

here.bin, TABLE = map(os.path.abspath, sys.argv[1:3])
here.on_gpu = sys.argv[3:] == ["gpu"]
failures = []


def make_tensors():
    rng = random.Random(5)
    picked = sorted(sorted(here.cells, key=lambda c: rng.random())[:40])
    for m, n in enumerate(here.shape):  # all slices are used: rows are indices
        assert {c[m] for c in picked} == set(range(n))
    plain = [(c, float(rng.randint(1, 6)), 1.0) for c in picked]
    again = [(c, float(rng.randint(1, 6)), 1.0) for c, _, _ in plain[:14]] + [(c, 2.0, 1.0) for c, _, _ in plain[:6]]
    cells = [float(rng.randint(0, 5)) for _ in here.cells]
    unknown = set(rng.sample(range(len(here.cells)), 9))
    return {name: make(frozenset([name]), known, name) for name, known in {
        "plain": plain,
        "duplicates": plain + again,
        "zeros": [(c, 0.0 if i % 3 == 0 else x, 1.0) for i, (c, x, _) in enumerate(plain)],
        "weights": [(c, x, rng.choice([0.5, 1.0, 2.0, 3.0])) for c, x, _ in plain],
        "labels": plain,
        "part": plain,
        "segmented": plain,
        "constant": [(c, 3.0, 1.0) for c, _, _ in plain],
        "coded": [(c, rng.choice([0.5, 2.25, 7.75]), 1.0) for c, _, _ in plain],
        "float64": [(c, x + rng.randint(1, 999) / 1024 + 2.0**-40, 1.0) for c, x, _ in plain],
        "one": [((4, 3, 2), 3.0, 1.0)],
        "all": [(c, float(rng.randint(1, 6)), 1.0) for c in here.cells],
        "dense": [(c, x, 1.0) for c, x in zip(here.cells, cells)],
        "unknown": [(c, x + 1, 1.0) for i, (c, x) in enumerate(zip(here.cells, cells)) if i not in unknown],
    }.items()}


def beside():
    """What is of no cell of the table."""
    every = make(frozenset(), [(c, 1.0 + i % 4, 1.0) for i, c in enumerate(here.cells)], "full")
    try:  # a tensor that lists every cell has none that is unlisted
        end, m = done(cp(every, "--loss", "gamma", sweeps="12")), read_model("m.cp")
        close("objective of gamma", end["objective"], sum(losses("gamma", x, m.at(c)) for c, x, _ in every.known), 1e-4)
        cp(make(frozenset(), every.known[1:], "fewer"), "--loss", "gamma")
        failures.append("gamma of unlisted cells is not refused")
    except Refused as e:
        if "cells that are not listed" not in str(e):
            failures.append(f"gamma: {e}")
    zero = make(frozenset(["zeros"]), [((0, 0, 0), 0.0, 1.0), ((1, 1, 1), 0.0, 1.0)], "zero")
    if read_cells(zero.path) != lines_of(zero):
        failures.append("kept zeros that are all the tensor has are not there")
    program("tshard", "verify", zero.path)
    try:
        cp(zero)
        failures.append("a tensor of zeros is decomposed")
    except Refused as e:
        if "all values are 0, so there is nothing to decompose" not in str(e):
            failures.append(f"a tensor of zeros: {e}")
    gone = make(frozenset(["duplicates"]), [((0, 0, 0), 2.0, 1.0), ((0, 0, 0), -2.0, 1.0), ((1, 1, 1), -1.0, 1.0), ((1, 1, 1), 1.0, 1.0)], "gone")
    try:
        cp(gone)
        failures.append("nonzeros that cancel are decomposed")
    except Refused as e:
        if "the nonzeros of each cell add up to 0" not in str(e):
            failures.append(f"nonzeros that cancel: {e}")
    for program_name, *command in [("tstream-mpi", "predict", "given.ktensor", "full.tns", "full.tsh"), ("tstream-mpi", "export", "given.ktensor"),
                                   ("tstream-mpi", "top", "given.ktensor"), ("tshard-mpi", "export", "full.tsh"), ("tshard-mpi", "verify", "full.tsh")]:
        try:  # what one process does is refused to two, once
            if here.launcher:
                by_ranks(here.launcher, command, program_name)
                failures.append(f"{command} by two processes is not refused")
        except Refused as e:
            if str(e).count("by a launcher of MPI, and one is enough") != 1:
                failures.append(f"{command} by two processes: {e}")
    few = make(frozenset(["duplicates"]), [((0, 0, 0), 1.0, 1.0), ((0, 0, 0), 2.0, 1.0), ((1, 1, 1), 5.0, 1.0), ((1, 1, 1), 5.0, 1.0), ((0, 1, 0), 3.0, 1.0)], "few")
    end, m = done(cp(few, rank="1", sweeps="20")), read_model("m.cp")
    close("fit of the few", end["fit"], fit_of(few, m))
    if end["exact"]:
        failures.append("the few are told to be exact")


def choose(every):
    """The cells that are looked at."""
    if os.environ.get("TSTREAM_TEST_LARGE") or here.on_gpu:
        chosen = every
    else:  # all of duplicates and segments, and a tenth of the rest: of what is slow to start, nothing
        rng = random.Random(int(os.environ.get("PROPERTIES_SEED", "1")))
        chosen = [e for e in every if e[1] in ("duplicates", "segmented") or (rng.random() < 0.1 and e[0].split()[0] not in ("mpi", "python"))]
    chosen = [e for e in chosen if re.search(os.environ.get("PROPERTIES_ONLY", ""), f"{e[0]} of {e[1]}")]
    return [e for e in chosen if not here.on_gpu or e[0] in ON_GPU]


def look_at(chosen, tensors, reasons):
    """Each cell, in this process; a line for each that tells how long it took."""
    for c, n, cell in chosen:
        start = time.monotonic()
        if n == "segmented":  # each consumer is the first to read the segments together
            shutil.rmtree(tensors[n].path)
            shutil.copytree("segmented.fresh", tensors[n].path)
        wrong = check_cell(c, tensors[n], [] if cell == "right" else [reasons[cell]])
        print(f"{'FAILED: ' if wrong else ''}{c} of {n} ({cell}), {time.monotonic() - start:.1f} s{': ' + wrong if wrong else ''}", flush=True)


def start_worker(k, n):
    """One of n processes, which looks at each n-th cell, in a folder of its own."""
    os.makedirs(f"worker{k}", exist_ok=True)
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), here.bin, TABLE, *sys.argv[3:4]], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, cwd=f"worker{k}", env={**os.environ, "PROPERTIES_WORKER": f"{k}/{n}"})


def divide(chosen, n):
    """The same by n processes at once: a command on a GPU takes a second or more to start, most of which it waits. Cells that no
    worker told of count as failed."""
    start, seen = time.monotonic(), 0
    lines = queue.SimpleQueue()
    workers = [start_worker(k, n) for k in range(n)]
    readers = [threading.Thread(target=lambda w=w: [lines.put(line.rstrip()) for line in w.stdout] and None) for w in workers]
    for reader in readers:
        reader.start()
    while any(r.is_alive() for r in readers) or not lines.empty():
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            continue
        told = re.search(r" of [a-z0-9]+ \([a-z]+\), [0-9.]+ s", line) is not None
        seen += told
        took = time.monotonic() - start
        print(f"{took:.0f} s, {seen} of {len(chosen)}, about {took / seen * (len(chosen) - seen):.0f} s left: {line}" if told else line, flush=True)
        if line.startswith("FAILED") or not told:
            failures.append(line)
    codes = [w.wait() for w in workers]
    if seen < len(chosen) or any(codes):
        failures.append(f"{len(chosen) - seen} cells were not looked at: workers ended with {codes}")


def main():
    set_shape((5, 4, 3))
    names, rows, reasons = read_table(TABLE)
    part, parts = map(int, os.environ.get("PROPERTIES_WORKER", "0/1").split("/"))
    worker = "PROPERTIES_WORKER" in os.environ
    if here.on_gpu and os.environ.get("PROPERTIES_GPUS") != "no":
        here.device = ["--gpus", "1"]  # without a budget, in which a command would count what others take of the same GPU
    if set(rows) != set(CONSUMERS):
        sys.exit(f"the table has not all consumers: {set(rows) ^ set(CONSUMERS)}")
    every = [(c, n, rows[c][n]) for c in CONSUMERS for n in names]
    chosen = choose(every)
    n = int(os.environ.get("PROPERTIES_WORKERS", str(min(8, os.cpu_count() or 1)) if here.on_gpu else "1"))
    if worker or n == 1:
        tensors = make_tensors()
        here.given = given_model()
        if set(names) != set(tensors):
            sys.exit(f"the table has not all properties: {set(names) ^ set(tensors)}")
        if worker:
            look_at(chosen[part::parts], tensors, reasons)
            sys.exit(0)
    refused = sum(cell != "right" for _, _, cell in every)
    if 10 * refused > len(every):
        failures.append(f"{refused} of {len(every)} cells are refused: more than a tenth")
    for c, name, cell in every:
        if cell != "right" and c in ("cp", "fit", "score", "export", "tshard export", "C cp", "C fit", "C score"):
            failures.append(f"{c} of {name}: the default use is refused")
    if n > 1:
        divide(chosen, n)
    else:
        if not here.on_gpu:
            beside()
        for c, name, cell in chosen:
            wrong = check_cell(c, tensors[name], [] if cell == "right" else [reasons[cell]])
            if wrong:
                failures.append(f"{c} of {name} ({cell}): {wrong}")
    for f in failures:
        print("FAILED:", f.replace("FAILED: ", ""))
    print(f"{len(chosen)} of {len(every)} cells looked at, {refused} of all refused")
    sys.exit(bool(failures))


main()
