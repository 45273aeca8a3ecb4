/* SPDX-License-Identifier: BSD-3-Clause */
/* Divides the rows of a factor among threads, in groups whose sums are added in order. */
#include "cpu/rowsolve.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"
#include "base/clock.h"
#include "base/fpmode.h"
#include "cpu/rowblock.h"
#include "cpu/share.h"

#define MAX_GROUPS   64u
#define MIN_GROUPS   4u
#define GROUPS_BYTES (UINT64_C(16) << 20)   /* for partial Gram matrices */
#define GROUP_ROWS   (8 * TS_ROWBLOCK_ROWS) /* fewest rows of a group, except the last one */
#define APART_BYTES  (UINT64_C(16) << 20)   /* for rows that are solved and summed in two steps */
#define APART_GROUPS 2u                     /* with fewer groups per thread: two steps */
#define LONE_ADDS    (UINT64_C(1) << 16)    /* with fewer multiply-adds: one thread */
#define STEP_ROWS    32u /* rows at a time of whole groups: 64 take 1.25 x the time at rank 128 */

/* How a factor is divided. */
struct layout {
    uint64_t n_rows, n_blocks, groups;
    uint32_t apart; /* 1: solve and sum in two steps */
    uint32_t alone; /* 1: by one thread */
};

struct ts_rowsolve {
    const struct ts_rowblock_ops *ops;
    uint32_t rank, padded, threads;
    uint64_t max_rows;
    uint64_t square,
        group_size;      /* float64 of a Gram matrix; and with 8 partial sums of inner and size */
    uint64_t apart_rows; /* most that are solved in two steps */
    void *memory;        /* all that follows */
    uint64_t bytes;
    double *w;      /* rank x padded */
    double *part;   /* groups x group_size */
    double *blocks; /* threads x 2 x STEP_ROWS x padded: m and a */
    double *apart;  /* 2 x apart_rows x padded: m and a */

    /* of updates that read the old rows; NULL: nobody asked for them */
    void *own;
    uint64_t own_bytes;
    double *units;           /* threads x TS_ROWBLOCK_PLACES x padded x TS_ROWBLOCK_UNIT */
    double *inverse;         /* padded x padded */
    double *weight;          /* padded */
    struct ts_rowstep *step; /* padded */
};

/* What threads share in a run. */
struct job {
    struct ts_rowsolve *s;
    struct ts_fmat *f;
    struct layout l;
    const double *w;
    double *gram;
    int with_inner, with_size;
    const struct ts_fmat *product; /* or NULL */
    const struct ts_rowstep *step; /* or NULL */
    int simple, simplex;
    uint32_t rounds;
    double rho;

    uint64_t begin, end; /* groups to be updated here */
    const struct ts_rowsolve_ranks *ranks;
    int rc; /* of what travels */
    struct ts_err *err;
};

static uint64_t blocks_of(uint64_t n_rows)
{
    return (n_rows + TS_ROWBLOCK_ROWS - 1) / TS_ROWBLOCK_ROWS;
}

/* The number of groups. The bits of results depend on it. */
static uint64_t groups_of(uint64_t n_rows, uint32_t padded)
{
    const uint64_t wanted = (n_rows + GROUP_ROWS - 1) / GROUP_ROWS;
    uint64_t most = GROUPS_BYTES / ((uint64_t)padded * padded * sizeof(double));
    most = most < MIN_GROUPS ? MIN_GROUPS : most > MAX_GROUPS ? MAX_GROUPS : most;
    return wanted < most ? wanted : most;
}

/* Whether threads that take whole groups would stand still for a fifth of the time or more. In two steps none does,
 * but a thread sums rows that others have solved. */
static int leaves_idle(uint64_t groups, uint32_t threads)
{
    const uint64_t turns = (groups + threads - 1) / threads;
    return groups < APART_GROUPS * threads && 4 * turns * threads > 5 * groups;
}

static struct layout lay_out(const struct ts_rowsolve *s, uint64_t n_rows)
{
    struct layout l = { .n_rows = n_rows, .n_blocks = blocks_of(n_rows) };
    l.groups = groups_of(n_rows, s->padded);
    l.alone = s->threads == 1 || n_rows * s->square <= LONE_ADDS;
    l.apart = !l.alone && n_rows <= s->apart_rows && leaves_idle(l.groups, s->threads);
    return l;
}

