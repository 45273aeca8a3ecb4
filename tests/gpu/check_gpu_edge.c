/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of rows that reach over shares and shards are added up as a plain loop in file order adds
 * them, and the bits do not depend on which shards were folded together. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"
#include "gpu/sparse/edge_kernel.h"
#include "tests/gpu/on_gpu.h"
#include "tests/support/run_suite.h"

/* How often a row begins: inside a share, between two of a shard, between two shards. */
static const struct shape {
    uint32_t n_shards, most_shares;
    double within, between, over_shards;
} shapes[] = {
    { 1, 1, 0, 0, 0 },          { 1, 200, 0, 0, 0 },          { 1, 200, 0.2, 0.1, 0 },
    { 1, 3, 1, 1, 0 },          { 40, 200, 0, 0, 0 }, /* one row over all shards */
    { 40, 200, 0, 0, 1 },                             /* a row for each shard */
    { 300, 1, 1, 0, 0.5 },                            /* shards of one share */
    { 40, 70, 1, 1, 1 },                              /* no row twice */
    { 40, 200, 1, 0, 0 }, /* each share ends in the row that the next begins in */
    { 40, 200, 0.5, 0.5, 0.5 }, { 40, 200, 0.05, 0.02, 0.1 }, { 3, 5000, 0.3, 0.1, 0.5 },
    { 700, 3, 0.02, 0, 0 }, /* rows over dozens of shards */
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])
static const uint32_t lds[] = { 4, 32, 36, 132 };
#define N_LDS (int)(sizeof lds / sizeof lds[0])

/* What an MTTKRP over all shards leaves behind, with the rows' sums as they should be. */
struct edges {
    uint32_t ld, element, n_shards;
    uint64_t n_shares, n_rows; /* rows that no edge has are in between and behind */
    struct ts_gpu_shard *shard;
    uint32_t *row, *shard_row; /* 2 per share, 2 per shard and room for the fold */
    void *raw;                 /* 2 x shares, x ld */
    double *want, *size; /* n_rows x ld: sums, and of absolute values; size < 0: not in edges */
    struct ts_gpu_mttkrp args;
    void *shard_edge;
};

static int happens(uint64_t at, double probability)
{
    return ts_unit(ts_mix(at)) < probability;
}

static void lay_rows(struct edges *x, const struct shape *s)
{
    uint32_t row = 1;
    uint64_t p = 0;
    for (uint32_t k = 0; k < x->n_shards; k++) {
        struct ts_gpu_shard *shard = &x->shard[k];
        const uint64_t n = ts_mttkrp_shares(shard->n_blocks, x->args.share_blocks);
        row += k > 0 && happens(k, s->over_shards) ? 1 + (uint32_t)(ts_mix(k) % 2) : 0;
        shard->row_first = row;
        for (uint64_t i = 0; i < n; i++, p++) {
            row += i > 0 && happens(3 * p + 1000, s->between) ? 1 + (uint32_t)(ts_mix(p) % 3) : 0;
            x->row[2 * p] = row;
            row += happens(5 * p + 2000, s->within) ? 1 + (uint32_t)(ts_mix(p) % 4) : 0;
            x->row[2 * p + 1] = row;
        }
        x->shard_row[2 * k] = shard->row_first;
        x->shard_row[2 * k + 1] = row;
    }
    x->n_rows = row + 3;
}

static void fill_sums(struct edges *x)
{
    x->want = calloc(x->n_rows * x->ld, sizeof *x->want);
    x->size = malloc(x->n_rows * x->ld * sizeof *x->size);
    ck_assert_ptr_nonnull(x->want);
    ck_assert_ptr_nonnull(x->size);
    for (uint64_t i = 0; i < x->n_rows * x->ld; i++)
        x->size[i] = -1;
    for (uint64_t e = 0; e < 2 * x->n_shares; e++) {
        const int empty = e % 2 == 1 && x->row[e] == x->row[e - 1];
        for (uint32_t c = 0; c < x->ld; c++) {
            const uint64_t to = (uint64_t)x->row[e] * x->ld + c;
            const double v = empty ? 0 : (float)(2 * ts_unit(ts_mix(e * x->ld + c)) - 1);
            if (x->element == 4)
                ((float *)x->raw)[e * x->ld + c] = (float)v;
            else
                ((double *)x->raw)[e * x->ld + c] = v;
            x->want[to] += v;
            x->size[to] = fmax(x->size[to], 0) + fabs(v);
        }
    }
}

