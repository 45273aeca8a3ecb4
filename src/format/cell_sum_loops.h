/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_sum_loops.h - the loops of cell_sum.c by instruction set, for cell_sum.c and its test. All
 * instruction sets give the same sums.
 *
 *   units    numbers, cells
 *   threads  all functions are pure
 *   errors   none
 */
#ifndef TS_FORMAT_CELL_SUM_LOOPS_H
#define TS_FORMAT_CELL_SUM_LOOPS_H

#include "base/machine/isa.h"
#include "format/blocks/unpack.h"
#include "format/cell_sum.h"

/* The keys by which the indices at each level of a mode copy, and its codes, are multiplied in a
 * hash. */
struct ts_cell_sum_keys {
    uint32_t order, n_codes;
    uint64_t level[TS_MAX_ORDER], code[2];
};

struct ts_cell_sum_loops {
    /* s[i] += x[i] * key */
    void (*term)(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key);

    /* s[i] += (high half of x[i]) * key + (low half of x[i]) * weight_key */
    void (*weighted)(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key, uint64_t weight_key);

    /* Adds n cells to *sum. The hash of cell i begins with s[i] + more, the number s in the header
     * of cell_sum.h. */
    void (*mix)(const uint64_t *s, uint32_t n, uint64_t more, struct ts_cell_sum *sum);

    /* Adds the cells of a decoded block whose values and weights are codes. */
    void (*unpacked)(const struct ts_cell_sum_keys *k, const struct ts_unpacked *u,
                     struct ts_cell_sum *sum);

    ts_unpack_fn *unpack; /* the decoder of the same instruction set */
};

/* Loops for each instruction set. The functions are NULL for instruction sets that this build does
 * not support. */
extern const struct ts_cell_sum_loops ts_cell_sum_loops[TS_N_ISA];

#endif
