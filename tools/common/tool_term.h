/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_term.h - prints on standard output, with the terminal's width and colors: tables that
 * fit the width, and text broken into lines.
 *
 *   units    columns: characters of a terminal
 *   threads  the thread that prints
 */
#ifndef TS_TOOLS_TOOL_TERM_H
#define TS_TOOLS_TOOL_TERM_H

#include <stddef.h>
#include <stdint.h>

#define TOOL_LEAST_COLUMNS 80

/* Whether standard output is a terminal that a user sees. A process of a launcher has none: Open
 * MPI gives it a terminal of its own and forwards the output, perhaps to a file. */
int tool_is_screen(void);

/* Returns the columns of standard output: at least 80, also if it is no terminal. COLUMNS is used
 * if the terminal does not report its width. */
int tool_columns(void);

/* ---- colors ---- */

enum tool_tone { TOOL_GOOD, TOOL_PAUSED, TOOL_BAD };

/* Return the control sequences before and after a word for the state of a run: "" if standard
 * output is no terminal, TERM is dumb, or NO_COLOR is set and not empty. */
const char *tool_paint(enum tool_tone tone);
const char *tool_paint_end(void);

/* ---- tables that fit the width of the terminal ---- */

enum { TOOL_ABSENT = 100 };

struct tool_column {
    const char *name;
    int width; /* characters without the blank before it; a longer name makes the column wider */
    /* order in which columns are dropped if the table is too wide: the largest number first; 0: the
     * column is always shown; TOOL_ABSENT: it is never shown */
    int drop;
    int left; /* 1: the text is left-aligned */
};

/* Chooses which of n columns a table shows, so that its lines have at most `columns` characters.
 * Bit i of the result: column i is shown. */
uint32_t tool_table_fit(const struct tool_column *c, uint32_t n, int columns);

/* Widens all columns by up to two blanks if the whole table still fits, and returns the choice of
 * tool_table_fit. */
uint32_t tool_table_spread(struct tool_column *c, uint32_t n, int columns);

/* Print a line of the table: the names of the columns, or the texts of a row. cell[] has entries
 * for all columns, including those not shown. */
void tool_table_head(const struct tool_column *c, uint32_t n, uint32_t shown);
void tool_table_row(const struct tool_column *c, uint32_t n, uint32_t shown,
                    const char *const cell[]);

/* ---- text broken into lines ---- */

struct tool_words {
    int indent; /* indent of all lines except the first, which begins with a name */
    int columns;
    int at; /* column of the next character; 0: the line is empty */
};

/* Ends the current line, and begins one with `name`, filled with blanks up to the indent. */
void tool_words_start(struct tool_words *w, const char *name);

/* Prints the words of a text, with line breaks where needed; a word longer than a line is cut into
 * pieces. Characters that control a terminal become '?'. */
void tool_words_put(struct tool_words *w, const char *text);
/* prints a text in the color of `tone`, not broken into lines */
void tool_words_paint(struct tool_words *w, enum tool_tone tone, const char *text);
void tool_words_putf(struct tool_words *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tool_words_end(struct tool_words *w);

/* Returns the characters of a UTF-8 text; an invalid byte counts as one. */
int tool_width(const char *text);

#endif
