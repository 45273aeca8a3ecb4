/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of dense tensors on GPUs equal the obvious loop in float64, and have the same bits
 * whether cells stay on the device or pass through it, from a file or from memory, and for any
 * number of devices: of which one is named several times. */
#include "config.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "format/arrays/dense.h"
#include "gpu/dense/cells_shape.h"
#include "stream/feed/slabs.h"
#include "tests/gpu/gpu_rig.h"

static char folder[128], file[160];

static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.90s/check_cells.XXXXXX", tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/x.raw", folder);
}

static void remove_folder(void)
{
    unlink(file);
    rmdir(folder);
}

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
    { 2, { 3, 40000 }, 0, 1 },    /* few rows, whose columns are divided */
    { 3, { 13, 1, 90 }, 4096, 0 },
    { 3, { 33, 20, 65 }, 512, 0 },
    { 3, { 12, 100, 65 }, 512, 0 },
    { 3, { 4, 3000, 10 }, 16384, 2 },
    { 4, { 10, 40, 30, 12 }, 9216, 3 },
    { 4, { 2, 45, 3, 130 }, 256, 0 },
    { 5, { 5, 6, 7, 8, 3 }, 512, 0 },
    { 6, { 1, 6, 5, 1, 8, 3 }, 256, 0 },
    { 7, { 3, 2, 5, 4, 2, 3, 4 }, 512, 0 },
    { 8, { 2, 3, 2, 4, 2, 3, 2, 5 }, 256, 0 },
    { 3, { 60, 70, 200 }, 65536, 0 },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

static const uint32_t ranks[] = { 1, 5, 16, 17, 32, 33, 64, 100, 300 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

static const enum ts_cell_type types[] = { TS_CELL_F64, TS_CELL_F32, TS_CELL_I16, TS_CELL_U32 };

struct dense {
    struct ts_dense_array array;
    uint64_t cells;
    double *value; /* of the cells, as they lie */
    void *bytes;
    uint32_t rank;
    double *factor[TS_DENSE_MAX_ORDER];
};

static void put_cell(enum ts_cell_type type, uint64_t i, double x, void *to, double *value)
{
    if (type == TS_CELL_F64) {
        ((double *)to)[i] = *value = x;
    } else if (type == TS_CELL_F32) {
        ((float *)to)[i] = (float)x;
        *value = (float)x;
    } else if (type == TS_CELL_I16) {
        ((int16_t *)to)[i] = (int16_t)(x * 1000);
        *value = ((int16_t *)to)[i];
    } else {
        ((uint32_t *)to)[i] = (uint32_t)((x + 1) * 1e9);
        *value = ((uint32_t *)to)[i];
    }
}

static void dense_new(const struct shape *s, enum ts_cell_type type, int fortran, uint32_t rank,
                      struct dense *ret)
{
    FILE *f;
    rig_first();
    *ret = (struct dense){ .array = { .path = file,
                                      .offset = 40,
                                      .type = type,
                                      .fortran = fortran,
                                      .order = s->order,
                                      .slab_bytes = s->slab_bytes,
                                      .n_outer = s->n_outer },
                           .cells = 1,
                           .rank = rank };
    for (uint32_t m = 0; m < s->order; m++)
        ret->cells *= ret->array.dim[m] = s->dim[m];
    ret->value = malloc(ret->cells * sizeof(double));
    ret->bytes = malloc(ret->cells * 8);
    for (uint64_t i = 0; i < ret->cells; i++)
        put_cell(type, i, 2 * ts_unit(ts_mix(i + 1)) - 1, ret->bytes, &ret->value[i]);
    f = fopen(file, "wb");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 40; i++)
        fputc('x', f);
    ck_assert_uint_eq(fwrite(ret->bytes, ts_cell_bytes(type), ret->cells, f), ret->cells);
    ck_assert_int_eq(fclose(f), 0);
    for (uint32_t m = 0; m < s->order; m++) {
        ret->factor[m] = malloc(s->dim[m] * rank * sizeof(double));
        for (uint64_t i = 0; i < s->dim[m] * rank; i++)
            ret->factor[m][i] = (float)(2 * ts_unit(ts_mix(77 * m + i)) - 1);
    }
}

