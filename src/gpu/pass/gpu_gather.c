/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges rows between members (GPUs) in a pass: makes the spans of rows of each member and the
 * gathers, and computes the spans of members in other processes. */
#include "gpu/pass/gpu_gather.h"

#include <cuda_runtime.h>

#include "base/trace.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/team/gpu_team.h"

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "row solves");
}

/* Finds the rows of shards first..last that no other shard shares. Rows that two of these shards
 * share are included; every member (GPU) overwrites them when the pass ends. Returns 0 if there are
 * none. */
static int inner_rows(const struct ts_gpu_mode *m, uint64_t first, uint64_t last, uint64_t *row,
                      uint64_t *n)
{
    *row = (uint64_t)m->shard[first].row_first + 1;
    if (m->shard[last].row_last <= *row)
        return 0;
    *n = m->shard[last].row_last - *row;
    return 1;
}

/* For a multiplicative update: finds the rows of shards first..last that no other shard shares,
 * which are complete. Returns 0 if there are none. */
static int multiplied_rows(const struct ts_gpu_mode *m, uint64_t first, uint64_t last,
                           uint64_t *row, uint64_t *n)
{
    const struct ts_disk_shard *s = m->shard;
    uint64_t end = (uint64_t)s[last].row_last + 1;
    *row = s[first].row_first;
    *row += first > 0 && s[first - 1].row_last == *row;
    end -= last + 1 < m->n_shards && (uint64_t)s[last + 1].row_first + 1 == end;
    *n = end > *row ? end - *row : 0;
    return *n > 0;
}

int ts_gpu_gather_rows_of(const struct ts_gpu_product *r, uint64_t first, uint64_t last,
                          uint64_t *row, uint64_t *n)
{
    const struct ts_gpu_pass *p = r->pass;
    if (ts_gpu_only_sums(p->ask))
        return 0;
    if (p->ask->kind != TS_REQUEST_MULTIPLY)
        return inner_rows(p->mode, first, last, row, n);
    return r->rounds > 0 && multiplied_rows(p->mode, first, last, row, n);
}

int ts_gpu_gather_sends_edges(const struct ts_gpu_product *r)
{
    const struct ts_gpu_request *ask = r->pass->ask;
    return !ts_gpu_only_sums(ask) && (ask->kind != TS_REQUEST_MULTIPLY || r->rounds > 0);
}

int ts_gpu_gather_next_run(const struct ts_gpu_pass *p, uint32_t number, uint64_t *first,
                           uint64_t *last, uint64_t end)
{
    const unsigned char *taken = p->g->board.taken;
    while (*first < end && taken[*first] != number)
        ++*first;
    if (*first == end)
        return 0;
    for (*last = *first; *last + 1 < end && taken[*last + 1] == number; ++*last)
        ;
    return 1;
}

int ts_gpu_gather_with_inner(const struct ts_gpu_product *r)
{
    if (ts_gpu_solves_observed(r))
        return r->sums->size != NULL;
    return r->update != NULL && r->sums->inner != NULL && !r->apart;
}

void ts_gpu_gather_open(struct ts_gpu_pass *p, uint32_t i, struct ts_exchange_part *part)
{
    struct ts_gpu_board *b = &p->g->board;
    part->span = b->span[i] + b->n_span[i];
    part->n = 0;
}

void ts_gpu_gather_add(struct ts_gpu_pass *p, uint32_t i, struct ts_exchange_part *part,
                       uint64_t offset, uint64_t bytes)
{
    struct ts_gpu_board *b = &p->g->board;
    b->span[i][b->n_span[i]++] = (struct ts_exchange_span){ offset, bytes };
    part->n++;
}

uint64_t ts_gpu_gather_row_bytes(const struct ts_gpu_product *r)
{
    return r->apart ? r->out_bytes : ts_gpu_row_bytes(r->of);
}

void ts_gpu_gather_inner(struct ts_gpu_product *r, uint32_t number, uint32_t k)
{
    struct ts_gpu_pass *p = r->pass;
    const struct ts_exchange_part *rows = &r->of->sent.rows[k][number];
    struct ts_exchange_part *inner = &r->of->sent.inner[k][number];
    const uint64_t row = ts_gpu_row_bytes(r->of);
    ts_gpu_gather_open(p, number, inner);
    for (uint32_t i = 0; ts_gpu_gather_with_inner(r) && i < rows->n; i++)
        ts_gpu_gather_add(p, number, inner, rows->span[i].offset / row * 8,
                          rows->span[i].bytes / row * 8);
}

static int anything(const struct ts_gpu *g, const struct ts_exchange_part *part)
{
    for (uint32_t i = 0; i < g->n_members; i++)
        if (part[i].n > 0)
            return 1;
    return 0;
}

static uint64_t part_bytes(const struct ts_exchange_part *part)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < part->n; i++)
        sum += part->span[i].bytes;
    return sum;
}

static void *address(const struct ts_gpu_replica *m, enum ts_gpu_buffer buffer, uint32_t mode)
{
    switch (buffer) {
    case TS_GPU_FACTOR:
        return m->factor[mode];
    case TS_GPU_PRODUCT:
        return m->product;
    case TS_GPU_APART:
        return m->apart;
    case TS_GPU_ROW_INNER:
        return m->row_inner;
    case TS_GPU_SHARD_EDGE:
        return m->shard_edge;
    case TS_GPU_ENDS:
        return m->ends;
    case TS_GPU_PARTS:
        return m->parts;
    }
    return NULL;
}

