/* SPDX-License-Identifier: BSD-3-Clause */
/* binary_kind.h - lists the kinds of binary files with nonzeros: how each is recognised by its
 * first bytes, and how its header is read.
 *
 * Each file is a header followed by numbers of fixed widths, in the byte order of the machine that
 * wrote it:
 *
 *   SPLATT  int32 0; uint64 bytes of an index (4, 8), of a value (4, 8); order, sizes and number of
 *           nonzeros as wide as an index; then an array of indices for each mode, and one of values
 *   GenTen  "sptn"; uint32 order, bits of a value (32, 64); uint64 sizes, bits of an index of each
 *           mode (8 to 64), number of nonzeros; then for each nonzero its indices and its value
 *
 * Both count indices from 0. SPLATT's CSF files and GenTen's dense tensors are recognised too, so
 * that the message can name them. A new kind is a row of the table in binary_kind.c.
 *
 *   owner    nothing is kept
 *   units    bytes; positions are from the start of the (unpacked) file
 *   threads  all functions are pure
 *   errors   TS_EFORMAT or TS_ELIMIT with a message that does not begin with file and position: the
 *            caller adds the file, and the position *at
 */
#ifndef TS_SOURCE_BINARY_KIND_H
#define TS_SOURCE_BINARY_KIND_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"

/* The contents of a header. */
struct ts_binary_form {
    uint32_t order, value_bytes;        /* value_bytes: 4 or 8 */
    uint32_t index_bytes[TS_MAX_ORDER]; /* bytes of an index: 1, 2, 4 or 8 */
    int big_endian;
    /* 1: the file has an array for each mode and one of values; 0: nonzero after nonzero */
    int columns;
    uint64_t dim[TS_MAX_ORDER], nnz;
    uint64_t header_bytes, nonzero_bytes;
};

struct ts_binary_kind {
    const char *name; /* name of the kind in messages: "a ... file" */
    int (*recognise)(const unsigned char *head, size_t n);

    /* Parses the header. head has the first TS_BYTE_INPUT_HEAD bytes of the file, or all if there
     * are fewer. *at: position of the number that is wrong. */
    int (*header)(const unsigned char *head, size_t n, struct ts_binary_form *ret, uint64_t *at,
                  struct ts_err *err);
};

/* Returns the kind of a file that begins with these bytes; NULL: it is no binary file of a known
 * kind. */
const struct ts_binary_kind *ts_binary_kind_find(const unsigned char *head, size_t n);

/* Returns the byte position in the file of the index of nonzero i in `mode` or, if `mode` is the
 * order, of its value. */
uint64_t ts_binary_place(const struct ts_binary_form *f, uint64_t i, uint32_t mode);

/* Returns the size in bytes that a file with this header must have. */
uint64_t ts_binary_size(const struct ts_binary_form *f);

#endif
