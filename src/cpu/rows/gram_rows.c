/* SPDX-License-Identifier: BSD-3-Clause */
/* gram_rows.c - sums the Gram matrices of rows, and solves for the rows. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine/fpmode.h"
#include "cpu/rows/bounded_row.h"
#include "cpu/rows/gram_state.h"
#include "cpu/ranks/share.h"

/* remainders of a diagonal entry below this many epsilons of it are rounding errors */
#define CUT_ROUNDINGS 8.0

static double cut_of(const struct ts_gram_rows *g)
{
    return CUT_ROUNDINGS *
           (g->precision == TS_FLOAT32 ? (double)FLT_EPSILON : DBL_EPSILON * g->rank);
}

void ts_gram_rows_begin(struct ts_gram_rows *g, const struct ts_row_update *update,
                        const uint8_t *level, int weights, struct ts_fmat *out)
{
    g->update = update;
    g->weights = weights;
    g->level = level;
    g->out = out;
    for (uint32_t i = 0; i < g->threads && update->hold_out.share == 0; i++)
        for (uint32_t p = 0; p < TS_BLOCK_NNZ; p++)
            g->thread[i].kept[p] = (uint16_t)p;
    /* bounded rows need their Gram matrix a second time, so they are solved one by one */
    g->together =
        update->lower > -INFINITY || update->upper < INFINITY ? 1 : ts_gram_together_of(g->rank);
    for (uint32_t i = 0; i < g->threads; i++)
        ts_short_rows_begin(&g->thread[i].shorts, update, cut_of(g), out);
}

/* ---- solving a row ---- */

static void clear(struct ts_gram_thread *t)
{
    t->sum.more = 0;
    t->count = 0;
}

/* Sets the sums of the current row to zero if no nonzero has been added yet. */
static void begin_sum(struct ts_gram_thread *t)
{
    if (t->sum.more)
        return;
    memset(t->sum.s, 0,
           (uint64_t)ts_gram_square_rows(t->sum.rank) * t->sum.stride * sizeof *t->sum.s);
    memset(t->sum.m, 0, t->sum.stride * sizeof *t->sum.m);
    t->sum.more = 1;
}

/* Restores the order of the diagonal blocks of the row's Gram matrix (ts_gram_straighten). */
static void straighten(struct ts_gram_thread *t)
{
    begin_sum(t);
    ts_gram_straighten(&t->sum, t->turned);
}

/* Replaces the solution of S a = m by the best row within the bounds (bounded_row.h). sum.s has the
 * upper triangle of S. */
static void find_bounded(struct ts_gram_thread *t)
{
    const struct ts_gram_rows *g = t->all;
    const uint32_t stride = g->stride;
    struct ts_bounded_row b = {
        .sum = &t->sum,
        .ops = g->ops,
        .lower = g->update->lower,
        .upper = g->update->upper,
        .diagonal = t->diagonal,
        .cut = cut_of(g),
        .tolerance = g->precision == TS_FLOAT32 ? 1e-7 : 1e-15,
        .s = t->s,
        .row = { t->bounded, t->bounded + stride, t->bounded + 2 * (size_t)stride,
                 t->bounded + 3 * (size_t)stride },
    };
    for (uint32_t i = 0; i < g->rank; i++)
        for (uint32_t j = 0; j < i; j++)
            t->sum.s[(size_t)i * stride + j] = t->sum.s[(size_t)j * stride + i];
    ts_bounded_row_find(&b, t->a);
}

/* Adds the penalty of the rows solved so far to that of their partition (`size` of struct
 * ts_row_sums). The rows that follow are in partition `at`. */
static void settle(struct ts_gram_thread *t, uint64_t at)
{
    t->all->size[t->size_at] += t->size;
    t->size = 0;
    t->size_at = at;
}

/* Stores the row `from`, whose entries are `step` apart, and adds its penalty. count: number of its
 * nonzeros or sum of their weights; 0: the row becomes zero, or the bound next to zero. */
