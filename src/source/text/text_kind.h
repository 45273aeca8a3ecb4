/* SPDX-License-Identifier: BSD-3-Clause */
/* text_kind.h - lists the kinds of text with nonzeros: how each is recognised, and the functions
 * that parse its header and lines.
 *
 * Text of every kind is read in pieces of whole lines, which threads parse at the same time
 * (text_source.h). A kind defines what comes before the first nonzero, and what a line means. A new
 * kind is a file like mm_text.c, which defines ts_text_NAME, and a row in TS_TEXT_KINDS. The build,
 * the default name of its result, the fuzzer and tests/source/check_text_kind.c use all rows of the
 * table.
 *
 *   owner    text and batch are the caller's; `form` is the state of the kind for the whole input
 *   threads  header: one thread at a time; parse: many threads, after a header was parsed
 *   errors   TS_EFORMAT, TS_ELIMIT or TS_EARG with a message that does not begin with file and
 *            line: the caller adds them (*line counts from 1, within the text)
 */
#ifndef TS_SOURCE_TEXT_KIND_H
#define TS_SOURCE_TEXT_KIND_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "source/batch.h"
#include "source/text/tns_text.h"

/* The rows of the table, in the order in which the kinds are tried. The last one accepts any
 * text. */
#define TS_TEXT_KINDS(KIND) \
    KIND(mm)                \
    KIND(table)             \
    KIND(tns)

#define TS_TEXT_KIND_NUMBER(kind) TS_TEXT_IS_##kind,
enum ts_text_kind_number { TS_TEXT_KINDS(TS_TEXT_KIND_NUMBER) TS_TEXT_N_KINDS };

struct ts_text_kind {
    enum ts_text_kind_number number; /* number of its row in TS_TEXT_KINDS */
    const char *name;                /* name of the kind in messages: "a ... file" */

    /* Endings of file names of this kind, up to NULL. The default name of a tensor is the file name
     * without them. */
    const char *ending[4];

    /* For tests: a file of this kind with the nonzeros (0, 0) = 1 and (1, 2) = 2.5 of a matrix, and
     * indices from 1. A table has the separator ',', which its first bytes do not tell. */
    const char *example;

    /* Bytes of memory that a parsing thread needs for each byte of text, the text included. */
    uint32_t cost;

    /* Returns how many bytes parse needs as side text (memory for fields that must be rewritten)
     * for each byte of a piece. NULL: none. */
    uint32_t (*side)(const void *form);

    /* Whether a file that begins with this text is of this kind. NULL: only options can choose this
     * kind. */
    int (*recognise)(const char *text, size_t bytes);

    /* Parses the start of a file: what comes before the first nonzero. Returns 1 and fills
     * order, bytes and lines (and sizes where ret->sized); 0 if there is no header, and then
     * ret->bytes is the length of a byte order mark; negative if the header is wrong. Sets *rules
     * to those of this file. */
    int (*header)(void *form, struct ts_tns_rules *rules, const char *text, size_t bytes,
                  struct ts_tns_header *ret, uint64_t *line, struct ts_err *err);

    /* Returns the number of fields of the first line that is not empty, for files without a header
     * (ts_tns_fields). */
    uint32_t (*fields)(const char *text, size_t bytes, uint64_t *n_lines);

    /* Returns the most nonzeros in this many bytes of text. */
    uint64_t (*room)(const struct ts_tns_rules *rules, size_t bytes);

    /* Parses whole lines (ts_tns_parse). `side`: the side text; NULL if the kind needs none. */
    int (*parse)(void *form, char *side, const struct ts_tns_rules *rules, const char *text,
                 size_t bytes, struct ts_batch *b, uint64_t *line, struct ts_err *err);
};

#define TS_TEXT_KIND_DECLARE(kind) extern const struct ts_text_kind ts_text_##kind;
TS_TEXT_KINDS(TS_TEXT_KIND_DECLARE)

const struct ts_text_kind *ts_text_kind_of(enum ts_text_kind_number number);

/* Returns the kind of a file that begins with this text. */
const struct ts_text_kind *ts_text_kind_find(const char *text, size_t bytes);

/* Whether file names of some kind have this ending (".tns"). */
int ts_text_kind_has_ending(const char *ending);

/* Returns the bytes of side text (rewritten fields) for each byte of text; 0: none. */
static inline uint32_t ts_text_kind_side(const struct ts_text_kind *kind, const void *form)
{
    return kind->side == NULL ? 0 : kind->side(form);
}

#endif
