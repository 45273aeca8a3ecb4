#include "cpu/fmat.h"

#include <string.h>

#include "base/bigmem.h"

uint32_t ts_fmat_stride(uint32_t rank, enum ts_precision precision)
{
    const uint32_t line = precision == TS_FLOAT32 ? 16 : 8;
    return rank <= 8 ? 8 : (rank + line - 1) / line * line;
}

uint64_t ts_fmat_bytes(uint64_t n_rows, uint32_t rank, enum ts_precision precision)
{
    return n_rows * ts_fmat_stride(rank, precision) * (precision == TS_FLOAT32 ? 4 : 8);
}

int ts_fmat_new(uint64_t n_rows, uint32_t rank, enum ts_precision precision, const char *what,
                struct ts_fmat *ret, struct ts_err *err)
{
    struct ts_fmat f = { .n_rows = n_rows, .rank = rank, .precision = precision };
    int rc;
    f.stride = ts_fmat_stride(rank, precision);
    f.bytes = ts_fmat_bytes(n_rows, rank, precision);
    rc = ts_bigmem_new(f.bytes, what, &f.data, err);
    if (rc < 0)
        return rc;
    *ret = f;
    return 0;
}

void ts_fmat_free(struct ts_fmat *f)
{
    if (f->data != NULL)
        ts_bigmem_free(f->data, f->bytes);
    memset(f, 0, sizeof *f);
}

void ts_fmat_put(struct ts_fmat *f, uint64_t row, uint64_t n, const double *rows, uint32_t threads)
{
    const uint32_t rank = f->rank;
#pragma omp parallel for num_threads(threads) if (n * rank > 65536)
    for (uint64_t i = 0; i < n; i++) {
        const double *from = rows + i * rank;
        const uint64_t at = (row + i) * f->stride;
        if (f->precision == TS_FLOAT64)
            memcpy((double *)f->data + at, from, rank * sizeof *from);
        else
            for (uint32_t r = 0; r < rank; r++)
                ((float *)f->data)[at + r] = (float)from[r];
    }
}

void ts_fmat_get(const struct ts_fmat *f, uint64_t row, uint64_t n, double *rows, uint32_t threads)
{
    const uint32_t rank = f->rank;
#pragma omp parallel for num_threads(threads) if (n * rank > 65536)
    for (uint64_t i = 0; i < n; i++) {
        double *to = rows + i * rank;
        const uint64_t at = (row + i) * f->stride;
        if (f->precision == TS_FLOAT64)
            memcpy(to, (const double *)f->data + at, rank * sizeof *to);
        else
            for (uint32_t r = 0; r < rank; r++)
                to[r] = ((const float *)f->data)[at + r];
    }
}
