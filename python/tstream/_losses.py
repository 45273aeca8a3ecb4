# SPDX-License-Identifier: BSD-3-Clause
"""Loss functions by name."""

import ctypes as c

from ._lib import ArgumentError, check, encoded, lib, ts_error

POISSON = 1  # TS_LOSS_POISSON of tstream.h; those after it descend
OPTIMIZERS = ("adam", "lbfgsb")


def losses() -> "tuple[str, ...]":
    """Names for `loss` of :func:`cp`. A letter stands for a number, as in 'huber:D'.

    Examples
    --------
    >>> tstream.losses()[:2]
    ('least-squares', 'poisson')
    """
    found: "list[str]" = []
    while (name := lib.ts_loss_name(len(found))) is not None:
        letter = lib.ts_loss_number(len(found))
        found.append(name.decode() + ("" if letter is None else ":" + letter.decode()))
    return tuple(found)


def loss_of(text: str) -> "tuple[int, float]":
    """TS_LOSS_... of tstream.h, and the number behind the colon."""
    loss, at, err = c.c_int(), c.c_double(), ts_error()
    if "\0" in text:
        raise ArgumentError(f"there is no loss {text!r}")
    check(lib.ts_loss_named(encoded(text), c.byref(loss), c.byref(at), c.byref(err)), err)
    return loss.value, at.value
