/* SPDX-License-Identifier: BSD-3-Clause */
/* table_modes.c - what others ask about the modes of a table. */
#include <pthread.h>

#include "source/text/table_columns.h"

enum ts_table_field ts_table_mode_field(const struct ts_table *t, uint32_t mode)
{
    return t->mode[mode].field;
}

const char *ts_table_mode_name(const struct ts_table *t, uint32_t mode)
{
    return t->mode[mode].name;
}

int ts_table_doubtful(const struct ts_table *t)
{
    return t->doubtful;
}

char ts_table_separator(const struct ts_table *t)
{
    return t->plan.separator;
}

const char *ts_table_value_name(const struct ts_table *t)
{
    return t->value_name;
}

const struct ts_time_bin *ts_table_mode_bin(const struct ts_table *t, uint32_t mode)
{
    return &t->mode[mode].bin;
}

uint64_t ts_table_mode_least(const struct ts_table *t, uint32_t mode)
{
    return __atomic_load_n(&t->mode[mode].least, __ATOMIC_RELAXED);
}

void ts_table_names(struct ts_table *t, const struct ts_names *names)
{
    t->names = names;
}

void ts_table_add_facts(struct ts_table *t, uint32_t mode, const struct ts_table_facts *more)
{
    struct ts_table_facts *f = &t->mode[mode].facts;
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < TS_TABLE_FACTS; i++) {
        if (more->n[i] > 0 && (f->n[i] == 0 || strcmp(more->example[i], f->example[i]) < 0))
            memcpy(f->example[i], more->example[i], sizeof f->example[i]);
        f->n[i] += more->n[i];
    }
    pthread_mutex_unlock(&t->lock);
}

const struct ts_table_facts *ts_table_mode_facts(const struct ts_table *t, uint32_t mode)
{
    return &t->mode[mode].facts;
}

int ts_table_mode_whole(const struct ts_table *t, uint32_t mode)
{
    return t->mode[mode].whole;
}

int ts_table_mode_open(const struct ts_table *t, uint32_t mode)
{
    return t->mode[mode].look.open;
}
