/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_plan.c - tstream plan: what a run of tstream cp will take, before it starts. */
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/cp_models.h"
#include "tools/cp_run.h"
#include "tools/cp_starts.h"
#include "tools/engine_note.h"
#include "tools/plan_ranks.h"
#include "tools/plan_rows.h"
#include "tools/tool.h"
#include "tools/tstream.h"
#include "tools/tstream_cp.h"
#include "tools/tstream_operand.h"
#include "tools/tstream_sample.h"

/* Of shards to be measured on: on the CPU what a thread computes in a good second at rank 32, on a GPU
 * enough that its many blocks are at work most of the time. */
#define THREAD_BYTES (UINT64_C(128) << 20)
#define LEAST_BYTES  (UINT64_C(64) << 20)
#define MOST_BYTES   (UINT64_C(4) << 30)
#define SECONDS      1.5
#define MOST_RANKS   4096u

struct plan {
    const struct ts_cmd *cmd;
    const struct cp_args *args;
    const char *path;
    char *out;
    const char *backend;
    int dense;                 /* slabs of cells in place of shards */
    uint32_t threads, at_once; /* at_once: models side by side, which memory is that of */

    struct ts_engine_memory memory;
    uint64_t program_bytes, library_bytes;
    uint64_t shard_bytes;    /* places of all shards */
    uint64_t passing_bytes;  /* of those that no GPU keeps */
    uint64_t resident_bytes; /* of these, what stays */
    uint64_t slot_bytes, n_slots;
    uint32_t n_devices;
    struct ts_device_memory device[TS_MAX_DEVICES];

    uint64_t whole_bytes, packed_bytes;   /* all shards on disk; those that this process reads */
    uint64_t disk_bytes;                  /* read in a later sweep */
    uint64_t link_bytes[TS_MAX_DEVICES];  /* sent to a device in a later sweep */
    double result_bytes, free_disk_bytes; /* -1: not known */
    uint64_t state_bytes;                 /* one state of the run on disk, */
    uint32_t n_states;                    /* of which so many are there at most */

    double disk_per_s, measured_s, sample_share;
    struct tstream_pace pace;

    struct plan_ranks ranks;      /* of several processes; n is 0: there is one */
    struct ts_comm comm;          /* of the one that is told of */
    uint64_t exchange_bytes;      /* that reach it in a sweep */
    double exchange_s, exposed_s; /* exposed: that part of it in which nothing computes */
};

/* ---- what goes where ---- */

static uint64_t host_bytes(const struct plan *p)
{
    return p->memory.factor_bytes + p->memory.other_bytes - p->memory.rest_bytes +
           ts_bigmem_cost(p->resident_bytes) + ts_bigmem_cost(p->n_slots * p->slot_bytes) +
           ts_bigmem_cost(p->memory.copy_bytes) + p->memory.spare_bytes + p->program_bytes +
           p->library_bytes;
}

/* A sweep passes over the last mode once more, for errors or a loss. */
static int judges_apart(const struct plan *p)
{
    const struct ts_spec *c = &p->args->spec;
    return c->observed || c->loss != TS_GCP_NONE || (c->held && !c->poisson);
}

/* What the passes over the modes compute. */
static const char *passes_name(const struct plan *p)
{
    const struct ts_spec *c = &p->args->spec;
    return c->poisson               ? "rounds of the rows"
           : c->loss != TS_GCP_NONE ? "gradients of the loss"
           : c->observed            ? "completion, a Gram matrix a row"
                                    : "products";
}

