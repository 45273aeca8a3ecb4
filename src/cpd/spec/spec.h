/* SPDX-License-Identifier: BSD-3-Clause */
/* spec.h - what a run computes: the objective of its model, the cells that count, and the
 * constraints of each mode.
 *
 * A specification of zeros is least squares of all cells, 1/2 |X - model|^2. With constraints a run
 * minimises
 *     1/2 |X - model|^2 + sum over modes of ( l1 sum |A| + 1/2 l2 sum A^2 ),  lower <= A <= upper.
 * A is the factor of the mode, with its share of the weights. Another penalty is smooth/2 times the
 * sum of squared second differences of neighbouring rows (smooth.c). Rows of A may have to be
 * nonnegative with sum 1, or columns orthonormal. If there is no penalty and no bound but 0,
 * scaling columns between modes changes nothing: columns are kept near length 1 by powers of two.
 * With a penalty, lengths matter. Then nothing is scaled between modes, and the run converges to
 * lengths that are in balance. A penalty on some modes alone moves lengths to the other modes,
 * where they cost nothing, so its effect fades from sweep to sweep.
 *
 * If unlisted cells are unknown (observed), the objective is
 *     1/2 sum over listed cells of (x - model)^2 + sum over modes of 1/2 l2 sum A^2
 * where the squares of a row count once, or once for each of its nonzeros (by_count).
 *
 * With `mean`, the model is the model of the factors plus the mean of these cells. The result has
 * the mean as a component of its own, with columns of ones. Constraints do not apply to this
 * component.
 *
 * A factor with bounds or simplex rows is returned with the column lengths that it has, so that it
 * keeps its constraint; the other modes carry the weights. Orthonormal columns leave the weights to
 * other modes during the run.
 *
 *   owner    plain values
 *   units    modes count from 0; `order` and `n` are numbers of modes
 *   threads  any thread
 *   errors   0 or TS_EARG
 */
#ifndef TS_CPD_SPEC_H
#define TS_CPD_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cpd/spec/constraint.h"
#include "format/layout.h"
#include "stream/loss.h"
#include "stream/row_update.h"

struct ts_tensor;

struct ts_spec {
    /* the objective; if the members up to lbfgsb are 0, it is least squares */
    /* 1: a Poisson model of counts, whose rows are updated by multiplication (apr.c) */
    int poisson;
    /* the loss for gradient descent (gcp.h); TS_GCP_NONE: least squares or Poisson */
    int loss;
    double loss_at; /* the parameter of the loss; 0 if it has none */
    int lbfgsb;     /* 1: with a loss: each step changes all modes at once (lbfgsb.c) */

    /* which cells count */
#define SETTING(...)
#define SETTING_OF_METHOD(member, option, letter, kind, ...) TS_VALUE_OF_##kind member;
    /* observed: unlisted cells are unknown. mean: the mean of the cells that are not held out is
     * subtracted from all of them */
#include "base/settings.def"
    /* 1: with least squares or a Poisson model: some nonzeros are held out, and the fit treats them
     * as zeros */
    int held;
    /* 1: the factors with the least error at held-out cells are kept until the end (best.h) */
    int best;

    /* constraints of the modes */
    int by_count; /* 1: with observed: l2 counts once for each nonzero of a row */
    struct ts_constraint mode[TS_MAX_ORDER];
};

/* Sets the defaults of all settings in a specification that is all zero. */
void ts_spec_defaults(struct ts_spec *ret);

/* The specification of least squares of all cells. A NULL pointer to a specification means this
 * one. */
extern const struct ts_spec ts_spec_plain;

/* In all functions below spec may be NULL, which means ts_spec_plain. */
static inline const struct ts_spec *ts_spec_of(const struct ts_spec *spec)
{
    return spec != NULL ? spec : &ts_spec_plain;
}

/* ---- functions of a whole specification ---- */

/* Whether the run computes anything but least squares of all cells without constraints. */
int ts_spec_any(const struct ts_spec *spec, uint32_t order);

/* Whether some mode has a penalty. */
int ts_spec_penalty(const struct ts_spec *spec, uint32_t order);

