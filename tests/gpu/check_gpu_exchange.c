/* SPDX-License-Identifier: BSD-3-Clause */
/* After a gather every replica has every span, whatever the parts are and whichever way it is done;
 * and an abort frees whoever waits for a rank that never comes. With one GPU the ranks share it,
 * and copies and host memory are what is tested; NCCL takes two. */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu/exchange/exchange.h"
#include "gpu/exchange/exchange_speed.h"
#include "tests/gpu/exchange_parts.h"
#include "tests/support/run_suite.h"
#include "tests/support/stop_later.h"

#define GATHERS 4 /* in a row, each of a buffer of its own */

static struct ts_err err;
static int n_devices;

/* ---- a team of ranks, each on a thread ---- */

struct rank {
    struct team *team;
    uint32_t number;
    pthread_t thread;
    cudaStream_t send, use;
    int rc;
    struct ts_err err;
};

struct team {
    struct ts_exchange *x;
    uint32_t n, absent; /* rank `absent` does not call gather; n: all do */
    int device[PARTS_MAX_RANKS];
    struct parts parts[GATHERS];
    void *base[GATHERS][PARTS_MAX_RANKS];
    unsigned char *found; /* largest buffer */
    struct rank rank[PARTS_MAX_RANKS];
    pthread_barrier_t barrier;
};

static void ok_cuda(cudaError_t e)
{
    ck_assert_msg(e == cudaSuccess, "%s", cudaGetErrorString(e));
}

static void fill(struct team *t)
{
    uint64_t most = 1;
    for (int g = 0; g < GATHERS; g++)
        most = t->parts[g].bytes > most ? t->parts[g].bytes : most;
    t->found = malloc(most);
    for (uint32_t i = 0; i < t->n; i++) {
        ok_cuda(cudaSetDevice(t->device[i]));
        ok_cuda(cudaStreamCreateWithFlags(&t->rank[i].send, cudaStreamNonBlocking));
        ok_cuda(cudaStreamCreateWithFlags(&t->rank[i].use, cudaStreamNonBlocking));
        for (int g = 0; g < GATHERS; g++) {
            const struct parts *p = &t->parts[g];
            ok_cuda(cudaMalloc(&t->base[g][i], p->bytes + 1));
            parts_own(p, i, t->found);
            ok_cuda(cudaMemcpy(t->base[g][i], t->found, p->bytes, cudaMemcpyHostToDevice));
        }
        ok_cuda(cudaDeviceSynchronize());
    }
}

/* Ranks take devices in turn. */
static struct ts_exchange *open_exchange(uint32_t n, enum ts_exchange_kind kind)
{
    struct ts_exchange *x = NULL;
    int device[PARTS_MAX_RANKS], rc;
    for (uint32_t i = 0; i < n; i++)
        device[i] = (int)i % n_devices;
    rc = ts_exchange_new(device, n, kind, NULL, &x, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    ck_assert_int_eq(ts_exchange_used(x), kind);
    return x;
}

static struct team *team_new(uint32_t n, struct ts_exchange *x)
{
    struct team *t = calloc(1, sizeof *t);
    t->x = x;
    t->n = t->absent = n;
    for (uint32_t i = 0; i < n; i++) {
        t->device[i] = (int)i % n_devices;
        t->rank[i].team = t;
        t->rank[i].number = i;
    }
    pthread_barrier_init(&t->barrier, NULL, n);
    return t;
}

static void team_free(struct team *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        for (int g = 0; g < GATHERS; g++)
            cudaFree(t->base[g][i]);
        cudaStreamDestroy(t->rank[i].send);
        cudaStreamDestroy(t->rank[i].use);
    }
    for (int g = 0; g < GATHERS; g++)
        parts_free(&t->parts[g]);
    pthread_barrier_destroy(&t->barrier);
    free(t->found);
    free(t);
}

/* Gathers on one stream, then another stream that joins. */
static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct team *t = r->team;
    if (r->number == t->absent)
        return NULL;
    for (int g = 0; g < GATHERS && r->rc == 0; g++)
        r->rc = ts_exchange_gather(t->x, r->number, t->base[g], t->parts[g].part, r->send, &r->err);
    if (t->absent == t->n) {
        pthread_barrier_wait(&t->barrier);
        if (r->rc == 0)
            r->rc = ts_exchange_join(t->x, r->number, r->use, &r->err);
    }
    if (r->rc == 0)
        r->rc = ts_exchange_wait(t->x, r->number, t->absent == t->n ? r->use : r->send, &r->err);
    return NULL;
}

static void start(struct team *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        ck_assert_int_eq(pthread_create(&t->rank[i].thread, NULL, run_rank, &t->rank[i]), 0);
}

static void finish(struct team *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        pthread_join(t->rank[i].thread, NULL);
}

