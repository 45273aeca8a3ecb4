#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# docs/outputs.md names what is written: every member of every JSON object that the commands print or write
# is in its table there, with the type it has, and every member there is in an object here. The rows
# of GPUs ("GPU:") are held against the source where there is none. So are the files of a result.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
doc=$top/docs/outputs.md

# JSON, an object a line -> "path type" for each value; an object called options is not gone into.
cat > flatten.awk << 'AWK'
function blanks() { while (substr(text, at, 1) ~ /[ \t\n]/) at++ }
function string(    start) {
    start = ++at
    while ((c = substr(text, at, 1)) != "\"") { if (c == "") exit 3; at += c == "\\" ? 2 : 1 }
    return substr(text, start, at++ - start)
}
function put(path, type) { if (path != "" && !quiet) print path, type }
function value(path,    c, key, was) {
    blanks(); c = substr(text, at, 1)
    if (c == "{") {
        put(path, "object"); was = quiet
        if (path == "options") quiet = 1
        at++; blanks()
        while (substr(text, at, 1) != "}") {
            blanks(); key = string(); blanks(); at++
            value(path == "" ? key : path "." key)
            blanks(); if (substr(text, at, 1) == ",") at++
        }
        at++; quiet = was
    } else if (c == "[") {
        put(path, "array"); at++; blanks()
        while (substr(text, at, 1) != "]") {
            value(path "[]"); blanks(); if (substr(text, at, 1) == ",") at++; blanks()
        }
        at++
    } else if (c == "\"") { string(); put(path, "string") }
    else if (match(substr(text, at), /^-?[0-9.eE+-]+/)) { at += RLENGTH; put(path, "number") }
    else if (match(substr(text, at), /^(true|false)/)) { at += RLENGTH; put(path, "boolean") }
    else if (match(substr(text, at), /^null/)) { at += RLENGTH; put(path, "null") }
    else exit 3
}
{ text = $0; at = 1; value("") }
AWK

# "heading|path|types" of every row with three columns, "gpu" behind those of GPUs and of several ranks
awk '
    /^#+ / { heading = $0; sub(/^#+ /, "", heading) }
    /^\| `/ {
        row = $0; gsub(/\\\|/, "/", row); n = split(row, cell, "|")
        if (n != 5) next
        gpu = cell[4] ~ /^ *(GPU|ranks):/ ? "gpu" : ""
        while (match(cell[2], /`[^`]*`/)) {
            print heading "|" substr(cell[2], RSTART + 1, RLENGTH - 2) "|" cell[3] "|" gpu
            cell[2] = substr(cell[2], RSTART + RLENGTH)
        }
    }' "$doc" > rows
[ "$(wc -l < rows)" -gt 200 ] || bad "only $(wc -l < rows) members are found in $doc"

# is HEADING FILE...: the objects of these files are those of this table
is()
{
    heading=$1
    shift
    cat "$@" > objects
    [ -s objects ] || bad "$heading: nothing was printed"
    awk -f flatten.awk objects | sort -u > seen || bad "$heading: is no JSON: $(head -c 200 objects)"
    awk -F '|' -v heading="$heading" '
        FNR == NR { if ($1 == heading) { type[$2] = $3; gpu[$2] = $4; n++ } next }
        {
            split($0, word, " "); path = word[1]; kind = word[2]
            if (!(path in type) && kind == "array" && (path "[]" in type || path "[][]" in type)) next
            if (!(path in type)) print heading ": " path " (" kind ") is not in the table"
            else if (index(" " type[path] " ", " " kind " ") == 0)
                print heading ": " path " is a " kind ", the table says" type[path]
            found[path] = 1
        }
        END {
            if (n == 0) print heading ": there is no such table"
            for (path in type) if (!(path in found) && gpu[path] == "") print heading ": " path " is in the table alone"
        }' rows seen > wrong
    [ ! -s wrong ] || bad "$(cat wrong)"
}
event() { grep "^{\"event\":\"$1\"" "$2"; }

cp "$top"/examples/groceries.* .
"$bin/tshard" plan --json groceries.tns > plan1
is 'tshard plan' plan1
"$bin/tshard" build --json groceries.tns > build
"$bin/tshard" gen --json --dims 9x9x9 -n 20 -o x.tsh > gen
"$bin/tshard" split --json x.tsh --hold-out 40% > split
"$bin/tshard" select --json x.tsh --sum 3 -o y.tsh > select
is 'tshard build, gen, split, select' build gen split select
"$bin/tshard" info --json groceries.tsh > info
is 'tshard info' info
"$bin/tshard" verify --json groceries.tsh > verify
is 'tshard verify' verify