/* Whether lengths of columns matter: some mode has a penalty, or columns whose lengths must not
 * change (ts_constraint_rigid), or the objective depends on the lengths. */
int ts_spec_lengths(const struct ts_spec *spec, uint32_t order);

/* Returns one bit for each row update of enum ts_row_kind. Bit k: some mode needs row update k. The
 * bit of TS_CAN_HELD_OUT is set too if nonzeros are held out. */
uint32_t ts_spec_updates(const struct ts_spec *spec, uint32_t order);

/* Returns a bit for each mode m: 1 if no pass is made over the mode, because it is fixed. The last
 * mode has a pass even if it is fixed: the fit needs its product. */
uint32_t ts_spec_skipped(const struct ts_spec *spec, uint32_t order);

/* Returns a bit for each mode m: 1 if its row update reads the old rows, so that its product
 * (MTTKRP) needs memory of its own. */
uint32_t ts_spec_own(const struct ts_spec *spec, uint32_t order);

/* Returns a bit for each mode m: 1 if its row update needs the old factor, so that states always
 * include this factor. */
uint32_t ts_spec_stays(const struct ts_spec *spec, uint32_t order);

/* Number of matrices of a factor's size that a method keeps between modes, and states include: the
 * moments of Adam, or those of lbfgsb.c. */
#define TS_MOMENTS_ADAM   2u
#define TS_MOMENTS_LBFGSB 12u
/* number of the moment that holds the factors with the least error at held-out cells (best.h) */
#define TS_MOMENT_BEST  TS_MOMENTS_LBFGSB
#define TS_MOMENTS_MOST (TS_MOMENT_BEST + 1)
uint32_t ts_spec_moments(const struct ts_spec *spec);

/* Whether the specification needs moment number `which` of TS_MOMENTS_MOST. */
int ts_spec_has_moment(const struct ts_spec *spec, uint32_t which);

/* ---- functions of the constraints of one mode ---- */

/* Whether entries of the mode's factor must not be negative. */
int ts_spec_positive(const struct ts_spec *spec, uint32_t mode);

enum ts_row_kind ts_spec_row_kind(const struct ts_spec *spec, uint32_t mode);

/* Writes the constraints that apply to a mode, those of all modes included, for messages:
 * "nonnegative, l1 0.1" or "none". */
void ts_spec_text(const struct ts_spec *spec, uint32_t mode, char *ret, size_t room);

/* Whether the same constraints apply to a mode in a and in b, as far as a state stores constraints
 * as numbers. Constraints that it stores as text are compared as text (run_options.h). */
int ts_spec_same_state(const struct ts_spec *a, const struct ts_spec *b, uint32_t mode);

/* ---- which settings can be combined ---- */

/* Whether a run by this loss always treats unlisted cells as unknown, even if not asked to.
 * (TS_GCP_NONE with poisson 0 is least squares.) It does if cells of the tensor have weights or are
 * unknown, which are NaN and known only after reading. It also does if the loss is for positive
 * numbers and each cell is listed exactly once. */
int ts_spec_takes_observed(const struct ts_tensor *t, int loss, int poisson);

/* The properties of spec_pairs.def. ACCELERATE is a setting of the run that no specification
 * holds. */
enum ts_spec_property {
#define OF_RUN(NAME, member, value)  TS_HAS_##NAME,
#define OF_MODE(NAME, member, value) TS_HAS_##NAME,
#include "cpd/spec/spec_pairs.def"
    TS_HAS_ACCELERATE,
    TS_N_PROPERTIES
};

/* Returns a bit for each property k of enum ts_spec_property: 1 if it holds for the mode, or for
 * all modes. */
uint32_t ts_spec_properties(const struct ts_spec *spec, uint32_t mode);

/* Returns TS_EARG if two settings of the specification exclude each other, or if a setting has an
 * impossible value. */
int ts_spec_check(const struct ts_spec *spec, uint32_t order, struct ts_err *err);

/* Returns TS_EARG if the specification cannot be combined with the property `beside`, which it does
 * not have itself. */
int ts_spec_check_beside(const struct ts_spec *spec, uint32_t order, enum ts_spec_property beside,
                         struct ts_err *err);

#endif
