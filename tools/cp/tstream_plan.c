/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_plan.c - tstream plan: estimates time and memory of a run of tstream cp before it
 * starts. */
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/cp/cp_models.h"
#include "tools/cp/cp_run.h"
#include "tools/cp/cp_starts.h"
#include "tools/common/engine_note.h"
#include "tools/cp/plan_print.h"
#include "tools/common/tool.h"
#include "tools/tstream.h"
#include "tools/cp/tstream_cp.h"
#include "tools/tstream_operand.h"

/* Bytes of shards to measure with: on the CPU, what a thread computes in over a second at rank 32;
 * on a GPU, enough to keep its blocks busy most of the time. */
#define THREAD_BYTES (UINT64_C(128) << 20)
#define LEAST_BYTES  (UINT64_C(64) << 20)
#define MOST_BYTES   (UINT64_C(4) << 30)
#define SECONDS      1.5
#define MOST_RANKS   4096u

/* ---- memory and disk space ---- */

/* Adds the time in which a GPU computes partial products of a dense tensor again. The first mode
 * computes them, and later modes use them. In a sample, all of them fit in memory. If a GPU keeps
 * only a part of them, each later mode computes the missing ones again. */
static void count_shared(const struct ts_tensor *t, struct run_plan *p)
{
    const struct ts_dense *d = t->dense;
    const uint32_t skipped = ts_spec_skipped(&p->args->spec, t->order);
    double first = 0, more = 0;
    if (d == NULL || p->run.n_devices == 0 || p->run.passing_bytes > 0)
        return;
    for (uint32_t m = 0; m < t->order; m++)
        for (uint32_t l = 0; l < d->n_outer; l++) {
            if (d->layout[l] != m || (skipped >> m & 1) != 0)
                continue;
            if (first > 0) {
                p->pace.product_s[m] += (1 - p->run.device[0].shared_part) * first;
                more += (1 - p->run.device[0].shared_part) * first;
            } else {
                first = p->pace.product_s[m];
            }
        }
    p->pace.sweep_s += more;
    p->pace.first_s += more;
}

/* Adds a model with `rank` components to *mc. start: starting factors that are written, with `room`
 * for their sizes; NULL: none. */
static void take_rank(const struct run_plan *p, uint32_t rank, struct ts_init_conf *start,
                      double *room, struct ts_model_conf *mc)
{
    mc->rank = rank + (uint32_t)(p->args->mean != 0);
    mc->start_bytes = start != NULL ? room : NULL;
    if (start != NULL)
        start->rank = rank;
    for (uint32_t m = 0; m < mc->shape.order && start != NULL; m++)
        room[m] = ts_init_save_bytes(start, m);
}

static int count_files(const struct ts_engine *e, struct run_plan *p, struct ts_init_conf *start,
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
    /* the two latest states, and one at the end of each model; or only the state of a stopped
     * run */
    p->n_states = p->args->checkpoint_ns > 0 ? 2 + tstream_cp_models(p->args) : 1;
    if (tstream_cp_models(p->args) > 1 && p->free_disk_bytes >= 0 &&
        p->result_bytes > p->free_disk_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: %u models take at least %.3g bytes, and %.3g are free there", p->out,
                       tstream_cp_models(p->args), p->result_bytes, p->free_disk_bytes);
    return p->free_disk_bytes < 0 ? 0 : ts_model_room(&mc, (uint64_t)p->free_disk_bytes, err);
}

/* Computes the sizes of the files, and whether they fit, as tstream cp checks it. Starts of several
 * models count as random ones. */
static int count_disk(const struct ts_engine *e, struct run_plan *p, struct ts_err *err)
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

/* ---- measuring on a sample of the tensor ---- */

static uint64_t sample_bytes(const struct run_plan *p)
{
    const uint64_t most = p->run.n_devices > 0 ? MOST_BYTES : p->threads * THREAD_BYTES;
    const uint64_t n = p->args->rank > 32 ? most * 32 / p->args->rank : most;
    return n < LEAST_BYTES ? LEAST_BYTES : n > MOST_BYTES ? MOST_BYTES : n;
}

