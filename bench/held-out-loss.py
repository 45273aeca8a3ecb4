#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Log-loss of models of zeros and ones at cells that they did not see, a line for each model.

    tshard split X.tsh --hold-out 10%
    tshard export X.train.tsh > train.tns; tshard export X.test.tsh > test.tns
    tstream cp X.train.tsh --loss bernoulli --rank 16 --iters 200 --tol 0 --format npy -o b.cp
    bench/held-out-loss.py train.tns test.tns value=ls.cp odds=b.cp logit=c.cp

All cells of the used slices count: those of the test tensor as ones, what its train tensor does not list as zeros, of which
two million are drawn. The sum is told for each nonzero of either. Values of a model are taken for probabilities, odds or log
odds, and no probability counts as less than a floor: for each model the one, among powers of 10^(1/4) times the density, that is best
for it. Needs NumPy.
"""

import sys

import numpy as np

DRAWN = 2_000_000


def cells(path):
    return np.loadtxt(path, dtype=np.int64)[:, :-1] - 1


def values(path, where):
    order = where.shape[1]
    weights = np.load(f"{path}/weights.npy")
    factors = [np.load(f"{path}/mode{k + 1}.npy") for k in range(order)]
    ret = np.zeros(len(where))
    for at in range(0, len(where), 100_000):
        some = slice(at, at + 100_000)
        terms = np.ones((len(ret[some]), len(weights))) * weights
        for k in range(order):
            terms *= factors[k][where[some, k]]
        ret[some] = terms.sum(axis=1)
    return ret


PROBABILITY = {"value": lambda m: m, "odds": lambda m: m / (1 + m), "logit": lambda m: 1 / (1 + np.exp(-m))}


def main(train_path, test_path, *models):
    train, test = cells(train_path), cells(test_path)
    used = [np.unique(train[:, k]) for k in range(train.shape[1])]
    test = test[np.all([np.isin(test[:, k], u) for k, u in enumerate(used)], axis=0)]
    n_cells = np.prod([float(len(u)) for u in used])
    density = len(train) / n_cells
    random = np.random.default_rng(7)
    zeros = np.stack([random.choice(u, DRAWN) for u in used], axis=1)
    print(f"one value everywhere: {1 - np.log(density):.3f} ({len(test)} cells held out)")
    for model in models:
        kind, path = model.split("=", 1)
        ones, none = (PROBABILITY[kind](values(path, where)) for where in (test, zeros))
        best = None
        for floor in density * 10 ** np.arange(-4, 2.1, 0.25):
            held_out = -np.log(np.clip(ones, floor, 1 - 1e-6)).mean()
            rest = -np.log1p(-np.clip(none, floor, 1 - 1e-6)).mean() * n_cells / len(train)
            if best is None or held_out + rest < sum(best):
                best = held_out, rest
        print(f"{path}: {sum(best):.3f}, of it {best[0]:.3f} of the cells held out")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
