/* SPDX-License-Identifier: BSD-3-Clause */
/* Text becomes a tensor directory that holds the same nonzeros in every copy, and the same bytes
 * however it was built. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "format/tensor.h"
#include "tests/build/build_case.h"
#include "tests/support/run_suite.h"

/* ------------------------------------------------------------------ what is built */

static const uint64_t wide[TS_MAX_ORDER] = { 40, 300, 1000, 3, 70, 9, 500, 2,
                                             2,  30,  4,    5, 6,  7, 8,   9 };

/* _i: the order. In memory, with one thread and with two. */
START_TEST(every_copy_holds_the_nonzeros)
{
    const uint32_t order = (uint32_t)_i;
    struct list draws = list_draw(order, order, wide, 4096), want = list_merge(&draws);
    struct ts_build_options o = options(out);
    list_write(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_runs, 0);
    ck_assert_uint_eq(report.nnz + report.n_duplicates + report.n_zeros, 4096);
    assert_holds(out, &want);
    o.out = other;
    o.threads = 1;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    assert_same_bytes(order);
    list_free(&draws);
    list_free(&want);
}
END_TEST

/* Looks at the count of work while a build in one area goes on: what it was in each phase, at
 * most. */
struct watch {
    _Atomic uint64_t work, all;
    _Atomic uint32_t phase;
    _Atomic int over;
    uint64_t seen[16];
};

static void *look(void *arg)
{
    struct watch *w = arg;
    while (!atomic_load(&w->over)) {
        const uint32_t phase = atomic_load(&w->phase);
        const uint64_t work = atomic_load(&w->work);
        if (phase < 16 && phase == atomic_load(&w->phase) && work > w->seen[phase])
            w->seen[phase] = work;
    }
    return NULL;
}

static void note_phase(void *arg, const struct ts_build_step *step)
{
    struct watch *w = arg;
    ck_assert_uint_le(step->done, step->total == 0 ? UINT64_MAX : step->total);
    ck_assert(step->phase == 1 || step->total == 0 || step->work >= step->total);
    atomic_store(&w->phase, step->phase);
}

START_TEST(work_is_counted_inside_one_area)
{
    const struct ts_synth synth = { .order = 3,
                                    .dim = { 900, 700, 800 },
                                    .nnz = 1500000,
                                    .value_bytes = 4,
                                    .value_last = 5,
                                    .seed = 4 };
    struct ts_synth whole = synth;
    struct ts_build_options o = options(out);
    struct watch w = { .over = 0 };
    pthread_t thread;
    o.memory = UINT64_C(256) << 20;
    o.work = &w.work;
    o.progress = note_phase;
    o.progress_arg = &w;
    ck_assert_int_eq(ts_synth_init(&whole, &err), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, look, &w), 0);
    ck_assert_msg(ts_build_synth(&o, &whole, &report, &err) == 0, "%s", err.text);
    atomic_store(&w.over, 1);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(report.n_runs, 0);
    for (uint32_t phase = 2; phase <= 6; phase++) /* merging, numbering, packing three modes */
        ck_assert_msg(w.seen[phase] > 0, "phase %u counted nothing", phase);
}
END_TEST

START_TEST(same_bytes_however_it_is_built)
{
    const uint64_t dim[] = { 900, 70, 5000 };
    struct list draws = list_draw(9, 3, dim, 1 << 18);
    struct ts_build_options o = options(out);
    for (uint64_t i = 0; i < draws.n; i++) /* sums then depend on the order of adding */
        draws.value[i] = (float)(draws.value[i] * ts_unit(ts_mix(i)));
    list_write(&draws, 0);
    o.duplicates = _i % 2 ? TS_DUPLICATES_KEEP : TS_DUPLICATES_SUM;
    o.value_bytes = _i < 2 ? 4 : 8;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_runs, 0);
    list_write(&draws, 12345);
    o.out = other;
    o.threads = 3;
    o.area_words = 60000;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 3);
    assert_same_bytes(3);
    list_free(&draws);
}
END_TEST

START_TEST(huge_indices_are_numbered)
{
    const uint64_t dim[] = { UINT64_C(1) << 40, 50, UINT64_C(1) << 38, UINT64_C(1) << 31 };
    struct list draws = list_draw(3, 4, dim, 1 << 15), want;
    struct ts_build_options o = options(out);
    draws.index[0] = dim[0] - 1;
    for (uint64_t i = 0; i < draws.n; i += 3) /* some slices hold many */
        draws.index[4 * i + 2] = draws.index[4 * (i % 100) + 2];
    want = list_merge(&draws);
    list_write(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    assert_holds(out, &want);
    list_write(&draws, 77);
    o.out = other;
    o.area_words = 60000;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 1);
    assert_same_bytes(4);
    list_free(&draws);
    list_free(&want);
}
END_TEST

/* Narrow records fill most of an area before the first wide one asks for a longer layout, in which
 * those that are there would need more than an area. */
