/* SPDX-License-Identifier: BSD-3-Clause */
/* Losses have the derivatives that they say, gradients are those of the obvious loop, what is drawn
 * for cells that are not listed is right on average, and steps are Adam's. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/spec/spec.h"
#include "cpu/cpu_backend.h"
#include "tests/support/loss_case.h"
#include "tests/stream/memfeed.h"
#include "tests/support/run_suite.h"

#define SEED 5

static const struct shape {
    uint32_t order, nnz;
    uint64_t dim[TS_MAX_ORDER];
} shapes[] = {
    { 2, 900, { 31, 40 } },
    { 3, 9000, { 40, 30, 50 } },   /* rows longer than a block */
    { 3, 34000, { 2, 400, 300 } }, /* rows longer than partitions, and than shards */
    { 4, 900, { 11, 2, 16, 12 } },
    { 5, 900, { 3, 4, 5, 6, 7 } },
    { 8, 700, { 3, 4, 3, 2, 5, 3, 1, 2 } },
};
static const uint32_t ranks[] = { 1, 3, 16, 9, 33, 5 };
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

static int with_zeros[TS_N_GCP]; /* losses that may have unlisted cells */

START_TEST(slopes_are_those_of_the_losses)
{
    const struct ts_loss *loss = ts_loss_of((enum ts_loss_kind)_i);
    const double at = test_loss_number(_i), h = 1e-5;
    int bends = 0;
    for (int k = 0; k < 200; k++) {
        const double x = test_loss_value(_i, ts_unit(ts_mix(2 * (uint64_t)k)));
        const double u = ts_unit(ts_mix(2 * (uint64_t)k + 1));
        const double m = loss->lower == 0 ? 0.05 + 4 * u : 6 * u - 3;
        const double less = m - h, more = m + h;
        double slope, slope_less, slope_more, near;
        loss->weigh(1, &x, &m, at, &slope);
        loss->weigh(1, &x, &less, at, &slope_less);
        loss->weigh(1, &x, &more, at, &slope_more);
        if (fabs(slope_less - 2 * slope + slope_more) > 1e-6 * (1 + fabs(slope))) {
            bends++; /* its second derivative jumps there */
            continue;
        }
        /* the third derivative is at most some 1e5 (of gamma at 0.05), h^2 / 6 of which is off */
        near = (loss->judge(1, &x, &more, at) - loss->judge(1, &x, &less, at)) / (2 * h);
        if (!(fabs(near - slope) <= 1e-5 * (1 + fabs(slope))))
            ck_abort_msg("%s: slope at (%g, %g) is %g, not %g", loss->name, x, m, slope, near);
        ck_assert(loss->allows(x));
    }
    ck_assert(!loss->allows(NAN));
    ck_assert_int_le(bends, 4); /* by chance; of 200 */
}
END_TEST

START_TEST(names_are_read)
{
    int kind;
    struct ts_err err;
    double at;
    for (int k = TS_GCP_NONE + 1; k < TS_N_GCP; k++) {
        const struct ts_loss *loss = ts_loss_of((enum ts_loss_kind)k);
        const double number = test_loss_number(k);
        const char *name = test_loss_name(k, number);
        char other[64];
        ck_assert_int_eq(ts_loss_parse(name, &kind, &at, &err), 0);
        ck_assert_int_eq(kind, k);
        ck_assert(at == number);
        ck_assert_ptr_nonnull(strstr(ts_loss_names, loss->name));
        ck_assert_ptr_nonnull(strstr(ts_loss_help, loss->name));
        snprintf(other, sizeof other, ts_loss_takes_number(kind) ? "%s" : "%s:1", loss->name);
        ck_assert_int_eq(ts_loss_parse(other, &kind, &at, &err), TS_EARG);
        snprintf(other, sizeof other, "%s:", loss->name);
        ck_assert_int_eq(ts_loss_parse(other, &kind, &at, &err), TS_EARG);
    }
    static const char *const wrong[] = { "",        "no-such-loss", "huber",   "huber:",
                                         "huber:0", "huber:-1",     "huber:x", "huber:inf",
                                         "gamma:1", "bernoulli:" };
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++)
        ck_assert_int_eq(ts_loss_parse(wrong[k], &kind, &at, &err), TS_EARG);
}
END_TEST

