/* Text becomes a tensor directory that holds the same nonzeros in every copy, and the same bytes
 * however it was built; and a build that fails leaves nothing. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "format/build.h"
#include "format/tensor.h"
#include "tests/run_suite.h"
#include "tests/tsh_writer.h"

static char *tmp, text[4096], out[4096], other[4096];
static struct ts_build_report report;
static struct ts_err err;

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(text, sizeof text, "%s/x.tns", tmp);
    snprintf(out, sizeof out, "%s/x.tsh", tmp);
    snprintf(other, sizeof other, "%s/y.tsh", tmp);
}

static void teardown(void)
{
    test_tsh_remove(out);
    test_tsh_remove(other);
    test_tsh_remove(tmp);
    free(tmp);
}

static struct ts_build_options options(const char *to)
{
    struct ts_build_options o = { .out = to, .memory = 64 << 20, .threads = 2, .base = 1,
                                  .shard_bytes = 64 << 10, .value_bytes = 4 };
    return o;
}

static int build(const struct ts_build_options *o)
{
    const char *path = text;
    return ts_build_text(o, &path, 1, &report, &err);
}

/* Stands in for the C library's: a file system that cannot exchange names. */
static int no_exchange;

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (no_exchange && flags != 0) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

/* ------------------------------------------------------------------ nonzeros as a list */

struct list {
    uint32_t order;
    uint64_t n;
    uint64_t *index; /* n x order */
    double *value;
    uint64_t *perm;  /* ascending */
};

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

static void sort_list(struct list *l)
{
    l->perm = malloc(l->n * sizeof *l->perm + 1);
    for (uint64_t i = 0; i < l->n; i++)
        l->perm[i] = i;
    sorting = l;
    qsort(l->perm, l->n, sizeof *l->perm, compare);
}

static struct list new_list(uint32_t order, uint64_t n)
{
    struct list l = { .order = order, .n = n };
    l.index = malloc(n * order * sizeof *l.index + 1);
    l.value = malloc(n * sizeof *l.value + 1);
    return l;
}

static void free_list(struct list *l)
{
    free(l->index);
    free(l->value);
    free(l->perm);
}

/* n draws, most of them small indices so that cells repeat; whole values -3..3, zero included. */
static struct list draw_list(uint64_t seed, uint32_t order, const uint64_t *dim, uint64_t n)
{
    struct list l = new_list(order, n);
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t m = 0; m < order; m++) {
            const double u = ts_unit(ts_mix(seed + i * 20 + m));
            l.index[i * order + m] = (uint64_t)(u * u * (double)dim[m]);
        }
        l.value[i] = (double)(ts_mix(seed + i * 20 + 19) % 7) - 3;
    }
    return l;
}

/* Writes the draws in the order of `key`: 0 as they are. */
static void write_list(const struct list *l, uint64_t key)
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

/* What the draws come to: sorted, merged, without zeros. */
static struct list merge_list(struct list *l)
{
    struct list r = new_list(l->order, l->n);
    sort_list(l);
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
    sort_list(&r);
    return r;
}

