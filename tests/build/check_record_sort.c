/* SPDX-License-Identifier: BSD-3-Clause */
/* Records sort as their coordinates do, in memory and through runs on disk. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/stop.h"
#include "build/sort/extsort.h"
#include "build/sort/record.h"
#include "build/sort/record_sort.h"
#include "tests/support/run_suite.h"
#include "tests/support/stop_later.h"

static uint32_t words; /* of the records being compared */

static int compare(const void *a, const void *b)
{
    return ts_record_compare(a, b, words);
}

/* A layout of `n` fields, the last of which is a value, with widths below `most`. */
static struct ts_record_layout layout_of(uint32_t n, uint32_t most, uint64_t seed)
{
    struct ts_record_layout l;
    uint32_t width[TS_RECORD_FIELDS];
    for (uint32_t f = 0; f < n; f++)
        width[f] = (uint32_t)(ts_mix(seed + f) % (most + 1));
    width[0] += width[0] == 0;
    ts_record_layout_set(&l, n, width);
    return l;
}

/* Skewed: small numbers are frequent, so are equal records. */
static uint64_t draw(uint64_t state, uint32_t width)
{
    const uint64_t r = ts_mix(state);
    return width == 0 ? 0 : r >> (64 - width) >> (ts_mix(r) % (width + 1));
}

static uint64_t *records(const struct ts_record_layout *l, uint64_t n, uint64_t seed)
{
    uint64_t *a = calloc(n * l->words + 1, 8);
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t f = 0; f < l->n_fields; f++)
            ts_record_put(l, a + i * l->words, f, draw(seed + 64 * i + f, l->width[f]));
    return a;
}

START_TEST(fields_come_back)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        const uint32_t n = 1 + (uint32_t)(ts_mix(seed) % 17);
        const struct ts_record_layout l = layout_of(n, n > 16 ? 40 : 64, seed);
        uint64_t rec[TS_RECORD_WORDS * 2] = { 0 };
        if (l.words > TS_RECORD_WORDS)
            continue;
        for (uint32_t f = 0; f < n; f++)
            ts_record_put(&l, rec, f, draw(seed + f, l.width[f]));
        for (uint32_t f = 0; f < n; f++)
            ck_assert_uint_eq(ts_record_get(&l, rec, f), draw(seed + f, l.width[f]));
    }
}
END_TEST

/* Columns of any number of records of one word to three, whatever words a field crosses. */
START_TEST(columns_are_the_fields)
{
    enum { N = 40 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        const struct ts_record_layout l = layout_of(4, seed % 3 == 0 ? 16 : 48, seed);
        const uint32_t n = (uint32_t)(ts_mix(seed) % N), stride = 1 + (uint32_t)(seed % 3);
        uint64_t *rec = records(&l, n, seed), *put = calloc(n * l.words + 1, 8);
        for (uint32_t f = 0; f < 4; f++) {
            uint64_t column[N + 1], wide[3 * N];
            column[n] = 12345;
            ts_record_column(&l, rec, n, f, column);
            ck_assert_uint_eq(column[n], 12345);
            for (uint32_t i = 0; i < n; i++) {
                ck_assert_uint_eq(column[i], ts_record_get(&l, rec + i * l.words, f));
                wide[i * stride] = column[i];
            }
            ts_record_put_column(&l, put, n, f, wide, stride);
        }
        ck_assert_mem_eq(put, rec, (n * l.words + 1) * 8);
        free(rec);
        free(put);
    }
}
END_TEST

START_TEST(convert_moves_fields)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        const struct ts_record_layout from = layout_of(4, seed < 20 ? 15 : 40, seed);
        const uint8_t source[] = { 2, 0, 3, 1 };
        uint32_t width[4];
        struct ts_record_layout to;
        uint64_t *in = records(&from, 1000, seed), *out;
        for (uint32_t f = 0; f < 4; f++)
            width[f] = from.width[source[f]] + (uint32_t)(seed % 3);
        ts_record_layout_set(&to, 4, width);
        out = calloc(1000 * to.words, 8);
        ts_record_convert(&from, in, &to, source, out, 1000);
        for (uint64_t i = 0; i < 1000; i++)
            for (uint32_t f = 0; f < 4; f++)
                ck_assert_uint_eq(ts_record_get(&to, out + i * to.words, f),
                                  ts_record_get(&from, in + i * from.words, source[f]));
        free(in);
        free(out);
    }
}
END_TEST

