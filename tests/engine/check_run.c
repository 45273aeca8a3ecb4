/* SPDX-License-Identifier: BSD-3-Clause */
/* A run tells its listener what happens, leaves all files or none, returns what the listener
 * returns, and can be resumed; the directories of a run are read again where they were replaced
 * meanwhile. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpd/state/run_dirs.h"
#include "engine/run.h"
#include "tests/cpd/cp_case.h"
#include "tests/support/run_suite.h"

#define SWEEPS 4u

static struct ts_engine engine;
static struct ts_err err;
static char out[4200], path[4400];

/* What a listener heard: a letter for each event. */
struct heard {
    char events[64];
    int answer; /* to the last event */
    int rc;     /* of that event */
    int saved;
    int started;
    uint32_t stop_sweep; /* stops the run after mode 0 of this sweep; 0: does not */
    rlim_t most_bytes;   /* the run saves its start, where no file may be larger; 0: it does not */
    double fit;
};

static volatile sig_atomic_t stop;

static int hear(void *ctx, const struct ts_run_event *e, struct ts_err *ret)
{
    struct heard *h = ctx;
    const size_t n = strlen(h->events);
    ck_assert_uint_lt(n + 1, sizeof h->events);
    h->events[n] = "npscmwoe"[e->kind];
    if (e->kind == TS_RUN_MODE && e->mode->sweep == h->stop_sweep)
        stop = SIGTERM;
    if (e->kind != TS_RUN_ENDED)
        return 0;
    h->rc = e->rc;
    h->saved = e->outcome->saved;
    h->started = e->outcome->started;
    h->fit = e->rc == 0 ? e->outcome->result->fit : NAN;
    if (e->rc == 0 && h->answer < 0)
        return ts_fail(ret, h->answer, "the listener fails");
    return e->rc;
}

static const char *stopped_by(void *ctx)
{
    (void)ctx;
    return "the test";
}

static void give_figures(void *ctx, struct ts_run_figures *ret)
{
    (void)ctx;
    memset(ret, 0, sizeof *ret);
}

static void setup(void)
{
    struct ts_engine_conf conf = { .path = test_case_dir,
                                   .rank = 3,
                                   .threads = 1,
                                   .only_mode = -1,
                                   .precision = TS_FLOAT64,
                                   .processor = { .cpu = 1 } };
    const struct test_tsh_conf plain = { 0 };
    test_case_setup();
    test_case_write(1, &plain);
    ck_assert_msg(ts_engine_open(&conf, &engine, &err) == 0, "%s", err.text);
    snprintf(out, sizeof out, "%s/r.cp", test_case_states);
    stop = 0;
}

static void teardown(void)
{
    ts_engine_close(&engine);
    test_tsh_remove(out);
    snprintf(path, sizeof path, "%s.partial", out);
    test_tsh_remove(path);
    test_case_teardown();
}

static int there(const char *suffix)
{
    struct stat st;
    snprintf(path, sizeof path, "%s%s", out, suffix);
    return stat(path, &st) == 0;
}

static int run_it(struct heard *h, const struct ts_resume *from)
{
    static const struct ts_opt opts[] = { { 0 } };
    static const char options[] = "rank=3";
    struct ts_run_conf conf = {
        .engine = &engine,
        .be = engine.be,
        .tensor = test_case_dir,
        .method = { .init = { .rank = 3, .seed = 1, .stop = &stop },
                    .precision = TS_FLOAT64,
                    .iters = SWEEPS,
                    .whole_start = h->most_bytes > 0 },
        .from = from,
        .from_here = from != NULL,
        .out = { .dir = out, .formats = TS_WRITE_KTENSOR, .resume = from != NULL },
        .options = options,
        .options_bytes = sizeof options,
        .who = { .version = "1", .commit = "c", .interface = "test", .opts = opts, .args = opts },
        .listener = { .hear = hear, .stopped_by = stopped_by, .figures = give_figures, .ctx = h }
    };
    const struct rlimit least = { h->most_bytes, RLIM_INFINITY },
                        most = { RLIM_INFINITY, RLIM_INFINITY };
    struct ts_run *run = malloc(sizeof *run);
    int rc;
    if (h->most_bytes > 0)
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &least), 0);
    rc = ts_run_begin(run, &conf, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &most), 0);
    if (rc == 0 && ts_run_is_under_way(run))
        rc = ts_run_end(run, ts_run_alone(run, &err), &err);
    ck_assert(rc < 0 || !ts_run_is_under_way(run));
    free(run);
    return rc;
}

START_TEST(events_come_in_order)
{
    struct heard h = { 0 };
    ck_assert_msg(run_it(&h, NULL) == 0, "%s", err.text);
    ck_assert_str_eq(h.events, "psmmmwmmmwmmmwmmmwoe");
    ck_assert(there("/model.ktensor") && there("/run.json"));
    ck_assert(!there(".partial") && !there("/status.json"));
}
END_TEST

START_TEST(the_answer_of_the_listener_is_that_of_the_run)
{
    struct heard h = { .answer = TS_ELIMIT };
    ck_assert_int_eq(run_it(&h, NULL), TS_ELIMIT);
    ck_assert_str_eq(err.text, "the listener fails");
    ck_assert(there("/model.ktensor"));
}
END_TEST