/* All nonzeros of a mode copy, and that they are sorted as its levels say. */
static struct list read_copy(const struct ts_tensor *t, uint32_t mode)
{
    const struct ts_mode *m = &t->mode[mode];
    const uint32_t n_codes = ts_value_codes(t->header.value_kind);
    const size_t room = (t->header.max_shard_bytes + TS_SHARD_SLACK + TS_PAGE) / TS_PAGE * TS_PAGE;
    uint64_t *rows[TS_MAX_ORDER], n = 0;
    struct list l = new_list(t->order, t->nnz);
    void *raw = aligned_alloc(TS_PAGE, room + TS_PAGE);
    for (uint32_t k = 0; k < t->order; k++)
        ck_assert_msg(ts_tensor_rows(t, k, &rows[k], &err) == 0, "%s", err.text);
    for (uint64_t s = 0; s < m->disk.n_shards; s++) {
        ck_assert_msg(ts_tensor_read_shard(t, mode, s, raw, &err) == 0, "%s", err.text);
        for (uint32_t b = 0; b < m->shard[s].n_blocks; b++) {
            const struct ts_block_at at = ts_shard_block(&m->shard[s], raw, b);
            struct ts_block_parts parts;
            static struct ts_block block;
            ck_assert_int_eq(ts_block_parse(at.word, at.n_words, t->order, at.nnz, n_codes, &parts,
                                            &err), 0);
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
    sort_list(&l);
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

/* Every copy of the tensor holds `want`. */
static void assert_holds(const char *path, const struct list *want)
{
    struct ts_tensor *t;
    double squares = 0;
    ck_assert_msg(ts_tensor_open(path, &t, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(t->nnz, want->n);
    for (uint32_t m = 0; m < t->order; m++) {
        struct list got = read_copy(t, m);
        assert_same(&got, want);
        free_list(&got);
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

static void assert_same_bytes(uint32_t order)
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

/* ------------------------------------------------------------------ what is built */

static const uint64_t wide[TS_MAX_ORDER] = { 40, 300, 1000, 3, 70, 9, 500, 2, 2, 30, 4, 5, 6, 7, 8,
                                             9 };

/* _i: the order. In memory, with one thread and with two. */
START_TEST(every_copy_holds_the_nonzeros)
{
    const uint32_t order = (uint32_t)_i;
    struct list draws = draw_list(order, order, wide, 4096), want = merge_list(&draws);
    struct ts_build_options o = options(out);
    write_list(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_runs, 0);
    ck_assert_uint_eq(report.nnz + report.n_duplicates + report.n_zeros, 4096);
    assert_holds(out, &want);
    o.out = other;
    o.threads = 1;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    assert_same_bytes(order);
    free_list(&draws);
    free_list(&want);
}
END_TEST

START_TEST(same_bytes_however_it_is_built)
{
    const uint64_t dim[] = { 900, 70, 5000 };
    struct list draws = draw_list(9, 3, dim, 1 << 18);
    struct ts_build_options o = options(out);
    for (uint64_t i = 0; i < draws.n; i++) /* sums then depend on the order of adding */
        draws.value[i] = (float)(draws.value[i] * ts_unit(ts_mix(i)));
    write_list(&draws, 0);
    o.duplicates = _i % 2 ? TS_DUPLICATES_KEEP : TS_DUPLICATES_SUM;
    o.value_bytes = _i < 2 ? 4 : 8;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_runs, 0);
    write_list(&draws, 12345);
    o.out = other;
    o.threads = 3;
    o.area_words = 60000;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 3);
    assert_same_bytes(3);
    free_list(&draws);
}
END_TEST

START_TEST(huge_indices_are_numbered)
{
    const uint64_t dim[] = { UINT64_C(1) << 40, 50, UINT64_C(1) << 38, UINT64_C(1) << 31 };
    struct list draws = draw_list(3, 4, dim, 1 << 15), want;
    struct ts_build_options o = options(out);
    draws.index[0] = dim[0] - 1;
    for (uint64_t i = 0; i < draws.n; i += 3) /* some slices hold many */
        draws.index[4 * i + 2] = draws.index[4 * (i % 100) + 2];
    want = merge_list(&draws);
    write_list(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    assert_holds(out, &want);
    write_list(&draws, 77);
    o.out = other;
    o.area_words = 60000;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 1);
    assert_same_bytes(4);
    free_list(&draws);
    free_list(&want);
}
END_TEST

/* Narrow records fill most of an area before the first wide one asks for a longer layout, in which
 * those that are there would need more than an area. */
START_TEST(records_grow_when_an_area_is_nearly_full)
{
    const uint64_t dim[] = { 90, 70, 50 };
    struct list draws = draw_list(6, 3, dim, 1 << 16), want;
    struct ts_build_options o = options(out);
    for (uint64_t i = 45000 + 5000 * (uint64_t)_i; i < draws.n; i++)
        for (uint32_t m = 0; m < 3; m++)
            draws.index[3 * i + m] = ts_mix(3 * i + m) >> 24;
    want = merge_list(&draws);
    write_list(&draws, 0);
    o.area_words = 60000;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 1);
    ck_assert_uint_eq(report.nnz + report.n_duplicates + report.n_zeros, draws.n);
    assert_holds(out, &want);
    free_list(&draws);
    free_list(&want);
}
END_TEST

START_TEST(duplicates_are_kept_or_refused)
{
    const uint64_t dim[] = { 20, 20 };
    struct list draws = draw_list(1, 2, dim, 1024);
    struct ts_build_options o = options(out);
    struct ts_tensor *t;
    for (uint64_t i = 0; i < draws.n; i++)
        draws.value[i] += 4; /* no zeros */
    write_list(&draws, 0);
    o.duplicates = TS_DUPLICATES_ERROR;
    ck_assert_int_eq(build(&o), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "more than one nonzero at ("));
    o.duplicates = TS_DUPLICATES_KEEP;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    sort_list(&draws);
    assert_holds(out, &draws);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_uint_ne(t->header.flags & TS_TENSOR_DUPLICATES, 0);
    ts_tensor_close(t);
    free_list(&draws);
}
END_TEST

/* One cell a quarter of a million times: no range of keys can divide it. */
START_TEST(one_cell_many_times)
{
    struct list draws = new_list(2, 1 << 18), want;
    struct ts_build_options o = options(out);
    memset(draws.index, 0, draws.n * 2 * sizeof *draws.index);
    for (uint64_t i = 0; i < draws.n; i++)
        draws.value[i] = 1 + (double)(i % 3);
    draws.index[2 * 5000] = 6;
    draws.perm = NULL;
    want = merge_list(&draws);
    write_list(&draws, 0);
    o.area_words = 30000;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 3);
    assert_holds(out, &want);
    free_list(&draws);
    free_list(&want);
}
END_TEST

START_TEST(values_choose_their_coding)
{
    static const struct {
        const char *lines;
        uint32_t kind;
    } at[] = {
        { "1 1 2.5\n2 2 2.5\n", TS_VALUE_CONST },
        { "1 1 -7\n2 2 9\n3 3 3\n4 4 -1\n", TS_VALUE_INT },
        { "1 1 0.1\n2 2 1e30\n", TS_VALUE_F32 },
        { "1 1 16777216\n2 2 1e20\n3 3 0.5\n", TS_VALUE_F32 },
    };
    struct ts_build_options o = options(out);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        FILE *f = fopen(text, "w");
        struct ts_tensor *t;
        fputs(at[i].lines, f);
        fclose(f);
        o.force = 1;
        ck_assert_msg(build(&o) == 0, "%s", err.text);
        ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
        ck_assert_uint_eq(t->header.value_kind, at[i].kind);
        ts_tensor_close(t);
    }
}
END_TEST

START_TEST(few_distinct_values_become_a_dictionary)
{
    const uint64_t dim[] = { 100, 200, 300 };
    struct list draws = draw_list(4, 3, dim, 8192), want;
    struct ts_build_options o = options(out);
    struct ts_tensor *t;
    for (uint64_t i = 0; i < draws.n; i++) {
        draws.index[3 * i + 2] = i % 300;
        draws.index[3 * i + 1] = i / 300; /* each cell once */
        draws.value[i] = ldexp(draws.value[i] + 4, (int)(i % 3) * 9);
    }
    want = merge_list(&draws);
    write_list(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_uint_eq(t->header.value_kind, TS_VALUE_DICT);
    ts_tensor_close(t);
    assert_holds(out, &want);
    free_list(&draws);
    free_list(&want);
}
END_TEST

START_TEST(mistakes_are_told_with_their_line)
{
    /* behind many pieces that are parsed side by side */
    struct ts_build_options o = options(out);
    struct stat st;
    char want[4200];
    FILE *f = fopen(text, "w");
    for (int i = 0; i < 300000; i++)
        fprintf(f, "%s1 %d 3\n", i % 5 ? "" : "\n", i + 1);
    fputs("5 5 5 5\n", f);
    for (int i = 0; i < 300000; i++)
        fprintf(f, "0 %d 3\n", i + 1);
    fclose(f);
    ck_assert_int_eq(build(&o), TS_EFORMAT);
    snprintf(want, sizeof want, "%s:360001: found 4 fields, expected 3", text);
    ck_assert_str_eq(err.text, want);
    ck_assert_int_lt(stat(out, &st), 0);
    snprintf(want, sizeof want, "%s.building", out);
    ck_assert_int_lt(stat(want, &st), 0);
}
END_TEST

/* ------------------------------------------------------------------ what happens to a build */

static void write_large(void)
{
    const uint64_t dim[] = { 3000, 4000, 5000 };
    struct list draws = draw_list(2, 3, dim, 1 << 18);
    write_list(&draws, 0);
    free_list(&draws);
}

static int exists(const char *path, const char *end)
{
    char name[4200];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, end);
    return stat(name, &st) == 0;
}

static void write_text(const char *lines)
{
    FILE *f = fopen(text, "w");
    fputs(lines, f);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(an_existing_tensor_stays_unless_forced)
{
    struct ts_build_options o = options(out);
    char name[4200];
    write_large();
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_int_eq(build(&o), TS_EBUSY);
    o.out = other;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.out = out;
    o.force = 1;
    o.n_dims = 2; /* fails late enough */
    ck_assert_int_lt(build(&o), 0);
    assert_same_bytes(3);
    o.n_dims = 0;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    assert_same_bytes(3);
    ck_assert(!exists(out, ".building") && !exists(out, ".old") && !exists(out, "/lock"));
    snprintf(name, sizeof name, "%s/dir.tsh", tmp);
    ck_assert_int_eq(mkdir(name, 0777), 0);
    ck_assert_int_eq(mkdir(strcat(name, "/mine"), 0777), 0);
    snprintf(name, sizeof name, "%s/dir.tsh", tmp);
    o.out = name;
    ck_assert_int_eq(build(&o), TS_EBUSY); /* not a tensor: --force is no licence to remove it */
    rmdir(strcat(name, "/mine"));
    snprintf(name, sizeof name, "%s/dir.tsh", tmp);
    rmdir(name);
}
END_TEST

/* Where two directories cannot change their names in one step: what lies beside the tensor under a
 * name that could be its old one's stays. */
START_TEST(replacing_in_two_steps_leaves_copies_alone)
{
    struct ts_build_options o = options(out);
    struct ts_tensor *t;
    char copy[4200], held[4200];
    snprintf(copy, sizeof copy, "%s.old", out);
    snprintf(held, sizeof held, "%s.old.%ld", out, (long)getpid());
    write_text("1 1 1\n");
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_int_eq(rename(out, copy), 0);
    write_text("2 2 2\n1 2 1\n");
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    no_exchange = 1;
    o.force = 1;
    write_text("2 2 2\n1 2 1\n3 3 3\n");
    ck_assert_int_eq(mkdir(held, 0777), 0);
    ck_assert_int_eq(build(&o), TS_EBUSY); /* its own name is taken */
    ck_assert_ptr_nonnull(strstr(err.text, held));
    ck_assert_int_eq(rmdir(held), 0);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_uint_eq(t->header.nnz, 2);
    ts_tensor_close(t);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert(!exists(out, ".building") && access(held, F_OK) != 0);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_uint_eq(t->header.nnz, 3);
    ts_tensor_close(t);
    ck_assert_int_eq(ts_tensor_open(copy, &t, &err), 0);
    ck_assert_uint_eq(t->header.nnz, 1);
    ts_tensor_close(t);
    test_tsh_remove(copy);
}
END_TEST

START_TEST(killed_builds_are_cleared)
{
    struct ts_build_options o = options(out);
    struct list draws;
    write_large();
    for (int k = 0; k < 12; k++) {
        const pid_t child = fork();
        int status;
        if (child == 0) {
            o.threads = 1;
            build(&o);
            _exit(0);
        }
        usleep((useconds_t)(1 + k * 12) * 1000);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        if (exists(out, "")) { /* it was faster: then it is whole */
            struct ts_tensor *t;
            ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
            ts_tensor_close(t);
            test_tsh_remove(out);
        }
    }
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert(!exists(out, ".building"));
    draws = draw_list(2, 3, (const uint64_t[]){ 3000, 4000, 5000 }, 1 << 18);
    {
        struct list want = merge_list(&draws);
        assert_holds(out, &want);
        free_list(&want);
    }
    free_list(&draws);
}
END_TEST

START_TEST(two_builds_at_once_are_refused)
{
    struct ts_build_options o = options(out);
    char name[4200], pid[32];
    FILE *f;
    write_large();
    snprintf(name, sizeof name, "%s.building", out);
    ck_assert_int_eq(mkdir(name, 0777), 0);
    snprintf(name, sizeof name, "%s.building/lock", out);
    f = fopen(name, "w");
    fprintf(f, "%ld\n", (long)getpid());
    fflush(f);
    ck_assert_int_eq(flock(fileno(f), LOCK_EX), 0);
    ck_assert_int_eq(build(&o), TS_EBUSY);
    snprintf(pid, sizeof pid, "(pid %ld)", (long)getpid());
    ck_assert_ptr_nonnull(strstr(err.text, pid));
    fclose(f); /* the other one died: its litter is no obstacle */
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert(!exists(out, ".building"));
}
END_TEST

/* A file-size limit stands for the full disk: the same failure of the same calls. _i: its size. */
START_TEST(a_full_disk_leaves_nothing)
{
    static const rlim_t limits[] = { 0, 20, 5000, 100000, 300000 };
    struct ts_build_options o = options(out);
    struct rlimit limit = { limits[_i], RLIM_INFINITY };
    write_large();
    if (_i % 2)
        o.area_words = 120000; /* then it is the temporary file that meets the limit */
    signal(SIGXFSZ, SIG_IGN);
    (void)omp_get_max_threads(); /* clang's OpenMP writes a shared page when it starts: not limited */
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(build(&o), TS_EIO);
    ck_assert_int_eq(err.sys, EFBIG);
    ck_assert(!exists(out, "") && !exists(out, ".building"));
}
END_TEST

static const volatile sig_atomic_t stop_now = 2;

START_TEST(stopping_leaves_nothing)
{
    struct ts_build_options o = options(out);
    write_large();
    o.stop = &stop_now;
    ck_assert_int_eq(build(&o), TS_ESTOP);
    ck_assert(!exists(out, "") && !exists(out, ".building"));
}
END_TEST

/* Stops in the middle of the first copy. */
static void stop_while_packing(void *arg, const char *what, const char *unit, uint64_t done,
                               uint64_t total)
{
    volatile sig_atomic_t *stop = arg;
    (void)unit;
    if (strcmp(what, "packing mode 1") == 0 && done > 0 && done < total)
        *stop = SIGINT;
}

START_TEST(stopping_a_build_in_memory_does_not_wait_for_a_copy)
{
    struct ts_synth s = { .order = 2, .dim = { 3000, 4000 }, .nnz = 4500000, .seed = 3,
                          .value_first = 1, .value_last = 1, .value_bytes = 4 };
    static volatile sig_atomic_t stop;
    struct ts_build_options o = options(out);
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    stop = 0;
    o.memory = 512 << 20;
    o.threads = 1;
    o.duplicates = TS_DUPLICATES_KEEP;
    o.stop = &stop;
    o.progress = stop_while_packing;
    o.progress_arg = (void *)&stop;
    ck_assert_int_eq(ts_build_synth(&o, &s, &report, &err), TS_ESTOP);
    ck_assert(!exists(out, "") && !exists(out, ".building"));
}
END_TEST

static volatile sig_atomic_t stop_any;

static void *stop_later(void *arg)
{
    usleep(*(uint32_t *)arg);
    stop_any = SIGTERM;
    return NULL;
}

/* At whatever moment. _i: in memory, and through runs. */
START_TEST(stopping_at_any_time_leaves_all_or_nothing)
{
    struct ts_synth s = { .order = 3, .dim = { 3000, 4000, 50 }, .nnz = 400000, .seed = 3,
                          .value_first = 1, .value_last = 5, .value_bytes = 4 };
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    for (uint32_t k = 0; k < 24; k++) {
        struct ts_build_options o = options(out);
        uint32_t delay_us = k * 4000;
        pthread_t thread;
        int rc;
        stop_any = 0;
        o.memory = 256 << 20;
        o.area_words = _i ? 1 << 17 : 0;
        o.threads = 2;
        o.stop = &stop_any;
        o.force = 1;
        ck_assert_int_eq(pthread_create(&thread, NULL, stop_later, &delay_us), 0);
        rc = ts_build_synth(&o, &s, &report, &err);
        pthread_join(thread, NULL);
        ck_assert_msg(rc == 0 || rc == TS_ESTOP, "%s", err.text);
        ck_assert(rc == 0 || strstr(err.text, "stopped; nothing was written") != NULL);
        ck_assert(!exists(out, ".building"));
        if (rc == 0)
            ck_assert_uint_eq(report.nnz + report.n_duplicates, s.nnz);
    }
}
END_TEST

/* What could not be opened again, or would be left out in silence, or would fail after hours. */
START_TEST(what_cannot_be_built_is_refused)
{
    struct ts_build_options o = options(out);
    write_text("1 1 1e200\n2 2 -3e200\n");
    o.value_bytes = 8;
    ck_assert_int_eq(build(&o), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "the squares of the values (-3e+200 to 1e+200) add up"));
    ck_assert(!exists(out, "") && !exists(out, ".building"));
    write_text("1 1 1e150\n2 2 -3e150\n"); /* is within the range */
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.out = other;
    write_text("1 1 1e-170\n2 2 -3e-170\n");
    ck_assert_int_eq(build(&o), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "(-3e-170 to 1e-170) add up to less than"));
    ck_assert(!exists(other, "") && !exists(other, ".building"));
    o = options(other);
    o.min_order = 3;
    o.map[2] = text;
    ck_assert_int_eq(build(&o), TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "--map names mode 3, but "));
    ck_assert(!exists(other, "") && !exists(other, ".building"));
    o = options(other);
    o.tmp = text; /* no directory; nothing so small needs one */
    ck_assert_int_eq(build(&o), TS_EIO);
    ck_assert_int_eq(err.sys, ENOTDIR);
    ck_assert(!exists(other, "") && !exists(other, ".building"));
}
END_TEST

