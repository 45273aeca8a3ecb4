/* SPDX-License-Identifier: BSD-3-Clause */
/* rowblock_body.h - rowblock.h, once for each instruction set.
 *
 * Included by rowblock_ISA.c with TS_LANES (float64 in a vector), TS_TILE_ROWS, TS_TILE_VECS and
 * TS_OPS_NAME defined. A tile of TS_TILE_ROWS x TS_TILE_VECS vectors of the result stays in
 * registers: it must be large enough to hide the latency of FMA (4 cycles, 2 a cycle: 8 vectors). */
typedef double vec __attribute__((vector_size(TS_LANES * sizeof(double))));
typedef float vec_f32 __attribute__((vector_size(TS_LANES * sizeof(float))));

#define VECS_8 (8 / TS_LANES) /* vectors in 8 columns */

/* c(i, :) = (or +=) sum over k of a(i, k) * b(k, :), n_vec vectors of columns. a(i, k) is at
 * i * a_row + k * a_col. */
static inline __attribute__((always_inline)) void tile(uint32_t n_k, const double *a, size_t a_row,
                                                       size_t a_col, const double *b, size_t stride,
                                                       double *c, uint32_t n_vec, int add)
{
    vec sum[TS_TILE_ROWS][TS_TILE_VECS];
    TS_UNROLL
    for (uint32_t i = 0; i < TS_TILE_ROWS; i++) {
        TS_UNROLL
        for (uint32_t v = 0; v < n_vec; v++)
            sum[i][v] = add ? ((const vec *)(c + i * stride))[v] : (vec){ 0 };
    }
    for (uint32_t k = 0; k < n_k; k++) {
        vec row[TS_TILE_VECS];
        TS_UNROLL
        for (uint32_t v = 0; v < n_vec; v++)
            row[v] = ((const vec *)(b + k * stride))[v];
        TS_UNROLL
        for (uint32_t i = 0; i < TS_TILE_ROWS; i++) {
            const double s = a[i * a_row + k * a_col];
            TS_UNROLL
            for (uint32_t v = 0; v < n_vec; v++)
                sum[i][v] += row[v] * s;
        }
    }
    TS_UNROLL
    for (uint32_t i = 0; i < TS_TILE_ROWS; i++) {
        TS_UNROLL
        for (uint32_t v = 0; v < n_vec; v++)
            ((vec *)(c + i * stride))[v] = sum[i][v];
    }
}

/* m := rows of f as float64, with their rest; zero rows up to a whole tile */
static void load_rows(const struct ts_fmat *f, uint64_t row, uint32_t n, uint32_t n_tiled,
                      uint32_t padded, double *m)
{
    for (uint32_t i = 0; i < n; i++, m += padded) {
        const uint64_t at = (row + i) * f->stride;
        for (uint32_t r = 0; r < padded; r += TS_LANES)
            *(vec *)(m + r) = f->precision == TS_FLOAT64
                                  ? *(const vec *)((const double *)f->data + at + r)
                                  : __builtin_convertvector(
                                        *(const vec_f32 *)((const float *)f->data + at + r), vec);
        for (uint32_t r = 0; f->rest != NULL && r < padded; r += TS_LANES)
            *(vec *)(m + r) += __builtin_convertvector(*(const vec_f32 *)(f->rest + at + r), vec);
    }
    memset(m, 0, (n_tiled - n) * (size_t)padded * sizeof *m);
}

/* Rows of f := a, and a := those rows: what was lost in rounding is lost in gram too. */
static void store_rows(struct ts_fmat *f, uint64_t row, uint32_t n, uint32_t padded, double *a)
{
    for (uint32_t i = 0; i < n; i++, a += padded) {
        const uint64_t at = (row + i) * f->stride;
        for (uint32_t r = 0; r < padded; r += TS_LANES) {
            const vec v = *(vec *)(a + r);
            if (f->precision == TS_FLOAT64) {
                *(vec *)((double *)f->data + at + r) = v;
            } else {
                const vec_f32 rounded = __builtin_convertvector(v, vec_f32);
                *(vec_f32 *)((float *)f->data + at + r) = rounded;
                *(vec *)(a + r) = __builtin_convertvector(rounded, vec);
            }
        }
    }
}

