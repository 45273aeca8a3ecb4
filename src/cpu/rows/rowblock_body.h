/* SPDX-License-Identifier: BSD-3-Clause */
/* rowblock_body.h - the functions of rowblock.h, once for each instruction set.
 *
 * rowblock_ISA.c includes it with these macros defined: TS_LANES (float64 in a vector), TS_ROOT
 * (square roots of a vector), TS_LARGER (x > y ? x : y, if there is an instruction), TS_WIDEN,
 * TS_TILE_ROWS, TS_TILE_VECS and TS_OPS_NAME. A tile of TS_TILE_ROWS x TS_TILE_VECS vectors of the
 * result stays in registers. It must be large enough to hide the latency of FMA (4 cycles, 2 a
 * cycle: 8 vectors). */
typedef double vec __attribute__((vector_size(TS_LANES * sizeof(double))));
typedef float vec_f32 __attribute__((vector_size(TS_LANES * sizeof(float))));

#define VECS_8 (8 / TS_LANES) /* vectors in 8 columns */

typedef long long mask __attribute__((vector_size(TS_LANES * sizeof(double))));

static inline __attribute__((always_inline)) vec choose(mask which, vec x, vec y)
{
    return (vec)((which & (mask)x) | (~which & (mask)y));
}

#ifdef TS_LARGER
#define LARGER(x, y) TS_LARGER(x, y)
#else
#define LARGER(x, y) choose((x) > (y), x, y)
#endif

static inline __attribute__((always_inline)) vec clamp(vec x, double lower, double upper)
{
    const vec low = (vec){ 0 } + lower, high = (vec){ 0 } + upper;
    x = choose(x > low, x, low);
    return choose(x < high, x, high);
}

/* Soft thresholding: moves x towards 0 by k, but not past it. */
static inline __attribute__((always_inline)) vec soften(vec x, double k)
{
    const vec zero = { 0 }, less = x - k, more = x + k;
    return choose(less > zero, less, zero) + choose(more < zero, more, zero);
}

/* c(i, :) := the sum over k of a(i, k) * b(k, :), for n_vec vectors of columns; with `add`, +=
 * instead. a(i, k) is at i * a_row + k * a_col. */
static inline __attribute__((always_inline)) void tile(uint32_t n_k, const double *a, size_t a_row,
                                                       size_t a_col, const double *b, size_t stride,
                                                       double *c, uint32_t n_vec, int add)
{
    vec sum[TS_TILE_ROWS][TS_TILE_VECS];
    TS_EACH(i, TS_TILE_ROWS) {
        TS_EACH(v, n_vec)
            sum[i][v] = add ? ((const vec *)(c + i * stride))[v] : (vec){ 0 };
    }
    for (uint32_t k = 0; k < n_k; k++) {
        vec row[TS_TILE_VECS];
        TS_EACH(v, n_vec)
            row[v] = ((const vec *)(b + k * stride))[v];
        TS_EACH(i, TS_TILE_ROWS) {
            const double s = a[i * a_row + k * a_col];
            TS_EACH(v, n_vec)
                sum[i][v] += row[v] * s;
        }
    }
    TS_EACH(i, TS_TILE_ROWS) {
        TS_EACH(v, n_vec)
            ((vec *)(c + i * stride))[v] = sum[i][v];
    }
}

/* Compilers may split the vector although the machine has one instruction: then TS_WIDEN is this
 * instruction. */
static inline __attribute__((always_inline)) vec widen(vec_f32 x)
{
#ifdef TS_WIDEN
    return TS_WIDEN(x);
#else
    return __builtin_convertvector(x, vec);
#endif
}

