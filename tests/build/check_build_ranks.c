/* SPDX-License-Identifier: BSD-3-Clause */
/* Several ranks build the bytes of one process, and end together where one of them fails. Ranks are
 * threads here. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "source/text/table_text.h"
#include "tests/source/binary_file.h"
#include "tests/build/build_case.h"
#include "tests/mpi/comm_threads.h"
#include "tests/support/run_suite.h"

/* What one rank is to do, and what it ends with. */
struct rank {
    struct ts_build_options o;
    struct ts_build_report report;
    struct ts_err err;
    int rc;
    const char *path[3];
    uint32_t n_paths;
};

static struct rank rank[TEST_COMM_MOST];
static uint32_t machines = 1; /* that ranks are on, at most one each */

static void *build_rank(void *arg)
{
    struct rank *r = arg;
    r->rc = ts_build_paths(&r->o, r->path, r->n_paths, &r->report, &r->err);
    return NULL;
}

/* All ranks begin with these options; their comms are set here. Returns the code, which is that of
 * all of them, and `report` and `err` are those of rank 0. */
static int run_ranks(uint32_t n)
{
    struct test_comm comm[TEST_COMM_MOST];
    struct test_comm_group *g = test_comm_new(n, comm);
    pthread_t thread[TEST_COMM_MOST];
    test_comm_place(g, machines < n ? machines : n);
    for (uint32_t r = 0; r < n; r++) {
        rank[r].o.comm = &comm[r].comm;
        ck_assert_int_eq(pthread_create(&thread[r], NULL, build_rank, &rank[r]), 0);
    }
    for (uint32_t r = 0; r < n; r++) {
        pthread_join(thread[r], NULL);
        ck_assert_int_eq(rank[r].rc, rank[0].rc);
        if (rank[0].rc < 0)
            ck_assert_str_eq(rank[r].err.text, rank[0].err.text);
    }
    test_comm_free(g);
    report = rank[0].report;
    err = rank[0].err;
    return rank[0].rc;
}

static void prepare(uint32_t n, const struct ts_build_options *o)
{
    for (uint32_t r = 0; r < n; r++)
        rank[r] = (struct rank){ .o = *o, .path = { text }, .n_paths = 1 };
}

static int build_ranks(uint32_t n, const struct ts_build_options *o)
{
    prepare(n, o);
    return run_ranks(n);
}

/* ------------------------------------------------------------------ the same bytes */

static const struct {
    uint32_t ranks, machines, threads, value_bytes;
    int duplicates, real;
    uint64_t area_words, shuffle;
} cases[] = {
    { 2, 1, 2, 4, TS_DUPLICATES_SUM, 1, 0, 0 },
    { 3, 3, 1, 4, TS_DUPLICATES_SUM, 0, 20480, 5 },
    { 4, 1, 1, 8, TS_DUPLICATES_KEEP, 1, 36864, 9 },
    { 2, 2, 3, 4, TS_DUPLICATES_KEEP, 0, 20480, 0 },
    { 7, 3, 1, 4, TS_DUPLICATES_SUM, 1, 20480, 3 },
    { 5, 2, 2, 8, TS_DUPLICATES_SUM, 1, 0, 1 },
    { 6, 4, 2, 4, TS_DUPLICATES_SUM, 0, 0, 2 },
};

/* The text as it is, sorted, or shuffled; in the areas, or through sorted runs; records travel
 * through memory of the machine, messages, or both. */
START_TEST(same_bytes_as_one_process)
{
    const uint64_t dim[] = { 900, 70, 5000 };
    struct list draws = list_draw(9, 3, dim, 1 << 17);
    struct ts_build_options o = options(out);
    for (uint64_t i = 0; i < draws.n && cases[_i].real; i++)
        draws.value[i] = (float)(draws.value[i] * ts_unit(ts_mix(i)));
    list_write(&draws, 0);
    o.duplicates = cases[_i].duplicates;
    o.value_bytes = cases[_i].value_bytes;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.out = other;
    list_write(&draws, cases[_i].shuffle);
    o.threads = cases[_i].threads;
    o.area_words = cases[_i].area_words;
    machines = cases[_i].machines;
    ck_assert_msg(build_ranks(cases[_i].ranks, &o) == 0, "%s", err.text);
    ck_assert_int_eq(report.n_runs > 0, o.area_words > 0);
    ck_assert_uint_eq(report.input_nnz, 1 << 17);
    assert_same_bytes(3);
    list_free(&draws);
}
END_TEST

