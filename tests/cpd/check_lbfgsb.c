/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs by L-BFGS-B never rise, end where the gradient vanishes but for what bounds hold back, and
 * have the same bits streamed, by any threads, and stopped anywhere. Runs by Adam have the same
 * bits, too. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/cpd/cp_case.h"
#include "tests/support/loss_case.h"
#include "tests/support/run_suite.h"

#define L2 0.05

static void demand(int kind, int lbfgsb, struct ts_spec *spec)
{
    *spec = (struct ts_spec){ .loss = (enum ts_loss_kind)kind,
                              .loss_at = ts_loss_some_number((enum ts_loss_kind)kind),
                              .lbfgsb = lbfgsb,
                              .observed = !ts_loss_of((enum ts_loss_kind)kind)->zeros };
    for (uint32_t m = 0; m < 3; m++)
        spec->mode[m] = (struct ts_constraint){ .bounded = kind == TS_GCP_POISSON_LOG,
                                                .lower = kind == TS_GCP_POISSON_LOG ? -0.7 : 0,
                                                .upper = kind == TS_GCP_POISSON_LOG ? 0.9 : 0,
                                                .l2 = L2 };
    spec->mode[1].nonneg = kind == TS_GCP_HUBER;
}

static double value_of(int kind, uint64_t n)
{
    const struct ts_loss *loss = ts_loss_of((enum ts_loss_kind)kind);
    const double u = ts_unit(ts_mix(n));
    return !loss->allows(2) ? 1 : !loss->allows(0) ? 0.5 + u : floor(1 + 3 * u);
}

/* large: more cells than stand for them, and more bytes than is streamed with. */
static struct test_coo tensor_of(int kind, int large)
{
    static const uint64_t dims[2][3] = { { 12, 9, 10 }, { 120, 100, 80 } };
    struct test_coo x = test_coo_random(7, 3, dims[large], large ? 16000 : 500, 0, 0);
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] = value_of(kind, n);
    return x;
}

static void write_tensor(int kind, int large)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .shard_partitions = 1 };
    struct test_coo x = tensor_of(kind, large);
    test_tsh_write(test_case_dir, &x, &tc);
    test_coo_free(&x);
}

/* Factors with the lengths that their columns had. */
static void restore_lengths(struct test_cp *a)
{
    for (uint32_t m = 0; m < a->order; m++)
        for (uint64_t i = 0; i < a->n_rows[m] * a->rank; i++) {
            const double norm = a->norm[m * a->rank + i % a->rank];
            a->factor[m][i] *= norm > 0 ? norm : 1;
        }
}

/* Of a cell's loss, added to the gradient of each mode. */
static void add_cell(const struct ts_spec *spec, const struct test_cp *a, const uint64_t *cell,
                     double x, double sign, double *const *g)
{
    double model = 0, slope;
    for (uint32_t r = 0; r < a->rank; r++) {
        double p = 1;
        for (uint32_t m = 0; m < 3; m++)
            p *= a->factor[m][cell[m] * a->rank + r];
        model += p;
    }
    ts_loss_of(spec->loss)->weigh(1, &x, &model, spec->loss_at, &slope);
    for (uint32_t m = 0; m < 3; m++)
        for (uint32_t r = 0; r < a->rank; r++) {
            double p = sign * slope;
            for (uint32_t k = 0; k < 3; k++)
                p *= k == m ? 1 : a->factor[k][cell[k] * a->rank + r];
            g[m][cell[m] * a->rank + r] += p;
        }
}

/* Of the gradient over all cells, or all listed ones, what bounds do not hold back: the largest
 * magnitude. */
