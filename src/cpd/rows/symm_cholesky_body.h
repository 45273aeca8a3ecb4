/* SPDX-License-Identifier: BSD-3-Clause */
/* symm_cholesky_body.h - dot products, and inverses by Cholesky: a part of symm.c. */

/* functions below are inlined into the functions of each instruction set in symm.c */
#define PART static inline __attribute__((always_inline))

typedef double vec __attribute__((vector_size(32), aligned(8)));
typedef int64_t vec_bits __attribute__((vector_size(32), aligned(8)));

#define AT(p) (*(vec *)(p))
#define OF(p) (*(const vec *)(p))

/* ---- dot products ----
 *
 * A dot product has four running sums. Element i goes to sum i % 4; the last n % 4 elements go to
 * the first sum. A scalar loop in this order gives the same bits. */

/* sum[k] := the four running sums of the dot product of a and b[k], for four b at once. n is a
 * multiple of 4. */
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

/* Finishes a dot product: s has its four running sums so far, and n_more elements are left. */
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

/* Returns the largest sum of magnitudes in a column of a, which is its 1-norm. */
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

/* ---- inverses by Cholesky ---- */

/* ret := pointers to four rows from `first` on. Rows past the last one are replaced by the last
 * one. */
PART void rows_4(uint32_t n, const double *a, uint32_t first, const double *ret[4])
{
    for (uint32_t k = 0; k < 4; k++)
        ret[k] = a + (size_t)(first + k < n ? first + k : n - 1) * n;
}

/* Computes rows begin .. end - 1 of four columns of l, from column `first` on; l is the lower
 * Cholesky factor of v. The dot products with the columns left of these are made for all four at
 * once. Rows from first + 4 on need rows first .. first + 3, and do not need each other. Returns 0
 * if v is not positive definite. */
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

/* Rows begin .. end - 1 of ret := columns of the inverse of the lower triangular l; row j starts at
 * its diagonal. Four entries of a row are computed at a time. */
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

/* Rows begin .. end - 1 of ret := li' li, up to the diagonal, and the mirrored columns. li is the
 * inverse of the lower Cholesky factor, stored by columns. */
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
    /* this comparison is false if a norm is NaN */
    return norm1(n, v) * norm1(n, inverse) < 1 / fmax(TS_SYMM_RCOND, cut);
}

/* Inverts v by Cholesky. Returns 0 if v is not positive definite, or too badly conditioned. */
PART int inverse(uint32_t n, const double *v, double cut, double *l, double *li, double *ret)
{
    for (uint32_t first = 0; first < n; first += 4)
        if (!cholesky(n, v, first, first, n, l))
            return 0;
    invert_lower(n, l, 0, n, li);
    square_lower(n, li, 0, n, ret);
    return is_well(n, v, cut, ret);
}
