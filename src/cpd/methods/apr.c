/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes Poisson models of counts by CP-APR: alternating Poisson regression with multiplicative
 * updates.
 *
 * The objective to maximise is log L = sum over nonzeros of x log m - sum over all cells of m
 * for values x and model values m (without log x!, which does not depend on the model). The method
 * is algorithm 3 of Chi and Kolda, "On tensors, sparsity, and nonnegative factorizations" (SIAM
 * Journal on Matrix Analysis and Applications 33, 2012). Columns of all factors have the sum 1, and
 * weights are separate. For mode n, let K be the Khatri-Rao product of the other factors, and B =
 * A_n diag(weights). There are `inner` rounds (a setting), and each is
 *     phi := (X / max(B K', 1e-10)) K,    B := B .* phi.
 * Then the weights are the column sums of B. If an entry is zero (below 1e-10 of its column) and
 * its phi was above 1 in the last round, 0.01 is added to it when the mode comes again:
 * multiplication alone would keep it at 0.
 *
 * The violation of the Karush-Kuhn-Tucker conditions is the largest |min(b, 1 - phi)|, over the
 * entries b of B, in the first round of any mode of the sweep. It is 0 at a local optimum. The run
 * has converged when it is less than the tolerance.
 *
 * Held-out nonzeros are fitted as zeros. The run reports their mean negative log-likelihood, m - x
 * log m.
 *
 * All rounds of a row are made while its shard is in memory. A row that is divided among several
 * shards gets one round per sweep (cpu/losses/rounds.h).
 */
#include <math.h>
#include <string.h>

#include "cpd/methods/loss_values.h"
#include "cpd/solver/solver_struct.h"
#include "stream/loss.h"

/* added to a zero entry that should grow (see the head of this file), in a column with the sum 1 */
#define GROW 0.01

struct apr {
    /* kkt: violation so far in this sweep or, between sweeps, in the last one; loss: log-likelihood
     * after the last mode */
    double kkt, loss;
    struct ts_multiply multiply;        /* arguments of the next pass */
    struct ts_multiply_sums multiplied; /* results of the last pass */
};

static int check(const struct ts_solver *a, struct ts_err *err)
{
    const struct ts_solver_conf *conf = a->conf;
    const struct ts_tensor *t = conf->init.tensor;
    if (conf->inner == 0)
        return ts_fail(err, TS_EARG, "a row of a Poisson model takes at least one round a sweep");
    return ts_loss_values_check(t, &ts_loss_poisson, conf->init.stop, err);
}

/* ---- the start, and the update of a mode ---- */

/* Scales each column of a factor to the sum 1, and multiplies its weight by the old sum. */
static int start(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const struct ts_multiply multiply = { .weight = a->w };
    struct ts_multiply_sums sums = { .column = a->scale };
    int rc = 0;
    for (uint32_t r = 0; r < a->rank; r++)
        a->w[r] = 1;
    for (uint32_t m = 0; m < a->order && rc == 0; m++) {
        rc = c->backend->divide_columns(c->be, m, &multiply, &sums, err);
        for (uint32_t r = 0; r < a->rank; r++)
            a->lambda[r] *= a->scale[r];
        if (rc == 0)
            rc = c->backend->gram(c->be, m, a->gram + m * a->square, err);
    }
    return rc;
}

static int request(struct ts_solver *a, struct ts_request *ret, struct ts_err *err)
{
    struct apr *own = a->own;
    (void)err;
    own->multiply = (struct ts_multiply){ .loss = &ts_loss_poisson,
                                          .weight = a->lambda,
                                          .grow = GROW,
                                          .rounds = a->conf->inner,
                                          .judge = a->product + 1 == a->order,
                                          .hold_out = a->conf->hold_out };
    own->multiplied = (struct ts_multiply_sums){ .column = a->scale };
    ret->kind = TS_REQUEST_MULTIPLY;
    ret->multiply = &own->multiply;
    ret->multiplied = &own->multiplied;
    ret->name = "product and rows";
    return 0;
}

/* Takes the weights, the violation and the log-likelihood from the pass, and computes the Gram
 * matrix. The violation is reset in the first mode of a sweep. So a state that is saved between two
 * sweeps has the violation of the last sweep. */
static int rows(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    struct apr *own = a->own;
    double sum = 0;
    memcpy(a->lambda, a->scale, a->rank * sizeof *a->lambda);
    own->kkt = fmax(a->product > 0 ? own->kkt : 0, own->multiplied.kkt);
    for (uint32_t r = 0; r < a->rank; r++)
        sum += a->lambda[r];
    if (a->product + 1 == a->order) {
        own->loss = own->multiplied.loss - sum;
        a->inner = own->multiplied.inner;
    }
    return c->backend->gram(c->be, a->product, a->gram + a->product * a->square, err);
}

/* ---- the end of a sweep ---- */

static int judge(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_multiply_sums *sums = &((const struct apr *)a->own)->multiplied;
    const double norm = a->conf->init.tensor->header.norm;
    const int rc = ts_solver_fit_of_kept(a, norm * norm - sums->held_squares, &a->now.fit, err);
    return rc == 0 ? ts_solver_fit_check(a, err) : rc;
}

static int tell(struct ts_solver *a)
{
    const struct apr *own = a->own;
    a->now.log_likelihood = own->loss;
    a->now.kkt = own->kkt;
    a->n_held = own->multiplied.held_n;
    a->kept = (double)a->conf->init.tensor->nnz - a->n_held;
    if (own->multiplied.held_n > 0)
        a->now.held_out_loss =
            (own->multiplied.held_model - own->multiplied.held_loss) / own->multiplied.held_n;
    return isfinite(own->loss);
}

static double objective(const struct ts_solver *a)
{
    const struct apr *own = a->own;
    return -own->loss;
}

static int settled(const struct ts_solver *a, double change)
{
    const struct apr *own = a->own;
    (void)change;
    return own->kkt < a->conf->tol;
}

static void save(const struct ts_solver *a, struct ts_state *s)
{
    const struct apr *own = a->own;
    memcpy(&s->part[TS_PART_KKT], &own->kkt, sizeof own->kkt);
    memcpy(&s->part[TS_PART_LOSS], &own->loss, sizeof own->loss);
}

static int restore(struct ts_solver *a, const struct ts_state *s, struct ts_err *err)
{
    struct apr *own = a->own;
    memcpy(&own->kkt, &s->part[TS_PART_KKT], sizeof own->kkt);
    memcpy(&own->loss, &s->part[TS_PART_LOSS], sizeof own->loss);
    (void)err;
    return 0;
}

static int is_asked(const struct ts_spec *spec)
{
    return spec->poisson;
}

const struct ts_method ts_apr = {
    .name = "poisson",
    .own_bytes = sizeof(struct apr),
    .holds_out_asked = 1,
    .is_asked = is_asked,
    .check = check,
    .start = start,
    .request = request,
    .rows = rows,
    .judge = judge,
    .tell = tell,
    .objective = objective,
    .settled = settled,
    .save = save,
    .restore = restore,
};
