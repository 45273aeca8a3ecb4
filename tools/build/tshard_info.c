/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard info: prints the contents of a tensor directory from its index alone. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/build/segments_report.h"
#include "tools/common/array_opts.h"
#include "tools/common/common_opts.h"
#include "tools/common/tool.h"
#include "tools/common/tool_term.h"
#include "tools/tshard.h"
#include "tools/tstream_operand.h"

struct info_args {
    int json, quiet;
    struct array_opts array;
};

#define AT(field) offsetof(struct info_args, field)
static const struct ts_opt info_opts[] = {
    ARRAY_OPTS(AT(array)),
    TOOL_QUIET_OPT(AT(quiet)),
    TOOL_JSON_OPT(AT(json)),
    { 0 },
};

static const char *const kind_names[] = { "constant", "integers", "dictionary", "float32",
                                          "float64" };

/* Returns the bytes of a nonzero in coordinate form: an index of 4 or 8 bytes per mode, and the
 * value. */
static uint32_t coo_bytes(const struct ts_tensor *t)
{
    uint32_t bytes = t->header.value_bytes;
    for (uint32_t m = 0; m < t->order; m++)
        bytes += ts_dim(t, m) <= UINT64_C(1) << 32 ? 4 : 8;
    return bytes;
}

static double density(const struct ts_tensor *t)
{
    double share = (double)t->nnz;
    for (uint32_t m = 0; m < t->order; m++)
        share /= (double)ts_dim(t, m);
    return share;
}

static uint64_t directory_bytes(const struct ts_tensor *t)
{
    uint64_t bytes = t->header.index_bytes;
    for (uint32_t m = 0; m < t->order; m++)
        bytes += t->mode[m].disk.shards_bytes + t->mode[m].disk.rows_bytes +
                 t->mode[m].disk.labels_bytes;
    return bytes;
}

/* Prints, as JSON, the values of the file `options` for the tensor, or for a mode if of_mode is
 * set; null if the file does not exist. */
static void json_kept(struct tool_json *j, const struct ts_kept *k, int of_mode, uint32_t mode)
{
    if (k->order == 0) {
        tool_json_str(j, "built_with", NULL);
        return;
    }
    tool_json_object(j, "built_with");
    for (int i = 0; i < TS_N_KEPT; i++)
        if (ts_kept_of_mode((enum ts_kept_id)i) == of_mode)
            tool_json_str(j, ts_kept_key((enum ts_kept_id)i), k->text[i][mode]);
    tool_json_close(j);
}

static void json_mode(struct tool_json *j, const struct ts_tensor *t, uint32_t mode,
                      const struct ts_kept *k)
{
    const struct ts_disk_mode *d = &t->mode[mode].disk;
    tool_json_object(j, NULL);
    tool_json_u64(j, "mode", mode + 1);
    tool_json_str(j, "name", ts_name(t, mode));
    tool_json_u64(j, "size", d->dim);
    tool_json_u64(j, "slices_used", d->n_rows);
    tool_json_u64(j, "largest_slice", d->largest_slice);
    tool_json_u64(j, "shards", d->n_shards);
    tool_json_u64(j, "shards_bytes", d->shards_bytes);
    tool_json_u64(j, "rows_bytes", d->rows_bytes);
    tool_json_u64(j, "labels", d->n_labels);
    tool_json_f64(j, "bytes_per_nnz", ts_tensor_bytes_per_nnz(t, mode));
    tool_json_array(j, "sorted_by");
    for (uint32_t l = 0; l < t->order; l++)
        tool_json_u64(j, NULL, d->level[l] + 1u);
    tool_json_close(j);
    json_kept(j, k, 1, mode);
    tool_json_close(j);
}

/* Prints the checksums of the file `sums` as JSON, or null if it does not exist. Only tshard
 * verify checks them. */
static void json_sums(struct tool_json *j, const struct ts_tensor *t)
{
    char text[TS_CELL_SUM_CHARS];
    struct ts_tensor_sums s;
    struct ts_err err;
    const int found = ts_tensor_sums_read(t, &s, &err) > 0;
    tool_json_str(j, "record_sum", found ? ts_cell_sum_text(&s.records, text) : NULL);
    tool_json_str(j, "cell_sum", found ? ts_cell_sum_text(&s.cells, text) : NULL);
}

