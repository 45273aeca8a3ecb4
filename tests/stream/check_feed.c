/* SPDX-License-Identifier: BSD-3-Clause */
/* A feed lends every shard of a mode once a pass, intact, whatever the budget, the threads and what
 * the kernel grants; what is damaged is refused before it is lent. */
#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "format/shard.h"
#include "stream/feed/feed.h"
#include "stream/feed/reader.h"
#include "stream/feed/residency.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

#define TMPFS_MAGIC_NUMBER 0x01021994

static char *tmp, dir[4096];
static struct ts_tensor *tensor;
static void **want[TS_MAX_ORDER]; /* raw bytes of each shard */

static void open_tensor(const char *where, uint32_t kind, int lz4)
{
    static const uint64_t dim[3] = { 60, 900, 300 };
    const struct test_tsh_conf conf = { .kind = kind, .shard_partitions = 1, .lz4 = lz4 };
    struct test_coo x = test_coo_random(5, 3, dim, 60000, lz4 ? 3 : 0, 1);
    struct ts_err err;
    snprintf(dir, sizeof dir, "%s/x.tsh", where);
    test_tsh_write(dir, &x, &conf);
    test_coo_free(&x);
    ck_assert_msg(ts_tensor_open(dir, &tensor, &err) == 0, "%s", err.text);
    for (uint32_t m = 0; m < 3; m++) {
        const uint64_t n = tensor->mode[m].disk.n_shards;
        ck_assert_uint_ge(n, 4); /* 60000 nonzeros in shards of 16384 */
        want[m] = calloc(n, sizeof(void *));
        for (uint64_t i = 0; i < n; i++) {
            want[m][i] = malloc(tensor->header.max_shard_bytes + TS_SHARD_SLACK + 2 * TS_PAGE);
            ck_assert_int_eq(ts_tensor_read_shard(tensor, m, i, want[m][i], &err), 0);
        }
    }
}

static void close_tensor(void)
{
    for (uint32_t m = 0; m < 3; m++) {
        for (uint64_t i = 0; i < tensor->mode[m].disk.n_shards; i++)
            free(want[m][i]);
        free(want[m]);
    }
    ts_tensor_close(tensor);
    test_tsh_remove(dir);
}

static void setup(void)
{
    tmp = test_tsh_tmp();
    open_tensor(tmp, TS_VALUE_F32, 0);
}

static void setup_lz4(void)
{
    tmp = test_tsh_tmp();
    open_tensor(tmp, TS_VALUE_F64, 1); /* doubles of small integers: LZ4 shrinks them */
    ck_assert_uint_ne(tensor->mode[0].shard[0].flags & TS_SHARD_LZ4, 0);
}

static void teardown(void)
{
    close_tensor();
    test_tsh_remove(tmp);
    free(tmp);
}

static uint64_t place_bytes(void)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < tensor->mode[m].disk.n_shards; i++) {
            const uint64_t n = ts_residency_bytes(&tensor->mode[m].shard[i]);
            most = n > most ? n : most;
        }
    return most;
}

/* Budgets from two slots to everything: memory is taken in whole pages. */
static uint64_t budget(int i)
{
    static const uint64_t slots[] = { 2, 3, 4, 7, 12, 1000 };
    return slots[i] * place_bytes() + 2 * (uint64_t)sysconf(_SC_PAGESIZE);
}
#define N_BUDGETS 6

static struct ts_feed *new_feed(struct ts_feed_conf conf)
{
    struct ts_feed *feed = NULL;
    struct ts_err err;
    conf.tensor = tensor;
    ck_assert_msg(ts_feed_new(&conf, &feed, &err) == 0, "%s", err.text);
    return feed;
}

static void check_view(const struct ts_shard_view *v, uint32_t mode)
{
    uint64_t partitions = 0;
    ck_assert_uint_eq(v->mode, mode);
    ck_assert_uint_lt(v->shard, tensor->mode[mode].disk.n_shards);
    ck_assert_ptr_eq(v->entry, &tensor->mode[mode].shard[v->shard]);
    ck_assert_mem_eq(v->raw, want[mode][v->shard], v->entry->raw_bytes);
    for (uint64_t i = 0; i < v->shard; i++)
        partitions += ts_shard_partitions(&tensor->mode[mode].shard[i]);
    ck_assert_uint_eq(v->first_partition, partitions);
}

