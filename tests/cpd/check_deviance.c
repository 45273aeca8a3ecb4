/* SPDX-License-Identifier: BSD-3-Clause */
/* The fit by a loss is the share of the deviance that a model explains: of every loss, with several
 * numbers where it takes one, and of the example of docs/contributing.md. It is held against sums
 * over all cells in float64 whose best models are searched for, so that nothing of the deviance's
 * formulas is taken for true. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/methods/deviance.h"
#include "stream/loss_functions.h"
#include "tests/cpd/cp_case.h"
#include "tests/support/run_suite.h"

/* The example: linear in x but for x^2. */
static void normal_weigh(uint32_t n, const double *restrict x, const double *restrict m, double at,
                         double *restrict g)
{
    (void)at;
    for (uint32_t i = 0; i < n; i++)
        g[i] = 2 * (m[i] - x[i]);
}

static double normal_judge(uint32_t n, const double *restrict x, const double *restrict m,
                           double at)
{
    double sum = 0;
    (void)at;
    for (uint32_t i = 0; i < n; i++)
        sum += (x[i] - m[i]) * (x[i] - m[i]);
    return sum;
}

static double mean_itself(double mean, double at)
{
    (void)at;
    return mean;
}

static int is_finite(double x)
{
    return isfinite(x);
}

static const struct ts_loss normal = { .kind = (enum ts_loss_kind)TS_N_GCP,
                                       .name = "normal",
                                       .allows = is_finite,
                                       .lower = -INFINITY,
                                       .zeros = 1,
                                       .in_x = TS_IN_X_APART,
                                       .constant = mean_itself,
                                       .weigh = normal_weigh,
                                       .judge = normal_judge };

/* Another, whose best m depends on a number: x successes before `at` failures, of odds m. */
static double successes_judge(uint32_t n, const double *restrict x, const double *restrict m,
                              double at)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (at + x[i]) * log1p(m[i]) - (x[i] > 0 ? x[i] * log(m[i]) : 0);
    return sum;
}

static double odds_of_successes(double mean, double at)
{
    return mean / at;
}

static int is_count(double x)
{
    return x >= 0 && x == floor(x);
}

static int is_above_0(double at)
{
    return at > 0;
}

static const struct ts_loss successes = { .kind = (enum ts_loss_kind)TS_N_GCP,
                                          .name = "successes",
                                          .number = ":R",
                                          .number_allows = is_above_0,
                                          .allows = is_count,
                                          .zeros = 1,
                                          .in_x = TS_IN_X_LINEAR,
                                          .constant = odds_of_successes,
                                          .judge = successes_judge };

/* Each loss with each of these where it takes a number, and the two examples. */
static const double numbers[] = { 0.3, 1, 2.5 };
#define UNITS     15
#define N_NUMBERS (int)(sizeof numbers / sizeof numbers[0])
#define N_OF_RUNS ((TS_N_GCP - 1) * N_NUMBERS)
#define N_CASES   (N_OF_RUNS + 2 * N_NUMBERS)

static const struct ts_loss *loss_of(int i)
{
    const int kind = 1 + i / N_NUMBERS;
    return kind < TS_N_GCP    ? ts_loss_of((enum ts_loss_kind)kind)
           : kind == TS_N_GCP ? &normal
                              : &successes;
}

static double at_of(int i)
{
    const struct ts_loss *loss = loss_of(i);
    const double some = ts_loss_some_number(loss->kind), at = numbers[i % N_NUMBERS];
    return loss->number_allows == NULL ? 0 : loss->number_allows(at) ? at : some;
}

static double f(const struct ts_loss *loss, double at, double x, double m)
{
    return loss->judge(1, &x, &m, at);
}

/* A value that the loss is for, of a number in [0, 1): of reals, counts and bits the first that all
 * are. */
static double value_of(const struct ts_loss *loss, double u)
{
    return loss->allows(-0.5)  ? 4 * u - 1
           : loss->allows(0.5) ? 0.1 + 3 * u
           : loss->allows(2)   ? floor(4 * u)
                               : floor(2 * u);
}

/* ---- the twin ---- */

struct cells {
    const struct ts_loss *loss;
    double at, unlisted; /* unlisted: so many more, of value 0 */
    uint64_t n;
    const double *x;
};

static double sum_at(const struct cells *c, double m)
{
    double sum = c->unlisted > 0 ? c->unlisted * f(c->loss, c->at, 0, m) : 0;
    for (uint64_t i = 0; i < c->n; i++)
        sum += f(c->loss, c->at, c->x[i], m);
    return sum;
}

/* Entries are 0 or more: as powers of e, from a model of 1e-9 to one of 1e9. */
static double model_of(const struct cells *c, double t)
{
    return c->loss->lower == 0 ? exp(t / 2) : t;
}