static void print_json(const struct ts_tensor *t)
{
    struct tool_json j;
    struct ts_kept kept;
    struct ts_err err;
    (void)ts_kept_read(t, &kept, &err); /* tshard verify reports errors in this file */
    tool_json_open(&j, stdout);
    tool_json_str(&j, "tensor", t->path);
    tool_json_u64(&j, "format_version", t->header.version);
    tool_json_u64(&j, "order", t->order);
    tool_json_array(&j, "shape");
    for (uint32_t m = 0; m < t->order; m++)
        tool_json_u64(&j, NULL, ts_dim(t, m));
    tool_json_close(&j);
    tool_json_u64(&j, "nnz", t->nnz);
    tool_json_u64(&j, "part", t->part.n > 0 ? t->part.part : 1);
    tool_json_u64(&j, "parts", t->part.n > 0 ? t->part.n : 1);
    tool_json_f64(&j, "density", density(t));
    tool_json_f64(&j, "norm", ts_norm(t));
    tool_json_str(&j, "values", kind_names[t->header.value_kind]);
    tool_json_u64(&j, "value_bytes", t->header.value_bytes);
    tool_json_f64(&j, "value_min", t->header.value_min);
    tool_json_f64(&j, "value_max", t->header.value_max);
    tool_json_f64(&j, "value_bits", t->header.value_bits);
    tool_json_bool(&j, "value_bits_estimated",
                   (t->header.flags & TS_TENSOR_VALUE_BITS_ESTIMATED) != 0);
    tool_json_f64(&j, "entropy_bound", ts_tensor_entropy_bound(t));
    tool_json_u64(&j, "coo_bytes_per_nnz", coo_bytes(t));
    tool_json_u64(&j, "bytes", directory_bytes(t));
    tool_json_u64(&j, "input_nnz", t->header.input_nnz);
    tool_json_u64(&j, "duplicates_merged", t->header.n_duplicates);
    tool_json_u64(&j, "zeros_dropped", t->header.n_zeros);
    tool_json_bool(&j, "has_duplicates", (t->header.flags & TS_TENSOR_DUPLICATES) != 0);
    tool_json_bool(&j, "keeps_zeros", (t->header.flags & TS_TENSOR_ZEROS) != 0);
    tool_json_bool(&j, "has_weights", ts_tensor_weighted(t));
    json_sums(&j, t);
    json_kept(&j, &kept, 0, 0);
    tool_json_array(&j, "modes");
    for (uint32_t m = 0; m < t->order; m++)
        json_mode(&j, t, m, &kept);
    tool_json_close(&j);
    tool_json_close(&j);
    ts_kept_free(&kept);
}

/* Formats a value in the way in which tshard export writes it. */
static const char *value_text(const struct ts_tensor *t, double value, char *text)
{
    *(t->header.value_bytes == 4 ? ts_decimal_f32(text, (float)value)
                                 : ts_decimal_f64(text, value)) = '\0';
    return text;
}

static void put_values(struct tool_words *w, const struct ts_tensor *t)
{
    const struct ts_disk_header *h = &t->header;
    char a[TS_DECIMAL_CHARS + 1], b[TS_DECIMAL_CHARS + 1], text[4 * TS_DECIMAL_CHARS];
    const char *weights = ts_tensor_weighted(t) ? ", each with a weight" : "";
    tool_words_start(w, "  values");
    switch (h->value_kind) {
    case TS_VALUE_CONST:
        tool_words_putf(w, "all %s%s", value_text(t, h->value_base, a), weights);
        return;
    case TS_VALUE_DICT:
        tool_words_putf(w, "%s different ones,", ts_num_count(text, h->n_dict));
        break;
    default:
        tool_words_putf(w, "%s,", kind_names[h->value_kind]);
    }
    tool_words_putf(w, "%s to %s, entropy %s%.2f bits%s", value_text(t, h->value_min, a),
                    value_text(t, h->value_max, b),
                    (h->flags & TS_TENSOR_VALUE_BITS_ESTIMATED) != 0 ? "about " : "", h->value_bits,
                    weights);
}

/* The default values of the options of tshard build, as the file `options` has them. */
static const char *const usual[TS_N_KEPT] = {
    [TS_KEPT_BASE] = "1",         [TS_KEPT_VALUES] = "float32", [TS_KEPT_TRANSFORM] = "none",
    [TS_KEPT_DUPLICATES] = "sum", [TS_KEPT_ZEROS] = "drop",     [TS_KEPT_MISSING] = "error",
    [TS_KEPT_PARTIAL_MAP] = "no", [TS_KEPT_QUOTE] = "double",   [TS_KEPT_DECIMAL] = ".",
    [TS_KEPT_NAMES] = "seen",     [TS_KEPT_WEIGHTS] = "none",   [TS_KEPT_SEPARATOR] = ",",
    [TS_KEPT_FIELD] = "number",   [TS_KEPT_SIZE] = "none",
};

