/* SPDX-License-Identifier: BSD-3-Clause */
/* The exact fit of a model is that of the naive sum over all cells, whatever the model: any format,
 * rows for empty slices, weights of any sign, components that cancel. */
#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "cpd/judge/exact_fit.h"
#include "cpu/cpu_backend.h"
#include "tests/cpd/fit_cases.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

static char *tmp, dir[4096], model_dir[4096], model_file[4200];

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(dir, sizeof dir, "%s/x.tsh", tmp);
    snprintf(model_dir, sizeof model_dir, "%s/x.cp", tmp);
    snprintf(model_file, sizeof model_file, "%s/model.ktensor", model_dir);
    ck_assert_int_eq(mkdir(model_dir, 0700), 0);
}

static void teardown(void)
{
    test_tsh_remove(dir);
    test_tsh_remove(model_dir);
    test_tsh_remove(tmp);
    free(tmp);
}

/* ---- tensors and models in memory ---- */

struct model {
    uint32_t order, rank;
    uint64_t n_rows[TEST_FIT_MOST_ORDER];
    double *weight, *a[TEST_FIT_MOST_ORDER];
};

/* Writes the tensor, and spreads it over cells: those of empty slices as well. */
static struct test_fit_case write_tensor(struct test_coo *x, const struct test_tsh_conf *conf)
{
    struct test_fit_case c = { .order = x->order, .n_cells = 1, .nnz = x->nnz };
    struct ts_tensor *t = NULL;
    test_tsh_write(dir, x, conf);
    ck_assert_int_eq(ts_tensor_open(dir, &t, NULL), 0);
    for (uint32_t m = 0; m < c.order; m++) {
        c.dim[m] = t->mode[m].disk.dim;
        c.n_cells *= c.dim[m];
    }
    ts_tensor_close(t);
    c.cell = calloc(c.n_cells, sizeof *c.cell);
    for (uint64_t n = 0; n < x->nnz; n++) {
        uint64_t at = 0;
        for (uint32_t m = 0; m < c.order; m++)
            at = at * c.dim[m] + test_tsh_index(conf, m, x->idx[m][n]);
        c.cell[at] += x->val[n];
    }
    return c;
}

/* Every cell that is not zero, as a tensor to be written. */
static struct test_coo coo_of(const struct test_fit_case *c)
{
    struct test_coo x = { .order = c->order };
    for (uint32_t m = 0; m < c->order; m++) {
        x.dim[m] = c->dim[m];
        x.idx[m] = malloc(c->n_cells * sizeof(uint32_t));
    }
    x.val = malloc(c->n_cells * sizeof(double));
    for (uint64_t n = 0; n < c->n_cells; n++) {
        if (c->cell[n] == 0)
            continue;
        for (uint32_t m = 0; m < c->order; m++)
            x.idx[m][x.nnz] = (uint32_t)test_fit_case_index(c, n, m);
        x.val[x.nnz++] = c->cell[n];
    }
    return x;
}

/* Entries in (-0.5, 1); of the weights one is zero and some are negative. */
static struct model random_model(const struct test_fit_case *c, uint32_t rank, uint64_t seed)
{
    struct model m = { .order = c->order, .rank = rank, .weight = malloc(rank * sizeof(double)) };
    for (uint32_t r = 0; r < rank; r++)
        m.weight[r] = r == 1 ? 0 : 3 * ts_init_entry(seed, 99, r, 0) - 1;
    for (uint32_t k = 0; k < c->order; k++) {
        m.n_rows[k] = c->dim[k];
        m.a[k] = malloc(c->dim[k] * rank * sizeof(double));
        for (uint64_t i = 0; i < c->dim[k]; i++)
            for (uint32_t r = 0; r < rank; r++)
                m.a[k][i * rank + r] = 1.5 * ts_init_entry(seed, k, i, r) - 0.5;
    }
    return m;
}

static void model_free(struct model *m)
{
    for (uint32_t k = 0; k < m->order; k++)
        free(m->a[k]);
    free(m->weight);
}

