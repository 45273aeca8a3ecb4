/* SPDX-License-Identifier: BSD-3-Clause */
/* A tensor directory opens when all of it fits together, and says what does not. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/rng.h"
#include "build/write/entropy.h"
#include "format/tensor.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

static char *tmp, dir[4096];

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(dir, sizeof dir, "%s/x.tsh", tmp);
}

static void teardown(void)
{
    test_tsh_remove(dir);
    test_tsh_remove(tmp);
    free(tmp);
}

static const uint64_t small_dim[3] = { 40, 300, 20 }, wide_dim[3] = { 40, 3000, 200 };

static struct test_coo make(const struct test_tsh_conf *conf, const uint64_t *dim, uint64_t nnz,
                            uint32_t value_range)
{
    struct test_coo x = test_coo_random(3, 3, dim, nnz, value_range, 1);
    test_tsh_write(dir, &x, conf);
    return x;
}

/* Replaces bytes of a file of the tensor. */
static void poke(const char *name, long at, const void *bytes, size_t n)
{
    char path[4200];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, at, SEEK_SET), 0);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

/* Makes the checksum of the index right again, so that what it says is looked at. */
static void rehash(void)
{
    char path[4200];
    struct stat st;
    uint8_t *bytes;
    uint64_t hash;
    FILE *f;
    snprintf(path, sizeof path, "%s/index", dir);
    ck_assert_int_eq(stat(path, &st), 0);
    bytes = malloc((size_t)st.st_size);
    f = fopen(path, "rb");
    ck_assert_uint_eq(fread(bytes, (size_t)st.st_size, 1, f), 1);
    fclose(f);
    hash = XXH3_64bits(bytes, (size_t)st.st_size - 8);
    poke("index", (long)st.st_size - 8, &hash, 8);
    free(bytes);
}

static const char *why_not(int code)
{
    static struct ts_err err;
    struct ts_tensor *t = NULL;
    ck_assert_int_eq(ts_tensor_open(dir, &t, &err), code);
    ck_assert_ptr_null(t);
    ck_assert_ptr_nonnull(strstr(err.text, dir));
    return err.text;
}

#define ck_assert_has(text, part) ck_assert_msg(strstr(text, part) != NULL, "%s", text)

