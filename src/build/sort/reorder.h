/* SPDX-License-Identifier: BSD-3-Clause */
/* reorder.h - sorts the nonzeros of a tensor on disk by its modes in any order, within a given
 * memory.
 *
 * It reads the copy of mode by[0], whose slices are in the wanted order. Only the nonzeros inside
 * slices must be sorted, as many slices at a time as fit. If the largest slice does not fit, all
 * nonzeros go through sorted runs in a temporary file (extsort.h). A copy that is sorted in the
 * wanted order (ts_reorder_sorted) can be read without this.
 *
 *   owner    the caller owns the tensor and the strings
 *   units    bytes; records (record.h): the rows of by[0], by[1], ... and then the codes of the
 *            value as one field of 32 bits each, so that equal cells are in the order of their
 *            codes, as in a copy
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

/* Receives the next n (at least 1) records. */
typedef int ts_reorder_fn(void *arg, const struct ts_record_layout *layout, const uint64_t *rec,
                          uint64_t n, struct ts_err *err);

struct ts_reorder_conf {
    const struct ts_tensor *tensor;
    uint8_t by[TS_MAX_ORDER]; /* the modes in the order of sorting, each once */
    uint64_t memory;          /* bytes; at least ts_reorder_least */
    uint32_t threads;
    const char *tmp; /* directory for temporary files */
    const volatile sig_atomic_t *stop;
    ts_reorder_fn *fn;
    void *arg;

    /* Called with the number of nonzeros read so far, if they go through runs: no record is passed
     * on before all are read. May be NULL. */
    void (*progress)(void *arg, uint64_t done);

    uint64_t area_words; /* for tests: words of a sort area; 0: chosen from `memory` */
};

/* Whether the copy of mode by[0] is sorted in this order already. */
int ts_reorder_sorted(const struct ts_tensor *t, const uint8_t by[]);

/* Returns the least memory for this many threads, and the memory with which all is sorted at
 * once. */
uint64_t ts_reorder_least(const struct ts_tensor *t, uint32_t threads);
uint64_t ts_reorder_most(const struct ts_tensor *t, uint32_t threads);

int ts_reorder(const struct ts_reorder_conf *conf, struct ts_err *err);

/* Unpacks n records to a block: level f has the rows of mode by[f]. n is at most TS_BLOCK_NNZ. */
void ts_reorder_block(const struct ts_record_layout *layout, const uint64_t *rec, uint32_t n,
                      struct ts_block *ret);

#endif
