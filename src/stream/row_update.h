/* SPDX-License-Identifier: BSD-3-Clause */
/* row_update.h - the updates of a row of a mode: from the row m of the product and its old value a
 * to its new value.
 *
 * A method chooses one of the updates below for each mode; a backend says which updates it supports
 * (`can` of struct ts_backend). G is the elementwise product of the other modes' Gram matrices,
 * which the method computes before the pass.
 *
 *   least squares   a := m W, W a matrix of the method (a pseudo-inverse of G). The old row is not
 *                   read, so the product is stored in the memory of the factor.
 *   coordinate      starts from the old row, and updates entry after entry in a few rounds:
 *                       a_r := clamp(soft(a_r + (m_r - sum over s of a_s G_sr) / G_rr, l1 / G_rr),
 *                       lower, upper)
 *                   with soft(x, k) = sign(x) max(|x| - k, 0). Every step lowers 1/2 a G a' - m a'
 *                   + l1 sum |a_r| within the bounds. lower = 0 is nonnegative least squares by
 *                   HALS (Cichocki, Phan 2009; Gillis, Glineur 2012). If G_rr is 0, entry a_r does
 *                   not matter: it stays, or becomes 0 if l1 penalizes it. 32 rows are updated
 *                   together. Their rounds end after `rounds`, or when a round changes the rows by
 *                   less than TS_ROW_TOL(rounds) of their size.
 *   simplex         a := the row of entries of 0 or more with the sum 1 that minimizes 1/2 a G a' -
 *                   m a', by rounds of ADMM (Huang, Sidiropoulos, Liavas 2016). With rho = trace(G)
 *                   / rank (1 if that is 0), P(x) the projection of x onto such rows (Michelot
 *                   1986) and u the scaled dual row,
 *                       h := (m + rho (a + u)) (G + rho I)^-1,  a := P(h - u),  u := u + a - h.
 *                   It starts with a := P(a), and with the u that would belong to this a if it were
 *                   optimal. Let t be the mean of (a G - m) / rho over the positive entries of a. u
 *                   is t at these entries, and max((a G - m) / rho, t) at the others. So u is not
 *                   stored between sweeps or in states. All `rounds` are computed. If the result is
 *                   not better than P(a) of the old row, it is replaced by P(a), so 1/2 a G a' - m
 *                   a' never rises. An entry below TS_ROW_NONE counts as rounding, and becomes 0.
 *   polar           the matrix A with A' A = I that maximizes tr(A' M). M is the product of all
 *                   rows, and A its polar factor M (M' M)^-1/2. This is least squares with a matrix
 *                   W that the method computes from M after the pass, by calls of the backend
 *                   (cpd/rows/polar.c). Each backend whose `solve` is separate from the product
 *                   supports it. Old rows are not read.
 *   smooth          the matrix A that minimizes 1/2 tr(A G A') - tr(A' M) + mu/2 times the sum of
 *                   squares of second differences of neighbouring rows. After the pass, the method
 *                   computes all rows at once in host memory, by get_rows and put_rows
 *                   (cpd/rows/smooth.c). Each backend whose `solve` is separate supports it. Old
 *                   rows are not read.
 *   smooth within   as smooth, with bounds and the term l1 sum |A|. It starts from old rows, and
 *                   updates one column after another for a few rounds, which end by the rule of
 *                   coordinate descent (cpd/rows/smooth_within.c). A backend with coordinate
 *                   descent and `keep` supports it: `keep` gives the method the product, which is
 *                   stored beside the old rows.
 *   observed        a := the row that minimizes 1/2 sum of (x - <p, a>)^2 + 1/2 l2 |a|^2 over the
 *                   nonzeros of the row that are not held out. x is the value of a nonzero minus
 *                   `mean` of the update, and p the elementwise product of the other factors' rows
 *                   at it. Cells without a nonzero are unknown, and do not count. With by_count, l2
 *                   is multiplied by the number of these nonzeros. A row without such nonzeros, or
 *                   whose nonzeros all have weight 0, becomes 0 or, on CPU cores, the bound nearest
 *                   to 0. Each row needs its own Gram matrix, the sum of p p' over its nonzeros, so
 *                   product and rows are one call (request ROWS of request.h). With `lower` or
 *                   `upper`, block principal pivoting starts from the solution without bounds
 *                   (cpu/rows/bounded_row.h). If pivoting does not find the row, coordinate descent
 *                   does. The old row is not read.
 *   multiply        a := a .* phi (elementwise) for a few rounds, where phi is the row's weighted
 *                   product (loss.h). One call of the backend computes the pass and the rows
 *                   (request MULTIPLY).
 *   descend         a := a step against the gradient of a loss (loss.h), by Adam (Kingma, Ba 2015),
 *                   within bounds. One call of the backend computes the pass and the rows (request
 *                   DESCEND).
 *   keep            a does not change; only sums are computed.
 *
 *   owner    the method owns the matrices of an update and the memory for sums
 *   units    matrices are float64, rank x rank, row-major
 */
