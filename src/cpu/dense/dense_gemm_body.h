/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_gemm_body.h - the functions of dense_gemm.h, which multiply a tile of A by a panel of B. It
 * is included with TS_REAL, TS_LANES, TS_TILE_ROWS and TS_GEMM_NAME, and undefines all of these
 * except TS_TILE_ROWS. The sums of a tile stay in registers: TS_TILE_ROWS rows of one vector or
 * two. */

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define V           JOIN(TS_GEMM_NAME, _vector)

typedef TS_REAL V
    __attribute__((vector_size(TS_LANES * sizeof(TS_REAL)), aligned(sizeof(TS_REAL)), may_alias));

#define TILE(VECTORS, AT)                                                   \
    const TS_REAL *b = b_;                                                  \
    V sum[TS_TILE_ROWS][VECTORS] = { { { 0 } } };                           \
    for (uint32_t p = 0; p < k;) {                                          \
        const uint32_t end = k - p < TS_GEMM_BLOCK ? k : p + TS_GEMM_BLOCK; \
        uintptr_t near = ahead->at + p / TS_GEMM_BLOCK * ahead->hop;        \
        uintptr_t far = near + ahead->beside;                               \
        for (; p < end; p++, b += (VECTORS)*TS_LANES) {                     \
            V x[VECTORS];                                                   \
            TS_EACH(v, VECTORS)                                             \
                x[v] = *(const V *)(b + v * TS_LANES);                      \
            __builtin_prefetch((const void *)near, 0, 2);                   \
            __builtin_prefetch((const void *)far, 0, 2);                    \
            near += ahead->step;                                            \
            far += ahead->step;                                             \
            TS_EACH(i, TS_TILE_ROWS) {                                      \
                const TS_REAL y = AT;                                       \
                TS_EACH(v, VECTORS)                                         \
                    sum[i][v] += y * x[v];                                  \
            }                                                               \
        }                                                                   \
    }

/* Stores or adds a tile to rows of out, in the precision of the product. */
#define PUT_ALONG(VECTORS)                                       \
    TS_EACH(i, TS_TILE_ROWS) {                                   \
        V *to = (V *)((TS_REAL *)out + i * out_stride);          \
        TS_EACH(v, VECTORS)                                      \
            to[v] = add ? (V)(to[v] + sum[i][v]) : (V)sum[i][v]; \
    }

/* Stores or adds a tile to rows of out in float64. */
#define PUT_ACROSS(VECTORS)                                          \
    TS_EACH(i, TS_TILE_ROWS) {                                       \
        TS_REAL from[(VECTORS)*TS_LANES];                            \
        double *to = (double *)out + i * out_stride;                 \
        TS_EACH(v, VECTORS)                                          \
            *(V *)(from + v * TS_LANES) = sum[i][v];                 \
        for (uint32_t j = 0; j < (VECTORS)*TS_LANES; j++)            \
            to[j] = add ? to[j] + (double)from[j] : (double)from[j]; \
    }

_Static_assert(TS_TILE_ROWS % 3 == 0, "rows go by three");
_Static_assert(2 * TS_TILE_ROWS * TS_LANES <= TS_GEMM_MOST, "the largest tile");

/* Keeps one pointer for every three rows of A, whose addresses are the pointer plus 0, 1 and 2
 * strides. */
#define ALONG(NAME, VECTORS)                                                               \
    static void NAME(uint32_t k, const void *a_, size_t stride, const void *b_, void *out, \
                     size_t out_stride, int add, const struct ts_gemm_ahead *ahead)        \
    {                                                                                      \
        const TS_REAL *a[TS_TILE_ROWS / 3];                                                \
        TS_EACH(i, TS_TILE_ROWS / 3)                                                       \
            a[i] = (const TS_REAL *)a_ + 3 * i * stride;                                   \
        TILE(VECTORS, (a[i / 3])[i % 3 * stride + p])                                      \
        PUT_ALONG(VECTORS)                                                                 \
    }

#define ACROSS(NAME, VECTORS)                                                              \
    static void NAME(uint32_t k, const void *a_, size_t stride, const void *b_, void *out, \
                     size_t out_stride, int add, const struct ts_gemm_ahead *ahead)        \
    {                                                                                      \
        const TS_REAL *a = a_;                                                             \
        TILE(VECTORS, a[(size_t)p * stride + i])                                           \
        PUT_ACROSS(VECTORS)                                                                \
    }

ALONG(JOIN(TS_GEMM_NAME, _along1), 1)
ALONG(JOIN(TS_GEMM_NAME, _along2), 2)
ACROSS(JOIN(TS_GEMM_NAME, _across1), 1)
ACROSS(JOIN(TS_GEMM_NAME, _across2), 2)

/* Sums panels of two vectors of columns. N sums alternate, because an addition must wait for the
 * result of the previous one. */
#define ROW(N)                                                           \
    for (; n >= (N); n -= (N), b += (N)*panel, to += 2 * (N)*TS_LANES) { \
        V sum[N][2] = { { { 0 } } };                                     \
        for (uint32_t p = 0; p < k; p++) {                               \
            const TS_REAL y = a[p];                                      \
            const TS_REAL *x = b + (size_t)p * 2 * TS_LANES;             \
            TS_EACH(i, N) {                                              \
                sum[i][0] += y * *(const V *)(x + i * panel);            \
                sum[i][1] += y * *(const V *)(x + i * panel + TS_LANES); \
            }                                                            \
        }                                                                \
        TS_EACH(i, N) {                                                  \
            *(V *)(to + 2 * i * TS_LANES) = sum[i][0];                   \
            *(V *)(to + (2 * i + 1) * TS_LANES) = sum[i][1];             \
        }                                                                \
    }

static void JOIN(TS_GEMM_NAME, _row)(uint32_t k, const void *a_, const void *b_, uint32_t n,
                                     void *out)
{
    const TS_REAL *a = a_, *b = b_;
    const size_t panel = (size_t)k * 2 * TS_LANES;
    TS_REAL *to = out;
    ROW(4)
    ROW(1)
}

const struct ts_gemm TS_GEMM_NAME = {
    .rows = TS_TILE_ROWS,
    .lanes = TS_LANES,
    .along = { JOIN(TS_GEMM_NAME, _along1), JOIN(TS_GEMM_NAME, _along2) },
    .across = { JOIN(TS_GEMM_NAME, _across1), JOIN(TS_GEMM_NAME, _across2) },
    .row = JOIN(TS_GEMM_NAME, _row),
};

#undef ROW
#undef ALONG
#undef ACROSS
#undef PUT_ALONG
#undef PUT_ACROSS
#undef TILE
#undef V
#undef JOIN
#undef JOIN2
#undef TS_REAL
#undef TS_LANES
#undef TS_GEMM_NAME
