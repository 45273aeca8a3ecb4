/* SPDX-License-Identifier: BSD-3-Clause */
/* Products on GPUs from which nonzeros are held out are those of an obvious loop in float64 without
 * them, and the errors at the nonzeros, those held out apart, too: at orders 2 to 8, several ranks
 * and both precisions; with the same bits for any number of devices, whether shards stay there or
 * pass through, and beside models that hold out others or none. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/gpu_rig.h"

#define MOST_RANK 200
#define NEEDS     (1u << TS_ROW_LEAST_SQUARES | TS_CAN(HELD_OUT))

static const uint32_t ranks[] = { 32, 64, 25, 9, 128, 8, 7, 16, 1, 200, 31, 33 };

static const double shares[] = { 0.1, 0.5, 0.25, 0.02, 0.9 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

/* Products without cells that are held out, and their errors. */
static struct rig_run run_new(const struct rig_disk *d, const struct rig_ask *ask)
{
    struct rig_run r = rig_open(d, ask, rig_signed);
    r.backend->hold_out(r.be, &ask->hold_out);
    r.backend->sum_in(r.be, ask->summed);
    return r;
}

/* The product, and the factor back in its place. */
static double *multiply(struct rig_run *r, uint32_t mode)
{
    double *ret = malloc(r->d->x.dim[mode] * r->ask->rank * sizeof *ret);
    rig_pass(r, (struct ts_request){ 0 }, mode);
    rig_get(r, mode, ret);
    rig_put(r->backend, r->be, mode, r->d->x.dim[mode], r->a[mode]);
    return ret;
}

static struct ts_error_sums errors(struct rig_run *r, uint32_t mode)
{
    struct ts_error_sums sums = { .hold_out = r->ask->hold_out };
    rig_pass(r, (struct ts_request){ .kind = TS_REQUEST_ERRORS, .errors = &sums }, mode);
    return sums;
}

/* ---- the obvious loop */

/* Beside the sum of the magnitudes of what is added; a product in float64 is rounded to floats, as
 * are parts of it. */
static double tolerance_of(const struct rig_ask *ask, int last)
{
    if (ask->precision == TS_FLOAT64)
        return 1e-12;
    return ask->summed == TS_FLOAT64 && last ? 3e-7 : 1e-5;
}

static void check_product(const struct rig_run *r, uint32_t mode, const double *got)
{
    const uint32_t n = r->ask->rank;
    const uint64_t n_entries = r->d->x.dim[mode] * n;
    const double tolerance = tolerance_of(r->ask, mode + 1 == r->d->x.order);
    double *want = calloc(n_entries, sizeof *want), *size = calloc(n_entries, sizeof *size);
    uint64_t n_held = 0;
    for (uint64_t i = 0; i < r->d->x.nnz; i++) {
        const uint64_t row = (uint64_t)r->d->x.idx[mode][i] * n;
        double p[MOST_RANK];
        if (rig_is_held(r, i)) {
            n_held++;
            continue;
        }
        rig_products(r, i, mode, p);
        for (uint32_t k = 0; k < n; k++) {
            want[row + k] += r->d->x.val[i] * p[k];
            size[row + k] += fabs(r->d->x.val[i] * p[k]);
        }
    }
    ck_assert(r->d->x.nnz == 1 || (n_held > 0 && n_held < r->d->x.nnz));
    for (uint64_t k = 0; k < n_entries; k++)
        ck_assert_msg(fabs(got[k] - want[k]) <= tolerance * size[k],
                      "mode %u, row %" PRIu64 ": %.17g, by the loop %.17g of %g", mode + 1, k / n,
                      got[k], want[k], size[k]);
    free(want);
    free(size);
}

/* Case i: a shape, a rank, a precision, a share. */
static struct rig_ask ask_of(int i)
{
    const int kind = i / RIG_N_SHAPES % 3;
    return (struct rig_ask){
        .rank = ranks[(i + i / RIG_N_SHAPES) % N_RANKS],
        .members = 1,
        .precision = kind == 0 ? TS_FLOAT64 : TS_FLOAT32,
        .summed = kind == 1 ? TS_FLOAT32 : TS_FLOAT64,
        .needs = NEEDS,
        .hold_out = { .share = shares[i % 5], .seed = 11, .from = i % 2 == 0 ? 0 : 0.1 },
        .host_bytes = RIG_HOST_BYTES
    };
}
#define N_CASES (6 * RIG_N_SHAPES)

START_TEST(products_are_without_held_cells)
{
    struct rig_disk d = rig_values(&rig_shapes[_i % RIG_N_SHAPES], RIG_NONE);
    const struct rig_ask ask = ask_of(_i);
    struct rig_run r = run_new(&d, &ask);
    for (uint32_t m = 0; m < d.x.order; m++) {
        double *got = multiply(&r, m);
        check_product(&r, m, got);
        free(got);
    }
    for (uint32_t m = 0; m < d.x.order; m++) {
        const struct ts_error_sums sums = errors(&r, m);
        rig_check_errors(&r, 0, ask.precision == TS_FLOAT64 ? 1e-11 : 1e-4, &sums);
    }
    rig_close(&r);
    rig_disk_free(&d);
}
END_TEST

