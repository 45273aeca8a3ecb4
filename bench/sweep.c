/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs `tstream cp` and reads what it says of its sweeps. */
#include "bench/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"

static double member(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    return at == NULL ? 0 : strtod(at + strlen(name), NULL);
}

/* Multiply-adds between the MTTKRPs of a sweep: A = M w, half of A' A, and the inverse, in each
 * mode. */
static double adds_of(const struct ts_tensor *t, double rank)
{
    double sum = 0;
    for (uint32_t m = 0; m < t->order; m++)
        sum += (double)t->mode[m].disk.n_rows * rank * (rank + (rank + 1) / 2) +
               rank * rank * rank / 2;
    return sum;
}

int sweep_time(const char *program, const struct ts_tensor *t, uint32_t rank, uint32_t threads,
               const char *options, struct sweep *ret)
{
    char command[4096], line[4096];
    struct sweep best = { 0 };
    FILE *f;
    snprintf(command, sizeof command,
             "'%s' cp '%s' --cpu --rank %u --iters 20 --tol 0 --threads %u --no-output --json %s",
             program, t->path, rank, threads, options);
    f = popen(command, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        const double all = member(line, "\"seconds\":");
        if (strstr(line, "\"event\":\"sweep\"") == NULL || (best.all > 0 && best.all <= all))
            continue;
        best.all = all;
        best.products = member(line, "\"kernel_seconds\":");
        best.waiting = member(line, "\"wait_seconds\":");
        best.solve = member(line, "\"solve_seconds\":");
    }
    if (f != NULL)
        pclose(f);
    if (best.all == 0)
        return 0;
    best.adds = adds_of(t, rank) / measure_fma(threads);
    best.may = 1.1 * (best.products + best.waiting) + 5e-6 * t->order + best.adds;
    *ret = best;
    return 1;
}