/* Fills in the sizes only. */
static struct ts_rowsolve plan(uint64_t max_rows, uint32_t rank, uint32_t threads)
{
    struct ts_rowsolve s = {
        .rank = rank, .padded = (rank + 7) / 8 * 8, .threads = threads, .max_rows = max_rows
    };
    const uint64_t row_bytes = 2 * s.padded * sizeof(double);
    const uint64_t all = blocks_of(max_rows) * TS_ROWBLOCK_ROWS;
    const uint64_t most = APART_GROUPS * threads * (uint64_t)GROUP_ROWS;
    s.square = (uint64_t)s.padded * s.padded;
    s.group_size = s.square + 16;
    if (threads > 1) {
        s.apart_rows = APART_BYTES / row_bytes / TS_ROWBLOCK_ROWS * TS_ROWBLOCK_ROWS;
        s.apart_rows = s.apart_rows < most ? s.apart_rows : most;
        s.apart_rows = s.apart_rows < all ? s.apart_rows : all;
    }
    s.bytes = sizeof(double) * (s.square + groups_of(max_rows, s.padded) * s.group_size) +
              (threads * STEP_ROWS + s.apart_rows) * row_bytes;
    return s;
}

uint64_t ts_rowsolve_bytes(uint64_t max_rows, uint32_t rank, uint32_t threads)
{
    return sizeof(struct ts_rowsolve) + ts_bigmem_cost(plan(max_rows, rank, threads).bytes);
}