/* The products of all modes, twice, so that shards that stay are there; and the errors. */
static void compute(const struct rig_disk *d, const struct rig_ask *ask, struct rig_bits *ret)
{
    struct rig_run r = run_new(d, ask);
    struct ts_error_sums sums;
    for (uint32_t k = 0; k < 2 * d->x.order; k++) {
        const uint32_t m = k % d->x.order;
        double *got = multiply(&r, m);
        rig_keep(ret, "product", got, d->x.dim[m] * ask->rank * sizeof *got);
        free(got);
    }
    sums = errors(&r, d->x.order - 1);
    rig_keep(ret, "errors", &sums.kept, sizeof sums.kept);
    rig_keep(ret, "errors of held cells", &sums.held, sizeof sums.held);
    rig_close(&r);
}

START_TEST(bits_do_not_depend_on_devices_or_memory)
{
    struct rig_disk d = rig_values(&rig_shapes[_i], RIG_NONE);
    rig_check_bits(&d, ask_of(_i + RIG_N_SHAPES * (_i % 3)), compute);
    rig_disk_free(&d);
}
END_TEST

/* Four models in one pass: two hold out other cells, two none. */
START_TEST(models_hold_out_their_own)
{
    static const uint32_t rank[] = { 16, 16, 16, 16 };
    static const double share[] = { 0.2, 0.4, 0, 0 };
    struct rig_disk d = rig_values(&rig_shapes[_i], RIG_NONE);
    const struct rig_ask ask = {
        .rank = 16, .members = 1, .needs = NEEDS, .host_bytes = RIG_HOST_BYTES
    };
    struct rig_ask all = ask;
    struct rig_run r = run_new(&d, &ask); /* its factors are those of all models */
    struct ts_backend_conf conf;
    struct ts_backend_times times;
    struct ts_feed *feed;
    void *be;
    all.n_models = 4;
    all.ranks = rank;
    conf = rig_conf(d.tensor, &all);
    be = rig_backend_new(rig_be, &conf);
    feed = rig_feed_new(rig_be, d.tensor, be, all.host_bytes);
    for (uint32_t mode = 0; mode < d.x.order; mode++) {
        struct ts_request of[4] = { { 0 } };
        for (uint32_t k = 0; k < 4; k++) {
            const struct ts_hold_out h = { .share = share[k], .seed = 11 };
            of[k].be = rig_be->model(be, k);
            for (uint32_t m = 0; m < d.x.order; m++)
                rig_put(rig_be, of[k].be, m, d.x.dim[m], r.a[m]);
            rig_be->hold_out(of[k].be, &h);
        }
        rig_pass_of(rig_be, d.tensor, feed, of, 4, mode, &times);
        for (uint32_t k = 0; k < 4; k++) {
            const uint64_t n = d.x.dim[mode] * ask.rank;
            const struct ts_hold_out h = { .share = share[k], .seed = 11 };
            double *got = malloc(n * sizeof *got), *want;
            rig_be->hold_out(r.be, &h);
            want = multiply(&r, mode);
            OK(rig_be->get_rows(of[k].be, mode, 0, d.x.dim[mode], got, &err));
            ck_assert_msg(memcmp(got, want, n * sizeof *got) == 0, "mode %u, model %u: other bits",
                          mode + 1, k + 1);
            free(got);
            free(want);
        }
    }
    ts_feed_free(feed);
    rig_be->close(be);
    rig_close(&r);
    rig_disk_free(&d);
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
    struct rig_disk d = rig_values(&rig_shapes[3], RIG_NONE);
    const struct rig_ask ask = {
        .rank = 8, .members = 1, .needs = 1u << TS_ROW_LEAST_SQUARES, .host_bytes = RIG_HOST_BYTES
    };
    struct ts_error_sums sums = { .mean = 0 };
    rig_check_refused(&d, ask, (struct ts_request){ .kind = TS_REQUEST_ERRORS, .errors = &sums },
                      "set aside");
    rig_disk_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = rig_suite("gpu_held");
    if (suite == NULL)
        return 77;
    test_add(suite, "products", products_are_without_held_cells, N_CASES);
    test_add(suite, "bits", bits_do_not_depend_on_devices_or_memory, RIG_N_SHAPES);
    rig_add_gpu(suite, "models", models_hold_out_their_own, RIG_N_SHAPES);
    rig_add_gpu(suite, "refused", what_is_not_there_is_refused, 1);
    return test_run_suite(suite, CK_NOFORK);
}
