/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpd/constraint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/setting.h"
#include "format/dense.h"
#include "format/tensor.h"
#include "stream/row_update.h"

#define TOO_LARGE 1e-4 /* of a start: the size of the next factor beside it */

static int is_none(const struct ts_constraint *c)
{
    return !c->nonneg && !c->fixed && !c->simplex && !c->bounded && !c->orthogonal && c->l1 == 0 &&
           c->l2 == 0 && c->smooth == 0 && !c->observed && !c->held && !c->best && !c->poisson &&
           c->loss == TS_GCP_NONE;
}

int ts_constraint_any(const struct ts_constraint *c, uint32_t n)
{
    for (uint32_t m = 0; c != NULL && m < n; m++)
        if (!is_none(&c[m]))
            return 1;
    return 0;
}

int ts_constraint_penalty(const struct ts_constraint *c, uint32_t n)
{
    for (uint32_t m = 0; c != NULL && m < n; m++)
        if (c[m].l1 > 0 || c[m].l2 > 0 || c[m].smooth > 0)
            return 1;
    return 0;
}

int ts_constraint_rigid(const struct ts_constraint *c)
{
    return c->simplex || c->bounded || c->orthogonal;
}

int ts_constraint_as_it_is(const struct ts_constraint *c)
{
    return c->simplex || c->bounded;
}

int ts_constraint_lengths(const struct ts_constraint *c, uint32_t n)
{
    for (uint32_t m = 0; c != NULL && m < n; m++)
        if (ts_constraint_rigid(&c[m]) || c[m].observed || c[m].held || c[m].loss != TS_GCP_NONE)
            return 1;
    return ts_constraint_penalty(c, n);
}

int ts_constraint_positive(const struct ts_constraint *c)
{
    if (c->loss != TS_GCP_NONE && ts_loss_of(c->loss)->lower == 0)
        return 1;
    return c->nonneg || c->poisson || c->simplex || (c->bounded && c->lower >= 0);
}

enum ts_row_kind ts_constraint_kind(const struct ts_constraint *c)
{
    if (c->fixed)
        return TS_ROW_KEEP;
    if (c->poisson)
        return TS_ROW_MULTIPLY;
    if (c->loss != TS_GCP_NONE)
        return TS_ROW_DESCEND;
    if (c->observed)
        return TS_ROW_OBSERVED;
    if (c->simplex)
        return TS_ROW_SIMPLEX;
    if (c->orthogonal)
        return TS_ROW_POLAR;
    if (c->nonneg || c->bounded || c->l1 > 0)
        return c->smooth > 0 ? TS_ROW_SMOOTH_WITHIN : TS_ROW_COORDINATE;
    return c->smooth > 0 ? TS_ROW_SMOOTH : TS_ROW_LEAST_SQUARES;
}

/* In the last mode the old rows are read for the fit too, after they were updated (als.c). */
uint32_t ts_constraint_updates(const struct ts_constraint *c, uint32_t n)
{
    uint32_t bits = 0;
    for (uint32_t m = 0; c != NULL && m < n; m++) {
        const enum ts_row_kind kind = ts_constraint_kind(&c[m]);
        bits |= c[m].held ? 1u << TS_ROW_HELD : 0;
        if (kind == TS_ROW_KEEP && (m + 1 < n || c[m].observed || c[m].held))
            continue;
        bits |= 1u << kind;
        if (kind == TS_ROW_SMOOTH_WITHIN)
            bits |= 1u << TS_ROW_COORDINATE | 1u << TS_ROW_KEEP;
        if (m + 1 == n && ts_row_reads_old(kind))
            bits |= 1u << TS_ROW_KEEP;
    }
    return bits;
}

uint32_t ts_constraint_skipped(const struct ts_constraint *c, uint32_t n)
{
    uint32_t bits = 0;
    for (uint32_t m = 0; c != NULL && m + 1 < n; m++)
        bits |= (uint32_t)(c[m].fixed != 0) << m;
    return bits;
}

