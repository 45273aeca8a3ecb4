/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the parts of an engine one after another: tensor, backend and feed. Each part limits the
 * memory of the next one. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/setting.h"
#include "base/machine/threads.h"
#include "cpu/dense/dense_scan.h"
#include "format/arrays/dense.h"
#include "format/tensor_kind.h"
#include "model/model_read.h"
#include "stream/cells_norm.h"
#include "stream/comm.h"

#define MAX_CHECKERS 16u
/* threads that mostly wait: the reader of shards, the trace, and the threads that watch or write
 * files */
#define WAITING 8u

/* Fails if drivers and libraries of GPUs leave no part of the budget for shards. */
static int check_libraries(const struct ts_engine *e, struct ts_err *err)
{
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    if (e->library_bytes == 0 || e->library_bytes < e->memory.feed_bytes)
        return 0;
    return ts_fail(err, TS_ELIMIT,
                   TS_SET_HOST_MEMORY ": %s is too little with GPUs, whose driver and libraries "
                                      "take %s of it",
                   ts_num_bytes(a, e->memory.host_bytes), ts_num_bytes(b, e->library_bytes));
}

/* Subtracts from the budget the memory that drivers and libraries of the GPUs took since the
 * process had `before` bytes of resident memory. It is known only now: some 0.2 GiB and more for
 * each GPU. The backend's own buffers were counted earlier. m->other_bytes includes memory of the
 * method, which is not allocated yet. */
static int take_libraries(struct ts_engine *e, uint64_t before, struct ts_err *err)
{
    struct ts_engine_memory *m = &e->memory;
    const uint64_t counted = before + m->other_bytes - m->method_bytes;
    const uint64_t now = ts_engine_memory_resident();
    int rc;
    e->library_bytes = now > counted ? now - counted : 0;
    rc = check_libraries(e, err);
    if (rc == 0)
        m->feed_bytes -= e->library_bytes;
    return rc;
}

/* Chooses the budget of a sample so that the same share of its shards stays in memory as of the
 * whole tensor, whose budget would keep more of a sample. A sample is small, so it gets few slots
 * (buffers for shards that do not stay): half as many as there are such shards. */
static int sample_budget(const struct ts_engine_conf *conf, struct ts_feed_conf *fc,
                         struct ts_engine *e, struct ts_err *err)
{
    const uint32_t n = fc->deal.n_consumers > 0 ? fc->deal.n_consumers : 1;
    uint64_t total = 0, shards = 0, low = 0, high = UINT64_C(1) << 42;
    if (conf->resident_share >= 1) {
        e->memory.feed_bytes = high;
        return 0;
    }
    for (uint32_t m = 0; m < e->tensor->order; m++)
        for (uint64_t i = 0; i < e->tensor->mode[m].disk.n_shards; i++)
            if (fc->deal.keep[m] == NULL || !fc->deal.keep[m][i]) {
                total += ts_residency_bytes(&e->tensor->mode[m].shard[i]);
                shards++;
            }
    fc->most_slots = (uint32_t)((1 - conf->resident_share) * (double)shards / 2);
    fc->most_slots = fc->most_slots > n + 1 ? fc->most_slots : n + 1;
    while (high - low > TS_PAGE) {
        const uint64_t middle = low + (high - low) / 2;
        struct ts_residency r = { 0 };
        const int rc = ts_residency_plan(e->tensor, conf->only_mode, fc->deal.keep, n,
                                         fc->most_slots, middle, &r, err);
        if (rc < 0 && rc != TS_ELIMIT)
            return rc;
        if (rc == TS_ELIMIT || (double)r.resident_bytes <= conf->resident_share * (double)total)
            low = middle;
        else
            high = middle;
        if (rc == 0)
            ts_residency_free(&r);
    }
    /* the smallest memory found that keeps the wanted share of the shards */
    e->memory.feed_bytes = high;
    return 0;
}

/* Plans which slabs of a dense tensor stay in memory, and opens the feed. The cells are scanned
 * once, unless only a plan is wanted. */