/* Whether the value of a build option is not the default and is not printed elsewhere on the
 * page. */
static int is_told(const struct ts_kept *k, enum ts_kept_id id, uint32_t m)
{
    const char *text = k->text[id][m], *name = k->text[TS_KEPT_MODE_NAME][m];
    char number[16];
    snprintf(number, sizeof number, "%u", m + 1);
    if (text == NULL || id == TS_KEPT_MODE_NAME || id == TS_KEPT_FIRST_BIN || id == TS_KEPT_MAP ||
        id == TS_KEPT_HEADER || id == TS_KEPT_TEXT_BASE || id == TS_KEPT_WIDTH)
        return 0;
    if (id == TS_KEPT_COLUMN)
        return strcmp(text, number) != 0 && (name == NULL || strcmp(text, name) != 0);
    return usual[id] == NULL || strcmp(text, usual[id]) != 0;
}

/* Prints the kind of the input, and the build options that are not defaults. */
static void put_kept(struct tool_words *w, const struct ts_tensor *t)
{
    struct ts_kept k;
    struct ts_err err;
    char *all = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&all, &n);
    const int found = ts_kept_read(t, &k, &err) > 0 && f != NULL;
    for (int i = 0; i < TS_N_KEPT && found; i++)
        for (uint32_t m = 0; m < ts_kept_count(&k, (enum ts_kept_id)i); m++) {
            const enum ts_kept_id id = (enum ts_kept_id)i;
            const char *text = k.text[id][m];
            if (!is_told(&k, id, m))
                continue;
            text = strcmp(text, "\t") == 0 ? "tab" : strcmp(text, " ") == 0 ? "blank" : text;
            if (id != TS_KEPT_SOURCE)
                fprintf(f, ", %s ", ts_kept_key(id));
            if (ts_kept_of_mode(id))
                fprintf(f, "of mode %u ", m + 1);
            fprintf(f, "%s", text);
        }
    if (f != NULL && fclose(f) == 0 && found) {
        tool_words_start(w, "  built from");
        tool_words_put(w, all);
    }
    free(all);
    ts_kept_free(&k);
}

static void print_head(const struct ts_tensor *t)
{
    const struct ts_disk_header *h = &t->header;
    const double bound = ts_tensor_entropy_bound(t);
    struct tool_words w = { .indent = 14, .columns = tool_columns() };
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], c[TS_NUM_CHARS], path[4096];
    printf("%s\n", tool_plain(t->path, path, sizeof path));
    if (t->part.n > 0)
        printf("part %" PRIu32 " of %" PRIu32 " of the tensor that is told of here\n", t->part.part,
               t->part.n);
    tool_words_start(&w, "  shape");
    for (uint32_t m = 0; m < t->order; m++)
        tool_words_putf(&w, "%s%s", ts_num_count(a, ts_dim(t, m)), m + 1 < t->order ? " x" : "");
    tool_words_start(&w, "  nonzeros");
    tool_words_putf(&w, "%s, density %.3g", ts_num_count(a, t->nnz), density(t));
    tool_words_start(&w, "  norm");
    if (isnan(ts_norm(t)))
        tool_words_putf(&w, "unknown: cells hold several nonzeros, and not all are here");
    else
        tool_words_putf(&w, "%.9g", ts_norm(t));
    put_values(&w, t);
    tool_words_start(&w, "  input");
    tool_words_putf(&w, "%s nonzero%s: %s duplicate%s merged, %s zero%s dropped%s%s",
                    ts_num_count(a, h->input_nnz), tool_plural(h->input_nnz),
                    ts_num_count(b, h->n_duplicates), tool_plural(h->n_duplicates),
                    ts_num_count(c, h->n_zeros), tool_plural(h->n_zeros),
                    (h->flags & TS_TENSOR_DUPLICATES) != 0 ? ", other duplicates kept" : "",
                    (h->flags & TS_TENSOR_ZEROS) != 0 ? ", cells of value 0 kept" : "");
    put_kept(&w, t);
    tool_words_start(&w, "  bytes/nnz");
    tool_words_putf(&w, "%.3f at least for random cells, %u as coordinates (COO)", bound,
                    coo_bytes(t));
    tool_words_start(&w, "  on disk");
    tool_words_putf(&w, "%s in all copies", ts_num_bytes(a, directory_bytes(t)));
    tool_words_end(&w);
    printf("\n");
}

