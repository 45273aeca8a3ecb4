/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.h - whether the threads that a command wants can be had, asked before OpenMP needs them.
 *
 * When libgomp cannot start a thread of a parallel region, or has no memory for one, it prints a line
 * of its own and ends the process, whatever is half made then. So commands ask first: as many threads
 * as will live at one time are started here, with the stack that OpenMP will give its own, and ended.
 * Limits on processes (ulimit -u, a cgroup's pids.max) and on address space (ulimit -v) show so.
 * Others of the same user can still take what was free a moment ago; no program can exclude that.
 *
 *   units    threads, the caller included
 *   threads  any thread; takes a fraction of a millisecond for each thread
 */
#ifndef TS_BASE_THREADS_H
#define TS_BASE_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* How many of `wanted` threads can live at one time, at least 1. When it is fewer than wanted and `why`
 * is not NULL, *why is the errno of the first that could not be started. */
uint32_t ts_threads_possible(uint32_t wanted, int *why);

/* 0, or TS_ENOMEM with a sentence that says how many can be had when it is fewer than wanted. */
int ts_threads_check(uint32_t wanted, struct ts_err *err);

#define TS_MAX_THREADS 1024u /* each has a stack and buffers */

/* How many there are to be: those asked for, which must be possible, or for 0 as many as the machine has
 * CPUs and limits allow. `others` are started beside them. 0, or TS_ENOMEM. */
int ts_threads_get(uint32_t threads, uint32_t others, uint32_t *ret, struct ts_err *err);

/* The stack of OpenMP's threads: what OMP_STACKSIZE or GOMP_STACKSIZE says, 0 for the system's default.
 * Takes the text of such a variable (NULL is fine). */
size_t ts_threads_stack_bytes(const char *text);

#endif