/* Where each shard of a mode is, with what passes from there in a sweep. */
static void count_mode(const struct ts_engine *e, const struct ts_feed_deal *deal, uint32_t m,
                       struct plan *p)
{
    const struct ts_mode *mode = &e->tensor->mode[m];
    const int skipped = (ts_spec_skipped(&p->args->spec, e->tensor->order) >> m & 1) != 0;
    const uint64_t n_times = m + 1 == e->tensor->order && judges_apart(p) ? 2 : 1;
    uint32_t device = 0;
    for (uint64_t i = 0; i < mode->disk.n_shards; i++) {
        const struct ts_disk_shard *s = &mode->shard[i];
        const uint64_t place = ts_residency_bytes(s);
        p->whole_bytes += skipped ? 0 : ts_residency_stored(s);
        if (deal->keep[m] != NULL && deal->keep[m][i] == TS_DEAL_LEAVE) /* of another process */
            continue;
        while (deal->first[m] != NULL && device + 1 < p->n_devices &&
               i >= deal->first[m][device + 1])
            device++;
        p->shard_bytes += place;
        if (skipped)
            continue;
        p->packed_bytes += ts_residency_stored(s);
        if (deal->keep[m] != NULL && deal->keep[m][i])
            continue;
        p->passing_bytes += place;
        p->link_bytes[device] += p->n_devices > 0 ? n_times * s->raw_bytes : 0;
        if (e->residency.place[m][i] == TS_NOT_RESIDENT)
            p->disk_bytes += n_times * ts_residency_stored(s);
    }
}

/* Passes over the cells in a sweep. */
static uint32_t count_passes(const struct ts_engine *e, const struct plan *p)
{
    const struct ts_dense *d = e->tensor->dense;
    const uint32_t skipped = ts_spec_skipped(&p->args->spec, e->tensor->order);
    const uint32_t groups = e->backend->groups(e->be);
    const int shared = p->n_devices > 0 ? p->device[0].shared_bytes > 0 : e->memory.spare_bytes > 0;
    const uint32_t judging = judges_apart(p) ? 1 : 0;
    if (groups > 1) /* nothing is kept from one mode to the next */
        return (e->tensor->order - (uint32_t)__builtin_popcount(skipped)) * groups + judging;
    return ts_dense_passes(d, (shared && groups == 0) || d->n_outer == 1, skipped) + judging;
}

/* Cells are the same for all modes. What GPUs keep passes no more; of the rest each gets about as much. */
static void count_slabs(const struct ts_engine *e, const struct ts_feed_deal *deal, struct plan *p)
{
    const struct ts_dense *d = e->tensor->dense;
    const uint64_t bytes = d->cells * d->cell_bytes;
    const uint32_t passes = count_passes(e, p);
    p->passing_bytes = bytes;
    for (uint64_t k = 0; deal->slab != NULL && k < d->n_slabs; k++)
        p->passing_bytes -= deal->slab[k] ? ts_dense_slab_bytes(d, k) : 0;
    p->resident_bytes =
        e->slabs.resident_bytes < p->passing_bytes ? e->slabs.resident_bytes : p->passing_bytes;
    p->slot_bytes = e->slabs.slot_bytes;
    p->n_slots = e->slabs.n_slots;
    p->whole_bytes = p->packed_bytes = p->shard_bytes = bytes;
    p->disk_bytes = (p->passing_bytes - p->resident_bytes) * passes;
    for (uint32_t i = 0; i < p->n_devices; i++)
        p->link_bytes[i] = p->passing_bytes * passes / p->n_devices;
}

static void count_all(const struct ts_engine *e, struct plan *p)
{
    struct ts_feed_deal deal = { 0 };
    e->backend->deal(e->be, &deal);
    if (ts_backend_can(e->backend, TS_CAN_OWN_MEMORY))
        p->n_devices = e->backend->memory(e->be, p->device);
    p->backend = e->backend->name;
    p->threads = e->threads;
    p->at_once = e->n_models;
    p->memory = e->memory;
    p->library_bytes = e->library_bytes;
    if (e->tensor->dense != NULL) {
        count_slabs(e, &deal, p);
        return;
    }
    p->resident_bytes = e->residency.resident_bytes;
    p->slot_bytes = e->residency.slot_bytes;
    p->n_slots = e->residency.n_slots;
    for (uint32_t m = 0; m < e->tensor->order; m++)
        count_mode(e, &deal, m, p);
}

/* Of a sample all products that modes share fit; where a GPU keeps those of a part of the whole tensor's rows, the modes that
 * would find them compute the rest again, as the first of them does. */
