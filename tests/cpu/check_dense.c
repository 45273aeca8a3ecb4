/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of dense tensors equal the obvious loop, and have the same bits for any threads and
 * budgets; headers of NumPy that cannot be right are refused with a sentence. */
#include <check.h>
#include <float.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "cpu/dense/dense_product.h"
#include "cpu/dense/dense_scan.h"
#include "format/arrays/array_index.h"
#include "format/arrays/dense.h"
#include "stream/feed/slabs.h"
#include "tests/support/run_suite.h"

static char folder[128], file[160];

static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.90s/check_dense.XXXXXX", tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/x.npy", folder);
}

static void remove_folder(void)
{
    unlink(file);
    rmdir(folder);
}

/* ---- headers ---- */

static void write_file(const char *head, size_t head_bytes, const char *text, const void *cells,
                       size_t cell_bytes)
{
    FILE *f = fopen(file, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(head, 1, head_bytes, f), head_bytes);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), f), strlen(text));
    if (cell_bytes > 0)
        ck_assert_uint_eq(fwrite(cells, 1, cell_bytes, f), cell_bytes);
    ck_assert_int_eq(fclose(f), 0);
}

/* A file of format 1.0. */
static void write_npy(const char *text, const void *cells, size_t cell_bytes)
{
    char head[10] = "\x93NUMPY\x01";
    head[8] = (char)(strlen(text) % 256);
    head[9] = (char)(strlen(text) / 256);
    write_file(head, sizeof head, text, cells, cell_bytes);
}

#define HEADER(descr, order, shape) \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

