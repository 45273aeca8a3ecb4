#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tables as people have them: CSV and TSV with names, times and headers come to the tensor that awk makes of
# them, in any memory and with any number of threads.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# expect FILE TEXT: it holds it
expect()
{
    grep -qF -- "$2" "$1" || bad "no \"$2\" in: $(cat "$1")"
}
labels()
{
    tail -c +33 "$1.tsh/mode$2.labels"
}

printf 'user,item,when,rating\nalice,book,2024-05-31,5\n"bob ""x"", jr",lamp,2024-06-12T10:00,3\nalice,lamp,1717200000,4\n' > r.csv
"$bin/tshard" build r.csv --modes user,item,when --value rating --bin when=7d > log 2>&1 || bad "$(cat log)"
expect log "2 x 2 x 3, 3 nonzeros"
printf 'alice\nbob "x", jr\n' > want
labels r 1 | cmp - want || bad "names"
printf '2024-05-27\n2024-06-03\n2024-06-10\n' > want
labels r 3 | cmp - want || bad "bins"
"$bin/tshard" export r.tsh > got
printf '1 1 1 5\n1 2 1 4\n2 2 3 3\n' | cmp - got || bad "nonzeros: $(cat got)"
grep -q rating r.tsh/modes || bad "no name of the values"

# without a header, by position; columns in another order; each line counts as 1
printf 'x;3;a\ny;4;b\nx;3;b\nx;3;b\n' > p.csv
"$bin/tshard" build p.csv --separator ';' --columns 3,1 --modes letter,who --value none > log 2>&1 || bad "$(cat log)"
expect log "2 x 2, 3 nonzeros"
"$bin/tshard" export p.tsh > got
printf '1 1 1\n2 1 2\n2 2 1\n' | cmp - got || bad "counts: $(cat got)"
"$bin/tshard" build --force p.csv --separator ';' --columns 3,1 --value 2 > log 2>&1 || bad "$(cat log)"
printf 'b\t2\na\t1\n' > s.tsv
"$bin/tshard" build s.tsv --names sorted --value none > log 2>&1 || bad "$(cat log)"
printf 'a\nb\n' > want
labels s 1 | cmp - want || bad "sorted names"
printf '7 8 1\n9 8 2\n' | "$bin/tshard" build - -o t.tsh --format table --text 1 > log 2>&1 || bad "$(cat log)"
expect log "2 x 8, 2 nonzeros"

# what is unclear or wrong is asked or told
refused 1 "--value NAME says which is the value" "$bin/tshard" build r.csv --modes user,item -o no.tsh
refused 1 "names column 'usr'; there are 4: user, item, when, rating" "$bin/tshard" build r.csv --modes usr,item -o no.tsh
refused 2 "expected a number and s, m, h" "$bin/tshard" build r.csv --bin when=7q -o no.tsh
refused 2 "--separator must be one character" "$bin/tshard" build r.csv --separator ab -o no.tsh
refused 1 "is not a time" "$bin/tshard" build r.csv --bin user=7d -o no.tsh
printf '1,2,3\n4,x,6\n' > late.csv
"$bin/tshard" build late.csv -o late.tsh > log 2>&1 || bad "$(cat log)"
{ seq 1 20000 | awk '{ print $1 ",1,2" }'; echo "7,x,1"; } > late.csv
refused 1 "late.csv:20001: column 2: 'x' is not a whole number, but those before it are; --text 2" "$bin/tshard" build late.csv -o no.tsh
printf '1,2,3,4\n' > c.tns
refused 1 "--format csv reads such a file" "$bin/tshard" build c.tns -o no.tsh
"$bin/tshard" build c.tns --format csv -o c.tsh > log 2>&1 || bad "$(cat log)"

