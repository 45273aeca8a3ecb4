/* SPDX-License-Identifier: BSD-3-Clause */
/* text_source.h - text files parsed by many threads, as a source of nonzeros.
 *
 * Threads take pieces of text in turn, parse them side by side and hand the nonzeros over in the
 * order of the text, so line numbers in sentences are right and the first mistake is the one told.
 *
 *   owner    the source owns its threads, buffers and files
 *   units    bytes of text
 *   threads  open, start, stop and close from one
 *   errors   0 or a negative ts_code; what goes wrong in a thread goes to the sink
 */
#ifndef TS_SOURCE_TEXT_SOURCE_H
#define TS_SOURCE_TEXT_SOURCE_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "source/source.h"
#include "source/names.h"
#include "source/table_text.h"
#include "source/tns_text.h"

struct ts_text_source;

/* Text that a thread takes at a time; a line must fit. */
#define TS_TEXT_MIN_PIECE ((size_t)64 << 10)
#define TS_TEXT_MAX_PIECE ((size_t)512 << 10)

/* Memory of each thread: the text, and a batch for the most nonzeros that it can hold. */
static inline size_t ts_text_source_bytes(size_t piece_bytes)
{
    return 5 * piece_bytes;
}

struct ts_text_plan {
    const char *const *paths;          /* "-": standard input */
    const volatile sig_atomic_t *stop; /* ends reading; may be NULL */
    uint32_t n_paths;
    size_t piece_bytes;
    uint64_t read_bytes; /* memory for text and what becomes of it */
    uint32_t threads, base, value_bytes;
    uint32_t n_dims; /* 0: not given */
    uint64_t dim[TS_MAX_ORDER];
    uint64_t unpack_bytes; /* memory that unpacking may take (text_input.h) */
    struct ts_table
        *table;   /* the files are tables; NULL: what they begin with says what they are */
    double share; /* of the text to read (text_input.h); 0: all */
};

/* Reads as far as the first nonzero, which tells the order, and takes an sptensor header. */
int ts_text_source_open(const struct ts_text_plan *plan, struct ts_text_source **ret,
                        struct ts_err *err);
void ts_text_source_close(struct ts_text_source *s); /* after stop; NULL is fine */

/* Whether its text is .tns: an index for each mode and a value, which ts_tns_parse reads. */
int ts_text_source_plain(const struct ts_text_source *s);

const struct ts_tns_rules *ts_text_source_rules(const struct ts_text_source *s);

/* Before start: names become indices there. The source does not own it. */
void ts_text_source_names(struct ts_text_source *s, struct ts_names *names);

/* Its check: as many nonzeros came from each file as its header said, of a sample at most. */
struct ts_source ts_text_source_as_source(struct ts_text_source *s);

/* Bytes read and in all, as they lie on disk; 0 in all when it is not known. */
void ts_text_source_progress(const struct ts_text_source *s, uint64_t *done, uint64_t *total);

#endif
