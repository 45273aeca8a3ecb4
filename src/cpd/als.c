/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of things in ALS: from product to product, update each mode, norm its columns, compute the fit,
 * and decide when to stop. */
#include "cpd/als.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/setting.h"
#include "base/stop.h"
#include "cpd/accelerate.h"
#include "cpd/als_impl.h"
#include "cpd/apr.h"
#include "cpd/nvecs.h"
#include "cpd/polar.h"
#include "cpd/smooth.h"
#include "cpd/symm.h"

#define CALM   2.0 /* so much better than needed must float32 be to be gone back to */
#define WANTED 1   /* a product is needed to go on */

/* v := elementwise product of the Gram matrices of all modes but `skip` */
void ts_als_multiply_grams(struct ts_als *a, uint32_t skip)
{
    for (size_t i = 0; i < a->square; i++)
        a->v[i] = 1;
    for (uint32_t m = 0; m < a->order; m++) {
        const double *restrict gram = a->gram + m * a->square;
        double *restrict v = a->v;
        for (size_t i = 0; m != skip && i < a->square; i++)
            v[i] *= gram[i];
    }
}

/* x(i, j) *= scale[i] * scale[j] */
static void scale_both(const struct ts_als *a, double *x)
{
    const double *restrict scale = a->scale;
    for (uint32_t i = 0; i < a->rank; i++) {
        double *restrict row = x + (size_t)i * a->rank;
        for (uint32_t j = 0; j < a->rank; j++)
            row[j] *= scale[i] * scale[j];
    }
}

/* Columns are divided by the power of two next to their norm. Division by the norm would round
 * the entries once more, and the Gram matrix would be that of other entries: wrong by about a
 * rounding of float32, which is more than is left of |X - model|^2 near a fit of 1. */
static void norm_columns(struct ts_als *a, uint32_t mode)
{
    double *gram = a->gram + mode * a->square;
    for (uint32_t r = 0; r < a->rank; r++) {
        const double norm = sqrt(gram[(size_t)r * a->rank + r]);
        a->lambda[r] = norm > 0 && isfinite(norm) ? exp2(rint(log2(norm))) : norm;
        a->scale[r] = norm > 0 ? 1 / a->lambda[r] : 1;
        if (a->constraint != NULL && norm == 0) /* the column is 0, not the weight of others' */
            a->lambda[r] = 1;
    }
    scale_both(a, gram);
}

static enum ts_row_kind kind_of(const struct ts_als *a, uint32_t mode)
{
    return a->constraint == NULL ? TS_ROW_LEAST_SQUARES : ts_constraint_kind(&a->constraint[mode]);
}

/* w := pinv(v) as it is for columns of norm 1: which of them count as dependent is not a matter of
 * their lengths. */
static int invert(struct ts_als *a, int *singular, struct ts_err *err)
{
    const double cut = a->conf->precision == TS_FLOAT32 ? FLT_EPSILON : TS_SYMM_CUT;
    int rc;
    for (uint32_t r = 0; r < a->rank; r++) {
        const double square = a->v[(size_t)r * a->rank + r];
        a->scale[r] = square > 0 ? 1 / sqrt(square) : 1;
    }
    scale_both(a, a->v);
    rc = ts_symm_pinv(a->rank, a->v, cut, a->conf->init.stop, a->w, singular, err);
    scale_both(a, a->w);
    return rc;
}

/* From `start` to now, on the trace's lane of modes. Returns now. */
static uint64_t trace_step(const struct ts_als *a, const char *what, uint64_t start, uint32_t mode)
{
    const uint64_t now = ts_clock_ns();
    ts_trace_add(a->conf->trace, TS_TRACE_MODES, what, start, now, mode, TS_TRACE_NO_SHARD, 0);
    return now;
}

