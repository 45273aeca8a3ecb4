/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard build: builds a tensor, a .tsh directory, from files. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/build/build_opts.h"
#include "tools/build/build_report.h"
#include "tools/build/plan_ahead.h"
#include "tools/build/build_notes.h"
#include "tools/build/build_input.h"
#include "tools/common/tool.h"
#include "tools/common/tool_ranks.h"
#include "tools/common/tool_version.h"
#include "tools/tshard.h"

enum { BASE_AUTO, BASE_0, BASE_1 };

#define COPIES (2 + 2 * TS_MAX_ORDER) /* most copied strings to which the plan of a table points */
enum { FORMAT_AUTO, FORMAT_LIST, FORMAT_CSV, FORMAT_TSV, FORMAT_TABLE };

struct build_args {
    const char *out, *dims, *modes, *columns, *value, *weights, *text, *separator, *transform;
    int base, duplicates, zeros, format, header, names, partial_map, missing, quote, decimal;
    int repeat; /* tshard append: --repeat was given */
    const char *compact_at;
    struct ts_opt_list map, bin, time_unit;
    struct build_opts build;
    /* number of nonzeros and free disk space, for a plan without files (plan_ahead.h) */
    uint64_t ahead_nnz, ahead_disk;
};

#define AT(field) offsetof(struct build_args, field)
#define ROW(section, name, letter, type, member, ...) \
    { name, letter, TS_OPT_##type, AT(member), __VA_ARGS__ },
const struct ts_opt tshard_build_opts[] = {
#include "tools/build/tshard_build.def"
    BUILD_OPTS(AT(build)),
    { 0 },
};

#define ROW(section, name, letter, type, member, ...) \
    { name, letter, TS_OPT_##type, AT(member), __VA_ARGS__ },
const struct ts_opt tshard_plan_opts[] = {
#include "tools/build/tshard_build.def"
    BUILD_OPTS(AT(build)),
    { "nnz", 'n', TS_OPT_U64, AT(ahead_nnz), "0", "N",
      "without files: number of nonzeros of a tensor that does not exist yet, such as 5G. Its "
      "sizes are --dims" },
    { "disk", 0, TS_OPT_SIZE, AT(ahead_disk), "0", "SIZE",
      "with --nnz: free space of the disk that the tensor is for" },
    { 0 },
};

enum { INPUT, TABLES, CELLS, OUTPUT, ROOM };
const char *const tshard_build_headings[] = {
    [INPUT] = "Input",          [TABLES] = "Tables (csv, tsv, table)",
    [CELLS] = "Cells",          [OUTPUT] = "Output",
    [ROOM] = "Memory and disk", NULL,
};

#define ROW(section, ...) section,
const unsigned char tshard_build_section[] = {
#include "tools/build/tshard_build.def"
    BUILD_SECTIONS(OUTPUT, ROOM),
    INPUT, /* options of tshard plan alone */
    ROOM,
};
_Static_assert(sizeof tshard_build_section + 1 ==
                   sizeof tshard_plan_opts / sizeof *tshard_plan_opts,
               "each option is in a section");

const struct ts_opt tshard_append_opts[] = {
#define ROW(section, name, letter, type, member, ...) \
    { name, letter, TS_OPT_##type, AT(member), __VA_ARGS__ },
#include "tools/build/tshard_append.def"
#undef ROW
    BUILD_PLACE_OPTS(AT(build)),
    { 0 },
};

static const char *const packed_ends[] = { ".gz", ".zst", ".xz", ".bz2" };

/* Returns the file name without an ending such as .gz, malloc'ed. */
static char *stem_packed(const char *path)
{
    char *s = strdup(path), *dot = s == NULL ? NULL : strrchr(s, '.');
    for (size_t i = 0; dot != NULL && i < sizeof packed_ends / sizeof *packed_ends; i++)
        if (strcmp(dot, packed_ends[i]) == 0) {
            *dot = '\0';
            break;
        }
    return s;
}

/* "dir/amazon.tns.gz" -> "amazon", or "dir/amazon" if with_dir is set; malloc'ed. */
static char *stem_of(const char *path, int with_dir)
{
    const char *slash = strrchr(path, '/');
    char *s = strdup(!with_dir && slash != NULL ? slash + 1 : path), *name, *dot;
    if (s == NULL)
        return NULL;
    name = strrchr(s, '/') == NULL ? s : strrchr(s, '/') + 1;
    dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && dot > name && i < sizeof packed_ends / sizeof *packed_ends;
         i++)
        if (strcmp(dot, packed_ends[i]) == 0) {
            *dot = '\0';
            dot = strrchr(name, '.');
            break;
        }
    if (dot != NULL && dot > name &&
        (ts_text_kind_has_ending(dot) || strcmp(dot, ".bin") == 0 || strcmp(dot, ".sptn") == 0))
        *dot = '\0';
    return s;
}

/* Returns the default name of the result, malloc'ed: in the current directory, not the input's. */
static char *default_out(const char *path, struct ts_err *err)
{
    char *stem, *out = NULL;
    if (strcmp(path, "-") == 0) {
        ts_fail(err, TS_EARG, "standard input has no name: -o NAME.tsh is needed");
        return NULL;
    }
    stem = stem_of(path, 0);
    if (stem == NULL || asprintf(&out, "%s.tsh", stem) < 0)
        ts_fail(err, TS_ENOMEM, "out of memory");
    free(stem);
    return out;
}

/* Looks for map files beside the input, for modes without --map. Fails if one exists but cannot be
 * read: otherwise names would be missing silently. */
static int find_beside(const char *path, struct ts_build_options *o, char *found[TS_MAX_ORDER],
                       struct ts_err *err)
{
    const int has_stem = strcmp(path, "-") != 0;
    char *stem = has_stem ? stem_of(path, 1) : NULL;
    if (has_stem && stem == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    for (unsigned m = 0; m < TS_MAX_ORDER && stem != NULL; m++) {
        static const char *const ends[] = { "", ".gz", ".zst", ".xz", ".bz2" };
        if (o->map[m] != NULL)
            continue;
        for (unsigned e = 0; e < sizeof ends / sizeof *ends && found[m] == NULL; e++) {
            if (asprintf(&found[m], "%s.mode%u.map%s", stem, m + 1, ends[e]) < 0) {
                found[m] = NULL;
                free(stem);
                return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
            }
            if (access(found[m], R_OK) == 0)
                continue;
            if (errno != ENOENT && errno != ENOTDIR) {
                free(stem);
                return ts_fail_errno(err, TS_EIO,
                                     "%s: cannot be read (--map %u=FILE takes other names, or "
                                     "/dev/null for none)",
                                     found[m], m + 1);
            }
            free(found[m]);
            found[m] = NULL;
        }
        o->map[m] = found[m];
    }
    free(stem);
    return 0;
}

/* Notes that map files beside appended input are not read: the tensor's labels are used. */
static void note_maps(const struct ts_cmd *cmd, char *const *path, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct ts_build_options none = { 0 };
        char *found[TS_MAX_ORDER] = { 0 };
        (void)find_beside(path[i], &none, found, NULL);
        for (unsigned m = 0; m < TS_MAX_ORDER; m++) {
            if (found[m] != NULL)
                tool_note(cmd,
                          "%s: is not read: an index of mode %u means what it means in the tensor, "
                          "and gets the label that it has there",
                          found[m], m + 1);
            free(found[m]);
        }
    }
}

/* Sets the map files (names of indices) of --map, else those beside the input. Free found[]. */
static int find_maps(const struct build_args *a, const char *path, struct ts_build_options *o,
                     char *found[TS_MAX_ORDER], struct ts_err *err)
{
    for (uint32_t i = 0; i < a->map.n; i++) {
        const char *text = a->map.item[i];
        char *end;
        const long k = strtol(text, &end, 10);
        if (*end != '=' || end[1] == '\0' || k < 1 || k > (long)TS_MAX_ORDER)
            return ts_fail(err, TS_EARG, "--map %s: expected K=FILE with a mode K from 1", text);
        o->map[k - 1] = end + 1;
        o->min_order = (uint32_t)k > o->min_order ? (uint32_t)k : o->min_order;
    }
    return find_beside(path, o, found, err);
}

/* Splits "user,item,week" into names at the commas. name[] points to the names in *copy, which the
 * caller frees. */
static int split_names(const char *option, const char *text, char **copy, const char *name[],
                       uint32_t *n, struct ts_err *err)
{
    *n = 0;
    *copy = strdup(text);
    if (*copy == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    for (char *at = *copy, *end; at != NULL; at = end) {
        end = strchr(at, ',');
        if (end != NULL)
            *end++ = '\0';
        if (*n == TS_MAX_ORDER)
            return ts_fail(err, TS_EARG, "--%s: more than %u names", option, TS_MAX_ORDER);
        if (*at == '\0' || strlen(at) > TS_MODE_NAME_MAX)
            return ts_fail(err, TS_EARG, "--%s: a name must have 1 to %u bytes", option,
                           TS_MODE_NAME_MAX);
        name[(*n)++] = at;
    }
    return 0;
}

/* Fails for operands that are no input of a build, such as tensors, and says what may have been
 * meant. */
static int check_operands(const struct ts_cmd *cmd, char *const *operand, uint32_t n,
                          struct ts_err *err)
{
    uint32_t n_standard = 0;
    for (uint32_t i = 0; i < n; i++) {
        const size_t chars = strlen(operand[i]);
        const int is_name = chars > 4 && strcmp(operand[i] + chars - 4, ".tsh") == 0;
        char index[4352];
        n_standard += strcmp(operand[i], "-") == 0;
        if (n_standard > 1)
            return ts_fail(err, TS_EARG, "standard input (-) can be given once");
        snprintf(index, sizeof index, "%s/index", operand[i]);
        if (i > 0 && i + 1 == n && is_name)
            return ts_fail(err, TS_EARG,
                           "%s: operands are text that is read; the result is named by --output: "
                           "tshard %s %s%s -o %s",
                           operand[i], cmd->name, operand[0], n > 2 ? " ..." : "", operand[i]);
        if (access(index, F_OK) == 0)
            return ts_fail(err, TS_EARG,
                           "%s: is a tensor that is built already; tshard info tells about it, "
                           "tstream cp decomposes it",
                           operand[i]);
    }
    return 0;
}

/* Returns the separator of columns if the input is a table, otherwise '\0'. */
static char separator_of(const struct build_args *a, const char *path)
{
    static const char *const ends[] = { ".csv", ".tsv", ".tab" };
    char *stem = stem_packed(path), separator = '\0';
    const size_t n = stem == NULL ? 0 : strlen(stem);
    for (size_t i = 0; i < 3 && a->format == FORMAT_AUTO && n > 4; i++)
        if (strcasecmp(stem + n - 4, ends[i]) == 0)
            separator = i == 0 ? ',' : '\t';
    free(stem);
    if (a->format == FORMAT_CSV || a->format == FORMAT_TSV || a->format == FORMAT_TABLE)
        separator = a->format == FORMAT_CSV ? ',' : a->format == FORMAT_TSV ? '\t' : ' ';
    if (separator == '\0' && a->format == FORMAT_AUTO &&
        (a->columns != NULL || a->value != NULL || a->weights != NULL || a->text != NULL ||
         a->bin.n > 0 || a->time_unit.n > 0 || a->header != 0 || a->quote || a->decimal))
        separator = ' ';
    if (a->separator != NULL)
        separator = strcmp(a->separator, "\\t") == 0 ? '\t' : a->separator[0];
    return separator;
}

/* Adds the values of --time-unit to the plan of a table. copy[] gets the names of modes, which the
 * caller frees. */
static int plan_units(const struct build_args *a, struct ts_table_plan *t, char *copy[],
                      struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < a->time_unit.n && rc == 0; i++) {
        const char *const item = a->time_unit.item[i], *const equals = strrchr(item, '=');
        if (equals == item || t->n_units == TS_MAX_ORDER)
            return ts_fail(err, TS_EARG, "--time-unit %s: expected UNIT or NAME=UNIT", item);
        rc = ts_time_unit_parse(equals == NULL ? item : equals + 1, &t->unit[t->n_units], err);
        if (equals != NULL) {
            copy[t->n_units] = strndup(item, (size_t)(equals - item));
            t->timed[t->n_units] = copy[t->n_units];
            if (copy[t->n_units] == NULL)
                return ts_fail(err, TS_ENOMEM, "out of memory");
        }
        t->n_units++;
    }
    return rc;
}

/* Sets the plan of a table (how its columns are read) from the options. copy[] gets strings that
 * the caller frees. */
static int plan_table(const struct build_args *a, const char *path, struct ts_build_options *o,
                      struct ts_table_plan *t, char *copy[], struct ts_err *err)
{
    uint32_t n_text = 0;
    int rc = 0;
    t->separator = separator_of(a, path);
    if (a->separator != NULL && strcmp(a->separator, "\\t") != 0 &&
        (strlen(a->separator) != 1 || strchr("\"\r\n", a->separator[0]) != NULL))
        return ts_fail(err, TS_EARG, "--separator must be one character, or \\t");
    if (t->separator == '\0') {
        if (a->columns != NULL || a->value != NULL || a->weights != NULL || a->text != NULL ||
            a->bin.n > 0 || a->time_unit.n > 0 || a->quote || a->decimal)
            return ts_fail(err, TS_EARG,
                           "--columns, --value, --weights, --text, --bin, --time-unit, --quote and "
                           "--decimal are of tables, and --format list is none");
        return 0;
    }
    if (a->weights != NULL && o->value_bytes == 8)
        return ts_fail(
            err, TS_EARG,
            "--weights and --values float64 cannot be given together: values with weights are "
            "float32");
    o->table = t;
    o->table_by_name = a->format == FORMAT_AUTO && a->separator == NULL && a->header == 0 &&
                       a->columns == NULL && a->value == NULL && a->weights == NULL &&
                       a->text == NULL && a->bin.n == 0 && a->time_unit.n == 0;
    o->sorted_names = a->names;
    t->header = a->header;
    t->no_quotes = a->quote;
    t->decimal_comma = a->decimal;
    t->value = a->value;
    t->weight = a->weights;
    o->weights = a->weights != NULL;
    t->n_modes = o->n_names;
    memcpy(t->mode, o->mode_name, sizeof t->mode);
    if (a->columns != NULL)
        rc = split_names("columns", a->columns, &copy[0], t->column, &t->n_columns, err);
    if (rc == 0 && a->text != NULL)
        rc = split_names("text", a->text, &copy[1], t->text, &n_text, err);
    t->n_text = n_text;
    for (uint32_t i = 0; i < a->bin.n && rc == 0; i++) {
        const char *equals = strrchr(a->bin.item[i], '=');
        if (equals == NULL || equals == a->bin.item[i] || t->n_bins == TS_MAX_ORDER)
            return ts_fail(err, TS_EARG, "--bin %s: expected NAME=WIDTH", a->bin.item[i]);
        rc = ts_time_bin_parse(equals + 1, &t->bin[t->n_bins], err);
        copy[2 + t->n_bins] = strndup(a->bin.item[i], (size_t)(equals - a->bin.item[i]));
        t->binned[t->n_bins] = copy[2 + t->n_bins];
        if (copy[2 + t->n_bins++] == NULL)
            rc = ts_fail(err, TS_ENOMEM, "out of memory");
    }
    return rc == 0 ? plan_units(a, t, &copy[2 + TS_MAX_ORDER], err) : rc;
}

/* Returns a bit for each row of format/kept.def whose option was given. */
static uint64_t kept_of(const struct ts_cmd *cmd, uint64_t given)
{
    uint64_t said = 0;
    for (uint32_t i = 0; cmd->opts[i].name != NULL; i++) {
        const int id = (given >> i & 1) != 0 ? ts_kept_by_option(cmd->opts[i].name) : -1;
        said |= id < 0 ? 0 : UINT64_C(1) << id;
    }
    return said;
}

/* Runs tshard build, plan or append. appends 1: the first operand is the tensor. */
static int run_command(const struct ts_cmd *cmd, int argc, char **argv, int appends,
                       tshard_build_fn *fn)
{
    struct build_args args = { 0 };
    struct ts_build_options o = { 0 };
    struct tool_progress progress;
    struct ts_err err = { 0 };
    char **operands = malloc((size_t)argc * sizeof *operands), *found[TS_MAX_ORDER] = { 0 };
    char *const *inputs = operands + appends;
    char *out = NULL, *names = NULL, *copy[COPIES] = { NULL };
    struct ts_table_plan table = { 0 };
    uint64_t given = 0;
    uint32_t n = 0;
    int rc = 0, status = 0;
    status = tool_parse(cmd, argc, argv, &args, &n, operands, &given);
    if (status >= 0) {
        free(operands);
        return status;
    }
    status = appends  ? -1
             : n == 0 ? plan_ahead(cmd, &args.build, args.dims, args.ahead_nnz, args.ahead_disk)
             : args.ahead_nnz > 0 || args.ahead_disk > 0
                 ? tool_usage(cmd, "--nnz and --disk are for a plan without files")
                 : -1;
    if (status >= 0) {
        free(operands);
        return status;
    }
    status = 0;
    o.base = args.base != BASE_0;
    o.base_said = args.base != BASE_AUTO;
    o.duplicates = args.duplicates;
    o.zeros = args.zeros;
    o.partial_map = args.partial_map;
    o.skip_missing = args.missing;
    n -= (uint32_t)appends;
    if (check_operands(cmd, inputs, n, &err) < 0) {
        free(operands);
        return tool_usage(cmd, "%s", err.text);
    }
    out = appends            ? tool_operand(operands[0], ".tsh")
          : args.out != NULL ? strdup(args.out)
                             : default_out(inputs[0], &err);
    o.out = out;
    rc = out == NULL && appends ? ts_fail(&err, TS_ENOMEM, "out of memory")
         : out == NULL ? (args.out != NULL ? ts_fail(&err, TS_ENOMEM, "out of memory") : err.code)
                       : build_opts_apply(&args.build, &o, &progress, &err);
    if (rc == 0 && args.dims != NULL) {
        rc = build_opts_dims(args.dims, o.dim, &err);
        o.n_dims = rc > 0 ? (uint32_t)rc : 0;
    }
    if (rc >= 0 && args.modes != NULL)
        rc = split_names("modes", args.modes, &names, o.mode_name, &o.n_names, &err);
    if (rc >= 0 && args.transform != NULL)
        rc = ts_transform_parse(args.transform, &o.transform, &err);
    if (rc >= 0)
        rc = plan_table(&args, inputs[0], &o, &table, copy, &err);
    if (rc >= 0 && !appends)
        rc = find_maps(&args, inputs[0], &o, found, &err);
    if (rc >= 0 && appends && !args.build.quiet)
        note_maps(cmd, inputs, n);
    if (rc == TS_ENOMEM) {
        status = tool_fail(cmd, &err);
    } else if (rc < 0) {
        status = rc == TS_EARG ? tool_usage(cmd, "%s", err.text) : tool_fail(cmd, &err);
    } else {
        const struct tshard_build_job job = { .args = &args,
                                              .o = &o,
                                              .n_paths = n,
                                              .paths = (const char *const *)inputs,
                                              .json = args.build.json,
                                              .quiet = args.build.quiet,
                                              .repeat = args.repeat,
                                              .plan = &table,
                                              .compact_at = args.compact_at,
                                              .said = kept_of(cmd, given),
                                              .progress = &progress };
        rc = fn(cmd, &job, &err);
        status = rc < 0 ? tool_fail(cmd, &err) : 0;
    }
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(found[m]);
    for (size_t i = 0; i < sizeof copy / sizeof *copy; i++)
        free(copy[i]);
    free(names);
    free(out);
    free(operands);
    return status;
}

int tshard_build_command(const struct ts_cmd *cmd, int argc, char **argv, tshard_build_fn *fn)
{
    return run_command(cmd, argc, argv, 0, fn);
}

int tshard_append_command(const struct ts_cmd *cmd, int argc, char **argv, tshard_build_fn *fn)
{
    return run_command(cmd, argc, argv, 1, fn);
}

static void put_list(FILE *f, const struct ts_opt_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        fprintf(f, "%s,", list->item[i]);
    fprintf(f, ";");
}

/* Writes as text the options that must be the same on all ranks (processes). */
static void put_options(FILE *f, const struct build_args *a, const struct ts_build_options *o)
{
    const char *const text[] = { o->out,     a->dims,      a->modes,     a->columns, a->value,
                                 a->weights, a->separator, a->transform, a->text };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        fprintf(f, "%s;", text[i] == NULL ? "" : text[i]);
    put_list(f, &a->map);
    put_list(f, &a->bin);
    put_list(f, &a->time_unit);
    fprintf(f, "%d %d %d %d %d %d %d %d %d %d %d %d %" PRIu64, a->missing, a->base, a->duplicates,
            a->zeros, a->format, a->header, a->names, a->partial_map, a->build.values, a->quote,
            a->decimal, a->build.force, o->shard_bytes);
}

static int same(const char *what, const struct tshard_build_job *job, struct ts_err *err)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    int rc = 0;
    if (f != NULL && what[0] == 'o')
        put_options(f, job->args, job->o);
    for (uint32_t i = 0; f != NULL && what[0] != 'o' && i < job->n_paths; i++)
        build_input_put(f, job->paths[i]);
    if (f == NULL || fclose(f) != 0)
        rc = ts_fail(err, TS_ENOMEM, "out of memory");
    rc = tool_ranks_agree(rc, err);
    if (rc == 0)
        rc = tool_ranks_same(what, text, err);
    free(text);
    return rc;
}

/* Fails on all ranks (processes) unless all have the same options and input files. */
static int join_ranks(const struct ts_cmd *cmd, const struct tshard_build_job *job,
                      struct ts_err *err)
{
    char version[256];
    int rc;
    if (tool_ranks() == NULL)
        return 0;
    snprintf(version, sizeof version, "%s %s", tool_version(), tool_commit());
    rc = tool_ranks_agree(0, err);
    if (rc == 0)
        rc = tool_ranks_same("version of tshard", version, err);
    if (rc == 0)
        rc = same("options", job, err);
    if (rc == 0)
        rc = same("input", job, err);
    if (rc == 0)
        tool_note(cmd, "%u processes build together, this one with %u thread%s", tool_ranks_count(),
                  job->o->threads, tool_plural(job->o->threads));
    job->o->comm = tool_ranks();
    return rc;
}

static int build(const struct ts_cmd *cmd, const struct tshard_build_job *job, struct ts_err *err)
{
    struct ts_build_report report;
    int rc = join_ranks(cmd, job, err);
    tool_progress_start(job->progress, "opening", "", 0); /* a pipe may send nothing for a while */
    if (rc == 0)
        rc = ts_build_paths(job->o, job->paths, job->n_paths, &report, err);
    tool_progress_end(job->progress);
    if (!tool_ranks_speaks())
        return rc;
    if (rc == 0)
        rc = build_report_print(cmd, job->o, &report, job->json, err);
    for (uint32_t i = 0; i < report.n_notes && rc == 0; i++)
        tool_note(cmd, "%s", report.note[i]);
    if (rc == 0 && report.base == 0 && (report.binary || job->o->base == 0))
        build_base_note(cmd, job->o->out, job->o->base_said && job->o->base == 0, report.binary);
    if (rc == 0 && job->o->table != NULL && job->o->n_dims == 0 && !tool_quiet())
        build_notes(cmd, job->o->out);
    return rc;
}

static int run_build(const struct ts_cmd *cmd, int argc, char **argv)
{
    return tshard_build_command(cmd, argc, argv, build);
}

const struct ts_cmd tshard_build_cmd = {
    .program = "tshard",
    .name = "build",
    .operands = "FILE...",
    .min_operands = 1,
    .max_operands = UINT32_MAX,
    .summary = "pack a tensor (text, table or binary file) into a .tsh directory",
    .text =
        "Each line of the input has the indices of a nonzero and its value, separated by blanks "
        "(the .tns form of FROSTT). Empty lines and comments (#) are skipped. A line ends with "
        "LF or CR LF and has at most 65534 bytes, or 524286 if --memory leaves room. `sptensor` "
        "headers (Tensor Toolbox, GenTen), MatrixMarket files and the binary files of SPLATT "
        "(.bin) and GenTen (sptn) are recognised. - is standard input. Several files are parts "
        "of one tensor. Gzip files are unpacked. So are zstd, xz and bzip2 files if the build "
        "has their libraries (see --version).\n\n"
        "A table (.csv, .tsv, --format) has columns of numbers, names or times. Names become "
        "indices, within --memory, and the tensor keeps the names. Times are put into bins. If "
        "the table does not show which column holds the values, --value must name it.\n\n"
        "Indices start at 1, in binary files at 0, unless --base says otherwise. Nonzeros of one "
        "cell are added. Zeros are dropped unless --zeros keep is given. A value too close to 0 "
        "for a normal number of its type (float32: 1.2e-38) becomes 0, and a note counts these "
        "values. The bytes of the result do not depend on the order of the lines, on --memory, "
        "--threads or --tmp. One exception: names of a table get their indices in the order of "
        "the lines, unless they are sorted.\n\n"
        "With MPI, several processes can read parts of the files and build one tensor "
        "together.\n\n"
        "The directory appears when it is complete and on disk. A killed build leaves "
        "NAME.tsh.building. The next build of that name clears it.",
    .examples =
        "tshard build amazon.tns.gz\n  make amazon.tsh in the current directory\n"
        "tshard build r.csv --modes user,item,week --value rating --bin week=7d\n  read a table with a header line; times become weeks\n"
        "zcat part*.gz | tshard build -o all.tsh --memory 2G -\n  read a pipe, within 2 GiB of memory\n",
    .headings = tshard_build_headings,
    .section = tshard_build_section,
    .brief = TSHARD_BUILD_BRIEF,
    .opts = tshard_build_opts,
    .run = run_build,
};
