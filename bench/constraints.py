#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Constrained runs on real tensors: nonnegative fits beside those of TensorLy, whether what is minimised ever rises, and how
near to an optimum nonnegative runs end.

    bench/constraints.py fits DIR_OF_PROGRAMS SWEEPS TENSOR.tns.gz...
    bench/constraints.py rises DIR_OF_PROGRAMS TENSOR.tns.gz...
    bench/constraints.py kkt DIR_OF_PROGRAMS SWEEPS TENSOR.tns.gz...

fits: tensorly.decomposition.non_negative_parafac_hals from the same start after the same sweeps, three starts. It takes dense arrays, which
most of these tensors would not fit into; so it is given coordinates, and a product that takes them: all else is its
own code. Wants numpy and tensorly. rises: what is minimised, penalties with it, after each mode of 30 sweeps in float64
with each constraint, from the first that meets it; its largest rise from one mode to the next, of its size. kkt: --nonneg in float64, accelerated, until a sweep changes the
fit by less than 1e-13, at most SWEEPS; of each mode, with G the gradient of 1/2 |X - model|^2 by the factor A with the weights, the largest |G| where A is above 0 and
-G where it is 0, of the largest part of G. Wants numpy. Exit status: 1 where a fit is lower by more than 1e-4, a rise larger than 1e-9, or one of these larger than 1e-4.
"""
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

SEEDS, ENOUGH, ROUNDING, OPTIMAL = (1, 2, 3), 1e-4, 1e-9, 1e-4
RANKS = {"aminoacid": 3}  # of others 8
METHODS = ("--nonneg", "--nonneg --l1 0.1 --l2 0.1", "--l1 1=0.5", "--l2 0.5", "--simplex 2", "--bounds 1=0:1", "--smooth 1=0.5 --l2 0.1",
           "--smooth 1=0.5 --nonneg --l2 0.1", "--smooth 1=50 --l1 1=0.1 --l2 0.1", "--smooth 1=5 --bounds 1=-0.1:0.1 --l2 0.1", "--orthogonal 1")


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def events_of(bin_dir, tensor, rank, kind, *options):
    """The events of a kind, as "sweep"."""
    out = subprocess.run([os.path.join(bin_dir, "tstream"), "cp", tensor, "--cpu", "-t", "1", "-r", str(rank), "--json",
                          "--precision", "float64", *([] if "--tol" in options else ["--tol", "0"]), *options],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return [e for e in map(json.loads, out.splitlines()) if e["event"] == kind]


def read_ktensor(path):
    """Weights and factors of a text file."""
    import numpy as np
    with open(path, encoding="ascii") as f:
        f.readline()
        order = int(f.readline())
        f.readline()
        f.readline()
        weights, factors = np.array(f.readline().split(), dtype=float), []
        for _ in range(order):
            f.readline()
            f.readline()
            n, _rank = map(int, f.readline().split())
            factors.append(np.array([f.readline().split() for _ in range(n)], dtype=float))
    return weights, factors


def their_fit(path, start, rank, sweeps):
    """TensorLy's, of the coordinates in a .tns.gz file."""
    import numpy as np
    from tensorly.cp_tensor import CPTensor
    from tensorly.decomposition import _nn_cp

    class Coordinates:
        """As much of an array as non_negative_parafac_hals looks at."""

        def __init__(self, table):
            self.index = [column.astype(np.int64) - 1 for column in table.T[:-1]]
            self.value = table[:, -1].copy()
            self.ndim, self.dtype = len(self.index), self.value.dtype

        def __array__(self, dtype=None, copy=None):
            return self.value  # for the norm

    def product(x, model, mode):
        weights, factors = model
        columns = []
        for r in range(rank):
            term = x.value.copy()
            for m, f in enumerate(factors):
                if m != mode:
                    term *= f[x.index[m], r]
            columns.append(np.bincount(x.index[mode], term, len(factors[mode])))
        out = np.stack(columns, axis=1)
        return out if weights is None else out * weights

    _nn_cp.unfolding_dot_khatri_rao = product
    with gzip.open(path, "rt") as f:
        x = Coordinates(np.loadtxt(f))
    _, errors = _nn_cp.non_negative_parafac_hals(x, rank, n_iter_max=sweeps, tol=1e-300, return_errors=True, init=CPTensor(start))
    return 1 - float(errors[-1])


