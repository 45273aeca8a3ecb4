/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of a tensor that do not hold the same nonzeros are told apart, however alike they are. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"
#include "tools/build/verify_sum.h"

static char *tmp;
static uint64_t *no_rows[TS_MAX_ORDER]; /* row i is index i */

static void setup(void)
{
    tmp = test_tsh_tmp();
}

static void teardown(void)
{
    char dir[4096];
    for (const char *name = "ab"; *name != '\0'; name++) {
        snprintf(dir, sizeof dir, "%s/%c.tsh", tmp, *name);
        test_tsh_remove(dir);
    }
    test_tsh_remove(tmp);
    free(tmp);
}

static struct test_coo make(char name, uint64_t swap)
{
    static const uint64_t dim[3] = { 60, 50, 40 };
    const struct test_tsh_conf conf = { TS_VALUE_INT, 1, 3, 0, 0 };
    struct test_coo x = test_coo_random(4, 3, dim, 40000, 9, 0);
    char dir[4096];
    for (uint64_t i = 0; i < swap; i++) { /* the same values elsewhere: norm and range stay */
        const double v = x.val[i];
        x.val[i] = x.val[x.nnz - 1 - i];
        x.val[x.nnz - 1 - i] = v;
    }
    snprintf(dir, sizeof dir, "%s/%c.tsh", tmp, name);
    test_tsh_write(dir, &x, &conf);
    return x;
}

static struct ts_tensor *open_tensor(char name)
{
    struct ts_tensor *t;
    struct ts_err err;
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/%c.tsh", tmp, name);
    ck_assert_msg(ts_tensor_open(dir, &t, &err) == 0, "%s", err.text);
    return t;
}

static struct verify_sum sum_mode(const struct ts_tensor *t, uint32_t mode)
{
    void *raw = malloc(ts_tensor_raw_bytes(t));
    struct verify_sum sum, next;
    struct ts_err err;
    for (uint64_t s = 0; s < t->mode[mode].disk.n_shards; s++) {
        ck_assert_int_eq(ts_tensor_read_shard(t, mode, s, raw, &err), 0);
        ck_assert_int_eq(verify_sum_shard(t, mode, s, raw, no_rows, s == 0 ? &sum : &next, &err),
                         0);
        if (s > 0)
            ck_assert_msg(verify_sum_append(t, mode, s, &sum, &next, &err) == 0, "%s", err.text);
    }
    ck_assert_msg(verify_sum_check(t, mode, &sum, &err) == 0, "%s", err.text);
    free(raw);
    return sum;
}

static int equal(const struct verify_sum *a, const struct verify_sum *b)
{
    return ts_cell_sum_same(&a->cells, &b->cells);
}

START_TEST(copies_have_one_sum_and_other_tensors_another)
{
    struct test_coo x = make('a', 0), y = make('b', (uint64_t)_i);
    struct ts_tensor *a = open_tensor('a'), *b = open_tensor('b');
    const struct verify_sum first = sum_mode(a, 0);
    for (uint32_t m = 0; m < 3; m++) {
        const struct verify_sum mine = sum_mode(a, m), other = sum_mode(b, m);
        ck_assert(equal(&mine, &first));
        ck_assert(equal(&other, &first) == (_i == 0));
        ck_assert(other.nnz == mine.nnz && fabs(other.squares - mine.squares) < 1e-6);
    }
    ts_tensor_close(a);
    ts_tensor_close(b);
    test_coo_free(&x);
    test_coo_free(&y);
}
END_TEST

/* Sorted nonzeros are part of the format: shards in the wrong order are seen. */
START_TEST(shards_out_of_order_are_seen)
{
    struct test_coo x = make('a', 0);
    struct ts_tensor *t = open_tensor('a');
    void *raw = malloc(ts_tensor_raw_bytes(t));
    struct verify_sum sum;
    struct ts_err err;
    ck_assert_int_eq(ts_tensor_read_shard(t, 1, 0, raw, &err), 0);
    ck_assert_int_eq(verify_sum_shard(t, 1, 0, raw, no_rows, &sum, &err), 0);
    ck_assert_int_eq(verify_sum_append(t, 1, 1, &sum, &sum, &err), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "shard 1 does not come behind"));
    ts_tensor_close(t);
    free(raw);
    test_coo_free(&x);
}
END_TEST

