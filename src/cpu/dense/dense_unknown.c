/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the unknown cells of a dense tensor as bits, and sorts those of a slab by rows. Each thread
 * works on its own part of the slab. */
#include "cpu/dense/dense_unknown.h"

#include <assert.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "cpu/extent.h"
#include "cpu/pass_loop.h"
#include "format/arrays/dense.h"
#include "format/arrays/dense_held.h"

#define WORD  64u /* bits of a word, one for each cell */
#define WORDS 8u  /* number of words of bits that are computed at a time */

struct ts_dense_unknown {
    const struct ts_tensor *tensor;
    uint32_t threads;
    struct ts_hold_out hold_out; /* the held-out cells of the last search for unknown cells */
    int found;
    uint64_t *count[TS_DENSE_MAX_ORDER];
    uint64_t slab_words; /* number of bit words of the largest slab */
    uint64_t *bits;      /* slab_words for each slab; NULL: bits are not kept */
    uint64_t most_keys;
    /* threads x most_keys: number of cells for each key (a row and a part), then the place of the
     * next cell */
    uint32_t *at;
    /* most_keys + 1: where the cells of each key (a row and a part) begin in `cell` */
    uint32_t *start;
    /* cells in the order in which threads find them; those of a thread begin at the position of the
     * first cell of its part of the slab */
    uint32_t *raw;
    uint32_t *cell;  /* cells sorted by key (a row and a part) */
    uint32_t *n_raw; /* number of cells that each thread has found */
    char *memory;
    uint64_t memory_bytes;
};

static uint64_t slab_words(const struct ts_dense *d)
{
    return (ts_dense_most_bytes(d) / d->cell_bytes + WORD - 1) / WORD;
}

static int keeps_bits(const struct ts_dense_unknown_conf *c)
{
    const struct ts_dense *d = c->tensor->dense;
    return slab_words(d) * d->n_slabs * sizeof(uint64_t) <= c->bit_bytes;
}

/* Places all arrays in the memory at `base`, or only counts their bytes if that is NULL. Returns
 * the bytes. */
static uint64_t lay_out(const struct ts_dense_unknown_conf *c, struct ts_dense_unknown *u,
                        char *base)
{
    const struct ts_tensor *t = c->tensor;
    const uint64_t words = slab_words(t->dense), cell = sizeof *u->cell;
    uint64_t at = 0;
    for (uint32_t m = 0; m < t->order; m++)
        u->count[m] = ts_place(base, &at, t->dense->array.dim[m] * sizeof *u->count[m]);
    u->bits =
        keeps_bits(c) ? ts_place(base, &at, words * t->dense->n_slabs * sizeof *u->bits) : NULL;
    u->at = ts_place(base, &at, c->most_keys * c->threads * sizeof *u->at);
    u->start = ts_place(base, &at, (c->most_keys + 1) * sizeof *u->start);
    u->raw = ts_place(base, &at, words * WORD * cell);
    u->cell = ts_place(base, &at, words * WORD * cell);
    u->n_raw = ts_place(base, &at, c->threads * sizeof *u->n_raw);
    return at;
}

uint64_t ts_dense_unknown_bytes(const struct ts_dense_unknown_conf *conf)
{
    struct ts_dense_unknown shape;
    return sizeof shape + ts_bigmem_cost(lay_out(conf, &shape, NULL));
}

