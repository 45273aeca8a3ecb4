/* SPDX-License-Identifier: BSD-3-Clause */
/* run_dirs.h - opens the directories of a run: the result X.cp, and X.cp.partial, where the run
 * writes until it ends.
 *
 * A run that ends while they are read replaces both. So both are opened once, and everything is
 * read through the open directories. If another directory has one of the names afterwards, reading
 * begins again.
 *
 *   owner    the caller owns what ts_run_dirs_read returns, until close
 *   threads  one thread calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_RUN_DIRS_H
#define TS_CPD_RUN_DIRS_H

#include "base/files/open_dir.h"

struct ts_run_dirs {
    char *name, *partial_name;            /* "X.cp", "X.cp.partial" */
    struct ts_open_dir *result, *partial; /* NULL: it does not exist, or cannot be opened */
    /* why `result` or `partial` cannot be opened; code 0: the directory does not exist */
    struct ts_err no_result, no_partial;
    /* 1: X.cp.partial is a leftover: the process was killed after X.cp had replaced it */
    int is_left;
};

/* Reads from the directories. It may be called again, and must then discard what it has read
 * before. */
typedef int ts_run_dirs_fn(void *ctx, const struct ts_run_dirs *d, struct ts_err *err);

/* Opens the directories of the run `name`, which is X.cp, X.cp/ or X.cp.partial, and calls `read`,
 * again if they were replaced meanwhile. */
int ts_run_dirs_read(const char *name, ts_run_dirs_fn *read, void *ctx, struct ts_run_dirs *ret,
                     struct ts_err *err);
/* members that the caller has taken over must be NULL */
void ts_run_dirs_close(struct ts_run_dirs *d);

#endif
