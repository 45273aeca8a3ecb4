/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds up what each process of several gets. */
#include "tools/plan_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS 64u /* of rows, which are updated by one process each; as many sums travel */

/* The row, with a fraction, at which partition `at` begins. */
static double row_at(const struct ts_mode *mode, uint64_t at)
{
    uint64_t first = 0;
    for (uint64_t i = 0; i < mode->disk.n_shards; i++) {
        const struct ts_disk_shard *s = &mode->shard[i];
        const uint64_t n = ts_shard_partitions(s);
        if (at < first + n)
            return s->row_first +
                   (double)(at - first) / (double)n * (double)(s->row_last - s->row_first + 1);
        first += n;
    }
    return (double)mode->disk.n_rows;
}

static void divide_mode(const struct ts_tensor *t, uint32_t m, const uint64_t *cut,
                        struct plan_ranks *p)
{
    const struct ts_mode *mode = &t->mode[m];
    for (uint32_t r = 0; r < p->n; r++) {
        const double partitions = (double)(cut[r + 1] - cut[r]) / ((double)cut[p->n] + 1e-9);
        const double rows =
            (row_at(mode, cut[r + 1]) - row_at(mode, cut[r])) / ((double)mode->disk.n_rows + 1e-9);
        p->product_share[m] = fmax(p->product_share[m], partitions);
        p->row_share[m] = fmax(p->row_share[m], fmin(1, ceil(rows * GROUPS) / GROUPS));
    }
}

int plan_ranks_new(const struct ts_tensor *t, uint32_t n, uint32_t rank,
                   enum ts_precision precision, struct plan_ranks *ret, struct ts_err *err)
{
    struct plan_ranks p = { .n = n };
    uint64_t *cut = calloc(n + UINT64_C(1), sizeof *cut), most = 0;
    if (cut == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    for (uint32_t m = 0; m < t->order; m++) {
        ts_share_cut(t->mode[m].shard, t->mode[m].disk.n_shards, n, cut);
        divide_mode(t, m, cut, &p);
        p.exchange_bytes[m] = t->mode[m].disk.n_rows * rank * (precision == TS_FLOAT32 ? 4 : 8) +
                              UINT64_C(8) * GROUPS * rank * rank;
    }
    for (uint32_t r = 0; r < n; r++) {
        const uint64_t bytes = ts_share_shard_bytes(t, -1, n, r);
        p.largest = bytes > most ? r : p.largest;
        most = bytes > most ? bytes : most;
    }
    free(cut);
    *ret = p;
    return 0;
}
