/* SPDX-License-Identifier: BSD-3-Clause */
/* What a pass does with complete rows: solves them, sends them to the other members, and computes
 * the Gram matrix. */
#include <cuda_runtime.h>

#include "base/trace.h"
#include "gpu/dense_kernel.h"
#include "gpu/edge_kernel.h"
#include "gpu/gpu_fail.h"
#include "gpu/gpu_state.h"

/* From so many columns on, members divide the rows of an update that reads the old rows. Its time
 * for a row grows with their square, the time to send the row with their number; at 32 columns
 * these are about equal over NVLink. */
#define SHARE_COLUMNS 64

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "row solves");
}

/* Makes `dense` wait for all work that the member's other streams have been given so far. */
static ts_gpu_error join_compute(struct ts_gpu_pass *p)
{
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e = cudaSuccess;
    for (int i = 0; i < TS_GPU_STREAMS && e == cudaSuccess; i++) {
        if ((p->unjoined & 1u << i) == 0)
            continue;
        e = cudaEventRecord(me->joined[i], me->compute[i]);
        TRY(e, cudaStreamWaitEvent(me->dense, me->joined[i], 0));
    }
    p->unjoined = 0;
    return e;
}

/* ---- spans of what a member has */

/* The rows of shards first..last that no shard outside them has a part of. Rows that two of these
 * shards share are included; every member overwrites those at the end. 0: there are none. */
static int inner_rows(const struct ts_gpu_mode *m, uint64_t first, uint64_t last, uint64_t *row,
                      uint64_t *n)
{
    *row = (uint64_t)m->shard[first].row_first + 1;
    if (m->shard[last].row_last <= *row)
        return 0;
    *n = m->shard[last].row_last - *row;
    return 1;
}

/* Of rows that are multiplied, all that no shard outside of first..last has a part of: they are done. */
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

/* The rows of shards first..last that the member sends of a model. 0: there are none. */
static int sent_rows(const struct ts_gpu_product *r, uint64_t first, uint64_t last, uint64_t *row,
                     uint64_t *n)
{
    const struct ts_gpu_pass *p = r->pass;
    if (ts_gpu_only_sums(p->ask))
        return 0;
    if (p->ask->kind != TS_REQUEST_MULTIPLY)
        return inner_rows(p->mode, first, last, row, n);
    return r->rounds > 0 && multiplied_rows(p->mode, first, last, row, n);
}

/* A pass that judges rows has no products. */
static int sends_edges(const struct ts_gpu_product *r)
{
    const struct ts_gpu_request *ask = r->pass->ask;
    return !ts_gpu_only_sums(ask) && (ask->kind != TS_REQUEST_MULTIPLY || r->rounds > 0);
}

/* The next range of consecutive shards that a member computes, at or after *first and below end.
 * 0: there is none. */
static int next_run(const struct ts_gpu_pass *p, uint32_t number, uint64_t *first, uint64_t *last,
                    uint64_t end)
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

/* Each row has its own inner product, or of observed cells its size; those of updates that read the old rows are of units. */
static int with_inner(const struct ts_gpu_product *r)
{
    if (ts_gpu_solves_observed(r))
        return r->sums->size != NULL;
    return r->how != NULL && r->sums->inner != NULL && !r->apart;
}

/* A part that member i sends; its spans follow. */
static void open_part(struct ts_gpu_pass *p, uint32_t i, struct ts_exchange_part *part)
{
    struct ts_gpu_board *b = &p->g->board;
    part->span = b->span[i] + b->n_span[i];
    part->n = 0;
}

static void add_span(struct ts_gpu_pass *p, uint32_t i, struct ts_exchange_part *part,
                     uint64_t offset, uint64_t bytes)
{
    struct ts_gpu_board *b = &p->g->board;
    b->span[i][b->n_span[i]++] = (struct ts_exchange_span){ offset, bytes };
    part->n++;
}

/* Bytes of a row that members send each other: the new ones, or where these come from the old ones,
 * products. */
static uint64_t sent_bytes(const struct ts_gpu_product *r)
{
    return r->apart ? r->out_bytes : ts_gpu_row_bytes(r->of);
}

