/* SPDX-License-Identifier: BSD-3-Clause */
/* gunzip.h - inflates a gzip file of any number of members, piece by piece.
 *
 *   owner    the caller owns file descriptor and buffers
 *   units    bytes; positions in sentences are those of the compressed file
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

/* `head` holds the n_head bytes (at most 16) that were already read from fd. `name` is for
 * sentences and must stay. Reading ends with TS_ESTOP when *stop (may be NULL) is set. */
int ts_gunzip_new(int fd, const char *name, const unsigned char *head, size_t n_head,
                  const volatile sig_atomic_t *stop, struct ts_gunzip **ret, struct ts_err *err);
void ts_gunzip_free(struct ts_gunzip *g); /* NULL is fine */

/* Fills out with `room` bytes, or fewer at the end of the file: *ret says how many. */
int ts_gunzip_read(struct ts_gunzip *g, char *out, size_t room, size_t *ret, struct ts_err *err);

/* Compressed bytes read so far. */
uint64_t ts_gunzip_position(const struct ts_gunzip *g);

#endif
