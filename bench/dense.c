/* SPDX-License-Identifier: BSD-3-Clause */
/* dense - MTTKRPs of dense tensors in memory on CPU cores, beside what the machine allows: the
 * larger of the time in which the multiply-adds could be done and that in which the cells could be
 * read, both rates measured in the same run.
 *
 *     dense [SIZExSIZEx... [RANK]]
 *
 * `alone` is the product of a mode by itself, which has to pass over all cells; `sweep` are all
 * modes one after another, as a run takes them: what several modes share is kept, so that there are
 * two passes in it. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "base/rng.h"
#include "bench/measure.h"
#include "cpu/cpu_backend.h"
#include "format/arrays/dense.h"

#define ROUNDS 5

static void give_up(const struct ts_err *err)
{
    fprintf(stderr, "dense: %s\n", err->text);
    exit(1);
}

static void *open_backend(const struct ts_tensor *t, uint32_t rank, uint32_t threads)
{
    struct ts_backend_conf conf = { .tensor = t,
                                    .rank = rank,
                                    .precision = TS_FLOAT64,
                                    .threads = threads,
                                    .spare_bytes = UINT64_MAX,
                                    .only_mode = -1 };
    struct ts_err err;
    void *be;
    if (ts_backend_cpu.open(&conf, &be, &err) < 0)
        give_up(&err);
    return be;
}

/* Rows of a start: what was made of the factor before is of no use any more. */
static void put(void *be, const struct ts_tensor *t, uint32_t mode, uint32_t rank)
{
    const uint64_t n = t->mode[mode].disk.dim;
    double *row = malloc(n * rank * sizeof *row);
    for (uint64_t i = 0; row != NULL && i < n; i++)
        for (uint32_t r = 0; r < rank; r++)
            row[i * rank + r] = ts_init_entry(1, mode, i, r);
    if (row == NULL || ts_backend_cpu.put_rows(be, mode, 0, n, row, NULL) < 0)
        exit(1);
    free(row);
}

static double product(void *be, struct ts_feed *feed, uint32_t mode)
{
    const uint64_t start = ts_clock_ns();
    struct ts_err err;
    ts_feed_rewind(feed);
    if (ts_backend_cpu.pass(&(struct ts_request){ .be = be }, 1, mode, feed, NULL, &err) < 0)
        give_up(&err);
    return 1e-9 * (double)(ts_clock_ns() - start);
}

static void measure(const char *shape, const struct ts_tensor *t, uint32_t rank, uint32_t threads)
{
    const struct ts_feed_conf fc = { .tensor = t, .only_mode = -1 };
    const double cells = (double)t->nnz;
    double best[TS_DENSE_MAX_ORDER], sweep = 1e9, bound = 0, mean = 0;
    struct ts_feed *feed;
    struct ts_err err;
    void *be = open_backend(t, rank, threads);
    if (ts_feed_new(&fc, &feed, &err) < 0)
        give_up(&err);
    for (uint32_t m = 0; m < t->order; m++)
        best[m] = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        const double flops = cells * rank / measure_fma(threads);
        const double bytes = 8 * cells / measure_triad(threads);
        const double now = flops > bytes ? flops : bytes;
        double sum = 0;
        bound = round == 0 || now < bound ? now : bound;
        for (uint32_t m = 0; m < t->order; m++)
            put(be, t, m, rank);
        for (uint32_t m = 0; m < t->order; m++) {
            sum += product(be, feed, m);
            put(be, t, m, rank);
        }
        sweep = sum < sweep ? sum : sweep;
        for (uint32_t m = 0; m < t->order; m++) {
            double s;
            for (uint32_t k = 0; k < t->order; k++) /* nothing is kept */
                put(be, t, k, rank);
            s = product(be, feed, m);
            best[m] = s < best[m] ? s : best[m];
        }
    }
    printf("%-24s rank %4u, %u threads: bound %.1f ms; alone", shape, rank, threads, 1e3 * bound);
    for (uint32_t m = 0; m < t->order; m++) {
        printf(" %.1f", 1e3 * best[m]);
        mean += best[m] / t->order;
    }
    printf(" ms, %.2f of it; sweep %.1f ms, %.2f of two passes\n", bound / mean, 1e3 * sweep,
           2 * bound / sweep);
    ts_feed_free(feed);
    ts_backend_cpu.close(be);
}

static void run(const char *shape, uint32_t rank)
{
    struct ts_dense_array a = { .path = shape, .type = TS_CELL_F64 };
    const uint32_t cpus = (uint32_t)omp_get_num_procs();
    struct ts_tensor *t;
    struct ts_err err;
    uint64_t cells = 1;
    void *memory;
    for (const char *at = shape; *at != '\0' && a.order < TS_DENSE_MAX_ORDER;) {
        char *end;
        a.dim[a.order] = strtoull(at, &end, 10);
        cells *= a.dim[a.order++];
        at = *end == 'x' ? end + 1 : end;
        if (at == end && *end != '\0')
            break;
    }
    if (cells == 0 || ts_bigmem_new(cells * 8, "the array", &memory, &err) < 0) {
        fprintf(stderr, "dense: %s: no such array\n", shape);
        exit(2);
    }
#pragma omp parallel for
    for (uint64_t i = 0; i < cells; i++)
        ((double *)memory)[i] = ts_unit(ts_mix(i));
    a.memory = memory;
    if (ts_dense_open(&a, &t, &err) < 0)
        give_up(&err);
    measure(shape, t, rank, cpus);
    ts_tensor_close(t);
    ts_bigmem_free(memory, cells * 8);
}

int main(int argc, char **argv)
{
    static const char *const shapes[] = { "401x201x12x40", "129x129x20x12x9", "300x300x300",
                                          "6000x5000" };
    static const uint32_t ranks[] = { 8, 32, 128 };
    if (argc > 1) {
        run(argv[1], argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 32);
        return 0;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++)
            run(shapes[i], ranks[k]);
    return 0;
}
