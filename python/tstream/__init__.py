# SPDX-License-Identifier: BSD-3-Clause
"""Decompositions of sparse tensors that do not fit in memory.

>>> import tstream as ts
>>> t = ts.build("ratings.tns.gz", memory="8G")                   # doctest: +SKIP
>>> m = ts.cp(t, rank=32, on_sweep=print)                         # doctest: +SKIP
>>> m.weights, m.factors[0], m.top(0, mode=1)                     # doctest: +SKIP

Tensors are directories (:func:`open`, :func:`build`, :func:`from_coo`, :func:`from_frame`, :func:`from_array`,
:func:`from_batches`), decompositions are :class:`Model` (:func:`cp`, :func:`load`), several of
them a :class:`Collection`. Modes, indices and components
count from 0. Failures are subclasses of :class:`Error` with the sentences of the programs; notes are
:class:`TstreamWarning`.
"""

import sys
import warnings
from typing import Any

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError("tstream needs the global interpreter lock: start this free-threaded Python "
                      "with PYTHON_GIL=1 or -X gil=1")

from ._build import build, from_batches, from_coo
from ._collection import Collection
from ._evaluation import Evaluation
from ._frame import from_frame
from ._errors import (ArgumentError, ArgumentTypeError, BusyError, DeviceError, Error, FileError,
                      FormatError, LimitError, OutOfMemory, Stopped, TstreamWarning)
from ._losses import losses
from ._model import Model, load
from ._plot import plot_replicability
from ._replicability import RankChoice, SplitHalf, choose_rank, compare, split_half
from ._settings import cp, cross_validate
from ._sweep import Sweep
from ._table import Table
from ._tensor import Tensor, from_array, open

__all__ = ["ArgumentError", "ArgumentTypeError", "BusyError", "Collection", "DeviceError", "Error",
           "Evaluation", "FileError", "FormatError", "LimitError", "Model", "OutOfMemory",
           "RankChoice", "SplitHalf", "Stopped", "Sweep", "Table", "Tensor", "TstreamWarning",
           "build", "choose_rank", "compare", "cp", "cross_validate", "from_array", "from_batches",
           "from_coo", "from_frame", "load", "losses", "open", "plot_replicability", "split_half"]


def __getattr__(name: str) -> Any:
    from ._lib import lib
    if name == "__version__":
        return lib.ts_library_version().decode()
    if name == "lib":
        warnings.warn("tstream.lib is private: what it did is in the functions of the package",
                      FutureWarning, stacklevel=2)
        return lib
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
