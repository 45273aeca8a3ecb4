/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the rows of a plan: name, amount and note. */
#include "tools/common/plan_rows.h"

#include <stdint.h>
#include <stdio.h>

#include "api/tools.h"

void plan_row(const char *what, const char *amount, const char *note)
{
    printf("  %-34s %11s%s%s\n", what, amount, *note != '\0' ? "  " : "", note);
}

void plan_bytes_row(const char *what, double bytes, const char *note)
{
    char a[TS_NUM_CHARS];
    plan_row(what, ts_num_bytes(a, (uint64_t)bytes), note);
}

void plan_time_row(const char *what, double seconds, const char *note)
{
    char a[TS_NUM_CHARS];
    plan_row(what, ts_num_duration(a, (uint64_t)(seconds * 1e9)), note);
}
