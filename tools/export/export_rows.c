/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes nonzeros as lines of indices or names, with quotes around fields where tables need
 * them. */
#include "tools/export/export_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"

#define INDEX_CHARS 14u /* most characters of an index, 2^40, and a separator */

/* The text of a value, if the tensor has only a few different values. */
struct export_value {
    char text[TS_DECIMAL_CHARS];
    uint32_t n;
};

/* Writes a value. Values of a float32 tensor are float32 numbers, in whatever form it stores
 * them. */
static char *put_number(char *at, const struct ts_tensor *t, double value)
{
    return t->header.value_bytes == 4 ? ts_decimal_f32(at, (float)value)
                                      : ts_decimal_f64(at, value);
}

int export_rows_open(struct export_rows *e, struct ts_err *err)
{
    const struct ts_disk_header *h = &e->tensor->header;
    const uint32_t n = h->value_kind == TS_VALUE_CONST ? 1 : h->n_dict;
    e->line_bytes = e->tensor->order * (size_t)INDEX_CHARS + TS_DECIMAL_CHARS + 1;
    if (ts_tensor_weighted(e->tensor))
        e->line_bytes += TS_DECIMAL_CHARS + 1;
    e->value = calloc((size_t)n + 1, sizeof *e->value);
    if (e->value == NULL)
        return ts_fail(err, TS_ENOMEM, "no memory for %" PRIu32 " values", n);
    for (uint32_t i = 0; i < n; i++)
        e->value[i].n =
            (uint32_t)(put_number(e->value[i].text, e->tensor, ts_tensor_value(e->tensor, i, 0)) -
                       e->value[i].text);
    return 0;
}

void export_rows_close(struct export_rows *e)
{
    free(e->value);
    e->value = NULL;
}

size_t export_rows_line(const struct export_rows *e)
{
    size_t sum = e->line_bytes;
    for (uint32_t m = 0; e->quoted && m < e->tensor->order; m++)
        sum += 2 * e->names->mode[m].longest + 2;
    return sum;
}

static char *put_plain(char *at, const struct export_rows *e, const struct ts_block *b, uint32_t p)
{
    const uint32_t kind = e->tensor->header.value_kind;
    if (kind == TS_VALUE_CONST || kind == TS_VALUE_DICT) {
        const struct export_value *v = &e->value[kind == TS_VALUE_CONST ? 0 : b->code[0][p]];
        memcpy(at, v->text, sizeof v->text); /* a constant size, which is fast; there is room */
        return at + v->n;
    }
    return put_number(
        at, e->tensor,
        ts_tensor_value(e->tensor, b->code[0][p], kind == TS_VALUE_F64 ? b->code[1][p] : 0));
}

/* Writes the value of a nonzero and, if the tensor has weights, its weight. */
static char *put_value(char *at, const struct export_rows *e, const struct ts_block *b, uint32_t p)
{
    at = put_plain(at, e, b, p);
    if (!ts_tensor_weighted(e->tensor))
        return at;
    *at++ = e->separator;
    return ts_decimal_f32(at, ts_weight_of_code(b->code[1][p]));
}

/* Whether a field needs quotes. Readers ignore blanks around a field without quotes. */
static int wants_quotes(const char *text, size_t n, char separator)
{
    if (n >= 3 &&
        /* at the start of a file, this would be taken for a byte order mark */
        memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return 1;
    if (text[0] == ' ' || text[0] == '\t' || text[n - 1] == ' ' || text[n - 1] == '\t')
        return 1;
    for (size_t i = 0; i < n; i++)
        if (text[i] == separator || text[i] == '"' || text[i] == '\r')
            return 1;
    return 0;
}

char *export_rows_field(char *at, const char *text, size_t n, char separator)
{
    if (n > 0 && !wants_quotes(text, n, separator)) {
        memcpy(at, text, n);
        return at + n;
    }
    *at++ = '"';
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"')
            *at++ = '"';
        *at++ = text[i];
    }
    *at++ = '"';
    return at;
}

