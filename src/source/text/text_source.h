/* SPDX-License-Identifier: BSD-3-Clause */
/* text_source.h - parses text files with many threads, as a source of nonzeros (source.h).
 *
 * Threads take pieces of text in turn, parse them at the same time, and put the nonzeros into the
 * sink in the order of the text. So line numbers in messages are right, and the first mistake is
 * reported.
 *
 *   owner    the source owns its threads, buffers and files
 *   units    bytes of text
 *   threads  open, start, stop and close from one
 *   errors   0 or a negative ts_code; failures in threads are reported to the sink
 */
#ifndef TS_SOURCE_TEXT_SOURCE_H
#define TS_SOURCE_TEXT_SOURCE_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "source/files_plan.h"
#include "source/source.h"
#include "source/names/names.h"
#include "source/text/table_text.h"
#include "source/text/tns_text.h"

struct ts_text_source;

/* Bytes of text that a thread reads at a time, at least and at most. A line must fit. */
#define TS_TEXT_MIN_PIECE ((size_t)64 << 10)
#define TS_TEXT_MAX_PIECE ((size_t)512 << 10)

/* Returns the memory of each thread: for a piece of text, and for a batch of the most nonzeros that
 * the piece can have. */
static inline size_t ts_text_source_bytes(size_t piece_bytes)
{
    return 5 * piece_bytes;
}

/* Opens the files, and reads up to the first nonzero, which gives the order. Parses a header if
 * there is one. */
int ts_text_source_open(const struct ts_files_plan *plan, struct ts_text_source **ret,
                        struct ts_err *err);
void ts_text_source_close(struct ts_text_source *s); /* to be called after stop; s may be NULL */

/* Returns the kind of the text (text_kind.h). */
struct ts_text_kind;
const struct ts_text_kind *ts_text_source_kind(const struct ts_text_source *s);

const struct ts_tns_rules *ts_text_source_rules(const struct ts_text_source *s);

/* To be called before start: sets the object that gives names their indices. The source does not
 * own it. */
void ts_text_source_names(struct ts_text_source *s, struct ts_names *names);

/* Returns the source. If it is started again after ts_names_told, it passes the nonzeros that
 * waited for indices to the sink. Its check fails unless each file had as many nonzeros as its
 * header says; a sample may have fewer. */
struct ts_source ts_text_source_as_source(struct ts_text_source *s);

/* count returns how many nonzeros of a file were read. If several ranks read parts of it, set_count
 * sets the number that all have read, for the source's check. */
uint64_t ts_text_source_count(const struct ts_text_source *s, uint32_t file);
void ts_text_source_set_count(struct ts_text_source *s, uint32_t file, uint64_t n);

#endif
