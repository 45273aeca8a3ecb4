#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the commands print fits 80 columns for tensors of 3 to 8 modes, a wider terminal shows more, and colour is on a
# terminal alone, never with NO_COLOR. Every command takes -q.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
COLUMNS=80
export COLUMNS

# columns of the widest line; mawk counts the bytes of an ellipsis
widest() { sed 's/…/./g' "$1" | LC_ALL=C.UTF-8 awk '{ n = length($0); if (n > most) most = n } END { print most + 0 }'; }
# fits COMMAND...: it ends well, and no line of it is wider than 80
fits()
{
    got=0
    "$@" > out 2> err || got=$?
    [ "$got" -eq 0 ] || bad "$*: exit $got: $(cat err)"
    [ -s out ] || bad "$*: prints nothing"
    [ "$(widest out)" -le 80 ] || bad "$*: $(widest out) columns: $(cat out)"
}

for order in 3 4 5 8; do
    awk -v order=$order 'BEGIN { srand(order); for (i = 1; i <= 3000; i++) {
        line = ""
        for (m = 1; m <= order; m++) line = line (1 + int((m == 2 ? 1e9 : 40 * m) * rand() ^ 2)) " "
        print line 1 + int(1e6 * rand()) / 7 } }' > t$order.tns
    awk 'BEGIN { for (i = 1; i <= 40; i++) printf "a rather long name of a thing, number %d\n", i }' > names.map
    fits "$bin/tshard" build t$order.tns --map 1=names.map
    grep -q '[0-9],[0-9][0-9][0-9]' out || bad "build: sizes without commas: $(cat out)"
    fits "$bin/tshard" info t$order.tsh
    fits "$bin/tshard" verify t$order.tsh
    fits "$bin/tshard" plan t$order.tns -o another.tsh
    fits "$bin/tstream" cp t$order.tsh --cpu -r 3 -i 3 --rows used
    grep -q 'sweep .*wait.*kernel' out || bad "cp: too few columns: $(head -1 out)"
    fits "$bin/tstream" cp t$order.tsh --cpu -r 3 -i 2 --details --rows used --output other$order.cp
    fits "$bin/tstream" plan t$order.tsh --cpu -r 3 -i 3 --rows used
    fits "$bin/tstream" info t$order.cp
    fits "$bin/tstream" status t$order.cp
    fits "$bin/tstream" top t$order.cp t$order.tsh -n 3
    grep -q 'a rather lon' out || bad "top: names are cut too short: $(cat out)"
    [ "$(grep -o 'mode [0-9]' out | sort -u | wc -l)" -eq $order ] || bad "top: not $order modes: $(cat out)"
    fits "$bin/tstream" compare t$order.cp other$order.cp
    for mode in $(seq $order); do
        grep -q "mode $mode\>" out || bad "compare: no mode $mode of $order: $(cat out)"
    done
    [ "$(grep -c '^   A    B  ' out)" -eq $((order > 3 ? 2 : 1)) ] && [ "$(grep -c '^   1 ' out)" -ge 1 ] ||
        bad "compare: the tables of order $order: $(cat out)"
    fits "$bin/tstream" fit t$order.cp t$order.tsh --cpu
    fits "$bin/tstream" mttkrp t$order.tsh --cpu -r 3
    fits "$bin/tstream" report t$order.cp t$order.tsh
done
fits "$bin/tstream" devices
fits "$bin/tshard" gen --dims 4000x300000x2000x100x7 --nnz 20000 -o gen.tsh

# times are whole however many modes there are, and a label that is cut ends with an ellipsis
awk 'BEGIN { for (i = 0; i < 60; i++) printf "a user of a long name %d,2024-05-%02dT%02d:00,item of the year %d,place number %d in all,%d\n",
    i % 7, i % 20 + 1, i % 24, i % 5, i % 9, i + 1 }' > times.csv
