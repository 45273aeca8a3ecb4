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

/* sums of every fourth nonzero; of the last ones, which make no four, one each */
#define TS_SCORE_LANES 4u

void ts_score_block(uint32_t n, const double *x, const double *m, struct ts_score_sums *ret);

/* Whether an |x - m| is `least` or more. */
int ts_score_reaches(uint32_t n, const double *x, const double *m, double least);

/* *ret := the sum of x log m, of which 0 log 0 is 0. Returns 0 where an x is no count, or an m
 * below 0, or 0 where x is not. */
int ts_score_logs(uint32_t n, const double *x, const double *m, double *ret);

#endif
