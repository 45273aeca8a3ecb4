/* SPDX-License-Identifier: BSD-3-Clause */
/* processor.h - which processor a run computes on: the only place that knows whether GPUs were
 * built in.
 *
 *   errors   0 or a negative ts_code: what was asked for makes no sense, or is not there
 */
#ifndef TS_ENGINE_PROCESSOR_H
#define TS_ENGINE_PROCESSOR_H

#include "stream/backend.h"

/* As options of commands give it. */
struct ts_processor {
    int cpu;               /* --cpu */
    const char *gpus;      /* --gpus; NULL: a GPU when there is one */
    uint64_t device_bytes; /* --gpu-memory; 0: what is free */
    int exchange;          /* enum ts_exchange_kind */
};

/* Whether the options make sense, wherever they are used: 0 or TS_EARG. */
int ts_processor_check(const struct ts_processor *want, struct ts_err *err);

/* The backend, and in conf its devices and their budget; n_devices is 0 for the CPU. Where that is so
 * by default, but there is a driver of GPUs, *no_gpu (may be NULL) says why. */
int ts_processor_choose(const struct ts_processor *want, const struct ts_backend **ret,
                        struct ts_backend_conf *conf, struct ts_err *no_gpu, struct ts_err *err);

/* The name of a GPU that is in use, "" when it is not known. */
void ts_processor_name(int number, char *ret, size_t room);

#endif
