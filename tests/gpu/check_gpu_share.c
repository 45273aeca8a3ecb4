/* SPDX-License-Identifier: BSD-3-Clause */
/* What thread blocks take of a tensor: enough shares to keep a large GPU at work where there are
 * nonzeros enough, whole partitions from then on, and never many more shares than that. Needs no
 * GPU. */
#include <check.h>

#include "gpu/sparse/mttkrp_kernel.h"
#include "tests/support/run_suite.h"

/* Shares of so many partitions. */
static uint64_t shares(uint64_t n_partitions)
{
    return n_partitions * (TS_PARTITION_BLOCKS / ts_mttkrp_share_blocks(n_partitions));
}

START_TEST(large_tensors_keep_whole_partitions)
{
    ck_assert_uint_eq(ts_mttkrp_share_blocks(TS_MTTKRP_BUSY), TS_PARTITION_BLOCKS);
    ck_assert_uint_eq(ts_mttkrp_share_blocks(UINT64_C(1) << 40), TS_PARTITION_BLOCKS);
    ck_assert_uint_lt(ts_mttkrp_share_blocks(TS_MTTKRP_BUSY - 1), TS_PARTITION_BLOCKS);
}
END_TEST

START_TEST(small_tensors_are_divided_as_far_as_need_be)
{
    for (uint64_t n = 0; n < TS_MTTKRP_BUSY; n++) {
        const uint32_t blocks = ts_mttkrp_share_blocks(n);
        ck_assert_uint_eq(TS_PARTITION_BLOCKS % blocks, 0);
        ck_assert_uint_ge(blocks, TS_MTTKRP_LEAST_BLOCKS);
        ck_assert(blocks == TS_MTTKRP_LEAST_BLOCKS || shares(n) >= TS_MTTKRP_BUSY);
        ck_assert_uint_lt(shares(n), 2 * TS_MTTKRP_BUSY); /* memory of edges */
        if (n > 0)
            ck_assert_uint_ge(blocks, ts_mttkrp_share_blocks(n - 1));
    }
}
END_TEST

START_TEST(shares_cover_a_shard)
{
    for (uint32_t blocks = TS_MTTKRP_LEAST_BLOCKS; blocks <= TS_PARTITION_BLOCKS; blocks *= 2)
        for (uint32_t n = 1; n < 300; n++) {
            const uint32_t k = ts_mttkrp_shares(n, blocks);
            ck_assert_uint_ge(k * blocks, n);
            ck_assert_uint_lt((k - 1) * blocks, n);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_share");
    TCase *tc = tcase_create("share");
    tcase_add_test(tc, large_tensors_keep_whole_partitions);
    tcase_add_test(tc, small_tensors_are_divided_as_far_as_need_be);
    tcase_add_test(tc, shares_cover_a_shard);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
