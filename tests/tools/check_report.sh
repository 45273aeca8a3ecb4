#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The page of tstream report: well-formed, small, without anything that is fetched, names escaped, and what it says
# is so. check_report_browser.sh looks at it in a browser.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# well_formed FILE: every element is closed by its own name, attributes are quoted, no stray < or &.
cat > wf.awk <<'E2'
{ page = page $0 "\n" }
function fault(what) { print what; exit 1 }
END {
    if (!sub(/^<!DOCTYPE html>\n/, "", page)) fault("no doctype")
    while ((at = index(page, "<")) > 0) {
        text = substr(page, 1, at - 1)
        gsub(/&(amp|lt|gt|quot|#39);/, "", text)
        if (index(text, "&")) fault("a stray & in: " text)
        if (depth == 0 && text ~ /[^ \n]/) fault("text outside: " text)
        page = substr(page, at)
        end = index(page, ">")
        if (end == 0) fault("no > after: " substr(page, 1, 80))
        tag = substr(page, 2, end - 2)
        page = substr(page, end + 1)
        if (tag ~ /^\//) {
            name = substr(tag, 2)
            if (depth == 0 || stack[depth] != name) fault("</" name "> closes " stack[depth])
            depth--
            continue
        }
        name = tag; sub(/[ \/].*/, "", name)
        if (name !~ /^[a-z][a-z0-9]*$/) fault("<" tag ">")
        attributes = substr(tag, length(name) + 1)
        closed = sub(/\/$/, "", attributes)
        gsub(/ [a-zA-Z-]+="[^"<]*"/, "", attributes)
        if (attributes != "") fault("attributes of <" tag ">")
        if (!closed) stack[++depth] = name
    }
    if (depth > 0) fault("<" stack[depth] "> stays open")
}
E2
well_formed() { LC_ALL=C awk -f wf.awk "$1" > why || bad "$1: not well-formed: $(head -c 300 why)"; }

# fetches nothing: no address, no script, no style sheet or image of another file
alone()
{
    grep -niE 'https?:|//[a-z]|<script|<link|<img|<iframe|@import|url\(|src=|javascript:| on[a-z]+=' "$1" > why &&
        bad "$1: $(head -c 300 why)"
    grep -oE 'href="[^"]*"' "$1" | grep -v '^href="#c[0-9]*"$' > why && bad "$1: $(head -c 300 why)"
    return 0
}

# the check itself finds faults
for page in '<a><b></a></b>' '<a x=1></a>' '<a>' '<a>&</a>' '<a></a><b' 'x<a></a>'; do
    printf '<!DOCTYPE html>\n%s\n' "$page" > fault.html
    if awk -f wf.awk fault.html > why; then bad "well_formed takes $page"; fi
done

# ---- names that are no names, and a mode that is time ----
"$bin/tshard" gen --planted 3 --noise 0.2 --dims 40x30x24 --nnz 20000 -o x.tns
awk 'BEGIN { for (i = 1; i <= 40; i++) printf "<script>alert(%d)</script>&\"'"'"'\n", i }' > one.map
{
    printf '\377\376 not UTF-8\n\033[31mred\nhttp:%s\n\302\205next\n\342\200\256right to left\n' '//x.example'
    awk 'BEGIN { for (i = 6; i <= 30; i++) printf "a name of many characters, number %04d, that goes on and on\n", i }'
} > two.map
awk 'BEGIN { for (i = 1; i <= 24; i++) printf "2024-%02d-%02d\n", 1 + int(i / 10), 1 + i % 10 }' | sort > three.map
"$bin/tshard" build x.tns --map 1=one.map --map 2=two.map --map 3=three.map > log
"$bin/tstream" cp x.tsh --cpu -r 4 -i 6 --tol 0 > log
"$bin/tstream" report x.cp -n 40 > log || bad "report: $(cat log)"
grep -q '^x.html: 4 components, ' log || bad "report: $(cat log)"
well_formed x.html
grep -qi '<script' x.html && bad "report: a name became a script"
grep -q '&lt;script&gt;alert(7)&lt;/script&gt;&amp;&quot;&#39;' x.html || bad "report: no escaped name"
LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" x.html && bad "report: control characters"
LC_ALL=C grep -q "$(printf '[\376\377]')" x.html && bad "report: bytes that are not UTF-8"
grep -q '2024-01-02</bdi>' x.html || bad "report: the ends of a line have no names"
[ "$(grep -c 'class="fl"' x.html)" -eq 4 ] || bad "report: not a line for each component: $(grep -c 'class="fl"' x.html)"
grep -q 'a name of many characters, number 0006[^<]*on and on' x.html && bad "report: a long name is not cut"
if command -v xmllint > /dev/null; then xmllint --noout x.html 2> why || bad "report: $(head -3 why)"; fi
"$bin/tstream" report x.cp --lines none -o n.html > log
grep -q 'class="fl"' n.html && bad "report --lines none: a line"
"$bin/tstream" report x.cp --lines 1,2 -o - > n.html
[ "$(grep -c 'class="fl"' n.html)" -eq 8 ] || bad "report --lines 1,2"

# ---- what it says ----
fit=$(sed -n 's/.*"fit":\([0-9.]*\),"mean".*/\1/p' x.cp/run.json)
grep -q "The fit is <b>$(printf %.6f "$fit")</b> (1 is exact) after 6 sweeps, <span class=\"paused\">not converged" x.html ||
    bad "report: no fit"
grep -q '<h1>x</h1>' x.html || bad "report: no title"
at() { grep -n "$1" x.html | head -1 | cut -d: -f1; }
[ "$(at '<h2>Components')" -lt "$(at '<h2>Fit and diagnostics')" ] || bad "report: the result is not first"
grep -q "$(sed 's/.*"checksum":"\([0-9a-f]*\)".*/\1/' x.cp/run.json)" x.html || bad "report: no checksum"
grep -q "ended at --iters before it converged" x.html || bad "report: no warning"
for mode in 2 3; do
    "$bin/tstream" top x.cp --csv -n 1 -c 1 -k $mode > top.csv
    label=$(sed -n "2s/^1,[^,]*,$mode,,1,[0-9]*,\"*\([^,]*\),.*/\1/p" top.csv | cut -c1-20)
    before='<ol class="bars"><li>'
    [ $mode = 2 ] || before='strongest: '
    [ -n "$label" ] && sed -n '/id="c1"/,/<\/article>/p' x.html | grep -qF "$before<bdi>$label" || bad "report: not the strongest, $label"
done

# ---- a model of another program: two components that are the same, one that is their opposite ----
cat > same.ktensor <<'E2'
ktensor
3
4 3 2
3
3 2 1
matrix
2
4 3
0.5 0.5 -0.5
0.5 0.5 -0.5
0.5 0.5 -0.5
0.5 0.5 -0.5
matrix
2
3 3
1 1 1
0 0 0
0 0 0
matrix
2
2 3
1 1 1
0 0 0
E2
mkdir other
(cd other && "$bin/tstream" report ../same.ktensor > log 2>&1) || bad "report: $(cat other/log)"
page=other/same.ktensor.html
well_formed $page
alone $page
grep -q '>1</a> and <a href="#c2">2</a> are nearly the same: a lower rank may do (correlation 1.000)' $page ||
    bad "report: no word on equal components: $(grep -A9 warn $page)"
grep -q '>1</a> and <a href="#c3">3</a> nearly cancel each other' $page || bad "report: no word on opposite ones"
grep -q 'equations of mode 2 are nearly singular' $page || bad "report: no word on the condition"
grep -q 'by sweep' $page && bad "report: sweeps of nobody"

# ---- size, and modes whose neighbours are alike ----
awk 'BEGIN { srand(3); for (i = 1; i <= 30000; i++)
    print 1 + int(300 * rand()), 1 + int(90 * rand()), 1 + int(5000 * rand()), 1 + int(50 * rand()), 1 + int(1000 * rand()), 1 }' > big.tns
"$bin/tshard" build big.tns > log
"$bin/tstream" cp big.tsh --cpu -r 64 -i 2 > log
"$bin/tstream" report big.cp --lines 1,2,3,4,5 > log
[ "$(wc -c < big.html)" -lt 1000000 ] || bad "report: $(wc -c < big.html) bytes at rank 64"
well_formed big.html
alone big.html
"$bin/tstream" report big.cp -c 3 -o few.html > log
grep -q 'The 3 heaviest of 64 are shown' few.html || bad "report -c 3"
awk 'BEGIN { for (i = 1; i <= 50; i++) for (j = 1; j <= 20; j++) for (k = 1; k <= 3; k++)
    print i, (j * 7) % 20 + 1, k, 1 + sin(i / 9) + (j % 5) * (k == 2) }' > smooth.tns
