/* SPDX-License-Identifier: BSD-3-Clause */
/* Standard output that must arrive, and places that must not be written to. */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/tool.h"

static int flush_errno; /* of the first failure, which errno has long lost when a command ends */

static char in_place[4096]; /* path of the result, "" before there is one */

void tool_in_place(const char *path)
{
    snprintf(in_place, sizeof in_place, "%s", path);
}

const char *tool_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

void tool_flush(void)
{
    if (fflush(stdout) != 0 && flush_errno == 0)
        flush_errno = errno;
}

int tool_flushed(struct ts_err *err)
{
    tool_flush();
    if (flush_errno == 0 && !ferror(stdout))
        return 0;
    errno = flush_errno != 0 ? flush_errno : EIO;
    if (in_place[0] != '\0' && errno == EPIPE)
        return 0; /* whoever reads has seen enough, and what was asked for is there */
    if (in_place[0] != '\0')
        return ts_fail_errno(err, TS_EIO, "%s is in place, but standard output cannot be written",
                             in_place);
    return ts_fail_errno(err, TS_EIO, "standard output: cannot be written");
}

char *tool_operand(const char *operand, const char *suffix)
{
    struct stat st;
    char *longer;
    if (lstat(operand, &st) == 0 || errno != ENOENT ||
        asprintf(&longer, "%s%s", operand, suffix) < 0)
        return strdup(operand);
    if (stat(longer, &st) == 0)
        return longer;
    free(longer);
    return strdup(operand);
}

int tool_outside(const char *path, const char *tensor, struct ts_err *err)
{
    char *copy = strdup(path);
    struct stat there, own;
    int inside;
    if (copy == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    inside = stat(dirname(copy), &there) == 0 && stat(tensor, &own) == 0 &&
             there.st_dev == own.st_dev && there.st_ino == own.st_ino;
    free(copy);
    return inside ? ts_fail(err, TS_EARG, "%s: lies in the tensor %s itself; name another place",
                            path, tensor)
                  : 0;
}
