#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a terminal acts upon does not reach it: names with C0 and C1 controls, escape sequences, controls of direction, tags and
# bytes that are not UTF-8, of indices, modes and files, through every command and format. Data that go to a pipe or a
# file keep their bytes; JSON has such characters escaped everywhere.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
command -v python3 > log || { echo "skipped: there is no python3"; exit 77; }

cat > look.py << 'EOF'
import json, os, pty, subprocess, sys, threading

bin_dir = sys.argv[1]
hostile = [b"\x1b]0;owned\x07", b"\x1b[2J", b"\x9b31m", b"\xc2\x9b31m", b"\xc2\x85", b"\x7f\x08\x0e",
           "\u202egnp.exe".encode(), "\u2066x\u2069\u200f\u061c".encode(), "\u2028p\u2029".encode(), "\U000e0041".encode(),
           b"\xff\xfe", b"\xc3(", b"\xf0\x9f", b"\xed\xa0\x80", "fine \u00e4\u00df\u2211\U0001f600".encode()]
name = [b"n" + h + b"%d" % k for k, h in enumerate(hostile)]
with open("x.csv", "wb") as f:
    f.write(b"us\x1b[1mer,i\xc2\x9btem,st\xe2\x80\xaears\n")
    for k, n in enumerate(name):
        for j in range(4):
            f.write(n + b",i%d,%d\n" % (j, 1 + (k * 7 + j * 3) % 5))
odd = os.fsdecode(b"o\x1b[5m\xc2\x9b\xe2\x80\xaed\xffd")

def acts(c):
    return (c < 0x20 and c not in (9, 10, 13)) or 0x7f <= c < 0xa0 or c in (0x61c, 0x200e, 0x200f) or \
        0x2028 <= c <= 0x202e or 0x2066 <= c <= 0x2069 or 0xe0000 <= c <= 0xe007f

failed = 0
def look(what, out):
    global failed
    try:
        found = [hex(ord(c)) for c in out.decode() if acts(ord(c))]
    except UnicodeDecodeError as e:
        found = [str(e)]
    if found:
        failed = 1
        print("FAILED:", what, "prints", found[:5], out[:300])

def words(line):
    w = [odd if x == "ODD" else odd + x[3:] if x.startswith("ODD.") else x for x in line.split()]
    return [os.path.join(bin_dir, w[0])] + w[1:]

def by_pipe(line):
    p = subprocess.run(words(line), stdin=subprocess.DEVNULL, capture_output=True)
    return p.returncode, p.stdout, p.stderr