/* m := rows of f as float64, including their `rest`, and zero rows up to a whole tile */
static void load_rows(const struct ts_fmat *f, uint64_t row, uint32_t n, uint32_t n_tiled,
                      uint32_t padded, double *m)
{
    for (uint32_t i = 0; i < n; i++, m += padded) {
        const uint64_t at = (row + i) * f->stride;
        for (uint32_t r = 0; r < padded; r += TS_LANES)
            *(vec *)(m + r) = f->precision == TS_FLOAT64
                                  ? *(const vec *)((const double *)f->data + at + r)
                                  : widen(*(const vec_f32 *)((const float *)f->data + at + r));
        for (uint32_t r = 0; f->rest != NULL && r < padded; r += TS_LANES)
            *(vec *)(m + r) += widen(*(const vec_f32 *)(f->rest + at + r));
    }
    memset(m, 0, (n_tiled - n) * (size_t)padded * sizeof *m);
}

/* Stores a in rows of f, and rounds a to what is stored: the Gram matrix must be of stored rows. */
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
                *(vec *)(a + r) = widen(rounded);
            }
        }
    }
}

/* Prefetches n rows of f from `row` on, or as many as there are. It is inlined, because compilers
 * remove calls of functions that only prefetch. */
static inline __attribute__((always_inline)) void fetch_rows(const struct ts_fmat *f, uint64_t row,
                                                             uint64_t n)
{
    const uint64_t size = f->precision == TS_FLOAT32 ? sizeof(float) : sizeof(double);
    const uint64_t left = row < f->n_rows ? f->n_rows - row : 0;
    const char *at = (const char *)f->data + row * f->stride * size;
    for (n = left < n ? left : n; n > 0; n--, at += f->stride * size)
        for (uint64_t byte = 0; byte < f->width * size; byte += 64)
            __builtin_prefetch(at + byte);
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
    /* processors do not prefetch the columns of one model among those of others by themselves */
    if (f->stride > f->width)
        fetch_rows(f, row + n, n);
    if (b->w == NULL)
        return;
    multiply(n_tiled, f->rank, b->padded, b->m, b->w, b->a);
    store_rows(f, row, n, b->padded, b->a);
}

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (mask){ __VA_ARGS__ })
#endif
#if TS_LANES == 8
#define ZIP_LOW(a, b)  SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#elif TS_LANES == 4
#define ZIP_LOW(a, b)  SHUFFLE(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#else
#define ZIP_LOW(a, b)  SHUFFLE(a, b, 0, 2)
#define ZIP_HIGH(a, b) SHUFFLE(a, b, 1, 3)
#endif

/* Interleaves the first half of x with the second half. */
static inline __attribute__((always_inline)) void zip(vec *x)
{
    vec y[TS_LANES];
    TS_EACH(i, TS_LANES / 2) {
        y[2 * i] = ZIP_LOW(x[i], x[i + TS_LANES / 2]);
        y[2 * i + 1] = ZIP_HIGH(x[i], x[i + TS_LANES / 2]);
    }
    TS_EACH(i, TS_LANES)
        x[i] = y[i];
}

/* Transposes x: x(i, j) := x(j, i). It takes a zip for each factor 2 of TS_LANES. */
static inline __attribute__((always_inline)) void transpose(vec *x)
{
    zip(x);
    if (TS_LANES > 2)
        zip(x);
    if (TS_LANES > 4)
        zip(x);
}

/* How rows of a matrix are stored: in float64, in float32, or in float32 with remainders. */
enum kept { IN_FLOAT64, IN_FLOAT32, WITH_REST };

static enum kept kept_in(const struct ts_fmat *f)
{
    return f->rest != NULL ? WITH_REST : f->precision == TS_FLOAT64 ? IN_FLOAT64 : IN_FLOAT32;
}

static inline __attribute__((always_inline)) vec load(const struct ts_fmat *f, uint64_t at,
                                                      enum kept kept)
{
    vec x;
    if (kept == IN_FLOAT64 || (kept == WITH_REST && f->precision == TS_FLOAT64))
        x = *(const vec *)((const double *)f->data + at);
    else
        x = widen(*(const vec_f32 *)((const float *)f->data + at));
    if (kept == WITH_REST)
        x += widen(*(const vec_f32 *)(f->rest + at));
    return x;
}

/* x(r, i) := weight(r) f(row + i, r) for n rows of f, and zeros for the other rows of the unit (32
 * rows). weight NULL: all 1. */
