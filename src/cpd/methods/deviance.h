/* SPDX-License-Identifier: BSD-3-Clause */
/* deviance.h - the fit of a model by a loss: the share of the deviance that the model explains,
 *
 *     (C - F) / (C - S).
 *
 * F is the sum of the loss over the cells that count, listed or not; C is F of the best model that
 * has one value everywhere, or of a model of zeros where the loss is neither linear in the value
 * nor a term of the value alone apart from that (TS_IN_X_ANY); S is F of the saturated model, which
 * is the best one at each cell.
 *
 *   threads  pure
 *   units    all float64
 *   errors   none
 */
#ifndef TS_CPD_DEVIANCE_H
#define TS_CPD_DEVIANCE_H

#include "stream/loss.h"
#include "stream/weighted.h"

/* C for this number of `cells`: those whose sum is `kept`, and the others, whose value is 0. at:
 * the number that the loss takes, if it takes one. */
double ts_deviance_constant(const struct ts_loss *loss, double at, double cells,
                            const struct ts_cell_losses *kept);

/* The fit of a model whose deviance F is given. If C equals S up to rounding, because all values
 * are equal, the fit is S - F, which is not positive. Without cells the fit is 1. */
double ts_deviance_fit(const struct ts_loss *loss, double at, double cells,
                       const struct ts_cell_losses *kept, double sum);

#endif
