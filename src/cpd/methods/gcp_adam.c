/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes models by losses other than least squares (gcp.c), by steps of Adam.
 *
 * A sweep takes the modes one after another. One pass computes the gradient of the mode's factor at
 * the newest factors of the other modes. It is exact for the nonzeros. For unlisted cells it comes
 * from column sums of factors and from random samples of columns (stream/row_update.h). Then Adam
 * makes a step, whose rate is relative to the root mean square of the factor's entries. The moments
 * of Adam are two matrices of the factor's size for each mode, in host memory, and are part of a
 * state. The pass after the last mode samples the same columns of unlisted cells in all sweeps. If
 * the objective F (gcp.c) is higher than in the sweep before, the rate is halved.
 */
#include "cpd/methods/gcp_struct.h"

#include "base/machine/bigmem.h"

#define SLOWER      0.5
#define PER_NONZERO 4.0 /* number of sampled cells for each nonzero */
#define LEAST_DRAWN 64.0

static struct ts_method_bytes bytes(const struct ts_tensor *t, uint32_t rank,
                                    enum ts_precision precision, const struct ts_spec *spec)
{
    (void)spec;
    return (struct ts_method_bytes){
        .kept = ts_bigmem_cost(ts_gcp_moments_bytes(t, rank, precision, TS_MOMENTS_ADAM)),
        .sums = ts_fit_sums_bytes(t),
    };
}

/* ---- the update of a mode ---- */

/* Returns the number of columns to sample for a mode: about PER_NONZERO cells for each nonzero, at
 * least LEAST_DRAWN and at most ts_descent_most columns. */
static uint32_t columns_drawn(const struct ts_tensor *t, uint32_t mode, uint32_t rank)
{
    const double rows = (double)t->mode[mode].disk.n_rows;
    const double want = rows > 0 ? PER_NONZERO * (double)t->nnz / rows : 0;
    const uint32_t most = ts_descent_most(rank);
    return want >= most ? most : want > LEAST_DRAWN ? (uint32_t)want : (uint32_t)LEAST_DRAWN;
}

static struct ts_descent descend(const struct ts_solver *a, uint32_t mode)
{
    const struct ts_gcp *g = a->own;
    struct ts_descent ret = ts_gcp_descent(a, mode);
    ret.n_drawn = columns_drawn(a->conf->init.tensor, mode, a->rank);
    ret.draw = a->now.sweep;
    ret.rate = g->rate * ts_gcp_size(a, mode);
    ret.step = a->now.sweep;
    ret.moment[0] = g->moment[0][mode];
    ret.moment[1] = g->moment[1][mode];
    return ret;
}

static int request(struct ts_solver *a, struct ts_request *ret, struct ts_err *err)
{
    struct ts_descent descent = descend(a, a->product);
    if (a->at == TS_SOLVER_AGAIN)
        descent.draw = 0; /* the estimate of F samples the same cells in all sweeps */
    return ts_gcp_request(a, &descent, ret, err);
}

/* Computes the Gram matrix of the rows, which the pass has updated, or takes the sums of the
 * loss. */
static int rows(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    return a->at == TS_SOLVER_AGAIN ? ts_gcp_sum_up(a, err)
                                    : c->backend->gram(c->be, a->product, a->sums.gram, err);
}

/* Ends a sweep: sets the fit, and halves the rate if the objective F has risen. F may be negative
 * with some losses, so only its change matters. */
static int judged(struct ts_solver *a, struct ts_err *err)
{
    struct ts_gcp *g = a->own;
    const double now = ts_gcp_objective(a);
    (void)err;
    a->pending = 0;
    a->now.fit = ts_gcp_fit(a);
    if (now > g->before)
        g->rate *= SLOWER;
    g->before = now;
    ts_gcp_note(a, now);
    return 0;
}

static int is_asked(const struct ts_spec *spec)
{
    return spec->loss != TS_GCP_NONE && !spec->lbfgsb;
}

const struct ts_method ts_gcp = {
    .name = "gcp",
    .own_bytes = sizeof(struct ts_gcp),
    .bytes = bytes,
    .start_is_drawn = ts_gcp_start_is_drawn,
    .lost_sign = ts_gcp_lost_sign,
    .fit_apart = 1,
    .holds_out = 1,
    .is_asked = is_asked,
    .check = ts_gcp_check,
    .start = ts_gcp_start,
    .request = request,
    .rows = rows,
    .norm = ts_solver_norm,
    .judge = ts_solver_pass_again,
    .judged = judged,
    .tell = ts_gcp_tell,
    .objective = ts_gcp_objective,
    .settled = ts_gcp_settled,
    .save = ts_gcp_save,
    .restore = ts_gcp_restore,
    .end = ts_gcp_end,
};
