/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_print.h - what tstream plan found out, and its two forms: a table and a JSON object.
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
    int dense;                 /* slabs of cells in place of shards */
    uint32_t threads, at_once; /* at_once: models side by side, which memory is that of */

    struct ts_engine_memory memory;
    uint64_t program_bytes, library_bytes;
    struct ts_dry_run run;
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

void plan_print_text(const struct run_plan *p, const struct ts_tensor *t);
void plan_print_json(const struct run_plan *p, const struct ts_tensor *t);

/* The sum of n times. */
double plan_sum(const double *x, uint32_t n);

#endif
