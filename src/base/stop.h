/* SPDX-License-Identifier: BSD-3-Clause */
/* stop.h - the user's wish to stop, which a signal's handler leaves for long work to look at.
 *
 * Work that lasts looks between its steps, so that a program ends within two seconds of Ctrl-C, what
 * it must undo included.
 */
#ifndef TS_BASE_STOP_H
#define TS_BASE_STOP_H

#include <signal.h>
#include <stddef.h>

#include "base/err.h"

/* The number that was left, 0 when none was. Atomic, as threads look at what another one, which takes the
 * signal, writes; that costs no more than a plain access. */
static inline int ts_stop_number(const volatile sig_atomic_t *stop)
{
    return __atomic_load_n(stop, __ATOMIC_RELAXED);
}

static inline void ts_stop_ask(volatile sig_atomic_t *stop, int number)
{
    __atomic_store_n(stop, number, __ATOMIC_RELAXED);
}

/* stop: NULL when nobody asks. */
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