/* Makes the spans of row_inner that belong to the spans of rows, of a member. */
static void derive_inner(struct ts_gpu_product *r, uint32_t number, uint32_t k)
{
    struct ts_gpu_pass *p = r->pass;
    const struct ts_exchange_part *rows = &r->of->sent.rows[k][number];
    struct ts_exchange_part *inner = &r->of->sent.inner[k][number];
    const uint64_t row = ts_gpu_row_bytes(r->of);
    open_part(p, number, inner);
    for (uint32_t i = 0; with_inner(r) && i < rows->n; i++)
        add_span(p, number, inner, rows->span[i].offset / row * 8, rows->span[i].bytes / row * 8);
}

/* ---- rows that are complete */

/* What the updates of all models take. */
static int make_ready(struct ts_gpu_pass *p, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < p->n && rc == 0; k++) {
        const struct ts_row_update *how = p->product[k].how;
        if (how != NULL && how->ready != NULL)
            rc = how->ready(how->ctx, err);
    }
    return rc;
}

int ts_gpu_rows_prepare(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu_board *b = &p->g->board;
    enum ts_gpu_ready is = TS_GPU_NOT_READY;
    ts_gpu_error e = cudaSuccess;
    uint32_t n = 0;
    int rc = 0;
    if (p->updating)
        return 0;
    if (atomic_compare_exchange_strong(&b->ready, &is, TS_GPU_GETTING_READY)) {
        rc = make_ready(p, err);
        if (rc == 0)
            atomic_store(&b->ready, TS_GPU_READY);
    }
    while (rc == 0 && atomic_load(&b->ready) != TS_GPU_READY) {
        ts_gpu_team_pause(&n);
        rc = ts_gpu_team_failed(p->g, err);
    }
    if (rc < 0)
        return rc;
    p->updating = 1;
    for (uint32_t k = 0; k < p->n && e == cudaSuccess; k++)
        if (p->product[k].how != NULL && !ts_gpu_solves_observed(&p->product[k]))
            e = ts_gpu_device_send_update(p->product[k].of, p->me, p->product[k].how);
    return e == cudaSuccess ? 0 : fail(err, e);
}

static ts_gpu_error solve_rows(struct ts_gpu_product *r, uint64_t row, const uint32_t *list,
                               uint64_t n)
{
    const struct ts_gpu *g = r->pass->g;
    struct ts_gpu_member *me = r->pass->me;
    const struct ts_gpu_replica *my = r->my;
    const uint32_t ld = r->of->ld;
    char *rows = my->factor[r->pass->ask->mode] + row * ts_gpu_row_bytes(r->of);
    double *inner = with_inner(r) ? my->row_inner + row : NULL;
    ts_gpu_error e;
    if (r->how == NULL || r->apart || n == 0 || ts_gpu_solves_observed(r))
        return cudaSuccess;
    e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "rows", TS_TRACE_SOLVE, me->dense);
    if (e == cudaSuccess && r->wide && my->product != NULL)
        e = ts_dense_solve_products(my->product + row * ld, (float *)rows, list, n, ld, my->w,
                                    inner, me->dense);
    else if (e == cudaSuccess)
        e = ts_dense_solve_rows(g->precision, rows, list, n, ld, my->w, inner, me->dense);
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e;
}

/* Solves the member's rows of chunk c of a model; they are the k-th part that it sends. */
static ts_gpu_error solve_chunk(struct ts_gpu_product *r, uint32_t c, uint32_t k)
{
    struct ts_gpu_pass *p = r->pass;
    const uint64_t end = ts_gpu_chunk(p->g, p->mode, p->me->number, c + 1);
    struct ts_exchange_part *part = &r->of->sent.rows[k][p->me->number];
    uint64_t first = ts_gpu_chunk(p->g, p->mode, p->me->number, c), last, row, n;
    ts_gpu_error e = cudaSuccess;
    open_part(p, p->me->number, part);
    for (; e == cudaSuccess && next_run(p, p->me->number, &first, &last, end); first = last + 1) {
        if (!sent_rows(r, first, last, &row, &n))
            continue;
        add_span(p, p->me->number, part, row * sent_bytes(r), n * sent_bytes(r));
        e = solve_rows(r, row, NULL, n);
    }
    derive_inner(r, p->me->number, k);
    return e;
}

