/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts the shards of a mode into ranges of equal cost, predicted or measured. */
#include "stream/balance.h"

#include <assert.h>

/* The cost of a row in nonzeros. A row of the product is written, read for the solve (rank^2
 * multiplications) and written again, while a nonzero reads order - 1 rows and adds one. On an H200
 * at rank 32, the row work of a sweep takes 0.3 ns a row, a nonzero 0.05 ns. */
#define ROW_COST 5.0

/* if the slowest device takes at most this fraction more than the mean time of all devices, the
 * difference counts as noise */
#define QUIET 0.01

double ts_balance_cost(const struct ts_disk_shard *s)
{
    return s->nnz + ROW_COST * (double)(s->row_last - s->row_first);
}

static double range_cost(const struct ts_disk_shard *shard, uint64_t from, uint64_t to)
{
    double sum = 0;
    for (uint64_t i = from; i < to; i++)
        sum += ts_balance_cost(&shard[i]);
    return sum;
}

/* Sets cut[1] .. cut[n - 1] to the shards at which the sum of cost times density over all earlier
 * shards is nearest to 1/n, 2/n, ... of `total`. density[g] is the time per predicted cost of the
 * shards first[g] .. first[g + 1] - 1. */
static void cut_evenly(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                       const uint64_t *first, const double *density, double total, uint64_t *cut)
{
    double sum = 0;
    uint64_t at = 0;
    uint32_t g = 0;
    cut[0] = 0;
    cut[n] = n_shards;
    for (uint32_t k = 1; k < n; k++) {
        const double want = total * k / n;
        for (; at < n_shards; at++) {
            double more;
            while (at >= first[g + 1])
                g++;
            more = ts_balance_cost(&shard[at]) * density[g];
            if (sum + more / 2 > want)
                break;
            sum += more;
        }
        cut[k] = at;
    }
}

void ts_balance_even(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                     uint64_t *first)
{
    const uint64_t all[2] = { 0, n_shards };
    const double density = 1;
    assert(n > 0 && n <= TS_BALANCE_MOST);
    cut_evenly(shard, n_shards, n, all, &density, range_cost(shard, 0, n_shards), first);
}

/* Returns the time of the slowest of n devices divided by their mean time, minus 1, and sets *total
 * to the sum of times. */
static double excess(uint32_t n, const uint64_t *busy_ns, double *total)
{
    uint64_t most = 0;
    *total = 0;
    for (uint32_t g = 0; g < n; g++) {
        *total += (double)busy_ns[g];
        most = busy_ns[g] > most ? busy_ns[g] : most;
    }
    return *total > 0 ? (double)most * n / *total - 1 : 0;
}

int ts_balance_move(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                    const uint64_t *busy_ns, uint64_t *first)
{
    double density[TS_BALANCE_MOST], total, over, step, sum = 0;
    uint64_t cut[TS_BALANCE_MOST + 1];
    int moved = 0;
    assert(n > 0 && n <= TS_BALANCE_MOST);
    over = excess(n, busy_ns, &total);
    if (over <= QUIET)
        return 0;
    for (uint32_t g = 0; g < n; g++) {
        const double cost = range_cost(shard, first[g], first[g + 1]);
        density[g] = cost > 0 ? (double)busy_ns[g] / cost : 0;
        sum += density[g] * cost; /* an empty range has density 0, whatever its measured time */
    }
    cut_evenly(shard, n_shards, n, first, density, sum, cut);
    step = 1 - QUIET / over;
    for (uint32_t g = 1; g < n; g++) {
        const double to = (double)first[g] + step * ((double)cut[g] - (double)first[g]);
        const uint64_t at = (uint64_t)(to + 0.5);
        moved |= at != first[g];
        first[g] = at;
    }
    return moved;
}

void ts_balance_shares(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                       const uint64_t *first, double *share)
{
    const double all = range_cost(shard, 0, n_shards);
    for (uint32_t g = 0; g < n; g++)
        share[g] = all > 0 ? range_cost(shard, first[g], first[g + 1]) / all : 0;
}
