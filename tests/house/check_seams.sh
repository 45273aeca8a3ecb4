#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What is added at a seam is whole: a file of src/ is in the list of its folder, a file or formula of a table has its
# row, a row its line in the documents. Compilers see none of that. Each sentence names the file that lacks something.
# tests/stranger/apply --parts leaves out each part of what is added there, and expects red.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
failed=0
complain()
{
    echo "$*" >&2
    failed=1
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$top"

# ---- files, and the lists of what is built ----
find src tools -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' | sort > "$tmp/files"
cat src/*/Makefile.inc tools/Makefile.inc python/Makefile.inc Makefile.am | tr -s ' \t\\' '\n' | sort -u > "$tmp/listed"
comm -23 "$tmp/files" "$tmp/listed" | sed -E 's#^(src/[^/]*|tools)/.*$#\1/Makefile.inc: does not list &#' > "$tmp/said"
[ "$(wc -l < "$tmp/files")" -ge 300 ] || complain "few files are found: the search for them is broken"
# Lines are at most 100 columns wide, but for strings, which nothing breaks.
find src tools include tests fuzz bench \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -exec \
    awk 'length($0) > 100 && !/"/ { print FILENAME ":" FNR ": " length($0) " columns" }' {} + >> "$tmp/said"

# ---- sizes and names ----
# A file of more than 600 lines says in its first comment why it stays in one file. A function has at most 100 lines.
find src tools -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort > "$tmp/sources"
while read -r file; do
    [ "$(wc -l < "$file")" -le 600 ] || sed -n '2,/\*\/$/p' "$file" | tr -s ' *\n' ' ' | grep -q 'in one file' ||
        echo "$file: more than 600 lines, and its first comment does not say why they stay in one file"
done < "$tmp/sources" >> "$tmp/said"
xargs awk 'FNR == 1 { start = 0 }
    /^{/ { start = FNR }
    /^}/ { if (start && FNR - start > 100) print FILENAME ":" start ": a function of more than 100 lines"; start = 0 }' \
    < "$tmp/sources" >> "$tmp/said"
git ls-files src tools include tests bench scripts 2> /dev/null | grep -E '_(2|more|impl|utils?|common)\.[a-z]+$' |
    sed 's/$/: a name that does not say what is in the file/' >> "$tmp/said"
# "run" and "take" do not say what a function runs or takes, nor "how" what a parameter is.
xargs grep -nE '^static [a-z_0-9 ]+[ *](run|take)\(|[(,] *[a-z_0-9 ]+[ *]how[,)]' < "$tmp/sources" | grep -vE '^[^:]*:[0-9]+: *(/\*|\*)' |
    sed 's/$/: run, take and how are no names here/' >> "$tmp/said"

# ---- losses ----
table=src/stream/losses.def
rows=$(grep -c '^LOSS(' $table)
[ "$rows" -ge 5 ] || complain "$table: $rows rows found; the search for them is broken"
sed -n 's/.* ts_\([a-z0-9_]*\)_value(double .*/\1/p' $table | while read -r name; do
    grep -q "^LOSS([A-Z0-9_]*, $name, " $table || echo "$table: there are formulas of $name, and no row LOSS(..., $name, ...)"
done >> "$tmp/said"
sed -n 's/^LOSS([A-Z0-9_]*, [a-z0-9_]*, [A-Z]*, "\([a-z-]*\)".*/\1/p' $table | while read -r name; do
    grep -q "^|.*\`--loss $name[: \`]" docs/counts.md || echo "docs/counts.md: the table of losses has no row of --loss $name, which $table has"
done >> "$tmp/said"

# ---- kinds of text ----
table=src/source/text/text_kind.h
grep -rn --include='*.c' '^const struct ts_text_kind ts_text_' src/source | while IFS=: read -r file line text; do
    name=$(echo "$text" | sed 's/.* ts_text_\([a-z0-9_]*\) .*/\1/')
    grep -q "^    KIND($name)" $table || echo "$table: TS_TEXT_KINDS has no row of $name, which $file defines"
    shown=$(sed -n "$line,\$s/^    \.name = \"\(.*\)\",.*/\1/p" "$file" | head -n 1)
    [ -n "$shown" ] || echo "$file: ts_text_$name has no name"
    sed -n '/^| form |/,/^$/p' docs/input.md | grep -qiF "$shown" || echo "docs/input.md: the table of forms has no row of $shown, which $file defines"
done >> "$tmp/said"

# ---- settings ----
# A member of struct ts_constraint or ts_spec that src/ or tools/ read is a row of the table, or stands in spec.h.
table=src/base/settings.def
sed -n 's/^SETTING[A-Z_]*(.*\(MODES\|MODES_OR_ALL\|PENALTIES\|PENALTIES_1\|BOUNDS\)(\([a-z0-9_]*\)),.*/\2/p' $table > "$tmp/of_modes"
[ "$(wc -l < "$tmp/of_modes")" -ge 8 ] || complain "$table: few settings of modes are found; the search for them is broken"
sed -n 's/^SETTING_OF_METHOD(\([a-z0-9_]*\),.*/\1/p' $table > "$tmp/of_run"
[ "$(wc -l < "$tmp/of_run")" -ge 2 ] || complain "$table: few rows of SETTING_OF_METHOD are found; the search for them is broken"
sed -n '/^struct ts_spec {/,/^};/p' src/cpd/spec/spec.h | grep -oE '[a-z_0-9]+(\[|;)' | tr -d '[;' >> "$tmp/of_run"
printf '%s\n' lower upper >> "$tmp/of_modes"
# names PATTERN: "FILE NAME" for each member that is read so
names()
{
    grep -roE --include='*.[ch]' -e "$1" src tools | sed 's/:.*[^a-z_0-9]\([a-z_0-9]*\)$/ \1/' | sort -u
}
names '\bspec(->|\.)mode\[[^]]*\]\.[a-z_0-9]+' > "$tmp/names"
[ "$(wc -l < "$tmp/names")" -ge 5 ] || complain "few members of modes are found; the search for them is broken"
while read -r file name; do
    grep -qx "$name" "$tmp/of_modes" || echo "$table: no row makes the member $name of struct ts_constraint, which $file reads"
done < "$tmp/names" >> "$tmp/said"
names '\bspec->[a-z_0-9]+' | grep -v ' member$' > "$tmp/names"
while read -r file name; do
    grep -qx "$name" "$tmp/of_run" || echo "$table: no row makes the member $name of struct ts_spec, which $file reads"
done < "$tmp/names" >> "$tmp/said"
{ grep -vx 'lower\|upper' "$tmp/of_modes"; sed -n 's/^SETTING_OF_METHOD(\([a-z0-9_]*\),.*/\1/p' $table; } | while read -r name; do
    grep -rqE --include='*.c' -e "(->|\.)$name\b" src/cpd ||
        echo "$table: no method in src/cpd reads the member $name, which a row makes"
done >> "$tmp/said"

sed -n 's/^OF_MODE([A-Z0-9_]*, \([a-z0-9_]*\), .*/\1/p' src/cpd/spec/spec_pairs.def > "$tmp/names"
[ "$(wc -l < "$tmp/names")" -ge 5 ] || complain "src/cpd/spec/spec_pairs.def: few properties of modes are found; the search for them is broken"
while read -r name; do
    grep -qx "$name" "$tmp/of_modes" || echo "$table: no row makes the member $name of struct ts_constraint, of which src/cpd/spec/spec_pairs.def has a property"
done < "$tmp/names" >> "$tmp/said"

# ---- row updates that no backend makes ----
table=src/stream/row_update.h
sed -n 's/^    MAKER(\([A-Z_]*\), .*/\1/p' src/cpd/rows/row_maker.h > "$tmp/names"
[ "$(wc -l < "$tmp/names")" -ge 3 ] || complain "src/cpd/rows/row_maker.h: few makers of rows are found; the search for them is broken"
while read -r name; do
    grep -q "^    KIND($name, " $table || echo "$table: TS_ROW_KINDS has no line of $name, of which src/cpd/rows/row_maker.h has a maker"
done < "$tmp/names" >> "$tmp/said"

# ---- methods ----
table=src/cpd/methods/method.h
grep -ro --include='*.c' '^const struct ts_method ts_[a-z0-9_]*' src/cpd | sed 's/:const struct ts_method ts_/ /' | while read -r file name; do
    grep -q "^    METHOD($name)" $table || echo "$table: TS_METHODS has no row of $name, which $file defines"
done >> "$tmp/said"

# ---- capabilities of backends ----
table=src/stream/capability.h
sed -n 's/^    CAPABILITY(\([A-Z_]*\), .*/\1/p' $table > "$tmp/can"
[ "$(wc -l < "$tmp/can")" -ge 8 ] || complain "$table: few capabilities are found; the search for them is broken"
while read -r name; do
    grep -rq --include='*.c' "TS_CAN($name)" src/cpu src/gpu || echo "src/cpu/cpu_backend.c, src/gpu/team/gpu_backend.c: none has the capability $name of $table"
    grep -rqE "TS_CAN_$name\b|TS_CAN\($name\)|KIND\([A-Z]*, *$name\)" --include='*.c' --include=request.h src/cpd src/engine src/api tools src/stream/request.h ||
        echo "$table: nobody asks for the capability $name"
done < "$tmp/can" >> "$tmp/said"

[ ! -s "$tmp/said" ] || { cat "$tmp/said" >&2; failed=1; }
exit $failed
