/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of functions of the GPU backend (stream/backend.h). Opens and closes the devices, and
 * forwards calls. */
#include "gpu/team/gpu_backend.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/setting.h"
#include "base/stop.h"
#include "base/trace.h"
#include "format/arrays/dense.h"
#include "gpu/rows/dense_kernel.h"
#include "gpu/team/gpu_budget.h"
#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_device.h"
#include "gpu/team/gpu_devices.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/team/gpu_plan.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/team/gpu_team.h"
#include "gpu/observed/observed_kernel.h"

static int check(struct ts_err *err, ts_gpu_error e, const char *what)
{
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, what);
}

/* ---- opening and closing devices */

static void name_lanes(const struct ts_gpu *g)
{
    static const struct {
        uint32_t lane;
        const char *name;
    } lanes[] = {
        { TS_TRACE_COPY, "copy" },
        { TS_TRACE_SOLVE, "solve" },
        { TS_TRACE_EXCHANGE, "exchange" },
    };
    char name[40];
    for (uint32_t i = 0; i < g->n_here; i++) {
        snprintf(name, sizeof name, "GPU %d", g->member[g->first_here + i].device);
        ts_trace_group(g->trace, 1 + i, name);
        for (size_t k = 0; k < sizeof lanes / sizeof lanes[0]; k++)
            ts_trace_lane(g->trace, TS_TRACE_GPU(i) + lanes[k].lane, lanes[k].name);
        for (uint32_t k = 0; k < TS_GPU_STREAMS + TS_GPU_KEPT_STREAMS; k++) {
            snprintf(name, sizeof name, "kernel %u%s", k,
                     k < TS_GPU_STREAMS ? "" : ", kept shards");
            ts_trace_lane(g->trace, TS_TRACE_GPU(i) + TS_TRACE_KERNEL + k, name);
        }
    }
}

/* Opens the exchange between all members (GPUs of the team). To be called after the devices are
 * opened. */
static int open_exchange(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err)
{
    const enum ts_exchange_kind kind = (enum ts_exchange_kind)conf->exchange;
    const struct ts_exchange_conf among = {
        .device = conf->device,
        .kind = kind,
        .stop = conf->stop,
        .comm = g->comm,
        .first = g->first_of,
        .shared = ts_gpu_ranks_share(g),
    };
    if (g->n_members == 1 || g->is_plan)
        return 0;
    return g->comm != NULL
               ? ts_exchange_new_among(&among, &g->exchange, err)
               : ts_exchange_new(conf->device, g->n_members, kind, conf->stop, &g->exchange, err);
}

/* Opens the devices of this process: allocates all device memory except that for shards, so that
 * the caller can measure how much is in use. Takes a second or two with several devices. */
static int open_devices(struct ts_gpu *g, const struct ts_backend_conf *conf,
                        struct ts_gpu_budget *b, struct ts_err *err)
{
    const uint32_t first = g->first_here, end = first + g->n_here;
    int rc = ts_stop_check(conf->stop, err);
    for (uint32_t i = first; i < end && rc == 0; i++) {
        rc = ts_gpu_budget_check(g, b, i, err);
        if (rc == 0)
            rc = ts_stop_check(conf->stop, err);
    }
    for (uint32_t i = first; i < end && rc == 0; i++) {
        rc = ts_gpu_device_open(g, &g->member[i], err);
        if (rc == 0)
            rc = ts_stop_check(conf->stop, err);
    }
    if (rc == 0)
        rc = ts_gpu_team_open(g, err);
    rc = ts_gpu_ranks_settle(g, rc, err);
    return rc == 0 ? open_exchange(g, conf, err) : rc;
}