START_TEST(labels_come_along)
{
    struct ts_build_options o = options(out);
    struct ts_tensor *t;
    const uint64_t want[] = { 0, 2, 5 };
    char map[4200], *name[3];
    FILE *f = fopen(text, "w");
    fputs("1 1 1\n3 2 1\n", f);
    fclose(f);
    snprintf(map, sizeof map, "%s/names", tmp);
    f = fopen(map, "w");
    fputs("\xef\xbb\xbf" "first\r\nsecond one\nthird", f);
    fclose(f);
    o.map[0] = map;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_uint_eq(t->mode[0].disk.n_labels, 3);
    ck_assert_msg(ts_tensor_labels(t, 0, 3, want, name, &err) == 0, "%s", err.text);
    ck_assert_str_eq(name[0], "first");
    ck_assert_str_eq(name[1], "third");
    ck_assert_ptr_null(name[2]);
    free(name[0]);
    free(name[1]);
    ts_tensor_close(t);
}
END_TEST

/* ------------------------------------------------------------------ the generator */

START_TEST(generated_tensors_do_not_depend_on_the_machine)
{
    struct ts_synth s = { .order = 3, .dim = { 500, 60, 7000 }, .nnz = 50000, .seed = 5,
                          .power = { 1.1, 0, 0.8 }, .value_first = 1, .value_last = 5,
                          .value_bytes = 4 };
    struct ts_build_options o = options(out);
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    o.out = other;
    o.force = 1;
    for (int again = 0; again < 12; again++) { /* other threads fill areas in other orders */
        o.threads = 2 + (uint32_t)again % 5;
        o.area_words = 30000 + 1000 * (uint64_t)again;
        ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
        ck_assert_uint_gt(report.n_runs, 1);
        ck_assert_uint_eq(report.nnz + report.n_duplicates + report.n_zeros, s.nnz);
        assert_same_bytes(3);
    }
}
END_TEST

