/* SPDX-License-Identifier: BSD-3-Clause */
/* fpmode.h - the floating-point mode of all computations.
 *
 * Subnormal numbers (below 1.2e-38 in float32) are read and written as zero. Factors of real
 * tensors have entries near zero, and products of several of them are subnormal. An operation on
 * those takes 150 cycles instead of one on some Intel processors: sweeps took 3 to 28 times as
 * long. Setting them to zero does not change sums of larger numbers. In other respects the mode is
 * the usual one: rounding to nearest, no traps. The whole mode is set, so the bits of results do
 * not depend on the mode of the caller.
 *
 *   owner    the mode belongs to the thread. A function that sets it restores it before it returns,
 *            so that the program around the engine keeps its own
 *   threads  any thread; every thread of a computation sets it, because it is not inherited
 *   errors   none; on processors that are not named here nothing is changed
 */
#ifndef TS_BASE_FPMODE_H
#define TS_BASE_FPMODE_H

#include <stdint.h>

/* The assembly names memory as changed, so the compiler moves no load or store across it. */
#if defined __x86_64__

static inline uint64_t ts_fpmode_get(void)
{
    uint32_t mxcsr;
    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr) : : "memory");
    return mxcsr;
}

static inline void ts_fpmode_restore(uint64_t mode)
{
    const uint32_t mxcsr = (uint32_t)mode;
    __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr) : "memory");
}

#define TS_FPMODE_FLUSH UINT64_C(0x9FC0) /* flush to zero, denormals are zero, traps masked */

#elif defined __aarch64__

static inline uint64_t ts_fpmode_get(void)
{
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr) : : "memory");
    return fpcr;
}

static inline void ts_fpmode_restore(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}

#define TS_FPMODE_FLUSH (UINT64_C(1) << 24) /* FZ: subnormal operands and results become zero */

#else

static inline uint64_t ts_fpmode_get(void)
{
    return 0;
}

static inline void ts_fpmode_restore(uint64_t mode)
{
    (void)mode;
}

#define TS_FPMODE_FLUSH UINT64_C(0)

#endif

/* Sets the mode of the head of this file for the calling thread. Returns the old mode, for
 * ts_fpmode_restore. */
static inline uint64_t ts_fpmode_flush(void)
{
    const uint64_t before = ts_fpmode_get();
    ts_fpmode_restore(TS_FPMODE_FLUSH);
    return before;
}

#endif
