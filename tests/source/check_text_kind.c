/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kind of text in the table is recognised, read and refused by the rules that the readers of
 * text rely on. A new row is tested by its example, without a line here. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build/value_table.h"
#include "source/text/table_text.h"
#include "source/text/text_kind.h"
#include "tests/support/run_suite.h"

static struct ts_err err;

/* What one reading of a text gives. */
struct reading {
    struct ts_table *table; /* the form, of tables */
    struct ts_tns_rules rules;
    struct ts_tns_header header;
    struct ts_batch batch;
    uint64_t line;
    int rc;
};

/* Reads whole lines as a piece of a file, with nothing but digits behind it. */
static void read_text(const struct ts_text_kind *kind, const char *text, size_t bytes,
                      struct reading *ret)
{
    const struct ts_table_plan plan = { .separator = ',' };
    char *const copy = malloc(bytes + TS_TEXT_PAD), *side;
    *ret = (struct reading){ .rules = { .base = 1, .value_bytes = 8 } };
    memcpy(copy, text, bytes);
    memset(copy + bytes, '7', TS_TEXT_PAD);
    if (kind == &ts_text_table)
        ck_assert_int_eq(ts_table_new(&plan, &ret->table, &err), 0);
    ret->rc = kind->header(ret->table, &ret->rules, copy, bytes, &ret->header, &ret->line, &err);
    if (ret->rc >= 0) {
        const size_t skip = ret->header.bytes;
        ret->rules.order =
            ret->rc > 0 ? ret->header.order : kind->fields(copy + skip, bytes - skip, NULL) - 1;
        ret->rules.fixed = ret->header.sized;
        memcpy(ret->rules.dim, ret->header.dim, sizeof ret->rules.dim);
        ck_assert_msg(ret->rules.order == 2, "%s: order %u", kind->name, ret->rules.order);
        ck_assert_int_eq(ts_batch_new(2, kind->room(&ret->rules, bytes - skip), &ret->batch, &err),
                         0);
        ts_batch_clear(&ret->batch);
        side = malloc(ts_text_kind_side(kind, ret->table) * bytes + TS_TEXT_PAD);
        ret->rc = kind->parse(ret->table, side, &ret->rules, copy + skip, bytes - skip, &ret->batch,
                              &ret->line, &err);
        free(side);
    }
    free(copy);
}

static void reading_free(struct reading *r)
{
    ts_batch_free(&r->batch);
    ts_table_free(r->table);
}

START_TEST(rows_are_whole) /* loop test: _i is the kind */
{
    const struct ts_text_kind *kind = ts_text_kind_of(_i);
    ck_assert_msg(kind->number == (enum ts_text_kind_number)_i,
                  "src/source/text/text_kind.h: row %d is of kind %s, whose number is %d", _i,
                  kind->name, kind->number);
    ck_assert(kind->name != NULL && kind->ending[0] != NULL && kind->cost > 0);
    ck_assert(kind->header != NULL && kind->fields != NULL && kind->room != NULL &&
              kind->parse != NULL);
    ck_assert_msg(kind->ending[3] == NULL, "%s: the list of endings has no end", kind->name);
    for (uint32_t e = 0; kind->ending[e] != NULL; e++) {
        ck_assert(kind->ending[e][0] == '.' && ts_text_kind_has_ending(kind->ending[e]));
        for (int k = 0; k < _i; k++)
            for (uint32_t o = 0; ts_text_kind_of(k)->ending[o] != NULL; o++)
                ck_assert_str_ne(ts_text_kind_of(k)->ending[o], kind->ending[e]);
    }
    ck_assert(!ts_text_kind_has_ending(".no-such-ending"));
}
END_TEST

START_TEST(an_example_is_recognised) /* loop test: _i is the kind */
{
    const struct ts_text_kind *kind = ts_text_kind_of(_i), *found;
    ck_assert_msg(kind->example != NULL, "the kind of text %s has no example, which tests read",
                  kind->name);
    found = ts_text_kind_find(kind->example, strlen(kind->example));
    if (kind->recognise == NULL)
        ck_assert_msg(found == &ts_text_tns, "a %s is taken for a file of kind %s", kind->name,
                      found->name);
    else
        ck_assert_msg(found == kind, "a %s file is taken for one of kind %s", kind->name,
                      found->name);
    if (kind->recognise != NULL && kind != &ts_text_tns)
        for (int k = 0; k < TS_TEXT_N_KINDS; k++) /* and those of others are not */
            ck_assert(k == _i || !kind->recognise(ts_text_kind_of(k)->example,
                                                  strlen(ts_text_kind_of(k)->example)));
    if (kind->recognise != NULL) /* a file that ends at once */
        kind->recognise("", 0);
}
END_TEST

