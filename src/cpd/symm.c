/* SPDX-License-Identifier: BSD-3-Clause */
/* Inverses by Cholesky, or by all eigenvectors: Householder's tridiagonal form, then implicit QL. */
#include "cpd/symm.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpmode.h"
#include "base/stop.h"

#define MAX_STEPS \
    50 /* of QL for an eigenvalue, which needs about two; a bound that nothing reaches */
#define TINY 1e-140 /* squares of less lose digits; nothing is smaller beside entries up to 1 */

/* Every function below is compiled for each instruction set, inside of those at the end. */
#define PART static inline __attribute__((always_inline))

typedef double vec __attribute__((vector_size(32), aligned(8)));
typedef int64_t vec_bits __attribute__((vector_size(32), aligned(8)));

#define AT(p) (*(vec *)(p))
#define OF(p) (*(const vec *)(p))

/* ---- sums ----
 *
 * A dot product has four running sums: element i goes to sum i % 4, but for the last n % 4, which go to
 * the first. So it is as long as it was when its loop was scalar, and its bits are those of then. */

/* sum[k] := the four sums of a' b[k], for four b at once. Of n elements, a multiple of 4. */
PART void dot_4(uint32_t n, const double *a, const double *const b[4], vec sum[4])
{
    vec s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
    for (uint32_t i = 0; i < n; i += 4) {
        const vec x = OF(a + i);
        s0 += x * OF(b[0] + i);
        s1 += x * OF(b[1] + i);
        s2 += x * OF(b[2] + i);
        s3 += x * OF(b[3] + i);
    }
    sum[0] = s0;
    sum[1] = s1;
    sum[2] = s2;
    sum[3] = s3;
}

