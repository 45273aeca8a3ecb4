/* SPDX-License-Identifier: BSD-3-Clause */
/* merge.h - reads all sorted nonzeros once. Merges the nonzeros of each cell, drops zeros unless
 * they are kept, and collects the statistics that decide the codes of values and the order of
 * levels.
 *
 *   owner    the caller
 *   units    records: the indices in the order of the modes, then the bits of the value and the
 *            weight (batch.h)
 *   threads  called from one, uses `threads`
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_MERGE_H
#define TS_BUILD_MERGE_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "build/write/level_order.h"
#include "build/sort/record.h"
#include "build/slices.h"
#include "build/value_table.h"
#include "format/cell_sum.h"

/* How the value of a cell is transformed, after its nonzeros are added up. 0 stays 0. */
enum ts_transform_kind {
    TS_TRANSFORM_NONE,
    TS_TRANSFORM_LOG1P,
    TS_TRANSFORM_BINARY,
    TS_TRANSFORM_SCALE
};
struct ts_transform {
    enum ts_transform_kind kind;
    double scale; /* factor of TS_TRANSFORM_SCALE: finite, not 0 */
};

/* Sums over the nonzeros of a cell. */
struct ts_merge_sum {
    uint64_t n;
    /* sums of values, weights and value * weight; without weights only `values` */
    double values, weights, products;
    double sizes; /* sum of |value|, or of |value| * weight */
    struct ts_cell_sum records;
};

/* Checksums and sums over the records before and after merging, which ts_merge_check compares. */
struct ts_merge_account {
    /* checksums: `gone` over the records that were merged or transformed, `made` over the records
     * made from them */
    struct ts_cell_sum gone, made;
    struct ts_cell_sum kept;  /* checksum over all records that remain */
    struct ts_cell_sum cells; /* `kept` after `shift` is subtracted from the indices */
    uint64_t n_rounded;       /* number of merged values that were rounded to 0 (ts_value_keep) */
    /* sums of value * weight over the records of `gone` and of `made`, and of |value| * weight over
     * those of `gone`; without weights, a weight is 1 */
    double value_gone, value_made, value_size;
    /* Sum of the weights of the cells that merging has made or, without weights, their number. It
     * bounds the error by values rounded to 0. */
    double roundable;
};

/* The records that remain of the range of one thread: [first, first + n). */
struct ts_merge_piece {
    uint64_t first, n;
};

struct ts_merge {
    struct ts_record_layout layout;
    uint32_t order, value_bytes, threads;
    int duplicates; /* what happens to several nonzeros of a cell: enum ts_duplicates */
    /* set by the caller: merging ends early when it is set; or NULL */
    const volatile sig_atomic_t *stop;
    /* set by the caller: grows by 1 for each record read; or NULL */
    _Atomic uint64_t *work;
    /* set by the caller: function of the values after they are added up; or NONE */
    struct ts_transform transform;
    /* set by the caller: 1 keeps cells whose value is 0; 0 drops them */
    int zeros;
    /* set by the caller: 1 if nonzeros have weights: each cell gets the weighted mean of its
     * nonzeros, and the sum of their weights */
    int weights;
    /* set by the caller: the index in a record minus shift[m] is the index in the tensor */
    uint64_t shift[TS_MAX_ORDER];
    uint64_t nnz, n_duplicates, n_zeros;
    /* 1: a cell has several nonzeros, which --duplicates error forbids; refused_index is that
     * cell */
    int refused;
    uint64_t refused_index[TS_MAX_ORDER];
    /* sets of used indices of each mode whose slices are numbered by a bitmap */
    struct ts_slices slices[TS_MAX_ORDER];
    /* estimates of the nodes of fibre trees, one struct for each thread; after finish, [0] has
     * those of all threads */
    struct ts_fibres *fibres;
    /* counts of distinct values, one table for each thread; after finish, [0] has those of all
     * threads */
    struct ts_value_table **values;
    /* checksums and sums of values, one struct for each thread; after finish, [0] has those of all
     * threads */
    struct ts_merge_account *account;

    /* for each thread: the range of records that remain after the last ts_merge_add */
    struct ts_merge_piece *piece;

    /* The open cell: the last cell so far, which the next records may belong to. open: 1 if there
     * is such a cell; cell: a record of it; sum: over its records. */
    int open;
    uint64_t cell[TS_RECORD_WORDS];
    struct ts_merge_sum sum;
};

/* Returns the memory of the tables in which `threads` threads count values and tree nodes. The sets
 * of used slices are not included. */
uint64_t ts_merge_bytes(uint32_t threads, uint32_t order);

/* Prepares a merge. dim[m] is the size of the bitmap of mode m; 0: the mode has none. */
int ts_merge_init(struct ts_merge *g, const struct ts_record_layout *layout, uint32_t order,
                  uint32_t value_bytes, int duplicates, const uint64_t dim[], uint32_t threads,
                  struct ts_err *err);
void ts_merge_fini(struct ts_merge *g);

/* Merges the nonzeros of each cell among the next n sorted records, in place. *kept records remain:
 * those of piece[0], then of piece[1], and so on. Unless `last` is 1, the last cell is held back,
 * because the next records may belong to it. A cell that the previous call held back and that is
 * now complete is returned in `before`, and *n_before is 1. It comes before the *kept records. */
int ts_merge_add(struct ts_merge *g, uint64_t *rec, uint64_t n, int last, uint64_t *before,
                 uint64_t *n_before, uint64_t *kept, struct ts_err *err);

/* Checks that no record was lost, from `records`, the checksum over all records that were added.
 * Returns TS_EIO if the records that remain, and those merged or dropped, do not add up to it. The
 * message does not name the tensor. To be called after finish. */
int ts_merge_check(const struct ts_merge *g, const struct ts_cell_sum *records, struct ts_err *err);

/* Adds the counts of all threads to fibres[0], values[0] and account[0]. */
void ts_merge_finish(struct ts_merge *g);

/* Frees fibres, values and slices. To be called when the codes of values and the order of levels
 * are chosen. The counts nnz, n_duplicates and n_zeros stay. */
void ts_merge_release(struct ts_merge *g);

#endif
