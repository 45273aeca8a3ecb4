/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows progress: on a terminal in a line that is overwritten, elsewhere in a line every minute. */
#include "tools/common/tool_progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/common/tool.h"
#include "tools/common/tool_line.h"

/* time between two updates of the line: at most ten updates a second */
#define SHOW_NS UINT64_C(100000000)
/* updates come about once a second, so a line of the log is printed if it is due within this
 * time */
#define EARLY_NS UINT64_C(1000000000)
/* after this time, the progress line says for how long the count of work has not changed; longer
 * than the second between two checks */
#define STILL_NS   UINT64_C(1500000000)
#define LINE_CHARS 320

/* ---- the terminal's line, which progress and messages share ---- */

static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;
static int shown;

static void erase(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = 0;
}

void tool_line_erase(void)
{
    pthread_mutex_lock(&line_lock);
    erase();
    pthread_mutex_unlock(&line_lock);
}

int tool_line_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 0;
}

void tool_line_show(const char *text)
{
    char plain[LINE_CHARS];
    int columns = tool_line_columns();
    if (columns == 0)
        columns = 80;
    pthread_mutex_lock(&line_lock);
    erase();
    tool_plain(text, plain, sizeof plain);
    fprintf(stderr, "%.*s", columns - 1, plain);
    fflush(stderr);
    shown = 1;
    pthread_mutex_unlock(&line_lock);
}

void tool_line_print(const char *text)
{
    char plain[LINE_CHARS];
    pthread_mutex_lock(&line_lock);
    erase();
    fprintf(stderr, "%s\n", tool_plain(text, plain, sizeof plain));
    fflush(stderr);
    pthread_mutex_unlock(&line_lock);
}

/* ---- state of the progress ---- */

static struct {
    /* protects this struct, and the texts and numbers of the current phase except `done` */
    pthread_mutex_t lock;
    struct tool_progress *now; /* the current phase, or NULL */
    const struct ts_cmd *cmd;
    int quiet, terminal;
    /* told_ns: time of the last line that was printed with a date; every_ns: interval between such
     * lines */
    uint64_t told_ns, every_ns;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .every_ns = UINT64_C(60000000000) };

static int on_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && (term == NULL || strcmp(term, "dumb") != 0);
}

void tool_progress_setup(const struct ts_cmd *cmd, int quiet)
{
    pthread_mutex_lock(&state.lock);
    state.cmd = cmd;
    state.quiet = quiet;
    state.terminal = on_terminal();
    state.told_ns = ts_clock_ns();
    pthread_mutex_unlock(&state.lock);
}

int tool_quiet(void)
{
    return state.quiet;
}

void tool_progress_every(uint64_t ns)
{
    pthread_mutex_lock(&state.lock);
    state.every_ns = ns;
    pthread_mutex_unlock(&state.lock);
}

void tool_progress_start(struct tool_progress *p, const char *what, const char *unit,
                         uint64_t total)
{
    const uint64_t now = ts_clock_ns();
    pthread_mutex_lock(&state.lock);
    snprintf(p->what, sizeof p->what, "%s", what);
    p->unit = unit;
    p->whole = NULL;
    p->total = total;
    p->start_ns = now;
    p->expect_ns = 0;
    p->after = 0;
    p->work = NULL;
    p->all_work = 0;
    p->seen = 0;
    p->seen_ns = now;
    atomic_store(&p->done, 0);
    atomic_store(&p->shown_ns, now);
    p->on = 1;
    state.now = p;
    pthread_mutex_unlock(&state.lock);
}

void tool_progress_count(struct tool_progress *p, const _Atomic uint64_t *counter, uint64_t all)
{
    pthread_mutex_lock(&state.lock);
    p->work = counter;
    p->all_work = all;
    pthread_mutex_unlock(&state.lock);
}

void tool_progress_rest(struct tool_progress *p, uint64_t expect_ns, double after,
                        const char *whole)
{
    pthread_mutex_lock(&state.lock);
    p->expect_ns = expect_ns;
    p->after = after;
    p->whole = whole;
    pthread_mutex_unlock(&state.lock);
}

void tool_progress_name(struct tool_progress *p, const char *what)
{
    pthread_mutex_lock(&state.lock);
    snprintf(p->what, sizeof p->what, "%s", what);
    pthread_mutex_unlock(&state.lock);
}

void tool_progress_end(struct tool_progress *p)
{
    pthread_mutex_lock(&state.lock);
    p->on = 0;
    if (state.now == p)
        state.now = NULL;
    pthread_mutex_unlock(&state.lock);
    tool_line_erase();
}

/* ---- figures of a phase of the work ---- */

/* Returns the work done: the number of the last update, or the larger one that follows from the
 * counter of the phase's threads. */
static uint64_t done_of(const struct tool_progress *p)
{
    const uint64_t told = atomic_load(&p->done);
    double share;
    uint64_t counted;
    if (p->work == NULL || p->all_work == 0 || p->total == 0)
        return told;
    share = (double)atomic_load(p->work) / (double)p->all_work;
    counted = (uint64_t)((share < 1 ? share : 1) * (double)p->total);
    return counted > told ? counted : told;
}

/* Computes the figures of a phase; the lock is held. The time of a phase is estimated from its rate
 * so far and, while little is done, from the phase before: the fraction done weighs the two. */
