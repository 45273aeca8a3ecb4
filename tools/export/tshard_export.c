/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard export: writes a tensor as text, in stored or sorted order. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/common/common_opts.h"
#include "tools/export/export_dense.h"
#include "tools/export/export_pieces.h"
#include "tools/export/export_room.h"
#include "tools/common/tool.h"
#include "tools/common/tool_mode.h"
#include "tools/tshard.h"

enum { FORMAT_TNS, FORMAT_SPTENSOR, FORMAT_CSV, FORMAT_TSV };
enum { BASE_OF_TENSOR, BASE_0, BASE_1 };

/* most bytes of a thread's text buffer, without the longest line */
#define MOST_TEXT  (UINT64_C(1) << 20)
#define LEAST_TEXT (UINT64_C(1) << 17)

struct export_args {
    const char *output, *sort, *mode_text, *tmp;
    uint64_t memory;
    uint32_t mode, threads;
    int format, header, base, numbers, force, quiet, no_space_check;
};

#define AT(field) offsetof(struct export_args, field)
static const struct ts_opt export_opts[] = {
    TOOL_OUTPUT_FILE_OPT(AT(output)),
    TOOL_FORCE_FILE_OPT(0, AT(force)),
    { "format", 'f', TS_OPT_CHOICE, AT(format), "tns", "tns|sptensor|csv|tsv",
      "form of the output. tns: nonzeros only. sptensor (Tensor Toolbox): shape and count first. "
      "csv, tsv: tables with names" },
    { "header", 0, TS_OPT_CHOICE, AT(header), "yes", "yes|no",
      "whether a table starts with the names of its columns" },
    TOOL_NUMBERS_OPT(AT(numbers)),
    { "base", 0, TS_OPT_CHOICE, AT(base), "input", "input|0|1",
      "first index. input: that of the text that the tensor was built from, and 1 in sptensor. A "
      "sptensor file with base 0 has the word indices-start-at-zero" },
    { "mode", 'm', TS_OPT_STRING, AT(mode_text), "1", "K|NAME",
      "read the copy that is sorted for mode K, or for the mode of this name" },
    { "sort", 's', TS_OPT_STRING, AT(sort), NULL, "K,...",
      "sort by these modes (numbers or names), then by the others. 1 means 1,2,3, and 3 means "
      "3,1,2" },
    { "memory", 0, TS_OPT_SIZE, AT(memory), NULL, "SIZE",
      "memory to use; the rest goes to temporary files. The program itself takes 24M more. "
      "Default: half of the free memory" },
    { "tmp", 0, TS_OPT_STRING, AT(tmp), NULL, "DIR",
      "directory for temporary files. Default: $TMPDIR, or the directory of FILE" },
    TOOL_THREADS_OPT(AT(threads)),
    TOOL_SPACE_OPT(AT(no_space_check)),
    TOOL_QUIET_OPT(AT(quiet)),
    { 0 },
};

struct export
{
    const struct ts_cmd *cmd;
    const struct ts_tensor *t;
    const struct export_args *args;
    struct export_pieces pieces;
    struct export_sink sink;
};

/* ------------------------------------------------------------------ header of the text */

static int write_text(struct export *e, const char *text, size_t n, struct ts_err *err)
{
    char *packed = NULL;
    size_t room = 0;
    int rc = 0;
    if (!e->sink.gzip)
        return export_sink_write(&e->sink, text, n, err);
    rc = export_sink_pack(text, n, &packed, &room, &n, err);
    if (rc == 0)
        rc = export_sink_write(&e->sink, packed, n, err);
    free(packed);
    return rc;
}

static int write_sptensor(struct export *e, uint64_t nnz, struct ts_err *err)
{
    char text[64 + 24 * (TS_MAX_ORDER + 2)], *at = text;
    at += sprintf(at, "sptensor%s\n%" PRIu32 "\n",
                  e->pieces.rows.base == 0 ? " indices-start-at-zero" : "", e->t->order);
    for (uint32_t m = 0; m < e->t->order; m++)
        at += sprintf(at, "%" PRIu64 "%s", ts_dim(e->t, m), m + 1 < e->t->order ? " " : "\n");
    at += sprintf(at, "%" PRIu64 "\n", nnz);
    return write_text(e, text, (size_t)(at - text), err);
}

