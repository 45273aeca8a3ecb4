/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_times.h - where the time of a mode went, device by device: for --details, --json and
 * --trace.
 *
 *   units    seconds in JSON, milliseconds in lines
 *   threads  the one that prints
 */
#ifndef TS_TOOLS_TSTREAM_TIMES_H
#define TS_TOOLS_TSTREAM_TIMES_H

#include "api/tools.h"
#include "tools/common/tool.h"

#define HELP_DETAILS                                                                           \
    "also print a line for each mode and GPU. It shows nonzeros, bytes sent to the GPU and "   \
    "milliseconds. The times are wait (for shards), copy (of shards), kernel (MTTKRP), solve " \
    "(rows), exchange (of rows with other GPUs), exposed (exchange while nothing computes) "   \
    "and idle. share is the GPU's part of the mode in the next sweep. With several processes " \
    "on CPU cores there is a line for each (\"1:CPU\"). It also shows the bytes of exchanged " \
    "rows, and whether rows went to all processes or only to those that need them"
#define HELP_TRACE                                                                \
    "write a timeline of reads, copies and kernels as JSON. ui.perfetto.dev and " \
    "chrome://tracing show it. It takes about 120 bytes for each shard and step"

/* The rows of an option table that choose what is told: --details and --trace. Those of tstream cp
 * are in base/settings.def. */
/* clang-format off */
#define TSTREAM_TIMES_OPTS(at_details, at_trace) \
    { "details", 'd', TS_OPT_FLAG, (at_details), NULL, NULL, HELP_DETAILS }, \
    { "trace", 0, TS_OPT_STRING, (at_trace), NULL, "FILE", HELP_TRACE }
/* clang-format on */

/* Means over the devices; bytes and nonzeros are sums. */
struct ts_device_times tstream_times_mean(const struct ts_backend_times *t);

/* Kernel time of the slowest device over the mean; 1 when there is one device. */
double tstream_times_imbalance(const struct ts_backend_times *t);

/* "devices":[{"gpu":0,...}], a member of the open object; the CPU's gpu is null. */
void tstream_times_json(struct tool_json *j, const struct ts_backend_times *t);

/* "rows_to" and "row_bytes": to which ranks the rows of the mode went. */
void tstream_times_rows_json(struct tool_json *j, const struct ts_backend_times *t);

/* Column names, and a line for each device, for standard output. */
void tstream_times_head(void);
void tstream_times_print(uint32_t mode, const struct ts_backend_times *t);

/* *ret is NULL when path is. force: a file of that name may be replaced. The host's part has its
 * name. */
int tstream_trace_open(const char *path, int force, const char *tensor, struct ts_trace **ret,
                       struct ts_err *err);

/* After everything that could write to it is closed: keeps the file when rc is 0 and returns what
 * became of it, else removes it and returns rc. */
int tstream_trace_close(const struct ts_cmd *cmd, struct ts_trace *trace, int rc,
                        struct ts_err *err);

#endif
