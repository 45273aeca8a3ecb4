/* SPDX-License-Identifier: BSD-3-Clause */
/* Random tensors, the obvious MTTKRP, and shards packed in memory. */
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static uint64_t draw(uint64_t *state)
{
    return ts_mix((*state)++);
}

/* qsort has no context argument; tests are single-threaded */
static const struct test_coo *sorting;
static const uint8_t *sorting_level;

static int compare(const void *pa, const void *pb)
{
    const uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    for (uint32_t l = 0; l < sorting->order; l++) {
        const uint32_t *idx = sorting->idx[sorting_level[l]];
        if (idx[a] != idx[b])
            return idx[a] < idx[b] ? -1 : 1;
    }
    return 0;
}

/* Reorders by perm (n entries). */
static void permute(struct test_coo *x, const uint64_t *perm, uint64_t n)
{
    uint32_t *u = malloc(n * sizeof *u + 1);
    double *v = malloc(n * sizeof *v + 1);
    for (uint32_t m = 0; m < x->order; m++) {
        for (uint64_t i = 0; i < n; i++)
            u[i] = x->idx[m][perm[i]];
        memcpy(x->idx[m], u, n * sizeof *u);
    }
    for (uint64_t i = 0; i < n; i++)
        v[i] = x->val[perm[i]];
    memcpy(x->val, v, n * sizeof *v);
    for (uint64_t i = 0; x->weight != NULL && i < n; i++)
        v[i] = x->weight[perm[i]];
    for (uint64_t i = 0; x->weight != NULL && i < n; i++)
        x->weight[i] = (float)v[i];
    free(u);
    free(v);
}

void test_coo_sort(struct test_coo *x, const uint8_t *level)
{
    uint64_t *perm = malloc(x->nnz * sizeof *perm + 1);
    for (uint64_t i = 0; i < x->nnz; i++)
        perm[i] = i;
    sorting = x;
    sorting_level = level;
    qsort(perm, x->nnz, sizeof *perm, compare);
    permute(x, perm, x->nnz);
    free(perm);
}

struct test_coo test_coo_random(uint64_t seed, uint32_t order, const uint64_t *dim, uint64_t nnz,
                                uint32_t value_range, double skew)
{
    uint8_t level[TS_MAX_ORDER];
    uint64_t state = ts_mix(seed), kept = 0;
    struct test_coo x = { .order = order, .nnz = nnz };
    for (uint32_t m = 0; m < order; m++) {
        level[m] = (uint8_t)m;
        x.idx[m] = malloc(nnz * sizeof(uint32_t) + 1);
        x.dim[m] = dim[m];
        for (uint64_t i = 0; i < nnz; i++) {
            const double u = pow(ts_unit(draw(&state)), 1 + skew);
            x.idx[m][i] = i < dim[m] ? (uint32_t)i : (uint32_t)(u * (double)dim[m]);
        }
        for (uint64_t i = 1; i < nnz && m > 0; i++) { /* shuffle, so that slices do not coincide */
            const uint64_t j = draw(&state) % (i + 1);
            const uint32_t t = x.idx[m][i];
            x.idx[m][i] = x.idx[m][j];
            x.idx[m][j] = t;
        }
    }
    x.val = malloc(nnz * sizeof(double) + 1);
    for (uint64_t i = 0; i < nnz; i++)
        x.val[i] = value_range > 0 ? 1 + (double)(draw(&state) % value_range)
                                   : (float)ts_unit(draw(&state));
    test_coo_sort(&x, level);
    for (uint64_t i = 0; i < nnz; i++) { /* drop duplicates: their slices keep the first one */
        int same = kept > 0;
        for (uint32_t m = 0; same && m < order; m++)
            same = x.idx[m][i] == x.idx[m][kept - 1];
        if (same)
            continue;
        for (uint32_t m = 0; m < order; m++)
            x.idx[m][kept] = x.idx[m][i];
        x.val[kept++] = x.val[i];
    }
    x.nnz = kept;
    for (uint32_t m = 0; m < order; m++) { /* squeeze what few nonzeros left empty */
        uint32_t *row = calloc(dim[m] + 1, sizeof *row), next = 0;
        for (uint64_t i = 0; i < kept; i++)
            row[x.idx[m][i]] = 1;
        for (uint64_t i = 0; i < dim[m]; i++)
            row[i] = row[i] ? next++ : 0;
        for (uint64_t i = 0; i < kept; i++)
            x.idx[m][i] = row[x.idx[m][i]];
        x.dim[m] = next;
        free(row);
    }
    return x;
}

