# SPDX-License-Identifier: BSD-3-Clause
"""What several calls tell the library: precision, threads, memory, GPUs, formats of files."""

from typing import Any, Sequence, Union

from ._lib import ArgumentError, Call, Size, size, ts_session_conf

formats = {"ktensor": 1, "npy": 2, "splatt": 4}
precisions = {"float32": 0, "float64": 1}


def files_of(named: "Union[str, Sequence[str]]", rows: str) -> int:
    """The library's number for formats of files."""
    chosen = [named] if isinstance(named, str) else list(named)
    unknown = [f for f in chosen if f not in formats]
    if unknown or not chosen or rows not in ("all", "used"):
        raise ArgumentError("formats are ktensor, npy and splatt; rows are all or used")
    return sum({formats[f] for f in chosen})


def session_conf(call: Call, *, rank: int = 0, precision: str = "float32", threads: int = 0,
                 host_memory: Size = None, cpu: bool = False, gpus: Any = None, gpu_memory: Size = None,
                 **more: Any) -> ts_session_conf:
    if precision not in precisions:
        raise ArgumentError(f"precision={precision!r}: float32 or float64")
    if gpus is not None and not isinstance(gpus, (int, str)):
        gpus = ",".join(map(str, gpus)) + ("," if len(gpus) == 1 else "")
    return ts_session_conf(rank=rank, precision=precisions[precision], threads=threads,
                           host_memory=size(host_memory), cpu=bool(cpu),
                           gpus=None if gpus is None else str(gpus).encode(),
                           gpu_memory=size(gpu_memory), stop=call.stop, note=call.note, **more)