/* Means over devices; what is not the backend's counts as solving. */
static void add_times(struct ts_als *a, const struct ts_backend_times *t, uint64_t all_ns)
{
    const uint32_t n = t->n_devices > 0 ? t->n_devices : 1;
    struct ts_device_times sum = { 0 };
    uint64_t slowest_ns = 0;
    for (uint32_t i = 0; i < t->n_devices; i++) {
        const struct ts_device_times *d = &t->device[i];
        sum.wait_ns += d->wait_ns;
        sum.copy_ns += d->copy_ns;
        sum.kernel_ns += d->kernel_ns;
        sum.solve_ns += d->solve_ns;
        sum.exposed_ns += d->exposed_ns;
        slowest_ns = d->kernel_ns > slowest_ns ? d->kernel_ns : slowest_ns;
    }
    a->now.wait_ns += sum.wait_ns / n;
    a->now.copy_ns += sum.copy_ns / n;
    a->now.kernel_ns += sum.kernel_ns / n;
    a->now.solve_ns += sum.solve_ns / n + (all_ns > t->total_ns ? all_ns - t->total_ns : 0);
    a->now.exposed_ns += sum.exposed_ns / n;
    a->slowest_ns += slowest_ns;
}

/* Of ADMM, whose rounds are as many again: w := (v + rho I)^-1, of a condition below rank + 1. */
static int prepare_simplex(struct ts_als *a, struct ts_row_update *ret, struct ts_err *err)
{
    double sum = 0;
    int rc;
    for (uint32_t r = 0; r < a->rank; r++) {
        a->scale[r] = a->v[(size_t)r * a->rank + r];
        sum += a->scale[r] / a->rank;
    }
    ret->rho = sum > 0 ? sum : 1;
    ret->inverse = a->w;
    ret->rounds *= 2;
    for (uint32_t r = 0; r < a->rank; r++)
        a->v[(size_t)r * a->rank + r] += ret->rho;
    rc = ts_symm_pinv(a->rank, a->v, TS_SYMM_CUT, a->conf->init.stop, a->w, NULL, err);
    for (uint32_t r = 0; r < a->rank; r++)
        a->v[(size_t)r * a->rank + r] = a->scale[r];
    return rc;
}

/* What is needed before the pass, and how rows are to be updated. */
static int prepare(struct ts_als *a, uint32_t mode, enum ts_row_kind kind,
                   struct ts_row_update *ret, int *singular, struct ts_err *err)
{
    static const struct ts_constraint none;
    const struct ts_constraint *c = a->constraint != NULL ? &a->constraint[mode] : &none;
    *ret = (struct ts_row_update){ .kind = kind, .weight = a->lambda };
    *singular = 0;
    if (kind == TS_ROW_KEEP || kind == TS_ROW_POLAR || kind == TS_ROW_MULTIPLY)
        return 0;
    ret->lower = c->nonneg ? 0 : -INFINITY;
    ret->upper = INFINITY;
    if (c->bounded) {
        ret->lower = fmax(ret->lower, c->lower);
        ret->upper = c->upper;
    }
    ret->l2 = c->l2;
    ret->by_count = c->by_count;
    ret->hold_out = a->conf->hold_out;
    if (kind == TS_ROW_OBSERVED)
        return 0;
    ts_als_multiply_grams(a, mode);
    for (uint32_t r = 0; r < a->rank && c->l2 > 0; r++)
        a->v[(size_t)r * a->rank + r] += c->l2;
    if (kind == TS_ROW_LEAST_SQUARES) {
        ret->matrix = a->w;
        return invert(a, singular, err);
    }
    ret->matrix = a->v;
    if (kind == TS_ROW_SMOOTH)
        return 0;
    ret->l1 = a->now.sweep > 0 ? c->l1 : 0; /* before the first sweep it might leave nothing */
    ret->rounds = ts_constraint_rounds(a->order, a->conf->init.tensor->nnz,
                                       a->conf->init.tensor->mode[mode].disk.n_rows, a->rank);
    return kind == TS_ROW_SIMPLEX ? prepare_simplex(a, ret, err) : 0;
}

/* The factor of the mode is new: its columns get their lengths back to 1, and the weights the rest. */
static int norm_mode(struct ts_als *a, uint32_t mode, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    if (!a->balanced) {
        norm_columns(a, mode);
        return c->backend->scale(c->be, mode, a->scale, err);
    }
    for (uint32_t r = 0; r < a->rank; r++)
        a->lambda[r] = 1;
    return 0;
}

/* ---- one product ---- */

