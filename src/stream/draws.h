/* SPDX-License-Identifier: BSD-3-Clause */
/* draws.h - draws the columns and cells of a tensor at which a loss is estimated instead of at all
 * cells (stream/row_update.h, DESCEND). Random numbers are functions of a counter, so every backend
 * draws the same columns and cells, and none is stored.
 *
 * n cells are drawn, n being a power of four. In mode m, drawn cell c has the row p(c) rows(m) / n,
 * rounded down, where rows(m) is the number of rows and p a permutation of 0 .. n-1 of that mode.
 * So each row of a mode has an equal share of the drawn cells, and the inverse of p finds the drawn
 * cells of a row. Each drawn cell counts for (number of cells of the tensor) / n cells. If the
 * tensor has at most n cells, each of its cells is used once. The estimate is a fixed function of
 * the factors, and the gradients of all modes are its exact gradients, as a line search requires.
 *
 *   owner    plain values
 *   threads  pure
 *   errors   none
 */
#ifndef TS_STREAM_DRAWS_H
#define TS_STREAM_DRAWS_H

#include <math.h>
#include <string.h>

#include "base/anywhere.h"
#include "base/rng.h"
#include "format/tensor.h"
#include "stream/row_update.h"

/* Returns the number in [0, 1) that decides which row of another mode, `number`, drawn column k of
 * n has. Exactly one of the n numbers is in each n-th part of the interval, so that rows are drawn
 * evenly. The order of the parts differs with `number`. */
TS_ANYWHERE static inline double ts_draw_unit(uint64_t seed, uint64_t draw, uint32_t mode,
                                              uint32_t number, uint32_t k, uint32_t n)
{
    const uint64_t key = ts_mix(ts_mix(ts_mix(seed ^ draw << 32) + mode) + number);
    const double part = (double)ts_permute(k, n, key);
    return fmin((part + ts_unit(ts_mix(ts_mix(~key) + k))) / n, 1 - 0x1p-53);
}

/* Returns the number of columns of a mode's unfolding: the combinations of rows of all other
 * modes. */
static inline double ts_draw_columns(const struct ts_tensor *t, uint32_t mode)
{
    double n = 1;
    for (uint32_t m = 0; m < t->order; m++)
        n *= m != mode ? (double)t->mode[m].disk.n_rows : 1;
    return n;
}

/* The drawn cells of a tensor, numbered in the order of their rows in one mode. */
struct ts_drawn_cells {
    uint32_t mode, bits; /* bits: 2^bits cells are drawn */
    int all;             /* 1: no cells are drawn, because all cells of the tensor are used */
    double weight;       /* number of cells that each drawn cell stands for */
    uint64_t of_row;     /* with `all`: number of cells in each row of `mode` */
    uint64_t key[TS_MAX_ORDER], n_rows[TS_MAX_ORDER];
};

/* Returns the cells that `descent` draws; descent->n_cells is a power of four, at most 2^32. */
static inline struct ts_drawn_cells ts_drawn_cells_of(const struct ts_tensor *t, uint32_t mode,
                                                      const struct ts_descent *descent)
{
    struct ts_drawn_cells d;
    double cells = 1;
    memset(&d, 0, sizeof d);
    d.mode = mode;
    d.of_row = 1;
    for (uint32_t m = 0; m < t->order; m++) {
        d.n_rows[m] = t->mode[m].disk.n_rows;
        cells *= (double)d.n_rows[m];
        d.key[m] = ts_mix(ts_mix(descent->seed) + m);
    }
    while (UINT64_C(1) << d.bits < descent->n_cells)
        d.bits += 2;
    d.all = cells <= (double)descent->n_cells;
    d.weight = d.all ? 1 : cells / (double)(UINT64_C(1) << d.bits);
    for (uint32_t m = 0; m < t->order && d.all; m++)
        d.of_row *= m != mode ? d.n_rows[m] : 1;
    return d;
}

/* Returns the number of the first drawn cell of a row of d->mode. The row has the cells from it to
 * ts_drawn_first(row + 1) - 1; with `all`, cells 0 .. of_row - 1. */
TS_ANYWHERE static inline uint64_t ts_drawn_first(const struct ts_drawn_cells *d, uint64_t row)
{
    return ((row << d->bits) + d->n_rows[d->mode] - 1) / d->n_rows[d->mode];
}

/* Returns the number of a drawn cell for ts_drawn_row, which does not depend on the mode. k is the
 * position of the cell if the cells are sorted by their rows of d->mode. */
TS_ANYWHERE static inline uint64_t ts_drawn_cell(const struct ts_drawn_cells *d, uint64_t k)
{
    return d->all ? k : ts_permute_back(k, UINT64_C(1) << d->bits, d->key[d->mode]);
}

/* Returns the row in mode m of a drawn cell. To be called for all modes except d->mode in ascending
 * order; *rest is k before the first call. */
TS_ANYWHERE static inline uint64_t ts_drawn_row(const struct ts_drawn_cells *d, uint64_t cell,
                                                uint32_t m, uint64_t *rest)
{
    const uint64_t at = d->all ? *rest % d->n_rows[m] : 0;
    *rest /= d->n_rows[m];
    return d->all ? at
                  : ts_permute(cell, UINT64_C(1) << d->bits, d->key[m]) * d->n_rows[m] >> d->bits;
}

#endif
