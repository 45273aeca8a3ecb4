/* SPDX-License-Identifier: BSD-3-Clause */
/* c_locale.h - numbers as text, with a point, whatever locale the program around the engine has set.
 *
 * What the engine reads and writes has a point before the decimals; in the locale of many countries
 * strtod and printf want a comma. Reading goes through ts_strtod; a thread that prints numbers which
 * are read again, or sentences, does so between enter and leave.
 *
 *   owner    the locale of C is made once and stays
 *   threads  any; enter and leave concern the calling thread alone, and nest
 *   errors   none: where the C library has no locales of threads, programs are in that of C
 */
#ifndef TS_BASE_C_LOCALE_H
#define TS_BASE_C_LOCALE_H

#include <locale.h>

double ts_strtod(const char *text, char **end);
float ts_strtof(const char *text, char **end);

/* The calling thread prints and reads as C does. Returns what to give back. */
locale_t ts_c_locale_enter(void);
void ts_c_locale_leave(locale_t before);

#endif