/* Solves the member's rows of chunk c, then tells the others that these rows can be gathered. */
static int publish(struct ts_gpu_pass *p, uint32_t c, struct ts_err *err)
{
    struct ts_gpu_board *b = &p->g->board;
    struct ts_gpu_member *me = p->me;
    const uint32_t k = p->n_published;
    const int rc = ts_gpu_rows_prepare(p, err);
    ts_gpu_error e;
    if (rc < 0)
        return rc;
    e = join_compute(p);
    for (uint32_t i = 0; i < p->n && e == cudaSuccess; i++)
        e = solve_chunk(&p->product[i], c, k);
    TRY(e, cudaEventRecord(me->solved[k], me->dense));
    if (e != cudaSuccess)
        return fail(err, e);
    p->published |= 1u << c;
    p->n_published++;
    atomic_store(&b->n_published[me->number], p->n_published);
    return 0;
}

/* ---- gathers */

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

/* Gathers a buffer of a model: each member sends its part of it to all others. Gathers of all models that follow each other have
 * one mark, which the first begins: of thirty-two models there would be more marks than the log holds, and its owner
 * would wait for them. */
static int gather(struct ts_gpu_product *r, enum ts_gpu_buffer buffer,
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

/* Ends the mark of the gathers since the last call, if there were any. */
static int end_exchange(struct ts_gpu_pass *p, struct ts_err *err)
{
    ts_gpu_error e = cudaSuccess;
    if (p->exchanging)
        e = ts_gpu_log_stop(&p->me->log, p->me->send, p->n_exchanges++, p->exchanged_bytes);
    p->exchanging = 0;
    p->exchanged_bytes = 0;
    return e == cudaSuccess ? 0 : fail(err, e);
}

static int gather_rows(struct ts_gpu_pass *p, uint32_t k, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < p->n && rc == 0; i++) {
        struct ts_gpu_product *r = &p->product[i];
        rc = gather(r, r->apart ? r->out : TS_GPU_FACTOR, r->of->sent.rows[k], err);
        if (rc == 0)
            rc = gather(r, TS_GPU_ROW_INNER, r->of->sent.inner[k], err);
    }
    return rc;
}

/* Enqueues the gathers whose parts all members here have published, in the same order on all members. Those of other
 * processes are waited for by the gathers themselves. */
static int send_published(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    while (p->n_sent < g->board.n_chunks) {
        ts_gpu_error e;
        int rc;
        for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++)
            if (atomic_load(&g->board.n_published[i]) <= p->n_sent)
                return 0;
        e = cudaStreamWaitEvent(p->me->send, p->me->solved[p->n_sent], 0);
        if (e != cudaSuccess)
            return fail(err, e);
        rc = gather_rows(p, p->n_sent, err);
        if (rc == 0)
            rc = end_exchange(p, err);
        if (rc < 0)
            return rc;
        p->n_sent++;
    }
    return 0;
}

int ts_gpu_rows_advance(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu_board *b = &p->g->board;
    int rc;
    if (p->g->n_members == 1)
        return 0;
    rc = p->g->comm == NULL ? 0 : ts_gpu_team_failed(p->g, err);
    for (uint32_t c = 0; c < b->n_chunks && rc == 0; c++) {
        if ((p->published & 1u << c) != 0)
            continue;
        if (atomic_load(&b->left[p->me->number][c]) == 0)
            rc = publish(p, c, err);
        else if (p->g->comm != NULL) /* other processes expect them in their order */
            break;
    }
    if (rc < 0 || ts_exchange_blocks(p->g->exchange)) /* then at the end of the pass */
        return rc;
    return send_published(p, err);
}

/* ---- what others send */

