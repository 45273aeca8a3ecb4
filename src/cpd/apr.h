/* SPDX-License-Identifier: BSD-3-Clause */
/* apr.h - models of counts: the modes of CP-APR, alternating Poisson regression, with multiplicative updates.
 *
 * It makes  log L = sum over nonzeros of x log m - sum over all cells of m  as large as it gets (without log x!, which
 * does not depend on the model), by algorithm 3 of Chi and Kolda, "On tensors, sparsity, and nonnegative factorizations"
 * (SIAM Journal on Matrix Analysis and Applications 33, 2012). Columns of all factors have the sum 1, weights apart. Of
 * mode n, with B = A_n diag(weights), each of `inner` rounds is
 *     phi := (X / max(B K', 1e-10)) K,  K the product of the other factors,    B := B .* phi
 * and then the weights are the sums of B's columns. Zeros (entries below 1e-10 of a column) with a phi above 1 in the last
 * round get 0.01 added when the mode comes again: a multiplication would leave them 0 though they should not be.
 *
 * The violation (of the Karush-Kuhn-Tucker conditions) is the largest |min(b, 1 - phi)| of the first round of any mode
 * of the sweep: 0 at a local optimum. The run has converged when it is less than the tolerance.
 *
 * All rounds of a row are made while its shard is there; a row that lies in several shards gets one round a sweep
 * (cpu/rounds.h).
 *
 *   owner    as of ALS (als.h), whose run this is
 *   threads  one calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_APR_H
#define TS_CPD_APR_H

#include "cpd/als_impl.h"

/* Values are counts, none below 0, or TS_EARG names the first that is not; and there are rounds. */
int ts_apr_check(const struct ts_als_conf *conf, struct ts_err *err);

/* The start: columns get sums of 1, weights the rest. */
int ts_apr_start(struct ts_als *a, struct ts_err *err);

/* The product of a mode and its rows; then what the method keeps of it. */
int ts_apr_multiply(struct ts_als *a, struct ts_err *err);
int ts_apr_take(struct ts_als *a, struct ts_err *err);

#endif
