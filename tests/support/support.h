/* SPDX-License-Identifier: BSD-3-Clause */
/* support.h - what the tests share: random tensors, the obvious loop, shards in memory. */
#ifndef TS_TESTS_SUPPORT_H
#define TS_TESTS_SUPPORT_H

#include <stdint.h>

#include "format/layout.h"
#include "format/shard.h"

/* A tensor in coordinate form: nonzero n has indices idx[m][n] and value val[n]. */
struct test_coo {
    uint32_t order;
    uint64_t nnz;
    uint64_t dim[TS_MAX_ORDER];
    uint32_t *idx[TS_MAX_ORDER];
    double *val;
    float *weight; /* NULL: there are none */
};

/* nnz distinct nonzeros (fewer when the tensor has fewer cells); every slice of every mode is used
 * when nnz allows, so indices are compact rows. Values are integers 1..value_range, or uniform in
 * [0, 1) when value_range is 0. `skew` > 0 draws indices as dim * u^(1 + skew). */
struct test_coo test_coo_random(uint64_t seed, uint32_t order, const uint64_t *dim, uint64_t nnz,
                                uint32_t value_range, double skew);
void test_coo_free(struct test_coo *x);

/* Gives every nonzero a weight, of which some are 0; `one`: all are 1. */
void test_coo_weigh(struct test_coo *x, uint64_t seed, int one);

/* Leaves out what has the weight 0, and the weights. Its slices stay, so others must be in them. */
void test_coo_drop_weightless(struct test_coo *x);

/* Sorts the nonzeros by level[0], level[1], ... (a permutation of the modes). */
void test_coo_sort(struct test_coo *x, const uint8_t *level);

/* Packs a sorted tensor as one shard (integers or float32 bit patterns by `kind`, TS_VALUE_INT with
 * value_base 0, TS_VALUE_F32 or TS_VALUE_F64). Returns malloc'ed raw bytes with TS_SHARD_SLACK. */
void *test_coo_pack(const struct test_coo *x, const uint8_t *level, uint32_t kind,
                    struct ts_disk_shard *entry);

/* out (dim[mode] x rank) = X_(mode) * khatri_rao(others), float64, nonzero by nonzero. */
void test_mttkrp(const struct test_coo *x, uint32_t mode, uint32_t rank, double *const factor[],
                 double *out);

#endif
