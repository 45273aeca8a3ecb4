/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of text become nonzeros, in every form that files have them, and what is wrong is told. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/setting.h"
#include "source/text/tns_text.h"
#include "build/value_table.h"
#include "tests/support/run_suite.h"

static struct ts_batch b;
static struct ts_err err;
static uint64_t line;

static void teardown(void)
{
    ts_batch_free(&b);
}

/* Parses `text` (whole lines) as if nothing but digits came behind it. */
static int parse(const struct ts_tns_rules *r, const char *text)
{
    const size_t bytes = strlen(text);
    char *copy = malloc(bytes + TS_TEXT_PAD);
    int rc;
    ts_batch_free(&b);
    ck_assert_int_eq(ts_batch_new(r->order, bytes / (2 * (r->order + 1)) + 1, &b, &err), 0);
    ts_batch_clear(&b);
    memcpy(copy, text, bytes);
    memset(copy + bytes, '9', TS_TEXT_PAD);
    rc = ts_tns_parse(r, copy, bytes, &b, &line, &err);
    free(copy);
    return rc;
}

static double value_at(const struct ts_tns_rules *r, uint64_t i)
{
    return ts_value_of_bits(b.value[i], r->value_bytes);
}

static const struct ts_tns_rules with_zeros = {
    .order = 3, .base = 1, .value_bytes = 8, .zeros = 1
};
static const struct ts_tns_rules three = { .order = 3, .base = 1, .value_bytes = 8 };

START_TEST(zeros_are_kept_where_they_count)
{
    ck_assert_int_eq(parse(&with_zeros, "1 2 3 0\n+1 1 1 -0.0\n2 2 2 5\n"), 0);
    ck_assert_uint_eq(b.n, 3);
    ck_assert_uint_eq(b.n_zeros, 0);
    ck_assert(value_at(&with_zeros, 0) == 0 && value_at(&with_zeros, 1) == 0);
    ck_assert(value_at(&with_zeros, 2) == 5);
}
END_TEST

START_TEST(odd_lines_are_read)
{
    ck_assert_int_eq(parse(&three, "# comment\n\n   \t\r\n1 2 3 4\n  5\t6   7\t-8.5  \r\n"
                                   "+1 +2 +3 +4e0 # said\n1 1 1 .5\n1 1 1 5.\n2 2 2 1E-3\n"
                                   "000001 0002 3 1e+2\n9 9 9 0\n9 9 9 -0.0\n#end\n"),
                     0);
    ck_assert_uint_eq(b.n_lines, 13);
    ck_assert_uint_eq(b.n, 7);
    ck_assert_uint_eq(b.n_read, 9);
    ck_assert_uint_eq(b.n_zeros, 2);
    ck_assert_uint_eq(b.index[0], 0);
    ck_assert_uint_eq(b.index[2], 2);
    ck_assert_uint_eq(b.index[3], 4);
    ck_assert_uint_eq(b.max[0], 8); /* of a zero: its line still shapes the tensor */
    ck_assert_double_eq(value_at(&three, 0), 4);
    ck_assert_double_eq(value_at(&three, 1), -8.5);
    ck_assert_double_eq(value_at(&three, 2), 4);
    ck_assert_double_eq(value_at(&three, 3), .5);
    ck_assert_double_eq(value_at(&three, 4), 5);
    ck_assert_double_eq(value_at(&three, 5), 1e-3);
    ck_assert_double_eq(value_at(&three, 6), 100);
}
END_TEST

START_TEST(large_indices_are_exact)
{
    const struct ts_tns_rules r = { .order = 2, .base = 0, .value_bytes = 4 };
    ck_assert_int_eq(parse(&r, "1099511627775 12345678 1\n87654321 123456789 1\n"), 0);
    ck_assert_uint_eq(b.index[0], UINT64_C(1099511627775));
    ck_assert_uint_eq(b.index[1], 12345678);
    ck_assert_uint_eq(b.index[2], 87654321);
    ck_assert_uint_eq(b.index[3], 123456789);
}
END_TEST

START_TEST(every_mistake_has_its_sentence)
{
    static const struct {
        const char *text, *says;
        uint64_t line;
    } at[] = {
        { "1 1 1 1\n1 2 3\n", "found 3 fields, expected 4", 2 },
        { "\n#\n1 1 1 1 1\n", "found 5 fields, expected 4", 3 },
        { "1 0 1 1\n", "index 0 in mode 2, but indices start at 1", 1 },
        { "1 -1 1 1\n", "index -1 in mode 2 is negative", 1 },
        { "1 1.5 1 1\n", "index '1.5' in mode 2 is not a whole number", 1 },
        { "1 NA 1 1\n", "column 2: 'NA' stands for what is missing", 1 },
        { "1 + 1 1\n", "not a whole number", 1 },
        { "1 1 1099511627777 1\n", "beyond 2^40", 1 },
        { "1 1 18446744073709551617 1\n", "beyond 2^40", 1 },
        { "1 1 1 nan\n", "value 'nan' is not a finite number", 1 },
        { "1 1 1 inf\n", "not a finite number", 1 },
        { "1 1 1 0x1p3\n", "not a finite number", 1 },
        { "1 1 1 1,5\n", "not a finite number", 1 },
        { "1 1 1 e5\n", "not a finite number", 1 },
        { "1 1 1 1-2\n", "not a finite number", 1 },
        { "1 1 1 -\n", "not a finite number", 1 },
        { "1 1 1 1e999\n", "beyond the range of float64", 1 },
        { "1 1 1 \001\n", "value '?' is not a finite number", 1 },
    };
    ck_assert_int_lt(parse(&three, at[_i].text), 0);
    ck_assert_msg(strstr(err.text, at[_i].says) != NULL, "%s", err.text);
    ck_assert_uint_eq(line, at[_i].line);
}
END_TEST