/* The least sum of models that have one value everywhere, which has one minimum: by golden
 * sections. */
static double least_sum(const struct cells *c)
{
    const double golden = (sqrt(5) - 1) / 2;
    double lower = -42, upper = 42, least;
    for (int k = 0; k < 120; k++) {
        const double less = upper - golden * (upper - lower);
        const double more = lower + golden * (upper - lower);
        if (sum_at(c, model_of(c, less)) < sum_at(c, model_of(c, more)))
            upper = more;
        else
            lower = less;
    }
    least = sum_at(c, model_of(c, (lower + upper) / 2));
    return c->loss->lower == 0 ? fmin(least, sum_at(c, 0)) : least;
}

static double constant_sum(const struct cells *c)
{
    return c->loss->in_x == TS_IN_X_ANY ? sum_at(c, 0) : least_sum(c);
}

static double saturated_sum(const struct cells *c)
{
    const double zero = 0;
    struct cells one = { .loss = c->loss, .at = c->at, .n = 1, .x = &zero };
    double sum = c->unlisted > 0 ? c->unlisted * least_sum(&one) : 0;
    for (uint64_t i = 0; i < c->n; i++) {
        one.x = &c->x[i];
        sum += least_sum(&one);
    }
    return sum;
}

/* ---- of sums ---- */

static double reference_of(const struct ts_loss *loss, double at, double x)
{
    return loss == &normal      ? f(loss, at, x, TS_LOSS_APART_AT)
           : loss == &successes ? f(loss, at, x, x / at)
                                : ts_loss_reference(loss->kind, x, at);
}

/* As passes add them up. */
static struct ts_cell_losses sums_of(const struct cells *c)
{
    struct ts_cell_losses ret = { .n = (double)c->n };
    for (uint64_t i = 0; i < c->n; i++) {
        ret.x += c->x[i];
        ret.reference += reference_of(c->loss, c->at, c->x[i]);
    }
    return ret;
}

/* The model of one value that is best has fit 0, all others less; that of each cell's own value has
 * 1. */
START_TEST(the_constant_model_has_fit_0_and_the_saturated_one_1)
{
    const struct ts_loss *loss = loss_of(_i);
    double x[60];
    for (int unlisted = 0; unlisted <= 200 * loss->zeros; unlisted += 100) {
        struct cells c = { .loss = loss, .at = at_of(_i), .unlisted = unlisted, .n = 60, .x = x };
        struct ts_cell_losses kept;
        const double cells = 60 + unlisted;
        double of_constant, of_saturated;
        for (int i = 0; i < 60; i++)
            x[i] = value_of(loss, ts_unit(ts_mix((uint64_t)(100 * _i + i))));
        kept = sums_of(&c);
        of_constant = constant_sum(&c);
        of_saturated = saturated_sum(&c);
        /* models are searched for to half of the digits, so sums are right to all; 1e-9 a cell is
         * what models of 1e9 for infinite ones leave */
        ck_assert_msg(fabs(ts_deviance_fit(loss, c.at, cells, &kept, of_constant)) < 1e-8,
                      "%s: the constant model has fit %.17g", loss->name,
                      ts_deviance_fit(loss, c.at, cells, &kept, of_constant));
        ck_assert_msg(fabs(ts_deviance_fit(loss, c.at, cells, &kept, of_saturated) - 1) < 1e-8,
                      "%s: the saturated model has fit %.17g", loss->name,
                      ts_deviance_fit(loss, c.at, cells, &kept, of_saturated));
        for (double t = -3; t <= 3 && loss->in_x != TS_IN_X_ANY; t += 0.5) {
            const double sum = sum_at(&c, model_of(&c, t));
            ck_assert_double_le(ts_deviance_fit(loss, c.at, cells, &kept, sum), 1e-8);
        }
    }
}
END_TEST

/* Where all cells have one value, no model explains more than the constant one: the fit is S - F,
 * and no rounding is divided by. */
START_TEST(cells_of_one_value_leave_nothing_to_explain)
{
    const struct ts_loss *loss = loss_of(_i);
    double x[1000];
    if (loss->in_x == TS_IN_X_ANY)
        return; /* measured against zeros */
    for (int k = 0; k < 50; k++) {
        struct cells c = { .loss = loss, .at = at_of(_i), .n = 1000, .x = x };
        const double one = value_of(loss, ts_unit(ts_mix((uint64_t)k)));
        struct ts_cell_losses kept;
        double least;
        for (int i = 0; i < 1000; i++)
            x[i] = one;
        kept = sums_of(&c);
        least = saturated_sum(&c);
        for (double t = -3; t <= 3; t += 0.5) {
            const double sum = sum_at(&c, model_of(&c, t));
            const double fit = ts_deviance_fit(loss, c.at, 1000, &kept, sum);
            /* sums are right to 1e-8 a cell at most, see above */
            ck_assert_msg(fabs(fit - (least - sum)) < 1e-5 + 1e-8 * fabs(sum),
                          "%s, all %g: the fit is %.17g, S - F is %.17g", loss->name, one, fit,
                          least - sum);
        }
    }
}
END_TEST

