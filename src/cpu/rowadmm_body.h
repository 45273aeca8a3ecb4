/* SPDX-License-Identifier: BSD-3-Clause */
/* rowadmm_body.h - rows on the simplex by ADMM (TS_ROW_SIMPLEX of stream/row_update.h): part of rowblock_body.h.
 *
 * A unit of rows is turned, so that each row has a lane: x(r, i) is entry r of row i. Products with G and (G + rho I)^-1 then
 * are those of tile(), and a projection has no order of rows in it. Lanes without a row are computed in vain.
 * Places of a unit: m, a, u, x (what is projected), h, and a as it was. */
#define UNIT_VECS (TS_ROWBLOCK_UNIT / TS_LANES)

/* out(i, :) := sum over k of p(i, k) x(k, :) */
static void times_unit(uint32_t rank, uint32_t padded, const double *p, const double *x,
                       double *out)
{
    for (uint32_t c = 0; c < TS_ROWBLOCK_UNIT; c += TS_TILE_VECS * TS_LANES)
        for (uint32_t i = 0; i < padded; i += TS_TILE_ROWS)
            tile(rank, p + (size_t)i * padded, padded, 1, x + c, TS_ROWBLOCK_UNIT,
                 out + (size_t)i * TS_ROWBLOCK_UNIT + c, TS_TILE_VECS, 0);
}

/* Of TS_LANES rows: x := the nearest entries of 0 or more whose sum is 1, those above a threshold t less t. With the greatest
 * subtracted before, t is negative and one entry stays. t rises as entries fall below it, until none does. */
static void project_lanes(uint32_t rank, double *x)
{
    const vec zero = { 0 }, one = zero + 1.0, none = zero + TS_ROW_NONE;
    vec most = *(const vec *)x, t, count = zero + (double)rank, sum = zero;
    for (uint32_t r = 1; r < rank; r++) {
        const vec y = *(const vec *)(x + (size_t)r * TS_ROWBLOCK_UNIT);
        most = choose(y > most, y, most);
    }
    for (uint32_t r = 0; r < rank; r++) {
        vec *y = (vec *)(x + (size_t)r * TS_ROWBLOCK_UNIT);
        *y -= most;
        sum += *y;
    }
    t = (sum - one) / count;
    for (uint32_t round = 0; round < rank; round++) {
        vec left = zero, less;
        sum = zero;
        for (uint32_t r = 0; r < rank; r++) {
            const vec y = *(const vec *)(x + (size_t)r * TS_ROWBLOCK_UNIT);
            sum += choose(y > t, y, zero);
            left += choose(y > t, one, zero);
        }
        less = choose(left < count, one, zero);
        if (add_lanes(less) == 0)
            break;
        count = left;
        t = (sum - one) / count;
    }
    for (uint32_t r = 0; r < rank; r++) {
        vec *y = (vec *)(x + (size_t)r * TS_ROWBLOCK_UNIT);
        *y = choose(*y - t > none, *y - t, zero);
    }
}

static void project_unit(uint32_t rank, double *x)
{
    for (uint32_t i = 0; i < TS_ROWBLOCK_UNIT; i += TS_LANES)
        project_lanes(rank, x + i);
}

/* ret := 1/2 a G a' - m a' of each row, h being a G */
static void value_unit(uint32_t rank, const double *m, const double *a, const double *h, vec *ret)
{
    memset(ret, 0, UNIT_VECS * sizeof *ret);
    for (uint32_t r = 0; r < rank; r++)
        for (uint32_t v = 0; v < UNIT_VECS; v++) {
            const size_t at = (size_t)r * TS_ROWBLOCK_UNIT + (size_t)v * TS_LANES;
            ret[v] +=
                *(const vec *)(a + at) * (*(const vec *)(h + at) * 0.5 - *(const vec *)(m + at));
        }
}

