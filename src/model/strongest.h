/* SPDX-License-Identifier: BSD-3-Clause */
/* strongest.h - the n entries of largest magnitude of a column that is seen once, row by row.
 *
 * A heap whose root is the weakest entry kept: a row costs one comparison, and log2 n if it is
 * kept. Of equal entries those of lower index are kept, and come first.
 *
 *   owner    the caller owns the struct; free takes an all-zero one
 *   threads  one at a time
 */
#ifndef TS_MODEL_STRONGEST_H
#define TS_MODEL_STRONGEST_H

#include <stdint.h>

struct ts_strong {
    double value;
    uint64_t index; /* in the input, from 0 */
    char *label;    /* or NULL; owned */
};

struct ts_strongest {
    uint32_t n, room;
    struct ts_strong *at;
};

int ts_strongest_new(struct ts_strongest *s, uint32_t room); /* 0, or -1: no memory */
void ts_strongest_free(struct ts_strongest *s);

/* Offers an entry. Calls must have ascending indices. */
void ts_strongest_add(struct ts_strongest *s, double value, uint64_t index);

/* Largest magnitude first; nothing is added afterwards. */
void ts_strongest_sort(struct ts_strongest *s);

#endif