/* Allocates memory for shards in the rest of the budget, the same amount on each device. */
static int open_shards(struct ts_gpu *g, const struct ts_backend_conf *conf,
                       struct ts_gpu_budget *b, struct ts_err *err)
{
    uint64_t left = 0;
    int rc = ts_stop_check(conf->stop, err);
    if (rc == 0)
        rc = ts_gpu_team_run(g, ts_gpu_device_warm, NULL, NULL, err);
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here && rc == 0; i++)
        ts_gpu_budget_measure(g, b, i);
    if (rc == 0)
        rc = ts_gpu_budget_left(g, b, &left, err);
    rc = ts_gpu_ranks_settle(g, rc, err);
    if (rc == 0)
        rc = ts_gpu_ranks_least(g, &left, err);
    if (rc < 0)
        return rc;
    rc = ts_gpu_plan_shards(g, left, err);
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here && rc == 0; i++)
        rc = ts_gpu_device_store(g, &g->member[i], err);
    return ts_gpu_ranks_settle(g, rc, err);
}

static void close_gpu(struct ts_gpu *g)
{
    ts_gpu_team_close(g);
    /* after a failure, members (GPUs) may still be sending to other members */
    for (uint32_t i = 0; i < g->n_members; i++)
        if (g->member[i].memory != NULL && cudaSetDevice(g->member[i].device) == cudaSuccess)
            (void)cudaDeviceSynchronize();
    ts_exchange_free(g->exchange);
    for (uint32_t i = 0; i < g->n_members; i++)
        ts_gpu_device_close(&g->member[i]);
    ts_gpu_plan_free(g);
    ts_gpu_ranks_leave(g);
    free(g);
}

static void gpu_close(void *be)
{
    struct ts_gpu_model *of = be;
    if (of != NULL)
        close_gpu(of->gpu);
}

/* Fails for a dense tensor if the run has a loss other than least squares, or several processes. */
static int check_dense(const struct ts_backend_conf *conf, struct ts_err *err)
{
    if (conf->tensor->dense == NULL)
        return 0;
    if ((conf->needs & TS_ROWS_BY_LOSS) != 0)
        return ts_fail(err, TS_EARG, TS_DENSE_BY_SQUARES, conf->tensor->path);
    if (ts_comm_many(conf->comm))
        return ts_fail(err, TS_EARG,
                       "%s: a dense tensor is decomposed by one process: start one, with all GPUs",
                       conf->tensor->path);
    return 0;
}

static int gpu_open(const struct ts_backend_conf *conf, void **ret, struct ts_err *err)
{
    struct ts_gpu *g;
    struct ts_gpu_budget b;
    int rc = check_dense(conf, err);
    if (rc < 0)
        return rc;
    g = calloc(1, sizeof *g);
    if (g == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    rc = ts_gpu_ranks_join(g, conf, err);
    if (rc == 0) {
        rc = ts_gpu_plan_new(g, conf, err);
        ts_gpu_budget_open(g, conf, &b);
        rc = ts_gpu_ranks_settle(g, rc, err);
        if (rc == 0)
            rc = open_devices(g, conf, &b, err);
        if (rc == 0)
            rc = open_shards(g, conf, &b, err);
        ts_gpu_budget_close(&b);
    }
    if (rc < 0) {
        close_gpu(g);
        return rc;
    }
    name_lanes(g);
    ts_gpu_ranks_link(g);
    *ret = &g->model[0];
    return 0;
}

/* ---- the table of functions */

static const struct ts_gpu *gpu_of(const void *be)
{
    return ((const struct ts_gpu_model *)be)->gpu;
}

/* Returns the bytes of the host arrays for the score sums of shares (the nonzeros of one thread
 * block) and of slices, for the mode that needs the most. */
static uint64_t scores_bytes(const struct ts_backend_conf *conf)
{
    const int slices = ts_has_capability(conf->needs, TS_CAN_SLICES);
    uint64_t most = 0;
    for (uint32_t m = 0; m < conf->tensor->order; m++)
        if (conf->only_mode < 0 || (int)m == conf->only_mode) {
            const uint64_t n = ts_gpu_scores_host_bytes(&conf->tensor->mode[m], slices);
            most = n > most ? n : most;
        }
    return most;
}

static uint64_t gpu_row_bytes(uint32_t rank, enum ts_precision precision)
{
    const uint32_t element = (uint32_t)ts_precision_bytes(precision);
    return ts_gpu_plan_stride(rank, element) * (uint64_t)element;
}

static void gpu_need(const struct ts_backend_conf *conf, uint64_t *factors, uint64_t *other)
{
    const uint32_t n = conf->n_models > 0 ? conf->n_models : 1;
    *factors = *other = 0; /* no host memory for factors, which are on the devices */
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t rank = conf->n_models > 0 ? conf->ranks[k] : conf->rank;
        *other +=
            ts_gpu_locked_bytes(ts_gpu_plan_stride(rank, 8), conf->own_rows != 0) * conf->n_devices;
    }
    *other += ts_gpu_cells_host_bytes(conf);
    if (ts_has_capability(conf->needs, TS_CAN_SCORES))
        *other += scores_bytes(conf);
}

