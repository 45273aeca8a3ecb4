/* SPDX-License-Identifier: BSD-3-Clause */
/* report_draw.h - draws numbers of a JSON value as SVG. Values that are no numbers get no point.
 *
 *   owner    the caller owns all of it
 *   units    drawings have coordinates of their own, which a viewBox scales to the width of the
 *            page
 *   errors   those of the file, which is asked at its end
 */
#ifndef TS_TOOLS_REPORT_DRAW_H
#define TS_TOOLS_REPORT_DRAW_H

#include <stdio.h>

#include "api/tools.h"

/* A chart with axes, over 1, 2, ... n: a line, bars from zero, or a line for the values of each
 * object by powers of ten. */
void report_draw_line(FILE *to, const struct ts_json_value *numbers);
void report_draw_bars(FILE *to, const struct ts_json_value *numbers);
void report_draw_log(FILE *to, const struct ts_json_value *objects);

/* The lower triangle of rows of numbers from -1 to 1, as squares of 10 levels of colour. */
void report_draw_matrix(FILE *to, const struct ts_json_value *rows);

/* Ranges with their smallest and largest value (low, high), as a line of the width of the page with
 * its area. */
void report_draw_curve(FILE *to, const struct ts_json_value *object);

#endif
