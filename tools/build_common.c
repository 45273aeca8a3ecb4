#include "tools/build_common.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/num.h"
#include "format/tensor.h"

static void show(void *arg, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    struct tool_progress *p = arg;
    if (p->what == NULL || strcmp(p->what, what) != 0) {
        static char name[64]; /* `what` need not stay */
        if (p->what != NULL)
            tool_progress_end(p);
        snprintf(name, sizeof name, "%s", what);
        tool_progress_start(p, name, unit, total);
    }
    tool_progress_update(p, done);
}

int build_common_apply(const struct build_common *c, struct ts_build_options *o,
                       struct tool_progress *progress, struct ts_err *err)
{
    struct ts_machine machine;
    ts_machine_get(&machine);
    o->force = c->force;
    o->value_bytes = c->values == 0 ? 4 : 8;
    o->threads = c->threads > 0 ? c->threads : machine.cpus;
    o->memory = c->memory > 0 ? c->memory : machine.free_bytes / 2;
    if (c->memory == 0 && o->memory < TS_BUILD_MIN_MEMORY)
        o->memory = TS_BUILD_MIN_MEMORY;
    o->shard_bytes = c->shard;
    o->tmp = c->tmp != NULL ? c->tmp : getenv("TMPDIR");
    if (o->tmp != NULL && *o->tmp == '\0')
        o->tmp = NULL;
    if (o->memory < TS_BUILD_MIN_MEMORY)
        return ts_fail(err, TS_EARG, "--memory must be at least 32M");
    if (o->shard_bytes < TS_BUILD_MIN_SHARD || o->shard_bytes > TS_BUILD_MAX_SHARD)
        return ts_fail(err, TS_EARG, "--shard must be 64K to 256M");
    if (o->threads > 1024)
        return ts_fail(err, TS_EARG, "--threads must be at most 1024");
    memset(progress, 0, sizeof *progress);
    o->progress = show;
    o->progress_arg = progress;
    tool_catch_signals();
    o->stop = &tool_stop;
    return 0;
}

static void report_json(const struct ts_cmd *cmd, const struct ts_build_options *o,
                        const struct ts_build_report *r, const struct ts_tensor *t)
{
    const double seconds = 1e-9 * (double)(r->read_ns + r->merge_ns + r->pack_ns + r->sync_ns);
    struct tool_json j;
    (void)cmd;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "tensor", o->out);
    tool_json_array(&j, "shape");
    for (uint32_t m = 0; m < r->order; m++)
        tool_json_u64(&j, NULL, r->dim[m]);
    tool_json_close(&j);
    tool_json_u64(&j, "nnz", r->nnz);
    tool_json_u64(&j, "read", r->input_nnz);
    tool_json_u64(&j, "duplicates", r->n_duplicates);
    tool_json_u64(&j, "zeros", r->n_zeros);
    tool_json_f64(&j, "entropy_bound", ts_tensor_entropy_bound(t));
    tool_json_array(&j, "bytes_per_nnz");
    for (uint32_t m = 0; m < r->order; m++)
        tool_json_f64(&j, NULL, ts_tensor_bytes_per_nnz(t, m));
    tool_json_close(&j);
    tool_json_u64(&j, "runs", r->n_runs);
    tool_json_u64(&j, "memory", o->memory);
    tool_json_u64(&j, "threads", o->threads);
    tool_json_f64(&j, "seconds", seconds);
    tool_json_f64(&j, "read_seconds", 1e-9 * (double)r->read_ns);
    tool_json_f64(&j, "merge_seconds", 1e-9 * (double)r->merge_ns);
    tool_json_f64(&j, "pack_seconds", 1e-9 * (double)r->pack_ns);
    tool_json_f64(&j, "sync_seconds", 1e-9 * (double)r->sync_ns);
    tool_json_close(&j);
}

static void report_text(const struct ts_build_options *o, const struct ts_build_report *r,
                        const struct ts_tensor *t)
{
    const uint64_t ns = r->read_ns + r->merge_ns + r->pack_ns + r->sync_ns;
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], c[TS_NUM_CHARS];
    const double bound = ts_tensor_entropy_bound(t);
    printf("%s: ", o->out);
    for (uint32_t m = 0; m < r->order; m++)
        printf("%s%" PRIu64, m > 0 ? " x " : "", r->dim[m]);
    printf(", %s nonzeros\n", ts_num_count(a, r->nnz));
    printf("  read %s, %s %s duplicates, dropped %s zeros\n", ts_num_count(a, r->input_nnz),
           o->duplicates == TS_DUPLICATES_KEEP ? "kept" : "merged", ts_num_count(b, r->n_duplicates),
           ts_num_count(c, r->n_zeros));
    printf("  bytes per nonzero");
    for (uint32_t m = 0; m < r->order; m++)
        printf("%s %.2f", m > 0 ? "," : "", ts_tensor_bytes_per_nnz(t, m));
    printf(" (entropy bound %.2f)\n", bound);
    printf("  %s, %s nonzeros/s", ts_num_duration(a, ns),
           ts_num_short(b, (double)r->input_nnz / (1e-9 * (double)ns + 1e-9)));
    if (r->n_runs > 0)
        printf(", through %s sorted runs on disk", ts_num_count(c, r->n_runs));
    printf("\n");
}

int build_common_report(const struct ts_cmd *cmd, const struct ts_build_options *o,
                        const struct ts_build_report *r, int json, struct ts_err *err)
{
    struct ts_tensor *t;
    const int rc = ts_tensor_open(o->out, &t, err);
    if (rc < 0)
        return rc;
    if (json)
        report_json(cmd, o, r, t);
    else
        report_text(o, r, t);
    ts_tensor_close(t);
    return 0;
}

int build_common_dims(const char *text, uint64_t dim[TS_MAX_ORDER], struct ts_err *err)
{
    const char *p = text;
    for (uint32_t n = 0;; p++) {
        uint64_t v = 0;
        const char *start = p;
        for (; *p >= '0' && *p <= '9' && v <= TS_MAX_DIM; p++)
            v = 10 * v + (uint64_t)(*p - '0');
        if (p == start || v == 0 || v > TS_MAX_DIM || (*p != '\0' && *p != 'x'))
            return ts_fail(err, TS_EARG, "--dims %s: expected sizes from 1 to 2^40 like 30x40x50",
                           text);
        if (n == TS_MAX_ORDER)
            return ts_fail(err, TS_EARG, "--dims %s: at most %u modes are possible", text,
                           TS_MAX_ORDER);
        dim[n++] = v;
        if (*p == '\0')
            return (int)n;
    }
}
