#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files that are given to tshard build by mistake, or in a form that options read: what is wrong is said, with what to
# do about it, and with those options the file is read.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# ---- files of other programs, by their first bytes ----
rows()
{
    printf 'user,item,value\nann,x,1.5\nben,y,2\ncarla,z,3\n'
}
zip_head() # NAME: the first header of a zip archive with such a member
{
    printf 'PK\003\004\024\000\000\000\000\000%s' "$(printf 'abcdefghijkl')"
    printf '\144\000\000\000'
    printf "\\$(printf %o ${#1})\000\000\000%s" "$1"
    rows
}
n=0
# named TEXT: the file `given` is refused with its name and TEXT, whatever its ending
named()
{
    for ending in '' .csv .tsv .tns; do
        n=$((n + 1))
        [ -z "$ending" ] || cp given "given$ending"
        refused 1 "given$ending: $1" "$bin/tshard" build "given$ending" -o no.tsh
    done
    refused 1 "standard input: $1" "$bin/tshard" build - --format csv -o no.tsh < given
}
{ printf 'PAR1\025\004'; rows; } > given; named 'this is a Parquet file, not text that lists nonzeros; in Python, pandas.read_parquet'
{ printf 'ARROW1\000\000'; rows; } > given; named 'this is a Feather or Arrow file, not text that lists nonzeros; in Python, pandas.read_feather'
{ printf 'FEA1'; rows; } > given; named 'this is a Feather file of version 1'
{ printf 'MATLAB 5.0 MAT-file, Platform: posix\n'; rows; } > given; named 'this is a MATLAB file'
{ printf 'SQLite format 3\000'; rows; } > given; named 'this is an SQLite database'
{ printf 'RDX3\nX\n'; rows; } > given; named 'this is data of R'
{ printf '\200\004\225'; rows; } > given; named 'this is a Python pickle'
{ printf '<!doctype HTML>\n'; rows; } > given; named 'this is a web page'
printf '{"user":"ann","value":1}\n{"user":"ben","value":2}\n' > given; named 'this is JSON'
zip_head x.npy > given; named 'this is an archive of NumPy arrays (.npz)'
zip_head xl/workbook.xml > given; named 'this is a workbook of Excel'
zip_head table.csv > given; named 'these are zip data, which this build does not read; unpack them: unzip -p FILE > NEW-FILE'
rows | gzip -c | gzip -c > given; named 'it was packed twice: inside are gzip data; unpack the outer ones first'
# a file that is long and has no line
{ printf 'PAR1'; head -c 300000 /dev/zero | tr '\000' x; } > given; named 'this is a Parquet file'
# UTF-16: with a mark, and without one in both orders
if command -v iconv > log; then
    rows | iconv -f UTF-8 -t UTF-16 > given; named 'its text is UTF-16; make it UTF-8: iconv -f UTF-16 -t UTF-8 FILE'
    rows | iconv -f UTF-8 -t UTF-16LE > given; named 'its text is UTF-16'
    rows | iconv -f UTF-8 -t UTF-16BE > given; named 'its text is UTF-16'
fi

# ---- tables that need an option: the sentence names it, and it reads the file ----
# needs TEXT OPTIONS ROWS: t.csv is refused with TEXT (- is not refused), and with OPTIONS `export --format csv` prints
# ROWS, divided by blanks, behind the header
needs()
{
    n=$((n + 1))
    [ "$1" = - ] || refused 1 "t.csv:$1" "$bin/tshard" build t.csv -o no.tsh
    # shellcheck disable=SC2086
    (eval "\"$bin/tshard\" build t.csv $2 --force -o t.tsh") > log 2>&1 || { bad "$2: $(cat log)"; return; }
    "$bin/tshard" export t.tsh --format csv -q | sed 1d | tr '\n' ' ' | sed 's/ $//' > rows
    [ "$(cat rows)" = "$3" ] || bad "$2: $(cat rows), expected $3"
}
printf 'u;v;value\nann;x;1\nben;y;2\n' > t.csv
needs "1: one column, but 2 semicolons in each line (--separator ';')" "--separator ';'" 'ann,x,1 ben,y,2'
printf 'u;v;value\nann;x;1,5\nben;y;-2,25e1\n' > t.csv
needs "1: one column, but 2 semicolons in each line (--separator ';', and --decimal , for numbers such as 1,5)" \
        "--separator ';' --decimal ," 'ann,x,1.5 ben,y,-22.5'
