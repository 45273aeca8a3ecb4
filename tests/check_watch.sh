#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A run can be watched: progress on standard error and on SIGUSR1, and nowhere else.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}
. "$top/tests/outside.sh"

# until TEXT FILE: waits for a line that matches, half a minute at most
until_there()
{
    for _ in $(seq 300); do
        if grep -q -e "$1" "$2"; then return 0; fi
        sleep 0.1
    done
    bad "no '$1' in $2: $(tail -n 3 "$2" | cut -c 1-300)"
}

"$bin/tshard" gen --planted 3 --noise 0.1 --dims 60x50x40 --nnz 60000 -o x.tsh > log 2>&1
dated='^[0-9]\{4\}-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9] tstream cp: '

# ---- a line when it is asked for, also with --quiet; the table stays a table ----
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 1000000 --tol 0 --out y.cp > table 2> told &
pid=$!
until_there '^ *3 ' table
kill -USR1 $pid
until_there "$dated" told
during="${dated}sweep [0-9]*/1000000, mode [123]/3: [0-9]* %, left [^,]*, run at most [^,]*"
grep -q -e "$during, .* nonzeros, .* nonzeros/s$" -e "$during, starting, [0-9.]* [num]*s$" -e "${dated}between two steps$" told || bad "cp: SIGUSR1 said $(cat told)"
kill $pid
wait $pid || true
if grep -v -e '^sweep ' -e '^ *[0-9][0-9]* ' table > other; then bad "cp: not of the table: $(cat other)"; fi

rm -rf y.cp.partial # with the state of the run

# ---- status.json, while the run is there, and not afterwards ----
json_is() # FILE PYTHON: an expression of the object s, where there is a program that can tell
{
    command -v python3 > python || return 0
    python3 -c "import json, sys; s = json.load(open(sys.argv[1])); sys.exit(not ($2))" "$1" ||
        bad "$1: not so: $2: $(cat "$1")"
}
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 1000000 --tol 0 --out y.cp > table 2> told &
pid=$!
until_there '^ *3 ' table
until_there '"sweeps":\[{' y.cp.partial/status.json # not the first one, which tells of none
cp y.cp.partial/status.json first.json
json_is first.json "s['state'] == 'running' and s['pid'] == $pid and s['tensor'] == '$(pwd -P)/x.tsh'"
json_is first.json "s['iters'] == 1000000 and s['order'] == 3 and 1 <= s['mode'] <= 3 and s['out'] == 'y.cp'"
json_is first.json "s['sweeps'][-1]['sweep'] == s['sweep'] - 1 and 0 < s['sweeps'][-1]['fit'] < 1"
json_is first.json "0 <= s['done_nnz'] <= s['sweep_nnz'] and s['options']['rank'] == 3"
json_is first.json "0 <= s['sweep_left_seconds'] <= s['run_left_seconds'] and s['saved'] is None"
json_is first.json "s['start'] <= s['now'] and len(s['now']) == 25"
until_there '"sweep":' y.cp.partial/status.json
for _ in $(seq 100); do # it goes on
    if ! cmp -s first.json y.cp.partial/status.json; then break; fi
    sleep 0.1
done
if cmp -s first.json y.cp.partial/status.json; then bad "cp: one status for ever"; fi
for operand in y.cp y.cp.partial y.cp/ ''; do # the only one here needs no name
    # shellcheck disable=SC2086 # none is none
    "$bin/tstream" status $operand > log || bad "status $operand: $(cat log)"
    grep -q '^y.cp: running$' log || bad "status $operand: $(cat log)"
    awk 'length($0) > 80 && $1 != "tensor" { exit 1 }' log || bad "status: more than 80 columns: $(cat log)"
done
for line in "where   process $pid on " 'since   ' 'seen    ' 'at      sweep [0-9]* of 1000000, mode [123] of 3, ' \
    'rate    .* nonzeros/s$' 'left    .* of the sweep, at most .* of the run$' 'fit     0[.][0-9]* after sweep '; do
    grep -q "^  $line" log || bad "status: no '$line' in: $(cat log)"
done
"$bin/tstream" status y.cp --json > status.json
json_is status.json "s['found'] == 'running' and s['alive'] is True and s['pid'] == $pid and s['options']['rank'] == 3"
kill $pid
wait $pid || true
if [ -e y.cp.partial ] && ! grep -q '"state":"stopped"' y.cp.partial/status.json; then
    bad "cp: left $(ls y.cp.partial)"
