/* SPDX-License-Identifier: BSD-3-Clause */
/* level_order.h - chooses the order of the modes by which each mode copy is sorted (its levels).
 *
 * On CPUs, a kernel that reads a mode copy reads one factor row for each node of the fibre tree
 * below the root. The number of nodes just above the leaves depends on the mode chosen as leaf: it
 * is the number of distinct coordinates without that mode. It is estimated while the nonzeros are
 * merged (HyperLogLog: Flajolet et al., AofA 2007; the estimate depends only on the set of
 * nonzeros). The time to read a row depends on the size of its factor matrix. (The kernel for GPUs
 * reads order - 1 rows for every nonzero, in any order of levels.)
 *
 *   threads  one ts_fibres for each thread, merged at the end
 *   errors   none
 */
#ifndef TS_BUILD_LEVEL_ORDER_H
#define TS_BUILD_LEVEL_ORDER_H

#include <stdint.h>

#include "format/layout.h"
#include "build/sort/record.h"

/* an estimate has 2^12 counters: standard error 1.04 / sqrt(2^12) = 1.6 % */
#define TS_FIBRES_BITS 12u

struct ts_fibres {
    uint32_t order, words;
    /* for each mode m, a mask that clears the index of mode m in a record */
    uint64_t mask[TS_MAX_ORDER][TS_RECORD_WORDS];
    uint8_t longest[TS_MAX_ORDER][1u << TS_FIBRES_BITS];
};

/* Prepares an estimate for each mode. The first `order` fields of the layout are the indices. */
void ts_fibres_init(struct ts_fibres *f, const struct ts_record_layout *layout, uint32_t order);
/* adds n records to all estimates */
void ts_fibres_add(struct ts_fibres *f, const uint64_t *rec, uint64_t n);
void ts_fibres_merge(struct ts_fibres *into, const struct ts_fibres *from);
double ts_fibres_estimate(const struct ts_fibres *f, uint32_t mode);

/* Sets level[0..order-1] to the modes in the order in which the copy of `mode` is sorted.
 * fibres[m]: the estimated number of nodes just above the leaves if mode m is the leaf. */
void ts_level_order(uint32_t order, uint32_t mode, uint64_t nnz, const uint64_t n_rows[],
                    const double fibres[], uint8_t level[]);

#endif
