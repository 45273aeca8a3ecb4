#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A run can be watched: progress on standard error and on SIGUSR1, and nowhere else.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# until_there TEXT FILE: waits for a line that matches, in a file that may not be there yet; two minutes at most, as the
# machine may be busy
until_there()
{
    for _ in $(seq 1200); do
        if grep -q -s -e "$1" "$2"; then return 0; fi
        sleep 0.1
    done
    bad "no '$1' in $2: $(tail -n 3 "$2" | cut -c 1-300)"
}

# ends PROCESS: it is asked to end, if it has not ended by itself, and has ended
ends()
{
    kill "$1" 2> kills || true
    wait "$1" || true
}

"$bin/tshard" gen --planted 3 --noise 0.1 --dims 60x50x40 --nnz 60000 -o x.tsh > log 2>&1
dated='^[0-9]\{4\}-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9] tstream cp: '

# ---- a line when it is asked for, also with --quiet ----
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 1000000 --tol 0 --output y.cp > table 2> told &
pid=$!
until_there '"sweeps":\[{' y.cp.partial/status.json
during="${dated}sweep [0-9]*/1000000, mode [123]/3: [0-9]* %, left [^,]*, run at most [^,]*"
# asked until it is asked within a mode of which something is done: before that, and between modes, other lines are right, too
for _ in $(seq 1200); do
    kill -USR1 $pid
    sleep 0.1
    cp told answers # without what is said at the end
    if grep -q -e "$during, .* nonzeros, .* nonzeros/s" answers; then break; fi
done
ends $pid
grep -q -e "$during, .* nonzeros, .* nonzeros/s" answers || bad "cp: SIGUSR1 said $(tail -n 3 answers)"
other_lines="${dated}sweep [0-9]*/1000000, mode [123]/3: .*" # before anything is done there is no rate
if grep -v -e "$other_lines nonzeros/s$" -e "$other_lines, unchanged for " -e "$other_lines starting, [0-9.]* [a-z]*$" -e "${dated}between two steps$" answers > other; then
    bad "cp: SIGUSR1 said $(head -n 3 other)"
fi
[ ! -s table ] || bad "cp -q: on standard output: $(cat table)"

rm -rf y.cp.partial # with the state of the run

# Factors that are written and read are no silence.
"$bin/tshard" gen --dims 150000x100000x5 --nnz 200000 -o wide.tsh > log 2>&1
# asked_during WHAT COMMAND...: a line of WHAT comes of a process that is asked all the time
asked_during()
{
    said=$1
    shift
    trap '' USR1 # the process ignores it until it takes it
    "$@" > table 2> told &
    pid=$!
    trap - USR1
    while kill -USR1 $pid 2> kills; do sleep 0.02; done
    wait $pid || bad "$*: $(tail -n 3 told)"
    grep -q "$said" told || bad "$*: SIGUSR1 said $(tail -n 3 told)"
}
asked_during 'writing factors: working, ' "$bin/tstream" cp wide.tsh --cpu -q -r 16 -i 1 -o wide.cp
asked_during 'reading factors: .* rows' "$bin/tstream" top -q -n 1 wide.cp
asked_during 'reading factors: .* rows' "$bin/tstream" report -q wide.cp -o wide.html
rm -r wide.*

# ---- status.json, while the run is there, and not afterwards ----
json_is() # FILE PYTHON: an expression of the object s, where there is a program that can tell
{
    command -v python3 > python || return 0
    python3 -c "import json, sys; s = json.load(open(sys.argv[1])); sys.exit(not ($2))" "$1" ||
        bad "$1: not so: $2: $(cat "$1")"
}
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 1000000 --tol 0 --output y.cp > table 2> told &
pid=$!
until_there '"sweeps":\[{' y.cp.partial/status.json # not the first one, which tells of none
cp y.cp.partial/status.json first.json
json_is first.json "s['state'] == 'running' and s['pid'] == $pid and s['tensor'] == '$(pwd -P)/x.tsh'"
json_is first.json "s['iters'] == 1000000 and s['order'] == 3 and 1 <= s['mode'] <= 3 and s['out'] == 'y.cp'"
json_is first.json "s['sweeps'][-1]['sweep'] == s['sweep'] - 1 and 0 < s['sweeps'][-1]['fit'] < 1"
json_is first.json "0 <= s['done_nnz'] <= s['sweep_nnz'] and s['options']['rank'] == 3"
json_is first.json "s['saved'] is None"
# what is left is known but for a moment between sweeps
for _ in $(seq 100); do
    cp y.cp.partial/status.json left.json
    if grep -q '"run_left_seconds":[0-9]' left.json; then break; fi
    sleep 0.2
done
json_is left.json "0 <= s['sweep_left_seconds'] <= s['run_left_seconds']"
json_is first.json "s['start'] <= s['now'] and len(s['now']) == 25"
until_there '"sweep":' y.cp.partial/status.json
for _ in $(seq 600); do # it goes on
    if ! cmp -s first.json y.cp.partial/status.json; then break; fi
    sleep 0.1
