/* SPDX-License-Identifier: BSD-3-Clause */
/* sweep.h - the shortest sweep that `tstream cp` reports, beside what it may take.
 *
 *   units    seconds
 *   threads  one thread calls
 *   errors   sweep_time returns 0 when the program cannot be run
 */
#ifndef TS_BENCH_SWEEP_H
#define TS_BENCH_SWEEP_H

#include <stdint.h>

#include "format/tensor.h"

struct sweep {
    double all, products, waiting, solve;
    double adds; /* what the multiply-adds between its MTTKRPs take from registers, on all cores */
    double may;  /* 1.1 x its MTTKRPs with waiting, 5 us a mode, and these multiply-adds */
};

/* Of 20 sweeps of `program` cp --cpu, with more options; 1, or 0. */
int sweep_time(const char *program, const struct ts_tensor *t, uint32_t rank, uint32_t threads,
               const char *options, struct sweep *ret);

#endif
