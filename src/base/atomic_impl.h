/* SPDX-License-Identifier: BSD-3-Clause */
/* atomic_impl.h - what the directory, the file and the small file of atomic_out.h share.
 *
 *   threads  any
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BASE_ATOMIC_IMPL_H
#define TS_BASE_ATOMIC_IMPL_H

#include <sys/stat.h>

#include "base/atomic_out.h"

enum ts_atomic_lock { TS_LOCK_FAILED = -1, TS_LOCK_HELD, TS_LOCK_BUSY, TS_LOCK_UNKNOWN };

/* Locks without waiting. UNKNOWN: this file system has no locks. FAILED: errno says why. */
enum ts_atomic_lock ts_atomic_lock(int fd);

/* Whether the open file still has this name: another process may have renamed or replaced it. */
int ts_atomic_has_name(int fd, int dir, const char *name);

/* a + b + c, malloc'ed. */
char *ts_atomic_join(const char *a, const char *b, const char *c);

/* fsync. A file system that has nothing to sync for this file is not a failure. */
int ts_atomic_fsync(int fd);

/* Syncs the directory of `path`. fd: an open file of the same file system. Fills warn on
 * failure. */
void ts_atomic_sync_parent(const char *path, int fd, struct ts_err *warn);

/* The final name of a result, malloc'ed: links are followed, slashes at the end dropped. *ret NULL:
 * the path is a pipe or device and is written directly. */
int ts_atomic_name(const char *path, char **ret, struct ts_err *err);

/* Writes the sentence for a result that exists and may not be replaced. */
int ts_atomic_exists(const struct ts_atomic_conf *conf, const char *path, const char *noun,
                     struct ts_err *err);

/* rename, but fails with EEXIST when `to` exists. */
int ts_atomic_rename_new(const char *from, const char *to);

#endif
