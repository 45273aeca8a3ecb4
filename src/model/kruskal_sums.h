/* SPDX-License-Identifier: BSD-3-Clause */
/* kruskal_sums.h - sums over all rows or all cells of a decomposition in memory.
 *
 * Columns are scaled by powers of 2 while they are summed. So numbers whose squares leave the range
 * of float64 are possible, like 1e200 in one mode and 1e-200 in another.
 *
 *   owner    the caller owns all
 *   units    float64
 *   threads  rows of a Gram matrix, or groups of columns, are divided among `threads` (0: all CPUs)
 *   errors   0 or a negative ts_code: TS_ELIMIT if a result leaves the range of float64, TS_ENOMEM,
 *            TS_ESTOP (checked after every MiB of rows); on failure results are undefined
 *   bits     each sum is made in the order of the rows: results do not depend on threads
 */
#ifndef TS_MODEL_KRUSKAL_SUMS_H
#define TS_MODEL_KRUSKAL_SUMS_H

#include <signal.h>
#include <stdint.h>

#include "model/kruskal.h"

/* gram := the Gram matrix of the mode's columns, rank x rank, both triangles. Column r is
 * multiplied by 2^-exponent[r], so that its largest entry is in [0.5, 1). exponent is 0 for a
 * column of zeros. */
int ts_kruskal_gram(const struct ts_kruskal *k, uint32_t mode, uint32_t threads,
                    const volatile sig_atomic_t *stop, double *gram, int *exponent,
                    struct ts_err *err);

/* *ret := the norm of the model, the root of the sum of its squared values over all cells. Digits
 * are lost if components cancel. */
int ts_kruskal_norm(const struct ts_kruskal *k, uint32_t threads, const volatile sig_atomic_t *stop,
                    double *ret, struct ts_err *err);

/* *ret := the sum of the model's values over all cells; infinite or NaN if it leaves the range of
 * float64. */
int ts_kruskal_total(const struct ts_kruskal *k, uint32_t threads,
                     const volatile sig_atomic_t *stop, double *ret, struct ts_err *err);

#endif
