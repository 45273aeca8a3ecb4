/* SPDX-License-Identifier: BSD-3-Clause */
/* fit_sums.h - computes sums of errors or of a loss from the model's value at each nonzero. A
 * backend with a pass of CELLS uses it for the requests ERRORS and LOSSES.
 *
 * Each partition (a fixed part of the nonzeros of a shard) has its own sums, and separate sums for
 * held-out cells. The sums of partitions are added in the order of the file.
 *
 *   owner    the struct owns the parts from ts_fit_sums_begin to ts_fit_sums_end
 *   threads  called by one thread; inside the pass, each partition belongs to one thread
 *   errors   TS_ENOMEM
 *   bits     sums do not depend on threads
 */
#ifndef TS_STREAM_FIT_SUMS_H
#define TS_STREAM_FIT_SUMS_H

#include "format/tensor.h"
#include "stream/request.h"

struct ts_fit_part;

struct ts_fit_sums {
    const struct ts_request *request; /* of kind ERRORS or LOSSES */
    struct ts_hold_out hold_out;
    uint32_t order;
    uint64_t n;
    struct ts_fit_part *part; /* the sums of each partition; NULL: not allocated */
    /* goes into the request CELLS, which computes the sums of `request` */
    struct ts_weighted cells;
};

/* Begins the sums for a pass over `mode`. The request and *ret must stay valid until
 * ts_fit_sums_end. */
int ts_fit_sums_begin(const struct ts_tensor *t, uint32_t mode, const struct ts_request *request,
                      struct ts_fit_sums *ret, struct ts_err *err);

/* To be called after the pass, whose result is rc. Adds the sums of all partitions to the sums that
 * the request points to, unless rc is negative. s may be all zero. */
void ts_fit_sums_end(struct ts_fit_sums *s, int rc);

/* Returns the bytes that ts_fit_sums_begin allocates for a pass over the last mode. */
uint64_t ts_fit_sums_bytes(const struct ts_tensor *t);

#endif
