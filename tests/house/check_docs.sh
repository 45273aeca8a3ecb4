#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# README and docs hold: links lead somewhere, commands and options exist, sessions show what comes out,
# the pictures are what their scripts draw, and one version is named everywhere.
#
# In a file with the extension .md
#   ```console   a session: lines with "$ " are run, in the order of the file, and what is shown behind
#                each must be what it prints: "..." is any text in a line, or any lines. Blanks count once
#   ```sh run    commands that must succeed
#   ```python run  the same, where Python and NumPy are
#   ```python session  the blocks of a file are one program, which needs NumPy. The
#                comment at the end of a statement, or on the lines behind it, shows what it prints.
#                Words must be equal. Numbers must differ by less than the last digit shown, and by
#                less than 0.0001 if more digits are shown. TSTREAM_PYTHON names the interpreter
# They run in a folder of their own for each file, with the files of examples/ and a small tensor
# called amazon-reviews.tns.gz. Python sessions have another such folder.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
bin=$(cd "${TOP_BUILDDIR:-$top}/tools" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
complain()
{
    echo "$*" >&2
    failed=1
}
pages()
{
    find "$top" -maxdepth 1 -name '*.md'
    find "$top/docs" -name '*.md'
}

# ---- links ----
# anchors FILE: what GitHub calls its headings
anchors()
{
    sed -n 's/^#\{1,6\} //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}
links=0
pages > "$tmp/pages"
while read -r page; do
    # links outside of code
    awk '/^```/ { code = !code; next } !code && !/^    /' "$page" | sed 's/`[^`]*`//g' |
        grep -o '](\([^)]*\))' | sed 's/^](//; s/)$//' > "$tmp/links" || true
    while read -r link; do
        case $link in http://* | https://*) continue ;; esac
        links=$((links + 1))
        file=${link%%#*} anchor=${link#"${link%%#*}"}
        [ -n "$file" ] && file=$(dirname "$page")/$file || file=$page
        [ -e "$file" ] || { complain "${page#"$top/"}: $link leads nowhere"; continue; }
        [ -z "$anchor" ] || anchors "$file" | grep -qxF -e "${anchor#\#}" ||
            complain "${page#"$top/"}: $link: there is no such heading"
    done < "$tmp/links"
done < "$tmp/pages"
[ "$links" -ge 20 ] || complain "only $links links are found: the search for them is broken"

# ---- commands and options ----
checked=0
while read -r page; do
    grep -Eo '(tshard|tstream) [a-z]+( [^`|#]*)?' "$page" | sort -u > "$tmp/commands" || true
    while read -r program command rest; do
        [ -e "$tmp/help.$program.$command" ] ||
            "$bin/$program" "$command" --help > "$tmp/help.$program.$command" 2> "$tmp/err" || true
        # prose, such as "tstream is": only what has options behind it is held to be a command
        for word in $rest; do
            case $word in --[a-z]*) ;; *) continue ;; esac
            option=$(echo "$word" | sed 's/^--\([a-z0-9-]*\).*/\1/')
            checked=$((checked + 1))
            grep -Eq -e "^  (-.,|   ) --$option([= ]|\[|\$)" "$tmp/help.$program.$command" ||
                complain "${page#"$top/"}: '$program $command --$option': there is no such option"
        done
    done < "$tmp/commands"
done < "$tmp/pages"
[ "$checked" -ge 20 ] || complain "only $checked options are found: the search for them is broken"

# ---- sessions ----
PATH=$bin:$PATH
export PATH
cat > "$tmp/session.awk" << 'AWK'
# The commands of a page, one file each: N.sh, with what is shown behind it in N.shown.
/^```/ {
    kind = kind != "" ? "" : $0 ~ /^```console/ ? "console" : $0 ~ /^```(sh|python) run/ ? "run" : "other"
    if ($0 ~ /^```python session/) { kind = "python"; print "" > (out "/session.py") }
    if (kind == "run") {
        n++; name = sprintf("%s/%03d", out, n)
        printf "" > (name ".sh")
        if ($0 ~ /^```python/) printf "" > (name ".python")
    }
    next
}
kind == "console" && /^\$ / {
    n++; name = sprintf("%s/%03d", out, n); print substr($0, 3) > (name ".sh"); printf "" > (name ".shown")
    next
}
kind == "console" { print > (name ".shown") }
kind == "run" { print > (name ".sh") }
kind == "python" { print > (out "/session.py") }
AWK
# Is the text of file 1 that of file 2, in which "..." is anything?
cat > "$tmp/same.awk" << 'AWK'
function plain(s) { gsub(/[ \t]+/, " ", s); sub(/ $/, "", s); sub(/^ /, "", s); return s }
function like(s, pattern,    parts, n, i, at) {
    n = split(pattern, parts, /\.\.\./)
    if (n == 1) return s == pattern
    if (substr(s, 1, length(parts[1])) != parts[1]) return 0
    s = substr(s, length(parts[1]) + 1)
    for (i = 2; i < n; i++) {
        at = index(s, parts[i])
        if (parts[i] != "" && at == 0) return 0
        if (parts[i] != "") s = substr(s, at + length(parts[i]))
    }
    return length(s) >= length(parts[n]) && substr(s, length(s) - length(parts[n]) + 1) == parts[n]
}
NR == FNR { found[++n_found] = plain($0); next }
{ shown[++n_shown] = plain($0) }
END {
    at = 0; skip = 0
    for (i = 1; i <= n_shown; i++) {
        if (shown[i] == "...") { skip = 1; continue }
        if (shown[i] == "" && i == n_shown) continue
        ok = 0
        while (++at <= n_found) {
            if (like(found[at], shown[i])) { ok = 1; break }
            if (!skip) break
        }
        if (!ok) { print "does not come out: " shown[i]; exit 1 }
        skip = 0
    }
    if (!skip && n_shown > 0)
        while (++at <= n_found)
            if (found[at] != "") { print "is not shown: " found[at]; exit 1 }
}
AWK
printf 'a  b\nmore 12 s\nlast\n' > "$tmp/found"
for good in 'a b\n...\nlast\n' 'a b\nmore ... s\n...\n'; do
    # shellcheck disable=SC2059
    printf "$good" | awk -f "$tmp/same.awk" "$tmp/found" - > "$tmp/out" || complain "check of sessions: refuses"
done
for wrong in 'a c\n...\n' 'a b\nlast\n' 'a b\nmore ... m\nlast\n' 'a b\n'; do
    # shellcheck disable=SC2059
    if printf "$wrong" | awk -f "$tmp/same.awk" "$tmp/found" - > "$tmp/out"; then
        complain "check of sessions: takes '$wrong'"
    fi
done

cat > "$tmp/session_run.py" << 'PYTHON'
"""session_run.py FILE: runs the statements of FILE; what each prints is what its comment shows."""
import ast, contextlib, io, re, sys

NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")

def same(shown, found):
    pairs = list(zip(shown.split(), found.split()))
    return len(shown.split()) == len(found.split()) and all(map(alike, pairs))

def alike(pair):
    shown, found = ([NUMBER.split(x), NUMBER.findall(x)] for x in pair)
    return shown[0] == found[0] and all(
        abs(float(a) - float(b)) < 10.0 ** -min(len(a.partition(".")[2]), 4)
        for a, b in zip(shown[1], found[1]))

text = open(sys.argv[1]).read()
lines, world, wrong, compared = text.splitlines(), {"__name__": "__main__"}, 0, 0
body = ast.parse(text).body
for node, after in zip(body, [n.lineno for n in body[1:]] + [len(lines) + 1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(ast.Module([node], []), sys.argv[1], "exec"), world)
    if not out.getvalue():
        continue
    end = lines[node.end_lineno - 1].encode()[node.end_col_offset:].decode().strip()
    below = []
    for line in lines[node.end_lineno:after - 1]:
        if not line.startswith("#"):
            break
        below.append(line[1:])
    shown = end[1:] if end else " ".join(below)
    if not shown:
        continue
    compared += 1
    if not same(shown, out.getvalue()):
        wrong = 1
        print("%s: shows %r, prints %r" % (lines[node.lineno - 1], shown, out.getvalue()))
print(compared, "comments", file=sys.stderr)
sys.exit(wrong)
PYTHON
python=${TSTREAM_PYTHON:-python3}
sessions=no
library=$(dirname "$bin")/lib/libtstream.so
if [ -e "$library" ] && ! grep -q '^AM_CFLAGS =.*-fsanitize' "$(dirname "$bin")/Makefile" &&
    (cd "$tmp" && PYTHONPATH=$top/python TSTREAM_LIBRARY=$library \
        $python -B -c 'import numpy, tstream') 2> "$tmp/err"; then
    sessions=yes
else
    echo "Python sessions are left out: $(tail -n 1 "$tmp/err")"
fi
# python_session FILE: in the folder that it is called in
python_session()
{
    PYTHONPATH=$top/python TSTREAM_LIBRARY=$library COLUMNS=80 $python -B "$tmp/session_run.py" "$1"
}
if command -v "$python" > "$tmp/out"; then
    for good in 'print("fit", 0.74827)    # fit 0.7483' 'x = 1  # one' 'print("a\n", 1)
# a
# 1'; do
        printf '%s\n' "$good" > "$tmp/one.py"
        python_session "$tmp/one.py" > "$tmp/out" 2>&1 || complain "check of sessions: refuses $good"
    done
    for wrong in 'print("fit", 0.7481)    # fit 0.7483' 'print(3)  # 4' 'print("a", 1)  # a' \
        'print("Ann")  # Ben' 'print(1); raise SystemExit(3)  # 1'; do
        echo "$wrong" > "$tmp/one.py"
        if python_session "$tmp/one.py" > "$tmp/out" 2>&1; then
            complain "check of sessions: takes $wrong"
        fi
    done
fi

tshard gen --dims 482x177x180 --law power:0.8 --nnz 5K -o "$tmp/amazon-reviews.tns.gz" > "$tmp/out"
ran=0
while read -r page; do
    rm -rf "$tmp/steps" "$tmp/room"
    mkdir "$tmp/steps" "$tmp/room"
    cp "$top"/examples/groceries.* "$top/examples/names.csv.gz" "$tmp/amazon-reviews.tns.gz" "$tmp/room"
    awk -v out="$tmp/steps" -f "$tmp/session.awk" "$page"
    for step in "$tmp"/steps/*.sh; do
        [ -e "$step" ] || continue
        ran=$((ran + 1))
        shell="sh -eu"
        if [ -e "${step%.sh}.python" ]; then
            python3 -c 'import numpy' 2> /dev/null || continue
            ! grep -q 'import tstream' "$step" || python3 -c 'import tstream' 2> /dev/null || continue # check_python.sh
            shell=python3
        fi
        if ! (cd "$tmp/room" && COLUMNS=80 $shell "$step") > "$tmp/found" 2> "$tmp/err" < /dev/null; then
            complain "${page#"$top/"}: $(head -n 1 "$step"): fails: $(tail -n 3 "$tmp/err")"
            break
        fi
        [ ! -e "${step%.sh}.shown" ] ||
            awk -f "$tmp/same.awk" "$tmp/found" "${step%.sh}.shown" > "$tmp/out" ||
            complain "${page#"$top/"}: $(head -n 1 "$step"): $(cat "$tmp/out")"
    done
    [ "$sessions" = yes ] && [ -e "$tmp/steps/session.py" ] || continue
    ran=$((ran + 1))
    rm -rf "$tmp/room"
    mkdir "$tmp/room"
    cp "$top"/examples/groceries.* "$top/examples/names.csv.gz" "$tmp/room"
    (cd "$tmp/room" && python_session "$tmp/steps/session.py") > "$tmp/found" 2> "$tmp/err" < /dev/null ||
        complain "${page#"$top/"}: Python session: $(cat "$tmp/found") $(tail -n 3 "$tmp/err")"
    grep -q '^[1-9].* comments' "$tmp/err" ||
        complain "${page#"$top/"}: Python session: no comment shows an output"
done < "$tmp/pages"
[ "$ran" -ge 3 ] || complain "only $ran commands are found in sessions: the search for them is broken"

# ---- the pictures, the length of README, the version ----
if command -v python3 > /dev/null; then
    for picture in sweeps spectra; do
        python3 "$top/docs/$picture.py" "$top/docs/$picture.tsv" > "$tmp/$picture.svg"
        cmp -s "$tmp/$picture.svg" "$top/docs/$picture.svg" || complain "docs/$picture.svg is not what docs/$picture.py draws"
    done
    python3 "$top/docs/architecture.py" > "$tmp/architecture.svg"
    cmp -s "$tmp/architecture.svg" "$top/docs/architecture.svg" ||
        complain "docs/architecture.svg is not what docs/architecture.py draws"
fi
for folder in "$top"/src/*/ "$top/tools/" "$top/python/"; do
    grep -q "class=\"folder\"[^>]*>$(basename "$folder")<" "$top/docs/architecture.svg" ||
        complain "docs/architecture.svg does not show $(basename "$folder")"
done
# The headers of its seams, and files that the page names, are there.
sed -n 's/.*class="seam"[^>]*>\([^<]*\)<.*/\1/p' "$top/docs/architecture.svg" | tr -d ',' | tr ' ' '\n' > "$tmp/seams"
grep -o '`\(src\|include\|tools\|tests\|python\|docs\)/[A-Za-z0-9_./]*`' "$top/docs/architecture.md" | tr -d '`' |
    grep -v '/$' | sort -u > "$tmp/named"
[ "$(wc -l < "$tmp/seams")" -ge 5 ] && [ "$(wc -l < "$tmp/named")" -ge 15 ] ||
    complain "docs/architecture: few headers or files are found: the search for them is broken"
while read -r header; do
    find "$top/src" "$top/include" -path "*/$header" | grep -q . || complain "docs/architecture.svg: no $header"
done < "$tmp/seams"
while read -r file; do
    [ -e "$top/$file" ] || complain "docs/architecture.md: there is no $file"
done < "$tmp/named"
[ "$(wc -l < "$top/README.md")" -le 130 ] || complain "README.md has more than 130 lines"
version=$(sed -n 's/^AC_INIT(\[tstream\], \[\(.*\)\])/\1/p' "$top/configure.ac")
grep -qxF "version: $version" "$top/CITATION.cff" || complain "CITATION.cff names another version"
# an entry of the next version is one line: "- area: what changed"
awk '/^## / { n++ } n == 1 && $0 != "" && !/^## |:$/ && (!/^- [^:]+: ./ || length($0) > 100) {
    print "NEWS.md:" NR ": is no line \"- area: what changed\" of at most 100 columns" }' "$top/NEWS.md" > "$tmp/wide"
if grep -q '^## Unreleased' "$top/NEWS.md" && [ -s "$tmp/wide" ]; then complain "$(cat "$tmp/wide")"; fi
[ "$(sed -n 's/^## //p' "$top/NEWS.md" | grep -v "^Unreleased$" | head -n 1)" = "$version" ] || complain "NEWS.md begins with another version"
[ ! -e "$top/debian/changelog" ] ||
    head -n 1 "$top/debian/changelog" | grep -qF "tstream ($version) " || complain "debian/changelog begins with another version"
exit "$failed"