done
if cmp -s first.json y.cp.partial/status.json; then bad "cp: one status for ever"; fi
for operand in y.cp y.cp.partial y.cp/ ''; do # the only one here needs no name
    for _ in $(seq 50); do # what is left: see above
        # shellcheck disable=SC2086 # none is none
        "$bin/tstream" status $operand > log || bad "status $operand: $(cat log)"
        if grep -q '^  left' log; then break; fi
        sleep 0.2
    done
    grep -q '^y.cp: running$' log || bad "status $operand: $(cat log)"
    awk 'length($0) > 80 && $1 != "tensor" { exit 1 }' log || bad "status: more than 80 columns: $(cat log)"
done
for line in "where   process $pid on " 'since   ' 'seen    ' 'at      sweep [0-9]* of 1000000, mode [123] of 3, ' \
    'rate    .* nonzeros/s$' 'left    .* of the sweep, at most .* of the run$' 'fit     0[.][0-9]* after sweep '; do
    grep -q "^  $line" log || bad "status: no '$line' in: $(cat log)"
done
"$bin/tstream" status y.cp --json > status.json
json_is status.json "s['found'] == 'running' and s['alive'] is True and s['pid'] == $pid and s['options']['rank'] == 3"
ends $pid
if [ -e y.cp.partial ] && ! grep -q '"state":"stopped"' y.cp.partial/status.json; then
    bad "cp: left $(ls y.cp.partial)"
fi
rm -rf y.cp.partial
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 2 --output z.cp > log 2> told || bad "cp: $(cat told)"
if [ -e z.cp/status.json ]; then bad "cp: a status of a run that has ended"; fi
"$bin/tstream" status z.cp > log
grep -q '^z.cp: ended (not converged)$' log || bad "status: $(cat log)"
grep -q '^  fit     0[.][0-9]* after 2 sweeps$' log || bad "status: $(cat log)"
"$bin/tstream" status z.cp --json > status.json
json_is status.json "s['found'] == 'ended' and s['alive'] is False and 0 < s['fit'] < 1"
rm -r z.cp
refused 1 "z.cp: there is no run of tstream cp, neither under way nor ended" "$bin/tstream" status z.cp
refused 1 "which run? There is no *.cp" "$bin/tstream" status

# ---- a run that died says so, and one whose status is damaged harms nobody ----
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 1000000 --tol 0 --output y.cp > table 2> told &
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
for _ in $(seq 1200); do
    sleep 0.1
    if ! [ -e w.tsh.building ]; then continue; fi # not before it listens
    kill -USR1 $pid 2> kills || break
    # not the line of a phase that has just begun, which knows of no time that is left
    if grep -q ' tshard gen: phase 1/7, reading: [0-9]* %, left ' told; then break; fi
done
ends $pid
grep -q '^[0-9-]* [0-9:]* tshard gen: phase 1/7, reading: [0-9]* %, left ' told ||
    bad "build: SIGUSR1 said $(head -n 5 told)"

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
    python3 - "$bin/tshard" << 'EOP' || bad "build: the line of a terminal stands still"
import os, pty, re, select, sys, time
# A pipe that stays open gives nothing until four lines have come, then two nonzeros, then nothing until four more have.
to_read, to_write = os.pipe()
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.dup2(to_read, 0)
    os.close(to_write)
    os.execl(sys.argv[1], "tshard", "build", "-f", "-o", "w.tsh", "-")
os.close(to_read)
text = b""
def lines():
    all = text.decode(errors="replace").replace("\r", "\n").replace("\x1b[K", "").split("\n")
    return [l for l in all if "reading" in l or "opening" in l]
def read_until(n): # when each line came; a minute at most for each
    global text
    times = []
    while len(set(lines())) < n and select.select([fd], [], [], 60)[0]:
        had = len(set(lines()))
        text += os.read(fd, 4096)
        if len(set(lines())) > had:
            times.append(time.monotonic())
    return times
times = read_until(4)
os.write(to_write, b"1 1 1 1\n2 2 2 2\n")
had = len(set(lines()))
times += read_until(had + 4)
os.close(to_write)
try:
    while more := os.read(fd, 4096):
        text += more
except OSError:
    pass
os.waitpid(pid, 0)
if len(set(lines())) < had + 4 or any(re.search(r" 0 B| 0[.]00", l) for l in lines()):
    sys.exit(f"lines: {lines()}")
gaps = [b - a for a, b in zip(times, times[1:])]
if min(gaps[:3]) > 1.9 or min(gaps[-3:]) > 1.9: # a busy machine delays one, and then the next comes the sooner
    sys.exit(f"seconds between lines: {gaps}")
EOP
fi

# ---- every command can be quiet ----
for command in 'build -q a.tns' 'gen -q -o g.tsh --nnz 1000' 'export -q x.tsh' 'verify -q x.tsh'; do
    printf '1 1 1 1\n' > a.tns
    # shellcheck disable=SC2086 # words
    "$bin/tshard" $command > log 2> told || bad "tshard $command: $(cat told)"
    if [ -s told ]; then bad "tshard $command: $(cat told)"; fi
done
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 2 --output z.cp > log 2> told || bad "cp -q: $(cat told)"
for command in 'top z.cp x.tsh' 'mttkrp x.tsh --cpu' devices; do
    # shellcheck disable=SC2086 # words
    "$bin/tstream" $command --quiet > log 2> told || bad "$command -q: $(cat told)"
    if [ -s told ]; then bad "$command -q: $(cat told)"; fi
done
exit $failed
