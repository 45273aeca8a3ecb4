/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_product_body.h - the functions of dense_slab.c that exist in float32 and in float64. It is
 * included with REAL, NAME(x) and GET_CELLS. B, K, W and Y are those of dense_product.h. Rows of Y,
 * and B and K in panels of columns, are of type REAL. W is float64. */

/* Computes the products of factor rows for rows first .. end - 1 of a grid (all combinations of
 * indices of some modes). Stores them in panels of `n` rows, from row `place` of each panel on. */
static void NAME(put_rows)(const struct ts_dense_product *p, const struct ts_dense_grid *g,
                           uint64_t first, uint64_t end, void *panels, uint64_t n, uint64_t place,
                           double *row)
{
    struct grid_walk w;
    walk_from(p, g, first, 0, &w);
    for (uint64_t q = first; q < end; q++, place++) {
        const double *x = walk_row(&w, row, p->rank);
        uint32_t cols;
        for (uint32_t r = 0; r < p->width; r += cols) {
            cols = panel_cols(p, r);
            REAL *to = (REAL *)panels + r * n + place * cols;
            for (uint32_t i = 0; i < cols; i++)
                to[i] = r + i < p->rank ? (REAL)x[r + i] : 0;
        }
        walk_on(p, g, &w);
    }
}

/* Computes products of factor rows like NAME(put_rows), for grids (combinations of indices) of one
 * mode or two, and a single panel. */
PART void NAME(put_pairs)(const struct ts_dense_product *p, const struct ts_dense_grid *g,
                          uint64_t first, uint64_t end, REAL *to, uint32_t rank)
{
    const uint32_t width = p->width, last = g->mode[g->n - 1], before = g->mode[0];
    const uint64_t dim = p->dense->array.dim[last], stride = p->stride[last];
    double x[FEW];
    for (uint64_t q = first; q < end;) {
        const uint64_t l = q / dim, i = q % dim, run = dim - i < end - q ? dim - i : end - q;
        const double *y = p->table[last] + i * stride;
        TS_EACH(c, rank)
            x[c] = g->n == 1 ? 1 : p->table[before][l * p->stride[before] + c];
        for (uint64_t k = 0; k < run; k++, y += stride, to += width) {
            TS_EACH(c, rank)
                to[c] = (REAL)(y[c] * x[c]);
            for (uint32_t c = rank; c < width; c++)
                to[c] = 0;
        }
        q += run;
    }
}

static void NAME(put_products)(const struct ts_dense_product *p, const struct ts_dense_grid *g,
                               uint64_t first, uint64_t end, void *panels, uint64_t n,
                               uint64_t place, double *row)
{
    REAL *to = (REAL *)panels + place * p->width;
    if (p->rank > FEW || p->width > 2 * p->gemm->lanes || g->n > 2) {
        NAME(put_rows)(p, g, first, end, panels, n, place, row);
        return;
    }
#define OF_RANK(N) NAME(put_pairs)(p, g, first, end, to, N)
    FEW_COLS(p->rank, OF_RANK, break)
#undef OF_RANK
}

/* Sets NaN cells to 0. This is written with vectors, because branches for random cells would be
 * mispredicted. */
static void NAME(clear_unknown)(REAL *x, uint64_t n)
{
    typedef REAL few __attribute__((vector_size(16), aligned(sizeof(REAL)), may_alias));
    const uint64_t lanes = 16 / sizeof(REAL), whole = n / lanes * lanes;
    for (uint64_t i = 0; i < whole; i += lanes) {
        const few y = *(few *)(x + i);
        *(few *)(x + i) = (few)((__typeof__(y == y))y & (y == y));
    }
    for (uint64_t i = whole; i < n; i++)
        x[i] = x[i] == x[i] ? x[i] : 0;
}

/* Sets x to the values of n cells of the slab from `at` on (n <= TS_GEMM_DEPTH), as products use
 * them: unknown and held-out cells are 0, and the mean is subtracted. */
static void NAME(get_values)(const struct ts_dense_product *p, const struct ts_slab_view *v,
                             uint64_t at, uint64_t n, REAL *x)
{
    unsigned char held[TS_GEMM_DEPTH];
    GET_CELLS(p->dense, v->cells, at, n, x);
    if (takes_all(p))
        return;
    for (uint64_t i = 0; i < n && p->mean != 0; i++)
        x[i] = (REAL)(x[i] - p->mean);
    NAME(clear_unknown)(x, n);
    if (p->hold_out.share == 0)
        return;
    ts_dense_held(p->dense, &p->hold_out, v->part.row * p->dense->inner + v->part.col + at,
                  (uint32_t)n, held);
    for (uint64_t i = 0; i < n; i++)
        x[i] = held[i] ? 0 : x[i];
}

