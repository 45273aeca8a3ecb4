/* SPDX-License-Identifier: BSD-3-Clause */
/* hold_out_share.h - "20%" as a share of nonzeros that are held out, and "fold 2/5" as the second
 * fifth.
 *
 *   errors   TS_EARG for what is no share above 0 and below 1
 */
#ifndef TS_CPD_HOLD_OUT_SHARE_H
#define TS_CPD_HOLD_OUT_SHARE_H

#include <stdint.h>

#include "base/err.h"

/* A share, or a fold, which begins behind those before it: *from. */
int ts_hold_out_part(const char *text, double *share, double *from, struct ts_err *err);

/* A fold as ts_hold_out_part reads it. */
#define TS_HOLD_OUT_CHARS 40
void ts_hold_out_fold(uint32_t fold, uint32_t n, char ret[TS_HOLD_OUT_CHARS]);

#endif