"$bin/tshard" build smooth.tns > log
"$bin/tstream" cp smooth.tsh --cpu -r 2 > log
"$bin/tstream" report smooth.cp > log
[ "$(grep -c 'class="fl"' smooth.html)" -eq 2 ] || bad "report: the smooth mode alone is a line: $(grep -c 'class="fl"' smooth.html)"

# ---- names that are numbers or times are places on a line, in any order of their indices ----
awk 'BEGIN { for (i = 0; i < 24; i++) for (j = 1; j <= 9; j++) print (i * 7) % 24 + 1, j * 5 % 9 + 1, 1 + sin(i / 4) + j }' > places.tns
line_of() # NAMES: those of mode 1, in the order of their place; prints the ends and marks of its line
{
    awk '{ name[(NR - 1) * 7 % 24 + 1] = $0 } END { for (i = 1; i <= 24; i++) print name[i] }' > places.map
    "$bin/tshard" build places.tns --map 1=places.map --force > log
    "$bin/tstream" cp places.tsh --cpu -r 1 --force > log
    "$bin/tstream" report places.cp --force > log
    sed -n 's/.*<div class="ends">\(.*\)<\/div><\/div>/\1/p' places.html | sed 's/<[^>]*>/ /g'
}
[ "$(awk 'BEGIN { for (i = 0; i < 24; i++) printf "-74.%d\n", 90 - i }' | line_of)" = ' -74.90  -74.8  -74.75  -74.67 ' ] ||
    bad "report: longitudes: $(grep ends places.html)"
