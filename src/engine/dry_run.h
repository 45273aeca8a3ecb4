/* SPDX-License-Identifier: BSD-3-Clause */
/* dry_run.h - computes the memory that a run would hold, and the bytes that it would move.
 *
 * The engine is opened with `dry_run` (engine.h): it has chosen its processor and divided its
 * memory, but has neither feed nor buffers. So the place of each shard or slab and the bytes that a
 * sweep moves are known.
 *
 *   owner    the caller owns the struct
 *   units    bytes; those of a sweep are not those of the first sweep, which reads more
 *   threads  any thread; pure functions
 */
#ifndef TS_ENGINE_DRY_RUN_H
#define TS_ENGINE_DRY_RUN_H

#include "engine/engine.h"

struct ts_dry_run {
    uint64_t whole_bytes;    /* bytes of all shards on disk */
    uint64_t packed_bytes;   /* bytes on disk of the shards that this process reads */
    uint64_t shard_bytes;    /* bytes of all shards in memory */
    uint64_t passing_bytes;  /* bytes in memory of the shards that no GPU keeps */
    uint64_t resident_bytes; /* the part of passing_bytes that stays in host memory */
    uint64_t slot_bytes, n_slots;
    uint64_t disk_bytes; /* bytes read from disk in a sweep after the first */

    uint32_t n_devices; /* number of GPUs; 0: CPU */
    struct ts_device_memory device[TS_MAX_DEVICES];
    uint64_t link_bytes[TS_MAX_DEVICES]; /* bytes sent to each device in a sweep after the first */

    /* Host memory of the run, without the program and the GPU libraries. */
    uint64_t host_bytes;
};

void ts_dry_run(const struct ts_engine *e, const struct ts_spec *spec, struct ts_dry_run *ret);

#endif
