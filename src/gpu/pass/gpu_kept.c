/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the kept shards (those that stay on the device) in a pass: makes a table of them for the
 * kernels, and launches their kernels for one chunk of the member's range after another. */
#include <cuda_runtime.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/trace.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_pass.h"

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "MTTKRP");
}

static int is_here(const struct ts_gpu_mode *m, uint64_t shard)
{
    return m->keep[shard] && m->present[shard];
}

/* Copies the table of the member's kept shards to the device, unless the table there is current. */
static int make_table(struct ts_gpu_pass *p, struct ts_err *err)
{
    const struct ts_gpu_mode *m = p->mode;
    struct ts_gpu_member *me = p->me;
    struct ts_gpu_table *t = &me->table[p->ask->mode];
    struct ts_gpu_shard *entry;
    uint32_t n = 0;
    ts_gpu_error e = cudaSuccess;
    if (t->version == m->version && t->n_chunks == p->g->board.n_chunks)
        return 0;
    entry = malloc((m->first[me->number + 1] - m->first[me->number] + 1) * sizeof *entry);
    if (entry == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %" PRIu64 " shards", m->n_shards);
    for (uint32_t c = 0; c < p->g->board.n_chunks; c++) {
        t->n[c] = t->n_shares[c] = 0;
        for (uint64_t i = ts_gpu_chunk(p->g, m, me->number, c);
             i < ts_gpu_chunk(p->g, m, me->number, c + 1); i++) {
            if (!is_here(m, i))
                continue;
            entry[n] = ts_gpu_describe(m, i, me->kept + m->place[i]);
            entry[n++].first_cta = t->n_shares[c];
            t->n[c]++;
            t->n_shares[c] += ts_gpu_shares(m, i);
        }
    }
    if (n > 0) /* asynchronous, because other streams might not see the result of cudaMemcpy */
        e = cudaMemcpyAsync(t->entry, entry, n * sizeof *entry, cudaMemcpyHostToDevice, me->dense);
    TRY(e, cudaStreamSynchronize(me->dense));
    free(entry);
    if (e != cudaSuccess)
        return fail(err, e);
    t->version = m->version;
    t->n_chunks = p->g->board.n_chunks;
    return 0;
}

/* Notes that this member (GPU) computes the kept shards of a chunk, which no other member can
 * compute. */
static void take_kept(struct ts_gpu_pass *p, uint32_t c)
{
    const struct ts_gpu_mode *m = p->mode;
    const uint32_t number = p->me->number;
    uint64_t n = 0;
    for (uint64_t i = ts_gpu_chunk(p->g, m, number, c); i < ts_gpu_chunk(p->g, m, number, c + 1);
         i++)
        if (is_here(m, i)) {
            p->g->board.taken[i] = (unsigned char)number;
            p->kept_nnz += m->shard[i].nnz;
            n++;
        }
    atomic_fetch_sub(&p->g->board.left[number][c], n);
}

ts_gpu_error ts_gpu_wait_for_scaling(const struct ts_gpu_member *me, ts_gpu_stream stream)
{
    return me->scaling ? cudaStreamWaitEvent(stream, me->scaled, 0) : cudaSuccess;
}

/* Returns the kept shards of chunk c, whose descriptions in the table begin at `many`. */
static struct ts_gpu_shards kept_shards(const struct ts_gpu_table *t, uint32_t c,
                                        const struct ts_gpu_shard *many)
{
    return (struct ts_gpu_shards){ .many = many, .n_many = t->n[c], .n_shares = t->n_shares[c] };
}

ts_gpu_error ts_gpu_kept_fold(const struct ts_gpu_pass *p)
{
    const struct ts_gpu_table *t = &p->me->table[p->ask->mode];
    const struct ts_gpu_shards s = kept_shards(t, 0, t->entry);
    return ts_gpu_fold_shards(p, &s, p->me->dense);
}

/* Whether the kernels after the product are launched as a graph. That pays for one model of a small
 * tensor on one device whose rows are solved with a matrix. With a trace, kernels are launched one
 * by one to be timed. */
static int fits_graph(const struct ts_gpu_pass *p)
{
    const struct ts_gpu *g = p->g;
    const struct ts_gpu_product *r = &p->product[0];
    return g->n_members == 1 && g->trace == NULL && p->n == 1 && p->mode->n_shards > 0 &&
           p->me->table[p->ask->mode].n[0] == p->mode->n_shards &&
           p->ask->kind == TS_REQUEST_PRODUCT && r->update != NULL && !r->apart;
}

static int launch_kept(struct ts_gpu_pass *p, uint32_t c, const struct ts_gpu_shard *many,
                       struct ts_err *err)
{
    struct ts_gpu_member *me = p->me;
    const uint32_t k = c % TS_GPU_KEPT_STREAMS;
    const ts_gpu_event ended = me->joined[TS_GPU_STREAMS + k];
    const struct ts_gpu_shards s = kept_shards(&me->table[p->ask->mode], c, many);
    ts_gpu_error e = ts_gpu_wait_for_scaling(me, me->keeping[k]);
    TRY(e, ts_gpu_log_start(&me->log, TS_GPU_KERNEL, "kept shards",
                            TS_TRACE_KERNEL + TS_GPU_STREAMS + k, me->keeping[k]));
    TRY(e, ts_gpu_launch_products(p, &s, me->keeping[k]));
    TRY(e, ts_gpu_log_stop(&me->log, me->keeping[k], TS_TRACE_NO_SHARD, 0));
    TRY(e, cudaEventRecord(ended, me->keeping[k]));
    /* with several members (GPUs), the data for updates is sent when rows of the first chunk are
     * solved for */
    if (e == cudaSuccess && p->g->n_members == 1) {
        const int rc = ts_gpu_rows_prepare(p, err);
        if (rc < 0)
            return rc;
    }
    TRY(e, cudaStreamWaitEvent(me->dense, ended, 0));
    /* on `dense`, as the stream `keeping` would add the edges (partial sums of rows) only after the
     * next chunk */
    if (e == cudaSuccess && !p->as_graph)
        e = ts_gpu_fold_shards(p, &s, me->dense);
    return e == cudaSuccess ? 0 : fail(err, e);
}

int ts_gpu_kept_take(struct ts_gpu_pass *p, struct ts_err *err)
{
    const struct ts_gpu_table *t = &p->me->table[p->ask->mode];
    const struct ts_gpu_shard *next = t->entry;
    int rc = make_table(p, err);
    p->as_graph = rc == 0 && fits_graph(p);
    for (uint32_t c = 0; c < p->g->board.n_chunks && rc == 0; c++) {
        take_kept(p, c);
        if (t->n[c] > 0)
            rc = launch_kept(p, c, next, err);
        next += t->n[c];
        if (rc == 0)
            rc = ts_gpu_rows_advance(p, err);
    }
    p->nnz += p->kept_nnz;
    return rc;
}