/* ---- the table of modes ---- */

enum { MODE, NAME, SIZE, USED, LARGEST, SHARDS, BYTES, BOUND, COO, LABELS, N_COLUMNS };
/* text of a cell of the table; longer names are cut off */
typedef char cells[N_COLUMNS][TS_NUM_CHARS];

static void fill_row(const struct ts_tensor *t, uint32_t m, double bound, double coo, cells cell)
{
    const struct ts_disk_mode *d = &t->mode[m].disk;
    const double per = ts_tensor_bytes_per_nnz(t, m);
    snprintf(cell[MODE], TS_NUM_CHARS, "%" PRIu32, m + 1);
    if (ts_name(t, m) != NULL)
        tool_plain(ts_name(t, m), cell[NAME], TS_NUM_CHARS);
    ts_num_count(cell[SIZE], d->dim);
    ts_num_count(cell[USED], d->n_rows);
    ts_num_count(cell[LARGEST], d->largest_slice);
    ts_num_count(cell[SHARDS], d->n_shards);
    snprintf(cell[BYTES], TS_NUM_CHARS, "%.3f", per);
    snprintf(cell[BOUND], TS_NUM_CHARS, "%.2f", bound > 0 ? per / bound : 0.0);
    snprintf(cell[COO], TS_NUM_CHARS, "%.0f%%", 100 * per / coo);
    if (d->n_labels > 0)
        ts_num_count(cell[LABELS], d->n_labels);
    else
        strcpy(cell[LABELS], "-");
}

static void fill_mean(const struct ts_tensor *t, double bound, double coo, cells cell)
{
    double mean = 0;
    for (uint32_t m = 0; m < t->order; m++)
        mean += ts_tensor_bytes_per_nnz(t, m) / t->order;
    strcpy(cell[MODE], "mean");
    snprintf(cell[BYTES], TS_NUM_CHARS, "%.3f", mean);
    snprintf(cell[BOUND], TS_NUM_CHARS, "%.2f", bound > 0 ? mean / bound : 0.0);
    snprintf(cell[COO], TS_NUM_CHARS, "%.0f%%", 100 * mean / coo);
}

static void print_table(const struct ts_tensor *t)
{
    struct tool_column column[N_COLUMNS] = {
        [MODE] = { .name = "mode", .width = 6 },
        [NAME] = { .name = "name", .left = 1 },
        [SIZE] = { .name = "size" },
        [USED] = { .name = "slices used" },
        [LARGEST] = { .name = "largest slice", .drop = 1 },
        [SHARDS] = { .name = "shards" },
        [BYTES] = { .name = "bytes/nnz" },
        [BOUND] = { .name = "/ random", .drop = 3 },
        [COO] = { .name = "/ COO", .drop = 2 },
        [LABELS] = { .name = "labels" },
    };
    const double bound = ts_tensor_entropy_bound(t), coo = coo_bytes(t);
    cells row[TS_MAX_ORDER + 1] = { 0 };
    uint32_t shown, named = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        fill_row(t, m, bound, coo, row[m]);
        named |= row[m][NAME][0] != '\0';
    }
    fill_mean(t, bound, coo, row[t->order]);
    for (uint32_t m = 0; m < t->order; m++)
        for (uint32_t c = 0; c < N_COLUMNS; c++)
            if (column[c].width < tool_width(row[m][c]))
                column[c].width = tool_width(row[m][c]);
    if (!named) {
        column[NAME].name = "";
        column[NAME].drop = 9;
    }
    shown = tool_table_spread(column, N_COLUMNS, tool_columns());
    shown &= named ? UINT32_MAX : ~(UINT32_C(1) << NAME);
    tool_table_head(column, N_COLUMNS, shown);
    for (uint32_t m = 0; m <= t->order; m++) {
        const char *cell[N_COLUMNS];
        for (uint32_t c = 0; c < N_COLUMNS; c++)
            cell[c] = row[m][c];
        tool_table_row(column, N_COLUMNS, shown, cell);
    }
}

/* ---- dense tensors, from the header of the file ---- */

