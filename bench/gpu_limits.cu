/* SPDX-License-Identifier: BSD-3-Clause */
/* What the GPU can do at best with what an MTTKRP needs of it: random rows of factor matrices,
 * copies within its memory and from page-locked host memory. Figures of the kernels are judged by
 * these.
 *
 * A 3-mode MTTKRP reads two random rows for each nonzero, so half of a row rate bounds it, unless
 * the tensor's order of nonzeros lets rows be found in a cache again. */
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "gpu_limits: %s: %s\n", what, cudaGetErrorString(e));
        exit(1);
    }
}

static __device__ uint32_t scatter(uint64_t i)
{
    i += 0x9E3779B97F4A7C15ull;
    i = (i ^ i >> 30) * 0xBF58476D1CE4E5B9ull;
    i = (i ^ i >> 27) * 0x94D049BB133111EBull;
    return (uint32_t)(i >> 32);
}

/* Groups of LPR lanes read whole rows of `pieces` 16-byte pieces, 8 rows under way for each
 * lane. */
template <int LPR>
static __global__ void gather(const float4 *table, uint32_t n_rows, uint32_t pieces, uint32_t steps,
                              float *out)
{
    const uint32_t lane = threadIdx.x % LPR, at = lane < pieces ? lane : 0;
    const uint64_t group = (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x) / LPR;
    float sum = 0;
    for (uint32_t s = 0; s < steps; s++) {
        for (uint32_t p = at; p < pieces; p += LPR) { /* once, but for rows beyond 512 bytes */
            float4 x[8];
#pragma unroll
            for (int u = 0; u < 8; u++) {
                const uint32_t h = scatter((group * steps + s) * 8 + u);
                const uint32_t row = (uint32_t)((uint64_t)h * n_rows >> 32);
                x[u] = __ldg(table + (uint64_t)row * pieces + p);
            }
#pragma unroll
            for (int u = 0; u < 8; u++)
                sum += x[u].x + x[u].y + x[u].z + x[u].w;
        }
    }
    if (sum == 1.2345f) /* never: keeps the loads */
        *out = sum;
}

static double seconds_of(void (*run)(void *), void *arg)
{
    cudaEvent_t a, b;
    std::vector<float> ms;
    check(cudaEventCreate(&a), "event");
    check(cudaEventCreate(&b), "event");
    for (int i = 0; i < 7; i++) {
        float t;
        check(cudaEventRecord(a), "event");
        run(arg);
        check(cudaEventRecord(b), "event");
        check(cudaDeviceSynchronize(), "measuring");
        check(cudaEventElapsedTime(&t, a, b), "event");
        if (i > 1)
            ms.push_back(t);
    }
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    std::sort(ms.begin(), ms.end());
    return ms[ms.size() / 2] * 1e-3;
}

struct job {
    float4 *table;
    char *host, *to;
    size_t bytes;
    uint32_t n_rows, pieces, steps, blocks;
    float *out;
};

static void run_gather(void *arg)
{
    const job *j = (const job *)arg;
    const uint32_t p = j->pieces;
    if (p <= 2)
        gather<2><<<j->blocks, 256>>>(j->table, j->n_rows, p, j->steps, j->out);
    else if (p <= 4)
        gather<4><<<j->blocks, 256>>>(j->table, j->n_rows, p, j->steps, j->out);
    else if (p <= 8)
        gather<8><<<j->blocks, 256>>>(j->table, j->n_rows, p, j->steps, j->out);
    else if (p <= 16)
        gather<16><<<j->blocks, 256>>>(j->table, j->n_rows, p, j->steps, j->out);
    else
        gather<32><<<j->blocks, 256>>>(j->table, j->n_rows, p, j->steps, j->out);
}

static void run_copy(void *arg)
{
    const job *j = (const job *)arg;
    check(cudaMemcpyAsync(j->to, j->table, j->bytes, cudaMemcpyDeviceToDevice, 0), "copy");
}