static int write_columns(struct export *e, struct ts_err *err)
{
    char text[(TS_MAX_ORDER + 2) * (2 * 256 + 4)], *at = text;
    for (uint32_t m = 0; m <= e->t->order; m++) {
        const char *name = ts_name(e->t, m);
        char made[24] = "value";
        if (m < e->t->order)
            snprintf(made, sizeof made, "mode%" PRIu32, m + 1);
        name = name == NULL ? made : name;
        at = export_rows_field(at, name, strlen(name), e->pieces.rows.separator);
        *at++ = m < e->t->order ? e->pieces.rows.separator : '\n';
    }
    if (ts_tensor_weighted(e->t)) {
        at[-1] = e->pieces.rows.separator;
        at = export_rows_field(at, "weight", strlen("weight"), e->pieces.rows.separator);
        *at++ = '\n';
    }
    return write_text(e, text, (size_t)(at - text), err);
}

/* ------------------------------------------------------------------ memory of the threads */

static uint64_t least_bytes(const struct export *e, uint32_t threads, uint64_t text,
                            struct ts_row_names_conf *names)
{
    names->threads = threads;
    return export_pieces_bytes(e->t, e->pieces.sorted, e->sink.gzip, threads, text) +
           ts_row_names_least(names) + (e->pieces.sorted ? ts_reorder_least(e->t, threads) : 0);
}

static uint64_t text_for(uint64_t memory, uint32_t threads)
{
    const uint64_t part = memory / 16 / threads;
    return part < LEAST_TEXT ? LEAST_TEXT : part < MOST_TEXT ? part : MOST_TEXT;
}

/* Divides the memory among text buffers, sorting and names. At most half of it is for text
 * buffers; if that is too little, fewer threads work. */
static int divide_memory(struct export *e, struct ts_row_names_conf *names, struct ts_err *err)
{
    const uint64_t least = least_bytes(e, 1, LEAST_TEXT, names);
    uint64_t memory = e->args->memory, text, left;
    struct export_pieces *b = &e->pieces;
    if (memory == 0) {
        struct ts_machine machine;
        ts_machine_get(&machine);
        memory = machine.free_bytes / 2 > least ? machine.free_bytes / 2 : least;
    }
    if (memory < least)
        return ts_fail(err, TS_EARG, "--memory must be at least %" PRIu64 "M to export %s this way",
                       (least + 0xfffff) >> 20, e->t->path);
    for (text = text_for(memory, b->threads);
         b->threads > 1 && least_bytes(e, b->threads, text, names) > memory / 2;
         text = text_for(memory, b->threads))
        b->threads--;
    if (least_bytes(e, b->threads, text, names) > memory)
        text = LEAST_TEXT;
    b->text_bytes = text;
    left = memory - least_bytes(e, b->threads, text, names);
    names->bytes = ts_row_names_least(names);
    if (e->pieces.sorted) { /* names get a third of the memory left, and what sorting cannot use */
        const uint64_t most = ts_reorder_most(e->t, b->threads), sort = left - left / 3;
        b->sort_bytes = ts_reorder_least(e->t, b->threads);
        b->sort_bytes += most - b->sort_bytes < sort ? most - b->sort_bytes : sort;
        left -= b->sort_bytes - ts_reorder_least(e->t, b->threads);
    }
    names->bytes += left;
    if (e->pieces.sorted && ts_row_names_most(names) < names->bytes) {
        b->sort_bytes += names->bytes - ts_row_names_most(names);
        names->bytes = ts_row_names_most(names);
    }
    names->threads = b->threads;
    return 0;
}

/* ------------------------------------------------------------------ the command */

/* Returns the directory for temporary files, malloc'ed: that of the result, unless the result is a
 * device. */
static char *choose_tmp(const struct export_args *args)
{
    const char *tmp = args->tmp != NULL ? args->tmp : getenv("TMPDIR");
    char *copy, *ret;
    struct stat st;
    if (tmp != NULL && *tmp != '\0')
        return strdup(tmp);
    if (args->output == NULL || strcmp(args->output, "-") == 0 ||
        (stat(args->output, &st) == 0 && !S_ISREG(st.st_mode)))
        return strdup(".");
    copy = strdup(args->output);
    ret = copy == NULL ? NULL : strdup(dirname(copy));
    free(copy);
    return ret;
}

