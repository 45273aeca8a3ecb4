/* SPDX-License-Identifier: BSD-3-Clause */
/* Results appear whole or not at all, whatever fails and whoever else writes; nothing of the user's
 * is touched. Stands in for calls of the C library, so that they fail as other file systems do. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/atomic_out.h"
#include "base/setting.h"
#include "base/files/written.h"
#include "tests/support/run_suite.h"

static int lock_errno;            /* of flock; 0: it works */
static int no_exchange;           /* renameat2 knows no flags */
static int fsyncs, fail_fsync_at; /* counts; the one that fails, from 1, and all after it */
/* calls that change names or sync; the one before which this process dies */
static int steps, die_at;

static void (*meanwhile)(void); /* what another process does before the next such call, once; */
static int at_names;            /* only before one that changes names */

static void step(void)
{
    if (++steps == die_at)
        _exit(9);
}

static void step_and_meanwhile(void)
{
    void (*other)(void) = meanwhile;
    step();
    meanwhile = NULL;
    if (other != NULL)
        other();
}

int flock(int fd, int how)
{
    errno = lock_errno;
    return lock_errno != 0 ? -1 : (int)syscall(SYS_flock, fd, how);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    step_and_meanwhile();
    errno = EINVAL;
    return no_exchange && flags != 0
               ? -1
               : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int fsync(int fd)
{
    if (at_names)
        step();
    else
        step_and_meanwhile();
    fsyncs++;
    errno = EIO;
    return fail_fsync_at > 0 && fsyncs >= fail_fsync_at ? -1 : (int)syscall(SYS_fsync, fd);
}

int unlinkat(int dir, const char *name, int flags)
{
    step();
    return (int)syscall(SYS_unlinkat, dir, name, flags);
}

static int no_marks; /* the file system keeps no attributes */

int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
    errno = EOPNOTSUPP;
    return no_marks ? -1 : (int)syscall(SYS_fsetxattr, fd, name, value, size, flags);
}

ssize_t fgetxattr(int fd, const char *name, void *value, size_t size)
{
    errno = EOPNOTSUPP;
    return no_marks ? -1 : (ssize_t)syscall(SYS_fgetxattr, fd, name, value, size);
}

static char top[64];
static struct ts_err err, warn;

/* A path below the test's own folder; 64 at a time. */
static const char *at(const char *fmt, ...)
{
    static char path[64][256];
    static int next;
    char *p = path[next++ % 64];
    const int n = snprintf(p, sizeof path[0], "%s/", top);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p + n, sizeof path[0] - (size_t)n, fmt, ap);
    va_end(ap);
    return p;
}

