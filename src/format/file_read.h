/* SPDX-License-Identifier: BSD-3-Clause */
/* file_read.h - reads files whole or in pieces, with messages that name the file.
 *
 *   units    bytes
 *   errors   0, TS_EIO, or TS_EFORMAT if the file ends early or has another hash
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

/* Reads the next bytes, at most `room`. *ret is their number, 0 at the end. Waits for data from a
 * pipe, and returns TS_ESTOP once *stop is not 0, which is checked ten times a second. stop may be
 * NULL. */
int ts_file_read_next(int fd, const char *path, void *buf, size_t room,
                      const volatile sig_atomic_t *stop, size_t *ret, struct ts_err *err);

/* Sets *ret to the size of an open regular file. Fails for other kinds of files. */
int ts_file_read_size(int fd, const char *path, uint64_t *ret, struct ts_err *err);

/* Reads exactly n bytes from `offset`. */
int ts_file_read_at(int fd, const char *path, uint64_t offset, size_t n, void *ret,
                    struct ts_err *err);

/* Reads a whole regular file into ret. Returns 1, or 0 if the file does not exist. *n_bytes is its
 * size; nothing is read if that is more than `room`. */
int ts_file_read_small(const char *path, size_t room, void *ret, uint64_t *n_bytes,
                       struct ts_err *err);

/* Like ts_file_read_small, for the file `name` in an open directory. */
int ts_file_read_small_in(const struct ts_open_dir *dir, const char *name, size_t room, void *ret,
                          uint64_t *n_bytes, struct ts_err *err);

/* Computes the XXH3-64 of the first n bytes, in pieces. Fails if it is not `expected`. */
int ts_file_read_check(int fd, const char *path, uint64_t n, uint64_t expected, struct ts_err *err);

#endif
