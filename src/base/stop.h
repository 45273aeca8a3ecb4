/* SPDX-License-Identifier: BSD-3-Clause */
/* stop.h - requests of the user to stop: a signal handler sets a number, which long work checks.
 *
 * Long work checks between its steps, so that a program ends within two seconds after Ctrl-C,
 * including the time to undo unfinished work.
 */
#ifndef TS_BASE_STOP_H
#define TS_BASE_STOP_H

#include <signal.h>
#include <stddef.h>

#include "base/err.h"

/* Returns the number of the signal, or 0 if there was none. The access is atomic, because one
 * thread handles the signal and others read the number; it costs no more than a plain read. */
static inline int ts_stop_number(const volatile sig_atomic_t *stop)
{
    return __atomic_load_n(stop, __ATOMIC_RELAXED);
}

static inline void ts_stop_ask(volatile sig_atomic_t *stop, int number)
{
    __atomic_store_n(stop, number, __ATOMIC_RELAXED);
}

/* Whether the user wants to stop. stop NULL: never. */
static inline int ts_stop_asked(const volatile sig_atomic_t *stop)
{
    return stop != NULL && ts_stop_number(stop) != 0;
}

/* Returns 0, or fails with TS_ESTOP if the user wants to stop. */
static inline int ts_stop_check(const volatile sig_atomic_t *stop, struct ts_err *err)
{
    return ts_stop_asked(stop) ? ts_fail(err, TS_ESTOP, "stopped") : 0;
}

#endif
