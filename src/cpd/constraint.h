/* SPDX-License-Identifier: BSD-3-Clause */
/* constraint.h - what a method demands of the factor of a mode, and which row update keeps to it.
 *
 * With constraints ALS minimises
 *     1/2 |X - model|^2 + sum over modes of ( l1 sum |A| + 1/2 l2 sum A^2 )   with  lower <= A <= upper,
 * and sum of smooth/2 times the squares of second differences of neighbouring rows (smooth.h),
 * or rows of A that are not negative and sum to 1, or columns that are orthonormal, A being the factor of the mode with its share of the weights. Where
 * there is no penalty and no bound but 0, columns may be scaled
 * between modes without changing anything, and are kept near length 1 as ever (by powers of two).
 * Where there is one, lengths matter: then nothing is scaled
 * between modes, and the run settles where lengths are in balance. A penalty on some modes alone pulls
 * lengths into the others, which pay nothing, so that it fades from sweep to sweep.
 *
 * Where cells that are not listed are unknown (observed, of all modes), it is
 *     1/2 sum over listed cells of (x - model)^2 + sum over modes of 1/2 l2 sum A^2
 * with the squares of a row counted once, or once for each of its nonzeros (by_count).
 *
 * and with mean, model is that of the factors and the mean of these cells, which is a component of its own in what a run
 * hands out: its columns are of ones, and nothing that is demanded of factors is demanded of them.
 *
 * A factor with bounds or on the simplex is handed out with the lengths that it has, so that it keeps to them; the
 * weights are of the other modes. Orthonormal columns leave the weights to others while they are computed.
 *
 *   owner    plain values
 *   threads  any
 *   errors   0 or TS_EARG
 */
#ifndef TS_CPD_CONSTRAINT_H
#define TS_CPD_CONSTRAINT_H

#include <stddef.h>

#include "base/err.h"
#include "stream/loss.h"
#include "stream/row_update.h"

/* Of one mode; all zero: none. */
struct ts_tensor;

struct ts_constraint {
    int nonneg;  /* no entry is below 0 */
    int poisson; /* the model is of counts, rows are multiplied (apr.c): of all modes, or of none */
    int fixed;   /* the factor stays that of the start, rows of empty slices being 0 */
    double l1, l2; /* not negative */
    int simplex;   /* rows are not negative and sum to 1, those of empty slices apart */
    int bounded;   /* entries are between these, one of which may be infinite: */
    double lower, upper;
    int orthogonal; /* columns are orthonormal */
    double smooth;  /* not negative */
    int observed;   /* of each mode: cells that are not listed are unknown, */
    enum ts_loss_kind
        loss;       /* of each mode: the factors descend (gcp.h); TS_GCP_NONE: they do not */
    double loss_at; /* the number of a loss that takes one; else 0 */
    int lbfgsb;     /* with a loss, of each mode: the steps are of all modes at once (lbfgsb.c) */
    int held; /* of each mode, of least squares and of counts: nonzeros are held out, and to the model they are zeros */
    int best; /* of each mode: the factors of the least error at held-out cells are kept until the end (best.h) */
    int by_count; /* and l2 counts once for each nonzero of a row */
    int mean; /* of each mode, with observed: the model is of values less the mean of those that are not held out */
};

/* Whether there is any among those of n modes; c may be NULL. */
int ts_constraint_any(const struct ts_constraint *c, uint32_t n);

int ts_constraint_penalty(const struct ts_constraint *c, uint32_t n);

/* Lengths of columns of this mode are not to be changed while it is computed: it has bounds, its rows a sum, or its
 * columns lengths of 1. */
int ts_constraint_rigid(const struct ts_constraint *c);

/* Nor are they or signs in the result. */
int ts_constraint_as_it_is(const struct ts_constraint *c);

/* Lengths of columns matter: some mode has a penalty or is rigid. */
int ts_constraint_lengths(const struct ts_constraint *c, uint32_t n);

