# SPDX-License-Identifier: BSD-3-Clause
"""Cross-validation."""

from typing import Any, Dict

import numpy as np

from ._checks import integer, integers
from ._errors import ArgumentError
from ._seeds import seed_of
from ._table import Table
from ._tensor import as_tensor, columns_of


def compute_folds(tensor: Any, rank: Any, folds: int, **options: Any) -> Table:
    """What :func:`cross_validate` does, with all of its settings."""
    if integer("folds", folds) < 2:
        raise ArgumentError("cross-validation takes at least two folds")
    from ._settings import cp
    tensor = as_tensor(tensor, memory=options["host_memory"], **columns_of(options))
    ranks = integers("rank", rank)
    options["seed"] = seed_of(options.get("seed", 1))  # it also says which cells are of a fold
    errors: "Dict[int, list[float]]" = {r: [] for r in ranks}
    for k in range(folds):
        for row in cp(tensor, ranks, hold_out=1 / folds, hold_out_from=k / folds, **options).rows:
            error = row["held_out_loss"] if row["held_out_rmse"] is None else row["held_out_rmse"]
            errors[row["rank"]].append(np.nan if error is None else error)
    return Table.from_rows([
        dict(rank=r, errors=e, held_out=float(np.mean(e)), standard_error=float(np.std(e, ddof=1) / np.sqrt(folds)))
        for r, e in errors.items()])
