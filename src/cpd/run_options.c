/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks options up in the text of a run, and checks the text of a file. */
#include "cpd/run_options.h"

#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/opt.h"

const struct ts_run_option ts_run_option[] = {
    { "rank", TS_RUN_SAME_TEXT },        { "seed", TS_RUN_SAME_TEXT },
    { "init", TS_RUN_SAME_TEXT },        { "precision", TS_RUN_SAME_TEXT },
    { "nonneg", TS_RUN_SAME_VALUE },     { "l1", TS_RUN_SAME_VALUE },
    { "l2", TS_RUN_SAME_VALUE },         { "simplex", TS_RUN_SAME_VALUE },
    { "bounds", TS_RUN_SAME_VALUE },     { "observed", TS_RUN_SAME_TEXT },
    { "l2-scale", TS_RUN_SAME_TEXT },    { "hold-out", TS_RUN_SAME_TEXT },
    { "patience", TS_RUN_SAME_TEXT },    { "orthogonal", TS_RUN_SAME_VALUE },
    { "smooth", TS_RUN_SAME_VALUE },     { "fix", TS_RUN_SAME_VALUE },
    { "iters", TS_RUN_MAY_CHANGE },      { "tol", TS_RUN_MAY_CHANGE },
    { "format", TS_RUN_MAY_CHANGE },     { "rows", TS_RUN_MAY_CHANGE },
    { "checkpoint", TS_RUN_MAY_CHANGE }, { "save-init", TS_RUN_MAY_CHANGE },
    { "restarts", TS_RUN_OF_SEVERAL },   { "diagnose", TS_RUN_OF_SEVERAL },
    { "accelerate", TS_RUN_SAME_TEXT },  { "loss", TS_RUN_SAME_VALUE },
    { "inner", TS_RUN_SAME_TEXT },       { "optimizer", TS_RUN_SAME_TEXT },
    { "mean", TS_RUN_SAME_TEXT },        { "folds", TS_RUN_OF_SEVERAL },
    { NULL, TS_RUN_MAY_CHANGE },
};

const char *ts_run_options_get(const char *text, uint64_t bytes, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = text; at < text + bytes; at += strlen(at) + 1)
        if (strncmp(at, name, n) == 0 && at[n] == '=')
            return at + n + 1;
    return NULL;
}

/* "10%" or "0.1": some of the nonzeros, and not all; or "fold 1/5". */
static int is_share(const char *text)
{
    unsigned fold, folds;
    char *end;
    double x;
    int n = 0;
    if (sscanf(text, "fold %u/%u%n", &fold, &folds, &n) == 2)
        return text[n] == '\0' && fold >= 1 && fold <= folds && folds >= 2;
    x = ts_strtod(text, &end);
    x /= *end == '%' ? 100 : 1;
    return end > text && strcmp(end, *end == '%' ? "%" : "") == 0 && x >= 0 && x < 1;
}

/* What can be said of a value without the other options, as of a typed one. The commands look at all of them
 * (tools/tstream_cp.c); the library takes its own from the caller. */
static int is_possible(const char *name, size_t n, const char *value)
{
    static const struct {
        struct ts_opt opt;
        double least, most;
    } number[] = { { { .name = "rank", .type = TS_OPT_NUMBERS }, 0, 0 },
                   { { .name = "seed", .type = TS_OPT_U64 }, 0, 0 },
                   { { .name = "iters", .type = TS_OPT_U32 }, 1, UINT32_MAX },
                   { { .name = "inner", .type = TS_OPT_U32 }, 1, UINT32_MAX },
                   { { .name = "patience", .type = TS_OPT_U32 }, 0, UINT32_MAX },
                   { { .name = "restarts", .type = TS_OPT_U32 }, 1, 1000 },
                   { { .name = "folds", .type = TS_OPT_U32 }, 0, 20 },
                   { { .name = "checkpoint", .type = TS_OPT_DURATION }, 0, 0 } };
    union {
        struct ts_opt_numbers numbers;
        uint64_t u64;
        uint32_t u32;
    } x = { .u64 = 0 };
    struct ts_err why;
    if (n == strlen("hold-out") && memcmp(name, "hold-out", n) == 0)
        return is_share(value);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (strlen(number[i].opt.name) == n && memcmp(number[i].opt.name, name, n) == 0)
            return ts_opt_set(&number[i].opt, &x, value, &why) == 0 &&
                   (number[i].opt.type != TS_OPT_U32 ||
                    (x.u32 >= number[i].least && x.u32 <= number[i].most));
    return 1;
}

static int is_known(const char *name, size_t n, int several)
{
    static const char *const of_file[] = { "tensor", "version", "checksum", "xxh3" };
    for (int i = 0; i < (several ? 4 : 1); i++)
        if (strlen(of_file[i]) == n && memcmp(of_file[i], name, n) == 0)
            return 1;
    for (const struct ts_run_option *o = ts_run_option; o->name != NULL; o++)
        if (strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return several || o->fixed != TS_RUN_OF_SEVERAL;
    return 0;
}

int ts_run_options_check(const char *path, const char *text, uint64_t bytes, int several,
                         struct ts_err *err)
{
    const char *end = text + bytes;
    if (bytes > 0 && end[-1] != '\0')
        return ts_fail(err, TS_EFORMAT, "%s: its options do not end", path);
    for (const char *at = text; at < end; at += strlen(at) + 1) {
        const char *equals = strchr(at, '=');
        const size_t n = equals == NULL ? 0 : (size_t)(equals - at);
        if (n == 0 || !is_known(at, n, several))
            return ts_fail(err, TS_EFORMAT, "%s: \"%.40s\" is no option of a run of %s", path, at,
                           several ? "several models" : "one model");
        if (*(equals + 1) == '\0')
            return ts_fail(err, TS_EFORMAT, "%s: its option \"%.*s\" has no value", path, (int)n,
                           at);
        if (!is_possible(at, n, equals + 1))
            return ts_fail(err, TS_EFORMAT,
                           "%s: its option \"%.*s\" is \"%.40s\", which no run has", path, (int)n,
                           at, equals + 1);
        for (const char *twin = text; twin < at; twin += strlen(twin) + 1)
            if (strncmp(twin, at, n + 1) == 0)
                return ts_fail(err, TS_EFORMAT, "%s: its option \"%.*s\" is there twice", path,
                               (int)n, at);
    }
    return 0;
}
