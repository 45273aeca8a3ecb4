/* SPDX-License-Identifier: BSD-3-Clause */
/* table_text.h - tables as text: CSV, TSV, and columns between blanks, with or without a header
 * line.
 *
 * A line has a field for each column. Some columns are modes, one may be the value, one the weight
 * of the cell, the others are skipped. The fields of a mode are whole numbers (indices), names
 * (names.h gives them indices) or times, which are binned. The first 64 KiB of the first file
 * decide between numbers and names, and, for a column in which all of these are missing, the first
 * 64 KiB that have a field of it. A field may be in double quotes; then it may contain separators,
 * but not the end of a line, and two double quotes stand for one. Blanks around a field are
 * dropped. Empty lines are skipped. In columns between blanks, '#' starts a comment.
 *
 *   owner    the table owns what it copied; the plan's strings must stay
 *   threads  header by one at a time; parse by many, after the first header
 *   errors   as in text_kind.h; TS_EARG when the plan and the columns do not fit
 */
#ifndef TS_SOURCE_TABLE_TEXT_H
#define TS_SOURCE_TABLE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "source/names/names.h"
#include "source/text/time_bin.h"
#include "source/text/tns_text.h"

#define TS_TABLE_MAX_COLUMNS 1024u

/* The user's description of the table. A column is given by its number, from 1, or by its name in
 * the header. */
struct ts_table_plan {
    char separator;                 /* ' ': any number of blanks and tabs */
    int no_quotes;                  /* quotes are characters as any other */
    int decimal_comma;              /* for values and weights: 1,5 is one and a half */
    int header;                     /* 0: find out; 1: there is a header; 2: there is none */
    uint32_t n_modes, n_columns;    /* 0: not said */
    const char *mode[TS_MAX_ORDER]; /* names of the modes; also of the columns, unless `column` says
                                     * which */
    const char *column[TS_MAX_ORDER];
    const char *value;  /* NULL: not said; "none" */
    const char *weight; /* NULL: there are no weights */
    uint32_t n_text, n_bins, n_units;
    const char *text[TS_MAX_ORDER]; /* modes whose fields are names, whatever they look like */
    const char *binned[TS_MAX_ORDER];
    /* modes with names that are whole numbers by their digits, whatever they look like */
    uint32_t n_digits;
    const char *digits[TS_MAX_ORDER];
    struct ts_time_bin bin[TS_MAX_ORDER];
    /* the mode whose times have unit[]; NULL: all that are binned */
    const char *timed[TS_MAX_ORDER];
    enum ts_time_unit unit[TS_MAX_ORDER];
};

struct ts_table;
int ts_table_new(const struct ts_table_plan *plan, struct ts_table **ret, struct ts_err *err);
void ts_table_free(struct ts_table *t); /* NULL is fine */

/* Parses the start of a file. That of the first file decides what the columns are. In other files a
 * header must be the same as in the first. */
int ts_table_header(struct ts_table *t, const char *text, size_t bytes, struct ts_tns_header *ret,
                    uint64_t *line, struct ts_err *err);

/* After the first header: what each mode is. */
enum ts_table_field { TS_TABLE_NUMBER, TS_TABLE_NAME, TS_TABLE_TIME };
enum ts_table_field ts_table_mode_field(const struct ts_table *t, uint32_t mode);
const char *ts_table_mode_name(const struct ts_table *t, uint32_t mode); /* NULL: none */
int ts_table_doubtful(
    const struct ts_table *t); /* the first line, read as data, looks like a header */
char ts_table_separator(const struct ts_table *t);
const char *ts_table_value_name(const struct ts_table *t);
const struct ts_time_bin *ts_table_mode_bin(const struct ts_table *t, uint32_t mode);

int ts_table_has_header(const struct ts_table *t);
uint32_t ts_table_width(const struct ts_table *t); /* number of columns */

/* The column of a mode, of the values (mode TS_TABLE_OF_VALUES) or of the weights, as a user names
 * it: by its name in the header, by its number if there is no header, or none. Malloc'ed; NULL if
 * its name is empty or that of another column, too. */
enum { TS_TABLE_OF_VALUES = TS_MAX_ORDER + 1, TS_TABLE_OF_WEIGHTS };
int ts_table_column_text(const struct ts_table *t, uint32_t mode, char **ret, struct ts_err *err);

/* Whether all fields of some mode are missing in the start of the first file, so that what follows
 * must decide. */
int ts_table_is_open(const struct ts_table *t);

/* Looks at a piece of whole lines that follows; first: the first one of its file. Returns whether
 * modes are still open. After the last piece, NULL and 0 bytes. */
int ts_table_look_on(struct ts_table *t, const char *text, size_t bytes, int first);

/* Counts of fields of a mode that a user may not expect. */
enum ts_table_fact {
    /* indices that may be codes, as 1e5; large numbers with zeros for an exponent */
    TS_TABLE_EXPONENT,
    TS_TABLE_DIGITS,  /* in a mode of names: digits alone */
    TS_TABLE_SPELLED, /* there: other whole numbers, such as 7.0 */
    /* in a mode of large numbers, or that is open: neither a whole number nor missing */
    TS_TABLE_WORD,
    TS_TABLE_FACTS
};
#define TS_TABLE_EXAMPLE 24
struct ts_table_facts {
    uint64_t n[TS_TABLE_FACTS];
    char example[TS_TABLE_FACTS][TS_TABLE_EXAMPLE]; /* the first by its bytes; "" of digits */
};
const struct ts_table_facts *ts_table_mode_facts(const struct ts_table *t, uint32_t mode);

/* Whether names of a mode are whole numbers by their digits; whether the user named it as text. */
int ts_table_mode_whole(const struct ts_table *t, uint32_t mode);
int ts_table_mode_open(const struct ts_table *t, uint32_t mode);

/* Bytes aside (ts_table_parse) for each byte of text. */
uint32_t ts_table_side(const struct ts_table *t);

/* The smallest bin that was parsed. */
uint64_t ts_table_mode_least(const struct ts_table *t, uint32_t mode);

/* Names are looked for here: between the two. */
void ts_table_names(struct ts_table *t, const struct ts_names *names);

uint64_t ts_table_room(const struct ts_tns_rules *rules, size_t bytes);
int ts_table_parse(struct ts_table *t, char *side, const struct ts_tns_rules *rules,
                   const char *text, size_t bytes, struct ts_batch *b, uint64_t *line,
                   struct ts_err *err);

#endif
