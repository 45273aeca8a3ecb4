/* SPDX-License-Identifier: BSD-3-Clause */
/* fmat.h - a factor matrix in the memory of the CPU backend.
 *
 * Rows are padded with zero columns to whole vectors, so that no kernel masks a tail: a product of
 * padding is zero, and stays zero. Large matrices are on huge pages (base/machine/bigmem.h),
 * because their rows are read in random order.
 *
 * A wide matrix may consist of several matrices side by side: each is a range of columns, and a
 * *view* is a struct ts_fmat of one range.
 *
 *   owner    the matrix owns its memory, from ts_fmat_new to ts_fmat_free, but not `rest`, which is
 *            lent. A view owns nothing. The comm owns matrices that ranks share (stream/comm.h)
 *   units    stride is in elements: row i starts at element i * stride
 *   threads  rows are independent; put and get use `threads` OpenMP threads
 *   errors   0 or TS_ENOMEM
 */
#ifndef TS_CPU_FMAT_H
#define TS_CPU_FMAT_H

#include <stdint.h>

#include "base/err.h"
#include "stream/backend.h"

struct ts_fmat {
    void *data; /* float or double, n_rows x stride */
    /* for a matrix of products: the part that rounding to float32 loses, in the same layout; or
     * NULL */
    float *rest;
    uint64_t n_rows, bytes;
    uint32_t rank, stride;
    /* Number of columns with padding. It is less than stride in a view: the row has columns of
     * other matrices too. */
    uint32_t width;
    enum ts_precision precision;
    int shared; /* 1: all ranks of a machine share this matrix */
};

/* ts_fmat_stride returns the elements from one row to the next: 8 for up to 8 columns, otherwise a
 * multiple of 64 bytes. */
#define TS_FMAT_MAX_STRIDE 2048u
#define TS_FMAT_MAX_RANK   TS_FMAT_MAX_STRIDE
uint32_t ts_fmat_stride(uint32_t rank, enum ts_precision precision);
uint64_t ts_fmat_bytes(uint64_t n_rows, uint32_t rank, enum ts_precision precision);

int ts_fmat_new(uint64_t n_rows, uint32_t rank, enum ts_precision precision, const char *name,
                struct ts_fmat *ret, struct ts_err *err);
void ts_fmat_free(struct ts_fmat *f); /* f may be all zero */

/* Returns a matrix in the memory `shared`, ts_fmat_bytes of zeros that several ranks share.
 * ts_fmat_free does not free it. */
struct ts_fmat ts_fmat_at(void *shared, uint64_t n_rows, uint32_t rank,
                          enum ts_precision precision);

/* Returns a view of `rank` columns of f from column col on. The first column begins at a multiple
 * of 64 bytes. */
struct ts_fmat ts_fmat_view(const struct ts_fmat *f, uint32_t col, uint32_t rank);

/* Returns the entry i of an array in this precision. */
static inline double ts_item(const void *array, uint64_t i, enum ts_precision precision)
{
    return precision == TS_FLOAT32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static inline void ts_set_item(void *array, uint64_t i, enum ts_precision precision, double x)
{
    if (precision == TS_FLOAT32)
        ((float *)array)[i] = (float)x;
    else
        ((double *)array)[i] = x;
}

/* Returns the address of row `row`. */
static inline void *ts_fmat_row(const struct ts_fmat *f, uint64_t row)
{
    return (char *)f->data + row * f->stride * ts_precision_bytes(f->precision);
}

/* Copy rows row .. row + n - 1 from or to n x rank float64. Both use `rest` if it exists. */
void ts_fmat_put(struct ts_fmat *f, uint64_t row, uint64_t n, const double *rows, uint32_t threads);
void ts_fmat_get(const struct ts_fmat *f, uint64_t row, uint64_t n, double *rows, uint32_t threads);

#endif
