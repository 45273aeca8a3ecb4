/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives a run that goes on the options of its state, and refuses others. */
#include "tools/tstream_resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What cannot be changed in the middle of a run. Constraints that are the same have many texts: those that both have
 * are compared by value when the run goes on. */
enum fixed { MAY_CHANGE, SAME_TEXT, SAME_VALUE, OF_SEVERAL };

/* What makes up a run; OF_SEVERAL: one of several models alone. These are all computed alike, so that
 * nothing may change between them but MAY_CHANGE of files. */
static const struct {
    const char *name;
    enum fixed fixed;
} kept[] = {
    { "rank", SAME_TEXT },       { "seed", SAME_TEXT },        { "init", SAME_TEXT },
    { "precision", SAME_TEXT },  { "nonneg", SAME_VALUE },     { "l1", SAME_VALUE },
    { "l2", SAME_VALUE },        { "simplex", SAME_VALUE },    { "bounds", SAME_VALUE },
    { "observed", SAME_TEXT },   { "l2-scale", SAME_TEXT },    { "hold-out", SAME_TEXT },
    { "patience", SAME_TEXT },   { "orthogonal", SAME_VALUE }, { "smooth", SAME_VALUE },
    { "fix", SAME_VALUE },       { "iters", MAY_CHANGE },      { "tol", MAY_CHANGE },
    { "format", MAY_CHANGE },    { "rows", MAY_CHANGE },       { "checkpoint", MAY_CHANGE },
    { "save-init", MAY_CHANGE }, { "restarts", OF_SEVERAL },   { "diagnose", OF_SEVERAL },
    { "accelerate", SAME_TEXT }, { "loss", SAME_VALUE },       { "inner", SAME_TEXT },
    { "optimizer", SAME_TEXT },  { "mean", SAME_TEXT },        { "folds", OF_SEVERAL },
};
#define N_KEPT (sizeof kept / sizeof kept[0])

static const struct ts_opt *find_option(const struct ts_cmd *cmd, const char *name, uint32_t *at)
{
    for (*at = 0; cmd->opts[*at].name != NULL; (*at)++)
        if (strcmp(cmd->opts[*at].name, name) == 0)
            return &cmd->opts[*at];
    return NULL;
}

/* ---- options ---- */

/* value: NULL where the run does not say, as earlier versions of the library of --save-init. */
static enum fixed fixed_of(size_t i, int several, const char *value)
{
    if (!several)
        return kept[i].fixed;
    return strcmp(kept[i].name, "checkpoint") == 0 ||
                   (value == NULL && strcmp(kept[i].name, "save-init") == 0)
               ? MAY_CHANGE
               : SAME_TEXT;
}

int tstream_resume_options(const char *dir, const struct ts_state *s, int several,
                           const struct ts_cmd *cmd, uint64_t given, void *args, struct ts_err *err)
{
    for (size_t i = 0; i < N_KEPT; i++) {
        const char *value = ts_state_option(s, kept[i].name);
        const enum fixed fixed = fixed_of(i, several, value);
        char now[4096];
        uint32_t at;
        const struct ts_opt *o = find_option(cmd, kept[i].name, &at);
        int rc = 0;
        if (o == NULL || (value == NULL && !(fixed != MAY_CHANGE && (given >> at & 1) != 0)))
            continue;
        ts_opt_text(o, args, now, sizeof now);
        if (value == NULL)
            return ts_fail(err, TS_EARG,
                           "%s: the run has no --%s, so it cannot go on with --%s%s%s", dir,
                           o->name, o->name, o->type == TS_OPT_FLAG ? "" : " ",
                           o->type == TS_OPT_FLAG ? "" : now);
        if (o->type == TS_OPT_FLAG && strcmp(value, "1") != 0)
            continue;
        if ((given >> at & 1) == 0)
            rc = ts_opt_set(o, args, value, err);
        else if (fixed == SAME_TEXT && strcmp(now, value) != 0)
            rc = ts_fail(err, TS_EARG, "%s: the run has --%s %s, so it cannot go on with --%s %s",
                         dir, o->name, value, o->name, now);
        if (rc < 0)
            return rc;
    }
    return 0;
}

const char *tstream_resume_tensor(const struct ts_state *s)
{
    return ts_state_option(s, "tensor");
}

int tstream_resume_record(const struct ts_cmd *cmd, const void *args, int several,
                          const char *tensor, char **ret, uint64_t *bytes, struct ts_err *err)
{
    char *real = ts_array_name_real(tensor), *text = NULL, value[4096];
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    uint32_t at;
    if (to != NULL) {
        fprintf(to, "tensor=%s%c", real != NULL ? real : tensor, 0);
        for (size_t i = 0; i < N_KEPT; i++) {
            if (kept[i].fixed == OF_SEVERAL && !several)
                continue;
            ts_opt_text(find_option(cmd, kept[i].name, &at), args, value, sizeof value);
            if (value[0] == '\0') /* not given */
                continue;
            fprintf(to, "%s=%s%c", kept[i].name, value, 0);
        }
    }
    free(real);
    if (to == NULL || fclose(to) != 0) {
        free(text);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", tensor);
    }
    *ret = text;
    *bytes = n;
    return 0;
}

/* ---- how to go on ---- */

const char *tstream_resume_quote(const char *dir)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/,:@";
    return dir != NULL && strspn(dir, plain) == strlen(dir) ? "" : "'";
}

void tstream_resume_hint(const struct ts_checkpoint *c, const char *dir, struct ts_err *err)
{
    const char *quote = tstream_resume_quote(dir);
    const size_t at = strlen(err->text);
    uint32_t sweep, mode;
    if (c == NULL || !ts_checkpoint_last(c, &sweep, &mode)) {
        if (err->code == TS_ESTOP)
            snprintf(err->text + at, sizeof err->text - at, "; nothing was saved");
        return;
    }
    snprintf(err->text + at, sizeof err->text - at,
             "; \"tstream cp --resume %s%s%s\" goes on from sweep %u, mode %u", quote, dir, quote,
             sweep, mode + 1);
}
