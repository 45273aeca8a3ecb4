/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and stores plain (decoded) blocks, and computes their size. */
#include "cpu/sparse/plain.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "cpu/sparse/kernel.h"
#include "format/tensor_kind.h"
#include "format/blocks/unpack_parse.h"

/* bytes after the last block, because arrays are read in whole vectors */
#define SLACK ((uint64_t)TS_BLOCK_NNZ * sizeof(double))
#define GAP   32u /* bytes after each partition that may be read, but not used */

typedef _Atomic(const char *) place;

struct ts_plain {
    const struct ts_tensor *tensor;
    char *memory;
    uint64_t bytes;           /* bytes for decoded blocks, without the slack after the last one */
    _Atomic uint64_t used;    /* bytes in use; above `bytes`: the store is full */
    place *of[TS_MAX_ORDER];  /* for each mode: address of each partition's blocks; or NULL */
    int passed[TS_MAX_ORDER]; /* 1: a pass over the mode has begun */
};

static uint32_t index_bytes(uint64_t n_rows)
{
    return n_rows <= 1u << 8 ? 1 : n_rows <= 1u << 16 ? 2 : 4;
}

static enum ts_plain_value value_of(const struct ts_tensor *t)
{
    const struct ts_disk_header *h = &t->header;
    struct ts_unpack_conf conf;
    double range;
    switch (h->value_kind) {
    case TS_VALUE_CONST:
        return TS_PLAIN_CONST;
    case TS_VALUE_F32:
        return TS_PLAIN_F32;
    case TS_VALUE_INT:
        ts_kernel_values(t, TS_FLOAT32, &conf);
        range = h->value_max - h->value_base;
        return !conf.small       ? TS_PLAIN_F64
               : range < 256.0   ? TS_PLAIN_U8
               : range < 65536.0 ? TS_PLAIN_U16
                                 : TS_PLAIN_F32;
    case TS_VALUE_DICT:
        /* float32 serves only if all values are exact in it, and none is denormal there */
        for (uint32_t i = 0; i < h->n_dict; i++)
            if ((double)(float)t->dict[i] != t->dict[i] ||
                (t->dict[i] != 0 && fabs(t->dict[i]) < FLT_MIN))
                return TS_PLAIN_F64;
        return TS_PLAIN_F32;
    default:
        return TS_PLAIN_F64;
    }
}

static uint32_t value_bytes(enum ts_plain_value value)
{
    static const uint32_t bytes[] = { 0, 1, 2, 4, 8 };
    return bytes[value];
}

static uint32_t weight_bytes(const struct ts_plain_conf *c)
{
    return c->weights ? sizeof(float) : 0;
}

void ts_plain_conf(const struct ts_tensor *t, uint32_t mode, int as_double,
                   struct ts_plain_conf *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->order = t->order;
    ret->value = value_of(t);
    ret->value_base = t->header.value_base;
    ret->weights = ts_tensor_weighted(t);
    ret->as_double = as_double;
    ret->index_bytes[0] = 1;
    for (uint32_t l = 1; l < t->order; l++)
        ret->index_bytes[l] = index_bytes(t->mode[t->mode[mode].disk.level[l]].disk.n_rows);
}

/* Returns the most bytes of a nonzero in a plain (decoded) block: one that starts a row, and whose
 * fibre is not shared. */
static uint64_t most_bytes(const struct ts_plain_conf *c)
{
    uint64_t sum = 1 + value_bytes(c->value) + weight_bytes(c);
    for (uint32_t l = 1; l < c->order; l++)
        sum += c->index_bytes[l];
    return sum;
}

uint64_t ts_plain_own_bytes(const struct ts_tensor *t)
{
    uint64_t n = 0;
    for (uint32_t m = 0; m < t->order; m++)
        n += ts_tensor_partitions(t, m) + 1;
    return sizeof(struct ts_plain) + n * sizeof(place) + ts_bigmem_cost(SLACK);
}

uint64_t ts_plain_bytes_of(const struct ts_tensor *t, uint32_t mode, uint64_t begin, uint64_t end)
{
    const uint64_t most_nnz = TS_PARTITION_BLOCKS * (uint64_t)TS_BLOCK_NNZ;
    struct ts_plain_conf c;
    uint64_t first = 0, sum = 0;
    ts_plain_conf(t, mode, 0, &c);
    for (uint64_t i = 0; i < t->mode[mode].disk.n_shards; i++) {
        const struct ts_disk_shard *s = &t->mode[mode].shard[i];
        const uint64_t behind = first + ts_shard_partitions(s);
        const uint64_t from = begin > first ? begin : first, to = end < behind ? end : behind;
        /* only the last partition of a shard is short */
        const uint64_t n = from < to ? to - from : 0;
        sum += (n * most_nnz < s->nnz ? n * most_nnz : s->nnz) * most_bytes(&c) * (n > 0) +
               (n * TS_PARTITION_BLOCKS < s->n_blocks ? n * TS_PARTITION_BLOCKS : s->n_blocks) *
                   sizeof(struct ts_plain_head) * (n > 0) +
               n * GAP;
        first = behind;
    }
    return sum;
}

