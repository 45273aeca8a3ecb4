/* SPDX-License-Identifier: BSD-3-Clause */
/* Lends shards from memory in a shuffled order. */
#include "tests/stream/memfeed.h"

#include <pthread.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/run_suite.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t dict_code(struct ts_tensor *t, double value)
{
    for (uint32_t i = 0; i < t->header.n_dict; i++)
        if (t->dict[i] == value)
            return i;
    if (t->header.n_dict == 4096)
        abort();
    t->dict[t->header.n_dict] = value;
    return t->header.n_dict++;
}

static void fill_codes(struct ts_tensor *t, const struct test_coo *x, uint32_t *code[2])
{
    for (uint64_t i = 0; i < x->nnz; i++) {
        const float f = (float)x->val[i];
        uint64_t bits;
        memcpy(&bits, &x->val[i], 8);
        code[0][i] = 0;
        code[1][i] = (uint32_t)bits;
        if (x->weight != NULL)
            memcpy(&code[1][i], &x->weight[i], 4);
        switch (t->header.value_kind) {
        case TS_VALUE_INT:
            code[0][i] = (uint32_t)(x->val[i] - t->header.value_base);
            break;
        case TS_VALUE_DICT:
            code[0][i] = dict_code(t, x->val[i]);
            break;
        case TS_VALUE_F32:
            memcpy(&code[0][i], &f, 4);
            break;
        case TS_VALUE_F64:
            code[0][i] = (uint32_t)(bits >> 32);
            break;
        }
    }
}

static void pack_mode(struct ts_feed *f, struct test_coo *x, uint32_t mode, uint32_t partitions,
                      uint64_t seed)
{
    struct ts_mode *m = &f->tensor.mode[mode];
    const uint32_t most = partitions * TS_PARTITION_NNZ, order = x->order;
    const uint32_t n_codes = ts_header_codes(&f->tensor.header);
    uint32_t *code[2] = { malloc(4 * x->nnz + 1), malloc(4 * x->nnz + 1) };
    for (uint32_t l = 0; l < order; l++)
        m->disk.level[l] = (uint8_t)((mode + l) % order);
    test_coo_sort(x, m->disk.level);
    fill_codes(&f->tensor, x, code);
    m->disk.dim = m->disk.n_rows = x->dim[mode];
    m->disk.n_shards = (x->nnz + most - 1) / most;
    m->shard = calloc(m->disk.n_shards + 1, sizeof *m->shard);
    f->raw[mode] = calloc(m->disk.n_shards + 1, sizeof(void *));
    f->first_partition[mode] = calloc(m->disk.n_shards + 1, sizeof(uint64_t));
    f->turn[mode] = calloc(m->disk.n_shards + 1, sizeof(uint64_t));
    for (uint64_t s = 0; s < m->disk.n_shards; s++) {
        const uint64_t first = s * most, left = x->nnz - first,
                       j = seed == 0 ? s : ts_mix(seed + s) % (s + 1);
        const uint32_t nnz = left < most ? (uint32_t)left : most;
        const uint32_t *column[TS_MAX_ORDER], *part[2] = { code[0] + first, code[1] + first };
        const size_t bound = ts_shard_bound(order, n_codes, nnz);
        for (uint32_t l = 0; l < order; l++)
            column[l] = x->idx[m->disk.level[l]] + first;
        f->raw[mode][s] = aligned_alloc(64, (bound + TS_SHARD_SLACK + 63) / 64 * 64);
        ts_shard_pack(order, n_codes, nnz, column, part, f->raw[mode][s], &m->shard[s]);
        f->first_partition[mode][s] = s * partitions;
        f->turn[mode][s] = f->turn[mode][j];
        f->turn[mode][j] = s;
    }
    free(code[0]);
    free(code[1]);
}

