/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the plan of a run as text or JSON. */
#include "tools/cp/plan_print.h"

#include <inttypes.h>

#include "tools/common/plan_rows.h"

static uint64_t host_bytes(const struct run_plan *p)
{
    return p->run.host_bytes + p->program_bytes + p->library_bytes;
}

/* Returns what the passes over the modes compute, in words. */
static const char *passes_name(const struct run_plan *p)
{
    const struct ts_spec *c = &p->args->spec;
    return c->poisson               ? "rounds of the rows"
           : c->loss != TS_GCP_NONE ? "gradients of the loss"
           : c->observed            ? "completion, a Gram matrix a row"
                                    : "products";
}

double plan_sum(const double *x, uint32_t n)
{
    double s = 0;
    for (uint32_t i = 0; i < n; i++)
        s += x[i];
    return s;
}

/* Returns the seconds that one model takes. */
static double model_seconds(const struct run_plan *p)
{
    return p->pace.first_s + (p->args->iters - 1) * p->pace.sweep_s;
}

/* Returns the seconds that all models take, as if each had the largest rank (number of components)
 * and read the tensor again. */
static double run_seconds(const struct run_plan *p)
{
    return tstream_cp_models(p->args) * model_seconds(p);
}

/* ---- the plan as a table ---- */

/* Returns the memory of all processes on a machine, as if each needed as much as this one. */
static uint64_t machine_bytes(const struct run_plan *p)
{
    const uint32_t n = p->ranks.n > 0 ? p->ranks.per_host : 1;
    return n * host_bytes(p) - (n - 1) * p->ranks.shared_bytes;
}

static void print_machine(const struct run_plan *p)
{
    char what[40], note[80], a[TS_NUM_CHARS];
    snprintf(what, sizeof what, "the %u processes of a machine", p->ranks.per_host);
    if (p->ranks.shared_bytes > 0)
        snprintf(note, sizeof note, "with one copy of %s", ts_num_bytes(a, p->ranks.shared_bytes));
    else
        snprintf(note, sizeof note, p->run.n_devices > 0 ? "" : "each with factors of its own");
    plan_bytes_row(what, machine_bytes(p), note);
}

static void print_host(const struct run_plan *p)
{
    char a[TS_NUM_CHARS], note[80];
    printf("memory of the host\n");
    if (p->memory.factor_bytes > 0)
        plan_bytes_row("factor matrices", p->memory.factor_bytes,
                       p->args->accelerate ? "with those of the sweep before" : "");
    plan_bytes_row("partial sums, Gram matrices, start",
                   p->memory.other_bytes - p->memory.rest_bytes, "at most");
    snprintf(note, sizeof note, p->run.n_slots == 0 ? "all of them" : "%.0f %% of %s",
             100 * (double)p->run.resident_bytes / (double)(p->run.passing_bytes + 1),
             ts_num_bytes(a, p->run.passing_bytes));
    plan_bytes_row(p->dense && p->run.n_devices > 0 ? "slabs that stay here"
                   : p->dense                       ? "slabs that stay"
                   : p->run.n_devices > 0           ? "shards that stay here"
                                                    : "shards that stay",
                   p->run.resident_bytes, note);
    if (p->run.n_slots > 0) {
        snprintf(note, sizeof note, "%" PRIu64 " of %s", p->run.n_slots,
                 ts_num_bytes(a, p->run.slot_bytes));
        plan_bytes_row("slots for the others", p->run.n_slots * p->run.slot_bytes, note);
    }
    if (p->memory.spare_bytes > 0)
        plan_bytes_row(p->dense ? "products of several modes" : "shards decoded",
                       p->memory.spare_bytes, p->dense ? "" : "at most");
    if (p->memory.copy_bytes > 0)
        plan_bytes_row("copy of the state", p->memory.copy_bytes, "for --checkpoint");
    if (p->library_bytes > 0)
        plan_bytes_row("driver and libraries of the GPUs", p->library_bytes, "");
    plan_bytes_row(p->dense ? "program" : "program, tables of shards", p->program_bytes, "");
    snprintf(note, sizeof note, "of %s free", ts_num_bytes(a, p->memory.free_bytes));
    plan_bytes_row("in all", host_bytes(p), note);
    if (plan_ranks_beside(&p->ranks))
        print_machine(p);
    if (p->memory.rest_bytes > 0)
        plan_bytes_row("more when the fit nears 1", p->memory.rest_bytes, "");
}

