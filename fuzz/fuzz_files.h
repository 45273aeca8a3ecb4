/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_files.h - files beside the index of a tensor, and names that are numbered; part of
 * fuzz_shard.
 *
 *   threads  one
 *   errors   traps
 */
#ifndef TS_FUZZ_FILES_H
#define TS_FUZZ_FILES_H

#include <stddef.h>
#include <stdint.h>

/* modes, part, sums or labels of a tensor that is whole otherwise: a byte that says which (its
 * highest bit: what the file says of the index is put right), the file. */
void fuzz_tensor_file(const uint8_t *data, size_t size);

/* A file of names as tshard build --map reads it: the indices of its mode (u8), a byte that says
 * whether it may be in part, the file. */
void fuzz_map(const uint8_t *data, size_t size);

/* Names as they are numbered: a byte that says whether they are sorted, the bytes in a piece (u8),
 * names that '\n' divides. */
void fuzz_name_list(const uint8_t *data, size_t size);

/* The index of a dense array: a byte (its highest bit: the checksum is put right), the file. */
void fuzz_array_index(const uint8_t *data, size_t size);

#endif
