# SPDX-License-Identifier: BSD-3-Clause
"""Initial factors of a run."""

from typing import Any, Optional, Sequence

from ._collection import Collection
from ._lib import ArgumentError
from ._model import Model


def starts_of(init: Any, keys: "Sequence[tuple[int, int]]", several: bool) -> "list[Optional[Model]]":
    """The initial factors of each model; None: random ones."""
    if several and isinstance(init, Collection):
        starts: "list[Optional[Model]]" = [init[key] if key in init.models else None for key in keys]
    elif isinstance(init, Model):
        first = next((i for i, key in enumerate(keys) if key[0] == init.rank), None) if several else 0
        starts = [init if i == first else None for i in range(len(keys))]
    else:
        raise ArgumentError("init of several models is 'nvecs', a Model or a Collection" if several else
                            f"init is a Model or 'nvecs', not {init!r}; tstream.load reads a model")
    if all(start is None for start in starts):
        raise ArgumentError("init has no model of the rank and seed of any that is to be computed")
    return starts
