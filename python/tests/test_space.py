# SPDX-License-Identifier: BSD-3-Clause
"""What a disk has no room for is refused before it is read, in the words of the package."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tstream as ts

# A process of its own, whose files may have 4 MiB each.
PROGRAM = """
import resource, sys
import numpy as np
import tstream as ts
n = 3000000
rng = np.random.default_rng(1)
coords = rng.integers(0, 4000, (n, 3))
values = np.ones(n)
values[: n // 5] = 0
resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))
def batches():
    for i in range(0, n, 500000):
        yield coords[i:i + 500000], values[i:i + 500000]
build = {
    "coo": lambda **o: ts.from_coo(coords, values, out="x.tsh", memory="32M", **o),
    "frame": lambda **o: ts.from_frame({"a": coords[:, 0], "b": coords[:, 1], "v": values}, ["a", "b"], "v", "x.tsh",
                                       memory="32M", **o),
    "batches": lambda **o: ts.from_batches(batches(), "x.tsh", memory="32M", **o),
    "expected": lambda **o: ts.from_batches(batches(), "x.tsh", memory="32M", expect=n - n // 5, **o),
}
try:
    build[sys.argv[1]](**({} if sys.argv[2] == "check" else {"space_check": False}))
except ts.Error as e:
    print(e)
"""

BEFORE = "x.tsh: nothing was read: a file takes at least "
DURING = "x.tsh: stopped while reading, as more has come than there is room for: a file takes at least "


@pytest.mark.parametrize("source, check, start, words", [
    ("coo", "check", BEFORE, "space_check=False tries it all the same"),
    ("frame", "check", BEFORE, "space_check=False"),
    ("expected", "check", BEFORE, "space_check=False"),
    ("batches", "check", DURING, "space_check=False"),
    ("coo", "no", "", "File too large, while "),
])
def test_no_room(tmp_path, source, check, start, words):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    said = subprocess.run([sys.executable, "-c", PROGRAM, source, check], cwd=tmp_path, env=env, text=True,
                          stdout=subprocess.PIPE, check=True).stdout
    assert said.startswith(start) and words in said and "--" not in said, said
    assert not [x for x in os.listdir(tmp_path) if x.startswith("x.tsh")]


def test_expected_zeros(tmp_path):
    """Values that become 0 in the stored type are not expected."""
    values = np.array([1.0, 0.0, 1e-42, -2.0])
    t = ts.from_coo(np.arange(8).reshape(4, 2), values, out=tmp_path / "x.tsh")
    assert t.nnz == 2
    assert ts.from_coo(np.arange(8).reshape(4, 2), values, out=tmp_path / "y.tsh", zeros="keep").nnz == 4
    with pytest.raises(ts.ArgumentError, match="dtype=int32: values are float32 or float64"):
        ts.from_coo(np.arange(8).reshape(4, 2), values, dtype="int32")