static void run_send(void *arg)
{
    const job *j = (const job *)arg;
    for (size_t at = 0; at < j->bytes; at += 4 << 20)
        check(cudaMemcpyAsync(j->to + at, j->host + at, 4 << 20, cudaMemcpyHostToDevice, 0),
              "copy");
}

/* Copies of all GPUs under way together: the memory of the host, and what lies between, is shared
 * by their links. Under `numactl --interleave=all` it is spread over all sockets, as in tstream. */
static double all_at_once(int n, size_t bytes)
{
    std::vector<char *> host(n), to(n);
    std::vector<cudaStream_t> stream(n);
    std::vector<double> rate;
    for (int i = 0; i < n; i++) {
        check(cudaSetDevice(i), "device");
        check(cudaMalloc(&to[i], bytes), "memory");
        check(cudaHostAlloc(&host[i], bytes, cudaHostAllocPortable), "page-locked memory");
        check(cudaStreamCreate(&stream[i]), "stream");
    }
    for (int turn = 0; turn < 7; turn++) {
        const auto start = std::chrono::steady_clock::now();
        for (size_t at = 0; at < bytes; at += 4 << 20)
            for (int i = 0; i < n; i++)
                check(cudaMemcpyAsync(to[i] + at, host[i] + at, 4 << 20, cudaMemcpyHostToDevice,
                                      stream[i]),
                      "copy");
        for (int i = 0; i < n; i++)
            check(cudaStreamSynchronize(stream[i]), "copy");
        rate.push_back(
            n * (double)bytes /
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(rate.begin(), rate.end());
    return rate[rate.size() / 2];
}

int main()
{
    static const uint32_t ranks[] = { 8, 10, 16, 25, 32, 50, 64, 100, 128, 256 };
    static const uint32_t tables[] = { 90000, 3600000 };
    cudaDeviceProp prop;
    job j = {};
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        printf("no GPU\n");
        return 0;
    }
    check(cudaGetDeviceProperties(&prop, 0), "device");
    printf("%s, %d multiprocessors, %d MiB of L2 cache\n", prop.name, prop.multiProcessorCount,
           prop.l2CacheSize >> 20);
    check(cudaMalloc(&j.out, 256), "memory");
    check(cudaMalloc(&j.table, (size_t)4 << 30), "memory");
    check(cudaMemset(j.table, 0x3c, (size_t)4 << 30), "memory");
    printf("%-34s", "random rows, G/s; float32 rank");
    for (uint32_t r : ranks)
        printf(" %6u", r);
    for (uint32_t rows : tables) {
        char name[64];
        snprintf(name, sizeof name, "table of %u rows", rows);
        printf("\n%-34s", name);
        for (uint32_t r : ranks) {
            j.n_rows = rows;
            j.pieces = (r + 3) / 4;
            j.blocks = 132 * 64;
            j.steps = 64 * 8 / (j.pieces < 8 ? 8 : j.pieces);
            const uint32_t lanes = j.pieces <= 2    ? 2
                                   : j.pieces <= 4  ? 4
                                   : j.pieces <= 8  ? 8
                                   : j.pieces <= 16 ? 16
                                                    : 32;
            const double total = 8.0 * j.steps * j.blocks * 256 / lanes;
            printf(" %6.2f", total / seconds_of(run_gather, &j) * 1e-9);
            fflush(stdout);
        }
    }
    j.bytes = (size_t)1 << 30;
    j.to = (char *)j.table + ((size_t)2 << 30);
    printf("\ncopy within device memory, read and written: %.0f GB/s\n",
           2.0 * j.bytes / seconds_of(run_copy, &j) * 1e-9);
    check(cudaHostAlloc(&j.host, j.bytes, cudaHostAllocDefault), "page-locked memory");
    printf("copy from page-locked host memory, 4 MiB at a time: %.1f GB/s\n",
           j.bytes / seconds_of(run_send, &j) * 1e-9);
    if (n > 1)
        printf("the same on all %d GPUs at once: %.1f GB/s together\n", n,
               all_at_once(n, j.bytes) * 1e-9);
    return 0;
}
