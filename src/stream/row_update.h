/* SPDX-License-Identifier: BSD-3-Clause */
/* row_update.h - what becomes of a finished row of a mode: its product m and its old value a give
 * the new one.
 *
 * A method chooses one of the updates below for each mode; a backend says which of them it has
 * (struct ts_backend). With G the elementwise product of the other modes' Gram matrices, which the
 * method computes before the pass:
 *
 *   least squares   a := m W, W the method's matrix (a pseudo-inverse of G). It does not read the
 *                   old row, so the product takes the place of the factor.
 *   coordinate      entry after entry, from the old row, a few rounds:
 *                       a_r := clamp(soft(a_r + (m_r - sum over s of a_s G_sr) / G_rr, l1 / G_rr),
 *                       lower, upper)
 *                   with soft(x, k) = x without k of its magnitude, 0 where that is less. It lowers
 *                   1/2 a G a' - m a' + l1 sum |a_r| within the bounds in every step. lower = 0 is
 *                   nonnegative least squares by HALS (Cichocki, Phan 2009; Gillis, Glineur 2012).
 *                   Where G_rr is 0 the entry does not matter and stays, or becomes 0 where it
 *                   costs. Rows are taken by the 32: they are done after `rounds`, or when one
 *                   changes them by less than TS_ROW_TOL(rounds) of their size.
 *   simplex         a := the row of entries of 0 or more with the sum 1 that lowers 1/2 a G a' - m
 *                   a' to the least, by rounds of ADMM (Huang, Sidiropoulos, Liavas 2016). With rho
 *                   = trace(G) / rank (1 where that is 0), P(x) the nearest such row (Michelot
 *                   1986) and u the scaled dual row,
 *                       h := (m + rho (a + u)) (G + rho I)^-1,  a := P(h - u),  u := u + a - h.
 *                   It begins with a := P(a), and with the u that would make this a the best one if
 *                   it were: where entries of a are above 0, their mean t of (a G - m) / rho,
 *                   elsewhere (a G - m) / rho or t, whichever is greater. So no u is kept from
 *                   sweep to sweep, nor in states. All of `rounds` are made; a row that is no
 *                   better then than P(a) was becomes that: the sum never rises. What is left of an
 *                   entry below TS_ROW_NONE is rounding, and becomes 0: a column of such entries is
 *                   zero.
 *   polar           the rows A of which A' A = I that have the largest tr(A' M), M being the
 *                   product of all rows: its polar factor M (M' M)^-1/2. It is least squares with a
 *                   W that the method finds once M is there (cpd/rows/polar.c), from the backend's
 *                   calls, so that a backend has it which has `solve` apart from a product. It does
 *                   not read the old rows.
 *   smooth          the rows A that have the least 1/2 tr(A G A') - tr(A' M) + mu/2 times the sum
 *                   of squares of second differences of neighbouring rows. The method finds them
 *                   all at once, in host memory, by get_rows and put_rows (cpd/rows/smooth.c), once
 *                   M is there, with such a backend. It does not read the old rows.
 *   smooth within   the same with bounds and l1 sum |A|: from the old rows, column after column, a
 *                   few rounds, which end as those of coordinate descent do
 *                   (cpd/rows/smooth_within.c). A backend has it that has coordinate descent and
 *                   `keep`, by which the method gets at the product that lies beside the old rows.
 *   observed        a := the row that has the least  1/2 sum of (x - <p, a>)^2 + 1/2 l2 |a|^2  over
 *                   the nonzeros x of the row that are not held out, x being a value less the mean
 *                   that the update names, and p the product of the other factors' rows there:
 *                   cells that are not listed are unknown. l2 counts once for each of these
 *                   nonzeros where by_count is 1. A row without any becomes 0. It takes a Gram
 *                   matrix for each row, so that product and rows are one call (request ROWS of
 *                   request.h). With lower or upper, block principal pivoting from the solution
 *                   without them (cpu/rows/bounded_row.h); on GPUs, at ranks of which a thread
 *                   block does not hold S, coordinate descent from there, clamped. It does not read
 *                   the old row.
 *   multiply        a := a .* phi, phi being the row's weighted product (loss.h), for a few rounds;
 *                   by a call of the backend that has the pass and the rows in one (MULTIPLY).
 *   descend         a := a step against the gradient of a loss (loss.h), by Adam (Kingma, Ba 2015),
 *                   within bounds; by a call of the backend that has the pass and the rows in one
 *                   (DESCEND).
 *   keep            a stays; only sums are wanted.
 *
 *   owner    the method owns the matrices of an update, and what it asks for of the sums
 *   units    matrices are float64, rank x rank, row-major
 */
#ifndef TS_STREAM_ROW_UPDATE_H
#define TS_STREAM_ROW_UPDATE_H

