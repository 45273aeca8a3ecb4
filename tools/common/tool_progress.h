/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_progress.h - shows the progress of a command.
 *
 * Progress goes to standard error, so that tables and JSON on standard output stay clean. A
 * terminal gets one line that is overwritten; a log gets a line with date and time every minute.
 * --quiet suppresses both. SIGUSR1 always prints a line with date and time, even if no update
 * comes (tool_watch.h).
 *
 * Work is a sequence of phases, each from start to end:
 *
 *     tool_progress_start(&p, "phase 2/5, merging", "nonzeros", nnz);
 *     tool_progress_rest(&p, 0, 1.7, "build about");
 *     ... tool_progress_update(&p, done); ...
 *     tool_progress_end(&p);
 *
 * The line reads "phase 2/5, merging: 45 %, left 12.3 s, build about 1 min 05 s, 5.12 M nonzeros,
 * ...".
 *
 * A phase without a count so far is "starting", with its elapsed time. If the count does not
 * change for a second, the line shows for how long. So the line changes every second while a
 * command works.
 *
 *   owner    the caller owns the struct, zeroed before the first start; `unit`, `whole` and the
 *            counter of tool_progress_count must stay valid
 *   units    nanoseconds of ts_clock_ns; the unit "bytes" is shown as MiB and MiB/s
 *   threads  any thread may update, which is cheap; one thread calls the other functions
 */
#ifndef TS_TOOLS_TOOL_PROGRESS_H
#define TS_TOOLS_TOOL_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

#include "api/tools.h"

#define TOOL_PROGRESS_CHARS 96

struct tool_progress {
    char what[TOOL_PROGRESS_CHARS]; /* name of the current phase, or of the last one */
    const char *unit, *whole;
    uint64_t total; /* total work of the phase; 0: unknown */
    uint64_t start_ns, expect_ns;
    double after;
    _Atomic uint64_t done, shown_ns;
    /* NULL, or a counter of work that reaches all_work at the end of the phase */
    const _Atomic uint64_t *work;
    uint64_t all_work;
    /* the count of work done at its last change, and the time of that change */
    uint64_t seen, seen_ns;
    int on; /* 1: a phase is under way */
};

/* Begins a phase. total 0: not known yet. */
void tool_progress_start(struct tool_progress *p, const char *what, const char *unit,
                         uint64_t total);

/* Whether --quiet was given, which suppresses summaries and hints as well. */
int tool_quiet(void);

/* Sets what is known about the remaining time. expect_ns: the time that a phase like this one took
 * (0: unknown). after: the time of all later phases, relative to this one. whole: words before the
 * remaining time of the whole work, with the certainty of the estimate: "run at most", "build
 * about". */
void tool_progress_rest(struct tool_progress *p, uint64_t expect_ns, double after,
                        const char *whole);

/* Adds a counter to the phase just started, which the phase's threads increase as they work. The
 * work done is at least total * counter / all. */
void tool_progress_count(struct tool_progress *p, const _Atomic uint64_t *counter, uint64_t all);

/* Renames the current phase: "sweep 3/50, mode 2/3". */
void tool_progress_name(struct tool_progress *p, const char *what);

/* sets the work done; redraws the line at most 10 times a second */
void tool_progress_update(struct tool_progress *p, uint64_t done);
void tool_progress_end(struct tool_progress *p); /* erases the line; a second call does nothing */

/* Prints a line "warning: ..." without disturbing the terminal's line. */
void tool_progress_warn(const char *text);

/* The figures that the line of progress shows. */
struct tool_progress_figures {
    uint64_t done, total; /* work of the phase; total 0: unknown */
    double per_s;
    int known;        /* 1: the times below are known, because a total exists and work was done */
    uint64_t left_ns; /* time left of the phase */
    /* time left of the whole work, including this phase; 0 without tool_progress_rest */
    uint64_t whole_ns;
};
void tool_progress_get(struct tool_progress *p, struct tool_progress_figures *ret);

/* Rows of an option table; tool_parse finds --quiet by its name. */
/* clang-format off */
#define TOOL_SPACE_OPT(at) \
    { "no-space-check", 0, TS_OPT_FLAG, at, NULL, NULL, \
      "start even if free disk space or memory is less than the command needs at least" }
#define HELP_QUIET \
    "print no progress, and no summary of files that were written. SIGUSR1 still prints a line"
#define TOOL_QUIET_OPT(at) { "quiet", 'q', TS_OPT_FLAG, (at), NULL, NULL, HELP_QUIET }
/* clang-format on */

/* ---- for tool.c and tool_watch.c */

/* Sets the command whose progress is shown, and whether to show it. */
void tool_progress_setup(const struct ts_cmd *cmd, int quiet);

/* Prints the progress now, in a line with date and time. */
void tool_progress_tell(void);

/* Called about once a second: redraws the terminal's line or, without a terminal, prints a line if
 * a minute has passed. */
void tool_progress_tick(void);

/* Sets the interval between two lines of progress without a terminal: 60 s, less in tests. */
void tool_progress_every(uint64_t ns);

#endif
