#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the documents promise of single values and names: the floor of Poisson's logarithm, what a loss with a link predicts where
# nothing was seen, fixed factors up to scale, order and sign, and names that look like formulas. And tests that need a terminal are
# left out, with the reason, where none can be had.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# ---- held-out cells of a Poisson model: below 1e-10 its value counts as 1e-10 ----
# Of a diagonal each cell that is held out has rows that nothing else has, so that the model is 0 there: -log(1e-10) for each.
for i in $(seq 40); do echo "$i $i 1"; done > diagonal.tns
"$bin/tshard" build -q diagonal.tns -o diagonal.tsh > log
"$bin/tstream" cp diagonal.tsh --cpu -r 2 --loss poisson --hold-out 20% -n --json -i 3 > json 2> err || bad "$(cat err)"
loss=$(sed -n 's/.*"held_out_loss":\([0-9.e+-]*\).*/\1/p' json | tail -n 1)
within "$loss" 23.025850929940457 1e-9 || bad "held-out loss of cells where the model is 0: $loss"

# ---- an index that was never seen: 0 of the link, and a note ----
for loss in bernoulli-logit poisson-log; do
    "$bin/tshard" build -q diagonal.tns --dims 41x40 -o more.tsh -f > log
    "$bin/tstream" cp more.tsh --cpu -q -r 2 --loss $loss -i 3 -o $loss.cp > log 2> err || bad "$loss: $(cat err)"
    echo '41 1' > cells
    "$bin/tstream" predict $loss.cp cells more.tsh > out 2> err || bad "predict, $loss: $(cat err)"
    [ "$(cat out)" = '41 1 0' ] || bad "predict, $loss: $(cat out)"
    grep -q 'index' err || bad "predict, $loss: no note of an index that was never seen: $(cat err)"
done

# ---- a fixed factor is the given one up to order, scale and sign ----
"$bin/tshard" gen -q --dims 9x8x7 --planted 3 --noise 0.2 --nnz 504 -s 3 -o x.tsh > log
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 2 --tol 0 -o given.cp > log
"$bin/tstream" cp x.tsh --cpu -q -r 3 -i 5 --tol 0 --init given.cp --fix 1 -p float64 -o fixed.cp > log
# columns_of MODEL: of mode 1, a column a line
columns_of()
{
    awk '$1 == "matrix" && ++seen == 1 { getline; getline; rows = $1; getline
             for (i = 0; i < rows; i++) { for (r = 1; r <= NF; r++) x[i, r] = $r; n = NF; if (i < rows - 1) getline }
             for (r = 1; r <= n; r++) { s = ""; for (i = 0; i < rows; i++) s = s " " x[i, r]; print s } }' "$1/model.ktensor"
}
columns_of given.cp > given
columns_of fixed.cp > fixed
[ "$(wc -l < given)" -eq 3 ] && [ "$(wc -l < fixed)" -eq 3 ] || bad "columns: $(cat given fixed)"
# each column has one of the same direction: of norm 1 both, the magnitude of their product is 1
awk 'NR == FNR { for (i = 1; i <= NF; i++) g[NR, i] = $i; n = NR; next }
     { most = 0; own = 0
       for (i = 1; i <= NF; i++) own += $i * $i
       if (own < 1 - 1e-5 || own > 1 + 1e-5) exit 1
       for (k = 1; k <= n; k++) { s = 0; for (i = 1; i <= NF; i++) s += g[k, i] * $i; s = s < 0 ? -s : s; most = s > most ? s : most }
       if (most < 1 - 1e-5) exit 1 }' given fixed || bad "a fixed factor has other columns: $(cat given fixed)"

