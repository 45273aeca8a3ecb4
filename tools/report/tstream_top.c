/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_top.c - tstream top: prints the strongest indices of each component, by name. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/model_view.h"
#include "tools/common/tool.h"
#include "tools/common/tool_mode.h"
#include "tools/common/tool_csv.h"
#include "tools/common/tool_term.h"
#include "tools/tstream.h"

struct top_args {
    const char *mode_text;
    uint32_t n, components, width, mode;
    int csv, json, quiet;
};

#define AT(field) offsetof(struct top_args, field)
static const struct ts_opt top_opts[] = {
    { "count", 'n', TS_OPT_U32, AT(n), "5", "N", "number of indices of each mode" },
    { "components", 'c', TS_OPT_U32, AT(components), "0", "N",
      "number of components, by weight; 0 shows all" },
    { "mode", 'k', TS_OPT_STRING, AT(mode_text), "0", "K|NAME",
      "show only mode K, from 1, or the mode of this name; 0 shows all" },
    { "width", 'w', TS_OPT_U32, AT(width), "0", "N",
      "number of characters of a name. 0: as many as fit on the terminal. Modes that do not fit "
      "side by side are printed below each other" },
    { "csv", 0, TS_OPT_FLAG, AT(csv), NULL, NULL,
      "print comma-separated values, with a line for each index and a first line of column names" },
    TOOL_QUIET_OPT(AT(quiet)),
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL,
      "print a JSON object on a line for each component" },
    { 0 },
};

#define VALUE_COLUMNS 9 /* characters that a value takes in the text */
/* characters of a value, with two blanks on each side of it */
#define BESIDE_NAME (VALUE_COLUMNS + 4)
#define LEAST_NAME  13 /* least characters of a name: 12, and an ellipsis */
#define MOST_NAME   40

struct top {
    const struct top_args *args;
    struct model_view view;
    uint32_t components, first, last; /* number of components; first and last mode shown */
    /* the strongest indices, for each mode and component (list_of) */
    struct ts_strongest *list;
    int columns; /* width of the terminal in characters */
    /* for each mode: characters that its names take in the text */
    int width[TS_MAX_ORDER];
};

static struct ts_strongest *list_of(const struct top *t, uint32_t mode, uint32_t component)
{
    return t->list + (size_t)mode * t->components + component;
}

/* ---- finding the strongest indices ---- */

struct scan {
    struct top *top;
    uint32_t mode;
};

static int scan_rows(void *ctx, uint64_t first, uint64_t n, const uint64_t *index, const double *x,
                     struct ts_err *err)
{
    const struct scan *s = ctx;
    const struct top *t = s->top;
    const uint32_t rank = t->view.model->rank;
    (void)first, (void)err;
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < t->components; c++)
            ts_strongest_add(list_of(t, s->mode, c), x[i * rank + t->view.by_weight[c]], index[i]);
    return 0;
}

static int scan_mode(struct top *t, uint32_t mode, struct ts_err *err)
{
    const uint64_t rows = t->view.model->n_rows[mode];
    const uint32_t n = rows < t->args->n ? (uint32_t)rows : t->args->n;
    struct scan s = { .top = t, .mode = mode };
    int rc = 0;
    for (uint32_t c = 0; c < t->components && rc == 0; c++)
        if (ts_strongest_new(list_of(t, mode, c), n) < 0)
            rc = ts_fail(err, TS_ENOMEM,
                         "out of memory for %" PRIu32 " indices of %" PRIu32
                         " components; --components and --mode show fewer",
                         n, t->components);
    if (rc == 0)
        rc = model_view_walk(&t->view, mode, scan_rows, &s, err);
    for (uint32_t c = 0; c < t->components && rc == 0; c++)
        ts_strongest_sort(list_of(t, mode, c));
    return rc == 0 ? model_view_labels(&t->view, mode, list_of(t, mode, 0), t->components, err)
                   : rc;
}

/* ---- the printed text ---- */

static const char *name_of(const struct top *t, const struct ts_strong *s, char number[32])
{
    snprintf(number, 32, "%" PRIu64, s->index + model_view_base(&t->view));
    return s->label != NULL && *s->label != '\0' ? s->label : number;
}

