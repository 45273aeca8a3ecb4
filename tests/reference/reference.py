#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""CP-ALS in float64 by another program than tstream: NumPy, a dozen lines of mathematics, no shards.

    reference.py FILE.tns[.gz] RANK SWEEPS SEED    one JSON object on standard output

Written from the definition alone, and compared digit for digit with pyttb's cp_als. The initial factors
are those of `tstream cp --init random --seed SEED` (src/cpd/solver/init.c): A_m(i, r) =
(mix(mix(mix(seed + m) + i) + r) >> 11) / 2^53, with m, i and r from 0. The file has each cell once.

`fits` are 1 - |X - model| / |X| after each sweep; they do not depend on how columns are scaled between
modes. `weights` are the weights of the components after the last, largest first, all columns 2-normed.
"""
import gzip
import json
import sys

import numpy as np


def mix(z):
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def initial(seed, mode, rows, rank):
    with np.errstate(over="ignore"):
        of_mode = mix(np.array([seed + mode], dtype=np.uint64))
        of_row = mix(of_mode + np.arange(rows, dtype=np.uint64))[:, None]
        number = mix(of_row + np.arange(rank, dtype=np.uint64)[None, :])
    return (number >> np.uint64(11)).astype(np.float64) * 2.0**-53


def load(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as lines:
        table = np.array([line.split() for line in lines if line.strip()], dtype=np.float64)
    return table[:, :-1].astype(np.int64) - 1, table[:, -1].copy()


def mttkrp(index, value, factors, mode):
    out = np.zeros((len(factors[mode]), factors[mode].shape[1]))
    terms = np.repeat(value[:, None], out.shape[1], axis=1)
    for k, factor in enumerate(factors):
        if k != mode:
            terms *= factor[index[:, k]]
    order = np.argsort(index[:, mode], kind="stable")
    rows = index[order, mode]
    first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    out[rows[first]] = np.add.reduceat(terms[order], first)
    return out


def decompose(index, value, rank, sweeps, seed):
    order = index.shape[1]
    factors = [initial(seed, m, n, rank) for m, n in enumerate(index.max(axis=0) + 1)]
    norm = np.sqrt((value**2).sum())
    fits = []
    for sweep in range(sweeps):
        for mode in range(order):
            product = mttkrp(index, value, factors, mode)
            gram = np.ones((rank, rank))
            for k in range(order):
                if k != mode:
                    gram *= factors[k].T @ factors[k]
            solved = product @ np.linalg.pinv(gram, rcond=1e-12, hermitian=True)
            if sweep == 0:
                scale = np.sqrt((solved**2).sum(axis=0))
            else:
                scale = np.maximum(np.abs(solved).max(axis=0), 1.0)
            scale[scale == 0] = 1
            factors[mode] = solved / scale
        inner = float((product * factors[-1] * scale).sum())
        gram = np.outer(scale, scale)
        for factor in factors:
            gram *= factor.T @ factor
        residual = max(norm**2 + float(gram.sum()) - 2 * inner, 0.0)
        fits.append(float(1 - np.sqrt(residual) / norm))
    weights = scale.copy()
    for factor in factors:
        weights *= np.sqrt((factor**2).sum(axis=0))
    return norm, fits, sorted(weights, reverse=True)


def main():
    if len(sys.argv) != 5:
        print("usage: reference.py FILE.tns[.gz] RANK SWEEPS SEED", file=sys.stderr)
        sys.exit(2)
    path, rank, sweeps, seed = sys.argv[1], *map(int, sys.argv[2:])
    index, value = load(path)
    norm, fits, weights = decompose(index, value, rank, sweeps, seed)
    print(json.dumps({"nnz": len(value), "norm": norm, "rank": rank, "seed": seed,
                      "fits": [round(f, 10) for f in fits],
                      "weights": [float(f"{w:.8g}") for w in weights]}))


main()
