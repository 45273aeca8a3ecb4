/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads shards of a tensor with several threads, and puts the picked nonzeros into the sink in any
 * order. */
#include "source/tensor_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "format/tensor_kind.h"
#include "format/blocks/block_codec.h"
#include "format/row_names.h"
#include "source/source_threads.h"

/* number of nonzeros after which a batch goes to the sink; a batch has space for one more block */
#define BATCH TS_PARTITION_NNZ

struct worker {
    struct ts_source_thread thread;
    struct ts_tensor_source *source;
    uint32_t number;
    struct ts_batch batch;
    struct ts_block block;
    void *raw;
};

struct ts_tensor_source {
    struct ts_tensor_source_conf conf;
    struct ts_row_names *names;
    struct ts_sink to;
    uint32_t order; /* number of modes that are not left out */
    uint64_t next;  /* number of the next shard; atomic */
    uint64_t done;  /* number of nonzeros read so far; atomic */
    struct worker *worker;
};

static uint32_t order_of(const struct ts_tensor_source_conf *conf)
{
    uint32_t order = 0;
    for (uint32_t m = 0; m < conf->tensor->order; m++)
        order += (conf->pick->left_out >> m & 1) == 0;
    return order;
}

static struct ts_row_names_conf names_of(const struct ts_tensor_source_conf *conf)
{
    return (struct ts_row_names_conf){
        .tensor = conf->tensor, .threads = conf->threads, .tmp = conf->tmp, .stop = conf->stop
    };
}

static uint64_t thread_bytes(const struct ts_tensor_source_conf *conf)
{
    return sizeof(struct worker) + ts_tensor_raw_bytes(conf->tensor) +
           (BATCH + TS_BLOCK_NNZ) * (order_of(conf) + UINT64_C(1)) * sizeof(uint64_t);
}

uint64_t ts_tensor_source_least(const struct ts_tensor_source_conf *conf)
{
    const struct ts_row_names_conf names = names_of(conf);
    return ts_pick_bytes(conf->pick, conf->tensor) + conf->threads * thread_bytes(conf) +
           ts_row_names_least(&names);
}

uint64_t ts_tensor_source_most(const struct ts_tensor_source_conf *conf)
{
    const struct ts_row_names_conf names = names_of(conf);
    return ts_tensor_source_least(conf) - ts_row_names_least(&names) + ts_row_names_most(&names);
}

