/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_module.c - a libtstream-cuda.so without CUDA, for check_gpu_module.sh: it says that it was
 * loaded, and lists GPUS devices that do not compute. ABI, VERSION and BYTES give it a note that
 * does not fit, and FUNCTION another name of its function. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "gpu/module/gpu_abi.h"
#include "gpu/module/gpu_note.h"

#ifndef ABI
#define ABI TS_GPU_ABI
#endif
#ifndef VERSION_HERE
#define VERSION_HERE PACKAGE_VERSION
#endif
#ifndef FUNCTION
#define FUNCTION ts_gpu_module_open
#endif
#ifndef GPUS
#define GPUS 1
#endif

#ifdef BYTES
__attribute__((section(".note.tstream"), used,
               aligned(4))) static const struct ts_gpu_note_section note = {
    sizeof TS_GPU_NOTE_OWNER,
    sizeof(struct ts_gpu_note) + 8,
    TS_GPU_NOTE_TYPE,
    TS_GPU_NOTE_OWNER,
    { VERSION_HERE, ABI, { BYTES } }
};
#elif !defined NO_NOTE
TS_GPU_NOTE_SECTION(VERSION_HERE, ABI);
#endif

static const struct ts_gpu_calls *calls;

__attribute__((constructor)) static void say_loaded(void)
{
    fputs("FAKE MODULE LOADED\n", stderr);
}

static int count(char *why)
{
    strcpy(why, "this is a fake");
    return GPUS;
}

static int usable(int number, char *why)
{
    (void)number;
    calls->ts_setting_write("it is a fake: use " TS_SET_CPU, why, 160);
    return 0;
}

static int devices(struct ts_gpu_device *ret, char *why)
{
    memset(ret, 0, GPUS * sizeof *ret);
    for (int i = 0; i < GPUS; i++) {
        ret[i].number = i;
        strcpy(ret[i].name, "Fake");
        ret[i].usable = GPUS > 1;
        usable(i, ret[i].why);
    }
    return count(why);
}

static void say_built(char *ret, size_t room)
{
    snprintf(ret, room, "nothing");
}

static int check_nccl(struct ts_err *err)
{
    snprintf(err->text, sizeof err->text, "a fake has no NCCL");
    return err->code = TS_ELIMIT;
}

static const struct ts_gpu_part part = { .built = say_built,
                                         .built_exchange = say_built,
                                         .devices = devices,
                                         .count = count,
                                         .usable = usable,
                                         .check_nccl = check_nccl };

__attribute__((visibility("default"))) const struct ts_gpu_part *
FUNCTION(const struct ts_gpu_calls *given)
{
    calls = given;
    return &part;
}
