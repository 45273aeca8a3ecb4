/* SPDX-License-Identifier: BSD-3-Clause */
/* binary_decode.h - decodes a piece of a binary file to a batch.
 *
 *   owner    the caller owns all that a piece points to
 *   units    nonzeros
 *   threads  each piece by one thread
 *   errors   0 or a negative ts_code; the message names the first wrong nonzero
 */
#ifndef TS_SOURCE_BINARY_DECODE_H
#define TS_SOURCE_BINARY_DECODE_H

#include "source/binary/binary_kind.h"
#include "source/binary/binary_source.h"

/* A piece of a file: its nonzeros [first, first + n). */
struct ts_binary_piece {
    const struct ts_files_plan *plan;
    const uint64_t *dim; /* sizes of the modes; each index must be smaller */
    const struct ts_binary_form *form;
    const char *name;
    int fd; /* descriptor of the file; -1: the bytes of the piece are in raw already */
    uint64_t first, n;
    unsigned char *raw; /* buffer for the bytes of the piece */
    struct ts_batch *batch;
};

/* Reads the bytes of the piece, unless they are in raw already, and fills the batch. Zeros are not
 * dropped. */
int ts_binary_decode(const struct ts_binary_piece *j, struct ts_err *err);

/* Drops zeros from a batch. With `keep` it keeps them, and only makes 0 of -0. */
void ts_binary_drop_zeros(struct ts_batch *b, uint32_t value_bytes, int keep);

#endif
