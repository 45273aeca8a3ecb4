/* SPDX-License-Identifier: BSD-3-Clause */
/* A team of threads takes one shard after another; rows that are cut are folded between rounds. */
#include "cpu/rounds.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bigmem.h"
#include "base/clock.h"
#include "base/fpmode.h"
#include "cpu/share.h"

#define HELD_BYTES (UINT64_C(512) << 10) /* of p, of a row that takes several rounds */
#define GROUP      4096u                 /* rows whose columns are summed together */
#define FLAT_ROOM  (TS_PARTITION_NNZ + TS_KERNEL_AHEAD)
#define ROWS_BYTES 16384u /* of sums of rows that are computed together */
#define MOST_ROWS  64u    /* and how many these are at most */

/* The rows of a partition that may go on in its neighbours. */
struct ends {
    uint32_t n, first, last;  /* nonzeros; rows */
    uint32_t n_first, n_last; /* nonzeros of those rows; n_last 0: they are one */
    int cut[2];               /* it takes more rounds */
};

#define N_JUDGED 6u /* sums of a partition */

/* Memory of one thread, and places in it. */
struct worker {
    struct ts_flat flat;
    struct ts_rounds_scratch *scratch;
    struct ts_unpacked *block;
    double *phi;
    void *own;
    uint32_t *fibre; /* of a flat; and: */
    uint8_t *held;
    uint64_t *hash;
    double kkt;
};

struct ts_rounds {
    const struct ts_tensor *tensor;
    uint32_t rank, stride, threads;
    enum ts_precision precision;
    const struct ts_rounds_ops *ops;
    ts_unpack_fn *unpack;
    struct ts_unpack_conf unpack_conf;
    struct ts_plain *plain;   /* or NULL */
    int passed[TS_MAX_ORDER]; /* a pass over the mode was there */
    void *memory;             /* of all that follows */
    uint64_t memory_bytes;
    struct worker *worker;
    struct ends *ends; /* partitions of a shard */
    double *part;      /* 2 x stride of each of them: of its first row, of its last */
    double *span;      /* 2 x stride of each shard: of rows that go on in another */
    double *judged;    /* N_JUDGED of each partition of a mode */
    double *column;    /* rank of each group of rows */
};

struct run {
    struct ts_rounds *r;
    struct ts_share *share; /* or NULL */
    uint32_t mode;
    struct ts_feed *feed;
    const struct ts_multiply *how;
    struct ts_rounds_job job;
    struct ts_fmat *apart;
    const struct ts_fmat *own;        /* rows that models are of: `apart`, or the factor */
    const struct ts_descent *descend; /* of a gradient; NULL: rows are multiplied */
    const struct ts_hold_out *hold_out;
    uint32_t n_rounds;
    int rounds; /* this pass has them */
    int judge;  /* it judges rows */
    int cut;    /* some row of the shard takes more rounds */
    int keep;   /* plain blocks are made */
    struct ts_plain_conf plain_conf;
    int rc; /* 1: there is a shard; 0: no more; or the failure */
    struct ts_shard_view view;
    double kkt;
    uint64_t wait_ns, exchange_ns;
    struct ts_err *err;
};

static uint64_t item_bytes(enum ts_precision precision)
{
    return precision == TS_FLOAT32 ? sizeof(float) : sizeof(double);
}

/* ---- memory ---- */

static uint64_t most_shards(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        most = t->mode[m].disk.n_shards > most ? t->mode[m].disk.n_shards : most;
    return most;
}

static uint64_t most_rows(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        most = t->mode[m].disk.n_rows > most ? t->mode[m].disk.n_rows : most;
    return most;
}

static uint64_t most_partitions(const struct ts_tensor *t, int of_a_shard)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        uint64_t sum = 0;
        for (uint64_t s = 0; s < t->mode[m].disk.n_shards; s++) {
            const uint64_t n = ts_shard_partitions(&t->mode[m].shard[s]);
            sum = of_a_shard ? n : sum + n;
            most = sum > most ? sum : most;
        }
    }
    return most;
}

static void *place(char **at, uint64_t bytes)
{
    void *ret = *at;
    *at += (bytes + 63) / 64 * 64;
    return ret;
}

static uint32_t held(uint32_t stride, enum ts_precision precision)
{
    const uint64_t n = HELD_BYTES / (stride * item_bytes(precision));
    return n > TS_ROUNDS_CHUNK ? (uint32_t)n : TS_ROUNDS_CHUNK;
}

/* Rows whose sums are computed together. */
static uint64_t most_together(uint32_t stride)
{
    const uint32_t n = ROWS_BYTES / (stride * (uint32_t)sizeof(double));
    return n > MOST_ROWS ? MOST_ROWS : n < 1 ? 1 : n;
}

