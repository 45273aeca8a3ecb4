/* SPDX-License-Identifier: BSD-3-Clause */
/* walk.h - the nonzeros of a tensor with the indices of its input, block by block.
 *
 * A mode copy is walked in its order: shard by shard, and inside a shard block by block
 * (TS_BLOCK_NNZ). Shards are read the simple way and checked; backends use stream/feed/feed.h
 * instead.
 *
 *   owner    the walk owns the lists of used slices; the tensor must stay
 *   units    indices from 0 in the order of the modes, n x order, row-major; values as float64
 *   threads  read-only once opened: any number of threads may read shards and decode blocks
 *   errors   0 or a negative ts_code: TS_EFORMAT for what is damaged
 */
#ifndef TS_FORMAT_WALK_H
#define TS_FORMAT_WALK_H

#include <signal.h>
#include <stdint.h>

#include "format/tensor.h"

struct ts_walk {
    const struct ts_tensor *tensor;
    uint32_t mode;
    /* set once it is open: of a part of a tensor (format/part.h) only the shards that are here are
     * walked */
    int here;
    uint64_t *rows[TS_MAX_ORDER]; /* NULL: row i is index i */
};

int ts_walk_open(const struct ts_tensor *t, uint32_t mode, struct ts_walk *ret, struct ts_err *err);
void ts_walk_close(struct ts_walk *w); /* a struct of zeros is fine */

/* Reads shard `shard` of the copy into raw, which has room for ts_tensor_raw_bytes. */
int ts_walk_read(const struct ts_walk *w, uint64_t shard, void *raw, struct ts_err *err);

/* Decodes block b of that shard: *n nonzeros, at most TS_BLOCK_NNZ. */
int ts_walk_block(const struct ts_walk *w, uint64_t shard, const void *raw, uint32_t b, uint32_t *n,
                  uint64_t *index, double *value, struct ts_err *err);

/* Called with n nonzeros, at most TS_PARTITION_NNZ, by thread `thread`; a negative code ends the
 * walk. */
typedef int ts_walk_fn(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index,
                       const double *value, struct ts_err *err);

/* Walks all nonzeros. One thread gives them in the order of the copy; several call fn at once, in
 * any order. TS_ESTOP once *stop (may be NULL) is not 0. Memory: a shard and a partition for each
 * thread. */
int ts_walk_all(const struct ts_walk *w, uint32_t threads, ts_walk_fn *fn, void *ctx,
                const volatile sig_atomic_t *stop, struct ts_err *err);

#endif
