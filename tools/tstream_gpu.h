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
      "SIZE", "memory of each GPU for factors and shards; what does not fit is sent from host memory " \
      "again in each sweep. The CUDA driver takes about 0.5G more. Default: what is free, less a " \
      "reserve" }

/* Whether the options make sense, wherever they are used: 0 or TS_EARG. */
int tstream_processor_check(const struct tstream_processor *want, struct ts_err *err);

/* The backend, and in conf its devices and their budget; n_devices is 0 for the CPU. */
int tstream_processor_choose(const struct tstream_processor *want, const struct ts_backend **ret,
                             struct ts_backend_conf *conf, struct ts_err *err);

#endif
