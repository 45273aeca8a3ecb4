/* SPDX-License-Identifier: BSD-3-Clause */
/* gram_body.h - for rows with their own Gram matrices, once for each instruction set and precision:
 * the row products at the positions of a block, their sums, and the solution of a row.
 * kernel_body.h includes it, with TS_TILE_ROWS defined: 4, or 8 if strides are multiples of 8.
 *
 * Row products are in the precision of the factors. The products of a row in a block, at most
 * TS_BLOCK_NNZ of them, are multiplied with each other in tiles of TS_TILE_ROWS columns by two
 * vectors, and then added to sums in float64. If TS_TURN(x, n) exists, which rotates a vector of 16
 * lanes by n, each vector is also multiplied with itself. The solution is in float64. An addition
 * into a vector takes some four cycles, so independent additions must alternate: a tile has eight
 * vectors of sums, or sixteen if there are 32 registers.
 */

INLINE void NAME(expand_rows)(const struct ts_unpacked *b, const struct NAME(operands) * x,
                              uint32_t n_vec, uint64_t stride, TS_REAL *out)
{
    VEC term[4];
    for (size_t p = 0; p < b->n; p++, out += stride) {
        NAME(fetch)(x, n_vec, p);
        NAME(multiply)(x, n_vec, p, term);
        TS_EACH(v, n_vec)
            ((VEC *)out)[v] = term[v];
    }
}

/* out := the row products (of the other factors' rows) over n_vec vectors of columns from col on,
 * at all positions of a block. */
INLINE void NAME(expand_columns)(const struct ts_kernel_job *job, const struct ts_unpacked *b,
                                 uint32_t n_vec, uint32_t col, struct ts_kernel_scratch *scratch,
                                 TS_REAL *out)
{
    const uint64_t row_bytes = job->stride * sizeof(TS_REAL);
    struct NAME(operand) of[TS_MAX_ORDER] = { { NULL, NULL, 0 } };
    struct NAME(operands) x = NAME(gather)(job, b, n_vec, row_bytes, col, scratch, of);
    if (x.n == 2 && !x.far) {
        x.n = 2;
        x.far = 0;
        NAME(expand_rows)(b, &x, n_vec, job->stride, out + col);
    } else if (x.n == 2) {
        x.n = 2;
        NAME(expand_rows)(b, &x, n_vec, job->stride, out + col);
    } else {
        NAME(expand_rows)(b, &x, n_vec, job->stride, out + col);
    }
}

static void NAME(expand)(const struct ts_kernel_job *job, const struct ts_unpacked *b,
                         struct ts_kernel_scratch *scratch, TS_REAL *out)
{
    uint32_t col = 0;
    for (; col + 4 * TS_LANES <= job->stride; col += 4 * TS_LANES)
        NAME(expand_columns)(job, b, 4, col, scratch, out);
    if (job->stride - col >= 2 * TS_LANES) {
        NAME(expand_columns)(job, b, 2, col, scratch, out);
        col += 2 * TS_LANES;
    }
    for (; col < job->stride; col += TS_LANES)
        NAME(expand_columns)(job, b, 1, col, scratch, out);
}

/* to(i, :) := sum(i) for n vectors i; with `more`, += instead */
INLINE void NAME(put_sums)(const VEC *sum, uint32_t n, SUMS *to, size_t next, int more)
{
    TS_EACH(i, n) {
        const SUMS old = more ? to[i * next] : (SUMS){ 0 };
        to[i * next] = old + __builtin_convertvector(sum[i], SUMS);
    }
}

/* s(i0 .. i0 + rows - 1, vectors v .. v + n_vec - 1) := the sums of p p' over n positions, where p
 * is the row product (of the other factors' rows) at a position. If m is not NULL, it gets the sums
 * of values times p, whose additions alternate with those of s. With `more`, both are added to. */
