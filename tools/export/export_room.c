/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimates the size of exported text from characters per line. */
#include "tools/export/export_room.h"

#include <math.h>
#include <sys/stat.h>

#include "tools/common/tool.h"

#define MOST_RATIO  1032 /* largest compression ratio of deflate */
#define VALUE_CHARS 25   /* most characters of a float64 as text */

static uint32_t digits(uint64_t x)
{
    uint32_t n = 1;
    for (; x >= 10; x /= 10)
        n++;
    return n;
}

struct ts_space export_room_of_rows(const struct ts_tensor *t, uint32_t base, int named,
                                    uint64_t line_bytes)
{
    uint64_t low = t->nnz * (t->order + 2 + 2 * (uint64_t)ts_tensor_weighted(t));
    int has_names = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        const int names = named && t->mode[m].disk.n_labels > 0;
        has_names |= names;
        for (uint64_t i = 0; i < t->mode[m].disk.n_shards; i++) {
            const struct ts_disk_shard *s = &t->mode[m].shard[i];
            low += s->nnz * (uint64_t)(names ? 1 : digits(s->row_first + (uint64_t)base));
        }
    }
    return (struct ts_space){ low, has_names ? UINT64_MAX : t->nnz * line_bytes + (64 << 10) };
}

struct ts_space export_room_of_cells(const struct ts_tensor *t, uint64_t n)
{
    uint64_t most = VALUE_CHARS + 1;
    for (uint32_t m = 0; m < t->order; m++)
        most += digits(t->mode[m].disk.dim) + 1;
    return (struct ts_space){ n * (2 * t->order + 2), n * most + (64 << 10) };
}

/* Returns the mean number of digits of the numbers 1 to n. */
static double mean_digits(uint64_t n)
{
    double sum = 0;
    for (uint64_t first = 1, d = 1; first <= n; first *= 10, d++) {
        const uint64_t end = first > n / 10 ? n : 10 * first - 1;
        sum += (double)(end - first + 1) * (double)d;
    }
    return sum / (double)n;
}

/* Returns the least number of lines of a generated tensor, without cells of value 0. Bounds of
 * random numbers here and below allow for six standard deviations. */
static double lines_of_draws(const struct ts_synth *s)
{
    const double n = (double)s->nnz, last = (double)s->value_last;
    const int zeros = s->value_first == 0 && s->value_last > 0;
    return zeros ? fmax(0, n * last / (last + 1) - 6 * sqrt(n)) : n;
}

struct ts_space export_room_of_draws(const struct ts_synth *s)
{
    const double all = (double)s->nnz, n = lines_of_draws(s);
    double low = n * 2, high = all * (VALUE_CHARS + 1); /* a value and a newline */
    for (uint32_t m = 0; m < s->order; m++) {
        const int uniform = s->power[m] == 0 && s->planted == 0;
        /* An index takes at least a digit and a blank. Uniformly distributed indices take more on
         * average. */
        low += 2 * n;
        if (uniform)
            low = fmax(low, low + n * (mean_digits(s->dim[m]) - 1) - 6 * sqrt(n));
        high += all * (digits(s->dim[m]) + 1);
    }
    return (struct ts_space){ (uint64_t)low, (uint64_t)high };
}

struct ts_space export_room_of_truth(const struct ts_synth *s)
{
    uint64_t entries = 0;
    for (uint32_t m = 0; m < s->order; m++)
        entries += s->dim[m] * s->planted;
    return (struct ts_space){ 2 * entries, entries * (VALUE_CHARS + 1) + (64 << 10) };
}

int export_room_check(const struct export_sink *sink, const char *option, struct ts_space text,
                      struct ts_err *err)
{
    static char place[] = "its disk";
    struct ts_room room = { .what = "the text",
                            .name = export_sink_name(sink),
                            .place = option,
                            .dir = place,
                            .tmp = place,
                            .memory_bytes = UINT64_MAX };
    struct ts_need need = { 0 };
    struct ts_err warn;
    struct stat st;
    int rc;
    if (fstat(sink->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    ts_disk_free_of(sink->fd, &room.out);
    room.in_tmp = room.out;
    if (sink->gzip) {
        text.low /= MOST_RATIO;
        text.high = text.high > UINT64_MAX / 2 ? UINT64_MAX : text.high + text.high / 256;
    }
    need.result = need.both = text;
    need.file = text.low;
    rc = ts_room_check(&room, &need, "nothing was written", err);
    if (rc == 0 && ts_room_may_lack(&room, &need, "", &warn))
        tool_progress_warn(warn.text);
    return rc;
}
