/* SPDX-License-Identifier: BSD-3-Clause */
/* Assigns times in arrays to bins (ranges of time), by the same rules as tshard build does for
 * tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "source/text/time_bin.h"

struct ts_bins {
    struct ts_time_bin bin;
    struct ts_time_look look;
    char name[256]; /* name of the mode, for messages */
    int begun;      /* 1: the first time in the array has decided how times are read */
};

ts_bins *ts_bins_new(const char *width, const char *unit, const char *name, ts_error *err)
{
    struct ts_bins *b = calloc(1, sizeof *b);
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = b == NULL ? ts_fail(&a.err, TS_ENOMEM, "out of memory for bins of times")
                   : ts_time_bin_parse(width, &b->bin, &a.err);
    if (rc == 0 && unit != NULL)
        rc = ts_time_unit_parse(unit, &b->bin.rule.unit, &a.err);
    if (rc == 0) {
        b->begun = b->bin.rule.said = unit != NULL;
        snprintf(b->name, sizeof b->name, "%s", name);
    } else {
        free(b);
        b = NULL;
    }
    ts_api_end(&a, rc, err);
    return b;
}

void ts_bins_free(ts_bins *b)
{
    free(b);
}

void ts_bins_look(ts_bins *b, uint64_t n, const char *const *time)
{
    struct ts_api a;
    ts_api_begin(&a);
    for (uint64_t i = 0; i < n; i++)
        ts_time_look_at(&b->look, time[i], strlen(time[i]));
    ts_api_end(&a, 0, NULL);
}

int ts_bins_of(ts_bins *b, uint64_t n, const char *const *time, uint64_t *ret, uint64_t *n_taken,
               ts_error *err)
{
    char why[TS_TIME_SENTENCE];
    struct ts_api a;
    uint64_t i = 0;
    int rc = 0;
    ts_api_begin(&a);
    if (!b->begun)
        b->bin.rule = ts_time_look_rule(&b->look, ts_time_bin_by_days(&b->bin));
    b->begun = 1;
    while (i < n && (rc = ts_time_bin_of(&b->bin, time[i], strlen(time[i]), &ret[i])) == 0)
        i++;
    if (rc < 0)
        rc = ts_fail(&a.err, TS_EFORMAT, "%s",
                     ts_time_why(&b->bin.rule, b->name, time[i], strlen(time[i]), why));
    *n_taken = i;
    return ts_api_end(&a, rc, err);
}

void ts_bins_label(const ts_bins *b, uint64_t bin, char ret[TS_BINS_LABEL])
{
    ts_time_bin_label(&b->bin, bin, ret);
}
