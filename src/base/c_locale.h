/* SPDX-License-Identifier: BSD-3-Clause */
/* c_locale.h - reads and writes numbers with a decimal point, in any locale of the calling program.
 *
 * The engine reads and writes numbers with a decimal point; in the locale of many countries strtod
 * and printf use a comma. Numbers are read by ts_strtod. A thread prints numbers and messages
 * between enter and leave.
 *
 *   owner    the C locale is made once and stays
 *   threads  any thread; enter and leave change only the calling thread, and may be nested
 *   errors   none: a C library without locales per thread is assumed to use the C locale
 */
#ifndef TS_BASE_C_LOCALE_H
#define TS_BASE_C_LOCALE_H

#include <locale.h>

double ts_strtod(const char *text, char **end);
float ts_strtof(const char *text, char **end);

/* Switches the calling thread to the C locale. Returns the locale to pass to ts_c_locale_leave. */
locale_t ts_c_locale_enter(void);
void ts_c_locale_leave(locale_t before);

#endif
