#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a user who is nearly right is told: the other program's commands, names without their suffix, operands that are results,
# ranks of models, rows that are zeros, tolerances that are large. Standard output, standard error, exit status.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# exactly STATUS OUT ERR COMMAND...: that status, those lines on standard output and error
exactly()
{
    status=$1 want_out=$2 want_err=$3
    shift 3
    got=0
    "$@" > out 2> err < /dev/null || got=$?
    [ "$got" -eq "$status" ] || bad "$*: exit $got, expected $status: $(cat err)"
    [ "$(cat out)" = "$want_out" ] || bad "$*: prints $(cat out)"
    [ "$(cat err)" = "$want_err" ] || bad "$*: says $(cat err)"
}
commands() { "$bin/$1" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p'; }

# ---- commands of the other program ----
for pair in 'tshard tstream' 'tstream tshard'; do
    # shellcheck disable=SC2086
    set -- $pair
    commands "$1" > own
    for command in $(commands "$2"); do
        if grep -qx "$command" own; then continue; fi
        exactly 2 "" "$1: unknown command '$command'; that is $2 $command
Try '$2 $command --help'." "$bin/$1" "$command" x
    done
done
exactly 2 "" "tshard: unknown command 'buid'; did you mean 'build'?
Try 'tshard --help'." "$bin/tshard" buid

# ---- names without their suffix ----
awk 'BEGIN { srand(2); for (i = 1; i <= 400; i++) print 1 + int(9 * rand()), 1 + int(8 * rand()), 1 + int(7 * rand()), 1 + i % 5 }' > am.tns
"$bin/tshard" build am.tns > log
"$bin/tstream" cp am --cpu -r 2 -i 2 > log 2> err || bad "cp am: $(cat err)"
[ -e am.cp/model.ktensor ] || bad "cp am: no am.cp"
for command in 'tshard info am' 'tshard verify am' 'tshard export am' 'tstream plan am --cpu -r 2 -n' 'tstream mttkrp am --cpu' \
    'tstream top am' 'tstream top am am' 'tstream info am' 'tstream status am.cp' 'tstream fit am am --cpu' 'tstream compare am am' 'tstream report am -o -'; do
    # shellcheck disable=SC2086
    "$bin/"$command > out 2> err || bad "$command: $(cat err)"
    [ -s out ] || bad "$command: prints nothing"
done
# without an operand, the only one here; of several none is guessed
for command in 'tshard info' 'tshard verify' 'tstream info' 'tstream status' 'tstream top' 'tstream report -o -' 'tstream plan --cpu -r 2 -n'; do
    # shellcheck disable=SC2086
    "$bin/"$command > out 2> err || bad "$command: $(cat err)"
    # shellcheck disable=SC2086
    "$bin/"$command am > named 2> err || [ "$command" = 'tstream status' ] || bad "$command am: $(cat err)"
    case $command in 'tshard info' | 'tstream info' | 'tstream top') cmp -s out named || bad "$command: other than of am: $(cat out)" ;; esac
done
cp -R am.tsh two.tsh
cp -R am.cp two.cp
refused 1 "which tensor? There are am.tsh, two.tsh" "$bin/tshard" info
refused 1 "which tensor? There are am.tsh, two.tsh" "$bin/tshard" verify
refused 1 "which decomposition? There are am.cp, two.cp" "$bin/tstream" info
rm -r two.tsh two.cp
"$bin/tstream" info am | grep -q '^am.cp$' || bad "info am: $("$bin/tstream" info am | head -1)"
refused 1 "nothere: " "$bin/tstream" cp nothere --cpu
mkdir am # a thing of that very name is what is meant
refused 1 "am: not a tensor directory" "$bin/tstream" cp am --cpu -n
rmdir am