def by_terminal(line):
    ours, theirs = pty.openpty()
    env = dict(os.environ, NO_COLOR="1", TERM="dumb")
    p = subprocess.Popen(words(line), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    out = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:
            break
        if not more:
            break
        out += more
    os.close(ours)
    return p.wait(), out

try:
    os.close(pty.openpty()[0])
    terminal = True
except OSError as e:
    terminal = False
    print("no terminal to be had:", e)

def check(line, data=False, status=0):
    rc, out, err = by_pipe(line)
    global failed
    if status is not None and rc != status:
        failed = 1
        print("FAILED:", line, "exit", rc, err)
    if not data:
        look(line, out)
    look(line + " (messages)", err)
    if terminal:
        look(line + " (terminal)", by_terminal(line)[1])
    return out

build = "tshard build x.csv --modes us\x1b[1mer,i\u009btem --value st\u202ears -o "
check(build + "ODD.tsh")
check(build + "x.tsh -q")
check("tshard build x.csv -o y.tsh --value nosuch\x1b[1m", status=None)
for line in ["info ODD.tsh", "info ODD.tsh --json", "verify ODD.tsh", "verify ODD.tsh --json", "info nosuchODD", "info ODD.nosuch"]:
    check("tshard " + line, status=1 if "nosuch" in line else 0)
check("tshard plan x.csv --modes us\x1b[1mer,i\u009btem --value st\u202ears -o ODD.plan.tsh")
check("tstream cp ODD.tsh --cpu -r 2 -i 3 -o ODD.cp")
check("tstream cp ODD.tsh --cpu -r 2 -i 3 -o ODD.cp --force --json")
check("tstream cp ODD.tsh --cpu -r 2,3 -i 3 -o ODD.many.cp")
check("tstream cp ODD.tsh --cpu -r 2 -i 99999999 --tol 0 --max-time 200ms -o ODD.stopped.cp")
for line in ["info ODD.cp", "info ODD.cp --json", "info ODD.many.cp", "info ODD.many.cp --json", "top ODD.cp ODD.tsh",
             "top ODD.cp ODD.tsh --json", "status ODD.cp", "status ODD.stopped.cp", "status ODD.stopped.cp --json",
             "plan ODD.tsh --cpu -r 2", "plan ODD.tsh --cpu -r 2 --json", "fit ODD.cp ODD.tsh", "fit ODD.cp ODD.tsh --json",
             "compare ODD.cp ODD.cp", "compare ODD.cp ODD.cp --json", "score ODD.cp ODD.tsh", "report ODD.cp ODD.tsh -o -",
             "report ODD.cp ODD.tsh -o ODD.html", "mttkrp ODD.tsh --cpu --reps 1"]:
    check("tstream " + line)
check("tstream top nosuch/ODD", status=1)
with open("cells.tns", "w") as f:
    f.write("1 1\n3 2\n")
for line in ["tshard export ODD.tsh --format csv", "tshard export ODD.tsh --format tsv", "tstream top ODD.cp ODD.tsh --csv",
             "tstream export ODD.cp ODD.tsh", "tstream predict ODD.cp cells.tns ODD.tsh --format csv",
             "tstream score ODD.cp ODD.tsh --top 50 --format csv", "tstream score ODD.cp ODD.tsh --by-slice --format tsv"]:
    out = check(line, data=True)
    if "tns" not in line and b"\x1b[2J" not in out:
        failed = 1
        print("FAILED:", line, "does not keep the bytes of names:", out[:200])
# JSON is the same to its readers: what is UTF-8 comes back as it was
labels = {e["label"] for l in check("tstream top ODD.cp ODD.tsh -n 99 --json").splitlines()
          for e in json.loads(l)["modes"][0]}
for n in name:
    try:
        want = n.decode()
    except UnicodeDecodeError:
        continue
    if want not in labels:
        failed = 1
        print("FAILED: top --json: no", repr(want))
# a forged record and status
for file, line in [(odd + ".cp/run.json", "info ODD.cp"), (odd + ".cp/run.json", "info ODD.cp --json"), (odd + ".cp/run.json", "status ODD.cp"),
                   (odd + ".stopped.cp.partial/status.json", "status ODD.stopped.cp"),
                   (odd + ".stopped.cp.partial/status.json", "status ODD.stopped.cp --json")]:
    with open(file, "rb") as f:
        was = f.read()
    with open(file, "wb") as f:
        f.write(was.replace(b'"start":"', '"start":"\u009b31m\u202e'.encode()).replace(b'"host":"', '"host":"\x7f\u0085'.encode()))
    rc, out, err = by_pipe("tstream " + line)
    look("forged: " + line, out)
    look("forged: " + line + " (messages)", err)
    with open(file, "wb") as f:
        f.write(was)
sys.exit(failed)
EOF
# ---- a name with a NUL would be cut where it is printed: it is refused ----
printf 'u,i,v\nfine,x,1\na\000b,x,1\na\000c,x,2\n' > nul.csv
refused 1 'nul.csv:3: column 1 (u): a name with a NUL byte' "$bin/tshard" build nul.csv --modes u,i --value v -o nul.tsh
printf '1 1 1\n2 2 1\n' > nul.tns
printf 'a\np\000q\n' > nul.map
refused 1 'nul.map:2: a name with a NUL byte' "$bin/tshard" build nul.tns --map 1=nul.map -o nul.tsh
mkfifo nul.pipe
cat nul.map > nul.pipe & # which is read once, so not before the tensor
refused 1 'nul.pipe:2: a name with a NUL byte' timeout 60 "$bin/tshard" build nul.tns --map 1=nul.pipe -o nul.tsh
wait

python3 look.py "$bin" || failed=1
exit $failed