static void dense_free(struct dense *x)
{
    for (uint32_t m = 0; m < x->array.order; m++)
        free(x->factor[m]);
    free(x->value);
    free(x->bytes);
}

/* How a product is computed. */
struct how {
    enum ts_precision precision;
    uint32_t members;
    int memory; /* the array lies in memory, not in a file */
    int few;    /* host memory for few slabs */
    uint64_t device_bytes;
};

static struct ts_tensor *open_tensor(const struct dense *x, int memory)
{
    struct ts_dense_array a = x->array;
    struct ts_tensor *t;
    a.memory = memory ? x->bytes : NULL;
    OK(ts_dense_open(&a, &t, &err));
    return t;
}

static struct ts_backend_conf conf_of(const struct ts_tensor *t, uint32_t rank, const struct how *h,
                                      int own)
{
    const struct rig_ask ask = { .rank = rank,
                                 .precision = h->precision,
                                 .members = h->members,
                                 .one_device = 1,
                                 .own = own,
                                 .device_bytes = h->device_bytes };
    struct ts_backend_conf conf = rig_conf(t, &ask);
    conf.host_bytes = 1 << 20;
    return conf;
}

static struct ts_feed *open_feed(const struct ts_tensor *t, void *be, int few)
{
    const uint64_t slab = ts_dense_most_bytes(t->dense) + 8192;
    return rig_feed_new(rig_be, t, be, few ? 10 * slab : UINT64_C(1) << 28);
}

static void put_all(const struct dense *x, void *be)
{
    for (uint32_t m = 0; m < x->array.order; m++)
        rig_put(rig_be, be, m, x->array.dim[m], x->factor[m]);
}

static double kept_part; /* of the products that modes share, of the backend that was opened last */

/* The products of all modes, `sweeps` times; each time into ret, or compared with what is there.
 * Returns bytes sent. */
static uint64_t products(const struct dense *x, const struct how *h, int sweeps, double **ret,
                         int compare)
{
    struct ts_tensor *t = open_tensor(x, h->memory);
    const struct ts_backend_conf conf = conf_of(t, x->rank, h, 0);
    struct ts_device_memory memory[TS_MAX_DEVICES];
    uint64_t sent = 0;
    struct ts_feed *feed;
    void *be;
    be = rig_backend_new(rig_be, &conf);
    feed = open_feed(t, be, h->few);
    if (rig_n_devices > 0)
        rig_be->memory(be, memory);
    kept_part = rig_n_devices > 0 ? memory[0].shared_part : 1;
    put_all(x, be);
    for (int sweep = 0; sweep < sweeps; sweep++)
        for (uint32_t m = 0; m < x->array.order; m++) {
            const uint64_t n = x->array.dim[m] * x->rank;
            double *got = malloc(n * sizeof *got);
            struct ts_backend_times times;
            rig_pass_of(rig_be, t, feed, &(struct ts_request){ .be = be }, 1, m, &times);
            OK(rig_be->get_rows(be, m, 0, x->array.dim[m], got, &err));
            rig_put(rig_be, be, m, x->array.dim[m], x->factor[m]);
            ck_assert_uint_eq(times.n_devices, rig_members(h->members));
            for (uint32_t i = 0; i < times.n_devices; i++)
                sent += times.device[i].bytes;
            if (compare || sweep > 0)
                ck_assert_msg(memcmp(got, ret[m], n * sizeof *got) == 0,
                              "mode %u, sweep %d, %u members: other bits", m, sweep, h->members);
            memcpy(ret[m], got, n * sizeof *got);
            free(got);
        }
    ts_feed_free(feed);
    rig_be->close(be);
    ts_tensor_close(t);
    return sent;
}