static uint64_t device_bytes(const struct ts_device_memory *d)
{
    return d->factor_bytes + d->sum_bytes + d->kept_bytes + d->slot_bytes + d->shared_bytes +
           d->driver_bytes;
}

static void print_device(const struct run_plan *p, const struct ts_device_memory *d)
{
    printf("memory of GPU %d\n", d->number);
    plan_bytes_row("factor matrices", d->factor_bytes, "");
    plan_bytes_row("partial sums, Gram matrices", d->sum_bytes, "");
    if (d->shared_bytes > 0)
        plan_bytes_row("products of several modes", d->shared_bytes, "");
    plan_bytes_row(p->dense ? "cells that stay" : "shards that stay", d->kept_bytes, "");
    plan_bytes_row("slots for the others", d->slot_bytes, "");
    plan_bytes_row("driver and libraries", d->driver_bytes, "");
    plan_bytes_row("in all", device_bytes(d), "");
}

static void print_sweep(const struct run_plan *p, const struct ts_tensor *t)
{
    const double products = plan_sum(p->pace.product_s, t->order),
                 rows = plan_sum(p->pace.rows_s, t->order);
    const uint32_t n_passes =
        t->order - (uint32_t)__builtin_popcount(ts_spec_skipped(&p->args->spec, t->order));
    char a[TS_NUM_CHARS], note[80], what[40];
    printf("a sweep\n");
    plan_bytes_row("from disk", p->run.disk_bytes, "");
    for (uint32_t i = 0; i < p->run.n_devices; i++) {
        snprintf(what, sizeof what, "to GPU %d", p->run.device[i].number);
        plan_bytes_row(what, p->run.link_bytes[i], "");
    }
    snprintf(note, sizeof note, "%s %s/s",
             ts_num_short(a, products > 0 ? (double)t->nnz * n_passes / products : 0),
             p->dense ? "cells" : "nonzeros");
    plan_time_row(passes_name(p), products, note);
    if (p->pace.again_s > 0)
        plan_time_row(p->args->spec.loss != TS_GCP_NONE ? "the loss" : "errors", p->pace.again_s,
                      "another pass, last mode");
    plan_time_row("rows of the factor matrices", rows, "");
    if (p->ranks.n > 0) {
        snprintf(note, sizeof note, "%s at %.0f GB/s, assumed", ts_num_bytes(a, p->exchange_bytes),
                 PLAN_NETWORK_BYTES_PER_S / 1e9);
        plan_time_row(p->ranks.shared_bytes > 0 ? "rows from other machines"
                                                : "rows from other processes",
                      p->exposed_s, note);
    }
    plan_time_row("in all", p->pace.sweep_s, "");
    printf("the run\n");
    snprintf(note, sizeof note, "reads %s and checks them", ts_num_bytes(a, p->run.packed_bytes));
    plan_time_row("first sweep", p->pace.first_s, note);
    snprintf(what, sizeof what, "%u sweep%s", p->args->iters, tool_plural(p->args->iters));
    plan_time_row(what, model_seconds(p), "at most");
    if (tstream_cp_models(p->args) == 1)
        return;
    snprintf(what, sizeof what, "%u models", tstream_cp_models(p->args));
    plan_time_row(what, run_seconds(p),
                  p->at_once > 1 ? "at most; side by side less" : "at most, one after another");
}

