/* SPDX-License-Identifier: BSD-3-Clause */
/* gunzip.h - decompresses a gzip file with any number of members, piece by piece.
 *
 *   owner    the caller owns file descriptor and buffers
 *   units    bytes; positions in messages are in the compressed file
 *   threads  one at a time
 *   errors   TS_EFORMAT for a file that is not gzip, is damaged or cut short; TS_EIO; TS_ENOMEM
 */
#ifndef TS_SOURCE_GUNZIP_H
#define TS_SOURCE_GUNZIP_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ts_gunzip;

/* Begins to decompress. `head` has the n_head bytes (at most 16) that were already read from fd.
 * `name` is for messages and must stay. Reading returns TS_ESTOP when *stop (may be NULL) is
 * set. */
int ts_gunzip_new(int fd, const char *name, const unsigned char *head, size_t n_head,
                  const volatile sig_atomic_t *stop, struct ts_gunzip **ret, struct ts_err *err);
void ts_gunzip_free(struct ts_gunzip *g); /* g may be NULL */

/* Reads the next `room` decompressed bytes, or fewer at the end of the file. *ret: number of
 * bytes. */
int ts_gunzip_read(struct ts_gunzip *g, char *out, size_t room, size_t *ret, struct ts_err *err);

/* Returns the number of compressed bytes read so far. */
uint64_t ts_gunzip_position(const struct ts_gunzip *g);

#endif
