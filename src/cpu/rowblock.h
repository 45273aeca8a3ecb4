/* rowblock.h - the arithmetic of the row solve on one block of rows, for several instruction sets.
 *
 * All in float64: the block's M is converted, A = M * w computed tile by tile in registers, rounded
 * to the factor's type, stored, and gram += A' A (upper triangle of tiles), inner += M .* A. Sums
 * run over rows and columns in the same order for every instruction set; with FMA they are rounded
 * less often.
 *
 *   owner    the caller owns all memory
 *   units    matrices in struct ts_rowblock have `padded` columns, a multiple of 8; padding is zero
 *   threads  blocks of different rows may run at once, with buffers of their own
 *   errors   none
 */
#ifndef TS_CPU_ROWBLOCK_H
#define TS_CPU_ROWBLOCK_H

#include "cpu/fmat.h"
#include "cpu/isa.h"

#define TS_ROWBLOCK_ROWS 64u /* 16 KB of float64 at rank 32 */

struct ts_rowblock {
    const double *w; /* rank x padded; NULL: A = M, and nothing is stored */
    double *m, *a;   /* TS_ROWBLOCK_ROWS x padded, of this thread */
    double *gram;    /* padded x padded; tiles below the diagonal are not touched */
    double *inner;   /* 8 partial sums: columns 0, 8, 16 ... in the first */
    uint32_t padded;
};

/* Rows row .. row + n - 1 (n <= TS_ROWBLOCK_ROWS) of f. */
typedef void ts_rowblock_fn(struct ts_fmat *f, uint64_t row, uint32_t n,
                            const struct ts_rowblock *b);

/* Rows row .. row + n - 1: column r times s[r]; s has stride entries. */
typedef void ts_rowscale_fn(struct ts_fmat *f, uint64_t row, uint64_t n, const double *s);

struct ts_rowblock_ops {
    ts_rowblock_fn *solve;
    ts_rowscale_fn *scale;
};

/* Those of an instruction set, or NULL when this machine or build has none. */
const struct ts_rowblock_ops *ts_rowblock_get(enum ts_isa isa);

#endif
