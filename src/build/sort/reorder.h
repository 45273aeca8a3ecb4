/* SPDX-License-Identifier: BSD-3-Clause */
/* reorder.h - the nonzeros of a tensor on disk, sorted by its modes in any order, within a given
 * memory.
 *
 * The copy of the mode that sorts first is read, as its nonzeros come slice by slice in the wanted
 * order: then only slices need sorting, as many at a time as fit. Where the fullest slice does not
 * fit, all nonzeros go through sorted runs in a temporary file (extsort.h). A copy whose levels are
 * in the wanted order needs none of this: ts_reorder_sorted tells, and its shards are read as they
 * are.
 *
 *   owner    the caller owns the tensor and the strings
 *   units    bytes; records (record.h): the rows of by[0], by[1], ... and then the codes of the
 *            value as one field of 32 bits each, so that equal cells come by their codes, as in a
 *            copy
 *   threads  called from one, uses `threads`
 *   errors   0 or a negative ts_code; TS_ESTOP when *stop is set
 */
#ifndef TS_BUILD_REORDER_H
#define TS_BUILD_REORDER_H

#include <signal.h>
#include <stdint.h>

#include "build/sort/record.h"
#include "format/blocks/block_codec.h"
#include "format/tensor.h"

/* Takes the next n (at least 1) records. */
typedef int ts_reorder_fn(void *arg, const struct ts_record_layout *layout, const uint64_t *rec,
                          uint64_t n, struct ts_err *err);

struct ts_reorder_conf {
    const struct ts_tensor *tensor;
    uint8_t by[TS_MAX_ORDER]; /* each mode once */
    uint64_t memory;          /* at least ts_reorder_least */
    uint32_t threads;
    const char *tmp; /* directory for temporary files */
    const volatile sig_atomic_t *stop;
    ts_reorder_fn *fn;
    void *arg;

    /* How many nonzeros were read, when they go through runs: none is given before. May be NULL. */
    void (*progress)(void *arg, uint64_t done);

    uint64_t area_words; /* tests: words of a sort area, 0: from `memory` */
};

/* Whether the copy of mode by[0] has this order. */
int ts_reorder_sorted(const struct ts_tensor *t, const uint8_t by[]);

/* The least memory with this many threads, and what sorting all at once takes. */
uint64_t ts_reorder_least(const struct ts_tensor *t, uint32_t threads);
uint64_t ts_reorder_most(const struct ts_tensor *t, uint32_t threads);

int ts_reorder(const struct ts_reorder_conf *conf, struct ts_err *err);

/* Unpacks records as a block, whose level f has the indices of mode by[f]. n is at most
 * TS_BLOCK_NNZ. */
void ts_reorder_block(const struct ts_record_layout *layout, const uint64_t *rec, uint32_t n,
                      struct ts_block *ret);

#endif
