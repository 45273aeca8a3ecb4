/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimates how many nodes the fibre tree has for each choice of its leaf mode, and chooses the
 * order of levels with the lowest cost of reading. */
#include "build/write/level_order.h"

#include <math.h>
#include <string.h>

#include "base/machine/isa.h"
#include "base/rng.h"

#define REGISTERS (1u << TS_FIBRES_BITS)

void ts_fibres_init(struct ts_fibres *f, const struct ts_record_layout *layout, uint32_t order)
{
    memset(f, 0, sizeof *f);
    f->order = order;
    f->words = layout->words;
    for (uint32_t m = 0; m < order; m++)
        for (uint32_t k = 0; k < order; k++)
            if (k != m)
                ts_record_put(layout, f->mask[m], k,
                              layout->width[k] == 0 ? 0 : UINT64_MAX >> (64 - layout->width[k]));
}

#define INLINE static inline __attribute__((always_inline))
#define PIECE  256u

/* Returns the hash of the indices in a record without those of one mode, which the mask clears. */
INLINE uint64_t hash_all(const uint64_t *rec, uint32_t words, const uint64_t *mask)
{
    uint64_t hash = 0;
    for (uint32_t w = 0; w < words; w++)
        hash = ts_mix(hash ^ (rec[w] & mask[w]));
    return hash;
}

/* Defines a function that hashes n records. Its loop is vectorized for processors that multiply
 * vectors of 64-bit numbers. */
#define HASHES(name, LOOP)                                                                  \
    static void name(const uint64_t *rec, uint64_t n, uint32_t words, const uint64_t *mask, \
                     uint64_t *hash)                                                        \
    {                                                                                       \
        const uint64_t first = mask[0], second = words > 1 ? mask[1] : 0;                   \
        if (words == 1) {                                                                   \
            LOOP for (uint64_t i = 0; i < n; i++) hash[i] = ts_mix(rec[i] & first);         \
        } else if (words == 2) {                                                            \
            LOOP for (uint64_t i = 0; i < n; i++) hash[i] =                                 \
                ts_mix(ts_mix(rec[2 * i] & first) ^ (rec[2 * i + 1] & second));             \
        } else {                                                                            \
            for (uint64_t i = 0; i < n; i++)                                                \
                hash[i] = hash_all(rec + i * words, words, mask);                           \
        }                                                                                   \
    }

HASHES(hash_any, )

#ifdef __x86_64__
#include "base/machine/target_avx512.h"
HASHES(hash_avx512, _Pragma("omp simd"))
#include "base/machine/target_pop.h"
#else
#define hash_avx512 hash_any
#endif

void ts_fibres_add(struct ts_fibres *f, const uint64_t *rec, uint64_t n)
{
    const int wide = ts_isa_here(TS_ISA_AVX512);
    uint64_t hash[PIECE];
    for (uint64_t first = 0; first < n; first += PIECE) {
        const uint32_t count = n - first < PIECE ? (uint32_t)(n - first) : PIECE;
        for (uint32_t m = 0; m < f->order; m++) {
            uint8_t *longest = f->longest[m];
            (wide ? hash_avx512 : hash_any)(rec + first * f->words, count, f->words, f->mask[m],
                                            hash);
            for (uint32_t i = 0; i < count; i++) {
                const uint32_t r = (uint32_t)hash[i] % REGISTERS;
                const uint8_t run = (uint8_t)(__builtin_clzll(hash[i] | REGISTERS) + 1);
                if (run > longest[r])
                    longest[r] = run;
            }
        }
    }
}

void ts_fibres_merge(struct ts_fibres *into, const struct ts_fibres *from)
{
    for (uint32_t m = 0; m < into->order; m++)
        for (uint32_t r = 0; r < REGISTERS; r++)
            if (from->longest[m][r] > into->longest[m][r])
                into->longest[m][r] = from->longest[m][r];
}

double ts_fibres_estimate(const struct ts_fibres *f, uint32_t mode)
{
    const double m = REGISTERS, alpha = 0.7213 / (1 + 1.079 / m);
    double sum = 0, estimate;
    uint32_t empty = 0;
    for (uint32_t r = 0; r < REGISTERS; r++) {
        sum += ldexp(1.0, -(int)f->longest[mode][r]);
        empty += f->longest[mode][r] == 0;
    }
    estimate = alpha * m * m / sum;
    return estimate <= 2.5 * m && empty > 0 ? m * log(m / empty) : estimate;
}

/* Returns the relative time to read one random row of 128 bytes from a factor matrix with n_rows
 * rows. Measured on a server CPU: a core reads 40, 23, 12.5 and 7 GB/s from matrices of 1, 4, 16
 * and 64 MB, and about twice 40 GB/s from the first-level cache. */
static double row_cost(uint64_t n_rows)
{
    static const struct {
        double bytes, cost;
    } at[] = { { 32e3, 0.5 }, { 1e6, 1.0 }, { 4e6, 1.7 }, { 16e6, 3.2 }, { 64e6, 5.7 } };
    const double bytes = 128.0 * (double)n_rows;
    if (bytes <= at[0].bytes)
        return at[0].cost;
    for (uint32_t i = 1; i < sizeof at / sizeof *at; i++)
        if (bytes <= at[i].bytes)
            return at[i - 1].cost + (at[i].cost - at[i - 1].cost) * log(bytes / at[i - 1].bytes) /
                                        log(at[i].bytes / at[i - 1].bytes);
    return at[4].cost;
}

/* Sorts the modes other than `mode` and `leaf` by their number of rows, fewest first. Levels of few
 * rows come first, because then many successive nonzeros have the same row there. */
static void sort_levels(uint32_t order, uint32_t mode, uint32_t leaf, const uint64_t n_rows[],
                        uint8_t level[])
{
    uint32_t n = 1;
    level[0] = (uint8_t)mode;
    for (uint32_t m = 0; m < order; m++) {
        uint32_t at = n;
        if (m == mode || m == leaf)
            continue;
        for (; at > 1 && n_rows[level[at - 1]] > n_rows[m]; at--)
            level[at] = level[at - 1];
        level[at] = (uint8_t)m;
        n++;
    }
    level[n] = (uint8_t)leaf;
}

void ts_level_order(uint32_t order, uint32_t mode, uint64_t nnz, const uint64_t n_rows[],
                    const double fibres[], uint8_t level[])
{
    double best = INFINITY, best_waste = INFINITY;
    uint32_t best_leaf = 0;
    for (uint32_t leaf = 0; leaf < order; leaf++) {
        double cost, waste, nodes;
        if (leaf == mode)
            continue;
        sort_levels(order, mode, leaf, n_rows, level);
        cost = (double)nnz * row_cost(n_rows[leaf]);
        nodes = (double)n_rows[mode];
        /* upper bounds of the nodes of level l: all combinations of rows of levels 0 to l, and
         * fibres[leaf] */
        for (uint32_t l = 1; l + 1 < order; l++) {
            nodes *= (double)n_rows[level[l]];
            nodes = nodes < fibres[leaf] ? nodes : fibres[leaf];
            cost += nodes * row_cost(n_rows[level[l]]);
        }
        /* if costs are about equal, takes the leaf mode whose row numbers waste the fewest bits */
        waste = (double)(UINT64_C(1) << ts_record_width(n_rows[leaf] - 1)) / (double)n_rows[leaf];
        if (cost < 0.98 * best || (cost < 1.02 * best && waste < best_waste)) {
            best = cost;
            best_waste = waste;
            best_leaf = leaf;
        }
    }
    sort_levels(order, mode, best_leaf, n_rows, level);
}
