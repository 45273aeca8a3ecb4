#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sweeps of dense tensors beside pyttb.cp_als and TensorLy's parafac, in float64, on the same threads.

    bench/dense_peers.py TOOLS [SIZExSIZEx... [RANK]]

Each program makes SWEEPS sweeps of one array from a start of its own, ROUNDS times in turn; the shortest time of a sweep counts,
with the first one, which tells of reading and of what is prepared, taken off where a program tells of its sweeps (tstream). Programs
that are not installed are left out. The threads are those of OMP_NUM_THREADS, for the BLAS that NumPy calls too.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

SWEEPS, ROUNDS = 4, 3


def tstream_sweep(tools, path, rank):
    out = subprocess.run([f"{tools}/tstream", "cp", path, "--cpu", "--precision", "float64", "--rank", str(rank), "--iters",
                          str(SWEEPS), "--tol", "0", "--no-output", "--json", "--threads",
                          os.environ.get("OMP_NUM_THREADS", "0")], check=True, capture_output=True, text=True).stdout
    sweeps = [e["seconds"] for e in map(json.loads, out.splitlines()) if e["event"] == "sweep"]
    return sum(sweeps[1:]) / (len(sweeps) - 1)


def pyttb_sweep(x, rank):
    import pyttb
    start = time.perf_counter()
    pyttb.cp_als(x, rank, stoptol=0, maxiters=SWEEPS, init="random", printitn=0)
    return (time.perf_counter() - start) / SWEEPS


def tensorly_sweep(x, rank):
    from tensorly.decomposition import parafac
    start = time.perf_counter()
    parafac(x, rank, n_iter_max=SWEEPS, init="random", tol=0)
    return (time.perf_counter() - start) / SWEEPS


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    shape = tuple(map(int, (sys.argv[2] if len(sys.argv) > 2 else "300x300x300").split("x")))
    rank = int(sys.argv[3]) if len(sys.argv) > 3 else 32
    x = np.random.default_rng(1).random(shape)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npy")
        np.save(path, x)
        runs = {"tstream": lambda: tstream_sweep(sys.argv[1], path, rank)}
        try:
            import pyttb
            dense = pyttb.tensor(x)
            runs["pyttb"] = lambda: pyttb_sweep(dense, rank)
        except ImportError:
            pass
        try:
            import tensorly  # noqa: F401
            runs["tensorly"] = lambda: tensorly_sweep(x, rank)
        except ImportError:
            pass
        best = {name: min(times) for name, times in
                zip(runs, zip(*[[run() for run in runs.values()] for _ in range(ROUNDS)]))}
    for name, seconds in best.items():
        print(f"{'x'.join(map(str, shape))} rank {rank}: {name} {1e3 * seconds:.1f} ms a sweep, "
              f"{seconds / best['tstream']:.1f} of tstream")


main()
