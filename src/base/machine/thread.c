/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts a helper thread with a small stack and all signals blocked. */
#include "base/machine/thread.h"

#include <signal.h>
#include <stddef.h>

#define STACK_BYTES ((size_t)256 << 10)

int ts_thread_new(pthread_t *ret, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int rc = pthread_attr_init(&attr);
    if (rc != 0)
        return rc;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(ret, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}
