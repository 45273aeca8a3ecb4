#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a disk has no room for is refused before anything is read, or as soon as it can be known. Between
# the bounds there is a warning, and a build that fits has none.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
unset TMPDIR # temporary files lie beside the result, on the small disk
mkdir small
unshare -rm mount -t tmpfs none small > log 2>&1 || { echo "skipped: no file system can be mounted here"; exit 77; }

on() # SIZE COMMAND...: with a disk of this size in small
{
    size=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare -rm sh -c 'mount -t tmpfs -o size="$0" none small && "$@"; rc=$?; ls -A small > left; exit $rc' \
        "$size" "$@" > out 2> err
}

says() # WHAT TEXT
{
    grep -q -e "$2" err || bad "$1: no '$2' in: $(cat out err)"
    if [ "$(wc -l < err)" -gt "${3:-1}" ]; then bad "$1: $(cat err)"; fi
    if [ -s left ]; then bad "$1: left $(cat left)"; fi
}

# ---- a generator: refused at once, in files and in memory ----
for memory in 32M 4G; do
    if on 16m "$bin/tshard" gen --dims 3000x4000x5000 -n 20M -m $memory -o small/x.tsh; then bad "gen $memory"; fi
    says "gen $memory" 'nothing was read: .* at least .* has 16.0 MiB free: .*--no-space-check'
done
if on 16m "$bin/tshard" gen --dims 3000x4000x5000 -n 6M -m 32M -o small/x.tsh --no-space-check; then bad gen; fi
says gen 'No space left on device, while .*; the build takes at least .* had 16.0 MiB free'

if on 1m "$bin/tshard" gen --dims 3000x4000x5000 -n 500K -m 1G --tmp . -o small/x.tsh --no-space-check; then bad two; fi
says two 'No space left on device, while .*; the result takes at least .* and temporary files .* small/ had 10[0-9.]* .iB free and \. '

# ---- text: by its lines; one that certainly does not fit, though the text lies elsewhere ----
"$bin/tshard" gen -q --dims 3000x4000x5000 -n 3M -o big.tns > log
if on 16m "$bin/tshard" build -q -m 32M -o small/x.tsh big.tns; then bad build; fi
says build 'nothing was read: .* at least '

# ---- a line that is left out needs no room, however its zero or what is missing is written ----
left_out() # FIELD FILE LINE OPTION...: lines of 1 to 9 and a value, which is FIELD in nearly all
{
    field=$1 file=$2 line=$3
    shift 3
    awk -v field="$field" -v line="$line" 'BEGIN {
        if (line !~ / /) { s = line; gsub("[1-9]", "c&", s); sub("V", "v", s); print s }
        for (i = 0; i < 300; i++) {
            s = line
            sub("1", 1 + i % 9, s)
            sub("V", i == 7 ? "1" : field, s)
            all = all s "\n"
        }
        for (i = 0; i < 20000; i++) printf "%s", all }' > "$file"
    on 16m "$bin/tshard" build -q -m 32M -o small/x.tsh "$@" "$file" || bad "left out, $field: $(cat err)"
    rm "$file"
}
left_out 0.0e+00 zeros.tns '1 2 V'
left_out 1e-60 zeros.tns '1 2 V'
left_out '"0"' zeros.csv '1,2,V'
left_out 0 zeros.csv '1|2|V' --separator '|'
left_out '\\N' missing.csv '1,2,V' --missing skip
left_out '#N/A' missing.tsv "1$(printf '\t')2$(printf '\t')V" --missing skip

# ---- of a packed text the start says nothing of what follows, where zeros are left out ----
awk 'BEGIN { print "a,b,v"; for (i = 0; i < 6000000; i++) print i % 9 + 1 "," i % 7 + 1 "," (i < 200000) }' |
    gzip -1 > falling.csv.gz
on 8m "$bin/tshard" build -q -m 32M -o small/x.tsh falling.csv.gz || bad "falling: $(cat err)"
rm falling.csv.gz

# ---- a plan says what the build says: refused by the same sentence, perhaps with its warning, or nothing ----
agrees() # SIZE VERDICT STATUS FILE
{
    status=0
    on "$1" "$bin/tshard" plan --json -m 32M -o small/x.tsh "$4" || status=$?
    [ $status -eq "$3" ] || bad "plan on $1: exit $status, expected $3: $(cat err)"
    [ "$2" = none ] || grep -q "\"fits\":\"$2\"" out || bad "plan on $1: not '$2': $(cat out err)"
    sed 's/^tshard [a-z]*: //; s/get full: .*//' err > planned # of what was read whole its bounds are closer
    on "$1" "$bin/tshard" build -m 32M -o small/x.tsh "$4" || [ "$3" -eq 1 ] || bad "build on $1: $(cat err)"
    sed 's/^tshard [a-z]*: //; s/get full: .*//' err | cmp -s - planned || bad "on $1: plan says: $(cat planned); build: $(cat err)"
    grep -q "$5" err || [ -z "$5" ] || bad "build on $1: no '$5': $(cat err)"
}
head -n 900000 big.tns > mid.tns
agrees 16m none 1 big.tns 'nothing was read: .* at least '
agrees 30m perhaps 0 mid.tns 'warning: .*the disk may get full: the build takes .* to .* 30.0 MiB free'
agrees 900m yes 0 mid.tns ''

