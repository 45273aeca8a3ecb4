/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces names of modes in the values of options by numbers. */
#include "tools/cp/cp_mode_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool_mode.h"
#include "tools/tstream_operand.h"

/* A row of base/settings.def, an option whose value may name modes. */
struct row {
    const char *option;
    size_t at; /* offset of the option's text in struct cp_args */
    /* MODES: modes separated by commas, or "all". VALUES: MODE=VALUE items separated by commas, or
     * a value for all modes. MODE_OR_VALUE: as VALUES, but a value may be missing. */
    enum { OF_RUN, MODES, VALUES, MODE_OR_VALUE } form;
};

#define WHETHER(x, f)    MODES
#define PENALTY(x, f)    f ? VALUES : MODE_OR_VALUE
#define BOUNDS(x, f)     VALUES
#define OF(...)          OF_OR(__VA_ARGS__ __VA_OPT__(, ) OF_RUN, 0)
#define OF_OR(form, ...) form
#define SETTING_IN(...)  { .form = OF_RUN },
#define SETTING(member, option, letter, kind, ...) \
    { option, offsetof(struct cp_args, member), OF(TS_MODES_OF_##kind) },
static const struct row rows[] = {
#include "base/settings.def"
};
_Static_assert(sizeof rows / sizeof *rows == TS_N_SETTINGS, "a row for each setting");

/* Returns the length of the mode's name at the start of an item, such as "user=0.1", of n bytes. */
static size_t key_bytes(const struct row *row, const char *item, size_t n)
{
    const char *equals = row->form == MODES ? NULL : memrchr(item, '=', n);
    return equals == NULL ? n : (size_t)(equals - item);
}

static int is_number(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && text[i] >= '0' && text[i] <= '9')
        i++;
    return i == n;
}

/* Whether a text has a name where a mode is expected, and not only numbers. */
static int has_names(const struct row *row, const char *text)
{
    if (text == NULL || row->form == OF_RUN || strcmp(text, "all") == 0 ||
        (row->form == VALUES && strchr(text, '=') == NULL))
        return 0;
    for (const char *item = text;; item++) {
        const size_t n = strcspn(item, ",");
        if (!is_number(item, key_bytes(row, item, n)))
            return 1;
        item += n;
        if (*item == '\0')
            return 0;
    }
}

/* Copies a text with the names of modes replaced by numbers. *ret is malloc'ed. */
static int number_text(const struct row *row, const struct tool_modes *modes, const char *text,
                       char **ret, struct ts_err *err)
{
    size_t bytes;
    FILE *to = open_memstream(ret, &bytes);
    int rc = to == NULL ? ts_fail(err, TS_ENOMEM, "out of memory") : 0;
    for (const char *item = text; rc == 0; item++) {
        const size_t n = strcspn(item, ","), key = key_bytes(row, item, n);
        uint32_t mode;
        if (is_number(item, key))
            fprintf(to, "%.*s", (int)n, item);
        else if ((rc = tool_mode_find(modes, row->option, item, key, &mode, err)) == 0)
            fprintf(to, "%" PRIu32 "%.*s", mode + 1, (int)(n - key), item + key);
        item += n;
        if (*item == '\0')
            break;
        putc(',', to);
    }
    if (to != NULL && fclose(to) != 0 && rc == 0)
        rc = ts_fail(err, TS_ENOMEM, "out of memory");
    return rc;
}

static int open_modes(const char *operand, struct ts_tensor **t, struct ts_err *err)
{
    char *path = NULL;
    int rc = tstream_operand(operand[0] != '\0' ? operand : NULL, ".tsh", "tensor", &path, err);
    if (rc == 0)
        rc = ts_tensor_open_any(path, t, err);
    free(path);
    return rc;
}

int cp_mode_names_take(struct cp_args *args, const char *tensor, struct cp_mode_names *ret,
                       struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    struct tool_modes modes;
    int rc = 0;
    for (size_t i = 0; i < TS_N_SETTINGS && rc == 0; i++) {
        const char **text = (const char **)((char *)args + rows[i].at);
        if (rows[i].form == OF_RUN || !has_names(&rows[i], *text))
            continue;
        if (t == NULL && (rc = open_modes(tensor, &t, err)) < 0)
            break;
        modes = tool_modes_of(t);
        rc = number_text(&rows[i], &modes, *text, &ret->text[i], err);
        if (rc == 0)
            *text = ret->text[i];
    }
    ts_tensor_close(t);
    return rc;
}

void cp_mode_names_free(struct cp_mode_names *names)
{
    for (size_t i = 0; i < TS_N_SETTINGS; i++)
        free(names->text[i]);
}
