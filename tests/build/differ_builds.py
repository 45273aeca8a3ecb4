# SPDX-License-Identifier: BSD-3-Clause
"""Builds random tables in every way there is, and compares the cells with those that plain Python computes.

    differ_builds.py --programs DIR [--builder PROGRAM] [--large] [--seed N] [--seconds N] [--only N] [--keep DIR]

A case is a table of random columns: indices, numbers beyond 2^40, names, times, a value, a weight. It goes through one door: text of
nonzeros or a table as `tshard build` reads them, alone or as several processes of MPI, the builder of the library in C
(differ_door.c), or arrays and frames through the package tstream. Some tables have nothing in a column for longer than what a build
looks at; with --large one in 40 has more nonzeros and names than 32M hold. What `tshard export` then writes is compared with cells that are computed here, by pandas where it is there. A case is a
function of seed and number, so a failure names both, and --only runs it again.
"""

import argparse
import collections
import datetime
import gzip
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

try:
    import pandas
except ImportError:
    pandas = None
try:
    import pyarrow
except ImportError:
    pyarrow = None
try:
    import polars
except ImportError:
    polars = None

UTC = datetime.timezone.utc
BEGIN = datetime.datetime(1, 1, 1)
LEAST = {"float32": 2.0 ** -126, "float64": 2.0 ** -1022}  # normal numbers
EPSILON = {"float32": 2.0 ** -23, "float64": 2.0 ** -52}
WHOLE = {"float32": 2.0 ** 24, "float64": 2.0 ** 53}
WIDTHS = {"30min": 1800, "1h": 3600, "6h": 21600, "1d": 86400, "7d": 7 * 86400, "1w": 7 * 86400, "10d": 864000,
          "1mo": -1, "3mo": -3, "1y": -12}  # seconds, or months below 0
Row = collections.namedtuple("Row", "fields value weight")  # None: missing


class Wrong(Exception):
    """What a build made is not what it should be."""


# ---- a random table ----

class Mode:
    """A column of indices, names or times: the different fields that rows draw from."""

    def __init__(self, rng, number, kinds, base, returns):
        self.kind = rng.choice(kinds)
        self.name = rng.choice(["m%d", "mode %d", "M%d", "größe%d", "a,%d", 'say "%d"']) % number
        n = rng.choice([1, 2, 5, 30, 300])
        self.text = False
        if self.kind == "index":
            most = rng.choice([3, 200, 60000, 1 << 20])
            self.pool = [base + rng.randrange(most) for _ in range(n)]
        elif self.kind == "wide":  # whole numbers that are names, by their digits
            self.pool = [rng.randrange(1 << 41, 1 << 53) for _ in range(n)]  # which float64 holds
            self.pool = list({x - x % rng.choice([1, 1000, 1000000]) for x in self.pool})
            self.pool.sort()
            rng.shuffle(self.pool)
        elif self.kind == "name":
            self.text = rng.random() < 0.4
            self.pool = list({draw_name(rng, self.text, returns) for _ in range(n)})
            self.pool.sort()
            rng.shuffle(self.pool)
        else:
            self.draw_times(rng, n)
        self.skew = rng.choice([1, 1, 3])

    def draw_times(self, rng, n):
        self.width = rng.choice(sorted(WIDTHS))
        width = WIDTHS[self.width]
        units = ["iso", "iso", "s", "ms", "us", "ns"]
        if width < 0 or width % 86400 == 0:
            units += ["date", "year"]
        self.unit = rng.choice(units)
        first = datetime.datetime(rng.randrange(1971, 2090), rng.randrange(1, 13), rng.randrange(1, 29))
        span = rng.choice([1, 40, 2000]) * (width if width > 0 else 40 * 86400)
        self.pool = []
        for _ in range(n):
            t = min(first + datetime.timedelta(seconds=rng.randrange(span)), datetime.datetime(2099, 12, 31))
            if self.unit == "date" or rng.random() < 0.2:
                t = t.replace(hour=0, minute=0, second=0)
            if self.unit == "year":
                t = datetime.datetime(t.year, 1, 1)
            self.pool.append(t)

    def draw(self, rng):
        return self.pool[int(len(self.pool) * rng.random() ** self.skew)]


def draw_name(rng, text, returns):
    kind = rng.randrange(10)
    if text and kind < 3:
        return rng.choice(["7", "07", "7.0", "00501", "501", "1e3", "1000", "12345678901234567", "-5", "0"])
    if kind == 3:
        return rng.choice(["NA", "nan", "null", "-", "None", "\\N", "#1", "a#b", "=1", "'", "N/A", "true", "1 2", "0x1", "inf"])
    if kind == 4:
        return "x" * rng.choice([1, 15, 16, 17, 255, 256, 1000, 4095])
    if kind == 5:
        return rng.choice([" ", "\t", "  ", " a", "a ", " a ", "a b", "a  b", 'a"b', '"', '""', '"a"', "a,b", ",", "a;b", "a\tb", "\ta", "a'b", '",'])
    if kind == 6:
        return rng.choice(["é", "e\u0301", "Straße", "東京", "\u00a0a", "\u2028x", "\ufeffx", "🙂", "\x01b", "\x7f"] + (["a\r", "\ra", "a\rb"] if returns else []))
    return "n" + "".join(rng.choice("abcABC012_.-") for _ in range(rng.randrange(1, 9)))


def draw_value(rng, kind):
    x = rng.random()
    if x < 0.08:
        return 0.0
    if kind == "ones":
        return 1.0
    if kind == "whole":
        return float(rng.randrange(-9, 10))
    if kind == "counts":
        return float(rng.randrange(0, 2000))
    if kind == "large":
        return float(rng.randrange(1 << 40))
    if kind == "tiny":
        return rng.choice([1e-40, -3e-41, 1e-310, 1e-30, 2e-38, 1.0, 5e-324])
    if kind == "halves":
        return rng.randrange(-64, 65) / 64
    return rng.uniform(-1, 1) * 10 ** rng.randrange(-6, 7)


