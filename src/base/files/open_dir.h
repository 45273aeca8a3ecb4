/* SPDX-License-Identifier: BSD-3-Clause */
/* open_dir.h - reads files of a directory that another process may replace meanwhile.
 *
 * A result is replaced as a whole (base/files/atomic_out.h): a new directory gets its name, then
 * the files of the old one are removed. A reader that opens the files by their paths, one after
 * another, can mix both. This one opens the directory once and its files through that descriptor,
 * so all of them are of one result. A file that is missing because the directory was replaced is
 * told from one that was never there.
 *
 *   owner    the caller, until close
 *   threads  read-only after opening: any thread
 *   errors   0 or a negative ts_code; a replacement is TS_EBUSY with sys ESTALE
 *            (ts_open_dir_stale), and whoever has not used anything of it yet may open the path
 *            again
 */
#ifndef TS_BASE_OPEN_DIR_H
#define TS_BASE_OPEN_DIR_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

/* So often a reader begins again by itself: replacements in a row are rare. */
#define TS_OPEN_DIR_TRIES 20

struct ts_open_dir;

/* TS_EIO with errno in err->sys where it cannot be opened. */
int ts_open_dir_new(const char *path, struct ts_open_dir **ret, struct ts_err *err);

/* The directory NAME of an open one, which may be a link; `path` is what sentences call it. */
int ts_open_dir_inside(const struct ts_open_dir *parent, const char *name, const char *path,
                       struct ts_open_dir **ret, struct ts_err *err);

/* An open directory, which stays the caller's and has this path. */
int ts_open_dir_at(int fd, const char *path, struct ts_open_dir **ret, struct ts_err *err);

/* Opens the same directory again. */
int ts_open_dir_again(const struct ts_open_dir *d, struct ts_open_dir **ret, struct ts_err *err);
void ts_open_dir_close(struct ts_open_dir *d); /* NULL is fine */

const char *ts_open_dir_path(const struct ts_open_dir *d);
int ts_open_dir_fd(const struct ts_open_dir *d); /* not to be closed */

/* Opens a file of it to read: its descriptor, or a negative ts_code. A pipe does not block.
 * TS_EIO with errno in err->sys where it cannot be opened. */
int ts_open_dir_file(const struct ts_open_dir *d, const char *name, struct ts_err *err);

/* Like ts_open_dir_file, for a file that may be absent: 1 and *fd, 0 if it does not exist, or a
 * negative ts_code. */
int ts_open_dir_optional(const struct ts_open_dir *d, const char *name, int *fd,
                         struct ts_err *err);

/* The same, with its path for sentences, which the caller frees. */
int ts_open_dir_named(const struct ts_open_dir *d, const char *name, int *fd, char **path,
                      struct ts_err *err);

/* Whether the path leads to another directory now, or to none. */
int ts_open_dir_replaced(const struct ts_open_dir *d);

/* What a reader that failed with rc returns: the sentence about a replacement where there was one,
 * else rc as it is. */
int ts_open_dir_explain(const struct ts_open_dir *d, int rc, struct ts_err *err);

/* Writes the sentence that PATH was replaced. */
int ts_open_dir_fail(const char *path, struct ts_err *err);
int ts_open_dir_stale(int rc, const struct ts_err *err);

/* ---- one file ---- */

/* Identifies a file while it is open. */
struct ts_file_id {
    dev_t dev;
    ino_t ino;
};

/* Returns 1, or 0 if the file does not exist. */
int ts_file_id_of(const char *path, struct ts_file_id *ret);
int ts_file_id_open(int fd, struct ts_file_id *ret);
int ts_file_id_same(const struct ts_file_id *a, const struct ts_file_id *b);

/* Opens an open file again, with a position and flags of its own. Its name may have been removed;
 * `path`, its former name, helps if there is no /proc. Returns the descriptor, or -1 with errno:
 * ESTALE if another file has that name. */
int ts_file_again(int fd, const char *path, int flags);

/* Whether so many descriptors are in use that one which is not needed now should not be kept. */
int ts_file_crowded(int fd);

#endif
