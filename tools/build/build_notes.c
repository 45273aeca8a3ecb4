/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints notes about modes of a table whose numbers or times were probably not meant as they were
 * read. */
#include "tools/build/build_notes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

#include "tools/common/tool.h"

/* a note is printed on a mode that has this many indices for each used one */
#define FEW_OF 20u
/* no note on a mode with fewer indices than this, because unused ones cost nothing */
#define FEW_LEAST   1000u
#define MANY_LABELS 20u

/* Returns the first used index of a mode, numbered as in the input; 0 if it cannot be read. */
static uint64_t first_index(const struct ts_tensor *t, uint32_t mode)
{
    struct ts_rows_reader *r = NULL;
    uint64_t row[TS_ROWS_CHUNK], ret = 0;
    uint32_t n = 0;
    if (ts_rows_reader_open(t, mode, &r, NULL) == 0 && r != NULL &&
        ts_rows_reader_next(r, row, &n, NULL) == 0 && n > 0)
        ret = row[0] + ts_first_index(t);
    ts_rows_reader_close(r);
    return ret;
}

/* Whether x is a month like 202301, or with days a date like 20230131. */
static int is_date(uint64_t x, int days)
{
    const uint64_t month = days ? x / 100 % 100 : x % 100, year = x / (days ? 10000 : 100);
    return year >= 1900 && year <= 2100 && month >= 1 && month <= 12 &&
           (!days || (x % 100 >= 1 && x % 100 <= 31));
}

/* Whether x is a number of seconds since 1970, from the years 1980 to 2100, and not a date with an
 * hour like 2023013123. */
static int is_second(uint64_t x)
{
    return x >= UINT64_C(315532800) && x < UINT64_C(4102444800) &&
           !(is_date(x / 100, 1) && x % 100 < 24);
}

/* Writes the name of the mode as options accept it ("year" or "3"), and as messages show it ("3
 * (year)"). */
static void name_mode(const struct ts_tensor *t, uint32_t m, char option[64], char shown[160])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *name = ts_name(t, m);
    const size_t n = name == NULL ? 0 : strlen(name);
    if (n > 0 && n < 60 && strspn(name, plain) == n)
        snprintf(option, 64, "%s", name);
    else
        snprintf(option, 64, "%" PRIu32, m + 1);
    snprintf(shown, 160, "%" PRIu32 "%s%.100s%s", m + 1, n > 0 ? " (" : "", n > 0 ? name : "",
             n > 0 ? ")" : "");
}

static void note_numbers(const struct ts_cmd *cmd, const struct ts_tensor *t, uint32_t m)
{
    const uint64_t used = ts_used(t, m), dim = ts_dim(t, m);
    const uint64_t last = dim - 1 + ts_first_index(t), first = first_index(t, m);
    char option[64], shown[160], a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    if (dim <= FEW_LEAST || dim / FEW_OF <= used)
        return;
    name_mode(t, m, option, shown);
    if ((is_second(first) && is_second(last)) || (is_date(first, 1) && is_date(last, 1)))
        tool_note(
            cmd,
            "mode %s has numbers like times. If they are, --bin %s=1d makes days of them, and "
            "other widths make weeks, hours or months",
            shown, option);
    else if (is_date(first, 0) && is_date(last, 0))
        tool_note(cmd,
                  "mode %s has numbers like months. If they are, --text %s --names sorted makes a "
                  "name of each",
                  shown, option);
    else
        tool_note(cmd,
                  "mode %s uses %s of its %s indices. If its numbers are names, such as codes or "
                  "years, --text %s makes a name of each",
                  shown, ts_num_count(a, used), ts_num_count(b, dim), option);
}

/* Whether a label begins as 2024-05-31 does. */
static int is_iso(const char *label)
{
    static const char form[] = "0000-00-00";
    for (size_t i = 0; form[i] != '\0'; i++)
        if (form[i] == '0' ? label[i] < '0' || label[i] > '9' : label[i] != form[i])
            return 0;
    return 1;
}

static void note_times(const struct ts_cmd *cmd, const struct ts_tensor *t, uint32_t m)
{
    const uint64_t n = t->mode[m].disk.n_labels, first = 0;
    char *label = NULL, option[64], shown[160], a[TS_NUM_CHARS];
    if (n < MANY_LABELS || n < t->nnz - t->nnz / 10 ||
        ts_tensor_labels(t, m, 1, &first, &label, NULL) < 0 || label == NULL)
        return;
    if (is_iso(label)) {
        name_mode(t, m, option, shown);
        tool_note(cmd,
                  "mode %s has %s different times, about one for each nonzero: --bin %s=1d makes "
                  "days of them, and other widths make weeks, hours or months",
                  shown, ts_num_count(a, n), option);
    }
    free(label);
}

void build_notes(const struct ts_cmd *cmd, const char *tensor)
{
    struct ts_tensor *t = NULL;
    if (ts_tensor_open(tensor, &t, NULL) < 0)
        return;
    for (uint32_t m = 0; m < t->order; m++)
        if (t->mode[m].disk.n_labels > 0)
            note_times(cmd, t, m);
        else
            note_numbers(cmd, t, m);
    ts_tensor_close(t);
}

/* With --base 0, a file whose indices start at 1 is read as well: index 0 is then an empty slice
 * of each mode, most likely by mistake. Returns a bit for each mode whose index 0 is unused. */
static uint32_t modes_without_0(const char *path, uint32_t *order)
{
    struct ts_tensor *t = NULL;
    uint32_t unused = 0;
    *order = 0;
    if (ts_tensor_open(path, &t, NULL) < 0)
        return 0;
    *order = t->order;
    for (uint32_t m = 0; m < t->order; m++) {
        struct ts_rows_reader *r = NULL;
        uint64_t row[TS_ROWS_CHUNK];
        uint32_t n = 0;
        if (ts_rows_reader_open(t, m, &r, NULL) == 0 && r != NULL &&
            ts_rows_reader_next(r, row, &n, NULL) == 0 && n > 0 && row[0] > 0)
            unused |= 1u << m;
        ts_rows_reader_close(r);
    }
    ts_tensor_close(t);
    return unused;
}

void build_base_note(const struct ts_cmd *cmd, const char *tensor, int said_0, int binary)
{
    uint32_t order;
    const uint32_t unused = modes_without_0(tensor, &order);
    char list[8 * TS_MAX_ORDER] = "";
    size_t n = 0;
    if (unused == 0)
        return;
    if (unused == (1u << order) - 1) {
        tool_note(cmd,
                  "index 0 does not occur in any mode: if the indices of the input start at 1, %s",
                  binary ? "give --base 1" : "leave --base 0 out");
        return;
    }
    for (uint32_t m = 0; m < order; m++)
        if ((unused >> m & 1) != 0)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%u", n > 0 ? ", " : "", m + 1);
    if (said_0)
        tool_note(cmd,
                  "index 0 does not occur in mode %s: if its indices start at 1, take 1 off them, "
                  "for --base 0 is for all modes",
                  list);
}
