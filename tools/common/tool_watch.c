/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a thread that watches a command: it wakes once a second, and at SIGUSR1. */
#include "tools/common/tool_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/common/tool_progress.h"

#define TICK_MS 1000

static struct {
    pthread_t thread;
    int running;
    int wake[2]; /* a pipe that wakes the thread */
    atomic_int ending;
} watch;

static atomic_int wake_fd = -1; /* the end of the pipe that the signal handler writes to */

static void wake(void)
{
    const int fd = atomic_load(&wake_fd);
    ssize_t n =
        /* a full pipe wakes the thread as well, so this need not block */
        fd < 0 ? 0 : write(fd, "", 1);
    (void)n;
}

static void on_signal(int number)
{
    const int kept = errno;
    (void)number;
    wake();
    errno = kept;
}

/* Waits until the time tick_ns, or until a byte comes in the pipe: SIGUSR1 asked for the progress,
 * or the command ends. */
static void wait_until(uint64_t tick_ns)
{
    struct pollfd p = { .fd = watch.wake[0], .events = POLLIN };
    const uint64_t now = ts_clock_ns();
    const int ms = now >= tick_ns ? 0 : (int)((tick_ns - now) / 1000000 + 1);
    char bytes[64];
    if (poll(&p, 1, ms) > 0 && read(p.fd, bytes, sizeof bytes) > 0 && !atomic_load(&watch.ending))
        tool_progress_tell();
}

static void *wait_for_signals(void *arg)
{
    uint64_t tick_ns = ts_clock_ns() + TICK_MS * UINT64_C(1000000);
    while (!atomic_load(&watch.ending)) {
        wait_until(tick_ns);
        if (ts_clock_ns() < tick_ns || atomic_load(&watch.ending))
            continue;
        tick_ns = ts_clock_ns() + TICK_MS * UINT64_C(1000000);
        tool_progress_tick();
    }
    return arg;
}

void tool_watch_start(void)
{
    struct sigaction act;
    if (watch.running)
        return;
    atomic_store(&watch.ending, 0);
    memset(&act, 0, sizeof act);
    sigemptyset(&act.sa_mask);
    act.sa_flags = SA_RESTART; /* system calls continue after SIGUSR1 */
    act.sa_handler = SIG_IGN;
    if (pipe2(watch.wake, O_CLOEXEC | O_NONBLOCK) == 0) {
        if (ts_thread_new(&watch.thread, wait_for_signals, NULL) == 0) {
            watch.running = 1;
            atomic_store(&wake_fd, watch.wake[1]);
            act.sa_handler = on_signal;
        } else {
            close(watch.wake[0]);
            close(watch.wake[1]);
        }
    }
    sigaction(SIGUSR1, &act, NULL);
}

void tool_watch_end(void)
{
    if (!watch.running)
        return;
    signal(SIGUSR1, SIG_IGN); /* from here on, SIGUSR1 does nothing */
    atomic_store(&watch.ending, 1);
    wake();
    pthread_join(watch.thread, NULL);
    atomic_store(&wake_fd, -1);
    close(watch.wake[0]);
    close(watch.wake[1]);
    watch.running = 0;
}