static void count_shared(const struct ts_tensor *t, struct plan *p)
{
    const struct ts_dense *d = t->dense;
    const uint32_t skipped = ts_spec_skipped(&p->args->spec, t->order);
    double first = 0, more = 0;
    if (d == NULL || p->n_devices == 0 || p->passing_bytes > 0)
        return;
    for (uint32_t m = 0; m < t->order; m++)
        for (uint32_t l = 0; l < d->n_outer; l++) {
            if (d->layout[l] != m || (skipped >> m & 1) != 0)
                continue;
            if (first > 0) {
                p->pace.product_s[m] += (1 - p->device[0].shared_part) * first;
                more += (1 - p->device[0].shared_part) * first;
            } else {
                first = p->pace.product_s[m];
            }
        }
    p->pace.sweep_s += more;
    p->pace.first_s += more;
}

/* A model of this rank. start NULL: none is written, else room has memory for what it takes. */
static void take_rank(const struct plan *p, uint32_t rank, struct ts_init_conf *start, double *room,
                      struct ts_model_conf *mc)
{
    mc->rank = rank + (uint32_t)(p->args->mean != 0);
    mc->start_bytes = start != NULL ? room : NULL;
    if (start != NULL)
        start->rank = rank;
    for (uint32_t m = 0; m < mc->shape.order && start != NULL; m++)
        room[m] = ts_init_save_bytes(start, m);
}

static int count_files(const struct ts_engine *e, struct plan *p, struct ts_init_conf *start,
                       struct ts_err *err)
{
    struct ts_model_conf mc = { .dir = p->out,
                                .used_rows = tstream_cp_used_rows(p->args, e->tensor),
                                .shape = ts_model_shape_of(e->tensor),
                                .precision = p->args->precision };
    double room[TS_MAX_ORDER];
    const int rc = ts_model_formats(p->args->format, &mc.formats, err);
    if (rc < 0 || p->args->no_output)
        return rc;
    for (uint32_t i = 0; i < p->args->ranks.n; i++) {
        take_rank(p, p->args->ranks.at[i], start, room, &mc);
        p->result_bytes += tstream_cp_each(p->args) * ts_model_bytes(&mc);
    }
    take_rank(p, p->args->rank, start, room, &mc);
    p->state_bytes = ts_checkpoint_disk(e->tensor, p->args->rank, p->args->precision,
                                        &p->args->spec, p->args->accelerate);
    /* two in turn and the next, or that of a run stopped; and those of models that are done */
    p->n_states = p->args->checkpoint_ns > 0 ? 2 + tstream_cp_models(p->args) : 1;
    if (tstream_cp_models(p->args) > 1 && p->free_disk_bytes >= 0 &&
        p->result_bytes > p->free_disk_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: %u models take at least %.3g bytes, and %.3g are free there", p->out,
                       tstream_cp_models(p->args), p->result_bytes, p->free_disk_bytes);
    return p->free_disk_bytes < 0 ? 0 : ts_model_room(&mc, (uint64_t)p->free_disk_bytes, err);
}

/* What the files take, and whether they fit: the question that tstream cp asks. Starts of several models count as drawn ones. */
static int count_disk(const struct ts_engine *e, struct plan *p, struct ts_err *err)
{
    const struct cp_args *args = p->args;
    const struct ts_resume *from = args->from;
    struct ts_init_conf start = { .tensor = e->tensor,
                                  .nvecs = tstream_cp_init_is_nvecs(args),
                                  .spec = &args->spec };
    char *copy = strdup(p->out);
    struct ts_disk_free there_is;
    int stays, saves = args->save_init, rc = 0;
    p->free_disk_bytes = -1;
    if (copy != NULL) {
        ts_disk_free_get(dirname(copy), &there_is);
        p->free_disk_bytes = there_is.bytes == UINT64_MAX ? -1 : (double)there_is.bytes;
    }
    free(copy);
    stays = from != NULL && !from->of_result && strcmp(p->out, from->dir) == 0;
    if (tstream_cp_models(args) == 1 && !args->no_output)
        rc = cp_starts_written(args, e->tensor, stays, &start, &saves, err);
    if (rc == 0)
        rc = count_files(e, p, saves ? &start : NULL, err);
    ts_model_close(start.model);
    return rc;
}

