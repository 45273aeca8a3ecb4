/* SPDX-License-Identifier: BSD-3-Clause */
/* symm_eigen_body.h - all eigenvectors, and pseudo-inverses from them: a part of symm.c. */

/* most steps of QL for an eigenvalue; about two are needed, so this limit is never reached */
#define MAX_STEPS 50
/* smaller numbers have inexact squares; they are negligible beside entries of 1 */
#define TINY 1e-140

/* ---- eigenvectors ----
 *
 * Rows of these matrices are padded with zeros to `ld` columns, a multiple of 4. Each step changes
 * v by at most some DBL_EPSILON of its norm, like the rounding of v itself. The cut of eigenvalues
 * (ts_symm_pinv) is far above that. */

struct eigen {
    uint32_t n, ld;
    const volatile sig_atomic_t *stop;
    /* n x ld: v, then Householder's vectors as rows, then eigenvectors divided by their
     * eigenvalues */
    double *a;
    double *z; /* n x ld: eigenvectors as rows, at the end */
    /* ld: d is the diagonal, which becomes the eigenvalues; e[i] is the entry between i and i +
     * 1 */
    double *d, *e;
    /* ld: half the squared lengths of Householder's vectors, 0 if a row has none; then cosines of
     * rotations */
    double *h;
    double *p; /* ld: the vector of one Householder step; then sines of rotations */
};

static uint32_t padded(uint32_t n)
{
    return (n + 3) / 4 * 4;
}

/* ret[i] := row i of a times x, for i < n. Each dot product has four running sums. */
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

/* Replaces the part of row i of a left of the diagonal by the vector u of the reflection 1 - u u' /
 * h. The reflection maps this part to a multiple of the last unit vector; e[i - 1] := that
 * multiple. */
PART void reflect_row(struct eigen *g, uint32_t i)
{
    double *u = g->a + (size_t)i * g->ld;
    double squares, length;
    memset(u + i, 0,
           /* the diagonal is in d, and entries right of it are out of date */
           (g->ld - i) * sizeof *u);
    squares = dot(padded(i), u, u);
    length = sqrt(squares);
    g->h[i] = 0;
    if (!(sqrt(squares - u[i - 1] * u[i - 1]) > TINY)) {
        double rest = 0;
        for (uint32_t k = 0; k + 1 < i; k++)
            rest = fmax(rest, fabs(u[k]));
        if (!(rest > TINY)) { /* the row is a multiple of the last unit vector already */
            g->e[i - 1] = u[i - 1];
            return;
        }
    }
    g->e[i - 1] = -copysign(length, u[i - 1]);
    g->h[i] = squares - u[i - 1] * g->e[i - 1];
    u[i - 1] -= g->e[i - 1];
}

/* a := R a R in the leading i x i block of a, with the reflection R = 1 - u u' / h. Row i of a is
 * u. */
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

/* Householder's reduction: a = q t q' with tridiagonal t; z := q'. The last rows come first, so
 * that the vector for row i is stored in that row. */
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

/* Applies rotations to rows (i, i + 1) of z, for i = end - 1 down to first, in one pass over 4 *
 * n_vec columns. The row that the next rotation needs stays in registers. */
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

/* One step of QL with Wilkinson's shift on rows first .. end of the tridiagonal matrix; e is 0
 * before and after this range (Bowdler, Martin, Reinsch and Wilkinson, Numer. Math. 11, 1968). */
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
        if (r == 0) { /* the matrix splits into two matrices here */
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

/* d := eigenvalues of the tridiagonal matrix (d, e); rows of z := their eigenvectors. An
 * off-diagonal entry below a quarter of DBL_EPSILON of the norm counts as zero, even between small
 * eigenvalues. Their errors are that large anyway. Most steps would be spent on them if there are
 * many. */
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

/* ret := `by` times the sum of z z' / eigenvalue over eigenvectors z whose eigenvalue is above
 * `cut` of the largest */
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

/* Returns the largest magnitude of n entries; infinite if an entry is not finite. */
PART double largest(size_t n, const double *v)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = isfinite(v[i]) ? fmax(most, fabs(v[i])) : INFINITY;
    return most;
}

/* d, z := eigenvalues and eigenvectors of v times the power of 2 that is returned. It scales v's
 * largest entry `most` to about 1. */
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

/* ret := the pseudo-inverse of v. If *stop is set during the call, ret is undefined. */
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