/* What is said of a logarithm is said of both, and what starts at it has a value there. */
START_TEST(rows_are_whole)
{
    const struct ts_loss *loss = ts_loss_of((enum ts_loss_kind)_i);
    const double mean = loss->allows(2) ? 2 : 0.5, at = test_loss_number(_i);
    ck_assert_ptr_nonnull(loss->values);
    ck_assert_int_eq(loss->logarithm_of == NULL, loss->zero_is == NULL);
    ck_assert(loss->lower == 0 || loss->lower == -INFINITY);
    ck_assert(loss->logarithm_of == NULL || (loss->lower < 0 && loss->constant != NULL));
    ck_assert_int_eq(loss->zeros, loss->allows(0) != 0);
    ck_assert_int_eq(loss->number[0] == '\0', loss->number_is == NULL);
    ck_assert_int_eq(loss->number[0] == '\0', loss->number_like == NULL);
    ck_assert_int_eq(loss->number[0] == '\0', loss->number_allows == NULL);
    if (loss->constant != NULL)
        ck_assert(isfinite(loss->constant(mean, at)));
    if (loss->linear != 0) {
        const double zero = 0, m = 1e-6;
        const double near = (loss->judge(1, &zero, &m, at) - loss->judge(1, &zero, &zero, at)) / m;
        ck_assert_double_le(fabs(near - loss->linear), 1e-4 * loss->linear);
    }
}
END_TEST

/* Bounds are of entries that the loss has a model of; one that is infinite is none. */
START_TEST(bounds_are_those_of_the_loss)
{
    static const struct {
        double lower, upper;
        int negative; /* some are below 0 */
    } bounds[] = { { -3, -1, 1 }, { -1, 1, 1 }, { -0.5, INFINITY, 1 }, { -INFINITY, -1, 1 },
                   { 0, 1, 0 },   { 2, 3, 0 },  { -INFINITY, 1, 0 },   { 0, INFINITY, 0 } };
    const struct ts_loss *loss = ts_loss_of((enum ts_loss_kind)_i);
    for (size_t k = 0; k < sizeof bounds / sizeof bounds[0]; k++) {
        const struct ts_constraint one = { .bounded = 1,
                                           .lower = bounds[k].lower,
                                           .upper = bounds[k].upper };
        const struct ts_spec spec = { .loss = (enum ts_loss_kind)_i,
                                      .loss_at = test_loss_number(_i),
                                      .observed = 1,
                                      .mode = { { 0 }, one, { 0 } } };
        struct ts_err err;
        const int rc = ts_spec_check(&spec, 3, &err);
        ck_assert_int_eq(rc, bounds[k].negative && loss->lower == 0 ? TS_EARG : 0);
        if (rc < 0)
            ck_assert_msg(strstr(err.text, "mode 2: with loss ") != NULL, "%s", err.text);
    }
}
END_TEST

/* ---- rows ---- */

static void fill_factors(const struct test_coo *x, int kind, uint32_t rank,
                         enum ts_precision precision, double **factor)
{
    const int positive = ts_loss_of((enum ts_loss_kind)kind)->lower == 0;
    for (uint32_t m = 0; m < x->order; m++) {
        factor[m] = malloc(x->dim[m] * rank * sizeof(double));
        for (uint64_t i = 0; i < x->dim[m] * rank; i++) {
            const double u = ts_init_entry(3, m, i / rank, (uint32_t)(i % rank));
            const double v = positive ? 0.1 + u : u - 0.5;
            factor[m][i] = precision == TS_FLOAT32 ? (float)v : v;
        }
    }
}

static void *open_backend(const struct test_coo *x, struct ts_feed *f, uint32_t rank,
                          enum ts_precision precision, uint32_t threads, double **factor)
{
    struct ts_backend_conf conf = { .tensor = &f->tensor,
                                    .rank = rank,
                                    .precision = precision,
                                    .threads = threads,
                                    .needs = 1u << TS_ROW_DESCEND,
                                    .only_mode = -1 };
    struct ts_err err;
    void *be;
    ck_assert_msg(ts_backend_cpu.open(&conf, &be, &err) == 0, "%s", err.text);
    ck_assert_int_eq(ts_backend_cpu.own_rows(be, (1u << x->order) - 1, &err), 0);
    for (uint32_t m = 0; m < x->order; m++)
        ck_assert_int_eq(ts_backend_cpu.put_rows(be, m, 0, x->dim[m], factor[m], &err), 0);
    return be;
}

