/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_rows.h - prints the rows of tshard plan and tstream plan: a name, an amount and a note, in
 * at most 80 columns.
 *
 *   units    bytes, seconds
 */
#ifndef TS_TOOLS_PLAN_ROWS_H
#define TS_TOOLS_PLAN_ROWS_H

void plan_row(const char *what, const char *amount, const char *note);
void plan_bytes_row(const char *what, double bytes, const char *note);
void plan_time_row(const char *what, double seconds, const char *note);

#endif
