/* SPDX-License-Identifier: BSD-3-Clause */
/* The dense kernels equal plain float64 loops, at every rank and number of rows, and their bits do
 * not depend on how the work is divided. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "base/rng.h"
#include "gpu/rows/dense_kernel.h"
#include "tests/gpu/on_gpu.h"
#include "tests/support/run_suite.h"

static const uint32_t ranks[] = { 1, 7, 16, 20, 32, 50, 64, 130, 257, 1024, 1500, 2000, 2048 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])
static const uint64_t counts[] = { 1, 127, 128, 129, 1000, 100003 };
#define N_COUNTS (int)(sizeof counts / sizeof counts[0])

/* n rows x ld of the precision, random in [-1, 1) in columns below `rank`, as float64 and as given
 * to the kernels. */
struct matrix {
    uint64_t n;
    uint32_t rank, ld, element;
    enum ts_precision precision;
    double *at;
    void *raw;
};

static struct matrix make(uint64_t seed, uint64_t n, uint32_t rank, enum ts_precision precision)
{
    struct matrix m = {
        .n = n,
        .rank = rank,
        .ld = (rank + 3) / 4 * 4,
        .element = precision == TS_FLOAT32 ? 4 : 8,
        .precision = precision,
    };
    m.at = calloc(n * m.ld + 1, sizeof *m.at);
    m.raw = calloc(n * m.ld + 1, m.element);
    ck_assert_ptr_nonnull(m.at);
    ck_assert_ptr_nonnull(m.raw);
    for (uint64_t i = 0; i < n * m.ld; i++) {
        if (i % m.ld >= rank)
            continue;
        m.at[i] = (float)(2 * ts_unit(ts_mix(ts_mix(seed) + i)) - 1);
        if (precision == TS_FLOAT32)
            ((float *)m.raw)[i] = (float)m.at[i];
        else
            ((double *)m.raw)[i] = m.at[i];
    }
    return m;
}

static void unmake(struct matrix *m)
{
    free(m->at);
    free(m->raw);
}

static size_t bytes_of(const struct matrix *m)
{
    return m->n * m->ld * m->element;
}

static double element_of(const struct matrix *m, const void *raw, uint64_t i)
{
    return m->precision == TS_FLOAT32 ? (double)((const float *)raw)[i] : ((const double *)raw)[i];
}

/* The case of loop test i: precision, rank and number of rows; large matrices are left out where
 * the plain loop, or the memory of the host, would not do. */
static int pick(int i, uint32_t *rank, uint64_t *n, enum ts_precision *precision)
{
    *precision = i % 2 ? TS_FLOAT64 : TS_FLOAT32;
    *rank = ranks[i / 2 % N_RANKS];
    *n = counts[i / 2 / N_RANKS];
    return *n * *rank <= 14000000;
}
#define N_CASES (2 * N_RANKS * N_COUNTS)

/* Some of n, spread over them: all when they are few. */
static uint64_t stride_of(uint64_t n, uint64_t most)
{
    return n <= most ? 1 : n / most;
}

/* Row i of the product is the float64 sum rounded once; the float64 roundings of sums of `rank`
 * terms are bounded by the sum of their absolute values. */
static void check_row(const struct matrix *a, const struct matrix *w, const void *got, uint64_t i,
                      double inner)
{
    const double eps = a->precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    double want_inner = 0, size_inner = 0;
    for (uint32_t c = 0; c < a->ld; c++) {
        const double x = element_of(a, got, i * a->ld + c), before = a->at[i * a->ld + c];
        double want = 0, size = 0;
        for (uint32_t k = 0; k < a->rank; k++) {
            const double term = a->at[i * a->ld + k] * w->at[(uint64_t)k * a->ld + c];
            want += term;
            size += fabs(term);
        }
        ck_assert_msg(fabs(x - want) <= eps * fabs(want) + (a->rank + 2) * DBL_EPSILON * size,
                      "row %llu of %llu, column %u of %u: %.17g, expected %.17g",
                      (unsigned long long)i, (unsigned long long)a->n, c, a->ld, x, want);
        want_inner += before * x;
        size_inner += fabs(before * x);
    }
    ck_assert_msg(fabs(inner - want_inner) <= (a->ld + 2) * DBL_EPSILON * size_inner,
                  "row %llu: before .* after is %.17g, expected %.17g", (unsigned long long)i,
                  inner, want_inner);
}

