/* SPDX-License-Identifier: BSD-3-Clause */
/* loss_values.h - checks that the values of a tensor are in the range that a loss allows.
 *
 *   threads  one thread calls
 *   errors   TS_EARG names the first cell out of range; errors of reading
 */
#ifndef TS_CPD_LOSS_VALUES_H
#define TS_CPD_LOSS_VALUES_H

#include <signal.h>

#include "format/tensor.h"
#include "stream/loss.h"

int ts_loss_values_check(const struct ts_tensor *t, const struct ts_loss *loss,
                         const volatile sig_atomic_t *stop, struct ts_err *err);

#endif
