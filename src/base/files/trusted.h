/* SPDX-License-Identifier: BSD-3-Clause */
/* trusted.h - tests whether only trusted users can change the file at a path.
 *
 * This is tested before code is loaded from a file. Symbolic links are followed first. Then the
 * file and all folders above it must belong to root, to this user, or to the owner of a file whose
 * code is already running. So software that another account has installed may load its own parts,
 * also if a user namespace shows root as nobody. No other user may have write permission. A group
 * may, if it is the user's private group, with the user's name and no other members. Above
 * the file's own folder, a folder may be like /tmp, where others make files but cannot rename ours.
 *
 *   threads  any thread
 *   errors   0; TS_EIO if the file does not exist; TS_EARG with a message that names the path and
 *            the problem
 */
#ifndef TS_BASE_TRUSTED_H
#define TS_BASE_TRUSTED_H

#include "base/err.h"

/* Fails unless only trusted users can change the file at `path`. like: a file whose owner is also
 * trusted; NULL: none. *ret: the path without symbolic links, to be freed. */
int ts_trusted_path(const char *path, const char *like, char **ret, struct ts_err *err);

#endif