/* p of a cell, and the model there. */
static double terms(const struct test_coo *x, uint32_t mode, uint32_t rank, double **factor,
                    const uint64_t *cell, double *p)
{
    double model = 0;
    for (uint32_t r = 0; r < rank; r++) {
        p[r] = 1;
        for (uint32_t m = 0; m < x->order; m++)
            if (m != mode)
                p[r] *= factor[m][cell[m] * rank + r];
        model += p[r] * factor[mode][cell[mode] * rank + r];
    }
    return model;
}

static void add_cell(const struct test_coo *x, uint32_t mode, uint32_t rank, double **factor,
                     const uint64_t *cell, const struct ts_descent *how, double value, double sign,
                     double *g, double *size)
{
    double p[64], slope;
    const double model = terms(x, mode, rank, factor, cell, p);
    how->loss->weigh(1, &value, &model, how->at, &slope);
    for (uint32_t r = 0; r < rank; r++) {
        g[cell[mode] * rank + r] += sign * slope * p[r];
        size[cell[mode] * rank + r] += fabs(slope * p[r]);
    }
}

static void cell_of(const struct test_coo *x, uint64_t n, uint64_t *cell)
{
    for (uint32_t m = 0; m < x->order; m++)
        cell[m] = x->idx[m][n];
}

/* The gradient, and the sum of the magnitudes of its terms. all: of cells that are not listed every
 * one counts, too. */
static void gradient(const struct test_coo *x, uint32_t mode, uint32_t rank, double **factor,
                     const struct ts_descent *how, int all, double *g, double *size)
{
    const uint64_t entries = x->dim[mode] * rank;
    uint64_t cell[TS_MAX_ORDER] = { 0 }, cells = 1;
    for (uint64_t i = 0; i < entries; i++) {
        g[i] = how->l2 * factor[mode][i];
        size[i] = fabs(g[i]);
    }
    for (uint64_t n = 0; n < x->nnz; n++) {
        uint64_t hash = ts_hold_out_begin(&how->hold_out);
        for (uint32_t m = 0; m < x->order; m++)
            hash = ts_hold_out_add(hash, x->idx[m][n]);
        if (how->hold_out.share > 0 && ts_hold_out_held(&how->hold_out, hash))
            continue;
        cell_of(x, n, cell);
        add_cell(x, mode, rank, factor, cell, how, x->val[n], 1, g, size);
        if (!how->observed)
            add_cell(x, mode, rank, factor, cell, how, 0, -1, g, size);
    }
    for (uint32_t m = 0; m < x->order; m++)
        cells *= x->dim[m];
    for (uint64_t i = 0; all && i < cells; i++) {
        uint64_t rest = i;
        for (uint32_t m = 0; m < x->order; m++) {
            cell[m] = rest % x->dim[m];
            rest /= x->dim[m];
        }
        add_cell(x, mode, rank, factor, cell, how, 0, 1, g, size);
    }
}

/* Distinct cells, with values of the loss. */
static struct test_coo values(const struct shape *s, int kind)
{
    struct test_coo x = test_coo_random(SEED, s->order, s->dim, s->nnz, 0, 0);
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] = test_loss_value(kind, ts_unit(ts_mix(n)));
    return x;
}

static void run(void *be, struct ts_feed *f, uint32_t mode, const struct ts_descent *how)
{
    struct ts_backend_times times;
    struct ts_err err;
    ts_feed_rewind(f);
    ck_assert_msg(ts_backend_cpu.pass(
                      &(struct ts_request){ .be = be, .kind = TS_REQUEST_DESCEND, .descend = how },
                      1, mode, f, &times, &err) == 0,
                  "%s", err.text);
    ck_assert_uint_eq(f->given_back, f->given);
}

static void moments_new(const struct test_coo *x, uint32_t mode, uint32_t rank,
                        struct ts_descent *how)
{
    for (int k = 0; k < 2; k++)
        how->moment[k] = calloc(x->dim[mode] * rank, sizeof(double));
}

static double item(const void *at, uint64_t i, enum ts_precision precision)
{
    return precision == TS_FLOAT32 ? (double)((const float *)at)[i] : ((const double *)at)[i];
}

