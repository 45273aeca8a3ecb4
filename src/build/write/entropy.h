/* SPDX-License-Identifier: BSD-3-Clause */
/* entropy.h - computes log2 of binomial coefficients, for the lower bound of bytes per nonzero
 * (ts_tensor_entropy_bound).
 *
 *   units    bits (log2)
 *   threads  pure
 */
#ifndef TS_BUILD_ENTROPY_H
#define TS_BUILD_ENTROPY_H

/* Returns log2 of the number of ways to choose k of n cells; 0 when k >= n. n and k are whole
 * numbers, n up to 2^640 (16 modes of 2^40). The relative error is about 1e-12 for all sizes. */
double ts_entropy_log2_choose(double n, double k);

#endif
