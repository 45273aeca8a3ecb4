/* SPDX-License-Identifier: BSD-3-Clause */
/* Models by losses other than least squares, by L-BFGS-B: a limited-memory quasi-Newton method with
 * bounds, which changes all factors at once.
 *
 * The objective F is that of gcp.c. Unlisted cells are represented by the same sample in every
 * sweep (stream/row_update.h, n_cells), so F is one function, whose gradient is exact. A sweep
 * computes the gradient of each mode in a pass, without changing factors, and then makes a step.
 * Entries at a bound stay if the step would push them out. The other entries move along the
 * direction given by the last PAIRS steps and changes of the gradient (the two loops of Nocedal
 * 1980 over free entries). Entries that leave the bounds are set to the bound (Bertsekas 1982). A
 * pass after the last mode sums F. If F has not fallen enough (Armijo), the step is shortened and
 * the pass repeated. If no step helps, the PAIRS steps are dropped once, and then the run ends.
 *
 * The moments of each factor are: the gradient, the point at which the sweep started, PAIRS steps
 * and PAIRS changes of the gradient. The newest change is minus the old gradient until the next
 * gradient is known (`open`). The direction follows from the moments, also in a resumed run.
 *
 *   bits     sums are made over spans of a fixed length and added in order: they do not depend
 *            on threads
 */
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "cpd/methods/gcp_struct.h"

#define PAIRS     5u
#define GRADIENT  0u /* numbers of moments (matrices of a factor's size): the gradient */
#define POINT     1u
#define STEP      2u           /* number of the first of PAIRS moments: steps */
#define CHANGE    (2u + PAIRS) /* number of the first of PAIRS moments: changes of the gradient */
#define SPAN      4096u        /* entries of a factor that one thread sums at a time */
#define ENOUGH    1e-4         /* least fall of F, relative to what the gradient predicts */
#define FLAT      1e-10        /* least s'y / y'y of a pair (step s, change y) that is used */
#define FIRST     0.1          /* length of the first step, relative to the norm of all factors */
#define TRIES     20u
#define STUCK     255u /* value of `tries` if no step lowers the objective F */
#define PUT_BYTES (UINT64_C(1) << 20)

_Static_assert(CHANGE + PAIRS == TS_MOMENTS_LBFGSB, "moments");

struct lbfgsb {
    struct ts_gcp gcp; /* rate: step length, in units of the direction */
    double *direction; /* of the step, for each entry of the factors of all modes in turn */
    double *sum;       /* two sums for each span (SPAN entries of a factor) */
    uint64_t bytes;    /* bytes of `direction` and `sum` */
    /* by mode: its first entry in `direction`, and its number of entries */
    uint64_t at[TS_MAX_ORDER], n[TS_MAX_ORDER];
    uint64_t spans[TS_MAX_ORDER + 1]; /* for each mode: number of spans in the modes before it */
    int known;                        /* 1: `direction` is valid */
    int open;
    uint32_t n_pairs, next; /* number of stored pairs (step and change), and place of the next */
    uint32_t tries;
};

/* ---- memory of the method ---- */

static uint64_t entries(const struct ts_tensor *t, uint32_t m, uint32_t rank)
{
    return t->mode[m].disk.n_rows * rank;
}

static uint64_t numbers(const struct ts_tensor *t, uint32_t rank)
{
    uint64_t n = 0, spans = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        n += entries(t, m, rank);
        spans += (entries(t, m, rank) + SPAN - 1) / SPAN;
    }
    return n + 2 * spans + 1;
}

static struct ts_method_bytes bytes(const struct ts_tensor *t, uint32_t rank,
                                    enum ts_precision precision, const struct ts_spec *spec)
{
    const uint64_t moments = ts_gcp_moments_bytes(t, rank, precision, TS_MOMENTS_LBFGSB);
    const uint64_t steps = ts_bigmem_cost(numbers(t, rank) * sizeof(double)) + PUT_BYTES;
    (void)spec;
    return (struct ts_method_bytes){
        .kept = moments > 0 ? ts_bigmem_cost(moments + steps) : 0,
        .sums = ts_fit_sums_bytes(t),
    };
}

