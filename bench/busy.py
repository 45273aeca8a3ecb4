#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""busy.py - runs of small tensors on CPU cores that other processes use, too.

usage: busy.py [-n TURNS] [-r RANK] [-i SWEEPS] [-q] TOOLS[,TOOLS...] X.tsh...

Pins an endless process to each CPU, or with -q to none, and times `tstream cp` of each folder of
programs with one thread, with all and as the command chooses. Turns alternate. Prints medians in
milliseconds, and the default beside the better of one thread and all."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n")[2][7:])
    p.add_argument("-n", type=int, default=21)
    p.add_argument("-r", default="16")
    p.add_argument("-i", default="50")
    p.add_argument("-q", action="store_true")
    p.add_argument("tools")
    p.add_argument("tensor", nargs="+")
    a = p.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    ways = {"one": ["-t", "1"], "all": ["-t", str(len(cpus))], "default": []}
    spin = [sys.executable, "-c", "while True: pass"]
    busy = []
    for cpu in [] if a.q else cpus:
        busy.append(subprocess.Popen(spin))
        os.sched_setaffinity(busy[-1].pid, {cpu})
    print("%-24s %-20s %9s %9s %9s  %s" % ("tensor", "programs", *ways, "default/better"))
    try:
        with tempfile.TemporaryDirectory() as out:
            for x in a.tensor:
                ms = {(t, w): [] for t in a.tools.split(",") for w in ways}
                for _ in range(a.n):
                    for (tools, way), list_ in ms.items():
                        command = [tools + "/tstream", "cp", x, "-o", out + "/x.cp", "--force",
                                   "--cpu", "-r", a.r, "--iters", a.i, "--tol", "0"]
                        begin = time.perf_counter()
                        subprocess.run(command + ways[way], check=True, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
                        list_.append(1e3 * (time.perf_counter() - begin))
                for tools in a.tools.split(","):
                    m = [statistics.median(ms[tools, w]) for w in ways]
                    print("%-24s %-20s %9.1f %9.1f %9.1f  %.2f" %
                          (os.path.basename(x)[-24:], tools[-20:], *m, m[2] / min(m[:2])), flush=True)
    finally:
        for b in busy:
            b.kill()


main()
