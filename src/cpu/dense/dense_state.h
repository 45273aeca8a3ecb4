/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_state.h - struct ts_dense_product, for the files that compute products of dense tensors.
 *
 *   dense_product.c  decides which results to compute, and which passes over the slabs they need
 *   dense_slab.c     the work of a slab, by all threads
 *
 *   owner    dense_product.c makes and frees it
 *   threads  one thread calls; functions of dense_slab.c open parallel regions
 */
#ifndef TS_CPU_DENSE_STATE_H
#define TS_CPU_DENSE_STATE_H

#include "cpu/dense/dense_gemm.h"
#include "cpu/dense/dense_product.h"
#include "stream/feed/slabs.h"

#define TS_DENSE_TASK_COLS 16u /* columns per task, in a mode with few rows */

/* Some modes in the order of the layout: their indices together number the rows of a matrix, and
 * the last mode changes fastest. */
struct ts_dense_grid {
    uint32_t n, mode[TS_DENSE_MAX_ORDER];
};

/* The mode whose MTTKRP is computed. It is one mode of a grid (all combinations of indices of some
 * modes); `before` and `behind` are the modes of the grid before and after it. */
struct ts_dense_target {
    struct ts_dense_grid before, behind;
    uint64_t dim, after; /* size of the mode; product of the sizes of the modes after it */
    uint32_t row_tasks, col_tasks;
};

/* Records from which versions of the factors Y or W (the cells times the inner or the outer
 * factors) was computed. */
struct ts_dense_made {
    int there, wide;
    uint64_t version[TS_DENSE_MAX_ORDER];
};

struct ts_dense_product {
    struct ts_dense_product_conf conf;
    const struct ts_dense *dense;
    /* rank: number of columns; width: the same with padding to whole panels */
    uint32_t rank, width;
    uint32_t most_width;
    const struct ts_gemm *gemm;
    struct ts_dense_grid outer, inner;
    void *memory;
    uint64_t memory_bytes;
    /* B, the products of inner factor rows; K, those of outer factor rows, and Y = X B, of one
     * slab */
    void *b, *k, *y;
    double *w, *sum, *copy[TS_DENSE_MAX_ORDER];
    char *scratch;
    /* Y (cells times inner factors) of the whole array; NULL: it is not kept, for lack of memory */
    void *all_y;
    uint64_t all_bytes;
    uint64_t version[TS_DENSE_MAX_ORDER];
    struct ts_dense_made w_made, y_made;
    struct ts_hold_out hold_out;
    double mean;

    /* the members below are set in each call of ts_dense_product_run */
    int wide;
    const double *table[TS_DENSE_MAX_ORDER];
    uint32_t stride[TS_DENSE_MAX_ORDER];
};

/* ---- defined in dense_slab.c */
/* Returns the bytes of scratch memory of a thread, for factor rows of `width` columns. */
uint64_t ts_dense_slab_scratch(uint32_t width);
/* Computes B, the products of the inner modes' factor rows. */
void ts_dense_make_b(struct ts_dense_product *p);
/* Computes Y (the cells times the inner factors) of a slab. If the slab has whole rows, also adds
 * what they contribute to the MTTKRP of the target. Row 0 of y is the first row of the slab. */
void ts_dense_along_slab(struct ts_dense_product *p, const struct ts_slab_view *v,
                         const struct ts_dense_target *t, void *y);
/* Adds to W the product of a slab's cells and the outer factors. */
void ts_dense_across_slab(struct ts_dense_product *p, const struct ts_slab_view *v);
/* Computes the MTTKRP of the target from W (the cells times the outer factors), or from all n rows
 * of Y (times the inner ones), summed in groups of `step` rows like slabs. wide: the rows are
 * float64. */
void ts_dense_gather_all(struct ts_dense_product *p, const struct ts_dense_target *t, const void *z,
                         int wide, uint64_t n, uint64_t step);

#endif
