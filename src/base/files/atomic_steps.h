/* SPDX-License-Identifier: BSD-3-Clause */
/* atomic_steps.h - what the directory, the file and the small file of atomic_out.h share.
 *
 *   threads  any
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BASE_ATOMIC_STEPS_H
#define TS_BASE_ATOMIC_STEPS_H

#include <sys/stat.h>

#include "base/files/atomic_out.h"

enum ts_atomic_lock { TS_LOCK_FAILED = -1, TS_LOCK_HELD, TS_LOCK_BUSY, TS_LOCK_UNKNOWN };

/* Locks without waiting. UNKNOWN: this file system has no locks. FAILED: errno says why. */
enum ts_atomic_lock ts_atomic_lock(int fd);

/* The text of a lock: "PID HOST", and in the lock of a result that replaces another, from just
 * before the two change their names until the other is removed, a second line. Its reader then
 * knows that PATH.partial is the other, and not a run that could go on. */
#define TS_LOCK_HOST_CHARS 65 /* longest host name and a NUL */

struct ts_lock_text {
    long pid;
    char host[TS_LOCK_HOST_CHARS]; /* "": not known */
    int replaces;
};

int ts_lock_parse(const char *text, struct ts_lock_text *ret); /* 1: it has that form */
void ts_lock_read(int fd, char *text, size_t room);            /* "" when it cannot be read */
int ts_lock_write(int fd, int replaces);                       /* -1: errno says why */

/* Whether a file is a lock. An empty one counts: its process may not have written to it yet. */
int ts_lock_is(int dir, const char *name);

/* Whether the lock of a directory is that of a result that replaces another. */
int ts_lock_replaces(int dir);

/* Whether the text of a lock names a running process of this host other than this one. */
int ts_lock_names_living(const char *text, long *pid);

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

/* Whether this user may rename or remove what has this name: in a directory with the sticky bit
 * (/tmp) only the owner may. TS_EBUSY with a sentence that says what to do. */
int ts_atomic_may_move(const struct ts_atomic_conf *conf, const char *path, struct ts_err *err);

/* Writes the sentence for something of another user, or without rights, that is in the way. */
int ts_atomic_not_ours(const struct ts_atomic_conf *conf, const char *path, struct ts_err *err);

/* rename, but fails with EEXIST when `to` exists. */
int ts_atomic_rename_new(const char *from, const char *to);

#endif
