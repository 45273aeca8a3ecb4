/* SPDX-License-Identifier: BSD-3-Clause */
/* Evaluates models at cells: multiplies rows, four columns at a time, and prefetches the rows of
 * later cells. */
#include "model/predict.h"

#include <string.h>

#define LANES 4u  /* running sums of a cell, each of every fourth term, so that additions overlap */
#define WIDE  4u  /* vectors of LANES columns that are multiplied at the same time */
#define BATCH 64u /* number of cells whose rows are found before their values are computed */
#define AHEAD 16u /* rows are prefetched this many cells before they are multiplied */
#define LINE  64u

typedef double vec __attribute__((vector_size(LANES * sizeof(double))));
typedef double vec_f64 __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));
typedef float vec_f32 __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* The rows of the factors for a cell. The first one NULL: the model lacks a row, so the value is
 * 0. */
struct cell {
    const char *row[TS_MAX_ORDER];
};

static inline size_t number_bytes(const struct ts_kruskal *k)
{
    return k->precision == TS_FLOAT32 ? sizeof(float) : sizeof(double);
}

static void find_rows(const struct ts_kruskal *k, const uint64_t *index, struct cell *ret)
{
    for (uint32_t m = 0; m < k->order; m++) {
        const uint64_t row = ts_kruskal_find(k, m, index[m]);
        if (row == k->n_rows[m] || (k->index[m] != NULL && k->index[m][row] != index[m])) {
            ret->row[0] = NULL;
            return;
        }
        ret->row[m] = (const char *)k->factor[m] + row * k->rank * number_bytes(k);
    }
}

static inline void ask_for(const struct ts_kruskal *k, const struct cell *c)
{
    const size_t bytes = k->rank * number_bytes(k);
    for (uint32_t m = 0; m < k->order && c->row[0] != NULL; m++)
        for (size_t i = 0; i < bytes; i += LINE)
            __builtin_prefetch(c->row[m] + i);
}

/* ret := LANES columns of a row, from `column` on. */
static inline __attribute__((always_inline)) void load(const char *row, uint32_t column, int single,
                                                       vec *ret)
{
    if (single)
        *ret = __builtin_convertvector(*(const vec_f32 *)(row + column * sizeof(float)), vec);
    else
        *ret = *(const vec_f64 *)(row + column * sizeof(double));
}

/* lane += the terms of n x LANES columns of a cell's rows, from `column` on; n is a constant. */
static inline __attribute__((always_inline)) void add_terms(const struct ts_kruskal *k,
                                                            const struct cell *c, uint32_t column,
                                                            uint32_t n, int single, vec *lane)
{
    vec term[WIDE], x;
    for (uint32_t v = 0; v < n; v++)
        term[v] = *(const vec_f64 *)(k->weight + column + v * LANES);
    for (uint32_t m = 0; m < k->order; m++)
        for (uint32_t v = 0; v < n; v++) {
            load(c->row[m], column + v * LANES, single, &x);
            term[v] *= x;
        }
    for (uint32_t v = 0; v < n; v++)
        *lane += term[v];
}

/* Adds the terms of the last columns of a cell's rows, of which fewer than LANES are left. */
static void add_last(const struct ts_kruskal *k, const struct cell *c, uint32_t column, int single,
                     vec *lane)
{
    double term[LANES] = { 0 };
    vec x;
    for (uint32_t r = 0; r < k->rank - column; r++) {
        term[r] = k->weight[column + r];
        for (uint32_t m = 0; m < k->order; m++)
            term[r] *= single ? (double)((const float *)c->row[m])[column + r]
                              : ((const double *)c->row[m])[column + r];
    }
    memcpy(&x, term, sizeof x);
    *lane += x;
}

static inline __attribute__((always_inline)) double sum_cell(const struct ts_kruskal *k,
                                                             const struct cell *c, int single)
{
    vec lane = { 0 };
    uint32_t column = 0;
    if (c->row[0] == NULL)
        return 0;
    for (; column + WIDE * LANES <= k->rank; column += WIDE * LANES)
        add_terms(k, c, column, WIDE, single, &lane);
    for (; column + LANES <= k->rank; column += LANES)
        add_terms(k, c, column, 1, single, &lane);
    if (column < k->rank)
        add_last(k, c, column, single, &lane);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

static inline __attribute__((always_inline)) void sum_cells(const struct ts_kruskal *k, uint32_t n,
                                                            const struct cell *c, double *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            ask_for(k, &c[i + AHEAD]);
        ret[i] = k->precision == TS_FLOAT32 ? sum_cell(k, &c[i], 1) : sum_cell(k, &c[i], 0);
    }
}

static void sum_cells_anywhere(const struct ts_kruskal *k, uint32_t n, const struct cell *c,
                               double *ret)
{
    sum_cells(k, n, c, ret);
}

#ifdef __x86_64__
/* compiled without fused multiply-adds, which would round differently */
static __attribute__((target("avx2"))) void sum_cells_avx2(const struct ts_kruskal *k, uint32_t n,
                                                           const struct cell *c, double *ret)
{
    sum_cells(k, n, c, ret);
}
#endif

void ts_predict(const struct ts_kruskal *k, uint64_t n, const uint64_t *index, double *ret)
{
    void (*sum)(const struct ts_kruskal *, uint32_t, const struct cell *, double *) =
        sum_cells_anywhere;
    struct cell cell[BATCH];
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        sum = sum_cells_avx2;
#endif
    for (uint64_t first = 0; first < n; first += BATCH) {
        const uint32_t some = n - first < BATCH ? (uint32_t)(n - first) : BATCH;
        for (uint32_t i = 0; i < some; i++)
            find_rows(k, index + (first + i) * k->order, &cell[i]);
        for (uint32_t i = 0; i < AHEAD && i < some; i++)
            ask_for(k, &cell[i]);
        sum(k, some, cell, ret + first);
    }
}

uint64_t ts_predict_beyond(const struct ts_kruskal *k, uint64_t n, const uint64_t *index,
                           uint32_t *mode)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t m = 0; m < k->order; m++)
            if (index[i * k->order + m] >= k->dim[m]) {
                *mode = m;
                return i;
            }
    return n;
}

static int is_zeros(const struct ts_kruskal *k, const char *row)
{
    for (uint32_t r = 0; r < k->rank; r++)
        if ((k->precision == TS_FLOAT32 ? (double)((const float *)row)[r]
                                        : ((const double *)row)[r]) != 0)
            return 0;
    return 1;
}

uint64_t ts_predict_unseen(const struct ts_kruskal *k, uint64_t n, const uint64_t *index,
                           const double *value)
{
    uint64_t ret = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct cell cell;
        int unseen;
        if (value[i] != 0)
            continue;
        find_rows(k, index + i * k->order, &cell);
        unseen = cell.row[0] == NULL;
        for (uint32_t m = 0; m < k->order && !unseen; m++)
            unseen = is_zeros(k, cell.row[m]);
        ret += (uint64_t)unseen;
    }
    return ret;
}
