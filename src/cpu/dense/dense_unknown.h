/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_unknown.h - which cells of a dense tensor are unknown: how many there are in each row of a
 * mode, and where, by rows.
 *
 * Unknown are those that are NaN and those that are held out. One pass over the cells finds them.
 * From then on a bit for each cell tells, where all bits fit what they may take; else cells are
 * looked at in each pass.
 *
 * A list has cells of one slab, sorted by key: the row, and the part of the slab where rows are
 * divided into such parts. Cells of a key are in the order of the array.
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
    const struct ts_tensor *tensor; /* whose cells were scanned (dense_scan.h) */
    uint64_t most_keys;             /* that a list will have */
    uint64_t bit_bytes;             /* what bits may take */
    uint32_t threads;
};

int ts_dense_unknown_new(const struct ts_dense_unknown_conf *conf, struct ts_dense_unknown **ret,
                         struct ts_err *err);
void ts_dense_unknown_free(struct ts_dense_unknown *u); /* NULL is fine */
uint64_t ts_dense_unknown_bytes(const struct ts_dense_unknown_conf *conf);

/* Finds the unknown cells, unless they are those that were found last. */
int ts_dense_unknown_find(struct ts_dense_unknown *u, const struct ts_hold_out *hold_out,
                          struct ts_feed *feed, struct ts_err *err);

/* Of each row of the mode: how many of its cells are unknown. */
const uint64_t *ts_dense_unknown_counts(const struct ts_dense_unknown *u, uint32_t mode);

/* What is listed: of rows first .. end - 1 of a mode their unknown cells, or their known ones. Row
 * `row` + i in part p of a slab has the key i * parts + p. */
struct ts_dense_wanted {
    uint32_t mode, parts;
    uint64_t first, end;
    const unsigned char *known; /* of each row of the mode: 1: its known cells; else 0 */
    int some_known;             /* of rows first .. end - 1 */
};

struct ts_dense_list {
    uint64_t base; /* the slab's first cell */
    uint64_t row;  /* of the first key */
    uint64_t keys;
    const uint32_t *start; /* keys + 1: where the cells of each begin */
    const uint32_t *cell;  /* less base */
};

/* Gives the list of each slab, in order, that has any. */
typedef void ts_dense_take(void *ctx, const struct ts_dense_list *list);
int ts_dense_unknown_list(struct ts_dense_unknown *u, const struct ts_dense_wanted *w,
                          ts_dense_take *take, void *ctx, struct ts_feed *feed, struct ts_err *err);

#endif
