/* SPDX-License-Identifier: BSD-3-Clause */
/* Packs partitions of the sorted nonzeros with several threads, which may finish in any order.
 * Packed partitions are added to shards in the order of their numbers. */
#include "build/write/mode_writer.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "format/blocks/block_codec.h"
#include "build/ranks/partition_deal.h"
#include "build/write/shard_writer.h"

#define PARTITION_WORDS (TS_PARTITION_BLOCKS * TS_BLOCK_MAX_WORDS)

/* For each thread, how many packed partitions may wait for one with a lower number. If a thread is
 * slow, the other threads can pack this many partitions before they must wait. */
#define PARKED 4u
/* memory for partitions of a thread: the waiting ones, and the one being packed, which is in `word`
 * and in its copy */
#define PARTITIONS_OF_A_THREAD (PARKED + 2u)

struct ts_mode_writer {
    struct ts_mode_writer_plan plan;
    uint32_t n_codes;
    uint64_t *carry; /* records of an incomplete partition */
    uint32_t n_carry;
    uint32_t **word; /* buffer of PARTITION_WORDS for each thread, to pack into */

    /* members for add_partitions */
    pthread_mutex_t lock;
    /* signalled when partitions were added to shards (`turn` grows), and after a failure */
    pthread_cond_t moved;
    /* numbers of partitions: given to threads so far, added to shards so far, and in all of this
     * call */
    uint64_t next, turn, all;
    struct ts_partition_pool *pool;
    /* packed partitions that wait for one with a lower number; partition k is at k % n_parked */
    struct ts_packed_partition **parked;
    uint32_t n_parked;
    int rc;
    struct ts_err err;

    struct ts_shard_draft draft; /* the shard that partitions are added to */
    struct ts_shard_writer *shards;

    /* with several ranks: exchanges partitions between the ranks; NULL: one process */
    struct ts_partition_deal *deal;

    struct ts_slice_count slices;
};

/* ------------------------------------------------------------------ packing partitions */

/* Unpacks n records into columns of rows for each mode, and of codes of the values. */
static void unpack_columns(const struct ts_mode_writer *w, const uint64_t *rec, uint32_t n,
                           uint32_t column[][TS_BLOCK_NNZ], uint32_t code[2][TS_BLOCK_NNZ])
{
    const struct ts_record_layout *l = &w->plan.layout;
    const uint32_t order = w->plan.order;
    uint64_t wide[TS_BLOCK_NNZ];
    for (uint32_t f = 0; f < order; f++) {
        if (l->words == 1) { /* in records of one word, two shifts extract a field */
            const uint32_t left = l->start[f], right = 64 - l->width[f];
            for (uint32_t i = 0; i < n; i++)
                column[f][i] = right == 64 ? 0 : (uint32_t)(rec[i] << left >> right);
            continue;
        }
        ts_record_column(l, rec, n, f, wide);
        for (uint32_t i = 0; i < n; i++)
            column[f][i] = (uint32_t)wide[i];
    }
    if (w->n_codes == 0)
        return;
    ts_record_column(l, rec, n, order, wide);
    for (uint32_t i = 0; i < n; i++) {
        code[0][i] = w->n_codes == 2 ? (uint32_t)(wide[i] >> 32) : (uint32_t)wide[i];
        code[1][i] = (uint32_t)wide[i];
    }
}

static double sum_squares(const struct ts_mode_writer *w, const uint64_t *rec, uint32_t n)
{
    const struct ts_record_layout *l = &w->plan.layout;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t x = ts_record_get(l, rec + (size_t)i * l->words, w->plan.order);
        const double v = ts_value_code_value(w->plan.code, w->plan.weights ? x >> 32 : x);
        sum += v * v;
    }
    return sum;
}

/* Counts the nonzeros of each row of a partition. row: the rows of its next block. *row_nnz: the
 * number of nonzeros so far of the last row. */
