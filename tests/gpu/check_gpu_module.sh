#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The GPU part as a shared object: where it is looked for, and what is said when it is missing, of
# another build, damaged, or where others can write. None of its code is loaded then, and runs go on
# with CPU cores. It is a fake (fake_module.c), so this needs no CUDA.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
umask 022
built=$(cd "$bin/.." && pwd)
if grep -q 'define HAVE_CUDA 1' "$built/config.h"; then echo 'skipped: the GPU part is linked in'; exit 77; fi
name=libtstream-cuda.so
installed=$(sed -n 's/.*TS_GPU_MODULE_DIR "\(.*\)"/\1/p' "$built/config.h")
if [ -e "$installed/$name" ]; then echo "skipped: $installed has $name"; exit 77; fi
version=$(sed -n 's/^#define PACKAGE_VERSION "\(.*\)"/\1/p' "$built/config.h")
seal=$built/src/gpu_part_seal
abi=$(sed -n 's/.*TS_GPU_ABI "\(.*\)"/\1/p' "$built/src/gpu/module/gpu_abi.h")

# One place has the names, and the package of Python the same.
for pair in GPU_PACKAGE:tstream-cuda13 GPU_PYTHON:tstream_cuda13 GPU_EXTRA:cuda13; do
    grep -q "^#define ${pair%:*} \"${pair#*:}\"" "$built/config.h" || bad "config.h: ${pair%:*}"
done
grep -q '^cuda13 = \["tstream-cuda13"\]' "$top/pyproject.toml" || bad 'pyproject.toml: cuda13'

# fake FILE FLAGS...
fake()
{
    file=$1
    shift
    # word splitting of CC is meant
    # shellcheck disable=SC2086
    ${CC:-cc} -std=gnu11 -shared -fPIC -fvisibility=hidden -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 \
        -I"$top/src" -I"$built/src" -I"$built" -I"$top/include" "$@" -o "$file" \
        "$top/tests/gpu/fake_module.c" && { [ -n "${unsealed:-}" ] || "$seal" "$file"; }
}
fake good.so > log 2>&1 || { echo "skipped: no shared object can be linked: $(cat log)"; exit 77; }
printf '%s\n' '1 1 1 2' '1 2 3 4' '2 3 2 1' > x.tns
"$bin/tshard" build x.tns > log 2>&1 || bad "build: $(cat log)"
mkdir at
cp "$bin/tstream" at/tstream

# is TEXT WHAT [PROGRAM]: devices say TEXT and nothing of it is loaded; a run goes on, with a note
# unless WHAT is absent
is()
{
    text=$1 what=$2 program=${3:-at/tstream}
    "$program" devices > log 2> err || bad "$what: devices: exit $?: $(cat err)"
    tr -s ' \n' ' ' < log | grep -qF -- "no GPU: $text" || bad "$what: devices: no \"$text\" in: $(cat log)"
    [ ! -s err ] || bad "$what: devices: $(cat err)"
    "$program" devices --json > log 2> err || bad "$what: devices --json: $(cat err)"
    grep -qF '{"gpus":[],"no_gpu":"' log || bad "$what: devices --json: $(cat log)"
    refused 1 "$text" "$program" cp x.tsh --gpus 1
    "$program" cp x.tsh -r 1 -i 1 --no-output --json > log 2> err || bad "$what: cp: $(cat err)"
    grep -q '"backend":"cpu"' log || bad "$what: cp: $(cat log)"
    if [ "$what" = absent ]; then
        [ ! -s err ] || bad "absent: cp: $(cat err)"
    else
        grep -qF "computing on the CPU: $text" err || bad "$what: cp: no word of it: $(cat err)"
    fi
}

# is_used WHAT [PROGRAM]: the fake is loaded
is_used()
{
    "${2:-at/tstream}" devices > log 2> err || bad "$1: devices: $(cat err)"
    grep -qF 'GPU 0: Fake' log || bad "$1: devices: $(cat log)"
    grep -q 'FAKE MODULE LOADED' err || bad "$1: not loaded: $(cat err)"
}
put() { rm -rf "at/$name" && cp "$1" "at/$name"; }

