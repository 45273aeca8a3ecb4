/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorted nonzeros of a tensor are those of a copy, sorted the obvious way: of every order, by any
 * order of modes, all at once, slices at a time and through runs; and what the index says wrongly
 * is found. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "build/sort/reorder.h"
#include "format/shard.h"
#include "tests/build/build_case.h"
#include "tests/support/run_suite.h"

#define DRAWS (1u << 13)

/* Nonzeros as rows in the order `by`, then the two codes. */
struct sequence {
    uint32_t order, n_codes;
    uint64_t n;
    uint32_t *at; /* n x (order + 2) */
};

static size_t entry_bytes(const struct sequence *s)
{
    return (s->order + 2) * sizeof *s->at;
}

static void add_block(struct sequence *s, const struct ts_block *b, const uint32_t field_of[])
{
    for (uint32_t p = 0; p < b->n; p++) {
        uint32_t *to = s->at + s->n++ * (s->order + 2);
        for (uint32_t l = 0; l < s->order; l++)
            to[field_of[l]] = b->level[l][p];
        to[s->order] = s->n_codes > 0 ? b->code[0][p] : 0;
        to[s->order + 1] = s->n_codes > 1 ? b->code[1][p] : 0;
    }
}

static struct sequence sequence_new(const struct ts_tensor *t)
{
    struct sequence s = { .order = t->order, .n_codes = ts_value_codes(t->header.value_kind) };
    s.at = malloc((t->nnz + 1) * entry_bytes(&s));
    ck_assert_ptr_nonnull(s.at);
    return s;
}

/* The copy of a mode as it is stored, its fields in the order `by`. */
static struct sequence read_copy(const struct ts_tensor *t, uint32_t mode, const uint8_t by[])
{
    struct sequence s = sequence_new(t);
    void *raw = aligned_alloc(TS_PAGE, ts_tensor_raw_bytes(t));
    static struct ts_block block;
    uint32_t field_of[TS_MAX_ORDER];
    for (uint32_t l = 0; l < t->order; l++)
        for (uint32_t f = 0; f < t->order; f++)
            if (by[f] == t->mode[mode].disk.level[l])
                field_of[l] = f;
    for (uint64_t i = 0; i < t->mode[mode].disk.n_shards; i++) {
        ck_assert_msg(ts_tensor_read_shard(t, mode, i, raw, &err) == 0, "%s", err.text);
        for (uint32_t b = 0; b < t->mode[mode].shard[i].n_blocks; b++) {
            ck_assert_int_eq(ts_tensor_block(t, mode, i, raw, b, &block, &err), 0);
            add_block(&s, &block, field_of);
        }
    }
    free(raw);
    return s;
}

static uint32_t entry_length;

