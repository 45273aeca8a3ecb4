/* SPDX-License-Identifier: BSD-3-Clause */
/* pass.h - one MTTKRP over all shards of a mode, on all threads.
 *
 * Threads share the shards that the feed lends: a thread takes the next partition of the newest
 * shard, and the thread that finishes a shard's last partition gives it back. The rows that a
 * partition writes depend only on its place in the file. Its first row may have begun in the
 * partition before, so that row goes to `heads`, which are added afterwards in file order, in
 * float64. So the bits depend neither on threads nor on the order in which shards arrive.
 *
 * Of several ranks each computes a range of the partitions (share.h), and has the rows that end in
 * it.
 *
 *   owner    the pass owns heads and scratch, made for the largest mode; the caller the matrices
 *   threads  one thread calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code: what the feed failed with
 */
#ifndef TS_CPU_PASS_H
#define TS_CPU_PASS_H

#include "cpu/fmat.h"
#include "cpu/sparse/kernel.h"
#include "stream/feed/feed.h"

struct ts_pass;

int ts_pass_new(const struct ts_backend_conf *conf, enum ts_isa isa, uint32_t threads,
                struct ts_pass **ret, struct ts_err *err);
void ts_pass_free(struct ts_pass *pass); /* NULL is fine */

/* How the ranks divide the work (share.h); NULL: there is one. */
struct ts_share;
struct ts_share *ts_pass_share(const struct ts_pass *pass);
struct ts_plain *ts_pass_plain(const struct ts_pass *pass); /* lent; or NULL */

/* A pass that was made without memory for blocks that are kept decoded gets those of another pass
 * over the tensor, which stays until this one is freed. Not both at once. */
void ts_pass_lend_plain(struct ts_pass *pass, struct ts_plain *plain);

/* The first pass over each mode tells `needs` (cpu/ranks/needs.h) which rows its nonzeros have. */
struct ts_needs;
void ts_pass_walk(struct ts_pass *pass, struct ts_needs *needs);
uint64_t ts_pass_bytes(const struct ts_backend_conf *conf, uint32_t threads);

/* The columns of one model. Each has the bits that it has in matrices of that model alone. */
struct ts_pass_model {
    uint32_t col;        /* its first in the rows of all factors; a multiple of 64 bytes */
    struct ts_fmat *out; /* := its MTTKRP of the mode, with its rest where it has place for that */
    /* what is multiplied and summed in: for factors in float32 it may be float64 in the last
     * mode */
    enum ts_precision summed;
    const struct ts_row_update
        *update; /* whose `ready` a thread calls beside the products; or NULL */
};

/* Products that come take these nonzeros for zeros. */
void ts_pass_hold_out(struct ts_pass *pass, const struct ts_hold_out *h);

/* The products of n models (n > 0, by column) in one pass over `mode`. factor: matrices with the
 * columns of all models. `out` of the models are views of one matrix, which may be factor[mode]. */
int ts_pass_run(struct ts_pass *pass, uint32_t mode, const struct ts_fmat *factor, uint32_t n,
                const struct ts_pass_model *model, struct ts_feed *feed,
                struct ts_backend_times *times, struct ts_err *err);

/* The weighted passes of n models over `mode` (stream/weighted.h) in one, with the factors as they
 * are: matrices of the pass, or views of them. Values are those of a model alone. */
struct ts_pass_cells {
    const struct ts_fmat *factor;
    const struct ts_weighted *what;
};
int ts_pass_cells(struct ts_pass *pass, uint32_t mode, uint32_t n,
                  const struct ts_pass_cells *model, struct ts_feed *feed,
                  struct ts_backend_times *times, struct ts_err *err);

/* The rows of factor[mode] of n models (n > 0), each solved for with its own Gram matrix
 * (TS_ROW_OBSERVED), in one pass over the shards. Each model has a pass of its own, made alike but
 * for the rank, from which its partial rows are; the first one's works. */
struct ts_pass_rows {
    struct ts_pass *pass;
    struct ts_fmat *factor;
    const struct ts_row_update *update;
    double *size; /* see struct ts_row_sums */
};
int ts_pass_complete(uint32_t mode, uint32_t n, const struct ts_pass_rows *model,
                     struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err);

/* Most models whose products one pass computes. */
#define TS_PASS_MAX_MODELS (TS_FMAT_MAX_STRIDE / 8u)

#endif
