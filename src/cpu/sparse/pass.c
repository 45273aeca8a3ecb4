/* SPDX-License-Identifier: BSD-3-Clause */
/* pass.c - allocates the memory of passes, and hands partitions to the functions that compute on
 * them. */
#include "cpu/sparse/pass.h"

#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "base/machine/fpmode.h"
#include "base/machine/machine.h"
#include "cpu/extent.h"
#include "cpu/rows/gram_rows.h"
#include "cpu/ranks/needs.h"
#include "cpu/sparse/pass_state.h"
#include "cpu/sparse/plain.h"
#include "cpu/ranks/share.h"

/* Returns the bytes that the heads (sums of partitions' first rows) of any mode need at most. Heads
 * of the last mode have remainders (kernel.h) in float32. */
static uint64_t heads_bytes(const struct ts_backend_conf *conf)
{
    const uint64_t one = ts_fmat_bytes(1, conf->rank, conf->precision);
    const uint64_t plain = one * ts_most_partitions(conf->tensor);
    const uint64_t wide = 2 * one * ts_tensor_partitions(conf->tensor, conf->tensor->order - 1);
    return conf->precision == TS_FLOAT32 && wide > plain ? wide : plain;
}

uint64_t ts_pass_bytes(const struct ts_backend_conf *conf, uint32_t threads)
{
    const uint64_t n = ts_most_partitions(conf->tensor);
    return sizeof(struct ts_pass) + ts_bigmem_cost(heads_bytes(conf)) +
           n * sizeof(struct ts_kernel_edge) +
           ts_bigmem_cost(threads * sizeof(struct ts_kernel_scratch)) +
           (threads + 1) * sizeof(struct ts_loan) + ts_plain_own_bytes(conf->tensor) +
           (ts_has_capability(conf->needs, TS_CAN_OBSERVED)
                ? ts_gram_rows_bytes(n, conf->rank, conf->precision, threads)
                : 0);
}

