/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes all bytes to an open file, in as many calls as the system needs, and closes files. */
#include "base/files/fd.h"

#include <errno.h>
#include <unistd.h>

int ts_fd_write(int fd, const void *data, size_t bytes, uint64_t at)
{
    const char *p = data;
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = at == TS_FD_NEXT ? write(fd, p + done, bytes - done)
                                           : pwrite(fd, p + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

void ts_fd_close(int fd)
{
    if (fd >= 0)
        close(fd);
}
