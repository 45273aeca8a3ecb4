/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of ALS: update each mode, norm its columns, compute the fit, and decide when to stop. */
#include "cpd/als.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "cpd/accelerate.h"
#include "cpd/symm.h"

#define FIT_SHARE     0.001              /* of 1 - fit: what the fit may be off by */
#define FLOAT32_ERROR (12 * FLT_EPSILON) /* of a term's sum in float32 */
#define CALM          2.0 /* so much better than needed must float32 be to be gone back to */
#define RESTORE_BYTES (UINT64_C(1) << 20) /* of float64 rows on their way to the backend */

struct als {
    const struct ts_als_conf *conf;
    uint32_t order, rank;
    size_t square;      /* rank * rank */
    double *gram;       /* order x rank x rank */
    double *v, *w;      /* rank x rank: product of Gram matrices, its inverse */
    double *lambda;     /* rank: what the columns of the mode solved last were divided by */
    double *scale;      /* rank: what columns are multiplied with */
    double inner;       /* <X, model> after the last mode */
    double model, left; /* |model|^2, |X - model|^2 with its rounding */
    int exact;          /* nothing but rounding is left of it after the last sweep */
    int wide;           /* the last mode is summed in float64, its factors being float32 */
    const struct ts_constraint *constraint; /* of each mode; NULL: none */
    int penalty;                            /* some mode has one */
    int balanced;                     /* columns keep their lengths between modes: they matter */
    double size[TS_MAX_ORDER];        /* sum of the magnitudes of a factor whose l1 is not 0 */
    struct ts_accelerate *accelerate; /* NULL: sweeps start where the one before ended */
    int pending; /* the last mode is solved; its product is to be summed once more for the fit */
    uint32_t last_singular; /* 1 when the mode solved last needed the pseudo-inverse */
    uint64_t slowest_ns;    /* kernel time of each mode's slowest device, over the sweep so far */
    uint64_t start_ns;      /* of the sweep under way, pauses left out */
    struct ts_als_sweep now;
};

/* v := elementwise product of the Gram matrices of all modes but `skip` */
static void multiply_grams(struct als *a, uint32_t skip)
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
static void scale_both(const struct als *a, double *x)
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
static void norm_columns(struct als *a, uint32_t mode)
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

static enum ts_row_kind kind_of(const struct als *a, uint32_t mode)
{
    return a->constraint == NULL ? TS_ROW_LEAST_SQUARES : ts_constraint_kind(&a->constraint[mode]);
}

/* w := pinv(v) as it is for columns of norm 1: which of them count as dependent is not a matter of
 * their lengths. */
static int invert(struct als *a, int *singular, struct ts_err *err)
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
static uint64_t trace_step(const struct als *a, const char *what, uint64_t start, uint32_t mode)
{
    const uint64_t now = ts_clock_ns();
    ts_trace_add(a->conf->trace, TS_TRACE_MODES, what, start, now, mode, TS_TRACE_NO_SHARD, 0);
    return now;
}

/* The product and the rows: in one call where the backend has one, else in two. */
static int update_mode(struct als *a, uint32_t mode, const struct ts_row_update *how,
                       struct ts_backend_times *times, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const struct ts_row_sums sums = {
        .gram = how->kind == TS_ROW_KEEP ? a->w : a->gram + mode * a->square, /* w: of no use */
        .inner = mode + 1 == a->order ? &a->inner : NULL,
        .size = how->l1 > 0 ? &a->size[mode] : NULL,
    };
    const uint64_t start = ts_clock_ns();
    uint64_t then;
    int rc;
    ts_feed_rewind(a->conf->feed);
    if (c->backend->update != NULL) {
        rc = c->backend->update(c->be, mode, a->conf->feed, how, &sums, times, err);
        trace_step(a, "product and rows", start, mode);
        return rc;
    }
    rc = c->backend->mttkrp(c->be, mode, a->conf->feed, times, err);
    if (rc < 0)
        return rc;
    then = trace_step(a, "product", start, mode);
    rc = c->backend->solve(c->be, mode, how, &sums, err);
    times->device[0].solve_ns = trace_step(a, "rows", then, mode) - then;
    times->total_ns += times->device[0].solve_ns;
    return rc;
}

