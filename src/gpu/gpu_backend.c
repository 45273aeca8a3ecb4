#include "gpu/gpu_backend.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/shard.h"
#include "gpu/dense_kernel.h"
#include "gpu/edge_kernel.h"
#include "gpu/gpu_fail.h"
#include "gpu/gpu_state.h"

/* Device memory that is left to others when no budget is given: the driver takes some for each
 * kernel module and stream. */
#define RESERVE_BYTES (UINT64_C(512) << 20)
#define STAGE_BYTES (UINT64_C(16) << 20)

static int check(struct ts_err *err, cudaError_t e, const char *what)
{
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, (int)e, what);
}

/* Elements from one row to the next. Rows of up to 128 bytes lie in one line of the cache (padding
 * rank 25 from 112 to 128 bytes made random reads a third faster), longer ones in whole sectors. */
static uint32_t row_stride(uint32_t rank, uint32_t element)
{
    const uint32_t bytes = rank * element;
    const uint32_t unit = bytes <= 16 ? 16 : bytes <= 32 || bytes > 128 ? 32 : 64;
    const uint32_t padded = (bytes + unit - 1) / unit * unit / element;
    return (padded + 3) / 4 * 4;
}

static void set_sizes(struct ts_gpu *g, const struct ts_backend_conf *conf)
{
    g->tensor = conf->tensor;
    g->precision = conf->precision;
    g->rank = conf->rank;
    g->element = conf->precision == TS_FLOAT32 ? 4 : 8;
    g->ld = row_stride(conf->rank, g->element);
    g->stage_rows = STAGE_BYTES / (8 * (uint64_t)conf->rank);
    for (uint32_t m = 0; m < g->tensor->order; m++)
        for (uint64_t i = 0; i < g->tensor->mode[m].disk.n_shards; i++)
            g->n_partitions[m] += ts_shard_partitions(&g->tensor->mode[m].shard[i]);
}

static uint64_t factor_bytes(const struct ts_gpu *g, uint32_t mode)
{
    return g->tensor->mode[mode].disk.n_rows * g->ld * g->element;
}

static uint64_t most_edges(const struct ts_gpu *g)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < g->tensor->order; m++) {
        const uint64_t n = ts_edge_count(g->n_partitions[m]);
        most = n > most ? n : most;
    }
    return most;
}

/* Device memory apart from shards and factors. */
static uint64_t work_bytes(const struct ts_gpu *g)
{
    const uint64_t square = (uint64_t)g->ld * g->ld;
    return most_edges(g) * ((uint64_t)g->ld * g->element + 4) + 8 * ts_dense_scratch(g->ld) +
           square * (8 + g->element) + 8 * (uint64_t)g->tensor->header.n_dict +
           8 * g->stage_rows * g->rank + 4096;
}

/* Decides which shards stay on the device: of every mode the same share, from its start. */
static int plan_shards(struct ts_gpu *g, uint64_t budget, struct ts_err *err)
{
    uint64_t factors = 0, all = 0, left, fixed = work_bytes(g);
    const uint64_t slot =
        ((uint64_t)g->tensor->header.max_shard_bytes + TS_SHARD_SLACK + 255) / 256 * 256;
    for (uint32_t m = 0; m < g->tensor->order; m++) {
        factors += factor_bytes(g, m);
        for (uint64_t i = 0; i < g->tensor->mode[m].disk.n_shards; i++)
            all += ts_gpu_place(&g->tensor->mode[m].shard[i]);
    }
    if (factors + fixed + 2 * slot > budget)
        return ts_fail(err, TS_ELIMIT,
                       "%" PRIu64 " MiB of GPU memory cannot work: the factor matrices of rank %u "
                       "take %" PRIu64 " MiB, partial sums %" PRIu64 " MiB, and two shards %" PRIu64
                       " MiB",
                       budget >> 20, g->rank, factors >> 20, fixed >> 20, 2 * slot >> 20);
    left = budget - factors - fixed;
    if (all > left) {
        g->slot_bytes = slot;
        g->n_slots = left / 2 / slot < 2 ? 2
                     : left / 2 / slot > TS_GPU_SLOTS ? TS_GPU_SLOTS
                                                      : (uint32_t)(left / 2 / slot);
        left -= g->n_slots * slot;
    }
    for (uint32_t m = 0; m < g->tensor->order; m++) {
        const struct ts_mode *mode = &g->tensor->mode[m];
        struct ts_gpu_kept *k = &g->kept[m];
        uint64_t whole = 0, share;
        k->offset = calloc(mode->disk.n_shards + 1, sizeof *k->offset);
        k->filled = calloc(mode->disk.n_shards + 1, 1);
        k->keep = calloc(mode->disk.n_shards + 1, 1);
        if (k->offset == NULL || k->filled == NULL || k->keep == NULL)
            return ts_fail(err, TS_ENOMEM, "%s: out of memory", mode->shards_path);
        for (uint64_t i = 0; i < mode->disk.n_shards; i++)
            whole += ts_gpu_place(&mode->shard[i]);
        share = all <= left ? whole : (uint64_t)((double)whole / (double)all * (double)left);
        for (; k->n < mode->disk.n_shards; k->n++) {
            const uint64_t bytes = ts_gpu_place(&mode->shard[k->n]);
            if (k->bytes + bytes > share)
                break;
            k->offset[k->n] = k->bytes;
            k->keep[k->n] = 1;
            k->bytes += bytes;
        }
    }
    return 0;
}

