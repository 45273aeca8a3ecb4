# SPDX-License-Identifier: BSD-3-Clause
"""What several calls tell the library: precision, threads, memory, GPUs, formats of files."""

from typing import Any, Sequence, Union

import numpy as np

from ._checks import integers
from ._errors import ArgumentError, ArgumentTypeError
from ._lib import Call, Size, encoded, size, ts_session_conf

Precision = Union[str, "np.dtype[Any]", "type[Any]"]
Gpus = Union[None, int, str, Sequence[int]]
formats = {"ktensor": 1, "npy": 2, "splatt": 4}
precisions = {"float32": 0, "float64": 1}


def precision_of(precision: Any) -> str:
    """The name of a precision, which may be given as a type of NumPy."""
    name = precision
    if isinstance(precision, (type, np.dtype)):
        name = np.dtype(precision).name
    if not isinstance(name, str):
        raise ArgumentTypeError(f"precision={precision!r}: float32 or float64")
    if name not in precisions:
        raise ArgumentError(f"precision={precision!r}: float32 or float64")
    return name


def files_of(named: "Union[str, Sequence[str]]", rows: str) -> int:
    """The library's number for formats of files."""
    chosen = [named] if isinstance(named, str) else list(named)
    unknown = [f for f in chosen if not isinstance(f, str) or f not in formats]
    if unknown or not chosen or rows not in ("all", "used"):
        raise ArgumentError("formats are ktensor, npy and splatt; rows are all or used")
    return sum({formats[f] for f in chosen})


def session_conf(call: Call, *, rank: int = 0, precision: str = "float32", threads: int = 0,
                 host_memory: Size = None, cpu: bool = False, gpus: Any = None, gpu_memory: Size = None,
                 **more: Any) -> ts_session_conf:
    precision = precision_of(precision)
    if gpus is not None and not isinstance(gpus, (int, str)):
        gpus = integers("gpus", gpus)
        gpus = ",".join(map(str, gpus)) + ("," if len(gpus) == 1 else "")
    return ts_session_conf(rank=rank, precision=precisions[precision], threads=threads,
                           host_memory=size(host_memory), cpu=bool(cpu),
                           gpus=None if gpus is None else encoded(str(gpus)),
                           gpu_memory=size(gpu_memory), stop=call.stop, note=call.note, **more)
