/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and removes a directory for temporary files that have names. */
#include "base/files/temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/files/atomic_names.h"
#include "base/files/unfinished.h"

struct ts_temp_dir {
    char *path;
    struct ts_unfinished unfinished;
};

/* Removes a file, or a directory with what is in it. Links are not followed. */
static int remove_name(void *ctx, int dir, const char *name)
{
    int fd;
    (void)ctx;
    if (unlinkat(dir, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
        return 0;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return 0;
    (void)ts_atomic_walk(fd, remove_name, NULL);
    close(fd);
    unlinkat(dir, name, AT_REMOVEDIR);
    return 0;
}

static void undo(void *object)
{
    const struct ts_temp_dir *d = object;
    remove_name(NULL, AT_FDCWD, d->path);
}

int ts_temp_dir_new(const char *parent, struct ts_temp_dir **ret, struct ts_err *err)
{
    struct ts_temp_dir *d = calloc(1, sizeof *d);
    if (d == NULL || asprintf(&d->path, "%s/tstream-XXXXXX", parent) < 0) {
        free(d);
        return ts_no_memory(err, parent);
    }
    if (mkdtemp(d->path) == NULL) {
        const int rc = ts_fail_errno(err, TS_EIO, "%s: no directory can be made in it", parent);
        free(d->path);
        free(d);
        return rc;
    }
    ts_unfinished_add(&d->unfinished, undo, d);
    *ret = d;
    return 0;
}

const char *ts_temp_dir_path(const struct ts_temp_dir *d)
{
    return d->path;
}

void ts_temp_dir_remove(struct ts_temp_dir *d)
{
    if (d == NULL)
        return;
    ts_unfinished_drop(&d->unfinished);
    undo(d);
    free(d->path);
    free(d);
}
