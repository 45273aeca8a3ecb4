/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepares a factor for multiplicative updates, and stores their result. It scales columns, and
 * marks entries near zero that should grow, because their weighted sum was above 1. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "cpu/losses/rounds_state.h"

/* Returns the last bit of an entry, which marks it if it is not zero. */
static int last_bit(const struct ts_rounds *r, const void *row, uint32_t c)
{
    uint64_t wide;
    uint32_t narrow;
    if (r->precision == TS_FLOAT32) {
        memcpy(&narrow, (const float *)row + c, sizeof narrow);
        return (int)(narrow & 1);
    }
    memcpy(&wide, (const double *)row + c, sizeof wide);
    return (int)(wide & 1);
}

static void set_last_bit(const struct ts_rounds *r, void *row, uint32_t c, int bit)
{
    uint64_t wide;
    uint32_t narrow;
    if (r->precision == TS_FLOAT32) {
        memcpy(&narrow, (float *)row + c, sizeof narrow);
        narrow = (narrow & ~UINT32_C(1)) | (uint32_t)bit;
        memcpy((float *)row + c, &narrow, sizeof narrow);
    } else {
        memcpy(&wide, (double *)row + c, sizeof wide);
        wide = (wide & ~UINT64_C(1)) | (uint64_t)bit;
        memcpy((double *)row + c, &wide, sizeof wide);
    }
}

static int has_mark(const struct ts_rounds *r, const void *row, uint32_t c)
{
    const double a = ts_item(row, c, r->precision);
    return a == 0 ? signbit(a) != 0 : a < TS_ROW_ZERO && last_bit(r, row, c);
}

/* row[c] := a, which is not negative, with a mark that says whether it should not be zero. A
 * denormal number becomes 0. */
static void set_marked(const struct ts_rounds *r, void *row, uint32_t c, double a, int mark)
{
    const double least = r->precision == TS_FLOAT32 ? FLT_MIN : DBL_MIN;
    if (a < least) {
        ts_set_item(row, c, r->precision, mark ? -0.0 : 0.0);
        return;
    }
    ts_set_item(row, c, r->precision, a);
    if (a < TS_ROW_ZERO)
        set_last_bit(r, row, c, mark);
}

void ts_rounds_begin_rows(const struct ts_rounds *r, const struct ts_fmat *f,
                          const struct ts_multiply *multiply, struct ts_fmat *apart)
{
#pragma omp parallel for num_threads(r->threads) schedule(static)
    for (uint64_t i = 0; i < f->n_rows; i++) {
        const void *from = ts_fmat_row(f, i);
        void *to = ts_fmat_row(apart, i);
        for (uint32_t c = 0; c < r->stride; c++) {
            const double a = ts_item(from, c, r->precision);
            const double more = multiply->grow > 0 && has_mark(r, from, c) ? multiply->grow : 0;
            ts_set_item(to, c, r->precision,
                        c >= r->rank ? 0 : (fabs(a) + more) * multiply->weight[c]);
        }
    }
}

void ts_rounds_sum_columns(const struct ts_rounds *r, const struct ts_fmat *apart, double *ret)
{
    const uint64_t groups = (apart->n_rows + TS_ROUNDS_GROUP - 1) / TS_ROUNDS_GROUP;
#pragma omp parallel for num_threads(r->threads) schedule(static)
    for (uint64_t g = 0; g < groups; g++) {
        double *sum = r->column + g * r->rank;
        const uint64_t end =
            (g + 1) * TS_ROUNDS_GROUP < apart->n_rows ? (g + 1) * TS_ROUNDS_GROUP : apart->n_rows;
        memset(sum, 0, r->rank * sizeof *sum);
        for (uint64_t i = g * TS_ROUNDS_GROUP; i < end; i++)
            for (uint32_t c = 0; c < r->rank; c++)
                sum[c] += fabs(ts_item(ts_fmat_row(apart, i), c, r->precision));
    }
    memset(ret, 0, r->rank * sizeof *ret);
    for (uint64_t g = 0; g < groups; g++)
        ts_rounds_add_row(r, r->column + g * r->rank, ret);
}

void ts_rounds_end_rows(const struct ts_rounds *r, const struct ts_fmat *apart,
                        const double *column, struct ts_fmat *f)
{
#pragma omp parallel for num_threads(r->threads) schedule(static)
    for (uint64_t i = 0; i < f->n_rows; i++) {
        const void *from = ts_fmat_row(apart, i);
        void *to = ts_fmat_row(f, i);
        for (uint32_t c = 0; c < r->rank; c++) {
            const double b = ts_item(from, c, r->precision);
            const double a = column[c] > 0 ? fabs(b) / column[c] : 0;
            set_marked(r, to, c, a, signbit(b) != 0);
        }
    }
}