/* Means over devices; what is not the backend's counts as solving. */
static void add_times(struct als *a, const struct ts_backend_times *t, uint64_t all_ns)
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
static int prepare_simplex(struct als *a, struct ts_row_update *ret, struct ts_err *err)
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
static int prepare(struct als *a, uint32_t mode, enum ts_row_kind kind, struct ts_row_update *ret,
                   int *singular, struct ts_err *err)
{
    static const struct ts_constraint none;
    const struct ts_constraint *c = a->constraint != NULL ? &a->constraint[mode] : &none;
    *ret = (struct ts_row_update){ .kind = kind, .weight = a->lambda };
    *singular = 0;
    if (kind == TS_ROW_KEEP)
        return 0;
    multiply_grams(a, mode);
    for (uint32_t r = 0; r < a->rank && c->l2 > 0; r++)
        a->v[(size_t)r * a->rank + r] += c->l2;
    if (kind == TS_ROW_LEAST_SQUARES) {
        ret->matrix = a->w;
        return invert(a, singular, err);
    }
    ret->matrix = a->v;
    ret->l1 = a->now.sweep > 0 ? c->l1 : 0; /* before the first sweep it might leave nothing */
    ret->lower = c->nonneg ? 0 : -INFINITY;
    ret->upper = INFINITY;
    if (c->bounded) {
        ret->lower = fmax(ret->lower, c->lower);
        ret->upper = c->upper;
    }
    ret->rounds = ts_constraint_rounds(a->order, a->conf->init.tensor->nnz,
                                       a->conf->init.tensor->mode[mode].disk.n_rows, a->rank);
    return kind == TS_ROW_SIMPLEX ? prepare_simplex(a, ret, err) : 0;
}

/* The factor of the mode is new: its columns get their lengths back to 1, and the weights the rest. */
static int norm_mode(struct als *a, uint32_t mode, struct ts_err *err)
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

/* kind: that of the mode, or TS_ROW_KEEP. Before the first sweep nobody is told. */
static int solve_mode(struct als *a, uint32_t mode, enum ts_row_kind kind, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_backend_times times = { 0 };
    struct ts_als_mode done = { .sweep = a->now.sweep, .mode = mode, .times = &times };
    struct ts_row_update how;
    uint64_t then;
    int singular, rc;
    if (kind == TS_ROW_KEEP && mode + 1 < a->order) { /* the fit is computed elsewhere */
        if (a->conf->mode != NULL)
            a->conf->mode(a->conf->ctx, &done);
        return 0;
    }
    rc = prepare(a, mode, kind, &how, &singular, err);
    trace_step(a, "inverse", start, mode);
    if (rc == 0)
        rc = update_mode(a, mode, &how, &times, err);
    if (rc < 0)
        return rc;
    then = ts_clock_ns();
    if (kind != TS_ROW_KEEP)
        rc = norm_mode(a, mode, err);
    done.total_ns = trace_step(a, "scale", then, mode) - start;
    a->last_singular = (uint32_t)singular;
    a->now.n_singular += a->last_singular;
    add_times(a, &times, done.total_ns);
    if (rc == 0 && a->conf->mode != NULL && a->now.sweep > 0)
        a->conf->mode(a->conf->ctx, &done);
    return rc;
}

/* The fit after the last mode of a sweep. */
static double fit_now(struct als *a)
{
    const double norm = a->conf->init.tensor->header.norm;
    a->model = 0;
    multiply_grams(a, a->order);
    for (uint32_t i = 0; i < a->rank; i++)
        for (uint32_t j = 0; j < a->rank; j++)
            a->model += a->lambda[i] * a->lambda[j] * a->v[(size_t)i * a->rank + j];
    a->left = norm * norm + a->model - 2 * a->inner;
    if (norm == 0) /* no nonzeros (check_values): the model is zero too, and right */
        return a->model == 0 ? 1 : -INFINITY;
    return 1 - sqrt(a->left < 0 ? 0 : a->left) / norm; /* not fmax: NaN is to be seen */
}

/* Norm of component r, a->v being that of the Gram matrices of all modes (fit_now). */
static double component_norm(const struct als *a, uint32_t r)
{
    return a->lambda[r] * sqrt(a->v[(size_t)r * a->rank + r]);
}

static int is_rounded(const struct als *a)
{
    return a->conf->precision == TS_FLOAT32 && !ts_rest_fits(a->conf->init.tensor, a->rank);
}

/* Rounding alone may have made what is left: 64 units of float64 of the terms, or, where the last
 * product was rounded to float32, one of that. */