static int open_slabs(const struct ts_engine_conf *conf, struct ts_feed_conf *fc,
                      struct ts_engine *e, struct ts_err *err)
{
    int rc;
    fc->host_bytes = e->memory.feed_bytes;
    if (conf->sample != NULL) {
        const uint64_t bytes = e->tensor->dense->cells * e->tensor->dense->cell_bytes;
        const uint64_t slots = 16 * (ts_dense_most_bytes(e->tensor->dense) + 2 * TS_PAGE);
        fc->host_bytes = conf->resident_share >= 1
                             ? UINT64_C(1) << 42
                             : slots + (uint64_t)(conf->resident_share * (double)bytes);
    }
    if (conf->dry_run)
        return ts_slabs_plan(&(struct ts_slabs_conf){ .tensor = e->tensor,
                                                      .host_bytes = fc->host_bytes,
                                                      .hold = fc->pin != NULL ? TS_SLABS_HOLD : 1,
                                                      .keep = fc->deal.slab },
                             &e->slabs, err);
    rc = ts_feed_new(fc, &e->feed, err);
    if (rc == 0)
        rc = ts_dense_scan(e->tensor, e->feed, e->threads, err);
    if (rc == 0 && !conf->unknown && !ts_spec_of(conf->spec)->observed)
        rc = ts_dense_check_known(e->tensor->dense, err);
    return rc;
}

/* Plans which shards stay in memory, and opens the feed unless only a plan is wanted. */
static int open_feed(const struct ts_engine_conf *conf, struct ts_engine *e, struct ts_err *err)
{
    struct ts_feed_conf fc = { .tensor = e->tensor,
                               .only_mode = conf->only_mode,
                               .stop = conf->stop,
                               .done = conf->done,
                               .done_ctx = conf->done_ctx,
                               .trace = conf->trace };
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    int rc = 0;
    e->backend->deal(e->be, &fc.deal);
    fc.pin = e->backend->pin;
    fc.unpin = e->backend->unpin;
    fc.pin_ctx = e->be;
    if (e->tensor->dense != NULL)
        return open_slabs(conf, &fc, e, err);
    if (conf->sample != NULL)
        rc = sample_budget(conf, &fc, e, err);
    else if (!conf->dry_run && !conf->unknown) /* the norm needs memory that the feed takes later */
        rc = ts_cells_norm(&(struct ts_cells_conf){ .tensor = e->tensor,
                                                    .threads = e->threads,
                                                    .bytes = e->memory.feed_bytes,
                                                    .comm = conf->comm,
                                                    .stop = conf->stop },
                           err);
    if (rc < 0)
        return rc;
    fc.host_bytes = e->memory.feed_bytes;
    fc.checkers = e->threads < MAX_CHECKERS ? e->threads : MAX_CHECKERS;
    rc = conf->dry_run ? ts_residency_plan(e->tensor, conf->only_mode, fc.deal.keep,
                                           fc.deal.n_consumers > 0 ? fc.deal.n_consumers : 1,
                                           fc.most_slots, fc.host_bytes, &e->residency, err)
                       : ts_feed_new(&fc, &e->feed, err);
    if (rc == TS_ELIMIT && e->library_bytes > 0) { /* the libraries have left less than the user
                                                    * asked for */
        const size_t at = strlen(err->text);
        ts_setting_print(err->text + at, sizeof err->text - at,
                         " (of " TS_SET_HOST_MEMORY
                         " %s, driver and libraries of the GPUs take %s)",
                         ts_num_bytes(a, e->memory.host_bytes), ts_num_bytes(b, e->library_bytes));
    }
    return rc;
}

/* Returns the highest rank of the models, which the processor must support. */
static uint32_t highest_rank(const struct ts_engine_conf *conf)
{
    uint32_t ret = conf->n_models > 0 ? 0 : conf->rank;
    for (uint32_t k = 0; k < conf->n_models; k++)
        ret = conf->ranks[k] > ret ? conf->ranks[k] : ret;
    return ret;
}

/* Returns the cost of a parallel region (OpenMP) in a pass of this run, relative to that of an
 * MTTKRP. With observed cells, a nonzero also adds to a Gram matrix. A Poisson model has ten rounds
 * in a region, and other losses about as many logarithms, samples and steps. On one core, sweeps
 * took 2.8, 16 and 24 times as long as those of least squares (rank 16, 90,730 nonzeros, four
 * modes). */