# times: what the numbers of a column are, and what is ambiguous
binned() # TIMES WIDTH LABELS [OPTION...]: a table of these, divided by blanks, has bins with these labels
{
    { echo 'user,day,n'; for t in $1; do echo "u,$t,1"; done; } > t.csv
    want=$3 given="$1 by $2"
    set -- --bin "day=$2" "${4-}" "${5-}"
    [ -n "${3-}" ] || set -- "$1" "$2"
    "$bin/tshard" build t.csv --force -o times.tsh "$@" > log 2>&1 || bad "times $given: $(cat log)"
    [ "$(labels times 2 | tr '\n' ' ')" = "$want " ] || bad "times $given: $(labels times 2), expected $want"
}
one_bin="fall into one bin of mode 2 (day), "
binned '20240131 20240201' 1d '2024-01-31 2024-02-01'
if grep -q "one bin" log; then bad "a note on two bins: $(cat log)"; fi
binned '20240131 20240131' 1d 2024-01-31
expect log "all 2 nonzeros read $one_bin"2024-01-31
binned 20240131 1d 2024-01-31
if grep -q "one bin" log; then bad "a note on one line: $(cat log)"; fi
binned '2023 2025 2023.0' 1y '2023 2024 2025'
binned '2023 2025' 6mo '2023-01 2023-07 2024-01 2024-07 2025-01'
binned '2024-05 2024-06' 1mo '2024-05 2024-06'
binned '1717200000123 1717286400000' 1d '2024-06-01 2024-06-02'
binned '1717200000123456 1717286400000000' 1d '2024-06-01 2024-06-02'
binned '1717200000123456789 1717286400000000000' 1d '2024-06-01 2024-06-02'
binned '20240131 20240132' 1d 1970-08-23 --time-unit day=s
expect log "${one_bin}1970-08-23"
binned '100000 200000' 1min '1970-01-01T00:01 1970-01-01T00:02 1970-01-01T00:03' --time-unit ms
binned '1850 1851' 1y '1850 1851' --time-unit year
binned '18500101 18500102' 1d '1850-01-01 1850-01-02' --time-unit day=date
binned '1850 1852' 1y '1850 1851 1852' --time-unit 2=year
for units in '--time-unit day=year --time-unit s' '--time-unit s --time-unit day=year'; do # that of a mode counts
    printf 'user,day,n\na,1850,1\nb,1851,1\n' > t.csv
    # shellcheck disable=SC2086
    "$bin/tshard" build t.csv --bin day=1y $units --force -o times.tsh > log 2>&1 || bad "$units: $(cat log)"
    [ "$(labels times 2 | tr '\n' ' ')" = '1850 1851 ' ] || bad "$units: $(labels times 2)"
done
printf 'user,day,n\na,20240131,1\nb,20240201,1\nc,86400,1\n' > t.csv
refused 1 "t.csv:4: column 2 (day): '86400' is no time as a date of eight digits, like other times of the column, and 1970-01-02T00:00:00 in seconds since 1970; --time-unit day=s or day=date decides" \
    "$bin/tshard" build t.csv --bin day=1d -o no.tsh
printf 'user,day,n\na,2023,1\n' > t.csv
refused 1 "t.csv:2: column 2 (day): '2023' is 1970-01-01T00:33:43 in seconds since 1970, and 2023 as a year; --time-unit day=s or day=year decides" \
    "$bin/tshard" build t.csv --bin day=1h -o no.tsh
refused 1 "t.csv:2: column 2 (day): '2023' is not a time as a date of eight digits" "$bin/tshard" build t.csv --bin day=1h --time-unit date -o no.tsh
refused 1 "--time-unit user: there is no such mode of --bin" "$bin/tshard" build t.csv --bin day=1d --time-unit user=s -o no.tsh
refused 2 "'hour' is not a unit of time" "$bin/tshard" build t.csv --bin day=1d --time-unit day=hour -o no.tsh

# duplicates that are forbidden: where they are, in the words of the table
printf 'user,item,when,n\nann,"a ""b""",2024-05-31,1\n\nbob,c,2024-06-01,1\n' > d.csv
printf 'user,item,when,n\ncarl,c,2024-06-01,1\nann,"a ""b""",2024-05-30,2\n' > d2.csv
for names in seen sorted; do
    refused 1 "d2.csv:3: a second nonzero at 'ann' 'a \"b\"' 2024-05-27, which --duplicates error forbids; the first is at d.csv:2" \
        "$bin/tshard" build d.csv d2.csv --bin when=7d --names $names -o no.tsh --duplicates error
