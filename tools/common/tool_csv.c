/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the cells of a CSV file, quoted where needed. */
#include "tools/common/tool_csv.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/common/tool.h"

static void next(struct tool_csv *c)
{
    if (c->comma)
        putc(',', c->to);
    c->comma = 1;
}

static void put_text(struct tool_csv *c, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, c->to);
        return;
    }
    putc('"', c->to);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            putc('"', c->to);
        putc(*text, c->to);
    }
    putc('"', c->to);
}

void tool_csv_text(struct tool_csv *c, const char *text)
{
    char *shown = NULL;
    size_t n = text == NULL ? 0 : strlen(text);
    next(c);
    if (text == NULL)
        return;
    if (c->to == stdout && tool_plain_terminal(STDOUT_FILENO, &text, &n, &shown, NULL) == 0 &&
        shown != NULL)
        shown[n] = '\0';
    put_text(c, text);
    free(shown);
}

void tool_csv_u64(struct tool_csv *c, uint64_t x)
{
    char text[TS_DECIMAL_CHARS];
    next(c);
    fwrite(text, 1, (size_t)(ts_decimal_u64(text, x) - text), c->to);
}

void tool_csv_f64(struct tool_csv *c, double x)
{
    char text[TS_DECIMAL_CHARS];
    next(c);
    fwrite(text, 1, (size_t)(ts_decimal_f64(text, x) - text), c->to);
}

void tool_csv_f32(struct tool_csv *c, float x)
{
    char text[TS_DECIMAL_CHARS];
    next(c);
    fwrite(text, 1, (size_t)(ts_decimal_f32(text, x) - text), c->to);
}

void tool_csv_end(struct tool_csv *c)
{
    putc('\n', c->to);
    c->comma = 0;
}