"$bin/tshard" build times.csv --bin 2=1h > log 2>&1 || bad "$(cat log)"
"$bin/tstream" cp times.tsh --cpu -r 2 -i 2 > log 2>&1 || bad "$(cat log)"
fits "$bin/tstream" top times.cp -n 3
[ "$(grep -cE '2024-05-[0-9]{2}T[0-9]{2}:00( |$)' out)" -eq 6 ] || bad "top: times are cut: $(cat out)"
[ "$(grep -o 'mode [0-9]' out | sort -u | wc -l)" -eq 4 ] || bad "top: not 4 modes: $(cat out)"
"$bin/tstream" top times.cp -n 3 --width 12 > out
grep -q '2024-05-[0-9][0-9]T…' out && grep -q 'a user of a…' out || bad "top --width: no ellipsis: $(cat out)"

# one of a kind is not many
printf '1 1 1 1\n' > one.tns
fits "$bin/tshard" build one.tns
grep -q '1 nonzero$' out || bad "build: $(cat out)"
fits "$bin/tshard" info one.tsh
grep -q '1 nonzero:' out || bad "info: $(cat out)"
fits "$bin/tstream" cp one.tsh --cpu -r 1 -i 1
grep -q 'after 1 sweep ' out || bad "cp: $(cat out)"

# options that were chosen, and no defaults; a size as it was given
"$bin/tstream" cp t3.tsh --cpu -r 2 -i 1 --host-memory 64M --l2 0.5 -q -o chosen.cp > log 2>&1
fits "$bin/tstream" info chosen.cp
sed -n '/^options/,/^sweep/p' out | grep -v '^sweep' | tr -s ' \n' ' ' > options
for option in '--rank 2 ' '--iters 1 ' '--host-memory 64M ' '--l2 0.5 '; do
    grep -qF -e "$option" options || bad "info: no $option: $(cat options)"
done
for option in tol seed loss init order restarts inner checkpoint exchange precision; do
    if grep -q -e "--$option " options; then bad "info: --$option is a default: $(cat options)"; fi
done
"$bin/tstream" report chosen.cp t3.tsh -q -o chosen.html > out
[ ! -s out ] || bad "report -q prints $(cat out)"
grep -q 'options</dt><dd>.*--host-memory 64M' chosen.html || bad "report: no --host-memory 64M"
if grep -q 'options</dt><dd>.*--tol' chosen.html; then bad "report: --tol is a default"; fi

