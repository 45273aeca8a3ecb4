/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces: valid JSON whatever the names, every event of every thread, whole files or none. */
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/trace.h"
#include "base/files/written.h"
#include "tests/support/run_suite.h"

static char dir[64], path[96], partial[112];

static void make_dir(void)
{
    strcpy(dir, "/tmp/check_trace-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/t.json", dir);
    snprintf(partial, sizeof partial, "%s.partial", path);
}

static void remove_dir(void)
{
    unlink(path);
    unlink(partial);
    ck_assert_int_eq(rmdir(dir), 0); /* nothing else was left there */
}

static char *slurp(const char *name)
{
    FILE *f = fopen(name, "r");
    char *text;
    long n;
    ck_assert_ptr_nonnull(f);
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    text = calloc(1, (size_t)n + 1);
    ck_assert_uint_eq(fread(text, 1, (size_t)n, f), (size_t)n);
    fclose(f);
    return text;
}

/* Returns what follows the JSON value at s, or NULL when there is none. */
static const char *skip_json(const char *s)
{
    char close;
    s += strspn(s, " \n");
    close = *s == '{' ? '}' : ']';
    if (*s == '"') {
        for (s++; *s != '"'; s++) {
            if ((unsigned char)*s < ' ')
                return NULL;
            s += *s == '\\';
        }
        return s + 1;
    }
    if (*s != '{' && *s != '[') {
        char *end;
        strtod(s, &end);
        return end == s ? NULL : end;
    }
    s += 1 + strspn(s + 1, " \n");
    if (*s == close)
        return s + 1;
    for (;;) {
        s = skip_json(s);
        if (s != NULL && close == '}')
            s = *s == ':' ? skip_json(s + 1) : NULL;
        if (s == NULL)
            return NULL;
        s += strspn(s, " \n");
        if (*s == close)
            return s + 1;
        if (*s++ != ',')
            return NULL;
    }
}

static void assert_json(const char *text)
{
    const char *end = skip_json(text);
    ck_assert_msg(end != NULL && strcmp(end, "\n") == 0, "no JSON: %.200s", text);
}

/* By memmem: sanitizers measure the whole rest of a string at each call of strstr. */
static uint32_t count(const char *text, const char *what)
{
    const char *const end = text + strlen(text);
    uint32_t n = 0;
    for (; (text = memmem(text, (size_t)(end - text), what, strlen(what))) != NULL;
         text += strlen(what))
        n++;
    return n;
}

static struct ts_trace *open_or_fail(const char *name)
{
    struct ts_trace *t;
    struct ts_err err;
    ck_assert_msg(ts_trace_open(name, 1, &t, &err) == 0, "%s", err.text);
    return t;
}

static void close_or_fail(struct ts_trace *t)
{
    struct ts_err warn = { 0 }, err;
    ck_assert_msg(ts_trace_close(t, &warn, &err) == 0, "%s", err.text);
}

START_TEST(an_event_says_what_when_and_how_much)
{
    struct ts_trace *t = open_or_fail(path);
    const uint64_t now = ts_clock_ns() + 1000000;
    char *text, *event;
    double at, length;
    ts_trace_group(t, 1, "GPU \"7\"\\\n\xff");
    ts_trace_lane(t, TS_TRACE_GPU(0) + TS_TRACE_COPY, "copy");
    ts_trace_add(t, TS_TRACE_GPU(0) + TS_TRACE_COPY, "copy", now, now + 1234567, 2, 41, 4096);
    ts_trace_add(t, TS_TRACE_MODES, "solve", now, now, 0, TS_TRACE_NO_SHARD, 0);
    ts_trace_add(t, TS_TRACE_MODES, "gram", 1, 2, TS_TRACE_NO_MODE, TS_TRACE_NO_SHARD, 7);
    ck_assert_int_eq(access(path, F_OK), -1);
    close_or_fail(t);
    ck_assert_int_eq(access(partial, F_OK), -1);
    text = slurp(path);
    assert_json(text);
    ck_assert_ptr_nonnull(strstr(text, "\"name\":\"GPU \\\"7\\\"\\\\??\""));
    event = strstr(text, "\"name\":\"copy\",\"ts\":");
    ck_assert_ptr_nonnull(event);
    ck_assert_int_eq(sscanf(event, "\"name\":\"copy\",\"ts\":%lf,\"dur\":%lf", &at, &length), 2);
    ck_assert_double_ge(at, 1000); /* the trace was opened before `now` was made */
    ck_assert_double_eq_tol(length, 1234.567, 1e-9);
    ck_assert_ptr_nonnull(strstr(event, "\"args\":{\"mode\":3,\"shard\":41,\"bytes\":4096}"));
    ck_assert_ptr_nonnull(strstr(text, "\"dur\":0.000,\"args\":{\"mode\":1}"));
    ck_assert_ptr_nonnull(strstr(text, "\"ts\":0.000,\"dur\":0.000,\"args\":{\"bytes\":7}"));
    free(text);
}
END_TEST

