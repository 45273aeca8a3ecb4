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

#define TS_DENSE_TASK_COLS 16u /* of a mode of few rows, whose columns are shared among threads */

/* Some modes whose sizes count the rows of a matrix, the last one fastest. */
struct ts_dense_grid {
    uint32_t n, mode[TS_DENSE_MAX_ORDER];
};

/* What is gathered: the rows of a mode, one of a grid. */
struct ts_dense_target {
    struct ts_dense_grid before, behind;
    uint64_t dim, after; /* of the mode; rows that those behind it count */
    uint32_t row_tasks, col_tasks;
};

/* Of which factors a result was made. */
struct ts_dense_made {
    int there, wide;
    uint64_t version[TS_DENSE_MAX_ORDER];
};

struct ts_dense_product {
    struct ts_dense_product_conf conf;
    const struct ts_dense *dense;
    uint32_t rank, width; /* columns; with those that fill the last panel */
    uint32_t most_width;
    const struct ts_gemm *gemm;
    struct ts_dense_grid outer, inner;
    void *memory;
    uint64_t memory_bytes;
    void *b, *k, *y; /* y: of a slab */
    double *w, *sum, *copy[TS_DENSE_MAX_ORDER];
    char *scratch;
    void *all_y; /* NULL: there is no room for it */
    uint64_t all_bytes;
    uint64_t version[TS_DENSE_MAX_ORDER];
    struct ts_dense_made w_made, y_made;
    struct ts_hold_out hold_out;
    double mean;

    /* of the call */
    int wide;
    const double *table[TS_DENSE_MAX_ORDER];
    uint32_t stride[TS_DENSE_MAX_ORDER];
};

/* ---- dense_slab.c */
/* Bytes of a thread, for rows of so many columns. */
uint64_t ts_dense_slab_scratch(uint32_t width);
/* B. */
void ts_dense_make_b(struct ts_dense_product *p);
/* Y of a slab; and where its rows are whole, what the mode gets of them. y: its row 0 is the slab's
 * first. */
void ts_dense_along_slab(struct ts_dense_product *p, const struct ts_slab_view *v,
                         const struct ts_dense_target *t, void *y);
/* Adds to W what a slab gives. */
void ts_dense_across_slab(struct ts_dense_product *p, const struct ts_slab_view *v);
/* The mode's sums from all n rows of Y, cut every `step` rows as slabs cut them, or of W. wide:
 * they are float64. */
void ts_dense_gather_all(struct ts_dense_product *p, const struct ts_dense_target *t, const void *z,
                         int wide, uint64_t n, uint64_t step);

#endif