static void print_dense(const struct ts_tensor *t)
{
    const struct ts_dense *d = t->dense;
    struct tool_words w = { .indent = 14, .columns = tool_columns() };
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], path[4096];
    printf("%s\n", tool_plain(t->path, path, sizeof path));
    tool_words_start(&w, "  shape");
    for (uint32_t m = 0; m < t->order; m++)
        tool_words_putf(&w, "%s%s", ts_num_count(a, ts_dim(t, m)), m + 1 < t->order ? " x" : "");
    tool_words_start(&w, "  cells");
    tool_words_putf(&w, "%s: %s%s, in %s order", ts_num_count(a, d->cells),
                    ts_cell_name(d->array.type), d->array.swapped ? " of swapped bytes" : "",
                    d->array.fortran ? "Fortran" : "C");
    tool_words_start(&w, "  on disk");
    tool_words_putf(&w, "%s, read in slabs of %s", ts_num_bytes(a, d->cells * d->cell_bytes),
                    ts_num_bytes(b, ts_dense_most_bytes(d)));
    tool_words_end(&w);
}

static void json_dense(const struct ts_tensor *t)
{
    const struct ts_dense *d = t->dense;
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "tensor", t->path);
    tool_json_u64(&j, "order", t->order);
    tool_json_array(&j, "shape");
    for (uint32_t m = 0; m < t->order; m++)
        tool_json_u64(&j, NULL, ts_dim(t, m));
    tool_json_close(&j);
    tool_json_u64(&j, "nnz", t->nnz);
    tool_json_str(&j, "values", ts_cell_name(d->array.type));
    tool_json_u64(&j, "value_bytes", d->cell_bytes);
    tool_json_u64(&j, "bytes", d->cells * d->cell_bytes);
    tool_json_bool(&j, "fortran_order", d->array.fortran);
    tool_json_u64(&j, "slab_bytes", ts_dense_most_bytes(d));
    tool_json_close(&j);
}

static int open_any(const char *name, struct ts_tensor **ret, struct ts_err *err)
{
    char *path = tool_operand(name, ".tsh");
    const int rc = path == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", name)
                                : ts_tensor_open_any(path, ret, err);
    free(path);
    return rc;
}

static int run_info(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct info_args args;
    struct ts_tensor *t;
    struct ts_err err;
    char *operand[argc + 1], *only = NULL, *name = NULL, *segmented;
    uint32_t n_operands;
    int rc;
    const int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status >= 0)
        return status;
    if (n_operands == 0 && tstream_operand(NULL, ".tsh", "tensor", &only, &err) < 0)
        return tool_fail(cmd, &err);
    rc = array_opts_name(&args.array, only != NULL ? only : operand[0], &name, &err);
    free(only);
    if (rc < 0)
        return tool_usage(cmd, "%s", err.text);
    segmented = tshard_segmented(name);
    if (segmented != NULL) {
        rc = segments_info(segmented, args.json, &err);
        free(segmented);
        free(name);
        return rc < 0 ? tool_fail(cmd, &err) : 0;
    }
    rc = open_any(name, &t, &err);
    free(name);
    if (rc < 0)
        return tool_fail(cmd, &err);
    if (t->dense != NULL) {
        (args.json ? json_dense : print_dense)(t);
    } else if (args.json) {
        print_json(t);
    } else {
        print_head(t);
        print_table(t);
    }
    ts_tensor_close(t);
    return tool_flushed(&err) < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_info_cmd = {
    .program = "tshard",
    .name = "info",
    .operands = "[TENSOR.tsh]",
    .max_operands = 1,
    .summary = "print shape, counts and bytes per nonzero of a tensor",
    .text =
        "Prints the index of a tensor directory, without reading a shard. For a dense tensor "
        "(tstream cp --help) it prints what is known without reading cells; only text is "
        "read. Without TENSOR.tsh it takes the only .tsh in the current directory.\n\n"
        "'built from' is the kind of the input, and what is not the default of the rules by which "
        "a line became a cell and a value.\n\n"
        "bytes/nnz of a mode counts its copy of the nonzeros, the list of its used slices and "
        "its share of the index. Two figures stand beside it. The first is (log2 C(cells, nnz) + nnz "
        "* entropy of the values) / (8 nnz). No packing can be smaller if nonzeros lie at random. "
        "Nonzeros in clusters take less. Coordinate form has an index of 4 bytes for each mode (8 for "
        "modes above 2^32) and the value.",
    .examples = "tshard info amazon.tsh\n  print a table of the modes\n"
                "tshard info --json amazon.tsh\n  print the same and more, for programs\n",
    .opts = info_opts,
    .run = run_info,
};
