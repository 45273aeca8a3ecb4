/* SPDX-License-Identifier: BSD-3-Clause */
/* rowadmm_body.h - rows on the simplex by ADMM (TS_ROW_SIMPLEX of stream/row_update.h): part of
 * rowblock_body.h.
 *
 * TS_ROWBLOCK_UNIT rows at a time are transposed, so that each row has a lane: x(r, i) is entry r
 * of row i. Then tile() multiplies by G and by (G + rho I)^-1, and a projection works on all rows
 * at once. Lanes without a row are computed and not used.
 *
 * A panel has as many rows as a tile has columns. Its rows go through all rounds together, so their
 * data stays in the first-level cache: m, the old row a, v and x. Here h is the row without
 * constraints and u the scaled dual row. A round keeps only v = h - u and the two numbers per row
 * that the projection P needs, because a is P(v). With u = a - v, the next h is (m + rho (2 a - v))
 * (G + rho I)^-1, and the next v is v - a + h. */
#define PANEL_ROWS (TS_TILE_VECS * TS_LANES)

/* Returns the address of entry r of a unit (32 rows), for vector k of its rows. */
static inline __attribute__((always_inline)) vec *at(const double *x, uint32_t r, uint32_t k)
{
    return (vec *)(x + (size_t)r * TS_ROWBLOCK_UNIT) + k;
}

/* sum + x for lanes with y > t, otherwise sum */
#ifdef TS_ADD_ABOVE
#define ADD_ABOVE(sum, x, y, t) TS_ADD_ABOVE(sum, x, y, t)
#else
#define ADD_ABOVE(sum, x, y, t) ((sum) + choose((y) > (t), x, (vec){ 0 }))
#endif

/* For each row: its largest entry `most`, and a number t. With y = entry - most, the entries y - t
 * that are positive have the sum 1. */
struct threshold {
    vec most[TS_TILE_VECS], t[TS_TILE_VECS];
};

/* out(i, :) := the sum over k of p(i, k) x(k, :); with `add`, += instead */
static inline __attribute__((always_inline)) void
times_panel(uint32_t rank, uint32_t padded, const double *p, const double *x, double *out, int add)
{
    for (uint32_t i = 0; i < padded; i += TS_TILE_ROWS)
        tile(rank, p + (size_t)i * padded, padded, 1, x, TS_ROWBLOCK_UNIT,
             out + (size_t)i * TS_ROWBLOCK_UNIT, TS_TILE_VECS, add);
}

/* Finds the threshold of the projection by Newton's steps on the sum of the entries above it. The
 * first step may start anywhere. From the second on, the threshold rises as entries fall below it,
 * and stops when none does. near: a guess, relative to the entries. It is tested while the largest
 * entry is searched for. The largest entry is then subtracted, so that differences of entries near
 * it are exact. */
static inline __attribute__((always_inline)) void
find_threshold(uint32_t rank, const double *x, const vec *near, struct threshold *ret)
{
    const vec zero = { 0 }, one = zero + 1.0;
    vec sum[TS_TILE_VECS], count[TS_TILE_VECS];
    TS_EACH(k, TS_TILE_VECS) {
        ret->most[k] = *at(x, 0, k);
        sum[k] = count[k] = zero;
    }
    for (uint32_t r = 0; r < rank; r++) {
        TS_EACH(k, TS_TILE_VECS) {
            const vec y = *at(x, r, k), above = y - near[k];
            ret->most[k] = LARGER(y, ret->most[k]);
            sum[k] = ADD_ABOVE(sum[k], above, above, zero);
            count[k] = ADD_ABOVE(count[k], one, above, zero);
        }
    }
    TS_EACH(k, TS_TILE_VECS) { /* any t from -1 to 0 leaves at least one entry above it */
        const vec t = near[k] + (sum[k] - one) / count[k] - ret->most[k];
        const mask good = (t > -one) & (t < zero);
        ret->t[k] = choose(good, t, -one);
        count[k] = choose(good, count[k], zero);
    }
    for (uint32_t round = 0; round < rank + 2; round++) {
        vec now[TS_TILE_VECS], differ = zero;
        TS_EACH(k, TS_TILE_VECS)
            sum[k] = now[k] = zero;
        for (uint32_t r = 0; r < rank; r++) {
            TS_EACH(k, TS_TILE_VECS) {
                const vec y = *at(x, r, k) - ret->most[k];
                sum[k] = ADD_ABOVE(sum[k], y, y, ret->t[k]);
                now[k] = ADD_ABOVE(now[k], one, y, ret->t[k]);
            }
        }
        TS_EACH(k, TS_TILE_VECS) {
            ret->t[k] = (sum[k] - one) / now[k];
            differ += choose(now[k] != count[k], one, zero);
            count[k] = now[k];
        }
        if (add_lanes(differ) == 0)
            break;
    }
}

/* Returns an entry of the projected row, the nearest row of nonnegative entries with sum 1. */
static inline __attribute__((always_inline)) vec nearest(vec x, uint32_t k,
                                                         const struct threshold *t)
{
    const vec zero = { 0 }, y = x - t->most[k] - t->t[k];
    return choose(y > zero + TS_ROW_NONE, y, zero);
}