static uint32_t reads_old(const struct ts_constraint *c, uint32_t n)
{
    uint32_t bits = 0;
    for (uint32_t m = 0; c != NULL && m < n; m++)
        bits |= (uint32_t)ts_row_reads_old(ts_constraint_kind(&c[m])) << m;
    return bits;
}

uint32_t ts_constraint_own(const struct ts_constraint *c, uint32_t n)
{
    return c != NULL && c[0].observed && c[0].loss == TS_GCP_NONE
               ? 0
               : reads_old(c, n) & ~ts_constraint_skipped(c, n);
}

uint32_t ts_constraint_stays(const struct ts_constraint *c, uint32_t n)
{
    const uint32_t for_fit =
        c != NULL && (c[n - 1].observed || c[n - 1].held) ? UINT32_C(1) << (n - 1) : 0;
    return reads_old(c, n) | for_fit;
}

int ts_constraint_too_large(double norm, uint64_t nnz, double cells, double model_square)
{
    return norm * sqrt((double)nnz / cells) < TOO_LARGE * sqrt(model_square);
}

uint32_t ts_constraint_rounds(int too_large, uint32_t order, uint64_t nnz, uint64_t n_rows,
                              uint32_t rank)
{
    const double more = 0.3 * order * (double)nnz / ((double)rank * (double)(n_rows + 1));
    const uint32_t most = TS_ROW_MANY - 2;
    return 2 + (too_large ? 0 : more < most ? (uint32_t)more : most);
}

uint32_t ts_constraint_moments(const struct ts_constraint *c)
{
    return c->loss == TS_GCP_NONE ? 0 : c->lbfgsb ? TS_MOMENTS_LBFGSB : TS_MOMENTS_ADAM;
}

/* Bounds that name entries which the loss has no model of. A lower one that is infinite is none. */
static int beyond_loss(const struct ts_constraint *c)
{
    const double least = ts_loss_of(c->loss)->lower;
    return (isfinite(c->lower) && c->lower < least) || c->upper < least;
}

int ts_constraint_takes_observed(const struct ts_tensor *t, enum ts_loss_kind loss, int poisson)
{
    double cells = 1;
    if (poisson)
        return 0;
    if (loss == TS_GCP_NONE)
        return ts_tensor_weighted(t) || (t->dense != NULL && t->dense->n_unknown > 0);
    for (uint32_t m = 0; m < t->order; m++)
        cells *= (double)t->mode[m].disk.dim;
    return !ts_loss_of(loss)->zeros && t->dense == NULL && (double)t->nnz == cells &&
           (t->header.flags & TS_TENSOR_DUPLICATES) == 0;
}

