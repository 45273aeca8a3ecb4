/* symm.h - the small dense linear algebra of ALS: inverses of rank x rank Gram matrices.
 *
 * Written out here, not taken from LAPACK: the matrices are small, and a BLAS chooses kernels by CPU
 * and cuts its loops by thread count, so the bits of a run would depend on it; some also start
 * threads and map buffers when they are loaded, which breaks a memory limit.
 *
 *   owner    the caller owns the matrices: row-major, n x n, without padding
 *   threads  pure functions; they use one thread
 *   errors   TS_ENOMEM, or TS_ESTOP with ret of no use
 */
#ifndef TS_CPD_SYMM_H
#define TS_CPD_SYMM_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"

/* Above this estimate of 1 / condition number the inverse is taken by Cholesky. */
#define TS_SYMM_RCOND 1e-8
/* Singular values below this share of the largest count as zero in the pseudo-inverse. */
#define TS_SYMM_CUT 1e-12

/* ret := pseudo-inverse of the symmetric positive semidefinite v (rounding may have made it slightly
 * indefinite). ret may not be v. *singular (may be NULL) is 1 when v was too badly conditioned for
 * Cholesky; only then *stop is looked at (NULL, or not 0 when the user wants to stop). */
int ts_symm_pinv(uint32_t n, const double *v, const volatile sig_atomic_t *stop, double *ret,
                 int *singular, struct ts_err *err);

#endif
