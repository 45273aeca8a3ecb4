/* SPDX-License-Identifier: BSD-3-Clause */
/* observed.h - what a model is off by at the cells that are listed, those that are held out apart.
 *
 *   threads  one calls; the backend uses its own
 *   errors   0 or a negative ts_code
 *   bits     sums are made by partition and added in the order of the file: they do not depend on threads
 */
#ifndef TS_CPD_OBSERVED_H
#define TS_CPD_OBSERVED_H

#include <stdint.h>

#include "stream/backend.h"

/* Of nonzeros x and the model m there. */
struct ts_observed_sums {
    double n, squares, left; /* how many, of x^2, of (x - m)^2 */
};

/* A weighted pass over `mode`, with the weights inside the factors. */
int ts_observed_errors(const struct ts_backend *backend, void *be, const struct ts_tensor *t,
                       uint32_t mode, struct ts_feed *feed, const struct ts_hold_out *hold_out,
                       struct ts_observed_sums *kept, struct ts_observed_sums *held,
                       struct ts_backend_times *times, struct ts_err *err);

#endif