struct ts_feed *memfeed_new(struct test_coo *x, uint32_t kind, uint32_t shard_partitions,
                            uint64_t seed)
{
    struct ts_feed *f = calloc(1, sizeof *f);
    f->tensor.path = "test.tsh";
    f->tensor.order = f->tensor.header.order = x->order;
    f->tensor.nnz = f->tensor.header.nnz = x->nnz;
    f->tensor.header.value_kind = kind;
    f->tensor.header.flags = x->weight != NULL ? TS_TENSOR_WEIGHTS : 0;
    f->tensor.header.value_base = kind == TS_VALUE_INT || kind == TS_VALUE_CONST ? x->val[0] : 0;
    for (uint64_t i = 0; i < x->nnz && kind == TS_VALUE_INT; i++)
        if (x->val[i] < f->tensor.header.value_base)
            f->tensor.header.value_base = x->val[i];
    f->tensor.header.value_min = f->tensor.header.value_max = x->val[0];
    for (uint64_t i = 0; i < x->nnz; i++) {
        f->tensor.header.value_min = fmin(f->tensor.header.value_min, x->val[i]);
        f->tensor.header.value_max = fmax(f->tensor.header.value_max, x->val[i]);
    }
    f->tensor.dict = calloc(4096, sizeof(double));
    for (uint32_t m = 0; m < x->order; m++)
        pack_mode(f, x, m, shard_partitions, seed);
    return f;
}

void memfeed_free(struct ts_feed *f)
{
    for (uint32_t m = 0; m < f->tensor.order; m++) {
        for (uint64_t s = 0; s < f->tensor.mode[m].disk.n_shards; s++)
            free(f->raw[m][s]);
        free(f->raw[m]);
        free(f->first_partition[m]);
        free(f->turn[m]);
        free(f->tensor.mode[m].shard);
    }
    free(f->tensor.dict);
    free(f);
}

int ts_feed_next(struct ts_feed *f, uint32_t mode, uint32_t consumer, struct ts_shard_view *ret,
                 struct ts_err *err)
{
    int rc = 0;
    (void)consumer;
    (void)err;
    pthread_mutex_lock(&lock);
    if (f->given < f->tensor.mode[mode].disk.n_shards) {
        ret->mode = mode;
        ret->shard = f->turn[mode][f->given++];
        ret->first_partition = f->first_partition[mode][ret->shard];
        ret->entry = &f->tensor.mode[mode].shard[ret->shard];
        ret->raw = f->raw[mode][ret->shard];
        ret->lease = f;
        rc = 1;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void ts_feed_done(struct ts_feed *f, const struct ts_shard_view *view)
{
    pthread_mutex_lock(&lock);
    if (view->lease != f)
        abort();
    f->given_back++;
    pthread_mutex_unlock(&lock);
}

void ts_feed_rewind(struct ts_feed *f)
{
    f->given = f->given_back = 0;
}

void memfeed_factors_new(const struct test_coo *x, uint32_t rank, enum ts_precision precision,
                         double (*entry)(double u), double **factor)
{
    for (uint32_t m = 0; m < x->order; m++) {
        factor[m] = malloc(x->dim[m] * rank * sizeof(double));
        for (uint64_t i = 0; i < x->dim[m] * rank; i++) {
            const double u = ts_init_entry(3, m, i / rank, (uint32_t)(i % rank));
            const double v = entry != NULL ? entry(u) : u;
            factor[m][i] = precision == TS_FLOAT32 ? (float)v : v;
        }
    }
}

void memfeed_factors_free(const struct test_coo *x, double **factor)
{
    for (uint32_t m = 0; m < x->order; m++)
        free(factor[m]);
}

void *memfeed_backend_new(const struct ts_backend *backend, struct ts_backend_conf *conf,
                          const struct ts_feed *f, uint32_t spare, double **factor)
{
    struct ts_err err;
    void *be;
    conf->tensor = &f->tensor;
    conf->only_mode = -1;
    conf->spare_bytes = spare > 0 ? backend->wish(conf) * spare / 4 : 0;
    ck_assert_msg(backend->open(conf, &be, &err) == 0, "%s", err.text);
    if (conf->own_rows != 0)
        ck_assert_int_eq(backend->own_rows(be, conf->own_rows, &err), 0);
    for (uint32_t m = 0; m < f->tensor.order; m++)
        ck_assert_int_eq(
            backend->put_rows(be, m, 0, f->tensor.mode[m].disk.n_rows, factor[m], &err), 0);
    return be;
}
