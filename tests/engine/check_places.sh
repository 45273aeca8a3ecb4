#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No output destroys an input, another output, or a file that the programs did not write, with --force or without. The data are
# tests/engine/places.tsv: every option of every command that names a file or directory, which is compared with --help. Each
# command that writes is run with its output in all places where it must not be.
set -u

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
table=$top/tests/engine/places.tsv
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"

# ---- the table is complete: what --help lists, and nothing else ----
for program in tshard tstream; do
    "$bin/$program" --help | sed -n 's/^  \([a-z]*\) .*/\1/p' | while read -r command; do
        "$bin/$program" "$command" --help |
            sed -n -E 's/^ +(-[A-Za-z], )?(--[a-z-]+)=([^ ]*).*/\2 \3/p' | grep -E ' .*(FILE|NAME|DIR)' |
            sed "s/^/$program $command /; s/ [^ ]*\$//" > named
        if [ -s named ]; then cat named; else echo "$program $command -"; fi
    done
done | sort > listed
grep -v '^#' "$table" | cut -f 1-3 | tr '\t' ' ' | sort > known
cmp -s listed known || bad "tests/engine/places.tsv and --help differ: $(diff listed known | grep '^[<>]')"

# ---- inputs: cells.tns and x.map are a user's ----
mkdir pure
cd pure
"$bin/tshard" gen --dims 20x15x10 -n 500 -o ../made.tns
awk 'NR <= 200' ../made.tns > cells.tns
seq 20 | sed 's/^/name/' > x.map
"$bin/tshard" build ../made.tns -q -o x.tsh > ../log
"$bin/tstream" cp x.tsh --cpu -q -r 2 -i 2 -o x.cp > ../log
"$bin/tstream" cp x.tsh --cpu -q -r 2 -i 2 -o i.cp > ../log
cd ..

# Each case begins with these files in an empty folder w.
fresh()
{
    cd "$tmp"
    rm -rf w
    cp -a pure w
    cd w
}

# All names, links and bytes of w.
tree()
{
    find . -printf '%p %y %l\n' | sort
    find . -type f | sort | xargs cksum
}

