/* SPDX-License-Identifier: BSD-3-Clause */
/* stop.h - the user's wish to stop: a signal handler sets a number, and long work checks it.
 *
 * Long work checks between its steps, so that a program ends within two seconds of Ctrl-C,
 * including what it must undo.
 */
#ifndef TS_BASE_STOP_H
#define TS_BASE_STOP_H

#include <signal.h>
#include <stddef.h>

#include "base/err.h"

/* The number of the signal, 0 when there was none. The access is atomic, because one thread takes
 * the signal and others read; that costs no more than a plain read. */
static inline int ts_stop_number(const volatile sig_atomic_t *stop)
{
    return __atomic_load_n(stop, __ATOMIC_RELAXED);
}

static inline void ts_stop_ask(volatile sig_atomic_t *stop, int number)
{
    __atomic_store_n(stop, number, __ATOMIC_RELAXED);
}

/* stop may be NULL: never. */
static inline int ts_stop_asked(const volatile sig_atomic_t *stop)
{
    return stop != NULL && ts_stop_number(stop) != 0;
}

/* 0, or TS_ESTOP and its sentence. */
static inline int ts_stop_check(const volatile sig_atomic_t *stop, struct ts_err *err)
{
    return ts_stop_asked(stop) ? ts_fail(err, TS_ESTOP, "stopped") : 0;
}

#endif