/* kind: that of the mode, or TS_ROW_KEEP. WANTED; 0 where nothing is to be computed. */
static int begin_product(struct ts_als *a, uint32_t mode, enum ts_row_kind kind, struct ts_err *err)
{
    int rc;
    a->begun_ns = ts_clock_ns();
    a->product = mode;
    a->times = (struct ts_backend_times){ 0 };
    if (kind == TS_ROW_KEEP && a->at != TS_ALS_AGAIN &&
        (mode + 1 < a->order || a->observed)) /* the fit is computed elsewhere */
        return 0;
    rc = prepare(a, mode, kind, &a->how, &a->singular, err);
    trace_step(a, "inverse", a->begun_ns, mode);
    a->sums = (struct ts_row_sums){
        .gram = kind == TS_ROW_KEEP ? a->w : a->gram + mode * a->square, /* w: of no use */
        .inner = mode + 1 == a->order ? &a->inner : NULL,
        .size = a->how.l1 > 0 || kind == TS_ROW_OBSERVED ? &a->size[mode] : NULL,
    };
    return rc < 0 ? rc : WANTED;
}

/* The product, and with a backend that has both in one call the rows. */
int ts_als_multiply(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint64_t start = ts_clock_ns();
    int rc;
    ts_feed_rewind(a->conf->feed);
    if (a->how.kind == TS_ROW_MULTIPLY) {
        rc = ts_apr_multiply(a, err);
        trace_step(a, "product and rows", start, a->product);
        return rc;
    }
    if (a->observed) {
        rc = a->at == TS_ALS_AGAIN
                 ? ts_observed_errors(c->backend, c->be, c->tensor, a->product, a->conf->feed,
                                      &a->conf->hold_out, &a->kept, &a->held, &a->times, err)
                 : c->backend->complete(c->be, a->product, a->conf->feed, &a->how, &a->sums,
                                        &a->times, err);
        trace_step(a, a->at == TS_ALS_AGAIN ? "errors" : "rows", start, a->product);
        return rc;
    }
    if (c->backend->update != NULL) {
        rc =
            c->backend->update(c->be, a->product, a->conf->feed, &a->how, &a->sums, &a->times, err);
        trace_step(a, "product and rows", start, a->product);
        return rc;
    }
    rc = c->backend->mttkrp(c->be, a->product, a->conf->feed, &a->times, err);
    trace_step(a, "product", start, a->product);
    return rc;
}

/* Of the product that was computed. */
static int solve_rows(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const enum ts_precision precision = a->conf->precision;
    if (a->observed) /* they are, but for their Gram matrix */
        return a->at == TS_ALS_AGAIN ? 0 : c->backend->gram(c->be, a->product, a->sums.gram, err);
    switch (a->how.kind) {
    case TS_ROW_POLAR:
        return ts_polar_solve(c, precision, a->product, a->v, &a->sums, &a->singular, err);
    case TS_ROW_SMOOTH:
        return ts_smooth_solve(c, precision, a->product, a->v, a->w, &a->sums, &a->size[a->product],
                               &a->singular, err);
    case TS_ROW_MULTIPLY:
        return ts_apr_take(a, err);
    default:
        return c->backend->solve(c->be, a->product, &a->how, &a->sums, err);
    }
}

/* What follows the product. Before the first sweep nobody is told. */
static int end_product(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint64_t start = ts_clock_ns();
    struct ts_als_mode done = { .sweep = a->now.sweep, .mode = a->product, .times = &a->times };
    uint64_t then;
    int rc = 0;
    if (c->backend->update == NULL || a->observed) {
        rc = solve_rows(a, err);
        a->times.device[0].solve_ns = trace_step(a, "rows", start, a->product) - start;
        a->times.total_ns += a->times.device[0].solve_ns;
    }
    if (rc < 0)
        return rc;
    then = ts_clock_ns();
    if (a->how.kind != TS_ROW_KEEP && a->how.kind != TS_ROW_MULTIPLY)
        rc = norm_mode(a, a->product, err);
    done.total_ns = trace_step(a, "scale", then, a->product) - a->begun_ns;
    a->last_singular = (uint32_t)a->singular;
    a->now.n_singular += a->last_singular;
    add_times(a, &a->times, done.total_ns);
    if (rc == 0 && a->conf->mode != NULL && a->now.sweep > 0)
        a->conf->mode(a->conf->ctx, &done);
    return rc;
}

