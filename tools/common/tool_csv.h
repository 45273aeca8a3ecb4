/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_csv.h - writes cells of a CSV file (RFC 4180), with commas and quotes where needed.
 *
 *   owner    the caller owns the file
 *   errors   a failed write stays an error of the FILE, to be checked at its end
 */
#ifndef TS_TOOLS_TOOL_CSV_H
#define TS_TOOLS_TOOL_CSV_H

#include <stdint.h>
#include <stdio.h>

struct tool_csv {
    FILE *to;
    /* 1: the current line has a cell already, so a comma is written before the next one */
    int comma;
};

void tool_csv_text(struct tool_csv *c, const char *text); /* text NULL: an empty cell */
void tool_csv_u64(struct tool_csv *c, uint64_t x);
void tool_csv_f64(struct tool_csv *c, double x); /* writes the fewest digits that reproduce x */
void tool_csv_f32(struct tool_csv *c, float x);
void tool_csv_end(struct tool_csv *c); /* ends the line */

#endif