static const struct {
    const char *text, *want;
} wrong[] = {
    { HEADER("'|O'", "False", "(2, 2)"), "byte 20: its cells, '|O', are Python objects" },
    { HEADER("'<c16'", "False", "(2, 2)"), "byte 20: its cells, '<c16', are complex numbers" },
    { HEADER("'<f2'", "False", "(2, 2)"), "are floating-point numbers of another size" },
    { HEADER("'<U8'", "False", "(2, 2)"), "are texts" },
    { HEADER("'|b1'", "False", "(2, 2)"), "are truth values" },
    { HEADER("[('a', '<f8')]", "False", "(2, 2)"), "byte 20: its cells are records" },
    { HEADER("'<f8'", "Maybe", "(2, 2)"), "fortran_order is neither True nor False" },
    { HEADER("'<f8'", "False", "(4,)"), "an array of 1 dimension; a dense tensor has 2 to 8" },
    { HEADER("'<f8'", "False", "()"), "an array of 0 dimensions" },
    { HEADER("'<f8'", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "more than 8 dimensions" },
    { HEADER("'<f8'", "False", "(2, 0, 3)"), "mode 2 has size 0" },
    { HEADER("'<f8'", "False", "(2, -1)"), "no size where the shape should have one" },
    { HEADER("'<f8'", "False", "(1000000, 1000000, 1000000)"), "more than 2^40 cells" },
    { HEADER("'<f8'", "False", "(99999999999999999999, 2)"), "a size that is too large" },
    { HEADER("'<f8'", "False", "(8589934592, 2)"), "at most 2^32 - 1" },
    { HEADER("'<f8'", "False", "(2, 2, 2)"), "(it was cut short)" },
    { "{'descr': '<f8', 'shape': (2, 2), }\n", "the header lacks" },
    { "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), 'x': 1}\n", "an unknown word" },
    { "['descr']\n", "byte 10: the header does not begin with {" },
    { "{'descr': '<f8\n", "the header ends in a word" },
};

START_TEST(wrong_headers_are_refused)
{
    const double cells[4] = { 1, 2, 3, 4 };
    struct ts_tensor *t = NULL;
    struct ts_err err;
    write_npy(wrong[_i].text, cells, sizeof cells);
    ck_assert_int_lt(ts_dense_npy(file, &t, &err), 0);
    ck_assert_msg(strstr(err.text, wrong[_i].want) != NULL, "\"%s\" lacks \"%s\"", err.text,
                  wrong[_i].want);
    ck_assert_msg(strncmp(err.text, file, strlen(file)) == 0, "\"%s\" names no file", err.text);
    ck_assert_ptr_null(t);
}
END_TEST

START_TEST(wrong_heads_are_refused)
{
    static const struct {
        const char *head, *want;
        size_t bytes;
    } heads[] = {
        { "\x93NUMPY\x01\0\xff\xff", "the file ends in its header", 10 },
        { "\x93NUMPY\x04\0\x10\0\0\0", "byte 6: a NumPy file of format 4.0", 12 },
        { "\x93NUMPY\x02\0\xff\xff\xff\xff", "byte 8: a header of 4294967295 bytes", 12 },
        { "\x93NUMPY\x01", "byte 7: the file ends in its head", 7 },
        { "PK\x03\x04        ", "byte 0: not a NumPy file", 12 },
    };
    struct ts_tensor *t = NULL;
    struct ts_err err;
    write_file(heads[_i].head, heads[_i].bytes, _i == 3 ? "" : "{}  ", NULL, 0);
    ck_assert_int_lt(ts_dense_npy(file, &t, &err), 0);
    ck_assert_msg(strstr(err.text, heads[_i].want) != NULL, "\"%s\" lacks \"%s\"", err.text,
                  heads[_i].want);
}
END_TEST

START_TEST(headers_of_all_formats_are_read)
{
    const char *text = HEADER("'>f4'", "True", "(2, 3)");
    char head[12] = "\x93NUMPY";
    const size_t bytes = _i == 1 ? 10 : 12;
    float cells[6] = { 0 };
    struct ts_tensor *t;
    struct ts_err err;
    head[6] = (char)_i;
    head[8] = (char)strlen(text);
    write_file(head, bytes, text, cells, sizeof cells);
    ck_assert_msg(ts_dense_npy(file, &t, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(t->order, 2);
    ck_assert_uint_eq(t->mode[0].disk.dim, 2);
    ck_assert_uint_eq(t->mode[1].disk.n_rows, 3);
    ck_assert_uint_eq(t->nnz, 6);
    ck_assert_int_eq(t->dense->array.fortran, 1);
    ck_assert_uint_eq(t->dense->array.offset, bytes + strlen(text));
    ts_tensor_close(t);
}
END_TEST

/* ---- cells ---- */

START_TEST(cells_of_all_types_are_numbers)
{
    static const double want[4] = { 0, 1, 100, 3 };
    for (int swapped = 0; swapped < 2; swapped++) {
        struct ts_dense_array a = { .path = "x",
                                    .type = (enum ts_cell_type)_i,
                                    .swapped = swapped,
                                    .order = 2,
                                    .dim = { 2, 2 } };
        const uint32_t bytes = ts_cell_bytes(a.type);
        const uint16_t one = 1;
        const int little = *(const uint8_t *)&one == 1;
        uint8_t cells[32] = { 0 };
        double wide[4], y;
        struct ts_tensor *t;
        struct ts_err err;
        for (uint32_t i = 0; i < 4; i++) {
            const float narrow = (float)want[i];
            uint8_t x[8] = { 0 };
            if (a.type == TS_CELL_F32)
                memcpy(x, &narrow, 4);
            else if (a.type == TS_CELL_F64)
                memcpy(x, &want[i], 8);
            else
                x[little ? 0 : bytes - 1] = (uint8_t)want[i];
            for (uint32_t k = 0; k < bytes; k++)
                cells[i * bytes + k] = x[swapped ? bytes - 1 - k : k];
        }
        a.memory = cells;
        ck_assert_int_eq(ts_dense_open(&a, &t, &err), 0);
        ts_dense_get_f64(t->dense, cells, 0, 4, wide);
        for (uint32_t i = 0; i < 4; i++)
            ck_assert_double_eq(wide[i], want[i]);
        ts_dense_get_f64(t->dense, cells, 2, 1, &y);
        ck_assert_double_eq(y, 100);
        ts_tensor_close(t);
    }
}
END_TEST

/* ---- products ---- */

static const struct shape {
    uint32_t order;
    uint64_t dim[TS_DENSE_MAX_ORDER];
    uint64_t slab_bytes;
} shapes[] = {
    { 2, { 1, 1 }, 0 },
    { 2, { 37, 301 }, 0 },
    { 2, { 301, 3 }, 1024 },
    { 2, { 5, 3000 }, 2048 }, /* slabs are parts of a row, or of several */
    { 2, { 1, 700 }, 512 },
    { 2, { 30, 1000 }, 0 }, /* rows that are fetched in parts */
    { 2, { 300, 128 }, 0 }, /* rows of a power of 2 */
    { 3, { 13, 1, 90 }, 4096 },
    { 3, { 33, 20, 65 }, 0 },
    { 3, { 33, 20, 65 }, 8192 },
    { 3, { 70, 9, 2 }, 4096 },
    { 4, { 7, 30, 5, 11 }, 2048 },
    { 4, { 300, 2, 3, 4 }, 4096 },
    { 5, { 5, 6, 7, 8, 3 }, 4096 },
    { 6, { 1, 6, 5, 1, 8, 3 }, 1024 },
    { 7, { 3, 2, 5, 4, 2, 3, 4 }, 2048 },
    { 8, { 2, 3, 2, 4, 2, 3, 2, 5 }, 1024 },
};
static const uint32_t ranks[] = { 1, 2, 5, 8, 16, 17, 33, 100, 300 };
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])
#define N_RANKS  (int)(sizeof ranks / sizeof ranks[0])

struct dense {
    struct ts_tensor *t;
    uint64_t cells;
    double *value; /* of the cells, the last index fastest */
    double *factor[TS_DENSE_MAX_ORDER];
    uint32_t rank;
};

/* Cells of a file, or of memory: signed, in the order and type that are wanted. */
static void dense_new(const struct shape *s, int narrow, int fortran, uint32_t rank,
                      struct dense *ret)
{
    struct ts_dense_array a = { .path = file,
                                .offset = rank % 2 == 0 ? 96 : 100, /* a multiple of 8, or none */
                                .type = narrow ? TS_CELL_F32 : TS_CELL_F64,
                                .fortran = fortran,
                                .order = s->order,
                                .slab_bytes = s->slab_bytes };
    struct ts_err err;
    uint64_t n = 1;
    char *bytes;
    FILE *f;
    memset(ret, 0, sizeof *ret);
    memcpy(a.dim, s->dim, sizeof a.dim);
    for (uint32_t m = 0; m < s->order; m++)
        n *= s->dim[m];
    ret->cells = n;
    ret->rank = rank;
    ret->value = malloc(n * sizeof(double));
    bytes = calloc(n, 8);
    for (uint64_t i = 0; i < n; i++) {
        const double x = 2 * ts_unit(ts_mix(i + 1)) - 1;
        const float y = (float)x;
        uint64_t at = i, rest = i;
        ret->value[i] = narrow ? y : x;
        if (fortran) {
            uint64_t index[TS_DENSE_MAX_ORDER];
            for (uint32_t m = s->order; m-- > 0; rest /= s->dim[m])
                index[m] = rest % s->dim[m];
            at = 0;
            for (uint32_t m = s->order; m-- > 0;)
                at = at * s->dim[m] + index[m];
        }
        if (narrow)
            memcpy(bytes + at * 4, &y, 4);
        else
            memcpy(bytes + at * 8, &x, 8);
    }
    f = fopen(file, "wb");
    ck_assert_ptr_nonnull(f);
    for (uint64_t i = 0; i < a.offset; i++)
        fputc('x', f);
    ck_assert_uint_eq(fwrite(bytes, narrow ? 4 : 8, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
    free(bytes);
    ck_assert_msg(ts_dense_open(&a, &ret->t, &err) == 0, "%s", err.text);
    for (uint32_t m = 0; m < s->order; m++) {
        ret->factor[m] = malloc(s->dim[m] * rank * sizeof(double));
        for (uint64_t i = 0; i < s->dim[m] * rank; i++)
            ret->factor[m][i] = (float)(2 * ts_unit(ts_mix(77 * m + i)) - 1);
    }
}

static void dense_free(struct dense *x)
{
    for (uint32_t m = 0; m < x->t->order; m++)
        free(x->factor[m]);
    ts_tensor_close(x->t);
    free(x->value);
}

/* The obvious loop. */
static void loop(const struct dense *x, uint32_t mode, double *ret)
{
    const uint32_t n = x->t->order;
    memset(ret, 0, x->t->mode[mode].disk.dim * x->rank * sizeof *ret);
    for (uint64_t i = 0; i < x->cells; i++) {
        uint64_t index[TS_DENSE_MAX_ORDER], rest = i;
        for (uint32_t m = n; m-- > 0; rest /= x->t->mode[m].disk.dim)
            index[m] = rest % x->t->mode[m].disk.dim;
        for (uint32_t r = 0; r < x->rank; r++) {
            double p = x->value[i];
            for (uint32_t m = 0; m < n; m++)
                p *= m == mode ? 1 : x->factor[m][index[m] * x->rank + r];
            ret[index[mode] * x->rank + r] += p;
        }
    }
}

/* The products of all modes, one after another, as a backend computes them. */
static void products(const struct dense *x, enum ts_precision precision, uint32_t threads,
                     uint64_t spare, uint64_t budget, double **ret, uint64_t *bytes_read)
{
    struct ts_backend_conf conf = { .tensor = x->t,
                                    .rank = x->rank,
                                    .precision = precision,
                                    .threads = threads,
                                    .spare_bytes = spare,
                                    .only_mode = -1 };
    struct ts_feed_conf fc = { .tensor = x->t, .host_bytes = budget, .only_mode = -1 };
    struct ts_feed_stats stats;
    struct ts_feed *feed;
    struct ts_err err;
    void *be;
    ck_assert_msg(ts_feed_new(&fc, &feed, &err) == 0, "%s", err.text);
    ck_assert_msg(ts_backend_cpu.open(&conf, &be, &err) == 0, "%s", err.text);
    for (uint32_t m = 0; m < x->t->order; m++)
        ts_backend_cpu.put_rows(be, m, 0, x->t->mode[m].disk.dim, x->factor[m], &err);
    for (uint32_t m = 0; m < x->t->order; m++) {
        const uint64_t n = x->t->mode[m].disk.dim;
        ts_feed_rewind(feed);
        ck_assert_msg(
            ts_backend_cpu.pass(&(struct ts_request){ .be = be }, 1, m, feed, NULL, &err) == 0,
            "%s", err.text);
        ck_assert_int_eq(ts_backend_cpu.get_rows(be, m, 0, n, ret[m], &err), 0);
        ck_assert_int_eq(ts_backend_cpu.put_rows(be, m, 0, n, x->factor[m], &err), 0);
    }
    ts_feed_stats(feed, &stats);
    if (bytes_read != NULL)
        *bytes_read = stats.bytes_read;
    ts_backend_cpu.close(be);
    ts_feed_free(feed);
}

static double **results_new(const struct dense *x)
{
    double **ret = calloc(TS_DENSE_MAX_ORDER, sizeof *ret);
    for (uint32_t m = 0; m < x->t->order; m++)
        ret[m] = malloc(x->t->mode[m].disk.dim * x->rank * sizeof(double));
    return ret;
}

static void results_free(double **r)
{
    for (uint32_t m = 0; m < TS_DENSE_MAX_ORDER; m++)
        free(r[m]);
    free(r);
}

/* Terms have magnitudes below 1: as many roundings as a row has terms, at most. */
static void compare(const struct dense *x, double *const *got, double epsilon)
{
    for (uint32_t m = 0; m < x->t->order; m++) {
        const uint64_t n = x->t->mode[m].disk.dim * x->rank;
        const double allowed =
            epsilon * (double)(x->cells / x->t->mode[m].disk.dim + x->t->order + 8);
        double *want = malloc(n * sizeof *want);
        loop(x, m, want);
        for (uint64_t i = 0; i < n; i++)
            ck_assert_msg(fabs(got[m][i] - want[i]) <= allowed,
                          "mode %u, entry %" PRIu64 ": %.17g, by the loop %.17g", m, i, got[m][i],
                          want[i]);
        free(want);
    }
}

static void check_products(const struct shape *s, uint32_t rank, int narrow, int fortran,
                           enum ts_precision precision)
{
    const double epsilon = narrow && precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    struct dense x;
    double **first, **other;
    dense_new(s, narrow, fortran, rank, &x);
    first = results_new(&x);
    other = results_new(&x);
    products(&x, precision, 1, 0, UINT64_C(1) << 30, first, NULL);
    compare(&x, first, precision == TS_FLOAT32 ? FLT_EPSILON : epsilon);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        const uint64_t slots = 16 * 4096 + 10 * ts_dense_most_bytes(x.t->dense) +
                               (threads == 3 ? ts_dense_most_bytes(x.t->dense) * 3 : 0);
        products(&x, precision, threads, threads == 2 ? 0 : UINT64_C(1) << 30, slots, other, NULL);
        for (uint32_t m = 0; m < x.t->order; m++)
            ck_assert_mem_eq(first[m], other[m], x.t->mode[m].disk.dim * rank * sizeof(double));
    }
    results_free(first);
    results_free(other);
    dense_free(&x);
}

START_TEST(products_equal_the_loop)
{
    const struct shape *s = &shapes[_i];
    uint64_t cells = 1;
    for (uint32_t m = 0; m < s->order; m++)
        cells *= s->dim[m];
    for (int k = 0; k < N_RANKS; k++) /* each rank with some of the combinations, as time allows */
        for (int c = (3 * _i + k) % 8; c < 8; c += cells * ranks[k] < 200000 ? 5 : 8)
            check_products(s, ranks[k], c & 1, c >> 1 & 1, c >> 2 & 1 ? TS_FLOAT64 : TS_FLOAT32);
}
END_TEST

/* Up to the highest one: of few cells, so that the loop of so many columns is short. */
START_TEST(high_ranks_equal_the_loop)
{
    static const struct shape few[] = { { 3, { 13, 20, 21 }, 4096 }, { 4, { 5, 6, 7, 8 }, 0 } };
    check_products(&few[_i % 2], 1500, _i / 2, 0, TS_FLOAT64);
    check_products(&few[_i % 2], TS_FMAT_MAX_RANK, _i / 2, 1, TS_FLOAT32);
}
END_TEST

/* Numbers of columns that have code of their own, in grids of one mode, two and three. */
START_TEST(few_columns_equal_the_loop)
{
    static const struct shape few[] = { { 2, { 40, 30 }, 4096 },
                                        { 3, { 5, 61, 20 }, 4096 },
                                        { 4, { 5, 6, 7, 8 }, 512 } };
    for (uint32_t rank = 1; rank <= 9; rank++)
        for (int c = 0; c < 8; c++)
            check_products(&few[_i], rank, c & 1, c >> 1 & 1, c >> 2 & 1 ? TS_FLOAT64 : TS_FLOAT32);
}
END_TEST

/* ---- cells that are held out, and a mean ---- */

static const struct learnt {
    struct ts_hold_out hold_out;
    double mean;
} learnt[] = {
    { { 0.2, 7, 0 }, 0 },     { { 0.25, 7, 0.5 }, 0.375 }, { { 0, 0, 0 }, -0.7 },
    { { 0.9, 8, 0 }, 0.125 }, { { 0, 0, 0 }, 0 },
};
#define N_LEARNT (int)(sizeof learnt / sizeof learnt[0])

/* What is learnt from, by the loop: of each cell its value less the mean, or 0. */
static void learn_slowly(struct dense *x, const struct learnt *l)
{
    const uint32_t n = x->t->order;
    for (uint64_t i = 0; i < x->cells; i++) {
        uint64_t index[TS_DENSE_MAX_ORDER], rest = i, hash = ts_hold_out_begin(&l->hold_out);
        for (uint32_t m = n; m-- > 0; rest /= x->t->mode[m].disk.dim)
            index[m] = rest % x->t->mode[m].disk.dim;
        for (uint32_t m = 0; m < n; m++)
            hash = ts_hold_out_add(hash, index[m]);
        x->value[i] -= l->mean;
        if (l->hold_out.share > 0 && ts_hold_out_held(&l->hold_out, hash))
            x->value[i] = 0;
    }
}

/* The products of all modes, each in the object that has made those before. */
static void learnt_products(const struct dense *x, const struct learnt *l,
                            enum ts_precision precision, uint32_t threads, uint64_t spare,
                            double **ret)
{
    const struct ts_dense_product_conf conf = { .tensor = x->t,
                                                .rank = x->rank,
                                                .threads = threads,
                                                .precision = precision,
                                                .isa = ts_isa_best(),
                                                .spare_bytes = spare };
    struct ts_feed_conf fc = { .tensor = x->t, .host_bytes = 1 << 30, .only_mode = -1 };
    struct ts_fmat factor[TS_DENSE_MAX_ORDER] = { { 0 } }, out = { 0 };
    struct ts_dense_product *p;
    struct ts_feed *feed;
    struct ts_err err;
    ck_assert_msg(ts_feed_new(&fc, &feed, &err) == 0, "%s", err.text);
    ck_assert_msg(ts_dense_product_new(&conf, &p, &err) == 0, "%s", err.text);
    for (uint32_t m = 0; m < x->t->order; m++) {
        const uint64_t n = x->t->mode[m].disk.dim;
        ck_assert_int_eq(ts_fmat_new(n, x->rank, precision, "factor", &factor[m], &err), 0);
        ts_fmat_put(&factor[m], 0, n, x->factor[m], 1);
    }
    for (uint32_t m = 0; m < x->t->order; m++) {
        const uint64_t n = x->t->mode[m].disk.dim;
        ck_assert_int_eq(ts_fmat_new(n, x->rank, precision, "product", &out, &err), 0);
        for (int again = N_LEARNT; again-- > 0;) { /* what others have left must not matter */
            ts_dense_product_learn(p, again > 0 ? &learnt[again].hold_out : &l->hold_out,
                                   again > 0 ? learnt[again].mean : l->mean);
            ck_assert_msg(ts_dense_product_run(p, m, factor, &out, precision, feed, NULL, &err) ==
                              0,
                          "%s", err.text);
        }
        memcpy(ret[m], ts_dense_product_sums(p), n * x->rank * sizeof(double));
        ts_fmat_free(&out);
    }
    for (uint32_t m = 0; m < x->t->order; m++)
        ts_fmat_free(&factor[m]);
    ts_dense_product_free(p);
    ts_feed_free(feed);
}

static void check_learnt(const struct shape *s, uint32_t rank, const struct learnt *l, int narrow,
                         int fortran, enum ts_precision precision)
{
    const double epsilon = precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    struct dense x;
    double **first, **other;
    dense_new(s, narrow, fortran, rank, &x);
    first = results_new(&x);
    other = results_new(&x);
    learnt_products(&x, l, precision, 1, 0, first);
    for (uint32_t threads = 2; threads <= 3; threads++) {
        learnt_products(&x, l, precision, threads, UINT64_C(1) << 30, other);
        for (uint32_t m = 0; m < x.t->order; m++)
            ck_assert_mem_eq(first[m], other[m], x.t->mode[m].disk.dim * rank * sizeof(double));
    }
    learn_slowly(&x, l);
    compare(&x, first, 2 * epsilon); /* values less the mean have magnitudes below 2 */
    results_free(first);
    results_free(other);
    dense_free(&x);
}

START_TEST(products_of_what_is_learnt_equal_the_loop)
{
    const struct shape *s = &shapes[_i];
    for (int k = 0; k < N_LEARNT - 1; k++)
        for (int r = (_i + k) % 3; r < N_RANKS - 1; r += 3) {
            const int c = (3 * _i + k + r) % 8;
            check_learnt(s, ranks[r], &learnt[k], c & 1, c >> 1 & 1,
                         c >> 2 & 1 ? TS_FLOAT64 : TS_FLOAT32);
        }
}
END_TEST

/* Solves for the rows of a mode, all other factors being those of x; be: NULL: a backend of its
 * own. */
static void complete(const struct dense *x, const struct learnt *l, uint32_t mode,
                     struct ts_feed *feed, void *be, double *ret)
{
    const struct ts_backend_conf conf = {
        .tensor = x->t, .rank = x->rank, .precision = TS_FLOAT64, .threads = 2, .only_mode = -1
    };
    const struct ts_row_update how = { .kind = TS_ROW_OBSERVED,
                                       .l2 = 0.1,
                                       .lower = -INFINITY,
                                       .upper = INFINITY,
                                       .hold_out = l->hold_out,
                                       .mean = l->mean };
    void *own = NULL;
    double size;
    struct ts_err err;
    if (be == NULL)
        ck_assert_msg(ts_backend_cpu.open(&conf, &own, &err) == 0, "%s", err.text);
    be = be == NULL ? own : be;
    for (uint32_t m = 0; m < x->t->order; m++)
        ts_backend_cpu.put_rows(be, m, 0, x->t->mode[m].disk.dim, x->factor[m], &err);
    ck_assert_msg(
        ts_backend_cpu.pass(&(struct ts_request){ .be = be,
                                                  .kind = TS_REQUEST_ROWS,
                                                  .update = &how,
                                                  .sums = &(struct ts_row_sums){ .size = &size } },
                            1, mode, feed, NULL, &err) == 0,
        "%s", err.text);
    ts_backend_cpu.get_rows(be, mode, 0, x->t->mode[mode].disk.dim, ret, &err);
    ts_backend_cpu.close(own);
}

START_TEST(rows_do_not_know_what_was_held_out_before)
{
    const struct shape s = { 4, { 12, 20, 10, 24 }, 4096 };
    const struct ts_backend_conf conf = {
        .rank = 5, .precision = TS_FLOAT64, .threads = 2, .spare_bytes = 1 << 30, .only_mode = -1
    };
    struct ts_backend_conf bc = conf;
    struct ts_feed_conf fc = { .host_bytes = 1 << 30, .only_mode = -1 };
    struct dense x;
    struct ts_feed *feed;
    struct ts_err err;
    double one[24 * 5], same[24 * 5];
    void *be;
    dense_new(&s, 0, 0, 5, &x);
    bc.tensor = fc.tensor = x.t;
    ck_assert_msg(ts_feed_new(&fc, &feed, &err) == 0, "%s", err.text);
    ck_assert_msg(ts_backend_cpu.open(&bc, &be, &err) == 0, "%s", err.text);
    for (int k = 0; k < 2 * N_LEARNT; k++)
        for (uint32_t mode = 0; mode < s.order; mode++) {
            complete(&x, &learnt[3 * k % N_LEARNT], mode, feed, be, one);
            complete(&x, &learnt[3 * k % N_LEARNT], mode, feed, NULL, same);
            ck_assert_mem_eq(one, same, s.dim[mode] * 5 * sizeof(double));
            ck_assert_double_ne(one[0], 0);
        }
    ts_backend_cpu.close(be);
    ts_feed_free(feed);
    dense_free(&x);
}
END_TEST

/* With room for what several modes need, a sweep reads the file twice. */
START_TEST(a_sweep_takes_two_passes)
{
    const struct shape s = { 4, { 12, 20, 10, 24 }, 4096 };
    const uint64_t budget = UINT64_C(4) << 12; /* slots alone */
    struct dense x;
    double **r;
    uint64_t bytes[2];
    dense_new(&s, 0, 0, 5, &x);
    r = results_new(&x);
    ck_assert_uint_gt(x.t->dense->n_slabs, 16);
    products(&x, TS_FLOAT64, 2, UINT64_C(1) << 30, budget * 4, r, &bytes[0]);
    products(&x, TS_FLOAT64, 2, 0, budget * 4, r, &bytes[1]);
    /* the reader may have gone on, as far as slots allow */
    ck_assert_uint_ge(bytes[0], x.cells * 8);
    ck_assert_uint_lt(bytes[0], bytes[1]);
    results_free(r);
    dense_free(&x);
}
END_TEST

/* ---- slabs for devices ---- */

static int n_pinned;

static int pin(void *ctx, void *addr, size_t bytes, struct ts_err *err)
{
    ck_assert_ptr_eq(ctx, &n_pinned);
    ck_assert_ptr_nonnull(addr);
    ck_assert_uint_gt(bytes, 0);
    n_pinned++;
    (void)err;
    return 0;
}

static void unpin(void *ctx, void *addr)
{
    ck_assert_ptr_eq(ctx, &n_pinned);
    ck_assert_ptr_nonnull(addr);
    n_pinned--;
}

static void check_slab(const struct dense *x, const struct ts_slab_view *v)
{
    const uint64_t at = v->part.row * x->t->dense->inner + v->part.col;
    ck_assert_mem_eq(v->cells, x->value + at, v->part.rows * v->part.cols * sizeof(double));
}

/* All slabs in two passes, then in two those that no device keeps, then all again; each holds until
 * TS_SLABS_HOLD later ones were lent, also when the end of a pass is told of, behind which the
 * reader goes ahead. */
START_TEST(slabs_that_a_device_keeps_are_lent_until_it_has_them)
{
    const struct shape s = { 3, { 40, 20, 65 }, 4096 };
    unsigned char *keep;
    struct ts_feed_conf fc = { .only_mode = -1, .pin = pin, .unpin = unpin, .pin_ctx = &n_pinned };
    struct ts_feed *feed;
    struct ts_slabs *slabs;
    struct ts_err err;
    struct dense x;
    dense_new(&s, 0, 0, 1, &x);
    keep = calloc(x.t->dense->n_slabs, 1);
    for (uint64_t k = 0; k < x.t->dense->n_slabs; k++) /* none, the first ones, every third, all */
        keep[k] = _i % 4 == 1 ? k < 5 : _i % 4 == 2 ? k % 3 == 0 : _i % 4 == 3;
    fc.tensor = x.t;
    fc.host_bytes = _i < 4 ? UINT64_C(1) << 30 : 8 * (ts_dense_most_bytes(x.t->dense) + 8192);
    fc.deal.slab = keep;
    ck_assert_msg(ts_feed_new(&fc, &feed, &err) == 0, "%s", err.text);
    ck_assert_int_gt(n_pinned, 0);
    slabs = ts_feed_slabs(feed);
    for (int pass = 0; pass < 6; pass++) {
        const int left = pass == 2 || pass == 3;
        struct ts_slab_view view[TS_SLABS_HOLD];
        uint64_t n = 0;
        ts_slabs_rewind(slabs);
        for (uint64_t k = 0; k < x.t->dense->n_slabs; k++) {
            if (left && keep[k])
                continue;
            ck_assert_int_eq(ts_slabs_next(slabs, &view[n % TS_SLABS_HOLD], &err), 1);
            ck_assert_uint_eq(view[n++ % TS_SLABS_HOLD].number, k);
            for (uint64_t i = 0; i < n && i < TS_SLABS_HOLD; i++)
                check_slab(&x, &view[i]);
        }
        ck_assert_int_eq(ts_slabs_next(slabs, &(struct ts_slab_view){ 0 }, &err), 0);
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        for (uint64_t i = n < TS_SLABS_HOLD ? 0 : n - (TS_SLABS_HOLD - 1); i < n; i++)
            check_slab(&x, &view[i % TS_SLABS_HOLD]);
        if (pass % 2 == 1)
            ts_slabs_leave(slabs, pass == 1);
    }
    ts_feed_free(feed);
    ck_assert_int_eq(n_pinned, 0);
    free(keep);
    dense_free(&x);
}
END_TEST

/* ---- the scan ---- */

static int scan(struct dense *x, uint32_t threads, uint64_t budget, struct ts_err *err)
{
    struct ts_feed_conf fc = { .tensor = x->t, .host_bytes = budget, .only_mode = -1 };
    struct ts_feed *feed;
    int rc;
    ck_assert_msg(ts_feed_new(&fc, &feed, err) == 0, "%s", err->text);
    x->t->dense->scanned = 0;
    rc = ts_dense_scan(x->t, feed, threads, err);
    ts_feed_free(feed);
    return rc;
}

START_TEST(a_scan_finds_norm_range_and_hash)
{
    const struct shape s = { 3, { 61, 43, 70 }, 65536 };
    struct dense x;
    struct ts_err err;
    long double sum = 0;
    double least = 1, most = -1, norm;
    uint64_t hash;
    dense_new(&s, 0, _i, 1, &x);
    for (uint64_t i = 0; i < x.cells; i++) {
        sum += (long double)x.value[i] * x.value[i];
        least = x.value[i] < least ? x.value[i] : least;
        most = x.value[i] > most ? x.value[i] : most;
    }
    ck_assert_msg(scan(&x, 1, UINT64_C(1) << 30, &err) == 0, "%s", err.text);
    norm = x.t->header.norm;
    hash = x.t->hash;
    ck_assert_double_eq_tol(norm, (double)sqrtl(sum), 1e-13 * norm);
    ck_assert_double_eq(x.t->header.value_min, least);
    ck_assert_double_eq(x.t->header.value_max, most);
    ck_assert_int_eq(scan(&x, 3, 1 << 20, &err), 0);
    ck_assert_double_eq(x.t->header.norm, norm);
    ck_assert_uint_eq(x.t->hash, hash);
    dense_free(&x);
}
END_TEST

START_TEST(a_cell_that_is_not_finite_is_named)
{
    const struct shape s = { 3, { 61, 43, 70 }, 65536 };
    const double bad[2] = { NAN, INFINITY };
    struct dense x;
    struct ts_err err;
    FILE *f;
    dense_new(&s, 0, 0, 1, &x);
    f = fopen(file, "r+b");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(fseek(f, 100 + 8 * ((50 * 43 + 7) * 70 + 11 + i), SEEK_SET), 0);
        ck_assert_uint_eq(fwrite(&bad[(i + _i) % 2], 8, 1, f), 1);
    }
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(scan(&x, 2, UINT64_C(1) << 30, &err), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, _i == 0 ? "cell [50, 7, 12] (counted from 0) is infinite"
                                           : "cell [50, 7, 11] (counted from 0) is infinite"),
                  "%s", err.text);
    dense_free(&x);
}
END_TEST

