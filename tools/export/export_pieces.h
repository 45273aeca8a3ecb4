/* SPDX-License-Identifier: BSD-3-Clause */
/* export_pieces.h - exports all nonzeros of a tensor as text to a sink, in stored or sorted order.
 *
 * Nonzeros are divided into pieces: partitions of shards, each shard being read and checked by one
 * thread, or ranges of sorted records (build/sort/reorder.h). All threads convert pieces to text,
 * which is written in order. If the text of a piece exceeds its buffer, the remaining text is made
 * when it is the piece's turn to be written, so memory does not depend on the text.
 *
 *   owner    the caller owns what the struct points to
 *   units    bytes, nonzeros
 *   threads  one thread calls; `threads` threads work
 *   errors   0 or a negative ts_code; TS_ESTOP when tool_stop is set
 */
#ifndef TS_TOOLS_EXPORT_PIECES_H
#define TS_TOOLS_EXPORT_PIECES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/export/export_rows.h"
#include "tools/export/export_sink.h"

struct export_pieces {
    const struct ts_tensor *tensor;
    uint32_t mode;            /* the mode whose copy is read */
    int sorted;               /* 1: nonzeros are sorted (ts_reorder) */
    uint8_t by[TS_MAX_ORDER]; /* modes by which to sort, the most significant first */
    struct export_rows rows;  /* must be open */
    struct export_sink *sink; /* must be open */
    const char *tmp;          /* directory for temporary files */

    uint32_t threads;
    size_t text_bytes;   /* bytes of the text buffer of each thread, without the longest line */
    uint64_t sort_bytes; /* bytes of memory for sorting */
};

/* Returns the bytes of memory for `threads` threads, without memory for names and sorting. */
uint64_t export_pieces_bytes(const struct ts_tensor *t, int sorted, int gzip, uint32_t threads,
                             uint64_t text_bytes);

int export_pieces_write(const struct export_pieces *e, struct ts_err *err);

#endif
