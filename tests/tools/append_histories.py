# SPDX-License-Identifier: BSD-3-Clause
"""Appends, undos, drops and compactions of random tensors, against a dict of cells and a build of all files.

append_histories.py BIN HISTORIES KILLS SEED: in an empty folder. Python alone is needed.
"""
import datetime
import filecmp
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time

BIN, HISTORIES, KILLS, SEED = sys.argv[1], *map(int, sys.argv[2:5])
tshard = os.path.join(BIN, "tshard")
ROOM = ["--memory", "32M", "--threads", "2", "--quiet"]
failures = []


def run(*args, stdin=None):
    if args[0] == "append" and "--compact-at" not in args:  # segments of these tensors are large
        args = (*args, "--compact-at", "never")
    p = subprocess.run([tshard, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       input=stdin, timeout=300)
    return p.returncode, p.stdout, p.stderr


def done(*args, stdin=None):
    rc, out, err = run(*args, stdin=stdin)
    assert rc == 0, f"{args}: exit {rc}: {err}"
    return out


def refused(text, *args, stdin=None):
    rc, _, err = run(*args, stdin=stdin)
    assert rc in (1, 2) and text in err, f"{args}: exit {rc}, no '{text}' in: {err}"
    assert not [n for n in os.listdir(".") if n.endswith(".building")], f"{args}: left a folder"


def files(path):
    return {n: open(os.path.join(path, n), "rb").read() for n in sorted(os.listdir(path))}


def same_files(a, b):
    assert sorted(os.listdir(a)) == sorted(os.listdir(b)), f"{os.listdir(a)} and {os.listdir(b)}"
    for n in os.listdir(a):
        assert filecmp.cmp(os.path.join(a, n), os.path.join(b, n), shallow=False), f"{n} differs"


# ---- kinds of tensors: how files are written, and what a cell is


class Numbers:
    """Whole numbers as indices, in text without a header."""
    build, append, end = [], [], "tns"

    def __init__(self, rng):
        self.rng, self.first = rng, True

    def row(self):
        r = self.rng
        return (r.randint(1, 30), r.randint(1, 9), r.randint(1, 400)), r.randint(1, 50)

    def write(self, path, rows, shuffled=False):
        with open(path, "w") as f:
            for index, x in rows:
                f.write(" ".join(map(str, index)) + f" {x}\n")

    def key(self, index):
        return tuple(map(str, index))


class Wide(Numbers):
    """The same, with float64 and kept zeros."""
    build = ["--values", "float64", "--zeros", "keep"]

    def row(self):
        index, x = super().row()
        return index, self.rng.choice([0, x])


class Names(Numbers):
    """A table with names, times in weeks and a header, whose columns may come in another order."""
    build, append = ["--bin", "week=7d"], []
    end = "csv"
    start = datetime.date(2024, 1, 1)  # a Monday

    def row(self):
        r = self.rng
        day = self.start + datetime.timedelta(days=0 if self.first else r.randint(0, 100))
        self.first = False
        return (f"u{r.randint(1, 40)}", r.choice(["a b", "c", "\u00e9", "x,y", "q"]), day), r.randint(1, 9)

    def write(self, path, rows, shuffled=False):
        names = ["user", "item", "week", "rating"]
        order = self.rng.sample(range(4), 4) if shuffled else range(4)
        with open(path, "w") as f:
            f.write(",".join(names[i] for i in order) + "\n")
            for index, x in rows:
                fields = [str(v) for v in (*index, x)]
                f.write(",".join(f'"{fields[i]}"' if "," in fields[i] else fields[i]
                                 for i in order) + "\n")

    def key(self, index):
        day = index[2] - datetime.timedelta(days=index[2].weekday())
        return index[0], index[1], str(day)


def cells_of(kind, rows):
    cells = {}
    for index, x in rows:
        cells[kind.key(index)] = cells.get(kind.key(index), 0) + x
    return cells


def exported(kind, path):
    """The cells of a tensor, by labels where it has them."""
    out = done("export", "--format", "csv", "-o", "-", path).splitlines()
    import csv
    rows = list(csv.reader(out))
    return {tuple(r[:-1]): float(r[-1]) for r in rows[1:]}


def cells_now(kind, path):
    got = exported(kind, path)
    return {tuple(map(str, k)): v for k, v in got.items()} if kind.end == "tns" else got


def fit(path):
    p = subprocess.run([os.path.join(BIN, "tstream"), "cp", path, "--rank", "2", "--sweeps", "3", "-o", "m.cp", "--force", "--tol", "0", "-p", "float64",
                        "--cpu", "--json", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout.splitlines()[-1])["fit"]


# ---- histories


def history(n, rng):
    kind = [Numbers, Wide, Names][n % 3](rng)
    for leftover in ["x.tsh", "all.tsh"]:
        subprocess.run(["rm", "-rf", leftover], check=True)
    segments = []  # lists of rows

    def draw():
        return [kind.row() for _ in range(rng.choice([1, 3, 40, 400]))]

    rows = draw()
    kind.write(f"base.{kind.end}", rows)
    done("build", f"base.{kind.end}", "-o", "x.tsh", "--force", *kind.build, *ROOM,
         *(["--value", "rating"] if kind.end == "csv" else []))
    segments.append(rows)
    dropped = False
    before = []  # of each append since the last compaction: the files, if there was one segment
    for step in range(rng.randint(2, 7)):
        what = rng.choice(["append"] * 4 + ["undo", "compact", "drop", "bad"])
        if what == "append":
            rows = draw()
            kind.write(f"more.{kind.end}", rows, shuffled=True)
            before.append(files("x.tsh") if len(segments) == 1 else None)
            done("append", "x.tsh", f"more.{kind.end}", *kind.append, *ROOM, "--repeat")
            segments.append(rows)
        elif what == "undo" and len(segments) > 1:
            done("undo", "x.tsh", "-q")
            segments.pop()
            was = before.pop()
            assert was is None or files("x.tsh") == was, "undo to one segment gives other bytes"
        elif what == "undo":
            refused("nothing was appended since it was built", "undo", "x.tsh")
        elif what == "compact":
            done("compact", "x.tsh", *ROOM)
            segments, before = [sum(segments, [])], []
        elif what == "drop":
            rows = sum(segments, [])
            cut = rng.choice(rows)[0]
            if kind.end == "csv":
                label = kind.key(cut)[2]
                left = [r for r in rows if kind.key(r[0])[2] >= label]
                done("drop", "x.tsh", "--before", f"week={label}", *ROOM)
            else:
                left = [r for r in rows if r[0][2] <= cut[2]]
                done("drop", "x.tsh", "--after", f"3={cut[2]}", *ROOM)
            if len(left) < len(rows):
                segments, before, dropped = [left], [], True
        else:
            open("bad.tns", "w").write("1 2\n")
            refused("", "append", "x.tsh", "bad.tns", *ROOM)
        if rng.random() < 0.3:  # merges the segments beside them
            assert cells_now(kind, "x.tsh") == {k: float(v) for k, v in cells_of(kind, sum(segments, [])).items()}
        done("verify", "x.tsh", "-q")
        info = json.loads(done("info", "x.tsh", "--json"))
        assert len(info.get("segments", [0])) == len(segments), info
    rows = sum(segments, [])
    kind.write(f"all.{kind.end}", rows)
    done("build", f"all.{kind.end}", "-o", "all.tsh", "--force", *kind.build, *ROOM,
         *(["--value", "rating"] if kind.end == "csv" else []))
    got = cells_now(kind, "x.tsh")
    want = cells_of(kind, rows)
    assert got == {k: float(v) for k, v in want.items()}, "other cells"
    if len(segments) > 1:
        merged = files("x.tsh/merged")
        if not dropped and any(want.values()):  # sizes stay
            assert abs(fit("x.tsh") - fit("all.tsh")) <= 1e-12, "another fit"
        done("compact", "x.tsh", *ROOM)
        assert files("x.tsh") == merged, "compact does not take over what was merged"
        assert cells_now(kind, "x.tsh") == got, "other cells"
    # levels are ordered by an estimate, which may come out another way, so shards and sizes of files may differ
    for n in ("sums", "options", "modes", "mode1.labels", "mode2.labels", "mode3.labels"):
        assert dropped or os.path.exists(f"x.tsh/{n}") == os.path.exists(f"all.tsh/{n}"), n


# ---- kills, writers, refusals


def kills():
    rng = random.Random(SEED)
    kind = Numbers(rng)
    base = [kind.row() for _ in range(3000)]
    kind.write("base.tns", base)
    done("build", "base.tns", "-o", "k.tsh", "--force", *ROOM)
    n = 1
    for i in range(KILLS):
        command = rng.choice([["append", "k.tsh", "more.tns", "--repeat", "--compact-at", "never"], ["undo", "k.tsh"],
                              ["compact", "k.tsh"], ["drop", "k.tsh", "--after", f"3={400 - i}"], ["export", "k.tsh", "-o", "k.tns", "-f"]])
        kind.write("more.tns", [kind.row() for _ in range(3000)])
        p = subprocess.Popen([tshard, *command, *(ROOM if command[0] in ("append", "compact", "drop") else [])],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * 0.12)
        p.send_signal(signal.SIGKILL)
        killed = p.wait() == -signal.SIGKILL
        done("verify", "k.tsh", "-q")
        now = len(json.loads(done("info", "k.tsh", "--json")).get("segments", [0]))
        after = {"append": n + 1, "undo": max(n - 1, 1), "compact": 1, "export": n, "drop": 1}[command[0]]
        assert now in ({n, after} if killed or command[0] == "drop" else {after}), f"{command}: {n} became {now} segments"
        n = now
    done("append", "k.tsh", "more.tns", "--repeat", *ROOM)
    assert not os.path.exists("k.tsh.building"), "what a killed command left is still there"
    done("verify", "k.tsh", "-q")


def writers():
    open("base.tns", "w").write("1 1 1 1\n2 2 2 2\n")
    open("more.tns", "w").write("1 1 3 1\n")
    done("build", "base.tns", "-o", "w.tsh", "--force", *ROOM)
    first = subprocess.Popen([tshard, "append", "w.tsh", "-", "--compact-at", "never", *ROOM], stdin=subprocess.PIPE, text=True)
    first.stdin.write("3 1 1 5\n")  # it takes its turn with the first byte
    first.stdin.flush()
    while not os.path.exists("w.tsh.building/lock"):
        time.sleep(0.01)
    rc, _, err = run("append", "w.tsh", "more.tns", *ROOM)
    assert rc == 1 and "w.tsh.building" in err, f"a second writer: exit {rc}: {err}"
    rc, _, err = run("compact", "w.tsh", *ROOM)  # one segment: nothing is written
    assert rc == 0, err
    first.stdin.close()
    assert first.wait() == 0, "the first writer"
    assert json.loads(done("verify", "w.tsh", "--json"))["segments"] == 2


def refusals():
    open("base.tns", "w").write("1 1 1 1\n2 2 2 2\n")
    open("more.tns", "w").write("1 1 3 1\n2 1 1 4\n")
    open("same.tns", "w").write("2 1 1 4\n1 1 3 1\n")
    open("flat.tns", "w").write("1 1 3\n")
    done("build", "base.tns", "-o", "r.tsh", "--force", *ROOM)
    old = files("r.tsh")
    refused("has 3 modes", "append", "r.tsh", "flat.tns", *ROOM)
    refused("those of segment 1", "append", "r.tsh", "base.tns", *ROOM)
    refused("--transform", "append", "r.tsh", "more.tns", "--transform", "log1p", *ROOM)
    for transform in ("log1p", "binary"):
        done("build", "base.tns", "-o", "x.tsh", "--force", "--transform", transform, *ROOM)
        refused("which holds for the whole sum", "append", "x.tsh", "more.tns", *ROOM)
    done("build", "base.tns", "-o", "x.tsh", "--force", "--transform", "log1p", "--duplicates", "error", *ROOM)
    done("append", "x.tsh", "more.tns", *ROOM)  # cells that are new
    old_x = done("export", "x.tsh", "-o", "-")
    open("again.tns", "w").write("2 2 2 7\n3 3 3 1\n")
    refused("(2, 2, 2)", "append", "x.tsh", "again.tns", *ROOM)
    assert done("export", "x.tsh", "-o", "-") == old_x and "0.693147" in old_x, old_x
    os.unlink("x.tsh/segment1/options")
    refused("does not say how it was built", "append", "x.tsh", "again.tns", *ROOM)
    for header in ("yes", "no"):  # bins are no transform
        open("x.csv", "w").write("who,when,n\n" * (header == "yes") + "ann,2020-01-01,3\nbob,2020-01-09,4\n")
        open("y.csv", "w").write("who,when,n\n" * (header == "yes") + "cyd,2020-02-01,5\n")
        done("build", "x.csv", "-o", "x.tsh", "--force", "--header", header, "--bin", "2=7d", *ROOM)
        done("append", "x.tsh", "y.csv", *ROOM)
    done("build", "base.tns", "-o", "x.tsh", "--force", "--transform", "scale=3", *ROOM)
    refused("--transform", "append", "x.tsh", "more.tns", "--transform", "scale=2", *ROOM)
    done("append", "x.tsh", "more.tns", *ROOM)  # the scale is remembered
    assert "1 1 3 3\n" in done("export", "x.tsh", "-o", "-")
    done("build", "base.tns", "-o", "x.tsh", "--force", "--base", "0", *ROOM)
    refused("--base", "append", "x.tsh", "more.tns", "--base", "1", *ROOM)
    refused("No such file", "append", "none.tsh", "more.tns", *ROOM)
    assert files("r.tsh") == old
    done("append", "r.tsh", "more.tns", *ROOM)
    refused("those of segment 2", "append", "r.tsh", "same.tns", *ROOM)
    done("build", "base.tns", "-o", "x.tsh", "--force", "--dims", "3x2x2", *ROOM)
    rc, _, err = run("append", "x.tsh", "more.tns", "--memory", "32M")
    assert rc == 0 and "mode 3 grows from 2 to 3" in err and "mode 1" not in err, err
    done("build", "base.tns", "-o", "r.tsh", "--force", *ROOM)  # replaces the segments, too
    assert files("r.tsh") == old
    open("more.mode1.map", "w").write("x\ny\n")  # of a file that is appended, it is not read
    rc, _, err = run("append", "r.tsh", "more.tns", "--memory", "32M")
    assert rc == 0 and err.count("\n") == 1 and "more.mode1.map: is not read" in err, err
    os.unlink("more.mode1.map")
    open("h.csv", "w").write("ann,x\nben,y\n")
    done("build", "h.csv", "-o", "h.tsh", "--force", "--value", "none", *ROOM)
    open("h.csv", "w").write("user,item\nann,x\nben,y\n")
    for said, notes in (([], 1), (["--header", "no"], 0)):
        rc, _, err = run("append", "h.tsh", "h.csv", "--repeat", "--memory", "32M", *said)
        assert rc == 0 and err.count("looks like the names of columns") == notes, err
    open("kept.tns", "w").write("1 1 1 1\n1 1 1 2\n")
    done("build", "kept.tns", "-o", "r.tsh", "--force", "--duplicates", "keep", *ROOM)
    refused("keeps several nonzeros of a cell", "append", "r.tsh", "more.tns", *ROOM)
    table = "user,week,n\nann,2024-01-08,1\nben,2024-01-15,2\n"
    open("t.csv", "w").write(table)
    done("build", "t.csv", "-o", "t.tsh", "--force", "--bin", "week=7d", "--value", "n", *ROOM)
    old = files("t.tsh")
    for text, table, *options in [
            ("begins earlier", "user,week,n\nann,2024-01-01,1\n", "--bin", "week=7d"),
            ("--bin", "user,week,n\nann,2024-01-15,1\n", "--bin", "week=1d"),
            ("week", "user,day,n\nann,2024-01-15,1\n", "--bin", "day=7d")]:
        open("u.csv", "w").write(table)
        refused(text, "append", "t.tsh", "u.csv", *options, *ROOM)
        assert files("t.tsh") == old
    open("u.csv", "w").write("user,week,n\n7,2024-02-15,1\n")
    done("append", "t.tsh", "u.csv", *ROOM)
    assert json.loads(done("info", "t.tsh", "--json"))["shape"] == [3, 6]


def damage(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


def merged_again():
    """What a reader merged is never all that is left, and is made again where it is damaged or missing."""
    open("base.tns", "w").write("1 1 1 1\n2 2 2 2\n3 1 2 5\n")
    open("more.tns", "w").write("1 1 3 4\n4 2 2 1\n")
    parts = {"no index": "index", "no modes": "modes", "no options": "options", "no sums": "sums"}
    for what in ("shards", "index", "missing", "none", "start", *parts):
        done("build", "base.tns", "-o", "d.tsh", "--force", "--modes", "a,b,c", *ROOM)
        done("append", "d.tsh", "more.tns", *ROOM)
        want = done("export", "d.tsh", "-o", "-")
        if what == "missing":
            subprocess.run(["rm", "-r", "d.tsh/merged"], check=True)
        elif what in parts:
            os.unlink("d.tsh/merged/" + parts[what])
        elif what != "none":
            damage("d.tsh/merged/" + {"shards": "mode1.shards", "index": "index", "start": "index"}[what],
                   3 if what == "start" else 100)
        rc, _, err = run("verify", "d.tsh", "-q")
        assert rc == (0 if what == "none" else 1), f"{what}: verify: exit {rc}: {err}"
        assert what == "none" or "tshard compact d.tsh merges them again" in err, err
        if what in ("index", "missing"):
            assert done("export", "d.tsh", "-o", "-") == want, what
            done("verify", "d.tsh", "-q")
            continue
        rc, _, err = run("compact", "d.tsh", "--memory", "32M")
        assert rc == 0 and ("was damaged" in err) == (what != "none"), f"{what}: {err}"
        done("verify", "d.tsh", "-q")
        assert '"a"' in done("info", "d.tsh", "--json") and set(parts.values()) <= set(os.listdir("d.tsh")), what
        assert done("export", "d.tsh", "-o", "-") == want and not os.path.exists("d.tsh/merged"), what
    done("build", "base.tns", "-o", "d.tsh", "--force", *ROOM)
    os.unlink("d.tsh/sums")  # as of an old tensor
    done("append", "d.tsh", "more.tns", *ROOM)
    assert done("export", "d.tsh", "-o", "-") == want
    done("verify", "d.tsh", "-q")
    open("d.tsh/merged/.note", "w").write("")
    for command in (["undo"], ["append", "base.tns"], ["compact"]):
        refused("holds merged/.note", command[0], "d.tsh", *command[1:], *(ROOM if command[0] != "undo" else []))


def weights():
    """No weight is lost: the cells are those of a build at once, or the append is refused."""
    first = "user,item,w,n\nann,x,1,1\nann,x,1,-1\nben,y,1,2\n"
    second = "user,item,w,n\nann,x,1,6\nben,x,2,3\n"
    table = ["--modes", "user,item", "--value", "n", "--weights", "w", "--force", *ROOM]
    open("w1.csv", "w").write(first)
    open("w2.csv", "w").write(second)
    open("w3.csv", "w").write("user,item,w,n\ncyd,x,1,0\ncyd,y,1,1\n")
    for zeros in ([], ["--zeros", "keep"]):
        for one, two, safe in (("w1", "w2", zeros), ("w2", "w1", zeros), ("w2", "w3", zeros), ("w2", "w2", True)):
            done("build", f"{one}.csv", "-o", "w.tsh", *zeros, *table)
            old = files("w.tsh")
            if not safe:
                refused("--zeros keep", "append", "w.tsh", f"{two}.csv", *ROOM)
                assert files("w.tsh") == old
                continue
            done("append", "w.tsh", f"{two}.csv", "--repeat", *ROOM)
            done("build", f"{one}.csv", f"{two}.csv", "-o", "once.tsh", *zeros, *table)
            how = ["--format", "csv", "-o", "-"]
            assert done("export", "w.tsh", *how) == done("export", "once.tsh", *how), f"{one} {two} {zeros}"


def access():
    """Mode, owner and group stay, whoever changes or reads the tensor."""
    def look(path):
        st = os.stat(path)
        return oct(st.st_mode), st.st_uid, st.st_gid
    steps = (["append", "p.tsh", "more.tns", "--repeat", *ROOM], ["append", "p.tsh", "more.tns", "--repeat", *ROOM],
             ["export", "p.tsh", "-o", "p.tns", "--force"], ["undo", "p.tsh"], ["compact", "p.tsh", *ROOM])
    owners = [(os.getuid(), os.getgid())] + ([(65534, 65534)] if os.getuid() == 0 else [])
    open("base.tns", "w").write("1 1 1 1\n2 2 2 2\n3 1 2 5\n")
    open("more.tns", "w").write("1 1 3 4\n4 2 2 1\n")
    for mode, file_mode, mask in ((0o700, 0o600, 0o022), (0o775, 0o664, 0o077), (0o755, 0o644, 0o002)):
        for owner in owners:
            done("build", "base.tns", "-o", "p.tsh", "--force", *ROOM)
            for n in os.listdir("p.tsh"):
                os.chmod(f"p.tsh/{n}", file_mode)
                os.chown(f"p.tsh/{n}", *owner)
            os.chmod("p.tsh", mode)
            os.chown("p.tsh", *owner)
            is_own = owner[0] == os.getuid()
            old_mask = os.umask(mask)
            try:
                for step in steps:
                    rc, out, err = run(*step)
                    assert rc == 0, err
                    assert not is_own and step[0] == "export" or "/tmp" not in err, err
                    assert step[0] != "export" or os.path.exists("p.tsh/merged") == is_own
                    for folder, _, names in os.walk("p.tsh"):
                        assert look(folder) == (oct(0o40000 | mode), *owner), f"{step}: {folder} {look(folder)}"
                        for n in names:
                            assert look(f"{folder}/{n}") == (oct(0o100000 | file_mode), *owner), f"{step}: {folder}/{n}"
            finally:
                os.umask(old_mask)
            assert run("verify", "p.tsh")[0] == 0


def acls():
    """Who has no right by an ACL has none afterwards, and who has one keeps it, also where the folder gives new files an ACL."""
    def acl(user, rights):  # of another user, and nothing for the group
        entries = [(1, user, 0xffffffff), (2, rights, 1), (4, 0, 0xffffffff), (16, rights, 0xffffffff), (32, 0, 0xffffffff)]
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)
    names = ["system.posix_acl_access", "system.posix_acl_default"]
    def acls_of(path):
        return sorted(n for n in os.listxattr(path) if n in names)
    steps = (["append", "a.tsh", "more.tns", "--repeat", *ROOM], ["append", "a.tsh", "more.tns", "--repeat", *ROOM],
             ["export", "a.tsh", "-o", "a.tns", "--force"], ["undo", "a.tsh"], ["compact", "a.tsh", *ROOM], ["drop", "a.tsh", "--after", "3=2", *ROOM])
    open("base.tns", "w").write("1 1 1 1\n2 2 2 2\n3 1 2 5\n")
    open("more.tns", "w").write("1 1 3 4\n4 2 2 1\n")
    for has in (True, False):
        os.makedirs("acl", exist_ok=True)
        os.chdir("acl")
        done("build", "../base.tns", "-o", "a.tsh", "--force", *ROOM)
        open("more.tns", "w").write("1 1 3 4\n4 2 2 1\n")
        try:
            if has:
                os.setxattr("a.tsh", names[0], acl(7, 5))
                os.setxattr("a.tsh", names[1], acl(7, 1))
                for n in os.listdir("a.tsh"):
                    os.setxattr(f"a.tsh/{n}", names[0], acl(6, 4))
            else:  # of the folder: what is made in it lets user 1 in
                os.chmod("a.tsh", 0o750)
                os.setxattr(".", names[1], acl(7, 7))
        except OSError:  # this file system has none
            os.chdir("..")
            return
        mode, own = os.stat("a.tsh").st_mode, os.stat("a.tsh/index").st_mode
        for step in steps:
            done(*step)
            for folder, _, inside in os.walk("a.tsh"):
                assert os.stat(folder).st_mode == mode, f"{step}: {folder}"
                assert acls_of(folder) == names * has, f"{step}: {folder}: {os.listxattr(folder)}"
                assert not has or [os.getxattr(folder, n) for n in names] == [acl(7, 5), acl(7, 1)], f"{step}: {folder}"
                for n in inside:
                    path = f"{folder}/{n}"
                    assert os.stat(path).st_mode == own and acls_of(path) == names[:has], f"{step}: {path} {os.listxattr(path)}"
                    assert not has or os.getxattr(path, names[0]) == acl(6, 4), f"{step}: {path}"
        os.chdir("..")


def pipes():
    """Readers and writers in one pipe, and a reader that waits, which tells it and can be stopped."""
    open("base.tns", "w").write("1 1 1 1\n2 2 2 2\n3 1 2 5\n")
    open("more.tns", "w").write("1 1 3 4\n4 2 2 1\n")
    done("build", "base.tns", "-o", "k.tsh", "--force", *ROOM)
    done("append", "k.tsh", "more.tns", *ROOM)
    p = subprocess.run(f"'{tshard}' export k.tsh -o - | '{tshard}' append k.tsh - --memory 32M --compact-at never", shell=True, text=True, timeout=60,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.returncode == 0 and "as segment 3" in p.stdout, p.stderr
    os.mkfifo("named")
    p = subprocess.run(f"'{tshard}' export k.tsh -o - > named & '{tshard}' append k.tsh named --memory 32M --compact-at never", shell=True, text=True, timeout=60,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.returncode == 0 and "as segment 4" in p.stdout, p.stderr
    p = subprocess.run(f"echo 8 8 8 8 > named & '{tshard}' append k.tsh named --memory 32M --compact-at never", shell=True, text=True, timeout=60,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # its writer is gone at once
    assert p.returncode == 0 and "as segment 5" in p.stdout, p.stderr
    p = subprocess.run(f": > named & '{tshard}' append k.tsh named", shell=True, text=True, timeout=60, stderr=subprocess.PIPE)
    assert p.returncode == 1 and "named: is empty" in p.stderr, p.stderr
    writer = subprocess.Popen([tshard, "append", "k.tsh", "-", "--compact-at", "never", *ROOM], stdin=subprocess.PIPE, text=True)
    writer.stdin.write("7 7 7 7\n")
    writer.stdin.flush()
    while not os.path.exists("k.tsh.building/lock"):
        time.sleep(0.01)
    reader = subprocess.Popen([tshard, "export", "k.tsh", "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = reader.stderr.readline()
    assert "waits: k.tsh.building: another process is writing it" in said and str(writer.pid) in said, said
    reader.send_signal(signal.SIGINT)
    _, err = reader.communicate(timeout=20)
    assert reader.returncode != 0 and "stopped" in err, err
    writer.stdin.close()
    assert writer.wait() == 0
    assert "7 7 7 7" in done("export", "k.tsh", "-o", "-")


def turns():
    """Who changes a tensor waits for a reader that merges, which may be stopped half way, and not for another writer."""
    open("base.tns", "w").write("1 1 1 1\n2 2 2 2\n3 1 2 5\n")
    with open("large.tns", "w") as f:
        f.writelines(f"{i % 997 + 1} {i % 499 + 1} {i % 211 + 1} 1\n" for i in range(200000))
    open("more.tns", "w").write("1 1 3 4\n4 2 2 1\n")
    for command in (["append", "q.tsh", "more.tns", "--memory", "32M"], ["undo", "q.tsh"], ["drop", "q.tsh", "--after", "3=100", "--memory", "32M"]):
        done("build", "base.tns", "-o", "q.tsh", "--force", *ROOM)
        done("append", "q.tsh", "large.tns", *ROOM)
        reader = subprocess.Popen([tshard, "export", "q.tsh", "-o", "q.tns", "--force"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not os.path.exists("q.tsh.building/merged.building") and reader.poll() is None:
            pass
        reader.send_signal(signal.SIGSTOP)
        if not os.path.exists("q.tsh.building/merged.building"):  # it was too fast
            reader.send_signal(signal.SIGCONT)
            reader.communicate()
            continue
        writer = subprocess.Popen([tshard, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(1.5)
        reader.send_signal(signal.SIGCONT)
        _, err = writer.communicate(timeout=60)
        assert writer.returncode == 0, f"{command}: {err}"
        reader.communicate(timeout=60)
        assert reader.returncode == 0
        done("verify", "q.tsh", "-q")


def drops():
    """Labels, dates and indices to drop before and after, what is refused, and what becomes too large."""
    rows = ["ann,lamp,2024-01-01,4", "ben,lamp,2024-01-10,2", "ann,rug,2024-01-20,5", "cid,rug,2024-02-02,1"]
    weeks = ["2024-01-01", "2024-01-08", "2024-01-15", "2024-01-29", "2024-02-12"]
    open("a.csv", "w").write("\n".join(["user,item,week,rating", *rows]) + "\n")
    open("b.csv", "w").write("user,item,week,rating\ndan,lamp,2024-02-12,3\n")
    for options, left in [
            (["--before", "week=2024-01-15"], weeks[2:]), (["--before", "week=2024-02"], weeks[4:]), (["--before", "3=2024"], weeks),
            (["--after", "week=2024-01"], weeks[:4]), (["--after", "week=2024-01-08"], weeks[:2]),
            (["--before", "user=ben", "--after", "user=cid"], [weeks[1], weeks[3]]), (["--after", "item=lamp"], [weeks[0], weeks[1], weeks[4]]),
            (["--before", "week=2024-01-08", "--after", "user=ben"], weeks[1:3])]:
        done("build", "a.csv", "-o", "g.tsh", "--force", "--bin", "week=7d", *ROOM)
        done("append", "g.tsh", "b.csv", *ROOM)
        done("drop", "g.tsh", *options, *ROOM)
        got = sorted(line.split(",")[2] for line in done("export", "g.tsh", "--format", "csv", "-o", "-").splitlines()[1:])
        assert got == left, f"{options}: {got}"
        done("verify", "g.tsh", "-q")
        assert os.path.exists("g.tsh/segment1") == (left == weeks), options
        shape = json.loads(done("info", "g.tsh", "--json"))["shape"]
        assert shape == [4, 2, 7], shape
        done("append", "g.tsh", "a.csv", "--repeat", *ROOM)
    done("build", "a.csv", "-o", "g.tsh", "--force", "--bin", "week=7d", *ROOM)
    old = files("g.tsh")
    for text, *options in [("is no label of mode 1", "--before", "user=zoe"), ("would be left", "--before", "week=2025"),
                           ("would be left", "--after", "week=2023"), ("expected MODE=LABEL", "--before", "week="),
                           ("--before or --after is needed",)]:
        refused(text, "drop", "g.tsh", *options, *ROOM)
        assert files("g.tsh") == old, options
    # what was appended is merged before the next append
    open("x.csv", "w").write("user,item,week,rating\neve,lamp,2024-02-12,3\n")
    done("append", "g.tsh", "b.csv", "--compact-at", "25%", *ROOM)
    assert len(json.loads(done("info", "g.tsh", "--json"))["segments"]) == 2
    done("append", "g.tsh", "x.csv", "--compact-at", "25%", *ROOM)
    assert len(json.loads(done("info", "g.tsh", "--json"))["segments"]) == 2
    done("undo", "g.tsh", "-q")
    assert "dan" in done("export", "g.tsh", "--format", "csv", "-o", "-")
    refused("--compact-at", "append", "g.tsh", "x.csv", "--compact-at", "much", *ROOM)


def many_names():
    """More names than the memory for names holds."""
    n = 400000
    with open("big.csv", "w") as f:
        f.write("user,item,n\n" + "".join(f"user of some length {i},i{i % 7},1\n" for i in range(n)))
    with open("tail.csv", "w") as f:
        f.write("item,user,n\n" + "".join(f"i{i % 9},user of some length {i},2\n"
                                          for i in range(n - 1000, n + 1000)))
    with open("both.csv", "w") as f:
        f.write(open("big.csv").read())
        f.write("".join(f"user of some length {i},i{i % 9},2\n" for i in range(n - 1000, n + 1000)))
    done("build", "big.csv", "-o", "m.tsh", "--force", *ROOM)
    done("append", "m.tsh", "tail.csv", *ROOM)
    done("verify", "m.tsh", "-q")
    done("compact", "m.tsh", *ROOM)
    done("build", "both.csv", "-o", "both.tsh", "--force", *ROOM)
    same_files("m.tsh", "both.tsh")


def attempt(name, f, *args):
    try:
        f(*args)
    except Exception as e:  # every failure is told, whatever it is
        failures.append(name)
        print(f"FAILED: {name}: {e!r}", flush=True)


attempt("refusals", refusals)
attempt("two writers", writers)
attempt("merged again", merged_again)
attempt("weights", weights)
attempt("access", access)
attempt("ACLs", acls)
attempt("pipes", pipes)
attempt("turns", turns)
attempt("drops", drops)
for number in range(HISTORIES):
    attempt(f"history {number} of seed {SEED}", history, number, random.Random(SEED * 100003 + number))
attempt("kills", kills)
if os.environ.get("TSTREAM_TEST_LARGE") == "1":
    attempt("many names", many_names)
sys.exit(1 if failures else 0)
