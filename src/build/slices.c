/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps a bitmap of the used indices, and finds the row of an index by counting bits. */
#include "build/slices.h"

#include <stdlib.h>
#include <string.h>

#include "base/machine/isa.h"

int ts_slices_init(struct ts_slices *s, uint64_t dim, struct ts_err *err)
{
    const uint64_t words = (dim + 63) / 64;
    memset(s, 0, sizeof *s);
    s->dim = dim;
    s->bitmap = calloc(words, sizeof *s->bitmap);
    s->rank = malloc(words * sizeof *s->rank);
    if (s->bitmap == NULL || s->rank == NULL) {
        ts_slices_fini(s);
        return ts_fail(err, TS_ENOMEM, "out of memory for the set of used slices");
    }
    return 0;
}

void ts_slices_fini(struct ts_slices *s)
{
    free(s->bitmap);
    free(s->rank);
    memset(s, 0, sizeof *s);
}

void ts_slices_count(struct ts_slices *s)
{
    uint64_t sum = 0;
    for (uint64_t w = 0; w < (s->dim + 63) / 64; w++) {
        s->rank[w] = (uint32_t)sum;
        sum += (uint64_t)__builtin_popcountll(s->bitmap[w]);
    }
    s->n_rows = sum;
}

static inline __attribute__((always_inline)) void find_rows(const struct ts_slices *s,
                                                            uint64_t *column, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        column[i] = ts_slices_row(s, column[i]);
}

#ifdef __x86_64__
/* the processor counts the bits of a word in one instruction */
__attribute__((target("popcnt"))) static void find_rows_popcnt(const struct ts_slices *s,
                                                               uint64_t *column, uint32_t n)
{
    find_rows(s, column, n);
}
#else
#define find_rows_popcnt find_rows
#endif

void ts_slices_rows(const struct ts_slices *s, uint64_t *column, uint32_t n)
{
    if (ts_isa_here(TS_ISA_AVX2))
        find_rows_popcnt(s, column, n);
    else
        find_rows(s, column, n);
}