/* ret := the objective 1/2 x G x' - m x' of each row x; h has x G */
static inline __attribute__((always_inline)) void
value_panel(uint32_t rank, const double *m, const double *x, const double *h, vec *ret)
{
    TS_EACH(k, TS_TILE_VECS)
        ret[k] = (vec){ 0 };
    for (uint32_t r = 0; r < rank; r++) {
        TS_EACH(k, TS_TILE_VECS)
            ret[k] += *at(x, r, k) * (*at(h, r, k) * 0.5 - *at(m, r, k));
    }
}

/* Begins the rounds, with u from the gradient at a. On entry v has a G. x := m + rho (a + u), v :=
 * -u, and near := what the projection of a - u subtracts. */
static inline __attribute__((always_inline)) void begin_panel(uint32_t rank, double rho,
                                                              const double *m, const double *a,
                                                              double *v, double *x, vec *near)
{
    const vec zero = { 0 }, one = zero + 1.0;
    const double inverse = 1 / rho;
    vec count[TS_TILE_VECS];
    TS_EACH(k, TS_TILE_VECS)
        near[k] = count[k] = zero;
    for (uint32_t r = 0; r < rank; r++) {
        TS_EACH(k, TS_TILE_VECS) {
            const vec g = (*at(v, r, k) - *at(m, r, k)) * inverse;
            *at(v, r, k) = g;
            near[k] = ADD_ABOVE(near[k], -g, *at(a, r, k), zero);
            count[k] = ADD_ABOVE(count[k], one, *at(a, r, k), zero);
        }
    }
    TS_EACH(k, TS_TILE_VECS)
        near[k] = near[k] / choose(count[k] > zero, count[k], one);
    for (uint32_t r = 0; r < rank; r++) {
        TS_EACH(k, TS_TILE_VECS) {
            const vec less = -*at(v, r, k), y = *at(a, r, k);
            const vec now = choose((y > zero) | (less > near[k]), near[k], less);
            *at(v, r, k) = now;
            *at(x, r, k) = *at(m, r, k) + (y - now) * rho;
        }
    }
}

/* Makes all rounds, from x and v of begin_panel. x := the last projected row. */
static inline __attribute__((always_inline)) void rounds_panel(uint32_t rank,
                                                               const struct ts_rowblock *b,
                                                               const double *m, double *v,
                                                               double *x, vec *near)
{
    struct threshold t;
    for (uint32_t round = 1;; round++) {
        times_panel(rank, b->padded, b->inverse, x, v, 1);
        find_threshold(rank, v, near, &t);
        if (round >= b->rounds)
            break;
        for (uint32_t r = 0; r < rank; r++) {
            TS_EACH(k, TS_TILE_VECS) {
                const vec y = *at(v, r, k), now = nearest(y, k, &t), less = y - now;
                *at(x, r, k) = *at(m, r, k) + (now - less) * b->rho;
                *at(v, r, k) = less;
            }
        }
        TS_EACH(k, TS_TILE_VECS)
            near[k] = t.most[k] + t.t[k];
    }
    for (uint32_t r = 0; r < rank; r++) {
        TS_EACH(k, TS_TILE_VECS)
            *at(x, r, k) = nearest(*at(v, r, k), k, &t);
    }
}

static void solve_panel(uint32_t rank, const struct ts_rowblock *b, double *m)
{
    const size_t step = (size_t)b->padded * TS_ROWBLOCK_UNIT;
    double *a = m + step, *v = a + step, *x = v + step;
    vec near[TS_TILE_VECS] = { { 0 } }, before[TS_TILE_VECS], after[TS_TILE_VECS];
    struct threshold t;
    find_threshold(rank, a, near,
                   &t); /* rows of the last sweep have the sum 1, so nothing is subtracted */
    for (uint32_t r = 0; r < rank; r++) {
        TS_EACH(k, TS_TILE_VECS)
            *at(a, r, k) = nearest(*at(a, r, k), k, &t);
    }
    times_panel(rank, b->padded, b->w, a, v, 0);
    value_panel(rank, m, a, v, before);
    begin_panel(rank, b->rho, m, a, v, x, near);
    rounds_panel(rank, b, m, v, x, near);
    times_panel(rank, b->padded, b->w, x, v, 0);
    value_panel(rank, m, x, v, after);
    for (uint32_t r = 0; r < rank; r++) {
        TS_EACH(k, TS_TILE_VECS)
            *at(a, r, k) = choose(after[k] > before[k], *at(a, r, k), *at(x, r, k));
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
        fetch_rows(b->product, row + i + TS_ROWBLOCK_UNIT, TS_ROWBLOCK_UNIT);
        fetch_rows(f, row + i + TS_ROWBLOCK_UNIT, TS_ROWBLOCK_UNIT);
        for (uint32_t c = 0; c < k; c += PANEL_ROWS)
            solve_panel(f->rank, b, b->unit + c);
        turn_back(f, row + i, k, b->padded, a, b->a + (size_t)i * b->padded);
    }
}
