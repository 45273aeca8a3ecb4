/* SPDX-License-Identifier: BSD-3-Clause */
/* Applies the options, and shows the progress, of tshard build, gen, split and select. */
#include "tools/build/build_opts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"

/* the work counter of the running build; a command runs one build at a time */
static _Atomic uint64_t build_work;

static void show(void *arg, const struct ts_build_step *step)
{
    struct tool_progress *p = arg;
    /* the unit of the counted work as a string constant, because step->unit may not stay valid */
    const char *unit = strcmp(step->unit, "bytes") == 0 ? "bytes"
                       : *step->unit == '\0'            ? ""
                                                        : "nonzeros";
    char what[TOOL_PROGRESS_CHARS];
    snprintf(what, sizeof what, "phase %" PRIu32 "/%" PRIu32 ", %s", step->phase, step->n_phases,
             step->what);
    if (strcmp(p->what, what) != 0) {
        tool_progress_start(p, what, unit, step->total);
        tool_progress_count(p, &build_work, step->work);
        if (step->alike > 0)
            tool_progress_rest(p, 0, step->alike, "build about");
    }
    tool_progress_update(p, step->done);
}

static void warn(void *arg, const struct ts_err *text)
{
    (void)arg;
    tool_progress_warn(text->text);
}

int build_opts_apply(const struct build_opts *c, struct ts_build_options *o,
                     struct tool_progress *progress, struct ts_err *err)
{
    int rc;
    o->force = c->force;
    o->value_bytes = c->values == 0 ? 4 : 8;
    o->tmp = c->tmp != NULL ? c->tmp : getenv("TMPDIR");
    if (o->tmp != NULL && *o->tmp == '\0')
        o->tmp = NULL;
    rc = tool_threads_check(c->threads, err);
    if (rc == 0)
        rc = ts_build_budget(c->memory, c->shard, c->threads, o, err);
    if (rc < 0)
        return rc;
    memset(progress, 0, sizeof *progress);
    o->progress = show;
    o->progress_arg = progress;
    o->work = &build_work;
    o->no_space_check = c->no_space_check;
    o->note = warn;
    tool_catch_signals();
    o->stop = &tool_stop;
    return 0;
}

void build_opts_like(const struct ts_tensor *t, struct ts_build_options *o)
{
    o->value_bytes = t->header.value_bytes;
    o->duplicates =
        (t->header.flags & TS_TENSOR_DUPLICATES) != 0 ? TS_DUPLICATES_KEEP : TS_DUPLICATES_SUM;
    o->zeros = (t->header.flags & TS_TENSOR_ZEROS) != 0;
    o->weights = ts_tensor_weighted(t);
}

char *build_opts_name(const char *path, const char *suffix)
{
    size_t n = strlen(path), first = n;
    char *ret = NULL;
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (first = n; first > 0 && path[first - 1] != '/'; first--)
        ;
    if (n - first > 4 && strncmp(path + n - 4, ".tsh", 4) == 0)
        n -= 4;
    return asprintf(&ret, "%.*s%s", (int)(n - first), path + first, suffix) < 0 ? NULL : ret;
}

int build_opts_dims(const char *text, uint64_t dim[TS_MAX_ORDER], struct ts_err *err)
{
    const char *p = text;
    for (uint32_t n = 0;; p++) {
        uint64_t v = 0;
        const char *start = p;
        for (; *p >= '0' && *p <= '9' && v <= TS_MAX_DIM; p++)
            v = 10 * v + (uint64_t)(*p - '0');
        if (p == start || v == 0 || v > TS_MAX_DIM || (*p != '\0' && *p != 'x'))
            return ts_fail(err, TS_EARG, "--dims %s: expected sizes from 1 to 2^40 like 30x40x50",
                           text);
        if (n == TS_MAX_ORDER)
            return ts_fail(err, TS_EARG, "--dims %s: at most %u modes are possible", text,
                           TS_MAX_ORDER);
        dim[n++] = v;
        if (*p == '\0')
            return (int)n;
    }
}