/* In memory, most of the nonzeros in one slice and more of them than the scratch holds; through runs;
 * and with more threads than cores. */
START_TEST(heavy_slices_do_not_depend_on_memory)
{
    struct ts_synth s = { .order = 3, .dim = { 4000, 3, 900000 }, .nnz = 1200000, .seed = 6,
                          .power = { 2.5, 0, 0.5 }, .value_first = 1, .value_last = 5,
                          .value_bytes = 4 };
    struct ts_build_options o = options(out);
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    o.memory = 512 << 20;
    o.threads = 17;
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_runs, 0);
    o.out = other;
    o.memory = 32 << 20;
    o.threads = 1;
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 1);
    assert_same_bytes(3);
}
END_TEST

/* A thread alone is given its nonzeros in several pieces; several get them in one. */
START_TEST(pieces_of_a_copy_leave_no_seam)
{
    struct ts_synth s = { .order = 3, .dim = { UINT64_C(5000000000), 30, 300 }, .nnz = 4300000,
                          .seed = 8, .power = { 1.2, 0, 0.5 }, .value_first = 1, .value_last = 2,
                          .value_bytes = 4 };
    struct ts_build_options o = options(out);
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    o.memory = 512 << 20;
    o.duplicates = TS_DUPLICATES_KEEP;
    o.threads = 1;
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_runs, 0);
    ck_assert_uint_eq(report.nnz, s.nnz);
    o.out = other;
    o.threads = 3;
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_runs, 0);
    assert_same_bytes(3);
}
END_TEST

