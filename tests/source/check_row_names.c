/* SPDX-License-Identifier: BSD-3-Clause */
/* Indices and labels of rows are those of ts_tensor_rows and ts_tensor_labels, in memory or through
 * pages, by several threads; damage is refused. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "format/row_names.h"
#include "tests/build/build_case.h"
#include "tests/support/run_suite.h"

#define NNZ      3000u
#define N_LABELS 5000u
#define THREADS  3u

static char map[4200];

/* Mode 1 has gaps and labels of up to 9000 bytes, some of them empty; mode 2 gaps beyond 2^32; mode
 * 3 neither. */
static struct ts_tensor *build_labelled(void)
{
    struct ts_build_options o = options(out);
    struct ts_tensor *t = NULL;
    FILE *f = fopen(text, "w");
    ck_assert_ptr_nonnull(f);
    for (uint32_t i = 0; i < NNZ; i++)
        fprintf(f, "%u %llu %u 1\n", 1 + (uint32_t)(ts_mix(i) % (N_LABELS + 50)),
                (unsigned long long)(1 + ts_mix(i + NNZ) % (UINT64_C(1) << 39)), i % 5 + 1);
    ck_assert_int_eq(fclose(f), 0);
    snprintf(map, sizeof map, "%s/map", tmp);
    f = fopen(map, "w");
    ck_assert_ptr_nonnull(f);
    for (uint32_t i = 0; i < N_LABELS; i++) {
        if (i % 11 > 0)
            fprintf(f, "%u %0*u", i, i % 500 == 1 ? 9000 : (int)(i % 40), i);
        putc('\n', f);
    }
    ck_assert_int_eq(fclose(f), 0);
    o.map[0] = map;
    o.partial_map = 1;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    unlink(map);
    ck_assert_msg(ts_tensor_open(out, &t, &err) == 0, "%s", err.text);
    ck_assert(t->mode[0].disk.rows_bytes > 0 && t->mode[1].disk.dim > UINT64_C(1) << 32);
    return t;
}

static struct ts_row_names_conf conf_of(const struct ts_tensor *t, uint64_t bytes)
{
    return (struct ts_row_names_conf){
        .tensor = t, .labels = 1, .threads = THREADS, .bytes = bytes, .tmp = tmp
    };
}

static void assert_indices(struct ts_row_names *r, uint32_t mode)
{
    const struct ts_tensor *t = r->tensor;
    const uint64_t n = t->mode[mode].disk.n_rows;
    uint64_t *rows = NULL;
    ck_assert_int_eq(ts_tensor_rows(t, mode, &rows, &err), 0);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t row = ts_mix(i) % n;
        uint64_t index;
        ck_assert_int_eq(ts_row_index(r, (uint32_t)(i % THREADS), mode, row, &index, &err), 0);
        ck_assert_uint_eq(index, rows == NULL ? row : rows[row]);
    }
    free(rows);
}

static void assert_labels(struct ts_row_names *r)
{
    uint64_t index[N_LABELS];
    static char *label[N_LABELS];
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < N_LABELS; i++)
        index[i] = i;
    ck_assert_int_eq(ts_tensor_labels(r->tensor, 0, N_LABELS, index, label, &err), 0);
#pragma omp parallel for num_threads(THREADS) schedule(static) reduction(+ : wrong)
    for (uint32_t k = 0; k < THREADS; k++)
        for (uint32_t i = 0; i < 2 * N_LABELS; i++) { /* in order, then anyhow */
            const uint32_t at = i < N_LABELS ? i : (uint32_t)(ts_mix(i + k) % N_LABELS);
            struct ts_err why;
            const char *got = NULL;
            size_t n = 0;
            const int rc = ts_row_label(r, k, 0, at, &got, &n, &why);
            wrong += rc < 0 || n != strlen(label[at]) || memcmp(got, label[at], n) != 0;
        }
    ck_assert_uint_eq(wrong, 0);
    for (uint32_t i = 0; i < N_LABELS; i++)
        free(label[i]);
}

static void assert_names(const struct ts_tensor *t, uint64_t bytes)
{
    const struct ts_row_names_conf conf = conf_of(t, bytes);
    struct ts_row_names *r = NULL;
    const char *got;
    size_t n;
    ck_assert_msg(ts_row_names_open(&conf, &r, &err) == 0, "%s", err.text);
    for (uint32_t m = 0; m < 3; m++)
        assert_indices(r, m);
    assert_labels(r);
    ck_assert_int_eq(ts_row_label(r, 0, 0, N_LABELS, &got, &n, &err), 0);
    ck_assert_ptr_null(got); /* behind the last one, */
    ck_assert_int_eq(ts_row_label(r, 0, 2, 0, &got, &n, &err), 0);
    ck_assert_ptr_null(got); /* and of a mode without labels */
    ts_row_names_close(r);
}

START_TEST(names_come_back)
{
    struct ts_tensor *t = build_labelled();
    const struct ts_row_names_conf conf = conf_of(t, 0);
    const uint64_t least = ts_row_names_least(&conf), most = ts_row_names_most(&conf);
    ck_assert_uint_lt(least, most);
    assert_names(t, least);
    assert_names(t, (least + most) / 2);
    assert_names(t, 4 * most);
    ts_tensor_close(t);
}
END_TEST

START_TEST(without_labels_there_are_indices)
{
    struct ts_tensor *t = build_labelled();
    struct ts_row_names_conf conf = conf_of(t, 1 << 20);
    struct ts_row_names *r = NULL;
    const char *got;
    size_t n;
    conf.labels = 0;
    ck_assert_int_eq(ts_row_names_open(&conf, &r, &err), 0);
    assert_indices(r, 0);
    ck_assert_int_eq(ts_row_label(r, 0, 0, 3, &got, &n, &err), 0);
    ck_assert_ptr_null(got);
    ts_row_names_close(r);
    ts_tensor_close(t);
}
END_TEST

START_TEST(damage_is_refused) /* loop test: _i is the memory */
{
    static const char *const file[] = { "mode1.rows", "mode1.labels", "mode2.rows" };
    struct ts_tensor *t = build_labelled();
    const struct ts_row_names_conf conf = conf_of(t, (uint64_t)_i << 20);
    struct ts_row_names *r = NULL;
    for (int i = 0; i < 3; i++) {
        char path[4300], byte;
        int fd;
        snprintf(path, sizeof path, "%s/%s", out, file[i]);
        fd = open(path, O_RDWR);
        ck_assert(fd >= 0 && pread(fd, &byte, 1, 100) == 1);
        byte ^= 1;
        ck_assert(pwrite(fd, &byte, 1, 100) == 1);
        ck_assert_int_eq(ts_row_names_open(&conf, &r, &err), TS_EFORMAT);
        ck_assert_ptr_nonnull(strstr(err.text, file[i]));
        byte ^= 1;
        ck_assert(pwrite(fd, &byte, 1, 100) == 1);
        close(fd);
    }
    t->mode[0].disk.n_labels++;
    ck_assert_int_eq(ts_row_names_open(&conf, &r, &err), TS_EFORMAT);
    t->mode[0].disk.n_labels--;
    ck_assert_int_eq(ts_row_names_open(&conf, &r, &err), 0);
    ts_row_names_close(r);
    ts_tensor_close(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row_names");
    TCase *tc = tcase_create("row_names");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, names_come_back);
    tcase_add_test(tc, without_labels_there_are_indices);
    tcase_add_loop_test(tc, damage_is_refused, 0, 2);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
