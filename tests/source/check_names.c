/* SPDX-License-Identifier: BSD-3-Clause */
/* Names get the indices that one obvious loop gives them, for any number of threads and any memory,
 * and where several number parts of the text; strings are sorted as by qsort. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "source/names/name_list.h"
#include "source/names/names.h"
#include "tests/support/run_suite.h"

#define PIECES     60u
#define PIECE_ROWS 250u
#define ROWS       (PIECES * PIECE_ROWS)
#define ORDER      3u /* mode 2 is of numbers */
#define THREADS    4u
#define PARTS      3u /* of each of two files, where several number them */

static struct ts_err err;
static char name[2][ROWS][24]; /* of modes 0 and 1, row after row */
static char *label[ORDER][ROWS + 1];
static uint64_t n_labels[ORDER], got[ORDER][ROWS];
static uint8_t seen[ROWS];
static uint64_t next_piece;
static uint32_t parts = 1, part; /* that which is read */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int add_label(void *arg, uint32_t mode, const char *text, uint32_t n, struct ts_err *e)
{
    (void)arg;
    (void)e;
    ck_assert_uint_lt(n_labels[mode], ROWS);
    label[mode][n_labels[mode]++] = strndup(text, n);
    return 0;
}

/* Of a list, which knows of no other mode. */
static int add_label_of(void *mode, uint32_t none, const char *text, uint32_t n, struct ts_err *e)
{
    ck_assert_uint_eq(none, 0);
    return add_label(NULL, *(const uint32_t *)mode, text, n, e);
}

static void take(const struct ts_batch *b)
{
    for (uint64_t i = 0; i < b->n; i++) {
        const uint64_t row = b->value[i];
        ck_assert_uint_lt(row, ROWS);
        ck_assert_uint_eq(seen[row]++, 0);
        for (uint32_t m = 0; m < ORDER; m++) {
            got[m][row] = b->index[i * ORDER + m];
            ck_assert_uint_le(got[m][row], b->max[m]);
        }
    }
}

struct piece {
    struct ts_names *g;
    uint64_t number;
    struct ts_batch *batch;
    char text[PIECE_ROWS * 2 * 24];
};

/* The piece of the whole text that is the part's. */
static uint64_t piece_of(uint64_t number)
{
    const uint64_t half = PIECES / 2, each = half / parts;
    return number / each * half + part * each + number % each;
}

static int read_piece(void *arg, struct ts_err *e)
{
    struct piece *p = arg;
    size_t at = 0;
    (void)e;
    ts_batch_clear(p->batch);
    p->batch->file = piece_of(p->number) >= PIECES / 2;
    for (uint64_t i = 0; i < PIECE_ROWS; i++) {
        const uint64_t row = piece_of(p->number) * PIECE_ROWS + i;
        for (uint32_t m = 0; m < 2; m++) {
            const char *text = p->text + at;
            const uint32_t n = (uint32_t)strlen(name[m][row]);
            uint64_t index = ts_name_at(at, n);
            memcpy(p->text + at, name[m][row], n);
            at += n;
            ts_names_find(p->g, m, 1, &text, &n, &index);
            p->batch->index[i * ORDER + m] = index;
        }
        p->batch->index[i * ORDER + 2] = row * 3;
        p->batch->max[2] = row * 3;
        p->batch->value[i] = row;
    }
    p->batch->n = p->batch->n_read = PIECE_ROWS;
    return 0;
}

