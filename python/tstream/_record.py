# SPDX-License-Identifier: BSD-3-Clause
"""What run.json beside the factors says of the run of a model."""

import ctypes as c
import json
import os
from typing import Any, Dict, List, Optional

from ._errors import Error, warn
from ._lib import Path, check, lib, ts_error
from ._sweep import Sweep

# Those that have another name in the file.
_NAMES = {"product_seconds": "kernel_seconds", "n_singular": "singular_modes",
          "n_dead": "dead_components"}
_NUMBERS = ("sweep", "fit", "seconds", "wait_seconds", "copy_seconds", "product_seconds",
            "solve_seconds", "bytes_read", "n_singular", "n_dead", "objective", "rmse",
            "held_out_rmse", "log_likelihood", "violation", "held_out_loss")


def _history(record: "Dict[str, Any]", rank: int, seed: int) -> "List[Sweep]":
    ret: "List[Sweep]" = []
    for row in record["sweeps"]:
        numbers = {name: row.get(_NAMES.get(name, name)) for name in _NUMBERS}
        numbers = {name: float("nan") if x is None else x for name, x in numbers.items()}
        change = numbers["fit"] - (ret[-1].fit if ret else 0)
        ret.append(Sweep(change=change, rank=rank, seed=seed, **numbers))
    return ret


def recall(path: Path, rank: int) -> "Optional[Dict[str, Any]]":
    """The attributes of the model of `rank` components in a directory; None without a record.

    A damaged record is left out with a warning, because the factors are whole without it.
    """
    file = os.path.join(os.fsdecode(path), "run.json")
    try:
        with open(file, "rb") as f:
            data = f.read()
    except OSError:
        return None
    err = ts_error()
    try:
        check(lib.ts_json_file_check(os.fsencode(file), data, len(data), c.byref(err)), err)
        return _attributes(json.loads(data), rank)
    except (AttributeError, Error, KeyError, TypeError, ValueError) as e:
        reason = str(e) if isinstance(e, Error) else f"{file}: is no record of a run"
        warn(f"{reason}: the model is without its history")
        return None


def _attributes(record: "Dict[str, Any]", rank: int) -> "Dict[str, Any]":
    options, before = record["options"], record["sweeps_before"]
    mean = record.get("mean")
    history = _history(record, rank - (mean is not None), options["seed"])
    return dict(history=history[before:], sweeps_before=before, mean=mean,
                best_sweep=record.get("best_sweep"), loss=options.get("loss", "least-squares"),
                observed=bool(options.get("observed", False)),
                converged=record["ended"] in ("converged", "exact"),
                exact=record["ended"] == "exact", precision=options.get("precision"),
                shape=tuple(record["tensor"]["shape"]))