#ifndef TS_STREAM_ROW_UPDATE_H
#define TS_STREAM_ROW_UPDATE_H

#include <stdint.h>

#include "base/err.h"
#include "format/hold_out.h"

/* The updates, one on each line. Each of the four numbers is 1 if the property of its column holds:
 *
 *   old       the update reads the old row, so product and factor are two matrices
 *   backend   the backend computes the update, in a pass or in `solve`. Otherwise a file of cpd
 *             computes it from the product, by other calls of the backend, and has a line in
 *             TS_ROW_MAKERS of cpd/rows/row_maker.h
 *   grams     each row needs its own Gram matrix, and a special pass computes the rows
 *   loss      rows follow from the slopes of a loss at each nonzero, and a special pass computes
 *             them
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

/* Sets of updates with a property of the table above: bit k stands for number k of enum
 * ts_row_kind. */
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

/* Cases of a switch for updates that the backend does not compute. A backend writes a case for each
 * update that it computes, and then these cases, so a forgotten update is a compile error. */
#define TS_ROW_CASE_0(NAME) case TS_ROW_##NAME:
#define TS_ROW_CASE_1(NAME)
#define TS_ROW_CASE(NAME, old, backend, grams, loss) TS_ROW_CASE_##backend(NAME)
#define TS_ROW_CASES_BY_METHOD                       TS_ROW_KINDS(TS_ROW_CASE) case TS_N_ROW_KINDS

_Static_assert(TS_ROWS_ALL == (1 << TS_N_ROW_KINDS) - 1, "each update has its line");

/* The relative change of rows below which their rounds of coordinate descent end (see above). Many
 * rounds take little time compared to the product, and affect which solution the run reaches. So
 * with many rounds the threshold is smaller. */
#define TS_ROW_TOL(rounds) ((rounds) < TS_ROW_MANY ? 0.01 : 0.001)
#define TS_ROW_MANY        5u
/* An entry below this counts as a 0 with a rounding error, in a row of entries with sum 1. */
#define TS_ROW_NONE 1e-12

struct ts_row_update {
    enum ts_row_kind kind;
    const double *matrix; /* the matrix W or G of the update (see above); NULL with `keep` */
    /* Computes `matrix`. A pass calls this function once, from any thread, after starting products
     * and before reading the matrix. NULL: the matrix is computed already. If the function fails,
     * the pass fails. */
    int (*ready)(void *ctx, struct ts_err *err);
    void *ctx;
    /* a number for each of the `rank` columns, by which the old rows are multiplied before the
     * update; NULL: all are 1 */
    const double *weight;
    double l1, lower, upper;
    uint32_t rounds;       /* most rounds of coordinate descent or ADMM */
    const double *inverse; /* for the update SIMPLEX: the matrix (G + rho I)^-1 */
    double rho;
    double l2; /* l2 and the members below are for `observed` */
    int by_count;
    double mean; /* number that is subtracted from each value of the tensor */
    struct ts_hold_out hold_out;
};

/* Sums over all rows of the mode after the update. With `keep`, gram and inner are computed from
 * the rows times `weight`. */
struct ts_row_sums {
    double *gram;  /* rank x rank: A' A, with the updated factor A */
    double *inner; /* sum of the elementwise product of A and the product M; NULL: not wanted */
    /* sum of |A| over all entries; for `observed`, sum over rows a of a' a, with by_count times the
     * row's number of nonzeros; NULL: not wanted */
    double *size;
};

/* The update of MULTIPLY. `grow` is added to the entries of the factor A that have a mark (see
 * below), and B is the result times diag(weight). Each of `rounds` computes phi of each row b of B
 * (loss.h) and sets b := b .* phi. Then the columns of B are divided by their sums to give the new
 * A. An entry of A below TS_ROW_ZERO gets a mark if its phi in the last round was above 1: it
 * should grow, but multiplication hardly changes it (Chi, Kolda 2012: an inadmissible zero). The
 * mark is the last bit of such an entry, or the sign bit of a 0. */