static int nothing_left(const struct als *a)
{
    double size = a->conf->init.tensor->header.norm;
    for (uint32_t r = 0; r < a->rank; r++)
        size += component_norm(a, r);
    return a->left <= (is_rounded(a) ? FLT_EPSILON : 64 * DBL_EPSILON) * size * size;
}

/* Is the fit right with products summed in float32? With |c| the norm of component c, an error
 * of e in each term of <X, c> makes one of at most e |X| |c|. Components differ, and so do their
 * errors: together they are e |X| sqrt(sum |c|^2), which is e sqrt(sum |c|^2) / (|X| - |X| fit)
 * in the fit. Up to 128 terms are added one after another before their sum goes to float64;
 * where they are equal, they round alike: e was seen to reach 11 FLT_EPSILON. */
static int float32_will_do(const struct als *a, double margin)
{
    const double norm = a->conf->init.tensor->header.norm;
    double squares = 0;
    for (uint32_t r = 0; r < a->rank; r++)
        squares += component_norm(a, r) * component_norm(a, r);
    return a->left * FIT_SHARE >= margin * FLOAT32_ERROR * sqrt(squares) * norm || norm == 0;
}

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
                   largest_value(h), squares_vanish ? "" : ", or take --precision float64");
}

static void sum_in(const struct als *a, enum ts_precision precision)
{
    const struct ts_init_conf *c = &a->conf->init;
    if (a->conf->precision == TS_FLOAT32)
        c->backend->sum_in(c->be, precision);
}

/* The last mode once more, in float64. By least squares it is solved again, from the same operands; where
 * rows come from the old ones that would be a step further, so there the factor stays. */
static int sum_again(struct als *a, struct ts_err *err)
{
    const enum ts_row_kind kind = kind_of(a, a->order - 1);
    int rc;
    sum_in(a, TS_FLOAT64);
    if (kind == TS_ROW_LEAST_SQUARES)
        a->now.n_singular -= a->last_singular;
    a->pending = kind != TS_ROW_LEAST_SQUARES;
    rc = solve_mode(a, a->order - 1, a->pending ? TS_ROW_KEEP : kind, err);
    if (rc == 0)
        a->pending = 0;
    return rc;
}

/* The fit of the sweep, and how the next one's last mode is to be summed. */
static int take_fit(struct als *a, struct ts_err *err)
{
    int rc = 0;
    if (!a->pending)
        a->now.fit = fit_now(a);
    if (a->conf->precision != TS_FLOAT32)
        return 0;
    if (a->pending || (!a->wide && !float32_will_do(a, 1))) {
        rc = sum_again(a, err);
        a->now.fit = fit_now(a);
    }
    a->wide = !float32_will_do(a, CALM);
    sum_in(a, a->wide ? TS_FLOAT64 : TS_FLOAT32);
    return rc;
}

static double trace_of(const struct als *a, uint32_t mode)
{
    double sum = 0;
    for (uint32_t r = 0; r < a->rank; r++)
        sum += a->gram[mode * a->square + (size_t)r * a->rank + r];
    return sum;
}

/* What is minimised, where it is more than the distance. */
static double objective_now(const struct als *a)
{
    double sum = 0.5 * (a->left < 0 ? 0 : a->left);
    if (!a->penalty)
        return NAN;
    for (uint32_t m = 0; m < a->order; m++) {
        const struct ts_constraint *c = &a->constraint[m];
        sum += (c->l1 > 0 ? c->l1 * a->size[m] : 0) + 0.5 * c->l2 * trace_of(a, m);
    }
    return sum;
}

static uint32_t count_dead(const struct als *a)
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

/* ---- where the run is ---- */

static void count_read(struct als *a)
{
    struct ts_feed_stats stats;
    ts_feed_stats(a->conf->feed, &stats);
    a->now.bytes_read += stats.bytes_read;
}