int ts_dense_unknown_new(const struct ts_dense_unknown_conf *conf, struct ts_dense_unknown **ret,
                         struct ts_err *err)
{
    struct ts_dense_unknown *u = calloc(1, sizeof *u);
    int rc;
    if (u == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    u->tensor = conf->tensor;
    u->threads = conf->threads;
    u->most_keys = conf->most_keys;
    u->slab_words = slab_words(conf->tensor->dense);
    u->memory_bytes = lay_out(conf, u, NULL);
    rc = ts_bigmem_new(u->memory_bytes, "lists of unknown cells", (void **)&u->memory, err);
    if (rc < 0) {
        free(u);
        return rc;
    }
    lay_out(conf, u, u->memory);
    *ret = u;
    return 0;
}

void ts_dense_unknown_free(struct ts_dense_unknown *u)
{
    if (u == NULL)
        return;
    ts_bigmem_free(u->memory, u->memory_bytes);
    free(u);
}

const uint64_t *ts_dense_unknown_counts(const struct ts_dense_unknown *u, uint32_t mode)
{
    return u->count[mode];
}

/* ---- the row of a cell ---- */

/* The rows of a mode in the order of the array: each has `behind` cells in a run, and the rows
 * repeat after `period` cells. */
struct rows {
    uint64_t behind, period, begin; /* begin: first cell of the period that row_at used last */
    double inverse;
};

static struct rows rows_of(const struct ts_dense *d, uint32_t mode)
{
    uint64_t behind = 1;
    for (uint32_t l = d->array.order; l-- > 0 && d->layout[l] != mode;)
        behind *= d->array.dim[d->layout[l]];
    return (struct rows){ behind, behind * d->array.dim[mode], 0, 1 / (double)behind };
}

/* Returns the row of a cell. A division of 64 bits would take longer than all other work on a cell.
 * Cell numbers are below 2^52, so the float64 quotient is exact or off by one. */
static inline uint64_t row_at(struct rows *r, uint64_t cell)
{
    uint64_t at = cell - r->begin, row;
    if (at >= r->period) {
        r->begin = cell / r->period * r->period;
        at = cell - r->begin;
    }
    if (r->behind == 1)
        return at;
    row = (uint64_t)((double)at * r->inverse);
    row -= row * r->behind > at;
    return row + (at - row * r->behind >= r->behind);
}

/* ---- bits of unknown cells ---- */

struct slab {
    uint64_t number, base, cells;
    const void *data; /* the cells; NULL: their bits were stored before, and are used instead */
};

static uint64_t *bits_of(const struct ts_dense_unknown *u, const struct slab *s)
{
    return u->bits + s->number * u->slab_words;
}

/* ret := a bit for each of n cells of the slab, from `at` on, in up to WORDS words. It is 1 if the
 * cell is unknown. */
static void look(const struct ts_dense_unknown *u, const struct slab *s, uint64_t at, uint32_t n,
                 uint64_t *ret)
{
    double x[WORDS * WORD];
    unsigned char held[WORDS * WORD];
    ts_dense_get_f64(u->tensor->dense, s->data, at, n, x);
    for (uint32_t i = 0; i < n; i++)
        held[i] = x[i] != x[i];
    if (u->hold_out.share > 0) {
        unsigned char more[WORDS * WORD];
        ts_dense_held(u->tensor->dense, &u->hold_out, s->base + at, n, more);
        for (uint32_t i = 0; i < n; i++)
            held[i] |= more[i];
    }
    memset(held + n, 0, sizeof held - n);
    for (uint32_t k = 0; k < WORDS; k++) {
        ret[k] = 0;
        for (uint32_t b = 0; b < WORD / 8; b++) { /* eight bytes of 0 or 1 become eight bits */
            uint64_t bytes;
            memcpy(&bytes, held + k * WORD + b * 8, sizeof bytes);
            ret[k] |= (bytes * UINT64_C(0x0102040810204080) >> 56) << (8 * b);
        }
    }
}

/* ---- listing unknown or known cells ---- */

/* ret := the unknown cells among n cells from `at` on. Returns their number. */
static uint32_t unknown_of(const uint64_t *bits, uint64_t at, uint32_t n, uint32_t *ret)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i * WORD < n; i++)
        for (uint64_t left = bits[i]; left != 0; left &= left - 1)
            ret[k++] = (uint32_t)(at + i * WORD + (uint32_t)__builtin_ctzll(left));
    return k;
}

/* ret := those of n cells from `at` on that are to be listed: of a row, either its known or its
 * unknown cells. Returns their number. */
static uint32_t wanted_of(const struct ts_dense_unknown *u, const struct ts_dense_wanted *w,
                          const struct slab *s, const uint64_t *bits, uint64_t at, uint32_t n,
                          uint32_t *ret)
{
    struct rows r = rows_of(u->tensor->dense, w->mode);
    const uint64_t dim = u->tensor->dense->array.dim[w->mode];
    uint64_t row = row_at(&r, s->base + at);
    uint64_t left = r.behind - (s->base + at - r.begin) % r.behind;
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t unknown = bits[i / WORD] >> i % WORD & 1;
        ret[k] = (uint32_t)(at + i);
        k += row >= w->first && row < w->end && unknown != w->known[row];
        if (--left > 0)
            continue;
        left = r.behind;
        row = row + 1 == dim ? 0 : row + 1;
    }
    return k;
}