printf 'u\tv\tvalue\nann\tx\t1\nben\ty\t2\n' > t.csv
needs "1: one column, but 2 tabs in each line (--separator '\\t')" "--separator '\\t'" 'ann,x,1 ben,y,2'
printf 'u|v|value\nann|x|1\nben|y|2\n' > t.csv
needs "1: one column, but 2 bars in each line" "--separator '|'" 'ann,x,1 ben,y,2'
printf 'u,v,value\nann,x,"1,5"\nben,y,"2"\n' > t.csv
needs '1: the last column is not a number in every line' '--decimal ,' 'ann,x,1.5 ben,y,2'
printf 'u,v,value,w\nann,x,"1,5","0,5"\nben,y,2,1\n' > t.csv
needs - '--decimal , --modes u,v --value value --weights w' 'ann,x,1.5,0.5 ben,y,2,1'
printf '"abc"@en,x,1\n"def"@de,y,2\n' > t.csv
needs '1: text behind the closing quote of a field (--quote none takes quotes as they are)' '--quote none' \
        '"""abc""@en",x,1 """def""@de",y,2'
printf 'u,v,value\n5" disk,x,1\n"great" ann,y,2\n' > t.csv
needs '3: text behind the closing quote of a field (--quote none' '--quote none' '"5"" disk",x,1 """great"" ann",y,2'
printf ',u,v,value\n0,ann,x,1\n1,ben,y,2\n' > t.csv
needs '2: column 1: the column has no name and counts lines from 0, as the index of pandas does; --modes or --columns' \
        '--modes u,v --value value' 'ann,x,1 ben,y,2'
printf 'Unnamed: 0,u,v,value\n0,ann,x,1\n1,ben,y,2\n' > t.csv
needs '2: column 1 (Unnamed: 0): the column has no name and counts lines' '--modes u,v --value value' 'ann,x,1 ben,y,2'
printf 'u,v,value\nann,x,1\nben,,2\n' > t.csv
needs '3: column 2 (v): the field is empty (--missing skip' '--missing skip' 'ann,x,1'
# a semicolon that divides nothing, a decimal point under --decimal ,
printf 'u,v,value\na;b,x,1\n' > t.csv
needs - '' 'a;b,x,1'
printf 'u;v;value\nann;x;1.5\n' > t.csv
refused 1 "t.csv:2: column 3 (value): value '1.5' has a point, but --decimal ," "$bin/tshard" build t.csv --separator ';' --decimal , \
    --value value -o no.tsh
printf 'u,v,value\nann,x,"1,5"\n' > t.csv
refused 1 "t.csv:2: column 3 (value): value '1,5' has a comma (--decimal , reads it as a point)" "$bin/tshard" build t.csv --value value \
    -o no.tsh
refused 2 '--decimal are of tables, and --format list is none' "$bin/tshard" build t.csv --format list --decimal , -o no.tsh

# ---- what no option reads ----
printf 'u,v,value\n"ann\nmiller",x,1\nben,y,2\n' > t.csv
refused 1 't.csv:2: a field begins with a quote that is not closed in its line; a quoted field must end there' "$bin/tshard" build t.csv \
    -o no.tsh
printf 'u,v,value\nann,x,1\n' > jan.csv
printf 'v,u,value\nx,ann,1\n' > feb.csv
refused 1 'feb.csv:1: its header has the names of the first file in another order' "$bin/tshard" build jan.csv feb.csv -o no.tsh
printf 'u,v,value\nben,x,1\n' > feb.csv
"$bin/tshard" build jan.csv feb.csv -q -o months.tsh > log || bad "months: $(cat log)"
awk 'BEGIN { srand(1); for (i = 0; i < 5; i++) { for (j = 0; j < 6; j++) printf "%s%.4f", j ? " " : "", rand(); print "" } }' > dense.txt
refused 1 "is not a whole number (a fraction: if the lines are rows of a matrix" "$bin/tshard" build dense.txt -o no.tsh
tr ' ' , < dense.txt > dense.csv
refused 1 'dense.csv:1: numbers with fractions in every column: the lines seem to be rows of a matrix' "$bin/tshard" build dense.csv -o no.tsh
"$bin/tshard" build dense.csv --text 1,2,3,4,5 -q -o places.tsh > log || bad "columns that were named: $(cat log)"
printf '40.5,-74.25,1.5\n41.5,-73.5,2.5\n' > places.csv
"$bin/tshard" build places.csv -q -o places.tsh --force > log || bad "places: $(cat log)"

