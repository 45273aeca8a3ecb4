#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Poisson models from the command line: what is printed, written, recorded, resumed and refused.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
cp_t() { "$bin/tstream" cp t.tsh --cpu --seed 4 --loss poisson "$@"; }

awk 'BEGIN { for (n = 0; n < 9000; n++) { i = n * 7 % 40; j = n * 11 % 31 + int(n / 1240) % 3; k = n * 13 % 37; print i + 1, j + 1, k + 1, 1 + (i * j + k) % 5 } }' |
    sort -u -k1,1n -k2,2n -k3,3n > t.tns
"$bin/tshard" build t.tns --shard 64K -q > build.out

# Lines have the likelihood, which rises, and the violation; the last one too, and what is written is that model.
cp_t -r 4 -i 6 --tol 0 --inner 3 -p float64 -f npy -o whole.cp > whole.out
head -n 1 whole.out | grep -q 'log-likelihood.*violation' || bad "the table has no likelihood: $(head -n 1 whole.out)"
awk 'NR > 1 && NR < 8 { if (NR > 2 && $2 + 0 <= before) exit 1; before = $2 + 0 } END { exit NR < 8 }' whole.out ||
    bad "the likelihood falls: $(cat whole.out)"
grep -q '^log-likelihood -\{0,1\}[0-9.e+]*, fit .* after 6 sweeps' whole.out || bad "the last line: $(tail -n 1 whole.out)"
cp_t -r 4 -i 6 --tol 0 --inner 3 -p float64 -n --json > json.out
grep -q '"event":"done".*"log_likelihood":-\{0,1\}[0-9].*"violation":[0-9]' json.out || bad "no likelihood in $(tail -n 1 json.out)"
grep -q '"log_likelihood":-\{0,1\}[0-9]' whole.cp/run.json || bad "run.json has no likelihood"
grep -q '"loss":"poisson"' whole.cp/run.json || bad "run.json does not tell of the loss"

"$bin/tstream" status whole.cp | grep -q '^  log-likelihood -\{0,1\}[0-9]' || bad "no likelihood: $("$bin/tstream" status whole.cp)"
"$bin/tstream" info whole.cp | tr -s ' \n' '  ' | grep -q '(log-likelihood -\{0,1\}[0-9]' ||
    bad "no likelihood: $("$bin/tstream" info whole.cp)"

# The same bits streamed by one thread, and of a run that goes on.
cp_t -r 4 -i 6 --tol 0 --inner 3 -p float64 -f npy -o one.cp -t 1 --host-memory 400K > one.out
cp_t -r 4 -i 2 --tol 0 --inner 3 -p float64 -f npy -o part.cp > part.out
refused 1 'the run has --inner 3' "$bin/tstream" cp --cpu --resume part.cp --inner 4 -i 6 -n
"$bin/tstream" cp --cpu --resume part.cp -i 6 --tol 0 > resumed.out
for k in 1 2 3; do
    cmp whole.cp/mode$k.npy one.cp/mode$k.npy
    cmp whole.cp/mode$k.npy part.cp/mode$k.npy
done

# Several models, and the plan.
cp_t -r 2,3 -i 2 -o two.cp > two.out
"$bin/tstream" info two.cp/r3.s4 > info.out
cp_t -r 3 -i 2 -f ktensor -o r3.cp > r3.out
cmp r3.cp/model.ktensor two.cp/r3.s4/model.ktensor
"$bin/tstream" plan t.tsh --cpu --loss poisson -r 4 > plan.out

# What cannot be.
sed '5s/ [0-9]*$/ -3/' t.tns > wrong.tns
"$bin/tshard" build wrong.tns -q > build.out
refused 1 "the value at ($(awk 'NR == 5 { print $1 ", " $2 ", " $3 }' t.tns)) is -3: loss poisson is for counts" \
    "$bin/tstream" cp wrong.tsh --cpu --loss poisson -n
refused 2 'nothing else can be asked of it' cp_t --l1 1 -n
refused 2 'takes cells that are not listed for zeros, so that none are unknown' cp_t --observed -n
refused 2 'needs least squares of all cells' cp_t --accelerate -n
refused 2 'must be at least 1' cp_t --inner 0 -n
exit $failed
