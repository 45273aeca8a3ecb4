#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tshard from the outside: what it is given it does or refuses with one sentence and exit 1 (2 for
# wrong usage); nothing half-made is left, and nothing is destroyed.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

printf '%s\n' '# three' '1 2 3 4.5' '' '2 1 1 -1' '2 1 1 2' > x.tns

# ---- build ----
"$bin/tshard" build x.tns > log || bad "build: $(cat log)"
grep -q 'read 3, merged 1 duplicate, dropped 0 zeros' log || bad "build: $(cat log)"
refused 1 "x.tsh exists; use --force to replace it" "$bin/tshard" build x.tns
"$bin/tshard" build x.tns --duplicates keep -o keep.tsh > log || bad "build: $(cat log)"
grep -q 'read 3, kept 1 duplicate, dropped 0 zeros' log || bad "build: $(cat log)"
gzip -c x.tns | "$bin/tshard" build - --force -o x.tsh > log || bad "build -: $(cat log)"
printf '\357\273\277# marked\r\n1 2 3 4.5\r\n2 1 1 1\r\n' > marked.tns # as editors on Windows do
"$bin/tshard" build marked.tns > log 2>&1 || bad "build: $(cat log)"
refused 2 "standard input has no name" "$bin/tshard" build -
refused 2 "option '--output': its value is empty" "$bin/tshard" build x.tns -o ''
refused 2 "--map 1=: expected K=FILE" "$bin/tshard" build x.tns -o y.tsh --map 1=
refused 1 "--map names mode 4, but x.tns has 3 modes" \
    "$bin/tshard" build x.tns -o y.tsh --map 4=x.tns
refused 1 "no/such: cannot create a temporary file" "$bin/tshard" build x.tns -o y.tsh --tmp no/such
echo '1 1 1 1e200' > huge.tns
refused 1 "add up beyond the range of float64" \
    "$bin/tshard" build huge.tns --values float64
[ ! -e huge.tsh ] || bad "build: a tensor that cannot be opened"

# ---- export ----
"$bin/tshard" export x.tsh > exported
[ "$(tr '\n' ';' < exported)" = '1 2 3 4.5;2 1 1 1;' ] || bad "export: $(cat exported)"
"$bin/tshard" export x.tsh -o out.gz
gzip -dc out.gz | cmp -s - exported || bad "export: not the same when compressed"
for to in x.tsh/index ./x.tsh/mode1.shards "$tmp/x.tsh/new"; do
    refused 1 "lies in the tensor x.tsh itself" "$bin/tshard" export x.tsh -o "$to"
done
"$bin/tshard" verify -q x.tsh || bad "export: touched the tensor"
refused 1 "no/such/place.partial: cannot be created" "$bin/tshard" export x.tsh -o no/such/place
refused 1 "x.tsh exists, and it is read as x.tsh" "$bin/tshard" export x.tsh -o x.tsh
mkdir there
refused 1 "there: is a directory" "$bin/tshard" export x.tsh -o there
mkdir elsewhere # a link stays one, and its file is replaced as a whole
"$bin/tshard" export x.tsh -m 2 -o elsewhere/file
ln -s elsewhere/file link
"$bin/tshard" export x.tsh --force -o link
[ -L link ] || bad "export: replaced a link"
cmp -s elsewhere/file exported || bad "export: not written through a link"
ln -s nowhere dangling
refused 1 "dangling: is a link that leads to nothing" "$bin/tshard" export x.tsh -o dangling
if [ -L /dev/stdout ]; then
    "$bin/tshard" export x.tsh -o /dev/stdout > piped
    [ -L /dev/stdout ] || bad "export: replaced /dev/stdout"
    cmp -s piped exported || bad "export: not written to /dev/stdout"
fi

refused 1 "elsewhere/file exists; use --force to replace it, or --output to name another file" \
    "$bin/tshard" export x.tsh -o link

# ---- gen ----
"$bin/tshard" gen --nnz 50000 --dims 70x80x90 -o g.tns
"$bin/tshard" gen --nnz 50000 --dims 70x80x90 -o g.tns.gz
refused 1 "g.tns exists; use --force" "$bin/tshard" gen --nnz 500 -o g.tns
[ "$(wc -l < g.tns)" -eq 50000 ] || bad "gen: not 50000 lines"
gzip -dc g.tns.gz | cmp -s - g.tns || bad "gen: not the same when compressed"
"$bin/tshard" gen --nnz 500 --dims 70x80x90 -o g.tsh/ > log 2>&1 || bad "gen: $(cat log)"
"$bin/tshard" verify -q g.tsh || bad "gen: no tensor in g.tsh/"
cp g.tns before
# A file-size limit stands for the full disk. ThreadSanitizer writes a file of 512 KiB of its own first.
got=0
(ulimit -f 1200 && exec "$bin/tshard" gen --nnz 200000 --force -o g.tns) > out 2> err || got=$?
[ "$got" -eq 1 ] || bad "gen: exit $got on a full disk: $(cat err)"
cmp -s g.tns before || bad "gen: a failure touched what was there"
refused 2 "--planted and --law exclude each other" \
    "$bin/tshard" gen --planted 3 --law power:1 -o h.tsh
refused 2 "--noise is for --planted and --ratings" "$bin/tshard" gen --noise 0.1 -o h.tsh
refused 2 "--truth is for --planted and --ratings" "$bin/tshard" gen --truth t.ktensor -o h.tsh
refused 2 "3 planted blocks hold at most 120000 nonzeros in these sizes" \
    "$bin/tshard" gen --planted 3 --dims 60x50x40 --nnz 130000 -o h.tsh