#include <stdint.h>

#include "base/err.h"
#include "format/hold_out.h"

/* The updates, one a line. A number is 1 where this is so:
 *
 *   old       the update reads the old row, so that product and factor are two matrices
 *   backend   the backend makes it, in a pass or in `solve`; else a file of cpd makes it of the
 *             product, from other calls: it has a line in TS_ROW_MAKERS of cpd/rows/row_maker.h
 *   grams     rows have Gram matrices of their own, and are made in a pass of their own
 *   loss      rows are made nonzero by nonzero, by a loss, in a pass of their own
 */
#define TS_ROW_KINDS(KIND) /* old  backend  grams  loss */ \
    KIND(LEAST_SQUARES, 0, 1, 0, 0)                        \
    KIND(COORDINATE, 1, 1, 0, 0)                           \
    KIND(KEEP, 1, 1, 0, 0)                                 \
    KIND(SIMPLEX, 1, 1, 0, 0)                              \
    KIND(POLAR, 0, 0, 0, 0)                                \
    KIND(SMOOTH, 0, 0, 0, 0)                               \
    KIND(SMOOTH_WITHIN, 1, 0, 0, 0)                        \
    KIND(OBSERVED, 0, 1, 1, 0)                             \
    KIND(MULTIPLY, 1, 1, 0, 1)                             \
    KIND(DESCEND, 1, 1, 0, 1)

enum ts_row_kind {
#define TS_ROW_NAME(NAME, ...) TS_ROW_##NAME,
    TS_ROW_KINDS(TS_ROW_NAME)
#undef TS_ROW_NAME
        TS_N_ROW_KINDS
};

/* Sets of updates: bit k stands for number k of enum ts_row_kind. */
enum ts_row_set {
#define TS_ROW_BIT(NAME, old, backend, grams, loss) | 1 << TS_ROW_##NAME
    TS_ROWS_ALL = 0 TS_ROW_KINDS(TS_ROW_BIT),
#undef TS_ROW_BIT
#define TS_ROW_BIT(NAME, old, backend, grams, loss) | (old) << TS_ROW_##NAME
    TS_ROWS_FROM_OLD = 0 TS_ROW_KINDS(TS_ROW_BIT),
#undef TS_ROW_BIT
#define TS_ROW_BIT(NAME, old, backend, grams, loss) | (backend) << TS_ROW_##NAME
    TS_ROWS_BY_BACKEND = 0 TS_ROW_KINDS(TS_ROW_BIT),
#undef TS_ROW_BIT
#define TS_ROW_BIT(NAME, old, backend, grams, loss) | (grams) << TS_ROW_##NAME
    TS_ROWS_BY_GRAMS = 0 TS_ROW_KINDS(TS_ROW_BIT),
#undef TS_ROW_BIT
#define TS_ROW_BIT(NAME, old, backend, grams, loss) | (loss) << TS_ROW_##NAME
    TS_ROWS_BY_LOSS = 0 TS_ROW_KINDS(TS_ROW_BIT),
#undef TS_ROW_BIT
};

/* Cases of a switch for updates that the backend does not make. A backend lists its own updates, so
 * that a forgotten one does not compile, and then these cases. */
#define TS_ROW_CASE_0(NAME) case TS_ROW_##NAME:
#define TS_ROW_CASE_1(NAME)
#define TS_ROW_CASE(NAME, old, backend, grams, loss) TS_ROW_CASE_##backend(NAME)
#define TS_ROW_CASES_BY_METHOD                       TS_ROW_KINDS(TS_ROW_CASE) case TS_N_ROW_KINDS

_Static_assert(TS_ROWS_ALL == (1 << TS_N_ROW_KINDS) - 1, "each update has its line");

/* The threshold that ends the rounds of a row, as explained above. Many rounds take little time
 * beside the product, and decide which solution the run reaches. So then they end only if nothing
 * is left to do. */
#define TS_ROW_TOL(rounds) ((rounds) < TS_ROW_MANY ? 0.01 : 0.001)
#define TS_ROW_MANY        5u
/* The most that rounding may leave of an entry that is 0, in a row with sum 1. */
#define TS_ROW_NONE 1e-12

struct ts_row_update {
    enum ts_row_kind kind;
    const double *matrix; /* the matrix W or G; NULL with `keep` */
    /* A pass calls it once, from any thread, after starting products and before reading the matrix,
     * which the method computes in it. NULL: the matrix is known already. If it fails, the pass
     * fails. */
    int (*ready)(void *ctx, struct ts_err *err);
    void *ctx;
    /* rank: multipliers of the columns of the old rows, before the update; NULL: 1 */
    const double *weight;
    double l1, lower, upper;
    uint32_t rounds;       /* most rounds of coordinate descent or ADMM */
    const double *inverse; /* simplex: (G + rho I)^-1 */
    double rho;
    double l2; /* for `observed`, like the members below */
    int by_count;
    double mean; /* this mean is subtracted from each value */
    struct ts_hold_out hold_out;
};