static double violation(const struct ts_spec *spec, const struct test_coo *x, struct test_cp *a)
{
    const uint64_t cells = x->dim[0] * x->dim[1] * x->dim[2];
    double *g[3], most = 0;
    uint64_t cell[3];
    restore_lengths(a);
    for (uint32_t m = 0; m < 3; m++) {
        g[m] = malloc(x->dim[m] * a->rank * sizeof(double));
        for (uint64_t i = 0; i < x->dim[m] * a->rank; i++)
            g[m][i] = L2 * a->factor[m][i];
    }
    for (uint64_t n = 0; n < x->nnz; n++) {
        for (uint32_t m = 0; m < 3; m++)
            cell[m] = x->idx[m][n];
        add_cell(spec, a, cell, x->val[n], 1, g);
        if (!spec->observed)
            add_cell(spec, a, cell, 0, -1, g);
    }
    for (uint64_t i = 0; i < cells && !spec->observed; i++) {
        cell[0] = i % x->dim[0];
        cell[1] = i / x->dim[0] % x->dim[1];
        cell[2] = i / x->dim[0] / x->dim[1];
        add_cell(spec, a, cell, 0, 1, g);
    }
    for (uint32_t m = 0; m < 3; m++) {
        const struct ts_constraint *c = &spec->mode[m];
        const double lower = c->bounded                                        ? c->lower
                             : c->nonneg || ts_loss_of(spec->loss)->lower == 0 ? 0
                                                                               : -INFINITY;
        const double upper = c->bounded ? c->upper : INFINITY;
        for (uint64_t i = 0; i < x->dim[m] * a->rank; i++) {
            const double at = a->factor[m][i];
            ck_assert(at >= lower && at <= upper);
            if (!((at <= lower && g[m][i] > 0) || (at >= upper && g[m][i] < 0)))
                most = fmax(most, fabs(g[m][i]));
        }
        free(g[m]);
    }
    return most;
}

/* Of a tensor of which every cell counts. The gradient at the end is a small part of what it was
 * after a sweep. */
START_TEST(runs_end_where_the_gradient_vanishes)
{
    struct ts_spec spec;
    struct test_coo x = tensor_of(_i, 0);
    struct test_cp_conf conf = {
        .rank = 3, .iters = 1, .seed = 3, .threads = 2, .precision = TS_FLOAT64, .spec = &spec
    };
    struct test_cp first, last;
    double begin, end;
    demand(_i, 1, &spec);
    write_tensor(_i, 0);
    first = test_case_run(&conf);
    begin = violation(&spec, &x, &first);
    conf.iters = 99;
    last = test_case_run(&conf);
    end = violation(&spec, &x, &last);
    ck_assert_msg(end <= (_i == TS_GCP_BERNOULLI_LOGIT ? 0.2 : 0.02) * begin,
                  "%s: the gradient was %g and is %g", ts_loss_of(spec.loss)->name, begin, end);
    for (uint32_t k = 1; k < last.sweeps; k++)
        ck_assert_double_le(last.objective[k],
                            last.objective[k - 1] + 1e-12 * fabs(last.objective[0]));
    test_cp_free(&last);
    test_cp_free(&first);
    test_coo_free(&x);
}
END_TEST

START_TEST(threads_memory_and_stops_do_not_matter)
{
    struct ts_spec spec;
    static const int some[] = { TS_GCP_POISSON_LOG, TS_GCP_HUBER, TS_GCP_GAMMA };
    const int kind = some[_i / 2];
    struct test_cp_conf conf = { .rank = 3,
                                 .iters = _i == 3 ? 3 : 2,
                                 .seed = 3,
                                 .threads = 1,
                                 .precision = _i % 4 == 0 ? TS_FLOAT32 : TS_FLOAT64,
                                 .spec = &spec };
    struct test_cp a;
    demand(kind, _i % 2, &spec);
    if (kind == TS_GCP_GAMMA)
        conf.hold_out = (struct ts_hold_out){ .share = 0.2, .seed = 5 };
    write_tensor(kind, 1);
    a = test_case_streamed(&conf);
    test_cp_free(&a);
    test_case_stopped(&conf, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lbfgsb");
    TCase *t = tcase_create("lbfgsb");
    tcase_set_timeout(t, 600);
    tcase_add_checked_fixture(t, test_case_setup, test_case_teardown);
    tcase_add_loop_test(t, runs_end_where_the_gradient_vanishes, 1, TS_N_GCP);
    tcase_add_loop_test(t, threads_memory_and_stops_do_not_matter, 0, 6);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_FORK_GETENV);
}
