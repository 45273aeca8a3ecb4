/* SPDX-License-Identifier: BSD-3-Clause */
/* trusted.h - whether nobody but who is trusted already can change what a path leads to.
 *
 * That is asked before code is loaded from a file. Symbolic links are followed first. Then the file
 * and all folders above it must belong to root, to this user, or to the owner of a file whose code
 * runs already. So software that another account has installed may load its own parts, also where
 * a user namespace shows root as nobody. No other user may be able to write there. A group may, if
 * it is the user's own: of the user's name, without other members. Above the file's own folder, a
 * folder may be like /tmp, where others make files but cannot rename ours.
 *
 *   threads  any
 *   errors   0; TS_EIO where there is no such file; TS_EARG with the sentence that names what is
 *            wrong, and its path
 */
#ifndef TS_BASE_TRUSTED_H
#define TS_BASE_TRUSTED_H

#include "base/err.h"

/* like: a file whose owner is trusted, too; NULL: none. *ret: the path without symbolic links, for
 * the caller to free. */
int ts_trusted_path(const char *path, const char *like, char **ret, struct ts_err *err);

#endif
