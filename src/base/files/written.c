/* SPDX-License-Identifier: BSD-3-Clause */
/* Marks the files that tstream wrote with an extended attribute. */
#include "base/files/written.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define MARK      "user.tstream"
#define PART      "not complete"
#define WHOLE     "complete"
#define READY     "ready"
#define WHOLE_DIR "complete"
#define LAST      "%s, %" PRIu64 " bytes, %" PRId64 ".%09" PRId64

void ts_written_begin(int fd)
{
    (void)fsetxattr(fd, MARK, PART, strlen(PART), 0);
}

static void mark(int fd, const char *value)
{
    char text[96];
    struct stat st;
    if (fstat(fd, &st) != 0)
        return;
    snprintf(text, sizeof text, LAST, value, (uint64_t)st.st_size, (int64_t)st.st_mtim.tv_sec,
             (int64_t)st.st_mtim.tv_nsec);
    (void)fsetxattr(fd, MARK, text, strlen(text), 0);
}

/* Whether the mark belongs to the current state of the file. Archives and other file systems store
 * the time of its last change with fewer digits: seconds, microseconds, or units of 100 ns. */
static int is_marked(const char *found, const char *value, const struct stat *st)
{
    char text[96];
    size_t n;
    snprintf(text, sizeof text, LAST, value, (uint64_t)st->st_size, (int64_t)st->st_mtim.tv_sec,
             (int64_t)st->st_mtim.tv_nsec);
    n = strlen(text);
    if (strlen(found) != n)
        return 0;
    while (text[n - 1] == '0')
        n--;
    return strncmp(found, text, n) == 0;
}

void ts_written_ready(int fd)
{
    mark(fd, READY);
}

void ts_written_end(int fd)
{
    mark(fd, WHOLE);
}

void ts_written_end_dir(int fd)
{
    (void)fsetxattr(fd, MARK, WHOLE_DIR, strlen(WHOLE_DIR), 0);
}

/* Returns the reason why a file has no mark, from errno. */
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
    char found[96];
    struct stat st;
    ssize_t n;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return TS_WRITTEN_OTHER;
    if (st.st_size == 0)
        return TS_WRITTEN_EMPTY;
    n = fgetxattr(fd, MARK, found, sizeof found - 1);
    if (n < 0)
        return without_mark();
    found[n] = '\0';
    return strcmp(found, PART) == 0            ? TS_WRITTEN_PART
           : is_marked(found, READY, &st) != 0 ? TS_WRITTEN_READY
           : is_marked(found, WHOLE, &st) != 0 ? TS_WRITTEN_WHOLE
                                               : TS_WRITTEN_CHANGED;
}