int ts_tensor_source_new(const struct ts_tensor_source_conf *conf, struct ts_tensor_source **ret,
                         struct ts_err *err)
{
    struct ts_tensor_source *s = calloc(1, sizeof *s);
    struct ts_row_names_conf names = names_of(conf);
    int rc = ts_tensor_is_sparse(conf->tensor, "a copy of its nonzeros is", err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    if (s == NULL || (s->worker = calloc(conf->threads, sizeof *s->worker)) == NULL) {
        free(s);
        return ts_no_memory(err, conf->tensor->path);
    }
    s->conf = *conf;
    s->order = order_of(conf);
    names.bytes = ts_row_names_least(&names);
    if (conf->bytes > ts_tensor_source_least(conf))
        names.bytes += conf->bytes - ts_tensor_source_least(conf);
    rc = ts_row_names_open(&names, &s->names, err);
    for (uint32_t i = 0; i < conf->threads && rc == 0; i++) {
        struct worker *w = &s->worker[i];
        w->source = s;
        w->number = i;
        w->raw = aligned_alloc(TS_PAGE, ts_tensor_raw_bytes(conf->tensor));
        rc = w->raw == NULL
                 ? ts_fail(err, TS_ENOMEM, "%s: no memory for a shard", conf->tensor->path)
                 : ts_batch_new(s->order, BATCH + TS_BLOCK_NNZ, &w->batch, err);
    }
    if (rc == 0)
        *ret = s;
    else
        ts_tensor_source_free(s);
    return rc;
}

/* ------------------------------------------------------------------ the reading threads */

static int is_picked(const struct ts_tensor_source *s, const uint32_t *const row[], uint32_t i)
{
    const struct ts_pick *p = s->conf.pick;
    uint64_t hash = ts_hold_out_begin(&p->hold_out);
    for (uint32_t m = 0; m < s->conf.tensor->order; m++) {
        const uint64_t r = row[m][i];
        if (p->rows[m] != NULL && (p->rows[m][r / 8] >> r % 8 & 1) == 0)
            return 0;
        hash = ts_hold_out_add(hash, r);
    }
    return p->side == TS_PICK_ALL ||
           ts_hold_out_held(&p->hold_out, hash) == (p->side == TS_PICK_HELD);
}

static int take_block(struct worker *w, struct ts_err *err)
{
    const struct ts_tensor_source *s = w->source;
    const struct ts_tensor *t = s->conf.tensor;
    const uint32_t n_codes = ts_header_codes(&t->header);
    const uint32_t *row[TS_MAX_ORDER];
    struct ts_batch *to = &w->batch;
    int rc = 0;
    for (uint32_t l = 0; l < t->order; l++)
        row[t->mode[0].disk.level[l]] = w->block.level[l];
    for (uint32_t i = 0; i < w->block.n && rc == 0; i++) {
        uint64_t *index = to->index + to->n * s->order;
        if (!is_picked(s, row, i))
            continue;
        for (uint32_t m = 0, k = 0; m < t->order && rc == 0; m++) {
            if ((s->conf.pick->left_out >> m & 1) != 0)
                continue;
            rc = ts_row_index(s->names, w->number, m, row[m][i], &index[k], err);
            if (index[k] > to->max[k])
                to->max[k] = index[k];
            k++;
        }
        to->n_read++;
        to->value[to->n] = ts_value_keep(ts_tensor_value(t, n_codes > 0 ? w->block.code[0][i] : 0,
                                                         n_codes > 1 ? w->block.code[1][i] : 0),
                                         t->header.value_bytes, &to->n_rounded);
        if (to->value[to->n] == 0 && (t->header.flags & TS_TENSOR_ZEROS) == 0) {
            to->n_zeros++; /* an older version of the program kept this zero in the tensor */
            continue;
        }
        if (ts_tensor_weighted(t))
            to->value[to->n] = ts_weighted_bits(
                to->value[to->n],
                ts_weight_keep(ts_weight_of_code(w->block.code[1][i]), &to->n_rounded));
        to->n++;
    }
    return rc;
}

/* Reads a shard and puts its picked nonzeros into the sink. Sets *end to 1 if the sink takes no
 * more. */
static int take_shard(struct worker *w, uint64_t shard, int *end, struct ts_err *err)
{
    struct ts_tensor_source *s = w->source;
    const struct ts_tensor *t = s->conf.tensor;
    const uint32_t n_blocks = t->mode[0].shard[shard].n_blocks;
    int rc = ts_tensor_read_shard(t, 0, shard, w->raw, err);
    ts_batch_clear(&w->batch);
    for (uint32_t b = 0; b < n_blocks && rc == 0 && !*end; b++) {
        rc = ts_tensor_block(t, 0, shard, w->raw, b, &w->block, err);
        if (rc == 0)
            rc = take_block(w, err);
        if (rc < 0 || (w->batch.n < BATCH && b + 1 < n_blocks))
            continue;
        rc = ts_stop_check(s->conf.stop, err);
        *end = w->batch.n > 0 && s->to.put(s->to.self, TS_SINK_ANY, &w->batch) < 0;
        ts_batch_clear(&w->batch);
    }
    __atomic_fetch_add(&s->done, t->mode[0].shard[shard].nnz, __ATOMIC_RELAXED);
    return rc;
}

static void *read_shards(void *arg)
{
    struct worker *w = arg;
    struct ts_tensor_source *s = w->source;
    struct ts_err err = { 0 };
    int rc = 0, end = 0;
    while (rc == 0 && !end) {
        const uint64_t shard = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
        if (shard >= s->conf.tensor->mode[0].disk.n_shards)
            break;
        rc = take_shard(w, shard, &end, &err);
        if (rc < 0)
            /* TS_SINK_ANY, because batches of this source have no numbers */
            s->to.fail(s->to.self, TS_SINK_ANY, &err, NULL, 0, 0);
    }
    s->to.done(s->to.self);
    return NULL;
}

static int start(void *self, const struct ts_sink *to, struct ts_err *err)
{
    struct ts_tensor_source *s = self;
    int n;
    s->to = *to;
    n = ts_source_threads_start(s->worker, sizeof *s->worker, s->conf.threads, read_shards, to,
                                err);
    return n < 0 ? n : 0;
}

static void stop(void *self)
{
    struct ts_tensor_source *s = self;
    ts_source_threads_stop(s->worker, sizeof *s->worker, s->conf.threads);
}

void ts_tensor_source_free(struct ts_tensor_source *s)
{
    if (s == NULL)
        return;
    stop(s);
    for (uint32_t i = 0; i < s->conf.threads; i++) {
        ts_batch_free(&s->worker[i].batch);
        free(s->worker[i].raw);
    }
    ts_row_names_close(s->names);
    free(s->worker);
    free(s);
}

static void progress(const void *self, uint64_t *done, uint64_t *total)
{
    const struct ts_tensor_source *s = self;
    *total = s->conf.tensor->nnz;
    *done = __atomic_load_n(&s->done, __ATOMIC_RELAXED);
}

struct ts_source ts_tensor_source_as_source(struct ts_tensor_source *s)
{
    return (struct ts_source){
        .self = s,
        .unit = "nonzeros",
        .threads = s->conf.threads,
        .start = start,
        .stop = stop,
        .progress = progress,
    };
}
