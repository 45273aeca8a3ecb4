/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of unknown cells against the obvious loop: all modes, groups and parts of rows, both kinds
 * of cells, bits kept or not. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/dense/dense_scan.h"
#include "cpu/dense/dense_unknown.h"
#include "format/arrays/dense.h"
#include "tests/support/run_suite.h"

static const struct shape {
    uint32_t order;
    uint64_t dim[TS_DENSE_MAX_ORDER], slab_bytes;
} shapes[] = {
    { 2, { 37, 50 }, 0 },
    { 2, { 1, 700 }, 4096 },
    { 3, { 40, 30, 21 }, 8192 },
    { 3, { 1, 300, 129 }, 4096 },
    { 3, { 129, 70, 1 }, 0 },
    { 4, { 3, 17, 20, 31 }, 4096 },
    { 5, { 9, 2, 11, 3, 13 }, 4096 },
    { 8, { 3, 2, 3, 2, 3, 2, 3, 5 }, 4096 },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

struct cells {
    struct ts_tensor *t;
    double *value;
    struct ts_hold_out hold_out;
};

/* Three of ten cells are NaN, and of row 0 of the first mode most. */
static struct cells cells_new(const struct shape *s, int fortran, int held)
{
    struct ts_dense_array a = { .path = "cells",
                                .type = TS_CELL_F64,
                                .fortran = fortran,
                                .order = s->order,
                                .slab_bytes = s->slab_bytes };
    struct cells x = { .hold_out = { .share = held ? 0.2 : 0, .seed = 4 } };
    struct ts_err err;
    uint64_t n = 1;
    memcpy(a.dim, s->dim, sizeof a.dim);
    for (uint32_t m = 0; m < s->order; m++)
        n *= s->dim[m];
    a.memory = x.value = malloc(n * sizeof *x.value);
    ck_assert_msg(ts_dense_open(&a, &x.t, &err) == 0, "%s", err.text);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t index[TS_DENSE_MAX_ORDER];
        ts_dense_index(x.t->dense, i, index);
        x.value[i] = ts_unit(ts_mix(i + 77)) < (index[0] == 0 ? 0.8 : 0.3) ? NAN : 1;
    }
    ck_assert_msg(ts_dense_scan_alone(x.t, 1, NULL, &err) == 0, "%s", err.text);
    return x;
}

static int is_unknown(const struct cells *x, uint64_t cell)
{
    uint64_t index[TS_DENSE_MAX_ORDER], hash = ts_hold_out_begin(&x->hold_out);
    ts_dense_index(x->t->dense, cell, index);
    for (uint32_t m = 0; m < x->t->order; m++)
        hash = ts_hold_out_add(hash, index[m]);
    return isnan(x->value[cell]) || (x->hold_out.share > 0 && ts_hold_out_held(&x->hold_out, hash));
}

struct check {
    const struct cells *x;
    const struct ts_dense_wanted *w;
    uint64_t slab, listed;
};

/* A list has no cell twice, cells of a key ascend, and all are what it says; how many there are is
 * compared at the end. */
static void check_list(void *ctx, const struct ts_dense_list *list)
{
    struct check *c = ctx;
    const struct ts_dense_wanted *w = c->w;
    struct ts_dense_part part;
    uint64_t part_cells, n;
    for (;; c->slab++) { /* one without rows that are wanted is not given */
        ts_dense_slab(c->x->t->dense, c->slab, &part);
        if (part.row * c->x->t->dense->inner + part.col == list->base)
            break;
    }
    n = part.rows * part.cols;
    part_cells = (n + w->parts - 1) / w->parts;
    ck_assert_uint_eq(list->start[0], 0);
    for (uint64_t k = 0; k < list->keys; k++)
        for (uint32_t i = list->start[k]; i < list->start[k + 1]; i++) {
            const uint64_t cell = list->base + list->cell[i], row = list->row + k / w->parts;
            uint64_t index[TS_DENSE_MAX_ORDER];
            ts_dense_index(c->x->t->dense, cell, index);
            ck_assert_uint_lt(list->cell[i], n);
            ck_assert(i == list->start[k] || list->cell[i] > list->cell[i - 1]);
            ck_assert_uint_eq(index[w->mode], row);
            ck_assert(row >= w->first && row < w->end);
            ck_assert_uint_eq(list->cell[i] / part_cells, k % w->parts);
            ck_assert_int_eq(is_unknown(c->x, cell), !w->known[row]);
        }
    c->listed += list->start[list->keys];
    c->slab++;
}

