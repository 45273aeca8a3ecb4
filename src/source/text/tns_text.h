/* SPDX-License-Identifier: BSD-3-Clause */
/* tns_text.h - parses lines of nonzeros: FROSTT's .tns files, and files with an sptensor header.
 *
 * A line has `order` indices and a value, separated by blanks or tabs. It may be empty and may end
 * with CR LF; a '#' or '//' at the start of a field begins a comment. A CR elsewhere is refused,
 * because it may be meant as the end of a line. Indices are whole numbers, however they are written
 * (7.0, 7e0). Values are decimal numbers as strtod reads them, correctly rounded to float64, and
 * then to float32 if value_bytes is 4.
 *
 *   owner    text and batch are the caller's
 *   units    bytes; lines count from 1 within the text
 *   threads  all functions are pure
 *   errors   TS_EFORMAT or TS_ELIMIT with a message that does not begin with file and line: the
 *            caller adds them
 */
#ifndef TS_SOURCE_TNS_TEXT_H
#define TS_SOURCE_TNS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "source/batch.h"

#define TS_TEXT_PAD 32u /* readable bytes that must follow a text */

/* How the lines of a text are parsed. */
struct ts_tns_rules {
    uint32_t order;
    uint32_t base;        /* first index: 0 or 1 */
    uint32_t value_bytes; /* bytes of a value: 4 or 8 */
    int fixed;            /* 1: dim[] bounds the indices (--dims or a header); 0: TS_MAX_DIM does */
    const char *fixed_by; /* what has set dim[], for messages: TS_SET_SIZES, "the header" */
    uint64_t dim[TS_MAX_ORDER];
    int no_value; /* 1: a line has only indices, and its value is 1 */
    int numbers;  /* 1: indices are numbers separated by blanks; no option allows names or commas */
    /* 1: lines with a missing field are left out; 0: they are refused; -1: refused, and no option
     * can leave them out */
    int skip_missing;
    int zeros; /* 1: zeros are kept; 0: they are dropped */
    /* for mm_text.c. 1 or -1: each line off the diagonal also gives its mirror image, with this
     * sign */
    int mirror;
};

/* Parses whole lines: text[bytes - 1] is '\n', and TS_TEXT_PAD readable bytes follow. Appends the
 * nonzeros to b, which must have room for bytes / (2 (order + 1)) + 1 more. */
int ts_tns_parse(const struct ts_tns_rules *rules, const char *text, size_t bytes,
                 struct ts_batch *b, uint64_t *line, struct ts_err *err);

/* Returns the number of fields of the first line that has any: order + 1; 0 if there is no such
 * line. *n_lines (may be NULL) is the number of lines before it. */
uint32_t ts_tns_fields(const char *text, size_t bytes, uint64_t *n_lines);

/* Refuses the line from p to the '\n' at `end` if it has a carriage return before its last byte. */
int ts_tns_check_returns(const char *p, const char *end, struct ts_err *err);

/* To be called if a field of column `column` (from 0) is missing. Returns 1 if the line is to be
 * left out; the caller counts it. Otherwise refuses the line. `mode` is the mode of the field,
 * or one of these values. name: the column's name, may be NULL. */
enum { TS_TNS_VALUE = -1, TS_TNS_WEIGHT = -2 };
int ts_tns_missing(const struct ts_tns_rules *r, uint32_t column, const char *name, int mode,
                   const char *word, const char *end, struct ts_err *err);

/* Parse the fields of a line, for other kinds of text. A word must be followed by a byte that
 * cannot be part of a number. add rounds the value and appends the nonzero; zeros are counted and
 * dropped. */
int ts_tns_index(const struct ts_tns_rules *r, uint32_t mode, const char *word, const char *end,
                 uint64_t *ret, struct ts_err *err);
int ts_tns_value(const char *word, const char *end, double *ret, struct ts_err *err);
int ts_tns_add(const struct ts_tns_rules *r, const uint64_t *index, double value,
               struct ts_batch *b, struct ts_err *err);

/* Parses an `sptensor` header (Tensor Toolbox, pyttb, GenTen): that word, the order, the sizes and
 * the number of nonzeros, each on its line. GenTen's second word, indices-start-at-zero or -one,
 * becomes rules->base. The message for the header of a dense tensor says that it is one. Returns 1
 * and sets order, sizes, nnz, and the bytes and lines of the header. Returns 0 if the text does not
 * begin with the word; then `bytes` is the length of a byte order mark, which some editors write
 * before UTF-8. Returns a failure if the header is wrong. */
struct ts_tns_header {
    uint32_t order;
    int sized; /* 1: the file states sizes and the number of nonzeros */
    uint64_t dim[TS_MAX_ORDER], nnz;
    size_t bytes;
    uint64_t lines;
};
int ts_tns_header(struct ts_tns_rules *rules, const char *text, size_t bytes,
                  struct ts_tns_header *ret, uint64_t *line, struct ts_err *err);

#endif
