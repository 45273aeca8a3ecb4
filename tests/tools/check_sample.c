/* SPDX-License-Identifier: BSD-3-Clause */
/* A sample stands for its tensor: fewer shards of every mode, spread evenly, and real sweeps over
 * it. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build/build.h"
#include "cpd/solver/solver.h"
#include "cpd/methods/method.h"
#include "cpu/cpu_backend.h"
#include "engine/engine_memory.h"
#include "tests/support/run_suite.h"
#include "tools/common/tool.h"
#include "tools/cp/tstream_sample.h"
#include "tests/build/build_case.h"

static struct ts_tensor *tensor;

static void setup_tensor(void)
{
    struct ts_build_options o;
    setup();
    write_large();
    o = options(out);
    o.shard_bytes = TS_BUILD_MIN_SHARD;
    ck_assert_int_eq(build(&o), 0);
    ck_assert_int_eq(ts_tensor_open(out, &tensor, &err), 0);
}

static void teardown_tensor(void)
{
    ts_tensor_close(tensor);
    teardown();
}

START_TEST(a_sample_is_spread_over_every_mode)
{
    struct tstream_sample s;
    uint64_t all = 0;
    for (uint32_t m = 0; m < tensor->order; m++)
        all += tensor->mode[m].disk.shards_bytes;
    ck_assert_int_eq(tstream_sample_new(tensor, all / 3, &s, &err), 0);
    ck_assert_int_eq(s.whole, 0);
    for (uint32_t m = 0; m < tensor->order; m++) {
        const struct ts_mode *from = &tensor->mode[m], *to = &s.tensor.mode[m];
        const uint64_t n = from->disk.n_shards, k = to->disk.n_shards;
        uint64_t nnz = 0, at = 0;
        ck_assert_uint_ge(n, 6); /* else nothing is tested */
        ck_assert(k >= 2 && k <= (n + 2) / 3);
        for (uint64_t i = 0; i < k; i++) {
            while (at < n && from->shard[at].offset != to->shard[i].offset)
                at++;
            ck_assert_uint_lt(at, n);
            ck_assert_uint_le(at * k, (i + 1) * n); /* one of each k-th part */
            ck_assert_uint_ge((at + 1) * k, i * n);
            ck_assert_int_eq(memcmp(&from->shard[at], &to->shard[i], sizeof to->shard[i]), 0);
            nnz += to->shard[i].nnz;
        }
        ck_assert_uint_eq(s.nnz[m], nnz);
        ck_assert_uint_eq(to->disk.n_rows, from->disk.n_rows);
    }
    tstream_sample_free(&s);
    ck_assert_int_eq(tstream_sample_new(tensor, all, &s, &err), 0);
    ck_assert_int_eq(s.whole, 1);
    tstream_sample_free(&s);
}
END_TEST

/* The share that stays is that asked for, to a shard, whatever slots take. */
START_TEST(the_same_share_of_a_sample_stays)
{
    const double share = _i / 10.0;
    struct tstream_sample s;
    struct ts_engine e;
    struct ts_engine_conf conf = { .path = out,
                                   .rank = 4,
                                   .threads = 2,
                                   .only_mode = -1,
                                   .processor = { .cpu = 1 },
                                   .dry_run = 1,
                                   .resident_share = share };
    uint64_t total = 0, largest = 0;
    ck_assert_int_eq(tstream_sample_new(tensor, UINT64_MAX, &s, &err), 0);
    conf.sample = &s.tensor;
    for (uint32_t m = 0; m < s.tensor.order; m++)
        for (uint64_t i = 0; i < s.tensor.mode[m].disk.n_shards; i++) {
            const uint64_t bytes = ts_residency_bytes(&s.tensor.mode[m].shard[i]);
            total += bytes;
            largest = bytes > largest ? bytes : largest;
        }
    ck_assert_msg(ts_engine_open(&conf, &e, &err) == 0, "%s", err.text);
    ck_assert_double_eq_tol((double)e.residency.resident_bytes, share * (double)total,
                            2.0 * (double)largest);
    ts_engine_close(&e);
    tstream_sample_free(&s);
}
END_TEST