START_TEST(records_grow_when_an_area_is_nearly_full)
{
    const uint64_t dim[] = { 90, 70, 50 };
    struct list draws = list_draw(6, 3, dim, 1 << 16), want;
    struct ts_build_options o = options(out);
    for (uint64_t i = 45000 + 5000 * (uint64_t)_i; i < draws.n; i++)
        for (uint32_t m = 0; m < 3; m++)
            draws.index[3 * i + m] = ts_mix(3 * i + m) >> 24;
    want = list_merge(&draws);
    list_write(&draws, 0);
    o.area_words = 60000;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 1);
    ck_assert_uint_eq(report.nnz + report.n_duplicates + report.n_zeros, draws.n);
    assert_holds(out, &want);
    list_free(&draws);
    list_free(&want);
}
END_TEST

START_TEST(duplicates_are_kept_or_refused)
{
    const uint64_t dim[] = { 20, 20 };
    struct list draws = list_draw(1, 2, dim, 1024);
    struct ts_build_options o = options(out);
    struct ts_tensor *t;
    for (uint64_t i = 0; i < draws.n; i++)
        draws.value[i] += 4; /* no zeros */
    list_write(&draws, 0);
    o.duplicates = TS_DUPLICATES_ERROR;
    ck_assert_int_eq(build(&o), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, ": a second nonzero at "));
    o.duplicates = TS_DUPLICATES_KEEP;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    list_sort(&draws);
    assert_holds(out, &draws);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_uint_ne(t->header.flags & TS_TENSOR_DUPLICATES, 0);
    ts_tensor_close(t);
    list_free(&draws);
}
END_TEST

/* One cell a quarter of a million times: no range of keys can divide it. */
START_TEST(one_cell_many_times)
{
    struct list draws = list_new(2, 1 << 18), want;
    struct ts_build_options o = options(out);
    memset(draws.index, 0, draws.n * 2 * sizeof *draws.index);
    for (uint64_t i = 0; i < draws.n; i++)
        draws.value[i] = 1 + (double)(i % 3);
    draws.index[2 * 5000] = 6;
    draws.perm = NULL;
    want = list_merge(&draws);
    list_write(&draws, 0);
    o.area_words = 30000;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 3);
    assert_holds(out, &want);
    list_free(&draws);
    list_free(&want);
}
END_TEST

START_TEST(values_choose_their_coding)
{
    static const struct {
        const char *lines;
        uint32_t kind;
    } at[] = {
        { "1 1 2.5\n2 2 2.5\n", TS_VALUE_CONST },
        { "1 1 -7\n2 2 9\n3 3 3\n4 4 -1\n", TS_VALUE_INT },
        { "1 1 0.1\n2 2 1e30\n", TS_VALUE_F32 },
        { "1 1 16777216\n2 2 1e20\n3 3 0.5\n", TS_VALUE_F32 },
    };
    struct ts_build_options o = options(out);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        FILE *f = fopen(text, "w");
        struct ts_tensor *t;
        fputs(at[i].lines, f);
        fclose(f);
        o.force = 1;
        ck_assert_msg(build(&o) == 0, "%s", err.text);
        ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
        ck_assert_uint_eq(t->header.value_kind, at[i].kind);
        ts_tensor_close(t);
    }
}
END_TEST

