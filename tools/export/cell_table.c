/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses tables of cells whose indices are names. */
#include "tools/export/cell_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"

#define MOST_FIELDS (TS_MAX_ORDER + 2)

/* ---- names of indices ---- */

/* Hashes a name. In a field with doubled quotes, two quotes count as one. */
static uint64_t hash_of(const char *at, const char *end, int doubled)
{
    uint64_t sum = 0;
    for (; at < end; at++) {
        sum = ts_mix(sum ^ (unsigned char)*at);
        at += doubled && *at == '"';
    }
    return sum;
}

static int is_name(const struct ts_csv_field *f, const char *name)
{
    const char *at = f->begin;
    for (; at < f->end && *name != '\0' && *at == *name; at++, name++)
        at += f->doubled && *at == '"';
    return at >= f->end && *name == '\0';
}

/* Copies the names of a mode and their indices. */
static int copy_names(struct ts_names_walk *w, struct cell_mode *m, struct ts_err *err)
{
    const char *text;
    uint64_t index;
    size_t bytes;
    int rc = 0;
    for (uint64_t i = 0; i < m->n && rc == 0; i++) {
        rc = ts_names_walk_next(w, &index, &text, &bytes, err);
        if (rc < 0 || text == NULL) {
            m->n = i;
            return rc;
        }
        m->index[i] = index;
        m->name[i] = ts_label_string(text, bytes);
        if (m->name[i] == NULL)
            rc = ts_fail(err, TS_ENOMEM, "out of memory for names");
    }
    return rc;
}

static int read_names(const struct ts_model_names *names, uint32_t mode, struct cell_mode *m,
                      struct ts_err *err)
{
    struct ts_names_walk *w = NULL;
    uint64_t room = 16;
    int rc = 0;
    m->n = names->n_labels[mode];
    while (room < 2 * m->n)
        room *= 2;
    m->name = calloc(m->n + 1, sizeof *m->name);
    m->index = malloc((m->n + 1) * sizeof *m->index);
    m->slot = calloc(room, sizeof *m->slot);
    m->room = room;
    if (m->index == NULL || m->name == NULL || m->slot == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    rc = ts_names_walk_open(names, mode, &w, err);
    if (rc == 0)
        rc = copy_names(w, m, err);
    ts_names_walk_close(w);
    for (uint64_t i = 0; i < m->n && rc == 0; i++) {
        const char *name = m->name[i];
        uint64_t at = hash_of(name, name + strlen(name), 0) & (room - 1);
        while (m->slot[at] != 0)
            at = (at + 1) & (room - 1);
        m->slot[at] = i + 1;
    }
    return rc;
}

const char *cell_table_name(const struct cell_table *c, uint32_t mode, uint64_t index)
{
    const struct cell_mode *m = &c->mode[mode];
    uint64_t low = 0, high = m->n;
    while (low < high) {
        const uint64_t at = low + (high - low) / 2;
        if (m->index[at] < index)
            low = at + 1;
        else
            high = at;
    }
    return low < m->n && m->index[low] == index ? m->name[low] : NULL;
}

int cell_table_open(const struct ts_model_names *names, char separator, struct cell_table *ret,
                    struct ts_err *err)
{
    int rc = 0;
    ret->separator = separator;
    for (uint32_t m = 0; names != NULL && m < names->order && rc == 0; m++)
        if (names->n_labels[m] > 0)
            rc = read_names(names, m, &ret->mode[m], err);
    return rc;
}

void cell_table_close(struct cell_table *c)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        for (uint64_t i = 0; i < c->mode[m].n && c->mode[m].name != NULL; i++)
            free(c->mode[m].name[i]);
        free(c->mode[m].name);
        free(c->mode[m].index);
        free(c->mode[m].slot);
    }
}

/* Finds the index of a name. Fails if two indices have this name. */
static int find_name(const struct cell_table *c, uint32_t mode, const struct ts_csv_field *f,
                     uint64_t *ret, struct ts_err *err)
{
    const uint64_t last = c->mode[mode].room - 1;
    uint64_t at = hash_of(f->begin, f->end, f->doubled) & last;
    char quoted[TS_CSV_QUOTE];
    int found = 0;
    for (; c->mode[mode].slot[at] != 0; at = (at + 1) & last) {
        const uint64_t i = c->mode[mode].slot[at] - 1;
        if (!is_name(f, c->mode[mode].name[i]))
            continue;
        if (found)
            return ts_fail(err, TS_EFORMAT, "two indices of mode %u have the name '%s'", mode + 1,
                           ts_csv_quote(f, quoted));
        *ret = c->mode[mode].index[i];
        found = 1;
    }
    return found;
}

/* ---- lines of the table ---- */

/* Splits the line at *p into fields, of which it keeps `most`, and moves *p past it. *n is the
 * number of fields, 0 for a blank line. */