static const uint64_t sizes[] = { 0, 1, 2, 23, 24, 25, 600, 5000, 70000, 300000 };

/* _i: which size; every width of record, and one to three threads. */
START_TEST(sort_equals_qsort)
{
    const uint64_t n = sizes[_i];
    for (uint32_t k = 0; k < 8; k++) {
        const uint32_t n_fields = k == 7 ? 17 : 3 + k % 4, most = k < 4 ? 16 : 40;
        const struct ts_record_layout l = layout_of(n_fields, most, 100 * k + (uint64_t)_i);
        uint64_t *a = records(&l, n, k), *want = malloc(n * l.words * 8 + 8), *scratch, *got;
        scratch = malloc(n * l.words * 8 + 8);
        words = l.words;
        memcpy(want, a, n * words * 8);
        qsort(want, n, words * 8, compare);
        got = ts_record_sort(a, scratch, n, words, l.bits - l.width[n_fields - 1], l.bits,
                             1 + k % 3, NULL, NULL);
        ck_assert(memcmp(got, want, n * words * 8) == 0);
        free(a);
        free(want);
        free(scratch);
    }
}
END_TEST

/* _i: which size; with a scratch that holds all, a part, little, nothing. */
START_TEST(converting_sort_equals_both_steps)
{
    static const uint8_t source[] = { 2, 0, 1, 3 };
    static const uint64_t parts[] = { 1, 3, 50, 1000000 };
    const uint64_t n = sizes[_i];
    for (uint32_t k = 0; k < 6; k++) {
        const struct ts_record_layout from = layout_of(4, k < 3 ? 15 : 40, 7 * k + (uint64_t)_i);
        struct ts_record_layout to;
        uint64_t *in = records(&from, n, k), *want, *out, *scratch;
        struct ts_record_move move = { &from, &to, in, source };
        uint32_t width[4];
        for (uint32_t f = 0; f < 4; f++)
            width[f] = from.width[source[f]];
        ts_record_layout_set(&to, 4, width);
        words = to.words;
        want = malloc(n * words * 8 + 8);
        out = malloc(n * words * 8 + 8);
        ts_record_convert(&from, in, &to, source, want, n);
        qsort(want, n, words * 8, compare);
        for (uint32_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            const uint64_t room = n * words / parts[p];
            scratch = malloc(room * 8 + 1);
            memset(out, 0xff, n * words * 8);
            ts_record_sort_moved(&move, n, out, scratch, room, to.bits - to.width[3], to.bits,
                                 1 + (k + p) % 3, NULL, NULL);
            ck_assert(memcmp(out, want, n * words * 8) == 0);
            ck_assert(ts_record_is_sorted(out, n, words, 2));
            free(scratch);
        }
        free(in);
        free(want);
        free(out);
    }
}
END_TEST

START_TEST(equal_records_sort)
{
    const struct ts_record_layout l = layout_of(3, 20, 5);
    const uint64_t n = 200000;
    uint64_t *a = calloc(n * l.words, 8), *scratch = malloc(n * l.words * 8), *got;
    for (uint64_t i = 0; i < n; i++) /* one cell, values in falling order */
        ts_record_put(&l, a + i * l.words, 2, (n - i) & ((UINT64_C(1) << l.width[2]) - 1));
    words = l.words;
    got = ts_record_sort(a, scratch, n, words, l.bits - l.width[2], l.bits, 2, NULL, NULL);
    for (uint64_t i = 1; i < n; i++)
        ck_assert_int_le(ts_record_compare(got + (i - 1) * words, got + i * words, words), 0);
    free(a);
    free(scratch);
}
END_TEST

