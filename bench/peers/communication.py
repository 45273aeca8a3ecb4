# SPDX-License-Identifier: BSD-3-Clause
"""The analysis of examples/communication.ipynb with TensorLy and SciPy."""
import numpy as np
from scipy.optimize import linear_sum_assignment
from tensorly.decomposition import non_negative_parafac

rng = np.random.default_rng(7)
shape = (12, 60, 10, 10)
truth = [rng.gamma(0.6, 1.0, (n, 5)) + 1e-3 for n in shape]
x = np.einsum("ar,br,cr,dr->abcd", *truth)
x = np.maximum(0, x + 0.03 * x.std() * rng.standard_normal(shape))
x[rng.random(shape) < 0.43] = np.nan
names = ["context", "pair", "sender", "receiver"]

known = ~np.isnan(x)
run = dict(n_iter_max=500, init="random", tol=1e-8, mask=known)
error, best = {}, {}
for rank in range(1, 9):
    for seed in range(3):
        m = non_negative_parafac(np.where(known, x, 0), rank, random_state=seed, **run)
        rmse = np.sqrt(np.mean((m.to_tensor() - x)[known] ** 2))
        if rank not in error or rmse < error[rank]:
            error[rank], best[rank] = rmse, m
    print(f"rank {rank}: rmse {error[rank]:.4f}")
assert error[4] > 1.2 * error[5] and error[5] < 1.1 * error[6]

lengths = [np.linalg.norm(f, axis=0) for f in best[5].factors]
factors = [f / n for f, n in zip(best[5].factors, lengths)]
weights = np.prod(lengths, axis=0)
drawn = [np.linalg.norm(f, axis=0) for f in truth]
sizes = np.prod(drawn, axis=0)
match = np.prod([(f / n).T @ g for f, n, g in zip(truth, drawn, factors)], axis=0)
match *= 1 - abs(sizes[:, None] - weights) / np.maximum(sizes[:, None], weights)
score = match[linear_sum_assignment(-match)].mean()
print(f"factor match score with what was drawn: {score:.3f}")
assert score > 0.9

strongest = np.argmax(weights)
for mode, name in enumerate(names):
    column = factors[mode][:, strongest]
    rows = np.argsort(-column)[:3]
    print(f"{name:9}", ", ".join(f"{row} ({column[row]:.2f})" for row in rows))
