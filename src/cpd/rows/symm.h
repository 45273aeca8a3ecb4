/* SPDX-License-Identifier: BSD-3-Clause */
/* symm.h - inverts rank x rank Gram matrices, and computes their eigenvectors.
 *
 * This is not left to LAPACK, because the matrices are small, and a BLAS chooses kernels by CPU and
 * divides loops by thread count: results would depend on both. Some also start threads and map
 * buffers when they are loaded, which breaks a memory limit. Vectors of four numbers are a part of
 * the algorithm, not of the machine: sums have four parts on every machine, and products are
 * rounded before they are added. AVX2 only makes it faster.
 *
 *   owner    the caller owns the matrices: row-major, n x n, without padding
 *   threads  pure functions of one thread, or of several that share rows, with the same bits
 *   errors   TS_ENOMEM, or TS_ESTOP with ret of no use
 */
#ifndef TS_CPD_SYMM_H
#define TS_CPD_SYMM_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"

/* The inverse is computed by Cholesky if the estimate of 1 / condition number is above this and
 * above the cut, an argument of ts_symm_pinv. */
#define TS_SYMM_RCOND 1e-8
/* The cut for matrices with rounding errors of float64. Entries of a solution may be 1e5 times
 * their sum. Their squares then have rounding errors of 1e-6 of the square of that sum. */
#define TS_SYMM_CUT 1e-10

/* ret := the pseudo-inverse of v, which is symmetric and positive semidefinite except for rounding.
 * Singular values below `cut` of the largest count as zero. The right cut depends on what is
 * multiplied by ret: a right-hand side with relative errors of e gives a solution with errors of e
 * / sqrt(cut) in the norm that v defines. ret may not be v; it is NaN if v is not finite. *singular
 * (may be NULL) is 1 if v was too badly conditioned for Cholesky. Only then *stop is checked (NULL,
 * or not 0 when the user wants to stop). */
int ts_symm_pinv(uint32_t n, const double *v, double cut, const volatile sig_atomic_t *stop,
                 double *ret, int *singular, struct ts_err *err);

/* Like ts_symm_pinv, with `threads` threads (0: all), if there are enough rows for them.
 * Eigenvectors are computed by one thread. */
int ts_symm_pinv_by(uint32_t threads, uint32_t n, const double *v, double cut,
                    const volatile sig_atomic_t *stop, double *ret, int *singular,
                    struct ts_err *err);

/* Like ts_symm_pinv, with the same bits, but only with instructions that every machine has: for
 * tests. */
int ts_symm_pinv_portable(uint32_t n, const double *v, double cut,
                          const volatile sig_atomic_t *stop, double *ret, int *singular,
                          struct ts_err *err);

/* d := the eigenvalues of the symmetric and finite v, in any order. Rows of z := orthonormal
 * eigenvectors. */
int ts_symm_eigen(uint32_t n, const double *v, double *d, double *z, struct ts_err *err);

/* Returns the bytes that a call allocates and frees. */
uint64_t ts_symm_bytes(uint32_t n);

#endif
