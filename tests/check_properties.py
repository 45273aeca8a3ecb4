# SPDX-License-Identifier: BSD-3-Clause
"""Every property of a tensor times everything that reads it: tests/properties.tsv, cell by cell.

check_properties.py BIN TABLE [gpu]: in an empty folder. A cell says `right`: what the programs print and write is what arithmetic
over all cells in float64 gives, with the tensor as Python holds it and the factors as they were written; or it names a reason: the
command is refused, by one sentence that holds the text of the reason at the table's end. Without a cell for a pair, or
with more than a tenth of them refused, the table is wrong itself. `gpu`: the consumers that compute on GPUs, with --gpus 1.

Python alone is needed; rows that begin with python take its package, and the numpy that it takes.
"""
import os
import random
import re
import sys

from property_consumers import CONSUMERS, ON_GPU, check_cell, cp, done, lines_of, read_cells, read_table
from property_tensors import Refused, close, fit_of, given_model, here, losses, make, program, read_model, set_shape

here.bin, TABLE = sys.argv[1:3]
GPU = sys.argv[3:] == ["gpu"]
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
    few = make(frozenset(["duplicates"]), [((0, 0, 0), 1.0, 1.0), ((0, 0, 0), 2.0, 1.0), ((1, 1, 1), 5.0, 1.0), ((1, 1, 1), 5.0, 1.0), ((0, 1, 0), 3.0, 1.0)], "few")
    end, m = done(cp(few, rank="1", sweeps="20")), read_model("m.cp")
    close("fit of the few", end["fit"], fit_of(few, m))
    if end["exact"]:
        failures.append("the few are told to be exact")


def main():
    set_shape((5, 4, 3))
    names, rows, reasons = read_table(TABLE)
    tensors = make_tensors()
    here.given = given_model()
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
        wrong = check_cell(c, tensors[n], [] if cell == "right" else [reasons[cell]])
        if wrong:
            failures.append(f"{c} of {n} ({cell}): {wrong}")
            if show:
                print(failures[-1][:300], flush=True)
    for f in failures:
        print("FAILED:", f)
    print(f"{len(chosen)} of {len(every)} cells looked at, {refused} of all refused")
    sys.exit(bool(failures))


main()