int ts_pass_new(const struct ts_backend_conf *conf, enum ts_isa isa, uint32_t threads,
                struct ts_pass **ret, struct ts_err *err)
{
    struct ts_pass *p = calloc(1, sizeof *p);
    int rc = 0;
    if (p == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    p->isa = isa;
    p->tensor = conf->tensor;
    p->precision = conf->precision;
    p->rank = conf->rank;
    p->stride = ts_fmat_stride(conf->rank, conf->precision);
    p->unpack = ts_kernel_unpack(isa);
    for (enum ts_precision summed = p->precision; summed <= TS_FLOAT64; summed++)
        p->kernel[summed] = ts_kernel_get(isa, p->precision, summed, p->stride);
    p->threads = threads;
    p->max_partitions = ts_most_partitions(conf->tensor);
    p->heads_bytes = heads_bytes(conf);
    p->scratch_bytes = threads * sizeof *p->scratch;
    p->edge = calloc(p->max_partitions + 1, sizeof *p->edge);
    p->loan = calloc(threads + 1, sizeof *p->loan);
    if (p->edge == NULL || p->loan == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    if (rc == 0)
        rc = ts_bigmem_new(p->heads_bytes, "partial rows", &p->heads, err);
    if (rc == 0)
        rc = ts_bigmem_new(p->scratch_bytes, "buffers of threads", (void **)&p->scratch, err);
    if (rc == 0 &&
        ts_comm_many(
            conf->comm)) /* multiplicative updates need the partitions of a shard on one rank */
        rc = ts_share_new(conf->tensor, conf->comm, (conf->needs & TS_ROWS_BY_LOSS) != 0, &p->share,
                          err);
    if (rc < 0) {
        ts_pass_free(p);
        return rc;
    }
    /* results are the same without this memory, so a failure is ignored */
    if (conf->spare_bytes > 0)
        (void)ts_plain_new(conf->tensor, conf->spare_bytes, &p->plain, NULL);
    *ret = p;
    return 0;
}

struct ts_share *ts_pass_share(const struct ts_pass *p)
{
    return p->share;
}

struct ts_plain *ts_pass_plain(const struct ts_pass *p)
{
    return p->plain;
}

void ts_pass_lend_plain(struct ts_pass *p, struct ts_plain *plain)
{
    p->plain = plain;
    p->plain_is_lent = 1;
}

void ts_pass_walk(struct ts_pass *p, struct ts_needs *needs)
{
    p->needs = needs;
}

void ts_pass_free(struct ts_pass *p)
{
    if (p == NULL)
        return;
    if (p->scratch != NULL)
        ts_bigmem_free(p->scratch, p->scratch_bytes);
    if (p->heads != NULL)
        ts_bigmem_free(p->heads, p->heads_bytes);
    if (!p->plain_is_lent)
        ts_plain_free(p->plain);
    ts_gram_rows_free(p->gram);
    ts_share_free(p->share);
    free(p->rows);
    free(p->edge);
    free(p->loan);
    free(p);
}
void ts_pass_hold_out(struct ts_pass *pass, const struct ts_hold_out *h)
{
    pass->hold_out = *h;
}

/* Visits partition k of a shard. The first pass over a mode also records the rows of other modes
 * that its nonzeros need. */
static int visit(void *ctx, const struct ts_shard_view *view, uint32_t k, struct ts_err *err)
{
    const struct ts_pass_run *r = ctx;
    const struct ts_pass *p = r->pass;
    struct ts_kernel_scratch *scratch = &p->scratch[omp_get_thread_num()];
    const struct ts_kernel_input in = { view->entry, view->raw, k,
                                        ts_plain_of(p->plain, r->keep, view, k, p->unpack,
                                                    &scratch->block[0]) };
    const uint64_t mode = ts_fpmode_flush();
    int rc;
    if (r->walks)
        ts_needs_walk(p->needs, view->mode, &in, &scratch->block[0]);
    rc = r->visit(r, &in, view->first_partition + k, scratch, err);
    ts_fpmode_restore(mode);
    return rc;
}

int ts_pass_over(struct ts_pass_run *r, struct ts_pass *p, uint32_t mode, struct ts_feed *feed,
                 int (*start)(void *run, struct ts_err *err), struct ts_err *err)
{
    r->pass = p;
    r->keep = ts_plain_keeps(p->plain, mode);
    r->walks = p->needs != NULL && ts_needs_walks(p->needs, mode);
    r->loop = (struct ts_pass_loop){ .feed = feed,
                                     .mode = mode,
                                     .threads = p->threads,
                                     .share = p->share,
                                     .loan = p->loan,
                                     .end = ts_tensor_partitions(p->tensor, mode),
                                     .start = start,
                                     .partition = visit,
                                     .ctx = r,
                                     .err = err };
    if (p->share != NULL)
        ts_share_range(p->share, mode, &r->loop.begin, &r->loop.end);
    return ts_pass_loop_run(&r->loop);
}

void ts_pass_end(const struct ts_pass_run *r, uint64_t exchange_ns, struct ts_backend_times *times)
{
    if (r->pass->needs != NULL)
        ts_needs_walked(r->pass->needs, r->loop.mode);
    if (times != NULL)
        *times = ts_pass_times(ts_clock_ns() - r->begin_ns, r->pass->tensor->nnz, r->loop.wait_ns,
                               exchange_ns, 0);
}

/* Returns the size in bytes above which a matrix counts as larger than the second-level cache. */
static uint64_t far_bytes(void)
{
    return 3 * ts_machine_cache_bytes() / 2;
}

void ts_pass_job(const struct ts_pass *p, uint32_t mode, enum ts_precision summed,
                 const struct ts_fmat *factor, const struct ts_fmat *out, struct ts_kernel_job *job)
{
    const struct ts_tensor *t = p->tensor;
    memset(job, 0, sizeof *job);
    job->order = t->order;
    job->stride = out->stride;
    job->columns = out->width;
    job->out = out->data;
    for (uint32_t l = 1; l < t->order; l++) {
        const struct ts_fmat *f = &factor[t->mode[mode].disk.level[l]];
        job->table[l] = f->data;
        job->far[l] = f->bytes > far_bytes();
    }
    ts_kernel_values(t, summed, &job->unpack);
    ts_plain_conf(t, mode, summed == TS_FLOAT64, &job->plain);
}
