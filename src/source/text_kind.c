/* SPDX-License-Identifier: BSD-3-Clause */
/* text_kind.c - the table of the kinds of text. */
#include "source/text_kind.h"

#include "source/mm_text.h"
#include "source/table_text.h"

/* ------------------------------------------------------------------ .tns and sptensor */

static int tns_header(void *form, struct ts_tns_rules *rules, const char *text, size_t bytes,
                      struct ts_tns_header *ret, uint64_t *line, struct ts_err *err)
{
    (void)form;
    return ts_tns_header(rules, text, bytes, ret, line, err);
}

static uint64_t tns_room(const struct ts_tns_rules *rules, size_t bytes)
{
    return bytes / (2 * (rules->order + 1)) + 1;
}

static int tns_parse(void *form, char *side, const struct ts_tns_rules *rules, const char *text,
                     size_t bytes, struct ts_batch *b, uint64_t *line, struct ts_err *err)
{
    (void)form;
    (void)side;
    return ts_tns_parse(rules, text, bytes, b, line, err);
}

/* ------------------------------------------------------------------ MatrixMarket */

static int mm_header(void *form, struct ts_tns_rules *rules, const char *text, size_t bytes,
                     struct ts_tns_header *ret, uint64_t *line, struct ts_err *err)
{
    (void)form;
    return ts_mm_header(rules, text, bytes, ret, line, err);
}

static uint64_t mm_room(const struct ts_tns_rules *rules, size_t bytes)
{
    (void)rules;
    return ts_mm_room(bytes);
}

static int mm_parse(void *form, char *side, const struct ts_tns_rules *rules, const char *text,
                    size_t bytes, struct ts_batch *b, uint64_t *line, struct ts_err *err)
{
    (void)form;
    (void)side;
    return ts_mm_parse(rules, text, bytes, b, line, err);
}

/* ------------------------------------------------------------------ tables */

static int table_header(void *form, struct ts_tns_rules *rules, const char *text, size_t bytes,
                        struct ts_tns_header *ret, uint64_t *line, struct ts_err *err)
{
    (void)rules;
    return ts_table_header(form, text, bytes, ret, line, err);
}

/* Called where ts_table_header found no line: returns whether there is any text. */
static uint32_t table_fields(const char *text, size_t bytes, uint64_t *n_lines)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r' && text[i] != '\n')
            return 1;
        if (n_lines != NULL)
            *n_lines += text[i] == '\n';
    }
    return 0;
}

static int table_parse(void *form, char *side, const struct ts_tns_rules *rules, const char *text,
                       size_t bytes, struct ts_batch *b, uint64_t *line, struct ts_err *err)
{
    return ts_table_parse(form, side, rules, text, bytes, b, line, err);
}

static const struct ts_text_kind table_kind = {
    "table", 8, 1, table_header, table_fields, ts_table_room, table_parse
};

const struct ts_text_kind *ts_text_kind_table(void)
{
    return &table_kind;
}

static const struct ts_text_kind tns_kind = { "tns",         5,        0,        tns_header,
                                              ts_tns_fields, tns_room, tns_parse };
static const struct ts_text_kind mm_kind = { "mm",          14,      0,       mm_header,
                                             ts_tns_fields, mm_room, mm_parse };

const struct ts_text_kind *ts_text_kind_find(const char *text, size_t bytes)
{
    return ts_mm_recognise(text, bytes) ? &mm_kind : &tns_kind;
}