[ "$(awk 'BEGIN { for (i = 0; i < 24; i++) print 1900 + i + (i > 20) * 100 }' | line_of)" = ' 1900  1940  1960  1980  2023 ' ] ||
    bad "report: years with a gap: $(grep ends places.html)"
[ "$(awk 'BEGIN { for (i = 0; i < 24; i++) printf "2024-01-%02d\n", i + 1 }' | line_of)" = ' 2024-01-01  2024-01-24 ' ] ||
    bad "report: dates: $(grep ends places.html)"
[ -z "$(awk 'BEGIN { for (i = 0; i < 24; i++) print "word " i }' | line_of)" ] || bad "report: words are a line"
shuffled=$(awk 'BEGIN { for (i = 0; i < 24; i++) print i * 11 % 24 }' | line_of)
[ -z "$shuffled" ] || bad "report: numbers without order are a line: $shuffled"

# ---- several models: a rank to choose, and why ----
"$bin/tshard" gen --planted 3 --noise 0.2 --dims 40x30x24 --nnz 20000 --seed 2 -o many.tns
"$bin/tshard" build many.tns > log
chosen() # RANK REASON OPTION...
{
    rank=$1 reason=$2
    shift 2
    "$bin/tstream" cp many.tsh --cpu -i 40 --tol 1e-6 -o many.cp --force "$@" > log
    "$bin/tstream" report many.cp/best.r3 -o many.html --force > log
    well_formed many.html
    grep -q "Choose <b>rank $rank</b>. $reason" many.html || bad "report: $*: $(grep Choose many.html)"
    grep -q "<tr class=\"chosen\"><td>$rank (choose)" many.html || bad "report: $*: no row is chosen"
}
chosen 3 'It is the largest rank at which different starts find the same' -r 2,3,6 --restarts 3
chosen 3 'It is the largest rank with a core consistency' -r 2,3,6 --diagnose
chosen 3 'It is the smallest rank that reaches 95 %' -r 1,2,3,4
"$bin/tstream" cp many.tsh --cpu -i 5 -r 3 --restarts 2 -o many.cp --force > log
"$bin/tstream" report many.cp/best.r3 -o many.html --force > log
grep -q Choose many.html && bad "report: one rank is a choice"

