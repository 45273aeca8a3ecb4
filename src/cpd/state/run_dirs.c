/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the result of a run and its partial directory. If a run replaces one while they are read,
 * opens them again. */
#include "cpd/state/run_dirs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/atomic_out.h"

#define PARTIAL ".partial"

/* Returns the name X.cp for "X.cp/" or "X.cp.partial"; the caller frees it. */
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

static int open_one(const char *path, struct ts_open_dir **ret, struct ts_err *why,
                    struct ts_err *err)
{
    const int rc = ts_open_dir_new(path, ret, why);
    const int absent = rc == TS_EIO && (why->sys == ENOENT || why->sys == ENOTDIR);
    if (rc == 0 || absent)
        why->code = 0;
    if (rc == 0 || rc == TS_EIO)
        return 0;
    *err = *why;
    return rc;
}

static int open_both(const char *name, struct ts_run_dirs *d, struct ts_err *err)
{
    int rc;
    d->name = result_name(name);
    if (d->name == NULL || asprintf(&d->partial_name, "%s" PARTIAL, d->name) < 0) {
        d->partial_name = NULL;
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", name);
    }
    rc = open_one(d->name, &d->result, &d->no_result, err);
    if (rc == 0)
        rc = open_one(d->partial_name, &d->partial, &d->no_partial, err);
    d->is_left = d->result != NULL && ts_atomic_dir_replaces(ts_open_dir_fd(d->result));
    return rc;
}

/* Whether another directory now has the name of the result or of its partial directory. A result
 * that cannot be opened does not count. */
static int is_moved(const struct ts_run_dirs *d)
{
    struct stat st;
    if (d->partial != NULL && ts_open_dir_replaced(d->partial))
        return 1;
    if (d->result != NULL)
        return ts_open_dir_replaced(d->result);
    return d->no_result.code == 0 && stat(d->name, &st) == 0 && S_ISDIR(st.st_mode);
}

static int read_once(const char *name, ts_run_dirs_fn *read, void *ctx, struct ts_run_dirs *d,
                     struct ts_err *err)
{
    int rc = open_both(name, d, err);
    if (rc == 0) {
        rc = read(ctx, d, err);
        if (rc != TS_ENOMEM && is_moved(d))
            rc = ts_open_dir_fail(d->name, err);
    }
    if (rc < 0)
        ts_run_dirs_close(d);
    return rc;
}

int ts_run_dirs_read(const char *name, ts_run_dirs_fn *read, void *ctx, struct ts_run_dirs *ret,
                     struct ts_err *err)
{
    struct ts_err why;
    int rc, tries = 0;
    memset(ret, 0, sizeof *ret);
    do
        rc = read_once(name, read, ctx, ret, &why);
    while (ts_open_dir_stale(rc, &why) && ++tries < TS_OPEN_DIR_TRIES);
    if (rc < 0 && err != NULL)
        *err = why;
    return rc;
}

void ts_run_dirs_close(struct ts_run_dirs *d)
{
    ts_open_dir_close(d->result);
    ts_open_dir_close(d->partial);
    free(d->name);
    free(d->partial_name);
    memset(d, 0, sizeof *d);
}
