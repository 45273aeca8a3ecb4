/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching is that of the obvious way: cosines of whole columns, every assignment tried; and it
 * does not depend on order, signs, norms of columns, threads, or which rows a file has. */
#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "model/match.h"
#include "tests/support/run_suite.h"

#define MODES 3u

struct model {
    uint32_t rank;
    uint64_t n_rows[MODES];
    double *weight, *a[MODES];
    uint64_t *index[MODES];
};

/* Entries in (-0.5, 1), weights in (-1, 2). */
static struct model model_random(uint64_t seed, uint32_t rank, const uint64_t *n_rows)
{
    struct model m = { .rank = rank, .weight = malloc(rank * sizeof(double)) };
    for (uint32_t r = 0; r < rank; r++)
        m.weight[r] = 3 * ts_unit(ts_mix(seed * 1000 + r)) - 1;
    for (uint32_t k = 0; k < MODES; k++) {
        m.n_rows[k] = n_rows[k];
        m.a[k] = malloc(n_rows[k] * rank * sizeof(double));
        for (uint64_t i = 0; i < n_rows[k] * rank; i++)
            m.a[k][i] = 1.5 * ts_unit(ts_mix((seed * 16 + k) * 1000003 + i)) - 0.5;
    }
    return m;
}

static void model_free(struct model *m)
{
    for (uint32_t k = 0; k < MODES; k++) {
        free(m->a[k]);
        free(m->index[k]);
    }
    free(m->weight);
}

static int get_rows(void *from, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                    struct ts_err *err)
{
    const struct model *m = from;
    (void)err;
    memcpy(rows, m->a[mode] + row * m->rank, n * m->rank * sizeof *rows);
    return 0;
}

static const uint64_t *get_index(void *from, uint32_t mode)
{
    const struct model *m = from;
    return m->index[mode];
}

static void stay_open(void *from)
{
    (void)from;
}

static struct ts_model *opened(struct model *m)
{
    const struct ts_model_memory in = { .order = MODES,
                                        .rank = m->rank,
                                        .n_rows = m->n_rows,
                                        .weight = m->weight,
                                        .get_rows = get_rows,
                                        .index = get_index,
                                        .close = stay_open,
                                        .from = m };
    struct ts_model *ret = NULL;
    struct ts_err err;
    ck_assert_int_eq(ts_model_open_memory(&in, &ret, &err), 0);
    return ret;
}

static int try_match(struct model *a, struct model *b, uint32_t threads, struct ts_match *ret,
                     struct ts_err *err)
{
    const struct ts_match_conf conf = { .a = opened(a), .b = opened(b), .threads = threads };
    const int rc = ts_match_run(&conf, ret, err);
    ts_model_close(conf.a);
    ts_model_close(conf.b);
    return rc;
}

static struct ts_match matched(struct model *a, struct model *b, uint32_t threads)
{
    struct ts_match ret;
    struct ts_err err = { 0 };
    ck_assert_msg(try_match(a, b, threads, &ret, &err) == 0, "%s", err.text);
    return ret;
}

static double score(const struct ts_match *m, enum ts_match_how how, int weights,
                    struct ts_match_pair *pair)
{
    double ret;
    struct ts_err err;
    ck_assert_int_eq(ts_match_assign(m, how, weights, pair, &ret, &err), 0);
    return ret;
}

/* ---- the obvious way ---- */

static double norm_of(const struct model *m, uint32_t mode, uint32_t r)
{
    long double sum = 0;
    for (uint64_t i = 0; i < m->n_rows[mode]; i++)
        sum += (long double)m->a[mode][i * m->rank + r] * m->a[mode][i * m->rank + r];
    return (double)sqrtl(sum);
}

static double twin_congruence(const struct model *a, uint32_t p, const struct model *b, uint32_t q)
{
    double all = 1;
    for (uint32_t k = 0; k < MODES; k++) {
        long double sum = 0;
        for (uint64_t i = 0; i < a->n_rows[k]; i++)
            sum += (long double)a->a[k][i * a->rank + p] * b->a[k][i * b->rank + q];
        all *= fabs((double)sum / (norm_of(a, k, p) * norm_of(b, k, q)));
    }
    return all;
}

static double twin_weight(const struct model *m, uint32_t r)
{
    double w = fabs(m->weight[r]);
    for (uint32_t k = 0; k < MODES; k++)
        w *= norm_of(m, k, r);
    return w;
}