static void setup(void)
{
    strcpy(top, "/tmp/check_atomic_out-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
    no_marks = lock_errno = no_exchange = fsyncs = fail_fsync_at = at_names = 0;
    meanwhile = NULL;
    memset(&warn, 0, sizeof warn);
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    ck_assert_int_eq(system(command), 0);
}

static int is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_msg(f != NULL, "%s", path);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

/* As a process that died has left it, or one that ended well. */
static void mark(const char *path, int whole)
{
    const int fd = open(path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    if (whole)
        ts_written_end(fd);
    else
        ts_written_begin(fd);
    close(fd);
}

static void assert_holds(const char *path, const char *text)
{
    char found[256] = "";
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s is not there", path);
    ck_assert_uint_le(fread(found, 1, sizeof found - 1, f), sizeof found);
    fclose(f);
    ck_assert_msg(strcmp(found, text) == 0, "%s: \"%s\", expected \"%s\"", path, found, text);
}

/* How many names a folder has. */
static int count(const char *path)
{
    char command[320];
    FILE *f;
    int n = -1;
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", path);
    f = popen(command, "r");
    ck_assert_int_eq(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

/* "data" and "more" are ours when they begin with "ours", "state" is a state. */
static enum ts_atomic_kind kind_of(int dir, const char *name, int whole)
{
    char head[4];
    const long n = ts_atomic_head(dir, name, head, sizeof head);
    const int right = whole ? n == 4 && memcmp(head, "ours", 4) == 0 : n >= 0;
    if (right && strcmp(name, "state") == 0)
        return TS_ATOMIC_STATE;
    return right && (strcmp(name, "data") == 0 || strcmp(name, "more") == 0) ? TS_ATOMIC_OURS
                                                                             : TS_ATOMIC_FOREIGN;
}

static struct ts_atomic_conf conf_of(const char *path)
{
    const struct ts_atomic_conf conf = {
        .path = path, .suffix = ".partial", .what = "thing", .place = TS_SET_OUT, .kind = kind_of
    };
    return conf;
}

/* ---- directories ---- */

static void write_in(struct ts_atomic_dir *d, const char *name, const char *text)
{
    FILE *f;
    char *path;
    ck_assert_msg(ts_atomic_dir_create(d, name, &f, &path, &err) == 0, "%s", err.text);
    fputs(text, f);
    ck_assert_int_eq(ts_atomic_dir_finish(f, path, &err), 0);
    free(path);
}

static struct ts_atomic_dir *open_dir(const struct ts_atomic_conf *conf)
{
    struct ts_atomic_dir *d = NULL;
    ck_assert_msg(ts_atomic_dir_open(conf, &d, &err) == 0, "%s", err.text);
    return d;
}

static int refused_dir(const struct ts_atomic_conf *conf, const char *says)
{
    struct ts_atomic_dir *d = NULL;
    const int rc = ts_atomic_dir_open(conf, &d, &err);
    ck_assert_int_lt(rc, 0);
    ck_assert_msg(strstr(err.text, says) != NULL, "no \"%s\" in: %s", says, err.text);
    return rc;
}

/* x := a directory with `data`. */
static void make(const char *text, int force)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    struct ts_atomic_dir *d;
    conf.force = force;
    d = open_dir(&conf);
    write_in(d, "data", text);
    ck_assert_msg(ts_atomic_dir_commit(d, &warn, &err) == 0, "%s", err.text);
    ck_assert_msg(warn.code == 0, "%s", warn.text);
    ts_atomic_dir_close(d);
}

START_TEST(a_directory_appears_whole_or_not_at_all)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    struct ts_atomic_dir *d = open_dir(&conf);
    write_in(d, "data", "ours 1");
    ck_assert(!is_there(at("x")) && is_there(at("x.partial/data")) &&
              is_there(at("x.partial/lock")));
    ts_atomic_dir_close(d);
    ck_assert_int_eq(count(top), 0);
    make("ours 1", 0);
    assert_holds(at("x/data"), "ours 1");
    ck_assert_int_eq(count(at("x")), 1); /* no lock */
    ck_assert_int_eq(count(top), 1);
}
END_TEST

/* _i: names change in one step, or in two */
START_TEST(what_exists_is_replaced_only_by_force)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    struct ts_atomic_dir *d;
    no_exchange = _i;
    make("ours 1", 0);
    ck_assert_int_eq(refused_dir(&conf,
                                 "x exists; use replace to replace it, or out to name another "
                                 "directory"),
                     TS_EBUSY);
    conf.resumable = 1;
    refused_dir(&conf, "replace to");
    refused_dir(&conf, "resume for ");
    refused_dir(&conf, "or out to name");
    ck_assert_int_eq(count(top), 1);
    conf.force = 1;
    d = open_dir(&conf);
    write_in(d, "data", "ours 2");
    assert_holds(at("x/data"), "ours 1");
    ts_atomic_dir_close(d);
    assert_holds(at("x/data"), "ours 1");
    ck_assert_int_eq(count(top), 1);
    make("ours 3", 1);
    assert_holds(at("x/data"), "ours 3");
    ck_assert_int_eq(count(top), 1);
}
END_TEST

/* One that appears between opening and commit is another's. */
START_TEST(a_result_that_appears_meanwhile_stays)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    struct ts_atomic_dir *d = open_dir(&conf);
    no_exchange = _i;
    write_in(d, "data", "ours 1");
    ck_assert_int_eq(mkdir(at("x"), 0777), 0);
    put(at("x/data"), "ours too");
    ck_assert_int_eq(ts_atomic_dir_commit(d, &warn, &err), TS_EBUSY);
    ck_assert_ptr_nonnull(strstr(err.text, "x exists"));
    ts_atomic_dir_close(d);
    assert_holds(at("x/data"), "ours too");
    ck_assert_int_eq(count(top), 1);
}
END_TEST

START_TEST(an_empty_directory_is_no_result)
{
    ck_assert_int_eq(mkdir(at("x"), 0777), 0);
    make("ours 1", 0);
    assert_holds(at("x/data"), "ours 1");
    ck_assert_int_eq(count(top), 1);
}
END_TEST

