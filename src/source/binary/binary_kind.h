/* SPDX-License-Identifier: BSD-3-Clause */
/* binary_kind.h - the kinds of binary files that nonzeros come in: a table of how each is known by
 * its first bytes, and what its header says.
 *
 * All are a header and then numbers of fixed widths, in the byte order of the machine that wrote
 * them:
 *
 *   SPLATT  int32 0; uint64 bytes of an index (4, 8), of a value (4, 8); order, sizes and number of
 *           nonzeros as wide as an index; then an array of indices for each mode, and one of values
 *   GenTen  "sptn"; uint32 order, bits of a value (32, 64); uint64 sizes, bits of an index of each
 *           mode (8 to 64), number of nonzeros; then for each nonzero its indices and its value
 *
 * Both count indices from 0. SPLATT's fibres (CSF) and GenTen's dense tensors are known, to be
 * refused by name. A new kind is a row of the table in binary_kind.c.
 *
 *   owner    nothing is kept
 *   units    bytes; positions are from the start of the (unpacked) file
 *   threads  all functions are pure
 *   errors   TS_EFORMAT or TS_ELIMIT with a sentence that has no file and position in front: the
 *            caller knows the one, and *at is the other
 */
#ifndef TS_SOURCE_BINARY_KIND_H
#define TS_SOURCE_BINARY_KIND_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"

/* The contents of a header. */
struct ts_binary_form {
    uint32_t order, value_bytes;        /* value_bytes: 4, 8 */
    uint32_t index_bytes[TS_MAX_ORDER]; /* 1, 2, 4, 8 */
    int big_endian;
    int columns; /* an array for each mode and one of values; else nonzero behind nonzero */
    uint64_t dim[TS_MAX_ORDER], nnz;
    uint64_t header_bytes, nonzero_bytes;
};

struct ts_binary_kind {
    const char *name; /* as in "a ... file" */
    int (*recognise)(const unsigned char *head, size_t n);

    /* The file begins with head, of TS_BYTE_INPUT_HEAD bytes or all there are. */
    int (*header)(const unsigned char *head, size_t n, struct ts_binary_form *ret, uint64_t *at,
                  struct ts_err *err);
};

/* The kind of a file with this beginning. NULL: it is no binary file. */
const struct ts_binary_kind *ts_binary_kind_find(const unsigned char *head, size_t n);

/* Byte of index `mode` of nonzero i, of its value where mode is the order. */
uint64_t ts_binary_place(const struct ts_binary_form *f, uint64_t i, uint32_t mode);

/* Bytes of the file. */
uint64_t ts_binary_size(const struct ts_binary_form *f);

#endif
