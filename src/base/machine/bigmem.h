/* SPDX-License-Identifier: BSD-3-Clause */
/* bigmem.h - large blocks of memory: factor matrices, slots for shards, sort buffers.
 *
 * They come directly from the kernel, so freed memory is returned at once, and the peak is the sum
 * of the blocks in use. Blocks of TS_BIGMEM_HUGE or more are aligned to it and use transparent huge
 * pages: otherwise each access to a random row of a large factor costs a TLB miss.
 *
 *   owner    the caller of new frees the block, with the same size
 *   units    bytes; zero-filled; at least TS_BIGMEM_SLACK readable bytes after the end
 *   threads  any thread; pages belong to the NUMA node of the thread that first writes them
 *   errors   0 or TS_ENOMEM; on failure *ret is not touched
 */
#ifndef TS_BASE_BIGMEM_H
#define TS_BASE_BIGMEM_H

#include <stddef.h>

#include "base/err.h"

#define TS_BIGMEM_HUGE  ((size_t)2 << 20)
#define TS_BIGMEM_SLACK ((size_t)256)

/* Allocates a block. purpose: its name in messages, such as "factor matrix of mode 2". */
int ts_bigmem_new(size_t bytes, const char *purpose, void **ret, struct ts_err *err);
void ts_bigmem_free(void *addr, size_t bytes); /* addr may be NULL */

/* Returns the bytes that ts_bigmem_new takes for a block, including slack and rounding. For
 * budgets. */
size_t ts_bigmem_cost(size_t bytes);

#endif
