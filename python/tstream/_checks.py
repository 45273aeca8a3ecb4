# SPDX-License-Identifier: BSD-3-Clause
"""Arguments of the wrong type, refused by a sentence that names the argument."""

import operator
from collections.abc import Iterable
from typing import Any, List

import numpy as np

from ._errors import ArgumentError, ArgumentTypeError


def integer(what: str, value: Any, *, floats: bool = False) -> int:
    """A whole number; with `floats`, 5.0 is one as well."""
    if floats and isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{what}={shown(value)}: a whole number is wanted") from None


def not_negative(what: str, value: Any, *, floats: bool = False) -> int:
    number = integer(what, value, floats=floats)
    if number < 0:
        raise ArgumentError(f"{what}={number}: it must not be negative")
    return number


def is_several(values: Any) -> bool:
    """Whether these are values one after another, as in a list."""
    if isinstance(values, np.ndarray):
        return values.ndim > 0
    return isinstance(values, Iterable) and not isinstance(values, (str, bytes))


def integers(what: str, values: Any) -> "List[int]":
    """A whole number, or several."""
    if not is_several(values):
        return [integer(what, values)]
    return [integer(what, value) for value in values]


def real(what: str, value: Any) -> float:
    """A number that is not NaN."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{what}={shown(value)}: a number is wanted") from None
    if number != number:
        raise ArgumentError(f"{what} is NaN: a number is wanted")
    return number


def text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{what}={shown(value)}: a text is wanted")
    return value


def names_of_columns(**given: Any) -> None:
    """Refuses columns where their names are wanted, as in ``value=df["n"]``."""
    for what, value in given.items():
        several = value if isinstance(value, (list, tuple)) else [value]
        for x in several:
            if not hasattr(x, "__array__") or np.ndim(x) == 0:
                continue
            kind, own = type(x).__name__, getattr(x, "name", None)
            such = f", such as {what}={[own] if x is not value else own!r}" if isinstance(
                own, str) else ""
            raise ArgumentTypeError(f"{what}: the name of a column is wanted{such}, and this is "
                                    f"of type {kind}")


def shown(value: Any) -> str:
    """What was given, short enough for a sentence, and without its address."""
    text = repr(value)
    return text if len(text) <= 60 and " at 0x" not in text else f"({type(value).__name__})"