/* Stopped on the way to a product, or from it on: the run goes on from the beginning of its mode. */
static int keep_place(struct ts_als *a, int rc)
{
    if (rc == TS_ESTOP && a->at == TS_ALS_MODE)
        ts_als_state_save(a, a->now.sweep, a->mode);
    else if (rc == TS_ESTOP && a->at == TS_ALS_AGAIN)
        ts_als_state_save(a, a->now.sweep, a->order - 1);
    return rc;
}

/* ---- a sweep ---- */

static double largest_value(const struct ts_disk_header *h)
{
    return fmax(fabs(h->value_min), fabs(h->value_max));
}

/* Values whose squares vanish have a norm of 0, or of few digits, and any fit; values below the
 * range of float32 have factors of zeros. */
static int check_values(const struct ts_als_conf *conf, struct ts_err *err)
{
    const struct ts_disk_header *h = &conf->init.tensor->header;
    const int squares_vanish = h->norm * h->norm < DBL_MIN;
    const int values_vanish = conf->precision == TS_FLOAT32 && largest_value(h) < FLT_MIN;
    if (h->nnz == 0 || (!squares_vanish && !values_vanish))
        return 0;
    return ts_fail(err, TS_ELIMIT,
                   "the values (up to %g) are too small to be computed with: scale them up so that "
                   "the largest is near 1%s",
                   largest_value(h),
                   squares_vanish ? "" : ", or take " TS_SET_PRECISION " float64");
}

void ts_als_sum_in(const struct ts_als *a, enum ts_precision precision)
{
    const struct ts_init_conf *c = &a->conf->init;
    if (a->conf->precision == TS_FLOAT32)
        c->backend->sum_in(c->be, precision);
}

/* The last mode once more, in float64. By least squares it is solved again, from the same operands; where
 * rows come from the old ones that would be a step further, so there the factor stays. */
static int begin_again(struct ts_als *a, struct ts_err *err)
{
    const enum ts_row_kind kind = kind_of(a, a->order - 1);
    ts_als_sum_in(a, TS_FLOAT64);
    if (!ts_row_reads_old(kind))
        a->now.n_singular -= a->last_singular;
    a->pending = ts_row_reads_old(kind);
    return begin_product(a, a->order - 1, a->pending ? TS_ROW_KEEP : kind, err);
}

/* How the next sweep's last mode is to be summed. */
static void choose_sums(struct ts_als *a)
{
    a->wide = !ts_als_fit_float32_will_do(a, CALM);
    ts_als_sum_in(a, a->wide ? TS_FLOAT64 : TS_FLOAT32);
}

/* The fit of the sweep, whose last mode is solved. WANTED where that takes one more product. */
static int take_fit(struct ts_als *a, struct ts_err *err)
{
    if (a->observed) { /* a pass for the errors */
        a->pending = 1;
        return begin_product(a, a->order - 1, TS_ROW_KEEP, err);
    }
    if (!a->pending)
        a->now.fit = ts_als_fit_now(a);
    if (a->conf->precision != TS_FLOAT32 || a->poisson)
        return 0;
    if (a->pending || (!a->wide && !ts_als_fit_float32_will_do(a, 1)))
        return begin_again(a, err);
    choose_sums(a);
    return 0;
}

/* Between two modes: the user may want to stop, a state be due. */
static int between_modes(struct ts_als *a, uint32_t sweep, uint32_t mode, struct ts_err *err)
{
    struct ts_checkpoint *c = a->conf->checkpoint;
    if (ts_stop_asked(a->conf->init.stop)) {
        ts_als_state_save(a, sweep, mode);
        return mode > 0 ? ts_fail(err, TS_ESTOP, "stopped in sweep %u", sweep)
                        : ts_fail(err, TS_ESTOP, "stopped after sweep %u", sweep - 1);
    }
    if (c != NULL && ts_checkpoint_due(c)) {
        struct ts_state s = ts_als_state_at(a, sweep, mode, 0);
        ts_checkpoint_take(c, &s);
    }
    return 0;
}

/* The factors that the sweep starts from. */
static int take_step(struct ts_als *a, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    const int rc = ts_accelerate_step(a->accelerate, a->gram, a->lambda, err);
    a->now.solve_ns += trace_step(a, "step", start, 0) - start;
    return rc;
}