static double products(const struct ts_engine_conf *conf, const struct ts_tensor *t)
{
    const struct ts_spec *spec = ts_spec_of(conf->spec);
    if (spec->poisson || spec->loss != TS_GCP_NONE)
        return 10;
    return spec->observed ? 1 + highest_rank(conf) / (2.0 * t->order) : 1;
}

/* Returns about how many multiply-adds a parallel region (OpenMP) of a pass computes for one
 * mode. */
static uint64_t region_adds(const struct ts_engine_conf *conf, const struct ts_tensor *t)
{
    const double models = conf->n_models > 1 ? conf->n_models : 1;
    const double adds = (double)t->nnz * t->order * highest_rank(conf) * models * products(conf, t);
    return adds < (double)(UINT64_MAX / 2) ? (uint64_t)adds : UINT64_MAX / 2;
}

/* Chooses the number of threads. If the user does not set it, it is the number that the pass over
 * one mode keeps busy. OpenMP ends the program if it cannot start its threads. So this checks that
 * these threads can start, in addition to those of the feed, which start first. */
static int choose_threads(const struct ts_engine_conf *conf, const struct ts_tensor *t,
                          uint32_t *ret, struct ts_err *err)
{
    const uint32_t most = conf->threads > 0 ? conf->threads : ts_threads_default();
    const uint32_t checkers = most < MAX_CHECKERS ? most : MAX_CHECKERS;
    const int rc = ts_threads_get(conf->threads, checkers + WAITING, ret, err);
    if (rc == 0 && conf->threads == 0)
        *ret = ts_threads_worth(*ret, region_adds(conf, t));
    return rc;
}

/* Whether `bytes`, the part of the budget that is left, is enough for shards when several models
 * share it. *all_stay: whether it is enough for all shards at once. */
static int check_feed(const struct ts_engine_conf *conf, const struct ts_engine *e, uint64_t bytes,
                      int *all_stay, struct ts_err *err)
{
    static const unsigned char *const none[TS_MAX_ORDER];
    const uint32_t n_consumers = e->n_devices > 0 ? e->n_devices : 1;
    struct ts_residency r = { 0 };
    const int rc =
        ts_residency_plan(e->tensor, conf->only_mode, none, n_consumers, 0, bytes, &r, err);
    *all_stay = rc == 0 && r.n_slots == 0;
    if (rc == 0)
        ts_residency_free(&r);
    return rc;
}

/* Plans the memory of the first n models, computed at the same time, with GPU libraries loaded.
 * Returns TS_ELIMIT if they do not fit. */
static int plan_several(const struct ts_engine_conf *conf, const struct ts_engine_memory_conf *mc,
                        uint32_t n, struct ts_backend_conf *bc, struct ts_engine *e, int *all_stay,
                        struct ts_err *err)
{
    int rc;
    e->n_models = n;
    bc->n_models = n;
    rc = ts_engine_memory_plan(e->backend, bc, mc, &e->memory, err);
    if (rc == 0)
        rc = check_libraries(e, err);
    return rc == 0 ? check_feed(conf, e, e->memory.feed_bytes - e->library_bytes, all_stay, err)
                   : rc;
}

/* Returns the bytes of factors that the caller of the engine holds, plus the bytes for a pass that
 * evaluates models at the cells. */
static uint64_t own_bytes(const struct ts_engine_conf *conf, const struct ts_engine *e)
{
    return conf->own_bytes +
           (ts_has_capability(conf->needs, TS_CAN_CELLS)
                ? e->backend->cells_bytes(e->tensor, highest_rank(conf), e->threads)
                : 0);
}

/* Plans the memory of as many models as can be computed at the same time. If all shards stay in
 * memory for fewer models, takes the number that the backend computes fastest. */
