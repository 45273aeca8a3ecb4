#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Poisson models of tstream beside those of pyttb.cp_apr (method mu), from the same start.

    tests/cpd/apr_against_pyttb.py [--rank R] [--iters N] [--as-is] TOOLS X.tns[.gz]...

TOOLS is the folder of the programs. For each tensor of counts a start is drawn, rows of empty slices being zeros; both
make N outer iterations of ten rounds in float64. Prints log-likelihoods, which it computes from both models in the same
way (a model's value counts as 1e-10 at least), and their relative difference; exits with 1 where that is above 1e-8.

A zero that should not be one has, in Chi and Kolda's algorithm, a phi above 1; pyttb 1.8 asks for one above 0, and so
shifts every zero that its row allows, in each iteration. Here it is run with the 1 of the paper, and with --as-is as it
is: then models differ as soon as an entry falls below 1e-10. It takes numpy and pyttb.
"""
import argparse
import gzip
import inspect
import os
import subprocess
import sys
import tempfile

import numpy as np
import pyttb


def read(path):
    """Indices from 0 and values; duplicate cells are added up."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as text:
        rows = np.loadtxt((line for line in text if line.strip() and line[0] != "#"), ndmin=2)
    index, where = np.unique(rows[:, :-1].astype(np.int64) - 1, axis=0, return_inverse=True)
    return index, np.bincount(where.ravel(), weights=rows[:, -1])


def write_ktensor(path, weights, factors):
    with open(path, "w") as to:
        to.write(f"ktensor\n{len(factors)}\n{' '.join(str(len(f)) for f in factors)}\n{len(weights)}\n")
        to.write(" ".join(repr(float(w)) for w in weights) + "\n")
        for f in factors:
            to.write(f"matrix\n2\n{len(f)} {f.shape[1]}\n")
            for row in f:
                to.write(" ".join(repr(float(x)) for x in row) + "\n")


def log_likelihood(index, values, weights, factors):
    terms = np.tile(weights, (len(values), 1))
    total = np.array(weights, dtype=float)
    for m, f in enumerate(factors):
        terms *= f[index[:, m]]
        total *= f.sum(axis=0)
    return float(values @ np.log(np.maximum(terms.sum(axis=1), 1e-10)) - total.sum())


def run_tstream(tools, path, start, rank, iters, folder):
    tensor, out = os.path.join(folder, "x.tsh"), os.path.join(folder, "x.cp")
    subprocess.run([f"{tools}/tshard", "build", path, "-o", tensor, "-q", "--force"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([f"{tools}/tstream", "cp", tensor, "--cpu", "--loss", "poisson", "--rank", str(rank), "--iters", str(iters),
                    "--tol", "0", "--precision", "float64", "--init", start, "--format", "npy", "--rows", "all",
                    "--output", out, "--force", "-q"], check=True, stdout=subprocess.DEVNULL)
    order = sum(name.startswith("mode") and name.endswith(".npy") for name in os.listdir(out))
    return np.load(f"{out}/weights.npy"), [np.load(f"{out}/mode{m + 1}.npy") for m in range(order)]


def as_published():
    """pyttb's loop with the paper's condition on zeros that should not be."""
    module = sys.modules[pyttb.cp_apr.__module__]
    text = inspect.getsource(module.tt_cp_apr_mu)
    if text.count("(Phi[n] > 0)") != 1:
        sys.exit("this version of pyttb has another condition: run it --as-is")
    exec(text.replace("(Phi[n] > 0)", "(Phi[n] > 1)"), module.__dict__)


def compare(args, path, folder):
    index, values = read(path)
    rng = np.random.default_rng(7)
    shape = tuple(int(n) for n in index.max(axis=0) + 1)
    factors = [rng.random((n, args.rank)) for n in shape]
    for m, f in enumerate(factors):
        f[np.setdiff1d(np.arange(len(f)), index[:, m])] = 0
    start = os.path.join(folder, "start.ktensor")
    write_ktensor(start, np.ones(args.rank), factors)
    ours = log_likelihood(index, values, *run_tstream(args.tools, path, start, args.rank, args.iters, folder))
    x = pyttb.sptensor(index, values[:, None], shape)
    model, _, _ = pyttb.cp_apr(x, args.rank, algorithm="mu", init=pyttb.ktensor(factors, np.ones(args.rank)), stoptol=0.0,
                               maxiters=args.iters, maxinneriters=10, printitn=0, printinneritn=0)
    theirs = log_likelihood(index, values, model.weights, model.factor_matrices)
    difference = abs(ours - theirs) / abs(theirs)
    print(f"{os.path.basename(path)}: tstream {ours:.12e}, pyttb {theirs:.12e}, difference {difference:.1e}", flush=True)
    return difference <= 1e-8


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--iters", type=int, default=10)
    parser.add_argument("--as-is", action="store_true")
    parser.add_argument("tools")
    parser.add_argument("tensor", nargs="+")
    args = parser.parse_args()
    if not args.as_is:
        as_published()
    good = True
    for path in args.tensor:
        with tempfile.TemporaryDirectory() as folder:
            good &= compare(args, path, folder)
    sys.exit(0 if good else 1)


main()