/* Ranks sort in memory, with rooms for spools, but for one, if there is one, that sorts through
 * runs: what is sorted for a copy takes the place of the nonzeros on all ranks or on none. */
START_TEST(rooms_of_ranks)
{
    const uint64_t dim[] = { 900, 70, 50, 20 };
    struct list draws = list_draw(9, 4, dim, 1 << 17);
    struct ts_build_options o = options(out);
    list_write(&draws, 4);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.out = other;
    prepare(3, &o);
    for (int r = 0; r < 3; r++)
        rank[r].o.area_words = r == _i ? 36864 : 1 << 19;
    ck_assert_msg(run_ranks(3) == 0, "%s", err.text);
    ck_assert_int_eq(report.n_runs > 0, _i < 3);
    assert_same_bytes(4);
    list_free(&draws);
}
END_TEST

static const struct {
    uint32_t ranks, repeats, long_lines; /* repeats: of each cell; long_lines: at the start */
    uint64_t area_words;
} sorted_texts[] = {
    { 2, 1, 0, 0 },     { 4, 1, 0, 20480 }, { 3, 3, 0, 0 },
    { 7, 1, 0, 36864 }, { 3, 1, 30000, 0 }, { 5, 30000, 0, 0 },
};

/* Text that is sorted: parts that ranks have read are their ranges, unless a cell is in two of
 * them, or one is far longer. */
START_TEST(sorted_text)
{
    struct ts_build_options o = options(out);
    FILE *f = fopen(text, "w");
    ck_assert_ptr_nonnull(f);
    for (uint64_t i = 0; i < 90000; i++) {
        const uint64_t cell = i / sorted_texts[_i].repeats * 7;
        fprintf(f, "%llu %llu %llu %llu%.*s\n", (unsigned long long)(cell / 900 + 1),
                (unsigned long long)(cell / 30 % 30 + 1), (unsigned long long)(cell % 30 + 1),
                (unsigned long long)(i % 9), i < sorted_texts[_i].long_lines ? 30 : 0,
                ".0000000000000000000000000000000");
    }
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.out = other;
    o.threads = 1;
    o.area_words = sorted_texts[_i].area_words;
    ck_assert_msg(build_ranks(sorted_texts[_i].ranks, &o) == 0, "%s", err.text);
    assert_same_bytes(3);
}
END_TEST

/* Sorted, with indices that need more bits from rank to rank, in the end another word: where parts
 * stay, they are converted. */
START_TEST(sorted_text_that_grows)
{
    struct ts_build_options o = options(out);
    FILE *f = fopen(text, "w");
    ck_assert_ptr_nonnull(f);
    for (uint64_t i = 0; i < 90000; i++)
        fprintf(f, "%04llu %08llu %llu 0.5\n", (unsigned long long)(i / 100 + 1),
                (unsigned long long)(i * 37 + 1), (unsigned long long)(i % 5 + 1));
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.out = other;
    o.threads = 2;
    ck_assert_msg(build_ranks(7, &o) == 0, "%s", err.text);
    assert_same_bytes(3);
}
END_TEST