static void count_rows(struct ts_packed_partition *s, const uint32_t *row, uint32_t n,
                       uint32_t *row_nnz)
{
    /* the usual case: all nonzeros of the block are in the last row */
    if (s->nnz > 0 && row[n - 1] == s->row_last) {
        *row_nnz += n;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (s->nnz + i > 0 && row[i] != s->row_last) {
            s->first_row_nnz = s->first_row_nnz == 0 ? *row_nnz : s->first_row_nnz;
            s->largest_row_nnz = *row_nnz > s->largest_row_nnz ? *row_nnz : s->largest_row_nnz;
            *row_nnz = 0;
        }
        s->row_last = row[i];
        ++*row_nnz;
    }
}

/* Returns memory for a packed partition, or NULL. With several ranks, takes spare memory if there
 * is enough. */
static struct ts_packed_partition *new_partition(const struct ts_mode_writer *w, uint32_t n_words)
{
    struct ts_packed_partition *p =
        w->deal == NULL ? NULL : ts_partition_deal_room(w->deal, n_words);
    return p != NULL ? p : ts_partition_pool_get(w->pool, n_words);
}

/* Packs nnz records as one partition into `word`, a buffer of the thread. Returns a copy that has
 * only the size of the partition, or NULL if there is no memory. */
static struct ts_packed_partition *pack_partition(const struct ts_mode_writer *w,
                                                  const uint64_t *rec, uint32_t nnz, uint32_t *word)
{
    const uint32_t words = w->plan.layout.words, order = w->plan.order;
    uint32_t column[TS_MAX_ORDER][TS_BLOCK_NNZ], code[2][TS_BLOCK_NNZ], row_nnz = 0;
    const uint32_t *level[TS_MAX_ORDER], *codes[2] = { code[0], code[1] };
    struct ts_packed_partition s = { 0 }, *ret;
    for (uint32_t l = 0; l < order; l++)
        level[l] = column[l];
    while (s.nnz < nnz) {
        const uint32_t left = nnz - s.nnz, n = left < TS_BLOCK_NNZ ? left : TS_BLOCK_NNZ;
        const uint64_t *first = rec + (size_t)s.nnz * words;
        unpack_columns(w, first, n, column, code);
        if (s.nnz == 0)
            s.row_first = column[0][0];
        count_rows(&s, column[0], n, &row_nnz);
        s.block_at[s.n_blocks] = s.n_words;
        s.block_row[s.n_blocks++] = column[0][0];
        s.n_words += ts_block_encode(order, n, level, w->n_codes, codes, word + s.n_words);
        if (w->plan.want_norm)
            s.sum_of_squares += sum_squares(w, first, n);
        s.nnz += n;
    }
    if (w->plan.work != NULL)
        atomic_fetch_add_explicit(w->plan.work, nnz, memory_order_relaxed);
    s.last_row_nnz = row_nnz;
    s.first_row_nnz = s.first_row_nnz == 0 ? row_nnz : s.first_row_nnz;
    s.largest_row_nnz = row_nnz > s.largest_row_nnz ? row_nnz : s.largest_row_nnz;
    ret = new_partition(w, s.n_words);
    if (ret != NULL) {
        s.room = ret->room;
        *ret = s;
        memcpy(ret->word, word, 4 * (size_t)s.n_words);
    }
    return ret;
}

/* ------------------------------------------------------------------ adding partitions to shards */

/* Adds the next partition to the shard in w->draft. If it does not fit there, passes that shard to
 * the writer, and begins the next one. */
static int join_partition(struct ts_mode_writer *w, struct ts_packed_partition *s,
                          struct ts_err *err)
{
    struct ts_shard_draft *d = &w->draft;
    if (w->deal != NULL) {
        const int rc = ts_partition_deal_add(w->deal, s, err);
        ts_partition_pool_put(w->pool, s);
        return rc;
    }
    if (!ts_shard_draft_joins(d->n_blocks, d->body_words, s->n_blocks, s->n_words,
                              w->plan.shard_bytes)) {
        const int rc = ts_shard_writer_put(w->shards, d, err);
        if (rc < 0) {
            ts_partition_pool_put(w->pool, s);
            return rc;
        }
    }
    /* before the draft gets the partition, since the writer frees it with the shard */
    ts_slice_count_follow(&w->slices, s);
    ts_shard_draft_add(d, s);
    return 0;
}