static void get(const struct tool_progress *p, struct tool_progress_figures *f)
{
    const double ns = (double)(ts_clock_ns() - p->start_ns);
    double share, takes;
    memset(f, 0, sizeof *f);
    f->done = done_of(p);
    f->total = p->total;
    f->per_s = ns > 0 ? (double)f->done / ns * 1e9 : 0;
    if (p->total == 0 || f->done > p->total || (f->done == 0 && p->expect_ns == 0))
        return;
    share = (double)f->done / (double)p->total;
    takes = p->expect_ns > 0 ? ns + (1 - share) * (double)p->expect_ns : ns / share;
    f->known = 1;
    f->left_ns = (uint64_t)((1 - share) * takes);
    f->whole_ns = p->whole == NULL ? 0 : f->left_ns + (uint64_t)(p->after * takes);
}

void tool_progress_get(struct tool_progress *p, struct tool_progress_figures *ret)
{
    pthread_mutex_lock(&state.lock);
    get(p, ret);
    pthread_mutex_unlock(&state.lock);
}

/* Writes an amount: "12.3 M nonzeros" or "12.3 MiB". */
static void amount(const struct tool_progress *p, double x, char *buf, size_t size)
{
    char num[TS_NUM_CHARS];
    if (strcmp(p->unit, "bytes") == 0)
        snprintf(buf, size, "%s", ts_num_bytes(num, (uint64_t)x));
    else
        snprintf(buf, size, "%s %s", ts_num_short(num, x), p->unit);
}

/* Returns for how long the count of work done has not changed; 0: less than a second. The lock is
 * held. */
static uint64_t still_ns(struct tool_progress *p, uint64_t done)
{
    const uint64_t now = ts_clock_ns();
    if (done != p->seen) {
        p->seen = done;
        p->seen_ns = now;
    }
    return now - p->seen_ns >= STILL_NS ? now - p->seen_ns : 0;
}

/* Writes the text of the progress line, with the most important figures first for narrow terminals.
 * The lock is held. */
static void describe(struct tool_progress *p, char text[LINE_CHARS])
{
    char have[96], rate[96], left[TS_NUM_CHARS], whole[TS_NUM_CHARS];
    struct tool_progress_figures f;
    uint64_t still;
    size_t n;
    get(p, &f);
    still = still_ns(p, f.done);
    amount(p, (double)f.done, have, sizeof have);
    amount(p, f.per_s, rate, sizeof rate);
    n = (size_t)snprintf(text, LINE_CHARS, "%s: ", p->what);
    if (f.known)
        n += (size_t)snprintf(text + n, LINE_CHARS - n, "%.0f %%, left %s, ",
                              100 * (double)f.done / (double)f.total,
                              ts_num_duration(left, f.left_ns));
    if (f.known && p->whole != NULL)
        n += (size_t)snprintf(text + n, LINE_CHARS - n, "%s %s, ", p->whole,
                              ts_num_duration(whole, f.whole_ns));
    if (f.done == 0) { /* no rate is known: shows the elapsed time, which changes */
        snprintf(text + n, LINE_CHARS - n, "%s, %s", *p->unit == '\0' ? "working" : "starting",
                 ts_num_duration(left, ts_clock_ns() - p->start_ns));
        return;
    }
    n += (size_t)snprintf(text + n, LINE_CHARS - n, "%s, %s/s", have, rate);
    if (still > 0)
        snprintf(text + n, LINE_CHARS - n, ", unchanged for %s", ts_num_duration(left, still));
}

/* Prints the progress in a line with date and time. The lock is held. */
static void tell(void)
{
    char text[LINE_CHARS] = "between two steps", date[32] = "", line[LINE_CHARS + 128];
    const struct ts_cmd *cmd = state.cmd;
    const time_t now = time(NULL);
    struct tm tm;
    if (localtime_r(&now, &tm) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S ", &tm);
    if (state.now != NULL)
        describe(state.now, text);
    snprintf(line, sizeof line, "%s%s%s%s%s%s", date, cmd == NULL ? "" : cmd->program,
             cmd == NULL || cmd->name == NULL ? "" : " ",
             cmd == NULL || cmd->name == NULL ? "" : cmd->name, cmd == NULL ? "" : ": ", text);
    tool_line_print(line);
    state.told_ns = ts_clock_ns();
}

void tool_progress_tell(void)
{
    pthread_mutex_lock(&state.lock);
    tell();
    pthread_mutex_unlock(&state.lock);
}

void tool_progress_warn(const char *text)
{
    char line[2048];
    pthread_mutex_lock(&state.lock);
    snprintf(line, sizeof line, "%s%s%s: warning: %s", state.cmd == NULL ? "" : state.cmd->program,
             state.cmd == NULL || state.cmd->name == NULL ? "" : " ",
             state.cmd == NULL || state.cmd->name == NULL ? "" : state.cmd->name, text);
    pthread_mutex_unlock(&state.lock);
    tool_line_print(line);
}

/* Shows the progress in the line of the terminal. The lock is held. */
static void show(struct tool_progress *p)
{
    char text[LINE_CHARS];
    describe(p, text);
    tool_line_show(text);
}

void tool_progress_tick(void)
{
    pthread_mutex_lock(&state.lock);
    if (state.now != NULL && !state.quiet) {
        if (state.terminal)
            show(state.now);
        else if (ts_clock_ns() - state.told_ns + EARLY_NS >= state.every_ns)
            tell();
    }
    pthread_mutex_unlock(&state.lock);
}

void tool_progress_update(struct tool_progress *p, uint64_t done)
{
    uint64_t now, before;
    atomic_store_explicit(&p->done, done, memory_order_relaxed);
    if (!state.terminal || state.quiet)
        return;
    now = ts_clock_ns();
    before = atomic_load_explicit(&p->shown_ns, memory_order_relaxed);
    if (now < before + SHOW_NS || !atomic_compare_exchange_strong(&p->shown_ns, &before, now))
        return;
    pthread_mutex_lock(&state.lock);
    if (p->on && state.now == p)
        show(p);
    pthread_mutex_unlock(&state.lock);
}
