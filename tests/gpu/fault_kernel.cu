/* SPDX-License-Identifier: BSD-3-Clause */
/* A kernel that writes to an invalid address, for the test of what follows. */
#include "fault_kernel.h"

#include <cuda_runtime.h>

/* Runs for about a tenth of a second, so that whoever launched it can go on to launch what
 * waits. */
static __global__ void write_nowhere(int *nowhere)
{
    const long long start = clock64();
    while (clock64() - start < 100000000)
        ;
    *nowhere = 1;
}

int test_fault(void)
{
    write_nowhere<<<1, 1, 0, cudaStreamPerThread>>>((int *)64);
    return cudaGetLastError();
}
