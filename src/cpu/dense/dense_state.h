/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_state.h - what the files of products of dense tensors share.
 *
 *   dense_product.c  which products there are, and which passes over the slabs they need
 *   dense_slab.c     what a slab gives, by all threads
 *
 *   owner    dense_product.c makes and frees it
 *   threads  one thread calls; a function of dense_slab.c has a team of its own
 */
#ifndef TS_CPU_DENSE_STATE_H
#define TS_CPU_DENSE_STATE_H

#include "cpu/dense/dense_gemm.h"
#include "cpu/dense/dense_product.h"
#include "stream/feed/slabs.h"

#define TS_DENSE_TASK_COLS 16u /* columns of a mode with few rows that a thread takes at a time */

/* Modes whose indices together count the rows of a matrix. The last mode is the fastest one. */
struct ts_dense_grid {
    uint32_t n, mode[TS_DENSE_MAX_ORDER];
};

/* The target of a sum: the rows of a mode, which is one of a grid. */
struct ts_dense_target {
    struct ts_dense_grid before, behind;
    uint64_t dim, after; /* size of the mode; product of the sizes of the modes behind it */
    uint32_t row_tasks, col_tasks;
};

/* The factors that a result was made from. */
struct ts_dense_made {
    int there, wide;
    uint64_t version[TS_DENSE_MAX_ORDER];
};

struct ts_dense_product {
    struct ts_dense_product_conf conf;
    const struct ts_dense *dense;
    uint32_t rank, width; /* number of columns; the same with padding to whole panels */
    uint32_t most_width;
    const struct ts_gemm *gemm;
    struct ts_dense_grid outer, inner;
    void *memory;
    uint64_t memory_bytes;
    void *b, *k, *y; /* y: rows of one slab */
    double *w, *sum, *copy[TS_DENSE_MAX_ORDER];
    char *scratch;
    void *all_y; /* rows of Y for the whole array; NULL: memory does not suffice */
    uint64_t all_bytes;
    uint64_t version[TS_DENSE_MAX_ORDER];
    struct ts_dense_made w_made, y_made;
    struct ts_hold_out hold_out;
    double mean;

    /* set for each call */
    int wide;
    const double *table[TS_DENSE_MAX_ORDER];
    uint32_t stride[TS_DENSE_MAX_ORDER];
};

/* ---- dense_slab.c */
/* Scratch bytes of a thread for rows of `width` columns. */
uint64_t ts_dense_slab_scratch(uint32_t width);
/* Computes B. */
void ts_dense_make_b(struct ts_dense_product *p);
/* Computes Y of a slab. If its rows are whole, adds their part to the sums of the mode. Row 0 of y
 * is the first one of the slab. */
void ts_dense_along_slab(struct ts_dense_product *p, const struct ts_slab_view *v,
                         const struct ts_dense_target *t, void *y);
/* Adds the part of a slab to W. */
void ts_dense_across_slab(struct ts_dense_product *p, const struct ts_slab_view *v);
/* Computes the mode's sums from W, or from all n rows of Y, divided every `step` rows as slabs are.
 * wide: they are float64. */
void ts_dense_gather_all(struct ts_dense_product *p, const struct ts_dense_target *t, const void *z,
                         int wide, uint64_t n, uint64_t step);

#endif
