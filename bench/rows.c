/* SPDX-License-Identifier: BSD-3-Clause */
/* rows - measures the steps between two MTTKRPs of a sweep for each number of threads: parallel
 * regions, barriers, cache lines that move from core to core, and the row solve with its scaling,
 * beside the time of its multiply-adds.
 *
 *   rows [--threads A,B,..] [--ranks A,B,..] [--rows A,B,..] */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/opt.h"
#include "bench/measure.h"
#include "cpu/rows/rowsolve.h"

#define MOST  16
#define TURNS 300

struct args {
    const char *threads, *ranks, *rows;
};

#define AT(field) offsetof(struct args, field)
static const struct ts_opt opts[] = {
    { "threads", 'j', TS_OPT_STRING, AT(threads), NULL, "LIST",
      "numbers of threads; by default 1 and all CPUs" },
    { "ranks", 'r', TS_OPT_STRING, AT(ranks), "16,32,64", "LIST", "ranks" },
    { "rows", 0, TS_OPT_STRING, AT(rows), "230,365,5856,13891", "LIST", "rows" },
    { 0 },
};
static const struct ts_cmd cmd = {
    .program = "rows",
    .operands = "",
    .summary = "times what lies between two MTTKRPs of a sweep",
    .opts = opts,
};

/* Numbers divided by commas. */
static uint32_t parse_list(const char *text, uint32_t *ret)
{
    uint32_t n = 0;
    while (*text != '\0' && n < MOST) {
        char *end;
        ret[n++] = (uint32_t)strtoul(text, &end, 10);
        if (end == text || ret[n - 1] == 0) {
            fprintf(stderr, "rows: '%s' is not a list of numbers like 1,16\n", text);
            exit(2);
        }
        text = end + (*end == ',');
    }
    return n;
}

static void check(int rc, const struct ts_err *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "rows: %s\n", err->text);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double list[TURNS];

static double median(double *x, uint32_t n)
{
    qsort(x, n, sizeof *x, compare);
    return x[n / 2];
}

static double us_since(uint64_t start)
{
    return 1e-3 * (double)(ts_clock_ns() - start);
}

static void wait_us(double us)
{
    const uint64_t start = ts_clock_ns();
    while (us_since(start) < us)
        ;
}

/* ---- threads ---- */

/* A region with so many barriers in it, after so long without. */
static double region(uint32_t threads, int barriers, double idle)
{
    for (int k = 0; k < TURNS; k++) {
        uint64_t start;
        wait_us(idle);
        start = ts_clock_ns();
#pragma omp parallel num_threads(threads)
        for (int i = 0; i < barriers; i++) {
#pragma omp barrier
        }
        list[k] = us_since(start);
    }
    return median(list, TURNS);
}

static void regions(uint32_t threads)
{
    const double none = region(threads, 0, 0);
    printf(
        "%2u threads, us: region %.1f, after 20, 200, 2000 us alone %.1f %.1f %.1f, barrier %.2f\n",
        threads, none, region(threads, 0, 20), region(threads, 0, 200), region(threads, 0, 2000),
        (region(threads, 10, 0) - none) / 10);
}

/* ---- lines ---- */

/* ns for a line of 64 bytes that `by` threads further on has written: read, then written. */
static void lines(uint32_t threads)
{
    const size_t each = 1024; /* 64 KB */
    uint64_t *x = aligned_alloc(4096, threads * each * 64), sink = 0;
    struct ts_err err;
    if (x == NULL)
        check(ts_fail(&err, TS_ENOMEM, "out of memory"), &err);
    memset(x, 1, threads * each * 64);
    printf(
        "%u threads, each 64 KB that a thread so far off has written, ns a line: read, written\n ",
        threads);
    for (uint32_t by = 0; by < threads; by = by == 0 ? 1 : 2 * by) {
        static double reads[TURNS], writes[TURNS];
        for (int k = 0; k < TURNS; k++) {
            double r = 0, w = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sink, r, w)
            {
                const uint32_t me = (uint32_t)omp_get_thread_num();
                uint64_t *own = x + me * each * 8, *other = x + (me + by) % threads * each * 8;
                uint64_t start;
                for (size_t i = 0; i < each; i++)
                    own[8 * i] = i + (uint64_t)k;
#pragma omp barrier
                start = ts_clock_ns();
                for (size_t i = 0; i < each; i++)
                    sink += other[8 * i];
                r += (double)(ts_clock_ns() - start);
                start = ts_clock_ns();
                for (size_t i = 0; i < each; i++)
                    ((volatile uint64_t *)other)[8 * i] = i;
                w += (double)(ts_clock_ns() - start);
            }
            reads[k] = r / threads / (double)each;
            writes[k] = w / threads / (double)each;
        }
        printf(" by %u %.1f %.1f,", by, median(reads, TURNS), median(writes, TURNS));
    }
    printf("%s\n", sink == 1 ? "." : "");
    free(x);
}

/* ---- rows ---- */

struct subject {
    struct ts_fmat f;
    struct ts_rowsolve *s;
    double *w, *gram, *by;
    uint32_t threads;
};

static volatile float kept;

/* Rows as MTTKRPs leave them: read by all threads, then written by `writers` of them, in equal
 * parts from thread `by` on. */
