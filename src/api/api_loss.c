/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds losses by their names. */
#include <string.h>

#include "api/api.h"
#include "api/api_session.h"
#include "stream/loss_functions.h"

/* Least squares and Poisson are numbers 0 and 1 of tstream.h. The losses of generalized CP follow,
 * in the order of losses.def. */
_Static_assert(
    (int)TS_LOSS_BERNOULLI == TS_LOSS_POISSON + (int)TS_GCP_BERNOULLI &&
        (int)TS_LOSS_BERNOULLI_LOGIT == TS_LOSS_POISSON + (int)TS_GCP_BERNOULLI_LOGIT &&
        (int)TS_LOSS_GAMMA == TS_LOSS_POISSON + (int)TS_GCP_GAMMA &&
        (int)TS_LOSS_POISSON_LOG == TS_LOSS_POISSON + (int)TS_GCP_POISSON_LOG &&
        (int)TS_LOSS_HUBER == TS_LOSS_POISSON + (int)TS_GCP_HUBER,
    "rows of losses.def have the places that tstream.h and states know; add rows at the end");

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
    const int kind = ts_api_is_loss(loss) ? ts_api_gcp(loss) : TS_GCP_NONE;
    return ts_loss_takes_number(kind) ? ts_loss_of(kind)->number + 1 : NULL;
}

int ts_loss_named(const char *text, int *loss, double *loss_at, ts_error *err)
{
    int kind;
    struct ts_api a;
    double at = 0;
    int rc = 0, ret;
    ts_api_begin(&a);
    for (ret = TS_LOSS_LEAST_SQUARES; ret <= TS_LOSS_POISSON; ret++)
        if (strcmp(text, first[ret]) == 0)
            break;
    if (ret > TS_LOSS_POISSON) {
        rc = ts_loss_parse(text, &kind, &at, &a.err);
        ret = rc == 0 ? TS_LOSS_POISSON + kind : ret;
    }
    if (rc == 0) {
        *loss = ret;
        *loss_at = at;
    }
    return ts_api_end(&a, rc, err);
}