/* Prints a name in `width` columns: filled with blanks, or cut, with an ellipsis in the last one. A
 * UTF-8 character takes one column, however many bytes it has. A label may be any bytes. */
static void print_name(const char *name, int width)
{
    int columns = 0;
    const int cut = tool_width(name) > width;
    for (; *name != '\0' && columns < width - cut; columns++) {
        char shown[5];
        fwrite(shown, 1, tool_plain_next(&name, SIZE_MAX, shown), stdout);
    }
    if (cut) {
        fputs("\xe2\x80\xa6", stdout);
        columns++;
    }
    for (; columns < width; columns++)
        putchar(' ');
}

/* Whether a label is a date or a time, such as 2024-05 and 2024-05-31T13:00. */
static int is_time(const char *label)
{
    return label != NULL && strspn(label, "0123456789") == 4 && label[4] == '-' &&
           label[strspn(label, "0123456789-:.+TZ")] == '\0';
}

/* Finds how many columns the names of a mode take, and whether all of them are times. */
static void measure_mode(const struct top *t, uint32_t m, int *longest, int *times)
{
    const char *name = model_view_mode_name(&t->view, m);
    char number[32];
    *longest = name != NULL && tool_width(name) > 6 ? tool_width(name) : 6;
    *times = 1;
    for (uint32_t c = 0; c < t->components; c++)
        for (uint32_t k = 0; k < list_of(t, m, c)->n; k++) {
            const struct ts_strong *s = &list_of(t, m, c)->at[k];
            const int chars = tool_width(name_of(t, s, number));
            *longest = chars > *longest ? chars : *longest;
            *times &= is_time(s->label);
        }
    *longest = *longest < MOST_NAME ? *longest : MOST_NAME;
}

/* Gives the free columns of the line, beyond least[], to the names of modes first to last, which
 * are side by side: one at a time to the mode that lacks most. */
static void widen(struct top *t, uint32_t first, uint32_t last, const int least[],
                  const int longest[])
{
    int left = t->columns;
    for (uint32_t m = first; m <= last; m++) {
        t->width[m] = least[m];
        left -= least[m] + BESIDE_NAME;
    }
    for (; left > 0; left--) {
        uint32_t most = first;
        for (uint32_t m = first; m <= last; m++)
            if (longest[m] - t->width[m] > longest[most] - t->width[most])
                most = m;
        if (longest[most] <= t->width[most])
            return;
        t->width[most]++;
    }
}

/* Returns the columns that the widest group of `side` modes printed side by side needs at least. */
static int least_columns(const struct top *t, uint32_t side, const int least[])
{
    int most = 0;
    for (uint32_t m = t->first; m <= t->last; m += side) {
        int sum = 0;
        for (uint32_t i = m; i < m + side && i <= t->last; i++)
            sum += least[i] + BESIDE_NAME;
        most = sum > most ? sum : most;
    }
    return most;
}

/* Returns how many modes are side by side, and sets the columns of their names. Times are never
 * cut; if they need more columns, fewer modes are side by side. */
static uint32_t fit_modes(struct top *t)
{
    const uint32_t n = t->last - t->first + 1;
    const int given = (int)t->args->width;
    int longest[TS_MAX_ORDER], least[TS_MAX_ORDER], times[TS_MAX_ORDER], all = 6;
    uint32_t side = n, groups;
    for (uint32_t m = t->first; m <= t->last; m++) {
        measure_mode(t, m, &longest[m], &times[m]);
        all = longest[m] > all ? longest[m] : all;
    }
    all = given > 0 ? given : all;
    for (uint32_t m = t->first; m <= t->last; m++) {
        t->width[m] = all;
        least[m] = given > 0                             ? given
                   : times[m] || longest[m] < LEAST_NAME ? longest[m]
                                                         : LEAST_NAME;
    }
    while (side > 1 && least_columns(t, side, least) > t->columns)
        side--;
    groups = (n + side - 1) / side;
    side = (n + groups - 1) / groups; /* groups of equal size */
    if (given == 0 && all > t->columns / (int)side - BESIDE_NAME)
        for (uint32_t m = t->first; m <= t->last; m += side)
            widen(t, m, m + side - 1 < t->last ? m + side - 1 : t->last, least, longest);
    return side;
}

