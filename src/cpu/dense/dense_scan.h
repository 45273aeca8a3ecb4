/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_scan.h - computes in one pass over the cells of a dense tensor the figures that the index
 * of a sparse tensor has.
 *
 * The norm, the smallest and the largest value and a hash of shape and cells are stored in the
 * tensor, once. Unknown cells (NaN) are left out of them and counted. Infinite cells are refused,
 * and the message names the first one.
 *
 *   threads  one calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code: TS_EFORMAT if a cell is infinite or all are unknown, that of
 *            a failed read, or TS_ESTOP
 *   bits     do not depend on threads, nor on the budget of the feed
 */
#ifndef TS_CPU_DENSE_SCAN_H
#define TS_CPU_DENSE_SCAN_H

#include "stream/feed/feed.h"

/* Computes norm, range, hash and number of unknown cells, and stores them in the tensor. Does
 * nothing if the tensor has all of them already. */
int ts_dense_scan(const struct ts_tensor *t, struct ts_feed *feed, uint32_t threads,
                  struct ts_err *err);

/* Like ts_dense_scan, with a small feed of its own, for callers that need the hash before a run
 * exists. */
int ts_dense_scan_alone(const struct ts_tensor *t, uint32_t threads,
                        const volatile sig_atomic_t *stop, struct ts_err *err);

/* Like ts_dense_scan_alone. It also fills in the checksums of an index
 * (format/arrays/array_index.h), which is allocated already. */
int ts_dense_scan_sums(const struct ts_tensor *t, uint32_t threads,
                       const volatile sig_atomic_t *stop, struct ts_err *err);

#endif
