/* SPDX-License-Identifier: BSD-3-Clause */
/* The decoders of every instruction set give what the obvious decoder gives, and the kernels of
 * every instruction set the sums of the portable one. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/sparse/kernel.h"
#include "cpu/sparse/pass.h"
#include "cpu/sparse/plain_expand.h"
#include "tests/stream/memfeed.h"
#include "tests/support/run_suite.h"

static const struct shape {
    uint32_t order, nnz, value_range;
    double skew;
    uint64_t dim[TS_MAX_ORDER];
} shapes[] = {
    { 2, 1, 1, 0, { 1, 1 } },
    { 2, 900, 9, 3, { 31, 4000 } },
    { 3, 5000, 5, 0, { 40, 30, 20 } },
    { 3, 5001, 0, 0, { 4000, 3000, 2000 } },
    { 3, 6000, 5, 4, { 3000, 100000, 90000 } },
    { 4, 6000, 1000, 3, { 51, 2, 116, 900 } },
    { 4, 6000, 3, 0, { 9, 8, 7, 60 } }, /* long fibres */
    { 5, 3001, 3, 1, { 700, 900, 50, 24, 3 } },
    { 8, 2000, 0, 1, { 3, 5, 7, 11, 13, 17, 19, 23 } },
    { 16, 1000, 70000, 0, { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])
static const uint32_t kinds[] = { TS_VALUE_CONST, TS_VALUE_INT, TS_VALUE_DICT, TS_VALUE_F32,
                                  TS_VALUE_F64 };

static struct test_coo make(const struct shape *s)
{
    return test_coo_random(17, s->order, s->dim, s->nnz, s->value_range, s->skew);
}

static int fits(uint32_t kind, const struct shape *s)
{
    return kind == TS_VALUE_CONST                          ? s->value_range == 1
           : kind == TS_VALUE_INT || kind == TS_VALUE_DICT ? s->value_range > 0
                                                           : 1;
}

static ts_unpack_fn *decoder(enum ts_isa isa)
{
    return isa == TS_ISA_AVX512 ? ts_unpack_avx512
           : isa == TS_ISA_AVX2 ? ts_unpack_avx2
                                : ts_unpack_portable;
}