static int allocate(struct ts_gpu *g, struct ts_err *err)
{
    const struct ts_disk_header *h = &g->tensor->header;
    const uint64_t square = (uint64_t)g->ld * g->ld, edges = most_edges(g);
    cudaError_t e = cudaSuccess;
    for (uint32_t m = 0; m < g->tensor->order && e == cudaSuccess; m++) {
        e = cudaMalloc((void **)&g->factor[m], factor_bytes(g, m));
        if (e == cudaSuccess)
            e = cudaMemset(g->factor[m], 0, factor_bytes(g, m));
    }
    if (e == cudaSuccess)
        e = cudaMalloc(&g->edge, edges * g->ld * g->element);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&g->edge_row, edges * 4);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&g->dict, 8 * (uint64_t)h->n_dict + 8);
    if (e == cudaSuccess && h->n_dict > 0)
        e = cudaMemcpy(g->dict, g->tensor->dict, 8 * (size_t)h->n_dict, cudaMemcpyHostToDevice);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&g->scratch, 8 * ts_dense_scratch(g->ld));
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&g->gram, 8 * square + 8);
    if (e == cudaSuccess)
        e = cudaMalloc(&g->w, square * g->element);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&g->stage, 8 * g->stage_rows * g->rank);
    if (e == cudaSuccess)
        e = cudaHostAlloc(&g->host, 8 * square + 8, cudaHostAllocDefault);
    if (e == cudaSuccess && g->n_slots > 0)
        e = cudaMalloc((void **)&g->slot_memory, g->n_slots * g->slot_bytes);
    g->inner = g->gram == NULL ? NULL : g->gram + square;
    return check(err, e, "memory for the factor matrices on the GPU");
}

static int make_streams(struct ts_gpu *g, struct ts_err *err)
{
    cudaError_t e = cudaStreamCreateWithFlags(&g->copy, cudaStreamNonBlocking);
    for (int i = 0; i < TS_GPU_STREAMS && e == cudaSuccess; i++) {
        e = cudaStreamCreateWithFlags(&g->compute[i], cudaStreamNonBlocking);
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&g->joined[i], cudaEventDisableTiming);
    }
    if (e == cudaSuccess)
        e = cudaEventCreateWithFlags(&g->start, cudaEventDisableTiming);
    for (uint32_t i = 0; i < g->n_slots && e == cudaSuccess; i++) {
        g->slot[i].addr = g->slot_memory + i * g->slot_bytes;
        e = cudaEventCreateWithFlags(&g->slot[i].used, cudaEventDisableTiming);
    }
    return check(err, e, "streams of the GPU");
}

static void gpu_close(void *be)
{
    struct ts_gpu *g = be;
    if (g == NULL)
        return;
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        cudaFree(g->factor[m]);
        cudaFree(g->kept[m].memory);
        cudaFree(g->kept[m].table);
        free(g->kept[m].offset);
        free(g->kept[m].filled);
        free(g->kept[m].keep);
    }
    cudaFree(g->edge);
    cudaFree(g->edge_row);
    cudaFree(g->dict);
    cudaFree(g->scratch);
    cudaFree(g->gram);
    cudaFree(g->w);
    cudaFree(g->stage);
    cudaFree(g->slot_memory);
    cudaFreeHost(g->host);
    for (uint32_t i = 0; i < TS_GPU_SLOTS; i++)
        if (g->slot[i].used != NULL)
            cudaEventDestroy(g->slot[i].used);
    for (int i = 0; i < TS_GPU_STREAMS; i++) {
        if (g->joined[i] != NULL)
            cudaEventDestroy(g->joined[i]);
        if (g->compute[i] != NULL)
            cudaStreamDestroy(g->compute[i]);
    }
    if (g->start != NULL)
        cudaEventDestroy(g->start);
    if (g->copy != NULL)
        cudaStreamDestroy(g->copy);
    free(g);
}

