#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tshard plan: what it says is what tshard build then makes, exactly where the text is small enough to be
# read whole, closely where it is sampled; and it leaves nothing behind. Seconds vary, so only their sum is
# looked at.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
command -v python3 > log || { echo "skipped: there is no python3"; exit 77; }

# ---- numbers: compared by python3, the plan with the report and the files of the build ----
cat > compare.py << 'EOP'
import json, os, sys
plan, build = json.load(open("plan.json")), json.load(open("build.json"))
sampled, memory = float(sys.argv[1]), sys.argv[2] == "memory" # sampled: how far off sizes may be, 0: exact
disk, bad = plan["disk"], []
def near(what, planned, was, by):
    if abs(planned - was) > by * was:
        bad.append(f"{what}: planned {planned}, was {was}")
def same(what, planned, was):
    near(what, planned, was, 0)
if plan["exact"] != (sampled == 0):
    bad.append(f"exact is {plan['exact']}, share {plan['measured']['share_of_text']}")
out = build["tensor"]
size = {f: os.path.getsize(f"{out}/{f}") for f in os.listdir(out)}
near("nnz", plan["nnz"], build["nnz"], sampled / 10)
near("read", plan["read"], build["read"], sampled / 10)
near("disk", disk["total_bytes"], sum(size.values()), sampled)
if len(plan["shape"]) != len(build["shape"]):
    bad.append(f"shape {plan['shape']}, was {build['shape']}")
for m, dim in enumerate(build["shape"]):
    near(f"mode {m + 1}", plan["shape"][m], dim, sampled)
    near(f"shards {m + 1}", disk["shards_bytes"][m], size[f"mode{m + 1}.shards"], sampled)
parts = sum(disk["shards_bytes"]) + disk["rows_bytes"] + disk["labels_bytes"] + disk["index_bytes"]
if abs(disk["total_bytes"] - parts) > 8:
    bad.append(f"disk: {disk['total_bytes']}, parts {parts}")
same("runs", plan["runs"], build["runs"])
if (plan["runs"] > 0) != (disk["tmp_bytes"] > 0):
    bad.append(f"{plan['runs']} runs, {disk['tmp_bytes']} temporary bytes")
planned, peak = plan["memory"]["total_bytes"], build["peak_bytes"]
if memory and abs(planned - peak) > 8 << 20: # buffers of threads that one run meets and another does not
    near("memory", planned, peak, 0.25)
seconds = sum(plan[k + "_seconds"] for k in ("read", "merge", "pack", "sync"))
if not 0 < plan["seconds"] or abs(plan["seconds"] - seconds) > 1e-9:
    bad.append("seconds do not add up")
sys.exit("; ".join(bad) if bad else 0)
EOP
memory=memory # sanitizers take memory of their own
if grep -q __asan_init "$bin/tshard"; then memory=any; fi

