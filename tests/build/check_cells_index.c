/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of the kernels for dense tensors, on the host: steps cover all rows, slots stand
 * for the indices there are, tiles in shared memory keep every cell apart and no two lanes that
 * load at once use one bank. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "gpu/dense/cells_index.h"
#include "tests/support/run_suite.h"

static uint64_t draw(uint64_t *seed, uint64_t most)
{
    return ts_mix(++*seed) % most + 1;
}

START_TEST(steps_cover_all_rows_once)
{
    uint64_t seed = 3;
    for (int k = 0; k < 300; k++) {
        const uint64_t rows = draw(&seed, 3000), chunk = draw(&seed, 700);
        const struct ts_cells_cut c = ts_cells_cut_of(rows, chunk, draw(&seed, 300));
        const uint64_t n = ts_cells_step(&c, rows);
        uint64_t next = 0;
        for (uint64_t s = 0; s < n; s++) {
            const uint64_t first = ts_cells_first(&c, s), end = ts_cells_end(&c, s);
            ck_assert_uint_eq(first, next);
            ck_assert_uint_gt(end, first);
            ck_assert_uint_le(end - first, c.step);
            ck_assert_uint_eq(first / chunk, (end - 1) / chunk);
            for (uint64_t row = first; row < end; row++)
                ck_assert_uint_eq(ts_cells_step(&c, row), s);
            next = end;
        }
        ck_assert_uint_eq(next, rows);
    }
}
END_TEST

START_TEST(every_index_has_a_slot_of_its_own)
{
    uint64_t seed = 5;
    for (int k = 0; k < 500; k++) {
        const uint64_t dim = draw(&seed, 40), after = draw(&seed, 30), n = draw(&seed, 200);
        const uint64_t most = n + draw(&seed, 50), slots = ts_cells_slots(dim, after, most);
        const uint64_t first = draw(&seed, 5000) - 1;
        unsigned char used[40] = { 0 };
        ck_assert_uint_le(slots, dim);
        for (uint64_t p = first; p < first + n; p++) {
            const uint64_t i = p / after % dim, at = ts_cells_slot_of(dim, after, slots, first, i);
            ck_assert_uint_lt(at, slots);
            ck_assert_uint_eq(ts_cells_index_of(dim, after, slots, first, at), i);
        }
        for (uint64_t at = 0; at < slots; at++) /* no index has two of them */
            ck_assert_uint_eq(used[ts_cells_index_of(dim, after, slots, first, at)]++, 0);
    }
}
END_TEST

START_TEST(pairs_are_those_of_an_upper_triangle)
{
    for (uint32_t rank = 1; rank <= 128; rank++) {
        uint32_t pair = 0, r, s;
        for (uint32_t i = 0; i < rank; i++) {
            ck_assert_uint_eq(ts_cells_pair_row(rank, i), pair);
            for (uint32_t j = i; j < rank; j++) {
                ts_cells_pair(rank, pair++, &r, &s);
                ck_assert_uint_eq(r, i);
                ck_assert_uint_eq(s, j);
            }
        }
        ck_assert_uint_eq(ts_cells_pair_row(rank, rank), pair);
    }
}
END_TEST

START_TEST(rows_of_an_index_are_counted_in_order)
{
    uint64_t seed = 7;
    for (int k = 0; k < 500; k++) {
        const uint64_t dim = draw(&seed, 12), after = draw(&seed, 9), i = draw(&seed, dim) - 1;
        const uint64_t first = draw(&seed, 500) - 1, end = first + draw(&seed, 400);
        uint64_t o = ts_cells_other(dim, after, first, i);
        for (uint64_t p = first; p < end; p++)
            if (p / after % dim == i)
                ck_assert_uint_eq(ts_cells_row(dim, after, o++, i), p);
        ck_assert_uint_eq(ts_cells_other(dim, after, end, i), o);
    }
}
END_TEST

