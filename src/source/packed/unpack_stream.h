/* SPDX-License-Identifier: BSD-3-Clause */
/* unpack_stream.h - decompresses zstd, xz and bzip2 in one loop, which calls their libraries.
 * The functions are members of struct ts_decompressor (decompress.h), and follow its rules. */
#ifndef TS_SOURCE_UNPACK_STREAM_H
#define TS_SOURCE_UNPACK_STREAM_H

#include "source/packed/decompress.h"

int ts_unpack_stream_zstd(const struct ts_packed_file *file, void **ret, struct ts_err *err);
int ts_unpack_stream_xz(const struct ts_packed_file *file, void **ret, struct ts_err *err);
int ts_unpack_stream_bzip2(const struct ts_packed_file *file, void **ret, struct ts_err *err);
int ts_unpack_stream_read(void *d, char *out, size_t room, size_t *ret, struct ts_err *err);
uint64_t ts_unpack_stream_position(const void *d);
void ts_unpack_stream_close(void *d);

#endif
