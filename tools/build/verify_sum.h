/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_sum.h - what tshard verify learns of one shard, and of a mode copy from its shards.
 *
 * Two copies hold the same nonzeros when their sums (format/cell_sum.h) are equal.
 *
 *   units    compact rows, nonzeros; the sum is of indices of the input
 *   threads  verify_sum_shard is pure; the rest belongs to one thread
 *   errors   TS_EFORMAT with a sentence
 */
#ifndef TS_TOOLS_VERIFY_SUM_H
#define TS_TOOLS_VERIFY_SUM_H

#include <stdint.h>

#include "api/tools.h"

struct verify_sum {
    uint64_t nnz;
    struct ts_cell_sum cells;
    double squares, min, max; /* of the values */
    /* longest_run: nonzeros of the first row, the last, the fullest */
    uint64_t first_run, last_run, longest_run;
    uint32_t first[TS_MAX_ORDER], last[TS_MAX_ORDER]; /* first and last nonzero, level by level */
    uint32_t row_first, row_last;
};

/* Decodes every block of a checked shard. rows[m] lists the index of each row of mode m; NULL: row
 * i is index i. Nonzeros must ascend; equal ones are allowed when the tensor says that it has
 * duplicates. */
int verify_sum_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard, const void *raw,
                     uint64_t *const rows[], struct verify_sum *ret, struct ts_err *err);

/* Appends shard `shard` to the sum of the shards before it. *sum starts as the sum of shard 0. */
int verify_sum_append(const struct ts_tensor *t, uint32_t mode, uint64_t shard,
                      struct verify_sum *sum, const struct verify_sum *next, struct ts_err *err);

/* Compares the sum of a mode copy with what the index says of it. */
int verify_sum_check(const struct ts_tensor *t, uint32_t mode, const struct verify_sum *sum,
                     struct ts_err *err);

/* Checks the header beyond what opening a tensor checks: unused fields are zero, and the counts of
 * the input add up. */
int verify_sum_header(const struct ts_tensor *t, struct ts_err *err);

#endif
