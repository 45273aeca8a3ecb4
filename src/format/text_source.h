/* text_source.h - text files parsed by many threads into a ts_collect.
 *
 * Threads take pieces of text in turn, parse them side by side and hand the nonzeros over in the
 * order of the text, so line numbers in sentences are right and the first mistake is the one told.
 *
 *   owner    the source owns its threads, buffers and files
 *   units    bytes of text
 *   threads  open, start, stop and close from one
 *   errors   0 or a negative ts_code; what goes wrong in a thread arrives through ts_collect_wait
 */
#ifndef TS_FORMAT_TEXT_SOURCE_H
#define TS_FORMAT_TEXT_SOURCE_H

#include <stdint.h>

#include "base/err.h"
#include "format/collect.h"
#include "format/tns_text.h"

struct ts_text_source;

struct ts_text_plan {
    const char *const *paths; /* "-": standard input */
    uint32_t n_paths;
    size_t piece_bytes;
    uint32_t threads, base, value_bytes;
    uint32_t n_dims; /* 0: not given */
    uint64_t dim[TS_MAX_ORDER];
};

/* Reads as far as the first nonzero, which tells the order, and takes an sptensor header. */
int ts_text_source_open(const struct ts_text_plan *plan, struct ts_text_source **ret,
                        struct ts_err *err);
void ts_text_source_close(struct ts_text_source *s); /* after stop; NULL is fine */

const struct ts_tns_rules *ts_text_source_rules(const struct ts_text_source *s);

/* Starts plan.threads threads that put batches into c. */
int ts_text_source_start(struct ts_text_source *s, struct ts_collect *c, struct ts_err *err);
void ts_text_source_stop(struct ts_text_source *s); /* waits for the threads */

/* After stop: whether as many nonzeros came as the headers said. */
int ts_text_source_check(const struct ts_text_source *s, uint64_t n_read, struct ts_err *err);

/* Bytes read and in all, as they lie on disk; 0 in all when it is not known. */
void ts_text_source_progress(const struct ts_text_source *s, uint64_t *done, uint64_t *total);

#endif
