/* text_input.h - text files as one stream of pieces that hold whole lines.
 *
 * A file is plain, or gzip by its first bytes (any number of members; inflated here, by ISA-L where
 * the build has it), or standard input by the name "-". Files follow one another; no piece spans
 * two. The last line of a file gets the '\n' that it may lack.
 *
 *   owner    the input owns its files; the paths must stay; pieces are copied into the caller's buffer
 *   units    bytes of text, after inflating
 *   threads  one caller at a time; the caller locks. What a thread does between two calls (parsing)
 *            runs beside the reading and inflating that another does inside
 *   errors   0 or a negative ts_code with a sentence that names the file
 */
#ifndef TS_FORMAT_TEXT_INPUT_H
#define TS_FORMAT_TEXT_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ts_text_input;

/* A piece in the caller's buffer. */
struct ts_text_piece {
    size_t bytes;    /* 0: no more */
    uint32_t file;   /* position in paths */
    int first;       /* the first of its file */
    uint64_t done_bytes; /* of all files as they lie on disk, so far */
};

/* piece_bytes: room of the callers' buffers, without the padding they must have behind it; also the
 * longest line. */
int ts_text_input_open(const char *const paths[], uint32_t n_paths, size_t piece_bytes,
                       struct ts_text_input **ret, struct ts_err *err);
void ts_text_input_close(struct ts_text_input *in); /* NULL is fine */

int ts_text_input_next(struct ts_text_input *in, char *buf, struct ts_text_piece *ret,
                       struct ts_err *err);

/* Bytes of all files on disk, 0 when one of them is a pipe. */
uint64_t ts_text_input_total(const struct ts_text_input *in);

#endif
