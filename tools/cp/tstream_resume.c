/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets the options of a resumed run from its state, and refuses options that cannot change. */
#include "tools/cp/tstream_resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ts_opt *find_option(const struct ts_cmd *cmd, const char *name, uint32_t *at)
{
    for (*at = 0; cmd->opts[*at].name != NULL; (*at)++)
        if (strcmp(cmd->opts[*at].name, name) == 0)
            return &cmd->opts[*at];
    return NULL;
}

/* ---- options of the resumed run ---- */

/* Returns whether an option may change. With several models, which must all be computed alike, only
 * the interval at which states are saved may. value: NULL if the run has no such value, as runs of
 * earlier library versions for --save-init. */
static enum ts_run_fixed fixed_of(const struct ts_run_option *k, int several, const char *value)
{
    if (!several)
        return k->fixed;
    return strcmp(k->name, "checkpoint") == 0 ||
                   (value == NULL && strcmp(k->name, "save-init") == 0)
               ? TS_RUN_MAY_CHANGE
               : TS_RUN_SAME_TEXT;
}

int tstream_resume_all(const char *file, const struct ts_state *s, const struct ts_cmd *cmd,
                       void *args, struct ts_err *err)
{
    int rc = 0;
    const struct ts_run_option *k;
    for (uint32_t i = 0; rc == 0 && (k = ts_run_option(i)) != NULL; i++) {
        const char *value = ts_state_option(s, k->name);
        uint32_t at;
        const struct ts_opt *o = find_option(cmd, k->name, &at);
        if (o != NULL && value != NULL)
            rc = ts_run_values_set(file, o, value, args, err);
    }
    return rc;
}

int tstream_resume_options(const char *file, const char *dir, const struct ts_state *s, int several,
                           const struct ts_cmd *cmd, uint64_t given, void *args, struct ts_err *err)
{
    const struct ts_run_option *k;
    for (uint32_t i = 0; (k = ts_run_option(i)) != NULL; i++) {
        const char *value = ts_state_option(s, k->name);
        const enum ts_run_fixed fixed = fixed_of(k, several, value);
        char now[4096];
        uint32_t at;
        const struct ts_opt *o = find_option(cmd, k->name, &at);
        int rc = 0;
        if (o == NULL || (value == NULL && !(fixed != TS_RUN_MAY_CHANGE && (given >> at & 1) != 0)))
            continue;
        ts_opt_text(o, args, now, sizeof now);
        if (value == NULL)
            return ts_fail(err, TS_EARG,
                           "%s: the run has no --%s, so it cannot continue with --%s%s%s", dir,
                           o->name, o->name, o->type == TS_OPT_FLAG ? "" : " ",
                           o->type == TS_OPT_FLAG ? "" : now);
        if (o->type == TS_OPT_FLAG && strcmp(value, "1") != 0)
            continue;
        if ((given >> at & 1) == 0)
            rc = ts_run_values_set(file, o, value, args, err);
        else if (fixed == TS_RUN_SAME_TEXT && strcmp(now, value) != 0)
            rc =
                ts_fail(err, TS_EARG, "%s: the run has --%s %s, so it cannot continue with --%s %s",
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
        const struct ts_run_option *k;
        for (uint32_t i = 0; (k = ts_run_option(i)) != NULL; i++) {
            if (k->fixed == TS_RUN_OF_SEVERAL && !several)
                continue;
            ts_opt_text(find_option(cmd, k->name, &at), args, value, sizeof value);
            if (value[0] == '\0') /* the option was not given */
                continue;
            fprintf(to, "%s=%s%c", k->name, value, 0);
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

/* ---- messages that say how to resume ---- */

const char *tstream_resume_quote(const char *dir)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/,:@";
    return dir != NULL && strspn(dir, plain) == strlen(dir) ? "" : "'";
}

void tstream_resume_hint(const struct ts_run_outcome *o, const char *dir, struct ts_err *err)
{
    const char *quote = tstream_resume_quote(dir);
    const size_t at = strlen(err->text);
    if (!o->saved) {
        if (err->code == TS_ESTOP)
            snprintf(err->text + at, sizeof err->text - at, "; nothing was saved");
        return;
    }
    snprintf(err->text + at, sizeof err->text - at,
             "; \"tstream cp --resume %s%s%s\" goes on from sweep %u, mode %u", quote, dir, quote,
             o->sweep, o->mode + 1);
}
