/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the C locale once, and switches threads to it and back. */
#include "base/c_locale.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t of_c; /* the C locale; (locale_t)0 when there is no memory for it */

static void make(void)
{
    of_c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t get(void)
{
    pthread_once(&once, make);
    return of_c;
}

double ts_strtod(const char *text, char **end)
{
    const locale_t c = get();
    return c != (locale_t)0 ? strtod_l(text, end, c) : strtod(text, end);
}

float ts_strtof(const char *text, char **end)
{
    const locale_t c = get();
    return c != (locale_t)0 ? strtof_l(text, end, c) : strtof(text, end);
}

locale_t ts_c_locale_enter(void)
{
    const locale_t c = get();
    return c != (locale_t)0 ? uselocale(c) : (locale_t)0;
}

void ts_c_locale_leave(locale_t before)
{
    if (before != (locale_t)0)
        uselocale(before);
}