fi
rm -rf y.cp.partial
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 2 --out z.cp > log 2> told || bad "cp: $(cat told)"
if [ -e z.cp/status.json ]; then bad "cp: a status of a run that has ended"; fi
"$bin/tstream" status z.cp > log
grep -q '^z.cp: ended (iterations)$' log || bad "status: $(cat log)"
grep -q '^  fit     0[.][0-9]* after 2 sweeps$' log || bad "status: $(cat log)"
"$bin/tstream" status z.cp --json > status.json
json_is status.json "s['found'] == 'ended' and s['alive'] is False and 0 < s['fit'] < 1"
rm -r z.cp
refused 1 "z.cp: there is no run of tstream cp, neither under way nor ended" "$bin/tstream" status z.cp
refused 1 "which run? There is no *.cp" "$bin/tstream" status

# ---- a run that died says so, and one whose status is damaged harms nobody ----
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 1000000 --tol 0 --out y.cp > table 2> told &
pid=$!
until_there '"sweeps":\[{' y.cp.partial/status.json
kill -9 $pid
wait $pid || true
"$bin/tstream" status y.cp > log
grep -q '^y.cp: died: its process is gone$' log || bad "status: $(cat log)"
grep -q '^  go on   ' log || bad "status: does not say how to go on: $(cat log)"
"$bin/tstream" status y.cp --json > status.json
json_is status.json "s['found'] == 'died' and s['alive'] is False and s['state'] == 'running'"
echo '{"state":' > y.cp.partial/status.json
got=0
"$bin/tstream" status y.cp > log 2> told || got=$?
[ "$got" -eq 1 ] && grep -q 'y.cp.partial/status.json' told || bad "status of half a file: $got, $(cat told)"
rm -rf y.cp.partial

# ---- a build says which phase it is in, when it is asked ----
"$bin/tshard" gen -q --dims 3000x2000x1000 --nnz 100M --memory 32M -o w.tsh > log 2> told &
pid=$!
for _ in $(seq 300); do
    sleep 0.1
    if ! [ -e w.tsh.building ]; then continue; fi # not before it listens
    kill -USR1 $pid
    if grep -q ' tshard gen: phase ' told; then break; fi
done
kill $pid
wait $pid || true
grep -q '^[0-9-]* [0-9:]* tshard gen: phase 1/7, reading: [0-9]* %, left ' told ||
    bad "build: SIGUSR1 said $(cat told)"

# ---- a build in one area: no phase that works says 0, however often it is asked ----
"$bin/tshard" gen -q --dims 3000x2000x1000 --nnz 4M -t 1 --memory 1G -o w.tsh > log 2> told &
pid=$!
while kill -0 $pid 2> kills; do
    if [ -e w.tsh.building ]; then kill -USR1 $pid 2> kills || true; fi
    sleep 0.02
done
wait $pid || bad "gen: $(cat told)"
if grep ' 0[.]00 nonzeros\| 0 B' told > zero; then bad "build: a phase says 0: $(head -n 2 zero)"; fi
grep -q 'phase [456]/7, packing mode [123]: [1-9][0-9]* %' told || bad "build: $(cat told)"

# ---- on a terminal the line moves each second, also where nothing comes from a slow pipe ----
if ! python3 -c 'import os, pty; os.close(pty.openpty()[0])' 2> python; then
    echo "left out, on a terminal: no Python, or no pseudo terminal can be had (is /dev/pts mounted?)"
else
    printf '1 1 1 1\n2 2 2 2\n' > slow.tns
    python3 - "$bin/tshard" << 'EOP' || bad "build: the line of a terminal stands still"
import os, pty, re, sys
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execl("/bin/sh", "sh", "-c", '(sleep 2.6; cat slow.tns; sleep 2.6) | "$0" build -f -o w.tsh -',
             sys.argv[1])
text = b""
while True:
    try:
        more = os.read(fd, 4096)
    except OSError:
        break
    if not more:
        break
    text += more
os.waitpid(pid, 0)
lines = [l for l in text.decode().replace("\r", "\n").replace("\x1b[K", "").split("\n") if "reading" in l or "opening" in l]
if len(lines) < 4 or len(set(lines)) < 4 or any(re.search(r" 0 B| 0[.]00", l) for l in lines):
    sys.exit(f"lines: {lines}")
EOP
fi

# ---- every command can be quiet ----
for command in 'build -q a.tns' 'gen -q -o g.tsh --nnz 1000' 'export -q x.tsh' 'verify -q x.tsh'; do
    printf '1 1 1 1\n' > a.tns
    # shellcheck disable=SC2086 # words
    "$bin/tshard" $command > log 2> told || bad "tshard $command: $(cat told)"
    if [ -s told ]; then bad "tshard $command: $(cat told)"; fi
done
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 2 --out z.cp > log 2> told || bad "cp -q: $(cat told)"
for command in 'top z.cp x.tsh' 'mttkrp x.tsh --cpu' devices; do
    # shellcheck disable=SC2086 # words
    "$bin/tstream" $command --quiet > log 2> told || bad "$command -q: $(cat told)"
    if [ -s told ]; then bad "$command -q: $(cat told)"; fi
done
exit $failed
