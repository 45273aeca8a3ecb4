/* SPDX-License-Identifier: BSD-3-Clause */
/* shard_writer.h - writes the shards of one mode to modeK.shards.
 *
 * The caller puts shards in order, as lists of packed partitions. The threads of the writer, and
 * callers that would otherwise wait for them, join the partitions, compress the shards, compute
 * their hashes and write them, several shards at a time. If the file system allows it, writes
 * bypass the page cache, because shards are read only much later.
 *
 *   owner    the writer owns the file until finish, and the partitions of the shards that were put
 *   units    32-bit words; bytes of the file
 *   threads  put: one thread at a time; make_room and help: any number of threads, also during put;
 *            other functions: one thread
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

/* A file larger than this is extended by at least this many bytes at a time. */
#define TS_SHARD_WRITER_AHEAD (UINT64_C(64) << 20)

/* A shard that is being made from partitions. */
struct ts_shard_draft {
    struct ts_packed_partition *first, *last;
    uint32_t n_blocks, body_words, nnz, row_first, row_last;
};

struct ts_shard_writer;

struct ts_shard_writer_plan {
    const char *path; /* path of the file, which must not exist */
    int compress;     /* 1: shards are compressed with LZ4 if that saves a tenth */
    /* order of the tensor; 0: partitions have no blocks, and cells are not decoded for the
     * checksum */
    uint32_t order, n_codes;
    uint8_t level[TS_MAX_ORDER]; /* modes in the order of levels */
    uint32_t threads;            /* number of threads that the writer starts */
    uint32_t n_buffers;          /* most shards that are joined and written at the same time */
    /* the pool of the partitions; NULL: malloc has allocated them, and partition_bytes is no
     * limit */
    struct ts_partition_pool *pool;
    /* ts_shard_writer_make_room waits while more bytes than this of the pool are in use */
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

/* Waits until few shards wait to be written and partitions use little memory. The caller may write
 * some of these shards meanwhile. */
int ts_shard_writer_make_room(struct ts_shard_writer *w, struct ts_err *err);

/* Writes shards until no shard waits. */
void ts_shard_writer_help(struct ts_shard_writer *w);

/* Completes the file. *shard has n_shards entries, and the caller frees it. *file_bytes is the end
 * of the last shard. *cells: the checksum over all cells, decoded from the bytes of the shards
 * (ts_cell_sum_shard). */
int ts_shard_writer_finish(struct ts_shard_writer *w, struct ts_disk_shard **shard,
                           uint64_t *n_shards, uint64_t *file_bytes, struct ts_cell_sum *cells,
                           struct ts_err *err);

/* Adds the next partition to the draft. */
void ts_shard_draft_add(struct ts_shard_draft *draft, struct ts_packed_partition *p);

/* Puts the partitions of the draft back into the pool. */
void ts_shard_draft_drop(struct ts_shard_draft *draft, struct ts_partition_pool *pool);

/* Returns 1 if a partition of n_blocks blocks and n_words words fits in a shard that already has
 * `blocks` blocks and `body_words` words, and 0 if it must begin the next shard. */
int ts_shard_draft_joins(uint64_t blocks, uint64_t body_words, uint32_t n_blocks, uint32_t n_words,
                         uint64_t shard_bytes);

/* Counts the nonzeros of slices that may continue in the next partition. Partitions are added in
 * order. The results are the nonzeros of the largest slice, and the sum of the squares of all
 * values. */
struct ts_slice_count {
    uint32_t row; /* row of the last nonzero so far; UINT32_MAX: no nonzero */
    uint64_t nnz, largest;
    double sum_of_squares;
};
void ts_slice_count_follow(struct ts_slice_count *w, const struct ts_packed_partition *s);

#endif