/* With observed cells, held-out ones and l2. The first moment after the first step is a tenth of
 * the gradient; the step is against its sign, within bounds. Sums are of float64 or, of up to 256
 * terms, in the precision of the factors. */
START_TEST(gradients_are_those_of_the_obvious_loop)
{
    const int kind = 1 + _i % (TS_N_GCP - 1), shape = _i / (TS_N_GCP - 1) % N_SHAPES;
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const double tol = precision == TS_FLOAT64 ? 1e-10 : 1e-4;
    const uint32_t rank = ranks[shape];
    struct test_coo x = values(&shapes[shape], kind);
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_F64, 1 + (uint32_t)_i % 3, 1);
    double *factor[TS_MAX_ORDER];
    void *be;
    fill_factors(&x, kind, rank, precision, factor);
    be = open_backend(&x, f, rank, precision, 2, factor);
    for (uint32_t m = 0; m < x.order; m++) {
        const uint64_t n = x.dim[m] * rank;
        double *g = malloc(n * sizeof *g), *size = malloc(n * sizeof *size);
        double *got = malloc(n * sizeof *got);
        struct ts_err err;
        struct ts_descent how = { .loss = ts_loss_of((enum ts_loss_kind)kind),
                                  .at = test_loss_number(kind),
                                  .observed = 1,
                                  .hold_out = { .share = _i % 4 == 0 ? 0.3 : 0, .seed = 9 },
                                  .l2 = 0.01,
                                  .rate = 0.01,
                                  .step = 1,
                                  .upper = 0.9 };
        how.lower = fmax(how.loss->lower, -0.4);
        moments_new(&x, m, rank, &how);
        gradient(&x, m, rank, factor, &how, 0, g, size);
        run(be, f, m, &how);
        ck_assert_int_eq(ts_backend_cpu.get_rows(be, m, 0, x.dim[m], got, &err), 0);
        for (uint64_t i = 0; i < n; i++) {
            const double found = item(how.moment[0], i, precision) / (1 - TS_DESCEND_FIRST);
            const double want =
                fmin(fmax(factor[m][i] - how.rate * found / (fabs(found) + 1e-8), how.lower), 0.9);
            if (!(fabs(found - g[i]) <= tol * (size[i] + 1e-6)))
                ck_abort_msg("%s, mode %u: gradient %.17g, not %.17g", how.loss->name, m, found,
                             g[i]);
            ck_assert_double_le(fabs(got[i] - want),
                                1e-5 * how.rate + 1e-6 * (precision == TS_FLOAT32));
            factor[m][i] = got[i];
        }
        for (int k = 0; k < 2; k++)
            free(how.moment[k]);
        free(got);
        free(size);
        free(g);
    }
    ts_backend_cpu.close(be);
    for (uint32_t m = 0; m < x.order; m++)
        free(factor[m]);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* The mean of 100 estimates of 64 columns lies within 5 of its standard errors, taken from the
 * estimates themselves, of the sum over all cells; draws are those of fixed seeds. What is judged
 * at zeros is estimated likewise. */
