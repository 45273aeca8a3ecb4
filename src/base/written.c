/* SPDX-License-Identifier: BSD-3-Clause */
/* Marks files by an extended attribute. */
#include "base/written.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define MARK "user.tstream"
#define PART "not complete"
#define WHOLE_DIR "complete"

void ts_written_begin(int fd)
{
    (void)fsetxattr(fd, MARK, PART, strlen(PART), 0);
}

static void whole_of(const struct stat *st, char *text, size_t size)
{
    snprintf(text, size, "complete, %" PRIu64 " bytes", (uint64_t)st->st_size);
}

void ts_written_end(int fd)
{
    char text[64];
    struct stat st;
    if (fstat(fd, &st) != 0)
        return;
    whole_of(&st, text, sizeof text);
    (void)fsetxattr(fd, MARK, text, strlen(text), 0);
}

void ts_written_end_dir(int fd)
{
    (void)fsetxattr(fd, MARK, WHOLE_DIR, strlen(WHOLE_DIR), 0);
}

/* Why there is no mark. */
static enum ts_written without_mark(void)
{
    return errno == EOPNOTSUPP || errno == ENOSYS ? TS_WRITTEN_UNKNOWN : TS_WRITTEN_OTHER;
}

enum ts_written ts_written_is_dir(int fd)
{
    char found[64];
    const ssize_t n = fgetxattr(fd, MARK, found, sizeof found);
    if (n < 0)
        return without_mark();
    return (size_t)n == strlen(WHOLE_DIR) && memcmp(found, WHOLE_DIR, (size_t)n) == 0
               ? TS_WRITTEN_WHOLE
               : TS_WRITTEN_OTHER;
}

enum ts_written ts_written_is(int fd)
{
    char text[64], found[64];
    struct stat st;
    ssize_t n;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return TS_WRITTEN_OTHER;
    if (st.st_size == 0)
        return TS_WRITTEN_EMPTY;
    n = fgetxattr(fd, MARK, found, sizeof found);
    if (n < 0)
        return without_mark();
    if ((size_t)n == strlen(PART) && memcmp(found, PART, (size_t)n) == 0)
        return TS_WRITTEN_PART;
    whole_of(&st, text, sizeof text);
    return (size_t)n == strlen(text) && memcmp(found, text, (size_t)n) == 0 ? TS_WRITTEN_WHOLE
                                                                           : TS_WRITTEN_CHANGED;
}
