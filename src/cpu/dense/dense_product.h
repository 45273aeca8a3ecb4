/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_product.h - computes MTTKRPs of a dense tensor (format/arrays/dense.h), without a whole
 * Khatri-Rao matrix.
 *
 * The array is treated as a matrix X of `outer` rows p and `inner` columns c: a row is an index of
 * each outer mode, a column an index of each inner mode. B(c, :) is the product of the factor rows
 * of the inner modes, and K(p, :) that of the outer modes.
 *
 *     Y = X B    is all that the MTTKRPs M of outer modes need: M(i, :) += Y(p, :) times the factor
 *                rows of the other outer modes, over all p with index i;
 *     W = X' K   is all that the MTTKRPs M of inner modes need: M(i, :) += W(c, :) times the factor
 *                rows of the other inner modes.
 *
 * There are few inner columns, so B and W are small. K and Y are computed for one slab (a range of
 * cells that the feed lends) at a time. The memory is rank times the sum of the modes' sizes, and
 * some MiB. If there is memory for the whole Y, it is kept; W is always kept. While their factors
 * stay unchanged, further modes read no cells. So modes that are updated in turn take two passes
 * over the cells in a sweep, instead of one for each mode.
 *
 * Cells and factors of float32 are multiplied in float32, in parts of Y and W over at most 256
 * cells. Everything else is summed in float64. All is float64 if cells or factors are, or if the
 * caller asks for it.
 *
 * Unknown cells (NaN) and held-out cells count as 0. From the other cells the mean is subtracted,
 * if there is one.
 *
 *   owner    the object owns intermediate results; the caller owns the matrices
 *   threads  one thread calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code
 *   bits     do not depend on threads, on the budget, or on whether Y is kept: one thread sums an
 *            entry, in the order of the slabs and of the cells in them
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
    uint64_t spare_bytes; /* memory for Y (the cells times the inner factors) */
    /* called with the number of cells of each finished slab; or NULL */
    void (*done)(void *ctx, uint64_t cells);
    void *done_ctx;
};

int ts_dense_product_new(const struct ts_dense_product_conf *conf, struct ts_dense_product **ret,
                         struct ts_err *err);
void ts_dense_product_free(struct ts_dense_product *p); /* p may be NULL */

/* _bytes: what ts_dense_product_new allocates, except for Y (the cells times the inner factors).
 * _wish: the bytes of Y. */
uint64_t ts_dense_product_bytes(const struct ts_dense_product_conf *conf);
uint64_t ts_dense_product_wish(const struct ts_dense_product_conf *conf);

/* Sets the held-out cells (share 0: none) and the mean for later products. Initially no cells are
 * held out, and no mean is subtracted. */
void ts_dense_product_learn(struct ts_dense_product *p, const struct ts_hold_out *hold_out,
                            double mean);

/* To be called if factor[mode] has changed since the last ts_dense_product_run. */
void ts_dense_product_changed(struct ts_dense_product *p, uint32_t mode);

/* Sets `out` to the MTTKRP of the mode, and its `rest`, if it exists, to the remainders lost by
 * rounding to float32. `out` may be factor[mode]. */
int ts_dense_product_run(struct ts_dense_product *p, uint32_t mode, const struct ts_fmat *factor,
                         struct ts_fmat *out, enum ts_precision summed, struct ts_feed *feed,
                         struct ts_backend_times *times, struct ts_err *err);

/* Returns the MTTKRP of the last call of ts_dense_product_run in float64: n_rows x rank. */
const double *ts_dense_product_sums(const struct ts_dense_product *p);

#endif