static void expect_chunk(struct ts_gpu_product *r, uint32_t number, uint32_t c)
{
    struct ts_gpu_pass *p = r->pass;
    const uint64_t end = ts_gpu_chunk(p->g, p->mode, number, c + 1);
    struct ts_exchange_part *part = &r->of->sent.rows[c][number];
    uint64_t first = ts_gpu_chunk(p->g, p->mode, number, c), last, row, n;
    open_part(p, number, part);
    for (; next_run(p, number, &first, &last, end); first = last + 1)
        if (sent_rows(r, first, last, &row, &n))
            add_span(p, number, part, row * sent_bytes(r), n * sent_bytes(r));
    derive_inner(r, number, c);
}

/* Bytes of what is kept of a shard's first row. */
static uint64_t end_bytes(const struct ts_gpu_product *r)
{
    return ts_gpu_solves_observed(r) ? ts_gpu_observed_part_bytes(r->of)
                                     : ts_gpu_edge_bytes(r->of, r->wide);
}

/* The edges of all shards that a member computes. */
static void add_edges(struct ts_gpu_product *r, uint32_t number)
{
    struct ts_gpu_pass *p = r->pass;
    const uint64_t bytes = end_bytes(r);
    struct ts_exchange_part *edges = &r->of->sent.edges[number];
    uint64_t last;
    open_part(p, number, edges);
    for (uint64_t i = 0; sends_edges(r) && next_run(p, number, &i, &last, p->mode->n_shards);
         i = last + 1)
        add_span(p, number, edges, 2 * i * bytes, 2 * (last + 1 - i) * bytes);
}

void ts_gpu_rows_expect(struct ts_gpu_pass *p)
{
    const struct ts_gpu *g = p->g;
    for (uint32_t i = 0; i < g->n_members; i++)
        for (uint32_t k = 0; k < p->n && !ts_gpu_is_here(g, i); k++) {
            for (uint32_t c = 0; c < g->board.n_chunks; c++)
                expect_chunk(&p->product[k], i, c);
            add_edges(&p->product[k], i);
        }
}

/* ---- the end of a pass */

/* Rows of a model that the member computed in others' ranges, and the edges of all its shards. */
static ts_gpu_error prepare_product(struct ts_gpu_product *r)
{
    struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu_board *b = &p->g->board;
    const struct ts_gpu_mode *m = p->mode;
    const uint32_t number = p->me->number, k = b->n_chunks;
    const uint64_t bytes = sent_bytes(r);
    struct ts_exchange_part *rows = &r->of->sent.rows[k][number];
    ts_gpu_error e = cudaSuccess;
    uint64_t row, n;
    open_part(p, number, rows);
    for (uint64_t i = 0; i < m->n_shards && e == cudaSuccess; i++) {
        const int mine = i >= m->first[number] && i < m->first[number + 1];
        if (mine || b->taken[i] != number || !sent_rows(r, i, i, &row, &n))
            continue;
        add_span(p, number, rows, row * bytes, n * bytes);
        e = solve_rows(r, row, NULL, n);
    }
    derive_inner(r, number, k);
    add_edges(r, number);
    return e;
}

/* Prepares the last gathers. */
static ts_gpu_error prepare_last(struct ts_gpu_pass *p)
{
    ts_gpu_error e = cudaSuccess;
    for (uint32_t k = 0; k < p->n && e == cudaSuccess; k++)
        e = prepare_product(&p->product[k]);
    TRY(e, cudaEventRecord(p->me->ready, p->me->dense));
    return e;
}

/* Ends an exchange and makes `dense` wait for what the others send. The barrier makes sure that all members have
 * enqueued it. */
