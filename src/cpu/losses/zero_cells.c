/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums the loss at value 0, or its gradient, over a sample of the cells of a row. */
#include "cpu/losses/zero_cells.h"

#include "stream/loss.h"

#define SOME 32u /* sampled cells at which the model is computed together */

struct ts_zero_cells ts_zero_cells_of(const struct ts_tensor *t, uint32_t rank, uint32_t mode,
                                      const struct ts_fmat *factor,
                                      const struct ts_descent *descent)
{
    const struct ts_zero_cells z = { .order = t->order,
                                     .rank = rank,
                                     .factor = factor,
                                     .descent = descent,
                                     .drawn = ts_drawn_cells_of(t, mode, descent) };
    return z;
}

/* to := the elementwise product of the other modes' rows at cell k of the sample for this row. The
 * sample may be all cells. */
static void get_cell(const struct ts_zero_cells *z, uint64_t k, double *to)
{
    const uint64_t cell = ts_drawn_cell(&z->drawn, k);
    uint64_t rest = k;
    for (uint32_t r = 0; r < z->rank; r++)
        to[r] = 1;
    for (uint32_t m = 0; m < z->order; m++) {
        const struct ts_fmat *f = &z->factor[m];
        uint64_t row;
        if (m == z->drawn.mode)
            continue;
        row = ts_drawn_row(&z->drawn, cell, m, &rest);
        if (f->precision == TS_FLOAT32)
            for (uint32_t r = 0; r < z->rank; r++)
                to[r] *= (double)((const float *)f->data)[row * f->stride + r];
        else
            for (uint32_t r = 0; r < z->rank; r++)
                to[r] *= ((const double *)f->data)[row * f->stride + r];
    }
}

/* Sums the loss at value 0, or its gradient g, over n cells. `product` has the products of the
 * other factors' rows at these cells. */
static double sum_some(const struct ts_zero_cells *z, uint32_t n, const double *a,
                       const double *product, double *g)
{
    static const double zero[SOME];
    const struct ts_loss *loss = z->descent->loss;
    double model[SOME] = { 0 }, slope[SOME], sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t r = 0; r < z->rank; r++)
            model[i] += a[r] * product[(uint64_t)i * z->rank + r];
        sum -= loss->linear != 0 ? loss->linear * model[i] : 0;
    }
    if (g == NULL)
        return z->drawn.weight * (sum + loss->judge(n, zero, model, z->descent->at));
    loss->weigh(n, zero, model, z->descent->at, slope);
    for (uint32_t i = 0; i < n; i++) {
        const double w = z->drawn.weight * (slope[i] - loss->linear);
        for (uint32_t r = 0; r < z->rank; r++)
            g[r] += w * product[(uint64_t)i * z->rank + r];
    }
    return 0;
}

double ts_zero_cells_row(const struct ts_zero_cells *z, uint64_t row, const double *a,
                         double *scratch, double *g)
{
    const int all = z->drawn.all;
    const uint64_t first = all ? 0 : ts_drawn_first(&z->drawn, row);
    const uint64_t end = all ? z->drawn.of_row : ts_drawn_first(&z->drawn, row + 1);
    double sum = 0;
    for (uint64_t k = first; k < end; k += SOME) {
        const uint32_t n = end - k < SOME ? (uint32_t)(end - k) : SOME;
        for (uint32_t i = 0; i < n; i++)
            get_cell(z, k + i, scratch + (uint64_t)i * z->rank);
        sum += sum_some(z, n, a, scratch, g);
    }
    return sum;
}
