#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A field of a table is the index, the name or the refusal that tests/source/fields.tsv says, with its line and column; in
# the first lines of a file, which decide what columns are, and far behind them; whatever the first line is.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# check CASE: builds t.csv, whose last line is line $last
check()
{
    case $reading in
    refused-first*)
        # shellcheck disable=SC2086
        refused 1 "t.csv:2: ${reading#refused-first }" "$bin/tshard" build t.csv --modes u,d --value v $options -o no.tsh
        return
        ;;
    refused*)
        # shellcheck disable=SC2086
        refused 1 "t.csv:$last: ${reading#refused }" "$bin/tshard" build t.csv --modes u,d --value v $options -o no.tsh
        return
        ;;
    esac
    # shellcheck disable=SC2086
    "$bin/tshard" build t.csv --modes u,d --value v $options --duplicates keep --force -o t.tsh > log 2>&1 || { bad "$1: $(cat log)"; return; }
    if [ -n "$note" ]; then
        grep -qF -e "$note" log || bad "$1: no note of $note: $(cat log)"
    else
        ! grep -q 'several spellings\|read as a number;' log || bad "$1: a note: $(cat log)"
    fi
    case $reading in
    left)
        tr -s ' \n' ' ' < log | grep -q 'left out 1 line with missing fields' || bad "$1: $(cat log)"
        ;;
    names*)
        "$bin/tshard" export t.tsh --format csv -q | cut -d , -f 1,2 | tr , ' ' > rows
        grep -qxF -e "${reading#names }" rows || bad "$1: no ${reading#names } in: $(head -n 5 rows)"
        ;;
    *)
        [ ! -e t.tsh/mode1.labels ] || bad "$1: mode 1 has names"
        "$bin/tshard" export t.tsh -q | cut -d ' ' -f 1,2 > rows
        [ "$(grep -cxF -e "$reading" rows)" -ge 1 ] || bad "$1: no $reading in: $(head -n 5 rows)"
        # one index has one row: as many indices are used as the early lines and the reading have
        [ "$(cut -d ' ' -f 1 rows | sort -u | wc -l)" -le 2 ] || bad "$1: $(sort -u rows)"
        ;;
    esac
}

n=0
tr '\t' '\037' < "$top/tests/source/fields.tsv" | grep -v '^#' > cases
while IFS="$(printf '\037')" read -r lines u d v options reading; do
    n=$((n + 1))
    note=
    case $reading in
    *' | '*)
        note=${reading#* | }
        reading=${reading%% | *}
        ;;
    esac
    { echo u,d,v; echo "$lines" | tr '|' '\n'; echo "$u,$d,$v"; } > t.csv
    last=3
    check "$u in the sample"
    case $reading in
    names*) case $options$lines in *text* | ann* | 1234567890* | 000* | NA* | *NaT*) ;; *) continue ;; esac ;; # late: refused
    esac
    { echo u,d,v; awk -v line="$lines" 'BEGIN { gsub(/\|/, "\n", line); while (n < 80000) { print line; n += length(line) } }'; echo "$u,$d,$v"; } > t.csv
    last=$(wc -l < t.csv)
    check "$u behind the sample"
done < cases
[ "$n" -gt 35 ] || bad "only $n cases"

# a column that turns out to be text late: the row, and what to do
{ echo u,d,v; awk 'BEGIN { for (i = 1; i < 20000; i++) print i ",1,1" }'; echo '7.5,1,1'; } > t.csv
refused 1 "t.csv:20001: column 1 (u): '7.5' is not a whole number, but those before it are; --text 1 takes this mode's fields as names" \
    "$bin/tshard" build t.csv -o no.tsh