START_TEST(planted_blocks_hold_each_cell_once)
{
    struct ts_synth s = { .order = 3, .dim = { 100, 90, 80 }, .nnz = 40000, .seed = 5,
                          .planted = 4, .noise = 0.1, .value_bytes = 4 };
    struct ts_build_options o = options(out);
    ck_assert_int_eq(ts_synth_init(&s, &err), 0);
    ck_assert_uint_gt(s.nnz, 30000);
    ck_assert_msg(ts_build_synth(&o, &s, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_duplicates, 0);
    ck_assert_uint_eq(report.nnz, s.nnz);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("build");
    TCase *t = tcase_create("build");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, every_copy_holds_the_nonzeros, 2, 17);
    tcase_add_loop_test(t, same_bytes_however_it_is_built, 0, 4);
    tcase_add_test(t, huge_indices_are_numbered);
    tcase_add_loop_test(t, records_grow_when_an_area_is_nearly_full, 0, 3);
    tcase_add_test(t, duplicates_are_kept_or_refused);
    tcase_add_test(t, one_cell_many_times);
    tcase_add_test(t, values_choose_their_coding);
    tcase_add_test(t, few_distinct_values_become_a_dictionary);
    tcase_add_test(t, mistakes_are_told_with_their_line);
    tcase_add_test(t, an_existing_tensor_stays_unless_forced);
    tcase_add_test(t, replacing_in_two_steps_leaves_copies_alone);
    tcase_add_test(t, killed_builds_are_cleared);
    tcase_add_test(t, two_builds_at_once_are_refused);
    tcase_add_loop_test(t, a_full_disk_leaves_nothing, 0, 5);
    tcase_add_test(t, stopping_leaves_nothing);
    tcase_add_test(t, stopping_a_build_in_memory_does_not_wait_for_a_copy);
    tcase_add_loop_test(t, stopping_at_any_time_leaves_all_or_nothing, 0, 2);
    tcase_add_test(t, what_cannot_be_built_is_refused);
    tcase_add_test(t, labels_come_along);
    tcase_add_test(t, generated_tensors_do_not_depend_on_the_machine);
    tcase_add_test(t, heavy_slices_do_not_depend_on_memory);
    tcase_add_test(t, pieces_of_a_copy_leave_no_seam);
    tcase_add_test(t, planted_blocks_hold_each_cell_once);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
