/* SPDX-License-Identifier: BSD-3-Clause */
/* constraint.h - the constraints and penalties on the factor of one mode.
 *
 * What holds for all modes, and functions of a whole specification, are in spec.h.
 *
 *   owner    plain values
 *   threads  any thread
 *   errors   none
 */
#ifndef TS_CPD_CONSTRAINT_H
#define TS_CPD_CONSTRAINT_H

#include <stdint.h>

#include "base/setting_kind.h"

/* Constraints and penalties of a mode; none if all members are 0. Each setting of modes in
 * base/settings.def has a member here, which the help there explains further:
 *
 *   int nonneg         no entry is negative
 *   int fixed          the factor stays that of the start; rows of empty slices are 0
 *   int simplex        rows are not negative and sum to 1, except those of empty slices
 *   int bounded        entries are between `lower` and `upper`, one of which may be infinite
 *   int orthogonal     columns are orthonormal
 *   double l1, l2, smooth   weights of penalties, not negative
 */
struct ts_constraint {
#define WHETHER(x, f) int x;
#define PENALTY(x, f) double x;
#define BOUNDS(x, f) \
    int x;           \
    double lower, upper;
#define SETTING(member, option, letter, kind, ...) TS_MODES_OF_##kind
#include "base/settings.def"
#undef WHETHER
#undef PENALTY
#undef BOUNDS
};

/* Whether the lengths of this mode's columns must not change while the mode is computed: it has
 * bounds, its rows have sum 1, or its columns have length 1. */
int ts_constraint_rigid(const struct ts_constraint *c);

/* Whether neither lengths nor signs of the mode's columns may change in the result. */
int ts_constraint_as_it_is(const struct ts_constraint *c);

/* Whether a start is far too large for a tensor of this norm with nnz nonzeros in `cells` cells:
 * the next factor will be a ten thousandth of this one, or smaller. The model of a start is about
 * the same in all cells, so this is |X| / |model| times the root of nnz / cells. */
int ts_constraint_too_large(double norm, uint64_t nnz, double cells, double model_square);

/* Returns the most rounds of coordinate descent for a mode with n_rows rows: 2 to 5. More rounds
 * make more progress in a sweep, and are worthwhile if the product takes most of the time. On one
 * core, a round over a row costs about rank^2 / 30 ns, and the product rank / 20 ns for each
 * nonzero. About a fifth of the product's time may go into rounds beyond the second. too_large:
 * always 2, because more rounds would choose the components of the run by a start of the wrong
 * size. */
uint32_t ts_constraint_rounds(int too_large, uint32_t order, uint64_t nnz, uint64_t n_rows,
                              uint32_t rank);

#endif
