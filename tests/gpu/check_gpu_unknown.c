/* SPDX-License-Identifier: BSD-3-Clause */
/* Models of the known cells of dense tensors on GPUs: rows solve the obvious sums over known cells
 * in float64, errors are those of the obvious loop, and both have the same bits whether cells stay
 * on the device or pass through it and for any number of devices: of which one is named several
 * times. */
#include "config.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/dense/dense_scan.h"
#include "format/arrays/dense.h"
#include "format/hold_out.h"
#include "stream/feed/slabs.h"
#include "tests/gpu/gpu_rig.h"

#define L2 0.1

static const struct shape {
    uint32_t order;
    uint64_t dim[TS_DENSE_MAX_ORDER];
    uint64_t slab_bytes;
    uint32_t n_outer;
} shapes[] = {
    { 2, { 1, 1 }, 0, 0 },
    { 2, { 37, 301 }, 0, 0 },
    { 2, { 1000, 3 }, 1024, 0 },
    { 2, { 40, 3000 }, 1000, 0 }, /* slabs are parts of a row */
    { 2, { 3, 4000 }, 0, 1 },     /* few rows, whose columns are divided */
    { 3, { 13, 1, 90 }, 4096, 0 },
    { 3, { 33, 20, 65 }, 512, 0 },
    { 3, { 12, 100, 65 }, 512, 0 },
    { 4, { 10, 40, 15, 12 }, 9216, 3 },
    { 4, { 2, 45, 3, 67 }, 256, 0 },
    { 5, { 5, 6, 7, 8, 3 }, 512, 0 },
    { 6, { 1, 6, 5, 1, 8, 3 }, 256, 0 },
    { 7, { 3, 2, 5, 4, 2, 3, 4 }, 512, 0 },
    { 8, { 2, 3, 2, 4, 2, 3, 2, 5 }, 256, 0 },
    { 3, { 40, 30, 100 }, 65536, 0 },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

/* 33 has more pairs of columns than are taken at a time, and rows that thread blocks solve for. */
static const uint32_t ranks[] = { 1, 2, 5, 8, 16, 17, 32, 33, 40 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

static const struct ts_hold_out none, some = { .share = 0.15, .seed = 4, .from = 0.2 };

struct cells {
    struct ts_dense_array array;
    struct ts_tensor *t;
    uint64_t n;
    void *bytes;
    double *value; /* NaN: unknown */
    uint32_t rank;
    double *factor[TS_DENSE_MAX_ORDER];
};

/* Of slice 1 of the first mode all cells are unknown where there is another one, of slice 2 nearly
 * all. */
static int is_unknown(const struct shape *s, const uint64_t *index, uint64_t cell, double share)
{
    const double at = ts_unit(ts_mix(cell + 77));
    if (share > 0 && s->dim[0] > 2 && index[0] < 3 && index[0] > 0)
        return index[0] == 1 || at < 0.97;
    return at < share;
}

static void cells_new(const struct shape *s, enum ts_cell_type type, int fortran, uint32_t rank,
                      double share, struct cells *x)
{
    rig_first();
    *x = (struct cells){ .array = { .path = "cells",
                                    .type = type,
                                    .fortran = fortran,
                                    .order = s->order,
                                    .slab_bytes = s->slab_bytes,
                                    .n_outer = s->n_outer },
                         .n = 1,
                         .rank = rank };
    for (uint32_t m = 0; m < s->order; m++) {
        x->n *= x->array.dim[m] = s->dim[m];
        x->factor[m] = malloc(s->dim[m] * rank * sizeof(double));
        for (uint64_t i = 0; i < s->dim[m] * rank; i++)
            x->factor[m][i] = (float)(ts_unit(ts_mix(100 * i + m)) - 0.3);
    }
    x->array.memory = x->bytes = malloc(x->n * sizeof(double));
    x->value = malloc(x->n * sizeof *x->value);
    OK(ts_dense_open(&x->array, &x->t, &err));
    for (uint64_t i = 0; i < x->n; i++) {
        uint64_t index[TS_DENSE_MAX_ORDER];
        double v = (float)(2 * ts_unit(ts_mix(i + 5)) - 0.6);
        ts_dense_index(x->t->dense, i, index);
        v = is_unknown(s, index, i, share) ? NAN : v;
        x->value[i] = v;
        if (type == TS_CELL_F64)
            ((double *)x->bytes)[i] = v;
        else
            ((float *)x->bytes)[i] = (float)v;
    }
    OK(ts_dense_scan_alone(x->t, 1, NULL, &err));
}

static void cells_free(struct cells *x)
{
    for (uint32_t m = 0; m < x->array.order; m++)
        free(x->factor[m]);
    ts_tensor_close(x->t);
    free(x->bytes);
    free(x->value);
}

/* ---- the obvious loop ---- */

static int is_held(const struct cells *x, const struct ts_hold_out *h, const uint64_t *index)
{
    uint64_t hash = ts_hold_out_begin(h);
    for (uint32_t m = 0; m < x->array.order; m++)
        hash = ts_hold_out_add(hash, index[m]);
    return h->share > 0 && ts_hold_out_held(h, hash);
}

/* a := S^-1 m of a system of `rank` rows of rank + 1. */
static void eliminate(double *s, uint32_t rank, double l2, double *a)
{
    const uint32_t n = rank + 1;
    for (uint32_t i = 0; i < rank; i++)
        s[i * n + i] += l2;
    for (uint32_t k = 0; k < rank; k++)
        for (uint32_t i = k + 1; i < rank; i++) {
            const double f = s[i * n + k] / s[k * n + k];
            for (uint32_t j = k; j < n; j++)
                s[i * n + j] -= f * s[k * n + j];
        }
    for (uint32_t k = rank; k-- > 0;) {
        a[k] = s[k * n + rank];
        for (uint32_t j = k + 1; j < rank; j++)
            a[k] -= s[k * n + j] * a[j];
        a[k] /= s[k * n + k];
    }
}

/* The rows of a mode and the number of cells that each was learnt from. */
static double *slow_rows(const struct cells *x, uint32_t mode, const struct ts_row_update *how,
                         double *count)
{
    const uint64_t n = x->array.dim[mode];
    const uint32_t rank = x->rank;
    double *s = calloc(n * rank * (rank + 1), sizeof *s), *a = malloc(n * rank * sizeof *a);
    memset(count, 0, n * sizeof *count);
    for (uint64_t c = 0; c < x->n; c++) {
        uint64_t index[TS_DENSE_MAX_ORDER];
        double w[64], *row;
        ts_dense_index(x->t->dense, c, index);
        if (isnan(x->value[c]) || is_held(x, &how->hold_out, index))
            continue;
        row = s + index[mode] * rank * (rank + 1);
        count[index[mode]]++;
        for (uint32_t r = 0; r < rank; r++) {
            w[r] = 1;
            for (uint32_t m = 0; m < x->array.order; m++)
                w[r] *= m == mode ? 1 : x->factor[m][index[m] * rank + r];
        }
        for (uint32_t i = 0; i < rank; i++, row += rank + 1) {
            for (uint32_t j = 0; j < rank; j++)
                row[j] += w[i] * w[j];
            row[rank] += w[i] * (x->value[c] - how->mean);
        }
    }
    for (uint64_t i = 0; i < n; i++)
        eliminate(s + i * rank * (rank + 1), rank, how->l2 * (how->by_count ? count[i] : 1),
                  a + i * rank);
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < rank && count[i] == 0; r++)
            a[i * rank + r] = 0;
    free(s);
    return a;
}

static void slow_errors(const struct cells *x, struct ts_error_sums *e)
{
    e->kept = e->held = (struct ts_cell_errors){ 0 };
    for (uint64_t c = 0; c < x->n; c++) {
        uint64_t index[TS_DENSE_MAX_ORDER];
        struct ts_cell_errors *to;
        double m = e->mean;
        const double v = x->value[c];
        ts_dense_index(x->t->dense, c, index);
        if (isnan(v))
            continue;
        to = is_held(x, &e->hold_out, index) ? &e->held : &e->kept;
        for (uint32_t r = 0; r < x->rank; r++) {
            double w = 1;
            for (uint32_t k = 0; k < x->array.order; k++)
                w *= x->factor[k][index[k] * x->rank + r];
            m += w;
        }
        to->n++;
        to->sum += v;
        to->squares += v * v;
        to->inner += v * m;
        to->left += (v - m) * (v - m);
    }
}

/* ---- the backend ---- */

struct how {
    enum ts_precision precision;
    uint32_t members;
    int few; /* host memory for few slabs */
    uint64_t device_bytes;
};

struct run {
    void *be;
    struct ts_feed *feed;
};

static struct ts_backend_conf conf_of(const struct cells *x, const struct how *h)
{
    const struct rig_ask ask = { .rank = x->rank,
                                 .precision = h->precision,
                                 .members = h->members,
                                 .one_device = 1,
                                 .needs = 1u << TS_ROW_OBSERVED,
                                 .device_bytes = h->device_bytes };
    struct ts_backend_conf conf = rig_conf(x->t, &ask);
    conf.host_bytes = 1 << 20;
    return conf;
}

static struct run run_new(const struct cells *x, const struct how *h)
{
    const struct ts_backend_conf conf = conf_of(x, h);
    const uint64_t slab = ts_dense_most_bytes(x->t->dense) + 8192;
    struct run r = { .be = rig_backend_new(rig_be, &conf) };
    r.feed = rig_feed_new(rig_be, x->t, r.be, h->few ? 10 * slab : UINT64_C(1) << 28);
    for (uint32_t m = 0; m < x->array.order; m++)
        rig_put(rig_be, r.be, m, x->array.dim[m], x->factor[m]);
    return r;
}

static void run_free(struct run *r)
{
    ts_feed_free(r->feed);
    rig_be->close(r->be);
}

/* What a sweep gives in which factors come back after each mode: rows, sizes, errors. */
struct sweep {
    double *rows[TS_DENSE_MAX_ORDER], size[TS_DENSE_MAX_ORDER];
    struct ts_cell_errors kept, held;
};

static void sweep_new(const struct cells *x, struct sweep *s)
{
    for (uint32_t m = 0; m < x->array.order; m++)
        s->rows[m] = malloc(x->array.dim[m] * x->rank * sizeof(double));
}

static void sweep_free(const struct cells *x, struct sweep *s)
{
    for (uint32_t m = 0; m < x->array.order; m++)
        free(s->rows[m]);
}

/* Returns bytes sent. */
static uint64_t run_sweep(const struct cells *x, const struct run *r,
                          const struct ts_row_update *how, struct sweep *s)
{
    struct ts_error_sums e = { .hold_out = how->hold_out, .mean = how->mean };
    struct ts_backend_times times;
    uint64_t sent = 0;
    for (uint32_t m = 0; m < x->array.order; m++) {
        const struct ts_row_sums sums = { .size = &s->size[m] };
        const struct ts_request request = {
            .be = r->be, .kind = TS_REQUEST_ROWS, .update = how, .sums = &sums
        };
        rig_pass_of(rig_be, x->t, r->feed, &request, 1, m, &times);
        OK(rig_be->get_rows(r->be, m, 0, x->array.dim[m], s->rows[m], &err));
        rig_put(rig_be, r->be, m, x->array.dim[m], x->factor[m]);
        for (uint32_t i = 0; i < times.n_devices; i++)
            sent += times.device[i].bytes;
    }
    OK(rig_be->pass(&(struct ts_request){ .be = r->be, .kind = TS_REQUEST_ERRORS, .errors = &e }, 1,
                    x->array.order - 1, r->feed, &times, &err));
    for (uint32_t i = 0; i < times.n_devices; i++)
        sent += times.device[i].bytes;
    s->kept = e.kept;
    s->held = e.held;
    return sent;
}

static void same_sweep(const struct cells *x, const struct sweep *a, const struct sweep *b)
{
    for (uint32_t m = 0; m < x->array.order; m++) {
        ck_assert_msg(memcmp(a->rows[m], b->rows[m], x->array.dim[m] * x->rank * sizeof(double)) ==
                          0,
                      "mode %u: other bits", m);
        ck_assert_mem_eq(&a->size[m], &b->size[m], sizeof a->size[m]);
    }
    ck_assert_mem_eq(&a->kept, &b->kept, sizeof a->kept);
    ck_assert_mem_eq(&a->held, &b->held, sizeof a->held);
}

/* ---- against the loop ---- */

/* Roundings of the sums grow with the condition of S, which l2 bounds: of entries below 1 the trace
 * is at most that of all cells. */
static void check_rows(const struct cells *x, const struct ts_row_update *how,
                       enum ts_precision precision, const struct sweep *s)
{
    for (uint32_t m = 0; m < x->array.order; m++) {
        const uint64_t n = x->array.dim[m];
        double *count = malloc(n * sizeof *count), *want = slow_rows(x, m, how, count), size = 0;
        for (uint64_t i = 0; i < n; i++) {
            double most = 0;
            for (uint32_t r = 0; r < x->rank; r++)
                most = fmax(most, fabs(want[i * x->rank + r]));
            for (uint32_t r = 0; r < x->rank; r++) {
                const double got = s->rows[m][i * x->rank + r], w = want[i * x->rank + r];
                const double last = precision == TS_FLOAT32 ? FLT_EPSILON * fabs(w) : 0;
                ck_assert_msg(fabs(got - w) <= 1e-9 * most + last,
                              "mode %u, row %" PRIu64 ", column %u: %.17g, by the loop %.17g", m, i,
                              r, got, w);
                size += (how->by_count ? count[i] : 1) * got * got;
            }
        }
        ck_assert_double_le(fabs(size - s->size[m]), 1e-12 * size);
        free(want);
        free(count);
    }
}

static void check_errors(const struct cells *x, const struct ts_row_update *how,
                         const struct sweep *s)
{
    struct ts_error_sums e = { .hold_out = how->hold_out, .mean = how->mean };
    const struct ts_cell_errors *want[2] = { &e.kept, &e.held }, *got[2] = { &s->kept, &s->held };
    slow_errors(x, &e);
    for (int k = 0; k < 2; k++) {
        const double most = 1e-12 * (want[k]->squares + want[k]->left + want[k]->n);
        ck_assert_double_eq(got[k]->n, want[k]->n);
        ck_assert_double_le(fabs(got[k]->sum - want[k]->sum), most);
        ck_assert_double_le(fabs(got[k]->squares - want[k]->squares), most);
        ck_assert_double_le(fabs(got[k]->inner - want[k]->inner), most);
        ck_assert_double_le(fabs(got[k]->left - want[k]->left), most);
    }
}

static void check_sweep(const struct shape *shape, enum ts_cell_type type, int fortran,
                        uint32_t rank, enum ts_precision precision, int which)
{
    const struct ts_row_update how = { .kind = TS_ROW_OBSERVED,
                                       .l2 = L2,
                                       .by_count = which >> 1 & 1,
                                       .lower = -INFINITY,
                                       .upper = INFINITY,
                                       .mean = which & 1 ? 0.25 : 0,
                                       .hold_out = which % 3 == 2 ? some : none };
    struct how h = { .precision = precision, .members = 1 };
    struct sweep one, other;
    struct cells x;
    struct run r;
    cells_new(shape, type, fortran, rank, which % 4 == 3 ? 0 : 0.2, &x);
    sweep_new(&x, &one);
    sweep_new(&x, &other);
    r = run_new(&x, &h);
    run_sweep(&x, &r, &how, &one);
    run_sweep(&x, &r, &how, &other);
    run_free(&r);
    same_sweep(&x, &one, &other);
    check_rows(&x, &how, precision, &one);
    check_errors(&x, &how, &one);
    for (h.members = 2; h.members <= 3; h.members++) {
        r = run_new(&x, &h);
        run_sweep(&x, &r, &how, &other);
        run_free(&r);
        same_sweep(&x, &one, &other);
    }
    sweep_free(&x, &one);
    sweep_free(&x, &other);
    cells_free(&x);
}

/* Each shape with some ranks and combinations, each rank with some shapes: as time allows. */
START_TEST(rows_and_errors_equal_the_loop)
{
    for (int k = _i % 3; k < N_RANKS; k += 3) {
        const int c = _i + k;
        check_sweep(&shapes[_i], c & 1 ? TS_CELL_F32 : TS_CELL_F64, c / 2 & 1, ranks[k],
                    c / 3 & 1 ? TS_FLOAT32 : TS_FLOAT64, c);
    }
}
END_TEST

/* What was computed of other cells, or of other factors, is not used again; products of values
 * leave unknown cells out. */
START_TEST(what_changes_counts)
{
    const struct shape s = { 4, { 6, 10, 8, 12 }, 4096, 2 };
    const struct how h = { .precision = TS_FLOAT64, .members = (uint32_t)_i + 1 };
    struct ts_backend_times times;
    struct sweep got, want;
    struct cells x;
    struct run r;
    double product[6 * 7];
    cells_new(&s, TS_CELL_F64, 0, 7, 0.2, &x);
    sweep_new(&x, &got);
    sweep_new(&x, &want);
    r = run_new(&x, &h);
    for (uint32_t k = 0; k < 6; k++) {
        const struct ts_row_update how = { .kind = TS_ROW_OBSERVED,
                                           .l2 = L2,
                                           .lower = -INFINITY,
                                           .upper = INFINITY,
                                           .mean = k == 1 ? 0.5 : 0,
                                           .hold_out = k >= 2 && k < 4 ? some : none };
        const uint32_t other = k % 4;
        struct run fresh;
        for (uint64_t i = 0; i < x.array.dim[other] * 7 && k > 3; i++)
            x.factor[other][i] = (float)(ts_unit(ts_mix(7000 * k + i)) - 0.3);
        rig_put(rig_be, r.be, other, x.array.dim[other], x.factor[other]);
        run_sweep(&x, &r, &how, &got);
        fresh = run_new(&x, &h);
        run_sweep(&x, &fresh, &how, &want);
        run_free(&fresh);
        same_sweep(&x, &got, &want);
        check_rows(&x, &how, TS_FLOAT64, &got);
        OK(rig_be->pass(&(struct ts_request){ .be = r.be }, 1, 0, r.feed, &times, &err));
        OK(rig_be->get_rows(r.be, 0, 0, 6, product, &err));
        rig_put(rig_be, r.be, 0, 6, x.factor[0]);
        for (uint32_t i = 0; i < 7; i++) /* all of this row are unknown */
            ck_assert_double_eq(product[7 + i], 0);
        for (uint32_t i = 0; i < 7; i++)
            ck_assert(isfinite(product[i]) && product[i] != 0);
    }
    run_free(&r);
    sweep_free(&x, &got);
    sweep_free(&x, &want);
    cells_free(&x);
}
END_TEST

/* From the least budget on, cells are sent in each pass, and at last none. Of rank 35 pairs come in
 * two groups. */
START_TEST(same_bits_for_every_budget)
{
    static const struct shape s[] = { { 3, { 160, 150, 65 }, 16384, 0 },
                                      { 2, { 40, 60000 }, 65536, 0 },
                                      { 4, { 30, 20, 45, 20 }, 2000, 2 } };
    static const uint32_t with[] = { 12, 6, 35 };
    const struct ts_row_update how = { .kind = TS_ROW_OBSERVED,
                                       .l2 = L2,
                                       .lower = -INFINITY,
                                       .upper = INFINITY,
                                       .hold_out = _i == 1 ? none : some };
    struct how h = { .precision = _i % 2 ? TS_FLOAT32 : TS_FLOAT64, .members = 1 };
    struct sweep one, other;
    uint64_t most = 0;
    struct cells x;
    struct run r;
    cells_new(&s[_i], _i == 1 ? TS_CELL_F32 : TS_CELL_F64, _i & 1, with[_i], 0.1, &x);
    sweep_new(&x, &one);
    sweep_new(&x, &other);
    r = run_new(&x, &h);
    run_sweep(&x, &r, &how, &one);
    run_free(&r);
    for (h.members = 1; h.members <= 2; h.members++) {
        const struct ts_backend_conf conf = conf_of(&x, &h);
        const uint64_t least = rig_least_budget(&conf, "chunks of cells");
        for (int k = 0; k < 4; k++) {
            uint64_t sent;
            h.device_bytes = least + (128 << 10) + (uint64_t)k % 2 * x.n * 6;
            h.few = k >= 2;
            r = run_new(&x, &h);
            sent = run_sweep(&x, &r, &how, &other);
            run_free(&r);
            same_sweep(&x, &one, &other);
            most = sent > most ? sent : most;
        }
        h.device_bytes = 0;
        h.few = 0;
    }
    ck_assert(rig_n_devices == 0 || most > 2 * x.n * (_i == 1 ? 4 : 8));
    sweep_free(&x, &one);
    sweep_free(&x, &other);
    cells_free(&x);
}
END_TEST

/* With bounds entries lie within them, and where the best row does the row is that one. */
START_TEST(bounds_hold)
{
    const struct shape s = { 3, { 20, 15, 30 }, 4096, 0 };
    const uint32_t rank = _i % 2 ? 40 : 6;
    const struct how h = { .precision = _i & 2 ? TS_FLOAT32 : TS_FLOAT64, .members = 1 };
    struct ts_row_update how = {
        .kind = TS_ROW_OBSERVED, .l2 = L2, .lower = -1e6, .upper = 1e6, .hold_out = some
    };
    struct sweep got;
    struct cells x;
    struct run r;
    cells_new(&s, TS_CELL_F64, 0, rank, 0.2, &x);
    sweep_new(&x, &got);
    r = run_new(&x, &h);
    run_sweep(&x, &r, &how, &got);
    check_rows(&x, &how, h.precision, &got);
    how.lower = 0;
    how.upper = INFINITY;
    run_sweep(&x, &r, &how, &got);
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < x.array.dim[m] * rank; i++)
            ck_assert_double_ge(got.rows[m][i], 0);
    run_free(&r);
    sweep_free(&x, &got);
    cells_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = rig_suite("gpu_unknown");
    if (suite == NULL)
        return 77;
    test_add(suite, "rows", rows_and_errors_equal_the_loop, N_SHAPES);
    test_add(suite, "changes", what_changes_counts, 2);
    test_add(suite, "budgets", same_bits_for_every_budget, 3);
    test_add(suite, "bounds", bounds_hold, 4);
    return test_run_suite(suite, CK_NOFORK);
}