/* Returns the number of sampled unlisted cells: a power of four, at least four for each nonzero. */
static uint64_t cells_drawn(const struct ts_tensor *t)
{
    uint64_t n = UINT64_C(1) << 14;
    while (n < UINT64_C(1) << 32 && n / 4 < t->nnz)
        n *= 4;
    return n;
}

static int make(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_tensor *t = a->conf->init.tensor;
    struct lbfgsb *l = a->own;
    uint64_t n = 0;
    void *memory;
    int rc;
    l->bytes = numbers(t, a->rank) * sizeof(double);
    rc = ts_bigmem_new(l->bytes, "direction of a step", &memory, err);
    if (rc < 0)
        return rc;
    for (uint32_t m = 0; m < a->order; m++) {
        l->at[m] = n;
        l->n[m] = entries(t, m, a->rank);
        l->spans[m + 1] = l->spans[m] + (l->n[m] + SPAN - 1) / SPAN;
        n += l->n[m];
    }
    l->direction = memory;
    l->sum = l->direction + n;
    return 0;
}

static void end(struct ts_solver *a)
{
    struct lbfgsb *l = a->own;
    ts_bigmem_free(l->direction, l->bytes);
    ts_gcp_end(a);
}

/* ---- entries of factors and moments ---- */

static double get(const void *vector, uint64_t i, enum ts_precision precision)
{
    return precision == TS_FLOAT32 ? (double)((const float *)vector)[i]
                                   : ((const double *)vector)[i];
}

static void set(void *vector, uint64_t i, enum ts_precision precision, double x)
{
    if (precision == TS_FLOAT32)
        ((float *)vector)[i] = (float)x;
    else
        ((double *)vector)[i] = x;
}

/* Arguments of a function that works on a span: up to SPAN entries of a factor. */
struct work {
    const struct ts_solver *a;
    struct lbfgsb *l;
    uint32_t which; /* number of a moment, or of a pair */
    double x;       /* multiplier of a moment, or length of a step */
    double lower[TS_MAX_ORDER], upper[TS_MAX_ORDER];
};

static struct work work_of(const struct ts_solver *a)
{
    struct work w = { .a = a, .l = a->own };
    for (uint32_t m = 0; m < a->order; m++) {
        const struct ts_descent descent = ts_gcp_descent(a, m);
        w.lower[m] = descent.lower;
        w.upper[m] = descent.upper;
    }
    return w;
}

static double moment(const struct work *w, uint32_t which, uint32_t m, uint64_t i)
{
    return get(w->l->gcp.moment[which][m], i, w->a->conf->precision);
}

static void set_moment(const struct work *w, uint32_t which, uint32_t m, uint64_t i, double x)
{
    set(w->l->gcp.moment[which][m], i, w->a->conf->precision, x);
}

static int is_free(const struct work *w, uint32_t m, uint64_t i)
{
    const double x = moment(w, POINT, m, i), g = moment(w, GRADIENT, m, i);
    return !((x <= w->lower[m] && g > 0) || (x >= w->upper[m] && g < 0));
}

/* Returns entry i of mode m's factor after a step of length w->x from the moment POINT along the
 * direction. It is clamped to the bounds, and rounded to the precision of the factors. */
static double trial(const struct work *w, uint32_t m, uint64_t i)
{
    const double x = moment(w, POINT, m, i) + w->x * w->l->direction[w->l->at[m] + i];
    const double to = x < w->lower[m] ? w->lower[m] : x > w->upper[m] ? w->upper[m] : x;
    return w->a->conf->precision == TS_FLOAT32 ? (float)to : to;
}

