/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU kernel that reads packed shards equals the obvious loop, for every order, rank, kind of
 * value and way in which rows, shares and shards meet; and it gives the same bits however its
 * shards are launched. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "gpu/sparse/edge_kernel.h"
#include "gpu/sparse/mttkrp_kernel.h"
#include "tests/gpu/coo_kernel.h"
#include "tests/gpu/on_gpu.h"
#include "tests/support/run_suite.h"
#include "tests/support/support.h"

/* A tensor sorted for one mode, on the device: packed in shards of shard_nnz, and its factors. */
struct packed {
    struct test_coo x; /* sorted */
    uint8_t level[TS_MAX_ORDER];
    uint32_t rank, ld, element, n_shards;
    uint32_t out; /* bytes of an element of the sums */
    int wide;     /* sums are of float64, factors of float32 */
    uint64_t n_shares;
    double *factor[TS_MAX_ORDER]; /* host, dim x rank, exact in float32 */
    struct ts_gpu_mttkrp args;
    struct ts_gpu_shard shard[64];
    uint32_t shard_row[2 * 64]; /* first and last of each */
    double *dict;
};

static void pack_shards(struct packed *p, uint32_t kind, uint64_t shard_nnz)
{
    for (uint64_t first = 0; first < p->x.nnz; first += shard_nnz) {
        struct test_coo part = p->x;
        struct ts_disk_shard entry;
        struct ts_gpu_shard *s = &p->shard[p->n_shards++];
        void *raw;
        ck_assert_uint_le(p->n_shards, 64);
        for (uint32_t m = 0; m < part.order; m++)
            part.idx[m] += first;
        part.val += first;
        part.nnz = part.nnz - first < shard_nnz ? part.nnz - first : shard_nnz;
        raw = test_coo_pack(&part, p->level, kind, &entry);
        s->raw = to_device(raw, entry.raw_bytes);
        s->number = p->n_shards - 1;
        s->n_blocks = entry.n_blocks;
        s->nnz = entry.nnz;
        s->row_first = entry.row_first;
        p->shard_row[2 * s->number] = entry.row_first;
        p->shard_row[2 * s->number + 1] = part.idx[p->level[0]][part.nnz - 1];
        free(raw);
    }
}

/* Divides the shards into shares of so many blocks. */
static void divide(struct packed *p, uint32_t share_blocks)
{
    p->args.share_blocks = share_blocks;
    p->n_shares = 0;
    for (uint32_t i = 0; i < p->n_shards; i++) {
        p->shard[i].first_share = p->n_shares;
        p->shard[i].first_cta = (uint32_t)p->n_shares;
        p->n_shares += ts_mttkrp_shares(p->shard[i].n_blocks, share_blocks);
    }
}

static void *factor_to_device(const struct packed *p, const double *rows, uint64_t n)
{
    char *padded = calloc(n * p->ld, p->element);
    void *addr;
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < p->rank; r++) {
            if (p->element == 4)
                ((float *)padded)[i * p->ld + r] = (float)rows[i * p->rank + r];
            else
                ((double *)padded)[i * p->ld + r] = rows[i * p->rank + r];
        }
    addr = to_device(padded, n * p->ld * p->element);
    free(padded);
    return addr;
}

