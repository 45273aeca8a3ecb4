/* SPDX-License-Identifier: BSD-3-Clause */
/* zero_cells.h - sums a loss or its gradient at value 0, row by row, over the sampled cells that
 * represent all cells of a tensor (stream/draws.h).
 *
 *   owner    plain values; tensor, factors and `descent` are lent
 *   threads  any, each with scratch of its own
 *   errors   none
 */
#ifndef TS_CPU_ZERO_CELLS_H
#define TS_CPU_ZERO_CELLS_H

#include "cpu/fmat.h"
#include "format/tensor.h"
#include "stream/draws.h"

/* Returns the number of doubles that a call of ts_zero_cells_row needs as scratch. */
static inline uint64_t ts_zero_cells_scratch(uint32_t rank)
{
    return (uint64_t)32 * rank;
}

struct ts_zero_cells {
    uint32_t order, rank;
    const struct ts_fmat *factor; /* factors of all modes */
    const struct ts_descent *descent;
    struct ts_drawn_cells drawn;
};

/* Prepares sums for rows of `mode`. descent->n_cells must be a power of four, at most 2^32. */
struct ts_zero_cells ts_zero_cells_of(const struct ts_tensor *t, uint32_t rank, uint32_t mode,
                                      const struct ts_fmat *factor,
                                      const struct ts_descent *descent);

/* Sums over the sampled cells of a row with entries a: g += weight (g(0, m) - linear) p for each
 * cell, where m is its model value, p the product of the other modes' rows, f the loss and g() the
 * slope of f. If g is NULL, returns the sum of weight (f(0, m) - linear m) instead. */
double ts_zero_cells_row(const struct ts_zero_cells *z, uint64_t row, const double *a,
                         double *scratch, double *g);

#endif
