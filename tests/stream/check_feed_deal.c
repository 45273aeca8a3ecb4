/* SPDX-License-Identifier: BSD-3-Clause */
/* Several consumers of one feed: each gets its own range first and then what others have left, what
 * it keeps comes once and to it alone, every shard comes exactly once a pass, and nobody waits for
 * a slower one, whatever the ranges, the budget, and how the ranges change between passes. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/rng.h"
#include "format/shard.h"
#include "stream/feed/feed.h"
#include "stream/feed/residency.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

#define MAX_SHARDS 64
#define MOST       TS_FEED_MAX_CONSUMERS

static char *tmp, dir[4096];
static struct ts_tensor *tensor;
static void *want[3][MAX_SHARDS];
static uint64_t n_shards[3], slot_bytes;
static struct ts_err err;

static void setup(void)
{
    static const uint64_t dim[3] = { 60, 900, 300 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F32, .shard_partitions = 1 };
    struct test_coo x = test_coo_random(5, 3, dim, 25 * TS_PARTITION_NNZ, 0, 1);
    tmp = test_tsh_tmp();
    snprintf(dir, sizeof dir, "%s/x.tsh", tmp);
    test_tsh_write(dir, &x, &conf);
    test_coo_free(&x);
    ck_assert_msg(ts_tensor_open(dir, &tensor, &err) == 0, "%s", err.text);
    slot_bytes = 0;
    for (uint32_t m = 0; m < 3; m++) {
        n_shards[m] = tensor->mode[m].disk.n_shards;
        ck_assert_uint_gt(n_shards[m], 20);
        ck_assert_uint_le(n_shards[m], MAX_SHARDS);
        for (uint64_t i = 0; i < n_shards[m]; i++) {
            const uint64_t bytes = ts_residency_bytes(&tensor->mode[m].shard[i]);
            slot_bytes = bytes > slot_bytes ? bytes : slot_bytes;
            want[m][i] = malloc(tensor->header.max_shard_bytes + TS_SHARD_SLACK + 2 * TS_PAGE);
            ck_assert_int_eq(ts_tensor_read_shard(tensor, m, i, want[m][i], &err), 0);
        }
    }
}

static void teardown(void)
{
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < n_shards[m]; i++)
            free(want[m][i]);
    ts_tensor_close(tensor);
    test_tsh_remove(dir);
    test_tsh_remove(tmp);
    free(tmp);
}

/* Who has which range, and what is kept. */
struct deal {
    uint32_t n;
    uint64_t first[3][MOST + 1];
    unsigned char keep[3][MAX_SHARDS];
};

enum ranges { EVEN, ALL_IN_FIRST, ALL_IN_LAST, FIRST_AND_LAST, ANY, N_RANGES };

static void set_ranges(struct deal *d, uint32_t mode, enum ranges ranges, uint64_t seed)
{
    const uint64_t all = n_shards[mode];
    uint64_t *first = d->first[mode];
    first[0] = 0;
    for (uint32_t c = 1; c < d->n; c++)
        first[c] = ranges == EVEN           ? all * c / d->n
                   : ranges == ALL_IN_FIRST ? all
                   : ranges == ALL_IN_LAST  ? 0
                   : ranges == FIRST_AND_LAST
                       ? all / 2
                       : first[c - 1] + ts_mix(seed + c) % (all - first[c - 1] + 1);
    first[d->n] = all;
}

static uint32_t owner(const struct deal *d, uint32_t mode, uint64_t shard)
{
    uint32_t c = 0;
    while (shard >= d->first[mode][c + 1])
        c++;
    return c;
}

