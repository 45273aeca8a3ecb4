/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the largest residuals, with a heap for each thread, and merges them over threads and ranks
 * (processes). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpd/judge/score_block.h"
#include "cpd/judge/score_parts.h"
#include "format/shard.h"
#include "stream/comm.h"

/* Whether a comes after b in the result: its residual is smaller, or equal and later in the
 * tensor's copy. */
static int is_less(const struct ts_score_large *a, const struct ts_score_large *b)
{
    return a->magnitude < b->magnitude || (a->magnitude == b->magnitude && a->place > b->place);
}

static void sift_down(struct ts_score_large *heap, uint32_t n)
{
    const struct ts_score_large x = heap[0];
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

static void sift_up(struct ts_score_large *heap, uint32_t i)
{
    const struct ts_score_large x = heap[i];
    while (i > 0 && is_less(&x, &heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = x;
}

void ts_score_keep_large(const struct ts_scoring *s, struct ts_score_worker *w,
                         const struct ts_cells *c)
{
    const uint32_t order = s->conf->tensor->order, top = s->conf->top;
    if (w->n_large == top && !ts_score_reaches(c->n, c->value, c->model, w->large[0].magnitude))
        return;
    for (uint32_t i = 0; i < c->n; i++) {
        struct ts_score_large x = { .magnitude = fabs(c->value[i] - c->model[i]),
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

/* A cell and its row numbers, which are in the memory of a thread or in a message. */
struct found {
    struct ts_score_large cell;
    const uint32_t *rows;
};

static int by_size(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return is_less(&y->cell, &x->cell) ? -1 : is_less(&x->cell, &y->cell);
}

static int no_memory_for_top(const struct ts_scoring *s, struct ts_err *err)
{
    return ts_fail(err, TS_ENOMEM, "out of memory for %u residuals", s->conf->top);
}

/* Sorts n cells, the largest residual first. Returns how many of them the user asked for, at most
 * n. */
static uint32_t sort_large(const struct ts_scoring *s, struct found *all, size_t n)
{
    qsort(all, n, sizeof *all, by_size);
    return n < s->conf->top ? (uint32_t)n : s->conf->top;
}

/* The form in which a rank (process) sends one of its cells with the largest residuals to the
 * others. */
struct told {
    struct ts_score_large cell;
    int there;
    uint32_t row[TS_MAX_ORDER];
};

uint64_t ts_score_large_bytes(const struct ts_tensor *t, uint32_t threads, uint32_t n_ranks,
                              uint32_t top)
{
    const uint64_t cell = sizeof(struct ts_score_large) + t->order * sizeof(uint32_t);
    return top * (uint64_t)threads * (cell + sizeof(struct found)) +
           top * (uint64_t)sizeof(struct ts_score_cell) +
           (n_ranks > 1 ? top * (uint64_t)n_ranks * (sizeof(struct told) + sizeof(struct found))
                        : 0);
}

/* Collects the cells with the largest residuals of all ranks (processes) in *all, which points into
 * *told. The caller frees both. */
static int exchange_large(const struct ts_scoring *s, const struct found *own, uint32_t n_own,
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

static int keep_top(const struct ts_scoring *s, const struct found *all, uint32_t n,
                    struct ts_err *err)
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

int ts_score_collect_large(const struct ts_scoring *s, struct ts_err *err)
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
            const struct ts_score_large *x = &s->worker[t].large[i];
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
