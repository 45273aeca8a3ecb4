/* SPDX-License-Identifier: BSD-3-Clause */
/* processor_opts.h - the options that say which processor a command computes on. */
#ifndef TS_TOOLS_PROCESSOR_OPTS_H
#define TS_TOOLS_PROCESSOR_OPTS_H

#include <stddef.h>

#include "api/tools.h"

#define HELP_CPU "compute on CPU cores, also where there is a GPU"
#define HELP_GPUS                                                                                  \
    "GPUs to compute on: the first N that can be used, or those with these numbers, with commas "  \
    "(0,2; number 2 alone: 2,). Of several processes (mpirun, srun) each takes so many, those of " \
    "one host in turn, or those of the list. The result does not depend on it. Default: 1 where "  \
    "there is one, and of several processes none; see tstream devices"
#define HELP_GPU_MEMORY                                                                            \
    "memory of each GPU, all that the run takes of it, about 0.5G for the CUDA driver included; "  \
    "shards that do not fit are sent from host memory again in each sweep. Default: what is "      \
    "free, less a reserve"
#define HELP_EXCHANGE                                                                              \
    "how several GPUs exchange rows: by an NCCL ring; by copies from GPU to GPU, of one process; " \
    "or through host memory, which is slow. auto: copies where all reach each other's memory, "    \
    "else NCCL, and of several processes host memory where there is no NCCL or they share a GPU. " \
    "The result does not depend on it"

/* The rows of an option table that fill a struct ts_processor at offset `at`. Those of tstream cp are in base/settings.def. */
/* clang-format off */
#define TSTREAM_PROCESSOR_OPTS(at) \
    { "cpu", 0, TS_OPT_FLAG, (at) + offsetof(struct ts_processor, cpu), NULL, NULL, HELP_CPU }, \
    { "gpus", 'g', TS_OPT_STRING, (at) + offsetof(struct ts_processor, gpus), NULL, "N|LIST", HELP_GPUS }, \
    { "gpu-memory", 0, TS_OPT_SIZE, (at) + offsetof(struct ts_processor, device_bytes), NULL, "SIZE", HELP_GPU_MEMORY }, \
    { "exchange", 0, TS_OPT_CHOICE, (at) + offsetof(struct ts_processor, exchange), "auto", \
      "auto|nccl|copy|host", HELP_EXCHANGE }
/* clang-format on */

#endif