static double **results_new(const struct dense *x)
{
    double **ret = calloc(TS_DENSE_MAX_ORDER, sizeof *ret);
    for (uint32_t m = 0; m < x->array.order; m++)
        ret[m] = malloc(x->array.dim[m] * x->rank * sizeof(double));
    return ret;
}

static void results_free(double **r)
{
    for (uint32_t m = 0; m < TS_DENSE_MAX_ORDER; m++)
        free(r[m]);
    free(r);
}

/* The obvious loop: as many roundings as a row has terms, and some for their products, at most; and
 * one to the precision. */
static void check_loop(const struct dense *x, enum ts_precision precision, double *const *got)
{
    struct ts_tensor *t = open_tensor(x, 0);
    for (uint32_t m = 0; m < x->array.order; m++) {
        const uint64_t n = x->array.dim[m] * x->rank;
        const double terms = (double)(x->cells / x->array.dim[m]) + 16;
        const double last = precision == TS_FLOAT32 ? FLT_EPSILON : 0;
        /* CPU cores sum in the precision of the factors */
        const double each =
            rig_n_devices == 0 && precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
        double *want = calloc(n, sizeof *want), *size = calloc(n, sizeof *size);
        for (uint64_t i = 0; i < x->cells; i++) {
            uint64_t index[TS_DENSE_MAX_ORDER];
            ts_dense_index(t->dense, i, index);
            for (uint32_t r = 0; r < x->rank; r++) {
                double p = x->value[i];
                for (uint32_t k = 0; k < x->array.order; k++)
                    p *= k == m ? 1 : x->factor[k][index[k] * x->rank + r];
                want[index[m] * x->rank + r] += p;
                size[index[m] * x->rank + r] += fabs(p);
            }
        }
        for (uint64_t i = 0; i < n; i++)
            ck_assert_msg(
                fabs(got[m][i] - want[i]) <= terms * each * size[i] + last * fabs(want[i]),
                "mode %u, entry %" PRIu64 ": %.17g, by the loop %.17g", m, i, got[m][i], want[i]);
        free(want);
        free(size);
    }
    ts_tensor_close(t);
}

static void check_products(const struct shape *s, uint32_t rank, enum ts_cell_type type,
                           int fortran, enum ts_precision precision)
{
    const struct how alone = { .precision = precision, .members = 1 };
    struct how h = alone;
    struct dense x;
    double **r;
    dense_new(s, type, fortran, rank, &x);
    r = results_new(&x);
    products(&x, &alone, 2, r, 0);
    check_loop(&x, precision, r);
    for (h.members = 2; h.members <= 3; h.members++)
        products(&x, &h, 2, r, 1);
    h = alone;
    h.memory = 1;
    products(&x, &h, 1, r, 1);
    results_free(r);
    dense_free(&x);
}

/* Each shape with some ranks and combinations, each rank with some shapes: as time allows. */
START_TEST(products_equal_the_loop)
{
    for (int k = _i % 3; k < N_RANKS; k += 3) {
        const int c = _i + k;
        if (ranks[k] == 300 && _i % 4 != 1)
            continue;
        check_products(&shapes[_i], ranks[k], types[c % 4], c / 2 & 1,
                       c / 3 & 1 ? TS_FLOAT32 : TS_FLOAT64);
    }
}
END_TEST

START_TEST(high_ranks_equal_the_loop)
{
    static const struct shape s[] = { { 3, { 33, 20, 65 }, 512, 0 },
                                      { 4, { 2, 45, 3, 130 }, 256, 0 } };
    check_products(&s[_i / 2], _i % 2 ? 2000 : 1500, types[_i], _i % 2,
                   _i / 2 ? TS_FLOAT32 : TS_FLOAT64);
}
END_TEST

