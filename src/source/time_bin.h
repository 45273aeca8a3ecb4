/* SPDX-License-Identifier: BSD-3-Clause */
/* time_bin.h - times to bins of equal width: "7d", "1h", "1mo".
 *
 * A time is seconds since 1970 (a whole number or decimal; from 10^11 on, milliseconds) or a date
 * of ISO 8601: 2024-05-31, 2024-05-31T13:45, with seconds, their decimals, and Z or +hh:mm behind.
 * Without a zone it is UTC. Bins are counted from Monday, 1 January of the year 1, so days begin at
 * midnight and weeks on Monday; months and years are those of the calendar.
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

struct ts_time_bin {
    uint64_t seconds; /* width; 0: months */
    uint32_t months;
};

#define TS_TIME_LABEL 32 /* bytes of a label */

int ts_time_bin_parse(const char *text, struct ts_time_bin *ret, struct ts_err *err);

/* The bin of the time in these n bytes; -1 when they are not a time. */
int ts_time_bin_of(const struct ts_time_bin *b, const char *text, size_t n, uint64_t *ret);

/* The start of a bin, as ISO 8601 writes it: "2024-05-27", "2024-05-27T13:00", "2024-05".
 * Returns its length. */
size_t ts_time_bin_label(const struct ts_time_bin *b, uint64_t bin, char ret[TS_TIME_LABEL]);

#endif
