/* SPDX-License-Identifier: BSD-3-Clause */
/* build_memory.h - divides the memory of a build, before anything is read.
 *
 * Most of it is two areas in which records are sorted, and a smaller one (scratch). Several ranks
 * also keep records in two rooms, each as large as an area; the rest is in files. Besides, a build
 * needs memory for one of three things at a time: reading (text, batches), merging (tables of
 * values and used slices), packing (shards that wait for the disk). The largest of the three, and
 * what sorting needs, is subtracted from the budget. Where a thread would need too much, fewer
 * threads work.
 *
 * Not counted: the program itself, stacks, and the table of shards (64 bytes for each shard, twice
 * when the index is written). These take 24 MiB in all for any tensor of less than about 10^10
 * nonzeros.
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
    /* threads of sorts and packing, of reading, and of merging */
    uint32_t threads, read_threads, merge_threads;
    /* bytes of text that each thread reads at a time */
    size_t piece_bytes;
    /* bytes of the bitmaps of used slices, for all modes together */
    uint64_t bitmap_bytes;

    uint64_t read_bytes, merge_bytes, pack_bytes; /* bytes that reading, merging and packing need */
    /* bytes that sorting needs, in addition to one of these */
    uint64_t sort_bytes;
    uint64_t area_words, scratch_words; /* words of each of the two areas, and of the third one */
    /* with several ranks: words of each of the two rooms of spools (build/sort/spool.h) */
    uint64_t room_words;
};

/* Divides o->memory. beside_bytes: memory that reading needs in addition to text and batches; 0 in
 * ts_build_memory_share. */
void ts_build_memory_share_beside(const struct ts_build_options *o, uint32_t order,
                                  uint64_t beside_bytes, struct ts_build_memory *ret);
void ts_build_memory_share(const struct ts_build_options *o, uint32_t order,
                           struct ts_build_memory *ret);

/* Returns the least memory for shards of this size, at least TS_BUILD_MIN_MEMORY. */
uint64_t ts_build_memory_least(uint64_t shard_bytes);

#endif
