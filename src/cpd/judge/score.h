/* SPDX-License-Identifier: BSD-3-Clause */
/* score.h - measures how well a model fits the nonzeros of a tensor: sums over all nonzeros and
 * over those of each slice of a mode, and the nonzeros with the largest residuals.
 *
 * One weighted pass (stream/weighted.h) over the copy of a mode gives the value x and the model's
 * value m of each nonzero, and the residual x - m. Unlisted cells matter for one figure only, the
 * log-likelihood of counts:
 *     sum over nonzeros of x log m, less the sum of m over all cells.
 * This is the Poisson log-likelihood without the terms log x!, which are the same for all models.
 * The second sum is computed from the column sums of the factors; 0 log 0 is 0. The log-likelihood
 * of Gaussian residuals is -n/2 (1 + log(2 pi s^2)), with n residuals and their mean square s^2.
 *
 * A backend may compute the sums in a pass of its own (capability SCORES), which hands out no
 * nonzeros. GPUs do.
 *
 * If cells have weights, all sums are weighted, and n in the likelihood is the sum of weights. Then
 * there is no log-likelihood of counts.
 *
 *   owner    the caller owns all; what ts_score_run puts into a struct ts_score is freed by
 *            ts_score_free. Afterwards the backend's factors are those of the model, with the
 *            weights in the factor of `mode`
 *   units    modes and rows from 0
 *   errors   0 or a negative ts_code: TS_ELIMIT if numbers leave the range of the precision
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
    const struct ts_backend *backend; /* has the capability CELLS or, for sums alone, SCORES */
    void *be;                         /* the backend's data, opened with the model's rank */
    struct ts_feed *feed;             /* reads the shards of `mode`, or of all modes */
    /* in each mode, a row for each index, or fewer rows and an array of their indices */
    const struct ts_kruskal *model;
    const double *weight;   /* weights of the components; NULL: those of the model */
    uint32_t mode, threads; /* threads: the number of the backend's threads */
    uint32_t top;           /* number of largest residuals to report */
    int slices;             /* 1: compute the sums of each slice of the mode */
    /* Called with every block of nonzeros, like `take` of struct ts_weighted, and with their row
     * numbers in the modes whose bits are set in `rows`; or NULL. */
    int (*take)(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err);
    void *ctx;
    uint32_t rows;
    /* 1: count unseen nonzeros: those with an index whose row in the model is all zeros */
    int unseen;
    /* ranks (processes) of the backend, each of which reads a part; all get the whole score. NULL:
     * this process alone */
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
    /* log-likelihood of counts; NAN if some value is not a count, or some model value is not
     * positive */
    double poisson;
    /* number of rows of `mode`, if sums of slices are wanted; otherwise 0 */
    uint64_t n_slices;
    struct ts_score_sums *slice; /* n_slices structs: the sums of each slice */
    uint32_t n_top;
    /* The largest residuals, in descending order. Equal residuals are in the order of the tensor's
     * copy for `mode`. */
    struct ts_score_cell *top;
    /* number of unseen nonzeros, if wanted. TS_SCORE_UNKNOWN if the backend hands out no
     * nonzeros. */
    uint64_t unseen;
    struct ts_backend_times times;
};

/* Returns the bytes that ts_score_run needs besides backend and feed. threads: the number of the
 * backend's threads; n_ranks: the number of processes. */
uint64_t ts_score_bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank, uint32_t threads,
                        uint32_t n_ranks, uint32_t top, int slices);

int ts_score_run(const struct ts_score_conf *conf, struct ts_score *ret, struct ts_err *err);
void ts_score_free(struct ts_score *s); /* s may be all zero */

#endif