/* NaN: left out of the norm, counted, and refused by name where nobody asked for unknown cells. */
START_TEST(unknown_cells_are_counted)
{
    const struct shape s = { 3, { 61, 43, 70 }, 65536 };
    const uint64_t at = (50 * 43 + 7) * 70 + 11;
    const double bad = NAN;
    struct dense x;
    struct ts_err err;
    double norm;
    FILE *f;
    dense_new(&s, 0, 0, 1, &x);
    ck_assert_int_eq(scan(&x, 1, UINT64_C(1) << 30, &err), 0);
    norm = x.t->header.norm;
    ck_assert_int_eq(ts_dense_check_known(x.t->dense, &err), 0);
    f = fopen(file, "r+b");
    ck_assert_ptr_nonnull(f);
    for (uint64_t i = 0; i < 3; i++) {
        ck_assert_int_eq(fseek(f, (long)(100 + 8 * (at + 1000 * i)), SEEK_SET), 0);
        ck_assert_uint_eq(fwrite(&bad, 8, 1, f), 1);
        norm = sqrt(norm * norm - x.value[at + 1000 * i] * x.value[at + 1000 * i]);
    }
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(scan(&x, 1 + (uint32_t)_i, UINT64_C(1) << 30, &err), 0);
    ck_assert_uint_eq(x.t->dense->n_unknown, 3);
    ck_assert_uint_eq(x.t->dense->first_unknown, at);
    ck_assert_double_eq_tol(x.t->header.norm, norm, 1e-12 * norm);
    ck_assert_int_eq(ts_dense_check_known(x.t->dense, &err), TS_EARG);
    ck_assert_msg(strstr(err.text, "cell [50, 7, 11] (counted from 0) is NaN, the first of 3"),
                  "%s", err.text);
    dense_free(&x);
}
END_TEST