/* The four sums of n elements before, and n_more behind them. */
PART double dot_end(const double s[4], uint32_t n_more, const double *a, const double *b)
{
    double s0 = s[0], s1 = s[1], s2 = s[2], s3 = s[3];
    uint32_t i = 0;
    for (; i + 4 <= n_more; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    for (; i < n_more; i++)
        s0 += a[i] * b[i];
    return (s0 + s1) + (s2 + s3);
}

/* Largest column sum of magnitudes. */
PART double norm1(uint32_t n, const double *a)
{
    const vec_bits magnitude = { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    double most = 0;
    for (uint32_t j = 0; j < n; j += 4) {
        double sums[4] = { 0 };
        if (j + 4 <= n) {
            vec s = { 0 };
            for (uint32_t i = 0; i < n; i++)
                s += (vec)((vec_bits)OF(a + (size_t)i * n + j) & magnitude);
            AT(sums) = s;
        } else {
            for (uint32_t i = 0; i < n; i++)
                for (uint32_t k = j; k < n; k++)
                    sums[k - j] += fabs(a[(size_t)i * n + k]);
        }
        for (int k = 0; k < 4; k++)
            most = sums[k] > most || isnan(sums[k]) ? sums[k] : most;
    }
    return most;
}

/* ---- Cholesky ---- */

/* Four rows from `first` on; those beyond the end are the last. */
PART void rows_4(uint32_t n, const double *a, uint32_t first, const double *ret[4])
{
    for (uint32_t k = 0; k < 4; k++)
        ret[k] = a + (size_t)(first + k < n ? first + k : n - 1) * n;
}

/* Rows begin .. end - 1 of four columns of l, the lower Cholesky factor of v: what lies left of them is summed for the four at
 * once. Rows from first + 4 on need rows first .. first + 3, and each other not. 0 when v is not positive definite. */
PART int cholesky(uint32_t n, const double *v, uint32_t first, uint32_t begin, uint32_t end,
                  double *l)
{
    const double *lj[4];
    rows_4(n, l, first, lj);
    for (uint32_t i = begin; i < end; i++) {
        double *li = l + (size_t)i * n;
        double sum[4][4];
        dot_4(first, li, lj, (vec *)sum);
        for (uint32_t j = first; j < first + 4 && j <= i; j++) {
            const uint32_t k = j - first;
            const double s = v[(size_t)i * n + j] - dot_end(sum[k], k, li + first, lj[k] + first);
            if (i != j)
                li[j] = s / lj[k][j];
            else if (s > 0 && isfinite(s))
                li[i] = sqrt(s);
            else
                return 0;
        }
    }
    return 1;
}

/* Rows begin .. end - 1 of ret := columns of the inverse of the lower triangular l: row j starts at its diagonal. Four
 * entries of each row at a time. */
PART void invert_lower(uint32_t n, const double *l, uint32_t begin, uint32_t end, double *ret)
{
    memset(ret + (size_t)begin * n, 0, (size_t)(end - begin) * n * sizeof *ret);
    for (uint32_t first = begin / 4 * 4; first < n; first += 4) {
        const double *li[4];
        rows_4(n, l, first, li);
        for (uint32_t j = begin; j < first + 4 && j < end; j++) {
            double *x = ret + (size_t)j * n;
            const uint32_t done = j < first ? (first - j) / 4 * 4 : 0;
            const double *const at[4] = { li[0] + j, li[1] + j, li[2] + j, li[3] + j };
            double sum[4][4];
            dot_4(done, x + j, at, (vec *)sum);
            for (uint32_t i = j < first ? first : j; i < first + 4 && i < n; i++) {
                const double *row = li[i - first];
                x[i] = i == j
                           ? 1 / row[i]
                           : -dot_end(sum[i - first], i - j - done, row + j + done, x + j + done) /
                                 row[i];
            }
        }
    }
}

/* Rows begin .. end - 1 of ret := li' li, up to the diagonal, and the columns that mirror them. */
PART void square_lower(uint32_t n, const double *li, uint32_t begin, uint32_t end, double *ret)
{
    for (uint32_t i = begin; i < end; i++) {
        const double *a = li + (size_t)i * n + i;
        const uint32_t whole = (n - i) / 4 * 4;
        for (uint32_t j = 0; j <= i; j += 4) {
            const double *b[4];
            double sum[4][4];
            rows_4(n, li, j, b);
            for (uint32_t k = 0; k < 4; k++)
                b[k] += i;
            dot_4(whole, a, b, (vec *)sum);
            for (uint32_t k = 0; k < 4 && j + k <= i; k++)
                ret[(size_t)i * n + j + k] = ret[(size_t)(j + k) * n + i] =
                    dot_end(sum[k], n - i - whole, a + whole, b[k] + whole);
        }
    }
}

PART int is_well(uint32_t n, const double *v, double cut, const double *inverse)
{
    return norm1(n, v) * norm1(n, inverse) < 1 / fmax(TS_SYMM_RCOND, cut); /* false for NaN */
}

/* Inverse by Cholesky; 0 when v is not positive definite or too badly conditioned. */
PART int inverse(uint32_t n, const double *v, double cut, double *l, double *li, double *ret)
{
    for (uint32_t first = 0; first < n; first += 4)
        if (!cholesky(n, v, first, first, n, l))
            return 0;
    invert_lower(n, l, 0, n, li);
    square_lower(n, li, 0, n, ret);
    return is_well(n, v, cut, ret);
}

/* ---- eigenvectors ----
 *
 * Rows of these matrices are padded with zeros to `ld` columns, a multiple of 4. Errors are those of
 * v's own rounding: each step changes v by at most some DBL_EPSILON of its norm, and the cut lies far
 * above that. */

struct eigen {
    uint32_t n, ld;
    const volatile sig_atomic_t *stop;
    double *
        a; /* n x ld: v, then Householder's vectors in its rows, then eigenvectors over eigenvalues */
    double *z; /* n x ld: rows become eigenvectors */
    double *d,
        *e;    /* ld: the diagonal, that becomes eigenvalues; what lies beside: e[i] at i, i + 1 */
    double *h; /* ld: half the squares of Householder's vectors, 0: none; then cosines */
    double *p; /* ld: a vector; then sines */
};

static uint32_t padded(uint32_t n)
{
    return (n + 3) / 4 * 4;
}

uint64_t ts_symm_bytes(uint32_t n)
{
    return (2 * (uint64_t)n + 4) * padded(n) * sizeof(double);
}

/* ret[i] := row i of a times x, for i < n; each sum has four parts. */
PART void multiply(uint32_t n, uint32_t ld, const double *a, const double *x, double *ret)
{
    for (uint32_t i = 0; i < n; i += 4) {
        const double *row[4];
        double sum[4][4];
        for (uint32_t k = 0; k < 4; k++)
            row[k] = a + (size_t)(i + k < n ? i + k : n - 1) * ld;
        dot_4(padded(n), x, row, (vec *)sum);
        for (uint32_t k = 0; k < 4 && i + k < n; k++)
            ret[i + k] = (sum[k][0] + sum[k][1]) + (sum[k][2] + sum[k][3]);
    }
}

PART double dot(uint32_t n, const double *a, const double *b)
{
    vec s = { 0 };
    for (uint32_t i = 0; i < n; i += 4)
        s += OF(a + i) * OF(b + i);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* Makes row i of a, left of the diagonal, the vector u of the reflection  1 - u u' / h  that takes it to
 * a multiple of the last unit vector; e[i - 1] is that multiple. */
PART void reflect_row(struct eigen *g, uint32_t i)
{
    double *u = g->a + (size_t)i * g->ld;
    double squares, length;
    memset(u + i, 0,
           (g->ld - i) * sizeof *u); /* the diagonal is in d; right of it are old copies */
    squares = dot(padded(i), u, u);
    length = sqrt(squares);
    g->h[i] = 0;
    if (!(sqrt(squares - u[i - 1] * u[i - 1]) > TINY)) {
        double rest = 0;
        for (uint32_t k = 0; k + 1 < i; k++)
            rest = fmax(rest, fabs(u[k]));
        if (!(rest > TINY)) { /* it is one already */
            g->e[i - 1] = u[i - 1];
            return;
        }
    }
    g->e[i - 1] = -copysign(length, u[i - 1]);
    g->h[i] = squares - u[i - 1] * g->e[i - 1];
    u[i - 1] -= g->e[i - 1];
}

/* a := reflection * a * reflection, for the leading i x i of it; row i is u */
PART void reflect_both(struct eigen *g, uint32_t i)
{
    const double *u = g->a + (size_t)i * g->ld;
    const double h = g->h[i];
    double k;
    memset(g->p, 0, g->ld * sizeof *g->p);
    multiply(i, g->ld, g->a, u, g->p);
    for (uint32_t j = 0; j < i; j++)
        g->p[j] /= h;
    k = dot(padded(i), u, g->p) / (2 * h);
    for (uint32_t j = 0; j < i; j++)
        g->p[j] -= k * u[j];
    for (uint32_t r = 0; r < i; r++) {
        double *row = g->a + (size_t)r * g->ld;
        const double ur = u[r], pr = g->p[r];
        for (uint32_t j = 0; j < padded(i); j += 4)
            AT(row + j) -= ur * OF(g->p + j) + pr * OF(u + j);
    }
}

/* Householder's reduction: a = q t q', t tridiagonal; z := q'. The last rows first, so that the vector of
 * row i lies in the row itself. */
PART void reduce(struct eigen *g)
{
    const uint32_t n = g->n, ld = g->ld;
    for (uint32_t i = n - 1; i > 0 && !ts_stop_asked(g->stop); i--) {
        g->d[i] = g->a[(size_t)i * ld + i];
        reflect_row(g, i);
        if (g->h[i] > 0)
            reflect_both(g, i);
    }
    g->d[0] = g->a[0];
    for (uint32_t i = 0; i < n; i++)
        g->z[(size_t)i * ld + i] = 1;
    for (uint32_t i = 2; i < n && !ts_stop_asked(g->stop); i++) {
        const double *u = g->a + (size_t)i * ld;
        if (!(g->h[i] > 0))
            continue;
        multiply(i, ld, g->z, u, g->p);
        for (uint32_t r = 0; r < i; r++) {
            double *row = g->z + (size_t)r * ld;
            const double f = g->p[r] / g->h[i];
            for (uint32_t j = 0; j < padded(i); j += 4)
                AT(row + j) -= f * OF(u + j);
        }
    }
}

/* Rotations of rows (i, i + 1) of z for i = end - 1 down to first, in one pass over 4 * n_vec columns: the
 * row that the next rotation needs stays in registers. */
PART void rotate_columns(const struct eigen *g, uint32_t first, uint32_t end, double *z, int n_vec)
{
    vec x[4];
    for (int v = 0; v < n_vec; v++)
        x[v] = OF(z + (size_t)end * g->ld + 4 * v);
    for (uint32_t i = end; i-- > first;) {
        double *row = z + (size_t)i * g->ld;
        const double c = g->h[i], s = g->p[i];
        for (int v = 0; v < n_vec; v++) {
            const vec y = OF(row + 4 * v);
            AT(row + g->ld + 4 * v) = s * y + c * x[v];
            x[v] = c * y - s * x[v];
        }
    }
    for (int v = 0; v < n_vec; v++)
        AT(z + (size_t)first * g->ld + 4 * v) = x[v];
}

PART void rotate(const struct eigen *g, uint32_t first, uint32_t end)
{
    uint32_t j = 0;
    for (; j + 16 <= g->ld; j += 16)
        rotate_columns(g, first, end, g->z + j, 4);
    for (; j < g->ld; j += 4)
        rotate_columns(g, first, end, g->z + j, 1);
}

static double length_of(double x, double y)
{
    const double most = fmax(fabs(x), fabs(y));
    if (most > TINY)
        return sqrt(x * x + y * y);
    x *= 0x1p500;
    y *= 0x1p500;
    return 0x1p-500 * sqrt(x * x + y * y);
}

/* A step of QL with Wilkinson's shift on rows first .. end, beside which e is 0 (Bowdler, Martin, Reinsch
 * and Wilkinson, Numer. Math. 11, 1968). */
PART void step(struct eigen *g, uint32_t first, uint32_t end)
{
    double *d = g->d, *e = g->e;
    const double half = (d[first + 1] - d[first]) / (2 * e[first]);
    double x = d[end] - d[first] + e[first] / (half + copysign(length_of(half, 1), half));
    double s = 1, c = 1, p = 0;
    uint32_t i = end;
    while (i-- > first) {
        const double f = s * e[i], b = c * e[i], r = length_of(f, x);
        double t;
        e[i + 1] = r;
        if (r == 0) { /* it falls apart here */
            d[i + 1] -= p;
            e[end] = 0;
            rotate(g, i + 1, end);
            return;
        }
        s = f / r;
        c = x / r;
        x = d[i + 1] - p;
        t = (d[i] - x) * s + 2 * c * b;
        p = s * t;
        d[i + 1] = x + p;
        x = c * t - b;
        g->h[i] = c;
        g->p[i] = s;
    }
    d[first] -= p;
    e[first] = x;
    e[end] = 0;
    rotate(g, first, end);
}

/* d := eigenvalues of the tridiagonal (d, e); rows of z := their eigenvectors. What is below a quarter of
 * DBL_EPSILON of the norm beside the diagonal counts as zero, also among small eigenvalues: these are
 * right to that anyway, and where there are many of them, most of the steps would be theirs. */
PART void diagonalise(struct eigen *g)
{
    double norm = 0, small;
    for (uint32_t i = 0; i < g->n; i++)
        norm = fmax(norm, fabs(g->d[i]) + fabs(g->e[i]));
    small = norm * (0.25 * DBL_EPSILON);
    for (uint32_t first = 0; first + 1 < g->n; first++)
        for (int k = 0; k < MAX_STEPS && !ts_stop_asked(g->stop); k++) {
            uint32_t end = first;
            while (end + 1 < g->n && fabs(g->e[end]) > small &&
                   fabs(g->e[end]) > DBL_EPSILON * (fabs(g->d[end]) + fabs(g->d[end + 1])))
                end++;
            if (end == first)
                break;
            step(g, first, end);
        }
}

/* ret := by * sum over the eigenvalues above the cut of  z z' / eigenvalue */
PART void add_up(struct eigen *g, double cut, double by, double *ret)
{
    const uint32_t n = g->n, ld = g->ld;
    uint32_t kept = 0;
    double most = 0;
    for (uint32_t k = 0; k < n; k++)
        most = fmax(most, fabs(g->d[k]));
    for (uint32_t k = 0; k < n; k++) {
        const double *from = g->z + (size_t)k * ld;
        double *to = g->z + (size_t)kept * ld, *over = g->a + (size_t)kept * ld;
        if (!(fabs(g->d[k]) > cut * most))
            continue;
        for (uint32_t j = 0; j < ld; j += 4) {
            const vec x = OF(from + j);
            AT(to + j) = x;
            AT(over + j) = x / g->d[k];
        }
        kept++;
    }
    for (uint32_t i = 0; i < n && !ts_stop_asked(g->stop); i += 4)
        for (uint32_t j = 0; j <= i; j += 4) {
            vec s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
            double sum[4][4];
            for (uint32_t k = 0; k < kept; k++) {
                const double *over = g->a + (size_t)k * ld + i;
                const vec x = OF(g->z + (size_t)k * ld + j);
                s0 += over[0] * x;
                s1 += over[1] * x;
                s2 += over[2] * x;
                s3 += over[3] * x;
            }
            AT(sum[0]) = s0;
            AT(sum[1]) = s1;
            AT(sum[2]) = s2;
            AT(sum[3]) = s3;
            for (uint32_t r = 0; r < 4 && i + r < n; r++)
                for (uint32_t c = 0; c < 4 && j + c <= i + r; c++)
                    ret[(size_t)(i + r) * n + j + c] = ret[(size_t)(j + c) * n + i + r] =
                        by * sum[r][c];
        }
}

/* Largest magnitude; infinite when an entry is not finite. */
PART double largest(size_t n, const double *v)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = isfinite(v[i]) ? fmax(most, fabs(v[i])) : INFINITY;
    return most;
}

/* d, z: the eigenvalues of v times the power of two that is returned, which takes its largest entry
 * `most` to near 1, and its eigenvectors. */
PART double solve_eigen(struct eigen *g, const double *v, double most)
{
    double by;
    int exponent;
    (void)frexp(most, &exponent);
    by = ldexp(1, exponent > 1000 ? -1000 : exponent < -1000 ? 1000 : -exponent);
    memset(g->a, 0, ts_symm_bytes(g->n));
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t j = 0; j < g->n; j++)
            g->a[(size_t)i * g->ld + j] = by * v[(size_t)i * g->n + j];
    reduce(g);
    diagonalise(g);
    return by;
}

static struct eigen eigen_in(uint32_t n, const volatile sig_atomic_t *stop, double *work)
{
    const size_t square = (size_t)n * padded(n);
    struct eigen g = { .n = n, .ld = padded(n), .stop = stop, .a = work };
    g.z = g.a + square;
    g.d = g.z + square;
    g.e = g.d + g.ld;
    g.h = g.e + g.ld;
    g.p = g.h + g.ld;
    return g;
}

/* ret := the pseudo-inverse, unless it is to stop. */
PART void pseudo(uint32_t n, const double *v, double cut, const volatile sig_atomic_t *stop,
                 double *work, double *ret)
{
    struct eigen g = eigen_in(n, stop, work);
    const double most = largest((size_t)n * n, v);
    if (most > 0 && most < INFINITY) {
        const double by = solve_eigen(&g, v, most);
        add_up(&g, cut, by, ret);
        return;
    }
    for (size_t i = 0; i < (size_t)n * n; i++)
        ret[i] = most > 0 ? NAN : 0;
}

/* ---- for each instruction set ---- */

/* As above: all of it, and its parts. */
struct parts {
    int (*inverse)(uint32_t n, const double *v, double cut, double *l, double *li, double *ret);
    int (*cholesky)(uint32_t n, const double *v, uint32_t first, uint32_t begin, uint32_t end,
                    double *l);
    void (*invert)(uint32_t n, const double *l, uint32_t begin, uint32_t end, double *ret);
    void (*square)(uint32_t n, const double *li, uint32_t begin, uint32_t end, double *ret);
    void (*pseudo)(uint32_t n, const double *v, double cut, const volatile sig_atomic_t *stop,
                   double *work, double *ret);
};

#define PARTS(SET, HOW)                                                                          \
    HOW static int inverse_##SET(uint32_t n, const double *v, double cut, double *l, double *li, \
                                 double *ret)                                                    \
    {                                                                                            \
        return inverse(n, v, cut, l, li, ret);                                                   \
    }                                                                                            \
    HOW static int cholesky_##SET(uint32_t n, const double *v, uint32_t first, uint32_t begin,   \
                                  uint32_t end, double *l)                                       \
    {                                                                                            \
        return cholesky(n, v, first, begin, end, l);                                             \
    }                                                                                            \
    HOW static void invert_##SET(uint32_t n, const double *l, uint32_t begin, uint32_t end,      \
                                 double *ret)                                                    \
    {                                                                                            \
        invert_lower(n, l, begin, end, ret);                                                     \
    }                                                                                            \
    HOW static void square_##SET(uint32_t n, const double *li, uint32_t begin, uint32_t end,     \
                                 double *ret)                                                    \
    {                                                                                            \
        square_lower(n, li, begin, end, ret);                                                    \
    }                                                                                            \
    HOW static void pseudo_##SET(uint32_t n, const double *v, double cut,                        \
                                 const volatile sig_atomic_t *stop, double *work, double *ret)   \
    {                                                                                            \
        pseudo(n, v, cut, stop, work, ret);                                                      \
    }                                                                                            \
    static const struct parts parts_##SET = { inverse_##SET, cholesky_##SET, invert_##SET,       \
                                              square_##SET, pseudo_##SET };

