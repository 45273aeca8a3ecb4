/* SPDX-License-Identifier: BSD-3-Clause */
/* time_bin.h - divides time into bins of equal width: "7d", "1h", "1mo".
 *
 * time_text.h reads times. Bins are counted from 1 January of the year 1, a Monday. So days begin
 * at midnight, and weeks on Monday. Months and years are those of the calendar.
 *
 *   units    seconds
 *   threads  pure
 *   errors   0 or TS_EARG, TS_EFORMAT
 */
#ifndef TS_SOURCE_TIME_BIN_H
#define TS_SOURCE_TIME_BIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "source/text/time_text.h"

struct ts_time_bin {
    uint64_t seconds; /* width of a bin in seconds; 0: the width is `months` */
    uint32_t months;
    struct ts_time_rule rule; /* how numbers in the column are read as times */
};

#define TS_TIME_LABEL 32 /* most bytes of a label */

/* Parses the width of bins, such as "7d". Numbers in the column are seconds, unless the caller sets
 * another rule. */
int ts_time_bin_parse(const char *text, struct ts_time_bin *ret, struct ts_err *err);

/* Writes the width of a bin as text that ts_time_bin_parse reads: "7d", "90min", "1mo". */
#define TS_TIME_WIDTH 32
void ts_time_bin_width(const struct ts_time_bin *b, char ret[TS_TIME_WIDTH]);

/* Whether bins are at least a day wide. */
int ts_time_bin_by_days(const struct ts_time_bin *b);

/* Sets *ret to the bin of the time in the n bytes at `text`. Returns 0, TS_TIME_NONE or
 * TS_TIME_AMBIGUOUS. */
int ts_time_bin_of(const struct ts_time_bin *b, const char *text, size_t n, uint64_t *ret);

/* Writes the label of a bin, which is its start in ISO 8601: "2024-05-27", "2024-05-27T13:00",
 * "2024-05". Returns the length. */
size_t ts_time_bin_label(const struct ts_time_bin *b, uint64_t bin, char ret[TS_TIME_LABEL]);

#endif
