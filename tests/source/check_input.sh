#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What tshard says of input and surroundings that it cannot take: one sentence that names the place, and
# nothing left behind.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
plain=yes
if grep -qE '__[at]san_init' "$bin/tshard"; then plain=no; fi

printf '1 1 1 1\n2 2 2 2\n' > a.tns

# threads that cannot be had; ASan and TSan reserve more addresses than any limit leaves
if [ $plain = yes ]; then
    # shellcheck disable=SC3045
    (
        ulimit -v 500000
        refused 1 "threads can be started" "$bin/tshard" build a.tns --memory 256M --threads 256
        "$bin/tshard" build a.tns > log 2>&1 || bad "as many threads as there can be: $(cat log)"
        exit $failed
    ) || failed=1
    rm -rf a.tsh
fi
refused 2 "eight times the 64.0 MiB of --shard" "$bin/tshard" build a.tns --memory 64M --shard 64M
refused 2 "--memory must be at least 32M" "$bin/tshard" build a.tns --memory 31M

# ends of lines
printf '1 1 1\r2 2 2\r' > cr.tns
refused 1 "cr.tns:1: a carriage return in the line" "$bin/tshard" build cr.tns
printf '1 1 1\r\n2 2 2\r\n3 3 3\r7\r\n' > cr.tns
refused 1 "cr.tns:3: a carriage return in the line" "$bin/tshard" build cr.tns
printf '# made by\r1 1 1\n2 2 2\n' > cr.tns
refused 1 "cr.tns:1: a carriage return in the line" "$bin/tshard" build cr.tns
{ printf '1 1 1\n'; head -c 3000000 /dev/zero | tr '\0' '\r'; } > cr.tns
refused 1 "cr.tns:2: the line is longer than" "$bin/tshard" build cr.tns --memory 32M
grep -q "carriage returns instead of line feeds" err || bad "no word of carriage returns: $(cat err)"
{ printf '# x\n\n1 1 1\n# '; head -c 3000000 /dev/zero | tr '\0' x; } > long.tns
refused 1 "long.tns:4: the line is longer than" "$bin/tshard" build long.tns --memory 32M
printf '1 1 1\r\n# x\r\n\r\n2 2 2\r\n3 3 3\r' > crlf.tns
"$bin/tshard" build crlf.tns > log 2>&1 || bad "CR LF: $(cat log)"
grep -q '3 x 3, 3 nonzeros' log || bad "CR LF: $(cat log)"
printf '1 1 1\n1\n' > one.tns
refused 1 "one.tns:2: found 1 field, expected 3" "$bin/tshard" build one.tns

# packed by other programs
printf '\375\067zXZ\000rest' > p.tns && refused 1 "xz data" "$bin/tshard" build p.tns
printf 'BZh91AYrest' > p.tns && refused 1 "bzip2 data" "$bin/tshard" build p.tns
printf 'PK\003\004....' > p.tns && refused 1 "zip data" "$bin/tshard" build p.tns
printf '\050\265\057\375..' > p.tns && refused 1 "zstd data" "$bin/tshard" build p.tns
printf '\004\042\115\030..' > p.tns && refused 1 "lz4cat FILE > NEW-FILE" "$bin/tshard" build p.tns
printf '1 1 1' | gzip > short.tns.gz
"$bin/tshard" build short.tns.gz > log 2>&1 || bad "short gzip: $(cat log)"

# headers: the count of each file by itself, and behind many comments
printf 'sptensor\n2\n3 3\n3\n1 1 1\n2 2 2\n' > sp.tns
: > em.tns
refused 1 "sp.tns: found 2 nonzeros, but its header says 3" "$bin/tshard" build sp.tns em.tns
printf '3 3 3\n' > more.tns
refused 1 "sp.tns: found 2 nonzeros, but its header says 3" "$bin/tshard" build sp.tns more.tns
yes '# a comment of which there are many' | head -n 40000 > late.tns
printf 'sptensor\n2\n3 4\n1\n1 1 1\n' >> late.tns
"$bin/tshard" build late.tns > log 2>&1 || bad "late header: $(cat log)"
grep -q '3 x 4, 1 nonzero$' log || bad "late header: $(cat log)"
cp late.tns two.tns
"$bin/tshard" build late.tns two.tns -o both.tsh --memory 32M > log 2>&1 || bad "two late headers: $(cat log)"

# duplicates that are forbidden: where they are
printf '# x\n1 1 1\n2 2 2\n' > d1.tns
printf '3 3 3\n1 2 1\n\n1 1 5\n' > d2.tns
refused 1 "d2.tns:4: a second nonzero at 1 1, which --duplicates error forbids; the first is at d1.tns:2" \
    "$bin/tshard" build --duplicates error d1.tns d2.tns
