/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts threads to test whether enough can be started. Each of them waits until the last one has
 * started. */
#include "base/machine/threads.h"

#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/machine.h"
#include "base/num.h"
#include "base/setting.h"

size_t ts_threads_stack_bytes(const char *text)
{
    unsigned long long n;
    uint32_t shift = 10; /* a number without a unit counts KiB */
    char *end;
    if (text == NULL)
        return 0;
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9')
        return 0;
    errno = 0;
    n = strtoull(text, &end, 10);
    end += strspn(end, " \t");
    if (*end != '\0') {
        const char *const units = "bBkKmMgG", *unit = strchr(units, *end);
        if (unit == NULL)
            return 0;
        shift = 10 * (uint32_t)((unit - units) / 2);
        end++;
        end += strspn(end, " \t");
    }
    if (*end != '\0' || errno != 0 || n > SIZE_MAX >> shift >> 1)
        return 0;
    return (size_t)n << shift;
}

static void *wait_for_end(void *arg)
{
    pthread_mutex_t *all_made = arg;
    pthread_mutex_lock(all_made);
    pthread_mutex_unlock(all_made);
    return NULL;
}

/* Sets the attributes of a thread as OpenMP does. */
static int init_attr(pthread_attr_t *attr)
{
    const char *text = getenv("OMP_STACKSIZE");
    const size_t stack = ts_threads_stack_bytes(text != NULL ? text : getenv("GOMP_STACKSIZE"));
    const int rc = pthread_attr_init(attr);
    if (rc == 0 &&
        stack >
            0) /* like libgomp, refuses a size that is too small, and uses the default */
        (void)pthread_attr_setstacksize(attr, stack);
    return rc;
}

uint32_t ts_threads_possible(uint32_t wanted, int *why)
{
    pthread_mutex_t all_made = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *thread = wanted > 1 ? malloc((wanted - 1) * sizeof *thread) : NULL;
    pthread_attr_t attr;
    sigset_t all, before;
    uint32_t n = 0;
    int rc = wanted > 1 && thread == NULL ? ENOMEM : wanted > 1 ? init_attr(&attr) : 0;
    if (wanted <= 1)
        return 1;
    if (rc == 0) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_mutex_lock(&all_made);
        for (; n < wanted - 1 && rc == 0; n += rc == 0)
            rc = pthread_create(&thread[n], &attr, wait_for_end, &all_made);
        pthread_mutex_unlock(&all_made);
        for (uint32_t k = 0; k < n; k++)
            pthread_join(thread[k], NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
    }
    free(thread);
    if (rc != 0 && why != NULL)
        *why = rc;
    return n + 1;
}

int ts_threads_check(uint32_t wanted, struct ts_err *err)
{
    int why = 0;
    const uint32_t n = ts_threads_possible(wanted, &why);
    if (n >= wanted)
        return 0;
    errno = why;
    return ts_fail_errno(err, TS_ENOMEM,
                         "only %u of %u threads can be started (take fewer " TS_SET_THREADS ", or "
                         "raise ulimit -u or -v)",
                         n, wanted);
}

uint32_t ts_threads_default(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    const int limit = omp_get_thread_limit();
    struct ts_machine machine;
    uint32_t n;
    ts_machine_get(&machine);
    n = text != NULL && *text != '\0' ? (uint32_t)omp_get_max_threads() : machine.cpus;
    if (limit > 0 && n > (uint32_t)limit)
        n = (uint32_t)limit;
    return n < 1 ? 1 : n < TS_MAX_THREADS ? n : TS_MAX_THREADS;
}

/* Number of multiply-adds for which one more thread is started. On idle cores a second thread saves
 * time from a fifth of this number on. On busy cores, each thread of a region may have to wait for
 * milliseconds: 16 threads took 2.3 times as long as one for a region of 3 million
 * multiply-adds. */
#define WORTH_A_THREAD (UINT64_C(1) << 20)

uint32_t ts_threads_worth(uint32_t threads, uint64_t multiply_adds)
{
    const char *text = getenv("OMP_NUM_THREADS");
    const uint64_t n = 1 + multiply_adds / WORTH_A_THREAD;
    return n < threads && (text == NULL || *text == '\0') ? (uint32_t)n : threads;
}

int ts_threads_check_stack(struct ts_err *err)
{
    pthread_attr_t attr;
    char found[TS_NUM_CHARS], least[TS_NUM_CHARS];
    size_t bytes = 0;
    const char *name = getenv("OMP_STACKSIZE") != NULL ? "OMP_STACKSIZE" : "GOMP_STACKSIZE";
    const size_t asked = ts_threads_stack_bytes(getenv(name));
    if (init_attr(&attr) != 0)
        return 0;
    pthread_attr_getstacksize(&attr, &bytes);
    pthread_attr_destroy(&attr);
    if (bytes >= TS_MIN_STACK_BYTES)
        return 0;
    ts_num_bytes(found, bytes);
    ts_num_bytes(least, TS_MIN_STACK_BYTES);
    if (asked == bytes)
        return ts_fail(
            err, TS_ENOMEM,
            "%s gives each thread a stack of %s, and %s are needed: raise it or unset it", name,
            found, least);
    return ts_fail(err, TS_ENOMEM,
                   "the stack of a thread is limited to %s, and %s are needed: raise ulimit -s, "
                   "or set OMP_STACKSIZE",
                   found, least);
}

int ts_threads_get(uint32_t threads, uint32_t others, uint32_t *ret, struct ts_err *err)
{
    uint32_t n;
    int rc = ts_threads_check_stack(err);
    if (rc < 0)
        return rc;
    if (threads > 0) {
        *ret = threads;
        return ts_threads_check(threads + others, err);
    }
    n = ts_threads_possible(ts_threads_default() + others, NULL);
    *ret = n > others ? n - others : 1;
    return 0;
}