void plan_print_text(const struct run_plan *p, const struct ts_tensor *t)
{
    char a[TS_NUM_CHARS], note[80], plain[4096];
    printf("%s, rank %u, %s, %u CPU thread%s", tool_plain(p->path, plain, sizeof plain),
           p->args->rank, p->args->precision == TS_FLOAT32 ? "float32" : "float64", p->threads,
           tool_plural(p->threads));
    if (p->run.n_devices > 0)
        printf(", %u GPU%s", p->run.n_devices, tool_plural(p->run.n_devices));
    printf("\n");
    if (plan_ranks_beside(&p->ranks))
        printf("  one of %u processes, %u on each machine like this one: number %u, which has "
               "most\n",
               p->ranks.n, p->ranks.per_host, p->ranks.largest);
    else if (p->ranks.n > 0)
        printf("  one of %u processes, each on a machine like this one: number %u, which has "
               "most\n",
               p->ranks.n, p->ranks.largest);
    if (p->at_once > 1)
        printf("  of %u models %u side by side; sweeps are those of one\n",
               tstream_cp_models(p->args), p->at_once);
    else if (p->args->ranks.n > 1)
        printf("  of %u ranks the largest: others take less\n", p->args->ranks.n);
    print_host(p);
    for (uint32_t i = 0; i < p->run.n_devices; i++)
        print_device(p, &p->run.device[i]);
    print_sweep(p, t);
    if (!p->args->no_output) {
        printf("disk, in %s\n", tool_plain(p->out, plain, sizeof plain));
        snprintf(note, sizeof note, "at least");
        if (p->free_disk_bytes >= 0)
            snprintf(note, sizeof note, "at least; %s are free",
                     ts_num_bytes(a, (uint64_t)p->free_disk_bytes));
        plan_bytes_row("results", (uint64_t)p->result_bytes, note);
        snprintf(note, sizeof note, p->n_states > 1 ? "%u of %s, at most" : "if it is stopped",
                 p->n_states, ts_num_bytes(a, p->state_bytes));
        plan_bytes_row("states to go on from", p->n_states * p->state_bytes, note);
    }
    printf("measured here in %s\n", ts_num_duration(a, (uint64_t)(p->measured_s * 1e9)));
    plan_bytes_row("disk", (uint64_t)p->disk_per_s, "a second");
    if (p->pace.link_bytes_per_s > 0)
        plan_bytes_row("host to GPU", (uint64_t)p->pace.link_bytes_per_s, "a second");
    printf("  %u sweep%s over %.3g %% of the %s\n", p->pace.n_sweeps, tool_plural(p->pace.n_sweeps),
           100 * p->sample_share, p->dense ? "cells" : "shards");
}

/* ---- the plan as JSON ---- */

static void json_memory(struct tool_json *j, const struct run_plan *p)
{
    tool_json_object(j, "host_memory");
    tool_json_u64(j, "budget_bytes", p->memory.host_bytes);
    tool_json_u64(j, "free_bytes", p->memory.free_bytes);
    tool_json_u64(j, "factor_bytes", p->memory.factor_bytes);
    tool_json_u64(j, "other_bytes", p->memory.other_bytes - p->memory.rest_bytes);
    /* memory that is used only when the fit is close to 1; not part of the total */
    tool_json_u64(j, "near_1_bytes", p->memory.rest_bytes);
    tool_json_u64(j, "resident_shard_bytes", p->run.resident_bytes);
    tool_json_u64(j, "slot_bytes", p->run.n_slots * p->run.slot_bytes);
    tool_json_u64(j, "decoded_bytes", p->memory.spare_bytes);
    tool_json_u64(j, "state_copy_bytes", p->memory.copy_bytes);
    tool_json_u64(j, "library_bytes", p->library_bytes);
    tool_json_u64(j, "program_bytes", p->program_bytes);
    tool_json_u64(j, "total_bytes", host_bytes(p));
    tool_json_u64(j, "shared_factor_bytes", p->ranks.shared_bytes);
    tool_json_u64(j, "machine_total_bytes", machine_bytes(p));
    tool_json_close(j);
    tool_json_array(j, "gpus");
    for (uint32_t i = 0; i < p->run.n_devices; i++) {
        const struct ts_device_memory *d = &p->run.device[i];
        tool_json_object(j, NULL);
        tool_json_i64(j, "gpu", d->number);
        tool_json_u64(j, "factor_bytes", d->factor_bytes);
        tool_json_u64(j, "other_bytes", d->sum_bytes);
        tool_json_u64(j, "resident_shard_bytes", d->kept_bytes);
        tool_json_u64(j, "slot_bytes", d->slot_bytes);
        tool_json_u64(j, "shared_bytes", d->shared_bytes);
        tool_json_u64(j, "library_bytes", d->driver_bytes);
        tool_json_u64(j, "total_bytes", device_bytes(d));
        tool_json_u64(j, "sent_bytes", p->run.link_bytes[i]);
        tool_json_close(j);
    }
    tool_json_close(j);
}