/* At the beginning of `mode` of `sweep`. */
static struct ts_state where(struct als *a, uint32_t sweep, uint32_t mode, unsigned flags)
{
    struct ts_state s = { .sweep = sweep,
                          .mode = mode,
                          .gram = a->gram,
                          .lambda = a->lambda,
                          .flags = flags | (a->wide ? TS_STATE_WIDE : 0u) |
                                   (a->exact ? TS_STATE_EXACT : 0u) |
                                   (a->pending ? TS_STATE_FIT : 0u) };
    memcpy(s.size, a->size, sizeof s.size);
    if (a->accelerate != NULL)
        ts_accelerate_tell(a->accelerate, &s);
    if (mode == 0) /* nothing was done of it */
        return s;
    count_read(a);
    s.part[TS_PART_TOTAL_NS] = ts_clock_ns() - a->start_ns;
    s.part[TS_PART_WAIT_NS] = a->now.wait_ns;
    s.part[TS_PART_COPY_NS] = a->now.copy_ns;
    s.part[TS_PART_KERNEL_NS] = a->now.kernel_ns;
    s.part[TS_PART_SOLVE_NS] = a->now.solve_ns;
    s.part[TS_PART_EXPOSED_NS] = a->now.exposed_ns;
    s.part[TS_PART_SLOWEST_NS] = a->slowest_ns;
    s.part[TS_PART_BYTES_READ] = a->now.bytes_read;
    s.part[TS_PART_N_SINGULAR] = a->now.n_singular;
    return s;
}

static void save(struct als *a, uint32_t sweep, uint32_t mode)
{
    struct ts_state s;
    if (a->conf->checkpoint == NULL)
        return;
    s = where(a, sweep, mode, 0);
    ts_checkpoint_save(a->conf->checkpoint, &s);
}

/* Between two modes: the user may want to stop, a state be due. */
static int between_modes(struct als *a, uint32_t sweep, uint32_t mode, struct ts_err *err)
{
    struct ts_checkpoint *c = a->conf->checkpoint;
    if (ts_stop_asked(a->conf->init.stop)) {
        save(a, sweep, mode);
        return mode > 0 ? ts_fail(err, TS_ESTOP, "stopped in sweep %u", sweep)
                        : ts_fail(err, TS_ESTOP, "stopped after sweep %u", sweep - 1);
    }
    if (c != NULL && ts_checkpoint_due(c)) {
        struct ts_state s = where(a, sweep, mode, 0);
        ts_checkpoint_take(c, &s);
    }
    return 0;
}

/* What the modes before `mode` of a sweep did. */
static void begin_sweep(struct als *a, uint32_t sweep, uint32_t mode)
{
    memset(&a->now, 0, sizeof a->now);
    a->now.sweep = sweep;
    a->start_ns = ts_clock_ns();
    a->slowest_ns = 0;
    if (mode > 0) {
        const uint64_t *part = ts_state_get(a->conf->from)->part;
        a->start_ns -= part[TS_PART_TOTAL_NS];
        a->now.wait_ns = part[TS_PART_WAIT_NS];
        a->now.copy_ns = part[TS_PART_COPY_NS];
        a->now.kernel_ns = part[TS_PART_KERNEL_NS];
        a->now.solve_ns = part[TS_PART_SOLVE_NS];
        a->now.exposed_ns = part[TS_PART_EXPOSED_NS];
        a->slowest_ns = part[TS_PART_SLOWEST_NS];
        a->now.bytes_read = part[TS_PART_BYTES_READ];
        a->now.n_singular = (uint32_t)part[TS_PART_N_SINGULAR];
    }
}

/* The factors that the sweep starts from. */
static int take_step(struct als *a, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    const int rc = ts_accelerate_step(a->accelerate, a->gram, a->lambda, err);
    a->now.solve_ns += trace_step(a, "step", start, 0) - start;
    return rc;
}

/* From `mode` on. */
static int run_sweep(struct als *a, uint32_t sweep, uint32_t mode, double before,
                     struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    int rc = 0;
    begin_sweep(a, sweep, mode);
    if (a->accelerate != NULL && mode == 0)
        rc = take_step(a, err);
    if (rc < 0)
        return rc;
    for (uint32_t m = mode; m < a->order && !a->pending; m++) {
        rc = solve_mode(a, m, kind_of(a, m), err);
        if (rc == TS_ESTOP)
            save(a, sweep, m);
        else if (rc == 0 && m + 1 < a->order)
            rc = between_modes(a, sweep, m + 1, err);
        if (rc < 0)
            return rc;
    }
    rc = take_fit(a, err);
    if (rc == TS_ESTOP) /* the last mode was to be done once more */
        save(a, sweep, a->order - 1);
    if (rc < 0)
        return rc;
    a->exact = nothing_left(a);
    a->now.objective = objective_now(a);
    a->now.n_dead = count_dead(a);
    a->now.change = a->now.fit - before;
    if (!isfinite(a->now.fit)) {
        rc = ts_tensor_check_values(c->tensor, c->stop, err); /* they may be the cause */
        return rc < 0
                   ? rc
                   : ts_fail(
                         err, TS_ELIMIT,
                         "the fit of sweep %u is not finite: the values (up to %g)%s%s leave the range of "
                         "the precision; %s",
                         sweep, largest_value(&c->tensor->header),
                         c->model != NULL ? " or the entries of " : "",
                         c->model != NULL ? c->model->path : "",
                         a->conf->precision == TS_FLOAT32
                             ? "take --precision float64, or scale them"
                             : "scale them so that the largest is near 1");
    }
    if (a->accelerate != NULL)
        ts_accelerate_fit(a->accelerate, sweep, a->now.fit);
    count_read(a);
    a->now.imbalance = a->now.kernel_ns > 0 ? (double)a->slowest_ns / (double)a->now.kernel_ns : 1;
    a->now.total_ns = ts_clock_ns() - a->start_ns;
    if (a->conf->sweep != NULL)
        a->conf->sweep(a->conf->ctx, &a->now);
    return 0;
}

