/* SPDX-License-Identifier: BSD-3-Clause */
/* model_room.c - formats, shape and disk space of a model that is written (model_write.h). */
#include <inttypes.h>
#include <string.h>

#include "base/setting.h"
#include "model/model_write.h"

int ts_model_formats(const char *list, unsigned *ret, struct ts_err *err)
{
    static const char *const name[] = { "ktensor", "npy", "splatt" };
    unsigned formats = 0;
    for (const char *at = list;;) {
        const size_t n = strcspn(at, ",");
        unsigned bit = 0;
        for (unsigned i = 0; i < 3; i++)
            if (strlen(name[i]) == n && strncmp(at, name[i], n) == 0)
                bit = 1u << i;
        if (bit == 0)
            return ts_fail(err, TS_EARG,
                           "format \"%.*s\" is not known: there are ktensor, npy and splatt",
                           (int)n, at);
        formats |= bit;
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    *ret = formats;
    return 0;
}

struct ts_model_shape ts_model_shape_of(const struct ts_tensor *t)
{
    struct ts_model_shape s = { .order = t->order, .tensor = t };
    for (uint32_t m = 0; m < t->order; m++) {
        s.dim[m] = t->mode[m].disk.dim;
        s.n_rows[m] = t->mode[m].disk.n_rows;
    }
    return s;
}

static uint64_t rows_of(const struct ts_model_conf *c, uint32_t mode)
{
    return c->used_rows ? c->shape.n_rows[mode] : c->shape.dim[mode];
}

/* Returns the fewest bytes that the files of a mode can have: zeros are short in text. */
static double least_bytes(const struct ts_model_conf *c, uint32_t mode)
{
    const double number = c->precision == TS_FLOAT32 ? 4 : 8, rows = (double)rows_of(c, mode);
    const double used = (double)c->shape.n_rows[mode];
    const double text = used * c->rank * 2 * number + (rows - used) * c->rank * 2;
    const double start = c->start_bytes == NULL ? 0 : c->start_bytes[mode];
    return start + (c->formats & TS_WRITE_NPY ? rows * c->rank * number : 0) +
           (c->formats & TS_WRITE_KTENSOR ? text : 0) + (c->formats & TS_WRITE_SPLATT ? text : 0);
}

double ts_model_bytes(const struct ts_model_conf *conf)
{
    double total = 0;
    for (uint32_t m = 0; m < conf->shape.order; m++)
        total += least_bytes(conf, m);
    return total;
}

int ts_model_room(const struct ts_model_conf *conf, uint64_t free_bytes, struct ts_err *err)
{
    const double total = ts_model_bytes(conf);
    uint32_t largest = 0;
    for (uint32_t m = 0; m < conf->shape.order; m++)
        if (least_bytes(conf, m) > least_bytes(conf, largest))
            largest = m;
    if (total <= (double)free_bytes)
        return 0;
    return ts_fail(err, TS_ELIMIT,
                   "%s: " TS_NTH_MODE " with %" PRIu64
                   " rows of %u columns takes at least %.3g bytes, all "
                   "modes %.3g, and %.3g are free there%s",
                   conf->dir, largest + 1, rows_of(conf, largest), conf->rank,
                   least_bytes(conf, largest), total, (double)free_bytes,
                   conf->shape.n_rows[largest] < rows_of(conf, largest)
                       ? "; rows of used slices alone would be fewer (" TS_SET_ROWS_USED ")"
                       : "");
}
