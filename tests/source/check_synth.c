/* SPDX-License-Identifier: BSD-3-Clause */
/* The generator draws the same nonzeros however it computes them. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "source/synth/power_law.h"
#include "source/synth/synth.h"
#include "tests/support/run_suite.h"

static const double laws[] = { 1e-6,   0.3, 0.8,     0.9999, 1 - 1e-8, 1, 1 + 1e-10, 1 + 1e-8,
                               1.0001, 1.1, 1.0 / 3, 2,      2.71828,  5, 20,        100 };

/* Fills x: random ones, and those just around where a rank begins. */
static void choose_draws(const struct ts_power_law *p, uint64_t seed, double *x)
{
    for (uint32_t i = 0; i < TS_POWER_LAW_PIECE; i++) {
        const uint64_t r = ts_mix(seed + i);
        const double k = (double)(r % p->n) + 1;
        const double at = p->is_exp ? log(k) / p->slope : (pow(k, 1 / p->exponent) - 1) / p->slope;
        x[i] = ts_unit(ts_mix(r));
        if (i % 2 == 1 && at >= 0 && at < 1)
            x[i] = at * (1 + ((double)(r >> 60) - 8) * 0x1p-53);
        x[i] = x[i] < 1 ? x[i] : 1 - 0x1p-53;
    }
    x[0] = 0;
    x[1] = 1 - 0x1p-53;
}

START_TEST(ranks_are_those_of_pow) /* loop test: _i is the law */
{
    static const uint64_t sizes[] = {
        1, 2, 3, 46, 1000, 4821207, UINT64_C(1) << 32, UINT64_C(1) << 40
    };
    for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct ts_power_law p;
        ts_power_law_init(&p, laws[_i], sizes[k]);
        for (uint64_t seed = 0; seed < 20; seed++) {
            double x[TS_POWER_LAW_PIECE];
            uint64_t rank[TS_POWER_LAW_PIECE];
            const uint32_t n = TS_POWER_LAW_PIECE - (uint32_t)seed;
            choose_draws(&p, 1000 * seed, x);
            ts_power_law_ranks(&p, x, n, rank);
            for (uint32_t i = 0; i < n; i++)
                ck_assert_uint_eq(rank[i], ts_power_law_rank(&p, x[i]));
        }
    }
}
END_TEST

START_TEST(popular_ranks_come_as_often_as_the_law_says)
{
    const double a = 0.8;
    enum { N = 1000, DRAWS = 1 << 20 };
    static uint32_t count[N];
    struct ts_power_law p;
    memset(count, 0, sizeof count);
    ts_power_law_init(&p, a, N);
    for (uint32_t i = 0; i < DRAWS; i++)
        count[ts_power_law_rank(&p, ts_unit(ts_mix(i)))]++;
    for (uint32_t k = 1; k <= N; k *= 10) {
        /* the continuous law on [k, k + 1) */
        const double share = (pow(k + 1, 1 - a) - pow(k, 1 - a)) / (pow(N + 1, 1 - a) - 1);
        const double sigma = sqrt(share * DRAWS);
        ck_assert_double_le(fabs(count[k - 1] - share * DRAWS), 5 * sigma);
    }
}
END_TEST

static uint64_t hash_batch(const struct ts_batch *b)
{
    uint64_t hash = b->n + b->n_zeros;
    for (uint64_t i = 0; i < b->n * b->order; i++)
        hash = ts_mix(hash ^ b->index[i]);
    for (uint64_t i = 0; i < b->n; i++)
        hash = ts_mix(hash ^ b->value[i]);
    for (uint32_t m = 0; m < b->order; m++)
        hash = ts_mix(hash ^ b->max[m]);
    return hash;
}

static uint64_t hash_draws(const struct ts_synth *s, uint64_t piece)
{
    struct ts_batch b;
    uint64_t hash;
    ck_assert_int_eq(ts_batch_new(s->order, s->nnz, &b, NULL), 0);
    ts_batch_clear(&b);
    for (uint64_t at = 0; at < s->nnz; at += piece)
        ts_synth_draw(s, at, s->nnz - at < piece ? s->nnz - at : piece, &b);
    hash = hash_batch(&b);
    ts_batch_free(&b);
    return hash;
}

/* Numbers that were drawn once stay what they are: tensors are named by the options that made
 * them. */
static const struct {
    struct ts_synth law;
    uint64_t hash;
} frozen[] = {
    { { .order = 3,
        .dim = { 30000, 40000, 50000 },
        .nnz = 10000,
        .seed = 1,
        .value_first = 1,
        .value_last = 5,
        .value_bytes = 4 },
      UINT64_C(0x07b3a551494958ac) },
    { { .order = 3,
        .dim = { 4821, 1774, 1805 },
        .nnz = 10000,
        .seed = 7,
        .value_bytes = 4,
        .power = { 0.8, 1.1, 1 } },
      UINT64_C(0x4f8aa14b9f4525b3) },
    { { .order = 2,
        .dim = { 1 << 20, 46 },
        .nnz = 9999,
        .seed = 3,
        .value_bytes = 8,
        .power = { 1.1, 0 },
        .value_first = 0,
        .value_last = 3 },
      UINT64_C(0xb82a74f4f58c676b) },
    { { .order = 4,
        .dim = { 50, 60, 70, 80 },
        .nnz = 5000,
        .seed = 9,
        .value_bytes = 4,
        .planted = 3,
        .noise = 0.1 },
      UINT64_C(0xc92f6f7410a24656) },
};

START_TEST(draws_are_frozen) /* loop test: _i is the law */
{
    struct ts_synth s = frozen[_i].law;
    ck_assert_int_eq(ts_synth_init(&s, NULL), 0);
    ck_assert_uint_eq(hash_draws(&s, s.nnz), frozen[_i].hash);
    ck_assert_uint_eq(hash_draws(&s, 100), frozen[_i].hash);
    /* by tables: of all modes, then of those for which a few bytes are enough */
    ck_assert_int_eq(ts_synth_tables_new(&s, 1 << 20, 2, NULL), 0);
    ck_assert_int_eq(s.place[0] != NULL, _i == 1);
    ck_assert_uint_eq(hash_draws(&s, 1000), frozen[_i].hash);
    ts_synth_tables_free(&s);
    ck_assert_int_eq(ts_synth_tables_new(&s, 4 * 1800, 2, NULL), 0);
    ck_assert_ptr_null(s.place[0]);
    ck_assert_int_eq(s.place[1] != NULL, _i == 1);
    ck_assert_ptr_null(s.place[2]);
    ck_assert_uint_eq(hash_draws(&s, 1000), frozen[_i].hash);
    ts_synth_tables_free(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("synth");
    TCase *ranks = tcase_create("ranks"), *draws = tcase_create("draws");
    tcase_add_loop_test(ranks, ranks_are_those_of_pow, 0, (int)(sizeof laws / sizeof *laws));
    tcase_add_test(ranks, popular_ranks_come_as_often_as_the_law_says);
    tcase_add_loop_test(draws, draws_are_frozen, 0, (int)(sizeof frozen / sizeof *frozen));
    suite_add_tcase(suite, ranks);
    suite_add_tcase(suite, draws);
    return test_run_suite(suite, CK_NOFORK);
}
