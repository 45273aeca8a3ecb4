/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_times.h - reports the time of a mode by device, for --details, --json and --trace.
 *
 *   units    seconds in JSON, milliseconds in lines
 *   threads  the thread that prints
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

/* Rows of an option table for --details and --trace. The rows of tstream cp are in
 * base/settings.def. */
/* clang-format off */
#define TSTREAM_TIMES_OPTS(at_details, at_trace) \
    { "details", 'd', TS_OPT_FLAG, (at_details), NULL, NULL, HELP_DETAILS }, \
    { "trace", 0, TS_OPT_STRING, (at_trace), NULL, "FILE", HELP_TRACE }
/* clang-format on */

/* Returns the means of times over the devices; bytes and nonzeros are sums. */
struct ts_device_times tstream_times_mean(const struct ts_backend_times *t);

/* Returns the kernel time of the slowest device relative to the mean; 1 if there is one device. */
double tstream_times_imbalance(const struct ts_backend_times *t);

/* Adds the member "devices":[{"gpu":0,...}] to the open object; for the CPU "gpu" is null. */
void tstream_times_json(struct tool_json *j, const struct ts_backend_times *t);

/* Adds the members "rows_to" (which processes received the updated rows of the mode's factor) and
 * "row_bytes" (how many bytes these were). */
void tstream_times_rows_json(struct tool_json *j, const struct ts_backend_times *t);

/* Print the column names of the table of times, and a line of it for each device, on standard
 * output. */
void tstream_times_head(void);
void tstream_times_print(uint32_t mode, const struct ts_backend_times *t);

/* Opens the trace file; *ret is NULL if path is NULL. force: 1 if an existing file of that name may
 * be replaced. */
int tstream_trace_open(const char *path, int force, const char *tensor, struct ts_trace **ret,
                       struct ts_err *err);

/* Closes the trace file, after everything that writes to it is closed. If rc is 0, keeps the file
 * and returns the result of closing it. Otherwise removes the file and returns rc. */
int tstream_trace_close(const struct ts_cmd *cmd, struct ts_trace *trace, int rc,
                        struct ts_err *err);

#endif
