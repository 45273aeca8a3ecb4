/* SPDX-License-Identifier: BSD-3-Clause */
/* tool.h - what the programs share: commands, messages, standard output, JSON; and by its headers
 * signals (tool_signal.h) and progress (tool_progress.h).
 *
 * A program is a table of commands, and what its man page says beside them:
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
 *   exit     0 done, 1 failed, 2 wrong usage: what run returns is the exit status; 1 turns into
 *            death by the signal that stopped the command, if one did
 *   output   results go to standard output, everything else to standard error
 *   threads  messages and progress from any thread; the rest from the main thread
 */
#ifndef TS_TOOLS_TOOL_H
#define TS_TOOLS_TOOL_H

#include <stdint.h>
#include <stdio.h>

#include "api/tools.h"
#include "tools/common/tool_progress.h"
#include "tools/common/tool_signal.h"

/* A row of a table for the manual pages; a row of zeros ends the table. */
struct tool_entry {
    const char *name, *text;
    const char *commands; /* "cp fit": the commands whose pages have it; NULL: all */
};

struct tool_program {
    const char *name, *summary;
    const struct ts_cmd *const *cmds; /* NULL ends; one whose name is NULL is the whole program */
    const char *first_steps; /* lines that are printed if no command is given; may be NULL */
    /* for the manual pages; NULL: none */
    const char *description;                      /* a paragraph of the overview */
    const struct tool_entry *files, *environment; /* name, what it is */
    /* a command, the pages beside it: "tshard-build tstream-plan" */
    const struct tool_entry *related;
    const char *see_also;           /* the other program: "tstream" */
    void (*options_page)(FILE *to); /* for --help-options, from which a page of docs/ is made */
};

int tool_main(const struct tool_program *program, int argc, char **argv);

/* Called before a command runs, with its arguments from its name on: what it returns is the exit
 * status, -1 that it runs. */
void tool_before_command(int (*call)(const struct ts_cmd *cmd, int argc, char **argv));

/* Called once before tool_main ends, by a signal too, with its exit status. */
void tool_before_end(void (*call)(int status));

/* What tool_fail or tool_usage told of last; code 0: nothing. */
const struct ts_err *tool_failure(void);

/* The commands of the program beside this one, which ends with NULL: a user who asks for one of
 * them here is told. */
void tool_sibling(const char *program, const char *const commands[]);

/* ts_opt_parse, with --help and mistakes answered: negative to go on, else the exit status.
 * `operand` has room for argc (NULL: there was no memory for it, which is said), `given` may be
 * NULL. */
int tool_parse(const struct ts_cmd *cmd, int argc, char **argv, void *args, uint32_t *n_operands,
               char **operand, uint64_t *given);

/* "tshard build: SENTENCE" on standard error, nothing for a pipe that its reader closed; returns
 * the exit status 1. */
int tool_fail(const struct ts_cmd *cmd, const struct ts_err *err);

/* The same for a mistake on the command line that the table cannot find; returns 2. */
int tool_usage(const struct ts_cmd *cmd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* "tshard build: SENTENCE", something to know that is no failure. */
void tool_note(const struct ts_cmd *cmd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* `text` in buf, cut to size, with '?' for what a terminal acts upon: a path, or a word of a file,
 * is any bytes. The messages above are written so. Returns buf. */
const char *tool_plain(const char *text, char *buf, size_t size);

#define tool_utf8_length ts_json_utf8_length

/* The character at *text, of at most n bytes, as it is shown: in `to`, with its length as the
 * result. What a terminal acts upon, and bytes that are not UTF-8, are '?'. *text moves behind it.
 * All text of files that reaches a terminal goes through this function. */
size_t tool_plain_next(const char **text, size_t n, char to[5]);

/* Table text for `fd`: as it is, or on a terminal each character as it is shown, but for tabs and
 * line feeds. *text and *n become a malloc'ed copy (*copy) where something changes. */
int tool_plain_terminal(int fd, const char **text, size_t *n, char **copy, struct ts_err *err);

/* A JSON document of a file, on standard output: what a terminal acts upon is escaped. */
void tool_json_raw(const char *text, size_t n);

/* ---- threads ---- */

/* --threads: 0 or TS_EARG. To be asked before anything is opened. */
int tool_threads_check(uint32_t threads, struct ts_err *err);

/* The same for something that failed when the result was in place already; nothing when code is
 * 0. */
void tool_warn(const struct ts_cmd *cmd, const struct ts_err *warn);

/* What makes a word of n of its kind: "" for one, else "s". */
const char *tool_plural(uint64_t n);

/* The word for a reader of how a run ended, from that of its record: "iterations" is "not
 * converged". */
const char *tool_ended(const char *ended);

/* ---- standard output ---- */

void tool_flush(void);                /* now; a failure is kept for tool_flushed */
int tool_flushed(struct ts_err *err); /* whether all that was printed has arrived */

/* The result is at `path`, and stays there: from now on a reader of the report that went away (a
 * closed pipe) is no failure, and any other failure to print says that the result is there. */
void tool_in_place(const char *path);

/* The operand, or where there is nothing of that name, and something of the name with the suffix
 * behind it, that: "amazon" for "amazon.tsh". malloc'ed; NULL: no memory. */
char *tool_operand(const char *operand, const char *suffix);

/* Whether `path`, of a file or directory that is to be written, lies elsewhere than in the tensor's
 * own directory, which a slip of the hand would destroy. */
int tool_outside(const char *path, const char *tensor, struct ts_err *err);

/* What the command reads, and what it writes. Each output is compared with all inputs and outputs
 * that were named before it (base/files/place.h). */
int tool_reads(const char *path, struct ts_err *err);       /* NULL is fine */
int tool_reads_model(const char *path, struct ts_err *err); /* beside its files others may lie */
int tool_writes(const char *path, const char *suffix, const char *option, struct ts_err *err);
int tool_writes_file(const char *path, const char *option, struct ts_err *err); /* .partial */

/* Whether the first bytes are those of a text, page or array that a command writes: `looks` of
 * base/files/atomic_out.h. */
int tool_looks_written(const char *head, size_t n, int sure);

/* ---- JSON: one object a line (base/json.h) ---- */

#define tool_json        ts_json
#define tool_json_open   ts_json_open
#define tool_json_str    ts_json_str
#define tool_json_u64    ts_json_u64
#define tool_json_i64    ts_json_i64
#define tool_json_f64    ts_json_f64
#define tool_json_bool   ts_json_bool
#define tool_json_array  ts_json_array
#define tool_json_object ts_json_object

/* What all of these are closed with: the outermost one flushes the line. */
void tool_json_close(struct tool_json *j);

/* "options":{"rank":16,...}: the record that a run prints of itself, from the option table. */
void tool_json_options(struct tool_json *j, const struct ts_cmd *cmd, const void *args);

#endif
