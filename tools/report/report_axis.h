/* SPDX-License-Identifier: BSD-3-Clause */
/* report_axis.h - the position of each index of a mode on the axis of a chart: by the value of its
 * name, if names are numbers or times.
 *
 * Names that are all numbers, or all dates of ISO 8601, have a place by that value, in any order of
 * their indices. Names that look like times and ascend, such as 09:30, and modes without names,
 * have places by their index.
 *
 *   owner    the caller owns the struct; free takes an all-zero one
 *   units    values; seconds for dates
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_REPORT_AXIS_H
#define TS_TOOLS_REPORT_AXIS_H

#include "tools/report/model_view.h"

enum report_order {
    REPORT_NO_ORDER, /* names that are words */
    REPORT_BY_INDEX, /* there are no names */
    REPORT_BY_VALUE, /* names are numbers or times, in any order */
    REPORT_ASCENDING /* names are numbers or times, and ascend with the index */
};

struct report_axis {
    enum report_order order;
    int is_numeric;     /* 1: values can be printed as numbers; dates cannot */
    double *at;         /* for each index, the value of its name; NULL: the index itself */
    double first, last; /* least and largest value */
    /* number of equidistant places at which all values are different, if that is possible */
    uint64_t places;
    char *least, *most; /* names of the indices at both ends of the axis, or NULL */
};

/* Makes the axis of a mode with `dim` indices. */
int report_axis_new(const struct model_view *v, uint32_t mode, uint64_t dim,
                    struct report_axis *ret, struct ts_err *err);
void report_axis_free(struct report_axis *a);

/* Returns the place of an index on the axis, as a number from 0 to n - 1. */
uint32_t report_axis_point(const struct report_axis *a, uint64_t index, uint32_t n);

/* Ticks of the axis: position in percent of its length, and the number printed there. Returns
 * their number, at most `room`. They leave space for the names at both ends. */
struct report_tick {
    double percent, value;
};
uint32_t report_axis_ticks(const struct report_axis *a, struct report_tick *ret, uint32_t room);

#endif
