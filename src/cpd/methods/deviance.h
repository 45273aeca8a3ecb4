/* SPDX-License-Identifier: BSD-3-Clause */
/* deviance.h - computes the fit of a model by a loss: the share of the deviance that the model
 * explains,
 *
 *     (C - F) / (C - S).
 *
 * F is the sum of the loss over all cells that count, listed or not. C is the sum for the best
 * constant model, which has one value everywhere. If the loss is TS_IN_X_ANY, neither linear in the
 * value nor linear plus a term of the value alone, C is the sum for a model of zeros. S is the sum
 * for the saturated model, which is the best one at each cell.
 *
 *   threads  any thread; pure functions
 *   units    all float64
 *   errors   none
 */
#ifndef TS_CPD_DEVIANCE_H
#define TS_CPD_DEVIANCE_H

#include "stream/loss.h"
#include "stream/weighted.h"

/* Returns S, the sum of the loss for the saturated model, over the cells of `kept`. The sum F of
 * another model is never below it, except by rounding or, if unlisted cells are sampled, by the
 * error of the estimate. */
double ts_deviance_least(const struct ts_loss *loss, const struct ts_cell_losses *kept);

/* Computes C, the sum of the loss for the best constant model, over `cells` cells. `kept` has the
 * sums of the listed cells; the other cells have the value 0. at: the parameter of the loss, if it
 * has one. */
double ts_deviance_constant(const struct ts_loss *loss, double at, double cells,
                            const struct ts_cell_losses *kept);

/* Returns the fit of a model whose sum F of the loss is `sum`. If the constant model is as good as
 * the saturated one up to rounding (C = S), because all values are equal, the fit is S - F, which
 * is not positive. Without cells the fit is 1. */
double ts_deviance_fit(const struct ts_loss *loss, double at, double cells,
                       const struct ts_cell_losses *kept, double sum);

#endif
