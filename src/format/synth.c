#include "format/synth.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "format/value_table.h"

/* Sides of the blocks, as equal as the modes allow, shortest modes first. */
static int plan_blocks(struct ts_synth *s, struct ts_err *err)
{
    uint64_t cells = s->nnz / s->planted;
    uint32_t left = s->order;
    memset(s->side, 0, sizeof s->side);
    for (; left > 0; left--) {
        uint32_t best = s->order;
        uint64_t most, side;
        for (uint32_t m = 0; m < s->order; m++)
            if (s->side[m] == 0 && (best == s->order || s->dim[m] < s->dim[best]))
                best = m;
        most = s->dim[best] / s->planted;
        if (most == 0)
            return ts_fail(err, TS_EARG, "mode %u, of %llu, is too short for %u planted blocks",
                           best + 1, (unsigned long long)s->dim[best], s->planted);
        side = (uint64_t)(pow((double)cells, 1.0 / left) + 1e-9);
        side = side < 1 ? 1 : side > most ? most : side;
        s->side[best] = side;
        cells /= side;
    }
    s->nnz = s->planted;
    for (uint32_t m = 0; m < s->order; m++)
        s->nnz *= s->side[m];
    return 0;
}

int ts_synth_init(struct ts_synth *s, struct ts_err *err)
{
    if (s->order < TS_MIN_ORDER || s->order > TS_MAX_ORDER)
        return ts_fail(err, TS_EARG, "a tensor of %u modes; %u to %u are possible", s->order,
                       TS_MIN_ORDER, TS_MAX_ORDER);
    for (uint32_t m = 0; m < s->order; m++) {
        if (s->dim[m] == 0 || s->dim[m] > TS_MAX_DIM)
            return ts_fail(err, TS_EARG, "the size of mode %u must be 1 to 2^40", m + 1);
        if (!(s->power[m] >= 0 && s->power[m] <= 100))
            return ts_fail(err, TS_EARG, "the power of mode %u must be 0 to 100", m + 1);
    }
    if (s->nnz == 0 || s->nnz > TS_MAX_NNZ)
        return ts_fail(err, TS_EARG, "the number of draws must be 1 to 2^40");
    if (s->value_last < s->value_first || s->value_last > UINT64_C(1) << 24)
        return ts_fail(err, TS_EARG, "values must be a range of whole numbers up to 2^24");
    if (!(s->noise >= 0 && s->noise <= 10))
        return ts_fail(err, TS_EARG, "noise must be 0 to 10");
    return s->planted > 0 ? plan_blocks(s, err) : 0;
}

/* Draw x in [0, 1) to popularity rank 0..n-1 with density proportional to (rank + 1)^-a: the inverse
 * of the continuous law on [1, n + 1), cut to whole ranks. */
static uint64_t power_rank(double x, double a, uint64_t n)
{
    const double top = (double)n + 1;
    double y;
    uint64_t k;
    if (fabs(a - 1) < 1e-9)
        y = exp(x * log(top));
    else
        y = pow(1 + x * (pow(top, 1 - a) - 1), 1 / (1 - a));
    k = y < 1 ? 0 : (uint64_t)y - 1;
    return k < n ? k : n - 1;
}

/* A bijection of 0..n-1 that scatters neighbours: a Feistel network on the next even number of bits,
 * walked until it falls inside. */
static uint64_t scatter(uint64_t k, uint64_t n, uint64_t key)
{
    uint32_t half = 1;
    while (half < 20 && UINT64_C(1) << 2 * half < n)
        half++;
    do {
        const uint64_t mask = (UINT64_C(1) << half) - 1;
        uint64_t left = k >> half, right = k & mask;
        for (uint32_t round = 0; round < 4; round++) {
            const uint64_t next = left ^ (ts_mix(ts_mix(key + round) + right) & mask);
            left = right;
            right = next;
        }
        k = left << half | right;
    } while (k >= n);
    return k;
}

/* Uniform in 0..n-1 from 64 random bits: the high half of their product. */
static inline uint64_t below(uint64_t random, uint64_t n)
{
    return (uint64_t)((unsigned __int128)random * n >> 64);
}

/* Cell i of the planted blocks: its indices and value. */
static double planted_cell(const struct ts_synth *s, uint64_t i, uint64_t key, uint64_t state,
                           uint64_t *index)
{
    const double u = 1 - ts_unit(ts_mix(state + 1)), v = ts_unit(ts_mix(state + 2));
    const double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
    const uint64_t block = i / (s->nnz / s->planted);
    double product = 1;
    for (uint32_t m = 0; m < s->order; m++) {
        const uint64_t row = block * s->side[m] + i % s->side[m];
        i /= s->side[m];
        index[m] = scatter(row, s->dim[m], key + 1000 * (m + 1));
        product *= 0.5 + ts_unit(ts_mix(ts_mix(key + m) + row));
    }
    return product * (1 + s->noise * normal);
}

static double draw_value(const struct ts_synth *s, uint64_t state)
{
    if (s->value_last > 0)
        return (double)(s->value_first +
                        below(ts_mix(state), s->value_last - s->value_first + 1));
    return 1 - ts_unit(ts_mix(state));
}

static void draw_index(const struct ts_synth *s, uint64_t key, uint64_t state, uint64_t *index)
{
    for (uint32_t m = 0; m < s->order; m++) {
        const uint64_t random = ts_mix(state + 16 + m);
        index[m] = s->power[m] > 0
                       ? scatter(power_rank(ts_unit(random), s->power[m], s->dim[m]), s->dim[m],
                                 key + 1000 * (m + 1))
                       : below(random, s->dim[m]);
    }
}

void ts_synth_draw(const struct ts_synth *s, uint64_t first, uint64_t n, struct ts_batch *b)
{
    const uint64_t key = ts_mix(s->seed);
    for (uint64_t i = first; i < first + n; i++) {
        const uint64_t state = ts_mix(key + i);
        uint64_t *index = b->index + b->n * s->order, bits;
        double value;
        if (s->planted > 0) {
            value = planted_cell(s, i, key, state, index);
        } else {
            draw_index(s, key, state, index);
            value = draw_value(s, state + 8);
        }
        for (uint32_t m = 0; m < s->order; m++)
            b->max[m] = index[m] > b->max[m] ? index[m] : b->max[m];
        bits = ts_value_to_bits(value, s->value_bytes);
        b->n_read++;
        if (ts_value_of_bits(bits, s->value_bytes) == 0.0) {
            b->n_zeros++;
            continue;
        }
        b->value[b->n++] = bits;
    }
}