static int open_all(struct export *e, const char *tmp, struct ts_err *err)
{
    const struct export_args *args = e->args;
    struct ts_row_names_conf names = { .tensor = e->t,
                                       .labels = e->pieces.rows.quoted && !args->numbers,
                                       .tmp = tmp,
                                       .stop = &tool_stop };
    int rc = export_sink_open(args->output, args->force, "--output", &e->sink, err);
    if (rc == 0)
        rc = divide_memory(e, &names, err);
    if (rc == 0)
        rc = ts_row_names_open(&names, &e->pieces.rows.names, err);
    if (rc == 0)
        rc = export_rows_open(&e->pieces.rows, err);
    if (rc == 0 && !args->no_space_check)
        rc = export_room_check(
            &e->sink, "--output",
            export_room_of_rows(e->t, e->pieces.rows.base, names.labels, e->pieces.rows.line_bytes),
            err);
    return rc;
}

/* Writes the text before the lines of nonzeros, whose number is nnz. */
static int write_head(struct export *e, uint64_t nnz, struct ts_err *err)
{
    if (e->args->format == FORMAT_SPTENSOR)
        return write_sptensor(e, nnz, err);
    return e->pieces.rows.quoted && e->args->header == 0 ? write_columns(e, err) : 0;
}

static int export_cells(struct export *e, struct ts_err *err)
{
    const struct export_dense cells = { .tensor = e->t,
                                        .sink = &e->sink,
                                        .separator = e->pieces.rows.separator,
                                        .base = e->pieces.rows.base,
                                        .threads = e->pieces.threads };
    struct ts_err warn = { 0 };
    uint64_t known;
    int rc = export_dense_count(&cells, &known, err);
    if (rc == 0)
        rc = export_sink_open(e->args->output, e->args->force, "--output", &e->sink, err);
    if (rc == 0 && !e->args->no_space_check)
        rc = export_room_check(&e->sink, "--output", export_room_of_cells(e->t, known), err);
    if (rc == 0)
        rc = write_head(e, known, err);
    if (rc == 0)
        rc = export_dense_write(&cells, err);
    if (rc == 0)
        rc = export_sink_commit(&e->sink, &warn, err);
    export_sink_close(&e->sink);
    tool_warn(e->cmd, &warn);
    return rc;
}

static int export_all(struct export *e, struct ts_err *err)
{
    struct ts_err warn = { 0 };
    char *tmp = choose_tmp(e->args);
    int rc = tmp == NULL ? ts_fail(err, TS_ENOMEM, "out of memory") : open_all(e, tmp, err);
    if (rc == 0)
        rc = write_head(e, e->t->nnz, err);
    e->pieces.tmp = tmp;
    if (rc == 0)
        rc = export_pieces_write(&e->pieces, err);
    if (rc == 0)
        rc = export_sink_commit(&e->sink, &warn, err);
    export_sink_close(&e->sink);
    tool_warn(e->cmd, &warn);
    export_rows_close(&e->pieces.rows);
    ts_row_names_close(e->pieces.rows.names);
    free(tmp);
    return rc;
}

/* Parses the modes by which nonzeros are sorted: "3,1" gives 2, 0, and then the remaining modes. */
static int parse_sort(const struct ts_tensor *t, const char *text, uint8_t by[], struct ts_err *err)
{
    const struct tool_modes modes = tool_modes_of(t);
    uint32_t n = 0, seen = 0;
    for (const char *p = text;; p++) {
        const size_t length = strcspn(p, ",");
        uint32_t m;
        if (tool_mode_find(&modes, "sort", p, length, &m, err) < 0)
            return err->code;
        if ((seen >> m & 1) != 0)
            return ts_fail(err, TS_EARG, "--sort %s: mode %" PRIu32 " is named twice", text, m + 1);
        seen |= UINT32_C(1) << m;
        by[n++] = (uint8_t)m;
        p += length;
        if (*p == '\0')
            break;
    }
    for (uint32_t m = 0; m < t->order; m++)
        if ((seen >> m & 1) == 0)
            by[n++] = (uint8_t)m;
    return 0;
}

static int mode_given(uint64_t given)
{
    uint32_t i = 0;
    while (export_opts[i].at != AT(mode_text))
        i++;
    return (given >> i & 1) != 0;
}