START_TEST(solve_equals_loop)
{
    uint32_t rank;
    uint64_t n;
    enum ts_precision precision;
    struct matrix a, w;
    void *dev_a, *dev_w, *again, *got;
    double *dev_inner, *inner;
    if (!pick(_i, &rank, &n, &precision))
        return;
    a = make(1, n, rank, precision);
    w = make(2, rank, rank, TS_FLOAT64);
    /* the kernels read ld rows of w */
    w.raw = realloc(w.raw, (size_t)w.ld * w.ld * w.element);
    ck_assert_ptr_nonnull(w.raw);
    memset((char *)w.raw + bytes_of(&w), 0, (size_t)(w.ld - rank) * w.ld * w.element);
    dev_w = to_device(w.raw, (size_t)w.ld * w.ld * w.element);
    dev_a = to_device(a.raw, bytes_of(&a));
    dev_inner = nan_on_device(8 * n);
    CUDA(ts_dense_solve_rows(precision, dev_a, NULL, n, a.ld, dev_w, dev_inner, NULL));
    got = from_device(dev_a, bytes_of(&a));
    inner = from_device(dev_inner, 8 * n);
    for (uint64_t i = 0; i < n; i += stride_of(n, 1 + 20000000 / ((uint64_t)a.ld * a.ld)))
        check_row(&a, &w, got, i, inner[i]);
    check_row(&a, &w, got, n - 1, inner[n - 1]);

    again = to_device(a.raw, bytes_of(&a)); /* without the sums: the same */
    CUDA(ts_dense_solve_rows(precision, again, NULL, n, a.ld, dev_w, NULL, NULL));
    ck_assert(same_on_device(again, dev_a, bytes_of(&a)));
    free(got);
    free(inner);
    cudaFree(dev_a);
    cudaFree(dev_w);
    cudaFree(again);
    cudaFree(dev_inner);
    unmake(&a);
    unmake(&w);
}
END_TEST

/* Pieces that end at random places, every other one by a list that runs through it out of order. */
START_TEST(solve_in_pieces_has_same_bits)
{
    uint32_t rank, *list;
    uint64_t n;
    enum ts_precision precision;
    struct matrix a, w;
    char *whole, *pieces;
    void *dev_w;
    double *inner_whole, *inner_pieces;
    if (!pick(_i, &rank, &n, &precision))
        return;
    a = make(3, n, rank, precision);
    w = make(4, (rank + 3) / 4 * 4, rank, TS_FLOAT64);
    whole = to_device(a.raw, bytes_of(&a));
    pieces = to_device(a.raw, bytes_of(&a));
    dev_w = to_device(w.raw, bytes_of(&w));
    inner_whole = nan_on_device(8 * n);
    inner_pieces = nan_on_device(8 * n);
    list = calloc(n, sizeof *list);
    ck_assert_ptr_nonnull(list);
    CUDA(ts_dense_solve_rows(precision, whole, NULL, n, a.ld, dev_w, inner_whole, NULL));
    for (uint64_t first = 0, end, piece = 0; first < n; first = end, piece++) {
        const uint64_t at_most = piece % 3 == 2 ? n : 300;
        end = first + 1 + ts_mix(_i + 5 * piece) % at_most;
        end = end < n ? end : n;
        if (piece % 2 == 0) {
            CUDA(ts_dense_solve_rows(precision, pieces + first * a.ld * a.element, NULL,
                                     end - first, a.ld, dev_w, inner_pieces + first, NULL));
            continue;
        }
        for (uint64_t i = first; i < end; i++) {
            const uint64_t j = first + ts_mix(i) % (i - first + 1); /* shuffles as it goes */
            list[i] = list[j];
            list[j] = (uint32_t)i;
        }
        uint32_t *dev_list = to_device(list + first, (end - first) * sizeof *list);
        CUDA(ts_dense_solve_rows(precision, pieces, dev_list, end - first, a.ld, dev_w,
                                 inner_pieces, NULL));
        cudaFree(dev_list);
    }
    ck_assert(same_on_device(whole, pieces, bytes_of(&a)));
    ck_assert(same_on_device(inner_whole, inner_pieces, 8 * n));
    free(list);
    cudaFree(whole);
    cudaFree(pieces);
    cudaFree(dev_w);
    cudaFree(inner_whole);
    cudaFree(inner_pieces);
    unmake(&a);
    unmake(&w);
}
END_TEST