/* cell := the model's value there, plus `noise` of it */
static void fill_cells(struct test_fit_case *c, const struct model *m, double noise)
{
    for (uint64_t n = 0; n < c->n_cells; n++) {
        long double sum = 0;
        for (uint32_t r = 0; r < m->rank; r++) {
            long double term = m->weight[r];
            for (uint32_t k = 0; k < m->order; k++)
                term *= m->a[k][test_fit_case_index(c, n, k) * m->rank + r];
            sum += term;
        }
        c->cell[n] = (double)sum * (1 + noise * (ts_unit(ts_mix(n)) - 0.5));
    }
}

/* ---- models as files, as their programs write them ---- */

enum format { KTENSOR, NPY, SPLATT, N_FORMATS };

static FILE *create(const char *name)
{
    char path[4300];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", model_dir, name);
    f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    return f;
}

static void put_npy(const char *name, const double *x, uint64_t rows, uint64_t columns)
{
    char head[128], shape[64];
    FILE *f = create(name);
    if (columns > 0)
        snprintf(shape, sizeof shape, "(%" PRIu64 ", %" PRIu64 ")", rows, columns);
    else
        snprintf(shape, sizeof shape, "(%" PRIu64 ",)", rows);
    memcpy(head, "\x93NUMPY\x01\0\x76\0", 10);
    snprintf(head + 10, sizeof head - 10, "%-117s", "");
    snprintf(head + 10, sizeof head - 10, "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }",
             shape);
    head[10 + strlen(head + 10)] = ' ';
    head[127] = '\n';
    fwrite(head, 1, sizeof head, f);
    fwrite(x, sizeof *x, rows * (columns > 0 ? columns : 1), f);
    ck_assert_int_eq(fclose(f), 0);
}

static void put_rows(FILE *f, const double *x, uint64_t rows, uint32_t columns)
{
    for (uint64_t i = 0; i < rows; i++)
        for (uint32_t r = 0; r < columns; r++)
            fprintf(f, "%.17g%c", x[i * columns + r], r + 1 < columns ? ' ' : '\n');
}

static void put_ktensor(const struct model *m)
{
    FILE *f = create("model.ktensor");
    fprintf(f, "ktensor\n%u\n", m->order);
    for (uint32_t k = 0; k < m->order; k++)
        fprintf(f, "%" PRIu64 " ", m->n_rows[k]);
    fprintf(f, "\n%u\n", m->rank);
    put_rows(f, m->weight, 1, m->rank);
    for (uint32_t k = 0; k < m->order; k++) {
        fprintf(f, "matrix\n2\n%" PRIu64 " %u\n", m->n_rows[k], m->rank);
        put_rows(f, m->a[k], m->n_rows[k], m->rank);
    }
    ck_assert_int_eq(fclose(f), 0);
}

static void put_model(const struct model *m, enum format format)
{
    char name[32];
    FILE *f;
    if (format == KTENSOR) {
        put_ktensor(m);
        return;
    }
    if (format == NPY)
        put_npy("weights.npy", m->weight, m->rank, 0);
    else {
        f = create("lambda.mat");
        put_rows(f, m->weight, m->rank, 1);
        ck_assert_int_eq(fclose(f), 0);
    }
    for (uint32_t k = 0; k < m->order; k++) {
        snprintf(name, sizeof name, "mode%u.%s", k + 1, format == NPY ? "npy" : "mat");
        if (format == NPY)
            put_npy(name, m->a[k], m->n_rows[k], m->rank);
        else {
            f = create(name);
            put_rows(f, m->a[k], m->n_rows[k], m->rank);
            ck_assert_int_eq(fclose(f), 0);
        }
    }
}

static void clear_model(void)
{
    test_tsh_remove(model_dir);
    ck_assert_int_eq(mkdir(model_dir, 0700), 0);
}

/* Rows `index` of mode k alone, and the file that says so. */
static void keep_rows(struct model *m, uint32_t k, const uint64_t *index, uint64_t n)
{
    char name[32];
    FILE *f;
    snprintf(name, sizeof name, "mode%u.index", k + 1);
    f = create(name);
    for (uint64_t i = 0; i < n; i++) {
        memmove(m->a[k] + i * m->rank, m->a[k] + index[i] * m->rank, m->rank * sizeof(double));
        fprintf(f, "%" PRIu64 "\n", index[i] + 1);
    }
    ck_assert_int_eq(fclose(f), 0);
    m->n_rows[k] = n;
}

