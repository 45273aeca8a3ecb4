/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard select: copies a part of a tensor to a new tensor. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/build/build_opts.h"
#include "tools/build/build_report.h"
#include "tools/common/tool.h"
#include "tools/common/tool_mode.h"
#include "tools/tshard.h"

/* memory to look up names, in addition to that of the build */
#define NAMES_BYTES (UINT64_C(8) << 20)

struct select_args {
    const char *out, *sum;
    struct ts_opt_list keep, least;
    struct build_opts build;
};

#define AT(field) offsetof(struct select_args, field)
static const struct ts_opt select_opts[] = {
    { "output", 'o', TS_OPT_STRING, AT(out), NULL, "NAME.tsh", "directory to write" },
    { "keep", 'k', TS_OPT_LIST, AT(keep), NULL, "MODE=INDEX,...",
      "keep only these indices of a mode. MODE is a number or a name. INDEX is a number as in "
      "the input, a range A..B or a name" },
    { "at-least", 0, TS_OPT_LIST, AT(least), NULL, "[MODE=]N",
      "drop slices with fewer than N nonzeros in the tensor, in one mode or in each mode" },
    { "sum", 0, TS_OPT_STRING, AT(sum), NULL, "MODE,...",
      "leave these modes out, and add nonzeros that differ only in them" },
    BUILD_FORCE_OPT(AT(build)),
    BUILD_PLACE_OPTS(AT(build)),
    { 0 },
};

/* The indices and names of a mode that --keep gives. */
struct kept {
    struct ts_pick_range *range;
    uint64_t n, room;
    char **name; /* names of indices that are not looked up yet */
    uint64_t n_names;
};

static int find_mode(const struct ts_tensor *t, const char *option, const char *text, size_t n,
                     uint32_t *ret, struct ts_err *err)
{
    const struct tool_modes modes = tool_modes_of(t);
    return tool_mode_find(&modes, option, text, n, ret, err);
}

static int add_range(struct kept *k, uint64_t first, uint64_t last, struct ts_err *err)
{
    if (k->n == k->room) {
        const uint64_t room = 2 * k->room + 16;
        struct ts_pick_range *range = realloc(k->range, room * sizeof *range);
        if (range == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory");
        k->range = range;
        k->room = room;
    }
    k->range[k->n++] = (struct ts_pick_range){ first, last };
    return 0;
}

/* Parses n characters as a whole number. Returns 0 if they are not one. */
static int whole(const char *text, size_t n, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || *ret > TS_MAX_DIM)
            return 0;
        *ret = 10 * *ret + (uint64_t)(text[i] - '0');
    }
    return n > 0;
}