static void make_foreign(int i, const char *in)
{
    switch (i) {
    case 0:
        put(at("%s/NOTES", in), "mine");
        break;
    case 1:
        put(at("%s/data", in), "precious");
        break; /* our name, not our content */
    case 2:
        put(at("%s/lock", in), "of the door");
        break;
    case 3:
        ck_assert_int_eq(mkdir(at("%s/data", in), 0777), 0);
        break;
    case 4:
        ck_assert_int_eq(mkfifo(at("%s/data", in), 0666), 0);
        break; /* nobody writes to it */
    case 5:
        ck_assert_int_eq(symlink("/etc/passwd", at("%s/data", in)), 0);
        break;
    default:
        put(at("%s/data", in), "our");
        break; /* cut short: not proven ours */
    }
}

START_TEST(files_of_the_user_are_named_and_stay)
{
    static const char *const name[] = { "NOTES", "data", "lock", "data", "data", "data", "data" };
    struct ts_atomic_conf conf = conf_of(at("x"));
    conf.force = 1;
    ck_assert_int_eq(mkdir(at("x"), 0777), 0);
    put(at("x/more"), "ours");
    make_foreign(_i, "x");
    ck_assert_int_eq(refused_dir(&conf, name[_i]), TS_EBUSY);
    ck_assert(is_there(at("x/%s", name[_i])) && is_there(at("x/more")));
    ck_assert_int_eq(count(top), 1);
}
END_TEST

/* In PATH.partial names are enough, since a dead process may have cut files short at any byte. */
START_TEST(what_a_dead_process_left_is_cleared)
{
    ck_assert_int_eq(mkdir(at("x.partial"), 0777), 0);
    put(at("x.partial/data"), "ou");
    put(at("x.partial/more"), "");
    put(at("x.partial/lock"), "4194305 elsewhere\n");
    make("ours 1", 0);
    ck_assert_int_eq(count(top), 1);
    ck_assert_int_eq(count(at("x")), 1);
}
END_TEST

START_TEST(files_of_the_user_in_what_is_left_stay)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    conf.force = 1;
    ck_assert_int_eq(mkdir(at("x.partial"), 0777), 0);
    make_foreign(_i, "x.partial");
    ck_assert_int_eq(refused_dir(&conf, "x.partial"), TS_EBUSY);
    ck_assert_int_eq(count(at("x.partial")), 1);
}
END_TEST

START_TEST(a_state_is_dropped_only_by_force)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    struct ts_atomic_dir *d;
    conf.resumable = 1;
    d = open_dir(&conf);
    write_in(d, "state", "ours");
    write_in(d, "data", "ours");
    ts_atomic_dir_close(d); /* a run that ended early: the state stays, and nothing else */
    ck_assert_int_eq(count(at("x.partial")), 1);
    ck_assert_int_eq(refused_dir(&conf, "resume for "), TS_EBUSY);
    refused_dir(&conf, "x.partial holds the state of a run that did not end");
    refused_dir(&conf, "replace to");
    refused_dir(&conf, "or out to name");
    ck_assert_int_eq(count(at("x.partial")), 1);
    conf.resume = 1;
    d = open_dir(&conf);
    ck_assert(is_there(at("x.partial/state")));
    ts_atomic_dir_close(d);
    ck_assert_int_eq(count(at("x.partial")), 1);
    conf.resume = 0;
    conf.force = 1;
    d = open_dir(&conf);
    ck_assert(!is_there(at("x.partial/state")));
    ts_atomic_dir_close(d);
    ck_assert_int_eq(count(top), 0);
}
END_TEST

static int held(const char *partial, long *pid)
{
    const int dir = open(partial, O_RDONLY | O_DIRECTORY);
    const int ret = ts_atomic_dir_held(dir, pid);
    close(dir);
    return ret;
}

/* _i: with locks, and without (then the process is known by its number) */
START_TEST(a_second_process_is_refused)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    int ready[2], go[2], status;
    char byte = 0;
    long pid;
    pid_t child;
    lock_errno = _i == 0 ? 0 : _i == 1 ? ENOLCK : _i == 2 ? ENOSYS : EOPNOTSUPP;
    ck_assert(pipe(ready) == 0 && pipe(go) == 0);
    child = fork();
    if (child == 0) {
        struct ts_atomic_dir *d = open_dir(&conf);
        write_in(d, "data", "ours");
        _exit(write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(refused_dir(&conf, "writing it"), TS_EBUSY);
    ck_assert_int_eq(held(at("x.partial"), &pid), 1);
    ck_assert_int_eq(pid, child);
    conf.force = 1; /* no licence either */
    ck_assert_int_eq(refused_dir(&conf, "writing it"), TS_EBUSY);
    assert_holds(at("x.partial/data"), "ours");
    ck_assert_int_eq(write(go[1], &byte, 1), 1);
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(held(at("x.partial"), &pid), 0);
    make("ours 1", 0);
    ck_assert_int_eq(count(top), 1);
}
END_TEST

/* Refused because locking fails: nothing is left. Without locks: the work goes on. */
START_TEST(without_locks_nothing_is_left_either)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    lock_errno = EIO;
    ck_assert_int_eq(refused_dir(&conf, "cannot be locked"), TS_EIO);
    ck_assert_int_eq(count(top), 0);
    lock_errno = ENOLCK;
    make("ours 1", 0);
    make("ours 2", 1);
    assert_holds(at("x/data"), "ours 2");
    ck_assert_int_eq(count(top), 1);
}
END_TEST