/* ---- the runs ---- */

struct outcome {
    int rc;
    struct ts_err err;
    struct ts_exact_fit fit;
    uint64_t n_slots;
};

static int run(const char *model, uint32_t threads, uint64_t host_bytes, struct outcome *o,
               struct ts_exact_fit_conf *c, struct ts_feed **feed)
{
    struct ts_tensor *t = NULL;
    struct ts_backend_conf bc = { .precision = TS_FLOAT64, .threads = threads };
    struct ts_feed_conf fc = { .host_bytes = host_bytes };
    struct ts_feed_stats stats;
    int rc = ts_tensor_open(dir, &t, &o->err);
    c->tensor = bc.tensor = fc.tensor = t;
    c->threads = threads;
    if (rc == 0)
        rc = ts_model_open(model, &c->model, &o->err);
    if (rc < 0)
        return rc;
    bc.rank = c->model->rank;
    bc.only_mode = fc.only_mode = (int)ts_exact_fit_mode(t);
    rc = ts_backend_cpu.open(&bc, &c->be, &o->err);
    if (rc == 0)
        rc = ts_feed_new(&fc, feed, &o->err);
    c->feed = *feed;
    if (rc == 0)
        rc = ts_exact_fit_run(c, &o->fit, &o->err);
    if (rc < 0)
        return rc;
    ts_feed_stats(*feed, &stats);
    o->n_slots = stats.n_slots;
    return 0;
}

static struct outcome fit_of(const char *model, uint32_t threads, uint64_t host_bytes)
{
    struct outcome o = { 0 };
    struct ts_exact_fit_conf c = { .backend = &ts_backend_cpu };
    struct ts_feed *feed = NULL;
    o.rc = run(model, threads, host_bytes, &o, &c, &feed);
    ts_feed_free(feed);
    ts_backend_cpu.close(c.be);
    ts_model_close(c.model);
    ts_tensor_close((struct ts_tensor *)c.tensor);
    return o;
}

/* Within what it says of itself, which must be little, and norms alike. */
static void ck_fit(const struct test_fit_case *c, const struct model *m, double most_error)
{
    const struct outcome o = fit_of(model_dir, 2, 1 << 26);
    const double want = test_fit_case_fit(c, m->rank, m->weight, m->a);
    double norm = 0;
    ck_assert_msg(o.rc == 0, "%s", o.err.text);
    ck_assert_msg(fabs(o.fit.fit - want) <= o.fit.error, "found %.17g +- %.2g, expected %.17g",
                  o.fit.fit, o.fit.error, want);
    ck_assert_msg(o.fit.error <= most_error, "an error of %.3g, at most %.3g is expected",
                  o.fit.error, most_error);
    for (uint64_t n = 0; n < c->n_cells; n++)
        norm += c->cell[n] * c->cell[n];
    norm = sqrt(norm);
    ck_assert_double_eq_tol(o.fit.norm, norm, 1e-13 * norm);
    ck_assert_double_eq_tol(o.fit.residual, norm * (1 - want), norm * o.fit.error + 1e-13 * norm);
}

