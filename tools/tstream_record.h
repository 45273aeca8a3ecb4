/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_record.h - the record of a run of tstream cp, X.cp/run.json: what was decomposed by which program,
 * with which options, where and when, what each sweep came to, and why the run ended. docs/outputs.md lists
 * the members.
 *
 *   owner    the caller owns the struct, all zero before tstream_record_start; what cmd, args and engine
 *            point to must stay
 *   units    seconds of a sweep; times of day are local, with the offset from UTC
 *   threads  the one that runs
 *   errors   0 or a negative ts_code; a sweep that there was no memory for is said when the text is made
 */
#ifndef TS_TOOLS_TSTREAM_RECORD_H
#define TS_TOOLS_TSTREAM_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "api/tools.h"

#define TSTREAM_RECORD_NAME "run.json"

struct tstream_record_sweep {
    double fit, seconds;
    int past; /* of an earlier part of the run, of which no more is known */
    double wait_seconds, copy_seconds, kernel_seconds, solve_seconds;
    uint64_t bytes_read;
    double objective;    /* with penalties; NaN where there are none */
    uint32_t n_dead;     /* components of zeros */
    uint32_t n_singular; /* modes whose equations were singular to rounding */
};

struct tstream_record {
    const struct ts_cmd *cmd;
    const void *args;               /* of cmd */
    const struct ts_engine *engine; /* open */

    /* the record's own */
    char *tensor; /* absolute path */
    time_t start;
    uint32_t n, room, n_past; /* sweeps; n_past: those of an earlier part of the run */
    struct tstream_record_sweep *sweep;
    int out_of_memory;
};

/* Now the run starts, on the tensor at `path`. */
int tstream_record_start(struct tstream_record *r, const char *path, struct ts_err *err);

/* A sweep of an earlier part of the run, in their order, before those of this part. */
void tstream_record_past(struct tstream_record *r, double fit, double seconds);

void tstream_record_sweep(struct tstream_record *r, const struct tstream_record_sweep *s);

/* The run ends now: the text of the record, malloc'ed. ended: "converged", "exact", "iterations", "stopped by SIGINT",
 * "stopped by --max-time". */
int tstream_record_end(const struct tstream_record *r, const char *ended, double fit, char **ret,
                       size_t *bytes, struct ts_err *err);

void tstream_record_free(struct tstream_record *r);

#endif
