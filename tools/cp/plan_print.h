/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_print.h - the results of tstream plan, printed as a table or a JSON object.
 *
 *   owner    the command owns what the struct points to
 *   units    bytes, seconds
 */
#ifndef TS_TOOLS_PLAN_PRINT_H
#define TS_TOOLS_PLAN_PRINT_H

#include "api/tools.h"
#include "tools/cp/plan_ranks.h"
#include "tools/common/tool.h"
#include "tools/cp/tstream_cp.h"
#include "tools/cp/tstream_sample.h"

struct run_plan {
    const struct ts_cmd *cmd;
    const struct cp_args *args;
    const char *path;
    char *out;
    const char *backend;
    int dense; /* 1: the tensor is dense, so slabs of cells take the place of shards */
    /* at_once: number of models computed at the same time, for which memory is planned */
    uint32_t threads, at_once;

    struct ts_engine_memory memory;
    uint64_t program_bytes, library_bytes;
    struct ts_dry_run run;
    /* bytes of the result, and free bytes of its disk; -1: unknown */
    double result_bytes, free_disk_bytes;
    uint64_t state_bytes; /* size of one state of the run on disk */
    uint32_t n_states;    /* most states that exist at the same time */

    double disk_per_s, measured_s, sample_share;
    struct tstream_pace pace;

    /* how the work is divided among processes; ranks.n is 0 if there is only one process */
    struct plan_ranks ranks;
    struct ts_comm comm;     /* communicator of the process whose memory and time are planned */
    uint64_t exchange_bytes; /* bytes that this process receives in a sweep */
    /* exchange_s: seconds of the exchange; exposed_s: seconds of it during which nothing
     * computes */
    double exchange_s, exposed_s;
};

void plan_print_text(const struct run_plan *p, const struct ts_tensor *t);
void plan_print_json(const struct run_plan *p, const struct ts_tensor *t);

/* Returns the sum of the n times in x. */
double plan_sum(const double *x, uint32_t n);

#endif
