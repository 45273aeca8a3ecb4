/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor_source.h - reads the nonzeros of a tensor on disk, or some of them, as a source
 * (source.h).
 *
 * A *pick* says which nonzeros: those whose rows are picked in every mode; of these all, the
 * held-out ones, or those that are not held out. Modes may be left out; then nonzeros that differ
 * only in such modes have the same cell. Indices are not changed. Threads read the copy of mode 1
 * shard by shard.
 *
 *   owner    the caller owns the tensor and the pick, which must stay; a pick owns its sets of rows
 *   units    rows are compact ones, modes from 0
 *   threads  new, start and free from one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_SOURCE_TENSOR_SOURCE_H
#define TS_SOURCE_TENSOR_SOURCE_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "format/hold_out.h"
#include "format/tensor.h"
#include "source/source.h"

enum ts_pick_side { TS_PICK_ALL, TS_PICK_KEPT, TS_PICK_HELD };

struct ts_pick {
    /* for each mode, a bit for each row, 1: the row is picked; NULL: all rows of the mode are */
    unsigned char *rows[TS_MAX_ORDER];
    uint32_t left_out; /* bit m is set if mode m is left out */
    enum ts_pick_side side;
    struct ts_hold_out hold_out;
};

/* A range of indices of a mode: `first` to `last`, counted from 0. */
struct ts_pick_range {
    uint64_t first, last;
};

void ts_pick_free(struct ts_pick *p); /* frees the sets of rows */
uint64_t ts_pick_bytes(const struct ts_pick *p, const struct ts_tensor *t);

/* Picks only the rows of a mode whose index is in one of n ranges. Sorts the ranges. */
int ts_pick_ranges(struct ts_pick *p, const struct ts_tensor *t, uint32_t mode,
                   struct ts_pick_range *range, uint64_t n, struct ts_err *err);

/* Picks only rows of a mode with at least `least` nonzeros in the tensor. Reads the copy of the
 * nonzeros that is sorted for this mode. */
int ts_pick_at_least(struct ts_pick *p, const struct ts_tensor *t, uint32_t mode, uint64_t least,
                     const volatile sig_atomic_t *stop, struct ts_err *err);

/* Number of nonzeros, and sums of their squared values: [0] of those that are not held out, [1] of
 * held-out ones. Counting stops when both have enough for a tensor, usually after few blocks. */
struct ts_pick_sides {
    uint64_t nnz[2];
    double squares[2]; /* for a valid norm, a tensor needs at least DBL_MIN */
};
int ts_pick_count_sides(const struct ts_hold_out *hold_out, const struct ts_tensor *t,
                        const volatile sig_atomic_t *stop, struct ts_pick_sides *ret,
                        struct ts_err *err);

struct ts_tensor_source;

struct ts_tensor_source_conf {
    const struct ts_tensor *tensor;
    const struct ts_pick *pick;
    uint32_t threads;
    /* memory for reading, at least ts_tensor_source_least; with more, up to ts_tensor_source_most,
     * the indices of rows are found faster */
    uint64_t bytes;
    const char *tmp;                   /* directory for temporary files */
    const volatile sig_atomic_t *stop; /* may be NULL */
};

uint64_t ts_tensor_source_least(const struct ts_tensor_source_conf *conf);
uint64_t ts_tensor_source_most(const struct ts_tensor_source_conf *conf);

int ts_tensor_source_new(const struct ts_tensor_source_conf *conf, struct ts_tensor_source **ret,
                         struct ts_err *err);
void ts_tensor_source_free(struct ts_tensor_source *s); /* waits for the threads; s may be NULL */

struct ts_source ts_tensor_source_as_source(struct ts_tensor_source *s);

#endif
