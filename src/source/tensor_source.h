/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor_source.h - the nonzeros of a tensor that is built already, or some of them, as a source.
 *
 * A *pick* says which: those whose rows are picked in every mode, and of these all, those that are
 * held out or the others. Modes may be left out, so that what differs in them alone falls on one
 * cell. Indices stay what they are. Threads read the copy of mode 1 shard by shard.
 *
 *   owner    the tensor and the pick are the caller's and must stay; a pick owns its sets of rows
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
    unsigned char *rows[TS_MAX_ORDER]; /* a bit for each row; NULL: all */
    uint32_t left_out;                 /* bit m: mode m */
    enum ts_pick_side side;
    struct ts_hold_out hold_out;
};

/* Indices first to last, from 0. */
struct ts_pick_range {
    uint64_t first, last;
};

void ts_pick_free(struct ts_pick *p); /* its sets of rows */
uint64_t ts_pick_bytes(const struct ts_pick *p, const struct ts_tensor *t);

/* Keeps the rows of a mode whose index lies in one of n ranges. Sorts the ranges. */
int ts_pick_ranges(struct ts_pick *p, const struct ts_tensor *t, uint32_t mode,
                   struct ts_pick_range *range, uint64_t n, struct ts_err *err);

/* Only slices with at least `least` nonzeros of the tensor stay. Reads the mode's copy. */
int ts_pick_at_least(struct ts_pick *p, const struct ts_tensor *t, uint32_t mode, uint64_t least,
                     const volatile sig_atomic_t *stop, struct ts_err *err);

/* What each side of a division would have, kept and held: nonzeros, and the sum of their squares.
 * Both are counted until no side lacks any: that takes a block or a few, and all shards where one
 * does. */
struct ts_pick_sides {
    uint64_t nnz[2];
    double squares[2]; /* sums of squares; a tensor needs at least DBL_MIN */
};
int ts_pick_count_sides(const struct ts_hold_out *hold_out, const struct ts_tensor *t,
                        const volatile sig_atomic_t *stop, struct ts_pick_sides *ret,
                        struct ts_err *err);

struct ts_tensor_source;

struct ts_tensor_source_conf {
    const struct ts_tensor *tensor;
    const struct ts_pick *pick;
    uint32_t threads;
    uint64_t bytes;  /* memory: see ts_tensor_source_least; with more, indices are found faster */
    const char *tmp; /* directory for temporary files */
    const volatile sig_atomic_t *stop; /* may be NULL */
};

uint64_t ts_tensor_source_least(const struct ts_tensor_source_conf *conf);
uint64_t ts_tensor_source_most(const struct ts_tensor_source_conf *conf);

int ts_tensor_source_new(const struct ts_tensor_source_conf *conf, struct ts_tensor_source **ret,
                         struct ts_err *err);
void ts_tensor_source_free(struct ts_tensor_source *s); /* waits for the threads; NULL is fine */

struct ts_source ts_tensor_source_as_source(struct ts_tensor_source *s);

#endif
