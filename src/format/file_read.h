/* file_read.h - reading a file whole or in pieces, with the sentences that go with it.
 *
 *   units    bytes
 *   errors   0, TS_EIO, or TS_EFORMAT when the file ends early or hashes to something else
 */
#ifndef TS_FORMAT_FILE_READ_H
#define TS_FORMAT_FILE_READ_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Size of an open regular file; anything else is refused. */
int ts_file_read_size(int fd, const char *path, uint64_t *ret, struct ts_err *err);

/* Exactly n bytes from `offset`. */
int ts_file_read_at(int fd, const char *path, uint64_t offset, size_t n, void *ret,
                    struct ts_err *err);

/* XXH3-64 of the first n bytes, read in pieces; fails when it is not `expected`. */
int ts_file_read_check(int fd, const char *path, uint64_t n, uint64_t expected, struct ts_err *err);

#endif
