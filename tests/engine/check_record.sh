#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.json says what was run and how it went; tstream info prints it.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

"$bin/tshard" gen --planted 3 --noise 0.1 --dims 60x50x40 --nnz 12480 -o x.tsh > log 2>&1
"$bin/tstream" cp x.tsh --cpu -r 3 -i 30 --tol 0 --seed 7 --format ktensor,npy,splatt --rows used --json > json

# ---- what it says ----
record=x.cp/run.json
has() { grep -qF -- "$1" $record || bad "run.json: no $1 in: $(cat $record)"; }
[ "$(wc -l < $record)" -eq 1 ] || bad "run.json: not one line"
has "\"tensor\":{\"path\":\"$(pwd -P)/x.tsh\",\"shape\":[60,50,40],"
has '"seed":7,'
has '"rank":3,'
has '"gpus":[]'
has '"sweeps_before":0,'
has '"ended":"iterations"'
has "\"version\":\"$("$bin/tstream" --version | sed 's/tstream \(.*\) (.*/\1/')\",\"commit\":\"$(
    "$bin/tstream" --version | sed 's/.*(commit \(.*\))/\1/')\""
[ "$(grep -o '{"sweep":' $record | wc -l)" -eq 30 ] || bad "run.json: not 30 sweeps"
fit=$(sed -n 's/.*"event":"done","fit":\([0-9.e+-]*\),.*/\1/p' json)
has "\"ended\":\"iterations\",\"fit\":$fit,\"mean\":null,\"best_sweep\":null,\"held_out_rmse\":null,\"held_out_loss\":null,"
sed -n 's/.*"event":"sweep","sweep":\([0-9]*\),"fit":\([^,]*\),.*/{"sweep":\1,"fit":\2,/p' json > sweeps
while read -r sweep; do has "$sweep"; done < sweeps
sed -n 's/.*"event":"sweep".*"fit":[^,]*,"change":[^,]*,\("objective":.*\),\("seconds":[^,]*\),"nnz_per_s":[^,]*,\("bytes_read":[^,]*\),\(.*\),"exposed_seconds".*,\("singular_modes":[0-9]*\)}/\2,\1,\4,\3,\5}/p' json > sweeps
[ "$(wc -l < sweeps)" -eq 30 ] || bad "run.json: sweeps of --json are not understood"
while read -r sweep; do has "$sweep"; done < sweeps
grep -qE '"start":"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[+-][0-9]{2}:[0-9]{2}","end":"' $record ||
    bad "run.json: no times of day"
"$bin/tstream" cp x.tsh --cpu -r 3 -i 50 --tol 0.5 --format ktensor,npy --output c.cp > log
grep -q '"ended":"converged"' c.cp/run.json || bad "run.json: not converged"

# the checksum is the tensor's: another one has another, the same one built again the same
checksum() { sed 's/.*"checksum":"\([0-9a-f]*\)".*/\1/' "$1"; }
"$bin/tshard" export x.tsh | sort -R --random-source=x.tsh/index > x.tns
"$bin/tshard" build x.tns --dims 60x50x40 -o again.tsh > log 2>&1
(cd "$tmp" && "$bin/tstream" cp again.tsh --cpu -r 3 -i 1 > log)
[ "$(checksum again.cp/run.json)" = "$(checksum $record)" ] || bad "run.json: another checksum of the same tensor"
sed 1d x.tns > y.tns
"$bin/tshard" build y.tns --dims 60x50x40 > log 2>&1
"$bin/tstream" cp y.tsh --cpu -r 3 -i 1 > log
[ "$(checksum y.cp/run.json)" != "$(checksum $record)" ] || bad "run.json: the same checksum of another tensor"

# ---- tstream info ----
narrow() { awk 'length($0) > 80 { print; bad = 1 } END { exit bad }' "$1" || bad "info: wider than 80 columns"; }
"$bin/tstream" info x.cp > log
narrow log
for text in 'rank 3, ' 'as ktensor npy splatt' ' after 30 sweeps, not converged' '60 x 50 x 40, 12,' \
    '--seed 7' '--rows used' "checksum $(checksum $record)" ' ...'; do
    tr -s '\n ' ' ' < log | grep -qF -e "$text" || bad "info: no \"$text\" in: $(cat log)"
done
[ "$(grep -c '^ *[0-9]* *0[.][0-9]* ' log)" -eq 20 ] || bad "info: not 20 sweeps: $(cat log)"
"$bin/tstream" info x.cp --json | cmp - $record || bad "info --json: not run.json"
mkdir plain
cp c.cp/*.npy plain
"$bin/tstream" info plain > log
grep -q '^factors  rank 3, 60 x 50 x 40 rows, as npy$' log || bad "info: $(cat log)"
"$bin/tstream" info plain --json > json
[ "$(cat json)" = '{"shape":[60,50,40],"rank":3,"formats":["npy"]}' ] || bad "info --json: $(cat json)"
"$bin/tstream" info c.cp/model.ktensor > log
grep -q '^factors  rank 3, 60 x 50 x 40 rows, as ktensor$' log || bad "info of a file: $(cat log)"
refused 1 "no decomposition" "$bin/tstream" info x.tsh
refused 1 "nothere" "$bin/tstream" info nothere

# a run that was stopped: its record is beside the states of what is to be
mkdir stopped.cp.partial
cp $record stopped.cp.partial
"$bin/tstream" info stopped.cp/ > log || bad "info of a stopped run: $(cat log)"
grep -qx 'stopped.cp.partial' log || bad "info of a stopped run: $(cat log)"
"$bin/tstream" info stopped.cp --json | cmp - $record || bad "info --json of a stopped run"

# a record that is damaged, or acts on a terminal, or is no file
while IFS='|' read -r says text; do
    printf '%s' "$text" > plain/run.json
    refused 1 "$says" "$bin/tstream" info plain
done << 'END'
the file ends where a value is expected|
byte 0: expected a value|x
the file ends where a value is expected|{"a":
expected a comma, or an end|{"a":[1,2}
expected a colon|{"a" 1}
expected a string|{1:2}
expected a value|{"a":1x}
the file ends in a string|{"a":"b
not a character behind|{"a":"\u00zz"}
an escape that there is not|{"a":"\q"}
something stands behind the value|{} {}
not an object|[1]
nested too deeply|[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
END
printf '{"ended":"\\u001b[31m\033[32m","host":"%0200d","options":{"a":[],"b":{"c":1}},"sweeps":7,"tensor":[]}' 0 > plain/run.json
"$bin/tstream" info plain > log || bad "info of a strange record"
if grep -q "$(printf '\033')" log; then bad "info: an escape"; fi
grep -qF '?[31m?[32m' log || bad "info: $(cat log)"
narrow log
rm plain/run.json
mkfifo plain/run.json
refused 1 "run.json: not a file" timeout 10 "$bin/tstream" info plain
exit $failed