# ---- where it is looked for ----
absent='the GPU part of tstream is not installed: install the package tstream-cuda'
is "$absent" absent
mkdir other
cp good.so "other/$name"
cp good.so "$name"
LD_LIBRARY_PATH=$tmp/other:$tmp PATH=$tmp/other:$PATH is "$absent" absent
(cd other && LD_LIBRARY_PATH=. ../at/tstream devices | tr -s ' \n' ' ' | grep -qF "$absent") ||
    bad 'the current folder has it'
rm "$name"
put good.so
is_used 'beside the program'
grep -q 'not used, because it is a fake: use --cpu' log || bad "the words of a program: $(cat log)"
at/tstream --version 2> err | grep -q '^GPUs: nothing$' || bad 'tstream --version'
at/tstream cp x.tsh -r 1 -i 1 --no-output --json > log 2> err || bad "cp: $(cat err)"
grep -q '"backend":"cpu"' log || bad "cp: $(cat log)"
grep -q 'computing on the CPU: .*it is a fake: use --cpu' err || bad "cp: $(cat err)"
fake two.so -DGPUS=2
put two.so
is_used 'two GPUs'
grep -qx 'no NCCL: a fake has no NCCL' log || bad "two GPUs: $(cat log)"
at/tstream devices --json 2> err | grep -q '"no_nccl":"a fake has no NCCL"' || bad 'two GPUs: JSON'
# as pip installs both
mkdir -p site/tstream/_native site/tstream_cuda13
cp at/tstream site/tstream/_native/tstream
is "the GPU part of tstream is not installed: pip install 'tstream[cuda13]'" absent \
    site/tstream/_native/tstream
cp good.so "site/tstream_cuda13/$name"
is_used 'beside the package' site/tstream/_native/tstream
# links of the user
rm "at/$name"
ln -s "../other/$name" "at/$name"
is_used 'a link'

# ---- of another build ----
this="and this is tstream $version ($abi): pip install tstream-cuda13==$version"
fake wrong.so '-DABI="0123456789ab"'
put wrong.so
is "the GPU part in $tmp/at/$name is of tstream $version (0123456789ab), $this" 'another hash'
fake wrong.so '-DVERSION_HERE="0.1.7"'
put wrong.so
is "the GPU part in $tmp/at/$name is of tstream 0.1.7 ($abi), $this" 'another version'
fake wrong.so '-DBYTES=1,2,3'
put wrong.so
is "the GPU part in $tmp/at/$name is of tstream $version ($abi), $this" 'other sizes'

# ---- what is not whole, or another file ----
if fake wrong.so -DNO_NOTE 2> err; then bad 'a file without a note is sealed'; fi
grep -qx 'gpu_part_seal: wrong.so is no GPU part of tstream' err || bad "seal: $(cat err)"
put wrong.so
is "$tmp/at/$name is no GPU part of tstream" 'no note'
echo 'not a shared object, but long enough to have the header of one: 0123456789' > text
put text
is "$tmp/at/$name is no GPU part of tstream" 'a text'
: > empty
put empty
is "$tmp/at/$name is no GPU part of tstream" 'an empty file'
rm "at/$name" && mkdir "at/$name"
is "$tmp/at/$name is no GPU part of tstream" 'a folder'
rmdir "at/$name" && mkfifo "at/$name"
timeout 20 at/tstream --version > log 2> err || bad "a pipe: exit $?: $(cat err)"
is "$tmp/at/$name is no GPU part of tstream" 'a pipe'
rm "at/$name"
fake wrong.so -DFUNCTION=ts_another_name
put wrong.so
at/tstream devices > log 2> err || bad "no function: exit $?: $(cat err)"
tr -s ' \n' ' ' < log | grep -qF "no GPU: $tmp/at/$name lacks the function ts_gpu_module_open" || bad "no function: $(cat log)"
# of any length: no crash, and nothing of it is loaded unless all that is loaded is there
bytes=$(wc -c < good.so)
cut=0
for part in 1 2 4 8 12 16 20 24 28 30 31; do
    rm -rf "at/$name" && head -c $((bytes * part / 32)) good.so > "at/$name"
    at/tstream devices > log 2> err || bad "cut to $part/32: exit $?: $(cat err)"
    if tr -s ' \n' ' ' < log | grep -qF "$tmp/at/$name is cut short: install it again"; then
        cut=$((cut + 1))
        [ ! -s err ] || bad "cut to $part/32: $(cat err)"
    else
        tr -s ' \n' ' ' < log | grep -qE 'GPU 0: Fake|cannot be loaded' || bad "cut to $part/32: $(cat log)"
    fi