static inline __attribute__((always_inline)) void turn_rows(const struct ts_fmat *f, enum kept kept,
                                                            uint64_t row, uint32_t n,
                                                            uint32_t padded, const double *weight,
                                                            double *x)
{
    for (uint32_t i = 0; i < TS_ROWBLOCK_UNIT; i += TS_LANES)
        for (uint32_t r = 0; r < padded; r += TS_LANES) {
            vec block[TS_LANES];
            TS_EACH(k, TS_LANES) {
                block[k] = i + k < n ? load(f, (row + i + k) * f->stride + r, kept) : (vec){ 0 };
                if (weight != NULL)
                    block[k] *= *(const vec *)(weight + r);
            }
            transpose(block);
            TS_EACH(k, TS_LANES)
                *(vec *)(x + (r + k) * TS_ROWBLOCK_UNIT + i) = block[k];
        }
}

static void turn(const struct ts_fmat *f, uint64_t row, uint32_t n, uint32_t padded,
                 const double *weight, double *x)
{
    const enum kept kept = kept_in(f);
    if (kept == IN_FLOAT32 && n == TS_ROWBLOCK_UNIT &&
        weight == NULL) /* compiled apart for these constant arguments */
        turn_rows(f, IN_FLOAT32, row, TS_ROWBLOCK_UNIT, padded, NULL, x);
    else if (kept == IN_FLOAT32 && n == TS_ROWBLOCK_UNIT)
        turn_rows(f, IN_FLOAT32, row, TS_ROWBLOCK_UNIT, padded, weight, x);
    else if (kept == IN_FLOAT64 && n == TS_ROWBLOCK_UNIT)
        turn_rows(f, IN_FLOAT64, row, TS_ROWBLOCK_UNIT, padded, weight, x);
    else
        turn_rows(f, kept, row, n, padded, weight, x);
}

/* Stores n rows of x, from `row` on: f(row + i, r) := rows(i, r) := x(r, i), rounded to the type of
 * f. */
static inline __attribute__((always_inline)) void return_rows(struct ts_fmat *f, int narrow,
                                                              uint64_t row, uint32_t n,
                                                              uint32_t padded, const double *x,
                                                              double *rows)
{
    for (uint32_t i = 0; i < TS_ROWBLOCK_UNIT; i += TS_LANES)
        for (uint32_t r = 0; r < padded; r += TS_LANES) {
            vec block[TS_LANES];
            TS_EACH(k, TS_LANES)
                block[k] = *(const vec *)(x + (r + k) * TS_ROWBLOCK_UNIT + i);
            transpose(block);
            TS_EACH(k, TS_LANES) {
                const uint64_t at = (row + i + k) * f->stride + r;
                vec *to = (vec *)(rows + (size_t)(i + k) * padded + r);
                if (i + k >= n)
                    continue;
                if (narrow) {
                    const vec_f32 rounded = __builtin_convertvector(block[k], vec_f32);
                    *(vec_f32 *)((float *)f->data + at) = rounded;
                    *to = widen(rounded);
                } else {
                    *(vec *)((double *)f->data + at) = *to = block[k];
                }
            }
        }
}

static void turn_back(struct ts_fmat *f, uint64_t row, uint32_t n, uint32_t padded, const double *x,
                      double *rows)
{
    if (f->precision == TS_FLOAT64)
        return_rows(f, 0, row, n, padded, x, rows);
    else if (n == TS_ROWBLOCK_UNIT)
        return_rows(f, 1, row, TS_ROWBLOCK_UNIT, padded, x, rows);
    else
        return_rows(f, 1, row, n, padded, x, rows);
}

static double add_lanes(vec x)
{
    double sum = 0;
    for (uint32_t i = 0; i < TS_LANES; i++)
        sum += x[i];
    return sum;
}

#define STEP_COLUMNS 4u                      /* number of columns whose sums stay in registers */
#define STEP_VECS    (TS_LANES == 8 ? 4 : 2) /* vectors of rows per update */

