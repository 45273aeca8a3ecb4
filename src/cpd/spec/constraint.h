/* SPDX-License-Identifier: BSD-3-Clause */
/* constraint.h - what a method demands of the factor of one mode.
 *
 * What holds for all modes, and the functions of both, are in spec.h.
 *
 *   owner    plain values
 *   threads  any
 *   errors   none
 */
#ifndef TS_CPD_CONSTRAINT_H
#define TS_CPD_CONSTRAINT_H

#include <stdint.h>

#include "base/setting_kind.h"

/* All zero: nothing is demanded. There is a member for each setting of modes in base/settings.def,
 * whose help says more:
 *
 *   int nonneg         no entry is below 0
 *   int fixed          the factor stays that of the start, rows of empty slices being 0
 *   int simplex        rows are not negative and sum to 1, those of empty slices apart
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

/* Lengths of columns of this mode are not to be changed while it is computed: it has bounds, its
 * rows a sum, or its columns lengths of 1. */
int ts_constraint_rigid(const struct ts_constraint *c);

/* Nor are they or signs in the result. */
int ts_constraint_as_it_is(const struct ts_constraint *c);

/* Whether a start is so much larger than a tensor of this norm, with nnz of so many cells, that the
 * next factor is a ten thousandth of the one before, or less. Its model is about the same in all
 * cells, so that this is |X| / |model| times the root of nnz / cells. */
int ts_constraint_too_large(double norm, uint64_t nnz, double cells, double model_square);

/* Rounds of coordinate descent at most, for a mode of n_rows of a tensor: 2 to 5. More lead further
 * in a sweep, and are worth it where the product takes most of the time. A round over a row costs
 * about rank^2 / 30 ns, the product rank / 20 ns for a nonzero, on one core: a fifth or so of that
 * may go into rounds beyond the second. too_large: 2: all factors are those of a start of another
 * size, and more rounds would choose for the run, by a model that is not there yet, which
 * components it finds. */
uint32_t ts_constraint_rounds(int too_large, uint32_t order, uint64_t nnz, uint64_t n_rows,
                              uint32_t rank);

#endif
