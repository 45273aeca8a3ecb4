/* SPDX-License-Identifier: BSD-3-Clause */
/* Fits models to the listed cells alone, because the unlisted cells are unknown. The pass over a
 * mode solves each row with a Gram matrix of its own. A pass after the last mode sums the errors,
 * those at held-out cells separately. If the mean of the values is subtracted, a pass of this kind
 * before the first sweep computes it, and the factors fit the values minus the mean.
 *
 *   bits     sums are made by partition and added in the order of the file: they do not depend on
 *            threads
 */
#include <math.h>
#include <string.h>

#include "cpd/solver/solver_struct.h"

struct observed {
    /* errors after the last mode, at cells that are fitted and at held-out cells */
    struct ts_cell_errors kept, held;
    struct ts_error_sums sums; /* sums of the pass that computes `kept` and `held` */
    double mean;               /* the mean that is subtracted from the values; 0 for none */
};

/* ---- the mean of the values ---- */

/* Computes the mean of the values before the first sweep, if the specification asks to subtract it.
 * The sum of the values does not depend on the factors. */
static int start(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    struct ts_request request = { .be = c->be };
    struct observed *own = a->own;
    int rc;
    if (!a->spec->mean)
        return 0;
    a->product = a->order - 1;
    ts_solver_request_errors(a, 0, &own->sums, &request);
    rc = ts_solver_pass(a, &request, err);
    if (rc < 0)
        return rc;
    own->kept = own->sums.kept;
    own->held = own->sums.held;
    own->mean = own->kept.n > 0 ? own->kept.sum / own->kept.n : 0;
    return 0;
}

static void save(const struct ts_solver *a, struct ts_state *s)
{
    const struct observed *own = a->own;
    if (a->spec->mean)
        memcpy(&s->part[TS_PART_MEAN], &own->mean, sizeof own->mean);
}

static int restore(struct ts_solver *a, const struct ts_state *s, struct ts_err *err)
{
    struct observed *own = a->own;
    if (a->spec->mean)
        memcpy(&own->mean, &s->part[TS_PART_MEAN], sizeof own->mean);
    return isfinite(own->mean) ? 0
                               : ts_fail(err, TS_EFORMAT, "%s: the mean of the cells is no number",
                                         ts_state_path(a->conf->from));
}

/* ---- the update of a mode ---- */

static int begin(struct ts_solver *a, struct ts_err *err)
{
    (void)err;
    ts_solver_limit_rows(a);
    a->update.by_count = a->spec->by_count;
    a->update.hold_out = a->conf->hold_out;
    a->update.mean = ((const struct observed *)a->own)->mean;
    a->sums.size = &a->size[a->product];
    return 0;
}

static int request(struct ts_solver *a, struct ts_request *ret, struct ts_err *err)
{
    struct observed *own = a->own;
    (void)err;
    if (a->at == TS_SOLVER_AGAIN) {
        ts_solver_request_errors(a, own->mean, &own->sums, ret);
        return 0;
    }
    ret->kind = TS_REQUEST_ROWS;
    ret->update = &a->update;
    ret->sums = &a->sums;
    ret->name = "rows";
    return 0;
}

/* Computes the Gram matrix of the rows, which the pass has updated, or takes the sums of errors. */
static int rows(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    struct observed *own = a->own;
    if (a->at != TS_SOLVER_AGAIN)
        return c->backend->gram(c->be, a->product, a->sums.gram, err);
    own->kept = own->sums.kept;
    own->held = own->sums.held;
    return 0;
}

/* ---- the end of a sweep ---- */

static int judged(struct ts_solver *a, struct ts_err *err)
{
    const struct observed *own = a->own;
    (void)err;
    a->pending = 0;
    a->model = 0;
    a->left = own->kept.left;
    a->now.fit = own->kept.squares > 0 ? 1 - sqrt(own->kept.left / own->kept.squares)
                 : own->kept.left == 0 ? 1
                                       : -INFINITY;
    return 0;
}

static int exact(const struct ts_solver *a)
{
    return a->left == 0;
}

static int tell(struct ts_solver *a)
{
    const struct observed *own = a->own;
    if (a->spec->mean)
        a->now.mean = own->mean;
    a->kept = own->kept.n;
    a->n_held = own->held.n;
    a->kept_sum = own->kept.squares;
    if (own->kept.n > 0)
        a->now.rmse = sqrt(own->kept.left / own->kept.n);
    if (own->held.n > 0)
        a->now.held_out = sqrt(own->held.left / own->held.n);
    return 1;
}

static double objective(const struct ts_solver *a)
{
    double sum = 0.5 * a->left;
    for (uint32_t m = 0; m < a->order; m++) {
        const struct ts_constraint *c = &a->spec->mode[m];
        sum += 0.5 * c->l2 * (c->fixed ? ts_solver_fit_trace(a, m) : a->size[m]);
    }
    return a->penalty ? sum : NAN;
}

static int is_asked(const struct ts_spec *spec)
{
    return spec->observed;
}

static struct ts_method_bytes bytes(const struct ts_tensor *t, uint32_t rank,
                                    enum ts_precision precision, const struct ts_spec *spec)
{
    (void)rank;
    (void)precision;
    (void)spec;
    return (struct ts_method_bytes){ .sums = ts_fit_sums_bytes(t) };
}

const struct ts_method ts_observed = {
    .name = "observed",
    .own_bytes = sizeof(struct observed),
    .bytes = bytes,
    .fit_apart = 1,
    .takes_weights = 1,
    .holds_out = 1,
    .is_asked = is_asked,
    .start = start,
    .begin = begin,
    .request = request,
    .rows = rows,
    .norm = ts_solver_norm,
    .judge = ts_solver_pass_again,
    .judged = judged,
    .exact = exact,
    .tell = tell,
    .objective = objective,
    .save = save,
    .restore = restore,
};
