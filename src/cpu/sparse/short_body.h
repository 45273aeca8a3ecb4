/* SPDX-License-Identifier: BSD-3-Clause */
/* short_body.h - rows of few nonzeros (struct ts_gram_ops), once for each instruction set and
 * precision. Computes K = P P' and the row P' y, where row k of P is the product of the other
 * factors' rows at nonzero k. kernel_body.h includes it.
 *
 * An entry of K is a sum across the lanes of a vector. Four such sums are computed together: three
 * additions of shuffled vectors leave one vector, whose quarters are then added.
 */
#if defined(TS_HAS_SHUFFLE) && TS_LANES == 16
#define ZIP_LOW(a, b) \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define ZIP_HIGH(a, b) \
    __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define PAIR_LOW(a, b) \
    __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define PAIR_HIGH(a, b) \
    __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#elif defined(TS_HAS_SHUFFLE) && TS_LANES == 8
#define ZIP_LOW(a, b)   __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define ZIP_HIGH(a, b)  __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define PAIR_LOW(a, b)  __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define PAIR_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#elif defined(TS_HAS_SHUFFLE) && TS_LANES == 4
#define ZIP_LOW(a, b)   __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b)  __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define PAIR_LOW(a, b)  __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define PAIR_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#endif

/* to[i] := the sum of the lanes of x[i], for i = 0 .. 3 */
INLINE void NAME(sum_lanes)(const VEC *x, double *to)
{
#ifdef ZIP_LOW
    typedef double four __attribute__((vector_size(4 * sizeof(double))));
    const VEC one = ZIP_LOW(x[0], x[1]) + ZIP_HIGH(x[0], x[1]);
    const VEC two = ZIP_LOW(x[2], x[3]) + ZIP_HIGH(x[2], x[3]);
    const FOLDED sum = NAME(fold)(PAIR_LOW(one, two) + PAIR_HIGH(one, two));
    *(four *)to = __builtin_convertvector(sum, four);
#else
    for (uint32_t i = 0; i < 4; i++) {
        const FOLDED sum = NAME(fold)(x[i]);
        to[i] = 0;
        for (uint32_t l = 0; l < FOLD; l++)
            to[i] += (double)sum[l];
    }
#endif
}

/* to[i] := the dot product of left[i] and right[i], for i < n, and 0 for i from n to 3. */
INLINE void NAME(dot_rows)(const VEC *const *left, const VEC *const *right, uint32_t n,
                           uint32_t n_vec, double *to)
{
    VEC sum[4];
    TS_EACH(i, 4)
        sum[i] = i < n ? left[i][0] * right[i][0] : (VEC){ 0 };
    for (uint32_t v = 1; v < n_vec; v++) {
        TS_EACH(i, 4)
            if (i < n)
                sum[i] += left[i][v] * right[i][v];
    }
    NAME(sum_lanes)(sum, to);
}

/* Computes a tile of K (dot products of rows of P) at the diagonal, for n rows. */
INLINE void NAME(cross_triangle)(const VEC *const *row, uint32_t n, uint32_t n_vec, double *to)
{
    static const uint8_t left[] = { 0, 0, 1, 0, 1, 2, 0, 1, 2, 3, 3, 3 };
    static const uint8_t right[] = { 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3 };
    const uint32_t entries = n * (n + 1) / 2;
    TS_UNROLL
    for (uint32_t e = 0; e < 12; e += 4) {
        const VEC *a[4], *b[4];
        if (e >= entries)
            break;
        TS_EACH(i, 4) {
            a[i] = row[left[e + i]];
            b[i] = row[right[e + i]];
        }
        NAME(dot_rows)(a, b, entries - e < 4 ? entries - e : 4, n_vec, to + e);
    }
}

INLINE void NAME(cross_tile)(const VEC *const *left, const VEC *const *right, uint32_t n,
                             uint32_t n_vec, double *to)
{
    for (uint32_t j = 0; j < n; j++) {
        const VEC *same[4] = { right[j], right[j], right[j], right[j] };
        NAME(dot_rows)(left, same, 4, n_vec, to + j * 4);
    }
}

