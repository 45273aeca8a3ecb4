/* SPDX-License-Identifier: BSD-3-Clause */
/* score_block.h - computes sums over the nonzeros of a block, such as that of squared residuals,
 * from values x and model values m, for score.h.
 *
 *   owner    the caller
 *   units    n at most TS_BLOCK_NNZ
 *   threads  any thread
 *   errors   none
 *   bits     the same on all x86-64 processors: vectors of four float64, without fused
 *            multiply-adds
 */
#ifndef TS_CPD_SCORE_BLOCK_H
#define TS_CPD_SCORE_BLOCK_H

#include "cpd/judge/score.h"

/* Each sum has TS_SCORE_LANES partial sums, the lanes. Lane k sums nonzeros k, k + 4, k + 8 and so
 * on. If n is not a multiple of four, the last nonzeros go to one lane each. */
#define TS_SCORE_LANES 4u

void ts_score_block(uint32_t n, const double *x, const double *m, struct ts_score_sums *ret);

/* Whether |x - m| is at least `least` for some nonzero. */
int ts_score_reaches(uint32_t n, const double *x, const double *m, double least);

/* Sets *ret to the sum of x log m, with 0 log 0 = 0, and returns 1. Returns 0 if some x is not a
 * count, if some m is negative, or if m is 0 and x is not. */
int ts_score_logs(uint32_t n, const double *x, const double *m, double *ret);

#endif