# a column that the first 64 KiB have nothing of: the same by several processes, packed and of several files; an
# input that cannot be read twice is refused where it would hold indices
awk 'BEGIN { print "u,d,v"; for (i = 0; i < 20000; i++) print "NA,1,1" }' > n1.csv
printf 'u,d,v\nNA,1,1\n7.0,1,1\n9,2,1\n' > n2.csv
"$bin/tshard" build n1.csv n2.csv --missing skip -o n.tsh > log 2>&1 || bad "late: $(cat log)"
gzip -k n1.csv n2.csv
"$bin/tshard" build n1.csv.gz n2.csv.gz --missing skip -o n2.tsh > log 2>&1 || bad "late: $(cat log)"
diff -r n.tsh n2.tsh > log || bad "late, packed: $(cat log)"
"$bin/tshard" export n.tsh -q > got
printf '7 1 1\n9 2 1\n' | cmp -s - got || bad "late: $(cat got)"
cat n1.csv n2.csv | grep -v '^u' > n3.csv
refused 1 "mode 1: its fields are missing in the first 64 KiB, and whole numbers behind" sh -c \
    '"$0" build - --format csv --header no --missing skip -o no.tsh < n3.csv' "$bin/tshard"
{ cat n3.csv; echo bob,1,1; } > n4.csv
"$bin/tshard" build - --format csv --header no --missing skip -o n4.tsh < n4.csv > log 2>&1 || bad "late names: $(cat log)"

# large numbers with exponents need more room than their text: a column of nothing else
awk 'BEGIN { print "u,d,v\n1234567890123456,1,1"; for (i = 0; i < 60000; i++) print "1e19," i % 7 + 1 ",1" }' > x.csv
"$bin/tshard" build x.csv -o x.tsh --memory 32M > log 2>&1 || bad "exponents: $(cat log)"
[ "$("$bin/tshard" export x.tsh -q --format csv --header no | grep -c '^10000000000000000000,')" = 7 ] || bad "exponents"

# a name that comes late in a column of large numbers: those of several spellings are noted
{ cat x.csv; echo abc,1,1; } > x2.csv
"$bin/tshard" build x2.csv --force -o x.tsh > log 2>&1 || bad "late name: $(cat log)"
grep -q "numbers of mode 1 (u) such as 1e19 are named by their digits, because its first 64 KiB are whole numbers, but others such as 'abc' are not; --text 1" log ||
    bad "late name: $(cat log)"

# what is left when all lines are left out
printf 'u,d,v\n,1,1\n2,,1\n' > e.csv
refused 1 "no nonzeros to build no.tsh from: 2 lines with a missing field left out" "$bin/tshard" build e.csv --missing skip -o no.tsh
printf 'u,d,v\n,1,1\n2,1,0\n' > e.csv
refused 1 "no nonzeros to build no.tsh from: 1 read, 1 of them zero, 1 line with a missing field left out" \
    "$bin/tshard" build e.csv --missing skip -o no.tsh

# lists: the same numbers, and what is missing
printf '1 1 1\n7 2 1\n7.0 3.0 1\n7e0 1 2\n007 2.000000000000000000e+00 3\n' > l.tns
"$bin/tshard" build l.tns --duplicates keep > log || bad "a list"
"$bin/tshard" export l.tsh | cut -d ' ' -f 1,2 | sort > got
printf '1 1\n7 1\n7 2\n7 2\n7 3\n' | cmp -s - got || bad "a list: $(cat got)"
printf '1 1 1\n2 3.5 1\n' > l.tns
refused 1 "l.tns:2: index '3.5' in mode 2 is not a whole number (--text takes the fields of a mode as names)" "$bin/tshard" build l.tns -o no.tsh
printf '1 1 1\n2 2 nan\nNA 1 4\n2 2 5\n' > l.tns
refused 1 "l.tns:2: column 3: value 'nan' is not a finite number (--missing skip leaves such lines out)" "$bin/tshard" build l.tns -o no.tsh
"$bin/tshard" build l.tns --missing skip --json -o l2.tsh > log || bad "skip: $(cat log)"
grep -q '"read": *2,' log && grep -q '"missing": *2,' log || bad "skip: $(cat log)"
{ printf 'sptensor\n2\n2 2\n4\n'; cat l.tns; } > sp.tns # a line that is left out is of those that the header counts
"$bin/tshard" build sp.tns --missing skip > log 2>&1 || bad "sptensor, skip: $(cat log)"