cp="$bin/tstream cp groceries.tsh --cpu --rank 2"
"$bin/tstream" plan --cpu --json groceries.tsh --rank 2 > plan2
"$bin/tstream" plan --cpu --json groceries.tsh --rank 2 --no-output >> plan2
is 'tstream plan' plan2
$cp --json --format ktensor,npy,splatt --rows used --save-init -o all.cp > cp
cp -r groceries.tsh grown.tsh
"$bin/tshard" append --json --repeat grown.tsh groceries.tns > append
is 'tshard append' append
"$bin/tshard" info --json grown.tsh > info.segments
is 'tshard info of several segments' info.segments
"$bin/tshard" verify --json grown.tsh > verify.segments
is 'tshard verify of several segments' verify.segments
"$bin/tshard" undo --json grown.tsh > undo
is 'tshard undo' undo
"$bin/tshard" drop --json grown.tsh --before "1=household 2" > drop
is 'tshard drop' drop
"$bin/tshard" info --json all.cp/mode1.npy > info.dense
is 'tshard info of a dense tensor' info.dense
$cp --json -n >> cp
$cp --json --rank 1,2 --restarts 2 --diagnose -o models.cp >> cp
for name in start mode sweep; do
    event $name cp > of
    is "tstream cp: $name" of
done
event 'done' cp > of
is 'tstream cp: done' of
event models cp > of
is 'tstream cp: models' of
$cp --json --rank 1,2 --folds 2 > folds
$cp --json --rank 1 --folds 2 --loss poisson --patience 1 -o folds.cp >> folds
event fold folds > of
is 'tstream cp: fold' of
event folds folds > of
is 'tstream cp: folds' of
"$bin/tstream" cp groceries.tsh --cpu --json --rank 2 --restarts 2 --nonneg --l1 0.01 -o penalties.cp > log 2>&1
"$bin/tstream" cp groceries.tsh --cpu --json --rank 1,2 -o ranks.cp > log 2>&1
is models.json models.cp/models.json penalties.cp/models.json ranks.cp/models.json folds.cp/models.json
# a run of the library leaves the same: one that ends, and one that its caller stops
library=$(dirname "$bin")/tests/library_run
"$library" groceries.tsh lib.cp 3 0 lib.status || bad "the library fails"
if "$library" groceries.tsh ended.cp 9 2 ended.status 2> err; then bad "a run of the library was not stopped"; fi
grep -q 'the state before sweep 3, mode 1 is in ended.cp.partial' err || bad "stopped: $(cat err)"
cat lib.cp/run.json ended.cp.partial/run.json > of
is run.json of all.cp/run.json
is run.json lib.cp/run.json
grep -q '"interface":"library".*"l2":"1=0.01".*"ended":"iterations"' lib.cp/run.json || bad "$(cat lib.cp/run.json)"
grep -q '"ended":"stopped by the caller"' ended.cp.partial/run.json || bad "$(cat ended.cp.partial/run.json)"
[ "$(grep -o '{"sweep":' lib.cp/run.json | wc -l)" -eq 3 ] || bad "not 3 sweeps: $(cat lib.cp/run.json)"
grep -q '^{"state":"running","sentence":null,' lib.status || bad "status: $(cat lib.status)"
grep -q '"state":"stopped","sentence":"stopped' ended.cp.partial/status.json || bad "$(cat ended.cp.partial/status.json)"
[ ! -e lib.cp/status.json ] || bad "a status beside a result"
"$bin/tstream" info lib.cp > of || bad "info: $(cat of)"
"$bin/tstream" status ended.cp > of || bad "status: $(cat of)"
grep -q stopped of || bad "status: $(cat of)"
"$bin/tstream" cp -q --cpu --resume ended.cp > of || bad "a run of the library does not go on"
grep -q '"interface":"program".*"sweeps_before":2,' ended.cp/run.json || bad "$(cat ended.cp/run.json)"
# a run that nothing ends: its status while it runs, and what it leaves
# shellcheck disable=SC2086
$cp --json --iters 1000000 --tol 0 --quiet -o long.cp > long &
pid=$!
seen=no
for _ in $(seq 100); do
    sleep 0.1
    if "$bin/tstream" status --json long.cp > now 2> err && grep -q '"sweep":[2-9]' now &&
        grep -q '"sweeps":\[{' long.cp.partial/status.json; then
        seen=yes
        break
    fi
