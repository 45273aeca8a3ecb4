/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_csv.h - cells of a CSV file (RFC 4180): commas between them, quotes where they are needed.
 *
 *   owner    the caller owns the file
 *   errors   those of the file, which is asked at its end
 */
#ifndef TS_TOOLS_TOOL_CSV_H
#define TS_TOOLS_TOOL_CSV_H

#include <stdint.h>
#include <stdio.h>

struct tool_csv {
    FILE *to;
    int comma; /* a cell stands before */
};

void tool_csv_text(struct tool_csv *c, const char *text); /* NULL: an empty cell */
void tool_csv_u64(struct tool_csv *c, uint64_t x);
void tool_csv_f64(struct tool_csv *c, double x); /* the shortest decimal that reads back the same */
void tool_csv_f32(struct tool_csv *c, float x);
void tool_csv_end(struct tool_csv *c); /* of the line */

#endif
