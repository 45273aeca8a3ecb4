/* SPDX-License-Identifier: BSD-3-Clause */
/* build_dir.h - the directory of a tensor that is being built: NAME.tsh.building. It is renamed to
 * NAME.tsh when everything in it is on disk (base/files/atomic_out.h). The index is written last,
 * so an unfinished tensor can never be opened.
 *
 *   owner    the caller; paths are relative to the working directory
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_BUILD_DIR_H
#define TS_BUILD_BUILD_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ts_build_dir;

/* TS_EBUSY when `path` exists and must not be replaced (force 0), or another process is building
 * it. With force, what exists must be a tensor and nothing else; it stays until the new one is
 * complete. */
int ts_build_dir_open(const char *path, int force, struct ts_build_dir **ret, struct ts_err *err);

/* Whether ts_build_dir_open would succeed now: for a tensor that is built after another one. */
int ts_build_dir_check(const char *path, int force, struct ts_err *err);

/* Fails with TS_EBUSY if the open directory of a tensor, or a segment in it, has a file that is not
 * one of a tensor, and names it. */
int ts_build_dir_look(int dir, const char *path, struct ts_err *err);

/* Opens the same directory on a rank other than the one that made it, by its path. Only files in it
 * can be written. */
int ts_build_dir_join(const char *path, struct ts_build_dir **ret, struct ts_err *err);

/* Removes the directory unless it was committed. d may be NULL. */
void ts_build_dir_close(struct ts_build_dir *d);

/* The path of a file in the directory, malloc'ed: "index", "mode%u.shards". NULL when out of
 * memory. */
char *ts_build_dir_file(const struct ts_build_dir *d, const char *fmt, unsigned number);

/* path of the directory during the build */
const char *ts_build_dir_path(const struct ts_build_dir *d);

/* Writes a file of `bytes` bytes. */
int ts_build_dir_write(const struct ts_build_dir *d, const char *name, const void *data,
                       size_t bytes, struct ts_err *err);

/* Takes over the files of a complete tensor, whose open directory is `from`, into the directory
 * `name` of this one, or, if that is NULL, into this one. They become hard links, or copies if the
 * file system makes none. */
int ts_build_dir_take(const struct ts_build_dir *d, const char *name, int from,
                      const char *from_path, struct ts_err *err);

/* Moves the files of a directory `name` in this one up into this one, and removes it. */
int ts_build_dir_raise(const struct ts_build_dir *d, const char *name, struct ts_err *err);

/* The result gets the owner, group and mode of a complete tensor, whose open directory is `other`
 * (build_access.h): the directory at once, and all in it with the commit. */
int ts_build_dir_like(struct ts_build_dir *d, int other, const char *path, struct ts_err *err);

/* Syncs the shards of `order` modes: most of the time of a commit. */
int ts_build_dir_sync(const struct ts_build_dir *d, uint32_t order, struct ts_err *err);

/* Syncs all files and puts the directory in its place. warn->code is not 0 when something failed
 * after that. */
int ts_build_dir_commit(struct ts_build_dir *d, struct ts_err *warn, struct ts_err *err);

#endif