ARRAYS = ("coo", "batches", "c")  # doors that take indices alone
FILES = ("table", "mpi", "package")  # that take text
SAMPLE = 64 << 10  # bytes that decide what a column is


class Case:
    """A table, the options of its build and the door it goes through; all drawn from seed and number."""

    def __init__(self, seed, number, doors, large=False):
        self.rng = rng = random.Random("%d:%d" % (seed, number))
        self.door = rng.choice(doors)
        self.base = rng.choice([0, 1]) if self.door in ("list", "table", "package", "mpi") else 0
        alone = self.door == "list" or self.door in ARRAYS
        kinds = ["index"] if alone else ["index", "name", "name", "time"] + rng.choice([[], [], ["wide"]])
        order = rng.choice([2, 3, 3, 4, 5]) if alone else rng.choice([1, 2, 3, 3, 4]) + 1
        self.modes = [Mode(rng, m, kinds, self.base, self.door.startswith("frame")) 
                      for m in range(order)]
        self.value_kind = rng.choice(["ones", "whole", "counts", "large", "tiny", "halves", "real", "real"])
        self.has_value = alone or rng.random() < 0.9
        self.has_weight = rng.random() < 0.2
        self.dtype = "float32" if self.has_weight else rng.choice(["float32", "float64"])
        self.zeros = rng.choice(["drop", "drop", "keep"])
        self.duplicates = rng.choice(["sum"] * 5 + ["keep"] * 3 + ["error"])
        self.missing = rng.choice(["error", "skip"])
        self.names = rng.choice(["seen", "sorted"])
        self.transform = None
        if self.door in ("list", "table", "mpi") and rng.random() < 0.2:
            self.transform = rng.choice(["binary", "scale=3", "scale=-0.5", "log1p"])
            if self.transform == "log1p":
                self.value_kind = rng.choice(["ones", "counts"])
        self.memory = rng.choice(["32M", "32M", "64M", "1G"])
        self.threads = rng.choice([1, 2, 3, 7])
        self.shard = rng.choice([None, None, "64K"])
        n = rng.choice([1, 2, 7, 50, 400, 400, 3000] + ([40000] if rng.random() < 0.1 else []))
        share = rng.choice([0, 0, 0, 0.01, 0.3]) if n < 10000 else 0
        self.large = large and number % 40 == 7 and self.door != "package"
        if self.large:
            self.make_large()
            n, share = 300000, 0
        self.rows = [self.draw_row(share) for _ in range(n)]
        self.runs = 0  # sorted runs on disk, where a door says so
        self.late = None
        if self.door in FILES and self.missing == "skip" and not self.large and rng.random() < 0.04:
            self.begin_late()
        self.has_missing = any(self.lacks(r) for r in self.rows)

    def make_large(self):
        """More nonzeros, and more bytes of names, than 32M of memory hold."""
        rng, self.memory = self.rng, "32M"
        for mode in self.modes:
            mode.skew = 1
            if mode.kind == "index":
                mode.pool = [self.base + rng.randrange(1 << 24) for _ in range(200000)]
            elif mode.kind == "name":
                mode.pool = ["n%d" % i + "x" * rng.randrange(20, 60) for i in range(150000)]
                rng.shuffle(mode.pool)

    def begin_late(self):
        """One column has nothing in the first rows, for longer than a build looks at to know what it is."""
        self.late = self.rng.randrange(len(self.modes))
        shortest = 2 * len(self.modes)
        for _ in range(SAMPLE // shortest + 1000):
            row = self.draw_row(0)
            row.fields[self.late] = None
            self.rows.insert(0, row)

    def draw_row(self, share):
        rng = self.rng

        def some(x):
            return None if share and rng.random() < share / 3 else x
        return Row([some(m.draw(rng)) for m in self.modes],
                   some(draw_value(rng, self.value_kind)) if self.has_value else 1.0,
                   some(rng.choice([0.0, 1.0, 2.0, 3.0, 0.5, rng.uniform(0, 10)])) if self.has_weight else 1.0)

    @staticmethod
    def lacks(row):
        return row.value is None or row.weight is None or None in row.fields

    def __str__(self):
        kinds = "+".join(m.kind + ("/" + m.width + "/" + m.unit if m.kind == "time" else "") for m in self.modes)
        return "%s, %d rows of %s, values %s as %s, weights %s, zeros %s, duplicates %s, missing %s, names %s, transform %s, " \
            "memory %s, threads %d" % (self.door, len(self.rows), kinds, self.value_kind if self.has_value else "none", self.dtype,
                                       self.has_weight, self.zeros, self.duplicates, self.missing, self.names, self.transform,
                                       self.memory, self.threads)


# ---- the cells that a table has ----

def keep(x, dtype):
    """A value as a tensor keeps it."""
    with np.errstate(over="ignore", under="ignore"):
        x = float(np.float32(x)) if dtype == "float32" else float(x)
    return 0.0 if abs(x) < LEAST[dtype] else x


def bin_label(t, width):
    """The start of the bin that a time is in."""
    w = WIDTHS[width]
    if w < 0:
        month = ((t.year - 1) * 12 + t.month - 1) // -w * -w
        return "%04d" % (month // 12 + 1) if w % 12 == 0 else "%04d-%02d" % (month // 12 + 1, month % 12 + 1)
    seconds = int((t - BEGIN).total_seconds()) // w * w
    start = BEGIN + datetime.timedelta(seconds=seconds)
    return start.strftime("%Y-%m-%d" if w % 86400 == 0 else "%Y-%m-%dT%H:%M")


def label(mode, field):
    """A field as it is exported: bytes."""
    if mode.kind in ("index", "wide"):
        return b"%d" % field
    if mode.kind == "time":
        return bin_label(field, mode.width).encode()
    return field.encode()


def sums(keys, values, weights):
    """For each different key: how many there are, the sum of values and of their sizes, of weights and products, and whether all
    values are whole."""
    if pandas is not None:
        number = {}
        frame = pandas.DataFrame({"key": [number.setdefault(k, len(number)) for k in keys], "v": values, "w": weights})
        frame["a"], frame["p"] = frame.v.abs(), frame.v * frame.w
        frame["whole"] = (frame.v == np.floor(frame.v)).astype(int)
        each = frame.groupby("key", sort=True).agg(n=("v", "size"), v=("v", "sum"), a=("a", "sum"), w=("w", "sum"), p=("p", "sum"),
                                                   whole=("whole", "min"))
        return dict(zip(number, each.itertuples(index=False, name=None)))
    rows = collections.defaultdict(list)
    for k, v, w in zip(keys, values, weights):
        rows[k].append((v, w))
    return {k: (len(r), math.fsum(v for v, _ in r), math.fsum(abs(v) for v, _ in r), math.fsum(w for _, w in r),
                math.fsum(v * w for v, w in r), all(v == math.floor(v) for v, _ in r)) for k, r in rows.items()}


def transformed(x, how):
    if how == "log1p":
        return math.log1p(x)
    if how == "binary":
        return float(x != 0)
    return x * float(how[6:]) if how else x


class Expected:
    """What a case must give: cells, each a list of (value, tolerance, weight), or a reason why it is refused."""

    def __init__(self, case):
        self.refused = None
        self.cells = {}
        rows = case.rows
        if any(m.kind in ("index", "wide") and all(r.fields[i] is None for r in rows) for i, m in enumerate(case.modes)):
            self.refused = "maybe"  # nothing says that it is a column of numbers, so NA may be a name
            return
        if case.has_missing:
            if case.missing == "error":
                self.refused = "missing"
                return
            rows = [r for r in rows if not case.lacks(r)]
        self.used = rows
        if case.dtype == "float32" and any(abs(r.value) > 3.4e38 for r in rows):
            self.refused = "range"
            return
        listed = [(tuple(label(m, x) for m, x in zip(case.modes, r.fields)), keep(r.value, case.dtype), float(np.float32(r.weight)))
                  for r in rows]
        if case.zeros == "drop":  # before nonzeros at one place are added up
            listed = [x for x in listed if x[1] != 0]
        if not listed:
            self.refused = "empty"
            return
        eps = EPSILON[case.dtype]
        if case.duplicates == "keep":
            for key, v, w in listed:
                self.put(case, key, transformed(v, case.transform), 1, abs(v), w, v == math.floor(v) and abs(v) <= WHOLE[case.dtype])
        else:
            keys, values, weights = zip(*listed)
            for key, (n, v, a, w, p, whole) in sums(keys, values, weights).items():
                if n > 1 and case.duplicates == "error":
                    self.refused = "duplicates"
                    return
                exact = whole and a <= WHOLE[case.dtype] and not (case.has_weight and n > 1)
                if case.has_weight and n > 1:
                    v = p / w if w > 0 else v / n
                self.put(case, key, transformed(v, case.transform), n, a, w, exact)
        if not any(required for cell in self.cells.values() for _, _, _, required in cell):
            self.refused = "empty" if not self.cells else "maybe"

    def put(self, case, key, x, n, size, weight, exact):
        scale = abs(float(case.transform[6:])) if case.transform and case.transform.startswith("scale") else 1
        slack = 0 if exact and case.transform in (None, "binary", "scale=3") and abs(x) <= WHOLE[case.dtype] else \
            (n + 1) * EPSILON[case.dtype] * max(abs(x), size * scale) + LEAST[case.dtype]
        if case.transform == "binary":
            slack = 0
        kept = keep(x, case.dtype)
        if kept == 0 and slack == 0 and case.zeros == "drop":
            return
        # a sum that may be rounded to 0 may be left out as zeros are
        required = case.zeros == "keep" or abs(x) > slack
        self.cells.setdefault(key, []).append((kept, slack, weight, required))


def compare(expected, got, weighted):
    """Raises Wrong at the first cell that differs."""
    for key in got:
        if key not in expected:
            raise Wrong("cell %r = %r should not be there" % (key, got[key]))
    for key, cell in expected.items():
        have = sorted(got.get(key, []))
        if not have and not any(required for _, _, _, required in cell):
            continue
        # values that rounding may make 0 may be missing, also one by one where duplicates are kept
        for x in sorted((x for x in cell if not x[3]), key=lambda x: abs(x[0]))[:max(0, len(cell) - len(have))]:
            cell = list(cell)
            cell.remove(x)
        if len(have) != len(cell):
            raise Wrong("cell %r has %d nonzeros %r, and should have %d: %r" % (key, len(have), have[:5], len(cell), cell[:5]))
        for (v, slack, w, _), (gv, gw) in zip(sorted(cell, key=lambda x: (x[0], x[2])), have):
            if not abs(v - gv) <= slack:
                raise Wrong("cell %r is %r, and should be %r within %g" % (key, gv, v, slack))
            if weighted and not abs(w - gw) <= (len(cell) + 40) * 2.0 ** -24 * max(w, gw):
                raise Wrong("cell %r has weight %r, and should have %r" % (key, gw, w))


# ---- text of a table ----

MISSING = ["NaN", "NA", "nan", "N/A", "null", "None", "NaT", "missing", "\\N", "NULL"]


def spell_whole(rng, n, plain):
    if plain or rng.random() < 0.8:
        return str(n)
    if n >= 1000 and n % 1000 == 0 and rng.random() < 0.5:
        return "%de3" % (n // 1000)
    return rng.choice(["%d.0", "%03d", "%de0", "%d.", "+%d", "%d.00"]) % n


def spell_value(rng, x):
    if x == math.floor(x) and abs(x) < 1e15:
        return rng.choice(["%d", "%d", "%d.0", "%de0", "%d."]) % x
    return rng.choice([repr(x), repr(x), "%.17e" % x])


def spell_time(rng, mode, t):
    seconds = round((t - datetime.datetime(1970, 1, 1)).total_seconds())
    if mode.unit == "iso":
        if (t.hour, t.minute, t.second) == (0, 0, 0) and rng.random() < 0.7:
            return t.strftime("%Y-%m-%d")
        kind = rng.randrange(4)
        if kind == 0:
            hours = rng.randrange(-11, 12)
            return (t + datetime.timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S") + "%+03d:%02d" % (hours, 0)
        return t.strftime("%Y-%m-%dT%H:%M:%S") + ("Z" if kind == 1 else ".250" if kind == 2 else "")
    if mode.unit == "date":
        return t.strftime("%Y%m%d")
    if mode.unit == "year":
        return str(t.year)
    return str(seconds * {"s": 1, "ms": 10 ** 3, "us": 10 ** 6, "ns": 10 ** 9}[mode.unit])


def quoted(rng, text, sep, always=False):
    """A field of a table; names that a separator or blanks would cut stand in quotes."""
    must = always or text == "" and sep == " " or text != text.strip(" \t") or sep in text or text[:1] in ('"', "#", "\ufeff") or \
        sep == " " and any(c in text for c in " \t#")
    return '"' + text.replace('"', '""') + '"' if must or rng.random() < 0.1 else text


class Text:
    """Files of a table, and the options that say what they are."""

    def __init__(self, case, folder, list_form):
        self.case, self.folder, self.list_form = case, folder, list_form
        rng = self.rng = case.rng
        self.options = []
        self.sep = " " if list_form else rng.choice([",", ",", "\t", ";", " "])
        self.header = not list_form and rng.random() < 0.6
        self.crlf = rng.random() < 0.3
        order = len(case.modes)
        self.columns = list(range(order)) + (["value"] if case.has_value else []) + (["weight"] if case.has_weight else [])
        self.extra = 0
        if not list_form:
            if rng.random() < 0.4:
                self.extra = rng.randrange(1, 3)
                self.columns += ["extra%d" % i for i in range(self.extra)]
            if rng.random() < 0.5:
                rng.shuffle(self.columns)
        self.plain = rng.random() < 0.5
        self.packed = rng.random() < 0.25
        self.say_columns()

    def title(self, column):
        return self.case.modes[column].name if isinstance(column, int) else {"value": "rating", "weight": "w"}.get(column, column)

    def say_columns(self):
        case, rng = self.case, self.rng
        by_number = not self.header or rng.random() < 0.5 or any("," in m.name for m in case.modes)
        if self.list_form:
            if case.has_weight:
                self.options += ["--weights", str(len(case.modes) + 2)]
            self.called = [str(m + 1) for m in range(len(case.modes))]
            return
        at = {c: str(i + 1) for i, c in enumerate(self.columns)}
        modes = range(len(case.modes))
        if by_number:
            self.options += ["--columns", ",".join(at[m] for m in modes)]
        else:
            self.options += [rng.choice(["--modes", "--columns"]), ",".join(case.modes[m].name for m in modes)]
        self.options += ["--value", (at["value"] if by_number else "rating") if case.has_value else "none"]
        if case.has_weight:
            self.options += ["--weights", at["weight"] if by_number else "w"]
        self.called = [str(m + 1) for m in modes] if by_number else [m.name for m in case.modes]
        for m in modes:
            mode = case.modes[m]
            if mode.kind == "name" and mode.text or mode.kind == "name" and self.looks_like_numbers(m):
                self.options += ["--text", self.called[m]]
            if mode.kind == "time":
                self.options += ["--bin", "%s=%s" % (self.called[m], mode.width)]
                if mode.unit != "iso" or rng.random() < 0.3:
                    self.options += ["--time-unit", "%s=%s" % (self.called[m], mode.unit)]
        texts = [self.options[i + 1] for i, x in enumerate(self.options) if x == "--text"]
        if texts:  # one list of all
            self.options = [x for i, x in enumerate(self.options) if x != "--text" and (i == 0 or self.options[i - 1] != "--text")]
            self.options += ["--text", ",".join(texts)]

    def looks_like_numbers(self, m):
        first = [r.fields[m] for r in self.case.rows[:3] if r.fields[m] is not None]
        return not first or any(x.strip().replace(".", "").isdigit() for x in first) or first[0] in MISSING or first[0] == "-"

    def field(self, row, column):
        case, rng = self.case, self.rng
        if column == "value" or column == "weight":
            x = row.value if column == "value" else row.weight
            text = self.gone() if x is None else spell_value(rng, x)
        elif isinstance(column, int):
            mode, x = case.modes[column], row.fields[column]
            if x is None:
                text = self.gone() if mode.kind != "name" else ""
            elif mode.kind in ("index", "wide"):
                text = spell_whole(rng, x, self.plain)
            elif mode.kind == "time":
                text = spell_time(rng, mode, x)
            else:
                text = x
        else:
            text = rng.choice(["", "x", "1", "a b", 'q"', "NA"])
        if self.list_form:
            return text
        text = quoted(rng, text, self.sep)
        return rng.choice(["", "", "", " "]) + text + rng.choice(["", "", "", " "]) if self.sep in ",;" and not self.plain else text

    def gone(self):
        return self.rng.choice(MISSING + ([] if self.sep == " " or self.list_form else [""] * 5))

    def write(self):
        """The paths, and what standard input is to be (or None)."""
        case, rng = self.case, self.rng
        n_files = rng.choice([1, 1, 1, 2, 3]) if len(case.rows) > 3 else 1
        cuts = sorted(rng.sample(range(1, len(case.rows)), n_files - 1)) if n_files > 1 else []
        end = "\r\n" if self.crlf else "\n"
        kind = {",": "csv", "\t": "tsv", " ": "table", ";": "csv"}[self.sep]
        suffix = ".tns" if self.list_form else rng.choice([".%s" % kind if kind != "table" else ".dat", ".dat"])
        if self.list_form:
            self.options += ["--base", str(case.base)]
            if case.has_weight:
                self.options += ["--format", "table", "--columns", ",".join(self.called), "--value", str(len(case.modes) + 1)]
        else:
            self.options += ["--base", str(case.base)]
            if suffix == ".dat":
                self.options += ["--format", kind]
            if self.sep == ";":
                self.options += ["--separator", ";"]
            if not self.header or rng.random() < 0.5 or case.has_missing or "--columns" in self.options:
                self.options += ["--header", "yes" if self.header else "no"]
        paths = []
        for i, (a, b) in enumerate(zip([0] + cuts, cuts + [len(case.rows)])):
            lines = []
            if self.header:
                lines.append(self.sep.join(quoted(rng, self.title(c), self.sep) for c in self.columns))
            for row in case.rows[a:b]:
                lines.append(self.sep.join(self.field(row, c) for c in self.columns))
                if self.list_form and rng.random() < 0.01:
                    lines.append("# a comment")
            data = (end.join(lines) + (end if rng.random() < 0.9 else "")).encode()
            path = os.path.join(self.folder, "part%d%s%s" % (i, suffix, ".gz" if self.packed else ""))
            with open(path, "wb") as f:
                f.write(gzip.compress(data, 1) if self.packed else data)
            paths.append(path)
        return paths


# ---- doors ----

def run(command, stdin=None, **options):
    with open(stdin or os.devnull, "rb") as f:
        return subprocess.run(command, stdin=f, capture_output=True, timeout=300, **options)


class Doors:
    """The ways into a tensor. Each returns None, or why the build was refused."""

    def __init__(self, args):
        self.tshard = os.path.join(args.programs, "tshard")
        self.mpirun = args.mpirun
        self.large = args.large
        self.builder = args.builder
        self.all = ["list", "table", "table", "table"] + (["c"] if args.builder else [])
        if args.mpirun:
            self.all += ["mpi"]
        try:
            import tstream
            self.ts = tstream
            self.all += ["coo", "batches", "package", "frame-dict"]
            if pandas is not None:
                self.all += ["frame-pandas"] * 2
            if pyarrow is not None:
                self.all += ["frame-pyarrow"] * 2
            if polars is not None:
                self.all += ["frame-polars"]
        except ImportError as e:
            print("without the package tstream: %s" % e)

    def common(self, case):
        options = ["-q", "--memory", case.memory, "--threads", str(case.threads), "--values", case.dtype, "--zeros", case.zeros,
                   "--duplicates", case.duplicates, "--missing", case.missing]
        if case.transform:
            options += ["--transform", case.transform]
        if case.shard:
            options += ["--shard", case.shard]
        return options

    def program(self, case, folder, out, list_form=False, ranks=0):
        text = Text(case, folder, list_form)
        paths = text.write()
        options = self.common(case) + text.options
        if not list_form:
            options += ["--names", case.names]
        command, stdin = [self.tshard, "build"], None
        if ranks:
            command = [self.mpirun, "--oversubscribe", "-n", str(ranks)] + command
        elif len(paths) == 1 and case.late is None and case.rng.random() < 0.3:
            stdin = paths[0]
            end = paths[0][:-3] if text.packed else paths[0]
            paths = ["-"]
            if end.endswith((".csv", ".tsv")):
                options += ["--format", end[-3:]]
        command += options + ["-o", out] + paths
        case.said = " ".join(command)
        p = run(command, stdin)
        if p.returncode == 0:
            return None
        if p.returncode != 1 and not ranks:
            raise Wrong("exit %d: %s" % (p.returncode, p.stderr.decode(errors="replace")))
        return p.stderr.decode(errors="replace").strip() or "exit %d" % p.returncode

    def library(self, case, build):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                build()
        except self.ts.Error as e:
            return str(e)
        return None

    def options(self, case):
        return dict(memory=case.memory, threads=case.threads, dtype=case.dtype, zeros=case.zeros,
                    duplicates=case.duplicates, shard=case.shard)

    def package(self, case, folder, out):
        """Tables in files through the package."""
        text = Text(case, folder, False)
        paths = text.write()
        said = dict(zip(text.options[::2], text.options[1::2]))
        bins = [x for i, x in enumerate(text.options[1:]) if text.options[i] == "--bin"]
        units = [x for i, x in enumerate(text.options[1:]) if text.options[i] == "--time-unit"]

        def ref(x):
            return int(x) - 1 if x.isdigit() else x
        columns = [ref(x) for x in (said.get("--columns") or said.get("--modes")).split(",")]
        value = said["--value"]
        options = self.options(case)
        options["missing"] = case.missing
        return self.library(case, lambda: self.ts.build(
            paths, out, columns=columns, value=value if value == "none" else ref(value),
            weights=ref(said["--weights"]) if "--weights" in said else None,
            text=[ref(x) for x in said["--text"].split(",")] if "--text" in said else (),
            bin={ref(k): v for k, v in (x.rsplit("=", 1) for x in bins)} or None,
            time_unit={ref(k): v for k, v in (x.rsplit("=", 1) for x in units)} or None,
            separator=text.sep, header=text.header, base=case.base, sorted_names=case.names == "sorted", **options))

    def c(self, case, folder, out):
        """The builder of the library, by a program in C, which knows nothing of missing fields."""
        rng = case.rng
        rows = case.rows if case.missing == "error" else [r for r in case.rows if not case.lacks(r)]
        memory = {"32M": 32 << 20, "64M": 64 << 20, "1G": 1 << 30}[case.memory]
        given = np.array([len(case.modes), len(rows), case.has_weight, case.dtype == "float64", case.zeros == "keep",
                          ["sum", "keep", "error"].index(case.duplicates), memory, case.threads, 65536 if case.shard else 0,
                          rng.choice([1, 7, 1000, 100000]) if len(rows) < 5000 else 20000, rng.randrange(1, 4)], dtype="u8")
        nan = float("nan")
        path = os.path.join(folder, "case")
        with open(path, "wb") as f:
            given.tofile(f)
            np.array([2 ** 64 - 1 if x is None else x for r in rows for x in r.fields], dtype="u8").tofile(f)
            np.array([nan if r.value is None else r.value for r in rows], dtype="f8").tofile(f)
            if case.has_weight:
                np.array([nan if r.weight is None else r.weight for r in rows], dtype="f8").tofile(f)
        case.said = "%s %s < %s" % (self.builder, out, path)
        p = run([self.builder, out], path)
        if p.returncode not in (0, 1):
            raise Wrong("exit %d: %s" % (p.returncode, p.stderr.decode(errors="replace")))
        case.runs = int(p.stdout.split()[0]) if p.returncode == 0 else 0
        return None if p.returncode == 0 else p.stderr.decode(errors="replace").strip()

    def arrays(self, case, rows):
        """Coordinates, values and weights; masked where they are missing."""
        rng = case.rng
        columns = []
        for m in range(len(case.modes)):
            fields = [r.fields[m] for r in rows]
            most = max([x for x in fields if x is not None], default=0)
            types = [t for t in ("u1", "i2", "i4", "u4", "i8", "u8", "f8") if t == "f8" or most <= np.iinfo(t).max]
            dtype = rng.choice(types)
            column = np.array([0 if x is None else x for x in fields], dtype=dtype)
            gone = [x is None for x in fields]
            if dtype == "f8" or any(gone):
                column = column.astype("i8")
            columns.append(np.ma.array(column, mask=gone) if any(gone) else column)
        numbers = [np.array([np.nan if x is None else x for x in xs])
                   for xs in ([r.value for r in rows], [r.weight for r in rows])]
        if case.value_kind in ("whole", "ones", "counts") and not np.isnan(numbers[0]).any() and rng.random() < 0.5:
            numbers[0] = numbers[0].astype(rng.choice(["i4", "i8", "f4"]))
        masked = any(np.ma.is_masked(x) for x in columns)
        coords = tuple(columns) if masked or rng.random() < 0.5 else np.stack([x.astype("i8") for x in columns], axis=1)
        return coords, numbers[0], numbers[1] if case.has_weight else None

    def coo(self, case, folder, out):
        coords, values, weights = self.arrays(case, case.rows)
        return self.library(case, lambda: self.ts.from_coo(coords, values, out=out, weights=weights, missing=case.missing,
                                                           **self.options(case)))

    def batches(self, case, folder, out):
        rows, parts = case.rows, []
        while rows:
            n = case.rng.randrange(1, len(rows) + 1)
            parts.append(self.arrays(case, rows[:n]))
            rows = rows[n:]
            if len(parts) == 20:
                if rows:
                    parts.append(self.arrays(case, rows))
                break
        given = (p if case.has_weight else p[:2] for p in parts)
        return self.library(case, lambda: self.ts.from_batches(given, out, missing=case.missing, **self.options(case)))

    def frame(self, case, folder, out, home):
        rng = case.rng
        chunked = rng.random() < 0.4
        titles = [m.name for m in case.modes] + ["rating", "w"]
        makers = [getattr(self, "%s_%s" % (home, "index" if m.kind == "wide" else m.kind))(case, m) for m in case.modes] + \
            [self.numbers(case, home), self.numbers(case, home)]
        order = list(range(len(titles)))
        rng.shuffle(order)
        table = {"dict": dict, "pandas": lambda x: pandas.DataFrame(x), "polars": lambda x: polars.DataFrame(x),
                 "pyarrow": lambda x: pyarrow.table(x)}[home]

        def of(rows):
            columns = [makers[m]([r.fields[m] for r in rows]) for m in range(len(case.modes))]
            columns += [makers[-2]([r.value for r in rows]), makers[-1]([r.weight for r in rows])]
            return table({titles[i]: columns[i] for i in order})
        if chunked:
            cuts = sorted(rng.sample(range(len(case.rows) + 1), min(3, len(case.rows))))
            frame = (of(case.rows[a:b]) for a, b in zip([0] + cuts, cuts + [len(case.rows)]))
        else:
            frame = of(case.rows)
        case.said = "from_frame, %s%s" % (home, ", chunked" if chunked else "")
        bins = {m.name: m.width for m in case.modes if m.kind == "time"}
        units = {m.name: m.unit for m in case.modes if m.kind == "time" and (m.unit != "iso" or rng.random() < 0.3)}
        texts = [m.name for m in case.modes if m.kind == "wide" or m.kind == "name" and (m.text or chunked)]
        return self.library(case, lambda: self.ts.from_frame(
            frame, titles[:-2], "rating" if case.has_value else None, out, weights="w" if case.has_weight else None,
            text=texts, bin=bins, time_unit=units or None, missing=case.missing, **self.options(case)))

    # A maker takes the fields of some rows (None: missing) and makes a column of them.

    def numbers(self, case, home):
        nan = [np.nan, None][case.rng.randrange(2)] if home != "dict" else np.nan
        if home == "pyarrow":
            return lambda xs: pyarrow.array(xs, pyarrow.float64())
        if home == "polars":
            return lambda xs: polars.Series(xs, dtype=polars.Float64)
        if home == "pandas":
            kind = case.rng.choice(["float64", "Float64", "object"])
            return lambda xs: pandas.Series([nan if x is None else x for x in xs], dtype=kind)
        return lambda xs: np.array([nan if x is None else x for x in xs], dtype="f8")

    def dict_index(self, case, mode):
        return lambda xs: (np.ma.array([x or 0 for x in xs], mask=[x is None for x in xs], dtype="i8") if None in xs else
                           np.array(xs, dtype="i8"))

    def dict_name(self, case, mode):
        kind = case.rng.randrange(3)
        return lambda xs: (list(xs) if kind == 0 else np.array(xs, dtype=object) if kind == 1 or None in xs else np.array(xs))

    def times(self, case, mode, make):
        """Numbers and texts as they are spelled; dates as the library of the column has them, or as texts."""
        rng = case.rng
        texts = mode.unit == "iso" and rng.random() < 0.4

        def maker(xs):
            if texts:
                return make([None if x is None else spell_time(rng, mode, x) for x in xs], "text")
            if mode.unit == "iso":
                return make(xs, "time")
            return make([None if x is None else int(spell_time(rng, mode, x)) for x in xs], "number")
        return maker

    def dict_time(self, case, mode):
        unit = case.rng.choice(["s", "ms", "us", "ns"])

        def make(xs, kind):
            if kind == "time":
                return np.array([np.datetime64("NaT") if x is None else np.datetime64(x) for x in xs], dtype="datetime64[%s]" % unit)
            if kind == "number" and None in xs:
                return np.ma.array([x or 0 for x in xs], mask=[x is None for x in xs], dtype="i8")
            return list(xs)
        return self.times(case, mode, make)

    def pandas_index(self, case, mode):
        kind = case.rng.choice(["int64", "float64", "Int64", "object", "category", "UInt64"])

        def make(xs):
            here = kind if not (kind == "int64" and None in xs) else "float64"
            return pandas.Series(xs, dtype=here)
        return make

    def pandas_name(self, case, mode):
        rng = case.rng
        kinds = ["object", "string", "category", "ordered"] + (["string[pyarrow]", "arrow"] if pyarrow is not None else [])
        kind = rng.choice(kinds)
        categories = list(mode.pool)
        rng.shuffle(categories)

        def make(xs):
            if kind == "ordered":
                return pandas.Series(pandas.Categorical(xs, categories=categories, ordered=True))
            if kind == "arrow":
                return pandas.Series(xs, dtype=pandas.ArrowDtype(pyarrow.string()))
            return pandas.Series(xs, dtype=kind)
        return make

    def pandas_time(self, case, mode):
        zone = case.rng.choice([None, "UTC", "Europe/Berlin", "Asia/Kolkata"])
        unit = case.rng.choice(["s", "ms", "us", "ns"])

        def make(xs, kind):
            if kind == "time":
                s = pandas.Series(pandas.to_datetime(pandas.Series(xs, dtype="datetime64[us]"))).astype("datetime64[%s]" % unit)
                return s if zone is None else s.dt.tz_localize("UTC").dt.tz_convert(zone)
            return pandas.Series(xs, dtype="object" if kind == "text" else "Int64")
        return self.times(case, mode, make)

    def arrow_chunks(self, rng, make):
        """An array, or one of several chunks."""
        pieces = rng.randrange(1, 4)

        def maker(xs):
            if pieces == 1 or len(xs) < 3:
                return make(xs)
            cuts = sorted(rng.sample(range(len(xs) + 1), pieces - 1))
            return pyarrow.chunked_array([make(xs[a:b]) for a, b in zip([0] + cuts, cuts + [len(xs)])])
        return maker

    def pyarrow_index(self, case, mode):
        most = max(mode.pool)
        kind = case.rng.choice([t for t in ("int8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
                                if most <= np.iinfo(t).max] + ["float64"])
        if case.rng.random() < 0.2:
            return self.arrow_chunks(case.rng, lambda xs: pyarrow.array(xs, pyarrow.int64()).dictionary_encode())
        return self.arrow_chunks(case.rng, lambda xs: pyarrow.array(
            xs if kind != "float64" else [None if x is None else float(x) for x in xs], kind))

    def pyarrow_name(self, case, mode):
        kind = case.rng.choice(["string", "large_string", "dictionary", "binary", "string_view"])

        def make(xs):
            if kind == "dictionary":
                return pyarrow.array(xs, "string").dictionary_encode()
            if kind == "binary":
                return pyarrow.array([None if x is None else x.encode() for x in xs], "binary")
            return pyarrow.array(xs, pyarrow.string_view() if kind == "string_view" else kind)
        chunked = self.arrow_chunks(case.rng, make)

        def unified(xs):  # a table of chunks needs one dictionary for each, which may differ
            return chunked(xs)
        return unified

    def pyarrow_time(self, case, mode):
        unit = case.rng.choice(["s", "ms", "us", "ns"])
        zone = case.rng.choice([None, "UTC"])
        kinds = {"time": pyarrow.timestamp(unit, zone), "text": pyarrow.string(), "number": pyarrow.int64()}

        def make(xs, kind):
            if kind == "time" and zone is not None:
                xs = [None if x is None else x.replace(tzinfo=UTC) for x in xs]
            return pyarrow.array(xs, kinds[kind])
        return self.times(case, mode, make)

    def polars_index(self, case, mode):
        most = max(mode.pool)
        kind = case.rng.choice([t for t in ("Int8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64")
                                if most <= np.iinfo(t.lower()).max] + ["Float64"])
        return lambda xs: polars.Series(xs, dtype=getattr(polars, kind), strict=False)

    def polars_name(self, case, mode):
        kind = case.rng.choice(["String", "String", "Categorical", "Enum"])
        categories = list(mode.pool)
        case.rng.shuffle(categories)

        def make(xs):
            s = polars.Series(xs, dtype=polars.String)
            return s if kind == "String" else s.cast(polars.Categorical if kind == "Categorical" else polars.Enum(categories))
        return make

    def polars_time(self, case, mode):
        unit = case.rng.choice(["ms", "us", "ns"])
        kinds = {"time": polars.Datetime(unit), "text": polars.String, "number": polars.Int64}
        return self.times(case, mode, lambda xs, kind: polars.Series(xs, dtype=kinds[kind]))

    def build(self, case, folder, out):
        case.said = case.door
        if case.door == "list":
            return self.program(case, folder, out, list_form=True)
        if case.door == "mpi":
            return self.program(case, folder, out, ranks=case.rng.randrange(1, 4))
        if case.door == "table":
            return self.program(case, folder, out)
        if case.door.startswith("frame-"):
            return self.frame(case, folder, out, case.door[6:])
        return getattr(self, case.door)(case, folder, out)

    # ---- what was built ----

    def lines(self, command):
        p = run(command)
        if p.returncode != 0:
            raise Wrong("%s: exit %d: %s" % (" ".join(command), p.returncode, p.stderr.decode(errors="replace")))
        return p.stdout.split(b"\n")[:-1]

    def cells(self, case, out, numbers=False):
        order = len(case.modes)
        cells = {}
        for line in self.lines([self.tshard, "export", "-q", "--format", "csv", "--header", "no", "--memory", "32M", out] +
                               (["--numbers"] if numbers else [])):
            fields = csv_fields(line)
            if len(fields) != order + 1 + case.has_weight:
                raise Wrong("a line of the export has %d fields: %r" % (len(fields), line))
            cells.setdefault(tuple(fields[:order]), []).append(
                (float(fields[order]), float(fields[order + 1]) if case.has_weight else 1.0))
        return cells

    def verify(self, out):
        self.lines([self.tshard, "verify", "-q", out])


def csv_fields(line):
    """The fields of a line of CSV; a quoted one may have separators in it."""
    fields, at = [], 0
    while True:
        if line[at:at + 1] == b'"':
            text = b""
            while True:
                end = line.index(b'"', at + 1)
                text += line[at + 1:end]
                at = end + 1
                if line[at:at + 1] != b'"':
                    break
                text += b'"'
            fields.append(text)
        else:
            end = line.find(b",", at)
            end = len(line) if end < 0 else end
            fields.append(line[at:end])
            at = end
        if at == len(line):
            return fields
        if line[at:at + 1] != b",":
            raise Wrong("%r is no line of CSV" % line)
        at += 1


def bin_number(t, width):
    """The number of the bin that a time is in, from the year 1."""
    w = WIDTHS[width]
    return ((t.year - 1) * 12 + t.month - 1) // -w if w < 0 else int((t - BEGIN).total_seconds()) // w


def check_indices(doors, case, expected, out):
    """Names of files got indices in the order in which they were seen, or sorted; bins count from the first one; the size of a mode is
    what its rows have, also those of value 0."""
    rows = expected.used
    place = [None] * len(case.modes)
    size = [None] * len(case.modes)
    for m, mode in enumerate(case.modes):
        fields = [r.fields[m] for r in rows]
        if mode.kind == "time":
            first = min(bin_number(t, mode.width) for t in fields)
            place[m] = {label(mode, t): case.base + bin_number(t, mode.width) - first for t in fields}
            size[m] = max(bin_number(t, mode.width) for t in fields) - first + 1
        elif mode.kind == "index":
            place[m] = {label(mode, x): x for x in fields}
            size[m] = max(fields) + 1 - case.base
        elif case.door in FILES:
            names = list(dict.fromkeys(label(mode, r.fields[m]) for r in rows
                                       if case.zeros == "keep" or keep(r.value, case.dtype) != 0))
            names = sorted(names) if case.names == "sorted" else names
            place[m] = {name: case.base + i for i, name in enumerate(names)}
            size[m] = len(names)
    shape = json.loads(b"\n".join(doors.lines([doors.tshard, "info", "--json", out])))["shape"]
    for m, (has, wants) in enumerate(zip(shape, size)):
        if wants is not None and has != wants:
            raise Wrong("mode %d has %d indices, and should have %d" % (m + 1, has, wants))
    by_name, by_number = doors.cells(case, out), doors.cells(case, out, numbers=True)
    if len(by_name) != len(by_number):
        raise Wrong("%d cells by name and %d by number" % (len(by_name), len(by_number)))
    for a, b in zip(by_name, by_number):
        for m in range(len(case.modes)):
            if place[m] is not None and int(b[m]) != place[m][a[m]]:
                raise Wrong("%r of mode %d has index %s, and should have %d" % (a[m], m + 1, b[m].decode(), place[m][a[m]]))


def check_case(doors, seed, number, folder, count):
    case = Case(seed, number, doors.all, doors.large)
    count[case.door] += 1
    expected = Expected(case)
    out = os.path.join(folder, "x.tsh")
    try:
        refused = doors.build(case, folder, out)
        count["spilled"] += case.runs > 0
        if expected.refused == "maybe":
            return case
        if refused is not None:
            if expected.refused is None:
                raise Wrong("refused: " + refused)
            if os.path.exists(out):
                raise Wrong("refused, but %s is there" % out)
            count["refused"] += 1
            return case
        if expected.refused is not None:
            raise Wrong("built, and should be refused (%s)" % expected.refused)
        compare(expected.cells, doors.cells(case, out), case.has_weight)
        check_indices(doors, case, expected, out)
        doors.verify(out)
    except Wrong as e:
        raise Wrong("%s\n    case: %s\n    %s" % (e, case, case.said)) from None
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", required=True, help="the directory of tshard")
    parser.add_argument("--builder", default=None, help="the program of differ_door.c")
    parser.add_argument("--large", action="store_true", help="some tables do not fit their memory")
    parser.add_argument("--mpirun", default=None, help="mpirun of Open MPI, for builds by several processes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", type=int, default=None, help="the number of the one case to run")
    parser.add_argument("--most", type=int, default=1, help="end after so many failures")
    parser.add_argument("--keep", default=None, help="a directory for the files of cases that fail")
    args = parser.parse_args()
    doors = Doors(args)
    missing = [name for name, module in (("pandas", pandas), ("pyarrow", pyarrow), ("polars", polars)) if module is None]
    if missing:
        print("without %s" % ", ".join(missing))
    count, failures = collections.Counter(), 0
    end = time.monotonic() + args.seconds
    number = args.first if args.only is None else args.only
    while True:
        folder = tempfile.mkdtemp(prefix="differ")
        try:
            check_case(doors, args.seed, number, folder, count)
        except Exception as e:  # whatever goes wrong, the case is named
            failures += 1
            if not isinstance(e, Wrong):
                import traceback
                traceback.print_exc()
            print("FAILED: --seed %d --only %d: %s: %s" % (args.seed, number, type(e).__name__, e), flush=True)
            if args.keep:
                shutil.copytree(folder, os.path.join(args.keep, "%d-%d" % (args.seed, number)), dirs_exist_ok=True)
        shutil.rmtree(folder)
        number += 1
        if args.only is not None or time.monotonic() > end or failures >= args.most:
            break
    n = sum(v for k, v in count.items() if k not in ("refused", "spilled"))
    print("seed %d: %d cases, %d failed, %s" % (args.seed, n, failures, ", ".join("%s %d" % x for x in sorted(count.items()))))
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