/* What passes over cells sum by partition counts for each of the models that are side by side. */
START_TEST(sums_of_all_models_are_counted)
{
    const uint32_t ranks[8] = { 2, 2, 2, 2, 2, 2, 2, 2 };
    const struct ts_spec held = { .held = 1 };
    const struct ts_backend_conf bc = {
        .tensor = tensor, .n_models = 8, .ranks = ranks, .threads = 1, .only_mode = -1
    };
    const uint64_t sums = ts_method_bytes_of(tensor, 2, TS_FLOAT32, &held).sums;
    struct ts_engine_memory_conf mc = { .host_bytes = UINT64_C(64) << 20 };
    struct ts_engine_memory without, with;
    ck_assert_msg(ts_engine_memory_plan(&ts_backend_cpu, &bc, &mc, &without, &err) == 0, "%s",
                  err.text);
    mc.spec = &held;
    ck_assert_int_eq(ts_engine_memory_plan(&ts_backend_cpu, &bc, &mc, &with, &err), 0);
    ck_assert_uint_ge(sums, 2 * sizeof(struct ts_cell_errors));
    ck_assert_uint_eq(with.other_bytes, without.other_bytes + 8 * sums);
    ck_assert_uint_eq(with.method_bytes, without.method_bytes + 8 * sums);
}
END_TEST

static double pace_of(const struct tstream_sample *s, double share)
{
    const struct ts_engine_conf conf = {
        .path = out, .rank = 16, .threads = 1, .only_mode = -1, .processor = { .cpu = 1 }
    };
    struct tstream_pace pace;
    ck_assert_msg(tstream_sample_pace(&conf, s, tensor, share, 1, 10, 0.05, &pace, &err) == 0, "%s",
                  err.text);
    ck_assert_uint_ge(pace.n_sweeps, 1);
    for (uint32_t m = 0; m < tensor->order; m++)
        ck_assert(pace.product_s[m] > 0 && pace.rows_s[m] > 0);
    ck_assert(pace.first_s >= pace.sweep_s);
    return pace.sweep_s;
}

/* A third of the shards says for the whole what all of them say. Times vary with what else the
 * machine does, so the least of several tries counts, and it is only looked at that they are of
 * that size: twelve times as much is wrong by the square of the share. */
START_TEST(what_is_measured_is_told_of_the_whole)
{
    double took[2] = { INFINITY, INFINITY }, rate;
    struct tstream_sample s[2];
    for (int whole = 0; whole < 2; whole++) {
        ck_assert_int_eq(tstream_sample_new(tensor, whole ? UINT64_MAX : 300000, &s[whole], &err),
                         0);
        ck_assert_int_eq(s[whole].whole, whole);
        ck_assert_int_eq(tstream_sample_disk(&s[whole], &rate, &err), 0);
        ck_assert(rate > 0);
    }
    for (int tries = 0; tries < 30; tries++) {
        for (int whole = 0; whole < 2; whole++)
            took[whole] = fmin(took[whole], pace_of(&s[whole], whole ? 1 : 0.5));
        if (tries >= 2 && took[0] < 12 * took[1] && took[1] < 12 * took[0])
            break;
    }
    ck_assert_msg(took[0] < 12 * took[1] && took[1] < 12 * took[0], "%g s by a part, %g s by all",
                  took[0], took[1]);
    tstream_sample_free(&s[0]);
    tstream_sample_free(&s[1]);
}
END_TEST

START_TEST(who_wants_to_stop_is_heard)
{
    const struct ts_engine_conf conf = {
        .path = out, .rank = 4, .threads = 2, .only_mode = -1, .processor = { .cpu = 1 }
    };
    struct tstream_sample s;
    struct tstream_pace pace;
    ck_assert_int_eq(tstream_sample_new(tensor, UINT64_MAX, &s, &err), 0);
    tool_stop = SIGINT;
    ck_assert_int_eq(tstream_sample_pace(&conf, &s, tensor, 1, 1, 10, 60, &pace, &err), TS_ESTOP);
    tstream_sample_free(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sample");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup_tensor, teardown_tensor);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_sample_is_spread_over_every_mode);
    tcase_add_test(tc, sums_of_all_models_are_counted);
    tcase_add_loop_test(tc, the_same_share_of_a_sample_stays, 2, 9);
    tcase_add_test(tc, what_is_measured_is_told_of_the_whole);
    tcase_add_test(tc, who_wants_to_stop_is_heard);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
