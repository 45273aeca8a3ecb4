/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_text.c - turns the stored options of an earlier build (format/kept.h) into options of a
 * new one. */
#include "build/kept_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/decimal.h"
#include "base/setting.h"
#include "format/mode_names.h"

_Static_assert(TS_N_KEPT <= 64, "a bit for each row");

int ts_transform_parse(const char *text, struct ts_transform *ret, struct ts_err *err)
{
    char *end = NULL;
    if (strcmp(text, "log1p") == 0) {
        ret->kind = TS_TRANSFORM_LOG1P;
    } else if (strcmp(text, "binary") == 0) {
        ret->kind = TS_TRANSFORM_BINARY;
    } else if (strncmp(text, "scale=", 6) == 0 &&
               (ret->scale = ts_strtod(text + 6, &end), end != text + 6) && *end == '\0' &&
               isfinite(ret->scale) && ret->scale != 0) {
        ret->kind = TS_TRANSFORM_SCALE;
    } else {
        return ts_fail(
            err, TS_EARG,
            TS_SET_OPTION("transform") " %s: expected log1p, binary, or scale= and a number other "
                                       "than 0",
            text);
    }
    return 0;
}

void ts_transform_text(const struct ts_transform *t, char ret[TS_TRANSFORM_CHARS])
{
    static const char *const word[] = { [TS_TRANSFORM_NONE] = "none",
                                        [TS_TRANSFORM_LOG1P] = "log1p",
                                        [TS_TRANSFORM_BINARY] = "binary",
                                        [TS_TRANSFORM_SCALE] = "scale=" };
    char *at = stpcpy(ret, word[t->kind]);
    if (t->kind == TS_TRANSFORM_SCALE)
        *ts_decimal_f64(at, t->scale) = '\0';
}

/* Returns the stored text of option `id` for mode m; NULL if the user gave this option (`said`), or
 * it does not apply. */
static const char *text_of(const struct ts_kept *was, uint64_t said, enum ts_kept_id id, uint32_t m)
{
    return (said >> id & 1) != 0 ? NULL : was->text[id][m];
}

static int is(const char *text, const char *word)
{
    return strcmp(text, word) == 0;
}

static int adopt_cells(const struct ts_kept *was, uint64_t said, struct ts_build_options *o,
                       struct ts_err *err)
{
    const char *text;
    if ((text = text_of(was, said, TS_KEPT_VALUES, 0)) != NULL)
        o->value_bytes = is(text, "float64") ? 8 : 4;
    if ((text = text_of(was, said, TS_KEPT_TEXT_BASE, 0)) != NULL)
        o->base = is(text, "1");
    if ((text = text_of(was, said, TS_KEPT_ZEROS, 0)) != NULL)
        o->zeros = is(text, "keep");
    if ((text = text_of(was, said, TS_KEPT_MISSING, 0)) != NULL)
        o->skip_missing = is(text, "skip");
    if ((text = text_of(was, said, TS_KEPT_PARTIAL_MAP, 0)) != NULL)
        o->partial_map = is(text, "yes");
    if ((text = text_of(was, said, TS_KEPT_DUPLICATES, 0)) != NULL)
        o->duplicates = is(text, "keep")    ? TS_DUPLICATES_KEEP
                        : is(text, "error") ? TS_DUPLICATES_ERROR
                                            : TS_DUPLICATES_SUM;
    if ((text = text_of(was, said, TS_KEPT_TRANSFORM, 0)) != NULL && !is(text, "none"))
        return ts_transform_parse(text, &o->transform, err);
    return 0;
}

/* Whether the tensor keeps a text of option `id` for each mode. */
static int all_have(const struct ts_kept *was, enum ts_kept_id id)
{
    for (uint32_t m = 0; m < was->order; m++)
        if (was->text[id][m] == NULL)
            return 0;
    return 1;
}

/* Returns how --text and --bin name a mode: by its name, or by its number if it has none. */
static const char *called(const struct ts_kept *was, uint32_t m)
{
    static const char *const number[TS_MAX_ORDER] = {
        "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"
    };
    return was->text[TS_KEPT_MODE_NAME][m] != NULL ? was->text[TS_KEPT_MODE_NAME][m] : number[m];
}

