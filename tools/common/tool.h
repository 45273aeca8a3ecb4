/* SPDX-License-Identifier: BSD-3-Clause */
/* tool.h - common parts of the programs: commands, messages, standard output, JSON; tool_signal.h
 * and tool_progress.h add signals and progress.
 *
 * A program is a table of commands, with texts for its manual page:
 *
 *     static const struct ts_cmd *const cmds[] = { &tool_build, &tool_info, NULL };
 *     int main(int argc, char **argv)
 *     {
 *         static const struct tool_program program = {
 *             .name = "tshard", .summary = "packs sparse tensors into shards", .cmds = cmds
 *         };
 *         return tool_main(&program, argc, argv);
 *     }
 *
 * and a command's run function starts with
 *
 *     int status = tool_parse(cmd, argc, argv, &args, &n_operands, operands, NULL);
 *     if (status >= 0)
 *         return status;
 *
 *   exit     0 done, 1 failed, 2 wrong usage: the return value of `run`; 1 becomes
 *            death by the signal that stopped the command, if one did
 *   output   results go to standard output, everything else to standard error
 *   threads  messages and progress from any thread; other functions from the main thread
 */
#ifndef TS_TOOLS_TOOL_H
#define TS_TOOLS_TOOL_H

#include <stdint.h>
#include <stdio.h>

#include "api/tools.h"
#include "tools/common/tool_progress.h"
#include "tools/common/tool_signal.h"

/* A row of a table for the manual pages, such as a file and its explanation; a row of zeros ends
 * the table. */
struct tool_entry {
    const char *name, *text;
    const char *commands; /* "cp fit": the commands whose pages include the row; NULL: all */
};

struct tool_program {
    const char *name, *summary;
    /* the commands; ends with NULL; a command without a name is the whole program */
    const struct ts_cmd *const *cmds;
    const char *first_steps; /* text printed if no command is given; may be NULL */
    /* Members for the manual pages; NULL: none. */
    const char *description; /* a paragraph for the overview */
    /* sections FILES and ENVIRONMENT: a name and its explanation */
    const struct tool_entry *files, *environment;
    /* for each command, its related pages: "tshard-build tstream-plan" */
    const struct tool_entry *related;
    const char *see_also;           /* the other program: "tstream" */
    void (*options_page)(FILE *to); /* prints a page of docs/, for --help-options */
};

int tool_main(const struct tool_program *program, int argc, char **argv);

/* Sets a function that is called before a command runs, with the arguments from the command's name
 * on. It returns the exit status, or -1 to run the command. */
void tool_before_command(int (*call)(const struct ts_cmd *cmd, int argc, char **argv));

/* Sets a function that is called once with the exit status before tool_main ends, also after a
 * signal. */
void tool_before_end(void (*call)(int status));

/* Returns the last failure that tool_fail or tool_usage reported; code 0: none. */
const struct ts_err *tool_failure(void);

/* Names the other program and its commands (ends with NULL), so that a message can refer users to
 * it. */
void tool_sibling(const char *program, const char *const commands[]);

/* Calls ts_opt_parse, and answers --help and mistakes. Returns a negative number to continue, else
 * the exit status. `operand` has room for argc operands (NULL, after a failed allocation, is
 * reported); `given` may be NULL. */
int tool_parse(const struct ts_cmd *cmd, int argc, char **argv, void *args, uint32_t *n_operands,
               char **operand, uint64_t *given);

/* Prints "tshard build: MESSAGE" on standard error, unless a reader closed the pipe of standard
 * output. Returns the exit status 1. */
int tool_fail(const struct ts_cmd *cmd, const struct ts_err *err);

