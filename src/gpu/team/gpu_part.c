/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of all functions of src/gpu that other folders call. */
#include "config.h"

#include "gpu/team/gpu_part.h"

#include <cuda_runtime_api.h>
#ifdef HAVE_NCCL
#include <nccl.h>
#endif
#include <stdio.h>

#include "gpu/exchange/exchange_way.h"
#include "gpu/team/gpu_backend.h"

static void built(char *ret, size_t room)
{
    snprintf(ret, room, "CUDA %d.%d for %s", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10,
             CUDA_ARCHITECTURES);
}

#ifdef HAVE_NCCL
static void built_exchange(char *ret, size_t room)
{
    snprintf(ret, room, "copies from GPU to GPU, or NCCL (built with %d.%d.%d)", NCCL_MAJOR,
             NCCL_MINOR, NCCL_PATCH);
}

static int check_nccl(struct ts_err *err)
{
    return ts_exchange_nccl_there(err);
}
#else
static void built_exchange(char *ret, size_t room)
{
    snprintf(ret, room, "copies from GPU to GPU; NCCL is not built in");
}

static int check_nccl(struct ts_err *err)
{
    return ts_fail(err, TS_ELIMIT, "NCCL is not built in (--with-nccl of configure)");
}
#endif

const struct ts_gpu_part ts_gpu_part = {
    .backend = &ts_backend_gpu,
    .built = built,
    .built_exchange = built_exchange,
    .devices = ts_gpu_devices,
    .name = ts_gpu_name,
    .count = ts_gpu_count,
    .usable = ts_gpu_usable,
    .check_nccl = check_nccl,
    .exchange_used = ts_exchange_used,
    .exchange_note = ts_exchange_note,
    .speed_new = ts_exchange_speed_new,
    .speed_free = ts_exchange_speed_free,
    .speed_of = ts_exchange_speed_of,
    .speed_run = ts_exchange_speed_run,
};
