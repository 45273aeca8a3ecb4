/* SPDX-License-Identifier: BSD-3-Clause */
/* Tile products of all instruction sets that this machine has against the obvious loop. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/dense/dense_gemm.h"
#include "tests/support/run_suite.h"

#define STRIDE 300u
#define GUARD  7.0

/* Numbers of either precision, drawn in (-1, 1), each of which float32 has. */
struct numbers {
    int wide;
    void *at;
};

static double get(const struct numbers *x, size_t i)
{
    return x->wide ? ((const double *)x->at)[i] : (double)((const float *)x->at)[i];
}

static void put(const struct numbers *x, size_t i, double value)
{
    if (x->wide)
        ((double *)x->at)[i] = value;
    else
        ((float *)x->at)[i] = (float)value;
}

static struct numbers draw(size_t n, int wide, uint64_t seed)
{
    const struct numbers x = { .wide = wide, .at = calloc(n, sizeof(double)) };
    for (size_t i = 0; i < n; i++)
        put(&x, i, (float)(2 * ts_unit(ts_mix(seed + i)) - 1));
    return x;
}

/* One product: `across` or along, of panels of one vector or two. */
static void check_tile(const struct ts_gemm *gemm, int wide, int across, int two, uint32_t k,
                       int add)
{
    const uint32_t cols = gemm->lanes * (two ? 2 : 1), out_stride = cols + 3;
    const size_t n_a = (size_t)STRIDE * (across ? k : gemm->rows);
    const size_t n_out = (size_t)gemm->rows * out_stride;
    struct numbers a = draw(n_a, wide, 1 + k), b = draw((size_t)k * cols, wide, 1000 + k);
    struct numbers out = { .wide = wide || across, .at = calloc(n_out, sizeof(double)) };
    const double allowed = (k + 2) * (wide ? DBL_EPSILON : FLT_EPSILON) * k;
    const struct ts_gemm_ahead ahead = { .at = k % 2 == 0 ? 0 : (uintptr_t)-1, /* nobody's */
                                         .hop = 1u << 20,
                                         .step = 4096,
                                         .beside = 64 };
    for (size_t i = 0; i < n_out; i++)
        put(&out, i, GUARD);
    (across ? gemm->across : gemm->along)[two](k, a.at, STRIDE, b.at, out.at, out_stride, add,
                                               &ahead);
    for (uint32_t i = 0; i < gemm->rows; i++)
        for (uint32_t j = 0; j < out_stride; j++) {
            double want = j >= cols || add ? GUARD : 0;
            for (uint32_t p = 0; p < k && j < cols; p++)
                want += get(&a, across ? (size_t)p * STRIDE + i : (size_t)i * STRIDE + p) *
                        get(&b, (size_t)p * cols + j);
            ck_assert_msg(fabs(get(&out, (size_t)i * out_stride + j) - want) <=
                              (j < cols ? allowed + GUARD * FLT_EPSILON : 0),
                          "row %u, column %u of %u: %.17g, by the loop %.17g", i, j, cols,
                          get(&out, (size_t)i * out_stride + j), want);
        }
    free(a.at);
    free(b.at);
    free(out.at);
}

START_TEST(tiles_equal_the_loop)
{
    static const uint32_t depths[] = { 1, 2, 7, 31, 32, 33, 64, 100, 255, 256 };
    const enum ts_isa isa = (enum ts_isa)_i;
    if (!ts_isa_here(isa))
        return;
    for (int c = 0; c < 16; c++) {
        const int wide = c & 1;
        const struct ts_gemm *gemm = ts_gemm_of(isa, wide);
        ck_assert_uint_le(2 * gemm->lanes * gemm->rows, TS_GEMM_MOST);
        for (size_t k = 0; k < sizeof depths / sizeof *depths; k++)
            check_tile(gemm, wide, c >> 1 & 1, c >> 2 & 1, depths[k], c >> 3);
    }
}
END_TEST

/* A column has the same bits in a panel of one vector as in one of two: how many columns there are
 * does not matter. */
START_TEST(panels_of_one_vector_have_the_same_bits)
{
    const enum ts_isa isa = (enum ts_isa)_i;
    const struct ts_gemm_ahead nothing = { 0 };
    if (!ts_isa_here(isa))
        return;
    for (int across = 0; across < 2; across++)
        for (int wide = 0; wide < 2; wide++) {
            const struct ts_gemm *gemm = ts_gemm_of(isa, wide);
            const uint32_t k = 77, lanes = gemm->lanes;
            const int long_out = wide || across;
            struct numbers a = draw((size_t)STRIDE * 256, wide, 5);
            struct numbers b = draw((size_t)k * 2 * lanes, wide, 6),
                           narrow = draw((size_t)k * lanes, wide, 0);
            double one[TS_GEMM_MOST] = { 0 }, both[TS_GEMM_MOST] = { 0 };
            const struct numbers x = { long_out, one }, y = { long_out, both };
            for (uint32_t p = 0; p < k; p++)
                for (uint32_t j = 0; j < lanes; j++)
                    put(&narrow, (size_t)p * lanes + j, get(&b, (size_t)p * 2 * lanes + j));
            (across ? gemm->across : gemm->along)[0](k, a.at, STRIDE, narrow.at, one, lanes, 0,
                                                     &nothing);
            (across ? gemm->across : gemm->along)[1](k, a.at, STRIDE, b.at, both, 2 * (size_t)lanes,
                                                     0, &nothing);
            for (uint32_t i = 0; i < gemm->rows; i++)
                for (uint32_t j = 0; j < lanes; j++)
                    ck_assert(get(&x, (size_t)i * lanes + j) == get(&y, (size_t)i * 2 * lanes + j));
            free(a.at);
            free(b.at);
            free(narrow.at);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dense_gemm");
    TCase *c = tcase_create("dense_gemm");
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, tiles_equal_the_loop, 0, TS_N_ISA);
    tcase_add_loop_test(c, panels_of_one_vector_have_the_same_bits, 0, TS_N_ISA);
    suite_add_tcase(s, c);
    return test_run_suite(s, CK_FORK_GETENV);
}
