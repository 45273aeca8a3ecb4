/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds to the gradient of a loss its part at value 0 for all cells, from column sums of the factors
 * and sampled columns of the Khatri-Rao product. Then makes the steps of rows. */
#include "cpu/losses/descend.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/machine/fpmode.h"
#include "cpu/extent.h"
#include "cpu/ranks/share.h"
#include "cpu/losses/zero_cells.h"
#include "stream/adam.h"
#include "stream/draws.h"
#include "stream/loss.h"

#define GROUP 512u /* rows of a group; column sums are computed for each group */
#define CHUNK 256u /* sampled columns at which a row's model values are computed together */
#define WAYS  8u   /* independent partial sums of a dot product, so that vectors are used */

struct ts_steps {
    const struct ts_tensor *tensor;
    uint32_t rank, threads;
    void *memory; /* memory of all arrays below */
    uint64_t memory_bytes;
    /* for each mode and each group of rows: `rank` column sums, added to those of the groups
     * before */
    double *sum[TS_MAX_ORDER];
    /* `rank` numbers: products of the column sums of all modes but the one whose rows make the
     * step */
    double *linear;
    /* `rank` numbers: what each component adds to the sum of the model over all cells, added to
     * what the components before it add */
    double *upto;
    /* rank x n_drawn: sampled columns of the Khatri-Rao product, stored by component */
    double *column;
    double *weight; /* n_drawn numbers: weight of each sampled column */
    /* for each group of rows: sum of the loss at value 0, less loss->linear times the model's
     * value */
    double *of_group;
    double *thread;         /* for each thread: 2 x rank numbers, and scratch for zero_cells.h */
    struct ts_share *share; /* how ranks divide the present call's work; NULL: one rank */
    uint32_t self;          /* number of this rank */
    struct ts_err *err;
};

/* ---- memory of the object ---- */

static uint64_t groups_of(const struct ts_tensor *t, uint32_t m)
{
    return (t->mode[m].disk.n_rows + GROUP - 1) / GROUP;
}

static uint64_t thread_room(const struct ts_steps *s)
{
    return (2 * (uint64_t)s->rank + ts_zero_cells_scratch(s->rank) + 7) / 8 * 8;
}

/* Places all arrays in the memory at `base`, or only counts their bytes if that is NULL. Returns
 * the bytes. */
static uint64_t lay_out(struct ts_steps *s, char *base)
{
    const uint64_t number = sizeof(double);
    uint64_t most = 0, at = 0;
    for (uint32_t m = 0; m < s->tensor->order; m++) {
        const uint64_t n = groups_of(s->tensor, m);
        most = n > most ? n : most;
        s->sum[m] = ts_place(base, &at, n * s->rank * number);
    }
    s->linear = ts_place(base, &at, s->rank * number);
    s->upto = ts_place(base, &at, s->rank * number);
    s->column = ts_place(base, &at, number * ts_descent_most(s->rank) * s->rank);
    s->weight = ts_place(base, &at, ts_descent_most(s->rank) * number);
    s->of_group = ts_place(base, &at, most * number);
    s->thread = ts_place(base, &at, s->threads * thread_room(s) * number);
    return at;
}

uint64_t ts_steps_bytes(const struct ts_tensor *t, uint32_t rank, uint32_t threads)
{
    struct ts_steps s = { .tensor = t, .rank = rank, .threads = threads };
    return sizeof s + ts_bigmem_cost(lay_out(&s, NULL));
}