START_TEST(what_is_drawn_is_right_on_average)
{
    const int kind = with_zeros[_i], n_estimates = 100;
    const uint32_t rank = 3, mode = 1;
    struct test_coo x = values(&shapes[3], kind);
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_F64, 1, 1);
    const uint64_t n = x.dim[mode] * rank;
    double *factor[TS_MAX_ORDER], g[64], size[64], sum[64] = { 0 }, squares[64] = { 0 };
    double zeros = 0, zeros_squares = 0, want = 0, p[64];
    uint64_t cell[TS_MAX_ORDER], cells = 1;
    struct ts_descent how = { .loss = ts_loss_of((enum ts_loss_kind)kind),
                              .at = test_loss_number(kind),
                              .n_drawn = 64,
                              .seed = 3,
                              .step = 1,
                              .lower = -INFINITY,
                              .upper = INFINITY };
    void *be;
    fill_factors(&x, kind, rank, TS_FLOAT64, factor);
    be = open_backend(&x, f, rank, TS_FLOAT64, 2, factor);
    gradient(&x, mode, rank, factor, &how, 1, g, size);
    for (uint32_t m = 0; m < x.order; m++)
        cells *= x.dim[m];
    for (uint64_t i = 0; i < cells; i++) {
        static const double zero;
        uint64_t rest = i;
        double model;
        for (uint32_t m = 0; m < x.order; m++) {
            cell[m] = rest % x.dim[m];
            rest /= x.dim[m];
        }
        model = terms(&x, mode, rank, factor, cell, p);
        want += how.loss->judge(1, &zero, &model, how.at);
    }
    for (int k = 0; k < n_estimates; k++) {
        struct ts_err err;
        double one;
        how.draw = (uint64_t)k;
        moments_new(&x, mode, rank, &how); /* rate 0: the factor stays */
        run(be, f, mode, &how);
        for (uint64_t i = 0; i < n; i++) {
            const double found = item(how.moment[0], i, TS_FLOAT64) / (1 - TS_DESCEND_FIRST) - g[i];
            sum[i] += found / n_estimates;
            squares[i] += found * found / n_estimates;
        }
        ck_assert_int_eq(ts_backend_cpu.zeros(be, mode, &how, &one, &err), 0);
        zeros += (one - want) / n_estimates;
        zeros_squares += (one - want) * (one - want) / n_estimates;
        for (int i = 0; i < 2; i++)
            free(how.moment[i]);
    }
    for (uint64_t i = 0; i < n; i++)
        if (!(fabs(sum[i]) <= 5 * sqrt(squares[i] / n_estimates) + 1e-9 * size[i]))
            ck_abort_msg("%s: off by %g of %g", how.loss->name, sum[i], g[i]);
    ck_assert_double_le(fabs(zeros), 5 * sqrt(zeros_squares / n_estimates) + 1e-9 * fabs(want));
    ts_backend_cpu.close(be);
    for (uint32_t m = 0; m < x.order; m++)
        free(factor[m]);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* Of all cells, by the losses' own values: 1/2 l2 times squares apart. */
static double sum_of_cells(const struct test_coo *x, uint32_t rank, double **factor,
                           const struct ts_descent *how)
{
    uint64_t cell[TS_MAX_ORDER], cells = 1;
    double sum = 0, p[64], model;
    for (uint32_t m = 0; m < x->order; m++)
        cells *= x->dim[m];
    for (uint64_t i = 0; i < cells; i++) {
        static const double zero;
        uint64_t rest = i;
        for (uint32_t m = 0; m < x->order; m++) {
            cell[m] = rest % x->dim[m];
            rest /= x->dim[m];
        }
        model = terms(x, 0, rank, factor, cell, p);
        sum += how->loss->judge(1, &zero, &model, how->at);
    }
    for (uint64_t n = 0; n < x->nnz; n++) {
        static const double zero;
        cell_of(x, n, cell);
        model = terms(x, 0, rank, factor, cell, p);
        sum += how->loss->judge(1, &x->val[n], &model, how->at) -
               how->loss->judge(1, &zero, &model, how->at);
    }
    return sum;
}

/* Where there are no more columns than would be drawn nothing is estimated: gradients are those of
 * the sum over all cells, listed or not, by the obvious loop and by central differences of that
 * sum, and what is judged at zeros too. */