static int compare(const void *pa, const void *pb)
{
    const uint32_t *a = pa, *b = pb;
    for (uint32_t i = 0; i < entry_length; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static int take(void *arg, const struct ts_record_layout *layout, const uint64_t *rec, uint64_t n,
                struct ts_err *e)
{
    static const uint32_t same[TS_MAX_ORDER] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    static struct ts_block block;
    (void)e;
    ck_assert_uint_gt(n, 0);
    for (uint64_t at = 0; at < n; at += TS_BLOCK_NNZ) {
        const uint64_t left = n - at;
        ts_reorder_block(layout, rec + at * layout->words,
                         left < TS_BLOCK_NNZ ? (uint32_t)left : TS_BLOCK_NNZ, &block);
        add_block(arg, &block, same);
    }
    return 0;
}

static struct ts_reorder_conf conf_of(const struct ts_tensor *t, struct sequence *to)
{
    struct ts_reorder_conf conf = {
        .tensor = t, .memory = 32 << 20, .threads = 2, .tmp = tmp, .fn = take, .arg = to
    };
    for (uint32_t m = 0; m < t->order; m++)
        conf.by[m] = (uint8_t)m;
    return conf;
}

static void assert_reorders(const struct ts_tensor *t, const uint8_t by[], uint64_t area_words)
{
    struct sequence want = read_copy(t, by[t->order - 1], by), got = sequence_new(t);
    struct ts_reorder_conf conf = conf_of(t, &got);
    memcpy(conf.by, by, t->order);
    conf.area_words = area_words;
    entry_length = t->order + 2;
    qsort(want.at, want.n, entry_bytes(&want), compare);
    ck_assert_msg(ts_reorder(&conf, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(got.n, t->nnz);
    ck_assert(memcmp(got.at, want.at, got.n * entry_bytes(&got)) == 0);
    free(want.at);
    free(got.at);
}

static struct ts_tensor *build_draws(uint32_t order, uint32_t value_bytes, const uint64_t *dim)
{
    struct list l = list_draw(order, order, dim, DRAWS);
    struct ts_build_options o = options(out);
    struct ts_tensor *t = NULL;
    for (uint64_t i = 0; i < l.n && value_bytes == 8; i++)
        l.value[i] += ts_unit(ts_mix(i));
    list_write(&l, 0);
    list_free(&l);
    o.force = 1;
    o.duplicates = TS_DUPLICATES_KEEP;
    o.value_bytes = value_bytes;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_msg(ts_tensor_open(out, &t, &err) == 0, "%s", err.text);
    return t;
}

START_TEST(sorts_by_any_modes) /* loop test: _i is the order */
{
    static const uint64_t dim[] = { 300, 7, 40, 1, 5000, 12, 90, 3 };
    const uint32_t order = (uint32_t)_i;
    for (uint32_t value_bytes = 4; value_bytes <= 8; value_bytes += 4) {
        struct ts_tensor *t = build_draws(order, value_bytes, dim);
        for (uint32_t k = 0; k < 3; k++) {
            uint8_t by[TS_MAX_ORDER];
            for (uint32_t m = 0; m < order; m++)
                by[m] = (uint8_t)m;
            for (uint32_t m = order - 1; m > 0; m--) {
                const uint32_t other_one = (uint32_t)(ts_mix(100 * k + m) % (m + 1));
                const uint8_t kept = by[m];
                by[m] = by[other_one];
                by[other_one] = kept;
            }
            assert_reorders(t, by, 0);
            assert_reorders(t, by, 16384); /* where slices are small: some at a time */
            assert_reorders(t, by, 4096);
        }
        ts_tensor_close(t);
    }
}
END_TEST

START_TEST(a_sorted_copy_is_known) /* and has equal cells in the same order */
{
    static const uint64_t dim[] = { 30, 20, 10 };
    struct ts_tensor *t = build_draws(3, 4, dim);
    for (uint32_t m = 0; m < 3; m++) {
        uint8_t by[TS_MAX_ORDER] = { 0 };
        struct sequence got = sequence_new(t), want;
        struct ts_reorder_conf conf = conf_of(t, &got);
        memcpy(by, t->mode[m].disk.level, 3);
        ck_assert(ts_reorder_sorted(t, by));
        memcpy(conf.by, by, 3);
        ck_assert_int_eq(ts_reorder(&conf, &err), 0);
        want = read_copy(t, m, by);
        ck_assert(memcmp(got.at, want.at, got.n * entry_bytes(&got)) == 0);
        by[1] = t->mode[m].disk.level[2];
        by[2] = t->mode[m].disk.level[1];
        ck_assert(!ts_reorder_sorted(t, by));
        free(got.at);
        free(want.at);
    }
    ts_tensor_close(t);
}
END_TEST

START_TEST(a_lie_of_the_index_is_found)
{
    static const uint64_t dim[] = { 2, 20, 10 };
    struct ts_tensor *t = build_draws(3, 4, dim);
    struct sequence got = sequence_new(t);
    struct ts_reorder_conf conf = conf_of(t, &got);
    const double most = t->header.value_max;
    conf.area_words = 2048;
    t->mode[0].disk.largest_slice = 10;
    ck_assert_int_eq(ts_reorder(&conf, &err), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "a slice has more than the 10 nonzeros"));
    conf.area_words = 0;
    got.n = 0;
    ck_assert_int_eq(t->header.value_kind, TS_VALUE_INT);
    t->header.value_max = t->header.value_base;
    ck_assert_int_eq(ts_reorder(&conf, &err), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "beyond the largest"));
    t->header.value_max = most;
    free(got.at);
    ts_tensor_close(t);
}
END_TEST

START_TEST(a_wish_to_stop_ends_it)
{
    static const uint64_t dim[] = { 2, 20, 10 };
    struct ts_tensor *t = build_draws(3, 4, dim);
    struct sequence got = sequence_new(t);
    struct ts_reorder_conf conf = conf_of(t, &got);
    const volatile sig_atomic_t stop = 15;
    conf.stop = &stop;
    ck_assert_int_eq(ts_reorder(&conf, &err), TS_ESTOP);
    ck_assert_uint_eq(got.n, 0);
    free(got.at);
    ts_tensor_close(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reorder");
    TCase *tc = tcase_create("reorder");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, sorts_by_any_modes, 2, 9);
    tcase_add_test(tc, a_sorted_copy_is_known);
    tcase_add_test(tc, a_lie_of_the_index_is_found);
    tcase_add_test(tc, a_wish_to_stop_ends_it);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
