/* SPDX-License-Identifier: BSD-3-Clause */
/* build_kept.c - records in the tensor how it was built (format/kept.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build/build_steps.h"
#include "build/kept_text.h"
#include "source/text/text_kind.h"

/* Collects the texts of the options of a build. */
struct keeping {
    struct ts_kept *k;
    int rc;      /* the first failure */
    int nothing; /* 1: an option has no text, so the tensor keeps no options at all */
    struct ts_err *err;
};

static void put(struct keeping *g, enum ts_kept_id id, uint32_t mode, const char *text)
{
    struct ts_err why = { 0 };
    const int rc = g->rc < 0 ? 0 : ts_kept_set(g->k, id, mode, text, &why);
    if (rc == TS_ENOMEM)
        g->rc = ts_no_memory(g->err, "options");
    else if (rc < 0)
        g->nothing = 1;
}

static void put_u64(struct keeping *g, enum ts_kept_id id, uint32_t mode, uint64_t n)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, n);
    put(g, id, mode, text);
}

static void put_common(struct keeping *g, const struct ts_build *b)
{
    static const char *const duplicates[] = {
        [TS_DUPLICATES_SUM] = "sum", [TS_DUPLICATES_KEEP] = "keep", [TS_DUPLICATES_ERROR] = "error"
    };
    const struct ts_build_options *o = b->o;
    char transform[TS_TRANSFORM_CHARS];
    ts_transform_text(&o->transform, transform);
    put(g, TS_KEPT_SOURCE, 0, b->source);
    put_u64(g, TS_KEPT_BASE, 0, b->base);
    if (b->n_files > 0)
        put_u64(g, TS_KEPT_TEXT_BASE, 0, o->base);
    put(g, TS_KEPT_VALUES, 0, o->value_bytes == 8 ? "float64" : "float32");
    put(g, TS_KEPT_TRANSFORM, 0, transform);
    put(g, TS_KEPT_DUPLICATES, 0, duplicates[o->duplicates]);
    put(g, TS_KEPT_ZEROS, 0, o->zeros ? "keep" : "drop");
    put(g, TS_KEPT_MISSING, 0, o->skip_missing ? "skip" : "error");
    put(g, TS_KEPT_PARTIAL_MAP, 0, o->partial_map ? "yes" : "no");
    put(g, TS_KEPT_WEIGHTS, 0, o->weights ? "given" : "none");
}

/* Stores the option that names the columns of a list of cells (.tns): an index for each mode, then
 * the value. */
static void put_list(struct keeping *g, const struct ts_build *b)
{
    put(g, TS_KEPT_HEADER, 0, "no");
    put_u64(g, TS_KEPT_WIDTH, 0, b->order + 1);
    put_u64(g, TS_KEPT_VALUE, 0, b->order + 1);
    for (uint32_t m = 0; m < b->order; m++)
        put_u64(g, TS_KEPT_COLUMN, m, m + 1);
}

static void put_column(struct keeping *g, const struct ts_build *b, enum ts_kept_id id, uint32_t m,
                       uint32_t role)
{
    char *text = NULL;
    if (g->rc == 0)
        g->rc = ts_table_column_text(b->table, role, &text, g->err);
    if (g->rc == 0 && text == NULL)
        g->nothing = 1;
    else if (g->rc == 0)
        put(g, id, m, text);
    free(text);
}

static void put_time(struct keeping *g, const struct ts_build *b, uint32_t m, int done)
{
    const struct ts_time_bin *bin = ts_table_mode_bin(b->table, m);
    char width[TS_TIME_WIDTH];
    ts_time_bin_width(bin, width);
    put(g, TS_KEPT_BIN, m, width);
    if (done || !ts_table_mode_open(b->table, m))
        put(g, TS_KEPT_TIME_UNIT, m, ts_time_unit_name(bin->rule.unit));
    if (done)
        put_u64(g, TS_KEPT_FIRST_BIN, m, b->shift[m]);
}

static void put_table(struct keeping *g, const struct ts_build *b, int done)
{
    const struct ts_table *t = b->table;
    const struct ts_table_plan *p = b->o->table;
    const char separator[2] = { ts_table_separator(t), '\0' };
    put(g, TS_KEPT_HEADER, 0, ts_table_has_header(t) ? "yes" : "no");
    if (!ts_table_has_header(t))
        put_u64(g, TS_KEPT_WIDTH, 0, ts_table_width(t));
    put(g, TS_KEPT_SEPARATOR, 0, separator);
    put(g, TS_KEPT_QUOTE, 0, p->no_quotes ? "none" : "double");
    put(g, TS_KEPT_DECIMAL, 0, p->decimal_comma ? "," : ".");
    put(g, TS_KEPT_NAMES, 0, b->o->sorted_names ? "sorted" : "seen");
    put_column(g, b, TS_KEPT_VALUE, 0, TS_TABLE_OF_VALUES);
    put_column(g, b, TS_KEPT_WEIGHTS, 0, TS_TABLE_OF_WEIGHTS);
    for (uint32_t m = 0; m < b->order; m++) {
        const enum ts_table_field field = ts_table_mode_field(t, m);
        put_column(g, b, TS_KEPT_COLUMN, m, m);
        if (done || field == TS_TABLE_TIME || !ts_table_mode_open(t, m))
            put(g, TS_KEPT_FIELD, m,
                field == TS_TABLE_TIME           ? "time"
                : field == TS_TABLE_NUMBER       ? "number"
                : ts_table_mode_whole(t, m) != 0 ? "digits"
                                                 : "name");
        if (field == TS_TABLE_TIME)
            put_time(g, b, m, done);
    }
}

/* Stores the options in o->told, with which a program describes the table that its arrays come
 * from. */