START_TEST(solve_leaves_rows_out_of_the_list_alone)
{
    const uint32_t rank = ranks[_i / 2], list[] = { 77, 0, 199, 3, 78 };
    const enum ts_precision precision = _i % 2 ? TS_FLOAT64 : TS_FLOAT32;
    struct matrix a = make(5, 200, rank, precision),
                  w = make(6, (rank + 3) / 4 * 4, rank, TS_FLOAT64);
    void *dev_a = to_device(a.raw, bytes_of(&a)), *dev_w = to_device(w.raw, bytes_of(&w));
    uint32_t *dev_list = to_device(list, sizeof list);
    double *dev_inner = nan_on_device(8 * a.n), *inner;
    char *got;
    CUDA(ts_dense_solve_rows(precision, dev_a, dev_list, 0, a.ld, dev_w, dev_inner, NULL));
    CUDA(ts_dense_solve_rows(precision, dev_a, dev_list, 5, a.ld, dev_w, dev_inner, NULL));
    got = from_device(dev_a, bytes_of(&a));
    inner = from_device(dev_inner, 8 * a.n);
    for (uint64_t i = 0; i < a.n; i++) {
        const size_t row = (size_t)a.ld * a.element;
        int listed = 0;
        for (int k = 0; k < 5; k++)
            listed |= list[k] == i;
        if (listed) {
            check_row(&a, &w, got, i, inner[i]);
            continue;
        }
        ck_assert(memcmp(got + i * row, (char *)a.raw + i * row, row) == 0);
        ck_assert(isnan(inner[i]));
    }
    free(got);
    free(inner);
    cudaFree(dev_a);
    cudaFree(dev_w);
    cudaFree(dev_list);
    cudaFree(dev_inner);
    unmake(&a);
    unmake(&w);
}
END_TEST

static const uint64_t sums[] = { 0, 1, 31, 255, 256, 257, 135168, 135169, 1000003 };

START_TEST(sum_equals_loop)
{
    const uint64_t n = sums[_i];
    struct matrix x = make(7, n + 1, 4, TS_FLOAT64);
    double *dev_x = to_device(x.raw, 8 * n), *got, *again, want = 0, size = 0;
    double *scratch = nan_on_device(8 * TS_DENSE_SUM_SCRATCH), *dev_sum = nan_on_device(16);
    for (uint64_t i = 0; i < n; i++) {
        want += x.at[i];
        size += fabs(x.at[i]);
    }
    CUDA(ts_dense_sum(dev_x, n, scratch, dev_sum, NULL));
    got = from_device(dev_sum, 8);
    ck_assert_msg(fabs(*got - want) <= sqrt((double)n) * DBL_EPSILON * size,
                  "%llu terms: %.17g, expected %.17g", (unsigned long long)n, *got, want);
    CUDA(ts_dense_sum(dev_x, n, scratch, dev_sum + 1, NULL));
    again = from_device(dev_sum + 1, 8);
    ck_assert(memcmp(got, again, 8) == 0);
    free(got);
    free(again);
    cudaFree(dev_x);
    cudaFree(scratch);
    cudaFree(dev_sum);
    unmake(&x);
}
END_TEST

/* Sums of n terms carry at most n roundings; they cancel to about the root of it, but not in a loop
 * over terms of one sign, whose sum is therefore taken in more digits. */
static void check_gram_at(const struct matrix *a, const double *gram, uint64_t i, uint64_t j)
{
    long double want = 0;
    double size = 0;
    for (uint64_t row = 0; row < a->n; row++) {
        const double term = a->at[row * a->ld + i] * a->at[row * a->ld + j];
        want += term;
        size += fabs(term);
    }
    ck_assert_msg(
        fabs(gram[i * a->ld + j] - (double)want) <= (2 + sqrt((double)a->n)) * DBL_EPSILON * size,
        "(%llu, %llu) of %u, %llu rows: %.17g, expected %.17g", (unsigned long long)i,
        (unsigned long long)j, a->ld, (unsigned long long)a->n, gram[i * a->ld + j], (double)want);
}