/* Places of everything behind `at`; returns where they end. */
static char *lay_out(struct ts_rounds *r, char *at)
{
    const struct ts_tensor *t = r->tensor;
    const uint64_t row = r->stride * sizeof(double);
    const uint64_t groups = (most_rows(t) + GROUP - 1) / GROUP;
    struct worker *worker = place(&at, r->threads * sizeof *worker);
    r->worker = worker;
    r->ends = place(&at, most_partitions(t, 1) * sizeof *r->ends);
    r->part = place(&at, most_partitions(t, 1) * 2 * row);
    r->span = place(&at, most_shards(t) * 2 * row);
    r->judged = place(&at, most_partitions(t, 0) * N_JUDGED * sizeof(double));
    r->column = place(&at, groups * r->rank * sizeof(double));
    return at;
}

static char *lay_out_worker(const struct ts_rounds *r, struct worker *w, char *at)
{
    w->scratch = place(&at, sizeof *w->scratch);
    w->scratch->most = held(r->stride, r->precision);
    w->scratch->product =
        place(&at, (uint64_t)w->scratch->most * r->stride * item_bytes(r->precision));
    w->block = place(&at, sizeof *w->block);
    w->phi = place(&at, most_together(r->stride) * r->stride * sizeof(double));
    w->own = place(&at, most_together(r->stride) * r->stride * sizeof(double));
    w->flat.start = place(&at, (FLAT_ROOM + 1) * sizeof(uint32_t));
    w->flat.value = place(&at, FLAT_ROOM * sizeof(double));
    for (uint32_t l = 1; l < r->tensor->order; l++)
        w->flat.idx[l] = place(&at, FLAT_ROOM * sizeof(uint32_t));
    w->fibre = place(&at, FLAT_ROOM * sizeof(uint32_t));
    w->held = place(&at, FLAT_ROOM);
    w->hash = place(&at, FLAT_ROOM * sizeof(uint64_t));
    return at;
}

static uint64_t worker_bytes(const struct ts_tensor *t, uint32_t stride,
                             enum ts_precision precision)
{
    return sizeof(struct ts_rounds_scratch) + sizeof(struct ts_unpacked) +
           held(stride, precision) * (uint64_t)stride * item_bytes(precision) +
           2 * most_together(stride) * stride * sizeof(double) +
           (FLAT_ROOM + 1) * sizeof(uint32_t) + FLAT_ROOM * sizeof(double) +
           t->order * UINT64_C(1) * FLAT_ROOM * sizeof(uint32_t) +
           FLAT_ROOM * (1 + sizeof(uint64_t)) + 64 * (11 + UINT64_C(1) * t->order);
}

static uint64_t memory_bytes(const struct ts_rounds *r)
{
    struct ts_rounds copy = *r;
    char none[1];
    return (uint64_t)((uintptr_t)lay_out(&copy, none) - (uintptr_t)none) +
           r->threads * worker_bytes(r->tensor, r->stride, r->precision);
}

static struct ts_rounds shape_of(const struct ts_tensor *t, uint32_t rank,
                                 enum ts_precision precision, uint32_t threads)
{
    return (struct ts_rounds){ .tensor = t,
                               .rank = rank,
                               .stride = ts_fmat_stride(rank, precision),
                               .threads = threads,
                               .precision = precision };
}

uint64_t ts_rounds_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                         uint32_t threads)
{
    const struct ts_rounds r = shape_of(t, rank, precision, threads);
    return sizeof r + ts_bigmem_cost(memory_bytes(&r));
}

