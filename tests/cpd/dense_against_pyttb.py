#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Decompositions of dense tensors beside those of pyttb.cp_als, from the same start, in float64.

    tests/cpd/dense_against_pyttb.py [--sweeps N] TOOLS

TOOLS is the folder of the programs. Arrays of orders 3 to 5, in C and Fortran order, are sums of rank-one arrays with noise;
both programs make N sweeps from one start. Prints the largest difference of the fits of a sweep, and exits with 1 where one
is above 1e-12. Then arrays of exact low rank: how far the model, found from a random start, is from them beside their norm,
and the factor match score; 1 where the first is above 1e-12. It takes numpy and pyttb.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import pyttb

SHAPES = [(23, 31, 17), (40, 3, 55), (9, 14, 7, 11), (12, 5, 30, 4), (6, 7, 5, 8, 4)]
LETTERS = "abcdefgh"


def whole(weights, factors):
    letters = LETTERS[: len(factors)]
    return np.einsum("r," + ",".join(x + "r" for x in letters) + "->" + letters, weights, *factors)


def write_ktensor(path, weights, factors):
    with open(path, "w") as to:
        to.write(f"ktensor\n{len(factors)}\n{' '.join(str(len(f)) for f in factors)}\n{len(weights)}\n")
        to.write(" ".join(repr(float(w)) for w in weights) + "\n")
        for f in factors:
            to.write(f"matrix\n2\n{len(f)} {f.shape[1]}\n")
            for row in f:
                to.write(" ".join(repr(float(x)) for x in row) + "\n")


def tstream(tools, *args):
    out = subprocess.run([f"{tools}/tstream", "cp", *args, "--cpu", "--precision", "float64", "--json"], check=True,
                         capture_output=True, text=True).stdout
    events = [json.loads(line) for line in out.splitlines()]
    return [e["fit"] for e in events if e["event"] == "sweep"]


def fits_of_pyttb(x, rank, start, sweeps):
    """Its fit is told of the last sweep alone: a run for each."""
    fits = []
    for n in range(1, sweeps + 1):
        init = pyttb.ktensor([f.copy() for f in start], np.ones(rank))
        _, _, output = pyttb.cp_als(pyttb.tensor(x), rank, stoptol=0, maxiters=n, init=init, printitn=0)
        fits.append(float(output["fit"]))
    return fits


def compare(tools, folder, sweeps):
    worst = 0
    rng = np.random.default_rng(3)
    for shape in SHAPES:
        for rank, order in ((3, "C"), (8, "F")):
            x = whole(np.ones(4), [rng.random((n, 4)) for n in shape]) + 0.1 * rng.standard_normal(shape)
            start = [rng.random((n, rank)) for n in shape]
            np.save(f"{folder}/x.npy", np.asarray(x, order=order))
            write_ktensor(f"{folder}/start.ktensor", np.ones(rank), start)
            ours = tstream(tools, f"{folder}/x.npy", "--rank", str(rank), "--iters", str(sweeps), "--tol", "0", "--init",
                           f"{folder}/start.ktensor", "--no-output")
            theirs = fits_of_pyttb(x, rank, start, sweeps)
            off = max(abs(a - b) for a, b in zip(ours, theirs))
            print(f"{'x'.join(map(str, shape)):>14} rank {rank}, {order}: fit {ours[-1]:.15f}, pyttb {theirs[-1]:.15f}, "
                  f"off by at most {off:.1e} in {len(ours)} sweeps")
            worst = max(worst, off)
    return worst <= 1e-12


def recover(tools, folder):
    """Some starts end in local optima: the best of five."""
    worst = 0
    rng = np.random.default_rng(5)
    for shape in SHAPES:
        truth = [rng.standard_normal((n, 3)) for n in shape]
        x = whole(np.ones(3), truth)
        np.save(f"{folder}/x.npy", x)
        tstream(tools, f"{folder}/x.npy", "--rank", "3", "--restarts", "5", "--iters", "500", "--tol", "0", "--output",
                f"{folder}/x.cp", "--force", "--format", "npy")
        weights = np.load(f"{folder}/x.cp/best.r3/weights.npy")
        factors = [np.load(f"{folder}/x.cp/best.r3/mode{m + 1}.npy") for m in range(len(shape))]
        off = np.linalg.norm(x - whole(weights, factors)) / np.linalg.norm(x)
        score, *_ = pyttb.ktensor(factors, weights).score(pyttb.ktensor(truth, np.ones(3)))
        print(f"{'x'.join(map(str, shape)):>14} of rank 3: off by {off:.1e} of the norm, score {score:.15f}")
        worst = max(worst, off)
    return worst <= 1e-12


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=12)
    parser.add_argument("tools")
    args = parser.parse_args()
    tools = os.path.abspath(args.tools)
    with tempfile.TemporaryDirectory() as folder:
        good = compare(tools, folder, args.sweeps)
        good &= recover(tools, folder)
    sys.exit(0 if good else 1)


main()
