#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One thread, one sweep, one nonzero: a count of 1 has its noun without an s, in what commands print
# and in what they refuse.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# ---- what is printed ----
nouns='threads|sweeps|models|modes|nonzeros|cells|rows|columns|sizes|names|lines|fields|values|indices|shards'
nouns="$nouns|processes|components|slices|copies|duplicates|zeros|runs|GPUs|labels"
n=0
one() # COMMAND...: prints no "1 threads"; may fail
{
    n=$((n + 1))
    "$@" > said 2>&1 < /dev/null || true
    [ -s said ] || bad "$*: says nothing"
    if grep -nE "(^|[^0-9.,])1 (CPU )?($nouns)([^a-z]|\$)" said > found; then bad "$*: $(cat found)"; fi
}

export OMP_NUM_THREADS=1
echo '1 1 1 5' > one.tns
seq 40 | awk '{ print $1 % 5 + 1, $1 % 7 + 1, $1 % 3 + 1, $1 % 4 + 1 }' > few.tns
echo '1 1 1 5 6' > five.tns
printf 'a,b,value\nx,1,2\n' > table.csv
echo label > label
"$bin/tshard" build -q few.tns -o few.tsh > log 2>&1
"$bin/tstream" cp few.tsh --cpu -r 1 -i 1 --output few.cp > log 2>&1

one "$bin/tshard" build -t 1 one.tns -o one.tsh
one "$bin/tshard" plan -t 1 one.tns -o other.tsh
one "$bin/tshard" plan -t 1 few.tns -o other.tsh
one "$bin/tshard" verify one.tsh
one "$bin/tshard" info one.tsh
one "$bin/tshard" gen -t 1 --dims 3x3x3 -n 1 -o gen.tsh
one "$bin/tshard" build --dims 5 one.tns -o none.tsh
one "$bin/tshard" build --modes a one.tns -o none.tsh
one "$bin/tshard" build --modes a,b,c table.csv -o none.tsh
one "$bin/tshard" build --columns a --value value table.csv -o none.tsh
one "$bin/tshard" build --map 2=label few.tns -o none.tsh
one "$bin/tshard" build one.tns five.tns -o none.tsh
one "$bin/tshard" select few.tsh --sum 1,2 -o none.tsh
one "$bin/tshard" part one.tsh --part 1/1 -o part.tsh
one "$bin/tstream" plan few.tsh --cpu -t 1 -r 1 -i 1
one "$bin/tstream" cp few.tsh --cpu -t 1 -r 1 -i 1 --output one.cp
one "$bin/tstream" cp one.tsh --cpu -t 1 -r 1 -i 1 --output single.cp
one "$bin/tstream" info few.cp
one "$bin/tstream" top few.cp few.tsh
one "$bin/tstream" fit few.cp few.tsh --cpu
one "$bin/tstream" fit few.cp one.tsh --cpu
one "$bin/tstream" score few.cp few.tsh
one "$bin/tstream" score few.cp one.tsh
one "$bin/tstream" compare few.cp single.cp
one "$bin/tstream" export few.cp one.tsh
one "$bin/tstream" report few.cp few.tsh -o report.html
[ $n -eq 26 ] || bad "$n commands"
exit $failed
