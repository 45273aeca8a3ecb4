/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges start even by predicted cost and follow measured times: soon, and not noise. */
#include <check.h>
#include <stdlib.h>

#include "base/rng.h"
#include "stream/balance.h"
#include "tests/support/run_suite.h"

#define N 1000

/* The truth that measurements come from: time of each shard, and how slow each device is. */
struct world {
    struct ts_disk_shard shard[N];
    double cost[N];
    double slow[TS_BALANCE_MOST];
    uint32_t n;
};

static struct world world_new(uint32_t n)
{
    struct world w = { .n = n };
    for (int i = 0; i < N; i++) {
        w.shard[i].nnz = 1000000 + (uint32_t)(ts_mix((uint64_t)i) % 1000);
        w.cost[i] = 1e5;
    }
    for (uint32_t g = 0; g < n; g++)
        w.slow[g] = 1;
    return w;
}

static void check_ranges(const uint64_t *first, uint32_t n, uint64_t n_shards)
{
    ck_assert_uint_eq(first[0], 0);
    ck_assert_uint_eq(first[n], n_shards);
    for (uint32_t g = 0; g < n; g++)
        ck_assert_uint_le(first[g], first[g + 1]);
}

/* Slowest over mean of a pass; noise: relative, at most. */
static double measure(const struct world *w, const uint64_t *first, double noise, uint64_t seed,
                      uint64_t *busy_ns)
{
    double most = 0, sum = 0;
    for (uint32_t g = 0; g < w->n; g++) {
        double t = 0;
        for (uint64_t i = first[g]; i < first[g + 1]; i++)
            t += w->cost[i];
        t *= w->slow[g] * (1 + noise * (2 * ts_unit(ts_mix(seed * 100 + g)) - 1));
        busy_ns[g] = (uint64_t)t;
        sum += t;
        most = t > most ? t : most;
    }
    return most * w->n / sum;
}

/* Imbalance of the pass after `moves` of them. */
static double after(const struct world *w, int moves)
{
    uint64_t first[TS_BALANCE_MOST + 1], busy[TS_BALANCE_MOST];
    double last;
    ts_balance_even(w->shard, N, w->n, first);
    for (int i = 0; i < moves; i++) {
        measure(w, first, 0, 0, busy);
        ts_balance_move(w->shard, N, w->n, busy, first);
        check_ranges(first, w->n, N);
    }
    last = measure(w, first, 0, 0, busy);
    return last;
}

static const uint32_t sizes[] = { 2, 3, 4, 8, 16 };
#define N_SIZES 5

START_TEST(even_is_even)
{
    struct world w = world_new(sizes[_i]);
    uint64_t first[TS_BALANCE_MOST + 1];
    double share[TS_BALANCE_MOST];
    ts_balance_even(w.shard, N, w.n, first);
    check_ranges(first, w.n, N);
    ts_balance_shares(w.shard, N, w.n, first, share);
    for (uint32_t g = 0; g < w.n; g++)
        ck_assert_double_eq_tol(share[g], 1.0 / w.n, 1.0 / N);
}
END_TEST

/* The first half has as many rows as nonzeros, so it is dearer and more than half of the ranges are
 * in it. */
START_TEST(rows_cost_too)
{
    struct world w = world_new(4);
    uint64_t first[5];
    double share[4];
    for (int i = 0; i < N / 2; i++)
        w.shard[i].row_last = w.shard[i].nnz;
    ts_balance_even(w.shard, N, 4, first);
    ck_assert_uint_lt(first[2], N / 2 - 100);
    ts_balance_shares(w.shard, N, 4, first, share);
    for (int g = 0; g < 4; g++)
        ck_assert_double_eq_tol(share[g], 0.25, 0.01);
}
END_TEST

START_TEST(few_shards_give_empty_ranges)
{
    struct world w = world_new(16);
    const uint64_t n_shards = (uint64_t)_i;
    uint64_t first[TS_BALANCE_MOST + 1], busy[TS_BALANCE_MOST];
    double share[TS_BALANCE_MOST];
    ts_balance_even(w.shard, n_shards, 16, first);
    check_ranges(first, 16, n_shards);
    for (uint32_t g = 0; g < 16; g++) {
        ck_assert_uint_le(first[g + 1] - first[g], 1); /* none has two while another has none */
        busy[g] = 1 + 1000 * (first[g + 1] - first[g]) * (g + 1);
    }
    ts_balance_move(w.shard, n_shards, 16, busy, first);
    check_ranges(first, 16, n_shards);
    ts_balance_shares(w.shard, n_shards, 16, first, share);
}
END_TEST

START_TEST(skewed_shards_are_balanced)
{
    struct world w = world_new(sizes[_i]);
    for (int i = 0; i < N; i++)
        w.cost[i] *= 1 + 2 * ((double)i / N) * ((double)i / N);
    ck_assert_double_gt(after(&w, 0), 1.2);
    ck_assert_double_le(after(&w, 3), 1.05);
}
END_TEST

START_TEST(a_slow_device_gets_less)
{
    for (uint32_t slow = 0; slow < sizes[_i]; slow++) {
        struct world w = world_new(sizes[_i]);
        w.slow[slow] = 2;
        ck_assert_double_gt(after(&w, 0), 1.3);
        ck_assert_double_le(after(&w, 3), 1.05);
    }
}
END_TEST

START_TEST(noise_moves_nothing)
{
    struct world w = world_new(sizes[_i]);
    uint64_t first[TS_BALANCE_MOST + 1], was[TS_BALANCE_MOST + 1], busy[TS_BALANCE_MOST];
    ts_balance_even(w.shard, N, w.n, first);
    for (uint32_t g = 0; g <= w.n; g++)
        was[g] = first[g];
    for (uint32_t g = 0; g < w.n; g++) /* at most 1 % over the mean */
        busy[g] = 1000000 + ts_mix(g) % 10000;
    ck_assert_int_eq(ts_balance_move(w.shard, N, w.n, busy, first), 0);
    for (uint32_t g = 0; g <= w.n; g++)
        ck_assert_uint_eq(first[g], was[g]);
    for (uint32_t g = 0; g < w.n; g++) /* nothing was measured */
        busy[g] = 0;
    ck_assert_int_eq(ts_balance_move(w.shard, N, w.n, busy, first), 0);
}
END_TEST

/* Noise of 3 % of a balanced world: boundaries never wander off. */
START_TEST(noise_does_not_add_up)
{
    struct world w = world_new(sizes[_i]);
    uint64_t first[TS_BALANCE_MOST + 1], busy[TS_BALANCE_MOST];
    ts_balance_even(w.shard, N, w.n, first);
    for (uint64_t pass = 0; pass < 200; pass++) {
        measure(&w, first, 0.03, pass + 1, busy);
        ts_balance_move(w.shard, N, w.n, busy, first);
        ck_assert_double_le(measure(&w, first, 0, 0, busy), 1.08);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("balance");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, even_is_even, 0, N_SIZES);
    tcase_add_test(t, rows_cost_too);
    tcase_add_loop_test(t, few_shards_give_empty_ranges, 0, 17);
    tcase_add_loop_test(t, skewed_shards_are_balanced, 0, N_SIZES);
    tcase_add_loop_test(t, a_slow_device_gets_less, 0, N_SIZES);
    tcase_add_loop_test(t, noise_moves_nothing, 0, N_SIZES);
    tcase_add_loop_test(t, noise_does_not_add_up, 0, N_SIZES);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
