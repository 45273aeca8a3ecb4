/* SPDX-License-Identifier: BSD-3-Clause */
/* report_scan.h - computes the figures of the factor matrices that a page shows, in one pass over
 * their rows.
 *
 * For each component shown (the heaviest ones) and each mode: the strongest indices, and the
 * smallest and largest entry of at most n_points equal ranges of indices, as many as a line of
 * that width can show. For each mode: the Gram matrix of the components shown, and whether
 * neighbouring rows are similar.
 *
 * A mode counts as a sequence, such as time, if it has at least 8 rows, and its names ascend as
 * numbers or dates. A mode whose names are numbers in another order, or that has no names, is one
 * if the von Neumann ratio
 *
 *     sum over components of sum (x_i+1 - x_i)^2  /  2 sum over components of sum (x_i - mean)^2
 *
 * is below 0.5. It is 1 for rows in random order and near 0 for smooth columns.
 *
 *   owner    the caller owns the struct; free takes an all-zero one
 *   units    memory: components * (components + 8 n_points + 24 n_top) bytes a mode, for any number
 *            of rows
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_REPORT_SCAN_H
#define TS_TOOLS_REPORT_SCAN_H

#include "tools/report/report_axis.h"

struct report_conf {
    uint32_t components; /* number of components shown, the heaviest ones */
    uint32_t n_top;      /* number of strongest indices of each component */
    uint32_t n_points;   /* most points of a line */
    /* bit m: mode m is drawn as a line; without lines_given, the scan chooses these modes */
    uint32_t lines;
    int lines_given;
};

struct report_mode {
    uint64_t n_rows, dim;
    int is_line;
    double ratio;             /* von Neumann ratio; small if neighbouring rows are similar */
    double *gram;             /* the Gram matrix of the columns of the components shown */
    struct ts_strongest *top; /* for each component shown, a list of its strongest indices */
    uint32_t n_points;
    /* components x n_points: the smallest and largest entry of each range of indices */
    float *low, *high;
    struct report_axis axis; /* axis on which the points are drawn */
};

struct report_scan {
    uint32_t order, components;
    struct report_mode mode[TS_MAX_ORDER];
};

int report_scan_new(struct model_view *v, const struct report_conf *conf, struct report_scan *ret,
                    struct ts_err *err);
void report_scan_free(struct report_scan *s);

#endif
