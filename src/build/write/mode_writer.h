/* SPDX-License-Identifier: BSD-3-Clause */
/* mode_writer.h - packs the sorted nonzeros of one mode into modeK.shards.
 *
 * All threads pack partitions at once. These are put in order into shards, which are written to the
 * disk meanwhile (shard_writer.h). The bytes written depend only on the nonzeros and on
 * shard_bytes.
 *
 *   owner    the writer owns the file until it is finished
 *   units    records (record.h): a field for each level in the order of `level`, then the code
 *   threads  called from one; packs with `threads`
 *   errors   0 or a negative ts_code; after a failure only free
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
    uint64_t bytes; /* 0: there is none */
    int stays;      /* 1: it is nobody else's until ts_mode_writer_end */
};

struct ts_mode_writer_plan {
    const char *path;            /* of modeK.shards, which must not exist */
    uint32_t order, threads;     /* threads: at most; fewer where memory is short */
    uint8_t level[TS_MAX_ORDER]; /* modes in the order of the fields */
    uint64_t shard_bytes;        /* raw; a shard of a single partition may be larger */
    uint64_t memory;             /* for packing and writing; if it needs more, it takes more */
    struct ts_record_layout layout;
    const struct ts_value_code *code;
    /* the low 32 bits of a value are those of its weight, above are those of its code */
    int weights;
    int want_norm; /* sum the squares of the values, too */

    struct ts_build_comm *ranks; /* several write one file (partition_deal.h); NULL: one does */
    const char *tmp;             /* directory of their temporary files */
    /* memory that is free from the first record until finish returns, or longer; NULL: there is
     * none */
    const struct ts_spare *spare;
    _Atomic uint64_t *work; /* grows with the nonzeros packed; NULL: nobody looks */
};

struct ts_mode_written {
    struct ts_disk_shard *shard; /* to be freed */
    uint64_t n_shards, file_bytes, largest_slice;
    uint32_t max_raw_bytes;
    double sum_of_squares; /* added by partition: the same for any number of threads */
    /* decoded from the shards that this process has written: rows and codes */
    struct ts_cell_sum cells;
};

/* Most bytes that nnz records of so many bits are packed into, and those that end a partition of a
 * rank behind them. */
uint64_t ts_mode_writer_packed_bytes(uint64_t nnz, uint32_t bits);

/* The least memory of a writer (threads 0), or as much as this number of threads can use. */
uint64_t ts_mode_writer_bytes(uint32_t order, uint32_t threads, uint64_t shard_bytes);

int ts_mode_writer_new(const struct ts_mode_writer_plan *plan, struct ts_mode_writer **ret,
                       struct ts_err *err);
void ts_mode_writer_free(struct ts_mode_writer *w); /* NULL is fine; the file stays */

/* Takes the next n records, in order. */
int ts_mode_writer_add(struct ts_mode_writer *w, const uint64_t *rec, uint64_t n,
                       struct ts_err *err);

/* Writes what is left, if all went well so far (rc). The file is on disk only after an fsync
 * (ts_build_dir_commit). Of several ranks all call it, whatever rc is. */
int ts_mode_writer_finish(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                          struct ts_err *err);

/* Of several ranks, in place of finish: their shards may be written while the caller goes on. *ret
 * has no shards yet. Then end, which all call, whatever rc is, completes it. wait, before that:
 * spare memory is free again. */
int ts_mode_writer_begin_end(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                             struct ts_err *err);
void ts_mode_writer_wait(struct ts_mode_writer *w);
int ts_mode_writer_end(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                       struct ts_err *err);

#endif
