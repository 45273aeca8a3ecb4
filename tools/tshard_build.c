/* tshard build: text to a .tsh directory. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/build.h"
#include "tools/build_common.h"
#include "tools/tool.h"
#include "tools/tshard.h"

struct build_args {
    const char *out, *dims;
    uint32_t base;
    int duplicates;
    struct ts_opt_list map;
    struct build_common common;
};

#define AT(field) offsetof(struct build_args, field)
static const struct ts_opt build_opts[] = {
    { "output", 'o', TS_OPT_STRING, AT(out), NULL, "NAME.tsh",
      "the directory to make (default: the first file's name, with .tsh for .tns)" },
    { "base", 0, TS_OPT_U32, AT(base), "1", "0|1", "the first index of the input" },
    { "dims", 0, TS_OPT_STRING, AT(dims), NULL, "IxJxK",
      "sizes of the modes (default: the largest indices)" },
    { "duplicates", 0, TS_OPT_CHOICE, AT(duplicates), "sum", "sum|keep|error",
      "what to do with several nonzeros at one place" },
    { "map", 0, TS_OPT_LIST, AT(map), NULL, "K=FILE",
      "names of the indices of mode K, one a line; may be gzip. NAME.modeK.map and "
      "NAME.modeK.map.gz beside the first file are taken by themselves" },
    BUILD_COMMON_OPTS(AT(common)),
    { 0 },
};

/* "dir/amazon.tns.gz" -> "amazon"; with_dir: "dir/amazon". malloc'ed. */
static char *stem_of(const char *path, int with_dir)
{
    const char *slash = strrchr(path, '/');
    char *s = strdup(!with_dir && slash != NULL ? slash + 1 : path), *name, *dot;
    if (s == NULL)
        return NULL;
    name = strrchr(s, '/') == NULL ? s : strrchr(s, '/') + 1;
    dot = strrchr(name, '.');
    if (dot != NULL && dot > name && strcmp(dot, ".gz") == 0) {
        *dot = '\0';
        dot = strrchr(name, '.');
    }
    if (dot != NULL && dot > name && (strcmp(dot, ".tns") == 0 || strcmp(dot, ".txt") == 0))
        *dot = '\0';
    return s;
}

/* The directory that the result goes to: beside where the user is, not beside the input. */
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

/* Takes --map and looks for map files beside the input. found[] are to be freed. */
static int find_maps(const struct build_args *a, const char *path, struct ts_build_options *o,
                     char *found[TS_MAX_ORDER], struct ts_err *err)
{
    char *stem = strcmp(path, "-") == 0 ? NULL : stem_of(path, 1);
    for (unsigned m = 0; m < TS_MAX_ORDER && stem != NULL; m++) {
        static const char *const ends[] = { "", ".gz" };
        for (unsigned e = 0; e < 2 && found[m] == NULL; e++) {
            if (asprintf(&found[m], "%s.mode%u.map%s", stem, m + 1, ends[e]) < 0)
                found[m] = NULL;
            else if (access(found[m], R_OK) != 0) {
                free(found[m]);
                found[m] = NULL;
            }
        }
        o->map[m] = found[m];
    }
    free(stem);
    for (uint32_t i = 0; i < a->map.n; i++) {
        const char *text = a->map.item[i];
        char *end;
        const long k = strtol(text, &end, 10);
        if (*end != '=' || end[1] == '\0' || k < 1 || k > (long)TS_MAX_ORDER)
            return ts_fail(err, TS_EARG, "--map %s: expected K=FILE with a mode K from 1", text);
        o->map[k - 1] = end + 1;
        o->min_order = (uint32_t)k > o->min_order ? (uint32_t)k : o->min_order;
    }
    return 0;
}

static int run(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct build_args args;
    struct ts_build_options o = { 0 };
    struct ts_build_report report;
    struct tool_progress progress;
    struct ts_err err = { 0 };
    char **operands = malloc((size_t)argc * sizeof *operands), *found[TS_MAX_ORDER] = { 0 };
    char *out = NULL;
    uint32_t n = 0;
    int rc = 0, status = 0;
    if (operands == NULL)
        return 1;
    status = tool_parse(cmd, argc, argv, &args, &n, operands, NULL);
    if (status >= 0) {
        free(operands);
        return status;
    }
    status = 0;
    o.base = args.base;
    o.duplicates = args.duplicates;
    out = args.out != NULL ? strdup(args.out) : default_out(operands[0], &err);
    o.out = out;
    rc = out == NULL ? TS_EARG : build_common_apply(&args.common, &o, &progress, &err);
    if (rc == 0 && args.base > 1)
        rc = ts_fail(&err, TS_EARG, "--base must be 0 or 1");
    if (rc == 0 && args.dims != NULL) {
        rc = build_common_dims(args.dims, o.dim, &err);
        o.n_dims = rc > 0 ? (uint32_t)rc : 0;
    }
    if (rc >= 0)
        rc = find_maps(&args, operands[0], &o, found, &err);
    if (rc < 0) {
        status = tool_usage(cmd, "%s", err.text);
    } else {
        rc = ts_build_text(&o, (const char *const *)operands, n, &report, &err);
        if (progress.what != NULL)
            tool_progress_end(&progress);
        if (rc == 0)
            rc = build_common_report(cmd, &o, &report, args.common.json, &err);
        status = rc < 0 ? tool_fail(cmd, &err) : 0;
    }
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(found[m]);
    free(out);
    free(operands);
    return status;
}

const struct ts_cmd tshard_build_cmd = {
    .program = "tshard",
    .name = "build",
    .operands = "FILE...",
    .min_operands = 1,
    .max_operands = UINT32_MAX,
    .summary = "packs a text tensor into a .tsh directory",
    .text = "Each line of the input is the indices of a nonzero and its value between blanks "
            "(FROSTT's .tns); empty lines and comments (#) may stand between. Gzip and Tensor "
            "Toolbox `sptensor` headers are recognised; - is standard input. Several files are "
            "parts of one tensor.\n\n"
            "Indices start at 1 unless --base 0 is given. Nonzeros at one place are added up, "
            "zeros are dropped. The result is the same, byte for byte, for any order of the lines "
            "and any --memory, --threads and --tmp.\n\n"
            "The directory appears when it is complete and on disk; a build that was killed "
            "leaves NAME.tsh.building, which the next build of that name clears.",
    .examples = "tshard build amazon.tns.gz\n  makes amazon.tsh in the current directory\n"
                "zcat part*.gz | tshard build -o all.tsh --memory 2G -\n  from a pipe, within 2 GiB\n",
    .opts = build_opts,
    .run = run,
};
