/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares of nonzeros, as people write them. */
#include "tools/hold_out_share.h"

#include <string.h>

int hold_out_share(const char *text, double *ret, struct ts_err *err)
{
    char *end = NULL;
    double share = ts_strtod(text, &end);
    if (end != text && strcmp(end, "%") == 0) {
        share /= 100;
        end++;
    }
    if (end == text || *end != '\0' || !(share > 0 && share < 1))
        return ts_fail(err, TS_EARG, "--hold-out %s: expected a share like 20%% or 0.2", text);
    *ret = share;
    return 0;
}
