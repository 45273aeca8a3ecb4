/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/cp/cp_constraint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ts_run_values values_of(const struct cp_args *args)
{
    struct ts_run_values v = { 0 };
#define SETTING(member, ...) v.member = args->member;
#define SETTING_IN(...)
#include "base/settings.def"
    return v;
}

int cp_constraint_parse(struct cp_args *args, struct ts_err *err)
{
    const struct ts_run_values v = values_of(args);
    args->poisson = strcmp(args->loss, "poisson") == 0;
    return ts_run_values_spec(&v, &args->spec, &args->n_named, err);
}

int cp_constraint_check(const struct cp_args *args, struct ts_err *err)
{
    const struct ts_run_values v = values_of(args);
    return ts_run_values_check(&v, &args->spec, err);
}

int cp_constraint_same(const char *file, const struct cp_args *args, const struct ts_state *s,
                       struct ts_err *err)
{
    const struct ts_run_values v = values_of(args);
    return ts_run_values_same(file, &v, &args->spec, args->n_named, s, err);
}

/* Whether the constraints allow only model values of the wrong sign, for a loss whose model is a
 * logarithm. If so, writes a message. */
static int note_sign(const struct cp_args *args, const struct ts_tensor *t, char *ret, size_t room)
{
    const int loss = args->spec.loss;
    double mean = 0;
    const int sign = ts_method_lost_sign(t, &args->spec, &mean);
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

/* number of labels read from the start of a mode, to find whether they are in order */
#define LABELS_SEEN 4096u

/* Parses a whole label as a number. Returns 0 if it is none. */
static int label_number(const char *label, double *ret)
{
    char *end;
    *ret = ts_strtod(label, &end);
    return end != label && *end == '\0';
}

/* Whether labels ascend or descend throughout: as numbers if all are numbers, else by their bytes,
 * as ISO 8601 dates and sorted names do. */
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