/* The file is shorter than it was when it was opened. */
/* A checksum says nothing of who made it. */
START_TEST(an_index_says_what_cells_can_have)
{
    const struct shape s = { 3, { 3, 4, 5 }, 65536 };
    struct dense x;
    struct ts_dense *d;
    struct ts_err err;
    char *path;
    dense_new(&s, 0, 0, 1, &x);
    d = x.t->dense;
    ck_assert_msg(ts_array_index_new(d, &err) == 0, "%s", err.text);
    ck_assert_msg(ts_dense_scan_sums(x.t, 1, NULL, &err) == 0, "%s", err.text);
    x.t->header.norm = _i == 1 ? NAN : _i == 2 ? -1 : x.t->header.norm;
    x.t->header.value_min = _i == 3 ? INFINITY : _i == 4 ? 2 : -1;
    x.t->header.value_max = 1;
    d->n_unknown = _i == 5 ? x.cells : _i == 6;
    d->first_unknown = _i == 6 ? x.cells : 0;
    ck_assert_msg(ts_array_index_write(d, &err) == 0, "%s", err.text);
    path = ts_array_index_path(d);
    ck_assert_int_eq(ts_array_index_read(d, &err), _i == 0 ? 0 : TS_EFORMAT);
    ck_assert_msg(_i == 0 || strstr(err.text, "what no cells have") != NULL, "%s", err.text);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
    dense_free(&x);
}
END_TEST