/* Takes up to `most` shards of a pass and marks them; the number of them. */
static uint64_t take(struct ts_feed *feed, uint32_t mode, uint64_t most, uint8_t *seen)
{
    struct ts_shard_view v;
    struct ts_err err;
    uint64_t n = 0;
    int rc = 1;
    while (n < most && (rc = ts_feed_next(feed, mode, 0, &v, &err)) == 1) {
        check_view(&v, mode);
        ck_assert_uint_eq(seen[v.shard]++, 0);
        ts_feed_done(feed, &v);
        n++;
    }
    ck_assert_msg(rc >= 0, "%s", err.text);
    return n;
}

static void pass_over(struct ts_feed *feed, uint32_t mode)
{
    uint8_t seen[1000] = { 0 };
    struct ts_shard_view v;
    const uint64_t n = tensor->mode[mode].disk.n_shards;
    ck_assert_uint_eq(take(feed, mode, UINT64_MAX, seen), n);
    ck_assert_int_eq(ts_feed_next(feed, mode, 0, &v, NULL), 0); /* and again 0 */
}

START_TEST(every_shard_comes_once_a_pass)
{
    static const unsigned avoid[] = { 0, TS_AVOID_URING, TS_AVOID_DIRECT,
                                      TS_AVOID_URING | TS_AVOID_DIRECT, TS_AVOID_REGISTER };
    struct ts_feed *feed = new_feed((struct ts_feed_conf){ .host_bytes = budget(_i / 5),
                                                           .only_mode = -1,
                                                           .avoid = avoid[_i % 5],
                                                           .checkers = (uint32_t)_i % 2 });
    struct ts_feed_stats stats;
    uint64_t all = 0, first;
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < tensor->mode[m].disk.n_shards; i++)
            all += ts_residency_stored(&tensor->mode[m].shard[i]);
    for (int sweep = 0; sweep < 4; sweep++)
        for (uint32_t m = 0; m < 3; m++)
            pass_over(feed, m);
    ts_feed_stats(feed, &stats);
    first = stats.bytes_read;
    ck_assert_uint_ge(first, all);
    ck_assert_uint_le(stats.resident_bytes + stats.slot_bytes * stats.n_slots, budget(_i / 5));
    if (stats.n_slots == 0)
        ck_assert_uint_eq(first, all); /* read once and kept */
    else
        ck_assert_uint_lt(stats.resident_bytes, all + 1000 * TS_PAGE);
    if (_i % 5 == 1 || _i % 5 == 3)
        ck_assert_int_eq(stats.uring, 0);
    if (_i % 5 == 2 || _i % 5 == 3)
        ck_assert_int_eq(stats.direct, 0);
    ts_feed_free(feed);
}
END_TEST

/* How often the threads of this process other than the caller went to sleep so far. */
static uint64_t sleeps_of_others(void)
{
    static const char what[] = "voluntary_ctxt_switches:";
    const pid_t self = (pid_t)syscall(SYS_gettid);
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *e;
    uint64_t sum = 0;
    ck_assert_ptr_nonnull(tasks);
    while ((e = readdir(tasks)) != NULL) {
        char path[300], line[200];
        FILE *f;
        if (e->d_name[0] == '.' || atoi(e->d_name) == self)
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        f = fopen(path, "r");
        while (f != NULL && fgets(line, sizeof line, f) != NULL)
            if (strncmp(line, what, sizeof what - 1) == 0)
                sum += strtoull(line + sizeof what - 1, NULL, 10);
        if (f != NULL)
            fclose(f);
    }
    closedir(tasks);
    return sum;
}

/* A sweep takes a core from nobody: once all is in memory, or with whoever keeps it, reader and
 * checkers sleep on. */
START_TEST(what_is_all_there_wakes_nobody)
{
    static unsigned char all[1000];
    struct ts_feed_conf conf = { .host_bytes = budget(N_BUDGETS - 1),
                                 .only_mode = -1,
                                 .checkers = 1,
                                 .avoid = _i % 2 ? TS_AVOID_URING : 0 };
    struct ts_feed *feed;
    struct ts_shard_view v;
    uint64_t before = 0;
    memset(all, 1, sizeof all);
    for (uint32_t m = 0; m < 3 && _i >= 2; m++)
        conf.deal.keep[m] = all;
    feed = new_feed(conf);
    for (int sweep = 0; sweep < 200; sweep++) {
        for (uint32_t m = 0; m < 3; m++) {
            if (sweep == 0 || _i < 2)
                pass_over(feed, m);
            else
                ck_assert_int_eq(ts_feed_next(feed, m, 0, &v, NULL), 0);
        }
        if (sweep == 0) {
            usleep(50000); /* the last that they were woken for */
            before = sleeps_of_others();
        }
    }
    ck_assert_uint_le(sleeps_of_others() - before, 20); /* 600 when each pass wakes one */
    ts_feed_free(feed);
}
END_TEST

