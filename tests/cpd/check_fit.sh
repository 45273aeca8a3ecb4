#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream fit from the outside: the same figure of the same factors in every format, that of tstream cp in
# float64, on the CPU and on a GPU where there is one; refusals are one sentence.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# number NAME FILE: its value in the last line of JSON
number() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$2" | tail -n 1; }

"$bin/tshard" gen --planted 3 --noise 0.1 --dims 60x50x40 --nnz 12480 -o x.tns > log 2>&1
echo '70 60 50 1' >> x.tns # empty slices before it
"$bin/tshard" build x.tns > log 2>&1 || bad "build: $(cat log)"
"$bin/tstream" cp x.tsh --cpu -r 4 -i 5 -p float64 --json -f ktensor,npy,splatt -o all.cp > json
"$bin/tstream" cp x.tsh --cpu -r 4 -i 5 -p float64 --rows used -f npy -o used.cp > log
printed=$(number fit json)
for what in ktensor file npy splatt used; do
    model=all.cp
    case $what in
    file) mv all.cp/model.ktensor . && model=model.ktensor ;;
    splatt) rm all.cp/weights.npy ;;
    used) model=used.cp ;;
    esac
    "$bin/tstream" fit $model x.tsh --cpu --json > fit.$what 2> err || bad "fit, $what: $(cat err)"
    [ ! -s err ] || bad "fit, $what: $(cat err)"
    within "$(number fit fit.$what)" "$printed" 1e-9 || bad "fit, $what: $(cat fit.$what), printed $printed"
done
for what in file npy splatt; do # the same numbers, to the last bit
    [ "$(number residual_norm fit.ktensor)" = "$(number residual_norm fit.$what)" ] ||
        bad "fit: $(cat fit.ktensor) and $(cat fit.$what)"
done
awk -v x="$(number tensor_norm fit.npy)" -v left="$(number residual_norm fit.npy)" \
    -v fit="$(number fit fit.npy)" 'BEGIN { d = 1 - left / x - fit; exit !(d < 1e-12 && d > -1e-12) }' ||
    bad "fit: norms that do not fit: $(cat fit.npy)"
"$bin/tstream" fit model.ktensor x.tsh --cpu --threads 3 --host-memory 200K > log || bad "fit: $(cat log)"
tr -s '\n ' ' ' < log | grep -q '^fit 0[.][0-9]* (within [0-9e.-]*), residual norm [0-9.]*, model norm [0-9.]*, .* [mu]*s $' ||
    bad "fit: $(cat log)"

"$bin/tstream" devices --json > there
if grep -q '"usable":true' there && ! grep -q __asan_init "$bin/tstream"; then
    "$bin/tstream" fit model.ktensor x.tsh --gpus 1 --json > json 2> err || bad "fit --gpus 1: $(cat err)"
    within "$(number fit json)" "$(number fit fit.file)" 1e-12 || bad "fit --gpus 1: $(cat json)"
fi

# ---- cells with weights: what is of them, and what of all cells; a model whose entries have no squares in float64 ----
awk 'NR > 2 { print $1, $2, $3, $4, NR % 3 }' x.tns > w.tns
"$bin/tshard" build w.tns --weights 5 -o w.tsh --dims 70x60x50 > log 2>&1 || bad "build --weights: $(cat log)"
"$bin/tstream" fit model.ktensor w.tsh > log 2> err || bad "fit of weights: $(cat err)"
tr -s '\n ' ' ' < log |
    grep -q '^fit [-0-9.]* (within [0-9e.-]*) at listed cells by their weights, residual norm [0-9.]* there, model norm [0-9.]* over all cells, ' ||
    bad "fit of weights: $(cat log)"
"$bin/tstream" fit model.ktensor w.tsh --json > json
grep -q '"cells":"known"' json || bad "fit of weights: $(cat json)"
grep -q '"cells":"all"' fit.ktensor || bad "fit: $(cat fit.ktensor)"
within "$(number model_norm json)" "$(number model_norm fit.ktensor)" 1e-9 || bad "model norm: $(cat json fit.ktensor)"
awk '/^matrix/ { m++; head = 3 } head > 0 { head--; print; next } m == 0 { print; next }
    { for (i = 1; i <= NF; i++) printf "%.17g%s", $i * (m == 1 ? 2^600 : m == 2 ? 2^-600 : 1), i < NF ? " " : "\n" }' model.ktensor > far.ktensor
