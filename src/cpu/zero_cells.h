/* SPDX-License-Identifier: BSD-3-Clause */
/* zero_cells.h - cells that stand for all cells of a tensor, the same ones for every mode.
 *
 * Of n cells, a power of four, cell c has in mode m row  place(m, c) rows(m) / n,  place(m, .) being an order of 0 .. n-1 of its own
 * for each mode, whose inverse is as quick: so each row of each mode has its share of the cells, which are found row by
 * row, and none is stored. Each stands for (number of cells of the tensor) / n of them. Where the tensor has no more than n cells, they
 * are all of them, once. A sum over them is a function of the factors like that over all cells, and the gradients
 * of all modes are its own: what a line search needs.
 *
 *   owner    plain values; tensor, factors and `how` are lent
 *   threads  any, each with scratch of its own
 *   errors   none
 */
#ifndef TS_CPU_ZERO_CELLS_H
#define TS_CPU_ZERO_CELLS_H

#include "cpu/fmat.h"
#include "format/tensor.h"

/* Numbers of float64 that a call needs. */
static inline uint64_t ts_zero_cells_scratch(uint32_t rank)
{
    return (uint64_t)32 * rank;
}

struct ts_zero_cells {
    const struct ts_tensor *tensor;
    const struct ts_fmat *factor; /* of all modes */
    const struct ts_descent *how;
    uint32_t mode, rank, bits; /* n = 2^bits */
    int all;                   /* every cell counts */
    double weight;             /* of each */
    uint64_t of_row;           /* cells of a row, where all count */
    uint64_t key[TS_MAX_ORDER];
};

/* For rows of `mode`; how->n_cells is a power of four, at most 2^32. */
struct ts_zero_cells ts_zero_cells_of(const struct ts_tensor *t, uint32_t rank, uint32_t mode,
                                      const struct ts_fmat *factor, const struct ts_descent *how);

/* Of a row and its entries a: g += sum over its cells of weight (g(0, m) - linear) p; or, g being NULL, returns that of
 * weight (f(0, m) - linear m). */
double ts_zero_cells_row(const struct ts_zero_cells *z, uint64_t row, const double *a,
                         double *scratch, double *g);

#endif
