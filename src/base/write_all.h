/* SPDX-License-Identifier: BSD-3-Clause */
/* write_all.h - writes that continue until all bytes are written.
 *
 *   units    bytes
 *   threads  any
 *   errors   0, or -1, and errno says why
 */
#ifndef TS_BASE_WRITE_ALL_H
#define TS_BASE_WRITE_ALL_H

#include <stddef.h>
#include <stdint.h>

#define TS_WRITE_NEXT UINT64_MAX /* as an offset: where the file stands, as write(2) does */

int ts_write_all(int fd, const void *data, size_t bytes, uint64_t at);

#endif
