#include "tools/tstream_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/num.h"
#include "cpd/als.h"
#include "cpd/model_read.h"
#include "tools/tool.h"

/* What a run takes beside budget and factors may be this much: partial rows and Gram matrices of all but
 * the largest tensors and ranks, so that a small budget is one for shards. */
#define BESIDES_BYTES (UINT64_C(32) << 20)
#define MAX_CHECKERS 16u

/* Splits memory: factors come on top of the budget, what else the backend takes comes out of it where
 * it is much, and the feed gets the rest. */
static int plan_memory(const struct tstream_engine_conf *conf, const struct ts_backend_conf *bc,
                       struct tstream_engine *e, uint64_t *feed_bytes, struct ts_err *err)
{
    struct ts_machine machine;
    uint64_t other;
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    ts_machine_get(&machine);
    e->backend->need(bc, &e->factor_bytes, &other);
    other += ts_als_bytes(bc->tensor, bc->rank);
    if (e->factor_bytes + other > machine.free_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: factor matrices of rank %u take %s of memory, and %s are free", conf->path,
                       conf->rank, ts_num_bytes(a, e->factor_bytes + other),
                       ts_num_bytes(b, machine.free_bytes));
    e->host_bytes = conf->host_bytes;
    if (e->host_bytes == 0) {
        const uint64_t left = machine.free_bytes - e->factor_bytes;
        const uint64_t reserve = machine.free_bytes / 8 + 2 * BESIDES_BYTES;
        e->host_bytes = left > 2 * reserve ? left - reserve : left / 2;
    }
    other = other > BESIDES_BYTES ? other - BESIDES_BYTES : 0;
    if (other >= e->host_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: a budget of %s is too small: sums besides shards take %s at rank "
                       "%u; give more, or a lower --rank",
                       conf->path, ts_num_bytes(a, e->host_bytes), ts_num_bytes(b, other),
                       conf->rank);
    *feed_bytes = e->host_bytes - other;
    return 0;
}

/* Memory of this process that is resident now; 0 where the kernel does not say. */
static uint64_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (f == NULL)
        return 0;
    if (fscanf(f, "%*u %lu", &pages) != 1)
        pages = 0;
    fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What driver and libraries of the GPUs took since `before` comes out of the budget: it is known only
 * now, some 0.2 GiB and more with each GPU. The backend's own buffers were counted. */
static int take_libraries(struct tstream_engine *e, uint64_t before, uint64_t *feed_bytes,
                          struct ts_err *err)
{
    const uint64_t counted = before + e->host_bytes - *feed_bytes, now = resident_bytes();
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    e->library_bytes = now > counted ? now - counted : 0;
    if (e->library_bytes >= *feed_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "--host-memory: %s is too little with GPUs, whose driver and libraries take %s "
                       "of it",
                       ts_num_bytes(a, e->host_bytes), ts_num_bytes(b, e->library_bytes));
    *feed_bytes -= e->library_bytes;
    return 0;
}

static int open_feed(const struct tstream_engine_conf *conf, struct ts_feed_conf *fc,
                     struct tstream_engine *e, struct ts_err *err)
{
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    int rc;
    fc->tensor = e->tensor;
    fc->only_mode = conf->only_mode;
    fc->stop = &tool_stop;
    fc->done = conf->done;
    fc->done_ctx = conf->done_ctx;
    fc->trace = conf->trace;
    if (e->backend->deal != NULL)
        e->backend->deal(e->be, &fc->deal);
    fc->pin = e->backend->pin;
    fc->unpin = e->backend->unpin;
    fc->pin_ctx = e->be;
    fc->checkers = e->threads < MAX_CHECKERS ? e->threads : MAX_CHECKERS;
    rc = ts_feed_new(fc, &e->feed, err);
    if (rc == TS_ELIMIT && e->library_bytes > 0) { /* less was left than the user named */
        const size_t at = strlen(err->text);
        snprintf(err->text + at, sizeof err->text - at,
                 " (of --host-memory %s, driver and libraries of the GPUs take %s)",
                 ts_num_bytes(a, e->host_bytes), ts_num_bytes(b, e->library_bytes));
    }
    return rc;
}

static int open_parts(const struct tstream_engine_conf *conf, struct tstream_engine *e,
                      struct ts_err *err)
{
    struct ts_backend_conf bc = { .rank = conf->rank, .precision = conf->precision,
                                  .only_mode = conf->only_mode, .trace = conf->trace,
                                  .done = conf->done, .done_ctx = conf->done_ctx,
                                  .stop = &tool_stop };
    struct ts_feed_conf fc = { 0 };
    struct ts_machine machine;
    uint64_t before;
    int rc;
    if (conf->rank == 0 || conf->rank > TS_MAX_RANK)
        return ts_fail(err, TS_EARG, "a rank of %u is not possible: 1 to %u are", conf->rank,
                       TS_MAX_RANK);
    rc = ts_tensor_open(conf->path, &e->tensor, err);
    if (rc < 0)
        return rc;
    if (conf->only_mode >= (int)e->tensor->order) /* before a GPU is set up */
        return ts_fail(err, TS_EARG, "%s: there is no mode %d, only %u", conf->path,
                       conf->only_mode + 1, e->tensor->order);
    ts_machine_get(&machine);
    e->threads = conf->threads > 0 ? conf->threads : machine.cpus;
    before = resident_bytes();
    rc = tstream_processor_choose(&conf->processor, &e->backend, &bc, &e->no_gpu, err);
    if (rc < 0)
        return rc;
    bc.tensor = e->tensor;
    bc.threads = e->threads;
    if (bc.n_devices == 0) /* a GPU's backend names its own */
        ts_trace_group(conf->trace, 1, "CPU");
    e->n_devices = bc.n_devices;
    memcpy(e->device, bc.device, sizeof e->device);
    rc = plan_memory(conf, &bc, e, &fc.host_bytes, err);
    bc.host_bytes = fc.host_bytes;
    if (rc == 0)
        rc = e->backend->open(&bc, &e->be, err);
    if (rc == 0 && bc.n_devices > 0)
        rc = take_libraries(e, before, &fc.host_bytes, err);
    return rc == 0 ? open_feed(conf, &fc, e, err) : rc;
}

int tstream_engine_open(const struct tstream_engine_conf *conf, struct tstream_engine *ret,
                        struct ts_err *err)
{
    int rc;
    memset(ret, 0, sizeof *ret);
    rc = open_parts(conf, ret, err);
    if (rc < 0)
        tstream_engine_close(ret);
    return rc;
}

void tstream_engine_close(struct tstream_engine *e)
{
    ts_feed_free(e->feed); /* before the backend that its memory may be page-locked for */
    if (e->backend != NULL)
        e->backend->close(e->be);
    ts_tensor_close(e->tensor);
    memset(e, 0, sizeof *e);
}

void tstream_engine_note_processor(const struct ts_cmd *cmd, const struct tstream_engine *e)
{
    if (e->no_gpu.code != 0)
        tool_note(cmd, "%s", e->no_gpu.text);
}

void tstream_engine_note(const struct ts_cmd *cmd, const struct ts_feed_stats *stats)
{
    if (stats->fallback != NULL)
        tool_note(cmd, "%s", stats->fallback);
}
