/* SPDX-License-Identifier: BSD-3-Clause */
/* byte_input.h - a file as its bytes from first to last: plain, packed in one of the ways of
 * decompress.h by its first bytes, or standard input by the name "-". Its start can be looked at
 * before it is read.
 *
 *   owner    the input owns its file; the path must stay
 *   units    bytes, after unpacking; positions are those on disk
 *   threads  one caller at a time
 *   errors   0 or a negative ts_code with a sentence that names the file
 */
#ifndef TS_SOURCE_BYTE_INPUT_H
#define TS_SOURCE_BYTE_INPUT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

struct ts_byte_input;

/* bytes at the start that can be looked at: the longest header of binary_kind.h */
#define TS_BYTE_INPUT_HEAD 320u

/* Opens a path; unpack_bytes: memory that unpacking may take, if it is more than
 * TS_BYTE_INPUT_UNPACK. Reading ends with TS_ESTOP when *stop (may be NULL) is set. */
#define TS_BYTE_INPUT_UNPACK (UINT64_C(10) << 20) /* xz as it packs by default, zstd up to -19 */
int ts_byte_input_open(const char *path, uint64_t unpack_bytes, const volatile sig_atomic_t *stop,
                       struct ts_byte_input **ret, struct ts_err *err);
void ts_byte_input_close(struct ts_byte_input *in); /* NULL is fine */

/* A file that is looked at before it is read: opens a regular file, or returns -1. Pipes stay
 * closed: their writer would lose the only reader. The caller closes the file. */
int ts_byte_input_look(const char *path, struct stat *st);

const char *ts_byte_input_name(const struct ts_byte_input *in); /* for sentences */

/* Before the first read: what the file begins with, TS_BYTE_INPUT_HEAD bytes unless it is shorter.
 * They are still to be read. */
int ts_byte_input_peek(struct ts_byte_input *in, const unsigned char **ret, size_t *n,
                       struct ts_err *err);

/* The next `room` bytes, or fewer at the end: *ret says how many. */
int ts_byte_input_read(struct ts_byte_input *in, char *buf, size_t room, size_t *ret,
                       struct ts_err *err);

/* Bytes on disk that were read so far. */
uint64_t ts_byte_input_position(const struct ts_byte_input *in);

int ts_byte_input_packed(const struct ts_byte_input *in);

/* Size on disk of a regular file, 0 of anything else. */
uint64_t ts_byte_input_size(const struct ts_byte_input *in);

/* Leaves out the next bytes of a plain regular file. Returns whether it could. */
int ts_byte_input_skip(struct ts_byte_input *in, uint64_t bytes);

/* The descriptor of a plain regular file whose bytes can be read at any place; -1: of none. */
int ts_byte_input_fd(const struct ts_byte_input *in);

#endif
