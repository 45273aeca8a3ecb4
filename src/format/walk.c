/* SPDX-License-Identifier: BSD-3-Clause */
/* Visits all nonzeros of a tensor, with the indices of its input, in one thread or several. */
#include "format/walk.h"

#include <inttypes.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "base/stop.h"
#include "format/part.h"
#include "format/shard.h"
#include "format/tensor_kind.h"

int ts_walk_open(const struct ts_tensor *t, uint32_t mode, struct ts_walk *ret, struct ts_err *err)
{
    struct ts_walk w = { .tensor = t, .mode = mode };
    int rc = ts_tensor_is_sparse(t, "a walk over nonzeros is", err);
    if (rc < 0)
        return rc;
    if (mode >= t->order)
        return ts_fail(err, TS_EARG, "%s: there is no " TS_NTH_MODE ", only %" PRIu32, t->path,
                       mode + 1, t->order);
    for (uint32_t m = 0; m < t->order && rc == 0; m++)
        rc = ts_tensor_rows(t, m, &w.rows[m], err);
    if (rc == 0)
        *ret = w;
    else
        ts_walk_close(&w);
    return rc;
}

void ts_walk_close(struct ts_walk *w)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(w->rows[m]);
    memset(w, 0, sizeof *w);
}

int ts_walk_read(const struct ts_walk *w, uint64_t shard, void *raw, struct ts_err *err)
{
    return ts_tensor_read_shard(w->tensor, w->mode, shard, raw, err);
}

int ts_walk_block(const struct ts_walk *w, uint64_t shard, const void *raw, uint32_t b, uint32_t *n,
                  uint64_t *index, double *value, struct ts_err *err)
{
    const struct ts_tensor *t = w->tensor;
    const struct ts_mode *mode = &t->mode[w->mode];
    const uint32_t order = t->order, n_codes = ts_header_codes(&t->header);
    struct ts_block block;
    const int rc = ts_tensor_block(t, w->mode, shard, raw, b, &block, err);
    if (rc < 0)
        return rc;
    for (uint32_t l = 0; l < order; l++) {
        const uint32_t m = mode->disk.level[l];
        const uint64_t *rows = w->rows[m];
        for (uint32_t p = 0; p < block.n; p++)
            index[(size_t)p * order + m] =
                rows == NULL ? block.level[l][p] : rows[block.level[l][p]];
    }
    for (uint32_t p = 0; p < block.n; p++)
        value[p] = ts_tensor_value(t, n_codes > 0 ? block.code[0][p] : 0,
                                   n_codes > 1 ? block.code[1][p] : 0);
    *n = block.n;
    return 0;
}

/* ---- visiting all nonzeros ---- */

struct walk_all {
    const struct ts_walk *walk;
    ts_walk_fn *fn;
    void *ctx;
    const volatile sig_atomic_t *stop;
    uint64_t next; /* the next shard that no thread has begun; atomic */
    int rc;        /* code of the first failure; atomic */
    struct ts_err err;
    pthread_mutex_t lock; /* protects err */
};

static int failed(const struct walk_all *a)
{
    return __atomic_load_n(&a->rc, __ATOMIC_RELAXED) != 0;
}

static void note_failure(struct walk_all *a, int rc, const struct ts_err *err)
{
    pthread_mutex_lock(&a->lock);
    if (!failed(a)) {
        a->err = *err;
        __atomic_store_n(&a->rc, rc, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&a->lock);
}

static int walk_partition(const struct walk_all *a, uint64_t shard, const void *raw, uint32_t first,
                          uint32_t end, uint64_t *index, double *value, struct ts_err *err)
{
    uint64_t held = 0;
    int rc = 0;
    for (uint32_t b = first; b < end && rc == 0; b++) {
        uint32_t n = 0;
        rc = ts_walk_block(a->walk, shard, raw, b, &n, index + held * a->walk->tensor->order,
                           value + held, err);
        held += n;
    }
    return rc == 0 ? a->fn(a->ctx, (uint32_t)omp_get_thread_num(), held, index, value, err) : rc;
}

static int walk_shard(const struct walk_all *a, uint64_t shard, void *raw, uint64_t *index,
                      double *value, struct ts_err *err)
{
    const struct ts_walk *w = a->walk;
    const uint32_t n_blocks = w->tensor->mode[w->mode].shard[shard].n_blocks;
    int rc = ts_walk_read(w, shard, raw, err);
    for (uint32_t b = 0; b < n_blocks && rc == 0 && !failed(a); b += TS_PARTITION_BLOCKS) {
        const uint32_t left = n_blocks - b;
        rc = ts_stop_check(a->stop, err);
        if (rc == 0)
            rc = walk_partition(a, shard, raw, b,
                                b + (left < TS_PARTITION_BLOCKS ? left : TS_PARTITION_BLOCKS),
                                index, value, err);
    }
    return rc;
}

/* Visits the nonzeros of one shard after another until none is left. Every thread runs this
 * function. */
static void walk_shards(struct walk_all *a)
{
    const struct ts_tensor *t = a->walk->tensor;
    const uint64_t n_shards = t->mode[a->walk->mode].disk.n_shards;
    void *raw = aligned_alloc(TS_PAGE, ts_tensor_raw_bytes(t));
    uint64_t *index = malloc(TS_PARTITION_NNZ * (size_t)t->order * sizeof *index);
    double *value = malloc(TS_PARTITION_NNZ * sizeof *value);
    struct ts_err err = { 0 };
    int rc = raw == NULL || index == NULL || value == NULL
                 ? ts_fail(&err, TS_ENOMEM, "%s: no memory for a shard", t->path)
                 : 0;
    while (rc == 0 && !failed(a)) {
        const uint64_t shard = __atomic_fetch_add(&a->next, 1, __ATOMIC_RELAXED);
        if (shard >= n_shards)
            break;
        if (!a->walk->here || ts_part_has(t, a->walk->mode, shard))
            rc = walk_shard(a, shard, raw, index, value, &err);
    }
    if (rc < 0)
        note_failure(a, rc, &err);
    free(raw);
    free(index);
    free(value);
}

int ts_walk_all(const struct ts_walk *w, uint32_t threads, ts_walk_fn *fn, void *ctx,
                const volatile sig_atomic_t *stop, struct ts_err *err)
{
    struct walk_all a = { .walk = w, .fn = fn, .ctx = ctx, .stop = stop };
    pthread_mutex_init(&a.lock, NULL);
#pragma omp parallel num_threads(threads)
    walk_shards(&a);
    pthread_mutex_destroy(&a.lock);
    if (a.rc < 0 && err != NULL)
        *err = a.err;
    return a.rc;
}
