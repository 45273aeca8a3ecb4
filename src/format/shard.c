/* SPDX-License-Identifier: BSD-3-Clause */
/* Packs a shard from columns of indices and codes, and checks the bytes of a shard. */
#include "format/shard.h"

#include <assert.h>
#include <string.h>

/* A nonzero needs at most 32 bits for the index at each level below the row, and 32 bits for each
 * code. A block also needs flags, descriptors, bitmaps, bases, and a word of padding for each
 * stream. */
size_t ts_shard_bound(uint32_t order, uint32_t n_codes, uint32_t nnz)
{
    const size_t leaf = order - 1, n_streams = 2 * leaf + n_codes;
    const size_t blocks = (nnz + TS_BLOCK_NNZ - 1) / TS_BLOCK_NNZ;
    const size_t block_words =
        (leaf + n_codes) * TS_BLOCK_NNZ + (leaf + 3) / 4 + 8 * leaf + 3 * n_streams + 2;
    return 4 * (blocks * (block_words + 2) + 1);
}

void ts_shard_pack(uint32_t order, uint32_t n_codes, uint32_t nnz, const uint32_t *const level[],
                   const uint32_t *const code[], void *raw, struct ts_disk_shard *ret)
{
    const uint32_t n_blocks = (nnz + TS_BLOCK_NNZ - 1) / TS_BLOCK_NNZ;
    uint32_t *base = raw, at = 2 * n_blocks + 1, word[TS_BLOCK_MAX_WORDS];
    assert(nnz >= 1);
    for (uint32_t b = 0; b < n_blocks; b++) {
        const uint32_t first = b * TS_BLOCK_NNZ, left = nnz - first;
        const uint32_t n = left < TS_BLOCK_NNZ ? left : TS_BLOCK_NNZ;
        const uint32_t *block_level[TS_MAX_ORDER], *block_code[2];
        uint32_t n_words;
        for (uint32_t l = 0; l < order; l++)
            block_level[l] = level[l] + first;
        for (uint32_t c = 0; c < n_codes; c++)
            block_code[c] = code[c] + first;
        n_words = ts_block_encode(order, n, block_level, n_codes, block_code, word);
        memcpy(base + at, word, 4 * (size_t)n_words);
        base[b] = at;
        base[n_blocks + 1 + b] = level[0][first] - level[0][0];
        at += n_words;
    }
    base[n_blocks] = at;
    memset(ret, 0, sizeof *ret);
    ret->raw_bytes = ret->stored_bytes = 4 * at;
    ret->nnz = nnz;
    ret->n_blocks = n_blocks;
    ret->row_first = level[0][0];
    ret->row_last = level[0][nnz - 1];
}

/* Returns the position of the first of n indices or codes that is at least `limit`, or n. */
static uint32_t find_beyond(const uint32_t *entry, uint32_t n, uint64_t limit)
{
    uint32_t most = 0, p = 0;
    for (uint32_t i = 0; i < n; i++) /* no early exit, so that compilers vectorise the loop */
        most = entry[i] > most ? entry[i] : most;
    if (most < limit)
        return n;
    while (entry[p] < limit)
        p++;
    return p;
}

/* Checks the decoded block b. *row: on entry the row of the last nonzero before the block, on
 * return that of its last nonzero. */
static int check_block(const struct ts_disk_shard *s, const struct ts_block *block, uint32_t order,
                       uint32_t n_codes, const uint64_t n_rows[], uint32_t n_dict, uint32_t b,
                       uint32_t *row, const char *where, struct ts_err *err)
{
    const uint32_t first = block->level[0][0], last = block->level[0][block->n - 1];
    if (b == 0 ? first != s->row_first : first < *row || first - *row > 1)
        return ts_fail(err, TS_EFORMAT, "%s: block %u starts at row %u, which does not follow %u",
                       where, b, first, b == 0 ? s->row_first : *row);
    if (last > s->row_last || last < first)
        return ts_fail(err, TS_EFORMAT, "%s: block %u reaches row %u, beyond the shard's last, %u",
                       where, b, last, s->row_last);
    *row = last;
    for (uint32_t l = 0; l < order; l++) {
        const uint32_t p = find_beyond(block->level[l], block->n, n_rows[l]);
        if (p < block->n)
            return ts_fail(err, TS_EFORMAT,
                           "%s: block %u, nonzero %u: index %u of level %u is not below %llu",
                           where, b, p, block->level[l][p], l, (unsigned long long)n_rows[l]);
    }
    if (n_dict > 0 && n_codes > 0) {
        const uint32_t p = find_beyond(block->code[0], block->n, n_dict);
        if (p < block->n)
            return ts_fail(err, TS_EFORMAT,
                           "%s: block %u, nonzero %u: code %u is not below the dictionary's %u",
                           where, b, p, block->code[0][p], n_dict);
    }
    return 0;
}

int ts_shard_decode(const struct ts_disk_shard *s, const void *raw, uint32_t b, uint32_t order,
                    uint32_t n_codes, struct ts_block_parts *parts, struct ts_block *ret,
                    struct ts_err *err)
{
    const struct ts_block_at at = ts_shard_block(s, raw, b);
    const int rc = ts_block_parse(at.word, at.n_words, order, at.nnz, n_codes, parts, err);
    if (rc == 0)
        ts_block_decode(parts, at.row, ret);
    return rc;
}

int ts_shard_check(const struct ts_disk_shard *s, const void *raw, uint32_t order, uint32_t n_codes,
                   const uint64_t n_rows[], uint32_t n_dict, const char *where, struct ts_err *err)
{
    const uint32_t *base = raw, n_words = s->raw_bytes / 4;
    uint32_t row = s->row_first, expected = 2 * s->n_blocks + 1;
    struct ts_block_parts parts;
    struct ts_block block;

    if (s->nnz == 0 || s->n_blocks != (s->nnz - 1) / TS_BLOCK_NNZ + 1 || s->raw_bytes % 4 != 0 ||
        2 * (uint64_t)s->n_blocks + 1 > n_words)
        return ts_fail(err, TS_EFORMAT, "%s: %u nonzeros in %u blocks do not fit %u bytes", where,
                       s->nnz, s->n_blocks, s->raw_bytes);
    for (uint32_t b = 0; b < s->n_blocks; b++) {
        struct ts_err why;
        if (base[b] != expected || base[b + 1] < base[b] || base[b + 1] > n_words)
            return ts_fail(err, TS_EFORMAT, "%s: block %u lies at word %u..%u, expected %u", where,
                           b, base[b], base[b + 1], expected);
        expected = base[b + 1];
        if (ts_shard_decode(s, raw, b, order, n_codes, &parts, &block, &why) < 0)
            return ts_fail(err, TS_EFORMAT, "%s: block %u at byte %u: %s", where, b, 4 * base[b],
                           why.text);
        if (check_block(s, &block, order, n_codes, n_rows, n_dict, b, &row, where, err) < 0)
            return TS_EFORMAT;
    }
    if (expected != n_words)
        return ts_fail(err, TS_EFORMAT, "%s: blocks end at word %u of %u", where, expected,
                       n_words);
    if (row != s->row_last)
        return ts_fail(err, TS_EFORMAT, "%s: the last row is %u, expected %u", where, row,
                       s->row_last);
    return 0;
}
