/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of free partitions, from which the next one is taken if it is large enough. */
#include "build/run_pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#define STEP_WORDS \
    4096u /* sizes are multiples of it, so that most runs fit into the place of
                          * another */

struct ts_run_pool {
    pthread_mutex_t lock;
    struct ts_packed_run *free;
    uint64_t used; /* atomic: read without the lock */
};

static uint64_t bytes_of(uint32_t room)
{
    return sizeof(struct ts_packed_run) + 4 * (uint64_t)room;
}

struct ts_run_pool *ts_run_pool_new(void)
{
    struct ts_run_pool *pool = calloc(1, sizeof *pool);
    if (pool != NULL)
        pthread_mutex_init(&pool->lock, NULL);
    return pool;
}

void ts_run_pool_free(struct ts_run_pool *pool)
{
    if (pool == NULL)
        return;
    assert(pool->used == 0);
    while (pool->free != NULL) {
        struct ts_packed_run *run = pool->free;
        pool->free = run->next;
        free(run);
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

struct ts_packed_run *ts_run_pool_get(struct ts_run_pool *pool, uint32_t n_words)
{
    struct ts_packed_run *run, *small;
    pthread_mutex_lock(&pool->lock);
    run = pool->free;
    if (run != NULL)
        pool->free = run->next;
    pthread_mutex_unlock(&pool->lock);
    if (run != NULL && run->room < n_words) { /* so that the pool does not grow */
        small = run;
        run = NULL;
        free(small);
    }
    if (run == NULL) {
        const uint32_t room = (n_words + STEP_WORDS - 1) / STEP_WORDS * STEP_WORDS;
        run = malloc(bytes_of(room));
        if (run == NULL)
            return NULL;
        run->room = room;
    }
    __atomic_fetch_add(&pool->used, bytes_of(run->room), __ATOMIC_RELAXED);
    return run;
}

void ts_run_pool_put(struct ts_run_pool *pool, struct ts_packed_run *run)
{
    if (pool == NULL) {
        free(run);
        return;
    }
    if (run == NULL)
        return;
    __atomic_fetch_sub(&pool->used, bytes_of(run->room), __ATOMIC_RELAXED);
    pthread_mutex_lock(&pool->lock);
    run->next = pool->free;
    pool->free = run;
    pthread_mutex_unlock(&pool->lock);
}

uint64_t ts_run_pool_used(const struct ts_run_pool *pool)
{
    return __atomic_load_n(&pool->used, __ATOMIC_RELAXED);
}