static void print_value(double x)
{
    if (x != 0 && fabs(x) < 0.0005)
        printf("  %*.2e  ", VALUE_COLUMNS, x);
    else
        printf("  %*.4f  ", VALUE_COLUMNS, x);
}

static void print_modes(const struct top *t, uint32_t c, uint32_t first, uint32_t last)
{
    uint32_t most = 0;
    for (uint32_t m = first; m <= last; m++) {
        const char *name = model_view_mode_name(&t->view, m);
        char number[32];
        snprintf(number, sizeof number, "mode %" PRIu32, m + 1);
        printf("  %*s  ", VALUE_COLUMNS, "");
        print_name(name != NULL && *name != '\0' ? name : number, t->width[m]);
        most = list_of(t, m, c)->n > most ? list_of(t, m, c)->n : most;
    }
    printf("\n");
    for (uint32_t k = 0; k < most; k++) {
        for (uint32_t m = first; m <= last; m++) {
            const struct ts_strongest *l = list_of(t, m, c);
            char number[32];
            if (k >= l->n) {
                printf("  %*s  %-*s", VALUE_COLUMNS, "", t->width[m], "");
                continue;
            }
            print_value(l->at[k].value);
            print_name(name_of(t, &l->at[k], number), t->width[m]);
        }
        printf("\n");
    }
}

static void print_component(const struct top *t, uint32_t c, uint32_t side)
{
    const double weight = t->view.model->weight[t->view.by_weight[c]];
    printf("component %u  weight %.6g%s\n", c + 1, weight, weight == 0 ? ", so it is empty" : "");
    for (uint32_t m = t->first; m <= t->last && weight != 0; m += side)
        print_modes(t, c, m, m + side - 1 < t->last ? m + side - 1 : t->last);
    printf("\n");
}

/* ---- the strongest indices as JSON ---- */

static void print_component_json(const struct top *t, uint32_t c)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_u64(&j, "component", c + 1);
    tool_json_f64(&j, "weight", t->view.model->weight[t->view.by_weight[c]]);
    tool_json_array(&j, "mode_names");
    for (uint32_t m = t->first; m <= t->last; m++)
        tool_json_str(&j, NULL, model_view_mode_name(&t->view, m));
    tool_json_close(&j);
    tool_json_array(&j, "modes");
    for (uint32_t m = t->first; m <= t->last; m++) {
        const struct ts_strongest *l = list_of(t, m, c);
        tool_json_array(&j, NULL);
        for (uint32_t k = 0; k < l->n; k++) {
            tool_json_object(&j, NULL);
            tool_json_u64(&j, "index", l->at[k].index + model_view_base(&t->view));
            tool_json_str(&j, "label", l->at[k].label);
            tool_json_f64(&j, "value", l->at[k].value);
            tool_json_close(&j);
        }
        tool_json_close(&j);
    }
    tool_json_close(&j);
    tool_json_close(&j);
}

static void print_csv_head(void)
{
    printf("component,weight,mode,mode_name,position,index,label,value\n");
}

static void print_component_csv(const struct top *t, uint32_t c)
{
    struct tool_csv csv = { .to = stdout };
    for (uint32_t m = t->first; m <= t->last; m++)
        for (uint32_t k = 0; k < list_of(t, m, c)->n; k++) {
            const struct ts_strong *s = &list_of(t, m, c)->at[k];
            tool_csv_u64(&csv, c + 1);
            tool_csv_f64(&csv, t->view.model->weight[t->view.by_weight[c]]);
            tool_csv_u64(&csv, m + 1);
            tool_csv_text(&csv, model_view_mode_name(&t->view, m));
            tool_csv_u64(&csv, k + 1);
            tool_csv_u64(&csv, s->index + model_view_base(&t->view));
            tool_csv_text(&csv, s->label);
            tool_csv_f64(&csv, s->value);
            tool_csv_end(&csv);
        }
}