void plan_print_json(const struct run_plan *p, const struct ts_tensor *t)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "plan");
    tool_json_str(&j, "tensor", p->path);
    tool_json_u64(&j, "nnz", t->nnz);
    tool_json_str(&j, "backend", p->backend);
    tool_json_u64(&j, "threads", p->threads);
    json_memory(&j, p);
    tool_json_u64(&j, "disk_bytes", p->run.disk_bytes);
    tool_json_f64(&j, "sweep_seconds", p->pace.sweep_s);
    tool_json_f64(&j, "product_seconds", plan_sum(p->pace.product_s, t->order));
    tool_json_f64(&j, "row_seconds", plan_sum(p->pace.rows_s, t->order));
    tool_json_f64(&j, "judge_seconds", p->pace.again_s);
    tool_json_array(&j, "modes");
    for (uint32_t m = 0; m < t->order; m++) {
        tool_json_object(&j, NULL);
        tool_json_u64(&j, "mode", m + 1);
        tool_json_f64(&j, "product_seconds", p->pace.product_s[m]);
        tool_json_f64(&j, "row_seconds", p->pace.rows_s[m]);
        tool_json_close(&j);
    }
    tool_json_close(&j);
    tool_json_u64(&j, "processes", p->ranks.n > 0 ? p->ranks.n : 1);
    tool_json_u64(&j, "process", p->ranks.largest);
    tool_json_u64(&j, "processes_per_host", p->ranks.n > 0 ? p->ranks.per_host : 1);
    tool_json_u64(&j, "exchange_bytes", p->exchange_bytes);
    tool_json_f64(&j, "exchange_seconds", p->exchange_s);
    tool_json_f64(&j, "exposed_seconds", p->exposed_s);
    tool_json_f64(&j, "first_sweep_seconds", p->pace.first_s);
    tool_json_f64(&j, "run_seconds", run_seconds(p));
    tool_json_u64(&j, "models", tstream_cp_models(p->args));
    tool_json_u64(&j, "side_by_side", p->at_once);
    tool_json_str(&j, "out", p->args->no_output ? NULL : p->out);
    tool_json_f64(&j, "result_bytes", p->result_bytes);
    tool_json_u64(&j, "state_bytes", p->state_bytes);
    tool_json_u64(&j, "states", p->n_states);
    tool_json_object(&j, "measured");
    tool_json_f64(&j, "seconds", p->measured_s);
    tool_json_f64(&j, "disk_bytes_per_s", p->disk_per_s);
    tool_json_f64(&j, "link_bytes_per_s", p->pace.link_bytes_per_s);
    tool_json_f64(&j, "share_of_shards", p->sample_share);
    tool_json_u64(&j, "sweeps", p->pace.n_sweeps);
    tool_json_close(&j);
    tool_json_options(&j, p->cmd, p->args);
    tool_json_close(&j);
}
