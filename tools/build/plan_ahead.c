/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints bounds for the disk space and memory of a build without reading its input. */
#include "tools/build/plan_ahead.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tools/common/plan_rows.h"
#include "tools/common/tool.h"

#define FACTOR_RANK 16u /* rank for which the factors are counted: the default of tstream cp */

struct plan_ahead {
    const struct ts_build_options *o; /* settings of the build, of which dim and n_dims are set */
    uint64_t nnz;
    uint64_t disk; /* free bytes on the disk; 0: unknown */
};

static struct ts_need need_of(const struct plan_ahead *p)
{
    struct ts_build_space_in in = { .o = p->o, .order = p->o->n_dims };
    struct ts_need ret;
    in.value_bits = 8 * p->o->value_bytes;
    in.read = in.nnz = (struct ts_space){ p->nnz, p->nnz };
    for (uint32_t m = 0; m < in.order; m++)
        in.dim[m] = (struct ts_space){ p->o->dim[m], p->o->dim[m] };
    ts_build_space_estimate(&in, &ret);
    return ret;
}

static const char *verdict(const struct plan_ahead *p, const struct ts_need *need)
{
    return need->both.low > p->disk ? "no" : need->both.high <= p->disk ? "yes" : "perhaps";
}

/* Prints a row of the plan with the bounds of a size, such as "1.2 GiB or more" or "1.2 GiB to 3
 * GiB". */
static void bounds_row(const char *what, struct ts_space s)
{
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], note[80];
    if (s.high == UINT64_MAX)
        snprintf(note, sizeof note, "or more");
    else
        snprintf(note, sizeof note, "to %s", ts_num_bytes(b, s.high));
    plan_row(what, ts_num_bytes(a, s.low), s.low == s.high ? "" : note);
}

/* Returns an upper bound of the bytes of the factors of a decomposition: each index has a row. */
static double factor_bytes(const struct plan_ahead *p)
{
    double rows = 0;
    for (uint32_t m = 0; m < p->o->n_dims; m++)
        rows += fmin((double)p->o->dim[m], (double)p->nnz);
    return rows * FACTOR_RANK * sizeof(float);
}

/* Returns the bytes of the indices in the copies of all modes if cells are at random positions:
 * log2(cells choose nonzeros) bits in each copy. */
static double random_bytes(const struct plan_ahead *p)
{
    double bits = -log2((double)p->nnz) + 1 / log(2);
    for (uint32_t m = 0; m < p->o->n_dims; m++)
        bits += log2((double)p->o->dim[m]);
    return p->o->n_dims * (double)p->nnz * fmax(bits, 0) / 8;
}

static void print_text(const struct plan_ahead *p, const struct ts_need *need)
{
    char a[TS_NUM_CHARS], what[40];
    printf("tensor\n");
    plan_row("nonzeros", ts_num_short(a, (double)p->nnz), "as given");
    for (uint32_t m = 0; m < p->o->n_dims; m++) {
        snprintf(what, sizeof what, "size of mode %" PRIu32, m + 1);
        plan_row(what, ts_num_short(a, (double)p->o->dim[m]), "");
    }
    printf("disk\n");
    bounds_row("tensor", need->result);
    plan_bytes_row("indices alone, if cells are random", random_bytes(p), "about");
    bounds_row("temporary files of the build", need->tmp);
    bounds_row("both, on one disk", need->both);
    if (p->disk > 0) {
        snprintf(what, sizeof what, "fits on %s", ts_num_bytes(a, p->disk));
        plan_row(what, verdict(p, need), "");
    }
    printf("memory\n");
    plan_bytes_row("build: --memory and 24 MiB", (double)p->o->memory + (24 << 20), "");
    plan_bytes_row("factors at rank 16, float32", factor_bytes(p), "at most, for tstream cp");
    printf("bounds for any tensor of these sizes, without labels: tshard plan FILE... measures\n");
}

static void json_bytes(struct tool_json *j, const char *key, uint64_t x)
{
    if (x == UINT64_MAX)
        tool_json_f64(j, key, NAN);
    else
        tool_json_u64(j, key, x);
}

static void print_json(const struct plan_ahead *p, const struct ts_need *need)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "plan");
    tool_json_array(&j, "shape");
    for (uint32_t m = 0; m < p->o->n_dims; m++)
        tool_json_u64(&j, NULL, p->o->dim[m]);
    tool_json_close(&j);
    tool_json_u64(&j, "nnz", p->nnz);
    tool_json_bool(&j, "exact", 0);
    tool_json_object(&j, "disk");
    json_bytes(&j, "free_bytes", p->disk > 0 ? p->disk : UINT64_MAX);
    json_bytes(&j, "least_bytes", need->both.low);
    json_bytes(&j, "most_bytes", need->both.high);
    tool_json_close(&j);
    tool_json_object(&j, "memory");
    tool_json_u64(&j, "budget_bytes", p->o->memory);
    tool_json_close(&j);
    tool_json_str(&j, "fits", p->disk > 0 ? verdict(p, need) : NULL);
    tool_json_close(&j);
}

int plan_ahead(const struct ts_cmd *cmd, const struct build_opts *opts, const char *dims,
               uint64_t nnz, uint64_t disk)
{
    struct ts_build_options o = { 0 };
    const struct plan_ahead p = { .o = &o, .nnz = nnz, .disk = disk };
    struct tool_progress progress;
    struct ts_need need;
    struct ts_err err;
    int rc;
    if (nnz == 0 || dims == NULL)
        return tool_usage(cmd, "an operand is missing: name files, or give --nnz and --dims");
    rc = build_opts_apply(opts, &o, &progress, &err);
    if (rc == 0)
        rc = build_opts_dims(dims, o.dim, &err);
    if (rc < 0)
        return tool_usage(cmd, "%s", err.text);
    o.n_dims = (uint32_t)rc;
    need = need_of(&p);
    if (opts->json)
        print_json(&p, &need);
    else
        print_text(&p, &need);
    return tool_flushed(&err) < 0 ? tool_fail(cmd, &err) : 0;
}
