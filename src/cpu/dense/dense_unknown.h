/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_unknown.h - counts the unknown cells of a dense tensor in each row of a mode, and lists
 * them by row.
 *
 * Unknown cells are those that are NaN, and those that are held out. One pass over the cells finds
 * them. From then on each cell has a bit, if all bits fit into bit_bytes; otherwise each pass
 * checks the cells again.
 *
 * A list has cells of one slab, sorted by key: the row, and the part of the slab if rows are
 * divided into parts. Cells of a key are in the order of the array.
 *
 *   owner    the object owns its memory
 *   units    cells; rows from 0
 *   threads  one calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code
 *   bits     lists do not depend on threads
 */
#ifndef TS_CPU_DENSE_UNKNOWN_H
#define TS_CPU_DENSE_UNKNOWN_H

#include "format/hold_out.h"
#include "stream/feed/feed.h"

struct ts_dense_unknown;

struct ts_dense_unknown_conf {
    const struct ts_tensor *tensor; /* its cells must have been scanned before (dense_scan.h) */
    uint64_t most_keys;             /* the most keys (a row and a part) of a list */
    uint64_t bit_bytes;             /* most bytes for the bits of unknown cells */
    uint32_t threads;
};

int ts_dense_unknown_new(const struct ts_dense_unknown_conf *conf, struct ts_dense_unknown **ret,
                         struct ts_err *err);
void ts_dense_unknown_free(struct ts_dense_unknown *u); /* u may be NULL */
uint64_t ts_dense_unknown_bytes(const struct ts_dense_unknown_conf *conf);

/* Finds the unknown cells: those that are NaN, or held out by `hold_out`. Does nothing if the last
 * call found them for an equal hold_out. */
int ts_dense_unknown_find(struct ts_dense_unknown *u, const struct ts_hold_out *hold_out,
                          struct ts_feed *feed, struct ts_err *err);

/* Returns the number of unknown cells in each row of the mode. */
const uint64_t *ts_dense_unknown_counts(const struct ts_dense_unknown *u, uint32_t mode);

/* Which cells are listed: those in rows first .. end - 1 of a mode that are unknown, or known. Row
 * `row` + i in part p of a slab has the key i * parts + p. */
struct ts_dense_wanted {
    uint32_t mode, parts;
    uint64_t first, end;
    /* for each row of the mode 1: its known cells are listed; 0: its unknown cells */
    const unsigned char *known;
    int some_known; /* 1: some of the rows first .. end - 1 have known cells listed */
};

struct ts_dense_list {
    uint64_t base; /* number of the slab's first cell */
    uint64_t row;  /* row of the first key */
    uint64_t keys;
    const uint32_t *start; /* keys + 1 numbers: where the cells of each key begin */
    const uint32_t *cell;  /* numbers of cells, less `base` */
};

/* Receives the lists of the slabs, in order. Empty lists are left out. */
typedef void ts_dense_take(void *ctx, const struct ts_dense_list *list);
int ts_dense_unknown_list(struct ts_dense_unknown *u, const struct ts_dense_wanted *w,
                          ts_dense_take *take, void *ctx, struct ts_feed *feed, struct ts_err *err);

#endif