static void run_team(struct team *t)
{
    start(t);
    finish(t);
    for (uint32_t i = 0; i < t->n; i++)
        ck_assert_msg(t->rank[i].rc == 0, "rank %u: %s", i, t->rank[i].err.text);
    for (uint32_t i = 0; i < t->n; i++)
        for (int g = 0; g < GATHERS; g++) {
            const struct parts *p = &t->parts[g];
            ok_cuda(cudaMemcpy(t->found, t->base[g][i], p->bytes, cudaMemcpyDeviceToHost));
            ck_assert_msg(memcmp(t->found, p->full, p->bytes) == 0, "rank %u, gather %d", i, g);
        }
}

/* Random parts: of all ranks, of one that has everything, of none, of some. */
static void draw_parts(struct team *t, uint64_t seed)
{
    const uint32_t who[GATHERS] = { ~0u, 1u << seed % t->n, 0, 0x55 };
    for (int g = 0; g < GATHERS; g++) {
        const uint64_t most = seed % 3 == 0 ? 3000000 : seed % 3 == 1 ? 200 : 40000;
        t->parts[g] = parts_random(seed + 100 * (uint64_t)g, t->n, who[g], 1 + seed % 6, most,
                                   seed % 2 ? 1 : 16);
    }
}

static void check_kind(uint32_t n, enum ts_exchange_kind kind)
{
    struct ts_exchange *x = open_exchange(n, kind);
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct team *t = team_new(n, x);
        draw_parts(t, seed);
        fill(t);
        run_team(t);
        team_free(t);
    }
    ts_exchange_free(x);
}

/* ---- copies ---- */

static const uint32_t ranks[] = { 1, 2, 3, 5 };

START_TEST(copies_bring_all) /* loop test: _i of ranks */
{
    check_kind(ranks[_i], TS_EXCHANGE_COPY);
}
END_TEST

START_TEST(host_memory_brings_all) /* loop test: _i of ranks */
{
    check_kind(ranks[_i], TS_EXCHANGE_HOST);
}
END_TEST

START_TEST(a_gpu_that_is_named_twice_takes_copies)
{
    const int device[] = { 0, 0 };
    struct ts_exchange *x = NULL;
    ck_assert_int_eq(ts_exchange_new(device, 2, TS_EXCHANGE_NCCL, NULL, &x, &err), TS_EARG);
    ck_assert_ptr_null(x);
    ck_assert_int_eq(ts_exchange_new(device, 2, TS_EXCHANGE_AUTO, NULL, &x, &err), 0);
    ck_assert_int_eq(ts_exchange_used(x), TS_EXCHANGE_COPY);
    ck_assert_ptr_null(ts_exchange_note(x));
    ts_exchange_free(x);
}
END_TEST

START_TEST(a_stop_ends_connecting)
{
    static const volatile sig_atomic_t stop = 1;
    const int device[] = { 0, n_devices > 1 ? 1 : 0 };
    struct ts_exchange *x = NULL;
    for (int kind = TS_EXCHANGE_AUTO; kind <= TS_EXCHANGE_COPY; kind++)
        ck_assert_int_eq(ts_exchange_new(device, 2, (enum ts_exchange_kind)kind, &stop, &x, &err),
                         TS_ESTOP);
    ck_assert_ptr_null(x);
}
END_TEST

START_TEST(speed_is_measured)
{
    const int device[] = { 0, n_devices > 1 ? 1 : 0, 0 };
    struct ts_exchange_speed *s;
    ck_assert_int_eq(ts_exchange_speed_new(device, 3, TS_EXCHANGE_COPY, 5000000, NULL, &s, &err),
                     0);
    for (int unequal = 0; unequal < 2; unequal++)
        for (uint64_t bytes = 1; bytes <= 5000000; bytes = bytes * 70 + 1) {
            uint64_t ns = 0;
            const int rc = ts_exchange_speed_run(s, bytes, unequal, &ns, &err);
            ck_assert_msg(rc == 0, "%s", err.text);
            ck_assert_uint_gt(ns, 0);
        }
    ts_exchange_speed_free(s);
}
END_TEST

/* ---- NCCL ---- */

static uint32_t most_ranks(void)
{
    return n_devices < PARTS_MAX_RANKS ? (uint32_t)n_devices : PARTS_MAX_RANKS;
}

/* 0 where it is not to be had, and then says why. */
static int nccl_is_there(void)
{
    const int device[] = { 0, 1 };
    struct ts_exchange *x;
    int rc = TS_ELIMIT;
    if (n_devices > 1)
        rc = ts_exchange_new(device, 2, TS_EXCHANGE_NCCL, NULL, &x, &err);
    if (rc == 0)
        ts_exchange_free(x);
    else if (n_devices > 1)
        printf("no NCCL: %s\n", err.text);
    return rc != TS_ELIMIT; /* every other failure is one of the tests */
}