# ---- the figures as JSON: keys and types ----
# flat FILE: "path type" of each value of a document on one line
cat > flat.awk <<'E2'
function value(path,    c, key, text) {
    c = substr(all, at, 1)
    if (c == "{" || c == "[") {
        print path, c == "{" ? "object" : "array"
        at++
        while ((substr(all, at, 1)) !~ /[]}]/) {
            if (substr(all, at, 1) == ",") at++
            if (c == "[") { value(path "[]"); continue }
            key = string()
            at++
            value(path "." key)
        }
        at++
    } else if (c == "\"") { string(); print path, "string" }
    else {
        text = substr(all, at); sub(/[],}].*/, "", text); at += length(text)
        print path, text == "null" ? "null" : text ~ /^(true|false)$/ ? "bool" : "number"
    }
}
function string(    from) {
    from = ++at
    while (substr(all, at, 1) != "\"") at += substr(all, at, 1) == "\\" ? 2 : 1
    return substr(all, from, at++ - from)
}
{ all = $0; at = 1; value("") }
E2
flat() { LC_ALL=C awk -f flat.awk "$@" | sed 's/^\.//' | LC_ALL=C sort -u; }
[ "$(echo '{"a":[1,{"b":"x\"}"}],"c":null,"d":true}' | flat | tr '\n' ';')" = ' object;a array;a[] number;a[] object;a[].b string;c null;d bool;' ] ||
    bad "flat: $(echo '{"a":[1,{"b":"x\"}"}],"c":null,"d":true}' | flat)"
"$bin/tstream" report x.cp --json > x.json
"$bin/tstream" report many.cp/best.r3 --json > many.json
(cd other && "$bin/tstream" report ../same.ktensor --json > other.json)
awk 'BEGIN { print "year,item,n"; for (i = 1990; i < 2014; i++) for (j = 1; j <= 9; j++) print i ",item " j * 5 % 9 "," 1 + sin(i / 4) + j }' > table.csv
"$bin/tshard" build table.csv -o table.tsh --text year > log
"$bin/tstream" cp table.tsh --cpu -r 2 -i 1 > log
"$bin/tstream" report table.cp --json > table.json
flat x.json many.json table.json other/other.json > keys
cmp -s keys "$top/tests/tools/report_json.list" || bad "report --json: keys or types: $(diff keys "$top/tests/tools/report_json.list")"
sed -n 's/ .*//; s/.*\.//; s/[][]//g; /./p' keys | sort -u | while read -r key; do
    grep -q "\`$key\`" "$top/docs/outputs.md" || echo "$key"
done > missing
[ ! -s missing ] || bad "docs/outputs.md lacks keys of report --json: $(tr '\n' ' ' < missing)"
[ "$(sed 's/.*"fit":\([0-9.]*\),"ended".*/\1/' x.json)" = "$fit" ] || bad "report --json: another fit"
refused 2 "leave out --output" "$bin/tstream" report x.cp --json -o y.html

