/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds width and colors of the terminal, and prints tables and text in lines. */
#include "tools/common/tool_term.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/common/tool.h"
#include "tools/common/tool_launch.h"

int tool_is_screen(void)
{
    uint32_t rank, n;
    return isatty(STDOUT_FILENO) && !tool_launch_place(&rank, &n);
}

int tool_columns(void)
{
    const char *text = getenv("COLUMNS");
    struct winsize size;
    long n = 0;
    if (!tool_is_screen())
        return TOOL_LEAST_COLUMNS;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        n = size.ws_col;
    if (n == 0 && text != NULL)
        n = strtol(text, NULL, 10);
    return n < TOOL_LEAST_COLUMNS ? TOOL_LEAST_COLUMNS : n > 1000 ? 1000 : (int)n;
}

/* ---- colors of the terminal ---- */

static int has_colour(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return tool_is_screen() && (no == NULL || *no == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

const char *tool_paint(enum tool_tone tone)
{
    static const char *const code[] = { "\033[32m", "\033[33m", "\033[31m" };
    return has_colour() ? code[tone] : "";
}

const char *tool_paint_end(void)
{
    return has_colour() ? "\033[0m" : "";
}

/* ---- text of files, as a terminal shows it ---- */

size_t tool_plain_next(const char **text, size_t n, char to[5])
{
    const unsigned char *s = (const unsigned char *)*text;
    size_t bytes = 1;
    unsigned char at[5] = { 0 }; /* a character that is cut off ends with a NUL */
    memcpy(at, s, n < 4 ? n : strnlen((const char *)s, 4));
    bytes = tool_utf8_length(at);
    if (bytes == 0 || ts_json_acts(ts_json_code_point(at, bytes))) {
        *text += bytes > 0 ? bytes : 1;
        memcpy(to, "?", 2);
        return 1;
    }
    memcpy(to, s, bytes);
    to[bytes] = '\0';
    *text += bytes;
    return bytes;
}

int tool_plain_terminal(int fd, const char **text, size_t *n, char **copy, struct ts_err *err)
{
    const char *at = *text, *const end = at + *n;
    size_t done = 0;
    if (!isatty(fd))
        return 0;
    *copy = malloc(*n + 5);
    if (*copy == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for text");
    while (at < end) {
        if (*at == '\n' || *at == '\t')
            (*copy)[done++] = *at++;
        else
            done += tool_plain_next(&at, (size_t)(end - at), *copy + done);
    }
    *text = *copy;
    *n = done;
    return 0;
}

/* ---- tables ---- */

int tool_width(const char *text)
{
    int n = 0;
    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80; /* does not count continuation bytes of UTF-8 */
    return n;
}

static int column_width(const struct tool_column *c)
{
    const int name = tool_width(c->name);
    return name > c->width ? name : c->width;
}

uint32_t tool_table_fit(const struct tool_column *c, uint32_t n, int columns)
{
    uint32_t shown = 0;
    int width = -1; /* -1, because the first column has no blank before it */
    for (uint32_t i = 0; i < n; i++)
        if (c[i].drop != TOOL_ABSENT) {
            shown |= UINT32_C(1) << i;
            width += 1 + column_width(&c[i]);
        }
    while (width > columns) {
        uint32_t last = n;
        for (uint32_t i = 0; i < n; i++)
            if ((shown >> i & 1) && c[i].drop > 0 && (last == n || c[i].drop >= c[last].drop))
                last = i;
        if (last == n)
            break;
        shown &= ~(UINT32_C(1) << last);
        width -= 1 + column_width(&c[last]);
    }
    return shown;
}

uint32_t tool_table_spread(struct tool_column *c, uint32_t n, int columns)
{
    int width = -1;
    for (uint32_t i = 0; i < n; i++)
        width += 1 + column_width(&c[i]);
    for (int gap = 2; gap > 0; gap--)
        if (width + gap * (int)(n - 1) <= columns) {
            for (uint32_t i = 1; i < n; i++)
                c[i].width = column_width(&c[i]) + gap;
            break;
        }
    return tool_table_fit(c, n, columns);
}

void tool_table_row(const struct tool_column *c, uint32_t n, uint32_t shown,
                    const char *const cell[])
{
    /* owed: blanks not printed yet; those at the end of a line are dropped */
    int first = 1, owed = 0;
    for (uint32_t i = 0; i < n; i++) {
        char plain[4096];
        const char *text = tool_plain(cell[i], plain, sizeof plain);
        const int fill = column_width(&c[i]) - tool_width(text);
        if ((shown >> i & 1) == 0)
            continue;
        owed += !first;
        first = 0;
        if (!c[i].left)
            owed += fill > 0 ? fill : 0;
        if (*text != '\0') {
            printf("%*s%s", owed, "", text);
            owed = 0;
        }
        if (c[i].left)
            owed += fill > 0 ? fill : 0;
    }
    putchar('\n');
}

void tool_table_head(const struct tool_column *c, uint32_t n, uint32_t shown)
{
    const char *name[32];
    for (uint32_t i = 0; i < n && i < 32; i++)
        name[i] = c[i].name;
    tool_table_row(c, n, shown, name);
}

/* ---- text broken into lines ---- */

/* Returns the bytes of the first `characters` characters of a text of at most `most` bytes; at
 * least one byte. */
static size_t bytes_of(const char *text, size_t most, int characters)
{
    size_t n = 0;
    for (int seen = 0; n < most; n++) {
        seen += ((unsigned char)text[n] & 0xc0) != 0x80;
        if (seen > characters)
            break;
    }
    return n > 0 ? n : 1;
}

static void put_bytes(struct tool_words *w, const char *text, size_t n)
{
    char cut[4096], plain[4096];
    snprintf(cut, sizeof cut, "%.*s", (int)(n < sizeof cut ? n : sizeof cut - 1), text);
    fputs(tool_plain(cut, plain, sizeof plain), stdout);
    w->at += tool_width(plain);
}

void tool_words_start(struct tool_words *w, const char *name)
{
    if (w->at > 0)
        putchar('\n');
    printf("%-*s", w->indent, name);
    w->at = w->indent;
}

void tool_words_put(struct tool_words *w, const char *text)
{
    while (*text != '\0') {
        const size_t word = strcspn(text, " "), n = bytes_of(text, word, w->columns - w->indent);
        char cut[4096];
        int width;
        if (word == 0) {
            text++;
            continue;
        }
        snprintf(cut, sizeof cut, "%.*s", (int)(n < sizeof cut ? n : sizeof cut - 1), text);
        width = tool_width(cut);
        if (w->at > w->indent && w->at + 1 + width > w->columns)
            tool_words_start(w, "");
        else if (w->at > w->indent)
            put_bytes(w, " ", 1);
        put_bytes(w, text, n);
        text += n;
        if (n < word) /* a long word continues on the next line */
            tool_words_start(w, "");
    }
}

void tool_words_paint(struct tool_words *w, enum tool_tone tone, const char *text)
{
    char plain[256];
    tool_plain(text, plain, sizeof plain);
    if (w->at > w->indent && w->at + 1 + tool_width(plain) > w->columns)
        tool_words_start(w, "");
    else if (w->at > w->indent)
        put_bytes(w, " ", 1);
    printf("%s%s%s", tool_paint(tone), plain, tool_paint_end());
    w->at += tool_width(plain);
}

void tool_words_putf(struct tool_words *w, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tool_words_put(w, text);
}

void tool_words_end(struct tool_words *w)
{
    if (w->at > 0)
        putchar('\n');
    w->at = 0;
}
