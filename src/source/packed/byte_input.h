/* SPDX-License-Identifier: BSD-3-Clause */
/* byte_input.h - reads a file from its first byte to its last: plain, decompressed if its first
 * bytes say that it is packed (decompress.h), or standard input for the name "-". The first bytes
 * can be looked at before the file is read.
 *
 *   owner    the input owns its file; the path must stay
 *   units    bytes, after unpacking; positions are those on disk
 *   threads  one caller at a time
 *   errors   0 or a negative ts_code with a message that names the file
 */
#ifndef TS_SOURCE_BYTE_INPUT_H
#define TS_SOURCE_BYTE_INPUT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

struct ts_byte_input;

/* most bytes that ts_byte_input_peek returns: the longest header of binary_kind.h */
#define TS_BYTE_INPUT_HEAD 320u

/* Opens the file at `path`. unpack_bytes: memory that decompression may use, if more than
 * TS_BYTE_INPUT_UNPACK. Reading returns TS_ESTOP when *stop (may be NULL) is set. */
/* enough for files of xz with its default options, and of zstd up to -19 */
#define TS_BYTE_INPUT_UNPACK (UINT64_C(10) << 20)
int ts_byte_input_open(const char *path, uint64_t unpack_bytes, const volatile sig_atomic_t *stop,
                       struct ts_byte_input **ret, struct ts_err *err);
void ts_byte_input_close(struct ts_byte_input *in); /* in may be NULL */

/* Opens a regular file to look at it before it is read; the caller closes it. Returns -1 for other
 * files: a pipe must not be opened, because its writer would lose the only reader. */
int ts_byte_input_look(const char *path, struct stat *st);

const char *ts_byte_input_name(const struct ts_byte_input *in); /* name of the file in messages */

/* Returns the first bytes of the file, before the first read: TS_BYTE_INPUT_HEAD bytes, or all if
 * there are fewer. Reading still begins with them. */
int ts_byte_input_peek(struct ts_byte_input *in, const unsigned char **ret, size_t *n,
                       struct ts_err *err);

/* Reads the next `room` bytes, or fewer at the end. *ret: number of bytes. */
int ts_byte_input_read(struct ts_byte_input *in, char *buf, size_t room, size_t *ret,
                       struct ts_err *err);

/* Returns the number of bytes on disk that were read so far. */
uint64_t ts_byte_input_position(const struct ts_byte_input *in);

int ts_byte_input_packed(const struct ts_byte_input *in);

/* Returns the size on disk of a regular file, or 0 for any other. */
uint64_t ts_byte_input_size(const struct ts_byte_input *in);

/* Skips the next bytes of the file if it is uncompressed and regular. Returns whether it did. */
int ts_byte_input_skip(struct ts_byte_input *in, uint64_t bytes);

/* Returns the descriptor of an uncompressed regular file, which can be read at any position; -1:
 * it is another file. */
int ts_byte_input_fd(const struct ts_byte_input *in);

#endif
