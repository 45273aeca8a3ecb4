/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the values of a tensor against a loss: the least and the largest value, which the tensor's
 * index has, and each value if these two do not decide it. */
#include "cpd/methods/loss_values.h"

#include <inttypes.h>
#include <stdio.h>

#include "format/walk.h"

struct search {
    const struct ts_tensor *tensor;
    const struct ts_loss *loss;
};

/* Fails with TS_EARG at the first value that the loss does not allow. Indices in the message count
 * as in the input. */
static int refuse(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index,
                  const double *value, struct ts_err *err)
{
    const struct search *s = ctx;
    const uint32_t order = s->tensor->order;
    char where[TS_MAX_ORDER * 24] = "";
    (void)thread;
    for (uint64_t i = 0; i < n; i++) {
        size_t at = 0;
        if (s->loss->allows(value[i]))
            continue;
        for (uint32_t m = 0; m < order; m++)
            at += (size_t)snprintf(where + at, sizeof where - at, "%s%" PRIu64, m > 0 ? ", " : "",
                                   index[i * order + m] + ts_tensor_base(s->tensor));
        return ts_fail(err, TS_EARG, "%s: the value at (%s) is %g: loss %s is for %s",
                       s->tensor->path, where, value[i], s->loss->name, s->loss->values);
    }
    return 0;
}

int ts_loss_values_check(const struct ts_tensor *t, const struct ts_loss *loss,
                         const volatile sig_atomic_t *stop, struct ts_err *err)
{
    struct search search = { t, loss };
    const double least = t->header.value_min, most = t->header.value_max;
    /* whether the loss allows the value halfway between the smallest and the largest one */
    const int between = loss->allows(least / 2 + most / 2);
    struct ts_walk walk;
    int rc;
    if (t->nnz == 0 || (loss->allows(least) && loss->allows(most) && (between || least == most)))
        return 0;
    rc = ts_walk_open(t, 0, &walk, err);
    if (rc < 0)
        return rc;
    walk.here = 1; /* checks only the shards of this rank (process): other ranks check theirs */
    rc = ts_walk_all(&walk, 1, refuse, &search, stop, err);
    ts_walk_close(&walk);
    return rc;
}