/* ---- the command ---- */

static void print_all(struct top *t)
{
    uint32_t side = 1;
    if (t->args->csv)
        print_csv_head();
    else if (!t->args->json)
        side = fit_modes(t);
    for (uint32_t c = 0; c < t->components && !ferror(stdout); c++)
        if (t->args->json)
            print_component_json(t, c);
        else if (t->args->csv)
            print_component_csv(t, c);
        else
            print_component(t, c, side);
}

static int show(struct top *t, struct ts_err *err)
{
    const uint32_t order = t->view.model->order;
    int rc = 0;
    t->first = t->args->mode > 0 ? t->args->mode - 1 : 0;
    t->last = t->args->mode > 0 ? t->first : order - 1;
    t->components = model_view_components(&t->view, t->args->components);
    t->columns = tool_columns();
    t->view.shows = 1;
    t->list = calloc((size_t)order * t->components, sizeof *t->list);
    if (t->list == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->view.model->path);
    for (uint32_t m = t->first; m <= t->last && rc == 0; m++)
        rc = scan_mode(t, m, err);
    if (rc == 0)
        print_all(t);
    return rc == 0 ? tool_flushed(err) : rc;
}

static int take_mode(const struct top *t, struct top_args *args, struct ts_err *err)
{
    const struct tool_modes modes = model_view_modes(&t->view);
    return tool_mode_option(&modes, t->view.model->path, args->mode_text, 1, &args->mode, err);
}

static void free_lists(struct top *t)
{
    const size_t n = t->list == NULL ? 0 : (size_t)t->view.model->order * t->components;
    for (size_t i = 0; i < n; i++)
        ts_strongest_free(&t->list[i]);
    free(t->list);
}

static int run_top(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct top_args args;
    struct top t = { .args = &args };
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand);
    int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0 && args.n == 0)
        status = tool_usage(cmd, "--count must be at least 1");
    if (status < 0 && args.width != 0 && (args.width < 6 || args.width > 1000))
        status = tool_usage(cmd, "--width must be 6 to 1000, or 0");
    if (status < 0 && args.csv && args.json)
        status = tool_usage(cmd, "--csv and --json exclude each other");
    if (status < 0) {
        int rc;
        tool_catch_signals();
        rc = model_view_open(cmd, n_operands, operand, &t.view, &err);
        if (rc == 0)
            rc = take_mode(&t, &args, &err);
        if (rc == 0)
            rc = show(&t, &err);
        status = rc < 0 ? tool_fail(cmd, &err) : 0;
        free_lists(&t);
        model_view_close(&t.view);
    }
    free(operand);
    return status;
}

const struct ts_cmd tstream_top = {
    .program = "tstream",
    .name = "top",
    .operands = "[MODEL] [TENSOR.tsh]",
    .max_operands = 2,
    .summary = "print the strongest indices of each component of a decomposition",
    .text =
        "Prints the entries of largest magnitude in each mode of each component. Indices have "
        "the names that the tensor was built with, or numbers from 1. MODEL carries the names "
        "in its file labels, so the tensor is not needed. If TENSOR.tsh is given, the names are "
        "those of that tensor. It is refused if an index has another name in the model.\n\n"
        "MODEL is a directory of tstream cp or a ktensor file. Without it, the command takes "
        "the only .cp in the current directory, or the one with the name of the tensor. Without "
        "TENSOR.tsh, it takes the .tsh in the current directory with the name of MODEL, or the "
        "only one, if its shape and its names match. Otherwise it takes the tensor in run.json, if it has "
        "not changed.\n\n"
        "--csv and --json print all digits. The columns of --csv are component (by weight, from "
        "1), weight, mode (from 1), mode_name, position (from 1), index (from 1), label (empty "
        "if there is none) and value.",
    .examples =
        "tstream top --count 10\n  print ten names of each component\n"
        "tstream top result amazon.tsh --components 3 --json\n  print three components as JSON\n"
        "tstream top result --count 4294967295 --csv > factors.csv\n  write all entries, sorted, for a spreadsheet\n",
    .opts = top_opts,
    .run = run_top,
};
