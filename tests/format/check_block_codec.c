/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks come back as they went in, whatever their shape, and damage is refused, never followed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/run_suite.h"
#include "tests/support/support.h"

static const struct shape {
    uint32_t order, nnz, value_range;
    double skew;
    uint64_t dim[TS_MAX_ORDER];
} shapes[] = {
    { 2, 1, 1, 0, { 1, 1 } },
    { 2, 700, 9, 0, { 31, 40 } },
    { 3, 5000, 0, 0, { 40, 30, 20 } },
    { 3, 5000, 5, 0, { 4000, 3000, 2000 } },
    { 3, 4096, 1, 2, { 1, 3000, 2000 } },
    { 4, 6000, 1000, 3, { 51, 2, 116, 900 } },
    { 5, 3001, 3, 1, { 700, 900, 50, 24, 3 } },
    { 8, 2000, 0, 1, { 3, 5, 7, 11, 13, 17, 19, 23 } },
    { 16, 1000, 70000, 0, { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

START_TEST(blocks_come_back)
{
    const struct shape *s = &shapes[_i / 3];
    /* integers as INT (fractions as F32), everything as F32 and as F64 */
    const uint32_t kind = _i % 3 == 0 && s->value_range > 0 ? TS_VALUE_INT
                          : _i % 3 == 2                     ? TS_VALUE_F64
                                                            : TS_VALUE_F32;
    struct test_coo x = test_coo_random(11, s->order, s->dim, s->nnz, s->value_range, s->skew);
    struct ts_disk_shard entry;
    struct ts_block_parts parts;
    struct ts_block block;
    struct ts_err err;
    uint8_t level[TS_MAX_ORDER];
    uint64_t n_rows[TS_MAX_ORDER], n = 0;
    void *raw;
    for (uint32_t l = 0; l < s->order; l++) {
        level[l] = (uint8_t)((l + (uint32_t)_i) % s->order);
        n_rows[l] = x.dim[level[l]];
    }
    test_coo_sort(&x, level);
    raw = test_coo_pack(&x, level, kind, &entry);
    ck_assert_uint_le(entry.raw_bytes, ts_shard_bound(s->order, ts_value_codes(kind), entry.nnz));
    ck_assert_msg(
        ts_shard_check(&entry, raw, s->order, ts_value_codes(kind), n_rows, 0, "shard", &err) == 0,
        "%s", err.text);
    for (uint32_t b = 0; b < entry.n_blocks; b++) {
        const struct ts_block_at at = ts_shard_block(&entry, raw, b);
        ck_assert_int_eq(ts_block_parse(at.word, at.n_words, s->order, at.nnz, ts_value_codes(kind),
                                        &parts, &err),
                         0);
        ts_block_decode(&parts, at.row, &block);
        for (uint32_t p = 0; p < block.n; p++, n++) {
            double value = block.code[0][p];
            float f;
            for (uint32_t l = 0; l < s->order; l++)
                ck_assert_uint_eq(block.level[l][p], x.idx[level[l]][n]);
            if (kind == TS_VALUE_F32) {
                memcpy(&f, &block.code[0][p], 4);
                value = f;
            } else if (kind == TS_VALUE_F64) {
                const uint64_t bits = (uint64_t)block.code[0][p] << 32 | block.code[1][p];
                memcpy(&value, &bits, 8);
            }
            ck_assert(value == x.val[n]);
        }
    }
    ck_assert_uint_eq(n, x.nnz);
    free(raw);
    test_coo_free(&x);
}
END_TEST

/* What is on disk does not depend on the processor that packed it. */
START_TEST(every_encoder_writes_the_same_words)
{
    static uint32_t fast[TS_BLOCK_MAX_WORDS], plain[TS_BLOCK_MAX_WORDS];
    const struct shape *s = &shapes[_i];
    struct test_coo x = test_coo_random(23, s->order, s->dim, s->nnz, s->value_range, s->skew);
    uint32_t *code = malloc(4 * x.nnz);
    uint8_t order[TS_MAX_ORDER];
    for (uint32_t l = 0; l < s->order; l++)
        order[l] = (uint8_t)l;
    test_coo_sort(&x, order);
    for (uint64_t i = 0; i < x.nnz; i++) /* lengths 0 to 32, short and long ones mixed */
        code[i] = (uint32_t)ts_mix(i) >> (ts_mix(i + (1u << 20)) % (i / 256 % 33 + 1));
    for (uint64_t first = 0, n; first < x.nnz; first += n) {
        const uint32_t *level[TS_MAX_ORDER], *codes[2] = { code + first, code + first };
        uint32_t n_fast, n_plain;
        n = 1 + ts_mix(first) % TS_BLOCK_NNZ;
        n = n < x.nnz - first ? n : x.nnz - first;
        for (uint32_t l = 0; l < s->order; l++)
            level[l] = x.idx[l] + first;
        n_fast = ts_block_encode(s->order, (uint32_t)n, level, (uint32_t)(_i % 3), codes, fast);
        n_plain =
            ts_block_encode_plain(s->order, (uint32_t)n, level, (uint32_t)(_i % 3), codes, plain);
        ck_assert_uint_eq(n_fast, n_plain);
        ck_assert_mem_eq(fast, plain, 4 * n_fast);
    }
    free(code);
    test_coo_free(&x);
}
END_TEST

/* Any change of bytes is either refused or decodes inside its bounds: run under
 * AddressSanitizer. */
START_TEST(damage_stays_inside)
{
    const struct shape *s = &shapes[_i];
    struct test_coo x = test_coo_random(5, s->order, s->dim, s->nnz, s->value_range, s->skew);
    uint8_t level[TS_MAX_ORDER];
    uint64_t n_rows[TS_MAX_ORDER];
    struct ts_disk_shard entry;
    struct ts_err err;
    uint8_t *raw, *copy;
    for (uint32_t l = 0; l < s->order; l++) {
        level[l] = (uint8_t)l;
        n_rows[l] = x.dim[l];
    }
    raw = test_coo_pack(&x, level, TS_VALUE_INT, &entry);
    for (uint64_t t = 0; t < 400; t++) {
        copy = malloc(entry.raw_bytes); /* exact: an overrun is seen */
        memcpy(copy, raw, entry.raw_bytes);
        for (uint64_t k = 0; k <= t % 3; k++)
            copy[ts_mix(3 * t + k) % entry.raw_bytes] ^= (uint8_t)(1u << ts_mix(7 * t + k) % 8);
        (void)ts_shard_check(&entry, copy, s->order, 1, n_rows, 0, "shard", &err);
        free(copy);
    }
    free(raw);
    test_coo_free(&x);
}
END_TEST

/* Blocks of every order, length and shape of tree, with indices and codes up to the last bit. */
struct random_block {
    uint32_t order, n, n_codes;
    uint32_t level[TS_MAX_ORDER][TS_BLOCK_NNZ], code[2][TS_BLOCK_NNZ];
};

static void random_block(uint64_t seed, struct random_block *b)
{
    uint64_t state = ts_mix(seed) << 20;
    uint32_t odds[TS_MAX_ORDER], bits[TS_MAX_ORDER];
    b->order = 2 + (uint32_t)(seed % 15);
    b->n = seed % 4 == 0   ? 256
           : seed % 4 == 1 ? 1 + (uint32_t)(seed / 4 % 3)
                           : 1 + (uint32_t)(ts_mix(state++) % 256);
    b->n_codes = (uint32_t)(ts_mix(state++) % 3);
    for (uint32_t l = 0; l < b->order; l++) { /* a new node every so often; never and always too */
        static const uint32_t of_256[] = { 0, 3, 31, 128, 225, 253, 256 };
        odds[l] = of_256[ts_mix(state++) % 7];
        bits[l] = (uint32_t)(ts_mix(state++) % 33);
    }
    for (uint32_t p = 0; p < b->n; p++) {
        int is_new = p == 0;
        for (uint32_t l = 0; l < b->order; l++) {
            const uint64_t draw = ts_mix(state++);
            const uint32_t step = (uint32_t)(bits[l] == 0 ? 1 : draw >> 32 >> (32 - bits[l]));
            const int moves = (draw & 255) < odds[l];
            if (l == 0)
                b->level[0][p] = p == 0 ? 5 : b->level[0][p - 1] + (uint32_t)moves;
            else
                b->level[l][p] = is_new ? step : b->level[l][p - 1] + (moves ? step : 0);
            is_new |= p > 0 && b->level[l][p] != b->level[l][p - 1];
        }
        for (uint32_t c = 0; c < 2; c++, state += 2)
            b->code[c][p] =
                (uint32_t)ts_mix(state) >> (ts_mix(state + 1) % 5 == 0 ? 0 : 8 * (seed % 4));
    }
}

START_TEST(blocks_of_every_shape_come_back)
{
    static struct random_block b;
    static struct ts_block_parts parts;
    static struct ts_block block;
    for (uint64_t seed = 300 * (uint64_t)_i; seed < 300 * (uint64_t)(_i + 1); seed++) {
        const uint32_t *level[TS_MAX_ORDER], *code[2] = { b.code[0], b.code[1] };
        uint32_t out[TS_BLOCK_MAX_WORDS], n_words, *exact;
        struct ts_err err;
        random_block(seed, &b);
        for (uint32_t l = 0; l < b.order; l++)
            level[l] = b.level[l];
        n_words = ts_block_encode(b.order, b.n, level, b.n_codes, code, out);
        ck_assert_uint_le(4 * (n_words + 3), ts_shard_bound(b.order, b.n_codes, b.n));
        exact = malloc(4 * n_words); /* so that a read beyond the block is seen */
        memcpy(exact, out, 4 * n_words);
        ck_assert_msg(ts_block_parse(exact, n_words, b.order, b.n, b.n_codes, &parts, &err) == 0,
                      "seed %d: %s", (int)seed, err.text);
        ts_block_decode(&parts, 5, &block);
        for (uint32_t l = 0; l < b.order; l++)
            ck_assert_mem_eq(block.level[l], b.level[l], 4 * b.n);
        for (uint32_t c = 0; c < b.n_codes; c++)
            ck_assert_mem_eq(block.code[c], b.code[c], 4 * b.n);
        free(exact);
    }
}
END_TEST

/* Of all widths of a stream, with what does not fit as exceptions, the one taken is the
 * cheapest. */
START_TEST(streams_take_the_cheapest_width)
{
    static struct random_block b;
    static struct ts_block_parts parts;
    static uint32_t entry[TS_BLOCK_NNZ];
    for (uint64_t seed = 0; seed < 1000; seed++) {
        const uint32_t *level[TS_MAX_ORDER], *code[2] = { b.code[0], b.code[1] };
        uint32_t out[TS_BLOCK_MAX_WORDS], n_words;
        random_block(seed, &b);
        for (uint32_t l = 0; l < b.order; l++)
            level[l] = b.level[l];
        n_words = ts_block_encode(b.order, b.n, level, b.n_codes, code, out);
        ck_assert_int_eq(ts_block_parse(out, n_words, b.order, b.n, b.n_codes, &parts, NULL), 0);
        for (uint32_t s = 0; s < parts.n_streams; s++) {
            const struct ts_packed *t = &parts.stream[s];
            uint32_t least = UINT32_MAX;
            ts_packed_decode(t, parts.side, entry);
            for (uint32_t w = 0; w <= 32; w++) {
                uint32_t n_exc = 0, high = 0;
                for (uint32_t i = 0; i < t->n; i++) {
                    const uint32_t above = (uint32_t)((uint64_t)(entry[i] - t->base) >> w);
                    n_exc += above != 0;
                    while (high < 32 && above >> high != 0)
                        high++;
                }
                if (n_exc < 256 && t->n * w + n_exc * (8 + high) < least)
                    least = t->n * w + n_exc * (8 + high);
            }
            if (t->n > 0)
                ck_assert_uint_eq(t->n * t->width + t->n_exc * (8 + t->exc_width), least);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block_codec");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, blocks_come_back, 0, 3 * N_SHAPES);
    tcase_add_loop_test(tc, every_encoder_writes_the_same_words, 0, N_SHAPES);
    tcase_add_loop_test(tc, damage_stays_inside, 0, N_SHAPES);
    tcase_add_loop_test(tc, blocks_of_every_shape_come_back, 0, 10);
    tcase_add_test(tc, streams_take_the_cheapest_width);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