/* Of the sweep that is over, whose fit changed by `change`. */
void ts_als_take_result(const struct ts_als *a, uint32_t sweep, double fit, double change,
                        struct ts_als_result *ret)
{
    const int done =
        sweep > 1 && (a->poisson              ? a->kkt < a->conf->tol
                      : a->accelerate != NULL ? ts_accelerate_settled(a->accelerate, a->conf->tol)
                                              : fabs(change) < a->conf->tol);
    ret->sweeps = sweep;
    ret->fit = fit;
    ret->n_dead = ts_als_fit_count_dead(a);
    ret->constrained = a->constraint != NULL;
    ret->objective = a->now.objective;
    ret->log_likelihood = a->poisson ? a->loss : NAN;
    ret->kkt = a->poisson ? a->kkt : NAN;
    ret->exact = done && a->exact;
    ret->rounded = ret->exact && ts_als_fit_is_rounded(a);
    ret->overfits = a->conf->patience > 0 && a->held_since >= a->conf->patience;
    ret->converged = done && !a->exact && !ret->overfits;
    ret->rmse = a->now.rmse;
    ret->held_out = a->now.held_out;
}

static int fit_is_not_finite(const struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const int rc = ts_tensor_check_values(c->tensor, c->stop, err); /* they may be the cause */
    return rc < 0
               ? rc
               : ts_fail(
                     err, TS_ELIMIT,
                     "the fit of sweep %u is not finite: the values (up to %g)%s%s leave the range of "
                     "the precision; %s",
                     a->now.sweep, largest_value(&c->tensor->header),
                     c->model != NULL ? " or the entries of " : "",
                     c->model != NULL ? c->model->path : "",
                     a->conf->precision == TS_FLOAT32 ? "take " TS_SET_PRECISION
                                                        " float64, or scale them"
                                                      : "scale them so that the largest is near 1");
}

/* Begins the sweep after those that are over. */
static int begin_sweep(struct ts_als *a, struct ts_err *err)
{
    const uint32_t sweep = a->result.sweeps + 1;
    int rc = a->mode == 0 && sweep > 1 ? between_modes(a, sweep, 0, err) : 0;
    if (rc < 0)
        return rc;
    ts_als_state_begin_sweep(a, sweep, a->mode);
    a->sweeping = 1;
    return a->accelerate != NULL && a->mode == 0 ? take_step(a, err) : 0;
}

/* The error on held-out cells, and how long ago it was the least. */
static void note_held_out(struct ts_als *a)
{
    a->now.rmse = a->observed && a->kept.n > 0 ? sqrt(a->kept.left / a->kept.n) : NAN;
    a->now.held_out = a->observed && a->held.n > 0 ? sqrt(a->held.left / a->held.n) : NAN;
    a->held_since++;
    if (a->now.sweep == 1 || a->now.held_out < a->held_best) {
        a->held_best = a->now.held_out;
        a->held_since = 0;
    }
}

/* Its fit is known. */
static int end_sweep(struct ts_als *a, struct ts_err *err)
{
    const uint32_t sweep = a->now.sweep;
    int rc = 0;
    a->exact = !a->poisson && ts_als_fit_nothing_left(a);
    note_held_out(a);
    a->now.objective = ts_als_fit_objective(a);
    a->now.log_likelihood = a->poisson ? a->loss : NAN;
    a->now.kkt = a->poisson ? a->kkt : NAN;
    a->now.n_dead = ts_als_fit_count_dead(a);
    a->now.change = a->now.fit - a->result.fit;
    if (!isfinite(a->now.fit) || (a->poisson && !isfinite(a->loss)))
        return fit_is_not_finite(a, err);
    if (a->accelerate != NULL)
        ts_accelerate_fit(a->accelerate, sweep, a->now.fit);
    ts_als_state_count_read(a);
    a->now.imbalance = a->now.kernel_ns > 0 ? (double)a->slowest_ns / (double)a->now.kernel_ns : 1;
    a->now.total_ns = ts_clock_ns() - a->start_ns;
    if (a->conf->sweep != NULL)
        a->conf->sweep(a->conf->ctx, &a->now);
    if (a->conf->checkpoint != NULL)
        rc = ts_checkpoint_sweep(a->conf->checkpoint, a->now.fit, a->now.total_ns, err);
    if (rc == 0)
        ts_als_take_result(a, sweep, a->now.fit, a->now.change, &a->result);
    a->sweeping = 0;
    a->mode = 0;
    return rc;
}

