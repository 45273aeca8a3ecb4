/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes what a specification needs of methods and backends, and writes it as text for
 * messages. */
#include "cpd/spec/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpd/state/run_options.h"
#include "format/arrays/dense.h"
#include "format/tensor.h"
#include "stream/capability.h"

const struct ts_spec ts_spec_plain;

/* ---- functions of a whole specification ---- */

void ts_spec_defaults(struct ts_spec *ret)
{
#define SETTING(...)
#define SETTING_OF_METHOD(member, option, letter, kind, def, arg, ...) \
    { option, letter, TS_OPT_OF_##kind, offsetof(struct ts_spec, member), def, arg, NULL },
    static const struct ts_opt opts[] = {
#include "base/settings.def"
    };
    for (size_t i = 0; i < sizeof opts / sizeof *opts; i++)
        if (opts[i].def != NULL)
            /* cannot fail: the test check_options parses all defaults */
            (void)ts_opt_set(&opts[i], ret, opts[i].def, NULL);
}

static int mode_is_free(const struct ts_constraint *c)
{
    int asked = 0;
#define WHETHER(x, f)                              asked |= c->x != 0;
#define PENALTY(x, f)                              asked |= c->x != 0;
#define BOUNDS(x, f)                               asked |= c->x != 0;
#define SETTING(member, option, letter, kind, ...) TS_MODES_OF_##kind
#include "base/settings.def"
#undef WHETHER
#undef PENALTY
#undef BOUNDS
    return !asked;
}

int ts_spec_any(const struct ts_spec *spec, uint32_t order)
{
    const struct ts_spec *s = ts_spec_of(spec);
    if (s->observed || s->held || s->best || s->poisson || s->loss != TS_GCP_NONE)
        return 1;
    for (uint32_t m = 0; m < order; m++)
        if (!mode_is_free(&s->mode[m]))
            return 1;
    return 0;
}

int ts_spec_penalty(const struct ts_spec *spec, uint32_t order)
{
    const struct ts_constraint *c = ts_spec_of(spec)->mode;
    for (uint32_t m = 0; m < order; m++)
        if (c[m].l1 > 0 || c[m].l2 > 0 || c[m].smooth > 0)
            return 1;
    return 0;
}

int ts_spec_lengths(const struct ts_spec *spec, uint32_t order)
{
    const struct ts_spec *s = ts_spec_of(spec);
    if (s->observed || s->held || s->loss != TS_GCP_NONE)
        return 1;
    for (uint32_t m = 0; m < order; m++)
        if (ts_constraint_rigid(&s->mode[m]))
            return 1;
    return ts_spec_penalty(s, order);
}

/* Returns a bit for each kind of row update that some mode needs. In the last mode, an update that
 * reads old rows also needs TS_ROW_KEEP: the fit sums the product once more while the rows stay. */
uint32_t ts_spec_updates(const struct ts_spec *spec, uint32_t order)
{
    const struct ts_spec *s = ts_spec_of(spec);
    uint32_t bits = s->held ? TS_CAN(HELD_OUT) : 0;
    for (uint32_t m = 0; m < order; m++) {
        const enum ts_row_kind kind = ts_spec_row_kind(s, m);
        if (kind == TS_ROW_KEEP && (m + 1 < order || s->observed || s->held))
            continue;
        bits |= 1u << kind;
        /* row_columns.h copies the MTTKRP and the rows by these two updates */
        if (ts_row_reads_old(kind) && !ts_row_by_backend(kind))
            bits |= 1u << TS_ROW_COORDINATE | 1u << TS_ROW_KEEP;
        if (m + 1 == order && ts_row_reads_old(kind))
            bits |= 1u << TS_ROW_KEEP;
    }
    return bits;
}

uint32_t ts_spec_skipped(const struct ts_spec *spec, uint32_t order)
{
    const struct ts_spec *s = ts_spec_of(spec);
    uint32_t bits = 0;
    for (uint32_t m = 0; m + 1 < order; m++)
        bits |= (uint32_t)(s->mode[m].fixed != 0) << m;
    return bits;
}

static uint32_t reads_old(const struct ts_spec *s, uint32_t order)
{
    uint32_t bits = 0;
    for (uint32_t m = 0; m < order; m++)
        bits |= (uint32_t)ts_row_reads_old(ts_spec_row_kind(s, m)) << m;
    return bits;
}

uint32_t ts_spec_own(const struct ts_spec *spec, uint32_t order)
{
    const struct ts_spec *s = ts_spec_of(spec);
    return s->observed && s->loss == TS_GCP_NONE ? 0
                                                 : reads_old(s, order) & ~ts_spec_skipped(s, order);
}

uint32_t ts_spec_stays(const struct ts_spec *spec, uint32_t order)
{
    const struct ts_spec *s = ts_spec_of(spec);
    const uint32_t for_fit = s->observed || s->held ? UINT32_C(1) << (order - 1) : 0;
    return reads_old(s, order) | for_fit;
}

uint32_t ts_spec_moments(const struct ts_spec *spec)
{
    const struct ts_spec *s = ts_spec_of(spec);
    return s->loss == TS_GCP_NONE ? 0 : s->lbfgsb ? TS_MOMENTS_LBFGSB : TS_MOMENTS_ADAM;
}

int ts_spec_has_moment(const struct ts_spec *spec, uint32_t which)
{
    return which == TS_MOMENT_BEST ? ts_spec_of(spec)->best : which < ts_spec_moments(spec);
}

/* ---- functions of the constraints of one mode ---- */

int ts_spec_positive(const struct ts_spec *spec, uint32_t mode)
{
    const struct ts_spec *s = ts_spec_of(spec);
    const struct ts_constraint *c = &s->mode[mode];
    if (s->loss != TS_GCP_NONE && ts_loss_of(s->loss)->lower == 0)
        return 1;
    return c->nonneg || s->poisson || c->simplex || (c->bounded && c->lower >= 0);
}

enum ts_row_kind ts_spec_row_kind(const struct ts_spec *spec, uint32_t mode)
{
    const struct ts_spec *s = ts_spec_of(spec);
    const struct ts_constraint *c = &s->mode[mode];
    if (c->fixed)
        return TS_ROW_KEEP;
    if (s->poisson)
        return TS_ROW_MULTIPLY;
    if (s->loss != TS_GCP_NONE)
        return TS_ROW_DESCEND;
    if (s->observed)
        return TS_ROW_OBSERVED;
    if (c->simplex)
        return TS_ROW_SIMPLEX;
    if (c->orthogonal)
        return TS_ROW_POLAR;
    if (c->nonneg || c->bounded || c->l1 > 0)
        return c->smooth > 0 ? TS_ROW_SMOOTH_WITHIN : TS_ROW_COORDINATE;
    return c->smooth > 0 ? TS_ROW_SMOOTH : TS_ROW_LEAST_SQUARES;
}

/* Writes the objective, which precedes the constraints of a mode in a text. */
static void loss_text(const struct ts_spec *s, char *ret, size_t room)
{
    char name[64];
    ret[0] = '\0';
    if (s->loss != TS_GCP_NONE) {
        ts_loss_text(s->loss, s->loss_at, 9, name, sizeof name);
        snprintf(ret, room, ", loss %s", name);
    }
    if (s->lbfgsb)
        snprintf(ret + strlen(ret), room - strlen(ret), " by L-BFGS-B");
}

/* Appends ", option 0.1" for each setting that ts_spec_text does not describe in words. A state
 * stores these settings as text alone. */
static void add_others(const struct ts_constraint *c, char *ret, size_t room)
{
#define ADD(option, x) \
    if (c->x != 0)     \
        snprintf(ret + strlen(ret), room - strlen(ret), ", %s %.9g", option, (double)c->x);
#define WHETHER(x, f) ADD(name, x)
#define PENALTY(x, f) ADD(name, x)
#define BOUNDS(x, f)  ADD(name, x)
#define SETTING(member, option, letter, kind, def, arg, section, resume, ...) \
    if (TS_RUN_##resume != TS_RUN_SAME_VALUE) {                               \
        static const char name[] = option;                                    \
        (void)name;                                                           \
        TS_MODES_OF_##kind                                                    \
    }
#include "base/settings.def"
#undef WHETHER
#undef PENALTY
#undef BOUNDS
}

void ts_spec_text(const struct ts_spec *spec, uint32_t mode, char *ret, size_t room)
{
    const struct ts_spec *s = ts_spec_of(spec);
    const struct ts_constraint *c = &s->mode[mode];
    char loss[96], l1[40] = "", l2[40] = "", smooth[40] = "", bounds[64] = "";
    loss_text(s, loss, sizeof loss);
    if (c->l1 > 0)
        snprintf(l1, sizeof l1, ", l1 %.9g", c->l1);
    if (c->l2 > 0)
        snprintf(l2, sizeof l2, ", l2 %.9g%s", c->l2, s->by_count ? " by count" : "");
    if (c->smooth > 0)
        snprintf(smooth, sizeof smooth, ", smooth %.9g", c->smooth);
    if (c->bounded)
        snprintf(bounds, sizeof bounds, ", bounds %.9g:%.9g", c->lower, c->upper);
    snprintf(ret, room, "%s%s%s%s%s%s%s%s%s%s%s%s%s", loss, s->poisson ? ", poisson" : "",
             s->mean       ? ", observed cells less their mean"
             : s->observed ? ", observed cells"
                           : "",
             c->nonneg ? ", nonnegative" : "", c->fixed ? ", fixed" : "",
             c->simplex ? ", simplex" : "", c->orthogonal ? ", orthogonal" : "", bounds, smooth, l1,
             l2, s->best ? ", patience" : "", s->held ? ", held-out nonzeros" : "");
    add_others(c, ret, room);
    if (ret[0] == '\0')
        snprintf(ret, room, "none");
    else
        memmove(ret, ret + 2, strlen(ret) - 1);
}

/* Whether two modes have the same constraints. Constraints that a state stores as text are not
 * compared. */
static int same_mode(const struct ts_constraint *a, const struct ts_constraint *b)
{
    int same = 1;
#define WHETHER(x, f) same &= !a->x == !b->x;
#define PENALTY(x, f) same &= a->x == b->x;
#define BOUNDS(x, f) \
    same &= !a->x == !b->x && (!a->x || (a->lower == b->lower && a->upper == b->upper));
#define SETTING(member, option, letter, kind, def, arg, section, resume, ...) \
    if (TS_RUN_##resume == TS_RUN_SAME_VALUE) {                               \
        TS_MODES_OF_##kind                                                    \
    }
#include "base/settings.def"
#undef WHETHER
#undef PENALTY
#undef BOUNDS
    return same;
}

static int same_run(const struct ts_spec *a, const struct ts_spec *b)
{
    return a->loss == b->loss && a->loss_at == b->loss_at && !a->lbfgsb == !b->lbfgsb &&
           !a->poisson == !b->poisson && !a->observed == !b->observed &&
           !a->by_count == !b->by_count && !a->mean == !b->mean && !a->best == !b->best &&
           !a->held == !b->held;
}

int ts_spec_same_state(const struct ts_spec *a, const struct ts_spec *b, uint32_t mode)
{
    a = ts_spec_of(a);
    b = ts_spec_of(b);
    return same_run(a, b) && same_mode(&a->mode[mode], &b->mode[mode]);
}

/* ---- tensors whose unlisted cells count as unknown ---- */

int ts_spec_takes_observed(const struct ts_tensor *t, int loss, int poisson)
{
    double cells = 1;
    if (poisson)
        return 0;
    if (loss == TS_GCP_NONE)
        return ts_tensor_weighted(t) || (t->dense != NULL && t->dense->n_unknown > 0);
    for (uint32_t m = 0; m < t->order; m++)
        cells *= (double)t->mode[m].disk.dim;
    return !ts_loss_of(loss)->zeros && t->dense == NULL && (double)t->nnz == cells &&
           (t->header.flags & TS_TENSOR_DUPLICATES) == 0;
}
