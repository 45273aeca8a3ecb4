/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes one column of a factor (curve.h) by projected Newton steps. Each step solves a system of
 * five diagonals, in time linear in the number of entries. */
#include "cpd/rows/curve.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MOST_STEPS  100
#define MOST_HALVED 40
/* least decrease of the objective in a step, relative to what the gradient predicts */
#define ENOUGH       1e-4
#define NOTHING_LEFT 1e-15 /* a step shorter than this, relative to the length of x, is rounding */

/* Where an entry of the column x may move in a step. FREE: anywhere within the bounds; HELD:
 * nowhere; ABOVE, BELOW: on its side of 0. */
enum place { FREE, HELD, ABOVE, BELOW };

struct vectors {
    double *slope; /* gradient of the objective at x; for free entries with the slope of l1 */
    double *bend;  /* second differences of x: bend[i] is that of entries i - 2 .. i */
    double *diagonal, *one, *two, *target, *trial;
    unsigned char *place, *before; /* n each: enum place in this step and in the step before */
};

static struct vectors vectors_of(const struct ts_curve *c)
{
    double *s = c->scratch;
    const uint64_t n = c->n;
    return (struct vectors){ .slope = s,
                             .bend = s + n,
                             .diagonal = s + 2 * n,
                             .one = s + 3 * n,
                             .two = s + 4 * n,
                             .target = s + 5 * n,
                             .trial = s + 6 * n,
                             .place = (unsigned char *)(s + 7 * n),
                             .before = (unsigned char *)(s + 8 * n) };
}

void ts_curve_eliminate(uint64_t n, double least, double instead, double *diagonal, double *one,
                        double *two, double *x)
{
    for (uint64_t i = 0; i < n; i++) {
        if (i > 1) {
            two[i] /= diagonal[i - 2];
            one[i] -= two[i] * diagonal[i - 2] * one[i - 1];
            diagonal[i] -= two[i] * two[i] * diagonal[i - 2];
        }
        if (i > 0) {
            one[i] /= diagonal[i - 1];
            diagonal[i] -= one[i] * one[i] * diagonal[i - 1];
        }
        /* over many successive indices without a row, rounding can make the pivot too small */
        if (!(diagonal[i] > least))
            diagonal[i] = instead;
        x[i] -= (i > 0 ? one[i] * x[i - 1] : 0) + (i > 1 ? two[i] * x[i - 2] : 0);
    }
    for (uint64_t i = n; i-- > 0;)
        x[i] = x[i] / diagonal[i] - (i + 1 < n ? one[i + 1] * x[i + 1] : 0) -
               (i + 2 < n ? two[i + 2] * x[i + 2] : 0);
}

static int is_row(const struct ts_curve *c, uint64_t i)
{
    return c->is_row == NULL || c->is_row[i];
}

/* Whether the l1 term has a kink at 0 inside the bounds. */
static int is_kinked(const struct ts_curve *c)
{
    return c->l1 > 0 && c->lower < 0 && c->upper > 0;
}

/* Returns the derivative of the l1 term for an entry that may move as `place` says. */
static double l1_slope(const struct ts_curve *c, enum place place)
{
    if (is_kinked(c))
        return place == ABOVE ? c->l1 : place == BELOW ? -c->l1 : 0;
    return c->lower >= 0 ? c->l1 : -c->l1;
}

/* Clamps y, a new value of an entry, to the bounds and, if the place is ABOVE or BELOW, to that
 * side of 0. */
static double clamp(const struct ts_curve *c, enum place place, double y)
{
    const double lower = place == ABOVE ? fmax(c->lower, 0) : c->lower;
    const double upper = place == BELOW ? fmin(c->upper, 0) : c->upper;
    return y > lower ? (y < upper ? y : upper) : lower;
}

double ts_curve_bends(uint64_t n, const double *x, double *bend)
{
    double sum = 0;
    for (uint64_t i = 2; i < n; i++) {
        const double b = x[i] - 2 * x[i - 1] + x[i - 2];
        if (bend != NULL)
            bend[i] = b;
        sum += b * b;
    }
    return sum;
}

/* Returns where entry i may move. slope: derivative of the objective's quadratic terms. */
static enum place choose(const struct ts_curve *c, uint64_t i, double slope)
{
    const double x = c->x[i];
    enum place ret = FREE;
    if (!is_row(c, i))
        return FREE;
    if (is_kinked(c)) {
        if (x == 0 && fabs(slope) <= c->l1)
            return HELD;
        ret = x > 0 || (x == 0 && slope < 0) ? ABOVE : BELOW;
    }
    slope += c->l1 > 0 ? l1_slope(c, ret) : 0;
    return (x <= c->lower && slope >= 0) || (x >= c->upper && slope <= 0) ? HELD : ret;
}

/* Computes slope and place of all entries. Returns how many entries were HELD in the step before
 * and are not now. */
static uint64_t look(const struct ts_curve *c, const struct vectors *v)
{
    const uint64_t n = c->n;
    uint64_t released = 0;
    memcpy(v->before, v->place, n);
    (void)ts_curve_bends(n, c->x, v->bend);
    for (uint64_t i = 0; i < n; i++) {
        double s = (i > 1 ? v->bend[i] : 0) - (i > 0 && i + 1 < n ? 2 * v->bend[i + 1] : 0) +
                   (i + 2 < n ? v->bend[i + 2] : 0);
        s = c->mu * s + (is_row(c, i) ? c->g * c->x[i] : 0) - c->c[i];
        v->place[i] = (unsigned char)choose(c, i, s);
        v->slope[i] = s + (c->l1 > 0 && is_row(c, i) ? l1_slope(c, (enum place)v->place[i]) : 0);
        released += v->before[i] == HELD && v->place[i] != HELD;
    }
    return released;
}

