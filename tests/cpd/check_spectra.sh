#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The amino acid data of docs/spectra.md: --nonneg at rank 3 finds the spectra of three substances from any start: highest where theirs are, smooth,
# one in each of the pure samples, and those that docs/spectra.svg shows. It takes the tensor of $TS_SHARED/data (default: shared
# beside the source); without it the test is skipped.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
data=${TS_SHARED:-$top/../shared}/data/aminoacid.tns.gz
[ -r "$data" ] || { echo "skipped: there is no $data"; exit 77; }

"$bin/tshard" build "$data" -o amino.tsh -q > log 2>&1
for seed in 1 2 3; do
    "$bin/tstream" cp amino.tsh --cpu -r 3 --nonneg --precision float64 --tol 1e-8 --iters 500 --seed $seed -o amino.cp --force > log 2>&1 ||
        bad "seed $seed: $(cat log)"
    "$bin/tstream" export amino.cp -q > amino.csv
    # highest at so many nm; of second differences the squares beside those of values, which are 4e-4 at most (of noise they would
    # be 6); entries below 0
    awk -F , '
        $1 > 1 { for (c = 1; c <= 3; c++) { x = $(4 + c); a[$1, c, ++n[$1, c]] = x; if (x < 0) below++; if (x > most[$1, c]) { most[$1, c] = x; at[$1, c] = $3 } } }
        END {
            for (m = 2; m <= 3; m++) {
                for (c = 1; c <= 3; c++) {
                    bend = size = 0
                    for (i = 1; i <= n[m, c]; i++) {
                        size += a[m, c, i] ^ 2
                        if (i > 1 && i < n[m, c])
                            bend += (a[m, c, i - 1] - 2 * a[m, c, i] + a[m, c, i + 1]) ^ 2
                    }
                    if (bend > 1e-3 * size) print "mode " m ", component " c " bends: " bend / size
                    peaks = peaks " " at[m, c] + (m == 2 ? 249 : 239)
                }
            }
            print peaks ", " below + 0 " below 0"
        }' amino.csv > found
    [ "$(cat found)" = " 358 305 286 276 274 256, 0 below 0" ] || bad "seed $seed: $(cat found)"
    # of samples 1 to 3 component k has all but a fiftieth of sample k
    awk -F , '$1 == 0 { for (c = 1; c <= 3; c++) w[c] = $(4 + c) }
        $1 == 1 && $3 <= 3 { for (c = 1; c <= 3; c++) if (c != $3 && w[c] * $(4 + c) > 0.04 * w[$3] * $(4 + $3)) exit 1 }' amino.csv ||
        bad "seed $seed: a pure sample has two substances: $(head -n 5 amino.csv)"
done

# what the picture shows is what is found
if command -v python3 > log; then
    python3 "$top/docs/spectra.py" --table < amino.csv > spectra.tsv
    paste spectra.tsv "$top/docs/spectra.tsv" | awk -F '\t' '/^#/ { next } $1 != $6 || $2 != $7 { exit 1 }
        { for (c = 3; c <= 5; c++) { d = $c - $(c + 5); if (d > 0.001 || d < -0.001) exit 1 } } END { exit NR != 265 }' ||
        bad "docs/spectra.tsv shows other spectra"
fi
exit "$failed"