static int plan_memory(const struct ts_engine_conf *conf, struct ts_backend_conf *bc,
                       struct ts_engine *e, struct ts_err *err)
{
    const struct ts_engine_memory_conf mc = { .host_bytes = conf->host_bytes,
                                              .own_bytes = own_bytes(conf, e),
                                              .accelerate = conf->accelerate,
                                              .copy = conf->copy,
                                              .spec = conf->spec };
    uint32_t most = 1, few;
    int rc, all_stay = 0;
    bc->n_models = conf->n_models;
    bc->ranks = conf->ranks;
    if (conf->n_models > 0)
        most = e->backend->most(bc);
    few = most > 1 ? e->backend->together(bc) : 1;
    if (few > 1 && few < most) {
        rc = plan_several(conf, &mc, few, bc, e, &all_stay, err);
        if (all_stay || (rc < 0 && rc != TS_ELIMIT))
            return rc;
    }
    for (; most > 1; most--) {
        rc = plan_several(conf, &mc, most, bc, e, &all_stay, err);
        if (rc != TS_ELIMIT)
            return rc;
    }
    e->n_models = 1;
    bc->n_models = 0;
    bc->ranks = NULL;
    return ts_engine_memory_plan(e->backend, bc, &mc, &e->memory, err);
}

/* Opens the backend, with fewer models if devices lack memory for all of them. */
static int open_backend(const struct ts_engine_conf *conf, struct ts_backend_conf *bc,
                        struct ts_engine *e, struct ts_err *err)
{
    struct ts_engine_conf fewer = *conf;
    int rc;
    do {
        rc = plan_memory(&fewer, bc, e, err);
        if (rc < 0)
            return rc;
        bc->host_bytes = e->memory.feed_bytes;
        bc->spare_bytes =
            conf->sample != NULL && conf->resident_share < 1 ? 0 : e->memory.spare_bytes;
        rc = e->backend->open(bc, &e->be, err);
        fewer.n_models = e->n_models - 1;
    } while (rc == TS_ELIMIT && fewer.n_models > 0);
    return rc;
}

/* *n := the smallest *n of all ranks (processes). */
static int least_of_ranks(struct ts_comm *comm, uint32_t *n, struct ts_err *err)
{
    uint64_t *first;
    uint32_t *each;
    int rc;
    if (!ts_comm_many(comm) || comm->ops == NULL)
        return 0;
    first = calloc(comm->n + UINT64_C(1), sizeof *first);
    each = calloc(comm->n, sizeof *each);
    if (first == NULL || each == NULL) {
        rc = comm->ops->agree(comm, ts_fail(err, TS_ENOMEM, "out of memory"), err);
    } else {
        for (uint32_t r = 0; r <= comm->n; r++)
            first[r] = r * sizeof *each;
        each[comm->rank] = *n;
        rc = comm->ops->agree(comm, 0, err);
        if (rc == 0)
            rc = comm->ops->gather(comm, each, first, err);
        for (uint32_t r = 0; r < comm->n && rc == 0; r++)
            *n = each[r] < *n ? each[r] : *n;
    }
    free(first);
    free(each);
    return rc;
}

/* Returns for how many of the open models there is enough memory. rc: the result of the checks that
 * GPU libraries and shards fit. */
static uint32_t count_models(const struct ts_engine_conf *conf, int rc, struct ts_backend_conf *bc,
                             struct ts_engine *e)
{
    struct ts_engine_conf fewer = *conf;
    const uint32_t n = e->n_models;
    struct ts_err unsaid; /* discarded: the plan for fewer models reports its own error */
    uint32_t fit = n;
    if (rc == TS_ELIMIT && n > 1) {
        fewer.n_models = n - 1;
        (void)plan_memory(&fewer, bc, e, &unsaid);
        fit = e->n_models;
        e->n_models = n;
    }
    return fit;
}

/* Opens the backend within the budget. The memory of GPU libraries is known only after that. If
 * they leave too little for all models, opens the backend again with fewer models, the same number
 * on all processes. */
static int open_in_budget(const struct ts_engine_conf *conf, uint64_t before,
                          struct ts_backend_conf *bc, struct ts_engine *e, struct ts_err *err)
{
    struct ts_engine_conf fewer = *conf;
    for (;;) {
        int all_stay, others, rc = open_backend(&fewer, bc, e, err);
        uint32_t fit;
        if (rc < 0 || e->n_devices == 0)
            return rc;
        rc = take_libraries(e, before, err);
        if (rc == 0 && e->n_models > 1)
            rc = check_feed(conf, e, e->memory.feed_bytes, &all_stay, err);
        fit = count_models(conf, rc, bc, e);
        others = conf->n_models > 0 ? least_of_ranks(conf->comm, &fit, err) : 0;
        if (others < 0 || fit == e->n_models)
            return others < 0 ? others : rc;
        fewer.n_models = fit;
        e->backend->close(e->be);
        e->be = NULL;
    }
}

