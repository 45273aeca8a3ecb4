/* SPDX-License-Identifier: BSD-3-Clause */
/* build_access.h - who may read and write a tensor: one that takes the place of another gets its
 * owner, group, mode and POSIX ACLs.
 *
 * An owner or group that this user cannot give stays as it is, which is no failure: only root gives
 * files away. But nobody gets rights in this way: a group that is another one has the rights of
 * others, and where an ACL cannot be set, the mode has no more rights than each entry of it.
 *
 *   threads  any
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_BUILD_ACCESS_H
#define TS_BUILD_BUILD_ACCESS_H

#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

#define TS_BUILD_ACL_BYTES \
    4096 /* bytes of an ACL with 511 entries; a longer ACL counts as one that cannot be set */

/* A POSIX ACL as the kernel stores it. */
struct ts_build_acl {
    int n; /* bytes of the ACL; 0: there is none; -1: it cannot be read */
    unsigned char byte[TS_BUILD_ACL_BYTES];
};

/* Who may read and write a tensor. */
struct ts_build_access {
    uid_t uid, file_uid;
    gid_t gid, file_gid;
    /* modes of the directory and of its files, without the bits for the type of file */
    mode_t dir_mode, file_mode;
    /* new_acl: the ACL that files made later in the directory get */
    struct ts_build_acl dir_acl, new_acl, file_acl;
};

/* Reads the owner, group and mode of a tensor from its open directory `dir` and the index in it. */
int ts_build_access_of(int dir, const char *path, struct ts_build_access *ret, struct ts_err *err);

/* Sets owner, group and mode of an open directory, but not of the files in it. This user can still
 * write in the directory. */
void ts_build_access_begin(const struct ts_build_access *a, int dir);

/* Sets owner, group and mode of an open directory, of the directories in it, and of all their files
 * that have no other hard link. Flushes what it has changed to the disk. */
int ts_build_access_give(const struct ts_build_access *a, int dir, const char *path,
                         struct ts_err *err);

#endif
