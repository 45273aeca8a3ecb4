/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the values of settings, and checks them against each other. */
#include "cpd/spec/run_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/setting.h"
#include "cpd/solver/accelerate.h"
#include "cpd/spec/hold_out_share.h"
#include "cpd/state/run_options.h"
#include "format/arrays/dense.h"
#include "format/tensor.h"
#include "model/model_write.h"

/* default of l2 with `observed`: keeps a row solvable that has fewer nonzeros than columns */
#define OBSERVED_L2   0.1
#define LEAST_SQUARES "least-squares"

/* ---- options that set constraints of modes ---- */

struct reader {
    const struct ts_run_values *values;
    struct ts_spec *spec;
    uint32_t named; /* the highest mode number, from 1, that any option names */
};

/* ret := the mode number (from 1) at *text, and moves *text past it. Returns TS_EARG if there is no
 * mode number. */
static int take_mode(const char *option, const char **text, uint32_t *ret, struct ts_err *err)
{
    char *end;
    const unsigned long n = strtoul(*text, &end, 10);
    if (**text == ',' || **text == '\0')
        return ts_fail(err, TS_EARG,
                       "option '" TS_SET_OPTION("%s") "': a mode is missing before or after a comma",
                       option);
    if (n == 0 || n > TS_MAX_ORDER)
        return ts_fail(
            err, TS_EARG,
            "option '" TS_SET_OPTION("%s") "': modes are numbers from 1 to %u, not '%.*s'", option,
            TS_MAX_ORDER, (int)strcspn(*text, ","), *text);
    *text = end;
    *ret = (uint32_t)n;
    return 0;
}

/* Parses "all" or "1,3". Bit m of *ret: the text names mode m. */
static int parse_modes(struct reader *r, const char *option, const char *text, uint32_t *ret,
                       struct ts_err *err)
{
    *ret = 0;
    if (text == NULL)
        return 0;
    if (strcmp(text, "all") == 0) {
        *ret = (UINT32_C(1) << TS_MAX_ORDER) - 1;
        return 0;
    }
    for (;; text++) {
        uint32_t mode = 0;
        const int rc = take_mode(option, &text, &mode, err);
        if (rc < 0)
            return rc;
        if ((*ret >> (mode - 1) & 1) != 0)
            return ts_fail(err, TS_EARG,
                           "option '" TS_SET_OPTION("%s") "': " TS_NTH_MODE " is named twice",
                           option, mode);
        *ret |= UINT32_C(1) << (mode - 1);
        r->named = mode > r->named ? mode : r->named;
        if (*text == '\0')
            return 0;
        if (*text != ',')
            return ts_fail(
                err, TS_EARG,
                "option '" TS_SET_OPTION("%s") "': modes are divided by commas, not '%s'", option,
                text);
    }
}

