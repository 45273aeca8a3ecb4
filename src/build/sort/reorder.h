/* SPDX-License-Identifier: BSD-3-Clause */
/* reorder.h - sorts the nonzeros of a tensor on disk by its modes in any order, with a limit for
 * its memory.
 *
 * It reads the copy of mode by[0], in which the slices of that mode follow one another. So only the
 * nonzeros of each slice must be sorted, as many slices at a time as fit in memory. If the largest
 * slice does not fit, all nonzeros go through sorted runs in a temporary file (extsort.h). If the
 * copy is already sorted in the wanted order (ts_reorder_sorted), a caller can read it directly.
 *
 *   owner    the caller owns the tensor and the strings
 *   units    bytes; records (record.h): the rows of modes by[0], by[1], ... and then the codes of
 *            the value as one field. So nonzeros of one cell are in the order of their codes, as in
 *            a mode copy
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

    /* Called with the number of nonzeros read so far, if they go through runs, because fn is then
     * not called before all are read. May be NULL. */
    void (*progress)(void *arg, uint64_t done);

    /* for tests: words of an area of memory to sort in; 0: chosen from `memory` */
    uint64_t area_words;
};

/* Whether the copy of mode by[0] is sorted by modes by[0], by[1], ... already. */
int ts_reorder_sorted(const struct ts_tensor *t, const uint8_t by[]);

/* Return the least memory for `threads` threads, and the memory with which all nonzeros are sorted
 * at once instead of some slices at a time. */
uint64_t ts_reorder_least(const struct ts_tensor *t, uint32_t threads);
uint64_t ts_reorder_most(const struct ts_tensor *t, uint32_t threads);

int ts_reorder(const struct ts_reorder_conf *conf, struct ts_err *err);

/* Unpacks n records into a block, at most TS_BLOCK_NNZ. Level f of the block has the rows of mode
 * by[f]. */
void ts_reorder_block(const struct ts_record_layout *layout, const uint64_t *rec, uint32_t n,
                      struct ts_block *ret);

#endif