START_TEST(small_tensors_are_summed_whole)
{
    static const struct shape small = { 3, 60, { 6, 5, 7 } };
    const int kind = with_zeros[_i];
    const uint32_t rank = 4;
    const double h = 1e-5;
    const double tol = test_loss_bends(kind, test_loss_number(kind)) ? 1e-4 : 1e-6;
    struct test_coo x = values(&small, kind), none = x;
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_F64, 1, 1);
    double *factor[TS_MAX_ORDER];
    void *be;
    fill_factors(&x, kind, rank, TS_FLOAT64, factor);
    be = open_backend(&x, f, rank, TS_FLOAT64, 2, factor);
    none.nnz = 0;
    for (uint32_t m = 0; m < x.order; m++) {
        const uint64_t n = x.dim[m] * rank;
        double g[64], size[64], zeros;
        struct ts_err err;
        struct ts_descent how = { .loss = ts_loss_of((enum ts_loss_kind)kind),
                                  .at = test_loss_number(kind),
                                  .n_drawn = 64,
                                  .step = 1,
                                  .lower = -INFINITY,
                                  .upper = INFINITY };
        moments_new(&x, m, rank, &how); /* rate 0: the factor stays */
        gradient(&x, m, rank, factor, &how, 1, g, size);
        run(be, f, m, &how);
        for (uint64_t i = 0; i < n; i++) {
            const double found = item(how.moment[0], i, TS_FLOAT64) / (1 - TS_DESCEND_FIRST);
            const double was = factor[m][i];
            double near;
            if (!(fabs(found - g[i]) <= 1e-10 * size[i]))
                ck_abort_msg("%s, mode %u: gradient %.17g, not %.17g", how.loss->name, m, found,
                             g[i]);
            factor[m][i] = was + h;
            near = sum_of_cells(&x, rank, factor, &how);
            factor[m][i] = was - h;
            near = (near - sum_of_cells(&x, rank, factor, &how)) / (2 * h);
            factor[m][i] = was;
            /* rounding of two sums of 210 terms, over 2 h, and a third derivative; where the second
             * one jumps, that */
            if (!(fabs(near - found) <= tol * (1 + size[i])))
                ck_abort_msg("%s, mode %u: by differences %.17g, not %.17g", how.loss->name, m,
                             near, found);
        }
        ck_assert_int_eq(ts_backend_cpu.zeros(be, m, &how, &zeros, &err), 0);
        ck_assert_double_le(fabs(zeros - sum_of_cells(&none, rank, factor, &how)), 1e-9);
        for (int k = 0; k < 2; k++)
            free(how.moment[k]);
    }
    ts_backend_cpu.close(be);
    for (uint32_t m = 0; m < x.order; m++)
        free(factor[m]);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* What is judged at zeros, in all modes the same sum, of the factors with an entry changed by h. */
static double zeros_near(void *be, const struct test_coo *x, uint32_t mode, double **factor,
                         uint64_t i, double h, const struct ts_descent *how)
{
    const double was = factor[mode][i];
    struct ts_err err;
    double ret;
    factor[mode][i] = was + h;
    ck_assert_int_eq(ts_backend_cpu.put_rows(be, mode, 0, x->dim[mode], factor[mode], &err), 0);
    ck_assert_int_eq(ts_backend_cpu.zeros(be, x->order - 1, how, &ret, &err), 0);
    factor[mode][i] = was;
    ck_assert_int_eq(ts_backend_cpu.put_rows(be, mode, 0, x->dim[mode], factor[mode], &err), 0);
    return ret;
}

/* With cells that are the same for all modes, gradients of all modes are those of one function, by
 * central differences; its mean over 100 seeds lies within 5 standard errors of the sum over all
 * cells. With as many cells as there are it is that sum. */
START_TEST(cells_that_stand_for_others_make_one_function)
{
    const int kind = with_zeros[_i], n_seeds = 100;
    const double tol = test_loss_bends(kind, test_loss_number(kind)) ? 1e-2 : 1e-5;
    const uint32_t rank = 2;
    struct test_coo x = values(&shapes[3], kind), none = x;
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_F64, 1, 1);
    struct ts_descent how = { .loss = ts_loss_of((enum ts_loss_kind)kind),
                              .at = test_loss_number(kind),
                              .n_cells = 1024,
                              .seed = 3 };
    double *factor[TS_MAX_ORDER], g[64], got[64], size[64], want, mean = 0, squares = 0, all;
    struct ts_err err;
    void *be;
    fill_factors(&x, kind, rank, TS_FLOAT64, factor);
    be = open_backend(&x, f, rank, TS_FLOAT64, 2, factor);
    for (uint32_t m = 0; m < x.order; m++) {
        how.gradient = got;
        gradient(&x, m, rank, factor, &how, 0, g, size);
        run(be, f, m, &how);
        for (uint64_t i = 0; i < x.dim[m] * rank; i++) {
            const double h = 1e-5, more = zeros_near(be, &x, m, factor, i, h, &how);
            const double near =
                g[i] + (more - zeros_near(be, &x, m, factor, i, -h, &how)) / (2 * h);
            if (!(fabs(near - got[i]) <= tol * (1 + size[i])))
                ck_abort_msg("%s, mode %u: %.17g, by differences %.17g", how.loss->name, m, got[i],
                             near);
        }
    }
    none.nnz = 0;
    want = sum_of_cells(&none, rank, factor, &how);
    for (int k = 0; k < n_seeds; k++) {
        double one;
        how.seed = (uint64_t)k;
        ck_assert_int_eq(ts_backend_cpu.zeros(be, (uint32_t)k % x.order, &how, &one, &err), 0);
        mean += (one - want) / n_seeds;
        squares += (one - want) * (one - want) / n_seeds;
    }
    ck_assert_double_le(fabs(mean), 5 * sqrt(squares / n_seeds) + 1e-9 * fabs(want));
    how.n_cells = 1u << 14;
    ck_assert_int_eq(ts_backend_cpu.zeros(be, 1, &how, &all, &err), 0);
    ck_assert_double_le(fabs(all - want), 1e-10 * (1 + fabs(want)));
    ts_backend_cpu.close(be);
    for (uint32_t m = 0; m < x.order; m++)
        free(factor[m]);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