/* The mode under way is solved. */
static int end_mode(struct ts_als *a, struct ts_err *err)
{
    a->mode++;
    return a->mode < a->order ? between_modes(a, a->now.sweep, a->mode, err) : 0;
}

/* The mode under way, where it is to be solved, or the fit. WANTED; 0: there was nothing to compute. */
static int step(struct ts_als *a, struct ts_err *err)
{
    int rc;
    if (a->mode < a->order && !a->pending) {
        a->at = TS_ALS_MODE;
        rc = begin_product(a, a->mode, kind_of(a, a->mode), err);
        if (rc != 0)
            return keep_place(a, rc);
        if (a->conf->mode != NULL)
            a->conf->mode(a->conf->ctx, &(struct ts_als_mode){ .sweep = a->now.sweep,
                                                               .mode = a->mode,
                                                               .times = &a->times });
        return end_mode(a, err);
    }
    a->at = TS_ALS_AGAIN;
    rc = take_fit(a, err);
    return rc == 0 ? end_sweep(a, err) : keep_place(a, rc);
}

/* ---- the run ---- */

/* Starts are positive. If the first mode that is solved must not be negative, negative parts of the tensor make it 0
 * before a mode that may take their sign is solved, and zeros stay. Then the last such mode is to be solved before the
 * first sweep. Returns the order where nothing is. */
static uint32_t sign_mode(const struct ts_als *a)
{
    uint32_t first = 0, ret = a->order;
    while (first < a->order && kind_of(a, first) == TS_ROW_KEEP)
        first++;
    if (first == a->order || a->constraint == NULL ||
        !ts_constraint_positive(&a->constraint[first]))
        return a->order;
    for (uint32_t m = 0; m < a->order; m++)
        if (!ts_constraint_positive(&a->constraint[m]) && !a->constraint[m].fixed)
            ret = m;
    return ret;
}

/* The first mode whose columns may have any length, or the order. */
static uint32_t free_mode(const struct ts_als *a)
{
    uint32_t m = 0;
    while (m < a->order && (a->constraint[m].fixed || ts_constraint_rigid(&a->constraint[m])))
        m++;
    return m;
}

/* Weights of the start count with old rows. Where lengths of some modes are not to be changed, they go into a mode whose
 * lengths may be. */
static int start_weights(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    uint32_t to = a->order;
    for (uint32_t m = 0; a->constraint != NULL && m < a->order; m++)
        if (ts_constraint_rigid(&a->constraint[m]))
            to = free_mode(a);
    for (uint32_t r = 0; r < a->rank && a->constraint != NULL; r++) {
        a->scale[r] = c->model == NULL ? 1 : fabs(c->model->weight[r]);
        a->lambda[r] = to < a->order ? 1 : a->scale[r];
    }
    if (to == a->order || c->model == NULL)
        return 0;
    scale_both(a, a->gram + to * a->square);
    return c->backend->scale(c->be, to, a->scale, err);
}

/* The start. WANTED where a mode is solved before the first sweep. */
static int init_factors(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint32_t sign = sign_mode(a);
    /* the first mode is solved before it is an operand */
    const int unused = sign == a->order && kind_of(a, 0) != TS_ROW_KEEP;
    const struct ts_nvecs_conf nvecs = {
        .init = c,
        .feed = a->conf->feed,
        .first = !unused || ts_row_reads_old(kind_of(a, 0)) || a->conf->whole_start,
        .gram = a->gram,
        .scratch = a->v, /* and w */
    };
    int rc = c->nvecs ? ts_nvecs_start(&nvecs, err) : 0;
    for (uint32_t m = 0; m < a->order && !c->nvecs && rc == 0; m++)
        rc = ts_init_mode(c, m, m == 0 && unused ? NULL : a->gram + m * a->square, err);
    if (rc == 0 && a->conf->started != NULL)
        rc = a->conf->started(a->conf->ctx, err);
    if (rc == 0)
        rc = start_weights(a, err);
    if (rc == 0 && a->poisson)
        rc = ts_apr_start(a, err);
    a->at = TS_ALS_SIGN;
    return rc == 0 && sign < a->order ? begin_product(a, sign, kind_of(a, sign), err) : rc;
}