done
refused 1 "more than one nonzero at 'ann' 'a \"b\"' 2024-05-27, and" sh -c \
    'cat d.csv d.csv | grep -v "^user" | "$0" build - --format csv --header no --bin 3=7d -o no.tsh --duplicates error' "$bin/tshard"
printf '3;1;1\n3;2;1\n3;1;0\n3;1;5\n' > d3.csv # a zero is no nonzero
refused 1 "d3.csv:4: a second nonzero at 3 1, which --duplicates error forbids; the first is at d3.csv:1" \
    "$bin/tshard" build d3.csv --separator ';' -o no.tsh --duplicates error
awk 'BEGIN { for (i = 0; i < 200000; i++) print "n" i ",x" i % 7 ",1"; print "n150000,x4,2" }' > d4.csv
refused 1 "d4.csv:200001: a second nonzero at 'n150000' 'x4', which --duplicates error forbids; the first is at d4.csv:150001" \
    "$bin/tshard" build d4.csv --memory 32M -o no.tsh --duplicates error
printf '%%%%MatrixMarket matrix coordinate real symmetric\n%% 3 3 3\n3 3 3\n1 1 2\n3 1 4\n1 3 5\n' > d.mtx
refused 1 "d.mtx:6: a second nonzero at 1 3, which --duplicates error forbids; the first is at d.mtx:5" \
    "$bin/tshard" build d.mtx -o no.tsh --duplicates error

# any option that names a field of the first line makes it a header, also where no column has numbers
printf '%s\n' ip,url,when 1.1.1.1,/a,2026-01-05T10:00 1.1.1.2,/b,2026-01-05T11:00 > events.csv
for said in '--bin when=1h' '--text ip' '--modes url,ip' '--columns ip,url' '--bin when=1h --time-unit when=iso'; do
    # shellcheck disable=SC2086
    "$bin/tshard" build events.csv --value none $said -f -o events.tsh > log 2>&1 || bad "$said: $(cat log)"
    grep -q ' 2 nonzeros$' log || bad "$said: $(cat log)"
done

# The first line: `header` is one by itself; `data` is a nonzero; `doubt` is one, with a note. What the user says
# of it is done, without a note, but for `only` such options. Lines are divided by |.
while IFS=' ' read -r verdict lines options; do
    echo "$lines" | tr '|' '\n' > first.csv
    all=$(wc -l < first.csv)
    for said in '' '--header yes' '--header no'; do
        case $verdict,$said in *-only,?*) continue ;; esac
        wanted=$all
        case $said,$verdict in *yes,* | ,header*) wanted=$((all - 1)) ;; esac
        # shellcheck disable=SC2086
        "$bin/tshard" build first.csv --duplicates keep $options $said -f -o first.tsh > log 2>&1 ||
            { bad "$lines $options $said: $(cat log)"; continue; }
        tr -s ' \n' ' ' < log | grep -q "read $wanted," || bad "$lines $options $said: not $wanted: $(cat log)"
        notes=$(tr -s ' \n' ' ' < log | grep -c 'the first line was read as data, but looks like .*--header' || true)
        case $said,$verdict in ,doubt*) told=1 ;; *) told=0 ;; esac
        [ "$notes" = "$told" ] || bad "$lines $options $said: $notes notes: $(cat log)"
    done
done << 'end'
doubt user,item|ann,book|bob,lamp|ann,lamp --value none
doubt user,item,place|ann,book,x|bob,lamp,y --value none
doubt user,item|ann,a7|bob,b9 --value none
doubt user;item|ann;book|bob;lamp --separator ; --value none
doubt user,item,place|ann,book,x|bob,lamp,y --columns 1,3 --value none
doubt-only user,item|ann,book|bob,lamp --value none --modes who,what
doubt user,item|ann,book|bob,lamp --value none --names sorted
doubt "user","item"|ann,book|bob,lamp --value none
header user,n|ann,1|bob,2 --value none
header user,when|ann,2024-01-31|bob,2024-02-01T10:00 --value none
header-only user,when|ann,2024-01-31|bob,2024-02-01 --value none --bin 2=1d
data ann,book|bob,lamp|ann,lamp --value none
data ann,book|bob,lamp|carl,book --value none
data ann@x.org,book|bob@x.org,lamp --value none
data 10.0.0.1,/a|10.0.0.2,/b --value none
data ann,2024-01-31|bob,2024-02-01 --value none
data ann,7|bob,8 --value none
data-only user,item --value none
end