# ---- a pipe: as soon as more has come than there is room for ----
# shellcheck disable=SC2016 # expanded by the inner shell
if on 16m sh -c 'cat big.tns | "$0" build -q -m 32M -o small/x.tsh -' "$bin/tshard"; then bad pipe; fi
says pipe 'stopped while reading, as more has come than there is room for: .* at least '

# ---- between the bounds: a warning, and the build ----
on 14m "$bin/tshard" gen --dims 3000x4000x5000 -n 1M -m 1G -o small/x.tsh || bad "warned: $(cat err)"
grep -q 'warning: .*the disk may get full: the build takes .* to .* 14.0 MiB free' err || bad "warning: $(cat err)"

# ---- of several processes the sum counts: what each takes fits, and what all take does not ----
several() # SIZE OPTION...
{
    size=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare -rm sh -c 'mount -t tmpfs -o size="$0" none small && timeout 300 "$@" < /dev/null; rc=$?; ls -A small > left; exit $rc' \
        "$size" "$launcher" -n 3 "$bin/tshard-mpi" build many.tns -m 32M -o small/x.tsh > out 2> err
}
if [ "${TSTREAM_TEST_LARGE:-0}" = 1 ] && [ -x "$bin/tshard-mpi" ]; then
    # shellcheck source=tests/support/outside_mpi.sh
    . "$top/tests/support/outside_mpi.sh"
    "$bin/tshard" gen -q --dims 99x99x99 -n 16M -o many.tns
    if several 40m; then bad "several processes"; fi
    grep -q 'nothing was read: the result and its temporary files take at least .* has 40.0 MiB free' err || bad "several processes: $(cat err)"
    rm many.tns
else
    echo "left out, several processes: TSTREAM_TEST_LARGE=1 tries them, where MPI is"
fi

# ---- where it is small, nothing is said ----
on 2m "$bin/tshard" gen --dims 300x400x500 -n 10K -o small/x.tsh || bad "small: $(cat err)"
if [ -s err ]; then bad "small: $(cat err)"; fi
on 40m "$bin/tshard" gen --dims 3000x4000x5000 -n 1M -m 1G -o small/x.tsh || bad "small: $(cat err)"
if [ -s err ]; then bad "small: $(cat err)"; fi

# ---- texts and parts: refused before the first byte, unless it is to be tried ----
"$bin/tshard" gen -q --dims 3000x4000x5000 -n 500K -o mid.tsh > log
for to in small/x.tns '- > small/x.tns'; do
    # shellcheck disable=SC2016 # expanded by the inner shell
    if on 3m sh -c '"$0" export mid.tsh -o '"$to" "$bin/tshard"; then bad "export -o $to"; fi
    grep -q 'nothing was written: the result takes at least .*--no-space-check' err || bad "export -o $to: $(cat err)"
done
if on 4m "$bin/tshard" gen -q --dims 3000x4000x5000 -n 500K -o small/x.tns; then bad "gen text"; fi
says 'gen text' 'nothing was written: the result takes at least '
if on 4m "$bin/tshard" gen -q --dims 3000x4000x5000 -n 500K -o small/x.tns --no-space-check; then bad "gen text"; fi
says 'gen text' 'No space left on device'
if on 4m "$bin/tshard" gen -q --dims 900000x400000x5 --planted 3 -n 500K -o small/x.tsh --truth small/x.ktensor; then
    bad "gen --truth"
fi
says 'gen --truth' 'x.ktensor.*: nothing was written: the result takes at least '
on 5m "$bin/tshard" gen -q --dims 9x9x9 -n 1M --value 0..1 -o small/x.tns || bad "zeros of draws: $(cat err)"
if on 2m "$bin/tshard" part mid.tsh --part 1/1 -o small/x.tsh; then bad "part"; fi
says part 'nothing was copied: the result takes at least .*: name another place with --output, or'
if on 4m "$bin/tshard" gen -q --dims 1000000x9x9 --planted 3 -n 1K -o g.tsh --truth small/x.ktns; then bad truth; fi
says truth 'nothing was written: the result takes at least .*: name another place with --truth, or'
on 900m "$bin/tshard" export mid.tsh -o small/x.tns || bad "export: $(cat err)"
if [ -s err ]; then bad "export: $(cat err)"; fi

# ---- and never where there is just as much room as they take ----
for law in uniform power:0.8; do
    for dims in 3000x4000x5000 9x12x100000 1000000x2x3x4; do
        "$bin/tshard" gen -q --dims $dims -n 50K --law $law -o any.tns
        "$bin/tshard" build -q any.tns -o any.tsh > log
        "$bin/tshard" export any.tsh -o any.out
        on $((($(wc -c < any.tns) + 4095) / 4096 * 4))k "$bin/tshard" gen -q --dims $dims -n 50K --law $law \
            -o small/x.tns || bad "gen $dims $law: $(cat err)"
        on $((($(wc -c < any.out) + 4095) / 4096 * 4))k "$bin/tshard" export any.tsh -o small/x.tns ||
            bad "export $dims $law: $(cat err)"
        rm -rf any.tsh any.out any.tns
    done
done

# ---- a limit of files ----
# shellcheck disable=SC2016 # expanded by the inner shell
if sh -c 'ulimit -f 4096; "$0" gen --dims 3000x4000x5000 -n 3M -m 1G -o f.tsh' "$bin/tshard" > out 2> err; then
    bad "ulimit -f"
fi
grep -q 'nothing was read: a file takes at least .*ulimit -f' err || bad "ulimit -f: $(cat err)"
exit $failed
