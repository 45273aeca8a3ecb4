/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds settings that cannot be combined: the pairs of spec_pairs.def, impossible values in a mode,
 * and constraints that leave no mode free. */
#include <math.h>
#include <stddef.h>

#include "base/setting.h"
#include "cpd/spec/spec.h"

uint32_t ts_spec_properties(const struct ts_spec *spec, uint32_t mode)
{
    const struct ts_spec *s = ts_spec_of(spec);
    const struct ts_constraint *c = &s->mode[mode];
    uint32_t bits = 0;
#define OF_RUN(NAME, member, value)  bits |= (uint32_t)(s->member != 0) << TS_HAS_##NAME;
#define OF_MODE(NAME, member, value) bits |= (uint32_t)(c->member > 0) << TS_HAS_##NAME;
#include "cpd/spec/spec_pairs.def"
    return bits;
}

/* ---- checks of the values of settings in one mode ---- */

static int check_loss(const struct ts_spec *s, uint32_t mode, struct ts_err *err)
{
    const struct ts_loss *loss = ts_loss_of(s->loss);
    const int rc = ts_loss_number_check(s->loss, s->loss_at, err);
    (void)mode;
    if (rc < 0 || loss == NULL || loss->zeros || s->observed)
        return rc;
    return ts_fail(err, TS_EARG,
                   "loss %s is for %s, and cells that are not listed are zeros: with "
                   "observed they are unknown",
                   loss->name, loss->values);
}

static int is_penalty(double x)
{
    return x >= 0 && isfinite(x);
}

/* Checks all penalties of a mode. */
static int check_penalties(const struct ts_spec *s, uint32_t mode, struct ts_err *err)
{
    const struct ts_constraint *c = &s->mode[mode];
    int all = 1;
#define WHETHER(x, f)
#define PENALTY(x, f) all &= is_penalty(c->x);
#define BOUNDS(x, f)
#define SETTING(member, option, letter, kind, ...) TS_MODES_OF_##kind
#include "base/settings.def"
#undef WHETHER
#undef PENALTY
#undef BOUNDS
    return all ? 0
               : ts_fail(err, TS_EARG, TS_NTH_MODE ": a penalty must be a number of 0 or more",
                         mode + 1);
}

/* Whether a finite lower bound or an upper bound is below the least model value of the loss. */
static int beyond_loss(const struct ts_loss *loss, const struct ts_constraint *c)
{
    return loss != NULL &&
           ((isfinite(c->lower) && c->lower < loss->lower) || c->upper < loss->lower);
}

static int check_bounds(const struct ts_spec *s, uint32_t mode, struct ts_err *err)
{
    const struct ts_loss *loss = ts_loss_of(s->loss);
    const struct ts_constraint *c = &s->mode[mode];
    if (!c->bounded)
        return 0;
    if (!(c->lower <= c->upper && c->lower < INFINITY && c->upper > -INFINITY &&
          (isfinite(c->lower) || isfinite(c->upper))))
        return ts_fail(err, TS_EARG,
                       TS_NTH_MODE ": no entry is between bounds of %g and %g, or every one is; "
                                   "give a lower and an upper one",
                       mode + 1, c->lower, c->upper);
    if (beyond_loss(loss, c))
        return ts_fail(err, TS_EARG,
                       TS_NTH_MODE ": with loss %s entries of factors are %g or more, and bounds "
                                   "of %g to %g allow others; give bounds from %g up, like %g:%g",
                       mode + 1, loss->name, loss->lower, c->lower, c->upper, loss->lower,
                       loss->lower, loss->lower + 1);
    if (c->nonneg && c->upper < 0)
        return ts_fail(err, TS_EARG, TS_NTH_MODE ": no entry is nonnegative and at most %g",
                       mode + 1, c->upper);
    return 0;
}

/* Whether the member of struct ts_constraint at this offset is a property of spec_pairs.def. */
static int is_property(size_t at)
{
    static const size_t of_mode[] = {
#define OF_MODE(NAME, member, value) offsetof(struct ts_constraint, member),
#include "cpd/spec/spec_pairs.def"
    };
    size_t i = 0;
    while (i < sizeof of_mode / sizeof of_mode[0] && of_mode[i] != at)
        i++;
    return i < sizeof of_mode / sizeof of_mode[0];
}

/* Refuses a setting of modes that is not a property, unless the run is least squares of all cells:
 * no other method reads it. */
