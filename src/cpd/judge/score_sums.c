/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums residuals: of blocks, of partitions, and of the slices of a mode. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "cpd/judge/score_block.h"
#include "cpd/judge/score_parts.h"
#include "format/shard.h"
#include "stream/comm.h"

/* this many consecutive cells of a slice, or more, are summed in lanes (score_block.h); fewer are
 * summed one by one */
#define LONG_RUN 16u

void ts_score_add(struct ts_score_sums *to, const struct ts_score_sums *x)
{
    to->n += x->n;
    to->weight += x->weight;
    to->value += x->value;
    to->model += x->model;
    to->squares += x->squares;
    to->magnitudes += x->magnitudes;
}

static void add_cell(struct ts_score_sums *to, double value, double model, double weight)
{
    const double r = value - model;
    to->n++;
    to->weight += weight;
    to->value += weight * value;
    to->model += weight * model;
    to->squares += weight * (r * r);
    to->magnitudes += weight * fabs(r);
}

/* Adds the sums of residuals of a block whose cells have no weights. TS_SCORE_LANES independent
 * sums let additions overlap. */
static void add_block(struct ts_score_sums *to, const struct ts_cells *c)
{
    struct ts_score_sums sums;
    ts_score_block(c->n, c->value, c->model, &sums);
    ts_score_add(to, &sums);
}

/* Adds the sums of residuals of a block whose cells have weights. With weights of 1 the bits are
 * those of add_block. */
static void add_weighted(struct ts_score_sums *to, const struct ts_cells *c)
{
    struct ts_score_sums lane[TS_SCORE_LANES] = { { 0 } };
    const uint32_t whole = c->n / TS_SCORE_LANES * TS_SCORE_LANES;
    for (uint32_t i = 0; i < c->n; i++)
        add_cell(&lane[i < whole ? i % TS_SCORE_LANES : i - whole], c->value[i], c->model[i],
                 c->weight[i]);
    ts_score_add(&lane[0], &lane[1]);
    ts_score_add(&lane[2], &lane[3]);
    ts_score_add(&lane[0], &lane[2]);
    ts_score_add(to, &lane[0]);
}

/* Adds the block's sum of x log m, or records that a value is not a count or a model value not
 * positive. */
static void add_logs(struct ts_scoring *s, struct ts_score_worker *w, const struct ts_cells *c)
{
    double sum;
    if (ts_score_logs(c->n, c->value, c->model, &sum))
        w->logs += sum;
    else
        __atomic_store_n(&s->counts, 0, __ATOMIC_RELAXED);
}

/* Counts cells where some mode's row in the model is all zeros. The model is 0 there. */
static uint64_t count_unseen(const struct ts_scoring *s, const struct ts_cells *c)
{
    uint64_t ret = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        int unseen = 0;
        for (uint32_t m = 0; m < s->conf->tensor->order && !unseen && c->model[i] == 0; m++)
            unseen = (s->blanks >> m & 1) != 0 &&
                     (s->blank[m][c->row[m][i] / 8] >> c->row[m][i] % 8 & 1) != 0;
        ret += (uint64_t)unseen;
    }
    return ret;
}

static void end_slice(const struct ts_scoring *s, struct ts_score_worker *w,
                      struct ts_score_part *p)
{
    if (w->slice.n == 0)
        return;
    if (w->in_first) {
        p->first = w->slice;
        w->in_first = 0;
    } else {
        /* this slice is whole; add_slices keeps the partition's last slice, which may continue in
         * the next partition */
        s->ret->slice[w->row] = w->slice;
    }
    memset(&w->slice, 0, sizeof w->slice);
}

/* Adds the cells from .. end - 1 of a block, which are all in one slice, to the sums of this
 * slice. */
static void add_run(struct ts_score_sums *to, const struct ts_cells *c, uint32_t from, uint32_t end)
{
    const struct ts_cells run = { .n = end - from,
                                  .value = c->value + from,
                                  .model = c->model + from,
                                  .weight = c->weight == NULL ? NULL : c->weight + from };
    if (run.n >= LONG_RUN) {
        (run.weight == NULL ? add_block : add_weighted)(to, &run);
        return;
    }
    for (uint32_t i = 0; i < run.n; i++)
        add_cell(to, run.value[i], run.model[i], run.weight == NULL ? 1 : run.weight[i]);
}

