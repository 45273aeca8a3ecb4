/* SPDX-License-Identifier: BSD-3-Clause */
/* build_memory.h - divides the memory of a build before input is read.
 *
 * Most of the memory is two areas, in which records are sorted, and a smaller one (scratch). With
 * several ranks, each rank also keeps records in two more blocks of the size of an area, and the
 * other records in files. Besides, a build reads (text, batches), merges (tables of values and used
 * slices) or packs (shards that wait for the disk). Only one of these steps runs at a time. So the
 * budget is reduced by the memory of sorting, and of the step that needs most. If each thread would
 * need too much, fewer threads work.
 *
 * The budget does not include the program itself, stacks, and the table of shards (64 bytes for
 * each shard, twice when the index is written). These take 24 MiB in all for any tensor of less
 * than about 10^10 nonzeros.
 *
 *   units    bytes, words of 8 bytes
 *   threads  pure
 *   errors   none
 */
#ifndef TS_BUILD_BUILD_MEMORY_H
#define TS_BUILD_BUILD_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "build/build.h"

struct ts_build_memory {
    /* number of threads that sort and pack; of threads that read; of threads that merge */
    uint32_t threads, read_threads, merge_threads;
    /* bytes of text that each thread reads at a time */
    size_t piece_bytes;
    /* bytes of the bitmaps of used slices, for all modes together */
    uint64_t bitmap_bytes;

    uint64_t read_bytes, merge_bytes, pack_bytes; /* bytes that reading, merging and packing need */
    /* bytes that sorting needs in addition to reading, merging or packing */
    uint64_t sort_bytes;
    /* words of each of the two areas for sorting records, and of the smaller scratch memory */
    uint64_t area_words, scratch_words;
    /* with several ranks: words of each of two more areas, for stored records (spool.h) */
    uint64_t room_words;
};

/* Divides o->memory. beside_bytes: memory that reading needs in addition to text and batches.
 * ts_build_memory_share is the same with beside_bytes 0. */
void ts_build_memory_share_beside(const struct ts_build_options *o, uint32_t order,
                                  uint64_t beside_bytes, struct ts_build_memory *ret);
void ts_build_memory_share(const struct ts_build_options *o, uint32_t order,
                           struct ts_build_memory *ret);

/* Returns the least o->memory for shards of shard_bytes, which is at least TS_BUILD_MIN_MEMORY. */
uint64_t ts_build_memory_least(uint64_t shard_bytes);

#endif
