# SPDX-License-Identifier: BSD-3-Clause
"""bits_list.py - the list of cases of tests/bits: reading it, and the covering array of pairs.

A case takes a level of each axis. Any two levels of two axes meet in at least one case, unless the list
says that they are refused together, which is a case too, or that they cannot be asked for together.
"""
import itertools
import random
import shlex


class ListError(Exception):
    """A line of the list that cannot be used; the text says where and why."""


class Level:
    def __init__(self, name, words):
        self.name = name
        self.options = [w for w in words if not w.startswith("@")]
        self.about = dict(w[1:].split("=", 1) for w in words if w.startswith("@"))


class Case:
    """A level of each axis; `pair` says of which two a refusal is expected."""

    def __init__(self, axes, names, pair=None):
        self.names = tuple(names)
        self.levels = [axes[a][n] for a, n in zip(axes, names)]
        self.pair = pair
        # what differs from the usual is enough of a name
        usual = [next(iter(axes[a])) for a in axes]
        odd = [f"{a}={n}" for a, n, u in zip(axes, names, usual) if n != u]
        self.name = ("refused:" if pair else "") + (",".join(odd) or "usual")
        self.about = {k: v for level in self.levels for k, v in level.about.items()}
        self.options = [o for level in self.levels for o in level.options]


class List:
    def __init__(self, path):
        self.path, self.base, self.axes, self.all_axes = path, None, {}, []
        self.exceptions, self.refused, self.apart, self.rows, self.runs = {}, [], [], [], []
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                words = line.split()
                if words and not line.startswith("#"):
                    try:
                        self._take(words, line)
                    except (KeyError, ValueError, IndexError) as e:
                        raise ListError(f"{path}:{number}: {line.strip()}: {e}") from e

    def _take(self, words, line):
        kind = words[0]
        if kind == "base":
            self.base = words[1]
        elif kind == "except":
            self.exceptions[words[1]] = set(words[2:])
        elif kind == "added":
            self.exceptions[words[1]] = {"+"}
        elif kind == "axis":
            self.axes[words[1]] = {}
            if words[2:] == ["all"]:
                self.all_axes.append(words[1])
        elif kind == "level":
            self.axes[next(reversed(self.axes))][words[1]] = Level(words[1], shlex.split(line)[2:])
        elif kind in ("refused", "apart"):
            pair = tuple(tuple(w.split("=", 1)) for w in words[1:])
            for axis, level in pair:
                self.axes[axis][level]  # a name that is unknown raises KeyError
            (self.refused if kind == "refused" else self.apart).append(pair)
        elif kind == "case":
            if len(words) - 1 != len(self.axes):
                raise ValueError(f"expected {len(self.axes)} levels")
            for axis, level in zip(self.axes, words[1:]):
                self.axes[axis][level]
            self.rows.append(tuple(words[1:]))
        elif kind == "run":
            self.runs.append((words[1], line.split(None, 2)[2].strip()))
        else:
            raise ValueError("unknown kind of line")

    def usual(self, pair=()):
        row = {axis: next(iter(levels)) for axis, levels in self.axes.items()}
        row.update(dict(pair))
        return tuple(row.values())

    def cases(self):
        """Those of the covering array, then those that are refused."""
        return ([Case(self.axes, row) for row in self.rows] +
                [Case(self.axes, self.usual(pair), pair) for pair in self.refused])

    def every_case(self):
        """All combinations of the axes marked `all`; the others change from case to case."""
        rest = [a for a in self.axes if a not in self.all_axes]
        barred = Barred(self)
        for number, chosen in enumerate(itertools.product(*(self.axes[a] for a in self.all_axes))):
            row = dict(zip(self.all_axes, chosen))
            draw = random.Random(number)
            for _ in range(20):  # levels of the others that go with these, the usual ones at last
                row.update((a, draw.choice(list(self.axes[a]))) for a in rest)
                if not barred.meets(row):
                    break
            else:
                row.update((a, next(iter(self.axes[a]))) for a in rest)
            if not barred.meets(row):
                yield Case(self.axes, [row[a] for a in self.axes])

    def pairs(self):
        """All pairs that cases have to cover."""
        barred = {frozenset(p) for p in self.refused + self.apart}
        return {p for p in all_pairs(self.axes) if p not in barred}

    def uncovered(self):
        return self.pairs() - {p for row in self.rows for p in pairs_of(self.axes, row)}


class Barred:
    """Pairs that a case must not have."""

    def __init__(self, cases):
        self.with_level = {}
        for a, b in cases.refused + cases.apart:
            self.with_level.setdefault(a, set()).add(b)
            self.with_level.setdefault(b, set()).add(a)

    def allows(self, row, axis, level):
        return not any(item in row.items() for item in self.with_level.get((axis, level), ()))

    def meets(self, row):
        return not all(self.allows(row, axis, level) for axis, level in row.items())


def all_pairs(axes):
    for (a, la), (b, lb) in itertools.combinations(axes.items(), 2):
        for x, y in itertools.product(la, lb):
            yield frozenset(((a, x), (b, y)))


def pairs_of(axes, row):
    return {frozenset(p) for p in itertools.combinations(tuple(zip(axes, row)), 2)}


def _candidate(cases, barred, left, draw):
    """A row that has a pair which is still to be covered, and more of them where it can."""
    row = dict(draw.choice(left))
    todo = [a for a in cases.axes if a not in row]
    draw.shuffle(todo)
    wanted = set(left)
    for axis in todo:
        levels = list(cases.axes[axis])
        best, most = None, -1
        for level in draw.sample(levels, len(levels)):
            if barred.allows(row, axis, level):
                gain = sum(frozenset(((axis, level), item)) in wanted for item in row.items())
                # where nothing is gained the usual level, which is cheap
                gain = gain * 2 + (level == levels[0])
                if gain > most:
                    best, most = level, gain
        if best is None:
            return None
        row[axis] = best
    return tuple(row[a] for a in cases.axes)


def cover(cases, works, say):
    """Rows that cover all pairs; works(rows) tells for each whether it runs: what two levels allow, a third
    may not."""
    barred, draw = Barred(cases), random.Random(1)
    rows, wrong, left = [], set(), set(cases.pairs())
    while left:
        some = set()
        open_pairs = set(left)
        while open_pairs and len(some) < 40:
            order = sorted(open_pairs, key=sorted)
            tried = [_candidate(cases, barred, order, draw) for _ in range(8)]
            tried = [r for r in tried if r is not None and r not in wrong and r not in some]
            if not tried:
                break
            best = max(tried, key=lambda r: len(pairs_of(cases.axes, r) & open_pairs))
            some.add(best)
            open_pairs -= pairs_of(cases.axes, best)
        some = sorted(some)
        fine = works(some)
        for row, ok in zip(some, fine):
            if ok and pairs_of(cases.axes, row) & left:
                rows.append(row)
                left -= pairs_of(cases.axes, row)
            elif not ok:
                wrong.add(row)
        say(f"{len(rows)} cases, {len(wrong)} tried that are refused, {len(left)} pairs to cover")
        if not any(fine):  # what is left goes with the usual levels, which was tried before
            for pair in sorted(left, key=sorted):
                if pair in left:
                    rows.append(cases.usual(pair))
                    left -= pairs_of(cases.axes, rows[-1])
    return rows
