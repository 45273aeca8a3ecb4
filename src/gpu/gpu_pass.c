#include <stdlib.h>

#include "base/clock.h"
#include "format/shard.h"
#include "gpu/edge_kernel.h"
#include "gpu/gpu_fail.h"
#include "gpu/gpu_state.h"

/* Shards lent by the feed whose copy to the device may not have ended. A feed that streams has few
 * slots, so few are held: one being copied, one behind it. */
enum { MAX_LENT = 2 };

struct pass {
    struct ts_gpu *g;
    uint32_t mode;
    struct ts_feed *feed;
    struct ts_gpu_mttkrp args;
    struct ts_shard_view lent[MAX_LENT];
    cudaEvent_t lent_until[MAX_LENT];
    uint32_t n_lent, first_lent;
    uint32_t next_stream;
    uint64_t wait_ns, copy_ns, bytes;
};

static int fail(struct ts_err *err, cudaError_t e)
{
    return ts_gpu_fail(err, (int)e, "MTTKRP on the GPU");
}

static void fill_args(struct pass *p)
{
    const struct ts_gpu *g = p->g;
    const struct ts_disk_header *h = &g->tensor->header;
    p->args.n_levels = g->tensor->order - 1;
    p->args.value_kind = h->value_kind;
    p->args.n_codes = ts_value_codes(h->value_kind);
    p->args.value_base = h->value_base;
    p->args.dict = g->dict;
    for (uint32_t l = 1; l < g->tensor->order; l++)
        p->args.factor[l - 1] = g->factor[g->tensor->mode[p->mode].disk.level[l]];
    p->args.out = g->factor[p->mode];
    p->args.edge = g->edge;
    p->args.edge_row = g->edge_row;
    p->args.ld = g->ld;
}

static struct ts_gpu_shard describe(const struct ts_disk_shard *s, uint64_t first_partition,
                                    const void *addr)
{
    const struct ts_gpu_shard d = {
        .raw = addr,
        .first_partition = first_partition,
        .n_blocks = s->n_blocks,
        .nnz = s->nnz,
        .row_first = s->row_first,
    };
    return d;
}

