/* SPDX-License-Identifier: BSD-3-Clause */
/* atomic_names.h - the names in a directory that is or becomes a result (atomic_out.h): finds the
 * files that tstream wrote ("ours"), and removes them.
 *
 *   owner    the caller owns the open directory
 *   threads  any thread
 *   errors   0 or a negative ts_code, unless a function says otherwise
 */
#ifndef TS_BASE_ATOMIC_NAMES_H
#define TS_BASE_ATOMIC_NAMES_H

#include "base/files/atomic_out.h"

/* Calls f for each name but "." and ".." until f returns something other than 0; returns that.
 * Returns -1 with errno when the directory cannot be read. */
int ts_atomic_walk(int dir, int (*f)(void *ctx, int dir, const char *name), void *ctx);

/* The result of checking all names in a directory. */
struct ts_atomic_names {
    const struct ts_atomic_conf *conf;
    int whole;
    int has_files, has_state;
    int unmarked;      /* 1: `foreign` may be ours, but has no mark that proves it */
    int fixed;         /* 1: a directory inside it has files that this user cannot remove */
    char foreign[256]; /* the name of a file that is not ours; "": none */
    int unread;        /* errno if `foreign` could not be read; otherwise 0 */
};

/* Fails if the directory has a file that tstream did not write. whole: the directory is a complete
 * result. */
int ts_atomic_look(const struct ts_atomic_conf *conf, const char *path, int dir, int whole,
                   struct ts_atomic_names *s, struct ts_err *err);

/* Removes the files that tstream wrote except the lock, and states of runs only if `states` is 1.
 * Files that cannot be removed stay. */
void ts_atomic_clear(const struct ts_atomic_conf *conf, int dir, int states);

#endif