int ts_gpu_gather_buffer(struct ts_gpu_product *r, enum ts_gpu_buffer buffer,
                         const struct ts_exchange_part *part, struct ts_err *err)
{
    struct ts_gpu_pass *p = r->pass;
    struct ts_gpu *g = p->g;
    struct ts_gpu_member *me = p->me;
    void *base[TS_MAX_TEAM];
    ts_gpu_error e = cudaSuccess;
    int rc;
    if (!anything(g, part))
        return 0;
    for (uint32_t i = 0; i < g->n_members; i++)
        base[i] = ts_gpu_is_here(g, i)
                      ? address(&g->member[i].replica[r->of->number], buffer, p->ask->mode)
                      : NULL;
    if (!p->exchanging)
        e = ts_gpu_log_start(&me->log, TS_GPU_EXCHANGE, "exchange", TS_TRACE_EXCHANGE, me->send);
    if (e != cudaSuccess)
        return fail(err, e);
    p->exchanging = 1;
    rc = ts_exchange_gather(g->exchange, me->number, base, part, me->send, err);
    p->exchanged_bytes += part_bytes(&part[me->number]);
    return rc;
}

int ts_gpu_gather_end(struct ts_gpu_pass *p, struct ts_err *err)
{
    ts_gpu_error e = cudaSuccess;
    if (p->exchanging)
        e = ts_gpu_log_stop(&p->me->log, p->me->send, p->n_exchanges++, p->exchanged_bytes);
    p->exchanging = 0;
    p->exchanged_bytes = 0;
    return e == cudaSuccess ? 0 : fail(err, e);
}

int ts_gpu_gather_rows(struct ts_gpu_pass *p, uint32_t k, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < p->n && rc == 0; i++) {
        struct ts_gpu_product *r = &p->product[i];
        rc = ts_gpu_gather_buffer(r, r->apart ? r->out : TS_GPU_FACTOR, r->of->sent.rows[k], err);
        if (rc == 0)
            rc = ts_gpu_gather_buffer(r, TS_GPU_ROW_INNER, r->of->sent.inner[k], err);
    }
    return rc;
}

/* Ends the gathers of a pass. After a barrier, when all members (GPUs) have enqueued their gathers,
 * the stream me->dense is made to wait for the rows of other members. */
int ts_gpu_rows_receive(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu_member *me = p->me;
    int rc = ts_gpu_gather_end(p, err);
    ts_gpu_error e;
    if (rc == 0)
        rc = ts_gpu_team_barrier(p->g, err);
    if (rc == 0)
        rc = ts_exchange_join(p->g->exchange, me->number, me->send, err);
    if (rc < 0)
        return rc;
    e = cudaEventRecord(me->received, me->send);
    TRY(e, cudaStreamWaitEvent(me->dense, me->received, 0));
    return e == cudaSuccess ? 0 : fail(err, e);
}

static void expect_chunk(struct ts_gpu_product *r, uint32_t number, uint32_t c)
{
    struct ts_gpu_pass *p = r->pass;
    const uint64_t end = ts_gpu_chunk(p->g, p->mode, number, c + 1);
    struct ts_exchange_part *part = &r->of->sent.rows[c][number];
    uint64_t first = ts_gpu_chunk(p->g, p->mode, number, c), last, row, n;
    ts_gpu_gather_open(p, number, part);
    for (; ts_gpu_gather_next_run(p, number, &first, &last, end); first = last + 1)
        if (ts_gpu_gather_rows_of(r, first, last, &row, &n))
            ts_gpu_gather_add(p, number, part, row * ts_gpu_gather_row_bytes(r),
                              n * ts_gpu_gather_row_bytes(r));
    ts_gpu_gather_inner(r, number, c);
}

/* Returns the bytes of the partial sums of a shard's first or last row: an edge row (a row of the
 * product) or, for observed cells, a part (a Gram matrix, see observed_kernel.h). */
static uint64_t end_bytes(const struct ts_gpu_product *r)
{
    return ts_gpu_solves_observed(r) ? ts_gpu_observed_part_bytes(r->of)
                                     : ts_gpu_edge_bytes(r->of, r->wide);
}

void ts_gpu_gather_edges(struct ts_gpu_product *r, uint32_t number)
{
    struct ts_gpu_pass *p = r->pass;
    const uint64_t bytes = end_bytes(r);
    struct ts_exchange_part *edges = &r->of->sent.edges[number];
    uint64_t last;
    ts_gpu_gather_open(p, number, edges);
    for (uint64_t i = 0; ts_gpu_gather_sends_edges(r) &&
                         ts_gpu_gather_next_run(p, number, &i, &last, p->mode->n_shards);
         i = last + 1)
        ts_gpu_gather_add(p, number, edges, 2 * i * bytes, 2 * (last + 1 - i) * bytes);
}

void ts_gpu_rows_expect(struct ts_gpu_pass *p)
{
    const struct ts_gpu *g = p->g;
    for (uint32_t i = 0; i < g->n_members; i++)
        for (uint32_t k = 0; k < p->n && !ts_gpu_is_here(g, i); k++) {
            for (uint32_t c = 0; c < g->board.n_chunks; c++)
                expect_chunk(&p->product[k], i, c);
            ts_gpu_gather_edges(&p->product[k], i);
        }
}