INLINE void NAME(tile)(const TS_REAL *product, size_t stride, const TS_REAL *value,
                       const uint16_t *at, uint32_t n, size_t i0, size_t v, uint32_t n_vec,
                       double *s, double *m, int more)
{
    VEC sum[2][TS_TILE_ROWS], right[2];
    TS_EACH(i, TS_TILE_ROWS)
        TS_EACH(w, n_vec)
            sum[w][i] = right[w] = (VEC){ 0 };
    for (uint32_t k = 0; k < n; k++) {
        const TS_REAL *row = product + at[k] * stride, *by = row + i0;
        VEC x[2];
        /* keeps one base register, because there are too few for one per i */
        __asm__("" : "+r"(by));
        TS_EACH(w, n_vec)
            x[w] = ((const VEC *)row + v)[w];
        TS_EACH(i, TS_TILE_ROWS)
            TS_EACH(w, n_vec)
                sum[w][i] += by[i] * x[w];
        if (m != NULL)
            TS_EACH(w, n_vec)
                right[w] += value[at[k]] * x[w];
    }
    TS_EACH(w, n_vec)
        NAME(put_sums)
    (sum[w], TS_TILE_ROWS, (SUMS *)(s + i0 * stride) + v + w, stride / TS_LANES, more);
    if (m != NULL)
        TS_EACH(w, n_vec)
            NAME(put_sums)(&right[w], 1, (SUMS *)m + v + w, 1, more);
}

/* Computes the tiles of rows i0 .. i0 + TS_TILE_ROWS - 1 and vectors v .. end - 1. */
INLINE void NAME(tiles)(const struct ts_gram *g, const TS_REAL *product, const TS_REAL *value,
                        const uint16_t *at, uint32_t n, size_t i0, size_t v, size_t end, double *m)
{
    for (; v + 2 <= end; v += 2)
        NAME(tile)(product, g->stride, value, at, n, i0, v, 2, g->s, m, g->more);
    if (v < end)
        NAME(tile)(product, g->stride, value, at, n, i0, v, 1, g->s, m, g->more);
}

#ifdef TS_TURN
/* Computes the block of s at the diagonal, for vector v: sums of x(j) x((j + d) % TS_LANES) for d =
 * 0 .. TS_LANES / 2, where x is that vector of a row product (of the other factors' rows). This has
 * each entry of the symmetric block once; products with single entries would have each twice. Also
 * sums m and, with `beside`, half of the block that combines vectors v and v + 1 (v even):
 * TS_TILE_ROWS rows from i0 on. Each kind has enough sums to alternate additions. */
_Static_assert(TS_LANES == 16 && TS_TILE_ROWS == 8, "as it is written");
INLINE void NAME(turned)(const struct ts_gram *g, const TS_REAL *product, const TS_REAL *value,
                         const uint16_t *at, uint32_t n, size_t v, int beside)
{
    const size_t next = g->stride / TS_LANES, i0 = v * TS_LANES - v % 2 * (TS_LANES - TS_TILE_ROWS);
    VEC turned[TS_LANES / 2 + 1], sum[TS_TILE_ROWS], right = { 0 };
    TS_UNROLL
    for (uint32_t d = 0; d <= TS_LANES / 2; d++)
        turned[d] = (VEC){ 0 };
    TS_EACH(i, TS_TILE_ROWS)
        sum[i] = (VEC){ 0 };
    for (uint32_t k = 0; k < n; k++) {
        const TS_REAL *row = product + at[k] * g->stride, *by = row + i0;
        const VEC x = ((const VEC *)row)[v], y = beside ? ((const VEC *)row)[v | 1] : x;
        __asm__("" : "+r"(by));
        turned[0] += x * x;
        turned[1] += x * TS_TURN(x, 1);
        turned[2] += x * TS_TURN(x, 2);
        turned[3] += x * TS_TURN(x, 3);
        turned[4] += x * TS_TURN(x, 4);
        turned[5] += x * TS_TURN(x, 5);
        turned[6] += x * TS_TURN(x, 6);
        turned[7] += x * TS_TURN(x, 7);
        turned[8] += x * TS_TURN(x, 8);
        right += value[at[k]] * x;
        if (beside)
            TS_EACH(i, TS_TILE_ROWS)
                sum[i] += by[i] * y;
    }
    NAME(put_sums)
    (turned, TS_LANES / 2 + 1, (SUMS *)(g->s + v * TS_LANES * g->stride) + v, next, g->more);
    NAME(put_sums)(&right, 1, (SUMS *)g->m + v, 1, g->more);
    if (beside)
        NAME(put_sums)(sum, TS_TILE_ROWS, (SUMS *)(g->s + i0 * g->stride) + (v | 1), next, g->more);
}

