/* SPDX-License-Identifier: BSD-3-Clause */
/* How builds end that do not go well: over what is there, killed, two at once, on a full disk,
 * stopped, of what cannot be built. Nothing is lost, and nothing is left half-made. */
#include <check.h>
#include <errno.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stop.h"
#include "format/tensor.h"
#include "tests/build/build_case.h"
#include "tests/support/run_suite.h"
#include "tests/support/stop_later.h"
#include "tests/format/tsh_writer.h"

/* Stands in for the C library's: a file system that cannot exchange names. */
static int no_exchange;

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (no_exchange && flags != 0) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

START_TEST(an_existing_tensor_stays_unless_forced)
{
    struct ts_build_options o = options(out);
    char name[4200];
    write_large();
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_int_eq(build(&o), TS_EBUSY);
    o.out = other;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.out = out;
    o.force = 1;
    o.n_dims = 2; /* fails late enough */
    ck_assert_int_lt(build(&o), 0);
    assert_same_bytes(3);
    o.n_dims = 0;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    assert_same_bytes(3);
    ck_assert(!exists(out, ".building") && !exists(out, ".old") && !exists(out, "/lock"));
    snprintf(name, sizeof name, "%s/dir.tsh", tmp);
    ck_assert_int_eq(mkdir(name, 0777), 0);
    ck_assert_int_eq(mkdir(strcat(name, "/mine"), 0777), 0);
    snprintf(name, sizeof name, "%s/dir.tsh", tmp);
    o.out = name;
    ck_assert_int_eq(build(&o), TS_EBUSY); /* not a tensor: --force is no licence to remove it */
    rmdir(strcat(name, "/mine"));
    snprintf(name, sizeof name, "%s/dir.tsh", tmp);
    rmdir(name);
}
END_TEST

/* Where two directories cannot change their names in one step: what lies beside the tensor under a
 * name that could be its old one's stays. */
START_TEST(replacing_in_two_steps_leaves_copies_alone)
{
    struct ts_build_options o = options(out);
    struct ts_tensor *t;
    char copy[4200], held[4200];
    snprintf(copy, sizeof copy, "%s.old", out);
    snprintf(held, sizeof held, "%s.old.%ld", out, (long)getpid());
    write_text("1 1 1\n");
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_int_eq(rename(out, copy), 0);
    write_text("2 2 2\n1 2 1\n");
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    no_exchange = 1;
    o.force = 1;
    write_text("2 2 2\n1 2 1\n3 3 3\n");
    ck_assert_int_eq(mkdir(held, 0777), 0);
    ck_assert_int_eq(build(&o), TS_EBUSY); /* its own name is taken */
    ck_assert_ptr_nonnull(strstr(err.text, held));
    ck_assert_int_eq(rmdir(held), 0);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_uint_eq(t->header.nnz, 2);
    ts_tensor_close(t);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert(!exists(out, ".building") && access(held, F_OK) != 0);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_uint_eq(t->header.nnz, 3);
    ts_tensor_close(t);
    ck_assert_int_eq(ts_tensor_open(copy, &t, &err), 0);
    ck_assert_uint_eq(t->header.nnz, 1);
    ts_tensor_close(t);
    test_tsh_remove(copy);
}
END_TEST

START_TEST(killed_builds_are_cleared)
{
    struct ts_build_options o = options(out);
    write_large();
    for (int k = 0; k < 12; k++) {
        const pid_t child = fork();
        int status;
        if (child == 0) {
            o.threads = 1;
            build(&o);
            _exit(0);
        }
        usleep((useconds_t)(1 + k * 12) * 1000);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        if (exists(out, "")) { /* it was faster: then it is whole */
            struct ts_tensor *t;
            ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
            ts_tensor_close(t);
            test_tsh_remove(out);
        }
    }
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert(!exists(out, ".building"));
    assert_holds_large(out);
}
END_TEST

START_TEST(two_builds_at_once_are_refused)
{
    struct ts_build_options o = options(out);
    char name[4200], pid[32];
    FILE *f;
    write_large();
    snprintf(name, sizeof name, "%s.building", out);
    ck_assert_int_eq(mkdir(name, 0777), 0);
    snprintf(name, sizeof name, "%s.building/lock", out);
    f = fopen(name, "w");
    fprintf(f, "%ld\n", (long)getpid());
    fflush(f);
    ck_assert_int_eq(flock(fileno(f), LOCK_EX), 0);
    ck_assert_int_eq(build(&o), TS_EBUSY);
    snprintf(pid, sizeof pid, "(pid %ld)", (long)getpid());
    ck_assert_ptr_nonnull(strstr(err.text, pid));
    fclose(f); /* the other one died: its litter is no obstacle */
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert(!exists(out, ".building"));
}
END_TEST

/* A file-size limit stands for the full disk: the same failure of the same calls. _i: its size. */
START_TEST(a_full_disk_leaves_nothing)
{
    static const rlim_t limits[] = { 0, 20, 5000, 100000, 300000 };
    struct ts_build_options o = options(out);
    struct rlimit limit = { limits[_i], RLIM_INFINITY };
    o.no_space_check = 1; /* the disk is to get full */
    write_large();
    if (_i % 2)
        o.area_words = 120000; /* then it is the temporary file that meets the limit */
    signal(SIGXFSZ, SIG_IGN);
    (void)
        omp_get_max_threads(); /* clang's OpenMP writes a shared page when it starts: not limited */
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(build(&o), TS_EIO);
    ck_assert_int_eq(err.sys, EFBIG);
    ck_assert(!exists(out, "") && !exists(out, ".building"));
}
END_TEST

