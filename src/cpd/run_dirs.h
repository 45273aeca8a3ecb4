/* SPDX-License-Identifier: BSD-3-Clause */
/* run_dirs.h - the two directories of a run: X.cp, its result, and X.cp.partial, which it writes until all is done.
 *
 * A run that ends meanwhile replaces both. So they are opened once, what is wanted is read through that, and all
 * of it begins again where one of them has become another.
 *
 *   owner    the caller owns what ts_run_dirs_read returns, until close
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_RUN_DIRS_H
#define TS_CPD_RUN_DIRS_H

#include "base/open_dir.h"

struct ts_run_dirs {
    char *name, *partial_name;            /* "X.cp", "X.cp.partial" */
    struct ts_open_dir *result, *partial; /* NULL: there is none, or it cannot be opened: */
    struct ts_err no_result, no_partial;  /* why; code 0: there is none */
    int is_left; /* a kill left X.cp.partial, which X.cp has replaced: it is no run */
};

/* Reads what it wants of them, and begins with what it has read before of no use. */
typedef int ts_run_dirs_fn(void *ctx, const struct ts_run_dirs *d, struct ts_err *err);

/* `name` is X.cp, X.cp/ or X.cp.partial. */
int ts_run_dirs_read(const char *name, ts_run_dirs_fn *read, void *ctx, struct ts_run_dirs *ret,
                     struct ts_err *err);
void ts_run_dirs_close(struct ts_run_dirs *d); /* what the caller has taken is NULL */

#endif