/* Sets *e from the options, and checks that the tensor allows them. */
static int choose(struct export *e, struct export_args *args, int with_mode, struct ts_err *err)
{
    const struct ts_tensor *t = e->t;
    const struct tool_modes modes = tool_modes_of(t);
    e->args = args;
    if (tool_mode_option(&modes, t->path, args->mode_text, 0, &args->mode, err) < 0)
        return err->code;
    e->pieces.mode = args->mode - 1;
    if (ts_tensor_weighted(t) && args->format == FORMAT_SPTENSOR)
        return ts_fail(
            err, TS_EARG,
            "%s: its cells have weights, which an sptensor has no place for; --format tns, "
            "csv and tsv have",
            t->path);
    if (args->sort != NULL && with_mode)
        return ts_fail(err, TS_EARG, "--mode and --sort cannot be given together");
    if (t->dense != NULL && (args->sort != NULL || with_mode))
        return ts_fail(
            err, TS_EARG,
            "%s: the cells of a dense tensor come in the order of the array, so --mode and "
            "--sort cannot be combined with it",
            t->path);
    if (args->sort != NULL) {
        const int rc = parse_sort(t, args->sort, e->pieces.by, err);
        if (rc < 0)
            return rc;
        e->pieces.sorted = !ts_reorder_sorted(t, e->pieces.by);
        e->pieces.mode = e->pieces.by[0];
    }
    e->pieces.tensor = t;
    e->pieces.sink = &e->sink;
    e->pieces.rows = (struct export_rows){
        .tensor = t,
        .separator = args->format == FORMAT_CSV   ? ','
                     : args->format == FORMAT_TSV ? '\t'
                                                  : ' ',
        .quoted = args->format == FORMAT_CSV || args->format == FORMAT_TSV,
        .base = args->base != BASE_OF_TENSOR      ? (uint32_t)args->base - 1
                : args->format == FORMAT_SPTENSOR ? 1
                                                  : ts_first_index(t),
    };
    return 0;
}

static int run_export(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct export e = { .cmd = cmd, .sink = { .fd = -1 } };
    struct export_args args;
    struct ts_tensor *t;
    struct ts_err err;
    char *operand[argc];
    uint32_t n_operands;
    uint64_t given;
    int rc, status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, &given);
    if (status >= 0)
        return status;
    if (tool_threads_check(args.threads, &err) < 0)
        return tool_usage(cmd, "%s", err.text);
    if (tshard_open_any(operand[0], &t, &err) < 0)
        return tool_fail(cmd, &err);
    e.t = t;
    if (choose(&e, &args, mode_given(given), &err) < 0) {
        status = tool_usage(cmd, "%s", err.text);
        ts_tensor_close(t);
        return status;
    }
    if (args.output != NULL && tool_outside(args.output, t->path, &err) < 0) {
        ts_tensor_close(t);
        return tool_fail(cmd, &err);
    }
    tool_catch_signals();
    rc = ts_threads_get(args.threads, 0, &e.pieces.threads, &err);
    if (rc == 0)
        rc = t->dense != NULL ? export_cells(&e, &err) : export_all(&e, &err);
    ts_tensor_close(t);
    if (rc == TS_EIO && err.sys == EPIPE)
        return 1; /* the reader closed the pipe, as in `tshard export x.tsh | head` */
    if (rc < 0)
        return tool_fail(cmd, &err);
    export_sink_note_table(cmd, args.output, e.pieces.rows.quoted);
    return 0;
}

const struct ts_cmd tshard_export_cmd = {
    .program = "tshard",
    .name = "export",
    .operands = "TENSOR.tsh",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "print the nonzeros of a tensor as text",
    .text =
        "Writes a line for each nonzero: its indices and its value. Indices count from 1, or "
        "from 0 if those of the input did. A value is the shortest decimal that reads back as "
        "the same float32 or float64 number; whole numbers have no point. If cells have weights, "
        "the weight follows the value.\n\n"
        "The nonzeros are in the order of one copy: first by the index of mode K. --sort gives "
        "any other order of modes. Nonzeros that do not fit in memory are sorted through "
        "temporary files. If a copy already has the requested order, it is only read.\n\n"
        "csv and tsv are tables. They start with a line of the names of modes and values. If a "
        "mode has names, time bins or a map, the table has names instead of indices, unless "
        "--numbers is given. An index without a name stays a number. If the build used "
        "--partial-map, this number may also be the name of another index. A field with a "
        "separator, with a quote, or with a blank at an end is in quotes. tshard build reads "
        "these tables.\n\n"
        "TENSOR may be a dense tensor, a file of NumPy, HDF5 or Tensor Toolbox as for tstream "
        "cp. Then each known cell has a line, even if it is zero, in the order of the array. NaN "
        "cells have no line.",
    .examples =
        "tshard export amazon.tsh | head\n  print the first nonzeros\n"
        "tshard export amazon.tsh -o amazon.tns.gz\n  write a compressed text file\n"
        "tshard export ratings.tsh --format csv --sort 3 -o ratings.csv\n  write a table with names, sorted by mode 3, then 1 and 2\n",
    .opts = export_opts,
    .run = run_export,
};