static struct ts_feed *open_fixed(const struct deal *d, uint64_t slots, uint32_t checkers,
                                  int fixed)
{
    struct ts_feed_conf conf = { .tensor = tensor,
                                 .only_mode = -1,
                                 .checkers = checkers,
                                 .host_bytes = slots * slot_bytes + 2 * TS_PAGE };
    struct ts_feed *feed;
    conf.deal.n_consumers = d->n;
    conf.deal.fixed = fixed;
    for (uint32_t m = 0; m < 3; m++) {
        conf.deal.first[m] = d->first[m];
        conf.deal.keep[m] = d->keep[m];
    }
    ck_assert_msg(ts_feed_new(&conf, &feed, &err) == 0, "%s", err.text);
    return feed;
}

static struct ts_feed *open_feed(const struct deal *d, uint64_t slots, uint32_t checkers)
{
    return open_fixed(d, slots, checkers, 0);
}

static void check_view(const struct ts_shard_view *v, uint32_t mode)
{
    ck_assert_uint_eq(v->mode, mode);
    ck_assert_uint_lt(v->shard, n_shards[mode]);
    ck_assert_mem_eq(v->raw, want[mode][v->shard], v->entry->raw_bytes);
}

/* ---- one thread plays all consumers, so that the rules can be checked to the letter ---- */

struct game {
    struct deal deal;
    struct ts_feed *feed;
    int gone[3][MAX_SHARDS];
    int given[MAX_SHARDS];            /* in this pass */
    uint64_t left[MOST], loose[MOST]; /* of each range */
    int fixed;                        /* nothing is taken from others' ranges */
    int at_once; /* everything is resident: what others have left can be had at once */
};

static void game_begin(struct game *g, uint32_t mode)
{
    memset(g->given, 0, sizeof g->given);
    memset(g->left, 0, sizeof g->left);
    memset(g->loose, 0, sizeof g->loose);
    for (uint64_t i = 0; i < n_shards[mode]; i++) {
        const uint32_t c = owner(&g->deal, mode, i);
        g->left[c] += !g->gone[mode][i];
        g->loose[c] += !g->deal.keep[mode][i];
    }
}

/* One call for a consumer, and whether it may get what it gets: 0 at its end. */
static int game_next(struct game *g, uint32_t mode, uint32_t consumer)
{
    struct ts_shard_view v;
    uint32_t from;
    const int rc = ts_feed_next(g->feed, mode, consumer, &v, &err);
    uint64_t most = 0;
    for (uint32_t c = 0; c < g->deal.n; c++)
        most = g->loose[c] > most ? g->loose[c] : most;
    ck_assert_msg(rc >= 0, "%s", err.text);
    if (rc == 0) {
        ck_assert_uint_eq(g->left[consumer], 0);
        ck_assert(g->fixed || most == 0);
        return 0;
    }
    check_view(&v, mode);
    ck_assert_int_eq(g->given[v.shard]++, 0);
    ck_assert_int_eq(g->gone[mode][v.shard], 0);
    from = owner(&g->deal, mode, v.shard);
    if (from != consumer) {
        ck_assert_int_eq(g->fixed, 0);
        ck_assert_uint_eq(g->left[consumer], 0);
        ck_assert_int_eq(g->deal.keep[mode][v.shard], 0);
        if (g->at_once)
            ck_assert_uint_eq(g->loose[from], most);
    }
    g->left[from]--;
    g->loose[from] -= !g->deal.keep[mode][v.shard];
    g->gone[mode][v.shard] = g->deal.keep[mode][v.shard];
    ts_feed_done(g->feed, &v);
    return 1;
}

/* A pass in which who asks next is drawn, some of them `slow` times as seldom. */
static void game_pass(struct game *g, uint32_t mode, uint32_t slow, uint64_t seed)
{
    int over[MOST] = { 0 };
    uint32_t n_over = 0;
    game_begin(g, mode);
    while (n_over < g->deal.n) {
        const uint64_t r = ts_mix(seed++);
        const uint32_t c = (uint32_t)(r % g->deal.n);
        if (over[c] || (c % 2 == 0 && (r >> 32) % slow != 0))
            continue;
        if (!game_next(g, mode, c)) {
            over[c] = 1;
            n_over++;
        }
    }
    for (uint32_t c = 0; c < g->deal.n; c++) {
        ck_assert_uint_eq(g->left[c], 0);
        ck_assert_int_eq(ts_feed_next(g->feed, mode, c, NULL, &err), 0); /* and again 0 */
    }
}

