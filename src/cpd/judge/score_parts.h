/* SPDX-License-Identifier: BSD-3-Clause */
/* score_parts.h - struct ts_scoring, a score that is being computed. The files that share it:
 *
 *   score.c          the run: memory, the pass, and the figures derived from sums
 *   score_rows.c     copies the model's rows into the backend
 *   score_sums.c     sums over partitions and slices, from the blocks of nonzeros of the pass
 *   score_largest.c  the largest residuals of threads and ranks
 *
 *   owner    score.c makes and frees it
 *   units    rows of modes from 0
 *   threads  a struct ts_score_worker belongs to one thread, a struct ts_score_part to the thread
 *            that takes the partition
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_SCORE_PARTS_H
#define TS_CPD_SCORE_PARTS_H

#include "cpd/judge/score.h"

#define TS_SCORE_LINE 64u /* bytes of a cache line: structs of two threads never share one */

/* A cell with one of the largest residuals of a thread. */
struct ts_score_large {
    double magnitude;
    uint64_t place; /* number of the nonzero in the tensor's copy */
    double value, model;
    uint32_t slot; /* in `rows` of the worker, the row numbers of the cell begin at slot * order */
};

/* The state of a thread that works through a partition. */
struct ts_score_worker {
    /* sums of residuals of the partition so far */
    _Alignas(TS_SCORE_LINE) struct ts_score_sums sums;
    double logs;
    uint64_t unseen;
    /* row, in the factor of `mode`, of the slice that is being summed */
    uint64_t row;
    struct ts_score_sums slice; /* sums of the nonzeros of this slice so far */
    /* 1: `slice` is the first slice of the partition, so the partition before may have the
     * beginning of this slice */
    int in_first;
    uint32_t n_large;
    struct ts_score_large *large; /* a heap with the smallest residual at its root */
    uint32_t *rows;               /* top x order: rows of the cells in `large` */
};

/* A cell of a slab, a part of a dense tensor that is read as a whole. */
struct ts_score_slab_cell {
    double value, model;
    uint32_t row;
};

/* Sums of residuals over the nonzeros of a partition, and over those in its first and in its last
 * slice. */
struct ts_score_part {
    struct ts_score_sums sums, first, last;
    double logs;
    uint64_t unseen;
    /* 1: some value is not a count, or some model value is not positive */
    int other;
    /* number, from 1, of the process (rank of ts_comm) that worked through the partition */
    uint32_t rank;
    /* the first and the last slice; equal if there is only one, whose sums are `first` */
    uint64_t first_row, last_row;
};

struct ts_scoring {
    const struct ts_score_conf *conf;
    struct ts_score *ret;
    uint64_t n_parts;
    struct ts_score_part *part;
    struct ts_score_worker *worker; /* an array with one struct for each thread */
    /* Known cells of each partition of a slab (a part of a dense tensor that is read as a whole).
     * They are added to slices afterwards, because cells of an array are not sorted by slices.
     * NULL: slices are not wanted, or the tensor has shards. */
    struct ts_score_slab_cell *slab;
    uint32_t *slab_n;             /* number of cells of each partition in `slab` */
    uint64_t settled;             /* number of partitions in the slabs before the current one */
    uint8_t *blank[TS_MAX_ORDER]; /* a bit for each row that is all zeros in the model; or NULL */
    uint32_t blanks;              /* bit m: the model has rows of zeros in mode m */
    /* atomic: 1 if all values so far are counts, so that the sum of x log m is computed */
    int counts;
};

/* ---- score_rows.c: rows of the model ---- */

/* Returns the number of rows of the model that are copied at a time. */
uint64_t ts_score_chunk_rows(uint32_t rank);

/* Copies the model's rows into the backend. Rows of the tensor that the model lacks become
 * zeros. */
int ts_score_load_rows(struct ts_scoring *s, struct ts_err *err);

/* ---- score_sums.c: sums of residuals ---- */

void ts_score_add(struct ts_score_sums *to, const struct ts_score_sums *x);

/* Add the cells of a block to the sums, and the cells of a slab to those of their slices: the
 * functions `take` and `settle` of struct ts_weighted. ctx is the struct ts_scoring. */
int ts_score_take_block(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err);
void ts_score_settle(void *ctx, uint64_t first, uint64_t end);

/* Sends the sums of residuals of all slices to all ranks (processes). */
int ts_score_gather_slices(struct ts_scoring *s, struct ts_err *err);

/* ---- score_largest.c: the largest residuals ---- */

/* Returns the bytes for the largest residuals of n_ranks processes, each with `threads` threads. */
uint64_t ts_score_large_bytes(const struct ts_tensor *t, uint32_t threads, uint32_t n_ranks,
                              uint32_t top);

/* Keeps the cells of a block that are among the largest residuals of a thread. */
void ts_score_keep_large(const struct ts_scoring *s, struct ts_score_worker *w,
                         const struct ts_cells *c);

/* Merges the largest residuals of all threads and ranks (processes) into the result. */
int ts_score_collect_large(const struct ts_scoring *s, struct ts_err *err);

#endif