static void *work(void *arg)
{
    struct piece *p = calloc(1, sizeof *p);
    struct ts_batch b;
    p->g = arg;
    p->batch = &b;
    ck_assert_int_eq(ts_batch_new(ORDER, PIECE_ROWS, &b, NULL), 0);
    for (;;) {
        uint64_t generation;
        int64_t wait;
        pthread_mutex_lock(&lock);
        p->number = next_piece++;
        pthread_mutex_unlock(&lock);
        if (p->number >= PIECES / parts)
            break;
        generation = ts_names_enter(p->g);
        read_piece(p, NULL);
        if (p->number % 5 == 0)
            usleep(200);
        ts_names_leave(p->g);
        ck_assert_int_eq(ts_names_turn(p->g, p->number, generation, &b, p->text, NULL, read_piece,
                                       p, &wait, NULL),
                         0);
        if (wait >= 0) {
            ck_assert_int_eq(ts_names_wait(p->g, &b, wait, NULL), 0);
        } else {
            pthread_mutex_lock(&lock);
            take(&b);
            pthread_mutex_unlock(&lock);
        }
    }
    ts_batch_free(&b);
    free(p);
    return NULL;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What the names of a mode must be, in the order of their indices. */
static uint64_t want_labels(uint32_t m, int sorted, const char *want[])
{
    uint64_t n = 0;
    for (uint64_t row = 0; row < ROWS; row++) {
        uint64_t i = 0;
        while (i < n && strcmp(want[i], name[m][row]) != 0)
            i++;
        if (i == n)
            want[n++] = name[m][row];
    }
    if (sorted)
        qsort(want, n, sizeof *want, by_bytes);
    return n;
}

static void draw_names(uint32_t distinct)
{
    for (uint64_t row = 0; row < ROWS; row++)
        for (uint32_t m = 0; m < 2; m++) {
            const uint64_t x = ts_mix(row * 2 + m) % (m == 0 ? distinct : 40);
            /* short, long, with bytes beyond ASCII, one a prefix of another */
            snprintf(name[m][row], sizeof name[m][row],
                     x % 7 == 0   ? "%llu"
                     : x % 7 == 1 ? "common-prefix-%llu"
                     : x % 7 == 2 ? "\xc3\xbc%llu"
                                  : "a%llu",
                     (unsigned long long)x);
        }
}

static void take_waiting(struct ts_names *g)
{
    struct ts_batch b;
    char buf[4096];
    ck_assert_int_eq(ts_batch_new(ORDER, PIECE_ROWS, &b, NULL), 0);
    do {
        const int rc = ts_names_next(g, buf, sizeof buf, &b, &err);
        ck_assert_msg(rc == 0, "%s", err.text);
        take(&b);
    } while (b.n > 0);
    ts_batch_free(&b);
}

/* The labels of a mode are right, and each row has the index of its own. */
static void assert_labels(uint32_t m, int sorted, uint64_t n_names)
{
    static const char *want[ROWS];
    const uint64_t n = want_labels(m, sorted, want);
    ck_assert_uint_eq(n, n_labels[m]);
    ck_assert_uint_eq(n, n_names);
    for (uint64_t i = 0; i < n; i++)
        ck_assert_str_eq(want[i], label[m][i]);
    for (uint64_t row = 0; row < ROWS; row++)
        ck_assert_str_eq(label[m][got[m][row]], name[m][row]);
}

static const uint64_t budget[] = { 100000000, 400000, 60000 };

/* _i: bit 0: sorted; then the budget */
START_TEST(indices_are_those_of_the_obvious_loop)
{
    const int sorted = _i & 1;
    struct ts_names_conf conf = { .order = ORDER,
                                  .entry_bytes = 8,
                                  .named = { 1, 1, 0 },
                                  .sorted = sorted,
                                  .bytes = budget[_i / 2],
                                  .tmp = "/tmp",
                                  .label = add_label };
    pthread_t thread[THREADS];
    struct ts_names *g;
    int rc;
    draw_names(3000);
    ck_assert_int_eq(ts_names_new(&conf, &g, &err), 0);
    for (uint32_t t = 0; t < THREADS; t++)
        pthread_create(&thread[t], NULL, work, g);
    for (uint32_t t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
    if (conf.bytes < 100000)
        ck_assert_uint_gt(ts_names_generations(g), 3);
    else if (conf.bytes > 1000000)
        ck_assert_uint_eq(ts_names_generations(g), 1);
    rc = ts_names_end(g, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    take_waiting(g);
    for (uint32_t m = 0; m < 2; m++)
        assert_labels(m, sorted, ts_names_count(g, m));
    for (uint64_t row = 0; row < ROWS; row++) {
        ck_assert_uint_eq(seen[row], 1);
        ck_assert_uint_eq(got[2][row], row * 3);
    }
    ts_names_free(g);
}
END_TEST

/* Names of a list that comes in pieces of any length. */
static struct ts_name_list *new_list(int sorted, uint64_t bytes, uint32_t *mode)
{
    const struct ts_names_conf conf = {
        .sorted = sorted, .bytes = bytes, .tmp = "/tmp", .label = add_label_of, .label_arg = mode
    };
    struct ts_name_list *list;
    ck_assert_int_eq(ts_name_list_new(&conf, &list, &err), 0);
    return list;
}

START_TEST(a_list_is_numbered)
{
    const int sorted = _i & 1;
    uint32_t mode = 0;
    struct ts_name_list *list = new_list(sorted, budget[_i / 2], &mode);
    static char text[ROWS * (TS_STRING_HEAD + sizeof name[0][0])];
    const char *end = text;
    draw_names(3000);
    for (uint64_t row = 0; row < ROWS; row++)
        end = ts_string_put((char *)(uintptr_t)end, name[0][row], (uint32_t)strlen(name[0][row]),
                            ~row);
    for (size_t at = 0, n, left = (size_t)(end - text); left > 0; at += n, left -= n) {
        n = ts_mix(at) % (at % 3 == 0 ? 100000 : 40) + 1;
        n = n < left ? n : left;
        ck_assert_msg(ts_name_list_add(list, text + at, n, &err) == 0, "%s", err.text);
    }
    ck_assert_msg(ts_name_list_end(list, &err) == 0, "%s", err.text);
    for (uint64_t row = 0, n; row < ROWS; row += n) {
        n = ts_mix(row) % 5000;
        n = n < ROWS - row ? n : ROWS - row;
        ck_assert_msg(ts_name_list_next(list, got[0] + row, n, &err) == 0, "%s", err.text);
    }
    assert_labels(0, sorted, ts_name_list_count(list));
    ck_assert_int_eq(ts_name_list_next(list, got[0], 1, &err), TS_EIO); /* there are no more */
    ts_name_list_free(list);
    list = new_list(sorted, budget[_i / 2], &mode);
    ck_assert_int_eq(ts_name_list_add(list, text, 5, &err), 0);
    ck_assert_int_eq(ts_name_list_end(list, &err), TS_EIO); /* half a name */
    ts_name_list_free(list);
}
END_TEST

/* Gives the names of one part of one file to the list. */
static void list_part(const struct ts_names *g, uint32_t m, uint32_t file,
                      struct ts_name_list *list)
{
    uint64_t at, end;
    char buf[1000];
    (void)ts_names_seen(g, m, file, &at);
    (void)ts_names_seen(g, m, file + 1, &end);
    for (uint64_t n; at < end; at += n) {
        n = end - at < sizeof buf ? end - at : sizeof buf;
        ck_assert_int_eq(ts_names_read(g, m, at, buf, n, &err), 0);
        ck_assert_msg(ts_name_list_add(list, buf, n, &err) == 0, "%s", err.text);
    }
}

static void tell_part(struct ts_names *g, uint32_t m, uint32_t file, struct ts_name_list *list)
{
    uint64_t bytes, index[700];
    uint64_t at = ts_names_seen(g, m, file, &bytes);
    const uint64_t end = ts_names_seen(g, m, file + 1, &bytes);
    for (uint64_t n; at < end; at += n) {
        n = end - at < 700 ? end - at : 700;
        ck_assert_msg(ts_name_list_next(list, index, n, &err) == 0, "%s", err.text);
        ck_assert_msg(ts_names_tell(g, m, index, n, &err) == 0, "%s", err.text);
    }
}

/* Several number parts of two files: the first parts of both are one's. */
START_TEST(parts_are_told)
{
    const struct ts_names_conf conf = { .order = ORDER,
                                        .entry_bytes = 8,
                                        .named = { 1, 1, 0 },
                                        .sorted = _i & 1,
                                        .told = 1,
                                        .bytes = budget[_i / 2] / 2,
                                        .tmp = "/tmp",
                                        .label = add_label };
    struct ts_names *g[PARTS];
    uint64_t n_names[ORDER] = { 0 };
    draw_names(3000);
    parts = PARTS;
    for (part = 0; part < PARTS; part++) {
        pthread_t thread[THREADS];
        next_piece = 0;
        ck_assert_int_eq(ts_names_new(&conf, &g[part], &err), 0);
        for (uint32_t t = 0; t < THREADS; t++)
            pthread_create(&thread[t], NULL, work, g[part]);
        for (uint32_t t = 0; t < THREADS; t++)
            pthread_join(thread[t], NULL);
        if (conf.bytes < 100000)
            ck_assert_uint_gt(ts_names_generations(g[part]), 1);
        ck_assert_msg(ts_names_end(g[part], &err) == 0, "%s", err.text);
    }
    ck_assert_uint_eq(n_labels[0] + n_labels[1], 0);
    for (uint32_t m = 0; m < 2; m++) {
        struct ts_name_list *list = new_list(conf.sorted, budget[_i / 2], &m);
        for (uint32_t i = 0; i < 2 * PARTS; i++)
            list_part(g[i % PARTS], m, i / PARTS, list);
        ck_assert_msg(ts_name_list_end(list, &err) == 0, "%s", err.text);
        n_names[m] = ts_name_list_count(list);
        ck_assert_int_eq(ts_names_told(g[0], n_names, &err), TS_EIO); /* not yet */
        for (uint32_t i = 0; i < 2 * PARTS; i++)
            tell_part(g[i % PARTS], m, i / PARTS, list);
        ts_name_list_free(list);
    }
    for (uint32_t i = 0; i < PARTS; i++) {
        ck_assert_int_eq(ts_names_told(g[i], n_names, &err), 0);
        take_waiting(g[i]);
        ck_assert_uint_eq(ts_names_count(g[i], 1), n_names[1]);
        ts_names_free(g[i]);
    }
    for (uint32_t m = 0; m < 2; m++)
        assert_labels(m, conf.sorted, n_names[m]);
    for (uint64_t row = 0; row < ROWS; row++) {
        ck_assert_uint_eq(seen[row], 1);
        ck_assert_uint_eq(got[2][row], row * 3);
    }
}
END_TEST

START_TEST(strings_come_sorted)
{
    struct ts_string_sort *s;
    const char *key;
    char text[ROWS][24], before[32] = "";
    const char *want[ROWS];
    uint64_t number, n = 0;
    uint32_t len;
    int rc;
    ck_assert_int_eq(ts_string_sort_new("/tmp", _i == 0 ? 1 << 22 : 1 << 17, NULL, &s, &err), 0);
    for (uint64_t i = 0; i < ROWS; i++) {
        snprintf(text[i], sizeof text[i], i % 3 == 0 ? "%llx" : "prefix/%llu",
                 (unsigned long long)((i * 7919) % ROWS));
        want[i] = text[i];
        ck_assert_int_eq(ts_string_sort_add(s, text[i], (uint32_t)strlen(text[i]), i, &err), 0);
    }
    qsort(want, ROWS, sizeof *want, by_bytes);
    rc = ts_string_sort_end(s, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    while (ts_string_sort_next(s, &key, &len, &number, &err) == 1) {
        memcpy(before, key, len);
        before[len] = '\0';
        ck_assert_str_eq(before, want[n]);
        ck_assert_str_eq(before, text[number]);
        n++;
    }
    ck_assert_uint_eq(n, ROWS);
    ts_string_sort_free(s);
}
END_TEST

START_TEST(too_many_runs_are_refused)
{
    struct ts_string_sort *s;
    char text[24];
    int rc = 0;
    ck_assert_int_eq(ts_string_sort_new("/tmp", 8192, NULL, &s, &err), 0);
    for (uint64_t i = 0; i < ROWS && rc == 0; i++) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)i);
        rc = ts_string_sort_add(s, text, (uint32_t)strlen(text), i, &err);
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(ts_string_sort_end(s, &err), TS_ELIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "more names than this memory"));
    ts_string_sort_free(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("names");
    TCase *t = tcase_create("names");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, indices_are_those_of_the_obvious_loop, 0, 6);
    tcase_add_loop_test(t, a_list_is_numbered, 0, 6);
    tcase_add_loop_test(t, parts_are_told, 0, 6);
    tcase_add_loop_test(t, strings_come_sorted, 0, 2);
    tcase_add_test(t, too_many_runs_are_refused);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_FORK_GETENV);
}
