/* SPDX-License-Identifier: BSD-3-Clause */
/* build_memory.h - how the memory of a build is divided, before anything is read.
 *
 * Most of it is two areas in which records are sorted, and a smaller one. Several ranks keep what
 * they have read beside the areas, in two rooms of their size, and the rest in files. Besides, a
 * build needs memory for one of three things at a time: reading (text, batches), merging (tables of
 * values and used slices), packing (shards that wait for the disk), each together with what sorting
 * needs. The largest of the three is subtracted from the budget. Where a thread would need too
 * much, fewer threads work.
 *
 * Not counted: the program itself, stacks, and the table of shards (64 bytes for each shard, twice
 * when the index is written), 24 MiB in all for any tensor of less than about 10^10 nonzeros.
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
    uint32_t threads, read_threads, merge_threads; /* threads: of sorts and packing */
    size_t piece_bytes;                            /* of text read at a time by each thread */
    uint64_t bitmap_bytes;                         /* for the sets of used slices of all modes */

    uint64_t read_bytes, merge_bytes, pack_bytes; /* needs of reading, merging and packing */
    uint64_t sort_bytes;                          /* what sorting needs besides one of these */
    uint64_t area_words, scratch_words; /* words of each of the two areas, and of the third one */
    /* with several ranks: words of each of two rooms of spools (build/sort/spool.h) */
    uint64_t room_words;
};

/* Divides the memory. beside_bytes are held during reading, beside everything else. */
void ts_build_memory_share_beside(const struct ts_build_options *o, uint32_t order,
                                  uint64_t beside_bytes, struct ts_build_memory *ret);
void ts_build_memory_share(const struct ts_build_options *o, uint32_t order,
                           struct ts_build_memory *ret);

/* The least memory for shards of this size; TS_BUILD_MIN_MEMORY for small ones. */
uint64_t ts_build_memory_least(uint64_t shard_bytes);

#endif
