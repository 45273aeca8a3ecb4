/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of rows, a piece of columns at a time. */
#include "model/predict.h"

#include <string.h>

#define COLUMNS 64u /* of a piece: its terms stay in the first-level cache */
#define LANES   4u  /* sums of every fourth term, which do not wait for each other */

/* term := term times n numbers of a row, from `column` of row `row` on */
static void multiply(const struct ts_kruskal *k, uint32_t mode, uint64_t row, uint32_t column,
                     uint32_t n, double *restrict term)
{
    const size_t at = row * k->rank + column;
    if (k->precision == TS_FLOAT32) {
        const float *restrict x = (const float *)k->factor[mode] + at;
        for (uint32_t r = 0; r < n; r++)
            term[r] *= (double)x[r];
    } else {
        const double *restrict x = (const double *)k->factor[mode] + at;
        for (uint32_t r = 0; r < n; r++)
            term[r] *= x[r];
    }
}

static double sum_cell(const struct ts_kruskal *k, const uint64_t *row)
{
    double term[COLUMNS], lane[LANES] = { 0 };
    for (uint32_t column = 0; column < k->rank; column += COLUMNS) {
        const uint32_t left = k->rank - column, n = left < COLUMNS ? left : COLUMNS;
        memcpy(term, k->weight + column, n * sizeof *term);
        memset(term + n, 0, (COLUMNS - n) * sizeof *term);
        for (uint32_t m = 0; m < k->order; m++)
            multiply(k, m, row[m], column, n, term);
        for (uint32_t r = 0; r < n; r += LANES) /* beyond n there are zeros */
            for (uint32_t l = 0; l < LANES; l++)
                lane[l] += term[r + l];
    }
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* The rows of a cell; 0 where one of them is not held: it is zeros. */
static int find_rows(const struct ts_kruskal *k, const uint64_t *index, uint64_t *row)
{
    for (uint32_t m = 0; m < k->order; m++) {
        row[m] = ts_kruskal_find(k, m, index[m]);
        if (row[m] == k->n_rows[m] || (k->index[m] != NULL && k->index[m][row[m]] != index[m]))
            return 0;
    }
    return 1;
}

void ts_predict(const struct ts_kruskal *k, uint64_t n, const uint64_t *index, double *ret)
{
    uint64_t row[TS_MAX_ORDER];
    for (uint64_t i = 0; i < n; i++)
        ret[i] = find_rows(k, index + i * k->order, row) ? sum_cell(k, row) : 0.0;
}

uint64_t ts_predict_beyond(const struct ts_kruskal *k, uint64_t n, const uint64_t *index,
                           uint32_t *mode)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t m = 0; m < k->order; m++)
            if (index[i * k->order + m] >= k->dim[m]) {
                *mode = m;
                return i;
            }
    return n;
}
