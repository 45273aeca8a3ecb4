#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream from the outside: cp, top and mttkrp do what their help says, and refuse with one sentence
# and exit 1 (2 for wrong usage), leaving nothing half-made.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# ---- no operand ----
refused 1 "There is no *.tsh in the current directory" "$bin/tstream" cp
"$bin/tshard" gen --planted 3 --noise 0.1 --dims 60x50x40 --nnz 60000 -o x.tns > log 2>&1
for i in $(seq 60); do echo "thing $i"; done > x.mode1.map
"$bin/tshard" build x.tns > log 2>&1
"$bin/tstream" cp --cpu -r 3 -i 8 --tol 0 > log
grep -q '^ *8 ' log || bad "cp: no eighth sweep: $(cat log)"
grep -q 'factors in x.cp$' log || bad "cp: does not say where: $(cat log)"
[ -s x.cp/model.ktensor ] || bad "cp: no model.ktensor"

# ---- the record for programs ----
"$bin/tstream" cp --cpu -r 3 -i 8 --tol 0 --json --output y.cp --format ktensor,npy,splatt > json
[ "$(grep -c '^{"event":"sweep","sweep":[0-9]*,"fit":0[.][0-9]*,' json)" -eq 8 ] ||
    bad "cp --json: not eight sweeps: $(cat json)"
tail -n 1 json | grep -q '^{"event":"done",' || bad "cp --json: the last event is not done"
for f in model.ktensor weights.npy mode1.npy mode3.npy lambda.mat mode2.mat; do
    [ -s y.cp/$f ] || bad "cp: no $f"
done
cmp -s x.cp/model.ktensor y.cp/model.ktensor || bad "cp: not the same bytes twice"

# ---- the same bytes from shuffled input, another memory, other threads and budgets ----
sort -R --random-source=x.tns x.tns > shuffled.tns
"$bin/tshard" build shuffled.tns --memory 64M -o z.tsh --shard 64K > log 2>&1 || bad "build: $(cat log)"
for threads in 1 2 3 7; do
    "$bin/tstream" cp z.tsh --cpu -r 3 -i 8 --tol 0 --threads $threads --force --output z.cp > log
    cmp -s x.cp/model.ktensor z.cp/model.ktensor || bad "cp: other bytes with $threads threads"
done
"$bin/tstream" cp z.tsh --cpu -r 3 -i 8 --tol 0 --host-memory 200K --force --output z.cp > log 2>&1 || bad "cp: $(cat log)"
cmp -s x.cp/model.ktensor z.cp/model.ktensor || bad "cp: other bytes when streamed"
refused 1 "which tensor? There are x.tsh, z.tsh" "$bin/tstream" cp

# ---- nothing is overwritten ----
cp x.cp/model.ktensor before
refused 1 "x.cp exists; use --force to replace it, --resume x.cp to go on from it, or --output to name another" \
    "$bin/tstream" cp x.tsh --cpu -r 3 -i 1
cmp -s before x.cp/model.ktensor || bad "cp without --force: touched x.cp"
"$bin/tstream" cp x.tsh --cpu -r 3 -i 8 --tol 0 --force > log || bad "cp --force: $(cat log)"
cmp -s before x.cp/model.ktensor || bad "cp --force: other bytes"
echo old > there.json
refused 1 "there.json exists; use --force to replace it, or --trace to name another file" \
    "$bin/tstream" cp x.tsh --cpu -r 3 -i 1 -n --trace there.json
refused 1 "there.json exists; use --force" "$bin/tstream" mttkrp x.tsh --cpu --reps 1 --trace there.json
[ "$(cat there.json)" = old ] || bad "--trace without --force: touched there.json"
refused 1 "nothing shows that it is as this program wrote it" "$bin/tstream" mttkrp x.tsh --cpu --reps 1 --force --trace there.json
[ "$(cat there.json)" = old ] || bad "--trace --force: touched a file of the user"
rm there.json
"$bin/tstream" mttkrp x.tsh --cpu --reps 1 --trace there.json > log
"$bin/tstream" mttkrp x.tsh --cpu --reps 1 --force --trace there.json > log || bad "mttkrp --force: $(cat log)"
grep -q traceEvents there.json || bad "mttkrp --force: no trace"

