# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions, and warnings at the line that called the package."""

import errno
import os
import sys
import warnings
from typing import Dict, Optional, Type

_here = os.path.dirname(os.path.abspath(__file__))


class TstreamWarning(UserWarning):
    """A note about something that is not an error."""


def warn(text: str) -> None:
    """A TstreamWarning at the line that called the package."""
    level, frame = 1, sys._getframe()
    while (frame.f_back is not None
           and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == _here):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, TstreamWarning, stacklevel=level)


class Error(Exception):
    """An error, with the message that the programs print.

    Attributes
    ----------
    code : int
        One of the ``TS_ERR_`` codes of ``tstream.h``.
    sys : int
        ``errno`` or a code of CUDA; 0 when there is none.
    """

    code = 0
    sys = 0


class OutOfMemory(Error, MemoryError):
    """Out of memory, or beyond the allowed memory."""


class FileError(Error, OSError):
    """A system call on a file failed.

    It is also a FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError or
    NotADirectoryError if that is what happened.

    Attributes
    ----------
    errno : int or None
    strerror : str or None
    """

    @property
    def errno(self) -> Optional[int]:  # type: ignore[override]
        return self.sys or None

    @property
    def strerror(self) -> Optional[str]:  # type: ignore[override]
        return os.strerror(self.sys) if self.sys else None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class MissingFileError(FileError, FileNotFoundError):
    """There is no such file or directory."""


class ExistingFileError(FileError, FileExistsError):
    """There is such a file or directory already."""


class ForbiddenFileError(FileError, PermissionError):
    """The user has no permission."""


class DirectoryFileError(FileError, IsADirectoryError):
    """A file is wanted, and this is a directory."""


class NoDirectoryFileError(FileError, NotADirectoryError):
    """A directory is wanted, and this is something else."""


class FormatError(Error, ValueError):
    """A file has invalid contents."""


class DeviceError(Error, RuntimeError):
    """CUDA or NCCL failed."""


class LimitError(Error, ValueError):
    """A valid request that is too large."""


class BusyError(Error):
    """Another process holds it, or the result already exists."""


class ArgumentError(Error, ValueError):
    """An invalid request."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of another type than is wanted."""


class Stopped(Error):
    """The run was stopped."""


_kinds: "Dict[int, Type[Error]]" = {
    -1: OutOfMemory, -2: FileError, -3: FormatError, -4: DeviceError, -5: LimitError,
    -6: BusyError, -7: ArgumentError, -8: Stopped}
_of_files: "Dict[int, Type[Error]]" = {
    errno.ENOENT: MissingFileError, errno.EEXIST: ExistingFileError,
    errno.EACCES: ForbiddenFileError, errno.EPERM: ForbiddenFileError,
    errno.EISDIR: DirectoryFileError, errno.ENOTDIR: NoDirectoryFileError}


def error_of(code: int, sys_code: int, text: str) -> Error:
    """The exception of a failure of the library."""
    kind = _kinds.get(code, Error)
    if kind is FileError:
        kind = _of_files.get(sys_code, kind)
    e = kind(text)
    e.code, e.sys = code, sys_code
    return e
