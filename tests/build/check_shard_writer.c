/* SPDX-License-Identifier: BSD-3-Clause */
/* Shards reach the file in their order and whole, whoever joined and wrote them. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/rng.h"
#include "build/write/shard_writer.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

#define N_SHARDS 40u

static char *tmp, path[4096];
static struct ts_err err;

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(path, sizeof path, "%s/mode1.shards", tmp);
}

static void teardown(void)
{
    remove(path);
    rmdir(tmp);
    free(tmp);
}

/* Stands in for the C library's: direct writes may be refused, but only after a while, in which
 * another thread's are too. */
static int refuse_direct;

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    if (refuse_direct && (fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
        usleep((useconds_t)(ts_mix((uint64_t)at) % 20000));
        errno = EINVAL;
        return -1;
    }
    return (ssize_t)syscall(SYS_pwrite64, fd, data, bytes, at);
}

/* Partition k: some blocks of a few words each, which compress when k is even. */
static struct ts_packed_partition *make_partition(uint64_t k)
{
    const uint32_t n_blocks = 1 + (uint32_t)(ts_mix(k) % TS_PARTITION_BLOCKS);
    struct ts_packed_partition *r;
    uint32_t n_words = 0;
    for (uint32_t b = 0; b < n_blocks; b++)
        n_words += 3 + (uint32_t)(ts_mix(100 * k + b) % 50);
    r = calloc(1, sizeof *r + 4 * n_words);
    r->n_blocks = n_blocks;
    for (uint32_t b = 0; b < n_blocks; b++) {
        r->block_at[b] = r->n_words;
        r->block_row[b] = (uint32_t)k * 1000 + b;
        r->n_words += 3 + (uint32_t)(ts_mix(100 * k + b) % 50);
    }
    for (uint32_t i = 0; i < n_words; i++)
        r->word[i] = k % 2 == 0 ? (uint32_t)k : (uint32_t)ts_mix(k * 100000 + i);
    r->nnz = 256 * n_blocks;
    r->row_first = (uint32_t)k * 1000;
    r->row_last = r->row_first + n_blocks - 1;
    return r;
}

/* Shard s: one to four partitions. */
static struct ts_shard_draft make_draft(uint32_t s)
{
    struct ts_shard_draft d = { 0 };
    for (uint32_t k = 4 * s; k < 4 * s + 1 + s % 4; k++) {
        struct ts_packed_partition *r = make_partition(k);
        if (d.first == NULL)
            d.first = r;
        else
            d.last->next = r;
        d.last = r;
        d.n_blocks += r->n_blocks;
        d.body_words += r->n_words;
        d.nnz += r->nnz;
        d.row_last = r->row_last;
    }
    d.row_first = d.first->row_first;
    return d;
}

/* What the bytes of a shard must be, one word after another. */
static uint32_t *expect_raw(uint32_t s, uint32_t *n_words)
{
    struct ts_shard_draft d = make_draft(s);
    uint32_t *raw = malloc(4 * (2 * (size_t)d.n_blocks + 1 + d.body_words)), n = 0;
    uint32_t at = 2 * d.n_blocks + 1;
    for (const struct ts_packed_partition *r = d.first; r != NULL; at += r->n_words, r = r->next)
        for (uint32_t b = 0; b < r->n_blocks; b++)
            raw[n++] = at + r->block_at[b];
    raw[n++] = at;
    for (const struct ts_packed_partition *r = d.first; r != NULL; r = r->next)
        for (uint32_t b = 0; b < r->n_blocks; b++)
            raw[n++] = r->block_row[b] - d.row_first;
    for (const struct ts_packed_partition *r = d.first; r != NULL; r = r->next)
        for (uint32_t i = 0; i < r->n_words; i++)
            raw[n++] = r->word[i];
    ts_shard_draft_drop(&d, NULL);
    *n_words = n;
    return raw;
}

