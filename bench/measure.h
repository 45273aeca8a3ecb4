/* SPDX-License-Identifier: BSD-3-Clause */
/* measure.h - the limits of this machine that a figure is judged by, measured in the same run.
 *
 *   units    bytes per second, of all threads together, unless it says so
 *   threads  one thread calls; each function uses `threads` OpenMP threads
 *   errors   none: a program that cannot get its memory says so and exits
 */
#ifndef TS_BENCH_MEASURE_H
#define TS_BENCH_MEASURE_H

#include <stdint.h>

/* a[i] = b[i] + s * c[i] over arrays beyond the caches; counts the 24 bytes named, not the line
 * that a store may read first. */
double measure_triad(uint32_t threads);

/* Sums random rows of a table: `row_bytes` 64, 128 or 256, `table_bytes` a power of two. Indices
 * come from a list, as those of a decoded block do. */
double measure_gather(uint32_t row_bytes, uint64_t table_bytes, uint32_t threads);

/* Seconds that a gather of one row takes, all threads working, from a table of any size: measured
 * at powers of 4 from 16 KB to 64 MB when first asked, and interpolated. */
double measure_row_seconds(uint32_t row_bytes, double table_bytes, uint32_t threads);

/* Multiply-adds of float64 a second, from registers, with the vectors that the row solve uses. */
double measure_fma(uint32_t threads);

#endif
