/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the latest state of the run under way, or else that of the result. */
#include "cpd/resume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_out.h"
#include "base/setting.h"
#include "cpd/checkpoint.h"
#include "model/model_write.h"

#define PARTIAL ".partial"

/* X.cp of "X.cp/" or "X.cp.partial". */
static char *result_name(const char *name)
{
    size_t n = strlen(name);
    while (n > 1 && name[n - 1] == '/')
        n--;
    if (n > sizeof PARTIAL - 1 &&
        strncmp(name + n - (sizeof PARTIAL - 1), PARTIAL, sizeof PARTIAL - 1) == 0)
        n -= sizeof PARTIAL - 1;
    return strndup(name, n);
}

/* Opens DIR SUFFIX / NAME and keeps it when it is later than what there is. */
static int consider(struct ts_resume *r, const char *suffix, const char *name, struct ts_err *err)
{
    struct ts_state_file *f = NULL;
    struct ts_err why;
    char *path;
    int rc;
    if (asprintf(&path, "%s%s/%s", r->dir, suffix, name) < 0)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", r->dir);
    rc = ts_state_open(path, &f, &why);
    free(path);
    if (rc == TS_ENOMEM) {
        *err = why;
        return rc;
    }
    if (rc < 0 && !(why.sys == ENOENT || why.sys == ENOTDIR) &&
        (suffix[0] != '\0' || r->file == NULL))
        r->damaged = why;
    if (rc < 0)
        return 0;
    if (r->file == NULL || ts_state_get(f)->serial > ts_state_get(r->file)->serial) {
        ts_state_close(r->file);
        r->file = f;
        r->of_result = suffix[0] == '\0';
    } else {
        ts_state_close(f);
    }
    return 0;
}

int ts_resume_open(const char *name, struct ts_resume *ret, struct ts_err *err)
{
    static const char *const generation[] = { TS_STATE_NAME_0, TS_STATE_NAME_1, TS_STATE_NAME };
    struct ts_resume r = { .dir = result_name(name) };
    struct stat st;
    int replaced, rc;
    rc = r.dir == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", name) : 0;
    replaced = rc == 0 && ts_atomic_dir_replaced(r.dir); /* a kill left what X.cp has replaced */
    for (int i = 0; i < 3 && rc == 0 && !replaced; i++)
        rc = consider(&r, PARTIAL, generation[i], err);
    if (rc == 0 && r.file == NULL && r.damaged.code == 0)
        rc = consider(&r, "", TS_STATE_NAME, err);
    if (rc == 0 && r.file == NULL && r.damaged.code != 0) {
        *err = r.damaged;
        rc = err->code;
    } else if (rc == 0 && r.file == NULL) {
        rc = stat(r.dir, &st) == 0 || errno != ENOENT
                 ? ts_fail(err, TS_EARG, "%s: holds no state of a run that could go on", r.dir)
                 : ts_fail(err, TS_EARG, "%s: there is no run of this name to go on with", r.dir);
    }
    if (rc < 0)
        ts_resume_close(&r);
    else
        *ret = r;
    return rc;
}

void ts_resume_close(struct ts_resume *r)
{
    ts_state_close(r->file);
    free(r->dir);
    memset(r, 0, sizeof *r);
}

int ts_resume_start(const struct ts_resume *r, int stays, struct ts_init_conf *conf,
                    struct ts_err *err)
{
    const struct ts_state *s = ts_state_get(r->file);
    const char *init = ts_state_option(s, "init"), *seed = ts_state_option(s, "seed");
    struct ts_init_conf then;
    char *path;
    int there, rc = 0;
    if (asprintf(&path, "%s%s/" TS_MODEL_START, r->dir, r->of_result ? "" : PARTIAL) < 0)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", r->dir);
    there = access(path, F_OK) == 0;
    if (there && !stays)
        rc = ts_model_open(path, &conf->model, err);
    free(path);
    if (there)
        return rc < 0 ? rc : stays ? TS_START_KEPT : TS_START_KNOWN;
    if (init != NULL && strcmp(init, "nvecs") != 0 && strcmp(init, "random") != 0)
        return TS_START_GIVEN;
    then = (struct ts_init_conf){ .nvecs = init != NULL && strcmp(init, "nvecs") == 0,
                                  .constraint = s->constraint };
    if (ts_init_is_computed(&then)) {
        ts_fail(err, TS_EARG,
                "%s: the run did not save its start, which was computed and cannot be "
                "written once there are sweeps; leave " TS_SET_SAVE_INIT " out",
                r->dir);
        return TS_START_LOST;
    }
    if (seed != NULL)
        conf->seed = strtoull(seed, NULL, 10);
    return TS_START_KNOWN;
}
