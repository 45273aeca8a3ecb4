# SPDX-License-Identifier: BSD-3-Clause
"""Settings that name modes: sets of modes, and numbers for each."""

import operator
from collections.abc import Iterable
from typing import Any, Optional

import numpy as np

from ._lib import ArgumentError, Array


def mode_of(mode: Any, order: int) -> int:
    """The number of a mode, which may be counted from the end."""
    try:
        if isinstance(mode, (bool, np.bool_)):
            raise TypeError
        number = operator.index(mode)
    except TypeError:
        raise ArgumentError(f"{mode!r} is no mode: give numbers from 0 to {order - 1}") from None
    if not -order <= number < order:
        raise ArgumentError(f"there is no mode {number}, only {order} from 0")
    return number % order


def mode_bits(modes: Any, order: int) -> int:
    """Bit m for each mode m that is named, or has a True among `order` of them; all for True alone."""
    if isinstance(modes, np.ndarray):
        modes = modes.tolist()
    if modes is None:
        return 0
    if isinstance(modes, (bool, np.bool_)):
        return (1 << order) - 1 if modes else 0
    named = list(modes) if isinstance(modes, Iterable) and not isinstance(modes, str) else [modes]
    if len(named) == order and all(isinstance(m, (bool, np.bool_)) for m in named):
        named = [m for m, wanted in enumerate(named) if wanted]
    return sum({1 << mode_of(mode, order) for mode in named})


def penalties(penalty: Any, order: int, fixed: int = 0) -> Optional[Array]:
    """An array of one number for each mode; None for none. One number alone is not for modes that are fixed."""
    if penalty is None:
        return None
    if isinstance(penalty, dict):
        named = {mode_of(mode, order): x for mode, x in penalty.items()}
        if len(named) < len(penalty):
            raise ArgumentError(f"{penalty!r} names a mode twice, from the front and from the end")
        penalty = [named.get(mode, 0) for mode in range(order)]
    values = np.asarray(penalty, dtype=np.float64)
    if values.shape not in ((), (order,)):
        raise ArgumentError(f"a penalty is one number, or one for each of {order} modes")
    if values.shape == ():
        return np.array([0 if fixed >> m & 1 else values for m in range(order)], dtype=np.float64)
    return np.ascontiguousarray(values)


def bounds_of(bounds: Any, order: int, fixed: int) -> Optional[Array]:
    """Lower and upper bounds of each mode, as rows; None for none. One pair alone is not for modes that are fixed."""
    if bounds is None:
        return None
    if not isinstance(bounds, dict):
        bounds = {mode: bounds for mode in range(order) if not fixed >> mode & 1}
    limits = np.array([[-np.inf] * order, [np.inf] * order])
    named = {mode_of(mode, order): pair for mode, pair in bounds.items()}
    if len(named) < len(bounds):
        raise ArgumentError(f"{bounds!r} names a mode twice, from the front and from the end")
    for mode, pair in named.items():
        values = np.asarray(pair, dtype=np.float64)
        if values.shape != (2,) or not values[0] <= values[1]:
            raise ArgumentError(f"bounds of mode {mode} are a lower and an upper number, not {pair!r}")
        limits[:, mode] = values
    return limits
