/* SPDX-License-Identifier: BSD-3-Clause */
/* rowsolve.c - updates the rows of a factor on all threads, and sums its Gram matrix over groups of
 * rows, which are added in order. */
#include "cpu/rows/rowsolve.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "base/machine/fpmode.h"
#include "cpu/ranks/needs.h"
#include "cpu/rows/rowsolve_state.h"
#include "cpu/ranks/share.h"

#define MAX_GROUPS   64u
#define MIN_GROUPS   4u
#define GROUPS_BYTES (UINT64_C(16) << 20)   /* most bytes of partial Gram matrices */
#define GROUP_ROWS   (8 * TS_ROWBLOCK_ROWS) /* fewest rows of a group, except the last one */
#define WHOLE_GROUPS 4u /* threads take whole groups of rows if each gets at least this many */
/* most bytes of solved rows whose sums are not computed yet */
#define ROOM_BYTES (UINT64_C(16) << 20)
/* rows that are solved at a time: with 64, rank 128 takes 1.25 times as long */
#define STEP_ROWS 32u
#define SPINS     2000u /* iterations of a waiting loop before a thread yields its core */

/* With less work than this, one thread works alone. Updates that read the old rows take several
 * times as long, so they have a limit of their own. */
/* limit of rows x (rank^2 + 24 rank), derived from times at ranks 16 to 64 */
#define LONE_COST (UINT64_C(700) << 10)
#define LONE_OWN  (UINT64_C(1) << 16) /* limit of rows x rank^2, if old rows are read */

/* The division of a factor into blocks (TS_ROWBLOCK_ROWS rows) and groups of blocks. */
struct layout {
    uint64_t n_rows, n_blocks, groups;
};

/* Data that the threads of a call share. */
struct job {
    struct ts_rowsolve *s;
    struct ts_fmat *f;
    struct layout l;
    const double *w;
    double *gram;
    int with_inner, with_size;
    const struct ts_fmat *product; /* MTTKRP, for updates that read the old rows; or NULL */
    const struct ts_rowstep *step; /* steps of coordinate descent on columns; or NULL */
    int simple, simplex;
    uint32_t rounds;
    double rho;

    uint64_t begin, end; /* groups of rows that this rank updates: begin .. end - 1 */
    struct ts_rowsolve_ranks *ranks;
    int rc; /* first failure of sending rows to other ranks */
    struct ts_err *err;
};

/* Returns the number of groups of rows. The bits of results depend on it. */
static uint64_t groups_of(uint64_t n_rows, uint32_t padded)
{
    const uint64_t wanted = (n_rows + GROUP_ROWS - 1) / GROUP_ROWS;
    uint64_t most = GROUPS_BYTES / ((uint64_t)padded * padded * sizeof(double));
    most = most < MIN_GROUPS ? MIN_GROUPS : most > MAX_GROUPS ? MAX_GROUPS : most;
    return wanted < most ? wanted : most;
}

static struct layout lay_out(const struct ts_rowsolve *s, uint64_t n_rows)
{
    return (struct layout){ .n_rows = n_rows,
                            .n_blocks = ts_rowsolve_blocks(n_rows),
                            .groups = groups_of(n_rows, s->padded) };
}

