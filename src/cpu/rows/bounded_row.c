/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the row a within bounds that minimises the quadratic function a' S a / 2 - m' a. */
#include "cpu/rows/bounded_row.h"

#include <math.h>
#include <string.h>

#define MAX_ROUNDS 500   /* most rounds of coordinate descent */
#define MAX_SOLVES 100   /* most solutions in pivoting, which usually takes a few */
#define LANES      16u   /* a multiple of the lanes of any instruction set */
#define ROUNDING   1e-13 /* largest rounding error of an entry of S a, if S has a diagonal of 1 */
/* number of pivots in which all wrong entries change between free and fixed although their number
 * does not fall */
#define SPARE 3

enum side { FREE, LOWER, UPPER };

static double clamp(const struct ts_bounded_row *b, double x)
{
    return x < b->lower ? b->lower : x > b->upper ? b->upper : x;
}

/* Returns entry i of the residual m - S a. */
static double left_of(const struct ts_gram *g, const double *a, uint32_t i)
{
    const double *row = g->s + (size_t)i * g->stride;
    double left = g->m[i];
    for (uint32_t j = 0; j < g->rank; j++)
        left -= row[j] * a[j];
    return left;
}

/* Solves for the free entries of a; the fixed entries stay at their bounds. Returns 0 if S is
 * singular for the free entries. */
static int solve_free(const struct ts_bounded_row *b, const unsigned char *side, double *a)
{
    const struct ts_gram *g = b->sum;
    double *diagonal = b->row[0], *right = b->row[1], *solution = b->row[3];
    uint32_t n = 0, stride, at = 0;
    for (uint32_t i = 0; i < g->rank; i++)
        n += side[i] == FREE;
    if (n == 0)
        return 1;
    stride = (n + LANES - 1) / LANES * LANES;
    if (stride > g->stride)
        stride = g->stride;
    const struct ts_gram free = { .rank = n, .stride = stride, .s = b->s, .m = right };
    for (uint32_t i = 0; i < g->rank; i++) {
        const double *from = g->s + (size_t)i * g->stride;
        double *to = b->s + (size_t)at * stride;
        uint32_t k = 0;
        if (side[i] != FREE)
            continue;
        right[at] = g->m[i];
        for (uint32_t j = 0; j < g->rank; j++) {
            if (side[j] == FREE)
                to[k++] = from[j];
            else
                right[at] -= from[j] * a[j];
        }
        memset(to + n, 0, (stride - n) * sizeof *to);
        diagonal[at] = b->diagonal[i];
        at++;
    }
    b->ops->solve(&free, b->s, diagonal, b->cut, solution);
    for (uint32_t i = 0, k = 0; i < g->rank; i++)
        if (side[i] == FREE) {
            /* a stored inverse of 0 means that there was no pivot */
            if (b->s[(size_t)k * stride + k] == 0)
                return 0;
            a[i] = solution[k++];
        }
    return 1;
}

/* Returns whether entry i should be free or fixed at a bound, with the other entries as they are.
 * few: allowed error of m(i), divided by the root of S(i, i). */
static enum side side_of(const struct ts_bounded_row *b, const double *a, uint32_t i,
                         enum side side, double few)
{
    const struct ts_gram *g = b->sum;
    double left;
    if (side == FREE)
        return a[i] < b->lower ? LOWER : a[i] > b->upper ? UPPER : FREE;
    left = left_of(g, a, i);
    few *= sqrt(g->s[(size_t)i * g->stride + i]);
    return (side == LOWER && left > few) || (side == UPPER && left < -few) ? FREE : side;
}

/* Block principal pivoting from a. Returns 1 if a is the minimum. Errors of entries are measured
 * with columns scaled so that the diagonal of S is 1. Rounding errors have this size, because no
 * S(i, j) is larger than the product of the roots of S(i, i) and S(j, j). So columns of any size
 * count equally. */
static int pivot(const struct ts_bounded_row *b, double *a)
{
    const uint32_t n = b->sum->rank;
    unsigned char *side = (unsigned char *)b->row[2];
    uint32_t least = n + 1, spare = SPARE;
    memset(side, FREE, n);
    for (uint32_t i = 0; i < n; i++)
        if (!(b->sum->s[(size_t)i * b->sum->stride + i] > 0))
            return 0;
    for (uint32_t k = 0; k < MAX_SOLVES; k++) {
        uint32_t wrong = 0, last = 0;
        double few = 0;
        if (k > 0 && !solve_free(b, side, a))
            return 0;
        for (uint32_t i = 0; i < n; i++)
            few += a[i] * a[i] * b->sum->s[(size_t)i * b->sum->stride + i];
        few = fmax(b->tolerance, ROUNDING) * sqrt(few);
        for (uint32_t i = 0; i < n; i++)
            if (side_of(b, a, i, side[i], few) != side[i]) {
                wrong++;
                last = i;
            }
        if (wrong == 0)
            return 1;
        const int all = wrong < least || spare > 0;
        spare = wrong < least ? SPARE : spare - all;
        least = wrong < least ? wrong : least;
        unsigned char *next = (unsigned char *)b->row[1];
        for (uint32_t i = 0; i < n; i++)
            next[i] = all || i == last ? (unsigned char)side_of(b, a, i, side[i], few) : side[i];
        memcpy(side, next, n);
        for (uint32_t i = 0; i < n; i++)
            a[i] = side[i] == LOWER ? b->lower : side[i] == UPPER ? b->upper : a[i];
    }
    return 0;
}

static void descend(const struct ts_bounded_row *b, double *a)
{
    const struct ts_gram *g = b->sum;
    for (uint32_t i = 0; i < g->rank; i++)
        a[i] = clamp(b, a[i]);
    for (uint32_t round = 0; round < MAX_ROUNDS; round++) {
        double change = 0, size = 0;
        for (uint32_t i = 0; i < g->rank; i++) {
            const double diagonal = g->s[(size_t)i * g->stride + i], old = a[i];
            const double left = left_of(g, a, i);
            if (diagonal > 0)
                a[i] = clamp(b, old + left / diagonal);
            change += (a[i] - old) * (a[i] - old);
            size += a[i] * a[i];
        }
        if (change <= b->tolerance * b->tolerance * size)
            break;
    }
}

void ts_bounded_row_find(const struct ts_bounded_row *b, double *a)
{
    if (!pivot(b, a))
        descend(b, a);
}
