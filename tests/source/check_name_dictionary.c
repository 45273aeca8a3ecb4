/* SPDX-License-Identifier: BSD-3-Clause */
/* A dictionary numbers names as an obvious loop does, finds them again through every growth, and
 * gives them in the order of their hashes. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/names/name_dictionary.h"
#include "source/names/string_sort.h"
#include "tests/support/run_suite.h"

#define NAMES 20000u
#define ROOM  (UINT64_C(4) << 20)

static struct ts_err err;
static struct ts_name_dictionary d;

static void setup(void)
{
    memset(&d, 0, sizeof d);
    ck_assert_int_eq(ts_name_dictionary_open(&d, ROOM, 0, &err), 0);
}

static void teardown(void)
{
    ts_name_dictionary_close(&d);
}

static uint64_t number_of(const char *text)
{
    uint64_t number, *ret = &number;
    const uint32_t n = (uint32_t)strlen(text);
    ck_assert_int_eq(ts_name_dictionary_number(&d, 1, &text, &n, &ret, &err), 0);
    return number;
}

/* Of every length from 1 to 40, several of each beginning. */
static void make_name(char text[64], uint32_t i)
{
    memset(text, 'x', 64);
    snprintf(text + i % 35, 64 - i % 35, "%x", i);
}

static void numbers_are_right(void)
{
    for (uint32_t i = 0; i < NAMES; i += TS_NAMES_FIND) {
        static char text[TS_NAMES_FIND][64];
        const char *name[TS_NAMES_FIND];
        uint32_t len[TS_NAMES_FIND], n = NAMES - i < TS_NAMES_FIND ? NAMES - i : TS_NAMES_FIND;
        uint64_t found[TS_NAMES_FIND];
        for (uint32_t k = 0; k < n; k++) {
            make_name(text[k], i + k);
            name[k] = text[k];
            len[k] = (uint32_t)strlen(text[k]);
            found[k] = TS_NAME_UNKNOWN;
        }
        ts_name_dictionary_find(&d, n, name, len, found);
        for (uint32_t k = 0; k < n; k++)
            ck_assert_uint_eq(found[k], i + k);
    }
}

START_TEST(names_have_the_numbers_of_their_order)
{
    const char *nobody = "nobody";
    const uint32_t n = (uint32_t)strlen(nobody);
    uint64_t found = TS_NAME_UNKNOWN;
    for (uint32_t i = 0; i < NAMES; i++) {
        char text[64];
        make_name(text, i);
        ck_assert_uint_eq(number_of(text), i);
        make_name(text, i / 2);
        ck_assert_uint_eq(number_of(text), i / 2);
    }
    ck_assert_uint_eq(d.n, NAMES);
    numbers_are_right();
    ts_name_dictionary_find(&d, 1, &nobody, &n, &found);
    ck_assert_uint_eq(found, TS_NAME_UNKNOWN);
    ck_assert_int_eq(ts_name_dictionary_clear(&d, &err), 0);
    ck_assert_uint_eq(number_of(nobody), 0);
}
END_TEST

/* The order of hashes, with names that find no room at the end of the table and go on at its
 * start. */
START_TEST(places_by_hash_ascend)
{
    uint64_t *place, before = 0, sum = 0;
    uint32_t at_end = 0;
    char text[64];
    for (uint32_t i = 0; at_end < 20;
         i++) { /* the table has 1024 slots: one of 1024 belongs last */
        snprintf(text, sizeof text, "end %u", i);
        if (ts_string_hash(text, (uint32_t)strlen(text)) >> 54 == 1023)
            ck_assert_uint_eq(number_of(text), at_end++);
    }
    for (int i = 0; i < _i; i++) {
        snprintf(text, sizeof text, "%d", i);
        number_of(text);
    }
    ck_assert_int_eq(ts_name_dictionary_by_hash(&d, &place, &err), 0);
    for (uint64_t i = 0; i < d.n; i++) {
        const char *at = d.arena + place[i];
        const uint64_t hash = ts_string_hash(ts_string_key(at), ts_string_length(at));
        ck_assert_uint_ge(hash, before);
        before = hash;
        sum += ts_string_number(at);
    }
    ck_assert_uint_eq(sum, d.n * (d.n - 1) / 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("name_dictionary");
    TCase *t = tcase_create("name_dictionary");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, names_have_the_numbers_of_their_order);
    tcase_add_loop_test(t, places_by_hash_ascend, 0, 3);
    tcase_add_loop_test(t, places_by_hash_ascend, 500, 502);
    tcase_add_loop_test(t, places_by_hash_ascend, 5000, 5001);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_FORK_GETENV);
}