# what is left out names nothing and stretches no times
printf 'u,d,v\nann,2024-01-01,1\nbob,1990-01-01,\n,1980-01-01,2\ncarl,2024-01-02,3\n' > s.csv
for threads in 1 3; do
    "$bin/tshard" build s.csv --bin d=1d --missing skip --threads $threads --force > log || bad "skip: $(cat log)"
    grep -q '2 x 2, 2 nonzeros' log && tr -s ' \n' ' ' < log | grep -q 'left out 2 lines with missing fields' || bad "skip: $(cat log)"
done

# NaN in the first line is no header
printf 'NaN,2,5\n1,2,3\n' > h.csv
refused 1 "h.csv:1: column 1: 'NaN' stands for what is missing" "$bin/tshard" build h.csv -o no.tsh
"$bin/tshard" build h.csv --missing skip > log 2>&1 || bad "$(cat log)"
grep -q 'left out 1 line' log || bad "a header of NaN: $(cat log)"

# lines count from 1, the header among them
for first in '"a,1,1\n' 'u,"d,v\n1,1,1\n'; do
    # shellcheck disable=SC2059
    printf "$first" > q.csv
    refused 1 "q.csv:1: a field begins with a quote that is not closed in its line" "$bin/tshard" build q.csv -o no.tsh
    # shellcheck disable=SC2059
    printf "\n\n$first" > q.tsv
    refused 1 "q.tsv:3: a field begins with a quote that is not closed" "$bin/tshard" build q.tsv --separator , -o no.tsh
done
printf 'u,d,v\n1,1,1\n' > q1.csv
printf '"u,d,v\n1,1,1\n' > q2.csv
refused 1 "q2.csv:1: a field begins" "$bin/tshard" build q1.csv q2.csv -o no.tsh

# one mode that starts at 0
printf '1 0 2\n2 1 3\n' > z.tns
refused 1 "z.tns:1: index 0 in mode 2, but indices start at 1 (--base 0 is for a file in which the indices of all modes start at 0; if those of this mode alone do, add 1 to them)" \
    "$bin/tshard" build z.tns -o no.tsh
"$bin/tshard" build z.tns --base 0 > log 2>&1 || bad "$(cat log)"
grep -q "index 0 does not occur in mode 1" log || bad "no note on the mode that starts at 1: $(cat log)"
# neighbours of a mode that is to be smooth: labels in order, or a note
smooth() # WANT LABEL...: whether cp --smooth 2 has a note on these labels
{
    want=$1
    shift
    { echo u,d,v; for d; do for u in 1 2 3 4; do echo "$u,$d,$((u * 7 % 5 + 1))"; done; done; } > o.csv
    "$bin/tshard" build o.csv --force -o o.tsh > log 2>&1 || bad "$(cat log)"
    "$bin/tstream" cp o.tsh --cpu -r 1 -i 2 --smooth 2 --no-output > log 2>&1 || bad "$(cat log)"
    got=$(tr -s ' \n' ' ' < log | grep -c 'in no order of numbers, dates or letters' || :)
    [ "$got" = "$want" ] || bad "smooth over $*: $(cat log)"
}
smooth 0 3.0 1.0 2.0 4.0
smooth 1 3.5 1.0 2.0 4.0
smooth 0 0.5 1.5 9.5 10.5
smooth 1 1.5 10.5 2.5 9.5
smooth 0 10.5 9.5 2.5
smooth 0 2024-01-31 2024-02-01 2024-03-01
smooth 1 2024-02-01 2024-01-31 2024-03-01
smooth 0 ann bob carl
smooth 1 carl ann bob
exit $failed