/* ---- measuring ---- */

static uint64_t sample_bytes(const struct plan *p)
{
    const uint64_t most = p->n_devices > 0 ? MOST_BYTES : p->threads * THREAD_BYTES;
    const uint64_t n = p->args->rank > 32 ? most * 32 / p->args->rank : most;
    return n < LEAST_BYTES ? LEAST_BYTES : n > MOST_BYTES ? MOST_BYTES : n;
}

/* Where a GPU keeps a part of the shards, it is to keep the same part of the sample. */
static uint64_t sample_device_bytes(const struct plan *p, const struct tstream_sample *s)
{
    const struct ts_device_memory *d = &p->device[0];
    const double kept = 1 - (double)p->passing_bytes / (double)(p->shard_bytes + 1);
    uint64_t bytes = 0;
    if (p->n_devices == 0 || p->passing_bytes == 0)
        return p->args->processor.device_bytes;
    if (s->tensor.dense != NULL)
        bytes = s->tensor.dense->cells * s->tensor.dense->cell_bytes;
    for (uint32_t m = 0; m < s->tensor.order; m++)
        for (uint64_t i = 0; i < s->tensor.mode[m].disk.n_shards; i++)
            bytes += s->tensor.mode[m].shard[i].raw_bytes;
    return d->factor_bytes + d->sum_bytes + d->driver_bytes + d->slot_bytes + d->shared_bytes +
           (uint64_t)(kept * (double)bytes) / p->n_devices;
}

/* On CPU cores one process is measured with the threads of all that are on a machine, which share its memory and caches. */
static uint32_t processes_measured(const struct plan *p)
{
    return p->ranks.n > 0 && p->n_devices == 0 ? p->ranks.per_host : 1;
}

static uint32_t threads_measured(const struct plan *p)
{
    struct ts_machine machine;
    const uint64_t n = (uint64_t)p->threads * processes_measured(p);
    ts_machine_share(1);
    ts_machine_get(&machine);
    return n < machine.cpus ? (uint32_t)n : machine.cpus;
}

static int measure(const struct ts_engine_conf *conf, const struct ts_tensor *t, struct plan *p,
                   struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    const double stays =
        p->passing_bytes == 0 ? 1 : (double)p->resident_bytes / (double)p->passing_bytes;
    struct ts_engine_conf ec = *conf;
    struct tstream_sample s;
    uint64_t bytes = 0;
    int rc = tstream_sample_new(t, sample_bytes(p), &s, err);
    if (rc < 0)
        return rc;
    for (uint32_t m = 0; m < t->order; m++)
        for (uint64_t i = 0; i < s.tensor.mode[m].disk.n_shards; i++)
            bytes += ts_residency_stored(&s.tensor.mode[m].shard[i]);
    if (t->dense != NULL)
        bytes = s.tensor.dense->cells * t->dense->cell_bytes;
    p->sample_share = p->whole_bytes > 0 ? (double)bytes / (double)p->whole_bytes : 1;
    ec.processor.device_bytes = sample_device_bytes(p, &s);
    if (processes_measured(p) > 1)
        ec.threads = threads_measured(p);
    if (t->nnz > 0)
        rc = tstream_sample_disk(&s, &p->disk_per_s, err);
    if (rc == 0)
        rc = tstream_sample_pace(&ec, &s, t, p->n_slots == 0 ? 1 : stays, p->args->seed,
                                 p->args->inner, SECONDS, &p->pace, err);
    tstream_sample_free(&s);
    p->measured_s = (double)(ts_clock_ns() - start) * 1e-9;
    return rc;
}

static double sum(const double *x, uint32_t n)
{
    double s = 0;
    for (uint32_t i = 0; i < n; i++)
        s += x[i];
    return s;
}

