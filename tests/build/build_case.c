/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders, lists of nonzeros and their text, for the tests of builds. */
#include "tests/build/build_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "format/tensor.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

char *tmp, text[4096], out[4096], other[4096];
struct ts_build_report report;
struct ts_err err;

void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(text, sizeof text, "%s/x.tns", tmp);
    snprintf(out, sizeof out, "%s/x.tsh", tmp);
    snprintf(other, sizeof other, "%s/y.tsh", tmp);
}

void teardown(void)
{
    test_tsh_remove(out);
    test_tsh_remove(other);
    test_tsh_remove(tmp);
    free(tmp);
}

struct ts_build_options options(const char *to)
{
    struct ts_build_options o = { .out = to,
                                  .memory = 64 << 20,
                                  .threads = 2,
                                  .base = 1,
                                  .shard_bytes = 64 << 10,
                                  .value_bytes = 4 };
    return o;
}

int build(const struct ts_build_options *o)
{
    const char *path = text;
    return ts_build_paths(o, &path, 1, &report, &err);
}

static const struct list *sorting;

static int compare(const void *pa, const void *pb)
{
    const uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    const struct list *l = sorting;
    for (uint32_t m = 0; m < l->order; m++) {
        const uint64_t x = l->index[a * l->order + m], y = l->index[b * l->order + m];
        if (x != y)
            return x < y ? -1 : 1;
    }
    return l->value[a] < l->value[b] ? -1 : l->value[a] > l->value[b];
}

void list_sort(struct list *l)
{
    l->perm = malloc(l->n * sizeof *l->perm + 1);
    for (uint64_t i = 0; i < l->n; i++)
        l->perm[i] = i;
    sorting = l;
    qsort(l->perm, l->n, sizeof *l->perm, compare);
}

struct list list_new(uint32_t order, uint64_t n)
{
    struct list l = { .order = order, .n = n };
    l.index = malloc(n * order * sizeof *l.index + 1);
    l.value = malloc(n * sizeof *l.value + 1);
    return l;
}

void list_free(struct list *l)
{
    free(l->index);
    free(l->value);
    free(l->perm);
}

struct list list_draw(uint64_t seed, uint32_t order, const uint64_t *dim, uint64_t n)
{
    struct list l = list_new(order, n);
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t m = 0; m < order; m++) {
            const double u = ts_unit(ts_mix(seed + i * 20 + m));
            l.index[i * order + m] = (uint64_t)(u * u * (double)dim[m]);
        }
        l.value[i] = (double)(ts_mix(seed + i * 20 + 19) % 7) - 3;
    }
    return l;
}

void list_write(const struct list *l, uint64_t key)
{
    FILE *f = fopen(text, "w");
    ck_assert_ptr_nonnull(f);
    for (uint64_t i = 0; i < l->n; i++) {
        const uint64_t at = key == 0 ? i : (i * (2 * key + 1)) % l->n; /* n a power of two */
        for (uint32_t m = 0; m < l->order; m++)
            fprintf(f, "%llu ", (unsigned long long)l->index[at * l->order + m] + 1);
        fprintf(f, "%.17g\n", l->value[at]);
    }
    ck_assert_int_eq(fclose(f), 0);
}

struct list list_merge(struct list *l)
{
    struct list r = list_new(l->order, l->n);
    list_sort(l);
    r.n = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        const uint64_t *at = l->index + l->perm[i] * l->order;
        const size_t bytes = l->order * sizeof *at;
        if (r.n > 0 && memcmp(r.index + (r.n - 1) * r.order, at, bytes) == 0) {
            r.value[r.n - 1] += l->value[l->perm[i]];
            continue;
        }
        r.n -= r.n > 0 && r.value[r.n - 1] == 0;
        memcpy(r.index + r.n * r.order, at, bytes);
        r.value[r.n++] = l->value[l->perm[i]];
    }
    r.n -= r.n > 0 && r.value[r.n - 1] == 0;
    list_sort(&r);
    return r;
}