START_TEST(one_mode_comes_over_and_over)
{
    struct ts_feed *feed =
        new_feed((struct ts_feed_conf){ .host_bytes = budget(_i), .only_mode = 1 });
    for (int pass = 0; pass < 5; pass++) {
        ts_feed_rewind(feed);
        pass_over(feed, 1);
    }
    ts_feed_free(feed);
}
END_TEST

/* Passes given up in the middle, modes out of turn, the same mode twice. */
START_TEST(any_order_of_passes_works)
{
    struct ts_feed *feed = new_feed((struct ts_feed_conf){
        .host_bytes = budget(_i % N_BUDGETS), .only_mode = -1, .checkers = (uint32_t)_i % 3 });
    uint64_t state = (uint64_t)_i;
    for (int pass = 0; pass < 40; pass++) {
        const uint32_t mode = (uint32_t)(ts_mix(++state) % 3);
        uint8_t seen[1000] = { 0 };
        ts_feed_rewind(feed);
        if (ts_mix(++state) % 2 == 0)
            pass_over(feed, mode);
        else
            take(feed, mode, ts_mix(++state) % 5, seen);
    }
    ts_feed_free(feed);
}
END_TEST

/* Modes that are left out, first some, then others, then none, then one that was to be skipped is
 * asked for. Nothing but what slots hold when the modes change is read in vain. */
START_TEST(modes_can_be_skipped)
{
    static const uint32_t skip[] = { 0, 5, 5, 3, 6, 1, 0, 4 };
    struct ts_feed *feed = new_feed((struct ts_feed_conf){
        .host_bytes = budget(_i % N_BUDGETS), .only_mode = -1, .checkers = (uint32_t)_i % 3 });
    struct ts_feed_stats stats;
    uint64_t largest = 0;
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < tensor->mode[m].disk.n_shards; i++)
            largest = ts_residency_stored(&tensor->mode[m].shard[i]) > largest
                          ? ts_residency_stored(&tensor->mode[m].shard[i])
                          : largest;
    for (uint32_t k = 0; k < sizeof skip / sizeof skip[0]; k++) {
        uint64_t most = 0;
        uint8_t seen[1000] = { 0 };
        ts_feed_skip(feed, skip[k]);
        ts_feed_stats(feed, &stats);
        for (uint32_t m = 0; m < 3; m++)
            for (uint64_t i = 0; i < tensor->mode[m].disk.n_shards && (skip[k] >> m & 1) == 0; i++)
                most += 4 * ts_residency_stored(&tensor->mode[m].shard[i]);
        for (int sweep = 0; sweep < 4; sweep++)
            for (uint32_t m = 0; m < 3; m++)
                if ((skip[k] >> m & 1) == 0) {
                    ts_feed_rewind(feed);
                    pass_over(feed, m);
                }
        ts_feed_stats(feed, &stats);
        if (k > 0) /* all that stays is there */
            ck_assert_uint_le(stats.bytes_read, most + 2 * stats.n_slots * largest);
        if (k % 3 == 2)
            take(feed, 1, 2, seen); /* given up in the middle */
        ts_feed_rewind(feed);
    }
    pass_over(feed, 2);
    ts_feed_free(feed);
}
END_TEST

START_TEST(freeing_early_is_fine)
{
    for (uint64_t n = 0; n < 6; n++) {
        struct ts_feed *feed = new_feed(
            (struct ts_feed_conf){ .host_bytes = budget(_i), .only_mode = -1, .checkers = 2 });
        uint8_t seen[1000] = { 0 };
        take(feed, 0, n, seen);
        ts_feed_free(feed);
    }
}
END_TEST

/* One slot is left to the reader when another shard is asked for. */
START_TEST(several_views_are_held_at_once)
{
    struct ts_feed *feed =
        new_feed((struct ts_feed_conf){ .host_bytes = budget(2), .only_mode = -1 });
    struct ts_feed_stats stats;
    struct ts_shard_view view[16];
    ts_feed_stats(feed, &stats);
    ck_assert_uint_ge(stats.n_slots, 2);
    ck_assert_uint_lt(stats.n_slots, 16);
    for (int pass = 0; pass < 6; pass++) {
        const uint32_t mode = (uint32_t)pass % 3;
        uint32_t held = 0, n = 0;
        int rc;
        do {
            if (held == stats.n_slots - 1)
                ts_feed_done(feed, &view[--held]);
            rc = ts_feed_next(feed, mode, 0, &view[held], NULL);
            if (rc == 1) {
                check_view(&view[held++], mode);
                n++;
            }
        } while (rc == 1);
        ck_assert_int_eq(rc, 0);
        ck_assert_uint_eq(n, tensor->mode[mode].disk.n_shards);
        while (held > 0)
            ts_feed_done(feed, &view[--held]);
    }
    ts_feed_free(feed);
}
END_TEST