/* Coordinate descent on columns r .. r + 3 for STEP_VECS vectors of rows, from row i on. First adds
 * the terms of all other columns to their sums, then updates the four columns one after another.
 * *moved += the squares of changes, *size += the squares of the new entries; NULL: not needed. */
static inline __attribute__((always_inline)) void
descend_columns(uint32_t n, uint32_t r, uint32_t i, const double *m, double *a,
                const struct ts_rowblock *b, int simple, vec *moved, vec *size)
{
    const double *g = b->w + r; /* row s of G is column s, because G is symmetric */
    vec t[STEP_COLUMNS][STEP_VECS], x[STEP_COLUMNS][STEP_VECS];
    TS_EACH(c, STEP_COLUMNS) {
        TS_EACH(v, STEP_VECS)
            t[c][v] = ((const vec *)(m + (r + c) * TS_ROWBLOCK_UNIT + i))[v];
    }
    for (uint32_t part = 0; part < 2; part++)
        for (uint32_t s = part == 0 ? 0 : r + STEP_COLUMNS; s < (part == 0 ? r : n); s++) {
            const vec *y = (const vec *)(a + s * TS_ROWBLOCK_UNIT + i);
            TS_EACH(c, STEP_COLUMNS) {
                const double k = g[(size_t)s * b->padded + c];
                TS_EACH(v, STEP_VECS)
                    t[c][v] -= y[v] * k;
            }
        }
    TS_EACH(c, STEP_COLUMNS) {
        TS_EACH(v, STEP_VECS)
            x[c][v] = ((const vec *)(a + (r + c) * TS_ROWBLOCK_UNIT + i))[v];
    }
    TS_EACH(c, STEP_COLUMNS) {
        const struct ts_rowstep *step = &b->step[r + c];
        TS_EACH(v, STEP_VECS) {
            const vec old = x[c][v];
            vec now = t[c][v];
            TS_EACH(d, STEP_COLUMNS)
                now -= x[d][v] * g[(size_t)(r + d) * b->padded + c];
            now = old + now * step->inverse;
            if (!simple)
                now = clamp(soften(now, step->threshold), step->lower, step->upper);
            else
                now = LARGER(now, (vec){ 0 } + step->lower);
            if (moved != NULL) {
                *moved += (now - old) * (now - old);
                *size += now * now;
            }
            x[c][v] = now;
            ((vec *)(a + (r + c) * TS_ROWBLOCK_UNIT + i))[v] = now;
        }
    }
}

/* Makes all rounds of coordinate descent on the rows of a unit (32 rows). */
static inline __attribute__((always_inline)) void
descend_unit(uint32_t n, const struct ts_rowblock *b, int simple)
{
    const double *m = b->unit;
    double *a = b->unit + (size_t)b->padded * TS_ROWBLOCK_UNIT;
    const double tol = TS_ROW_TOL(b->rounds) * TS_ROW_TOL(b->rounds);
    for (uint32_t round = 0; round + 1 < b->rounds; round++) {
        vec moved = { 0 }, size = { 0 };
        for (uint32_t r = 0; r < n; r += STEP_COLUMNS)
            for (uint32_t i = 0; i < TS_ROWBLOCK_UNIT; i += STEP_VECS * TS_LANES)
                descend_columns(n, r, i, m, a, b, simple, &moved, &size);
        if (add_lanes(moved) <= tol * add_lanes(size))
            return;
    }
    for (uint32_t r = 0; r < n; r += STEP_COLUMNS)
        for (uint32_t i = 0; i < TS_ROWBLOCK_UNIT; i += STEP_VECS * TS_LANES)
            descend_columns(n, r, i, m, a, b, simple, NULL, NULL);
}

/* m := rows of the product, a := old rows times weights */
static void load_old(const struct ts_fmat *f, uint64_t row, uint32_t n, const struct ts_rowblock *b)
{
    load_rows(b->product, row, n, n, b->padded, b->m);
    load_rows(f, row, n, n, b->padded, b->a);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < b->padded; r += TS_LANES)
            *(vec *)(b->a + (size_t)i * b->padded + r) *= *(const vec *)(b->weight + r);
}