/* Without locks and from another host: who comes last has it, and the first one sees that. */
START_TEST(without_locks_the_last_one_has_it)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    struct ts_atomic_dir *first, *last;
    lock_errno = ENOLCK;
    first = open_dir(&conf);
    write_in(first, "data", "ours 1");
    last = open_dir(&conf); /* the same process: it does not take itself for another */
    ck_assert_int_eq(ts_atomic_dir_commit(first, &warn, &err), TS_EBUSY);
    ck_assert_ptr_nonnull(strstr(err.text, "another process took its name"));
    ts_atomic_dir_close(first);
    write_in(last, "data", "ours 2");
    ck_assert_int_eq(ts_atomic_dir_commit(last, &warn, &err), 0);
    ts_atomic_dir_close(last);
    assert_holds(at("x/data"), "ours 2");
    ck_assert_int_eq(count(top), 1);
}
END_TEST

static void take_away(void)
{
    ck_assert_int_eq(syscall(SYS_renameat2, AT_FDCWD, at("x.partial"), AT_FDCWD, at("ours"), 0), 0);
    ck_assert_int_eq(mkdir(at("x.partial"), 0777), 0);
    put(at("x.partial/data"), "ours, of another");
}

/* Who heeds no lock takes the directory while it is synced (_i = 0, 1), or just before it gets its
 * name (2, 3): that is told, and neither what it took nor what was there before (odd _i) is
 * lost. */
START_TEST(a_directory_that_is_taken_away_last_is_no_result)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    const int old = _i % 2, late = _i >= 2;
    struct ts_atomic_dir *d;
    if (old)
        make("ours 1", 0);
    conf.force = old;
    d = open_dir(&conf);
    write_in(d, "data", "ours 2");
    meanwhile = take_away;
    at_names = late;
    ck_assert_int_eq(ts_atomic_dir_commit(d, &warn, &err), TS_EBUSY);
    ck_assert_ptr_null(meanwhile);
    ck_assert_ptr_nonnull(strstr(err.text, "another process took its name"));
    ck_assert(!late == (strstr(err.text, "is another's") == NULL));
    ts_atomic_dir_close(d);
    assert_holds(at("ours/data"), "ours 2");
    assert_holds(at(late ? "x/data" : "x.partial/data"), "ours, of another");
    if (old)
        assert_holds(at(late ? "x.partial/data" : "x/data"), "ours 1");
    ck_assert_int_eq(count(top), 2 + old);
}
END_TEST

/* Data that do not reach the disk are a failure; what fails when the result is in place is told.
 * The count: finish of one file; commit: data and lock, directory; then directory, parent. */
START_TEST(a_failing_disk_is_a_failure_before_and_a_warning_after)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    for (int k = 2; k <= 6; k++) {
        struct ts_atomic_dir *d = open_dir(&conf);
        int rc;
        fsyncs = 0;
        fail_fsync_at = k;
        write_in(d, "data", "ours 1");
        warn.code = 0;
        rc = ts_atomic_dir_commit(d, &warn, &err);
        ts_atomic_dir_close(d);
        fail_fsync_at = 0;
        if (k <= 4) {
            ck_assert_int_eq(rc, TS_EIO);
            ck_assert_int_eq(count(top), 0);
        } else {
            ck_assert_int_eq(rc, 0);
            ck_assert_int_eq(warn.code, TS_EIO);
            ck_assert_ptr_nonnull(strstr(warn.text, "is in place, but"));
            assert_holds(at("x/data"), "ours 1");
            ck_assert_int_eq(count(top), 1);
            conf.force = 1;
        }
    }
}
END_TEST