def fits(bin_dir, tensor, path, name, tmp, sweeps):
    rank = RANKS.get(name, 8)
    fine, out = True, os.path.join(tmp, name + ".cp")
    for seed in SEEDS:
        mine = events_of(bin_dir, tensor, rank, "sweep", "--nonneg", "-i", str(sweeps), "--seed", str(seed), "--save-init", "-o", out,
                         "--force")[-1]["fit"]
        theirs = their_fit(path, read_ktensor(os.path.join(out, "init.ktensor")), rank, sweeps)
        row(name, rank, seed, f"{mine:.6f}", f"{theirs:.6f}", f"{mine - theirs:+.6f}")
        fine &= mine >= theirs - ENOUGH
    return fine


def rises(bin_dir, tensor, _path, name, _tmp, _sweeps):
    cells = []
    for method in METHODS:
        events = events_of(bin_dir, tensor, 4, "mode", "-i", "30", "-n", "--details", *method.split())
        asked = re.search("--(simplex|bounds|orthogonal) ([0-9])", method)
        first = 0 if asked is None else int(asked.group(2)) - 1  # the start does not meet what is asked of it
        values = [e["objective"] for e in events[first:] if e["objective"] is not None]  # the first know no sums of later modes
        assert len(values) >= len(events) - 5
        cells.append(max((b - a) / abs(a) for a, b in zip(values, values[1:])))
    row(name, *("none" if c <= 0 else f"{c:.0e}" for c in cells))
    return max(cells) <= ROUNDING


def violation(index, value, weights, factors, mode):
    """The largest violation of the conditions of an optimum in a mode, of the largest part of the gradient."""
    import numpy as np
    a, rank = factors[mode] * weights, len(weights)
    gram, product = np.ones((rank, rank)), np.empty_like(a)
    for m, f in enumerate(factors):
        if m != mode:
            gram *= f.T @ f
    for r in range(rank):
        term = value.copy()
        for m, f in enumerate(factors):
            if m != mode:
                term *= f[index[m], r]
        product[:, r] = np.bincount(index[mode], term, len(a))
    gradient = a @ gram - product
    return np.where(a > 0, np.abs(gradient), -gradient).max() / np.abs(product).max()


def kkt(bin_dir, tensor, path, name, tmp, sweeps):
    import numpy as np
    rank, out = RANKS.get(name, 8), os.path.join(tmp, name + ".cp")
    ended = events_of(bin_dir, tensor, rank, "done", "--nonneg", "--accelerate", "-i", str(sweeps), "--tol", "1e-13", "-o", out, "--force")[-1]
    weights, factors = read_ktensor(os.path.join(out, "model.ktensor"))
    with gzip.open(path, "rt") as f:
        table = np.loadtxt(f)
    index = [column.astype(np.int64) - 1 for column in table.T[:-1]]
    worst = [violation(index, table[:, -1], weights, factors, m) for m in range(len(factors))]
    row(name, rank, ended["sweeps"], f"{ended['fit']:.6f}", " ".join(f"{w:.0e}" for w in worst))
    return max(worst) <= OPTIMAL


HEADS = {fits: ("tensor", "rank", "seed", "fit", "TensorLy's", "difference"), rises: ("tensor", *METHODS),
         kkt: ("tensor", "rank", "sweeps", "fit", "violation by mode")}


def main():
    kinds = {f.__name__: f for f in HEADS}
    if len(sys.argv) < 4 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    one, bin_dir, fine = kinds[sys.argv[1]], os.path.abspath(sys.argv[2]), True
    sweeps = 0 if one is rises else int(sys.argv.pop(3))
    head = HEADS[one]
    row(*head)
    row(*["---"] * len(head))
    with tempfile.TemporaryDirectory() as tmp:
        for path in sys.argv[3:]:
            name = os.path.basename(path).split(".")[0]
            tensor = os.path.join(tmp, name + ".tsh")
            subprocess.run([os.path.join(bin_dir, "tshard"), "build", path, "-o", tensor, "-q"], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            fine &= one(bin_dir, tensor, path, name, tmp, sweeps)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
