# SPDX-License-Identifier: BSD-3-Clause
"""Cross-validation."""

import operator
from collections.abc import Iterable
from typing import Any, Dict

import numpy as np

from ._lib import ArgumentError
from ._table import Table
from ._tensor import as_tensor


def compute_folds(tensor: Any, rank: Any, folds: int, **options: Any) -> Table:
    """What :func:`cross_validate` does, with all of its settings."""
    if folds < 2:
        raise ArgumentError("cross-validation takes at least two folds")
    from ._settings import cp
    tensor = as_tensor(tensor)
    ranks = [operator.index(r) for r in rank] if isinstance(rank, Iterable) else [operator.index(rank)]
    errors: "Dict[int, list[float]]" = {r: [] for r in ranks}
    for k in range(folds):
        for row in cp(tensor, ranks, hold_out=1 / folds, hold_out_from=k / folds, **options).rows:
            error = row["held_out_loss"] if row["held_out_rmse"] is None else row["held_out_rmse"]
            errors[row["rank"]].append(np.nan if error is None else error)
    return Table.from_rows([
        dict(rank=r, errors=e, held_out=float(np.mean(e)), standard_error=float(np.std(e, ddof=1) / np.sqrt(folds)))
        for r, e in errors.items()])
