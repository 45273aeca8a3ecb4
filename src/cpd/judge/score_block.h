/* SPDX-License-Identifier: BSD-3-Clause */
/* score_block.h - sums over the nonzeros of a block, values x and models m: what score.h adds up.
 *
 *   owner    the caller
 *   units    n at most TS_BLOCK_NNZ
 *   threads  any
 *   errors   none
 *   bits     the same on all x86-64 processors: vectors of four float64, without fused
 *            multiply-adds
 */
#ifndef TS_CPD_SCORE_BLOCK_H
#define TS_CPD_SCORE_BLOCK_H

#include "cpd/judge/score.h"

/* Lane k sums every fourth nonzero from k on. If n is no multiple of four, the last nonzeros go to
 * one lane each. */
#define TS_SCORE_LANES 4u

void ts_score_block(uint32_t n, const double *x, const double *m, struct ts_score_sums *ret);

/* Whether some |x - m| is at least `least`. */
int ts_score_reaches(uint32_t n, const double *x, const double *m, double least);

/* Sets *ret to the sum of x log m, with 0 log 0 = 0. Returns 0 if an x is no count, if an m is
 * negative, or if m is 0 and x is not. */
int ts_score_logs(uint32_t n, const double *x, const double *m, double *ret);

#endif
