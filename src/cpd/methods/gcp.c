/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes models by losses other than least squares (generalized CP, stream/loss.h), by gradient
 * descent.
 *
 * The objective F is the sum of the loss f(x, m) over all cells, where unlisted cells have the
 * value 0, plus 1/2 l2 times the sum of squares of each factor. With `observed`, F sums over the
 * listed cells that are not held out (Hong, Kolda, Duersch, "Generalized canonical polyadic tensor
 * decomposition", SIAM Review 62, 2020; Kolda, Hong, "Stochastic gradients for large-scale tensor
 * decomposition", SIAM Journal on Mathematics of Data Science 2, 2020). gcp_adam.c and lbfgsb.c are
 * the methods that lower F; this file has what they share.
 *
 * A pass after the last mode sums F. The fit is the share of the deviance that the model explains
 * (deviance.h).
 *
 * From a start near zero, F falls slowly, then fast, then slowly again, and may rise for some
 * sweeps in between. So one small change does not mean convergence. The run is over when, in IDLE
 * sweeps in a row, F fell by less than the tolerance times its whole fall since the first sweep.
 * Other programs also stop when their estimate of F does not fall for some epochs. A resumed run
 * reads the F of earlier sweeps from its state.
 *
 * Random starts are scaled to the average of the values. If the model of a loss is a logarithm, one
 * component is that average, and the others are small with entries of both signs. In each mode,
 * scaled columns have the sign that its bounds allow. In the first mode that may have both signs,
 * columns get the sign with which the product of all modes has the sign of the average. If there is
 * no such mode, or the average is 0, all components of a logarithm are small.
 */
#include "cpd/methods/gcp_struct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/setting.h"
#include "base/stop.h"
#include "cpd/methods/deviance.h"
#include "cpd/methods/loss_values.h"
#include "format/shard.h"
#include "format/tensor_kind.h"
#include "stream/cells_norm.h"
#include "stream/loss.h"

#define RATE 0.05
/* the run ends after this many sweeps in a row in which the objective hardly fell */
#define IDLE 10u
/* for models that are logarithms: random starting entries are between -SPREAD and SPREAD */
#define SPREAD      0.6
#define CHUNK_BYTES (UINT64_C(1) << 20)

static const struct ts_loss *loss_of(const struct ts_solver *a)
{
    return ts_loss_of(a->spec->loss);
}

/* ---- memory for moments (matrices that the method keeps, such as those of Adam) ---- */

uint64_t ts_gcp_moments_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                              uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < t->order; m++)
        sum += n * ts_mode_rows_bytes(t, m, rank, precision);
    return sum;
}

int ts_gcp_make(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_tensor *t = a->conf->init.tensor;
    const uint32_t n = ts_spec_moments(a->spec);
    struct ts_gcp *g = a->own;
    char *at;
    int rc;
    g->rate = RATE;
    g->before = g->first = NAN;
    g->memory_bytes = 1;
    for (uint32_t m = 0; m < a->order; m++)
        g->memory_bytes += n * ts_mode_rows_bytes(t, m, a->rank, a->conf->precision);
    rc = ts_bigmem_new(g->memory_bytes, "moments of factors", &g->memory, err);
    if (rc < 0)
        return rc;
    memset(g->memory, 0, g->memory_bytes);
    at = g->memory;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t m = 0; m < a->order; m++) {
            g->moment[k][m] = at;
            at += ts_mode_rows_bytes(t, m, a->rank, a->conf->precision);
        }
    return 0;
}

/* Frees the moments, or leaves them to the checkpoint, which saves them in the state at the end of
 * the run. */
void ts_gcp_end(struct ts_solver *a)
{
    struct ts_gcp *g = a->own;
    if (g->memory != NULL && a->conf->checkpoint != NULL)
        ts_checkpoint_keep_moments(a->conf->checkpoint, g->memory, g->memory_bytes);
    else
        ts_bigmem_free(g->memory, g->memory_bytes);
}

/* ---- checks of the values of the tensor ---- */

/* Whether the values that this loss allows are zeros and ones, and not counts. */
static int is_of_bits(const struct ts_loss *loss)
{
    return !loss->allows(0.5) && !loss->allows(2);
}

int ts_gcp_check(const struct ts_solver *a, struct ts_err *err)
{
    const struct ts_solver_conf *conf = a->conf;
    const struct ts_tensor *t = conf->init.tensor;
    const struct ts_loss *loss = loss_of(a);
    if (is_of_bits(loss))
        if (a->spec->observed && t->nnz > 0 && t->header.value_min == t->header.value_max)
            return ts_fail(err, TS_EARG,
                           "%s: all listed values are %g, so with loss %s and observed cells alone "
                           "there is nothing to tell apart: build the tensor with its zeros "
                           "kept, or take unlisted cells for zeros",
                           t->path, t->header.value_min, loss->name);
    if (!a->spec->observed && !loss->sums && (t->header.flags & TS_TENSOR_DUPLICATES) != 0)
        return ts_fail(
            err, TS_EARG,
            "%s: its cells hold several nonzeros, which loss %s cannot tell from unlisted "
            "cells: with " TS_SET_OBSERVED
            " each counts alone, or build the tensor with their sums",
            t->path, loss->name);
    return ts_loss_values_check(t, loss, conf->init.stop, err);
}