# ---- names that a spreadsheet takes for formulas are written as they are ----
cat > names.csv << 'END'
user,item,stars
=HYPERLINK(1),+1 up,5
-cmd,@sum,3
=HYPERLINK(1),@sum,4
END
"$bin/tshard" build -q names.csv --value stars -o names.tsh > log
"$bin/tshard" export -q names.tsh --format csv -o back.csv
sort names.csv > sorted
sort back.csv | cmp -s - sorted || bad "names: $(cat back.csv)"
"$bin/tstream" cp names.tsh --cpu -q -r 1 -o names.cp > log
"$bin/tstream" export -q names.cp names.tsh -o model.csv > log
for name in '=HYPERLINK(1)' '+1 up' '-cmd' '@sum'; do
    grep -qF -- ",$name," model.csv || grep -qF -- "$name," model.csv || bad "$name in the table of a model: $(cat model.csv)"
done

# ---- a model and a tensor of the same shape whose indices have other names ----
printf '%s\n' u,i,v ann,a,5 ben,b,3 cat,a,2 ann,b,4 > base.csv
printf '%s\n' u,i,v v1,a,3 v2,c,4 > first.csv
printf '%s\n' u,i,v w1,a,3 w2,c,4 > second.csv
"$bin/tshard" build -q base.csv -o same.tsh > log
"$bin/tshard" append -q same.tsh first.csv > log
"$bin/tstream" cp same.tsh --cpu -q -r 1 -i 3 -o old.cp > log 2>&1
cp -r same.tsh kept.tsh
"$bin/tshard" undo same.tsh > log
"$bin/tshard" append -q same.tsh second.csv > log
"$bin/tshard" compact -q same.tsh > log
printf '%s\n' u,i v1,c cat,a > cells.csv
while read -r command; do
    command=$(echo "$command" | sed 's/@/same.tsh/')
    # shellcheck disable=SC2086 # words of a command
    refused 1 "mode 1: index 4 is 'v1' in old.cp and 'w1' in same.tsh: " "$bin/tstream" $command
    # shellcheck disable=SC2086
    "$bin/tstream" $(echo "$command" | sed 's/same.tsh/kept.tsh/') > out 2>&1 || bad "$command: $(cat out)"
done << 'END'
predict old.cp cells.csv @ --cells csv
score old.cp @
fit old.cp @ --cpu
fit old.cp @ --cpu --diagnose
top old.cp @
report old.cp @ -o old.html --force
cp @ --cpu -r 1 -i 1 -n --init old.cp
plan @ --cpu -r 1 --init old.cp
cp @ --cpu -r 1 -i 1 -n --init old.cp --fix 1
END
got=0
"$bin/tstream" cp same.tsh --cpu -q -r 1 -i 1 --init old.cp --restarts 2 -o two > out 2>&1 || got=$?
[ $got -eq 1 ] && grep -q "is 'v1' in old.cp" out && [ ! -e two ] || bad "--restarts: exit $got: $(cat out)"
# the names of fixed modes alone matter, and without a tensor's name a model has its own
"$bin/tstream" cp same.tsh --cpu -q -r 1 -i 1 -n --init old.cp --fix 2 > out 2>&1 || bad "--fix 2: $(cat out)"
cp -r old.cp same.cp
mkdir none
for where in . none; do
    (cd $where && "$bin/tstream" predict "$OLDPWD/same.cp" "$OLDPWD/cells.csv" --cells csv -f csv) > out 2> err || bad "$(cat err)"
    [ "$(cut -d, -f1,2 out)" = "$(cat cells.csv)" ] || bad "predict in $where: $(cat out)"
done
"$bin/tstream" top same.cp -k 1 > out 2> err || bad "$(cat err)"
if ! grep -q v1 out || grep -q w1 out; then bad "top: $(cat out)"; fi

# ---- without pseudo terminals what needs one is left out, and says why ----
if unshare -rm mount -t tmpfs none /dev/pts > log 2>&1; then
    got=0
    unshare -rm sh -c 'mount -t tmpfs none /dev/pts && exec "$0"' "$top/tests/source/check_columns.sh" > out 2>&1 || got=$?
    [ $got -eq 77 ] && grep -q 'no pseudo terminal can be had' out || bad "check_columns.sh without /dev/pts: exit $got: $(tail -n 3 out)"
else
    echo "left out, without /dev/pts: nothing can be mounted here"
fi
exit $failed