/* Stores packed partition k. If all partitions before it are in shards, adds it to its shard, and
 * then the stored partitions that follow it. The thread does not wait. */
static void park_partition(struct ts_mode_writer *w, uint64_t k, struct ts_packed_partition *s)
{
    pthread_mutex_lock(&w->lock);
    w->parked[k % w->n_parked] = s;
    if (k == w->turn) {
        struct ts_packed_partition **next;
        while (next = &w->parked[w->turn % w->n_parked], *next != NULL) {
            s = *next;
            *next = NULL;
            w->turn++;
            if (w->rc == 0)
                w->rc = join_partition(w, s, &w->err);
            else
                ts_partition_pool_put(w->pool, s);
        }
        pthread_cond_broadcast(&w->moved);
    }
    pthread_mutex_unlock(&w->lock);
}

/* Returns the number of the next partition to pack, or w->all if there is none. */
static uint64_t take_partition(struct ts_mode_writer *w)
{
    struct ts_err err;
    const int rc = w->deal != NULL ? 0 : ts_shard_writer_make_room(w->shards, &err);
    uint64_t k;
    pthread_mutex_lock(&w->lock);
    if (rc < 0 && w->rc == 0) {
        w->rc = rc;
        w->err = err;
    }
    while (w->rc == 0 && w->next < w->all && w->next - w->turn >= w->n_parked)
        pthread_cond_wait(&w->moved, &w->lock);
    k = w->rc == 0 && w->next < w->all ? w->next++ : w->all;
    if (w->rc < 0)
        pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    return k;
}

static void out_of_memory(struct ts_mode_writer *w)
{
    pthread_mutex_lock(&w->lock);
    if (w->rc == 0)
        w->rc = ts_fail(&w->err, TS_ENOMEM, "%s: out of memory for packing", w->plan.path);
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
}

/* Packs n_partitions whole partitions of records, and a last one of `rest` records if that is not
 * 0. */
static int add_partitions(struct ts_mode_writer *w, const uint64_t *rec, uint64_t n_partitions,
                          uint32_t rest, struct ts_err *err)
{
    const uint64_t stride = (uint64_t)TS_PARTITION_NNZ * w->plan.layout.words;
    w->next = w->turn = 0;
    w->all = n_partitions + (rest > 0);
#pragma omp parallel num_threads(w->plan.threads) if (w->all > 1)
    {
        uint32_t *word = w->word[omp_get_thread_num()];
        for (uint64_t k; k = take_partition(w), k < w->all;) {
            struct ts_packed_partition *s = pack_partition(
                w, rec + k * stride, k < n_partitions ? TS_PARTITION_NNZ : rest, word);
            if (s == NULL)
                out_of_memory(w);
            else
                park_partition(w, k, s);
        }
        /* the threads that packed help to write the shards that still wait */
        if (w->deal == NULL)
            ts_shard_writer_help(w->shards);
    }
    /* after a failure, frees the partitions that still wait */
    for (uint32_t k = 0; k < w->n_parked; k++) {
        ts_partition_pool_put(w->pool, w->parked[k]);
        w->parked[k] = NULL;
    }
    if (w->rc < 0 && err != NULL)
        *err = w->err;
    return w->rc;
}

int ts_mode_writer_add(struct ts_mode_writer *w, const uint64_t *rec, uint64_t n,
                       struct ts_err *err)
{
    const uint32_t words = w->plan.layout.words;
    int rc = 0;
    if (w->n_carry > 0) {
        const uint64_t lack = TS_PARTITION_NNZ - w->n_carry, take = n < lack ? n : lack;
        memcpy(w->carry + (size_t)w->n_carry * words, rec, take * words * sizeof *rec);
        w->n_carry += (uint32_t)take;
        rec += take * words;
        n -= take;
        if (w->n_carry < TS_PARTITION_NNZ)
            return 0;
        w->n_carry = 0;
        rc = add_partitions(w, w->carry, 1, 0, err);
    }
    if (rc == 0)
        rc = add_partitions(w, rec, n / TS_PARTITION_NNZ, 0, err);
    if (rc < 0)
        return rc;
    w->n_carry = (uint32_t)(n % TS_PARTITION_NNZ);
    memcpy(w->carry, rec + n / TS_PARTITION_NNZ * TS_PARTITION_NNZ * words,
           (size_t)w->n_carry * words * sizeof *rec);
    return 0;
}

