/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_part.h - a table of all functions of src/gpu that other folders call.
 *
 * The engine gets the table from engine/gpu_part_find.h. The table is linked in, or is part of a
 * shared object (gpu/module/gpu_note.h). So no code outside of src/gpu calls a function of src/gpu
 * by its name.
 *
 *   errors   as in the headers that are included here
 */
#ifndef TS_GPU_GPU_PART_H
#define TS_GPU_GPU_PART_H

#include "gpu/exchange/exchange_speed.h"
#include "gpu/team/gpu_devices.h"
#include "stream/backend.h"

struct ts_gpu_part {
    const struct ts_backend *backend;

    /* Write how the code for GPUs was compiled, such as "CUDA 13.0 for sm_80,sm_90", and the ways
     * of exchange between GPUs that it supports. */
    void (*built)(char *ret, size_t room);
    void (*built_exchange)(char *ret, size_t room);

    /* functions of gpu_devices.h */
    int (*devices)(struct ts_gpu_device *ret, char *why);
    void (*name)(int number, char *ret, size_t room);
    int (*count)(char *why);
    int (*usable)(int number, char *why);

    /* Loads NCCL. Returns 0, or a negative ts_code with a message that gives the reason. */
    int (*check_nccl)(struct ts_err *err);

    /* functions of exchange.h and exchange_speed.h */
    enum ts_exchange_kind (*exchange_used)(const struct ts_exchange *x);
    const char *(*exchange_note)(const struct ts_exchange *x);
    int (*speed_new)(const int *device, uint32_t n, enum ts_exchange_kind kind, uint64_t most_bytes,
                     const volatile sig_atomic_t *stop, struct ts_exchange_speed **ret,
                     struct ts_err *err);
    void (*speed_free)(struct ts_exchange_speed *s);
    const struct ts_exchange *(*speed_of)(const struct ts_exchange_speed *s);
    int (*speed_run)(struct ts_exchange_speed *s, uint64_t bytes, int unequal, uint64_t *ns,
                     struct ts_err *err);
};

extern const struct ts_gpu_part ts_gpu_part;

#endif