static int adopt_fields(const struct ts_kept *was, uint64_t said, struct ts_table_plan *p,
                        struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < was->order && rc == 0; m++) {
        const char *field = text_of(was, said, TS_KEPT_FIELD, m);
        const char *bin = text_of(was, said, TS_KEPT_BIN, m);
        if (field != NULL && is(field, "name") && p->n_text < TS_MAX_ORDER)
            p->text[p->n_text++] = called(was, m);
        if (field != NULL && is(field, "digits") && p->n_digits < TS_MAX_ORDER)
            p->digits[p->n_digits++] = called(was, m);
        if (bin != NULL && p->n_bins < TS_MAX_ORDER) {
            rc = ts_time_bin_parse(bin, &p->bin[p->n_bins], err);
            p->binned[p->n_bins++] = called(was, m);
        }
    }
    return rc;
}

static int adopt_table(const struct ts_kept *was, uint64_t said, struct ts_build_options *o,
                       struct ts_table_plan *p, struct ts_err *err)
{
    const char *text;
    if ((text = text_of(was, said, TS_KEPT_HEADER, 0)) != NULL) {
        p->header = is(text, "yes") ? 1 : 2;
        p->header_kept = 1;
    }
    if ((text = text_of(was, said, TS_KEPT_SEPARATOR, 0)) != NULL &&
        (said >> TS_KEPT_SOURCE & 1) == 0) {
        if (strlen(text) != 1 || strchr("\"\r", text[0]) != NULL)
            return ts_fail(err, TS_EARG, TS_SET_SEPARATOR ": one character is wanted, not '%.100s'",
                           text);
        p->separator = text[0];
    }
    if (p->separator == '\0') /* a tensor built from arrays keeps no separator */
        p->separator = ',';
    if ((text = text_of(was, said, TS_KEPT_QUOTE, 0)) != NULL)
        p->no_quotes = is(text, "none");
    if ((text = text_of(was, said, TS_KEPT_DECIMAL, 0)) != NULL)
        p->decimal_comma = is(text, ",");
    if ((text = text_of(was, said, TS_KEPT_NAMES, 0)) != NULL)
        o->sorted_names = is(text, "sorted");
    if ((text = text_of(was, said, TS_KEPT_VALUE, 0)) != NULL)
        p->value = text;
    if ((text = text_of(was, said, TS_KEPT_WEIGHTS, 0)) != NULL)
        p->weight = is(text, "none") ? NULL : text;
    o->weights = p->weight != NULL;
    if (o->weights && o->value_bytes == 8)
        return ts_fail(err, TS_EARG, "values of cells with weights are float32, not float64");
    if (((said >> TS_KEPT_COLUMN | said >> TS_KEPT_MODE_NAME) & 1) == 0 &&
        all_have(was, TS_KEPT_COLUMN)) {
        p->n_columns = was->order;
        p->n_modes = all_have(was, TS_KEPT_MODE_NAME) ? was->order : 0;
        for (uint32_t m = 0; m < was->order; m++) {
            p->column[m] = was->text[TS_KEPT_COLUMN][m];
            p->mode[m] = was->text[TS_KEPT_MODE_NAME][m];
        }
    }
    o->table = p;
    o->table_by_name = 0;
    return adopt_fields(was, said, p, err);
}

int ts_kept_adopt(const struct ts_kept *was, uint64_t said, struct ts_build_options *o,
                  struct ts_table_plan *plan, struct ts_err *err)
{
    const char *source = was->text[TS_KEPT_SOURCE][0];
    const int table = source != NULL && (is(source, "table") ||
                                         (is(source, "arrays") && all_have(was, TS_KEPT_COLUMN)));
    /* 1: the new input is not a table */
    const int other = (said >> TS_KEPT_SOURCE & 1) != 0 && o->table == NULL;
    int rc = adopt_cells(was, said, o, err);
    if (rc == 0 && (said >> TS_KEPT_MODE_NAME & 1) == 0 && all_have(was, TS_KEPT_MODE_NAME)) {
        o->n_names = was->order;
        for (uint32_t m = 0; m < was->order; m++) {
            o->mode_name[m] = was->text[TS_KEPT_MODE_NAME][m];
            if (strlen(o->mode_name[m]) > TS_MODE_NAME_MAX)
                return ts_fail(err, TS_EARG, TS_SET_NAMES ": a name must have 1 to %u bytes",
                               TS_MODE_NAME_MAX);
        }
    }
    if (rc == 0 && table && !other)
        rc = adopt_table(was, said, o, plan, err);
    return rc;
}
