/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets a flag after a while, from a thread. */
#include "tests/support/stop_later.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/stop.h"

static void *ask(void *arg)
{
    struct test_stop *s = arg;
    usleep(s->after_us);
    ts_stop_ask(&s->asked, SIGTERM);
    return NULL;
}

void test_stop_later(struct test_stop *s, uint32_t after_us)
{
    s->asked = 0;
    s->after_us = after_us;
    if (pthread_create(&s->thread, NULL, ask, s) != 0)
        abort();
}

void test_stop_join(struct test_stop *s)
{
    pthread_join(s->thread, NULL);
}
