/* SPDX-License-Identifier: BSD-3-Clause */
/* fd.h - descriptors of open files: writing all bytes, and closing.
 *
 *   units    bytes
 *   threads  any thread
 *   errors   0, or -1 with errno
 */
#ifndef TS_BASE_FD_H
#define TS_BASE_FD_H

#include <stddef.h>
#include <stdint.h>

/* offset that means the current position of the file, as write(2) uses it */
#define TS_FD_NEXT UINT64_MAX

int ts_fd_write(int fd, const void *data, size_t bytes, uint64_t at);

void ts_fd_close(int fd); /* fd may be -1 */

#endif
