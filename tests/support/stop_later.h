/* SPDX-License-Identifier: BSD-3-Clause */
/* stop_later.h - a user's wish to stop that comes in the middle of what a test does.
 *
 *   owner    the caller; join before it goes
 *   threads  a thread of its own sets `asked`
 */
#ifndef TS_TESTS_STOP_LATER_H
#define TS_TESTS_STOP_LATER_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

struct test_stop {
    volatile sig_atomic_t asked;
    uint32_t after_us;
    pthread_t thread;
};

/* s->asked is 0, and a signal's number some after_us microseconds later. */
void test_stop_later(struct test_stop *s, uint32_t after_us);
void test_stop_join(struct test_stop *s);

#endif