static int is_skipped(const struct plan *p, const struct ts_tensor *t, uint32_t m)
{
    return (ts_spec_skipped(&p->args->spec, t->order) >> m & 1) != 0;
}

/* What was measured by one process becomes the time of one of several, which has to wait for what it cannot hide of the exchange. */
static void divide(struct plan *p, const struct ts_tensor *t)
{
    struct tstream_pace *pace = &p->pace;
    const uint32_t together = processes_measured(p);
    const double more_s = (pace->first_s - pace->sweep_s) / p->ranks.n * together;
    pace->again_s *= p->ranks.product_share[t->order - 1] * together;
    for (uint32_t m = 0; m < t->order; m++) {
        pace->product_s[m] *= p->ranks.product_share[m] * together;
        pace->rows_s[m] *= p->ranks.row_share[m] * together;
        if (is_skipped(p, t, m))
            continue;
        p->exchange_bytes += p->ranks.exchange_bytes[m];
        p->exposed_s += plan_ranks_exposed(&p->ranks, m, pace->product_s[m] + pace->rows_s[m]);
    }
    p->exchange_s = (double)p->exchange_bytes / PLAN_NETWORK_BYTES_PER_S;
    pace->sweep_s =
        sum(pace->product_s, t->order) + sum(pace->rows_s, t->order) + pace->again_s + p->exposed_s;
    pace->first_s = pace->sweep_s + more_s;
}

/* Of one model. */
static double model_seconds(const struct plan *p)
{
    return p->pace.first_s + (p->args->iters - 1) * p->pace.sweep_s;
}

/* Of all, as if each had the largest rank and read the tensor again. */
static double run_seconds(const struct plan *p)
{
    return tstream_cp_models(p->args) * model_seconds(p);
}

/* ---- the table ---- */

/* What all processes of a machine take, if each took as much as this one. */
static uint64_t machine_bytes(const struct plan *p)
{
    const uint32_t n = p->ranks.n > 0 ? p->ranks.per_host : 1;
    return n * host_bytes(p) - (n - 1) * p->ranks.shared_bytes;
}

static void print_machine(const struct plan *p)
{
    char what[40], note[80], a[TS_NUM_CHARS];
    snprintf(what, sizeof what, "the %u processes of a machine", p->ranks.per_host);
    if (p->ranks.shared_bytes > 0)
        snprintf(note, sizeof note, "with one copy of %s", ts_num_bytes(a, p->ranks.shared_bytes));
    else
        snprintf(note, sizeof note, p->n_devices > 0 ? "" : "each with factors of its own");
    plan_bytes_row(what, machine_bytes(p), note);
}

