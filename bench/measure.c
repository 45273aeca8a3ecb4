/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures the bandwidth of memory, the rate of random rows and that of multiply-adds. */
#include "bench/measure.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/machine/isa.h"

#define LIST        16384u /* indices: 64 KB */
#define TRIAD_BYTES ((size_t)256 << 20)

typedef uint64_t line __attribute__((vector_size(64)));

static void *take(size_t bytes)
{
    struct ts_err err;
    void *p;
    if (ts_bigmem_new(bytes, "table", &p, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return p;
}

double measure_triad(uint32_t threads)
{
    const size_t n = TRIAD_BYTES / sizeof(double);
    double *a = take(TRIAD_BYTES), *b = take(TRIAD_BYTES), *c = take(TRIAD_BYTES), best = 0;
    for (int rep = 0; rep < 4; rep++) {
        const uint64_t begin = ts_clock_ns();
        double rate;
#pragma omp parallel for num_threads(threads)
        for (size_t i = 0; i < n; i++)
            a[i] = rep == 0 ? (b[i] = 1, c[i] = 2) : b[i] + 3.0 * c[i];
        rate = 3e9 * (double)TRIAD_BYTES / (double)(ts_clock_ns() - begin);
        best = rep > 0 && rate > best ? rate : best;
    }
    ts_bigmem_free(a, TRIAD_BYTES);
    ts_bigmem_free(b, TRIAD_BYTES);
    ts_bigmem_free(c, TRIAD_BYTES);
    return best;
}

/* `lines` (a constant after inlining) of 64 bytes a row; `mask` is rows - 1. */
static inline __attribute__((always_inline)) uint64_t
gather(const line *table, const uint32_t *list, uint64_t n, uint32_t mask, uint32_t lines)
{
    line sum[4] = { { 0 } };
    uint64_t total = 0;
    for (uint64_t done = 0, pass = 0; done < n; done += LIST, pass++) {
        const uint32_t turn = (uint32_t)ts_mix(pass); /* other rows in each pass */
        for (uint32_t i = 0; i < LIST; i++) {
            const line *row = table + (size_t)((list[i] ^ turn) & mask) * lines;
            for (uint32_t v = 0; v < lines; v++)
                sum[v] += row[v];
        }
    }
    for (uint32_t v = 0; v < lines; v++)
        for (uint32_t k = 0; k < 8; k++)
            total += sum[v][k];
    return total;
}

#define GATHERS(name, attribute)                                                        \
    attribute static uint64_t name(const line *table, const uint32_t *list, uint64_t n, \
                                   uint32_t mask, uint32_t lines)                       \
    {                                                                                   \
        return lines == 1   ? gather(table, list, n, mask, 1)                           \
               : lines == 2 ? gather(table, list, n, mask, 2)                           \
                            : gather(table, list, n, mask, 4);                          \
    }
GATHERS(gather_plain, )
#ifdef __x86_64__
GATHERS(gather_avx2, __attribute__((target("avx2"))))
GATHERS(gather_avx512, __attribute__((target("avx512f"))))
#endif

double measure_gather(uint32_t row_bytes, uint64_t table_bytes, uint32_t threads)
{
    uint64_t (*kernel)(const line *, const uint32_t *, uint64_t, uint32_t, uint32_t) = gather_plain;
    const uint32_t lines = row_bytes / 64, mask = (uint32_t)(table_bytes / row_bytes) - 1;
    line *table = take(table_bytes);
    uint64_t n = LIST, sink = 0;
    double best = 0;
#ifdef __x86_64__
    kernel = __builtin_cpu_supports("avx512f") ? gather_avx512
             : __builtin_cpu_supports("avx2")  ? gather_avx2
                                               : gather_plain;
#endif
#pragma omp parallel for num_threads(threads)
    for (uint64_t at = 0; at < table_bytes; at += 4096) /* on the nodes of all threads */
        memset((char *)table + at, 1, 4096);
    for (int rep = 0; rep < 5; rep++) {
        uint64_t ns = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sink, ns)
        {
            uint32_t *list = malloc(LIST * sizeof *list);
            uint64_t begin;
            for (uint32_t i = 0; i < LIST; i++)
                list[i] = (uint32_t)ts_mix((uint64_t)omp_get_thread_num() * LIST + i);
#pragma omp barrier
            begin = ts_clock_ns();
            sink += kernel(table, list, n, mask, lines);
            ns += ts_clock_ns() - begin;
            free(list);
        }
        if (ns < threads * UINT64_C(10000000)) { /* too short to time */
            n *= 4;
            rep = -1;
            continue;
        }
        best = fmax(best,
                    1e9 * (double)threads * (double)threads * (double)n * row_bytes / (double)ns);
    }
    ts_bigmem_free(table, table_bytes);
    return sink == 1 ? 0 : best;
}

double measure_row_seconds(uint32_t row_bytes, double table_bytes, uint32_t threads)
{
    static double known[3][7]; /* [row 64, 128, 256][16 KB .. 64 MB] */
    const int row = row_bytes == 64 ? 0 : row_bytes == 128 ? 1 : 2;
    const double step = fmin(fmax(log2(table_bytes / 16384.0) / 2, 0), 6);
    const int low = step >= 6 ? 5 : (int)step;
    for (int k = low; k <= low + 1; k++)
        if (known[row][k] == 0)
            known[row][k] =
                row_bytes / measure_gather(row_bytes, UINT64_C(16384) << 2 * k, threads);
    return known[row][low] + (known[row][low + 1] - known[row][low]) * (step - low);
}

typedef double wide __attribute__((vector_size(64)));

/* beside two operands in registers; an FMA takes 4 cycles, and two begin in each */
#define CHAINS 12

static inline __attribute__((always_inline)) double chains(uint64_t n, double a, double b)
{
    const wide x = { a, a, a, a, a, a, a, a }, y = { b, b, b, b, b, b, b, b };
    wide sum[CHAINS];
    for (int k = 0; k < CHAINS; k++) /* all different, or they are one to the compiler */
        sum[k] = x * (double)k;
    for (uint64_t i = 0; i < n; i++) {
        TS_UNROLL
        for (int k = 0; k < CHAINS; k++)
            sum[k] = sum[k] * x + y;
    }
    for (int k = 1; k < CHAINS; k++)
        sum[0] += sum[k];
    return sum[0][0];
}

#ifdef __x86_64__
#include "base/machine/target_avx512.h"
static double chains_avx512(uint64_t n, double a, double b)
{
    return chains(n, a, b);
}
#include "base/machine/target_pop.h"
#include "base/machine/target_avx2.h"
static double chains_avx2(uint64_t n, double a, double b)
{
    return chains(n, a, b);
}
#include "base/machine/target_pop.h"
#endif

static double chains_portable(uint64_t n, double a, double b)
{
    return chains(n, a, b);
}

double measure_fma(uint32_t threads)
{
    const uint64_t n = 200000; /* half a millisecond */
    double (*run)(uint64_t, double, double) = chains_portable;
    double best = 0;
#ifdef __x86_64__
    run = ts_isa_here(TS_ISA_AVX512) ? chains_avx512 : ts_isa_here(TS_ISA_AVX2) ? chains_avx2 : run;
#endif
    for (int rep = 0; rep < 50; rep++) {
        const uint64_t begin = ts_clock_ns();
        double rate, sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
        sum += run(n, 0.5, (double)rep);
        rate = 1e9 * 8 * CHAINS * (double)(n * threads) / (double)(ts_clock_ns() - begin);
        best = sum >= 0 && rate > best ? rate : best;
    }
    return best;
}