/* Returns an object with its sizes set and no memory allocated. */
static struct ts_rowsolve plan(uint64_t max_rows, uint32_t rank, uint32_t threads)
{
    struct ts_rowsolve s = {
        .rank = rank, .padded = (rank + 7) / 8 * 8, .threads = threads, .max_rows = max_rows
    };
    const uint64_t row_bytes = 2 * s.padded * sizeof(double);
    const uint64_t part = (ts_rowsolve_blocks(max_rows) + threads - 1) / threads * TS_ROWBLOCK_ROWS;
    s.square = (uint64_t)s.padded * s.padded;
    s.group_size = s.square + 16;
    s.room = STEP_ROWS;
    if (threads > 1) {
        const uint64_t most = ROOM_BYTES / row_bytes / threads / STEP_ROWS * STEP_ROWS;
        s.room = part < GROUP_ROWS + TS_ROWBLOCK_ROWS ? part : GROUP_ROWS + TS_ROWBLOCK_ROWS;
        s.room = s.room < most ? s.room : most;
        s.room = s.room > STEP_ROWS ? s.room : STEP_ROWS;
    }
    s.bytes = sizeof(double) * (s.square + groups_of(max_rows, s.padded) * s.group_size) +
              threads * (s.room * row_bytes + sizeof(struct ts_rowsolve_turn));
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
    s->turn = (struct ts_rowsolve_turn *)(s->blocks + 2 * threads * s->room * s->padded);
    for (uint32_t k = 0; k < threads; k++)
        atomic_init(&s->turn[k].parts, 0);
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

/* Returns the first block of group g: the group has blocks group_begin(l, g) .. group_begin(l, g +
 * 1) - 1. */
static uint64_t group_begin(const struct layout *l, uint64_t g)
{
    return l->n_blocks * g / l->groups;
}

/* Returns the block whose rows of the product are at m. Its updated rows `a` are `rows` rows after
 * m in the same buffer. */
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

/* Adds what n rows contribute to part p of a group's sums. A part is a panel of the Gram matrix;
 * the last part has the sums `inner` and `size`. */
static void sum_rows(const struct job *j, const struct ts_rowblock *b, uint32_t n, uint32_t p,
                     int more, double *own)
{
    const struct ts_rowsolve *s = j->s;
    if (p < s->padded / TS_ROWBLOCK_PANEL) {
        s->ops->gram(n, s->padded, b->a, p, more, own);
        return;
    }
    if (!more)
        memset(own + s->square, 0, 16 * sizeof *own);
    if (j->with_inner)
        s->ops->inner(n, s->padded, b->m, b->a, own + s->square);
    if (j->with_size)
        s->ops->size(n, s->padded, b->a, own + s->square + 8);
}

static void wait_for(const atomic_uint *parts, uint32_t p)
{
    for (uint32_t k = 0; atomic_load_explicit(parts, memory_order_acquire) <= p; k++) {
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
        if (k >= SPINS)
            sched_yield();
    }
}

/* Solves blocks begin .. end - 1, which are in group g. The thread before this one sums the earlier
 * blocks of the group, and the next thread the later ones. They take turns part by part (panel of
 * the Gram matrix), so that a thread only waits for a part. */
static void solve_segment(const struct job *j, uint64_t g, uint64_t begin, uint64_t end)
{
    const struct ts_rowsolve *s = j->s;
    const uint32_t me = (uint32_t)omp_get_thread_num(), parts = s->padded / TS_ROWBLOCK_PANEL + 1;
    const atomic_uint *before = begin > group_begin(&j->l, g) ? &s->turn[me - 1].parts : NULL;
    atomic_uint *next = end < group_begin(&j->l, g + 1) ? &s->turn[me].parts : NULL;
    const uint64_t behind =
        end * TS_ROWBLOCK_ROWS < j->l.n_rows ? end * TS_ROWBLOCK_ROWS : j->l.n_rows;
    double *m = s->blocks + 2 * me * s->room * s->padded, *own = s->part + g * s->group_size;
    /* If the sums have to wait for the thread before, rows are solved first, as far as there is
     * memory. Otherwise rows are summed while they are in the cache. */
    const int waits = before != NULL && atomic_load_explicit(before, memory_order_acquire) < parts;
    const uint64_t room = waits ? s->room : STEP_ROWS;
    const struct ts_rowblock rows = block_at(j, m, room);
    int more = before != NULL;
    for (uint64_t row = begin * TS_ROWBLOCK_ROWS; row < behind; row += room) {
        const uint32_t n = (uint32_t)(behind - row < room ? behind - row : room);
        for (uint32_t k = 0; k < n; k += STEP_ROWS) {
            const struct ts_rowblock step = block_at(j, m + (size_t)k * s->padded, room);
            update(j, row + k, n - k < STEP_ROWS ? n - k : STEP_ROWS, &step);
        }
        for (uint32_t p = 0; p < parts; p++) {
            if (waits)
                wait_for(before, p);
            sum_rows(j, &rows, n, p, more, own);
            if (next != NULL && row + n == behind)
                atomic_store_explicit(next, p + 1, memory_order_release);
        }
        more = 1;
    }
}

static void solve_group(const struct job *j, uint64_t g)
{
    solve_segment(j, g, group_begin(&j->l, g), group_begin(&j->l, g + 1));
}

static uint64_t group_of(const struct layout *l, uint64_t block)
{
    uint64_t g = block * l->groups / l->n_blocks;
    while (group_begin(l, g + 1) <= block)
        g++;
    return g;
}

/* Solves part `me` of n equal parts of all blocks of rows. Solves the group that the next thread
 * continues first, and the group that the thread before has begun last. */
static void solve_part(const struct job *j, uint32_t me, uint64_t n)
{
    const uint64_t first = group_begin(&j->l, j->begin), all = group_begin(&j->l, j->end) - first;
    uint64_t begin, end, g, last;
    /* no part may be empty, because threads of neighbouring parts wait for each other */
    n = all < n ? all : n;
    if (me >= n)
        return;
    begin = first + all * me / n;
    end = first + all * (me + 1) / n;
    g = group_of(&j->l, begin);
    last = group_of(&j->l, end - 1);
    if (g == last) {
        solve_segment(j, g, begin, end);
        return;
    }
    solve_segment(j, last, group_begin(&j->l, last), end);
    for (uint64_t k = g + 1; k < last; k++)
        solve_group(j, k);
    solve_segment(j, g, begin, group_begin(&j->l, g + 1));
}

/* Adds up row p of the Gram matrix over the groups, in order, and mirrors it below the diagonal. */
static void add_row(const struct job *j, uint32_t p)
{
    const struct ts_rowsolve *s = j->s;
    const uint32_t rank = s->rank, first = p / TS_ROWBLOCK_PANEL * TS_ROWBLOCK_PANEL;
    _Alignas(64) double row[TS_FMAT_MAX_STRIDE];
    s->ops->add(j->l.groups, s->part + (size_t)p * s->padded + first, s->group_size,
                s->padded - first, row);
    memcpy(j->gram + (size_t)p * rank + p, row + (p - first), (rank - p) * sizeof *row);
    for (uint32_t q = p + 1; q < rank; q++)
        j->gram[(size_t)q * rank + p] = row[q - first];
}

/* Sends rows to all ranks, or to those that need them, and sums of groups to all ranks. */
static void exchange(struct job *j)
{
    struct ts_rowsolve_ranks *r = j->ranks;
    uint64_t start;
    if (r == NULL)
        return;
    start = ts_clock_ns();
    r->some = 0;
    if (!r->here)
        j->rc = r->needs != NULL ? ts_needs_send(r->needs, r->mode, j->f, r->row, &r->some, j->err)
                                 : ts_share_gather_rows(r->share, j->f, r->row, j->err);
    if (j->rc == 0)
        j->rc = ts_share_gather(r->share, j->s->part, j->s->group_size * sizeof *j->s->part,
                                r->group, j->err);
    ts_share_note(r->share, start);
}

static void run_alone(struct job *j)
{
    const uint64_t mode = ts_fpmode_flush();
    for (uint64_t g = j->begin; g < j->end; g++)
        solve_group(j, g);
    exchange(j);
    for (uint32_t p = 0; p < j->s->rank; p++)
        add_row(j, p);
    ts_fpmode_restore(mode);
}

/* Adds up all rows of the Gram matrix. Every thread of a team calls it. */
static void add_rows(const struct job *j)
{
#pragma omp for schedule(static) nowait
    for (uint32_t p = 0; p < j->s->rank; p++)
        add_row(j, p);
}

static void run_together(struct job *j)
{
    const int whole = j->l.groups >= (uint64_t)WHOLE_GROUPS * j->s->threads;
    for (uint32_t k = 0; k < j->s->threads; k++)
        atomic_store_explicit(&j->s->turn[k].parts, 0, memory_order_relaxed);
#pragma omp parallel num_threads(j->s->threads)
    {
        const uint64_t mode = ts_fpmode_flush();
        if (whole) {
#pragma omp for schedule(dynamic, 1) nowait
            for (uint64_t g = j->begin; g < j->end; g++)
                solve_group(j, g);
        } else {
            solve_part(j, (uint32_t)omp_get_thread_num(), (uint64_t)omp_get_num_threads());
        }
#pragma omp barrier
        if (j->ranks == NULL)
            add_rows(j);
        ts_fpmode_restore(mode);
    }
    if (j->ranks == NULL)
        return;
    exchange(j); /* outside of a parallel region, because it uses the same threads */
#pragma omp parallel num_threads(j->s->threads)
    {
        const uint64_t mode = ts_fpmode_flush();
        add_rows(j);
        ts_fpmode_restore(mode);
    }
}

static int is_lone(const struct job *j)
{
    const struct ts_rowsolve *s = j->s;
    return s->threads == 1 ||
           (j->product != NULL ? j->l.n_rows * s->square <= LONE_OWN
                               : j->l.n_rows * s->padded * (s->padded + 24) <= LONE_COST);
}

/* Copies what an update that reads the old rows needs: the weight of each column and, for
 * coordinate descent, its step (1 / diagonal, threshold, bounds); for the simplex, the inverse. */
static void prepare(struct job *j, const struct ts_row_update *update)
{
    struct ts_rowsolve *s = j->s;
    memset(s->weight, 0, s->padded * sizeof *s->weight);
    for (uint32_t r = 0; r < s->rank; r++)
        s->weight[r] = update->weight == NULL ? 1 : update->weight[r];
    if (update->kind == TS_ROW_KEEP)
        return;
    j->rounds = update->rounds;
    if (update->kind == TS_ROW_SIMPLEX) {
        j->simplex = 1;
        j->rho = update->rho;
        for (uint32_t r = 0; r < s->rank; r++)
            memcpy(s->inverse + (size_t)r * s->padded, update->inverse + (size_t)r * s->rank,
                   s->rank * sizeof *s->inverse);
        return;
    }
    memset(s->step, 0, s->padded * sizeof *s->step);
    for (uint32_t r = 0; r < s->rank; r++) {
        const double square = update->matrix[(size_t)r * s->rank + r];
        const int counts = square > 0 && isfinite(1 / square);
        s->step[r] = (struct ts_rowstep){
            .inverse = counts ? 1 / square : 0,
            .threshold = update->l1 == 0 ? 0
                         : counts        ? update->l1 / square
                                         : INFINITY,
            .lower = update->lower,
            .upper = update->upper,
        };
    }
    j->step = s->step;
    j->simple = update->l1 == 0 && update->upper == INFINITY;
}

/* Adds up the 8 partial sums of `inner` or `size`, at offset `at` of each group's sums, in the
 * order of the groups. */
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
                    const struct ts_row_update *update, const struct ts_row_sums *ret,
                    struct ts_rowsolve_ranks *ranks, struct ts_err *err)
{
    const double *w = update == NULL ? NULL : update->matrix;
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
        prepare(&j, update);
    for (uint32_t p = 0; w != NULL && p < s->rank; p++)
        memcpy(s->w + (size_t)p * s->padded, w + (size_t)p * s->rank, s->rank * sizeof *w);
    if (is_lone(&j))
        run_alone(&j);
    else
        run_together(&j);
    if (ret->inner != NULL)
        *ret->inner = add_sums(&j, s->square);
    if (ret->size != NULL)
        *ret->size = add_sums(&j, s->square + 8);
    return j.rc;
}
