/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for products of dense tensors: a large matrix of cells, read once, times a narrow matrix,
 * on tensor cores. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/dense/cells_kernel.h"

#include <cuda_runtime.h>

#include "gpu/rows/tensor_core.cuh"

enum {
    /* threads of a thread block: 4 warps, each with 32 rows of a tile and all its columns */
    THREADS = 128,
    TILE = TS_CELLS_TILE,
    LINE = TS_CELLS_LINE,
    /* tiles that a thread block copies or computes on at a time; with 3 of them, three thread
     * blocks fit on a multiprocessor */
    STAGES = 3
};

/* ------------------------------------------------------------------ copies to shared memory */

/* Copies N bytes to shared memory: the first `bytes` are read, the others become zero. AGAIN: other
 * thread blocks of the multiprocessor read the same bytes, so the copy goes through its L1
 * cache. */
template <int N, bool AGAIN>
static __device__ inline void copy_async(char *to, const void *from, uint32_t bytes)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    if (N == 16 && !AGAIN)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                     "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(N),
                     "r"(bytes)
                     : "memory");
}

static __device__ inline void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most N committed groups of copies are incomplete. */
template <int N> static __device__ inline void wait_until()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Loads two neighbouring cells, the first of which has an even position. */
static __device__ inline void load2(const char *at, const double *, double &a, double &b)
{
    const double2 x = *(const double2 *)at;
    a = x.x;
    b = x.y;
}
static __device__ inline void load2(const char *at, const float *, double &a, double &b)
{
    const float2 x = *(const float2 *)at;
    a = x.x;
    b = x.y;
}

/* The value that a product uses for a cell, if some cells may be unknown (NaN). */
struct counts {
    double mean;
    bool known;
    template <bool GAPS> __device__ inline double of(double x) const
    {
        if (!GAPS)
            return x;
        return x != x ? 0.0 : known ? 1.0 : x - mean;
    }
};

/* ------------------------------------------------------------------ products Y = X B and W = X' K
 *
 * X is the matrix of cells. B and K have the products of the factor rows of the inner and of the
 * outer modes. GAPS: cells may be unknown. Then the right operand is zero where a tile extends
 * beyond the cells, or rows extend beyond a step.
 *
 * A stage (a buffer in shared memory) holds a tile of cells and a tile of the right operand: DEPTH
 * rows of NB columns. */

template <class T, int NT> struct shape {
    /* cells of a row that a stage sums over, in `along` (Y = X B) */
    static constexpr uint32_t DEPTH = LINE / sizeof(T);
    /* cells of a column that a stage sums over, in `across` (W = X' K) */
    static constexpr uint32_t DEEP = 16;
    static constexpr uint32_t NB = 8 * NT;
    /* doubles of a row of the right operand, as in ts_cells_right_stride */
    static constexpr uint32_t STRIDE = NB + 2;
    static constexpr uint32_t CELLS = TILE * LINE;
    static constexpr uint32_t RIGHT = DEPTH * STRIDE * sizeof(double);
    static constexpr uint32_t CELLS_ACROSS = DEEP * TILE * sizeof(T);
    static constexpr uint32_t RIGHT_ACROSS = DEEP * STRIDE * sizeof(double);
    static constexpr uint32_t STAGES_ACROSS = sizeof(T) == 4 ? 5 : 3;
    static constexpr uint32_t BLOCKS = NT > 4 ? 2 : 3; /* thread blocks on a multiprocessor */
};

/* Accumulators of a warp: 32 rows (2 x 16) and NB columns. */
template <int NT> struct sums {
    double d[2][NT][4];
};

/* Adds the products for 8 values of the summation index to the accumulators. a[m] are the left
 * operands of rows 16 m .. 16 m + 15. */
template <class T, int NT>
static __device__ inline void multiply_group(sums<NT> &acc, const double (&a)[2][4],
                                             const double *right, uint32_t g, uint32_t t)
{
    constexpr uint32_t stride = shape<T, NT>::STRIDE;
#pragma unroll
    for (int j = 0; j < NT; j++) {
        const double b0 = right[2 * t * stride + 8 * j + g];
        const double b1 = right[(2 * t + 1) * stride + 8 * j + g];
#pragma unroll
        for (int m = 0; m < 2; m++)
            multiply_add(acc.d[m][j], a[m], b0, b1);
    }
}