/* Shares of whole partitions for the one element, the smallest ones for the other. */
static struct edges make(const struct shape *s, uint32_t ld, uint32_t element)
{
    const uint32_t blocks = element == 4 ? TS_PARTITION_BLOCKS : TS_MTTKRP_LEAST_BLOCKS;
    struct edges x = { .ld = ld, .element = element, .n_shards = s->n_shards };
    const uint64_t shard_rows = ts_edge_count(s->n_shards);
    x.args.share_blocks = blocks;
    x.shard = calloc(s->n_shards, sizeof *x.shard);
    x.shard_row = calloc(shard_rows, sizeof *x.shard_row);
    ck_assert_ptr_nonnull(x.shard);
    ck_assert_ptr_nonnull(x.shard_row);
    for (uint32_t k = 0; k < s->n_shards; k++) {
        const uint32_t n = 1 + (uint32_t)(ts_mix(k + 100) % s->most_shares);
        x.shard[k].number = k;
        x.shard[k].first_share = x.n_shares;
        x.shard[k].first_cta = (uint32_t)x.n_shares;
        x.shard[k].n_blocks = n * blocks - (uint32_t)(ts_mix(k) % blocks);
        x.n_shares += n;
    }
    x.row = calloc(2 * x.n_shares, sizeof *x.row);
    x.raw = calloc(2 * x.n_shares * ld, element);
    ck_assert_ptr_nonnull(x.row);
    ck_assert_ptr_nonnull(x.raw);
    lay_rows(&x, s);
    ck_assert_uint_eq(x.row[2 * x.n_shares - 1], x.n_rows - 3);
    fill_sums(&x);
    x.args.ld = ld;
    x.args.edge = to_device(x.raw, 2 * x.n_shares * ld * element);
    x.args.edge_row = to_device(x.row, 2 * x.n_shares * sizeof *x.row);
    x.shard_edge = nan_on_device(shard_rows * ld * element);
    x.args.out = nan_on_device(x.n_rows * ld * element);
    return x;
}

static void unmake(struct edges *x)
{
    free(x->shard);
    free(x->row);
    free(x->shard_row);
    free(x->raw);
    free(x->want);
    free(x->size);
    cudaFree(x->args.edge);
    cudaFree(x->args.edge_row);
    cudaFree(x->args.out);
    cudaFree(x->shard_edge);
}

static enum ts_precision precision_of(const struct edges *x)
{
    return x->element == 4 ? TS_FLOAT32 : TS_FLOAT64;
}

/* Folds the shards in launches of `group` of them, the last first, and then all of them; returns
 * `out` behind 2 x n_shards rows of shard_edge, to be freed. */