/* The smallest budget that opens, to within 64 KiB. */
static uint64_t least_budget(const struct dense *x, const struct how *h)
{
    struct ts_tensor *t = open_tensor(x, 0);
    const struct ts_backend_conf conf = conf_of(t, x->rank, h, 0);
    const uint64_t least = rig_least_budget(&conf, "chunks of cells");
    ts_tensor_close(t);
    return least;
}

/* From the least budget on, with slabs in host memory and from the file: cells are sent in each
 * pass, and at last none. */
START_TEST(same_bits_for_every_budget)
{
    static const struct shape s[] = { { 3, { 160, 150, 65 }, 16384, 0 },
                                      { 2, { 40, 60000 }, 65536, 0 },
                                      { 4, { 30, 20, 90, 40 }, 2000, 2 } };
    const enum ts_precision precision = _i % 2 ? TS_FLOAT32 : TS_FLOAT64;
    struct how h = { .precision = precision, .members = 1 };
    struct dense x;
    uint64_t most = 0;
    double **r;
    dense_new(&s[_i], types[_i], _i & 1, 20, &x);
    r = results_new(&x);
    products(&x, &h, 1, r, 0);
    for (h.members = 1; h.members <= 2; h.members++) {
        const uint64_t least = least_budget(&x, &h);
        for (int k = 0; k < 6; k++) {
            uint64_t sent;
            h.device_bytes = least + (128 << 10) + (uint64_t)k % 3 * x.cells * 4;
            h.few = k >= 3;
            sent = products(&x, &h, 2, r, 1);
            most = sent > most ? sent : most;
        }
        h.device_bytes = 0;
        h.few = 0;
    }
    ck_assert(rig_n_devices == 0 || most > 2 * x.cells * (ts_cell_is_narrow(types[_i]) ? 4u : 8u));
    results_free(r);
    dense_free(&x);
}
END_TEST

/* Bytes of the cells of the member that has most, and of their Y. */
static void member_bytes(const struct ts_cells_shape *s, uint32_t members, uint64_t *cells,
                         uint64_t *y)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < members; i++) {
        const uint64_t rows = ts_cells_share_row(s, s->n_shares * (i + 1) / members) -
                              ts_cells_share_row(s, s->n_shares * i / members);
        most = rows > most ? rows : most;
    }
    *cells = most * s->cols * s->cell_bytes;
    *y = most * s->ld * sizeof(double);
}

/* Cells are sent, or all stay and of Y what fits beside them: none, a part, all. The second shape's
 * Y is a sum of parts of its columns. The least budget has room for two chunks. */
START_TEST(same_bits_for_every_part_of_y)
{
    static const struct shape s[] = { { 3, { 160, 150, 65 }, 16384, 0 },
                                      { 3, { 20, 15, 20000 }, 65536, 2 } };
    const uint32_t rank = _i ? 300 : 20;
    struct how h = { .precision = TS_FLOAT64, .members = 1 };
    struct ts_cells_shape cut;
    struct ts_tensor *t;
    struct dense x;
    double **r;
    dense_new(&s[_i], TS_CELL_F64, 0, rank, &x);
    r = results_new(&x);
    t = open_tensor(&x, 0);
    ts_cells_shape_new(t->dense, rank, &cut);
    products(&x, &h, 2, r, 0);
    ck_assert_double_eq(kept_part, 1);
    for (h.members = 1; h.members <= 2; h.members++) {
        const uint64_t least = least_budget(&x, &h), close = 64 << 10;
        const uint64_t chunks = 2 * cut.chunk_rows * cut.chunk_cols * cut.cell_bytes;
        int n_parts = 0;
        uint64_t cells, y;
        member_bytes(&cut, h.members, &cells, &y);
        for (uint64_t k = 0; k <= 16; k++) {
            h.device_bytes = least + cells - chunks - close + k * (y + 3 * close) / 16;
            products(&x, &h, 2, r, 1);
            n_parts += kept_part > 0 && kept_part < 1;
        }
        ck_assert(rig_n_devices == 0 || n_parts >= 2);
        h.device_bytes = 0;
    }
    ts_tensor_close(t);
    results_free(r);
    dense_free(&x);
}
END_TEST