/* Of values and models near 1, in another unit. */
static double fit_of_unit(const struct ts_loss *loss, double at, double unit)
{
    double x[60], sum = 0;
    const struct cells c = { .loss = loss, .at = at * unit, .n = 60, .x = x };
    struct ts_cell_losses kept;
    for (int i = 0; i < 60; i++) {
        x[i] = unit * (1 + 0.5 * ts_unit(ts_mix((uint64_t)i)));
        sum += f(loss, c.at, x[i], unit * (1 + 0.5 * i / 60));
    }
    kept = sums_of(&c);
    return ts_deviance_fit(loss, c.at, 60, &kept, sum);
}

START_TEST(units_of_values_do_not_matter)
{
    static const struct {
        enum ts_loss_kind kind;
        int least, most; /* powers of 10; of gamma none is near TS_LOSS_LEAST */
    } way[] = { { TS_GCP_HUBER, -UNITS, UNITS }, { TS_GCP_GAMMA, 0, UNITS } };
    const struct ts_loss *loss = ts_loss_of(way[_i].kind);
    const double at = ts_loss_some_number(loss->kind), want = fit_of_unit(loss, at, 1);
    for (int k = way[_i].least; k <= way[_i].most; k++) {
        const double got = fit_of_unit(loss, at, pow(10, k));
        /* C less S is about 1e-2 of its terms, which are right to some 1e-14; TS_LOSS_LEAST is
         * added to m */
        ck_assert_msg(fabs(got - want) < 1e-7,
                      "%s: the fit of unit 1e%d is %.17g, that of 1 is %.17g", loss->name, k, got,
                      want);
    }
}
END_TEST

/* The deviance of Poisson numbers of 1e9 that scatter as such is 1e-10 of the sums that it is the
 * difference of. */
START_TEST(large_counts_have_a_fit)
{
    const struct ts_loss *loss = ts_loss_of(TS_GCP_POISSON_LOG);
    double x[60], mean = 0, of_constant = 0, of_saturated = 0;
    struct cells c = { .loss = loss, .n = 60, .x = x };
    struct ts_cell_losses kept;
    for (int i = 0; i < 60; i++) {
        x[i] = floor(1e9 + 3e4 * (2 * ts_unit(ts_mix((uint64_t)i)) - 1));
        mean += x[i] / 60;
    }
    for (int i = 0; i < 60; i++) {
        of_constant += f(loss, 0, x[i], log(mean));
        of_saturated += f(loss, 0, x[i], log(x[i]));
    }
    kept = sums_of(&c);
    ck_assert_double_gt(of_constant - of_saturated, 5);
    ck_assert_double_le(fabs(ts_deviance_fit(loss, 0, 60, &kept, of_constant)), 1e-3);
    ck_assert_double_le(fabs(ts_deviance_fit(loss, 0, 60, &kept, of_saturated) - 1), 1e-3);
}
END_TEST

/* What a row says of its loss is so: second differences in x vanish, or those of them between two
 * models do; and neither, where the row says neither, so that no loss that has a constant model is
 * measured against zeros. */
START_TEST(losses_depend_on_the_value_as_their_rows_say)
{
    static const double models[] = { 0.2, 0.7, 1.9, 6 };
    const struct ts_loss *loss = loss_of(_i);
    const double at = at_of(_i);
    double curved = 0, apart = 0, first = 0;
    for (int k = 0; k < 4; k++) {
        const double m = models[k];
        for (double x = 1; x < 3; x += 0.25) {
            const double bend =
                f(loss, at, x + 0.5, m) - 2 * f(loss, at, x, m) + f(loss, at, x - 0.5, m);
            first = k == 0 ? bend
                           : f(loss, at, x + 0.5, models[0]) - 2 * f(loss, at, x, models[0]) +
                                 f(loss, at, x - 0.5, models[0]);
            curved = fmax(curved, fabs(bend));
            apart = fmax(apart, fabs(bend - first));
        }
    }
    switch (loss->in_x) {
    case TS_IN_X_LINEAR:
        ck_assert_double_le(curved, 1e-12);
        break;
    case TS_IN_X_APART:
        ck_assert_double_le(apart, 1e-12);
        ck_assert_double_ge(curved, 1e-3);
        break;
    case TS_IN_X_ANY:
        ck_assert_double_ge(apart, 1e-3);
        ck_assert_double_eq(f(loss, at, 0, 0), 0);
        break;
    }
    ck_assert_int_eq(loss->in_x == TS_IN_X_ANY, loss->constant == NULL);
}
END_TEST

