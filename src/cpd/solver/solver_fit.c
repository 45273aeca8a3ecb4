/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the fit from the factors and the last product, and how exact it is in spite of
 * rounding. */
#include <float.h>
#include <math.h>

#include "base/setting.h"
#include "cpd/solver/solver_struct.h"
#include "stream/cells_norm.h"

/* a squared residual below -CONTRADICTION times its expected rounding error is impossible */
#define CONTRADICTION 1000.0
#define FIT_SHARE     0.001              /* allowed error of the fit, relative to 1 - fit */
#define FLOAT32_ERROR (12 * FLT_EPSILON) /* relative error of a sum of terms in float32 */
/* relative error of a sum of many terms in float32: 4 times the error in tests */
#define ONCE_ERROR  (4 * FLT_EPSILON)
#define LEAST_ERROR 1e-6 /* error of a fit that is too small to be noticed */

/* a->v := the elementwise product of the Gram matrices of all modes but `skip` */
void ts_solver_multiply_grams(struct ts_solver *a, uint32_t skip)
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
void ts_solver_scale_both(const struct ts_solver *a, double *x)
{
    const double *restrict scale = a->scale;
    for (uint32_t i = 0; i < a->rank; i++) {
        double *restrict row = x + (size_t)i * a->rank;
        for (uint32_t j = 0; j < a->rank; j++)
            row[j] *= scale[i] * scale[j];
    }
}

double ts_solver_fit_model_square(struct ts_solver *a)
{
    double sum = 0;
    ts_solver_multiply_grams(a, a->order);
    for (uint32_t i = 0; i < a->rank; i++)
        for (uint32_t j = 0; j < a->rank; j++)
            sum += a->lambda[i] * a->lambda[j] * a->v[(size_t)i * a->rank + j];
    return sum;
}

/* Returns the fit after the last mode of a sweep. */
double ts_solver_fit_now(struct ts_solver *a)
{
    const double norm = a->conf->init.tensor->header.norm;
    return ts_solver_fit_of(a, norm * norm);
}

double ts_solver_fit_of(struct ts_solver *a, double square)
{
    const double norm = sqrt(square);
    a->fit_norm = norm;
    a->model = ts_solver_fit_model_square(a);
    a->left = square + a->model - 2 * a->inner;
    if (norm == 0) /* no nonzeros (check_values): a model of zeros is right */
        return a->model == 0 ? 1 : -INFINITY;
    return 1 - sqrt(a->left < 0 ? 0 : a->left) / norm; /* does not use fmax, which would hide NaN */
}

int ts_solver_fit_of_kept(struct ts_solver *a, double listed, double *ret, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const struct ts_cells_conf cells = {
        .tensor = c->tensor, .hold_out = &a->conf->hold_out, .threads = c->threads, .stop = c->stop
    };
    struct ts_cells_squares sums;
    int rc = 0;
    if ((c->tensor->header.flags & TS_TENSOR_DUPLICATES) == 0) {
        *ret = ts_solver_fit_of(a, listed);
        return 0;
    }
    /* the sum is computed once, and each rank (process) reads the whole tensor for it */
    if (a->kept_squares < 0) {
        rc = ts_cells_squares(&cells, &sums, err);
        a->kept_squares = rc == 0 ? sums.kept : -1;
    }
    if (rc == 0)
        *ret = ts_solver_fit_of(a, a->kept_squares);
    return rc;
}

/* Returns the norm of component r. a->v must be the product of the Gram matrices of all modes. */
static double component_norm(const struct ts_solver *a, uint32_t r)
{
    return a->lambda[r] * sqrt(a->v[(size_t)r * a->rank + r]);
}

int ts_solver_fit_is_rounded(const struct ts_solver *a)
{
    return a->conf->precision == TS_FLOAT32 && !ts_rest_fits(a->conf->init.tensor, a->rank);
}

/* Returns the error of the squared residual that rounding may cause: relative to the square of the
 * sizes of all terms, 64 epsilons of float64, or one epsilon of float32 if the last product was
 * rounded to float32. */
static double rounding(const struct ts_solver *a, int is_float32)
{
    double size = ts_tensor_listed_norm(a->conf->init.tensor);
    for (uint32_t r = 0; r < a->rank; r++)
        size += component_norm(a, r);
    return (is_float32 ? FLT_EPSILON : 64 * DBL_EPSILON) * size * size;
}

int ts_solver_fit_nothing_left(const struct ts_solver *a)
{
    return fabs(a->left) <= rounding(a, ts_solver_fit_is_rounded(a));
}

/* Refuses a squared residual that is negative by more than rounding: the nonzeros of the tensor and
 * the norm in its header disagree. Clipping the residual to 0 would report a fit of 1. */
int ts_solver_fit_check(const struct ts_solver *a, struct ts_err *err)
{
    const struct ts_tensor *t = a->conf->init.tensor;
    const double bound = CONTRADICTION * rounding(a, a->conf->precision == TS_FLOAT32);
    if (!(a->left < -bound))
        return 0;
    return ts_fail(
        err, TS_EFORMAT,
        "%s: sweep %u: its norm (%.9g) and its cells disagree: |X - model|^2 would be %.3g, "
        "which is below 0; tshard verify says whether the tensor is damaged",
        t->path, a->now.sweep, t->header.norm, a->left);
}

