/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes bounds of the disk space and memory that a build needs. */
#include "build/room/build_space.h"

#include <math.h>
#include <string.h>

#include "build/room/build_memory.h"
#include "build/write/mode_writer.h"
#include "build/sort/record.h"
#include "build/write/shard_writer.h"
#include "build/slices.h"
#include "format/layout.h"
#include "stream/comm.h"

#define LZ4_MOST  255                  /* most bytes that one byte of LZ4 can decompress to */
#define ROW_BYTES 6                    /* most bytes that one index takes in modeK.rows */
#define PAGES     (UINT64_C(64) << 10) /* bytes that the last pages of temporary files may waste */
#define PROGRAM   (UINT64_C(24) << 20) /* memory of the program itself, beyond o->memory */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint32_t words_of(const uint32_t *width, uint32_t order, uint32_t value_bits)
{
    uint32_t all[TS_RECORD_FIELDS];
    struct ts_record_layout l;
    memcpy(all, width, order * sizeof *all);
    all[order] = value_bits;
    ts_record_layout_set(&l, order + 1, all);
    return l.words;
}

/* Returns the words of a record (a nonzero as bits) as it is read. high 1: for the largest possible
 * sizes of the modes; 0: for the smallest. slack: number of bits by which indices in early runs may
 * be narrower, because larger indices were read later. */
static double read_words(const struct ts_build_space_in *in, int high, uint32_t slack)
{
    const uint32_t value = in->o->weights ? 64 : 8 * in->o->value_bytes;
    uint32_t width[TS_MAX_ORDER];
    for (uint32_t m = 0; m < in->order; m++) {
        const uint64_t dim = high ? least(in->dim[m].high, TS_MAX_DIM) : in->dim[m].low;
        width[m] = dim == 0 ? 0 : ts_record_width(dim - 1);
        width[m] -= least(width[m], slack);
    }
    return words_of(width, in->order, value);
}

static uint32_t row_width(const struct ts_build_space_in *in, uint32_t m)
{
    const uint64_t rows = least(in->dim[m].high, least(in->nnz.high, UINT32_MAX));
    return rows == 0 ? 0 : ts_record_width(rows - 1);
}

static double packed_words(const struct ts_build_space_in *in, int high)
{
    uint32_t width[TS_MAX_ORDER] = { 0 };
    for (uint32_t m = 0; m < in->order && high; m++)
        width[m] = row_width(in, m);
    return words_of(width, in->order, high ? in->value_bits : 0);
}

/* Returns an upper bound of the bytes of the copy of the nonzeros for one mode. Each index counts
 * with its full width, except that the copy stores a row of its mode only where the row begins. The
 * bound includes the flags of each level, and the headers of streams and blocks (block_codec.h). */
static double copy_high(const struct ts_build_space_in *in, uint32_t mode)
{
    const uint32_t levels = in->order - 1, streams = 2 * levels + 2;
    const double nnz = ts_space_number(in->nnz.high), blocks = nnz / TS_BLOCK_NNZ + 1;
    double bits = in->value_bits + levels, body;
    for (uint32_t m = 0; m < in->order; m++)
        bits += m == mode ? 0 : row_width(in, m);
    body = nnz * bits / 8 + blocks * 4 * (levels + 12.0 + 3 * streams);
    return body + (body / ((double)in->o->shard_bytes / 2) + 2) * TS_PAGE;
}

/* Returns a lower bound of the bytes of the copy of the nonzeros for one mode, the larger of two
 * bounds. One is the size of the block headers, divided by the most that LZ4 can compress. The
 * other is the entropy of the cells, minus the part of it that the files of rows and the index
 * hold. */
static double copy_low(const struct ts_build_space_in *in)
{
    const uint32_t levels = in->order - 1;
    double least_bits = 0, rows = 0;
    const double blocks = ceil((double)in->nnz.low / TS_BLOCK_NNZ);
    /* log2 of the number of sets of n used rows out of dim */
    for (uint32_t m = 0; m < in->order && in->cell_bits > 0; m++) {
        const double dim = ts_space_number(in->dim[m].high);
        const double n = fmin(ts_space_number(in->nnz.high), dim / 2);
        rows += fmin(dim, n * (log2(dim / n) + 1.4427));
    }
    least_bits = fmax(0, in->cell_bits - rows - 8 * 16384.0);
    return fmax(blocks * 4 * (levels / 4 + 2 * levels) / LZ4_MOST, least_bits / 8);
}