void test_coo_free(struct test_coo *x)
{
    for (uint32_t m = 0; m < x->order; m++)
        free(x->idx[m]);
    free(x->val);
    free(x->weight);
    memset(x, 0, sizeof *x);
}

void test_coo_weigh(struct test_coo *x, uint64_t seed, int one)
{
    uint64_t state = ts_mix(seed);
    x->weight = malloc(x->nnz * sizeof *x->weight + 1);
    for (uint64_t i = 0; i < x->nnz; i++) {
        const uint64_t kind = draw(&state) % 4;
        const float u = (float)ts_unit(draw(&state));
        x->weight[i] = one ? 1 : kind == 0 ? 0 : kind == 1 ? 2 : 3 * u;
    }
}

void test_coo_drop_weightless(struct test_coo *x)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < x->nnz; i++) {
        if (x->weight[i] == 0)
            continue;
        for (uint32_t m = 0; m < x->order; m++)
            x->idx[m][kept] = x->idx[m][i];
        x->val[kept++] = x->val[i];
    }
    x->nnz = kept;
    free(x->weight);
    x->weight = NULL;
}

void *test_coo_pack(const struct test_coo *x, const uint8_t *level, uint32_t kind,
                    struct ts_disk_shard *entry)
{
    const uint32_t n_codes = ts_value_codes(kind), nnz = (uint32_t)x->nnz;
    const uint32_t *column[TS_MAX_ORDER], *code[2];
    uint32_t *codes[2] = { malloc(4 * (size_t)nnz), malloc(4 * (size_t)nnz) };
    const size_t bound = ts_shard_bound(x->order, n_codes, nnz);
    void *raw = aligned_alloc(64, (bound + TS_SHARD_SLACK + 63) / 64 * 64);
    for (uint32_t l = 0; l < x->order; l++)
        column[l] = x->idx[level[l]];
    for (uint32_t i = 0; i < nnz; i++) {
        const float f = (float)x->val[i];
        uint64_t bits;
        memcpy(&bits, &x->val[i], 8);
        if (kind == TS_VALUE_INT)
            codes[0][i] = (uint32_t)x->val[i];
        else if (kind == TS_VALUE_F32)
            memcpy(&codes[0][i], &f, 4);
        else {
            codes[0][i] = (uint32_t)(bits >> 32);
            codes[1][i] = (uint32_t)bits;
        }
    }
    code[0] = codes[0];
    code[1] = codes[1];
    ts_shard_pack(x->order, n_codes, nnz, column, code, raw, entry);
    free(codes[0]);
    free(codes[1]);
    return raw;
}

void test_mttkrp(const struct test_coo *x, uint32_t mode, uint32_t rank, double *const factor[],
                 double *out)
{
    memset(out, 0, x->dim[mode] * rank * sizeof *out);
    for (uint64_t i = 0; i < x->nnz; i++)
        for (uint32_t r = 0; r < rank; r++) {
            double term = x->val[i];
            for (uint32_t m = 0; m < x->order; m++)
                if (m != mode)
                    term *= factor[m][(uint64_t)x->idx[m][i] * rank + r];
            out[(uint64_t)x->idx[mode][i] * rank + r] += term;
        }
}