static void produce(struct subject *x, uint32_t writers, uint32_t by)
{
#pragma omp parallel num_threads(x->threads)
    {
        const uint32_t k = ((uint32_t)omp_get_thread_num() + by) % x->threads;
        const uint64_t n = x->f.n_rows * x->f.stride, rows = (x->f.n_rows + writers - 1) / writers;
        const uint64_t end = (k + 1) * rows < x->f.n_rows ? (k + 1) * rows : x->f.n_rows;
        float *at = x->f.data, sum = 0;
        for (uint64_t i = 0; i < n; i += 16)
            sum += at[i];
#pragma omp critical
        kept = sum;
#pragma omp barrier
        for (uint64_t i = k * rows; k < writers && i < end; i++)
            for (uint32_t r = 0; r < x->f.stride; r++)
                at[i * x->f.stride + r] = r < x->f.rank ? (float)(i % 7 + r) : 0;
    }
}

static void time_rows(struct subject *x, uint32_t writers, uint32_t by, double *rows, double *scale)
{
    static double second[TURNS];
    const struct ts_row_update how = { .kind = TS_ROW_LEAST_SQUARES, .matrix = x->w };
    const struct ts_row_sums sums = { .gram = x->gram };
    struct ts_err err;
    for (int k = -20; k < TURNS; k++) {
        uint64_t start;
        if (writers > 0)
            produce(x, writers, by);
        start = ts_clock_ns();
        check(ts_rowsolve_run(x->s, &x->f, NULL, &how, &sums, NULL, &err), &err);
        if (k >= 0)
            list[k] = us_since(start);
        start = ts_clock_ns();
        ts_rowsolve_scale(x->s, &x->f, x->by, 0, 1);
        if (k >= 0)
            second[k] = us_since(start);
    }
    *rows = median(list, TURNS);
    *scale = median(second, TURNS);
}

static void rows_of(uint64_t n_rows, uint32_t rank, uint32_t threads, double fma)
{
    struct subject x = { .threads = threads };
    const double adds = (double)n_rows * rank * (rank + (rank + 1) / 2.0);
    double rows[3], scale[3];
    struct ts_err err;
    check(ts_fmat_new(n_rows, rank, TS_FLOAT32, "rows", &x.f, &err), &err);
    check(ts_rowsolve_new(n_rows, rank, ts_isa_best(), threads, &x.s, &err), &err);
    x.w = calloc((size_t)rank * rank, sizeof *x.w);
    x.gram = calloc((size_t)rank * rank, sizeof *x.gram);
    x.by = calloc(rank, sizeof *x.by);
    if (x.w == NULL || x.gram == NULL || x.by == NULL)
        check(ts_fail(&err, TS_ENOMEM, "out of memory"), &err);
    for (uint32_t r = 0; r < rank; r++)
        x.w[(size_t)r * rank + r] = x.by[r] = 1;
    time_rows(&x, 0, 0, &rows[0], &scale[0]);
    time_rows(&x, threads, 1, &rows[1], &scale[1]);
    time_rows(&x, threads < 6 ? threads : 6, 3, &rows[2], &scale[2]);
    printf("%8lu %4u %7u %9.1f %9.1f %9.1f %9.1f %6.1f %6.1f %6.1f\n", (unsigned long)n_rows, rank,
           threads, 1e6 * adds / fma, rows[0], rows[1], rows[2], scale[0], scale[1], scale[2]);
    fflush(stdout);
    ts_fmat_free(&x.f);
    ts_rowsolve_free(x.s);
    free(x.w);
    free(x.gram);
    free(x.by);
}

int main(int argc, char **argv)
{
    uint32_t threads[MOST] = { 1, (uint32_t)omp_get_num_procs() }, rank[MOST], rows[MOST];
    uint32_t n, n_ranks, n_rows, n_operands;
    double fma[MOST];
    struct args args;
    struct ts_err err;
    char *operand[1];
    const int rc = ts_opt_parse(&cmd, argc, argv, &args, &n_operands, operand, NULL, &err);
    check(rc, &err);
    if (rc == 1) {
        ts_opt_help(&cmd, stdout);
        return 0;
    }
    n = args.threads == NULL ? 1 + (threads[1] > 1) : parse_list(args.threads, threads);
    n_ranks = parse_list(args.ranks, rank);
    n_rows = parse_list(args.rows, rows);
    for (uint32_t t = 0; t < n; t++) {
        fma[t] = measure_fma(threads[t]);
        printf("%2u threads: %.0f G multiply-adds/s\n", threads[t], 1e-9 * fma[t]);
        regions(threads[t]);
        if (threads[t] > 1)
            lines(threads[t]);
    }
    printf(
        "\nus of rows, and of scaling: in the caches of who solves them, of others, of 6 threads\n"
        "%8s %4s %7s %9s\n",
        "rows", "rank", "threads", "adds");
    for (uint32_t i = 0; i < n_rows; i++)
        for (uint32_t r = 0; r < n_ranks; r++)
            for (uint32_t t = 0; t < n; t++)
                rows_of(rows[i], rank[r], threads[t], fma[t]);
    return 0;
}
