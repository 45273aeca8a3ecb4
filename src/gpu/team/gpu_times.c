/* SPDX-License-Identifier: BSD-3-Clause */
/* Evaluates the logs of a pass: times of each device, spans of the trace, and the cost of each
 * member's (GPU's) range of shards. */
#include "base/trace.h"
#include "gpu/pass/gpu_pass.h"

/* Sets the start of each gather to the time at which the last member (GPU) reached it, since NCCL's
 * kernel only waits before that. */
static void align_exchanges(struct ts_gpu *g)
{
    enum { MOST = 4 * (TS_GPU_CHUNKS + TS_GPU_MODELS) }; /* more than the exchanges of a pass */
    uint64_t start[MOST] = { 0 };
    if (g->exchange == NULL || ts_exchange_used(g->exchange) != TS_EXCHANGE_NCCL)
        return;
    for (int twice = 0; twice < 2; twice++)
        for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++) {
            struct ts_gpu_spans *s = &g->member[i].log.spans[TS_GPU_EXCHANGE];
            for (size_t k = 0; k < s->n; k++) {
                struct ts_gpu_span *span = &s->at[k];
                uint64_t *from = &start[span->shard % MOST];
                if (twice == 0)
                    *from = span->start_ns > *from ? span->start_ns : *from;
                else
                    span->start_ns = *from < span->end_ns ? *from : span->end_ns;
            }
            if (twice == 1)
                ts_gpu_spans_sort(s);
        }
}

static void trace(const struct ts_gpu *g, uint32_t mode)
{
    if (g->trace == NULL)
        return;
    for (uint32_t i = 0; i < g->n_here; i++)
        for (int w = 0; w < TS_GPU_WORKS; w++) {
            const struct ts_gpu_spans *s = &g->member[g->first_here + i].log.spans[w];
            for (size_t k = 0; k < s->n; k++)
                ts_trace_add(g->trace, TS_TRACE_GPU(i) + s->at[k].lane, s->at[k].what,
                             s->at[k].start_ns, s->at[k].end_ns, mode,
                             w == TS_GPU_EXCHANGE ? TS_TRACE_NO_SHARD : s->at[k].shard,
                             s->at[k].bytes);
        }
}

static void add_up(const struct ts_gpu_pass *p, uint64_t total_ns, struct ts_device_times *t)
{
    const struct ts_gpu_log *log = &p->me->log;
    const unsigned computes = 1u << TS_GPU_KERNEL | 1u << TS_GPU_SOLVE;
    const uint64_t busy = ts_gpu_log_busy(log, (1u << TS_GPU_WORKS) - 1);
    *t = (struct ts_device_times){
        .number = p->me->device,
        .nnz = p->nnz,
        .bytes = p->bytes,
        .early_bytes = p->early_bytes,
        .wait_ns = p->wait_ns,
        .copy_ns = ts_gpu_log_busy(log, 1u << TS_GPU_COPY),
        .kernel_ns = ts_gpu_log_busy(log, 1u << TS_GPU_KERNEL),
        .solve_ns = ts_gpu_log_busy(log, 1u << TS_GPU_SOLVE),
        .exchange_ns = ts_gpu_log_busy(log, 1u << TS_GPU_EXCHANGE),
        .exposed_ns = ts_gpu_log_alone(log, TS_GPU_EXCHANGE, computes),
        .idle_ns = total_ns > busy ? total_ns - busy : 0,
        .share = 1,
    };
}

/* Computes the cost of each member's range: the member's time per nonzero, times the nonzeros of
 * its range. A member (GPU) that helped others has computed more nonzeros than its range has, and
 * one that was helped fewer. A member that computed nothing gets the average cost. */
static void range_times(const struct ts_gpu *g, const struct ts_gpu_pass *pass, uint64_t *ret)
{
    const unsigned works = 1u << TS_GPU_COPY | 1u << TS_GPU_KERNEL;
    const uint32_t end = g->first_here + g->n_here;
    double per_nnz[TS_MAX_TEAM], sum = 0;
    uint32_t n = 0;
    for (uint32_t i = g->first_here; i < end; i++) {
        per_nnz[i] = 0;
        if (pass[i].nnz == 0)
            continue;
        per_nnz[i] = (double)ts_gpu_log_busy(&g->member[i].log, works) / (double)pass[i].nnz;
        sum += per_nnz[i];
        n++;
    }
    for (uint32_t i = g->first_here; i < end; i++) {
        const struct ts_gpu_mode *m = pass[i].mode;
        uint64_t nnz = 0;
        for (uint64_t s = m->first[i]; s < m->first[i + 1]; s++)
            nnz += m->shard[s].nnz;
        ret[i] = (uint64_t)((pass[i].nnz > 0 ? per_nnz[i] : n > 0 ? sum / n : 0) * (double)nnz);
    }
}

void ts_gpu_times_collect(struct ts_gpu *g, const struct ts_gpu_pass *pass, uint64_t start_ns,
                          struct ts_backend_times *times, uint64_t *range_ns)
{
    align_exchanges(g);
    trace(g, pass[g->first_here].ask->mode);
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++) {
        ts_gpu_log_clip(&g->member[i].log, start_ns);
        add_up(&pass[i], times->total_ns, &times->device[i - g->first_here]);
    }
    range_times(g, pass, range_ns);
}
