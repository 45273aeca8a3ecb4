/* merge.h - the sorted nonzeros of the whole tensor, once: merges those of one cell, drops zeros, and
 * gathers what the format is chosen by.
 *
 *   owner    the caller
 *   units    records of indices in the order of the modes, then the value's bits
 *   threads  called from one, uses `threads`
 *   errors   0 or a negative ts_code
 */
#ifndef TS_FORMAT_MERGE_H
#define TS_FORMAT_MERGE_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "format/level_order.h"
#include "format/record.h"
#include "format/slices.h"
#include "format/value_table.h"

/* Records that remain of a range: [first, first + n). */
struct ts_merge_piece {
    uint64_t first, n;
};

struct ts_merge {
    struct ts_record_layout layout;
    uint32_t order, value_bytes, threads;
    int duplicates; /* enum ts_duplicates */
    const volatile sig_atomic_t *stop; /* NULL, or set by the caller: once it is, little is merged */
    uint64_t nnz, n_duplicates, n_zeros;
    struct ts_slices slices[TS_MAX_ORDER]; /* marked where there is a bitmap */
    struct ts_fibres *fibres;              /* one a thread; [0] holds all after finish */
    struct ts_value_table **values;        /* the same */

    struct ts_merge_piece *piece; /* one a thread: what remains of the records of the last add */

    /* the cell that the next records may continue */
    int open;
    uint64_t cell[TS_RECORD_WORDS];
    uint64_t n_open;
    double sum;
};

/* dim[m] 0: no bitmap for mode m. */
int ts_merge_init(struct ts_merge *g, const struct ts_record_layout *layout, uint32_t order,
                  uint32_t value_bytes, int duplicates, const uint64_t dim[], uint32_t threads,
                  struct ts_err *err);
void ts_merge_fini(struct ts_merge *g);

/* Takes the next n sorted records, in place. Those that remain, *kept in all, are the pieces, in this
 * order. When more follow (last 0) the last cell is held back, and may come out later: `before` (1 if
 * *n_before) is a record that precedes those kept. */
int ts_merge_add(struct ts_merge *g, uint64_t *rec, uint64_t n, int last, uint64_t *before,
                 uint64_t *n_before, uint64_t *kept, struct ts_err *err);

/* Brings the threads' findings together, in fibres[0] and values[0]. */
void ts_merge_finish(struct ts_merge *g);

#endif
