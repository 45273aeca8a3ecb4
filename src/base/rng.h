/* SPDX-License-Identifier: BSD-3-Clause */
/* rng.h - counter-based random numbers: a value is a function of the seed and of its place, so any
 * thread can draw it and any program can repeat it.
 *
 * ts_mix is the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
 */
#ifndef TS_BASE_RNG_H
#define TS_BASE_RNG_H

#include <stdint.h>

static inline uint64_t ts_mix(uint64_t z)
{
    z += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* 53 random bits as a double in [0, 1). */
static inline double ts_unit(uint64_t z)
{
    return (double)(z >> 11) * 0x1p-53;
}

/* Initial factor entry A_mode(row, col) for --init random: uniform in [0, 1). row is the index of
 * the slice in the input (from 0), not its compact number. */
static inline double ts_init_entry(uint64_t seed, uint32_t mode, uint64_t row, uint32_t col)
{
    return ts_unit(ts_mix(ts_mix(ts_mix(seed + mode) + row) + col));
}

#endif
