#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Help reads well as far as a program can tell: what --help and the manual pages of every command say has short sentences,
# and no phrase that scripts/prose finds in pages. Faults that are planted in a help are found.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
command -v python3 > /dev/null || exit 77
check() { python3 -B "$top/tests/tools/help_prose.py" "$top" "$@"; }

# ---- planted faults ----
long='one two three four five six seven eight nine ten'
help_of() { # SUMMARY OPTION-HELP: a help with these
    printf 'Usage: prog do [OPTION...]\n\n%s.\n\nOptions:\n  -x, --thing=N           %s\n' "$1" "$2"
    printf '      --other             does it\n\nExamples:\n  prog do\n    %s %s %s %s\n' "$long" "$long" "$long" "$long"
}
help_of 'Does it' 'number of things. It counts' > prog-do
check /dev/null prog-do > out || bad "a good help: $(cat out)"
planted() { # WHAT SUMMARY OPTION-HELP: is found
    help_of "$2" "$3" > prog-do
    if check /dev/null prog-do > out; then bad "$1 is not found in $(cat prog-do)"; fi
    grep -q "^prog-do[^:]*: $1: " out || bad "$1: $(cat out)"
    [ "$(wc -l < out)" -eq 2 ] || bad "$1, and more: $(cat out)"
}
planted sentence "$long $long $long $long" 'a thing'
planted sentence 'Does it' "$long $long $long"
planted sentence 'Does it' "a thing. $long $long $long $long"
planted phrase 'Tells of it' 'a thing'
planted phrase 'Does it' 'a thing, too'
help_of 'Does it' "a thing. $long $long $long $long" > prog-do
echo "except prog-do: $long: it counts" > list
check list prog-do > out || bad "an exception does not count: $(cat out)"
help_of 'Does it' 'a thing' > prog-do
if check list prog-do > out; then bad "an exception that nothing needs is not reported"; fi
printf '.SH FILES\n.TP\n.B x\n%s %s\n%s %s.\n' "$long" "$long" "$long" "$long" > prog.man
if check /dev/null prog.man > out; then bad "a long sentence of a manual page is not found"; fi

# ---- every command ----
for program in tshard tstream; do
    "$bin/$program" --help-man > $program.man
    for command in $("$bin/$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p'); do
        "$bin/$program" "$command" --help > "$program-$command"
    done
done
set -- tshard-* tstream-* ./*.man
[ $# -ge 25 ] || bad "$# helps are found; the search for them is broken"
rm prog.man
check "$top/tests/house/prose.list" tshard-* tstream-* tshard.man tstream.man > out || bad "$(cat out)"
[ "$(sed -n 's/ sentences$//p' out)" -ge 1000 ] || bad "few sentences are found: $(cat out)"
exit $failed
