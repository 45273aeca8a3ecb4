/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_sum.h - sums over the nonzeros of a shard, or of a mode's copy of the tensor, which tshard
 * verify compares.
 *
 * Two copies hold the same nonzeros when their sums (format/cell_sum.h) are equal.
 *
 *   units    rows are numbered without empty slices; `cells` uses indices of the input
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
    double squares, min, max; /* sum of squares, minimum and maximum of the values */
    /* numbers of nonzeros in the first row of the shard or copy, in the last, and in the fullest */
    uint64_t first_run, last_run, longest_run;
    /* rows of the first and the last nonzero in each mode, in the order in which the copy sorts
     * modes */
    uint32_t first[TS_MAX_ORDER], last[TS_MAX_ORDER];
    uint32_t row_first, row_last;
};

/* Decodes every block of a checked shard and sets *ret to its sums. rows[m] lists the index of
 * each row of mode m; NULL: row i is index i. Fails unless nonzeros ascend; equal ones may follow
 * each other if the tensor has duplicates. */
int verify_sum_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard, const void *raw,
                     uint64_t *const rows[], struct verify_sum *ret, struct ts_err *err);

/* Adds the sums of shard `shard` to the sums of the shards before it, and checks that the shard
 * follows them. *sum starts as the sums of shard 0. */
int verify_sum_append(const struct ts_tensor *t, uint32_t mode, uint64_t shard,
                      struct verify_sum *sum, const struct verify_sum *next, struct ts_err *err);

/* Compares the sums of a mode's copy with the counts and the norm in the tensor's index. */
int verify_sum_check(const struct ts_tensor *t, uint32_t mode, const struct verify_sum *sum,
                     struct ts_err *err);

/* Checks the header beyond what opening a tensor checks: unused fields are zero, and the counts of
 * nonzeros read, merged and dropped add up. */
int verify_sum_header(const struct ts_tensor *t, struct ts_err *err);

#endif
