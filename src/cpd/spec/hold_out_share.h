/* SPDX-License-Identifier: BSD-3-Clause */
/* hold_out_share.h - reads "20%" as a share of nonzeros that are held out, and "fold 2/5" as the
 * second fifth.
 *
 *   errors   TS_EARG unless the share is above 0 and below 1
 */
#ifndef TS_CPD_HOLD_OUT_SHARE_H
#define TS_CPD_HOLD_OUT_SHARE_H

#include <stdint.h>

#include "base/err.h"

/* Reads a share or a fold. *from: the share of all folds before this one; 0 if the text is not a
 * fold. */
int ts_hold_out_part(const char *text, double *share, double *from, struct ts_err *err);

/* Writes fold number `fold` of n, in the form that ts_hold_out_part reads. */
#define TS_HOLD_OUT_CHARS 40
void ts_hold_out_fold(uint32_t fold, uint32_t n, char ret[TS_HOLD_OUT_CHARS]);

#endif