/* Works on entries begin .. end - 1 of mode m's factor, and adds to the two numbers at sum. */
typedef void span_fn(const struct work *w, uint32_t m, uint64_t begin, uint64_t end, double *sum);

static void each_span(const struct work *w, span_fn *f, double *ret)
{
    const struct ts_solver *a = w->a;
    struct lbfgsb *l = w->l;
    const uint32_t given = a->conf->init.threads;
    const int threads = given > 0 ? (int)given : omp_get_max_threads();
    for (uint32_t m = 0; m < a->order; m++) {
        const uint64_t n = l->spans[m + 1] - l->spans[m];
#pragma omp parallel for num_threads(threads) schedule(static)
        for (uint64_t k = 0; k < n; k++) {
            double *sum = l->sum + 2 * (l->spans[m] + k);
            const uint64_t last = (k + 1) * SPAN;
            sum[0] = sum[1] = 0;
            f(w, m, k * SPAN, last < l->n[m] ? last : l->n[m], sum);
        }
    }
    ret[0] = ret[1] = 0;
    for (uint64_t k = 0; k < l->spans[a->order]; k++) {
        ret[0] += l->sum[2 * k];
        ret[1] += l->sum[2 * k + 1];
    }
}

static double sum_spans(const struct work *w, span_fn *f)
{
    double ret[2];
    each_span(w, f, ret);
    return ret[0];
}

/* ---- pairs: the last steps, and the changes of the gradient that they made ---- */

/* Sums s'y and y'y over the free entries, with a pair's step s and change of the gradient y. */
static void curve_free(const struct work *w, uint32_t m, uint64_t begin, uint64_t end, double *sum)
{
    for (uint64_t i = begin; i < end; i++) {
        const double y = moment(w, CHANGE + w->which, m, i);
        const int counts = is_free(w, m, i);
        sum[0] += counts ? moment(w, STEP + w->which, m, i) * y : 0;
        sum[1] += counts ? y * y : 0;
    }
}

/* y := new gradient minus old one. Sums s'y and y'y over all entries, s being the newest step. */
static void close_change(const struct work *w, uint32_t m, uint64_t begin, uint64_t end,
                         double *sum)
{
    for (uint64_t i = begin; i < end; i++) {
        const double y = moment(w, CHANGE + w->which, m, i) + moment(w, GRADIENT, m, i);
        set_moment(w, CHANGE + w->which, m, i, y);
        sum[0] += moment(w, STEP + w->which, m, i) * y;
        sum[1] += y * y;
    }
}

static void close_pair(const struct ts_solver *a)
{
    struct work w = work_of(a);
    double sum[2];
    if (!w.l->open)
        return;
    w.which = w.l->next;
    each_span(&w, close_change, sum);
    w.l->open = 0;
    if (!(sum[0] > FLAT * sum[1]))
        return;
    w.l->next = (w.l->next + 1) % PAIRS;
    w.l->n_pairs += w.l->n_pairs < PAIRS;
}

/* Stores the step that was made, and minus the gradient at the point where it began. */
static void begin_pair(const struct work *w, uint32_t m, uint64_t begin, uint64_t end, double *sum)
{
    for (uint64_t i = begin; i < end; i++) {
        const double s = trial(w, m, i) - moment(w, POINT, m, i);
        set_moment(w, STEP + w->which, m, i, s);
        set_moment(w, CHANGE + w->which, m, i, -moment(w, GRADIENT, m, i));
        sum[0] += s * s;
    }
}

/* ---- the direction of a step ---- */

static void begin_direction(const struct work *w, uint32_t m, uint64_t begin, uint64_t end,
                            double *sum)
{
    for (uint64_t i = begin; i < end; i++) {
        const double g = moment(w, GRADIENT, m, i), d = is_free(w, m, i) ? -g : 0;
        const double x = moment(w, POINT, m, i);
        w->l->direction[w->l->at[m] + i] = d;
        sum[0] += d * d;
        sum[1] += x * x;
    }
}