int ts_gpu_rows_receive(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu_member *me = p->me;
    int rc = end_exchange(p, err);
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

static int exchange_rest(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    ts_gpu_error e;
    int rc = ts_gpu_team_barrier(g, err); /* now all shards are taken, and `taken` says by whom */
    if (rc == 0)
        rc = ts_gpu_rows_advance(p, err);
    if (rc < 0)
        return rc;
    e = prepare_last(p);
    if (e != cudaSuccess)
        return fail(err, e);
    rc = ts_gpu_team_barrier(g, err); /* all parts are published */
    if (rc == 0)
        rc = send_published(p, err);
    if (rc < 0)
        return rc;
    e = cudaStreamWaitEvent(p->me->send, p->me->ready, 0);
    if (e != cudaSuccess)
        return fail(err, e);
    for (uint32_t k = 0; k < p->n && rc == 0; k++) {
        struct ts_gpu_product *r = &p->product[k];
        rc = gather(r, ts_gpu_solves_observed(r) ? TS_GPU_ENDS : TS_GPU_SHARD_EDGE,
                    r->of->sent.edges, err);
    }
    if (rc == 0 && atomic_load(&g->board.any_stolen))
        rc = gather_rows(p, g->board.n_chunks, err);
    return rc == 0 ? ts_gpu_rows_receive(p, err) : rc;
}

/* Makes `send` wait for what `dense` was given so far. */
static ts_gpu_error send_after_dense(struct ts_gpu_member *me)
{
    const ts_gpu_error e = cudaEventRecord(me->ready, me->dense);
    return e == cudaSuccess ? cudaStreamWaitEvent(me->send, me->ready, 0) : e;
}

/* Gathers the rows and sums of the units first[i] .. first[i + 1] - 1 that member i computed. */
static int gather_units(struct ts_gpu_product *r, const uint64_t *first, struct ts_err *err)
{
    struct ts_gpu_pass *p = r->pass;
    const uint64_t row = ts_gpu_row_bytes(r->of), n_rows = p->mode->n_rows,
                   n_units = ts_descend_units(n_rows);
    struct ts_exchange_span rows[TS_MAX_TEAM], sums[TS_MAX_TEAM][2];
    struct ts_exchange_part rows_of[TS_MAX_TEAM], sums_of[TS_MAX_TEAM];
    int rc;
    for (uint32_t i = 0; i < p->g->n_members; i++) {
        const uint64_t top = first[i] * TS_DESCEND_UNIT, bottom = first[i + 1] * TS_DESCEND_UNIT,
                       bytes = 8 * (first[i + 1] - first[i]);
        const uint64_t n = (bottom < n_rows ? bottom : n_rows) - top;
        rows[i] = (struct ts_exchange_span){ top * row, n * row };
        sums[i][0] = (struct ts_exchange_span){ 8 * first[i], bytes };
        sums[i][1] = (struct ts_exchange_span){ 8 * (n_units + first[i]), bytes };
        rows_of[i] = (struct ts_exchange_part){ &rows[i], bytes > 0 };
        sums_of[i] = (struct ts_exchange_part){ sums[i], bytes > 0 ? 2 : 0 };
    }
    rc = gather(r, TS_GPU_FACTOR, rows_of, err);
    if (rc == 0)
        rc = gather(r, TS_GPU_ROW_INNER, sums_of, err);
    return rc == 0 ? ts_gpu_rows_receive(p, err) : rc;
}

/* An update that reads the old rows, all products being there: of each member's share of the units,
 * or where they take no longer than they would to be sent, of all. */
static int update_own(struct ts_gpu_product *r, struct ts_err *err)
{
    struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu *g = p->g;
    struct ts_gpu_member *me = p->me;
    const uint64_t n_units = ts_descend_units(p->mode->n_rows);
    const int shared = g->n_members > 1 && r->of->ld >= SHARE_COLUMNS;
    uint64_t first[TS_MAX_TEAM + 1];
    ts_gpu_error e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "rows", TS_TRACE_SOLVE, me->dense);
    for (uint32_t i = 0; i <= g->n_members; i++)
        first[i] = n_units * i / g->n_members;
    if (e == cudaSuccess && shared)
        e = ts_gpu_dense_own(r->of, me, p->ask->mode, r->how, r->sums, r->wide, first[me->number],
                             first[me->number + 1] - first[me->number]);
    else if (e == cudaSuccess)
        e = ts_gpu_dense_own(r->of, me, p->ask->mode, r->how, r->sums, r->wide, 0, n_units);
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    if (shared)
        TRY(e, send_after_dense(me));
    if (e != cudaSuccess)
        return fail(err, e);
    return shared ? gather_units(r, first, err) : 0;
}

/* Each member computes its share of the parts of the Gram matrix and sends it to all. A member that
 * is alone leaves the mark of this work to sum_up. */
