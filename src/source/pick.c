/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses sets of rows of a tensor: by ranges of indices, or by their number of nonzeros. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "format/blocks/block_codec.h"
#include "source/tensor_source.h"

void ts_pick_free(struct ts_pick *p)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(p->rows[m]);
    memset(p, 0, sizeof *p);
}

static uint64_t set_bytes(const struct ts_tensor *t, uint32_t mode)
{
    return t->mode[mode].disk.n_rows / 8 + 1;
}

uint64_t ts_pick_bytes(const struct ts_pick *p, const struct ts_tensor *t)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < t->order; m++)
        sum += p->rows[m] == NULL ? 0 : set_bytes(t, m);
    return sum;
}

/* Makes a set of picked rows for a mode if it has none yet, with all rows in it. */
static int need_set(struct ts_pick *p, const struct ts_tensor *t, uint32_t mode, struct ts_err *err)
{
    if (p->rows[mode] != NULL)
        return 0;
    p->rows[mode] = malloc(set_bytes(t, mode));
    if (p->rows[mode] == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: no memory for a set of rows", t->path);
    memset(p->rows[mode], 0xff, set_bytes(t, mode));
    return 0;
}

static void drop(struct ts_pick *p, uint32_t mode, uint64_t row)
{
    p->rows[mode][row / 8] &= (unsigned char)~(1u << row % 8);
}

static int compare_ranges(const void *a, const void *b)
{
    const struct ts_pick_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Whether the index is in one of n sorted ranges. It is called with ascending indices, so *at skips
 * the ranges that end before the index. */
static int in_ranges(const struct ts_pick_range *range, uint64_t n, uint64_t *at, uint64_t index)
{
    while (*at < n && range[*at].last < index)
        ++*at;
    return *at < n && range[*at].first <= index;
}

int ts_pick_ranges(struct ts_pick *p, const struct ts_tensor *t, uint32_t mode,
                   struct ts_pick_range *range, uint64_t n, struct ts_err *err)
{
    struct ts_rows_reader *r = NULL;
    uint64_t index[TS_ROWS_CHUNK], row = 0, at = 0;
    uint32_t got = 1;
    int rc = need_set(p, t, mode, err);
    qsort(range, n, sizeof *range, compare_ranges);
    if (rc == 0)
        rc = ts_rows_reader_open(t, mode, &r, err);
    for (; r == NULL && rc == 0 && row < t->mode[mode].disk.n_rows; row++)
        if (!in_ranges(range, n, &at, row))
            drop(p, mode, row);
    while (r != NULL && rc == 0 && got > 0) {
        rc = ts_rows_reader_next(r, index, &got, err);
        for (uint32_t i = 0; i < got && rc == 0; i++, row++)
            if (!in_ranges(range, n, &at, index[i]))
                drop(p, mode, row);
    }
    ts_rows_reader_close(r);
    return rc;
}

/* Counts the nonzeros of each row in the copy of the nonzeros that is sorted by this mode, where
 * rows ascend. The count of a row is complete when the next row begins. */
struct counting {
    struct ts_pick *pick;
    uint32_t mode;
    uint64_t least, row, n;
};

static void end_row(const struct counting *c)
{
    if (c->n > 0 && c->n < c->least)
        drop(c->pick, c->mode, c->row);
}

static int count(void *arg, const struct ts_block *block)
{
    struct counting *c = arg;
    const uint32_t *row = block->level[0];
    for (uint32_t i = 0; i < block->n; i++) {
        if (row[i] != c->row) {
            end_row(c);
            c->row = row[i];
            c->n = 0;
        }
        c->n++;
    }
    return 0;
}

/* ------------------------------------------------------------------ all nonzeros of a copy */

/* Calls `see` with each block of the copy for `mode` of the nonzeros, until it returns 1. */
static int each_block(const struct ts_tensor *t, uint32_t mode, const volatile sig_atomic_t *stop,
                      int (*see)(void *arg, const struct ts_block *block), void *arg,
                      struct ts_err *err)
{
    void *raw = aligned_alloc(TS_PAGE, ts_tensor_raw_bytes(t));
    struct ts_block *block = malloc(sizeof *block);
    int end = 0, rc = raw == NULL || block == NULL
                          ? ts_fail(err, TS_ENOMEM, "%s: no memory for a shard", t->path)
                          : 0;
    for (uint64_t s = 0; s < t->mode[mode].disk.n_shards && rc == 0 && !end; s++) {
        rc = ts_tensor_read_shard(t, mode, s, raw, err);
        if (rc == 0)
            rc = ts_stop_check(stop, err);
        for (uint32_t b = 0; b < t->mode[mode].shard[s].n_blocks && rc == 0 && !end; b++) {
            rc = ts_tensor_block(t, mode, s, raw, b, block, err);
            end = rc == 0 && see(arg, block);
        }
    }
    free(block);
    free(raw);
    return rc;
}

int ts_pick_at_least(struct ts_pick *p, const struct ts_tensor *t, uint32_t mode, uint64_t least,
                     const volatile sig_atomic_t *stop, struct ts_err *err)
{
    struct counting c = { .pick = p, .mode = mode, .least = least };
    int rc = need_set(p, t, mode, err);
    if (rc == 0)
        rc = each_block(t, mode, stop, count, &c, err);
    if (rc == 0)
        end_row(&c);
    return rc;
}

/* ------------------------------------------------------------------ kept and held-out nonzeros */

struct dividing {
    const struct ts_tensor *tensor;
    const struct ts_hold_out *hold_out;
    struct ts_pick_sides *sides;
};

static int divide(void *arg, const struct ts_block *block)
{
    const struct dividing *d = arg;
    const struct ts_tensor *t = d->tensor;
    const uint32_t n_codes = ts_header_codes(&t->header);
    struct ts_pick_sides *s = d->sides;
    for (uint32_t i = 0; i < block->n; i++) {
        const double x = ts_tensor_value(t, n_codes > 0 ? block->code[0][i] : 0,
                                         n_codes > 1 ? block->code[1][i] : 0);
        uint64_t hash = ts_hold_out_begin(d->hold_out);
        uint32_t row[TS_MAX_ORDER];
        int side;
        for (uint32_t l = 0; l < t->order; l++)
            row[t->mode[0].disk.level[l]] = block->level[l][i];
        for (uint32_t m = 0; m < t->order; m++)
            hash = ts_hold_out_add(hash, row[m]);
        side = ts_hold_out_held(d->hold_out, hash);
        s->nnz[side]++;
        s->squares[side] += x * x;
    }
    return s->squares[0] >= DBL_MIN && s->squares[1] >= DBL_MIN;
}

int ts_pick_count_sides(const struct ts_hold_out *hold_out, const struct ts_tensor *t,
                        const volatile sig_atomic_t *stop, struct ts_pick_sides *ret,
                        struct ts_err *err)
{
    struct dividing d = { t, hold_out, ret };
    memset(ret, 0, sizeof *ret);
    return each_block(t, 0, stop, divide, &d, err);
}
