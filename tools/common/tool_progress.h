/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_progress.h - how far a command is.
 *
 * On a terminal one line that is written over and over; without one a line with date and time every
 * minute, on standard error, so that a log tells how far a run of hours is and tables and JSON on
 * standard output stay clean. --quiet leaves out both. SIGUSR1 prints a line with date and time
 * whenever it comes, and when no update does (tool_watch.h).
 *
 * Work is a row of phases, each from start to end:
 *
 *     tool_progress_start(&p, "phase 2/5, merging", "nonzeros", nnz);
 *     tool_progress_rest(&p, 0, 1.7, "build about");
 *     ... tool_progress_update(&p, done); ...
 *     tool_progress_end(&p);
 *
 * and reads "phase 2/5, merging: 45 %, left 12.3 s, build about 1 min 05 s, 5.12 M nonzeros, ...".
 *
 * A phase of which nothing is counted yet is "starting", with its time so far. Where the count
 * stands still for a second, the line says for how long: so it moves each second while a command
 * works.
 *
 *   owner    the caller owns the struct, zeroed before the first start; `unit`, `whole` and the
 *            counter of tool_progress_count must stay
 *   units    nanoseconds of ts_clock_ns; the unit "bytes" is shown as MiB and MiB/s
 *   threads  update from any, and it is cheap; the rest from one
 */
#ifndef TS_TOOLS_TOOL_PROGRESS_H
#define TS_TOOLS_TOOL_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

#include "api/tools.h"

#define TOOL_PROGRESS_CHARS 96

struct tool_progress {
    char what[TOOL_PROGRESS_CHARS]; /* of the phase under way; the last one's afterwards */
    const char *unit, *whole;
    uint64_t total; /* 0: not known */
    uint64_t start_ns, expect_ns;
    double after;
    _Atomic uint64_t done, shown_ns;
    /* NULL, or a counter that reaches all_work at the end of the phase */
    const _Atomic uint64_t *work;
    uint64_t all_work;
    uint64_t seen, seen_ns; /* the count that was seen last to move, and when */
    int on;                 /* between start and end */
};

/* A phase begins. total 0: not known yet. */
void tool_progress_start(struct tool_progress *p, const char *what, const char *unit,
                         uint64_t total);

/* Whether --quiet was given: summaries and hints are left out as well. */
int tool_quiet(void);

/* How long the rest takes, where that can be said: expect_ns is the time that a phase like this one
 * took (0: not known), `after` the time of all phases to come, in times of this one. `whole` names
 * what they are the phases of, with how sure it is: "run at most", "build about". */
void tool_progress_rest(struct tool_progress *p, uint64_t expect_ns, double after,
                        const char *whole);

/* The phase, just started, also goes by a counter that its threads add to: done is at least total *
 * counter / all. */
void tool_progress_count(struct tool_progress *p, const _Atomic uint64_t *counter, uint64_t all);

/* The phase goes on under another name: "sweep 3/50, mode 2/3". */
void tool_progress_name(struct tool_progress *p, const char *what);

void tool_progress_update(struct tool_progress *p, uint64_t done); /* shows 10 a second */
void tool_progress_end(struct tool_progress *p); /* erases the line; the second time nothing */

/* A line "warning: ..." of the command, beside the line of the terminal. */
void tool_progress_warn(const char *text);

/* What the line says, as numbers. */
struct tool_progress_figures {
    uint64_t done, total; /* of the phase; total 0: not known */
    double per_s;
    int known;         /* what follows is: there is a total, and something was done */
    uint64_t left_ns;  /* of the phase */
    uint64_t whole_ns; /* left of the whole, this phase included; 0 without tool_progress_rest */
};
void tool_progress_get(struct tool_progress *p, struct tool_progress_figures *ret);

/* The row of an option table, which tool_parse finds by its name. */
/* clang-format off */
#define TOOL_SPACE_OPT(at) \
    { "no-space-check", 0, TS_OPT_FLAG, at, NULL, NULL, \
      "start even if free disk space or memory is less than the command needs at least" }
#define HELP_QUIET \
    "print no progress, and no summary of files that were written. SIGUSR1 still prints a line"
#define TOOL_QUIET_OPT(at) { "quiet", 'q', TS_OPT_FLAG, (at), NULL, NULL, HELP_QUIET }
/* clang-format on */

/* ---- for tool.c and tool_watch.c */

/* Whose progress it is, and whether it is told. */
void tool_progress_setup(const struct ts_cmd *cmd, int quiet);

/* A line with date and time, now. */
void tool_progress_tell(void);

/* Now and then: the line of the terminal anew, or that of the minute when it is due. */
void tool_progress_tick(void);

/* Between two lines without a terminal; 60 s, but in tests. */
void tool_progress_every(uint64_t ns);

#endif