static void dot_direction(const struct work *w, uint32_t m, uint64_t begin, uint64_t end,
                          double *sum)
{
    for (uint64_t i = begin; i < end; i++)
        sum[0] += moment(w, w->which, m, i) * w->l->direction[w->l->at[m] + i];
}

static void add_moment(const struct work *w, uint32_t m, uint64_t begin, uint64_t end, double *sum)
{
    (void)sum;
    for (uint64_t i = begin; i < end; i++)
        if (is_free(w, m, i))
            w->l->direction[w->l->at[m] + i] += w->x * moment(w, w->which, m, i);
}

static void scale_direction(const struct work *w, uint32_t m, uint64_t begin, uint64_t end,
                            double *sum)
{
    (void)sum;
    for (uint64_t i = begin; i < end; i++)
        w->l->direction[w->l->at[m] + i] *= w->x;
}

/* direction += x times moment `which` */
static void add(struct work *w, uint32_t which, double x)
{
    w->which = which;
    w->x = x;
    (void)sum_spans(w, add_moment);
}

static double dot(struct work *w, uint32_t which)
{
    w->which = which;
    return sum_spans(w, dot_direction);
}

/* Returns the length of a first step. squares: sums of squares of the gradient and of the
 * factors. */
static double first_length(const double *squares)
{
    const double size = squares[1] > 0 ? FIRST * sqrt(squares[1]) : 1;
    return squares[0] > 0 ? size / sqrt(squares[0]) : 0;
}

static void find_direction(const struct ts_solver *a)
{
    struct work w = work_of(a);
    struct lbfgsb *l = w.l;
    double alpha[PAIRS], curve[PAIRS], squares[2], newest = 0;
    if (l->known)
        return;
    each_span(&w, begin_direction, squares);
    for (uint32_t k = 1; k <= l->n_pairs; k++) { /* from the newest pair to the oldest */
        const uint32_t i = (l->next + PAIRS - k) % PAIRS;
        double sum[2];
        w.which = i;
        each_span(&w, curve_free, sum);
        curve[i] = sum[0] > FLAT * sum[1] ? sum[0] : 0;
        if (curve[i] == 0)
            continue;
        newest = newest > 0 ? newest : sum[0] / sum[1];
        alpha[i] = dot(&w, STEP + i) / curve[i];
        add(&w, CHANGE + i, -alpha[i]);
    }
    w.x = newest > 0 ? newest
                     : first_length(squares); /* the newest pair estimates the second derivative */
    (void)sum_spans(&w, scale_direction);
    for (uint32_t k = l->n_pairs; k >= 1; k--) {
        const uint32_t i = (l->next + PAIRS - k) % PAIRS;
        if (curve[i] > 0)
            add(&w, STEP + i, alpha[i] - dot(&w, CHANGE + i) / curve[i]);
    }
    l->known = 1;
}

/* ---- steps along the direction ---- */

/* Adds the change of the objective F that the gradient predicts for the step, within the bounds. */
static void slope_of(const struct work *w, uint32_t m, uint64_t begin, uint64_t end, double *sum)
{
    for (uint64_t i = begin; i < end; i++)
        sum[0] += moment(w, GRADIENT, m, i) * (trial(w, m, i) - moment(w, POINT, m, i));
}

static void move_rows(const struct work *w, uint32_t m, uint64_t first, uint64_t n, int to_point,
                      double *rows)
{
    const uint32_t given = w->a->conf->init.threads;
    const int threads = given > 0 ? (int)given : omp_get_max_threads();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (uint64_t i = 0; i < n; i++)
        if (to_point)
            set_moment(w, POINT, m, first + i, rows[i]);
        else
            rows[i] = trial(w, m, first + i);
}

/* Copies the factor of mode m to the moment POINT, or sets the factor to the entries of trial(),
 * and computes its Gram matrix. */
