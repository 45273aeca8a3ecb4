/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes alternating least squares, with constraints, by the equations of solver.h. */
#include <float.h>
#include <math.h>

#include "base/clock.h"
#include "cpd/solver/accelerate.h"
#include "cpd/solver/solver_struct.h"
#include "cpd/rows/row_maker.h"
#include "cpd/rows/symm.h"

/* after a sweep whose last MTTKRP was summed in float64, the next one is summed in float32 only if
 * the error that this causes is this many times below the allowed error of the fit */
#define CALM 2.0

/* ---- before the pass over a mode ---- */

/* Sets a->w to the pseudo-inverse of a->v, the product of Gram matrices. It is computed for columns
 * scaled to norm 1: lengths of columns must not decide which of them count as dependent. Called
 * before the pass, or as a->update.ready during it. */
static int invert(void *ctx, struct ts_err *err)
{
    struct ts_solver *a = ctx;
    const double cut = a->conf->precision == TS_FLOAT32 ? FLT_EPSILON : TS_SYMM_CUT;
    int rc;
    for (uint32_t r = 0; r < a->rank; r++) {
        const double square = a->v[(size_t)r * a->rank + r];
        a->scale[r] = square > 0 ? 1 / sqrt(square) : 1;
    }
    ts_solver_scale_both(a, a->v);
    rc = ts_symm_pinv_by(a->conf->init.threads, a->rank, a->v, cut, a->conf->init.stop, a->w,
                         &a->singular, err);
    ts_solver_scale_both(a, a->w);
    return rc;
}

/* Prepares ADMM for simplex rows, with twice the rounds of coordinate descent, and sets a->w to (v
 * + rho I)^-1, v being the product of Gram matrices and rho the mean of its diagonal. The condition
 * number of v + rho I is below rank + 1. */
static int prepare_simplex(struct ts_solver *a, struct ts_row_update *ret, struct ts_err *err)
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
    rc = ts_symm_pinv_by(a->conf->init.threads, a->rank, a->v, TS_SYMM_CUT, a->conf->init.stop,
                         a->w, NULL, err);
    for (uint32_t r = 0; r < a->rank; r++)
        a->v[(size_t)r * a->rank + r] = a->scale[r];
    return rc;
}

/* Sets the bounds and l2 of mode a->product in a->update. */
void ts_solver_limit_rows(struct ts_solver *a)
{
    const struct ts_constraint *c = &a->spec->mode[a->product];
    struct ts_row_update *update = &a->update;
    update->lower = c->nonneg ? 0 : -INFINITY;
    update->upper = INFINITY;
    if (c->bounded) {
        update->lower = fmax(update->lower, c->lower);
        update->upper = c->upper;
    }
    update->l2 = c->l2;
}

/* Whether the starting factors are far too large for the tensor. It is called before the first mode
 * is solved. */
static int starts_too_large(struct ts_solver *a)
{
    const struct ts_tensor *t = a->conf->init.tensor;
    double cells = 1;
    for (uint32_t m = 0; m < a->order; m++)
        cells *= (double)t->mode[m].disk.n_rows;
    return a->now.sweep <= 1 &&
           ts_constraint_too_large(t->header.norm, t->nnz, cells, ts_solver_fit_model_square(a));
}

static int begin(struct ts_solver *a, struct ts_err *err)
{
    const uint32_t mode = a->product;
    struct ts_row_update *update = &a->update;
    int too_large;
    too_large = ts_row_reads_old(update->kind) && starts_too_large(a);
    ts_solver_limit_rows(a);
    ts_solver_multiply_grams(a, mode);
    for (uint32_t r = 0; r < a->rank && update->l2 > 0; r++)
        a->v[(size_t)r * a->rank + r] += update->l2;
    if (update->kind == TS_ROW_LEAST_SQUARES) {
        update->matrix = a->w;
        if (!ts_backend_can(a->conf->init.backend, TS_CAN_AT_ONCE))
            return invert(a, err);
        update->ready = invert;
        update->ctx = a;
        return 0;
    }
    update->matrix = a->v;
    update->l1 = a->now.sweep > 0 ? a->spec->mode[mode].l1
                                  /* no l1 before the first sweep: it might make the factor 0 */
                                  : 0;
    a->sums.size = update->l1 > 0 ? &a->size[mode] : NULL;
    update->rounds = ts_constraint_rounds(too_large, a->order, a->conf->init.tensor->nnz,
                                          a->conf->init.tensor->mode[mode].disk.n_rows, a->rank);
    return update->kind == TS_ROW_SIMPLEX ? prepare_simplex(a, update, err) : 0;
}

/* ---- the product (MTTKRP) and the rows from it ---- */

/* Requests the MTTKRP, and the rows too if the backend computes both in one call. */
static int request(struct ts_solver *a, struct ts_request *ret, struct ts_err *err)
{
    (void)err;
    a->solved =
        ts_backend_can(a->conf->init.backend, TS_CAN_AT_ONCE) && ts_row_by_backend(a->update.kind);
    ret->kind = TS_REQUEST_PRODUCT;
    ret->update = a->solved ? &a->update : NULL;
    ret->sums = a->solved ? &a->sums : NULL;
    ret->name = a->solved ? "product and rows" : "product";
    return 0;
}

static int rows(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const struct ts_row_maker *maker = ts_row_maker_of(a->update.kind);
    const struct ts_row_task task = { .init = c,
                                      .precision = a->conf->precision,
                                      .mode = a->product,
                                      .update = &a->update,
                                      .gram = a->v,
                                      .scratch = a->w,
                                      .sums = &a->sums,
                                      .size = &a->size[a->product],
                                      .singular = &a->singular };
    return maker != NULL ? maker->make(&task, err)
                         : c->backend->solve(c->be, a->product, &a->update, &a->sums, err);
}