/* ------------------------------------------------------------------ making and ending a writer */

/* Returns an upper bound of the bytes of a packed partition whose records have `bits` bits. Packing
 * usually saves bits, and never adds many. */
static uint64_t packed_bytes(uint32_t bits)
{
    return TS_PARTITION_NNZ * (uint64_t)bits / 8 + sizeof(struct ts_packed_partition) + 4096;
}

uint64_t ts_mode_writer_packed_bytes(uint64_t nnz, uint32_t bits)
{
    return (nnz / TS_PARTITION_NNZ + 2) * packed_bytes(bits);
}

static uint32_t writing_threads(uint32_t threads)
{
    return threads / 4 > 1 ? threads / 4 : 1;
}

uint64_t ts_mode_writer_bytes(uint32_t order, uint32_t threads, uint64_t shard_bytes)
{
    const uint64_t parked = PARTITIONS_OF_A_THREAD * packed_bytes(32 * order + 64);
    /* memory of a shard as partitions, joined and compressed; then of partitions in no shard yet */
    if (threads == 0)
        return 3 * shard_bytes + (shard_bytes / 2 > parked ? shard_bytes / 2 : parked);
    return threads * parked + 3 * (threads + writing_threads(threads)) * shard_bytes;
}

/* Divides the memory of the writer. It needs memory for a shard of partitions, for a buffer in
 * which a shard is joined, and for the partitions of each thread. Memory beyond that is for more
 * shards that are joined at the same time. */
static struct ts_shard_writer_plan share_memory(struct ts_mode_writer *w)
{
    struct ts_mode_writer_plan *p = &w->plan;
    const int compress =
        p->code->kind == TS_VALUE_F32 || p->code->kind == TS_VALUE_F64 || p->weights;
    const uint64_t joined = (compress ? 2 : 1) * p->shard_bytes, first = p->shard_bytes + joined;
    const uint64_t each = PARTITIONS_OF_A_THREAD * packed_bytes(p->layout.bits);
    struct ts_shard_writer_plan plan = {
        .path = p->path, .compress = compress, .order = p->order, .n_codes = w->n_codes
    };
    uint64_t spare = p->memory > first ? p->memory - first : 0, more;
    memcpy(plan.level, p->level, sizeof plan.level);
    plan.threads = writing_threads(p->threads);
    plan.n_buffers = p->threads + plan.threads;
    while (p->threads > 1 && p->threads * each > spare)
        p->threads--;
    spare -= p->threads * each < spare ? p->threads * each : spare;
    more = spare / first;
    if (plan.n_buffers > 1 + more)
        plan.n_buffers = 1 + (uint32_t)more;
    if (plan.threads > plan.n_buffers)
        plan.threads = plan.n_buffers;
    /* partitions of a shard are added while others are joined, so each buffer needs a shard of
     * partitions */
    plan.partition_bytes = plan.n_buffers * p->shard_bytes + (p->threads - 1) * each;
    return plan;
}

static int new_words(struct ts_mode_writer *w)
{
    const uint32_t threads = w->plan.threads;
    w->n_parked = PARKED * threads;
    w->word = calloc(threads, sizeof *w->word);
    w->parked = calloc(w->n_parked, sizeof *w->parked);
    w->carry = malloc((size_t)TS_PARTITION_NNZ * w->plan.layout.words * sizeof *w->carry);
    w->pool = ts_partition_pool_new();
    if (w->word == NULL || w->parked == NULL || w->carry == NULL || w->pool == NULL)
        return -1;
    for (uint32_t k = 0; k < threads; k++) {
        w->word[k] = malloc(4 * PARTITION_WORDS);
        if (w->word[k] == NULL)
            return -1;
    }
    return 0;
}