static void check_gram(const struct matrix *a, const double *gram)
{
    const uint64_t elements = (uint64_t)a->ld * a->ld;
    for (uint64_t at = 0; at < elements; at += stride_of(elements, 1 + 20000000 / a->n))
        check_gram_at(a, gram, at / a->ld, at % a->ld);
    check_gram_at(a, gram, a->rank - 1, a->rank - 1);
    for (uint64_t i = 0; i < a->ld; i++)
        for (uint64_t j = 0; j < i; j++)
            if (gram[i * a->ld + j] != gram[j * a->ld + i])
                ck_abort_msg("(%llu, %llu) is not symmetric", (unsigned long long)i,
                             (unsigned long long)j);
}

START_TEST(gram_equals_loop_in_any_parts)
{
    uint32_t rank, parts;
    uint64_t n, square;
    enum ts_precision precision;
    struct matrix a;
    void *dev_a;
    double *scratch, *whole, *divided, *got;
    if (!pick(_i, &rank, &n, &precision))
        return;
    a = make(8, n, rank, precision);
    square = (uint64_t)a.ld * a.ld;
    parts = ts_dense_gram_parts(a.ld, n);
    ck_assert_uint_le(parts * ts_dense_part_elements(a.ld), ts_dense_scratch(a.ld));
    dev_a = to_device(a.raw, bytes_of(&a));
    scratch = nan_on_device(8 * ts_dense_scratch(a.ld));
    whole = nan_on_device(8 * square);
    divided = nan_on_device(8 * square);
    CUDA(ts_dense_gram(precision, dev_a, n, a.ld, scratch, whole, NULL));
    got = from_device(whole, 8 * square);
    check_gram(&a, got);
    for (uint32_t k = 1; k <= 8; k *= 2) {
        CUDA(cudaMemset(scratch, 0xff, 8 * ts_dense_scratch(a.ld)));
        CUDA(cudaMemset(divided, 0xff, 8 * square));
        for (uint32_t d = k; d-- > 0;) {
            const uint32_t first = d * parts / k, end = (d + 1) * parts / k;
            CUDA(ts_dense_gram_part(precision, dev_a, n, a.ld, first, end - first, scratch, NULL));
        }
        CUDA(ts_dense_gram_finish(n, a.ld, scratch, divided, NULL));
        ck_assert(same_on_device(whole, divided, 8 * square));
    }
    free(got);
    cudaFree(dev_a);
    cudaFree(scratch);
    cudaFree(whole);
    cudaFree(divided);
    unmake(&a);
}
END_TEST

/* Rows before in float64, after in float32; padding of w as above. */
START_TEST(products_are_solved_for_like_rows)
{
    const uint64_t n = 1000;
    const uint32_t rank = ranks[_i], ld = (rank + 3) / 4 * 4, list[] = { 3, 999, 0 };
    struct matrix m = make(21, n, rank, TS_FLOAT64), w = make(22, ld, rank, TS_FLOAT64), a = m;
    double *dev_m = to_device(m.raw, bytes_of(&m)), *dev_w, *dev_inner = nan_on_device(8 * n),
           *inner;
    uint32_t *dev_list = to_device(list, sizeof list);
    void *dev_a, *got, *listed;
    memset((double *)w.raw + (size_t)rank * ld, 0, 8 * (size_t)(ld - rank) * ld);
    dev_w = to_device(w.raw, bytes_of(&w));
    a.precision = TS_FLOAT32;
    a.element = 4;
    dev_a = nan_on_device(bytes_of(&a));
    CUDA(ts_dense_solve_products(dev_m, dev_a, NULL, n, ld, dev_w, dev_inner, NULL));
    got = from_device(dev_a, bytes_of(&a));
    inner = from_device(dev_inner, 8 * n);
    for (uint64_t i = 0; i < n; i++)
        check_row(&a, &w, got, i, inner[i]);
    cudaFree(dev_a);
    dev_a = nan_on_device(bytes_of(&a));
    CUDA(ts_dense_solve_products(dev_m, dev_a, dev_list, 3, ld, dev_w, dev_inner, NULL));
    listed = from_device(dev_a, bytes_of(&a));
    for (uint64_t i = 0; i < n; i++) {
        const int named = i == 3 || i == 999 || i == 0;
        for (uint32_t c = 0; c < rank; c++) {
            const float x = ((float *)listed)[i * ld + c];
            ck_assert(named ? x == ((float *)got)[i * ld + c] : isnan(x));
        }
    }
    free(got);
    free(listed);
    free(inner);
    cudaFree(dev_m);
    cudaFree(dev_a);
    cudaFree(dev_w);
    cudaFree(dev_inner);
    cudaFree(dev_list);
    unmake(&m);
    unmake(&w);
}
END_TEST

