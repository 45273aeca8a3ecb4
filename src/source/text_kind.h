/* SPDX-License-Identifier: BSD-3-Clause */
/* text_kind.h - the kinds of text that nonzeros come in: a table of how each is recognised, and of
 * its header and lines.
 *
 * Text of every kind is read in pieces of whole lines, which threads parse at the same time
 * (text_source.h). A kind says what comes before the first nonzero and what a line means. To add a
 * kind, add a row to the table in text_kind.c.
 *
 *   owner    text and batch are the caller's; `form` is what the kind keeps of the whole input
 *   threads  header from one at a time; parse is called from many with a header known
 *   errors   TS_EFORMAT, TS_ELIMIT or TS_EARG with a sentence that has no file and line in front:
 *            the caller knows them (*line, from 1, within the text)
 */
#ifndef TS_SOURCE_TEXT_KIND_H
#define TS_SOURCE_TEXT_KIND_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "source/batch.h"
#include "source/tns_text.h"

struct ts_text_kind {
    const char *name;

    /* Memory of a parsing thread, for each byte of a piece, the text included. */
    uint32_t cost;
    int side; /* 1: parse needs memory of its own, as large as a piece */

    /* Parses the start of a file: what comes before the first nonzero. Returns 1 and fills order,
     * bytes and lines (and sizes where ret->sized); 0 when there is nothing, and then ret->bytes is
     * the length of a byte order mark; negative when it is wrong. *rules are those of this file
     * from here on. */
    int (*header)(void *form, struct ts_tns_rules *rules, const char *text, size_t bytes,
                  struct ts_tns_header *ret, uint64_t *line, struct ts_err *err);

    /* Number of fields of the first line that has any, for files without a header
     * (ts_tns_fields). */
    uint32_t (*fields)(const char *text, size_t bytes, uint64_t *n_lines);

    /* Most nonzeros in this many bytes of text. */
    uint64_t (*room)(const struct ts_tns_rules *rules, size_t bytes);

    /* Parses whole lines (ts_tns_parse); `side` is NULL unless the kind needs it. */
    int (*parse)(void *form, char *side, const struct ts_tns_rules *rules, const char *text,
                 size_t bytes, struct ts_batch *b, uint64_t *line, struct ts_err *err);
};

/* Tables, which only the user's options choose; their form is a struct ts_table. */
const struct ts_text_kind *ts_text_kind_table(void);

/* The kind of a file that begins with this text. */
const struct ts_text_kind *ts_text_kind_find(const char *text, size_t bytes);

#endif
