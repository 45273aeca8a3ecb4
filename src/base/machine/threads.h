/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.h - checks that enough threads can be started, before OpenMP needs them.
 *
 * When libgomp cannot start a thread, or has no memory for one, it prints a line of its own and
 * ends the process, whatever is half made then. So commands check first: as many threads as will
 * exist at one time are started here, with the stack that OpenMP will use, and ended. That finds
 * limits on processes (ulimit -u, a cgroup's pids.max) and on address space (ulimit -v). Other
 * processes of the same user can still take what was free a moment ago; no program can prevent
 * that.
 *
 *   units    threads, the caller included
 *   threads  any thread; takes a fraction of a millisecond for each thread
 */
#ifndef TS_BASE_THREADS_H
#define TS_BASE_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* How many of `wanted` threads can exist at one time, at least 1. When that is fewer than wanted
 * and `why` is not NULL, *why is the errno of the first thread that could not be started. */
uint32_t ts_threads_possible(uint32_t wanted, int *why);

/* 0, or TS_ENOMEM with a sentence that says how many can be started when that is fewer than
 * wanted. */
int ts_threads_check(uint32_t wanted, struct ts_err *err);

#define TS_MAX_THREADS 1024u /* each has a stack and buffers */

/* The number of threads where the user asks for none: OMP_NUM_THREADS, or else the CPUs that this
 * process may use; at most OMP_THREAD_LIMIT and TS_MAX_THREADS. */
uint32_t ts_threads_default(void);

/* Chooses the number of threads: those asked for, which must be possible; for 0, the default or as
 * many as limits allow. `others` threads are started beside them. 0, or TS_ENOMEM, also where
 * their stacks are too small. */
int ts_threads_get(uint32_t threads, uint32_t others, uint32_t *ret, struct ts_err *err);

/* How many of `threads` are worth starting for a parallel region with so many multiply-adds: at
 * least 1. If OMP_NUM_THREADS is set, all of them. The result of a computation does not depend on
 * it. */
uint32_t ts_threads_worth(uint32_t threads, uint64_t multiply_adds);

/* stack of a computing thread, with room to spare */
#define TS_MIN_STACK_BYTES ((size_t)256 << 10)

/* 0, or TS_ENOMEM with a sentence where threads of OpenMP would have a stack below
 * TS_MIN_STACK_BYTES: by OMP_STACKSIZE, or by the limit that the process was started with. */
int ts_threads_check_stack(struct ts_err *err);

/* The stack size of OpenMP's threads, from the text of OMP_STACKSIZE or GOMP_STACKSIZE (NULL is
 * fine); 0: the system's default. */
size_t ts_threads_stack_bytes(const char *text);

#endif
