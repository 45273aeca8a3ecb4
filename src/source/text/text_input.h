/* SPDX-License-Identifier: BSD-3-Clause */
/* text_input.h - text files as one stream of pieces that hold whole lines.
 *
 * byte_input.h reads a file, plain or compressed. Files are read one after another; no piece is of
 * two files. A last line without '\n' gets one.
 *
 *   owner    the input owns its files; the paths must stay; pieces are copied into the caller's
 *            buffer
 *   units    bytes of text, after inflating
 *   threads  one caller at a time; the caller locks. While one thread reads and decompresses in a
 *            call, others can parse their pieces
 *   errors   0 or a negative ts_code with a sentence that names the file
 */
#ifndef TS_SOURCE_TEXT_INPUT_H
#define TS_SOURCE_TEXT_INPUT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "source/packed/byte_input.h"

struct ts_text_input;

/* A piece in the caller's buffer. */
struct ts_text_piece {
    size_t bytes;  /* 0: no more */
    uint32_t file; /* position in paths */
    int first;     /* the first of its file */
    int skipped;   /* lines of its file were skipped: ts_text_input_lines_skipped */
    /* bytes of it that are in the caller's part of the file (ts_text_input_part); else all */
    size_t own, own_end;
    uint64_t done_bytes; /* bytes of all files read so far, as stored on disk */
    int bad_line; /* after a failure: the next line is wrong, and the sentence has no file and line
                   * yet */
};

/* piece_bytes: size of the callers' buffers, without the padding that must follow; also the longest
 * line. Reading ends with TS_ESTOP when *stop (may be NULL) is set. */
int ts_text_input_open(const char *const paths[], uint32_t n_paths, size_t piece_bytes,
                       const volatile sig_atomic_t *stop, struct ts_text_input **ret,
                       struct ts_err *err);
void ts_text_input_close(struct ts_text_input *in); /* NULL is fine */

int ts_text_input_next(struct ts_text_input *in, char *buf, struct ts_text_piece *ret,
                       struct ts_err *err);

/* To be called before the first piece: only this share of each file will be read, at least a
 * piece. Pieces of a plain file are spread over it, so that a sorted file is seen from end to
 * end; a compressed file is read from its start. Where a piece is more than the share of its file,
 * files that follow are left out to make up for it. Lines cut by a gap are not given and not
 * counted as read. */
void ts_text_input_sample(struct ts_text_input *in, double share);

/* To be called before the first piece. Only part k of n equal parts of each plain file will be
 * given: the lines that begin in it. For other parts the start of the file is still given, because
 * it may have a header, with own == own_end, until ts_text_input_past. A packed file is wholly in
 * one part, in turn. */
void ts_text_input_part(struct ts_text_input *in, uint32_t k, uint32_t n);

/* After a piece: nothing of the open file matters any more but the part. */
void ts_text_input_past(struct ts_text_input *in);

/* Lines of a file before those that were given, once it is past: those that were skipped are read
 * for it. 0: none were, or they cannot be read again. */
uint64_t ts_text_input_lines_skipped(const struct ts_text_input *in, uint32_t file);

/* To be called before the first piece: the first file, open already; the input owns it from here
 * on. NULL is fine. */
void ts_text_input_begun(struct ts_text_input *in, struct ts_byte_input *first);

/* To be called before the first piece: memory that decompression may take (byte_input.h). */
void ts_text_input_unpack(struct ts_text_input *in, uint64_t bytes);

/* Memory that decompressing the regular files among these may take, so that a budget can leave
 * room. A file that cannot be read counts 0. */
uint64_t ts_text_input_unpack_need(const char *const paths[], uint32_t n_paths);

/* Bytes of all files on disk; 0 when one of them is a pipe. */
uint64_t ts_text_input_total(const struct ts_text_input *in);

/* Newlines of a text. */
uint64_t ts_text_lines(const char *text, size_t bytes);

#endif