static double twin_score(const struct model *a, uint32_t p, const struct model *b, uint32_t q,
                         int weights)
{
    const double x = twin_weight(a, p), y = twin_weight(b, q);
    const double c = twin_congruence(a, p, b, q);
    return weights ? c * (1 - fabs(x - y) / fmax(x, y)) : c;
}

/* The best sum over all ways of giving rows first .. of `table` columns that are free. */
static double try_all(const double *table, uint32_t rows, uint32_t columns, uint32_t first,
                      unsigned taken)
{
    double best = first == rows ? 0 : -1;
    for (uint32_t j = 0; first < rows && j < columns; j++)
        if ((taken >> j & 1) == 0)
            best = fmax(best, table[first * columns + j] +
                                  try_all(table, rows, columns, first + 1, taken | 1u << j));
    return best;
}

static double greedy(const double *table, uint32_t rows, uint32_t columns)
{
    unsigned row_taken = 0, column_taken = 0;
    double sum = 0;
    for (uint32_t n = 0; n < rows; n++) {
        uint32_t at = UINT32_MAX;
        for (uint32_t i = 0; i < rows * columns; i++)
            if ((row_taken >> i / columns & 1) == 0 && (column_taken >> i % columns & 1) == 0 &&
                (at == UINT32_MAX || table[i] > table[at]))
                at = i;
        row_taken |= 1u << at / columns;
        column_taken |= 1u << at % columns;
        sum += table[at];
    }
    return sum;
}

static const uint64_t shape[MODES] = { 5, 9, 4 };

START_TEST(test_twin)
{
    static const uint32_t rank[][2] = { { 1, 1 }, { 3, 3 }, { 4, 6 }, { 7, 2 }, { 7, 7 } };
    struct model a = model_random(10 + _i, rank[_i][0], shape);
    struct model b = model_random(20 + _i, rank[_i][1], shape);
    struct ts_match m = matched(&a, &b, 1);
    struct ts_match_pair pair[7];
    for (int weights = 0; weights < 2; weights++) {
        double table[49];
        const uint32_t rows = a.rank < b.rank ? a.rank : b.rank,
                       columns = a.rank < b.rank ? b.rank : a.rank;
        for (uint32_t p = 0; p < a.rank; p++)
            for (uint32_t q = 0; q < b.rank; q++)
                table[a.rank < b.rank ? p * columns + q : q * columns + p] =
                    twin_score(&a, p, &b, q, weights);
        ck_assert_uint_eq(ts_match_pairs(&m), rows);
        ck_assert_double_eq_tol(score(&m, TS_MATCH_GREEDY, weights, pair),
                                greedy(table, rows, columns) / rows, 1e-14);
        ck_assert_double_eq_tol(score(&m, TS_MATCH_BEST, weights, pair),
                                try_all(table, rows, columns, 0, 0) / rows, 1e-14);
        for (uint32_t i = 0; i < rows; i++) {
            ck_assert_double_eq_tol(pair[i].score,
                                    twin_score(&a, pair[i].a, &b, pair[i].b, weights), 1e-14);
            ck_assert_double_eq_tol(pair[i].congruence,
                                    twin_congruence(&a, pair[i].a, &b, pair[i].b), 1e-14);
            ck_assert(i == 0 || pair[i].a > pair[i - 1].a);
        }
    }
    ts_match_free(&m);
    model_free(&a);
    model_free(&b);
}
END_TEST

/* A model whose columns are those of m in another order, with other norms and signs, and what that
 * takes out of them in the weights. */
static struct model disguised(const struct model *m, uint64_t seed)
{
    struct model d = model_random(1, m->rank, m->n_rows);
    for (uint32_t r = 0; r < m->rank; r++) {
        const uint32_t to = (r * 5 + 3) % m->rank; /* ranks of tests are no multiples of 5 */
        d.weight[to] = m->weight[r];
        for (uint32_t k = 0; k < MODES; k++) {
            const double by = ts_unit(ts_mix(seed + r * MODES + k)) - 0.5;
            d.weight[to] /= by;
            for (uint64_t i = 0; i < m->n_rows[k]; i++)
                d.a[k][i * m->rank + to] = m->a[k][i * m->rank + r] * by;
        }
    }
    return d;
}

