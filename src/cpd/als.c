#include "cpd/als.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "cpd/symm.h"

struct als {
    const struct ts_als_conf *conf;
    uint32_t order, rank;
    size_t square;     /* rank * rank */
    double *gram;      /* order x rank x rank */
    double *v, *w;     /* rank x rank: product of Gram matrices, its inverse */
    double *lambda;    /* rank: column norms of the mode solved last, 0 for columns of zeros */
    double *scale;     /* rank: what the columns were multiplied with */
    double inner;      /* <X, model> after the last mode */
    uint64_t slowest_ns; /* kernel time of each mode's slowest device, over the sweep so far */
    struct ts_als_sweep now;
};

/* v := elementwise product of the Gram matrices of all modes but `skip` */
static void multiply_grams(struct als *a, uint32_t skip)
{
    for (size_t i = 0; i < a->square; i++) {
        double p = 1;
        for (uint32_t m = 0; m < a->order; m++)
            p *= m == skip ? 1 : a->gram[m * a->square + i];
        a->v[i] = p;
    }
}

/* Column norms from the Gram matrix's diagonal, and the Gram matrix of the normed columns. */
static void norm_columns(struct als *a, uint32_t mode)
{
    double *gram = a->gram + mode * a->square;
    for (uint32_t r = 0; r < a->rank; r++) {
        a->lambda[r] = sqrt(gram[(size_t)r * a->rank + r]);
        a->scale[r] = a->lambda[r] > 0 ? 1 / a->lambda[r] : 1;
    }
    for (uint32_t i = 0; i < a->rank; i++)
        for (uint32_t j = 0; j < a->rank; j++)
            gram[(size_t)i * a->rank + j] *= a->scale[i] * a->scale[j];
}

/* From `start` to now, on the trace's lane of modes. Returns now. */
static uint64_t trace_step(const struct als *a, const char *what, uint64_t start, uint32_t mode)
{
    const uint64_t now = ts_clock_ns();
    ts_trace_add(a->conf->trace, TS_TRACE_MODES, what, start, now, mode, TS_TRACE_NO_SHARD, 0);
    return now;
}

