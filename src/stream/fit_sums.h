/* SPDX-License-Identifier: BSD-3-Clause */
/* fit_sums.h - sums that a model is judged by, of errors or of a loss, from the model's value at
 * each nonzero: for a backend whose pass lends these values (request CELLS) and that is asked for
 * ERRORS or LOSSES.
 *
 * Each partition has its part, cells that are held out apart, and parts are added in the order of
 * the file.
 *
 *   owner    whoever calls ts_fit_sums_begin owns the parts until ts_fit_sums_end
 *   threads  one calls; inside the pass, a partition is one thread's
 *   errors   TS_ENOMEM
 *   bits     sums do not depend on threads
 */
#ifndef TS_STREAM_FIT_SUMS_H
#define TS_STREAM_FIT_SUMS_H

#include "format/tensor.h"
#include "stream/request.h"

struct ts_fit_part;

struct ts_fit_sums {
    const struct ts_request *request; /* ERRORS or LOSSES */
    struct ts_hold_out hold_out;
    uint32_t order;
    uint64_t n;
    struct ts_fit_part *part; /* n; NULL: nothing is held */
    struct ts_weighted cells; /* what is to be asked for instead */
};

/* Of a pass over `mode`. The request and *ret stay where they are until ts_fit_sums_end. */
int ts_fit_sums_begin(const struct ts_tensor *t, uint32_t mode, const struct ts_request *request,
                      struct ts_fit_sums *ret, struct ts_err *err);

/* The pass is over: adds the parts to the request's sums, unless rc is negative. One of zeros is
 * fine. */
void ts_fit_sums_end(struct ts_fit_sums *s, int rc);

/* Memory that it takes, in a pass over the last mode. */
uint64_t ts_fit_sums_bytes(const struct ts_tensor *t);

#endif
