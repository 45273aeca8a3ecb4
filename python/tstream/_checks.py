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


def shown(value: Any) -> str:
    """What was given, short enough for a sentence, and without its address."""
    text = repr(value)
    return text if len(text) <= 60 and " at 0x" not in text else f"({type(value).__name__})"