START_TEST(no_event_is_a_trace_too)
{
    char *text;
    close_or_fail(open_or_fail(path));
    text = slurp(path);
    assert_json(text);
    free(text);
}
END_TEST

START_TEST(null_records_nothing)
{
    ts_trace_group(NULL, 0, "host");
    ts_trace_lane(NULL, 0, "modes");
    ts_trace_add(NULL, 0, "x", 1, 2, 0, 0, 0);
    ts_trace_drop(NULL);
    close_or_fail(NULL);
}
END_TEST

#define THREADS 4u
#define EVENTS  20000u /* of all: more than wait in memory */

static void *add_many(void *trace)
{
    static _Atomic uint32_t next;
    const uint32_t lane = TS_TRACE_READ + next++;
    for (uint32_t i = 0; i < EVENTS; i++)
        ts_trace_add(trace, lane, "read", ts_clock_ns(), ts_clock_ns(), 0, i, 1);
    return NULL;
}

START_TEST(events_of_all_threads_arrive)
{
    struct ts_trace *t = open_or_fail(path);
    pthread_t thread[THREADS];
    char *text, lane[32];
    for (uint32_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, add_many, t), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    close_or_fail(t);
    text = slurp(path);
    assert_json(text);
    for (uint32_t i = 0; i < THREADS; i++) {
        snprintf(lane, sizeof lane, "\"tid\":%u,", TS_TRACE_READ + i + 1);
        ck_assert_uint_eq(count(text, lane), EVENTS);
    }
    free(text);
}
END_TEST

static void write_old(void)
{
    FILE *f = fopen(path, "w");
    fputs("old", f);
    fflush(f);
    ts_written_end(fileno(f)); /* as one that this program wrote */
    fclose(f);
}

START_TEST(what_was_there_stays_until_the_new_is_whole)
{
    struct ts_trace *t, *second;
    struct ts_err err;
    char *text;
    write_old();
    t = open_or_fail(path);
    ts_trace_add(t, 0, "x", 1, 2, 0, 0, 0);
    ts_trace_drop(t);
    text = slurp(path);
    ck_assert_str_eq(text, "old");
    free(text);
    ck_assert_int_eq(access(partial, F_OK), -1);
    t = open_or_fail(path);
    ck_assert_int_eq(ts_trace_open(path, 1, &second, &err), TS_EBUSY);
    ck_assert_ptr_nonnull(strstr(err.text, "another process"));
    ck_assert_int_eq(access(partial, F_OK), 0); /* the first goes on */
    close_or_fail(t);
    text = slurp(path);
    assert_json(text);
    free(text);
}
END_TEST

START_TEST(what_cannot_be_written_is_refused)
{
    struct ts_trace *t;
    struct ts_err err;
    char name[128];
    snprintf(name, sizeof name, "%s/no/such/place", dir);
    ck_assert_int_eq(ts_trace_open(name, 1, &t, &err), TS_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, name));
    ck_assert_int_eq(ts_trace_open(dir, 1, &t, &err), TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "is a directory"));
}
END_TEST

START_TEST(a_full_disk_is_said_at_the_end)
{
    struct ts_trace *t;
    struct ts_err err;
    if (access("/dev/full", W_OK) != 0)
        return;
    t = open_or_fail("/dev/full");
    for (uint32_t i = 0; i < EVENTS; i++)
        ts_trace_add(t, 0, "x", 1, 2, 0, i, 0);
    ck_assert_int_eq(ts_trace_close(t, &(struct ts_err){ 0 }, &err), TS_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "/dev/full: the trace cannot be written: No space"));
    ck_assert_int_eq(access("/dev/full", W_OK), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace");
    TCase *c = tcase_create("trace");
    tcase_add_checked_fixture(c, make_dir, remove_dir);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, an_event_says_what_when_and_how_much);
    tcase_add_test(c, no_event_is_a_trace_too);
    tcase_add_test(c, null_records_nothing);
    tcase_add_test(c, events_of_all_threads_arrive);
    tcase_add_test(c, what_was_there_stays_until_the_new_is_whole);
    tcase_add_test(c, what_cannot_be_written_is_refused);
    tcase_add_test(c, a_full_disk_is_said_at_the_end);
    suite_add_tcase(s, c);
    return test_run_suite(s, CK_FORK_GETENV);
}