static double value_of(const struct ts_tensor *t, const struct ts_block *b, uint32_t p)
{
    const uint32_t c = t->header.value_kind == TS_VALUE_CONST ? 0 : b->code[0][p];
    uint64_t bits;
    double v;
    float f;
    switch (t->header.value_kind) {
    case TS_VALUE_CONST:
        return t->header.value_base;
    case TS_VALUE_INT:
        return t->header.value_base + c;
    case TS_VALUE_DICT:
        return t->dict[c];
    case TS_VALUE_F32:
        memcpy(&f, &c, sizeof f);
        return f;
    }
    bits = (uint64_t)c << 32 | b->code[1][p];
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Check's own assertions note their place each time, which takes longer than decoding. */
#define SAME(a, b)                                \
    do {                                          \
        if ((a) != (b))                           \
            ck_abort_msg("%s is not %s", #a, #b); \
    } while (0)

static void compare_block(const struct ts_tensor *t, const struct ts_block_at *at,
                          const struct ts_unpacked *u, int as_double)
{
    const uint32_t order = t->order, leaf = order - 1;
    uint32_t starts = 0, fibre = 0;
    struct ts_block_parts parts;
    struct ts_block b;
    ck_assert_int_eq(ts_block_parse(at->word, at->n_words, order, at->nnz,
                                    ts_value_codes(t->header.value_kind), &parts, NULL),
                     0);
    ts_block_decode(&parts, at->row, &b);
    SAME(u->n, b.n);
    SAME(u->row, b.level[0][0]);
    for (uint32_t p = 0; p < b.n; p++) {
        if (p > 0 && b.level[0][p] != b.level[0][p - 1])
            SAME(u->start[starts++], p);
        fibre += p > 0 && (parts.flags[leaf - 1].bit[p / 64] >> p % 64 & 1) != 0;
        SAME(u->idx[leaf][p], b.level[leaf][p]);
        for (uint32_t l = 1; l < leaf; l++)
            SAME(u->idx[l][u->shared ? fibre : p], b.level[l][p]);
        if (u->shared)
            SAME(u->idx[0][p], fibre);
        if (as_double)
            SAME(u->value.d[p], value_of(t, &b, p));
        else
            SAME(u->value.f[p], (float)value_of(t, &b, p));
    }
    SAME(u->n_starts, starts);
    if (u->shared)
        SAME(u->n_fibres, fibre + 1);
}

START_TEST(decoders_equal_the_obvious_one)
{
    const struct shape *s = &shapes[_i / 5];
    struct test_coo x = make(s);
    struct ts_unpacked *u = malloc(sizeof *u);
    if (fits(kinds[_i % 5], s)) {
        struct ts_feed *f = memfeed_new(&x, kinds[_i % 5], 1, 0);
        for (int k = 0; k < 2 * TS_N_ISA; k++) {
            struct ts_unpack_conf conf;
            if (!ts_isa_here((enum ts_isa)(k / 2)))
                continue;
            ts_kernel_values(&f->tensor, k % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64, &conf);
            for (uint32_t m = 0; m < x.order; m++)
                for (uint64_t i = 0; i < f->tensor.mode[m].disk.n_shards; i++)
                    for (uint32_t b = 0; b < f->tensor.mode[m].shard[i].n_blocks; b++) {
                        const struct ts_block_at at =
                            ts_shard_block(&f->tensor.mode[m].shard[i], f->raw[m][i], b);
                        memset(u, 0xA5, sizeof *u);
                        decoder((enum ts_isa)(k / 2))(&conf, &at, u);
                        compare_block(&f->tensor, &at, u, k % 2);
                    }
        }
        memfeed_free(f);
    }
    free(u);
    test_coo_free(&x);
}
END_TEST

/* Blocks that are kept plain expand to what was decoded, and fill no more than was said. */
START_TEST(plain_blocks_equal_the_obvious_ones)
{
    const struct shape *s = &shapes[_i / 5];
    struct test_coo x = make(s);
    struct ts_unpacked *u = malloc(sizeof *u);
    if (fits(kinds[_i % 5], s)) {
        struct ts_feed *f = memfeed_new(&x, kinds[_i % 5], 1 + (uint32_t)_i % 2, 0);
        for (enum ts_isa isa = 0; isa < TS_N_ISA; isa++) {
            struct ts_plain *p;
            if (!ts_isa_here(isa))
                continue;
            ck_assert_int_eq(ts_plain_new(&f->tensor, ts_plain_bytes(&f->tensor, -1), &p, NULL), 0);
            for (uint32_t m = 0; m < x.order; m++)
                for (uint64_t i = 0; i < f->tensor.mode[m].disk.n_shards; i++)
                    for (uint32_t k = 0; k < ts_shard_partitions(&f->tensor.mode[m].shard[i]);
                         k++) {
                        const struct ts_disk_shard *e = &f->tensor.mode[m].shard[i];
                        const uint64_t at = f->first_partition[m][i] + k;
                        const uint32_t end = (k + 1) * TS_PARTITION_BLOCKS;
                        const void *plain, *from[2];
                        ck_assert_ptr_null(ts_plain_get(p, m, at));
                        plain =
                            ts_plain_add(p, m, at, e, f->raw[m][i], k, ts_kernel_unpack(isa), u);
                        ck_assert_ptr_nonnull(plain);
                        ck_assert_ptr_eq(ts_plain_get(p, m, at), plain);
                        from[0] = from[1] = plain;
                        for (uint32_t b = k * TS_PARTITION_BLOCKS; b < e->n_blocks && b < end; b++)
                            for (int as_double = 0; as_double < 2; as_double++) {
                                const struct ts_block_at block = ts_shard_block(e, f->raw[m][i], b);
                                struct ts_plain_conf c;
                                memset(u, 0xA5, sizeof *u);
                                ts_plain_conf(&f->tensor, m, as_double, &c);
                                plain = ts_plain_next(&c, from[as_double]);
                                from[as_double] = plain_expand(&c, from[as_double], u);
                                ck_assert_ptr_eq(plain, from[as_double]);
                                compare_block(&f->tensor, &block, u, as_double);
                            }
                    }
            ts_plain_free(p);
        }
        memfeed_free(f);
    }
    free(u);
    test_coo_free(&x);
}
END_TEST

/* A byte or two would not hold a value beyond what the header says: such a block stays packed. */
START_TEST(values_beyond_the_header_are_not_kept)
{
    struct test_coo x = make(&shapes[5]); /* values up to 1000 */
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_INT, 1, 0);
    struct ts_unpacked *u = malloc(sizeof *u);
    struct ts_plain *p;
    f->tensor.header.value_max = f->tensor.header.value_base + 200;
    ck_assert_int_eq(ts_plain_new(&f->tensor, ts_plain_bytes(&f->tensor, -1), &p, NULL), 0);
    ck_assert_ptr_null(
        ts_plain_add(p, 0, 0, &f->tensor.mode[0].shard[0], f->raw[0][0], 0, ts_unpack_portable, u));
    ck_assert_ptr_null(ts_plain_get(p, 0, 0));
    ts_plain_free(p);
    free(u);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* One mode's product with a given kernel, from packed blocks; then as often again, with all blocks
 * or half of them kept plain on the way, to the same bits. */
static void product(struct ts_feed *f, enum ts_isa isa, enum ts_precision precision, uint32_t rank,
                    double *out)
{
    struct ts_backend_conf conf = {
        .tensor = &f->tensor, .rank = rank, .precision = precision, .threads = 1
    };
    const uint64_t n_rows = f->tensor.mode[0].disk.n_rows;
    double *again = malloc(n_rows * rank * sizeof *again);
    struct ts_fmat factor[TS_MAX_ORDER];
    const struct ts_pass_model model = { .out = &factor[0], .summed = precision };
    struct ts_pass *pass;
    for (uint32_t m = 0; m < f->tensor.order; m++) {
        const uint64_t n = f->tensor.mode[m].disk.n_rows;
        double *rows = malloc(n * rank * sizeof *rows);
        for (uint64_t i = 0; i < n * rank; i++)
            rows[i] = ts_init_entry(1, m, i / rank, (uint32_t)(i % rank));
        ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &factor[m], NULL), 0);
        ts_fmat_put(&factor[m], 0, n, rows, 1);
        free(rows);
    }
    ck_assert_int_eq(ts_pass_new(&conf, isa, 1, &pass, NULL), 0);
    f->given = 0;
    ck_assert_int_eq(ts_pass_run(pass, 0, factor, 1, &model, f, NULL, NULL), 0);
    ts_fmat_get(&factor[0], 0, n_rows, out, 1);
    ts_pass_free(pass);
    for (uint64_t share = 1; share <= 2; share++) {
        conf.spare_bytes = ts_plain_bytes(&f->tensor, 0) / share;
        ck_assert_int_eq(ts_pass_new(&conf, isa, 1, &pass, NULL), 0);
        for (int run = 0; run < 3; run++) {
            f->given = 0;
            ck_assert_int_eq(ts_pass_run(pass, 0, factor, 1, &model, f, NULL, NULL), 0);
            ts_fmat_get(&factor[0], 0, n_rows, again, 1);
            ck_assert(memcmp(again, out, n_rows * rank * sizeof *out) == 0);
        }
        ts_pass_free(pass);
    }
    free(again);
    for (uint32_t m = 0; m < f->tensor.order; m++)
        ts_fmat_free(&factor[m]);
}