struct crew {
    struct ts_feed *feed;
    pthread_barrier_t start, end;
    atomic_uint seen[3][1000];
    int passes;
};

static void *consume(void *arg)
{
    struct crew *c = arg;
    for (int pass = 0; pass < c->passes; pass++) {
        const uint32_t mode = (uint32_t)pass % 3;
        struct ts_shard_view v;
        pthread_barrier_wait(&c->start);
        while (ts_feed_next(c->feed, mode, 0, &v, NULL) == 1) {
            check_view(&v, mode);
            atomic_fetch_add(&c->seen[mode][v.shard], 1);
            ts_feed_done(c->feed, &v);
        }
        pthread_barrier_wait(&c->end);
    }
    return NULL;
}

START_TEST(many_threads_share_a_pass)
{
    enum { THREADS = 7 };
    static struct crew c;
    pthread_t thread[THREADS];
    memset(&c, 0, sizeof c);
    c.passes = 9;
    c.feed =
        new_feed((struct ts_feed_conf){ .host_bytes = budget(_i), .only_mode = -1, .checkers = 1 });
    pthread_barrier_init(&c.start, NULL, THREADS);
    pthread_barrier_init(&c.end, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, consume, &c), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < tensor->mode[m].disk.n_shards; i++)
            ck_assert_uint_eq(atomic_load(&c.seen[m][i]), 3);
    ts_feed_free(c.feed);
    pthread_barrier_destroy(&c.start);
    pthread_barrier_destroy(&c.end);
}
END_TEST

START_TEST(what_the_consumer_keeps_comes_once)
{
    unsigned char keep[3][1000];
    struct ts_feed_conf conf = { .host_bytes = budget(_i % N_BUDGETS),
                                 .only_mode = _i < N_BUDGETS ? -1 : 0 };
    struct ts_feed *feed;
    for (uint32_t m = 0; m < 3; m++) {
        memset(keep[m], 0, sizeof keep[m]);
        for (uint64_t i = 0; i <= m; i++)
            keep[m][2 * i % tensor->mode[m].disk.n_shards] = 1;
        conf.deal.keep[m] = keep[m];
    }
    feed = new_feed(conf);
    for (int pass = 0; pass < 12; pass++) {
        const uint32_t mode = _i < N_BUDGETS ? (uint32_t)pass % 3 : 0;
        const uint64_t n = tensor->mode[mode].disk.n_shards;
        const int first = _i < N_BUDGETS ? pass < 3 : pass == 0;
        uint8_t seen[1000] = { 0 };
        ts_feed_rewind(feed);
        take(feed, mode, UINT64_MAX, seen);
        for (uint64_t i = 0; i < n; i++)
            ck_assert_int_eq(seen[i], first || !keep[mode][i]);
    }
    ts_feed_free(feed);
}
END_TEST

/* Modes are left out while shards that the consumer keeps are on their way: all come, and once. */
START_TEST(what_is_kept_comes_though_modes_are_skipped)
{
    static const uint32_t skip[] = { 1, 4, 0, 2, 1 };
    static unsigned char keep[3][1000];
    struct ts_feed_conf conf = { .host_bytes = budget(_i % N_BUDGETS),
                                 .only_mode = -1,
                                 .checkers = (uint32_t)_i % 3 };
    memset(keep, 1, sizeof keep);
    for (uint32_t m = 0; m < 3; m++)
        conf.deal.keep[m] = keep[m];
    for (int again = 0; again < 40; again++) {
        struct ts_feed *feed = new_feed(conf);
        uint32_t done = 0;
        for (uint32_t k = 0; k < sizeof skip / sizeof skip[0]; k++) {
            const struct timespec little = { .tv_nsec = (again % 5) * 20000 };
            nanosleep(&little, NULL);
            ts_feed_skip(feed, skip[k]);
            for (uint32_t m = 0; m < 3 && (k + (uint32_t)again) % 4 != 3; m++) {
                uint8_t seen[1000] = { 0 };
                if ((skip[k] >> m & 1) != 0)
                    continue;
                ts_feed_rewind(feed);
                take(feed, m, UINT64_MAX, seen);
                for (uint64_t i = 0; i < tensor->mode[m].disk.n_shards; i++)
                    ck_assert_int_eq(seen[i], (done >> m & 1) == 0);
                done |= 1U << m;
            }
        }
        ts_feed_free(feed);
    }
}
END_TEST

