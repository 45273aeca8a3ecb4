/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h - clocks for measuring, in nanoseconds: a monotonic one, and CPU time. */
#ifndef TS_BASE_CLOCK_H
#define TS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns the nanoseconds since some moment before the program started. */
static inline uint64_t ts_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Returns the CPU time of the calling thread in nanoseconds, which other work on the machine does
 * not change. */
static inline uint64_t ts_clock_thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

#endif
