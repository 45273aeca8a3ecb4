/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts threads only to see whether they can be started, and keeps all of them until the last has
 * started. */
#include "base/threads.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/setting.h"

size_t ts_threads_stack_bytes(const char *text)
{
    unsigned long long n;
    uint32_t shift = 10; /* a bare number is KiB */
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

/* Attributes as OpenMP sets them. */
static int init_attr(pthread_attr_t *attr)
{
    const char *text = getenv("OMP_STACKSIZE");
    const size_t stack = ts_threads_stack_bytes(text != NULL ? text : getenv("GOMP_STACKSIZE"));
    const int rc = pthread_attr_init(attr);
    if (rc == 0 &&
        stack > 0) /* a size that is too small is refused; libgomp then takes the default, as we
                    * do */
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

int ts_threads_get(uint32_t threads, uint32_t others, uint32_t *ret, struct ts_err *err)
{
    struct ts_machine machine;
    uint32_t n;
    if (threads > 0) {
        *ret = threads;
        return ts_threads_check(threads + others, err);
    }
    ts_machine_get(&machine);
    n = machine.cpus < TS_MAX_THREADS ? machine.cpus : TS_MAX_THREADS;
    n = ts_threads_possible(n + others, NULL);
    *ret = n > others ? n - others : 1;
    return 0;
}