/* Starts are positive. If the first mode that is solved must not be negative, negative parts of the tensor make it 0
 * before a mode that may take their sign is solved, and zeros stay. Then the last such mode is to be solved before the
 * first sweep. Returns the order where nothing is. */
static uint32_t sign_mode(const struct als *a)
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
static uint32_t free_mode(const struct als *a)
{
    uint32_t m = 0;
    while (m < a->order && (a->constraint[m].fixed || ts_constraint_rigid(&a->constraint[m])))
        m++;
    return m;
}

/* Weights of the start count with old rows. Where lengths of some modes are not to be changed, they go into a mode whose
 * lengths may be. */
static int start_weights(struct als *a, struct ts_err *err)
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

static int init_factors(struct als *a, struct ts_err *err)
{
    const uint32_t sign = sign_mode(a);
    int rc;
    for (uint32_t m = 0; m < a->order; m++) {
        const int unused = m == 0 && sign == a->order &&
                           kind_of(a, 0) != TS_ROW_KEEP; /* solved before it is an operand */
        rc = ts_init_mode(&a->conf->init, m, unused ? NULL : a->gram + m * a->square, err);
        if (rc < 0)
            return rc;
    }
    rc = start_weights(a, err);
    return rc == 0 && sign < a->order ? solve_mode(a, sign, kind_of(a, sign), err) : rc;
}

/* The rows of a factor, from the state to the backend. */
static int restore_factor(const struct als *a, uint32_t mode, double *rows, uint64_t step,
                          struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint64_t n_rows = ts_state_get(a->conf->from)->n_rows[mode];
    int rc = 0;
    for (uint64_t row = 0; row < n_rows && rc == 0; row += step) {
        const uint64_t n = n_rows - row < step ? n_rows - row : step;
        rc = ts_state_rows(a->conf->from, mode, row, n, rows, err);
        if (rc == 0)
            rc = c->backend->put_rows(c->be, mode, row, n, rows, err);
        if (rc == 0)
            rc = ts_stop_check(c->stop, err);
    }
    return rc;
}

static int restore(struct als *a, struct ts_err *err)
{
    const struct ts_state *s = ts_state_get(a->conf->from);
    const uint64_t step = RESTORE_BYTES / (a->rank * sizeof(double));
    double *rows = malloc(RESTORE_BYTES);
    int rc = rows == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for rows of factors") : 0;
    for (uint32_t m = 0; m < a->order && rc == 0; m++)
        if ((s->factors >> m & 1) != 0)
            rc = restore_factor(a, m, rows, step, err);
    free(rows);
    memcpy(a->gram, s->gram, a->order * a->square * sizeof *a->gram);
    memcpy(a->lambda, s->lambda, a->rank * sizeof *a->lambda);
    a->wide = (s->flags & TS_STATE_WIDE) != 0;
    a->exact = (s->flags & TS_STATE_EXACT) != 0;
    a->pending = (s->flags & TS_STATE_FIT) != 0;
    memcpy(a->size, s->size, sizeof a->size);
    sum_in(a, a->wide ? TS_FLOAT64 : TS_FLOAT32);
    return rc == 0 && a->accelerate != NULL
               ? ts_accelerate_restore(a->accelerate, a->conf->from, err)
               : rc;
}