static int split(const struct cell_table *c, const char **p, struct ts_csv_field *field,
                 uint32_t most, uint32_t *n, struct ts_err *err)
{
    const char *at = ts_csv_skip_blanks(*p, c->separator);
    int more = 1;
    *n = 0;
    if (ts_csv_is_end(at)) {
        *p = at + (*at == '\r') + 1;
        return 0;
    }
    while (more) {
        struct ts_csv_field f;
        const int rc = ts_csv_next(p, c->separator, 1, &f, err);
        if (rc < 0)
            return rc;
        if (*n < most)
            field[*n] = f;
        ++*n;
        more = ts_csv_go_on(p, c->separator);
    }
    ++*p;
    return 0;
}

int cell_table_first(const struct cell_table *c, char *text, size_t bytes, uint32_t *n, char **line,
                     struct ts_err *err)
{
    struct ts_csv_field field[MOST_FIELDS];
    const char *p = text;
    int rc = 0;
    *n = 0;
    while (rc == 0 && *n == 0 && p < text + bytes) {
        *line = text + (p - text);
        rc = split(c, &p, field, MOST_FIELDS, n, err);
    }
    return rc;
}

int cell_table_is_head(const struct cell_table *c, const char *line, uint32_t order,
                       const char *const mode_name[])
{
    struct ts_csv_field field[MOST_FIELDS];
    struct ts_err why;
    uint32_t n, m = 0;
    if (split(c, &line, field, MOST_FIELDS, &n, &why) < 0 || n < order)
        return 0;
    for (; m < order; m++) {
        char usual[16];
        snprintf(usual, sizeof usual, "mode%u", m + 1);
        if (!is_name(&field[m], mode_name[m] != NULL ? mode_name[m] : usual))
            break;
    }
    return m == order;
}

static int read_index(const struct cell_table *c, const struct ts_tns_rules *r, uint32_t mode,
                      const struct ts_csv_field *f, uint64_t *ret, struct ts_err *err)
{
    char quoted[TS_CSV_QUOTE];
    const char *name;
    int rc = c->mode[mode].n > 0 ? find_name(c, mode, f, ret, err) : 0;
    if (rc > 0 && r->fixed && *ret >= r->dim[mode])
        return ts_fail(err, TS_EFORMAT, "'%s' is a name of mode %u without a row in the model",
                       ts_csv_quote(f, quoted), mode + 1);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    if (!ts_csv_is_index(f))
        return ts_fail(err, TS_EFORMAT, "'%s' is no %s of mode %u", ts_csv_quote(f, quoted),
                       c->mode[mode].n > 0 ? "name" : "index", mode + 1);
    rc = ts_tns_index(r, mode, f->begin, f->end, ret, err);
    name = rc == 0 ? cell_table_name(c, mode, *ret) : NULL;
    if (name != NULL)
        return ts_fail(err, TS_EFORMAT,
                       "'%s' is no name of mode %u; the index has the name '%.64s'",
                       ts_csv_quote(f, quoted), mode + 1, name);
    return rc;
}

static int read_number(const struct ts_csv_field *f, const char *which, double *ret,
                       struct ts_err *err)
{
    return f->begin < f->end ? ts_tns_value(f->begin, f->end, ret, err)
                             : ts_fail(err, TS_EFORMAT, "the %s is missing", which);
}

static int parse_line(const struct cell_table *c, const struct ts_tns_rules *r, const char **p,
                      struct ts_batch *b, double *weight, struct ts_err *err)
{
    const uint32_t wanted = r->order + !r->no_value + (weight != NULL);
    struct ts_csv_field field[MOST_FIELDS];
    uint64_t index[TS_MAX_ORDER];
    double value = 1;
    uint32_t n;
    int rc = split(c, p, field, MOST_FIELDS, &n, err);
    if (rc < 0 || n == 0)
        return rc;
    if (n != wanted)
        return ts_fail(err, TS_EFORMAT, "found %u field%s, expected %u", n, tool_plural(n), wanted);
    for (uint32_t m = 0; m < r->order && rc == 0; m++)
        rc = read_index(c, r, m, &field[m], &index[m], err);
    if (rc == 0 && !r->no_value)
        rc = read_number(&field[r->order], "value", &value, err);
    if (rc == 0 && weight != NULL)
        rc = read_number(&field[r->order + 1], "weight", &weight[b->n], err);
    if (rc == 0 && weight != NULL && !(weight[b->n] >= 0 && isfinite(weight[b->n])))
        rc = ts_fail(err, TS_EFORMAT, "the weight is not a number of 0 or more");
    return rc == 0 ? ts_tns_add(r, index, value, b, err) : rc;
}

int cell_table_parse(const struct cell_table *c, const struct ts_tns_rules *rules, const char *text,
                     size_t bytes, struct ts_batch *b, double *weight, uint64_t *line,
                     struct ts_err *err)
{
    const char *p = text;
    int rc = 0;
    *line = 0;
    while (rc == 0 && p < text + bytes) {
        ++*line;
        rc = parse_line(c, rules, &p, b, weight, err);
    }
    b->n_lines += *line;
    return rc;
}
