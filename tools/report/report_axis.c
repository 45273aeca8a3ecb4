/* SPDX-License-Identifier: BSD-3-Clause */
/* Places the indices of a mode on an axis by names that are numbers or times. */
#include "tools/report/report_axis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* most names that are read; a mode with more names is not taken for a sequence */
#define MOST_NAMES 20000
#define MARGIN     0.22 /* fraction of the axis at each end that has no ticks */

/* ---- values of names ---- */

static int number_of(const char *name, double *ret)
{
    char *end;
    *ret = ts_strtod(name, &end);
    return end != name && *end == '\0' && isfinite(*ret) && strpbrk(name, "xXpP") == NULL;
}

static int time_of(const char *name, double *ret)
{
    static const struct ts_time_rule iso = { .unit = TS_TIME_ISO, .said = 1 };
    int64_t seconds;
    if (ts_time_read(&iso, name, strlen(name), &seconds) != 0)
        return 0;
    *ret = (double)seconds;
    return 1;
}

/* Reads all names as values with value_of. Returns 0 if some name has no value. */
static int read_values(char *const *name, uint64_t n, int (*value_of)(const char *, double *),
                       double *ret)
{
    for (uint64_t i = 0; i < n; i++)
        if (name[i] == NULL || !value_of(name[i], &ret[i]))
            return 0;
    return 1;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the number of equidistant places on the axis, if neighbouring places are as far apart as
 * the two closest values; 0 if memory ran out. */
static uint64_t count_places(const double *x, uint64_t n)
{
    double *sorted = malloc(n * sizeof *sorted), gap = INFINITY, places;
    if (sorted == NULL)
        return 0;
    memcpy(sorted, x, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    for (uint64_t i = 1; i < n; i++)
        if (sorted[i] > sorted[i - 1])
            gap = fmin(gap, sorted[i] - sorted[i - 1]);
    places = (sorted[n - 1] - sorted[0]) / gap + 1;
    free(sorted);
    return places < 1e9 ? (uint64_t)(places + 0.5) : 1000000000;
}

static int ascends(const double *x, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++)
        if (!(x[i - 1] < x[i]))
            return 0;
    return 1;
}

/* Whether all names have only digits and characters of dates and times, and ascend in version
 * order. */
static int look_ascending(char *const *name, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (name[i] == NULL || strpbrk(name[i], "0123456789") == NULL ||
            name[i][strspn(name[i], "0123456789-:/.TZ+ ")] != '\0' ||
            (i > 0 && strverscmp(name[i - 1], name[i]) >= 0))
            return 0;
    return 1;
}

/* ---- reading names ---- */

static void free_names(char **name, uint64_t n)
{
    for (uint64_t i = 0; i < n && name != NULL; i++)
        free(name[i]);
    free(name);
}

static int read_names(const struct model_view *v, uint32_t mode, uint64_t n, char ***ret,
                      struct ts_err *err)
{
    uint64_t *index = malloc((n + 1) * sizeof *index);
    int rc = 0;
    *ret = calloc(n + 1, sizeof **ret);
    if (index == NULL || *ret == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for names");
    for (uint64_t i = 0; i < n && rc == 0; i++)
        index[i] = i;
    if (rc == 0)
        rc = ts_model_names_labels(v->names, mode, n, index, *ret, err);
    free(index);
    return rc;
}

static void take_ends(char **name, const double *at, uint64_t n, struct report_axis *ret)
{
    uint64_t least = 0, most = n - 1;
    for (uint64_t i = 0; i < n && at != NULL; i++) {
        least = at[i] < at[least] ? i : least;
        most = at[i] > at[most] ? i : most;
    }
    if (at != NULL) {
        ret->first = at[least];
        ret->last = at[most];
    }
    ret->least = name[least];
    ret->most = most != least ? name[most] : NULL;
    name[least] = name[most] = NULL;
}

int report_axis_new(const struct model_view *v, uint32_t mode, uint64_t dim,
                    struct report_axis *ret, struct ts_err *err)
{
    const int named = model_view_has_labels(v, mode);
    const uint32_t base = model_view_base(v);
    char **name = NULL;
    int rc;
    *ret = (struct report_axis){ .order = named ? REPORT_NO_ORDER : REPORT_BY_INDEX,
                                 .is_numeric = !named,
                                 .places = dim,
                                 .first = base,
                                 .last = (double)dim - 1 + base };
    if (!named || dim == 0 || dim > MOST_NAMES)
        return 0;
    ret->at = malloc(dim * sizeof *ret->at);
    rc = ret->at == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for names")
                         : read_names(v, mode, dim, &name, err);
    if (rc == 0) {
        ret->is_numeric = read_values(name, dim, number_of, ret->at);
        if (ret->is_numeric || read_values(name, dim, time_of, ret->at)) {
            ret->order = ascends(ret->at, dim) ? REPORT_ASCENDING : REPORT_BY_VALUE;
        } else {
            ret->order = look_ascending(name, dim) ? REPORT_ASCENDING : REPORT_NO_ORDER;
            free(ret->at);
            ret->at = NULL;
        }
        if (ret->at != NULL && (ret->places = count_places(ret->at, dim)) == 0)
            rc = ts_fail(err, TS_ENOMEM, "out of memory for names");
        take_ends(name, ret->at, dim, ret);
    }
    free_names(name, dim);
    return rc;
}

void report_axis_free(struct report_axis *a)
{
    free(a->at);
    free(a->least);
    free(a->most);
}

/* ---- places on the axis ---- */

uint32_t report_axis_point(const struct report_axis *a, uint64_t index, uint32_t n)
{
    const double range = a->last - a->first;
    if (a->at == NULL)
        return (uint32_t)((__uint128_t)index * n / ((uint64_t)range + 1));
    return range > 0 ? (uint32_t)lround((a->at[index] - a->first) / range * (n - 1)) : 0;
}

uint32_t report_axis_ticks(const struct report_axis *a, struct report_tick *ret, uint32_t room)
{
    const double range = a->last - a->first, most = (1 - 2 * MARGIN) * range / room;
    double step = range > 0 ? pow(10, floor(log10(most))) : 0;
    uint32_t n = 0;
    if (!a->is_numeric || !(range > 0) || !(step > 0))
        return 0;
    step *= most > 5 * step ? 10 : most > 2 * step ? 5 : most > step ? 2 : 1;
    if (a->at == NULL && step < 1)
        step = 1;
    for (double x = ceil((a->first + MARGIN * range) / step) * step;
         x <= a->last - MARGIN * range && n < room; x += step)
        ret[n++] = (struct report_tick){ .percent = 100 * (x - a->first) / range,
                                         .value = fabs(x) < 1e-9 * range ? 0 : x };
    return n;
}