/* Sums over all rows of the mode after the update. With `keep`, inner is that of M and the weighted
 * rows, and gram that of the weighted rows. */
struct ts_row_sums {
    double *gram;  /* rank x rank: A' A */
    double *inner; /* sum of the elementwise product of M and A; NULL: not wanted */
    /* sum of |A|; for `observed`, sum over rows of a' a, times the number of nonzeros with
     * by_count; NULL: not wanted */
    double *size;
};

/* Of MULTIPLY. With B = (A + grow where an entry has the mark) diag(weight), each of `rounds` makes
 * phi of each row b (loss.h) and b := b .* phi; then columns of B are divided by their sums to give
 * the new A. Entries of it that are below TS_ROW_ZERO get a mark where phi of the last round was
 * above 1: they would grow, but as good as not by multiplication (Chi, Kolda 2012: an inadmissible
 * zero). The mark is the last bit of such an entry, and the sign of a 0. */
#define TS_ROW_ZERO 1e-10

struct ts_loss;

struct ts_multiply {
    const struct ts_loss *loss;
    const double *weight; /* rank */
    double grow;          /* 0: marks have no effect */
    uint32_t rounds;
    int judge;                   /* loss and inner are wanted */
    struct ts_hold_out hold_out; /* these nonzeros count as zeros, and have sums of their own */
};

struct ts_multiply_sums {
    double *column; /* rank: sums of the columns of B after the last round */
    double kkt;     /* the largest |min(b, 1 - phi)| of the first round */
    /* Sum over all nonzeros of the loss, with B after the last round. */
    double loss;
    double inner; /* sum over all nonzeros of x m, with B after the last round */
    /* Held-out nonzeros: their number, loss, and sums of m and of x^2. */
    double held_n, held_loss, held_model, held_squares;
};

/* Of DESCEND. The gradient of a row a is
 *     sum over its nonzeros that are not held out of g(x, m) p,                       where
 *     unlisted cells are unknown (observed), or sum over these of (g(x, m) - g(0, m)) p + sum over
 *     all cells of the row of g(0, m) p
 * and l2 a. Of the last sum the part of g that is loss->linear is closed, through column sums of
 * the other factors; the rest is estimated from n_drawn columns (cells of the other modes), the
 * same for all rows, drawn by counter from seed, draw and the mode: of a loss whose lower is 0 from
 * the model itself, else uniformly, and evenly over the rows of each other mode (a Latin
 * hypercube). Where there are no more columns than that, all of them count once, and nothing is
 * estimated. With n_cells it is estimated from so many cells instead, the same for all modes and
 * draws. Entry by entry, with the moments u and v,
 *     u := b u + (1 - b) g,  v := c v + (1 - c) g^2,  a := clamp(a - rate u / (1 - b^step) /
 *     (sqrt(v / (1 - c^step)) + 1e-8))
 * b = TS_DESCEND_FIRST, c = TS_DESCEND_SECOND. */
#define TS_DESCEND_FIRST  0.9
#define TS_DESCEND_SECOND 0.999

struct ts_loss;

struct ts_descent {
    const struct ts_loss *loss;
    double at; /* the number that the loss takes */
    int observed;
    struct ts_hold_out hold_out;
    uint32_t n_drawn; /* columns that are drawn, unless `observed` is set */
    /* cells that are drawn, unless `observed` is set: 0, or a power of four, at most 2^32 */
    uint64_t n_cells;
    /* gets the gradient, in the form of a moment, and the rows stay; NULL: the rows descend */
    void *gradient;
    uint64_t seed, draw;
    double l2, lower, upper, rate;
    uint64_t step;   /* number of the step, from 1 */
    void *moment[2]; /* moments u and v: rows x rank in the precision of the factors */
};

/* The most columns that are drawn. They take 8 MiB. */
static inline uint32_t ts_descent_most(uint32_t rank)
{
    const uint32_t n = (UINT32_C(1) << 20) / rank;
    return n < 4096 ? n : 4096;
}

/* Whether the backend makes the update. Otherwise the method makes it from the product, with other
 * calls of the backend. */
static inline int ts_row_by_backend(enum ts_row_kind kind)
{
    return (TS_ROWS_BY_BACKEND >> kind & 1) != 0;
}

/* Whether the update reads the old row. If so, product and factor are two matrices. */
static inline int ts_row_reads_old(enum ts_row_kind kind)
{
    return (TS_ROWS_FROM_OLD >> kind & 1) != 0;
}

#endif
