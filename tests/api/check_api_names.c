/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompositions carry names, labels and their tensor: after the tensor is gone, through files of
 * any kind and any rows, from one to another, and as a program gives them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/api_case.h"
#include "tests/format/tsh_writer.h"
#include "tests/support/run_suite.h"

#define DIM0 598u /* of mode 0; rows are the multiples of 3 */

static const char *const names[4] = { "user", "item", "week", NULL };

static void expect(uint32_t mode, uint64_t index, char ret[64])
{
    if (mode == 0 && index % 50 == 0)
        ret[0] = '\0';
    else
        snprintf(ret, 64, "%s %llu", mode == 0 ? "ann" : "tea", (unsigned long long)index);
}

/* The tensor at `other`, with labels of modes 0 and 1. */
static ts_tensor *open_labelled(void)
{
    ts_build_conf c = build_conf(other);
    ts_build_result r = { .size = sizeof r };
    uint64_t dim[3] = { DIM0, 50, 20 };
    char path[2][4300], label[64];
    const char *map[3] = { path[0], path[1], NULL };
    ts_builder *b;
    ts_tensor *t;
    for (uint32_t m = 0; m < 2; m++) {
        FILE *f;
        snprintf(path[m], sizeof path[m], "%s/map%u", tmp, m);
        f = fopen(path[m], "w");
        for (uint64_t i = 0; i < dim[m]; i++) {
            expect(m, i, label);
            fprintf(f, "%s\n", label);
        }
        ck_assert_int_eq(fclose(f), 0);
    }
    c.dim = dim;
    c.name = names;
    c.label = map;
    c.n_labels = 3;
    b = ts_builder_new(&c, &err);
    ck_assert_msg(b != NULL, "%s", err.text);
    ck_assert_msg(ts_builder_add(b, N, index_of, value_of, &err) == 0, "%s", err.text);
    ck_assert_msg(ts_builder_finish(b, &r, &err) == 0, "%s", err.text);
    ts_builder_free(b);
    unlink(path[0]);
    unlink(path[1]);
    t = ts_open(other, &err);
    ck_assert_msg(t != NULL, "%s", err.text);
    return t;
}

