/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the mode that an option names. */
#include "tools/common/tool_mode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

struct tool_modes tool_modes_of(const struct ts_tensor *t)
{
    struct tool_modes ret = { .order = t->order };
    for (uint32_t m = 0; m < t->order; m++)
        ret.name[m] = ts_name(t, m);
    return ret;
}

/* Writes ": user, item, week", the names of the modes, or "" if no mode has a name; cut to size. */
static void list_names(const struct tool_modes *modes, char *list, size_t size)
{
    size_t at = 0;
    list[0] = '\0';
    for (uint32_t m = 0; m < modes->order && at < size; m++)
        if (modes->name[m] != NULL)
            at += (size_t)snprintf(list + at, size - at, "%s%s", at == 0 ? ": " : ", ",
                                   modes->name[m]);
}

int tool_mode_find(const struct tool_modes *modes, const char *option, const char *text, size_t n,
                   uint32_t *ret, struct ts_err *err)
{
    char list[160];
    uint32_t k = 0;
    size_t i = strspn(text, " "); /* skips blanks, as in "1, 3" */
    for (; i < n && text[i] >= '0' && text[i] <= '9' && k <= modes->order; i++)
        k = 10 * k + (uint32_t)(text[i] - '0');
    *ret = k - 1;
    if (i == n && n > 0 && k >= 1 && k <= modes->order)
        return 0;
    *ret = modes->order;
    for (uint32_t m = modes->order; m-- > 0;) {
        const char *name = modes->name[m];
        if (name == NULL || strlen(name) != n || memcmp(name, text, n) != 0)
            continue;
        if (*ret < modes->order)
            return ts_fail(err, TS_EARG,
                           "--%s: modes %" PRIu32 " and %" PRIu32
                           " are both called '%.*s': give the number of one",
                           option, m + 1, *ret + 1, (int)n, text);
        *ret = m;
    }
    if (*ret < modes->order)
        return 0;
    list_names(modes, list, sizeof list);
    return ts_fail(err, TS_EARG,
                   "--%s: '%.*s' is neither a mode's number, 1 to %" PRIu32 ", nor its name%s",
                   option, (int)n, text, modes->order, list);
}

int tool_mode_option(const struct tool_modes *modes, const char *file, const char *text, int or_all,
                     uint32_t *ret, struct ts_err *err)
{
    const size_t n = strlen(text), zeros = strspn(text, "0");
    int rc;
    *ret = 0;
    if (or_all && zeros == n)
        return 0;
    if (strspn(text, "0123456789") == n &&
        (zeros == n || n - zeros > 3 || strtoul(text, NULL, 10) > modes->order))
        return ts_fail(err, TS_EARG, "%s: there is no mode %s, only %" PRIu32, file, text,
                       modes->order);
    rc = tool_mode_find(modes, "mode", text, n, ret, err);
    *ret += 1;
    return rc;
}
