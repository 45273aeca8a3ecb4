/* SPDX-License-Identifier: BSD-3-Clause */
/* CP decompositions from every nonzero, for tests. */
#include "tests/slow_cp.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/symm.h"

void test_slow_new(struct test_slow *s, uint64_t seed)
{
    const struct test_coo *x = s->x;
    ck_assert_uint_le(s->rank, TEST_SLOW_RANK);
    s->size2 = 0;
    for (uint64_t n = 0; n < x->nnz; n++)
        s->size2 += x->val[n] * x->val[n];
    for (uint32_t r = 0; r < s->rank; r++)
        s->weight[r] = 1;
    s->balanced = ts_constraint_penalty(s->c, x->order);
    for (uint32_t m = 0; m < x->order; m++) {
        s->a[m] = malloc(x->dim[m] * s->rank * sizeof(double));
        for (uint64_t i = 0; i < x->dim[m] * s->rank; i++)
            s->a[m][i] = ts_init_entry(seed, m, i / s->rank, (uint32_t)(i % s->rank));
    }
}

void test_slow_free(struct test_slow *s)
{
    for (uint32_t m = 0; m < s->x->order; m++)
        free(s->a[m]);
}

static double entry(const struct test_slow *s, uint64_t n, uint32_t skip, uint32_t r)
{
    double p = 1;
    for (uint32_t m = 0; m < s->x->order; m++)
        p *= m == skip ? 1 : s->a[m][s->x->idx[m][n] * s->rank + r];
    return p;
}

void test_slow_product(const struct test_slow *s, uint32_t mode, double *out)
{
    memset(out, 0, s->x->dim[mode] * s->rank * sizeof *out);
    for (uint64_t n = 0; n < s->x->nnz; n++)
        for (uint32_t r = 0; r < s->rank; r++)
            out[s->x->idx[mode][n] * s->rank + r] += s->x->val[n] * entry(s, n, mode, r);
}

void test_slow_grams(const struct test_slow *s, uint32_t skip, double *v)
{
    for (uint32_t i = 0; i < s->rank; i++)
        for (uint32_t j = 0; j < s->rank; j++) {
            double p = 1;
            for (uint32_t m = 0; m < s->x->order; m++) {
                double g = 0;
                for (uint64_t k = 0; m != skip && k < s->x->dim[m]; k++)
                    g += s->a[m][k * s->rank + i] * s->a[m][k * s->rank + j];
                p *= m == skip ? 1 : g;
            }
            v[i * s->rank + j] = p;
        }
}

double test_slow_distance(const struct test_slow *s)
{
    double *v = malloc(s->rank * s->rank * sizeof *v), sum = s->size2;
    for (uint64_t n = 0; n < s->x->nnz; n++)
        for (uint32_t r = 0; r < s->rank; r++)
            sum -= 2 * s->x->val[n] * s->weight[r] * entry(s, n, TS_MAX_ORDER, r);
    test_slow_grams(s, TS_MAX_ORDER, v);
    for (uint32_t i = 0; i < s->rank; i++)
        for (uint32_t j = 0; j < s->rank; j++)
            sum += s->weight[i] * s->weight[j] * v[i * s->rank + j];
    free(v);
    return sum;
}

/* a := m pinv(v), v as it is for columns of length 1 */
static void solve(const struct test_slow *s, const double *m, double *v, uint64_t n, double *a)
{
    const uint32_t rank = s->rank;
    double *w = malloc(rank * rank * sizeof *w), length[TEST_SLOW_RANK];
    for (uint32_t r = 0; r < rank; r++)
        length[r] = v[r * rank + r] > 0 ? sqrt(v[r * rank + r]) : 1;
    for (uint32_t i = 0; i < rank * rank; i++)
        v[i] /= length[i / rank] * length[i % rank];
    ck_assert_int_eq(ts_symm_pinv(rank, v, TS_SYMM_CUT, NULL, w, NULL, NULL), 0);
    memset(a, 0, n * rank * sizeof *a);
    for (uint64_t i = 0; i < n * rank; i++)
        for (uint32_t k = 0; k < rank; k++)
            a[i] +=
                m[i / rank * rank + k] * w[k * rank + i % rank] / (length[k] * length[i % rank]);
    free(w);
}

void test_slow_solve(struct test_slow *s, uint32_t mode)
{
    const struct ts_constraint *c = &s->c[mode];
    const uint64_t n = s->x->dim[mode];
    const uint32_t rank = s->rank;
    double *m, *v;
    if (c->fixed)
        return;
    m = malloc(n * rank * sizeof *m);
    v = malloc(rank * rank * sizeof *v);
    test_slow_product(s, mode, m);
    test_slow_grams(s, mode, v);
    for (uint32_t r = 0; r < rank; r++)
        v[r * rank + r] += c->l2;
    solve(s, m, v, n, s->a[mode]);
    for (uint32_t r = 0; r < rank; r++) {
        double square = 0;
        for (uint64_t i = 0; i < n && !s->balanced; i++)
            square += s->a[mode][i * rank + r] * s->a[mode][i * rank + r];
        s->weight[r] = square > 0 ? exp2(rint(log2(sqrt(square)))) : 1;
        for (uint64_t i = 0; i < n; i++)
            s->a[mode][i * rank + r] /= s->weight[r];
    }
    free(m);
    free(v);
}

void test_slow_write(const struct test_slow *s, const struct test_tsh_conf *conf, const char *path)
{
    const uint64_t stretch = conf->stretch > 0 ? conf->stretch : 1;
    const uint64_t more = conf->stretch > 0 ? 1 : 0; /* one empty slice at the end */
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "ktensor\n%" PRIu32 "\n", s->x->order);
    for (uint32_t m = 0; m < s->x->order; m++)
        fprintf(f, "%" PRIu64 " ", s->x->dim[m] * stretch + more);
    fprintf(f, "\n%" PRIu32 "\n", s->rank);
    for (uint32_t r = 0; r < s->rank; r++)
        fprintf(f, "1 ");
    for (uint32_t m = 0; m < s->x->order; m++) {
        fprintf(f, "\nmatrix\n2\n%" PRIu64 " %" PRIu32 "\n", s->x->dim[m] * stretch + more,
                s->rank);
        for (uint64_t i = 0; i < s->x->dim[m] * stretch + more; i++) {
            const uint64_t row = i / stretch;
            const int used = row < s->x->dim[m] && test_tsh_index(conf, m, row) == i;
            for (uint32_t r = 0; r < s->rank; r++)
                fprintf(f, "%.17g%c",
                        used            ? s->a[m][row * s->rank + r]
                        : s->c[m].fixed ? 7.5
                                        : 0,
                        r + 1 == s->rank ? '\n' : ' ');
        }
    }
    ck_assert_int_eq(fclose(f), 0);
}