uint64_t ts_plain_bytes(const struct ts_tensor *t, int only_mode)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < t->order; m++)
        if (only_mode < 0 || m == (uint32_t)only_mode)
            sum += ts_plain_bytes_of(t, m, 0, UINT64_MAX);
    return sum;
}

int ts_plain_new(const struct ts_tensor *t, uint64_t bytes, struct ts_plain **ret,
                 struct ts_err *err)
{
    struct ts_plain *p = calloc(1, sizeof *p);
    int rc = 0;
    if (p == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    p->tensor = t;
    p->bytes = bytes;
    for (uint32_t m = 0; rc == 0 && m < t->order; m++) {
        p->of[m] = calloc(ts_tensor_partitions(t, m) + 1, sizeof *p->of[m]);
        if (p->of[m] == NULL)
            rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    }
    if (rc == 0)
        rc = ts_bigmem_new(bytes + SLACK, "decoded blocks", (void **)&p->memory, err);
    if (rc < 0) {
        ts_plain_free(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void ts_plain_free(struct ts_plain *p)
{
    if (p == NULL)
        return;
    if (p->memory != NULL)
        ts_bigmem_free(p->memory, p->bytes + SLACK);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) /* not t->order: the tensor may be closed by now */
        free(p->of[m]);
    free(p);
}

const void *ts_plain_get(const struct ts_plain *p, uint32_t mode, uint64_t partition)
{
    return atomic_load_explicit(&p->of[mode][partition], memory_order_acquire);
}

const void *ts_plain_next(const struct ts_plain_conf *c, const void *plain)
{
    const uint32_t leaf = c->order - 1;
    struct ts_plain_head head;
    uint32_t n, each;
    memcpy(&head, plain, sizeof head);
    n = head.last + 1u;
    each = c->index_bytes[leaf] + value_bytes(c->value) + weight_bytes(c) + (head.shared ? 1 : 0);
    for (uint32_t l = 1; l < leaf; l++)
        if (!head.shared)
            each += c->index_bytes[l];
    plain = (const char *)plain + sizeof head + head.n_starts + (size_t)n * each;
    for (uint32_t l = 1; l < leaf && head.shared; l++)
        plain = (const char *)plain + (head.last_fibre + 1u) * (size_t)c->index_bytes[l];
    return plain;
}

/* ---- making plain (decoded) blocks ---- */

static uint64_t block_bytes(const struct ts_plain_conf *c, const struct ts_unpack_conf *u,
                            const struct ts_block_at *at)
{
    const uint32_t leaf = c->order - 1;
    uint64_t n_fibres, sum;
    struct parse parts;
    int shared;
    parse_block(u, at, &parts);
    n_fibres = parts.n_set[leaf - 1];
    shared = ts_unpack_shares(c->order, at->nnz, (uint32_t)n_fibres);
    sum = sizeof(struct ts_plain_head) + parts.n_set[0] - 1;
    for (uint32_t l = 1; l <= leaf; l++)
        sum += (shared && l < leaf ? n_fibres : at->nnz) * c->index_bytes[l];
    return sum + (uint64_t)at->nnz * (value_bytes(c->value) + weight_bytes(c) + (shared ? 1 : 0));
}

static char *put_indices(char *to, const uint32_t *index, uint32_t n, uint32_t bytes)
{
    if (bytes == 1)
        for (uint32_t i = 0; i < n; i++)
            to[i] = (char)index[i];
    else if (bytes == 2)
        for (uint32_t i = 0; i < n; i++) {
            const uint16_t two = (uint16_t)index[i];
            memcpy(to + 2 * i, &two, sizeof two);
        }
    else
        memcpy(to, index, n * sizeof *index);
    return to + (size_t)n * bytes;
}

/* Writes the values to `to`, and returns the end. NULL: a value is outside of the range in the
 * tensor's header. */
static char *put_values(char *to, const struct ts_plain_conf *c, const struct ts_unpacked *b)
{
    const uint32_t bytes = value_bytes(c->value);
    const double most = c->value == TS_PLAIN_U8    ? UINT8_MAX
                        : c->value == TS_PLAIN_U16 ? UINT16_MAX
                                                   : INFINITY;
    for (uint32_t i = 0; i < b->n; i++, to += bytes) {
        const double v = b->value.d[i], off = v - c->value_base;
        const float f = (float)v;
        const uint16_t whole = off >= 0 && off <= UINT16_MAX ? (uint16_t)off : 0;
        const uint8_t byte = (uint8_t)whole;
        if (off > most)
            return NULL;
        switch (c->value) {
        case TS_PLAIN_CONST:
            break;
        case TS_PLAIN_U8:
            memcpy(to, &byte, sizeof byte);
            break;
        case TS_PLAIN_U16:
            memcpy(to, &whole, sizeof whole);
            break;
        case TS_PLAIN_F32:
            memcpy(to, &f, sizeof f);
            break;
        case TS_PLAIN_F64:
            memcpy(to, &v, sizeof v);
            break;
        }
    }
    return to;
}

static char *put_block(char *to, const struct ts_plain_conf *c, const struct ts_unpacked *b)
{
    const uint32_t leaf = c->order - 1;
    const struct ts_plain_head head = {
        .row = b->row,
        .last = (uint8_t)(b->n - 1),
        .n_starts = (uint8_t)b->n_starts,
        .last_fibre = (uint8_t)(b->shared ? b->n_fibres - 1 : 0),
        .shared = (uint8_t)b->shared,
    };
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    for (uint32_t s = 0; s < b->n_starts; s++)
        *to++ = (char)b->start[s];
    for (uint32_t l = 1; l <= leaf; l++)
        to = put_indices(to, b->idx[l], b->shared && l < leaf ? b->n_fibres : b->n,
                         c->index_bytes[l]);
    if (b->shared)
        to = put_indices(to, b->idx[0], b->n, 1);
    to = put_values(to, c, b);
    if (to == NULL || !c->weights)
        return to;
    memcpy(to, b->weight, b->n * sizeof *b->weight);
    return to + b->n * sizeof *b->weight;
}

/* Takes `bytes` from the store; NULL if it is full. */
static char *reserve(struct ts_plain *p, uint64_t bytes)
{
    uint64_t at = atomic_load(&p->used);
    do {
        if (bytes > p->bytes - at)
            return NULL;
    } while (!atomic_compare_exchange_weak(&p->used, &at, at + bytes));
    return p->memory + at;
}

const void *ts_plain_add(struct ts_plain *p, uint32_t mode, uint64_t partition,
                         const struct ts_disk_shard *entry, const void *raw, uint32_t k,
                         ts_unpack_fn *unpack, struct ts_unpacked *buffer)
{
    const uint32_t first = k * TS_PARTITION_BLOCKS, left = entry->n_blocks - first;
    const uint32_t end = first + (left < TS_PARTITION_BLOCKS ? left : TS_PARTITION_BLOCKS);
    struct ts_unpack_conf u;
    struct ts_plain_conf c;
    uint64_t bytes = 0;
    char *start, *to;
    ts_kernel_values(p->tensor, TS_FLOAT64, &u);
    ts_plain_conf(p->tensor, mode, 1, &c);
    for (uint32_t b = first; b < end; b++) {
        const struct ts_block_at at = ts_shard_block(entry, raw, b);
        bytes += block_bytes(&c, &u, &at);
    }
    start = to = reserve(p, bytes + GAP);
    for (uint32_t b = first; to != NULL && b < end; b++) {
        const struct ts_block_at at = ts_shard_block(entry, raw, b);
        unpack(&u, &at, buffer);
        to = put_block(to, &c, buffer);
    }
    if (to != NULL)
        atomic_store_explicit(&p->of[mode][partition], start, memory_order_release);
    return to != NULL ? start : NULL;
}

int ts_plain_keeps(struct ts_plain *p, uint32_t mode)
{
    const int keeps = p != NULL && p->passed[mode];
    if (p != NULL)
        p->passed[mode] = 1;
    return keeps;
}

const void *ts_plain_of(struct ts_plain *p, int keep, const struct ts_shard_view *view, uint32_t k,
                        ts_unpack_fn *unpack, struct ts_unpacked *buffer)
{
    const uint64_t at = view->first_partition + k;
    const void *plain = p == NULL ? NULL : ts_plain_get(p, view->mode, at);
    return plain != NULL || !keep
               ? plain
               : ts_plain_add(p, view->mode, at, view->entry, view->raw, k, unpack, buffer);
}