START_TEST(what_is_refused_is_not_heard)
{
    struct heard h = { 0 };
    ck_assert_int_eq(mkdir(out, 0777), 0);
    ck_assert_int_eq(symlink("x", (there("/other"), path)), 0);
    ck_assert_int_lt(run_it(&h, NULL), 0);
    ck_assert_str_eq(h.events, "");
    ck_assert(!there("/run.json"));
}
END_TEST

/* What is opened has an end, also where the start cannot be written: a state that is there is
 * named. */
START_TEST(a_start_that_cannot_be_written_is_an_end)
{
    struct heard first = { .stop_sweep = 2 }, second = { .most_bytes = 64 };
    struct ts_resume from;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(run_it(&second, NULL), TS_EIO);
    ck_assert_str_eq(second.events, "pe");
    ck_assert(!second.started && !second.saved && !there(".partial") && !there("/run.json"));
    ck_assert_int_eq(run_it(&first, NULL), TS_ESTOP);
    ck_assert_msg(ts_resume_open(out, &from, &err) == 0, "%s", err.text);
    second = (struct heard){ .most_bytes = 64 };
    ck_assert_int_eq(run_it(&second, &from), TS_EIO);
    ck_assert_str_eq(second.events, "pe");
    ck_assert(!second.started && second.saved && there(".partial"));
    ts_resume_close(&from);
}
END_TEST

/* The record lies beside the state, and the fit of the whole run has the same bits. */
START_TEST(a_run_that_is_stopped_goes_on)
{
    struct heard first = { .stop_sweep = 2 }, second = { 0 }, whole = { 0 };
    struct ts_resume from;
    ck_assert_int_eq(run_it(&first, NULL), TS_ESTOP);
    ck_assert_int_eq(first.rc, TS_ESTOP);
    ck_assert_int_eq(first.saved, 1);
    ck_assert_str_eq(first.events, "psmmmwmoe");
    ck_assert(there(".partial/run.json") && !there("/model.ktensor"));
    ck_assert_msg(ts_resume_open(out, &from, &err) == 0, "%s", err.text);
    stop = 0;
    ck_assert_msg(run_it(&second, &from) == 0, "%s", err.text);
    ck_assert_str_eq(second.events, "psmmwmmmwmmmwoe");
    ts_resume_close(&from);
    test_tsh_remove(out);
    ck_assert_int_eq(run_it(&whole, NULL), 0);
    ck_assert_mem_eq(&whole.fit, &second.fit, sizeof whole.fit);
}
END_TEST

/* ---- the directories ---- */

struct reads {
    int n, replaces; /* times; so often the result is replaced behind the reader */
};

static int read_both(void *ctx, const struct ts_run_dirs *d, struct ts_err *ret)
{
    struct reads *r = ctx;
    (void)ret;
    ck_assert_str_eq(d->name, out);
    if (r->n++ < r->replaces) {
        char old[4300];
        snprintf(old, sizeof old, "%s.old%d", out, r->n);
        ck_assert_int_eq(rename(out, old), 0);
        ck_assert_int_eq(mkdir(out, 0777), 0);
    }
    return 0;
}

START_TEST(directories_have_three_names)
{
    static const char *const ends[] = { "", "/", ".partial", ".partial/" };
    struct ts_run_dirs d;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct reads r = { 0 };
        char name[4300];
        snprintf(name, sizeof name, "%s%s", out, ends[i]);
        ck_assert_int_eq(ts_run_dirs_read(name, read_both, &r, &d, &err), 0);
        ck_assert(d.result == NULL && d.partial == NULL && !d.is_left && r.n == 1);
        ck_assert_int_eq(d.no_result.code, 0);
        ts_run_dirs_close(&d);
    }
}
END_TEST

START_TEST(directories_that_are_replaced_are_read_again)
{
    struct reads r = { .replaces = 2 };
    struct ts_run_dirs d;
    char old[4300];
    ck_assert_int_eq(mkdir(out, 0777), 0);
    ck_assert_int_eq(ts_run_dirs_read(out, read_both, &r, &d, &err), 0);
    ck_assert_int_eq(r.n, 3);
    ck_assert_ptr_nonnull(d.result);
    ck_assert(!ts_open_dir_replaced(d.result));
    ts_run_dirs_close(&d);
    for (int i = 1; i <= 2; i++) {
        snprintf(old, sizeof old, "%s.old%d", out, i);
        ck_assert_int_eq(rmdir(old), 0);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("run");
    TCase *c = tcase_create("run");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, events_come_in_order);
    tcase_add_test(c, the_answer_of_the_listener_is_that_of_the_run);
    tcase_add_test(c, what_is_refused_is_not_heard);
    tcase_add_test(c, a_start_that_cannot_be_written_is_an_end);
    tcase_add_test(c, a_run_that_is_stopped_goes_on);
    tcase_add_test(c, directories_have_three_names);
    tcase_add_test(c, directories_that_are_replaced_are_read_again);
    suite_add_tcase(s, c);
    return test_run_suite(s, CK_FORK_GETENV);
}