static const uint32_t sizes[] = { 1, 2, 3, 5, 16 };
#define N_SIZES 5

/* From one slot more than consumers to everything in memory. */
static uint64_t slots_of(uint32_t n, int k)
{
    return k == 0 ? n + 1 : k == 1 ? n + 8 : 1000;
}
#define N_BUDGETS 3

static void keep_some(struct deal *d, uint32_t every)
{
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < n_shards[m]; i++)
            d->keep[m][i] = i % every != m % every;
}

START_TEST(own_range_first_then_the_fullest)
{
    const uint32_t n = sizes[_i / N_BUDGETS / N_RANGES];
    const int budget = _i / N_RANGES % N_BUDGETS;
    struct game g = { .deal.n = n, .at_once = 0 };
    for (uint32_t m = 0; m < 3; m++)
        set_ranges(&g.deal, m, (enum ranges)(_i % N_RANGES), m);
    g.feed = open_feed(&g.deal, slots_of(n, budget), (uint32_t)_i % 2);
    for (uint32_t pass = 0; pass < 9; pass++) {
        g.at_once = budget == 2 && pass >= 3;
        game_pass(&g, pass % 3, pass % 2 ? 20 : 1, 1000 * pass);
    }
    ts_feed_free(g.feed);
}
END_TEST

/* Also when ranges change between passes, and some shards are kept. */
START_TEST(fixed_ranges_are_left_to_their_consumers)
{
    struct game g = { .deal.n = sizes[_i % N_SIZES], .fixed = 1 };
    uint64_t state = (uint64_t)_i;
    if (_i / N_SIZES % 2 == 1)
        keep_some(&g.deal, 3);
    for (uint32_t m = 0; m < 3; m++)
        set_ranges(&g.deal, m, (enum ranges)(_i % N_RANGES), m);
    g.feed = open_fixed(&g.deal, 1000, (uint32_t)_i % 2, 1);
    for (uint32_t pass = 0; pass < 12; pass++) {
        game_pass(&g, pass % 3, pass % 2 ? 20 : 1, 1000 * pass);
        set_ranges(&g.deal, pass % 3, (enum ranges)(ts_mix(state++) % N_RANGES), pass);
        ts_feed_deal(g.feed, pass % 3, g.deal.first[pass % 3]);
    }
    ts_feed_free(g.feed);
}
END_TEST

/* All others go through the whole pass before consumer 0 asks: it gets nothing any more. */
START_TEST(nobody_waits_for_who_does_not_come)
{
    const uint32_t n = sizes[1 + _i / N_BUDGETS % (N_SIZES - 1)];
    struct game g = { .deal.n = n };
    for (uint32_t m = 0; m < 3; m++)
        set_ranges(&g.deal, m, EVEN, 0);
    g.feed = open_feed(&g.deal, slots_of(n, _i % N_BUDGETS), 1);
    for (uint32_t pass = 0; pass < 6; pass++) {
        game_begin(&g, pass % 3);
        for (uint32_t c = n; c-- > 1;)
            while (game_next(&g, pass % 3, c))
                ;
        ck_assert_int_eq(game_next(&g, pass % 3, 0), 0);
    }
    ts_feed_free(g.feed);
}
END_TEST

/* With as many slots as shards: one that waits for its keeper, or was read ahead for another, is in
 * nobody's way. The threads below do with few. */
