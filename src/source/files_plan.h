/* SPDX-License-Identifier: BSD-3-Clause */
/* files_plan.h - describes how files are read as the parts of one tensor: text (text_source.h) or
 * binary files (binary_source.h).
 *
 *   owner    the caller owns what members point to, except `first`
 *   units    bytes
 */
#ifndef TS_SOURCE_FILES_PLAN_H
#define TS_SOURCE_FILES_PLAN_H

#include <signal.h>
#include <stdint.h>

#include "format/layout.h"
#include "source/packed/byte_input.h"

struct ts_table;

struct ts_files_plan {
    const char *const *paths; /* paths of the files; "-": standard input */
    uint32_t n_paths;
    /* paths[0] if it is open already, or NULL; the source will close it */
    struct ts_byte_input *first;
    const volatile sig_atomic_t *stop; /* reading ends when it is set; may be NULL */
    /* Bytes of text that a thread reads at a time; for binary files, as many nonzeros as such text
     * may have. */
    size_t piece_bytes;
    uint64_t read_bytes; /* memory for text and for the batches made from it */
    uint32_t threads, base, value_bytes;
    uint32_t n_dims; /* number of sizes in dim[], which headers must agree with; 0: none */
    uint64_t dim[TS_MAX_ORDER];
    uint64_t unpack_bytes; /* memory that decompression may use (text_input.h) */
    /* fraction of each file that a sample reads: pieces spread over an uncompressed file, or the
     * start of a compressed one; 0: all */
    double share;
    int zeros; /* 1: zeros are kept as nonzeros; 0: they are dropped */

    /* For several processes: which of n_parts equal parts of each file this one reads. A compressed
     * file is not divided: process i reads the compressed files i, i + n_parts and so on. n_parts
     * 0: everything is read. */
    uint32_t part, n_parts;

    /* members for text only */
    /* columns of the tables; NULL: the first bytes of a file tell its kind */
    struct ts_table *table;
    int skip_missing; /* 1: lines with a missing field are left out; 0: they are refused */
};

#endif
