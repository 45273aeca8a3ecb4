/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws nonzeros for the generator: with uniform or power-law indices, in planted blocks, or as
 * ratings. */
#include "source/synth/synth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "base/setting.h"
#include "source/batch.h"

#define MAX_CELLS (UINT64_C(1) << 62) /* most cells for which init_scatter can make a bijection */

/* Returns the longest possible side (number of rows) of a block in mode m. Blocks have separate
 * rows in a mode, unless its bit is set in `shared`. */
static uint64_t most_side(const struct ts_synth *s, uint32_t m, uint32_t shared)
{
    return shared >> m & 1 ? s->dim[m] : s->dim[m] / s->planted;
}

/* Chooses the modes in which planted blocks may share rows, so that they can hold all nonzeros:
 * none if possible, otherwise the shortest modes, but never all. *most: the most nonzeros that the
 * blocks can then hold. */
static uint32_t share_modes(const struct ts_synth *s, double *most)
{
    uint32_t shared = 0;
    for (uint32_t n = 0;; n++) {
        uint32_t best = s->order;
        *most = s->planted;
        for (uint32_t m = 0; m < s->order; m++)
            *most *= (double)most_side(s, m, shared);
        if (*most >= (double)s->nnz || n + 1 == s->order)
            return shared;
        for (uint32_t m = 0; m < s->order; m++)
            if ((shared >> m & 1) == 0 && (best == s->order || s->dim[m] < s->dim[best]))
                best = m;
        shared |= UINT32_C(1) << best;
    }
}

static int is_shorter(const struct ts_synth *s, uint32_t a, uint32_t b, uint32_t shared)
{
    const uint64_t x = most_side(s, a, shared), y = most_side(s, b, shared);
    return x < y || (x == y && s->dim[a] < s->dim[b]);
}

/* Chooses the number of rows of the planted blocks in each mode, as equal as the modes allow. It
 * begins with the mode whose longest possible side is the shortest. */
static int plan_blocks(struct ts_synth *s, struct ts_err *err)
{
    uint64_t cells = s->nnz / s->planted;
    uint32_t left = s->order;
    double possible;
    const uint32_t shared = share_modes(s, &possible);
    memset(s->side, 0, sizeof s->side);
    if (s->nnz < s->planted)
        return ts_fail(err, TS_EARG, "%llu nonzero%s too few for %u planted blocks",
                       (unsigned long long)s->nnz, s->nnz == 1 ? " is" : "s are", s->planted);
    for (; left > 0; left--) {
        uint32_t best = s->order;
        uint64_t most, side;
        for (uint32_t m = 0; m < s->order; m++)
            if (s->side[m] == 0 && (best == s->order || is_shorter(s, m, best, shared)))
                best = m;
        most = most_side(s, best, shared);
        if (most == 0)
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE ", of %llu, is too short for %u planted block%s", best + 1,
                           (unsigned long long)s->dim[best], s->planted, ts_num_plural(s->planted));
        side = (uint64_t)(pow((double)cells, 1.0 / left) + 1e-9);
        side = side < 1 ? 1 : side > most ? most : side;
        s->side[best] = side;
        cells /= side;
    }
    if (possible < (double)s->nnz)
        return ts_fail(err, TS_EARG, "%u planted block%s at most %.0f nonzeros in these sizes",
                       s->planted, s->planted == 1 ? " holds" : "s hold", possible);
    s->nnz = s->planted;
    for (uint32_t m = 0; m < s->order; m++)
        s->nnz *= s->side[m];
    return 0;
}

static void init_scatter(struct ts_scatter *c, uint64_t n, uint64_t key)
{
    c->n = n;
    c->half = 1;
    while (c->half < 31 && UINT64_C(1) << 2 * c->half < n)
        c->half++;
    for (uint32_t round = 0; round < 4; round++)
        c->round_key[round] = ts_mix(key + round);
}

/* Prepares the drawing of ratings (nonzeros in cells of a dense model), each of which has a cell of
 * its own. */
static int plan_ratings(struct ts_synth *s, struct ts_err *err)
{
    uint64_t cells = 1;
    for (uint32_t m = 0; m < s->order; m++) {
        if (cells > MAX_CELLS / s->dim[m])
            return ts_fail(err, TS_EARG, "ratings are drawn from at most 2^62 cells");
        cells *= s->dim[m];
        s->side[m] = s->dim[m];
    }
    if (s->nnz > cells)
        return ts_fail(err, TS_EARG, "%llu ratings do not fit %llu cells",
                       (unsigned long long)s->nnz, (unsigned long long)cells);
    init_scatter(&s->cell, cells, ts_mix(s->seed) + 500);
    return 0;
}

