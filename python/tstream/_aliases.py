# SPDX-License-Identifier: BSD-3-Clause
"""Second names of settings."""

import functools
from typing import Any, Callable, Dict, Sequence, TypeVar, cast

from ._lib import ArgumentError


def _as_list(value: Any) -> Any:
    """A value of a setting as it is compared with that of its second name."""
    return [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else value


_Function = TypeVar("_Function", bound=Callable[..., Any])


def one_name_each(aliases: "Dict[str, str]", refused: "Sequence[str]" = ()) -> "Callable[[_Function], _Function]":
    """A function with settings takes the second names of settings as well.

    Parameters
    ----------
    aliases : dict
        The name of the setting for each second name.
    refused : sequence of str
        What the function does, and settings of :func:`cp` that it cannot take.
    """
    def wrap(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            for alias, name in aliases.items():
                value = given.pop(alias, None)
                if value is None:
                    continue
                if name in given and _as_list(given[name]) != _as_list(value):
                    raise ArgumentError(f"{name}={given[name]!r} and {alias}={value!r}: these are two names for one setting")
                given[name] = value
            for name in refused[1:]:
                if name in given:
                    raise ArgumentError(f"{refused[0]} does not go with {name}")
            return function(*args, **given)

        return cast(_Function, call)

    return wrap