INLINE void NAME(cross_rows)(const VEC *const *row, uint32_t n, uint32_t n_vec, double *k)
{
    for (uint32_t p = 0; p < n; p += TS_GRAM_SIDE) {
        const uint32_t more = n - p < TS_GRAM_SIDE ? n - p : TS_GRAM_SIDE;
        if (more < TS_GRAM_SIDE)
            memset(k, 0, (p / TS_GRAM_SIDE + 1) * TS_GRAM_TILE * sizeof *k);
        for (uint32_t q = 0; q < p; q += TS_GRAM_SIDE, k += TS_GRAM_TILE)
            NAME(cross_tile)(row + q, row + p, more, n_vec, k);
        switch (more) {
        case 1:
            NAME(cross_triangle)(row + p, 1, n_vec, k);
            break;
        case 2:
            NAME(cross_triangle)(row + p, 2, n_vec, k);
            break;
        case 3:
            NAME(cross_triangle)(row + p, 3, n_vec, k);
            break;
        default:
            NAME(cross_triangle)(row + p, 4, n_vec, k);
        }
        k += TS_GRAM_TILE;
    }
}

static void NAME(cross)(uint32_t stride, const void *product, const struct ts_unpacked *b,
                        const uint16_t *at, uint32_t n, double *k, double *m)
{
    const TS_REAL *value = (const TS_REAL *)&b->value;
    const VEC *row[TS_GRAM_SHORT];
    for (uint32_t i = 0; i < n; i++) {
        row[i] = (const VEC *)((const TS_REAL *)product + (size_t)at[i] * stride);
        m[i] = (double)value[at[i]];
    }
    switch (stride / TS_LANES) {
    case 1:
        NAME(cross_rows)(row, n, 1, k);
        break;
    case 2:
        NAME(cross_rows)(row, n, 2, k);
        break;
    case 4:
        NAME(cross_rows)(row, n, 4, k);
        break;
    default:
        NAME(cross_rows)(row, n, stride / TS_LANES, k);
    }
}

/* Computes n_vec vectors of columns of P' y (the sum of entries of y times rows of P), from `first`
 * on. */
INLINE void NAME(combine_columns)(uint32_t stride, const TS_REAL *first, const uint16_t *at,
                                  uint32_t n, const double *y, uint32_t step, uint32_t n_vec,
                                  VEC *out, SUMS *squares)
{
    VEC sum[4];
    TS_EACH(v, n_vec)
        sum[v] = (VEC){ 0 };
    for (uint32_t k = 0; k < n; k++) {
        const VEC *row = (const VEC *)(first + (size_t)at[k] * stride);
        const TS_REAL by = (TS_REAL)y[(size_t)k * step];
        TS_EACH(v, n_vec)
            sum[v] += by * row[v];
    }
    TS_EACH(v, n_vec) {
        const SUMS x = __builtin_convertvector(sum[v], SUMS);
        out[v] = sum[v];
        *squares += x * x;
    }
}

static double NAME(combine)(uint32_t stride, const void *product, const uint16_t *at, uint32_t n,
                            const double *y, uint32_t step, void *out)
{
    const TS_REAL *from = product;
    TS_REAL *to = out;
    SUMS squares = { 0 };
    double sum = 0;
    uint32_t c = 0;
    for (; c + 4 * TS_LANES <= stride; c += 4 * TS_LANES)
        NAME(combine_columns)(stride, from + c, at, n, y, step, 4, (VEC *)(to + c), &squares);
    if (stride - c >= 2 * TS_LANES) {
        NAME(combine_columns)(stride, from + c, at, n, y, step, 2, (VEC *)(to + c), &squares);
        c += 2 * TS_LANES;
    }
    for (; c < stride; c += TS_LANES)
        NAME(combine_columns)(stride, from + c, at, n, y, step, 1, (VEC *)(to + c), &squares);
    for (uint32_t l = 0; l < TS_LANES; l++)
        sum += squares[l];
    return sum;
}

#undef ZIP_LOW
#undef ZIP_HIGH
#undef PAIR_LOW
#undef PAIR_HIGH
