/* SPDX-License-Identifier: BSD-3-Clause */
/* Defines the parts of the shared object that are not in a linked build: its note, the function
 * that it exports, and a forwarder for each function of src/base, src/format and src/stream that
 * src/gpu calls. A forwarder calls the function of the program or library that has opened the
 * shared object. */
#include "config.h"

#include <stdio.h>

#include "gpu/exchange/exchange_way.h"
#include "gpu/module/gpu_abi.h"
#include "gpu/module/gpu_note.h"

#define SENTENCE_CHARS 2048u

TS_GPU_NOTE_SECTION(PACKAGE_VERSION, TS_GPU_ABI);

static const struct ts_gpu_calls *others;

__attribute__((visibility("default"))) const struct ts_gpu_part *
ts_gpu_module_open(const struct ts_gpu_calls *calls)
{
    others = calls;
    ts_exchange_nccl_file = calls->nccl;
    return &ts_gpu_part;
}

#define GIVE(type, name, params, args) \
    type name params                   \
    {                                  \
        return others->name args;      \
    }
#define DO(name, params, args) \
    void name params           \
    {                          \
        others->name args;     \
    }
#include "gpu/module/gpu_calls.def"

int ts_fail(struct ts_err *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    code = ts_vfail(err, code, fmt, ap);
    va_end(ap);
    return code;
}

void ts_setting_print(char *ret, size_t room, const char *fmt, ...)
{
    char text[SENTENCE_CHARS];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ts_setting_write(text, ret, room);
}