/* Set before, nothing moves; set at any time, what comes out is all there or not asked for. */
START_TEST(stopping_ends_a_sort)
{
    static const uint8_t source[] = { 2, 0, 1, 3 };
    const struct ts_record_layout l = layout_of(4, 40, 3);
    const uint64_t n = 300000;
    uint64_t *a = records(&l, n, 3), *scratch = malloc(n * l.words * 8), *got;
    struct ts_record_layout to;
    struct ts_record_move move = { &l, &to, a, source };
    uint32_t width[4];
    struct test_stop stop = { .asked = 1 };
    uint64_t *out;
    words = l.words;
    for (uint32_t f = 0; f < 4; f++)
        width[f] = l.width[source[f]];
    ts_record_layout_set(&to, 4, width);
    ck_assert_uint_eq(to.words, words);
    out = malloc(n * words * 8);
    got = ts_record_sort(a, scratch, n, words, l.bits - l.width[3], l.bits, 2, &stop.asked, NULL);
    ck_assert(!ts_record_is_sorted(got, n, words, 2));
    for (uint32_t k = 0; k < 40; k++) {
        test_stop_later(&stop, k * 300);
        if (k % 2)
            got = ts_record_sort(a, scratch, n, words, l.bits - l.width[3], l.bits, 2, &stop.asked,
                                 NULL);
        else
            ts_record_sort_moved(&move, n, out, scratch, k % 4 ? n * words : n / 50,
                                 to.bits - to.width[3], to.bits, 2, &stop.asked, NULL);
        if (!ts_stop_asked(&stop.asked))
            ck_assert(ts_record_is_sorted(k % 2 ? got : out, n, words, 2));
        test_stop_join(&stop);
        if (k % 2) {
            free(a);
            a = records(&l, n, k);
            move.in = a;
        }
    }
    free(a);
    free(scratch);
    free(out);
}
END_TEST

START_TEST(stopping_ends_a_spill)
{
    static const volatile sig_atomic_t stop = 1;
    const struct ts_record_layout l = layout_of(3, 20, 5);
    uint64_t *a = records(&l, 1000, 1);
    struct ts_extsort *x;
    struct ts_err err;
    ck_assert_int_eq(ts_extsort_new("/tmp", 2, &stop, NULL, &x, &err), 0);
    ck_assert_int_eq(ts_extsort_spill(x, &l, a, 1000, &err), TS_ESTOP);
    ts_extsort_free(x);
    free(a);
}
END_TEST

/* Runs of different widths and tiny areas, against all of it sorted at once. _i: how tiny. */
START_TEST(extsort_equals_one_sort)
{
    static const uint64_t area_words[] = { 64, 700, 9000, 1 << 20 };
    static const uint8_t same[] = { 0, 1, 2, 3 };
    const uint64_t n_run = 3000, n_runs = 9, n = n_run * n_runs;
    struct ts_record_layout final = layout_of(4, 20, 77), small = final;
    uint64_t *area[2], *all = calloc(n * 8, 8), at = 0, *rec, got;
    struct ts_extsort *x;
    struct ts_err err;
    small.width[1] = final.width[1] / 2;
    ts_record_layout_set(&small, 4, small.width);
    ck_assert_int_eq(ts_extsort_new("/tmp", 2, NULL, NULL, &x, &err), 0);
    for (uint64_t r = 0; r < n_runs; r++) {
        const struct ts_record_layout *l = r % 2 ? &small : &final;
        uint64_t *run = records(l, n_run, r < 7 ? r * 100000 : 5); /* some runs are the same */
        words = l->words;
        qsort(run, n_run, words * 8, compare);
        ck_assert_int_eq(ts_extsort_spill(x, l, run, n_run, &err), 0);
        ts_record_convert(l, run, &final, same, all + r * n_run * final.words, n_run);
        free(run);
    }
    words = final.words;
    qsort(all, n, words * 8, compare);
    area[0] = malloc(area_words[_i] * 8);
    area[1] = malloc(area_words[_i] * 8);
    ck_assert_int_eq(
        ts_extsort_end(
            x,
            &(struct ts_extsort_area){
                &final, final.bits - final.width[3], { area[0], area[1] }, area_words[_i], 0 },
            &err),
        0);
    for (;;) {
        ck_assert_int_eq(ts_extsort_next(x, &rec, &got, &err), 0);
        if (got == 0)
            break;
        ck_assert_uint_le(got * words, area_words[_i]);
        ck_assert(memcmp(rec, all + at * words, got * words * 8) == 0);
        at += got;
        ck_assert_int_eq(ts_extsort_at_end(x), at == n);
    }
    ck_assert_uint_eq(at, n);
    ts_extsort_free(x);
    free(area[0]);
    free(area[1]);
    free(all);
}
END_TEST

