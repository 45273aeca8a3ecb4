/* SPDX-License-Identifier: BSD-3-Clause */
/* export_sink.h - where tshard export and gen write text: standard output, or a file that appears
 * whole or not at all; as it is, or as gzip.
 *
 * Pieces are compressed by whoever makes them, each as a gzip member of its own (RFC 1952, 2.2:
 * members may follow one another), so that compressing runs on all threads.
 *
 *   owner    the sink owns the file
 *   units    bytes
 *   threads  export_sink_pack is pure; the rest from one thread at a time
 *   errors   0 or a negative ts_code with a sentence
 */
#ifndef TS_TOOLS_EXPORT_SINK_H
#define TS_TOOLS_EXPORT_SINK_H

#include <stddef.h>
#include <stdint.h>

#include "api/tools.h"

struct ts_atomic_file;
struct ts_cmd;

struct export_sink {
    int fd;
    int gzip;                    /* the name ends in .gz */
    struct ts_atomic_file *file; /* NULL: standard output */
    uint64_t written;
};

/* path NULL or "-": standard output. force: a file of that name that this program wrote may be
 * replaced. option: what named the path. */
int export_sink_open(const char *path, int force, const char *option, struct export_sink *ret,
                     struct ts_err *err);

/* Whether lines that are not a table go to a terminal, for a reader. */
int export_sink_is_screen(const char *path, int is_lines);

/* A note where the name of a file says that it is a table, and is_table is 0: lines of numbers,
 * divided by blanks, go there. */
void export_sink_note_table(const struct ts_cmd *cmd, const char *path, int is_table);

const char *export_sink_name(const struct export_sink *s); /* for sentences */

/* Gives the file its name. warn->code is not 0 when something failed after that. */
int export_sink_commit(struct export_sink *s, struct ts_err *warn, struct ts_err *err);

/* Frees; what was not committed is removed. */
void export_sink_close(struct export_sink *s);

int export_sink_write(struct export_sink *s, const char *bytes, size_t n, struct ts_err *err);

/* One gzip member of n bytes: *ret is malloc'ed anew, or enlarged from *room bytes. */
int export_sink_pack(const char *bytes, size_t n, char **ret, size_t *room, size_t *ret_n,
                     struct ts_err *err);

#endif