static void NAME(add_products)(const struct ts_gram *g, const TS_REAL *product,
                               const TS_REAL *value, const uint16_t *at, uint32_t n)
{
    const size_t n_vec = g->stride / TS_LANES;
    for (size_t v = 0; v < n_vec; v += 2) {
        const size_t end = v + 2 <= n_vec ? v + 2 : n_vec;
        if (v + 2 <= n_vec) {
            NAME(turned)(g, product, value, at, n, v, 1);
            NAME(turned)(g, product, value, at, n, v + 1, 1);
        } else {
            NAME(turned)(g, product, value, at, n, v, 0);
        }
        for (size_t i0 = 0; i0 < v * TS_LANES; i0 += TS_TILE_ROWS)
            NAME(tiles)(g, product, value, at, n, i0, v, end, NULL);
    }
}
#define TURNED TS_LANES
#else
static void NAME(add_products)(const struct ts_gram *g, const TS_REAL *product,
                               const TS_REAL *value, const uint16_t *at, uint32_t n)
{
    const size_t n_vec = g->stride / TS_LANES;
    NAME(tiles)(g, product, value, at, n, 0, 0, n_vec, g->m);
    for (size_t i0 = TS_TILE_ROWS; i0 < g->rank; i0 += TS_TILE_ROWS)
        NAME(tiles)(g, product, value, at, n, i0, i0 / TS_LANES, n_vec, NULL);
}
#define TURNED 0
#endif

/* Replaces the upper triangle of S by U with U' U = S, then sets m := U'^-1 m and a := U^-1 m. A
 * column that depends on those before it, to rounding, gets 0 in a. */
static void NAME(solve)(const struct ts_gram *g, double *restrict s,
                        const double *restrict diagonal, double cut, double *restrict a)
{
    const uint32_t n = g->rank, n_vec = g->stride / TS_LANES;
    for (uint32_t i = 0; i < n; i++)
        a[i] = g->m[i];
    for (uint32_t k = 0; k < n; k++) {
        double *row = s + (size_t)k * g->stride;
        const double pivot = row[k];
        const double by = pivot > cut * diagonal[k] ? 1 / sqrt(pivot) : 0;
        for (uint32_t v = k / TS_LANES; v < n_vec; v++)
            ((SUMS *)row)[v] *= by;
        row[k] = by; /* stored: the inverse of the diagonal entry */
        a[k] *= by;
        for (uint32_t i = k + 1; i < n; i++) {
            SUMS *to = (SUMS *)(s + (size_t)i * g->stride);
            const double f = row[i];
            for (uint32_t v = i / TS_LANES; v < n_vec; v++)
                to[v] -= f * ((const SUMS *)row)[v];
            a[i] -= f * a[k];
        }
    }
    for (uint32_t k = n;
         /* terms with a[k] are subtracted at once, instead of one long sum for each i */
         k-- > 0;) {
        a[k] *= s[(size_t)k * g->stride + k];
        for (uint32_t i = 0; i < k; i++)
            a[i] -= s[(size_t)i * g->stride + k] * a[k];
    }
}

static void NAME(add_nonzeros)(const struct ts_gram *g, const void *product,
                               const struct ts_unpacked *b, const uint16_t *at, uint32_t n)
{
    NAME(add_products)(g, product, (const TS_REAL *)&b->value, at, n);
}

static void NAME(multiply_rows)(uint32_t stride, const void *const *left, const void *const *right,
                                uint32_t n, void *out)
{
    const size_t n_vec = stride / TS_LANES;
    VEC *to = out;
    for (uint32_t k = 0; k < n; k++, to += n_vec) {
        const VEC *a = left[k], *b = right[k];
        for (size_t v = 0; v < n_vec; v++)
            to[v] = a[v] * b[v];
    }
}

static void NAME(gram_pass)(const struct ts_kernel_job *job, const struct ts_kernel_input *in,
                            struct ts_kernel_scratch *scratch, void *product, ts_gram_take *take,
                            void *ctx)
{
    const uint32_t first = in->partition * TS_PARTITION_BLOCKS;
    const uint32_t n_blocks = in->entry->n_blocks;
    const uint32_t end =
        first + TS_PARTITION_BLOCKS < n_blocks ? first + TS_PARTITION_BLOCKS : n_blocks;
    struct ts_unpacked *b = &scratch->block[0], *next = &scratch->block[1], *t;
    const void *plain = in->plain;
    NAME(load)(job, in, first, &plain, b);
    for (uint32_t k = first; k < end; k++, t = b, b = next, next = t) {
        if (k + 1 < end)
            NAME(load)(job, in, k + 1, &plain, next);
        NAME(append)(job, k + 1 < end ? next : b, b);
        NAME(expand)(job, b, scratch, product);
        take(ctx, b);
    }
}

static const struct ts_gram_ops NAME(gram_ops) = { NAME(gram_pass), NAME(add_nonzeros),
                                                   NAME(solve),     NAME(multiply_rows),
                                                   TURNED,          NAME(cross),
                                                   NAME(combine) };
#undef TURNED