static void print_host(const struct plan *p)
{
    char a[TS_NUM_CHARS], note[80];
    printf("memory of the host\n");
    if (p->memory.factor_bytes > 0)
        plan_bytes_row("factor matrices", p->memory.factor_bytes,
                       p->args->accelerate ? "with those of the sweep before" : "");
    plan_bytes_row("partial sums, Gram matrices, start",
                   p->memory.other_bytes - p->memory.rest_bytes, "at most");
    snprintf(note, sizeof note, p->n_slots == 0 ? "all of them" : "%.0f %% of %s",
             100 * (double)p->resident_bytes / (double)(p->passing_bytes + 1),
             ts_num_bytes(a, p->passing_bytes));
    plan_bytes_row(p->dense && p->n_devices > 0 ? "slabs that stay here"
                   : p->dense                   ? "slabs that stay"
                   : p->n_devices > 0           ? "shards that stay here"
                                                : "shards that stay",
                   p->resident_bytes, note);
    if (p->n_slots > 0) {
        snprintf(note, sizeof note, "%" PRIu64 " of %s", p->n_slots,
                 ts_num_bytes(a, p->slot_bytes));
        plan_bytes_row("slots for the others", p->n_slots * p->slot_bytes, note);
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

static void print_device(const struct plan *p, const struct ts_device_memory *d)
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

static void print_sweep(const struct plan *p, const struct ts_tensor *t)
{
    const double products = sum(p->pace.product_s, t->order), rows = sum(p->pace.rows_s, t->order);
    const uint32_t n_passes =
        t->order - (uint32_t)__builtin_popcount(ts_spec_skipped(&p->args->spec, t->order));
    char a[TS_NUM_CHARS], note[80], what[40];
    printf("a sweep\n");
    plan_bytes_row("from disk", p->disk_bytes, "");
    for (uint32_t i = 0; i < p->n_devices; i++) {
        snprintf(what, sizeof what, "to GPU %d", p->device[i].number);
        plan_bytes_row(what, p->link_bytes[i], "");
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
    snprintf(note, sizeof note, "reads %s and checks them", ts_num_bytes(a, p->packed_bytes));
    plan_time_row("first sweep", p->pace.first_s, note);
    snprintf(what, sizeof what, "%u sweep%s", p->args->iters, tool_plural(p->args->iters));
    plan_time_row(what, model_seconds(p), "at most");
    if (tstream_cp_models(p->args) == 1)
        return;
    snprintf(what, sizeof what, "%u models", tstream_cp_models(p->args));
    plan_time_row(what, run_seconds(p),
                  p->at_once > 1 ? "at most; side by side less" : "at most, one after another");
}

static void print_text(const struct plan *p, const struct ts_tensor *t)
{
    char a[TS_NUM_CHARS], note[80], plain[4096];
    printf("%s, rank %u, %s, %u CPU thread%s", tool_plain(p->path, plain, sizeof plain), p->args->rank,
           p->args->precision == TS_FLOAT32 ? "float32" : "float64", p->threads,
           tool_plural(p->threads));
    if (p->n_devices > 0)
        printf(", %u GPU%s", p->n_devices, tool_plural(p->n_devices));
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
    for (uint32_t i = 0; i < p->n_devices; i++)
        print_device(p, &p->device[i]);
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
    printf("  %u sweep%s over %.3g %% of the %s\n", p->pace.n_sweeps, tool_plural(p->pace.n_sweeps), 100 * p->sample_share,
           p->dense ? "cells" : "shards");
}

/* ---- JSON ---- */

static void json_memory(struct tool_json *j, const struct plan *p)
{
    tool_json_object(j, "host_memory");
    tool_json_u64(j, "budget_bytes", p->memory.host_bytes);
    tool_json_u64(j, "free_bytes", p->memory.free_bytes);
    tool_json_u64(j, "factor_bytes", p->memory.factor_bytes);
    tool_json_u64(j, "other_bytes", p->memory.other_bytes - p->memory.rest_bytes);
    tool_json_u64(j, "near_1_bytes", p->memory.rest_bytes); /* not in the total */
    tool_json_u64(j, "resident_shard_bytes", p->resident_bytes);
    tool_json_u64(j, "slot_bytes", p->n_slots * p->slot_bytes);
    tool_json_u64(j, "decoded_bytes", p->memory.spare_bytes);
    tool_json_u64(j, "state_copy_bytes", p->memory.copy_bytes);
    tool_json_u64(j, "library_bytes", p->library_bytes);
    tool_json_u64(j, "program_bytes", p->program_bytes);
    tool_json_u64(j, "total_bytes", host_bytes(p));
    tool_json_u64(j, "shared_factor_bytes", p->ranks.shared_bytes);
    tool_json_u64(j, "machine_total_bytes", machine_bytes(p));
    tool_json_close(j);
    tool_json_array(j, "gpus");
    for (uint32_t i = 0; i < p->n_devices; i++) {
        const struct ts_device_memory *d = &p->device[i];
        tool_json_object(j, NULL);
        tool_json_i64(j, "gpu", d->number);
        tool_json_u64(j, "factor_bytes", d->factor_bytes);
        tool_json_u64(j, "other_bytes", d->sum_bytes);
        tool_json_u64(j, "resident_shard_bytes", d->kept_bytes);
        tool_json_u64(j, "slot_bytes", d->slot_bytes);
        tool_json_u64(j, "shared_bytes", d->shared_bytes);
        tool_json_u64(j, "library_bytes", d->driver_bytes);
        tool_json_u64(j, "total_bytes", device_bytes(d));
        tool_json_u64(j, "sent_bytes", p->link_bytes[i]);
        tool_json_close(j);
    }
    tool_json_close(j);
}

static void print_json(const struct plan *p, const struct ts_tensor *t)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "plan");
    tool_json_str(&j, "tensor", p->path);
    tool_json_u64(&j, "nnz", t->nnz);
    tool_json_str(&j, "backend", p->backend);
    tool_json_u64(&j, "threads", p->threads);
    json_memory(&j, p);
    tool_json_u64(&j, "disk_bytes", p->disk_bytes);
    tool_json_f64(&j, "sweep_seconds", p->pace.sweep_s);
    tool_json_f64(&j, "product_seconds", sum(p->pace.product_s, t->order));
    tool_json_f64(&j, "row_seconds", sum(p->pace.rows_s, t->order));
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

/* ---- the command ---- */

/* Those that travel; and what processes of a machine have one copy of: where only one is on each they have none. */
static void count_rows(const struct ts_engine *e, struct plan *p)
{
    const struct cp_args *args = p->args;
    const int may = plan_ranks_beside(&p->ranks) && ts_backend_can(e->backend, TS_CAN_RANKS) &&
                    tstream_cp_may_share(args);
    if (p->ranks.n > 0)
        plan_ranks_rows(e->tensor, args->rank, e->backend->row_bytes(args->rank, args->precision),
                        may ? e->backend->shares(e->be) : 0, &p->ranks);
}

static int make_plan(const struct ts_engine_conf *conf, struct plan *p, struct ts_err *err)
{
    uint32_t ranks[TSTREAM_MOST_AT_ONCE];
    struct ts_engine_conf ec = *conf;
    struct ts_engine e;
    int rc;
    if (tstream_cp_models(p->args) > 1) {
        ec.n_models = tstream_cp_first(p->args, ranks, TSTREAM_MOST_AT_ONCE);
        ec.ranks = ranks;
    }
    if (p->ranks.n > 0)
        ec.comm = &p->comm;
    ec.without_feed = 1;
    ec.copy = !p->args->no_output && p->args->checkpoint_ns > 0;
    rc = ts_engine_open(&ec, &e, err);
    if (rc < 0)
        return rc;
    engine_note_processor(p->cmd, &e);
    count_all(&e, p);
    count_rows(&e, p);
    rc = count_disk(&e, p, err);
    ts_engine_close(&e);
    return rc;
}

/* Of several processes the one with most shards is told of: on CPU cores, unless GPUs are asked for. */
static int plan_processes(struct ts_engine_conf *ec, const struct ts_tensor *t, struct plan *p,
                          struct ts_err *err)
{
    const struct cp_args *args = p->args;
    const uint32_t n_gpus = ts_processor_gpus(&ec->processor);
    int rc;
    if (args->processes <= 1)
        return 0;
    ts_machine_share(args->per_host < args->processes ? args->per_host : args->processes);
    if (args->processes > MOST_RANKS)
        return ts_fail(err, TS_EARG, "--ranks must be at most %u", MOST_RANKS);
    rc = plan_ranks_new(t, args->processes,
                        args->per_host < args->processes ? args->per_host : args->processes, n_gpus,
                        &p->ranks, err);
    p->comm = (struct ts_comm){ .rank = p->ranks.largest, .n = p->ranks.n };
    ec->processor.cpu |= n_gpus == 0;
    return rc;
}

static int plan_run(const struct ts_cmd *cmd, const void *parsed, const char *path,
                    struct ts_err *err)
{
    const struct cp_args *args = parsed;
    struct ts_engine_conf ec = { .path = path,
                                 .stop = &tool_stop,
                                 .rank = args->rank,
                                 .threads = args->threads,
                                 .precision = args->precision,
                                 .host_bytes = args->host_bytes,
                                 .spec = &args->spec,
                                 .accelerate = args->accelerate,
                                 .n_named = args->n_named,
                                 .processor = args->processor,
                                 .only_mode = -1 };
    struct plan p = { .cmd = cmd, .args = args, .path = path };
    struct ts_tensor *t = NULL;
    int rc;
    p.out = args->out != NULL               ? strdup(args->out)
            : args->from != NULL         ? strdup(args->from->dir)
            : args->models_from != NULL  ? strdup(args->models_from->dir)
                                         : tstream_operand_swap(path, ".cp");
    rc = p.out == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", path)
                       : ts_tensor_open_any(path, &t, err);
    if (rc == 0 && t->part.n > 1)
        rc = ts_fail(err, TS_EARG,
                     "%s: is part %u of %u of a tensor, and a plan is of the whole one", path,
                     t->part.part, t->part.n);
    if (rc == 0 && args->diagnose)
        rc = cp_models_may_diagnose(args, t, err);
    if (rc == 0)
        rc = tstream_cp_same_tensor(args, t, err);
    if (rc == 0)
        rc = cp_starts_check(args, t, err);
    p.program_bytes = ts_engine_memory_resident();
    p.dense = rc == 0 && t->dense != NULL;
    if (rc == 0)
        rc = plan_processes(&ec, t, &p, err);
    if (rc == 0)
        rc = make_plan(&ec, &p, err);
    if (rc == 0)
        rc = measure(&ec, t, &p, err);
    if (rc == 0)
        count_shared(t, &p);
    if (rc == 0 && p.ranks.n > 0)
        divide(&p, t);
    if (rc == 0)
        (args->json ? print_json : print_text)(&p, t);
    ts_tensor_close(t);
    free(p.out);
    return rc;
}

static int run_plan(const struct ts_cmd *cmd, int argc, char **argv)
{
    return tstream_cp_command(cmd, argc, argv, plan_run);
}

const struct ts_cmd tstream_plan = {
    .program = "tstream",
    .name = "plan",
    .operands = "[TENSOR.tsh]",
    .max_operands = 1,
    .summary = "say what memory, time and disk a decomposition will take",
    .text =
        "Takes the options of tstream cp and prints what that run would take: memory of the host and of "
        "each GPU, part by part, which shards stay where, bytes read from disk and sent to GPUs in each "
        "sweep, seconds of a sweep and of the run, bytes of the results. What cannot work is refused "
        "with the sentence of tstream cp.\n\n"
        "Time is measured in a few seconds: sweeps with factor matrices of full size over a sample of the "
        "shards (all of them where they are few), of which the same part stays in memory; products "
        "grow in proportion to nonzeros. Of several models (--rank 8,16, --restarts) memory is told of those that are computed "
        "at once first, sweeps of one of the largest rank, time and disk of all. It holds for a machine that is as busy then as now. The run "
        "ends earlier when the fit hardly changes (--tol).\n\n"
        "With --ranks N it is told of one of N processes that mpirun or srun starts, the one whose shards take most memory: --threads, --gpus and "
        "--host-memory are its own, and without them it has the CPU cores and the memory of a machine like this one for itself. With --ranks-per-host K so many are on a "
        "machine: they divide its cores and memory, and have one copy of the factors where they share them, which is told with what all of them take. Times are those measured "
        "here by one process, times the largest part that one of N has, or a GPU of all, and 10 GB/s are taken for what the network brings to each. "
        "GPUs send rows while they compute: what is told of rows from other processes is what they cannot hide. What NCCL takes of a GPU is "
        "assumed, not measured.",
    .examples = "tstream plan amazon.tsh --rank 64 --host-memory 4G\n"
                "  can it be done here, and how long does it take?\n",
    .opts = tstream_cp_opts,
    .headings = tstream_cp_headings,
    .section = tstream_cp_section,
    .brief = TSTREAM_CP_BRIEF,
    .aliases = tstream_cp_aliases,
    .run = run_plan,
};
