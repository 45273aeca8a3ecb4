/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h - helper threads that wait, read or write, but do not compute.
 *
 *   owner    the caller joins the thread
 *   errors   an errno, or 0
 */
#ifndef TS_BASE_THREAD_H
#define TS_BASE_THREAD_H

#include <pthread.h>

/* Starts `run` with a stack of 256 KiB (limits on address space count all of a stack) and with all
 * signals blocked: signals are for the program's own threads, and must not interrupt reads and
 * writes here. */
int ts_thread_new(pthread_t *ret, void *(*run)(void *), void *arg);

#endif