/* ---- the starting factors ---- */

/* Returns about the mean value of the cells over which the loss is summed: the root mean square of
 * the nonzeros times the nonzeros' share of these cells. This is exact if the nonzeros are
 * equal. */
static double mean_value(const struct ts_init_conf *conf)
{
    const struct ts_tensor *t = conf->tensor;
    const int observed = conf->spec->observed;
    const int bits = is_of_bits(ts_loss_of(conf->spec->loss));
    double cells = 1, size;
    for (uint32_t m = 0; m < t->order; m++)
        cells *= (double)t->mode[m].disk.n_rows;
    if (t->nnz == 0 || !(ts_tensor_listed_norm(t) > 0))
        return 0.5 / (cells + 1);
    size = ts_tensor_listed_norm(t) / sqrt((double)t->nnz);
    if (bits) /* the mean of zeros and ones is the mean of their squares */
        size = fmin(size * size, 1 - 0.5 / (double)t->nnz);
    return observed ? size : fmin(size, 1e300) * fmin(0.5, (double)t->nnz / cells);
}

static int is_logarithm(int kind)
{
    return kind != TS_GCP_NONE && ts_loss_of(kind)->logarithm_of != NULL;
}

/* Returns the value that a model of random starting factors should have on average. */
static double start_value(const struct ts_init_conf *c)
{
    const struct ts_loss *loss = ts_loss_of(c->spec->loss);
    const double least = c->tensor->header.value_min, most = c->tensor->header.value_max;
    const int negative = least < 0 && most <= 0 && loss->allows(least);
    const double mean = negative ? -mean_value(c) : mean_value(c);
    return loss->constant != NULL ? loss->constant(mean, c->spec->loss_at) : mean;
}

/* Returns the factor by which random entries, which are 1/2 on average, are multiplied so that the
 * model has start_value on average. */
static double start_scale(const struct ts_init_conf *c)
{
    const uint32_t order = c->tensor->order;
    const double of_random = c->rank * exp2(-(double)order);
    return pow(fabs(start_value(c)) / of_random, 1.0 / order);
}

/* Returns 1 or -1 if entries of the mode may have only this sign, or 0 if they may have both. */
static int only_sign(const struct ts_spec *spec, uint32_t mode)
{
    const struct ts_constraint *c = &spec->mode[mode];
    if (ts_spec_positive(spec, mode))
        return 1;
    return c->bounded && c->upper <= 0 ? -1 : 0;
}

/* Chooses a sign for each mode, so that their product is the sign of `value`. Modes that allow one
 * sign get it; the first mode that allows both may get -1. Returns 0 if no choice gives this
 * product. */
static int choose_signs(const struct ts_spec *spec, uint32_t order, double value, int *sign)
{
    uint32_t open = order;
    int product = value < 0 ? -1 : 1;
    for (uint32_t k = order; k-- > 0;) {
        const int only = only_sign(spec, k);
        open = only == 0 ? k : open;
        sign[k] = only == 0 ? 1 : only;
        product *= sign[k];
    }
    if (product < 0 && open < order)
        sign[open] = -1;
    return product > 0 || open < order;
}

int ts_gcp_start_is_drawn(const struct ts_init_conf *c)
{
    const uint32_t order = c->tensor->order;
    int sign[TS_MAX_ORDER], drawn = 1;
    (void)choose_signs(c->spec, order, start_value(c), sign);
    for (uint32_t k = 0; k < order; k++)
        drawn = drawn && sign[k] > 0;
    return drawn && !is_logarithm(c->spec->loss) && start_scale(c) == 1;
}

int ts_gcp_lost_sign(const struct ts_tensor *t, const struct ts_spec *spec, double *mean)
{
    const struct ts_init_conf c = { .tensor = t, .spec = spec };
    int sign[TS_MAX_ORDER];
    double value;
    if (!is_logarithm(spec->loss))
        return 0;
    *mean = mean_value(&c);
    value = start_value(&c);
    return value == 0 || choose_signs(spec, t->order, value, sign) ? 0 : value < 0 ? -1 : 1;
}

struct start {
    int logarithm, positive; /* positive: negative entries become 0 */
    int constant;            /* 1: the first component is the average value */
    /* scale: multiplier of all entries; first: entries of the first component, if `constant` */
    double scale, first;
};