static void keep(struct ts_gram_thread *t, uint32_t row, double count, const double *from,
                 uint32_t step, uint64_t partition)
{
    const struct ts_gram_rows *g = t->all;
    const uint64_t at = row * (uint64_t)g->out->stride;
    const double none = fmin(fmax(0, g->update->lower), g->update->upper);
    double square = 0;
    for (uint32_t i = 0; i < g->rank; i++) {
        const double a = count > 0 ? from[(size_t)i * step] : none;
        double kept = a;
        if (g->precision == TS_FLOAT32)
            kept = ((float *)g->out->data)[at + i] = (float)a;
        else
            ((double *)g->out->data)[at + i] = a;
        square += kept * kept;
    }
    if (partition != t->size_at)
        settle(t, partition);
    t->size += (g->update->by_count ? count : 1) * square;
}

/* Solves for a row from its sums. whole: the matrix from which its Gram matrix was subtracted, or
 * NULL. */
static void solve_of(struct ts_gram_thread *t, uint32_t row, const double *whole)
{
    struct ts_gram_rows *g = t->all;
    const struct ts_row_update *update = g->update;
    const double l2 = update->l2 * (update->by_count ? t->count : 1);
    straighten(t);
    for (uint32_t i = 0; i < g->rank; i++) {
        double *entry = &t->sum.s[(size_t)i * g->stride + i];
        *entry += l2;
        t->diagonal[i] = whole != NULL ? whole[(size_t)i * g->rank + i] + l2 : *entry;
    }
    memcpy(t->s, t->sum.s, (uint64_t)g->rank * g->stride * sizeof *t->s);
    g->ops->solve(&t->sum, t->s, t->diagonal, cut_of(g), t->a);
    if (update->lower > -INFINITY || update->upper < INFINITY)
        find_bounded(t);
    keep(t, row, t->count, t->a, 1, t->at);
}

/* Solves for the rows whose sums are complete and that wait to be solved for together. */
static void solve_waiting(struct ts_gram_thread *t)
{
    const struct ts_gram_rows *g = t->all;
    struct ts_rowsystems *x = &t->systems;
    const uint64_t square = (uint64_t)ts_gram_square_rows(g->rank) * g->stride;
    if (g->together == 1) /* each row was solved at once, and none waits */
        return;
    x->n = t->waiting;
    x->turned = t->turned;
    x->cut = cut_of(g);
    for (uint32_t k = 0; k < TS_ROWBLOCK_SYSTEMS; k++) {
        /* a lane without a row gets the sums of the first row */
        const uint32_t from = k < x->n ? k : 0;
        x->s[k] = t->sums + from * ts_gram_sum_size(g->rank, g->precision);
        x->m[k] = x->s[k] + square;
        x->more[k] = g->update->l2 * (g->update->by_count ? t->wait[from].count : 1);
    }
    if (x->n > 0)
        g->blocks->systems(x);
    for (uint32_t k = 0; k < x->n; k++)
        keep(t, t->wait[k].row, t->wait[k].count, x->a + k, TS_ROWBLOCK_SYSTEMS, t->wait[k].at);
    t->waiting = 0;
    ts_gram_next_sum(t);
}

/* Solves the row that was summed, or lets it wait until more rows can be solved together. */
static void solve(struct ts_gram_thread *t, uint32_t row)
{
    if (t->all->together == 1) {
        solve_of(t, row, NULL);
        return;
    }
    begin_sum(t);
    t->wait[t->waiting++] = (struct ts_gram_waiting){ row, t->at, t->count };
    if (t->waiting == t->all->together)
        solve_waiting(t);
    else
        ts_gram_next_sum(t);
}

static void pack(struct ts_gram_thread *t, double *to)
{
    straighten(t);
    for (uint32_t i = 0; i < t->sum.rank; to += t->sum.rank - i, i++)
        memcpy(to, t->sum.s + (size_t)i * t->sum.stride + i, (t->sum.rank - i) * sizeof *to);
    memcpy(to, t->sum.m, t->sum.rank * sizeof *to);
    to[t->sum.rank] = t->count;
}

static void add_packed(struct ts_gram_thread *t, const double *from)
{
    begin_sum(t);
    for (uint32_t i = 0; i < t->sum.rank; i++)
        for (uint32_t j = i; j < t->sum.rank; j++)
            t->sum.s[(size_t)i * t->sum.stride + j] += *from++;
    for (uint32_t i = 0; i < t->sum.rank; i++)
        t->sum.m[i] += *from++;
    t->count += *from;
}