/* Stores the sums of a warp to the first `rows` rows of a tile, which are ld elements apart. n0:
 * the column of the result at which the tile begins; columns from ld on are not stored. row_of(m,
 * h): the row of entries 2 h and 2 h + 1 of d[m]. */
template <int NT, class ROW>
static __device__ __forceinline__ void store_sums(const sums<NT> &acc, double *to, uint32_t ld,
                                                  uint32_t n0, uint32_t rows, const ROW &row_of)
{
#pragma unroll
    for (uint32_t m = 0; m < 2; m++)
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            const uint32_t r = row_of(m, h);
#pragma unroll
            for (uint32_t j = 0; j < NT; j++)
                if (r < rows && n0 + 8 * j < ld)
                    *(double2 *)(to + (uint64_t)r * ld + 8 * j) =
                        make_double2(acc.d[m][j][2 * h], acc.d[m][j][2 * h + 1]);
        }
}

/* Computes Y(row, :) = X(row, :) B for a tile of rows (X: the cells, B: products of inner factor
 * rows).
 *
 *   launch  thread blocks (columns of Y by NB, fastest; rows by TILE; parts of X's columns),
 *           THREADS each: blocks that run together read the same rows of b at about the same time
 *   x       the first of n_rows x n_cols cells, in rows `pitch` apart
 *   b       n_cols rows, ld apart
 *   y       (parts, n_rows, ld): each thread block alone writes its tile
 *
 * VEC: bytes that are copied at once; each row begins at a multiple of VEC. */