# ---- a wide table ----
printf 'id,name,2021,2022\n1,a,3,4\n2,b,1,0\n' > wide.csv
refused 1 'wide.csv:1: the columns 2021 and 2022 seem to be cells of a wide table, and a line for each cell is wanted (melt' \
    "$bin/tshard" build wide.csv -o no.tsh
"$bin/tshard" build wide.csv --columns id,name --value 2021 -q -o wide.tsh > log || bad "wide: $(cat log)"

# ---- lists of events: indices from 0, blanks in front, and a last column of zeros ----
printf ' 0\t1\t2\t24\t0\n 3\t0\t1\t48\t0\n' > events.txt
refused 1 'index 0 in mode 1, but indices start at 1 (--base 0' "$bin/tshard" build events.txt -o no.tsh
refused 1 '2 of them zero (if the last column is no value, as in lists of events, --columns names the columns of modes, and --value none' \
    "$bin/tshard" build events.txt --base 0 -o no.tsh
"$bin/tshard" build events.txt --base 0 --columns 1,2,3,4 --value none -q -o events.tsh > log || bad "events: $(cat log)"
[ "$("$bin/tshard" export events.tsh -q | tr '\n' ';')" = '0 1 2 24 1;3 0 1 48 1;' ] || bad "events: $("$bin/tshard" export events.tsh)"
# ids beyond any index are names
printf 'u,v,value\n18446744073709551616,1,1\n18446744073709551617,2,2\n' > ids.csv
"$bin/tshard" build ids.csv -q -o ids.tsh > log || bad "ids: $(cat log)"
"$bin/tshard" export ids.tsh --format csv -q | grep -q '^18446744073709551617,2,2$' || bad "ids: $("$bin/tshard" export ids.tsh)"

# ---- columns of numbers that are most likely names, months or times: a note, once, with the option ----
noted() # FILE PATTERN: notes about the table, whose lines are on standard input
{
    { echo 'a,b,v' && cat; } > noted.csv
    "$bin/tshard" build noted.csv --force > log 2> notes || bad "noted.csv: $(cat notes)"
    grep -q -e "$1" notes && [ "$(wc -l < notes)" -eq 1 ] || bad "notes of $(sed -n 2p noted.csv): $(cat notes)"
    "$bin/tshard" build noted.csv --force -q > log 2>&1 && [ ! -s log ] || bad "-q: $(cat log)"
}
printf '90210,1,2\n10001,2,3\n' | noted 'mode 1 (a) uses 2 of its 90,210 indices. .*, --text a makes a name'
printf '202301,1,2\n202211,2,3\n' | noted 'numbers like months. .*, --text a --names sorted'
printf '20230131,1,2\n20221101,2,3\n' | noted 'numbers like times. .*, --bin a=1d'
printf '1700000000,1,2\n1600000000,2,3\n' | noted 'numbers like times. .*, --bin a=1d'
seq -f '2024-05-31T10:%g,1,2' 10 40 | noted 'mode 1 (a) has 31 different times, .* --bin a=1d'
for how in '--text a' '--dims 100000x2'; do
    printf 'a,b,v\n90210,1,2\n10001,2,3\n' > noted.csv
    "$bin/tshard" build noted.csv --force $how > log 2> notes && [ ! -s notes ] || bad "$how: $(cat notes)"
done
printf '1700000000,1,2\n' > noted.csv
refused 1 "there is no mode 'week', as the table has no header line; --modes names its modes" \
    "$bin/tshard" build noted.csv --bin week=1d -o no.tsh

[ $n -ge 68 ] || bad "only $n cases"
exit "$failed"