/* No entry may be below 0. */
int ts_constraint_positive(const struct ts_constraint *c);

static inline int ts_constraint_best(const struct ts_constraint *c)
{
    return c != NULL && c[0].best;
}

/* Nonzeros are held out of products, and to the model they are zeros. */
static inline int ts_constraint_held(const struct ts_constraint *c)
{
    return c != NULL && c[0].held;
}

/* Whether a mean is subtracted; c may be NULL. Then a model has a component more than its rank. */
static inline int ts_constraint_mean(const struct ts_constraint *c)
{
    return c != NULL && c[0].mean;
}

enum ts_row_kind ts_constraint_kind(const struct ts_constraint *c);

/* Bit k: an update of enum ts_row_kind k is needed for one of the n modes. */
uint32_t ts_constraint_updates(const struct ts_constraint *c, uint32_t n);

/* Bit m: mode m is fixed and not the last, whose product the fit needs: there is no pass over it. */
uint32_t ts_constraint_skipped(const struct ts_constraint *c, uint32_t n);

/* Bit m: mode m's update reads old rows, beside which its product lies. */
uint32_t ts_constraint_own(const struct ts_constraint *c, uint32_t n);

/* Bit m: the factor of mode m is not replaced when its turn comes, so that a state needs it even then. */
uint32_t ts_constraint_stays(const struct ts_constraint *c, uint32_t n);

/* Whether a start is so much larger than a tensor of this norm, with nnz of so many cells, that the next factor is a ten thousandth of
 * the one before, or less. Its model is about the same in all cells, so that this is |X| / |model| times the root of nnz / cells. */
int ts_constraint_too_large(double norm, uint64_t nnz, double cells, double model_square);

/* Rounds of coordinate descent at most, for a mode of n_rows of a tensor: 2 to 5. More lead further in a sweep,
 * and are worth it where the product takes most of the time. A round over a row costs about rank^2 / 30 ns, the
 * product rank / 20 ns for a nonzero, on one core: a fifth or so of that may go into rounds beyond the second. too_large: 2: all
 * factors are those of a start of another size, and more rounds would choose for the run, by a model that is not there yet, which
 * components it finds. */
uint32_t ts_constraint_rounds(int too_large, uint32_t order, uint64_t nnz, uint64_t n_rows,
                              uint32_t rank);

/* TS_EARG where they cannot be met together. */
/* Whether a run by this loss (TS_GCP_NONE with poisson 0: least squares) can only be of observed cells, which is taken for given
 * then: cells of the tensor have weights, or are unknown (NaN, once they were looked at); or the loss is for numbers above 0, and
 * all cells are listed, once each. */
int ts_constraint_takes_observed(const struct ts_tensor *t, enum ts_loss_kind loss, int poisson);

int ts_constraint_check(const struct ts_constraint *c, uint32_t n, struct ts_err *err);

/* "nonnegative, l1 0.1" or "none", for sentences. */
void ts_constraint_text(const struct ts_constraint *c, char *ret, size_t room);

/* Matrices of the size of each factor that a method keeps between modes, and a state holds: moments of Adam, or what
 * lbfgsb.c says. */
#define TS_MOMENTS_ADAM   2u
#define TS_MOMENTS_LBFGSB 12u
#define TS_MOMENT_BEST    TS_MOMENTS_LBFGSB /* where there is one: the factors that best.h keeps */
#define TS_MOMENTS_MOST   (TS_MOMENT_BEST + 1)
uint32_t ts_constraint_moments(const struct ts_constraint *c); /* c: of the first mode */

/* Whether there is this one of TS_MOMENTS_MOST. */
static inline int ts_constraint_has_moment(const struct ts_constraint *c, uint32_t which)
{
    return which == TS_MOMENT_BEST ? c->best : which < ts_constraint_moments(c);
}

int ts_constraint_same(const struct ts_constraint *a, const struct ts_constraint *b);

#endif
