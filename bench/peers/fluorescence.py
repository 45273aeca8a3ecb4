# SPDX-License-Identifier: BSD-3-Clause
"""The analysis of examples/fluorescence.ipynb with TensorLy."""
import matplotlib.pyplot as plt
import numpy as np
from tensorly.datasets import load_kinetic
from tensorly.decomposition import non_negative_parafac
from tensorly.metrics.factors import congruence_coefficient

data = load_kinetic()
keep = np.setdiff1d(np.arange(64), data.outlier_measurements_idx)
x = np.where(data.missing_values_position, np.nan, data.tensor)[keep][:, :, :, 2::3]
print(x.shape, f"{np.isnan(x).mean():.2%} of the cells are missing")

known, filled = ~np.isnan(x), np.nan_to_num(x)
run = dict(n_iter_max=500, init="random", tol=1e-7)
models = {}
for rank in (1, 2, 3, 4, 5):
    m = models[rank] = non_negative_parafac(filled, rank, mask=known, random_state=1, **run)
    rest = (m.to_tensor() - x)[known]
    fit = 1 - np.linalg.norm(rest) / np.linalg.norm(x[known])
    print(f"rank {rank}: fit {fit:.4f}, rmse {np.sqrt(np.mean(rest ** 2)):.1f}")

least = {}
rng = np.random.default_rng(1)
for rank in (2, 3, 4, 5):
    scores = []
    for repeat in range(4):
        order, halves = rng.permutation(len(x)), []
        for half in (order[::2], order[1::2]):
            errors, starts = [], []
            for seed in range(2):
                m = non_negative_parafac(filled[half], rank, mask=known[half], random_state=seed,
                                         **run)
                starts.append(m)
                errors.append(np.linalg.norm((m.to_tensor() - x[half])[known[half]]))
            halves.append(starts[np.argmin(errors)])
        one, other = ([f / np.linalg.norm(f, axis=0) for f in m.factors[1:]] for m in halves)
        permutation = congruence_coefficient(np.vstack(one), np.vstack(other))[1]
        alike = np.prod([np.sum(f * g[:, permutation], axis=0) for f, g in zip(one, other)], axis=0)
        scores.append(alike.min())
    least[rank] = np.mean(scores)
    print(f"rank {rank}: least congruence of a component in both halves {least[rank]:.3f}")
assert least[3] > 0.95 and least[3] > max(least[4], least[5])

figure, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
titles = ["emission (nm)", "excitation (nm)", "time (minutes)"]
for axis, mode, title in zip(axes, (1, 2, 3), titles):
    ticks = np.array(data.ticks[mode])[2::3] if mode == 3 else data.ticks[mode]
    axis.plot(ticks, models[3].factors[mode])
    axis.set_xlabel(title)
axes[0].set_ylabel("entry of the component")
plt.show()
