/* SPDX-License-Identifier: BSD-3-Clause */
/* match.h - finds equal components in two models of a tensor, and measures how similar they are.
 *
 * For components a and b, with columns of norm 1 and weights w >= 0,
 *     congruence(a, b) = product over modes of |cosine of their columns|,
 *     score(a, b) = congruence(a, b) * (1 - |w_a - w_b| / max(w_a, w_b)).
 * The second factor is 1 if the caller ignores weights, or if both weights are 0. If both
 * components have a column of zeros, their congruence is 1. Skipped modes are left out of the
 * product, and their rows may differ between the models. Each component of the smaller model is
 * paired with a different component of the larger one. The factor match score is the mean score of
 * the pairs. It is 1 for equal models, whatever the order of components, their signs, and the
 * distribution of weights among modes.
 *
 * Pairs are chosen greedily, the best one first, as in `score` of Tensor Toolbox and pyttb, or by
 * the Hungarian method, which maximises the mean (rank^3 steps).
 *
 *   owner    the caller owns the models, which must be freshly opened, and are read to their ends.
 *            ts_match_free frees the result
 *   units    components from 0
 *   threads  one thread calls; sums are divided among conf->threads
 *   errors   0 or a negative ts_code: that of a failed read, TS_EARG if shapes differ, TS_ELIMIT if
 *            numbers leave the range of float64
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
    uint32_t threads; /* 0: all CPUs */
    /* bit m: mode m is left out of scores; the norms of its columns still count in the weights */
    uint32_t skip;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
};

struct ts_match {
    uint32_t order, rank_a, rank_b;
    /* order x rank_a x rank_b: cosines of columns; 0 for a column of zeros, or a skipped mode */
    double *cosine;
    double *congruence; /* rank_a x rank_b: congruence of each two components */
    /* weights of the components, for columns of norm 1; never negative */
    double *weight_a, *weight_b;
};

/* Pairs the components of two models. Rows are paired by index. In a model without modeK.index, row
 * i is index i. There is one exception: if it has as many rows as the other model has indices, and
 * fewer than the mode has, its indices are those of the other model. */
int ts_match_run(const struct ts_match_conf *conf, struct ts_match *ret, struct ts_err *err);
void ts_match_free(struct ts_match *m); /* a struct of zeros is fine */

struct ts_match_pair {
    uint32_t a, b;
    double score, congruence;
};

static inline uint32_t ts_match_pairs(const struct ts_match *m)
{
    return m->rank_a < m->rank_b ? m->rank_a : m->rank_b;
}

enum ts_match_how { TS_MATCH_GREEDY, TS_MATCH_BEST };

/* Sets `pair` to ts_match_pairs(m) pairs of components, in ascending order of a, and *score to the
 * mean of their scores. weights: 1 if weights count in the scores. */
int ts_match_assign(const struct ts_match *m, enum ts_match_how kind, int weights,
                    struct ts_match_pair *pair, double *score, struct ts_err *err);

#endif
