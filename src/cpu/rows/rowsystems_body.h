/* SPDX-License-Identifier: BSD-3-Clause */
/* rowsystems_body.h - solves the systems of several rows with their own Gram matrices, one row in
 * each lane: part of rowblock_body.h.
 *
 * A system is S a = m, with the Gram matrix S and the right side m of row a. The steps are U' U = S
 * (Cholesky), y = U'^-1 m, a = U^-1 y. U is stored in panels of SIDE columns. Panel p has rows 0 ..
 * SIDE (p + 1) - 1, so that SIDE x SIDE of its entries are computed in registers from rows that
 * follow each other. Each entry is the same sum as if one row was solved alone (gram_body.h), in
 * the same order, so the bits are the same. A pivot waits for a root and a quotient of the pivot
 * before. Here several rows share this wait, and a triangle leaves no lane empty. */
#define SIDE     TS_ROWBLOCK_SIDE
#define TRIANGLE (SIDE * (SIDE + 1) / 2)

static inline __attribute__((always_inline)) vec *panel(double *work, uint32_t p)
{
    return (vec *)work + SIDE * SIDE * ((size_t)p * (p + 1) / 2);
}

/* block(i) := entry at + i of the matrix S of each lane */
static inline __attribute__((always_inline)) void turn_entries(const double *const *x, size_t at,
                                                               vec *block)
{
    TS_EACH(i, TS_LANES)
        block[i] = *(const vec *)(x[i] + at);
    transpose(block);
}

/* Copies row k of the lanes' matrices S to the panels (ranges of columns), from column c on, a
 * multiple of TS_LANES. */
static void turn_row(const struct ts_rowsystems *x, uint32_t first, uint32_t panels, uint32_t k,
                     uint32_t c)
{
    vec block[TS_LANES];
    for (; c < panels * SIDE; c += TS_LANES) {
        turn_entries(x->s + first, (size_t)k * x->stride + c, block);
        TS_EACH(i, TS_LANES) {
            const uint32_t p = (c + i) / SIDE;
            if (p >= k / SIDE && p < panels)
                panel(x->work, p)[k * SIDE + (c + i) % SIDE] = block[i];
        }
    }
}

/* Copies rows b .. b + turned - 1 of S to the panels, for a diagonal block in rotated order. */
static void turn_block(const struct ts_rowsystems *x, uint32_t first, uint32_t panels, uint32_t b)
{
    const uint32_t n = x->turned, half = n / 2;
    vec block[TS_LANES];
    for (uint32_t d = 0; d <= half; d++)
        for (uint32_t c = 0; c < (d < half ? n : half);
             c += TS_LANES) { /* entries with d = half occur twice */
            turn_entries(x->s + first, (size_t)(b + d) * x->stride + b + c, block);
            TS_EACH(i, TS_LANES) {
                const uint32_t one = b + c + i, two = b + (c + i + d) % n;
                const uint32_t row = one < two ? one : two, column = one + two - row;
                if (column / SIDE < panels)
                    panel(x->work, column / SIDE)[row * SIDE + column % SIDE] = block[i];
            }
        }
}

/* Copies matrices S that are stored in tiles to the panels (ranges of columns). Both are in the
 * same order. */
static void turn_tiles(const struct ts_rowsystems *x, uint32_t first, uint32_t panels)
{
    static const uint8_t triangle[SIDE * SIDE] = { 0, 1, 5, 2, 6, 10, 3, 7, 11, 15 };
    vec block[TS_LANES], *to = panel(x->work, 0);
    size_t at = 0;
    for (uint32_t p = 0; p < panels; p++)
        for (uint32_t q = 0; q <= p; q++, to += SIDE * SIDE, at += SIDE * SIDE)
            for (uint32_t c = 0; c < (q < p ? SIDE * SIDE : TRIANGLE); c += TS_LANES) {
                turn_entries(x->s + first, at + c, block);
                TS_EACH(i, TS_LANES)
                    if (q < p)
                        to[(c + i) % SIDE * SIDE + (c + i) / SIDE] = block[i];
                    else if (c + i < TRIANGLE)
                        to[triangle[c + i]] = block[i];
            }
}

/* Copies the matrices S of rows first .. first + TS_LANES - 1, one for each lane, to the panels,
 * and their right sides m to y. */
static void turn_systems(const struct ts_rowsystems *x, uint32_t first, uint32_t panels, vec *y)
{
    const uint32_t n = panels * SIDE;
    if (x->tiles)
        turn_tiles(x, first, panels);
    for (uint32_t b = 0; b < n && x->turned > 0; b += x->turned)
        turn_block(x, first, panels, b);
    for (uint32_t k = 0; k < n && !x->tiles; k++)
        turn_row(x, first, panels, k,
                 x->turned > 0 ? k / x->turned * x->turned + x->turned : k / TS_LANES * TS_LANES);
    for (uint32_t c = 0; c < n; c += TS_LANES)
        turn_entries(x->m + first, c, y + c);
}

/* Computes U in rows before .. before + SIDE - 1 of the panel `right`, for WIDE columns from c on.
 * left: the panel whose diagonal tile is in these rows. */
