/* SPDX-License-Identifier: BSD-3-Clause */
/* Exports the cells of a dense tensor, slab by slab. */
#include "tools/export/export_dense.h"

#include <inttypes.h>
#include <math.h>

#include <tstream.h>

#include "tools/export/export_text.h"
#include "tools/common/tool.h"

#define PIECE 512u /* number of cells whose text is made at a time */

int export_dense_count(const struct export_dense *e, uint64_t *known, struct ts_err *err)
{
    const struct ts_dense *d = e->tensor->dense;
    const int rc = ts_dense_scan_alone(e->tensor, e->threads, &tool_stop, err);
    if (rc == 0)
        *known = d->cells - d->n_unknown;
    return rc;
}

/* Writes the line of cell number `at` of the array. */
static void put_cell(const struct export_dense *e, uint64_t at, double value, FILE *to)
{
    const struct ts_tensor *t = e->tensor;
    uint64_t index[TS_MAX_ORDER];
    char text[TS_DECIMAL_CHARS + 1], *end;
    for (uint32_t l = t->order; l-- > 0;) {
        const uint32_t m = t->dense->layout[l];
        index[m] = at % ts_dim(t, m);
        at /= ts_dim(t, m);
    }
    for (uint32_t m = 0; m < t->order; m++)
        fprintf(to, "%" PRIu64 "%c", index[m] + e->base, e->separator);
    end = t->header.value_bytes == 4 ? ts_decimal_f32(text, (float)value)
                                     : ts_decimal_f64(text, value);
    *end++ = '\n';
    fwrite(text, 1, (size_t)(end - text), to);
}

static int put_slab(const struct export_dense *e, const struct ts_slab_view *v,
                    struct export_text *text, struct ts_err *err)
{
    const struct ts_dense *d = e->tensor->dense;
    const uint64_t cells = v->part.rows * v->part.cols;
    const uint64_t base = v->part.row * d->inner + v->part.col;
    double x[PIECE];
    int rc = 0;
    for (uint64_t at = 0; at < cells && rc == 0; at += PIECE) {
        const uint32_t n = cells - at < PIECE ? (uint32_t)(cells - at) : PIECE;
        ts_dense_get_f64(d, v->cells, at, n, x);
        for (uint32_t i = 0; i < n; i++)
            if (!isnan(x[i]))
                put_cell(e, base + at + i, x[i], text->to);
        rc = ts_stop_check(&tool_stop, err);
        if (rc == 0 && export_text_full(text))
            rc = export_text_flush(text, err);
    }
    return rc;
}

int export_dense_write(const struct export_dense *e, struct ts_err *err)
{
    const struct ts_feed_conf conf = { .tensor = e->tensor,
                                       .host_bytes =
                                           10 * (ts_dense_most_bytes(e->tensor->dense) + TS_PAGE),
                                       .only_mode = -1,
                                       .stop = &tool_stop };
    struct export_text text = { .sink = e->sink };
    struct ts_slab_view v;
    struct ts_feed *feed = NULL;
    int rc = ts_feed_new(&conf, &feed, err);
    if (rc == 0) {
        rc = export_text_open(&text, err);
        if (rc == 0)
            ts_slabs_rewind(ts_feed_slabs(feed));
        while (rc == 0 && (rc = ts_slabs_next(ts_feed_slabs(feed), &v, err)) > 0)
            rc = put_slab(e, &v, &text, err);
        rc = export_text_close(&text, rc, err);
    }
    ts_feed_free(feed);
    return rc;
}
