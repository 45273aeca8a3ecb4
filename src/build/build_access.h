/* SPDX-License-Identifier: BSD-3-Clause */
/* build_access.h - who may read and write a tensor: one that takes the place of another gets its
 * owner, group and mode.
 *
 * What the owner or this user cannot be given stays as it is, which is no failure: only root gives
 * files away.
 *
 *   threads  any
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_BUILD_ACCESS_H
#define TS_BUILD_BUILD_ACCESS_H

#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

struct ts_build_access {
    uid_t uid, file_uid;
    gid_t gid, file_gid;
    mode_t dir_mode, file_mode; /* without the kind of file */
};

/* Of a tensor, by its open directory and the index in it. */
int ts_build_access_of(int dir, const char *path, struct ts_build_access *ret, struct ts_err *err);

/* Gives it to an open directory alone, in which this user goes on writing. */
void ts_build_access_begin(const struct ts_build_access *a, int dir);

/* Gives it to an open directory, the directories in it, and the files of these that have no other
 * name. What changes is flushed to the disk. */
int ts_build_access_give(const struct ts_build_access *a, int dir, const char *path,
                         struct ts_err *err);

#endif