START_TEST(sizes_given_bound_the_indices)
{
    const struct ts_tns_rules r = { .order = 2,
                                    .base = 1,
                                    .value_bytes = 4,
                                    .fixed = 1,
                                    .fixed_by = TS_SET_SIZES,
                                    .dim = { 5, 6 } };
    ck_assert_int_eq(parse(&r, "5 6 1\n"), 0);
    ck_assert_int_lt(parse(&r, "5 6 1\n5 7 1\n"), 0);
    ck_assert_str_eq(err.text, "index 7 in mode 2 is beyond 6, its size by dim");
    ck_assert_uint_eq(line, 2);
}
END_TEST

START_TEST(float32_refuses_what_it_cannot_hold)
{
    const struct ts_tns_rules r = { .order = 2, .base = 1, .value_bytes = 4 };
    ck_assert_int_eq(parse(&r, "1 1 3.4028234e38\n1 1 1e-60\n"), 0);
    ck_assert_uint_eq(b.n_zeros, 1); /* rounds to it */
    ck_assert_int_lt(parse(&r, "1 1 1e39\n"), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "beyond the range of float32"));
}
END_TEST

/* The fast paths round as strtod does: random decimals of every length, as programs print them. */
START_TEST(values_are_those_of_strtod)
{
    uint64_t state = 7;
    for (int i = 0; i < 20000; i++) {
        char text[64], number[40];
        const uint64_t r = ts_mix(state++);
        const double x = ldexp(ts_unit(ts_mix(state++)) - 0.5, (int)(r % 60) - 30);
        snprintf(number, sizeof number, r & 1024 ? "%.*f" : "%.*g", (int)(r >> 32) % 18, x);
        snprintf(text, sizeof text, "1 2 3 %s\n", number);
        ck_assert_int_eq(parse(&three, text), 0);
        if (strtod(number, NULL) == 0)
            ck_assert_uint_eq(b.n_zeros, 1);
        else
            ck_assert_msg(value_at(&three, 0) == strtod(number, NULL), "%s", number);
    }
}
END_TEST

START_TEST(fields_of_the_first_line)
{
    ck_assert_uint_eq(ts_tns_fields("# x\n\n 1 2\t3 4 \n1\n", 18, NULL), 4);
    ck_assert_uint_eq(ts_tns_fields("# x\n\n", 5, NULL), 0);
}
END_TEST

START_TEST(headers_are_recognised)
{
    const char good[] = "# made by\nsptensor\n3\n4 5 6 \n2\n1 1 1 1\n";
    static const char *const bad[] = { "sptensor\nx\n",
                                       "sptensor\n3\n4 5\n2\n",
                                       "sptensor\n1\n4\n2\n",
                                       "sptensor\n2\n4 0\n2\n",
                                       "sptensor\n2\n4 4\n-1\n",
                                       "sptensor\n99999999999\n",
                                       "sptensor\n",
                                       "sptensor indices-start-at-two\n2\n4 4\n1\n",
                                       "tensor\n3\n2 2 2\n",
                                       "ktensor\n" };
    struct ts_tns_rules rules = { .base = 1 };
    struct ts_tns_header h;
    ck_assert_int_eq(ts_tns_header(&rules, "1 1 1 1\n", 8, &h, &line, &err), 0);
    ck_assert_uint_eq(h.bytes, 0);
    ck_assert_int_eq(ts_tns_header(&rules,
                                   "\xef\xbb\xbf"
                                   "1 1 1 1\n",
                                   11, &h, &line, &err),
                     0);
    ck_assert_uint_eq(h.bytes, 3); /* a byte order mark */
    ck_assert_int_eq(
        ts_tns_header(&rules, "\xef\xbb\xbfsptensor\n2\n4 5\n1\n", 20, &h, &line, &err), 1);
    ck_assert_uint_eq(h.dim[1], 5);
    ck_assert_uint_eq(h.bytes, 20);
    ck_assert_int_eq(ts_tns_header(&rules, good, strlen(good), &h, &line, &err), 1);
    ck_assert_uint_eq(h.order, 3);
    ck_assert_uint_eq(h.dim[2], 6);
    ck_assert_uint_eq(h.nnz, 2);
    ck_assert_uint_eq(h.lines, 5);
    ck_assert_str_eq(good + h.bytes, "1 1 1 1\n");
    ck_assert_int_eq(
        ts_tns_header(&rules, "// of GenTen\nsptensor indices-start-at-zero\n2 // modes\n4 5\n1\n",
                      64, &h, &line, &err),
        1);
    ck_assert_uint_eq(rules.base, 0);
    ck_assert_uint_eq(h.dim[1], 5);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_lt(ts_tns_header(&rules, bad[i], strlen(bad[i]), &h, &line, &err), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tns_text");
    TCase *t = tcase_create("tns_text");
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, odd_lines_are_read);
    tcase_add_test(t, zeros_are_kept_where_they_count);
    tcase_add_test(t, large_indices_are_exact);
    tcase_add_loop_test(t, every_mistake_has_its_sentence, 0, 17);
    tcase_add_test(t, sizes_given_bound_the_indices);
    tcase_add_test(t, float32_refuses_what_it_cannot_hold);
    tcase_add_test(t, values_are_those_of_strtod);
    tcase_add_test(t, fields_of_the_first_line);
    tcase_add_test(t, headers_are_recognised);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
