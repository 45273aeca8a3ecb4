/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_dense - MTTKRPs of dense tensors on a GPU that has all cells, beside the time in which its
 * memory could be read once, at the rate of a copy within it in the same run.
 *
 *     gpu_dense [SIZExSIZEx... [RANK [float32|float64 [BUDGET]]]]
 *
 * Times are those of the kernels, of each mode by itself, which has to pass over all cells, and
 * their mean; `sweep` are all modes one after another, as a run takes them, by mode: what several
 * modes share is kept where there is room for it, so that there are two passes in it. Without a
 * budget, in MiB, what is kept is limited. Memory is what a run takes in addition to the cells: as
 * the backend counts it, as the driver does, and the limit of twice the factors and 1 GiB.
 * `observed` is a sweep with a tenth of the cells held out, rows included, and the errors that it
 * is judged by, after the modes. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/rng.h"
#include "format/arrays/dense.h"
#include "gpu/team/gpu_backend.h"
#include "stream/backend.h"

#define ROUNDS 7

static const struct ts_backend *const be = &ts_backend_gpu;

static void give_up(const struct ts_err *err)
{
    fprintf(stderr, "gpu_dense: %s\n", err->text);
    exit(1);
}

static void check(cudaError_t e)
{
    if (e == cudaSuccess)
        return;
    fprintf(stderr, "gpu_dense: %s\n", cudaGetErrorString(e));
    exit(1);
}

/* Bytes a second that a copy within the device reads and writes, both counted. */
static double memory_rate(void)
{
    const size_t bytes = (size_t)1 << 30;
    double best = 0;
    cudaEvent_t begin, end;
    char *a, *b;
    check(cudaMalloc((void **)&a, bytes));
    check(cudaMalloc((void **)&b, bytes));
    check(cudaMemset(a, 1, bytes));
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    for (int i = 0; i < 10; i++) {
        float ms;
        check(cudaEventRecord(begin, NULL));
        check(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, NULL));
        check(cudaEventRecord(end, NULL));
        check(cudaEventSynchronize(end));
        check(cudaEventElapsedTime(&ms, begin, end));
        best = 2 * (double)bytes / (1e-3 * ms) > best ? 2 * (double)bytes / (1e-3 * ms) : best;
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaFree(a);
    cudaFree(b);
    return best;
}

/* Rows of a start: what was made of the factor before is of no use any more. */
static void put(void *gpu, const struct ts_tensor *t, uint32_t mode, uint32_t rank)
{
    const uint64_t n = t->mode[mode].disk.dim;
    double *row = malloc(n * rank * sizeof *row);
    struct ts_err err;
    for (uint64_t i = 0; row != NULL && i < n * rank; i++)
        row[i] = ts_unit(ts_mix(i + mode));
    if (row == NULL || be->put_rows(gpu, mode, 0, n, row, &err) < 0)
        exit(1);
    free(row);
}

static double product(void *gpu, struct ts_feed *feed, uint32_t mode)
{
    struct ts_backend_times times;
    struct ts_err err;
    if (be->pass(&(struct ts_request){ .be = gpu }, 1, mode, feed, &times, &err) < 0)
        give_up(&err);
    return 1e-6 * (double)times.device[0].kernel_ns;
}

/* Bytes of the device that are taken. */
static double taken(void)
{
    size_t left, all;
    check(cudaMemGetInfo(&left, &all));
    return (double)all - (double)left;
}

static void print_modes(const struct ts_tensor *t, const char *what, const double *ms)
{
    double sum = 0;
    printf("; %s", what);
    for (uint32_t m = 0; m < t->order; m++) {
        printf(" %.3f", ms[m]);
        sum += ms[m];
    }
    printf(" ms, mean %.3f", sum / t->order);
}

