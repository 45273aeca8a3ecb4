# SPDX-License-Identifier: BSD-3-Clause
"""What files beside the factors say of the run of a model.

A run writes ``run.json``, and :meth:`Model.save` writes ``history.json``.
"""

import ctypes as c
import dataclasses
import json
import math
import os
from typing import Any, Callable, Dict, List, Optional

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
    readers: "Dict[str, Callable[[Dict[str, Any]], Dict[str, Any]]]" = {
        "history.json": lambda record: _told(record, rank), "run.json": lambda record: _attributes(record, rank)}
    for name, attributes in readers.items():
        file = os.path.join(os.fsdecode(path), name)
        try:
            if not os.path.isfile(file):
                continue  # a pipe would be waited for
            with open(file, "rb") as f:
                data = f.read()
        except OSError:
            continue
        err = ts_error()
        try:
            check(lib.ts_json_file_check(os.fsencode(file), data, len(data), c.byref(err)), err)
            return attributes(json.loads(data))
        except (AttributeError, Error, KeyError, TypeError, ValueError) as e:
            reason = str(e) if isinstance(e, Error) else f"{file}: is no record of a run"
            warn(f"{reason}: the model is without its history")
    return None


# ---- history.json ----

# Attributes of a model in the file, beside its sweeps, and what they are without a run.
_TOLD: "Dict[str, Any]" = {"converged": False, "exact": False, "sweeps_before": 0, "mean": None,
                           "best_sweep": None, "loss": None, "observed": None}
# A number that is not finite has no form in JSON.
_TEXTS = {math.inf: "inf", -math.inf: "-inf"}


def _json(x: Any) -> Any:
    x = x.item() if hasattr(x, "item") else x
    return x if not isinstance(x, float) or math.isfinite(x) else _TEXTS.get(x)


def history_of(model: Any) -> Optional[bytes]:
    """The object of ``history.json``; None for a model without a run."""
    told = {name: _json(getattr(model, name)) for name in _TOLD}
    if not model.history and told == _TOLD:
        return None
    sweeps = [{name: _json(x) for name, x in dataclasses.asdict(each).items()}
              for each in model.history]
    whole = {"program": "tstream", "version": lib.ts_library_version().decode(),
             "rank": model.rank, **told, "fit": _json(model._last_fit()), "sweeps": sweeps}
    return json.dumps(whole, allow_nan=False, separators=(",", ":")).encode()


def _number(x: Any) -> Any:
    return float("nan") if x is None else float(x) if isinstance(x, str) else x


def _told(record: "Dict[str, Any]", rank: int) -> "Dict[str, Any]":
    if record.get("rank", rank) != rank:
        raise ValueError("the history of another model")
    sweeps = [Sweep(**{name: _number(x) for name, x in row.items()}) for row in record["sweeps"]]
    fit = record.get("fit")
    return {**{name: record[name] for name in _TOLD}, "history": sweeps,
            "_fit": None if fit is None else _number(fit)}


# ---- run.json ----


def _attributes(record: "Dict[str, Any]", rank: int) -> "Dict[str, Any]":
    options, before = record["options"], record["sweeps_before"]
    mean = record.get("mean")
    history = _history(record, rank - (mean is not None), options["seed"])
    return dict(history=history[before:], sweeps_before=before, mean=mean,
                best_sweep=record.get("best_sweep"), _fit=record.get("fit"), loss=options.get("loss", "least-squares"),
                observed=bool(options.get("observed", False)),
                converged=record["ended"] in ("converged", "exact"),
                exact=record["ended"] == "exact", precision=options.get("precision"),
                shape=_shape(record["tensor"]["shape"]))


def _shape(x: Any) -> "tuple[int, ...]":
    if not isinstance(x, list) or not all(type(n) is int and 0 < n <= 1 << 40 for n in x):
        raise ValueError(x)
    return tuple(x)
