/* SPDX-License-Identifier: BSD-3-Clause */
/* report_html.h - text and drawings inside a page of HTML that is also well-formed XML.
 *
 * All that comes from outside, names above all, goes through report_text: the five characters that mean something
 * to HTML are escaped, what is not UTF-8 or not allowed in XML becomes U+FFFD.
 *
 *   owner    the caller owns the file
 *   units    drawings have coordinates of their own, which a viewBox scales to the width of the page
 *   errors   those of the file, which is asked at its end
 */
#ifndef TS_TOOLS_REPORT_HTML_H
#define TS_TOOLS_REPORT_HTML_H

#include <stdint.h>
#include <stdio.h>

/* At most `most` characters of it, the last one an ellipsis where it is cut; 0: all. */
void report_text(FILE *to, const char *text, uint32_t most);

/* A chart of n points, with axes: lines or bars over 1, 2, ... n. NaN: no point. */
struct report_chart {
    const char *title;  /* of our own, not escaped */
    const char *x_name; /* what is counted */
    double x_first;     /* of the first point */
    const double *y;
    uint32_t n;
    uint32_t series;          /* of n points each, one behind the other; 0 is 1 */
    int bars, log, from_zero; /* log: powers of ten */
    int open;                 /* the figure is not closed: something follows */
    const char *unit;         /* "s" behind a number of the y axis, or "" */
};
void report_chart_put(FILE *to, const struct report_chart *c);

/* A matrix of n x n numbers from -1 to 1, its lower triangle, as squares of 10 levels of colour. */
void report_matrix_put(FILE *to, const char *title, const double *x, uint32_t n);

/* n ranges with their smallest and largest value, as a line of the width of the page. */
void report_line_put(FILE *to, const float *low, const float *high, uint32_t n);

/* n bars below each other, of lengths 0 to 1, negative ones in another colour. */
void report_bars_put(FILE *to, const double *x, uint32_t n);

#endif
