/* SPDX-License-Identifier: BSD-3-Clause */
/* shard.h - packs nonzeros into the raw bytes of a shard (a range of rows of a mode copy), finds
 * the blocks of a shard, and checks its bytes.
 *
 *   owner    the caller owns all memory; positions of blocks (struct ts_block_at) point into it
 *   units    raw bytes are a whole number of 32-bit words, 4-byte aligned (64 is better)
 *   threads  all functions are pure
 *   errors   ts_shard_check accepts untrusted bytes; the other functions trust them
 */
#ifndef TS_FORMAT_SHARD_H
#define TS_FORMAT_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/blocks/block_codec.h"
#include "format/layout.h"

/* Readers may load up to this many bytes after the raw bytes of a shard, without using them: the
 * vector decoders use wide loads. So memory that holds a shard needs this room after it. */
#define TS_SHARD_SLACK 128u

/* Returns the most raw bytes that nnz nonzeros can take, for any sparsity. */
size_t ts_shard_bound(uint32_t order, uint32_t n_codes, uint32_t nnz);

/* Packs nnz (>= 1) nonzeros, sorted as block_codec.h says, as one shard. level[l] and code[c] are
 * columns of nnz entries. raw has ts_shard_bound bytes. Fills raw_bytes, nnz, n_blocks, row_first
 * and row_last of *ret, and zeroes its other members. */
void ts_shard_pack(uint32_t order, uint32_t n_codes, uint32_t nnz, const uint32_t *const level[],
                   const uint32_t *const code[], void *raw, struct ts_disk_shard *ret);

/* The position of a block in a shard. */
struct ts_block_at {
    const uint32_t *word;
    uint32_t n_words, nnz;
    uint32_t row; /* compact row of its first nonzero */
};

/* Returns the position of block b (< n_blocks) of a checked shard. */
static inline struct ts_block_at ts_shard_block(const struct ts_disk_shard *s, const void *raw,
                                                uint32_t b)
{
    const uint32_t *base = raw;
    struct ts_block_at at;
    at.word = base + base[b];
    at.n_words = base[b + 1] - base[b];
    at.nnz = b + 1 < s->n_blocks ? TS_BLOCK_NNZ : s->nnz - (s->n_blocks - 1) * TS_BLOCK_NNZ;
    at.row = s->row_first + base[s->n_blocks + 1 + b];
    return at;
}

/* Decodes block b. `parts` is scratch memory for the parsed block. Returns 0, or TS_EFORMAT with a
 * reason but no position. */
int ts_shard_decode(const struct ts_disk_shard *s, const void *raw, uint32_t b, uint32_t order,
                    uint32_t n_codes, struct ts_block_parts *parts, struct ts_block *ret,
                    struct ts_err *err);

static inline uint32_t ts_shard_partitions(const struct ts_disk_shard *s)
{
    return (s->n_blocks + TS_PARTITION_BLOCKS - 1) / TS_PARTITION_BLOCKS;
}

/* Checks that raw is the shard that *s describes: every block parses, every index at level l is
 * below n_rows[l], and rows run from row_first to row_last. Codes must be below n_dict, unless it
 * is 0. On failure the message names block and byte, after `where` (file and shard). */
int ts_shard_check(const struct ts_disk_shard *s, const void *raw, uint32_t order, uint32_t n_codes,
                   const uint64_t n_rows[], uint32_t n_dict, const char *where, struct ts_err *err);

#endif
