/* SPDX-License-Identifier: BSD-3-Clause */
/* mm_text.h - MatrixMarket coordinate files: a matrix, so a tensor of two modes.
 *
 * The banner says what a line has: real and integer have a value, pattern has none (then it is 1).
 * symmetric and skew-symmetric list one triangle; the other is derived. The lines themselves are
 * parsed by tns_text.h.
 *
 *   errors   as in text_kind.h
 */
#ifndef TS_SOURCE_MM_TEXT_H
#define TS_SOURCE_MM_TEXT_H

#include "source/tns_text.h"

/* Whether a file begins with the banner. */
int ts_mm_recognise(const char *text, size_t bytes);

/* Parses banner, comments and sizes, all of which must be in the text. */
int ts_mm_header(struct ts_tns_rules *rules, const char *text, size_t bytes,
                 struct ts_tns_header *ret, uint64_t *line, struct ts_err *err);

/* Most nonzeros that this many bytes can hold. */
uint64_t ts_mm_room(size_t bytes);

int ts_mm_parse(const struct ts_tns_rules *rules, const char *text, size_t bytes,
                struct ts_batch *b, uint64_t *line, struct ts_err *err);

#endif