/* Returns the GPU memory for the sample: if a GPU keeps a part of the tensor's shards, it must keep
 * the same part of the sample's. */
static uint64_t sample_device_bytes(const struct run_plan *p, const struct tstream_sample *s)
{
    const struct ts_device_memory *d = &p->run.device[0];
    const double kept = 1 - (double)p->run.passing_bytes / (double)(p->run.shard_bytes + 1);
    uint64_t bytes = 0;
    if (p->run.n_devices == 0 || p->run.passing_bytes == 0)
        return p->args->processor.device_bytes;
    if (s->tensor.dense != NULL)
        bytes = s->tensor.dense->cells * s->tensor.dense->cell_bytes;
    for (uint32_t m = 0; m < s->tensor.order; m++)
        for (uint64_t i = 0; i < s->tensor.mode[m].disk.n_shards; i++)
            bytes += s->tensor.mode[m].shard[i].raw_bytes;
    return d->factor_bytes + d->sum_bytes + d->driver_bytes + d->slot_bytes + d->shared_bytes +
           (uint64_t)(kept * (double)bytes) / p->run.n_devices;
}

/* Returns the number of processes whose work is measured. On CPU cores, one process is measured
 * with the threads of all processes of a machine, because they share memory and caches. */
static uint32_t processes_measured(const struct run_plan *p)
{
    return p->ranks.n > 0 && p->run.n_devices == 0 ? p->ranks.per_host : 1;
}

static uint32_t threads_measured(const struct run_plan *p)
{
    struct ts_machine machine;
    const uint64_t n = (uint64_t)p->threads * processes_measured(p);
    ts_machine_share(1);
    ts_machine_get(&machine);
    return n < machine.cpus ? (uint32_t)n : machine.cpus;
}

/* Prints a note if more threads are planned than this machine has CPUs, so that they share CPUs
 * while they are measured. */
static void note_threads(const struct run_plan *p)
{
    struct ts_machine machine;
    ts_machine_get(&machine);
    if (p->run.n_devices == 0 && p->ranks.n == 0 && p->threads > machine.cpus)
        tool_note(
            p->cmd,
            "%u threads share the %u CPU%s of this machine while they are measured: no rate is "
            "known for a machine with more",
            p->threads, machine.cpus, tool_plural(machine.cpus));
}

static int measure(const struct ts_engine_conf *conf, const struct ts_tensor *t, struct run_plan *p,
                   struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    const double stays = p->run.passing_bytes == 0
                             ? 1
                             : (double)p->run.resident_bytes / (double)p->run.passing_bytes;
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
    p->sample_share = p->run.whole_bytes > 0 ? (double)bytes / (double)p->run.whole_bytes : 1;
    ec.processor.device_bytes = sample_device_bytes(p, &s);
    if (processes_measured(p) > 1)
        ec.threads = threads_measured(p);
    if (t->nnz > 0)
        rc = tstream_sample_disk(&s, &p->disk_per_s, err);
    if (rc == 0)
        rc = tstream_sample_pace(&ec, &s, t, p->run.n_slots == 0 ? 1 : stays, p->args->seed,
                                 p->args->inner, SECONDS, &p->pace, err);
    tstream_sample_free(&s);
    p->measured_s = (double)(ts_clock_ns() - start) * 1e-9;
    return rc;
}

static int is_skipped(const struct run_plan *p, const struct ts_tensor *t, uint32_t m)
{
    return (ts_spec_skipped(&p->args->spec, t->order) >> m & 1) != 0;
}

/* Converts the time that one process takes to the time of each of several processes, which must
 * wait for the part of the exchange that is not hidden. */
static void divide(struct run_plan *p, const struct ts_tensor *t)
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
    pace->sweep_s = plan_sum(pace->product_s, t->order) + plan_sum(pace->rows_s, t->order) +
                    pace->again_s + p->exposed_s;
    pace->first_s = pace->sweep_s + more_s;
}

/* ---- the command ---- */

/* Counts the rows that are exchanged, and the rows that the processes of a machine have one copy
 * of. If each machine has one process, no rows are shared. */
