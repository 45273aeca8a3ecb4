/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of cells are those of the obvious loop, of columns, rows and packed shards; every change of
 * a cell moves them; and a merge whose records are not those that were read is seen. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "build/build.h"
#include "build/merge.h"
#include "format/cell_sum_loops.h"
#include "format/shard.h"
#include "tests/support/run_suite.h"

static struct ts_err err;

static uint64_t term(uint32_t order, const uint64_t *index, uint64_t value, uint64_t weight)
{
    uint64_t s = value * ts_cell_key(TS_CELL_VALUE) + weight * ts_cell_key(TS_CELL_WEIGHT);
    for (uint32_t m = 0; m < order; m++)
        s += index[m] * ts_cell_key(m);
    return s;
}

START_TEST(rows_are_the_obvious_loop)
{
    enum { N = 700, MOST = 6 };
    uint64_t index[N * MOST], value[N];
    const uint32_t order = (uint32_t)_i / 2 + 2;
    const int weights = _i % 2;
    struct ts_cell_sum sum = { 0 }, want = { 0 };
    for (uint64_t i = 0; i < N; i++) {
        for (uint32_t m = 0; m < order; m++)
            index[i * order + m] = ts_mix(i * 16 + m) >> (24 + m);
        value[i] = ts_mix(i + 7777);
        ts_cell_sum_add(&want, term(order, index + i * order, weights ? value[i] >> 32 : value[i],
                                    weights ? value[i] & UINT32_MAX : 0));
    }
    ts_cell_sum_rows(order, index, value, 300, weights, &sum);
    ts_cell_sum_rows(order, index + 300 * order, value + 300, N - 300, weights, &sum);
    ck_assert(ts_cell_sum_same(&sum, &want));
}
END_TEST

/* Columns of any length by each instruction set. */
START_TEST(columns_are_the_obvious_loop)
{
    enum { N = 77 };
    const struct ts_cell_sum_loops *with = &ts_cell_sum_loops[_i];
    if (!ts_isa_here((enum ts_isa)_i))
        return;
    for (uint32_t n = 0; n <= N; n++) {
        uint64_t x[N], s[N + 1], obvious[N + 1];
        struct ts_cell_sum sum = { 0 }, want = { 0 };
        for (uint32_t i = 0; i <= N; i++)
            s[i] = obvious[i] = ts_mix(i + 100);
        for (uint32_t i = 0; i < N; i++)
            x[i] = ts_mix(i + n);
        with->term(s, x, n, ts_cell_key(3));
        with->weighted(s, x, n, ts_cell_key(TS_CELL_VALUE), ts_cell_key(TS_CELL_WEIGHT));
        with->mix(s, n, 12345, &sum);
        for (uint32_t i = 0; i < n; i++) {
            obvious[i] += x[i] * ts_cell_key(3) + (x[i] >> 32) * ts_cell_key(TS_CELL_VALUE) +
                          (x[i] & UINT32_MAX) * ts_cell_key(TS_CELL_WEIGHT);
            ts_cell_sum_add(&want, obvious[i] + 12345);
        }
        ck_assert_mem_eq(s, obvious, sizeof s);
        ck_assert(ts_cell_sum_same(&sum, &want));
    }
}
END_TEST

/* A cell of other indices, two cells that swap one, an index of another mode, a lost and a doubled
 * cell. */
START_TEST(changes_are_seen)
{
    const uint64_t cell[4][3] = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 2, 9 }, { 1, 5, 3 } };
    struct ts_cell_sum right = { 0 }, other;
    for (int i = 0; i < 4; i++)
        ts_cell_sum_add(&right, term(3, cell[i], 10 + (uint64_t)i, 0));
    for (int what = 0; what < 6; what++) {
        uint64_t c[4][3], value[4] = { 10, 11, 12, 13 };
        memcpy(c, cell, sizeof c);
        if (what == 1)
            c[1][1]++;
        if (what == 2) {
            c[0][2] = 6;
            c[1][2] = 3;
        }
        if (what == 3) {
            c[0][0] = 2;
            c[0][1] = 1;
        }
        if (what == 4)
            value[3] = 12;
        if (what == 5)
            memcpy(c[2], c[1], sizeof c[2]);
        memset(&other, 0, sizeof other);
        for (int i = 3; i >= 0; i--)
            ts_cell_sum_add(&other, term(3, c[i], value[i], 0));
        ck_assert_int_eq(ts_cell_sum_same(&right, &other), what == 0);
    }
}
END_TEST

