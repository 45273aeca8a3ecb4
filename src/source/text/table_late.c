/* SPDX-License-Identifier: BSD-3-Clause */
/* table_late.c - decides whether a column has numbers, names or times if all its fields at the
 * start of the table are missing. */
#include "source/text/table_columns.h"

#include <string.h>

#include "source/text/number_text.h"

/* ------------------------------------------------------------------ columns empty at the start */

int ts_table_is_open(const struct ts_table *t)
{
    for (uint32_t m = 0; m < t->order; m++)
        if (t->mode[m].look.open)
            return 1;
    return 0;
}

/* Decides whether the fields of a mode are numbers, names or times in which unit. Called when
 * enough of them were seen. */
static void close_look(struct ts_table_mode *mode)
{
    struct ts_table_look *l = &mode->look;
    if (mode->field == TS_TABLE_TIME)
        mode->bin.rule = ts_time_look_rule(&l->time, ts_time_bin_by_days(&mode->bin));
    else
        ts_table_decide(mode, l->index, l->whole);
    l->open = 0;
}

static void look_at_field(struct ts_table_mode *mode, const struct ts_csv_field *f)
{
    struct ts_table_look *l = &mode->look;
    const size_t n = (size_t)(f->end - f->begin);
    if (!l->open || ts_number_missing(f->begin, n))
        return;
    if (!l->any) {
        l->any = l->index = l->whole = 1;
        l->left = TS_TABLE_SAMPLE;
    }
    l->index = l->index && ts_table_is_whole(f, TS_MAX_DIM);
    l->whole = l->whole && ts_table_is_whole(f, UINT64_MAX);
    ts_time_look_at(&l->time, f->begin, n);
}

/* Looks at the fields of the line at p in modes that are still undecided. Returns the start of the
 * next line. */
static const char *look_at_line(struct ts_table *t, const char *p, const char *end)
{
    const char sep = t->plan.separator, *next = memchr(p, '\n', (size_t)(end - p));
    struct ts_csv_field f;
    next = next == NULL ? end : next + 1;
    if (ts_csv_is_end(ts_csv_skip_blanks(p, sep)))
        return next;
    for (uint32_t c = 0; c < t->n_columns; c++) {
        if (ts_csv_next(&p, sep, !t->plan.no_quotes, &f, NULL) <=
            0) /* the parser will report the wrong line */
            break;
        if (t->role[c] < TS_MAX_ORDER)
            look_at_field(&t->mode[t->role[c]], &f);
        if (!ts_csv_go_on(&p, sep))
            break;
    }
    return next;
}

int ts_table_look_on(struct ts_table *t, const char *text, size_t bytes, int first)
{
    const char *p = text, *const end = text + bytes;
    if (first) {
        struct ts_tns_header h;
        uint64_t line;
        if (ts_table_header(t, text, bytes, &h, &line, NULL) > 0)
            p += h.bytes;
    }
    while (p < end && ts_table_is_open(t)) {
        const char *next = look_at_line(t, p, end);
        for (uint32_t m = 0; m < t->order; m++) {
            struct ts_table_look *l = &t->mode[m].look;
            const uint64_t n = (uint64_t)(next - p);
            if (!l->open || !l->any)
                continue;
            l->left -= n < l->left ? n : l->left;
            if (l->left == 0)
                close_look(&t->mode[m]);
        }
        p = next;
    }
    for (uint32_t m = 0; m < t->order && bytes == 0; m++)
        if (t->mode[m].look.open && t->mode[m].look.any)
            close_look(&t->mode[m]);
    return ts_table_is_open(t);
}