static int gpu_open(const struct ts_backend_conf *conf, void **ret, struct ts_err *err)
{
    struct ts_gpu *g = calloc(1, sizeof *g);
    size_t free_bytes, total_bytes;
    uint64_t budget;
    int rc;
    if (g == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    rc = check(err, cudaSetDevice(conf->device[0]), "the GPU cannot be used");
    if (rc == 0)
        rc = check(err, cudaMemGetInfo(&free_bytes, &total_bytes), "the GPU cannot be used");
    if (rc < 0)
        goto fail;
    budget = conf->device_bytes;
    if (budget == 0)
        budget = free_bytes > 2 * RESERVE_BYTES ? free_bytes - RESERVE_BYTES : free_bytes / 2;
    else if (budget > free_bytes) {
        rc = ts_fail(err, TS_ELIMIT,
                     "--gpu-memory asks for %" PRIu64 " MiB, but the GPU has %" PRIu64
                     " MiB free of %" PRIu64,
                     budget >> 20, (uint64_t)free_bytes >> 20, (uint64_t)total_bytes >> 20);
        goto fail;
    }
    g->number = conf->device[0];
    g->done = conf->done;
    g->done_ctx = conf->done_ctx;
    set_sizes(g, conf);
    rc = plan_shards(g, budget, err);
    if (rc == 0)
        rc = allocate(g, err);
    if (rc == 0)
        rc = make_streams(g, err);
    if (rc < 0)
        goto fail;
    *ret = g;
    return 0;
fail:
    gpu_close(g);
    return rc;
}

static void gpu_need(const struct ts_backend_conf *conf, uint64_t *factors, uint64_t *other)
{
    const uint64_t ld = row_stride(conf->rank, 8);
    *factors = 0; /* they are on the device */
    *other = 8 * ld * ld + 8;
}

static void gpu_deal(void *be, struct ts_feed_deal *ret)
{
    const struct ts_gpu *g = be;
    *ret = (struct ts_feed_deal){ .n_consumers = 1 };
    for (uint32_t m = 0; m < g->tensor->order; m++)
        ret->keep[m] = g->kept[m].keep;
}

/* Page-locked memory is copied at the full speed of the link, and while kernels run. */
static int gpu_pin(void *ctx, void *addr, size_t bytes, struct ts_err *err)
{
    (void)ctx;
    return check(err, cudaHostRegister(addr, bytes, cudaHostRegisterDefault),
                 "page-locking host memory for the GPU");
}

static void gpu_unpin(void *ctx, void *addr)
{
    (void)ctx;
    (void)cudaHostUnregister(addr);
}

static int gpu_put_rows(void *be, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                        struct ts_err *err)
{
    struct ts_gpu *g = be;
    cudaError_t e = cudaSuccess;
    for (uint64_t done = 0; done < n && e == cudaSuccess;) {
        const uint64_t k = n - done < g->stage_rows ? n - done : g->stage_rows;
        e = cudaMemcpyAsync(g->stage, rows + done * g->rank, 8 * k * g->rank,
                            cudaMemcpyHostToDevice, g->compute[0]);
        if (e == cudaSuccess)
            e = (cudaError_t)ts_dense_put(g->precision,
                                          g->factor[mode] + (row + done) * g->ld * g->element, k,
                                          g->ld, g->rank, g->stage, g->compute[0]);
        done += k;
    }
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(g->compute[0]);
    return check(err, e, "writing factor rows to the GPU");
}

static int gpu_get_rows(void *be, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                        struct ts_err *err)
{
    struct ts_gpu *g = be;
    cudaError_t e = cudaSuccess;
    for (uint64_t done = 0; done < n && e == cudaSuccess;) {
        const uint64_t k = n - done < g->stage_rows ? n - done : g->stage_rows;
        e = (cudaError_t)ts_dense_get(g->precision,
                                      g->factor[mode] + (row + done) * g->ld * g->element, k,
                                      g->ld, g->rank, g->stage, g->compute[0]);
        if (e == cudaSuccess)
            e = cudaMemcpyAsync(rows + done * g->rank, g->stage, 8 * k * g->rank,
                                cudaMemcpyDeviceToHost, g->compute[0]);
        if (e == cudaSuccess)
            e = cudaStreamSynchronize(g->compute[0]);
        done += k;
    }
    return check(err, e, "reading factor rows from the GPU");
}

/* Sends `rows` x rank float64 as rows x ld of the precision to g->w. */
static cudaError_t send_square(struct ts_gpu *g, const double *from, uint32_t rows)
{
    memset(g->host, 0, (size_t)g->ld * rows * g->element);
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < g->rank; j++) {
            const size_t to = (size_t)i * g->ld + j;
            if (g->precision == TS_FLOAT32)
                ((float *)g->host)[to] = (float)from[(size_t)i * g->rank + j];
            else
                ((double *)g->host)[to] = from[(size_t)i * g->rank + j];
        }
    return cudaMemcpyAsync(g->w, g->host, (size_t)g->ld * rows * g->element,
                           cudaMemcpyHostToDevice, g->compute[0]);
}