/* u from the gradient at a, h being a G. */
static void begin_dual(uint32_t rank, double rho, const double *m, const double *a, const double *h,
                       double *u)
{
    const vec zero = { 0 }, one = zero + 1.0;
    for (uint32_t v = 0; v < TS_ROWBLOCK_UNIT; v += TS_LANES) {
        vec sum = zero, count = zero, t;
        for (uint32_t r = 0; r < rank; r++) {
            const size_t at = (size_t)r * TS_ROWBLOCK_UNIT + v;
            const vec y = *(const vec *)(a + at);
            const vec g = (*(const vec *)(h + at) - *(const vec *)(m + at)) / (zero + rho);
            *(vec *)(u + at) = g;
            sum += choose(y > zero, g, zero);
            count += choose(y > zero, one, zero);
        }
        t = sum / choose(count > zero, count, one);
        for (uint32_t r = 0; r < rank; r++) {
            const size_t at = (size_t)r * TS_ROWBLOCK_UNIT + v;
            const vec g = *(const vec *)(u + at);
            *(vec *)(u + at) = choose((*(const vec *)(a + at) > zero) | (g < t), t, g);
        }
    }
}

static void round_unit(uint32_t rank, const struct ts_rowblock *b, const double *m, double *a,
                       double *u, double *x, double *h)
{
    const size_t all = (size_t)rank * TS_ROWBLOCK_UNIT;
    for (size_t at = 0; at < all; at += TS_LANES)
        *(vec *)(x + at) =
            *(const vec *)(m + at) + (*(const vec *)(a + at) + *(const vec *)(u + at)) * b->rho;
    times_unit(rank, b->padded, b->inverse, x, h);
    for (size_t at = 0; at < all; at += TS_LANES)
        *(vec *)(a + at) = *(const vec *)(h + at) - *(const vec *)(u + at);
    project_unit(rank, a);
    for (size_t at = 0; at < all; at += TS_LANES)
        *(vec *)(u + at) += *(const vec *)(a + at) - *(const vec *)(h + at);
}

static void solve_unit(uint32_t rank, const struct ts_rowblock *b)
{
    const size_t step = (size_t)b->padded * TS_ROWBLOCK_UNIT;
    double *m = b->unit, *a = m + step, *u = a + step, *x = u + step, *h = x + step,
           *old = h + step;
    vec before[UNIT_VECS], after[UNIT_VECS];
    project_unit(rank, a);
    memcpy(old, a, step * sizeof *old);
    times_unit(rank, b->padded, b->w, a, h);
    value_unit(rank, m, a, h, before);
    begin_dual(rank, b->rho, m, a, h, u);
    for (uint32_t round = 0; round < b->rounds; round++)
        round_unit(rank, b, m, a, u, x, h);
    times_unit(rank, b->padded, b->w, a, h);
    value_unit(rank, m, a, h, after);
    for (uint32_t r = 0; r < rank; r++)
        for (uint32_t v = 0; v < UNIT_VECS; v++) {
            const size_t at = (size_t)r * TS_ROWBLOCK_UNIT + (size_t)v * TS_LANES;
            *(vec *)(a + at) =
                choose(after[v] > before[v], *(const vec *)(old + at), *(const vec *)(a + at));
        }
}

static void simplex(struct ts_fmat *f, uint64_t row, uint32_t n, const struct ts_rowblock *b)
{
    double *a = b->unit + (size_t)b->padded * TS_ROWBLOCK_UNIT;
    if (b->wants_m)
        load_rows(b->product, row, n, n, b->padded, b->m);
    for (uint32_t i = 0; i < n; i += TS_ROWBLOCK_UNIT) {
        const uint32_t k = n - i < TS_ROWBLOCK_UNIT ? n - i : TS_ROWBLOCK_UNIT;
        turn_unit(f, row + i, k, b);
        solve_unit(f->rank, b);
        turn_back(f, row + i, k, b->padded, a, b->a + (size_t)i * b->padded);
    }
}