/* Loads a unit of k rows (at most 32) from `row` on: rows m of the product, followed by the old
 * rows. */
static void turn_unit(const struct ts_fmat *f, uint64_t row, uint32_t k,
                      const struct ts_rowblock *b)
{
    turn(b->product, row, k, b->padded, NULL, b->unit);
    turn(f, row, k, b->padded, b->weight, b->unit + (size_t)b->padded * TS_ROWBLOCK_UNIT);
}

static void descend(struct ts_fmat *f, uint64_t row, uint32_t n, const struct ts_rowblock *b)
{
    const uint32_t columns = (f->rank + STEP_COLUMNS - 1) / STEP_COLUMNS * STEP_COLUMNS;
    if (b->step == NULL) {
        load_old(f, row, n, b);
        return;
    }
    if (b->wants_m)
        load_rows(b->product, row, n, n, b->padded, b->m);
    for (uint32_t i = 0; i < n; i += TS_ROWBLOCK_UNIT) {
        const uint32_t k = n - i < TS_ROWBLOCK_UNIT ? n - i : TS_ROWBLOCK_UNIT;
        turn_unit(f, row + i, k, b);
        /* processors do not prefetch for the transposing loads, which read eight rows at a time */
        fetch_rows(b->product, row + i + TS_ROWBLOCK_UNIT, TS_ROWBLOCK_UNIT);
        fetch_rows(f, row + i + TS_ROWBLOCK_UNIT, TS_ROWBLOCK_UNIT);
        if (b->simple)
            descend_unit(columns, b, 1);
        else
            descend_unit(columns, b, 0);
        turn_back(f, row + i, k, b->padded, b->unit + (size_t)b->padded * TS_ROWBLOCK_UNIT,
                  b->a + (size_t)i * b->padded);
    }
}

#include "cpu/rows/rowadmm_body.h"
#include "cpu/rows/rowsystems_body.h"

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
        TS_EACH(v, VECS_8)
            sum[v] += ((const vec *)(m + i))[v] * ((const vec *)(a + i))[v];
    }
    memcpy(ret, sum, sizeof sum);
}

static void size(uint32_t n, uint32_t padded, const double *a, double *ret)
{
    vec sum[VECS_8];
    memcpy(sum, ret, sizeof sum);
    for (size_t i = 0; i < (size_t)n * padded; i += 8) {
        TS_EACH(v, VECS_8) {
            const vec x = ((const vec *)(a + i))[v];
            sum[v] += choose(x < (vec){ 0 }, -x, x);
        }
    }
    memcpy(ret, sum, sizeof sum);
}

static void add_groups(uint64_t n_x, const double *x, uint64_t step, uint32_t n, double *sum)
{
    for (uint32_t i = 0; i < n; i += 8) {
        vec s[VECS_8] = { 0 };
        for (uint64_t k = 0; k < n_x; k++) {
            TS_EACH(v, VECS_8)
                s[v] += ((const vec *)(x + k * step + i))[v];
        }
        memcpy(sum + i, s, sizeof s);
    }
}

/* Multiplies columns. If a factor is exact in float32, a product in float32 has the same bits: it
 * is rounded once either way. */
static void scale(struct ts_fmat *f, uint64_t row, uint64_t n, const double *s, const float *narrow)
{
    for (uint64_t i = row; i < row + n; i++)
        for (uint32_t r = 0; r < f->width; r += TS_LANES) {
            vec_f32 *at = (vec_f32 *)((float *)f->data + i * f->stride + r);
            if (f->precision == TS_FLOAT64)
                *(vec *)((double *)f->data + i * f->stride + r) *= *(const vec *)(s + r);
            else if (narrow != NULL)
                *at *= *(const vec_f32 *)(narrow + r);
            else
                *at = __builtin_convertvector(widen(*at) * *(const vec *)(s + r), vec_f32);
        }
}

const struct ts_rowblock_ops TS_OPS_NAME = { product, descend,    simplex, gram,         inner,
                                             size,    add_groups, scale,   solve_systems };