/* Gives the oldest shard back to the feed, its copy having ended. */
static int return_oldest(struct pass *p, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    const uint32_t i = p->first_lent;
    const cudaError_t e = cudaEventSynchronize(p->lent_until[i]);
    p->copy_ns += ts_clock_ns() - start;
    ts_feed_done(p->feed, &p->lent[i]);
    p->first_lent = (i + 1) % MAX_LENT;
    p->n_lent--;
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* Makes room for the kept shards of a mode, on its first pass. */
static int start_keeping(struct pass *p, struct ts_err *err)
{
    struct ts_gpu_kept *k = &p->g->kept[p->mode];
    cudaError_t e;
    if (k->n == 0 || k->memory != NULL)
        return 0;
    e = cudaMalloc((void **)&k->memory, k->bytes);
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* All kept shards are on the device: one launch takes them from now on. */
static int make_table(struct pass *p, struct ts_err *err)
{
    struct ts_gpu_kept *k = &p->g->kept[p->mode];
    const struct ts_mode *mode = &p->g->tensor->mode[p->mode];
    struct ts_gpu_shard *table = malloc(k->n * sizeof *table);
    uint64_t partitions = 0;
    cudaError_t e;
    if (table == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %llu shards", (unsigned long long)k->n);
    for (uint64_t i = 0; i < k->n; i++) {
        table[i] = describe(&mode->shard[i], partitions, k->memory + k->offset[i]);
        table[i].first_cta = (uint32_t)partitions;
        partitions += ts_shard_partitions(&mode->shard[i]);
        k->nnz += mode->shard[i].nnz;
    }
    k->n_partitions = (uint32_t)partitions;
    e = cudaMalloc((void **)&k->table, k->n * sizeof *table);
    if (e == cudaSuccess)
        e = cudaMemcpy(k->table, table, k->n * sizeof *table, cudaMemcpyHostToDevice);
    free(table);
    return e == cudaSuccess ? 0 : fail(err, e);
}

static int launch_kept(struct pass *p, struct ts_err *err)
{
    const struct ts_gpu_kept *k = &p->g->kept[p->mode];
    struct ts_gpu_mttkrp args = p->args;
    cudaError_t e;
    if (k->table == NULL)
        return 0;
    args.many = k->table;
    args.n_many = (uint32_t)k->n;
    args.n_partitions = k->n_partitions;
    e = (cudaError_t)ts_mttkrp_launch(p->g->precision, &args, p->g->compute[0]);
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* Copies a lent shard to the device and computes on it, all of it later and elsewhere. */
static int take_shard(struct pass *p, const struct ts_shard_view *view, struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    struct ts_gpu_kept *k = &g->kept[p->mode];
    const int keep = view->shard < k->n;
    struct ts_gpu_slot *slot = &g->slot[g->next_slot];
    struct ts_gpu_mttkrp args = p->args;
    cudaStream_t stream = g->compute[p->next_stream];
    char *to = keep ? k->memory + k->offset[view->shard] : slot->addr;
    const uint32_t last = (p->first_lent + p->n_lent) % MAX_LENT;
    cudaError_t e = keep ? cudaSuccess : cudaStreamWaitEvent(g->copy, slot->used, 0);
    if (e == cudaSuccess)
        e = cudaMemcpyAsync(to, view->raw, (size_t)view->entry->raw_bytes + TS_SHARD_SLACK,
                            cudaMemcpyHostToDevice, g->copy);
    if (e == cudaSuccess)
        e = cudaEventRecord(p->lent_until[last], g->copy);
    if (e != cudaSuccess) {
        ts_feed_done(p->feed, view);
        return fail(err, e);
    }
    p->bytes += view->entry->raw_bytes;
    p->lent[last] = *view;
    p->n_lent++;
    args.one = describe(view->entry, view->first_partition, to);
    args.n_many = 0;
    args.n_partitions = ts_shard_partitions(view->entry);
    e = cudaStreamWaitEvent(stream, p->lent_until[last], 0);
    if (e == cudaSuccess)
        e = (cudaError_t)ts_mttkrp_launch(g->precision, &args, stream);
    if (e == cudaSuccess && !keep)
        e = cudaEventRecord(slot->used, stream);
    if (e != cudaSuccess)
        return fail(err, e);
    p->next_stream = (p->next_stream + 1) % TS_GPU_STREAMS;
    if (keep) {
        k->filled[view->shard] = 1;
        k->n_filled++;
    } else {
        g->next_slot = (g->next_slot + 1) % g->n_slots;
    }
    return 0;
}

static int take_all(struct pass *p, struct ts_err *err)
{
    const struct ts_gpu_kept *k = &p->g->kept[p->mode];
    struct ts_shard_view view;
    for (;;) {
        uint64_t start;
        int rc = p->n_lent == MAX_LENT ? return_oldest(p, err) : 0;
        if (rc < 0)
            return rc;
        start = ts_clock_ns();
        rc = ts_feed_next(p->feed, p->mode, 0, &view, err);
        p->wait_ns += ts_clock_ns() - start;
        if (rc <= 0)
            return rc;
        if (k->table != NULL && view.shard < k->n) { /* launch_kept took it */
            ts_feed_done(p->feed, &view);
            continue;
        }
        rc = take_shard(p, &view, err);
        if (rc < 0)
            return rc;
    }
}

/* Waits in compute[0] for the other streams, or in the others for compute[0]. */
static cudaError_t join_streams(struct ts_gpu *g, int fork)
{
    cudaError_t e = cudaSuccess;
    if (fork)
        e = cudaEventRecord(g->start, g->compute[0]);
    for (int i = 1; i < TS_GPU_STREAMS && e == cudaSuccess; i++) {
        if (fork) {
            e = cudaStreamWaitEvent(g->compute[i], g->start, 0);
            continue;
        }
        e = cudaEventRecord(g->joined[i], g->compute[i]);
        if (e == cudaSuccess)
            e = cudaStreamWaitEvent(g->compute[0], g->joined[i], 0);
    }
    return e;
}

static int run(struct pass *p, struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    struct ts_gpu_kept *k = &g->kept[p->mode];
    cudaError_t e = join_streams(g, 1);
    int rc = e == cudaSuccess ? start_keeping(p, err) : fail(err, e);
    if (rc == 0)
        rc = launch_kept(p, err);
    if (rc == 0)
        rc = take_all(p, err);
    while (p->n_lent > 0) {
        const int back = return_oldest(p, rc == 0 ? err : NULL);
        rc = rc == 0 ? back : rc;
    }
    if (rc < 0)
        return rc;
    e = join_streams(g, 0);
    if (e == cudaSuccess)
        e = (cudaError_t)ts_edge_fold(g->precision, g->n_partitions[p->mode], g->edge,
                                        g->edge_row, g->ld, g->factor[p->mode], g->compute[0]);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(g->compute[0]);
    if (e != cudaSuccess)
        return fail(err, e);
    if (k->table != NULL && g->done != NULL)
        g->done(g->done_ctx, k->nnz);
    if (k->n > 0 && k->table == NULL && k->n_filled == k->n)
        return make_table(p, err);
    return 0;
}

int ts_gpu_pass(struct ts_gpu *g, uint32_t mode, struct ts_feed *feed,
                struct ts_backend_times *times, struct ts_err *err)
{
    struct pass p = { .g = g, .mode = mode, .feed = feed };
    const uint64_t start = ts_clock_ns();
    int rc = 0;
    fill_args(&p);
    for (int i = 0; i < MAX_LENT && rc == 0; i++) {
        const cudaError_t e = cudaEventCreateWithFlags(&p.lent_until[i], cudaEventDisableTiming);
        rc = e == cudaSuccess ? 0 : fail(err, e);
    }
    if (rc == 0)
        rc = run(&p, err);
    for (int i = 0; i < MAX_LENT; i++)
        if (p.lent_until[i] != NULL)
            cudaEventDestroy(p.lent_until[i]);
    *times = (struct ts_backend_times){ .total_ns = ts_clock_ns() - start, .n_devices = 1 };
    times->device[0] = (struct ts_device_times){
        .number = g->number,
        .nnz = g->tensor->nnz,
        .bytes = p.bytes,
        .wait_ns = p.wait_ns,
        .copy_ns = p.copy_ns,
        .kernel_ns = times->total_ns - p.wait_ns - p.copy_ns,
        .share = 1,
    };
    return rc;
}