/* Fetches g->gram (and g->inner behind it) once everything before has ended. */
static cudaError_t fetch_gram(struct ts_gpu *g, double *gram, double *inner)
{
    const size_t square = (size_t)g->ld * g->ld;
    const double *from = g->host;
    cudaError_t e = cudaMemcpyAsync(g->host, g->gram, 8 * square + 8, cudaMemcpyDeviceToHost,
                                    g->compute[0]);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(g->compute[0]);
    if (e != cudaSuccess)
        return e;
    for (uint32_t i = 0; i < g->rank; i++)
        memcpy(gram + (size_t)i * g->rank, from + (size_t)i * g->ld, 8 * (size_t)g->rank);
    if (inner != NULL)
        *inner = from[square];
    return cudaSuccess;
}

static int gpu_mttkrp(void *be, uint32_t mode, struct ts_feed *feed,
                      struct ts_backend_times *times, struct ts_err *err)
{
    return ts_gpu_pass(be, mode, feed, times, err);
}

static int gpu_solve(void *be, uint32_t mode, const double *w, double *gram, double *inner,
                     struct ts_err *err)
{
    struct ts_gpu *g = be;
    const uint64_t n = g->tensor->mode[mode].disk.n_rows;
    cudaError_t e = cudaMemsetAsync(g->w, 0, (size_t)g->ld * g->ld * g->element, g->compute[0]);
    if (e == cudaSuccess)
        e = send_square(g, w, g->rank);
    if (e == cudaSuccess)
        e = (cudaError_t)ts_dense_solve(g->precision, g->factor[mode], n, g->ld, g->w, g->scratch,
                                        g->inner, g->compute[0]);
    if (e == cudaSuccess)
        e = (cudaError_t)ts_dense_gram(g->precision, g->factor[mode], n, g->ld, g->scratch, g->gram,
                                       g->compute[0]);
    if (e == cudaSuccess)
        e = fetch_gram(g, gram, inner);
    return check(err, e, "row solves on the GPU");
}

static int gpu_scale(void *be, uint32_t mode, const double *s, struct ts_err *err)
{
    struct ts_gpu *g = be;
    cudaError_t e = cudaStreamSynchronize(g->compute[0]); /* g->host may be on its way */
    if (e == cudaSuccess)
        e = send_square(g, s, 1);
    if (e == cudaSuccess)
        e = (cudaError_t)ts_dense_scale(g->precision, g->factor[mode],
                                        g->tensor->mode[mode].disk.n_rows, g->ld, g->w,
                                        g->compute[0]);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(g->compute[0]);
    return check(err, e, "scaling columns on the GPU");
}

static int gpu_gram(void *be, uint32_t mode, double *gram, struct ts_err *err)
{
    struct ts_gpu *g = be;
    cudaError_t e = (cudaError_t)ts_dense_gram(g->precision, g->factor[mode],
                                               g->tensor->mode[mode].disk.n_rows, g->ld,
                                               g->scratch, g->gram, g->compute[0]);
    if (e == cudaSuccess)
        e = fetch_gram(g, gram, NULL);
    return check(err, e, "Gram matrix on the GPU");
}

const struct ts_backend ts_backend_gpu = {
    .name = "gpu",
    .open = gpu_open,
    .close = gpu_close,
    .need = gpu_need,
    .deal = gpu_deal,
    .pin = gpu_pin,
    .unpin = gpu_unpin,
    .put_rows = gpu_put_rows,
    .get_rows = gpu_get_rows,
    .mttkrp = gpu_mttkrp,
    .solve = gpu_solve,
    .scale = gpu_scale,
    .gram = gpu_gram,
};