static int wants_unknown(const struct ts_dense_unknown *u, const struct ts_dense_wanted *w)
{
    return w == NULL ||
           (!w->some_known && w->first == 0 && w->end == u->tensor->dense->array.dim[w->mode]);
}

/* Lists the cells that `w` asks for (w NULL: all unknown cells) in thread me's part of a slab,
 * which consists of whole words of bits. Returns the list. */
static uint32_t *list_part(const struct ts_dense_unknown *u, const struct ts_dense_wanted *w,
                           const struct slab *s, uint32_t me, uint32_t team)
{
    const uint64_t words = (s->cells + WORD - 1) / WORD;
    const uint64_t first = words * me / team * WORD, end = words * (me + UINT64_C(1)) / team * WORD;
    uint32_t *raw = u->raw + first, n = 0;
    uint64_t made[WORDS];
    for (uint64_t at = first; at < end && at < s->cells; at += WORDS * WORD) {
        const uint64_t stop = end < s->cells ? end : s->cells;
        const uint32_t k = stop - at < WORDS * WORD ? (uint32_t)(stop - at) : WORDS * WORD;
        const uint64_t *bits = made;
        if (s->data == NULL)
            bits = bits_of(u, s) + at / WORD;
        else
            look(u, s, at, k, made);
        if (s->data != NULL && u->bits != NULL)
            memcpy(bits_of(u, s) + at / WORD, made, (k + WORD - 1) / WORD * sizeof *made);
        n += wants_unknown(u, w) ? unknown_of(bits, at, k, raw + n)
                                 : wanted_of(u, w, s, bits, at, k, raw + n);
    }
    u->n_raw[me] = n;
    return raw;
}

/* ---- counting unknown cells ---- */

static void count_slab(struct ts_dense_unknown *u, const struct slab *s)
{
    const struct ts_dense *d = u->tensor->dense;
#pragma omp parallel num_threads(u->threads)
    {
        const uint32_t me = (uint32_t)omp_get_thread_num(), team = (uint32_t)omp_get_num_threads();
        const uint64_t words = (s->cells + WORD - 1) / WORD;
        list_part(u, NULL, s, me, team);
#pragma omp barrier
#pragma omp for schedule(dynamic)
        for (uint32_t m = 0; m < d->array.order; m++) {
            struct rows r = rows_of(d, m);
            for (uint32_t t = 0; t < team; t++)
                for (uint32_t i = 0; i < u->n_raw[t]; i++)
                    u->count[m][row_at(&r, s->base + u->raw[words * t / team * WORD + i])]++;
        }
    }
}

static struct slab slab_of(const struct ts_dense *d, uint64_t k, const void *data)
{
    struct ts_dense_part part;
    ts_dense_slab(d, k, &part);
    return (struct slab){ k, part.row * d->inner + part.col, part.rows * part.cols, data };
}

static int has_any(const struct ts_dense_unknown *u)
{
    return u->tensor->dense->n_unknown > 0 || u->hold_out.share > 0;
}

static int visit_counted(void *ctx, const struct ts_loan *loan, struct ts_err *err)
{
    struct ts_dense_unknown *u = ctx;
    const struct slab s = slab_of(u->tensor->dense, loan->slab.number, loan->slab.cells);
    (void)err;
    count_slab(u, &s);
    return 0;
}

int ts_dense_unknown_find(struct ts_dense_unknown *u, const struct ts_hold_out *hold_out,
                          struct ts_feed *feed, struct ts_err *err)
{
    const struct ts_dense *d = u->tensor->dense;
    struct ts_loan loan;
    struct ts_pass_loop loop = {
        .feed = feed, .loan = &loan, .shard = visit_counted, .ctx = u, .err = err
    };
    int rc = 0;
    if (u->found && ts_hold_out_same(&u->hold_out, hold_out))
        return 0;
    u->found = 0;
    u->hold_out = *hold_out;
    for (uint32_t m = 0; m < d->array.order; m++)
        memset(u->count[m], 0, d->array.dim[m] * sizeof *u->count[m]);
    if (has_any(u))
        rc = ts_pass_loop_run(&loop);
    u->found = rc == 0;
    return rc;
}

/* ---- lists of cells sorted by row ---- */

