/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_gemm_body.h - text of the tile product, to be included with TS_REAL, TS_LANES, TS_TILE_ROWS and TS_GEMM_NAME, which
 * it undefines all but TS_TILE_ROWS. The sums of a tile stay in registers: TS_TILE_ROWS rows of two vectors. */

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define V           JOIN(TS_GEMM_NAME, _vector)
#define COLS        (2 * TS_LANES)

typedef TS_REAL V
    __attribute__((vector_size(TS_LANES * sizeof(TS_REAL)), aligned(sizeof(TS_REAL)), may_alias));

/* ahead: of cells that are wanted later, one line for each p. */
#define TILE(AT)                                                    \
    const TS_REAL *b = b_;                                          \
    V sum[TS_TILE_ROWS][2] = { { { 0 } } };                         \
    for (uint32_t p = 0; p < k; p++, b += COLS) {                   \
        const V left = *(const V *)b;                               \
        const V right = *(const V *)(b + TS_LANES);                 \
        __builtin_prefetch((const void *)(ahead + p * step), 0, 2); \
        TS_UNROLL                                                   \
        for (uint32_t i = 0; i < TS_TILE_ROWS; i++) {               \
            const TS_REAL x = AT;                                   \
            sum[i][0] += x * left;                                  \
            sum[i][1] += x * right;                                 \
        }                                                           \
    }                                                               \
    TS_UNROLL                                                       \
    for (uint32_t i = 0; i < TS_TILE_ROWS; i++) {                   \
        *(V *)((TS_REAL *)out + i * COLS) = sum[i][0];              \
        *(V *)((TS_REAL *)out + i * COLS + TS_LANES) = sum[i][1];   \
    }

_Static_assert(TS_TILE_ROWS % 3 == 0, "rows go by three");

/* Of three rows each a pointer: with the stride and twice that they are addresses of all. */
static void JOIN(TS_GEMM_NAME, _along)(uint32_t k, const void *a_, size_t stride, const void *b_,
                                       void *out, uintptr_t ahead, size_t step)
{
    const TS_REAL *a[TS_TILE_ROWS / 3];
    TS_UNROLL
    for (uint32_t i = 0; i < TS_TILE_ROWS / 3; i++)
        a[i] = (const TS_REAL *)a_ + 3 * i * stride;
    TILE((a[i / 3])[i % 3 * stride + p])
}

static void JOIN(TS_GEMM_NAME, _across)(uint32_t k, const void *a_, size_t stride, const void *b_,
                                        void *out, uintptr_t ahead, size_t step)
{
    const TS_REAL *a = a_;
    TILE(a[(size_t)p * stride + i])
}

const struct ts_gemm TS_GEMM_NAME = { .rows = TS_TILE_ROWS,
                                      .cols = COLS,
                                      .along = JOIN(TS_GEMM_NAME, _along),
                                      .across = JOIN(TS_GEMM_NAME, _across) };

#undef TILE
#undef COLS
#undef V
#undef JOIN
#undef JOIN2
#undef TS_REAL
#undef TS_LANES
#undef TS_GEMM_NAME
