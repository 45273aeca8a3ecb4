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
    double loss_at; /* the number that the loss takes; 0 if it takes none */
    int lbfgsb;     /* with a loss: each step changes all modes at once (lbfgsb.c) */

    /* The cells. */
#define SETTING(...)
#define SETTING_OF_METHOD(member, option, letter, kind, ...) TS_VALUE_OF_##kind member;
    /* observed: cells that are not listed are unknown. mean: the mean of the cells that are not
     * held out is subtracted from all of them */
#include "base/settings.def"
    /* with least squares or a Poisson model: nonzeros are held out, and count as zeros in the
     * fit */
    int held;
    /* the factors with the least error at held-out cells are kept until the end (best.h) */
    int best;

    /* The modes. */
    int by_count; /* with observed: l2 counts once for each nonzero of a row */
    struct ts_constraint mode[TS_MAX_ORDER];
};

/* Sets the defaults of all settings in a specification that is all zero. */
void ts_spec_defaults(struct ts_spec *ret);

/* Least squares of all cells. A NULL pointer to a specification means this one. */
extern const struct ts_spec ts_spec_plain;

/* In all functions below spec may be NULL. */
static inline const struct ts_spec *ts_spec_of(const struct ts_spec *spec)
{
    return spec != NULL ? spec : &ts_spec_plain;
}

/* ---- of the run ---- */

/* Whether the specification is more than least squares of all cells without constraints. */
int ts_spec_any(const struct ts_spec *spec, uint32_t order);

/* Some mode has a penalty. */
int ts_spec_penalty(const struct ts_spec *spec, uint32_t order);

/* Whether lengths of columns matter: some mode has a penalty or is rigid, or the objective depends
 * on them. */
int ts_spec_lengths(const struct ts_spec *spec, uint32_t order);

/* Bit k: some mode needs the update k of enum ts_row_kind. */
uint32_t ts_spec_updates(const struct ts_spec *spec, uint32_t order);

/* Bit m: no pass is made over mode m. It is fixed, and is not the last mode, whose product the fit
 * needs. */
uint32_t ts_spec_skipped(const struct ts_spec *spec, uint32_t order);

/* Bit m: the update of mode m reads the old rows, so its product needs memory of its own. */
uint32_t ts_spec_own(const struct ts_spec *spec, uint32_t order);

/* Bit m: the update of mode m needs its old factor, so states always include it. */
uint32_t ts_spec_stays(const struct ts_spec *spec, uint32_t order);

/* Number of matrices of a factor's size that a method keeps between modes, and states include: the
 * moments of Adam, or those of lbfgsb.c. */
#define TS_MOMENTS_ADAM   2u
#define TS_MOMENTS_LBFGSB 12u
/* number of the moment with the factors that best.h keeps, if it is used */
#define TS_MOMENT_BEST  TS_MOMENTS_LBFGSB
#define TS_MOMENTS_MOST (TS_MOMENT_BEST + 1)
uint32_t ts_spec_moments(const struct ts_spec *spec);

/* Whether the specification needs moment number `which` of TS_MOMENTS_MOST. */
int ts_spec_has_moment(const struct ts_spec *spec, uint32_t which);

/* ---- of a mode ---- */

/* Whether entries must not be negative. */
int ts_spec_positive(const struct ts_spec *spec, uint32_t mode);

enum ts_row_kind ts_spec_row_kind(const struct ts_spec *spec, uint32_t mode);

/* Writes the constraints of a mode, its own and those of all modes, for messages: "nonnegative, l1
 * 0.1" or "none". */
void ts_spec_text(const struct ts_spec *spec, uint32_t mode, char *ret, size_t room);

/* Whether the constraints of a mode, its own and those of all modes, are the same, as far as states
 * have them as numbers. The others were compared as text (run_options.h). */
int ts_spec_same_state(const struct ts_spec *a, const struct ts_spec *b, uint32_t mode);

/* ---- what is possible ---- */

/* Whether a run by this loss (TS_GCP_NONE with poisson 0: least squares) is always of observed
 * cells, even if not asked for. It is, if cells of the tensor have weights or are unknown (NaN,
 * which is known once they were read). It also is if the loss is for positive numbers, and all
 * cells are listed, once each. */
int ts_spec_takes_observed(const struct ts_tensor *t, int loss, int poisson);

/* The properties of spec_pairs.def. ACCELERATE is a setting of the run outside of the
 * specification. */
enum ts_spec_property {
#define OF_RUN(NAME, member, value)  TS_HAS_##NAME,
#define OF_MODE(NAME, member, value) TS_HAS_##NAME,
#include "cpd/spec/spec_pairs.def"
    TS_HAS_ACCELERATE,
    TS_N_PROPERTIES
};

/* Bit k: property k holds for the mode, or for all modes. */
uint32_t ts_spec_properties(const struct ts_spec *spec, uint32_t mode);

/* TS_EARG if two parts exclude each other. */
int ts_spec_check(const struct ts_spec *spec, uint32_t order, struct ts_err *err);

/* TS_EARG if the specification excludes a property that is set outside of it. */
int ts_spec_check_beside(const struct ts_spec *spec, uint32_t order, enum ts_spec_property beside,
                         struct ts_err *err);

#endif
