/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes a score: allocates memory, makes the pass, and derives figures from the sums. */
#include "cpd/judge/score.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "cpd/judge/score_parts.h"
#include "format/arrays/dense.h"
#include "format/shard.h"
#include "format/tensor_kind.h"
#include "model/kruskal_sums.h"
#include "stream/comm.h"

/* Returns the number of partitions of the largest slab (a part of a dense tensor that is read as a
 * whole). */
static uint64_t slab_partitions(const struct ts_dense *d)
{
    return (ts_dense_most_bytes(d) / d->cell_bytes + TS_PARTITION_NNZ - 1) / TS_PARTITION_NNZ;
}

static uint64_t dense_bytes(const struct ts_tensor *t, int slices)
{
    return t->dense == NULL || !slices
               ? 0
               : slab_partitions(t->dense) *
                     (TS_PARTITION_NNZ * sizeof(struct ts_score_slab_cell) + sizeof(uint32_t));
}

uint64_t ts_score_bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank, uint32_t threads,
                        uint32_t n_ranks, uint32_t top, int slices)
{
    uint64_t most = 0, blank = 0;
    for (uint32_t m = 0; m < t->order; m++)
        blank += t->mode[m].disk.n_rows / 8 + 1;
    for (uint32_t m = 0; m < t->order; m++)
        if (t->mode[m].disk.rows_bytes > 0 && t->mode[m].disk.n_rows > most)
            most = t->mode[m].disk.n_rows;
    return ts_tensor_partitions(t, mode) * sizeof(struct ts_score_part) +
           threads * sizeof(struct ts_score_worker) +
           ts_score_large_bytes(t, threads, n_ranks, top) + dense_bytes(t, slices) +
           (slices ? t->mode[mode].disk.n_rows * sizeof(struct ts_score_sums) : 0) +
           most * sizeof(uint64_t) + blank + ts_score_chunk_rows(rank) * rank * sizeof(double);
}

static int new_sums(struct ts_scoring *s, struct ts_err *err)
{
    const struct ts_score_conf *c = s->conf;
    const uint64_t n_rows = c->tensor->mode[c->mode].disk.n_rows;
    int there;
    s->n_parts = ts_tensor_partitions(c->tensor, c->mode);
    s->part = calloc(s->n_parts + 1, sizeof *s->part);
    s->worker = aligned_alloc(TS_SCORE_LINE, c->threads * sizeof *s->worker);
    if (s->worker != NULL)
        memset(s->worker, 0, c->threads * sizeof *s->worker);
    there = s->part != NULL && s->worker != NULL;
    for (uint32_t t = 0; t < c->threads && there && c->top > 0; t++) {
        s->worker[t].large = malloc(c->top * sizeof *s->worker[t].large);
        s->worker[t].rows = malloc((size_t)c->top * c->tensor->order * sizeof(uint32_t));
        there = s->worker[t].large != NULL && s->worker[t].rows != NULL;
    }
    if (there && c->slices) {
        s->ret->n_slices = n_rows;
        s->ret->slice = calloc(n_rows + 1, sizeof *s->ret->slice);
        there = s->ret->slice != NULL;
    }
    if (there && c->slices && c->tensor->dense != NULL) {
        const uint64_t n = slab_partitions(c->tensor->dense);
        s->slab = malloc(n * TS_PARTITION_NNZ * sizeof *s->slab);
        s->slab_n = malloc(n * sizeof *s->slab_n);
        there = s->slab != NULL && s->slab_n != NULL;
    }
    return there ? 0 : ts_fail(err, TS_ENOMEM, "out of memory for sums of residuals");
}

static void free_sums(struct ts_scoring *s)
{
    for (uint32_t t = 0; t < s->conf->threads && s->worker != NULL; t++) {
        free(s->worker[t].large);
        free(s->worker[t].rows);
    }
    free(s->worker);
    free(s->part);
    free(s->slab);
    free(s->slab_n);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(s->blank[m]);
}

/* Computes the log-likelihoods from the sums of residuals. logs: the sum of x log m over the
 * nonzeros, with values x and model values m. */
static int judge(struct ts_scoring *s, double logs, struct ts_err *err)
{
    struct ts_score *ret = s->ret;
    double mean, total;
    int rc;
    if (!isfinite(ret->all.squares))
        return ts_fail(
            err, TS_ELIMIT,
            "values of the model leave the range of numbers: scale its weights, or compute in "
            "float64 instead of float32");
    mean = ret->all.weight > 0 ? ret->all.squares / ret->all.weight : 0;
    ret->gaussian = mean > 0 ? -0.5 * ret->all.weight * (1 + log(2 * M_PI * mean)) : NAN;
    ret->poisson = NAN;
    if (!s->counts)
        return 0;
    rc = ts_kruskal_total(s->conf->model, s->conf->threads, s->conf->stop, &total, err);
    if (rc == 0 && isfinite(total))
        ret->poisson = logs - total;
    return rc;
}