int ts_rowsolve_new(uint64_t max_rows, uint32_t rank, enum ts_isa isa, uint32_t threads,
                    struct ts_rowsolve **ret, struct ts_err *err)
{
    struct ts_rowsolve *s = malloc(sizeof *s);
    int rc;
    if (s == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for the row solve");
    *s = plan(max_rows, rank, threads);
    s->ops = ts_rowblock_get(isa);
    rc = ts_bigmem_new(s->bytes, "partial Gram matrices", &s->memory, err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    s->w = s->memory;
    s->part = s->w + s->square;
    s->blocks = s->part + groups_of(max_rows, s->padded) * s->group_size;
    s->apart = s->blocks + 2 * (uint64_t)threads * STEP_ROWS * s->padded;
    *ret = s;
    return 0;
}

void ts_rowsolve_free(struct ts_rowsolve *s)
{
    if (s == NULL)
        return;
    ts_bigmem_free(s->memory, s->bytes);
    if (s->own != NULL)
        ts_bigmem_free(s->own, s->own_bytes);
    free(s);
}

uint64_t ts_rowsolve_own_bytes(uint32_t rank, uint32_t threads)
{
    const uint64_t padded = (rank + 7) / 8 * 8;
    return ts_bigmem_cost(
        sizeof(double) *
            (TS_ROWBLOCK_PLACES * threads * padded * TS_ROWBLOCK_UNIT + padded * padded + padded) +
        padded * sizeof(struct ts_rowstep));
}

int ts_rowsolve_own(struct ts_rowsolve *s, struct ts_err *err)
{
    const uint64_t units = TS_ROWBLOCK_PLACES * (uint64_t)s->threads * s->padded * TS_ROWBLOCK_UNIT;
    int rc;
    if (s->own != NULL)
        return 0;
    s->own_bytes = sizeof(double) * (units + s->square + s->padded) + s->padded * sizeof *s->step;
    rc = ts_bigmem_new(s->own_bytes, "rows under way", &s->own, err);
    if (rc < 0)
        return rc;
    s->units = s->own;
    s->inverse = s->units + units;
    s->weight = s->inverse + s->square;
    s->step = (struct ts_rowstep *)(s->weight + s->padded);
    return 0;
}

static uint32_t rows_in(const struct layout *l, uint64_t block)
{
    const uint64_t left = l->n_rows - block * TS_ROWBLOCK_ROWS;
    return left < TS_ROWBLOCK_ROWS ? (uint32_t)left : TS_ROWBLOCK_ROWS;
}

/* Blocks begin[g] .. begin[g + 1] - 1 are a group. */
static uint64_t group_begin(const struct layout *l, uint64_t g)
{
    return l->n_blocks * g / l->groups;
}

/* A block whose m is there and its a `rows` rows behind. */
static struct ts_rowblock block_at(const struct job *j, double *m, uint64_t rows)
{
    const struct ts_rowsolve *s = j->s;
    struct ts_rowblock b = {
        .w = j->w,
        .m = m,
        .a = j->w == NULL && j->product == NULL ? m : m + rows * s->padded,
        .padded = s->padded,
    };
    if (j->product != NULL) {
        b.product = j->product;
        b.weight = s->weight;
        b.step = j->step;
        b.simple = j->simple;
        b.wants_m = j->with_inner;
        b.rounds = j->rounds;
        b.unit = s->units +
                 TS_ROWBLOCK_PLACES * (uint64_t)omp_get_thread_num() * s->padded * TS_ROWBLOCK_UNIT;
        b.inverse = s->inverse;
        b.rho = j->rho;
    }
    return b;
}

static void update(const struct job *j, uint64_t row, uint32_t n, const struct ts_rowblock *b)
{
    if (j->simplex)
        j->s->ops->simplex(j->f, row, n, b);
    else if (j->product != NULL)
        j->s->ops->descend(j->f, row, n, b);
    else
        j->s->ops->product(j->f, row, n, b);
}

static void solve_group(const struct job *j, uint64_t g)
{
    const struct ts_rowsolve *s = j->s;
    double *m = s->blocks + 2 * (uint64_t)omp_get_thread_num() * STEP_ROWS * s->padded;
    double *own = s->part + g * s->group_size;
    int more = 0;
    const struct ts_rowblock block = block_at(j, m, STEP_ROWS);
    memset(own + s->square, 0, 16 * sizeof *own);
    for (uint64_t b = group_begin(&j->l, g); b < group_begin(&j->l, g + 1); b++) {
        const uint32_t all = rows_in(&j->l, b);
        for (uint32_t row = 0; row < all; row += STEP_ROWS) {
            const uint32_t n = all - row < STEP_ROWS ? all - row : STEP_ROWS;
            update(j, b * TS_ROWBLOCK_ROWS + row, n, &block);
            for (uint32_t p = 0; p < s->padded / TS_ROWBLOCK_PANEL; p++)
                s->ops->gram(n, s->padded, block.a, p, more, own);
            if (j->with_inner)
                s->ops->inner(n, s->padded, block.m, block.a, own + s->square);
            if (j->with_size)
                s->ops->size(n, s->padded, block.a, own + s->square + 8);
            more = 1;
        }
    }
}

/* Where rows of m and of a lie that are solved in two steps. */
static struct ts_rowblock block_apart(const struct job *j, uint64_t block)
{
    const struct ts_rowsolve *s = j->s;
    return block_at(j, s->apart + block * TS_ROWBLOCK_ROWS * s->padded, s->apart_rows);
}

static void solve_block(const struct job *j, uint64_t b)
{
    const struct ts_rowblock block = block_apart(j, b);
    update(j, b * TS_ROWBLOCK_ROWS, rows_in(&j->l, b), &block);
}

/* Panel `part` of a group's Gram matrix, or, behind the last of them, its partial sums of inner and size. */
static void sum_group(const struct job *j, uint64_t g, uint32_t part)
{
    const struct ts_rowsolve *s = j->s;
    const uint64_t first = group_begin(&j->l, g), end = group_begin(&j->l, g + 1);
    const struct ts_rowblock rows = block_apart(j, first);
    const uint32_t n = (uint32_t)((end - 1 - first) * TS_ROWBLOCK_ROWS) + rows_in(&j->l, end - 1);
    double *own = s->part + g * s->group_size;
    if (part < s->padded / TS_ROWBLOCK_PANEL) {
        s->ops->gram(n, s->padded, rows.a, part, 0, own);
        return;
    }
    memset(own + s->square, 0, 16 * sizeof *own);
    if (j->with_inner)
        s->ops->inner(n, s->padded, rows.m, rows.a, own + s->square);
    if (j->with_size)
        s->ops->size(n, s->padded, rows.a, own + s->square + 8);
}

/* Panel `panel` of gram: the groups' sums, in order; what lies below the diagonal mirrors it. */
static void add_panel(const struct job *j, uint32_t panel)
{
    const struct ts_rowsolve *s = j->s;
    const uint32_t rank = s->rank, first = panel * TS_ROWBLOCK_PANEL;
    const uint32_t end = first + TS_ROWBLOCK_PANEL < rank ? first + TS_ROWBLOCK_PANEL : rank;
    _Alignas(64) double row[TS_FMAT_MAX_STRIDE];
    for (uint32_t p = first; p < end; p++) {
        s->ops->add(j->l.groups, s->part + (size_t)p * s->padded + first, s->group_size,
                    s->padded - first, row);
        memcpy(j->gram + (size_t)p * rank + p, row + (p - first), (rank - p) * sizeof *row);
        for (uint32_t q = p + 1; q < rank; q++)
            j->gram[(size_t)q * rank + p] = row[q - first];
    }
}

/* Takes a row of w into its padded copy. */
static void pad_row(const struct job *j, const double *w, uint32_t p)
{
    memcpy(j->s->w + (size_t)p * j->s->padded, w + (size_t)p * j->s->rank, j->s->rank * sizeof *w);
}

/* All ranks get all rows and sums of groups. One thread calls. */
static void exchange(struct job *j)
{
    const struct ts_rowsolve_ranks *r = j->ranks;
    uint64_t start;
    if (r == NULL)
        return;
    start = ts_clock_ns();
    j->rc = r->here ? 0 : ts_share_gather_rows(r->share, j->f, r->row, j->err);
    if (j->rc == 0)
        j->rc = ts_share_gather(r->share, j->s->part, j->s->group_size * sizeof *j->s->part,
                                r->group, j->err);
    ts_share_note(r->share, start);
}

static void run_alone(struct job *j, const double *w)
{
    const uint64_t mode = ts_fpmode_flush();
    for (uint32_t p = 0; w != NULL && p < j->s->rank; p++)
        pad_row(j, w, p);
    for (uint64_t g = j->begin; g < j->end; g++)
        solve_group(j, g);
    exchange(j);
    for (uint32_t p = 0; p < j->s->padded / TS_ROWBLOCK_PANEL; p++)
        add_panel(j, p);
    ts_fpmode_restore(mode);
}

static void run_together(struct job *j, const double *w)
{
    const uint32_t panels = j->s->padded / TS_ROWBLOCK_PANEL, parts = panels + 1;
    const uint64_t first = group_begin(&j->l, j->begin), behind = group_begin(&j->l, j->end);
#pragma omp parallel num_threads(j->s->threads)
    {
        const uint64_t mode = ts_fpmode_flush();
        if (w != NULL) {
#pragma omp for schedule(static)
            for (uint32_t p = 0; p < j->s->rank; p++)
                pad_row(j, w, p);
        }
        if (j->l.apart) {
#pragma omp for schedule(dynamic, 1)
            for (uint64_t b = first; b < behind; b++)
                solve_block(j, b);
#pragma omp for schedule(dynamic, 1)
            for (uint64_t k = j->begin * parts; k < j->end * parts; k++)
                sum_group(j, k / parts, (uint32_t)(k % parts));
        } else {
#pragma omp for schedule(dynamic, 1)
            for (uint64_t g = j->begin; g < j->end; g++)
                solve_group(j, g);
        }
        if (j->ranks != NULL) { /* behind the barrier of the loop */
#pragma omp master
            exchange(j);
#pragma omp barrier
        }
#pragma omp for schedule(static, 1)
        for (uint32_t p = 0; p < panels; p++)
            add_panel(j, p);
        ts_fpmode_restore(mode);
    }
}

/* Steps and weights of an update that reads the old rows. */
static void prepare(struct job *j, const struct ts_row_update *how)
{
    struct ts_rowsolve *s = j->s;
    memset(s->weight, 0, s->padded * sizeof *s->weight);
    for (uint32_t r = 0; r < s->rank; r++)
        s->weight[r] = how->weight == NULL ? 1 : how->weight[r];
    if (how->kind == TS_ROW_KEEP)
        return;
    j->rounds = how->rounds;
    if (how->kind == TS_ROW_SIMPLEX) {
        j->simplex = 1;
        j->rho = how->rho;
        for (uint32_t r = 0; r < s->rank; r++)
            memcpy(s->inverse + (size_t)r * s->padded, how->inverse + (size_t)r * s->rank,
                   s->rank * sizeof *s->inverse);
        return;
    }
    memset(s->step, 0, s->padded * sizeof *s->step);
    for (uint32_t r = 0; r < s->rank; r++) {
        const double square = how->matrix[(size_t)r * s->rank + r];
        const int counts = square > 0 && isfinite(1 / square);
        s->step[r] = (struct ts_rowstep){
            .inverse = counts ? 1 / square : 0,
            .threshold = how->l1 == 0 ? 0
                         : counts     ? how->l1 / square
                                      : INFINITY,
            .lower = how->lower,
            .upper = how->upper,
        };
    }
    j->step = s->step;
    j->simple = how->l1 == 0 && how->upper == INFINITY;
}

/* The groups' 8 partial sums at `at`, in order. */
static double add_sums(const struct job *j, uint64_t at)
{
    const struct ts_rowsolve *s = j->s;
    const uint64_t mode = ts_fpmode_flush();
    _Alignas(64) double sums[8];
    double sum;
    s->ops->add(j->l.groups, s->part + at, s->group_size, 8, sums);
    sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    ts_fpmode_restore(mode);
    return sum;
}

void ts_rowsolve_deal(const struct ts_rowsolve *s, uint64_t n_rows, struct ts_rowsolve_ranks *ranks)
{
    const struct layout l = lay_out(s, n_rows);
    const struct ts_comm *comm = ts_share_comm(ranks->share);
    const uint64_t *has = ts_share_rows(ranks->share);
    uint64_t g = 0;
    for (uint32_t r = 0; r <= comm->n; r++) {
        while (g < l.groups && (r == comm->n || group_begin(&l, g) * TS_ROWBLOCK_ROWS < has[r]))
            g++;
        ranks->group[r] = g;
        ranks->row[r] = g == l.groups ? n_rows : group_begin(&l, g) * TS_ROWBLOCK_ROWS;
    }
}

int ts_rowsolve_run(struct ts_rowsolve *s, struct ts_fmat *f, const struct ts_fmat *product,
                    const struct ts_row_update *how, const struct ts_row_sums *ret,
                    const struct ts_rowsolve_ranks *ranks, struct ts_err *err)
{
    const double *w = how == NULL ? NULL : how->matrix;
    struct job j = {
        .s = s,
        .f = f,
        .l = lay_out(s, f->n_rows),
        .w = w == NULL ? NULL : s->w,
        .gram = ret->gram,
        .with_inner = ret->inner != NULL,
        .with_size = ret->size != NULL,
        .product = product,
        .ranks = ranks,
        .err = err,
    };
    assert(f->rank == s->rank && f->n_rows <= s->max_rows);
    j.begin = ranks == NULL ? 0 : ranks->group[ts_share_comm(ranks->share)->rank];
    j.end = ranks == NULL ? j.l.groups : ranks->group[ts_share_comm(ranks->share)->rank + 1];
    if (product != NULL)
        prepare(&j, how);
    if (j.l.alone)
        run_alone(&j, w);
    else
        run_together(&j, w);
    if (ret->inner != NULL)
        *ret->inner = add_sums(&j, s->square);
    if (ret->size != NULL)
        *ret->size = add_sums(&j, s->square + 8);
    return j.rc;
}

void ts_rowsolve_scale(struct ts_rowsolve *s, struct ts_fmat *f, const double *by)
{
    const uint64_t n_chunks = (f->n_rows + GROUP_ROWS - 1) / GROUP_ROWS;
    _Alignas(64) double padded[TS_FMAT_MAX_STRIDE];
    _Alignas(64) float narrow[TS_FMAT_MAX_STRIDE];
    int fits = 1;
    for (uint32_t r = 0; r < f->width; r++) {
        padded[r] = r < f->rank ? by[r] : 0;
        narrow[r] = (float)padded[r]; /* a subnormal float32 would count as zero */
        fits = fits && narrow[r] == padded[r] && (narrow[r] == 0 || fabsf(narrow[r]) >= FLT_MIN);
    }
    if (s->threads == 1 || f->n_rows * f->width <= LONE_ADDS) {
        const uint64_t mode = ts_fpmode_flush();
        s->ops->scale(f, 0, f->n_rows, padded, fits ? narrow : NULL);
        ts_fpmode_restore(mode);
        return;
    }
#pragma omp parallel num_threads(s->threads)
    {
        const uint64_t mode = ts_fpmode_flush();
#pragma omp for schedule(static)
        for (uint64_t c = 0; c < n_chunks; c++) {
            const uint64_t row = c * GROUP_ROWS, left = f->n_rows - row;
            s->ops->scale(f, row, left < GROUP_ROWS ? left : GROUP_ROWS, padded,
                          fits ? narrow : NULL);
        }
        ts_fpmode_restore(mode);
    }
}