# planted blocks hold what was asked for, and what was planted is written: it has the fit that it promises
for nnz in 8000 40000 100000 120000; do
    "$bin/tshard" gen --planted 3 --noise 0.1 --dims 60x50x40 --nnz $nnz -f -o p.tsh --truth p.ktensor > log
    made=$(sed -n '1s/.*, \(.*\) nonzeros$/\1/p' log | tr -d ,)
    [ "$made" -le $nnz ] && [ "$made" -ge $((nnz * 94 / 100)) ] || bad "gen --planted --nnz $nnz: $(cat log)"
    grep -q 'merged 0 duplicates' log || bad "gen --planted: blocks share cells: $(cat log)"
    "$bin/tstream" fit p.ktensor p.tsh --cpu | grep -qE '^fit 0[.](90|89)' || bad "gen --truth: $("$bin/tstream" fit p.ktensor p.tsh --cpu)"
done
"$bin/tshard" gen --planted 3 --dims 60x50x40 --nnz 120000 --values float64 -o p.txt.gz --truth p.ktensor.gz
gunzip p.txt.gz p.ktensor.gz -c > /dev/null || bad "gen --truth: .gz"
"$bin/tshard" gen --planted 3 --dims 60x50x40 --nnz 100000 --values float64 -f -o p.tsh --truth p.ktensor > log
"$bin/tstream" fit p.ktensor p.tsh --cpu | grep -q '^fit [10][.][09]\{6\}' || bad "gen --truth without noise: $("$bin/tstream" fit p.ktensor p.tsh --cpu)"
refused 1 "p.ktensor exists" "$bin/tshard" gen --planted 3 --dims 60x50x40 --nnz 1000 -o q.tsh --truth p.ktensor
[ ! -e q.tsh ] || bad "gen: made a tensor without its truth"
"$bin/tshard" gen --planted 3 --dims 60x50x40 --nnz 1000 -o p.tsh --truth r.ktensor > log 2>&1 && bad "gen: replaced p.tsh"
[ ! -e r.ktensor ] || bad "gen: wrote the truth of nothing"

# ---- threads ----
for command in "build x.tns -o h.tsh" "verify x.tsh" "export x.tsh" "gen --nnz 10 -o h.tsh"; do
    # shellcheck disable=SC2086
    refused 2 "--threads must be at most 1024" "$bin/tshard" $command --threads 100000
done

# ---- files of the user ----
mkdir prec.tsh notes.tsh
echo precious > prec.tsh/index # named like ours
refused 1 "prec.tsh holds index, which is not a file of a tensor" "$bin/tshard" build --force x.tns -o prec.tsh
[ "$(cat prec.tsh/index)" = precious ] || bad "build --force: destroyed prec.tsh/index"
"$bin/tshard" build --force x.tns -o notes.tsh > log 2>&1 || bad "build into an empty directory: $(cat log)"
echo mine > notes.tsh/NOTES
refused 1 "notes.tsh holds NOTES, which is not a file of a tensor" \
    "$bin/tshard" build --force x.tns -o notes.tsh
[ "$(cat notes.tsh/NOTES)" = mine ] || bad "build --force: NOTES is gone"
"$bin/tshard" verify -q notes.tsh || bad "build --force: touched notes.tsh"
mkdir -p odd.tsh/index
refused 1 "odd.tsh holds index, which is not a file of a tensor" "$bin/tshard" build --force x.tns -o odd.tsh

# ---- a pipe that nobody writes to, in place of a file ----
mkdir pipe.tsh
mkfifo pipe.tsh/index
refused 1 "pipe.tsh/index: not a file" timeout 10 "$bin/tshard" info pipe.tsh
refused 1 "pipe.tsh/index: not a file" timeout 10 "$bin/tshard" verify pipe.tsh
refused 1 "pipe.tsh/index: not a file" timeout 10 "$bin/tshard" export pipe.tsh
refused 1 "pipe.tsh/index: not a file" timeout 10 "$bin/tstream" cp pipe.tsh --cpu
refused 1 "pipe.tsh holds index" timeout 10 "$bin/tshard" build --force x.tns -o pipe.tsh

# ---- killed, it leaves what the next one clears ----
for try in 1 2 3; do
    "$bin/tshard" gen --nnz 2M -o k.tns &
    pid=$!
    sleep 0.0$try
    kill -9 $pid 2> err || true
    wait $pid 2> err || true
done
"$bin/tshard" gen --nnz 500 -o k.tns
[ "$(ls -d k.tns*)" = k.tns ] || bad "gen: left $(ls -d k.tns*)"

# ---- readers and disks that end early ----
"$bin/tshard" build --force x.tns 2> err | head -n 0 # the result is there, whoever reads the report
[ ! -s err ] || bad "build | head: $(cat err)"
"$bin/tshard" gen --nnz 50000 -o - 2> err | head -n 1 > out
[ ! -s err ] || bad "gen | head: $(cat err)"
if [ -c /dev/full ]; then
    got=0
    "$bin/tshard" build --force x.tns > /dev/full 2> err || got=$?
    [ "$got" -eq 1 ] || bad "build: exit $got when it cannot print"
    grep -q 'x.tsh is in place, but standard output cannot be written: No space left' err ||
        bad "build: $(cat err)"
    "$bin/tshard" verify -q x.tsh || bad "build: not in place when it cannot print"
    got=0
    "$bin/tshard" info x.tsh > /dev/full 2> err || got=$?
    [ "$got" -eq 1 ] || bad "info: exit $got when it cannot print"
    grep -q 'standard output: cannot be written: No space left' err || bad "info: $(cat err)"
fi
exit $failed