static int move_mode(struct ts_solver *a, const struct work *w, uint32_t m, int to_point,
                     double *rows, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint64_t n_rows = c->tensor->mode[m].disk.n_rows;
    const uint64_t most = PUT_BYTES / (a->rank * sizeof(double));
    int rc = 0;
    for (uint64_t row = 0; row < n_rows && rc == 0; row += most) {
        const uint64_t n = n_rows - row < most ? n_rows - row : most;
        const uint64_t first = row * a->rank;
        if (to_point)
            rc = c->backend->get_rows(c->be, m, row, n, rows, err);
        if (rc == 0)
            move_rows(w, m, first, n * a->rank, to_point, rows);
        if (!to_point && rc == 0)
            rc = c->backend->put_rows(c->be, m, row, n, rows, err);
    }
    return rc == 0 && !to_point ? c->backend->gram(c->be, m, a->gram + m * a->square, err) : rc;
}

static int move(struct ts_solver *a, double length, int to_point, struct ts_err *err)
{
    struct work w = work_of(a);
    double *rows = malloc(PUT_BYTES);
    int rc = rows == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for rows of factors") : 0;
    w.x = length;
    for (uint32_t m = 0; m < a->order && rc == 0; m++)
        rc = move_mode(a, &w, m, to_point, rows, err);
    free(rows);
    return rc;
}

static double slope_at(const struct ts_solver *a, double length)
{
    struct work w = work_of(a);
    w.x = length;
    return sum_spans(&w, slope_of);
}

static int try_length(struct ts_solver *a, double length, struct ts_err *err)
{
    struct lbfgsb *l = a->own;
    const int rc = move(a, length, 0, err);
    l->gcp.rate = length;
    return rc < 0 ? rc : ts_solver_pass_again(a, err);
}

/* Begins a step: along the direction or, if F would not fall there, against the gradient. */
static int begin_step(struct ts_solver *a, struct ts_err *err)
{
    struct lbfgsb *l = a->own;
    l->tries = 0;
    find_direction(a);
    if (!(slope_at(a, 1) < 0) && l->n_pairs > 0) {
        l->n_pairs = 0;
        l->known = 0;
        find_direction(a);
    }
    if (slope_at(a, 1) < 0)
        return try_length(a, 1, err);
    l->tries = STUCK;
    return try_length(a, 0, err);
}

/* Tries a shorter step because the objective F, which is `now`, is too large: to the minimum of a
 * parabola through the known values of F, but 0.1 to 0.5 of the last length. */
static int shorten(struct ts_solver *a, double now, struct ts_err *err)
{
    struct lbfgsb *l = a->own;
    const double t = l->gcp.rate, slope = slope_at(a, t);
    const double part = -slope / (2 * (now - l->gcp.before - slope));
    if (++l->tries <= TRIES)
        return try_length(a, t * (part > 0.1 ? fmin(part, 0.5) : 0.1), err);
    if (l->n_pairs == 0) {
        l->tries = STUCK;
        return try_length(a, 0, err);
    }
    l->n_pairs = 0;
    l->known = 0;
    return begin_step(a, err);
}

static void accept(const struct ts_solver *a)
{
    struct work w = work_of(a);
    w.which = w.l->next;
    w.x = w.l->gcp.rate;
    if (w.x > 0)
        w.l->open = sum_spans(&w, begin_pair) > 0;
    w.l->known = 0;
}

/* ---- gradients of the modes, and the end of a sweep ---- */

static struct ts_descent descend(const struct ts_solver *a, uint32_t mode)
{
    const struct lbfgsb *l = a->own;
    struct ts_descent ret = ts_gcp_descent(a, mode);
    ret.n_cells = cells_drawn(a->conf->init.tensor);
    ret.gradient = l->gcp.moment[GRADIENT][mode];
    return ret;
}

static int request(struct ts_solver *a, struct ts_request *ret, struct ts_err *err)
{
    const struct ts_descent descent = descend(a, a->product);
    return ts_gcp_request(a, &descent, ret, err);
}

