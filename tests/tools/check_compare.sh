#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream compare from the outside: a model is like itself in every format and with any rows, and like another
# one by a known score; refusals are one sentence.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# number NAME FILE: its first value in the line of JSON
number() { grep -o "\"$1\":[-0-9.e+]*" "$2" | head -n 1 | cut -d : -f 2; }

"$bin/tshard" gen --planted 3 --noise 0.1 --dims 60x50x40 --nnz 12480 -o x.tns > log 2>&1
echo '70 60 50 1' >> x.tns # empty slices before it
"$bin/tshard" build x.tns > log 2>&1 || bad "build: $(cat log)"
cp="$bin/tstream cp x.tsh --cpu -q -i 3 --tol 0 -p float64"
for format in ktensor npy splatt; do
    $cp -r 4 -f $format -o $format.cp > log
    $cp -r 4 -f $format --rows used -o $format.used.cp > log
done
cp ktensor.cp/model.ktensor file.ktensor
for other in ktensor.cp npy.cp splatt.cp npy.used.cp splatt.used.cp ktensor.used.cp file.ktensor; do
    "$bin/tstream" compare npy.used.cp $other --json > json 2> err || bad "compare $other: $(cat err)"
    for score in greedy greedy_no_weights best best_no_weights; do
        within "$(number $score json)" 1 1e-14 || bad "compare $other: $(cat json)"
    done
    [ "$(grep -o '"a":[1-4],"b":[1-4]' json | tr '\n' ' ')" = '"a":1,"b":1 "a":2,"b":2 "a":3,"b":3 "a":4,"b":4 ' ] ||
        bad "compare $other: $(cat json)"
done
"$bin/tstream" compare npy file.ktensor > text || bad "compare npy"
grep -q '^score 1.000000000 (greedy, with weights); greedy without weights 1.000000, best' text || bad "compare: $(cat text)"

# other ranks: whoever stands first
$cp -r 6 -s 2 -o six.cp > log
"$bin/tstream" compare six.cp npy.cp --match best --json > one
"$bin/tstream" compare npy.used.cp six.cp --match best --json --threads 3 > two
for score in greedy greedy_no_weights best best_no_weights; do
    within "$(number $score one)" "$(number $score two)" 1e-13 || bad "compare six.cp: $(cat one two)"
done
awk -v g="$(number greedy one)" -v b="$(number best one)" 'BEGIN { exit !(b >= g && b < 1 && g > 0) }' ||
    bad "compare six.cp: $(cat one)"
"$bin/tstream" compare six npy.cp --no-weights > text
grep -q '^alone in A [1-6], [1-6]$' text || bad "compare six.cp: $(cat text)"
[ "$(awk '{ if (length($0) > n) n = length($0) } END { print n }' text)" -le 80 ] || bad "wider than 80: $(cat text)"

# a score that is known: components e1 e1 and e2 e2 with weights 4 and 2, against a column turned by 60 degrees
cat > a.ktensor << 'KTENSOR'
ktensor
2
2 2
2
4 2
matrix
2
2 2
1 0
0 1
matrix
2
2 2
1 0
0 1
KTENSOR
cat > b.ktensor << 'KTENSOR'
ktensor
2
2 2
2
-1 3
matrix
2
2 2
0 0.5
-2 0.8660254037844386
matrix
2
2 2
0 1
1 0
KTENSOR
"$bin/tstream" compare a.ktensor b.ktensor --json > json
within "$(number greedy json)" 0.6875 1e-14 || bad "a known score: $(cat json)" # (0.5 * 3/4 + 1) / 2
within "$(number greedy_no_weights json)" 0.75 1e-14 || bad "a known score: $(cat json)"
grep -q '"cosines":\[0.5[0-9]*,1\]},{"a":2,"b":1,"score":1,"congruence":1,"weight_a":2,"weight_b":2,"cosines":\[-1,1\]' json ||
    bad "a known score: $(cat json)"

# modes that are left out: the first turned one has no say, and may have other rows
"$bin/tstream" compare a.ktensor b.ktensor --skip 1 --json > json
within "$(number greedy json)" 0.875 1e-14 || bad "without mode 1: $(cat json)" # (3/4 + 1) / 2
within "$(number greedy_no_weights json)" 1 1e-14 || bad "without mode 1: $(cat json)"
grep -q '"skip":\[1\],.*"cosines":\[null,1\]' json || bad "without mode 1: $(cat json)"
"$bin/tstream" compare a.ktensor b.ktensor --skip 2 --json > json
within "$(number greedy_no_weights json)" 0.75 1e-14 || bad "without mode 2: $(cat json)"
sed -e '3s/.*/3 2/' -e '8s/.*/3 2/' -e '10s/$/\n0 0/' b.ktensor > three.ktensor
refused 1 "mode 1 of a.ktensor has 2 rows, of three.ktensor 3" \
    "$bin/tstream" compare a.ktensor three.ktensor
"$bin/tstream" compare a.ktensor three.ktensor --skip 1 --json > json
within "$(number greedy json)" 0.875 1e-14 || bad "other rows in mode 1: $(cat json)"
"$bin/tstream" compare a.ktensor three.ktensor --skip 1 > text
grep -q 'mode 2' text || bad "no mode 2: $(cat text)"
if grep -q 'mode 1' text; then bad "mode 1 is shown: $(cat text)"; fi

# ---- what is refused ----
refused 2 "all modes are skipped" "$bin/tstream" compare a.ktensor b.ktensor --skip 1,2
for mode in 3 0 user; do
    refused 2 "--skip: '$mode' is neither a mode's number, 1 to 2, nor its name" \
        "$bin/tstream" compare a.ktensor b.ktensor --skip $mode
done
for list in 1,,2 ,1 1,; do
    refused 2 "--skip: a mode is missing before or after a comma" \
        "$bin/tstream" compare a.ktensor b.ktensor --skip "$list"
done
refused 2 "an operand is missing; usage: tstream compare [OPTION...] A.cp B.cp" "$bin/tstream" compare a.ktensor
refused 1 "nothere: cannot be opened" "$bin/tstream" compare nothere a.ktensor
refused 1 "has 3 modes, a.ktensor has 2: they are not of one tensor" "$bin/tstream" compare npy.cp a.ktensor
sed '3s/^70/69/; 6,10d' file.ktensor > other.ktensor
sed '3s/^70/71/' file.ktensor > longer.ktensor
refused 1 "mode 1 of npy.cp has 70 rows, of longer.ktensor 71: they are not of one tensor" \
    "$bin/tstream" compare npy.cp longer.ktensor
refused 1 "other.ktensor" "$bin/tstream" compare file.ktensor other.ktensor
refused 1 "1e400" sh -c "sed 's/^-1 3/1e400 3/' b.ktensor > huge.ktensor; '$bin/tstream' compare a.ktensor huge.ktensor"
exit $failed