int ts_als_check_from(const struct ts_als_conf *conf, struct ts_err *err)
{
    static const char *const name[] = { "float32", "float64" };
    const struct ts_state *s = ts_state_get(conf->from);
    const char *path = ts_state_path(conf->from);
    /* only a run that ended has all factors of its last sweep: others lack that of the mode they are at */
    const uint32_t least = s->sweep - ((s->flags & TS_STATE_ENDED) != 0);
    if (s->rank != conf->init.rank)
        return ts_fail(err, TS_EARG, "%s: the run has rank %u, but --rank is %u", path, s->rank,
                       conf->init.rank);
    if (s->precision != conf->precision)
        return ts_fail(err, TS_EARG, "%s: the run has precision %s, but --precision is %s", path,
                       name[s->precision], name[conf->precision]);
    for (uint32_t m = 0; m < s->order && s->order == conf->init.tensor->order; m++) {
        const struct ts_constraint now =
            conf->init.constraint == NULL ? (struct ts_constraint){ 0 } : conf->init.constraint[m];
        char was[160], is[160];
        ts_constraint_text(&s->constraint[m], was, sizeof was);
        ts_constraint_text(&now, is, sizeof is);
        if (!ts_constraint_same(&s->constraint[m], &now))
            return ts_fail(
                err, TS_EARG,
                "%s: mode %u of the run has these constraints: %s; it cannot go on with: %s", path,
                m + 1, was, is);
    }
    if (!s->accelerated != !conf->accelerate)
        return ts_fail(err, TS_EARG, "%s: the run is %saccelerated, so it cannot go on %s it", path,
                       s->accelerated ? "" : "not ", s->accelerated ? "without" : "with");
    if (conf->iters < least)
        return ts_fail(err, TS_EARG, "%s: the run is in sweep %u already, and --iters is %u", path,
                       least, conf->iters);
    return ts_state_check_tensor(conf->from, conf->init.tensor, err);
}

/* Of the sweep that is over, whose fit changed by `change`. */
static void take_result(const struct als *a, uint32_t sweep, double fit, double change,
                        struct ts_als_result *ret)
{
    const int done =
        sweep > 1 && (a->accelerate != NULL ? ts_accelerate_settled(a->accelerate, a->conf->tol)
                                            : fabs(change) < a->conf->tol);
    ret->sweeps = sweep;
    ret->fit = fit;
    ret->n_dead = count_dead(a);
    ret->constrained = a->constraint != NULL;
    ret->objective = a->now.objective;
    ret->exact = done && a->exact;
    ret->rounded = ret->exact && is_rounded(a);
    ret->converged = done && !a->exact;
}

/* The results as they were after the last whole sweep of a state. */
static void recall(struct als *a, struct ts_als_result *ret)
{
    const struct ts_state *s = ts_state_get(a->conf->from);
    const struct ts_state_past *last = s->past + s->sweep - 2;
    if (s->sweep == 1)
        return;
    if (s->mode == 0) {
        const double distance = (1 - last->fit) * a->conf->init.tensor->header.norm;
        a->left = distance * distance;
        a->now.objective = objective_now(a);
    }
    take_result(a, s->sweep - 1, last->fit, s->sweep > 2 ? last->fit - last[-1].fit : last->fit,
                ret);
    if (s->mode > 0) /* the sweep under way has to be ended */
        ret->exact = ret->converged = 0;
}

static int sweep_on(struct als *a, uint32_t mode, struct ts_als_result *ret, struct ts_err *err)
{
    const uint32_t s = ret->sweeps + 1;
    int rc = mode == 0 && s > 1 ? between_modes(a, s, 0, err) : 0;
    if (rc == 0)
        rc = run_sweep(a, s, mode, ret->fit, err);
    if (rc == 0 && a->conf->checkpoint != NULL)
        rc = ts_checkpoint_sweep(a->conf->checkpoint, a->now.fit, a->now.total_ns, err);
    if (rc == 0)
        take_result(a, s, a->now.fit, a->now.change, ret);
    return rc;
}

