/* SPDX-License-Identifier: BSD-3-Clause */
/* table_text.h - reads tables as text: CSV, TSV, and columns between blanks, with or without a
 * header line.
 *
 * A line has a field for each column. Some columns are modes, one may be the value, one the weight
 * of the cell, the others are skipped. The fields of a mode are whole numbers (indices), names
 * (names.h gives them indices) or times, which are binned. The first 64 KiB of the first file
 * decide between numbers and names. If all fields of a column are missing there, the 64 KiB after
 * its first field decide. A field may be in double quotes; then it may contain separators, but not
 * the end of a line; two double quotes in it stand for one. Blanks around a field are dropped.
 * Empty lines are skipped. In columns between blanks, '#' starts a comment.
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

/* The user's description of a table. A column is given by its number, from 1, or by its name in the
 * header. */
struct ts_table_plan {
    char separator; /* separator of columns; ' ': any number of blanks and tabs */
    int no_quotes;  /* 1: quotes are ordinary characters */
    /* 1: values and weights have decimal commas: 1,5 is one and a half */
    int decimal_comma;
    /* 0: decided from the first lines; 1: there is a header; 2: there is none */
    int header;
    int header_kept; /* 1: `header` is taken from an earlier build, not from the user of this one */
    uint32_t n_modes, n_columns;    /* number of entries in mode and column; 0: not given */
    const char *mode[TS_MAX_ORDER]; /* names of the modes; also of their columns, if `column` is not
                                     * given */
    const char *column[TS_MAX_ORDER];
    const char *value;  /* column of the values; "none": all values are 1; NULL: not given */
    const char *weight; /* column of the weights; NULL: there are none */
    uint32_t n_text, n_bins, n_units;
    /* modes whose fields are names, even if they look like numbers */
    const char *text[TS_MAX_ORDER];
    const char *binned[TS_MAX_ORDER];
    /* modes whose names are whole numbers, compared by their digits, even if they look like
     * indices */
    uint32_t n_digits;
    const char *digits[TS_MAX_ORDER];
    struct ts_time_bin bin[TS_MAX_ORDER];
    /* for each entry of unit[], the mode whose times are in that unit; NULL: all modes of times */
    const char *timed[TS_MAX_ORDER];
    enum ts_time_unit unit[TS_MAX_ORDER];
};

struct ts_table;
int ts_table_new(const struct ts_table_plan *plan, struct ts_table **ret, struct ts_err *err);
void ts_table_free(struct ts_table *t); /* t may be NULL */

/* Parses the start of a file. The start of the first file decides what the columns are. The header
 * of a later file must be the same. */
int ts_table_header(struct ts_table *t, const char *text, size_t bytes, struct ts_tns_header *ret,
                    uint64_t *line, struct ts_err *err);

/* To be called after the first header: returns what the fields of a mode are. */
enum ts_table_field { TS_TABLE_NUMBER, TS_TABLE_NAME, TS_TABLE_TIME };
enum ts_table_field ts_table_mode_field(const struct ts_table *t, uint32_t mode);
/* Returns the name of a mode; NULL: it has none. */
const char *ts_table_mode_name(const struct ts_table *t, uint32_t mode);
/* Returns whether the first line, which is read as data, looks like a header. */
int ts_table_doubtful(const struct ts_table *t);
char ts_table_separator(const struct ts_table *t);
const char *ts_table_value_name(const struct ts_table *t);
const struct ts_time_bin *ts_table_mode_bin(const struct ts_table *t, uint32_t mode);

int ts_table_has_header(const struct ts_table *t);
uint32_t ts_table_width(const struct ts_table *t); /* number of columns */

/* Sets *ret to the column of a mode, of the values (TS_TABLE_OF_VALUES) or of the weights, as the
 * user can name it. That is its name in the header, its number if there is no header, or "none".
 * Malloc'ed; NULL if the name is empty or that of another column, too. */
enum { TS_TABLE_OF_VALUES = TS_MAX_ORDER + 1, TS_TABLE_OF_WEIGHTS };
int ts_table_column_text(const struct ts_table *t, uint32_t mode, char **ret, struct ts_err *err);

/* Whether all fields of some mode are missing at the start of the first file, so that later lines
 * must decide what they are. */
int ts_table_is_open(const struct ts_table *t);

/* Looks at fields of undecided modes in a piece of whole lines; first: it is the first piece of its
 * file. Returns whether some mode is still undecided. To be called with NULL and 0 bytes after the
 * last piece. */
int ts_table_look_on(struct ts_table *t, const char *text, size_t bytes, int first);

/* Kinds of fields in a mode that the user may not expect, and are counted. */
enum ts_table_fact {
    /* numbers that may be codes, such as 1e5, and large numbers whose zeros are an exponent */
    TS_TABLE_EXPONENT,
    TS_TABLE_DIGITS,  /* in a mode of names: digits only */
    TS_TABLE_SPELLED, /* in a mode of names: other whole numbers, such as 7.0 */
    /* words where numbers were likely: in a mode whose names so far are whole numbers, or whose
     * fields at the start of the first file are all missing */
    TS_TABLE_WORD,
    TS_TABLE_FACTS
};
#define TS_TABLE_EXAMPLE 24
struct ts_table_facts {
    uint64_t n[TS_TABLE_FACTS];
    /* for each kind, an example: of its fields, the first in byte order; "" for TS_TABLE_DIGITS */
    char example[TS_TABLE_FACTS][TS_TABLE_EXAMPLE];
};
const struct ts_table_facts *ts_table_mode_facts(const struct ts_table *t, uint32_t mode);

/* ts_table_mode_whole: whether names of a mode are whole numbers, compared by their digits.
 * ts_table_mode_open: whether its fields were all missing at the start of the first file. */
int ts_table_mode_whole(const struct ts_table *t, uint32_t mode);
int ts_table_mode_open(const struct ts_table *t, uint32_t mode);

/* Returns how many bytes ts_table_parse needs as side text (memory for fields that must be
 * rewritten) for each byte of text. */
uint32_t ts_table_side(const struct ts_table *t);

/* Returns the smallest time bin so far of a mode whose fields are times. */
uint64_t ts_table_mode_least(const struct ts_table *t, uint32_t mode);

/* Sets the dictionaries in which ts_table_parse looks up names; NULL: names stay text. */
void ts_table_names(struct ts_table *t, const struct ts_names *names);

uint64_t ts_table_room(const struct ts_tns_rules *rules, size_t bytes);
int ts_table_parse(struct ts_table *t, char *side, const struct ts_tns_rules *rules,
                   const char *text, size_t bytes, struct ts_batch *b, uint64_t *line,
                   struct ts_err *err);

#endif
