/* SPDX-License-Identifier: BSD-3-Clause */
/* num.h - formats sizes, counts, rates and times for people.
 *
 *   owner    each function writes into the caller's buffer of TS_NUM_CHARS and returns it
 *   units    in the names of parameters: bytes, nanoseconds
 */
#ifndef TS_BASE_NUM_H
#define TS_BASE_NUM_H

#include <stdint.h>

#define TS_NUM_CHARS 32

char *ts_num_bytes(char *buf, uint64_t bytes); /* "512 B", "1.50 KiB", "64.0 MiB", "12.3 GiB" */
char *ts_num_count(char *buf, uint64_t n);     /* "1,378,268" */
const char *ts_num_plural(uint64_t n);         /* the plural "s" of a noun for n things; "" for 1 */
char *ts_num_short(char *buf, double x);       /* "12.3 M", three digits, powers of 1000 */
char *ts_num_duration(char *buf,
                      uint64_t ns); /* "250 us", "12.3 ms", "4.56 s", "3 min 05 s", "2 h 07 min" */
char *ts_num_seconds(char *buf, double seconds); /* seconds: from 0 to 1e9 */

#endif