/* Whether `lanes` lanes that each load `bytes` from at[] on use banks of 4 bytes twice. */
static int conflict(const uint32_t *at, uint32_t lanes, uint32_t bytes)
{
    uint32_t used = 0;
    for (uint32_t l = 0; l < lanes; l++)
        for (uint32_t b = 0; b < bytes; b += 4) {
            const uint32_t bank = 1u << ((at[l] + b) / 4 % 32);
            if (used & bank)
                return 1;
            used |= bank;
        }
    return 0;
}

/* Of a pair of cells 16 or 8 bytes: a warp loads them in groups of 128 bytes. */
static void check_loads(uint32_t cell, uint32_t (*place)(uint32_t, uint32_t, uint32_t), int across)
{
    const uint32_t lanes = 128 / (2 * cell), deep = across ? 16 : TS_CELLS_LINE / cell;
    for (uint32_t k = 0; k < deep; k += 8)
        for (uint32_t side = 0; side < TS_CELLS_TILE; side += 16)
            for (uint32_t h = 0; h < 2; h++)
                for (uint32_t from = 0; from < 32; from += lanes) {
                    uint32_t at[16];
                    for (uint32_t l = 0; l < lanes; l++) {
                        const uint32_t g = (from + l) / 4, t = (from + l) % 4;
                        at[l] = across ? place(cell, k + 2 * t + h, (side + 2 * g) * cell)
                                       : place(cell, side + 8 * h + g, (k + 2 * t) * cell);
                    }
                    ck_assert_int_eq(conflict(at, lanes, 2 * cell), 0);
                }
}

static void check_apart(uint32_t cell, uint32_t (*place)(uint32_t, uint32_t, uint32_t),
                        uint32_t rows, uint32_t row_bytes)
{
    unsigned char *used = calloc(rows, row_bytes);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t byte = 0; byte < row_bytes; byte++) {
            const uint32_t at = place(cell, row, byte);
            ck_assert_uint_lt(at, rows * row_bytes);
            ck_assert_uint_eq(used[at]++, 0);
            ck_assert_uint_eq(at % 16, byte % 16); /* 16 bytes stay together */
        }
    free(used);
}

START_TEST(cells_of_a_tile_lie_apart_and_load_at_once)
{
    for (uint32_t cell = 4; cell <= 8; cell += 4) {
        check_apart(cell, ts_cells_along_place, TS_CELLS_TILE, TS_CELLS_LINE);
        check_apart(cell, ts_cells_across_place, 16, TS_CELLS_TILE * cell);
        check_loads(cell, ts_cells_along_place, 0);
        check_loads(cell, ts_cells_across_place, 1);
    }
}
END_TEST

/* Of a right operand each lane loads one element at a time, of rows 2 t or 2 t + 1. */
START_TEST(right_operands_load_at_once)
{
    for (uint32_t columns = 16; columns <= 64; columns *= 2)
        for (uint32_t h = 0; h < 2; h++)
            for (uint32_t from = 0; from < 32; from += 16) {
                uint32_t at[16];
                for (uint32_t l = 0; l < 16; l++)
                    at[l] = 8 * ((2 * ((from + l) % 4) + h) * ts_cells_right_stride(columns) +
                                 (from + l) / 4);
                ck_assert_int_eq(conflict(at, 16, 8), 0);
            }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cells_index");
    TCase *c = tcase_create("cells_index");
    tcase_add_test(c, steps_cover_all_rows_once);
    tcase_add_test(c, every_index_has_a_slot_of_its_own);
    tcase_add_test(c, pairs_are_those_of_an_upper_triangle);
    tcase_add_test(c, rows_of_an_index_are_counted_in_order);
    tcase_add_test(c, cells_of_a_tile_lie_apart_and_load_at_once);
    tcase_add_test(c, right_operands_load_at_once);
    suite_add_tcase(s, c);
    return test_run_suite(s, CK_FORK_GETENV);
}
