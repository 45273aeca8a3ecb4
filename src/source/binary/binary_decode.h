/* SPDX-License-Identifier: BSD-3-Clause */
/* binary_decode.h - the numbers of a piece of a binary file, as a batch.
 *
 *   owner    the caller owns all that a piece points to
 *   units    nonzeros
 *   threads  a piece in one
 *   errors   0 or a negative ts_code; the sentence names the first nonzero that is wrong
 */
#ifndef TS_SOURCE_BINARY_DECODE_H
#define TS_SOURCE_BINARY_DECODE_H

#include "source/binary/binary_kind.h"
#include "source/binary/binary_source.h"

/* Nonzeros [first, first + n) of a file. */
struct ts_binary_piece {
    const struct ts_files_plan *plan;
    const uint64_t *dim; /* sizes that indices must be below */
    const struct ts_binary_form *form;
    const char *name;
    int fd; /* -1: its bytes are in raw already */
    uint64_t first, n;
    unsigned char *raw; /* room for the bytes of the piece */
    struct ts_batch *batch;
};

/* Reads a piece if it is not in raw, and fills the batch; zeros are among the nonzeros. */
int ts_binary_decode(const struct ts_binary_piece *j, struct ts_err *err);

/* Drops zeros; or keeps them, and then -0 becomes 0. */
void ts_binary_drop_zeros(struct ts_batch *b, uint32_t value_bytes, int keep);

#endif
