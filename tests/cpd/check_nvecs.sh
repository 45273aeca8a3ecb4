#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Starts of singular vectors from the command line: what is saved, recorded, resumed and refused.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
cp_t() { "$bin/tstream" cp t.tsh --cpu -r 5 --seed 4 --tol 0 -f npy "$@"; }
same() {
    for k in 1 2 3; do
        cmp "$1/mode$k.npy" "$2/mode$k.npy" || bad "$1 and $2 differ"
    done
}

# 500 indices, most of them empty, so that what is saved has rows that the run does not.
"$bin/tshard" gen -o t.tsh --dims 500x50x40 -n 300 -s 3 -q > gen.out

# The start as a file: the same bits from it, with rows of empty slices and with constraints, in both precisions.
for more in "-p float32" "-p float64" "--nonneg" "--nonneg 1 --l2 0.1"; do
    # shellcheck disable=SC2086 # words
    cp_t $more --init nvecs --save-init -i 4 -o saved.cp --force > saved.out
    # shellcheck disable=SC2086
    cp_t $more --init saved.cp/init.ktensor -i 4 -o from.cp --force > from.out
    # shellcheck disable=SC2086
    cp_t $more --init nvecs -i 4 -t 1 --host-memory 700K -o alone.cp --force > alone.out
    same saved.cp from.cp
    same saved.cp alone.cp
done
cp_t --init nvecs -i 4 -o saved.cp --force > saved.out
cp_t -i 4 -o random.cp > random.out
cmp -s saved.cp/mode1.npy random.cp/mode1.npy && bad "the start is the random one"
cp_t --init nvecs -i 4 --seed 5 -o seed.cp > seed.out
cmp -s saved.cp/mode1.npy seed.cp/mode1.npy && bad "the seed does nothing"
grep -q '"init":"nvecs"' saved.cp/run.json || bad "run.json does not tell"
"$bin/tstream" info saved.cp | tr -s ' \n' ' ' | grep -q -e '--init nvecs' || bad "info does not tell"

# Rank above the dimensions.
cp_t --init nvecs -r 60 -i 2 -o wide.cp > wide.out

# A run that ended goes on, from its state and not from another start, and does not write a start that it no longer has.
cp_t --init nvecs -i 2 -o part.cp > part.out
"$bin/tstream" cp --cpu --resume part.cp -i 4 > resumed.out
same saved.cp part.cp
refused 1 'has --init nvecs' "$bin/tstream" cp --cpu --resume part.cp --init random -i 5
refused 1 'leave --save-init out' "$bin/tstream" cp --cpu --resume part.cp --save-init -o other.cp -i 5
refused 2 '--fix keeps factors of --init FILE' cp_t --init nvecs --fix 1 -n

exit $failed
