/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU backend does what its table says, with the same bits whether shards stay on the device,
 * or pass through it from host memory, or from disk, and for any number of devices; and it refuses
 * budgets that cannot work. A team of devices is tested on one GPU by naming it several times,
 * which makes members that share nothing but its multiprocessors; where there are more GPUs, on
 * those too. */
#include "config.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/exchange/exchange.h"
#include "tests/gpu/gpu_rig.h"
#include "tests/support/stop_later.h"

static const uint32_t ranks[] = { 1, 7, 32, 50, 130 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

/* 8 shards in each mode; one of the modes has rows that reach over shards. */
static const struct rig_shape usual = { 3, 8 * TS_PARTITION_NNZ - 500, 1, { 700, 3, 9000 }, 1 };

/* Enough bytes of rows that the ranges of four are sent in several chunks. */
static const struct rig_shape many_rows = { 3, 25 * TS_PARTITION_NNZ, 1, { 40, 30, 400000 }, 1 };

/* What a backend is opened with, and operands for it. */
struct setup {
    const struct rig_disk *disk;
    struct rig_ask ask;
    int wide; /* the last mode is summed in float64 */
    double *factor[TS_MAX_ORDER], *w;
    /* of every mode, reading the old rows; NULL: least squares with w */
    const struct ts_row_update *how;
};

static struct setup setup_new(const struct rig_disk *d, uint32_t rank, enum ts_precision precision)
{
    struct setup s = { .disk = d,
                       .ask = { .rank = rank,
                                .precision = precision,
                                .members = 1,
                                .one_device = 1,
                                .host_bytes = RIG_HOST_BYTES } };
    for (uint32_t m = 0; m < d->x.order; m++)
        s.factor[m] = rig_numbers(100 * m, d->x.dim[m], rank);
    s.w = rig_numbers(5, rank, rank);
    return s;
}

static void setup_free(struct setup *s)
{
    for (uint32_t m = 0; m < s->disk->x.order; m++)
        free(s->factor[m]);
    free(s->w);
}

/* Devices in turn, or all members on the first. */
static void spread(struct setup *s, int wish)
{
    s->ask.one_device = !wish;
}

static void update_by(struct setup *s, const struct ts_row_update *how)
{
    s->how = how;
    s->ask.own = how != NULL;
}

static struct ts_backend_conf conf_of(const struct setup *s)
{
    return rig_conf(s->disk->tensor, &s->ask);
}

static void put_all(const struct setup *s, void *be)
{
    for (uint32_t m = 0; m < s->disk->x.order; m++)
        rig_put(rig_be, be, m, s->disk->x.dim[m], s->factor[m]);
}

static void *open_backend(const struct setup *s)
{
    const struct ts_backend_conf conf = conf_of(s);
    void *be = rig_backend_new(rig_be, &conf);
    put_all(s, be);
    if (s->wide)
        rig_be->sum_in(be, TS_FLOAT64);
    return be;
}

static struct ts_feed *open_feed(const struct setup *s, void *be)
{
    return rig_feed_new(rig_be, s->disk->tensor, be, s->ask.host_bytes);
}

static void check_near(const double *got, const double *want, uint64_t n, double most)
{
    for (uint64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= most))
            ck_abort_msg("entry %llu: %.12g, expected %.12g", (unsigned long long)i, got[i],
                         want[i]);
}

/* Factors and w have entries of magnitude up to 0.7, so the sums below are of terms of that size;
 * each bound is the number of terms times their size times the precision's rounding. */
START_TEST(dense_work_equals_reference)
{
    const uint32_t rank = ranks[_i / 4];
    const enum ts_precision precision = _i % 2 ? TS_FLOAT64 : TS_FLOAT32;
    const double eps = precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    struct rig_disk d = rig_counts(&usual);
    struct setup s = setup_new(&d, rank, precision);
    const uint32_t mode = 2;
    const uint64_t n = d.x.dim[mode], size = n * rank, square = (uint64_t)rank * rank;
    double *a = calloc(size, sizeof *a), *got = malloc(size * sizeof *got);
    double *gram = malloc(square * sizeof *gram);
    double *want = calloc(square, sizeof *want), inner, want_inner = 0;
    void *be;
    s.ask.members = _i % 4 < 2 ? 1 : 2;
    be = open_backend(&s);

    OK(rig_be->get_rows(be, mode, 0, n, got, &err));
    ck_assert(memcmp(got, s.factor[mode], size * sizeof *got) == 0);
    OK(rig_be->get_rows(be, mode, n - 2, 2, got, &err));
    ck_assert(memcmp(got, s.factor[mode] + size - 2 * rank, 2 * rank * sizeof *got) == 0);

    OK(rig_be->solve(be, mode, &(struct ts_row_update){ .matrix = s.w },
                     &(struct ts_row_sums){ .gram = gram, .inner = &inner }, &err));
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < rank; k++)
            for (uint32_t c = 0; c < rank; c++)
                a[i * rank + c] += s.factor[mode][i * rank + k] * s.w[k * rank + c];
    OK(rig_be->get_rows(be, mode, 0, n, got, &err));
    check_near(got, a, size, 4 * rank * eps);
    for (uint64_t i = 0; i < size; i++)
        /* what the device has: its roundings are not ours */
        want_inner += s.factor[mode][i] * got[i];
    check_near(&inner, &want_inner, 1, (double)size * rank * 2 * eps);
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < rank; r++)
            for (uint32_t c = 0; c < rank; c++)
                want[r * rank + c] += got[i * rank + r] * got[i * rank + c];
    check_near(gram, want, square, (double)n * rank * rank * DBL_EPSILON);

    for (uint32_t r = 0; r < rank; r++)
        s.w[r] = 0.25 * (r % 5 + 1);
    OK(rig_be->scale(be, mode, s.w, &err));
    for (uint64_t i = 0; i < size; i++)
        a[i] = got[i] * s.w[i % rank];
    OK(rig_be->get_rows(be, mode, 0, n, got, &err));
    check_near(got, a, size, rank * eps);
    OK(rig_be->gram(be, mode, gram, &err));
    for (uint64_t i = 0; i < square; i++)
        want[i] *= s.w[i / rank] * s.w[i % rank];
    check_near(gram, want, square, (double)n * rank * rank * 4 * eps);

    rig_be->close(be);
    free(a);
    free(got);
    free(gram);
    free(want);
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