# ---- results as operands ----
exactly 2 "" "tshard build: am.tsh: is a tensor that is built already; tshard info tells about it, tstream cp decomposes it
Try 'tshard build --help'." "$bin/tshard" build am.tsh
exactly 2 "" "tshard build: new.tsh: operands are text that is read; the result is named by --output: tshard build am.tns -o new.tsh
Try 'tshard build --help'." "$bin/tshard" build am.tns new.tsh
exactly 2 "" "tshard plan: am.tsh: operands are text that is read; the result is named by --output: tshard plan am.tns ... -o am.tsh
Try 'tshard plan --help'." "$bin/tshard" plan am.tns am.tns am.tsh
[ ! -e new.tsh ] || bad "build: made what was refused"
# an existing result is refused before anything is opened: also with a tensor that is not there
refused 1 "am.cp exists" "$bin/tstream" cp am.tsh --cpu
mv am.tsh gone.tsh
refused 1 "am.cp exists" "$bin/tstream" cp am.tsh --cpu
mv gone.tsh am.tsh

# ---- the rank of a model ----
"$bin/tstream" cp am.tsh --cpu --init am.cp -i 2 -o more.cp > log 2> err || bad "--init: $(cat err)"
grep -q '"rank":2,' more.cp/run.json || bad "--init: another rank: $(cat more.cp/run.json)"
for init in hosvd-like Random; do
    refused 1 "--init $init: a start is random, nvecs or a file or directory of factors" "$bin/tstream" cp am.tsh --cpu --init $init -n
    refused 1 "--init $init: a start is random, nvecs or" "$bin/tstream" cp am.tsh --cpu -r 2,3 --init $init -o more2.cp
done
refused 1 "the model has rank 2, but --rank is 3" "$bin/tstream" cp am.tsh --cpu --init am.cp -r 3 -o more3.cp
"$bin/tstream" plan am.tsh --cpu --init am.cp -n | grep -q 'rank 2' || bad "plan --init: another rank"

# ---- rows that are zeros ----
awk 'BEGIN { srand(3); for (i = 1; i <= 500; i++) print 1 + int(2e6 * rand()), 1 + int(8 * rand()), 1 + int(7 * rand()), 1 }
     END { print 2000000, 1, 1, 1 }' > sparse.tns
"$bin/tshard" build sparse.tns > log
"$bin/tstream" cp sparse.tsh --cpu -r 1 -i 1 > log 2> err
grep -q '^tstream cp: most rows would be zeros: those of used slices alone are written' err || bad "rows: $(cat err)"
[ "$(wc -l < sparse.cp/mode1.index)" -lt 510 ] || bad "rows: all were written"
"$bin/tstream" cp sparse.tsh --cpu -r 1 -i 1 --rows all -o all.cp > log 2> err
[ ! -e all.cp/mode1.index ] && [ ! -s err ] || bad "--rows all: $(cat err)"
[ "$(wc -l < all.cp/model.ktensor)" -gt 2000000 ] || bad "--rows all: rows are missing"
rm -r all.cp
[ ! -e am.cp/mode1.index ] || bad "rows: a small tensor has not all"

# ---- a tolerance that is large ----
"$bin/tstream" cp am.tsh --cpu -r 1 --tol 0.5 -o t.cp > log 2> err
grep -q '^tstream cp: --tol 0.5 is not small beside a fit of 0[.][0-9]*, which may still grow; --resume with --tol [0-9e.-]* goes on$' err ||
    bad "tol: $(cat err)"
goes=$(sed 's/.*--tol \([0-9e.-]*\) goes on/\1/' err)
"$bin/tstream" cp --resume t.cp --tol "$goes" > log 2> err || bad "tol: $(cat err)"
[ ! -s err ] || bad "tol: said again: $(cat err)"
"$bin/tstream" cp am.tsh --cpu -r 1 --tol 1e-9 -n > log 2> err
[ ! -s err ] || bad "tol: $(cat err)"

# ---- limits ----
exactly 2 "" "tstream cp: --rank must be 1 to 2048
Try 'tstream cp --help'." "$bin/tstream" cp am.tsh --rank 2049
"$bin/tstream" cp --help | grep -q '1 to 2048' || bad "the help of --rank has no limit"
refused 1 "--host-memory: 1.00 PiB is more than there is: " "$bin/tstream" cp am.tsh --cpu -n --host-memory 1024T

exit $failed
