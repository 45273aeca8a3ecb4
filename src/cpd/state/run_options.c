/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks up options in the text of a run (run_options.h), and checks a text that comes from a
 * file. */
#include "cpd/state/run_options.h"

#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/setting.h"
#include "base/setting_kind.h"

/* The data of a row of base/settings.def that checks of a text need. */
struct row {
    struct ts_run_option kept;
    struct ts_opt opt;    /* how ts_opt_set parses the value; its offset is 0 */
    uint32_t least, most; /* limits of the value, for a row of type COUNT */
    /* is_share: the value is a share; is_read: it can be checked without the other options */
    int is_share, is_read;
};

#define LIMITS_FLAG
#define LIMITS_COUNT(A, B) .least = (A), .most = (B), .is_read = 1
#define LIMITS_NUMBER      .is_read = 1
#define LIMITS_NUMBERS     .is_read = 1
#define LIMITS_REAL
#define LIMITS_SIZE     .is_read = 1
#define LIMITS_DURATION .is_read = 1
#define LIMITS_CHOICE
#define LIMITS_SHARE .is_share = 1
#define LIMITS_TEXT
#define LIMITS_MODES(x)
#define LIMITS_MODES_OR_ALL(x)
#define LIMITS_PENALTIES(x)
#define LIMITS_PENALTIES_1(x)
#define LIMITS_BOUNDS(x)

#define SETTING(member, option, letter, kind, def, arg, section, resume, ...) \
    { .kept = { option, TS_RUN_##resume },                                    \
      .opt = { .name = option, .type = TS_OPT_OF_##kind },                    \
      LIMITS_##kind },
static const struct row rows[] = {
#include "base/settings.def"
};
#define N_ROWS (sizeof rows / sizeof *rows)

/* The order of options in the states of all versions. Settings that are not listed follow these. */
static const char *const first[] = {
    "rank",      "seed",     "init",     "precision",  "nonneg",   "l1",       "l2",
    "simplex",   "bounds",   "observed", "l2-scale",   "hold-out", "patience", "orthogonal",
    "smooth",    "fix",      "iters",    "tol",        "format",   "rows",     "checkpoint",
    "save-init", "restarts", "diagnose", "accelerate", "loss",     "inner",    "optimizer",
    "mean",      "folds",    NULL,
};

static const struct row *find_row(const char *name, size_t n)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].kept.name) == n && memcmp(rows[i].kept.name, name, n) == 0)
            return &rows[i];
    return NULL;
}

const struct ts_run_option *ts_run_option(uint32_t i)
{
    uint32_t row;
    for (uint32_t k = 0; (row = ts_setting_row(first, k)) != TS_NO_SETTING; k++)
        if (rows[row].kept.fixed != TS_RUN_NOT_KEPT && i-- == 0)
            return &rows[row].kept;
    return NULL;
}

const char *ts_run_options_get(const char *text, uint64_t bytes, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = text; at < text + bytes; at += strlen(at) + 1)
        if (strncmp(at, name, n) == 0 && at[n] == '=')
            return at + n + 1;
    return NULL;
}

/* Whether the text is "10%" or "0.1", above 0 and below 1, or "fold 1/5". */
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

/* Checks the value of one option as if a user had typed it, without the other options. Commands
 * check all options together (tools/cp/tstream_cp.c), and the library uses the options of its
 * caller. */
static int is_possible(const struct row *row, const char *value)
{
    union {
        struct ts_opt_numbers numbers;
        uint64_t u64;
        uint32_t u32;
    } x = { .u64 = 0 };
    struct ts_err why;
    if (row == NULL) /* members of the file models.run that are not options */
        return 1;
    if (row->is_share)
        return is_share(value);
    if (!row->is_read)
        return 1;
    return ts_opt_set(&row->opt, &x, value, &why) == 0 &&
           (row->opt.type != TS_OPT_U32 || (x.u32 >= row->least && x.u32 <= row->most));
}

static int is_known(const char *name, size_t n, int several)
{
    static const char *const of_file[] = { "tensor", "version", "checksum", "xxh3" };
    const struct row *row = find_row(name, n);
    for (int i = 0; i < (several ? 4 : 1); i++)
        if (strlen(of_file[i]) == n && memcmp(of_file[i], name, n) == 0)
            return 1;
    return row != NULL && row->kept.fixed != TS_RUN_NOT_KEPT &&
           (several || row->kept.fixed != TS_RUN_OF_SEVERAL);
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
        if (!is_possible(find_row(at, n), equals + 1))
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