int ts_mode_writer_new(const struct ts_mode_writer_plan *plan, struct ts_mode_writer **ret,
                       struct ts_err *err)
{
    struct ts_mode_writer *w = calloc(1, sizeof *w);
    struct ts_shard_writer_plan shards;
    int rc;
    if (w == NULL)
        return ts_no_memory(err, plan->path);
    w->plan = *plan;
    w->n_codes = plan->weights ? 2 : ts_value_codes(plan->code->kind);
    shards = share_memory(w);
    w->slices.row = UINT32_MAX;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->moved, NULL);
    rc =
        new_words(w) < 0 ? ts_fail(err, TS_ENOMEM, "%s: out of memory for packing", plan->path) : 0;
    shards.pool = w->pool;
    if (rc == 0 && ts_build_comm_many(plan->ranks)) {
        const struct ts_partition_deal_plan deal = { .ranks = plan->ranks,
                                                     .tmp = plan->tmp,
                                                     .spare = plan->spare,
                                                     .shard_bytes = plan->shard_bytes,
                                                     .writer = shards };
        rc = ts_partition_deal_new(&deal, &w->deal, err);
    } else if (rc == 0) {
        rc = ts_shard_writer_new(&shards, &w->shards, err);
    }
    if (rc < 0) {
        ts_mode_writer_free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

/* Frees the memory for packing, except the pool of partitions. */
static void free_packing(struct ts_mode_writer *w)
{
    for (uint32_t k = 0; w->word != NULL && k < w->plan.threads; k++)
        free(w->word[k]);
    free(w->word);
    free(w->parked);
    free(w->carry);
    w->word = NULL;
    w->parked = NULL;
    w->carry = NULL;
}

void ts_mode_writer_free(struct ts_mode_writer *w)
{
    if (w == NULL)
        return;
    ts_shard_writer_free(w->shards);
    ts_partition_deal_free(w->deal);
    ts_shard_draft_drop(&w->draft, w->pool);
    ts_partition_pool_free(w->pool);
    free_packing(w);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->moved);
    free(w);
}

int ts_mode_writer_begin_end(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                             struct ts_err *err)
{
    if (rc == 0 && w->n_carry > 0)
        rc = add_partitions(w, w->carry, 0, w->n_carry, err);
    /* packing of the next mode, which begins while this one is written, needs this memory */
    free_packing(w);
    return ts_partition_deal_begin(w->deal, rc, ret, err);
}

void ts_mode_writer_wait(struct ts_mode_writer *w)
{
    ts_partition_deal_wait(w->deal);
}

int ts_mode_writer_end(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                       struct ts_err *err)
{
    return ts_partition_deal_end(w->deal, rc, ret, err);
}

int ts_mode_writer_finish(struct ts_mode_writer *w, int rc, struct ts_mode_written *ret,
                          struct ts_err *err)
{
    if (w->deal != NULL) {
        rc = ts_mode_writer_begin_end(w, rc, ret, err);
        return rc == 0 ? ts_mode_writer_end(w, rc, ret, err) : rc;
    }
    if (rc == 0 && w->n_carry > 0)
        rc = add_partitions(w, w->carry, 0, w->n_carry, err);
    memset(ret, 0, sizeof *ret);
    if (rc == 0 && w->draft.n_blocks > 0)
        rc = ts_shard_writer_put(w->shards, &w->draft, err);
    if (rc == 0)
        rc = ts_shard_writer_finish(w->shards, &ret->shard, &ret->n_shards, &ret->file_bytes,
                                    &ret->cells, err);
    if (rc < 0)
        return rc;
    ret->largest_slice = w->slices.largest;
    ret->sum_of_squares = w->slices.sum_of_squares;
    for (uint64_t s = 0; s < ret->n_shards; s++)
        if (ret->shard[s].raw_bytes > ret->max_raw_bytes)
            ret->max_raw_bytes = ret->shard[s].raw_bytes;
    return 0;
}
