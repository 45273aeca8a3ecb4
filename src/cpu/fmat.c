/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocates factor matrices, and converts their rows to and from float64. */
#include "cpu/fmat.h"

#include <string.h>

#include "base/machine/bigmem.h"

uint32_t ts_fmat_stride(uint32_t rank, enum ts_precision precision)
{
    const uint32_t line = precision == TS_FLOAT32 ? 16 : 8;
    return rank <= 8 ? 8 : (rank + line - 1) / line * line;
}

uint64_t ts_fmat_bytes(uint64_t n_rows, uint32_t rank, enum ts_precision precision)
{
    return n_rows * ts_fmat_stride(rank, precision) * (precision == TS_FLOAT32 ? 4 : 8);
}

struct ts_fmat ts_fmat_at(void *shared, uint64_t n_rows, uint32_t rank, enum ts_precision precision)
{
    const uint32_t stride = ts_fmat_stride(rank, precision);
    return (struct ts_fmat){ .data = shared,
                             .n_rows = n_rows,
                             .bytes = ts_fmat_bytes(n_rows, rank, precision),
                             .rank = rank,
                             .stride = stride,
                             .width = stride,
                             .precision = precision,
                             .shared = shared != NULL };
}

int ts_fmat_new(uint64_t n_rows, uint32_t rank, enum ts_precision precision, const char *name,
                struct ts_fmat *ret, struct ts_err *err)
{
    struct ts_fmat f = ts_fmat_at(NULL, n_rows, rank, precision);
    const int rc = ts_bigmem_new(f.bytes, name, &f.data, err);
    if (rc < 0)
        return rc;
    *ret = f;
    return 0;
}

void ts_fmat_free(struct ts_fmat *f)
{
    if (f->data != NULL && !f->shared)
        ts_bigmem_free(f->data, f->bytes);
    memset(f, 0, sizeof *f);
}

struct ts_fmat ts_fmat_view(const struct ts_fmat *f, uint32_t col, uint32_t rank)
{
    struct ts_fmat v = *f;
    v.data = (char *)f->data + (size_t)col * (f->precision == TS_FLOAT32 ? 4 : 8);
    v.rest = f->rest == NULL ? NULL : f->rest + col;
    v.rank = rank;
    v.width = ts_fmat_stride(rank, f->precision);
    return v;
}

static void put_row(struct ts_fmat *f, uint64_t row, const double *from)
{
    const uint64_t at = row * f->stride;
    if (f->precision == TS_FLOAT64)
        memcpy((double *)f->data + at, from, f->rank * sizeof *from);
    else
        for (uint32_t r = 0; r < f->rank; r++) {
            const float x = (float)from[r];
            ((float *)f->data)[at + r] = x;
            if (f->rest != NULL)
                f->rest[at + r] = (float)(from[r] - x);
        }
}

static void get_row(const struct ts_fmat *f, uint64_t row, double *to)
{
    const uint64_t at = row * f->stride;
    if (f->precision == TS_FLOAT64)
        memcpy(to, (const double *)f->data + at, f->rank * sizeof *to);
    else
        for (uint32_t r = 0; r < f->rank; r++)
            to[r] = ((const float *)f->data)[at + r] +
                    /* adding -0 keeps the sign of a zero */
                    (f->rest == NULL ? -0.0 : (double)f->rest[at + r]);
}

/* Whether so few rows are copied that a parallel region, which makes system calls, would cost more
 * time than it saves. */
static int few(const struct ts_fmat *f, uint64_t n, uint32_t threads)
{
    return threads == 1 || n * f->rank <= 65536;
}

void ts_fmat_put(struct ts_fmat *f, uint64_t row, uint64_t n, const double *rows, uint32_t threads)
{
    if (few(f, n, threads)) {
        for (uint64_t i = 0; i < n; i++)
            put_row(f, row + i, rows + i * f->rank);
        return;
    }
#pragma omp parallel for num_threads(threads)
    for (uint64_t i = 0; i < n; i++)
        put_row(f, row + i, rows + i * f->rank);
}

void ts_fmat_get(const struct ts_fmat *f, uint64_t row, uint64_t n, double *rows, uint32_t threads)
{
    if (few(f, n, threads)) {
        for (uint64_t i = 0; i < n; i++)
            get_row(f, row + i, rows + i * f->rank);
        return;
    }
#pragma omp parallel for num_threads(threads)
    for (uint64_t i = 0; i < n; i++)
        get_row(f, row + i, rows + i * f->rank);
}
