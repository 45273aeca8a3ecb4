/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard_index.c - tshard index: writes checksums of a dense tensor to a file beside it. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/common/array_opts.h"
#include "tools/common/common_opts.h"
#include "tools/common/tool.h"
#include "tools/tshard.h"

struct index_args {
    uint32_t threads;
    int check, force, quiet;
    struct array_opts array;
};

#define AT(field) offsetof(struct index_args, field)
static const struct ts_opt index_opts[] = {
    { "check", 'c', TS_OPT_FLAG, AT(check), NULL, NULL,
      "read all cells and compare them with the existing index" },
    ARRAY_OPTS(AT(array)),
    TOOL_THREADS_OPT(AT(threads)),
    { "force", 'f', TS_OPT_FLAG, AT(force), NULL, NULL,
      "replace an existing index. Other files are never touched" },
    TOOL_QUIET_OPT(AT(quiet)),
    { 0 },
};

/* Reads all cells of an array, and compares them with its checksums or computes missing ones. */
static int make(const struct index_args *args, struct ts_tensor *t, const char *path,
                struct ts_err *err)
{
    uint32_t threads = 1;
    int rc = ts_threads_get(args->threads, 0, &threads, err);
    if (rc == 0 && t->dense->array.memory != NULL)
        rc = ts_fail(err, TS_EARG, "%s: is text, which is read whole and needs no index", t->path);
    if (rc == 0 && !args->check)
        rc = ts_array_index_may_replace(path, err);
    if (rc == 0 && !args->check && !args->force && access(path, F_OK) == 0)
        rc = ts_fail(err, TS_EBUSY, "%s: is there already; --force makes it anew", path);
    if (rc == 0 && args->check && access(path, F_OK) != 0)
        rc =
            ts_fail(err, TS_EARG, "%s: there is none to compare with; tshard index makes it", path);
    if (rc == 0 && args->check) {
        rc = ts_array_index_read(t->dense, err);
        t->dense->scanned = 0;
    } else if (rc == 0) {
        rc = ts_array_index_new(t->dense, err);
    }
    if (rc == 0)
        rc = args->check ? ts_dense_scan_alone(t, threads, &tool_stop, err)
                         : ts_dense_scan_sums(t, threads, &tool_stop, err);
    if (rc == 0 && !args->check)
        rc = ts_array_index_write(t->dense, err);
    return rc;
}

static int run_index(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct index_args args = { 0 };
    struct ts_tensor *t = NULL;
    struct ts_err err = { 0 };
    char *operand[argc], *name = NULL, *path = NULL, a[TS_NUM_CHARS], plain[4096];
    uint32_t n;
    int rc = tool_parse(cmd, argc, argv, &args, &n, operand, NULL);
    if (rc >= 0)
        return rc;
    if (array_opts_name(&args.array, operand[0], &name, &err) < 0)
        return tool_usage(cmd, "%s", err.text);
    tool_catch_signals();
    rc = ts_tensor_open_array(name, &t, &err);
    if (rc == 0 && (path = ts_array_index_path(t->dense)) == NULL)
        rc = ts_fail(&err, TS_ENOMEM, "out of memory");
    if (rc == 0)
        rc = make(&args, t, path, &err);
    if (rc == 0 && !args.check)
        tool_in_place(path);
    if (rc == 0 && !args.quiet)
        printf("%s: %s of cells, %s\n", tool_plain(path, plain, sizeof plain),
               ts_num_bytes(a, t->nnz * t->dense->cell_bytes),
               args.check ? "as they were" : "checksums written");
    ts_tensor_close(t);
    free(path);
    free(name);
    if (rc == 0)
        rc = tool_flushed(&err);
    return rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_index_cmd = {
    .program = "tshard",
    .name = "index",
    .operands = "ARRAY",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "write checksums of a dense tensor to a small file beside it",
    .text =
        "ARRAY is a dense tensor (tstream cp --help). data.npy gets data.npy.index, with 8 bytes "
        "for each 16384 cells. Later runs compare the cells that they read with these checksums. "
        "An error names the file and the byte that differ. A run with an index also starts "
        "without reading all cells first. The array itself does not change. The index is "
        "optional.",
    .opts = index_opts,
    .run = run_index,
};
