/* SPDX-License-Identifier: BSD-3-Clause */
/* Follows links to the name under which an output is renamed into place. */
#include "base/files/out_name.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Whether a path names an open file: /dev/stdout, /dev/fd/1 and so on. /dev/shm is an ordinary
 * place. */
static int is_open_file(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0 ||
           (strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0);
}

int ts_out_name(const char *path, char **ret, struct ts_err *err)
{
    struct stat name, st;
    const int is_link = lstat(path, &name) == 0 && S_ISLNK(name.st_mode);
    const int there = stat(path, &st) == 0;
    char *real;
    if ((is_link && is_open_file(path)) ||
        (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
        *ret = NULL;
        return 0;
    }
    if (is_link && !there)
        return ts_fail(err, TS_EARG,
                       "%s: is a link that leads to nothing; remove it or name another", path);
    real = is_link ? realpath(path, NULL) : strdup(path);
    if (real == NULL)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be looked up", path);
    *ret = real;
    return 0;
}
