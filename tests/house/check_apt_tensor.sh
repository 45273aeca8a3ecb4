#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The example's tensor, from a package index small enough to see what must come out of it.
set -eu

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat > "$tmp/index" <<'EOF'
Package: a
Version: 1
Depends: libx (>= 2), liby | libz, libx:any (>= 1) [amd64]
Recommends: libw (= 1.0-1)
Description: text with Depends: nothing
 Depends: not a field

Package: b
Depends: libx (<< 3), libw
Pre-Depends: dpkg (>> 1.15)

Package: c
Depends: libx, liby, libw
Suggests: libx

Package: a
Version: 2
Depends: other, than, before

Package: lonely
Depends: libx
EOF
"${TOP_SRCDIR:?}/examples/apt-tensor" "$tmp/t" "$tmp/index" 2> "$tmp/err"
# libx: a, b, c (twice), lonely; libw: a, b, c; liby: a, c only, and the rest once, so they are left
# out, as is lonely, which has one relation. The second version of a package does not count.
printf 'a\nb\nc\n' | cmp - "$tmp/t.mode1.map"
printf 'Depends, versioned\nRecommends, same version\nDepends\nSuggests\n' | cmp - "$tmp/t.mode2.map"
printf 'libx\nlibw\n' | cmp - "$tmp/t.mode3.map"
printf '1 1 1\n1 2 2\n2 1 1\n2 3 2\n3 3 1\n3 3 2\n3 4 1\n' > "$tmp/want"
cut -d ' ' -f 1-3 "$tmp/t.tns" | cmp - "$tmp/want"
awk '!($4 > 0 && $4 < 1000) { exit 1 }' "$tmp/t.tns"
[ ! -e "$tmp/t.triples" ]

# An index without packages is said to be so.
if "$TOP_SRCDIR/examples/apt-tensor" "$tmp/u" /dev/null 2> "$tmp/err"; then exit 1; fi
grep -q 'the package index is empty' "$tmp/err"
