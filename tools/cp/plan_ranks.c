/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimates the part of the work, memory and exchange of each of several processes. */
#include "tools/cp/plan_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* groups into which the rows of a mode are divided; one process updates the rows of a group, and
 * sends the group's part of the Gram matrix to the others */
#define GROUPS 64u
/* parts of a GPU's range of shards; the rows of one part are sent while those of the next are
 * computed */
#define PARTS 6

/* Divides the work of a mode among processes on CPU cores. cut has room for n + 1 numbers. */
static void divide_mode(const struct ts_tensor *t, uint32_t m, uint64_t *cut, struct plan_ranks *p)
{
    const struct ts_mode *mode = &t->mode[m];
    ts_share_cut(mode->shard, mode->disk.n_shards, p->n, cut);
    for (uint32_t r = 0; r < p->n; r++) {
        const double partitions = (double)(cut[r + 1] - cut[r]) / ((double)cut[p->n] + 1e-9);
        const double rows = (ts_share_row_at(mode, cut[r + 1]) - ts_share_row_at(mode, cut[r])) /
                            ((double)mode->disk.n_rows + 1e-9);
        p->product_share[m] = fmax(p->product_share[m], partitions);
        p->row_share[m] = fmax(p->row_share[m], fmin(1, ceil(rows * GROUPS) / GROUPS));
    }
}

/* Divides the work of a mode among the GPUs of all processes. In the measurement, the GPUs of one
 * process do all of the work, each of them 1 / n_gpus. */
static void divide_among_gpus(const struct ts_tensor *t, uint32_t m, uint64_t *first,
                              struct plan_ranks *p)
{
    const struct ts_mode *mode = &t->mode[m];
    const uint32_t n = p->n * p->n_gpus;
    double share[TS_MAX_TEAM];
    ts_balance_even(mode->shard, mode->disk.n_shards, n, first);
    ts_balance_shares(mode->shard, mode->disk.n_shards, n, first, share);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t end = first[i + 1];
        const double rows =
            first[i] == end
                ? 0
                : (double)(mode->shard[end - 1].row_last - mode->shard[first[i]].row_first + 1) /
                      (double)mode->disk.n_rows;
        p->product_share[m] = fmax(p->product_share[m], fmin(1, p->n_gpus * share[i]));
        p->row_share[m] = fmax(p->row_share[m], fmin(1, p->n_gpus * rows));
    }
}

/* Returns the bytes of memory that the shards of process r take. */
static uint64_t shard_bytes(const struct ts_tensor *t, uint32_t r, uint64_t *first,
                            const struct plan_ranks *p)
{
    uint64_t sum = 0;
    if (p->n_gpus == 0)
        return ts_share_shard_bytes(t, -1, p->n, r);
    for (uint32_t m = 0; m < t->order; m++) {
        const struct ts_mode *mode = &t->mode[m];
        ts_balance_even(mode->shard, mode->disk.n_shards, p->n * p->n_gpus, first);
        for (uint64_t i = first[r * p->n_gpus]; i < first[(r + 1) * p->n_gpus]; i++)
            sum += ts_residency_bytes(&mode->shard[i]);
    }
    return sum;
}

/* Returns the bytes that a process exchanges for a mode: rows, and rank x rank sums for Gram
 * matrices. On CPU cores each of the GROUPS groups of rows has such sums. With GPUs, each GPU has
 * such sums, and each shard two partial rows. */
static uint64_t exchange_bytes(const struct ts_tensor *t, uint32_t m, uint32_t rank, uint64_t row,
                               const struct plan_ranks *p)
{
    const uint64_t n_sums = p->n_gpus == 0 ? GROUPS : p->n * p->n_gpus;
    return t->mode[m].disk.n_rows * row + n_sums * 8 * rank * rank +
           (p->n_gpus == 0 ? 0 : 2 * t->mode[m].disk.n_shards * row);
}

void plan_ranks_rows(const struct ts_tensor *t, uint32_t rank, uint64_t row_bytes,
                     uint64_t shared_bytes, struct plan_ranks *p)
{
    const uint32_t n_hosts = (p->n + p->per_host - 1) / p->per_host;
    p->shared_bytes = shared_bytes;
    for (uint32_t m = 0; m < t->order; m++) {
        const uint64_t bytes = exchange_bytes(t, m, rank, row_bytes, p);
        p->exchange_bytes[m] = shared_bytes > 0 ? bytes / n_hosts * (n_hosts - 1) : bytes;
    }
}

int plan_ranks_beside(const struct plan_ranks *p)
{
    return p->n > 1 && p->per_host > 1;
}

int plan_ranks_new(const struct ts_tensor *t, uint32_t n, uint32_t per_host, uint32_t n_gpus,
                   struct plan_ranks *ret, struct ts_err *err)
{
    struct plan_ranks p = { .n = n, .n_gpus = n_gpus, .per_host = per_host > 0 ? per_host : 1 };
    uint64_t *cut, most = 0;
    if (n_gpus > 0 && n > TS_MAX_TEAM / n_gpus)
        return ts_fail(err, TS_ELIMIT, "%u processes have more than %u GPUs together", n,
                       TS_MAX_TEAM);
    cut = calloc(n * (n_gpus > 0 ? n_gpus : UINT64_C(1)) + 1, sizeof *cut);
    if (cut == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    for (uint32_t m = 0; m < t->order; m++)
        (n_gpus == 0 ? divide_mode : divide_among_gpus)(t, m, cut, &p);
    for (uint32_t r = 0; r < n; r++) {
        const uint64_t bytes = shard_bytes(t, r, cut, &p);
        p.largest = bytes > most ? r : p.largest;
        most = bytes > most ? bytes : most;
    }
    free(cut);
    *ret = p;
    return 0;
}

double plan_ranks_exposed(const struct plan_ranks *p, uint32_t mode, double computing_s)
{
    const double all = (double)p->exchange_bytes[mode] / PLAN_NETWORK_BYTES_PER_S;
    if (p->n_gpus == 0)
        return all;
    return all / PARTS + fmax(0, all - computing_s) * (PARTS - 1) / PARTS;
}
