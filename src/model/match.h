/* SPDX-License-Identifier: BSD-3-Clause */
/* match.h - which components of two models of a tensor are the same, and how alike they are.
 *
 * Of components a and b, with columns of norm 1 and weights >= 0,
 *     congruence(a, b) = product over modes of |cosine of their columns|,
 *     score(a, b) = congruence(a, b) * (1 - |w_a - w_b| / max(w_a, w_b)),
 * the second factor being 1 where weights are not to count, or both are 0. Two components with a
 * column of zeros each are alike: their congruence is 1. Modes that are skipped are left out of the
 * product, and may have other rows in each model. Each component of the smaller model gets a
 * partner of its own in the larger one. The factor match score is the mean of the pairs' scores: 1
 * for the same models, whatever the order of components, signs, and where the weights lie.
 *
 * Pairs are taken greedily, the best one first, as Tensor Toolbox and pyttb do in `score`; or so
 * that the mean is the largest there is, by the Hungarian method (rank^3 steps).
 *
 *   owner    the caller owns the models, freshly opened, whose rows are read once; free what run
 *            made
 *   units    components from 0
 *   threads  one calls; sums are shared among conf->threads
 *   errors   0 or a negative ts_code: what reading finds, TS_EARG where shapes differ, TS_ELIMIT
 *            where numbers leave the range of float64
 *   memory   a few MiB for factors of any size, and order * rank * rank numbers
 *   bits     results do not depend on threads
 */
#ifndef TS_MODEL_MATCH_H
#define TS_MODEL_MATCH_H

#include <signal.h>
#include <stdint.h>

#include "model/model_read.h"

struct ts_match_conf {
    struct ts_model *a, *b;
    uint32_t threads; /* 0: all */
    uint32_t skip;    /* bit m: mode m does not count, except for the sizes of weights */
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
};

struct ts_match {
    uint32_t order, rank_a, rank_b;
    double *cosine;     /* order x rank_a x rank_b; 0 where a column is zero, or the mode skipped */
    double *congruence; /* rank_a x rank_b */
    double *weight_a, *weight_b; /* for columns of norm 1; never negative */
};

/* Pairs the components of two models. Rows are paired by index. In a model without modeK.index, row
 * i is index i. There is one exception: if it has as many rows as the other model has indices, and
 * fewer than the mode has, its indices are those of the other model. */
int ts_match_run(const struct ts_match_conf *conf, struct ts_match *ret, struct ts_err *err);
void ts_match_free(struct ts_match *m); /* one of zeros is fine */

struct ts_match_pair {
    uint32_t a, b;
    double score, congruence;
};

static inline uint32_t ts_match_pairs(const struct ts_match *m)
{
    return m->rank_a < m->rank_b ? m->rank_a : m->rank_b;
}

enum ts_match_how { TS_MATCH_GREEDY, TS_MATCH_BEST };

/* pair := ts_match_pairs of them, by ascending a; *score := the mean of theirs. weights: they
 * count. */
int ts_match_assign(const struct ts_match *m, enum ts_match_how kind, int weights,
                    struct ts_match_pair *pair, double *score, struct ts_err *err);

#endif
