/* SPDX-License-Identifier: BSD-3-Clause */
/* file_read.h - reading a file whole or in pieces, with the sentences that go with it.
 *
 *   units    bytes
 *   errors   0, TS_EIO, or TS_EFORMAT when the file ends early or hashes to something else
 */
#ifndef TS_FORMAT_FILE_READ_H
#define TS_FORMAT_FILE_READ_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/open_dir.h"

/* Opens a file, or a pipe that may have no writer yet, for ts_file_read_next. Does not wait for a
 * writer. Returns the descriptor. */
int ts_file_read_open(const char *path, struct ts_err *err);

/* Reads the next bytes, at most `room`: *ret is 0 at the end. On an idle pipe it waits, and checks
 * *stop (may be NULL) ten times a second: TS_ESTOP. */
int ts_file_read_next(int fd, const char *path, void *buf, size_t room,
                      const volatile sig_atomic_t *stop, size_t *ret, struct ts_err *err);

/* Size of an open regular file; anything else is refused. */
int ts_file_read_size(int fd, const char *path, uint64_t *ret, struct ts_err *err);

/* Exactly n bytes from `offset`. */
int ts_file_read_at(int fd, const char *path, uint64_t offset, size_t n, void *ret,
                    struct ts_err *err);

/* A regular file whole, which may be absent: 1, or 0 where it is. *n_bytes is its size; of a file
 * of more than `room` nothing is read. */
int ts_file_read_small(const char *path, size_t room, void *ret, uint64_t *n_bytes,
                       struct ts_err *err);

/* Like ts_file_read_small, for the file NAME of a directory. */
int ts_file_read_small_in(const struct ts_open_dir *dir, const char *name, size_t room, void *ret,
                          uint64_t *n_bytes, struct ts_err *err);

/* XXH3-64 of the first n bytes, read in pieces; fails when it is not `expected`. */
int ts_file_read_check(int fd, const char *path, uint64_t n, uint64_t expected, struct ts_err *err);

#endif