# several files of one table: the header of each is dropped
{ head -n 1 r.csv; echo 'carl,book,2024-07-01,1'; } > r2.csv
"$bin/tshard" build r.csv r2.csv --bin when=1mo -o two.tsh > log 2>&1 || bad "$(cat log)"
expect log "3 x 2 x 3, 4 nonzeros"

# however it is written; --header yes has one in every file
printf 'user,item\nann,x\nbob,y\n' > h1.csv
printf 'user,item\r\ncarl,x\r\n' > h2.csv
printf '\n "user" , "item"\ndora,y\n' > h3.csv
"$bin/tshard" build h1.csv h2.csv h3.csv --value none --header yes -o h.tsh > log 2>&1 || bad "$(cat log)"
expect log "4 x 2, 4 nonzeros"
printf 'item,user\ncarl,x\n' > h4.csv
refused 1 "h4.csv:1: its header is not that of the first file" "$bin/tshard" build h1.csv h4.csv --value none --header yes -o no.tsh
"$bin/tshard" build h1.csv h4.csv --value none --modes user,item -o h5.tsh > log 2>&1 || bad "$(cat log)" # a part without one
expect log "4 x 3, 4 nonzeros"

# a large one, against awk, through every memory
awk 'BEGIN { print "who,what,n"; for (i = 0; i < 120000; i++) { x = (i * 7919) % 100003
    printf "name-of-somebody-with-a-long-name-number-%d-and-more-to-it-so-that-memory-is-used,thing%d,%d\n", x * x % 90001, x % 501, i % 7 + 1 } }' > big.csv
"$bin/tshard" build big.csv --memory 1G > log 2>&1 || bad "$(cat log)"
tail -n +2 big.csv | cut -d, -f1 | awk '!seen[$0]++' > want
labels big 1 | cmp - want || bad "names as first seen"
tail -n +2 big.csv | awk -F, '{ if (!($1 in a)) a[$1] = ++n; if (!($2 in b)) b[$2] = ++m; v[a[$1] " " b[$2]] += $3 }
    END { for (k in v) print k, v[k] }' | sort > want
"$bin/tshard" export big.tsh | sort | cmp - want || bad "nonzeros of the large table"
for threads in 1 3; do
    "$bin/tshard" build big.csv -o small.tsh --force --memory 32M --threads $threads > log 2>&1 || bad "$(cat log)"
    diff -r big.tsh small.tsh > log || bad "32M, $threads threads: $(cat log)"
done
# dictionaries that go to disk keep to the budget, as everything else (sanitizers take memory of their own)
if ! grep -qE '__[at]san_init' "$bin/tshard"; then
    for names in seen sorted; do
        peak=$("$bin/tshard" build big.csv -o small.tsh --force --names $names --memory 32M --json | tr ',' '\n' | sed -n 's/^"peak_bytes"://p')
        [ "$peak" -gt 0 ] && [ "$peak" -le $(((32 + 24) << 20)) ] || bad "names $names: $peak bytes of 32M and 24M"
    done
fi
"$bin/tshard" build big.csv -o sorted.tsh --names sorted --memory 1G > log 2>&1 || bad "$(cat log)"
tail -n +2 big.csv | cut -d, -f1 | LC_ALL=C sort -u > want
labels sorted 1 | cmp - want || bad "sorted names of the large table"
"$bin/tshard" build big.csv -o small.tsh --force --names sorted --memory 32M > log 2>&1 || bad "$(cat log)"
diff -r sorted.tsh small.tsh > log || bad "sorted, 32M: $(cat log)"

