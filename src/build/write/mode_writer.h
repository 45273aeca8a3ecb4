/* SPDX-License-Identifier: BSD-3-Clause */
/* mode_writer.h - packs the sorted nonzeros of one mode into modeK.shards.
 *
 * All threads pack partitions at once. These are put in order into shards, which are written to the
 * disk meanwhile (shard_writer.h). The bytes written depend only on the nonzeros and on
 * shard_bytes.
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

struct ts_spare {
    void *mem;
    uint64_t bytes; /* bytes of the memory; 0: none */
    int stays;      /* 1: nothing else uses the memory until ts_mode_writer_end */
};

struct ts_mode_writer_plan {
    const char *path;            /* path of modeK.shards, which must not exist */
    uint32_t order, threads;     /* threads: most threads that pack; fewer if memory is short */
    uint8_t level[TS_MAX_ORDER]; /* modes in the order of the fields */
    /* most bytes of an uncompressed shard; one with a single partition may be larger */
    uint64_t shard_bytes;
    /* bytes for packing and writing; more are used if they are needed */
    uint64_t memory;
    struct ts_record_layout layout;
    const struct ts_value_code *code;
    /* 1: the field of a value has its code in the high bits, and its weight in the low 32 bits */
    int weights;
    int want_norm; /* 1: the squares of the values are added up */

    /* several ranks that write one file (partition_deal.h); NULL: one process */
    struct ts_build_comm *ranks;
    const char *tmp; /* directory of the ranks' temporary files */
    /* memory that is free from the first record until finish returns, or longer; NULL: none */
    const struct ts_spare *spare;
    _Atomic uint64_t *work; /* grows with the nonzeros that are packed; may be NULL */
};

struct ts_mode_written {
    struct ts_disk_shard *shard; /* table of shards; the caller frees it */
    uint64_t n_shards, file_bytes, largest_slice;
    uint32_t max_raw_bytes;
    /* sum over partitions in their order, so it is the same for any number of threads */
    double sum_of_squares;
    /* sum over the cells (rows and codes), decoded from the shards that this process has written */
    struct ts_cell_sum cells;
};

/* Returns the most bytes into which nnz records of `bits` bits are packed. Includes the records of
 * higher ranks that complete this rank's last partition. */
uint64_t ts_mode_writer_packed_bytes(uint64_t nnz, uint32_t bits);

/* Returns the least memory of a writer (threads 0), or the most that this number of threads can
 * use. */
uint64_t ts_mode_writer_bytes(uint32_t order, uint32_t threads, uint64_t shard_bytes);

int ts_mode_writer_new(const struct ts_mode_writer_plan *plan, struct ts_mode_writer **ret,
                       struct ts_err *err);
void ts_mode_writer_free(struct ts_mode_writer *w); /* w may be NULL; the file stays */

/* Adds the next n records, which must be in order. */
int ts_mode_writer_add(struct ts_mode_writer *w, const uint64_t *rec, uint64_t n,
                       struct ts_err *err);

/* Packs and writes what is left, unless rc, the result so far, is a failure. The file is on disk
 * only after an fsync (ts_build_dir_commit). With several ranks all must call it, whatever rc
 * is. */
int ts_mode_writer_finish(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                          struct ts_err *err);

/* With several ranks, in place of finish: shards may be written in the background. begin_end sets
 * *ret without shards. end completes it; all ranks must call it, whatever rc is. wait, in between,
 * waits until the spare memory is free again. */
int ts_mode_writer_begin_end(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                             struct ts_err *err);
void ts_mode_writer_wait(struct ts_mode_writer *w);
int ts_mode_writer_end(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                       struct ts_err *err);

#endif