static void check_mode(const struct cells *x, struct ts_dense_unknown *u, uint32_t mode,
                       struct ts_feed *feed)
{
    const struct ts_dense *d = x->t->dense;
    const uint64_t dim = d->array.dim[mode], cells = d->cells / dim;
    const uint64_t *count = ts_dense_unknown_counts(u, mode);
    uint64_t *want = calloc(dim, sizeof *want);
    unsigned char *known = calloc(dim, 1);
    struct ts_err err;
    for (uint64_t i = 0; i < d->cells; i++) {
        uint64_t index[TS_DENSE_MAX_ORDER];
        ts_dense_index(d, i, index);
        want[index[mode]] += (uint64_t)is_unknown(x, i);
    }
    ck_assert_mem_eq(count, want, dim * sizeof *want);
    for (int some = 0; some < 2; some++)
        for (uint32_t parts = 1; parts <= 3; parts += 2)
            for (uint64_t step = dim < 7 ? dim : dim / 3; step <= dim;
                 step += dim - step + (step == dim))
                for (uint64_t first = 0; first < dim; first += step) {
                    struct ts_dense_wanted w = {
                        .mode = mode, .parts = parts, .first = first, .known = known
                    };
                    struct check c = { .x = x, .w = &w };
                    uint64_t n = 0;
                    w.end = dim - first < step ? dim : first + step;
                    for (uint64_t i = first; i < w.end; i++) {
                        known[i] = some && count[i] > cells / 2;
                        w.some_known |= known[i];
                        n += known[i] ? cells - count[i] : count[i];
                    }
                    ck_assert_msg(ts_dense_unknown_list(u, &w, check_list, &c, feed, &err) == 0,
                                  "%s", err.text);
                    ck_assert_uint_eq(c.listed, n);
                }
    free(want);
    free(known);
}

START_TEST(lists_equal_the_loop)
{
    const struct shape *s = &shapes[_i / 4];
    struct cells x = cells_new(s, _i % 2, 0);
    struct ts_feed_conf fc = { .tensor = x.t, .host_bytes = 1 << 30, .only_mode = -1 };
    struct ts_dense_unknown_conf conf = { .tensor = x.t,
                                          .most_keys = 3 * 700,
                                          .bit_bytes = _i % 4 < 2 ? 1 << 30 : 0 };
    struct ts_feed *feed;
    struct ts_err err;
    ck_assert_msg(ts_feed_new(&fc, &feed, &err) == 0, "%s", err.text);
    for (conf.threads = 1; conf.threads <= 3; conf.threads += 2) {
        struct ts_dense_unknown *u;
        ck_assert_msg(ts_dense_unknown_new(&conf, &u, &err) == 0, "%s", err.text);
        for (int held = 1; held >= 0; held--) { /* what was held out before must not matter */
            x.hold_out.share = held ? 0.2 : 0;
            ck_assert_int_eq(ts_dense_unknown_find(u, &x.hold_out, feed, &err), 0);
            for (uint32_t m = 0; m < s->order; m++)
                check_mode(&x, u, m, feed);
        }
        ts_dense_unknown_free(u);
    }
    ts_feed_free(feed);
    ts_tensor_close(x.t);
    free(x.value);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dense_unknown");
    TCase *c = tcase_create("dense_unknown");
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, lists_equal_the_loop, 0, 4 * N_SHAPES);
    suite_add_tcase(s, c);
    return test_run_suite(s, CK_NOFORK);
}