START_TEST(links_are_followed)
{
    struct ts_atomic_conf conf = conf_of(at("link"));
    struct ts_atomic_dir *d;
    ck_assert_int_eq(mkdir(at("real"), 0777), 0);
    ck_assert_int_eq(symlink("real", at("link")), 0);
    d = open_dir(&conf);
    write_in(d, "data", "ours");
    ck_assert_int_eq(ts_atomic_dir_commit(d, &warn, &err), 0);
    ts_atomic_dir_close(d);
    assert_holds(at("real/data"), "ours");
    ck_assert_int_eq(count(top), 2);
    ck_assert_int_eq(symlink("nowhere", at("dangling")), 0);
    conf.path = at("dangling");
    ck_assert_int_eq(refused_dir(&conf, "leads to nothing"), TS_EARG);
    put(at("file"), "text");
    conf.path = at("file");
    conf.force = 1;
    ck_assert_int_eq(refused_dir(&conf, "is not a thing"), TS_EBUSY);
    assert_holds(at("file"), "text");
}
END_TEST

/* A process that dies between any two system calls: the old or the new one is there, whole, and the
 * next one goes through. */
START_TEST(killed_at_any_instant_the_old_or_the_new_is_there)
{
    static const char *const text[] = { "ours 0", "ours 1" };
    make("ours 0", 0);
    for (int k = 0; k < 60; k++) {
        const pid_t child = fork();
        char found[8] = "";
        int fd, status;
        if (child == 0)
            for (;;)
                make(text[1], 1);
        usleep((useconds_t)(200 + 137 * k));
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        fd = open(at("x/data"), O_RDONLY);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(read(fd, found, sizeof found), 6);
        close(fd);
        ck_assert(strcmp(found, text[0]) == 0 || strcmp(found, text[1]) == 0);
        make(text[0], 1);
        ck_assert_int_eq(count(top), 1);
        ck_assert_int_eq(count(at("x")), 1);
    }
}
END_TEST

/* A result `text` with its state, in the place of what is there. */
static void make_with_state(const char *text)
{
    struct ts_atomic_conf conf = conf_of(at("x"));
    struct ts_atomic_dir *d;
    conf.force = 1;
    d = open_dir(&conf);
    write_in(d, "state", text);
    write_in(d, "data", text);
    ck_assert_msg(ts_atomic_dir_commit(d, &warn, &err) == 0, "%s", err.text);
    ts_atomic_dir_close(d);
}

/* Before any call that changes a name: a state beside the result is that of a run that can go on,
 * and not of what was replaced, or the result says so. _i: without the exchange of two names. */
START_TEST(a_kill_never_makes_a_run_of_what_was_replaced)
{
    int k = 0, status = 1, marked = 0;
    no_exchange = _i;
    while (status != 0) {
        struct ts_atomic_conf conf = conf_of(at("x"));
        struct ts_atomic_dir *d;
        pid_t child;
        char command[128];
        make_with_state("ours 1");
        child = fork();
        if (child == 0) {
            steps = 0;
            die_at = ++k;
            make_with_state("ours 2");
            _exit(0);
        }
        k++;
        waitpid(child, &status, 0);
        ck_assert(WIFEXITED(status) && (WEXITSTATUS(status) == 9 || status == 0));
        ck_assert(no_exchange || is_there(at("x/data")));
        if (is_there(at("x.partial/state"))) {
            const int replaced = ts_atomic_dir_replaced(at("x"));
            marked += replaced;
            assert_holds(at("x.partial/state"), replaced ? "ours 1" : "ours 2");
            if (is_there(at("x")))
                assert_holds(at("x/data"), replaced ? "ours 2" : "ours 1");
            conf.resume = 1; /* keeps a state that a run can go on from, and no other */
            d = open_dir(&conf);
            ck_assert_int_eq(is_there(at("x.partial/state")), !replaced);
            ck_assert(!ts_atomic_dir_replaced(at("x")));
            ts_atomic_dir_close(d);
            ck_assert_int_eq(is_there(at("x.partial/state")), !replaced);
        }
        snprintf(command, sizeof command, "rm -rf '%s'/*", top);
        ck_assert_int_eq(system(command), 0);
    }
    ck_assert_int_gt(marked, 0);
    ck_assert_int_gt(k, 10);
}
END_TEST

/* Writers that all want the same place: each is refused or puts a whole one there, and nothing is
 * left. */
