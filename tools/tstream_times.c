#include "tools/tstream_times.h"

#include <stdio.h>

#include "base/num.h"

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

struct ts_device_times tstream_times_mean(const struct ts_backend_times *t)
{
    const uint32_t n = t->n_devices > 0 ? t->n_devices : 1;
    struct ts_device_times m = { .number = -1 };
    for (uint32_t i = 0; i < t->n_devices; i++) {
        const struct ts_device_times *d = &t->device[i];
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
    uint64_t slowest_ns = 0;
    for (uint32_t i = 0; i < t->n_devices; i++)
        if (t->device[i].kernel_ns > slowest_ns)
            slowest_ns = t->device[i].kernel_ns;
    return t->n_devices > 1 && mean_ns > 0 ? (double)slowest_ns / (double)mean_ns : 1;
}

void tstream_times_json(struct tool_json *j, const struct ts_backend_times *t)
{
    tool_json_array(j, "devices");
    for (uint32_t i = 0; i < t->n_devices; i++) {
        const struct ts_device_times *d = &t->device[i];
        tool_json_object(j, NULL);
        if (d->number >= 0)
            tool_json_i64(j, "gpu", d->number);
        else
            tool_json_str(j, "gpu", NULL);
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

/* A mode may be done in milliseconds. */
static double ms(uint64_t ns)
{
    return (double)ns * 1e-6;
}

void tstream_times_head(void)
{
    printf(" mode     on  nonzeros        sent  ms: wait     copy   kernel    solve exchange  exposed     "
           "idle    share\n");
}

void tstream_times_print(uint32_t mode, const struct ts_backend_times *t)
{
    for (uint32_t i = 0; i < t->n_devices; i++) {
        const struct ts_device_times *d = &t->device[i];
        char on[16] = "CPU", nnz[TS_NUM_CHARS], bytes[TS_NUM_CHARS];
        if (d->number >= 0)
            snprintf(on, sizeof on, "GPU %d", d->number);
        printf("%5u %6s %9s %11s  %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %6.2f %%\n", mode + 1, on,
               ts_num_short(nnz, (double)d->nnz), ts_num_bytes(bytes, d->bytes), ms(d->wait_ns),
               ms(d->copy_ns), ms(d->kernel_ns), ms(d->solve_ns), ms(d->exchange_ns),
               ms(d->exposed_ns), ms(d->idle_ns), 100 * d->share);
    }
}

int tstream_trace_open(const char *path, const char *tensor, struct ts_trace **ret,
                       struct ts_err *err)
{
    int rc;
    *ret = NULL;
    if (path == NULL)
        return 0;
    rc = tool_outside(path, tensor, err);
    if (rc == 0)
        rc = ts_trace_open(path, ret, err);
    if (rc < 0)
        return rc;
    ts_trace_group(*ret, 0, "host");
    ts_trace_lane(*ret, TS_TRACE_MODES, "modes");
    return 0;
}

int tstream_trace_close(struct ts_trace *trace, int rc, struct ts_err *err)
{
    if (rc == 0)
        return ts_trace_close(trace, err);
    ts_trace_drop(trace);
    return rc;
}
