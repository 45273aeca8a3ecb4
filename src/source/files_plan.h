/* SPDX-License-Identifier: BSD-3-Clause */
/* files_plan.h - how files are read as the parts of one tensor: text (text_source.h) or binary
 * files (binary_source.h).
 *
 *   owner    the caller owns what it points to, unless said otherwise
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
    const char *const *paths; /* "-": standard input */
    uint32_t n_paths;
    struct ts_byte_input *first; /* paths[0], open already: the source's from here on; or NULL */
    const volatile sig_atomic_t *stop; /* ends reading; may be NULL */
    /* Bytes of text that a thread reads at a time, or as many nonzeros as these may contain. */
    size_t piece_bytes;
    uint64_t read_bytes; /* memory for text and for the batches made from it */
    uint32_t threads, base, value_bytes;
    uint32_t n_dims; /* 0: not given; else headers must agree */
    uint64_t dim[TS_MAX_ORDER];
    uint64_t unpack_bytes; /* memory that unpacking may take (text_input.h) */
    /* share of each file to read: pieces spread over a plain file, the start of a packed one; 0:
     * all */
    double share;
    int zeros; /* zeros are nonzeros like any other, and not dropped */

    /* The part of each file to read, of n_parts equal ones. A packed file is wholly in one part, in
     * turn. n_parts 0: all. */
    uint32_t part, n_parts;

    /* of text */
    struct ts_table *table; /* the files are tables; NULL: their first bytes tell what they are */
    int skip_missing;       /* lines with a missing field are left out, not refused */
};

#endif
