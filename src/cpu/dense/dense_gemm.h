/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_gemm.h - the innermost product of dense tensors: a tile of a few rows of A times a panel of
 * a few columns of B.
 *
 * s(i, j) = sum over p < k of a(i, p) b(p, j), for rows i and columns j of the tile, summed over p
 * in order, in the given precision. A has two forms. `along`: A is stored by rows, which are
 * `stride` numbers apart. `across`: A is stored by columns, `stride` apart. A panel has one vector
 * of columns or two: along[0] and across[0] are for one, along[1] and across[1] for two. b has k
 * rows of a panel's columns.
 *
 * Data that later products need is prefetched into the second-level cache meanwhile. With each p of
 * a block of TS_GEMM_BLOCK, the cache line at ahead->at + block * hop + p * step is fetched, and
 * the one `beside` bytes after it.
 *
 *   owner    the caller; `ahead` may be any address, also outside of the caller's memory
 *   units    strides in numbers; hop, step and beside in bytes
 *   threads  pure
 *   errors   none
 */
#ifndef TS_CPU_DENSE_GEMM_H
#define TS_CPU_DENSE_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/machine/isa.h"

/* the largest k (number of terms of a sum): a panel of B with this many rows stays in the
 * first-level cache */
#define TS_GEMM_DEPTH 256u
/* distance of copied rows of cells in memory, in numbers; with a power of 2, all rows would compete
 * for one set of the first-level cache */
#define TS_GEMM_STRIDE (TS_GEMM_DEPTH + 8u)
#define TS_GEMM_MOST   512u /* the largest number of rows times columns of a tile */
#define TS_GEMM_BLOCK  32u

struct ts_gemm_ahead {
    uintptr_t at;
    size_t hop, step, beside;
};

/* Computes a tile of sums s(i, j) of a(i, p) b(p, j) over p. along: out(i, j) = s(i, j), or += with
 * `add`, in the precision of the product. across: the same sums, with `out` in float64. */
typedef void ts_gemm_fn(uint32_t k, const void *a, size_t stride, const void *b, void *out,
                        size_t out_stride, int add, const struct ts_gemm_ahead *ahead);

/* out(j) = sum of a(p) b(p, j) over p, for the columns j of n panels of two vectors. The panels
 * follow each other and have k rows each. a is a single row; k may be any number. */
typedef void ts_gemm_row_fn(uint32_t k, const void *a, const void *b, uint32_t n, void *out);

struct ts_gemm {
    uint32_t rows, lanes; /* rows of a tile; elements of a vector */
    ts_gemm_fn *along[2], *across[2];
    ts_gemm_row_fn *row;
};

extern const struct ts_gemm ts_gemm_portable_f32, ts_gemm_portable_f64;
extern const struct ts_gemm ts_gemm_avx2_f32, ts_gemm_avx2_f64; /* on x86-64 only */
extern const struct ts_gemm ts_gemm_avx512_f32, ts_gemm_avx512_f64;

const struct ts_gemm *ts_gemm_of(enum ts_isa isa, int wide); /* wide 1: float64; 0: float32 */

#endif
