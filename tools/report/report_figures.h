/* SPDX-License-Identifier: BSD-3-Clause */
/* report_figures.h - computes, from the Gram matrices of the factors, how similar the components
 * of a decomposition are and how well conditioned its equations are.
 *
 *   congruence  of two components: the product over all modes of the cosine of their columns
 *               (Tucker's): 1 or -1 if they differ only in weight, 0 if they are orthogonal in a
 *               mode
 *   singular    of mode m: the singular values, largest first, of V_m, the elementwise product of
 *               the other modes' Gram matrices of normalized columns; least squares uses its
 *               inverse to compute the factor of mode m
 *   cancelling  sum of the squared norms of components over that of their sum: 1 if they are
 *               orthogonal, large if they cancel each other
 *
 *   owner    the caller owns the struct; free takes an all-zero one
 *   threads  pure
 *   errors   TS_ENOMEM
 */
#ifndef TS_TOOLS_REPORT_FIGURES_H
#define TS_TOOLS_REPORT_FIGURES_H

#include "tools/report/report_scan.h"

/* most components n for which singular values are computed, which takes n^3 operations */
#define REPORT_MOST_SOLVED 256u

struct report_figures {
    uint32_t n, order;
    double *congruence; /* n x n: of each two components */
    double *singular;   /* order x n: of each mode; NULL: there are too many components */
    double cancelling;
};

/* Computes the members of *ret from the Gram matrices in s. weight: weights of the components
 * shown, in their order. */
int report_figures_new(const struct report_scan *s, const double *weight,
                       struct report_figures *ret, struct ts_err *err);
void report_figures_free(struct report_figures *f);

#endif