# line COMMAND OUT [INPUT OTHER]: the command line with OUT, and with another name for an input
line()
{
    words=${1/OUT/$2}
    if [ $# -gt 2 ]; then words=${words/ $3/ $4}; fi
}
run() # the line, with $force
{
    # shellcheck disable=SC2086
    set -- $words $force
    timeout 60 "$bin/$1" "${@:2}" > ../log 2>&1
}

# refuse WHAT COMMAND OUT [INPUT OTHER]: with --force and without it, in one sentence, and nothing changes
refuse()
{
    what=$1
    shift
    line "$@"
    tree > ../before
    for force in '' --force; do
        if run; then bad "$what: '$words' $force: was done"; fi
        grep -q "^${words%% *} " ../log || bad "$what: '$words' $force: $(cat ../log)"
    done
    tree | cmp -s - ../before || bad "$what: '$words', without --force or with it: $(tree | diff ../before -)"
}

# ---- an output that is an input, lies in one, or takes its name while it is written ----
against_input() # COMMAND SUFFIX KIND INPUT
{
    fresh
    refuse "an input" "$1" "$4"
    refuse "./" "$1" "./$4"
    refuse "a whole path" "$1" "$PWD/x.tsh/../$4"
    ln -s "$4" link
    refuse "a link" "$1" link
    ln -s . here
    refuse "a link before it" "$1" "here/$4"
    if [ -f "$4" ]; then
        ln "$4" hard
        refuse "a hard link" "$1" hard
    else
        refuse "inside" "$1" "$4/$(basename "$(find "$4" -name index -o -name model.ktensor)")"
        mkdir holds
        mv "$4" holds
        refuse "a directory that holds it" "$1" holds "$4" "holds/$4"
        mv "holds/$4" .
        rmdir holds
    fi
    rm link here
    mv "$4" "new$2"
    refuse "the first name of the output" "$1" new "$4" "new$2"
}

# ---- what the programs did not write ----
against_foreign() # COMMAND SUFFIX KIND
{
    fresh
    ln -s nowhere dangling
    refuse "a link to nothing" "$1" dangling
    echo notes > notes
    refuse "a text" "$1" notes
    cp cells.tns numbers
    refuse "a table of numbers" "$1" numbers
    printf 'ktensor\n3\n2 2 2\n1\n1\nmatrix\n' > ktensor
    refuse "a ktensor of others" "$1" ktensor
    mkdir dir
    echo notes > dir/NOTES
    refuse "a directory" "$1" dir
    mkdir others # as SPLATT, NumPy and Tensor Toolbox write them
    echo 1 > others/lambda.mat
    echo '1 2' > others/mode1.mat
    refuse "a model of SPLATT" "$1" others
    rm others/*
    printf 'ktensor\n' > others/model.ktensor
    refuse "a model of Tensor Toolbox" "$1" others
    printf '\223NUMPY\001\000' > others/mode1.npy
    refuse "arrays of NumPy" "$1" others
    echo mine > "new$2"
    refuse "a file of the first name" "$1" new
    rm "new$2"
    mkdir "new$2"
    echo mine > "new$2/mode1.shards"
    echo mine > "new$2/mode1.npy"
    refuse "a directory of the first name" "$1" new
    rm -r "new$2"
    ln -s "$PWD/notes" "new$2"
    refuse "a link of the first name" "$1" new
    cp -a x.tsh t.tsh
    ln -s t.tsh link.tsh
    for name in t.tsh/part t.tsh/mode1.labels t.tsh/more link.tsh/more; do
        refuse "a file more of a tensor that is not read" "$1" $name
    done
    [ "$3" = file ] || return 0
    cp -a x.cp m.cp
    for name in mode1.index mode4.npy lambda.mat history.json init.ktensor models.run best.r2; do
        refuse "a file more of a decomposition that is not read" "$1" m.cp/$name
    done
    mkdir beside
    force=
    line "$1" beside/mode1.index
    run || bad "a name of no decomposition: '$words': $(cat ../log)"
}

# ---- what they did write is refused without --force, and replaced with it ----
against_own() # COMMAND SUFFIX KIND
{
    fresh
    force=
    line "$1" own
    run || bad "'$words': $(cat ../log)"
    rm -rf other.*
    if run; then bad "'$words': replaced without --force"; fi
    grep -q 'own exists; .*--force' ../log || bad "'$words': $(cat ../log)"
    rm -rf other.*
    force=--force
    run || bad "'$words' --force: $(cat ../log)"
    if [ -e "own$2" ]; then bad "'$words': left own$2"; fi
    [ "$3" = file ] || return 0
    echo more >> own
    tree > ../before
    rm -rf other.*
    if run; then bad "'$words' --force: a file that was changed since was replaced"; fi
    grep -q more own || bad "'$words' --force: what was added is gone"
    : > own
    rm -rf other.*
    run || bad "'$words' --force: over an empty file: $(cat ../log)"
}

grep -v '^#' "$table" > rows
while IFS="$(printf '\t')" read -r program command option what kind inputs as; do
    if [ "$what" != writes ] || [ -z "${as:-}" ] || [ "$as" = - ]; then continue; fi
    suffix=.partial
    if [ "$program $kind" = 'tshard dir' ]; then suffix=.building; fi
    case $as in "$program $command "*OUT*) ;; *) bad "tests/engine/places.tsv: $program $command $option: $as" ;; esac
    for input in $inputs; do
        [ "$input" = - ] || against_input "$as" "$suffix" "$kind" "$input"
    done
    against_foreign "$as" "$suffix" "$kind"
    against_own "$as" "$suffix" "$kind"
done < rows

# ---- two outputs that are one ----
two() # COMMAND SUFFIX SUFFIX-OF-THE-SECOND
{
    fresh
    for pair in 'new new' 'new ./new' "new $tmp/w/new" "new new$2" "new$3 new" 'new new/in'; do
        # shellcheck disable=SC2086
        set -- "$1" "$2" "$3" $pair
        refuse "two outputs" "${1/SECOND/$5}" "$4"
    done
}
two 'tshard gen --planted 1 --dims 9x9x9 -n 50 -o OUT --truth SECOND' .partial .partial
two 'tshard split x.tsh -q --train OUT --test SECOND' .building .building
two 'tstream cp x.tsh --cpu -q -r 2 -i 1 -o OUT --trace SECOND' .partial .partial
fresh # the second of two is looked at before the first is made
mkdir b.tsh
echo notes > b.tsh/NOTES
refuse "the second of two" 'tshard split x.tsh -q --train OUT --test b.tsh' a.tsh

# ---- the checksums beside an array ----
fresh
python3 - << 'EOF' || exit 77
import struct
head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3, 2), }"
head += b" " * (117 - len(head)) + b"\n"
open("f.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<24d", *range(24)))
EOF
echo notes > f.npy.index
refuse "a text beside an array" 'tshard index f.npy' -
rm f.npy.index
echo notes > f.npy.index.new
refuse "a text of the first name" 'tshard index f.npy' -
rm f.npy.index.new
ln -sf f.npy f.npy.index
refuse "a link to the array" 'tshard index f.npy' -
ln -f f.npy f.npy.index
refuse "a hard link to the array" 'tshard index f.npy' -

# ---- a run goes on by another name of its own place: its state stays ----
fresh
"$bin/tstream" cp x.tsh --cpu -q -r 2 -i 100000000 --tol 0 --max-time 300ms -o run > ../log 2>&1
[ -d run.partial ] || bad "--max-time: $(cat ../log)"
refuse "the state of the run" 'tstream cp --resume ./run -o OUT --cpu -q' run

# ---- standard output that leads to an input ----
fresh
tree > ../before
if "$bin/tstream" predict x.cp cells.tns x.tsh >> cells.tns 2> ../log; then bad "standard output: an input grew"; fi
tree | cmp -s - ../before || bad "standard output: $(tree | diff ../before -)"
"$bin/tshard" export x.tsh > told.tns # a redirection to a file makes the program's own
"$bin/tshard" export x.tsh -o told.tns --force > ../log 2>&1 || bad "a file by a redirection: $(cat ../log)"

# ---- a directory of a result is no place for a new tensor or model; other files may lie beside a model ----
refuse "inside the tensor" 'tshard select x.tsh --keep 1=1..9 -q -o OUT' x.tsh/new.tsh
refuse "inside the model" 'tstream cp x.tsh --cpu -q -i 1 --init i.cp -o OUT' i.cp/new
"$bin/tstream" report x.cp x.tsh -q -o x.cp/report.html > ../log || bad "a page beside a model: $(cat ../log)"
"$bin/tstream" report x.cp x.tsh -q -o x.cp/report.html --force > ../log || bad "a page beside a model again: $(cat ../log)"

# ---- results and leftovers of another user: known before the work, with what to do ----
other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
not_mine() # TEXT COMMAND...: by another user than the owner
{
    text=$1
    shift
    tree > ../before
    if other timeout 60 "$bin/$1" "${@:2}" > ../log 2>&1; then bad "another user: '$*': was done"; fi
    grep -q "$text" ../log || bad "another user: '$*': no \"$text\" in: $(cat ../log)"
    grep -q 'have it removed, or name another' ../log || bad "another user: '$*': $(cat ../log)"
    tree | cmp -s - ../before || bad "another user: '$*': $(tree | diff ../before -)"
}
if [ "$(id -u)" -eq 0 ] && other test -x "$bin/tshard" 2> log && chmod 755 "$tmp" && other test -x . 2> log; then
    fresh
    chmod 1777 .
    "$bin/tshard" export x.tsh -o r.tns
    for name in r.cp.partial r.tsh.building; do
        mkdir $name
        echo '1 elsewhere' > $name/lock
    done
    : > r.json.partial
    # a million sweeps would not end: it is refused before
    not_mine 'x.cp exists and belongs to another user (uid 0)' tstream cp x.tsh --cpu -q -r 2 -i 1000000 --tol 0 --force
    not_mine 'x.tsh exists and belongs to another user' tshard gen --dims 9x9x9 -n 50 -o x.tsh --force
    not_mine 'r.tns exists and belongs to another user' tshard export x.tsh -o r.tns --force
    not_mine 'r.cp.partial exists and belongs to another user' tstream cp x.tsh --cpu -q -r 2 -i 1000000 --tol 0 -o r.cp
    not_mine 'r.tsh.building exists and belongs to another user' tshard gen --dims 9x9x9 -n 50 -o r.tsh
    not_mine 'r.json.partial exists and belongs to another user' tstream mttkrp x.tsh --cpu --trace r.json
    chmod 777 . # no sticky bit: x.cp could be renamed, but not cleared
    not_mine 'x.cp exists and belongs to another user' tstream cp x.tsh --cpu -q -r 2 -i 1000000 --tol 0 --force
    other "$bin/tshard" export x.tsh -o r.tns --force > ../log 2>&1 || bad "a file may be replaced here: $(cat ../log)"
fi
exit $failed