/* Like tool_fail, for a mistake on the command line that tool_parse does not find. Returns 2. */
int tool_usage(const struct ts_cmd *cmd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints "tshard build: MESSAGE" on standard error for a note that is not a failure. */
void tool_note(const struct ts_cmd *cmd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Copies text to buf, cut to size, with '?' for characters that control a terminal. Paths and
 * words of files can be any bytes; the messages above use this function. Returns buf. */
const char *tool_plain(const char *text, char *buf, size_t size);

#define tool_utf8_length ts_json_utf8_length

/* Writes the next character of *text, of at most n bytes, to `to` as it is shown, and returns its
 * length. Characters that control a terminal, and bytes that are not UTF-8, become '?'. Moves
 * *text past it. All text of files that reaches a terminal goes through this function. */
size_t tool_plain_next(const char **text, size_t n, char to[5]);

/* Prepares the text of a table for `fd`: unchanged, or on a terminal with each character as it is
 * shown, except tabs and line feeds. If something changes, *text and *n become a malloc'ed copy
 * (*copy). */
int tool_plain_terminal(int fd, const char **text, size_t *n, char **copy, struct ts_err *err);

/* Prints a JSON document from a file on standard output, with characters that control a terminal
 * escaped. */
void tool_json_raw(const char *text, size_t n);

/* ---- threads, warnings and words ---- */

/* Checks --threads, before anything is opened. Returns 0 or TS_EARG. */
int tool_threads_check(uint32_t threads, struct ts_err *err);

/* Prints a warning about a step that failed after the result was in place; nothing if warn->code is
 * 0. */
void tool_warn(const struct ts_cmd *cmd, const struct ts_err *warn);

/* Returns the plural ending of a noun after n: "" for 1, else "s". */
const char *tool_plural(uint64_t n);

/* Returns the words for the end of a run from those of its record: "iterations" becomes "not
 * converged". */
const char *tool_ended(const char *ended);

/* ---- standard output ---- */

/* flushes standard output now; tool_flushed reports a failure */
void tool_flush(void);
int tool_flushed(struct ts_err *err); /* whether all output could be written */

/* Records that the result is in place at `path`. From then on, a closed pipe at standard output is
 * not a failure, and messages about other failures to print say that the result exists. */
void tool_in_place(const char *path);

/* Returns the operand, or, if no such file exists, the operand with the suffix if that exists:
 * "amazon.tsh" for "amazon". malloc'ed; NULL: out of memory. */
char *tool_operand(const char *operand, const char *suffix);

/* Checks that `path`, a file or directory to be written, is outside the tensor's directory, which
 * a typing mistake could destroy. */
int tool_outside(const char *path, const char *tensor, struct ts_err *err);

/* Register the inputs and outputs of the command. Each output is compared with all inputs and
 * outputs registered before it (base/files/place.h). */
int tool_reads(const char *path, struct ts_err *err); /* path may be NULL */
/* like tool_reads, for a model; outputs may be placed in its directory */
int tool_reads_model(const char *path, struct ts_err *err);
int tool_writes(const char *path, const char *suffix, const char *option, struct ts_err *err);
/* like tool_writes, for a file that has the suffix .partial until it is complete; also fails if it
 * is a file of a decomposition, or would be read as one */
int tool_writes_file(const char *path, const char *option, struct ts_err *err);

/* Whether the first n bytes of a file are those of a text, page or array that a command writes.
 * Passed as the argument `looks` of functions in base/files/atomic_out.h. */
int tool_looks_written(const char *head, size_t n, int sure);

/* ---- JSON: one object in each line of output (base/json.h) ---- */

#define tool_json        ts_json
#define tool_json_open   ts_json_open
#define tool_json_str    ts_json_str
#define tool_json_u64    ts_json_u64
#define tool_json_i64    ts_json_i64
#define tool_json_f64    ts_json_f64
#define tool_json_bool   ts_json_bool
#define tool_json_array  ts_json_array
#define tool_json_object ts_json_object

/* Closes the innermost open object or array. Closing the outermost object flushes the line. */
void tool_json_close(struct tool_json *j);

/* Prints "options":{"rank":16,...}: the options of a command as a run's record has them, from the
 * option table. */
void tool_json_options(struct tool_json *j, const struct ts_cmd *cmd, const void *args);

#endif
