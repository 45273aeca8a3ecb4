/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h - a thread beside those that compute: it waits, reads or writes.
 *
 *   owner    the caller joins it
 *   errors   an errno, or 0
 */
#ifndef TS_BASE_THREAD_H
#define TS_BASE_THREAD_H

#include <pthread.h>

/* Starts `run` with 256 KiB of stack (limits on address space count all of it) and no signals: they are
 * for the threads of the program, and must not interrupt what this one reads or writes. */
int ts_thread_new(pthread_t *ret, void *(*run)(void *), void *arg);

#endif
