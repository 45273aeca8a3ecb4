/* tstream_gpu.h - which processor a command computes on: the only place that knows whether GPUs were
 * built in.
 *
 *   errors   0 or a negative ts_code: what was asked for makes no sense, or is not there
 */
#ifndef TS_TOOLS_TSTREAM_GPU_H
#define TS_TOOLS_TSTREAM_GPU_H

#include "base/opt.h"
#include "stream/backend.h"

/* As the options give it. */
struct tstream_processor {
    int cpu;           /* --cpu */
    const char *gpus;  /* --gpus; NULL: a GPU when there is one */
    uint64_t device_bytes; /* --gpu-memory; 0: what is free */
    int exchange; /* enum ts_exchange_kind */
};

/* The rows of an option table that fill a struct tstream_processor at offset `at`. */
#define TSTREAM_PROCESSOR_OPTS(at) \
    { "cpu", 0, TS_OPT_FLAG, (at) + offsetof(struct tstream_processor, cpu), NULL, NULL, \
      "compute on CPU cores, also where there is a GPU" }, \
    { "gpus", 'g', TS_OPT_STRING, (at) + offsetof(struct tstream_processor, gpus), NULL, "N|LIST", \
      "GPUs to compute on: the first N that can be used, or those with these numbers, with commas " \
      "(0,2; number 2 alone: 2,). The result does not depend on it. Default: 1 where there is one, " \
      "see tstream devices" }, \
    { "gpu-memory", 0, TS_OPT_SIZE, (at) + offsetof(struct tstream_processor, device_bytes), NULL, \
      "SIZE", "memory of each GPU, all that the run takes of it, about 0.5G for the CUDA driver " \
      "included; shards that do not fit are sent from host memory again in each sweep. Default: what " \
      "is free, less a reserve" }, \
    { "exchange", 0, TS_OPT_CHOICE, (at) + offsetof(struct tstream_processor, exchange), "auto", \
      "auto|nccl|copy", "how several GPUs exchange rows: by an NCCL ring, or by copies from GPU to GPU; " \
      "auto: copies where all reach each other's memory. The result does not depend on it" }

/* Whether the options make sense, wherever they are used: 0 or TS_EARG. */
int tstream_processor_check(const struct tstream_processor *want, struct ts_err *err);

/* The backend, and in conf its devices and their budget; n_devices is 0 for the CPU. Where that is so
 * by default, but there is a driver of GPUs, *no_gpu (may be NULL) says why. */
int tstream_processor_choose(const struct tstream_processor *want, const struct ts_backend **ret,
                             struct ts_backend_conf *conf, struct ts_err *no_gpu,
                             struct ts_err *err);

#endif
