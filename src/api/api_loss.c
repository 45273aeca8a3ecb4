/* SPDX-License-Identifier: BSD-3-Clause */
/* Losses by name. */
#include <string.h>

#include "api/api.h"
#include "api/api_session.h"

static const char *const first[] = {
    [TS_LOSS_LEAST_SQUARES] = "least-squares", [TS_LOSS_POISSON] = "poisson"
};

const char *ts_loss_name(int loss)
{
    if (!ts_api_is_loss(loss))
        return NULL;
    return loss <= TS_LOSS_POISSON ? first[loss] : ts_loss_of(ts_api_gcp(loss))->name;
}

const char *ts_loss_number(int loss)
{
    const enum ts_loss_kind kind = ts_api_is_loss(loss) ? ts_api_gcp(loss) : TS_GCP_NONE;
    return ts_loss_takes_number(kind) ? ts_loss_of(kind)->number + 1 : NULL;
}

int ts_loss_named(const char *text, int *loss, double *loss_at, ts_error *err)
{
    enum ts_loss_kind kind;
    struct ts_api a;
    double at = 0;
    int rc = 0, ret;
    ts_api_begin(&a);
    for (ret = TS_LOSS_LEAST_SQUARES; ret <= TS_LOSS_POISSON; ret++)
        if (strcmp(text, first[ret]) == 0)
            break;
    if (ret > TS_LOSS_POISSON) {
        rc = ts_loss_parse(text, &kind, &at, &a.err);
        ret = rc == 0 ? TS_LOSS_POISSON + (int)kind : ret;
    }
    if (rc == 0) {
        *loss = ret;
        *loss_at = at;
    }
    return ts_api_end(&a, rc, err);
}