static uint32_t gpu_memory(const void *be, struct ts_device_memory *ret)
{
    const struct ts_gpu *g = gpu_of(be);
    const uint64_t factors = ts_gpu_plan_factors(g), slots = g->n_slots * g->slot_bytes;
    const uint64_t shared = g->cells != NULL ? ts_gpu_cells_y_bytes(g) : 0;
    for (uint32_t i = 0; i < g->n_here; i++)
        ret[i] = (struct ts_device_memory){
            .number = g->member[g->first_here + i].device,
            .factor_bytes = factors,
            .sum_bytes = ts_gpu_device_work_bytes(g) - factors,
            .kept_bytes = g->store_bytes - slots - shared,
            .shared_bytes = shared,
            .shared_part = g->cells != NULL ? ts_gpu_cells_y_part(g) : 0,
            .slot_bytes = slots,
            .driver_bytes = g->driver_bytes[g->first_here + i],
        };
    return g->n_here;
}

static uint32_t gpu_groups(const void *be)
{
    const struct ts_gpu *g = gpu_of(be);
    return g->cells != NULL && g->cells->pairs != NULL ? g->cells->pairs->n_groups : 0;
}

/* Sets which shards the feed gives to each member of this process, and which stay on the devices.
 * The feed skips shards of other processes. */
static void gpu_deal(void *be, struct ts_feed_deal *ret)
{
    struct ts_gpu *g = ((struct ts_gpu_model *)be)->gpu;
    *ret = (struct ts_feed_deal){ .n_consumers = g->n_here, .fixed = !ts_gpu_helps(g) };
    if (g->cells != NULL)
        ret->slab = g->cells->keep;
    for (uint32_t m = 0; m < g->tensor->order; m++) {
        struct ts_gpu_mode *mode = &g->mode[m];
        const uint64_t begin = mode->first[g->first_here],
                       end = mode->first[g->first_here + g->n_here];
        for (uint64_t i = 0; i < mode->n_shards; i++)
            mode->deal[i] = i < begin || i >= end ? TS_DEAL_LEAVE
                            : mode->keep[i]       ? TS_DEAL_KEEP
                                                  : TS_DEAL_LEND;
        ret->first[m] = ts_gpu_keep_ranges(g, m);
        ret->keep[m] = mode->deal;
    }
}

static const char *gpu_link(const void *be)
{
    const struct ts_gpu *g = gpu_of(be);
    return g->link[0] == '\0' ? NULL : g->link;
}

/* Page-locks memory, which is then copied at the full speed of the link, even while kernels run. */
static int gpu_pin(void *ctx, void *addr, size_t bytes, struct ts_err *err)
{
    const ts_gpu_error e = cudaHostRegister(addr, bytes, cudaHostRegisterPortable);
    (void)ctx;
    if (e == cudaErrorMemoryAllocation)
        return ts_fail(
            err, TS_ENOMEM,
            "%zu MiB of host memory cannot be page-locked; give less with " TS_SET_HOST_MEMORY,
            bytes >> 20);
    return check(err, e, "page-locking host memory");
}

