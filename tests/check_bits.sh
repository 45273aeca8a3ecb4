#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The list of tests/bits covers all pairs, and its comparison finds a byte that differs: in a tensor, a state, a
# record, a table, a sentence, an exit status, a link; and leaves out times alone. `.ci/run bits` is the comparison itself.
set -eu
top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
command -v python3 > /dev/null || { echo "there is no python3"; exit 77; }

for list in bits.list bits_gpu.list; do
    "$top/tests/bits" --verify --list "$top/tests/$list" > log || bad "$list: $(cat log)"
done
# A list without one of its cases is not complete, and without one of its refusals neither.
for kind in case refused; do
    awk -v kind=$kind '$1 != kind || ++n != 3' "$top/tests/bits.list" > short.list
    "$top/tests/bits" --verify --list short.list > log && bad "a list without a $kind is complete: $(cat log)"
done

# The commands of the list run, and give the same twice: what all commits refuse would compare nothing.
mkdir -p self/tools
for program in tstream tshard; do ln -s "$bin/$program" self/tools/; done
"$top/tests/bits" --built self self --isa 0 --only road=resumed --part 2/6 --dir bits > log 2>&1 || bad "$(cat log)"
grep -q '^[1-9][0-9]* same, 0 differ' log || bad "$(cat log)"

"$bin/tshard" gen --dims 30x20x10 --nnz 900 -o x.tsh -q > log
mkdir one
for i in 1 2; do # other times, the same bits
    rm -rf out
    "$bin/tstream" cp x.tsh --cpu -r 3 -i 3 --tol 0 -o out -q --rank 2,3 > log
    [ $i -eq 2 ] || mv out one/out
done
mv x.tsh one/x.tsh
echo 'a sentence about 12 ms' > one/stderr
echo 0 > one/exit
cp -r one two
mv out new
rm -r two/out
mv new two/out
echo 'a sentence about 7 ms' > two/stderr
"$top/tests/bits" --compare one two > log || bad "times count: $(cat log)"

# differs FILE: the comparison names the file
differs()
{
    if "$top/tests/bits" --compare one two > log; then bad "$1: not found"; fi
    grep -q "^$1: " log || bad "$1: $(cat log)"
    rm -rf two
    cp -a one two
}

# poke FILE OFFSET: changes the lowest bit of a byte
poke()
{
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((byte % 2 == 0 ? byte + 1 : byte - 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
}

state=two/out/r3.s1/state
end=$(($(wc -c < $state) - 24)) # within the last factor
poke two/x.tsh/mode2.shards 100 && differs x.tsh/mode2.shards
poke two/out/r2.s1/model.ktensor 300 && differs out/r2.s1/model.ktensor
poke $state $end && differs out/r3.s1/state
poke two/out/models.run 40 && differs out/models.run
sed -i 's/"dead_components":0/"dead_components":1/' two/out/r3.s1/run.json && differs out/r3.s1/run.json
sed -i 's/"fit":0[.]\(.*\)}/"fit":0.0\1}/' two/out/models.json && differs out/models.json
sed -i 's/,"ended":[^,]*//' two/out/r3.s1/run.json && differs out/r3.s1/run.json
sed -i 's/iterations/converged/' two/out/models.tsv && differs out/models.tsv
echo 'another sentence about 12 ms' > two/stderr && differs stderr
echo 1 > two/exit && differs exit
rm two/out/r2.s1/state && differs out/r2.s1/state
: > two/out/added && differs out/added
poke two/out/r2.s1/labels 60 && differs out/r2.s1/labels
rm two/out/r2.s1/labels && differs out/r2.s1/labels
rm -r one/out/r2.s1/labels one/out/r3.s1/labels
"$top/tests/bits" --compare one two > log || bad "labels of the second alone: $(cat log)"
ln -sfn r3.s1 two/out/best.r2 && differs out/best.r2
exit $failed
