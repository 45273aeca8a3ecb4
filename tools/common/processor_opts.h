/* SPDX-License-Identifier: BSD-3-Clause */
/* processor_opts.h - the options that choose the processor of a command. */
#ifndef TS_TOOLS_PROCESSOR_OPTS_H
#define TS_TOOLS_PROCESSOR_OPTS_H

#include <stddef.h>

#include "api/tools.h"

#define HELP_CPU "compute on CPU cores, even if there is a GPU"
#define HELP_GPUS                                                                             \
    "number of GPUs, or a list of GPU numbers such as 0,2. N takes the first N usable GPUs. " \
    "A list needs a comma: '2,' is GPU 2 alone. Each of several processes (mpirun, srun) "    \
    "takes the next N GPUs of its host; a list holds for each of them. The result does not "  \
    "depend on the GPUs. Default: 1 if there is a GPU; with several processes none. See "     \
    "tstream devices"
#define HELP_GPU_MEMORY                                                                  \
    "memory of each GPU for the whole run. It includes about 0.5G for the CUDA driver. " \
    "Shards that do not fit are sent from host memory in each sweep. Default: the free " \
    "memory, less a reserve"
#define HELP_EXCHANGE                                                                       \
    "how several GPUs exchange rows. nccl: an NCCL ring. copy: copies from GPU to GPU, in " \
    "one process. host: through host memory, which is slow. auto: copy if the GPUs reach "  \
    "each other's memory, otherwise nccl. With several processes auto is host if NCCL is "  \
    "missing or they share a GPU. The result does not depend on it"

/* Rows of an option table for a struct ts_processor that is at offset `at` of the arguments. The
 * rows of tstream cp are in base/settings.def. */
/* clang-format off */
#define TSTREAM_PROCESSOR_OPTS(at) \
    { "cpu", 0, TS_OPT_FLAG, (at) + offsetof(struct ts_processor, cpu), NULL, NULL, HELP_CPU }, \
    { "gpus", 'g', TS_OPT_STRING, (at) + offsetof(struct ts_processor, gpus), NULL, "N|LIST", HELP_GPUS }, \
    { "gpu-memory", 0, TS_OPT_SIZE, (at) + offsetof(struct ts_processor, device_bytes), NULL, "SIZE", HELP_GPU_MEMORY }, \
    { "exchange", 0, TS_OPT_CHOICE, (at) + offsetof(struct ts_processor, exchange), "auto", \
      "auto|nccl|copy|host", HELP_EXCHANGE }
/* clang-format on */

#endif