# ---- a state of a run that did not end is dropped by --force alone ----
mkdir s.cp.partial
printf TSHSTATE > s.cp.partial/state.0
got=0
"$bin/tstream" cp x.tsh --cpu -r 3 -i 1 --output s.cp > out 2> err || got=$?
[ "$got" -eq 1 ] || bad "cp over a state: exit $got"
for word in --resume --force --output; do
    grep -q -e "s.cp.partial holds the state of a run that did not end;.*$word" err ||
        bad "cp over a state: no $word in: $(cat err)"
done
[ "$(ls s.cp.partial)" = state.0 ] || bad "cp over a state: left $(ls s.cp.partial)"
"$bin/tstream" cp x.tsh --cpu -r 3 -i 1 --force --output s.cp > log || bad "cp --force: $(cat log)"
if [ -e s.cp.partial ] || [ -e s.cp/state.0 ]; then bad "cp --force: the state is still there"; fi

# ---- going on from a result ----
"$bin/tstream" cp x.tsh --cpu -r 3 -i 1 --init x.cp --json --no-output > json
"$bin/tstream" cp x.tsh --cpu -r 3 -i 9 --tol 0 --json --no-output > all
a=$(sed -n 's/.*"sweep":1,"fit":\([0-9.]*\).*/\1/p' json)
b=$(sed -n 's/.*"sweep":9,"fit":\([0-9.]*\).*/\1/p' all)
awk -v a="$a" -v b="$b" 'BEGIN { d = a - b; exit !(d < 1e-5 && d > -1e-5) }' ||
    bad "cp --init: fit $a, expected $b"
refused 1 "x.cp: the model has rank 3, but --rank is 4" "$bin/tstream" cp x.tsh --cpu -n -r 4 --init x.cp
refused 1 "--init nothere: a start is random, nvecs or a file or directory of factors" "$bin/tstream" cp x.tsh --cpu --init nothere

# ---- top ----
"$bin/tstream" top x.cp x.tsh -n 2 > log
[ "$(grep -c '^component' log)" -eq 3 ] || bad "top: not three components: $(cat log)"
grep -q 'thing [0-9]' log || bad "top: no names: $(cat log)"
"$bin/tstream" top y.cp x.tsh -n 2 -c 1 -k 1 --json > json
grep -q '^{"component":1,"weight":.*"label":"thing [0-9]*"' json || bad "top --json: $(cat json)"
sed '1s/.*/\x1b[31m\tred/; 2s/.*//; 3s/.*/\xc3\xa9\xc3\xa9\xc3\xa9 and more/' x.mode1.map > escape.map # nothing of a label acts on a terminal
"$bin/tshard" build x.tns -o e.tsh --map 1=escape.map > log 2>&1
"$bin/tstream" top x.cp/model.ktensor e.tsh -n 60 -c 1 -k 1 > log
grep -q '  ?\[31m?red *$' log || bad "top: $(cat log)"
"$bin/tstream" top x.cp/model.ktensor e.tsh -n 60 -c 1 -k 1 -w 6 > narrow
LC_ALL=C grep -q "  $(printf '\303\251\303\251\303\251 a\342\200\246')\$" narrow || bad "top: $(cat narrow)"
grep -q '  2 *$' log || bad "top: no number for an empty name: $(cat log)"
# every index, for a spreadsheet: as many as rows, in the order of magnitude, with names quoted
"$bin/tstream" top x.cp/model.ktensor e.tsh -n 4294967295 -c 1 -k 1 --csv > csv
[ "$(head -1 csv)" = component,weight,mode,mode_name,position,index,label,value ] || bad "top --csv: $(head -1 csv)"
[ "$(sed 1d csv | wc -l)" -eq 60 ] || bad "top --csv: $(wc -l < csv) lines"
sed '1d; s/.*,-*//' csv | sort -c -gr || bad "top --csv: not sorted: $(cat csv)"
[ "$(sed 1d csv | cut -d, -f6 | sort -u | wc -l)" -eq 60 ] || bad "top --csv: an index twice"
refused 2 "--csv and --json exclude each other" "$bin/tstream" top x.cp --csv --json
refused 2 "--count must be at least 1" "$bin/tstream" top x.cp -n 0
rm -r e.tsh
# a reader that has seen enough is no failure to speak of
{ "$bin/tstream" top x.cp -n 4294967295 --csv 2> err; echo $? > status; } | true
[ ! -s err ] || bad "top: a closed pipe is said: $(cat err)"
# the tensor that run.json names is found from elsewhere, unless it is another one now
mkdir away
mv x.tsh x.cp away
"$bin/tstream" cp away/x.tsh --cpu -r 2 -i 1 -o there.cp > log
mkdir empty
(cd empty && "$bin/tstream" top ../there.cp -n 2) > labelled
rm there.cp/labels # as of 0.2.0
(cd empty && "$bin/tstream" top ../there.cp -n 2) > log
cmp -s labelled log || bad "top: other names with the file of labels: $(cat labelled)"
grep -q 'thing [0-9]' log || bad "top: no names from the tensor of run.json: $(cat log)"
# a record as of 0.2.0, which has no checksum of its own and may be edited
sed 's/"checksum":"[0-9a-f]*"/"checksum":"0123456789abcdef"/; s/,"file_version":[0-9]*,"file_checksum":"[0-9a-f]*"//' \
    there.cp/run.json > other.json