static const struct shape {
    uint32_t order, nnz, rank, stretch;
    uint64_t dim[TEST_FIT_MOST_ORDER];
} shapes[] = {
    { 2, 300, 4, 0, { 31, 40 } },
    { 2, 1, 3, 4, { 1, 1 } }, /* one nonzero, empty slices around it */
    { 3, 2000, 5, 0, { 40, 30, 20 } },
    { 3, 700, 7, 3, { 21, 15, 11 } }, /* two of three slices empty */
    { 3, 500, 33, 0, { 3, 50, 40 } },
    { 3, 800, 1, 0, { 1, 50, 40 } },
    { 4, 900, 8, 2, { 9, 8, 7, 5 } },
    { 5, 900, 3, 0, { 12, 9, 8, 7, 6 } },
    { 6, 700, 17, 0, { 6, 5, 7, 4, 5, 3 } },
    { 7, 500, 2, 0, { 4, 5, 3, 4, 5, 3, 4 } },
    { 8, 500, 2, 0, { 3, 4, 3, 2, 5, 3, 4, 2 } },
    { 8, 100, 3, 2, { 2, 2, 3, 1, 2, 1, 2, 2 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

START_TEST(fits_are_those_of_all_cells)
{
    const struct shape *s = &shapes[_i];
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64,
                                        .stretch = s->stretch,
                                        .shard_partitions = 1 };
    struct test_coo x = test_coo_random(41, s->order, s->dim, s->nnz, 0, 0.5);
    struct test_fit_case c = write_tensor(&x, &conf);
    struct model m = random_model(&c, s->rank, 5);
    for (int format = 0; format < N_FORMATS; format++) {
        clear_model();
        put_model(&m, (enum format)format);
        /* 1 - fit is 1 and more here, the components add to some times that */
        ck_fit(&c, &m, 1e-11);
    }
    model_free(&m);
    test_fit_case_free(&c);
    test_coo_free(&x);
}
END_TEST

/* Noise 0, 1e-10, ... 1e-1 on the model itself: 1 - fit is as small as that. */
START_TEST(fits_near_one_are_exact)
{
    static const double noise[] = { 0, 1e-10, 1e-7, 1e-4, 1e-1 };
    struct test_fit_case c = { .order = 3, .dim = { 17, 13, 11 }, .n_cells = 17 * 13 * 11 };
    struct model m;
    struct test_coo x;
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64 };
    c.cell = calloc(c.n_cells, sizeof *c.cell);
    m = random_model(&c, 4, 3);
    fill_cells(&c, &m, noise[_i]);
    x = coo_of(&c);
    test_tsh_write(dir, &x, &conf);
    put_model(&m, NPY);
    ck_fit(&c, &m, 5e-7);
    model_free(&m);
    test_coo_free(&x);
    test_fit_case_free(&c);
}
END_TEST

/* Two components a million times as large as their sum: in plain float64 |M|^2 would have four
 * digits. */
START_TEST(components_that_cancel_do_no_harm)
{
    struct test_fit_case c = { .order = 3, .dim = { 15, 14, 9 }, .n_cells = 15 * 14 * 9 };
    struct model m;
    struct test_coo x;
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64 };
    c.cell = calloc(c.n_cells, sizeof *c.cell);
    m = random_model(&c, 2, 3);
    m.weight[0] = 1e6;
    m.weight[1] = -1e6;
    for (uint32_t k = 0; k < 3; k++)
        for (uint64_t i = 0; i < c.dim[k]; i++)
            m.a[k][2 * i + 1] = m.a[k][2 * i] + 1e-6 * m.a[k][2 * i + 1];
    fill_cells(&c, &m, _i == 0 ? 1e-2 : 1e-5);
    x = coo_of(&c);
    test_tsh_write(dir, &x, &conf);
    put_model(&m, SPLATT);
    ck_fit(&c, &m, _i == 0 ? 1e-5 : 1e-3);
    model_free(&m);
    test_coo_free(&x);
    test_fit_case_free(&c);
}
END_TEST

/* Rows of used slices alone: told by a file, or by their number; of other indices; of a few. */
START_TEST(rows_of_some_indices)
{
    static const uint64_t dim[3] = { 9, 8, 7 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64, .stretch = 3 };
    struct test_coo x = test_coo_random(4, 3, dim, 200, 0, 0);
    struct test_fit_case c = write_tensor(&x, &conf);
    struct model m = random_model(&c, 3, 8), whole = random_model(&c, 3, 8);
    char name[4300];
    for (uint32_t k = 0; k < 3; k++) {
        uint64_t index[64], n = 0;
        for (uint64_t i = 0; i < c.dim[k]; i++) {
            int keep = i % 4 == 1; /* used ones and empty ones */
            if (_i < 2) {
                keep = 0;
                for (uint64_t row = 0; row < x.dim[k]; row++)
                    keep |= test_tsh_index(&conf, k, row) == i;
            }
            if (keep)
                index[n++] = i;
            else
                memset(whole.a[k] + 3 * i, 0, 3 * sizeof(double));
        }
        keep_rows(&m, k, index, n);
        snprintf(name, sizeof name, "%s/mode%u.index", model_dir, k + 1);
        if (_i == 1)
            ck_assert_int_eq(unlink(name), 0);
    }
    put_model(&m, _i == 2 ? NPY : SPLATT);
    ck_fit(&c, &whole, 1e-11);
    model_free(&m);
    model_free(&whole);
    test_fit_case_free(&c);
    test_coo_free(&x);
}
END_TEST