# ---- unlisted cells, and components of weight 0 ----
"$bin/tstream" cp x.tsh --cpu -r 2 -i 2 --observed -o observed.cp > log 2>&1 || bad "cp --observed: $(cat log)"
awk 'BEGIN { for (i = 1; i <= 4; i++) for (j = 1; j <= 3; j++) print i, j, i * j }' > full.tns
"$bin/tshard" build full.tns > log
"$bin/tstream" cp full.tsh --cpu -r 1 -i 2 > log
while IFS=: read -r model unlisted sentence; do
    "$bin/tstream" report "$model" --json > model.json
    grep -q "\"unlisted\":$unlisted[,}]" model.json || bad "report --json $model: not $unlisted: $(cat model.json)"
    "$bin/tstream" report "$model" -o - > model.html
    "$bin/tstream" info "$model" | tr -s ' \n' ' ' > model.info
    if [ "$unlisted" = null ]; then
        if grep -q 'does not list' model.html || grep -q 'unlisted cells' model.info; then bad "$model: it lists all cells"; fi
        continue
    fi
    grep -q "does not list $sentence\. The fit" model.html || bad "report $model: no '$sentence'"
    grep -q "unlisted cells $sentence" model.info || bad "info $model: no '$sentence': $(cat model.info)"
done << 'end'
x.cp:"zeros":count as zeros
observed.cp:"unknown":are unknown
full.cp:null:
end
printf 'ktensor\n2\n3 2\n2\n4 0\nmatrix\n2\n3 2\n1 0\n0 0\n0 1\nmatrix\n2\n2 2\n1 0\n0 1\n' > dead.ktensor
"$bin/tstream" report dead.ktensor -o dead.html > log || bad "report of a dead component: $(cat log)"
well_formed dead.html
[ "$(grep -c '<h3>empty</h3>' dead.html)" -eq 1 ] && [ "$(grep -c 'adds nothing to the model' dead.html)" -eq 1 ] &&
    [ "$(grep -c '<div class="modes">' dead.html)" -eq 1 ] || bad "report: a component of weight 0 is not empty"
"$bin/tstream" report dead.ktensor --json | grep -o '"empty":[a-z]*' | tr '\n' ' ' > empty
[ "$(cat empty)" = '"empty":false "empty":true ' ] || bad "report --json: $(cat empty)"
"$bin/tstream" top dead.ktensor > log
[ "$(grep -c '^component 2  weight 0, so it is empty$' log)" -eq 1 ] && [ "$(grep -c 'mode 1' log)" -eq 1 ] || bad "top: $(cat log)"

# ---- what is refused ----
refused 1 "x.html exists" "$bin/tstream" report x.cp
"$bin/tstream" report x.cp --force > log || bad "report --force: $(cat log)"
refused 2 "--count must be 1 to 100" "$bin/tstream" report x.cp -n 101
refused 1 "--lines: '4' is neither a mode's number, 1 to 3, nor its name" "$bin/tstream" report x.cp --lines 4 -o y.html
refused 1 "No such file" "$bin/tstream" report nothing.cp
"$bin/tstream" report x.cp -o z.html.gz > log
gunzip -c z.html.gz | cmp -s - x.html || bad "report: .gz holds another page"
printf '{"ended":"converged","sweeps":[{"sweep":1}],"fit":' > x.cp/run.json
refused 1 "run.json" "$bin/tstream" report x.cp -o y.html

# ---- a damaged history, without which a model is whole ----
rm x.cp/run.json
for text in '{"sweeps":[' '[]' ''; do
    printf '%s' "$text" > x.cp/history.json
    for command in top export "report -o y.html --force"; do
        "$bin/tstream" $command x.cp > log 2> err || bad "$command with a damaged history: $(cat err)"
        [ "$(grep -c 'x.cp/history.json: .*; the history of the run is left out$' err)" -eq 1 ] ||
            bad "$command with a damaged history: $(cat err)"
    done
done

exit $failed
