/* tstream_top.c - tstream top: the strongest indices of each component, by name. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cpd/model_read.h"
#include "format/tensor.h"
#include "tools/tool.h"
#include "tools/tstream.h"
#include "tools/tstream_operand.h"

struct top_args {
    uint32_t n, components, width;
    uint64_t mode;
    int json;
};

#define AT(field) offsetof(struct top_args, field)
static const struct ts_opt top_opts[] = {
    { "count", 'n', TS_OPT_U32, AT(n), "5", "N", "indices of each mode" },
    { "components", 'c', TS_OPT_U32, AT(components), "0", "N",
      "components, those of largest weight first; 0 shows all" },
    { "mode", 'k', TS_OPT_U64, AT(mode), "0", "K", "one mode alone, from 1; 0 shows all" },
    { "width", 'w', TS_OPT_U32, AT(width), "24", "N", "characters of a name" },
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL,
      "one JSON object a line on standard output, one for each component" },
    { 0 },
};

#define MAX_TOP 1000u

struct strong {
    double value;
    uint64_t index; /* in the input, from 0 */
    char *label;    /* or NULL */
};

struct top {
    const struct top_args *args;
    struct ts_model *model;
    struct ts_tensor *tensor; /* NULL: no names */
    uint32_t n, components;
    uint32_t *by_weight;        /* rank: component, largest weight first */
    struct strong *strong;      /* (mode, component, n) */
    uint32_t found[TS_MAX_ORDER]; /* n, or fewer in a small mode */
};

static struct strong *list_of(const struct top *t, uint32_t mode, uint32_t component)
{
    return t->strong + ((size_t)mode * t->components + component) * t->n;
}

/* Keeps the list sorted by magnitude; equal ones keep the order of the rows. */
static void insert(struct strong *list, uint32_t held, uint32_t n, double value, uint64_t index)
{
    uint32_t at = held < n ? held : n;
    if (at == n && fabs(list[n - 1].value) >= fabs(value))
        return;
    at = at == n ? n - 1 : at;
    for (; at > 0 && fabs(list[at - 1].value) < fabs(value); at--)
        list[at] = list[at - 1];
    list[at].value = value;
    list[at].index = index;
    list[at].label = NULL;
}

/* Index in the input of each row, or NULL when row i is index i. */
static int map_rows(const struct top *t, uint32_t mode, uint64_t **ret, struct ts_err *err)
{
    const uint64_t rows = t->model->n_rows[mode];
    *ret = NULL;
    if (t->tensor == NULL)
        return ts_model_index(t->model, mode, ret, err);
    if (rows == t->tensor->mode[mode].disk.dim)
        return 0;
    if (rows == t->tensor->mode[mode].disk.n_rows)
        return ts_tensor_rows(t->tensor, mode, ret, err);
    return ts_fail(err, TS_EARG,
                   "%s: mode %u has %" PRIu64 " rows, but the tensor %s has %" PRIu64 " indices there",
                   t->model->path, mode + 1, rows, t->tensor->path, t->tensor->mode[mode].disk.dim);
}

static int scan_mode(struct top *t, uint32_t mode, struct ts_err *err)
{
    const uint32_t rank = t->model->rank;
    const uint64_t rows = t->model->n_rows[mode], step = 4096 / rank + 1;
    double *buf = malloc(step * rank * sizeof *buf);
    uint64_t *index = NULL;
    int rc = buf == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for rows")
                         : map_rows(t, mode, &index, err);
    for (uint64_t row = 0; row < rows && rc == 0; row += step) {
        const uint64_t k = rows - row < step ? rows - row : step;
        rc = ts_model_rows(t->model, mode, k, buf, err);
        for (uint64_t i = 0; i < k && rc == 0; i++)
            for (uint32_t c = 0; c < t->components; c++)
                insert(list_of(t, mode, c), row + i < t->n ? (uint32_t)(row + i) : t->n, t->n,
                       buf[i * rank + t->by_weight[c]], index == NULL ? row + i : index[row + i]);
        if (tool_stop != 0 && rc == 0)
            rc = ts_fail(err, TS_ESTOP, "stopped");
    }
    t->found[mode] = rows < t->n ? (uint32_t)rows : t->n;
    free(index);
    free(buf);
    return rc;
}

static int by_index(const void *a, const void *b)
{
    const struct strong *const *x = a, *const *y = b;
    return (*x)->index < (*y)->index ? -1 : (*x)->index > (*y)->index;
}

