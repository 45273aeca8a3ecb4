# SPDX-License-Identifier: BSD-3-Clause
"""Settings that name modes: sets of modes, and numbers for each."""

import operator
from collections.abc import Iterable
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ._checks import shown
from ._errors import ArgumentError, ArgumentTypeError
from ._lib import Array, Mode

_Pair = Union[Tuple[float, float], Sequence[float]]
Modes = Union[None, Mode, Sequence[int], Sequence[str], Sequence[Mode], Array]
Penalties = Union[None, float, Mapping[int, float], Mapping[str, float],
                  Mapping[Mode, float], Sequence[float], Array]
Bounds = Union[None, _Pair, Mapping[int, _Pair], Mapping[str, _Pair], Mapping[Mode, _Pair]]
Names = Sequence[Optional[str]]  # of the modes: one for each


def mode_of(mode: Any, names: Names) -> int:
    """The number of a mode, which has a name or is counted from either end."""
    order = len(names)
    if isinstance(mode, str):
        if mode in names:
            return names.index(mode)
        known = [name for name in names if name is not None]
        raise ArgumentError(f"no mode is called {mode!r}" + (f", only {', '.join(known)}" if known
                                                             else ": the modes have no names"))
    try:
        if isinstance(mode, (bool, np.bool_)):
            raise TypeError
        number = operator.index(mode)
    except TypeError:
        raise ArgumentTypeError(
            f"{shown(mode)} is no mode: give names, or numbers from 0 to {order - 1}") from None
    if not -order <= number < order:
        raise ArgumentError(f"there is no mode {number}, only {order} from 0")
    return number % order


def mode_bits(modes: Any, names: Names) -> int:
    """Bit m for each mode m that is named, or has a True among all; all for True alone."""
    if isinstance(modes, np.ndarray):
        modes = modes.tolist()
    if modes is None:
        return 0
    order = len(names)
    if isinstance(modes, (bool, np.bool_)):
        return (1 << order) - 1 if modes else 0
    named = list(modes) if isinstance(modes, Iterable) and not isinstance(modes, str) else [modes]
    if len(named) == order and all(isinstance(m, (bool, np.bool_)) for m in named):
        named = [m for m, wanted in enumerate(named) if wanted]
    return sum({1 << mode_of(mode, names) for mode in named})


def _by_number(given: "Mapping[Any, Any]", names: Names) -> "Dict[int, Any]":
    """What is given for some modes, by their numbers."""
    ret = {mode_of(mode, names): x for mode, x in given.items()}
    if len(ret) < len(given):
        raise ArgumentError(f"{shown(given)} names a mode twice")
    return ret


def penalties(penalty: Any, names: Names, fixed: int = 0) -> Optional[Array]:
    """An array of one number for each mode; None for none. One number alone is not for modes that
    are fixed."""
    if penalty is None:
        return None
    order = len(names)
    if isinstance(penalty, Mapping):
        named = _by_number(penalty, names)
        penalty = [named.get(mode, 0) for mode in range(order)]
    try:
        values = np.asarray(penalty, dtype=np.float64)
    except (TypeError, ValueError):
        kind = ArgumentError if isinstance(penalty, (list, tuple)) else ArgumentTypeError
        raise kind(f"a penalty is one number, or one for each of {order} modes, "
                   f"not {shown(penalty)}") from None
    if values.shape not in ((), (order,)):
        raise ArgumentError(f"a penalty is one number, or one for each of {order} modes")
    if values.shape == ():
        return np.array([0 if fixed >> m & 1 else values for m in range(order)], dtype=np.float64)
    return np.ascontiguousarray(values)


def bounds_of(bounds: Any, names: Names, fixed: int) -> Optional[Array]:
    """Lower and upper bounds of each mode, as rows; None for none. One pair alone is not for modes
    that are fixed."""
    if bounds is None:
        return None
    order = len(names)
    if not isinstance(bounds, Mapping):
        bounds = {mode: bounds for mode in range(order) if not fixed >> mode & 1}
    limits = np.array([[-np.inf] * order, [np.inf] * order])
    for mode, pair in _by_number(bounds, names).items():
        wanted = f"bounds of mode {mode} are a lower and an upper number, not {shown(pair)}"
        try:
            values = np.asarray(pair, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentError(wanted) from None
        if values.shape != (2,) or not values[0] <= values[1]:
            raise ArgumentError(wanted)
        limits[:, mode] = values
    return limits
