/* SPDX-License-Identifier: BSD-3-Clause */
/* report_figures.h - how alike the components of a decomposition are, and how well its equations
 * can be solved: all from the Gram matrices of its factors.
 *
 *   congruence  of two components: the product over all modes of the cosine of their columns
 *               (Tucker's): 1 or -1 where they are the same but for weight, 0 where one mode tells
 *               them apart
 *   singular    of mode m: the singular values, largest first, of V_m, the elementwise product of
 *               the other modes' Gram matrices of normed columns, by whose inverse least squares
 *               gets the factor of mode m
 *   cancelling  sum of the squared norms of components over that of their sum: 1 where they are
 *               orthogonal, large where they cancel each other
 *
 *   owner    the caller owns the struct; free takes an all-zero one
 *   threads  pure
 *   errors   TS_ENOMEM
 */
#ifndef TS_TOOLS_REPORT_FIGURES_H
#define TS_TOOLS_REPORT_FIGURES_H

#include "tools/report/report_scan.h"

#define REPORT_MOST_SOLVED 256u /* components that singular values are computed of: n^3 work */

struct report_figures {
    uint32_t n, order;
    double *congruence; /* n x n */
    double *singular;   /* order x n; NULL: too many components */
    double cancelling;
};

/* weight: of the components shown, in their order. */
int report_figures_new(const struct report_scan *s, const double *weight,
                       struct report_figures *ret, struct ts_err *err);
void report_figures_free(struct report_figures *f);

#endif