START_TEST(claims_of_the_index_are_checked)
{
    struct test_coo x = make('a', 0);
    struct ts_tensor *t = open_tensor('a');
    struct verify_sum sum = sum_mode(t, 0);
    struct ts_err err;
    t->header.norm *= 1 + 1e-9;
    ck_assert_int_eq(verify_sum_check(t, 0, &sum, &err), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "norm"));
    t->header.norm /= 1 + 1e-9;
    t->header.value_max++;
    ck_assert_int_eq(verify_sum_check(t, 0, &sum, &err), TS_EFORMAT);
    t->header.value_max--;
    t->mode[0].disk.largest_slice--;
    ck_assert_int_eq(verify_sum_check(t, 0, &sum, &err), TS_EFORMAT);
    t->mode[0].disk.largest_slice++;
    ck_assert_int_eq(verify_sum_check(t, 0, &sum, &err), 0);
    ts_tensor_close(t);
    test_coo_free(&x);
}
END_TEST

START_TEST(counts_and_unused_fields_are_checked)
{
    struct test_coo x = make('a', 0);
    struct ts_tensor *t = open_tensor('a');
    struct ts_err err;
    ck_assert_msg(verify_sum_header(t, &err) == 0, "%s", err.text);
    t->header.input_nnz++;
    ck_assert_int_eq(verify_sum_header(t, &err), TS_EFORMAT);
    t->header.n_zeros++;
    ck_assert_int_eq(verify_sum_header(t, &err), 0);
    t->header.n_duplicates -= 2; /* a sum that wraps */
    ck_assert_int_eq(verify_sum_header(t, &err), TS_EFORMAT);
    t->header.n_duplicates += 2;
    t->header.value_kind = TS_VALUE_F32;
    t->header.value_base = 1;
    ck_assert_int_eq(verify_sum_header(t, &err), TS_EFORMAT);
    t->header.value_base = 0;
    t->header.value_bytes = 8;
    ck_assert_int_eq(verify_sum_header(t, &err), TS_EFORMAT);
    t->header.value_bytes = 4;
    ck_assert_int_eq(verify_sum_header(t, &err), 0);
    ts_tensor_close(t);
    test_coo_free(&x);
}
END_TEST

/* No bit of a shard is without meaning: whichever is turned, the shard is refused or holds other
 * nonzeros. */
