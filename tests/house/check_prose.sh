#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The pages of tests/house/prose.list read well as far as a program can tell: scripts/prose finds nothing in them, and
# codespell, where it is installed, no misspelt word. So do the messages of the programs, as scripts/messages reads
# them. Faults that are planted are found.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
command -v python3 > /dev/null || { echo "skipped: there is no python3"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
bad()
{
    echo "FAILED: $*"
    failed=1
}
prose() { python3 -B "$top/scripts/prose" "$@"; }

# ---- planted faults ----
long='one two three four five six seven eight nine ten'
cat > "$tmp/good.md" << END
# A page

A line of text that is short. Another one, with \`code that holds several words\`.

    an example may be as wide as it likes: $long $long $long

\`\`\`
as may a session: $long $long $long $long
\`\`\`

| a | b |
|---|---|
| one thing | \`a; b\` and a [link](https://example.org/that/is/very/long/and/does/not/count/at/all/in/a/cell) |

- An entry of a list,
  in two lines
- another one
END
prose "$tmp/good.md" || bad "a page without faults is reported"
# planted KIND PAGE < text: the fault is found, and nothing else
planted()
{
    cat > "$tmp/$2"
    if prose "$tmp/$2" > "$tmp/out"; then bad "$1: is not found in $(cat "$tmp/$2")"; fi
    [ "$(grep -c ": $1: " "$tmp/out")" -eq 1 ] && [ "$(wc -l < "$tmp/out")" -eq 1 ] || bad "$1: $(cat "$tmp/out")"
}
echo "$long. A second $long. A third $long." | planted width wide.md
printf '%s\n' "$long" "$long" "$long" "$long." | planted sentence long.md
printf '%s\n' '- short.' "- $long" "  $long" "  $long" "  $long" | planted sentence list.md
echo 'A run goes on with the rest.' | planted phrase private.md
printf 'A run that goes on\nwith the rest.\n' | planted phrase broken.md
echo 'It is resumed, too.' | planted phrase too.md
printf '| a |\n|---|\n| one; two |\n' | planted cell two.md
printf '| a |\n|---|\n| %s |\n' "$long $long $long $long" | planted cell long.md
printf '%s\n' "- area: $long" "  $long" "  $long" | planted news NEWS.md
# exceptions: one that is needed, one that is not
printf '%s\n' "$long" "$long" "$long" "$long." > "$tmp/long.md"
page=$(python3 -c 'import os, sys; print(os.path.relpath(sys.argv[1], sys.argv[2]))' "$tmp/long.md" "$top")
printf '%s\n' "$page" "except $page: one two three: it counts" > "$tmp/list"
prose --list "$tmp/list" || bad "an exception does not count"
echo "except $page: other words: none" >> "$tmp/list"
if prose --list "$tmp/list" > "$tmp/out"; then bad "an exception that nothing needs is not reported"; fi
echo "except $page: no reason" >> "$tmp/list"
if prose --list "$tmp/list" > "$tmp/out" 2>&1; then bad "an exception without a reason is accepted"; fi

# ---- messages of the programs ----
messages() { python3 -B "$top/scripts/messages" --check "$@"; }
mkdir -p "$tmp/tree/src" "$tmp/tree/tools"
# said KIND < a call: the fault is found, and nothing else; KIND none: nothing is
said()
{
    { echo 'int f(struct ts_err *err)'; echo '{'; cat; echo '}'; } > "$tmp/tree/src/x.c"
    if messages "$tmp/tree" > "$tmp/out"; then code=0; else code=1; fi
    if [ "$1" = none ]; then
        [ $code -eq 0 ] && [ ! -s "$tmp/out" ] || bad "messages: $(cat "$tmp/out")"
    else
        [ $code -eq 1 ] && [ "$(grep -c "^src/x.c:[0-9]*: $1" "$tmp/out")" -eq 1 ] && [ "$(wc -l < "$tmp/out")" -eq 1 ] ||
            bad "messages: $1: $(cat "$tmp/out") in $(cat "$tmp/tree/src/x.c")"
    fi
}
echo 'return ts_fail(err, TS_EARG, "%s: line %" PRIu64 ": " TS_SET_VALUE " needs a name", path, n);' | said none
echo 'return ts_fail(err, TS_EARG, few ? "one, " TS_SET_OUT : "NCCL " SIZE "...");' | said none
echo 'return ts_fail(err, TS_EARG, "The value is wrong");' | said start
echo 'return ts_fail(err, TS_EARG, "%s: the value is wrong.", path);' | said end
echo 'tool_note(cmd, "the value is " "  wrong");' | said blanks
echo 'return tool_usage(cmd, "a run that goes " /* a comment, with "quotes" */ "on with %s", name);' | said phrase
rm "$tmp/tree/src/x.c"
if messages "$tmp/tree" > "$tmp/out"; then bad "messages: a tree without one passes"; fi
[ "$(python3 -B "$top/scripts/messages" | wc -l)" -ge 1000 ] || bad "messages: few are found: the search for them is broken"
messages || failed=1

# ---- the pages ----
prose --list "$top/tests/house/prose.list" || failed=1
if command -v codespell > /dev/null; then
    sed -n '/^[^#]/{/^except /!p;}' "$top/tests/house/prose.list" | (cd "$top" && xargs codespell -L als,coo) || bad "codespell finds words"
fi
exit "$failed"