/* Sets *first .. *end - 1 to the wanted rows of the mode that have cells in the slab. */
static void slab_rows(const struct ts_dense *d, const struct ts_dense_wanted *w,
                      const struct slab *s, uint64_t *first, uint64_t *end)
{
    struct rows r = rows_of(d, w->mode);
    const uint64_t one = row_at(&r, s->base), begin = r.begin;
    const uint64_t other = row_at(&r, s->base + s->cells - 1);
    *first = w->first;
    *end = w->end;
    if (r.begin != begin)
        return;
    *first = one > w->first ? one : w->first;
    *end = other + 1 < w->end ? other + 1 : w->end;
}

/* Sorts the cells that threads have listed: counts the cells of each key (a row and a part) for
 * each thread, computes their places, and stores them. */
static void list_slab(struct ts_dense_unknown *u, const struct ts_dense_wanted *w,
                      const struct slab *s, uint64_t first, uint64_t keys)
{
    const uint64_t part_cells = (s->cells + w->parts - 1) / w->parts;
#pragma omp parallel num_threads(u->threads)
    {
        const uint32_t me = (uint32_t)omp_get_thread_num(), team = (uint32_t)omp_get_num_threads();
        const uint32_t *raw = list_part(u, w, s, me, team), n = u->n_raw[me];
        uint32_t *at = u->at + me * keys;
        struct rows r = rows_of(u->tensor->dense, w->mode);
        uint64_t part = 0;
        memset(at, 0, keys * sizeof *at);
        for (uint32_t i = 0; i < n; i++) {
            while (raw[i] >= (part + 1) * part_cells)
                part++;
            at[(row_at(&r, s->base + raw[i]) - first) * w->parts + part]++;
        }
#pragma omp barrier
#pragma omp for schedule(static)
        for (uint64_t k = 0; k < keys; k++) {
            u->start[k + 1] = 0;
            for (uint32_t t = 0; t < team; t++)
                u->start[k + 1] += u->at[t * keys + k];
        }
#pragma omp single
        {
            u->start[0] = 0;
            for (uint64_t k = 0; k < keys; k++)
                u->start[k + 1] += u->start[k];
        }
#pragma omp for schedule(static)
        for (uint64_t k = 0; k < keys; k++)
            for (uint32_t t = 0, to = u->start[k], of; t < team; t++, to += of) {
                of = u->at[t * keys + k];
                u->at[t * keys + k] = to;
            }
        part = 0;
        for (uint32_t i = 0; i < n; i++) {
            while (raw[i] >= (part + 1) * part_cells)
                part++;
            u->cell[at[(row_at(&r, s->base + raw[i]) - first) * w->parts + part]++] = raw[i];
        }
    }
}

/* The function that receives the lists, and its arguments. */
struct taker {
    struct ts_dense_unknown *unknown;
    const struct ts_dense_wanted *wanted;
    ts_dense_take *take;
    void *ctx;
};

static void give(const struct taker *t, const struct slab *s)
{
    struct ts_dense_unknown *u = t->unknown;
    const struct ts_dense_wanted *w = t->wanted;
    uint64_t first, end;
    slab_rows(u->tensor->dense, w, s, &first, &end);
    if (first >= end)
        return;
    list_slab(u, w, s, first, (end - first) * w->parts);
    t->take(t->ctx,
            &(struct ts_dense_list){ s->base, first, (end - first) * w->parts, u->start, u->cell });
}

static int visit_listed(void *ctx, const struct ts_loan *loan, struct ts_err *err)
{
    const struct taker *t = ctx;
    const struct slab s = slab_of(t->unknown->tensor->dense, loan->slab.number, loan->slab.cells);
    (void)err;
    give(t, &s);
    return 0;
}

int ts_dense_unknown_list(struct ts_dense_unknown *u, const struct ts_dense_wanted *w,
                          ts_dense_take *take, void *ctx, struct ts_feed *feed, struct ts_err *err)
{
    const struct ts_dense *d = u->tensor->dense;
    struct taker t = { u, w, take, ctx };
    struct ts_loan loan;
    struct ts_pass_loop loop = {
        .feed = feed, .loan = &loan, .shard = visit_listed, .ctx = &t, .err = err
    };
    assert(u->found && (w->end - w->first) * w->parts <= u->most_keys);
    if (!has_any(u))
        return 0;
    if (u->bits == NULL)
        return ts_pass_loop_run(&loop);
    for (uint64_t k = 0; k < d->n_slabs; k++) {
        const struct slab s = slab_of(d, k, NULL);
        give(&t, &s);
    }
    return 0;
}