template <class T, int NT, int VEC, bool GAPS>
static __global__ void __launch_bounds__(THREADS, shape<T, NT>::BLOCKS)
    along(const T *x, struct counts as, uint64_t pitch, uint64_t n_rows, uint64_t n_cols,
          const double *b, uint32_t ld, uint64_t part_cols, uint32_t n_tiles, uint32_t row_tiles,
          double *y, uint64_t apart)
{
    using S = shape<T, NT>;
    extern __shared__ __align__(128) char shared[];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const uint32_t n0 = blockIdx.x % n_tiles * S::NB, part = blockIdx.x / n_tiles / row_tiles;
    const uint64_t row = (uint64_t)(blockIdx.x / n_tiles % row_tiles) * TILE;
    const uint64_t begin = part * part_cols;
    const uint64_t end = n_cols - begin < part_cols ? n_cols : begin + part_cols;
    const uint32_t rows = (uint32_t)min((uint64_t)TILE, n_rows - row);
    const uint32_t steps = (uint32_t)((end - begin + S::DEPTH - 1) / S::DEPTH);
    sums<NT> acc = {};
    x += row * pitch;

    /* A thread copies VEC bytes of one row in each ROWS rows of cells, and two columns of one row
     * in each LINES rows of the right operand. */
    constexpr uint32_t IN_LINE = LINE / VEC, ROWS = THREADS / IN_LINE;
    constexpr uint32_t PAIRS = S::NB / 2, LINES = THREADS / PAIRS;
    const uint32_t x_row = threadIdx.x / IN_LINE, x_byte = threadIdx.x % IN_LINE * VEC;
    const uint32_t b_row = threadIdx.x / PAIRS, b_col = threadIdx.x % PAIRS * 2;
    const char *from = (const char *)(x + x_row * pitch + begin) + x_byte;
    const double *b_from = b + (begin + b_row) * ld + n0 + b_col;
    const uint64_t x_step = ROWS * pitch * sizeof(T);
    uint64_t k_left = end - begin;

    /* Starts the copies of two tiles to shared memory: those of a step, which is DEPTH values of
     * the summation index. To be called for steps in ascending order. */
    auto fetch = [&](uint32_t step) {
        const uint32_t left = (uint32_t)min((uint64_t)S::DEPTH, k_left);
        const uint32_t line = left * (uint32_t)sizeof(T);
        const uint32_t bytes = x_byte < line ? min((uint32_t)VEC, line - x_byte) : 0;
        char *const cells = shared + step % STAGES * (S::CELLS + S::RIGHT);
        double *const right = (double *)(cells + S::CELLS) + b_row * S::STRIDE + b_col;
        const char *x_at = from;
#pragma unroll
        for (uint32_t i = 0; i < TILE / ROWS; i++) {
            copy_async<VEC, false>(cells +
                                       ts_cells_along_place(sizeof(T), i * ROWS + x_row, x_byte),
                                   x_at, i * ROWS + x_row < rows ? bytes : 0);
            x_at += x_step;
        }
#pragma unroll
        for (uint32_t i = 0; i < S::DEPTH / LINES; i++)
            copy_async<16, true>((char *)(right + i * LINES * S::STRIDE),
                                 b_from + (uint64_t)(i * LINES) * ld,
                                 i * LINES + b_row < left && n0 + b_col < ld ? 16 : 0);
        from += LINE;
        b_from += (uint64_t)S::DEPTH * ld;
        k_left -= left;
    };

#pragma unroll
    for (uint32_t step = 0; step < STAGES - 1; step++) {
        if (step < steps)
            fetch(step);
        commit();
    }
    for (uint32_t step = 0; step < steps; step++) {
        const char *const cells = shared + step % STAGES * (S::CELLS + S::RIGHT);
        const double *const right = (const double *)(cells + S::CELLS);
        wait_until<STAGES - 2>();
        __syncthreads(); /* all threads have copied this stage and finished the one before */
        if (step + STAGES - 1 < steps)
            fetch(step + STAGES - 1);
        commit();
#pragma unroll
        for (uint32_t k = 0; k < S::DEPTH; k += 8) {
            double a[2][4];
#pragma unroll
            for (uint32_t m = 0; m < 2; m++)
#pragma unroll
                for (uint32_t h = 0; h < 2; h++) {
                    const uint32_t r = 32 * warp + 16 * m + 8 * h + g;
                    load2(cells + ts_cells_along_place(sizeof(T), r, (k + 2 * t) * sizeof(T)),
                          (const T *)nullptr, a[m][h], a[m][2 + h]);
                    a[m][h] = as.of<GAPS>(a[m][h]);
                    a[m][2 + h] = as.of<GAPS>(a[m][2 + h]);
                }
            multiply_group<T, NT>(acc, a, right + k * S::STRIDE, g, t);
        }
    }
    store_sums(acc, y + part * apart + row * ld + n0 + 2 * t, ld, n0, rows,
               [&](uint32_t m, uint32_t h) { return 32 * warp + 16 * m + 8 * h + g; });
}

/* The rows of U and V (products of the slower and of the faster outer modes' factor rows) whose
 * product belongs to a row of X. */
struct place {
    uint32_t u, v;
};

static __device__ inline void move_on(struct place &p, uint32_t rows, uint32_t n_v)
{
    const uint64_t v = (uint64_t)p.v + rows;
    p.v = (uint32_t)v;
    if (v >= n_v) {
        p.u += (uint32_t)(v / n_v);
        p.v = (uint32_t)(v % n_v);
    }
}

/* The elements of K (products of a row of U and a row of V) that a thread computes: two columns of
 * one row in each AT_ONCE rows. Rows of U and V pass through registers. */
