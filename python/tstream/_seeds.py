# SPDX-License-Identifier: BSD-3-Clause
"""Seeds, as NumPy and scikit-learn take them."""

import operator
import os
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from ._errors import ArgumentTypeError

if TYPE_CHECKING:
    Seed = Union[None, int, np.random.Generator, np.random.RandomState, np.random.SeedSequence,
                 np.random.BitGenerator]
else:
    Seed = Any  # NumPy imports its random numbers when they are used

_LARGEST = (1 << 53) - 1  # which JSON of any reader holds


def seed_of(seed: Seed) -> int:
    """The number that a run starts from.

    An integer is itself. None gives a new number each time. A Generator or RandomState gives the
    next number that it draws, so that the same state gives the same runs.
    """
    if seed is None:
        return int.from_bytes(os.urandom(8), "little") & _LARGEST
    try:
        return operator.index(seed)  # type: ignore[arg-type]
    except TypeError:
        pass
    random: Any = np.random
    if isinstance(seed, random.RandomState):
        return int(seed.randint(0, (1 << 31) - 1))
    if isinstance(seed, (random.Generator, random.SeedSequence, random.BitGenerator)):
        return int(random.default_rng(seed).integers(0, _LARGEST))
    raise ArgumentTypeError(f"seed is of type {type(seed).__name__}: an integer, None, a Generator "
                            "or a RandomState of NumPy is wanted")