START_TEST(few_distinct_values_become_a_dictionary)
{
    const uint64_t dim[] = { 100, 200, 300 };
    struct list draws = list_draw(4, 3, dim, 8192), want;
    struct ts_build_options o = options(out);
    struct ts_tensor *t;
    for (uint64_t i = 0; i < draws.n; i++) {
        draws.index[3 * i + 2] = i % 300;
        draws.index[3 * i + 1] = i / 300; /* each cell once */
        draws.value[i] = ldexp(draws.value[i] + 4, (int)(i % 3) * 9);
    }
    want = list_merge(&draws);
    list_write(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_uint_eq(t->header.value_kind, TS_VALUE_DICT);
    ts_tensor_close(t);
    assert_holds(out, &want);
    list_free(&draws);
    list_free(&want);
}
END_TEST

START_TEST(mistakes_are_told_with_their_line)
{
    /* behind many pieces that are parsed side by side */
    struct ts_build_options o = options(out);
    struct stat st;
    char want[4200];
    FILE *f = fopen(text, "w");
    for (int i = 0; i < 300000; i++)
        fprintf(f, "%s1 %d 3\n", i % 5 ? "" : "\n", i + 1);
    fputs("5 5 5 5\n", f);
    for (int i = 0; i < 300000; i++)
        fprintf(f, "0 %d 3\n", i + 1);
    fclose(f);
    ck_assert_int_eq(build(&o), TS_EFORMAT);
    snprintf(want, sizeof want, "%s:360001: found 4 fields, expected 3", text);
    ck_assert_str_eq(err.text, want);
    ck_assert_int_lt(stat(out, &st), 0);
    snprintf(want, sizeof want, "%s.building", out);
    ck_assert_int_lt(stat(want, &st), 0);
}
END_TEST

START_TEST(labels_come_along)
{
    struct ts_build_options o = options(out);
    struct ts_tensor *t;
    const uint64_t want[] = { 0, 2, 5 };
    char map[4200], *name[3];
    FILE *f = fopen(text, "w");
    fputs("1 1 1\n3 2 1\n", f);
    fclose(f);
    snprintf(map, sizeof map, "%s/names", tmp);
    f = fopen(map, "w");
    fputs("\xef\xbb\xbf"
          "first\r\nsecond one\nthird",
          f);
    fclose(f);
    o.map[0] = map;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_uint_eq(t->mode[0].disk.n_labels, 3);
    ck_assert_msg(ts_tensor_labels(t, 0, 3, want, name, &err) == 0, "%s", err.text);
    ck_assert_str_eq(name[0], "first");
    ck_assert_str_eq(name[1], "third");
    ck_assert_ptr_null(name[2]);
    free(name[0]);
    free(name[1]);
    ts_tensor_close(t);
}
END_TEST

/* ------------------------------------------------------------------ the generator */

START_TEST(generated_tensors_do_not_depend_on_the_machine)
{
    struct ts_synth s = { .order = 3,
                          .dim = { 500, 60, 7000 },
                          .nnz = 50000,
                          .seed = 5,
                          .power = { 1.1, 0, 0.8 },
                          .value_first = 1,
                          .value_last = 5,
                          .value_bytes = 4 };
    struct ts_build_options o = options(out);
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    o.out = other;
    o.force = 1;
    for (int again = 0; again < 12; again++) { /* other threads fill areas in other orders */
        o.threads = 2 + (uint32_t)again % 5;
        o.area_words = 30000 + 1000 * (uint64_t)again;
        ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
        ck_assert_uint_gt(report.n_runs, 1);
        ck_assert_uint_eq(report.nnz + report.n_duplicates + report.n_zeros, s.nnz);
        assert_same_bytes(3);
    }
}
END_TEST

/* In memory, most of the nonzeros in one slice and more of them than the scratch holds; through
 * runs; and with more threads than cores. */
START_TEST(heavy_slices_do_not_depend_on_memory)
{
    struct ts_synth s = { .order = 3,
                          .dim = { 4000, 3, 900000 },
                          .nnz = 1200000,
                          .seed = 6,
                          .power = { 2.5, 0, 0.5 },
                          .value_first = 1,
                          .value_last = 5,
                          .value_bytes = 4 };
    struct ts_build_options o = options(out);
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    o.memory = 512 << 20;
    o.threads = 17;
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_runs, 0);
    o.out = other;
    o.memory = 32 << 20;
    o.threads = 1;
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 1);
    assert_same_bytes(3);
}
END_TEST

/* A thread alone is given its nonzeros in several pieces; several get them in one. */
START_TEST(pieces_of_a_copy_leave_no_seam)
{
    struct ts_synth s = { .order = 3,
                          .dim = { UINT64_C(5000000000), 30, 300 },
                          .nnz = 4300000,
                          .seed = 8,
                          .power = { 1.2, 0, 0.5 },
                          .value_first = 1,
                          .value_last = 2,
                          .value_bytes = 4 };
    struct ts_build_options o = options(out);
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    o.memory = 512 << 20;
    o.duplicates = TS_DUPLICATES_KEEP;
    o.threads = 1;
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_runs, 0);
    ck_assert_uint_eq(report.nnz, s.nnz);
    o.out = other;
    o.threads = 3;
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_runs, 0);
    assert_same_bytes(3);
}
END_TEST

START_TEST(planted_blocks_hold_each_cell_once)
{
    struct ts_synth s = { .order = 3,
                          .dim = { 100, 90, 80 },
                          .nnz = 40000,
                          .seed = 5,
                          .planted = 4,
                          .noise = 0.1,
                          .value_bytes = 4 };
    struct ts_build_options o = options(out);
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    ck_assert_uint_gt(s.nnz, 30000);
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_duplicates, 0);
    ck_assert_uint_eq(report.nnz, s.nnz);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("build");
    TCase *t = tcase_create("build");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, every_copy_holds_the_nonzeros, 2, 17);
    tcase_add_test(t, work_is_counted_inside_one_area);
    tcase_add_loop_test(t, same_bytes_however_it_is_built, 0, 4);
    tcase_add_test(t, huge_indices_are_numbered);
    tcase_add_loop_test(t, records_grow_when_an_area_is_nearly_full, 0, 3);
    tcase_add_test(t, duplicates_are_kept_or_refused);
    tcase_add_test(t, one_cell_many_times);
    tcase_add_test(t, values_choose_their_coding);
    tcase_add_test(t, few_distinct_values_become_a_dictionary);
    tcase_add_test(t, mistakes_are_told_with_their_line);
    tcase_add_test(t, labels_come_along);
    tcase_add_test(t, generated_tensors_do_not_depend_on_the_machine);
    tcase_add_test(t, heavy_slices_do_not_depend_on_memory);
    tcase_add_test(t, pieces_of_a_copy_leave_no_seam);
    tcase_add_test(t, planted_blocks_hold_each_cell_once);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
