/* SPDX-License-Identifier: BSD-3-Clause */
/* exact_fit.h - computes the fit of any model of a tensor, as exactly as float64 products allow.
 *
 * With X the tensor, M the model, and P the MTTKRP of one mode n by the model's factors A_m and
 * weights lambda,
 *     fit = 1 - |X - M| / |X|,   |X - M|^2 = |X|^2 + |M|^2 - 2 <X, M>,
 *     |M|^2 = lambda' (elementwise product of all A_m' A_m) lambda,
 *     <X, M> = sum over r of  lambda_r  sum over i of  A_n(i, r) P(i, r).
 * Only P and |X| (from the tensor's header) are sums in plain float64. Everything else is computed
 * in twice that precision, by products and sums that keep their rounding errors (Ogita, Rump and
 * Oishi, SIAM J. Sci. Comput. 26, 2005). The reason: components may be many times larger than the
 * model and cancel. Then |M|^2 is a small difference of large numbers, which grow with the square
 * of the components' size.
 *
 * The rounding error that remains is estimated from the sizes of the terms: component r adds at
 * most |X| |lambda_r| (product of its column norms) to the terms of <X, M>. The signs of n
 * roundings are taken as random, so their sum counts as sqrt(n) roundings. ret->error is the
 * estimated error of the fit: some 1e-14 / (1 - fit) for components as large as the model, and 1e-7
 * for an exact model. It grows with the square root of the components' size.
 *
 * A model has a row for every index of a mode, or for used indices alone: those that modeK.index
 * lists, or else those that the tensor uses. Rows of empty slices count in |M|. Indices without a
 * row count as zeros.
 *
 *   owner    the caller owns all; the backend's factors are of no use afterwards
 *   threads  one thread calls; the backend uses its own, conf->threads threads share Gram matrices
 *   errors   0 or a negative ts_code: that of a failed read, TS_EARG if shapes differ, TS_ELIMIT if
 *            numbers leave the range of float64
 *   bits     results do not depend on threads, ranks, memory or order of delivery
 */
#ifndef TS_CPD_EXACT_FIT_H
#define TS_CPD_EXACT_FIT_H

#include <signal.h>
#include <stdint.h>

#include "model/model_read.h"
#include "stream/backend.h"

struct ts_exact_fit_conf {
    const struct ts_tensor *tensor;
    const struct ts_backend *backend;
    void *be;               /* the opened backend, with the model's rank and TS_FLOAT64 */
    struct ts_feed *feed;   /* reads the shards of ts_exact_fit_mode, or of all modes */
    struct ts_model *model; /* a freshly opened model, of which no row was read yet */
    double norm;      /* |X| without the cells that the backend holds out; 0: |X| of the tensor */
    uint32_t threads; /* threads that compute Gram matrices; 0: all CPUs */
    /* ranks (processes) of the backend, each of which computes a part; NULL: this process alone */
    struct ts_comm *comm;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
};

struct ts_exact_fit {
    /* if all values of the tensor are zeros: 1 for a model of zeros, otherwise minus infinity */
    double fit;
    double residual;   /* |X - M| */
    double norm;       /* |X| */
    double model_norm; /* |M| */
    double error;      /* estimate of the largest difference between `fit` and the exact fit */
};

/* Returns the mode whose MTTKRP is computed: the mode with the fewest rows, because the model's
 * factor of this mode stays in memory. */
uint32_t ts_exact_fit_mode(const struct ts_tensor *t);

/* Returns the bytes that ts_exact_fit_run allocates besides backend and feed. Most of them are for
 * the rows of ts_exact_fit_mode. */
uint64_t ts_exact_fit_bytes(const struct ts_tensor *t, const struct ts_model *model);

int ts_exact_fit_run(const struct ts_exact_fit_conf *conf, struct ts_exact_fit *ret,
                     struct ts_err *err);

#endif
