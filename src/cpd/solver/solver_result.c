/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the results of a run: the figures of each sweep and, at the end, weights, column norms
 * and rows of the factors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpd/solver/solver_struct.h"
#include "cpd/solver/best.h"

/* Stores the result of the sweep that has ended. The fit changed by `change`. */
void ts_solver_take_result(const struct ts_solver *a, uint32_t sweep, double fit, double change,
                           struct ts_solver_result *ret)
{
    const int done = sweep > 1 && (a->method->settled != NULL ? a->method->settled(a, change)
                                                              : fabs(change) < a->conf->tol);
    ret->sweeps = sweep;
    ret->fit = fit;
    ret->fit_norm = a->fit_norm;
    ret->fit_error = ts_solver_fit_error(a, fit);
    ret->n_dead = ts_solver_fit_count_dead(a);
    ret->n_dead_start = a->n_dead_start < ret->n_dead ? a->n_dead_start : ret->n_dead;
    ret->constrained = a->constrained;
    ret->objective = a->now.objective;
    ret->log_likelihood = a->now.log_likelihood;
    ret->kkt = a->now.kkt;
    ret->exact = done && a->exact;
    ret->rounded = ret->exact && ts_solver_fit_is_rounded(a);
    ret->overfits = a->conf->patience > 0 && a->held_since >= a->conf->patience;
    ret->converged = done && !a->exact && !ret->overfits;
    ret->mean = a->now.mean;
    ret->rmse = a->now.rmse;
    ret->held_out = a->now.held_out;
    ret->held_out_loss = a->now.held_out_loss;
}

int ts_solver_tell(struct ts_solver *a)
{
    a->now.mean = a->now.rmse = a->now.held_out = a->now.held_out_loss = a->now.log_likelihood =
        a->now.kkt = NAN;
    a->kept = a->n_held = 0;
    a->kept_sum = NAN;
    return a->method->tell == NULL || a->method->tell(a);
}

static int stays(const struct ts_solver *a, uint32_t mode)
{
    return ts_constraint_as_it_is(&a->spec->mode[mode]);
}

/* Sets the weight of component r to `weight` times its column norms. Columns of modes that must
 * keep their lengths are not scaled to norm 1. */
static void put_column(const struct ts_solver *a, uint32_t r, double weight, const double *norm,
                       struct ts_solver_result *ret)
{
    for (uint32_t m = 0; m < a->order; m++) {
        weight *= stays(a, m) ? 1 : norm[m];
        ret->norm[m * (size_t)ret->rank + r] = stays(a, m) ? TS_AS_IT_IS : norm[m];
    }
    ret->weight[r] = weight;
}

static void take_weights(const struct ts_solver *a, struct ts_solver_result *ret)
{
    const struct ts_tensor *t = a->conf->init.tensor;
    const struct ts_best *best = ret->best_sweep > 0 ? a->best : NULL;
    const double *lambda = best != NULL ? ts_best_lambda(best) : a->lambda;
    double norm[TS_MAX_ORDER];
    for (uint32_t r = 0; r < a->rank; r++) {
        for (uint32_t m = 0; m < a->order; m++)
            norm[m] = best != NULL ? ts_best_norm(best)[m * (size_t)a->rank + r]
                                   : sqrt(a->gram[m * a->square + (size_t)r * a->rank + r]);
        put_column(a, r, lambda[r], norm, ret);
    }
    for (uint32_t m = 0; m < a->order; m++)
        norm[m] = sqrt((double)t->mode[m].disk.n_rows);
    if (ret->rows.mean)
        put_column(a, a->rank, fabs(ret->mean), norm, ret);
}

/* Returns the rows of the result. Weights are not negative, so the sign of the subtracted mean goes
 * into a mode with normalized columns, if one exists. */
static struct ts_solver_rows rows_of(const struct ts_solver *a)
{
    const struct ts_init_conf *c = &a->conf->init;
    struct ts_solver_rows rows = { .backend = c->backend,
                                   .be = c->be,
                                   .rank = a->rank,
                                   .mean = a->spec->mean,
                                   .minus_mode = a->order };
    if (!rows.mean || !(a->result.mean < 0))
        return rows;
    for (uint32_t m = 0; m < a->order; m++)
        if (rows.minus_mode == a->order || !stays(a, m))
            rows.minus_mode = m;
    return rows;
}

int ts_solver_rows(void *rows, uint32_t mode, uint64_t row, uint64_t n, double *ret,
                   struct ts_err *err)
{
    const struct ts_solver_rows *r = rows;
    const size_t rank = r->rank;
    const int rc = r->backend->get_rows(r->be, mode, row, n, ret, err);
    for (uint64_t i = n; r->mean && i-- > 0;) {
        memmove(ret + i * (rank + 1), ret + i * rank, rank * sizeof *ret);
        ret[i * (rank + 1) + rank] = mode == r->minus_mode ? -1 : 1;
    }
    return rc;
}

int ts_solver_result(const struct ts_solver *a, struct ts_solver_result *ret, struct ts_err *err)
{
    *ret = a->result;
    if (a->best != NULL && ts_best_sweep(a->best) > 0) {
        ts_best_tell(a->best, ret);
        ret->fit_error = ts_solver_fit_error(a, ret->fit);
    }
    ret->rows = rows_of(a);
    ret->rank = a->rank + (uint32_t)(ret->rows.mean != 0);
    ret->weight = malloc((a->order + 1) * (size_t)ret->rank * sizeof *ret->weight);
    if (ret->weight == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u weights", ret->rank);
    ret->norm = ret->weight + ret->rank;
    take_weights(a, ret);
    return 0;
}