/* Parses a penalty: "0.1" for all modes, or "1=0.1,3=2" for modes 1 and 3. */
static int parse_penalty(struct reader *r, const char *option, const char *text,
                         double ret[TS_MAX_ORDER], struct ts_err *err)
{
    const int all = text != NULL && strchr(text, '=') == NULL;
    uint32_t named = 0; /* bit m: the text has named mode m already */
    memset(ret, 0, TS_MAX_ORDER * sizeof *ret);
    while (text != NULL) {
        uint32_t mode = 1;
        double x;
        char *end;
        int rc = all ? 0 : take_mode(option, &text, &mode, err);
        if (rc < 0)
            return rc;
        if (!all && *text++ != '=')
            return ts_fail(err, TS_EARG,
                           "option '" TS_SET_OPTION("%s") "': expected MODE=X after " TS_NTH_MODE,
                           option, mode);
        if (!all && (named >> (mode - 1) & 1) != 0)
            return ts_fail(err, TS_EARG,
                           "option '" TS_SET_OPTION("%s") "': " TS_NTH_MODE " is named twice",
                           option, mode);
        named |= UINT32_C(1) << (mode - 1);
        x = ts_strtod(text, &end);
        if (end == text || (*end != '\0' && (*end != ',' || all)) || !isfinite(x) || x < 0)
            return ts_fail(err, TS_EARG,
                           "option '" TS_SET_OPTION("%s") "': '%s' is not a number of 0 or more",
                           option, text);
        for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
            if (all || m + 1 == mode)
                ret[m] = x;
        if (!all && mode > r->named)
            r->named = mode;
        text = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

/* Parses a penalty of modes: "3" or "3=0.1", or several of these separated by commas. A mode
 * without a number gets 1. */
static int parse_penalty_1(struct reader *r, const char *option, const char *text,
                           double ret[TS_MAX_ORDER], struct ts_err *err)
{
    uint32_t named = 0;
    memset(ret, 0, TS_MAX_ORDER * sizeof *ret);
    while (text != NULL) {
        uint32_t mode = 0;
        const char *from;
        double x = 1;
        int rc = take_mode(option, &text, &mode, err);
        if (rc < 0)
            return rc;
        if ((named >> (mode - 1) & 1) != 0)
            return ts_fail(err, TS_EARG,
                           "option '" TS_SET_OPTION("%s") "': " TS_NTH_MODE " is named twice",
                           option, mode);
        named |= UINT32_C(1) << (mode - 1);
        from = text;
        if (*text == '=') {
            char *end;
            x = ts_strtod(text + 1, &end);
            from = end == text + 1 ? text : end;
        }
        if ((*from != '\0' && *from != ',') || !isfinite(x) || x < 0)
            return ts_fail(
                err, TS_EARG,
                "option '" TS_SET_OPTION(
                    "%s") "': expected MODE or MODE=X, X being 0 or more, for " TS_NTH_MODE,
                option, mode);
        ret[mode - 1] = x;
        r->named = mode > r->named ? mode : r->named;
        text = *from == ',' ? from + 1 : NULL;
    }
    return 0;
}

/* Parses bounds: "0:1" for all modes, or "1=0:1,3=-1:inf" for modes 1 and 3. */
static int parse_bounds(struct reader *r, const char *option, const char *text,
                        struct ts_constraint ret[TS_MAX_ORDER], struct ts_err *err)
{
    const int all = text != NULL && strchr(text, '=') == NULL;
    memset(ret, 0, TS_MAX_ORDER * sizeof *ret);
    while (text != NULL) {
        const char *from;
        uint32_t mode = 1;
        struct ts_constraint c = { .bounded = 1 };
        char *end;
        int rc = all ? 0 : take_mode(option, &text, &mode, err);
        if (rc < 0)
            return rc;
        if (!all && *text++ != '=')
            return ts_fail(
                err, TS_EARG,
                "option '" TS_SET_OPTION("%s") "': expected MODE=LOWER:UPPER after " TS_NTH_MODE,
                option, mode);
        if (!all && ret[mode - 1].bounded)
            return ts_fail(err, TS_EARG,
                           "option '" TS_SET_OPTION("%s") "': " TS_NTH_MODE " is named twice",
                           option, mode);
        from = text;
        c.lower = ts_strtod(text, &end);
        if (end == text || *end != ':' ||
            (text = end + 1, c.upper = ts_strtod(text, &end), end == text) ||
            (*end != '\0' && (*end != ',' || all)) || !(c.lower <= c.upper) ||
            (!isfinite(c.lower) && !isfinite(c.upper)))
            return ts_fail(
                err, TS_EARG,
                "option '" TS_SET_OPTION(
                    "%s") "': '%s' are not a lower and an upper number, like 0:1 or 0:inf",
                option, from);
        for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
            if (all || m + 1 == mode)
                ret[m] = c;
        if (!all && mode > r->named)
            r->named = mode;
        text = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

/* An option that sets a constraint of single modes: a row of base/settings.def. */
struct mode_row {
    const char *option;
    size_t text_at; /* offset of the text in struct ts_run_values */
    enum { OF_RUN, IS_WHETHER, IS_PENALTY, IS_BOUNDS } kind;
    size_t at;   /* offset of the member in struct ts_constraint */
    int is_free; /* 1: an option that names no modes applies to all modes that are not fixed */
};

#define WHETHER(x, f)                 IS_WHETHER, offsetof(struct ts_constraint, x), f
#define PENALTY(x, f)                 IS_PENALTY, offsetof(struct ts_constraint, x), f
#define BOUNDS(x, f)                  IS_BOUNDS, offsetof(struct ts_constraint, x), f
#define OF(...)                       OF_OR(__VA_ARGS__ __VA_OPT__(, ) OF_RUN, 0, 0)
#define OF_OR(kind, at, is_free, ...) kind, at, is_free
#define SETTING(member, option, letter, kind, ...) \
    { option, offsetof(struct ts_run_values, member), OF(TS_MODES_OF_##kind) },
#define SETTING_IN(...) { .kind = OF_RUN },
static const struct mode_row mode_rows[] = {
#include "base/settings.def"
};
#define N_MODE_ROWS (sizeof mode_rows / sizeof *mode_rows)

static const char *text_of(const struct reader *r, const struct mode_row *row)
{
    return *(const char *const *)((const char *)r->values + row->text_at);
}

static void *member_of(struct reader *r, const struct mode_row *row, uint32_t mode)
{
    return (char *)&r->spec->mode[mode] + row->at;
}

/* Parses one option, and sets it in the modes that it names, or in all. */
static int parse_row(struct reader *r, const struct mode_row *row, struct ts_err *err)
{
    struct ts_constraint bounds[TS_MAX_ORDER] = { 0 };
    double x[TS_MAX_ORDER] = { 0 };
    uint32_t bits = 0;
    const char *text = text_of(r, row);
    const int rc = row->kind == IS_WHETHER  ? parse_modes(r, row->option, text, &bits, err)
                   : row->kind == IS_BOUNDS ? parse_bounds(r, row->option, text, bounds, err)
                   : row->is_free           ? parse_penalty(r, row->option, text, x, err)
                                            : parse_penalty_1(r, row->option, text, x, err);
    for (uint32_t m = 0; m < TS_MAX_ORDER && rc == 0; m++) {
        void *to = member_of(r, row, m);
        if (row->kind == IS_WHETHER) {
            *(int *)to = bits >> m & 1;
        } else if (row->kind == IS_PENALTY) {
            *(double *)to = x[m];
        } else {
            *(int *)to = bounds[m].bounded;
            r->spec->mode[m].lower = bounds[m].lower;
            r->spec->mode[m].upper = bounds[m].upper;
        }
    }
    return rc;
}

/* Clears the constraint that an option has set in fixed modes, if the option names no modes
 * itself. */
static void leave_fixed(struct reader *r, const struct mode_row *row)
{
    const char *text = text_of(r, row);
    const int names = text != NULL && (row->kind == IS_WHETHER ? strcmp(text, "all") != 0
                                                               : strchr(text, '=') != NULL);
    for (uint32_t m = 0; m < TS_MAX_ORDER && row->is_free && !names; m++) {
        void *to = member_of(r, row, m);
        if (!r->spec->mode[m].fixed)
            continue;
        if (row->kind == IS_PENALTY) {
            *(double *)to = 0;
            continue;
        }
        *(int *)to = 0;
        if (row->kind == IS_BOUNDS)
            r->spec->mode[m].lower = r->spec->mode[m].upper = 0;
    }
}

/* Parses the options that set constraints of modes. Those in `first` are parsed first: the order
 * decides which of several mistakes is reported. */
static int parse_mode_rows(struct reader *r, struct ts_err *err)
{
    static const char *const first[] = { "fix",    "nonneg", "simplex", "orthogonal",
                                         "bounds", "l1",     "l2",      NULL };
    uint32_t at;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && (at = ts_setting_row(first, i)) != TS_NO_SETTING; i++)
        if (mode_rows[at].kind != OF_RUN)
            rc = parse_row(r, &mode_rows[at], err);
    for (size_t i = 0; i < N_MODE_ROWS && rc == 0; i++)
        if (mode_rows[i].kind != OF_RUN)
            leave_fixed(r, &mode_rows[i]);
    return rc;
}

/* ---- checks of the values of all settings ---- */

int ts_run_values_spec(const struct ts_run_values *v, struct ts_spec *ret, uint32_t *named,
                       struct ts_err *err)
{
    struct reader r = { .values = v, .spec = ret };
    const int poisson = strcmp(v->loss, "poisson") == 0;
    int loss = TS_GCP_NONE;
    double loss_at = 0;
    if (!poisson && strcmp(v->loss, LEAST_SQUARES) != 0 &&
        ts_loss_parse(v->loss, &loss, &loss_at, err) < 0)
        return TS_EARG;
    *ret = (struct ts_spec){ .poisson = poisson,
                             .loss = loss,
                             .loss_at = loss_at,
                             .lbfgsb = v->optimizer == 1,
                             .held = (v->hold_out != NULL || v->folds > 0) && !v->observed &&
                                     loss == TS_GCP_NONE,
                             .best = v->patience > 0,
                             .by_count = v->observed && v->l2_scale };
#define SETTING(...)
#define SETTING_OF_METHOD(member, ...) ret->member = v->member;
#include "base/settings.def"
    if (parse_mode_rows(&r, err) < 0)
        return err->code;
    *named = r.named;
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        if (v->observed && v->l2 == NULL && loss == TS_GCP_NONE && !ret->mode[m].fixed)
            ret->mode[m].l2 = OBSERVED_L2;
    return poisson || loss != TS_GCP_NONE || v->optimizer == 1
               ? ts_spec_check(ret, TS_MAX_ORDER, err)
               : 0;
}

int ts_run_needs_check(const struct ts_run_needs *n, struct ts_err *err)
{
    const struct {
        int lacks;
        const char *setting, *needed, *and;
    } table[] = {
        { n->by_count && !n->observed, n->by_count_is, n->observed_is, "" },
        { n->mean && !(n->observed && n->least_squares), n->mean_is, n->observed_is,
          " and least squares" },
        { n->patience && !n->hold_out, n->patience_is, n->hold_out_is, "" },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].lacks)
            return ts_fail(err, TS_EARG, "%s needs %s%s", table[i].setting, table[i].needed,
                           table[i].and);
    return 0;
}

static int check_cells(const struct ts_run_values *v, const struct ts_spec *spec,
                       struct ts_err *err)
{
    double share, from;
    const struct ts_run_needs needs = {
        .by_count = v->l2_scale != 0,
        .mean = v->mean,
        .patience = v->patience > 0,
        .observed = v->observed,
        .hold_out = v->hold_out != NULL || v->folds != 0,
        .least_squares = !spec->poisson && spec->loss == TS_GCP_NONE,
        .by_count_is = TS_SET_OPTION("l2-scale"),
        .mean_is = TS_SET_OPTION("mean"),
        .patience_is = TS_SET_OPTION("patience"),
        .observed_is = TS_SET_OPTION("observed"),
        .hold_out_is = TS_SET_OPTION("hold-out") " or " TS_SET_OPTION("folds"),
    };
    if (ts_run_needs_check(&needs, err) < 0)
        return err->code;
    if (v->hold_out != NULL && ts_hold_out_part(v->hold_out, &share, &from, err) < 0)
        return err->code;
    if (v->observed && spec->loss != TS_GCP_NONE)
        return 0; /* ts_run_values_spec has checked the constraints of this loss */
    if (v->observed && v->smooth == NULL && v->l1 == NULL && v->simplex == NULL &&
        v->orthogonal == NULL)
        return 0;
    return v->observed ? ts_spec_check(spec, TS_MAX_ORDER, err) : 0;
}

static int check_models(const struct ts_run_values *v, struct ts_err *err)
{
    const struct ts_opt_numbers *ranks = &v->ranks;
    const char *other = v->hold_out != NULL ? TS_SET_OPTION("hold-out")
                        : v->restarts != 1  ? TS_SET_OPTION("restarts")
                        : v->diagnose       ? TS_SET_OPTION("diagnose")
                                            : NULL;
    if (v->folds != 0 && (v->folds < 2 || v->folds > TS_FOLDS_MOST))
        return ts_fail(err, TS_EARG, TS_SET_OPTION("folds") " must be 2 to %u", TS_FOLDS_MOST);
    if (v->folds != 0 && other != NULL)
        return ts_fail(
            err, TS_EARG,
            TS_SET_OPTION(
                "folds") " computes a model without each fold: it cannot be combined with %s",
            other);
    for (uint32_t i = 0; i < ranks->n; i++) {
        if (ranks->at[i] == 0 || ranks->at[i] > TS_MAX_RANK)
            return ts_fail(err, TS_EARG, TS_SET_OPTION("rank") " must be 1 to %u", TS_MAX_RANK);
        for (uint32_t k = 0; k < i; k++)
            if (ranks->at[k] == ranks->at[i])
                return ts_fail(err, TS_EARG, TS_SET_OPTION("rank") " has %u twice", ranks->at[i]);
    }
    if (v->restarts == 0 || v->restarts > TS_RESTARTS_MOST)
        return ts_fail(err, TS_EARG, TS_SET_OPTION("restarts") " must be 1 to %u",
                       TS_RESTARTS_MOST);
    if (v->diagnose && ts_run_values_models(v) == 1)
        return ts_fail(err, TS_EARG,
                       TS_SET_OPTION("diagnose") " needs several ranks or " TS_SET_OPTION(
                           "restarts") "; for one model "
                                       "there is tstream fit " TS_SET_OPTION("diagnose"));
    return 0;
}

int ts_run_values_check(const struct ts_run_values *v, const struct ts_spec *spec,
                        struct ts_err *err)
{
    unsigned formats;
    int rc = 0;
    if (v->fix != NULL && (strcmp(v->init, "random") == 0 || strcmp(v->init, "nvecs") == 0))
        return ts_fail(err, TS_EARG,
                       TS_SET_OPTION("fix") " keeps factors of " TS_SET_OPTION(
                           "init") " FILE, and no file is given");
    if (v->accelerate)
        rc = ts_accelerate_check(spec, TS_MAX_ORDER, err);
    if (rc == 0)
        rc = check_cells(v, spec, err);
    if (rc == 0 && v->inner == 0)
        rc = ts_fail(err, TS_EARG, TS_SET_OPTION("inner") " must be at least 1");
    if (rc == 0 && v->iters == 0)
        rc = ts_fail(err, TS_EARG, TS_SET_OPTION("iters") " must be at least 1");
    if (rc == 0)
        rc = check_models(v, err);
    if (rc == 0 && !(v->tol >= 0))
        rc = ts_fail(err, TS_EARG, TS_SET_OPTION("tol") " must not be negative");
    return rc == 0 ? ts_model_formats(v->format, &formats, err) : rc;
}

/* ---- values of settings from a file ---- */

#define LOSS_NAMES ts_loss_names
#define SETTING(member, option, letter, kind, def_, arg_, ...) \
    { .name = option,                                          \
      .type = TS_OPT_OF_##kind,                                \
      .at = offsetof(struct ts_run_values, member),            \
      .def = def_,                                             \
      .arg = arg_ },
#define SETTING_IN(...)
static const struct ts_opt opts[] = {
#include "base/settings.def"
};

int ts_run_values_set(const char *file, const struct ts_opt *opt, const char *value, void *args,
                      struct ts_err *err)
{
    struct ts_err why;
    int rc = 0;
    if (opt->type != TS_OPT_FLAG || strcmp(value, "1") == 0)
        rc = ts_opt_set(opt, args, value, &why);
    else if (strcmp(value, "0") != 0)
        rc = ts_fail(&why, TS_EARG, "option '" TS_SET_OPTION("%s") "': '%s' is neither 0 nor 1",
                     opt->name, value);
    return rc < 0 ? ts_fail(err, TS_EFORMAT, "%s: %s", file, why.text) : 0;
}

static int read_values(const char *file, const struct ts_state *s, struct ts_run_values *ret,
                       struct ts_err *err)
{
    int rc = 0;
    *ret = (struct ts_run_values){ 0 };
    for (size_t i = 0; i < sizeof opts / sizeof *opts && rc == 0; i++) {
        const char *value = ts_state_option(s, opts[i].name);
        if (opts[i].def != NULL)
            /* cannot fail: the test check_options parses all defaults */
            (void)ts_opt_set(&opts[i], ret, opts[i].def, NULL);
        if (value != NULL)
            rc = ts_run_values_set(file, &opts[i], value, ret, err);
    }
    return rc;
}

int ts_run_values_same(const char *file, const struct ts_run_values *v, const struct ts_spec *spec,
                       uint32_t named, const struct ts_state *s, struct ts_err *err)
{
    if (named > s->order)
        return ts_fail(err, TS_EFORMAT,
                       "%s: its options have " TS_NTH_MODE ", and its tensor has %u", file, named,
                       s->order);
    for (uint32_t m = 0; m < s->order; m++) {
        struct ts_spec says = *spec;
        char is[160], said[160];
        if (v->l2 == NULL && s->spec.mode[m].l2 == 0)
            /* the program has a default for l2 that the library lacks, and a state does not record
             * it */
            says.mode[m].l2 = 0;
        if (ts_spec_same_state(&says, &s->spec, m))
            continue;
        ts_spec_text(&says, m, said, sizeof said);
        ts_spec_text(&s->spec, m, is, sizeof is);
        return ts_fail(err, TS_EFORMAT,
                       "%s: its options have these constraints of " TS_NTH_MODE
                       ": %s; its factors: %s",
                       file, m + 1, said, is);
    }
    return !v->accelerate == !s->accelerated
               ? 0
               : ts_fail(err, TS_EFORMAT,
                         "%s: its options say that it is %saccelerated, and it is%s", file,
                         v->accelerate ? "" : "not ", v->accelerate ? " not" : "");
}

int ts_run_values_check_file(const char *file, const struct ts_state *s, int one,
                             const struct ts_tensor *t, struct ts_err *err)
{
    struct ts_run_values v;
    struct ts_spec spec;
    struct ts_err why;
    uint32_t named = 0;
    int rc = read_values(file, s, &v, err);
    if (rc < 0)
        return rc;
    rc = ts_run_values_spec(&v, &spec, &named, &why);
    if (rc == 0 && !v.observed && /* the rules that make a run `observed` without this option */
        ((t->dense != NULL && v.hold_out != NULL && spec.loss == TS_GCP_NONE && !spec.poisson) ||
         ts_spec_takes_observed(t, spec.loss, spec.poisson))) {
        v.observed = 1;
        rc = ts_run_values_spec(&v, &spec, &named, &why);
    }
    if (rc == 0)
        rc = ts_run_values_check(&v, &spec, &why);
    if (rc == 0)
        rc = ts_spec_check(&spec, TS_MAX_ORDER, &why);
    if (rc < 0)
        return ts_fail(err, TS_EFORMAT, "%s: its options cannot be of a run: %s", file, why.text);
    return one ? ts_run_values_same(file, &v, &spec, named, s, err) : 0;
}
