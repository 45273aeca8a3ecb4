/* Progress on a terminal: what, how much, rate, time left. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "tools/tool.h"
#include "tools/tool_line.h"

#define SHOW_NS UINT64_C(100000000) /* ten lines a second are enough for an eye */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int shown;

static void erase(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = 0;
}

void tool_line_erase(void)
{
    pthread_mutex_lock(&lock);
    erase();
    pthread_mutex_unlock(&lock);
}

void tool_line_show(const char *text)
{
    struct winsize size;
    int columns = 80;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        columns = size.ws_col;
    pthread_mutex_lock(&lock);
    erase();
    fprintf(stderr, "%.*s", columns - 1, text);
    fflush(stderr);
    shown = 1;
    pthread_mutex_unlock(&lock);
}

static int on_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && (term == NULL || strcmp(term, "dumb") != 0);
}

void tool_progress_start(struct tool_progress *p, const char *what, const char *unit,
                         uint64_t total)
{
    p->what = what;
    p->unit = unit;
    p->total = total;
    p->start_ns = p->shown_ns = ts_clock_ns();
    p->on = on_terminal();
}

/* "12.3 M nonzeros" or "12.3 MiB" */
static void amount(const struct tool_progress *p, double x, char *buf, size_t size)
{
    char num[TS_NUM_CHARS];
    if (strcmp(p->unit, "bytes") == 0)
        snprintf(buf, size, "%s", ts_num_bytes(num, (uint64_t)x));
    else
        snprintf(buf, size, "%s %s", ts_num_short(num, x), p->unit);
}

void tool_progress_update(struct tool_progress *p, uint64_t done)
{
    char text[256], have[96], rate[96], left[TS_NUM_CHARS];
    uint64_t now, before;
    double seconds;
    size_t n;
    if (!p->on)
        return;
    now = ts_clock_ns();
    before = __atomic_load_n(&p->shown_ns, __ATOMIC_RELAXED);
    if (now - before < SHOW_NS || now < before ||
        !__atomic_compare_exchange_n(&p->shown_ns, &before, now, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    seconds = (double)(now - p->start_ns) * 1e-9;
    amount(p, (double)done, have, sizeof have);
    amount(p, (double)done / seconds, rate, sizeof rate);
    n = (size_t)snprintf(text, sizeof text, "%s: %s, %s/s", p->what, have, rate);
    if (p->total > 0 && done > 0 && done <= p->total && n < sizeof text) {
        const double share = (double)done / (double)p->total;
        snprintf(text + n, sizeof text - n, ", %.0f %%, %s left", 100 * share,
                 ts_num_duration(left, (uint64_t)(1e9 * seconds * (1 - share) / share)));
    }
    tool_line_show(text);
}

void tool_progress_end(struct tool_progress *p)
{
    if (p->on)
        tool_line_erase();
    p->on = 0;
}
