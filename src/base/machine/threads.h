/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.h - checks that enough threads can be started, before OpenMP needs them.
 *
 * If libgomp cannot start a thread, or has no memory for one, it prints a message and ends the
 * process, even in the middle of work. So commands check first: as many threads as will exist at
 * one time are started here, with the stack that OpenMP will use, and ended. That finds limits on
 * processes (ulimit -u, a cgroup's pids.max) and on address space (ulimit -v). Other processes of
 * the same user may take the free threads afterwards, which no program can prevent.
 *
 *   units    threads, including the caller
 *   threads  any thread; takes a fraction of a millisecond for each thread
 */
#ifndef TS_BASE_THREADS_H
#define TS_BASE_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Returns how many of `wanted` threads can exist at the same time, at least 1. If that is fewer
 * than wanted, *why (unless NULL) is the errno of the first thread that could not be started. */
uint32_t ts_threads_possible(uint32_t wanted, int *why);

/* Returns 0, or TS_ENOMEM with the number of threads that can be started if that is fewer than
 * wanted. */
int ts_threads_check(uint32_t wanted, struct ts_err *err);

#define TS_MAX_THREADS 1024u /* a limit, since each thread has a stack and buffers */

/* Returns the number of threads if the user does not choose one: OMP_NUM_THREADS, or else the CPUs
 * that this process may use; at most OMP_THREAD_LIMIT and TS_MAX_THREADS. */
uint32_t ts_threads_default(void);

/* Chooses the number of threads. If `threads` is not 0, it is this number, which must be possible.
 * Otherwise it is the default, or fewer if limits require that. others: number of threads that are
 * started in addition. Returns 0, or TS_ENOMEM, also if stacks are too small. */
int ts_threads_get(uint32_t threads, uint32_t others, uint32_t *ret, struct ts_err *err);

/* Returns how many of `threads` are worth starting for a parallel region with so many
 * multiply-adds: at least 1, or all if OMP_NUM_THREADS is set. Results do not depend on the
 * number. */
uint32_t ts_threads_worth(uint32_t threads, uint64_t multiply_adds);

/* bytes of stack that a computing thread needs, generously */
#define TS_MIN_STACK_BYTES ((size_t)256 << 10)

/* Returns 0, or TS_ENOMEM if threads of OpenMP would have a stack below TS_MIN_STACK_BYTES, because
 * of OMP_STACKSIZE or of the limit with which the process was started. */
int ts_threads_check_stack(struct ts_err *err);

/* Returns the stack size of OpenMP's threads, from the text of OMP_STACKSIZE or GOMP_STACKSIZE (may
 * be NULL); 0: the system's default. */
size_t ts_threads_stack_bytes(const char *text);

#endif
