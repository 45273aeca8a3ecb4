/* SPDX-License-Identifier: BSD-3-Clause */
/* score.h - how well a model fits the nonzeros of a tensor: sums over all nonzeros and over those
 * of each slice of a mode, and the nonzeros with the largest residuals.
 *
 * One weighted pass (stream/weighted.h) over the copy of a mode gives value x and model m of each
 * nonzero, and the residual x - m. Unlisted cells matter for one figure only, the log-likelihood of
 * counts:
 *     sum over nonzeros of x log m, less the sum of m over all cells.
 * This is the Poisson log-likelihood without the terms log x!, which no model changes. The second
 * sum is computed from the column sums of the factors; 0 log 0 is 0. The log-likelihood of Gaussian
 * residuals is -n/2 (1 + log(2 pi s^2)) with their mean square s^2.
 *
 * A backend may compute the sums in a pass of its own (SCORES), which lends no nonzeros. GPUs do.
 *
 * If cells have weights, all sums are weighted, n of the likelihood is the sum of weights, and
 * there is no log-likelihood of counts.
 *
 *   owner    the caller owns all; what ts_score_run puts into a struct ts_score is freed by
 *            ts_score_free. The backend's factors are those of the model afterwards, weights in
 *            the mode's
 *   units    modes and rows from 0
 *   errors   0 or a negative ts_code: TS_ELIMIT where numbers leave the range of the precision
 *   bits     sums are made by block, by partition and then in the order of the file, in float64:
 *            they do not depend on threads, ranks, memory or order of delivery
 */
#ifndef TS_CPD_SCORE_H
#define TS_CPD_SCORE_H

#include <signal.h>
#include <stdint.h>

#include "model/kruskal.h"
#include "stream/backend.h"

struct ts_score_conf {
    const struct ts_tensor *tensor;
    const struct ts_backend *backend; /* with CELLS or, for sums alone, with SCORES */
    void *be;                         /* opened with the model's rank */
    struct ts_feed *feed;             /* serves `mode`, or all modes */
    /* has a row for each index of a mode, or some rows with their indices */
    const struct ts_kruskal *model;
    const double *weight;   /* weights of the components; NULL: those of the model */
    uint32_t mode, threads; /* threads: the number of the backend's threads */
    uint32_t top;           /* how many of the largest residuals are wanted */
    int slices;             /* sums of each slice of the mode are wanted */
    /* Gets every nonzero, as `take` of struct ts_weighted does, with the modes in `rows`; or
     * NULL. */
    int (*take)(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err);
    void *ctx;
    uint32_t rows;
    int unseen; /* count nonzeros whose row in the model is all zeros in some mode */
    /* Ranks of the backend: each takes a part, and all get the whole score. NULL: this process
     * alone. */
    struct ts_comm *comm;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
};

#define TS_SCORE_UNKNOWN UINT64_MAX

struct ts_score_cell {
    double value, model;
    uint32_t row[TS_MAX_ORDER];
};

struct ts_score {
    struct ts_score_sums all;
    double gaussian; /* log-likelihood of Gaussian residuals; NAN if the residuals are all 0 */
    /* log-likelihood of counts; NAN if a value is no count, or a model's value is not above 0 */
    double poisson;
    uint64_t n_slices;           /* rows of the mode, if slices were wanted; otherwise 0 */
    struct ts_score_sums *slice; /* n_slices */
    uint32_t n_top;
    /* The largest residuals in descending order. Of equal ones the first in the copy comes
     * first. */
    struct ts_score_cell *top;
    /* Number of unseen nonzeros, if wanted. TS_SCORE_UNKNOWN if the backend lends no nonzeros. */
    uint64_t unseen;
    struct ts_backend_times times;
};

/* Memory besides backend and feed. threads: those of the backend; n_ranks: 1 without a comm. */
uint64_t ts_score_bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank, uint32_t threads,
                        uint32_t n_ranks, uint32_t top, int slices);

int ts_score_run(const struct ts_score_conf *conf, struct ts_score *ret, struct ts_err *err);
void ts_score_free(struct ts_score *s); /* s may be all zero */

#endif