# names of indices: as many as there are indices, each once
printf '1 1 1\n2 2 1\n3 1 2\n' > m.tns
printf 'id\nred\ngreen\nblue\n' > names
refused 1 "names: 4 names for the 3 indices of mode 1 (is the first line a header?" \
    "$bin/tshard" build m.tns --map 1=names -o no.tsh
refused 1 "names: 4 names for the 2 indices of mode 2 (--dims" "$bin/tshard" build m.tns --map 2=names -o no.tsh
"$bin/tshard" build m.tns --map 1=names --allow-missing -o m1.tsh > log 2>&1 || bad "$(cat log)"
printf 'red\ngreen\n' > names
refused 1 "names: 2 names for the 3 indices" "$bin/tshard" build m.tns --map 1=names -o no.tsh
printf 'red\ngreen\nred\n' > names
refused 1 "names: lines 1 and 3 are the same name, 'red'" "$bin/tshard" build m.tns --map 1=names --allow-missing -o no.tsh
printf 'red\ngreen\nblue\n' > names
"$bin/tshard" build m.tns --map 1=names -o m2.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tshard" build m.tns --map 1=/dev/null -o m3.tsh > log 2>&1 || bad "$(cat log)"

# the base of the input comes back, and one that seems wrong is told
printf '0 0 1\n1 1 2\n' > z.tns
"$bin/tshard" build --base 0 z.tns > log 2>&1 || bad "$(cat log)"
if grep -q "index 0" log; then bad "a note on a good base: $(cat log)"; fi
"$bin/tshard" export z.tsh | cmp - z.tns || bad "the base is lost"
"$bin/tshard" export z.tsh --base 1 > got
printf '1 1 1\n2 2 2\n' | cmp - got || bad "base 1: $(cat got)"
"$bin/tshard" build --base 0 m.tns -o zz.tsh > log 2>&1 || bad "$(cat log)"
expect log "index 0 does not occur in any mode"

# values: transformed once those of a cell are added up
printf '1 1 2\n1 1 1\n2 1 -0.5\n2 2 7\n' > v.tns
"$bin/tshard" build v.tns --transform binary > log 2>&1 || bad "$(cat log)"
"$bin/tshard" export v.tsh > got
printf '1 1 1\n2 1 1\n2 2 1\n' | cmp - got || bad "binary: $(cat got)"
"$bin/tshard" build v.tns --force --values float64 --transform log1p > log 2>&1 || bad "$(cat log)"
"$bin/tshard" export v.tsh > got
awk '{ v[$1 " " $2] += $3 } END { for (k in v) printf "%s %.12g\n", k, log(1 + v[k]) }' v.tns | sort > want
awk '{ printf "%s %s %.12g\n", $1, $2, $3 }' got | cmp - want || bad "log1p: $(cat got)"
"$bin/tshard" build v.tns --force --transform scale=-2 > log 2>&1 || bad "$(cat log)"
"$bin/tshard" export v.tsh > got
printf '1 1 -6\n2 1 1\n2 2 -14\n' | cmp - got || bad "scale: $(cat got)"
"$bin/tshard" build v.tns --force --duplicates keep --transform scale=2 > log 2>&1 || bad "$(cat log)"
"$bin/tshard" export v.tsh | sort > got
printf '1 1 2\n1 1 4\n2 1 -1\n2 2 14\n' | cmp - got || bad "scale, kept: $(cat got)"
refused 1 "of which --transform makes what float32 does not hold" "$bin/tshard" build v.tns -o no.tsh --transform scale=1e38
printf '1 1 2\n2 1 -3\n' > w.tns
refused 1 "the value at (2, 1), counted from 1, is -3" "$bin/tshard" build w.tns -o no.tsh --transform log1p
refused 2 "expected log1p, binary, or scale=" "$bin/tshard" build w.tns -o no.tsh --transform scale=0