static const volatile sig_atomic_t stop_now = 2;

START_TEST(stopping_leaves_nothing)
{
    struct ts_build_options o = options(out);
    write_large();
    o.stop = &stop_now;
    ck_assert_int_eq(build(&o), TS_ESTOP);
    ck_assert(!exists(out, "") && !exists(out, ".building"));
}
END_TEST

/* Stops in the middle of the first copy. */
static void stop_while_packing(void *arg, const struct ts_build_step *step)
{
    volatile sig_atomic_t *stop = arg;
    ck_assert_uint_eq(step->n_phases, 6);
    if (strcmp(step->what, "packing mode 1") == 0 && step->done > 0 && step->done < step->total) {
        ck_assert_uint_eq(step->phase, 4);
        ck_assert_uint_eq(step->alike, 1);
        ts_stop_ask(stop, SIGINT);
    }
}

START_TEST(stopping_a_build_in_memory_does_not_wait_for_a_copy)
{
    struct ts_synth s = { .order = 2,
                          .dim = { 3000, 4000 },
                          .nnz = 4500000,
                          .seed = 3,
                          .value_first = 1,
                          .value_last = 1,
                          .value_bytes = 4 };
    static volatile sig_atomic_t stop;
    struct ts_build_options o = options(out);
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    stop = 0;
    o.memory = 512 << 20;
    o.threads = 1;
    o.duplicates = TS_DUPLICATES_KEEP;
    o.stop = &stop;
    o.progress = stop_while_packing;
    o.progress_arg = (void *)&stop;
    ck_assert_int_eq(ts_build_synth(&o, &s, &report, &err), TS_ESTOP);
    ck_assert(!exists(out, "") && !exists(out, ".building"));
}
END_TEST

/* At whatever moment. _i: in memory, and through runs. */
START_TEST(stopping_at_any_time_leaves_all_or_nothing)
{
    struct ts_synth s = { .order = 3,
                          .dim = { 3000, 4000, 50 },
                          .nnz = 400000,
                          .seed = 3,
                          .value_first = 1,
                          .value_last = 5,
                          .value_bytes = 4 };
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    for (uint32_t k = 0; k < 24; k++) {
        struct ts_build_options o = options(out);
        struct test_stop stop;
        int rc;
        o.memory = 256 << 20;
        o.area_words = _i ? 1 << 17 : 0;
        o.threads = 2;
        o.stop = &stop.asked;
        o.force = 1;
        test_stop_later(&stop, k * 4000);
        rc = ts_build_synth(&o, &s, &report, &err);
        test_stop_join(&stop);
        ck_assert_msg(rc == 0 || rc == TS_ESTOP, "%s", err.text);
        ck_assert(rc == 0 || strstr(err.text, "stopped; nothing was written") != NULL);
        ck_assert(!exists(out, ".building"));
        if (rc == 0)
            ck_assert_uint_eq(report.nnz + report.n_duplicates, s.nnz);
    }
}
END_TEST

/* What could not be opened again, or would be left out in silence, or would fail after hours. */
START_TEST(what_cannot_be_built_is_refused)
{
    struct ts_build_options o = options(out);
    write_text("1 1 1e200\n2 2 -3e200\n");
    o.value_bytes = 8;
    ck_assert_int_eq(build(&o), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "the squares of the values (-3e+200 to 1e+200) add up"));
    ck_assert(!exists(out, "") && !exists(out, ".building"));
    write_text("1 1 1e150\n2 2 -3e150\n"); /* is within the range */
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.out = other;
    write_text("1 1 1e-170\n2 2 -3e-170\n");
    ck_assert_int_eq(build(&o), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "(-3e-170 to 1e-170) add up to less than"));
    ck_assert(!exists(other, "") && !exists(other, ".building"));
    o = options(other);
    o.min_order = 3;
    o.map[2] = text;
    ck_assert_int_eq(build(&o), TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "label names mode 3, but "));
    ck_assert(!exists(other, "") && !exists(other, ".building"));
    o = options(other);
    o.tmp = text; /* no directory; nothing so small needs one */
    ck_assert_int_eq(build(&o), TS_EIO);
    ck_assert_int_eq(err.sys, ENOTDIR);
    ck_assert(!exists(other, "") && !exists(other, ".building"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("build_end");
    TCase *t = tcase_create("build_end");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, an_existing_tensor_stays_unless_forced);
    tcase_add_test(t, replacing_in_two_steps_leaves_copies_alone);
    tcase_add_test(t, killed_builds_are_cleared);
    tcase_add_test(t, two_builds_at_once_are_refused);
    tcase_add_loop_test(t, a_full_disk_leaves_nothing, 0, 5);
    tcase_add_test(t, stopping_leaves_nothing);
    tcase_add_test(t, stopping_a_build_in_memory_does_not_wait_for_a_copy);
    tcase_add_loop_test(t, stopping_at_any_time_leaves_all_or_nothing, 0, 2);
    tcase_add_test(t, what_cannot_be_built_is_refused);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
