/* SPDX-License-Identifier: BSD-3-Clause */
/* binary_file.h - writes the binary files that tshard build reads, byte by byte from their
 * description in src/source/binary/binary_kind.h: for the tests of it.
 *
 *   owner    the caller frees what put returns
 *   units    bytes; indices are given from 0
 *   errors   none: it ends the program
 */
#ifndef TS_TESTS_BINARY_FILE_H
#define TS_TESTS_BINARY_FILE_H

#include <stddef.h>
#include <stdint.h>

#define BINARY_MAX_ORDER 16u

struct binary_file {
    int genten, big_endian;                 /* else SPLATT, little-endian */
    uint32_t order, base;                   /* base: added to each index */
    uint32_t index_bytes[BINARY_MAX_ORDER]; /* of SPLATT, all alike */
    uint32_t value_bytes;
    uint64_t dim[BINARY_MAX_ORDER];
    uint64_t n;
    const uint64_t *index; /* n x order */
    const double *value;
};

unsigned char *binary_file_put(const struct binary_file *f, size_t *bytes);

#endif
