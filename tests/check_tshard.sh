#!/bin/sh
# tshard from the outside: what it is given it does or refuses with one sentence and exit 1 (2 for
# wrong usage); nothing half-made is left, and nothing is destroyed.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}
. "$top/tests/outside.sh"

printf '%s\n' '# three' '1 2 3 4.5' '' '2 1 1 -1' '2 1 1 2' > x.tns

# ---- build ----
"$bin/tshard" build x.tns > log || bad "build: $(cat log)"
grep -q 'read 3, merged 1 duplicates, dropped 0 zeros' log || bad "build: $(cat log)"
refused 1 "x.tsh exists; use --force to replace it" "$bin/tshard" build x.tns
"$bin/tshard" build x.tns --duplicates keep -o keep.tsh > log || bad "build: $(cat log)"
grep -q 'read 3, kept 1 duplicates, dropped 0 zeros' log || bad "build: $(cat log)"
gzip -c x.tns | "$bin/tshard" build - --force -o x.tsh > log || bad "build -: $(cat log)"
printf '\357\273\277# marked\r\n1 2 3 4.5\r\n2 1 1 1\r\n' > marked.tns # as editors on Windows do
"$bin/tshard" build marked.tns > log 2>&1 || bad "build: $(cat log)"
refused 2 "standard input has no name" "$bin/tshard" build -
refused 2 "option '--output': its value is empty" "$bin/tshard" build x.tns -o ''
refused 2 "--map 1=: expected K=FILE" "$bin/tshard" build x.tns -o y.tsh --map 1=
refused 1 "--map names mode 4, but x.tns has 3 modes" \
    "$bin/tshard" build x.tns -o y.tsh --map 4=x.tns
refused 1 "no/such: cannot create a temporary file" "$bin/tshard" build x.tns -o y.tsh --tmp no/such
echo '1 1 1 1e200' > huge.tns
refused 1 "add up beyond the range of float64" \
    "$bin/tshard" build huge.tns --values float64
[ ! -e huge.tsh ] || bad "build: a tensor that cannot be opened"

# ---- export ----
"$bin/tshard" export x.tsh > exported
[ "$(tr '\n' ';' < exported)" = '1 2 3 4.5;2 1 1 1;' ] || bad "export: $(cat exported)"
"$bin/tshard" export x.tsh -o out.gz
gzip -dc out.gz | cmp -s - exported || bad "export: not the same when compressed"
for to in x.tsh/index ./x.tsh/mode1.shards "$tmp/x.tsh/new"; do
    refused 1 "lies in the tensor x.tsh itself" "$bin/tshard" export x.tsh -o "$to"
done
"$bin/tshard" verify -q x.tsh || bad "export: touched the tensor"
refused 1 "no/such/place: cannot create" "$bin/tshard" export x.tsh -o no/such/place
refused 1 "x.tsh: is a directory" "$bin/tshard" export x.tsh -o x.tsh
mkdir elsewhere # a link stays one, and its file is replaced as a whole
echo old > elsewhere/file
ln -s elsewhere/file link
"$bin/tshard" export x.tsh -o link
[ -L link ] || bad "export: replaced a link"
cmp -s elsewhere/file exported || bad "export: not written through a link"
ln -s nowhere dangling
refused 1 "dangling: is a link that leads to nothing" "$bin/tshard" export x.tsh -o dangling
if [ -L /dev/stdout ]; then
    "$bin/tshard" export x.tsh -o /dev/stdout > piped
    [ -L /dev/stdout ] || bad "export: replaced /dev/stdout"
    cmp -s piped exported || bad "export: not written to /dev/stdout"
fi

# ---- gen ----
"$bin/tshard" gen --nnz 50000 --dims 70x80x90 -o g.tns
"$bin/tshard" gen --nnz 50000 --dims 70x80x90 -o g.tns.gz
[ "$(wc -l < g.tns)" -eq 50000 ] || bad "gen: not 50000 lines"
gzip -dc g.tns.gz | cmp -s - g.tns || bad "gen: not the same when compressed"
"$bin/tshard" gen --nnz 500 --dims 70x80x90 -o g.tsh/ > log 2>&1 || bad "gen: $(cat log)"
"$bin/tshard" verify -q g.tsh || bad "gen: no tensor in g.tsh/"
cp g.tns before
got=0 # a file-size limit stands for the full disk
(ulimit -f 100 && exec "$bin/tshard" gen --nnz 50000 -o g.tns) > out 2> err || got=$?
[ "$got" -eq 1 ] || bad "gen: exit $got on a full disk: $(cat err)"
cmp -s g.tns before || bad "gen: a failure touched what was there"
refused 2 "--planted and --law exclude each other" \
    "$bin/tshard" gen --planted 3 --law power:1 -o h.tsh
refused 2 "--noise is for --planted" "$bin/tshard" gen --noise 0.1 -o h.tsh

# ---- readers and disks that end early ----
"$bin/tshard" gen --nnz 50000 -o - 2> err | head -n 1 > out
[ ! -s err ] || bad "gen | head: $(cat err)"
if [ -c /dev/full ]; then
    got=0
    "$bin/tshard" info x.tsh > /dev/full 2> err || got=$?
    [ "$got" -eq 1 ] || bad "info: exit $got when it cannot print"
    grep -q 'standard output: cannot be written: No space left' err || bad "info: $(cat err)"
fi
exit $failed