/* ---- of runs ---- */

/* Case i: the loss and its number; cells that are observed alone, or not; of those some held out,
 * or none. */
struct want {
    int observed, held, lbfgsb;
};

static double model_at(const struct test_cp *a, const struct test_coo *x, uint64_t cell)
{
    double sum = 0;
    for (uint32_t r = 0; r < a->rank; r++) {
        uint64_t rest = cell;
        double p = 1;
        for (uint32_t m = 0; m < 3; m++) {
            p *= a->factor[m][rest % x->dim[m] * a->rank + r] * a->norm[m * a->rank + r];
            rest /= x->dim[m];
        }
        sum += p;
    }
    return sum;
}

static int is_held(const struct ts_hold_out *h, const struct test_coo *x, uint64_t n)
{
    uint64_t hash = ts_hold_out_begin(h);
    for (uint32_t m = 0; m < 3; m++)
        hash = ts_hold_out_add(hash, x->idx[m][n]);
    return h->share > 0 && ts_hold_out_held(h, hash);
}

/* The fit of the model that was computed, from all cells. */
static double slow_fit(const struct test_cp *a, const struct test_coo *x,
                       const struct ts_spec *spec, const struct ts_hold_out *h)
{
    const uint64_t cells = x->dim[0] * x->dim[1] * x->dim[2];
    const struct ts_loss *loss = ts_loss_of(spec->loss);
    double *value = calloc(cells, sizeof *value), *kept = malloc(cells * sizeof *kept);
    char *listed = calloc(cells, 1);
    struct cells all = { .loss = loss, .at = spec->loss_at, .x = kept };
    double sum = 0, of_constant, of_saturated;
    for (uint64_t n = 0; n < x->nnz; n++) {
        const uint64_t at = x->idx[0][n] + x->dim[0] * (x->idx[1][n] + x->dim[1] * x->idx[2][n]);
        listed[at] = !is_held(h, x, n);
        value[at] = listed[at] ? x->val[n] : 0;
    }
    for (uint64_t i = 0; i < cells; i++) {
        if (spec->observed && !listed[i])
            continue;
        kept[all.n++] = value[i];
        sum += f(loss, spec->loss_at, value[i], model_at(a, x, i));
    }
    of_constant = constant_sum(&all);
    of_saturated = saturated_sum(&all);
    free(listed);
    free(kept);
    free(value);
    return (of_constant - sum) / (of_constant - of_saturated);
}

START_TEST(fits_of_runs_are_those_of_all_cells)
{
    static const uint64_t dims[] = { 6, 5, 7 };
    const int number = _i / 8;
    const struct want want = { .observed = _i & 1, .held = _i >> 1 & 1, .lbfgsb = _i >> 2 & 1 };
    const struct ts_loss *loss = loss_of(number);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F64, .shard_partitions = 1 };
    const struct ts_spec spec = { .loss = loss->kind,
                                  .loss_at = at_of(number),
                                  .observed = want.observed || !loss->zeros,
                                  .lbfgsb = want.lbfgsb };
    struct test_cp_conf conf = { .rank = 2,
                                 .iters = 4,
                                 .seed = 3,
                                 .threads = 1,
                                 .precision = TS_FLOAT64,
                                 .hold_out = { .share = want.held ? 0.2 : 0, .seed = 5 },
                                 .spec = &spec };
    struct test_coo x = test_coo_random(7, 3, dims, 150, 0, 0);
    struct test_cp a;
    double fit;
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] = value_of(loss, ts_unit(ts_mix(n)));
    test_tsh_write(test_case_dir, &x, &tc);
    a = test_case_run(&conf);
    fit = slow_fit(&a, &x, &spec, &conf.hold_out);
    ck_assert_msg(fabs(a.fit[a.sweeps - 1] - fit) < 1e-7,
                  "%s:%g, observed %d: the fit is %.17g, not %.17g", loss->name, spec.loss_at,
                  spec.observed, a.fit[a.sweeps - 1], fit);
    test_cp_free(&a);
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("deviance");
    TCase *t = tcase_create("deviance");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, test_case_setup, test_case_teardown);
    tcase_add_loop_test(t, the_constant_model_has_fit_0_and_the_saturated_one_1, 0, N_CASES);
    tcase_add_loop_test(t, cells_of_one_value_leave_nothing_to_explain, 0, N_CASES);
    tcase_add_loop_test(t, units_of_values_do_not_matter, 0, 2);
    tcase_add_test(t, large_counts_have_a_fit);
    tcase_add_loop_test(t, losses_depend_on_the_value_as_their_rows_say, 0, N_CASES);
    tcase_add_loop_test(t, fits_of_runs_are_those_of_all_cells, 0, 8 * N_OF_RUNS);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_FORK_GETENV);
}
