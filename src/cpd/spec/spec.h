/* SPDX-License-Identifier: BSD-3-Clause */
/* spec.h - what a run computes: the objective of its model, the cells that count, and what is
 * demanded of each mode.
 *
 * Of all zeros it is least squares of all cells, 1/2 |X - model|^2. With constraints it minimises
 *     1/2 |X - model|^2 + sum over modes of ( l1 sum |A| + 1/2 l2 sum A^2 )   with  lower <= A <=
 *     upper,
 * and sum of smooth/2 times the squares of second differences of neighbouring rows (smooth.c), or
 * rows of A that are not negative and sum to 1, or columns that are orthonormal, A being the factor
 * of the mode with its share of the weights. Where there is no penalty and no bound but 0, columns
 * may be scaled between modes without changing anything, and are kept near length 1 as ever (by
 * powers of two). Where there is one, lengths matter: then nothing is scaled between modes, and the
 * run settles where lengths are in balance. A penalty on some modes alone pulls lengths into the
 * others, which pay nothing, so that it fades from sweep to sweep.
 *
 * Where cells that are not listed are unknown (observed), it is
 *     1/2 sum over listed cells of (x - model)^2 + sum over modes of 1/2 l2 sum A^2
 * with the squares of a row counted once, or once for each of its nonzeros (by_count).
 *
 * and with mean, model is that of the factors and the mean of these cells, which is a component of
 * its own in what a run hands out: its columns are of ones, and nothing that is demanded of factors
 * is demanded of them.
 *
 * A factor with bounds or on the simplex is handed out with the lengths that it has, so that it
 * keeps to them; the weights are of the other modes. Orthonormal columns leave the weights to
 * others while they are computed.
 *
 *   owner    plain values
 *   units    modes count from 0; `order` and `n` are numbers of modes
 *   threads  any
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
    /* The objective. All zero: least squares. */
    int poisson;    /* the model is of counts, and its rows are multiplied (apr.c) */
    int loss;       /* the factors descend by this loss (gcp.h); TS_GCP_NONE: they do not */
    double loss_at; /* the number of a loss that takes one; else 0 */
    int lbfgsb;     /* with a loss: a step is of all modes at once (lbfgsb.c) */

    /* The cells. */
#define SETTING(...)
#define SETTING_OF_METHOD(member, option, letter, kind, ...) TS_VALUE_OF_##kind member;
    /* observed: cells that are not listed are unknown; mean: they count less the mean of those not
     * held out */
#include "base/settings.def"
    /* of least squares and of counts: nonzeros are held out, and are zeros to the model */
    int held;
    int best; /* the factors of the least error at held-out cells are kept until the end (best.h) */

    /* The modes. */
    int by_count; /* with observed: l2 counts once for each nonzero of a row */
    struct ts_constraint mode[TS_MAX_ORDER];
};

/* Sets what settings have by default, of a specification of zeros. */
void ts_spec_defaults(struct ts_spec *ret);

/* Least squares of all cells: what a NULL pointer to a specification stands for. */
extern const struct ts_spec ts_spec_plain;

/* In all functions below spec may be NULL. */
static inline const struct ts_spec *ts_spec_of(const struct ts_spec *spec)
{
    return spec != NULL ? spec : &ts_spec_plain;
}

/* ---- of the run ---- */

/* Whether it is more than least squares of all cells, with modes that are free. */
int ts_spec_any(const struct ts_spec *spec, uint32_t order);

/* Some mode has a penalty. */
int ts_spec_penalty(const struct ts_spec *spec, uint32_t order);

/* Lengths of columns matter: some mode has a penalty or is rigid, or the objective asks for it. */
int ts_spec_lengths(const struct ts_spec *spec, uint32_t order);

/* Bit k: an update of enum ts_row_kind k is needed for one of the modes. */
uint32_t ts_spec_updates(const struct ts_spec *spec, uint32_t order);

/* Bit m: mode m is fixed and not the last, whose product the fit needs: there is no pass over
 * it. */
uint32_t ts_spec_skipped(const struct ts_spec *spec, uint32_t order);

/* Bit m: mode m's update reads old rows, beside which its product lies. */
uint32_t ts_spec_own(const struct ts_spec *spec, uint32_t order);

/* Bit m: the factor of mode m is not replaced when its turn comes, so that a state needs it even
 * then. */
uint32_t ts_spec_stays(const struct ts_spec *spec, uint32_t order);

/* Matrices of the size of each factor that a method keeps between modes, and a state holds: moments
 * of Adam, or what lbfgsb.c says. */
#define TS_MOMENTS_ADAM   2u
#define TS_MOMENTS_LBFGSB 12u
#define TS_MOMENT_BEST    TS_MOMENTS_LBFGSB /* where there is one: the factors that best.h keeps */
#define TS_MOMENTS_MOST   (TS_MOMENT_BEST + 1)
uint32_t ts_spec_moments(const struct ts_spec *spec);

/* Whether there is this one of TS_MOMENTS_MOST. */
int ts_spec_has_moment(const struct ts_spec *spec, uint32_t which);

/* ---- of a mode ---- */

/* No entry may be below 0. */
int ts_spec_positive(const struct ts_spec *spec, uint32_t mode);

enum ts_row_kind ts_spec_row_kind(const struct ts_spec *spec, uint32_t mode);

/* What is asked of the mode by itself and with all others: "nonnegative, l1 0.1" or "none", for
 * sentences. */
void ts_spec_text(const struct ts_spec *spec, uint32_t mode, char *ret, size_t room);

/* Whether the same is asked of the mode, by itself and with all others, in what a state holds. The
 * rest was compared as text (run_options.h). */
int ts_spec_same_state(const struct ts_spec *a, const struct ts_spec *b, uint32_t mode);

/* ---- what is possible ---- */

/* Whether a run by this loss (TS_GCP_NONE with poisson 0: least squares) can only be of observed
 * cells, which is taken for given then: cells of the tensor have weights, or are unknown (NaN, once
 * they were looked at); or the loss is for numbers above 0, and all cells are listed, once each. */
int ts_spec_takes_observed(const struct ts_tensor *t, int loss, int poisson);

/* What spec_pairs.def speaks of. ACCELERATE is no part of a specification, but of what is asked
 * beside it. */
enum ts_spec_property {
#define OF_RUN(NAME, member, value)  TS_HAS_##NAME,
#define OF_MODE(NAME, member, value) TS_HAS_##NAME,
#include "cpd/spec/spec_pairs.def"
    TS_HAS_ACCELERATE,
    TS_N_PROPERTIES
};

/* Bit k: the mode, by itself or with all others, has the property k. */
uint32_t ts_spec_properties(const struct ts_spec *spec, uint32_t mode);

/* TS_EARG where its parts cannot be met together. */
int ts_spec_check(const struct ts_spec *spec, uint32_t order, struct ts_err *err);

/* TS_EARG where they cannot be met with a property that is asked for beside the specification. */
int ts_spec_check_beside(const struct ts_spec *spec, uint32_t order, enum ts_spec_property beside,
                         struct ts_err *err);

#endif
