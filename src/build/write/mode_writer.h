/* SPDX-License-Identifier: BSD-3-Clause */
/* mode_writer.h - packs the sorted nonzeros of one mode into modeK.shards.
 *
 * All threads pack partitions. Packed partitions are added to shards in their order. Shards are
 * written to the disk at the same time (shard_writer.h). The bytes of the file depend only on the
 * nonzeros and on shard_bytes.
 *
 *   owner    the writer owns the file until it is finished
 *   units    records (record.h): a field for each level in the order of `level`, then the code of
 *            the value
 *   threads  called from one; packs with `threads`
 *   errors   0 or a negative ts_code; after a failure only ts_mode_writer_free may be called
 */
#ifndef TS_BUILD_MODE_WRITER_H
#define TS_BUILD_MODE_WRITER_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "format/cell_sum.h"
#include "format/layout.h"
#include "build/ranks/build_comm.h"
#include "build/sort/record.h"
#include "build/value_table.h"

struct ts_mode_writer;

/* Spare memory for packed partitions. */
struct ts_spare {
    void *mem;
    uint64_t bytes; /* bytes of the memory; 0: no memory */
    int stays;      /* 1: nothing else uses the memory until ts_mode_writer_end */
};

struct ts_mode_writer_plan {
    const char *path;            /* path of modeK.shards, which must not exist */
    uint32_t order, threads;     /* threads: most threads that pack */
    uint8_t level[TS_MAX_ORDER]; /* modes in the order of the fields */
    /* most bytes of an uncompressed shard, except that a shard of a single partition may be
     * larger */
    uint64_t shard_bytes;
    /* bytes of memory for packing and writing; with little memory fewer threads pack, and the least
     * memory of ts_mode_writer_bytes is used even if this is less */
    uint64_t memory;
    struct ts_record_layout layout;
    const struct ts_value_code *code;
    /* 1: the field of a value has its code in the high bits, and its weight in the low 32 bits */
    int weights;
    int want_norm; /* 1: sum_of_squares of the result is computed */

    /* the ranks that write the file together (partition_deal.h); NULL: one process */
    struct ts_build_comm *ranks;
    const char *tmp; /* directory for temporary files of the ranks */
    /* memory that nothing else uses from the first record until finish returns, or longer; NULL: no
     * such memory */
    const struct ts_spare *spare;
    _Atomic uint64_t *work; /* grows with the nonzeros that are packed; may be NULL */
};

/* The result of writing the shards of a mode. */
struct ts_mode_written {
    struct ts_disk_shard *shard; /* table of shards; the caller frees it */
    uint64_t n_shards, file_bytes, largest_slice;
    uint32_t max_raw_bytes;
    /* sum of the squares of the values, added in the order of partitions, so that the number of
     * threads does not change it */
    double sum_of_squares;
    /* checksum over the cells (rows and codes), decoded from the shards that this process has
     * written */
    struct ts_cell_sum cells;
};

/* Returns an upper bound of the bytes of nnz packed records of `bits` bits. It includes records of
 * higher ranks that complete the last partition of this rank. */
uint64_t ts_mode_writer_packed_bytes(uint64_t nnz, uint32_t bits);

/* Returns the least memory of a writer if threads is 0, or else the most memory that `threads`
 * threads can use. */
uint64_t ts_mode_writer_bytes(uint32_t order, uint32_t threads, uint64_t shard_bytes);

int ts_mode_writer_new(const struct ts_mode_writer_plan *plan, struct ts_mode_writer **ret,
                       struct ts_err *err);
void ts_mode_writer_free(struct ts_mode_writer *w); /* w may be NULL; the file stays */

/* Adds the next n records of the sorted nonzeros. */
int ts_mode_writer_add(struct ts_mode_writer *w, const uint64_t *rec, uint64_t n,
                       struct ts_err *err);

/* Packs and writes the last records, unless rc is a failure. rc: the result of the work so far. The
 * file is on disk only after an fsync (ts_build_dir_commit). With several ranks, all ranks must
 * call it, whatever rc is. */
int ts_mode_writer_finish(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                          struct ts_err *err);

/* With several ranks, begin_end and end can replace finish, so that a thread may write shards while
 * the caller does other work. begin_end sets *ret, except for the members about shards, which end
 * sets. All ranks must call end, whatever rc is. wait, called between them, waits until spare
 * memory is free again. */
int ts_mode_writer_begin_end(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                             struct ts_err *err);
void ts_mode_writer_wait(struct ts_mode_writer *w);
int ts_mode_writer_end(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                       struct ts_err *err);

#endif
