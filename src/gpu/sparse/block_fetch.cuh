/* SPDX-License-Identifier: BSD-3-Clause */
/* block_fetch.cuh - copies a warp's next packed block while the warp works on the current one.
 *
 * Decoding a block is a chain of short steps. From device memory each step would wait, and the warp
 * would load no factor rows meanwhile. Decoding from shared memory is faster: the kernel does 38.5
 * G nonzeros/s, against 33.5 with prefetches into the second-level cache alone (100 M draws of 4.8M
 * x 1.8M x 1.8M, power law 1.1, float32, R = 32, one H200).
 *
 *   owner    shared memory is the caller's, fetched<NL>::words for one warp, 16 bytes aligned
 *   units    32-bit words of a shard; block_range counts bytes
 *   threads  all lanes of a warp call together. Between two fetches a lane waits for its own copies
 *            (wait_for_fetched), a __syncwarp makes them visible to the others, and a second
 *            __syncwarp must follow before the next fetch, when all lanes have read them
 *   errors   none
 */
#ifndef TS_GPU_BLOCK_FETCH_CUH
#define TS_GPU_BLOCK_FETCH_CUH

#include <cuda_runtime.h>

#include "gpu/sparse/block_decode.cuh"

/* Words of shared memory for a block of a tensor of NL + 1 modes; 0: blocks are not fetched to
 * shared memory. 640 words hold two indices of 22 bits and a value of 32 bits for each nonzero;
 * with 356 words the kernel was 4 % slower. Blocks of more modes are longer, and their buffer would
 * leave less first-level cache for factor rows. */
template <int NL> struct fetched {
    static constexpr uint32_t words = NL == 2 ? 640 : 0;
};

/* The words `word` .. end - 1 of a shard, and one more that `bits` reads. Both ends are rounded to
 * 16 bytes, the unit of an asynchronous copy, which TS_SHARD_SLACK allows. */
struct block_range {
    const char *from;
    uint32_t bytes, skip; /* bytes: size of the copy; skip: words of the copy before the block */
    __device__ block_range(const uint32_t *raw, uint32_t word, uint32_t end)
    {
        const uint64_t first = (uint64_t)(raw + word);
        from = (const char *)(first & ~(uint64_t)15);
        skip = (uint32_t)(first & 15) / 4;
        bytes = (4 * (skip + end - word + 1) + 15) & ~15u;
    }
};

/* Starts the copy of a block to shared memory if it fits, otherwise to the second-level cache. */
template <int NL>
static __device__ inline void fetch(const block_range &r, uint32_t lane, uint32_t *to)
{
    if (fetched<NL>::words > 0 && r.bytes <= 4 * fetched<NL>::words) {
        const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
#pragma unroll 1
        for (uint32_t i = 16 * lane; i < r.bytes; i += 16 * 32)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + i), "l"(r.from + i)
                         : "memory");
    } else {
#pragma unroll 1
        for (uint32_t i = 128 * lane; i < r.bytes; i += 128 * 32)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(r.from + i));
    }
}

/* Waits for the copies that this lane has started. */
static __device__ inline void wait_for_fetched(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#endif
