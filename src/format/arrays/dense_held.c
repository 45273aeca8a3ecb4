/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes which cells of a dense tensor are held out, by hashes of their indices. The part of a
 * hash that depends on the first modes is computed once and reused while only later indices
 * change. */
#include "format/arrays/dense_held.h"

#define RUN 64u

/* Hashes n cells that differ only in the index of mode `fast`, which counts up from index[fast]. */
static void hash_run(const struct ts_hold_out *h, const uint64_t *index, uint32_t order,
                     uint32_t fast, uint32_t n, unsigned char *ret)
{
    uint64_t hash[RUN], before = ts_hold_out_begin(h);
    for (uint32_t m = 0; m < fast; m++)
        before = ts_hold_out_add(before, index[m]);
    for (uint32_t i = 0; i < n; i++)
        hash[i] = ts_hold_out_add(before, index[fast] + i);
    for (uint32_t m = fast + 1; m < order; m++)
        for (uint32_t i = 0; i < n; i++)
            hash[i] = ts_hold_out_add(hash[i], index[m]);
    for (uint32_t i = 0; i < n; i++)
        ret[i] = (unsigned char)ts_hold_out_held(h, hash[i]);
}

void ts_dense_held(const struct ts_dense *d, const struct ts_hold_out *h, uint64_t first,
                   uint32_t n, unsigned char *ret)
{
    const uint32_t order = d->array.order, fast = d->layout[order - 1];
    uint64_t index[TS_DENSE_MAX_ORDER];
    ts_dense_index(d, first, index);
    for (uint32_t at = 0; at < n;) {
        const uint64_t left = d->array.dim[fast] - index[fast];
        uint32_t k = n - at < RUN ? n - at : RUN;
        k = left < k ? (uint32_t)left : k;
        hash_run(h, index, order, fast, k, ret + at);
        at += k;
        index[fast] += k;
        for (uint32_t l = order - 1; l > 0 && index[d->layout[l]] == d->array.dim[d->layout[l]];
             l--) {
            index[d->layout[l]] = 0;
            index[d->layout[l - 1]]++;
        }
    }
}