/* Returns TS_EARG if the rank of some model is not from 1 to TS_MAX_RANK. */
static int check_ranks(const struct ts_engine_conf *conf, struct ts_err *err)
{
    for (uint32_t k = 0; k < conf->n_models || k == 0; k++) {
        const uint32_t rank = conf->n_models > 0 ? conf->ranks[k] : conf->rank;
        if (rank == 0 || rank > TS_MAX_RANK)
            return ts_fail(err, TS_EARG, "a rank of %u is not possible: 1 to %u are", rank,
                           TS_MAX_RANK);
    }
    return 0;
}

static int open_parts(const struct ts_engine_conf *conf, struct ts_engine *e, struct ts_err *err)
{
    struct ts_backend_conf bc = { .rank = highest_rank(conf),
                                  .precision = conf->precision,
                                  .only_mode = conf->only_mode,
                                  .trace = conf->trace,
                                  .done = conf->done,
                                  .done_ctx = conf->done_ctx,
                                  .comm = conf->comm,
                                  .stop = conf->stop };
    uint64_t before;
    int rc = check_ranks(conf, err);
    if (rc < 0)
        return rc;
    e->comm = conf->comm;
    e->tensor = conf->sample != NULL ? conf->sample : conf->tensor;
    rc = e->tensor != NULL ? 0 : ts_tensor_open_any(conf->path, &e->own, err);
    if (rc < 0)
        return rc;
    if (e->tensor == NULL)
        e->tensor = e->own;
    /* this is checked before a GPU is set up, which takes time */
    if (conf->only_mode >= (int)e->tensor->order)
        return ts_fail(err, TS_EARG, "%s: there is no " TS_NTH_MODE ", only %u", conf->path,
                       (unsigned)conf->only_mode + 1, e->tensor->order);
    if (conf->n_named > e->tensor->order)
        return ts_fail(err, TS_EARG, "%s: there is no " TS_NTH_MODE ", only %u", conf->path,
                       conf->n_named, e->tensor->order);
    rc = ts_spec_check(conf->spec, e->tensor->order, err);
    if (rc < 0)
        return rc;
    rc = choose_threads(conf, e->tensor, &e->threads, err);
    if (rc < 0)
        return rc;
    bc.needs = ts_spec_updates(conf->spec, e->tensor->order) | conf->needs;
    bc.own_rows = ts_spec_own(conf->spec, e->tensor->order);
    bc.tensor = e->tensor;
    bc.products = conf->products;
    before = ts_engine_memory_resident();
    rc = ts_processor_choose(&conf->processor, &e->backend, &bc, &e->no_gpu, err);
    if (rc < 0)
        return rc;
    bc.rank = conf->n_models > 0 ? conf->ranks[0] : conf->rank;
    bc.threads = e->threads;
    if (bc.n_devices == 0) /* the backend of GPUs adds its own names of trace groups */
        ts_trace_group(conf->trace, 1, "CPU");
    e->n_devices = bc.n_devices;
    memcpy(e->device, bc.device, sizeof e->device);
    rc = open_in_budget(conf, before, &bc, e, err);
    return rc == 0 ? open_feed(conf, e, err) : rc;
}

int ts_engine_open(const struct ts_engine_conf *conf, struct ts_engine *ret, struct ts_err *err)
{
    int rc;
    memset(ret, 0, sizeof *ret);
    rc = open_parts(conf, ret, err);
    if (rc < 0)
        ts_engine_close(ret);
    return rc;
}

void ts_engine_close(struct ts_engine *e)
{
    /* the feed is freed first: it unlocks its page-locked memory through the backend */
    ts_feed_free(e->feed);
    if (e->backend != NULL)
        e->backend->close(e->be);
    ts_residency_free(&e->residency);
    ts_tensor_close(e->own);
    memset(e, 0, sizeof *e);
}

void *ts_engine_model(const struct ts_engine *e, uint32_t k)
{
    return k == 0 ? e->be : e->backend->model(e->be, k);
}
