/* SPDX-License-Identifier: BSD-3-Clause */
/* Temporary files without a name: by O_TMPFILE, or unlinked right after they are made. */
#include "base/files/tempfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/files/fd.h"

int ts_tempfile_new(const char *dir, int *ret, struct ts_err *err)
{
    int fd = -1;
    char path[4096];
#ifdef O_TMPFILE
    fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
#endif
    if (fd < 0) { /* the file system has no O_TMPFILE */
        snprintf(path, sizeof path, "%s/.tshard-XXXXXX", dir);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot create a temporary file", dir);
        unlink(path);
    }
    *ret = fd;
    return 0;
}

int ts_tempfile_write(int fd, const char *dir, const void *data, size_t bytes, uint64_t at,
                      struct ts_err *err)
{
    return ts_fd_write(fd, data, bytes, at) < 0
               ? ts_fail_errno(err, TS_EIO, "%s: cannot write to a temporary file there", dir)
               : 0;
}

int ts_tempfile_read(int fd, const char *dir, void *data, size_t bytes, uint64_t at,
                     struct ts_err *err)
{
    char *p = data;
    while (bytes > 0) {
        const ssize_t n = pread(fd, p, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot read a temporary file there", dir);
        if (n == 0)
            return ts_fail(err, TS_EIO, "%s: a temporary file there ends early, at byte %" PRIu64,
                           dir, at);
        p += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}