START_TEST(test_same_model)
{
    const uint64_t large[MODES] = { 20011, 77, 3 }; /* several chunks of rows */
    struct model a = model_random(5, 13, large), b = disguised(&a, 17);
    struct ts_match m = matched(&a, &b, 1), more = matched(&a, &b, 3);
    struct ts_match_pair pair[13];
    for (int how = 0; how < 2; how++)
        for (int weights = 0; weights < 2; weights++) {
            ck_assert_double_eq_tol(score(&m, (enum ts_match_how)how, weights, pair), 1, 1e-12);
            for (uint32_t i = 0; i < 13; i++)
                ck_assert_uint_eq(pair[i].b, (pair[i].a * 5 + 3) % 13);
        }
    ck_assert_int_eq(memcmp(m.cosine, more.cosine, (MODES + 1) * 13 * 13 * sizeof(double)), 0);
    ts_match_free(&m);
    ts_match_free(&more);
    model_free(&a);
    model_free(&b);
}
END_TEST

/* A model scores 1 against itself, also with components of zeros, by weight or by columns. */
START_TEST(test_empty_components)
{
    static const uint64_t sizes[MODES] = { 11, 7, 5 };
    struct ts_match_pair pair[4];
    for (int empty = 0; empty < 3; empty++) {
        struct model a = model_random(9, 4, sizes);
        struct ts_match m;
        if (empty < 2)
            a.weight[1] = 0;
        for (uint64_t i = 0; i < sizes[1] && empty > 0; i++)
            a.a[1][i * 4 + 1] = 0;
        m = matched(&a, &a, 1);
        for (int how = 0; how < 2; how++)
            for (int weights = 0; weights < 2; weights++)
                ck_assert_double_eq_tol(score(&m, (enum ts_match_how)how, weights, pair), 1, 1e-12);
        ts_match_free(&m);
        model_free(&a);
    }
}
END_TEST

/* Columns that are zero go with nothing, unless weights and columns are; extreme norms are no
 * matter. */
START_TEST(test_extremes)
{
    struct model a = model_random(6, 3, shape), b = disguised(&a, 3);
    struct ts_match m;
    struct ts_match_pair pair[3];
    for (uint64_t i = 0; i < shape[1]; i++) {
        b.a[1][i * 3] *= 1e-280;
        b.a[1][i * 3 + 1] *= 1e280;
    }
    for (uint64_t i = 0; i < shape[2]; i++) {
        b.a[2][i * 3] *= 1e280;
        b.a[2][i * 3 + 1] *= 1e-280;
    }
    m = matched(&a, &b, 1);
    ck_assert_double_eq_tol(score(&m, TS_MATCH_GREEDY, 1, pair), 1, 1e-12);
    ts_match_free(&m);
    memset(b.a[0], 0, shape[0] * 3 * sizeof(double));
    m = matched(&a, &b, 1);
    ck_assert_double_eq(score(&m, TS_MATCH_BEST, 1, pair), 0);
    ck_assert_double_eq(score(&m, TS_MATCH_BEST, 0, pair), 0);
    ts_match_free(&m);
    model_free(&a);
    model_free(&b);
}
END_TEST

/* Columns may begin with entries that are far smaller than what follows, as those of counts do:
 * rows before `from` count for nothing. */
START_TEST(test_small_beginnings)
{
    const uint64_t large[MODES] = { 20011, 77, 3 }; /* several chunks of rows */
    const uint64_t from = _i == 0 ? 1 : _i == 1 ? 5 : 15000;
    struct model a = model_random(8, 13, large), b = model_random(9, 5, large);
    struct ts_match zero, m;
    struct ts_match_pair pair[5], same[5];
    memset(a.a[0], 0, from * 13 * sizeof(double));
    memset(b.a[0], 0, from * 5 * sizeof(double));
    zero = matched(&a, &b, 2);
    for (uint64_t i = 0; i < from * 13; i++)
        a.a[0][i] = i / 13 < from / 2 ? 1e-270 : i % 13 < 9 ? 1e-160 : 1e-20;
    for (uint64_t i = 0; i < from * 5; i++)
        b.a[0][i] = i % 5 < 3 ? -1e-230 : 0;
    m = matched(&a, &b, 2);
    ck_assert_double_eq_tol(score(&m, TS_MATCH_BEST, 1, pair), score(&zero, TS_MATCH_BEST, 1, same),
                            1e-12);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(pair[i].a, same[i].a);
    for (size_t i = 0; i < (MODES + 1) * 13 * 5; i++)
        ck_assert_double_eq_tol(m.cosine[i], zero.cosine[i], 1e-12);
    ts_match_free(&m);
    ts_match_free(&zero);
    model_free(&a);
    model_free(&b);
}
END_TEST

