/* SPDX-License-Identifier: BSD-3-Clause */
/* processor.h - chooses the processor of a run: GPUs, if the GPU part is installed, or CPU cores.
 *
 *   errors   0 or a negative ts_code: a request that is impossible, or a device that does not exist
 */
#ifndef TS_ENGINE_PROCESSOR_H
#define TS_ENGINE_PROCESSOR_H

#include "stream/backend.h"

/* The user's choice of a processor, as in the options. */
struct ts_processor {
    int cpu;               /* 1: --cpu was given */
    const char *gpus;      /* the value of --gpus; NULL: one GPU, if one is usable */
    uint64_t device_bytes; /* GPU memory, from --gpu-memory; 0: the free memory */
    int exchange;          /* value of enum ts_exchange_kind: how GPUs exchange rows */
};

/* Checks the options without regard to the machine: 0 or TS_EARG. */
int ts_processor_check(const struct ts_processor *asked_for, struct ts_err *err);

/* Returns the number of GPUs that the user requested. 0: none, or ts_processor_check refuses the
 * options. */
uint32_t ts_processor_gpus(const struct ts_processor *asked_for);

/* Chooses a backend with all capabilities in conf->needs, and sets its devices and their budget in
 * conf. n_devices is 0 for the CPU. *no_gpu (may be NULL): why the CPU was chosen by default,
 * although a GPU driver exists. */
int ts_processor_choose(const struct ts_processor *asked_for, const struct ts_backend **ret,
                        struct ts_backend_conf *conf, struct ts_err *no_gpu, struct ts_err *err);

/* Sets ret to the name of GPU `number`, which is in use; "" if the name is not known. */
void ts_processor_name(int number, char *ret, size_t room);

#endif
