/* SPDX-License-Identifier: BSD-3-Clause */
/* mm_text.h - MatrixMarket coordinate files: a matrix, so a tensor of two modes.
 *
 * The banner says what a line is: real and integer have a value, pattern has none (1 is taken); symmetric
 * and skew-symmetric list one triangle, and the other is made. Lines are those of tns_text.h then.
 *
 *   errors   as in text_kind.h
 */
#ifndef TS_SOURCE_MM_TEXT_H
#define TS_SOURCE_MM_TEXT_H

#include "source/tns_text.h"

/* Whether a file that begins so has the banner. */
int ts_mm_recognise(const char *text, size_t bytes);

/* Banner, comments and sizes, all of which must be in the text. */
int ts_mm_header(struct ts_tns_rules *rules, const char *text, size_t bytes,
                 struct ts_tns_header *ret, uint64_t *line, struct ts_err *err);

/* Most nonzeros of so many bytes. */
uint64_t ts_mm_room(size_t bytes);

int ts_mm_parse(const struct ts_tns_rules *rules, const char *text, size_t bytes,
                struct ts_batch *b, uint64_t *line, struct ts_err *err);

#endif