static void scale_rows(const struct start *s, uint64_t n, uint32_t rank, double *rows)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < rank; r++) {
            double *a = rows + i * rank + r;
            if (!s->logarithm)
                *a *= s->scale;
            else
                *a = r == 0 && s->constant ? s->first : SPREAD * (2 * *a - 1);
            if (s->positive && !(*a > 0))
                *a = 0;
        }
}

static int scale_mode(struct ts_solver *a, uint32_t mode, const struct start *s, double *rows,
                      struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint64_t n_rows = c->tensor->mode[mode].disk.n_rows;
    const uint64_t step = CHUNK_BYTES / (a->rank * sizeof(double));
    int rc = 0;
    for (uint64_t row = 0; row < n_rows && rc == 0; row += step) {
        const uint64_t n = n_rows - row < step ? n_rows - row : step;
        rc = c->backend->get_rows(c->be, mode, row, n, rows, err);
        if (rc < 0)
            break;
        scale_rows(s, n, a->rank, rows);
        rc = c->backend->put_rows(c->be, mode, row, n, rows, err);
        if (rc == 0)
            rc = ts_stop_check(c->stop, err);
    }
    return rc == 0 ? c->backend->gram(c->be, mode, a->gram + mode * a->square, err) : rc;
}

int ts_gcp_start(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const int kind = a->spec->loss;
    const double m = start_value(c);
    const double each = pow(fabs(m), 1.0 / a->order);
    const double scale = start_scale(c);
    int sign[TS_MAX_ORDER];
    const int possible = choose_signs(a->spec, a->order, m, sign);
    struct start s = { .logarithm = is_logarithm(kind), .constant = possible && m != 0 };
    double *rows;
    int rc = ts_gcp_make(a, err);
    /* a given model is not scaled; its Gram matrices become those of the rows in the backend */
    for (uint32_t k = 0; k < a->order && c->model != NULL && rc == 0; k++)
        rc = c->backend->gram(c->be, k, a->gram + k * a->square, err);
    if (rc < 0 || c->model != NULL)
        return rc;
    rows = malloc(CHUNK_BYTES);
    if (rows == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for rows of factors");
    for (uint32_t k = 0; k < a->order && rc == 0; k++) {
        s.first = sign[k] * each;
        s.scale = sign[k] * scale;
        s.positive = ts_spec_positive(a->spec, k);
        rc = scale_mode(a, k, &s, rows, err);
    }
    free(rows);
    return rc;
}

/* ---- arguments of the pass over a mode ---- */

double ts_gcp_size(const struct ts_solver *a, uint32_t mode)
{
    const double n = (double)a->conf->init.tensor->mode[mode].disk.n_rows * a->rank;
    double sum = 0;
    for (uint32_t r = 0; r < a->rank; r++)
        sum += a->gram[mode * a->square + (size_t)r * a->rank + r];
    return n > 0 ? sqrt(sum / n) : 0;
}

struct ts_descent ts_gcp_descent(const struct ts_solver *a, uint32_t mode)
{
    const struct ts_constraint *c = &a->spec->mode[mode];
    struct ts_descent ret = { .loss = loss_of(a),
                              .at = a->spec->loss_at,
                              .observed = a->spec->observed,
                              .hold_out = a->conf->hold_out,
                              .seed = ts_mix(a->conf->init.seed),
                              .l2 = c->l2,
                              .lower = fmax(loss_of(a)->lower, c->nonneg ? 0 : -INFINITY),
                              .upper = c->bounded ? c->upper : INFINITY };
    ret.lower = c->bounded ? fmax(ret.lower, c->lower) : ret.lower;
    return ret;
}

/* ---- sums of the loss ---- */

static void request_sums(struct ts_solver *a, struct ts_request *ret)
{
    struct ts_gcp *g = a->own;
    g->sums = (struct ts_loss_sums){ .loss = g->descent.loss,
                                     .at = g->descent.at,
                                     .observed = g->descent.observed,
                                     .hold_out = a->conf->hold_out };
    ret->kind = TS_REQUEST_LOSSES;
    ret->losses = &g->sums;
    ret->name = "loss";
}

int ts_gcp_request(struct ts_solver *a, const struct ts_descent *descent, struct ts_request *ret,
                   struct ts_err *err)
{
    struct ts_gcp *g = a->own;
    g->descent = *descent;
    (void)err;
    if (a->at == TS_SOLVER_AGAIN) {
        request_sums(a, ret);
        return 0;
    }
    ret->kind = TS_REQUEST_DESCEND;
    ret->descend = &g->descent;
    ret->name = descent->gradient != NULL ? "gradient" : "product and rows";
    return 0;
}

/* If a cell may hold several nonzeros, the loss is that of their sum. Then this sets the sum of the
 * least losses to that of whole cells. It is computed once, and each rank (process) reads the whole
 * tensor for it. */
static int sum_least(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const struct ts_cells_conf conf = { .tensor = c->tensor,
                                        .loss = loss_of(a),
                                        .at = a->spec->loss_at,
                                        .threads = c->threads,
                                        .stop = c->stop };
    struct ts_gcp *g = a->own;
    struct ts_cells_squares sums;
    int rc = 0;
    if (a->spec->observed || (c->tensor->header.flags & TS_TENSOR_DUPLICATES) == 0)
        return 0;
    if (!g->has_least) {
        rc = ts_cells_squares(&conf, &sums, err);
        g->least = rc == 0 ? sums.kept : 0;
        g->has_least = rc == 0;
    }
    g->kept.reference = g->least;
    return rc;
}

int ts_gcp_sum_up(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    struct ts_gcp *g = a->own;
    int rc;
    g->kept = g->sums.kept;
    g->held = g->sums.held;
    g->zeros = 0;
    rc = sum_least(a, err);
    if (rc < 0)
        return rc;
    return g->descent.observed ? 0
                               : c->backend->zeros(c->be, a->product, &g->descent, &g->zeros, err);
}

/* Returns the sum of the loss over the cells that count, or the sum of their least losses if
 * rounding has made the first sum smaller. So the fit is at most 1. A NaN stays NaN. */
static double sum_of(const struct ts_solver *a)
{
    const struct ts_gcp *g = a->own;
    const double least = ts_deviance_least(loss_of(a), &g->kept);
    const double sum = g->kept.loss + g->zeros;
    return sum < least ? least : sum;
}

double ts_gcp_objective(const struct ts_solver *a)
{
    double sum = sum_of(a);
    for (uint32_t m = 0; m < a->order; m++)
        sum += 0.5 * a->spec->mode[m].l2 * ts_solver_fit_trace(a, m);
    return sum;
}

/* Returns the number of cells over which the loss is summed. */
static double cells_of(const struct ts_solver *a)
{
    const struct ts_gcp *g = a->own;
    const struct ts_tensor *t = a->conf->init.tensor;
    double n = 1;
    for (uint32_t k = 0; k < t->order; k++)
        n *= (double)t->mode[k].disk.n_rows;
    return a->spec->observed ? g->kept.n : n;
}

double ts_gcp_fit(const struct ts_solver *a)
{
    const struct ts_gcp *g = a->own;
    return ts_deviance_fit(loss_of(a), a->spec->loss_at, cells_of(a), &g->kept, sum_of(a));
}

/* ---- the end of a sweep ---- */

void ts_gcp_note(struct ts_solver *a, double now)
{
    struct ts_gcp *g = a->own;
    const int begins = isnan(g->first);
    g->first = begins ? now : g->first;
    g->idle = begins || g->last - now > a->conf->tol * (g->first - now) ? 0 : g->idle + 1;
    g->last = now;
}

int ts_gcp_settled(const struct ts_solver *a, double change)
{
    const struct ts_gcp *g = a->own;
    (void)change;
    return a->conf->tol > 0 && g->idle >= IDLE;
}

int ts_gcp_tell(struct ts_solver *a)
{
    const struct ts_gcp *g = a->own;
    a->kept = g->kept.n;
    a->n_held = g->held.n;
    if (g->held.n > 0)
        a->now.held_out_loss = g->held.loss / g->held.n;
    return 1;
}

/* ---- the method's data in a state ---- */

void ts_gcp_save(const struct ts_solver *a, struct ts_state *s)
{
    const struct ts_gcp *g = a->own;
    memcpy(&s->part[TS_PART_RATE], &g->rate, sizeof g->rate);
    memcpy(&s->part[TS_PART_OBJECTIVE], &g->before, sizeof g->before);
    for (uint32_t k = 0; k < ts_spec_moments(a->spec); k++)
        for (uint32_t m = 0; m < a->order; m++)
            s->moment[k][m] = g->moment[k][m];
}

int ts_gcp_restore(struct ts_solver *a, const struct ts_state *s, struct ts_err *err)
{
    struct ts_gcp *g = a->own;
    int rc = ts_gcp_make(a, err);
    for (uint32_t k = 0; k < ts_spec_moments(a->spec); k++)
        for (uint32_t m = 0; m < a->order && rc == 0; m++)
            rc = ts_state_moment(a->conf->from, k, m, g->moment[k][m], err);
    memcpy(&g->rate, &s->part[TS_PART_RATE], sizeof g->rate);
    memcpy(&g->before, &s->part[TS_PART_OBJECTIVE], sizeof g->before);
    for (uint32_t k = 1; k < s->sweep && s->figured; k++)
        ts_gcp_note(a, s->figures[k - 1].objective);
    return rc;
}
