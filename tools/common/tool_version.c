/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the version of a program, and the libraries and kernels that it contains. */
#include "config.h"

#include "tools/common/tool_version.h"

#ifdef HAVE_ISAL
#include <isa-l.h>
#endif
#include <zlib.h>

#include "api/tools.h"

const char *tool_version(void)
{
    return PACKAGE_VERSION;
}

const char *tool_commit(void)
{
    return ts_version_commit();
}

static void print_gpus(FILE *to)
{
    const struct ts_gpu_part *gpu;
    struct ts_err why;
    char text[160];
    const int found = ts_gpu_part_find(&gpu, &why);
    if (found < 0)
        fprintf(to, "GPUs: refused: %s\n", why.text);
    else if (found == 0)
        fputs("GPUs: not built in\n", to);
    if (found <= 0)
        return;
    gpu->built(text, sizeof text);
    fprintf(to, "GPUs: %s\n", text);
    gpu->built_exchange(text, sizeof text);
    fprintf(to, "exchange: %s\n", text);
}

/* The name of the 16-byte vector instructions that this build uses. */
#ifdef __aarch64__
#define PORTABLE "NEON"
#else
#define PORTABLE "none; portable C"
#endif

void tool_version_print(const char *program, FILE *to)
{
    static const char *const isa[] = {
        [TS_ISA_PORTABLE] = PORTABLE, [TS_ISA_AVX2] = "AVX2", [TS_ISA_AVX512] = "AVX-512"
    };
    fprintf(to, "%s %s (commit %s)\n", program, tool_version(), tool_commit());
    print_gpus(to);
#ifdef HAVE_ISAL
    fprintf(to, "gzip: ISA-L %d.%d.%d\n", ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION,
            ISAL_PATCH_VERSION);
#else
    fprintf(to, "gzip: zlib %s; ISA-L is not built in\n", zlibVersion());
#endif
    fprintf(to, "packed text: %s\n", ts_decompress_names());
    fprintf(to, "vector code on this machine: %s\n", isa[ts_isa_best()]);
    fputs("licence: BSD-3-Clause, without warranty\n", to);
}
