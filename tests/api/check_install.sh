#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `make install`: programs, man pages, completions and pages are there; the links of the installed pages lead
# somewhere; `make uninstall` leaves no file.
set -eu

build=$(cd "${TOP_BUILDDIR:?}" && pwd)
: "${TOP_SRCDIR:?}"
. "$TOP_SRCDIR/tests/support/make_alone.sh"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
complain()
{
    echo "$*" >&2
    failed=1
}
make_alone -s install DESTDIR="$tmp" prefix=/usr > "$tmp/log" 2>&1 ||
    { tail -n 20 "$tmp/log"; exit 1; }

share=$tmp/usr/share
for file in bash-completion/completions/tshard bash-completion/completions/tstream \
    zsh/site-functions/_tshard zsh/site-functions/_tstream fish/vendor_completions.d/tshard.fish \
    fish/vendor_completions.d/tstream.fish man/man1/tshard.1 man/man1/tstream.1 man/man3/tstream.3 \
    man/man3/tstream_sessions.3 man/man3/ts_cp.3tstream \
    doc/tstream/README.md doc/tstream/LICENSE doc/tstream/examples/groceries.tns; do
    [ -s "$share/$file" ] || complain "$file is not installed"
done
for program in tshard tstream; do
    "$tmp/usr/bin/$program" --version > "$tmp/version" || complain "$program does not run"
    "$tmp/usr/bin/$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p' > "$tmp/commands"
    [ -s "$tmp/commands" ] || complain "$program --help lists no commands"
    while read -r command; do
        [ -s "$share/man/man1/$program-$command.1" ] || complain "$program-$command(1) is not installed"
    done < "$tmp/commands"
done
[ -x "$share/doc/tstream/examples/apt-tensor" ] || complain "examples/apt-tensor cannot be run"

links=0
find "$share/doc" -name '*.md' > "$tmp/pages"
while read -r page; do
    awk '/^```/ { code = !code; next } !code && !/^    /' "$page" | sed 's/`[^`]*`//g' |
        grep -o '](\([^)#]*\)' | sed 's/^](//' > "$tmp/links" || true
    while read -r link; do
        case $link in http://* | https://* | '') continue ;; esac
        links=$((links + 1))
        [ -e "$(dirname "$page")/$link" ] || complain "${page#"$share/"}: $link leads nowhere"
    done < "$tmp/links"
done < "$tmp/pages"
[ "$links" -ge 20 ] || complain "only $links links are found"

make_alone -s uninstall DESTDIR="$tmp" prefix=/usr > "$tmp/log" 2>&1 ||
    { tail -n 20 "$tmp/log"; exit 1; }
find "$tmp/usr" -type f -o -type l > "$tmp/left"
[ ! -s "$tmp/left" ] || complain "make uninstall leaves $(head -n 3 "$tmp/left")"
exit "$failed"
