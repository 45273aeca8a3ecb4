/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps a list of the memory of partitions that are not in use. The first of the list is reused if
 * it is large enough. */
#include "build/write/partition_pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

/* Words of a partition's memory are rounded up to multiples of this, so that most can be reused. */
#define STEP_WORDS 4096u

struct ts_partition_pool {
    pthread_mutex_t lock;
    struct ts_packed_partition *free;
    uint64_t used; /* bytes of partitions in use; atomic, because it is read without the lock */
};

static uint64_t bytes_of(uint32_t room)
{
    return sizeof(struct ts_packed_partition) + 4 * (uint64_t)room;
}

struct ts_partition_pool *ts_partition_pool_new(void)
{
    struct ts_partition_pool *pool = calloc(1, sizeof *pool);
    if (pool != NULL)
        pthread_mutex_init(&pool->lock, NULL);
    return pool;
}

void ts_partition_pool_trim(struct ts_partition_pool *pool)
{
    struct ts_packed_partition *p;
    pthread_mutex_lock(&pool->lock);
    p = pool->free;
    pool->free = NULL;
    pthread_mutex_unlock(&pool->lock);
    while (p != NULL) {
        struct ts_packed_partition *next = p->next;
        free(p);
        p = next;
    }
}

void ts_partition_pool_free(struct ts_partition_pool *pool)
{
    if (pool == NULL)
        return;
    assert(pool->used == 0);
    ts_partition_pool_trim(pool);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

struct ts_packed_partition *ts_partition_pool_get(struct ts_partition_pool *pool, uint32_t n_words)
{
    struct ts_packed_partition *p, *small;
    pthread_mutex_lock(&pool->lock);
    p = pool->free;
    if (p != NULL)
        pool->free = p->next;
    pthread_mutex_unlock(&pool->lock);
    /* it is too small: freed, so that the pool does not grow */
    if (p != NULL && p->room < n_words) {
        small = p;
        p = NULL;
        free(small);
    }
    if (p == NULL) {
        const uint32_t room = (n_words + STEP_WORDS - 1) / STEP_WORDS * STEP_WORDS;
        p = malloc(bytes_of(room));
        if (p == NULL)
            return NULL;
        p->room = room;
    }
    __atomic_fetch_add(&pool->used, bytes_of(p->room), __ATOMIC_RELAXED);
    return p;
}

void ts_partition_pool_put(struct ts_partition_pool *pool, struct ts_packed_partition *p)
{
    if (pool == NULL) {
        free(p);
        return;
    }
    if (p == NULL || p->room == 0)
        return;
    __atomic_fetch_sub(&pool->used, bytes_of(p->room), __ATOMIC_RELAXED);
    pthread_mutex_lock(&pool->lock);
    p->next = pool->free;
    pool->free = p;
    pthread_mutex_unlock(&pool->lock);
}

uint64_t ts_partition_pool_used(const struct ts_partition_pool *pool)
{
    return __atomic_load_n(&pool->used, __ATOMIC_RELAXED);
}