static int conclude(struct ts_scoring *s, struct ts_err *err)
{
    struct ts_score *ret = s->ret;
    double logs = 0;
    int rc = ts_comm_many(s->conf->comm) && s->conf->slices ? ts_score_gather_slices(s, err) : 0;
    if (rc < 0)
        return rc;
    for (uint64_t k = 0; k < s->n_parts; k++) {
        const struct ts_score_part *p = &s->part[k];
        ts_score_add(&ret->all, &p->sums);
        logs += p->logs;
        ret->unseen += p->unseen;
        s->counts &= !p->other;
        if (!s->conf->slices || s->slab != NULL)
            continue;
        ts_score_add(&ret->slice[p->first_row], &p->first);
        if (p->last_row != p->first_row)
            ts_score_add(&ret->slice[p->last_row], &p->last);
    }
    rc = judge(s, logs, err);
    if (ts_comm_many(s->conf->comm))
        rc = s->conf->comm->ops->agree(s->conf->comm, rc, err);
    return rc == 0 && s->conf->top > 0 ? ts_score_collect_large(s, err) : rc;
}

/* Whether the backend computes the sums itself, in a pass that does not hand out nonzeros. */
static int sums_apart(const struct ts_score_conf *c)
{
    return !ts_backend_can(c->backend, TS_CAN_CELLS);
}

static int check(const struct ts_score_conf *c, struct ts_err *err)
{
    if (c->model->order != c->tensor->order)
        return ts_fail(err, TS_EARG, "the model has %u modes, the tensor %u", c->model->order,
                       c->tensor->order);
    for (uint32_t m = 0; m < c->model->order; m++)
        if (c->model->dim[m] != c->tensor->mode[m].disk.dim)
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE " of the model has %" PRIu64 " %s, of the tensor %" PRIu64,
                           m + 1, c->model->dim[m], c->model->dim[m] == 1 ? "index" : "indices",
                           c->tensor->mode[m].disk.dim);
    return ts_backend_check(c->backend,
                            c->take != NULL || c->top > 0 ? TS_CAN(CELLS)
                            : !sums_apart(c)              ? 0
                            : c->slices                   ? TS_CAN(SCORES) | TS_CAN(SLICES)
                                                          : TS_CAN(SCORES),
                            err);
}

/* Computes all figures in a pass that hands out the nonzeros with their model values. */
static int take_cells(struct ts_scoring *s, struct ts_err *err)
{
    const struct ts_score_conf *conf = s->conf;
    struct ts_weighted what = {
        .take = ts_score_take_block, .settle = ts_score_settle, .ctx = s, .rows = conf->rows
    };
    int rc = new_sums(s, err);
    what.rows |= conf->slices ? 1u << conf->mode : 0;
    what.rows |= conf->top > 0 ? (1u << conf->tensor->order) - 1 : 0;
    if (rc == 0)
        rc = ts_score_load_rows(s, err);
    what.rows |= s->blanks;
    what.part = s->part;
    what.part_bytes = sizeof *s->part;
    if (rc == 0) {
        ts_feed_rewind(conf->feed);
        rc = conf->backend->pass(
            &(struct ts_request){ .be = conf->be, .kind = TS_REQUEST_CELLS, .cells = &what }, 1,
            conf->mode, conf->feed, &s->ret->times, err);
    }
    if (rc == 0)
        rc = conclude(s, err);
    free_sums(s);
    return rc;
}

/* Computes sums of residuals alone, with a backend that has a pass for them. */
static int take_sums(struct ts_scoring *s, struct ts_err *err)
{
    const struct ts_score_conf *conf = s->conf;
    struct ts_score *ret = s->ret;
    struct ts_scores sums = { .counts = s->counts };
    int rc = 0;
    if (conf->slices) {
        ret->n_slices = conf->tensor->mode[conf->mode].disk.n_rows;
        ret->slice = sums.slice = calloc(ret->n_slices + 1, sizeof *ret->slice);
        rc =
            ret->slice == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for sums of residuals") : 0;
    }
    if (rc == 0)
        rc = ts_score_load_rows(s, err);
    if (rc == 0) {
        ts_feed_rewind(conf->feed);
        rc = conf->backend->pass(
            &(struct ts_request){ .be = conf->be, .kind = TS_REQUEST_SCORES, .scores = &sums }, 1,
            conf->mode, conf->feed, &ret->times, err);
    }
    ret->all = sums.all;
    ret->unseen = conf->unseen ? TS_SCORE_UNKNOWN : 0;
    s->counts = sums.counts;
    return rc == 0 ? judge(s, sums.logs, err) : rc;
}

int ts_score_run(const struct ts_score_conf *conf, struct ts_score *ret, struct ts_err *err)
{
    struct ts_score result = { 0 };
    struct ts_scoring s = { .conf = conf,
                            .ret = &result,
                            .counts = !ts_tensor_weighted(conf->tensor) };
    int rc = check(conf, err);
    if (rc == 0)
        rc = sums_apart(conf) ? take_sums(&s, err) : take_cells(&s, err);
    if (rc == 0)
        *ret = result;
    else
        ts_score_free(&result);
    return rc;
}

void ts_score_free(struct ts_score *s)
{
    free(s->slice);
    free(s->top);
    memset(s, 0, sizeof *s);
}
