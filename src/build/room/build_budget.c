/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the memory and the threads of a build from the wishes of the user and the limits of the
 * machine. */
#include "build/room/build_budget.h"

#include "base/machine/machine.h"
#include "base/num.h"
#include "base/setting.h"
#include "base/machine/threads.h"
#include "build/room/build_memory.h"

/* Sets o->threads, and checks that this many sort threads and the threads that read can be
 * started. */
static int choose_threads(uint32_t threads, struct ts_build_options *o, struct ts_err *err)
{
    struct ts_build_memory m;
    o->threads = threads > 0 ? threads : ts_threads_default();
    /* with little memory, fewer threads work */
    ts_build_memory_share(o, TS_MIN_ORDER, &m);
    return ts_threads_get(threads > 0 ? m.threads : 0, m.read_threads, &o->threads, err);
}

/* Sets o->memory to `memory`, which the user gave. If it is 0, sets half of the free memory, but at
 * least what shards of shard_bytes need. */
static int choose_memory(uint64_t memory, uint64_t shard_bytes, struct ts_build_options *o,
                         struct ts_err *err)
{
    char least_text[TS_NUM_CHARS], shard[TS_NUM_CHARS];
    const uint64_t least = ts_build_memory_least(shard_bytes);
    struct ts_machine machine;
    o->shard_bytes = shard_bytes;
    if (shard_bytes < TS_BUILD_MIN_SHARD || shard_bytes > TS_BUILD_MAX_SHARD)
        return ts_fail(err, TS_EARG, TS_SET_SHARD " must be 64K to 256M");
    ts_machine_get(&machine);
    o->memory = memory > 0 ? memory : machine.free_bytes / 2;
    if (memory == 0 && o->memory < least)
        o->memory = least;
    if (o->memory < TS_BUILD_MIN_MEMORY)
        return ts_fail(err, TS_EARG, TS_SET_MEMORY " must be at least 32M");
    if (o->memory < least)
        return ts_fail(err, TS_EARG,
                       TS_SET_MEMORY " must be at least %s, eight times the %s of " TS_SET_SHARD,
                       ts_num_bytes(least_text, least), ts_num_bytes(shard, shard_bytes));
    return 0;
}

int ts_build_budget(uint64_t memory, uint64_t shard_bytes, uint32_t threads,
                    struct ts_build_options *o, struct ts_err *err)
{
    const int rc = choose_memory(memory, shard_bytes, o, err);
    return rc == 0 ? choose_threads(threads, o, err) : rc;
}
