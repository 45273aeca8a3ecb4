/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums over the nonzeros and their values by the model: of blocks, of partitions, of all. */
#include "cpd/judge/score.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "base/stop.h"
#include "cpd/judge/score_block.h"
#include "format/arrays/dense.h"
#include "format/shard.h"
#include "format/tensor_kind.h"
#include "model/kruskal_sums.h"
#include "stream/comm.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* of rows on their way to the backend */
#define LONG_RUN    16u                 /* cells of a slice in a block that are summed in lanes */
#define LINE        64u                 /* threads write to lines of their own */

/* A cell among the largest of a thread. */
struct large {
    double magnitude;
    uint64_t place; /* in the copy */
    double value, model;
    uint32_t slot; /* where its rows are */
};

/* What a thread keeps while it works through a partition. */
struct worker {
    _Alignas(LINE) struct ts_score_sums sums; /* of the partition */
    double logs;
    uint64_t unseen;
    uint64_t row; /* of the slice under way, and its sums */
    struct ts_score_sums slice;
    int in_first; /* that slice is the partition's first, which may have begun in the one before */
    uint32_t n_large;
    struct large *large; /* a heap: the root is the least */
    uint32_t *rows;      /* top x order */
};

struct slab_cell {
    double value, model;
    uint32_t row;
};

/* Of a partition: its sums, and those of its first and last slice. */
struct part {
    struct ts_score_sums sums, first, last;
    double logs;
    uint64_t unseen;
    int other;                    /* a value was seen that is no count, or a model not above 0 */
    uint32_t rank;                /* who took it, from 1 */
    uint64_t first_row, last_row; /* the same: there is one, in `first` */
};

struct score {
    const struct ts_score_conf *conf;
    struct ts_score *ret;
    uint64_t n_parts;
    struct part *part;
    struct worker *worker; /* threads */
    /* Sums of slices of a dense tensor, whose cells are not sorted by them: of each partition of a
     * slab its cells, */
    struct slab_cell *slab;
    uint32_t *slab_n;             /* and how many they are */
    uint64_t settled;             /* partitions of the slabs before */
    uint8_t *blank[TS_MAX_ORDER]; /* a bit for each row that is zeros in the model; NULL: none is */
    uint32_t blanks;              /* bit m: mode m has such rows */
    int counts; /* logs are summed: as far as is known all values are counts; atomic */
};

/* ---- the model's rows into the backend ---- */

static uint64_t chunk_rows(uint32_t rank)
{
    return CHUNK_BYTES / (rank * sizeof(double)) + 1;
}

static uint64_t held_index(const struct ts_kruskal *k, uint32_t mode, uint64_t row)
{
    return k->index[mode] == NULL ? row : k->index[mode][row];
}

/* Notes that a row is zeros in the model, whatever its weights; nothing where it is not. */
static int note_blank(struct score *s, uint32_t mode, uint64_t row, const double *numbers,
                      struct ts_err *err)
{
    const uint32_t rank = s->conf->model->rank;
    uint32_t r = 0;
    while (r < rank && numbers[r] == 0)
        r++;
    if (r < rank)
        return 0;
    if (s->blank[mode] == NULL)
        s->blank[mode] = calloc(s->conf->tensor->mode[mode].disk.n_rows / 8 + 1, 1);
    if (s->blank[mode] == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for rows of zeros");
    s->blank[mode][row / 8] |= (uint8_t)(1u << row % 8);
    s->blanks |= 1u << mode;
    return 0;
}

/* Rows of the tensor's used slices from `row` on: n of them. *at: the row of the model to go on
 * from. */
static int gather_rows(struct score *s, uint32_t mode, const uint64_t *index, uint64_t row,
                       uint64_t n, const double *weight, uint64_t *at, double *to,
                       struct ts_err *err)
{
    const struct ts_kruskal *k = s->conf->model;
    const int notes = s->conf->unseen && ts_backend_can(s->conf->backend, TS_CAN_CELLS);
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++, to += k->rank) {
        const uint64_t wanted = index == NULL ? row + i : index[row + i];
        int held;
        while (*at < k->n_rows[mode] && held_index(k, mode, *at) < wanted)
            ++*at;
        held = *at < k->n_rows[mode] && held_index(k, mode, *at) == wanted;
        if (held)
            (void)ts_kruskal_held((void *)(uintptr_t)k, mode, *at, 1, to, NULL);
        else
            memset(to, 0, k->rank * sizeof *to);
        if (notes)
            rc = note_blank(s, mode, row + i, to, err);
        for (uint32_t r = 0; held && weight != NULL && r < k->rank; r++)
            to[r] *= weight[r];
    }
    return rc;
}