mv other.json there.cp/run.json
(cd empty && "$bin/tstream" top ../there.cp -n 2) > log
grep -q 'thing [0-9]' log && bad "top: names of another tensor"
mv away/x.tsh away/x.cp .
rm -r there.cp
refused 1 "no decomposition" "$bin/tstream" top x.tsh x.tsh/.
refused 1 "there is no mode 7, only 3" "$bin/tstream" top x.cp x.tsh -k 7

# ---- mttkrp ----
for mode in 1 2 3; do
    for precision in float32 float64; do
        "$bin/tstream" mttkrp z.tsh --cpu --mode $mode --reps 2 --check --precision $precision \
            --host-memory 200K > log || bad "mttkrp: $(cat log)"
        grep -q '^check: off by' log || bad "mttkrp --check: $(cat log)"
    done
done
refused 1 "there is no mode 4, only 3" "$bin/tstream" mttkrp x.tsh --cpu --mode 4

# ---- where time went ----
json_ok() # FILE, where there is a program that can tell
{
    if command -v python3 > python; then python3 -m json.tool "$1" > parsed || bad "no JSON: $1"; fi
}
"$bin/tstream" cp x.tsh --cpu -r 3 -i 2 --tol 0 --no-output --details --trace cp.json > log
[ "$(grep -c '^ *[123] *CPU .* 100.00 %$' log)" -eq 6 ] || bad "cp --details: $(cat log)"
json_ok cp.json
[ "$(grep -c '"ph":"X".*"name":"product","ts":[0-9.]*,"dur":[0-9.]*,"args":{"mode":[123]}' cp.json)" \
    -eq 6 ] || bad "cp --trace: $(cat cp.json)"
"$bin/tstream" cp x.tsh --cpu -r 3 -i 2 --tol 0 --no-output --json > json
[ "$(grep -c '^{"event":"mode","sweep":[12],"mode":[123],.*"devices":\[{"gpu":null,"nnz":' json)" -eq 6 ] ||
    bad "cp --json: no six modes: $(cat json)"
[ "$(grep -c '"event":"sweep".*"exposed_seconds":0,"imbalance":1,' json)" -eq 2 ] ||
    bad "cp --json: no imbalance: $(cat json)"
"$bin/tstream" mttkrp x.tsh --cpu --reps 2 --details --trace mttkrp.json > log
[ "$(grep -c '^ *1 *CPU ' log)" -eq 2 ] || bad "mttkrp --details: $(cat log)"
json_ok mttkrp.json
"$bin/tstream" mttkrp x.tsh --cpu --reps 1 --json > json
grep -q '"event":"mttkrp".*"devices":\[{"gpu":null,' json || bad "mttkrp --json: $(cat json)"
refused 1 "no/such/t.json.partial: cannot be created" \
    "$bin/tstream" cp x.tsh --cpu -n --trace no/such/t.json