START_TEST(an_example_is_read) /* loop test: _i is the kind */
{
    static const uint64_t index[] = { 0, 0, 1, 2 };
    const struct ts_text_kind *kind = ts_text_kind_of(_i);
    const size_t bytes = strlen(kind->example);
    struct reading r;
    uint64_t lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += kind->example[i] == '\n';
    read_text(kind, kind->example, bytes, &r);
    ck_assert_msg(r.rc == 0, "the example of %s: line %lu: %s", kind->name, (unsigned long)r.line,
                  err.text);
    ck_assert_uint_eq(r.batch.n, 2);
    ck_assert_uint_eq(r.batch.n_read, 2);
    ck_assert_uint_eq(r.batch.n_lines + r.header.lines, lines);
    ck_assert_int_eq(memcmp(r.batch.index, index, sizeof index), 0);
    ck_assert_double_eq(ts_value_of_bits(r.batch.value[0], 8), 1);
    ck_assert_double_eq(ts_value_of_bits(r.batch.value[1], 8), 2.5);
    ck_assert(r.batch.max[0] == 1 && r.batch.max[1] == 2);
    reading_free(&r);
}
END_TEST

/* Lines may end with CR LF, as editors of other systems write them. */
START_TEST(lines_may_end_with_cr_lf) /* loop test: _i is the kind */
{
    const struct ts_text_kind *kind = ts_text_kind_of(_i);
    char text[256], *at = text;
    struct reading r;
    for (const char *p = kind->example; *p != '\0'; p++) {
        if (*p == '\n')
            *at++ = '\r';
        *at++ = *p;
    }
    read_text(kind, text, (size_t)(at - text), &r);
    ck_assert_msg(r.rc == 0 && r.batch.n == 2, "%s: lines that end with CR LF: %s", kind->name,
                  err.text);
    reading_free(&r);
}
END_TEST

/* Each byte of an example in turn becomes another one, or the end: what is read lies in the text,
 * and in the batch. */
START_TEST(damage_is_refused_or_read) /* loop test: _i is the kind */
{
    static const char put[] = "0-7 ,]}\"\t#\\e";
    const struct ts_text_kind *kind = ts_text_kind_of(_i);
    const size_t bytes = strlen(kind->example);
    for (size_t i = 0; i + 1 < bytes; i++)
        for (const char *c = put; *c != '\0'; c++) {
            struct reading r = { 0 };
            struct ts_tns_rules rules = { .base = 1, .value_bytes = 8 };
            struct ts_tns_header h = { 0 };
            struct ts_table *t = NULL;
            const struct ts_table_plan plan = { .separator = ',' };
            char text[256];
            memcpy(text, kind->example, bytes);
            text[i] = *c;
            memset(text + bytes, '7', TS_TEXT_PAD);
            if (kind == &ts_text_table)
                ck_assert_int_eq(ts_table_new(&plan, &t, &err), 0);
            if (kind->header(t, &rules, text, bytes, &h, &r.line, &err) >= 0 &&
                (h.order == 2 ||
                 (h.order == 0 && kind->fields(text + h.bytes, bytes - h.bytes, NULL) == 3))) {
                read_text(kind, text, bytes, &r);
                ck_assert(r.batch.n <= r.batch.room && r.rc <= 0);
                ck_assert(r.rc == 0 || r.line >= 1);
                reading_free(&r);
            }
            ts_table_free(t);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text_kind");
    TCase *tcase = tcase_create("text_kind");
    tcase_add_loop_test(tcase, rows_are_whole, 0, TS_TEXT_N_KINDS);
    tcase_add_loop_test(tcase, an_example_is_recognised, 0, TS_TEXT_N_KINDS);
    tcase_add_loop_test(tcase, an_example_is_read, 0, TS_TEXT_N_KINDS);
    tcase_add_loop_test(tcase, lines_may_end_with_cr_lf, 0, TS_TEXT_N_KINDS);
    tcase_add_loop_test(tcase, damage_is_refused_or_read, 0, TS_TEXT_N_KINDS);
    suite_add_tcase(suite, tcase);
    return test_run_suite(suite, CK_FORK_GETENV);
}