static int load_mode(struct score *s, uint32_t mode, double *rows, struct ts_err *err)
{
    const struct ts_score_conf *c = s->conf;
    const struct ts_kruskal *k = c->model;
    const uint64_t n_rows = c->tensor->mode[mode].disk.n_rows, step = chunk_rows(k->rank);
    const double *own = c->weight != NULL ? c->weight : k->weight;
    const double *weight = mode == c->mode ? own : NULL;
    uint64_t *index = NULL, at = 0;
    int rc = ts_tensor_rows(c->tensor, mode, &index, err);
    for (uint64_t row = 0; row < n_rows && rc == 0; row += step) {
        const uint64_t n = n_rows - row < step ? n_rows - row : step;
        rc = gather_rows(s, mode, index, row, n, weight, &at, rows, err);
        if (rc == 0)
            rc = c->backend->put_rows(c->be, mode, row, n, rows, err);
        if (rc == 0)
            rc = ts_stop_check(c->stop, err);
    }
    free(index);
    return rc;
}

static int load_rows(struct score *s, struct ts_err *err)
{
    const struct ts_score_conf *c = s->conf;
    double *rows = malloc(chunk_rows(c->model->rank) * c->model->rank * sizeof *rows);
    int rc = rows == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for rows") : 0;
    for (uint32_t m = 0; m < c->tensor->order && rc == 0; m++)
        rc = load_mode(s, m, rows, err);
    free(rows);
    return rc;
}

/* ---- the largest residuals ---- */

/* Whether a comes behind b. */
static int is_less(const struct large *a, const struct large *b)
{
    return a->magnitude < b->magnitude || (a->magnitude == b->magnitude && a->place > b->place);
}

