/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_term.h - the terminal that standard output is, or is not: its width, colours, columns of a
 * table that fit, sentences broken into lines.
 *
 *   units    columns: characters of a terminal
 *   threads  the one that prints
 */
#ifndef TS_TOOLS_TOOL_TERM_H
#define TS_TOOLS_TOOL_TERM_H

#include <stddef.h>
#include <stdint.h>

#define TOOL_LEAST_COLUMNS 80

/* Whether standard output is a terminal that someone looks at. That of a process which a launcher
 * started is none: Open MPI gives it a terminal of its own, and passes on what is written there,
 * perhaps to a file. */
int tool_is_screen(void);

/* Of standard output: 80 where it is no terminal, or a narrower one. COLUMNS counts where the
 * terminal does not say. */
int tool_columns(void);

/* ---- colour ---- */

enum tool_tone { TOOL_GOOD, TOOL_PAUSED, TOOL_BAD };

/* What stands before and after a word that tells the state of a run: "" where standard output is no
 * terminal, TERM is dumb, or NO_COLOR is set to anything but "". */
const char *tool_paint(enum tool_tone tone);
const char *tool_paint_end(void);

/* ---- a table whose columns fit ---- */

enum { TOOL_ABSENT = 100 };

struct tool_column {
    const char *name;
    int width; /* characters, without the blank before it; the name may make it wider */
    int drop;  /* 0: always shown; of the others the largest goes first; TOOL_ABSENT: never shown */
    int left;  /* the text is at the left */
};

/* How many `columns` wide the table may be: bit i of the result is set when column i is shown. */
uint32_t tool_table_fit(const struct tool_column *c, uint32_t n, int columns);

/* Widens all columns by up to two blanks where the table still fits whole; then as
 * tool_table_fit. */
uint32_t tool_table_spread(struct tool_column *c, uint32_t n, int columns);

/* A line of it: names, or cells, of all columns, also those that are not shown. */
void tool_table_head(const struct tool_column *c, uint32_t n, uint32_t shown);
void tool_table_row(const struct tool_column *c, uint32_t n, uint32_t shown,
                    const char *const cell[]);

/* ---- words in lines ---- */

struct tool_words {
    int indent; /* of every line but the first, which begins with a name */
    int columns;
    int at; /* 0: nothing of the line is printed */
};

/* A line that begins with `name`, filled to the indent; ends the line before it. */
void tool_words_start(struct tool_words *w, const char *name);

/* Words of the text, broken where a line is full; a word longer than a line is cut into pieces.
 * What a terminal would act upon is '?'. */
void tool_words_put(struct tool_words *w, const char *text);
void tool_words_paint(struct tool_words *w, enum tool_tone tone, const char *text); /* not broken */
void tool_words_putf(struct tool_words *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tool_words_end(struct tool_words *w);

/* Characters of a UTF-8 text; what is none counts a byte as one. */
int tool_width(const char *text);

#endif