START_TEST(orders_of_numbers_have_each_once)
{
    static const uint64_t sizes[] = { 1, 2, 5, 64, 1000 };
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const uint64_t n = sizes[k];
        unsigned char there[1000] = { 0 };
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t to = ts_permute(i, n, 7 + k);
            ck_assert_uint_lt(to, n);
            ck_assert(!there[to]);
            there[to] = 1;
            ck_assert_uint_eq(ts_permute_back(to, n, 7 + k), i);
        }
    }
}
END_TEST

START_TEST(bits_do_not_depend_on_threads_or_delivery)
{
    static const uint32_t threads[] = { 1, 2, 3 };
    const int kind = 1 + _i % (TS_N_GCP - 1);
    const struct shape *s = &shapes[1 + _i % 3];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const uint32_t rank = 5, mode = 0;
    struct test_coo x = values(s, kind);
    const uint64_t bytes = x.dim[mode] * rank * sizeof(double);
    double *factor[TS_MAX_ORDER], *first = NULL, first_zeros = 0;
    fill_factors(&x, kind, rank, precision, factor);
    for (int k = 0; k < 3; k++) {
        struct ts_feed *f = memfeed_new(&x, TS_VALUE_F64, 1, (uint64_t)k);
        void *be = open_backend(&x, f, rank, precision, threads[k], factor);
        double *got = malloc(bytes), zeros;
        struct ts_err err;
        struct ts_descent how = { .loss = ts_loss_of((enum ts_loss_kind)kind),
                                  .at = test_loss_number(kind),
                                  .n_drawn = 300,
                                  .rate = 0.1,
                                  .step = 1,
                                  .upper = INFINITY };
        how.lower = how.loss->lower;
        moments_new(&x, mode, rank, &how);
        run(be, f, mode, &how);
        ck_assert_int_eq(ts_backend_cpu.get_rows(be, mode, 0, x.dim[mode], got, &err), 0);
        ck_assert_int_eq(ts_backend_cpu.zeros(be, mode, &how, &zeros, &err), 0);
        if (first == NULL) {
            first = got;
            first_zeros = zeros;
        } else {
            ck_assert_mem_eq(first, got, bytes);
            ck_assert_mem_eq(&first_zeros, &zeros, sizeof zeros);
            free(got);
        }
        for (int i = 0; i < 2; i++)
            free(how.moment[i]);
        ts_backend_cpu.close(be);
        memfeed_free(f);
    }
    free(first);
    for (uint32_t m = 0; m < x.order; m++)
        free(factor[m]);
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gcp");
    TCase *t = tcase_create("gcp");
    const int n_with_zeros = test_loss_with_zeros(with_zeros);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, slopes_are_those_of_the_losses, 1, TS_N_GCP);
    tcase_add_loop_test(t, rows_are_whole, TS_GCP_NONE + 1, TS_N_GCP);
    tcase_add_loop_test(t, bounds_are_those_of_the_loss, TS_GCP_NONE + 1, TS_N_GCP);
    tcase_add_test(t, names_are_read);
    tcase_add_loop_test(t, gradients_are_those_of_the_obvious_loop, 0, (TS_N_GCP - 1) * N_SHAPES);
    tcase_add_loop_test(t, what_is_drawn_is_right_on_average, 0, n_with_zeros);
    tcase_add_loop_test(t, small_tensors_are_summed_whole, 0, n_with_zeros);
    tcase_add_loop_test(t, cells_that_stand_for_others_make_one_function, 0, n_with_zeros);
    tcase_add_test(t, orders_of_numbers_have_each_once);
    tcase_add_loop_test(t, bits_do_not_depend_on_threads_or_delivery, 0, 2 * (TS_N_GCP - 1));
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