static void count_rows(const struct ts_engine *e, struct run_plan *p)
{
    const struct cp_args *args = p->args;
    const int may = plan_ranks_beside(&p->ranks) && ts_backend_can(e->backend, TS_CAN_RANKS) &&
                    tstream_cp_may_share(args);
    if (p->ranks.n > 0)
        plan_ranks_rows(e->tensor, args->rank, e->backend->row_bytes(args->rank, args->precision),
                        may ? e->backend->shares(e->be) : 0, &p->ranks);
}

static int make_plan(const struct ts_engine_conf *conf, struct run_plan *p, struct ts_err *err)
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
    ec.dry_run = 1;
    rc = ts_engine_open(&ec, &e, err);
    if (rc < 0)
        return rc;
    engine_note_processor(p->cmd, &e);
    ts_dry_run(&e, &p->args->spec, &p->run);
    p->backend = e.backend->name;
    p->threads = e.threads;
    p->at_once = e.n_models;
    p->memory = e.memory;
    p->library_bytes = e.library_bytes;
    count_rows(&e, p);
    rc = count_disk(&e, p, err);
    ts_engine_close(&e);
    return rc;
}

/* Plans one of several processes, the one with the most shards. It uses CPU cores, unless the user
 * requests GPUs. */
static int plan_processes(struct ts_engine_conf *ec, const struct ts_tensor *t, struct run_plan *p,
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
    struct ts_engine_conf ec = cp_run_engine(args, path, NULL);
    struct run_plan p = { .cmd = cmd, .args = args, .path = path };
    struct ts_tensor *t = NULL;
    int rc;
    p.out = args->out != NULL           ? strdup(args->out)
            : args->from != NULL        ? strdup(args->from->dir)
            : args->models_from != NULL ? strdup(args->models_from->dir)
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
        note_threads(&p);
    if (rc == 0)
        rc = measure(&ec, t, &p, err);
    if (rc == 0)
        count_shared(t, &p);
    if (rc == 0 && p.ranks.n > 0)
        divide(&p, t);
    if (rc == 0)
        (args->json ? plan_print_json : plan_print_text)(&p, t);
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
    .summary = "estimate the memory, time and disk space of a decomposition",
    .text =
        "Takes the options of tstream cp and prints what that run would need. It shows the "
        "memory of the host and of each GPU, part by part, and where shards stay. It shows the "
        "bytes that each sweep reads from disk and sends to GPUs, the seconds of a sweep and of "
        "the run, and the size of the results. Options that tstream cp refuses are refused with "
        "the same message.\n\n"
        "The time is measured in a few seconds. Sweeps run with factor matrices of full size "
        "over a sample of the shards, or over all shards if they are few. The same share of the "
        "shards stays in memory as in the run, and products are assumed to grow with the "
        "nonzeros. The estimate assumes that the machine is as busy later as now. The run can "
        "end earlier, when the fit hardly changes (--tol).\n\n"
        "With several models (--rank 8,16, --restarts), memory is that of the models which are "
        "computed together first. The time of a sweep is that of one model of the largest rank. "
        "Total time and disk space are those of all models.\n\n"
        "--ranks N estimates one of N processes of mpirun or srun: the one whose shards take the "
        "most memory. --threads, --gpus and --host-memory are its own. Without them it has all "
        "CPU cores and memory of a machine like this one. --ranks-per-host K puts K processes on "
        "a machine. They divide its cores and memory. They share one copy of the factors if they "
        "can, and the plan also shows the total of the machine.\n\n"
        "Times of N processes are estimates. One process measures here, and the time is scaled "
        "to the largest share of one process or GPU. The network is assumed to bring 10 GB/s to "
        "each process. GPUs send rows while they compute, so the plan counts only the remaining "
        "time for rows of other processes. The memory of NCCL on a GPU is assumed, not measured.",
    .examples = "tstream plan amazon.tsh --rank 64 --host-memory 4G\n"
                "  can it be done here, and how long does it take?\n",
    .opts = tstream_cp_opts,
    .headings = tstream_cp_headings,
    .section = tstream_cp_section,
    .brief = TSTREAM_CP_BRIEF,
    .old_names = TSTREAM_CP_OLD,
    .aliases = tstream_cp_aliases,
    .run = run_plan,
};
