/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the factors of a planted model as a ktensor file. */
#include "tools/build/gen_truth.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/tools.h"
#include "tools/export/export_text.h"
#include "tools/common/tool.h"

struct entry {
    uint64_t index;
    double value;
    uint64_t component;
};

static void put_number(FILE *to, double x, char end)
{
    char text[TS_DECIMAL_CHARS + 1], *at = ts_decimal_f64(text, x);
    *at++ = end;
    fwrite(text, 1, (size_t)(at - text), to);
}

static int by_index(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->index != y->index ? (x->index < y->index ? -1 : 1)
                                : (x->component > y->component) - (x->component < y->component);
}

/* Sets e to the nonzero entries of a factor, sorted by index, with each column scaled to norm 1.
 * Multiplies the weight of each component by the norm that its column had. */
static void find_entries(const struct ts_synth *s, uint32_t mode, struct entry *e, double *weight)
{
    const uint64_t side = s->side[mode];
    for (uint32_t r = 0; r < s->planted; r++) {
        struct entry *of = e + r * side;
        double sum = 0;
        for (uint64_t i = 0; i < side; i++) {
            of[i].component = r;
            of[i].index = ts_synth_planted(s, mode, r * side + i, &of[i].value);
            sum += of[i].value * of[i].value;
        }
        for (uint64_t i = 0; i < side; i++)
            of[i].value /= sqrt(sum);
        weight[r] *= sqrt(sum);
    }
    qsort(e, s->planted * side, sizeof *e, by_index);
}

static int write_mode(const struct ts_synth *s, uint32_t mode, const struct entry *e,
                      struct export_text *t, struct ts_err *err)
{
    const uint64_t n = s->planted * s->side[mode];
    uint64_t at = 0;
    int rc = 0;
    fprintf(t->to, "matrix\n2\n%" PRIu64 " %" PRIu32 "\n", s->dim[mode], s->planted);
    for (uint64_t row = 0; row < s->dim[mode] && rc == 0; row++) {
        for (uint32_t r = 0; r < s->planted; r++) {
            const int here = at < n && e[at].index == row && e[at].component == r;
            put_number(t->to, here ? e[at].value : 0, r + 1 < s->planted ? ' ' : '\n');
            at += here;
        }
        if (row % 1024 != 0)
            continue;
        if (export_text_full(t))
            rc = export_text_flush(t, err);
        if (rc == 0 && ts_stop_asked(&tool_stop))
            rc = ts_fail(err, TS_ESTOP, "stopped; nothing is left behind");
    }
    return rc;
}

int gen_truth_write(const struct ts_synth *s, uint64_t memory_bytes, struct export_sink *sink,
                    struct ts_err *err)
{
    struct export_text t = { .sink = sink };
    struct entry *e;
    double *weight = malloc(s->planted * sizeof *weight);
    uint64_t most = 0;
    char a[TS_NUM_CHARS];
    int rc = 0;
    for (uint32_t m = 0; m < s->order; m++)
        most = s->planted * s->side[m] > most ? s->planted * s->side[m] : most;
    if (most > memory_bytes / sizeof *e) {
        free(weight);
        return ts_fail(err, TS_ELIMIT, "--truth: the planted factors take %s, more than --memory",
                       ts_num_bytes(a, most * sizeof *e));
    }
    e = malloc(most * sizeof *e);
    if (e == NULL || weight == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for the factors");
    for (uint32_t r = 0; r < s->planted && rc == 0; r++)
        weight[r] = 1;
    for (uint32_t m = 0; m < s->order && rc == 0; m++)
        find_entries(s, m, e, weight);
    if (rc == 0)
        rc = export_text_open(&t, err);
    if (rc == 0) {
        fprintf(t.to, "ktensor\n%" PRIu32 "\n", s->order);
        for (uint32_t m = 0; m < s->order; m++)
            fprintf(t.to, "%" PRIu64 "%c", s->dim[m], m + 1 < s->order ? ' ' : '\n');
        fprintf(t.to, "%" PRIu32 "\n", s->planted);
        for (uint32_t r = 0; r < s->planted; r++)
            put_number(t.to, weight[r], r + 1 < s->planted ? ' ' : '\n');
    }
    for (uint32_t m = 0; m < s->order && rc == 0; m++) {
        find_entries(s, m, e, weight);
        rc = write_mode(s, m, e, &t, err);
    }
    rc = export_text_close(&t, rc, err);
    free(weight);
    free(e);
    return rc;
}