static int add_labels(struct top *t, uint32_t mode, struct ts_err *err)
{
    const size_t n = (size_t)t->components * t->found[mode];
    struct strong **entry = malloc((n + 1) * sizeof *entry);
    uint64_t *index = malloc((n + 1) * sizeof *index);
    char **label = calloc(n + 1, sizeof *label);
    int rc = 0;
    if (entry == NULL || index == NULL || label == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for names");
    for (size_t i = 0; i < n && rc == 0; i++)
        entry[i] = list_of(t, mode, (uint32_t)(i / t->found[mode])) + i % t->found[mode];
    if (rc == 0) {
        qsort(entry, n, sizeof *entry, by_index);
        for (size_t i = 0; i < n; i++)
            index[i] = entry[i]->index;
        rc = ts_tensor_labels(t->tensor, mode, n, index, label, err);
    }
    for (size_t i = 0; i < n && rc == 0; i++)
        entry[i]->label = label[i];
    free(entry);
    free(index);
    free(label);
    return rc;
}

/* A name in `width` columns, cut or filled: a UTF-8 character is one, however many bytes it has. A label
 * is any bytes of a file; control characters among them do not reach the terminal. */
static void print_name(const char *name, uint32_t width)
{
    uint32_t columns = 0;
    for (; *name != '\0'; name++) {
        const unsigned char c = (unsigned char)*name;
        columns += (c & 0xc0) != 0x80; /* not the middle of one */
        if (columns > width)
            break;
        putchar(c < ' ' || c == 0x7f ? '?' : c);
    }
    for (; columns < width; columns++)
        putchar(' ');
}

static void print_component(const struct top *t, uint32_t c, uint32_t first, uint32_t last)
{
    const int width = (int)t->args->width;
    printf("component %u  weight %.6g\n", c + 1, t->model->weight[t->by_weight[c]]);
    for (uint32_t m = first; m <= last; m++)
        printf("  %9s  mode %-*u", "", width - 5, m + 1);
    printf("\n");
    for (uint32_t k = 0; k < t->n; k++) {
        int any = 0;
        for (uint32_t m = first; m <= last; m++)
            any |= k < t->found[m];
        if (!any)
            break;
        for (uint32_t m = first; m <= last; m++) {
            const struct strong *s = list_of(t, m, c) + k;
            char number[32];
            snprintf(number, sizeof number, "%" PRIu64, s->index + 1);
            if (k >= t->found[m])
                printf("  %9s  %-*s", "", width, "");
            else {
                printf("  %9.4f  ", s->value);
                print_name(s->label != NULL && *s->label != '\0' ? s->label : number,
                           t->args->width);
            }
        }
        printf("\n");
    }
    printf("\n");
}

static void print_component_json(const struct top *t, uint32_t c, uint32_t first, uint32_t last)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_u64(&j, "component", c + 1);
    tool_json_f64(&j, "weight", t->model->weight[t->by_weight[c]]);
    tool_json_array(&j, "modes");
    for (uint32_t m = first; m <= last; m++) {
        tool_json_array(&j, NULL);
        for (uint32_t k = 0; k < t->found[m]; k++) {
            const struct strong *s = list_of(t, m, c) + k;
            tool_json_object(&j, NULL);
            tool_json_u64(&j, "index", s->index + 1);
            tool_json_str(&j, "label", s->label);
            tool_json_f64(&j, "value", s->value);
            tool_json_close(&j);
        }
        tool_json_close(&j);
    }
    tool_json_close(&j);
    tool_json_close(&j);
}

static int sort_components(struct top *t, struct ts_err *err)
{
    const uint32_t rank = t->model->rank;
    t->by_weight = calloc(rank, sizeof *t->by_weight);
    t->strong = calloc((size_t)t->model->order * t->components * t->n, sizeof *t->strong);
    if (t->by_weight == NULL || t->strong == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->model->path);
    for (uint32_t r = 0; r < rank; r++) {
        uint32_t at = r;
        for (; at > 0 && t->model->weight[t->by_weight[at - 1]] < t->model->weight[r]; at--)
            t->by_weight[at] = t->by_weight[at - 1];
        t->by_weight[at] = r;
    }
    return 0;
}

static int show(struct top *t, struct ts_err *err)
{
    const uint32_t order = t->model->order;
    const uint32_t first = t->args->mode > 0 ? (uint32_t)t->args->mode - 1 : 0;
    const uint32_t last = t->args->mode > 0 ? first : order - 1;
    int rc;
    if (t->args->mode > order)
        return ts_fail(err, TS_EARG, "%s: there is no mode %" PRIu64 ", only %u", t->model->path,
                       t->args->mode, order);
    if (t->tensor != NULL && t->tensor->order != order)
        return ts_fail(err, TS_EARG, "%s: the model has %u modes, the tensor %s has %u",
                       t->model->path, order, t->tensor->path, t->tensor->order);
    rc = sort_components(t, err);
    for (uint32_t m = first; m <= last && rc == 0; m++) {
        rc = scan_mode(t, m, err);
        if (rc == 0 && t->tensor != NULL)
            rc = add_labels(t, m, err);
    }
    for (uint32_t c = 0; c < t->components && rc == 0; c++)
        if (t->args->json)
            print_component_json(t, c, first, last);
        else
            print_component(t, c, first, last);
    return rc == 0 ? tool_flushed(err) : rc;
}