int ts_constraint_check(const struct ts_constraint *c, uint32_t n, struct ts_err *err)
{
    uint32_t n_fixed = 0, n_orthogonal = 0, n_free = 0;
    for (uint32_t m = 0; m < n; m++) {
        struct ts_constraint rest = c[m];
        rest.poisson = rest.nonneg = rest.best = rest.held = 0;
        if (!c[m].poisson != !c[0].poisson || (c[m].poisson && !is_none(&rest)))
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE
                           ": a Poisson model has no entries below 0, and nothing else can "
                           "be asked of it",
                           m + 1);
        if (c[m].loss != c[0].loss || c[m].loss_at != c[0].loss_at)
            return ts_fail(err, TS_EARG, "a model has the same loss in all modes");
        if (!c[m].held != !c[0].held || (c[m].held && (c[m].observed || c[m].loss != TS_GCP_NONE)))
            return ts_fail(err, TS_EARG,
                           "held-out nonzeros are zeros to all modes of a model of least "
                           "squares or of counts");
        if (!c[m].best != !c[0].best)
            return ts_fail(err, TS_EARG, "the best factors are kept of all modes or of none");
        if (!c[m].lbfgsb != !c[0].lbfgsb || (c[m].lbfgsb && c[m].loss == TS_GCP_NONE))
            return ts_fail(err, TS_EARG,
                           "L-BFGS-B descends by a loss of all modes other than least-squares and "
                           "poisson");
        if (ts_loss_number_check(c[m].loss, c[m].loss_at, err) < 0)
            return TS_EARG;
        if (c[m].loss != TS_GCP_NONE && !ts_loss_of(c[m].loss)->zeros && !c[m].observed)
            return ts_fail(err, TS_EARG,
                           "loss %s is for %s, and cells that are not listed are zeros: with "
                           "observed they are unknown",
                           ts_loss_of(c[m].loss)->name, ts_loss_of(c[m].loss)->values);
        if (c[m].loss != TS_GCP_NONE &&
            (c[m].poisson || c[m].fixed || c[m].l1 > 0 || c[m].simplex || c[m].orthogonal ||
             c[m].smooth > 0 || c[m].by_count))
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE
                           ": with loss %s no %s is computed; l2, no entries below 0 and "
                           "bounds are",
                           m + 1, ts_loss_of(c[m].loss)->name,
                           c[m].poisson      ? "Poisson model"
                           : c[m].fixed      ? "fixed factor"
                           : c[m].l1 > 0     ? "l1"
                           : c[m].simplex    ? "simplex"
                           : c[m].orthogonal ? "orthogonal"
                           : c[m].smooth > 0 ? "smooth"
                                             : "l2 by count");
        if (!(c[m].l1 >= 0 && isfinite(c[m].l1) && c[m].l2 >= 0 && isfinite(c[m].l2) &&
              c[m].smooth >= 0 && isfinite(c[m].smooth)))
            return ts_fail(err, TS_EARG, TS_NTH_MODE ": a penalty must be a number of 0 or more",
                           m + 1);
        if (c[m].fixed && (c[m].l1 > 0 || c[m].l2 > 0 || c[m].smooth > 0 || c[m].nonneg ||
                           ts_constraint_rigid(&c[m])))
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE ": its factor is fixed, so nothing else can be asked of it",
                           m + 1);
        if (!c[m].observed != !c[0].observed || (c[m].by_count && !c[m].observed))
            return ts_fail(err, TS_EARG, "cells are observed ones in all modes or in none");
        if (!c[m].mean != !c[0].mean || (c[m].mean && (!c[m].observed || c[m].loss != TS_GCP_NONE)))
            return ts_fail(err, TS_EARG,
                           "a mean is subtracted from all observed cells, with no other loss than "
                           "least squares");
        if (c[m].observed && (c[m].l1 > 0 || c[m].simplex || c[m].orthogonal || c[m].smooth > 0))
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE
                           ": of observed cells alone no %s is computed; l2, no entries "
                           "below 0 and bounds are",
                           m + 1,
                           c[m].l1 > 0       ? "l1"
                           : c[m].simplex    ? "simplex"
                           : c[m].orthogonal ? "orthogonal"
                                             : "smooth");
        n_fixed += c[m].fixed != 0;
        n_orthogonal += c[m].orthogonal != 0;
        n_free += !c[m].fixed && !ts_constraint_rigid(&c[m]);
        if (c[m].orthogonal && (c[m].l1 > 0 || c[m].l2 > 0 || c[m].smooth > 0 || c[m].nonneg ||
                                c[m].simplex || c[m].bounded))
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE
                           ": its columns are to be orthonormal, so nothing else can be "
                           "asked of it",
                           m + 1);
        if (c[m].smooth > 0 && c[m].simplex)
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE
                           ": neighbouring rows that are to be alike cannot have a sum of "
                           "1, too; they can have no entries below 0, and bounds",
                           m + 1);
        if (c[m].simplex && (c[m].l1 > 0 || c[m].bounded))
            return ts_fail(err, TS_EARG, TS_NTH_MODE ": rows that sum to 1 cannot have %s, too",
                           m + 1,
                           c[m].bounded ? "bounds" : "an l1, which is the same for all of them");
        if (c[m].bounded &&
            !(c[m].lower <= c[m].upper && c[m].lower < INFINITY && c[m].upper > -INFINITY &&
              (isfinite(c[m].lower) || isfinite(c[m].upper))))
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE
                           ": no entry is between bounds of %g and %g, or every one is; give a "
                           "lower and an upper one",
                           m + 1, c[m].lower, c[m].upper);
        if (c[m].loss != TS_GCP_NONE && c[m].bounded && beyond_loss(&c[m]))
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE
                           ": with loss %s entries of factors are %g or more, and bounds of "
                           "%g to %g allow others; give bounds from %g up, like %g:%g",
                           m + 1, ts_loss_of(c[m].loss)->name, ts_loss_of(c[m].loss)->lower,
                           c[m].lower, c[m].upper, ts_loss_of(c[m].loss)->lower,
                           ts_loss_of(c[m].loss)->lower, ts_loss_of(c[m].loss)->lower + 1);
        if (c[m].bounded && c[m].nonneg && c[m].upper < 0)
            return ts_fail(err, TS_EARG, TS_NTH_MODE ": no entry is nonnegative and at most %g",
                           m + 1, c[m].upper);
    }
    if (n_orthogonal > 0 && n_free == 0)
        return ts_fail(err, TS_EARG,
                       "orthonormal columns have no size, and no mode is left to have it: ask one "
                       "mode for nothing, or for no more than l1, l2 or no entries below 0");
    return n_fixed < n
               ? 0
               : ts_fail(
                     err, TS_EARG,
                     "all modes are fixed, so there is nothing to compute: tstream fit tells the fit "
                     "of a model");
}