/* Divides columns by the power of two nearest to their norm. Division by the norm itself would
 * round the entries, so the Gram matrix would not be that of the entries: an error of about
 * float32's epsilon, which exceeds |X - model|^2 near a fit of 1. */
static void norm_columns(struct ts_solver *a, uint32_t mode)
{
    double *gram = a->gram + mode * a->square;
    for (uint32_t r = 0; r < a->rank; r++) {
        const double norm = sqrt(gram[(size_t)r * a->rank + r]);
        a->lambda[r] = norm > 0 && isfinite(norm) ? exp2(rint(log2(norm))) : norm;
        a->scale[r] = norm > 0 ? 1 / a->lambda[r] : 1;
        /* the column is 0; its weight is 1 so that other modes stay finite */
        if (a->constrained && norm == 0)
            a->lambda[r] = 1;
    }
    ts_solver_scale_both(a, gram);
}

/* Scales columns that do not matter to the model, because their component is 0 in another mode, to
 * a length near 1 by a power of two. Least squares leaves only rounding errors in such columns,
 * which may leave the range of float32 and end the run. At this length the component can become
 * nonzero again. Used in runs that do not normalize columns. Returns whether any column was
 * scaled. */
static int norm_unseen(struct ts_solver *a, uint32_t mode)
{
    double *gram = a->gram + mode * a->square;
    int any = 0;
    for (uint32_t r = 0; r < a->rank; r++) {
        const size_t at = (size_t)r * a->rank + r;
        const int unseen = a->v[at] == 0 && gram[at] > 0 && isfinite(gram[at]);
        a->scale[r] = unseen ? 1 / exp2(rint(log2(sqrt(gram[at])))) : 1;
        any |= unseen;
    }
    if (any)
        ts_solver_scale_both(a, gram);
    return any;
}

/* Scales the columns of the new factor to lengths near 1, and moves the lengths to the weights. */
int ts_solver_norm(struct ts_solver *a, struct ts_err *err)
{
    const uint32_t mode = a->product;
    const struct ts_init_conf *c = &a->conf->init;
    if (!a->balanced) {
        norm_columns(a, mode);
        return c->backend->scale(c->be, mode, a->scale, err);
    }
    for (uint32_t r = 0; r < a->rank; r++)
        a->lambda[r] = 1;
    if (a->update.kind == TS_ROW_LEAST_SQUARES && a->update.l2 == 0 && norm_unseen(a, mode))
        return c->backend->scale(c->be, mode, a->scale, err);
    return 0;
}

/* ---- the fit ---- */

/* Begins the last mode's MTTKRP once more, in float64, for the fit. With least squares, its rows
 * are solved again from the same operands. An update that reads the old rows would make a further
 * step, so with such updates the factor stays as it is. */
static int begin_again(struct ts_solver *a, struct ts_err *err)
{
    const enum ts_row_kind kind = ts_solver_kind(a, a->order - 1);
    ts_solver_sum_in(a, TS_FLOAT64);
    if (!ts_row_reads_old(kind))
        a->now.n_singular -= a->last_singular;
    a->pending = ts_row_reads_old(kind);
    return ts_solver_begin_product(a, a->order - 1, a->pending ? TS_ROW_KEEP : kind, err);
}

/* Chooses the precision in which the last MTTKRP of the next sweep is summed. */
static void choose_sums(struct ts_solver *a)
{
    a->wide = !ts_solver_fit_float32_will_do(a, CALM);
    ts_solver_sum_in(a, a->wide ? TS_FLOAT64 : TS_FLOAT32);
}

static int judge(struct ts_solver *a, struct ts_err *err)
{
    if (!a->pending)
        a->now.fit = ts_solver_fit_now(a);
    if (a->conf->precision != TS_FLOAT32)
        return ts_solver_fit_check(a, err);
    if (a->pending || (!a->wide && !ts_solver_fit_float32_will_do(a, 1)))
        return begin_again(a, err);
    choose_sums(a);
    return ts_solver_fit_check(a, err);
}

static int judged(struct ts_solver *a, struct ts_err *err)
{
    a->pending = 0;
    a->now.fit = ts_solver_fit_now(a);
    choose_sums(a);
    return ts_solver_fit_check(a, err);
}

static int settled(const struct ts_solver *a, double change)
{
    return a->accelerate != NULL ? ts_accelerate_settled(a->accelerate, a->conf->tol)
                                 : fabs(change) < a->conf->tol;
}

static int is_asked(const struct ts_spec *spec)
{
    (void)spec;
    return 1;
}

static struct ts_method_bytes bytes(const struct ts_tensor *t, uint32_t rank,
                                    enum ts_precision precision, const struct ts_spec *spec)
{
    (void)precision;
    return (struct ts_method_bytes){ .work = ts_row_makers_bytes(t, rank, spec) };
}

const struct ts_method ts_least_squares = {
    .name = "least squares",
    .sums_of_modes = 1,
    .judged_by_cells = 1,
    .bytes = bytes,
    .is_asked = is_asked,
    .begin = begin,
    .request = request,
    .rows = rows,
    .norm = ts_solver_norm,
    .judge = judge,
    .judged = judged,
    .exact = ts_solver_fit_nothing_left,
    .objective = ts_solver_fit_objective,
    .settled = settled,
};
