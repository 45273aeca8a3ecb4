/* SPDX-License-Identifier: BSD-3-Clause */
/* The norm of a tensor whose cells hold several nonzeros is that of their sums, for any shards,
 * threads, ranks and held-out cells; and a norm that is not that of the cells ends a run. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stream/cells_norm.h"
#include "tests/build/build_case.h"
#include "tests/mpi/comm_threads.h"
#include "tests/cpd/run_cp.h"
#include "tests/support/run_suite.h"
#include "tests/support/support.h"
#include "tests/format/tsh_writer.h"

static const struct {
    uint64_t dim[4], n;
    uint32_t order;
} cases[] = {
    { { 30, 40, 5 },
      1 << 17,
      3 }, /* some twenty nonzeros a cell; cells of small indices hold thousands */
    { { 1, 1 }, 1 << 16, 2 }, /* one cell, which takes all shards */
    { { 2, 1, 1, 1 }, 1 << 15, 4 },
    { { 50, 60, 70 }, 1 << 12, 3 }, /* few cells hold two */
};

/* Cell after cell, zeros left out. */
static struct ts_cells_squares naive(struct list *l, const struct ts_hold_out *h)
{
    struct ts_cells_squares ret = { 0 };
    uint64_t i = 0;
    list_sort(l);
    while (i < l->n) {
        const uint64_t *index = l->index + l->perm[i] * l->order;
        uint64_t hash = ts_hold_out_begin(h), listed = 0;
        double sum = 0;
        for (; i < l->n &&
               memcmp(index, l->index + l->perm[i] * l->order, l->order * sizeof *index) == 0;
             i++) {
            sum += l->value[l->perm[i]];
            listed += l->value[l->perm[i]] != 0;
        }
        for (uint32_t m = 0; m < l->order; m++)
            hash = ts_hold_out_add(hash, index[m]);
        ret.n += listed > 0;
        if (h->share > 0 && ts_hold_out_held(h, hash))
            ret.held += sum * sum;
        else
            ret.kept += sum * sum;
    }
    return ret;
}

struct rank {
    struct ts_cells_conf conf;
    struct ts_cells_squares ret;
    int rc;
    struct ts_err err;
};

static void *sum_rank(void *arg)
{
    struct rank *r = arg;
    r->rc = ts_cells_squares(&r->conf, &r->ret, &r->err);
    return NULL;
}

/* By n ranks, of which each has a third of the shards at least where `parts`; all get the same. */
static struct rank by_ranks(const struct ts_tensor *t, const struct ts_hold_out *h, uint32_t n,
                            int parts)
{
    struct test_comm comm[TEST_COMM_MOST] = { 0 };
    struct test_comm_group *group = test_comm_new(n, comm);
    struct ts_tensor part[TEST_COMM_MOST];
    struct rank rank[TEST_COMM_MOST] = { 0 };
    pthread_t thread[TEST_COMM_MOST];
    const uint64_t shards = t->mode[0].disk.n_shards;
    for (uint32_t r = 0; r < n; r++) {
        part[r] = *t;
        part[r].part.n = parts ? n : 0;
        /* 2: the first is nowhere */
        part[r].part.first[0] = parts == 2 && r == 0 ? 1 : shards * r / n;
        part[r].part.end[0] = r + 1 == n ? shards : shards * (r + 1) / n + (shards > n);
        rank[r].conf = (struct ts_cells_conf){
            .tensor = &part[r], .hold_out = h, .threads = 2, .comm = &comm[r].comm
        };
        ck_assert_int_eq(pthread_create(&thread[r], NULL, sum_rank, &rank[r]), 0);
    }
    for (uint32_t r = 0; r < n; r++)
        ck_assert_int_eq(pthread_join(thread[r], NULL), 0);
    for (uint32_t r = 1; r < n; r++) {
        ck_assert_int_eq(rank[r].rc, rank[0].rc);
        ck_assert_int_eq(memcmp(&rank[r].ret, &rank[0].ret, sizeof rank[r].ret), 0);
    }
    test_comm_free(group);
    return rank[0];
}

/* Buffers of this size that were asked for; the linker takes calls of the first for the second. */
static _Atomic uint64_t n_buffers, buffer_bytes;
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    n_buffers += size == buffer_bytes;
    return __real_aligned_alloc(alignment, size);
}

/* As many shards are in memory as `bytes` allow, and one at least; the sums are the same. */
START_TEST(memory_bounds_shards)
{
    static const uint64_t dim[3] = { 300, 200, 100 };
    struct list l = list_draw(3, 3, dim, 200000);
    struct ts_build_options o = options(out);
    struct ts_cells_squares sums[3];
    struct ts_tensor *t;
    uint64_t raw;
    list_write(&l, 0);
    o.duplicates = TS_DUPLICATES_KEEP;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_msg(ts_tensor_open(out, &t, &err) == 0, "%s", err.text);
    raw = ts_tensor_raw_bytes(t);
    ck_assert_uint_gt(t->mode[0].disk.n_shards, 4);
    for (uint64_t k = 0; k < 3; k++) { /* 1 byte; two shards and what is held of each; no limit */
        const struct ts_cells_conf conf = { .tensor = t,
                                            .threads = 4,
                                            .bytes = k == 0 ? 1
                                                     : k == 1
                                                         ? 2 * raw + 400 * t->mode[0].disk.n_shards
                                                         : 0 };
        buffer_bytes = raw;
        n_buffers = 0;
        ck_assert_msg(ts_cells_squares(&conf, &sums[k], &err) == 0, "%s", err.text);
        ck_assert_uint_ge(n_buffers, 1);
        ck_assert_uint_le(n_buffers, k == 0 ? 1 : k == 1 ? 2 : 4);
        ck_assert_int_eq(memcmp(&sums[k], &sums[0], sizeof sums[0]), 0);
    }
    buffer_bytes = 0;
    ts_tensor_close(t);
    list_free(&l);
}
END_TEST