static int gram_parts(struct ts_gpu_product *r, struct ts_err *err)
{
    struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu *g = p->g;
    struct ts_gpu_member *me = p->me;
    const uint32_t ld = r->of->ld, n_parts = ts_dense_gram_parts(ld, p->mode->n_rows);
    const uint64_t bytes = 8 * ts_dense_part_elements(ld);
    struct ts_exchange_span span[TS_MAX_TEAM];
    struct ts_exchange_part part[TS_MAX_TEAM];
    uint32_t first[TS_MAX_TEAM + 1];
    ts_gpu_error e;
    int rc;
    for (uint32_t i = 0; i <= g->n_members; i++)
        first[i] = (uint32_t)((uint64_t)n_parts * i / g->n_members);
    for (uint32_t i = 0; i < g->n_members; i++) {
        span[i] = (struct ts_exchange_span){ first[i] * bytes, (first[i + 1] - first[i]) * bytes };
        part[i] = (struct ts_exchange_part){ &span[i], first[i + 1] > first[i] };
    }
    e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "Gram matrix", TS_TRACE_SOLVE, me->dense);
    if (part[me->number].n > 0)
        TRY(e, ts_dense_gram_part(g->precision, r->my->factor[p->ask->mode], p->mode->n_rows, ld,
                                  first[me->number], first[me->number + 1] - first[me->number],
                                  r->my->parts, me->dense));
    if (g->n_members > 1) {
        TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
        TRY(e, send_after_dense(me));
    }
    if (e != cudaSuccess)
        return fail(err, e);
    if (g->n_members == 1)
        return 0;
    rc = gather(r, TS_GPU_PARTS, part, err);
    return rc == 0 ? ts_gpu_rows_receive(p, err) : rc;
}

/* On member 0: the Gram matrix from its parts, and sums, to host memory. */
static ts_gpu_error sum_up(struct ts_gpu_product *r)
{
    struct ts_gpu_pass *p = r->pass;
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e = cudaSuccess;
    if (p->g->n_members > 1)
        e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "Gram matrix", TS_TRACE_SOLVE, me->dense);
    TRY(e, ts_gpu_dense_sum_up(r->of, me, p->ask->mode, r->how, r->sums));
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e;
}

/* Solves the rows that shards share, whose sums are complete now; with one member, and of a dense tensor, all rows. */
static ts_gpu_error finish_rows(struct ts_gpu_product *r)
{
    const struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu *g = p->g;
    struct ts_gpu_member *me = p->me;
    const uint32_t mode = p->ask->mode, ld = r->of->ld;
    ts_gpu_error e = cudaSuccess;
    if (p->mode->n_shards > 0 && !p->alone && r->args.out_float)
        e = ts_edge_fold_to_float(p->mode->n_shards, r->my->shard_edge, me->shard_row[mode], ld,
                                  r->args.out, me->dense);
    else if (p->mode->n_shards > 0 && !p->alone)
        e = ts_edge_fold(r->wide ? TS_FLOAT64 : g->precision, p->mode->n_shards, r->my->shard_edge,
                         me->shard_row[mode], ld, r->args.out, me->dense);
    if (e != cudaSuccess)
        return e;
    if (g->n_members == 1 || g->cells != NULL)
        return solve_rows(r, 0, NULL, p->mode->n_rows);
    return solve_rows(r, 0, me->boundary[mode], p->mode->n_boundary);
}

/* Of rows with Gram matrices of their own. */
static int finish_observed(struct ts_gpu_product *r, struct ts_err *err)
{
    struct ts_gpu_member *me = r->pass->me;
    ts_gpu_error e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "rows", TS_TRACE_SOLVE, me->dense);
    TRY(e, ts_gpu_observed_finish(r));
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* The rest of a model's pass, its rows being there but for those that shards share. */
static int finish_product(struct ts_gpu_product *r, struct ts_err *err)
{
    ts_gpu_error e;
    int rc;
    if (ts_gpu_solves_observed(r))
        return finish_observed(r, err);
    e = sends_edges(r) ? finish_rows(r) : cudaSuccess;
    if (r->rounds > 0)
        TRY(e, ts_gpu_multiply_spans(r));
    rc = e == cudaSuccess ? 0 : fail(err, e);
    if (rc < 0 || r->how == NULL)
        return rc;
    if (r->apart)
        rc = update_own(r, err);
    if (rc == 0)
        rc = gram_parts(r, err);
    if (rc == 0 && r->pass->me == ts_gpu_first(r->pass->g)) {
        e = sum_up(r);
        rc = e == cudaSuccess ? 0 : fail(err, e);
    }
    return rc;
}