int ts_synth_init(struct ts_synth *s, struct ts_err *err)
{
    if (s->order < TS_MIN_ORDER || s->order > TS_MAX_ORDER)
        return ts_fail(err, TS_EARG, "a tensor of %u mode%s; %u to %u are possible", s->order,
                       ts_num_plural(s->order), TS_MIN_ORDER, TS_MAX_ORDER);
    for (uint32_t m = 0; m < s->order; m++) {
        if (s->dim[m] == 0 || s->dim[m] > TS_MAX_DIM)
            return ts_fail(err, TS_EARG, "the size of " TS_NTH_MODE " must be 1 to 2^40", m + 1);
        if (!(s->power[m] >= 0 && s->power[m] <= 100))
            return ts_fail(err, TS_EARG, "the power of " TS_NTH_MODE " must be 0 to 100", m + 1);
    }
    if (s->nnz == 0 || s->nnz > TS_MAX_NNZ)
        return ts_fail(err, TS_EARG, "the number of draws must be 1 to 2^40");
    if (s->value_last < s->value_first || s->value_last > UINT64_C(1) << 24)
        return ts_fail(err, TS_EARG, "values must be a range of whole numbers up to 2^24");
    if (!(s->noise >= 0 && s->noise <= 10))
        return ts_fail(err, TS_EARG, "noise must be 0 to 10");
    for (uint32_t m = 0; m < s->order; m++) {
        init_scatter(&s->scatter[m], s->dim[m], ts_mix(s->seed) + 1000 * (m + 1));
        if (s->power[m] > 0)
            ts_power_law_init(&s->law[m], s->power[m], s->dim[m]);
    }
    return s->ratings ? plan_ratings(s, err) : s->planted > 0 ? plan_blocks(s, err) : 0;
}

static uint64_t scatter(const struct ts_scatter *c, uint64_t k)
{
    const uint64_t mask = (UINT64_C(1) << c->half) - 1;
    do {
        uint64_t left = k >> c->half, right = k & mask;
        for (uint32_t round = 0; round < 4; round++) {
            const uint64_t next = left ^ (ts_mix(c->round_key[round] + right) & mask);
            left = right;
            right = next;
        }
        k = left << c->half | right;
    } while (k >= c->n);
    return k;
}

/* Returns a uniform number in 0..n-1 from 64 random bits: the high half of their product with n. */
static inline uint64_t below(uint64_t random, uint64_t n)
{
    return (uint64_t)((unsigned __int128)random * n >> 64);
}

/* Returns the index of entry k of the planted factor of mode m, and sets its value. Entries are
 * counted block after block. Blocks that share a row have different values there. */
static uint64_t planted_entry(const struct ts_synth *s, uint32_t m, uint64_t key, uint64_t k,
                              double *value)
{
    *value = 0.5 + ts_unit(ts_mix(ts_mix(key + m) + k));
    return scatter(&s->scatter[m], k % s->dim[m]);
}

/* Returns entry k of the dense factor of mode m, counted component after component. It is uniform
 * with mean 0, and scaled so that the values of the model have variance 1. */
static double dense_entry(const struct ts_synth *s, uint32_t m, uint64_t key, uint64_t k)
{
    const double u = 2 * ts_unit(ts_mix(ts_mix(key + m) + k)) - 1;
    return u * sqrt(m == 0 ? 3.0 / s->planted : 3.0);
}

uint64_t ts_synth_planted(const struct ts_synth *s, uint32_t mode, uint64_t k, double *value)
{
    if (s->ratings) {
        *value = dense_entry(s, mode, ts_mix(s->seed), k);
        return k % s->dim[mode];
    }
    return planted_entry(s, mode, ts_mix(s->seed), k, value);
}