/* More runs than an area has steps between samples, as a long input and little memory make them:
 * still as few ranges as half full ones are. _i: how the runs lie to each other. */
START_TEST(many_runs_take_few_ranges)
{
    const uint64_t n_run = 4096, n_runs = 300, n = n_run * n_runs;
    const uint32_t width[] = { 32, 20 };
    struct ts_record_layout l;
    uint64_t *area[2], *all = calloc(n, 8), at = 0, n_ranges = 0, *rec, got;
    struct ts_extsort *x;
    struct ts_err err;
    ts_record_layout_set(&l, 2, width);
    words = l.words;
    ck_assert_uint_eq(words, 1);
    ck_assert_int_eq(ts_extsort_new("/tmp", 2, NULL, NULL, &x, &err), 0);
    for (uint64_t r = 0; r < n_runs; r++) {
        uint64_t *run = all + r * n_run;
        for (uint64_t i = 0; i < n_run; i++) {
            const uint64_t u = ts_mix(r * n_run + i), dense = r > 0 && i % 16 > 0;
            const uint64_t key[] = {
                u >> 34,                                          /* all over each other */
                (r << 12) + (u >> 52),                            /* one after the other, */
                ((r * 7 % n_runs) << 11) + (u >> 52),             /* or overlapping */
                i,                                                /* the same over and over */
                7,                                                /* one record */
                dense ? (i / 16 << 24) + 1 + (u >> 54) : i << 20, /* between two samples */
            };
            ts_record_put(&l, run + i, 0, key[_i]);
            ts_record_put(&l, run + i, 1, _i == 4 ? 5 : _i == 3 ? 0 : u & 0xfffff);
        }
        qsort(run, n_run, 8, compare);
        ck_assert_int_eq(ts_extsort_spill(x, &l, run, n_run, &err), 0);
    }
    qsort(all, n, 8, compare);
    area[0] = malloc(n_run * 8);
    area[1] = malloc(n_run * 8);
    ck_assert_int_eq(
        ts_extsort_end(x, &(struct ts_extsort_area){ &l, 32, { area[0], area[1] }, n_run, 0 },
                       &err),
        0);
    for (;; n_ranges++) {
        ck_assert_int_eq(ts_extsort_next(x, &rec, &got, &err), 0);
        if (got == 0)
            break;
        ck_assert_uint_le(got, n_run);
        ck_assert(memcmp(rec, all + at, got * 8) == 0);
        at += got;
    }
    ck_assert_uint_eq(at, n);
    ck_assert_uint_le(n_ranges, 2 * n_runs);
    ts_extsort_free(x);
    free(area[0]);
    free(area[1]);
    free(all);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("record_sort");
    TCase *t = tcase_create("record_sort");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, fields_come_back);
    tcase_add_test(t, columns_are_the_fields);
    tcase_add_test(t, convert_moves_fields);
    tcase_add_loop_test(t, sort_equals_qsort, 0, sizeof sizes / sizeof *sizes);
    tcase_add_loop_test(t, converting_sort_equals_both_steps, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(t, equal_records_sort);
    tcase_add_test(t, stopping_ends_a_sort);
    tcase_add_test(t, stopping_ends_a_spill);
    tcase_add_loop_test(t, extsort_equals_one_sort, 0, 4);
    tcase_add_loop_test(t, many_runs_take_few_ranges, 0, 6);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
