# SPDX-License-Identifier: BSD-3-Clause
"""The HTML page of a model, which the program ``tstream report`` writes."""

import errno
import os
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, List, Sequence, Union

from ._checks import is_several, not_negative
from ._errors import BusyError, Error, error_of
from ._lib import Mode, Path, encoded, native
from ._modes import mode_of
from ._tensor import Tensor

if TYPE_CHECKING:
    from ._model import Model

_FILE, _ARGUMENT = -2, -7  # codes of tstream.h
_ENDS = (".html", ".html.gz")


def _program() -> str:
    """The program of the package, or of a build or a prefix whose library is used, or in PATH."""
    library = os.environ.get("TSTREAM_LIBRARY", "")
    beside = os.path.dirname(os.path.dirname(os.path.abspath(library))) if library else native
    places = [native, os.path.join(beside, "tools"), os.path.join(beside, "bin")]
    found = [os.path.join(place, "tstream") for place in places]
    own = next((each for each in found if os.access(each, os.X_OK)), shutil.which("tstream"))
    if own is None:
        raise Error("report needs the program tstream, which is neither in the package nor in PATH")
    return own


def _lines(lines: Any, model: "Model") -> "List[str]":
    """The option --lines: modes by their numbers from 1."""
    if lines is None:
        return []
    several = is_several(lines) and not isinstance(lines, str)
    modes = [mode_of(mode, model.names) for mode in (lines if several else [lines])]
    return ["--lines", ",".join(str(mode + 1) for mode in sorted(set(modes))) or "none"]


def _error(said: str, status: int) -> Error:
    """What the program said last, as an exception."""
    lines = said.strip().splitlines() or [f"the program ended with status {status}"]
    text = lines[-1].replace("tstream report: ", "", 1).replace("with --output", "as path")
    number = next((n for n in errno.errorcode if text.endswith(": " + os.strerror(n))), 0)
    return error_of(_FILE if number else _ARGUMENT if status == 2 else 0, number, text)


def write_report(model: "Model", path: Path, tensor: "Union[None, Tensor, Path]", components: int,
                 top: int, lines: "Union[None, Mode, Sequence[Mode]]", replace: bool) -> None:
    """What :meth:`Model.report` does."""
    out = os.path.abspath(os.fsdecode(encoded(path)))
    stem = next((out[:-len(end)] for end in _ENDS if out.endswith(end)), out)
    if os.path.lexists(out) and not replace:
        raise BusyError(f"{os.fsdecode(path)} exists: replace=True replaces it")
    options = ["-q", "-c", str(not_negative("components", components)),
               "-n", str(not_negative("top", top)), *_lines(lines, model)]
    if replace:
        options.append("-f")
    if isinstance(tensor, Tensor):
        tensor = tensor.path
    given = [] if tensor is None else [os.path.abspath(os.fsdecode(encoded(tensor)))]
    used = any(model.rows(m)[0] is not None for m in range(model.order))
    with tempfile.TemporaryDirectory() as folder:
        name = (os.path.basename(stem) or "model") + ".cp"
        model.save(os.path.join(folder, name), "npy", rows="used" if used else "all")
        done = subprocess.run(
            [_program(), "report", *options, "-o", out, "--", name, *given],
            cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise _error(os.fsdecode(done.stderr), done.returncode)