/* Whether products summed in float32 are exact enough for the fit. X is the tensor, and c a
 * component. An error of e in each term of <X, c> changes this sum by at most e |X| |c|. Errors of
 * different components are independent: together they are e |X| sqrt(sum |c|^2), which is e
 * sqrt(sum |c|^2) / (|X| - |X| fit) in the fit. Up to 128 terms are added one after another before
 * their sum is added in float64. Equal terms round in the same direction: e reached 11 FLT_EPSILON
 * in tests. margin: how many times this error must be below the allowed one. */
int ts_solver_fit_float32_will_do(const struct ts_solver *a, double margin)
{
    const double norm = a->conf->init.tensor->header.norm;
    double squares = 0;
    for (uint32_t r = 0; r < a->rank; r++)
        squares += component_norm(a, r) * component_norm(a, r);
    return a->left * FIT_SHARE >= margin * FLOAT32_ERROR * sqrt(squares) * norm || norm == 0;
}

/* Whether the last product is always summed in float32. Other products are summed again in float64
 * near a fit of 1. Orthonormal columns are computed from squares of the product (polar.c), so that
 * float64 is then no better than float32. */
static int is_summed_once(const struct ts_solver *a)
{
    const enum ts_row_kind last = ts_solver_kind(a, a->order - 1);
    if (a->spec->observed || a->spec->loss != TS_GCP_NONE)
        return 0;
    if (a->conf->precision != TS_FLOAT32)
        return last == TS_ROW_POLAR;
    return a->spec->held || a->spec->poisson || !ts_row_by_backend(last) ||
           ts_solver_fit_is_rounded(a);
}

double ts_solver_fit_error(const struct ts_solver *a, double fit)
{
    const double norm = ts_tensor_listed_norm(a->conf->init.tensor), miss = 1 - fit;
    double squares = 0, off, error;
    if (!is_summed_once(a) || !(norm > 0))
        return 0;
    for (uint32_t r = 0; r < a->rank; r++)
        squares += component_norm(a, r) * component_norm(a, r);
    off = ONCE_ERROR * sqrt(squares) / norm; /* rounding error of miss * miss */
    error = sqrt(miss * miss + off) - miss;
    return error > FIT_SHARE * miss && error > LEAST_ERROR ? error : 0;
}

double ts_solver_fit_trace(const struct ts_solver *a, uint32_t mode)
{
    double sum = 0;
    for (uint32_t r = 0; r < a->rank; r++)
        sum += a->gram[mode * a->square + (size_t)r * a->rank + r];
    return sum;
}

/* Returns the penalty of a mode, but without its l2. size: the sum of magnitudes of the factor's
 * entries with l1, that of squared second differences with smooth, the penalty itself with both. */
static double penalty(const struct ts_constraint *c, double size)
{
    if (c->l1 > 0 && c->smooth > 0)
        return size;
    return c->l1 > 0 ? c->l1 * size : c->smooth > 0 ? 0.5 * c->smooth * size : 0;
}

/* Returns the objective. left: |X - model|^2, X being the tensor. */
static double objective(const struct ts_solver *a, double left)
{
    double sum = 0.5 * (left < 0 ? 0 : left);
    for (uint32_t m = 0; m < a->order && a->penalty; m++) {
        const struct ts_constraint *c = &a->spec->mode[m];
        sum += penalty(c, a->size[m]) + 0.5 * c->l2 * ts_solver_fit_trace(a, m);
    }
    return sum;
}

/* Returns the objective if some mode has a penalty, otherwise NaN. */
double ts_solver_fit_objective(const struct ts_solver *a)
{
    return a->penalty ? objective(a, a->left) : NAN;
}

double ts_solver_fit_with_penalty(const struct ts_solver *a)
{
    const double norm = a->conf->init.tensor->header.norm;
    return a->penalty && norm > 0 ? 1 - sqrt(2 * objective(a, a->left)) / norm : a->now.fit;
}

double ts_solver_fit_watched(struct ts_solver *a, double inner)
{
    const double norm = a->conf->init.tensor->header.norm;
    for (uint32_t m = a->product + 1;
         m < a->order && a->penalty && (a->now.sweep <= 1 || a->accelerate != NULL); m++)
        if (a->spec->mode[m].l1 > 0 || a->spec->mode[m].smooth > 0)
            /* the penalties of later modes are not known: their factors are those from which the
             * sweep started */
            return NAN;
    return objective(a, norm * norm + ts_solver_fit_model_square(a) - 2 * inner);
}

uint32_t ts_solver_fit_count_dead(const struct ts_solver *a)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < a->rank; r++) {
        int dead = 0;
        for (uint32_t m = 0; m < a->order; m++)
            dead |= a->gram[m * a->square + (size_t)r * a->rank + r] == 0;
        n += (uint32_t)dead;
    }
    return n;
}

int ts_solver_not_finite(const struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    /* infinite values of the tensor may be the cause */
    const int rc = ts_tensor_check_values(c->tensor, c->stop, err);
    return rc < 0
               ? rc
               : ts_fail(
                     err, TS_ELIMIT,
                     "the fit of sweep %u is not finite: the values (up to %g)%s%s leave the range of "
                     "the precision; %s",
                     a->now.sweep, ts_solver_largest_value(&c->tensor->header),
                     c->model != NULL ? " or the entries of " : "",
                     c->model != NULL ? c->model->path : "",
                     a->conf->precision == TS_FLOAT32 ? "take " TS_SET_PRECISION
                                                        " float64, or scale them"
                                                      : "scale them so that the largest is near 1");
}