/* A column may be as large or small as it likes where its weight makes up for it. */
START_TEST(columns_of_any_size) /* squares of some are in the range of float64, of some not */
{
    static const uint64_t dim[4] = { 9, 8, 7, 5 };
    const int large = _i < N_FORMATS ? 400 : 900, small = _i < N_FORMATS ? 300 : 1000;
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64 };
    struct test_coo x = test_coo_random(4, 4, dim, 300, 0, 0);
    struct test_fit_case c = write_tensor(&x, &conf);
    struct model m = random_model(&c, 3, 8), plain = random_model(&c, 3, 8);
    for (uint32_t k = 0; k < 4; k++)
        for (uint64_t i = 0; i < c.dim[k]; i++) {
            m.a[k][3 * i] = ldexp(m.a[k][3 * i], -300);
            m.a[k][3 * i + 2] = ldexp(m.a[k][3 * i + 2], k % 2 == 0 ? large : -small);
        }
    m.weight[0] = 0; /* 2^1200 is no float64 */
    plain.weight[0] = 0;
    m.weight[2] = ldexp(m.weight[2], 2 * (small - large));
    put_model(&m, (enum format)(_i % N_FORMATS));
    ck_fit(&c, &plain, 1e-11);
    model_free(&m);
    model_free(&plain);
    test_fit_case_free(&c);
    test_coo_free(&x);
}
END_TEST

START_TEST(bits_do_not_depend_on_resources)
{
    static const uint64_t dim[3] = { 50, 700, 300 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64, .shard_partitions = 1, .stretch = 2 };
    const uint32_t rank = _i == 0 ? 5 : 40;
    struct test_coo x = test_coo_random(23, 3, dim, 120000, 5, 2);
    struct test_fit_case c = { .order = 3, .dim = { 101, 1401, 601 } };
    struct model m = random_model(&c, rank, 8);
    struct outcome first, other;
    int streamed = 0;
    test_tsh_write(dir, &x, &conf);
    for (uint32_t k = 0; k < 3; k++)
        m.n_rows[k] = 2 * x.dim[k] + 1;
    put_model(&m, NPY);
    first = fit_of(model_dir, 1, 1 << 26);
    ck_assert_msg(first.rc == 0, "%s", first.err.text);
    ck_assert_uint_eq(first.n_slots, 0);
    for (uint32_t threads = 1; threads <= 7; threads += 2)
        for (uint64_t bytes = 300000; bytes <= 1 << 26; bytes *= 200) {
            other = fit_of(model_dir, threads, bytes);
            ck_assert_msg(other.rc == 0, "%s", other.err.text);
            ck_assert_mem_eq(&first.fit, &other.fit, sizeof first.fit);
            streamed |= other.n_slots > 0;
        }
    ck_assert(streamed);
    model_free(&m);
    test_coo_free(&x);
}
END_TEST

/* What pyttb.export_data writes of a ktensor: numpy.savetxt's format, each size in a line of its
 * own field. X has 2 at (1, 1, 1) and 5 at (2, 3, 2). */