START_TEST(many_writers_at_once)
{
    pid_t child[4];
    int status;
    make("ours", 0);
    for (int i = 0; i < 4; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            struct ts_atomic_conf conf = conf_of(at("x"));
            int done = 0;
            conf.force = 1;
            while (done < 25) {
                struct ts_atomic_dir *d = NULL;
                int rc = ts_atomic_dir_open(&conf, &d, &err);
                if (rc == TS_EBUSY)
                    continue;
                if (rc == 0)
                    write_in(d, "data", "ours");
                if (rc == 0)
                    rc = ts_atomic_dir_commit(d, &warn, &err);
                ts_atomic_dir_close(rc == 0 || d != NULL ? d : NULL);
                if (rc < 0 || warn.code != 0) {
                    fprintf(stderr, "%s / %s\n", err.text, warn.text);
                    _exit(1);
                }
                done++;
            }
            _exit(0);
        }
    }
    for (int i = 0; i < 4; i++) {
        waitpid(child[i], &status, 0);
        ck_assert_int_eq(status, 0);
    }
    assert_holds(at("x/data"), "ours");
    ck_assert_int_eq(count(top), 1);
    ck_assert_int_eq(count(at("x")), 1);
}
END_TEST

/* ---- files ---- */

static int make_file(const char *path, const char *text, int force)
{
    struct ts_atomic_conf conf = conf_of(path);
    struct ts_atomic_file *f = NULL;
    int rc;
    conf.force = force;
    rc = ts_atomic_file_open(&conf, &f, &err);
    if (rc < 0)
        return rc;
    ck_assert_int_eq(write(ts_atomic_file_fd(f), text, strlen(text)), (int)strlen(text));
    rc = ts_atomic_file_commit(f, &warn, &err);
    ts_atomic_file_close(f);
    return rc;
}

/* _i: with RENAME_NOREPLACE, and without */
START_TEST(a_file_appears_whole_or_not_at_all)
{
    struct ts_atomic_conf conf = conf_of(at("t"));
    struct ts_atomic_file *f = NULL;
    no_exchange = _i;
    ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), 0);
    ck_assert(!is_there(at("t")) && is_there(at("t.partial")));
    ts_atomic_file_close(f);
    ck_assert_int_eq(count(top), 0);
    ck_assert_int_eq(make_file(at("t"), "one", 0), 0);
    ck_assert_int_eq(make_file(at("t"), "two", 0), TS_EBUSY);
    ck_assert_ptr_nonnull(strstr(err.text,
                                 "t exists; use replace to replace it, or out to name another "
                                 "file"));
    assert_holds(at("t"), "one");
    put(at("t.partial"), "what a dead process left, and longer");
    mark(at("t.partial"), 0);
    ck_assert_int_eq(make_file(at("t"), "three", 1), 0);
    assert_holds(at("t"), "three");
    ck_assert_int_eq(count(top), 1);
    ck_assert_int_eq(make_file(top, "", 1), TS_EARG);
    ck_assert_int_eq(make_file(at("no/such"), "", 1), TS_EIO);
    conf.path = at("u"); /* one that appears meanwhile stays */
    ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), 0);
    put(at("u"), "mine");
    ck_assert_int_eq(ts_atomic_file_commit(f, &warn, &err), TS_EBUSY);
    ts_atomic_file_close(f);
    assert_holds(at("u"), "mine");
    ck_assert_int_eq(count(top), 2);
}
END_TEST

/* Likely: a text of figures. Sure: one that begins with "ours". */
static int looks(const char *head, size_t n, int sure)
{
    return n >= 4 && (sure ? memcmp(head, "ours", 4) == 0 : strchr("0123456789", head[0]) != NULL);
}

/* _i: a file system that keeps marks, or not */
START_TEST(a_file_of_the_user_stays)
{
    struct ts_atomic_conf conf = conf_of(at("t"));
    struct ts_atomic_file *f = NULL;
    const char *const text[] = { "mine, all mine", "1 1 1 5", "ours, of a version before" };
    conf.force = 1;
    conf.looks = looks;
    no_marks = _i;
    for (int i = 0; i < 3; i++) {
        const int ours = _i ? i == 1 : i == 2;
        put(at("t"), text[i]);
        ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), ours ? 0 : TS_EBUSY);
        if (ours)
            ts_atomic_file_close(f);
        assert_holds(at("t"), text[i]);
        ck_assert_int_eq(unlink(at("t")), 0);
        put(at("t.partial"), text[i]);
        ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), ours ? 0 : TS_EBUSY);
        if (ours)
            ts_atomic_file_close(f);
        else
            assert_holds(at("t.partial"), text[i]);
        ck_assert(is_there(at("t.partial")) == !ours);
        unlink(at("t.partial"));
    }
    ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), 0);
    ck_assert_int_eq(write(ts_atomic_file_fd(f), "1 2 3", 5), 5);
    ck_assert_int_eq(ts_atomic_file_commit(f, &warn, &err), 0);
    ts_atomic_file_close(f);
    ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), 0); /* what it wrote it may replace */
    ts_atomic_file_close(f);
    assert_holds(at("t"), "1 2 3");
}
END_TEST

