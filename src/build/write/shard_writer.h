/* SPDX-License-Identifier: BSD-3-Clause */
/* shard_writer.h - writes the shards of one mode to modeK.shards.
 *
 * Shards are given in order, as lists of packed partitions. The writer's own threads, and callers
 * that would otherwise wait for them, join the partitions, compress, hash and write, several shards
 * at a time. Where the file system allows it, the page cache is bypassed: these bytes are read only
 * much later.
 *
 *   owner    the writer owns the file until it is finished, and the partitions that are given to it
 *   units    32-bit words; bytes of the file
 *   threads  put: one at a time; make_room and help: any number, also beside put; the rest: one
 *   errors   0 or a negative ts_code; after a failure shards are dropped, and only free may be
 *            called
 */
#ifndef TS_BUILD_SHARD_WRITER_H
#define TS_BUILD_SHARD_WRITER_H

#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"
#include "build/write/partition_pool.h"
#include "format/cell_sum.h"

/* When a file exceeds this size, it is extended by at least so many bytes at a time. */
#define TS_SHARD_WRITER_AHEAD (UINT64_C(64) << 20)

/* A shard that is being made from partitions. */
struct ts_shard_draft {
    struct ts_packed_partition *first, *last;
    uint32_t n_blocks, body_words, nnz, row_first, row_last;
};

struct ts_shard_writer;

struct ts_shard_writer_plan {
    const char *path; /* path of the file, which must not exist */
    int compress;     /* 1: shards are compressed by LZ4 if that saves enough */
    /* order 0: partitions hold no blocks, and are not decoded for the sum of cells */
    uint32_t order, n_codes;
    uint8_t level[TS_MAX_ORDER]; /* modes in the order of the copy */
    uint32_t threads;            /* number of the writer's own threads */
    uint32_t n_buffers;          /* most shards that are joined and written at the same time */
    /* the pool of the partitions; NULL: they are from malloc, and not counted */
    struct ts_partition_pool *pool;
    /* ts_shard_writer_make_room waits while more bytes of the pool are in use */
    uint64_t partition_bytes;

    /* has_file 1: shards are written to an open file, from byte `at` on. The caller closes it. */
    int has_file, file;
    uint64_t at;
};

int ts_shard_writer_new(const struct ts_shard_writer_plan *plan, struct ts_shard_writer **ret,
                        struct ts_err *err);
void ts_shard_writer_free(struct ts_shard_writer *w); /* w may be NULL; the file stays */

/* Adds the draft as the next shard and empties it. Does not wait for the disk. */
int ts_shard_writer_put(struct ts_shard_writer *w, struct ts_shard_draft *draft,
                        struct ts_err *err);

/* Waits until few shards wait to be written and their partitions use little memory. The caller may
 * have to write some of them. */
int ts_shard_writer_make_room(struct ts_shard_writer *w, struct ts_err *err);

/* Writes waiting shards until there are none left. */
void ts_shard_writer_help(struct ts_shard_writer *w);

/* Completes the file. *shard has n_shards entries, and the caller frees it. *file_bytes is the end
 * of the last shard. *cells: the sum over all cells, decoded from the bytes of the shards
 * (ts_cell_sum_shard). */
int ts_shard_writer_finish(struct ts_shard_writer *w, struct ts_disk_shard **shard,
                           uint64_t *n_shards, uint64_t *file_bytes, struct ts_cell_sum *cells,
                           struct ts_err *err);

/* Adds the next partition to the draft. */
void ts_shard_draft_add(struct ts_shard_draft *draft, struct ts_packed_partition *p);

/* Gives the draft's partitions back to the pool. */
void ts_shard_draft_drop(struct ts_shard_draft *draft, struct ts_partition_pool *pool);

/* Whether a partition of n_blocks and n_words fits in a shard that has `blocks` and `body_words`
 * already, or must begin the next one. */
int ts_shard_draft_joins(uint64_t blocks, uint64_t body_words, uint32_t n_blocks, uint32_t n_words,
                         uint64_t shard_bytes);

/* Counts the nonzeros of slices over partitions, which are added in order: the largest slice, and
 * the sum of squares of all values. */
struct ts_slice_count {
    uint32_t row; /* row of the last nonzero so far; UINT32_MAX: none */
    uint64_t nnz, largest;
    double sum_of_squares;
};
void ts_slice_count_follow(struct ts_slice_count *w, const struct ts_packed_partition *s);

#endif
