/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/cp_constraint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBSERVED_L2 0.1 /* where a row may have fewer nonzeros than columns */

/* The number of a mode at *text, from 1, which is behind it then. */
static int take_mode(const char *option, const char **text, uint32_t *ret, struct ts_err *err)
{
    char *end;
    const unsigned long n = strtoul(*text, &end, 10);
    if (n == 0 || n > TS_MAX_ORDER)
        return ts_fail(err, TS_EARG, "option '--%s': modes are numbers from 1 to %u, not '%.*s'",
                       option, TS_MAX_ORDER, (int)strcspn(*text, ","), *text);
    *text = end;
    *ret = (uint32_t)n;
    return 0;
}

/* Bit m: mode m, of "all" or "1,3". */
static int parse_modes(struct cp_args *args, const char *option, const char *text, uint32_t *ret,
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
            return ts_fail(err, TS_EARG, "option '--%s': mode %u is named twice", option, mode);
        *ret |= UINT32_C(1) << (mode - 1);
        args->n_named = mode > args->n_named ? mode : args->n_named;
        if (*text == '\0')
            return 0;
    }
}

/* "0.1" for all modes, or "1=0.1,3=2". */
static int parse_penalty(struct cp_args *args, const char *option, const char *text,
                         double ret[TS_MAX_ORDER], struct ts_err *err)
{
    const int all = text != NULL && strchr(text, '=') == NULL;
    uint32_t named = 0; /* bit m: mode m was */
    memset(ret, 0, TS_MAX_ORDER * sizeof *ret);
    while (text != NULL) {
        uint32_t mode = 1;
        double x;
        char *end;
        int rc = all ? 0 : take_mode(option, &text, &mode, err);
        if (rc < 0)
            return rc;
        if (!all && *text++ != '=')
            return ts_fail(err, TS_EARG, "option '--%s': expected MODE=X after mode %u", option,
                           mode);
        if (!all && (named >> (mode - 1) & 1) != 0)
            return ts_fail(err, TS_EARG, "option '--%s': mode %u is named twice", option, mode);
        named |= UINT32_C(1) << (mode - 1);
        x = strtod(text, &end);
        if (end == text || (*end != '\0' && (*end != ',' || all)) || !isfinite(x) || x < 0)
            return ts_fail(err, TS_EARG, "option '--%s': '%s' is not a number of 0 or more", option,
                           text);
        for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
            if (all || m + 1 == mode)
                ret[m] = x;
        if (!all && mode > args->n_named)
            args->n_named = mode;
        text = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

/* "3" or "3=0.1", divided by commas. */
static int parse_penalty_1(struct cp_args *args, const char *option, const char *text,
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
            return ts_fail(err, TS_EARG, "option '--%s': mode %u is named twice", option, mode);
        named |= UINT32_C(1) << (mode - 1);
        from = text;
        if (*text == '=') {
            char *end;
            x = strtod(text + 1, &end);
            from = end == text + 1 ? text : end;
        }
        if ((*from != '\0' && *from != ',') || !isfinite(x) || x < 0)
            return ts_fail(err, TS_EARG,
                           "option '--%s': expected MODE or MODE=X, X being 0 or more, for "
                           "mode %u",
                           option, mode);
        ret[mode - 1] = x;
        args->n_named = mode > args->n_named ? mode : args->n_named;
        text = *from == ',' ? from + 1 : NULL;
    }
    return 0;
}

/* "0:1" for all modes, or "1=0:1,3=-1:inf". */
static int parse_bounds(struct cp_args *args, const char *option, const char *text,
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
            return ts_fail(err, TS_EARG, "option '--%s': expected MODE=LOWER:UPPER after mode %u",
                           option, mode);
        if (!all && ret[mode - 1].bounded)
            return ts_fail(err, TS_EARG, "option '--%s': mode %u is named twice", option, mode);
        from = text;
        c.lower = strtod(text, &end);
        if (end == text || *end != ':' ||
            (text = end + 1, c.upper = strtod(text, &end), end == text) ||
            (*end != '\0' && (*end != ',' || all)) || !(c.lower <= c.upper) ||
            (!isfinite(c.lower) && !isfinite(c.upper)))
            return ts_fail(
                err, TS_EARG,
                "option '--%s': '%s' are not a lower and an upper number, like 0:1 or 0:inf",
                option, from);
        for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
            if (all || m + 1 == mode)
                ret[m] = c;
        if (!all && mode > args->n_named)
            args->n_named = mode;
        text = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

/* An option that asks something of modes: a row of base/settings.def. */
struct mode_row {
    const char *option;
    size_t text_at; /* in struct cp_args */
    enum { OF_RUN, IS_WHETHER, IS_PENALTY, IS_BOUNDS } kind;
    size_t at;   /* in struct ts_constraint */
    int is_free; /* where it names no modes, it is for those that are not fixed */
};

#define WHETHER(x, f)                 IS_WHETHER, offsetof(struct ts_constraint, x), f
#define PENALTY(x, f)                 IS_PENALTY, offsetof(struct ts_constraint, x), f
#define BOUNDS(x, f)                  IS_BOUNDS, offsetof(struct ts_constraint, x), f
#define OF(...)                       OF_OR(__VA_ARGS__ __VA_OPT__(, ) OF_RUN, 0, 0)
#define OF_OR(kind, at, is_free, ...) kind, at, is_free
#define SETTING(member, option, letter, kind, ...) \
    { option, offsetof(struct cp_args, member), OF(TS_MODES_OF_##kind) },
static const struct mode_row mode_rows[] = {
#include "base/settings.def"
};
#define N_MODE_ROWS (sizeof mode_rows / sizeof *mode_rows)

static const char *text_of(const struct cp_args *args, const struct mode_row *row)
{
    return *(const char *const *)((const char *)args + row->text_at);
}

static void *member_of(struct cp_args *args, const struct mode_row *row, uint32_t mode)
{
    return (char *)&args->spec.mode[mode] + row->at;
}

/* Reads one option into the modes that it names, or all. */
static int parse_row(struct cp_args *args, const struct mode_row *row, struct ts_err *err)
{
    struct ts_constraint bounds[TS_MAX_ORDER] = { 0 };
    double x[TS_MAX_ORDER] = { 0 };
    uint32_t bits = 0;
    const char *text = text_of(args, row);
    const int rc = row->kind == IS_WHETHER  ? parse_modes(args, row->option, text, &bits, err)
                   : row->kind == IS_BOUNDS ? parse_bounds(args, row->option, text, bounds, err)
                   : row->is_free           ? parse_penalty(args, row->option, text, x, err)
                                            : parse_penalty_1(args, row->option, text, x, err);
    for (uint32_t m = 0; m < TS_MAX_ORDER && rc == 0; m++) {
        void *to = member_of(args, row, m);
        if (row->kind == IS_WHETHER) {
            *(int *)to = bits >> m & 1;
        } else if (row->kind == IS_PENALTY) {
            *(double *)to = x[m];
        } else {
            *(int *)to = bounds[m].bounded;
            args->spec.mode[m].lower = bounds[m].lower;
            args->spec.mode[m].upper = bounds[m].upper;
        }
    }
    return rc;
}

/* An option that names no modes is not for those that are fixed. */
static void leave_fixed(struct cp_args *args, const struct mode_row *row)
{
    const char *text = text_of(args, row);
    const int names = text != NULL && (row->kind == IS_WHETHER ? strcmp(text, "all") != 0
                                                               : strchr(text, '=') != NULL);
    for (uint32_t m = 0; m < TS_MAX_ORDER && row->is_free && !names; m++) {
        void *to = member_of(args, row, m);
        if (!args->spec.mode[m].fixed)
            continue;
        if (row->kind == IS_PENALTY) {
            *(double *)to = 0;
            continue;
        }
        *(int *)to = 0;
        if (row->kind == IS_BOUNDS)
            args->spec.mode[m].lower = args->spec.mode[m].upper = 0;
    }
}

/* The options that ask something of modes. Those of whole modes are read first, which decides what is told of several mistakes. */
static int parse_mode_rows(struct cp_args *args, struct ts_err *err)
{
    static const char *const first[] = { "fix",    "nonneg", "simplex", "orthogonal",
                                         "bounds", "l1",     "l2",      NULL };
    uint32_t at;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && (at = ts_setting_row(first, i)) != TS_NO_SETTING; i++)
        if (mode_rows[at].kind != OF_RUN)
            rc = parse_row(args, &mode_rows[at], err);
    for (size_t i = 0; i < N_MODE_ROWS && rc == 0; i++)
        if (mode_rows[i].kind != OF_RUN)
            leave_fixed(args, &mode_rows[i]);
    return rc;
}

int cp_constraint_parse(struct cp_args *args, struct ts_err *err)
{
    struct ts_spec *spec = &args->spec;
    enum ts_loss_kind loss = TS_GCP_NONE;
    double loss_at = 0;
    args->n_named = 0;
    args->poisson = strcmp(args->loss, "poisson") == 0;
    if (!args->poisson && strcmp(args->loss, "least-squares") != 0 &&
        ts_loss_parse(args->loss, &loss, &loss_at, err) < 0)
        return TS_EARG;
    *spec = (struct ts_spec){ .poisson = args->poisson,
                              .loss = loss,
                              .loss_at = loss_at,
                              .lbfgsb = args->optimizer == 1,
                              .held = (args->hold_out != NULL || args->folds > 0) &&
                                      !args->observed && loss == TS_GCP_NONE,
                              .best = args->patience > 0,
                              .by_count = args->observed && args->l2_scale };
#define SETTING(...)
#define SETTING_OF_METHOD(member, ...) spec->member = args->member;
#include "base/settings.def"
    if (parse_mode_rows(args, err) < 0)
        return err->code;
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        if (args->observed && args->l2 == NULL && loss == TS_GCP_NONE && !spec->mode[m].fixed)
            spec->mode[m].l2 = OBSERVED_L2;
    return args->poisson || loss != TS_GCP_NONE || args->optimizer == 1
               ? ts_spec_check(spec, TS_MAX_ORDER, err)
               : 0;
}

/* Whether a loss of logarithms is left no model of their sign. */
static int note_sign(const struct cp_args *args, const struct ts_tensor *t, char *ret, size_t room)
{
    const enum ts_loss_kind loss = args->spec.loss;
    double mean = 0;
    const int sign = ts_gcp_beyond(t, &args->spec, &mean);
    if (sign == 0)
        return 0;
    snprintf(
        ret, room,
        "what is asked of entries leaves loss %s no model %s 0, so that it tells of each cell a "
        "%s of %s or %s, and values are about %.2g on average; let entries of one mode have "
        "both signs",
        ts_loss_of(loss)->name, sign < 0 ? "below" : "above", ts_loss_of(loss)->logarithm_of,
        ts_loss_of(loss)->zero_is, sign < 0 ? "more" : "less", mean);
    return 1;
}

#define LABELS_SEEN 4096u /* at the start of a mode: what is out of order shows among them */

/* A whole label as a number; 0 when it is none. */
static int label_number(const char *label, double *ret)
{
    char *end;
    *ret = ts_strtod(label, &end);
    return end != label && *end == '\0';
}

/* Whether labels rise or fall throughout, as numbers where all are numbers, else by their bytes, as dates of
 * ISO 8601 and sorted names do. */
static int labels_in_order(char *const *label, uint64_t n)
{
    int numbers = 1, rise = 1, fall = 1;
    double last, x;
    for (uint64_t i = 0; i < n; i++)
        numbers = numbers && label_number(label[i], &x);
    for (uint64_t i = 1; i < n; i++) {
        const int way = !numbers ? strcmp(label[i], label[i - 1])
                        : label_number(label[i - 1], &last) == 0 || label_number(label[i], &x) == 0
                            ? 0
                            : (x > last) - (x < last);
        rise &= way >= 0;
        fall &= way <= 0;
    }
    return rise || fall;
}

int cp_constraint_smooth_note(const struct cp_args *args, const struct ts_tensor *t, uint32_t mode,
                              char *ret, size_t room)
{
    const uint64_t all = t->mode[mode].disk.n_labels, n = all < LABELS_SEEN ? all : LABELS_SEEN;
    uint64_t index[LABELS_SEEN];
    char **label;
    int bad;
    if (args->spec.mode[mode].smooth == 0 || n < 3)
        return 0;
    label = calloc(n, sizeof *label);
    for (uint64_t i = 0; i < n; i++)
        index[i] = i;
    bad = label != NULL && ts_tensor_labels(t, mode, n, index, label, NULL) == 0;
    for (uint64_t i = 0; i < n; i++)
        bad = bad && label[i] != NULL;
    bad = bad && !labels_in_order(label, n);
    if (bad)
        snprintf(
            ret, room,
            "--smooth makes neighbours of mode %u alike, but its labels are in no order of "
            "numbers, dates or letters ('%.40s', '%.40s', '%.40s', ...): build it with indices "
            "or times (--bin), or with --names sorted",
            mode + 1, label[0], label[1], label[2]);
    for (uint64_t i = 0; label != NULL && i < n; i++)
        free(label[i]);
    free(label);
    return bad;
}

void cp_constraint_note(const struct cp_args *args, const struct ts_tensor *t, char *ret,
                        size_t room)
{
    const uint32_t order = t->order;
    char free_modes[128] = "";
    uint32_t n = 0;
    ret[0] = '\0';
    if (note_sign(args, t, ret, room) || !ts_spec_penalty(&args->spec, order))
        return;
    for (uint32_t m = 0; m < order; m++) {
        const struct ts_constraint *c = &args->spec.mode[m];
        const size_t at = strlen(free_modes);
        if (c->l1 == 0 && c->l2 == 0 && c->smooth == 0 && !c->fixed && !ts_constraint_rigid(c))
            snprintf(free_modes + at, sizeof free_modes - at, "%s%u", n++ > 0 ? ", " : "", m + 1);
    }
    if (n > 0)
        snprintf(
            ret, room,
            "without a penalty on mode%s %s, columns may grow there and shrink where they cost, "
            "so that the penalty fades from sweep to sweep; --l2 on %s prevents it",
            n > 1 ? "s" : "", free_modes, n > 1 ? "them" : "it");
}
