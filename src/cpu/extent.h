/* SPDX-License-Identifier: BSD-3-Clause */
/* extent.h - finds the most rows and partitions of any mode of a tensor, for which memory is
 * allocated, and divides that memory into arrays.
 *
 *   units    rows; partitions of a mode
 *   threads  pure functions
 */
#ifndef TS_CPU_EXTENT_H
#define TS_CPU_EXTENT_H

#include "format/tensor_kind.h"

/* Returns the largest number of rows of the modes whose bits are set in `modes`. */
static inline uint64_t ts_most_rows(const struct ts_tensor *t, uint32_t modes)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        if ((modes >> m & 1) != 0 && t->mode[m].disk.n_rows > most)
            most = t->mode[m].disk.n_rows;
    return most;
}

static inline uint64_t ts_most_partitions(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        const uint64_t n = ts_tensor_partitions(t, m);
        most = n > most ? n : most;
    }
    return most;
}

#define TS_ALL_MODES UINT32_MAX

/* Places an array in a block of memory, and returns its address. base NULL: only counts the bytes.
 * *at: bytes so far, a multiple of 64, to which the array is added. */
static inline void *ts_place(char *base, uint64_t *at, uint64_t bytes)
{
    void *ret = base == NULL ? NULL : base + *at;
    *at += (bytes + 63) / 64 * 64;
    return ret;
}

#endif