static int iterate(struct als *a, struct ts_als_result *ret, struct ts_err *err)
{
    uint32_t mode = 0;
    int rc;
    sum_in(a, TS_FLOAT32); /* a run before this one may have ended in another way */
    rc = a->conf->from == NULL ? init_factors(a, err) : restore(a, err);
    if (rc == 0 && a->conf->from != NULL) {
        recall(a, ret);
        mode = ts_state_get(a->conf->from)->mode;
    }
    if (rc == 0)
        ts_feed_skip(a->conf->feed, ts_constraint_skipped(a->constraint, a->order));
    for (; rc == 0 && ret->sweeps < a->conf->iters && !ret->converged && !ret->exact; mode = 0)
        rc = sweep_on(a, mode, ret, err);
    if (rc == 0 && a->conf->checkpoint != NULL) {
        struct ts_state end = where(a, ret->sweeps + 1, 0, TS_STATE_ENDED);
        ts_checkpoint_end(a->conf->checkpoint, &end);
    }
    return rc;
}

/* The weights of columns of norm 1, and the norms that the columns have; columns of modes whose lengths are not to be
 * changed stay as they are. */
static void take_weights(const struct als *a, struct ts_als_result *ret)
{
    ret->norm = ret->weight + a->rank;
    for (uint32_t r = 0; r < a->rank; r++) {
        ret->weight[r] = a->lambda[r];
        for (uint32_t m = 0; m < a->order; m++) {
            const double norm = sqrt(a->gram[m * a->square + (size_t)r * a->rank + r]);
            const int stays = a->constraint != NULL && ts_constraint_rigid(&a->constraint[m]);
            ret->weight[r] *= stays ? 1 : norm;
            ret->norm[m * (size_t)a->rank + r] = stays ? TS_AS_IT_IS : norm;
        }
    }
}

/* The constraints must make sense, and the backend have what they take. */
static int take_constraints(struct als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint32_t own = ts_constraint_own(a->conf->init.constraint, a->order);
    int rc = 0;
    if (ts_constraint_any(a->conf->init.constraint, a->order)) {
        a->constraint = a->conf->init.constraint;
        a->penalty = ts_constraint_penalty(a->constraint, a->order);
        a->balanced = ts_constraint_lengths(a->constraint, a->order);
        rc = ts_constraint_check(a->constraint, a->order, err);
    }
    if (rc == 0 && (ts_constraint_updates(a->constraint, a->order) & ~c->backend->updates) != 0)
        rc = ts_fail(err, TS_EARG, "these constraints are computed on CPU cores only");
    return rc == 0 && c->backend->own_rows != NULL ? c->backend->own_rows(c->be, own, err) : rc;
}

int ts_als_run(const struct ts_als_conf *conf, struct ts_als_result *ret, struct ts_err *err)
{
    struct als a = { .conf = conf, .order = conf->init.tensor->order, .rank = conf->init.rank };
    struct ts_als_result result = { 0 };
    double *memory;
    int rc = ts_init_check(&conf->init, err);
    a.now.objective = NAN; /* of a run that has no sweep left */
    if (rc == 0)
        rc = check_values(conf, err);
    if (rc == 0)
        rc = take_constraints(&a, err);
    if (rc == 0 && conf->accelerate)
        rc = ts_accelerate_check(a.constraint, a.order, err);
    if (rc == 0 && conf->from != NULL)
        rc = ts_als_check_from(conf, err);
    if (rc < 0)
        return rc;
    if (a.rank == 0 || a.rank > TS_MAX_RANK || conf->iters == 0)
        return ts_fail(err, TS_EARG, "rank must be 1 to %u and there must be at least one sweep",
                       TS_MAX_RANK);
    a.square = (size_t)a.rank * a.rank;
    memory = calloc((a.order + 2) * a.square + 2 * (size_t)a.rank, sizeof *memory);
    if (memory == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u Gram matrices", a.order);
    a.gram = memory;
    a.v = a.gram + a.order * a.square;
    a.w = a.v + a.square;
    a.scale = a.w + a.square;
    a.lambda = a.scale + a.rank;
    if (conf->accelerate)
        rc = ts_accelerate_new(&conf->init, conf->precision, &a.accelerate, err);
    if (rc == 0)
        rc = iterate(&a, &result, err);
    if (rc == 0) {
        result.weight = malloc((a.order + 1) * (size_t)a.rank * sizeof *result.weight);
        if (result.weight == NULL)
            rc = ts_fail(err, TS_ENOMEM, "out of memory for %u weights", a.rank);
        else
            take_weights(&a, &result);
    }
    if (rc == 0)
        *ret = result;
    if (conf->checkpoint != NULL)
        ts_checkpoint_keep(conf->checkpoint, a.accelerate);
    else
        ts_accelerate_free(a.accelerate);
    free(memory);
    return rc;
}