/* Of the same size: the mark tells when it was last written. A file system may keep fewer digits of
 * that. */
START_TEST(a_file_that_was_edited_stays)
{
    struct ts_atomic_conf conf = conf_of(at("t"));
    struct ts_atomic_file *f = NULL;
    struct timespec time[2];
    struct stat st;
    int fd;
    ck_assert_int_eq(make_file(at("t"), "1 2 3", 0), 0);
    ck_assert_int_eq(stat(at("t"), &st), 0);
    conf.force = 1;
    for (long unit = 1; unit <= 1000000000; unit *= 10) {
        time[0] = time[1] =
            (struct timespec){ st.st_mtim.tv_sec, st.st_mtim.tv_nsec / unit * unit };
        ck_assert_int_eq(utimensat(AT_FDCWD, at("t"), time, 0), 0);
        ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), 0);
        ts_atomic_file_close(f);
        /* another time of that second */
        time[1].tv_nsec += time[1].tv_nsec < 500000000 ? 123456789 : -123456789;
        ck_assert_int_eq(utimensat(AT_FDCWD, at("t"), time, 0), 0);
        ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), TS_EBUSY);
    }
    fd = open(at("t"), O_WRONLY);
    ck_assert(fd >= 0 && pwrite(fd, "4", 1, 4) == 1);
    time[0].tv_sec = time[1].tv_sec = st.st_mtim.tv_sec + 1;
    ck_assert(futimens(fd, time) == 0 && close(fd) == 0);
    ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), TS_EBUSY);
    assert_holds(at("t"), "1 2 4");
}
END_TEST

/* A result that somebody gave the name of a leftover is none. */
START_TEST(a_whole_file_is_no_leftover)
{
    struct ts_atomic_conf conf = conf_of(at("t"));
    struct ts_atomic_file *f = NULL;
    ck_assert_int_eq(make_file(at("u"), "1 2 3", 0), 0);
    ck_assert_int_eq(rename(at("u"), at("t.partial")), 0);
    ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), TS_EBUSY);
    ck_assert_ptr_nonnull(strstr(err.text, "is an unfinished file of this program"));
    assert_holds(at("t.partial"), "1 2 3");
}
END_TEST

START_TEST(a_second_writer_of_a_file_is_refused)
{
    struct ts_atomic_conf conf = conf_of(at("t"));
    struct ts_atomic_file *f = NULL, *g = NULL;
    ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), 0);
    ck_assert_int_eq(ts_atomic_file_open(&conf, &g, &err), TS_EBUSY);
    ck_assert(is_there(at("t.partial")));
    ts_atomic_file_close(f);
    lock_errno = ENOLCK;
    ck_assert_int_eq(ts_atomic_file_open(&conf, &f, &err), 0);
    ck_assert_int_eq(ts_atomic_file_open(&conf, &g, &err), 0);
    ck_assert_int_eq(ts_atomic_file_commit(f, &warn, &err), TS_EBUSY);
    ts_atomic_file_close(f);
    ck_assert(is_there(at("t.partial"))); /* the other one's */
    ck_assert_int_eq(ts_atomic_file_commit(g, &warn, &err), 0);
    ts_atomic_file_close(g);
    lock_errno = EIO;
    ck_assert_int_eq(make_file(at("u"), "", 0), TS_EIO);
    ck_assert_int_eq(count(top), 1 + is_there(at("u.partial")));
}
END_TEST

START_TEST(a_file_is_on_disk_before_it_has_its_name)
{
    fail_fsync_at = 1;
    ck_assert_int_eq(make_file(at("t"), "one", 0), TS_EIO);
    ck_assert_int_eq(count(top), 0);
    fsyncs = 0;
    fail_fsync_at = 2; /* the directory */
    ck_assert_int_eq(make_file(at("t"), "one", 0), 0);
    ck_assert_int_eq(warn.code, TS_EIO);
    assert_holds(at("t"), "one");
}
END_TEST

