/* SPDX-License-Identifier: BSD-3-Clause */
/* report_draw.h - draws the numbers of a JSON value as SVG. Values that are not numbers get no
 * point.
 *
 *   owner    the caller owns all of it
 *   units    drawings have coordinates of their own, which a viewBox scales to the width of the
 *            page
 *   errors   a failed write stays an error of the FILE, to be checked at its end
 */
#ifndef TS_TOOLS_REPORT_DRAW_H
#define TS_TOOLS_REPORT_DRAW_H

#include <stdio.h>

#include "api/tools.h"

/* Draw a chart of numbers over 1, 2, ... n. The first function draws a line, and the second bars
 * from zero. The third draws a line for the array `values` of each object, on a logarithmic
 * axis. */
void report_draw_line(FILE *to, const struct ts_json_value *numbers);
void report_draw_bars(FILE *to, const struct ts_json_value *numbers);
void report_draw_log(FILE *to, const struct ts_json_value *objects);

/* Draws the lower triangle of a matrix of numbers from -1 to 1, as squares in 10 levels of
 * colour. */
void report_draw_matrix(FILE *to, const struct ts_json_value *rows);

/* Draws ranges, each with a smallest and largest value (low, high), as a line with its area. */
void report_draw_curve(FILE *to, const struct ts_json_value *object);

#endif
