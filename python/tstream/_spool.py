# SPDX-License-Identifier: BSD-3-Clause
"""Cells that a file gives piece by piece.

Few of them are held in memory. More lie in a file without a name, which goes with the array: the
system keeps as much of it in memory as there is room for.
"""

import os
import shutil
import tempfile
from typing import Any, Iterator, Tuple

import numpy as np

from ._lib import ArgumentError, Array, FormatError, LimitError

HELD = 1 << 26  # bytes that are held in memory
_STEP = 1 << 20  # cells, or bytes, of a piece


def _size(shape: "Tuple[int, ...]", dtype: Any) -> int:
    return int(np.prod(shape, dtype=object)) * int(np.dtype(dtype).itemsize)


def _room(shape: "Tuple[int, ...]", dtype: Any) -> Array:
    """An array for cells that come later, in C order."""
    n = _size(shape, dtype)
    if n <= HELD:
        return np.empty(shape, dtype)
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if n > free:
        raise LimitError(f"{n:.3g} bytes of cells do not fit in {folder}, which has {free:.3g} "
                         "free: TMPDIR names another place")
    with tempfile.TemporaryFile(dir=folder) as file:
        try:  # a full disk is found here, not in a mapped page
            os.posix_fallocate(file.fileno(), 0, n)
        except OSError as e:
            raise LimitError(f"{n:.3g} bytes of cells do not fit in {folder} ({e.strerror}): "
                             "TMPDIR names another place") from e
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)


def _boxes(shape: "Tuple[int, ...]", least: int) -> "Iterator[Tuple[Any, ...]]":
    """Pieces of an array, in order, with a multiple of `least` slices of the first mode if all of
    these are small."""
    axis = 0
    while axis < len(shape) - 1 and _size(shape[axis + 1 :], "b") > _STEP:
        axis += 1
    step = max(1, _STEP // max(1, _size(shape[axis + 1 :], "b")))
    if axis == 0 and least > 1:
        step = max(1, step // least) * least
    for lead in np.ndindex(*shape[:axis]):
        for i in range(0, shape[axis], step):
            yield (*lead, slice(i, i + step))


def of_dataset(x: Any) -> Array:
    """The cells of a dataset of h5py: each chunk is read once, or nearly so."""
    if _size(x.shape, x.dtype) <= HELD:
        return np.asarray(x[()])
    narrow = x.dtype.kind == "b" or x.dtype == np.float16
    ret = _room(x.shape, np.float32 if narrow else x.dtype)
    slab = _size((x.chunks[0], *x.shape[1:]), "b") if x.chunks is not None else 0
    pieces = x.iter_chunks() if slab > 16 * _STEP else _boxes(x.shape, (x.chunks or (1,))[0])
    for at in pieces:
        ret[at] = x[at]
    return ret


def of_npz(file: Any, name: str) -> Array:
    """An array of an ``.npz`` file that numpy.load has open."""
    entry = f"{name}.npy"
    if entry not in file.zip.namelist():
        return np.asarray(file[name])
    with file.zip.open(entry) as f:
        version = np.lib.format.read_magic(f)
        header = {(1, 0): np.lib.format.read_array_header_1_0,
                  (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        shape, fortran, dtype = ((), False, np.dtype("b")) if header is None else header(f)
        if dtype.hasobject:
            raise ArgumentError(
                f"{file.fid.name}: variable {name!r} is of {dtype}: real numbers are wanted")
        if header is None or _size(shape, dtype) <= HELD:
            return np.asarray(file[name])
        ret = _room(shape[::-1] if fortran else shape, dtype)
        to, at = ret.reshape(-1).view(np.uint8), 0
        while at < to.size:
            n = f.readinto(to[at : at + _STEP])
            if n == 0:
                raise FormatError(f"{file.fid.name}: variable {name!r} has {at} bytes of cells, "
                                  f"not {to.size}")
            at += n
    return ret.T if fortran else ret