static void put_told(struct keeping *g, const struct ts_build *b)
{
    for (uint32_t i = 0; i < b->o->n_told && g->rc == 0; i++) {
        const char *told = b->o->told[i], *equals = strchr(told, '=');
        const size_t n = strcspn(told, ".=");
        const uint32_t mode = told[n] == '.' ? (uint32_t)strtoul(told + n + 1, NULL, 10) : 1;
        uint32_t id = 0;
        while (id < TS_N_KEPT && (strlen(ts_kept_key((enum ts_kept_id)id)) != n ||
                                  strncmp(ts_kept_key((enum ts_kept_id)id), told, n) != 0))
            id++;
        if (id == TS_N_KEPT || equals == NULL || mode < 1 || mode > b->order ||
            ts_kept_of_mode((enum ts_kept_id)id) != (told[n] == '.'))
            g->rc = ts_fail(g->err, TS_EARG, "'%.200s' is no option of a build and its text", told);
        else
            put(g, (enum ts_kept_id)id, mode - 1, equals + 1);
    }
}

/* Stores the names of all modes, and the sizes and labels of modes whose fields are numbers. */
static void put_modes(struct keeping *g, const struct ts_build *b, int done)
{
    const char *name[TS_MAX_ORDER + 1];
    ts_build_mode_names(b, name);
    for (uint32_t m = 0; m < b->order; m++) {
        const struct ts_disk_mode *disk = &b->mode[m];
        char map[64];
        if (name[m] != NULL && *name[m] != '\0')
            put(g, TS_KEPT_MODE_NAME, m, name[m]);
        if (b->table != NULL && ts_table_mode_field(b->table, m) != TS_TABLE_NUMBER)
            continue;
        if (b->table == NULL)
            put(g, TS_KEPT_FIELD, m, "number"); /* put_told may replace this text */
        if (b->o->n_dims > 0)
            put_u64(g, TS_KEPT_SIZE, m, b->o->dim[m]);
        else
            put(g, TS_KEPT_SIZE, m, "none");
        snprintf(map, sizeof map, "%" PRIu64 " %016" PRIx64, disk->n_labels, disk->labels_hash);
        if (done || b->o->map[m] == NULL)
            put(g, TS_KEPT_MAP, m, disk->labels_bytes > 0 ? map : "none");
    }
}

/* Copies the options of the tensor that this one is made from. Returns 0, without a copy, if this
 * build adds up cells whose values were transformed: no options of a build from files would give
 * these sums. */
static int copy_kept(const struct ts_build *b, struct ts_kept *ret, struct ts_err *err)
{
    struct ts_kept from;
    int rc = ts_kept_read(b->kept_from != NULL ? b->kept_from : b->from, &from, err);
    if (rc <= 0)
        return rc;
    /* from.unknown: an option that only a newer version knows, so it cannot be copied */
    if (from.unknown != NULL ||
        (b->order < b->from->order && from.text[TS_KEPT_TRANSFORM][0] != NULL &&
         strcmp(from.text[TS_KEPT_TRANSFORM][0], "none") != 0 &&
         strncmp(from.text[TS_KEPT_TRANSFORM][0], "scale=", 6) != 0))
        rc = 0;
    else
        rc = ts_kept_copy(&from, b->order, b->from_mode, ret, err);
    ts_kept_free(&from);
    return rc < 0 ? rc : ret->order > 0;
}

int ts_build_kept(const struct ts_build *b, int done, struct ts_kept *ret, struct ts_err *err)
{
    struct keeping g = { .k = ret, .err = err };
    memset(ret, 0, sizeof *ret);
    if (b->o->keeps_nothing)
        return 0;
    if (b->from != NULL)
        return copy_kept(b, ret, err);
    ret->order = b->order;
    put_common(&g, b);
    if (b->table != NULL)
        put_table(&g, b, done);
    else if (b->source != NULL && strcmp(b->source, ts_text_tns.name) == 0)
        put_list(&g, b);
    put_modes(&g, b, done);
    put_told(&g, b);
    if (g.rc < 0 || g.nothing)
        ts_kept_free(ret);
    return g.rc < 0 ? g.rc : !g.nothing;
}

/* Compares the options of this build, *k, with o->like. Fails if `found` is 0: the options of this
 * build could not be written as text. */
static int compare(const struct ts_build *b, const struct ts_kept *k, int found, struct ts_err *err)
{
    if (b->o->like == NULL)
        return 0;
    if (!found)
        return ts_fail(err, TS_EARG,
                       "%s: columns of the input have no name, or the same one, so they cannot be "
                       "matched with those of the tensor",
                       b->o->like_path);
    return ts_kept_check(b->o->like_path, b->o->like, k, err);
}

int ts_build_kept_check(const struct ts_build *b, struct ts_err *err)
{
    struct ts_kept k;
    int rc;
    if (b->o->like == NULL)
        return 0;
    rc = ts_build_kept(b, 0, &k, err);
    if (rc >= 0)
        rc = compare(b, &k, rc, err);
    ts_kept_free(&k);
    return rc;
}

int ts_build_kept_file(const struct ts_build *b, uint64_t index_hash, struct ts_err *err)
{
    struct ts_kept k;
    void *bytes = NULL;
    size_t n = 0;
    const int found = ts_build_kept(b, 1, &k, err);
    int rc = found < 0 ? found : compare(b, &k, found, err);
    if (rc == 0 && found)
        rc = ts_kept_make(&k, index_hash, &bytes, &n, err);
    if (rc == 0 && found)
        rc = ts_build_dir_write(b->dir, TS_KEPT_NAME, bytes, n, err);
    b->report->options_bytes = n;
    free(bytes);
    ts_kept_free(&k);
    return rc;
}