static int is_tensor(const char *name)
{
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] == '/')
        n--;
    return n > 4 && strncmp(name + n - 4, ".tsh", 4) == 0;
}

/* The tensor of this directory that a decomposition is of: NAME.tsh for NAME.cp, as tstream cp names
 * them, else the only one; NULL when neither is there. */
static char *tensor_here(const char *model)
{
    char *path = tstream_operand_swap(model, "");
    const size_t n = path == NULL ? 0 : strlen(path);
    struct stat st;
    if (n > 3 && strcmp(path + n - 3, ".cp") == 0) {
        char *named;
        path[n - 3] = '\0';
        named = tstream_operand_swap(path, ".tsh");
        free(path);
        if (named != NULL && stat(named, &st) == 0)
            return named;
        path = named;
    }
    free(path);
    return tstream_operand(NULL, ".tsh", "tensor", &path, NULL) == 0 ? path : NULL;
}

/* Operands in any order: what ends with .tsh is the tensor. */
static int open_both(struct top *t, uint32_t n_operands, char **operand, struct ts_err *err)
{
    const char *tensor = NULL, *model = NULL;
    char *path;
    int rc;
    for (uint32_t i = 0; i < n_operands; i++) {
        const char **which = is_tensor(operand[i]) ? &tensor : &model;
        if (*which != NULL)
            return ts_fail(err, TS_EARG, "%s and %s: one decomposition and one tensor are wanted",
                           *which, operand[i]);
        *which = operand[i];
    }
    if (model == NULL && tensor != NULL)
        path = tstream_operand_swap(tensor, ".cp");
    else {
        rc = tstream_operand(model, ".cp", "decomposition", &path, err);
        if (rc < 0)
            return rc;
    }
    rc = path == NULL ? ts_fail(err, TS_ENOMEM, "out of memory")
                      : ts_model_open(path, &t->model, err);
    free(path);
    if (rc < 0)
        return rc;
    path = tensor == NULL ? tensor_here(t->model->path) : NULL;
    if (path != NULL) {
        /* the tensor of this directory, if it is the one that was decomposed */
        rc = ts_tensor_open(path, &t->tensor, err);
        free(path);
        for (uint32_t m = 0; rc == 0 && t->tensor != NULL && m < t->model->order; m++)
            if (t->tensor->order != t->model->order ||
                (t->model->n_rows[m] != t->tensor->mode[m].disk.dim &&
                 t->model->n_rows[m] != t->tensor->mode[m].disk.n_rows)) {
                ts_tensor_close(t->tensor);
                t->tensor = NULL;
            }
        return rc;
    }
    return tensor == NULL ? 0 : ts_tensor_open(tensor, &t->tensor, err);
}

static void close_both(struct top *t)
{
    const size_t n = t->model == NULL ? 0 : (size_t)t->model->order * t->components * t->n;
    for (size_t i = 0; i < n && t->strong != NULL; i++)
        free(t->strong[i].label);
    free(t->strong);
    free(t->by_weight);
    ts_tensor_close(t->tensor);
    ts_model_close(t->model);
}

static int run_top(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct top_args args;
    struct top t = { .args = &args };
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand);
    int status = operand == NULL
                     ? 1
                     : tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0 && (args.n == 0 || args.n > MAX_TOP))
        status = tool_usage(cmd, "--count must be 1 to %u", MAX_TOP);
    if (status < 0 && (args.width < 6 || args.width > 200))
        status = tool_usage(cmd, "--width must be 6 to 200");
    if (status < 0) {
        int rc;
        tool_catch_signals();
        t.n = args.n;
        rc = open_both(&t, n_operands, operand, &err);
        if (rc == 0) {
            t.components = args.components > 0 && args.components < t.model->rank ? args.components
                                                                                  : t.model->rank;
            rc = show(&t, &err);
        }
        status = rc < 0 ? tool_fail(cmd, &err) : 0;
        close_both(&t);
    }
    free(operand);
    return status;
}

const struct ts_cmd tstream_top = {
    .program = "tstream",
    .name = "top",
    .operands = "[FACTORS] [TENSOR.tsh]",
    .max_operands = 2,
    .summary = "print the strongest indices of each component of a decomposition",
    .text = "For each component, the entries of largest magnitude in each mode, with the names that "
            "the tensor was built with, or numbers from 1 where there are none.\n\n"
            "FACTORS is a directory written by tstream cp or a ktensor file. Without it the one .cp "
            "of the current directory is taken, or the one named like the tensor; without "
            "TENSOR.tsh, the .tsh of the current directory that is named like FACTORS, or the only "
            "one, if its shape fits.",
    .examples = "tstream top --count 10\n  ten names of each component\n"
                "tstream top result amazon.tsh --components 3 --json\n  three components as JSON\n",
    .opts = top_opts,
    .run = run_top,
};
