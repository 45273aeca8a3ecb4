/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the fit at known cells from the squared residuals that score.h sums in a pass. If cells
 * have weights, a second pass sums the squared residuals of a model of zeros, which are the squared
 * values. */
#include "cpd/judge/known_fit.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/setting.h"
#include "format/arrays/dense.h"
#include "model/kruskal_sums.h"

int ts_known_fit_wanted(const struct ts_tensor *t)
{
    return ts_tensor_weighted(t) || (t->dense != NULL && t->dense->n_unknown > 0);
}

int ts_known_fit_shape(struct ts_kruskal *k, const struct ts_tensor *t, struct ts_err *err)
{
    int rc = 0;
    if (k->order != t->order)
        return ts_fail(err, TS_EARG, "the model has %u modes, %s has %u", k->order, t->path,
                       t->order);
    for (uint32_t m = 0; m < t->order && rc == 0; m++) {
        const struct ts_disk_mode *d = &t->mode[m].disk;
        if (k->dim[m] == d->dim)
            continue;
        if (k->index[m] != NULL ? k->dim[m] > d->dim : k->n_rows[m] != d->n_rows)
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE " of the model has %" PRIu64
                                       " row%s, of the tensor %" PRIu64,
                           m + 1, k->dim[m], ts_num_plural(k->dim[m]), d->dim);
        /* without an index array, the model's rows are those of the tensor's used slices */
        if (k->index[m] == NULL)
            rc = ts_tensor_rows(t, m, &k->index[m], err);
        k->dim[m] = d->dim;
    }
    return rc;
}

/* *ret := the root of the weighted sum of squared residuals at the known cells. */
static int left_of(const struct ts_score_conf *conf, double *ret, struct ts_err *err)
{
    struct ts_score score = { 0 };
    int rc = ts_score_run(conf, &score, err);
    if (rc == 0 && score.all.weight == 0)
        rc = ts_fail(err, TS_EARG, "%s: all weights are 0, so there is no fit", conf->tensor->path);
    if (rc == 0)
        *ret = sqrt(score.all.squares);
    ts_score_free(&score);
    return rc;
}

/* *ret := the norm of the known values, with weights. For a dense tensor the header has it. */
static int known_norm(const struct ts_score_conf *conf, double *ret, struct ts_err *err)
{
    struct ts_score_conf own = *conf;
    double *zero;
    int rc;
    if (!ts_tensor_weighted(conf->tensor)) {
        *ret = conf->tensor->header.norm;
        return 0;
    }
    zero = calloc(conf->model->rank, sizeof *zero);
    if (zero == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for weights");
    own.weight = zero;
    rc = left_of(&own, ret, err);
    free(zero);
    return rc;
}

int ts_known_fit_run(const struct ts_score_conf *conf, struct ts_exact_fit *ret, struct ts_err *err)
{
    const struct ts_kruskal *k = conf->model;
    struct ts_exact_fit f = { 0 };
    int rc = known_norm(conf, &f.norm, err);
    if (rc == 0)
        rc = left_of(conf, &f.residual, err);
    if (rc < 0)
        return rc;
    rc = ts_kruskal_norm(k, conf->threads, conf->stop, &f.model_norm, err);
    if (rc < 0)
        return rc;
    if (f.norm > 0) {
        f.fit = 1 - f.residual / f.norm;
        f.error =
            DBL_EPSILON * (k->rank + k->order) * (f.residual + f.model_norm) / f.norm + DBL_EPSILON;
    } else {
        f.fit = f.residual == 0 ? 1 : -INFINITY;
    }
    *ret = f;
    return 0;
}