static void measure(const char *shape, const struct ts_tensor *t, uint32_t rank,
                    enum ts_precision precision, uint64_t budget)
{
    const struct ts_backend_conf conf = { .tensor = t,
                                          .rank = rank,
                                          .precision = precision,
                                          .n_devices = 1,
                                          .device_bytes = budget,
                                          .only_mode = -1 };
    const double bytes = (double)t->nnz * t->dense->cell_bytes, rate = memory_rate();
    const double before = taken();
    double alone[TS_DENSE_MAX_ORDER], sweep[TS_DENSE_MAX_ORDER], beside;
    struct ts_feed_conf fc = { .tensor = t, .only_mode = -1, .pin = be->pin, .unpin = be->unpin };
    struct ts_device_memory memory[TS_MAX_DEVICES];
    struct ts_feed *feed;
    struct ts_err err;
    void *gpu;
    if (be->open(&conf, &gpu, &err) < 0)
        give_up(&err);
    be->deal(gpu, &fc.deal);
    fc.pin_ctx = gpu;
    if (ts_feed_new(&fc, &feed, &err) < 0)
        give_up(&err);
    for (uint32_t m = 0; m < t->order; m++) {
        alone[m] = sweep[m] = 1e9;
        put(gpu, t, m, rank);
    }
    product(gpu, feed, 0); /* the cells come */
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t m = 0; m < t->order; m++)
            put(gpu, t, m, rank);
        for (uint32_t m = 0; m < t->order; m++) {
            const double ms = product(gpu, feed, m);
            sweep[m] = ms < sweep[m] ? ms : sweep[m];
            put(gpu, t, m, rank);
        }
        for (uint32_t m = 0; m < t->order; m++) {
            double ms;
            for (uint32_t k = 0; k < t->order; k++) /* nothing is kept */
                put(gpu, t, k, rank);
            ms = product(gpu, feed, m);
            alone[m] = ms < alone[m] ? ms : alone[m];
        }
    }
    be->memory(gpu, memory);
    printf("%-20s rank %4u, %s: read once %.3f ms at %.0f GB/s", shape, rank,
           t->dense->cell_bytes == 4 ? "float32" : "float64", 1e3 * bytes / rate, rate / 1e9);
    print_modes(t, "alone", alone);
    print_modes(t, "sweep", sweep);
    beside = (double)(memory[0].factor_bytes + memory[0].sum_bytes + memory[0].shared_bytes);
    printf("; beside the cells %.3f GB (factors %.3f, sums %.3f, shared %.3f), taken %.3f, formula "
           "%.3f GB\n",
           beside / 1e9, (double)memory[0].factor_bytes / 1e9, (double)memory[0].sum_bytes / 1e9,
           (double)memory[0].shared_bytes / 1e9,
           (taken() - before - (double)memory[0].kept_bytes - (double)memory[0].slot_bytes) / 1e9,
           (2 * (double)memory[0].factor_bytes + 1073741824) / 1e9);
    ts_feed_free(feed);
    be->close(gpu);
}

static double add_times(const struct ts_backend_times *t)
{
    return 1e-6 * (double)(t->device[0].kernel_ns + t->device[0].solve_ns);
}