static void add_slices(const struct ts_scoring *s, struct ts_score_worker *w,
                       const struct ts_cells *c)
{
    const uint32_t *row = c->row[s->conf->mode];
    struct ts_score_part *p = &s->part[c->partition];
    for (uint32_t i = 0, end; i < c->n; i = end) {
        for (end = i + 1; end < c->n && row[end] == row[i];)
            end++;
        if (row[i] != w->row) {
            end_slice(s, w, p);
            w->row = row[i];
        }
        add_run(&w->slice, c, i, end);
    }
    if (!c->last)
        return;
    p->last_row = w->row;
    if (w->in_first)
        p->first = w->slice;
    else
        p->last = w->slice;
}

static void keep_cells(const struct ts_scoring *s, const struct ts_cells *c)
{
    const uint64_t k = c->partition - s->settled;
    struct ts_score_slab_cell *to = s->slab + k * TS_PARTITION_NNZ + c->first;
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = (struct ts_score_slab_cell){ c->value[i], c->model[i], c->row[s->conf->mode][i] };
    s->slab_n[k] = c->first + c->n;
}

/* Adds the known cells of a slab (a part of a dense tensor) to the sums of their slices, in the
 * order of the array. */
void ts_score_settle(void *ctx, uint64_t first, uint64_t end)
{
    struct ts_scoring *s = ctx;
    for (uint64_t k = 0; s->slab != NULL && k < end - first; k++) {
        const struct ts_score_slab_cell *x = s->slab + k * TS_PARTITION_NNZ;
        for (uint32_t i = 0; i < s->slab_n[k]; i++) {
            add_cell(&s->ret->slice[x[i].row], x[i].value, x[i].model, 1);
        }
    }
    s->settled = end;
}

int ts_score_take_block(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err)
{
    struct ts_scoring *s = ctx;
    struct ts_score_worker *w = &s->worker[thread];
    int rc = ts_stop_check(s->conf->stop, err);
    if (rc < 0)
        return rc;
    if (c->first == 0) {
        memset(&w->sums, 0, sizeof w->sums);
        memset(&w->slice, 0, sizeof w->slice);
        w->logs = 0;
        w->unseen = 0;
        w->in_first = 1;
        if (s->conf->slices && s->slab == NULL)
            w->row = s->part[c->partition].first_row = c->row[s->conf->mode][0];
    }
    if (c->weight != NULL)
        add_weighted(&w->sums, c);
    else
        add_block(&w->sums, c);
    if (__atomic_load_n(&s->counts, __ATOMIC_RELAXED))
        add_logs(s, w, c);
    if (s->blanks != 0)
        w->unseen += count_unseen(s, c);
    if (s->slab != NULL)
        keep_cells(s, c);
    else if (s->conf->slices)
        add_slices(s, w, c);
    if (s->conf->top > 0)
        ts_score_keep_large(s, w, c);
    if (c->last) {
        s->part[c->partition].sums = w->sums;
        s->part[c->partition].logs = w->logs;
        s->part[c->partition].unseen = w->unseen;
        s->part[c->partition].other = !__atomic_load_n(&s->counts, __ATOMIC_RELAXED);
        s->part[c->partition].rank = ts_comm_many(s->conf->comm) ? s->conf->comm->rank + 1 : 1;
    }
    return s->conf->take == NULL ? 0 : s->conf->take(s->conf->ctx, thread, c, err);
}

/* Sends the sums of residuals of slices to all ranks (processes). The rank that worked through a
 * partition has the sums of the partition's slices. So a rank's slices begin with the first slice
 * of its first partition, whose sums are completed later. */
int ts_score_gather_slices(struct ts_scoring *s, struct ts_err *err)
{
    struct ts_comm *c = s->conf->comm;
    const uint64_t bytes = sizeof *s->ret->slice;
    uint64_t *first = malloc((c->n + UINT64_C(1)) * sizeof *first);
    int rc = first == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for sums of residuals") : 0;
    for (uint32_t r = 0; r <= c->n && rc == 0; r++)
        first[r] = UINT64_MAX;
    for (uint64_t k = s->n_parts; k > 0 && rc == 0; k--)
        first[s->part[k - 1].rank - 1] = s->part[k - 1].first_row * bytes;
    if (rc == 0) {
        first[c->n] = s->ret->n_slices * bytes;
        /* a rank (process) without partitions has an empty range of slices */
        for (uint32_t r = c->n; r > 0; r--)
            first[r - 1] = first[r - 1] == UINT64_MAX ? first[r] : first[r - 1];
        first[0] = 0;
    }
    rc = c->ops->agree(c, rc, err);
    if (rc == 0)
        rc = c->ops->gather(c, s->ret->slice, first, err);
    free(first);
    return rc;
}
