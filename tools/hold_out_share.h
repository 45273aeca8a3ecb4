/* SPDX-License-Identifier: BSD-3-Clause */
/* hold_out_share.h - "20%" as a share of nonzeros that are held out.
 *
 *   errors   TS_EARG for what is no share above 0 and below 1
 */
#ifndef TS_TOOLS_HOLD_OUT_SHARE_H
#define TS_TOOLS_HOLD_OUT_SHARE_H

#include "api/tools.h"

int hold_out_share(const char *text, double *ret, struct ts_err *err);

#endif
