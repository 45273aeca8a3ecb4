/* SPDX-License-Identifier: BSD-3-Clause */
/* table_modes.c - returns the names, columns and kinds of fields of the modes of a table. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int ts_table_has_header(const struct ts_table *t)
{
    return t->header != NULL;
}

uint32_t ts_table_width(const struct ts_table *t)
{
    return t->n_columns;
}

/* Copies the names of all columns from the header, malloc'ed. Returns their number. */
static uint32_t header_names(const struct ts_table *t, char **ret)
{
    const char *p = t->header;
    struct ts_csv_field f = { 0 };
    uint32_t n = 0;
    int more = 1;
    while (more && n < t->n_columns &&
           ts_csv_next(&p, t->plan.separator, !t->plan.no_quotes, &f, NULL) > 0) {
        ret[n++] = ts_csv_copy(&f);
        more = ts_csv_go_on(&p, t->plan.separator);
    }
    return n;
}

/* Whether the column has a name that no other column has. */
static int tells(char *const *name, uint32_t n, uint32_t column)
{
    for (uint32_t c = 0; c < n; c++)
        if (c != column && name[c] != NULL && strcmp(name[c], name[column]) == 0)
            return 0;
    return *name[column] != '\0';
}

int ts_table_column_text(const struct ts_table *t, uint32_t role, char **ret, struct ts_err *err)
{
    char **name;
    uint32_t column = 0, n = 0;
    int rc = 0;
    *ret = NULL;
    while (column < t->n_columns && t->role[column] != role)
        column++;
    if (column == t->n_columns)
        return (*ret = strdup("none")) == NULL ? ts_no_memory(err, "columns") : 0;
    if (t->header == NULL)
        return asprintf(ret, "%u", column + 1) < 0 ? ts_no_memory(err, "columns") : 0;
    name = calloc(t->n_columns, sizeof *name);
    if (name != NULL)
        n = header_names(t, name);
    if (name == NULL || (column < n && name[column] == NULL)) {
        rc = ts_no_memory(err, "columns");
    } else if (column < n && tells(name, n, column)) {
        *ret = name[column];
        name[column] = NULL;
    }
    for (uint32_t c = 0; c < n; c++)
        free(name[c]);
    free(name);
    return rc;
}
