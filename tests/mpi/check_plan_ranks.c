/* SPDX-License-Identifier: BSD-3-Clause */
/* What tstream plan takes each of several processes to have, from tables of shards: as obvious sums
 * have it. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "tests/support/run_suite.h"
#include "tests/support/support.h"
#include "tools/cp/plan_ranks.h"

#define N 300 /* most shards of a mode */

static struct ts_disk_shard shard[TS_MAX_ORDER][N];

/* A table as a tensor might have it: shards of any number of nonzeros and rows, one after another;
 * n is 1 to N. */
static struct ts_tensor tensor(uint32_t order, uint64_t n, uint64_t seed)
{
    struct ts_tensor t = { .order = order };
    for (uint32_t m = 0; m < order; m++) {
        uint32_t row = 0;
        memset(shard[m], 0, sizeof shard[m]);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t random = ts_mix(seed + 1000 * m + i);
            struct ts_disk_shard *s = &shard[m][i];
            s->nnz = 1 + (uint32_t)(random % 100000);
            s->n_blocks = (s->nnz + 255) / 256;
            s->raw_bytes = s->stored_bytes = 4 * s->nnz;
            s->row_first = row;
            row += (uint32_t)(random >> 32) % 50; /* 0: the row goes on in the next shard */
            s->row_last = row;
            t.nnz += m == 0 ? s->nnz : 0;
        }
        t.mode[m].shard = shard[m];
        t.mode[m].disk.n_shards = n;
        t.mode[m].disk.n_rows = row + UINT64_C(1);
    }
    return t;
}

/* The first shard of range k of n: that whose middle lies behind k parts of all that they cost. */
static uint64_t first_of(const struct ts_mode *m, uint32_t k, uint32_t n)
{
    double total = 0, sum = 0;
    uint64_t at = 0;
    for (uint64_t i = 0; i < m->disk.n_shards; i++)
        total += ts_balance_cost(&m->shard[i]);
    while (k < n && at < m->disk.n_shards &&
           (k == 0 ? 0 : sum + ts_balance_cost(&m->shard[at]) / 2 <= total * k / n))
        sum += ts_balance_cost(&m->shard[at++]);
    return k == n ? m->disk.n_shards : at;
}

static double cost_of(const struct ts_mode *m, uint64_t begin, uint64_t end)
{
    double sum = 0;
    for (uint64_t i = begin; i < end; i++)
        sum += ts_balance_cost(&m->shard[i]);
    return sum;
}

static void compare(const struct ts_tensor *t, uint32_t n, uint32_t gpus)
{
    struct plan_ranks p;
    struct ts_err err;
    uint64_t bytes[TS_MAX_TEAM] = { 0 };
    ck_assert_int_eq(plan_ranks_new(t, n, 1, gpus, &p, &err), 0);
    plan_ranks_rows(t, 9, 12 * 8, 0, &p); /* as if rows had three columns of padding */
    for (uint32_t m = 0; m < t->order; m++) {
        const struct ts_mode *mode = &t->mode[m];
        double product = 0, rows = 0;
        for (uint32_t i = 0; i < n * gpus; i++) {
            const uint64_t a = first_of(mode, i, n * gpus), b = first_of(mode, i + 1, n * gpus);
            uint64_t of = 0;
            for (uint64_t k = a; k < b; k++) {
                bytes[i / gpus] += ts_residency_bytes(&mode->shard[k]);
                of += mode->shard[k].row_last - mode->shard[k].row_first + UINT64_C(1);
                of -= k > a && mode->shard[k].row_first == mode->shard[k - 1].row_last;
            }
            product = fmax(product, cost_of(mode, a, b));
            rows = fmax(rows, (double)of);
        }
        product *= gpus / cost_of(mode, 0, mode->disk.n_shards);
        rows *= gpus / (double)mode->disk.n_rows;
        ck_assert_double_eq_tol(p.product_share[m], fmin(1, product), 1e-12);
        ck_assert_double_eq_tol(p.row_share[m], fmin(1, rows), 1e-12);
        ck_assert_uint_eq(p.exchange_bytes[m], mode->disk.n_rows * 12 * 8 + n * gpus * 8 * 81 +
                                                   2 * mode->disk.n_shards * 12 * 8);
    }
    for (uint32_t r = 0; r < n; r++)
        ck_assert_uint_le(bytes[r], bytes[p.largest]);
}

