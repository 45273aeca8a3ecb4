# SPDX-License-Identifier: BSD-3-Clause
"""Initial factors of a run."""

import os
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from ._collection import Collection
from ._errors import ArgumentError, ArgumentTypeError
from ._model import Model, load

_WANTED = ("'nvecs', a Model, the path of one, a CPTensor of TensorLy, a ktensor of pyttb, "
           "(weights, factors) or a list of factors")


def _is_matrix(x: Any) -> bool:
    return not isinstance(x, (str, bytes)) and np.ndim(x) == 2


def _parts(init: Any) -> "Optional[Tuple[Any, Sequence[Any]]]":
    """Weights, None for ones, and factors of an object that has them."""
    for name in ("factors", "factor_matrices"):
        if hasattr(init, "weights") and hasattr(init, name):
            return init.weights, getattr(init, name)
    if not isinstance(init, (list, tuple)) or not init:
        return None
    try:
        if all(map(_is_matrix, init)):
            return None, init
        if (len(init) == 2 and (init[0] is None or np.ndim(init[0]) == 1)
                and isinstance(init[1], (list, tuple)) and all(map(_is_matrix, init[1]))):
            return init[0], init[1]
    except ValueError:  # rows of different lengths
        pass
    return None


def model_of(init: Any) -> "Union[Model, Collection]":
    """The model that stands for initial factors; that of arrays is made of copies."""
    if isinstance(init, (Model, Collection)):
        return init
    if isinstance(init, os.PathLike) or isinstance(init, str) and os.path.exists(init):
        read: "Union[Model, Collection]" = load(init)
        return read
    if isinstance(init, str):
        raise ArgumentError(f"init is a Model or 'nvecs', not {init!r}; tstream.load reads a model")
    parts = _parts(init)
    if parts is None:
        raise ArgumentTypeError(f"init is of type {type(init).__name__}: {_WANTED} is wanted")
    return Model.from_factors(*parts)


def starts_of(init: Any, keys: "Sequence[Tuple[int, int]]",
              several: bool) -> "List[Optional[Model]]":
    """The initial factors of each model; None: random ones."""
    model = model_of(init)
    if isinstance(model, Collection):
        if not several:
            raise ArgumentError("init is a Collection: one model starts from one of its models")
        starts = [model[key] if key in model.models else None for key in keys]
    else:
        first = (next((i for i, key in enumerate(keys) if key[0] == model.rank), None)
                 if several else 0)
        starts = [model if i == first else None for i in range(len(keys))]
    if all(start is None for start in starts):
        raise ArgumentError(
            "init has no model of the rank and seed of any that is to be computed")
    return starts