# ---- -q ----
for program in tshard tstream; do
    for command in $("$bin/$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p'); do
        "$bin/$program" "$command" --help | grep -q '^  -q, --quiet' || bad "$program $command has no -q"
    done
done

"$bin/tstream" cp t3.tsh --cpu -r 2 -i 2 -q --rows all --force > out 2>&1 && "$bin/tstream" cp t3.tsh --cpu -r 2,3 -i 2 -q --rows all -o two.cp >> out 2>&1 &&
    "$bin/tshard" build one.tns -q --force >> out 2>&1 || bad "-q: $(cat out)"
[ ! -s out ] || bad "-q prints $(cat out)"
"$bin/tstream" cp t3.tsh --cpu -r 2 -i 2 -q -n | grep -q '^fit ' || bad "-q -n: no fit, which nothing else shows"

# ---- on a terminal ----
left_out()
{
    echo "left out, on a terminal: $*"
    [ "$failed" -eq 0 ] && exit 77
    exit 1
}
command -v script > /dev/null || left_out "there is no script (Debian: bsdutils)"
script -qec true /dev/null < /dev/null > log 2>&1 || left_out "no pseudo terminal can be had (is /dev/pts mounted?)"
# seen COLUMNS COMMAND: what a terminal of that width gets; TERM and NO_COLOR are those of the environment
seen()
{
    script -qec "stty cols $1; $2" /dev/null < /dev/null | tr -d '\r' > shown
}
printf '%s\n' '1 1 1 3' '2 2 1 1' '2 1 2 2' > counts.tns
"$bin/tshard" build counts.tns -q
TERM=xterm
export TERM
unset NO_COLOR
seen 120 "$bin/tstream cp t3.tsh --cpu -r 3 -i 3 --rows used --force 2> err"
grep -q 'copy' shown && grep -q 'solve *singular' shown || bad "cp: 120 columns show no more: $(head -1 shown)"
grep -q "$(printf '(\033\[33mnot converged\033\[0m)')" shown || bad "cp: no colour: $(tail -1 shown | od -c | head)"
seen 200 "$bin/tstream cp counts.tsh --cpu -r 2 -i 2 --force"
grep -q 'If they are counts, --nonneg' shown || bad "cp: no word on counts: $(cat shown)"
seen 200 "$bin/tstream cp counts.tsh --cpu -r 2 -i 2 --force -q; $bin/tstream cp counts.tsh --cpu -r 2 -i 2 --force --nonneg"
grep -q 'they are counts' shown && bad "cp: a word on counts: $(cat shown)"
seen 80 "$bin/tstream cp t3.tsh --cpu -r 3 -i 3 --rows used --force 2> err"
[ "$(sed "s/$(printf '\033')\[[0-9]*m//g" shown | awk '{ if (length($0) > n) n = length($0) } END { print n }')" -le 80 ] ||
    bad "cp: a terminal of 80: $(cat shown)"
seen 200 "$bin/tstream top t5.cp t5.tsh -n 3 -q"
[ "$(grep -c 'mode 1.*mode 5' shown)" -eq 3 ] || bad "top: 200 columns do not hold 5 modes: $(head -3 shown)"
seen 80 "$bin/tstream compare t5.cp t5.cp"
[ "$(widest shown)" -le 80 ] && grep -q 'mode 3$' shown || bad "compare: a terminal of 80: $(cat shown)"
seen 120 "$bin/tstream compare t5.cp t5.cp"
grep -q 'mode 5$' shown || bad "compare: 120 columns show no more: $(head -1 shown)"
# lines of cells have names of columns and six digits there; elsewhere they have all digits and no names
head -n 2 t3.tns > cells.tns
for command in 'score t3.cp t3.tsh --top 2 -q' 'score t3.cp t3.tsh --by-slice -q' 'predict t3.cp cells.tns -q'; do
    seen 80 "$bin/tstream $command"
    grep -q '^ *mode 1 .*model' shown || bad "$command: a terminal sees no names: $(cat shown)"
    if sed '/^[a-z]/d' shown | grep -qE '\.[0-9]{11}'; then bad "$command: digits: $(cat shown)"; fi
    "$bin/tstream" $command > out
    if grep -q 'mode 1' out; then bad "$command: names in a pipe: $(cat out)"; fi
    grep -qE '\.[0-9]{11}' out || bad "$command: few digits in a pipe: $(cat out)"
done
# a message is not broken inside words
"$bin/tstream" cp t3.tsh --cpu -o t3.cp > out 2> err || true
for columns in 40 61 80; do
    seen $columns "$bin/tstream cp t3.tsh --cpu -o t3.cp; true"
    [ "$(wc -l < shown)" -gt 1 ] && [ "$(widest shown)" -le $columns ] || bad "a message, $columns columns: $(cat shown)"
    [ "$(tr -s ' \n' '  ' < shown)" = "$(tr -s ' \n' '  ' < err)" ] || bad "a message, $columns columns: $(cat shown)"
done
seen 30 "$bin/tshard info t3.tsh"
[ "$(widest shown)" -gt 60 ] || bad "info: less than 80 columns"
seen 100 "$bin/tstream status t3.cp"
grep -q "$(printf '\033\[33mnot converged\033\[0m')" shown || bad "status: no colour: $(cat shown)"
NO_COLOR=1
export NO_COLOR
for command in 'cp t3.tsh --cpu -q -r 3 -i 3 --rows used --force' 'info t3.cp' 'status t3.cp'; do
    seen 100 "$bin/tstream $command"
    grep -q "$(printf '\033')" shown && bad "$command: colour with NO_COLOR"
done
unset NO_COLOR
TERM=dumb
seen 100 "$bin/tstream info t3.cp"
grep -q "$(printf '\033')" shown && bad "info: colour on a dumb terminal"
TERM=xterm
"$bin/tstream" info t3.cp > shown
grep -q "$(printf '\033')" shown && bad "info: colour in a file"

exit $failed