START_TEST(any_order)
{
    static const uint64_t wide[TS_MAX_ORDER] = { 40, 300, 1000, 3, 70, 9, 500, 2,
                                                 2,  30,  4,    5, 6,  7, 8,   9 };
    const uint32_t order = (uint32_t)_i;
    struct list draws = list_draw(order, order, wide, 40000);
    struct ts_build_options o = options(out);
    list_write(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.out = other;
    o.threads = 1;
    ck_assert_msg(build_ranks(3, &o) == 0, "%s", err.text);
    assert_same_bytes(order);
    list_free(&draws);
}
END_TEST

/* Lines from 1 on, fewer than ranks too: ranges without a line, and shards that one rank begins and
 * others fill. */
START_TEST(few_lines)
{
    const uint64_t dim[] = { 9, 7, 5 };
    struct list draws = list_draw(4, 3, dim, 1 + 700 * (uint64_t)_i);
    struct ts_build_options o = options(out);
    draws.value[0] = 7;
    list_write(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.out = other;
    o.threads = 1;
    ck_assert_msg(build_ranks(6, &o) == 0, "%s", err.text);
    assert_same_bytes(3);
    list_free(&draws);
}
END_TEST

/* Comments of several pieces before the first nonzero, and a last line without an end; the same
 * file twice. */
START_TEST(parts_of_files)
{
    struct ts_build_options o = options(out);
    const char *const paths[] = { text, text };
    FILE *f = fopen(text, "w");
    ck_assert_ptr_nonnull(f);
    for (uint32_t i = 0; i < 3000; i++)
        fprintf(f, "# %0700u\n", i);
    for (uint32_t i = 0; i < 30000; i++)
        fprintf(f, "%u %u %u %u%s", i % 77 + 1, i % 1001 + 1, i / 300 + 1, i % 5 + 1,
                i == 29999   ? ""
                : i % 3 == 0 ? "\r\n"
                             : "\n");
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_msg(ts_build_paths(&o, paths, 2, &report, &err) == 0, "%s", err.text);
    o.out = other;
    o.threads = 1;
    prepare(4, &o);
    for (uint32_t r = 0; r < 4; r++) {
        rank[r].path[1] = text;
        rank[r].n_paths = 2;
    }
    ck_assert_msg(run_ranks(4) == 0, "%s", err.text);
    ck_assert_uint_eq(report.input_nnz, 60000);
    assert_same_bytes(3);
}
END_TEST

/* Writes draws to `path` as a file of SPLATT or GenTen. */
static void write_binary(const char *path, const struct list *l, const uint64_t *dim, int genten)
{
    struct binary_file f = { .genten = genten,
                             .order = l->order,
                             .value_bytes = 8,
                             .n = l->n,
                             .index = l->index,
                             .value = l->value };
    unsigned char *bytes;
    size_t n;
    FILE *to = fopen(path, "w");
    ck_assert_ptr_nonnull(to);
    for (uint32_t m = 0; m < l->order; m++) {
        f.dim[m] = dim[m];
        f.index_bytes[m] = genten ? 2 : 4;
    }
    bytes = binary_file_put(&f, &n);
    ck_assert_uint_eq(fwrite(bytes, 1, n, to), n);
    ck_assert_int_eq(fclose(to), 0);
    free(bytes);
}

static const struct {
    uint32_t ranks, threads;
    uint64_t n, area_words;
    int genten;
} binaries[] = {
    { 2, 2, 1 << 17, 0, 0 }, { 3, 1, 1 << 17, 20480, 1 }, { 7, 1, 100001, 20480, 0 },
    { 6, 1, 1, 0, 1 },       { 4, 3, 70001, 0, 1 },
};

/* Ranks read parts of two binary files, of many nonzeros or of fewer than there are ranks. */
START_TEST(parts_of_binary_files)
{
    const uint64_t dim[] = { 900, 70, 5000 };
    struct list draws = list_draw(9, 3, dim, binaries[_i].n);
    struct ts_build_options o = options(out);
    char second[sizeof text + 2];
    const char *const paths[] = { text, second };
    snprintf(second, sizeof second, "%s.2", text);
    for (uint64_t i = 0; i < draws.n; i++)
        draws.value[i] = (float)(draws.value[i] * ts_unit(ts_mix(i)) + 1);
    write_binary(text, &draws, dim, binaries[_i].genten);
    for (uint64_t i = 0; i < draws.n; i++)
        draws.value[i] = -draws.value[i] - 2;
    write_binary(second, &draws, dim, 1);
    ck_assert_msg(ts_build_paths(&o, paths, 2, &report, &err) == 0, "%s", err.text);
    o.out = other;
    o.threads = binaries[_i].threads;
    o.area_words = binaries[_i].area_words;
    prepare(binaries[_i].ranks, &o);
    for (uint32_t r = 0; r < binaries[_i].ranks; r++) {
        rank[r].path[1] = second;
        rank[r].n_paths = 2;
    }
    ck_assert_msg(run_ranks(binaries[_i].ranks) == 0, "%s", err.text);
    ck_assert_uint_eq(report.input_nnz, 2 * draws.n);
    ck_assert_int_eq(report.binary, 1);
    assert_same_bytes(3);
    list_free(&draws);
}
END_TEST

/* ------------------------------------------------------------------ names */

/* A table of two columns of names, the first of up to `length` bytes, one of numbers, and
 * values. */
static void write_table(const char *path, uint64_t seed, uint64_t n, uint64_t distinct,
                        uint32_t length)
{
    FILE *f = fopen(path, "w");
    char *filler = malloc(length + 1);
    ck_assert(f != NULL && filler != NULL);
    memset(filler, 'x', length);
    filler[length] = '\0';
    fprintf(f, "user,item,place,stars\n");
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t user = ts_mix(seed ^ i) % distinct, item = ts_mix(i) % 40;
        fprintf(f, "u%.*s%llu,", (int)(user * 7919 % (length + 1)), filler,
                (unsigned long long)user);
        fprintf(f, item % 3 == 0 ? "\"an \"\"item\"\", %llu\"" : "item %llu",
                (unsigned long long)item);
        fprintf(f, ",%llu,%llu\n", (unsigned long long)(i % 900 + 1),
                (unsigned long long)(ts_mix(i + 3) %
                                     6)); /* zeros are dropped, and their names are none */
    }
    free(filler);
    ck_assert_int_eq(fclose(f), 0);
}

static const struct {
    uint32_t ranks, threads;
    int sorted;
    uint64_t n, distinct;
    uint32_t length, generations;
} tables[] = {
    { 1, 2, 0, 20000, 5000, 20, 1 },      { 2, 2, 0, 20000, 5000, 20, 1 },
    { 3, 1, 1, 20000, 19000, 20, 1 },     { 4, 3, 0, 30000, 1, 0, 1 },
    { 7, 1, 0, 20001, 9000, 300, 1 },     { 3, 1, 0, 30000, 1000000, 4000, 2 },
    { 2, 2, 1, 22000, 1000000, 4000, 2 }, { 7, 1, 1, 3, 3, 5, 1 },
};

/* Three files, of which the first and the last are the same one. */
START_TEST(names_of_tables)
{
    const struct ts_table_plan table = { .separator = ',' };
    struct ts_build_options o = options(out);
    char second[sizeof text + 2];
    const char *const paths[] = { text, second, text };
    snprintf(second, sizeof second, "%s.2", text);
    write_table(text, 5, tables[_i].n, tables[_i].distinct, tables[_i].length);
    write_table(second, 6, tables[_i].n / 9 + 1, tables[_i].distinct, tables[_i].length);
    o.table = &table;
    o.memory = TS_BUILD_MIN_MEMORY;
    o.sorted_names = tables[_i].sorted;
    ck_assert_msg(ts_build_paths(&o, paths, 3, &report, &err) == 0, "%s", err.text);
    o.out = other;
    o.threads = tables[_i].threads;
    prepare(tables[_i].ranks, &o);
    for (uint32_t r = 0; r < tables[_i].ranks; r++) {
        memcpy(rank[r].path, paths, sizeof paths);
        rank[r].n_paths = 3;
    }
    ck_assert_msg(run_ranks(tables[_i].ranks) == 0, "%s", err.text);
    ck_assert_uint_eq(report.dim[0], report.n_names[0]);
    ck_assert_uint_eq(report.n_names[2], 0);
    ck_assert_uint_ge(report.name_generations, tables[_i].generations);
    assert_same_bytes(3);
}
END_TEST

/* More modes of names than some numbers of ranks, with others between: few names, long ones, one
 * name, another for each line. */
static void write_modes(const char *path, uint64_t seed, uint64_t n)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "a,b,number,c,d,e,value\n");
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t x = ts_mix(seed ^ i);
        fprintf(f, "a%llu,b%0*llu,%llu,c%llu,only,e%llu,%llu\n", (unsigned long long)(x % 5),
                (int)(x % 200), (unsigned long long)(x % 3000), (unsigned long long)(x % 90 + 1),
                (unsigned long long)i, (unsigned long long)(x >> 20) % 700,
                (unsigned long long)(i % 7 + 1));
    }
    ck_assert_int_eq(fclose(f), 0);
}