START_TEST(new_ranges_between_passes)
{
    const uint32_t n = sizes[_i % N_SIZES];
    const int with_keep = _i / N_SIZES;
    struct game g = { .deal.n = n };
    uint64_t state = (uint64_t)_i;
    if (with_keep)
        keep_some(&g.deal, 3);
    for (uint32_t m = 0; m < 3; m++)
        set_ranges(&g.deal, m, ANY, ts_mix(state++));
    g.feed = open_feed(&g.deal, 1000, 1);
    for (uint32_t pass = 0; pass < 30; pass++) {
        const uint32_t mode = pass % 5 == 4 ? pass % 2 : pass % 3; /* out of turn too */
        ts_feed_rewind(g.feed);
        game_pass(&g, mode, 1, 1000 * pass);
        for (uint32_t m = 0; m < 3; m++)
            if (ts_mix(state++) % 2 == 0) {
                usleep((useconds_t)(ts_mix(state) % 2000)); /* some is read ahead, or not */
                set_ranges(&g.deal, m, (enum ranges)(ts_mix(state) % N_RANGES), ts_mix(state));
                ts_feed_deal(g.feed, m, g.deal.first[m]);
            }
    }
    ts_feed_free(g.feed);
}
END_TEST

START_TEST(passes_given_up_with_things_kept)
{
    const uint32_t n = sizes[_i % N_SIZES];
    struct game g = { .deal.n = n };
    uint64_t state = (uint64_t)_i + 77;
    keep_some(&g.deal, 2);
    for (uint32_t m = 0; m < 3; m++)
        set_ranges(&g.deal, m, EVEN, 0);
    g.feed = open_feed(&g.deal, 1000, (uint32_t)_i % 2);
    for (uint32_t pass = 0; pass < 60; pass++) {
        const uint32_t mode = (uint32_t)(ts_mix(state++) % 3);
        ts_feed_rewind(g.feed);
        if (pass % 4 == 3) {
            game_pass(&g, mode, 1, state);
            continue;
        }
        game_begin(&g, mode);
        for (uint64_t k = ts_mix(state++) % 12; k > 0; k--)
            game_next(&g, mode, (uint32_t)(ts_mix(state++) % n));
    }
    ts_feed_free(g.feed);
}
END_TEST

/* ---- a thread for each consumer ---- */

struct team {
    struct deal deal;
    struct ts_feed *feed;
    pthread_barrier_t together;
    atomic_int gone[3][MAX_SHARDS], given[MAX_SHARDS];
    atomic_uint n_given[MOST];
    uint32_t passes, slow, fails; /* numbers of consumers; MOST: none */
    useconds_t slow_us; /* for each shard; 0: until the others have taken four more, or all */
};

struct member {
    struct team *team;
    uint32_t number;
    int rc;
    struct ts_err err;
};

static void fall_ill(struct member *me)
{
    (void)ts_fail(&me->err, TS_ECUDA, "consumer %u fell ill", me->number);
    ts_feed_fail_with(me->team->feed, TS_ECUDA, &me->err);
}

static unsigned given_to_others(struct team *t, uint32_t number)
{
    unsigned sum = 0;
    for (uint32_t c = 0; c < t->deal.n; c++)
        sum += c == number ? 0 : atomic_load(&t->n_given[c]);
    return sum;
}

static int all_given(struct team *t, uint32_t mode)
{
    for (uint64_t i = 0; i < n_shards[mode]; i++)
        if (atomic_load(&t->given[i]) == 0)
            return 0;
    return 1;
}

static void take_time(struct member *me, uint32_t mode)
{
    struct team *t = me->team;
    const unsigned until = given_to_others(t, me->number) + 4;
    if (t->slow_us > 0)
        usleep(t->slow_us);
    else
        while (given_to_others(t, me->number) < until && !all_given(t, mode))
            usleep(100);
}