printf '1 1 1\n1 1 2\n' > pipe.tns
refused 1 "more than one nonzero at (1, 1)" "$bin/tshard" build --duplicates error -o p.tsh - < pipe.tns
mkfifo d.fifo
cat pipe.tns > d.fifo & # which could not be read again
refused 1 "more than one nonzero at (1, 1)" timeout 60 "$bin/tshard" build --duplicates error -o p.tsh d.fifo
wait

# whatever looks at inputs before they are read leaves pipes alone: their writer has one reader
printf '1 1 1\n2 2 2\n' > one.tns
printf 'a\nb\n' > one.map
printf 'u,i,v\na,x,1\nb,y,2\n' > one.csv
mkfifo one.fifo
for one in "one.tns one.fifo" "one.csv one.fifo --separator , --modes u,i --value v" \
    "one.csv one.fifo one.csv --separator , --modes u,i --value v" \
    "one.map one.tns --map 1=one.fifo" "one.map one.tns one.tns --map 2=one.fifo -m 32M"; do
    cat "${one%% *}" > one.fifo &
    # shellcheck disable=SC2086
    timeout 60 "$bin/tshard" build ${one#* } --force -o one.tsh > log 2>&1 || bad "build ${one#* }: $(cat log)"
    kill $! 2> log || true # it has ended, unless it found no reader
    wait
done

# names of indices that cannot be read are not names that are not there
printf '1 1 1\n' > m.tns
ln -s m.mode2.map m.mode2.map
refused 1 "m.mode2.map: cannot be read" "$bin/tshard" build m.tns
rm m.mode2.map
mkdir closed && printf 'a\n' > closed/names
ln -s closed/nothing m.mode1.map
"$bin/tshard" build m.tns > log 2>&1 || bad "a map that is not there: $(cat log)"

# a signal while a pipe is idle: over within two seconds, and nothing is left
mkfifo fifo
# shellcheck disable=SC2016
for from in 'sleep 20 | "$bin/tshard" build - -o q.tsh' '"$bin/tshard" build fifo -o q.tsh' \
    '"$bin/tshard" build m.tns fifo -o q.tsh' '"$bin/tshard" build m.tns --map 1=fifo -o q.tsh'; do
    for signal in INT TERM; do
        bin=$bin setsid sh -c "trap - INT; $from" > log 2>&1 &
        group=$!
        tries=0
        while [ ! -s q.tsh.building/lock ] && [ $tries -lt 300 ]; do
            sleep 0.1
            tries=$((tries + 1))
        done
        sleep 0.3
        pid=$(cat q.tsh.building/lock 2> /dev/null | head -n 1 | tr -dc '0-9 ' | cut -d' ' -f1)
        if [ -z "$pid" ]; then
            bad "$from: no process: $(cat log)"
        else
            kill -s $signal "$pid"
            tries=0
            while [ -e "/proc/$pid" ] && [ $tries -lt 40 ]; do
                sleep 0.1
                tries=$((tries + 1))
            done
            if [ -e "/proc/$pid" ]; then bad "$from: $signal does not end it"; fi
            if ls -d q.tsh* > left 2> /dev/null; then bad "$from: $signal left $(cat left)"; fi
        fi
        kill -- "-$group" 2> /dev/null || true
        wait "$group" 2> /dev/null || true
        rm -rf q.tsh*
    done
done

# ---- a named pipe is opened once, whatever a build asks of its inputs before: its writer is there for the first alone ----
mkfifo once
printf 'a\nb\n' > names.map
printf 'a,x,1\nb,y,2\n' > names.csv
gzip -k names.csv
piped() # FILE COMMAND...: it reads the file from the pipe "once"
{
    (cat "$1" > once) 2> cat.err &
    writer=$!
    shift
    timeout 20 "$@" > log 2>&1 || bad "$*: exit $?: $(cat log)"
    kill $writer 2> kills || true
    wait $writer || true
    rm -rf o.tsh
}
piped names.map "$bin/tshard" build a.tns --map 1=once -o o.tsh
piped a.tns "$bin/tshard" build once -o o.tsh
piped a.tns "$bin/tshard" build a.tns once -o o.tsh
piped names.csv "$bin/tshard" build once --columns 1,2 --value 3 --separator , -o o.tsh
piped names.csv "$bin/tshard" build names.csv once --columns 1,2 --value 3 --separator , -o o.tsh
piped names.csv.gz "$bin/tshard" build once --columns 1,2 --value 3 --separator , -o o.tsh

exit $failed