void ts_constraint_text(const struct ts_constraint *c, char *ret, size_t room)
{
    char loss[96] = "", name[64], l1[40] = "", l2[40] = "", smooth[40] = "", bounds[64] = "";
    if (c->l1 > 0)
        snprintf(l1, sizeof l1, ", l1 %.9g", c->l1);
    if (c->l2 > 0)
        snprintf(l2, sizeof l2, ", l2 %.9g%s", c->l2, c->by_count ? " by count" : "");
    if (c->smooth > 0)
        snprintf(smooth, sizeof smooth, ", smooth %.9g", c->smooth);
    if (c->loss != TS_GCP_NONE) {
        ts_loss_text(c->loss, c->loss_at, 9, name, sizeof name);
        snprintf(loss, sizeof loss, ", loss %s", name);
    }
    if (c->lbfgsb)
        snprintf(loss + strlen(loss), sizeof loss - strlen(loss), " by L-BFGS-B");
    if (c->bounded)
        snprintf(bounds, sizeof bounds, ", bounds %.9g:%.9g", c->lower, c->upper);
    snprintf(ret, room, "%s%s%s%s%s%s%s%s%s%s%s%s%s", loss, c->poisson ? ", poisson" : "",
             c->mean       ? ", observed cells less their mean"
             : c->observed ? ", observed cells"
                           : "",
             c->nonneg ? ", nonnegative" : "", c->fixed ? ", fixed" : "",
             c->simplex ? ", simplex" : "", c->orthogonal ? ", orthogonal" : "", bounds, smooth, l1,
             l2, c->best ? ", patience" : "", c->held ? ", held-out nonzeros" : "");
    if (ret[0] == '\0')
        snprintf(ret, room, "none");
    else
        memmove(ret, ret + 2, strlen(ret) - 1);
}

int ts_constraint_same(const struct ts_constraint *a, const struct ts_constraint *b)
{
    return a->loss == b->loss && a->loss_at == b->loss_at && !a->lbfgsb == !b->lbfgsb &&
           !a->poisson == !b->poisson && !a->observed == !b->observed &&
           !a->by_count == !b->by_count && !a->mean == !b->mean && !a->best == !b->best &&
           !a->held == !b->held && !a->nonneg == !b->nonneg && !a->fixed == !b->fixed &&
           a->l1 == b->l1 && a->l2 == b->l2 && a->smooth == b->smooth &&
           !a->simplex == !b->simplex && !a->orthogonal == !b->orthogonal &&
           !a->bounded == !b->bounded &&
           (!a->bounded || (a->lower == b->lower && a->upper == b->upper));
}