/* Whether cells can be multiplied without a copy. */
static int NAME(in_place)(const struct ts_dense_product *p, const void *cells)
{
    const struct ts_dense *d = p->dense;
    const enum ts_cell_type own = sizeof(REAL) == 4 ? TS_CELL_F32 : TS_CELL_F64;
    return d->array.type == own && !d->array.swapped && takes_all(p) &&
           (uintptr_t)cells % sizeof(REAL) == 0;
}

/* Adds to Y the product of rows row .. row + n - 1 of the slab and B (the products of inner
 * factor rows); the first columns of the slab set Y. The last rows, if they are not a whole tile,
 * are copied first. All rows are, if cells have another precision. Rows from `next` on are
 * prefetched. */
static void NAME(along)(const struct ts_dense_product *p, const struct ts_slab_view *v,
                        uint64_t row, uint64_t n, uint64_t next, void *to_y, struct scratch *s)
{
    const uint32_t tile = p->gemm->rows;
    const uint64_t high = (n + tile - 1) / tile * tile;
    const uint64_t there = NAME(in_place)(p, v->cells) ? n / tile * tile : 0;
    REAL *y = to_y, *a = s->tile, *out = s->out;
    struct wanted w = wanted_rows(p, v, n, next);
    for (uint64_t c = 0; c < v->part.cols; c += TS_GEMM_DEPTH) {
        const uint64_t left = v->part.cols - c;
        const uint32_t k = left < TS_GEMM_DEPTH ? (uint32_t)left : TS_GEMM_DEPTH;
        const int add = v->part.col + c > 0;
        for (uint64_t i = there; i < high; i++)
            if (i < n)
                NAME(get_values)(p, v, (row + i) * v->part.cols + c, k, a + i * TS_GEMM_STRIDE);
            else
                memset(a + i * TS_GEMM_STRIDE, 0, k * sizeof *a);
        for (uint32_t r = 0; r < p->width; r += panel_cols(p, r)) {
            const uint32_t cols = panel_cols(p, r);
            const REAL *b = (const REAL *)p->b + r * p->dense->inner + (v->part.col + c) * cols;
            ts_gemm_fn *product = p->gemm->along[cols > p->gemm->lanes];
            for (uint64_t i = 0; i < high; i += tile) {
                const struct ts_gemm_ahead ahead = next_wanted(&w, p, v, row + i, c, r, k);
                const REAL *from = i < there ? (const REAL *)v->cells + (row + i) * v->part.cols + c
                                             : a + i * TS_GEMM_STRIDE;
                const size_t stride = i < there ? v->part.cols : TS_GEMM_STRIDE;
                REAL *to = y + (row + i) * p->width + r;
                if (n - i >= tile) {
                    product(k, from, stride, b, to, p->width, add, &ahead);
                    continue;
                }
                product(k, from, stride, b, out, cols, 0, &ahead);
                for (uint64_t j = 0; j < n - i; j++)
                    for (uint32_t l = 0; l < cols; l++)
                        to[j * p->width + l] =
                            add ? to[j * p->width + l] + out[j * cols + l] : out[j * cols + l];
            }
        }
    }
}

/* Adds to W the product of columns col .. col + n - 1 of the slab, for each of its rows, and the
 * row's K (the product of outer factor rows). Columns are copied first if cells have another
 * precision, if they are the last ones and not a whole tile, or if rows of this length compete for
 * few places in the cache. Columns from `next` on are prefetched. */
static void NAME(across)(const struct ts_dense_product *p, const struct ts_slab_view *v,
                         uint64_t col, uint64_t n, uint64_t next, struct scratch *s)
{
    const uint32_t tile = p->gemm->rows;
    const uint64_t wide = (n + tile - 1) / tile * tile;
    const uint64_t there = NAME(in_place)(p, v->cells) && rows_spread(p, v) ? n / tile * tile : 0;
    REAL *a = s->tile;
    double *out = s->out;
    for (uint64_t row = 0; row < v->part.rows; row += TS_GEMM_DEPTH) {
        const uint64_t left = v->part.rows - row;
        const uint32_t k = left < TS_GEMM_DEPTH ? (uint32_t)left : TS_GEMM_DEPTH;
        struct strip_wanted w = wanted_strip(p, v, row, col, n, next);
        for (uint32_t i = 0; i < k && there < n; i++) {
            REAL *to = a + i * STRIP_STRIDE;
            NAME(get_values)(p, v, (row + i) * v->part.cols + col + there, n - there, to + there);
            for (uint64_t j = n; j < wide; j++)
                to[j] = 0;
        }
        for (uint32_t r = 0; r < p->width; r += panel_cols(p, r)) {
            const uint32_t cols = panel_cols(p, r);
            const REAL *b = (const REAL *)p->k + r * p->dense->slab_rows + row * cols;
            ts_gemm_fn *product = p->gemm->across[cols > p->gemm->lanes];
            for (uint64_t i = 0; i < wide; i += tile) {
                const struct ts_gemm_ahead ahead = next_of_strip(&w);
                const REAL *from =
                    i < there ? (const REAL *)v->cells + row * v->part.cols + col + i : a + i;
                const size_t stride = i < there ? v->part.cols : STRIP_STRIDE;
                double *to = p->w + (v->part.col + col + i) * p->width + r;
                if (n - i >= tile) {
                    product(k, from, stride, b, to, p->width, 1, &ahead);
                    continue;
                }
                product(k, from, stride, b, out, cols, 0, &ahead);
                for (uint64_t j = 0; j < n - i; j++)
                    for (uint32_t l = 0; l < cols; l++)
                        to[j * p->width + l] += out[j * cols + l];
            }
        }
    }
}

