#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every example that --help and the man pages show runs, as it stands, but for counts of draws of a million and
# more, which get three zeros less, and /scratch, /shared and /local, which are folders here. The files that examples
# name are made before; those that want GPUs are left out where there is none, those of srun always, and without
# `watch`, which does not end.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
PATH=$bin:$PATH
export PATH

gpus=$(tstream devices --json | grep -o '"usable":true' | wc -l)
# The files that examples take for granted.
mkdir -p store/scratch
cd store
tshard gen --dims 40x30x20 -n 3K -o amazon.tns.gz > ../made
cp amazon.tns.gz part1.gz
cp amazon.tns.gz test.tns.gz
printf '%s\n' "1 2 3" "40 30 20" > cells.tns
cp "$top"/examples/groceries.tns ratings.tns
printf '%s\n' user,item,week,rating ann,lamp,2026-01-05,4 ben,lamp,2026-01-13,2 ann,rug,2026-01-20,5 > ratings.csv
awk 'BEGIN { for (i = 0; i < 60; i++) printf "user %d,item %d,2026-01-%02d,%d\n", i % 7, i % 11, 5 + i % 20, 1 + i % 5 }' >> ratings.csv
cp ratings.csv r.csv
tshard build ratings.csv --modes user,item,week --value rating --text week -q >> ../made
tshard build ratings.csv --modes user,item,week --value rating --bin week=7d -o r.tsh -q >> ../made
printf '%s\n' user,item,week,rating cid,lamp,2026-02-02,1 > new.csv
echo 1 2 3 4 > monday.tns
tshard build amazon.tns.gz -o amazon.tsh -q >> ../made
cp -r amazon.tsh crimes.tsh
tshard gen --planted 3 --dims 12x10x8 -n 900 -o aminoacid.tsh -q >> ../made
tstream cp amazon.tsh --cpu -q --rank 4 -o amazon.cp >> ../made
tstream cp aminoacid.tsh --cpu -q --rank 3 -o r3.cp >> ../made
awk 'BEGIN { for (i = 0; i < 90; i++) print i % 9 + 1, i % 10 + 1, i * 7 % 11 + 1, 1 }' > links.tns
tshard build links.tns -q >> ../made
rm links.tns
for copy in result s1.cp s2.cp r8.cp r16.cp mine.cp one.cp two.cp; do cp -r amazon.cp $copy; done
for copy in model other theirs; do cp amazon.cp/model.ktensor $copy.ktensor; done
cd ..

# ready: a folder with them, as if nothing had run. Of tensors and decompositions those that the step names are
# there, and one of each for a step that names none.
ready()
{
    rm -rf room
    cp -r store room
    for one in room/*.tsh room/*.cp; do
        name=${one#room/}
        case $name in amazon.*) continue ;; esac
        grep -qF "$name" step || rm -rf "$one"
    done
}

ran=0 left_out=0
for program in tshard tstream; do
    for command in $($program --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p'); do
        $program "$command" --help | sed -n '/^Examples:/,$s/^  \([a-z].*\)/\1/p' > examples
        [ -s examples ] || continue
        while read -r example; do
            echo "$example" | sed 's/\(--nnz\|-n\) \([0-9]*\)M/\1 \2K/; s|/scratch|scratch|; s|/shared/||; s|/local/|scratch/|
                s/^watch //' > step
            # what the example makes is not there yet; what it reads is
            ready
            made=$(sed -n 's/.* \(-o\|--out\|--output\)[ =]\([^ ]*\).*/\2/p' step)
            [ -z "$made" ] || [ "$made" = - ] || rm -rf "room/$made"
            case "$program $command" in
            'tshard build' | 'tshard plan') [ -n "$made" ] || rm -rf room/amazon.tsh ;;
            # what was appended is taken back, or merged
            'tshard undo' | 'tshard compact') (cd room && tshard append ratings.tsh new.csv --text week) > append.out ;;
            'tstream cp') [ -n "$made" ] || rm -rf room/amazon.cp ;;
            esac
            case $(cat step) in
            srun*)
                left_out=$((left_out + 1))
                continue ;;
            *'--gpus'* | *'bench exchange'*)
                if [ "$gpus" -lt 4 ]; then
                    left_out=$((left_out + 1))
                    continue
                fi ;;
            esac
            ran=$((ran + 1))
            (cd room && timeout 100 sh -eu ../step) > out 2> err < /dev/null ||
                bad "$program $command: '$(cat step)' ends with $?: $(tail -n 2 err)"
        done < examples
    done
done
echo "$ran examples run, $left_out left out"
[ $ran -ge 15 ] || bad "only $ran examples are found"
exit "$failed"
