/* SPDX-License-Identifier: BSD-3-Clause */
/* walk.h - visits the nonzeros of a tensor, with the indices of its input, block by block.
 *
 * A walk visits a mode copy in its order: shard by shard, and block by block inside a shard
 * (TS_BLOCK_NNZ). It reads and checks one shard at a time; backends use stream/feed/feed.h
 * instead, which reads ahead.
 *
 *   owner    the walk owns the lists of used indices; the tensor must stay open
 *   units    indices from 0 in the order of the modes, n x order, row-major; values as float64
 *   threads  read-only once opened: any number of threads may read shards and decode blocks
 *   errors   0 or a negative ts_code: TS_EFORMAT for damaged files
 */
#ifndef TS_FORMAT_WALK_H
#define TS_FORMAT_WALK_H

#include <signal.h>
#include <stdint.h>

#include "format/tensor.h"

struct ts_walk {
    const struct ts_tensor *tensor;
    uint32_t mode;
    /* 1: skip shards that are not on this machine (format/part.h); set by the caller after open */
    int here;
    uint64_t *rows[TS_MAX_ORDER]; /* input index of each row of a mode; NULL: row i is index i */
};

int ts_walk_open(const struct ts_tensor *t, uint32_t mode, struct ts_walk *ret, struct ts_err *err);
void ts_walk_close(struct ts_walk *w); /* a struct of zeros is fine */

/* Reads shard `shard` of the mode copy into raw, which has room for ts_tensor_raw_bytes. */
int ts_walk_read(const struct ts_walk *w, uint64_t shard, void *raw, struct ts_err *err);

/* Decodes block b of a shard that ts_walk_read has read: writes the indices and values of its *n
 * nonzeros, at most TS_BLOCK_NNZ. */
int ts_walk_block(const struct ts_walk *w, uint64_t shard, const void *raw, uint32_t b, uint32_t *n,
                  uint64_t *index, double *value, struct ts_err *err);

/* Called by thread `thread` with n nonzeros, at most TS_PARTITION_NNZ. A negative result ends the
 * walk. */
typedef int ts_walk_fn(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index,
                       const double *value, struct ts_err *err);

/* Calls fn for all nonzeros. One thread visits them in the order of the copy; several threads call
 * fn concurrently and in any order. Returns TS_ESTOP once *stop (may be NULL) is not 0. Memory: a
 * shard and a partition for each thread. */
int ts_walk_all(const struct ts_walk *w, uint32_t threads, ts_walk_fn *fn, void *ctx,
                const volatile sig_atomic_t *stop, struct ts_err *err);

#endif