/* acc(:) := the sum over n rows x(q, :) of x(q, :) times row `at` + q of the grid `behind`, which
 * is the product of the factor rows for one combination of indices. */
PART void NAME(sum_rows)(const struct ts_dense_product *p, const struct ts_dense_grid *behind,
                         const REAL *x, uint64_t at, uint64_t n, uint32_t col, double *acc,
                         double *other, uint32_t cols)
{
    EACH_COL(c, cols)
        acc[c] = 0;
    if (behind->n == 1) {
        const uint64_t stride = p->stride[behind->mode[0]];
        const double *y = p->table[behind->mode[0]] + at * stride + col;
        for (uint64_t q = 0; q < n; q++, x += p->width, y += stride)
            EACH_COL(c, cols)
                acc[c] += x[c] * y[c];
        return;
    }
    struct grid_walk w;
    walk_from(p, behind, at, col, &w);
    for (uint64_t q = 0; q < n; q++, x += p->width) {
        const double *y = walk_row(&w, other, cols);
        EACH_COL(c, cols)
            acc[c] += x[c] * y[c];
        walk_on(p, behind, &w);
    }
}

/* Adds rows first .. end - 1 of z to a part of an MTTKRP. z is Y (cells times inner factors) or W
 * (cells times outer factors); row q is at z + (q - base) * width. Each row of z has an index in
 * several modes, one of which is the mode of the MTTKRP. The row is multiplied by the factor rows
 * of the other ones. */
PART void NAME(gather_cols)(const struct ts_dense_product *p, const struct ts_dense_target *t,
                            const void *rows, uint64_t base, uint64_t first, uint64_t end,
                            const struct gather_task *w, struct scratch *s, uint32_t n)
{
    const uint64_t dim = t->dim, after = t->after;
    const REAL *z = (const REAL *)rows + w->col;
    double few[FEW], *acc = n <= FEW ? few : s->row + p->width;
    double *const other = s->row + 2 * (size_t)p->width;
    for (uint64_t l = first / (dim * after); l * dim * after < end; l++) {
        const double *left = NULL;
        for (uint64_t i = w->row; i < w->row_end; i++) {
            const uint64_t from = (l * dim + i) * after;
            const uint64_t a = from > first ? from : first;
            const uint64_t e = from + after < end ? from + after : end;
            const REAL *x = z + (a - base) * p->width;
            double *sum = p->sum + i * p->rank + w->col;
            if (a >= e)
                continue;
            if (left == NULL) {
                struct grid_walk before;
                walk_from(p, &t->before, l, w->col, &before);
                left = walk_row(&before, s->row, n);
            }
            if (t->behind.n == 0) {
                /* no modes follow, so nothing is multiplied; adding 0 turns -0 into 0 */
                EACH_COL(c, n)
                    sum[c] += (0 + (double)x[c]) * left[c];
                continue;
            }
            NAME(sum_rows)(p, &t->behind, x, a - from, e - a, w->col, acc, other, n);
            EACH_COL(c, n)
                sum[c] += acc[c] * left[c];
        }
    }
}

static void NAME(gather)(const struct ts_dense_product *p, const struct ts_dense_target *t,
                         const void *rows, uint64_t base, uint64_t first, uint64_t end,
                         uint32_t task, struct scratch *s)
{
    const struct gather_task w = task_of(t, task, p->rank);
    const uint32_t n = w.col_end - w.col;
#define OF_COLS(N) NAME(gather_cols)(p, t, rows, base, first, end, &w, s, N)
    FEW_COLS(n, OF_COLS, OF_COLS(n))
#undef OF_COLS
}

static const struct slab_ops NAME(ops) = { NAME(put_products), NAME(along), NAME(across),
                                           NAME(gather) };

#undef REAL
#undef NAME
#undef GET_CELLS
