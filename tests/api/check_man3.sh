#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The manual pages of the library: each function that it exports has one, with its errors, what it returns where it can fail, and whose
# the object is; the pages are what man takes, in 80 columns. A header that does not say so is refused.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
version=$(sed -n 's/^AC_INIT(\[tstream\], \[\([^]]*\)\].*/\1/p' "$top/configure.ac")
. "$top/tests/support/outside.sh"
header=$top/include/tstream.h

"$top/scripts/man3" "$header" "$version" pages || bad "the header is refused"
grep -q "tstream $version" pages/tstream.3 || bad "the version is not in the page"

# ---- every function ----
while read -r name; do
    page=$(sed -n 's/^\.so man3\///p' "pages/$name.3tstream" 2> /dev/null) || page=
    if [ -z "$page" ] || [ ! -f "pages/$page" ]; then
        bad "$name has no page"
        continue
    fi
    awk -v name="$name" '
        /^\.SS / { here = 0; n = split($0, word, /[ ,"]+/); for (i = 2; i <= n; i++) here = here || word[i] == name }
        here' "pages/$page" > entry
    grep -q "$name(" entry || bad "$name: $page does not show how it is called"
    grep -q '^Errors$' entry || bad "$name: $page does not tell of its errors"
    if grep -q 'ts_error \*err' entry; then
        grep -q '^Returns$' entry || bad "$name: $page does not tell what it returns"
        grep -q 'TS_ERR_\|those of' entry || bad "$name: $page names no error"
    fi
done < "$top/tests/api/abi.list"
[ "$(find pages -name '*.3tstream' | wc -l)" -eq "$(wc -l < "$top/tests/api/abi.list")" ] || bad "pages of other functions"
for name in ts_open ts_builder_new ts_cpd_load ts_session_open ts_cp; do
    awk -v name="$name" '/^\.SS / { here = $0 == ".SS \"" name "\"" } here' \
        "pages/$(sed 's/^.so man3.//' "pages/$name.3tstream")" | grep -q '^Owner$' || bad "$name: whose is it?"
done

# ---- what man makes of them ----
for page in pages/*.3; do
    if command -v mandoc > /dev/null; then
        mandoc -T lint -W warning "$page" | grep -v 'missing date' > lint || true
        [ ! -s lint ] || bad "mandoc: $(head -n 3 lint)"
    fi
    if command -v man > /dev/null && man --version > /dev/null 2>&1; then
        LC_ALL=C MANROFFSEQ='' MANWIDTH=80 man --warnings -l "$page" > shown 2> err || bad "man $page fails"
        [ ! -s err ] || bad "man $page warns: $(head -n 3 err)"
        awk 'length > 80 { print; n++ } END { exit n > 0 }' shown || bad "$page: lines of more than 80 columns"
    fi
done

# ---- the check finds what it is for ----
# broken NAME SED: the header changed so must be refused
broken()
{
    sed "$2" "$header" > broken.h
    cmp -s "$header" broken.h && bad "$1: nothing was broken"
    ! "$top/scripts/man3" broken.h "$version" other 2> err || bad "$1: taken"
    grep -q "^broken.h:.*$3" err || bad "$1: refused with: $(cat err)"
}
broken "no errors" '/^\/\* Closes a tensor/,/^TS_API/{/errors/d;}' ts_close
broken "no returns" '/^\/\* Opens the tensor/,/^TS_API/{/returns/d;}' ts_open
broken "no owner" '/^\/\* Opens the tensor/,/^TS_API/{/owner/d;}' ts_open
broken "no comment" '/^\/\* Opens a session/,/^ \*\//d' ts_session_open

exit $failed