/* In the middle of what NCCL does then; and the next one connects as if nothing had been. */
START_TEST(a_stop_ends_connecting_by_nccl) /* loop test: _i times 40 ms after it began */
{
    const int device[] = { 0, 1 };
    struct ts_exchange *x = NULL;
    struct test_stop stop;
    int rc;
    test_stop_later(&stop, 40000 * (uint32_t)_i);
    rc = ts_exchange_new(device, 2, TS_EXCHANGE_NCCL, &stop.asked, &x, &err);
    test_stop_join(&stop);
    ck_assert_msg(rc == 0 || (rc == TS_ESTOP && x == NULL), "%s", err.text);
    ts_exchange_free(x);
    rc = ts_exchange_new(device, 2, TS_EXCHANGE_NCCL, NULL, &x, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    ts_exchange_free(x);
}
END_TEST

START_TEST(nccl_brings_all)
{
    for (uint32_t n = 2; n <= most_ranks(); n++)
        check_kind(n, TS_EXCHANGE_NCCL);
}
END_TEST

/* NCCL reads its environment once, so a child does this. */
START_TEST(nccl_brings_all_without_peer_access)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        setenv("NCCL_P2P_DISABLE", "1", 1);
        execl("/proc/self/exe", "check_gpu_exchange", "nccl", (char *)NULL);
        _exit(126);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

/* ---- aborts ---- */

static void check_abort(uint32_t n, enum ts_exchange_kind kind)
{
    const struct timespec a_while = { 0, 200000000 };
    struct team *t = team_new(n, open_exchange(n, kind));
    uint64_t begun;
    draw_parts(t, 3);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_uint_gt(t->parts[0].part[i].n, 0); /* so there is something to wait for */
    fill(t);
    t->absent = n - 1;
    start(t);
    nanosleep(&a_while, NULL);
    begun = ts_clock_ns();
    ts_exchange_abort(t->x);
    finish(t);
    for (uint32_t i = 0; i < n; i++) {
        struct rank *r = &t->rank[i];
        if (kind != TS_EXCHANGE_COPY && i != t->absent)
            ck_assert_int_eq(r->rc, TS_ECUDA); /* copies wait for nobody */
        ck_assert_int_eq(ts_exchange_check(t->x, i, &err), TS_ECUDA);
        ck_assert_int_eq(ts_exchange_gather(t->x, i, t->base[0], t->parts[0].part, r->send, &err),
                         TS_ECUDA);
        ck_assert_int_eq(ts_exchange_join(t->x, i, r->use, &err), TS_ECUDA);
        ok_cuda(cudaStreamSynchronize(r->send));
    }
    ck_assert_uint_lt(ts_clock_ns() - begun, UINT64_C(2000000000));
    ts_exchange_abort(t->x);
    ts_exchange_free(t->x);
    team_free(t);
}

START_TEST(an_abort_of_copies_is_final)
{
    check_abort(3, TS_EXCHANGE_COPY);
}
END_TEST

START_TEST(an_abort_of_host_memory_frees_who_waits)
{
    check_abort(3, TS_EXCHANGE_HOST);
}
END_TEST

START_TEST(an_abort_of_nccl_frees_who_waits)
{
    for (uint32_t n = 2; n <= most_ranks(); n++)
        check_abort(n, TS_EXCHANGE_NCCL);
}
END_TEST

/* ---- suites ---- */

int main(int argc, char **argv)
{
    const int child = argc > 1 && strcmp(argv[1], "nccl") == 0;
    Suite *suite = suite_create("gpu_exchange");
    TCase *tc = tcase_create("all");
    setenv("NCCL_NVLS_ENABLE", "0", 1); /* NCCL is not used without it */
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0)
        return 77;
    tcase_set_timeout(tc, 300);
    if (!child) {
        tcase_add_loop_test(tc, copies_bring_all, 0, sizeof ranks / sizeof ranks[0]);
        tcase_add_test(tc, a_gpu_that_is_named_twice_takes_copies);
        tcase_add_test(tc, a_stop_ends_connecting);
        tcase_add_test(tc, speed_is_measured);
        tcase_add_loop_test(tc, host_memory_brings_all, 0, sizeof ranks / sizeof ranks[0]);
        tcase_add_test(tc, an_abort_of_copies_is_final);
        tcase_add_test(tc, an_abort_of_host_memory_frees_who_waits);
    }
    if (nccl_is_there()) {
        tcase_add_test(tc, nccl_brings_all);
        tcase_add_loop_test(tc, a_stop_ends_connecting_by_nccl, 0, child ? 2 : 8);
        tcase_add_test(tc, an_abort_of_nccl_frees_who_waits);
        if (!child)
            tcase_add_test(tc, nccl_brings_all_without_peer_access);
    }
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
