/* SPDX-License-Identifier: BSD-3-Clause */
/* export_sink.h - the output of tshard export and gen, plain or gzip: standard output, or a file
 * that appears only when complete.
 *
 * The thread that makes a piece compresses it as a gzip member of its own (RFC 1952, 2.2: members
 * may follow one another), so all threads compress.
 *
 *   owner    the sink owns the file
 *   units    bytes
 *   threads  export_sink_pack is pure; other functions from one thread at a time
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
    int gzip;                    /* 1: the output is compressed, because its name ends in .gz */
    struct ts_atomic_file *file; /* NULL: standard output */
    uint64_t written;
};

/* Opens the sink. path NULL or "-": standard output. force: an existing file of that name that
 * this program wrote may be replaced. option: the option that gave the path. */
int export_sink_open(const char *path, int force, const char *option, struct export_sink *ret,
                     struct ts_err *err);

/* Whether the output is lines of text other than a table, and goes to a terminal. */
int export_sink_is_screen(const char *path, int is_lines);

/* Prints a note if the name of a file ends like that of a table but is_table is 0: the file gets
 * numbers separated by blanks. */
void export_sink_note_table(const struct ts_cmd *cmd, const char *path, int is_table);

/* returns the name of the output, for messages */
const char *export_sink_name(const struct export_sink *s);

/* Renames the file to its final name. warn->code is not 0 if a later step failed. */
int export_sink_commit(struct export_sink *s, struct ts_err *warn, struct ts_err *err);

/* Frees the sink; removes a file that was not committed. */
void export_sink_close(struct export_sink *s);

int export_sink_write(struct export_sink *s, const char *bytes, size_t n, struct ts_err *err);

/* Compresses n bytes to one gzip member. *ret is malloc'ed, or reallocated from *room bytes. */
int export_sink_pack(const char *bytes, size_t n, char **ret, size_t *room, size_t *ret_n,
                     struct ts_err *err);

#endif