START_TEST(every_bit_counts)
{
    static const uint64_t dim[3] = { 60, 50, 40 };
    const struct test_tsh_conf conf = { TS_VALUE_INT, 1, 0, 0, 0 };
    struct test_coo x = test_coo_random(4, 3, dim, 700, 9, 0);
    char dir[4096];
    struct verify_sum right, sum;
    struct ts_tensor *t;
    struct ts_err err;
    uint8_t *raw;
    snprintf(dir, sizeof dir, "%s/a.tsh", tmp);
    test_tsh_write(dir, &x, &conf);
    t = open_tensor('a');
    raw = calloc(1, ts_tensor_raw_bytes(t));
    ck_assert_int_eq(ts_tensor_read_shard(t, 1, 0, raw, &err), 0);
    ck_assert_msg(verify_sum_shard(t, 1, 0, raw, no_rows, &right, &err) == 0, "%s", err.text);
    for (uint64_t bit = 0; bit < 8 * (uint64_t)t->mode[1].shard[0].raw_bytes; bit++) {
        raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (ts_tensor_check_shard(t, 1, 0, raw, &err) == 0 &&
            verify_sum_shard(t, 1, 0, raw, no_rows, &sum, &err) == 0)
            ck_assert_msg(!equal(&sum, &right), "bit %u of byte %u", (unsigned)(bit % 8),
                          (unsigned)(bit / 8));
        raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    ts_tensor_close(t);
    free(raw);
    test_coo_free(&x);
}
END_TEST

/* A value that is not finite, or a weight that is none, in a shard whose checksums are right:
 * neither verified nor exported. */
START_TEST(values_and_weights_are_what_they_must_be) /* loop test: _i is what is wrong */
{
    static const uint64_t dim[3] = { 60, 50, 40 };
    const struct test_tsh_conf conf = { TS_VALUE_F32, 1, 0, 0, 0 };
    struct test_coo x = test_coo_random(4, 3, dim, 20000, 9, 0);
    const char *top = getenv("TOP_BUILDDIR");
    char dir[4096], command[9000];
    int status;
    if (top == NULL) /* outside of make check */
        top = ".";
    snprintf(dir, sizeof dir, "%s/a.tsh", tmp);
    if (_i > 0)
        test_coo_weigh(&x, 3, 0);
    if (_i == 0)
        x.val[12345] = INFINITY;
    else
        x.weight[12345] = _i == 1 ? -1 : _i == 2 ? INFINITY : NAN;
    test_tsh_write(dir, &x, &conf);
    for (int v = 0; v < 2; v++) {
        snprintf(command, sizeof command, "%s/tools/tshard %s %s > %s/out 2> %s/err", top,
                 v ? "verify" : "export", dir, tmp, tmp);
        status = system(command);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        snprintf(command, sizeof command, "grep -q 'shard .*%s' %s/err && ! grep -qi inf %s/out",
                 _i == 0 ? "not finite" : "a weight is negative or not finite", tmp, tmp);
        ck_assert_int_eq(system(command), 0);
    }
    test_coo_free(&x);
}
END_TEST

/* Runs tshard COMMAND a.tsh OPTIONS; its exit status, or more when it died. */
static int run_tshard(const char *command, const char *options)
{
    const char *top = getenv("TOP_BUILDDIR");
    char line[9000];
    int status;
    snprintf(line, sizeof line, "%s/tools/tshard %s %s/a.tsh %s > %s/out 2> %s/err",
             top == NULL ? "." : top, command, tmp, options, tmp, tmp);
    status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

/* What is wrong has the right checksums: whoever made the tensor made it so. */
START_TEST(lines_of_labels_are_counted) /* loop test: _i is what is wrong */
{
    static const int labels[] = { 1, -1, 2, 300000 };
    static const uint64_t dim[3] = { 60, 50, 40 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_INT, .labels = labels[_i] };
    struct test_coo x = test_coo_random(4, 3, dim, 20000, 9, 0);
    char path[4096];
    snprintf(path, sizeof path, "%s/a.tsh", tmp);
    test_tsh_write(path, &x, &conf);
    for (int v = 0; v < 2; v++) {
        const int status = run_tshard(v ? "verify" : "export", v ? "" : "--format csv");
        char command[9000];
        ck_assert_msg(status == (_i > 0), "%s: %d", v ? "verify" : "export", status);
        snprintf(command, sizeof command, "grep -q 'mode1.labels: it has not the 60 lines' %s/err",
                 tmp);
        ck_assert((system(command) == 0) == (_i > 0));
    }
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify_sum");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, copies_have_one_sum_and_other_tensors_another, 0, 3);
    tcase_add_test(tc, shards_out_of_order_are_seen);
    tcase_add_test(tc, claims_of_the_index_are_checked);
    tcase_add_test(tc, counts_and_unused_fields_are_checked);
    tcase_add_test(tc, every_bit_counts);
    tcase_add_loop_test(tc, values_and_weights_are_what_they_must_be, 0, 4);
    tcase_add_loop_test(tc, lines_of_labels_are_counted, 0, 4);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
