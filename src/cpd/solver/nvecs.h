/* SPDX-License-Identifier: BSD-3-Clause */
/* nvecs.h - computes a start from singular vectors: approximately the `rank` leading left singular
 * vectors of each unfolding X_(n) of the tensor.
 *
 * The range of X_(n) is found from its products with random vectors (Halko, Martinsson, Tropp
 * 2011). A vector as long as the product of the other modes is not drawn as a whole. The vectors
 * are columns of a Khatri-Rao product of small random matrices B_m (Sun, Guo, Tropp, Udell 2018),
 * so that one MTTKRP computes all products. For each mode n, from the second on, twice:
 *     Y := X_(n) khatri_rao(B_m, m != n),     Y' Y = Z diag(d) Z',
 *     U_n := Y Z diag(d)^-1/2,                B_n := U_n O_n.
 * B_m is drawn uniformly from [-1, 1) until U_m is known. From then on random vectors are in the
 * range that was found (sequential truncation; Vannieuwenhoven, Vandebril, Meerbergen 2012). O_m is
 * orthogonal: a cosine transform whose rows have random signs, so that columns of U_m are combined
 * with columns of other modes in all ways. There are only `rank` columns, so the last ones are
 * inexact after the first round. The second round improves them within the ranges of the other
 * modes. The first mode comes last, if it is computed at all: the first sweep replaces its factor
 * before any product reads it.
 *
 * Columns are in descending order of d, with the sign that makes their sum nonnegative. In
 * nonnegative modes, negative entries become 0. A mode may have fewer rows than the rank, or Y
 * fewer dimensions (d below TS_NVECS_NONE of the largest d). Then the remaining columns are drawn
 * uniformly from [0, 1), divided by the root of the number of rows.
 *
 *   owner    the caller owns all matrices; the backend owns rows
 *   threads  one thread calls; init->threads threads compute rows, each row by one thread
 *   errors   0 or a negative ts_code
 *   bits     those of the backend's products, and of seed and rank
 */
#ifndef TS_CPD_NVECS_H
#define TS_CPD_NVECS_H

#include "cpd/solver/init.h"
#include "stream/feed/feed.h"

#define TS_NVECS_NONE   1e-12
#define TS_NVECS_ROUNDS 2u

struct ts_nvecs_conf {
    const struct ts_init_conf *init;
    struct ts_feed *feed;
    int first;       /* 1: the factor of the first mode is computed as well */
    double *gram;    /* order x rank x rank: at the end, the Gram matrices of the factors */
    double *scratch; /* 2 x rank x rank numbers of free memory */
};

int ts_nvecs_start(const struct ts_nvecs_conf *conf, struct ts_err *err);

/* Returns the entry (j, r) of the orthogonal rank x rank matrix O_m of a mode, which mixes singular
 * vectors (see the head of this file). */
double ts_nvecs_mix(uint64_t seed, uint32_t mode, uint32_t rank, uint32_t j, uint32_t r);

#endif