/* What a feed says will come first does, and once everything stays it says so. In the second half
 * of the cases every other shard is kept by the consumer. */
START_TEST(what_comes_next_is_known_once_it_stays)
{
    enum { MOST = 4 };
    static unsigned char keep[3][1000];
    struct ts_feed_conf conf = { .host_bytes = budget(_i % N_BUDGETS),
                                 .only_mode = -1,
                                 .checkers = 1 };
    struct ts_shard_view next[MOST], v;
    struct ts_feed *feed;
    uint32_t n = 0;
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < 1000; i++)
            keep[m][i] = i % 2 == 0 && _i >= N_BUDGETS;
    for (uint32_t m = 0; m < 3; m++)
        conf.deal.keep[m] = keep[m];
    feed = new_feed(conf);
    /* Whether the first mode was read ahead, all of it, is the feed's to know: what it says of it
     * is true. */
    for (uint32_t k = ts_feed_expect(feed, 0, next, MOST); k-- > 0;) {
        check_view(&next[k], 0);
        ck_assert(!keep[0][next[k].shard]);
    }
    for (uint32_t pass = 0; pass < 12; pass++) {
        const uint32_t mode = pass % 3, after = (pass + 1) % 3;
        const uint64_t n_after = tensor->mode[after].disk.n_shards;
        uint64_t taken = 0, streamed = n_after;
        ts_feed_rewind(feed);
        while (ts_feed_next(feed, mode, 0, &v, NULL) == 1) {
            if (taken < n)
                ck_assert_uint_eq(v.shard, next[taken].shard);
            taken++;
            ts_feed_done(feed, &v);
        }
        ck_assert_uint_ge(taken, n);
        n = ts_feed_expect(feed, 0, next, MOST);
        for (uint32_t k = 0; k < n; k++) {
            check_view(&next[k], after);
            ck_assert(!keep[after][next[k].shard]);
        }
        for (uint64_t i = 0; i < n_after; i++)
            streamed -= keep[after][i];
        if (pass >= 3 && _i % N_BUDGETS == N_BUDGETS - 1)
            ck_assert_uint_eq(n, streamed < MOST ? streamed : MOST);
    }
    if (_i % N_BUDGETS == 0) /* two slots, and nothing stays */
        ck_assert_uint_eq(n, 0);
    ts_feed_free(feed);
}
END_TEST

/* Whether the next call waits, or checks a shard itself. The first N_BUDGETS cases have no
 * checkers. */
START_TEST(waits_are_known_before)
{
    const int streamed = _i % N_BUDGETS == 0, stays = _i % N_BUDGETS == N_BUDGETS - 1;
    struct ts_feed_conf conf = { .host_bytes = budget(_i % N_BUDGETS),
                                 .only_mode = -1,
                                 .checkers = (uint32_t)_i / N_BUDGETS };
    struct ts_feed *feed = new_feed(conf);
    for (uint32_t pass = 0; pass < 9; pass++) {
        ts_feed_rewind(feed);
        for (int first = 1, rc = 1; rc == 1; first = 0) {
            const int waits = !first && ts_feed_waits(feed, pass % 3, 0);
            struct ts_feed_stats stats;
            struct ts_shard_view v;
            ts_feed_stats(feed, &stats); /* the next ones are of the call */
            rc = ts_feed_next(feed, pass % 3, 0, &v, NULL);
            ts_feed_stats(feed, &stats);
            if (rc == 1)
                ts_feed_done(feed, &v);
            ck_assert_int_ge(rc, waits);
            if (!first && !waits)
                ck_assert_uint_eq(stats.wait_ns, 0);
            if (pass >= 3 && stays)
                ck_assert_int_eq(waits, 0);
            if (!first && streamed && conf.checkers == 0)
                ck_assert_int_eq(waits, rc);
        }
    }
    ts_feed_free(feed);
}
END_TEST

START_TEST(too_small_a_budget_is_refused)
{
    struct ts_feed_conf conf = { .tensor = tensor, .host_bytes = place_bytes(), .only_mode = -1 };
    struct ts_feed *feed = NULL;
    struct ts_err err;
    ck_assert_int_eq(ts_feed_new(&conf, &feed, &err), TS_ELIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "two of them must fit"));
    ck_assert_ptr_null(feed);
}
END_TEST