/* Terms are positive: n of them and the `order` products in each round at most n + order times. */
START_TEST(kernels_equal_the_portable_one)
{
    static const uint32_t ranks[] = { 4, 8, 10, 16, 30, 48, 64, 100 };
    const struct shape *s = &shapes[_i / 2];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const double eps = precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    struct test_coo x = make(s);
    struct ts_feed *f = memfeed_new(&x, s->value_range > 0 ? TS_VALUE_INT : TS_VALUE_F64, 1, 0);
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
        const uint64_t n = x.dim[0] * ranks[r];
        double *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
        product(f, TS_ISA_PORTABLE, precision, ranks[r], want);
        for (enum ts_isa isa = TS_ISA_AVX2; isa < TS_N_ISA; isa++) {
            if (!ts_isa_here(isa))
                continue;
            product(f, isa, precision, ranks[r], got);
            for (uint64_t i = 0; i < n; i++)
                if (fabs(got[i] - want[i]) > (double)(x.nnz + x.order) * eps * fabs(want[i]))
                    ck_abort_msg("%.9g is not %.9g", got[i], want[i]);
        }
        free(want);
        free(got);
    }
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpu_unpack");
    TCase *t = tcase_create("cpu_unpack");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, decoders_equal_the_obvious_one, 0, 5 * N_SHAPES);
    tcase_add_loop_test(t, plain_blocks_equal_the_obvious_ones, 0, 5 * N_SHAPES);
    tcase_add_test(t, values_beyond_the_header_are_not_kept);
    tcase_add_loop_test(t, kernels_equal_the_portable_one, 0, 2 * N_SHAPES);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