static void measure_observed(const char *shape, const struct ts_tensor *t, uint32_t rank,
                             enum ts_precision precision)
{
    const struct ts_backend_conf conf = { .tensor = t,
                                          .rank = rank,
                                          .precision = precision,
                                          .n_devices = 1,
                                          .needs = 1u << TS_ROW_OBSERVED,
                                          .only_mode = -1 };
    const struct ts_row_update how = { .kind = TS_ROW_OBSERVED,
                                       .l2 = 0.1,
                                       .lower = -INFINITY,
                                       .upper = INFINITY,
                                       .hold_out = { .share = 0.1, .seed = 1 } };
    struct ts_feed_conf fc = { .tensor = t, .only_mode = -1, .pin = be->pin, .unpin = be->unpin };
    double best[TS_DENSE_MAX_ORDER + 1], sum = 0;
    struct ts_device_memory memory[TS_MAX_DEVICES];
    struct ts_backend_times times;
    struct ts_feed *feed;
    struct ts_err err;
    void *gpu;
    if (be->open(&conf, &gpu, &err) < 0)
        give_up(&err);
    be->deal(gpu, &fc.deal);
    fc.pin_ctx = gpu;
    if (ts_feed_new(&fc, &feed, &err) < 0)
        give_up(&err);
    for (uint32_t m = 0; m < t->order; m++)
        put(gpu, t, m, rank);
    for (int round = 0; round < 4; round++) /* with the first the cells come */
        for (uint32_t m = 0; m <= t->order; m++) {
            struct ts_error_sums e = { .hold_out = how.hold_out };
            const struct ts_row_sums none = { .size = NULL };
            const int rc = m < t->order ? be->pass(&(struct ts_request){ .be = gpu,
                                                                         .kind = TS_REQUEST_ROWS,
                                                                         .update = &how,
                                                                         .sums = &none },
                                                   1, m, feed, &times, &err)
                                        : be->pass(&(struct ts_request){ .be = gpu,
                                                                         .kind = TS_REQUEST_ERRORS,
                                                                         .errors = &e },
                                                   1, t->order - 1, feed, &times, &err);
            if (rc < 0)
                give_up(&err);
            best[m] = round <= 1 || add_times(&times) < best[m] ? add_times(&times) : best[m];
        }
    be->memory(gpu, memory);
    printf("%-20s rank %4u, %s: observed", shape, rank,
           t->dense->cell_bytes == 4 ? "float32" : "float64");
    for (uint32_t m = 0; m <= t->order; m++) {
        printf(" %.3f", best[m]);
        sum += best[m];
    }
    printf(" ms, all %.3f; sums %.2f GB\n", sum, (double)memory[0].sum_bytes / 1e9);
    ts_feed_free(feed);
    be->close(gpu);
}

static void run(const char *shape, uint32_t rank, int narrow, uint64_t budget)
{
    struct ts_dense_array a = { .path = shape, .type = narrow ? TS_CELL_F32 : TS_CELL_F64 };
    const size_t cell = narrow ? 4 : 8;
    struct ts_tensor *t;
    struct ts_err err;
    uint64_t cells = 1;
    void *memory;
    for (const char *at = shape; *at != '\0' && a.order < TS_DENSE_MAX_ORDER;) {
        char *end;
        a.dim[a.order] = strtoull(at, &end, 10);
        cells *= a.dim[a.order++];
        if (at == end && *end != '\0')
            break;
        at = *end == 'x' ? end + 1 : end;
    }
    if (cells == 0 || ts_bigmem_new(cells * cell, "the array", &memory, &err) < 0) {
        fprintf(stderr, "gpu_dense: %s: no such array\n", shape);
        exit(2);
    }
#pragma omp parallel for
    for (uint64_t i = 0; i < cells; i++)
        if (narrow)
            ((float *)memory)[i] = (float)ts_unit(ts_mix(i));
        else
            ((double *)memory)[i] = ts_unit(ts_mix(i));
    a.memory = memory;
    if (ts_dense_open(&a, &t, &err) < 0)
        give_up(&err);
    measure(shape, t, rank, narrow ? TS_FLOAT32 : TS_FLOAT64, budget);
    if (rank <= (narrow ? 128 : 64))
        measure_observed(shape, t, rank, narrow ? TS_FLOAT32 : TS_FLOAT64);
    ts_tensor_close(t);
    ts_bigmem_free(memory, cells * cell);
}

int main(int argc, char **argv)
{
    static const char *const shapes[] = { "401x201x12x501", "129x129x129x12x39" };
    if (argc > 1) {
        run(argv[1], argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 32,
            argc > 3 && strcmp(argv[3], "float32") == 0,
            argc > 4 ? strtoull(argv[4], NULL, 10) << 20 : 0);
        return 0;
    }
    for (int narrow = 0; narrow < 2; narrow++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            run(shapes[i], 32, narrow, 0);
    run(shapes[0], 2000, 0, 0);
    return 0;
}
