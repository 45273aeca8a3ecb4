/* SPDX-License-Identifier: BSD-3-Clause */
/* known_fit.h - computes the fit of a model at known cells alone. The tensor is dense with unknown
 * cells (NaN), or its cells have weights: how often each listed cell was seen.
 *
 *     fit = 1 - sqrt(sum of w (x - m)^2) / sqrt(sum of w x^2)   over the known cells
 *
 * with values x, models m, and weights w, which are 1 in a tensor without weights. A run with
 * `observed` reports the same fit. The sums are those of scores (score.h), in float64, from the
 * residuals themselves, so nothing cancels.
 *
 *   owner    the caller owns all; the backend's factors are of no use afterwards
 *   errors   those of ts_score_run
 *   bits     results do not depend on threads, ranks, memory or order of delivery
 */
#ifndef TS_CPD_KNOWN_FIT_H
#define TS_CPD_KNOWN_FIT_H

#include "cpd/judge/exact_fit.h"
#include "cpd/judge/score.h"

/* Whether the fit of a tensor counts its known cells alone. For a dense tensor the answer is right
 * only after its cells were read. */
int ts_known_fit_wanted(const struct ts_tensor *t);

/* Completes the row indices of the model. If it has a row for each used index of a mode, the
 * tensor's indices are added. If it has indices of its own, the sizes of its modes become those of
 * the tensor. Returns TS_EARG if shapes differ. */
int ts_known_fit_shape(struct ts_kruskal *model, const struct ts_tensor *t, struct ts_err *err);

/* Computes the fit. top, slices and take of conf must be 0. The model's norm in *ret is the norm
 * over all cells. */
int ts_known_fit_run(const struct ts_score_conf *conf, struct ts_exact_fit *ret,
                     struct ts_err *err);

#endif