done
[ $seen = yes ] || bad "a run shows no status: $(cat err)"
cp long.cp.partial/status.json status1
kill -TERM $pid
wait $pid || true
grep -q '"state":"stopped"' long.cp.partial/status.json || bad "a stopped run has another status"
$cp --json --iters 1000000 --tol 0 --quiet --restarts 2 -o several.cp > several &
pid=$!
while kill -0 $pid && ! grep -q '"sweeps":\[{' several.cp.partial/status.json 2> /dev/null; do sleep 0.1; done
kill -TERM $pid
wait $pid || true
is status.json lib.status status1 long.cp.partial/status.json several.cp.partial/status.json
sed 's/,"found":.*/}/' now > of
is status.json of
sed -n 's/.*\(,"found":"[a-z]*","alive":[a-z]*,"resumable":[a-z]*}\)$/\1/p' now | grep -q . ||
    bad "tstream status: $(tail -c 100 now)"
cat long several | grep '^{"event":"stopped"' > of
is 'tstream cp: stopped' of
"$bin/tstream" status --json all.cp > of
"$bin/tstream" status --json models.cp >> of
is 'tstream status' of

"$bin/tstream" fit --json all.cp groceries.tsh > of
"$bin/tstream" fit --json --diagnose all.cp groceries.tsh >> of
is 'tstream fit' of
"$bin/tstream" compare --json all.cp all.cp > of
"$bin/tstream" compare --json --skip 1 all.cp all.cp >> of
is 'tstream compare' of
rm -rf foreign.cp
mkdir foreign.cp
cp all.cp/model.ktensor foreign.cp
"$bin/tstream" info --json foreign.cp > of
is 'tstream info' of
"$bin/tstream" top --json all.cp groceries.tsh > of
"$bin/tstream" cp x.tsh --cpu --rank 1 -q > x.out
"$bin/tstream" top --json x.cp x.tsh >> of
is 'tstream top' of
"$bin/tstream" predict --json all.cp groceries.tns -o cells.tns > of
echo '1 1 1' | "$bin/tstream" predict --json all.cp - >> of
is 'tstream predict' of
"$bin/tstream" score --json all.cp groceries.tsh -o scores.tns > of
"$bin/tstream" cp groceries.tsh --cpu --rank 1 --nonneg -q -o above.cp > log
"$bin/tstream" score --json above.cp groceries.tsh >> of
is 'tstream score' of
"$bin/tstream" mttkrp --cpu --json --check --rank 2 groceries.tsh > of
is 'tstream mttkrp' of
"$bin/tstream" devices --json > of
is 'tstream devices' of

# members of GPUs: their names are in the source
grep '|gpu$' rows | cut -d '|' -f 2 | sed 's/.*[.]//; s/\[\]//g' | sort -u | while read -r name; do
    grep -rq --include='*.c' "\"$name\"" "$top/tools" || echo "$name"
done > wrong
[ ! -s wrong ] || bad "in no source: $(cat wrong)"

# the files of a result
ls all.cp > files
while read -r file; do
    general=$(echo "$file" | sed 's/mode[0-9][0-9]*/modeK/')
    grep -q "^| .*\`$general\`" "$doc" || bad "$file is not in $doc"
done < files
for file in init.ktensor model.ktensor weights.npy mode1.npy lambda.mat mode1.mat run.json state; do
    grep -qx "$file" files || bad "no $file"
done
for file in models.cp/*; do
    file=$(echo "${file##*/}" | sed 's/^r[0-9]*[.]s[0-9]*$/rR.sS/; s/^best[.]r[0-9]*$/best.rR/')
    grep -q "^| .*\`$file\`" "$doc" || bad "$file is not in $doc"
done
for name in $(head -n 1 models.cp/models.tsv); do
    sed -n '/^## models[.]tsv/,/^## Text/p' "$doc" | grep -q "\`$name\`" || bad "models.tsv: $name is not in $doc"
done
[ "$(od -A n -t x1 -N 6 all.cp/weights.npy)" = " 93 4e 55 4d 50 59" ] || bad "weights.npy is no array of NumPy"
exit "$failed"