#define TS_ROW_ZERO 1e-10

struct ts_loss;

struct ts_multiply {
    const struct ts_loss *loss;
    const double *weight; /* the numbers of diag(weight), one for each column */
    double grow;          /* added to marked entries (see above); 0: marks have no effect */
    uint32_t rounds;
    int judge;                   /* 1: `loss` and `inner` of struct ts_multiply_sums are computed */
    struct ts_hold_out hold_out; /* held-out nonzeros count as zeros, and have separate sums */
};

struct ts_multiply_sums {
    double *column; /* rank: sums of the columns of B after the last round */
    double kkt;     /* the largest |min(b, 1 - phi)| of all entries b of B in the first round */
    /* Sum over all nonzeros of the loss, with B after the last round. */
    double loss;
    /* sum over all nonzeros of x m (value times model's value), with B after the last round */
    double inner;
    /* Over held-out nonzeros: their number, and the sums of their loss, of m and of x^2. */
    double held_n, held_loss, held_model, held_squares;
};

/* The update of DESCEND. The gradient of a row a is l2 a plus a sum of slopes g(x, m) of the loss
 * (loss.h). x is the value of a cell and m that of the model there. p is the elementwise product of
 * the other factors' rows at the cell. The sum is:
 *   observed: the sum of g(x, m) p over the row's nonzeros, because other cells are unknown;
 *   otherwise: the sum of (g(x, m) - g(0, m)) p over them, plus that of g(0, m) p over all cells of
 *   the row, nonzeros or not.
 * The sums over nonzeros leave out held-out ones. In the sum over all cells, the constant part of
 * g(0, m), loss->linear, is computed exactly from column sums of the other factors. The rest of
 * g(0, m) is estimated from n_drawn columns (combinations of rows of the other modes), the same for
 * all rows. They are drawn by random numbers that depend only on seed, draw and the mode. If the
 * loss has lower = 0, columns are drawn with the probabilities of the model, otherwise uniformly
 * and evenly over the rows of each other mode (a Latin hypercube). If the mode has at most n_drawn
 * columns, all of them count once, and nothing is estimated. With n_cells, that many cells are
 * drawn instead of columns, the same for all modes and draws. For each entry a with gradient g, and
 * its moments u and v:
 *   u := b u + (1 - b) g,  v := c v + (1 - c) g^2,
 *   a := clamp(a - rate u / (1 - b^step) / (sqrt(v / (1 - c^step)) + 1e-8)),
 * with b = TS_DESCEND_FIRST and c = TS_DESCEND_SECOND. */
#define TS_DESCEND_FIRST  0.9
#define TS_DESCEND_SECOND 0.999

struct ts_loss;

struct ts_descent {
    const struct ts_loss *loss;
    double at; /* the parameter of the loss, if it takes one */
    int observed;
    struct ts_hold_out hold_out;
    uint32_t n_drawn; /* number of columns that are drawn, unless `observed` is set */
    /* number of cells that are drawn, unless `observed` is set: 0, or a power of four, at most
     * 2^32 */
    uint64_t n_cells;
    /* NULL: make the step. Otherwise rows do not change, and the gradient is written here, in the
     * layout of a moment */
    void *gradient;
    uint64_t seed, draw;
    double l2, lower, upper, rate;
    uint64_t step;   /* number of this gradient step, from 1 */
    void *moment[2]; /* moments u and v: rows x rank in the precision of the factors */
};

/* Returns the largest allowed n_drawn. The drawn columns then take 8 MiB. */
static inline uint32_t ts_descent_most(uint32_t rank)
{
    const uint32_t n = (UINT32_C(1) << 20) / rank;
    return n < 4096 ? n : 4096;
}

/* Whether the backend computes the update. Otherwise the method computes it from the product, by
 * other calls of the backend. */
static inline int ts_row_by_backend(enum ts_row_kind kind)
{
    return (TS_ROWS_BY_BACKEND >> kind & 1) != 0;
}

/* Whether the update reads the old row. If so, product and factor are in two matrices. */
static inline int ts_row_reads_old(enum ts_row_kind kind)
{
    return (TS_ROWS_FROM_OLD >> kind & 1) != 0;
}

#endif
