# SPDX-License-Identifier: BSD-3-Clause
"""``python -m tstream cp ...`` runs tstream, ``python -m tstream tshard build ...`` the other program."""

import sys

from . import _programs

if __name__ == "__main__":
    if sys.argv[1:2] in (["tstream"], ["tshard"]):
        getattr(_programs, sys.argv.pop(1))()
    _programs.tstream()
