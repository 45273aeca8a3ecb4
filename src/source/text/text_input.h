/* SPDX-License-Identifier: BSD-3-Clause */
/* text_input.h - reads text files as a stream of pieces that consist of whole lines.
 *
 * Files, plain or compressed (byte_input.h), are read one after another. Each piece is from one
 * file. If the last line of a file has no '\n', it is added.
 *
 *   owner    the input owns its files; the paths must stay; pieces are copied into the caller's
 *            buffer
 *   units    bytes of text, after decompression
 *   threads  one caller at a time; the caller locks. While one thread reads and decompresses in a
 *            call, others can parse their pieces
 *   errors   0 or a negative ts_code with a message that names the file
 */
#ifndef TS_SOURCE_TEXT_INPUT_H
#define TS_SOURCE_TEXT_INPUT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "source/packed/byte_input.h"

struct ts_text_input;

/* A piece of text in the caller's buffer. */
struct ts_text_piece {
    size_t bytes;  /* number of bytes; 0: there is no more text */
    uint32_t file; /* number of the file in paths */
    int first;     /* 1: the first piece of its file */
    /* 1: this process has skipped earlier lines of the file; ts_text_input_lines_skipped counts
     * them */
    int skipped;
    /* bytes own .. own_end - 1 of the piece belong to the caller's part of the file
     * (ts_text_input_part); without parts, all do */
    size_t own, own_end;
    uint64_t done_bytes; /* bytes on disk of all files that were read so far */
    /* 1, after a failure: the next line is wrong, and the message does not name file and line
     * yet */
    int bad_line;
};

/* Opens the files. piece_bytes is the size of the callers' buffers, without the padding that must
 * follow, and so the longest possible line. Reading returns TS_ESTOP when *stop (may be NULL) is
 * set. */
int ts_text_input_open(const char *const paths[], uint32_t n_paths, size_t piece_bytes,
                       const volatile sig_atomic_t *stop, struct ts_text_input **ret,
                       struct ts_err *err);
void ts_text_input_close(struct ts_text_input *in); /* in may be NULL */

int ts_text_input_next(struct ts_text_input *in, char *buf, struct ts_text_piece *ret,
                       struct ts_err *err);

/* To be called before any text is read: only this fraction of each file will be read, at least a
 * piece. The pieces of an uncompressed file are spread over it, so that all of a sorted file is
 * represented. A compressed file is read from its start. If a piece is more than this fraction of
 * its file, later files are left out (file_sample.h). Lines of which a part is skipped are neither
 * returned nor counted. */
void ts_text_input_sample(struct ts_text_input *in, double share);

/* To be called before any text is read. Only part k of n equal parts of each uncompressed file will
 * be read: the lines that begin in it. The start of the file is returned to all parts, because it
 * may have a header, with own == own_end, until ts_text_input_past. A compressed file is not
 * divided: part i reads the compressed files i, i + n and so on. */
void ts_text_input_part(struct ts_text_input *in, uint32_t k, uint32_t n);

/* To be called after a piece of text, if no more text of the open file is needed from before the
 * part that this process reads. */
void ts_text_input_past(struct ts_text_input *in);

/* Returns how many lines of a file were skipped before the part that this process reads. It reads
 * the skipped bytes to count lines. 0: none were skipped, or they cannot be read. */
uint64_t ts_text_input_lines_skipped(const struct ts_text_input *in, uint32_t file);

/* To be called before any text is read: gives the input the first file, which is open already. The
 * input closes it. `first` may be NULL. */
void ts_text_input_begun(struct ts_text_input *in, struct ts_byte_input *first);

/* To be called before any text is read: sets the memory that decompression may use
 * (byte_input.h). */
void ts_text_input_unpack(struct ts_text_input *in, uint64_t bytes);

/* Returns the most memory that decompressing one of these files may need, for the memory budget of
 * a build. Only regular files count, and a file that cannot be read counts as 0. */
uint64_t ts_text_input_unpack_need(const char *const paths[], uint32_t n_paths);

/* Returns the bytes of all files on disk; 0 if one of them is a pipe. */
uint64_t ts_text_input_total(const struct ts_text_input *in);

/* Returns the number of newlines in a text. */
uint64_t ts_text_lines(const char *text, size_t bytes);

#endif