static void gpu_unpin(void *ctx, void *addr)
{
    struct ts_gpu *g = ((struct ts_gpu_model *)ctx)->gpu;
    /* prefetch copies may still read the memory, if no pass over their mode has followed */
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++)
        if (cudaSetDevice(g->member[i].device) == cudaSuccess)
            (void)cudaStreamSynchronize(g->member[i].copy);
    (void)cudaHostUnregister(addr);
}

/* Sets the modes whose products are stored apart from the factor, because their updates read the
 * old rows. Fails if a mode has more rows than `open` has reserved memory for. */
static int gpu_own_rows(void *be, uint32_t modes, struct ts_err *err)
{
    struct ts_gpu *g = ((struct ts_gpu_model *)be)->gpu;
    for (uint32_t m = 0; m < g->tensor->order; m++)
        if ((modes >> m & 1) != 0 && g->mode[m].n_rows > g->apart_rows)
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE
                           " is to be updated from its old rows, for which no GPU memory was "
                           "set aside",
                           m + 1);
    g->own = modes;
    return 0;
}

static void gpu_sum_in(void *be, enum ts_precision summed)
{
    struct ts_gpu_model *of = be;
    of->summed = summed;
}

static void gpu_hold_out(void *be, const struct ts_hold_out *h)
{
    struct ts_gpu_model *of = be;
    of->hold_out = *h;
}

/* Fails if the product of the mode is not stored where the update needs it (in a buffer of its own
 * or in place of the factor). */
static int check_kind(const void *be, uint32_t mode, const struct ts_row_update *update,
                      struct ts_err *err)
{
    const struct ts_gpu *g = gpu_of(be);
    if (ts_row_reads_old(update->kind) == ts_gpu_owns(g, mode))
        return 0;
    return ts_fail(err, TS_EARG, TS_NTH_MODE ": %s", mode + 1,
                   ts_gpu_owns(g, mode) ? "its old rows are to be kept, but they are not read"
                                        : "its old rows are to be read, but they are not kept");
}

static int gpu_solve(void *be, uint32_t mode, const struct ts_row_update *update,
                     const struct ts_row_sums *sums, struct ts_err *err)
{
    const int rc = check_kind(be, mode, update, err);
    return rc == 0 ? ts_gpu_dense_solve(be, mode, update, sums, err) : rc;
}

static int product_all(const struct ts_request *r, uint32_t n, uint32_t mode, struct ts_feed *feed,
                       struct ts_backend_times *times, struct ts_err *err)
{
    const struct ts_gpu_model *first = r[0].be;
    const struct ts_gpu_request ask = {
        .mode = mode, .feed = feed, .kind = TS_REQUEST_PRODUCT, .n = n, .of = r
    };
    int rc = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++)
        rc = r[k].update == NULL ? 0 : check_kind(r[k].be, mode, r[k].update, err);
    return rc == 0 ? ts_gpu_pass_run(first->gpu, &ask, times, err) : rc;
}

static int gpu_divide_columns(void *be, uint32_t mode, const struct ts_multiply *update,
                              struct ts_multiply_sums *ret, struct ts_err *err)
{
    const struct ts_request one = { .be = be, .multiply = update, .multiplied = ret };
    return ts_gpu_multiply(&one, 1, mode, NULL, NULL, err);
}

#define MOST_RANK 2048u

/* Returns the highest rank at which all devices can solve rows. */
static uint32_t most_solved(const struct ts_backend_conf *conf)
{
    uint32_t most = MOST_RANK;
    for (uint32_t i = 0; i < conf->n_devices; i++) {
        const uint32_t here = ts_dense_most(conf->device[i]);
        most = here < most ? here : most;
    }
    return most;
}

/* Returns the highest supported rank. For models of observed cells of a dense tensor, a thread
 * block must hold the Gram matrix of a row. */
static uint32_t gpu_most_rank(const struct ts_backend_conf *conf)
{
    /* capabilities that need no solves for rows */
    const uint32_t unsolved = TS_ROWS_BY_LOSS | TS_CAN(SCORES);
    if (ts_has_capability(conf->needs, TS_CAN_OBSERVED))
        return conf->tensor != NULL && conf->tensor->dense != NULL
                   ? ts_observed_most(conf->precision)
                   : TS_OBSERVED_LONG_MOST;
    return conf->products || (conf->needs & unsolved) != 0 ? MOST_RANK : most_solved(conf);
}