/* The sum of a shard by one instruction set. */
static struct ts_cell_sum sum_by(enum ts_isa isa, const struct ts_disk_shard *shard,
                                 const uint32_t *raw, uint32_t order, uint32_t n_codes,
                                 const uint8_t modes[])
{
    const struct ts_cell_sum_loops *with = &ts_cell_sum_loops[isa];
    const struct ts_unpack_conf conf = {
        .order = order, .n_codes = n_codes, .value_kind = TS_VALUE_F32, .weights = n_codes > 1
    };
    struct ts_cell_sum_keys k = {
        order, n_codes, { 0 }, { ts_cell_key(TS_CELL_VALUE), ts_cell_key(TS_CELL_WEIGHT) }
    };
    struct ts_cell_sum ret = { 0 };
    static struct ts_unpacked u;
    for (uint32_t l = 0; l < order; l++)
        k.level[l] = ts_cell_key(modes[l]);
    for (uint32_t b = 0; b < shard->n_blocks; b++) {
        const struct ts_block_at at = ts_shard_block(shard, raw, b);
        with->unpack(&conf, &at, &u);
        with->unpacked(&k, &u, &ret);
    }
    return ret;
}

/* Shards of any order and number of codes, long fibres and short ones, by each instruction set;
 * then each of some bits of it is another. */
START_TEST(shards_are_decoded)
{
    enum { N = 3003 }; /* the last block is not full */
    const uint32_t order = (uint32_t)_i / 3 + 2, n_codes = (uint32_t)_i % 3;
    static uint32_t column[TS_MAX_ORDER][N], code[2][N];
    const uint32_t *level[TS_MAX_ORDER], *codes[2] = { code[0], code[1] };
    uint8_t modes[TS_MAX_ORDER];
    const size_t room = ts_shard_bound(order, n_codes, N) + TS_SHARD_SLACK;
    uint32_t *raw = calloc(1, room);
    struct ts_cell_sum want = { 0 }, sum = { 0 };
    struct ts_disk_shard shard;
    uint32_t same = 0;
    for (uint32_t l = 0; l < order; l++) {
        level[l] = column[l];
        modes[l] = (uint8_t)((l + 1) % order);
    }
    for (uint64_t i = 0; i < N; i++) {
        uint64_t index[TS_MAX_ORDER], left = i * (order > 3 ? 3 : 700);
        column[order - 1][i] = (uint32_t)(order > 3 ? i * 7 : i);
        for (uint32_t l = order - 1; l-- > 0;) { /* ascending, with runs at every level */
            left /= order > 3 ? 5 : 900;
            column[l][i] = (uint32_t)left;
        }
        code[0][i] = (uint32_t)ts_mix(i) >> i % 20;
        code[1][i] = (uint32_t)ts_mix(i + N);
        for (uint32_t l = 0; l < order; l++)
            index[modes[l]] = column[l][i];
        ts_cell_sum_add(
            &want, term(order, index, n_codes > 0 ? code[0][i] : 0, n_codes > 1 ? code[1][i] : 0));
    }
    ts_shard_pack(order, n_codes, N, level, codes, raw, &shard);
    ck_assert_msg(ts_cell_sum_shard(&shard, raw, order, n_codes, modes, &sum, &err) == 0, "%s",
                  err.text);
    ck_assert(ts_cell_sum_same(&sum, &want));
    for (int isa = 0; isa < TS_N_ISA; isa++) {
        if (!ts_isa_here((enum ts_isa)isa))
            continue;
        sum = sum_by((enum ts_isa)isa, &shard, raw, order, n_codes, modes);
        ck_assert_msg(ts_cell_sum_same(&sum, &want), "instruction set %d", isa);
    }
    for (uint32_t bit = 0; bit < 2000; bit++) {
        const uint64_t at = ts_mix(bit) % (8 * (uint64_t)shard.raw_bytes);
        uint32_t *word = &raw[at / 32];
        memset(&sum, 0, sizeof sum);
        *word ^= UINT32_C(1) << at % 32;
        same += ts_cell_sum_shard(&shard, raw, order, n_codes, modes, &sum, &err) == 0 &&
                ts_cell_sum_same(&sum, &want);
        *word ^= UINT32_C(1) << at % 32;
    }
    ck_assert_uint_lt(same,
                      100); /* padding behind streams means nothing: a few bits in a hundred */
    free(raw);
}
END_TEST