static ts_cpd *decompose(const ts_tensor *t, ts_cp_conf *conf)
{
    ts_session *s = open_session(t, 2, NULL);
    ts_cpd *c;
    conf->size = sizeof *conf;
    conf->sweeps = 3;
    c = ts_cp(s, conf, NULL, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ts_session_close(s);
    return c;
}

/* labelled: 0: no label; 1: those of used rows; 2: of all indices. */
static void assert_names(const ts_cpd *c, int labelled)
{
    uint64_t index[2 * DIM0];
    char *label[2 * DIM0], want[64];
    ck_assert_str_eq(ts_cpd_name(c, 0), "user");
    ck_assert_str_eq(ts_cpd_name(c, 1), "item");
    ck_assert_str_eq(ts_cpd_name(c, 2), "week");
    ck_assert_ptr_null(ts_cpd_name(c, 3));
    ck_assert_ptr_null(ts_cpd_name(c, 4));
    for (uint32_t m = 0; m < 3; m++) {
        const uint64_t n = 2 * DIM0;
        for (uint64_t i = 0; i < n; i++) /* any order, twice, and beyond the last index */
            index[i] = (i * 7919) % (DIM0 + 10);
        ck_assert_msg(ts_cpd_labels(c, m, n, index, label, &err) == 0, "%s", err.text);
        for (uint64_t i = 0; i < n; i++) {
            const int there = labelled > 0 && m < 2 && index[i] < (m == 0 ? DIM0 : 50) &&
                              (labelled == 2 || m == 1 || index[i] % 3 == 0);
            expect(m, index[i], want);
            ck_assert_msg((label[i] != NULL) == there, "mode %u, index %llu", m,
                          (unsigned long long)index[i]);
            ck_assert(!there || strcmp(label[i], want) == 0);
        }
        ts_labels_free(n, label);
    }
    ck_assert((ts_cpd_labelled(c, 0) > 0) == (labelled > 0));
    ck_assert_uint_eq(ts_cpd_labelled(c, 2), 0);
    ck_assert_int_eq(ts_cpd_labels(c, 3, 0, index, label, &err), TS_ERR_ARGUMENT);
}

static void assert_origin(const ts_cpd *c, const ts_cpd_origin *want)
{
    ts_cpd_origin o = { .size = sizeof o };
    ts_cpd_tensor(c, &o);
    ck_assert_int_eq(o.known, 1);
    ck_assert_uint_eq(o.segments, 1);
    ck_assert_uint_eq(o.nnz, want->nnz);
    ck_assert_uint_eq(o.checksum, want->checksum);
    ck_assert_int_eq(o.has_sum, 1);
    ck_assert(o.sum[0] == want->sum[0] && o.sum[1] == want->sum[1] && (o.sum[0] | o.sum[1]) != 0);
}

START_TEST(names_outlive_the_tensor)
{
    ts_tensor *t = open_labelled();
    ts_cp_conf conf = { .size = sizeof conf };
    ts_cpd *c = decompose(t, &conf), *again = decompose(t, &conf);
    ts_cpd_origin o = { .size = sizeof o };
    ts_close(t);
    test_tsh_remove(other);
    ts_cpd_tensor(c, &o);
    assert_names(c, 2);
    assert_origin(c, &o);
    ts_cpd_free(c);
    assert_names(again, 2);
    assert_origin(again, &o);
    ts_cpd_free(again);
}
END_TEST

/* Every kind of file, with all rows and with used ones. */
START_TEST(names_go_through_files)
{
    static const unsigned format[] = { TS_FILE_KTENSOR, TS_FILE_NPY, TS_FILE_SPLATT };
    const int held = _i % 2;
    ts_tensor *t = open_labelled();
    ts_cp_conf conf = { .size = sizeof conf };
    ts_save_conf save = { .size = sizeof save, .formats = format[_i / 2], .held_rows = held };
    ts_cpd_origin o = { .size = sizeof o };
    ts_cpd *c = decompose(t, &conf), *read, *twice;
    ts_cpd_tensor(c, &o);
    ts_close(t);
    test_tsh_remove(other);
    ck_assert_msg(ts_cpd_save(c, files, &save, &err) == 0, "%s", err.text);
    read = ts_cpd_load(files, NULL, &err);
    ck_assert_msg(read != NULL, "%s", err.text);
    ck_assert_uint_eq(ts_cpd_dim(read, 0), DIM0);
    assert_names(read, held ? 1 : 2);
    assert_origin(read, &o);
    /* what was read is written with other rows, over the files that it comes from */
    save.replace = 1;
    save.held_rows = !held;
    ck_assert_msg(ts_cpd_save(read, files, &save, &err) == 0, "%s", err.text);
    twice = ts_cpd_load(files, NULL, &err);
    ck_assert_msg(twice != NULL, "%s", err.text);
    assert_names(twice, held ? 1 : 2);
    assert_names(read, held ? 1 : 2);
    assert_origin(twice, &o);
    ts_cpd_free(twice);
    save.no_labels = 1;
    ck_assert_msg(ts_cpd_save(read, files, &save, &err) == 0, "%s", err.text);
    twice = ts_cpd_load(files, NULL, &err);
    assert_names(twice, 0);
    assert_origin(twice, &o);
    ts_cpd_free(twice);
    ts_cpd_free(read);
    ts_cpd_free(c);
}
END_TEST

/* A run that writes its result, whose factors are then read from there or not. */
START_TEST(names_of_a_run_with_files)
{
    ts_tensor *t = open_labelled();
    ts_cp_conf conf = { .size = sizeof conf,
                        .out = files,
                        .formats = _i % 2 ? TS_FILE_NPY : TS_FILE_KTENSOR,
                        .held_rows = _i % 2,
                        .no_labels = _i / 2 };
    ts_cpd *c = decompose(t, &conf), *read = ts_cpd_load(files, NULL, &err);
    ts_cpd_origin o = { .size = sizeof o };
    ck_assert_msg(read != NULL, "%s", err.text);
    ts_cpd_tensor(c, &o);
    ts_close(t);
    assert_names(c, 2);
    assert_names(read, _i / 2 ? 0 : _i % 2 ? 1 : 2);
    assert_origin(read, &o);
    ts_cpd_free(read);
    ts_cpd_free(c);
}
END_TEST

static ts_cpd *of_arrays(void)
{
    static const double number[] = { 1, 2, 3, 4, 5, 6 };
    static const double *const factor[2] = { number, number };
    static const uint64_t dim[2] = { 3, 2 };
    ts_cpd *c = ts_cpd_new(2, dim, 2, TS_REAL_FLOAT64, number, factor, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    return c;
}

START_TEST(programs_give_names)
{
    static const char *const name[3] = { "a", NULL, "b" };
    static const char *const one[3] = { "x", NULL, "z" }, *const two[1] = { "y" };
    static const char *const *const label[2] = { one, two };
    static const uint64_t n_labels[2] = { 3, 1 }, at = 1, all[3] = { 2, 1, 0 };
    static const uint64_t *const index[2] = { NULL, &at };
    const ts_cpd_origin origin = { .size = sizeof origin, .known = 1, .nnz = 5, .checksum = 4 };
    ts_cpd_names given = { .size = sizeof given,
                           .name = name,
                           .label = label,
                           .n_labels = n_labels,
                           .index = index,
                           .tensor = &origin };
    ts_cpd_names from = { .size = sizeof from };
    ts_cpd_origin o = { .size = sizeof o };
    ts_cpd *c = of_arrays(), *d = of_arrays();
    char *got[3];
    ts_cpd_tensor(c, &o);
    ck_assert_int_eq(o.known, 0);
    ck_assert_ptr_null(ts_cpd_name(c, 0));
    ck_assert_uint_eq(ts_cpd_first_index(c), 1);
    ck_assert_msg(ts_cpd_set_names(c, &given, &err) == 0, "%s", err.text);
    from.from = c;
    ck_assert_msg(ts_cpd_set_names(d, &from, &err) == 0, "%s", err.text);
    ts_cpd_free(c);
    ck_assert_msg(ts_cpd_save(d, files, NULL, &err) == 0, "%s", err.text);
    ts_cpd_free(d);
    d = ts_cpd_load(files, NULL, &err);
    ck_assert_msg(d != NULL, "%s", err.text);
    ck_assert_str_eq(ts_cpd_name(d, 0), "a");
    ck_assert_str_eq(ts_cpd_name(d, 2), "b");
    ck_assert_uint_eq(ts_cpd_first_index(d), 0);
    ts_cpd_tensor(d, &o);
    ck_assert(o.known && o.nnz == 5 && o.checksum == 4 && !o.has_sum && o.segments == 1);
    ck_assert_int_eq(ts_cpd_labels(d, 0, 3, all, got, &err), 0);
    ck_assert(strcmp(got[0], "z") == 0 && got[1] == NULL && strcmp(got[2], "x") == 0);
    ts_labels_free(3, got);
    ck_assert_int_eq(ts_cpd_labels(d, 1, 2, all + 1, got, &err), 0);
    ck_assert(strcmp(got[0], "y") == 0 && got[1] == NULL);
    ts_labels_free(2, got);
    ts_cpd_free(d);
}
END_TEST

START_TEST(names_that_make_no_sense)
{
    static const char *const lines[1] = { "a\nb" };
    static const char *const *const one[2] = { lines, NULL };
    static const char *const four[4] = { "a", "b", "c", "d" };
    static const char *const *const many[2] = { four, NULL };
    static const uint64_t n_one[2] = { 1, 0 }, n_many[2] = { 4, 0 }, down[2] = { 1, 0 },
                          n_two[2] = { 2, 0 };
    static const uint64_t *const descending[2] = { down, NULL };
    static const char *const long_name[3] = { "two\nlines", NULL, NULL };
    const ts_cpd_names bad[] = {
        { .size = sizeof *bad, .label = one, .n_labels = n_one },
        { .size = sizeof *bad, .label = many, .n_labels = n_many },
        { .size = sizeof *bad, .label = many, .n_labels = n_two, .index = descending },
        { .size = sizeof *bad, .name = long_name },
    };
    ts_cpd *c = of_arrays();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(ts_cpd_set_names(c, &bad[i], &err), TS_ERR_ARGUMENT);
        ck_assert_ptr_null(ts_cpd_name(c, 0));
    }
    ts_cpd_free(c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("api_names");
    TCase *c = tcase_create("names");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, names_outlive_the_tensor);
    tcase_add_loop_test(c, names_go_through_files, 0, 6);
    tcase_add_loop_test(c, names_of_a_run_with_files, 0, 4);
    tcase_add_test(c, programs_give_names);
    tcase_add_test(c, names_that_make_no_sense);
    suite_add_tcase(s, c);
    return test_run_suite(s, CK_NOFORK);
}
