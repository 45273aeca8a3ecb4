/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks a file and each folder above it. */
#include "base/files/trusted.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ENTRY_BYTES 4096 /* buffer for the entry of a user, or of a group with few members */

/* Whether this group is the primary group of another user. */
static int is_first_of_another(gid_t gid)
{
    const struct passwd *p;
    int found = 0;
    setpwent();
    while (!found && (p = getpwent()) != NULL)
        found = p->pw_gid == gid && p->pw_uid != geteuid();
    endpwent();
    return found;
}

/* Whether the group is this user's private group: it has the user's name and no other members. */
static int is_own_group(gid_t gid)
{
    char user_text[ENTRY_BYTES], group_text[ENTRY_BYTES];
    struct passwd user, *found_user;
    struct group group, *found_group;
    if (getpwuid_r(geteuid(), &user, user_text, sizeof user_text, &found_user) != 0 ||
        getgrgid_r(gid, &group, group_text, sizeof group_text, &found_group) != 0)
        return 0;
    if (found_user == NULL || found_group == NULL || user.pw_gid != gid ||
        strcmp(user.pw_name, group.gr_name) != 0)
        return 0;
    for (char **member = group.gr_mem; *member != NULL; member++)
        if (strcmp(*member, user.pw_name) != 0)
            return 0;
    return !is_first_of_another(gid);
}

/* Whether a file has an access list. If so, the group bits are the permissions that any listed user
 * or group may have. */
static int has_access_list(const char *path)
{
    return getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

/* Checks one file or folder. is_above: it is a folder above the file's own folder. owner: a user
 * who may own it, besides root and this user. */
static int check_one(const char *path, int is_above, uid_t owner, struct ts_err *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return ts_fail_errno(err, TS_EIO, "%s", path);
    if (st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != owner)
        return ts_fail(err, TS_EARG, "%s belongs to another user", path);
    if (is_above && (st.st_mode & S_ISVTX) != 0)
        return 0;
    if ((st.st_mode & S_IWOTH) != 0)
        return ts_fail(err, TS_EARG, "%s can be written by all users", path);
    if ((st.st_mode & S_IWGRP) != 0 && (has_access_list(path) || !is_own_group(st.st_gid)))
        return ts_fail(err, TS_EARG, "%s can be written by other users of its group", path);
    return 0;
}

int ts_trusted_path(const char *path, const char *like, char **ret, struct ts_err *err)
{
    char *real = realpath(path, NULL), *end;
    struct stat st;
    const uid_t owner = like != NULL && stat(like, &st) == 0 ? st.st_uid : geteuid();
    int rc, is_above = 0;
    *ret = NULL;
    if (real == NULL)
        return ts_fail_errno(err, TS_EIO, "%s", path);
    *ret = strdup(real);
    rc = *ret == NULL ? ts_no_memory(err, path) : check_one(real, 0, owner, err);
    while (rc == 0 && (end = strrchr(real, '/')) != NULL && real[1] != '\0') {
        end[end == real] = '\0';
        rc = check_one(real, is_above, owner, err);
        is_above = 1;
    }
    free(real);
    if (rc < 0) {
        free(*ret);
        *ret = NULL;
    }
    return rc;
}