static char *fold(struct edges *x, uint32_t group)
{
    const size_t row = (size_t)x->ld * x->element, ends = 2 * x->n_shards * row;
    struct ts_gpu_shard *table = to_device(x->shard, x->n_shards * sizeof *x->shard);
    uint32_t *dev_row = to_device(x->shard_row, ts_edge_count(x->n_shards) * sizeof *x->shard_row);
    char *ret = malloc(ends + x->n_rows * row);
    ck_assert_ptr_nonnull(ret);
    CUDA(cudaMemset(x->shard_edge, 0xff, ts_edge_count(x->n_shards) * row));
    CUDA(cudaMemset(x->args.out, 0xff, x->n_rows * row));
    for (uint32_t end = x->n_shards, n; end > 0; end -= n) {
        struct ts_gpu_mttkrp args = x->args;
        n = group < end ? group : end;
        if (group > 0) {
            args.many = table + end - n;
            args.n_many = n;
            for (uint32_t k = end - n; k < end; k++)
                args.n_shares += ts_mttkrp_shares(x->shard[k].n_blocks, args.share_blocks);
        } else {
            n = 1;
            args.one = x->shard[end - 1];
            args.n_shares = ts_mttkrp_shares(args.one.n_blocks, args.share_blocks);
        }
        CUDA(ts_edge_fold_shards(precision_of(x), &args, x->shard_edge, NULL));
    }
    CUDA(cudaMemcpy(ret, x->shard_edge, ends, cudaMemcpyDeviceToHost));
    CUDA(ts_edge_fold(precision_of(x), x->n_shards, x->shard_edge, dev_row, x->ld, x->args.out,
                      NULL));
    CUDA(cudaMemcpy(ret + ends, x->args.out, x->n_rows * row, cudaMemcpyDeviceToHost));
    cudaFree(table);
    cudaFree(dev_row);
    return ret;
}

/* Sums are float64 and rounded to the precision at the end of a shard and of each level of the
 * fold, of which there are at most three here. */
static void compare(const struct edges *x, const char *folded)
{
    const char *out = folded + (size_t)2 * x->n_shards * x->ld * x->element;
    const double eps = x->element == 4 ? 4 * FLT_EPSILON : 500 * DBL_EPSILON;
    for (uint64_t i = 0; i < x->n_rows * x->ld; i++) {
        const double got =
            x->element == 4 ? (double)((const float *)out)[i] : ((const double *)out)[i];
        if (x->size[i] < 0 ? !isnan(got) : !(fabs(got - x->want[i]) <= eps * x->size[i]))
            ck_abort_msg("row %llu of %llu, column %llu: %.17g, expected %.17g%s",
                         (unsigned long long)(i / x->ld), (unsigned long long)x->n_rows,
                         (unsigned long long)(i % x->ld), got, x->want[i],
                         x->size[i] < 0 ? " (no edge has it)" : "");
    }
}

/* The only shard of a mode needs no second fold, and gets the same bits. */
static void check_alone(struct edges *x, const char *folded)
{
    const size_t row = (size_t)x->ld * x->element;
    struct ts_gpu_mttkrp args = x->args;
    args.one = x->shard[0];
    args.n_shares = ts_mttkrp_shares(args.one.n_blocks, args.share_blocks);
    CUDA(cudaMemset(x->args.out, 0xff, x->n_rows * row));
    CUDA(ts_edge_fold_shards(precision_of(x), &args, NULL, NULL));
    char *got = from_device(x->args.out, x->n_rows * row);
    ck_assert(memcmp(got, folded + 2 * row, x->n_rows * row) == 0);
    free(got);
}

START_TEST(fold_equals_loop)
{
    const struct shape *s = &shapes[_i / 2 % N_SHAPES];
    struct edges x = make(s, lds[_i / 2 / N_SHAPES], _i % 2 ? 8 : 4);
    const size_t row = (size_t)x.ld * x.element, bytes = (2 * x.n_shards + x.n_rows) * row;
    char *want = fold(&x, x.n_shards);
    compare(&x, want);
    for (uint32_t group = 0; group <= 5; group += 5) {
        char *got = fold(&x, group);
        ck_assert(memcmp(got, want, bytes) == 0);
        free(got);
    }
    if (x.n_shards == 1)
        check_alone(&x, want);
    free(want);
    unmake(&x);
}
END_TEST

START_TEST(nothing_is_folded_without_shards)
{
    struct ts_gpu_mttkrp args = { .ld = 4 };
    CUDA(ts_edge_fold_shards(TS_FLOAT32, &args, NULL, NULL));
    CUDA(cudaDeviceSynchronize());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_edge");
    TCase *tc = tcase_create("fold");
    if (!have_gpu())
        return 77;
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, fold_equals_loop, 0, 2 * N_SHAPES * N_LDS);
    tcase_add_test(tc, nothing_is_folded_without_shards);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