static void sift_down(struct large *heap, uint32_t n)
{
    const struct large x = heap[0];
    uint32_t i = 0;
    while (2 * i + 1 < n) {
        uint32_t child = 2 * i + 1;
        child += child + 1 < n && is_less(&heap[child + 1], &heap[child]);
        if (!is_less(&heap[child], &x))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = x;
}

static void sift_up(struct large *heap, uint32_t i)
{
    const struct large x = heap[i];
    while (i > 0 && is_less(&x, &heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = x;
}

static void keep_large(const struct score *s, struct worker *w, const struct ts_cells *c)
{
    const uint32_t order = s->conf->tensor->order, top = s->conf->top;
    if (w->n_large == top && !ts_score_reaches(c->n, c->value, c->model, w->large[0].magnitude))
        return;
    for (uint32_t i = 0; i < c->n; i++) {
        struct large x = { .magnitude = fabs(c->value[i] - c->model[i]),
                           .place = c->partition * TS_PARTITION_NNZ + c->first + i,
                           .value = c->value[i],
                           .model = c->model[i] };
        if (w->n_large == top && !is_less(&w->large[0], &x))
            continue;
        x.slot = w->n_large < top ? w->n_large : w->large[0].slot;
        for (uint32_t m = 0; m < order; m++)
            w->rows[(size_t)x.slot * order + m] = c->row[m][i];
        if (w->n_large < top) {
            w->large[w->n_large] = x;
            sift_up(w->large, w->n_large++);
        } else {
            w->large[0] = x;
            sift_down(w->large, top);
        }
    }
}

/* A cell and the thread that has its rows. */
struct found {
    struct large cell;
    const uint32_t *rows;
};

static int by_size(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return is_less(&y->cell, &x->cell) ? -1 : is_less(&x->cell, &y->cell);
}

static int no_memory_for_top(const struct score *s, struct ts_err *err)
{
    return ts_fail(err, TS_ENOMEM, "out of memory for %u residuals", s->conf->top);
}

/* The largest of n come to stand in front; returns how many they are. */
static uint32_t sort_large(const struct score *s, struct found *all, size_t n)
{
    qsort(all, n, sizeof *all, by_size);
    return n < s->conf->top ? (uint32_t)n : s->conf->top;
}

/* One of a rank's largest, on its way to the others. */
struct told {
    struct large cell;
    int there;
    uint32_t row[TS_MAX_ORDER];
};

/* What all ranks have found: *all, to be freed, points into *told, to be freed. */
static int exchange_large(const struct score *s, const struct found *own, uint32_t n_own,
                          struct told **told, struct found **all, size_t *n, struct ts_err *err)
{
    struct ts_comm *c = s->conf->comm;
    const size_t top = s->conf->top;
    uint64_t *first = calloc(c->n + UINT64_C(1), sizeof *first);
    int rc;
    *told = calloc(top * c->n, sizeof **told);
    *all = malloc(top * c->n * sizeof **all);
    *n = 0;
    rc = first == NULL || *told == NULL || *all == NULL ? no_memory_for_top(s, err) : 0;
    for (uint32_t i = 0; i < n_own && rc == 0; i++) {
        struct told *to = *told + top * c->rank + i;
        to->cell = own[i].cell;
        to->there = 1;
        memcpy(to->row, own[i].rows, s->conf->tensor->order * sizeof *to->row);
    }
    for (uint32_t r = 0; r < c->n && rc == 0; r++)
        first[r + 1] = first[r] + top * sizeof **told;
    rc = c->ops->agree(c, rc, err);
    if (rc == 0)
        rc = c->ops->gather(c, *told, first, err);
    for (size_t i = 0; i < top * c->n && rc == 0; i++)
        if ((*told)[i].there)
            (*all)[(*n)++] = (struct found){ (*told)[i].cell, (*told)[i].row };
    free(first);
    return rc;
}

static int keep_top(const struct score *s, const struct found *all, uint32_t n, struct ts_err *err)
{
    s->ret->n_top = n;
    s->ret->top = calloc(n + (size_t)1, sizeof *s->ret->top);
    if (s->ret->top == NULL)
        return no_memory_for_top(s, err);
    for (uint32_t i = 0; i < n; i++) {
        s->ret->top[i].value = all[i].cell.value;
        s->ret->top[i].model = all[i].cell.model;
        memcpy(s->ret->top[i].row, all[i].rows, s->conf->tensor->order * sizeof *all[i].rows);
    }
    return 0;
}

static int collect_large(const struct score *s, struct ts_err *err)
{
    const uint32_t order = s->conf->tensor->order;
    const int many = ts_comm_many(s->conf->comm);
    struct found *own, *all = NULL;
    struct told *told = NULL;
    uint32_t n_own = 0;
    size_t n = 0;
    int rc = 0;
    for (uint32_t t = 0; t < s->conf->threads; t++)
        n += s->worker[t].n_large;
    own = malloc((n + 1) * sizeof *own);
    if (own == NULL)
        rc = no_memory_for_top(s, err);
    n = 0;
    for (uint32_t t = 0; t < s->conf->threads && rc == 0; t++)
        for (uint32_t i = 0; i < s->worker[t].n_large; i++) {
            const struct large *x = &s->worker[t].large[i];
            own[n++] = (struct found){ *x, s->worker[t].rows + (size_t)x->slot * order };
        }
    if (rc == 0)
        n_own = sort_large(s, own, n);
    if (many)
        rc = s->conf->comm->ops->agree(s->conf->comm, rc, err);
    if (rc == 0 && many)
        rc = exchange_large(s, own, n_own, &told, &all, &n, err);
    if (rc == 0 && many)
        n_own = sort_large(s, all, n);
    if (rc == 0)
        rc = keep_top(s, many ? all : own, n_own, err);
    free(own);
    free(all);
    free(told);
    return rc;
}

/* ---- sums ---- */

static void add(struct ts_score_sums *to, const struct ts_score_sums *x)
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

/* Of a block: TS_SCORE_LANES sums of each kind, which do not wait for each other. */
static void add_block(struct ts_score_sums *to, const struct ts_cells *c)
{
    struct ts_score_sums sums;
    ts_score_block(c->n, c->value, c->model, &sums);
    add(to, &sums);
}

/* The same where cells have weights; where all are 1, with the same bits. */
static void add_weighted(struct ts_score_sums *to, const struct ts_cells *c)
{
    struct ts_score_sums lane[TS_SCORE_LANES] = { { 0 } };
    const uint32_t whole = c->n / TS_SCORE_LANES * TS_SCORE_LANES;
    for (uint32_t i = 0; i < c->n; i++)
        add_cell(&lane[i < whole ? i % TS_SCORE_LANES : i - whole], c->value[i], c->model[i],
                 c->weight[i]);
    add(&lane[0], &lane[1]);
    add(&lane[2], &lane[3]);
    add(&lane[0], &lane[2]);
    add(to, &lane[0]);
}

/* x log m of counts. */
static void add_logs(struct score *s, struct worker *w, const struct ts_cells *c)
{
    double sum;
    if (ts_score_logs(c->n, c->value, c->model, &sum))
        w->logs += sum;
    else
        __atomic_store_n(&s->counts, 0, __ATOMIC_RELAXED);
}

/* Cells with an index whose row is zeros: the model is 0 there. */
static uint64_t count_unseen(const struct score *s, const struct ts_cells *c)
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

static void end_slice(const struct score *s, struct worker *w, struct part *p)
{
    if (w->slice.n == 0)
        return;
    if (w->in_first) {
        p->first = w->slice;
        w->in_first = 0;
    } else {
        /* another thread may have the rest of the partition's last slice: that is set right at its
         * end */
        s->ret->slice[w->row] = w->slice;
    }
    memset(&w->slice, 0, sizeof w->slice);
}

/* Cells from .. end - 1 of the block, of one slice. */
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

static void add_slices(const struct score *s, struct worker *w, const struct ts_cells *c)
{
    const uint32_t *row = c->row[s->conf->mode];
    struct part *p = &s->part[c->partition];
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

static void keep_cells(const struct score *s, const struct ts_cells *c)
{
    const uint64_t k = c->partition - s->settled;
    struct slab_cell *to = s->slab + k * TS_PARTITION_NNZ + c->first;
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = (struct slab_cell){ c->value[i], c->model[i], c->row[s->conf->mode][i] };
    s->slab_n[k] = c->first + c->n;
}

/* All cells of a slab are there: they are added in the order of the array. */
static void settle(void *ctx, uint64_t first, uint64_t end)
{
    struct score *s = ctx;
    for (uint64_t k = 0; s->slab != NULL && k < end - first; k++) {
        const struct slab_cell *x = s->slab + k * TS_PARTITION_NNZ;
        for (uint32_t i = 0; i < s->slab_n[k]; i++) {
            add_cell(&s->ret->slice[x[i].row], x[i].value, x[i].model, 1);
        }
    }
    s->settled = end;
}

static int take_block(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err)
{
    struct score *s = ctx;
    struct worker *w = &s->worker[thread];
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
        keep_large(s, w, c);
    if (c->last) {
        s->part[c->partition].sums = w->sums;
        s->part[c->partition].logs = w->logs;
        s->part[c->partition].unseen = w->unseen;
        s->part[c->partition].other = !__atomic_load_n(&s->counts, __ATOMIC_RELAXED);
        s->part[c->partition].rank = ts_comm_many(s->conf->comm) ? s->conf->comm->rank + 1 : 1;
    }
    return s->conf->take == NULL ? 0 : s->conf->take(s->conf->ctx, thread, c, err);
}

/* ---- before and after the pass ---- */

/* Partitions of the largest slab. */
static uint64_t slab_partitions(const struct ts_dense *d)
{
    return (ts_dense_most_bytes(d) / d->cell_bytes + TS_PARTITION_NNZ - 1) / TS_PARTITION_NNZ;
}

static uint64_t dense_bytes(const struct ts_tensor *t, int slices)
{
    return t->dense == NULL || !slices
               ? 0
               : slab_partitions(t->dense) *
                     (TS_PARTITION_NNZ * sizeof(struct slab_cell) + sizeof(uint32_t));
}

uint64_t ts_score_bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank, uint32_t threads,
                        uint32_t n_ranks, uint32_t top, int slices)
{
    const uint64_t cell = sizeof(struct large) + t->order * sizeof(uint32_t);
    uint64_t most = 0, blank = 0;
    for (uint32_t m = 0; m < t->order; m++)
        blank += t->mode[m].disk.n_rows / 8 + 1;
    for (uint32_t m = 0; m < t->order; m++)
        if (t->mode[m].disk.rows_bytes > 0 && t->mode[m].disk.n_rows > most)
            most = t->mode[m].disk.n_rows;
    return ts_tensor_partitions(t, mode) * sizeof(struct part) + threads * sizeof(struct worker) +
           top * (uint64_t)threads * (cell + sizeof(struct found)) +
           top * (uint64_t)sizeof(struct ts_score_cell) +
           (n_ranks > 1 ? top * (uint64_t)n_ranks * (sizeof(struct told) + sizeof(struct found))
                        : 0) +
           dense_bytes(t, slices) +
           (slices ? t->mode[mode].disk.n_rows * sizeof(struct ts_score_sums) : 0) +
           most * sizeof(uint64_t) + blank + chunk_rows(rank) * rank * sizeof(double);
}

static int new_sums(struct score *s, struct ts_err *err)
{
    const struct ts_score_conf *c = s->conf;
    const uint64_t n_rows = c->tensor->mode[c->mode].disk.n_rows;
    int there;
    s->n_parts = ts_tensor_partitions(c->tensor, c->mode);
    s->part = calloc(s->n_parts + 1, sizeof *s->part);
    s->worker = aligned_alloc(LINE, c->threads * sizeof *s->worker);
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

static void free_sums(struct score *s)
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

/* Slices that lie within one partition are on the rank that took it; a rank's begin with the first
 * slice of its first partition, which is none of these. */
static int gather_slices(struct score *s, struct ts_err *err)
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
        for (uint32_t r = c->n; r > 0; r--) /* a rank may have no partition */
            first[r - 1] = first[r - 1] == UINT64_MAX ? first[r] : first[r - 1];
        first[0] = 0;
    }
    rc = c->ops->agree(c, rc, err);
    if (rc == 0)
        rc = c->ops->gather(c, s->ret->slice, first, err);
    free(first);
    return rc;
}

/* What follows from the sums. */
static int judge(struct score *s, double logs, struct ts_err *err)
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

static int conclude(struct score *s, struct ts_err *err)
{
    struct ts_score *ret = s->ret;
    double logs = 0;
    int rc = ts_comm_many(s->conf->comm) && s->conf->slices ? gather_slices(s, err) : 0;
    if (rc < 0)
        return rc;
    for (uint64_t k = 0; k < s->n_parts; k++) {
        const struct part *p = &s->part[k];
        add(&ret->all, &p->sums);
        logs += p->logs;
        ret->unseen += p->unseen;
        s->counts &= !p->other;
        if (!s->conf->slices || s->slab != NULL)
            continue;
        add(&ret->slice[p->first_row], &p->first);
        if (p->last_row != p->first_row)
            add(&ret->slice[p->last_row], &p->last);
    }
    rc = judge(s, logs, err);
    if (ts_comm_many(s->conf->comm))
        rc = s->conf->comm->ops->agree(s->conf->comm, rc, err);
    return rc == 0 && s->conf->top > 0 ? collect_large(s, err) : rc;
}

/* Whether the backend sums in a pass of its own. */
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
                           TS_NTH_MODE " of the model has %" PRIu64
                                       " indices, of the tensor %" PRIu64,
                           m + 1, c->model->dim[m], c->tensor->mode[m].disk.dim);
    return ts_backend_check(c->backend,
                            c->take != NULL || c->top > 0 ? TS_CAN(CELLS)
                            : !sums_apart(c)              ? 0
                            : c->slices                   ? TS_CAN(SCORES) | TS_CAN(SLICES)
                                                          : TS_CAN(SCORES),
                            err);
}

/* All that is there to know comes from a pass that lends the nonzeros with their models. */
static int take_cells(struct score *s, struct ts_err *err)
{
    const struct ts_score_conf *conf = s->conf;
    struct ts_weighted what = {
        .take = take_block, .settle = settle, .ctx = s, .rows = conf->rows
    };
    int rc = new_sums(s, err);
    what.rows |= conf->slices ? 1u << conf->mode : 0;
    what.rows |= conf->top > 0 ? (1u << conf->tensor->order) - 1 : 0;
    if (rc == 0)
        rc = load_rows(s, err);
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

/* Sums alone, from a backend that has them in a pass. */
static int take_sums(struct score *s, struct ts_err *err)
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
        rc = load_rows(s, err);
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
    struct score s = { .conf = conf, .ret = &result, .counts = !ts_tensor_weighted(conf->tensor) };
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