done
[ "$cut" -ge 5 ] || bad "only $cut of the shortened files are found to be short"
# damaged anywhere: a block of zeros, as disks that were switched off leave them, and a changed bit
damaged="$tmp/at/$name is damaged, or was changed after it was made: install it again"
readelf -lW good.so | awk '$1 == "LOAD" { print $2, $5 }' > segments
[ -s segments ] || bad 'readelf shows no segments'
is_loaded() # of the block from $1
{
    while read -r first length; do
        [ $1 -lt $((first + length)) ] && [ $(($1 + 512)) -gt $((first)) ] && return 0
    done < segments
    return 1
}
zeros=0 at=0
while [ $at -lt "$bytes" ]; do
    put good.so
    dd if=/dev/zero of="at/$name" bs=512 seek=$((at / 512)) count=1 conv=notrunc 2> err
    truncate -s "$bytes" "at/$name"
    at/tstream devices > log 2> err || bad "zeros at $at: exit $?: $(cat err)"
    if tr -s ' \n' ' ' < log | grep -qF -e "no GPU: $damaged" \
        -e "$tmp/at/$name is no GPU part of tstream"; then
        zeros=$((zeros + 1))
    else
        grep -qF 'GPU 0: Fake' log || bad "zeros at $at: $(cat log)"
        ! is_loaded $at || cmp good.so "at/$name" > log || bad "zeros at $at are loaded"
    fi
    at=$((at + 512))
done
[ "$zeros" -ge 5 ] || bad "only $zeros of the files with zeros are found to be damaged"
unsealed=1 fake wrong.so
put wrong.so
is "$damaged" 'a file without a hash'
put good.so
if command -v strip > log; then
    strip --strip-unneeded "at/$name"
    is_used 'a stripped file'
fi

# ---- where others can write ----
not='the GPU part is not used, because'
put good.so
chmod 666 "at/$name"
is "$not $tmp/at/$name can be written by all users" 'a file for all'
chmod 755 "at/$name"
chmod 777 at
is "$not $tmp/at can be written by all users" 'a folder for all'
chmod 1777 at
is "$not $tmp/at can be written by all users" 'a folder for all, as /tmp'
chmod 755 at
mkdir -p above/at
cp at/tstream "at/$name" above/at
chmod 777 above
is "$not $tmp/above can be written by all users" 'a folder above' above/at/tstream
chmod 1777 above
is_used 'a folder above, as /tmp' above/at/tstream
chmod 777 other
rm "at/$name" && ln -s "../other/$name" "at/$name"
is "$not $tmp/other can be written by all users" 'a link to a folder for all'
put good.so
if [ "$(id -u)" -eq 0 ]; then
    chmod 775 at
    is_used 'the group of the user alone'
    chgrp 1 at
    is "$not $tmp/at can be written by other users of its group" 'another group'
    chmod 755 at
    chown 1 "at/$name"
    is "$not $tmp/at/$name belongs to another user" 'a file of another user'
    chown 0 "at/$name"
    chown 1 at
    is "$not $tmp/at belongs to another user" 'a folder of another user'
    at/tstream --version > log 2> err || bad "--version: $(cat err)"
    grep -qx "GPUs: refused: $not $tmp/at belongs to another user" log || bad "--version: $(cat log)"
    # software that another account has installed, as a tree of EasyBuild or Spack
    chown 1 at at/tstream "at/$name"
    is_used 'all of one owner'
    chown 0 "at/$name"
    is_used 'a file of root in it'
    chown 2 "at/$name"
    is "$not $tmp/at/$name belongs to another user" 'a file of a third user'
    chown 1 "at/$name"
    chmod 775 at
    is "$not $tmp/at can be written by other users of its group" 'a folder of its group'
    chmod 755 at
    # root is nobody in a namespace of a user
    if unshare --user --map-user=5 true 2> err && command -v setpriv > log; then
        chown 0 at at/tstream "at/$name"
        chmod 755 "$tmp"
        setpriv --reuid 7 --regid 7 --clear-groups unshare --user --map-user=5 at/tstream devices \
            > log 2> err || bad "root is nobody: $(cat err)"
        grep -qF 'GPU 0: Fake' log || bad "root is nobody: $(cat log)"
    fi
fi
exit $failed
