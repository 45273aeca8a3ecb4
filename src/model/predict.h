/* SPDX-License-Identifier: BSD-3-Clause */
/* predict.h - evaluates a model at any cells.
 *
 *     m(i_1, ..., i_N) = sum over r of  weight_r  A_1(i_1, r) ... A_N(i_N, r)
 *
 * in float64, whatever the precision of the factors. The order of the terms depends on the rank
 * alone, so a cell has the same bits wherever it is in a list.
 *
 *   units    indices from 0, n x order, row-major, each below the model's dim: the caller checks
 *            this
 *   threads  any: the model is only read
 *   errors   none
 */
#ifndef TS_MODEL_PREDICT_H
#define TS_MODEL_PREDICT_H

#include <stdint.h>

#include "model/kruskal.h"

void ts_predict(const struct ts_kruskal *k, uint64_t n, const uint64_t *index, double *ret);

/* Finds the first of n cells with an index outside of the model's dim, and sets *mode. Returns n if
 * there is none. */
uint64_t ts_predict_beyond(const struct ts_kruskal *k, uint64_t n, const uint64_t *index,
                           uint32_t *mode);

/* Counts cells with an index that has no row in the model, or a row of zeros. Such an index was
 * never seen, so the value 0 is not a prediction. value: the results of ts_predict for the n
 * cells. */
uint64_t ts_predict_unseen(const struct ts_kruskal *k, uint64_t n, const uint64_t *index,
                           const double *value);

#endif