/* The factors: WANTED as above. */
static int begin(struct ts_als *a, struct ts_err *err)
{
    int rc;
    ts_als_sum_in(a, TS_FLOAT32); /* a run before this one may have ended in another way */
    rc = a->conf->from == NULL ? init_factors(a, err) : ts_als_state_restore(a, err);
    if (rc == 0 && a->conf->from != NULL) {
        ts_als_state_recall(a, &a->result);
        a->mode = ts_state_get(a->conf->from)->mode;
    }
    return rc;
}

static int is_over(const struct ts_als *a)
{
    return a->result.sweeps >= a->conf->iters || a->result.converged || a->result.exact ||
           a->result.overfits;
}

/* To the next product: WANTED, or 0 at the end of the run. */
static int go_on(struct ts_als *a, struct ts_err *err)
{
    int rc = 0;
    while (rc == 0 && (a->sweeping || !is_over(a))) {
        rc = a->sweeping ? 0 : begin_sweep(a, err);
        if (rc == 0)
            rc = step(a, err);
    }
    if (rc == 0 && a->conf->checkpoint != NULL) {
        struct ts_state end = ts_als_state_at(a, a->result.sweeps + 1, 0, TS_STATE_ENDED);
        ts_checkpoint_end(a->conf->checkpoint, &end);
    }
    return rc;
}

/* What follows the product that was computed. */
static int take_product(struct ts_als *a, struct ts_err *err)
{
    const int rc = keep_place(a, end_product(a, err));
    if (rc < 0 || a->at == TS_ALS_SIGN)
        return rc;
    if (a->at == TS_ALS_MODE)
        return end_mode(a, err);
    a->pending = 0;
    a->now.fit = ts_als_fit_now(a);
    if (!a->observed)
        choose_sums(a);
    return end_sweep(a, err);
}

/* The weights of columns of norm 1, and the norms that the columns have; columns of modes whose lengths are not to be
 * changed stay as they are. */
static void take_weights(const struct ts_als *a, struct ts_als_result *ret)
{
    ret->norm = ret->weight + a->rank;
    for (uint32_t r = 0; r < a->rank; r++) {
        ret->weight[r] = a->lambda[r];
        for (uint32_t m = 0; m < a->order; m++) {
            const double norm = sqrt(a->gram[m * a->square + (size_t)r * a->rank + r]);
            const int stays = a->constraint != NULL && ts_constraint_as_it_is(&a->constraint[m]);
            ret->weight[r] *= stays ? 1 : norm;
            ret->norm[m * (size_t)a->rank + r] = stays ? TS_AS_IT_IS : norm;
        }
    }
}

/* The constraints must make sense, and the backend have what they take. */
static int take_constraints(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint32_t own = ts_constraint_own(a->conf->init.constraint, a->order);
    int rc = 0;
    if (ts_constraint_any(a->conf->init.constraint, a->order)) {
        a->constraint = a->conf->init.constraint;
        a->penalty = ts_constraint_penalty(a->constraint, a->order);
        a->poisson = a->constraint[0].poisson;
        a->balanced = ts_constraint_lengths(a->constraint, a->order);
        rc = ts_constraint_check(a->constraint, a->order, err);
    }
    if (rc == 0 && (ts_constraint_updates(a->constraint, a->order) & ~c->backend->updates) != 0)
        rc = ts_fail(err, TS_EARG, "these constraints are computed on CPU cores only");
    if (rc == 0)
        rc = ts_smooth_check(c->tensor, a->constraint, err);
    for (uint32_t m = 0; a->constraint != NULL && m < a->order && rc == 0; m++)
        if (a->constraint[m].orthogonal && c->tensor->mode[m].disk.n_rows < a->rank)
            rc = ts_fail(err, TS_EARG,
                         "mode %u has %" PRIu64 " used indices, so no more of its columns can be "
                         "orthogonal, and the rank is %u",
                         m + 1, c->tensor->mode[m].disk.n_rows, a->rank);
    a->observed = a->constraint != NULL && a->constraint[0].observed;
    if (rc == 0 && !a->observed && (a->conf->hold_out.share > 0 || a->conf->patience > 0))
        rc = ts_fail(err, TS_EARG, "cells are held out where others are observed");
    return rc == 0 && c->backend->own_rows != NULL ? c->backend->own_rows(c->be, own, err) : rc;
}

