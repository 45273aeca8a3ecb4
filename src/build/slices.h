/* SPDX-License-Identifier: BSD-3-Clause */
/* slices.h - keeps which indices of a mode are used, and numbers them: the compact row of an index
 * is the number of used indices below it.
 *
 *   owner    the caller of init calls fini
 *   units    indices from `first`, dim of them; memory: dim / 8 bytes, and half as much for `rank`
 *   threads  mark: any thread at any time; row: any thread after count
 *   errors   0 or TS_ENOMEM
 */
#ifndef TS_BUILD_SLICES_H
#define TS_BUILD_SLICES_H

#include <stdint.h>

#include "base/err.h"

/* The used indices of a mode, as a bitmap. */
struct ts_slices {
    /* the first index of the bitmap: 0, or set by the caller before indices are marked */
    uint64_t first;
    uint64_t dim, n_rows;
    uint64_t *bitmap;
    uint32_t *rank; /* number of used indices before each word of the bitmap */
};

/* Returns the memory of struct ts_slices for dim indices: of `bitmap` and `rank`. */
static inline uint64_t ts_slices_bytes(uint64_t dim)
{
    return (dim + 63) / 64 * 12;
}

int ts_slices_init(struct ts_slices *s, uint64_t dim, struct ts_err *err);
void ts_slices_fini(struct ts_slices *s); /* s may be all zero */

static inline void ts_slices_mark(struct ts_slices *s, uint64_t index)
{
    const uint64_t at = index - s->first, bit = UINT64_C(1) << at % 64;
    uint64_t *word = &s->bitmap[at / 64];
    if ((__atomic_load_n(word, __ATOMIC_RELAXED) & bit) == 0)
        __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
}

/* to be called after all indices are marked: fills rank and n_rows */
void ts_slices_count(struct ts_slices *s);

static inline uint64_t ts_slices_row(const struct ts_slices *s, uint64_t index)
{
    const uint64_t at = index - s->first, below = (UINT64_C(1) << at % 64) - 1;
    return s->rank[at / 64] + (uint64_t)__builtin_popcountll(s->bitmap[at / 64] & below);
}

/* Replaces n indices in `column` by their rows. */
void ts_slices_rows(const struct ts_slices *s, uint64_t *column, uint32_t n);

#endif
