/* SPDX-License-Identifier: BSD-3-Clause */
/* share_cut.c - divides the partitions of a mode among processes, and chooses the process that adds
 * up the parts of each cut row. */
#include "cpu/ranks/share_cut.h"

#include <math.h>

#include "stream/balance.h"
#include "stream/feed/residency.h"

/* A walk over the shards from one cut (boundary between ranges of ranks) to the next. */
struct walk {
    const struct ts_disk_shard *shard;
    /* at: the next shard; partitions: number of partitions before it */
    uint64_t n_shards, at, partitions;
    double before; /* cost of the partitions before shard `at` */
};

/* Returns the partition at which the sum of the predicted costs of partitions reaches `wanted`. */
static uint64_t walk_to(struct walk *w, double wanted)
{
    double inside = 0;
    while (w->at < w->n_shards && w->before + ts_balance_cost(&w->shard[w->at]) <= wanted) {
        w->before += ts_balance_cost(&w->shard[w->at]);
        w->partitions += ts_shard_partitions(&w->shard[w->at++]);
    }
    if (w->at < w->n_shards)
        inside = (wanted - w->before) / ts_balance_cost(&w->shard[w->at]) *
                 ts_shard_partitions(&w->shard[w->at]);
    return w->partitions + (uint64_t)(inside + 0.5);
}

static double cost_of(const struct ts_disk_shard *shard, uint64_t n_shards)
{
    double total = 0;
    for (uint64_t i = 0; i < n_shards; i++)
        total += ts_balance_cost(&shard[i]);
    return total;
}

/* Returns cut k of n, that is the first partition of range k. total: cost of all partitions. */
static uint64_t next_cut(struct walk *w, double total, uint32_t k, uint32_t n)
{
    return k == 0 ? 0 : walk_to(w, k < n ? total * k / n : INFINITY);
}

void ts_share_cut(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n, uint64_t *cut)
{
    const double total = cost_of(shard, n_shards);
    struct walk w = { .shard = shard, .n_shards = n_shards };
    for (uint32_t k = 0; k <= n; k++)
        cut[k] = next_cut(&w, total, k, n);
}

void ts_share_round(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n, uint64_t *cut)
{
    uint64_t at = 0, i = 0;
    for (uint32_t r = 1; r < n; r++) {
        uint64_t behind;
        while (i < n_shards && at + ts_shard_partitions(&shard[i]) <= cut[r])
            at += ts_shard_partitions(&shard[i++]);
        behind = i < n_shards ? at + ts_shard_partitions(&shard[i]) : at;
        cut[r] = cut[r] - at < behind - cut[r] || behind == at ? at : behind;
    }
}

double ts_share_row_at(const struct ts_mode *mode, uint64_t partition)
{
    uint64_t first = 0;
    for (uint64_t i = 0; i < mode->disk.n_shards; i++) {
        const struct ts_disk_shard *s = &mode->shard[i];
        const uint64_t n = ts_shard_partitions(s);
        if (partition < first + n)
            return s->row_first + (double)(partition - first) / (double)n *
                                      (double)(s->row_last - s->row_first + 1);
        first += n;
    }
    return (double)mode->disk.n_rows;
}

void ts_share_range_of(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                       uint32_t rank, uint64_t *begin, uint64_t *end)
{
    const double total = cost_of(shard, n_shards);
    struct walk w = { .shard = shard, .n_shards = n_shards };
    *begin = next_cut(&w, total, rank, n);
    *end = next_cut(&w, total, rank + 1, n);
}

void ts_share_shards_of(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                        uint32_t rank, uint64_t *first, uint64_t *end)
{
    uint64_t from, to, at = 0;
    ts_share_range_of(shard, n_shards, n, rank, &from, &to);
    *first = *end = 0;
    for (uint64_t i = 0; i < n_shards; i++) {
        const uint64_t behind = at + ts_shard_partitions(&shard[i]);
        if (ts_share_is_of(from, to, at, behind)) {
            *first = *end == 0 ? i : *first;
            *end = i + 1;
        }
        at = behind;
    }
}

uint64_t ts_share_shard_bytes(const struct ts_tensor *t, int only_mode, uint32_t n, uint32_t rank)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        const struct ts_mode *mode = &t->mode[m];
        uint64_t first, end;
        if (only_mode >= 0 && (uint32_t)only_mode != m)
            continue;
        ts_share_shards_of(mode->shard, mode->disk.n_shards, n, rank, &first, &end);
        for (uint64_t i = first; i < end; i++)
            sum += ts_residency_bytes(&mode->shard[i]);
    }
    return sum;
}

static uint32_t rank_of(const uint64_t *cut, uint32_t n, uint64_t partition)
{
    uint32_t r = 0;
    while (r + 1 < n && cut[r + 1] <= partition)
        r++;
    return r;
}

uint32_t ts_share_cut_rows(const struct ts_kernel_edge *edge, uint64_t n_partitions,
                           const uint64_t *cut, uint32_t n, struct ts_share_row *ret)
{
    uint32_t found = 0;
    for (uint32_t r = 1; r < n; r++) {
        const uint64_t k = cut[r];
        uint64_t s = k, e = k;
        uint32_t row;
        if (k == 0 || k >= n_partitions || edge[k - 1].last != edge[k].first)
            continue;
        if (found > 0 && ret[found - 1].last >= k) /* the same row, which is cut several times */
            continue;
        row = edge[k].first;
        do
            s--;
        while (s > 0 && edge[s].first == row && edge[s - 1].last == row);
        while (e + 1 < n_partitions && edge[e].last == row && edge[e + 1].first == row)
            e++;
        ret[found] = (struct ts_share_row){ .row = row, .last = e, .to = rank_of(cut, n, e) };
        ret[found].from = edge[s].first == row ? ret[found].to : rank_of(cut, n, s);
        ret[found++].first = edge[s].first == row ? s : s + 1;
    }
    return found;
}

/* Computes the partitions begin .. end - 1, or with `ends` the parts, that rank r adds to rows. */
static void fold(const struct ts_share_row *row, uint32_t n_rows, const uint64_t *cut, uint32_t r,
                 int ends, uint64_t *begin, uint64_t *end)
{
    *begin = cut[r] << ends;
    *end = cut[r + 1] << ends;
    for (uint32_t i = 0; i < n_rows; i++) {
        const uint64_t first = ends ? ts_share_first_end(&row[i]) : row[i].first;
        if (row[i].to == r && first < *begin)
            *begin = first;
        else if (row[i].to > r && first < *end)
            *end = first; /* end <= begin if the whole range is a part of one row */
    }
}

void ts_share_fold(const struct ts_share_row *row, uint32_t n_rows, const uint64_t *cut, uint32_t r,
                   uint64_t *begin, uint64_t *end)
{
    fold(row, n_rows, cut, r, 0, begin, end);
}

void ts_share_fold_ends(const struct ts_share_row *row, uint32_t n_rows, const uint64_t *cut,
                        uint32_t r, uint64_t *begin, uint64_t *end)
{
    fold(row, n_rows, cut, r, 1, begin, end);
}
