#include "tools/tstream_engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/num.h"
#include "cpd/model_read.h"
#include "tools/tool.h"

/* What a run takes beside budget and factors may be this much: partial rows of all but the largest
 * tensors, so that a small budget is one for shards. */
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
    if (e->factor_bytes + other > machine.free_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: factor matrices of rank %u take %s of memory, and %s are free", conf->path,
                       conf->rank, ts_num_bytes(a, e->factor_bytes + other),
                       ts_num_bytes(b, machine.free_bytes));
    e->host_bytes = conf->host_bytes;
    if (e->host_bytes == 0) {
        const uint64_t left = machine.free_bytes - e->factor_bytes;
        e->host_bytes = machine.free_bytes / 2 < left ? machine.free_bytes / 2 : left;
    }
    other = other > BESIDES_BYTES ? other - BESIDES_BYTES : 0;
    if (other >= e->host_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: a budget of %s is too small: partial rows alone take %s at rank %u",
                       conf->path, ts_num_bytes(a, e->host_bytes), ts_num_bytes(b, other),
                       conf->rank);
    *feed_bytes = e->host_bytes - other;
    return 0;
}

static int open_parts(const struct tstream_engine_conf *conf, struct tstream_engine *e,
                      struct ts_err *err)
{
    struct ts_backend_conf bc = { .rank = conf->rank, .precision = conf->precision,
                                  .n_devices = 1, .only_mode = conf->only_mode,
                                  .done = conf->done, .done_ctx = conf->done_ctx };
    struct ts_feed_conf fc = { .only_mode = conf->only_mode, .stop = &tool_stop,
                               .done = conf->done, .done_ctx = conf->done_ctx };
    struct ts_machine machine;
    int rc;
    if (conf->rank == 0 || conf->rank > TS_MAX_RANK)
        return ts_fail(err, TS_EARG, "a rank of %u is not possible: 1 to %u are", conf->rank,
                       TS_MAX_RANK);
    rc = ts_tensor_open(conf->path, &e->tensor, err);
    if (rc < 0)
        return rc;
    ts_machine_get(&machine);
    e->threads = conf->threads > 0 ? conf->threads : machine.cpus;
    rc = tstream_processor_choose(&conf->processor, &e->backend, &bc.device[0], err);
    if (rc < 0)
        return rc;
    bc.tensor = fc.tensor = e->tensor;
    bc.threads = e->threads;
    bc.device_bytes = conf->processor.device_bytes;
    rc = plan_memory(conf, &bc, e, &fc.host_bytes, err);
    if (rc == 0)
        rc = e->backend->open(&bc, &e->be, err);
    if (rc < 0)
        return rc;
    if (e->backend->deal != NULL)
        e->backend->deal(e->be, &fc.deal);
    fc.pin = e->backend->pin;
    fc.unpin = e->backend->unpin;
    fc.checkers = e->threads < MAX_CHECKERS ? e->threads : MAX_CHECKERS;
    return ts_feed_new(&fc, &e->feed, err);
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

void tstream_engine_note(const struct ts_cmd *cmd, const struct ts_feed_stats *stats)
{
    if (stats->fallback != NULL)
        tool_note(cmd, "%s", stats->fallback);
}
