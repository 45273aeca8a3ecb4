# SPDX-License-Identifier: BSD-3-Clause
"""The library in a process: what it needs, what it shows, and other runtimes of OpenMP."""

import os
import shutil
import subprocess
import sys

import pytest

from tstream import _lib, _needed

NATIVE = os.path.join(_lib.native, "libtstream.so.0")

# Prints: threads while it computes less those before, threads left over, a digest, new runtimes of
# OpenMP, and the digest of the same run after a fork.
RUN = """
import hashlib, os, sys, time
import numpy as np

def threads():
    return len(os.listdir("/proc/self/task"))

def runtimes():
    with open("/proc/self/maps") as f:
        names = {line.split()[-1] for line in f}
    return {n for n in names if "libgomp" in os.path.basename(n) or "omp5" in os.path.basename(n)}

other = sys.argv[1]
if other == "sklearn":
    from sklearn.cluster import KMeans
    KMeans(n_clusters=3, n_init=1).fit(np.random.default_rng(2).random((4000, 8)))
elif other == "torch":
    import torch
    torch.rand(700, 700).matmul(torch.rand(700, 700))
before, mapped = threads(), runtimes()
import tstream as ts

rng = np.random.default_rng(1)
tensor = ts.from_coo(rng.integers(0, [60, 50, 40], size=(9000, 3)), rng.random(9000))
most = 0

def count(sweep):
    global most
    most = max(most, threads())

def digest():
    m = ts.cp(tensor, rank=4, sweeps=5, tol=0, threads=6, seed=1, cpu=True,
              progress=False, on_sweep=count)
    parts = [np.ascontiguousarray(f).tobytes() for f in m.factors]
    return hashlib.sha256(b"".join(parts)).hexdigest()

first = digest()
for _ in range(100):
    if threads() <= before:
        break
    time.sleep(0.05)
print(most - before, threads() - before, first, len(runtimes() - mapped), flush=True)
if os.fork() == 0:
    print(digest(), flush=True)
    os._exit(0)
os._exit(os.wait()[1] != 0)
"""


def run(other):
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", RUN, other], check=True, text=True,
                         stdout=subprocess.PIPE, timeout=120).stdout.split()
    return int(out[0]), int(out[1]), out[2], int(out[3]), out[4]


@pytest.mark.parametrize("other", ["", "sklearn", "torch"])
def test_beside_other_runtimes_of_openmp(other):
    if other:
        pytest.importorskip(other)
    used, left, digest, runtimes, forked = run(other)
    alone = run("")
    assert left == 0
    assert abs(used - alone[0]) <= 3  # threads that read come and go; a second team would have 5
    assert digest == forked == alone[2]
    if os.environ.get("TSTREAM_TEST_WHEEL"):  # which has its own, that nothing else can reach
        assert runtimes == 0


@pytest.mark.parametrize("start", _needed.PACKAGES)
def test_a_missing_library_is_named_with_its_package(start):
    name = start.rstrip(".") + ".so.1"
    said = _needed.sentence(OSError(f"{name}: cannot open shared object file: No such file"))
    assert name in said and f"apt-get install {_needed.PACKAGES[start][0]}" in said


@pytest.mark.parametrize("name, said", [
    ("libother.so.3: cannot open shared object file: No such file", "needs libother.so.3, which"),
    ("x.so: file too short", "cannot be loaded: x.so: file too short"),
])
def test_other_errors_of_loading(name, said):
    assert said in _needed.sentence(OSError(name))


def test_what_cannot_be_loaded_is_a_sentence(tmp_path):
    (tmp_path / "broken.so").write_bytes(b"no library")
    code = "import tstream as ts\nts.open('x.tsh')"
    env = dict(os.environ, TSTREAM_LIBRARY=str(tmp_path / "broken.so"))
    done = subprocess.run([sys.executable, "-c", code], env=env, text=True, stderr=subprocess.PIPE,
                          check=False)
    assert done.stderr.splitlines()[-1].startswith("OSError: tstream's library cannot be loaded")


@pytest.mark.skipif(not os.path.exists(NATIVE), reason="the package is not installed")
@pytest.mark.skipif(shutil.which("nm") is None, reason="there is no nm")
def test_the_library_shows_names_of_its_own_alone():
    names = subprocess.run(["nm", "-D", "--defined-only", NATIVE], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split("\n")
    shown = [line.split()[2].partition("@")[0] for line in names if line]
    assert "ts_cp" in shown and "ts_program_tstream" in shown
    assert [n for n in shown if not n.startswith("ts_") and n != "LIBTSTREAM_0"] == []