static volatile sig_atomic_t stop;

START_TEST(stopping_is_an_error)
{
    struct ts_feed *feed =
        new_feed((struct ts_feed_conf){ .host_bytes = budget(1), .only_mode = -1, .stop = &stop });
    struct ts_shard_view v;
    struct ts_err err;
    ck_assert_int_eq(ts_feed_next(feed, 0, 0, &v, &err), 1);
    ts_feed_done(feed, &v);
    stop = 1;
    ck_assert_int_eq(ts_feed_next(feed, 0, 0, &v, &err), TS_ESTOP);
    ts_feed_free(feed);
}
END_TEST

/* One bit of one byte of a shard, or of the padding behind it. */
static void flip(uint32_t mode, uint64_t at)
{
    FILE *f = fopen(tensor->mode[mode].shards_path, "r+b");
    int c;
    ck_assert_ptr_nonnull(f);
    fseek(f, (long)at, SEEK_SET);
    c = fgetc(f);
    fseek(f, (long)at, SEEK_SET);
    fputc(c ^ 4, f);
    ck_assert_int_eq(fclose(f), 0);
}

/* Sweeps until something fails: the code. */
static int sweep(struct ts_feed *feed, struct ts_err *err)
{
    struct ts_shard_view v;
    int rc = 0;
    for (int pass = 0; pass < 6 && rc == 0; pass++)
        while ((rc = ts_feed_next(feed, (uint32_t)pass % 3, 0, &v, err)) == 1) {
            check_view(&v, (uint32_t)pass % 3);
            ts_feed_done(feed, &v);
        }
    return rc;
}

START_TEST(a_flipped_bit_is_found)
{
    const struct ts_disk_shard *s = &tensor->mode[_i % 3].shard[1];
    const uint64_t at[] = { s->offset, s->offset + s->stored_bytes / 2,
                            s->offset + s->stored_bytes - 1 };
    for (int k = 0; k < 3; k++)
        for (uint32_t checkers = 0; checkers < 2; checkers++) {
            struct ts_feed *feed;
            struct ts_err err;
            flip((uint32_t)_i % 3, at[k]);
            feed = new_feed((struct ts_feed_conf){
                .host_bytes = budget(_i), .only_mode = -1, .checkers = checkers });
            ck_assert_int_eq(sweep(feed, &err), TS_EFORMAT);
            ck_assert_ptr_nonnull(strstr(err.text, "checksum"));
            ck_assert_ptr_nonnull(strstr(err.text, "shard 1 "));
            ck_assert_int_eq(sweep(feed, &err), TS_EFORMAT); /* and stays */
            ts_feed_free(feed);
            flip((uint32_t)_i % 3, at[k]);
        }
}
END_TEST

START_TEST(a_file_cut_short_is_found)
{
    static const unsigned avoid[] = { 0, TS_AVOID_URING, TS_AVOID_DIRECT };
    const struct ts_mode *m = &tensor->mode[1];
    const uint64_t cut = m->shard[m->disk.n_shards - 1].offset + (_i < 3 ? 0 : 1000);
    struct ts_feed *feed;
    struct ts_err err;
    ck_assert_int_eq(truncate(m->shards_path, (off_t)cut), 0); /* after opening, as by another */
    feed = new_feed(
        (struct ts_feed_conf){ .host_bytes = budget(1), .only_mode = -1, .avoid = avoid[_i % 3] });
    ck_assert_int_eq(sweep(feed, &err), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, "the file ends at byte") != NULL, "%s", err.text);
    ts_feed_free(feed);
}
END_TEST

/* What was opened is read to its end, whatever becomes of its names. */
START_TEST(a_missing_file_is_found_by_who_opens)
{
    struct ts_feed *feed;
    struct ts_tensor *again = NULL;
    struct ts_err err;
    ck_assert_int_eq(unlink(tensor->mode[2].shards_path), 0);
    ck_assert_int_eq(ts_tensor_open(tensor->path, &again, &err), TS_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "mode3.shards"));
    feed = new_feed((struct ts_feed_conf){ .host_bytes = budget(2), .only_mode = -1 });
    ck_assert_int_eq(sweep(feed, &err), 0);
    ts_feed_free(feed);
}
END_TEST