START_TEST(each_gpu_has_a_range_of_the_shards)
{
    static const uint32_t of[][2] = {
        { 2, 1 }, { 3, 1 }, { 2, 2 }, { 5, 3 }, { 16, 4 }, { 64, 1 }
    };
    static const uint64_t n_shards[] = { 1, 2, 7, 300 };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        for (size_t k = 0; k < sizeof n_shards / sizeof n_shards[0]; k++) {
            const struct ts_tensor t = tensor(2 + (uint32_t)(i + k) % 7, n_shards[k], 77 * i + k);
            compare(&t, of[i][0], of[i][1]);
        }
}
END_TEST

START_TEST(cpu_cores_have_ranges_of_partitions)
{
    const struct ts_tensor t = tensor(3, 200, 5);
    struct plan_ranks p;
    struct ts_err err;
    ck_assert_int_eq(plan_ranks_new(&t, 4, 1, 0, &p, &err), 0);
    plan_ranks_rows(&t, 9, 64, 0, &p);
    for (uint32_t m = 0; m < 3; m++) {
        uint64_t cut[5], most = 0;
        ts_share_cut(t.mode[m].shard, 200, 4, cut);
        for (int r = 0; r < 4; r++)
            most = cut[r + 1] - cut[r] > most ? cut[r + 1] - cut[r] : most;
        ck_assert_double_eq_tol(p.product_share[m], (double)most / (double)cut[4], 1e-9);
        ck_assert_double_ge(p.row_share[m], 0.25);
        ck_assert_uint_eq(p.exchange_bytes[m], t.mode[m].disk.n_rows * 64 + 64 * 8 * 81);
        ck_assert_double_eq(plan_ranks_exposed(&p, m, 1e9), (double)p.exchange_bytes[m] / 10e9);
    }
}
END_TEST

START_TEST(gpus_hide_all_but_a_part_behind_computing)
{
    struct plan_ranks p = { .n = 2, .n_gpus = 1, .exchange_bytes = { 6000000000 } }; /* 0.6 s */
    ck_assert_double_eq_tol(plan_ranks_exposed(&p, 0, 5), 0.1, 1e-12);
    ck_assert_double_eq_tol(plan_ranks_exposed(&p, 0, 0.6), 0.1, 1e-12);
    ck_assert_double_eq_tol(plan_ranks_exposed(&p, 0, 0.3), 0.1 + 0.25, 1e-12);
    ck_assert_double_eq_tol(plan_ranks_exposed(&p, 0, 0), 0.6, 1e-12);
}
END_TEST

START_TEST(there_are_64_gpus_at_most)
{
    const struct ts_tensor t = tensor(3, 20, 5);
    struct plan_ranks p;
    struct ts_err err;
    ck_assert_int_eq(plan_ranks_new(&t, 13, 1, 5, &p, &err), TS_ELIMIT);
    ck_assert_str_eq(err.text, "13 processes have more than 64 GPUs together");
    ck_assert_int_eq(plan_ranks_new(&t, 1u << 31, 1, 2, &p, &err), TS_ELIMIT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plan_ranks");
    TCase *tc = tcase_create("plan_ranks");
    tcase_add_test(tc, each_gpu_has_a_range_of_the_shards);
    tcase_add_test(tc, cpu_cores_have_ranges_of_partitions);
    tcase_add_test(tc, gpus_hide_all_but_a_part_behind_computing);
    tcase_add_test(tc, there_are_64_gpus_at_most);
    suite_add_tcase(s, tc);
    return test_run_suite(s, CK_FORK_GETENV);
}