/* The product and the rows: in one call where the backend has one, else in two. */
static int update_mode(struct als *a, uint32_t mode, struct ts_backend_times *times,
                       struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    double *gram = a->gram + mode * a->square;
    double *inner = mode + 1 == a->order ? &a->inner : NULL;
    const uint64_t start = ts_clock_ns();
    uint64_t then;
    int rc;
    ts_feed_rewind(a->conf->feed);
    if (c->backend->update != NULL) {
        rc = c->backend->update(c->be, mode, a->conf->feed, a->w, gram, inner, times, err);
        trace_step(a, "product and rows", start, mode);
        return rc;
    }
    rc = c->backend->mttkrp(c->be, mode, a->conf->feed, times, err);
    if (rc < 0)
        return rc;
    then = trace_step(a, "product", start, mode);
    rc = c->backend->solve(c->be, mode, a->w, gram, &a->inner, err);
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

static int solve_mode(struct als *a, uint32_t mode, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint64_t start = ts_clock_ns();
    struct ts_backend_times times = { 0 };
    struct ts_als_mode done = { .sweep = a->now.sweep, .mode = mode, .times = &times };
    uint64_t then;
    int singular, rc;
    multiply_grams(a, mode);
    rc = ts_symm_pinv(a->rank, a->v, c->stop, a->w, &singular, err);
    trace_step(a, "inverse", start, mode);
    if (rc == 0)
        rc = update_mode(a, mode, &times, err);
    if (rc < 0)
        return rc;
    then = ts_clock_ns();
    norm_columns(a, mode);
    rc = c->backend->scale(c->be, mode, a->scale, err);
    done.total_ns = trace_step(a, "scale", then, mode) - start;
    a->now.n_singular += (uint32_t)singular;
    add_times(a, &times, done.total_ns);
    if (rc == 0 && a->conf->mode != NULL)
        a->conf->mode(a->conf->ctx, &done);
    return rc;
}

/* The fit after the last mode of a sweep. */
static double fit_now(struct als *a)
{
    const double norm = a->conf->init.tensor->header.norm;
    double model = 0, left;
    multiply_grams(a, a->order);
    for (uint32_t i = 0; i < a->rank; i++)
        for (uint32_t j = 0; j < a->rank; j++)
            model += a->lambda[i] * a->lambda[j] * a->v[(size_t)i * a->rank + j];
    left = norm * norm + model - 2 * a->inner;
    if (left < 0)
        left = 0;
    if (norm == 0) /* no nonzeros (check_values): the model is zero too, and right */
        return model == 0 ? 1 : -INFINITY;
    return 1 - sqrt(left) / norm;
}

static double largest_value(const struct ts_disk_header *h)
{
    return fmax(fabs(h->value_min), fabs(h->value_max));
}

/* Values whose squares vanish have a norm of 0, or of few digits, and any fit; values below the range of
 * float32 have factors of zeros. */
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

static int run_sweep(struct als *a, uint32_t sweep, double before, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint64_t start = ts_clock_ns();
    struct ts_feed_stats stats;
    memset(&a->now, 0, sizeof a->now);
    a->now.sweep = sweep;
    a->slowest_ns = 0;
    for (uint32_t m = 0; m < a->order; m++) {
        const int rc = solve_mode(a, m, err);
        if (rc < 0)
            return rc;
        if (ts_stop_asked(c->stop))
            return ts_fail(err, TS_ESTOP, "stopped in sweep %u", sweep);
    }
    a->now.fit = fit_now(a);
    a->now.change = a->now.fit - before;
    if (!isfinite(a->now.fit))
        return ts_fail(err, TS_ELIMIT,
                       "the fit of sweep %u is not finite: the values (up to %g) leave the range of "
                       "the precision; %s",
                       sweep, largest_value(&c->tensor->header),
                       a->conf->precision == TS_FLOAT32 ? "take --precision float64, or scale them"
                                                        : "scale them so that the largest is near 1");
    ts_feed_stats(a->conf->feed, &stats);
    a->now.bytes_read = stats.bytes_read;
    a->now.imbalance =
        a->now.kernel_ns > 0 ? (double)a->slowest_ns / (double)a->now.kernel_ns : 1;
    a->now.total_ns = ts_clock_ns() - start;
    if (a->conf->sweep != NULL)
        a->conf->sweep(a->conf->ctx, &a->now);
    return 0;
}

static int iterate(struct als *a, struct ts_als_result *ret, struct ts_err *err)
{
    double before = 0;
    for (uint32_t m = 0; m < a->order; m++) { /* mode 0 is solved before it is used */
        const int rc =
            ts_init_mode(&a->conf->init, m, m == 0 ? NULL : a->gram + m * a->square, err);
        if (rc < 0)
            return rc;
    }
    for (uint32_t s = 1; s <= a->conf->iters && !ret->converged; s++) {
        const int rc = run_sweep(a, s, before, err);
        if (rc < 0)
            return rc;
        ret->sweeps = s;
        ret->converged = s > 1 && fabs(a->now.change) < a->conf->tol;
        before = a->now.fit;
    }
    ret->fit = before;
    return 0;
}

int ts_als_run(const struct ts_als_conf *conf, struct ts_als_result *ret, struct ts_err *err)
{
    struct als a = { .conf = conf, .order = conf->init.tensor->order, .rank = conf->init.rank };
    struct ts_als_result result = { 0 };
    double *memory;
    int rc = ts_init_check(&conf->init, err);
    if (rc == 0)
        rc = check_values(conf, err);
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
    rc = iterate(&a, &result, err);
    if (rc == 0) {
        result.weight = malloc(a.rank * sizeof *result.weight);
        if (result.weight == NULL)
            rc = ts_fail(err, TS_ENOMEM, "out of memory for %u weights", a.rank);
        else
            memcpy(result.weight, a.lambda, a.rank * sizeof *result.weight);
    }
    if (rc == 0)
        *ret = result;
    free(memory);
    return rc;
}
