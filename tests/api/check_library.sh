#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The library as who installs it finds it: examples/embed.c is compiled against an installed tree, in C and
# C++, shared and static, and under AddressSanitizer; it prints what it should, and its factors are those of
# `tstream cp`. What the library exports is tests/api/abi.list, and nothing of it is missing in the header.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
build=$(cd "${TOP_BUILDDIR:-$top}" && pwd)
. "$top/tests/support/outside.sh"
. "$top/tests/support/make_alone.sh"

make_alone install "prefix=$tmp/tree" > install.log 2>&1 || { cat install.log; exit 1; }
lib=$(dirname "$(find "$tmp/tree" -name libtstream.so)")
include=$tmp/tree/include
test -f "$include/tstream.h" || bad "the header is not installed"

# ---- what it exports ----
nm -D --defined-only "$lib/libtstream.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort > exported
diff "$top/tests/api/abi.list" exported ||
    bad "other functions than in tests/api/abi.list: one that is gone or changed breaks programs"
# clang's locks of OpenMP are common to all objects of a program: .gomp_critical_user_...
nm -g --defined-only "$lib/libtstream.a" | awk 'NF == 3 && $3 !~ /^[.]gomp_critical/ { print $3 }' |
    LC_ALL=C sort > static
diff "$top/tests/api/abi.list" static || bad "the static library shows other names"
while read -r name; do
    grep -q "[ *]$name(" "$include/tstream.h" || bad "$name is not in the header"
done < exported
readelf -d "$lib/libtstream.so" | grep -q 'SONAME.*\[libtstream.so.0\]' || bad "the soname"
strings=$(nm -D --undefined-only "$lib/libtstream.so" | awk '{ sub(/@.*/, "", $2); print $2 }')
for name in printf puts putchar perror exit _exit abort signal sigaction setlocale setenv putenv unsetenv; do
    # NVIDIA's runtime is linked in, and has its own; what the library's sources call is looked at below
    case $name in *setenv | putenv) ! grep -q 'define HAVE_CUDA 1' "$build/config.h" || continue ;; esac
    case " $(echo "$strings" | tr '\n' ' ') " in
    *" $name "*) bad "the library calls $name" ;;
    esac
done

# what a build without GPUs does not hold
grep -rnE '(^|[^a-z_])(setenv|putenv|unsetenv|setlocale|sigaction|exit|printf)[(]' "$top/src" | grep -v ':[0-9]*: [*]' > found || true
[ ! -s found ] || bad "the library changes or says what is the program's: $(cat found)"

# ---- a program with it ----
cat > want << 'END'
built 1200 nonzeros of 1200
shape: user 30, item 20, week 10
values add up to 8400
fit 1.000000, the same as told: yes
the heavier component has 3 times the weight of the other
its strongest weeks: 0 1 2
exact fit of the files 1.000000
errors are sentences: /nowhere.tsh: No such file or directory
END
own=$(sed -n 's/^AM_CFLAGS = //p' "$build/Makefile" | tr ' ' '\n' | grep -e '^-fsanitize' | tr '\n' ' ' || true)
export LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if command -v pkg-config > /dev/null; then
    PKG_CONFIG_PATH=$(dirname "$(find "$tmp/tree" -name tstream.pc)")
    export PKG_CONFIG_PATH
    shared=$(pkg-config "--define-variable=prefix=$tmp/tree" --cflags --libs tstream)
    private=$(pkg-config "--define-variable=prefix=$tmp/tree" --static --libs tstream | sed 's/-ltstream//')
else
    shared="-I$include -L$lib -ltstream" private=
fi

# try NAME COMPILER FLAGS... : embed.c, compiled so, prints what is wanted
try()
{
    name=$1
    shift
    if ! "$@" -o "embed-$name" > "$name.log" 2>&1; then
        bad "$name: does not compile: $(cat "$name.log")"
        return
    fi
    "./embed-$name" "$tmp/$name" > "$name.out" 2> "$name.err" || bad "$name: exit $?: $(cat "$name.err")"
    diff want "$name.out" || bad "$name: prints other things"
    [ ! -s "$name.err" ] || bad "$name: says on standard error: $(cat "$name.err")"
}
# word splitting of flags is meant
# shellcheck disable=SC2086
{
    cc=${CC:-cc}
    example=$top/examples/embed.c
    try c $cc $own -std=c99 -Wall -Wextra -Werror "$example" $shared
    if command -v c++ > /dev/null; then
        try cxx c++ $own -x c++ -Wall -Wextra -Werror "$example" -x none $shared
    fi
    if [ -z "$own" ]; then
        try asan $cc -g -fsanitize=address,undefined "$example" $shared
        if [ -n "$private" ]; then
            try static $cc "-I$include" "$example" "$lib/libtstream.a" $private
        fi
    fi
}

# ---- the bits of the command line ----
"$bin/tstream" cp c.tsh --cpu --rank 2 --iters 20 --tol 1e-9 --seed 1 --precision float64 \
    --format ktensor,npy -o cli.cp > cp.log 2>&1 || bad "cp: $(cat cp.log)"
for file in model.ktensor weights.npy mode1.npy mode2.npy mode3.npy; do
    cmp "c.cp/$file" "cli.cp/$file" || bad "$file is not that of tstream cp"
done

exit $failed