/* kind TS_VALUE_DICT packs integers that a dictionary maps to their square roots. */
static struct packed make(uint64_t seed, uint32_t order, const uint64_t *dim, uint64_t nnz,
                          uint32_t range, double skew, uint32_t kind, uint32_t rank,
                          uint32_t element, uint32_t mode, uint64_t shard_nnz)
{
    struct packed p = {
        .rank = rank, .ld = (rank + 3) / 4 * 4, .element = element, .out = element
    };
    double root[256];
    p.x = test_coo_random(seed, order, dim, nnz, range, skew);
    for (uint32_t l = 0; l < order; l++)
        p.level[l] = (uint8_t)((mode + l) % order);
    if (kind == TS_VALUE_CONST)
        for (uint64_t i = 0; i < p.x.nnz; i++)
            p.x.val[i] = 1.5;
    test_coo_sort(&p.x, p.level);
    pack_shards(&p, kind == TS_VALUE_DICT ? TS_VALUE_INT : kind, shard_nnz);
    divide(&p, TS_MTTKRP_LEAST_BLOCKS); /* edges have room for any other shares */
    for (uint32_t i = 0; i < 256; i++)
        root[i] = (float)sqrt(i);
    if (kind == TS_VALUE_DICT)
        for (uint64_t i = 0; i < p.x.nnz; i++)
            p.x.val[i] = root[(int)p.x.val[i]];
    p.args.dict = to_device(root, sizeof root);
    p.args.value_kind = kind;
    p.args.n_codes = ts_value_codes(kind);
    p.args.value_base = kind == TS_VALUE_CONST ? 1.5 : 0;
    p.args.n_levels = order - 1;
    p.args.ld = p.ld;
    for (uint32_t m = 0; m < order; m++) {
        p.factor[m] = malloc(p.x.dim[m] * rank * sizeof(double));
        for (uint64_t i = 0; i < p.x.dim[m] * rank; i++)
            p.factor[m][i] = (float)(0.5 + ts_unit(ts_mix(seed + 77 * m + i)));
    }
    for (uint32_t l = 1; l < order; l++)
        p.args.factor[l - 1] = factor_to_device(&p, p.factor[p.level[l]], p.x.dim[p.level[l]]);
    CUDA(cudaMalloc(&p.args.out, p.x.dim[mode] * p.ld * 8));
    CUDA(cudaMalloc(&p.args.edge, 2 * p.n_shares * p.ld * 8));
    CUDA(cudaMalloc((void **)&p.args.edge_row, 2 * p.n_shares * 4));
    return p;
}

static void unmake(struct packed *p)
{
    for (uint32_t s = 0; s < p->n_shards; s++)
        cudaFree((void *)p->shard[s].raw);
    for (uint32_t m = 0; m < p->x.order; m++)
        free(p->factor[m]);
    for (uint32_t l = 0; l < p->args.n_levels; l++)
        cudaFree((void *)p->args.factor[l]);
    cudaFree((void *)p->args.dict);
    cudaFree(p->args.out);
    cudaFree(p->args.edge);
    cudaFree(p->args.edge_row);
    test_coo_free(&p->x);
}

static int launch(const struct packed *p, const struct ts_gpu_mttkrp *args)
{
    return p->wide ? ts_mttkrp_launch_wide(args, NULL)
                   : ts_mttkrp_launch(p->element == 4 ? TS_FLOAT32 : TS_FLOAT64, args, NULL);
}

/* The MTTKRP, shard by shard (backwards) or all in one launch; dim x rank float64, to be freed. */
static double *run(struct packed *p, int one_launch)
{
    const uint64_t n = p->x.dim[p->level[0]];
    char *got = malloc(n * p->ld * p->out);
    double *ret = malloc(n * p->rank * sizeof *ret);
    const enum ts_precision precision = p->element == 4 && !p->wide ? TS_FLOAT32 : TS_FLOAT64;
    struct ts_gpu_mttkrp args = p->args;
    void *table = NULL, *shard_edge = nan_on_device(ts_edge_count(p->n_shards) * p->ld * 8);
    uint32_t *shard_row;
    CUDA(cudaMalloc((void **)&shard_row, ts_edge_count(p->n_shards) * 4));
    CUDA(cudaMemcpy(shard_row, p->shard_row, 2 * p->n_shards * 4, cudaMemcpyHostToDevice));
    args.out_float = p->wide && p->out == 4;
    CUDA(cudaMemset(args.out, 0xff, n * p->ld * p->out)); /* NaN: every row must be written */
    CUDA(cudaMemset(args.edge, 0xff, 2 * p->n_shares * p->ld * 8));
    if (one_launch) {
        table = to_device(p->shard, p->n_shards * sizeof p->shard[0]);
        args.many = table;
        args.n_many = p->n_shards;
        args.n_shares = (uint32_t)p->n_shares;
        CUDA(launch(p, &args));
        CUDA(ts_edge_fold_shards(precision, &args, shard_edge, NULL));
    } else {
        for (uint32_t s = p->n_shards; s-- > 0;) {
            args.one = p->shard[s];
            args.one.first_cta = 0;
            args.n_shares = ts_mttkrp_shares(p->shard[s].n_blocks, args.share_blocks);
            CUDA(launch(p, &args));
            CUDA(ts_edge_fold_shards(precision, &args, shard_edge, NULL));
        }
    }
    if (args.out_float)
        CUDA(ts_edge_fold_to_float(p->n_shards, shard_edge, shard_row, p->ld, args.out, NULL));
    else
        CUDA(ts_edge_fold(precision, p->n_shards, shard_edge, shard_row, p->ld, args.out, NULL));
    CUDA(cudaMemcpy(got, args.out, n * p->ld * p->out, cudaMemcpyDeviceToHost));
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < p->rank; r++)
            ret[i * p->rank + r] =
                p->out == 4 ? ((float *)got)[i * p->ld + r] : ((double *)got)[i * p->ld + r];
    cudaFree(table);
    cudaFree(shard_edge);
    cudaFree(shard_row);
    free(got);
    return ret;
}

