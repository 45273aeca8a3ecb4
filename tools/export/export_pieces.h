/* SPDX-License-Identifier: BSD-3-Clause */
/* export_pieces.h - all nonzeros of a tensor as text into a sink, as they are stored or sorted.
 *
 * Nonzeros come as pieces: partitions of shards, which one thread each reads and checks, or sorted
 * records (build/sort/reorder.h). All threads make text of them, which is written in order. A piece
 * whose text does not fit its buffer goes on when its turn has come, so that memory is the same for
 * any text.
 *
 *   owner    the caller owns what the struct points to
 *   units    bytes, nonzeros
 *   threads  called from one, uses `threads`
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
    uint32_t mode;            /* whose copy is read */
    int sorted;               /* through ts_reorder: */
    uint8_t by[TS_MAX_ORDER]; /* modes, the first sorts first */
    struct export_rows rows;  /* open */
    struct export_sink *sink; /* open */
    const char *tmp;          /* directory for temporary files */

    uint32_t threads;
    size_t text_bytes;   /* bytes of text of each thread, without the longest line */
    uint64_t sort_bytes; /* memory of sorting */
};

/* Memory of `threads` threads, without memory for names and sorting. */
uint64_t export_pieces_bytes(const struct ts_tensor *t, int sorted, int gzip, uint32_t threads,
                             uint64_t text_bytes);

int export_pieces_write(const struct export_pieces *e, struct ts_err *err);

#endif