START_TEST(what_was_written_is_read)
{
    static const struct test_tsh_conf confs[] = {
        { TS_VALUE_CONST, 0, 0, 0, 0 }, { TS_VALUE_INT, 1, 3, 0, 1 }, { TS_VALUE_DICT, 0, 7, 1, 0 },
        { TS_VALUE_F32, 1, 100, 1, 1 }, { TS_VALUE_F64, 2, 1, 1, 0 },
    };
    const struct test_tsh_conf *conf = &confs[_i];
    const uint32_t range = _i == 0 ? 1 : _i < 3 ? 9 : 0;
    struct test_coo x = make(conf, wide_dim, 40000, range);
    struct ts_tensor *t;
    struct ts_err err;
    ck_assert_msg(ts_tensor_open(dir, &t, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(t->nnz, x.nnz);
    for (uint32_t m = 0; m < 3; m++) {
        const struct ts_mode *mode = &t->mode[m];
        const uint32_t n_codes = ts_value_codes(conf->kind);
        void *raw = malloc(ts_tensor_raw_bytes(t));
        uint64_t *rows, n = 0;
        struct ts_block_parts parts;
        struct ts_block block;
        test_coo_sort(&x, mode->disk.level);
        ck_assert_int_eq(ts_tensor_rows(t, m, &rows, &err), 0);
        for (uint64_t i = 0; i < mode->disk.n_rows; i++)
            ck_assert_uint_eq(rows == NULL ? i : rows[i], test_tsh_index(conf, m, i));
        for (uint64_t s = 0; s < mode->disk.n_shards; s++) {
            ck_assert_msg(ts_tensor_read_shard(t, m, s, raw, &err) == 0, "%s", err.text);
            for (uint32_t b = 0; b < mode->shard[s].n_blocks; b++) {
                const struct ts_block_at at = ts_shard_block(&mode->shard[s], raw, b);
                ck_assert_int_eq(
                    ts_block_parse(at.word, at.n_words, 3, at.nnz, n_codes, &parts, &err), 0);
                ts_block_decode(&parts, at.row, &block);
                for (uint32_t p = 0; p < block.n; p++, n++) {
                    for (uint32_t l = 0; l < 3; l++)
                        ck_assert_uint_eq(block.level[l][p], x.idx[mode->disk.level[l]][n]);
                    ck_assert(ts_tensor_value(t, n_codes > 0 ? block.code[0][p] : 0,
                                              n_codes > 1 ? block.code[1][p] : 0) == x.val[n]);
                }
            }
        }
        ck_assert_uint_eq(n, x.nnz);
        free(rows);
        free(raw);
    }
    ts_tensor_close(t);
    test_coo_free(&x);
}
END_TEST

START_TEST(labels_are_found)
{
    const struct test_tsh_conf conf = { TS_VALUE_INT, 0, 500, 0, 1 };
    struct test_coo x = make(&conf, small_dim, 1000, 5);
    const uint64_t dim = 500 * x.dim[1] + 1;
    const uint64_t index[] = { 0, 1, 1, 77, 4000, dim - 1, dim, dim + 5 };
    struct ts_tensor *t;
    struct ts_err err;
    char *name[8], flip = '#';
    ck_assert_msg(ts_tensor_open(dir, &t, &err) == 0, "%s", err.text);
    ck_assert_msg(ts_tensor_labels(t, 1, 8, index, name, &err) == 0, "%s", err.text);
    for (int i = 0; i < 6; i++) {
        char want[40];
        snprintf(want, sizeof want, "2/%llu", (unsigned long long)index[i]);
        ck_assert_str_eq(name[i], want);
        free(name[i]);
    }
    ck_assert_ptr_null(name[6]);
    ck_assert_ptr_null(name[7]);
    poke("mode2.labels", 1000000, &flip, 1);
    ck_assert_int_eq(ts_tensor_labels(t, 1, 8, index, name, &err), TS_EFORMAT);
    ck_assert_has(err.text, "checksum");
    for (int i = 0; i < 8; i++)
        ck_assert_ptr_null(name[i]);
    ts_tensor_close(t);
    test_coo_free(&x);
}
END_TEST

/* No builder writes a NUL byte, and a string of C would end there. */
START_TEST(a_label_with_nul_bytes_is_whole)
{
    static const char *const want[] = { "2/5\357\277\275", "2\357\277\27556", "2/57" };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_INT, .stretch = 3, .labels = 1 };
    const uint64_t index[3] = { 55, 56, 57 };
    struct test_coo x = make(&conf, small_dim, 2000, 5);
    char path[4200], *name[3], *bytes, *at;
    struct ts_tensor *t;
    struct ts_err err;
    size_t n;
    FILE *f;
    ck_assert_msg(ts_tensor_open(dir, &t, &err) == 0, "%s", err.text);
    n = t->mode[1].disk.labels_bytes;
    bytes = malloc(n);
    snprintf(path, sizeof path, "%s/mode2.labels", dir);
    f = fopen(path, "r+b");
    ck_assert(bytes != NULL && f != NULL && fread(bytes, 1, n, f) == n);
    at = memmem(bytes, n, "\n2/55\n2/56\n", 11);
    ck_assert_ptr_nonnull(at);
    at[4] = at[7] = '\0';
    rewind(f);
    ck_assert(fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    t->mode[1].disk.labels_hash = XXH3_64bits(bytes, n);
    ck_assert_msg(ts_tensor_labels(t, 1, 3, index, name, &err) == 0, "%s", err.text);
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(name[i], want[i]);
        free(name[i]);
    }
    free(bytes);
    ts_tensor_close(t);
    test_coo_free(&x);
}
END_TEST

/* Reading does not move a file's position either: it is read twice. */
START_TEST(a_tensor_that_is_gone_is_still_read)
{
    const struct test_tsh_conf conf = { .kind = TS_VALUE_INT, .stretch = 3, .labels = 1 };
    const uint64_t index[1] = { 5 };
    uint64_t *before = NULL, *after = NULL;
    struct test_coo x = make(&conf, small_dim, 2000, 5);
    struct ts_tensor *t;
    char *name[1];
    struct ts_err err;
    ck_assert_int_eq(ts_tensor_open(dir, &t, &err), 0);
    ck_assert_int_eq(ts_tensor_rows(t, 0, &before, &err), 0);
    test_tsh_remove(dir);
    ck_assert_msg(ts_tensor_rows(t, 0, &after, &err) == 0, "%s", err.text);
    ck_assert_mem_eq(before, after, t->mode[0].disk.n_rows * sizeof *after);
    ck_assert_msg(ts_tensor_labels(t, 1, 1, index, name, &err) == 0, "%s", err.text);
    ck_assert_str_eq(name[0], "2/5");
    free(name[0]);
    free(before);
    free(after);
    ts_tensor_close(t);
    test_coo_free(&x);
}
END_TEST

START_TEST(other_directories_are_no_tensors)
{
    struct test_coo x;
    const struct test_tsh_conf conf = { TS_VALUE_INT, 0, 3, 0, 0 };
    char path[4200];
    ck_assert_has(why_not(TS_EIO), "No such file");
    snprintf(path, sizeof path, "%s.building", dir);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    ck_assert_has(why_not(TS_EBUSY), ".building is there");
    rmdir(path);
    ck_assert_int_eq(mkdir(dir, 0777), 0);
    ck_assert_has(why_not(TS_EFORMAT), "not a tensor directory");
    rmdir(dir);
    close(creat(dir, 0666));
    ck_assert_has(why_not(TS_EFORMAT), "not a tensor directory but an empty file");
    unlink(dir);
    x = make(&conf, small_dim, 500, 5);
    snprintf(path, sizeof path, "%s/index", dir);
    ck_assert_int_eq(truncate(path, 0), 0);
    ck_assert_has(why_not(TS_EFORMAT), "too short");
    test_coo_free(&x);
}
END_TEST

START_TEST(files_cut_short_are_seen_at_opening)
{
    static const char *const file[] = { "index", "mode2.shards", "mode1.rows", "mode3.labels" };
    const struct test_tsh_conf conf = { TS_VALUE_INT, 0, 3, 0, 1 };
    struct test_coo x = make(&conf, small_dim, 2000, 5);
    struct stat st;
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", dir, file[_i]);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(truncate(path, st.st_size - 1), 0);
    ck_assert_has(why_not(TS_EFORMAT), "cut short");
    ck_assert_int_eq(truncate(path, st.st_size + 1), 0);
    ck_assert_has(why_not(TS_EFORMAT), "bytes, expected");
    if (_i > 0) {
        unlink(path);
        ck_assert_has(why_not(TS_EIO), "No such file");
    }
    test_coo_free(&x);
}
END_TEST

/* Offsets of fields, with a value that must not pass and a word of the sentence. */
#define HEADER(field)   (long)offsetof(struct ts_disk_header, field)
#define MODE(m, field)  (long)(256 + 128 * (m) + offsetof(struct ts_disk_mode, field))
#define SHARD(i, field) (long)(256 + 128 * 3 + 64 * (i) + offsetof(struct ts_disk_shard, field))
static const struct lie {
    long at;
    uint32_t value;
    const char *word;
} lies[] = {
    { 0, 0x58585858, "not the index" },
    { HEADER(version), 5, "version 5" },
    { HEADER(version), 4, "" },      /* a list of segments, which this is not */
    { HEADER(version), 2, "flags" }, /* which says that there may be values of 0 */
    { HEADER(version), 3, "flags" }, /* and this one that there are weights */
    { HEADER(flags), TS_TENSOR_WEIGHTS, "flags" },
    { HEADER(order), 1, "order" },
    { HEADER(order), 17, "order" },
    { HEADER(order), 4, "" },
    { HEADER(order), 2, "" },
    { HEADER(nnz), 1, "" },
    { HEADER(nnz) + 4, 0x1000, "nonzeros" },
    { HEADER(norm) + 4, 0x7ff80000, "norm" },
    { HEADER(value_kind), 5, "kind" },
    { HEADER(value_kind), TS_VALUE_DICT, "dictionary" },
    { HEADER(value_bytes), 3, "kind" },
    { HEADER(n_dict), 1000, "dictionary" },
    { HEADER(block_nnz), 128, "blocks" },
    { HEADER(partition_blocks), 0, "blocks" },
    { HEADER(max_shard_bytes), 4, "size" },
    { HEADER(max_shard_bytes), UINT32_MAX, "largest shard" },
    { HEADER(flags), 128, "flags" },
    { HEADER(reserved) + 100, 1, "flags" },
    { MODE(0, dim), 0, "size" },
    { MODE(0, dim) + 4, 0x200, "size" },
    { MODE(1, n_rows), 0, "slices" },
    { MODE(1, n_rows) + 4, 1, "slices" },
    { MODE(2, n_shards), 0, "tables" },
    { MODE(2, n_shards) + 4, 0x40000000, "tables" },
    { MODE(0, shards_bytes), 4096, "shards" },
    { MODE(0, rows_bytes), 0, "rows" },
    { MODE(0, rows_hash), 0, "checksum" },
    { MODE(0, labels_bytes), 31, "labels" },
    { MODE(0, n_labels), UINT32_MAX, "labels" },
    { MODE(0, largest_slice), 0, "largest slice" },
    { MODE(0, largest_slice), 10000000, "largest slice" },
    { MODE(1, level), 0x00010201, "levels" },
    { MODE(1, level), 0x00020100, "levels" },
    { MODE(1, level), 0x01000201, "levels" },
    { MODE(1, level) + 12, 1, "levels" },
    { MODE(2, reserved), 1, "unknown bytes" },
    { SHARD(0, offset), 4096, "behind" },
    { SHARD(1, offset), 0, "behind" },
    { SHARD(0, hash), 1, "checksum" },
    { SHARD(0, stored_bytes), 4, "stored size" },
    { SHARD(0, raw_bytes), 5, "size" },
    { SHARD(0, raw_bytes), 0xfffffffc, "size" },
    { SHARD(0, nnz), 0, "blocks" },
    { SHARD(0, nnz), 16383, "whole partitions" },
    { SHARD(0, n_blocks), 3, "blocks" },
    { SHARD(0, row_first), 1, "follow" },
    { SHARD(1, row_first), 0, "follow" },
    { SHARD(0, row_last), 1000, "last row" },
    { SHARD(0, flags), 2, "flags" },
    { SHARD(0, flags), 1, "stored size" },
    { SHARD(0, reserved), 1, "flags" },
};
#define N_LIES (int)(sizeof lies / sizeof lies[0])

/* Opens the tensor and reads shard and rows of mode 1: a wrong hash is seen when its file is
 * read. */
static int open_and_read(struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    uint64_t *rows = NULL;
    void *raw;
    int rc = ts_tensor_open(dir, &t, err);
    if (rc < 0)
        return rc;
    raw = malloc(ts_tensor_raw_bytes(t));
    rc = ts_tensor_read_shard(t, 0, 0, raw, err);
    if (rc == 0)
        rc = ts_tensor_rows(t, 0, &rows, err);
    free(rows);
    free(raw);
    ts_tensor_close(t);
    return rc;
}

/* Every field is checked even when the checksum is right: a forged index must not be followed. */
START_TEST(an_index_that_lies_is_refused)
{
    const struct test_tsh_conf conf = { TS_VALUE_INT, 1, 3, 0, 1 };
    struct test_coo x = make(&conf, wide_dim, 18000, 5);
    char path[4200];
    struct ts_err err = { 0 };
    snprintf(path, sizeof path, "%s/index", dir);
    for (int i = 0; i < N_LIES; i++) {
        uint32_t truth;
        FILE *f = fopen(path, "rb");
        fseek(f, lies[i].at, SEEK_SET);
        ck_assert_uint_eq(fread(&truth, sizeof truth, 1, f), 1);
        fclose(f);
        poke("index", lies[i].at, &lies[i].value, 4);
        rehash();
        ck_assert_msg(open_and_read(&err) == TS_EFORMAT, "byte %ld, %u", lies[i].at, lies[i].value);
        ck_assert_has(err.text, lies[i].word);
        poke("index", lies[i].at, &truth, 4);
        rehash();
    }
    ck_assert_int_eq(open_and_read(&err), 0);
    test_coo_free(&x);
}
END_TEST

START_TEST(one_flipped_byte_of_the_index_is_seen)
{
    const struct test_tsh_conf conf = { TS_VALUE_DICT, 0, 3, 0, 0 };
    struct test_coo x = make(&conf, small_dim, 2000, 5);
    char path[4200];
    struct stat st;
    snprintf(path, sizeof path, "%s/index", dir);
    ck_assert_int_eq(stat(path, &st), 0);
    for (long at = 0; at < st.st_size; at++) {
        FILE *f = fopen(path, "rb");
        int byte, flipped;
        fseek(f, at, SEEK_SET);
        byte = fgetc(f);
        fclose(f);
        flipped = byte ^ (1 << at % 8);
        poke("index", at, &flipped, 1);
        (void)why_not(TS_EFORMAT);
        poke("index", at, &byte, 1);
    }
    test_coo_free(&x);
}
END_TEST

/* Against sums of logarithms. 1e-12: the stated error, far above that of either side. */
START_TEST(log2_choose_equals_the_product)
{
    for (uint32_t n = 1; n < 3000; n += 1 + n / 3)
        for (uint32_t k = 0; k <= n; k++) {
            long double want = 0;
            for (uint32_t i = 0; i < (k < n - k ? k : n - k); i++)
                want += log2l((long double)(n - i) / (i + 1));
            ck_assert_double_le(fabs(ts_entropy_log2_choose(n, k) - (double)want),
                                1e-12 * (1 + (double)want));
        }
}
END_TEST

/* The wanted figures were computed with 300 decimal digits. */
START_TEST(log2_choose_of_huge_counts)
{
    static const struct {
        double n, k, want;
    } big[] = {
        { 6e13, 1e7, 239592246.95460072 },        { 0x1p60, 0x1p40, 23576491771902.92 },
        { 0x1p640, 0x1p40, 661293236638370.9 },   { 0x1p640, 1, 640 },
        { 0x1p41, 0x1p40, 2199023255531.1743 },   { 0x1p40 + 5, 0x1p40, 193.09310940441117 },
        { 1.5552e19, 1.7e9, 58707020307.883865 },
    };
    ck_assert(fabs(ts_entropy_log2_choose(big[_i].n, big[_i].k) / big[_i].want - 1) < 1e-12);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensor");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, what_was_written_is_read, 0, 5);
    tcase_add_test(tc, labels_are_found);
    tcase_add_test(tc, a_label_with_nul_bytes_is_whole);
    tcase_add_test(tc, a_tensor_that_is_gone_is_still_read);
    tcase_add_test(tc, other_directories_are_no_tensors);
    tcase_add_loop_test(tc, files_cut_short_are_seen_at_opening, 0, 4);
    tcase_add_test(tc, an_index_that_lies_is_refused);
    tcase_add_test(tc, one_flipped_byte_of_the_index_is_seen);
    tcase_add_test(tc, log2_choose_equals_the_product);
    tcase_add_loop_test(tc, log2_choose_of_huge_counts, 0, 7);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
