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
static int parse_smooth(struct cp_args *args, const char *text, double ret[TS_MAX_ORDER],
                        struct ts_err *err)
{
    uint32_t named = 0;
    memset(ret, 0, TS_MAX_ORDER * sizeof *ret);
    while (text != NULL) {
        uint32_t mode = 0;
        const char *from;
        double x = 1;
        int rc = take_mode("smooth", &text, &mode, err);
        if (rc < 0)
            return rc;
        if ((named >> (mode - 1) & 1) != 0)
            return ts_fail(err, TS_EARG, "option '--smooth': mode %u is named twice", mode);
        named |= UINT32_C(1) << (mode - 1);
        from = text;
        if (*text == '=') {
            char *end;
            x = strtod(text + 1, &end);
            from = end == text + 1 ? text : end;
        }
        if ((*from != '\0' && *from != ',') || !isfinite(x) || x < 0)
            return ts_fail(err, TS_EARG,
                           "option '--smooth': expected MODE or MODE=X, X being 0 or more, for "
                           "mode %u",
                           mode);
        ret[mode - 1] = x;
        args->n_named = mode > args->n_named ? mode : args->n_named;
        text = *from == ',' ? from + 1 : NULL;
    }
    return 0;
}

/* "0:1" for all modes, or "1=0:1,3=-1:inf". */
static int parse_bounds(struct cp_args *args, const char *text,
                        struct ts_constraint ret[TS_MAX_ORDER], struct ts_err *err)
{
    const int all = text != NULL && strchr(text, '=') == NULL;
    memset(ret, 0, TS_MAX_ORDER * sizeof *ret);
    while (text != NULL) {
        const char *from;
        uint32_t mode = 1;
        struct ts_constraint c = { .bounded = 1 };
        char *end;
        int rc = all ? 0 : take_mode("bounds", &text, &mode, err);
        if (rc < 0)
            return rc;
        if (!all && *text++ != '=')
            return ts_fail(err, TS_EARG,
                           "option '--bounds': expected MODE=LOWER:UPPER after mode %u", mode);
        if (!all && ret[mode - 1].bounded)
            return ts_fail(err, TS_EARG, "option '--bounds': mode %u is named twice", mode);
        from = text;
        c.lower = strtod(text, &end);
        if (end == text || *end != ':' ||
            (text = end + 1, c.upper = strtod(text, &end), end == text) ||
            (*end != '\0' && (*end != ',' || all)) || !(c.lower <= c.upper) ||
            (!isfinite(c.lower) && !isfinite(c.upper)))
            return ts_fail(
                err, TS_EARG,
                "option '--bounds': '%s' are not a lower and an upper number, like 0:1 or 0:inf",
                from);
        for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
            if (all || m + 1 == mode)
                ret[m] = c;
        if (!all && mode > args->n_named)
            args->n_named = mode;
        text = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

/* Modes that an option holds for: where it names none, those that are not fixed. */
static uint32_t modes_of(const char *text, int names, uint32_t fixed)
{
    return text != NULL && !names ? ~fixed : UINT32_MAX;
}

int cp_constraint_parse(struct cp_args *args, struct ts_err *err)
{
    double l1[TS_MAX_ORDER], l2[TS_MAX_ORDER], smooth[TS_MAX_ORDER];
    struct ts_constraint bounds[TS_MAX_ORDER];
    uint32_t nonneg, fixed, simplex, orthogonal, modes[4];
    enum ts_loss_kind loss = TS_GCP_NONE;
    double loss_at = 0;
    int rc;
    args->n_named = 0;
    args->poisson = strcmp(args->loss, "poisson") == 0;
    if (!args->poisson && strcmp(args->loss, "least-squares") != 0 &&
        ts_loss_parse(args->loss, &loss, &loss_at, err) < 0)
        return TS_EARG;
    rc = parse_modes(args, "fix", args->fix, &fixed, err);
    if (rc == 0)
        rc = parse_modes(args, "nonneg", args->nonneg, &nonneg, err);
    if (rc == 0)
        rc = parse_modes(args, "simplex", args->simplex, &simplex, err);
    if (rc == 0)
        rc = parse_modes(args, "orthogonal", args->orthogonal, &orthogonal, err);
    if (rc == 0)
        rc = parse_bounds(args, args->bounds, bounds, err);
    if (rc == 0)
        rc = parse_penalty(args, "l1", args->l1, l1, err);
    if (rc == 0)
        rc = parse_penalty(args, "l2", args->l2, l2, err);
    if (rc == 0)
        rc = parse_smooth(args, args->smooth, smooth, err);
    if (rc < 0)
        return rc;
    for (uint32_t m = 0;
         m < TS_MAX_ORDER && args->observed && args->l2 == NULL && loss == TS_GCP_NONE; m++)
        l2[m] = (fixed >> m & 1) != 0 ? 0 : OBSERVED_L2;
    modes[0] =
        modes_of(args->nonneg, args->nonneg != NULL && strcmp(args->nonneg, "all") != 0, fixed);
    modes[1] = modes_of(args->l1, args->l1 != NULL && strchr(args->l1, '=') != NULL, fixed);
    modes[2] = modes_of(args->l2, args->l2 != NULL && strchr(args->l2, '=') != NULL, fixed);
    modes[3] =
        modes_of(args->bounds, args->bounds != NULL && strchr(args->bounds, '=') != NULL, fixed);
    args->spec = (struct ts_spec){ .poisson = args->poisson,
                                   .loss = loss,
                                   .loss_at = loss_at,
                                   .lbfgsb = args->optimizer == 1,
                                   .observed = args->observed,
                                   .mean = args->mean,
                                   .held = (args->hold_out != NULL || args->folds > 0) &&
                                           !args->observed && loss == TS_GCP_NONE,
                                   .best = args->patience > 0,
                                   .by_count = args->observed && args->l2_scale };
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        const int bounded = bounds[m].bounded && (modes[3] >> m & 1) != 0;
        args->spec.mode[m] = (struct ts_constraint){ .nonneg = (nonneg & modes[0]) >> m & 1,
                                                     .simplex = simplex >> m & 1,
                                                     .orthogonal = orthogonal >> m & 1,
                                                     .smooth = smooth[m],
                                                     .bounded = bounded,
                                                     .lower = bounded ? bounds[m].lower : 0,
                                                     .upper = bounded ? bounds[m].upper : 0,
                                                     .fixed = fixed >> m & 1,
                                                     .l1 = (modes[1] >> m & 1) != 0 ? l1[m] : 0,
                                                     .l2 = (modes[2] >> m & 1) != 0 ? l2[m] : 0 };
    }
    return args->poisson || loss != TS_GCP_NONE || args->optimizer == 1
               ? ts_spec_check(&args->spec, TS_MAX_ORDER, err)
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
        const int way = !numbers                                ? strcmp(label[i], label[i - 1])
                        : label_number(label[i - 1], &last) == 0 ||
                                label_number(label[i], &x) == 0 ? 0
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
        snprintf(ret, room,
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
