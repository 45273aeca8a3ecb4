/* SPDX-License-Identifier: BSD-3-Clause */
/* A heap of the entries of largest magnitude of a column. */
#include "model/strongest.h"

#include <math.h>
#include <stdlib.h>

int ts_strongest_new(struct ts_strongest *s, uint32_t room)
{
    s->n = 0;
    s->room = room;
    s->at = calloc((size_t)room + 1, sizeof *s->at);
    return s->at == NULL ? -1 : 0;
}

void ts_strongest_free(struct ts_strongest *s)
{
    for (uint32_t i = 0; i < s->n && s->at != NULL; i++)
        free(s->at[i].label);
    free(s->at);
    *s = (struct ts_strongest){ 0 };
}

static int is_weaker(const struct ts_strong *a, const struct ts_strong *b)
{
    const double x = fabs(a->value), y = fabs(b->value);
    return x < y || (x == y && a->index > b->index);
}

static void sink(struct ts_strongest *s, uint32_t at)
{
    const struct ts_strong moved = s->at[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= s->n)
            break;
        if (child + 1 < s->n && is_weaker(&s->at[child + 1], &s->at[child]))
            child++;
        if (!is_weaker(&s->at[child], &moved))
            break;
        s->at[at] = s->at[child];
        at = child;
    }
    s->at[at] = moved;
}

void ts_strongest_add(struct ts_strongest *s, double value, uint64_t index)
{
    const struct ts_strong x = { .value = value, .index = index };
    if (s->n == s->room) {
        if (s->n == 0 || !is_weaker(&s->at[0], &x))
            return;
        s->at[0] = x;
        sink(s, 0);
        return;
    }
    s->at[s->n++] = x;
    for (uint32_t at = s->n - 1; at > 0 && is_weaker(&x, &s->at[(at - 1) / 2]);) {
        s->at[at] = s->at[(at - 1) / 2];
        at = (at - 1) / 2;
        s->at[at] = x;
    }
}

static int strongest_first(const void *a, const void *b)
{
    return is_weaker(b, a) ? -1 : is_weaker(a, b);
}

void ts_strongest_sort(struct ts_strongest *s)
{
    qsort(s->at, s->n, sizeof *s->at, strongest_first);
}