START_TEST(rows_and_scale_equal_loops)
{
    uint32_t rank;
    uint64_t n;
    enum ts_precision precision;
    struct matrix a, s;
    double *rows, *dev_rows, *back;
    void *dev_a, *dev_s, *got;
    if (!pick(_i, &rank, &n, &precision))
        return;
    a = make(9, n, rank, precision);
    s = make(10, 1, rank, TS_FLOAT64);
    rows = malloc(8 * n * rank);
    ck_assert_ptr_nonnull(rows);
    for (uint64_t i = 0; i < n * rank; i++)
        rows[i] = a.at[i / rank * a.ld + i % rank];
    dev_rows = to_device(rows, 8 * n * rank);
    dev_a = nan_on_device(bytes_of(&a));
    dev_s = to_device(s.raw, bytes_of(&s));
    CUDA(ts_dense_put(precision, dev_a, n, a.ld, rank, dev_rows, NULL));
    got = from_device(dev_a, bytes_of(&a));
    ck_assert(memcmp(got, a.raw, bytes_of(&a)) == 0);
    CUDA(cudaMemset(dev_rows, 0xff, 8 * n * rank));
    CUDA(ts_dense_get(precision, dev_a, n, a.ld, rank, dev_rows, NULL));
    back = from_device(dev_rows, 8 * n * rank);
    ck_assert(memcmp(back, rows, 8 * n * rank) == 0);
    CUDA(ts_dense_scale(precision, dev_a, n, a.ld, dev_s, NULL));
    free(got);
    got = from_device(dev_a, bytes_of(&a));
    for (uint64_t i = 0; i < n * a.ld; i++) {
        const double want = a.at[i] * s.at[i % a.ld];
        if (element_of(&a, got, i) != (precision == TS_FLOAT32 ? (float)want : want))
            ck_abort_msg("element %llu is not scaled", (unsigned long long)i);
    }
    free(got);
    free(rows);
    free(back);
    cudaFree(dev_rows);
    cudaFree(dev_a);
    cudaFree(dev_s);
    unmake(&a);
    unmake(&s);
}
END_TEST

START_TEST(host_memory_is_fetched)
{
    static const uint64_t sizes[] = { 0, 16, 4096, 4112, 1 << 20, (UINT64_C(9) << 20) + 48 };
    const uint64_t n = sizes[_i];
    unsigned char *from, *to, *got;
    CUDA(cudaHostAlloc((void **)&from, n + 16, cudaHostAllocDefault));
    for (uint64_t i = 0; i < n + 16; i++)
        from[i] = (unsigned char)ts_mix(i);
    CUDA(cudaMalloc((void **)&to, n + 16));
    CUDA(cudaMemset(to, 7, n + 16));
    CUDA(ts_dense_copy(to, from, n, NULL));
    got = from_device(to, n + 16);
    ck_assert(memcmp(got, from, n) == 0);
    for (uint64_t i = n; i < n + 16; i++)
        ck_assert_uint_eq(got[i], 7);
    free(got);
    cudaFree(to);
    cudaFreeHost(from);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_dense");
    if (!have_gpu())
        return 77;
    test_add(suite, "solve", solve_equals_loop, N_CASES);
    test_add(suite, "pieces", solve_in_pieces_has_same_bits, N_CASES);
    test_add(suite, "products", products_are_solved_for_like_rows, N_RANKS);
    test_add(suite, "list", solve_leaves_rows_out_of_the_list_alone, 2 * N_RANKS);
    test_add(suite, "sum", sum_equals_loop, (int)(sizeof sums / sizeof sums[0]));
    test_add(suite, "gram", gram_equals_loop_in_any_parts, N_CASES);
    test_add(suite, "rows", rows_and_scale_equal_loops, N_CASES);
    test_add(suite, "fetch", host_memory_is_fetched, 6);
    return test_run_suite(suite, CK_NOFORK);
}