/* Writes the field of one index. Sets *at to NULL if it may not fit before `end`. An index without
 * a label, or with an empty one, which readers would refuse, is written as a number. */
static int put_index(const struct export_rows *e, uint32_t thread, uint32_t mode, uint32_t row,
                     char **at, const char *end, struct ts_err *err)
{
    const char *label = NULL;
    uint64_t index;
    size_t n = 0;
    int rc = ts_row_index(e->names, thread, mode, row, &index, err);
    if (rc == 0 && e->quoted && index < e->names->mode[mode].n_labels)
        rc = ts_row_label(e->names, thread, mode, index, &label, &n, err);
    if (rc < 0)
        return rc;
    if (n == 0)
        *at = ts_decimal_u64(*at, index + e->base);
    else if ((size_t)(end - *at) < 2 * n + 2 + e->line_bytes)
        *at = NULL;
    else
        *at = export_rows_field(*at, label, n, e->separator);
    return 0;
}

/* Writes as many lines of numbers as fit, if all indices are in memory, the usual case. Copies
 * members to local variables, because the compiler must assume that text overlaps them. */
static char *put_numbers(const struct export_rows *e, const struct ts_block *b,
                         const uint32_t *const column[], uint32_t *p, char *at, const char *end)
{
    const uint32_t order = e->tensor->order, first = *p;
    const uint64_t base = e->base, fit = (size_t)(end - at) / e->line_bytes;
    const uint32_t n = fit < b->n - first ? first + (uint32_t)fit : b->n;
    const char separator = e->separator;
    const uint32_t *small[TS_MAX_ORDER];
    const uint64_t *large[TS_MAX_ORDER];
    for (uint32_t m = 0; m < order; m++) {
        const uint32_t bytes = e->names->mode[m].index_bytes;
        small[m] = bytes == 4 ? e->names->mode[m].index.mem : NULL;
        large[m] = bytes == 8 ? e->names->mode[m].index.mem : NULL;
    }
    for (uint32_t i = first; i < n; i++) {
        for (uint32_t m = 0; m < order; m++) {
            uint64_t index = column[m][i];
            if (small[m] != NULL)
                index = small[m][index];
            else if (large[m] != NULL)
                index = large[m][index];
            at = ts_decimal_u64(at, index + base);
            *at++ = separator;
        }
        at = put_value(at, e, b, i);
        *at++ = '\n';
    }
    *p = n;
    return at;
}

/* Whether all fields are numbers that are in memory, so that put_numbers can write the lines. */
static int only_numbers(const struct export_rows *e)
{
    for (uint32_t m = 0; m < e->tensor->order; m++)
        if ((e->names->mode[m].index_bytes > 0 && e->names->mode[m].index.mem == NULL) ||
            (e->quoted && e->names->mode[m].n_labels > 0))
            return 0;
    return 1;
}

int export_rows_put(const struct export_rows *e, uint32_t thread, const struct ts_block *b,
                    const uint8_t level[], uint32_t *p, char **ret, const char *end,
                    struct ts_err *err)
{
    const uint32_t order = e->tensor->order;
    const uint32_t *column[TS_MAX_ORDER];
    char *at = *ret;
    for (uint32_t l = 0; l < order; l++)
        column[level[l]] = b->level[l];
    if (only_numbers(e)) {
        *ret = put_numbers(e, b, column, p, at, end);
        return 0;
    }
    for (; *p < b->n && (size_t)(end - at) >= e->line_bytes; ++*p) {
        for (uint32_t m = 0; m < order; m++) {
            const int rc = put_index(e, thread, m, column[m][*p], &at, end, err);
            if (rc < 0)
                return rc;
            if (at == NULL)
                return 0;
            *at++ = e->separator;
        }
        at = put_value(at, e, b, *p);
        *at++ = '\n';
        *ret = at;
    }
    return 0;
}
