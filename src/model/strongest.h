/* SPDX-License-Identifier: BSD-3-Clause */
/* strongest.h - the n entries of largest magnitude of a column that is read once, row by row.
 *
 * It is a heap whose root is the weakest kept entry. A row costs one comparison, and log2 n if it
 * is kept. Among equal entries, those of lower index are kept, and come first.
 *
 *   owner    the caller owns the struct; free accepts a struct of zeros
 *   threads  one at a time
 */
#ifndef TS_MODEL_STRONGEST_H
#define TS_MODEL_STRONGEST_H

#include <stdint.h>

struct ts_strong {
    double value;
    uint64_t index; /* index in the input, from 0 */
    char *label;    /* label of the index, owned by the struct; or NULL */
};

struct ts_strongest {
    uint32_t n, room;
    struct ts_strong *at;
};

int ts_strongest_new(struct ts_strongest *s, uint32_t room); /* returns 0, or -1: out of memory */
void ts_strongest_free(struct ts_strongest *s);

/* Adds an entry of the column if it is among the largest. Calls must have ascending indices. */
void ts_strongest_add(struct ts_strongest *s, double value, uint64_t index);

/* Sorts the entries, the largest magnitude first. No entry may be added afterwards. */
void ts_strongest_sort(struct ts_strongest *s);

#endif
