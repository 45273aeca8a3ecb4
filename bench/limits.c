/* SPDX-License-Identifier: BSD-3-Clause */
/* limits - what the memory of this machine gives: triad bandwidth, and random rows by row size,
 * table size and threads. Every figure of bench/mttkrp is to be read beside these. */
#include <omp.h>
#include <stdio.h>

#include "bench/measure.h"

int main(void)
{
    const uint32_t cpus = (uint32_t)omp_get_num_procs();
    for (uint32_t threads = 1; threads <= cpus; threads += cpus > 1 ? cpus - 1 : 1) {
        printf("%u thread%s: triad %.1f GB/s; random rows in GB/s from tables of\n", threads,
               threads == 1 ? "" : "s", measure_triad(threads) * 1e-9);
        printf("%12s %8s %8s %8s %8s %8s %8s %8s\n", "row", "16 KB", "256 KB", "1 MB", "4 MB",
               "16 MB", "64 MB", "1 GB");
        for (uint32_t row = 64; row <= 256; row *= 2) {
            printf("%10u B", row);
            for (uint64_t table = UINT64_C(16) << 10; table <= UINT64_C(64) << 20;
                 table *= table == UINT64_C(16) << 10 ? 16 : 4)
                printf(" %8.1f", measure_gather(row, table, threads) * 1e-9);
            printf(" %8.1f\n", measure_gather(row, UINT64_C(1) << 30, threads) * 1e-9);
        }
    }
    return 0;
}