START_TEST(what_is_in_the_way_of_a_file_stays)
{
    ck_assert_int_eq(mkfifo(at("t.partial"), 0666), 0);
    ck_assert_int_lt(make_file(at("t"), "", 1), 0);
    ck_assert_int_eq(symlink("/etc/passwd", at("u.partial")), 0);
    ck_assert_int_lt(make_file(at("u"), "", 1), 0);
    ck_assert_int_eq(mkdir(at("v.partial"), 0777), 0);
    ck_assert_int_lt(make_file(at("v"), "", 1), 0);
    ck_assert_int_eq(count(top), 3);
    put(at("real"), "old");
    ck_assert_int_eq(symlink("real", at("link")), 0);
    ck_assert_int_eq(make_file(at("link"), "new", 1), TS_EBUSY); /* not ours */
    assert_holds(at("real"), "old");
    mark(at("real"), 1);
    ck_assert_int_eq(make_file(at("link"), "new", 1), 0);
    assert_holds(at("real"), "new");
    ck_assert_int_eq(count(top), 5);
    ck_assert_int_eq(make_file("/dev/null", "x", 0), 0); /* as it is */
}
END_TEST

/* ---- small files ---- */

START_TEST(a_small_file_is_replaced_as_a_whole)
{
    const int dir = open(top, O_RDONLY | O_DIRECTORY);
    int fd;
    ck_assert_int_eq(mkfifo(at("s.new"), 0666), 0); /* of whoever: the name is ours */
    ck_assert_int_eq(ts_atomic_put(dir, top, "s", "one", 3, TS_ATOMIC_FAST, &err), 0);
    assert_holds(at("s"), "one");
    ck_assert_int_eq(fsyncs, 0);
    ck_assert_int_eq(ts_atomic_put(dir, top, "s", "two", 3, TS_ATOMIC_DURABLE, &err), 0);
    assert_holds(at("s"), "two");
    ck_assert_int_eq(fsyncs, 2);
    fsyncs = 0;
    fail_fsync_at = 1;
    ck_assert_int_eq(ts_atomic_put(dir, top, "s", "bad", 3, TS_ATOMIC_DURABLE, &err), TS_EIO);
    assert_holds(at("s"), "two");
    fail_fsync_at = 0;
    ck_assert_int_eq(ts_atomic_put_begin(dir, top, "s", &fd, &err), 0);
    ck_assert_int_eq(ts_atomic_put_end(dir, top, "s", fd, TS_EIO, TS_ATOMIC_DURABLE, &err), TS_EIO);
    assert_holds(at("s"), "two");
    ck_assert_int_eq(count(top), 1);
    close(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("atomic_out");
    TCase *c = tcase_create("atomic_out");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, a_directory_appears_whole_or_not_at_all);
    tcase_add_loop_test(c, what_exists_is_replaced_only_by_force, 0, 2);
    tcase_add_loop_test(c, a_result_that_appears_meanwhile_stays, 0, 2);
    tcase_add_test(c, an_empty_directory_is_no_result);
    tcase_add_loop_test(c, files_of_the_user_are_named_and_stay, 0, 7);
    tcase_add_test(c, what_a_dead_process_left_is_cleared);
    tcase_add_loop_test(c, files_of_the_user_in_what_is_left_stay, 2, 6);
    tcase_add_test(c, a_state_is_dropped_only_by_force);
    tcase_add_loop_test(c, a_second_process_is_refused, 0, 4);
    tcase_add_test(c, without_locks_nothing_is_left_either);
    tcase_add_test(c, without_locks_the_last_one_has_it);
    tcase_add_loop_test(c, a_directory_that_is_taken_away_last_is_no_result, 0, 4);
    tcase_add_test(c, a_failing_disk_is_a_failure_before_and_a_warning_after);
    tcase_add_test(c, links_are_followed);
    tcase_add_loop_test(c, a_kill_never_makes_a_run_of_what_was_replaced, 0, 2);
    tcase_add_test(c, killed_at_any_instant_the_old_or_the_new_is_there);
    tcase_add_test(c, many_writers_at_once);
    tcase_add_loop_test(c, a_file_appears_whole_or_not_at_all, 0, 2);
    tcase_add_loop_test(c, a_file_of_the_user_stays, 0, 2);
    tcase_add_test(c, a_file_that_was_edited_stays);
    tcase_add_test(c, a_whole_file_is_no_leftover);
    tcase_add_test(c, a_second_writer_of_a_file_is_refused);
    tcase_add_test(c, a_file_is_on_disk_before_it_has_its_name);
    tcase_add_test(c, what_is_in_the_way_of_a_file_stays);
    tcase_add_test(c, a_small_file_is_replaced_as_a_whole);
    suite_add_tcase(s, c);
    return test_run_suite(s, CK_FORK_GETENV);
}