refused 1 "x.tsh exists, and it is read as x.tsh" "$bin/tstream" mttkrp x.tsh --cpu --trace x.tsh
"$bin/tstream" mttkrp x.tsh --cpu --reps 1 --trace kept.json > log
cp kept.json old.json
refused 1 "two of them must fit" "$bin/tstream" cp x.tsh --cpu --host-memory 8K --force --trace kept.json
if ! cmp -s kept.json old.json || [ -e kept.json.partial ]; then bad "a failed run touched a trace"; fi

# ---- without standard output, or with one that ends early ----
got=0
"$bin/tstream" cp x.tsh --cpu -r 3 -i 2 --no-output --trace closed.json >&- 2> err || got=$?
[ "$got" -eq 1 ] || bad "cp >&-: exit $got"
grep -q 'standard output: cannot be written' err || bad "cp >&-: $(cat err)"
[ ! -e closed.json ] || json_ok closed.json
got=0
"$bin/tstream" cp x.tsh --cpu -r 3 -i 2 --output closed.cp <&- >&- 2> err || got=$?
[ "$got" -eq 1 ] || bad "cp >&-: exit $got"
grep -q 'closed.cp is in place, but standard output cannot be written' err || bad "cp >&-: $(cat err)"
[ -s closed.cp/model.ktensor ] || bad "cp >&-: no factors"
(got=0
 "$bin/tstream" cp x.tsh --cpu -r 3 -i 2 --output piped.cp 2> err || got=$?
 echo $got > status) | true
[ "$(cat status)" -eq 0 ] || bad "cp | true: exit $(cat status): $(cat err)"
[ -s piped.cp/model.ktensor ] || bad "cp | true: no factors"

# ---- which GPUs ----
for gpus in x -1 1x 99999999999999999999; do
    refused 2 "--gpus $gpus: how many GPUs (2), or their numbers" "$bin/tstream" cp x.tsh --gpus "$gpus"
done
for gpus in ',' '1,,2' ',1' '0,x' '0,-1'; do
    refused 2 "--gpus $gpus: numbers of GPUs with commas" "$bin/tstream" mttkrp x.tsh --gpus "$gpus"
done
refused 2 "--gpus 1,0,1: GPU 1 is named twice" "$bin/tstream" cp x.tsh --gpus 1,0,1
refused 2 "at most 16 GPUs" "$bin/tstream" cp x.tsh --gpus 17
refused 2 "--cpu and --gpus 2, exclude each other" "$bin/tstream" cp x.tsh --cpu --gpus 2,
refused 1 "--gpus 4000000,: " "$bin/tstream" cp x.tsh -n --gpus 4000000,
"$bin/tstream" cp x.tsh --gpus 0 -r 3 -i 2 --no-output --json > json
grep -q '"backend":"cpu",.*"gpus":\[\],"library_bytes":0,' json || bad "cp --gpus 0: $(cat json)"

# ---- threads ----
for command in cp mttkrp; do
    refused 2 "--threads must be at most 1024" "$bin/tstream" $command x.tsh --cpu --threads 100000
done
limited() # what OpenMP would end the program for: stacks beyond the address space
{
    (ulimit -v 500000 && exec "$@")
}
if limited "$bin/tstream" --version > log 2>&1; then # under sanitizers nothing runs within a limit
    rm -rf l.cp
    refused 1 "threads can be started" limited "$bin/tstream" cp x.tsh --cpu --threads 500 --output l.cp
    refused 1 "threads can be started" limited "$bin/tshard" verify x.tsh --threads 500
    refused 1 "threads can be started" limited "$bin/tshard" export x.tsh -o l.tns --threads 500
    limited "$bin/tstream" cp x.tsh --cpu -r 3 -i 8 --tol 0 --output l.cp > log 2>&1 ||
        bad "cp within a limit: $(cat log)"
    cmp -s x.cp/model.ktensor l.cp/model.ktensor || bad "cp: other bytes within a limit"
    rm -rf l.cp
fi

