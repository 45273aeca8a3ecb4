/* SPDX-License-Identifier: BSD-3-Clause */
/* tns_text.h - lines of text to nonzeros: FROSTT's .tns and what follows an sptensor header.
 *
 * A line has `order` indices and a value, separated by blanks or tabs. It may be empty and may end
 * with CR LF; a '#' or '//' at the start of a field begins a comment. A CR elsewhere is refused,
 * because it may be meant as the end of a line. Indices are whole numbers, however they are written
 * (7.0, 7e0). Values are decimal numbers as strtod reads them, correctly rounded to float64, and
 * from there to float32 where that is asked for.
 *
 *   owner    text and batch are the caller's
 *   units    bytes; lines from 1 within the text given
 *   threads  all functions are pure
 *   errors   TS_EFORMAT or TS_ELIMIT with a sentence that has no file and line in front: the caller
 *            knows them (*line, from 1, within the text)
 */
#ifndef TS_SOURCE_TNS_TEXT_H
#define TS_SOURCE_TNS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "source/batch.h"

#define TS_TEXT_PAD 32u /* readable bytes that must follow a text */

struct ts_tns_rules {
    uint32_t order;
    uint32_t base;        /* 0 or 1: the first index */
    uint32_t value_bytes; /* 4 or 8 */
    int fixed;            /* dim[] bounds the indices (--dims or a header), else TS_MAX_DIM does */
    const char *fixed_by; /* TS_SET_SIZES, "the header": for the sentence */
    uint64_t dim[TS_MAX_ORDER];
    int no_value; /* a line has only indices, and its value is 1 */
    int numbers;  /* indices are numbers and divided by blanks: no option takes names or commas */
    /* lines with a missing field are left out, not refused; -1: nor can they be */
    int skip_missing;
    int zeros;  /* zeros are added as any other value, and not dropped */
    int mirror; /* mm_text.c. 1, -1: each line off the diagonal also stands for its mirror image,
                 * with this sign */
};

/* Parses whole lines: text[bytes - 1] is '\n', TS_TEXT_PAD bytes follow. Appends to b, which has
 * room for bytes / (2 (order + 1)) + 1 nonzeros. */
int ts_tns_parse(const struct ts_tns_rules *rules, const char *text, size_t bytes,
                 struct ts_batch *b, uint64_t *line, struct ts_err *err);

/* Number of fields of the first line of the text that has any: order + 1; 0 when no line has. Lines
 * before it are counted in *n_lines (NULL is fine). */
uint32_t ts_tns_fields(const char *text, size_t bytes, uint64_t *n_lines);

/* Refuses the line at p, whose '\n' is at end, if it has a CR anywhere but before that. */
int ts_tns_check_returns(const char *p, const char *end, struct ts_err *err);

/* A field of column `column`, from 0, is missing. Returns 1 if the line is to be left out, and then
 * the caller counts it. Otherwise it refuses the line. `mode` is the mode of the field, or one of
 * these values. name: the column's name, may be NULL. */
enum { TS_TNS_VALUE = -1, TS_TNS_WEIGHT = -2 };
int ts_tns_missing(const struct ts_tns_rules *r, uint32_t column, const char *name, int mode,
                   const char *word, const char *end, struct ts_err *err);

/* Parse the fields of a line, for other kinds of text: a word ends at a byte that cannot be part of
 * a number. add rounds the value; it counts zeros and drops them. */
int ts_tns_index(const struct ts_tns_rules *r, uint32_t mode, const char *word, const char *end,
                 uint64_t *ret, struct ts_err *err);
int ts_tns_value(const char *word, const char *end, double *ret, struct ts_err *err);
int ts_tns_add(const struct ts_tns_rules *r, const uint64_t *index, double value,
               struct ts_batch *b, struct ts_err *err);

/* Parses an `sptensor` header (Tensor Toolbox, pyttb, GenTen): the word, order, sizes and number of
 * nonzeros, each on its line. GenTen's second word, indices-start-at-zero or -one, becomes
 * rules->base. A header of a dense tensor is refused by name. Returns 1 and fills order, sizes,
 * nnz, and the bytes and lines of the header; 0 when the text does not start with the word, and
 * then `bytes` is the length of a byte order mark, which some editors write before UTF-8; negative
 * when the header is wrong. */
struct ts_tns_header {
    uint32_t order;
    int sized; /* the file states sizes and number of nonzeros */
    uint64_t dim[TS_MAX_ORDER], nnz;
    size_t bytes;
    uint64_t lines;
};
int ts_tns_header(struct ts_tns_rules *rules, const char *text, size_t bytes,
                  struct ts_tns_header *ret, uint64_t *line, struct ts_err *err);

#endif