#define WIDE (TS_LANES == 8 ? 4 : 2) /* columns of U computed at a time, limited by registers */
static inline __attribute__((always_inline)) void factor_tile(const vec *left, vec *right,
                                                              uint32_t before, uint32_t c)
{
    vec u[SIDE][WIDE], *to = right + (size_t)before * SIDE + c;
    const vec *own = left + (size_t)before * SIDE;
    TS_EACH(i, SIDE) {
        TS_EACH(j, WIDE)
            u[i][j] = to[i * SIDE + j];
    }
    for (uint32_t k = 0; k < before; k++, left += SIDE) {
        const vec *x = right + (size_t)k * SIDE + c;
        TS_EACH(i, SIDE) {
            TS_EACH(j, WIDE)
                u[i][j] -= left[i] * x[j];
        }
    }
    TS_EACH(k, SIDE) {
        TS_EACH(j, WIDE)
            u[k][j] *= own[k * SIDE + k];
        TS_EACH_FROM(i, k + 1, SIDE) {
            TS_EACH(j, WIDE)
                u[i][j] -= own[k * SIDE + i] * u[k][j];
        }
    }
    TS_EACH(i, SIDE) {
        TS_EACH(j, WIDE)
            to[i * SIDE + j] = u[i][j];
    }
}

/* Computes U in the diagonal tile of a panel, with inverses as its diagonal, and the entries of y
 * in these rows. */
static inline __attribute__((always_inline)) void factor_diagonal(vec *right, uint32_t before,
                                                                  vec *y, vec more, double cut)
{
    const vec zero = { 0 }, one = zero + 1.0;
    vec u[SIDE][SIDE], z[SIDE], diagonal[SIDE], *to = right + (size_t)before * SIDE;
    TS_EACH(i, SIDE) {
        TS_EACH_FROM(j, i, SIDE)
            u[i][j] = to[i * SIDE + j];
        u[i][i] = diagonal[i] = u[i][i] + more;
        z[i] = y[before + i];
    }
    for (uint32_t k = 0; k < before; k++, right += SIDE) {
        TS_EACH(i, SIDE) {
            TS_EACH_FROM(j, i, SIDE)
                u[i][j] -= right[i] * right[j];
            z[i] -= right[i] * y[k];
        }
    }
    TS_EACH(k, SIDE) {
        const vec pivot = u[k][k],
                  by = choose(pivot > cut * diagonal[k], one / TS_ROOT(pivot), zero);
        z[k] *= by;
        u[k][k] = by;
        TS_EACH_FROM(j, k + 1, SIDE)
            u[k][j] *= by;
        TS_EACH_FROM(i, k + 1, SIDE) {
            TS_EACH_FROM(j, i, SIDE)
                u[i][j] -= u[k][i] * u[k][j];
            z[i] -= u[k][i] * z[k];
        }
    }
    TS_EACH(i, SIDE) {
        TS_EACH_FROM(j, i, SIDE)
            to[i * SIDE + j] = u[i][j];
        y[before + i] = z[i];
    }
}

/* y := U^-1 y for the columns of a panel, and subtracts the columns times these entries from the
 * entries of y before them. */
static inline __attribute__((always_inline)) void substitute(const vec *u, uint32_t before, vec *y)
{
    const vec *own = u + (size_t)before * SIDE;
    vec a[SIDE];
    TS_EACH(i, SIDE)
        a[i] = y[before + i];
    TS_UNROLL
    for (uint32_t k = SIDE; k-- > 0;) {
        a[k] *= own[k * SIDE + k];
        TS_EACH(i, k)
            a[i] -= own[i * SIDE + k] * a[k];
        y[before + k] = a[k];
    }
    for (uint32_t i = 0; i < before; i++, u += SIDE) {
        vec sum = y[i];
        TS_UNROLL
        for (uint32_t k = SIDE; k-- > 0;)
            sum -= u[k] * a[k];
        y[i] = sum;
    }
}

static void solve_lanes(const struct ts_rowsystems *x, uint32_t first)
{
    const uint32_t panels = (x->rank + SIDE - 1) / SIDE;
    vec *y = panel(x->work, panels);
    const vec more = *(const vec *)(x->more + first);
    turn_systems(x, first, panels, y);
    for (uint32_t p = 0; p < panels; p++) {
        for (uint32_t q = 0; q < p; q++)
            for (uint32_t c = 0; c < SIDE; c += WIDE)
                factor_tile(panel(x->work, q), panel(x->work, p), q * SIDE, c);
        factor_diagonal(panel(x->work, p), p * SIDE, y, more, x->cut);
    }
    for (uint32_t p = panels; p-- > 0;)
        substitute(panel(x->work, p), p * SIDE, y);
    for (uint32_t k = 0; k < x->rank; k++)
        *(vec *)(x->a + (size_t)k * TS_ROWBLOCK_SYSTEMS + first) = y[k];
}

static void solve_systems(const struct ts_rowsystems *x)
{
    for (uint32_t first = 0; first < x->n; first += TS_LANES)
        solve_lanes(x, first);
}