# ---- what is refused ----
refused 2 "did you mean '--rank'" "$bin/tstream" cp x.tsh --rnak 3
refused 2 "--iters must be at least 1" "$bin/tstream" cp x.tsh --iters 0
refused 2 "--rank must be 1 to" "$bin/tstream" cp x.tsh --rank 0
refused 2 "format \"matlab\" is not known" "$bin/tstream" cp x.tsh --format matlab
refused 1 "lies in the tensor x.tsh itself" "$bin/tstream" cp x.tsh --cpu --output ./x.tsh/factors/
refused 1 "lies in the tensor x.tsh itself" "$bin/tstream" mttkrp x.tsh --cpu --trace x.tsh/index
refused 1 "two of them must fit" "$bin/tstream" cp x.tsh --cpu -n --host-memory 8K
for command in 'cp -n' mttkrp; do
    # shellcheck disable=SC2086
    refused 1 "--host-memory: 1.00 PiB is more than there is: " "$bin/tstream" $command x.tsh --cpu -m 1024T
done
refused 1 "nothere" "$bin/tstream" cp nothere --cpu
refused 1 "x.tns" "$bin/tstream" cp x.tns --cpu
mkdir other
touch other/precious
refused 1 "holds precious" "$bin/tstream" cp x.tsh --cpu --output other
[ -e other/precious ] || bad "cp: removed other/precious"
refused 1 "cannot be created" "$bin/tstream" cp x.tsh --cpu --output no/such/place
mkdir real # a link to a directory is followed, before the work and not after it
ln -s real link
for times in once again; do
    "$bin/tstream" cp x.tsh --cpu -r 3 -i 1 --force --output link/ --trace real.json > log 2>&1 ||
        bad "cp --output link, $times: $(cat log)"
    [ -L link ] && [ -s real/model.ktensor ] || bad "cp: not written through a link, $times"
done
ln -s real.json link.json
"$bin/tstream" cp x.tsh --cpu -r 3 -i 1 --no-output --force --trace link.json > log 2>&1
[ -L link.json ] || bad "cp --trace: replaced a link"
ln -s nowhere dangling
refused 1 "dangling: is a link that leads to nothing" "$bin/tstream" cp x.tsh --cpu --output dangling
refused 1 "a file system is mounted there" "$bin/tstream" cp x.tsh --cpu --output /proc
mkdir here
(cd here && "$bin/tstream" cp ../x.tsh --cpu -r 3 -i 1 --output . > ../log 2>&1) || bad "cp --output .: $(cat log)"
[ -n "$(ls here)" ] || bad "cp --output .: nothing there"
refused 1 "is not a directory" "$bin/tstream" cp x.tsh --cpu --output /dev/null
if ls -d ./*.partial > left 2> err; then bad "cp: left $(cat left)"; fi

# A flipped byte is found before use, and what was there stays.
cp x.cp/model.ktensor before
cp -r x.tsh d.tsh
printf 'X' | dd of=d.tsh/mode2.shards bs=1 seek=777 conv=notrunc 2> log
refused 1 "d.tsh/mode2.shards: shard 0 at byte 0: the checksum" "$bin/tstream" cp d.tsh --cpu --force --output x.cp
cmp -s before x.cp/model.ktensor || bad "cp: a failed run touched what was there"
truncate -s 4096 d.tsh/mode3.shards
refused 1 "d.tsh/mode3.shards" "$bin/tstream" cp d.tsh --cpu

# A mode of 2^40 indices: whole factors are refused before the work, used rows are written.
printf '%s\n' '1 1 1 2' '1099511627776 2 3 4' '77 3 2 1' > w.tns
"$bin/tshard" build w.tns > log 2>&1 || bad "build: $(cat log)"
refused 1 "mode 1 with 1099511627776 rows of 2 columns takes at least" "$bin/tstream" cp w.tsh --cpu -r 2 --rows all
"$bin/tstream" cp w.tsh --cpu -r 2 > log 2>&1 || bad "cp of a huge mode: $(cat log)"
[ "$(tr '\n' ' ' < w.cp/mode1.index)" = '1 77 1099511627776 ' ] || bad "cp: $(cat w.cp/mode1.index)"
"$bin/tstream" top w.cp w.tsh -n 1 -k 1 > log
grep -q 1099511627776 log || bad "top: $(cat log)"
mkdir alone # where no tensor tells which index a row is
mv w.cp alone
"$bin/tstream" top alone/w.cp -n 3 -k 1 > log
for index in 1 77 1099511627776; do
    grep -q "  $index *\$" log || bad "top: no index $index: $(cat log)"
done

exit $failed