template <class T, int NT, bool GAPS> struct made_rows {
    using S = shape<T, NT>;
    static constexpr uint32_t PAIRS = S::NB / 2, AT_ONCE = THREADS / PAIRS,
                              MADE = S::DEEP / AT_ONCE;
    static_assert(AT_ONCE * MADE == S::DEEP, "all threads do the same");
    struct place at[MADE];
    double2 uv[MADE][2];
    bool there[MADE]; /* false: these elements of K are past the end, and become 0 */
    uint32_t pair, row;

    /* first: the row of X that belongs to the first row of K. */
    __device__ __forceinline__ made_rows(uint64_t first, uint32_t n_v)
    {
        pair = threadIdx.x % PAIRS * 2;
        row = threadIdx.x / PAIRS;
#pragma unroll
        for (uint32_t i = 0; i < MADE; i++) {
            const uint64_t p = first + i * AT_ONCE + row;
            at[i].u = (uint32_t)(p / n_v);
            at[i].v = (uint32_t)(p % n_v);
        }
    }

    /* Loads rows of U and V (products of outer factor rows) for a step (DEEP rows of K, of `rows`
     * in all). To be called for steps in ascending order. Rows past the end take the first rows
     * instead: their cells are zero or, with GAPS, the products of their rows of U and V are. */
    __device__ __forceinline__ void look(uint32_t step, uint32_t rows, const double *u,
                                         const double *v, uint32_t n_v, uint32_t n0, uint32_t ld)
    {
#pragma unroll
        for (uint32_t i = 0; i < MADE; i++) {
            const bool inside = step * S::DEEP + i * AT_ONCE + row < rows && n0 + pair < ld;
            there[i] = !GAPS || inside;
            uv[i][0] =
                __ldg((const double2 *)(u + (inside ? (uint64_t)at[i].u * ld + n0 + pair : 0)));
            uv[i][1] =
                __ldg((const double2 *)(v + (inside ? (uint64_t)at[i].v * ld + n0 + pair : 0)));
            move_on(at[i], S::DEEP, n_v);
        }
    }
    __device__ __forceinline__ void make(double *to) const
    {
#pragma unroll
        for (uint32_t i = 0; i < MADE; i++)
            *(double2 *)(to + (i * AT_ONCE + row) * S::STRIDE + pair) =
                there[i] ? make_double2(uv[i][0].x * uv[i][1].x, uv[i][0].y * uv[i][1].y)
                         : make_double2(0, 0);
    }
};

/* Computes W = X' K for a tile of columns of X (the cells), summed over the rows of a step. A row
 * of K is the product of a row of u and a row of v.
 *
 *   launch  thread blocks (columns of W by NB, fastest; columns of X by TILE; steps), THREADS each
 *   x       the first cell of row `row` of X; n_cols cells a row, rows `pitch` apart
 *   w       (steps, n_cols, ld): each thread block alone writes its tile
 *
 * Rows of K for the next stage are computed while this stage is multiplied. */