double ts_gram_rows_solve(struct ts_gram_rows *g, uint32_t thread, uint32_t row,
                          const double *packed, const double *whole, uint32_t rank)
{
    struct ts_gram_thread *t = &g->thread[thread];
    assert(rank == g->rank);
    (void)rank;
    t->turned = 0;
    clear(t);
    add_packed(t, packed);
    t->size = 0;
    solve_of(t, row, whole);
    return t->size;
}

/* ---- the rows of a partition ---- */

static double *part_at(const struct ts_gram_rows *g, uint64_t partition, int last)
{
    return g->parts + (2 * partition + (uint64_t)last) * g->part;
}

/* Ends the current row, because another row begins (last 0) or the partition ends (last 1). The
 * first and the last row of a partition are stored as parts (partial sums); other rows are
 * solved. */
static void end_row(struct ts_gram_thread *t, int last)
{
    if (t->row == t->first)
        pack(t, part_at(t->all, t->at, 0));
    else if (last)
        pack(t, part_at(t->all, t->at, 1));
    else if (t->count > 0)
        solve(t, t->row);
    else
        keep(t, t->row, 0, NULL, 0, t->at);
    clear(t);
}

/* Sets t->kept to the positions of a block that are not held out. Returns their number. */
static uint32_t choose(struct ts_gram_thread *t, const struct ts_unpacked *b)
{
    const struct ts_gram_rows *g = t->all;
    const struct ts_hold_out *h = &g->update->hold_out;
    uint32_t n = 0;
    if (h->share == 0)
        return b->n;
    ts_kernel_hash(h, g->order, g->level, b, t->hash);
    for (uint32_t p = 0; p < b->n; p++)
        if (!ts_hold_out_held(h, t->hash[p]))
            t->kept[n++] = (uint16_t)p;
    return n;
}

static void subtract_mean(const struct ts_gram_rows *g, struct ts_unpacked *b)
{
    const double mean = g->update->mean;
    for (uint32_t p = 0; p < b->n && mean != 0; p++)
        if (g->precision == TS_FLOAT32)
            b->value.f[p] = (float)(b->value.f[p] - mean);
        else
            b->value.d[p] -= mean;
}

/* Multiplies values and row products (of the other factors' rows) by the square roots of the
 * weights. So products of two of them are weighted. */
static void weigh(struct ts_gram_thread *t, struct ts_unpacked *b)
{
    const struct ts_gram_rows *g = t->all;
    const uint32_t stride = g->stride;
    for (uint32_t p = 0; p < b->n; p++)
        if (g->precision == TS_FLOAT32) {
            const float root = sqrtf(b->weight[p]);
            float *row = (float *)t->product + (size_t)p * stride;
            b->value.f[p] *= root;
            for (uint32_t i = 0; i < stride; i++)
                row[i] *= root;
        } else {
            const double root = sqrt((double)b->weight[p]);
            double *row = (double *)t->product + (size_t)p * stride;
            b->value.d[p] *= root;
            for (uint32_t i = 0; i < stride; i++)
                row[i] *= root;
        }
}

/* Returns the number of cells at[0 .. n - 1] of a block, or the sum of their weights. */
static double count_of(const struct ts_gram_thread *t, const struct ts_unpacked *b,
                       const uint16_t *at, uint32_t n)
{
    double sum = 0;
    if (!t->all->weights)
        return n;
    for (uint32_t k = 0; k < n; k++)
        sum += b->weight[at[k]];
    return sum;
}

/* Adds the current row to the rows of few nonzeros, which are solved for without Gram matrices
 * (short_rows.h). It ends in this block, where its cells are t->kept[from .. end - 1]. Returns 0 if
 * the row has other cells too, or is not short. */
static int take_short(struct ts_gram_thread *t, const struct ts_unpacked *b, uint32_t from,
                      uint32_t end)
{
    struct ts_short_rows *s = &t->shorts;
    const uint16_t *at = t->kept + from;
    const uint32_t n = end - from;
    if (n == 0 || n > s->most || t->sum.more || t->row == t->first ||
        !ts_short_rows_add(s, t->product, b, at, n, count_of(t, b, at, n), t->row))
        return 0;
    if (ts_short_rows_full(s))
        t->size += ts_short_rows_solve(s, t->product);
    return 1;
}