/* All nonzeros of a mode copy, and that they are sorted as its levels say. */
static struct list read_copy(const struct ts_tensor *t, uint32_t mode)
{
    const struct ts_mode *m = &t->mode[mode];
    const uint32_t n_codes = ts_value_codes(t->header.value_kind);
    const size_t room = (t->header.max_shard_bytes + TS_SHARD_SLACK + TS_PAGE) / TS_PAGE * TS_PAGE;
    uint64_t *rows[TS_MAX_ORDER], n = 0;
    struct list l = list_new(t->order, t->nnz);
    void *raw = aligned_alloc(TS_PAGE, room + TS_PAGE);
    for (uint32_t k = 0; k < t->order; k++)
        ck_assert_msg(ts_tensor_rows(t, k, &rows[k], &err) == 0, "%s", err.text);
    for (uint64_t s = 0; s < m->disk.n_shards; s++) {
        ck_assert_msg(ts_tensor_read_shard(t, mode, s, raw, &err) == 0, "%s", err.text);
        for (uint32_t b = 0; b < m->shard[s].n_blocks; b++) {
            const struct ts_block_at at = ts_shard_block(&m->shard[s], raw, b);
            struct ts_block_parts parts;
            static struct ts_block block;
            ck_assert_int_eq(
                ts_block_parse(at.word, at.n_words, t->order, at.nnz, n_codes, &parts, &err), 0);
            ts_block_decode(&parts, at.row, &block);
            for (uint32_t p = 0; p < block.n; p++, n++) {
                ck_assert_uint_lt(n, t->nnz);
                for (uint32_t level = 0; level < t->order; level++) {
                    const uint32_t k = m->disk.level[level], row = block.level[level][p];
                    l.index[n * t->order + k] = rows[k] == NULL ? row : rows[k][row];
                }
                l.value[n] = ts_tensor_value(t, block.code[0][p], block.code[1][p]);
            }
        }
    }
    ck_assert_uint_eq(n, t->nnz);
    for (uint32_t k = 0; k < t->order; k++)
        free(rows[k]);
    free(raw);
    list_sort(&l);
    return l;
}

static void assert_same(const struct list *a, const struct list *b)
{
    ck_assert_uint_eq(a->n, b->n);
    for (uint64_t i = 0; i < a->n; i++) {
        const uint64_t x = a->perm[i], y = b->perm[i];
        ck_assert(memcmp(a->index + x * a->order, b->index + y * b->order,
                         a->order * sizeof *a->index) == 0);
        ck_assert_double_eq(a->value[x], b->value[y]);
    }
}

void assert_holds(const char *path, const struct list *want)
{
    struct ts_tensor *t;
    double squares = 0;
    ck_assert_msg(ts_tensor_open(path, &t, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(t->nnz, want->n);
    for (uint32_t m = 0; m < t->order; m++) {
        struct list got = read_copy(t, m);
        assert_same(&got, want);
        list_free(&got);
    }
    for (uint64_t i = 0; i < want->n; i++)
        squares += want->value[i] * want->value[i];
    ck_assert_double_eq_tol(t->header.norm, sqrt(squares), 1e-12 * sqrt(squares));
    ts_tensor_close(t);
}

/* Whether a file of both directories has the same bytes (or is in neither). */
static int same_file(const char *name)
{
    char a[4200], b[4200];
    FILE *f, *g;
    int x = 0, y = 0;
    snprintf(a, sizeof a, "%s/%s", out, name);
    snprintf(b, sizeof b, "%s/%s", other, name);
    f = fopen(a, "r");
    g = fopen(b, "r");
    if (f == NULL || g == NULL)
        return f == g;
    while (x == y && x != EOF) {
        x = getc(f);
        y = getc(g);
    }
    fclose(f);
    fclose(g);
    return x == y;
}

void assert_same_bytes(uint32_t order)
{
    static const char *const kinds[] = { "shards", "rows", "labels" };
    ck_assert(same_file("index"));
    for (uint32_t m = 1; m <= order; m++)
        for (int k = 0; k < 3; k++) {
            char name[64];
            snprintf(name, sizeof name, "mode%u.%s", m, kinds[k]);
            ck_assert_msg(same_file(name), "%s", name);
        }
}

static struct list large(void)
{
    const uint64_t dim[] = { 3000, 4000, 5000 };
    return list_draw(2, 3, dim, 1 << 18);
}

void write_large(void)
{
    struct list draws = large();
    list_write(&draws, 0);
    list_free(&draws);
}

void assert_holds_large(const char *path)
{
    struct list draws = large(), want = list_merge(&draws);
    assert_holds(path, &want);
    list_free(&draws);
    list_free(&want);
}

int exists(const char *path, const char *end)
{
    char name[4200];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, end);
    return stat(name, &st) == 0;
}

void write_text(const char *lines)
{
    FILE *f = fopen(text, "w");
    fputs(lines, f);
    ck_assert_int_eq(fclose(f), 0);
}
