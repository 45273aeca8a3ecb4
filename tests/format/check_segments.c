/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of segments is read when all of it is right, a reader of one tensor refuses it by one
 * sentence, and what this program does not know is refused by its number. */
#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/rng.h"
#include "format/segments.h"
#include "tests/format/tsh_writer.h"
#include "tests/support/run_suite.h"

#define N 3u

static char *tmp, dir[4096];
static struct ts_disk_segment entry[N];

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(dir, sizeof dir, "%s/x.tsh", tmp);
    memset(entry, 0, sizeof entry);
    for (uint32_t i = 0; i < N; i++)
        entry[i] = (struct ts_disk_segment){
            .index_hash = i, .bytes = 1, .nnz = 10 + i, .time = 1700000000, .copies = 7
        };
}

static void teardown(void)
{
    test_tsh_remove(dir);
    test_tsh_remove(tmp);
    free(tmp);
}

/* Writes bytes as the index of a directory that has nothing else. */
static void put_index(const void *bytes, size_t n)
{
    char path[4200];
    FILE *f;
    mkdir(dir, 0777);
    snprintf(path, sizeof path, "%s/index", dir);
    f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

static void reseal(char *bytes, size_t n)
{
    const uint64_t hash = XXH3_64bits(bytes, n - 8);
    memcpy(bytes + n - 8, &hash, 8);
}

START_TEST(what_was_made_is_read)
{
    struct ts_segments *s = NULL;
    struct ts_err err;
    size_t n;
    char *bytes = ts_segments_make(3, entry, N, NULL, &n);
    put_index(bytes, n);
    ck_assert_msg(ts_segments_open(dir, &s, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(s->n, N);
    ck_assert_uint_eq(s->order, 3);
    ck_assert_int_eq(s->listed, 1);
    ck_assert_mem_eq(s->entry, entry, sizeof entry);
    ts_segments_close(s);
    free(bytes);
}
END_TEST

START_TEST(one_tensor_is_one_segment)
{
    const struct test_tsh_conf conf = { TS_VALUE_INT, 1, 3, 0, 1 };
    const uint64_t dim[3] = { 40, 300, 20 };
    struct test_coo x = test_coo_random(3, 3, dim, 1000, 9, 1);
    struct ts_segments *s = NULL;
    struct ts_tensor *t = NULL;
    struct ts_err err;
    test_tsh_write(dir, &x, &conf);
    ck_assert_msg(ts_segments_open(dir, &s, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(s->n, 1);
    ck_assert_int_eq(s->listed, 0);
    ck_assert_msg(ts_segments_tensor(s, 0, &t, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(t->nnz, x.nnz);
    ck_assert_int_eq(ts_segments_follows(t, t, &err), 0);
    ts_tensor_close(t);
    ts_segments_close(s);
    test_coo_free(&x);
}
END_TEST

START_TEST(a_reader_of_one_tensor_says_what_to_do)
{
    struct ts_tensor *t = NULL;
    struct ts_err err;
    char want[8300];
    size_t n;
    char *bytes = ts_segments_make(3, entry, N, NULL, &n);
    put_index(bytes, n);
    ck_assert_int_eq(ts_tensor_open(dir, &t, &err), TS_EFORMAT);
    ck_assert_ptr_null(t);
    snprintf(want, sizeof want, "%s: has 3 segments, which this does not read: tshard compact %s",
             dir, dir);
    ck_assert_msg(strstr(err.text, want) == err.text, "%s", err.text);
    free(bytes);
}
END_TEST

START_TEST(a_missing_segment_is_named)
{
    struct ts_segments *s = NULL;
    struct ts_tensor *t = NULL;
    struct ts_err err;
    size_t n;
    char *bytes = ts_segments_make(3, entry, N, NULL, &n);
    put_index(bytes, n);
    ck_assert_int_eq(ts_segments_open(dir, &s, &err), 0);
    ck_assert_int_lt(ts_segments_tensor(s, 1, &t, &err), 0);
    ck_assert_ptr_null(t);
    ck_assert_msg(strstr(err.text, "segment2") != NULL, "%s", err.text);
    ts_segments_close(s);
    free(bytes);
}
END_TEST

START_TEST(a_missing_tensor_of_all_is_named)
{
    const uint64_t hash = 5;
    struct ts_tensor *t = NULL;
    struct ts_err err;
    size_t n;
    char *bytes = ts_segments_make(3, entry, N, &hash, &n);
    put_index(bytes, n);
    ck_assert_int_lt(ts_tensor_open(dir, &t, &err), 0);
    ck_assert_ptr_null(t);
    ck_assert_msg(strstr(err.text, "/merged") != NULL, "%s", err.text);
    free(bytes);
}
END_TEST

#define HEAD(member) offsetof(struct ts_disk_segments, member)
#define ENTRY(i, member)                                                      \
    (sizeof(struct ts_disk_segments) + (i) * sizeof(struct ts_disk_segment) + \
     offsetof(struct ts_disk_segment, member))
static const struct hostile {
    size_t at;
    uint32_t value;
    const char *says;
} hostile[] = {
    { HEAD(version), 5, "" },
    { HEAD(order), 1, "order" },
    { HEAD(order), 17, "order" },
    { HEAD(order), 2, "copies of unknown modes" },
    { HEAD(index_bytes), 100, "bytes" },
    { HEAD(features), 0, "segments" },
    { HEAD(features), 5, "feature 2 " },
    { HEAD(features), 1u << 31 | 1, "feature 31 " },
    { HEAD(n_segments), 0, "segments" },
    { HEAD(n_segments), 2, "segments" },
    { HEAD(n_segments), UINT32_MAX, "segments" },
    { HEAD(reserved), 1, "unknown bytes" },
    { HEAD(reserved) + 84, 1, "unknown bytes" },
    { HEAD(merged_hash), 1, "unknown bytes" },
    { ENTRY(0, bytes), 0, "segment 1 is impossible" },
    { ENTRY(1, nnz), 0, "segment 2 is impossible" },
    { ENTRY(2, nnz) + 4, 0x1000, "segment 3 is impossible" },
    { ENTRY(2, nnz) + 4, 0x100, "segment 3 is impossible" },
    { ENTRY(0, copies), 6, "no copy for mode 1" },
    { ENTRY(1, copies), 5, "no copy for mode 2" },
    { ENTRY(1, copies), 15, "unknown modes" },
    { ENTRY(2, sort), 7, "segment 3 is sorted in order 7" },
    { ENTRY(2, duplicates), 2, "rule 2 for repeated cells" },
    { ENTRY(0, reserved32), 1, "segment 1 is impossible" },
    { ENTRY(2, reserved) + 36, 1, "segment 3 is impossible" },
};

START_TEST(what_is_wrong_or_unknown_is_refused)
{
    const struct hostile *h = &hostile[_i];
    struct ts_segments *s = NULL;
    struct ts_tensor *t = NULL;
    struct ts_err err;
    size_t n;
    char *bytes = ts_segments_make(3, entry, N, NULL, &n);
    memcpy(bytes + h->at, &h->value, sizeof h->value);
    put_index(bytes, n);
    ck_assert_int_eq(ts_segments_open(dir, &s, &err), TS_EFORMAT); /* the checksum at least */
    ck_assert_ptr_null(s);
    reseal(bytes, n);
    put_index(bytes, n);
    ck_assert_int_eq(ts_segments_open(dir, &s, &err), TS_EFORMAT);
    ck_assert_ptr_null(s);
    ck_assert_msg(strstr(err.text, h->says) != NULL, "%zu: %s", h->at, err.text);
    ck_assert_ptr_nonnull(strstr(err.text, dir));
    ck_assert_int_eq(ts_tensor_open(dir, &t, &err), TS_EFORMAT);
    ck_assert_ptr_null(t);
    free(bytes);
}
END_TEST

START_TEST(random_bytes_are_refused)
{
    uint64_t drawn = 11;
    size_t n;
    char *good = ts_segments_make(3, entry, N, NULL, &n);
    for (int i = 0; i < 20000; i++) {
        struct ts_segments s = { .path = NULL };
        const size_t cut = i % 3 == 0 ? (size_t)((drawn = ts_mix(drawn)) % (n + 1)) : n;
        char *bytes = malloc(cut + 1);
        struct ts_err err;
        memcpy(bytes, good, cut);
        for (int f = 0; f < 1 + i % 4 && cut > 0; f++) {
            drawn = ts_mix(drawn);
            bytes[drawn % cut] ^= (char)(1 << (drawn >> 32) % 8);
        }
        if (i % 2 == 0 && cut >= 8)
            reseal(bytes, cut);
        if (ts_segments_parse(bytes, cut, "x", &s, &err) == 0) {
            ck_assert_uint_eq(s.n, N);
            ck_assert_uint_eq(s.order, 3);
            free(s.entry);
        }
        free(bytes);
    }
    free(good);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("segments");
    TCase *list = tcase_create("list");
    tcase_add_checked_fixture(list, setup, teardown);
    tcase_add_test(list, what_was_made_is_read);
    tcase_add_test(list, one_tensor_is_one_segment);
    tcase_add_test(list, a_reader_of_one_tensor_says_what_to_do);
    tcase_add_test(list, a_missing_segment_is_named);
    tcase_add_test(list, a_missing_tensor_of_all_is_named);
    tcase_add_loop_test(list, what_is_wrong_or_unknown_is_refused, 0,
                        (int)(sizeof hostile / sizeof *hostile));
    tcase_add_test(list, random_bytes_are_refused);
    suite_add_tcase(suite, list);
    return test_run_suite(suite, CK_FORK_GETENV);
}
