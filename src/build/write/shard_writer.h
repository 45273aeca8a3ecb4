/* SPDX-License-Identifier: BSD-3-Clause */
/* shard_writer.h - puts the shards of one mode into modeK.shards.
 *
 * Shards come in order, as lists of packed partitions. The writer's own threads, and callers that
 * would otherwise wait for them, join the partitions, compress, hash and write, several shards at a
 * time. Where the file system allows it, the page cache is bypassed: these bytes are read only much
 * later.
 *
 *   owner    the writer owns the file until it is finished, and the partitions that it is given
 *   units    32-bit words; bytes of the file
 *   threads  put: one at a time; make_room and help: any number, also beside put; the rest: one
 *   errors   0 or a negative ts_code; after a failure shards are dropped, and only free is of use
 */
#ifndef TS_BUILD_SHARD_WRITER_H
#define TS_BUILD_SHARD_WRITER_H

#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"
#include "build/write/partition_pool.h"
#include "format/cell_sum.h"

/* A file that is larger than this is extended by at least so many bytes at a time. */
#define TS_SHARD_WRITER_AHEAD (UINT64_C(64) << 20)

/* A shard that partitions are added to. */
struct ts_shard_draft {
    struct ts_packed_partition *first, *last;
    uint32_t n_blocks, body_words, nnz, row_first, row_last;
};

struct ts_shard_writer;

struct ts_shard_writer_plan {
    const char *path;            /* must not exist */
    int compress;                /* LZ4 where it saves something */
    uint32_t order, n_codes;     /* order 0: partitions hold no blocks, and are not decoded again */
    uint8_t level[TS_MAX_ORDER]; /* modes in the order of the copy */
    uint32_t threads;            /* of the writer's own */
    uint32_t n_buffers;          /* most shards that are joined and written at a time */
    /* memory of the partitions; NULL: from malloc, and not counted */
    struct ts_partition_pool *pool;
    uint64_t partition_bytes; /* make_room waits while more of the pool is in use */

    /* Shards go to a file that is open already, from byte `at` on; the caller closes it. */
    int has_file, file;
    uint64_t at;
};

int ts_shard_writer_new(const struct ts_shard_writer_plan *plan, struct ts_shard_writer **ret,
                        struct ts_err *err);
void ts_shard_writer_free(struct ts_shard_writer *w); /* NULL is fine; the file stays */

/* Takes the next shard and empties the draft. Does not wait. */
int ts_shard_writer_put(struct ts_shard_writer *w, struct ts_shard_draft *draft,
                        struct ts_err *err);

/* Waits until few shards are waiting and their partitions take little memory. It may write some of
 * them itself. */
int ts_shard_writer_make_room(struct ts_shard_writer *w, struct ts_err *err);

/* Writes shards that wait, until none does. */
void ts_shard_writer_help(struct ts_shard_writer *w);

/* Completes the file. *shard, to be freed, has n_shards entries; file_bytes is where the last one
 * ends. *cells: the sum of all cells, decoded from the bytes of the shards (ts_cell_sum_shard). */
int ts_shard_writer_finish(struct ts_shard_writer *w, struct ts_disk_shard **shard,
                           uint64_t *n_shards, uint64_t *file_bytes, struct ts_cell_sum *cells,
                           struct ts_err *err);

/* Adds the next partition. */
void ts_shard_draft_add(struct ts_shard_draft *draft, struct ts_packed_partition *p);

/* Gives the draft's partitions back to the pool. */
void ts_shard_draft_drop(struct ts_shard_draft *draft, struct ts_partition_pool *pool);

/* Whether a partition joins a shard of so many blocks and words, or begins the next one. */
int ts_shard_draft_joins(uint64_t blocks, uint64_t body_words, uint32_t n_blocks, uint32_t n_words,
                         uint64_t shard_bytes);

/* Nonzeros of slices over partitions in their order: the largest of them, and the squares of all
 * values. */
struct ts_slice_count {
    uint32_t row; /* of the last nonzero; UINT32_MAX at first */
    uint64_t nnz, largest;
    double sum_of_squares;
};
void ts_slice_count_follow(struct ts_slice_count *w, const struct ts_packed_partition *s);

#endif
