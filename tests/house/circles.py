#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Circles among the objects of libraries: files that call each other, or through others themselves.

    tests/house/circles.py LIBRARY...

Calls through pointers are no edges: a table names its functions, and whoever calls through it does not name them.
Prints each circle on a line, and exits with 1 when there is one.
"""
import re
import subprocess
import sys


def edges(library):
    """Which objects of the library an object takes symbols from."""
    defined, wanted, member = {}, {}, None
    for line in subprocess.check_output(["nm", library], text=True).splitlines():
        name = re.fullmatch(r"(\S+\.o):", line)
        if name:
            member = name.group(1)
            wanted[member] = set()
        fields = line.split()
        if len(fields) == 3 and fields[1] in "TDBR":
            defined[fields[2]] = member
        elif len(fields) == 2 and fields[0] == "U":
            wanted[member].add(fields[1])
    return {m: {defined[s] for s in symbols if s in defined} - {m} for m, symbols in wanted.items()}


def reached(of, start):
    """All that is reached from start, in one step or more."""
    seen, todo = set(), [start]
    while todo:
        for other in of[todo.pop()] - seen:
            seen.add(other)
            todo.append(other)
    return seen


def circles(library):
    of = edges(library)
    reach = {m: reached(of, m) for m in of}
    return {tuple(sorted({m} | {o for o in reach[m] if m in reach[o]})) for m in of if m in reach[m]}


found = [circle for library in sys.argv[1:] for circle in sorted(circles(library))]
for circle in found:
    print("a circle of files:", " ".join(circle))
sys.exit(1 if found else 0)