static void check_shard(const char *file, const struct ts_disk_shard *e, uint32_t s)
{
    const size_t padded = (e->stored_bytes + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
    struct ts_shard_draft d = make_draft(s);
    uint32_t n, *want = expect_raw(s, &n), *raw = malloc(e->raw_bytes);
    ck_assert_uint_eq(e->raw_bytes, 4 * n);
    ck_assert_uint_eq(e->nnz, d.nnz);
    ck_assert_uint_eq(e->n_blocks, d.n_blocks);
    ck_assert_uint_eq(e->row_first, d.row_first);
    ck_assert_uint_eq(e->row_last, d.row_last);
    ck_assert_uint_eq(e->hash, XXH3_64bits(file + e->offset, padded));
    for (size_t i = e->stored_bytes; i < padded; i++)
        ck_assert_int_eq(file[e->offset + i], 0);
    if (e->flags == TS_SHARD_LZ4)
        ck_assert_int_eq(LZ4_decompress_safe(file + e->offset, (char *)raw, (int)e->stored_bytes,
                                             (int)e->raw_bytes),
                         (int)e->raw_bytes);
    else
        memcpy(raw, file + e->offset, e->raw_bytes);
    ck_assert(memcmp(raw, want, e->raw_bytes) == 0);
    ts_shard_draft_drop(&d, NULL);
    free(want);
    free(raw);
}

static void check_file(const struct ts_disk_shard *shard, uint64_t n_shards, uint64_t file_bytes)
{
    char *file = malloc(file_bytes);
    const int fd = open(path, O_RDONLY);
    struct stat st;
    uint64_t at = 0;
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(st.st_size, (off_t)file_bytes);
    ck_assert_int_eq(read(fd, file, file_bytes), (ssize_t)file_bytes);
    ck_assert_uint_eq(n_shards, N_SHARDS);
    for (uint32_t s = 0; s < n_shards; s++) {
        ck_assert_uint_eq(shard[s].offset, at);
        check_shard(file, &shard[s], s);
        at += (shard[s].stored_bytes + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
    }
    ck_assert_uint_eq(at, file_bytes);
    close(fd);
    free(file);
}

static struct ts_shard_writer *helped;

static void *help(void *arg)
{
    for (uint32_t k = 0; k < N_SHARDS; k++)
        ck_assert_int_eq(ts_shard_writer_make_room(helped, NULL), 0);
    return arg;
}

/* _i: with compression or without, one to three threads and buffers, and a thread that only
 * helps. */
START_TEST(shards_are_in_order_and_whole)
{
    const struct ts_shard_writer_plan plan = { .path = path,
                                               .compress = _i % 2,
                                               .threads = 1 + (uint32_t)_i / 2 % 3,
                                               .n_buffers = 1 + (uint32_t)_i / 6 };
    struct ts_disk_shard *shard;
    uint64_t n_shards, file_bytes;
    struct ts_cell_sum cells;
    uint32_t packed = 0;
    pthread_t helper;
    ck_assert_msg(ts_shard_writer_new(&plan, &helped, &err) == 0, "%s", err.text);
    ck_assert_int_eq(pthread_create(&helper, NULL, help, NULL), 0);
    for (uint32_t s = 0; s < N_SHARDS; s++) {
        struct ts_shard_draft d = make_draft(s);
        ck_assert_int_eq(ts_shard_writer_make_room(helped, &err), 0);
        ck_assert_int_eq(ts_shard_writer_put(helped, &d, &err), 0);
        ck_assert_ptr_null(d.first);
    }
    pthread_join(helper, NULL);
    ck_assert_int_eq(ts_shard_writer_finish(helped, &shard, &n_shards, &file_bytes, &cells, &err),
                     0);
    ts_shard_writer_free(helped);
    check_file(shard, n_shards, file_bytes);
    for (uint32_t s = 0; s < n_shards; s++)
        packed += shard[s].flags == TS_SHARD_LZ4;
    ck_assert(plan.compress ? packed > 0 && packed < n_shards : packed == 0);
    free(shard);
}
END_TEST

/* A file system that opens so but wants larger pages: several threads find out at once. */
START_TEST(direct_writes_may_be_refused)
{
    const struct ts_shard_writer_plan plan = { .path = path, .threads = 4, .n_buffers = 8 };
    struct ts_disk_shard *shard;
    uint64_t n_shards, file_bytes;
    struct ts_cell_sum cells;
    refuse_direct = 1;
    ck_assert_msg(ts_shard_writer_new(&plan, &helped, &err) == 0, "%s", err.text);
    for (uint32_t s = 0; s < N_SHARDS; s++) {
        struct ts_shard_draft d = make_draft(s);
        ck_assert_msg(ts_shard_writer_put(helped, &d, &err) == 0, "%s", err.text);
    }
    ck_assert_msg(ts_shard_writer_finish(helped, &shard, &n_shards, &file_bytes, &cells, &err) == 0,
                  "%s", err.text);
    ts_shard_writer_free(helped);
    check_file(shard, n_shards, file_bytes);
    free(shard);
}
END_TEST

START_TEST(an_unfinished_writer_can_be_freed)
{
    const struct ts_shard_writer_plan plan = { .path = path, .threads = 2, .n_buffers = 1 };
    struct ts_shard_writer *w;
    ck_assert_int_eq(ts_shard_writer_new(&plan, &w, &err), 0);
    for (uint32_t s = 0; s < N_SHARDS; s++) {
        struct ts_shard_draft d = make_draft(s);
        ck_assert_int_eq(ts_shard_writer_put(w, &d, &err), 0);
    }
    ts_shard_writer_free(w);
    ts_shard_writer_free(NULL);
}
END_TEST

START_TEST(a_file_that_exists_stays)
{
    const struct ts_shard_writer_plan plan = { .path = path, .threads = 1, .n_buffers = 1 };
    struct ts_shard_writer *w;
    close(open(path, O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(ts_shard_writer_new(&plan, &w, &err), TS_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "mode1.shards: cannot create"));
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shard_writer");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_loop_test(all, shards_are_in_order_and_whole, 0, 18);
    tcase_add_test(all, direct_writes_may_be_refused);
    tcase_add_test(all, an_unfinished_writer_can_be_freed);
    tcase_add_test(all, a_file_that_exists_stays);
    suite_add_tcase(suite, all);
    return test_run_suite(suite, CK_FORK_GETENV);
}
