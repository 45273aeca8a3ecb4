/* SPDX-License-Identifier: BSD-3-Clause */
/* pass.h - computes an MTTKRP over all shards of a mode, on all threads.
 *
 * Threads share the shards that the feed lends: a thread takes the next partition of the newest
 * shard, and the thread that finishes a shard's last partition gives it back. The rows that a
 * partition writes depend only on its place in the file. Its first row may have begun in the
 * partition before, so the sum of that row goes to `heads`. They are added afterwards in file
 * order, in float64. So the bits depend neither on threads nor on the order in which shards arrive.
 *
 * With several ranks, each rank computes a range of the partitions (share.h), and holds the rows
 * that end in its range.
 *
 *   owner    the pass owns heads and scratch, sized for the largest mode; the caller owns matrices
 *   threads  one thread calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code: that of the feed or of another rank
 */
#ifndef TS_CPU_PASS_H
#define TS_CPU_PASS_H

#include "cpu/fmat.h"
#include "cpu/sparse/kernel.h"
#include "stream/feed/feed.h"

struct ts_pass;

int ts_pass_new(const struct ts_backend_conf *conf, enum ts_isa isa, uint32_t threads,
                struct ts_pass **ret, struct ts_err *err);
void ts_pass_free(struct ts_pass *pass); /* pass may be NULL */

/* Returns how ranks divide the work (share.h), or NULL if there is one rank. */
struct ts_share;
struct ts_share *ts_pass_share(const struct ts_pass *pass);
/* Returns the store of decoded blocks (plain.h), which is lent, or NULL if there is none. */
struct ts_plain *ts_pass_plain(const struct ts_pass *pass);

/* Lends a store of decoded blocks to a pass over the same tensor that has none. The store must
 * outlive the pass, and the two passes must not run at the same time. */
void ts_pass_lend_plain(struct ts_pass *pass, struct ts_plain *plain);

/* Lets the first pass over each mode record in `needs` (cpu/ranks/needs.h) which rows its nonzeros
 * need. */
struct ts_needs;
void ts_pass_walk(struct ts_pass *pass, struct ts_needs *needs);
uint64_t ts_pass_bytes(const struct ts_backend_conf *conf, uint32_t threads);

/* One of the models whose MTTKRPs a pass computes. Each column has the bits that it would have in
 * matrices of this model alone. */
struct ts_pass_model {
    uint32_t col; /* first column of the model in the rows of all factors; a multiple of 64 bytes */
    struct ts_fmat *out; /* gets the MTTKRP, and its remainders if it has a `rest` */
    /* precision of products and sums: that of the factors, or float64 in the last mode */
    enum ts_precision summed;
    /* the update whose `ready` a thread calls during the pass; or NULL */
    const struct ts_row_update *update;
};

/* Sets the nonzeros that later products treat as zeros. */
void ts_pass_hold_out(struct ts_pass *pass, const struct ts_hold_out *h);

/* Computes the MTTKRPs of n models in one pass over `mode`; n > 0, and models are sorted by column.
 * factor: matrices with the columns of all models. `out` of the models are views of one matrix,
 * which may be factor[mode]. */
int ts_pass_run(struct ts_pass *pass, uint32_t mode, const struct ts_fmat *factor, uint32_t n,
                const struct ts_pass_model *model, struct ts_feed *feed,
                struct ts_backend_times *times, struct ts_err *err);

/* One of n models that are evaluated at the nonzeros, for struct ts_weighted (stream/weighted.h),
 * in one pass over the shards of `mode`. factor: matrices of the pass, or views of them. Values
 * have the bits of a pass for one model. */
struct ts_pass_cells {
    const struct ts_fmat *factor;
    const struct ts_weighted *what;
};
int ts_pass_cells(struct ts_pass *pass, uint32_t mode, uint32_t n,
                  const struct ts_pass_cells *model, struct ts_feed *feed,
                  struct ts_backend_times *times, struct ts_err *err);

/* Solves for the rows of factor[mode] of n models (n > 0) in one pass over the shards, each row
 * with its own Gram matrix (TS_ROW_OBSERVED). Each model has a pass object of its own, which
 * differs only in the rank and holds the model's partial sums of rows. The first object makes the
 * pass. */
struct ts_pass_rows {
    struct ts_pass *pass;
    struct ts_fmat *factor;
    const struct ts_row_update *update;
    double *size; /* gets the sum of a' a over the rows a (struct ts_row_sums) */
};
int ts_pass_complete(uint32_t mode, uint32_t n, const struct ts_pass_rows *model,
                     struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err);

/* Most models whose products one pass computes. */
#define TS_PASS_MAX_MODELS (TS_FMAT_MAX_STRIDE / 8u)

#endif