/* What follows the product, on `dense`: a graph's kernels. */
static ts_gpu_error enqueue_rest(void *ctx)
{
    struct ts_gpu_product *r = ctx;
    const struct ts_gpu_pass *p = r->pass;
    ts_gpu_error e = ts_gpu_pass_fold(p);
    TRY(e, finish_rows(r));
    TRY(e, ts_dense_gram_part(p->g->precision, r->my->factor[p->ask->mode], p->mode->n_rows,
                              r->of->ld, 0, ts_dense_gram_parts(r->of->ld, p->mode->n_rows),
                              r->my->parts, p->me->dense));
    TRY(e, ts_gpu_dense_sum_up(r->of, p->me, p->ask->mode, r->how, r->sums));
    return e;
}

/* The rest of a pass whose shards all lie here, as a graph: with one mark, as it cannot hold others. */
static int launch_rest(struct ts_gpu_product *r, struct ts_err *err)
{
    const struct ts_gpu_pass *p = r->pass;
    struct ts_gpu_member *me = p->me;
    const struct ts_gpu_graph_key key = {
        .version = p->mode->version,
        .out = r->args.out,
        .flags = r->wide | r->args.out_float << 1 | (r->sums->inner != NULL) << 2 |
                 (r->sums->size != NULL) << 3,
    };
    ts_gpu_error e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "rows", TS_TRACE_SOLVE, me->dense);
    ts_gpu_log_pause(&me->log, 1);
    if (e == cudaSuccess) {
        e = ts_gpu_graph_launch(&r->my->rest[p->ask->mode], &key, me->dense, enqueue_rest, r);
        if (e == cudaErrorMemoryAllocation) { /* the budget is tight: kernel by kernel, then */
            (void)cudaGetLastError();
            e = enqueue_rest(r);
        }
    }
    ts_gpu_log_pause(&me->log, 0);
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* Nothing is scaled any more. */
static void end_scaling(const struct ts_gpu *g, struct ts_gpu_member *me)
{
    me->scaling = 0;
    for (uint32_t k = 0; k < g->n_models; k++)
        me->replica[k].scaling = 0;
}

int ts_gpu_rows_finish(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    struct ts_gpu_member *me = p->me;
    int rc = ts_gpu_rows_prepare(p, err);
    ts_gpu_error e = rc == 0 ? join_compute(p) : cudaSuccess;
    if (e != cudaSuccess)
        rc = fail(err, e);
    if (rc == 0 && g->n_members > 1 && g->cells == NULL)
        rc = exchange_rest(p, err);
    for (uint32_t k = 0; k < p->n && rc == 0; k++)
        rc = p->as_graph ? launch_rest(&p->product[k], err) : finish_product(&p->product[k], err);
    if (rc < 0)
        return rc;
    e = cudaEventRecord(me->over, me->dense);
    if (e != cudaSuccess)
        return fail(err, e);
    rc = ts_gpu_team_wait(g, me, me->over, err);
    if (rc < 0)
        return rc;
    end_scaling(g, me);
    e = ts_gpu_log_end(&me->log);
    if (e != cudaSuccess)
        return fail(err, e);
    if (g->exchange != NULL)
        rc = ts_exchange_check(g->exchange, me->number, err);
    for (uint32_t k = 0; k < p->n && rc == 0 && me == ts_gpu_first(g); k++)
        if (ts_gpu_solves_observed(&p->product[k]))
            ts_gpu_observed_copy_out(&p->product[k]);
        else if (p->product[k].how != NULL)
            ts_gpu_dense_copy_out(p->product[k].of, p->product[k].how, p->product[k].sums);
    return rc;
}