static void *gpu_model(void *be, uint32_t k)
{
    return &((struct ts_gpu_model *)be)->gpu->model[k];
}

/* Answers requests SCORES (sums of residuals) for one model after another, because all models share
 * the array of the row numbers of slices' partial sums. */
static int scores_in_turn(const struct ts_request *r, uint32_t n, uint32_t mode,
                          struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        ts_feed_rewind(feed);
        rc = ts_gpu_scores(r[k].be, mode, feed, r[k].scores, times, err);
    }
    return rc;
}

static int gpu_pass(const struct ts_request *requests, uint32_t n, uint32_t mode,
                    struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    switch (requests[0].kind) {
    case TS_REQUEST_PRODUCT:
        return product_all(requests, n, mode, feed, times, err);
    case TS_REQUEST_ROWS:
        return ts_gpu_observed_complete(requests, n, mode, feed, times, err);
    case TS_REQUEST_MULTIPLY:
        return ts_gpu_multiply(requests, n, mode, feed, times, err);
    case TS_REQUEST_DESCEND:
        return ts_gpu_descend(requests, n, mode, feed, times, err);
    case TS_REQUEST_ERRORS:
        return ts_gpu_observed_errors(requests, n, mode, feed, times, err);
    case TS_REQUEST_LOSSES:
        return ts_gpu_losses(requests, n, mode, feed, times, err);
    case TS_REQUEST_SCORES:
        return scores_in_turn(requests, n, mode, feed, times, err);
    case TS_REQUEST_CELLS: /* not supported: values of the model are not copied to the host */
    case TS_N_REQUEST_KINDS:
        break;
    }
    return ts_backend_check(&ts_backend_gpu, 1u << ts_request_takes(requests[0].kind), err);
}

/* Returns the bytes of host memory that would make calls faster: 0. */
static uint64_t gpu_wish(const struct ts_backend_conf *conf)
{
    (void)conf;
    return 0;
}

static uint64_t gpu_cells_bytes(const struct ts_tensor *t, uint32_t rank, uint32_t threads)
{
    (void)t;
    (void)rank;
    (void)threads;
    return 0;
}

const struct ts_backend ts_backend_gpu = {
    .version = TS_BACKEND_VERSION,
    .bytes = sizeof(struct ts_backend),
    .name = "gpu",
    .can = TS_ROWS_ALL | TS_CAN(HELD_OUT) | TS_CAN(SCORES) | TS_CAN(SLICES) | TS_CAN(AT_ONCE) |
           TS_CAN(ERRORS) | TS_CAN(LOSSES) | TS_CAN(MEANS) | TS_CAN(WEIGHTS) | TS_CAN(OWN_MEMORY),
    .most_rank = gpu_most_rank,
    .open = gpu_open,
    .close = gpu_close,
    .need = gpu_need,
    .wish = gpu_wish,
    .cells_bytes = gpu_cells_bytes,
    .link = gpu_link,
    .row_bytes = gpu_row_bytes,
    .memory = gpu_memory,
    .deal = gpu_deal,
    .pin = gpu_pin,
    .unpin = gpu_unpin,
    .put_rows = ts_gpu_dense_put,
    .get_rows = ts_gpu_dense_get,
    .own_rows = gpu_own_rows,
    .sum_in = gpu_sum_in,
    .hold_out = gpu_hold_out,
    .model = gpu_model,
    .most = ts_gpu_models_most,
    .together = ts_gpu_models_most,
    .pass = gpu_pass,
    .groups = gpu_groups,
    .solve = gpu_solve,
    .divide_columns = gpu_divide_columns,
    .zeros = ts_gpu_descend_zeros,
    .scale = ts_gpu_dense_scale,
    .gram = ts_gpu_dense_gram,
};