left_nothing() # by a plan of x.tsh
{
    if ls -d x.tsh* tmp/* > left 2> log; then bad "$*: left $(cat left)"; fi
}

compare() # OFF FILE-OR-OPTION...
{
    off=$1
    shift
    "$bin/tshard" plan -o x.tsh -t 2 "$@" --json > plan.json || bad "plan $*"
    left_nothing plan "$@"
    "$bin/tshard" build -o x.tsh -t 2 "$@" --json > build.json || bad "build $*"
    python3 compare.py "$off" $memory || bad "plan $*"
    rm -rf x.tsh
}

# ---- read whole: exact ----
mkdir tmp
{
    "$bin/tshard" gen --dims 300x4000x5000 --nnz 200K --value real -o uniform.tns
    "$bin/tshard" gen --dims 90000x400x5000 --nnz 300K --law power:1.1 -o power.tns
    "$bin/tshard" gen --dims 200x300x4000x50 --nnz 100K -o four.tns
    gzip -k four.tns
    head -n 40000 uniform.tns > part1.tns
    tail -n +40001 uniform.tns > part2.tns
    seq 300 | sed 's/^/name /' > names
} > log 2>&1
compare 0 uniform.tns
compare 0 power.tns --shard 64K
compare 0 four.tns.gz --values float64
compare 0 part1.tns part2.tns --map 1=names
refused 1 "four.tns.gz:1: " "$bin/tshard" plan -o x.tsh power.tns four.tns.gz

# ---- sampled: lines with many blanks, so that few nonzeros make a large file ----
"$bin/tshard" gen --dims 3000x4000x500 --nnz 320K --law power:0.8 -o few.tns > log 2>&1
sort -n few.tns > sorted.tns
python3 - << 'EOP'
import zlib
def wide(name):
    return b"".join(line + b" " * 400 + b"\n" for line in open(name, "rb").read().splitlines())
open("wide.tns", "wb").write(wide("sorted.tns"))
z = zlib.compressobj(0, zlib.DEFLATED, 31) # as long packed, so it is sampled, too
open("wide.tns.gz", "wb").write(z.compress(wide("few.tns")) + z.flush())
EOP
compare 0.08 wide.tns
compare 0.08 wide.tns.gz
rm -f wide.tns

# ---- many small files: a sample of the files, not a piece of each of them ----
python3 - << 'EOP'
import os, zlib
text = b"".join(line + b" " * 400 + b"\n" for line in open("few.tns", "rb").read().splitlines()[:900])
open("small.tns", "wb").write(text)
z = zlib.compressobj(0, zlib.DEFLATED, 31)
open("small.tns.gz", "wb").write(z.compress(text) + z.flush())
for i in range(600):
    os.link("small.tns", f"many{i}.tns")
    if i < 150:
        os.link("small.tns.gz", f"many{i}.tns.gz")
EOP
for ending in tns tns.gz; do
    "$bin/tshard" plan -o x.tsh -t 2 many*."$ending" --duplicates keep --json > plan.json 2> log || bad "many: $(cat log)"
    python3 - "$ending" << 'EOP' || bad "many files ($ending): $(cat plan.json)"
import json, os, sys
plan = json.load(open("plan.json"))
n, packed = (150, 4) if sys.argv[1] == "tns.gz" else (600, 1)
size = os.path.getsize("small." + sys.argv[1])
wanted = (96 << 20) / (packed * n * size)
share = plan["measured"]["share_of_text"]
sys.exit(not (0.8 < share / wanted < 1.25 and abs(plan["read"] / (900 * n) - 1) < 0.02 and not plan["exact"]))
EOP
    left_nothing plan of many files
done
rm -f many*.tns many*.tns.gz

# ---- no room on the disk for the whole, though there is for the sample ----
mkdir small
if unshare -rm mount -t tmpfs none small > log 2>&1; then
    # shellcheck disable=SC2016 # expanded by the inner shell
    refused 1 "by a sample of the input" unshare -rm sh -c 'mount -t tmpfs -o size=2m none small && exec "$@"' sh \
        "$bin/tshard" plan -o small/x.tsh wide.tns.gz
    grep -q '^  in all  *.* of 2.00 MiB free$' out || bad "plan: $(cat out)"
fi
rm -f wide.tns.gz

# ---- through sorted runs on disk ----
"$bin/tshard" gen --dims 3000x4000x5000 --nnz 1200K --value real -o runs.tns > log 2>&1
compare 0 runs.tns -m 32M --tmp tmp
grep -q '"runs":[1-9]' plan.json || bad "plan: no runs with 32 MiB"

# ---- the table fits a terminal ----
"$bin/tshard" plan runs.tns -m 32M -o x.tsh > table
awk 'length($0) > 80 { print; bad = 1 } END { exit bad }' table || bad "plan: lines of more than 80 columns"
for line in 'nonzeros  *1.20 M  all were read$' 'size of mode 3  *5.00 k  5.00 k used$' \
    'shards of mode 1  *[1-9].* bytes for each nonzero$' 'in all  *.* of .* free$' \
    'temporary files  *[1-9].* of .* free$' 'sorted runs through them  *[1-9]' 'records, to sort them  *[1-9].*' \
    'packing  *[1-9]' 'allowed: --memory and 24 MiB  *56.0 MiB$' \
    'in all  *.* nonzeros/s$'; do
    grep -q "^  $line" table || bad "plan: no '$line' in: $(cat table)"
done
grep -q '^measured here in .*: built from all of the input$' table || bad "plan: $(cat table)"
left_nothing plan runs.tns

# ---- refused, as the build would, and nothing is left ----
refused 1 "none.tns: cannot" "$bin/tshard" plan none.tns
refused 1 "a plan needs files" "$bin/tshard" plan -o x.tsh -
mkfifo pipe
refused 1 "not a regular file" "$bin/tshard" plan pipe -o x.tsh
refused 2 "--memory must be at least 32M" "$bin/tshard" plan few.tns -m 1M
refused 2 "did you mean '--memory'" "$bin/tshard" plan few.tns --memroy 1G
echo "1 2 x" >> four.tns
refused 1 "four.tns:100001: " "$bin/tshard" plan four.tns -o x.tsh
"$bin/tshard" build part1.tns -o there.tsh > log
for force in '' --force; do
    "$bin/tshard" plan part1.tns -o there.tsh $force > log || bad "plan $force of what is there"
    "$bin/tshard" verify there.tsh > log || bad "plan $force harmed what was there"
done

# ---- of a tensor that does not exist: bounds, which hold a drawn tensor of these sizes ----
"$bin/tshard" gen --dims 300x200x50 --nnz 100K -s 2 -o drawn.tsh > log
for disk in 1G:yes 1M:perhaps 32:no; do
    "$bin/tshard" plan --nnz 100K --dims 300x200x50 --memory 1T --disk ${disk%:*} > log || bad "plan --nnz"
    grep -q "^  fits on .* ${disk#*:}\$" log || bad "plan --nnz, $disk: $(cat log)"
done
least=$("$bin/tshard" plan -n 100K --dims 300x200x50 --json | sed 's/.*"least_bytes":\([0-9]*\),"most_bytes":\([0-9]*\).*/\1 \2/')
taken=$("$bin/tshard" info drawn.tsh --json | sed 's/.*"bytes":\([0-9]*\),"input_nnz.*/\1/')
[ "${least% *}" -le "$taken" ] && [ "$taken" -le "${least#* }" ] || bad "plan --nnz: $least, and it takes $taken"
refused 2 "name files, or give --nnz and --dims" "$bin/tshard" plan --nnz 5G
refused 2 "--nnz and --disk are for a plan without files" "$bin/tshard" plan few.tns --nnz 5G
refused 2 "--nnz and --disk are for a plan without files" "$bin/tshard" plan few.tns --disk 2T

# ---- stopped: dies by the signal, nothing is left ----
"$bin/tshard" plan runs.tns power.tns uniform.tns -o x.tsh -t 1 > log 2>&1 &
pid=$!
sleep 0.2
kill -INT $pid 2> err || true
wait $pid || true
left_nothing interrupted plan

# ---- stopped while it looks at many files: at once ----
python3 -c 'import zlib
z = zlib.compressobj(1, zlib.DEFLATED, 31)
open("long.tns.gz", "wb").write(z.compress(b"1 2 3 4\n" * 200000) + z.flush())'
i=0
while [ $i -lt 900 ]; do
    ln long.tns.gz long$i.tns.gz
    i=$((i + 1))
done
"$bin/tshard" plan long*.tns.gz -o x.tsh -t 1 > log 2>&1 &
pid=$!
sleep 0.3
kill -INT $pid 2> err || true
from=$(date +%s)
wait $pid || true
[ $(($(date +%s) - from)) -le 5 ] || bad "plan of many files: stopped after $(($(date +%s) - from)) s"
left_nothing interrupted plan of many files
exit $failed
