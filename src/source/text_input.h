/* SPDX-License-Identifier: BSD-3-Clause */
/* text_input.h - text files as one stream of pieces that hold whole lines.
 *
 * A file is plain, or packed in one of the ways of decompress.h by its first bytes, or standard input by
 * the name "-". Files follow one another; no piece spans two. The last line of a file gets the '\n' that it may lack.
 *
 *   owner    the input owns its files; the paths must stay; pieces are copied into the caller's buffer
 *   units    bytes of text, after inflating
 *   threads  one caller at a time; the caller locks. What a thread does between two calls (parsing)
 *            runs beside the reading and inflating that another does inside
 *   errors   0 or a negative ts_code with a sentence that names the file
 */
#ifndef TS_SOURCE_TEXT_INPUT_H
#define TS_SOURCE_TEXT_INPUT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ts_text_input;

/* A piece in the caller's buffer. */
struct ts_text_piece {
    size_t bytes;        /* 0: no more */
    uint32_t file;       /* position in paths */
    int first;           /* the first of its file */
    uint64_t done_bytes; /* of all files as they lie on disk, so far */
    int bad_line; /* after a failure: it is the next line that is wrong, and the sentence has no
                      * place in front */
};

/* piece_bytes: room of the callers' buffers, without the padding they must have behind it; also the
 * longest line. Reading ends with TS_ESTOP when *stop (may be NULL) is set. */
int ts_text_input_open(const char *const paths[], uint32_t n_paths, size_t piece_bytes,
                       const volatile sig_atomic_t *stop, struct ts_text_input **ret,
                       struct ts_err *err);
void ts_text_input_close(struct ts_text_input *in); /* NULL is fine */

int ts_text_input_next(struct ts_text_input *in, char *buf, struct ts_text_piece *ret,
                       struct ts_err *err);

/* Before the first piece: of each file only this share is to be read. Of a plain one pieces spread over
 * it, so that one that is sorted is seen from end to end; of a packed file, which can be read from its start
 * alone, the beginning. Lines cut by a gap are not given, nor counted as read. A file gives at least a
 * piece. */
void ts_text_input_sample(struct ts_text_input *in, double share);

/* Before the first piece: memory that unpacking may take, if it is more than TS_TEXT_INPUT_UNPACK. */
#define TS_TEXT_INPUT_UNPACK (UINT64_C(10) << 20) /* xz as it packs by default, zstd up to -19 */
void ts_text_input_unpack(struct ts_text_input *in, uint64_t bytes);

/* What unpacking the regular files of these may take, for a budget to leave room; what cannot be read counts
 * 0. */
uint64_t ts_text_input_unpack_need(const char *const paths[], uint32_t n_paths);

/* Bytes of all files on disk, 0 when one of them is a pipe. */
uint64_t ts_text_input_total(const struct ts_text_input *in);

#endif