int ts_rounds_new(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                  enum ts_isa isa, uint32_t threads, struct ts_plain *plain, struct ts_rounds **ret,
                  struct ts_err *err)
{
    struct ts_rounds *r = malloc(sizeof *r);
    char *at;
    int rc;
    if (r == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    *r = shape_of(t, rank, precision, threads);
    r->ops = ts_rounds_get(isa, precision, r->stride);
    r->plain = plain;
    r->unpack = ts_kernel_unpack(isa);
    ts_kernel_values(t, TS_FLOAT64, &r->unpack_conf);
    r->memory_bytes = memory_bytes(r);
    rc = ts_bigmem_new(r->memory_bytes, "rounds of rows", &r->memory, err);
    if (rc < 0) {
        free(r);
        return rc;
    }
    memset(r->memory, 0, r->memory_bytes);
    at = lay_out(r, r->memory);
    for (uint32_t i = 0; i < threads; i++)
        at = lay_out_worker(r, &r->worker[i], at);
    *ret = r;
    return 0;
}

void ts_rounds_free(struct ts_rounds *r)
{
    if (r == NULL)
        return;
    ts_bigmem_free(r->memory, r->memory_bytes);
    free(r);
}

/* ---- rows ---- */

static void *row_at(const struct ts_fmat *f, uint64_t row)
{
    return (char *)f->data + row * f->stride * item_bytes(f->precision);
}

static void load_magnitudes(enum ts_precision precision, uint32_t n, const void *from, void *to)
{
    if (precision == TS_FLOAT32)
        for (uint32_t c = 0; c < n; c++)
            ((float *)to)[c] = fabsf(((const float *)from)[c]);
    else
        for (uint32_t c = 0; c < n; c++)
            ((double *)to)[c] = fabs(((const double *)from)[c]);
}

/* Rows of the factor; of B without what their signs say. */
static void load_rows(const struct run *u, uint32_t row, uint32_t n_rows, void *to)
{
    const struct ts_rounds *r = u->r;
    const uint64_t bytes = r->stride * item_bytes(r->precision);
    for (uint32_t k = 0; k < n_rows; k++) {
        const void *from = row_at(u->own, row + (uint64_t)k);
        if (u->descend != NULL)
            memcpy((char *)to + k * bytes, from, bytes);
        else
            load_magnitudes(r->precision, r->stride, from, (char *)to + k * bytes);
    }
}

static double entry(const struct ts_rounds *r, const void *row, uint32_t c)
{
    return r->precision == TS_FLOAT32 ? (double)((const float *)row)[c] : ((const double *)row)[c];
}

static void set_entry(const struct ts_rounds *r, void *row, uint32_t c, double x)
{
    if (r->precision == TS_FLOAT32)
        ((float *)row)[c] = (float)x;
    else
        ((double *)row)[c] = x;
}

/* The sum of a row is there: it is what the row is multiplied with, or its gradient. Returns the violation. */
static double take_sum(const struct run *u, const double *sum, int last, uint32_t row)
{
    void *to = row_at(u->apart, row);
    if (u->descend == NULL)
        return u->r->ops->multiply(to, sum, u->r->rank, last);
    for (uint32_t c = 0; c < u->r->rank; c++)
        set_entry(u->r, to, c, sum[c]);
    return 0;
}

/* ---- partitions ---- */

/* Which nonzeros of the flat are held out. */
static void hold_out(const struct run *u, struct worker *w)
{
    const struct ts_hold_out *h = u->hold_out;
    const uint8_t *level = u->r->tensor->mode[u->mode].disk.level;
    const uint32_t leaf = u->r->tensor->order - 1;
    struct ts_flat *f = &w->flat;
    for (uint32_t i = 0; i < f->n; i++)
        w->hash[i] = ts_hold_out_begin(h);
    for (uint32_t m = 0; m < u->r->tensor->order; m++) {
        uint32_t l = 0;
        while (level[l] != m)
            l++;
        for (uint32_t k = 0; l == 0 && k < f->n_rows; k++)
            for (uint32_t i = f->start[k]; i < f->start[k + 1]; i++)
                w->hash[i] = ts_hold_out_add(w->hash[i], f->row + k);
        for (uint32_t i = 0; l > 0 && i < f->n; i++)
            w->hash[i] = ts_hold_out_add(w->hash[i],
                                         f->idx[l][f->fibre != NULL && l < leaf ? f->fibre[i] : i]);
    }
    for (uint32_t i = 0; i < f->n; i++)
        w->held[i] = (uint8_t)ts_hold_out_held(h, w->hash[i]);
    f->held = w->held;
}

/* A block goes behind those that are there. */
static void append(struct ts_flat *f, const struct ts_unpacked *b, uint32_t leaf)
{
    const uint32_t first = f->n_fibres, n = b->shared ? b->n_fibres : b->n;
    ts_flat_row(f, b->row);
    for (uint32_t s = 0; s < b->n_starts; s++)
        f->start[f->n_rows++] = f->n + b->start[s];
    for (uint32_t l = 1; l < leaf; l++)
        memcpy(f->idx[l] + first, b->idx[l], n * sizeof *b->idx[l]);
    memcpy(f->idx[leaf] + f->n, b->idx[leaf], b->n * sizeof *b->idx[leaf]);
    memcpy(f->value + f->n, b->value.d, b->n * sizeof(double));
    for (uint32_t p = 0; f->fibre != NULL && b->shared && p < b->n; p++)
        f->fibre[f->n + p] = first + b->idx[0][p];
    for (uint32_t p = 0; f->fibre != NULL && !b->shared && p < b->n; p++)
        f->fibre[f->n + p] = first + p;
    f->n += b->n;
    f->n_fibres += n;
}

/* The plain blocks of partition k of the shard, or NULL. */
static const void *plain_of(const struct run *u, const struct worker *w, uint32_t k)
{
    const struct ts_rounds *r = u->r;
    const uint64_t at = u->view.first_partition + k;
    const void *plain = r->plain == NULL ? NULL : ts_plain_get(r->plain, u->mode, at);
    if (plain != NULL || !u->keep)
        return plain;
    return ts_plain_add(r->plain, u->mode, at, u->view.entry, u->view.raw, k, r->unpack, w->block);
}

/* Blocks begin .. end - 1 of the shard, of one partition, decoded. */
static void flatten(const struct run *u, struct worker *w, uint32_t begin, uint32_t end)
{
    const struct ts_rounds *r = u->r;
    const uint32_t leaf = r->tensor->order - 1, partition = begin / TS_PARTITION_BLOCKS;
    const void *plain = plain_of(u, w, partition);
    struct ts_flat *f = &w->flat;
    f->n = f->n_rows = f->n_fibres = 0;
    f->held = NULL;
    f->fibre = leaf > 2 ? w->fibre : NULL;
    for (uint32_t k = partition * TS_PARTITION_BLOCKS; plain != NULL && k < begin; k++)
        plain = ts_plain_next(&u->plain_conf, plain);
    for (uint32_t k = begin; k < end; k++) {
        if (plain != NULL) {
            plain = r->ops->append(&u->plain_conf, plain, f);
        } else {
            const struct ts_block_at at = ts_shard_block(u->view.entry, u->view.raw, k);
            r->unpack(&r->unpack_conf, &at, w->block);
            append(f, w->block, leaf);
        }
    }
    f->start[f->n_rows] = f->n;
    if (u->hold_out->share > 0)
        hold_out(u, w);
    for (uint32_t l = 1; l <= leaf; l++) /* fetched ahead, not used */
        memset(f->idx[l] + (l < leaf ? f->n_fibres : f->n), 0, TS_KERNEL_AHEAD * sizeof(uint32_t));
    if (f->fibre != NULL)
        memset(f->fibre + f->n, 0, TS_KERNEL_AHEAD * sizeof(uint32_t));
}

static void partition_blocks(const struct run *u, uint32_t k, uint32_t *begin, uint32_t *end)
{
    const uint32_t n = u->view.entry->n_blocks;
    *begin = k * TS_PARTITION_BLOCKS;
    *end = n - *begin > TS_PARTITION_BLOCKS ? *begin + TS_PARTITION_BLOCKS : n;
}

/* How many rows of the flat from row i on are computed together, of those before `end`. */
static uint32_t rows_together(const struct ts_rounds *r, const struct ts_flat *f, uint32_t i,
                              uint32_t end)
{
    const uint32_t most = (uint32_t)most_together(r->stride);
    uint32_t n = 1;
    while (n < most && i + n < end && f->start[i + n + 1] - f->start[i] <= TS_ROUNDS_CHUNK)
        n++;
    return n;
}

/* All rounds of rows that are whole. */
static void whole_rows(const struct run *u, struct worker *w, uint32_t i, uint32_t n_rows)
{
    const struct ts_rounds *r = u->r;
    const uint32_t n = w->flat.start[i + n_rows] - w->flat.start[i];
    const int keep = u->n_rounds > 1 && n <= w->scratch->most;
    for (uint32_t round = 0; round < u->n_rounds; round++) {
        load_rows(u, w->flat.row + i, n_rows, w->own);
        r->ops->rows(&u->job, &w->flat, i, n_rows, w->own,
                     !keep       ? TS_P_ONCE
                     : round > 0 ? TS_P_THERE
                                 : TS_P_KEEP,
                     w->scratch, w->phi);
        for (uint32_t k = 0; k < n_rows; k++) {
            const double violation = take_sum(u, w->phi + (size_t)k * r->stride,
                                              round + 1 == u->n_rounds, w->flat.row + i + k);
            if (round == 0 && violation > w->kkt)
                w->kkt = violation;
        }
    }
}

/* part := phi of row i of the flat. */
static void part_of_row(const struct run *u, struct worker *w, uint32_t i, double *part)
{
    load_rows(u, w->flat.row + i, 1, w->own);
    u->r->ops->rows(&u->job, &w->flat, i, 1, w->own, TS_P_ONCE, w->scratch, part);
}

static double *part_at(const struct ts_rounds *r, uint32_t k, int last)
{
    return r->part + (2 * (uint64_t)k + (uint64_t)last) * r->stride;
}

/* The first round of partition k, and the others of its rows inside. */
static void first_round(const struct run *u, struct worker *w, uint32_t k)
{
    const struct ts_flat *f = &w->flat;
    struct ends *e = &u->r->ends[k];
    uint32_t begin, end;
    partition_blocks(u, k, &begin, &end);
    flatten(u, w, begin, end);
    *e = (struct ends){ .n = f->n,
                        .first = f->row,
                        .last = f->row + f->n_rows - 1,
                        .n_first = f->start[1],
                        .n_last = f->n_rows > 1 ? f->n - f->start[f->n_rows - 1] : 0 };
    part_of_row(u, w, 0, part_at(u->r, k, 0));
    if (e->n_last > 0)
        part_of_row(u, w, f->n_rows - 1, part_at(u->r, k, 1));
    for (uint32_t i = 1, n; i + 1 < f->n_rows; i += n) {
        n = rows_together(u->r, f, i, f->n_rows - 1);
        whole_rows(u, w, i, n);
    }
}

/* One more round of its first and last row. */
static void next_round(const struct run *u, struct worker *w, uint32_t k)
{
    const struct ends *e = &u->r->ends[k];
    uint32_t begin, end;
    partition_blocks(u, k, &begin, &end);
    if (e->cut[0]) {
        flatten(u, w, begin, begin + (e->n_first + TS_BLOCK_NNZ - 1) / TS_BLOCK_NNZ);
        part_of_row(u, w, 0, part_at(u->r, k, 0));
    }
    if (e->n_last > 0 && e->cut[1]) {
        flatten(u, w, begin + (e->n - e->n_last) / TS_BLOCK_NNZ, end);
        part_of_row(u, w, w->flat.n_rows - 1, part_at(u->r, k, 1));
    }
}

static void judge_partition(const struct run *u, struct worker *w, uint32_t k)
{
    double *to = u->r->judged + N_JUDGED * (u->view.first_partition + k);
    uint32_t begin, end;
    partition_blocks(u, k, &begin, &end);
    flatten(u, w, begin, end);
    w->scratch->judged = w->scratch->inner = 0;
    w->scratch->held_n = w->scratch->held_judged = 0;
    w->scratch->held_model = w->scratch->held_squares = 0;
    for (uint32_t i = 0, n; i < w->flat.n_rows; i += n) {
        n = rows_together(u->r, &w->flat, i, w->flat.n_rows);
        load_rows(u, w->flat.row + i, n, w->own);
        u->r->ops->rows(&u->job, &w->flat, i, n, w->own, TS_P_ONCE, w->scratch, NULL);
    }
    to[0] = w->scratch->judged;
    to[1] = w->scratch->inner;
    to[2] = w->scratch->held_n;
    to[3] = w->scratch->held_judged;
    to[4] = w->scratch->held_model;
    to[5] = w->scratch->held_squares;
}

/* ---- rows that are cut ---- */

/* Whether a row of shard `s` goes on in the one before or after. */
static int spans(const struct ts_mode *m, uint64_t s, uint32_t row)
{
    return (s > 0 && m->shard[s - 1].row_last == row) ||
           (s + 1 < m->disk.n_shards && m->shard[s + 1].row_first == row);
}

static double *span_at(const struct ts_rounds *r, uint64_t shard, int last)
{
    return r->span + (2 * shard + (uint64_t)last) * r->stride;
}

static void add_row(const struct ts_rounds *r, const double *part, double *sum)
{
    for (uint32_t c = 0; c < r->rank; c++)
        sum[c] += part[c];
}

/* The row whose parts were added is done with this round, or waits for its other shards. */
static void end_row(struct run *u, uint32_t row, uint32_t round, const double *sum)
{
    const struct ts_rounds *r = u->r;
    const struct ts_mode *m = &r->tensor->mode[u->mode];
    const uint64_t s = u->view.shard;
    double violation;
    if (spans(m, s, row)) {
        if (round == 0)
            memcpy(span_at(r, s, row != u->view.entry->row_first), sum, r->stride * sizeof *sum);
        return;
    }
    violation = take_sum(u, sum, round + 1 == u->n_rounds, row);
    if (round == 0 && violation > u->kkt)
        u->kkt = violation;
}

/* Adds the parts of the shard's rows that are cut, and multiplies them. */
static void fold(struct run *u, uint32_t round, double *sum)
{
    const struct ts_rounds *r = u->r;
    const struct ts_mode *m = &r->tensor->mode[u->mode];
    const uint32_t n = ts_shard_partitions(u->view.entry);
    int open = 0;
    uint32_t row = 0;
    u->cut = 0;
    for (uint32_t i = 0; i < 2 * n; i++) {
        struct ends *e = &r->ends[i / 2];
        const uint32_t of = i % 2 == 0 ? e->first : e->last;
        if (i % 2 == 1 && e->n_last == 0)
            continue;
        if (round == 0)
            e->cut[i % 2] = !spans(m, u->view.shard, of);
        u->cut |= e->cut[i % 2];
        if (round > 0 && !e->cut[i % 2])
            continue;
        if (open && row != of)
            end_row(u, row, round, sum);
        if (!open || row != of)
            memset(sum, 0, r->stride * sizeof *sum);
        open = 1;
        row = of;
        add_row(r, part_at(r, i / 2, (int)(i % 2)), sum);
    }
    if (open)
        end_row(u, row, round, sum);
}

/* Rows that go on in other shards, once all shards were there. Returns how many there are. */
static uint64_t fold_spans(struct run *u, double *sum)
{
    const struct ts_rounds *r = u->r;
    const struct ts_mode *m = &r->tensor->mode[u->mode];
    uint64_t found = 0;
    uint32_t row = 0;
    int open = 0;
    for (uint64_t i = 0; i <= 2 * m->disk.n_shards; i++) {
        const struct ts_disk_shard *e = &m->shard[i / 2];
        const int end = i == 2 * m->disk.n_shards;
        const uint32_t of = end ? 0 : i % 2 == 0 ? e->row_first : e->row_last;
        if (!end && ((i % 2 == 1 && e->row_first == e->row_last) || !spans(m, i / 2, of)))
            continue;
        if (open && (end || row != of)) {
            const double violation = take_sum(u, sum, 1, row);
            u->kkt = violation > u->kkt ? violation : u->kkt;
            found++;
        }
        if (end)
            break;
        if (!open || row != of)
            memset(sum, 0, r->stride * sizeof *sum);
        open = 1;
        row = of;
        add_row(r, span_at(r, i / 2, (int)(i % 2)), sum);
    }
    return found;
}

static int any_spans(const struct ts_mode *m)
{
    for (uint64_t s = 1; s < m->disk.n_shards; s++)
        if (m->shard[s - 1].row_last == m->shard[s].row_first)
            return 1;
    return 0;
}

/* ---- passes ---- */

static void borrow(struct run *u)
{
    const uint64_t begin = ts_clock_ns();
    u->rc = u->share != NULL && ts_share_poll(u->share)
                ? ts_fail(u->err, TS_ESTOP, "another rank has stopped")
                : ts_feed_next(u->feed, u->mode, 0, &u->view, u->err);
    u->wait_ns += ts_clock_ns() - begin;
}

static void rounds_of_shard(struct run *u, struct worker *w, uint32_t n)
{
#pragma omp for schedule(dynamic, 1)
    for (uint32_t k = 0; k < n; k++)
        first_round(u, w, k);
    for (uint32_t round = 0; round < u->n_rounds; round++) {
#pragma omp single
        fold(u, round, w->phi);
        if (!u->cut || round + 1 == u->n_rounds)
            break;
#pragma omp for schedule(dynamic, 1)
        for (uint32_t k = 0; k < n; k++)
            next_round(u, w, k);
    }
}

/* What each thread of the team does. */
static void work(struct run *u)
{
    struct worker *w = &u->r->worker[omp_get_thread_num()];
    const uint64_t mode = ts_fpmode_flush();
    w->kkt = 0;
    for (;;) {
        uint32_t n;
#pragma omp single
        borrow(u);
        if (u->rc <= 0)
            break;
        n = ts_shard_partitions(u->view.entry);
        if (u->rounds)
            rounds_of_shard(u, w, n);
        if (u->judge) {
#pragma omp for schedule(dynamic, 1)
            for (uint32_t k = 0; k < n; k++)
                judge_partition(u, w, k);
        }
#pragma omp single
        ts_feed_done(u->feed, &u->view);
    }
    ts_fpmode_restore(mode);
}

/* All ranks have passed over their shards. */
static int meet(struct run *u)
{
    const uint64_t start = ts_clock_ns();
    const int rc = ts_share_shards(u->share, u->mode, u->rc, u->err);
    u->exchange_ns += ts_clock_ns() - start;
    return rc;
}

static int pass(struct run *u, int rounds, int judge)
{
    u->rounds = rounds;
    u->judge = judge;
    u->rc = 1;
    u->keep = u->r->plain != NULL && u->r->passed[u->mode];
    u->r->passed[u->mode] = 1;
    ts_plain_conf(u->r->tensor, u->mode, 1, &u->plain_conf);
#pragma omp parallel num_threads(u->r->threads)
    work(u);
    for (uint32_t i = 0; i < u->r->threads; i++)
        u->kkt = u->r->worker[i].kkt > u->kkt ? u->r->worker[i].kkt : u->kkt;
    return u->share == NULL ? u->rc : meet(u);
}

/* All parts of rows are there: those that go on in other shards are folded. */
static int fold_all(struct run *u)
{
    struct ts_rounds *r = u->r;
    const uint64_t start = ts_clock_ns();
    int rc = 0;
    if (u->share != NULL)
        rc = ts_share_gather(u->share, r->span, 2 * r->stride * sizeof *r->span,
                             ts_share_first_shards(u->share, u->mode), u->err);
    u->exchange_ns += ts_clock_ns() - start;
    if (rc == 0)
        fold_spans(u, r->worker[0].phi);
    return rc;
}

/* ---- the matrix ---- */

/* The last bit of an entry. */
static int last_bit(const struct ts_rounds *r, const void *row, uint32_t c)
{
    uint64_t wide;
    uint32_t narrow;
    if (r->precision == TS_FLOAT32) {
        memcpy(&narrow, (const float *)row + c, sizeof narrow);
        return (int)(narrow & 1);
    }
    memcpy(&wide, (const double *)row + c, sizeof wide);
    return (int)(wide & 1);
}

static void set_last_bit(const struct ts_rounds *r, void *row, uint32_t c, int bit)
{
    uint64_t wide;
    uint32_t narrow;
    if (r->precision == TS_FLOAT32) {
        memcpy(&narrow, (float *)row + c, sizeof narrow);
        narrow = (narrow & ~UINT32_C(1)) | (uint32_t)bit;
        memcpy((float *)row + c, &narrow, sizeof narrow);
    } else {
        memcpy(&wide, (double *)row + c, sizeof wide);
        wide = (wide & ~UINT64_C(1)) | (uint64_t)bit;
        memcpy((double *)row + c, &wide, sizeof wide);
    }
}

static int has_mark(const struct ts_rounds *r, const void *row, uint32_t c)
{
    const double a = entry(r, row, c);
    return a == 0 ? signbit(a) != 0 : a < TS_ROW_ZERO && last_bit(r, row, c);
}

/* row[c] := a, which is not negative, with its mark. Below the normal numbers it counts as 0. */
static void set_marked(const struct ts_rounds *r, void *row, uint32_t c, double a, int mark)
{
    const double least = r->precision == TS_FLOAT32 ? FLT_MIN : DBL_MIN;
    if (a < least) {
        set_entry(r, row, c, mark ? -0.0 : 0.0);
        return;
    }
    set_entry(r, row, c, a);
    if (a < TS_ROW_ZERO)
        set_last_bit(r, row, c, mark);
}

/* apart := A diag(weight), with what makes zeros grow. */
static void begin_rows(const struct ts_rounds *r, const struct ts_fmat *f,
                       const struct ts_multiply *how, struct ts_fmat *apart)
{
#pragma omp parallel for num_threads(r->threads) schedule(static)
    for (uint64_t i = 0; i < f->n_rows; i++) {
        const void *from = row_at(f, i);
        void *to = row_at(apart, i);
        for (uint32_t c = 0; c < r->stride; c++) {
            const double a = entry(r, from, c);
            const double more = how->grow > 0 && has_mark(r, from, c) ? how->grow : 0;
            set_entry(r, to, c, c >= r->rank ? 0 : (fabs(a) + more) * how->weight[c]);
        }
    }
}

static void sum_columns(const struct ts_rounds *r, const struct ts_fmat *apart, double *ret)
{
    const uint64_t groups = (apart->n_rows + GROUP - 1) / GROUP;
#pragma omp parallel for num_threads(r->threads) schedule(static)
    for (uint64_t g = 0; g < groups; g++) {
        double *sum = r->column + g * r->rank;
        const uint64_t end = (g + 1) * GROUP < apart->n_rows ? (g + 1) * GROUP : apart->n_rows;
        memset(sum, 0, r->rank * sizeof *sum);
        for (uint64_t i = g * GROUP; i < end; i++)
            for (uint32_t c = 0; c < r->rank; c++)
                sum[c] += fabs(entry(r, row_at(apart, i), c));
    }
    memset(ret, 0, r->rank * sizeof *ret);
    for (uint64_t g = 0; g < groups; g++)
        add_row(r, r->column + g * r->rank, ret);
}

/* A := B, columns divided by their sums. */
static void end_rows(const struct ts_rounds *r, const struct ts_fmat *apart, const double *column,
                     struct ts_fmat *f)
{
#pragma omp parallel for num_threads(r->threads) schedule(static)
    for (uint64_t i = 0; i < f->n_rows; i++) {
        const void *from = row_at(apart, i);
        void *to = row_at(f, i);
        for (uint32_t c = 0; c < r->rank; c++) {
            const double b = entry(r, from, c);
            const double a = column[c] > 0 ? fabs(b) / column[c] : 0;
            set_marked(r, to, c, a, signbit(b) != 0);
        }
    }
}

/* From this size on, a matrix counts as larger than the second-level cache. */
static uint64_t far_bytes(void)
{
    long bytes = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? (uint64_t)bytes : UINT64_C(1) << 20;
}

static void fill_job(const struct ts_rounds *r, uint32_t mode, const struct ts_fmat *factor,
                     const struct ts_loss *loss, struct ts_rounds_job *job)
{
    const struct ts_tensor *t = r->tensor;
    const uint64_t far = far_bytes();
    *job = (struct ts_rounds_job){ .order = t->order, .stride = r->stride, .loss = loss };
    for (uint32_t l = 1; l < t->order; l++) {
        const struct ts_fmat *f = &factor[t->mode[mode].disk.level[l]];
        job->table[l] = f->data;
        job->far[l] = f->bytes > far;
    }
}

static void add_judged(const struct ts_rounds *r, uint32_t mode, struct ts_multiply_sums *ret)
{
    uint64_t k = 0;
    for (uint64_t s = 0; s < r->tensor->mode[mode].disk.n_shards; s++)
        for (uint32_t i = 0; i < ts_shard_partitions(&r->tensor->mode[mode].shard[s]); i++, k++) {
            const double *from = r->judged + N_JUDGED * k;
            ret->loss += from[0];
            ret->inner += from[1];
            ret->held_n += from[2];
            ret->held_loss += from[3];
            ret->held_model += from[4];
            ret->held_squares += from[5];
        }
}

/* What the ranks have judged, and the rows that each has, to all. */
static int gather(struct run *u, int judged)
{
    const uint64_t start = ts_clock_ns();
    int rc = 0;
    if (u->share == NULL)
        return 0;
    if (judged)
        rc = ts_share_gather_parts(u->share, u->mode, u->r->judged, N_JUDGED * sizeof *u->r->judged,
                                   u->err);
    if (rc == 0)
        rc = ts_share_largest(u->share, &u->kkt, u->err);
    if (rc == 0)
        rc = ts_share_gather_rows(u->share, u->apart, ts_share_rows(u->share), u->err);
    u->exchange_ns += ts_clock_ns() - start;
    return rc;
}

int ts_rounds_run(struct ts_rounds *r, struct ts_share *share, uint32_t mode,
                  struct ts_fmat *factor, struct ts_fmat *apart, struct ts_feed *feed,
                  const struct ts_multiply *how, struct ts_multiply_sums *ret,
                  struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct run u = { .r = r,
                     .share = share,
                     .mode = mode,
                     .feed = feed,
                     .how = how,
                     .hold_out = &how->hold_out,
                     .apart = apart,
                     .own = apart,
                     .n_rounds = how->rounds,
                     .err = err };
    const int again = any_spans(&r->tensor->mode[mode]);
    uint64_t kernel_ns = 0;
    int rc = 0;
    ret->kkt = ret->loss = ret->inner = 0;
    ret->held_n = ret->held_loss = ret->held_model = ret->held_squares = 0;
    begin_rows(r, &factor[mode], how, apart);
    if (feed != NULL) {
        const uint64_t begin = ts_clock_ns();
        fill_job(r, mode, factor, how->loss, &u.job);
        rc = pass(&u, 1, how->judge && !again);
        if (rc == 0)
            rc = fold_all(&u);
        if (rc == 0 && how->judge && again) {
            ts_feed_rewind(feed);
            rc = pass(&u, 0, 1);
        }
        if (rc == 0)
            rc = gather(&u, how->judge);
        if (rc == 0 && how->judge)
            add_judged(r, mode, ret);
        kernel_ns = ts_clock_ns() - begin;
    }
    if (rc < 0)
        return rc;
    sum_columns(r, apart, ret->column);
    end_rows(r, apart, ret->column, &factor[mode]);
    ret->kkt = u.kkt;
    if (times != NULL)
        *times = (struct ts_backend_times){
            .total_ns = ts_clock_ns() - start,
            .n_devices = 1,
            .device[0] = { .number = -1,
                           .nnz = feed != NULL ? r->tensor->nnz : 0,
                           .wait_ns = u.wait_ns,
                           .kernel_ns = kernel_ns - u.wait_ns - u.exchange_ns,
                           .exchange_ns = u.exchange_ns,
                           .exposed_ns = u.exchange_ns,
                           .solve_ns = ts_clock_ns() - start - kernel_ns,
                           .share = 1 },
        };
    return 0;
}

int ts_rounds_gradient(struct ts_rounds *r, struct ts_share *share, uint32_t mode,
                       const struct ts_fmat *factor, struct ts_fmat *apart, struct ts_feed *feed,
                       const struct ts_descent *how, uint64_t *wait_ns, uint64_t *exchange_ns,
                       struct ts_err *err)
{
    struct run u = { .r = r,
                     .share = share,
                     .mode = mode,
                     .feed = feed,
                     .apart = apart,
                     .own = &factor[mode],
                     .descend = how,
                     .hold_out = &how->hold_out,
                     .n_rounds = 1,
                     .err = err };
    int rc;
    fill_job(r, mode, factor, how->loss, &u.job);
    u.job.at = how->at;
    u.job.zeros = !how->observed;
    rc = pass(&u, 1, 0);
    if (rc == 0)
        rc = fold_all(&u);
    *wait_ns = u.wait_ns;
    *exchange_ns = u.exchange_ns;
    return rc;
}