START_TEST(squares_are_those_of_sums) /* values are whole: sums are exact */
{
    static const struct ts_hold_out some[2] = { { 0 }, { .share = 0.3, .seed = 5 } };
    const uint32_t order = cases[_i].order;
    struct list l = list_draw((uint64_t)_i, order, cases[_i].dim, cases[_i].n);
    struct ts_build_options o = options(out);
    struct ts_tensor *t;
    double listed = 0;
    list_write(&l, 0);
    o.duplicates = TS_DUPLICATES_KEEP;
    for (uint32_t m = 0; m < order; m++)
        o.dim[m] = cases[_i].dim[m];
    o.n_dims = order;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_msg(ts_tensor_open(out, &t, &err) == 0, "%s", err.text);
    for (int h = 0; h < 2; h++) {
        const struct ts_cells_squares want = naive(&l, &some[h]);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            const struct ts_cells_conf conf = { .tensor = t,
                                                .hold_out = &some[h],
                                                .threads = threads };
            struct ts_cells_squares got;
            ck_assert_msg(ts_cells_squares(&conf, &got, &err) == 0, "%s", err.text);
            ck_assert_double_eq(got.kept, want.kept);
            ck_assert_double_eq(got.held, want.held);
            ck_assert_uint_eq(got.n, want.n);
        }
        for (uint32_t n = 2; n <= 3; n++)
            for (int parts = 0; parts < 2; parts++) {
                const struct rank got = by_ranks(t, &some[h], n, parts);
                ck_assert_msg(got.rc == 0, "%s", got.err.text);
                ck_assert_double_eq(got.ret.kept, want.kept);
                ck_assert_double_eq(got.ret.held, want.held);
            }
        free(l.perm);
        l.perm = NULL;
    }
    if (t->mode[0].disk.n_shards > 3) {
        const struct rank got = by_ranks(t, &some[0], 2, 2);
        ck_assert_int_eq(got.rc, TS_EFORMAT);
        ck_assert_ptr_nonnull(strstr(got.err.text, "shard 0 of mode 1 is in no part"));
    }
    {
        const struct ts_cells_conf conf = { .tensor = t, .threads = 2 };
        struct ts_cells_squares sums;
        for (uint64_t i = 0; i < l.n; i++)
            listed += l.value[i] * l.value[i];
        ck_assert_int_eq(ts_cells_squares(&conf, &sums, &err), 0);
        ck_assert_double_eq_tol(ts_tensor_listed_norm(t), sqrt(listed), 1e-12 * sqrt(listed));
        for (int again = 0; again < 2; again++) {
            ck_assert_int_eq(ts_cells_norm(&conf, &err), 0);
            ck_assert_double_eq(t->header.norm, sqrt(sums.kept));
            ck_assert_double_eq_tol(ts_tensor_listed_norm(t), sqrt(listed), 1e-12 * sqrt(listed));
        }
    }
    ts_tensor_close(t);
    list_free(&l);
}
END_TEST

/* Cells that hold four nonzeros in a tensor that says it has none such: as if its norm were
 * damaged. */
START_TEST(a_norm_that_is_not_the_cells_ends_a_run)
{
    static const uint64_t dim[3] = { 6, 5, 4 };
    const struct test_tsh_conf write = { .kind = TS_VALUE_INT };
    const struct ts_spec poisson = { .poisson = 1 };
    const struct ts_spec l2 = { .mode = { { .l2 = 1e-3 }, { .l2 = 1e-3 }, { .l2 = 1e-3 } } };
    const struct ts_spec *spec[3] = { NULL, &l2, &poisson };
    struct test_coo x = test_coo_random(3, 3, dim, 40, 5, 0);
    for (int twice = 0; twice < 2; twice++) {
        for (uint32_t m = 0; m < 3; m++) {
            x.idx[m] = realloc(x.idx[m], 2 * x.nnz * sizeof *x.idx[m]);
            memcpy(x.idx[m] + x.nnz, x.idx[m], x.nnz * sizeof *x.idx[m]);
        }
        x.val = realloc(x.val, 2 * x.nnz * sizeof *x.val);
        memcpy(x.val + x.nnz, x.val, x.nnz * sizeof *x.val);
        x.nnz *= 2;
    }
    test_tsh_write(out, &x, &write);
    for (int precision = 0; precision < 2; precision++)
        for (int k = 0; k < 3; k++) {
            const struct test_cp_conf conf = { .rank = 3,
                                               .iters = 20,
                                               .seed = 2,
                                               .inner = 5,
                                               .precision = precision ? TS_FLOAT64 : TS_FLOAT32,
                                               .spec = spec[k] };
            struct test_cp a = test_cp_run(out, &conf);
            ck_assert_msg(a.rc == TS_EFORMAT, "%d, %d: %d: %s", precision, k, a.rc, a.err.text);
            ck_assert_ptr_nonnull(strstr(a.err.text, "its norm"));
            ck_assert_ptr_nonnull(strstr(a.err.text, "and its cells disagree"));
            test_cp_free(&a);
        }
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cells_norm");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, squares_are_those_of_sums, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tc, memory_bounds_shards);
    tcase_add_test(tc, a_norm_that_is_not_the_cells_ends_a_run);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
