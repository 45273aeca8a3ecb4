/* SPDX-License-Identifier: BSD-3-Clause */
/* rng.h - counter-based random numbers: a number is a function of the seed and its position, so any
 * thread can draw it and any program can repeat it.
 *
 * ts_mix is the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014). ts_permute is a
 * Feistel network of four rounds on the next power of four, repeated until the result is in the
 * range.
 */
#ifndef TS_BASE_RNG_H
#define TS_BASE_RNG_H

#include <stdint.h>

#include "base/anywhere.h"

TS_ANYWHERE static inline uint64_t ts_mix(uint64_t z)
{
    z += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Returns the upper 53 bits of z as a double in [0, 1). */
TS_ANYWHERE static inline double ts_unit(uint64_t z)
{
    return (double)(z >> 11) * 0x1p-53;
}

/* ts_permute returns the position of number i (0 <= i < n) in a permutation of 0 .. n-1 given by
 * the key. ts_permute_back, its inverse, returns the number at position i. n is at most 2^62. */
TS_ANYWHERE static inline uint32_t ts_permute_half(uint64_t n)
{
    uint32_t half = 1;
    while (n > UINT64_C(1) << 2 * half)
        half++;
    return half;
}

TS_ANYWHERE static inline uint64_t ts_permute(uint64_t i, uint64_t n, uint64_t key)
{
    const uint32_t half = ts_permute_half(n);
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t k = 0; k < 4; k++) {
            const uint64_t was = right;
            right = (left ^ ts_mix(ts_mix(key + k) + right)) & mask;
            left = was;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

TS_ANYWHERE static inline uint64_t ts_permute_back(uint64_t i, uint64_t n, uint64_t key)
{
    const uint32_t half = ts_permute_half(n);
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t k = 4; k-- > 0;) {
            const uint64_t was = left;
            left = (right ^ ts_mix(ts_mix(key + k) + left)) & mask;
            right = was;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

/* Returns entry (row, col) of a mode's factor for --init random: uniform in [0, 1). row is the
 * index of the slice in the input (from 0), not its number among the used slices. */
static inline double ts_init_entry(uint64_t seed, uint32_t mode, uint64_t row, uint32_t col)
{
    return ts_unit(ts_mix(ts_mix(ts_mix(seed + mode) + row) + col));
}

#endif
