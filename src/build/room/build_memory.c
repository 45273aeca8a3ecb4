/* SPDX-License-Identifier: BSD-3-Clause */
/* Divides the memory of a build. The headers of the modules that allocate it say how much each
 * needs. */
#include "build/room/build_memory.h"

#include "source/batch.h"
#include "build/sort/extsort.h"
#include "build/merge.h"
#include "build/write/mode_writer.h"
#include "build/sort/record_sort.h"
#include "source/text/text_source.h"
#include "stream/comm.h"

#define SCRATCH_SHARE 8u /* scratch memory is 1/8 of an area */
/* fewest words of scratch memory, except that it is never larger than an area */
#define SCRATCH_WORDS (UINT64_C(1) << 20)
#define SHARD_SHARE   8u /* a shard may need at most 1/8 of the memory */
/* most bytes of all bitmaps of used slices; modes whose bitmaps do not fit are numbered by a
 * sort */
#define MAX_BITMAPS (UINT64_C(16) << 20)
#define MIN_BITMAPS (UINT64_C(3) << 20)

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns how many of `threads` threads can work with `bytes` bytes, if each needs `each` bytes. At
 * least 1. */
static uint32_t threads_for(uint32_t threads, uint64_t bytes, uint64_t each)
{
    return (uint32_t)most(1, least(threads, bytes / each));
}

uint64_t ts_build_memory_least(uint64_t shard_bytes)
{
    return most(TS_BUILD_MIN_MEMORY, SHARD_SHARE * shard_bytes);
}

/* Sets the memory of reading to an eighth of the memory of the build: for text or the tables of the
 * generator, and for batches. */
static void share_reading(uint64_t memory, struct ts_build_memory *m)
{
    const uint64_t part = memory / 8, smallest = ts_text_source_bytes(TS_TEXT_MIN_PIECE);
    m->read_threads = threads_for(m->threads, part, smallest);
    m->piece_bytes = TS_TEXT_MAX_PIECE;
    while (m->piece_bytes > TS_TEXT_MIN_PIECE &&
           m->read_threads * ts_text_source_bytes(m->piece_bytes) > part)
        m->piece_bytes /= 2;
    m->read_bytes = most(part, smallest);
}

static void share_areas(uint64_t memory, int rooms, struct ts_build_memory *m)
{
    const uint64_t other = m->sort_bytes + most(m->read_bytes, most(m->merge_bytes, m->pack_bytes));
    /* areas get at least a quarter of the memory; only tests with little memory come to that */
    const uint64_t words = (memory - least(other, memory / 4 * 3)) / 8;
    uint64_t area = words / ((rooms ? 4 : 2) * SCRATCH_SHARE + 1) * SCRATCH_SHARE;
    const int has_rooms = rooms && area / SCRATCH_SHARE >= SCRATCH_WORDS;
    if (area / SCRATCH_SHARE < SCRATCH_WORDS)
        area = words / 3 > SCRATCH_WORDS ? (words - SCRATCH_WORDS) / 2 : words / 3;
    m->area_words = area / 512 * 512;
    m->room_words = has_rooms ? m->area_words : 0;
}

void ts_build_memory_share(const struct ts_build_options *o, uint32_t order,
                           struct ts_build_memory *ret)
{
    ts_build_memory_share_beside(o, order, 0, ret);
}

void ts_build_memory_share_beside(const struct ts_build_options *o, uint32_t order,
                                  uint64_t beside_bytes, struct ts_build_memory *ret)
{
    struct ts_build_memory m = { 0 };
    const uint64_t memory = o->memory, each = ts_merge_bytes(1, order);
    m.threads = threads_for(o->threads, memory / 8, TS_RECORD_SORT_THREAD_BYTES);
    m.sort_bytes =
        m.threads * TS_RECORD_SORT_THREAD_BYTES + TS_RECORD_SORT_BYTES + TS_EXTSORT_BYTES;
    share_reading(memory, &m);
    m.read_bytes += beside_bytes;
    m.bitmap_bytes = least(MAX_BITMAPS, most(MIN_BITMAPS, memory / 16));
    /* several ranks number all slices by bitmaps, which get more memory then */
    if (ts_comm_many(o->comm))
        m.bitmap_bytes = most(MIN_BITMAPS, memory / 8);
    m.merge_threads = threads_for(m.threads, memory / 6, each);
    m.merge_bytes = m.merge_threads * each + m.bitmap_bytes;
    m.pack_bytes = least(ts_mode_writer_bytes(order, m.threads, o->shard_bytes),
                         most(memory / 4, ts_mode_writer_bytes(order, 0, o->shard_bytes)));
    share_areas(memory, ts_comm_many(o->comm), &m);
    if (o->area_words > 0) {
        m.area_words = o->area_words / 512 * 512;
        m.room_words = ts_comm_many(o->comm) ? m.area_words : 0;
    }
    /* for tests with small areas: the nonzeros in piece_bytes of text must fit in an area */
    while (m.piece_bytes / 2 > m.area_words && m.piece_bytes > 1024)
        m.piece_bytes /= 2;
    m.scratch_words = m.area_words / SCRATCH_SHARE;
    if (m.scratch_words < SCRATCH_WORDS)
        m.scratch_words = least(m.area_words, SCRATCH_WORDS);
    *ret = m;
}
