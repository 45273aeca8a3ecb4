# SPDX-License-Identifier: BSD-3-Clause
"""The analysis of examples/ratings.ipynb with TensorLy and scikit-learn."""
import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from tensorly.decomposition import parafac

rng = np.random.default_rng(3)
shape, tastes = (400, 300, 8), 4
truth = [rng.normal(0, 1, (n, tastes)) for n in shape[:2]] + [rng.uniform(0.5, 1.5, (8, tastes))]
cells = np.unique(rng.integers(0, shape, (30000, 3)), axis=0)
value = np.prod([f[cells[:, k]] for k, f in enumerate(truth)], axis=0).sum(axis=1)
value = np.clip(np.round(3 + value / 2 + 0.2 * rng.standard_normal(len(value)), 1), 1, 5)
ratings = pd.DataFrame({"user": cells[:, 0], "item": cells[:, 1], "season": cells[:, 2],
                        "rating": value})
print(ratings.head(3))

where = tuple(ratings[["user", "item", "season"]].to_numpy().T)
x, known = np.zeros(shape), np.zeros(shape, dtype=bool)
mean = ratings.rating.mean()
x[where], known[where] = ratings.rating - mean, True
held = known & (rng.random(shape) < 0.1)
run = dict(n_iter_max=100, init="random", random_state=1, l2_reg=1.0)
for rank in (1, 2, 3, 4, 5, 6):
    m = parafac(x, rank, mask=known & ~held, **run)
    error = np.sqrt(np.mean((m.to_tensor() - x)[held] ** 2))
    print(f"rank {rank}: {error:.3f} at held-out ratings")
print(f"the mean alone: {ratings.rating.std():.3f}")

m = parafac(x, 4, mask=known, **run)
error = np.sqrt(np.mean((m.to_tensor() - x)[known] ** 2))
print(f"all ratings learnt: {error:.3f} at them; {mean:.3f} is the mean")

taste = rng.normal(0, 1, tastes)
seen = np.column_stack([np.zeros(40, int), rng.choice(300, 40, replace=False),
                        rng.integers(0, 8, 40)])
true = np.einsum("r,ir,wr->iw", taste, *truth[1:]) / 2 + 3
rated = np.clip(true[seen[:, 1], seen[:, 2]], 1, 5)
items, seasons = (np.asarray(f) for f in m.factors[1:])
others = items[seen[:, 1]] * seasons[seen[:, 2]] * m.weights
row = Ridge(alpha=1.0, fit_intercept=False).fit(others, rated - mean).coef_
far = np.clip(mean + np.einsum("r,ir,wr->iw", row * m.weights, items, seasons), 1, 5)
print(f"error at the other items {np.sqrt(np.mean((far - np.clip(true, 1, 5)) ** 2)):.3f}")
