# SPDX-License-Identifier: BSD-3-Clause
"""The programs that come with the package."""

import os
import sys

from ._lib import native


def _run(name):
    own = os.path.join(native, name)
    try:
        if os.path.exists(own):
            os.execv(own, [name, *sys.argv[1:]])
        os.execvp(name, [name, *sys.argv[1:]])
    except OSError as e:
        sys.exit(f"{name}: cannot be run: {e.strerror}")


def tstream():
    _run("tstream")


def tshard():
    _run("tshard")
