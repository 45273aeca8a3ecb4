/* SPDX-License-Identifier: BSD-3-Clause */
/* on_gpu.h - arrays on the device, for suites that test kernels.
 *
 *   owner    the caller, who frees what it gets with cudaFree or free
 *   errors   a CUDA call that fails fails the test
 */
#ifndef TS_TESTS_ON_GPU_H
#define TS_TESTS_ON_GPU_H

#include <check.h>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#define CUDA(call)                                                                 \
    do {                                                                           \
        const cudaError_t e_ = (cudaError_t)(call);                                \
        ck_assert_msg(e_ == cudaSuccess, "%s: %s", #call, cudaGetErrorString(e_)); \
    } while (0)

/* A copy in device memory, 256 bytes of zeros behind it: what is read there must not matter. */
static inline void *to_device(const void *from, size_t bytes)
{
    void *p;
    CUDA(cudaMalloc(&p, bytes + 256));
    CUDA(cudaMemset((char *)p + bytes, 0, 256));
    CUDA(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice));
    return p;
}

/* Device memory in which every float64 and float32 is NaN. */
static inline void *nan_on_device(size_t bytes)
{
    void *p;
    CUDA(cudaMalloc(&p, bytes + 256));
    CUDA(cudaMemset(p, 0xff, bytes + 256));
    return p;
}

static inline void *from_device(const void *from, size_t bytes)
{
    void *p = malloc(bytes + 1);
    ck_assert_ptr_nonnull(p);
    CUDA(cudaMemcpy(p, from, bytes, cudaMemcpyDeviceToHost));
    return p;
}

static inline int same_on_device(const void *x, const void *y, size_t bytes)
{
    void *a = from_device(x, bytes), *b = from_device(y, bytes);
    const int same = memcmp(a, b, bytes) == 0;
    free(a);
    free(b);
    return same;
}

static inline int have_gpu(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
}

#endif