static int check_others(const struct ts_spec *s, uint32_t mode, struct ts_err *err)
{
    const struct ts_constraint *c = &s->mode[mode];
    const char *name = NULL;
    if (!s->poisson && s->loss == TS_GCP_NONE && !s->observed)
        return 0;
#define ASKED(x, option)                                              \
    if (c->x != 0 && !is_property(offsetof(struct ts_constraint, x))) \
        name = option;
#define NAME_OF(option) TS_SET_OPTION(option)
#define WHETHER(x, f)   ASKED(x, option_name)
#define PENALTY(x, f)   ASKED(x, option_name)
#define BOUNDS(x, f)    ASKED(x, option_name)
#define SETTING(member, option, letter, kind, ...)         \
    {                                                      \
        static const char option_name[] = NAME_OF(option); \
        (void)option_name;                                 \
        TS_MODES_OF_##kind                                 \
    }
#include "base/settings.def"
#undef WHETHER
#undef PENALTY
#undef BOUNDS
#undef NAME_OF
#undef ASKED
    return name == NULL
               ? 0
               : ts_fail(err, TS_EARG,
                         TS_NTH_MODE ": %s is a setting of least squares of all cells, and "
                                     "no other method reads it",
                         mode + 1, name);
}

/* ---- the table of pairs (spec_pairs.def) ---- */

struct rule {
    enum { EXCLUDED, NEEDED, CHECK } kind;
    enum ts_spec_property one, other; /* the two properties of a pair; not used in a CHECKED row */
    const char *sentence;
    int (*check)(const struct ts_spec *s, uint32_t mode, struct ts_err *err); /* for CHECK alone */
};

static const struct rule rules[] = {
#define EXCLUDES(a, b, text) { EXCLUDED, TS_HAS_##a, TS_HAS_##b, text, NULL },
#define NEEDS(a, b, text)    { NEEDED, TS_HAS_##a, TS_HAS_##b, text, NULL },
#define CHECKED(function)    { .kind = CHECK, .check = function },
#include "cpd/spec/spec_pairs.def"
};
#define N_RULES (sizeof rules / sizeof rules[0])

/* Whether the properties (one bit each) break the rule of a pair. */
static int is_broken(const struct rule *r, uint32_t properties)
{
    const uint32_t other = properties >> r->other & 1;
    return (properties >> r->one & 1) != 0 && (r->kind == EXCLUDED) == (other != 0);
}

static int check_mode(const struct ts_spec *s, uint32_t mode, struct ts_err *err)
{
    const uint32_t properties = ts_spec_properties(s, mode);
    const char *loss = s->loss == TS_GCP_NONE ? "" : ts_loss_of(s->loss)->name;
    int rc = 0;
    for (size_t i = 0; i < N_RULES && rc == 0; i++)
        if (rules[i].kind == CHECK)
            rc = rules[i].check(s, mode, err);
        else if (is_broken(&rules[i], properties))
            rc = ts_fail(err, TS_EARG, rules[i].sentence, mode + 1, loss);
    return rc;
}

int ts_spec_check_beside(const struct ts_spec *spec, uint32_t order, enum ts_spec_property beside,
                         struct ts_err *err)
{
    char text[160];
    for (uint32_t m = 0; m < order; m++) {
        const uint32_t properties = ts_spec_properties(spec, m) | 1u << beside;
        ts_spec_text(spec, m, text, sizeof text);
        for (size_t i = 0; i < N_RULES; i++)
            if (rules[i].kind != CHECK && rules[i].one == beside &&
                is_broken(&rules[i], properties))
                return ts_fail(err, TS_EARG, rules[i].sentence, m + 1, text);
    }
    return 0;
}

/* ---- checks of all modes together ---- */

static int check_all_modes(const struct ts_spec *s, uint32_t order, struct ts_err *err)
{
    uint32_t n_fixed = 0, n_orthogonal = 0, n_free = 0;
    for (uint32_t m = 0; m < order; m++) {
        const struct ts_constraint *c = &s->mode[m];
        n_fixed += c->fixed != 0;
        n_orthogonal += c->orthogonal != 0;
        n_free += !c->fixed && !ts_constraint_rigid(c);
    }
    if (n_orthogonal > 0 && n_free == 0)
        return ts_fail(err, TS_EARG,
                       "if modes are orthogonal, another mode must be free to carry the scale: "
                       "unconstrained, or with l1, l2 or nonnegative entries alone");
    if (n_fixed == order)
        return ts_fail(err, TS_EARG,
                       "all modes are fixed, so there is nothing to compute: tstream fit tells the "
                       "fit of a model");
    return 0;
}

int ts_spec_check(const struct ts_spec *spec, uint32_t order, struct ts_err *err)
{
    const struct ts_spec *s = ts_spec_of(spec);
    int rc = 0;
    for (uint32_t m = 0; m < order && rc == 0; m++)
        rc = check_mode(s, m, err);
    return rc == 0 ? check_all_modes(s, order, err) : rc;
}