/* As a GPU does: the shard before last is given back when another is asked for. */
static int one_pass(struct member *me, uint32_t mode)
{
    struct team *t = me->team;
    struct ts_shard_view v[2];
    uint32_t n = 0;
    int rc;
    for (;;) {
        struct ts_shard_view *view = &v[n % 2];
        if (n >= 2)
            ts_feed_done(t->feed, view);
        rc = ts_feed_next(t->feed, mode, me->number, view, &me->err);
        if (rc <= 0)
            break;
        check_view(view, mode);
        if (t->deal.keep[mode][view->shard]) {
            ck_assert_uint_eq(owner(&t->deal, mode, view->shard), me->number);
            ck_assert_int_eq(atomic_fetch_add(&t->gone[mode][view->shard], 1), 0);
        }
        ck_assert_int_eq(atomic_fetch_add(&t->given[view->shard], 1), 0);
        atomic_fetch_add(&t->n_given[me->number], 1);
        if (me->number == t->slow)
            take_time(me, mode);
        n++;
        if (me->number == t->fails)
            fall_ill(me);
    }
    if (n >= 2)
        ts_feed_done(t->feed, &v[(n + 1) % 2]);
    else if (n == 1)
        ts_feed_done(t->feed, &v[0]);
    return rc;
}

static void *work(void *arg)
{
    struct member *me = arg;
    struct team *t = me->team;
    for (uint32_t pass = 0; pass < t->passes; pass++) {
        const uint32_t mode = pass % 3;
        if (me->number == t->fails && pass + 1 == t->passes)
            fall_ill(me); /* the others may have been too quick for it until now */
        pthread_barrier_wait(&t->together);
        me->rc = one_pass(me, mode);
        pthread_barrier_wait(&t->together);
        if (me->number > 0)
            continue;
        for (uint64_t i = 0; i < n_shards[mode]; i++) {
            const int kept_before = t->deal.keep[mode][i] && pass >= 3;
            const int given = atomic_exchange(&t->given[i], 0);
            if (t->fails < MOST) /* and the pass may not be complete */
                continue;
            ck_assert_int_eq(given, !kept_before);
            ck_assert_int_eq(atomic_load(&t->gone[mode][i]), t->deal.keep[mode][i]);
        }
        if (me->rc < 0)
            continue;
        set_ranges(&t->deal, mode, (enum ranges)(pass / 3 % N_RANGES), pass);
        ts_feed_deal(t->feed, mode, t->deal.first[mode]);
    }
    return NULL;
}

static void team_run(struct team *t, struct member *member, uint64_t slots)
{
    pthread_t thread[MOST];
    for (uint32_t m = 0; m < 3; m++)
        set_ranges(&t->deal, m, EVEN, 0);
    t->feed = open_feed(&t->deal, slots, 2);
    pthread_barrier_init(&t->together, NULL, t->deal.n);
    for (uint32_t c = 0; c < t->deal.n; c++) {
        member[c] = (struct member){ .team = t, .number = c };
        ck_assert_int_eq(pthread_create(&thread[c], NULL, work, &member[c]), 0);
    }
    for (uint32_t c = 0; c < t->deal.n; c++)
        pthread_join(thread[c], NULL);
    pthread_barrier_destroy(&t->together);
    ts_feed_free(t->feed);
}

START_TEST(threads_share_passes)
{
    static struct team t;
    struct member member[MOST];
    memset(&t, 0, sizeof t);
    t.deal.n = sizes[_i % N_SIZES];
    t.passes = 24;
    t.slow = _i / N_SIZES % 2 ? 0 : MOST;
    t.slow_us = 300;
    t.fails = MOST;
    if (_i / N_SIZES / 2 % 2)
        keep_some(&t.deal, 3);
    team_run(&t, member, slots_of(t.deal.n, _i % N_BUDGETS));
    for (uint32_t c = 0; c < t.deal.n; c++)
        ck_assert_msg(member[c].rc == 0, "%s", member[c].err.text);
}
END_TEST