template <class T, int NT, int VEC, bool GAPS>
static __global__ void __launch_bounds__(THREADS, shape<T, NT>::BLOCKS)
    across(const T *x, struct counts as, uint64_t pitch, uint64_t row, uint64_t n_cols,
           const double *u, const double *v, uint32_t n_v, uint32_t ld, struct ts_cells_cut cut,
           uint64_t first_step, uint32_t n_tiles, uint32_t col_tiles, double *w)
{
    using S = shape<T, NT>;
    /* A thread copies VEC bytes of one row in each ROWS rows of cells. */
    constexpr uint32_t IN_ROW = TILE * sizeof(T) / VEC, ROWS = THREADS / IN_ROW;
    static_assert(IN_ROW <= THREADS, "all threads do the same");
    extern __shared__ __align__(128) char shared[];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const uint32_t n0 = blockIdx.x % n_tiles * S::NB;
    const uint64_t c0 = (uint64_t)(blockIdx.x / n_tiles % col_tiles) * TILE;
    const uint64_t s = blockIdx.x / n_tiles / col_tiles;
    const uint64_t first = ts_cells_first(&cut, first_step + s);
    const uint32_t rows = (uint32_t)(ts_cells_end(&cut, first_step + s) - first);
    const uint32_t cols = (uint32_t)min((uint64_t)TILE, n_cols - c0);
    const uint32_t steps = (rows + S::DEEP - 1) / S::DEEP;
    const uint32_t x_row = threadIdx.x / IN_ROW, x_byte = threadIdx.x % IN_ROW * VEC;
    const uint32_t line = cols * (uint32_t)sizeof(T);
    const uint32_t bytes = x_byte < line ? min((uint32_t)VEC, line - x_byte) : 0;
    const uint64_t x_step = ROWS * pitch * sizeof(T);
    const char *from = (const char *)(x + (first - row + x_row) * pitch + c0) + x_byte;
    double *const k_tile = (double *)(shared + S::STAGES_ACROSS * S::CELLS_ACROSS);
    made_rows<T, NT, GAPS> made(first, n_v);
    sums<NT> acc = {};

    /* Starts the copies of cells to shared memory: those of a step, which is DEEP rows. To be
     * called for steps in ascending order. */
    auto fetch = [&](uint32_t step) {
        char *const cells = shared + step % S::STAGES_ACROSS * S::CELLS_ACROSS;
        const uint32_t left = rows - step * S::DEEP;
#pragma unroll
        for (uint32_t i = 0; i < S::DEEP / ROWS; i++) {
            copy_async<VEC, false>(cells +
                                       ts_cells_across_place(sizeof(T), i * ROWS + x_row, x_byte),
                                   from, i * ROWS + x_row < left ? bytes : 0);
            from += x_step;
        }
    };
    auto made_at = [&](uint32_t step) {
        return k_tile + step % 2 * (S::RIGHT_ACROSS / sizeof(double));
    };

#pragma unroll
    for (uint32_t step = 0; step < S::STAGES_ACROSS - 1; step++) {
        if (step < steps)
            fetch(step);
        commit();
    }
    made.look(0, rows, u, v, n_v, n0, ld);
    made.make(made_at(0));
    for (uint32_t step = 0; step < steps; step++) {
        const char *const cells = shared + step % S::STAGES_ACROSS * S::CELLS_ACROSS;
        const double *const right = made_at(step);
        wait_until<S::STAGES_ACROSS - 2>();
        /* all threads have copied this stage and its rows of K, and finished the stage before */
        __syncthreads();
        if (step + S::STAGES_ACROSS - 1 < steps)
            fetch(step + S::STAGES_ACROSS - 1);
        commit();
        if (step + 1 < steps)
            made.look(step + 1, rows, u, v, n_v, n0, ld);
#pragma unroll
        for (uint32_t k = 0; k < S::DEEP; k += 8) {
            double a[2][4];
#pragma unroll
            for (uint32_t m = 0; m < 2; m++)
#pragma unroll
                for (uint32_t h = 0; h < 2; h++) { /* cells of tile row k + 2 t + h */
                    load2(cells + ts_cells_across_place(sizeof(T), k + 2 * t + h,
                                                        (32 * warp + 16 * m + 2 * g) * sizeof(T)),
                          (const T *)nullptr, a[m][2 * h], a[m][2 * h + 1]);
                    a[m][2 * h] = as.of<GAPS>(a[m][2 * h]);
                    a[m][2 * h + 1] = as.of<GAPS>(a[m][2 * h + 1]);
                }
            multiply_group<T, NT>(acc, a, right + k * S::STRIDE, g, t);
        }
        if (step + 1 < steps)
            made.make(made_at(step + 1));
    }
    store_sums(acc, w + (s * n_cols + c0) * ld + n0 + 2 * t, ld, n0, cols,
               [&](uint32_t m, uint32_t h) { return 32 * warp + 16 * m + 2 * g + h; });
}

static struct counts counts_of(const struct ts_cells_x *x)
{
    return { x->as.mean, x->as.kind == TS_CELLS_KNOWN };
}

uint32_t ts_cells_width(uint32_t rank)
{
    return rank <= 16 ? 16 : rank <= 32 ? 32 : 64;
}

