/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the times of devices: lines for --details, and members of JSON. */
#include "tools/cp/tstream_times.h"

#include <stdio.h>
#include <string.h>

#include "api/tools.h"
#include "tools/common/tool_ranks.h"
#include "tools/common/tool_term.h"

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

struct ts_device_times tstream_times_mean(const struct ts_backend_times *t)
{
    uint32_t n_told;
    const struct ts_device_times *told = ts_backend_told(t, &n_told);
    const uint32_t n = n_told > 0 ? n_told : 1;
    struct ts_device_times m = { .number = -1 };
    for (uint32_t i = 0; i < n_told; i++) {
        const struct ts_device_times *d = &told[i];
        m.nnz += d->nnz;
        m.bytes += d->bytes;
        m.early_bytes += d->early_bytes;
        m.wait_ns += d->wait_ns;
        m.copy_ns += d->copy_ns;
        m.kernel_ns += d->kernel_ns;
        m.solve_ns += d->solve_ns;
        m.exchange_ns += d->exchange_ns;
        m.exposed_ns += d->exposed_ns;
        m.idle_ns += d->idle_ns;
        m.share += d->share;
    }
    m.wait_ns /= n;
    m.copy_ns /= n;
    m.kernel_ns /= n;
    m.solve_ns /= n;
    m.exchange_ns /= n;
    m.exposed_ns /= n;
    m.idle_ns /= n;
    m.share /= n;
    return m;
}

double tstream_times_imbalance(const struct ts_backend_times *t)
{
    const uint64_t mean_ns = tstream_times_mean(t).kernel_ns;
    uint32_t n;
    const struct ts_device_times *told = ts_backend_told(t, &n);
    uint64_t slowest_ns = 0;
    for (uint32_t i = 0; i < n; i++)
        if (told[i].kernel_ns > slowest_ns)
            slowest_ns = told[i].kernel_ns;
    return n > 1 && mean_ns > 0 ? (double)slowest_ns / (double)mean_ns : 1;
}

void tstream_times_json(struct tool_json *j, const struct ts_backend_times *t)
{
    uint32_t n;
    const struct ts_device_times *told = ts_backend_told(t, &n);
    tool_json_array(j, "devices");
    for (uint32_t i = 0; i < n; i++) {
        const struct ts_device_times *d = &told[i];
        tool_json_object(j, NULL);
        if (d->number >= 0)
            tool_json_i64(j, "gpu", d->number);
        else
            tool_json_str(j, "gpu", NULL);
        if (t->n_ranks > 0)
            tool_json_u64(j, "rank", d->rank);
        tool_json_u64(j, "nnz", d->nnz);
        tool_json_u64(j, "bytes", d->bytes);
        tool_json_u64(j, "early_bytes", d->early_bytes);
        tool_json_f64(j, "wait_seconds", seconds(d->wait_ns));
        tool_json_f64(j, "copy_seconds", seconds(d->copy_ns));
        tool_json_f64(j, "kernel_seconds", seconds(d->kernel_ns));
        tool_json_f64(j, "solve_seconds", seconds(d->solve_ns));
        tool_json_f64(j, "exchange_seconds", seconds(d->exchange_ns));
        tool_json_f64(j, "exposed_seconds", seconds(d->exposed_ns));
        tool_json_f64(j, "idle_seconds", seconds(d->idle_ns));
        tool_json_f64(j, "share", d->share);
        tool_json_close(j);
    }
    tool_json_close(j);
}

/* Returns, as text, to which ranks (processes) rows of factors were sent; NULL: none were sent. */
static const char *name_of(enum ts_rows_to to)
{
    static const char *const name[] = { NULL, "all", "needing" };
    return name[to];
}

void tstream_times_rows_json(struct tool_json *j, const struct ts_backend_times *t)
{
    tool_json_str(j, "rows_to", name_of(t->rows_to));
    tool_json_u64(j, "row_bytes", t->row_bytes);
}

enum {
    MODE,
    ON,
    NNZ,
    SENT,
    WAIT,
    COPY,
    KERNEL,
    SOLVE,
    EXCHANGE,
    EXPOSED,
    IDLE,
    SHARE,
    ROWS,
    TO,
    N_COLUMNS
};

static struct tool_column column[N_COLUMNS] = {
    [MODE] = { .name = "mode", .width = 5 },
    [ON] = { .name = "on", .width = 5 },
    [NNZ] = { .name = "nonzeros", .width = 8 },
    [SENT] = { .name = "sent", .width = 8, .drop = 4 },
    [WAIT] = { .name = "ms: wait", .width = 8 },
    [COPY] = { .name = "copy", .width = 7 },
    [KERNEL] = { .name = "kernel", .width = 7 },
    [SOLVE] = { .name = "solve", .width = 7 },
    [EXCHANGE] = { .name = "exchange", .width = 8, .drop = 1 },
    [EXPOSED] = { .name = "exposed", .width = 7, .drop = 5 },
    [IDLE] = { .name = "idle", .width = 7, .drop = 2 },
    [SHARE] = { .name = "share", .width = 7, .drop = 3 },
    [ROWS] = { .name = "rows", .width = 8 },
    [TO] = { .name = "to", .width = 7, .left = 1 },
};