static int add_name(struct kept *k, const char *text, size_t n, struct ts_err *err)
{
    char **name = realloc(k->name, (k->n_names + 1) * sizeof *name);
    if (name == NULL || (k->name = name, name[k->n_names] = strndup(text, n)) == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    k->n_names++;
    return 0;
}

/* Adds one word of --keep: a range, a number or, if the mode has names, a name. */
static int add_word(const struct ts_tensor *t, uint32_t mode, const char *text, size_t n,
                    struct kept *k, struct ts_err *err)
{
    const uint32_t base = ts_first_index(t);
    const char *dots = n > 3 ? memmem(text, n, "..", 2) : NULL;
    const size_t head = dots == NULL ? n : (size_t)(dots - text);
    uint64_t first, last;
    if (n == 0)
        return ts_fail(err, TS_EARG, "--keep: an index is missing before or after a comma");
    if (t->mode[mode].disk.n_labels > 0 && dots == NULL)
        return add_name(k, text, n, err);
    if (!whole(text, head, &first) || (dots != NULL && !whole(dots + 2, n - head - 2, &last)))
        return ts_fail(err, TS_EARG,
                       "--keep: '%.*s' is no index of mode %" PRIu32 ", nor a range A..B", (int)n,
                       text, mode + 1);
    last = dots == NULL ? first : last;
    if (first < base || last < first || last - base >= ts_dim(t, mode))
        return ts_fail(err, TS_EARG,
                       "--keep: '%.*s' is not within the indices of mode %" PRIu32 ", %" PRIu32
                       " to %" PRIu64,
                       (int)n, text, mode + 1, base, ts_dim(t, mode) - 1 + base);
    return add_range(k, first - base, last - base, err);
}

static int parse_keep(const struct ts_tensor *t, const struct ts_opt_list *list, struct kept kept[],
                      struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < list->n && rc == 0; i++) {
        const char *text = list->item[i], *equals = strchr(text, '=');
        uint32_t m;
        if (equals == NULL)
            return ts_fail(err, TS_EARG, "--keep %s: expected MODE=INDEX,...", text);
        rc = find_mode(t, "keep", text, (size_t)(equals - text), &m, err);
        for (const char *p = equals + 1; rc == 0; p++) {
            const size_t n = strcspn(p, ",");
            rc = add_word(t, m, p, n, &kept[m], err);
            p += n;
            if (*p == '\0')
                break;
        }
    }
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Replaces names by indices with one pass over the labels of the mode. A word that is no label may
 * be a number. */
static int find_names(const struct ts_tensor *t, uint32_t mode, const char *tmp, struct kept *k,
                      struct ts_err *err)
{
    struct ts_row_names_conf conf = {
        .tensor = t, .labels = 1, .threads = 1, .tmp = tmp, .stop = &tool_stop
    };
    struct ts_row_names *names = NULL;
    unsigned char *found = calloc(k->n_names, 1);
    int rc = found == NULL ? ts_fail(err, TS_ENOMEM, "out of memory") : 0;
    conf.bytes = ts_row_names_least(&conf) + NAMES_BYTES;
    qsort(k->name, k->n_names, sizeof *k->name, compare_names);
    if (rc == 0)
        rc = ts_row_names_open(&conf, &names, err);
    for (uint64_t i = 0; i < ts_dim(t, mode) && rc == 0; i++) {
        const char *label;
        size_t n;
        uint64_t low = 0, high = k->n_names;
        rc = ts_row_label(names, 0, mode, i, &label, &n, err);
        while (rc == 0 && label != NULL && low < high) {
            const uint64_t mid = (low + high) / 2;
            const size_t chars = strlen(k->name[mid]);
            const int less = memcmp(label, k->name[mid], n < chars ? n : chars);
            const int order = less != 0 ? less : n < chars ? -1 : n > chars;
            if (order == 0) {
                found[mid] = 1;
                rc = add_range(k, i, i, err);
                break;
            }
            *(order < 0 ? &high : &low) = order < 0 ? mid : mid + 1;
        }
    }
    for (uint64_t i = 0; i < k->n_names && rc == 0; i++) {
        const uint32_t base = ts_first_index(t);
        uint64_t index;
        if (found[i] != 0 || (i > 0 && strcmp(k->name[i], k->name[i - 1]) == 0))
            continue;
        if (!whole(k->name[i], strlen(k->name[i]), &index) || index < base ||
            index - base >= ts_dim(t, mode))
            rc = ts_fail(err, TS_EARG, "--keep: '%s' is no name of mode %" PRIu32 ", nor an index",
                         k->name[i], mode + 1);
        else
            rc = add_range(k, index - base, index - base, err);
    }
    ts_row_names_close(names);
    free(found);
    return rc;
}

static int parse_least(const struct ts_tensor *t, const struct ts_opt_list *list,
                       struct ts_pick *pick, struct ts_err *err)
{
    uint64_t least[TS_MAX_ORDER] = { 0 };
    int rc = 0;
    for (uint32_t i = 0; i < list->n && rc == 0; i++) {
        const char *text = list->item[i], *equals = strrchr(text, '=');
        const char *number = equals == NULL ? text : equals + 1;
        uint32_t m = 0;
        uint64_t n;
        if (equals != NULL)
            rc = find_mode(t, "at-least", text, (size_t)(equals - text), &m, err);
        if (rc == 0 && !whole(number, strlen(number), &n))
            rc = ts_fail(err, TS_EARG, "--at-least %s: expected N or MODE=N", text);
        for (uint32_t k = 0; k < t->order && rc == 0; k++)
            if (equals == NULL || k == m)
                least[k] = n;
    }
    for (uint32_t m = 0; m < t->order && rc == 0; m++)
        if (least[m] > 1)
            rc = ts_pick_at_least(pick, t, m, least[m], &tool_stop, err);
    return rc;
}

static int parse_sum(const struct ts_tensor *t, const char *text, struct ts_pick *pick,
                     struct ts_err *err)
{
    int rc = 0;
    for (const char *p = text; p != NULL && rc == 0; p++) {
        const size_t n = strcspn(p, ",");
        uint32_t m;
        rc = find_mode(t, "sum", p, n, &m, err);
        if (rc == 0)
            pick->left_out |= UINT32_C(1) << m;
        p += n;
        if (*p == '\0')
            break;
    }
    return rc;
}

static int select_part(const struct ts_cmd *cmd, const struct select_args *args,
                       const struct ts_tensor *t, struct ts_err *err)
{
    struct ts_build_options o = { 0 };
    struct tool_progress progress;
    struct ts_build_report report;
    struct ts_pick pick = { .side = TS_PICK_ALL };
    struct kept kept[TS_MAX_ORDER] = { { 0 } };
    int rc = build_opts_apply(&args->build, &o, &progress, err);
    o.out = args->out;
    build_opts_like(t, &o);
    tool_progress_start(&progress, "finding what stays", "", 0);
    if (rc == 0)
        rc = tool_outside(args->out, t->path, err);
    if (rc == 0)
        rc = parse_sum(t, args->sum, &pick, err);
    if (rc == 0)
        rc = parse_keep(t, &args->keep, kept, err);
    for (uint32_t m = 0; m < t->order && rc == 0; m++)
        if (kept[m].n_names > 0)
            rc = find_names(t, m, o.tmp != NULL ? o.tmp : ".", &kept[m], err);
    for (uint32_t m = 0; m < t->order && rc == 0; m++)
        if (kept[m].n > 0)
            rc = ts_pick_ranges(&pick, t, m, kept[m].range, kept[m].n, err);
    if (rc == 0)
        rc = parse_least(t, &args->least, &pick, err);
    /* if modes are left out, cells that differ only in these become one: adds their values */
    if (pick.left_out != 0)
        o.duplicates = TS_DUPLICATES_SUM;
    if (rc == 0)
        rc = ts_build_tensor(&o, t, &pick, &report, err);
    tool_progress_end(&progress);
    if (rc == 0)
        rc = build_report_print(cmd, &o, &report, args->build.json, err);
    ts_pick_free(&pick);
    for (uint32_t m = 0; m < t->order; m++) {
        for (uint64_t i = 0; i < kept[m].n_names; i++)
            free(kept[m].name[i]);
        free(kept[m].name);
        free(kept[m].range);
    }
    return rc;
}

static int run_select(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct select_args args = { 0 };
    struct ts_tensor *t;
    struct ts_err err = { 0 };
    char *operand[argc];
    uint32_t n;
    int rc = tool_parse(cmd, argc, argv, &args, &n, operand, NULL);
    if (rc >= 0)
        return rc;
    if (args.out == NULL)
        return tool_usage(cmd, "-o NAME.tsh is needed");
    if (tshard_open(operand[0], &t, &err) < 0)
        return tool_fail(cmd, &err);
    rc = select_part(cmd, &args, t, &err);
    ts_tensor_close(t);
    return rc == TS_EARG ? tool_usage(cmd, "%s", err.text) : rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_select_cmd = {
    .program = "tshard",
    .name = "select",
    .operands = "TENSOR.tsh",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "make a tensor from a part of another one",
    .text =
        "Makes a tensor of the nonzeros that --keep and --at-least select. It has the sizes, "
        "names and labels of the original, so an index means the same in both. --at-least counts "
        "the nonzeros of the whole tensor, once. --sum leaves modes out and adds the nonzeros "
        "that then share a cell; it is refused if cells have weights. In a mode with names, a "
        "word of --keep that is a name means this name, even if it looks like a number. The "
        "tensor is built within --memory, plus a bit for each index of the modes of --keep and "
        "--at-least.",
    .examples =
        "tshard select ratings.tsh --keep user=ann,ben -o two.tsh\n  keep the ratings of two users\n"
        "tshard select ratings.tsh --at-least user=1 --sum week -o all.tsh\n  users by items, summed over the weeks\n"
        "tshard select amazon.tsh --keep 3=1..10 --at-least 2 -o ten.tsh\n  keep ten indices of mode 3, without slices of one nonzero\n",
    .opts = select_opts,
    .run = run_select,
};