/* Everything that can be refused is. */
static int check(struct ts_als *a, struct ts_err *err)
{
    const struct ts_als_conf *conf = a->conf;
    int rc = ts_init_check(&conf->init, err);
    if (rc == 0)
        rc = check_values(conf, err);
    if (rc == 0)
        rc = take_constraints(a, err);
    if (rc == 0 && a->poisson)
        rc = ts_apr_check(conf, err);
    if (rc == 0 && conf->accelerate)
        rc = ts_accelerate_check(a->constraint, a->order, err);
    if (rc == 0 && conf->from != NULL)
        rc = ts_als_check_from(conf, err);
    if (rc == 0 && (a->rank == 0 || a->rank > TS_MAX_RANK || conf->iters == 0))
        rc = ts_fail(err, TS_EARG, "rank must be 1 to %u and there must be at least one sweep",
                     TS_MAX_RANK);
    return rc;
}

static int make(struct ts_als *a, struct ts_err *err)
{
    a->square = (size_t)a->rank * a->rank;
    a->memory = calloc((a->order + 2) * a->square + 2 * (size_t)a->rank, sizeof *a->memory);
    if (a->memory == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u Gram matrices", a->order);
    a->gram = a->memory;
    a->v = a->gram + a->order * a->square;
    a->w = a->v + a->square;
    a->scale = a->w + a->square;
    a->lambda = a->scale + a->rank;
    return a->conf->accelerate
               ? ts_accelerate_new(&a->conf->init, a->conf->precision, &a->accelerate, err)
               : 0;
}

int ts_als_new(const struct ts_als_conf *conf, struct ts_als **ret, struct ts_err *err)
{
    struct ts_als *a = calloc(1, sizeof *a);
    int rc;
    if (a == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a run");
    a->conf = conf;
    a->order = conf->init.tensor->order;
    a->rank = conf->init.rank;
    a->now.objective = NAN; /* of a run that has no sweep left */
    rc = check(a, err);
    if (rc == 0)
        rc = make(a, err);
    if (rc < 0) {
        ts_als_free(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void ts_als_free(struct ts_als *a)
{
    if (a == NULL)
        return;
    if (a->conf->checkpoint != NULL)
        ts_checkpoint_keep(a->conf->checkpoint, a->accelerate);
    else
        ts_accelerate_free(a->accelerate);
    free(a->memory);
    free(a);
}

int ts_als_next(struct ts_als *a, struct ts_err *err)
{
    const int starts = a->at == TS_ALS_START || a->at == TS_ALS_SIGN;
    int rc = a->at == TS_ALS_START ? begin(a, err) : take_product(a, err);
    if (rc == 0 && starts)
        ts_feed_skip(a->conf->feed, ts_constraint_skipped(a->constraint, a->order));
    return rc == 0 ? go_on(a, err) : rc;
}

void ts_als_fail(struct ts_als *a, int rc)
{
    (void)keep_place(a, rc);
}

int ts_als_result(const struct ts_als *a, struct ts_als_result *ret, struct ts_err *err)
{
    *ret = a->result;
    ret->weight = malloc((a->order + 1) * (size_t)a->rank * sizeof *ret->weight);
    if (ret->weight == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u weights", a->rank);
    take_weights(a, ret);
    return 0;
}

int ts_als_run(const struct ts_als_conf *conf, struct ts_als_result *ret, struct ts_err *err)
{
    struct ts_als *a;
    int rc = ts_als_new(conf, &a, err);
    if (rc < 0)
        return rc;
    while ((rc = ts_als_next(a, err)) > 0) {
        rc = ts_als_multiply(a, err);
        if (rc < 0) {
            ts_als_fail(a, rc);
            break;
        }
    }
    if (rc == 0)
        rc = ts_als_result(a, ret, err);
    ts_als_free(a);
    return rc;
}
