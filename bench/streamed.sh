# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2154 # what is set before
# streamed.sh - what scripts use that stream shards to one GPU, once $bin (the folder of tstream), $tensor, $tmp and
# $events (events.awk) are set: budgets of memory with which little stays, and what sweeps took, sent and read.
#
# Streamed from host memory is a run with DEVICE_SLOTS MiB of device memory more than it cannot do without, as
# gpu-table.sh has it; from disk is one that has HOST_SLOTS MiB of host memory, too, beside what driver and libraries take.
DEVICE_SLOTS=${DEVICE_SLOTS:-80}
HOST_SLOTS=128

# needed MIB OPTION...: what a refusal of so much device memory counts as needed, in MiB; 0 where none comes.
needed()
{
    budget=$1
    shift
    "$bin/tstream" cp "$tensor" --gpus 1 -i 1 -n --gpu-memory "${budget}M" "$@" 2>&1 > "$tmp/needed" |
        grep 'cannot work' | grep -o '[0-9]* MiB' |
        awk 'NR > 1 { sum += $1 } END { print sum + 0 }' # the first is the budget
}

# device_budget OPTION...: with which such a run streams.
device_budget()
{
    least=$(needed 1 "$@")
    # the driver is taken to need 640 MiB, until a budget that holds all else has it measured
    again=$(needed "$((least > 600 ? least - 600 : 1))" "$@")
    echo "$((again > 0 ? again + DEVICE_SLOTS : least + DEVICE_SLOTS))M"
}

# host_budget OPTION...: with which a run with these, --gpu-memory among them, reads its shards in each sweep: what is no
# longer refused for the run's own buffers, but for the driver's, and these.
host_budget()
{
    told= budget=8
    while [ -z "$told" ] && [ $budget -lt 8192 ]; do
        told=$("$bin/tstream" cp "$tensor" --gpus 1 -i 1 --force -o "$tmp/needed.cp" --host-memory ${budget}M "$@" 2>&1 > "$tmp/needed" |
            sed -n 's/.*libraries.* take \([0-9.]*\) \([KMG]\)iB.*/\1 \2/p')
        [ -n "$told" ] || budget=$((budget < 64 ? 2 * budget : budget * 9 / 8))
    done
    echo "${told:-0 M}" | awk -v own=$((budget < 64 ? 0 : budget)) -v slots=$HOST_SLOTS '
        { taken = $1 * ($2 == "G" ? 1024 : $2 == "K" ? 1 / 1024 : 1) }
        END { printf "%dM\n", taken + own + slots + 1 }'
}

# sweeps NAME COUNT OPTION...: events of such a run are added to the file NAME, times of its sweeps alone.
sweeps()
{
    file=$1 count=$2
    shift 2
    "$bin/tstream" cp "$tensor" --gpus 1 -i "$count" --tol 0 -n --json "$@" > "$tmp/events" 2> "$tmp/log" ||
        { cat "$tmp/log" >&2; exit 1; }
    cat "$tmp/events" >> "$file"
}

# told NAME: of sweeps 3 and later of the runs in the file, medians: ms a sweep, ms of products and of rows, GB sent to the
# device and read from disk.
told()
{
    awk "$events"'
        /"event":"start"/ { sent = 0 }
        /"event":"mode"/ { sent += over("bytes", 1) }
        /"event":"sweep"/ {
            if (value("sweep") >= 3) {
                n++
                seconds[n] = value("seconds")
                products[n] = value("kernel_seconds")
                rows[n] = value("solve_seconds")
                bytes[n] = sent
                disk[n] = value("bytes_read")
            }
            sent = 0
        }
        END {
            printf "%.4f %.4f %.4f %.4f %.4f\n", 1e3 * median(seconds, n), 1e3 * median(products, n),
                1e3 * median(rows, n), median(bytes, n) * 1e-9, median(disk, n) * 1e-9
        }' "$1"
}