static const uint32_t wave_ranks[] = { 2, 3, 4, 7 };

START_TEST(names_of_many_modes)
{
    const struct ts_table_plan table = { .separator = ',' };
    struct ts_build_options o = options(out);
    const uint32_t ranks = wave_ranks[_i / 2];
    char second[sizeof text + 2];
    const char *const paths[] = { text, second };
    snprintf(second, sizeof second, "%s.2", text);
    write_modes(text, 5, 9000);
    write_modes(second, 6, 11000);
    o.table = &table;
    o.memory = TS_BUILD_MIN_MEMORY;
    o.sorted_names = _i % 2;
    ck_assert_msg(ts_build_paths(&o, paths, 2, &report, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(report.n_names[4], 1);
    o.out = other;
    o.threads = 1;
    prepare(ranks, &o);
    for (uint32_t r = 0; r < ranks; r++) {
        memcpy(rank[r].path, paths, sizeof paths);
        rank[r].n_paths = 2;
    }
    ck_assert_msg(run_ranks(ranks) == 0, "%s", err.text);
    for (uint32_t r = 0; r < ranks; r++)
        ck_assert_mem_eq(rank[r].report.n_names, report.n_names, sizeof report.n_names);
    ck_assert_uint_eq(report.n_names[3], 11000);
    assert_same_bytes(6);
}
END_TEST

/* Names that come in the order of their bytes, so that sorted ones have the same indices; the
 * longer they are, the sooner they outgrow their memory. Values need all bits of float64, weights
 * some of float32. */
static void write_weighted(uint32_t length)
{
    FILE *f = fopen(text, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "user,item,stars,votes\n");
    for (uint64_t i = 0; i < 33000; i++)
        fprintf(f, "n%0*llu,i%llu,%.17g,%llu.25\n", (int)length, (unsigned long long)(i % 30000),
                (unsigned long long)(i % 7), ts_unit(ts_mix(i)) - 0.5, (unsigned long long)(i % 5));
    ck_assert_int_eq(fclose(f), 0);
}

static const struct {
    uint32_t value_bytes, length;
    const char *weight;
} entries[] = {
    { 4, 8, NULL },   { 4, 400, NULL },  { 8, 8, NULL },
    { 8, 400, NULL }, { 4, 8, "votes" }, { 4, 400, "votes" },
};

/* Each nonzero keeps all of its value and weight, whether names fit their memory or not, come
 * sorted or not, and however many read them. */
START_TEST(names_keep_values_and_weights)
{
    const struct ts_table_plan table = { .separator = ',',
                                         .n_modes = 2,
                                         .mode = { "user", "item" },
                                         .value = "stars",
                                         .weight = entries[_i].weight };
    struct ts_build_options o = options(out);
    write_weighted(entries[_i].length);
    o.table = &table;
    o.value_bytes = entries[_i].value_bytes;
    o.weights = entries[_i].weight != NULL;
    o.memory = UINT64_C(512) << 20; /* all names fit: no nonzero waits for its indices */
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_uint_eq(report.name_generations, 1);
    o.out = other;
    o.force = 1;
    o.memory = TS_BUILD_MIN_MEMORY;
    for (uint32_t n = 1; n <= 3; n += 2)
        for (o.sorted_names = 0; o.sorted_names < 2; o.sorted_names++) {
            ck_assert_msg(build_ranks(n, &o) == 0, "%s", err.text);
            ck_assert_uint_eq(report.nnz, 33000);
            if (n == 1)
                ck_assert_uint_eq(report.name_generations, entries[_i].length > 8 ? 2 : 1);
            assert_same_bytes(2);
        }
}
END_TEST

/* ------------------------------------------------------------------ failures */

static void assert_nothing_left(void)
{
    ck_assert(!exists(out, ""));
    ck_assert(!exists(out, ".building"));
}

/* A wrong line of a table is named; one that stops before it reads ends all. */
START_TEST(names_fail_together)
{
    const struct ts_table_plan table = { .separator = ',' };
    struct ts_build_options o = options(out);
    volatile sig_atomic_t asked = 15;
    FILE *f;
    write_table(text, 5, 20000, 5000, 20);
    o.table = &table;
    o.threads = 1;
    if (_i == 0) {
        f = fopen(text, "a");
        ck_assert_ptr_nonnull(f);
        fprintf(f, "who,what,9,1,1\n");
        ck_assert_int_eq(fclose(f), 0);
    }
    prepare(3, &o);
    for (uint32_t r = 0; r < 3; r++)
        rank[r].o.stop = r == 2 && _i == 1 ? &asked : NULL;
    ck_assert_int_eq(run_ranks(3), _i == 0 ? TS_EFORMAT : TS_ESTOP);
    if (_i == 0)
        ck_assert_msg(strstr(err.text, "x.tns:20002: found 5 fields, expected 4") != NULL, "%s",
                      err.text);
    assert_nothing_left();
}
END_TEST

/* What happens while names are numbered. */
struct trouble {
    uint32_t mode; /* its file of names is there already; 0: a wish to stop */
    volatile sig_atomic_t asked;
};

static void make_trouble(void *arg, const struct ts_build_step *step)
{
    struct trouble *t = arg;
    char path[sizeof out + 64];
    if (strcmp(step->what, "numbering names") != 0)
        return;
    if (t->mode == 0) {
        t->asked = 15;
    } else {
        FILE *f;
        snprintf(path, sizeof path, "%s.building/mode%u.labels", out, t->mode);
        f = fopen(path, "w");
        if (f != NULL)
            fclose(f);
    }
}

static const struct {
    uint32_t rank, mode; /* who makes it */
} troubles[] = { { 0, 0 }, { 1, 0 }, { 2, 0 }, { 2, 1 }, { 0, 2 }, { 1, 4 }, { 0, 6 } };

/* Five modes of names, three ranks: mode 6 is of the second wave. */
START_TEST(a_rank_that_cannot_number_ends_all)
{
    const struct ts_table_plan table = { .separator = ',' };
    struct ts_build_options o = options(out);
    struct trouble t = { troubles[_i].mode, 0 };
    const uint32_t r = troubles[_i].rank;
    char want[64];
    write_modes(text, 5, 9000);
    o.table = &table;
    o.threads = 1;
    prepare(3, &o);
    rank[r].o.stop = &t.asked;
    rank[r].o.progress = make_trouble;
    rank[r].o.progress_arg = &t;
    ck_assert_int_eq(run_ranks(3), t.mode == 0 ? TS_ESTOP : TS_EIO);
    snprintf(want, sizeof want, "mode%u.labels: cannot create", t.mode);
    if (t.mode > 0)
        ck_assert_msg(strstr(err.text, want) != NULL, "%s", err.text);
    assert_nothing_left();
}
END_TEST

/* The line is counted from the start of the file, whoever reads it. */
START_TEST(a_bad_line_is_named)
{
    static const uint32_t lines[] = { 2, 4000, 17000, 29999 };
    struct ts_build_options o = options(out);
    char want[64];
    FILE *f = fopen(text, "w");
    ck_assert_ptr_nonnull(f);
    for (uint32_t i = 1; i <= 30000; i++)
        fprintf(f, i == lines[_i] ? "1 x 1 1\n" : "%u %u 1 1\n", i, i % 7 + 1);
    ck_assert_int_eq(fclose(f), 0);
    o.threads = 1;
    ck_assert_int_eq(build_ranks(3, &o), TS_EFORMAT);
    snprintf(want, sizeof want, "x.tns:%u: index 'x' in mode 2", lines[_i]);
    ck_assert_msg(strstr(err.text, want) != NULL, "%s", err.text);
    assert_nothing_left();
}
END_TEST

/* So is what is wrong in a binary file. */
START_TEST(a_bad_nonzero_is_named)
{
    static const uint64_t at[] = { 0, 4000, 17000, 29999 };
    const uint64_t dim[] = { 30000, 7 };
    struct ts_build_options o = options(out);
    struct list l = list_new(2, 30000);
    char want[64];
    for (uint64_t i = 0; i < l.n; i++) {
        l.index[2 * i] = i;
        l.index[2 * i + 1] = i == at[_i] ? 7 : i % 7;
        l.value[i] = 1;
    }
    write_binary(text, &l, dim, _i & 1);
    list_free(&l);
    o.threads = 1;
    ck_assert_int_eq(build_ranks(3, &o), TS_EFORMAT);
    snprintf(want, sizeof want, "index 7 of nonzero %u in mode 2", (unsigned)at[_i] + 1);
    ck_assert_msg(strstr(err.text, want) != NULL, "%s", err.text);
    assert_nothing_left();
}
END_TEST

/* What one rank sees, all say. */
START_TEST(one_fails_all_end)
{
    const uint64_t dim[] = { 50, 50, 50 };
    struct list draws = list_draw(4, 3, dim, 20000);
    struct ts_build_options o = options(out);
    list_write(&draws, 0);
    list_free(&draws);
    o.threads = 1;
    o.duplicates = _i == 0 ? TS_DUPLICATES_ERROR : TS_DUPLICATES_SUM;
    prepare(3, &o);
    if (_i == 1)
        rank[2].o.tmp = "/nowhere";
    if (_i == 2)
        rank[1].path[0] = "/nowhere/x.tns";
    ck_assert_int_lt(run_ranks(3), 0);
    ck_assert_msg(strstr(err.text, _i == 0 ? "more than one nonzero" : "/nowhere") != NULL, "%s",
                  err.text);
    assert_nothing_left();
}
END_TEST

START_TEST(one_stops_all_stop)
{
    const uint64_t dim[] = { 50, 50, 50 };
    struct list draws = list_draw(4, 3, dim, 20000);
    volatile sig_atomic_t asked = 15;
    struct ts_build_options o = options(out);
    list_write(&draws, 0);
    list_free(&draws);
    o.threads = 1;
    prepare(3, &o);
    rank[_i].o.stop = &asked;
    ck_assert_int_eq(run_ranks(3), TS_ESTOP);
    assert_nothing_left();
}
END_TEST

START_TEST(what_ranks_cannot_is_refused)
{
    struct ts_build_options o = options(out);
    o.memory = TS_BUILD_MIN_MEMORY;
    write_text("1 1 1 1\n1099511627776 1 1 1\n");
    ck_assert_int_eq(build_ranks(2, &o), TS_EARG);
    ck_assert_msg(strstr(err.text, "mode 1 has 1099511627776 indices") != NULL, "%s", err.text);
    assert_nothing_left();
    prepare(2, &o);
    rank[0].path[0] = rank[1].path[0] = "-";
    ck_assert_int_eq(run_ranks(2), TS_EARG);
    ck_assert_msg(strstr(err.text, "standard input") != NULL, "%s", err.text);
    assert_nothing_left();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("build_ranks");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, same_bytes_as_one_process, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(t, rooms_of_ranks, 0, 4);
    tcase_add_test(t, sorted_text_that_grows);
    tcase_add_loop_test(t, sorted_text, 0, sizeof sorted_texts / sizeof *sorted_texts);
    tcase_add_loop_test(t, any_order, 2, 6);
    tcase_add_loop_test(t, few_lines, 0, 4);
    tcase_add_test(t, parts_of_files);
    tcase_add_loop_test(t, parts_of_binary_files, 0, sizeof binaries / sizeof *binaries);
    tcase_add_loop_test(t, names_of_tables, 0, sizeof tables / sizeof *tables);
    tcase_add_loop_test(t, names_of_many_modes, 0, 2 * sizeof wave_ranks / sizeof *wave_ranks);
    tcase_add_loop_test(t, names_keep_values_and_weights, 0, sizeof entries / sizeof *entries);
    tcase_add_loop_test(t, names_fail_together, 0, 2);
    tcase_add_loop_test(t, a_rank_that_cannot_number_ends_all, 0,
                        sizeof troubles / sizeof *troubles);
    tcase_add_loop_test(t, a_bad_line_is_named, 0, 4);
    tcase_add_loop_test(t, a_bad_nonzero_is_named, 0, 4);
    tcase_add_loop_test(t, one_fails_all_end, 0, 3);
    tcase_add_loop_test(t, one_stops_all_stop, 0, 3);
    tcase_add_test(t, what_ranks_cannot_is_refused);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