/* a := m * w; n is a multiple of TS_TILE_ROWS */
static void multiply(uint32_t n, uint32_t rank, uint32_t padded, const double *m, const double *w,
                     double *a)
{
    uint32_t r = 0;
    for (; r + TS_TILE_VECS * TS_LANES <= padded; r += TS_TILE_VECS * TS_LANES)
        for (uint32_t i = 0; i < n; i += TS_TILE_ROWS)
            tile(rank, m + (size_t)i * padded, padded, 1, w + r, padded, a + (size_t)i * padded + r,
                 TS_TILE_VECS, 0);
    for (; r < padded; r += 8)
        for (uint32_t i = 0; i < n; i += TS_TILE_ROWS)
            tile(rank, m + (size_t)i * padded, padded, 1, w + r, padded, a + (size_t)i * padded + r,
                 VECS_8, 0);
}

static void product(struct ts_fmat *f, uint64_t row, uint32_t n, const struct ts_rowblock *b)
{
    const uint32_t n_tiled = (n + TS_TILE_ROWS - 1) / TS_TILE_ROWS * TS_TILE_ROWS;
    load_rows(f, row, n, n_tiled, b->padded, b->m);
    if (b->w == NULL)
        return;
    multiply(n_tiled, f->rank, b->padded, b->m, b->w, b->a);
    store_rows(f, row, n, b->padded, b->a);
}

static void gram(uint32_t n, uint32_t padded, const double *a, uint32_t panel, int more, double *g)
{
    const uint32_t first = panel * TS_ROWBLOCK_PANEL;
    for (uint32_t p = first; p < first + TS_ROWBLOCK_PANEL; p += TS_TILE_ROWS) {
        double *to = g + (size_t)p * padded;
        uint32_t q = first;
        for (; q + TS_TILE_VECS * TS_LANES <= padded; q += TS_TILE_VECS * TS_LANES)
            tile(n, a + p, 1, padded, a + q, padded, to + q, TS_TILE_VECS, more);
        for (; q < padded; q += 8)
            tile(n, a + p, 1, padded, a + q, padded, to + q, VECS_8, more);
    }
}

static void inner(uint32_t n, uint32_t padded, const double *m, const double *a, double *ret)
{
    vec sum[VECS_8];
    memcpy(sum, ret, sizeof sum);
    for (size_t i = 0; i < (size_t)n * padded; i += 8) {
        TS_UNROLL
        for (uint32_t v = 0; v < VECS_8; v++)
            sum[v] += ((const vec *)(m + i))[v] * ((const vec *)(a + i))[v];
    }
    memcpy(ret, sum, sizeof sum);
}

static void add(uint64_t n_x, const double *x, uint64_t step, uint32_t n, double *sum)
{
    for (uint32_t i = 0; i < n; i += 8) {
        vec s[VECS_8] = { 0 };
        for (uint64_t k = 0; k < n_x; k++) {
            TS_UNROLL
            for (uint32_t v = 0; v < VECS_8; v++)
                s[v] += ((const vec *)(x + k * step + i))[v];
        }
        memcpy(sum + i, s, sizeof s);
    }
}

/* A product with a number that is a float32 is rounded once either way: the bits are the same. */
static void scale(struct ts_fmat *f, uint64_t row, uint64_t n, const double *s, const float *narrow)
{
    for (uint64_t i = row; i < row + n; i++)
        for (uint32_t r = 0; r < f->stride; r += TS_LANES) {
            vec_f32 *at = (vec_f32 *)((float *)f->data + i * f->stride + r);
            if (f->precision == TS_FLOAT64)
                *(vec *)((double *)f->data + i * f->stride + r) *= *(const vec *)(s + r);
            else if (narrow != NULL)
                *at *= *(const vec_f32 *)(narrow + r);
            else
                *at = __builtin_convertvector(
                    __builtin_convertvector(*at, vec) * *(const vec *)(s + r), vec_f32);
        }
}

const struct ts_rowblock_ops TS_OPS_NAME = { product, gram, inner, add, scale };