for x in w.tsh x.tsh; do
    "$bin/tstream" fit far.ktensor $x --json > far 2> err || bad "fit of far factors, $x: $(cat err)"
    "$bin/tstream" fit model.ktensor $x --json > json
    for what in fit model_norm residual_norm; do
        within "$(number $what far)" "$(number $what json)" 1e-9 || bad "$what of far factors, $x: $(cat far json)"
    done
done
"$bin/tshard" build w.tns --weights 5 -o gaps.tsh --dims 90x60x55 > log 2>&1 # empty slices at the end
"$bin/tstream" cp gaps.tsh --cpu -r 2 -i 3 -p float64 --rows used -f npy --json -o gaps.cp > json 2> err || bad "cp of weights: $(cat err)"
"$bin/tstream" fit gaps.cp gaps.tsh --json > log 2> err || bad "fit of used rows and weights: $(cat err)"
within "$(number fit log)" "$(number fit json)" 1e-9 || bad "fit of used rows and weights: $(cat log json)"
awk 'NR == 5 { $1 = "1e200" } { print }' model.ktensor > huge.ktensor
refused 1 'scale its weights' "$bin/tstream" fit huge.ktensor w.tsh

# ---- core consistency ----
"$bin/tshard" gen --planted 3 --dims 30x25x20 --nnz 3000 -o planted.tsh --truth truth.ktensor > log 2>&1
"$bin/tstream" fit truth.ktensor planted.tsh --cpu --diagnose --json > json || bad "fit --diagnose: $(cat json)"
within "$(number fit json)" 1 1e-6 || bad "fit --diagnose: the truth does not fit: $(cat json)"
within "$(number core_consistency json)" 100 1e-6 || bad "fit --diagnose: of the truth: $(cat json)"
"$bin/tstream" cp planted.tsh --cpu -q -r 6 -i 20 -o six.cp > log
"$bin/tstream" fit six.cp planted.tsh --cpu --diagnose --json --threads 1 > json 2> err
awk -v c="$(number core_consistency json)" 'BEGIN { exit !(c < 90) }' || bad "fit --diagnose: six components: $(cat json)"
for kind in ktensor.cp used.cp; do
    [ $kind = used.cp ] || "$bin/tstream" cp x.tsh --cpu -r 4 -i 5 -p float64 -o ktensor.cp > log
    "$bin/tstream" fit $kind x.tsh --cpu --diagnose --json --threads 2 > json.$kind || bad "fit --diagnose $kind"
done
within "$(number core_consistency json.used.cp)" "$(number core_consistency json.ktensor.cp)" 1e-9 ||
    bad "fit --diagnose: $(cat json.used.cp json.ktensor.cp)"
"$bin/tstream" fit used.cp x.tsh --cpu --diagnose > log
grep -q '^core consistency -*[0-9.e+]* %, normalised -*[0-9.e+]* %$' log || bad "fit --diagnose: $(cat log)"

# ---- what is refused ----
"$bin/tstream" cp x.tsh --cpu -q -r 257 -i 1 -o wide.cp > log
refused 1 "a model of rank 257 and 3 modes has a core of 1.7e+07 entries; it is computed up to 1.68e+07, which is rank 256" \
    "$bin/tstream" fit wide.cp x.tsh --cpu --diagnose
refused 2 "an operand is missing; usage: tstream fit" "$bin/tstream" fit model.ktensor
refused 1 "no decomposition" "$bin/tstream" fit x.tsh model.ktensor
refused 1 "nothere: cannot be opened" "$bin/tstream" fit nothere x.tsh --cpu
refused 1 "nothere" "$bin/tstream" fit model.ktensor nothere --cpu
sed '3s/^70/71/' model.ktensor > other.ktensor
refused 1 "mode 1 of the model has 71 rows, of the tensor 70" \
    "$bin/tstream" fit other.ktensor x.tsh --cpu
exit $failed