/* target := the x with the least objective, if only entries that are not HELD may change. */
static void aim(const struct ts_curve *c, const struct vectors *v)
{
    const uint64_t n = c->n;
    for (uint64_t i = 0; i < n; i++)
        v->target[i] = v->place[i] == HELD ? c->x[i] : c->c[i];
    for (uint64_t i = 0; i < n; i++) {
        const int held = v->place[i] == HELD;
        double of[3];
        ts_curve_differences(n, i, of);
        v->diagonal[i] = held ? 1 : c->mu * of[0] + (is_row(c, i) ? c->g : 0);
        v->target[i] -=
            held || c->l1 == 0 || !is_row(c, i) ? 0 : l1_slope(c, (enum place)v->place[i]);
        for (uint64_t k = 1; k < 3; k++) {
            const double q = c->mu * of[k];
            const int other = i >= k && v->place[i - k] == HELD;
            *(k == 1 ? &v->one[i] : &v->two[i]) = i < k || held || other ? 0 : q;
            if (i >= k && held && !other)
                v->target[i - k] -= q * c->x[i];
            if (i >= k && !held && other)
                v->target[i] -= q * c->x[i - k];
        }
    }
    ts_curve_eliminate(n, DBL_EPSILON * c->mu * DBL_EPSILON, DBL_EPSILON * (c->mu + c->g),
                       v->diagonal, v->one, v->two, v->target);
}

/* How a step changes the objective. */
struct step {
    /* change of the objective: as the gradient predicts, and the actual one */
    double promise, change;
    double length; /* squared length of the step */
    int whole;     /* 1: the step reaches the target in all entries */
};

/* trial := x moved by `part` of the way to the target, kept within bounds. If across is set,
 * entries may also change sign. Stores the change of each entry in v->diagonal. */
static struct step try_part(const struct ts_curve *c, const struct vectors *v, double part,
                            int across)
{
    struct step ret = { .whole = part == 1 };
    double rows = 0, turned = 0;
    for (uint64_t i = 0; i < c->n; i++) {
        const enum place place = (enum place)v->place[i];
        const double x = c->x[i], to = part == 1 ? v->target[i] : x + part * (v->target[i] - x);
        double way;
        v->trial[i] = place == HELD ? x : is_row(c, i) ? clamp(c, across ? FREE : place, to) : to;
        way = v->diagonal[i] = v->trial[i] - x;
        ret.whole &= v->trial[i] == to || place == HELD;
        ret.promise += v->slope[i] * way;
        ret.length += way * way;
        rows += is_row(c, i) ? way * way : 0;
        if (across && is_row(c, i))
            turned += c->l1 * (fabs(v->trial[i]) - fabs(x)) - l1_slope(c, place) * way;
    }
    ret.change = ret.promise + turned +
                 0.5 * (c->g * rows + c->mu * ts_curve_bends(c->n, v->diagonal, v->bend));
    return ret;
}

static int lowers(const struct step *s)
{
    return s->promise < 0 && s->change <= ENOUGH * s->promise;
}

/* trial := the better of two steps: in the first one, entries end at 0 instead of crossing it, and
 * in the second one they may cross 0. With the first alone, a stiff column that moves through 0
 * would cross entry by entry. With the second alone, no entry would become 0. */
static struct step try_both(const struct ts_curve *c, const struct vectors *v, double part)
{
    const struct step to = try_part(c, v, part, 0);
    struct step ret;
    if (!is_kinked(c) || to.whole)
        return to;
    ret = try_part(c, v, part, 1);
    ret.whole = 0;
    return lowers(&ret) && (!lowers(&to) || ret.change < to.change) ? ret : try_part(c, v, part, 0);
}

/* Moves x by the largest part 1, 1/2, 1/4 ... of the step to the target that lowers the objective
 * enough. Returns 0 if the column is finished, because the whole step changes nothing but rounding,
 * or if the caller gives up. */
static int move(const struct ts_curve *c, const struct vectors *v, int *whole)
{
    double part = 1, size = 0;
    for (int k = 0; k < MOST_HALVED; k++, part /= 2) {
        struct step s;
        if (c->gives_up != NULL && c->gives_up(c->ctx))
            return 0;
        s = try_both(c, v, part);
        if (!lowers(&s) && s.whole)
            return 0;
        if (!lowers(&s))
            continue;
        for (uint64_t i = 0; i < c->n; i++)
            size += v->trial[i] * v->trial[i];
        memcpy(c->x, v->trial, c->n * sizeof *c->x);
        *whole = s.whole;
        return s.length > NOTHING_LEFT * NOTHING_LEFT * size;
    }
    return 0;
}

void ts_curve_begin(const struct ts_curve *c)
{
    const struct vectors v = vectors_of(c);
    for (uint64_t i = 0; i < c->n; i++) {
        v.place[i] = is_row(c, i) ? HELD : FREE;
        c->x[i] = is_row(c, i) ? clamp(c, FREE, c->x[i]) : 0;
    }
    if (c->is_row == NULL)
        return;
    aim(c, &v);
    memcpy(c->x, v.target, c->n * sizeof *c->x);
}

double ts_curve_solve(const struct ts_curve *c)
{
    const struct vectors v = vectors_of(c);
    int whole = 0;
    memset(v.place, FREE, c->n);
    for (int k = 0; k < MOST_STEPS; k++) {
        const uint64_t released = look(c, &v);
        if (whole && released == 0)
            break;
        aim(c, &v);
        if (!move(c, &v, &whole))
            break;
    }
    return ts_curve_bends(c->n, c->x, v.bend);
}
