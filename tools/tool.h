/* tool.h - what the programs share: commands, messages, progress, JSON, signals.
 *
 * A program is a table of commands:
 *
 *     static const struct ts_cmd *const cmds[] = { &tool_build, &tool_info, NULL };
 *     int main(int argc, char **argv)
 *     {
 *         return tool_main("tshard", "packs sparse tensors into shards", cmds, argc, argv);
 *     }
 *
 * and a command's run function starts with
 *
 *     int status = tool_parse(cmd, argc, argv, &args, &n_operands, operands, NULL);
 *     if (status >= 0)
 *         return status;
 *
 *   exit     0 done, 1 failed, 2 wrong usage: what run returns is the exit status
 *   output   results go to standard output, everything else to standard error
 *   threads  messages and progress from any thread; the rest from the main thread
 */
#ifndef TS_TOOLS_TOOL_H
#define TS_TOOLS_TOOL_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/opt.h"

/* cmds ends with NULL. A single command whose name is NULL is the whole program. */
int tool_main(const char *program, const char *summary, const struct ts_cmd *const cmds[], int argc,
              char **argv);

/* ts_opt_parse, with --help and mistakes answered: negative to go on, else the exit status. `operand`
 * has room for argc, `given` may be NULL. */
int tool_parse(const struct ts_cmd *cmd, int argc, char **argv, void *args, uint32_t *n_operands,
               char **operand, uint64_t *given);

/* "tshard build: SENTENCE" on standard error; returns the exit status 1. */
int tool_fail(const struct ts_cmd *cmd, const struct ts_err *err);

/* The same for a mistake on the command line that the table cannot find; returns 2. */
int tool_usage(const struct ts_cmd *cmd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* "tshard build: SENTENCE", something to know that is no failure. */
void tool_note(const struct ts_cmd *cmd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- signals ---- */

/* From this call on the first SIGINT or SIGTERM sets tool_stop and nothing else; one that comes more
 * than 0.2 s later kills. SIGPIPE and SIGXFSZ are ignored: writing fails with a sentence instead. */
void tool_catch_signals(void);
extern volatile sig_atomic_t tool_stop; /* number of the signal, 0 when none came */

/* ---- standard output ---- */

void tool_flush(void);                /* now; a failure is kept for tool_flushed */
int tool_flushed(struct ts_err *err); /* whether all that was printed has arrived */

/* Whether `path`, of a file or directory that is to be written, lies elsewhere than in the tensor's
 * own directory, which a slip of the hand would destroy. */
int tool_outside(const char *path, const char *tensor, struct ts_err *err);

/* ---- progress: one line on a terminal, nothing in a pipe ---- */

struct tool_progress {
    const char *what, *unit; /* "reading", "nonzeros"; unit "bytes" shows MiB and MiB/s */
    uint64_t total;          /* 0: not known */
    uint64_t start_ns, shown_ns;
    int on;
};

/* `what` and `unit` must stay until the end. total 0: not known yet. */
void tool_progress_start(struct tool_progress *p, const char *what, const char *unit,
                         uint64_t total);
void tool_progress_update(struct tool_progress *p, uint64_t done); /* cheap: shows 10 a second */
void tool_progress_end(struct tool_progress *p); /* erases the line */

/* ---- JSON: one object a line ---- */

struct tool_json {
    FILE *to;
    uint32_t depth;
    uint64_t array; /* bit d: level d is an array */
    int comma;      /* a member came before */
};

/* An object is opened, filled and closed; the outermost close ends the line and flushes it. In an
 * array the key is NULL. Doubles get all their digits; what is not finite is null. */
void tool_json_open(struct tool_json *j, FILE *to);
void tool_json_str(struct tool_json *j, const char *key, const char *value); /* NULL: null */
void tool_json_u64(struct tool_json *j, const char *key, uint64_t value);
void tool_json_i64(struct tool_json *j, const char *key, int64_t value);
void tool_json_f64(struct tool_json *j, const char *key, double value);
void tool_json_bool(struct tool_json *j, const char *key, int value);
void tool_json_array(struct tool_json *j, const char *key);  /* until tool_json_close */
void tool_json_object(struct tool_json *j, const char *key); /* until tool_json_close */
void tool_json_close(struct tool_json *j);

/* "options":{"rank":16,...}: the record that a run prints of itself, from the option table. */
void tool_json_options(struct tool_json *j, const struct ts_cmd *cmd, const void *args);

#endif