/* One after another: columns are scaled, and what reads them follows at once. Powers of two are
 * exact, so that all is as of rows that were scaled before. A large factor, so that its scaling
 * lasts longer than the start of what follows. */
START_TEST(what_follows_a_scaling_reads_scaled_rows)
{
    static const struct rig_shape shape = { 3, 400000, 0, { 50, 40, 300000 }, 1 };
    const uint64_t *const dim = shape.dim;
    const uint32_t rank = 32, members = _i / 2 + 1;
    struct rig_disk d = rig_counts(&shape);
    struct setup s = setup_new(&d, rank, _i % 2 ? TS_FLOAT64 : TS_FLOAT32);
    double *got[2], *scale[2];
    for (int k = 0; k < 2; k++) {
        got[k] = malloc(dim[0] * rank * sizeof(double));
        scale[k] = malloc(rank * sizeof(double));
    }
    s.ask.members = members;
    for (uint32_t r = 0; r < rank; r++) {
        scale[0][r] = r % 2 ? 4 : 0.5;
        scale[1][r] = r % 3 ? 0.25 : 8;
    }
    for (int before = 0; before < 2; before++) {
        void *be = open_backend(&s);
        struct ts_feed *feed = open_feed(&s, be);
        struct ts_backend_times times;
        for (int sweep = 0; sweep < 3; sweep++) { /* shards are streamed in the first */
            rig_put(rig_be, be, 1, dim[1], s.factor[1]);
            rig_put(rig_be, be, 2, dim[2], s.factor[2]);
            for (int k = 0; k < 2; k++) /* of both modes, twice */
                for (uint32_t m = 1; m < 3 && !before; m++)
                    OK(rig_be->scale(be, m, scale[k], &err));
            ts_feed_rewind(feed);
            OK(rig_be->pass(&(struct ts_request){ .be = be }, 1, 0, feed, &times, &err));
            OK(rig_be->get_rows(be, 0, 0, dim[0], got[before], &err));
            if (before)
                ck_assert(memcmp(got[0], got[1], dim[0] * rank * sizeof(double)) == 0);
        }
        ts_feed_free(feed);
        rig_be->close(be);
        for (uint32_t m = 1; m < 3; m++)
            for (uint64_t i = 0; i < dim[m] * rank; i++)
                s.factor[m][i] *= scale[0][i % rank] * scale[1][i % rank];
    }
    for (int k = 0; k < 2; k++) {
        free(got[k]);
        free(scale[k]);
    }
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

/* What a mode's update gives, or its product alone. */
struct result {
    double *rows[TS_MAX_ORDER], *gram[TS_MAX_ORDER], inner[TS_MAX_ORDER];
    double size[TS_MAX_ORDER]; /* where rows come from the old ones */
};

static struct result result_new(const struct setup *s)
{
    struct result r = { 0 };
    for (uint32_t m = 0; m < s->disk->x.order; m++) {
        r.rows[m] = malloc(s->disk->x.dim[m] * s->ask.rank * sizeof(double));
        r.gram[m] = malloc((size_t)s->ask.rank * s->ask.rank * sizeof(double));
    }
    return r;
}

static void result_free(const struct setup *s, struct result *r)
{
    for (uint32_t m = 0; m < s->disk->x.order; m++) {
        free(r->rows[m]);
        free(r->gram[m]);
    }
}

static void check_same(const struct setup *s, uint32_t m, const struct result *got,
                       const struct result *want, int whole)
{
    const uint64_t n = s->disk->x.dim[m] * s->ask.rank;
    for (uint64_t i = 0; i < n; i++)
        if (memcmp(&got->rows[m][i], &want->rows[m][i], sizeof(double)) != 0)
            ck_abort_msg("mode %u, row %llu, column %llu: %.17g, with one GPU %.17g", m,
                         (unsigned long long)(i / s->ask.rank),
                         (unsigned long long)(i % s->ask.rank), got->rows[m][i], want->rows[m][i]);
    if (!whole)
        return;
    ck_assert(memcmp(got->gram[m], want->gram[m],
                     (size_t)s->ask.rank * s->ask.rank * sizeof(double)) == 0);
    ck_assert_msg(memcmp(&got->inner[m], &want->inner[m], sizeof(double)) == 0, "%.17g, %.17g",
                  got->inner[m], want->inner[m]);
    ck_assert(memcmp(&got->size[m], &want->size[m], sizeof(double)) == 0);
}

/* A matrix that is there only when it is asked for. */
struct late {
    const struct setup *s;
    double *matrix;
    int calls;
};

static int late_ready(void *ctx, struct ts_err *e)
{
    struct late *l = ctx;
    (void)e;
    l->calls++;
    memcpy(l->matrix, l->s->w, (size_t)l->s->ask.rank * l->s->ask.rank * sizeof(double));
    return 0;
}

static int late_fails(void *ctx, struct ts_err *e)
{
    (void)ctx;
    return ts_fail(e, TS_ENOMEM, "no inverse");
}

/* One mode of one sweep. The matrix of every second mode comes late. */
static void run_mode(const struct setup *s, void *be, struct ts_feed *feed, uint32_t m, int update,
                     struct result *r, struct ts_backend_times *times)
{
    struct ts_row_update squares = { .matrix = s->w };
    struct late late = { s, calloc((size_t)s->ask.rank * s->ask.rank, sizeof(double)), 0 };
    const struct ts_row_sums sums = { .gram = r->gram[m],
                                      .inner = &r->inner[m],
                                      .size = s->how != NULL ? &r->size[m] : NULL };
    struct ts_request request = { .be = be };
    if (m % 2 == 1) {
        squares.matrix = late.matrix;
        squares.ready = late_ready;
        squares.ctx = &late;
    }
    if (update) {
        request.update = s->how != NULL ? s->how : &squares;
        request.sums = &sums;
    }
    rig_pass_of(rig_be, s->disk->tensor, feed, &request, 1, m, times);
    ck_assert_int_eq(late.calls, update && s->how == NULL && m % 2 == 1);
    free(late.matrix);
    ck_assert_uint_eq(times->n_devices, rig_members(s->ask.members));
    OK(rig_be->get_rows(be, m, 0, s->disk->x.dim[m], r->rows[m], &err));
    rig_put(rig_be, be, m, s->disk->x.dim[m], s->factor[m]);
}

/* Several sweeps (what stays on the devices is there from the second on, and ranges move after
 * each), each compared with `want`; or one sweep that fills `want`. */
static void run_sweeps(const struct setup *s, uint32_t sweeps, int update,
                       const struct result *want, struct result *fill)
{
    void *be = open_backend(s);
    struct ts_feed *feed = open_feed(s, be);
    struct result own = result_new(s), *got = fill != NULL ? fill : &own;
    struct ts_backend_times times;
    for (uint32_t k = 0; k < sweeps; k++)
        for (uint32_t m = 0; m < s->disk->x.order; m++) {
            run_mode(s, be, feed, m, update, got, &times);
            if (want != NULL)
                check_same(s, m, got, want, update);
        }
    ts_feed_free(feed);
    rig_be->close(be);
    result_free(s, &own);
}

static uint64_t least_budget(const struct setup *s)
{
    const struct ts_backend_conf conf = conf_of(s);
    return rig_least_budget(&conf, "GPU");
}

/* One GPU, everything on it, against the obvious loop; then its rows solved are those of an
 * update. */
static void run_reference(struct setup *s, struct result *product, struct result *update)
{
    const double eps = s->ask.precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    const struct test_coo *x = &s->disk->x;
    struct result again = result_new(s);
    void *be;
    run_sweeps(s, 1, 0, NULL, product);
    for (uint32_t m = 0; m < x->order; m++) {
        double *size = malloc(x->dim[m] * s->ask.rank * sizeof *size), *positive[TS_MAX_ORDER];
        test_mttkrp(x, m, s->ask.rank, s->factor, again.rows[m]);
        for (uint32_t k = 0; k < x->order; k++) {
            positive[k] = malloc(x->dim[k] * s->ask.rank * sizeof(double));
            for (uint64_t i = 0; i < x->dim[k] * s->ask.rank; i++)
                positive[k][i] = fabs(s->factor[k][i]);
        }
        test_mttkrp(x, m, s->ask.rank, positive,
                    size); /* values are positive: sums of magnitudes */
        for (uint64_t i = 0; i < x->dim[m] * s->ask.rank; i++)
            if (!(fabs(product->rows[m][i] - again.rows[m][i]) <= 2000 * eps * size[i]))
                ck_abort_msg("mode %u, entry %llu: %.9g, expected %.9g", m, (unsigned long long)i,
                             product->rows[m][i], again.rows[m][i]);
        for (uint32_t k = 0; k < x->order; k++)
            free(positive[k]);
        free(size);
    }
    run_sweeps(s, 1, 1, NULL, update);
    be = open_backend(s);
    for (uint32_t m = 0; m < x->order; m++) {
        OK(rig_be->put_rows(be, m, 0, x->dim[m], product->rows[m], &err));
        OK(rig_be->solve(be, m, &(struct ts_row_update){ .matrix = s->w },
                         &(struct ts_row_sums){ .gram = again.gram[m], .inner = &again.inner[m] },
                         &err));
        OK(rig_be->get_rows(be, m, 0, x->dim[m], again.rows[m], &err));
        check_same(s, m, &again, update, 1);
    }
    rig_be->close(be);
    result_free(s, &again);
}

/* All teams, with budgets of the devices from the least on, and of the host: resident and from
 * disk. */
static void check_teams(const struct rig_disk *d, uint32_t rank, enum ts_precision precision,
                        uint32_t most_members)
{
    struct setup s = setup_new(d, rank, precision);
    struct result product = result_new(&s), update = result_new(&s);
    uint64_t least;
    run_reference(&s, &product, &update);
    for (s.ask.members = 1; s.ask.members <= most_members; s.ask.members++)
        for (int k = 0; k < (rig_n_devices > 1 && s.ask.members > 1 ? 2 : 1); k++) {
            spread(&s, k);
            s.ask.device_bytes = 0;
            s.ask.host_bytes = RIG_HOST_BYTES;
            least = least_budget(&s);
            run_sweeps(&s, 4, 1, &update, NULL);
            for (int i = 0; i < 6; i++) {
                s.ask.device_bytes = least + (128 << 10) + (uint64_t)i % 3 * 250000;
                s.ask.host_bytes = i < 3 ? RIG_HOST_BYTES : RIG_FEW_BYTES;
                run_sweeps(&s, 3, i % 2, i % 2 ? &update : &product, NULL);
            }
        }
    result_free(&s, &product);
    result_free(&s, &update);
    setup_free(&s);
}

START_TEST(same_bits_for_every_budget_and_team)
{
    struct rig_disk d = rig_counts(&usual);
    check_teams(&d, 17, _i ? TS_FLOAT64 : TS_FLOAT32, 3);
    rig_disk_free(&d);
}
END_TEST

static void check_chunks(uint32_t n_members, enum ts_exchange_kind exchange)
{
    struct rig_disk d = rig_counts(&many_rows);
    struct setup s = setup_new(&d, 16, TS_FLOAT64);
    struct result update = result_new(&s);
    uint64_t least;
    run_sweeps(&s, 1, 1, NULL, &update);
    s.ask.members = n_members;
    spread(&s, rig_n_devices > 1);
    s.ask.exchange = exchange;
    run_sweeps(&s, 3, 1, &update, NULL);
    least = least_budget(&s);
    for (int k = 0; k < 2; k++) {
        s.ask.device_bytes = least + (128 << 10) + (uint64_t)k * 500000;
        run_sweeps(&s, 3, 1, &update, NULL);
    }
    result_free(&s, &update);
    setup_free(&s);
    rig_disk_free(&d);
}

START_TEST(same_bits_in_chunks)
{
    check_chunks(_i == 0 ? 2 : 4, TS_EXCHANGE_COPY);
}
END_TEST

#ifdef HAVE_NCCL
START_TEST(same_bits_in_chunks_by_nccl) /* which needs devices of their own */
{
    check_chunks(rig_n_devices < 4 ? (uint32_t)rig_n_devices : 4, TS_EXCHANGE_NCCL);
}
END_TEST
#endif

/* The last mode's product of float32 rows is that of float64: before it is solved for, to 48 bits,
 * or, where that takes too much memory, to the 24 of float32, whose errors average out over many
 * entries. It is told by its sum with what it was solved to. */
static void check_wide_sums(const struct setup *s, const struct result *update, double most)
{
    const struct test_coo *x = &s->disk->x;
    const uint32_t m = x->order - 1;
    const uint64_t n = x->dim[m] * s->ask.rank;
    double *product = malloc(n * sizeof *product), inner = 0, size = 0;
    test_mttkrp(x, m, s->ask.rank, s->factor, product);
    for (uint64_t i = 0; i < n; i++) {
        double row = 0, magnitude = 0;
        for (uint32_t k = 0; k < s->ask.rank; k++) {
            const double term = product[i / s->ask.rank * s->ask.rank + k] *
                                s->w[k * s->ask.rank + i % s->ask.rank];
            row += term;
            magnitude += fabs(term);
        }
        ck_assert_double_le(fabs(update->rows[m][i] - row), 2 * FLT_EPSILON * magnitude + 1e-9);
        inner += product[i] * update->rows[m][i];
        size += fabs(product[i] * update->rows[m][i]);
    }
    ck_assert_msg(fabs(update->inner[m] - inner) <= most * size, "%.17g, expected %.17g",
                  update->inner[m], inner);
    free(product);
}

START_TEST(wide_sums_have_the_same_bits)
{
    struct rig_disk d = rig_counts(_i == 0 ? &usual : &many_rows);
    struct setup s = setup_new(&d, _i == 0 ? 17 : 16, TS_FLOAT32);
    struct result update = result_new(&s);
    const struct ts_backend_conf conf = conf_of(&s);
    ck_assert_int_eq(ts_backend_keeps_rest(&conf), _i == 0);
    s.wide = 1;
    run_sweeps(&s, 1, 1, NULL, &update);
    check_wide_sums(&s, &update, _i == 0 ? 1e-13 : FLT_EPSILON / 2);
    for (s.ask.members = 1; s.ask.members <= 3; s.ask.members++) {
        uint64_t least;
        spread(&s, rig_n_devices > 1 && s.ask.members > 1);
        s.ask.device_bytes = 0;
        run_sweeps(&s, 2, 1, &update, NULL);
        least = least_budget(&s);
        for (int k = 0; k < 2; k++) {
            s.ask.device_bytes = least + (128 << 10) + (uint64_t)k * 500000;
            run_sweeps(&s, 2, 1, &update, NULL);
        }
    }
    result_free(&s, &update);
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

/* ---- updates that read the old rows */

/* The Gram matrix of a few rows, with something on its diagonal. */
static double *positive_matrix(uint32_t rank)
{
    double *rows = rig_numbers(77, 12, rank), *g = calloc((size_t)rank * rank, sizeof *g);
    for (uint32_t r = 0; r < rank; r++)
        for (uint32_t c = 0; c < rank; c++) {
            g[r * rank + c] = r == c ? 5 : 0;
            for (uint32_t k = 0; k < 12; k++)
                g[r * rank + c] += rows[k * rank + r] * rows[k * rank + c];
        }
    free(rows);
    return g;
}

/* What CPU cores compute: its units of rows are the same, and so are, but for rounding, all
 * results. */
static void check_against_cpu(const struct setup *s, const struct result *got, double most)
{
    const struct ts_backend *const cpu = &ts_backend_cpu;
    struct rig_ask ask = s->ask;
    struct ts_backend_conf conf;
    struct result want = result_new(s);
    struct ts_backend_times times;
    struct ts_feed *feed;
    void *at;
    ask.backend = cpu;
    ask.host_bytes = RIG_HOST_BYTES;
    conf = rig_conf(s->disk->tensor, &ask);
    at = rig_backend_new(cpu, &conf);
    feed = rig_feed_new(cpu, s->disk->tensor, at, ask.host_bytes);
    if (s->wide)
        cpu->sum_in(at, TS_FLOAT64);
    for (uint32_t m = 0; m < s->disk->x.order; m++)
        rig_put(cpu, at, m, s->disk->x.dim[m], s->factor[m]);
    for (uint32_t m = 0; m < s->disk->x.order; m++) {
        const struct ts_row_sums sums = { want.gram[m], &want.inner[m], &want.size[m] };
        const uint64_t n = s->disk->x.dim[m];
        double largest = 0;
        rig_pass_of(cpu, s->disk->tensor, feed, &(struct ts_request){ .be = at }, 1, m, &times);
        OK(cpu->solve(at, m, s->how, &sums, &err));
        OK(cpu->get_rows(at, m, 0, n, want.rows[m], &err));
        for (uint64_t i = 0; i < n * s->ask.rank; i++)
            largest = fmax(largest, fabs(want.rows[m][i]));
        check_near(got->rows[m], want.rows[m], n * s->ask.rank, most * largest);
        check_near(got->gram[m], want.gram[m], (uint64_t)s->ask.rank * s->ask.rank,
                   most * largest * largest * (double)n);
        check_near(&got->inner[m], &want.inner[m], 1, most * fabs(want.inner[m]) + 1e-9);
        check_near(&got->size[m], &want.size[m], 1, most * want.size[m]);
        OK(cpu->put_rows(at, m, 0, n, s->factor[m], &err));
    }
    cpu->close(at);
    ts_feed_free(feed);
    result_free(s, &want);
}

/* The product alone, and then its rows: what an update computes where sums are those of the
 * factors' precision. */
static void check_two_steps(const struct setup *s, const struct result *update)
{
    void *be = open_backend(s);
    struct ts_feed *feed = open_feed(s, be);
    struct result got = result_new(s);
    struct ts_backend_times times;
    for (uint32_t m = 0; m < s->disk->x.order; m++) {
        const struct ts_row_sums sums = { got.gram[m], &got.inner[m], &got.size[m] };
        ts_feed_rewind(feed);
        OK(rig_be->pass(&(struct ts_request){ .be = be }, 1, m, feed, &times, &err));
        OK(rig_be->get_rows(be, m, 0, s->disk->x.dim[m], got.rows[m], &err));
        ck_assert(memcmp(got.rows[m], s->factor[m],
                         s->disk->x.dim[m] * s->ask.rank * sizeof(double)) == 0); /* as they were */
        OK(rig_be->solve(be, m, s->how, &sums, &err));
        OK(rig_be->get_rows(be, m, 0, s->disk->x.dim[m], got.rows[m], &err));
        check_same(s, m, &got, update, 1);
        rig_put(rig_be, be, m, s->disk->x.dim[m], s->factor[m]);
    }
    ts_feed_free(feed);
    rig_be->close(be);
    result_free(s, &got);
}

static const struct {
    uint32_t rank;
    enum ts_precision precision;
    int wide;
    struct ts_row_update how;
} own_cases[] = {
    { 17, TS_FLOAT64, 0, { .kind = TS_ROW_COORDINATE, .upper = INFINITY, .rounds = 4 } },
    { 17, TS_FLOAT32, 0, { .kind = TS_ROW_COORDINATE, .upper = INFINITY, .rounds = 4 } },
    { 32, TS_FLOAT32, 1, { .kind = TS_ROW_COORDINATE, .l1 = 2, .upper = INFINITY, .rounds = 3 } },
    { 70, TS_FLOAT32, 1, { .kind = TS_ROW_COORDINATE, .upper = INFINITY, .rounds = 3 } },
    { 70, TS_FLOAT64, 0, { .kind = TS_ROW_COORDINATE, .lower = -1, .upper = 0.5, .rounds = 3 } },
    { 17, TS_FLOAT32, 1, { .kind = TS_ROW_KEEP } },
    { 70, TS_FLOAT64, 0, { .kind = TS_ROW_KEEP } },
};
#define N_OWN_CASES (int)(sizeof own_cases / sizeof own_cases[0])

/* Like CPU cores, and with the same bits for teams, resident and from host memory and disk. */
START_TEST(rows_from_old_ones)
{
    struct rig_disk d = rig_counts(&usual);
    struct setup s = setup_new(&d, own_cases[_i].rank, own_cases[_i].precision);
    struct ts_row_update how = own_cases[_i].how;
    struct result update = result_new(&s);
    double *weight = rig_numbers(9, 1, s.ask.rank), *g = positive_matrix(s.ask.rank);
    uint64_t least;
    for (uint32_t r = 0; r < s.ask.rank; r++)
        weight[r] = r % 4 == 3 ? 1 : 0.5 + fabs(weight[r]);
    how.weight = weight;
    how.matrix = how.kind == TS_ROW_KEEP ? NULL : g;
    update_by(&s, &how);
    s.wide = own_cases[_i].wide;
    run_sweeps(&s, 1, 1, NULL, &update);
    check_against_cpu(&s, &update, s.ask.precision == TS_FLOAT64 ? 1e-9 : 1e-4);
    for (s.ask.members = 1; s.ask.members <= 3; s.ask.members++) {
        spread(&s, rig_n_devices > 1 && s.ask.members > 1);
        s.ask.device_bytes = 0;
        s.ask.host_bytes = RIG_HOST_BYTES;
        if (!s.wide)
            check_two_steps(&s, &update);
        run_sweeps(&s, 3, 1, &update, NULL);
        least = least_budget(&s);
        for (int k = 0; k < 2; k++) {
            s.ask.device_bytes = least + (128 << 10) + (uint64_t)k * 250000;
            s.ask.host_bytes = k == 0 ? RIG_HOST_BYTES : RIG_FEW_BYTES;
            run_sweeps(&s, 2, 1, &update, NULL);
        }
    }
    free(weight);
    free(g);
    result_free(&s, &update);
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

/* Chunks of several MiB, whose products are sent. In one round no rounding decides on another. */
START_TEST(rows_from_old_ones_in_chunks)
{
    struct rig_disk d = rig_counts(&many_rows);
    struct setup s = setup_new(&d, 16, TS_FLOAT32);
    struct result update = result_new(&s);
    double *g = positive_matrix(s.ask.rank);
    const struct ts_row_update how = {
        .kind = TS_ROW_COORDINATE, .matrix = g, .upper = INFINITY, .rounds = 1
    };
    uint64_t least;
    update_by(&s, &how);
    s.wide = _i;
    run_sweeps(&s, 1, 1, NULL, &update);
    check_against_cpu(&s, &update, 1e-4);
    for (s.ask.members = 2; s.ask.members <= 4; s.ask.members += 2) {
        spread(&s, rig_n_devices > 1);
        s.ask.device_bytes = 0;
        run_sweeps(&s, 3, 1, &update, NULL);
        least = least_budget(&s);
        s.ask.device_bytes = least + (128 << 10);
        run_sweeps(&s, 2, 1, &update, NULL);
    }
    free(g);
    result_free(&s, &update);
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

/* Memory is that of modes that open was told of, and an update must be of the kind that it was
 * told. */
START_TEST(rows_must_be_kept_to_be_read)
{
    struct rig_disk d = rig_counts(&usual);
    struct setup s = setup_new(&d, 4, TS_FLOAT32);
    struct result r = result_new(&s);
    double *g = positive_matrix(4);
    const struct ts_row_update how = {
        .kind = TS_ROW_COORDINATE, .matrix = g, .upper = INFINITY, .rounds = 3
    };
    const struct ts_row_update squares = { .matrix = s.w };
    const struct ts_row_sums sums = { .gram = r.gram[0] };
    struct ts_backend_times times;
    struct ts_backend_conf conf = conf_of(&s);
    struct ts_device_memory without[TS_MAX_DEVICES], with[TS_MAX_DEVICES];
    struct ts_feed *feed;
    void *be;
    conf.own_rows = 1; /* mode 1 has 700 rows, mode 3 has 9000 */
    OK(rig_be->open(&conf, &be, &err));
    rig_be->memory(be, with);
    feed = open_feed(&s, be);
    ck_assert_int_eq(rig_be->own_rows(be, 4, &err), TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "mode 3"));
    OK(rig_be->own_rows(be, 3, &err));
    ck_assert_int_eq(
        rig_be->pass(&(struct ts_request){ .be = be, .update = &squares, .sums = &sums }, 1, 0,
                     feed, &times, &err),
        TS_EARG);
    ck_assert_int_eq(rig_be->solve(be, 2, &how, &sums, &err), TS_EARG);
    OK(rig_be->own_rows(be, 0, &err));
    ck_assert_int_eq(rig_be->pass(&(struct ts_request){ .be = be, .update = &how, .sums = &sums },
                                  1, 0, feed, &times, &err),
                     TS_EARG);
    ts_feed_free(feed);
    rig_be->close(be);
    conf.own_rows = 0;
    OK(rig_be->open(&conf, &be, &err));
    rig_be->memory(be, without);
    rig_be->close(be);
    ck_assert_uint_eq(with[0].factor_bytes - without[0].factor_bytes, 700 * 4 * sizeof(float));
    free(g);
    result_free(&s, &r);
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

/* Devices compute subnormal numbers as they are, other than CPU cores, which flush them
 * (base/machine/fpmode.h), and it takes them no longer: factors whose products lie below 1e-38,
 * beside the same times 2^60, in turn. */
START_TEST(subnormal_products_are_kept_and_take_no_longer)
{
    const double tiny = 0x1p-65, large = 0x1p-5;
    struct rig_disk d = rig_counts(&usual);
    struct setup s = setup_new(&d, 32, TS_FLOAT32);
    const uint64_t n = d.x.dim[2] * s.ask.rank;
    double *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    uint64_t *count = calloc(d.x.dim[2], sizeof *count), least[2] = { UINT64_MAX, UINT64_MAX };
    for (uint64_t k = 0; k < d.x.nnz; k++)
        count[d.x.idx[2][k]]++;
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < d.x.dim[m] * s.ask.rank; i++)
            s.factor[m][i] = fabs(s.factor[m][i]) * tiny;
    test_mttkrp(&d.x, 2, s.ask.rank, s.factor, want);
    for (int rep = 0; rep < 5; rep++)
        for (int k = 0; k < 2; k++) {
            struct ts_backend_times times;
            void *be = open_backend(&s);
            struct ts_feed *feed = open_feed(&s, be);
            for (int pass = 0; pass < 3; pass++) {
                ts_feed_rewind(feed);
                OK(rig_be->pass(&(struct ts_request){ .be = be }, 1, 2, feed, &times, &err));
            }
            if (k == 0) {
                OK(rig_be->get_rows(be, 2, 0, d.x.dim[2], got, &err));
                /* each nonzero is up to 9 times a product that is off by half of the least
                 * subnormal number, and added as well */
                for (uint64_t i = 0; i < d.x.dim[2]; i++)
                    check_near(got + i * s.ask.rank, want + i * s.ask.rank, s.ask.rank,
                               (double)count[i] * (10 * 0x1p-150 + 3e-38 * FLT_EPSILON));
            }
            if (times.device[0].kernel_ns < least[k])
                least[k] = times.device[0].kernel_ns;
            ts_feed_free(feed);
            rig_be->close(be);
            for (uint32_t m = 0; m < 3; m++)
                for (uint64_t i = 0; i < d.x.dim[m] * s.ask.rank; i++)
                    s.factor[m][i] *= k == 0 ? large / tiny : tiny / large;
        }
    ck_assert_msg(least[0] < 2 * least[1], "%llu ns, others %llu", (unsigned long long)least[0],
                  (unsigned long long)least[1]);
    free(want);
    free(got);
    free(count);
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

/* Orders other than 3, one shard for all, and modes of one row. */
START_TEST(same_bits_for_odd_shapes)
{
    static const struct rig_shape shape[] = {
        { 2, 70000, 1, { 3000, 500 }, 1 },          { 3, 60000, 0, { 60, 50, 40 }, 1 },
        { 3, 70000, 1, { 1, 300, 2000 }, 1 },       { 4, 33000, 2, { 1, 1, 200, 300 }, 1 },
        { 6, 60000, 1, { 20, 5, 9, 4, 7, 30 }, 1 }, { 3, 8, 1, { 2, 2, 2 }, 1 },
    };
    struct rig_disk d = rig_counts(&shape[_i]);
    check_teams(&d, 5, TS_FLOAT32, 3);
    rig_disk_free(&d);
}
END_TEST

START_TEST(only_one_mode_is_kept)
{
    struct rig_disk d = rig_counts(&usual);
    struct setup s = setup_new(&d, 8, TS_FLOAT32);
    struct result want = result_new(&s), got = result_new(&s);
    struct ts_backend_times times;
    run_sweeps(&s, 1, 0, NULL, &want);
    for (s.ask.members = 1; s.ask.members <= 2; s.ask.members++) {
        struct ts_backend_conf conf = conf_of(&s);
        struct ts_feed_conf fc = { .tensor = d.tensor,
                                   .host_bytes = RIG_HOST_BYTES,
                                   .only_mode = 2,
                                   .pin = rig_be->pin,
                                   .unpin = rig_be->unpin };
        struct ts_feed *feed;
        void *be;
        conf.only_mode = 2;
        OK(rig_be->open(&conf, &be, &err));
        for (uint32_t m = 0; m < 3; m++)
            OK(rig_be->put_rows(be, m, 0, d.x.dim[m], s.factor[m], &err));
        rig_be->deal(be, &fc.deal);
        fc.pin_ctx = be;
        OK(ts_feed_new(&fc, &feed, &err));
        for (int k = 0; k < 4; k++) {
            ts_feed_rewind(feed);
            OK(rig_be->pass(&(struct ts_request){ .be = be }, 1, 2, feed, &times, &err));
            OK(rig_be->get_rows(be, 2, 0, d.x.dim[2], got.rows[2], &err));
            check_same(&s, 2, &got, &want, 0);
        }
        ck_assert_uint_eq(times.device[0].bytes, 0); /* all is there */
        ts_feed_free(feed);
        rig_be->close(be);
    }
    result_free(&s, &want);
    result_free(&s, &got);
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

/* Shards that wait in host memory come while the mode before ends, in sweeps; after a mode out of
 * turn those that came are not wanted, and another mode's are not taken for them. */
START_TEST(shards_come_before_their_mode)
{
    static const uint32_t turn[] = { 0, 1, 2, 0, 1, 2, 1, 1, 0, 1, 2 };
    static const struct rig_shape shape = { 3, 60 * TS_PARTITION_NNZ, 1, { 700, 300, 9000 }, 1 };
    struct rig_disk d = rig_counts(&shape); /* more than budgets differ by */
    struct setup s = setup_new(&d, 5, TS_FLOAT32);
    struct result update = result_new(&s), got = result_new(&s);
    struct ts_backend_times times;
    run_sweeps(&s, 1, 1, NULL, &update);
    for (s.ask.members = 1; s.ask.members <= 3; s.ask.members += 2) {
        struct ts_feed *feed;
        void *be;
        spread(&s, rig_n_devices > 1);
        s.ask.device_bytes = 0;
        s.ask.device_bytes = least_budget(&s) + (256 << 10);
        be = open_backend(&s);
        feed = open_feed(&s, be);
        for (size_t k = 0; k < sizeof turn / sizeof turn[0]; k++) {
            const int expected = k >= 3 && turn[k] == (turn[k - 1] + 1) % 3;
            uint64_t bytes = 0, early = 0;
            run_mode(&s, be, feed, turn[k], 1, &got, &times);
            check_same(&s, turn[k], &got, &update, 1);
            for (uint32_t i = 0; i < s.ask.members; i++) {
                bytes += times.device[i].bytes;
                early += times.device[i].early_bytes;
            }
            ck_assert_uint_le(early, bytes);
            if (expected)
                ck_assert_uint_gt(early, 0);
        }
        ts_feed_free(feed);
        rig_be->close(be);
    }
    result_free(&s, &update);
    result_free(&s, &got);
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

static volatile sig_atomic_t stop;

/* A pass that is stopped ends all members, and they can be closed. */
START_TEST(a_stop_ends_all_members)
{
    struct rig_disk d = rig_counts(&usual);
    struct setup s = setup_new(&d, 4, TS_FLOAT32);
    struct ts_feed_conf conf = { .tensor = d.tensor,
                                 .host_bytes = RIG_HOST_BYTES,
                                 .only_mode = -1,
                                 .checkers = 1,
                                 .stop = &stop,
                                 .pin = rig_be->pin,
                                 .unpin = rig_be->unpin };
    struct ts_backend_times times;
    struct ts_feed *feed;
    void *be;
    struct result r = result_new(&s);
    const struct ts_row_update how = {
        .kind = TS_ROW_COORDINATE, .matrix = s.w, .upper = INFINITY, .rounds = 2
    };
    const struct ts_row_sums sums = { .gram = r.gram[2] };
    s.ask.members = 3;
    update_by(&s, _i == 0 ? NULL : &how);
    stop = 0;
    be = open_backend(&s);
    rig_be->deal(be, &conf.deal);
    conf.pin_ctx = be;
    OK(ts_feed_new(&conf, &feed, &err));
    OK(rig_be->pass(&(struct ts_request){ .be = be }, 1, 0, feed, &times, &err));
    stop = 1;
    if (_i == 0)
        ck_assert_int_eq(rig_be->pass(&(struct ts_request){ .be = be }, 1, 1, feed, &times, &err),
                         TS_ESTOP);
    else { /* and old rows are there, to be saved */
        ck_assert_int_eq(
            rig_be->pass(&(struct ts_request){ .be = be, .update = &how, .sums = &sums }, 1, 2,
                         feed, &times, &err),
            TS_ESTOP);
        OK(rig_be->get_rows(be, 2, 0, d.x.dim[2], r.rows[2], &err));
        ck_assert(memcmp(r.rows[2], s.factor[2], d.x.dim[2] * s.ask.rank * sizeof(double)) == 0);
    }
    ts_feed_free(feed);
    rig_be->close(be);
    result_free(&s, &r);
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

/* Its sentence is that of the pass. */
START_TEST(a_failing_inverse_ends_a_pass) /* loop test: _i + 1 members */
{
    struct rig_disk d = rig_counts(&usual);
    struct setup s = setup_new(&d, 4, TS_FLOAT32);
    struct result r = result_new(&s);
    struct ts_row_update squares = { .matrix = s.w, .ready = late_fails };
    const struct ts_row_sums sums = { .gram = r.gram[0] };
    struct ts_backend_times times;
    struct ts_feed *feed;
    void *be;
    s.ask.members = (uint32_t)_i + 1;
    be = open_backend(&s);
    feed = open_feed(&s, be);
    ck_assert_int_eq(
        rig_be->pass(&(struct ts_request){ .be = be, .update = &squares, .sums = &sums }, 1, 0,
                     feed, &times, &err),
        TS_ENOMEM);
    ck_assert_str_eq(err.text, "no inverse");
    ts_feed_free(feed);
    rig_be->close(be);
    result_free(&s, &r);
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

/* Whatever it finds half done, and the next one opens as if nothing had been. */
START_TEST(a_stop_ends_opening) /* loop test: _i centiseconds after it began */
{
    struct rig_disk d = rig_counts(&usual);
    struct setup s = setup_new(&d, 4, TS_FLOAT32);
    struct ts_backend_conf conf;
    struct test_stop later;
    void *be = NULL;
    int rc;
    s.ask.members = 3;
    spread(&s, 1);
    conf = conf_of(&s);
    conf.stop = &later.asked;
    test_stop_later(&later, 10000 * (uint32_t)_i);
    if (_i == 0) /* before it begins */
        test_stop_join(&later);
    rc = rig_be->open(&conf, &be, &err);
    ck_assert(rc == TS_ESTOP || (rc == 0 && _i > 0));
    ck_assert(rc == 0 || be == NULL);
    if (_i > 0)
        test_stop_join(&later);
    if (rc == 0)
        rig_be->close(be);
    rig_be->close(open_backend(&s));
    setup_free(&s);
    rig_disk_free(&d);
}
END_TEST

START_TEST(more_than_the_device_has_is_refused)
{
    struct rig_disk d = rig_counts(&usual);
    const struct ts_backend_conf conf = { .tensor = d.tensor,
                                          .rank = 4,
                                          .n_devices = 1,
                                          .only_mode = -1,
                                          .device_bytes = UINT64_C(1) << 50 };
    void *be = NULL;
    ck_assert_int_eq(rig_be->open(&conf, &be, &err), TS_ELIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "gpu_memory"));
    ck_assert_ptr_null(be);
    rig_disk_free(&d);
}
END_TEST

START_TEST(too_small_a_budget_is_refused_with_the_arithmetic)
{
    struct rig_disk d = rig_counts(&usual);
    const struct ts_backend_conf conf = {
        .tensor = d.tensor, .rank = 900, .n_devices = 1, .only_mode = -1, .device_bytes = 20 << 20
    };
    void *be = NULL;
    ck_assert_int_eq(rig_be->open(&conf, &be, &err), TS_ELIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot work: the factor matrices of rank 900"));
    ck_assert_ptr_nonnull(strstr(err.text, "CUDA driver"));
    rig_disk_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = rig_suite("gpu_backend");
    if (suite == NULL)
        return 77;
    test_add(suite, "dense", dense_work_equals_reference, 4 * N_RANKS);
    test_add(suite, "scaling", what_follows_a_scaling_reads_scaled_rows, 4);
    test_add_some(suite, "budgets in float32", same_bits_for_every_budget_and_team, 0, 1);
    test_add_some(suite, "budgets in float64", same_bits_for_every_budget_and_team, 1, 2);
    test_add_some(suite, "chunks of two", same_bits_in_chunks, 0, 1);
    test_add_some(suite, "chunks of four", same_bits_in_chunks, 1, 2);
#ifdef HAVE_NCCL
    if (rig_n_devices > 1)
        test_add(suite, "chunks by NCCL", same_bits_in_chunks_by_nccl, 1);
#endif
    test_add(suite, "wide", wide_sums_have_the_same_bits, 2);
    test_add(suite, "old rows", rows_from_old_ones, N_OWN_CASES);
    test_add(suite, "old rows in chunks", rows_from_old_ones_in_chunks, 2);
    rig_add_gpu(suite, "old rows refused", rows_must_be_kept_to_be_read, 1);
    test_add_some(suite, "order 2", same_bits_for_odd_shapes, 0, 1);
    test_add_some(suite, "one shard", same_bits_for_odd_shapes, 1, 2);
    test_add_some(suite, "one row", same_bits_for_odd_shapes, 2, 3);
    test_add_some(suite, "order 4", same_bits_for_odd_shapes, 3, 4);
    test_add_some(suite, "order 6", same_bits_for_odd_shapes, 4, 5);
    test_add_some(suite, "eight nonzeros", same_bits_for_odd_shapes, 5, 6);
    rig_add_gpu(suite, "subnormal", subnormal_products_are_kept_and_take_no_longer, 1);
    test_add(suite, "one mode", only_one_mode_is_kept, 1);
    rig_add_gpu(suite, "early", shards_come_before_their_mode, 1);
    test_add(suite, "stop", a_stop_ends_all_members, 2);
    test_add(suite, "inverse", a_failing_inverse_ends_a_pass, 3);
    rig_add_gpu(suite, "stop in open", a_stop_ends_opening, 10);
    rig_add_gpu(suite, "too much", more_than_the_device_has_is_refused, 1);
    rig_add_gpu(suite, "too little", too_small_a_budget_is_refused_with_the_arithmetic, 1);
    return test_run_suite(suite, CK_NOFORK);
}
