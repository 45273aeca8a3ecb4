/* SPDX-License-Identifier: BSD-3-Clause */
/* Solves for rows of few nonzeros by a system with an unknown for each nonzero. */
#include "cpu/rows/short_rows.h"

#include <math.h>
#include <string.h>

/* A row is short only if the penalty is this many times the rounding error of a diagonal entry: no
 * pivot is less than the penalty. */
#define CLEAR_OF_ROUNDING 4.0

#define LINE 8u /* number of float64 in a cache line */

_Static_assert(TS_GRAM_SIDE == TS_ROWBLOCK_SIDE, "tiles are solved as they lie");

static uint64_t sides_of(uint32_t n)
{
    return (n + TS_GRAM_SIDE - 1) / TS_GRAM_SIDE;
}

/* Returns the number of tiles in a triangle with `sides` tiles in a row. */
static uint64_t tiles(uint64_t sides)
{
    return sides * (sides + 1) / 2;
}

/* Returns the most nonzeros of a short row. With more than half as many nonzeros as columns, the
 * normal equations take no longer, and do not wait for the longest of several rows. */
static uint32_t most_of(uint32_t rank)
{
    return rank / 2 < TS_GRAM_SHORT ? rank / 2 : TS_GRAM_SHORT;
}

static uint64_t k_size(uint32_t rank)
{
    return tiles(sides_of(most_of(rank))) * TS_GRAM_TILE;
}

/* Returns the number of float64 for the values of a row's nonzeros. */
static uint64_t m_size(uint32_t rank)
{
    return (most_of(rank) + LINE - 1) / LINE * LINE;
}

uint64_t ts_short_rows_size(uint32_t rank)
{
    return ts_rowblock_systems_size(most_of(rank)) +
           TS_ROWBLOCK_SYSTEMS * (k_size(rank) + m_size(rank) + most_of(rank) + 1);
}

void ts_short_rows_init(struct ts_short_rows *s, uint32_t rank, const struct ts_gram_ops *ops,
                        enum ts_isa isa, double *memory)
{
    struct ts_rowsystems *x = &s->systems;
    s->ops = ops;
    s->solve = ts_rowblock_get(isa)->systems;
    s->k_size = k_size(rank);
    s->m_size = m_size(rank);
    s->k = memory;
    s->m = s->k + TS_ROWBLOCK_SYSTEMS * s->k_size;
    *x = (struct ts_rowsystems){ .tiles = 1, .work = s->m + TS_ROWBLOCK_SYSTEMS * s->m_size };
    x->more = x->work + ts_rowblock_systems_size(most_of(rank));
    x->a = x->more + TS_ROWBLOCK_SYSTEMS;
}

void ts_short_rows_begin(struct ts_short_rows *s, const struct ts_row_update *update, double cut,
                         struct ts_fmat *out)
{
    const int bounded = update->lower > -INFINITY || update->upper < INFINITY;
    s->most = update->l2 > 0 && !bounded ? most_of(out->rank) : 0;
    s->l2 = update->l2;
    s->by_count = update->by_count;
    s->cut = s->systems.cut = cut;
    s->out = out;
    s->waiting = 0;
}

static double l2_of(const struct ts_short_rows *s, double count)
{
    return s->l2 * (s->by_count ? count : 1);
}

/* Whether the penalty is far enough above rounding errors for all n diagonal entries of K. An entry
 * of K is the dot product of the row products (of the other factors' rows) at two nonzeros. */
static int is_clear(const double *k, uint32_t n, double l2, double cut)
{
    int clear = 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t side = i / TS_GRAM_SIDE, j = i % TS_GRAM_SIDE;
        const double entry = k[(tiles(side) + side) * TS_GRAM_TILE + j * (j + 3) / 2];
        clear &= CLEAR_OF_ROUNDING * cut * entry <= l2;
    }
    return clear;
}

int ts_short_rows_add(struct ts_short_rows *s, const void *product, const struct ts_unpacked *b,
                      const uint16_t *at, uint32_t n, double count, uint32_t row)
{
    double *k = s->k + s->waiting * s->k_size, *m = s->m + s->waiting * s->m_size;
    if (n > s->most)
        return 0;
    memset(m, 0, s->m_size * sizeof *m);
    s->ops->cross(s->out->width, product, b, at, n, k, m);
    if (!is_clear(k, n, l2_of(s, count), s->cut))
        return 0;
    s->wait[s->waiting++] = (struct ts_short_row){ at, row, n, count };
    return 1;
}

/* Prepares a system in each lane. All lanes get matrices with the same number of tiles. A lane
 * without a row gets the matrix of the first row. */
static void lay_out(struct ts_short_rows *s)
{
    struct ts_rowsystems *x = &s->systems;
    x->n = s->waiting;
    x->rank = 0;
    for (uint32_t k = 0; k < s->waiting; k++)
        x->rank = s->wait[k].n > x->rank ? s->wait[k].n : x->rank;
    for (uint32_t k = 0; k < TS_ROWBLOCK_SYSTEMS; k++) {
        const uint32_t from = k < x->n ? k : 0;
        const uint64_t has = tiles(sides_of(s->wait[from].n)), all = tiles(sides_of(x->rank));
        double *own = s->k + from * s->k_size;
        memset(own + has * TS_GRAM_TILE, 0, (all - has) * TS_GRAM_TILE * sizeof *own);
        x->s[k] = own;
        x->m[k] = s->m + from * s->m_size;
        x->more[k] = l2_of(s, s->wait[from].count);
    }
}

double ts_short_rows_solve(struct ts_short_rows *s, const void *product)
{
    const size_t size = s->out->precision == TS_FLOAT32 ? sizeof(float) : sizeof(double);
    double sum = 0;
    if (s->waiting == 0)
        return 0;
    lay_out(s);
    s->solve(&s->systems);
    for (uint32_t k = 0; k < s->waiting; k++) {
        const struct ts_short_row *w = &s->wait[k];
        sum += (s->by_count ? w->count : 1) *
               s->ops->combine(s->out->width, product, w->at, w->n, s->systems.a + k,
                               TS_ROWBLOCK_SYSTEMS,
                               (char *)s->out->data + w->row * (size_t)s->out->stride * size);
    }
    s->waiting = 0;
    return sum;
}
