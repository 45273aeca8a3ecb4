/* SPDX-License-Identifier: BSD-3-Clause */
/* One changed byte anywhere in a tensor directory, or a file cut short anywhere, is found before
 * the bytes are used, and named in a sentence. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
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

/* Opens the tensor and reads all that it holds. */
static int read_all(struct ts_err *err)
{
    struct ts_tensor *t;
    void *raw;
    int rc = ts_tensor_open(dir, &t, err);
    if (rc < 0)
        return rc;
    raw = malloc(ts_tensor_raw_bytes(t));
    for (uint32_t m = 0; rc == 0 && m < t->order; m++) {
        const uint64_t first = 0;
        uint64_t *rows = NULL;
        char *label = NULL;
        rc = ts_tensor_rows(t, m, &rows, err);
        if (rc == 0)
            rc = ts_tensor_labels(t, m, 1, &first, &label, err);
        for (uint64_t s = 0; rc == 0 && s < t->mode[m].disk.n_shards; s++)
            rc = ts_tensor_read_shard(t, m, s, raw, err);
        free(rows);
        free(label);
    }
    free(raw);
    ts_tensor_close(t);
    return rc;
}

static void must_fail(const char *name, long at)
{
    struct ts_err err = { 0 };
    const int rc = read_all(&err);
    ck_assert_msg(rc == TS_EFORMAT, "%s, byte %ld: code %d", name, at, rc);
    ck_assert_msg(strstr(err.text, name) != NULL, "%s, byte %ld: %s", name, at, err.text);
}

static const struct test_tsh_conf confs[] = {
    { TS_VALUE_INT, 0, 3, 0, 1 },
    { TS_VALUE_F32, 0, 0, 1, 0 },
    { TS_VALUE_DICT, 0, 2, 1, 1 },
};

static void make(int i)
{
    static const uint64_t dim[3] = { 20, 30, 4 };
    struct test_coo x = test_coo_random(9, 3, dim, 600, i == 1 ? 0 : 7, 1);
    struct ts_err err;
    test_tsh_write(dir, &x, &confs[i]);
    ck_assert_msg(read_all(&err) == 0, "%s", err.text);
    test_coo_free(&x);
}

/* Calls `damage` for every file of the tensor. */
static void each_file(void (*damage)(const char *name, const char *path, long size))
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    while ((entry = readdir(d)) != NULL) {
        char path[4400];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            damage(entry->d_name, path, st.st_size);
    }
    closedir(d);
}

static void flip_bytes(const char *name, const char *path, long size)
{
    FILE *f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    setvbuf(f, NULL, _IONBF, 0);
    for (long at = 0; at < size; at++) {
        int byte;
        fseek(f, at, SEEK_SET);
        byte = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(byte ^ (1 << ts_mix((uint64_t)at) % 8), f);
        must_fail(name, at);
        fseek(f, at, SEEK_SET);
        fputc(byte, f);
    }
    fclose(f);
}

START_TEST(every_flipped_byte_is_found)
{
    struct ts_err err;
    make(_i);
    each_file(flip_bytes);
    ck_assert_int_eq(read_all(&err), 0); /* all put back */
}
END_TEST

static void cut_short(const char *name, const char *path, long size)
{
    FILE *f = fopen(path, "rb");
    char *bytes = malloc((size_t)size);
    ck_assert_uint_eq(fread(bytes, (size_t)size, 1, f), 1);
    fclose(f);
    for (long n = 0; n < size; n += 1 + n / 50) {
        ck_assert_int_eq(truncate(path, n), 0);
        must_fail(name, n);
        f = fopen(path, "r+b"); /* not "wb": some file systems write what replaces a file at once */
        fseek(f, n, SEEK_SET);
        ck_assert_uint_eq(fwrite(bytes + n, (size_t)(size - n), 1, f), 1);
        fclose(f);
    }
    free(bytes);
}

START_TEST(every_cut_is_found)
{
    make(_i);
    each_file(cut_short);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("damage");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, every_flipped_byte_is_found, 0, 3);
    tcase_add_loop_test(tc, every_cut_is_found, 0, 3);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
