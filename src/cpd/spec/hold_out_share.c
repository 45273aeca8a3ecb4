/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads shares of nonzeros from text: "20%", "0.2" or "fold 2/5". */
#include "cpd/spec/hold_out_share.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/setting.h"

static int read_share(const char *text, double *ret, struct ts_err *err)
{
    char *end = NULL;
    double share = ts_strtod(text, &end);
    if (end != text && strcmp(end, "%") == 0) {
        share /= 100;
        end++;
    }
    if (end == text || *end != '\0' || !(share > 0 && share < 1))
        return ts_fail(err, TS_EARG,
                       TS_SET_OPTION("hold-out") " %s: expected a share like 20%% or 0.2", text);
    *ret = share;
    return 0;
}

void ts_hold_out_fold(uint32_t fold, uint32_t n, char ret[TS_HOLD_OUT_CHARS])
{
    snprintf(ret, TS_HOLD_OUT_CHARS, "fold %" PRIu32 "/%" PRIu32, fold, n);
}

int ts_hold_out_part(const char *text, double *share, double *from, struct ts_err *err)
{
    char again[TS_HOLD_OUT_CHARS], *end;
    unsigned long fold, n = 0;
    *from = 0;
    if (strncmp(text, "fold", 4) != 0)
        return read_share(text, share, err);
    /* strtoul accepts leading blanks; the comparison with `again` below rejects them */
    fold = strtoul(text + 4, &end, 10);
    if (*end == '/')
        n = strtoul(end + 1, NULL, 10);
    if (n > 1 && n <= UINT32_MAX && fold > 0 && fold <= n) {
        ts_hold_out_fold((uint32_t)fold, (uint32_t)n, again);
        if (strcmp(text, again) == 0) {
            *share = 1.0 / (double)n;
            *from = (double)(fold - 1) / (double)n;
            return 0;
        }
    }
    return ts_fail(err, TS_EARG, TS_SET_OPTION("hold-out") " %s: expected a fold like fold 2/5",
                   text);
}