/* The others do the work of a consumer that takes its time. */
START_TEST(a_slow_one_does_less)
{
    static struct team t;
    struct member member[MOST];
    memset(&t, 0, sizeof t);
    t.deal.n = 3;
    t.passes = 3;
    t.slow = 1;
    t.fails = MOST;
    team_run(&t, member, _i ? 1000 : 24); /* half of the budget is slots */
    ck_assert_uint_lt(3 * t.n_given[1], t.n_given[0] + t.n_given[2]);
}
END_TEST

START_TEST(who_fails_ends_all)
{
    static struct team t;
    struct member member[MOST];
    memset(&t, 0, sizeof t);
    t.deal.n = sizes[_i % N_SIZES];
    t.passes = 6;
    t.slow = MOST;
    t.fails = t.deal.n / 2;
    team_run(&t, member, slots_of(t.deal.n, _i % N_BUDGETS));
    for (uint32_t c = 0; c < t.deal.n; c++) {
        ck_assert_int_eq(member[c].rc, TS_ECUDA);
        ck_assert_ptr_nonnull(strstr(member[c].err.text, "fell ill"));
    }
}
END_TEST

static volatile sig_atomic_t stop;

static void on_alarm(int number)
{
    (void)number;
    stop = 1;
}

/* All slots are lent, so consumer 0 waits; nothing will come that could wake it. */
START_TEST(waiting_ends_when_the_user_stops)
{
    struct ts_feed_conf conf = { .tensor = tensor,
                                 .only_mode = -1,
                                 .stop = &stop,
                                 .deal.n_consumers = 2,
                                 .host_bytes = 3 * slot_bytes + 2 * TS_PAGE };
    uint64_t first[3] = { 0, 0, n_shards[0] };
    struct ts_shard_view v[3], more;
    struct ts_feed *feed;
    const struct itimerval soon = { .it_value.tv_usec = 50000 };
    conf.deal.first[0] = first;
    ck_assert_msg(ts_feed_new(&conf, &feed, &err) == 0, "%s", err.text);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ts_feed_next(feed, 0, 1, &v[i], &err), 1);
    ck_assert(signal(SIGALRM, on_alarm) != SIG_ERR);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &soon, NULL), 0);
    ck_assert_int_eq(ts_feed_next(feed, 0, 0, &more, &err), TS_ESTOP);
    signal(SIGALRM, SIG_DFL);
    for (int i = 0; i < 3; i++)
        ts_feed_done(feed, &v[i]);
    ts_feed_free(feed);
}
END_TEST

START_TEST(too_few_slots_for_all_are_refused)
{
    const struct ts_feed_conf conf = { .tensor = tensor,
                                       .only_mode = -1,
                                       .deal.n_consumers = 4,
                                       .host_bytes = 4 * slot_bytes + 2 * TS_PAGE };
    struct ts_feed *feed = NULL;
    ck_assert_int_eq(ts_feed_new(&conf, &feed, &err), TS_ELIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "for 4 devices 5 of them must fit"));
    ck_assert_ptr_null(feed);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("feed_deal");
    TCase *t = tcase_create("all");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, own_range_first_then_the_fullest, 0, N_SIZES * N_BUDGETS * N_RANGES);
    tcase_add_loop_test(t, fixed_ranges_are_left_to_their_consumers, 0, 2 * N_SIZES);
    tcase_add_loop_test(t, nobody_waits_for_who_does_not_come, 0, (N_SIZES - 1) * N_BUDGETS);
    tcase_add_loop_test(t, new_ranges_between_passes, 0, 2 * N_SIZES);
    tcase_add_loop_test(t, passes_given_up_with_things_kept, 0, 2 * N_SIZES);
    tcase_add_loop_test(t, threads_share_passes, 0, 4 * N_SIZES);
    tcase_add_loop_test(t, a_slow_one_does_less, 0, 2);
    tcase_add_loop_test(t, who_fails_ends_all, 0, N_SIZES);
    tcase_add_test(t, waiting_ends_when_the_user_stops);
    tcase_add_test(t, too_few_slots_for_all_are_refused);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