static void estimate_result(const struct ts_build_space_in *in, struct ts_need *s)
{
    double low = 0, high = 65536.0 + ts_space_number(in->names_bytes), ahead = 0;
    for (uint32_t m = 0; m < in->order; m++) {
        const int known = in->copy[m].high > 0;
        const double one_low = known ? ts_space_number(in->copy[m].low) : copy_low(in);
        const double one = known ? ts_space_number(in->copy[m].high) : copy_high(in, m);
        low += one_low;
        s->file = most(s->file, ts_space_bytes(one_low));
        high += one + ts_space_number(least(in->dim[m].high, in->nnz.high)) * ROW_BYTES + TS_PAGE;
        high += one / ((double)in->o->shard_bytes / 2) * sizeof(struct ts_disk_shard);
        /* the writer makes a large file longer before it fills it */
        if (one > TS_SHARD_WRITER_AHEAD)
            ahead = fmax(ahead, fmax(one / 4, TS_SHARD_WRITER_AHEAD));
    }
    s->result = (struct ts_space){ ts_space_bytes(low), ts_space_bytes(high + ahead) };
}

/* Whether the used slices of a mode are numbered by a sort, because the bitmaps of used slices
 * would be too large. high 1: whether that is possible; 0: whether it is certain. */
static int is_numbered(const struct ts_build_space_in *in, const struct ts_build_memory *m,
                       int high)
{
    double sum = 0;
    for (uint32_t k = 0; k < in->order; k++) {
        const uint64_t dim = high ? least(in->dim[k].high, TS_MAX_DIM) : in->dim[k].low;
        const double one = (double)ts_slices_bytes(dim);
        sum = high ? sum + one : fmax(sum, one);
    }
    return sum > (double)m->bitmap_bytes;
}

/* Returns an upper bound of the memory of a build: of records and of all other data, which is at
 * most o->memory, and of the program. */
static double memory_high(const struct ts_build_space_in *in, const struct ts_build_memory *m,
                          double words)
{
    const uint64_t beside = most(m->read_bytes, most(m->merge_bytes, m->pack_bytes));
    const double records = 16 * fmin(words, (double)m->area_words) + 16 * (double)m->room_words;
    const double all = records + 8 * (double)m->scratch_words + (double)(m->sort_bytes + beside);
    return fmin(all, (double)in->o->memory) + (double)PROGRAM;
}

/* With several ranks: returns a lower bound of the bytes of this rank's temporary files. They have
 * the records that do not fit in its areas for sorting, memory for stored records and scratch
 * memory. */
static double rank_low(const struct ts_build_space_in *in, const struct ts_build_memory *m,
                       double words)
{
    const double held = 2 * (double)(m->area_words + m->room_words) + (double)m->scratch_words;
    return fmax(8 * (words - held), (double)in->runs_bytes);
}

void ts_build_space_estimate(const struct ts_build_space_in *in, struct ts_need *ret)
{
    struct ts_need s;
    struct ts_build_memory m;
    const int ranks = ts_comm_many(in->o->comm);
    const double w_low = read_words(in, 0, 4), nnz_low = (double)in->nnz.low;
    const double own_words = w_low * (double)(ranks ? in->own_low : in->read.low);
    const double read = ts_space_number(in->read.high), nnz = ts_space_number(in->nnz.high);
    const double w = read_words(in, 1, 0), p = packed_words(in, 1);
    double low = 0, high = 0, pack_low = 0, pack_high = 0, area;
    memset(&s, 0, sizeof s);
    ts_build_memory_share_beside(in->o, in->order, in->beside_bytes, &m);
    area = (double)m.area_words;
    estimate_result(in, &s);
    s.memory = (struct ts_space){ ts_space_bytes(8 * fmin(own_words, area)),
                                  ts_space_bytes(memory_high(in, &m, read * w)) };
    if (ranks)
        low = fmax(0, rank_low(in, &m, own_words));
    if (!ranks && (in->runs_bytes > 0 || own_words > area)) {
        const double runs = fmax(8 * own_words, (double)in->runs_bytes);
        const double cells = 8 * nnz_low * read_words(in, 0, 0);
        low = fmax(runs + cells, is_numbered(in, &m, 0) ? 2 * cells : 0);
        pack_low = 8 * nnz_low * packed_words(in, 0);
        s.file = most(s.file, ts_space_bytes(runs));
    }
    if (ranks || read * w > area / 2) {
        high = fmax(8 * (read + nnz) * w, is_numbered(in, &m, 1) ? 24 * nnz * w : 0);
        high = fmax(high, 8 * nnz * (w + p));
        pack_high = 16 * nnz * p;
    }
    /* files of records to send, of runs and of merged records; later of packed partitions */
    if (ranks) {
        high = 8 * (2 * read + nnz) * w;
        pack_high = 24 * nnz * p + (double)s.result.high;
    }
    high += ts_space_number(in->names_bytes) + (high > 0 ? PAGES : 0);
    pack_high += pack_high > 0 ? PAGES : 0;
    s.tmp = (struct ts_space){ ts_space_bytes(fmax(low, pack_low)),
                               ts_space_bytes(fmax(high, pack_high)) };
    s.both.low = ts_space_bytes(fmax(low, pack_low + (double)s.result.low));
    s.both.high = ts_space_bytes(fmax(high, pack_high) + ts_space_number(s.result.high));
    *ret = s;
}
