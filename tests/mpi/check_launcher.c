/* SPDX-License-Identifier: BSD-3-Clause */
/* A launcher whose rank asks for the end: within seconds nothing is left of what it has started,
 * not even a rank that is stopped, or one below a shell. A process of the same name that has not
 * started the rank stays. */
#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi/launcher.h"
#include "tests/support/run_suite.h"

#define MOST_MS 20000 /* a second, and what a busy machine takes */

static void stay(void)
{
    for (;;)
        pause();
}

/* A child named so that does this. Nothing of a test that was ended stays for long. */
static pid_t start(const char *name, void (*run)(void))
{
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, name);
        alarm(60);
        run();
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    return pid;
}

static void be_stopped(void)
{
    raise(SIGSTOP);
}

static void be_shell(void)
{
    start("rank", stay);
    stay();
}

static void ask_for_end(void)
{
    ts_launcher_end_soon();
    stay();
}

static void be_launcher(void)
{
    start("rank", be_stopped);
    start("sh", be_shell);
    start("rank", ask_for_end);
    start("rank", ask_for_end); /* two ask at once, and end each other */
    stay();
}

static void be_launcher_with_proxy(void)
{
    start("hydra_pmi_proxy", be_launcher);
    start("ssh", stay);
    stay();
}

/* Whether nobody has the end for writing of the pipe any more. */
static int all_have_ended(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, MOST_MS) == 1 && (p.revents & POLLHUP) != 0;
}

static void check_ends(const char *name, void (*run)(void))
{
    int ends[2];
    const pid_t other = start("mpirun", stay);
    pid_t launcher;
    ck_assert_int_eq(pipe(ends), 0);
    launcher = start(name, run);
    close(ends[1]);
    ck_assert_msg(all_have_ended(ends[0]), "%s: something runs on", name);
    close(ends[0]);
    ck_assert_int_eq(waitpid(launcher, NULL, 0), launcher);
    ck_assert_int_eq(waitpid(other, NULL, WNOHANG), 0);
    kill(other, SIGKILL);
    ck_assert_int_eq(waitpid(other, NULL, 0), other);
}

START_TEST(all_of_a_launcher_end)
{
    check_ends("mpirun", be_launcher);
    check_ends("orted", be_launcher);
    check_ends("mpiexec.hydra", be_launcher_with_proxy);
}
END_TEST

START_TEST(names)
{
    ck_assert(ts_launcher_is("mpirun") && ts_launcher_is("hydra_bstrap_pro"));
    ck_assert(!ts_launcher_is("mpirun.sh") && !ts_launcher_is("slurmstepd"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("launcher");
    test_add(suite, "all of a launcher end", all_of_a_launcher_end, 1);
    test_add(suite, "names", names, 1);
    return test_run_suite(suite, CK_FORK_GETENV);
}