/* The rows of some indices alone, with the indices, or without them. */
static struct model compact(const struct model *m, uint32_t mode, const uint64_t *index, uint64_t n)
{
    struct model c = model_random(1, m->rank, m->n_rows);
    memcpy(c.weight, m->weight, m->rank * sizeof(double));
    for (uint32_t k = 0; k < MODES; k++)
        memcpy(c.a[k], m->a[k], m->n_rows[k] * m->rank * sizeof(double));
    c.n_rows[mode] = n;
    c.index[mode] = malloc(n * sizeof(uint64_t));
    for (uint64_t i = 0; i < n; i++) {
        c.index[mode][i] = index[i];
        memcpy(c.a[mode] + i * m->rank, m->a[mode] + index[i] * m->rank, m->rank * sizeof(double));
    }
    return c;
}

START_TEST(test_rows)
{
    static const uint64_t used[] = { 1, 2, 5, 6, 8 }, other[] = { 0, 2, 6, 7, 8 };
    struct model a = model_random(7, 4, shape), b, c;
    struct ts_match m;
    struct ts_match_pair pair[4];
    struct ts_err err;
    for (uint64_t i = 0; i < shape[1]; i++)
        if (i == 0 || i == 3 || i == 4 || i == 7)
            memset(a.a[1] + i * 4, 0, 4 * sizeof(double));
    b = compact(&a, 1, used, 5);
    m = matched(&a, &b, 1); /* rows that are left out are zero */
    ck_assert_double_eq_tol(score(&m, TS_MATCH_GREEDY, 1, pair), 1, 1e-13);
    ts_match_free(&m);
    c = compact(&a, 1, other, 5); /* both have indices, and they differ: as whole factors */
    m = matched(&b, &c, 1);
    for (uint64_t i = 0; i < shape[1]; i++)
        if (i == 1 || i == 5)
            memset(a.a[1] + i * 4, 0, 4 * sizeof(double));
    for (uint32_t p = 0; p < 4; p++)
        ck_assert_double_eq_tol(m.weight_b[p], twin_weight(&a, p), 1e-13);
    ts_match_free(&m);
    free(c.index[1]);
    c.index[1] = NULL; /* 5 rows, while b says that there are 9 indices: the same as b's */
    memcpy(c.a[1], b.a[1], 5 * 4 * sizeof(double));
    m = matched(&c, &b, 1);
    ck_assert_double_eq_tol(score(&m, TS_MATCH_GREEDY, 1, pair), 1, 1e-13);
    ts_match_free(&m);
    c.n_rows[1] = 4;
    ck_assert_int_eq(try_match(&b, &c, 1, &m, &err), TS_EARG);
    ck_assert_int_eq(try_match(&a, &c, 1, &m, &err), TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "9 rows"));
    model_free(&a);
    model_free(&b);
    model_free(&c);
}
END_TEST

/* Rank 1024 comes to an end, and the best way is no worse than the greedy one. */
START_TEST(test_large)
{
    const uint64_t tiny[MODES] = { 2, 3, 2 };
    struct model a = model_random(8, 1024, tiny), b = model_random(9, 1000, tiny);
    struct ts_match m = matched(&a, &b, 2);
    struct ts_match_pair *pair = malloc(1024 * sizeof *pair);
    const double most = score(&m, TS_MATCH_BEST, 1, pair);
    char seen[1024] = { 0 };
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_int_eq(seen[pair[i].b]++, 0);
    ck_assert_double_ge(most, score(&m, TS_MATCH_GREEDY, 1, pair) - 1e-12);
    free(pair);
    ts_match_free(&m);
    model_free(&a);
    model_free(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("match");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, test_twin, 0, 5);
    tcase_add_test(tc, test_same_model);
    tcase_add_test(tc, test_empty_components);
    tcase_add_test(tc, test_extremes);
    tcase_add_loop_test(tc, test_small_beginnings, 0, 3);
    tcase_add_test(tc, test_rows);
    tcase_add_test(tc, test_large);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
