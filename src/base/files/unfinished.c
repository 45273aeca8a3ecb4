/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of objects that are undone if a library ends the program. */
#include "base/files/unfinished.h"

#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ts_unfinished *newest;

void ts_unfinished_add(struct ts_unfinished *u, void (*undo)(void *object), void *object)
{
    pthread_mutex_lock(&lock);
    u->undo = undo;
    u->object = object;
    u->next = newest;
    u->here = &newest;
    if (newest != NULL)
        newest->here = &u->next;
    newest = u;
    pthread_mutex_unlock(&lock);
}

static void drop(struct ts_unfinished *u)
{
    if (u->here == NULL)
        return;
    *u->here = u->next;
    if (u->next != NULL)
        u->next->here = u->here;
    u->here = NULL;
}

void ts_unfinished_drop(struct ts_unfinished *u)
{
    pthread_mutex_lock(&lock);
    drop(u);
    pthread_mutex_unlock(&lock);
}

int ts_unfinished_undo(void)
{
    for (int n = 0;; n++) {
        struct ts_unfinished *u;
        pthread_mutex_lock(&lock);
        u = newest;
        if (u != NULL)
            drop(u);
        pthread_mutex_unlock(&lock);
        if (u == NULL)
            return n;
        u->undo(u->object);
    }
}
