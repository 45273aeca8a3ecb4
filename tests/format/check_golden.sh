#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The golden tensors open, are sound, and hold what the text beside them says, in every mode copy; a
# second reader, written from docs/format.md alone, finds the same. Damaged copies are refused with
# one sentence and exit status 1.
set -eu
top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
build=${TOP_BUILDDIR:-$top}
tshard=$build/tools/tshard
naive=$build/tests/naive_reader
tmp=$(mktemp -d "${TMPDIR:-/tmp}/golden-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
LC_ALL=C
export LC_ALL
umask 022

fail()
{
    echo "$*" >&2
    exit 1
}

# refused TENSOR WORD...: verify says no, in one line that has each WORD
refused()
{
    dir=$1
    shift
    status=0
    "$tshard" verify "$dir" > "$tmp/out" 2> "$tmp/err" || status=$?
    [ "$status" -eq 1 ] || fail "$dir, damaged ($*): exit status $status, expected 1"
    [ ! -s "$tmp/out" ] || fail "$dir, damaged ($*): something on standard output"
    [ "$(wc -l < "$tmp/err")" -eq 1 ] || fail "$dir, damaged ($*): $(cat "$tmp/err")"
    for word in "$@"; do
        grep -qF -e "$word" "$tmp/err" || fail "$dir: no \"$word\" in: $(cat "$tmp/err")"
    done
}

# poke FILE OFFSET OCTAL: changes one byte
poke()
{
    printf "\\$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
}

# fresh NAME: a writable copy of a golden tensor
fresh()
{
    rm -rf "$tmp/x.tsh"
    cp -R "$top/tests/golden/$1.tsh" "$tmp/x.tsh"
    chmod -R u+w "$tmp/x.tsh"
}

n_tensors=0
for tensor in "$top"/tests/golden/*.tsh; do
    text=${tensor%.tsh}.tns
    if [ -f "$text.gz" ]; then
        gzip -dc "$text.gz" > "$tmp/text"
    else
        cat "$text" > "$tmp/text"
    fi
    "$tshard" verify "$tensor" > "$tmp/out"
    grep -q ": sound:" "$tmp/out" || fail "$tensor: $(cat "$tmp/out")"
    "$tshard" info "$tensor" > /dev/null
    "$tshard" info --json "$tensor" | grep -q '"entropy_bound":' || fail "$tensor: info --json"
    fields=1 # behind the indices
    case $tensor in */v3-*) fields=2 ;; esac
    order=$(awk -v fields=$fields '{ print NF - fields; exit }' "$tmp/text")
    mode=1
    while [ "$mode" -le "$order" ]; do
        "$tshard" export --mode "$mode" "$tensor" > "$tmp/export"
        "$naive" "$tensor" "$mode" "$tmp/export" ||
            fail "$tensor: the second reader differs from tshard export in mode $mode"
        sort "$tmp/export" | cmp - "$tmp/text" || fail "$tensor: mode $mode holds something else"
        mode=$((mode + 1))
    done
    n_tensors=$((n_tensors + 1))
done
[ "$n_tensors" -ge 15 ] || fail "only $n_tensors golden tensors"

# The same from a compressed export, and with one thread.
"$tshard" export --threads 1 -o "$tmp/one.tns.gz" "$top/tests/golden/v1-shards-order2.tsh"
gzip -dc "$tmp/one.tns.gz" | sort > "$tmp/export"
gzip -dc "$top/tests/golden/v1-shards-order2.tns.gz" | cmp - "$tmp/export"
"$tshard" export --format sptensor "$top/tests/golden/v1-huge-order2.tsh" | head -n 4 > "$tmp/head"
printf 'sptensor\n2\n1099511627776 1099511627776\n600\n' | cmp - "$tmp/head"

fresh v1-lz4-order3
poke "$tmp/x.tsh/index" 8 005
refused "$tmp/x.tsh" "$tmp/x.tsh/index: byte 8: format version 5, but this program reads versions 1 to 4"
fresh v1-lz4-order3
poke "$tmp/x.tsh/index" 0 130
refused "$tmp/x.tsh" "/index: byte 0: not the index of a tensor"
for file in index mode1.shards mode2.rows mode3.labels; do
    fresh v1-lz4-order3
    poke "$tmp/x.tsh/$file" 40 377
    refused "$tmp/x.tsh" "/$file" "checksum"
    fresh v1-lz4-order3
    size=$(wc -c < "$tmp/x.tsh/$file")
    head -c "$((size - 1))" "$tmp/x.tsh/$file" > "$tmp/cut"
    cat "$tmp/cut" > "$tmp/x.tsh/$file"
    refused "$tmp/x.tsh" "/$file" "cut short"
done
fresh v1-lz4-order3
rm "$tmp/x.tsh/mode2.shards"
refused "$tmp/x.tsh" "/mode2.shards" "No such file"

# What is no tensor at all.
mkdir "$tmp/none"
refused "$tmp/none" "not a tensor directory"
refused "$tmp/missing.tsh" "No such file"
mkdir "$tmp/missing.tsh.building"
refused "$tmp/missing.tsh" "missing.tsh.building is there"
refused "$top/README.md" "not a tensor directory but a file"

# An export that fails leaves nothing; mistakes are usage errors; `| head` is no failure to speak of.
fresh v1-shards-order2
poke "$tmp/x.tsh/mode1.shards" 40 377
mkdir "$tmp/out.d"
status=0
"$tshard" export "$tmp/x.tsh" -o "$tmp/out.d/x.tns" 2> "$tmp/err" || status=$?
[ "$status" -eq 1 ] && grep -q "checksum" "$tmp/err" || fail "export of a damaged tensor: $status"
[ -z "$(ls "$tmp/out.d")" ] || fail "export left $(ls "$tmp/out.d")"
"$tshard" export --mode 2 "$tmp/x.tsh" -o "$tmp/out.d/x.tns" || fail "the other copy is sound"
status=0
"$tshard" export --mode 3 "$tmp/x.tsh" > "$tmp/out" 2> "$tmp/err" || status=$?
[ "$status" -eq 2 ] || fail "export --mode 3 of an order-2 tensor: exit status $status"
"$tshard" export "$top/tests/golden/v1-shards-order2.tsh" 2> "$tmp/err" | head -n 1 > "$tmp/out"
[ ! -s "$tmp/err" ] || fail "export | head: $(cat "$tmp/err")"