static void take_block(void *ctx, struct ts_unpacked *b)
{
    struct ts_gram_thread *t = ctx;
    const uint32_t n = choose(t, b);
    uint32_t at = 0;
    subtract_mean(t->all, b);
    if (t->all->weights)
        weigh(t, b);
    if (!t->begun)
        t->first = t->row = b->row;
    t->begun = 1;
    if (b->row != t->row) { /* a row may start at the first nonzero of a block */
        end_row(t, 0);
        t->row = b->row;
    }
    for (uint32_t s = 0;; s++) {
        const uint32_t end = s < b->n_starts ? b->start[s] : b->n, from = at;
        if (n == b->n)
            at = end;
        while (at < n && t->kept[at] < end)
            at++;
        if (s == b->n_starts || !take_short(t, b, from, at)) {
            if (at > from) {
                t->all->ops->add(&t->sum, t->product, b, t->kept + from, at - from);
                t->sum.more = 1;
            }
            t->count += count_of(t, b, t->kept + from, at - from);
            if (s == b->n_starts)
                break;
            end_row(t, 0);
        }
        t->row = b->row + s + 1;
    }
    t->size += ts_short_rows_solve(&t->shorts, t->product);
}

void ts_gram_rows_take(struct ts_gram_rows *g, uint32_t thread, const struct ts_kernel_job *job,
                       const struct ts_kernel_input *in, struct ts_kernel_scratch *scratch,
                       uint64_t at)
{
    struct ts_gram_thread *t = &g->thread[thread];
    t->at = t->size_at = at;
    t->turned = g->ops->turned;
    t->begun = 0;
    t->size = g->size[at] = 0;
    clear(t);
    g->ops->pass(job, in, scratch, t->product, take_block, t);
    g->edge[at] = (struct ts_kernel_edge){ t->first, t->row };
    end_row(t, 1);
    solve_waiting(t);
    settle(t, at);
}

/* ---- rows with partial sums in several partitions ---- */

/* Adds part i (the sums of a row over one partition) of the parts of n partitions, and solves for
 * the row if this is its last part. */
static void fold_part(struct ts_gram_rows *g, uint64_t i, uint64_t n)
{
    struct ts_gram_thread *t = &g->thread[0];
    const uint64_t k = i / 2;
    const struct ts_kernel_edge *e = &g->edge[k];
    const int one = e->first == e->last, last = i % 2 == 1;
    if (last && one)
        return;
    add_packed(t, part_at(g, k, last));
    if ((last || one) && k + 1 < n && g->edge[k + 1].first == e->last)
        return;
    solve(t, last ? e->last : e->first);
    clear(t);
}

/* Adds the parts (sums of rows over single partitions) begin .. end - 1, and solves for the rows
 * that end among them. */
static void fold(struct ts_gram_rows *g, uint64_t begin, uint64_t end, uint64_t n)
{
    struct ts_gram_thread *t = &g->thread[0];
    const uint64_t mode = ts_fpmode_flush();
    t->size = 0;
    t->size_at = begin / 2;
    t->turned = 0;
    clear(t);
    for (uint64_t i = begin; i < end; i++) {
        t->at = i / 2;
        fold_part(g, i, n);
    }
    solve_waiting(t);
    if (begin < end)
        settle(t, 0);
    ts_fpmode_restore(mode);
}

static double add_sizes(const struct ts_gram_rows *g, uint64_t n)
{
    double sum = 0;
    for (uint64_t k = 0; k < n; k++)
        sum += g->size[k];
    return sum;
}

void ts_gram_rows_end(struct ts_gram_rows *g, uint64_t n, double *size)
{
    fold(g, 0, 2 * n, n);
    if (size != NULL)
        *size = add_sizes(g, n);
}

int ts_gram_rows_end_shared(struct ts_gram_rows *g, struct ts_share *share, uint32_t mode, int rc,
                            double *size, uint64_t *exchange_ns, struct ts_err *err)
{
    const uint64_t n = ts_share_partitions(share, mode), start = ts_clock_ns();
    uint64_t begin, end, folded;
    rc = ts_share_ends(share, mode, rc, g->edge, g->parts, g->part * sizeof *g->parts, &begin, &end,
                       err);
    if (rc < 0)
        return rc;
    *exchange_ns = ts_clock_ns() - start;
    fold(g, begin, end, n);
    folded = ts_clock_ns();
    rc = ts_share_gather_parts(share, mode, g->size, sizeof *g->size, err);
    *exchange_ns += ts_clock_ns() - folded;
    if (rc == 0 && size != NULL)
        *size = add_sizes(g, n);
    return rc;
}
