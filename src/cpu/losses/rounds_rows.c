/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates the rows of a partition in one thread. It decodes the nonzeros, makes all rounds of the
 * rows that have nonzeros in this partition alone, and sums its part of the first and last row. */
#include <math.h>
#include <string.h>

#include "cpu/losses/rounds_state.h"

static void load_magnitudes(enum ts_precision precision, uint32_t n, const void *from, void *to)
{
    if (precision == TS_FLOAT32)
        for (uint32_t c = 0; c < n; c++)
            ((float *)to)[c] = fabsf(((const float *)from)[c]);
    else
        for (uint32_t c = 0; c < n; c++)
            ((double *)to)[c] = fabs(((const double *)from)[c]);
}

/* Copies rows of the factor, or of B (the factor times its weights) without the signs, which
 * mark entries whose weighted sum was above 1. */
static void load_rows(const struct ts_rounds_run *u, uint32_t row, uint32_t n_rows, void *to)
{
    const struct ts_rounds *r = u->r;
    const uint64_t bytes = r->stride * ts_precision_bytes(r->precision);
    for (uint32_t k = 0; k < n_rows; k++) {
        const void *from = ts_fmat_row(u->own, row + (uint64_t)k);
        if (u->descend != NULL)
            memcpy((char *)to + k * bytes, from, bytes);
        else
            load_magnitudes(r->precision, r->stride, from, (char *)to + k * bytes);
    }
}

double ts_rounds_take_sum(const struct ts_rounds_run *u, const double *sum, int last, uint32_t row)
{
    void *to = ts_fmat_row(u->apart, row);
    if (u->descend == NULL)
        return u->r->ops->multiply(to, sum, u->r->rank, last);
    for (uint32_t c = 0; c < u->r->rank; c++)
        ts_set_item(to, c, u->r->precision, sum[c]);
    return 0;
}

/* Marks the nonzeros of the flat array that are held out. */
static void hold_out(const struct ts_rounds_run *u, struct ts_rounds_worker *w)
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

/* Appends the nonzeros of a block to the flat array. */
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

/* Decodes blocks begin .. end - 1 of the shard, which are in one partition, into w->flat. */
static void flatten(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t begin,
                    uint32_t end)
{
    const struct ts_rounds *r = u->r;
    const uint32_t leaf = r->tensor->order - 1, partition = begin / TS_PARTITION_BLOCKS;
    const void *plain = ts_plain_of(r->plain, u->keep, u->view, partition, r->unpack, w->block);
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
            const struct ts_block_at at = ts_shard_block(u->view->entry, u->view->raw, k);
            r->unpack(&r->unpack_conf, &at, w->block);
            append(f, w->block, leaf);
        }
    }
    f->start[f->n_rows] = f->n;
    if (u->hold_out->share > 0)
        hold_out(u, w);
    for (uint32_t l = 1; l <= leaf; l++) /* these entries are prefetched, not used */
        memset(f->idx[l] + (l < leaf ? f->n_fibres : f->n), 0, TS_KERNEL_AHEAD * sizeof(uint32_t));
    if (f->fibre != NULL)
        memset(f->fibre + f->n, 0, TS_KERNEL_AHEAD * sizeof(uint32_t));
}

static void partition_blocks(const struct ts_rounds_run *u, uint32_t k, uint32_t *begin,
                             uint32_t *end)
{
    const uint32_t n = u->view->entry->n_blocks;
    *begin = k * TS_PARTITION_BLOCKS;
    *end = n - *begin > TS_PARTITION_BLOCKS ? *begin + TS_PARTITION_BLOCKS : n;
}

/* Returns how many rows of f from row i on, before `end`, are computed together. */
static uint32_t rows_together(const struct ts_rounds *r, const struct ts_flat *f, uint32_t i,
                              uint32_t end)
{
    const uint32_t most = (uint32_t)ts_rounds_together(r->stride);
    uint32_t n = 1;
    while (n < most && i + n < end && f->start[i + n + 1] - f->start[i] <= TS_ROUNDS_CHUNK)
        n++;
    return n;
}

/* Makes all rounds of n_rows rows of w->flat, from row i on, whose nonzeros are all in this
 * partition. */
static void whole_rows(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t i,
                       uint32_t n_rows)
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
            const double violation = ts_rounds_take_sum(
                u, w->phi + (size_t)k * r->stride, round + 1 == u->n_rounds, w->flat.row + i + k);
            if (round == 0 && violation > w->kkt)
                w->kkt = violation;
        }
    }
}

/* part := phi (the weighted sum) of row i of w->flat, over the nonzeros of this partition. */
static void part_of_row(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t i,
                        double *part)
{
    load_rows(u, w->flat.row + i, 1, w->own);
    u->r->ops->rows(&u->job, &w->flat, i, 1, w->own, TS_P_ONCE, w->scratch, part);
}

double *ts_rounds_part(const struct ts_rounds *r, uint32_t k, int last)
{
    return r->part + (2 * (uint64_t)k + (uint64_t)last) * r->stride;
}

void ts_rounds_first(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t k)
{
    const struct ts_flat *f = &w->flat;
    struct ts_rounds_ends *e = &u->r->ends[k];
    uint32_t begin, end;
    partition_blocks(u, k, &begin, &end);
    flatten(u, w, begin, end);
    *e = (struct ts_rounds_ends){ .n = f->n,
                                  .first = f->row,
                                  .last = f->row + f->n_rows - 1,
                                  .n_first = f->start[1],
                                  .n_last = f->n_rows > 1 ? f->n - f->start[f->n_rows - 1] : 0 };
    part_of_row(u, w, 0, ts_rounds_part(u->r, k, 0));
    if (e->n_last > 0)
        part_of_row(u, w, f->n_rows - 1, ts_rounds_part(u->r, k, 1));
    for (uint32_t i = 1, n; i + 1 < f->n_rows; i += n) {
        n = rows_together(u->r, f, i, f->n_rows - 1);
        whole_rows(u, w, i, n);
    }
}

void ts_rounds_next(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t k)
{
    const struct ts_rounds_ends *e = &u->r->ends[k];
    uint32_t begin, end;
    partition_blocks(u, k, &begin, &end);
    if (e->cut[0]) {
        flatten(u, w, begin, begin + (e->n_first + TS_BLOCK_NNZ - 1) / TS_BLOCK_NNZ);
        part_of_row(u, w, 0, ts_rounds_part(u->r, k, 0));
    }
    if (e->n_last > 0 && e->cut[1]) {
        flatten(u, w, begin + (e->n - e->n_last) / TS_BLOCK_NNZ, end);
        part_of_row(u, w, w->flat.n_rows - 1, ts_rounds_part(u->r, k, 1));
    }
}

void ts_rounds_judge(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t k)
{
    double *to = u->r->judged + TS_ROUNDS_JUDGED * (u->view->first_partition + k);
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