PARTS(portable, )
#ifdef __x86_64__
PARTS(avx2, __attribute__((target("avx2"))))
#endif

/* Fewer rows are not worth a team of threads. */
#define LONE_ROWS 256u
/* That a thread takes at a time: of the inverse of l so many fit a cache. */
#define ROWS_AT_A_TIME 16u

static uint32_t less(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The same by several threads, which share rows: their bits do not depend on who computes them. */
static int inverse_by(int threads, const struct parts *of, uint32_t n, const double *v, double cut,
                      double *l, double *li, double *ret)
{
    const uint32_t pieces = (n + ROWS_AT_A_TIME - 1) / ROWS_AT_A_TIME;
    int well = 1;
#pragma omp parallel num_threads(threads)
    {
        const uint64_t mode = ts_fpmode_flush();
        int go = 1;
        for (uint32_t first = 0; first < n && go; first += 4) {
#pragma omp single
            well = of->cholesky(n, v, first, first, less(first + 4, n), l);
            go = well;
            if (go) {
#pragma omp for schedule(static)
                for (uint32_t k = first / ROWS_AT_A_TIME; k < pieces; k++) {
                    const uint32_t at = k * ROWS_AT_A_TIME;
                    of->cholesky(n, v, first, at > first + 4 ? at : less(first + 4, n),
                                 less(at + ROWS_AT_A_TIME, n), l);
                }
            }
        }
        if (go) {
#pragma omp for schedule(dynamic)
            for (uint32_t k = 0; k < pieces; k++)
                of->invert(n, l, k * ROWS_AT_A_TIME, less((k + 1) * ROWS_AT_A_TIME, n), li);
#pragma omp for schedule(dynamic)
            for (uint32_t k = 0; k < pieces; k++)
                of->square(n, li, k * ROWS_AT_A_TIME, less((k + 1) * ROWS_AT_A_TIME, n), ret);
        }
        ts_fpmode_restore(mode);
    }
    return well && is_well(n, v, cut, ret);
}

/* ret := the inverse or, where Cholesky cannot, the pseudo-inverse. */
static int run(const struct parts *of, uint32_t n, const double *v, double cut, uint32_t threads,
               const volatile sig_atomic_t *stop, double *ret, int *singular, struct ts_err *err)
{
    const int most = n < LONE_ROWS ? 1 : threads > 0 ? (int)threads : omp_get_max_threads();
    double *work = malloc(ts_symm_bytes(n));
    uint64_t mode;
    int well;
    if (work == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a %u x %u matrix", n, n);
    mode = ts_fpmode_flush();
    well = most > 1 ? inverse_by(most, of, n, v, cut, work, work + (size_t)n * n, ret)
                    : of->inverse(n, v, cut, work, work + (size_t)n * n, ret);
    if (!well)
        of->pseudo(n, v, cut, stop, work, ret);
    ts_fpmode_restore(mode);
    if (singular != NULL)
        *singular = !well;
    free(work);
    return well ? 0 : ts_stop_check(stop, err);
}

int ts_symm_pinv_by(uint32_t threads, uint32_t n, const double *v, double cut,
                    const volatile sig_atomic_t *stop, double *ret, int *singular,
                    struct ts_err *err)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return run(&parts_avx2, n, v, cut, threads, stop, ret, singular, err);
#endif
    return run(&parts_portable, n, v, cut, threads, stop, ret, singular, err);
}

int ts_symm_pinv(uint32_t n, const double *v, double cut, const volatile sig_atomic_t *stop,
                 double *ret, int *singular, struct ts_err *err)
{
    return ts_symm_pinv_by(1, n, v, cut, stop, ret, singular, err);
}

int ts_symm_eigen(uint32_t n, const double *v, double *d, double *z, struct ts_err *err)
{
    double *work = malloc(ts_symm_bytes(n));
    struct eigen g = eigen_in(n, NULL, work);
    uint64_t mode;
    double by;
    if (work == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a %u x %u matrix", n, n);
    mode = ts_fpmode_flush();
    by = solve_eigen(&g, v, largest((size_t)n * n, v));
    for (uint32_t k = 0; k < n; k++) {
        d[k] = g.d[k] / by;
        memcpy(z + (size_t)k * n, g.z + (size_t)k * g.ld, n * sizeof *z);
    }
    ts_fpmode_restore(mode);
    free(work);
    return 0;
}

int ts_symm_pinv_portable(uint32_t n, const double *v, double cut,
                          const volatile sig_atomic_t *stop, double *ret, int *singular,
                          struct ts_err *err)
{
    return run(&parts_portable, n, v, cut, 1, stop, ret, singular, err);
}