/* What was made of a factor is not used with another one. */
START_TEST(changed_factors_count)
{
    const struct shape s = { 4, { 12, 20, 10, 24 }, 4096, 2 };
    const struct how h = { .precision = TS_FLOAT64, .members = (uint32_t)_i + 1 };
    struct ts_backend_times times;
    struct dense x;
    double **r, *got;
    struct ts_tensor *t;
    struct ts_backend_conf conf;
    struct ts_feed *feed;
    void *be;
    dense_new(&s, TS_CELL_F64, 0, 7, &x);
    r = results_new(&x);
    got = malloc(24 * 7 * sizeof *got);
    t = open_tensor(&x, 0);
    conf = conf_of(t, x.rank, &h, 0);
    be = rig_backend_new(rig_be, &conf);
    feed = open_feed(t, be, 0);
    put_all(&x, be);
    for (uint32_t k = 0; k < 8; k++) {
        const uint32_t other = k % 4;
        const uint64_t n = x.array.dim[other] * x.rank;
        double scale[7];
        for (uint32_t i = 0; i < 7; i++)
            scale[i] = 1 + i % 3;
        if (k < 4) { /* by rows, */
            for (uint64_t i = 0; i < n; i++)
                x.factor[other][i] = (float)(2 * ts_unit(ts_mix(7000 * k + i)) - 1);
            rig_put(rig_be, be, other, x.array.dim[other], x.factor[other]);
        } else { /* and by columns */
            for (uint64_t i = 0; i < n; i++)
                x.factor[other][i] *= scale[i % x.rank];
            OK(rig_be->scale(be, other, scale, &err));
        }
        products(&x, &h, 1, r, 0);
        for (uint32_t m = 0; m < 4; m++) {
            rig_pass_of(rig_be, t, feed, &(struct ts_request){ .be = be }, 1, m, &times);
            OK(rig_be->get_rows(be, m, 0, x.array.dim[m], got, &err));
            ck_assert_mem_eq(got, r[m], x.array.dim[m] * x.rank * sizeof *got);
            rig_put(rig_be, be, m, x.array.dim[m], x.factor[m]);
        }
    }
    ts_feed_free(feed);
    rig_be->close(be);
    ts_tensor_close(t);
    free(got);
    results_free(r);
    dense_free(&x);
}
END_TEST

/* Of a sweep: rows, Gram matrices and inner products. */
struct sweep {
    double *rows[TS_DENSE_MAX_ORDER], gram[TS_DENSE_MAX_ORDER][20 * 20], inner[TS_DENSE_MAX_ORDER];
};

/* A sweep of updates; or of products, which are solved for then. With own, rows come from the old
 * ones. */
static void sweep(const struct dense *x, const struct how *h, int own, int apart, struct sweep *ret)
{
    struct ts_tensor *t = open_tensor(x, 0);
    const struct ts_backend_conf conf = conf_of(t, x->rank, h, own);
    struct ts_feed *feed;
    double w[20 * 20];
    void *be;
    for (uint32_t i = 0; i < x->rank; i++)
        for (uint32_t j = 0; j < x->rank; j++)
            w[i * x->rank + j] = (i == j) * 1.5 + ts_unit(ts_mix(i * j + 9)) / 30;
    be = rig_backend_new(rig_be, &conf);
    feed = open_feed(t, be, 0);
    put_all(x, be);
    rig_be->sum_in(be, TS_FLOAT64);
    for (uint32_t m = 0; m < 3; m++) {
        const struct ts_row_update how = { .kind = own ? TS_ROW_COORDINATE : TS_ROW_LEAST_SQUARES,
                                           .matrix = w,
                                           .upper = INFINITY,
                                           .rounds = 3 };
        const struct ts_row_sums sums = { .gram = ret->gram[m], .inner = &ret->inner[m] };
        struct ts_backend_times times;
        const struct ts_request request = { .be = be,
                                            .update = apart ? NULL : &how,
                                            .sums = apart ? NULL : &sums };
        rig_pass_of(rig_be, t, feed, &request, 1, m, &times);
        if (apart)
            OK(rig_be->solve(be, m, &how, &sums, &err));
        OK(rig_be->get_rows(be, m, 0, x->array.dim[m], ret->rows[m], &err));
    }
    ts_feed_free(feed);
    rig_be->close(be);
    ts_tensor_close(t);
}