/* Returns the columns of the table that fit. The last two are for several ranks (processes), with
 * names such as "10:CPU". */
static uint32_t fit_columns(void)
{
    column[ON].width = tool_ranks_count() > 10 ? 7 : 5;
    column[ROWS].drop = column[TO].drop = tool_ranks() == NULL ? TOOL_ABSENT : 0;
    return tool_table_fit(column, N_COLUMNS, tool_columns());
}

/* prints milliseconds with two digits after the point, because a mode may take only a few */
static void put_ms(char *buf, uint64_t ns)
{
    snprintf(buf, TS_NUM_CHARS, "%.2f", (double)ns * 1e-6);
}

void tstream_times_head(void)
{
    tool_table_head(column, N_COLUMNS, fit_columns());
}

/* Prints a line of the table of times. With several ranks (processes), "1:0" is GPU 0 of rank 1,
 * and "1:CPU" its CPU cores. first: the first line of the mode, which also shows the figures of the
 * whole mode. */
static void print_device(uint32_t mode, const struct ts_backend_times *t,
                         const struct ts_device_times *d, int first, uint32_t shown)
{
    const uint32_t n_ranks = t->n_ranks;
    char text[N_COLUMNS][TS_NUM_CHARS];
    const char *cell[N_COLUMNS];
    snprintf(text[MODE], TS_NUM_CHARS, "%u", mode + 1);
    strcpy(text[ON], "CPU");
    if (d->number < 0 && n_ranks > 0)
        snprintf(text[ON], TS_NUM_CHARS, "%u:CPU", d->rank);
    else if (d->number >= 0 && n_ranks > 0)
        snprintf(text[ON], TS_NUM_CHARS, "%u:%d", d->rank, d->number);
    else if (d->number >= 0)
        snprintf(text[ON], TS_NUM_CHARS, "GPU %d", d->number);
    ts_num_short(text[NNZ], (double)d->nnz);
    ts_num_bytes(text[SENT], d->bytes);
    put_ms(text[WAIT], d->wait_ns);
    put_ms(text[COPY], d->copy_ns);
    put_ms(text[KERNEL], d->kernel_ns);
    put_ms(text[SOLVE], d->solve_ns);
    put_ms(text[EXCHANGE], d->exchange_ns);
    put_ms(text[EXPOSED], d->exposed_ns);
    put_ms(text[IDLE], d->idle_ns);
    snprintf(text[SHARE], TS_NUM_CHARS, "%.2f %%", 100 * d->share);
    text[ROWS][0] = '\0';
    if (first)
        ts_num_bytes(text[ROWS], t->row_bytes);
    for (int i = 0; i < N_COLUMNS; i++)
        cell[i] = text[i];
    cell[TO] = !first || t->rows_to == TS_ROWS_STAY ? "" : name_of(t->rows_to);
    tool_table_row(column, N_COLUMNS, shown, cell);
}

void tstream_times_print(uint32_t mode, const struct ts_backend_times *t)
{
    const uint32_t shown = fit_columns();
    uint32_t n;
    const struct ts_device_times *told = ts_backend_told(t, &n);
    for (uint32_t i = 0; i < n; i++)
        print_device(mode, t, &told[i], i == 0, shown);
}

int tstream_trace_open(const char *path, int force, const char *tensor, struct ts_trace **ret,
                       struct ts_err *err)
{
    int rc;
    *ret = NULL;
    if (path == NULL)
        return 0;
    rc = tool_outside(path, tensor, err);
    if (rc == 0)
        rc = tool_reads(tensor, err);
    if (rc == 0)
        rc = tool_writes_file(path, "--trace", err);
    if (rc == 0)
        rc = ts_trace_open(path, force, ret, err);
    if (rc < 0)
        return rc;
    ts_trace_group(*ret, 0, "host");
    ts_trace_lane(*ret, TS_TRACE_MODES, "modes");
    return 0;
}

int tstream_trace_close(const struct ts_cmd *cmd, struct ts_trace *trace, int rc,
                        struct ts_err *err)
{
    struct ts_err warn = { 0 };
    if (rc == 0) {
        rc = ts_trace_close(trace, &warn, err);
        tool_warn(cmd, &warn);
        return rc;
    }
    ts_trace_drop(trace);
    return rc;
}
