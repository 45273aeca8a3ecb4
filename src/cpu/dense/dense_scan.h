/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_scan.h - one pass over the cells of a dense tensor, for what a directory of shards has in
 * its index.
 *
 * The norm, the least and the greatest value and a hash of shape and cells go into the tensor,
 * once. Unknown cells, which are NaN, are left out of them and counted. Infinite ones are refused,
 * and the first one is named.
 *
 *   threads  one calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code: TS_EFORMAT where a cell is infinite or all are unknown, what
 *            reading finds, TS_ESTOP
 *   bits     do not depend on threads, nor on the budget of the feed
 */
#ifndef TS_CPU_DENSE_SCAN_H
#define TS_CPU_DENSE_SCAN_H

#include "stream/feed/feed.h"

/* Once is enough: where the tensor knows all of it, nothing is read. */
int ts_dense_scan(const struct ts_tensor *t, struct ts_feed *feed, uint32_t threads,
                  struct ts_err *err);

/* The same with a feed of its own, which is small: where the hash is wanted before there is a
 * run. */
int ts_dense_scan_alone(const struct ts_tensor *t, uint32_t threads,
                        const volatile sig_atomic_t *stop, struct ts_err *err);

/* The same, which fills in the checksums of an index (format/arrays/array_index.h), for which there
 * is room. */
int ts_dense_scan_sums(const struct ts_tensor *t, uint32_t threads,
                       const volatile sig_atomic_t *stop, struct ts_err *err);

#endif
