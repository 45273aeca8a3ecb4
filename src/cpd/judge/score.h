/* SPDX-License-Identifier: BSD-3-Clause */
/* score.h - how well a model tells the nonzeros of a tensor: sums over all of them, over those of
 * each slice of a mode, and the ones that it misses most.
 *
 * One weighted pass (stream/weighted.h) over the copy of a mode gives value x and model m of each
 * nonzero, and the residual x - m. Of cells that are not listed nothing is asked, but for the
 * log-likelihood of counts
 *     sum over nonzeros of x log m, less the sum of m over all cells,
 * which is Poisson's without the terms log x!, that no model changes; the second sum is that of the
 * products of the sums of columns; 0 log 0 is 0. That of residuals taken as Gaussian is -n/2 (1 +
 * log(2 pi s^2)) with s^2 their mean square.
 *
 * A backend may have the sums in a pass of its own (SCORES), as GPUs do, which lends no nonzeros.
 *
 * Where cells have weights, all sums are by them, n of the likelihood is the sum of weights, and
 * there is none of counts.
 *
 *   owner    the caller owns all; what ts_score_run puts into a struct ts_score is freed by
 *            ts_score_free. The backend's factors are those of the model afterwards, weights in the
 *            mode's
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
    const struct ts_backend *backend; /* with CELLS; or with SCORES, for sums alone */
    void *be;                         /* of the model's rank */
    struct ts_feed *feed;             /* of `mode`, or of all */
    const struct ts_kruskal *model;   /* a row per index of a mode, or some with their indices */
    const double *weight;             /* of its components; NULL: its own */
    uint32_t mode, threads;           /* threads: those of the backend */
    uint32_t top;                     /* the largest residuals that are wanted; 0: none */
    int slices;                       /* sums of each slice of the mode are wanted */
    /* Takes every nonzero too, as struct ts_weighted does; `rows` of them. NULL: nobody. */
    int (*take)(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err);
    void *ctx;
    uint32_t rows;
    int unseen; /* nonzeros with an index whose row in the model is zeros are counted */
    /* that of the backend: each rank takes a part, and all get the whole score; NULL: this process
     * alone */
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
    double gaussian;             /* log-likelihoods; NAN where there is none: */
    double poisson;              /* a value is no count, or the model is not above 0 there */
    uint64_t n_slices;           /* rows of the mode, where they were asked for */
    struct ts_score_sums *slice; /* n_slices */
    uint32_t n_top;
    /* the largest residual first; of equal ones, the first in the copy */
    struct ts_score_cell *top;
    /* where they were asked for; TS_SCORE_UNKNOWN by a backend that lends no nonzeros */
    uint64_t unseen;
    struct ts_backend_times times;
};

/* Memory beside backend and feed, threads being those of the backend, and n_ranks 1 without a
 * comm. */
uint64_t ts_score_bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank, uint32_t threads,
                        uint32_t n_ranks, uint32_t top, int slices);

int ts_score_run(const struct ts_score_conf *conf, struct ts_score *ret, struct ts_err *err);
void ts_score_free(struct ts_score *s); /* zeroed is fine */

#endif