/* Terms are positive: a sum of n products of m factors carries at most n + m roundings, in the
 * reference too; random ones cancel to about sqrt(n), so this is never reached unless something is
 * wrong. */
static void compare(const struct packed *p, const double *got, const double *want)
{
    const double eps = p->element == 4 && !p->wide ? FLT_EPSILON : DBL_EPSILON;
    const double most =
        eps * (64 + 4 * sqrt((double)p->x.nnz)) + (p->wide && p->out == 4 ? 4 * FLT_EPSILON : 0);
    const uint64_t n = p->x.dim[p->level[0]] * p->rank;
    for (uint64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - want[i]) <= most * fabs(want[i]),
                      "row %llu of %llu, column %llu: %.9g, expected %.9g",
                      (unsigned long long)(i / p->rank), (unsigned long long)(n / p->rank),
                      (unsigned long long)(i % p->rank), got[i], want[i]);
}

static const struct shape {
    uint32_t order;
    uint64_t nnz;
    uint32_t range;
    double skew;
    uint64_t dim[TS_MAX_ORDER];
} shapes[] = {
    { 2, 1, 1, 0, { 1, 1 } },
    { 2, 700, 9, 0, { 31, 40 } },
    { 3, 5000, 0, 0, { 40, 30, 20 } },
    { 3, 70000, 5, 0, { 40000, 3000, 2000 } },
    { 3, 100000, 200, 2, { 1, 3000, 2000 } },
    { 3, 100000, 3, 3, { 5000, 46, 9000 } },
    { 4, 60000, 100, 3, { 51, 2, 116, 9000 } },
    { 5, 30001, 3, 1, { 700, 900, 50, 24, 3 } },
    { 8, 20000, 0, 1, { 3, 5, 7, 11, 13, 17, 19, 23 } },
    { 16, 10000, 70, 0, { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])
static const uint32_t ranks[] = { 32, 1, 7, 8, 10, 16, 25, 50, 64, 100, 128, 200 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

/* element 4 or 8; or 0: rows of 4 with products and sums of 8, into rows of `out` */
static void check_sums(const struct shape *s, uint32_t rank, uint32_t element, uint32_t out,
                       uint32_t kind, uint32_t mode)
{
    struct packed p = make(3, s->order, s->dim, s->nnz, s->range, s->skew, kind, rank,
                           element == 0 ? 4 : element, mode, 2 * TS_PARTITION_NNZ);
    double *want = malloc(p.x.dim[mode] * rank * sizeof *want), *got, *again;
    p.wide = element == 0;
    p.out = p.wide ? out : element;
    test_mttkrp(&p.x, mode, rank, p.factor, want);
    for (int k = 0; k < 2; k++) { /* whole partitions, and one of the smaller shares */
        divide(&p, TS_PARTITION_BLOCKS >> (k == 0 ? 0 : 1 + (rank + mode) % 4));
        got = run(&p, 0);
        compare(&p, got, want);
        again = run(&p, 1);
        ck_assert(memcmp(got, again, p.x.dim[mode] * rank * sizeof *got) == 0);
        free(got);
        free(again);
    }
    free(want);
    unmake(&p);
}

static void check_shape(const struct shape *s, uint32_t rank, uint32_t element, uint32_t kind,
                        uint32_t mode)
{
    check_sums(s, rank, element, element, kind, mode);
}

/* Rows of float32, summed in float64: as float64, and rounded (which the bound of a share's first
 * rows, rounded before they are added, makes four roundings). */
START_TEST(wide_sums_equal_reference)
{
    const uint32_t out = _i % 2 ? 4 : 8;
    for (int i = 0; i < N_SHAPES; i++)
        check_sums(&shapes[i], ranks[_i / 2], 0, out,
                   shapes[i].range > 0 ? TS_VALUE_INT : TS_VALUE_F32, shapes[i].order - 1);
    check_sums(&shapes[4], ranks[_i / 2], 0, out, TS_VALUE_DICT, 0);
}
END_TEST

START_TEST(equals_reference_in_every_shape_and_mode)
{
    const struct shape *s = &shapes[_i / 2];
    for (uint32_t mode = 0; mode < s->order; mode++)
        check_shape(s, 32, _i % 2 ? 8 : 4, s->range > 0 ? TS_VALUE_INT : TS_VALUE_F32, mode);
}
END_TEST

START_TEST(equals_reference_at_every_rank)
{
    check_shape(&shapes[5], ranks[_i / 2], _i % 2 ? 8 : 4, TS_VALUE_INT, 0);
    check_shape(&shapes[7], ranks[_i / 2], _i % 2 ? 8 : 4, TS_VALUE_INT, 1);
}
END_TEST

START_TEST(equals_reference_with_every_kind_of_value)
{
    const uint32_t element = _i % 2 ? 8 : 4;
    check_shape(&shapes[4], 16, element, (uint32_t)_i / 2, 1);
    check_shape(&shapes[6], 16, element, (uint32_t)_i / 2, 2);
}
END_TEST

START_TEST(highest_ranks_work)
{
    check_shape(&shapes[2], _i / 2 ? 2048 : 1500, _i % 2 ? 8 : 4, TS_VALUE_F32, 1);
}
END_TEST

/* Larger: against the simple kernel, 600 000 nonzeros in rows of all weights. */
START_TEST(equals_simple_kernel)
{
    static const uint64_t dim[][3] = { { 46, 4000, 4000 },
                                       { 90000, 4000, 4000 },
                                       { 3, 9000, 9000 } };
    struct packed p =
        make(9, 3, dim[_i], 600000, 5, 1.5, TS_VALUE_INT, 32, 4, 0, 6 * TS_PARTITION_NNZ);
    const uint64_t n = p.x.dim[0];
    struct ts_gpu_coo coo = { .n_rows = (uint32_t)n, .n_levels = 2, .rank = 32, .ld = 32 };
    uint64_t *start = calloc(n + 1, sizeof *start);
    double *want = malloc(n * 32 * sizeof *want), *got;
    divide(&p, TS_PARTITION_BLOCKS);
    got = run(&p, 0);
    for (uint64_t i = 0; i < p.x.nnz; i++)
        start[p.x.idx[0][i] + 1] = i + 1;
    coo.row_start = to_device(start, (n + 1) * sizeof *start);
    coo.val = to_device(p.x.val, p.x.nnz * sizeof(double));
    for (uint32_t l = 0; l < 2; l++) {
        coo.idx[l] = to_device(p.x.idx[l + 1], p.x.nnz * 4);
        coo.factor[l] = to_device(p.factor[l + 1], p.x.dim[l + 1] * 32 * sizeof(double));
    }
    coo.out = to_device(want, n * 32 * sizeof *want);
    CUDA(ts_coo_mttkrp(&coo, NULL));
    CUDA(cudaMemcpy(want, coo.out, n * 32 * sizeof *want, cudaMemcpyDeviceToHost));
    compare(&p, got, want);
    for (uint32_t l = 0; l < 2; l++) {
        cudaFree((void *)coo.idx[l]);
        cudaFree((void *)coo.factor[l]);
    }
    cudaFree((void *)coo.row_start);
    cudaFree((void *)coo.val);
    cudaFree(coo.out);
    free(start);
    free(want);
    free(got);
    unmake(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_mttkrp");
    if (!have_gpu())
        return 77;
    test_add(suite, "shapes", equals_reference_in_every_shape_and_mode, 2 * N_SHAPES);
    test_add(suite, "ranks", equals_reference_at_every_rank, 2 * N_RANKS);
    test_add(suite, "values", equals_reference_with_every_kind_of_value, 10);
    test_add(suite, "highest", highest_ranks_work, 4);
    test_add(suite, "wide", wide_sums_equal_reference, 2 * N_RANKS);
    test_add(suite, "large", equals_simple_kernel, 3);
    return test_run_suite(suite, CK_NOFORK);
}