/* Takes the sums of the loss, if the pass computed them. Other passes change no rows. */
static int rows(struct ts_solver *a, struct ts_err *err)
{
    return a->at == TS_SOLVER_AGAIN ? ts_gcp_sum_up(a, err) : 0;
}

static int judge(struct ts_solver *a, struct ts_err *err)
{
    struct lbfgsb *l = a->own;
    int rc;
    if (a->pending)
        return ts_solver_pass_again(a, err);
    close_pair(a);
    l->known = 0;
    rc = move(a, 0, 1, err);
    if (rc < 0)
        return rc;
    return isnan(l->gcp.before) ? try_length(a, 0, err) : begin_step(a, err);
}

static int judged(struct ts_solver *a, struct ts_err *err)
{
    struct lbfgsb *l = a->own;
    const double now = ts_gcp_objective(a);
    if (isnan(l->gcp.before)) { /* F of the starting factors, before the first step */
        if (!isfinite(now))
            return ts_solver_not_finite(a, err);
        l->gcp.before = now;
        return begin_step(a, err);
    }
    find_direction(a);
    if (l->tries != STUCK && !(now <= l->gcp.before + ENOUGH * slope_at(a, l->gcp.rate)))
        return shorten(a, now, err);
    accept(a);
    l->gcp.before = now;
    ts_gcp_note(a, now);
    a->now.fit = ts_gcp_fit(a);
    a->pending = 0;
    return 0;
}

static int settled(const struct ts_solver *a, double change)
{
    const struct lbfgsb *l = a->own;
    return l->tries == STUCK || ts_gcp_settled(a, change);
}

/* ---- the start of a run, and the method's data in a state ---- */

/* Moves entries of the starting factors into their bounds. */
static int start(struct ts_solver *a, struct ts_err *err)
{
    int rc = make(a, err);
    if (rc == 0)
        rc = ts_gcp_start(a, err);
    if (rc == 0)
        rc = move(a, 0, 1, err);
    return rc == 0 ? move(a, 0, 0, err) : rc;
}

static void save(const struct ts_solver *a, struct ts_state *s)
{
    const struct lbfgsb *l = a->own;
    ts_gcp_save(a, s);
    s->part[TS_PART_PAIRS] =
        l->n_pairs | l->next << 8 | (uint32_t)l->open << 16 | (uint64_t)l->tries << 24;
}

static int restore(struct ts_solver *a, const struct ts_state *s, struct ts_err *err)
{
    struct lbfgsb *l = a->own;
    const uint64_t part = s->part[TS_PART_PAIRS];
    const int rc = make(a, err);
    l->n_pairs = (part & 255) < PAIRS ? (uint32_t)(part & 255) : PAIRS;
    l->next = (uint32_t)(part >> 8 & 255) % PAIRS;
    l->open = (int)(part >> 16 & 1);
    l->tries = (uint32_t)(part >> 24 & 255);
    return rc == 0 ? ts_gcp_restore(a, s, err) : rc;
}

static int is_asked(const struct ts_spec *spec)
{
    return spec->lbfgsb;
}

const struct ts_method ts_lbfgsb = {
    .name = "lbfgsb",
    .own_bytes = sizeof(struct lbfgsb),
    .bytes = bytes,
    .start_is_drawn = ts_gcp_start_is_drawn,
    .lost_sign = ts_gcp_lost_sign,
    .fit_apart = 1,
    .holds_out = 1,
    .is_asked = is_asked,
    .check = ts_gcp_check,
    .start = start,
    .request = request,
    .rows = rows,
    .norm = ts_solver_norm,
    .judge = judge,
    .judged = judged,
    .tell = ts_gcp_tell,
    .objective = ts_gcp_objective,
    .settled = settled,
    .save = save,
    .restore = restore,
    .end = end,
};
