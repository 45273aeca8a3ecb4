/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that meet at a barrier, and copy from one another's buffers between two of them. */
#include "tests/mpi/comm_threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_comm_group {
    pthread_barrier_t barrier;
    struct test_comm *rank;
    uint32_t machine[TEST_COMM_MOST];
    /* of each machine, on its way from its first rank to the others */
    struct shared *shared[TEST_COMM_MOST];
    atomic_int given_up;
};

static int agree(struct ts_comm *c, int rc, struct ts_err *err)
{
    struct test_comm *me = (struct test_comm *)c;
    struct test_comm_group *g = me->group;
    uint32_t worst = 0;
    int ret;
    if (me->answer.code < 0) { /* the others are not listening any more */
        *err = me->answer;
        return me->answer.code;
    }
    if (++me->n_agreed == me->fails_at && rc >= 0)
        rc = ts_fail(err, me->fails_with, "it ends here");
    me->rc = rc;
    if (rc < 0) {
        me->err = *err;
        atomic_store(&g->given_up, 1);
    }
    pthread_barrier_wait(&g->barrier);
    for (uint32_t r = 0; r < c->n; r++)
        if (g->rank[r].rc < 0 && (g->rank[worst].rc >= 0 ||
                                  (g->rank[worst].rc == TS_ESTOP && g->rank[r].rc != TS_ESTOP)))
            worst = r;
    ret = g->rank[worst].rc;
    for (uint32_t r = 0; r < c->n && g->rank[worst].rc >= 0; r++)
        ret = g->rank[r].rc > ret ? g->rank[r].rc : ret;
    if (ret == TS_ESTOP)
        *err = g->rank[worst].err;
    else if (ret < 0)
        ts_fail(err, ret, "rank %u: %.900s", worst, g->rank[worst].err.text);
    if (ret < 0)
        me->answer = *err;
    pthread_barrier_wait(&g->barrier);
    return ret;
}

/* Nobody is listening any more. */
static int is_broken(struct test_comm *me, struct ts_err *err)
{
    if (!me->broken && ++me->n_moved == me->breaks_at) {
        me->broken = 1;
        ts_fail(&me->answer, TS_EIO, "the network is gone");
    }
    if (me->broken)
        *err = me->answer;
    return me->broken;
}

static int gather(struct ts_comm *c, void *buffer, const uint64_t *first, struct ts_err *err)
{
    struct test_comm *me = (struct test_comm *)c;
    struct test_comm_group *g = me->group;
    if (is_broken(me, err))
        return err->code;
    me->buffer = buffer;
    pthread_barrier_wait(&g->barrier);
    for (uint32_t r = 0; r < c->n; r++)
        if (r != c->rank && first[r] < first[r + 1])
            memcpy((char *)buffer + first[r], (const char *)g->rank[r].buffer + first[r],
                   first[r + 1] - first[r]);
    pthread_barrier_wait(&g->barrier);
    return 0;
}

static int move(struct ts_comm *c, void *buffer, const struct ts_comm_move *m, uint32_t n,
                struct ts_err *err)
{
    struct test_comm *me = (struct test_comm *)c;
    struct test_comm_group *g = me->group;
    if (is_broken(me, err))
        return err->code;
    me->buffer = buffer;
    pthread_barrier_wait(&g->barrier);
    for (uint32_t i = 0; i < n; i++) {
        assert(m[i].from != m[i].to && m[i].from < c->n && m[i].to < c->n);
        if (m[i].to == c->rank)
            memcpy((char *)buffer + m[i].begin,
                   (const char *)g->rank[m[i].from].buffer + m[i].begin, m[i].end - m[i].begin);
    }
    pthread_barrier_wait(&g->barrier);
    return 0;
}

static int deal(struct ts_comm *c, const void *send, const uint64_t *send_first, void *got,
                const uint64_t *got_first, struct ts_err *err)
{
    struct test_comm *me = (struct test_comm *)c;
    struct test_comm_group *g = me->group;
    if (is_broken(me, err))
        return err->code;
    me->buffer = send;
    me->first = send_first;
    pthread_barrier_wait(&g->barrier);
    for (uint32_t r = 0; r < c->n; r++) {
        const uint64_t at = g->rank[r].first[c->rank], n = g->rank[r].first[c->rank + 1] - at;
        assert(n == got_first[r + 1] - got_first[r]);
        if (n > 0)
            memcpy((char *)got + got_first[r], (const char *)g->rank[r].buffer + at, n);
    }
    pthread_barrier_wait(&g->barrier);
    return 0;
}

/* Memory of the ranks of a machine. */
struct shared {
    _Alignas(64) atomic_uint users;
    _Alignas(64) char bytes[];
};

static int share(struct ts_comm *c, uint64_t bytes, void **ret, struct ts_err *err)
{
    struct test_comm_group *g = ((struct test_comm *)c)->group;
    const uint32_t machine = c->machine[c->rank];
    const int rc = agree(c, 0, err);
    if (rc < 0)
        return rc;
    if (is_broken((struct test_comm *)c, err))
        return err->code;
    if (c->place == 0) {
        const size_t size = (sizeof(struct shared) + bytes + 63) / 64 * 64;
        g->shared[machine] = aligned_alloc(64, size);
        assert(g->shared[machine] != NULL);
        memset(g->shared[machine], 0, size);
        atomic_init(&g->shared[machine]->users, c->beside);
    }
    pthread_barrier_wait(&g->barrier);
    *ret = g->shared[machine]->bytes;
    pthread_barrier_wait(&g->barrier);
    return 0;
}

static void end_share(struct ts_comm *c, void *memory, uint64_t bytes)
{
    struct shared *s = (struct shared *)((char *)memory - offsetof(struct shared, bytes));
    (void)c;
    (void)bytes;
    if (atomic_fetch_sub(&s->users, 1) == 1)
        free(s);
}

static int poll(struct ts_comm *c)
{
    return atomic_load(&((struct test_comm *)c)->group->given_up);
}

struct test_comm_group *test_comm_new(uint32_t n, struct test_comm *ranks)
{
    static const struct ts_comm_ops ops = { .agree = agree,
                                            .gather = gather,
                                            .move = move,
                                            .deal = deal,
                                            .share = share,
                                            .unshare = end_share,
                                            .poll = poll };
    struct test_comm_group *g = calloc(1, sizeof *g);
    assert(g != NULL && n <= TEST_COMM_MOST);
    pthread_barrier_init(&g->barrier, NULL, n);
    g->rank = ranks;
    for (uint32_t r = 0; r < n; r++) {
        g->machine[r] = r;
        ranks[r] = (struct test_comm){ .comm = { .ops = &ops,
                                                 .rank = r,
                                                 .n = n,
                                                 .place = 0,
                                                 .beside = 1,
                                                 .machine = g->machine },
                                       .group = g };
    }
    return g;
}

void test_comm_place(struct test_comm_group *g, uint32_t n_machines)
{
    const uint32_t n = g->rank[0].comm.n;
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t machine = g->machine[r] = r % n_machines;
        g->rank[r].comm.place = r / n_machines;
        g->rank[r].comm.beside = (n - machine + n_machines - 1) / n_machines;
    }
}

void test_comm_free(struct test_comm_group *g)
{
    pthread_barrier_destroy(&g->barrier);
    free(g);
}