int ts_steps_new(const struct ts_tensor *t, uint32_t rank, uint32_t threads, struct ts_steps **ret,
                 struct ts_err *err)
{
    struct ts_steps *s = calloc(1, sizeof *s);
    int rc;
    if (s == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    s->tensor = t;
    s->rank = rank;
    s->threads = threads;
    s->memory_bytes = lay_out(s, NULL);
    rc = ts_bigmem_new(s->memory_bytes, "steps of rows", &s->memory, err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    lay_out(s, s->memory);
    *ret = s;
    return 0;
}

void ts_steps_free(struct ts_steps *s)
{
    if (s == NULL)
        return;
    ts_bigmem_free(s->memory, s->memory_bytes);
    free(s);
}

/* ---- column sums of factors ---- */

/* Returns which groups of rows each rank sums: this rank has groups first[self] .. first[self + 1]
 * - 1. */
static const uint64_t *deal(const struct ts_steps *s, uint64_t groups, uint64_t alone[2])
{
    alone[0] = 0;
    alone[1] = groups;
    return s->share == NULL ? alone : ts_share_groups(s->share, groups);
}

/* Computes the column sums of a factor for each group of rows, added to those of the groups before.
 * *ret: the sums over all rows. */
static int sum_columns(struct ts_steps *s, uint32_t mode, const struct ts_fmat *f,
                       const double **ret)
{
    const uint64_t groups = groups_of(s->tensor, mode);
    const uint32_t rank = s->rank;
    uint64_t alone[2];
    const uint64_t *first = deal(s, groups, alone);
    int rc = 0;
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (uint64_t g = first[s->self]; g < first[s->self + 1]; g++) {
        double *to = s->sum[mode] + g * rank;
        const uint64_t end = (g + 1) * GROUP < f->n_rows ? (g + 1) * GROUP : f->n_rows;
        memset(to, 0, rank * sizeof *to);
        for (uint64_t i = g * GROUP; i < end; i++)
            for (uint32_t r = 0; r < rank; r++)
                to[r] += ts_item(f->data, i * f->stride + r, f->precision);
    }
    if (s->share != NULL)
        rc = ts_share_gather(s->share, s->sum[mode], rank * sizeof(double), first, s->err);
    for (uint64_t i = rank; i < groups * rank; i++)
        s->sum[mode][i] += s->sum[mode][i - rank];
    *ret = s->sum[mode] + (groups > 0 ? groups - 1 : 0) * rank;
    return rc;
}

/* linear := products of the column sums of all modes but `mode`. upto := cumulative sums over
 * components of these products times the column sums of `mode`. *ret: the sum of the model over all
 * cells. */
static int sum_model(struct ts_steps *s, uint32_t mode, const struct ts_fmat *factor, double *ret)
{
    double sum = 0;
    int rc = 0;
    for (uint32_t r = 0; r < s->rank; r++)
        s->linear[r] = s->upto[r] = 1;
    for (uint32_t m = 0; m < s->tensor->order && rc == 0; m++) {
        const double *of;
        rc = sum_columns(s, m, &factor[m], &of);
        for (uint32_t r = 0; r < s->rank; r++) {
            s->upto[r] *= of[r];
            s->linear[r] *= m != mode ? of[r] : 1;
        }
    }
    for (uint32_t r = 0; r < s->rank; r++) {
        sum += s->upto[r];
        s->upto[r] = sum;
    }
    *ret = sum;
    return rc;
}

/* ---- random columns of the Khatri-Rao product ---- */

static double draw(const struct ts_descent *descent, uint32_t mode, uint32_t number, uint32_t k)
{
    return ts_draw_unit(descent->seed, descent->draw, mode, number, k, descent->n_drawn);
}

/* Returns the number of the first of n cumulative sums, `step` apart, that is above x. So a group
 * whose sum is 0 is never chosen. */
static uint64_t find(const double *sum, uint64_t n, uint64_t step, double x)
{
    uint64_t low = 0, high = n - 1;
    while (low < high) {
        const uint64_t mid = (low + high) / 2;
        if (sum[mid * step] > x)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Chooses a row of mode m by the random number `unit`, with a probability proportional to its entry
 * in column r. */
static uint64_t draw_row(const struct ts_steps *s, uint32_t m, const struct ts_fmat *f, uint32_t r,
                         double unit)
{
    const uint64_t groups = groups_of(s->tensor, m);
    const double *sum = s->sum[m] + r;
    const double x = unit * sum[(groups - 1) * s->rank];
    const uint64_t g = find(sum, groups, s->rank, x);
    const uint64_t end = (g + 1) * GROUP < f->n_rows ? (g + 1) * GROUP : f->n_rows;
    double before = g > 0 ? sum[(g - 1) * s->rank] : 0;
    uint64_t last = g * GROUP;
    for (uint64_t i = g * GROUP; i < end; i++) {
        const double a = ts_item(f->data, i * f->stride + r, f->precision);
        before += a;
        last = a > 0 ? i : last;
        if (before > x)
            return i;
    }
    return last;
}

/* to := the elementwise product of the rows row[m] of all modes m but `mode`; entries are `step`
 * apart. */
static void multiply_rows(const struct ts_steps *s, uint32_t mode, const struct ts_fmat *factor,
                          const uint64_t *row, uint32_t step, double *to)
{
    for (uint32_t c = 0; c < s->rank; c++)
        to[(uint64_t)c * step] = 1;
    for (uint32_t m = 0; m < s->tensor->order; m++)
        for (uint32_t c = 0; c < s->rank && m != mode; c++)
            to[(uint64_t)c * step] *=
                ts_item(factor[m].data, row[m] * factor[m].stride + c, factor[m].precision);
}

/* Takes all n columns of the Khatri-Rao product, if there are no more than would be sampled. */
static uint32_t all_columns(struct ts_steps *s, uint32_t mode, const struct ts_fmat *factor,
                            uint32_t n)
{
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (uint32_t k = 0; k < n; k++) {
        uint64_t row[TS_MAX_ORDER] = { 0 }, rest = k;
        for (uint32_t m = 0; m < s->tensor->order; m++)
            if (m != mode) {
                row[m] = rest % factor[m].n_rows;
                rest /= factor[m].n_rows;
            }
        multiply_rows(s, mode, factor, row, n, s->column + k);
        s->weight[k] = 1;
    }
    return n;
}

/* Samples columns of the Khatri-Rao product, and their weights. If the loss has nonnegative models,
 * the probability is proportional to the model. Returns the number of columns: 0 if the model is
 * 0. */
static uint32_t draw_columns(struct ts_steps *s, uint32_t mode, const struct ts_fmat *factor,
                             const struct ts_descent *descent, double sum)
{
    const uint32_t n = descent->n_drawn, rank = s->rank;
    const struct ts_tensor *t = s->tensor;
    const int from_model = descent->loss->lower == 0;
    const double each = ts_draw_columns(t, mode) / n;
    const double *own = s->sum[mode] + (groups_of(t, mode) - 1) * rank;
    assert(n <= ts_descent_most(rank));
    if (each <= 1)
        return all_columns(s, mode, factor, (uint32_t)ts_draw_columns(t, mode));
    if (from_model && !(sum > 0))
        return 0;
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (uint32_t k = 0; k < n; k++) {
        uint64_t row[TS_MAX_ORDER] = { 0 };
        double all = 0;
        const uint32_t r =
            from_model ? (uint32_t)find(s->upto, rank, 1, sum * draw(descent, mode, 0, k)) : 0;
        for (uint32_t m = 0; m < t->order; m++) {
            const struct ts_fmat *f = &factor[m];
            double unit;
            if (m == mode)
                continue;
            unit = draw(descent, mode, m + 1, k);
            row[m] = from_model ? draw_row(s, m, f, r, unit) : (uint64_t)(unit * (double)f->n_rows);
        }
        multiply_rows(s, mode, factor, row, n, s->column + k);
        for (uint32_t c = 0; c < rank && from_model; c++)
            all += own[c] * s->column[(uint64_t)c * n + k];
        s->weight[k] = from_model ? (all > 0 ? sum / (all * n) : 0) : each;
    }
    return n;
}

/* Computes the sums over all cells that the steps of all rows need, and the sampled columns. *sum:
 * sum of the model over all cells; *n: number of sampled columns. */
static int prepare(struct ts_steps *s, struct ts_share *share, uint32_t mode,
                   const struct ts_fmat *factor, const struct ts_descent *descent, double *sum,
                   uint32_t *n, struct ts_err *err)
{
    int rc = 0;
    s->share = share;
    s->self = share == NULL ? 0 : ts_share_comm(share)->rank;
    s->err = err;
    *sum = 0;
    *n = 0;
    if (descent->observed || factor[mode].n_rows == 0)
        return 0;
    if (descent->loss->linear != 0 || descent->loss->lower == 0)
        rc = sum_model(s, mode, factor, sum);
    if (rc == 0 && descent->n_cells == 0)
        *n = draw_columns(s, mode, factor, descent, *sum);
    return rc;
}

/* ---- gradients and steps of rows ---- */

/* to := the model's values of the row a at up to CHUNK sampled columns, from `first` on. */
static void models_of(const struct ts_steps *s, uint32_t n, uint32_t first, uint32_t some,
                      const double *restrict a, double *restrict to)
{
    memset(to, 0, CHUNK * sizeof *to);
    for (uint32_t r = 0; r < s->rank; r++) {
        const double *restrict k = s->column + (uint64_t)r * n + first;
        const double x = a[r];
        for (uint32_t i = 0; i < some; i++)
            to[i] += x * k[i];
    }
}

static double dot(const double *restrict x, const double *restrict y, uint32_t n)
{
    double sum[WAYS] = { 0 };
    uint32_t i = 0;
    for (; i + WAYS <= n; i += WAYS)
        for (uint32_t k = 0; k < WAYS; k++)
            sum[k] += x[i + k] * y[i + k];
    for (; i < n; i++)
        sum[0] += x[i] * y[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

static const double zero[CHUNK];

/* Adds the part of the gradient that comes from the sampled columns to g, the gradient of row a. */
static void add_drawn(const struct ts_steps *s, const struct ts_descent *descent, uint32_t n,
                      const double *a, double *g)
{
    double model[CHUNK], slope[CHUNK];
    for (uint32_t first = 0; first < n; first += CHUNK) {
        const uint32_t some = n - first < CHUNK ? n - first : CHUNK;
        models_of(s, n, first, some, a, model);
        descent->loss->weigh(some, zero, model, descent->at, slope);
        for (uint32_t i = 0; i < some; i++)
            slope[i] = (slope[i] - descent->loss->linear) * s->weight[first + i];
        for (uint32_t r = 0; r < s->rank; r++)
            g[r] += dot(slope, s->column + (uint64_t)r * n + first, some);
    }
}

static void step_row(const struct ts_steps *s, const struct ts_descent *descent,
                     const struct ts_adam *adam, uint64_t row, const double *a, const double *g,
                     struct ts_fmat *f)
{
    for (uint32_t r = 0; r < s->rank; r++) {
        const uint64_t i = row * s->rank + r;
        double u = ts_item(descent->moment[0], i, f->precision);
        double v = ts_item(descent->moment[1], i, f->precision);
        const double to = ts_adam_step(adam, a[r], g[r], &u, &v);
        ts_set_item(descent->moment[0], i, f->precision, u);
        ts_set_item(descent->moment[1], i, f->precision, v);
        ts_set_item(f->data, row * f->stride + r, f->precision, to);
    }
}

static void keep_row(const struct ts_steps *s, const struct ts_descent *descent, uint64_t row,
                     const double *g, enum ts_precision precision)
{
    for (uint32_t r = 0; r < s->rank; r++)
        ts_set_item(descent->gradient, row * s->rank + r, precision, g[r]);
}

int ts_steps_make(struct ts_steps *s, struct ts_share *share, const uint64_t *has, uint32_t mode,
                  struct ts_fmat *factor, const struct ts_fmat *apart,
                  const struct ts_descent *descent, struct ts_err *err)
{
    struct ts_fmat *f = &factor[mode];
    double sum;
    uint32_t n;
    int rc = prepare(s, share, mode, factor, descent, &sum, &n, err);
    const double linear = descent->observed ? 0 : descent->loss->linear;
    const uint64_t first = share == NULL ? 0 : has[s->self];
    const uint64_t end = share == NULL ? f->n_rows : has[s->self + 1];
    const uint64_t row_bytes = s->rank * ts_precision_bytes(f->precision);
    const int cells = !descent->observed && descent->n_cells > 0;
    const struct ts_zero_cells z = ts_zero_cells_of(s->tensor, s->rank, mode, factor, descent);
    const struct ts_adam adam = ts_adam_of(descent);
    if (rc < 0)
        return rc;
#pragma omp parallel num_threads(s->threads)
    {
        double *a = s->thread + (uint64_t)omp_get_thread_num() * thread_room(s), *g = a + s->rank;
        const uint64_t before = ts_fpmode_flush();
#pragma omp for schedule(dynamic, 64)
        for (uint64_t i = first; i < end; i++) {
            ts_fmat_get(f, i, 1, a, 1);
            ts_fmat_get(apart, i, 1, g, 1);
            for (uint32_t r = 0; r < s->rank; r++)
                g[r] += descent->l2 * a[r] + (linear != 0 ? linear * s->linear[r] : 0);
            if (cells)
                ts_zero_cells_row(&z, i, a, g + s->rank, g);
            else
                add_drawn(s, descent, n, a, g);
            if (descent->gradient != NULL)
                keep_row(s, descent, i, g, f->precision);
            else
                step_row(s, descent, &adam, i, a, g, f);
        }
        ts_fpmode_restore(before);
    }
    if (share != NULL && descent->gradient != NULL)
        return ts_share_gather(share, descent->gradient, row_bytes, has, err);
    for (int k = 0; k < 2 && share != NULL && rc == 0; k++)
        rc = ts_share_to_first(share, descent->moment[k], row_bytes, has, err);
    return rc;
}

/* Returns, for row a, the weighted sum over the sampled columns of the loss at value 0, less
 * loss->linear times the model's value. */
static double judge_row(const struct ts_steps *s, const struct ts_descent *descent, uint32_t n,
                        const double *a)
{
    double model[CHUNK], sum = 0;
    for (uint32_t first = 0; first < n; first += CHUNK) {
        const uint32_t some = n - first < CHUNK ? n - first : CHUNK;
        models_of(s, n, first, some, a, model);
        for (uint32_t i = 0; i < some; i++)
            sum += s->weight[first + i] * (descent->loss->judge(1, zero, model + i, descent->at) -
                                           descent->loss->linear * model[i]);
    }
    return sum;
}

int ts_steps_zeros(struct ts_steps *s, struct ts_share *share, uint32_t mode,
                   const struct ts_fmat *factor, const struct ts_descent *descent, double *ret,
                   struct ts_err *err)
{
    const struct ts_fmat *f = &factor[mode];
    const uint64_t groups = groups_of(s->tensor, mode);
    double sum;
    uint64_t alone[2];
    const uint64_t *first;
    uint32_t n;
    int rc = prepare(s, share, mode, factor, descent, &sum, &n, err);
    const struct ts_zero_cells z = ts_zero_cells_of(s->tensor, s->rank, mode, factor, descent);
    if (rc < 0)
        return rc;
    first = deal(s, groups, alone);
    sum *= descent->loss->linear;
#pragma omp parallel num_threads(s->threads)
    {
        double *a = s->thread + (uint64_t)omp_get_thread_num() * thread_room(s);
        const uint64_t before = ts_fpmode_flush();
#pragma omp for schedule(dynamic, 1)
        for (uint64_t g = first[s->self]; g < first[s->self + 1]; g++) {
            const uint64_t end = (g + 1) * GROUP < f->n_rows ? (g + 1) * GROUP : f->n_rows;
            double of = 0;
            for (uint64_t i = g * GROUP; i < end; i++) {
                ts_fmat_get(f, i, 1, a, 1);
                of += descent->n_cells > 0 ? ts_zero_cells_row(&z, i, a, a + s->rank, NULL)
                                           : judge_row(s, descent, n, a);
            }
            s->of_group[g] = of;
        }
        ts_fpmode_restore(before);
    }
    if (share != NULL)
        rc = ts_share_gather(share, s->of_group, sizeof *s->of_group, first, err);
    for (uint64_t g = 0; g < groups && (n > 0 || descent->n_cells > 0); g++)
        sum += s->of_group[g];
    *ret = sum;
    return rc;
}