/* Sorted records of 40 cells, some of several nonzeros and some of which add up to 0, given in
 * pieces; once one record is another than was read, or one is lost. */
START_TEST(merges_are_accounted_for)
{
    enum { N = 100 };
    const uint64_t dim[2] = { 40, 40 };
    const uint32_t width[3] = { 6, 6, 32 };
    for (int fault = 0; fault < 3; fault++) {
        struct ts_record_layout l;
        struct ts_merge g;
        struct ts_cell_sum records = { 0 };
        uint64_t rec[N + 1] = { 0 }, before[TS_RECORD_WORDS], n_before, kept, n_zeros = 0;
        ts_record_layout_set(&l, 3, width);
        ck_assert_int_eq(
            ts_merge_init(&g, &l, 2, 4, TS_DUPLICATES_SUM, dim, (uint32_t)_i + 1, &err), 0);
        g.shift[0] = (uint64_t)_i;
        for (uint64_t i = 0; i < N; i++) {
            const uint64_t cell[2] = { i * 40 / N + (uint64_t)_i, i * 40 / N % 7 };
            const uint64_t value = ts_value_to_bits(i % 5 == 0 ? -1.5 : i % 5 == 1 ? 1 : 0.5, 4);
            ts_record_put(&l, rec + i, 0, cell[0]);
            ts_record_put(&l, rec + i, 1, cell[1]);
            ts_record_put(&l, rec + i, 2, value);
            ts_cell_sum_add(&records, term(2, cell, value, 0));
        }
        if (fault == 1)
            rec[37] ^= UINT64_C(1) << 30;
        for (uint64_t at = 0, n; at < N - (fault == 2); at += n) {
            n = N - (uint64_t)(fault == 2) - at < 33 ? N - (uint64_t)(fault == 2) - at : 33;
            ck_assert_int_eq(ts_merge_add(&g, rec + at, n, at + n == N - (uint64_t)(fault == 2),
                                          before, &n_before, &kept, &err),
                             0);
        }
        ts_merge_finish(&g);
        n_zeros = g.n_zeros;
        ck_assert_uint_eq(g.nnz, g.account[0].kept.n);
        ck_assert_uint_eq(g.account[0].cells.n, g.nnz);
        ck_assert_int_eq(ts_cell_sum_same(&g.account[0].kept, &g.account[0].cells), _i == 0);
        ck_assert_uint_eq(N - (uint64_t)(fault == 2), g.nnz + g.n_duplicates + n_zeros);
        ck_assert_int_eq(ts_merge_check(&g, &records, &err), fault == 0 ? 0 : TS_EIO);
        if (fault == 0) { /* a value that merging got wrong */
            ck_assert_uint_gt(n_zeros, 0);
            g.account[0].value_made += 0.01;
            ck_assert_int_eq(ts_merge_check(&g, &records, &err), TS_EIO);
        }
        ts_merge_fini(&g);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cell_sum");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, rows_are_the_obvious_loop, 0, 10);
    tcase_add_loop_test(t, columns_are_the_obvious_loop, 0, TS_N_ISA);
    tcase_add_test(t, changes_are_seen);
    tcase_add_loop_test(t, shards_are_decoded, 0, 15);
    tcase_add_loop_test(t, merges_are_accounted_for, 0, 3);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