START_TEST(a_model_of_pyttb)
{
    static const char text[] =
        "ktensor\n3\n2 3 2\n2\n2.0000000000000000e+00 -1.0000000000000000e+00\n"
        "matrix\n2\n2 2\n1.0000000000000000e+00 0.0000000000000000e+00\n"
        "0.0000000000000000e+00 1.0000000000000000e+00\n"
        "matrix\n2\n3 2\n1.0000000000000000e+00 0.0000000000000000e+00\n"
        "0.0000000000000000e+00 0.0000000000000000e+00\n"
        "0.0000000000000000e+00 1.0000000000000000e+00\n"
        "matrix\n2\n2 2\n1.0000000000000000e+00 0.0000000000000000e+00\n"
        "0.0000000000000000e+00 -4.0000000000000000e+00\n";
    struct test_fit_case c = { .order = 3, .dim = { 2, 3, 2 }, .n_cells = 12 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64, .stretch = 0 };
    struct test_coo x = test_coo_random(1, 3, c.dim, 6, 0, 0);
    struct outcome o;
    FILE *f = create("model.ktensor");
    fwrite(text, 1, sizeof text - 1, f);
    ck_assert_int_eq(fclose(f), 0);
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] = 0;
    ck_assert_uint_ge(x.nnz, 2);
    x.dim[0] = 2, x.dim[1] = 3, x.dim[2] = 2;
    x.nnz = 3;
    for (uint64_t n = 0; n < 3; n++) { /* (1, 1, 1): 2, (1, 2, 1): 3, (2, 3, 2): 5 */
        x.idx[0][n] = n == 2;
        x.idx[1][n] = (uint32_t)n;
        x.idx[2][n] = n == 2;
        x.val[n] = (double)(n == 0 ? 2 : n == 1 ? 3 : 5);
    }
    test_tsh_write(dir, &x, &conf);
    o = fit_of(model_file, 1, 1 << 20); /* the model: 2 and 4 on the diagonal; off by 3 and 1 */
    ck_assert_msg(o.rc == 0, "%s", o.err.text);
    ck_assert_double_eq_tol(o.fit.fit, 1 - sqrt(10.0 / 38), 1e-14);
    ck_assert_double_eq_tol(o.fit.residual, sqrt(10), 1e-13);
    ck_assert_double_eq_tol(o.fit.model_norm, sqrt(20), 1e-13);
    test_coo_free(&x);
}
END_TEST

static void ck_refused(int code, const char *text)
{
    const struct outcome o = fit_of(model_dir, 1, 1 << 26);
    ck_assert_int_eq(o.rc, code);
    ck_assert_msg(strstr(o.err.text, text) != NULL, "no \"%s\" in: %s", text, o.err.text);
}

START_TEST(models_of_another_shape_are_refused)
{
    static const uint64_t dim[3] = { 9, 8, 7 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64 };
    struct test_coo x = test_coo_random(4, 3, dim, 200, 0, 0);
    struct test_fit_case c = write_tensor(&x, &conf);
    struct model m = random_model(&c, 2, 8);
    m.n_rows[1]--;
    put_model(&m, SPLATT);
    ck_refused(TS_EARG, "mode 2 of the model has 7 rows, of the tensor 8");
    m.n_rows[1]++;
    put_model(&m, SPLATT);
    {
        FILE *f = create("mode1.index");
        for (uint64_t i = 0; i < 9; i++)
            fprintf(f, "%" PRIu64 "\n", i + (i > 5 ? 2 : 1));
        ck_assert_int_eq(fclose(f), 0);
    }
    ck_refused(TS_EARG, "mode 1 of the model has index 10, of the tensor 9");
    clear_model();
    m.order = 2;
    put_model(&m, SPLATT);
    ck_refused(TS_EARG, "the model has 2 modes, the tensor 3");
    m.order = 3;
    m.weight[1] = 1e300;
    put_model(&m, SPLATT);
    ck_refused(TS_ELIMIT, "leave the range of float64");
    model_free(&m);
    test_fit_case_free(&c);
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("exact_fit");
    TCase *t = tcase_create("exact_fit");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, fits_are_those_of_all_cells, 0, N_SHAPES);
    tcase_add_loop_test(t, fits_near_one_are_exact, 0, 5);
    tcase_add_loop_test(t, components_that_cancel_do_no_harm, 0, 2);
    tcase_add_loop_test(t, rows_of_some_indices, 0, 3);
    tcase_add_loop_test(t, columns_of_any_size, 0, 2 * N_FORMATS);
    tcase_add_loop_test(t, bits_do_not_depend_on_resources, 0, 2);
    tcase_add_test(t, a_model_of_pyttb);
    tcase_add_test(t, models_of_another_shape_are_refused);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