static double draw_normal(uint64_t state)
{
    const double u = 1 - ts_unit(ts_mix(state + 1)), v = ts_unit(ts_mix(state + 2));
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Returns the value of rating number i, and sets its indices. */
static double rating(const struct ts_synth *s, uint64_t i, uint64_t key, uint64_t state,
                     uint64_t *index)
{
    uint64_t cell = scatter(&s->cell, i);
    double sum = 0;
    for (uint32_t m = 0; m < s->order; m++) {
        index[m] = cell % s->dim[m];
        cell /= s->dim[m];
    }
    for (uint32_t r = 0; r < s->planted; r++) {
        double product = 1;
        for (uint32_t m = 0; m < s->order; m++)
            product *= dense_entry(s, m, key, r * s->dim[m] + index[m]);
        sum += product;
    }
    return sum + s->noise * draw_normal(state);
}

/* Returns the value of cell i of the planted blocks, and sets its indices. */
static double planted_cell(const struct ts_synth *s, uint64_t i, uint64_t key, uint64_t state,
                           uint64_t *index)
{
    const double normal = draw_normal(state);
    const uint64_t block = i / (s->nnz / s->planted);
    double product = 1;
    for (uint32_t m = 0; m < s->order; m++) {
        const uint64_t k = block * s->side[m] + i % s->side[m];
        double value;
        i /= s->side[m];
        index[m] = planted_entry(s, m, key, k, &value);
        product *= value;
    }
    return product * (1 + s->noise * normal);
}

static double draw_value(const struct ts_synth *s, uint64_t state)
{
    if (s->value_last > 0)
        return (double)(s->value_first + below(ts_mix(state), s->value_last - s->value_first + 1));
    return 1 - ts_unit(ts_mix(state));
}

/* ------------------------------------------------------------------ drawing many nonzeros */

#define PIECE TS_POWER_LAW_PIECE

/* Draws the indices in mode m of n nonzeros. */
static void draw_indices(const struct ts_synth *s, uint32_t m, const uint64_t *state, uint32_t n,
                         uint64_t *index)
{
    double x[PIECE];
    if (s->power[m] == 0) {
        for (uint32_t i = 0; i < n; i++)
            index[i] = below(ts_mix(state[i] + 16 + m), s->dim[m]);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        x[i] = ts_unit(ts_mix(state[i] + 16 + m));
    ts_power_law_ranks(&s->law[m], x, n, index);
    if (s->place[m] != NULL)
        for (uint32_t i = 0; i < n; i++)
            index[i] = s->place[m][index[i]];
    else
        for (uint32_t i = 0; i < n; i++)
            index[i] = scatter(&s->scatter[m], index[i]);
}

/* Makes n draws, n <= PIECE, one mode after another, so that most of the work is in loops without a
 * branch. */
static void draw_piece(const struct ts_synth *s, uint64_t first, uint32_t n, struct ts_batch *b)
{
    const uint64_t key = ts_mix(s->seed);
    uint64_t state[PIECE], column[TS_MAX_ORDER][PIECE];
    double value[PIECE];
    for (uint32_t i = 0; i < n; i++)
        state[i] = ts_mix(key + first + i);
    for (uint32_t m = 0; m < s->order && s->planted == 0; m++)
        draw_indices(s, m, state, n, column[m]);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t cell[TS_MAX_ORDER];
        if (s->planted == 0) {
            value[i] = draw_value(s, state[i] + 8);
            continue;
        }
        value[i] = s->ratings ? rating(s, first + i, key, state[i], cell)
                              : planted_cell(s, first + i, key, state[i], cell);
        for (uint32_t m = 0; m < s->order; m++)
            column[m][i] = cell[m];
    }
    for (uint32_t m = 0; m < s->order; m++)
        for (uint32_t i = 0; i < n; i++)
            b->max[m] = column[m][i] > b->max[m] ? column[m][i] : b->max[m];
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t bits = ts_value_keep(value[i], s->value_bytes, &b->n_rounded);
        uint64_t *index = b->index + b->n * s->order;
        for (uint32_t m = 0; m < s->order; m++)
            index[m] = column[m][i];
        b->value[b->n] = bits;
        b->n += bits != 0;
        b->n_zeros += bits == 0;
    }
    b->n_read += n;
}

void ts_synth_draw(const struct ts_synth *s, uint64_t first, uint64_t n, struct ts_batch *b)
{
    for (uint64_t at = 0; at < n; at += PIECE)
        draw_piece(s, first + at, n - at < PIECE ? (uint32_t)(n - at) : PIECE, b);
}

/* ------------------------------------------------------------------ tables of the bijections */

int ts_synth_tables_new(struct ts_synth *s, uint64_t most_bytes, uint32_t threads,
                        struct ts_err *err)
{
    for (uint32_t m = 0; m < s->order; m++) {
        const uint64_t n = s->dim[m];
        /* a table is worth its time only if it has fewer entries than there are draws, because
         * computing an entry takes as long as computing the bijection in a draw */
        if (s->power[m] == 0 || s->planted > 0 || s->nnz < n || n > UINT32_MAX ||
            n > most_bytes / sizeof *s->place[m])
            continue;
        s->place[m] = malloc(n * sizeof *s->place[m]);
        if (s->place[m] == NULL) {
            ts_synth_tables_free(s);
            return ts_fail(err, TS_ENOMEM, "out of memory for the generator");
        }
        most_bytes -= n * sizeof *s->place[m];
#pragma omp parallel for num_threads(threads) schedule(static)
        for (uint64_t k = 0; k < n; k++)
            s->place[m][k] = (uint32_t)scatter(&s->scatter[m], k);
    }
    return 0;
}

void ts_synth_tables_free(struct ts_synth *s)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        free(s->place[m]);
        s->place[m] = NULL;
    }
}
