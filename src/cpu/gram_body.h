/* SPDX-License-Identifier: BSD-3-Clause */
/* gram_body.h - what rows with a Gram matrix of their own take, once for each instruction set and precision:
 * the products at the positions of a block, their sums, and the solution of a row. Included by kernel_body.h, with TS_TILE_ROWS
 * defined: 4, or 8 where strides are multiples of it.
 *
 * Products are in the precision of the rows. Those of a row in a block are multiplied with each other in tiles of TS_TILE_ROWS
 * columns by two vectors, at most TS_BLOCK_NNZ of them, and then added in float64; so is what is solved. An addition into a vector waits
 * some four cycles for the one before, and two vectors are added into at a time: a tile has eight vectors, or sixteen where there are 32 registers.
 */

INLINE void NAME(expand_rows)(const struct ts_unpacked *b, const struct NAME(operands) * x,
                              uint32_t n_vec, uint64_t stride, TS_REAL *out)
{
    VEC term[4];
    for (size_t p = 0; p < b->n; p++, out += stride) {
        NAME(fetch)(x, n_vec, p);
        NAME(multiply)(x, n_vec, p, term);
        TS_UNROLL
        for (uint32_t v = 0; v < n_vec; v++)
            ((VEC *)out)[v] = term[v];
    }
}

/* The products of n_vec vectors of columns from col on, of all positions of a block. */
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

/* s(i0 .. i0 + rows - 1, vectors v .. v + n_vec - 1) += products of products; m likewise += values times products, where it is not
 * NULL: their additions take turns with the others. */
INLINE void NAME(tile)(const TS_REAL *product, size_t stride, const TS_REAL *value,
                       const uint16_t *at, uint32_t n, size_t i0, size_t v, uint32_t n_vec,
                       double *s, double *m)
{
    VEC sum[TS_TILE_ROWS][2], right[2];
    SUMS *to = (SUMS *)(s + i0 * stride) + v;
    const size_t next = stride / TS_LANES;
    TS_UNROLL
    for (uint32_t i = 0; i < TS_TILE_ROWS; i++)
        TS_UNROLL
    for (uint32_t w = 0; w < n_vec; w++)
        sum[i][w] = right[w] = (VEC){ 0 };
    for (uint32_t k = 0; k < n; k++) {
        const TS_REAL *row = product + at[k] * stride, *by = row + i0;
        VEC x[2];
        __asm__("" : "+r"(by)); /* one register, and not one for each i: there are not so many */
        TS_UNROLL
        for (uint32_t w = 0; w < n_vec; w++)
            x[w] = ((const VEC *)row + v)[w];
        TS_UNROLL
        for (uint32_t i = 0; i < TS_TILE_ROWS; i++)
            TS_UNROLL
        for (uint32_t w = 0; w < n_vec; w++)
            sum[i][w] += by[i] * x[w];
        if (m != NULL)
            TS_UNROLL
        for (uint32_t w = 0; w < n_vec; w++)
            right[w] += value[at[k]] * x[w];
    }
    TS_UNROLL
    for (uint32_t i = 0; i < TS_TILE_ROWS; i++)
        TS_UNROLL
    for (uint32_t w = 0; w < n_vec; w++)
        to[i * next + w] += __builtin_convertvector(sum[i][w], SUMS);
    if (m != NULL)
        TS_UNROLL
    for (uint32_t w = 0; w < n_vec; w++)
        ((SUMS *)m + v)[w] += __builtin_convertvector(right[w], SUMS);
}

static void NAME(add_products)(const struct ts_gram *g, const TS_REAL *product,
                               const TS_REAL *value, const uint16_t *at, uint32_t n)
{
    const size_t n_vec = g->stride / TS_LANES;
    size_t v = 0;
    for (; v + 2 <= n_vec; v += 2)
        NAME(tile)(product, g->stride, value, at, n, 0, v, 2, g->s, g->m);
    if (v < n_vec)
        NAME(tile)(product, g->stride, value, at, n, 0, v, 1, g->s, g->m);
    for (size_t i0 = TS_TILE_ROWS; i0 < g->rank; i0 += TS_TILE_ROWS) {
        for (v = i0 / TS_LANES; v + 2 <= n_vec; v += 2)
            NAME(tile)(product, g->stride, value, at, n, i0, v, 2, g->s, NULL);
        if (v < n_vec)
            NAME(tile)(product, g->stride, value, at, n, i0, v, 1, g->s, NULL);
    }
}

/* U' U = S in place of S's upper triangle; m := U'^-1 m, then a := U^-1 m. A column that depends on those before it,
 * by rounding or less, gets 0. */
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
        row[k] = by; /* the inverse of the diagonal */
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
         k-- > 0;) { /* what waits for a[k] is subtracted at once, not in one long sum for each */
        a[k] *= s[(size_t)k * g->stride + k];
        for (uint32_t i = 0; i < k; i++)
            a[i] -= s[(size_t)i * g->stride + k] * a[k];
    }
}

static void NAME(add)(const struct ts_gram *g, const void *product, const struct ts_unpacked *b,
                      const uint16_t *at, uint32_t n)
{
    NAME(add_products)(g, product, (const TS_REAL *)&b->value, at, n);
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

const struct ts_gram_ops TS_GRAM_NAME = { NAME(gram_pass), NAME(add), NAME(solve) };
