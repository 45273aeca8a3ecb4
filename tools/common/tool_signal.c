/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks a command to stop at a signal; a second signal ends it at once. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "api/tools.h"
#include "tools/common/tool_signal.h"
#include "tools/common/tool_watch.h"

volatile sig_atomic_t tool_stop;

/* a second signal this soon after the first belongs to the same request to stop */
#define AGAIN_NS UINT64_C(200000000)

static _Atomic uint64_t stop_ns; /* time of the first signal that asked to stop */

/* Sets tool_stop at the first signal, and kills the process at a later one. timeout(1) and batch
 * systems signal a process and its group, so the process gets two signals at nearly the same time.
 * The second must not kill it, which would leave incomplete files. */
static void on_signal(int number)
{
    const uint64_t now = ts_clock_ns();
    const int before = ts_stop_number(&tool_stop);
    /* SIGALRM, the end of --max-time, is not a request from outside */
    if (before == 0 || before == SIGALRM) {
        stop_ns = now;
        ts_stop_ask(&tool_stop, number);
    } else if (now - stop_ns > AGAIN_NS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void on_alarm(int number)
{
    if (!ts_stop_asked(&tool_stop))
        ts_stop_ask(&tool_stop, number);
}

void tool_catch_signals(void)
{
    struct sigaction act, before;
    memset(&act, 0, sizeof act);
    sigemptyset(&act.sa_mask);
    act.sa_handler = on_signal;
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &act, NULL);
    act.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &act, NULL);
    sigaction(SIGXFSZ, &act, NULL);
    tool_watch_start();
}

void tool_stop_after(uint64_t ns)
{
    const struct itimerval when = {
        .it_value = { .tv_sec = (time_t)(ns / 1000000000),
                      .tv_usec = (suseconds_t)(ns % 1000000000 / 1000) },
    };
    struct sigaction act;
    memset(&act, 0, sizeof act);
    sigemptyset(&act.sa_mask);
    act.sa_handler = on_alarm;
    act.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &when, NULL);
}

void tool_signal_end(int status)
{
    const int number = ts_stop_number(&tool_stop);
    if (status == 0 || number == 0 || number == SIGALRM)
        return;
    fflush(NULL);
    signal(number, SIG_DFL);
    raise(number);
}