# carriage returns for line ends: all lines would be one, and of its columns one would be value
for text in 'u,i,v\ra,b,1\rc,d,2\r' '1,2,3\r4,5,6\r' 'a,b,1\rc,d,2' '"a",b,1\r"c",d,2\r'; do
    # shellcheck disable=SC2059
    printf "$text" > cr.csv
    for how in '' '--header yes' '--header no' '--quote none' '--columns 1,2 --value none' '--text 1,2'; do
        # shellcheck disable=SC2086
        refused 1 "cr.csv:1: a carriage return in a field" "$bin/tshard" build cr.csv $how -o no.tsh
    done
done
printf 'u,i,v\na,b,1\nc\rd,e,2\n' > cr.csv
refused 1 "cr.csv:3: a carriage return in a field" "$bin/tshard" build cr.csv -o no.tsh
{ echo u,i,v; awk 'BEGIN { for (i = 0; i < 20000; i++) print "a,b,1" }'; printf 'c,d\re,2\n'; } > cr.csv # behind what decides on columns
refused 1 "cr.csv:20002: a carriage return in a field" "$bin/tshard" build cr.csv -o no.tsh
printf 'u,i,v\r\n"a\rb",c,1\r\nd,e,2\r' > cr.csv # in quotes it is one of a name, and so is CR LF at line ends
"$bin/tshard" build cr.csv -o cr.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tshard" export cr.tsh --format csv > got
printf 'u,i,v\n"a\rb",c,1\nd,e,2\n' | cmp - got || bad "a name with a carriage return: $(od -c got)"

# MatrixMarket, GenTen
printf '%%%%MatrixMarket matrix coordinate real symmetric\n%% c\n\n3 3 4\n1 1 1\n2 1 5\n3 1 6\n3 3 2\n' > s.mtx
"$bin/tshard" build s.mtx -o mm.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tshard" export mm.tsh | sort > got
printf '1 1 1\n1 2 5\n1 3 6\n2 1 5\n3 1 6\n3 3 2\n' | cmp - got || bad "symmetric: $(cat got)"
sed 's/symmetric/skew-symmetric/' s.mtx > k.mtx
"$bin/tshard" build k.mtx -o mk.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tshard" export mk.tsh | grep -qx '1 2 -5' || bad "skew-symmetric"
printf '%%%%MatrixMarket matrix coordinate pattern general\n3 4 2\n1 1\n2 4\n' > p.mtx
"$bin/tshard" build p.mtx -o mp.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tshard" export mp.tsh > got
printf '1 1 1\n2 4 1\n' | cmp - got || bad "pattern: $(cat got)"
sed 's/^2 4/2 4 7/' p.mtx > q.mtx
refused 1 "q.mtx:4: found 3 fields, expected 2" "$bin/tshard" build q.mtx -o no.tsh
sed 's/3 4 2/3 4 3/' p.mtx > q.mtx
refused 1 "found 2 nonzeros, but its header says 3" "$bin/tshard" build q.mtx -o no.tsh
printf '%%%%MatrixMarket matrix array real general\n3 4\n1\n1\n' > q.mtx
refused 1 "a dense matrix (array)" "$bin/tshard" build q.mtx -o no.tsh
printf '// GenTen\nsptensor indices-start-at-zero\n2\n3 2\n2\n0 0 4\n2 1 5\n' > g.tns
"$bin/tshard" build g.tns > log 2>&1 || bad "$(cat log)"
expect log "3 x 2, 2 nonzeros"
"$bin/tshard" export g.tsh > got
printf '0 0 4\n2 1 5\n' | cmp - got || bad "GenTen: $(cat got)"
printf 'sptensor\n2\n3 2\n2\n1 1 4\n3 2 5\n' > want # from 1 whatever the input did, or it says so
"$bin/tshard" export g.tsh --format sptensor | cmp - want || bad "sptensor of a tensor that counts from 0"
"$bin/tshard" export g.tsh --format sptensor --base 0 -o g0.tns
sed 1d g.tns | cmp - g0.tns || bad "sptensor from 0: $(cat g0.tns)"
printf 'tensor\n2\n2 2\n1\n2\n3\n4\n' > d.tns
refused 1 "d.tns:1: this is a dense tensor" "$bin/tshard" build d.tns -o no.tsh
exit $failed
