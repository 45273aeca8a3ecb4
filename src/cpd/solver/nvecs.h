/* SPDX-License-Identifier: BSD-3-Clause */
/* nvecs.h - a start of leading left singular vectors: of each unfolding of the tensor, about the
 * first `rank`.
 *
 * The range of X_(n) is found by what it makes of random vectors (Halko, Martinsson, Tropp 2011).
 * Vectors as long as the product of the other modes are not drawn whole: they are columns of a
 * Khatri-Rao product of small random matrices (Sun, Guo, Tropp, Udell 2018), so that one MTTKRP is
 * all it takes. Mode after mode, from the second, twice:
 *     Y := X_(n) khatri_rao(B_m, m != n),   Y' Y = Z diag(d) Z',   U_n := Y Z diag(d)^-1/2,   B_n
 *     := U_n O_n.
 * B_m is drawn, uniform in [-1, 1), until U_m is there. From then on what is drawn lies in the
 * range that was found (sequential truncation; Vannieuwenhoven, Vandebril, Meerbergen 2012): O_m is
 * orthogonal, a cosine transform whose rows have random signs, so that columns of U_m meet those of
 * other modes in all combinations. There are no more columns than the rank, so that the last ones
 * of the first round are rough; the second finds them within the ranges of the other modes. The
 * first mode comes last, where it is wanted at all: the first sweep replaces it before it is an
 * operand.
 *
 * Columns come by descending d, with the sign that makes their sum positive or 0; where the mode
 * must not be negative, what is below 0 becomes 0. Where a mode has fewer rows than the rank, or Y
 * fewer dimensions (d below TS_NVECS_NONE of the largest), the rest of the columns are drawn,
 * uniform in [0, 1) over the root of the number of rows.
 *
 *   owner    the caller owns all matrices; rows are the backend's
 *   threads  one calls; rows are spread over init->threads, each computed by itself
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
    int first;       /* whether the first mode is computed as well */
    double *gram;    /* order x rank x rank: at the end, the Gram matrices of the factors */
    double *scratch; /* 2 x rank x rank */
};

int ts_nvecs_start(const struct ts_nvecs_conf *conf, struct ts_err *err);

/* Entry (j, r) of the orthogonal rank x rank matrix O_m of a mode, which mixes singular vectors
 * (see above). */
double ts_nvecs_mix(uint64_t seed, uint32_t mode, uint32_t rank, uint32_t j, uint32_t r);

#endif