/* Updates have the same bits for any number of devices, and in float64 those of a product and a
 * solve. */
START_TEST(updates_have_the_same_bits)
{
    const struct shape s = { 3, { 50, 60, 70 }, 4096, 0 };
    const int own = _i >> 1 & 1;
    struct how h = { .precision = _i & 1 ? TS_FLOAT32 : TS_FLOAT64, .members = 1 };
    struct sweep first, again;
    struct dense x;
    double **a, **b;
    dense_new(&s, TS_CELL_F32, 0, 20, &x);
    a = results_new(&x);
    b = results_new(&x);
    for (uint32_t m = 0; m < 3; m++) {
        first.rows[m] = a[m];
        again.rows[m] = b[m];
    }
    sweep(&x, &h, own, 0, &first);
    for (h.members = 1; h.members <= 3; h.members++) {
        const int apart = h.members == 1;
        if (apart && (own || h.precision == TS_FLOAT32))
            continue;
        sweep(&x, &h, own, apart, &again);
        for (uint32_t m = 0; m < 3; m++) {
            ck_assert_mem_eq(a[m], b[m], x.array.dim[m] * x.rank * sizeof(double));
            ck_assert_mem_eq(first.gram[m], again.gram[m], x.rank * x.rank * sizeof(double));
            ck_assert_mem_eq(&first.inner[m], &again.inner[m], sizeof(double));
        }
    }
    results_free(a);
    results_free(b);
    dense_free(&x);
}
END_TEST

START_TEST(other_losses_are_refused)
{
    const struct shape s = { 2, { 5, 6 }, 0, 0 };
    const struct how h = { .precision = TS_FLOAT64, .members = 1 };
    struct ts_backend_conf conf;
    struct ts_tensor *t;
    struct dense x;
    void *be;
    dense_new(&s, TS_CELL_F64, 0, 2, &x);
    t = open_tensor(&x, 0);
    conf = conf_of(t, 2, &h, 1);
    conf.needs = 1u << TS_ROW_MULTIPLY;
    ck_assert_int_eq(rig_be->open(&conf, &be, &err), TS_EARG);
    ck_assert_msg(strstr(err.text, "decomposed by least squares") != NULL, "%s", err.text);
    ts_tensor_close(t);
    dense_free(&x);
}
END_TEST

static void add(Suite *suite, const char *name, const TTest *test, int n)
{
    TCase *tc = tcase_create(name);
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_loop_test(tc, test, 0, n);
    suite_add_tcase(suite, tc);
}

int main(void)
{
    Suite *suite = rig_suite("gpu_cells");
    if (suite == NULL)
        return 77;
    add(suite, "products", products_equal_the_loop, N_SHAPES);
    add(suite, "high ranks", high_ranks_equal_the_loop, 4);
    add(suite, "budgets", same_bits_for_every_budget, 3);
    add(suite, "shared", same_bits_for_every_part_of_y, 2);
    add(suite, "factors", changed_factors_count, 2);
    add(suite, "updates", updates_have_the_same_bits, 4);
    add(suite, "losses", other_losses_are_refused, 1);
    return test_run_suite(suite, CK_NOFORK);
}
