# SPDX-License-Identifier: BSD-3-Clause
"""The analysis of examples/counts.ipynb with pyttb and pandas."""
import os

import numpy as np
import pandas as pd
import pyttb as ttb

folder = os.environ.get("TSTREAM_EXAMPLES", ".")
births = pd.read_csv(os.path.join(folder, "names.csv.gz"), dtype={"year": str})
modes = ["state", "name", "year"]
codes, labels = zip(*[pd.factorize(births[mode], sort=True) for mode in modes])
shape = tuple(len(each) for each in labels)
t = ttb.sptensor.from_aggregator(np.stack(codes, axis=1), births[["births"]].to_numpy(float), shape)
print(t.shape, t.nnz)

run = dict(printitn=0, printinneritn=0, maxiters=200)
m = ttb.cp_apr(t, 4, **run)[0].normalize(sort=True, normtype=1)
for component in range(m.ncomponents):
    print(f"component {component}")
    for mode, names in enumerate(labels):
        rows = np.argsort(-m.factor_matrices[mode][:, component])[:4]
        print("  ", ", ".join(names[rows]))

rng = np.random.default_rng(1)
scores, least = [], []
for repeat in range(4):
    order, halves = rng.permutation(shape[0]), []
    for states in (order[::2], order[1::2]):
        rows = np.isin(t.subs[:, 0], states)
        where = np.searchsorted(np.sort(states), t.subs[rows, 0])
        half = ttb.sptensor(np.column_stack([where, t.subs[rows, 1:]]), t.vals[rows],
                            (len(states), *shape[1:]))
        starts = [ttb.cp_apr(half, 4, **run) for start in range(2)]
        best = max(starts, key=lambda each: each[2]["obj"])[0]
        halves.append(ttb.ktensor(best.factor_matrices[1:]).normalize())
    score, paired = halves[0].score(halves[1], weight_penalty=False)[:2]
    alike = [np.sum(f * g, axis=0) for f, g in zip(halves[0].factor_matrices,
                                                   paired.factor_matrices)]
    scores.append(score)
    least.append(np.prod(alike, axis=0).min())
print(f"score of the halves {np.mean(scores):.3f}, "
      f"least congruence of a component {np.mean(least):.3f}")

values = t.vals[:, 0]
mean = m.full().double()[tuple(t.subs.T)]
unlikely = values * np.log(values / mean) - values + mean
for k in np.argsort(unlikely)[::-1][:5]:
    where = [names[index] for names, index in zip(labels, t.subs[k])]
    print(f"{' '.join(where)}: {values[k]:.0f} births, {mean[k]:.0f} expected")
