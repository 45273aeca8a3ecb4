/* SPDX-License-Identifier: BSD-3-Clause */
/* entropy.h - the lower bound of bytes per nonzero.
 *
 *   units    bits (log2)
 *   threads  pure
 */
#ifndef TS_BUILD_ENTROPY_H
#define TS_BUILD_ENTROPY_H

/* log2 of the number of ways to choose k of n cells; 0 when k >= n. n and k are whole numbers, n up
 * to 2^640 (16 modes of 2^40). Relative error about 1e-12, whatever the sizes. */
double ts_entropy_log2_choose(double n, double k);

#endif
