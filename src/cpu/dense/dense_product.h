/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_product.h - MTTKRPs of a dense tensor (format/arrays/dense.h), without a matrix of
 * Khatri-Rao products.
 *
 * The array is a matrix X of `outer` rows p and `inner` columns c, each of which stands for the
 * indices of some modes. With B(c, :) and K(p, :) the products of the rows of the factors of the
 * inner and outer modes,
 *
 *     Y = X B    is what the products of all outer modes need of the cells: M(i, :) += Y(p, :)
 *                times the rows of the other outer modes, over all p of index i;
 *     W = X' K   is what those of all inner modes need: M(i, :) += W(c, :) times the rows of the
 *                other inner modes.
 *
 * B and W are as large as the inner modes say, which are few columns, and K and Y are made for a
 * slab at a time: memory is rank times the sum of the sizes, and some MiB. Where there is room for
 * all of Y it is kept, and W always is: while the factors that they were made of stay as they are,
 * further modes need no cell. Modes that are updated in turn so take two passes over the cells in a
 * sweep, instead of one for each mode.
 *
 * Cells and factors of float32 are multiplied in float32, parts of Y and W over at most 256 cells;
 * everything else is summed in float64. All is float64 where cells or factors are, or where that is
 * asked for.
 *
 * Unknown cells, which are NaN, count 0, and so do those that are held out; of the others the mean
 * is subtracted, if there is one.
 *
 *   owner    the object owns all memory between; the caller the matrices
 *   threads  one thread calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code
 *   bits     depend neither on threads nor on the budget, nor on whether Y is kept: an entry is
 *            summed by one thread, in the order of the slabs and of the cells in them
 */
#ifndef TS_CPU_DENSE_PRODUCT_H
#define TS_CPU_DENSE_PRODUCT_H

#include "cpu/fmat.h"
#include "base/machine/isa.h"
#include "format/hold_out.h"
#include "stream/feed/feed.h"

struct ts_dense_product;

struct ts_dense_product_conf {
    const struct ts_tensor *tensor;
    uint32_t rank, threads;
    enum ts_precision precision; /* precision of the factors */
    enum ts_isa isa;
    uint64_t spare_bytes; /* memory for Y */
    /* called with the number of cells of each finished slab; or NULL */
    void (*done)(void *ctx, uint64_t cells);
    void *done_ctx;
};

int ts_dense_product_new(const struct ts_dense_product_conf *conf, struct ts_dense_product **ret,
                         struct ts_err *err);
void ts_dense_product_free(struct ts_dense_product *p); /* p may be NULL */

/* Bytes that ts_dense_product_new allocates besides Y, and bytes of Y. */
uint64_t ts_dense_product_bytes(const struct ts_dense_product_conf *conf);
uint64_t ts_dense_product_wish(const struct ts_dense_product_conf *conf);

/* Sets the held-out cells (share 0: none) and the mean for later products. At first no cell is held
 * out, and there is no mean. */
void ts_dense_product_learn(struct ts_dense_product *p, const struct ts_hold_out *hold_out,
                            double mean);

/* To be called if factor[mode] has changed since the last ts_dense_product_run. */
void ts_dense_product_changed(struct ts_dense_product *p, uint32_t mode);

/* Sets out to the MTTKRP of the mode, and `rest` of out, if it exists, to the part that float32
 * loses. `out` may be factor[mode]. */
int ts_dense_product_run(struct ts_dense_product *p, uint32_t mode, const struct ts_fmat *factor,
                         struct ts_fmat *out, enum ts_precision summed, struct ts_feed *feed,
                         struct ts_backend_times *times, struct ts_err *err);

/* The result of the last call of run in float64: a row of `rank` entries for each index of its
 * mode. */
const double *ts_dense_product_sums(const struct ts_dense_product *p);

#endif
