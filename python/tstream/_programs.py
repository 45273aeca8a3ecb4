# SPDX-License-Identifier: BSD-3-Clause
"""The programs that come with the package."""

import os
import sys
from typing import NoReturn

from ._lib import native


def _run(name: str) -> NoReturn:
    own = os.path.join(native, name)
    try:
        if os.path.exists(own):
            os.execv(own, [name, *sys.argv[1:]])
        os.execvp(name, [name, *sys.argv[1:]])
    except OSError as e:
        sys.exit(f"{name}: cannot be run: {e.strerror}")


def tstream() -> NoReturn:
    _run("tstream")


def tshard() -> NoReturn:
    _run("tshard")