START_TEST(a_file_that_shrinks_is_refused)
{
    const struct shape s = { 3, { 61, 43, 70 }, 65536 };
    struct dense x;
    struct ts_err err;
    dense_new(&s, 0, 0, 1, &x);
    ck_assert_int_eq(truncate(file, 61 * 43 * 70 * 8 - 100), 0);
    ck_assert_int_eq(scan(&x, 2, 1 << 20, &err), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, "the file ends at byte") != NULL, "%s", err.text);
    dense_free(&x);
}
END_TEST

/* What a run looks for when its numbers are no longer finite. */
START_TEST(a_file_that_is_written_to_is_named)
{
    static const double cell[6] = { 1, 2, 3, 4, 5, 6 };
    const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    struct ts_tensor *t = NULL;
    struct ts_err err;
    char name[4200];
    FILE *f = fopen(file, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(cell, sizeof *cell, 6, f), 6);
    fclose(f);
    snprintf(name, sizeof name, "%s:f8:2x3", file);
    ck_assert_msg(ts_dense_raw(name, &t, &err) == 0, "%s", err.text);
    ck_assert_int_eq(ts_tensor_check_values(t, NULL, &err), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, file, times, 0), 0);
    ck_assert_int_eq(ts_tensor_check_values(t, NULL, &err), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, "was written to while it was read") != NULL, "%s", err.text);
    ck_assert_int_eq(unlink(file), 0); /* what was opened is there still, and is the one meant */
    ck_assert_int_eq(ts_tensor_check_values(t, NULL, &err), TS_EFORMAT);
    ts_tensor_close(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dense");
    TCase *c = tcase_create("dense");
    tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, make_folder, remove_folder);
    tcase_add_loop_test(c, wrong_headers_are_refused, 0, (int)(sizeof wrong / sizeof wrong[0]));
    tcase_add_loop_test(c, wrong_heads_are_refused, 0, 5);
    tcase_add_loop_test(c, headers_of_all_formats_are_read, 1, 4);
    tcase_add_loop_test(c, cells_of_all_types_are_numbers, 0, TS_N_CELLS);
    tcase_add_loop_test(c, products_equal_the_loop, 0, N_SHAPES);
    tcase_add_loop_test(c, high_ranks_equal_the_loop, 0, 4);
    tcase_add_loop_test(c, few_columns_equal_the_loop, 0, 3);
    tcase_add_loop_test(c, products_of_what_is_learnt_equal_the_loop, 0, N_SHAPES);
    tcase_add_test(c, rows_do_not_know_what_was_held_out_before);
    tcase_add_test(c, a_sweep_takes_two_passes);
    tcase_add_loop_test(c, slabs_that_a_device_keeps_are_lent_until_it_has_them, 0, 8);
    tcase_add_loop_test(c, a_scan_finds_norm_range_and_hash, 0, 2);
    tcase_add_loop_test(c, a_cell_that_is_not_finite_is_named, 0, 2);
    tcase_add_loop_test(c, unknown_cells_are_counted, 0, 2);
    tcase_add_loop_test(c, an_index_says_what_cells_can_have, 0, 7);
    tcase_add_test(c, a_file_that_shrinks_is_refused);
    tcase_add_test(c, a_file_that_is_written_to_is_named);
    suite_add_tcase(s, c);
    return test_run_suite(s, CK_NOFORK);
}