template <class T, int NT, int VEC, bool GAPS>
static cudaError_t launch_along(const struct ts_cells_x *x, const double *b, uint32_t ld,
                                uint64_t part_cols, double *y, uint64_t apart, cudaStream_t s)
{
    using S = shape<T, NT>;
    const uint32_t bytes = STAGES * (S::CELLS + S::RIGHT);
    const uint32_t n_tiles = (ld + S::NB - 1) / S::NB;
    const uint64_t row_tiles = ts_cells_ceil_div(x->n_rows, TILE);
    const uint64_t grid = row_tiles * ts_cells_ceil_div(x->n_cols, part_cols) * n_tiles;
    const cudaError_t e = cudaFuncSetAttribute(
        along<T, NT, VEC, GAPS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e != cudaSuccess)
        return e;
    if (grid > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (grid > 0)
        along<T, NT, VEC, GAPS><<<(uint32_t)grid, THREADS, bytes, s>>>(
            (const T *)x->cell, counts_of(x), x->pitch, x->n_rows, x->n_cols, b + x->col * ld, ld,
            part_cols, n_tiles, (uint32_t)row_tiles, y, apart);
    return cudaGetLastError();
}

template <class T, int NT, int VEC, bool GAPS>
static cudaError_t launch_across(const struct ts_cells_x *x, const struct ts_cells_cut *cut,
                                 const double *u, const double *v, uint64_t n_v, uint32_t ld,
                                 double *w, cudaStream_t s)
{
    using S = shape<T, NT>;
    const uint32_t bytes = S::STAGES_ACROSS * S::CELLS_ACROSS + 2 * S::RIGHT_ACROSS;
    const uint32_t n_tiles = (ld + S::NB - 1) / S::NB;
    const uint64_t first = ts_cells_step(cut, x->row), end = ts_cells_step(cut, x->row + x->n_rows);
    const uint64_t col_tiles = ts_cells_ceil_div(x->n_cols, TILE),
                   grid = (end - first) * col_tiles * n_tiles;
    const cudaError_t e = cudaFuncSetAttribute(
        across<T, NT, VEC, GAPS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e != cudaSuccess)
        return e;
    if (grid > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (grid > 0)
        across<T, NT, VEC, GAPS><<<(uint32_t)grid, THREADS, bytes, s>>>(
            (const T *)x->cell, counts_of(x), x->pitch, x->row, x->n_cols, u, v, (uint32_t)n_v, ld,
            *cut, first, n_tiles, (uint32_t)col_tiles, w);
    return cudaGetLastError();
}

/* Whether all rows of cells begin at multiples of 16 bytes. Otherwise they begin at multiples of
 * the size of a cell. */
static int is_aligned(const struct ts_cells_x *x)
{
    const uint64_t cell = x->narrow ? 4 : 8;
    return ((uintptr_t)x->cell | (x->n_rows > 1 ? x->pitch * cell : 0)) % 16 == 0;
}

/* Expands to CALL(T, NT, VEC, GAPS) for the type of cells, the rank and the alignment. */
#define CHOOSE_VEC(T, NT, GAPS, CALL) \
    (is_aligned(x) ? CALL(T, NT, 16, GAPS) : CALL(T, NT, (int)sizeof(T), GAPS))
#define CHOOSE_NT(T, GAPS, CALL)                                 \
    (ts_cells_width(rank) == 16   ? CHOOSE_VEC(T, 2, GAPS, CALL) \
     : ts_cells_width(rank) == 32 ? CHOOSE_VEC(T, 4, GAPS, CALL) \
                                  : CHOOSE_VEC(T, 8, GAPS, CALL))
#define CHOOSE_T(GAPS, CALL) \
    (x->narrow ? CHOOSE_NT(float, GAPS, CALL) : CHOOSE_NT(double, GAPS, CALL))
#define CHOOSE(CALL) (x->as.kind == TS_CELLS_ALL ? CHOOSE_T(false, CALL) : CHOOSE_T(true, CALL))

ts_gpu_error ts_cells_along(const struct ts_cells_x *x, const double *b, uint32_t rank, uint32_t ld,
                            uint64_t part_cols, double *y, uint64_t apart, ts_gpu_stream stream)
{
#define CALL(T, NT, VEC, GAPS) launch_along<T, NT, VEC, GAPS>(x, b, ld, part_cols, y, apart, stream)
    return CHOOSE(CALL);
#undef CALL
}

ts_gpu_error ts_cells_across(const struct ts_cells_x *x, const struct ts_cells_cut *cut,
                             const double *u, const double *v, uint64_t n_v, uint32_t rank,
                             uint32_t ld, double *w, ts_gpu_stream stream)
{
#define CALL(T, NT, VEC, GAPS) launch_across<T, NT, VEC, GAPS>(x, cut, u, v, n_v, ld, w, stream)
    return CHOOSE(CALL);
#undef CALL
}