/* Older kernels refuse O_DIRECT on tmpfs; what matters is that reading works either way. */
START_TEST(tmpfs_works)
{
    struct statfs fs;
    char where[64];
    struct ts_feed *feed;
    struct ts_feed_stats stats;
    if (statfs("/dev/shm", &fs) != 0 || fs.f_type != TMPFS_MAGIC_NUMBER ||
        (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize < (8 << 20))
        return;
    snprintf(where, sizeof where, "/dev/shm/check_feed.XXXXXX");
    if (mkdtemp(where) == NULL)
        return;
    open_tensor(where, TS_VALUE_F32, 0);
    feed = new_feed((struct ts_feed_conf){ .host_bytes = budget(1), .only_mode = -1 });
    for (int pass = 0; pass < 6; pass++)
        pass_over(feed, (uint32_t)pass % 3);
    ts_feed_stats(feed, &stats);
    ck_assert(stats.direct || stats.fallback != NULL);
    ts_feed_free(feed);
    close_tensor();
    rmdir(where);
}
END_TEST

static int pinned;

static struct {
    const char *addr;
    size_t bytes;
} piece[100];

static int most_pinned = 100; /* the next one fails */

static int pin(void *ctx, void *addr, size_t bytes, struct ts_err *err)
{
    ck_assert_ptr_eq(ctx, &pinned);
    if (pinned == most_pinned)
        return ts_fail(err, TS_ECUDA, "no more");
    ck_assert_int_lt(pinned, 100);
    piece[pinned].addr = addr;
    piece[pinned++].bytes = bytes;
    return bytes > 0 ? 0 : -1;
}

static void unpin(void *ctx, void *addr)
{
    int i = 0;
    (void)ctx;
    while (i < pinned && piece[i].addr != addr)
        i++;
    ck_assert_int_lt(i, pinned);
    piece[i] = piece[--pinned];
}

START_TEST(stopping_ends_before_memory_is_pinned)
{
    static volatile sig_atomic_t now = 1;
    const struct ts_feed_conf conf = { .tensor = tensor,
                                       .host_bytes = budget(3),
                                       .only_mode = -1,
                                       .pin = pin,
                                       .unpin = unpin,
                                       .pin_ctx = &pinned,
                                       .stop = &now };
    struct ts_feed *feed = NULL;
    struct ts_err err;
    pinned = 0;
    ck_assert_int_eq(ts_feed_new(&conf, &feed, &err), TS_ESTOP);
    ck_assert_int_eq(pinned, 0);
    ck_assert_ptr_null(feed);
}
END_TEST

START_TEST(memory_is_pinned_and_unpinned)
{
    const struct ts_feed_conf conf = { .tensor = tensor,
                                       .host_bytes = budget(3),
                                       .only_mode = -1,
                                       .pin = pin,
                                       .unpin = unpin,
                                       .pin_ctx = &pinned };
    struct ts_feed *feed = new_feed(conf);
    struct ts_err err;
    ck_assert_int_eq(pinned, 2);
    pass_over(feed, 0);
    ts_feed_free(feed);
    ck_assert_int_eq(pinned, 0);
    most_pinned = 1; /* the second of two fails: the first is undone */
    ck_assert_int_eq(ts_feed_new(&conf, &feed, &err), TS_ECUDA);
    ck_assert_int_eq(pinned, 0);
}
END_TEST

static int is_pinned(const char *from, const char *to)
{
    int found = 0;
    for (int i = 0; i < pinned; i++)
        found += piece[i].addr <= from && to <= piece[i].addr + piece[i].bytes;
    return found == 1;
}

/* Pieces of one shard each, of some, and of all. */
START_TEST(no_shard_is_in_two_pinned_pieces)
{
    static const uint64_t most[] = { 1, 3 << 16, 1 << 30 };
    for (int i = 0; i < 3; i++) {
        const struct ts_feed_conf conf = { .tensor = tensor,
                                           .host_bytes = budget(5),
                                           .only_mode = -1,
                                           .pin = pin,
                                           .unpin = unpin,
                                           .pin_ctx = &pinned,
                                           .pin_bytes = most[i] };
        struct ts_feed *feed = new_feed(conf);
        struct ts_feed_stats stats;
        struct ts_shard_view v;
        struct ts_err err;
        uint64_t bytes = 0, n = 0, largest = 0;
        ts_feed_stats(feed, &stats);
        for (uint32_t m = 0; m < 3; m++)
            while (ts_feed_next(feed, m, 0, &v, &err) == 1) {
                const char *raw = v.raw;
                const uint64_t place = ts_residency_bytes(v.entry);
                ck_assert(is_pinned(raw, raw + v.entry->raw_bytes + TS_SHARD_SLACK));
                largest = place > largest ? place : largest;
                n++;
                ts_feed_done(feed, &v);
            }
        for (int k = 0; k < pinned; k++) {
            bytes += piece[k].bytes;
            ck_assert_uint_le(piece[k].bytes, most[i] > largest ? most[i] : largest);
        }
        ck_assert_uint_eq(bytes, stats.resident_bytes + stats.n_slots * stats.slot_bytes);
        ck_assert(i != 0 || (uint64_t)pinned == n);
        ck_assert(i != 1 || (pinned > 2 && (uint64_t)pinned < n));
        ck_assert(i != 2 || pinned == 1);
        ts_feed_free(feed);
        ck_assert_int_eq(pinned, 0);
    }
}
END_TEST

/* What was pinned when a later piece fails, or the user wants to stop, is not any more. */
START_TEST(pinning_is_undone_in_the_middle)
{
    const struct ts_feed_conf conf = { .tensor = tensor,
                                       .host_bytes = budget(3),
                                       .only_mode = -1,
                                       .pin = pin,
                                       .unpin = unpin,
                                       .pin_ctx = &pinned,
                                       .pin_bytes = 1 };
    struct ts_feed *feed = NULL;
    struct ts_err err;
    for (most_pinned = 0; most_pinned < 4; most_pinned++) {
        ck_assert_int_eq(ts_feed_new(&conf, &feed, &err), TS_ECUDA);
        ck_assert_int_eq(pinned, 0);
    }
    ck_assert_ptr_null(feed);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("feed");
    TCase *plain = tcase_create("plain"), *lz4 = tcase_create("lz4"),
          *other = tcase_create("tmpfs");
    tcase_add_checked_fixture(plain, setup, teardown);
    tcase_add_checked_fixture(lz4, setup_lz4, teardown);
    tcase_set_timeout(plain, 60);
    tcase_set_timeout(lz4, 60);
    tcase_set_timeout(other, 60);
    tcase_add_loop_test(plain, every_shard_comes_once_a_pass, 0, N_BUDGETS * 5);
    tcase_add_loop_test(plain, what_is_all_there_wakes_nobody, 0, 4);
    tcase_add_loop_test(plain, one_mode_comes_over_and_over, 0, N_BUDGETS);
    tcase_add_loop_test(plain, any_order_of_passes_works, 0, N_BUDGETS);
    tcase_add_loop_test(plain, modes_can_be_skipped, 0, N_BUDGETS);
    tcase_add_loop_test(plain, freeing_early_is_fine, 0, N_BUDGETS);
    tcase_add_test(plain, several_views_are_held_at_once);
    tcase_add_loop_test(plain, many_threads_share_a_pass, 0, N_BUDGETS);
    tcase_add_loop_test(plain, what_the_consumer_keeps_comes_once, 0, 2 * N_BUDGETS);
    tcase_add_loop_test(plain, what_is_kept_comes_though_modes_are_skipped, 0, N_BUDGETS);
    tcase_add_loop_test(plain, what_comes_next_is_known_once_it_stays, 0, 2 * N_BUDGETS);
    tcase_add_loop_test(plain, waits_are_known_before, 0, 2 * N_BUDGETS);
    tcase_add_test(plain, too_small_a_budget_is_refused);
    tcase_add_test(plain, stopping_is_an_error);
    tcase_add_loop_test(plain, a_flipped_bit_is_found, 0, N_BUDGETS);
    tcase_add_loop_test(plain, a_file_cut_short_is_found, 0, 6);
    tcase_add_test(plain, a_missing_file_is_found_by_who_opens);
    tcase_add_test(plain, memory_is_pinned_and_unpinned);
    tcase_add_test(plain, no_shard_is_in_two_pinned_pieces);
    tcase_add_test(plain, pinning_is_undone_in_the_middle);
    tcase_add_test(plain, stopping_ends_before_memory_is_pinned);
    tcase_add_loop_test(lz4, every_shard_comes_once_a_pass, 3, 13);
    tcase_add_loop_test(lz4, any_order_of_passes_works, 0, N_BUDGETS);
    tcase_add_loop_test(lz4, many_threads_share_a_pass, 0, N_BUDGETS);
    tcase_add_loop_test(lz4, a_flipped_bit_is_found, 0, N_BUDGETS);
    tcase_add_test(other, tmpfs_works);
    suite_add_tcase(s, plain);
    suite_add_tcase(s, lz4);
    suite_add_tcase(s, other);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
